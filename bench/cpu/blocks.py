#!/usr/bin/env python3
"""blocks.py -- products with matrices in ggml's block types: bytes a second of one row, operations a second of many.

usage: bench/cpu/blocks.py [--threads N] [--clock cpu|wall] [--rounds N] [--types T,...] [--shapes KxN,...] [--rows M,...] [--activations int8|f32]

Makes a product of random blocks, or of elements of 16 or 8 bits (--types f16,bf16,f8e4m3,i8: activations stay f32), for each type and shape, runs it in this process, and takes the least of several times: of the processor with one
thread, else of the wall clock, unless --clock says.  Quantising x is a part of it.  One row: GB/s of the matrix, and its share of the rate at which
as many threads were measured to read memory (`tenon doctor --measure`); a matrix below the size of the last cache is read from there, and may be
faster.  Several rows: GFLOP/s.  Needs a Python with numpy, and build/libtenon.so.
"""
import argparse, json, os, subprocess, sys, tempfile, time
import numpy as np

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "bench", "lib"))
import capi  # noqa: E402

tenon = os.environ.get("TENON", os.path.join(root, "build", "tenon"))
# Bytes and elements of a block, and where it has scales in f16.
TYPES = {"q4_0": (18, 32, [0]), "q4_1": (20, 32, [0, 2]), "q5_0": (22, 32, [0]), "q5_1": (24, 32, [0, 2]), "q8_0": (34, 32, [0]),
         "q2_k": (84, 256, [80, 82]), "q3_k": (110, 256, [108]), "q4_k": (144, 256, [0, 2]), "q5_k": (176, 256, [0, 2]), "q6_k": (210, 256, [208]),
         "iq4_nl": (18, 32, [0]), "iq4_xs": (136, 256, [0]), "mxfp4": (17, 32, []), "f16": (2, 1, []), "bf16": (2, 1, []), "f8e4m3": (1, 1, []),
         "i8": (1, 1, [])}
PLAIN = {"f16", "bf16", "f8e4m3", "i8"}  # elements one by one; 8 bits with a scale for each 128 rows and 128 elements


def matrix(kind, rows, k):
    """Random blocks with scales that are numbers."""
    size, block, scales = TYPES[kind]
    rng = np.random.default_rng(0)
    w = rng.integers(0, 256, (rows, k // block, size), dtype=np.uint8)
    for at in scales:
        w[:, :, at:at + 2] = (rng.standard_normal((rows, k // block, 1)) * 0.01).astype(np.float16).view(np.uint8).reshape(rows, -1, 2)
    if kind in ("f16", "bf16"):
        x = (rng.standard_normal((rows, k), dtype=np.float32) * 0.05)
        return (x.astype(np.float16).view(np.uint8) if kind == "f16" else x.view(np.uint8).reshape(rows, k, 4)[:, :, 2:]).reshape(rows, -1).copy()
    if kind == "f8e4m3": w &= 0xbf
    if kind == "mxfp4": w[:, :, 0] = rng.integers(118, 130, (rows, k // block))
    return w.reshape(rows, -1)


def opened(folder, kind, k, n, m, how, threads):
    size, block, _ = TYPES[kind]
    tiles = kind in PLAIN and size == 1
    parts = f", %s: f32[{-(-n // 128)}, {-(-k // 128)}]" if tiles else ""
    how = f"activations={how}" if kind not in PLAIN else "scale_rows=128 scale_k=128" if tiles else ""
    path = os.path.join(folder, "product.tir")
    with open(path, "w") as f:
        f.write(f'graph @"product"(%x: f32[m, {k}], %w: u8[{n}, {k // block * size}]{parts}) {{\n'
                f'  %y = mat_mul_blocks(%x, %w{", %s" if tiles else ""}) type={kind} k={k} {how}\n  return %y\n}}\n')
    s = capi.Session(capi.Program(path, threads), threads)
    values = {"x": np.random.default_rng(1).standard_normal((m, k), dtype=np.float32), "w": matrix(kind, n, k)}
    if tiles: values["s"] = np.full((-(-n // 128), -(-k // 128)), 0.01, np.float32)
    s.bind(values)
    return s


def least(session, clock, rounds):
    session.run()
    best = 1e9
    for _ in range(rounds):
        at, runs = clock(), 0
        while True:
            session.run()
            runs += 1
            took = clock() - at
            if took > 2e-3: break
        best = min(best, took / runs)
    return best


def memory_rate(threads):
    r = subprocess.run([tenon, "doctor", "--measure", "--json"], capture_output=True, text=True)
    rows = [p for p in json.loads(r.stdout)["peaks"] if p["threads"] == threads] if r.returncode == 0 else []
    return rows[0]["bandwidth"] / 1e9 if rows else None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--clock", choices=["cpu", "wall"])
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--types", default="q4_0,q4_1,q8_0,q4_k,q6_k")
    p.add_argument("--shapes", default="576x1536,1536x8960,8960x1536,1536x151936")
    p.add_argument("--rows", default="1")
    p.add_argument("--activations", choices=["int8", "f32"], default="int8")
    a = p.parse_args()
    clock = time.process_time if (a.clock or ("cpu" if a.threads == 1 else "wall")) == "cpu" else time.perf_counter
    rate = memory_rate(a.threads)
    print(f"{a.threads} threads, activations {a.activations}; memory is read at {rate:.1f} GB/s" if rate else f"{a.threads} threads")
    with tempfile.TemporaryDirectory() as folder:
        for kind in a.types.split(","):
            for shape in a.shapes.split(","):
                k, n = map(int, shape.split("x"))
                if k % TYPES[kind][1]: continue
                for m in map(int, a.rows.split(",")):
                    s = opened(folder, kind, k, n, m, a.activations, a.threads)
                    t = least(s, clock, a.rounds)
                    size = n * k // TYPES[kind][1] * TYPES[kind][0]
                    share = f"{size / t / rate / 1e7:5.0f} %" if rate else ""
                    print(f"{kind:7} {m:4} x {shape:12} {t * 1e6:10.1f} us {size / t / 1e9:7.1f} GB/s {share} {2e-9 * m * n * k / t:8.1f} GFLOP/s", flush=True)
                    s.close()


main()
