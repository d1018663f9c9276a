#!/usr/bin/env python3
"""tune.py -- what `tenon tune` gains on networks and layers that nobody tuned for, measured in fresh processes.

usage: bench/tune.py [KEY...|FILE.onnx...] [--networks N] [--layers N] [--time S] [--threads N] [--clock wall|cpu] [--features avx2|sse2]
                     [--rounds N] [--seconds S] [--out F.jsonl] [--report] [--no-residual]
       bench/tune.py transfer [RECORDS.jsonl] [--db F]

Networks are those of bench/lib/networks.py, layers those of bench/lib/layers.py (the first N of the seed, in rounds over the families).  Each is tuned with
an empty database for --time seconds.  Then it is compiled with and without the schedules, and both files run in processes of their own, interleaved.
The gain is the default's time divided by the tuned one's: the median over rounds of the rounds' medians.  Outputs must have the same bytes.

`transfer` prints what rules that were learned from records (`tenon tune train`) gain on workloads and machines that did not choose them.

A row is appended to OUT (build/tune.jsonl) for each; --report prints the rows with geometric means.  --clock cpu counts processor time, for machines that others use.
"""
import argparse, json, math, os, statistics, subprocess, sys, tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(root, "bench", "lib")]
import numpy as np  # noqa: E402
import layers, networks  # noqa: E402
from interleave import Contender, rounds, tenon  # noqa: E402

FEATURES = {"": "", "avx2": "-avx512f", "sse2": "-sse4.1"}


def call(env, *command):
    p = subprocess.run([tenon, *command], capture_output=True, text=True, env=env)
    if p.returncode: raise RuntimeError(f"tenon {command[0]}: {p.stderr.strip()[-300:]}")
    return p.stdout


def same_outputs(a, b):
    with np.load(a) as x, np.load(b) as y: return sorted(x) == sorted(y) and all(x[n].tobytes() == y[n].tobytes() for n in x)


def measure(key, make, args, env):
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)
        model, inputs = make().write(tmp)
        said = json.loads(call(env, "tune", model, "--inputs", inputs, "--time", f"{args.time}s", "--db", "none", "-o", at("schedules"), "--json"))
        call(env, "compile", model, "--target", "cpu", *(["--no-residual"] if args.no_residual else []), "-o", at("default.tenon"))
        call(env, "compile", model, "--target", "cpu", "--tuned", at("schedules"), "-o", at("tuned.tenon"))
        runtimes = {name: Contender("tenon", at(name + ".tenon"), inputs, args.threads, env, args.clock) for name in ("default", "tuned")}
        times, _ = rounds(runtimes, args.rounds, args.seconds, 1)
        for name, c in runtimes.items():
            c.ask(at(name + ".npz"))
            c.close()
        ratios = [d / t for d, t in zip(times["default"]["rounds_ms"], times["tuned"]["rounds_ms"])]
        return {"id": key, "features": args.features or "all", "gain": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
                "same": same_outputs(at("default.npz"), at("tuned.npz")), "default_ms": times["default"]["ms"]["median"], "tuned_ms": times["tuned"]["ms"]["median"],
                "said": said["gain"], "kernels": len(said["kernels"]), "tasks": said["tasks"], "trials": said["trials"], "tune_seconds": said["seconds"],
                "tune_processor_seconds": said["processor_seconds"], "wrong": said["wrong"], "clock": args.clock, "threads": args.threads}


def report(path):
    with open(path) as f: rows = list({(r["id"], r["features"]): r for r in map(json.loads, f)}.values())
    for features in sorted({r["features"] for r in rows}):
        own = [r for r in rows if r["features"] == features and "gain" in r]
        print(f"{features}: {len(own)} models")
        for r in sorted(own, key=lambda r: -r["gain"]):
            print(f"  {r['gain']:6.3f} ({r['least']:.3f} to {r['most']:.3f})  {r['kernels']:3} of {r['tasks']:3} kernels, {r['trials']:5} trials  {r['id']}{'' if r['same'] else '  OTHER BITS'}")
        if own:
            trials, wall, cpu = (sum(r[k] for r in own) for k in ("trials", "tune_seconds", "tune_processor_seconds"))
            print(f"  geometric mean {math.exp(sum(math.log(r['gain']) for r in own) / len(own)):.3f}, least {min(r['gain'] for r in own):.3f}; "
                  f"{trials / wall:.1f} trials a second, {trials / max(cpu, 1e-9):.1f} a processor second")


def transfer(files, db):
    out = call(dict(os.environ), "tune", "train", *files[:1], *(["--db", db] if db else []), "-o", os.devnull, "--json")
    t = json.loads(out)
    print(f"{t['tasks']} tasks, {t['rules']} rules")
    row = lambda name, s, more: print(f"  {name:18} {s['affected']:5} of {s['tasks']:5} tasks changed, gain {s['gain']:.3f}, least {s['least']:.3f}, {100 * s['recovered']:5.1f} % of the best schedules' gain{more}")
    print("workloads held out, five folds:")
    for x in t["templates"]: row(x["template"], x, f", {x['rules']} rules" if x["rules"] else ", left out")
    print("a machine left out:")
    for x in t["left_out"]: row(x["machine"], x, "")


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    p.add_argument("keys", nargs="*")
    p.add_argument("--networks", type=int, default=20)
    p.add_argument("--layers", type=int, default=0)
    p.add_argument("--time", type=float, default=120)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    p.add_argument("--features", choices=["", "avx2", "sse2"], default="")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=os.path.join(root, "build", "tune.jsonl"))
    p.add_argument("--report", action="store_true")
    p.add_argument("--no-residual", action="store_true")
    p.add_argument("--db")
    args = p.parse_args()
    if args.keys[:1] == ["transfer"]: return transfer(args.keys[1:], args.db)
    if args.report: return report(args.out)
    env = dict(os.environ)
    if FEATURES[args.features]: env["TENON_FEATURES"] = FEATURES[args.features]
    families = list(layers.FAMILIES)
    named = [k for k in args.keys if not k.endswith(".onnx")]
    todo = []
    if args.layers or any(k.split("/")[0] in families for k in named):
        keys = [f"{f}/{i}" for i in range(-(-max(args.layers, 1) // len(families))) for f in families][: args.layers]
        keys = [k for k in named if k.split("/")[0] in families] or keys
        todo += [("layer " + k, lambda k=k: layers.make(args.seed, k)) for k in keys]
    nets = [k for k in args.keys if k.split("/")[0] in networks.NETWORKS or k.endswith(".onnx")]
    with tempfile.TemporaryDirectory() as work:
        if nets or not todo: todo += networks.found(nets, None, work)[: len(nets) or args.networks]
        for key, make in todo:
            try: row = measure(key, make, args, env)
            except (RuntimeError, OSError, ValueError) as e: row = {"id": key, "features": args.features or "all", "failed": str(e)}
            os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
            with open(args.out, "a") as f: f.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


main()
