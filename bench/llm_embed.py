#!/usr/bin/env python3
"""llm_embed.py -- embeddings and scores beside transformers.

    bench/llm_embed.py [NAME...] [--model FOLDER] [--tenon build/tenon]

Makes a tiny model of random weights for each architecture that embeds, and a WordPiece or byte-level tokenizer, and compares
`tenon embed` (mean, first and last) and `tenon rerank` with what transformers computes in f32.  --model compares a model of
yours instead, with vectors of length 1 by the model's own pooling where sentence-transformers is there.  Prints the largest difference of
each, and ends with status 1 where one is above 2e-5 of the largest element.

Needs torch and transformers.
"""
import argparse, json, os, subprocess, sys, tempfile

import numpy as np
import torch
import transformers as T
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

LIMIT = 2e-5
TEXTS = ["the capital of france is paris", "a dog", "It was a bright cold day in April, and the clocks were striking thirteen. " * 3]
QUERY = "what is the capital of france"
ENCODER = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80, max_position_embeddings=260)
DECODER = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=80, max_position_embeddings=260,
               head_dim=12, pad_token_id=0)


def tokenizer(folder, decoder):
    letters = [chr(c) for c in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "of", "capital", "is", "##ing", *letters, *["##" + c for c in letters]]
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens(words[:5])
    pair = "$A [SEP]" if decoder else "[CLS] $A [SEP] $B:1 [SEP]:1"
    t.post_processor = processors.TemplateProcessing(single="$A [SEP]" if decoder else "[CLS] $A [SEP]", pair=None if decoder else pair,
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.save(folder + "/tokenizer.json")
    with open(folder + "/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}, f)
    return len(words)


def distil(kind, config):
    names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim"}
    return getattr(T, kind)(T.DistilBertConfig(**{names.get(k, k): v for k, v in config.items()}))


# name: (what makes the model, whether it scores pairs)
MODELS = {
    "bert": (lambda c: T.BertModel(T.BertConfig(**c)), False),
    "bert-mlm": (lambda c: T.BertForMaskedLM(T.BertConfig(**c, hidden_act="gelu_new")), False),
    "bert-rank": (lambda c: T.BertForSequenceClassification(T.BertConfig(**c, num_labels=1)), True),
    "bert-rank3": (lambda c: T.BertForSequenceClassification(T.BertConfig(**c, num_labels=3)), True),
    "roberta": (lambda c: T.RobertaModel(T.RobertaConfig(**c, pad_token_id=1, type_vocab_size=1)), False),
    "roberta-rank": (lambda c: T.RobertaForSequenceClassification(T.RobertaConfig(**c, pad_token_id=1, type_vocab_size=1, num_labels=1)), True),
    "xlmr": (lambda c: T.XLMRobertaModel(T.XLMRobertaConfig(**c, pad_token_id=1, type_vocab_size=1)), False),
    "xlmr-rank": (lambda c: T.XLMRobertaForSequenceClassification(T.XLMRobertaConfig(**c, pad_token_id=1, type_vocab_size=1, num_labels=1)), True),
    "distilbert": (lambda c: distil("DistilBertModel", c), False),
    "distil-rank": (lambda c: distil("DistilBertForSequenceClassification", {**c, "num_labels": 1}), True),
    "qwen3": (lambda c: T.Qwen3ForCausalLM(T.Qwen3Config(**c, tie_word_embeddings=True)), False),
    "qwen2-base": (lambda c: T.Qwen2Model(T.Qwen2Config(**{k: v for k, v in c.items() if k != "head_dim"})), False),
    "mistral-base": (lambda c: T.MistralModel(T.MistralConfig(**c, sliding_window=20)), False),
    "gpt2": (lambda c: T.GPT2LMHeadModel(T.GPT2Config(vocab_size=c["vocab_size"], n_embd=48, n_layer=2, n_head=4, n_positions=260)), False),
}
DECODERS = {"qwen3", "qwen2-base", "mistral-base", "gpt2"}


def make(name, folder):
    torch.manual_seed(7)
    size = tokenizer(folder, name in DECODERS)
    m = MODELS[name][0]({**(DECODER if name in DECODERS else ENCODER), "vocab_size": size}).eval()
    with torch.no_grad():
        for p in m.parameters(): p.copy_(p + torch.randn_like(p) * 0.2)
    m.save_pretrained(folder)
    return m


def lines(tenon, *args):
    p = subprocess.run([tenon, *args], capture_output=True, text=True)
    if p.returncode: raise SystemExit(f"tenon {' '.join(args)}\n{p.stderr}")
    return [json.loads(line) for line in p.stdout.splitlines()]


def base(m): return getattr(m, m.base_model_prefix) if hasattr(m, m.base_model_prefix) else m


def hidden(m, tok, text):
    ids = torch.tensor([tok.encode(text).ids])
    with torch.no_grad(): return base(m)(input_ids=ids).last_hidden_state[0].double().numpy()


def difference(got, want): return float(np.abs(np.array(got) - want).max() / np.abs(want).max())


def check(tenon, name, folder):
    m = make(name, folder)
    tok = Tokenizer.from_file(folder + "/tokenizer.json")
    texts = [a for t in TEXTS for a in ("-p", t)]
    rows = [hidden(m, tok, t) for t in TEXTS]
    found = {}
    for how, pick in (("mean", lambda r: r.mean(0)), ("first", lambda r: r[0]), ("last", lambda r: r[-1])):
        got = lines(tenon, "embed", folder, *texts, "--raw", "--pooling", how)
        assert [g["tokens"] for g in got] == [len(r) for r in rows], "tokens"
        found[how] = max(difference(g["embedding"], pick(r)) for g, r in zip(got, rows))
    if MODELS[name][1]:
        want = []
        for t in TEXTS:
            e = tok.encode(QUERY, t)
            types = e.type_ids if getattr(m.config, "type_vocab_size", 1) > 1 else [0] * len(e.ids)
            more = {} if name.startswith("distil") else {"token_type_ids": torch.tensor([types])}
            with torch.no_grad(): want.append(m(input_ids=torch.tensor([e.ids]), **more).logits[0].double().numpy())
        got = {g["index"]: g["scores"] for g in lines(tenon, "rerank", folder, "-q", QUERY, *texts, "--json")}
        found["scores"] = difference([got[i] for i in range(len(TEXTS))], np.array(want))
    return found


def check_own(tenon, folder):
    from sentence_transformers import SentenceTransformer
    want = SentenceTransformer(folder, device="cpu").encode(TEXTS, normalize_embeddings=True).astype(np.float64)
    got = lines(tenon, "embed", folder, *[a for t in TEXTS for a in ("-p", t)])
    return {"vectors": difference([g["embedding"] for g in got], want)}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("names", nargs="*")
    a.add_argument("--model")
    a.add_argument("--tenon", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/tenon"))
    a = a.parse_args()
    worst = 0.0
    for name in [a.model] if a.model else a.names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            found = check_own(a.tenon, name) if a.model else check(a.tenon, name, folder)
        worst = max(worst, *found.values())
        print(f"{name:14} " + "  ".join(f"{k} {v:.1e}" for k, v in found.items()), flush=True)
    print(f"largest difference {worst:.1e} (limit {LIMIT:g})")
    return worst > LIMIT


if __name__ == "__main__": sys.exit(main())
