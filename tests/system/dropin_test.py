#!/usr/bin/env python3
"""Packages written for ONNX Runtime give the same results with tenon.ort in its place.

    tests/system/dropin_test.py [CASE...]

Their own code runs on real input with both: labels, texts and spans must be equal, scores within the case's tolerance.  What is not
installed is skipped, and said.
"""
import sys

import dropin

failed = 0
for case, (_, _, inputs, _, run, tolerance) in dropin.CASES.items():
    if sys.argv[1:] and not any(a in case for a in sys.argv[1:]):
        continue
    lacks = dropin.lacking(case)
    if lacks:
        print(f"skip {case}: {', '.join(lacks)} not installed")
        continue
    given = inputs()
    want, got = (run(dropin.load(case, engine), given) for engine in dropin.ENGINES)
    worst = max((abs(a[1] - b[1]) for a, b in zip(want, got)), default=0)
    good = bool(want) and [a[0] for a in want] == [b[0] for b in got] and worst <= tolerance
    failed += not good
    print(f"{'ok  ' if good else 'FAIL'} {case}: {len(want)} results, scores differ by {worst:.1e} at most")
    for a, b in [] if good else zip(want, got):
        if a[0] != b[0] or abs(a[1] - b[1]) > tolerance:
            print(f"     onnxruntime {a}, tenon {b}")
sys.exit(1 if failed else 0)
