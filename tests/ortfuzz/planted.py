#!/usr/bin/env python3
"""Whether the fuzzer sees a fault: results of the interpreter are made wrong, and the difference must be open.

    tests/ortfuzz/planted.py              # a few models of each operator and fault
    tests/ortfuzz/planted.py --models 20 --details

A fault changes the results of every model that has the operator: those of the model, of the node by itself, and those that
rows and bounds ask for, as one in the operator's evaluation would.  It is planted in models of one node on which the
interpreter and ONNX Runtime agree.  Rows and bounds that explain too much let it pass.
"""

import argparse
import collections
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.filterwarnings("ignore")
import builder  # noqa: E402
import check  # noqa: E402
import engines  # noqa: E402
import generate  # noqa: E402
import known  # noqa: E402

OPS = ("Add Div Mod Pow Sqrt Exp Tanh Gelu Softplus Clip Where Cast MatMul Gemm Einsum Conv ConvTranspose MaxPool AveragePool LpPool ReduceSum ReduceMax "
       "ReduceL2 ReduceLogSumExp CumSum Softmax LayerNormalization GroupNormalization BatchNormalization LRN ArgMax TopK Gather ScatterElements "
       "Slice Pad Resize GridSample QuantizeLinear DynamicQuantizeLinear LSTM Attention Range").split()
SEEDS = 300  # that are looked at for models of an operator
SHARE = 0.9  # of the faults that must be open


def floats(x):
    return x.dtype.kind == "f"


def scaled(x):
    return (x * x.dtype.type(1 + (0.05 if x.dtype == np.float16 else 1e-3))) if floats(x) else x


def one_element(x):
    """The last element that is a number other than 0, twice as large; of integers, one more or less."""
    y = x.copy()
    flat = y.reshape(-1)
    at = np.flatnonzero(np.isfinite(flat) & (flat != 0)) if floats(x) else np.arange(flat.size)
    if at.size and x.dtype.kind in "fiu":
        flat[at[-1]] = flat[at[-1]] * 2 if floats(x) else flat[at[-1]] ^ 1
    return y


def exchanged(x):
    """The first two elements in each other's place."""
    y = x.copy()
    flat = y.reshape(-1)
    flat[:2] = flat[:2][::-1].copy()
    return y


def without_nan(x):
    return np.where(np.isnan(x), x.dtype.type(0), x) if floats(x) else x


def without_infinity(x):
    return np.where(np.isinf(x), np.copysign(np.finfo(x.dtype).max, x).astype(x.dtype), x) if floats(x) else x


def saturated(x):
    """Integers at the ends of the range, one nearer to 0."""
    if x.dtype.kind not in "iu":
        return x
    info = np.iinfo(x.dtype)
    return np.where(x == info.max, x - x.dtype.type(1), np.where((x == info.min) & (info.min < 0), x + x.dtype.type(1), x))


def shorter(x):
    return x[..., :-1] if x.ndim and x.shape[-1] > 1 else x


FAULTS = (scaled, one_element, exchanged, without_nan, without_infinity, saturated, shorter)


def plant(op, fault, interp):
    """The interpreter with a fault in one operator."""
    def run(data, feeds):
        out = interp(data, feeds)
        return [fault(x) if isinstance(x, np.ndarray) and x.dtype.kind in "fiu" else x for x in out] if op.encode() in data else out

    return run


def models(op, count):
    """Cases of one node on which the interpreter and ONNX Runtime agree, and the interpreter's results."""
    made = 0
    for seed in range(1, SEEDS):
        try:
            case = generate.make(seed, engines.max_opset(), ("", op))
        except builder.Skip:
            continue
        if len(case.coverage) != 1:
            continue
        outcome, _, mine, _ = check.check_ort(case, lambda stage: None)
        if outcome == "agree":
            yield case, mine
            made += 1
        if made == count:
            return


def passes(case, op, fault):
    """What the fuzzer says of the case with the fault where it does not open it: the outcome, or the rows; else None."""
    right = engines.run_interp
    engines.run_interp = plant(op, fault, right)
    try:
        outcome, problems, _, _ = check.check_ort(case, lambda stage: None)
        rows = [known.find(p) for p in problems]
        return None if None in rows else ", ".join(r.key for found in rows for r in found) or outcome
    finally:
        engines.run_interp = right


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=int, default=2, help="models of an operator")
    p.add_argument("--op", help="one operator alone")
    p.add_argument("--details", action="store_true", help="print the faults that passed")
    o = p.parse_args()
    np.seterr(all="ignore")
    planted, opened, failed = collections.Counter(), collections.Counter(), 0
    for op in [o.op] if o.op else OPS:
        seen = collections.Counter()
        for case, mine in models(op, o.models):
            for fault in FAULTS:
                if not any(isinstance(x, np.ndarray) and x.dtype.kind in "fiu" and not check.identical(fault(x), x) for x in mine):
                    continue
                planted[fault.__name__] += 1
                said = passes(case, op, fault)
                opened[fault.__name__] += said is None
                seen[said is None] += 1
                if said and o.details:
                    print(f"{op}, seed {case.seed}: {fault.__name__} passes ({said})")
        if not seen[True]:
            failed += 1
            print(f"{op}: none of {seen[False]} faults is open")
    for name in planted:
        print(f"{name}: {opened[name]} of {planted[name]} open")
    total, found = sum(planted.values()), sum(opened.values())
    failed += found < SHARE * total
    print(f"{found} of {total} planted faults are open; at least {SHARE:.0%} must be\n{total - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
