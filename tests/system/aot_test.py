#!/usr/bin/env python3
"""aot_test.py -- models compiled ahead of time: object file, shared library and program, bit for bit as `tenon run`.

usage: aot_test.py PROGRAM

Each model is compiled to a file, to an object (linked into a C program with libtenon_runtime.a, with and without
--gc-sections, stripped), to a shared library (called through dlopen) and to a program; with its weights inside and in a
file of their own.  All run with an environment in
which no compiler can be found; what they are linked with is looked at; without its weights a program has at most
400 KB.  Where PROGRAM has no tenon-codegen (no LLVM), the same is done with host steps alone.  Needs only Python's
standard library and a C compiler.
"""
import array, os, random, re, shutil, subprocess, sys, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORK = os.path.join(ROOT, "build", "aot-test")
SIZE_MAX = 400 * 1000  # of a program, beyond its weights
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "linux-vdso.so.1"}
DATA = os.path.join(ROOT, os.environ.get("TENON_DATA") or "../shared/data")
CODES = {"f": "<f4", "q": "<i8"}
C_TYPES = {"f": "float", "q": "int64_t"}
# name, model, inputs (name, type, shape), sizes (name, value), outputs (name, type, elements)
MODELS = [
    ("mnist", os.path.join(DATA, "models/mnist_onnx2c/model.onnx"), [("Input3", "f", (1, 1, 28, 28))], [],
     [("Plus214_Output_0", "f", 10)]),
    ("digits", "examples/digits/digits.onnx", [("image", "f", (7, 8, 8))], [("batch", 7)], [("probability", "f", 70)]),
    ("text", "tests/models/text.tir", [("x", "f", (5, 4))], [("n", 5)], [("y", "f", 20), ("k", "q", 2)]),
]
passed = 0


def ok(what):
    global passed
    passed += 1
    print(f"ok {what}", flush=True)


def run(*command, **kw):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **kw)
    if r.returncode: sys.exit(f"aot_test: {' '.join(command)}: exit status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def alone(*command):
    """Runs it where neither a compiler nor a cache can be found."""
    return run(*command, cwd=WORK, env={"PATH": "/nowhere", "TENON_CACHE": "/nowhere"})


def write_npy(path, code, shape, values):
    head = repr({"descr": CODES[code], "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    with open(path, "wb") as f: f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + array.array(code, values).tobytes())


def elements(npy): return npy[10 + int.from_bytes(npy[8:10], "little"):]


def count(shape):
    n = 1
    for d in shape: n *= d
    return n


def caller(name, inputs, sizes, outputs, shared):
    """A C program that reads its inputs' elements from files in-I.raw and writes its outputs' to out-I.raw."""
    values = inputs + outputs
    types = [("const " if i < len(inputs) else "") + C_TYPES[v[1]] + " *" for i, v in enumerate(values)]
    parameters = types[:len(inputs)] + ["int64_t"] * len(sizes) + types[len(inputs):] + ["tenon_error *"]
    lines = ['#include "tenon/aot.h"', '#include <stdio.h>', f'#include "{name}.h"', "#include <dlfcn.h>"]
    for i, v in enumerate(values):
        n = count(v[2]) if i < len(inputs) else v[2]
        lines.append(f"static _Alignas(64) {C_TYPES[v[1]]} v{i}[{n}];")
    lines += ["int main(void) {", "  tenon_error error;", "  FILE *f;"]
    if shared:
        lines += [f'  void *library = dlopen("./{name}.so", RTLD_NOW | RTLD_LOCAL);',
                  '  if (!library) return fprintf(stderr, "%s\\n", dlerror()), 1;',
                  f"  tenon_status (*model)({', '.join(parameters)});",
                  f'  *(void **)&model = dlsym(library, "{name}");', "  if (!model) return 2;"]
    for i in range(len(inputs)):
        lines.append(f'  if (!(f = fopen("in-{i}.raw", "rb")) || fread(v{i}, sizeof v{i}, 1, f) != 1 || fclose(f)) return 3;')
    arguments = [f"v{i}" for i in range(len(inputs))] + [str(v) for _, v in sizes]
    arguments += [f"v{i}" for i in range(len(inputs), len(values))] + ["&error"]
    lines.append(f'  if ({"model" if shared else name}({", ".join(arguments)})) return fprintf(stderr, "%s\\n", error.message), 4;')
    if not shared:  # NULL is an error, or does nothing
        lines += ["  tenon_aot_threads(NULL, 1), tenon_aot_weights(NULL, NULL), tenon_aot_close(NULL);",
                  "  if (tenon_aot_run(NULL, NULL, NULL, NULL, &error) != TENON_EINVAL) return 6;",
                  f"  if (tenon_aot_run(&{name}_model, NULL, NULL, NULL, &error) != TENON_EINVAL || !*error.message) return 7;"]
    for i in range(len(inputs), len(values)):
        lines.append(f'  if (!(f = fopen("out-{i - len(inputs)}.raw", "wb")) || fwrite(v{i}, sizeof v{i}, 1, f) != 1 || fclose(f)) return 5;')
    return "\n".join(lines + ["  return 0;", "}", ""])


def check_links(path):
    """Nothing but the system's own libraries, and no word of LLVM."""
    names = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path)))
    extra = {n for n in names - LIBRARIES if not n.startswith("ld-linux")}
    if extra: sys.exit(f"aot_test: {path} needs {extra}")
    with open(path, "rb") as f: content = f.read()
    for word in (b"LLVM", b"tenon-codegen"):
        if word in content: sys.exit(f"aot_test: {path} has {word} in it")


class Test:
    def __init__(self, program, target, name, model, inputs, sizes, outputs):
        self.program, self.target, self.name, self.model = program, target, name, os.path.join(ROOT, model)
        self.inputs, self.sizes, self.outputs = inputs, sizes, outputs
        self.archive = os.path.join(os.path.dirname(program), "libtenon_runtime.a")
        self.cc = os.environ.get("CC") or "cc"

    def compile(self, ending, kind, *options):
        run(self.program, "compile", self.model, "--target", self.target, f"--emit={kind}", "-o", self.name + ending, *options, cwd=WORK)

    def reference(self):
        """Makes inputs up, and runs the compiled file: the elements of each output."""
        rng, given = random.Random(7), []
        for i, (name, code, shape) in enumerate(self.inputs):
            values = [rng.uniform(-2, 2) if code == "f" else rng.randrange(9) for _ in range(count(shape))]
            write_npy(os.path.join(WORK, f"in-{i}.npy"), code, shape, values)
            with open(os.path.join(WORK, f"in-{i}.raw"), "wb") as f: f.write(array.array(code, values).tobytes())
            given += ["--input", f"{name}=in-{i}.npy"]
        self.compile(".tenon", "tenon")
        run(self.program, "run", self.name + ".tenon", *given, "--output", "want.npz", cwd=WORK)
        with zipfile.ZipFile(os.path.join(WORK, "want.npz")) as z: return [elements(z.read(n + ".npy")) for n, _, _ in self.outputs]

    def expect(self, what, got):
        if got != self.want: sys.exit(f"aot_test: {self.name}: the results of {what} are not those of `tenon run`")
        ok(f"{self.name}: {what}")

    def call_raw(self, what, exe):
        for i in range(len(self.outputs)):
            if os.path.exists(f"{WORK}/out-{i}.raw"): os.remove(f"{WORK}/out-{i}.raw")
        alone(exe)
        self.expect(what, [open(f"{WORK}/out-{i}.raw", "rb").read() for i in range(len(self.outputs))])

    def build(self, shared, *arguments):
        source = os.path.join(WORK, f"{self.name}-{'dl' if shared else 'obj'}.c")
        with open(source, "w", encoding="utf-8") as f: f.write(caller(self.name, self.inputs, self.sizes, self.outputs, shared))
        exe = source[:-2]
        run(self.cc, "-O2", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), "-I", WORK, source, *arguments, "-o", exe)
        return exe

    def object(self):
        self.compile(".o", "obj")
        weights = int(re.search(r'"param_bytes": (\d+)', run(self.program, "inspect", "--json", self.model)).group(1))
        for flags in ([], ["-Wl,--gc-sections"]):
            exe = self.build(False, os.path.join(WORK, self.name + ".o"), self.archive, *flags, "-s", "-lm", "-pthread")
            check_links(exe)
            beyond, how = os.path.getsize(exe) - weights, " with --gc-sections" if flags else ""
            print(f"{self.name}: a program of {os.path.getsize(exe)} bytes{how}, {weights} of them weights, {beyond} beyond")
            if beyond > SIZE_MAX: sys.exit(f"aot_test: more than {SIZE_MAX}")
            self.call_raw("object" + how, exe)

    def loadable(self):
        self.compile(".so", "so")
        check_links(os.path.join(WORK, self.name + ".so"))
        exported = re.findall(r" [TDBR] (\S+)", run("nm", "-D", "--defined-only", os.path.join(WORK, self.name + ".so")))
        if self.name not in exported: sys.exit(f"aot_test: {self.name}.so exports {exported}")
        self.call_raw("shared library", self.build(True, "-ldl"))

    def call_exe(self, *options):
        command = [os.path.join(WORK, self.name), *options, "--output", "exe-", *[f"in-{i}.npy" for i in range(len(self.inputs))]]
        alone(*command)
        got = [elements(open(f"{WORK}/exe-{n}.npy", "rb").read()) for n, _, _ in self.outputs]
        self.expect(" ".join(("program", *options)), got)
        return command

    def executable(self):
        self.compile("", "exe")
        check_links(os.path.join(WORK, self.name))
        for threads in ("1", "3"): command = self.call_exe("--threads", threads)
        # An input of another type or shape is an error, and so is what is no array.
        name, code, shape = self.inputs[0]
        other, wrong = "q" if code == "f" else "f", os.path.join(WORK, "wrong.npy")
        for bad_code, bad_shape in ((other, shape), (code, shape + (1,)), (code, ())):
            write_npy(wrong, bad_code, bad_shape, [1] * count(bad_shape))
            r = subprocess.run([wrong if a == "in-0.npy" else a for a in command], cwd=WORK, capture_output=True, text=True)
            if r.returncode != 1 or not r.stderr: sys.exit(f"aot_test: {self.name} takes {bad_code}{bad_shape}")
        ok(f"{self.name}: a wrong input is an error")

    def beside(self):
        """The weights in a file of their own: as good as inside; gone, cut or of another model they are an error."""
        weights = os.path.join(WORK, "weights.bin")
        self.compile(".o", "obj", "--weights-out", "weights.bin", "--force")
        exe = self.build(False, os.path.join(WORK, self.name + ".o"), self.archive, "-s", "-lm", "-pthread")
        self.call_raw("object with weights beside", exe)
        self.compile("", "exe", "--weights-out", "weights.bin", "--force")
        self.call_exe()
        with open(weights, "rb") as f: content = f.read()
        os.rename(weights, weights + ".moved")
        command = self.call_exe("--weights", "weights.bin.moved")
        command[command.index("weights.bin.moved")] = "weights.bin"
        damaged = [None, content[:-1] if content else b"x"]
        if content: damaged.append(bytes([content[0] ^ 1]) + content[1:])
        for bad in damaged:
            if bad is not None:
                with open(weights, "wb") as f: f.write(bad)
            r = subprocess.run(command, cwd=WORK, capture_output=True, text=True)
            if r.returncode != 1 or ("weights" not in r.stderr and "checksum" not in r.stderr):
                sys.exit(f"aot_test: {self.name} with bad weights: exit status {r.returncode}: {r.stderr}")
        ok(f"{self.name}: bad weights are an error")

    def all(self):
        self.want = self.reference()
        self.object()
        self.loadable()
        self.executable()
        self.beside()


def names(program, target):
    """Outputs whose size depends on data, under names that lead elsewhere; outputs called as words of C."""
    model = os.path.join(WORK, "names.tir")
    with open(model, "w", encoding="utf-8") as f:
        f.write('graph @"names"(%x: f32[n]) -> ("../../up": i64[1, ?nonzero_0]) {\n  %i = non_zero(%x)\n  return %i\n}\n')
    run(program, "compile", model, "--target", target, "--emit=exe", "-o", os.path.join(WORK, "names"))
    write_npy(os.path.join(WORK, "x.npy"), "f", (4,), [0, 1, 0, 2])
    alone(os.path.join(WORK, "names"), "x.npy")
    with open(os.path.join(WORK, "_._.._up.npy"), "rb") as f: got = array.array("q", elements(f.read()))
    if list(got) != [1, 3]: sys.exit(f"aot_test: nonzero gives {list(got)}")
    ok("outputs of unknown size, and names that lead elsewhere")
    for name in ("int", "main", "9lives"):
        run(program, "compile", "examples/digits/digits.onnx", "--target", target, "-o", os.path.join(WORK, name + ".o"), cwd=ROOT)
        with open(os.path.join(WORK, "include.c"), "w", encoding="utf-8") as f: f.write(f'#include "{name}.h"\nint main(void) {{ return 0; }}\n')
        run(os.environ.get("CC") or "cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), os.path.join(WORK, "include.c"))
    ok("headers of models called as words of C")


def main():
    if len(sys.argv) != 2: sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    native = os.path.exists(os.path.join(os.path.dirname(program), "tenon-codegen"))
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    for row in MODELS:
        if not os.path.exists(os.path.join(ROOT, row[1])):
            print(f"{row[0]}: left out: no {row[1]}")
            continue
        for target in ["cpu", "host"] if native else ["host"]: Test(program, target, *row).all()
    names(program, "cpu" if native else "host")
    print(f"{passed} passed, 0 failed")


main()
