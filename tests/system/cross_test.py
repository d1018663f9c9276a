#!/usr/bin/env python3
"""cross_test.py -- node tests of ONNX on other machines: compiled here, run under qemu-user.

usage: cross_test.py PROGRAM COUNT SUITE [MACHINE...]      machines: aarch64 riscv64 riscv64v (with the vector extension)

SUITE is a folder with tests (test_NAME/model.onnx, test_data_set_0) somewhere in it, or an archive of such.  COUNT tests are
taken evenly from those that an object file can hold: numbers in and out, of sizes that follow from the inputs.  Each is
compiled with --emit=obj, linked with the runtime archive of that machine (tools/cross-runtime.sh) and run; its outputs are
held against the stored ones.
Needs numpy and onnx, a cross compiler and qemu; a machine that lacks one is left out, and that is said.
"""
import concurrent.futures, glob, os, shutil, subprocess, sys, tarfile
import numpy, onnx
from onnx import numpy_helper

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORK = os.path.join(ROOT, "build", "cross")
# Name: (tools' prefix, options of compile, command that runs a program)
MACHINES = {
    "aarch64": ("aarch64-linux-gnu", ["--triple", "aarch64-linux-gnu", "--cpu", "generic"], ["qemu-aarch64"]),
    "riscv64": ("riscv64-linux-gnu", ["--triple", "riscv64-linux-gnu", "--cpu", "generic-rv64"], ["qemu-riscv64"]),
    "riscv64v": ("riscv64-linux-gnu", ["--triple", "riscv64-linux-gnu", "--cpu", "generic-rv64", "--features", "+v"],
                 ["qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0"]),
}
NUMBERS = {onnx.TensorProto.DataType.Value(n) for n in
           "FLOAT DOUBLE FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL".split()}
# The rules of `tenon conform` (tools/conform/case.c): tolerances (relative, absolute) by type, exceptions, what cannot be compared.
TOLERANCE = {"float16": (1e-3, 1e-5), "float32": (1e-5, 1e-6), "float64": (1e-7, 1e-9)}
LOOSE, LOOSE_TESTS = (1e-3, 1e-3), ("roialign", "gridsample", "averagepool", "hannwindow", "hammingwindow", "blackmanwindow",
                                                        "head_")  # Winograd, of heads_suite.py
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# A fault of qemu before 8.1 (its issue 1441): it ends itself on conversions of vectors that round in a way of their own.
EMULATOR_FAULT = "decode_save_opc: Assertion"
SECONDS_MAX = 120
MAIN = """#include "tenon/aot.h"
extern tenon_aot_model model_model;
int tenon_aot_main(tenon_aot_model *m, int argc, char **argv);
int main(int argc, char **argv) { return tenon_aot_main(&model_model, argc, argv); }
"""


def find_tests(suite):
    """Every folder with a model in it, sorted by name."""
    if os.path.isfile(suite):
        folder = os.path.join(WORK, "suite")
        if not os.path.isdir(folder):
            shutil.rmtree(folder + ".part", ignore_errors=True)
            with tarfile.open(suite) as t: t.extractall(folder + ".part")
            os.rename(folder + ".part", folder)
        suite = folder
    found = glob.glob(os.path.join(suite, "**", "test_*", "model.onnx"), recursive=True)
    return sorted(os.path.dirname(p) for p in found)


def read_tensor(path):
    t = onnx.TensorProto()
    with open(path, "rb") as f: t.ParseFromString(f.read())
    return numpy_helper.to_array(t)


def read_test(folder):
    """(inputs by name, outputs by name, symbolic sizes), or None where there is more than numbers, or chance."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    if any(n.op_type in RANDOM or (n.op_type == "Dropout" and len(n.input) == 3) for n in model.graph.node): return None
    known = {t.name for t in model.graph.initializer}
    values = [v for v in model.graph.input if v.name not in known]
    for v in list(values) + list(model.graph.output):
        if not v.type.HasField("tensor_type") or v.type.tensor_type.elem_type not in NUMBERS: return None
    data = os.path.join(folder, "test_data_set_0")
    if len(glob.glob(os.path.join(data, "input_*.pb"))) != len(values): return None
    inputs = [(v, read_tensor(os.path.join(data, f"input_{i}.pb"))) for i, v in enumerate(values)]
    outputs = {v.name: read_tensor(os.path.join(data, f"output_{i}.pb")) for i, v in enumerate(model.graph.output)}
    dims = {}
    for v, array in inputs:
        for d, n in zip(v.type.tensor_type.shape.dim, array.shape):
            if d.HasField("dim_param"): dims[d.dim_param] = n
    return [(v.name, array) for v, array in inputs], outputs, dims


def call(command, **kw):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, **kw)


def compare(test, got, want):
    """What differs, or None."""
    loose = test.removeprefix("test_").startswith(LOOSE_TESTS)
    rtol, atol = LOOSE if loose else TOLERANCE.get(str(want.dtype), (0, 0))
    if got.shape != want.shape: return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype: return f"type {got.dtype}, expected {want.dtype}"
    if want.dtype.kind == "f": near = numpy.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    else: near = got == want
    if near.all(): return None
    i = tuple(int(v) for v in numpy.argwhere(~near)[0])
    return f"{int((~near).sum())} of {near.size} elements differ, first at {i}: {got[i]}, expected {want[i]}"


def run_test(program, machine, folder):
    """'passed', 'no object' (it is not for this test), or what is wrong."""
    tools, options, emulator = MACHINES[machine]
    test = read_test(folder)
    if test is None: return "no object"
    inputs, outputs, dims = test
    work = os.path.join(WORK, machine, os.path.basename(folder))
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    made = os.path.join(work, "model.o")
    r = call([program, "compile", os.path.join(folder, "model.onnx"), "--emit=obj", "--strict", "-o", made] + options)
    if r.returncode and ("C has no type" in r.stderr or "depends on data" in r.stderr or "not supported" in r.stderr):
        shutil.rmtree(work)
        return "no object"
    if r.returncode: return "compile: " + r.stderr.strip()[-300:]
    exe = os.path.join(work, "program")
    r = call([tools + "-gcc", "-O1", "-static", "-I", os.path.join(ROOT, "include"), os.path.join(WORK, "main.c"), made,
              os.path.join(WORK, tools, "libtenon_runtime.a"), "-Wl,--gc-sections", "-s", "-lm", "-pthread", "-o", exe])
    if r.returncode: return "link: " + r.stderr.strip()[-300:]
    arguments = ["--threads", "2", "--output", os.path.join(work, "out-")]
    for name, n in dims.items(): arguments += ["--dim", f"{name}={n}"]
    for i, (name, array) in enumerate(inputs):
        path = os.path.join(work, f"in-{i}.npy")
        numpy.save(path, numpy.asarray(array, order="C"))
        arguments.append(path)
    r = call(emulator + [exe] + arguments)
    if r.returncode and EMULATOR_FAULT in r.stderr:
        print(f"{machine} {os.path.basename(folder)}: left out: qemu fails on it", flush=True)
        return "no object"
    if r.returncode: return f"run: exit status {r.returncode}: {(r.stderr or r.stdout).strip()[-300:]}"
    for name, want in outputs.items():
        wrong = compare(os.path.basename(folder), numpy.load(os.path.join(work, f"out-{name}.npy")), want)
        if wrong: return f"{name}: {wrong}"
    shutil.rmtree(work)
    return "passed"


def attempt(job):
    try:
        return run_test(*job)
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return f"{type(e).__name__}: {e}"


def prepare(machine):
    """The runtime archive; why not, or None."""
    tools, _, emulator = MACHINES[machine]
    if not shutil.which(tools + "-gcc"): return f"no {tools}-gcc (Debian: gcc-{tools})"
    if not shutil.which(emulator[0]): return f"no {emulator[0]} (Debian: qemu-user)"
    r = subprocess.run([os.path.join(ROOT, "tools", "cross-runtime.sh"), tools, os.path.join(WORK, tools, "libtenon_runtime.a")])
    if r.returncode: sys.exit(f"cross_test: the runtime does not compile with {tools}-gcc")
    return None


def run_machine(program, machine, count, tests):
    """COUNT tests, spread evenly; a test that no object can hold is replaced by the one after it."""
    order = [i * len(tests) // count for i in range(min(count, len(tests)))] if count < len(tests) else list(range(len(tests)))
    chosen = set(order)
    order += [i for i in range(len(tests)) if i not in chosen]
    passed, failed, refused, at = 0, 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        while passed + failed < count and at < len(order):
            batch = order[at:at + count - passed - failed]
            at += len(batch)
            for i, result in zip(batch, pool.map(attempt, [(program, machine, tests[i]) for i in batch])):
                if result == "no object": refused += 1
                elif result == "passed": passed += 1
                else:
                    failed += 1
                    print(f"{machine} {os.path.basename(tests[i])}: {result}", flush=True)
    print(f"{machine}: {passed} passed, {failed} failed ({refused} looked at that cannot be tested so)", flush=True)
    return passed, failed


def main():
    if len(sys.argv) < 4: sys.exit(__doc__)
    program, count, suite = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.makedirs(WORK, exist_ok=True)
    with open(os.path.join(WORK, "main.c"), "w", encoding="utf-8") as f: f.write(MAIN)
    tests, passed, failed = find_tests(suite), 0, 0
    if not tests: sys.exit(f"cross_test: no tests in {suite}")
    for machine in sys.argv[4:] or MACHINES:
        lacking = prepare(machine)
        if lacking:
            print(f"{machine}: left out: {lacking}")
            continue
        p, f = run_machine(program, machine, count, tests)
        passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
