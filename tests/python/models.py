#!/usr/bin/env python3
"""models.py -- whole models through Python: bit for bit what `tenon run` gives.

usage: models.py [--target NAME]... [--seconds N] PATH...   models, or folders that are searched for them

A model NAME.onnx with NAME.in.npz beside it gets those inputs, any other random ones, with the first of SIZES for dynamic shapes that
`tenon run` takes.  TorchScript, which does not say what its inputs are, gets the types of a .pt2 file beside it.  What `tenon run`
itself refuses is counted as skipped, by name.  With --seconds no model is begun after that long.
TENON is the program (build/tenon).  The last line is `N passed, N failed`.
"""
import argparse, os, subprocess, sys, tempfile, time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import tenon
from tenon.profile import random_inputs

PROGRAM = os.environ.get("TENON") or os.path.join(ROOT, "build", "tenon")
SIZES = (1, 16, 576)
ENDINGS = (".onnx", ".tflite", ".pt2", ".pt", ".mlir", ".tir", ".bin")
count = {"passed": 0, "failed": 0, "skipped": 0}


def report(kind, name, text):
    count[kind] += 1
    print(f"{dict(passed='ok  ', failed='FAIL', skipped='skip')[kind]} {name:60} {text}", flush=True)


def models(paths):
    for top in paths:
        if os.path.isfile(top): yield top
        for folder, _, names in sorted(os.walk(top)):
            yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(ENDINGS))


def types_of(path):
    """What a program of torch.export beside it says of the inputs, by position."""
    beside = [n for n in sorted(os.listdir(os.path.dirname(path) or ".")) if n.endswith(".pt2")] if path.endswith(".pt") else []
    about = tenon.inspect(os.path.join(os.path.dirname(path), beside[0])) if beside else {"inputs": []}
    return [f"{i}={v['dtype']}[{','.join(map(str, v['shape']))}]" for i, v in enumerate(about["inputs"])]


def run(path, feeds, types, target, folder):
    """(outputs by name, or None; what was said)"""
    given, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
    np.savez(given, **feeds)
    args = [x for t in types for x in ("--type", t)] + (["--inputs", given] if feeds else [])
    p = subprocess.run([PROGRAM, "run", path, *args, "--output", out, "--target", target], capture_output=True, text=True, timeout=600)
    if p.returncode: return None, (p.stderr or p.stdout).strip().replace("\n", " ")[-160:]
    with np.load(out) as z: return {k: z[k] for k in z.files}, ""


def feeds_of(path, model):
    """Inputs to try, one after the other."""
    beside, names = path[:path.rindex(".")] + ".in.npz", [v.name for v in model.inputs]
    if os.path.exists(beside):
        with np.load(beside) as z: yield {k: z[k] for k in names}
        return
    symbols = {s for v in model.inputs for s in v.shape or () if isinstance(s, str)}
    for size in SIZES if symbols else SIZES[:1]: yield dict(zip(names, random_inputs(model, {s: size for s in symbols})))


def difference(got, want):
    for key, value in got.items():
        other = want.get(key)
        if other is None or other.dtype.itemsize != value.dtype.itemsize or other.shape != value.shape: return f"output {key} is another"
        if other.tobytes() != value.tobytes(): return f"output {key} has other bits"
    return ""


def check(path, target):
    name, begin = f"{os.path.join(*path.split(os.sep)[-3:])} {target}", time.monotonic()
    types = types_of(path)
    try:
        model = tenon.compile(path, target=target, types=types)
    except tenon.TenonError as error:
        p = subprocess.run([PROGRAM, "run", path, "--target", target], capture_output=True, text=True, timeout=600)
        return report("skipped" if p.returncode else "failed", name, str(error).replace("\n", " ")[:160])
    if any("(" in v.type for v in model.inputs + model.outputs): return report("skipped", name, "has values that are no tensors")
    for feeds in feeds_of(path, model):
        with tempfile.TemporaryDirectory() as folder: want, said = run(path, feeds, types, target, folder)
        try:
            got, error = model(feeds), None
        except tenon.TenonError as e:
            got, error = None, e
        if want is not None or got is not None: break
    if want is None and got is None: return report("skipped", name, said)
    if want is None or got is None: return report("failed", name, f"{said}{error}"[:200])
    why = difference(got, want)
    report("failed" if why else "passed", name, why or f"{len(got)} outputs, {time.monotonic() - begin:.1f} s")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--target", action="append")
    p.add_argument("--seconds", type=float, default=float("inf"))
    p.add_argument("paths", nargs="+")
    a = p.parse_args()
    end = time.monotonic() + a.seconds
    for path in models(a.paths):
        for target in a.target or ["cpu"]:
            if time.monotonic() > end: count["skipped"] += 1
            else: check(path, target)
    print(f"{count['skipped']} skipped")
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] > 0 or not count["passed"]


if __name__ == "__main__": sys.exit(main())
