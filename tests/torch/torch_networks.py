#!/usr/bin/env python3
"""torch_networks.py TENON [NAME...] -- networks of PyTorch through ONNX, torch.export and TorchScript.

Needs PyTorch, torchvision, transformers, onnx and onnxscript (`make test-torch` makes an environment with them), so it is not part of `make test`.
Each network, with random weights, is written in the three formats.  Tenon must compute what PyTorch does, within 1e-4 of the largest value, and
must make about as many kernels of each, at most 2 more or less.
"""
import argparse, json, os, subprocess, sys, tempfile, warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")
WITHIN, KERNELS = 1e-4, 2


def image():
    return {"x": torch.randn(1, 3, 224, 224)}


def tokens(vocabulary, length=64):
    return {"input_ids": torch.randint(0, vocabulary, (1, length))}


class Logits(torch.nn.Module):
    """A transformer by its ids alone, giving one tensor."""

    def __init__(self, m, field):
        super().__init__()
        self.m, self.field = m, field

    def forward(self, input_ids):
        return getattr(self.m(input_ids), self.field)


def vision(name):
    import torchvision
    m = getattr(torchvision.models, name)(weights=None)
    for p in m.parameters():  # a head that starts as zeros would hide all else
        if p.dim() > 1 and not p.any(): torch.nn.init.normal_(p, std=0.02)
    return m, image()


def bert():
    from transformers import BertConfig, BertModel
    c = BertConfig(attn_implementation="eager")
    return Logits(BertModel(c, add_pooling_layer=False), "last_hidden_state"), tokens(c.vocab_size)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    c = GPT2Config(attn_implementation="eager", use_cache=False)
    return Logits(GPT2LMHeadModel(c), "logits"), tokens(c.vocab_size)


NETWORKS = {"resnet50": lambda: vision("resnet50"), "mobilenet_v2": lambda: vision("mobilenet_v2"), "vit_b_16": lambda: vision("vit_b_16"),
            "bert_base": bert, "gpt2": gpt2}


def write(m, inputs, folder):
    """The paths by format."""
    args, names = tuple(inputs.values()), list(inputs)
    path = {"onnx": f"{folder}/m.onnx", "pt2": f"{folder}/m.pt2", "script": f"{folder}/m.pt"}
    torch.export.save(torch.export.export(m, args), path["pt2"])
    torch.jit.trace(m, args, check_trace=False).save(path["script"])
    torch.onnx.export(m, args, path["onnx"], input_names=names, output_names=["y"], dynamo=True, verbose=False)
    return path


def kernels(tenon, path, types):
    p = subprocess.run([tenon, "inspect", path, "--optimised", "-O3", "--json", *types], capture_output=True, text=True)
    if p.returncode: return None, p.stderr.strip()
    return json.loads(p.stdout)["kernels"], ""


def compare(tenon, path, want, folder, given, types):
    """(error, kernels, complaint)"""
    out = f"{folder}/out.npz"
    p = subprocess.run([tenon, "run", path, *given, "-o", out], capture_output=True, text=True)
    if p.returncode: return float("inf"), 0, p.stderr.strip()
    got = np.load(out)
    y = got[got.files[0]]
    if y.shape != want.shape: return float("inf"), 0, f"shape {y.shape}, not {want.shape}"
    n, why = kernels(tenon, path, types)
    return float(np.abs(y - want).max() / np.abs(want).max()), n or 0, why


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tenon")
    a.add_argument("names", nargs="*", default=list(NETWORKS))
    a.add_argument("--keep", help="write the files into this folder")
    a = a.parse_args()
    bad = 0
    for name in a.names or NETWORKS:
        torch.manual_seed(0)
        m, inputs = NETWORKS[name]()
        m.eval()
        with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
            folder = os.path.join(a.keep, name) if a.keep else scratch
            os.makedirs(folder, exist_ok=True)
            want = m(*inputs.values()).numpy()
            given, types = [], []
            for i, (k, v) in enumerate(inputs.items()):
                np.save(f"{folder}/{k}.npy", v.numpy())
                given += ["--input", f"{i}={folder}/{k}.npy"]
                dtype = {"float32": "f32", "int64": "i64"}[str(v.numpy().dtype)]
                types += ["--type", f"{i}={dtype}[{','.join(map(str, v.shape))}]"]
            results = {}
            for kind, path in write(m, inputs, folder).items():
                results[kind] = r = compare(a.tenon, path, want, folder, given, types if kind == "script" else [])
                print(f"{name:14} {kind:7} error {r[0]:.1e}, {r[1]} kernels {r[2]}", flush=True)
            counts = [r[1] for r in results.values()]
            wrong = any(not r[0] <= WITHIN or r[2] for r in results.values()) or max(counts) - min(counts) > KERNELS
            bad += wrong
            if wrong: print(f"{name}: the formats do not agree")
    return 1 if bad else 0


sys.exit(main())
