#!/usr/bin/env python3
"""limits_test.py TENON [EVERY] -- hostile models of at most 1 MiB: what compiling and running them may take.

300 have a few nodes with large attributes, constants that fold, or loops.  Others nest bodies, or have very many nodes, items of sequences, symbols, long names or
lists.  `tenon compile` must end within 60 s of processor time and
2 GiB over all processes; `tenon run --max-memory 1G` must stay below 1.1 GB.  Both either succeed or refuse with a message that names the
node, or the part of the file or of the compilation at work, and the limit.  Then models of all formats are compiled and run with limits from
64 KiB up, and each refusal names both.  EVERY takes each n-th model.  Memory is the sum of resident sizes of the process tree, sampled; processor time is that of all
processes that ended.
"""
import os, re, subprocess, sys, tempfile, threading, time

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

CPU_SECONDS, COMPILE_BYTES, RUN_BYTES = 60, 2 << 30, 1100 * 10**6
SIZES = [2**n for n in (3, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26, 28, 29)]


def ints(name, v): return nh.from_array(np.array(v, np.int64), name)
def ones(name, *dims): return nh.from_array(np.ones(dims, np.float32), name)
def line(*dims): return [h.make_tensor_value_info("x", T.FLOAT, dims)]


def folded(n, rows):
    """n constants that are expanded, computed with and added to the input, one after the other."""
    nodes, init, last = [], [ones("v", 1024), ints("s", [rows, 1024])], "x"
    for i in range(n):
        init.append(nh.from_array(np.array([i], np.float32), f"k{i}"))
        nodes += [h.make_node("Add", ["v", f"k{i}"], [f"a{i}"], f"a{i}"), h.make_node("Expand", [f"a{i}", "s"], [f"b{i}"], f"b{i}")]
        nodes += [h.make_node("Exp", [f"b{i}"], [f"c{i}"], f"c{i}"), h.make_node("Add", [last, f"c{i}"], [f"d{i}"], f"d{i}")]
        last = f"d{i}"
    return nodes, line(rows, 1024), init


def loop(trips, size):
    t = lambda n, e, s: h.make_tensor_value_info(n, e, s)
    body = h.make_graph([h.make_node("Identity", ["c"], ["c2"]), h.make_node("Add", ["a", "a"], ["a2"], "twice")], "body",
                        [t("i", T.INT64, []), t("c", T.BOOL, []), t("a", T.FLOAT, [size])],
                        [t("c2", T.BOOL, []), t("a2", T.FLOAT, [size])])
    return [h.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)], line(size), [ints("n", trips)]


def sequence(n, last):
    """A sequence of n items, joined again; or, without the others, its last item, expanded to 100 million elements and copied."""
    nodes = [h.make_node("Expand", ["x", "s"], ["e"], "expand"), h.make_node("SplitToSequence", ["e"], ["q"], "split", axis=0, keepdims=int(not last))]
    if not last: return nodes + [h.make_node("ConcatFromSequence", ["q"], ["y"], "join", axis=0)], line(1), [ints("s", [n])]
    nodes += [h.make_node("SequenceAt", ["q", "k"], ["l"], "last"), h.make_node("Expand", ["l", "t"], ["c"], "large"), h.make_node("Abs", ["c"], ["y"], "copy")]
    return nodes, line(1), [ints("s", [n]), ints("k", -1), ints("t", [10**8])]


def one(op, inputs, init, x, **attrs): return [h.make_node(op, inputs, ["y"], "node", **attrs)], x, init


FAMILIES = {
    "conv_pads": lambda s: one("Conv", ["x", "w"], [ones("w", 1, 1, 3)], line(1, 1, 4), pads=[s, s]),
    "conv_kernel": lambda s: one("Conv", ["x", "w"], [ones("w", 1, 1, min(s, 1 << 17))], line(1, 1, 9), pads=[min(s, 1 << 17)] * 2),
    "conv_dilation": lambda s: one("Conv", ["x", "w"], [ones("w", 2, 1, 5)], line(1, 1, 9), pads=[2 * s, 2 * s], dilations=[s]),
    "conv_2d": lambda s: one("Conv", ["x", "w"], [ones("w", 1, 1, 3, 3)], line(1, 1, 8, 8), pads=[min(s, 4096)] * 4),
    "transpose_stride": lambda s: one("ConvTranspose", ["x", "w"], [ones("w", 1, 1, 5)], line(1, 1, 9), strides=[s]),
    "transpose_kernel": lambda s: one("ConvTranspose", ["x", "w"], [ones("w", 1, 2, min(s, 1 << 16))], line(1, 1, 9), strides=[3]),
    "max_pool": lambda s: one("MaxPool", ["x"], [], line(1, 1, 64), kernel_shape=[s], pads=[s // 2, s // 2]),
    "pad": lambda s: one("Pad", ["x", "p"], [ints("p", [0, 0, s, 0, 0, s])], line(1, 1, 4)),
    "tile": lambda s: one("Tile", ["x", "r"], [ints("r", [1, 1, s])], line(1, 2, 4)),
    "expand": lambda s: one("Expand", ["x", "r"], [ints("r", [s, 1, 4])], line(1, 1, 4)),
    "resize": lambda s: one("Resize", ["x", "", "", "r"], [ints("r", [1, 1, s])], line(1, 1, 4)),
    "shape": lambda s: ([h.make_node("ConstantOfShape", ["s"], ["c"], "fill"), h.make_node("Exp", ["c"], ["e"], "exp"),
                         h.make_node("Add", ["x", "e"], ["y"], "add")], line(1), [ints("s", [s])]),
    "product": lambda s: ([h.make_node("Expand", ["v", "s"], ["c"], "expand"), h.make_node("MatMul", ["c", "c"], ["d"], "product"),
                           h.make_node("Add", ["x", "d"], ["y"], "add")], line(1), [ones("v", 1), ints("s", [min(s, 1 << 14)] * 2)]),
    "folded": lambda s: folded(1 + s.bit_length() ** 2 // 2, min(s, 1 << 12)),
    "loop": lambda s: loop(min(s, 1 << 16), 16),
}


# ---- bodies in bodies, and many of everything: written byte by byte, since protobuf's own library does not nest that deep ----


def varint(n):
    out = bytearray()
    while n > 127: n, _ = n >> 7, out.append(n & 127 | 128)
    return bytes(out) + bytes([n])


def field(number, body): return varint(number << 3 | 2) + varint(len(body)) + body
def node(op, inputs, outputs, *attrs): return field(1, b"".join([field(1, i.encode()) for i in inputs] + [field(2, o.encode()) for o in outputs] + [field(4, op.encode())] + [field(5, a) for a in attrs]))
def body(name, graph): return field(1, name.encode()) + field(6, graph) + varint(20 << 3) + varint(5)
def value(number, name, kind, *dims): return field(number, h.make_tensor_value_info(name, kind, list(dims)).SerializeToString())
def output(name): return field(12, field(1, name.encode()))
def tensor(t): return field(5, t.SerializeToString())


def whole(graph, *ends):
    """A model of these parts of a graph."""
    return varint(1 << 3) + varint(8) + field(7, graph + field(2, b"g") + b"".join(ends)) + field(8, varint(2 << 3) + varint(17))


def nested_if(depth, known):
    """Each branch in another; `known`: sizes decide all conditions."""
    graph = node("Abs", ["x"], [f"o{depth}"]) + output(f"o{depth}")
    for d in reversed(range(depth)):
        other = node("Neg", ["x"], ["n"]) + output("n")
        ask = node("Size", ["x"], [f"z{d}"]) + node("Equal", [f"z{d}", "four"], [f"c{d}"]) if known else b""
        graph = ask + node("If", [f"c{d}" if known else "c"], [f"w{d}"], body("then_branch", graph), body("else_branch", other)) + node("Abs", [f"w{d}"], [f"o{d}"]) + output(f"o{d}")
    return whole(graph.replace(output("o0"), b""), output("o0"), value(11, "x", T.FLOAT, 4), value(11, "c", T.BOOL), tensor(ints("four", 4)))


def nested_loop(depth, grows):
    """Each loop in another; `grows`: the shape of what each carries changes."""
    graph = b""
    for d in reversed(range(depth)):
        inner = node("Loop", ["n", "", "x"], [f"y{d + 1}"], body("body", graph)) if graph else b""
        grown = node("Concat", [f"v{d}", "x"], [f"o{d}"], field(1, b"axis") + varint(3 << 3) + varint(0) + varint(20 << 3) + varint(2))
        graph = inner + (grown if grows else node("Add", [f"v{d}", f"y{d + 1}" if inner else "x"], [f"o{d}"])) + node("Identity", [f"k{d}"], [f"l{d}"])
        graph += value(11, f"i{d}", T.INT64) + value(11, f"k{d}", T.BOOL) + field(11, field(1, f"v{d}".encode())) + output(f"l{d}") + output(f"o{d}")
    return whole(node("Loop", ["n", "", "x"], ["y"], body("body", graph)), output("y"), value(11, "x", T.FLOAT, 4), tensor(ints("n", 1)))


def chain(n, op):
    names = ["x"] + [format(i, "x") for i in range(n)]
    parts = [node(op, [names[i]] * (2 if op == "Add" else 1), [names[i + 1]]) for i in range(n)]
    return whole(b"".join(parts), output(names[n]), value(11, "x", T.FLOAT, 4))


def fan(n):
    """Many nodes in parallel, into one of many inputs."""
    names = [format(i, "x") for i in range(n)]
    return whole(b"".join(node("Abs", ["x"], [i]) for i in names) + node("Max", names, ["y"]), output("y"), value(11, "x", T.FLOAT, 4))


def symbols(n, op):
    """Inputs with a symbol each, joined: sums of many terms, or a shape of many parts."""
    names = [f"x{i}" for i in range(n)]
    join = node("Concat", names, ["y"], field(1, b"axis") + varint(3 << 3) + varint(0) + varint(20 << 3) + varint(2))
    if op == "Reshape":
        join += node("Shape", ["y"], ["s"]) + node("ConstantOfShape", ["s"], ["z"]) + node("Add", ["y", "z"], ["r"])
    return whole(join, output("r" if op == "Reshape" else "y"), *[value(11, i, T.FLOAT, f"n_{i}") for i in names])


def long_names(n): return whole(node("Abs", ["x" * n], ["y"]) + node("Neg", ["y"], ["z"]), output("z"), value(11, "x" * n, T.FLOAT, "s" * min(n, 1 << 17)))
def long_list(n): return whole(node("MaxPool", ["x"], ["y"], field(1, b"kernel_shape") + field(8, varint(3) * n) + varint(20 << 3) + varint(7)), output("y"), value(11, "x", T.FLOAT, 1, 1, 9))
def attributes(n): return whole(node("Abs", ["x"], ["y"], *[field(1, f"a{i}".encode()) + varint(3 << 3) + varint(1) + varint(20 << 3) + varint(2) for i in range(n)]), output("y"), value(11, "x", T.FLOAT, 4))
def outputs(n): return whole(node("Split", ["x"], [format(i, "x") for i in range(n)]), output("0"), value(11, "x", T.FLOAT, n))


def sparse(n, elements):
    """Sparse initialisers of one value each, which are large when dense."""
    graph = h.make_graph([h.make_node("Sum", ["x"] + [f"w{i}" for i in range(n)], ["y"])], "g", line(elements), [h.make_tensor_value_info("y", T.FLOAT, [elements])])
    for i in range(n):
        values = nh.from_array(np.ones(1, np.float32), f"w{i}")
        graph.sparse_initializer.append(h.make_sparse_tensor(values, ints("at", [0]), [elements]))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9).SerializeToString()


DEPTHS = [1, 3, 5, 8, 10, 16, 20, 28, 40, 60, 64, 65, 100, 300, 1000]
COUNTS = [10, 100, 255, 256, 257, 1000, 3000, 10000, 20000, 40000, 60000]
MANY = {
    "if_depth": (lambda s: nested_if(s, False), DEPTHS),
    "known_if_depth": (lambda s: nested_if(s, True), DEPTHS),
    "loop_depth": (lambda s: nested_loop(s, False), DEPTHS),
    "growing_loop_depth": (lambda s: nested_loop(s, True), DEPTHS),
    "chain": (lambda s: chain(min(s, 45000), "Abs"), COUNTS[4:]),
    "doubled": (lambda s: chain(min(s, 40000), "Add"), COUNTS),
    "fan": (lambda s: fan(min(s, 40000)), COUNTS),
    "symbols": (lambda s: symbols(min(s, 10000), ""), COUNTS[:-3]),
    "symbol_shapes": (lambda s: symbols(min(s, 10000), "Reshape"), COUNTS[:-3]),
    "names": (lambda s: long_names(min(8 * s, 1 << 18)), COUNTS),
    "list": (lambda s: long_list(10 * s), COUNTS),
    "attributes": (lambda s: attributes(min(s, 40000)), COUNTS),
    "outputs": (lambda s: outputs(s), COUNTS),
    "sparse": (lambda s: sparse(s, 10**7), [1, 6, 7, 30, 200]),
    "sequence": (lambda s: sequence(s, False), [1000, 1000003, 4000000]),
    "last_of_sequence": (lambda s: sequence(s, True), [1000, 1600000]),
    "range": (lambda s: one("Range", ["a", "b", "d"], [nh.from_array(np.array(v, np.float32), n) for n, v in (("a", 0), ("b", 2.0**s), ("d", 1))], line(1)), [4, 16, 24, 32, 50]),
    "one_hot": (lambda s: ([h.make_node("Cast", ["x"], ["i"], to=T.INT64), h.make_node("OneHot", ["i", "d", "v"], ["y"], "hot")], line(8), [ints("d", 1 << s), ones("v", 2)]), [4, 16, 24, 32, 50]),
    "einsum": (lambda s: one("Einsum", ["x", "x"], [], line(2, 2), equation=",".join([" " * s + "ij", "jk" + " " * s]) + "->ik"), [1, 1000, 100000]),
}


def save(path, nodes, inputs, init):
    graph = h.make_graph(nodes, "g", inputs, [h.make_tensor_value_info(nodes[-1].output[0], T.FLOAT, None)], init)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def resident(pid):
    total = 0
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as f: total = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f: children = f.read().split()
    except (OSError, IndexError): return total
    return total + sum(resident(int(c)) for c in children)


# What a refusal names.  A model that is wrong, whatever its size, meets no limit.
PLACE = r"node '|first '|byte \d+: |reading |pass |planning memory: |lowering: |code generation: |constants: |writing "
LIMIT = r"limit of \d|left of the limit|the limit for|nest more than \d|nested over \d|too many nodes"
WRONG = r"not one a spatial axis|out of range|is not known for opset"


def refusal(text):
    """What the message of a refusal lacks; None: nothing."""
    if re.search(WRONG, text): return None
    lacks = [what for what, pattern in (("place", PLACE), ("limit", LIMIT)) if not re.search(pattern, text)]
    return f"names no {' and no '.join(lacks)}: {text[-300:]}" if lacks else None


def measure(command):
    """Exit status, output, processor seconds and the highest sum of resident bytes."""
    with tempfile.TemporaryFile("w+") as out:
        p, peak, done = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT), [0], threading.Event()

        def sample():
            while not done.is_set():
                peak[0] = max(peak[0], resident(p.pid))
                time.sleep(0.005)

        t = threading.Thread(target=sample)
        t.start()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        t.join()
        out.seek(0)
        return p.returncode, out.read(), usage.ru_utime + usage.ru_stime, peak[0]


def check(tenon, folder, name, model):
    path, bad = os.path.join(folder, "m.onnx"), []
    if isinstance(model, bytes):
        with open(path, "wb") as f: f.write(model)
    else: save(path, *model)
    if os.path.getsize(path) > 1 << 20: raise ValueError(f"{name} has more than 1 MiB")
    compile_ = [tenon, "compile", path, "-o", os.path.join(folder, "m.tenon"), "--force", "--no-cache"]
    run = [tenon, "run", path, "--max-memory", "1G", "--max-ops", "1G", "--no-cache"]
    for command, most in ((compile_, COMPILE_BYTES), (run, RUN_BYTES), (run + ["--target", "cpu"], RUN_BYTES)):
        rc, text, seconds, peak = measure(command)
        what = f"{name}: {command[1]}"
        if rc not in (0, 1, 4): bad.append(f"{what} ended with {rc}: {text[-300:]}")
        elif rc and refusal(text): bad.append(f"{what} {refusal(text)}")
        if seconds > CPU_SECONDS: bad.append(f"{what} took {seconds:.1f} s of processor time")
        if peak > most: bad.append(f"{what} took {peak >> 20} MiB")
    return bad


def named(tenon, folder, every):
    """Models of all formats under small limits: how many ended by a limit, by what is at work; and what is wrong with the messages."""
    models = os.path.join(os.path.dirname(__file__), "..", "models")
    suffixes = (".onnx", ".tflite", ".pt2", ".pt", ".mlir", ".tir", ".gguf", ".safetensors")
    files = sorted(os.path.join(d, f) for d in (models, os.path.join(models, "stablehlo"), os.path.join(models, "torch"))
                   if os.path.isdir(d) for f in os.listdir(d) if f.endswith(suffixes))
    seen, bad = {}, []
    for i, path in enumerate(files[::max(every // 4, 1)]):
        for limit in range(16, 25):
            commands = (["compile", path, "-o", os.path.join(folder, "n.tenon"), "--force"], ["run", path], ["run", path, "--target", "cpu"])
            for command in [commands[(i + limit) % 3]] if every > 1 else commands:
                p = subprocess.run([tenon, *command, "--no-cache", "--max-memory", str(1 << limit)], capture_output=True, text=True)
                what = f"{os.path.basename(path)}: {command[0]} --max-memory {1 << limit}"
                if p.returncode not in (0, 1, 4): bad.append(f"{what} ended with {p.returncode}: {p.stderr[-300:]}")
                if "memory" not in p.stderr or not p.returncode: continue
                if refusal(p.stderr): bad.append(f"{what} {refusal(p.stderr)}")
                else: seen[re.search(PLACE, p.stderr)[0]] = seen.get(re.search(PLACE, p.stderr)[0], 0) + 1
    for place in ("node '", "reading ", "pass "):
        if place not in seen: bad.append(f"no refusal names a place like {place!r}: {seen}")
    return bad


def main():
    tenon, every = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    cases = [(f"{family} {size}", make, size) for family, make in FAMILIES.items() for size in SIZES]
    cases = (cases + [(f"{family} {size}", make, size) for family, (make, sizes) in MANY.items() for size in sizes])[::every]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make, size in cases:
            bad = check(tenon, folder, name, make(size))
            failed += bool(bad)
            for text in bad: print("FAIL", text, flush=True)
        bad = named(tenon, folder, every)
        failed += bool(bad)
        for text in bad: print("FAIL", text, flush=True)
    print(f"{len(cases) + 1 - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
