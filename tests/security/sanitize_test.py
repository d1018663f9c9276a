#!/usr/bin/env python3
"""sanitize_test.py PROGRAM [--every N] [--target T]... PLACE... -- runs every model below each PLACE under a sanitizer build.

A model and a target (plan and cpu unless named) are a case; --every N takes each N-th.  Inputs are the program's own.
A model that is refused passes, since files of weights and damaged files are among them: what fails is a finding (status 99), a
signal, a status that Tenon does not have, and a run that does not end.  At least half of the cases must really run.
"""
import glob, os, subprocess, sys

ENDINGS = ("onnx", "tir", "tflite", "mlir", "mlirbc", "jax_export", "pt", "pt2")
STATUSES = (0, 1, 2, 4)  # success, failure, usage, unsupported
SECONDS = 900


def models(places):
    for place in places:
        if os.path.isfile(place): yield place
        for e in ENDINGS: yield from sorted(glob.glob(os.path.join(glob.escape(place), "**", "*." + e), recursive=True))


def main(args):
    program, every, targets, places = args[0], 1, [], []
    rest = iter(args[1:])
    for a in rest:
        if a == "--every": every = int(next(rest))
        elif a == "--target": targets.append(next(rest))
        else: places.append(a)
    cases = [(m, t) for m in models(places) for t in targets or ("plan", "cpu")][::every]
    failed = ran = 0
    for model, target in cases:
        try:
            p = subprocess.run([program, "run", model, "--target", target, "--no-cache"], capture_output=True, text=True, errors="replace",
                               timeout=SECONDS, stdin=subprocess.DEVNULL)
            status, said = p.returncode, p.stderr
        except subprocess.TimeoutExpired:
            status, said = None, f"no end after {SECONDS} s"
        ran += status == 0
        if status not in STATUSES:
            failed += 1
            print(f"FAIL {model} for {target}: status {status}\n{said[-3000:]}", flush=True)
    print(f"{len(cases)} cases, {ran} ran, {len(cases) - ran - failed} refused")
    if 2 * ran < len(cases) or not cases:
        failed += 1
        print("FAIL: fewer than half of the cases ran")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
