#!/usr/bin/env python3
"""llm_engine.py -- log-probabilities of served language models against transformers in f32.

    bench/llm_engine.py MODELS [NAME...] [--dtype f32,bf16] [--kv TYPE] [--gguf LLAMA_CPP] [--target cpu] [--batch 7]

MODELS has a folder for each model (config.json, weights, tokenizer, ids.npy with 40 tokens).  Three requests run together in
steps of at most 7 rows: prompts of 40, 29 and 11 tokens, then 24 greedy tokens each, over pages and states.  What transformers
computes of the same tokens in f32, one sequence as a whole, must agree: the log-probability of every prompt token, and those of
the 20 most probable tokens at each of the 24 steps.  Limits: 2e-5 in f32; 5e-2 with weights, keys and values in bf16.
--gguf also converts each folder with llama.cpp's converter (its source folder) and serves the file, with a tokenizer of bytes.
Where a file cannot say a key of config.json (llm_check.ASSUMED), it is compared with the model that it stands for.
--kv gives keys and values another type than the weights.

Needs numpy, torch and transformers.  Ends with status 1 where a difference is above its limit or a model fails.
"""
import argparse, os, sys, tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "bench")]
os.environ.setdefault("TENON_LIBRARY", os.path.join(ROOT, "build", "libtenon.so"))
import llm_check, tenon

LIMIT = {"f32": 2e-5, "bf16": 5e-2}
PROMPTS, TOKENS, TOP = (40, 29, 11), 24, 20


def prompts_of(folder):
    ids = [int(t) for t in np.load(folder + "/ids.npy")[0]]
    return [(ids[i * 5 :] + ids[: i * 5])[:n] for i, n in enumerate(PROMPTS)]


def served(model, prompts, dtype, args):
    with tenon.LLM(model, threads=1, sequences=len(prompts), batch=args.batch, draft=0, kv_dtype=args.kv or dtype, exact=True, target=args.target) as llm:
        return llm.generate(prompts, max_tokens=TOKENS, logprobs=TOP, prompt_logprobs=True, ignore_end=True)


def reference_of(folder, dtype, otherwise=None):
    """The model in f32; of weights that were rounded, where dtype says so; with other keys of config.json."""
    import torch, transformers
    torch.set_num_threads(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    for key, value in (otherwise or {}).items(): setattr(config, key, [0.0, float("inf")] if key == "time_step_limit" else value)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, config=config, attn_implementation="eager",
                                                              dtype=getattr(torch, {"f32": "float32", "bf16": "bfloat16"}[dtype]))
    return model.eval()


def log_probabilities(model, tokens):
    import torch
    with torch.no_grad(): return llm_check.log_probabilities(model(torch.tensor([tokens])).logits[0].numpy())


def difference(model, prompt, answer):
    want = log_probabilities(model, prompt + answer.tokens)
    worst = max(abs(want[i, t] - got) for i, (t, got) in enumerate(zip(prompt[1:], answer.prompt_logprobs)))
    for i, top in enumerate(answer.top_logprobs):
        row = want[len(prompt) + i - 1]
        worst = max(worst, max(abs(row[t] - x) for t, x in top), row.max() - row[answer.tokens[i]])
    return worst


def check(name, form, path, model, dtype, prompts, args, note=""):
    """Whether it is right."""
    try: worst = max(difference(model, p, a) for p, a in zip(prompts, served(path, prompts, dtype, args)))
    except tenon.TenonError as error:
        print(f"{name:12} {form:7} {dtype:5} {str(error)[:150]}  WRONG", flush=True)
        return False
    good = worst <= LIMIT[dtype]
    print(f"{name:12} {form:7} {dtype:5} {worst:.2e}" + note + ("" if good else "  WRONG"), flush=True)
    return good


def check_model(name, args, scratch):
    folder, results = f"{args.models}/{name}", []
    prompts = prompts_of(folder)
    for dtype in args.dtype.split(","):
        model, path = reference_of(folder, dtype), folder
        if dtype != "f32":
            import transformers
            path = f"{scratch}/{name}-{dtype}"
            model.save_pretrained(path)
            transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(path)
            model = model.float()
        results.append(check(name, "folder", path, model, dtype, prompts, args))
        if not args.gguf or dtype != "f32": continue
        file = f"{scratch}/{name}.gguf"
        why = llm_check.convert(args.gguf, folder, file)
        otherwise = llm_check.lost(folder)
        if why:
            print(f"{name:12} gguf    not converted: {why}", flush=True)
        elif "n_groups" in otherwise:  # norms by group, which transformers does not have
            print(f"{name:12} gguf    another model, and no reference", flush=True)
        else:
            other = reference_of(folder, dtype, otherwise) if otherwise else model
            note = f"  with {', '.join(otherwise)} as the file has it" if otherwise else ""
            results.append(check(name, "gguf", file, other, dtype, prompts, args, note))
    return results


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models")
    a.add_argument("names", nargs="*")
    a.add_argument("--dtype", default="f32,bf16")
    a.add_argument("--kv")
    a.add_argument("--gguf", metavar="LLAMA_CPP")
    a.add_argument("--target", default="cpu")
    a.add_argument("--batch", type=int, default=7)
    args = a.parse_args()
    names = args.names or sorted(n for n in os.listdir(args.models) if os.path.exists(f"{args.models}/{n}/ids.npy"))
    with tempfile.TemporaryDirectory() as scratch:
        results = [ok for name in names for ok in check_model(name, args, scratch)]
    print(f"{len(results)} runs, {results.count(False)} wrong")
    return not all(results)


if __name__ == "__main__": sys.exit(main())
