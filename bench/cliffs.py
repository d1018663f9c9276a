#!/usr/bin/env python3
"""cliffs.py -- where Tenon falls off: random layers and whole networks beside the best peer, ranked by the time lost.

usage: bench/cliffs.py --cpu [KEY...] [--layers N] [--seed N] [--threads N] [--clock wall|cpu] [--features avx2|sse2] [--peers NAME,...]
       bench/cliffs.py --cpu --networks [FILE.onnx...] [--zoo DIR]
       bench/cliffs.py --gpu [--networks] [--precision f32|tf32|bf16] [--batch 1,32] [--minutes M]
       bench/cliffs.py --cpu|--gpu [--networks] --report [--docs]

Layers are those of bench/lib/layers.py: every op family, tiny to large, odd sizes, strides, groups, dilation, dtypes, layouts, epilogues.  --layers N takes
the first N of the seed (150), in rounds over the families; KEY (conv2d/3, 'gather/*') takes some.  Networks are those of bench/lib/networks.py, which need
nothing but ONNX, those of --zoo (what bench/once/zoo.py made), and files.

On a CPU the peers are ONNX Runtime and OpenVINO.  Each runtime is a process of its own, which stands still (SIGSTOP) while another one is measured; rounds go
through them in turn.  A time is the least of all rounds.  The ratio is the best peer's time divided by Tenon's, above 1 where Tenon is faster.  Outputs are
compared with ONNX Runtime's, and a peer with other outputs does not count.  --features avx2 compiles Tenon for AVX2 alone, and OpenVINO runs under
ONEDNN_MAX_CPU_ISA=AVX2; ONNX Runtime cannot be restricted, and is left out.

On a GPU the peer is PyTorch: layers eager in a CUDA graph, networks compiled (torch.compile) in a CUDA graph, in the same precision, with its own error beside Tenon's.

Rows are appended to OUT (build/cliffs/cpu.jsonl or gpu.jsonl) as they are measured, and what is there from the same build is not measured again (--again: it is): a run that was
broken off goes on, and a long one can be several commands (--minutes M ends after M minutes, on a GPU after at most 8).  --docs writes docs/benchmarks/cliffs.md from the rows.
"""
import argparse, fnmatch, json, os, subprocess, sys, tempfile, time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(root, "bench", "lib"), os.path.join(root, "bench", "gpu")]
from peers_venv import enter_venv  # noqa: E402

if __name__ == "__main__" and "--gpu" not in sys.argv: enter_venv()
import numpy as np  # noqa: E402
import cliffs_report, layers  # noqa: E402
from interleave import Contender, Ended, difference, rounds, tenon  # noqa: E402

# What Tenon may use (TENON_FEATURES), and what OpenVINO may (ONEDNN_MAX_CPU_ISA).
FEATURES = {"avx2": ("-avx512f", "AVX2"), "sse2": ("-sse4.1", "SSE41")}
COMPILE_LIMIT = 120  # seconds


class Results:
    """A file of rows, one JSON object a line; the last one of a key counts."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    row = json.loads(line)
                    self.rows[row["id"]] = row

    def add(self, row):
        self.rows[row["id"]] = row
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        with open(self.path, "a") as f: f.write(json.dumps(row) + "\n")


def revision():
    return subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def said_json(command, env):
    try: r = subprocess.run(command, capture_output=True, text=True, env=env, timeout=COMPILE_LIMIT)
    except subprocess.TimeoutExpired: return None
    return json.loads(r.stdout) if r.returncode == 0 else None


def explain(path, artifact, inputs, threads, env):
    """The step that takes longest, how it is done, and why not otherwise; and the next ones."""
    timed = said_json([tenon, "bench", artifact, "--profile", "--json", "-j", str(threads), "--inputs", inputs, "--seconds", "0.05", "--warmup", "0"], env)
    said = said_json([tenon, "explain", "--json", path], env)
    if not timed or not said or not timed["steps"]: return {}
    steps = sorted(timed["steps"], key=lambda s: -s["ms"])
    total, top = sum(s["ms"] for s in steps) or 1, steps[0]
    kernel = next((k for k in said["kernels"] if k["name"] == top["node"]), {})
    host = next((h["why"] for h in said["on_host"] if h.get("name") == top["node"]), said["on_host"][0]["why"] if said["on_host"] and top["kind"] == "host" else None)
    refused = "; ".join(f"{t['template']}: {t['why']}" for t in kernel.get("refused", []))
    return {"kernel": top["node"], "kernels": sum(s["kind"] == "kernel" for s in steps), "host": len(said["on_host"]), "template": "host" if top["kind"] == "host" else (top["what"] or "-").split(" ")[0],
            "schedule": kernel.get("schedule_text") or top["what"], "reason": host or refused,
            "steps": [f"{100 * s['ms'] / total:.0f} % {s['node']} ({s['what']})" for s in steps[:4]]}


class Cpu:
    def __init__(self, args):
        self.args, self.contenders = args, {}
        self.peers = args.peers.split(",") if args.peers else ["openvino"] if args.features else ["onnxruntime", "openvino"]
        self.env = dict(os.environ, TENON_CACHE=os.environ.get("TENON_CACHE", os.path.join(root, "build", "cliffs", "cache")))
        self.peer_env = {}
        if args.features: self.env["TENON_FEATURES"], self.peer_env["ONEDNN_MAX_CPU_ISA"] = FEATURES[args.features]

    def open(self, kind, path, inputs):
        """The runtime with this model: its process is kept from model to model."""
        c = self.contenders.get(kind)
        try:
            if c: c.open(path, inputs)
            else: self.contenders[kind] = Contender(kind, path, inputs, self.args.threads, self.env if kind == "tenon" else self.peer_env, self.args.clock)
        except (Ended, BrokenPipeError):
            if c and c.process.poll() is None: raise  # it said why
            self.contenders.pop(kind, None)
            raise
        return self.contenders[kind]

    def compile(self, path, folder):
        begin, out = time.perf_counter(), f"{folder}/model.tenon"
        r = subprocess.run([tenon, "compile", path, "-o", out, "--force", "--target", "cpu", "--no-cache"], capture_output=True, text=True, env=self.env, timeout=COMPILE_LIMIT)
        if r.returncode: raise RuntimeError(r.stderr.strip().splitlines()[0] if r.stderr.strip() else f"exit status {r.returncode}")
        return out, time.perf_counter() - begin

    def measure(self, path, inputs, near, folder, seconds):
        row, opened, missing = {}, {}, {}
        try: artifact, row["compile_s"] = self.compile(path, folder)
        except (RuntimeError, subprocess.TimeoutExpired) as e: return {"refused": str(e)[:300]}
        for kind in ["tenon"] + self.peers:
            try:
                c = self.open(kind, artifact if kind == "tenon" else path, inputs)
                c.ask(f"{folder}/{kind}.npz")
                opened[kind] = c
            except Ended as e:
                if self.contenders.get(kind) and self.contenders[kind].process.poll() is not None: del self.contenders[kind]
                missing[kind] = str(e)[:200]
        if "tenon" not in opened: return {"refused": missing["tenon"]}
        row["wrong"] = self.wrong(opened, near, folder, row)
        got, _ = rounds(opened, self.args.rounds, seconds, 1)
        row.update(us={k: g["min_ms"] * 1e3 for k, g in got.items()}, missing=missing, **explain(path, artifact, inputs, self.args.threads, self.env))
        peers = {k: t for k, t in row["us"].items() if k != "tenon" and k not in row["wrong"]}
        if peers:
            best = min(peers, key=peers.get)
            row.update(best=best, ratio=peers[best] / row["us"]["tenon"], lost_us=row["us"]["tenon"] - peers[best])
        return row

    def wrong(self, opened, near, folder, row):
        """Who gives other outputs than the judge."""
        judge = next((k for k in self.peers if k in opened), None)
        if not judge: return []
        far = {k: difference(f"{folder}/{k}.npz", f"{folder}/{judge}.npz") for k in opened if k != judge}
        row["difference"] = far.get("tenon")
        return [k for k, d in far.items() if not d < near]

    def close(self):
        for c in self.contenders.values(): c.close()


def wanted(args):
    """What is to be measured: key, and how it is made."""
    if args.networks:
        import networks
        return networks.found(args.names, args.zoo, os.path.join(root, "build", "cliffs"))
    keys = layers.layers(args.layers)
    if args.names: keys = [k for k in layers.layers(40 * len(layers.FAMILIES)) if any(fnmatch.fnmatchcase(k, p) for p in args.names)]
    return [(k, lambda k=k: layers.make(args.seed, k)) for k in keys]


def stamp():
    library = os.path.realpath(tenon)
    return f"{os.path.getsize(library)}-{os.path.getmtime(library):.0f}"


def run_cpu(args, results):
    cpu, end, build, rev = Cpu(args), time.time() + args.minutes * 60, stamp(), revision()
    todo, doctor = wanted(args), said_json([tenon, "doctor", "--json"], cpu.env) or {}
    machine = f"{doctor.get('cpu', 'unknown')}, {doctor.get('usable_cores', '?')} cores"
    for i, (key, make) in enumerate(todo):
        kind = "networks" if args.networks else "layers"
        ident = f"cpu {kind} {'' if args.networks else f'{args.seed} '}{key} -j{args.threads} {args.features or 'all'}"
        old = results.rows.get(ident)
        if old and not args.again and old["build"] == build and old.get("clock") == args.clock: continue
        if time.time() > end:
            print(f"{i} of {len(todo)}: time is up; the same command goes on", file=sys.stderr)
            break
        with tempfile.TemporaryDirectory() as folder:
            net = make()
            path, inputs = net.write(folder)
            row = cpu.measure(path, inputs, net.near, folder, args.seconds or (0.3 if args.networks else 0.06))
        row.update(id=ident, key=key, seed=args.seed, text=net.text, threads=args.threads, features=args.features, clock=args.clock, build=build, revision=rev, kind=kind, machine=machine,
                   when=time.strftime("%Y-%m-%d %H:%M", time.gmtime()))
        results.add(row)
        print(f"[{i + 1}/{len(todo)}] {cliffs_report.line(row)}", file=sys.stderr, flush=True)
    cpu.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    for flag in ("cpu", "gpu", "networks", "report", "docs", "again"): p.add_argument("--" + flag, action="store_true")
    p.add_argument("--layers", type=int, default=150)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, help="of a runtime in a round")
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    p.add_argument("--features", choices=list(FEATURES))
    p.add_argument("--peers", help="onnxruntime, openvino; default both")
    p.add_argument("--precision", default="f32")
    p.add_argument("--batch", default="1,32")
    p.add_argument("--minutes", type=float, default=1e6)
    p.add_argument("--zoo", default=os.path.join(root, "build", "zoo"))
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--out")
    args = p.parse_intermixed_args()
    if args.cpu == args.gpu: p.error("one of --cpu and --gpu")
    args.out = args.out or os.path.join(root, "build", "cliffs", "cpu.jsonl" if args.cpu else "gpu.jsonl")
    results = Results(args.out)
    if args.gpu:
        import cliffs_gpu
        args.wanted = wanted
        args.cache = os.path.join(os.path.dirname(os.path.abspath(args.out)), "cache")
        args.minutes = min(args.minutes, 8) if not args.worker else args.minutes
        if not args.report: cliffs_gpu.run(args, results)
        if args.worker: return
    elif not args.report: run_cpu(args, results)
    if args.docs: cliffs_report.write_page(results.rows.values(), os.path.join(root, "docs", "benchmarks", "cliffs.md"))
    else: print(cliffs_report.text(results.rows.values(), args), end="")


if __name__ == "__main__": main()
