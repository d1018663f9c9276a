#!/usr/bin/env python3
"""top1.py -- whether bf16 changes which element is the largest: f32 against bf16 on random inputs.

usage: bench/cpu/top1.py NETS_DIR [--inputs N] [--threads N] [NAME...]

For each row of the first output (an image's classes, a token's values): the margin is the largest element of f32 minus the second, the error the largest
difference between the two precisions in the row.  Where the margin exceeds the error the largest must be the same; how often it is so in all rows is
printed, too.  Exits with 1 when a row fails.  Needs onnxruntime (for the inputs' types) and numpy: build/peers/bin/python has both.
"""
import argparse, os, sys
import numpy as np
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import capi  # noqa: E402
from models import feeds, session_inputs

NETS = ["resnet50", "vit_b_16.new", "mobilenet_v2", "squeezenet1_1", "densenet121"]


def outputs(sessions, feed):
    got = []
    for s in sessions:
        s.bind(feed)
        s.run()
        first = next(iter(s.outputs().values()))
        got.append(first.reshape(-1, first.shape[-1]).astype(np.float64))
    return got


def compare(exact, rough):
    """Rows; those whose margin exceeds the error; of these the changed ones; all that are unchanged; the largest error over the largest element."""
    top = np.sort(exact, axis=1)
    error, margin = np.abs(exact - rough).max(axis=1), top[:, -1] - top[:, -2]
    same, clear = exact.argmax(axis=1) == rough.argmax(axis=1), margin > error
    return np.array([len(exact), clear.sum(), (clear & ~same).sum(), same.sum()]), error.max() / np.abs(exact).max()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    args, failed = parser.parse_intermixed_args(), 0
    print("| network | inputs | rows | margin above the error | of these changed | unchanged of all | largest error |\n|---|---|---|---|---|---|---|", flush=True)
    for name in args.names or NETS:
        path = f"{args.nets}/{name}.onnx"
        sessions = [capi.Session(capi.Program(path, args.threads, p), args.threads) for p in ("f32", "bf16")]
        inputs, rng = session_inputs(path), np.random.default_rng(7)
        sums, worst = np.zeros(4, np.int64), 0.0
        for _ in range(args.inputs):
            counts, error = compare(*outputs(sessions, feeds(inputs, rng)))
            sums, worst = sums + counts, max(worst, error)
        for s in sessions: s.close()
        rows, clear, changed, same = map(int, sums)
        failed += changed
        print(f"| {name} | {args.inputs} | {rows} | {clear} | {changed} | {100 * same / rows:.1f} % | {100 * worst:.2f} % |", flush=True)
    return failed > 0


sys.exit(main())
