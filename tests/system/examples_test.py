#!/usr/bin/env python3
"""tenon.hpp, and the examples in C++, in Python and for microcontrollers: they compile without a warning, and do what they say.

usage: examples_test.py [BUILD]      default: build, with libtenon.so and tenon

tests/api/cpp_test.cc also runs with AddressSanitizer, which finds what is not freed.  C++ needs c++, g++ or clang++; the test says so
where there is none.  Python needs numpy.  The last line is `N passed, N failed`.
"""
import importlib.util, os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-O1", "-I" + os.path.join(ROOT, "include")]
NEAR = 30  # pixels: half of a cell of the model, in the frame
passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + detail.strip()[-2000:] if detail and not good else ''}", flush=True)
    return good


def run(command, **env):
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def compiled(compiler, source, out, build, *flags):
    status, said = run([*compiler, *FLAGS, *flags, source, "-o", out, "-L" + build, "-ltenon", "-Wl,-rpath," + build])
    return check(f"{source} compiles{' with ' + ' '.join(flags) if flags else ''}", status == 0, said)


def check_interface(compiler, folder, build):
    program, model = os.path.join(folder, "cpp_test"), "examples/digits/digits.onnx"
    probe = os.path.join(folder, "probe")
    sanitize = "-fsanitize=address,undefined"
    works = run(["sh", "-c", f"echo 'int main() {{}}' | {' '.join(compiler)} -x c++ {sanitize} - -o {probe} && {probe}"])[0] == 0
    if not works: print("     skipped: no AddressSanitizer")
    if not compiled(compiler, "tests/api/cpp_test.cc", program, build, *([sanitize] if works else [])): return
    status, said = run([program, model, folder])
    check("tests/api/cpp_test.cc", status == 0 and re.search(r"^\d\d passed, 0 failed$", said, re.M), said)


def check_detection(compiler, folder, build):
    program = os.path.join(folder, "detect")
    if not compiled(compiler, "examples/detect.cc", program, build): return
    status, said = run([program, "examples/detection/red_square.onnx", "8"])
    found = [tuple(map(int, m)) for m in re.findall(r"^frame (\d+): class 0, score [0-9.]+, at (-?\d+),(-?\d+) size 107x107$", said, re.M)]
    check("one object in each frame", status == 0 and [f[0] for f in found] == list(range(8)), said)
    check("where the square is", all(abs(x - 60 - 60 * i) <= NEAR and abs(y - 120 - 20 * i) <= NEAR for i, x, y in found), said)
    status, said = run([program, "examples/digits/digits.onnx"])
    check("a model of another kind is refused", status == 1 and "f32[batch, 8, 8]" in said, said)


def check_microcontroller(folder, build):
    """On this machine, with the commands of its main.c; tests/embedded runs such code on a board of QEMU's."""
    source, program = os.path.join(folder, "digits.c"), os.path.join(folder, "digits")
    status, said = run([os.path.join(build, "tenon"), "compile", "examples/digits/digits.onnx", "--fix", "batch=1", "--target", "c", "--embedded", "-o", source])
    if not check("digits.c is made", status == 0, said): return
    main_c = "examples/microcontroller/main.c"
    status, said = run(["cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-I" + folder, main_c, source, "-lm", "-o", program])
    if not check(f"{main_c} compiles", status == 0, said): return
    status, said = run([program])
    check("it sees a three", status == 0 and re.match(r"digit 3, \d\d+ %, \d{2,4} bytes of RAM, \d{4,5} of weights$", said), said)


def check_ocr(folder, build):
    """The line that it makes up, one of other digits in another picture, and an empty page."""
    if importlib.util.find_spec("numpy") is None: return print("     skipped: no numpy")
    env = {"PYTHONPATH": os.path.join(ROOT, "python"), "TENON_LIBRARY": os.path.join(build, "libtenon.so")}
    status, said = run([sys.executable, "examples/ocr.py"], **env)
    check("examples/ocr.py reads its own line", status == 0 and said.startswith("31415926 "), said)
    code = f"import sys; sys.path.insert(0, 'examples'); import numpy as np, ocr; np.save({folder + '/line.npy'!r}, ocr.write([8, 0, 2, 7, 6], 7)); np.save({folder + '/empty.npy'!r}, np.full((40, 90), 230, np.uint8))"
    status, said = run([sys.executable, "-c", code], **env)
    check("pictures are made", status == 0, said)
    status, said = run([sys.executable, "examples/ocr.py", os.path.join(folder, "line.npy")], **env)
    check("it reads a line of a file", status == 0 and said.startswith("80276 "), said)
    status, said = run([sys.executable, "examples/ocr.py", os.path.join(folder, "empty.npy")], **env)
    check("an empty page is said", status == 1 and "no characters" in said, said)


def main(build):
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    with tempfile.TemporaryDirectory() as folder:
        check_microcontroller(folder, build)
        check_ocr(folder, build)
        if compiler:
            check_interface([compiler], folder, build)
            check_detection([compiler], folder, build)
        else: print("     skipped: no C++ compiler")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__": main(os.path.abspath(sys.argv[1] if sys.argv[1:] else os.path.join(ROOT, "build")))
