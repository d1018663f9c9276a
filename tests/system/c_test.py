#!/usr/bin/env python3
"""c_test.py -- models as C: built without a warning by every compiler that is there, and right.

usage: c_test.py PROGRAM

Each model becomes a source and a header, one file, and a source with its weights beside; each is built as C11 with
-pedantic -Wall -Wextra -Werror, for this machine and for the least of its kind (plain loops), run on random inputs and
compared with the reference interpreter.  Sources for microcontrollers are built for a Cortex-M and run under
qemu-system-arm where arm-none-eabi-gcc and it are there: the same numbers, and no more stack than was said; where they
are not, the line says so.  Needs Python's standard library and a C compiler.
"""
import array, os, random, re, shutil, subprocess, sys, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORK = os.path.join(ROOT, "build", "c-test")
DATA = os.path.join(ROOT, os.environ.get("TENON_DATA") or "../shared/data")
STRICT = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"]
CODES = {"f": "<f4", "q": "<i8", "B": "|u1", "b": "|i1"}
C_TYPES = {"f": "float", "q": "int64_t", "B": "uint8_t", "b": "int8_t"}
# name, model, inputs (name, type, shape), sizes (name, value), outputs (name, type, elements), fits a microcontroller
MODELS = [
    ("mnist", os.path.join(DATA, "models/mnist_onnx2c/model.onnx"), [("Input3", "f", (1, 1, 28, 28))], [],
     [("Plus214_Output_0", "f", 10)], True),
    ("digits", "examples/digits/digits.onnx", [("image", "f", (7, 8, 8))], [("batch", 7)], [("probability", "f", 70)], True),
    ("text", "tests/models/text.tir", [("x", "f", (5, 4))], [("n", 5)], [("y", "f", 20), ("k", "q", 2)], True),
    ("repeat", "tests/models/repeat.tir", [("trips", "q", ()), ("x", "f", (4,))], [], [("y", "f", 4), ("z", "f", 1)], True),
    # quantised: of the digits above, and a small network of convolutions, one of them by channel
    ("digits_int8", "tests/models/digits_int8.onnx", [("image", "f", (3, 8, 8))], [("batch", 3)], [("probability", "f", 30)], True),
    ("keywords_int8", "tests/models/keywords_int8.onnx", [("x", "f", (1, 1, 24, 16))], [], [("y", "f", 10)], True),
    ("whole_int8", "tests/models/whole_int8.tir", [("x", "B", (1, 4, 12, 10))], [], [("y", "B", 10)], True),
]
WITHOUT_FLOATS = {"whole_int8"}  # for microcontrollers: bytes in, bytes out, and whole numbers between
passed = skipped = 0


def ok(what):
    global passed
    passed += 1
    print(f"ok {what}", flush=True)


def skip(what):
    global skipped
    skipped += 1
    print(f"skipped: {what}", flush=True)


def run(*command, **kw):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **kw)
    if r.returncode: sys.exit(f"c_test: {' '.join(command)}: exit status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def count(shape):
    n = 1
    for d in shape: n *= d
    return n


def write_npy(path, code, shape, values):
    head = repr({"descr": CODES[code], "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    with open(path, "wb") as f: f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + array.array(code, values).tobytes())


def elements(npy, code): return array.array(code, npy[10 + int.from_bytes(npy[8:10], "little"):])


def reference(program, m):
    """Inputs by a fixed seed, and what the interpreter makes of them."""
    name, model, inputs, _, outputs, _ = m
    rng = random.Random(7)
    given, args = [], []
    for i, (n, code, shape) in enumerate(inputs):
        values = [rng.uniform(-1, 1) if code == "f" else rng.randrange(2, 6) for _ in range(count(shape))]
        given.append(array.array(code, values))
        write_npy(os.path.join(WORK, f"{name}-{i}.npy"), code, shape, values)
        args += ["--input", f"{n}={WORK}/{name}-{i}.npy"]
    run(program, "run", model, "--target", "interp", "-o", f"{WORK}/{name}.npz", *args, cwd=ROOT)
    with zipfile.ZipFile(f"{WORK}/{name}.npz") as z:
        return given, [elements(z.read(n + ".npy"), code) for n, code, _ in outputs]


def literal(code, v):
    return f"{v!r}f" if code == "f" else f"INT64_C({v})" if code == "q" else str(v)


def caller(m, given, wanted, header, embedded):
    """A C function `run_model` that calls the model and gives the number of elements that are not as wanted."""
    name, _, inputs, sizes, outputs, _ = m
    out = [f'#include "{header}"', "#include <math.h>"] + ([] if embedded else ["#include <stdio.h>"])
    for i, (_, code, _) in enumerate(inputs):
        out.append(f"static const {C_TYPES[code]} in_{i}[] = {{{', '.join(literal(code, v) for v in given[i])}}};")
    for i, (_, code, n) in enumerate(outputs):
        out.append(f"static const {C_TYPES[code]} want_{i}[] = {{{', '.join(literal(code, v) for v in wanted[i])}}};")
        out.append(f"static {C_TYPES[code]} out_{i}[{n}];")
    args = [f"in_{i}" for i in range(len(inputs))] + ([] if embedded else [str(v) for _, v in sizes]) + [f"out_{i}" for i in range(len(outputs))]
    out += ["int run_model(void);", "int run_model(void) {", f"  int bad = 0, rc = {name}({', '.join(args)});", "  if (rc) return 90;"]
    for i, (_, code, n) in enumerate(outputs):
        test = f"!(fabsf(out_{i}[k] - want_{i}[k]) <= 1e-5f + 1e-4f * fabsf(want_{i}[k]))" if code == "f" else f"out_{i}[k] != want_{i}[k]"
        out.append(f"  for (int k = 0; k < {n}; k++) bad += {test};")
    out.append("  return bad > 80 ? 80 : bad;\n}")
    return "\n".join(out) + "\n"


def build_and_run(m, compiler, flags, sources, what):
    exe = os.path.join(WORK, f"{m[0]}.exe")
    run(compiler, *STRICT, *flags, "-o", exe, *sources, "-lm", cwd=WORK)
    r = subprocess.run([exe], cwd=WORK)
    if r.returncode: sys.exit(f"c_test: {m[0]} by {compiler} {' '.join(flags)}: {r.returncode} elements are wrong")
    ok(f"{m[0]}: {what} by {compiler} {' '.join(flags)}")


def on_this_machine(program, m, given, wanted):
    name, model = m[0], m[1]
    main = os.path.join(WORK, f"{name}_main.c")
    tail = "int main(void) { return run_model(); }\n"
    weights = ("#include <stdlib.h>\nint main(void) {\n  static _Alignas(64) unsigned char w[1 << 22];\n"
               f'  FILE *f = fopen("{name}.bin", "rb");\n  if (!f || fread(w, 1, sizeof w, f) == sizeof w) return 91;\n'
               f"  {name}_weights(w);\n  return run_model();\n}}\n")
    first = None
    for kind, options in (("two files", []), ("one file", ["--single-file"]), ("weights beside", ["--weights-out", f"{WORK}/{name}.bin"])):
        run(program, "compile", model, "--target", "c", "-o", f"{WORK}/{name}.c", *options, cwd=ROOT)
        header = f"{name}.h"
        if kind == "one file": header = f"{name}.c"
        with open(main, "w") as f: f.write(caller(m, given, wanted, header, False) + (weights if kind == "weights beside" else tail))
        sources = [main] if kind == "one file" else [main, f"{WORK}/{name}.c"]
        for compiler in ("gcc", "clang"):
            if not shutil.which(compiler):
                skip(f"{name}: there is no {compiler}")
                continue
            for flags in (["-O1", "-march=native"], ["-O1"], ["-O0", "-march=native", "-DTN_VECTORS=0"]):
                if kind != "two files" and flags != ["-O1"]: continue
                build_and_run(m, compiler, flags, sources, kind)
        text = open(f"{WORK}/{name}.c").read()
        if kind == "two files": first = text
    run(program, "compile", model, "--target", "c", "-o", f"{WORK}/{name}.c", cwd=ROOT)
    if open(f"{WORK}/{name}.c").read() != first: sys.exit(f"c_test: {name}: the same model gives another text")
    ok(f"{name}: the same text again")


def on_a_microcontroller(program, m, given, wanted):
    name, model, _, sizes = m[:4]
    dims = [a for n, v in sizes for a in ("--fix", f"{n}={v}")]
    said = run(program, "compile", model, "--target", "c", "--embedded", "-o", f"{WORK}/{name}_mcu.c", *dims, cwd=ROOT)
    source = open(f"{WORK}/{name}_mcu.c").read()
    for word in ("malloc", "printf", "fopen"):
        if re.search(rf"\b{word}\b", source): sys.exit(f"c_test: {name} for microcontrollers uses {word}")
    if (name in WITHOUT_FLOATS) == bool(re.search(r"float|double|math\.h|tn_f32|tn_f64", source)):
        sys.exit(f"c_test: {name} for microcontrollers has {'' if name in WITHOUT_FLOATS else 'no '}floats")
    ok(f"{name}: {said.strip().split(': ', 1)[1]}")
    mcu = (f"{name}_mcu",) + m[1:]
    with open(f"{WORK}/{name}_mcu_main.c", "w") as f: f.write(caller(mcu, given, wanted, f"{name}_mcu.h", True))
    with open(f"{WORK}/host.c", "w") as f: f.write("int run_model(void);\nint main(void) { return run_model(); }\n")
    build_and_run(mcu, "cc", ["-O1"], [f"{WORK}/{name}_mcu_main.c", f"{WORK}/{name}_mcu.c", f"{WORK}/host.c"], "embedded, here")
    gcc, qemu = shutil.which("arm-none-eabi-gcc"), shutil.which("qemu-system-arm")
    if not gcc or not qemu:
        skip(f"{name} on a Cortex-M4: {'qemu-system-arm' if gcc else 'arm-none-eabi-gcc'} is not there")
        return
    board = os.path.join(ROOT, "tests", "embedded")
    elf = f"{WORK}/{name}_mcu.elf"
    run(gcc, *STRICT, "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2", "-ffunction-sections", "-fdata-sections",
        "-nostartfiles", "-specs=nano.specs", "-specs=nosys.specs", "-Wl,--gc-sections", "-T", f"{board}/board.ld", "-o", elf,
        f"{board}/start.c", f"{WORK}/{name}_mcu_main.c", f"{WORK}/{name}_mcu.c", "-lm", cwd=WORK)
    r = subprocess.run([qemu, "-M", "mps2-an386", "-nographic", "-semihosting-config", "enable=on,target=native", "-kernel", elf],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if r.returncode: sys.exit(f"c_test: {name} on a Cortex-M4: {r.returncode}: {r.stdout}{r.stderr}")
    taken = int(re.search(r"stack (-?\d+)", r.stdout + r.stderr)[1])
    most = int(re.search(r"_STACK_BYTES (\d+)", open(f"{WORK}/{name}_mcu.h").read())[1])
    size = run("arm-none-eabi-size", elf).splitlines()[1].split()
    if taken > most: sys.exit(f"c_test: {name} on a Cortex-M4: {taken} bytes of stack, {most} were said to be the most")
    ok(f"{name} on a Cortex-M4: flash {int(size[0]) + int(size[1])}, static memory {int(size[1]) + int(size[2]) - 65536}, "
       f"stack {taken} of at most {most} bytes")


def refusals(program):
    """What C cannot hold is named, all of it at once."""
    r = subprocess.run([program, "compile", "tests/models/kinds.onnx", "--target", "c", "-o", f"{WORK}/no.c"], cwd=ROOT, capture_output=True, text=True)
    if r.returncode != 4 or "compile to a .tenon file" not in r.stderr or os.path.exists(f"{WORK}/no.c"):
        sys.exit(f"c_test: kinds.onnx: {r.returncode}\n{r.stdout}{r.stderr}")
    ok("kinds.onnx is refused by name")


def main():
    program = os.path.abspath(sys.argv[1])
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    for m in MODELS:
        if not os.path.exists(os.path.join(ROOT, m[1])):
            skip(f"{m[0]}: {m[1]} is not there")
            continue
        given, wanted = reference(program, m)
        on_this_machine(program, m, given, wanted)
        if m[5]: on_a_microcontroller(program, m, given, wanted)
    refusals(program)
    print(f"{passed} passed, 0 failed, {skipped} skipped")


main()
