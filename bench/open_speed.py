#!/usr/bin/env python3
"""open_speed.py -- how long it takes to open a model and know every shape.

`tenon inspect` (the whole process) against onnx.load + onnx.shape_inference (in a Python that has already
imported onnx), on the same files, in turns; medians with the spread.  Weights lie in external files: once
onnx loads them, once it is told not to.

usage: bench/open_speed.py NETS_DIR [NAME...]       (`make nets` fills build/nets; needs onnx; TENON is the program)
"""
import os, statistics, subprocess, sys, time

import onnx


def timed(f):
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def load(path, weights):
    model = onnx.load(path, load_external_data=weights)
    if weights and model.ByteSize() > 2 ** 31 - 1:
        return
    onnx.shape_inference.infer_shapes(model, data_prop=True)


def text(ms):
    return f"{statistics.median(ms):8.1f} ({min(ms):.1f}-{max(ms):.1f})"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, names = sys.argv[1], sys.argv[2:] or ["resnet50", "bert_base", "gpt2.new"]
    tenon = os.environ.get("TENON", "build/tenon")
    rounds = int(os.environ.get("ROUNDS", "7"))
    print(f"milliseconds: median (least-most) of {rounds} rounds")
    print(f"{'model':16} {'tenon inspect':>22} {'onnx, no weights':>24} {'onnx, with weights':>26}  ratio")
    for name in names:
        path = os.path.join(folder, name + ".onnx")
        ours, bare, full = [], [], []
        for _ in range(rounds):
            ours.append(timed(lambda: subprocess.run([tenon, "inspect", path], check=True, stdout=subprocess.DEVNULL)))
            bare.append(timed(lambda: load(path, False)))
            full.append(timed(lambda: load(path, True)))
        m = statistics.median
        print(f"{name:16} {text(ours):>22} {text(bare):>24} {text(full):>26}  {m(bare) / m(ours):.1f} x, {m(full) / m(ours):.0f} x")


main()
