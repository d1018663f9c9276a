#!/usr/bin/env python3
"""Packages written for ONNX Runtime, timed with it and with tenon.ort in its place (tests/system/dropin.py has the cases).

    bench/once/dropin.py [--runs N] [CASE...]

Both engines are loaded in one process and run in turn, on the same input; medians and the middle half of the runs.  Loading is timed too,
with an empty cache of kernels and with a full one, for each in a process of its own.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "system"))
import dropin  # noqa: E402

LOAD = "import sys, time; sys.path.insert(0, {tests!r}); import dropin; t = time.perf_counter(); dropin.load({case!r}, {engine!r}); " \
       "print(time.perf_counter() - t)"


def load_time(case, engine, cache):
    code = LOAD.format(tests=os.path.dirname(dropin.__file__), case=case, engine=engine)
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, XDG_CACHE_HOME=cache), capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def quartiles(times):
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle * 1e3:9.2f} ({low * 1e3:.2f} to {high * 1e3:.2f})", middle


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    for case, (_, _, inputs, _, run, _) in dropin.CASES.items():
        if args.cases and not any(a in case for a in args.cases):
            continue
        if dropin.lacking(case):
            print(f"{case}: {', '.join(dropin.lacking(case))} not installed")
            continue
        given, models, times = inputs(), {e: dropin.load(case, e) for e in dropin.ENGINES}, {e: [] for e in dropin.ENGINES}
        for n in range(args.runs + 2):
            for engine in dropin.ENGINES:
                start = time.perf_counter()
                run(models[engine], given)
                if n >= 2:
                    times[engine].append(time.perf_counter() - start)
        (ort, a), (ours, b) = (quartiles(times[e]) for e in dropin.ENGINES)
        print(f"{case}: ms with onnxruntime {ort}, with tenon {ours}: {a / b:.2f} times as fast")
        with tempfile.TemporaryDirectory() as cache:
            seconds = [load_time(case, e, cache) for e in ("onnxruntime", "tenon", "tenon")]
        print("  to load, s: onnxruntime {:.2f}, tenon {:.2f}, with a full cache {:.2f}".format(*seconds), flush=True)


if __name__ == "__main__":
    main()
