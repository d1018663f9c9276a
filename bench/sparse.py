#!/usr/bin/env python3
"""sparse.py -- what index-list products gain on pruned layers of BERT and MobileNetV2, beside the dense product of the same layer.

usage: bench/sparse.py [NAME...] [--width N] [--kept 0.5,0.25] [--clock wall|cpu] [--features avx2] [--rounds N] [--seconds S] [--threads N]

A layer is a matrix product with a bias.  Its pruned form keeps a share of the K steps of each --width columns (32, with --features avx2 16), and has zeros
elsewhere.  Both are compiled for the CPU and run in processes of their own, interleaved; the gain is the dense layer's time divided by the pruned one's, the
median over rounds.  The pruned layer is also compiled with a dense schedule, which must give the same bytes.  --clock cpu counts processor time, for machines
that others use.
"""
import argparse, math, os, statistics, subprocess, sys, tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(root, "bench", "lib")]
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from interleave import Contender, rounds, tenon  # noqa: E402

FEATURES = {"": "", "avx2": "-avx512f"}
# Rows, K, columns.
LAYERS = {
    "bert/projection": (128, 768, 768), "bert/up": (128, 768, 3072), "bert/down": (128, 3072, 768), "bert/qkv": (128, 768, 2304),
    "mobilenet/expand-56": (3136, 24, 144), "mobilenet/expand-28": (784, 32, 192), "mobilenet/project-28": (784, 192, 32),
    "mobilenet/expand-14": (196, 64, 384), "mobilenet/project-14": (196, 384, 64), "mobilenet/project-14b": (196, 576, 96),
    "mobilenet/expand-14b": (196, 96, 576), "mobilenet/expand-7": (49, 160, 960), "mobilenet/project-7": (49, 960, 160),
    "mobilenet/project-7b": (49, 960, 320), "mobilenet/last": (49, 320, 1280), "mobilenet/classifier": (1, 1280, 1000),
}


def write(path, m, w, b):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    tensor = lambda n, shape: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "layer", [tensor("x", [m, w.shape[0]])], [tensor("y", [m, w.shape[1]])], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def pruned(rng, w, width, kept):
    w, k = w.copy(), w.shape[0]
    for at in range(0, w.shape[1], width): w[rng.permutation(k)[round(kept * k):], at:at + width] = 0
    return w


def compiled(env, tmp, name, *more):
    out = os.path.join(tmp, name + ".tenon")
    p = subprocess.run([tenon, "compile", os.path.join(tmp, name.split("-")[0] + ".onnx"), "--target", "cpu", "-o", out, *more], capture_output=True, text=True, env=env)
    if p.returncode: sys.exit(f"tenon compile: {p.stderr.strip()[-300:]}")
    return out


def measure(name, kept, args, env):
    m, k, n = LAYERS[name]
    rng = np.random.default_rng(7)
    w, b, x = (rng.standard_normal(s, dtype=np.float32) for s in ((k, n), (n,), (m, k)))
    with tempfile.TemporaryDirectory() as tmp:
        inputs = os.path.join(tmp, "x.npz")
        np.savez(inputs, x=x)
        write(os.path.join(tmp, "dense.onnx"), m, w, b)
        write(os.path.join(tmp, "pruned.onnx"), m, pruned(rng, w, args.width, kept), b)
        files = {"dense": compiled(env, tmp, "dense"), "pruned": compiled(env, tmp, "pruned"),
                 "checked": compiled(env, tmp, "pruned-dense", "--schedule", "*=gemm index_list=false")}
        text = subprocess.run([tenon, "explain", os.path.join(tmp, "pruned.onnx"), "--target", "cpu", "--json"], capture_output=True, text=True, env=env).stdout
        runtimes = {key: Contender("tenon", path, inputs, args.threads, env, args.clock) for key, path in files.items()}
        for key, c in runtimes.items(): c.ask(os.path.join(tmp, key + ".npz"))
        same = np.load(os.path.join(tmp, "pruned.npz"))["y"].tobytes() == np.load(os.path.join(tmp, "checked.npz"))["y"].tobytes()
        runtimes.pop("checked").close()
        times, _ = rounds(runtimes, args.rounds, args.seconds, 1)
        for c in runtimes.values(): c.close()
    ratios = [d / p for d, p in zip(times["dense"]["rounds_ms"], times["pruned"]["rounds_ms"])]
    took = "index list" if "index_list=true" in text else "dense"
    rate = 2e-6 * m * k * n / times["dense"]["ms"]["median"]
    print(f"{name:24} {m:5} x {k:4} x {n:4}  kept {kept:4}  {took:10}  dense {times['dense']['ms']['median']:8.4f} ms ({rate:5.1f} GFLOP/s)  pruned {times['pruned']['ms']['median']:8.4f} ms  "
          f"gain {statistics.median(ratios):5.2f} ({min(ratios):.2f} to {max(ratios):.2f}){'' if same else '  OTHER BITS'}", flush=True)
    return statistics.median(ratios)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*", metavar="NAME", help="part of a layer's name")
    p.add_argument("--width", type=int, help="columns that are kept or dropped together")
    p.add_argument("--kept", default="0.5,0.25", help="shares of the K steps that are kept")
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    p.add_argument("--features", choices=sorted(FEATURES), default="")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=0.1)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    args.width = args.width or (16 if args.features == "avx2" else 32)
    env = dict(os.environ, **({"TENON_FEATURES": FEATURES[args.features]} if args.features else {}))
    for kept in map(float, args.kept.split(",")):
        gains = [measure(n, kept, args, env) for n in LAYERS if not args.names or any(a in n for a in args.names)]
        if gains: print(f"kept {kept}: geometric mean {math.exp(statistics.mean(map(math.log, gains))):.2f}, least {min(gains):.2f}")


if __name__ == "__main__": main()
