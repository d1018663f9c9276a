#!/usr/bin/env python3
"""npz_test.py [PROGRAM] -- array files against NumPy: what it writes Tenon reads, and the other way round.

A graph that returns its input is run for every dtype, byte order and memory order, with .npy, .npz and compressed .npz;
what comes out must be what went in.  Needs numpy.
"""
import os, subprocess, sys, tempfile
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tenon")
NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16",
         "u4": "u32", "u8": "u64", "b1": "bool", "c8": "c64", "c16": "c128", "U": "string", "S": "string"}
count = {"passed": 0, "failed": 0}


def report(ok, text):
    count["passed" if ok else "failed"] += 1
    if not ok: print("FAIL", text)


def code(a):
    return a.dtype.kind if a.dtype.kind in "US" else f"{a.dtype.kind}{a.dtype.itemsize}"


def run(tmp, array, dtype, save, *flags):
    """The array after a round trip through the identity, or the message."""
    model, given, out = (os.path.join(tmp, n) for n in ("m.tir", "in.npz" if save != "npy" else "in.npy", "out.npz"))
    dims = ", ".join(str(d) for d in array.shape)
    open(model, "w").write(f'graph @"m"(%x: {dtype}[{dims}]) -> (y: {dtype}[{dims}]) {{\n  return %x\n}}\n')
    if save == "npy": np.save(given, array)
    elif save == "npz": np.savez(given, x=array)
    else: np.savez_compressed(given, x=array)
    args = ["--input", f"x={given}"] if save == "npy" else ["--inputs", given]
    p = subprocess.run([TENON, "run", model, "--target", "interp", *args, "--output", out, *flags], capture_output=True, text=True)
    if p.returncode: return p.stderr.strip()
    with np.load(out) as z: return z["y"]


def same(got, want):
    if isinstance(got, str) or got.shape != want.shape: return False
    if want.dtype.kind == "S": want = np.char.decode(want, "utf-8")
    if want.dtype.kind == "U": return np.array_equal(got, want)
    return got.dtype == want.dtype.newbyteorder("=") and got.tobytes() == want.astype(got.dtype).tobytes()


def arrays():
    rng = np.random.default_rng(7)
    for t in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16"):
        a = (rng.normal(size=(3, 4, 5)) * 50).astype(t)
        yield a
        yield np.asfortranarray(a)
        if a.dtype.itemsize > 1: yield a.astype(a.dtype.newbyteorder(">"))
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], "f4")
    yield special
    yield special.reshape(5, 1)[::2]
    yield np.array(3.5, "f4")
    yield np.zeros((3, 0, 2), "f8")
    yield np.array(["a", "grün 🙂", ""])
    yield np.asfortranarray(np.array([["a", "bb"], ["ccc", "d"]]))
    yield np.array(["x", "yz"], ">U4")
    yield np.array([b"ab", "ü".encode(), b""])


def main():
    with tempfile.TemporaryDirectory() as tmp:
        for a in arrays():
            for save in ("npy", "npz", "compressed"):
                for flags in ([], ["--compress"]):
                    got = run(tmp, a, NAMES[code(a)], save, *flags)
                    report(same(got, a), f"{a.dtype} {a.shape} {save} {flags}: {got}")
        # Types that NumPy lacks travel as opaque bytes or as small integers.
        for dtype, carrier in (("bf16", np.array([1, 2, 3], "u2").view("V2")), ("f8e4m3", np.array([b"\x38", b"\x40"], "V1")),
                               ("i4", np.array([-8, 7, 0], "i1")), ("u4", np.array([15, 0, 9], "u1")), ("u2", np.array([3, 0, 1], "u1"))):
            got = run(tmp, carrier, dtype, "npz")
            report(not isinstance(got, str) and got.tobytes() == carrier.tobytes(), f"{dtype}: {got}")
        for dtype, wrong, says in (("f32", np.array([1.0]), "f64"), ("i4", np.array([8], "i1"), "out of range"),
                                   ("f32", np.array([None], object), "pickle"), ("f32", np.zeros(1, [("a", "f4")]), "structured")):
            got = run(tmp, wrong, dtype, "npy")
            report(isinstance(got, str) and says in got, f"{dtype} from {wrong.dtype}: {got}")
        # Weights: bf16 and back.
        a, b, c = (os.path.join(tmp, f) for f in ("w.npz", "w.safetensors", "back.npz"))
        np.savez(a, w=np.array([0x3F80, 0xC000], "u2").view("V2"))
        for x, y in ((a, b), (b, c)):
            p = subprocess.run([TENON, "convert", x, "-o", y], capture_output=True, text=True)
            report(p.returncode == 0, f"weights: {p.stderr}")
        report(b"BF16" in open(b, "rb").read() and np.load(c)["w"].tobytes() == b"\x80\x3f\x00\xc0", "weights of bf16")
        # Names as exporters write them.
        model, out = os.path.join(tmp, "n.tir"), os.path.join(tmp, "n.npz")
        open(model, "w").write('graph @"m"(%x: f32[2]) -> ("/größe/out:0": f32[2]) {\n  return %x\n}\n')
        p = subprocess.run([TENON, "run", model, "--target", "interp", "--output", out], capture_output=True, text=True)
        report(p.returncode == 0 and np.load(out).files == ["/größe/out:0"], f"names: {p.stderr}")
        p = subprocess.run([TENON, "run", model, "--target", "interp", "--expect", out], capture_output=True, text=True)
        report(p.returncode == 0, f"names read back: {p.stderr}")
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] > 0


sys.exit(main())
