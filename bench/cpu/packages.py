#!/usr/bin/env python3
"""packages.py -- the models that Python packages ship, each beside the runtime of its package: ratios, time lost, slowest steps.

usage: bench/cpu/packages.py FOLDER [--only GLOB,...] [--threads N] [--clock wall|cpu] [--rounds N] [--seconds S] [--steps N] [--out F.json]

FOLDER has a models.json, models and their inputs: what a tool outside of this repository extracts from wheels, with the
sizes that it chose for dynamic shapes.  A record has `file`, `inputs`, `runtime` (onnxruntime or litert) and, where two packages
ship the same bytes, the same `sha256`: such a model is measured once.

Both runtimes are processes of their own, measured in turn on the same inputs (lib/interleave.py).  The ratio is Tenon's
least time divided by its runtime's: below 1 Tenon is faster.  Models are ranked by ratio, then by the time lost beyond 1.2 x.
For the slowest `--steps` models the steps that take most of the time are named, as `tenon bench --profile` measures them.
"""
import argparse, fnmatch, importlib.util, json, math, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from interleave import Contender, Ended, rounds, tenon  # noqa: E402

MODULES = {"onnxruntime": "onnxruntime", "litert": "ai_edge_litert"}
BAR = 1.2


def records(folder, only):
    """Records to measure, and why the others are not."""
    with open(os.path.join(folder, "models.json")) as f: listed = json.load(f)
    seen, take, leave = {}, [], {}
    for r in listed:
        if only and not any(fnmatch.fnmatch(r["file"], g) for g in only): continue
        reason = next((n for n in r["notes"] if n.startswith(("custom op", "no inputs", r["runtime"] + " fails")) and "com.microsoft" not in n), None)
        if r["sha256"] in seen: reason = "same bytes as " + seen[r["sha256"]]
        elif r["runtime"] not in MODULES: reason = "no driver of " + r["runtime"]
        elif not importlib.util.find_spec(MODULES[r["runtime"]]): reason = MODULES[r["runtime"]] + " is not installed"
        elif not r["inputs"]: reason = "no inputs"
        seen.setdefault(r["sha256"], r["file"])
        if reason: leave[r["file"]] = reason
        else: take.append(r)
    return take, leave


def measure(folder, r, args):
    path, inputs = os.path.join(folder, r["file"]), os.path.join(folder, r["inputs"])
    both = {}
    try:
        for kind in ("tenon", r["runtime"]): both[kind] = Contender(kind, path, inputs, args.threads, clock=args.clock)
        out, _ = rounds(both, args.rounds, args.seconds, 1)
        return {"tenon_ms": out["tenon"]["min_ms"], "peer_ms": out[r["runtime"]]["min_ms"], "made_ms": both["tenon"].made_ms, "peer_made_ms": both[r["runtime"]].made_ms}
    finally:
        for c in both.values(): c.close()


def slowest_steps(folder, r, args, count=4):
    """[(share, kind, name)] of a model, by `tenon bench --profile`."""
    command = [tenon, "bench", os.path.join(folder, r["file"]), "--inputs", os.path.join(folder, r["inputs"]), "--profile", "--json",
               "--seconds", "0.3", "--warmup", "0.1", "--threads", str(args.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode: return []
    steps = json.loads(done.stdout).get("steps", [])
    total = sum(s["ms"] for s in steps) or 1
    top = sorted(steps, key=lambda s: -s["ms"])[:count]
    return [(s["ms"] / total, s["kind"], f"{s['what']} {s['node'] or ''}".strip()) for s in top]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--only", type=lambda s: s.split(","))
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--clock", choices=["wall", "cpu"], default="cpu")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.15)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--out")
    args = p.parse_args()
    take, leave = records(args.folder, args.only)
    rows = []
    for r in take:
        try: got = measure(args.folder, r, args)
        except Ended as e:
            leave[r["file"]] = str(e)
            continue
        rows.append({"model": r["file"], **got, "ratio": got["tenon_ms"] / got["peer_ms"], "record": r})
        print(f"{rows[-1]['ratio']:8.2f}  {r['file']}", file=sys.stderr, flush=True)
    rows.sort(key=lambda x: -x["ratio"])
    print(f"| model | Tenon, ms | its runtime, ms | ratio | lost beyond {BAR} x, ms |\n|---|---|---|---|---|")
    for x in rows:
        lost = max(0.0, x["tenon_ms"] - BAR * x["peer_ms"])
        print(f"| {x['model']} | {x['tenon_ms']:.4g} | {x['peer_ms']:.4g} | {x['ratio']:.2f} | {lost:.3g} |")
    if rows:
        mean = math.exp(sum(math.log(x["ratio"]) for x in rows) / len(rows))
        print(f"\n{len(rows)} models, geometric mean {mean:.3f}, above {BAR}: {sum(x['ratio'] > BAR for x in rows)}, {args.threads} threads, {args.clock} time")
    for x in [x for x in rows if x["ratio"] > 1][:args.steps]:
        x["steps"] = slowest_steps(args.folder, x["record"], args)
        print(f"{x['model']} ({x['ratio']:.2f}): " + "; ".join(f"{share:.0%} {kind} {name}" for share, kind, name in x["steps"]))
    for file, why in leave.items(): print(f"not measured: {file}: {why}")
    if args.out:
        for x in rows: x.pop("record")
        with open(args.out, "w") as f: json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
