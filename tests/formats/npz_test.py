#!/usr/bin/env python3
"""npz_test.py [PROGRAM] -- array files against NumPy: what it writes Tenon reads, and the other way round.

A graph that returns its input is run for every dtype, byte order and memory order, with .npy, .npz and compressed .npz;
what comes out must be what went in.  JSON outputs are compared with the same arrays, and with what stands for maps, sequences,
optionals and values that JSON has no numbers for.  Needs numpy.
"""
import base64, json, os, subprocess, sys, tempfile
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


KINDS = """graph @"m"(%x: f32[2, 2], %xs: seq(f32[n]), %o: opt(f32[k]), %c: c64[2], %u: u64[1], %h: f16[3], %s: string[2], %e: f32[3, 0]) -> (
    x: f32[2, 2], xs: seq(f32[n]), none: opt(f32[k]), c: c64[2], u: u64[1], h: f16[3], s: string[2], e: f32[3, 0],
    maps: seq(map(string, f32[])), counts: seq(map(i64, f32[])), b: bool[2]) {
  %maps = zip_map(%x) classlabels_strings=["no", "yes"]
  %counts = zip_map(%x) classlabels_int64s=[-3, 70]
  %b = eq(%u, %u)
  %two = const i64[1] {2}
  %bb = expand(%b, %two)
  return %x, %xs, %o, %c, %u, %h, %s, %e, %maps, %counts, %bb
}
"""


def json_outputs(tmp):
    """Every kind of output in F.json, in F.npz with F.npz.json, and one alone."""
    model, given, out, archive = (os.path.join(tmp, n) for n in ("k.tir", "k.npz", "out.json", "kinds.npz"))
    open(model, "w").write(KINDS)
    x = np.array([[0.1, np.nan], [-np.inf, np.inf]], "f4")
    feed = {"x": x, "xs.0": np.array([1.5], "f4"), "xs.1": np.array([-0.0, 16777217], "f4"), "c": np.array([1 + 2j, np.inf], "c8"),
            "u": np.array([2**64 - 1], "u8"), "h": np.array([0.1, 65504, np.nan], "f2"), "s": np.array([b"gr\xc3\xbcn", b"\xff\xfe\x00a"]),
            "e": np.zeros((3, 0), "f4")}
    np.savez(given, **feed)
    want = {"x": [[0.1, "NaN"], ["-Infinity", "Infinity"]], "xs": [[1.5], [-0.0, 16777216]], "none": None, "c": [[1, 2], ["Infinity", 0]],
            "u": [2**64 - 1], "h": [0.099975586, 65504, "NaN"], "s": ["grün", {"base64": base64.b64encode(b"\xff\xfe\x00a").decode()}],
            "e": [[], [], []], "maps": [{"no": 0.1, "yes": "NaN"}, {"no": "-Infinity", "yes": "Infinity"}],
            "counts": [{"-3": 0.1, "70": "NaN"}, {"-3": "-Infinity", "70": "Infinity"}], "b": [True, True]}
    for target in ("interp", "ref"):
        run = lambda *more: subprocess.run([TENON, "run", model, "--target", target, "--inputs", given, *more], capture_output=True, text=True)
        p = run("--output", out)
        got = json.load(open(out)) if not p.returncode else p.stderr
        report(got == want, f"{target}: json: {got}")
        report("-0.0" in open(out).read(), f"{target}: the sign of zero")
        p = run("--output", archive)  # twice: what Tenon wrote may be replaced
        p = run("--output", archive)
        rest = json.load(open(archive + ".json")) if not p.returncode else p.stderr
        report(rest == {k: want[k] for k in ("none", "maps", "counts")}, f"{target}: beside the archive: {rest}")
        with np.load(archive) as z:
            report(set(z.files) == {"x", "xs.0", "xs.1", "c", "u", "h", "s", "e", "b"} and z["x"].tobytes() == x.tobytes(), f"{target}: {z.files}")
        p = run("--output", out, "--only", "maps", "--only", "u")
        got = json.load(open(out)) if not p.returncode else p.stderr
        report(got == {k: want[k] for k in ("u", "maps")}, f"{target}: two outputs: {got}")
    for path, says in (("one.npy", "an .npy file cannot hold"), ("-", "an archive on standard output cannot hold")):
        p = run("--only", "maps", "--output", path if path == "-" else os.path.join(tmp, path))
        report(p.returncode == 1 and says in p.stderr, f"maps to {path}: {p.stderr}")
    open(archive + ".json", "w").write('{"mine": 1}')
    p = run("--output", archive)
    report(p.returncode == 2 and "--force replaces it" in p.stderr and "mine" in open(archive + ".json").read(), f"a file of others: {p.stderr}")


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
        json_outputs(tmp)
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] > 0


sys.exit(main())
