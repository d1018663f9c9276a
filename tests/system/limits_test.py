#!/usr/bin/env python3
"""limits_test.py TENON [EVERY] -- 300 small hostile models: what compiling and running them may take.

Each model has a few nodes with large attributes, constants that fold, or loops.  `tenon compile` must end within 60 s of processor time and
2 GiB over all processes; `tenon run --max-memory 1G` must stay below 1.1 GB.  Both either succeed or refuse with a message that names a node
or a limit.  EVERY takes each n-th model.  Memory is the sum of resident sizes of the process tree, sampled; processor time is that of all
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
    save(path, *model)
    if os.path.getsize(path) > 1 << 20: raise ValueError(f"{name} has more than 1 MiB")
    compile_ = [tenon, "compile", path, "-o", os.path.join(folder, "m.tenon"), "--force", "--no-cache"]
    run = [tenon, "run", path, "--max-memory", "1G", "--max-ops", "1G", "--no-cache"]
    for command, most in ((compile_, COMPILE_BYTES), (run, RUN_BYTES), (run + ["--target", "cpu"], RUN_BYTES)):
        rc, text, seconds, peak = measure(command)
        what = f"{name}: {command[1]}"
        if rc not in (0, 1, 4): bad.append(f"{what} ended with {rc}: {text[-300:]}")
        elif rc and not re.search(r"node '|limit|out of range", text): bad.append(f"{what} names neither node nor limit: {text[-300:]}")
        if seconds > CPU_SECONDS: bad.append(f"{what} took {seconds:.1f} s of processor time")
        if peak > most: bad.append(f"{what} took {peak >> 20} MiB")
    return bad


def main():
    tenon, every = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    cases = [(f"{family} {size}", make, size) for family, make in FAMILIES.items() for size in SIZES][::every]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make, size in cases:
            bad = check(tenon, folder, name, make(size))
            failed += bool(bad)
            for text in bad: print("FAIL", text, flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
