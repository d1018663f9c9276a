#!/usr/bin/env python3
"""dynamic.py -- one compilation of a network with dynamic shapes, run at 40 of them.

usage: bench/cpu/dynamic.py NETS_DIR      (needs numpy and onnxruntime; TENON is the program)

bert_base.dyn is compiled once, to an artifact, which then runs for batches 1 to 8 and sequences of 1, 17, 128, 333 and 512 with a
cache folder that is empty and must stay so: nothing is compiled anew.  Each output is compared with ONNX Runtime's: the largest
difference must be at most 1e-4 of the largest element.  Before that the same model compiled in memory runs at 1x128 interleaved with
the network whose sizes are fixed (bert_base), on one thread and measured in processor time, which other work on the machine disturbs
little.  Ends with status 1 when an output is wrong or something was compiled.
"""
import os, statistics, subprocess, sys, tempfile, time
import numpy as np
import onnxruntime as ort
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import capi  # noqa: E402

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tenon = os.environ.get("TENON", os.path.join(root, "build", "tenon"))
BATCHES, SEQUENCES, LIMIT = range(1, 9), [1, 17, 128, 333, 512], 1e-4


def feed_of(session, batch, sequence, rng):
    feed = {}
    for i in session.get_inputs():
        feed[i.name] = np.ones((batch, sequence), np.int64) if "mask" in i.name else rng.integers(0, 30000, (batch, sequence))
    return feed


def points(nets, folder):
    """How many of the points are wrong."""
    model, artifact, cache, wrong, worst = f"{nets}/bert_base.dyn.onnx", f"{folder}/dyn.tenon", f"{folder}/cache", 0, 0.0
    subprocess.run([tenon, "compile", model, "-o", artifact], check=True)
    session, rng = ort.InferenceSession(model, providers=["CPUExecutionProvider"]), np.random.default_rng(1)
    for batch in BATCHES:
        for sequence in SEQUENCES:
            feed = feed_of(session, batch, sequence, rng)
            np.savez(f"{folder}/in.npz", **feed)
            subprocess.run([tenon, "run", artifact, "--inputs", f"{folder}/in.npz", "--output", f"{folder}/out.npz"], check=True,
                           stdout=subprocess.DEVNULL, env=dict(os.environ, TENON_CACHE=cache))
            with np.load(f"{folder}/out.npz") as archive:
                pairs = [(archive[o.name], e) for o, e in zip(session.get_outputs(), session.run(None, feed))]
            off = max(float(np.abs(got - e).max() / np.abs(e).max()) if got.shape == e.shape else np.inf for got, e in pairs)
            worst = max(worst, off)
            if not off <= LIMIT:
                wrong += 1
                print(f"batch {batch}, sequence {sequence}: off by {off:.1e} of the largest", flush=True)
    compiled = sum(len(files) for _, _, files in os.walk(cache))
    print(f"{len(BATCHES) * len(SEQUENCES)} points, {wrong} wrong, largest difference {worst:.1e} of the largest element; "
          f"{compiled} files in the cache afterwards", flush=True)
    return wrong + compiled


def ratio(nets):
    with np.load(f"{nets}/bert_base.in.npz") as archive: feed = {k: archive[k] for k in archive}
    times = {}
    sessions = {name: capi.Session(capi.Program(f"{nets}/{name}.onnx"), 1) for name in ("bert_base", "bert_base.dyn")}
    for session in sessions.values():
        session.bind(feed)
        session.run()
    for _ in range(7):
        for name, session in sessions.items():
            start = time.process_time()
            session.run()
            times.setdefault(name, []).append((time.process_time() - start) * 1e3)
    for name, ms in times.items(): print(f"{name} at 1x128: {statistics.median(ms):.1f} ms ({min(ms):.1f}-{max(ms):.1f})")
    ratios = [d / s for d, s in zip(times["bert_base.dyn"], times["bert_base"])]
    print(f"dynamic shapes take {statistics.median(ratios):.3f} times as long ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


ratio(sys.argv[1])
with tempfile.TemporaryDirectory(dir=os.path.join(root, "build")) as scratch:
    sys.exit(1 if points(sys.argv[1], scratch) else 0)
