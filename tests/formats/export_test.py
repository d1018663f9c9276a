#!/usr/bin/env python3
"""export_test.py TENON -- ops on every element type as ONNX and StableHLO: a file that is written is sound, and means the same bits.

Every model is made here, as text.  What `tenon convert` writes must pass onnx.checker, ONNX Runtime must compute from it what Tenon computes from the text
where it has kernels for the types, and Tenon must from what it reads back.  What is refused must be refused by name.  Needs onnx,
onnxruntime and numpy; says so and ends with status 0 where they are absent.
"""
import os, subprocess, sys, tempfile

try:
    import numpy as np, onnx, onnxruntime as ort
except ImportError as e:
    print(f"export: skipped, {e.name} is not installed")
    sys.exit(0)

SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED
NUMPY = {t: np.dtype(("u" if t[0] == "u" else "") + f"int{t[1:]}") for t in INTS} | {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bool": np.dtype("?")}
UNARY = "neg abs sign ceil floor relu bit_not".split()
BINARY = "add sub mul div mod fmod min max bit_and bit_or bit_xor shift_left shift_right eq lt le pow".split()
INEXACT = ("reduce_sum", "reduce_prod", "fmod")  # ONNX Runtime computes these in double, or lets them saturate


def models():
    """name, text, inputs, whether ONNX must have it, whether ONNX Runtime must run it."""
    rng = np.random.default_rng(7)

    def some(t, *shape, low=None, high=None):
        if t == "bool": return rng.integers(0, 2, shape).astype(bool)
        if t[0] == "f": return rng.normal(size=shape).astype(NUMPY[t])
        info = np.iinfo(NUMPY[t])
        v = rng.integers(info.min if low is None else low, info.max if high is None else high, shape, dtype=NUMPY[t], endpoint=True)
        if low is None and v.size > 4: v.flat[:5] = info.min, info.max, 0, 1, info.max - 1
        return v

    for t in INTS + ("f32", "f16", "bool"):
        out = lambda op, t=t: "bool" if op in ("eq", "lt", "le") else t
        for op in UNARY: yield f"{op}_{t}", f"(%x: {t}[9]) -> ({t}[9]) {{ %r = {op}(%x) return %r }}", {"x": some(t, 9)}, t in INTS, False
        for op in BINARY:
            low, high = (0, 3) if op == "pow" else (0, int(t[1:]) - 1) if "shift" in op and t in INTS else (1, 7)
            y = some(t, 9, low=low, high=high)
            yield f"{op}_{t}", f"(%x: {t}[9], %y: {t}[9]) -> ({out(op)}[9]) {{ %r = {op}(%x, %y) return %r }}", {"x": some(t, 9, low=-9 if t[0] == "i" else 0, high=9) if op == "pow" else some(t, 9), "y": y}, t in INTS, "shift" in op and t in SIGNED
        for op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
            yield f"{op}_{t}", f"(%x: {t}[3, 4]) -> ({t}[3, 1]) {{ %a = const i64[1] {{1}} %r = {op}(%x, %a) return %r }}", {"x": some(t, 3, 4)}, t in INTS, False
        yield f"mat_mul_{t}", f"(%x: {t}[3, 4], %y: {t}[4, 2]) -> ({t}[3, 2]) {{ %r = mat_mul(%x, %y) return %r }}", {"x": some(t, 3, 4), "y": some(t, 4, 2)}, t in INTS, False
        yield f"pad_{t}", f"(%x: {t}[5]) -> ({t}[8]) {{ %p = const i64[2] {{1, 2}} %v = cast(%p) to={t} %i = const i64[] {{1}} %f = gather(%v, %i) %r = pad(%x, %p, %f) return %r }}", {"x": some(t, 5)}, True, t != "f16"
        yield f"cum_sum_{t}", f"(%x: {t}[6]) -> ({t}[6]) {{ %a = const i64[] {{0}} %r = cum_sum(%x, %a) return %r }}", {"x": some(t, 6)}, t in INTS, False
    yield "cast_not_saturated", "(%x: f32[5]) -> (i32[5]) { %r = cast(%x) to=i32 saturate=false return %r }", {"x": some("f32", 5)}, True, True
    for t in SIGNED:  # amounts of every kind: known or not, one or each, beyond the width
        bits = int(t[1:])
        for op in ("shift_left", "shift_right"):
            for by in (0, 1, bits - 1, bits, 64, -1):
                if not np.iinfo(NUMPY[t]).min <= by <= np.iinfo(NUMPY[t]).max: continue
                yield f"{op}_{t}_{by}", f"(%x: {t}[9]) -> ({t}[9]) {{ %s = const {t}[] {{{by}}} %r = {op}(%x, %s) return %r }}", {"x": some(t, 9)}, True, True
            yield f"{op}_{t}_any", f"(%x: {t}[9, 1], %s: {t}[9]) -> ({t}[9, 9]) {{ %r = {op}(%x, %s) return %r }}", {"x": some(t, 9, 1), "s": some(t, 9)}, True, True
    packed = '%q = const u8[2, 2, 2] {18, 52, 86, 120, 154, 188, 222, 240} %s = const f32[2, 2] {0.5, -1, 2, 0.25} %l = const f32[2, 2] {0.5, 2, -1, 0.125} '
    yield "unpack", f"(%x: f32[3, 8]) -> (f32[3, 2], f32[2, 8]) {{ {packed}%w = unpack_n_bits(%q, %s, %l) bits=4 zero=8 %t = transpose(%w) perm=[1, 0] %r = mat_mul(%x, %t) return %r, %w }}", {"x": some("f32", 3, 8)}, True, True
    yield "unpack_rows", f"(%i: i64[2]) -> (f32[2, 8]) {{ {packed}%w = unpack_n_bits(%q, %s) bits=4 zero=8 %r = gather(%w, %i) return %r }}", {"i": np.array([1, 0])}, True, True
    yield "unpack_2", "(%q: u8[2, 2, 2], %s: f32[2, 2]) -> (f32[2, 16]) { %r = unpack_n_bits(%q, %s) bits=2 zero=2 return %r }", {"q": some("u8", 2, 2, 2), "s": some("f32", 2, 2)}, True, True
    for z in ("", ", %za", ", %za, %zb"):
        yield f"mat_mul_integer{len(z)}", f"(%a: u8[2, 3, 4], %b: i8[4, 2]) -> (i32[2, 3, 2]) {{ %za = const u8[3] {{1, 200, 7}} %zb = const i8[2] {{-5, 9}} %r = mat_mul_integer(%a, %b{z}) return %r }}", {"a": some("u8", 2, 3, 4), "b": some("i8", 4, 2)}, True, False
        yield f"conv_integer{len(z)}", f"(%a: u8[1, 2, 5, 5], %b: u8[3, 2, 2, 2]) -> (i32[1, 3, 6, 6]) {{ %za = const u8[] {{7}} %zb = const u8[3] {{1, 2, 3}} %r = conv_integer(%a, %b{z}) pads=[1, 1, 1, 1] return %r }}", {"a": some("u8", 1, 2, 5, 5), "b": some("u8", 3, 2, 2, 2)}, True, False


def run(tenon, path, inputs, scratch):
    """Outputs in order as Tenon's interpreter computes them; a text where it does not."""
    given, out = os.path.join(scratch, "in.npz"), os.path.join(scratch, "out.npz")
    np.savez(given, **inputs)
    p = subprocess.run([tenon, "run", path, "--target", "interp", "--inputs", given, "--output", out], capture_output=True, text=True)
    if p.returncode: return p.stderr
    with np.load(out) as z: return [z[k] for k in z]


def same(a, b): return len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b))


def judge_onnx(tenon, name, text, inputs, want, must, runs, scratch, options):
    path = os.path.join(scratch, "m.onnx")
    p = subprocess.run([tenon, "convert", text, "-o", path, *options], capture_output=True, text=True)
    if p.returncode: return None if p.returncode == 4 and not must and "cannot be written as ONNX" in p.stderr else f"not written: {p.stderr}"
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as e:  # the checker's own kinds of error differ by version
        return f"unsound: {e}"
    back = run(tenon, path, inputs, scratch)
    if isinstance(back, str) or not same(want, back): return f"read back: {back}, must be {want}"
    o = ort.SessionOptions()
    o.log_severity_level, o.intra_op_num_threads = 4, 1
    try:
        got = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, inputs)
    except Exception as e:  # it lacks kernels for some types and zero points that ONNX has
        return f"ONNX Runtime: {e}" if runs or "INVALID" in str(e) else None
    if name.startswith(INEXACT): return None
    close = all(np.allclose(a, b, rtol=1e-5, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b) for a, b in zip(want, got))
    return None if close else f"ONNX Runtime: {got}, must be {want}"


def judge_stablehlo(tenon, name, text, inputs, want, scratch):
    path = os.path.join(scratch, "m.mlir")
    p = subprocess.run([tenon, "convert", text, "-o", path], capture_output=True, text=True)
    must = name.startswith(("shift", "unpack", "mat_mul_integer", "conv_integer"))
    if p.returncode: return None if p.returncode == 4 and not must else f"not written as StableHLO: {p.stderr}"
    names = [f"arg{i}" for i in range(len(inputs))]
    back = run(tenon, path, dict(zip(names, inputs.values())), scratch)
    if isinstance(back, str): return f"StableHLO read back: {back}"
    close = len(back) == len(want) and all(np.allclose(a, b, rtol=1e-5, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b) for a, b in zip(want, back))
    return None if close else f"StableHLO read back: {back}, must be {want}"


def main():
    tenon, passed, failed = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, body, inputs, must, runs in models():
            text = os.path.join(scratch, "m.tir")
            with open(text, "w") as f: f.write(f'graph @"main"{body}\n')
            want = run(tenon, text, inputs, scratch)
            if isinstance(want, str): continue  # Tenon's op does not take the type either
            why = judge_onnx(tenon, name, text, inputs, want, must, runs, scratch, [])
            if not why and name.startswith("unpack"): why = judge_onnx(tenon, name, text, inputs, want, must, runs, scratch, ["--exact"])
            if not why: why = judge_stablehlo(tenon, name, text, inputs, want, scratch)
            passed, failed = passed + (not why), failed + bool(why)
            if why: print(f"{name}: {why.strip()}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
