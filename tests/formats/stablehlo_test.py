#!/usr/bin/env python3
"""stablehlo_test.py TENON FOLDER... -- what `tenon convert -o X.mlir` writes, against XLA.

Every FOLDER/NAME/model.onnx that can be written as StableHLO is parsed and verified by jaxlib's MLIR, run by its CPU client on the test's stored inputs,
and compared with the stored outputs; also FOLDER/NAME.onnx with NAME.in.npz and NAME.out.npz.  Needs jax, numpy and onnx; says so and ends with
status 0 where they are absent.
"""
import argparse, collections, glob, os, subprocess, sys, tempfile

try:
    import numpy as np, onnx, jax
    from onnx import numpy_helper
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import xla_client
except ImportError as e:
    print(f"stablehlo: skipped, {e.name} is not installed")
    sys.exit(0)

KNOWN = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}  # its stored output has four digits
jax.config.update("jax_enable_x64", True)


def computed(text, inputs):
    """Parses and verifies the module, then runs it."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        bytecode = mlir.module_to_bytecode(module)
    backend = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    program = backend.compile_and_load(bytecode, devices, xla_client.CompileOptions())
    out = program.execute_sharded([jax.device_put(x) for x in inputs]).disassemble_into_single_device_arrays()
    return [np.asarray(x[0]) for x in out]


def stored(folder, kind):
    out = []
    while os.path.exists(path := os.path.join(folder, f"{kind}_{len(out)}.pb")):
        t = onnx.TensorProto()
        t.ParseFromString(open(path, "rb").read())
        out.append(numpy_helper.to_array(t))
    return out


def cases(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*", "model.onnx"))):
        data = os.path.join(os.path.dirname(path), "test_data_set_0")
        yield os.path.basename(os.path.dirname(path)), path, lambda d=data: (stored(d, "input"), stored(d, "output"))
    for path in sorted(glob.glob(os.path.join(folder, "*.in.npz"))):
        base = path[: -len(".in.npz")]
        model = onnx.load(base + ".onnx", load_external_data=False).graph
        constants = {t.name for t in model.initializer}
        load = lambda b=base, m=model: ([np.load(b + ".in.npz")[i.name] for i in m.input if i.name not in constants], [np.load(b + ".out.npz")[o.name] for o in m.output])
        yield os.path.basename(base), base + ".onnx", load


def verdict(tenon, path, load, scratch):
    out = os.path.join(scratch, "m.mlir")
    p = subprocess.run([tenon, "convert", path, "-o", out], capture_output=True, text=True)
    if p.returncode: return ("refused" if p.returncode == 4 else "failed"), p.stderr.strip()
    try:
        inputs, want = load()
    except Exception:
        return "converted", ""
    try:
        got = computed(open(out).read(), inputs)
    except Exception as e:
        return "not run", str(e)[:400]
    for g, w in zip(got, want):
        if g.shape != w.shape or g.dtype != w.dtype: return "wrong", f"{g.dtype}{g.shape}, not {w.dtype}{w.shape}"
        a, b = g.astype(np.complex128 if g.dtype.kind == "c" else np.float64), w.astype(np.complex128 if g.dtype.kind == "c" else np.float64)
        size = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1)
        if not np.allclose(a, b, rtol=1e-2 if g.dtype.itemsize < 4 else 1e-4, atol=1e-5 * size, equal_nan=True): return "wrong", "other values"
    return "same", ""


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tenon")
    a.add_argument("folders", nargs="+")
    a.add_argument("--filter", default="")
    a.add_argument("--verbose", action="store_true")
    a = a.parse_args()
    count = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for folder in a.folders:
            for name, path, load in cases(folder):
                if a.filter not in name or name in KNOWN: continue
                v, why = verdict(a.tenon, path, load, scratch)
                count[v] += 1
                if v in ("failed", "not run", "wrong") or (a.verbose and v == "refused"): print(f"{name}: {v}: {why}", flush=True)
    print("stablehlo: " + ", ".join(f"{n} {v}" for v, n in count.most_common()))
    return 1 if count["failed"] + count["not run"] + count["wrong"] or not count["same"] else 0


sys.exit(main())
