#!/usr/bin/env python3
"""llm_check.py -- logits of language models against the reference implementation.

    bench/llm_check.py MODELS [NAME...] [--target interp,cpu] [--gguf LLAMA_CPP] [--tenon build/tenon]

MODELS has a folder for each model: config.json, weights, and what transformers computed in f32: ids.npy [1, T] and
logits.npy [T, V].  Prints for each model and target the largest difference of log-probabilities, and ends with status 1
where one is above 2e-5.  --gguf also converts each folder with llama.cpp's converter (its source folder, which needs torch
and transformers) and runs the GGUF file; models that the converter refuses are named.  The converter's check of the
tokenizer is left out: the file gets a tokenizer of bytes, whatever the folder has.

Needs numpy.  The reference models are made by a script that needs torch and transformers; this one does not.
"""
import argparse, json, os, subprocess, sys, tempfile

import numpy as np

LIMIT = 2e-5
# What a GGUF file cannot say, so that it stands for another model: by model_type, keys of config.json and the values that readers take instead.
EVERY = lambda n: lambda c: ["full_attention" if (i + 1) % n == 0 else "sliding_attention" for i in range(c["num_hidden_layers"])]
HEAD = lambda c: c["head_dim"]
NO_WINDOW = {"use_sliding_window": False, "layer_types": lambda c: ["full_attention"] * c["num_hidden_layers"]}
ASSUMED = {
    "llama": {"hidden_act": "silu"},
    "mistral": {"sliding_window": None},
    "mixtral": {"sliding_window": None},
    "qwen2": NO_WINDOW, "qwen3": NO_WINDOW, "qwen3_moe": {"norm_topk_prob": True, "use_sliding_window": False},
    "gemma2": {"query_pre_attn_scalar": HEAD, "layer_types": EVERY(2)},
    "gemma3_text": {"query_pre_attn_scalar": HEAD, "layer_types": EVERY(6)},
    "cohere2": {"layer_types": EVERY(4)},
    "gpt_oss": {"layer_types": EVERY(2)},
    "gpt2": {"activation_function": "gelu_new", "scale_attn_weights": True},
    "gpt_neox": {"hidden_act": "gelu", "rope_parameters": lambda c: {**c["rope_parameters"], "rope_theta": 10000.0}},
    "phi": {"hidden_act": "gelu_new"},
    "starcoder2": {"hidden_act": "gelu_pytorch_tanh", "sliding_window": None},
    "smollm3": {"no_rope_layers": lambda c: [int((i + 1) % 4 != 0) for i in range(c["num_hidden_layers"])], **NO_WINDOW},
    "mamba2": {"n_groups": 1, "time_step_limit": [0.0, {"__float__": "Infinity"}]},
}
CONVERT = """
import sys
sys.path.insert(0, sys.argv[1]); sys.path.insert(1, sys.argv[1] + "/gguf-py")
import logging; logging.disable(logging.WARNING)
import pathlib, torch, gguf, conversion
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
folder, out = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
hparams = ModelBase.load_hparams(folder, False)
cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
def set_vocab(self):
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    char = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)}
    n = self.hparams["vocab_size"]
    self.gguf_writer.add_tokenizer_model("gpt2")
    self.gguf_writer.add_tokenizer_pre("gpt-2")
    self.gguf_writer.add_token_list([char[i] if i < 256 else f"<{i}>" for i in range(n)])
    self.gguf_writer.add_token_types([1 if i < 256 else 4 for i in range(n)])
    self.gguf_writer.add_token_merges([])
cls.set_vocab = set_vocab
for name in "get_vocab_base", "get_vocab_base_pre":
    setattr(cls, name, lambda self, *a: ([], [], "gpt-2") if name == "get_vocab_base" else "gpt-2")
with torch.inference_mode():
    m = cls(folder, gguf.LlamaFileType.ALL_F32, out)
    m._set_vocab_gpt2 = lambda *a: None
    rope = m.hparams.get("rope_parameters") or {}
    m.hparams.setdefault("n_ctx", m.hparams.get("n_positions"))
    m.hparams.setdefault("rotary_pct", rope.get("partial_rotary_factor", 1.0))
    m.write()
"""


def log_probabilities(x):
    x = x.astype(np.float64)
    m = x.max(-1, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(-1, keepdims=True))


def run(tenon, model, folder, target, scratch):
    """The largest difference, or a text that says why there is none."""
    ids, out = scratch + "/ids.npy", scratch + "/out.npz"
    np.save(ids, np.load(folder + "/ids.npy")[0].astype(np.int32))
    p = subprocess.run([tenon, "run", model, "--input", "ids=" + ids, "--target", target, "--threads", "1", "-o", out, "--force"],
                       capture_output=True, text=True)
    if p.returncode: return p.stderr.strip().split("\n")[0][:160] or f"status {p.returncode}"
    got, want = np.load(out)["logits"], np.load(folder + "/logits.npy")
    if got.shape != want.shape: return f"shape {got.shape}, must be {want.shape}"
    return float(np.abs(log_probabilities(got) - log_probabilities(want)).max())


def lost(folder):
    """What a GGUF file of the folder says otherwise: keys of config.json and values."""
    with open(folder + "/config.json") as f: c = json.load(f)
    assumed = {k: v(c) if callable(v) else v for k, v in ASSUMED.get(c.get("model_type"), {}).items()}
    return {k: v for k, v in assumed.items() if k in c and c[k] != v}


def convert(source, folder, out):
    p = subprocess.run([sys.executable, "-c", CONVERT, source, folder, out], capture_output=True, text=True)
    return None if p.returncode == 0 else (p.stderr.strip().split("\n") or ["?"])[-1][:160]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models")
    a.add_argument("names", nargs="*")
    a.add_argument("--target", default="interp")
    a.add_argument("--gguf", metavar="LLAMA_CPP")
    a.add_argument("--tenon", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/tenon"))
    a = a.parse_args()
    names = a.names or sorted(n for n in os.listdir(a.models) if os.path.exists(f"{a.models}/{n}/logits.npy"))
    worst, bad, count, refused = 0.0, 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            folder = f"{a.models}/{name}"
            forms = [("folder", folder)]
            if a.gguf:
                file = f"{scratch}/{name}.gguf"
                why = convert(a.gguf, folder, file)
                if why: refused.append(name); print(f"{name:12} gguf    not converted: {why}")
                else: forms.append(("gguf", file))
            for form, model in forms:
                for target in a.target.split(","):
                    r = run(a.tenon, model, folder, target, scratch)
                    other = form == "gguf" and bool(lost(folder)) and not isinstance(r, str)
                    wrong = not other and (isinstance(r, str) or not r <= LIMIT)
                    bad, count = bad + wrong, count + 1
                    if not isinstance(r, str) and not other: worst = max(worst, r)
                    note = "  WRONG" if wrong else "  (the file lacks a key of config.json)" if other else ""
                    print(f"{name:12} {form:7} {target:8} {r if isinstance(r, str) else f'{r:.2e}'}{note}", flush=True)
    print(f"{count} runs, {bad} wrong, largest difference {worst:.2e} (limit {LIMIT:g}); not converted: {', '.join(refused) or 'none'}")
    return bad > 0


if __name__ == "__main__": sys.exit(main())
