#!/usr/bin/env python3
"""schedule_replay.py -- that --schedule replays what `tenon explain --json` prints.

For each model and target every kernel's schedule is read from `explain --json` and given back, all of them by --schedule: each
kernel must have the same schedule and the same loops.  CUDA is for a chip by name, and needs no GPU.

    schedule_replay.py [--target cpu|cuda ...] [--precision TYPE] MODEL...
"""
import argparse, json, os, subprocess, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
TARGETS = {"cpu": ["--target", "cpu"], "sm_90a": ["--target", "cuda", "--device", "sm_90a"], "sm_80": ["--target", "cuda", "--device", "sm_80"]}


def explain(model, args):
    """(label, schedule, hash of the loops) of every kernel."""
    p = subprocess.run([TENON, "explain", model, "--json", *args], capture_output=True, text=True)
    if p.returncode: raise SystemExit(f"{model}: {p.stderr.strip()[:2000]}")
    return [(k["label"], k["schedule_text"], k["text_hash"]) for g in json.loads(p.stdout)["kernels"] for k in g["lowered"]]


def replay(model, target, more):
    args = TARGETS[target] + more
    want = explain(model, args)
    rules = {}
    for label, text, _ in want:
        if rules.setdefault(label, text) != text: return [f"two kernels are called '{label}'"], len(want)
    got = explain(model, args + [a for label, text in rules.items() for a in ("--schedule", f"{label}={text}")])
    bad = [f"{w[0]}: {w[1]} {w[2]} became {g[1]} {g[2]}" for w, g in zip(want, got) if w != g]
    if len(want) != len(got): bad.append(f"{len(want)} kernels became {len(got)}")
    return bad, len(want)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target", action="append", choices=list(TARGETS))
    ap.add_argument("--precision")
    ap.add_argument("model", nargs="+")
    a = ap.parse_args()
    more, failed = (["--precision", a.precision] if a.precision else []), 0
    for model in a.model:
        for target in a.target or list(TARGETS):
            try: bad, n = replay(model, target, more)
            except SystemExit as e: bad, n = [str(e)], 0
            print(f"{os.path.basename(model):30} {target:7} {n:5} kernels: {'replayed' if not bad else f'{len(bad)} are not'}", flush=True)
            for line in bad[:10]: print(f"  {line}")
            failed += bool(bad)
    return failed > 0


sys.exit(main())
