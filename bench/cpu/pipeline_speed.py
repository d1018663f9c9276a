#!/usr/bin/env python3
"""pipeline_speed.py -- how long the graph passes and the memory plan take, and how that grows.

Networks: `tenon inspect --optimised`, the whole process.  Growth: graphs of ten shapes with 1 k to 100 k nodes in text
form.  `process` is the processor time of the whole program: reading, inference, passes, fusion, the memory plan and
the analysis; for the generated graphs less what the program takes for an empty one.  `passes` is the part of it that
--time-passes says.  Processor time, because other work on the machine does not count in it; the best of ROUNDS, four times
as many for small graphs.
The exponents are those of straight lines through the logarithms.

usage: bench/cpu/pipeline_speed.py [NETS_DIR [NAME...]]   (TENON is the program, SIZES and SHAPES what is generated, ROUNDS 3)
"""
import glob, math, os, random, statistics, subprocess, sys, tempfile, time

tenon = os.environ.get("TENON", "build/tenon")
rounds = int(os.environ.get("ROUNDS", "3"))
HEAD = "graph(%x: f32[batch, 64]) {"
WEIGHT = "  %w = const f32[64, 64] hex\"" + "00" * 16384 + "\""


def measure(path, rounds=rounds):
    """Best of some rounds, in ms: the process by the clock and in processor time, and the passes' part of the latter."""
    runs = []
    for _ in range(rounds):
        start = time.perf_counter()
        p = subprocess.Popen([tenon, "inspect", "--optimised", "--time-passes", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        text = p.stderr.read().decode()
        _, status, use = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode:
            sys.exit(f"{path}: {text}")
        passes = [float(l.split()[1]) for l in text.splitlines() if l.startswith("all ")][0]
        wall, cpu = (time.perf_counter() - start) * 1e3, (use.ru_utime + use.ru_stime) * 1e3
        runs.append((wall, cpu, cpu * passes / wall))
    return min(r[0] for r in runs), min(r[1] for r in runs), min(runs)[2]  # the share, where the least came in between


def chain(n):
    ops = ["relu", "neg", "tanh", "abs", "exp", "sigmoid"]
    return [HEAD] + [f"  %v{i} = {ops[i % 6]}({f'%v{i - 1}' if i else '%x'})" for i in range(n)], f"%v{n - 1}"


def dag(n):
    """Random, of element-wise ops, softmax and products; each node reads a late one and any other."""
    rng, lines, values = random.Random(7), [HEAD, WEIGHT], ["%x"]
    for i in range(n):
        a, b = values[-1 - rng.randrange(min(8, len(values)))], values[rng.randrange(len(values))]
        kind = rng.randrange(10)
        op = f"add({a}, {b})" if kind < 4 else f"mul({a}, {b})" if kind < 6 else f"relu({a})" if kind < 8 else f"softmax({a})" if kind < 9 else f"mat_mul({a}, %w)"
        lines.append(f"  %v{i} = {op}")
        values.append(f"%v{i}")
    return lines, values[-1]


def residual(n):
    lines, last = [HEAD, WEIGHT], "%x"
    for i in range(n // 4):
        lines += [f"  %a{i} = mat_mul({last}, %w)", f"  %b{i} = relu(%a{i})", f"  %c{i} = mat_mul(%b{i}, %w)", f"  %d{i} = add({last}, %c{i})"]
        last = f"%d{i}"
    return lines, last


def ladder(n):
    """Two strands that cross at each step."""
    lines, a, b = [HEAD], "%x", "%x"
    for i in range(n // 2):
        lines += [f"  %a{i} = add({a}, {b})", f"  %b{i} = tanh({a})" if i % 2 else f"  %b{i} = softmax({b})"]
        a, b = f"%a{i}", f"%b{i}"
    return lines, a


def fan_out(n):
    """One node read by a third of all, which are then added up in pairs."""
    lines, values, k = [HEAD, "  %h = softmax(%x)"], [], 0
    for i in range(n // 3):
        lines += [f"  %c{i} = const f32[] {{{1.5 + i}}}", f"  %m{i} = mul(%h, %c{i})", f"  %s{i} = softmax(%m{i})"]
        values.append(f"%s{i}")
    while len(values) > 1:
        pairs = range(0, len(values) - 1, 2)
        lines += [f"  %t{k + j // 2} = add({values[j]}, {values[j + 1]})" for j in pairs]
        values = [f"%t{k + j // 2}" for j in pairs] + values[len(values) - len(values) % 2:]
        k += len(pairs)
    return lines, values[0]


def wide(n):
    """Strands of seven beside one another, all alive in the end."""
    lines, ends = [HEAD], []
    for i in range(n // 7):
        lines += [f"  %c{i} = const f32[] {{{1.5 + i}}}", f"  %p{i}_0 = mul(%x, %c{i})"]
        lines += [f"  %p{i}_{j} = {('softmax', 'exp', 'tanh')[j % 3]}(%p{i}_{j - 1})" for j in range(1, 7)]
        ends.append(f"%p{i}_6")
    return lines + ["  %y = concat(" + ", ".join(ends) + ") axis=1"], "%y"


def constants(n):
    """A constant vector for every node, folded with another one first."""
    lines, last = [HEAD], "%x"
    for i in range(n // 3):
        row = ", ".join([str(i * 0.001 + 1.25)] * 64)
        lines += [f"  %c{i} = const f32[64] {{{row}}}", f"  %e{i} = const f32[] {{{i + 2}}}", f"  %f{i} = mul(%c{i}, %e{i})", f"  %m{i} = mul({last}, %f{i})", f"  %a{i} = tanh(%m{i})"]
        last = f"%a{i}"
    return lines, last


def moves(n):
    """Transposes and reshapes that sink, meet and cancel."""
    lines, last = [HEAD, "  %s = const i64[3] {0, 8, 8}", "  %q = const i64[2] {0, 64}"], "%x"
    for i in range(n // 5):
        lines += [f"  %a{i} = reshape({last}, %s)", f"  %b{i} = transpose(%a{i}) perm=[0, 2, 1]", f"  %c{i} = reshape(%b{i}, %q)", f"  %e{i} = tanh(%c{i})", f"  %f{i} = neg(%e{i})"]
        last = f"%f{i}"
    return lines, last


def slice_up(n):
    """A slice that rises through all of the graph, against the order of the walk."""
    lines, last = ["graph(%x: f32[6, 8, 8]) {", "  %s = const i64[3] {0, 4, 16}", "  %q = const i64[3] {0, 8, 8}"], "%x"
    for i in range(n // 2):
        lines += [f"  %b{i} = transpose({last}) perm=[0, 2, 1]", f"  %a{i} = reshape(%b{i}, {'%q' if i % 2 else '%s'})"]
        last = f"%a{i}"
    return lines + ["  %c0 = const i64[1] {0}", "  %c1 = const i64[1] {1}", f"  %y = slice({last}, %c0, %c1, %c0)"], "%y"


def attention(n):
    lines, last = ["graph(%x: f32[batch, 16, 64]) {", WEIGHT, "  %h = const f32[] {0.125}"], "%x"
    for i in range(n // 10):
        lines += [f"  %q{i} = mat_mul({last}, %w)", f"  %k{i} = mat_mul(%q{i}, %w)", f"  %t{i} = transpose(%k{i}) perm=[0, 2, 1]", f"  %s{i} = mat_mul(%q{i}, %t{i})", f"  %z{i} = mul(%s{i}, %h)",
                  f"  %p{i} = softmax(%z{i})", f"  %v{i} = mat_mul({last}, %w)", f"  %o{i} = mat_mul(%p{i}, %v{i})", f"  %e{i} = add(%o{i}, {last})", f"  %f{i} = relu(%e{i})"]
        last = f"%f{i}"
    return lines, last


def exponent(sizes, ms):
    x, y = [math.log(s) for s in sizes], [math.log(max(m, 1e-3)) for m in ms]
    mx, my = statistics.mean(x), statistics.mean(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def write(folder, name, made):
    path = os.path.join(folder, name + ".tir")
    with open(path, "w") as f:
        f.write("\n".join(made[0] + [f"  return {made[1]}", "}"]))
    return path


def main():
    if len(sys.argv) > 1 and sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if len(sys.argv) > 1:
        names = sys.argv[2:] or sorted(os.path.basename(f)[:-5] for f in glob.glob(os.path.join(sys.argv[1], "*.onnx")))
        for name in names:
            wall, cpu, passes = measure(os.path.join(sys.argv[1], name + ".onnx"))
            print(f"{name:20} passes {passes:8.1f} ms   process {cpu:8.1f} ms   by the clock {wall:8.1f} ms", flush=True)
    sizes = [int(s) for s in os.environ.get("SIZES", "1000 3000 10000 30000 100000").split()]
    shapes = (chain, dag, residual, ladder, fan_out, wide, constants, moves, slice_up, attention)
    asked = os.environ.get("SHAPES", "").split()
    with tempfile.TemporaryDirectory() as folder:
        start = measure(write(folder, "empty", ([HEAD], "%x")))[1]
        for make in [s for s in shapes if not asked or s.__name__ in asked]:
            ms = []
            for n in sizes:
                path = write(folder, make.__name__, make(n))
                _, cpu, passes = measure(path, rounds if n > 10000 else 4 * rounds)
                ms.append((passes, max(cpu - start, 0.1)))
                print(f"{make.__name__:10} {n:7} nodes: passes {passes:8.1f} ms   process {ms[-1][1]:8.1f} ms", flush=True)
            print(f"{make.__name__:10} grows as n^{exponent(sizes, [m[0] for m in ms]):.2f} (passes), n^{exponent(sizes, [m[1] for m in ms]):.2f} (process)", flush=True)


main()
