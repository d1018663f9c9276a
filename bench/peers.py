#!/usr/bin/env python3
"""peers.py -- Tenon beside ONNX Runtime, OpenVINO and MNN on this processor: `make bench-cpu`.

usage: bench/peers.py [SECTION...] [--only NAME,...] [--resume] [--rounds N] [--seconds S] [--threads N] [--clock wall|cpu]
                      [--nets DIR] [--data DIR] [--zoo DIR] [--out DIR]

Sections (all by default, each less than five minutes; `bench/peers.py list` says what they are):
  f32 f32_1 batch8 bf16 int8 small small_1 zoo start size, and FILE.onnx... for any other models

Installs the peers into build/peers when they are not there.  Each runtime is a process of its own (contender.py) and stands
still (SIGSTOP) while another one is measured; rounds go through them in turn, on the same inputs and threads.  Times are
medians of the rounds' medians, with the least and the most of them; the ratio is the best peer's time divided by Tenon's, above 1
where Tenon is faster.  Outputs are compared: a peer whose outputs are not those of the others does not count.  Before each
round the time that a cache line takes between two cores is measured: where it differs, the machine was another.

Writes OUT/cpu.json, cpu.md and cpu.svg (docs/benchmarks) after each model, by machine and section: a section can be measured again
alone, and one that was broken off goes on with --resume.  TENON is the program (build/tenon), LIBTENON the library.
"""
import argparse, json, os, platform, subprocess, sys, tempfile, time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "bench", "lib"))
from peers_venv import enter_venv  # noqa: E402

DISTS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "mnn": "mnn"}
if __name__ == "__main__": enter_venv()
from interleave import Contender, Ended, difference, rounds, spread, tenon  # noqa: E402
import models, report  # noqa: E402

PEERS = ["onnxruntime", "openvino", "mnn"]
# name: threads, runtimes, what counts as a peer, how near outputs must be, title
SECTIONS = {
    "f32": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="f32, batch 1, 2 threads"),
    "f32_1": dict(threads=1, kinds=["tenon"] + PEERS, near=1e-3, title="f32, batch 1, 1 thread"),
    "batch8": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="f32, batch 8, 2 threads"),
    "bf16": dict(threads=2, kinds=["tenon:bf16", "tenon:f32", "openvino:bf16"], near=0.2, title="bf16, batch 1, 2 threads", peak="gflops_bf16"),
    "int8": dict(threads=2, kinds=["tenon", "onnxruntime", "openvino"], near=0.5, title="int8, batch 1, 2 threads", peak="gops_i8"),
    "small": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="small models, 2 threads"),
    "small_1": dict(threads=1, kinds=["tenon"] + PEERS, near=1e-3, title="small models, 1 thread"),
    "zoo": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="other networks, f32, 2 threads", rounds=3, seconds=0.25),
    "models": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="files given, f32, 2 threads"),
    "start": dict(threads=2, kinds=["tenon"] + PEERS, near=1e-3, title="time until a model can run"),
    "size": dict(threads=2, kinds=[], near=0, title="installed size"),
}


def names_of(section, m, files):
    if section in ("f32", "f32_1"): return models.EIGHT
    if section == "start": return ["lstm", "mobilenet_v2", "resnet50", "bert_base"]
    if section == "batch8": return ["resnet50", "mobilenet_v2", "bert_base"]
    if section == "bf16": return ["resnet50", "mobilenet_v2", "bert_base", "vit_b_16.new"]
    if section == "int8": return ["resnet50", "mobilenet_v2", "bert_base", "mobilenet_v2_qdq"]
    if section in ("small", "small_1"): return list(models.SMALL) + ["lstm"]
    if section == "zoo": return m.zoo_names()
    return files if section == "models" else ["sizes"]


def files_of(section, m, name):
    if section == "batch8": return m.batch(name, 8)
    if section == "int8": return m.bytes(name)
    if section in ("small", "small_1"): return m.small(name)
    if section in ("zoo", "models"): return m.other(name)
    return m.net(name)


def json_of(*command):
    return json.loads(subprocess.run(list(command), capture_output=True, text=True, check=True).stdout)


class Bench:
    def __init__(self, args):
        self.args = args
        self.models = models.Models(args.nets, args.data, args.zoo, os.path.join(root, "build", "bench"))
        self.cache = os.path.join(root, "build", "bench", "cache")
        self.out = os.path.join(args.out, "cpu.json")
        self.all = json.load(open(self.out)) if os.path.exists(self.out) else {"machines": {}}
        doctor = json_of(tenon, "doctor", "--json")
        self.here = self.all["machines"].setdefault(f"{doctor['cpu']}, {doctor['usable_cores']} cores", {"sections": {}})
        self.here["features"] = doctor["features"]
        self.shared_object = os.path.realpath(os.environ.get("LIBTENON", os.path.join(root, "build", "libtenon.so")))
        self.revision = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        self.stamp = f"{os.path.getsize(self.shared_object)}-{os.path.getmtime(self.shared_object):.0f}"

    def peaks(self):
        """Measured now, on one thread and on all."""
        got = {str(p["threads"]): p for p in json_of(tenon, "doctor", "--measure", "--json")["peaks"]}
        old = self.here.setdefault("peaks", {})
        for threads, p in got.items():  # what disturbs makes slower: the best stays
            old[threads] = {k: max(v, old.get(threads, {}).get(k, 0)) if isinstance(v, float) else v for k, v in p.items()}

    def say(self, *text): print(*text, file=sys.stderr, end="", flush=True)

    def open_all(self, section, path, inputs, folder):
        """Runtime to its process, or to why there is none; and what is given for its outputs."""
        spec, opened, missing = SECTIONS[section], {}, {}
        for kind in spec["kinds"]:
            try:
                model = self.models.mnn(path) if kind.startswith("mnn") else path
                opened[kind] = Contender(kind, model, inputs, spec["threads"], {"TENON_CACHE": self.cache}, self.args.clock)
                opened[kind].ask(f"{folder}/{kind}.npz")
            except (Ended, RuntimeError) as e:
                if kind == spec["kinds"][0]: raise
                opened.pop(kind, None)
                missing[kind] = str(e)
        if section == "int8":  # our own f32 beside it
            try: opened["tenon:f32"] = Contender("tenon:f32", *self.models.net(os.path.basename(path).split(".")[0]), spec["threads"], {"TENON_CACHE": self.cache}, self.args.clock)
            except (Ended, OSError): pass
        return opened, missing

    def wrong(self, section, opened, folder):
        """Who gives other outputs than ONNX Runtime, or than us where it is not there; with each one's difference."""
        spec = SECTIONS[section]
        judge = next((k for k in ("onnxruntime", "tenon:f32") if k in opened and os.path.exists(f"{folder}/{k}.npz")), spec["kinds"][0])
        far = {k: difference(f"{folder}/{k}.npz", f"{folder}/{judge}.npz") for k in opened if os.path.exists(f"{folder}/{k}.npz") and k != judge}
        return judge, far, [k for k, d in far.items() if not d < spec["near"]]

    def measure(self, section, name, folder):
        spec = SECTIONS[section]
        path, inputs = files_of(section, self.models, name)
        opened, missing = self.open_all(section, path, inputs, folder)
        judge, far, wrong = self.wrong(section, opened, folder)
        if spec["kinds"][0] in wrong: self.say(f" OUTPUTS DIFFER by {far[spec['kinds'][0]]:.1e} ")
        count = self.args.rounds or spec.get("rounds", 5)
        got, trips = rounds(opened, count, self.args.seconds or spec.get("seconds", 0.4), spec["threads"], lambda i: self.say("."))
        for kind, c in opened.items():
            got[kind].update(made_ms=c.made_ms, memory=c.ask("memory"))
            if kind in far: got[kind]["difference"] = far[kind]
            if kind in wrong: got[kind]["wrong"] = True
            c.close()
        row = {"threads": spec["threads"], "runtimes": got, "missing": missing, "compared_with": judge, "round_trip_ns": trips,
               "flops": json_of(tenon, "inspect", "--json", path).get("flops")}
        self.judge(section, row, spec["kinds"][0])
        return row

    def judge(self, section, row, ours):
        """The best peer, and how we stand beside it."""
        got = row["runtimes"]
        peers = [k for k in got if not k.startswith("tenon") and not got[k].get("wrong")]
        times = lambda k: got[k]["rounds_ms"]
        row["ours"] = ours
        if peers:
            best = min(peers, key=lambda k: got[k]["ms"]["median"])
            each = [b / t for b, t in zip(times(best), times(ours))]
            row.update(best=best, ratio={"median": got[best]["ms"]["median"] / got[ours]["ms"]["median"], "least": min(each), "most": max(each)},
                       ratio_min=min(got[k]["min_ms"] for k in peers) / got[ours]["min_ms"])
        for other in ("tenon:f32", "onnxruntime"):
            if other in got and other != ours: row["to_" + other.replace(":", "_")] = got[other]["ms"]["median"] / got[ours]["ms"]["median"]
        peak = self.here.get("peaks", {}).get(str(row["threads"]))
        if peak and row["flops"]: row["peak_share"] = row["flops"] / got[ours]["ms"]["median"] / 1e6 / peak[SECTIONS[section].get("peak", "gflops")]

    def start(self, section, name, folder):
        """Milliseconds until a session is there, each time in a new process: with nothing kept from before, and with what that left."""
        path, inputs = files_of(section, self.models, name)
        artifact, times, threads = f"{folder}/{name}.tenon", {}, SECTIONS[section]["threads"]
        subprocess.run([tenon, "compile", path, "-o", artifact, "--no-cache"], check=True, stdout=subprocess.DEVNULL)

        def one(what, kind, file, env={}):
            try: c = Contender(kind, file, inputs, threads, env)
            except (Ended, RuntimeError): return
            c.close()
            times.setdefault(what, []).append(c.made_ms)
        for i in range(self.args.starts):
            self.say(".")
            ours, theirs = {"TENON_CACHE": f"{folder}/ours{i}"}, {"OPENVINO_CACHE": f"{folder}/openvino{i}"}
            one("tenon, cold", "tenon", path, ours)
            one("tenon, warm", "tenon", path, ours)
            one("tenon, compiled file", "tenon", artifact, ours)
            one("onnxruntime", "onnxruntime", path)
            one("openvino, cold", "openvino", path, theirs)
            one("openvino, warm", "openvino", path, theirs)
            try: one("mnn", "mnn", self.models.mnn(path))
            except RuntimeError: pass
            begin = time.perf_counter()
            subprocess.run([tenon, "run", artifact, "--inputs", inputs, "-j", str(threads)], check=True, stdout=subprocess.DEVNULL)
            times.setdefault("tenon run of the file, whole process", []).append((time.perf_counter() - begin) * 1e3)
        return {"ms": {what: spread(ms) for what, ms in times.items()}}

    def sizes(self, section, name, folder):
        """Bytes on the disk of what each installs."""
        from importlib import metadata
        got = {}
        for kind, dist in DISTS.items():
            files = metadata.files(dist) or []
            got[kind] = sum(os.path.getsize(p) for p in {os.path.realpath(f.locate()) for f in files} if os.path.isfile(p))
        subprocess.run(["cmake", "--install", os.path.dirname(self.shared_object), "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
        installed = {}
        for at, _, files in os.walk(folder):
            for f in files:
                p = os.path.join(at, f)
                if not os.path.islink(p): installed[os.path.relpath(p, folder)] = os.path.getsize(p)
        got["tenon, all that is installed"] = sum(installed.values())
        got["tenon, the runtime of a compiled model"] = next((s for p, s in installed.items() if p.endswith("libtenon_runtime.a")), None)
        codegen = os.path.join(os.path.dirname(self.shared_object), "tenon-codegen")
        needs = subprocess.run(["ldd", codegen], capture_output=True, text=True).stdout if os.path.exists(codegen) else ""
        llvm = next((line.split()[2] for line in needs.splitlines() if "libLLVM" in line), None)
        if llvm: got["LLVM's library, which compiling needs"] = os.path.getsize(os.path.realpath(llvm))
        return {"bytes": got}

    def section(self, section, files):
        spec, started = SECTIONS[section], time.time()
        names = [n for n in names_of(section, self.models, files) if not self.args.only or n in self.args.only.split(",")]
        kept = self.here["sections"].setdefault(section, {"title": spec["title"], "rows": {}})
        kept.update(title=spec["title"], threads=spec["threads"])
        if not names: self.say(f"{section}: no models (zoo: --zoo FOLDER of bench/once/zoo.py make)\n")
        for i, name in enumerate(names):
            label = os.path.basename(name).removesuffix(".onnx")
            self.say(f"{section} [{i + 1}/{len(names)}] {label} ")
            if self.args.resume and kept["rows"].get(label, {}).get("build") == self.stamp:
                self.say("is there\n")
                continue
            with tempfile.TemporaryDirectory(dir=self.models.work) as folder:
                try: row = {"start": self.start, "size": self.sizes}.get(section, self.measure)(section, name, folder)
                except (Ended, RuntimeError, OSError) as e:
                    self.say(f"not measured: {e}\n")
                    continue
            row.update(when=time.strftime("%Y-%m-%d %H:%M", time.gmtime()), build=self.stamp, revision=self.revision, load=os.getloadavg()[0])
            kept["rows"][label] = row
            self.write()
            self.say(f" {row['ratio']['median']:.2f} x {row['best']}\n" if "ratio" in row else "\n")
        self.say(f"{section}: {time.time() - started:.0f} s\n")

    def report(self):
        """The pages anew, of the times that are there."""
        for section, s in self.here["sections"].items():
            for row in s["rows"].values():
                if "runtimes" in row: self.judge(section, row, row["ours"])
        self.write()

    def write(self):
        from importlib import metadata
        self.here["versions"] = dict({k: metadata.version(d) for k, d in DISTS.items()}, system=platform.release())
        os.makedirs(self.args.out, exist_ok=True)
        report.write(self.all, self.args.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--only")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--report", action="store_true", help="only write the pages anew")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, help="in place of the section's")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--nets", default=os.path.join(root, "build", "nets"))
    parser.add_argument("--data", default=os.path.join(root, os.environ.get("TENON_DATA") or "../shared/data"))
    parser.add_argument("--zoo", default=os.path.join(root, "build", "zoo"))
    parser.add_argument("--out", help="default: docs/benchmarks, of files given build/bench")
    args = parser.parse_intermixed_args()
    if args.sections == ["list"]:
        for name, spec in SECTIONS.items(): print(f"{name:8} {spec['title']}")
        return
    files = [s for s in args.sections if s.endswith(".onnx")]
    chosen = [s for s in args.sections if not s.endswith(".onnx")] or ([] if files else [s for s in SECTIONS if s != "models"])
    unknown = [s for s in chosen if s not in SECTIONS]
    if args.threads:
        for spec in SECTIONS.values(): spec["threads"] = args.threads
    if unknown: sys.exit(f"no such section: {' '.join(unknown)} (bench/peers.py list)")
    args.out = args.out or os.path.join(root, *(["docs", "benchmarks"] if chosen or not files else ["build", "bench"]))
    bench = Bench(args)
    if args.report: return bench.report()
    bench.say("measuring this machine\n")
    bench.peaks()
    for section in chosen + (["models"] if files else []): bench.section(section, files)
    print(report.markdown(bench.all), end="")


if __name__ == "__main__": main()
