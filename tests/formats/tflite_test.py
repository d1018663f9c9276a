#!/usr/bin/env python3
"""tflite_test.py [PROGRAM] [--record ARCHIVE] [NAME...] -- TensorFlow Lite models: stored results, and LiteRT's own interpreter.

The models of TENON_DATA (../shared/data) are run in the interpreter and compiled; results that are stored with a model
must come out exactly.  Where ai-edge-litert can be imported the same models, and one small model for each operator below,
are compared with it: floats within a few roundings, integers within one quantum.  With names only cases that hold one of them.
--record writes the models of single operators, with LiteRT's results, for recorded.py.  Needs numpy.
"""
import glob, os, subprocess, sys, tempfile
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded

ARGS = sys.argv[1:]
RECORD = ARGS.pop(ARGS.index("--record") + 1) if "--record" in ARGS else None
if RECORD: ARGS.remove("--record")
TENON = ARGS[0] if ARGS else os.path.join(ROOT, "build", "tenon")
WANTED = ARGS[1:]
DATA = os.environ.get("TENON_DATA", os.path.join(ROOT, "..", "shared", "data"))
MODELS = os.path.join(DATA, "models")
TARGETS = ["interp", "cpu"]
count = {"passed": 0, "failed": 0}
try:
    from ai_edge_litert import interpreter as litert, schema_py_generated as schema
    import flatbuffers
except ImportError:
    litert = None


def report(ok, text):
    count["passed" if ok else "failed"] += 1
    if not ok: print("FAIL", text, flush=True)


def wanted(name): return not WANTED or any(w in name for w in WANTED)


def run(model, inputs, target):
    """The outputs in order, or the message."""
    with tempfile.TemporaryDirectory() as tmp:
        args = []
        for i, a in enumerate(inputs):
            np.save(f"{tmp}/{i}.npy", a)
            args += ["--input", f"{i}={tmp}/{i}.npy"]
        p = subprocess.run([TENON, "run", model, *args, "--target", target, "--output", f"{tmp}/out.npz"], capture_output=True, text=True)
        if p.returncode: return p.stderr.strip() or f"status {p.returncode}"
        with np.load(f"{tmp}/out.npz") as z: return [z[k] for k in z.files]


# ---- stored results ----

def csv(path, dtype): return np.array([float(v) for v in open(path).read().replace("\n", ",").split(",") if v.strip()]).astype(dtype)


def first_input_shapes(model):
    """Shapes of the inputs, from `tenon inspect`."""
    import json
    p = subprocess.run([TENON, "inspect", "--json", model], capture_output=True, text=True)
    return [(i["dtype"], [d if isinstance(d, int) else 1 for d in i["shape"]]) for i in json.loads(p.stdout)["inputs"]] if not p.returncode else p.stderr.strip()


def check_exact(name, model, inputs, want):
    for target in TARGETS:
        got = run(model, inputs, target)
        ok = not isinstance(got, str) and all(np.array_equal(g.ravel(), w.ravel()) for g, w in zip(got, want)) and len(got) >= len(want)
        report(ok, f"{name} ({target}): {got if isinstance(got, str) else 'another result'}")


NUMPY = {"f32": np.float32, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def stored():
    for model in sorted(glob.glob(f"{MODELS}/tflm/seanet/*/*.tflite")):
        base = model[:-7]
        if not wanted(base): continue
        inputs = sorted(glob.glob(f"{base}_input*.csv"))
        golden = sorted(glob.glob(f"{base}_golden_*.csv"))
        shapes = first_input_shapes(model)
        if isinstance(shapes, str) or not golden:
            report(False, f"{base}: {shapes}")
            continue
        arrays = [csv(f, NUMPY[t]).reshape(s) for f, (t, s) in zip(inputs, shapes)]
        check_exact(os.path.basename(base), model, arrays, [csv(g, np.int64) for g in golden])
    dtln = f"{MODELS}/tflm/dtln/"
    if os.path.exists(dtln) and wanted("tflm/dtln"):
        x = np.fromfile(dtln + "feature_data.int8_t.raw", np.int8).reshape(1, 1, 257)
        check_exact("tflm/dtln", dtln + "dtln_noise_suppression.tflite", [x], [np.fromfile(dtln + "golden_ref.int8_t.raw", np.int8)])
    person = f"{MODELS}/tflm/person_detect/"
    for image, is_person in (("person", True), ("no_person", False)) if os.path.exists(person) and wanted("person_detect") else ():
        raw = open(f"{person}{image}.bmp", "rb").read()
        x = np.frombuffer(raw[int.from_bytes(raw[10:14], "little"):], np.int8)[:96 * 96].reshape(1, 96, 96, 1)[:, ::-1]  # stored from below
        for target in TARGETS:
            got = run(person + "person_detect.tflite", [x], target)
            ok = not isinstance(got, str) and (got[0].ravel()[1] > got[0].ravel()[0]) == is_person
            report(ok, f"person_detect of {image} ({target}): {got}")


# ---- the same network in another format ----

def twins():
    rng = np.random.default_rng(9)
    face = f"{MODELS}/ultra_light_face/version-RFB-320_without_postprocessing"
    pairs = [(f"{MODELS}/dtln/model_1", [(1, 1, 257), (1, 2, 128, 2)]), (f"{MODELS}/dtln/model_2", [(1, 1, 512), (1, 2, 128, 2)]), (face, [(1, 240, 320, 3)])]
    for base, shapes in pairs:
        if not os.path.exists(base + ".onnx") or not wanted(base): continue
        inputs = [rng.random(s).astype("f4") for s in shapes]
        want = run(base + ".onnx", [a.transpose(0, 3, 1, 2) for a in inputs] if base == face else inputs, "interp")
        for target in TARGETS:
            got = run(base + ".tflite", inputs, target)
            if base == face and not isinstance(got, str): got = got[::-1]  # boxes, then scores
            ok = not isinstance(got, str) and not isinstance(want, str) and all(g.shape == w.shape and np.abs(g - w).max() <= 1e-3 for g, w in zip(got, want))
            report(ok, f"{os.path.basename(base)} and its ONNX ({target}): {got if isinstance(got, str) else [float(np.abs(g - w).max()) if g.shape == w.shape else (g.shape, w.shape) for g, w in zip(got, want)]}")


# ---- against LiteRT ----

def reference(model, inputs, kernels):
    it = litert.Interpreter(model_path=model, experimental_op_resolver_type=kernels)
    for d, a in zip(it.get_input_details(), inputs):
        if list(d["shape"]) != list(a.shape): it.resize_tensor_input(d["index"], a.shape)
    it.allocate_tensors()
    for d, a in zip(it.get_input_details(), inputs): it.set_tensor(d["index"], a)
    it.invoke()
    return [it.get_tensor(d["index"]) for d in it.get_output_details()]


def random_inputs(model):
    rng = np.random.default_rng(5)
    it = litert.Interpreter(model_path=model)
    out = []
    for d in it.get_input_details():
        t, shape = d["dtype"], d["shape"]
        if np.issubdtype(t, np.floating): out.append(rng.normal(size=shape).astype(t))
        else: out.append(rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape).astype(t))
    return out


def close(got, want):
    if got.shape != want.shape or got.dtype != want.dtype: return f"{got.dtype}{list(got.shape)}, must be {want.dtype}{list(want.shape)}"
    if got.dtype.kind in "iub":
        d = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        limit = 1 if got.dtype.itemsize <= 2 and got.dtype.kind != "b" else 0
        return None if d <= limit else f"differs by {d}"
    scale = np.abs(np.where(np.isfinite(want), want, 0)).max(initial=0)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= 1e-5 * scale + 1e-5 * np.abs(want) + 1e-7)
    return None if same.all() else f"differs by {np.nanmax(np.abs(got - want))} of {scale}"


def compare(name, model, inputs, kernels, want=None, recorder=None):
    try: want = want or reference(model, inputs, kernels)
    except Exception as e:
        report(False, f"{name}: LiteRT: {str(e).splitlines()[0]}")
        return
    if recorder:  # within the limits of close()
        narrow = any(w.dtype.kind in "iu" and w.dtype.itemsize <= 2 for w in want)
        recorder.add(name, open(model, "rb").read(), ".tflite", inputs, want, (1, 0, 0) if narrow else (1e-7, 1e-5, 1e-5) if any(w.dtype.kind == "f" for w in want) else (0, 0, 0))
    for target in TARGETS:
        got = run(model, inputs, target)
        if isinstance(got, str): report(False, f"{name} ({target}): {got}")
        elif len(got) < len(want): report(False, f"{name} ({target}): {len(got)} outputs of {len(want)}")
        else:
            why = [w for w in map(close, got, want) if w]
            report(not why, f"{name} ({target}): {why}")


def models():
    for model in sorted(glob.glob(f"{MODELS}/**/*.tflite", recursive=True)):
        name = os.path.relpath(model, MODELS)
        # Models with stored results; those of custom operators; those that LiteRT refuses (person_detect) or crashes on.
        if any(k in name for k in ("seanet", "tflm/dtln", "audio_preprocessor", "person_detect", "keyword_scrambled")) or not wanted(name): continue
        compare(name, model, random_inputs(model), litert.OpResolverType.BUILTIN_REF)


def operators():
    import tflite_ops
    recorder = recorded.Recorder() if RECORD else None
    with tempfile.TemporaryDirectory() as tmp:
        for name, (data, inputs, *want) in tflite_ops.cases():
            if not wanted(name): continue
            path = os.path.join(tmp, "model.tflite")
            open(path, "wb").write(data)
            # The reference kernels lack some operators; for floats the others are as good.
            compare(name, path, inputs, litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, *want, recorder=recorder)
    if RECORD: recorder.save(RECORD)


def states():
    """A variable is an input where it is given, and its next value an output."""
    import tflite_ops
    with tempfile.TemporaryDirectory() as tmp:
        data, inputs = dict(tflite_ops.control())["variables"]
        open(f"{tmp}/m.tflite", "wb").write(data)
        now = np.array([10, 20, 30], "f4")
        np.save(f"{tmp}/x.npy", inputs[0])
        np.save(f"{tmp}/now.npy", now)
        for target in TARGETS:
            p = subprocess.run([TENON, "run", f"{tmp}/m.tflite", "--input", f"0={tmp}/x.npy", "--input", f"counter={tmp}/now.npy",
                                "--target", target, "--output", f"{tmp}/out.npz"], capture_output=True, text=True)
            got = dict(np.load(f"{tmp}/out.npz")) if not p.returncode else {}
            report("counter" in got and np.array_equal(got["counter"], now + inputs[0]), f"a variable ({target}): {p.stderr.strip() or got}")


stored()
twins()
if litert:
    models()
    operators()
    if wanted("variables"): states()
else:
    print("ai-edge-litert cannot be imported: stored results alone")
print(f"{count['passed']} passed, {count['failed']} failed")
sys.exit(count["failed"] != 0)
