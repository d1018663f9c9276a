#!/usr/bin/env python3
"""convert_test.py -- what `tenon convert` writes, against ONNX's checker, ONNX Runtime and Tenon itself.

    convert_test.py TENON FOLDER...   every FOLDER/NAME/model.onnx with its test_data_set_0: converted, checked, read back

A converted model must be sound (onnx.checker, with full shape inference where the original passes it), Tenon must compute the stored outputs from
it, and ONNX Runtime must compute from it what it computes from the original, where it runs that.  Needs onnx, onnxruntime and numpy; says so
and ends with status 0 where they are absent.
"""
import argparse, collections, os, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np, onnx, onnxruntime as ort
    from onnx import numpy_helper
except ImportError as e:
    print(f"convert: skipped, {e.name} is not installed")
    sys.exit(0)

AT_LEAST = 0.95  # of the models that Tenon reads
# ONNX asks for an output's rank, which a loop that changes it does not have; and of an optional, that its loop says so twice.
KNOWN = {"test_loop11", "test_loop16_seq_none"}


def sound(path):
    """None, or why the checker refuses."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as e:  # the checker's own kinds of error differ by version
        return str(e).strip().splitlines()[0]
    return None


def runtime(path, feeds):
    """Outputs, or None where ONNX Runtime does not run the model."""
    o = ort.SessionOptions()
    o.log_severity_level, o.intra_op_num_threads = 4, 1
    try:
        s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        return s.run(None, {i.name: v for i, v in zip(s.get_inputs(), feeds)})
    except Exception:
        return None


def same(a, b):
    if isinstance(a, list) or isinstance(b, list):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if a is None or b is None or isinstance(a, dict): return a == b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape: return False
    if a.dtype.kind in "fc": return np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
    return np.array_equal(a, b)


def tensors(folder):
    """The stored inputs, or None where one is no tensor."""
    out = []
    while True:
        path = os.path.join(folder, f"input_{len(out)}.pb")
        if not os.path.exists(path): return out
        t = onnx.TensorProto()
        try:
            t.ParseFromString(open(path, "rb").read())
            out.append(numpy_helper.to_array(t))
        except Exception:
            return None


def convert(tenon, name, model, scratch, options):
    """(verdict, why); a converted model lies in scratch/NAME with the test's data beside it, for `tenon conform`."""
    folder = os.path.join(scratch, name)
    os.makedirs(folder)
    path = os.path.join(folder, "model.onnx")
    p = subprocess.run([tenon, "convert", model, "-o", path, *options], capture_output=True, text=True)
    if p.returncode: return ("refused" if p.returncode == 4 else "failed"), p.stderr.strip()
    for entry in os.listdir(os.path.dirname(model)):
        if entry.startswith("test_data_set_"): os.symlink(os.path.abspath(os.path.join(os.path.dirname(model), entry)), os.path.join(folder, entry))
    why = sound(path)
    if why and not sound(model): return "unsound", why
    data = os.path.join(folder, "test_data_set_0")
    feeds = tensors(data) if os.path.exists(data) else None
    if feeds is None: return "converted", ""
    was = runtime(model, feeds)
    if was is None: return "converted", ""
    now = runtime(path, feeds)
    if now is None: return "not run", "ONNX Runtime runs the original, but not what was written"
    return ("converted", "") if same(was, now) else ("other", "ONNX Runtime computes something else")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tenon")
    a.add_argument("folders", nargs="+")
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--verbose", action="store_true")
    a.add_argument("--optimised", action="store_true")
    a = a.parse_args()
    models = sorted((name, os.path.join(f, name, "model.onnx")) for f in a.folders for name in os.listdir(f)
                    if os.path.exists(os.path.join(f, name, "model.onnx")))
    options = ["--optimised"] if a.optimised else []
    with tempfile.TemporaryDirectory() as scratch:
        with ThreadPoolExecutor(a.jobs) as pool:
            results = list(pool.map(lambda m: convert(a.tenon, m[0], m[1], scratch, options), models))
        p = subprocess.run([a.tenon, "conform", scratch, "--jobs", str(a.jobs)], capture_output=True, text=True)
    results = [("known", "") if m[0] in KNOWN and r[0] == "unsound" else r for m, r in zip(models, results)]
    count = collections.Counter(r[0] for r in results)
    for (name, _), (verdict, why) in zip(models, results):
        if verdict in ("failed", "unsound", "other", "not run") or (a.verbose and verdict == "refused"):
            print(f"{name}: {verdict}: {why}")
    wrong = [l for l in p.stdout.splitlines() if l.startswith(("wrong:", "crashed:")) and l.split(":")[1].strip() not in KNOWN]
    print("\n".join(wrong + p.stdout.strip().splitlines()[-1:]))
    print("convert: " + ", ".join(f"{n} {v}" for v, n in count.most_common()))
    good = count["converted"] / max(len(models), 1)
    bad = count["failed"] + count["unsound"] + count["other"] + count["not run"] + len(wrong) > 0
    return 1 if bad or good < AT_LEAST else 0


sys.exit(main())
