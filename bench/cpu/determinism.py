#!/usr/bin/env python3
"""determinism.py -- whether a network gives the same bits however it is run.

usage: bench/cpu/determinism.py NETS_DIR [NAME...]      (needs numpy; TENON is the program)

Every network on NETS_DIR/NAME.in.npz, three runs each of: compiled in memory, with 1, 2, 3, 4 and 7 threads; the artifact that
`tenon compile` wrote, likewise; the program of --emit=exe, likewise; and the shared library of --emit=so, which
takes as many threads as the processors that it may use, with each number of those up to what the machine has.  Prints one SHA-256
of all outputs for each network; when there are more, says which runs gave which, and ends with status 1.
"""
import hashlib, os, re, subprocess, sys, tempfile
import numpy as np
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import capi  # noqa: E402

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tenon = os.environ.get("TENON", os.path.join(root, "build", "tenon"))
NETS = ["resnet50", "mobilenet_v2", "squeezenet1_1", "densenet121", "bert_base", "gpt2.new", "vit_b_16.new", "lstm"]
THREADS, RUNS = [1, 2, 3, 4, 7], 3

SO = r"""
import ctypes, os, sys, numpy as np
cpus, library, symbol, runs, shapes = sys.argv[1:6]
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(cpus)])
arrays = [np.load(f) for f in sys.argv[6:]]
outs = [np.empty([int(n) for n in s.split("x")], np.float32) for s in shapes.split(",")]
run = getattr(ctypes.CDLL(library), symbol)
for i in range(int(runs)):
    status = run(*[ctypes.c_void_p(a.ctypes.data) for a in arrays + outs], None)
    if status: sys.exit(f"status {status}")
    for o in outs: sys.stdout.buffer.write(o.tobytes())
"""


def digest(arrays):
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def in_memory(path, feed, note):
    program = capi.Program(path)
    for threads in THREADS:
        session = capi.Session(program, threads)
        session.bind(feed)
        for _ in range(RUNS):
            session.run()
            out = session.outputs()
            note("in memory" if path.endswith(".onnx") else "artifact", threads, digest(out.values()))
        session.close()
    return out


def artifact(path, inputs, names, folder, note):
    for threads in THREADS:
        for _ in range(RUNS):
            run([tenon, "run", path, "--inputs", inputs, "-j", str(threads), "--output", f"{folder}/out.npz"])
            with np.load(f"{folder}/out.npz") as archive: note("artifact", threads, digest(archive[n] for n in names))


def program(path, arrays, names, folder, note):
    for threads in THREADS:
        for _ in range(RUNS):
            run([path, *arrays, "--threads", str(threads), "--output", f"{folder}/exe."])
            note("exe", threads, digest(np.load(f"{folder}/exe.{n}.npy") for n in names))


def library(path, symbol, arrays, outputs, note):
    shapes = ",".join("x".join(map(str, o.shape)) for o in outputs)
    size = sum(o.nbytes for o in outputs)
    for cpus in range(1, len(os.sched_getaffinity(0)) + 1):
        out = run([sys.executable, "-c", SO, str(cpus), path, symbol, str(RUNS), shapes, *arrays])
        for i in range(RUNS): note("so", cpus, hashlib.sha256(out[i * size:(i + 1) * size]).hexdigest())


def network(nets, name, folder):
    """Digest to the ways of running that gave it."""
    seen, model, inputs = {}, f"{nets}/{name}.onnx", f"{nets}/{name}.in.npz"
    note = lambda way, threads, hexes: seen.setdefault(hexes, []).append(f"{way} {threads}")
    symbol = re.sub(r"\W", "_", name)
    with np.load(inputs) as archive: feed = {k: archive[k] for k in archive}
    out = in_memory(model, feed, note)
    for kind, ending in ("tenon", ".tenon"), ("so", ".so"), ("exe", ".exe"):
        run([tenon, "compile", model, "--emit", kind, "-o", f"{folder}/{symbol}{ending}"])
    if capi.can_load: in_memory(f"{folder}/{symbol}.tenon", feed, note)
    else: artifact(f"{folder}/{symbol}.tenon", inputs, list(out), folder, note)
    arrays = []
    for i, key in enumerate(capi.Program(model).names("input")):
        arrays.append(f"{folder}/in{i}.npy")
        np.save(arrays[-1], feed[key])
    library(f"{folder}/{symbol}.so", symbol, arrays, list(out.values()), note)
    program(f"{folder}/{symbol}.exe", arrays, list(out), folder, note)
    return seen


def main():
    bad = 0
    for name in sys.argv[2:] or NETS:
        with tempfile.TemporaryDirectory(dir=os.path.join(root, "build")) as folder: seen = network(sys.argv[1], name, folder)
        runs = sum(len(ways) for ways in seen.values())
        print(f"{name}: {runs} runs, {len(seen)} hash{'es' if len(seen) > 1 else ''}: {' '.join(seen)}", flush=True)
        if len(seen) > 1:
            bad += 1
            for hexes, ways in seen.items(): print(f"  {hexes[:16]} {', '.join(sorted(set(ways)))}")
    sys.exit(1 if bad else 0)


main()
