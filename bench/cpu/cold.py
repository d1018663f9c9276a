#!/usr/bin/env python3
"""cold.py -- how long the first result takes: InferenceSession(path) and its first run, in a new process.

Ways, interleaved: `cold` (an empty cache, tier=auto), `full` (an empty cache, tier=full), `cached` (the cache has every
kernel: it was exported and imported once), and `ort`, ONNX Runtime.  Seconds by the clock, median (least-most), and the
processor seconds of the process and the code generators it waited for.  The import of the packages is not counted.

Inputs are those of MODEL.in.npz beside MODEL.onnx, else random ones; dynamic dimensions of these are 1, or what
--dim says.

usage: bench/cpu/cold.py [--rounds N] [--ways cold,full,cached,ort] [--dim N] MODEL.onnx...
       (needs numpy and onnxruntime; TENON is the program.  bench/lib/yolov8n.py makes a detector to try)
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(int64)": "int64",
         "tensor(int32)": "int32", "tensor(int8)": "int8", "tensor(uint8)": "uint8", "tensor(bool)": "bool"}


def inputs_of(session, path, dim):
    import numpy as np

    beside = path[: -len(".onnx")] + ".in.npz"
    if os.path.exists(beside):
        return dict(np.load(beside))
    rng, made = np.random.default_rng(1), {}
    for x in session.get_inputs():
        shape = [d if isinstance(d, int) else dim for d in x.shape]
        made[x.name] = (rng.random(shape) if "float" in x.type or "double" in x.type else np.zeros(shape)).astype(TYPES[x.type])
    return made


def child(way, path, dim):
    """In a process of its own: prints the seconds of loading and of the first run, and the processor's."""
    import resource, time

    if way == "ort":
        import onnxruntime as package

        options = {"providers": ["CPUExecutionProvider"]}
    else:
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import tenon as package

        options = {"providers": [("CPUExecutionProvider", {"tier": "full" if way == "full" else "auto"})]}
    used = lambda: sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    before, begin = used(), time.perf_counter()
    session = package.InferenceSession(path, **options)
    loaded = time.perf_counter()
    feeds = inputs_of(session, path, dim)
    ready = time.perf_counter()
    session.run(None, feeds)
    end = time.perf_counter()
    print(json.dumps({"load": loaded - begin, "first": loaded - begin + end - ready, "cpu": used() - before}))
    sys.stdout.flush()
    os._exit(0)  # what goes on in the background is not measured


def measure(way, path, dim, cache):
    env = dict(os.environ, TENON_CACHE=cache)
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", way, "--dim", str(dim), path], env=env,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{way}: {path}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def fill_cache(path, dim, work):
    """A cache with every kernel, by way of an archive, as it would be shipped."""
    tenon = os.environ.get("TENON", os.path.join(ROOT, "build/tenon"))
    made, imported, archive = (os.path.join(work, name) for name in ("made", "imported", "kernels.tcache"))
    measure("full", path, dim, made)
    for cache, arguments in ((made, ["export", "-o", archive]), (imported, ["import", archive, "--trust"])):
        subprocess.run([tenon, "cache", *arguments], env=dict(os.environ, TENON_CACHE=cache), check=True, stdout=subprocess.DEVNULL)
    return imported


def rounds_of(path, ways, rounds, dim):
    seen = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as work:
        imported = fill_cache(path, dim, work) if "cached" in ways else None
        for i in range(rounds):
            for way in ways:
                cache = imported if way == "cached" else os.path.join(work, f"cache-{way}-{i}")
                seen[way].append(measure(way, path, dim, cache))
                if way != "cached":
                    shutil.rmtree(cache, ignore_errors=True)
    return seen


def text(seen, key):
    v = [s[key] for s in seen]
    return f"{statistics.median(v):.2f} ({min(v):.2f}–{max(v):.2f})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--ways", default="cold,full,cached,ort")
    p.add_argument("--dim", type=int, default=1)
    p.add_argument("--child")
    p.add_argument("model", nargs="+")
    a = p.parse_args()
    if a.child:
        return child(a.child, a.model[0], a.dim)
    ways = a.ways.split(",")
    print("| model | way | load, s | first result, s | processor, s |\n|---|---|---|---|---|")
    for path in a.model:
        for way, seen in rounds_of(path, ways, a.rounds, a.dim).items():
            print(f"| {os.path.basename(path)} | {way} | {text(seen, 'load')} | {text(seen, 'first')} | {text(seen, 'cpu')} |", flush=True)


main()
