#!/usr/bin/env python3
"""batch_invariant.py [FOLDER] -- whether an item of a batch has the same bits in batches of 1, 2, 8 and 17, each in a program made for it, and in 20 runs.

Small graphs, and the networks NAME.dyn.onnx of the folder, in every precision. Needs an NVIDIA GPU (or TARGET=cpu), numpy and a library (TENON_LIBRARY, or build/libtenon.so).
The last line is `N passed, N failed`.
"""
import glob, os, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.environ.get("TENON_PYTHON") or os.path.join(ROOT, "python"))

import numpy as np
import tenon

BATCHES, RUNS, TARGET = (1, 2, 8, 17), 20, os.environ.get("TARGET", "cuda")
# Weights, which have no batch, are called w.
GRAPHS = {
    "product": "graph(%x: f32[BATCH, 3072], %w: f32[64, 3072]) { %y = gemm(%x, %w) transB=true return y = %y }",
    "few columns": "graph(%x: f32[BATCH, 1000], %w: f32[1000, 3]) { %y = mat_mul(%x, %w) return y = %y }",
    "sum across": "graph(%x: f32[BATCH, 49, 1280]) { %a = const i64[1] {1} %y = reduce_mean(%x, %a) return y = %y }",
    "convolution": "graph(%x: f32[BATCH, 64, 14, 14], %w: f32[96, 64, 3, 3]) { %y = conv(%x, %w) pads=[1, 1, 1, 1] return y = %y }",
    "depthwise": "graph(%x: f32[BATCH, 96, 15, 15], %w: f32[96, 1, 5, 5]) { %y = conv(%x, %w) pads=[2, 2, 2, 2] group=96 return y = %y }",
    "attention": "graph(%q: f32[BATCH, 4, 100, 64], %k: f32[BATCH, 4, 100, 64], %v: f32[BATCH, 4, 100, 64]) { %y = attention(%q, %k, %v) return y = %y }",
}


def random_inputs(value, shape, seed):
    """Numbers for an input: of integers small ones, and ones for a mask."""
    rng = np.random.default_rng(seed)
    if not value.dtype.startswith("i"): return rng.standard_normal(shape, np.float32)
    return np.ones(shape, np.int64) if "mask" in value.name else rng.integers(0, 1000, shape)


def feeds_of(model, batch, most):
    """The first `batch` items of the same numbers each time; inputs without a batch whole."""
    feeds = []
    for i, v in enumerate(model.inputs):
        batched = v.name != "w"
        full = random_inputs(v, (most, *v.shape[1:]) if batched else v.shape, i)
        feeds.append(np.ascontiguousarray(full[:batch]) if batched else full)
    return feeds


def outputs(model, feeds):
    y = model(*feeds)
    return [np.array(t) for t in (y if isinstance(y, tuple) else (y,))]


def check(name, make):
    items, runs = set(), set()
    for batch in BATCHES:
        model = make(batch)
        feeds = feeds_of(model, batch, max(BATCHES))
        items.add(b"".join(t[:1].tobytes() for t in outputs(model, feeds)))
        if batch == 8:
            for _ in range(RUNS): runs.add(b"".join(t.tobytes() for t in outputs(model, feeds)))
    good = len(items) == 1 and len(runs) == 1
    print(f"{'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {len(items)} bits of an item, {len(runs)} of {RUNS} runs"), flush=True)
    return good


def main():
    passed = failed = 0
    cases = {}
    options = {"target": TARGET, "batch_invariant": True, "progress": False}
    for precision in ("f32", "tf32"):
        for name, text in GRAPHS.items():
            cases[f"{name}, {precision}"] = lambda b, text=text, p=precision: tenon.compile(text.replace("BATCH", str(b)).encode(), precision=p, **options)
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.dyn.onnx"))) if sys.argv[1:] else []:
        symbol = tenon.compile(path, target="interp").inputs[0].shape
        sizes = {s: 64 for s in symbol[1:] if isinstance(s, str)}
        for precision in ("f32", "bf16"):
            cases[f"{os.path.basename(path)}, {precision}"] = lambda b, path=path, p=precision, s=symbol[0], z=sizes: tenon.compile(path, dims={s: b, **z}, precision=p, **options)
    for name, make in cases.items():
        try: good = check(name, make)
        except tenon.TenonError as e:
            good = False
            print(f"FAIL {name}: {e}", flush=True)
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
