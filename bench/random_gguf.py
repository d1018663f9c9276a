#!/usr/bin/env python3
"""random_gguf.py OUT.gguf [--model 3b|moe] [--type q8_0] [--tokenizer FILE.gguf] -- a GGUF file of random weights, for measuring speed.

    3b    Llama of 3.2 billion weights: 28 layers of 3072, 24 heads with 8 of keys, 8192 in the feed-forward part
    moe   Qwen 3 with experts, 1.2 billion weights: 6 layers of 1024, 64 experts of 768, of which a token takes 8

All matrices have the type (q8_0, q4_0 or f16), norms are 1.  The tokenizer is that of another GGUF file, whose vocabulary both have.  Blocks are
made from random bytes with small scales, since only their size counts.  Needs numpy and gguf.
"""
import argparse, sys

import gguf
import numpy as np

MODELS = {
    "3b": dict(arch="llama", layers=28, hidden=3072, heads=24, kv=8, size=128, ffn=8192, experts=0, top=0),
    "moe": dict(arch="qwen3moe", layers=6, hidden=1024, heads=16, kv=4, size=64, ffn=768, experts=64, top=8),
}
TYPES = {"q8_0": (34, 32), "q4_0": (18, 32), "f16": (2, 1)}


def matrix(kind, shape, rng):
    """Bytes of the elements: random ones, with scales of 2^-9 and either sign."""
    size, block = TYPES[kind]
    *rows, k = shape
    one = rng.integers(0, 256, (4096, size), dtype=np.uint8)
    one[:, 1] = 0x18 + (one[:, 1] & 0x80)
    if kind == "f16": one[:, 1] = 0x20 + (one[:, 1] & 0x83)
    n = int(np.prod(rows)) * k // block
    return np.resize(one, (n, size)).reshape(*rows, k // block * size)


def tensors(m, vocabulary, rng):
    """Name, shape; None for a norm."""
    d, q, kv = m["hidden"], m["heads"] * m["size"], m["kv"] * m["size"]
    yield "token_embd.weight", (vocabulary, d)
    yield "output_norm.weight", (d,)
    yield "output.weight", (vocabulary, d)
    for i in range(m["layers"]):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", (d,)
        yield b + "ffn_norm.weight", (d,)
        for name, shape in (("attn_q", (q, d)), ("attn_k", (kv, d)), ("attn_v", (kv, d)), ("attn_output", (d, q))): yield b + name + ".weight", shape
        if m["arch"] == "qwen3moe":
            yield b + "attn_q_norm.weight", (m["size"],)
            yield b + "attn_k_norm.weight", (m["size"],)
            yield b + "ffn_gate_inp.weight", (m["experts"], d)
            for name, shape in (("gate", (m["ffn"], d)), ("up", (m["ffn"], d)), ("down", (d, m["ffn"]))): yield f"{b}ffn_{name}_exps.weight", (m["experts"], *shape)
        else:
            for name, shape in (("gate", (m["ffn"], d)), ("up", (m["ffn"], d)), ("down", (d, m["ffn"]))): yield f"{b}ffn_{name}.weight", shape


def copy_tokenizer(w, path):
    """Its metadata; gives the number of tokens."""
    r = gguf.GGUFReader(path)
    for f in r.fields.values():
        if not f.name.startswith("tokenizer."): continue
        kind = f.types[0]
        sub = f.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(f.name, f.contents(), kind, sub_type=sub)
    return len(r.fields["tokenizer.ggml.tokens"].data)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--model", choices=MODELS, default="3b")
    p.add_argument("--type", choices=TYPES, default="q8_0")
    p.add_argument("--tokenizer", required=True)
    args = p.parse_args()
    m, rng = MODELS[args.model], np.random.default_rng(0)
    w = gguf.GGUFWriter(args.out, m["arch"])
    vocabulary = copy_tokenizer(w, args.tokenizer)
    w.add_context_length(8192)
    w.add_embedding_length(m["hidden"])
    w.add_block_count(m["layers"])
    w.add_feed_forward_length(m["ffn"])
    w.add_head_count(m["heads"])
    w.add_head_count_kv(m["kv"])
    w.add_key_length(m["size"])
    w.add_value_length(m["size"])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(500000.0)
    w.add_vocab_size(vocabulary)
    if m["arch"] == "llama": w.add_rope_dimension_count(m["size"])
    if m["experts"]:
        w.add_expert_count(m["experts"])
        w.add_expert_used_count(m["top"])
        w.add_expert_feed_forward_length(m["ffn"])
    kind = getattr(gguf.GGMLQuantizationType, args.type.upper())
    for name, shape in tensors(m, vocabulary, rng):
        if len(shape) == 1: w.add_tensor(name, np.ones(shape, np.float32))
        elif "gate_inp" in name: w.add_tensor(name, rng.standard_normal(shape, dtype=np.float32) * 0.05)
        elif args.type == "f16": w.add_tensor(name, matrix("f16", shape, rng).view(np.float16))
        else: w.add_tensor(name, matrix(args.type, shape, rng), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__": sys.exit(main())
