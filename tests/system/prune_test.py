#!/usr/bin/env python3
"""prune_test.py [PROGRAM] -- `tenon prune` on a small network: zeros in runs, what is left alone, the certificate and its replay, bad input, the same outputs in ONNX Runtime.

The network and its samples are made from a seed.  Needs numpy and onnx; with onnxruntime also its outputs.  The last line is `N passed, N failed`.
"""
import json, os, subprocess, sys, tempfile
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tenon"))
count = {"passed": 0, "failed": 0}
WIDE, HIDDEN, CLASSES, FACTORS = 256, 640, 10, 32


def check(what, good, more=""):
    count["passed" if good else "failed"] += 1
    if not good: print(f"FAIL {what} {more}")


def run(*args): return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=300)


def expect(what, args, status, says="", absent=None):
    r = run(*args)
    text = r.stdout + r.stderr
    check(what, r.returncode == status and says in text, f"status {r.returncode}, {text[-600:]}")
    if absent: check(what + ": nothing is written", not os.path.exists(absent) and not os.path.exists(absent + ".certificate.json"))
    return text


def network(path, repeats=1):
    """Two layers that gain, and one of few columns that does not; inputs lie near a plane of FACTORS dimensions."""
    rng = np.random.default_rng(1)
    weights = {"w1": (WIDE, HIDDEN), "w2": (HIDDEN, HIDDEN), "w3": (HIDDEN, CLASSES)}
    init = [numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32), n) for n, s in weights.items()]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "first"), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("MatMul", ["b", "w2"], ["c"], "second"),
             helper.make_node("Relu", ["c"], ["d"]), helper.make_node("MatMul", ["d", "w3"], ["y"], "last")]
    for i in range(1, repeats):  # the second layer once more, with the weights that it has
        nodes[-1:-1] = [helper.make_node("MatMul", [nodes[-2].output[0], "w2"], [f"c{i}"], f"second{i}"), helper.make_node("Relu", [f"c{i}"], [f"d{i}"])]
        nodes[-1].input[0] = f"d{i}"
    tensor = lambda n, k: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", k])
    graph = helper.make_graph(nodes, "net", [tensor("x", WIDE)], [tensor("y", CLASSES)], init)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    plane = rng.standard_normal((FACTORS, WIDE))
    return (rng.standard_normal((400, FACTORS)) @ plane + 0.05 * rng.standard_normal((400, WIDE))).astype(np.float32)


def weights(path): return {n.name: numpy_helper.to_array(i) for n in onnx.load(path).graph.node if n.op_type == "MatMul" for i in onnx.load(path).graph.initializer if i.name == n.input[1]}


def runs_left(w, width):
    return np.mean([np.any(w[:, at:at + width], axis=1).mean() for at in range(0, w.shape[1], width)])


def results():
    text = expect("half", [*PRUNE, "--data", "d.npz", "-o", "p.onnx"], 0, "contractions pruned (auto)")
    w = weights("p.onnx")
    for name in ("first", "second"): check(f"half of {name} is left", abs(runs_left(w[name], 16) - 0.5) < 1e-6, f"{runs_left(w[name], 16)} {text}")
    c = json.load(open("p.onnx.certificate.json"))
    check("certificate", [l["choice"] for l in c["layers"][:2]] == ["vector-50", "vector-50"] and c["metric"] == "agreement", c)
    check("results change little", c["value"] > 0.6, c["value"])
    expect("replay", ["verify", "p.onnx", "--certificate", "p.onnx.certificate.json", "--data", "d.npz"], 0, "as certified")
    check("zeros of a run alone", abs(np.mean(weights("p.onnx")["second"] == 0) - 0.5) < 0.01)
    expect("three quarters", [*PRUNE, "--data", "d.npz", "--zeros", "75", "-o", "q.onnx", "--force"], 0)
    check("a quarter is left", abs(runs_left(weights("q.onnx")["first"], 16) - 0.25) < 1e-6)
    expect("two of four", [*PRUNE, "--data", "d.npz", "--pattern", "2:4", "--allow-slower", "-o", "f.onnx", "--force"], 0)
    fours = (weights("f.onnx")["first"] != 0).reshape(WIDE // 4, 4, HIDDEN).sum(axis=1)
    check("two of each four", (fours <= 2).all() and fours.mean() > 1.9, fours.mean())
    expect("--keep", [*PRUNE, "--data", "d.npz", "--keep", "first", "-o", "k.onnx", "--force"], 0, "first stays dense by --keep")
    check("what is kept has no zeros", not (weights("k.onnx")["first"] == 0).any())


def budgets():
    text = expect("a limit", [*PRUNE, "--data", "d.npz", "--budget", "rms<=60%", "-o", "b.onnx", "--report", "b.html"], 0, "taken")
    c = json.load(open("b.onnx.certificate.json"))
    check("the bound meets it", c["bound"] <= 0.6, text)
    check("coded runs", "search: 4 coded runs" in text or "search: 8 coded runs" in text, text)
    shares = [l["error-share"] for l in c["layers"] if l["choice"] != "f32"]
    check("shares of the error", shares and abs(sum(shares) - 1) < 1e-6, c["layers"])
    check("report", "Pruning of" in open("b.html").read())
    expect("no choice meets it", [*PRUNE, "--data", "d.npz", "--budget", "rms<=0.0001%", "-o", "n.onnx"], 3, "no choice meets", "n.onnx")


def shared():
    """Two layers with the same weights: pruned once, for the inputs of both, and written once."""
    x = network("shared.onnx", 3)
    np.savez("s.npz", x=x)
    text = expect("shared weights", ["prune", "shared.onnx", "--threads", "1", "--data", "s.npz", "-o", "t.onnx", "--allow-slower"], 0, "pruned (auto)")
    w = weights("t.onnx")
    check("shared: the same zeros", np.array_equal(w["second"], w["second1"]) and (w["second"] == 0).mean() > 0.4, text)
    size = os.path.getsize("t.onnx") / os.path.getsize("shared.onnx")
    check("shared: written once", size < 1.02, size)
    # Weights for the inputs of both lose less on both than those for one alone.
    certificate = json.load(open("t.onnx.certificate.json"))
    check("shared: certificate", [l["choice"] for l in certificate["layers"]] == ["vector-50"] * 5, certificate["layers"])
    expect("shared: one is kept", ["prune", "shared.onnx", "--threads", "1", "--data", "s.npz", "-o", "u.onnx", "--allow-slower", "--keep", "second1"], 0,
           "second stays dense since second1, which has the same weights, does")
    expect("shared: a search", ["prune", "shared.onnx", "--threads", "1", "--data", "s.npz", "-o", "v.onnx", "--allow-slower", "--budget", "rms<=95%"], 0, "coded runs")
    w = weights("v.onnx")
    check("shared: a search takes both or none", np.array_equal(w["second"], w["second1"]))


def explained():
    said = json.loads(run("explain", "p.onnx", "--certificate", "p.onnx.certificate.json", "--json").stdout)
    layers = said["certificate"]["layers"]
    check("explain: precision and kernel of each layer", [(l["node"], l["kernel"]) for l in layers] == [("first", 0), ("second", 1), ("last", 2)] and layers[0]["precision"] == "vector-50", layers)
    check("explain: shares of the error", abs(sum(l["error_share"] for l in layers) - 1) < 1e-6, layers)
    expect("explain: as text", ["explain", "p.onnx", "--certificate", "p.onnx.certificate.json"], 0, "as certified: agreement")
    expect("explain: another model", ["explain", "net.onnx", "--certificate", "p.onnx.certificate.json"], 3, "the certificate is another model's")


def drawn():
    run("graph", "p.onnx", "--certificate", "p.onnx.certificate.json", "-o", "p.svg", "--force")
    svg = open("p.svg").read()
    check("graph: precision and error", svg.count("vector-50") >= 2 and "precision" in svg and "error" in svg, svg[:300])
    expect("graph: a damaged certificate", ["graph", "p.onnx", "--certificate", "net.onnx", "-o", "n.svg"], 1, "net.onnx", "n.svg")


def outputs():
    try: import onnxruntime
    except ImportError: return
    x = X[:4]
    want = onnxruntime.InferenceSession("p.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.savez("x.npz", x=x)
    run("run", "p.onnx", "--inputs", "x.npz", "-o", "y.npz", "--force")
    got = np.load("y.npz")
    got = got[got.files[0]]
    check("ONNX Runtime's outputs", np.abs(got - want).max() < 1e-4 * np.abs(want).max(), np.abs(got - want).max())


def bad_input():
    expect("no samples", [*PRUNE, "-o", "x.onnx"], 2, "give --data", "x.onnx")
    expect("no such pattern", [*PRUNE, "--data", "d.npz", "--pattern", "vectr", "-o", "x.onnx"], 2, "did you mean 'vector'", "x.onnx")
    expect("zeros", [*PRUNE, "--data", "d.npz", "--zeros", "60", "-o", "x.onnx"], 2, "50 or 75", "x.onnx")
    expect("2:4 has half", [*PRUNE, "--data", "d.npz", "--zeros", "75", "--pattern", "2:4", "-o", "x.onnx"], 2, "50 or 75", "x.onnx")
    expect("too few samples", [*PRUNE, "--data", "few.npz", "--budget", "agreement>=99%", "-o", "x.onnx"], 2, "997", "x.onnx")
    expect("no gain", [*PRUNE, "--data", "d.npz", "--pattern", "2:4", "-o", "x.onnx"], 1, "second stays dense since no kernel", "x.onnx")
    np.savez("three.npz", x=X[:3])
    expect("three samples", [*PRUNE, "--data", "three.npz", "-o", "x.onnx"], 1, "at least 4", "x.onnx")
    bad = X.copy()
    bad[3, 5] = np.nan
    np.savez("nan.npz", x=bad)
    expect("NaN", [*PRUNE, "--data", "nan.npz", "-o", "x.onnx"], 1, "NaN", "x.onnx")


PRUNE = ["prune", "net.onnx", "--threads", "1"]
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    X = network("net.onnx")
    np.savez("d.npz", x=X)
    np.savez("few.npz", x=X[:50])
    results()
    budgets()
    shared()
    explained()
    drawn()
    outputs()
    bad_input()
    os.chdir(ROOT)
print(f"{count['passed']} passed, {count['failed']} failed")
sys.exit(count["failed"] > 0)
