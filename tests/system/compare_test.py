#!/usr/bin/env python3
"""compare_test.py TENON: `tenon compare` and `tenon bench --report`.

Models are made here, in a folder with a hostile name.  What needs onnxruntime is skipped, saying so, where Python has
none.
"""
import html.parser
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TENON = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
passed = failed = skipped = 0


def check(what, ok, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {what}\n{seen}")


def tenon(*args, **kw):
    return subprocess.run([TENON, *args], capture_output=True, text=True, timeout=300, **kw)


def linear(path, weight, x="x", y="y", batch="n"):
    """y = x W"""
    graph = helper.make_graph(
        [helper.make_node("MatMul", [x, "w"], [y], name="product")], "g",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [batch, 4])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(weight.astype(np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def compares(folder):
    weight = np.arange(12).reshape(4, 3) / 8
    a, b, renamed, two = (os.path.join(folder, f) for f in ("a.onnx", "b.onnx", "renamed.onnx", "two.onnx"))
    linear(a, weight)
    wrong = weight.copy()
    wrong[2, 1] += 0.5
    linear(b, wrong)
    linear(renamed, weight, "image", "scores")
    graph = helper.make_graph(
        [helper.make_node("Add", ["p", "q"], ["y"])], "g",
        [helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in "pq"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), two)
    compiled = os.path.join(folder, "a.tenon")
    tenon("compile", a, "-o", compiled)
    quick = ["--seconds", "0"]
    table = [
        ("a model and its compiled form", [compiled, a, *quick], 0, "equal"),
        ("other names, the same order", [a, renamed, *quick], 0, "scores"),
        ("other weights", [a, b, *quick], 3, "DIFFERS: 1 of 3 elements differ, worst at [0, 1]"),
        ("the tolerance of the command line", [a, b, *quick, "--atol", "10"], 0, "all within the tolerance"),
        ("another number of inputs", [a, two, *quick], 1, "has 1 inputs"),
        ("an option of one side", [a, "--b", "O=0", *quick], 2, "'O' is no option"),
        ("an option of one side, misspelt", [a, "--b", "precison=bf16", *quick], 2, "did you mean 'precision'?"),
        ("an option that writes", [a, "--b", "output=f.npz", *quick], 2, "is no option"),
        ("a file for one side", [a, "--b", "weights=w.npz", *quick], 2, "names a file"),
        ("a flag with a value", [a, "--b", "strict=1", *quick], 2, "takes no value"),
        ("nothing to compare with", [a], 2, "give a second model"),
        ("two runtimes, no model", ["onnxruntime", "onnxruntime"], 2, "no model is named"),
        ("a missing model", [a, os.path.join(folder, "no.onnx"), *quick], 1, "no.onnx"),
        ("a Python that is not there", [a, "onnxruntime", "--python", "no-such-python", *quick], 4, "--python names another"),
        ("standard input", ["-", a, *quick], 2, "cannot be read twice"),
        ("a memory limit", [a, renamed, "--max-memory", "64K", *quick], 1, "memory limit of 64 KiB"),
        ("a compiled model under a limit", [compiled, a, "--max-memory", "1G", *quick], 1, "limit"),
        ("sizes", [a, renamed, "--dim", "n=5", *quick], 0, "f32[5, 3]"),
        ("a size that is none", [a, renamed, "--dim", "m=5", *quick], 2, "'m'"),
    ]
    for what, args, status, text in table:
        r = tenon("compare", *args)
        check(what, r.returncode == status and text in r.stdout + r.stderr, (r.returncode, r.stdout, r.stderr))
    r = tenon("compare", a, b, "--json", "--seconds", "0.02", "--rounds", "2")
    seen = json.loads(r.stdout)
    check("JSON: the error", not seen["matches"] and 0 < seen["outputs"][0]["max_abs_error"] <= 0.5, r.stdout)
    check("JSON: the speed", seen["rounds"] == 2 and seen["ratio_least"] <= seen["ratio"] <= seen["ratio_most"] and
          seen["a"]["median_ms"] > 0 and seen["b"]["peak_rss_bytes"] > 0, r.stdout)
    with_onnxruntime(a, b)
    killed(a, b)
    tenon("compare", a, renamed, *quick)  # removes what a killed one left
    rest = [f for f in os.listdir(os.environ["TMPDIR"]) if f.startswith(".tenon") or f.startswith("tenon")]
    check("nothing is left in the temporary folder", not rest, rest)


def with_onnxruntime(a, b):
    global skipped
    try:
        import onnxruntime
    except ImportError:
        skipped += 1
        print("skip: onnxruntime is not installed")
        return
    peer = ["--python", sys.executable, "--seconds", "0.02", "--rounds", "2"]
    r = tenon("compare", a, "onnxruntime", *peer)
    check("onnxruntime", r.returncode == 0 and onnxruntime.__version__ in r.stdout, (r.stdout, r.stderr))
    r = tenon("compare", a, "onnxruntime:" + b, *peer)
    check("another model in onnxruntime", r.returncode == 3 and "DIFFERS" in r.stdout, (r.stdout, r.stderr))
    trap = os.path.join(os.path.dirname(a), "trap")
    os.mkdir(trap)
    for module in ("onnxruntime", "numpy", "json", "statistics"):
        open(os.path.join(trap, module + ".py"), "w").write("open('ran', 'w')\n")
    r = tenon("compare", a, "onnxruntime", *peer, cwd=trap)
    check("what lies in the folder is not run", r.returncode == 0 and "ran" not in os.listdir(trap), (r.stdout, r.stderr))
    r = tenon("compare", "onnxruntime", a, *peer)
    check("onnxruntime first", r.returncode == 0 and "A takes" in r.stdout, (r.stdout, r.stderr))


def children(parent):
    """Processes whose parent this was, or that its end left to another one, by what they were started with."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if parent in words: found.append(int(pid))
    return found


def killed(a, b):
    """Whatever ends the command ends what it started."""
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGHUP):
        p = subprocess.Popen([TENON, "compare", a, b, "--seconds", "60", "--rounds", "1"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        mark = b"--seconds\x0060\x00--inputs"
        end = time.monotonic() + 60
        while not children(mark) and time.monotonic() < end: time.sleep(0.02)
        check(f"{number.name}: a side is measured", children(mark), "")
        p.send_signal(number)
        p.wait()
        end = time.monotonic() + 10  # it takes a moment where the machine is busy
        while children(mark) and time.monotonic() < end: time.sleep(0.02)
        check(f"{number.name}: nothing is left running", not children(mark), children(mark))


class Page(html.parser.HTMLParser):
    """Counts rows and elements that are not closed, and collects what the page would load."""
    void = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.rows, self.lines, self.loads = [], 0, 0, []

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        self.loads += [v for k, v in attrs if k in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.lines += tag == "polyline"

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.open.append("</%s>" % tag)


def reports(folder):
    weight = np.arange(12).reshape(4, 3) / 8
    free, fixed = os.path.join(folder, "free.onnx"), os.path.join(folder, "fixed.onnx")
    linear(free, weight)
    linear(fixed, weight, batch=1)
    path = os.path.join(folder, "r.html")
    r = tenon("bench", free, fixed, "--report", path, "--seconds", "0.01", "--warmup", "0", "--sweep", "threads=1,2",
              "--sweep", "batch=1,3", "--sweep", "precision=f32,bf16")
    check("a report is written", r.returncode == 0 and "12 cases, 0 failed" in r.stdout, (r.stdout, r.stderr))
    text = open(path).read()
    page = Page()
    page.feed(text)
    check("elements are closed", not page.open, page.open)
    check("a row for each case", page.rows == 2 + 12, page.rows)
    check("lines over the batch", page.lines == 4, page.lines)
    check("names are escaped", "<b>" not in text and "&lt;b&gt;" in text)
    check("nothing is loaded", not page.loads and "http" not in text and "<script" not in text, page.loads)
    r = tenon("bench", free, "--report", path, "--seconds", "0.01", "--warmup", "0", "--sweep", "threads=1",
              "--sweep", "precision=f32", "--sweep", "batch=1,99999999999999")
    text = open(path).read()
    check("a case that fails has a row", r.returncode == 1 and 'class="why"' in text and "1 failed" in r.stdout,
          (r.returncode, r.stdout, r.stderr))
    table = [
        ("an unknown option", ["--sweep", "thread=1"], "did you mean 'threads'?"),
        ("no values", ["--sweep", "batch="], "no values"),
        ("one axis twice", ["--sweep", "batch=1", "--sweep", "batch=2"], "given twice"),
        ("a sweep that writes", ["--sweep", "trace=a.json"], "is no option"),
        ("a sweep over files", ["--sweep", "weights=w.npz"], "names a file"),
        ("a sweep over inputs", ["--sweep", "input=x=x.npy"], "names a file"),
    ]
    for what, args, words in table:
        r = tenon("bench", free, "--report", path, *args)
        check(what, r.returncode == 2 and words in r.stderr, (r.returncode, r.stderr))
    for what, args in (("several models", [free, fixed]), ("--sweep alone", [free, "--sweep", "batch=1"])):
        r = tenon("bench", *args)
        check(what + " need --report", r.returncode == 2 and re.search("needs? --report", r.stderr), r.stderr)
    big, digits = os.path.join(folder, "big.onnx"), os.path.join(ROOT, "examples/digits/digits.onnx")
    tenon("convert", digits, "--external", "-o", big)
    before = open(big + ".data", "rb").read()
    r = tenon("bench", digits, "--weights", big, "--report", big + ".data", "--force")
    check("external data of weights stay", r.returncode != 0 and open(big + ".data", "rb").read() == before, r.stderr)
    mine = os.path.join(folder, "mine.html")
    open(mine, "w").write("<html>mine</html>")
    r = tenon("bench", free, "--report", mine)
    check("another file is not replaced", r.returncode == 2 and "mine" in open(mine).read(), r.stderr)


with tempfile.TemporaryDirectory() as top:
    named = os.path.join(top, "<b>&'\"")
    temporary = os.path.join(top, "tmp")
    os.mkdir(named)
    os.mkdir(temporary)
    os.environ["TMPDIR"] = temporary
    compares(named)
    reports(named)
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
