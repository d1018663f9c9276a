#!/usr/bin/env python3
"""quantize_test.py [PROGRAM] -- `tenon quantize` and `tenon verify --certificate` on the digits model: results, replay, bad input, same bits.

Samples are the example's pictures with noise, from a seed.  Needs numpy; with onnx and onnxruntime also what ONNX Runtime makes of the
quantised model, and its integer part by itself on every target.  The last line is `N passed, N failed`.
"""
import hashlib, json, os, resource, shutil, signal, subprocess, sys, tempfile, time
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tenon"))
DIGITS = os.path.join(ROOT, "examples", "digits", "digits.onnx")
count = {"passed": 0, "failed": 0}


def check(what, good, more=""):
    count["passed" if good else "failed"] += 1
    if not good: print(f"FAIL {what} {more}")


def run(*args, env=None):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})


def expect(what, args, status, says="", absent=None):
    r = run(*args)
    text = r.stdout + r.stderr
    check(what, r.returncode == status and says in text, f"status {r.returncode}, {text[-400:]}")
    if absent: check(what + ": nothing is written", not os.path.exists(absent) and not os.path.exists(absent + ".certificate.json"))
    return r


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    shown = np.load(os.path.join(ROOT, "examples", "digits", "digits.npy"))
    noise = rng.normal(0, 2, (n, 8, 8))
    return np.clip(shown[rng.integers(0, len(shown), n)] + noise, 0, 16).astype(np.float32)


def read(path):
    with open(path, "rb") as f: return f.read()


def write(path, data):
    with open(path, "wb") as f: f.write(data)


QUANTIZE = ["quantize", DIGITS, "--allow-slower", "--force"]


def results():
    expect("int8", [*QUANTIZE, "--data", "d.npz", "-o", "q.onnx"], 0, "2 of 2 contractions quantised")
    check("smaller", os.path.getsize("q.onnx") < 0.6 * os.path.getsize(DIGITS))
    c = json.load(open("q.onnx.certificate.json"))
    check("certificate", c["metric"] == "agreement" and c["split"] == {"calibrate": 600, "search": 450, "certify": 450}, c)
    check("value and bound", 0.97 < c["bound"] < c["value"] <= 1, c)
    expect("replay", ["verify", "q.onnx", "--certificate", "q.onnx.certificate.json", "--data", "d.npz"], 0, "as certified")
    first = read("q.onnx")
    order = np.random.default_rng(1).permutation(len(X))
    np.savez("shuffled.npz", image=np.concatenate([X[order], X[:7]]))
    expect("another order", [*QUANTIZE, "--data", "shuffled.npz", "-o", "q.onnx", "-j", "1"], 0, "7 duplicates")
    check("another order: the same bytes", read("q.onnx") == first)
    check("looks", json.load(open("q.onnx.certificate.json"))["looks"] == 2)
    os.mkdir("folder")
    for i in range(len(X)): np.savez(f"folder/{i}.npz", image=X[i : i + 1])
    expect("a folder", ["quantise", *QUANTIZE[1:], "--data", "folder", "-o", "f.onnx"], 0)
    check("a folder: the same bytes", read("f.onnx") == first)
    for method in "minmax", "percentile", "entropy":
        expect(method, [*QUANTIZE, "--data", "d.npz", "-o", "m.onnx", "--method", method], 0)
    expect("w8", [*QUANTIZE, "--to", "w8", "-o", "w8.onnx"], 0, "2 of 2")
    expect("keep", [*QUANTIZE, "--data", "d.npz", "--keep", "log*", "-o", "k.onnx"], 0, "logits stays in f32 by --keep")
    np.savez("l.npz", image=X, digit=np.arange(len(X)) % 10)
    expect("labels", [*QUANTIZE, "--data", "l.npz", "--labels", "digit", "--metric", "accuracy", "-o", "l.onnx"], 0, "accuracy")
    for metric in "rms", "cosine", "kl":
        expect(metric, [*QUANTIZE, "--data", "d.npz", "--metric", metric, "-o", "m.onnx"], 0, metric)
        expect(metric + " again", ["verify", "m.onnx", "--certificate", "m.onnx.certificate.json", "--data", "d.npz"], 0)
    expect("budget", [*QUANTIZE, "--data", "d.npz", "--budget", "agreement>=99%", "-o", "b.onnx"], 0)


def choices():
    """Every choice of choices.def: written, replayed, and the same numbers in ONNX Runtime."""
    try: import onnxruntime
    except ImportError: onnxruntime = None
    for to, most, size in (("int8-dynamic", 4, 0.55), ("w8", 3, 0.55), ("w4", 20, 0.5), ("f16", 0.3, 0.7), ("bf16", 2, 0.7)):
        name = f"{to}.onnx"
        expect(to, [*QUANTIZE, "--data", "d.npz", "--to", to, "--metric", "rms", "-o", name], 0, "2 of 2")
        c = json.load(open(name + ".certificate.json"))
        check(f"{to}: error", 0 < 100 * c["value"] < most, c["value"])
        check(f"{to}: size", os.path.getsize(name) < size * os.path.getsize(DIGITS), os.path.getsize(name))
        check(f"{to}: layers", {l["choice"] for l in c["layers"]} == {to}, c["layers"])
        expect(f"{to}: replay", ["verify", name, "--certificate", name + ".certificate.json", "--data", "d.npz"], 0)
        if not onnxruntime or to == "bf16": continue  # which it has no kernels for on CPUs
        theirs = onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"]).run(None, {"image": X[:1]})[0]
        np.savez("one.npz", image=X[:1])
        run("run", name, "--inputs", "one.npz", "--output", "one-out.npz", "--force")
        check(f"{to}: as ONNX Runtime's", np.abs(np.load("one-out.npz")["probability"] - theirs).max() < 2e-3)
    value = lambda f: json.load(open(f + ".certificate.json"))["value"]
    for block in 16, 128:
        expect(f"w4 block {block}", [*QUANTIZE, "--data", "d.npz", "--to", "w4", "--block", str(block), "--metric", "rms", "-o", "block.onnx"], 0, "2 of 2")
    expect("rtn", [*QUANTIZE, "--data", "d.npz", "--to", "w4", "--method", "rtn", "--metric", "rms", "-o", "rtn.onnx"], 0, "2 of 2")
    check("gptq is nearer than rtn", value("w4.onnx") < value("rtn.onnx"), (value("w4.onnx"), value("rtn.onnx")))
    for to in "w4", "int8-dynamic", "f16":
        expect(f"{to} without samples", [*QUANTIZE, "--to", to, "-o", "free.onnx"], 0, "2 of 2")
    expect("gptq without samples", [*QUANTIZE, "--to", "w4", "--method", "gptq", "-o", "none.onnx"], 2, "gptq needs samples", "none.onnx")
    expect("a method of ranges", [*QUANTIZE, "--to", "w4", "--method", "mse", "-o", "none.onnx"], 2, "no method 'mse'", "none.onnx")
    expect("a block", [*QUANTIZE, "--to", "w4", "--block", "48", "-o", "none.onnx"], 2, "blocks of 48", "none.onnx")


def spoiled(onnx, kind):
    """The digits model with channels of very different magnitude: the same function in floats, since factors are powers of two."""
    model, rng = onnx.load(DIGITS), np.random.default_rng(0)
    held = {i.name: i for i in model.graph.initializer}
    get = lambda name: onnx.numpy_helper.to_array(held[name])
    put = lambda name, v: held[name].CopyFrom(onnx.numpy_helper.from_array(v.astype(np.float32), name))
    relu = next(n for n in model.graph.node if n.op_type == "Relu")
    if kind == "layers":  # the hidden layer's, undone by the weights behind
        k = 2.0 ** rng.integers(-8, 9, 32)
        for name in "w1", "b1": put(name, get(name) * k)
    else:  # outliers behind an activation that does not scale, made by a product or by a norm's gain
        k = np.where(np.arange(32) % 9 == 4, 2.0**9, 1)
        relu.op_type, relu.output[0] = "Softplus", "soft"
        model.graph.initializer.append(onnx.numpy_helper.from_array(k.astype(np.float32), "gain"))
        made = onnx.helper.make_node("Mul", ["soft", "gain"], ["active"], "gained")
        if kind == "norm": made = onnx.helper.make_node("LayerNormalization", ["soft", "gain"], ["active"], "norm")
        model.graph.node.insert(list(model.graph.node).index(relu) + 1, made)
        if kind == "norm": model.opset_import[0].version = max(17, model.opset_import[0].version)
    put("w2", get("w2") / k[:, None])
    onnx.save(model, kind + ".onnx")
    return kind + ".onnx"


def migration():
    """Models that lose much in 8 and 4 bits, and get it back by moving scale; what does not apply is refused or named."""
    try: import onnx
    except ImportError: return print("quantize: onnx is not installed: moving scale is skipped")
    read_value = lambda: json.load(open("g.onnx.certificate.json"))
    def lost(what, model, *more, says=""):
        expect(what, ["quantize", model, "--allow-slower", "--force", "--data", "d.npz", "-o", "g.onnx", *more], 0, says)
        expect(what + ": replay", ["verify", "g.onnx", "--certificate", "g.onnx.certificate.json", "--data", "d.npz"], 0)
        c = read_value()
        return c["value"], [l.get("migrated") for l in c["layers"]]
    for kind, right in (("layers", "equalise"), ("product", "smooth"), ("norm", "smooth")):
        model = spoiled(onnx, kind)
        for to in "int8", "int8-dynamic":
            plain, none = lost(f"{kind} {to}: none", model, "--to", to, "--migrate", "none", "--metric", "agreement")
            moved, layers = lost(f"{kind} {to}: auto", model, "--to", to, "--metric", "agreement", says="scale moved: " + right)
            check(f"{kind} {to}: regained", plain < 0.9 and moved > 0.985, (plain, moved))
            check(f"{kind} {to}: the certificate names it", none == [None, None] and layers == [None, right], (none, layers))
        same, layers = lost(f"{kind}: by name", model, "--migrate", right, "--metric", "agreement", says="scale moved")
        check(f"{kind}: by name", same > 0.985 and layers == [None, right] and "--migrate " + right in read_value()["options"], (same, layers))
        plain, _ = lost(f"{kind} w4: none", model, "--to", "w4", "--method", "rtn", "--migrate", "none", "--metric", "rms")
        moved, layers = lost(f"{kind} w4: awq", model, "--to", "w4", "--method", "rtn", "--migrate", "awq", "--metric", "rms", says="scale moved: awq")
        check(f"{kind} w4: awq", moved < 0.3 * plain and layers == [None, "awq"], (plain, moved, layers))
        value, layers = lost(f"{kind}: search", model, "--to", "auto", "--budget", "agreement>=97%", says="scale moved")
        check(f"{kind}: search", value > 0.97 and layers == [None, right], (value, layers))
    _, layers = lost("no layer before", "product.onnx", "--migrate", "equalise", says="scale stays: 2 without anything that could take it")
    check("no layer before: none", layers == [None, None], layers)
    lost("even", DIGITS, "--migrate", "smooth", "--keep", "logits", says="scale stays: 1 would not gain")
    r = run(*QUANTIZE, "--data", "d.npz", "-o", "g.onnx", "--json")
    check("even: as JSON", json.loads(r.stdout)["migration"].startswith("scale stays"), r.stdout)
    data = ["--data", "d.npz", "-o", "none.onnx", "--migrate"]
    expect("awq of integers", [*QUANTIZE, *data, "awq"], 2, "awq is not for int8: it is for w8 and w4", "none.onnx")
    expect("smooth of weights", [*QUANTIZE, *data, "smooth", "--to", "w4"], 2, "smooth is not for w4: it is for int8 and int8-dynamic", "none.onnx")
    expect("16 bits", [*QUANTIZE, *data, "equalise", "--to", "f16"], 2, "is for choices of 8 or 4 bits", "none.onnx")
    expect("no such migration", [*QUANTIZE, *data, "equalize"], 2, "did you mean 'equalise'", "none.onnx")
    expect("no samples to move by", [*QUANTIZE, "--to", "w8", "--migrate", "awq", "-o", "none.onnx"], 2, "awq needs samples", "none.onnx")


def shared():
    """Layers that share their weights still share them when they are quantised."""
    try: import onnx
    except ImportError: return
    helper, rng = onnx.helper, np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32) / 8, "w")]
    nodes, at = [], "x"
    for i in range(4):
        nodes += [helper.make_node("MatMul", [at, "w"], [f"m{i}"], f"m{i}"), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        at = f"r{i}"
    value = lambda n: helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 64])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [value("x")], [value(at)], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "shared.onnx")
    np.savez("shared.npz", x=rng.standard_normal((200, 64)).astype(np.float32))
    for to, most in (("int8", 0.4), ("int8-dynamic", 0.4), ("w8", 0.35), ("f16", 0.6)):
        expect(f"shared {to}", ["quantize", "shared.onnx", "--data", "shared.npz", "--to", to, "--migrate", "none", "--no-correction", "--allow-slower", "--force", "-o", "s.onnx"], 0, "4 of 4")
        size = os.path.getsize("s.onnx") / os.path.getsize("shared.onnx")
        check(f"shared {to}: written once", size < most, size)


def statistics():
    expect("statistics kept", [*QUANTIZE, "--data", "d.npz", "-o", "s.onnx", "--stats", "s.npz"], 0)
    expect("statistics used", [*QUANTIZE, "--data", "d.npz", "-o", "t.onnx", "--stats", "s.npz"], 0)
    check("statistics: the same bytes", read("s.onnx") == read("t.onnx") == read("q.onnx"))
    other = dict(np.load("s.npz"))
    np.savez("e.npz", image=samples(1500, 3))
    expect("other samples", [*QUANTIZE, "--data", "e.npz", "-o", "u.onnx", "--stats", "s.npz"], 1, "of other samples", "u.onnx")
    for name in other:
        less = {k: v for k, v in other.items() if k != name}
        np.savez("bad.npz", **less)
        expect(f"no {name}", [*QUANTIZE, "--data", "d.npz", "-o", "u.onnx", "--stats", "bad.npz"], 1, name, "u.onnx")
    counts = other["counts"].copy()
    counts[0, 5] += 1
    np.savez("bad.npz", **{**other, "counts": counts})
    expect("a count", [*QUANTIZE, "--data", "d.npz", "-o", "u.onnx", "--stats", "bad.npz"], 1, "damaged", "u.onnx")
    write("cut.npz", read("s.npz")[:500])
    expect("cut off", [*QUANTIZE, "--data", "d.npz", "-o", "u.onnx", "--stats", "cut.npz"], 1, "", "u.onnx")


def search():
    """Mixed precision under a limit. Noise may make anything the faster, so that --allow-slower is what is tested for results."""
    args = [*QUANTIZE, "--data", "d.npz", "--to", "auto", "--budget", "agreement>=98%", "-o", "a.onnx"]
    r = run(*args, "--json")
    check("auto", r.returncode == 0, r.stderr)
    told = json.loads(r.stdout)
    points = told["search"]
    check("auto: points", 1 <= len(points) <= 8 and sum(p["taken"] for p in points) == 1, points)
    c = json.load(open("a.onnx.certificate.json"))
    shares = [l["error-share"] for l in c["layers"] if l["choice"] == "int8"]
    check("auto: shares of the error", len(shares) == told["quantized"] and (not shares or abs(sum(shares) - 1) < 1e-6), c)
    check("auto: the bound", c["bound"] >= 0.98 and c["budget"] == "agreement>=98%", c)
    expect("auto: replay", ["verify", "a.onnx", "--certificate", "a.onnx.certificate.json", "--data", "d.npz"], 0)
    expect("auto: text", [*args, "--report", "r.html"], 0, "choices judged")
    page = read("r.html").decode()
    check("auto: report", "Speed and loss" in page and "share of the error" in page and "<script" not in page and page.count("<circle") >= 3, page[:300])
    expect("auto: report of what is not written", [*QUANTIZE, "--data", "d.npz", "--to", "auto", "--budget", "rms<=0.0000001%", "-o", "n.onnx", "--report", "n.html"], 3, "no choice meets", "n.onnx")
    check("auto: that report", "the limit is not met" in read("n.html").decode())
    expect("auto: no limit", [*QUANTIZE, "--data", "d.npz", "--to", "auto", "-o", "n.onnx"], 2, "give --budget", "n.onnx")
    expect("auto: no samples", [*QUANTIZE, "--to", "auto", "--budget", "rms<=1%", "-o", "n.onnx"], 2, "--data", "n.onnx")
    expect("auto: out of reach", [*QUANTIZE, "--data", "d.npz", "--to", "auto", "--budget", "rms<=0.0000001%", "-o", "n.onnx"], 3, "no choice meets", "n.onnx")
    expect("auto: all kept", [*QUANTIZE, "--data", "d.npz", "--to", "auto", "--budget", "rms<=1%", "--keep", "*", "-o", "n.onnx"], 1, "no contraction", "n.onnx")


def tampering():
    verify = ["verify", "q.onnx", "--certificate", "c.json", "--data", "d.npz"]
    shutil.copy("q.onnx.certificate.json", "c.json")
    expect("as it is", verify, 0)
    model = bytearray(read("q.onnx"))
    model[len(model) // 2] ^= 1
    write("changed.onnx", model)
    r = run("verify", "changed.onnx", *verify[2:])
    check("a weight", r.returncode in (1, 3) and r.returncode, r.stderr)
    Y = X.copy()
    Y[:, 0, 0] += 1
    np.savez("other.npz", image=Y)
    expect("samples", [*verify[:-1], "other.npz"], 3, "samples are not those")
    for row in range(12):  # of those that calibrate, too, which no other sample need follow
        one = X.copy()
        one[row, 4, 4] += 0.5
        np.savez("one.npz", image=one)
        expect(f"sample {row}", [*verify[:-1], "one.npz"], 3, "samples are not those")
    np.savez("one.npz", image=X[1:])
    expect("a sample less", [*verify[:-1], "one.npz"], 3, "samples are not those")
    expect("another float model", [*verify, "--from", "q.onnx"], 3, "float model")
    text = json.load(open("c.json"))
    for key, value in (("value", 0.5), ("bound", 0.5)):
        json.dump({**text, key: value}, open("wrong.json", "w"))
        expect(key, ["verify", "q.onnx", "--certificate", "wrong.json", "--data", "d.npz"], 3, f"the {key} is another")
    for name, damaged in (("cut", read("c.json")[:300]), ("empty", b""), ("no object", b"[1]"), ("binary", bytes(range(256)))):
        write("bad.json", damaged)
        expect(f"certificate {name}", ["verify", "q.onnx", "--certificate", "bad.json", "--data", "d.npz"], 1)
    expect("no samples", ["verify", "q.onnx", "--certificate", "c.json"], 2, "--data")


def bad_input():
    def bad(name, status, says, *more, **arrays):
        if arrays: np.savez("bad.npz", **arrays)
        data = ["--data", "bad.npz"] if arrays else []
        expect(name, [*QUANTIZE, *data, *more, "-o", "bad.onnx"], status, says, "bad.onnx")

    nan, wide = X.copy(), np.zeros((20, 9, 8), np.float32)
    nan[4, 0, 3] = np.nan
    bad("no data", 2, "--data")
    bad("no data for a budget", 2, "--data", "--to", "w8", "--budget", "agreement>=99%")
    bad("NaN", 1, "sample 4 has NaN at element 3", image=nan)
    bad("shape", 1, "[20, 9, 8]", image=wide)
    bad("type", 1, "f64", image=X.astype(np.float64))
    bad("name", 1, "did you mean 'image'", imag=X)
    bad("few", 2, "299 different samples to certify, so 997 in all", "--budget", "agreement>=99%", image=X[:100])
    bad("two", 1, "at least 4", image=X[:2])
    bad("three", 1, "at least 4", image=X[:3])
    expect("four", [*QUANTIZE, "--data", "four.npz", "-o", "four.onnx"], 0, "1 calibrate, 1 search, 2 certify")
    bad("budget's text", 2, "is no limit", "--budget", "agreement=99", image=X)
    bad("labels", 2, "--labels", "--metric", "accuracy", image=X)
    bad("missed", 3, "does not meet", "--budget", "rms<=0.00001", image=X)
    bad("choice", 2, "no choice 'int7'", "--to", "int7", image=X)
    bad("method", 2, "has no method 'best'", "--method", "best", image=X)
    expect("no such data", [*QUANTIZE, "--data", "none.npz", "-o", "bad.onnx"], 1, "none.npz", "bad.onnx")
    expect("no folder for the output", [*QUANTIZE, "--data", "d.npz", "-o", "none/bad.onnx"], 1, "none/bad.onnx")
    expect("quantised already", ["quantize", "q.onnx", "--data", "d.npz", "-o", "bad.onnx"], 1, "already", "bad.onnx")
    shutil.copy(DIGITS, "own.onnx")
    write("foreign.onnx", b"mine")
    expect("a foreign file", ["quantize", DIGITS, "--data", "d.npz", "-o", "foreign.onnx"], 2, "--force")
    check("a foreign file stays", read("foreign.onnx") == b"mine")
    expect("onto itself", ["quantize", "own.onnx", "--data", "d.npz", "-o", "own.onnx"], 2)


def stopped():
    """Killed, interrupted, or out of disk: the pair that was there stays a pair, and what is new is whole."""
    start = time.monotonic()
    expect("a pair", [*QUANTIZE, "--data", "d.npz", "-o", "p.onnx"], 0)
    took = time.monotonic() - start
    models = {read("p.onnx")}
    args = [PROGRAM, *QUANTIZE, "--data", "d.npz", "--method", "minmax", "-o"]
    expect("another", [*args[1:], "o.onnx"], 0)
    models.add(read("o.onnx"))
    parts = int(os.environ.get("QUANTIZE_KILLS", 12))
    for how, waits in (signal.SIGKILL, [took * 1.2 * k / parts for k in range(parts)]), (signal.SIGINT, [0.02, 0.1, 0.25]):
        for wait in waits:
            p = subprocess.Popen([*args, "p.onnx"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try: p.wait(wait)
            except subprocess.TimeoutExpired: p.send_signal(how)
            p.wait(60)
            model, text = read("p.onnx"), read("p.onnx.certificate.json")
            whole = json.loads(text)["model"] == "sha256:" + hashlib.sha256(model).hexdigest()
            check(f"{how.name} after {wait:.3f} s", whole and model in models, p.returncode)
    for f in os.listdir("."):  # what a killed process could not take back
        if f.startswith(".tenon-"): os.remove(f)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
    r = subprocess.run([PROGRAM, *QUANTIZE, "--data", "d.npz", "-o", "full.onnx"], capture_output=True, text=True, preexec_fn=limit)
    check("no room for the model", r.returncode == 1 and "full.onnx" in r.stderr and not os.path.exists("full.onnx"), r.stderr)
    check("no room: no certificate", not os.path.exists("full.onnx.certificate.json"))


def other_runtime():
    try: import onnx, onnxruntime
    except ImportError: return print("quantize: onnx or onnxruntime is not installed: their part is skipped")
    onnx.checker.check_model("q.onnx", full_check=True)
    inputs = {"image": X[:200]}
    theirs = onnxruntime.InferenceSession("q.onnx", providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    floats = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    np.savez("in.npz", **inputs)
    run("run", "q.onnx", "--inputs", "in.npz", "--output", "out.npz", "--force")
    ours = np.load("out.npz")["probability"]
    check("as ONNX Runtime's", np.abs(ours - theirs).max() < 0.03 and (ours.argmax(1) == theirs.argmax(1)).mean() > 0.98, np.abs(ours - theirs).max())
    check("as the float model", (floats.argmax(1) == theirs.argmax(1)).mean() > 0.97)
    # The integer part: from the quantised pictures to the quantised hidden layer.
    model = onnx.load("q.onnx")
    last = [n for n in model.graph.node if n.op_type == "QuantizeLinear"][-1].output[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(last, onnx.TensorProto.UINT8, None))
    del model.graph.output[0]
    onnx.save(model, "cut.onnx")
    hashes = {}
    ways = [("interp", None), ("ref", None), ("cpu", None), ("c", None)]
    ways += [("cpu", f) for f in ("-avx512f", "-avx512vnni", "-sse4.1")]
    for target, features in ways:
        if os.path.exists("bits.npz"): os.remove("bits.npz")
        r = run("run", "cut.onnx", "--inputs", "in.npz", "--output", "bits.npz", "--target", target, env={"TENON_FEATURES": features} if features else None)
        if r.returncode: continue
        hashes[f"{target} {features or ''}"] = hashlib.sha256(np.load("bits.npz")[last].tobytes()).hexdigest()[:12]
    check("same bits", len(set(hashes.values())) == 1 and len(hashes) >= 4, hashes)


def main():
    global X
    X = samples(1500)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        np.savez("d.npz", image=X)
        np.savez("four.npz", image=X[:4])
        for part in results, choices, migration, shared, statistics, search, tampering, bad_input, stopped, other_runtime: part()
        check("nothing is left half-written", not [f for f in os.listdir(".") if f.startswith(".tenon-")])
        os.chdir(ROOT)
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] != 0


sys.exit(main())
