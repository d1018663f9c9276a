#!/usr/bin/env python3
"""peers.py -- Tenon beside ONNX Runtime and OpenVINO: speed, time until a model can run, memory.

usage: bench/peers.py NETS_DIR [--threads N] [--rounds N] [--seconds S] [--starts N] [--clock wall|cpu] [--only speed,start] [NAME...]

Installs both peers into build/peers when they are not there.  Each contender is a process of its own (contender.py) and stands
still (SIGSTOP) while another one is measured; rounds go through the contenders in turn, on the same inputs
(NETS_DIR/NAME.in.npz) and threads.  A round's ratio is the faster peer's median time divided by Tenon's, above 1 where Tenon is
faster; what is printed is the median of the rounds' ratios with the least and the most.  The ratio of the least times of all
runs stands beside it, which other work on the machine disturbs less; --clock cpu --threads 1, processor time on one thread, is
disturbed least.  Outputs are compared.
Start: cold with an empty cache folder, warm with the cache that this left, artifact: loading what `tenon compile` wrote.
Writes build/peers.json and build/peers.md.  TENON is the program (build/tenon).
"""
import argparse, json, math, os, statistics, subprocess, sys, tempfile, time
from turns import Contender, difference

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
venv = os.path.join(root, "build", "peers")
PACKAGES = ["onnxruntime==1.31.*", "openvino==2026.4.*", "numpy"]
NETS = ["resnet50", "mobilenet_v2", "squeezenet1_1", "densenet121", "bert_base", "gpt2.new", "vit_b_16.new", "lstm"]
KINDS = ["tenon", "onnxruntime", "openvino"]
tenon = os.environ.get("TENON", os.path.join(root, "build", "tenon"))


def enter_venv():
    """Goes on as the Python that has the peers."""
    python = os.path.join(venv, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(venv): return
    if not os.path.exists(os.path.join(venv, "ready")):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q"] + PACKAGES, check=True)
        open(os.path.join(venv, "ready"), "w").close()
    os.execv(python, [python] + sys.argv)


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def speed(name, args, folder):
    path, inputs = f"{args.nets}/{name}.onnx", f"{args.nets}/{name}.in.npz"
    contenders = {}
    for kind in KINDS:
        contenders[kind] = Contender(kind, path, inputs, args.threads, f"{folder}/cache", args.clock)
        contenders[kind].ask(f"{folder}/{kind}.npz")
    rounds, least = {kind: [] for kind in KINDS}, {kind: math.inf for kind in KINDS}
    for i in range(args.rounds):
        for kind in KINDS[i % 3:] + KINDS[:i % 3]:  # none is always the first
            ms = contenders[kind].ask(str(args.seconds))["ms"]
            rounds[kind].append(statistics.median(ms))
            least[kind] = min(least[kind], *ms)
    ratios = [min(rounds["onnxruntime"][i], rounds["openvino"][i]) / rounds["tenon"][i] for i in range(args.rounds)]
    result = {"ratio": spread(ratios), "least_ms": least,
              "least_ratio": min(least["onnxruntime"], least["openvino"]) / least["tenon"],
              "ms": {kind: spread(rounds[kind]) for kind in KINDS},
              "memory": {kind: contenders[kind].ask("memory") for kind in KINDS},
              "difference": {kind: difference(f"{folder}/tenon.npz", f"{folder}/{kind}.npz") for kind in KINDS[1:]}}
    for c in contenders.values(): c.close()
    return result


def start(name, args, folder):
    """Milliseconds until a session is there, each time in a new process."""
    path, inputs, artifact = f"{args.nets}/{name}.onnx", f"{args.nets}/{name}.in.npz", f"{folder}/{name}.tenon"
    subprocess.run([tenon, "compile", path, "-o", artifact, "--no-cache"], check=True, stdout=subprocess.DEVNULL)
    import capi
    times = {}
    for i in range(args.starts):
        def one(what, kind, file, cache):
            c = Contender(kind, file, inputs, args.threads, cache)
            c.close()
            times.setdefault(what, []).append(c.made_ms)
        one("onnxruntime", "onnxruntime", path, folder)
        one("openvino", "openvino", path, folder)
        one("cold", "tenon", path, f"{folder}/start{i}")
        one("warm", "tenon", path, f"{folder}/start{i}")
        if capi.can_load: one("artifact", "tenon", artifact, folder)
        begin = time.perf_counter()
        subprocess.run([tenon, "run", artifact, "--inputs", inputs, "-j", str(args.threads)], check=True, stdout=subprocess.DEVNULL)
        times.setdefault("artifact_process", []).append((time.perf_counter() - begin) * 1e3)
    os.remove(artifact)
    return {what: spread(ms) for what, ms in times.items()}


def text(s, digits=1):
    return "–" if s is None else f"{s['median']:.{digits}f} ({s['least']:.{digits}f}–{s['most']:.{digits}f})"


def tables(results):
    lines = []
    if any("speed" in r for r in results.values()):
        lines += ["| network | Tenon, ms | ONNX Runtime, ms | OpenVINO, ms | ratio to the faster | least, ms: Tenon, ONNX Runtime, OpenVINO | ratio of the least | largest difference | resident, MB: Tenon, ONNX Runtime, OpenVINO |",
                  "|---" * 9 + "|"]
        for name, r in results.items():
            s = r["speed"]
            lines.append(f"| {name} | " + " | ".join(text(s["ms"][kind], 2) for kind in KINDS) + f" | {text(s['ratio'], 2)} | "
                         + ", ".join(f"{s['least_ms'][k]:.2f}" for k in KINDS) + f" | {s['least_ratio']:.2f} | "
                         f"{max(s['difference'].values()):.1e} | " + ", ".join(f"{s['memory'][k]['grown'] / 1e6:.0f}" for k in KINDS) + " |")
        mean = lambda f: math.exp(statistics.mean(math.log(f(r["speed"])) for r in results.values()))
        lines += ["", f"Geometric mean of the ratios: {mean(lambda s: s['ratio']['median']):.2f}; of the least times: "
                  f"{mean(lambda s: s['least_ratio']):.2f}.", ""]
    if any("start" in r for r in results.values()):
        keys = ["cold", "warm", "artifact", "artifact_process", "onnxruntime", "openvino"]
        lines += ["| network | cold | warm cache | artifact | `tenon run` of the artifact, whole process | ONNX Runtime | OpenVINO |", "|---" * 7 + "|"]
        lines += [f"| {name} | " + " | ".join(text(r["start"].get(k), 0) for k in keys) + " |" for name, r in results.items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("nets")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--only", default="speed,start")
    args, results = parser.parse_intermixed_args(), {}
    for name in args.names or NETS:
        with tempfile.TemporaryDirectory(dir=os.path.join(root, "build")) as folder:
            results[name] = {what: {"speed": speed, "start": start}[what](name, args, folder) for what in args.only.split(",")}
        print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
    with open(os.path.join(root, "build", "peers.json"), "w") as f: json.dump({"threads": args.threads, "networks": results}, f, indent=1)
    with open(os.path.join(root, "build", "peers.md"), "w") as f: f.write(tables(results))
    print(tables(results), end="")


enter_venv()
main()
