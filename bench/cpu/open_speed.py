#!/usr/bin/env python3
"""open_speed.py -- how long it takes to open a model and know every shape.

`tenon inspect` (the whole process) against onnx.load + onnx.shape_inference, on the same files, interleaved: as a whole
process without the weights, in a Python that has already imported onnx without the weights, and there with the weights,
which is what onnx.load does when nothing else is said.  Medians with the spread; the ratios are to `tenon inspect`.

usage: bench/cpu/open_speed.py NETS_DIR [NAME...]       (`make nets` fills build/nets; needs onnx; TENON is the program)
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


PROCESS = "import sys, onnx; onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1], load_external_data=False), data_prop=True)"


def measure(tenon, path):
    """One round: milliseconds of ours and of the three others."""
    process = lambda *command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [timed(lambda: process(tenon, "inspect", path)), timed(lambda: process(sys.executable, "-c", PROCESS, path)),
            timed(lambda: load(path, False)), timed(lambda: load(path, True))]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, names = sys.argv[1], sys.argv[2:] or ["resnet50", "bert_base", "gpt2.new"]
    tenon = os.environ.get("TENON", "build/tenon")
    rounds = int(os.environ.get("ROUNDS", "7"))
    print(f"milliseconds: median (least-most) of {rounds} rounds")
    print(f"{'model':12} {'tenon inspect':>22} {'python process':>24} {'onnx, no weights':>22} {'onnx with weights':>27}  ratios")
    for name in names:
        columns = list(zip(*(measure(tenon, os.path.join(folder, name + ".onnx")) for _ in range(rounds))))
        ours, *others = [statistics.median(c) for c in columns]
        cells = [text(c) for c in columns]
        print(f"{name:12} {cells[0]:>22} {cells[1]:>24} {cells[2]:>22} {cells[3]:>27}  "
              + ", ".join(f"{o / ours:.1f}" if o < 10 * ours else f"{o / ours:.0f}" for o in others))


main()
