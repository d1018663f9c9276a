#!/usr/bin/env python3
"""models_test.py -- whole models: what `tenon run` gives against stored references and ONNX Runtime.

usage: models_test.py models DIR            every .onnx below DIR; stored references, else ONNX Runtime's
       models_test.py nets DIR [NAME...]    networks that `make nets` filled: NAME.onnx, NAME.in.npz, NAME.out.npz
       models_test.py inspect DIR           every *.dyn.onnx of DIR: every shape in the graph in the inputs' own symbols,
                                            fast, weights untouched
       models_test.py layout DIR            every .onnx of DIR: convolutions channels last, the input alone converted, no
                                            more kernels than without

An output is right when its dtype and shape are equal and no element is further from the reference than 1e-4 of the largest.
Then the model's text form is read back: it must print the same text, and give the same bits on another number of threads.  And
the optimised model (--target plan) must be as right.
Needs numpy, and onnx and onnxruntime for `models`.  TENON is the program (build/tenon).
"""
import glob, json, os, re, shutil, subprocess, sys, tempfile, time, wave
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON") or os.path.join(ROOT, "build", "tenon")
BOUND = 1e-4
INSPECT_SECONDS_MAX, INSPECT_MB_MAX = 0.3, 100
# The stored output came from an optimised integer run, up to two quanta off: the same best class, within 5e-2.
QUANTISED = {"mobilenet_v2_qdq_onnx": 5e-2}
# Read only: the pre- and post-processing need operators of another domain.
UNSUPPORTED = {"pytorch_superresolution_with_pre_post_processing_opset18.onnx": "com.microsoft.extensions"}
count = {"passed": 0, "failed": 0}


def report(ok, name, text):
    count["passed" if ok else "failed"] += 1
    print(f"{'ok  ' if ok else 'FAIL'} {name:44} {text}", flush=True)


def run(model, feeds, *options):
    """Outputs in order, seconds, message; feeds is a list of (name or position, array)."""
    with tempfile.TemporaryDirectory() as tmp:
        args, out = [], os.path.join(tmp, "out.npz")
        for i, (name, value) in enumerate(feeds):
            path = os.path.join(tmp, f"in{i}.npy")
            np.save(path, value)
            args += ["--input", f"{name}={path}"]
        start = time.monotonic()
        if "--target" not in options: options += ("--target", "interp")
        p = subprocess.run([TENON, "run", model, *args, "--output", out, *options], capture_output=True, text=True, timeout=600)
        seconds = time.monotonic() - start
        if p.returncode: return None, seconds, (p.stderr or p.stdout).strip()[-400:]
        with np.load(out) as z: return {k: z[k] for k in z.files}, seconds, ""


def text_of(model):
    return subprocess.run([TENON, "inspect", "--text", model], capture_output=True, timeout=600).stdout


def check_text(label, model, feeds, got, beside):
    """The text form looks for the weights beside itself: it is written beside the model, or beside a copy of it."""
    with tempfile.TemporaryDirectory() as tmp:
        if not beside: shutil.copy(model, tmp)
        path = os.path.join(os.path.dirname(model) if beside else tmp, os.path.basename(model) + ".tir")
        text = text_of(model)
        try:
            open(path, "wb").write(text)
            again = text_of(path)
            values, _, message = run(path, feeds, "--threads", "3")
        finally:
            os.remove(path)
    label += " (text form)"
    if not text or again != text: report(False, label, "it prints another text")
    elif values is None: report(False, label, message)
    elif list(values) != list(got): report(False, label, "other outputs")
    else:
        differ = [k for k in got if values[k].dtype != got[k].dtype or values[k].tobytes() != got[k].tobytes()]
        report(not differ, label, f"other bits: {', '.join(differ)}" if differ else f"{len(text)} bytes, the same bits on 3 threads")


def compare(got, want, bound):
    """A sentence when they differ."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, the reference is {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "fc": return None if np.array_equal(got, want) else "differs"
    if not want.size: return None
    if not np.array_equal(np.isnan(got), np.isnan(want)): return "NaN in other places"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]): return "infinities differ"
    if not finite.any(): return None
    error = np.abs(got[finite].astype(np.float64) - want[finite].astype(np.float64)).max()
    largest = np.abs(want[finite].astype(np.float64)).max()
    return f"off by {error:.3g}, the largest is {largest:.3g}" if error > bound * max(largest, 1e-30) else None


def check_run(label, model, feeds, wants, bound=BOUND, beside=False):
    got = check_outputs(label, model, feeds, wants, bound)
    if got is not None: check_text(label, model, feeds, got, beside)
    check_outputs(label + " (optimised)", model, feeds, wants, bound, "--target", "plan")
    if os.path.exists(os.path.join(os.path.dirname(TENON), "tenon-codegen")):
        check_outputs(label + " (compiled)", model, feeds, wants, bound, "--target", "cpu")


def check_outputs(label, model, feeds, wants, bound, *options):
    """Runs, compares and reports; the outputs when they are right."""
    got, seconds, message = run(model, feeds, *options)
    if got is None: return report(False, label, message)
    values = list(got.values())
    if isinstance(wants, dict): pairs = [(k, got.get(k), v) for k, v in wants.items()]
    else: pairs = [(str(i), values[i] if i < len(values) else None, v) for i, v in enumerate(wants)]
    for name, value, want in pairs:
        why = "is missing" if value is None else compare(value, want, bound)
        if why: return report(False, label, f"output {name}: {why}")
        if bound != BOUND and value.argmax() != want.argmax(): return report(False, label, f"output {name}: another best class")
    report(True, label, f"{len(pairs)} outputs, {seconds:.1f} s")
    return got


def stored_references(folder):
    """(set name, inputs, outputs) beside a model: test_data_set_N/*.pb, or input_N.npy and output_N.npy."""
    import onnx
    from onnx import numpy_helper

    def pb(path):
        t = onnx.TensorProto()
        t.ParseFromString(open(path, "rb").read())
        return numpy_helper.to_array(t)

    by_number = lambda p: int(re.search(r"(\d+)\.\w+$", p)[1])
    for d in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        ins = [pb(p) for p in sorted(glob.glob(os.path.join(d, "input_*.pb")), key=by_number)]
        yield os.path.basename(d), ins, [pb(p) for p in sorted(glob.glob(os.path.join(d, "output_*.pb")), key=by_number)]
    ins = sorted(glob.glob(os.path.join(folder, "input_*.npy")), key=by_number)
    outs = sorted(glob.glob(os.path.join(folder, "output_*.npy")), key=by_number)
    if ins: yield "npy", [np.load(p) for p in ins], [np.load(p) for p in outs]


def speech(path):
    """Twenty pieces of a recording, for the voice detector: on noise its answer is so near 0 that only rounding would show."""
    with wave.open(path) as w: x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
    return {"input": np.stack([x[k:k + 576] for k in range(0, 160000, 8000)]), "state": np.zeros([2, 20, 128], np.float32),
            "sr": np.array(16000, np.int64)}


def runtime_reference(path):
    """Inputs and ONNX Runtime's outputs for them; None when it cannot run the model."""
    import onnxruntime as ort
    ort.set_default_logger_severity(3)
    try:
        s = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        return None
    wav, rng = os.path.join(os.path.dirname(path), "test.wav"), np.random.default_rng(7)
    if os.path.exists(wav): feed = speech(wav)
    else: feed = {i.name: rng.standard_normal([d if isinstance(d, int) else 1 for d in i.shape]).astype(np.float32)
                  for i in s.get_inputs()}
    return feed, dict(zip([o.name for o in s.get_outputs()], s.run(None, feed)))


def test_models(top):
    for path in sorted(glob.glob(os.path.join(top, "**", "*.onnx"), recursive=True)):
        folder, name = os.path.dirname(path), os.path.relpath(path, top)
        if os.path.basename(path) in UNSUPPORTED:
            p = subprocess.run([TENON, "verify", path], capture_output=True, text=True)
            want = UNSUPPORTED[os.path.basename(path)]
            report(p.returncode == 4 and want in p.stdout + p.stderr, name, f"refused by name, exit status {p.returncode}")
            continue
        found = list(stored_references(folder)) if os.path.basename(path) == "model.onnx" else []
        for label, ins, outs in found:
            bound = QUANTISED.get(os.path.basename(folder), BOUND)
            check_run(f"{name} {label}", path, list(enumerate(ins)), outs, bound)
        if not found:
            reference = runtime_reference(path)
            if reference is None: report(False, name, "ONNX Runtime cannot run it, and there is no stored reference")
            else: check_run(name, path, list(reference[0].items()), reference[1])


def test_nets(folder, names):
    names = names or sorted(os.path.basename(p)[:-5] for p in glob.glob(os.path.join(folder, "*.onnx")))
    for name in names:
        base = os.path.join(folder, name)
        with np.load(base + ".in.npz") as i, np.load(base + ".out.npz") as o:
            check_run(name, base + ".onnx", [(k, i[k]) for k in i.files], {k: o[k] for k in o.files}, beside=True)


def symbols_of(text):
    return set(re.findall(r"[A-Za-z_][\w.]*", text)) - {"floor", "ceil", "mod", "min", "max", "bcast"}


def shape_symbols(values):
    return set().union(*(symbols_of(d) for v in values for d in v["shape"] if isinstance(d, str)))


def test_inspect(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.dyn.onnx"))):
        name, times = os.path.basename(path), []
        for _ in range(3):  # the fastest of three: the machine may be busy
            start = time.monotonic()
            p = subprocess.run([TENON, "inspect", path, "--ops", "--json"], capture_output=True, text=True)
            times.append(time.monotonic() - start)
        usage = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=-3); "
                                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", TENON, "inspect", path],
                               capture_output=True, text=True)
        megabytes = int(usage.stdout) / 1024
        if p.returncode:
            report(False, name, p.stderr.strip()[-400:])
            continue
        j = json.loads(p.stdout)
        given = shape_symbols(j["inputs"])
        bad = [f"output {o['name']} {o['shape']}" for o in j["outputs"] if shape_symbols([o]) - given]
        types = [(n["name"], t) for n in j["nodes"] for t in re.findall(r"\[([^\]]*)\]", n["type"])]
        bad += [f"{n} [{t}]" for n, t in types if "?" in t or symbols_of(t) - given]
        if j["nodes_of_unknown_size"]: bad.append(f"{j['nodes_of_unknown_size']} nodes of unknown size")
        shapes = "; ".join(f"{o['name']} {o['shape']}" for o in j["outputs"])
        ok = not bad and types and min(times) <= INSPECT_SECONDS_MAX and megabytes <= INSPECT_MB_MAX
        report(ok, name, f"{shapes}, {len(types)} shapes, {min(times):.3f} s, {megabytes:.0f} MB"
               + (f"; not of the inputs: {bad[:5]}" if bad else ""))


def optimised(path, *options):
    p = subprocess.run([TENON, "inspect", path, "--optimised", *options], capture_output=True, text=True)
    return p.stdout if p.returncode == 0 else sys.exit(p.stderr)


def test_layout(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.onnx"))):
        here, there = (json.loads(optimised(path, "--json", *o)) for o in ([], ["--disable=choose-layout"]))
        convs = re.findall(r" = conv\(.*", optimised(path, "--text"))
        first = [c for c in convs if "channels_last=true" not in c]
        ok = here["kernels"] <= there["kernels"] and here["conversions"] == (len(convs) > 0) and not first
        report(ok, os.path.basename(path), f"{len(convs)} convolutions, {len(first)} channels first, {here['conversions']} "
               f"conversions, {here['kernels']} kernels, {there['kernels']} without layout")


def main():
    kind, args = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 2 else sys.exit(__doc__)
    if kind == "models": test_models(args[0])
    elif kind == "nets": test_nets(args[0], args[1:])
    elif kind == "inspect": test_inspect(args[0])
    elif kind == "layout": test_layout(args[0])
    else: sys.exit(__doc__)
    print(f"{count['passed']} passed, {count['failed']} failed")
    sys.exit(count["failed"] > 0)


main()
