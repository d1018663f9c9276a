#!/usr/bin/env python3
"""pipeline_speed.py -- how long the graph passes take, and how that grows.

Networks: `tenon inspect --optimised` (the whole process; weights are not read where they are external).  Growth: chains and
random graphs of 1 k to 100 k nodes in text form; reading them is timed apart and taken off.  The exponent is that of a
straight line through the logarithms.

usage: bench/pipeline_speed.py NETS_DIR [NAME...]      (TENON is the program, SIZES the sizes)
"""
import glob, math, os, random, statistics, subprocess, sys, tempfile, time

tenon = os.environ.get("TENON", "build/tenon")


def timed(args, rounds=5):
    ms = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([tenon] + args, check=True, stdout=subprocess.DEVNULL)
        ms.append((time.perf_counter() - start) * 1e3)
    return statistics.median(ms)


def chain(n):
    lines = ["graph(%x: f32[batch, 64]) {"]
    ops = ["relu", "neg", "tanh", "abs", "exp", "sigmoid"]
    last = "%x"
    for i in range(n):
        lines.append(f"  %v{i} = {ops[i % len(ops)]}({last})")
        last = f"%v{i}"
    return "\n".join(lines + [f"  return {last}", "}"])


def dag(n):
    rng = random.Random(7)
    lines, values = ["graph(%x: f32[batch, 64]) {", "  %w = const f32[64, 64] hex\"" + "00" * 16384 + "\""], ["%x"]
    for i in range(n):
        a, b = values[-1 - rng.randrange(min(8, len(values)))], values[rng.randrange(len(values))]
        kind = rng.randrange(10)
        op = f"add({a}, {b})" if kind < 4 else f"mul({a}, {b})" if kind < 6 else f"relu({a})" if kind < 8 else f"softmax({a})" if kind < 9 else f"mat_mul({a}, %w)"
        lines.append(f"  %v{i} = {op}")
        values.append(f"%v{i}")
    return "\n".join(lines + [f"  return {values[-1]}", "}"])


def exponent(sizes, ms):
    x, y = [math.log(s) for s in sizes], [math.log(max(m, 1e-3)) for m in ms]
    mx, my = statistics.mean(x), statistics.mean(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names = sys.argv[2:] or sorted(os.path.basename(f)[:-5] for f in glob.glob(os.path.join(sys.argv[1], "*.onnx")))
    for name in names:
        path = os.path.join(sys.argv[1], name + ".onnx")
        print(f"{name:20} inspect {timed(['inspect', path]):8.1f} ms   optimised {timed(['inspect', '--optimised', path]):8.1f} ms", flush=True)
    sizes = [int(s) for s in os.environ.get("SIZES", "1000 3000 10000 30000 100000").split()]
    with tempfile.TemporaryDirectory() as folder:
        for make in (chain, dag):
            ms = []
            for n in sizes:
                path = os.path.join(folder, f"{make.__name__}{n}.tir")
                with open(path, "w") as f:
                    f.write(make(n))
                ms.append(timed(["inspect", "--optimised", path], 3) - timed(["inspect", path], 3))
                print(f"{make.__name__} of {n:7} nodes: {ms[-1]:9.1f} ms", flush=True)
            print(f"{make.__name__}: time grows as n^{exponent(sizes, ms):.2f}")


main()
