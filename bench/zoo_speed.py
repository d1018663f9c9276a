#!/usr/bin/env python3
"""zoo_speed.py -- Tenon beside ONNX Runtime on any models: milliseconds of a run, and the ratio.

usage: bench/zoo_speed.py [--threads N] [--rounds N] [--seconds S] [--clock wall|cpu] [--fill] MODEL.onnx...

For networks such as zoo.py makes.  Inputs are made up from the model's own types (zoo.py's check uses the same).  Each contender is a process of its
own (contender.py) that stands still while the other one is measured; rounds go through them in turn.  Printed: the least of the
rounds' medians of each, and the median of the rounds' ratios, above 1 where Tenon is faster.  --fill only compiles, so that
a measurement that follows finds all code in the cache.  Needs a Python with onnxruntime and numpy.
"""
import argparse, math, os, statistics, sys, tempfile
import numpy as np
import onnxruntime as ort

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from turns import Contender, difference  # noqa: E402


def feeds(session, rng):
    """Inputs of the model's types; open sizes are 1 for the first and 128 for others."""
    feed = {}
    for i in session.get_inputs():
        dims = [d if isinstance(d, int) else 1 if k == 0 else 128 for k, d in enumerate(i.shape)]
        if "mask" in i.name: feed[i.name] = np.ones(dims, np.int64)
        elif "int" in i.type: feed[i.name] = rng.integers(0, 400, dims).astype(i.type[len("tensor("):-1])
        else: feed[i.name] = rng.random(dims, np.float32)
    return feed


def measure(path, args, folder):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    np.savez(f"{folder}/in.npz", **feeds(session, np.random.default_rng(1)))
    del session
    kinds = ["tenon"] if args.fill else ["tenon", "onnxruntime"]
    contenders, rounds = {}, {kind: [] for kind in kinds}
    for kind in kinds:
        contenders[kind] = Contender(kind, path, f"{folder}/in.npz", args.threads, clock=args.clock)
        contenders[kind].ask(f"{folder}/{kind}.npz")
    for i in range(0 if args.fill else args.rounds):
        for kind in kinds[i % 2:] + kinds[:i % 2]:
            rounds[kind].append(statistics.median(contenders[kind].ask(str(args.seconds))["ms"]))
    for c in contenders.values(): c.close()
    if args.fill: return None
    ratio = statistics.median(o / t for t, o in zip(rounds["tenon"], rounds["onnxruntime"]))
    return min(rounds["tenon"]), min(rounds["onnxruntime"]), ratio, difference(f"{folder}/tenon.npz", f"{folder}/onnxruntime.npz")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--fill", action="store_true")
    args, ratios = parser.parse_args(), []
    if not args.fill: print("| network | Tenon, ms | ONNX Runtime, ms | ratio | largest difference |\n|---|---|---|---|---|", flush=True)
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder: got = measure(path, args, folder)
        if not got: continue
        ratios.append(got[2])
        name = os.path.basename(path).removesuffix(".onnx")
        print(f"| {name} | {got[0]:.2f} | {got[1]:.2f} | {got[2]:.2f} | {got[3]:.1e} |", flush=True)
    if ratios: print(f"\nGeometric mean of the ratios: {math.exp(statistics.mean(map(math.log, ratios))):.2f}.")


main()
