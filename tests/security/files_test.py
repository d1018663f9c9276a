#!/usr/bin/env python3
"""files_test.py PROGRAM -- nothing is overwritten: every command that writes, with every one of its inputs as its output.

Commands, inputs and outputs come from `tenon help --json`, so a new option is tested by itself; FILES says what to give for each input.
An input is named as the output by its own path, a relative one, links, a hard link and a redirection.  Each must be refused with
status 2, and every file must stay as it was.  Then the other rules: a file that Tenon did not write is replaced only with --force,
what Tenon wrote is replaced, two outputs are two files, and an option name has one meaning.  The last line counts.
"""
import glob, json, os, shutil, struct, subprocess, sys, tempfile, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/tenon"))
passed, failures = 0, []

# What is given for an input, by its option or by the positionals' name.
FILES = {"[list|prune|clear|export|import|merge] [F ...]": "export", "MODEL": "m.onnx", "MODEL | list | replay RUN | export | import F | merge F ... | train [F] | worker": "m.onnx", "MODEL...": "m.onnx", "MODEL ...": "m.onnx", "A [B]": "m.onnx", "DIR...": "suite", "inputs": "in.npz", "input": "x=x.npy", "expect": "out.npz",
         "weights": "w.npz", "times": "p.json", "constant": "x=x.npy", "file": "text.txt", "TEMPLATE": "t.jinja", "messages": "messages.json", "tools": "tools.json", "lines": "lines.jsonl", "tuned": "s.schedules",
         "api-key-file": "keys.txt", "repository": "suite", "certificate": "c.json", "data": "samples.npz", "from": "x.npy",
         "template": "t.jinja", "draft-model": "m.onnx", "adapter": "suite", "json-schema": "schema.json", "grammar": "g.gbnf"}
TEXTS = {"text.txt": "one\n", "s.schedules": "tenon-schedules 1\n", "keys.txt": "key\n", "c.json": "{}\n", "t.jinja": "{{ messages }}", "messages.json": "[]", "tools.json": "[]", "schema.json": "{}", "g.gbnf": 'root ::= "a"', "lines.jsonl": '{"messages": []}\n'}
# The least that makes a command write a short while later, and the output's ending where one is needed.
MORE = {"tune": ["--time", "1s"], "bench": ["--seconds", "0.01", "--warmup", "0"], "compile": ["--fix", "batch=1"], "convert": [], "quantize": ["--data", "samples.npz", "--allow-slower"], "prune": ["--data", "samples.npz", "--allow-slower"]}
ENDING = {"output": {"run": ".npz", "compile": ".tenon", "graph": ".svg", "convert": ".npz", "quantize": ".onnx", "prune": ".onnx", "cache": ".kernels", "tune": ".schedules"}, "trace": {"bench": ".json"},
          "report": {"conform": ".json", "bench": ".html", "quantize": ".html", "prune": ".html"}, "weights-out": {"compile": ".bin"}}
# What an output needs besides it.
NEEDED = {("compile", "weights-out"): ["--output", "beside.c"], ("quantize", "report"): ["--output", "q.onnx"], ("prune", "report"): ["--output", "q.onnx"]}


def tenon(*args, stdout=None, stdin=None):
    r = subprocess.run([program, *args], stdin=stdin or subprocess.DEVNULL, stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE)
    return r.returncode, r.stderr.decode("utf-8", "replace")


def contents():
    """Every file of the folder with its bytes."""
    return {os.path.join(d, n): open(os.path.join(d, n), "rb").read() for d, _, names in os.walk(".") for n in names}


def check(ok, what):
    global passed
    if ok: passed += 1
    else: failures.append(what)


def refused(args, say, **how):
    before = contents()
    status, err = tenon(*args, **how)
    check(status == 2 and say in err and contents() == before, f"tenon {' '.join(args)}: status {status}, "
          f"{'files changed, ' if contents() != before else ''}expected status 2 and '{say}': {err.strip()[:200]}")


def make_files():
    shutil.copy(os.path.join(ROOT, "tests/models/mlp.onnx"), "m.onnx")
    for args in (["convert", "m.onnx", "-o", "w.npz"], ["run", "m.onnx", "-o", "out.npz"], ["run", "m.onnx", "-o", "x.npy"],
                 ["cache", "export", "-o", "k.kernels"]):
        status, err = tenon(*args)
        assert status == 0, (args, err)
    with open("p.json", "wb") as f:
        r = subprocess.run([program, "bench", "m.onnx", "--profile", "--json", "--seconds", "0.01", "--warmup", "0"], stdout=f)
        assert r.returncode == 0
    # An input of the model: one row of four.
    with open("x.npy", "wb") as f:
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }"
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(16))
    shutil.copy("x.npy", "in.npz")  # either format is read
    with zipfile.ZipFile("samples.npz", "w") as z:  # 60 samples, no two the same
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (60, 4), }"
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        z.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + struct.pack("<240f", *(i * 37 % 241 / 100 for i in range(240))))
    for name, text in TEXTS.items():
        with open(name, "w") as f: f.write(text)
    os.makedirs("suite/test_a")
    shutil.copy("m.onnx", "suite/test_a/model.onnx")


def names_of(path):
    """The same file in other words."""
    os.makedirs("other", exist_ok=True)
    base = "alias-" + os.path.basename(path)
    for link, make in ((f"other/s-{base}", os.symlink), (f"other/h-{base}", os.link)):
        if os.path.lexists(link): os.remove(link)
        make(os.path.abspath(path), link)
    chain = f"other/c-{base}"
    if os.path.lexists(chain): os.remove(chain)
    os.symlink(f"s-{base}", chain)
    return [path, os.path.abspath(path), f"./other/../{path}", f"other/s-{base}", f"other/h-{base}", chain]


def with_input(command, name):
    """A command line that reads this input, and the file."""
    model = FILES[command["arguments"]]
    if name == command["arguments"]: return [command["name"], model], model
    value = FILES[name]
    return [command["name"], model, f"--{name}", value], value.split("=", 1)[-1]


def test_inputs(command, out, name):
    line, path = with_input(command, name)
    line += MORE.get(command["name"], []) + NEEDED.get((command["name"], out), [])
    target = os.path.join(path, "test_a/model.onnx") if os.path.isdir(path) else path
    for alias in names_of(target):
        if os.path.isdir(path) and "/h-" in alias: continue  # another name of a file in a folder that is read: replacing it changes no input
        refused([*line, f"--{out}", alias], "is also an input")
    refused([*line, f"--{out}", target, "--force"], "is also an input")
    if os.path.isdir(path): return
    for mode in ("ab", "r+b"):
        with open(target, mode) as f: refused([*line, f"--{out}", "/dev/stdout"], "an input", stdout=f)
    if line[1] == path:
        with open(path, "rb") as f: refused([line[0], "-", *line[2:], f"--{out}", path], "is also an input", stdin=f)


def test_streams(command, name):
    """What is printed must not go into an input either."""
    line, path = with_input(command, name)
    if os.path.isdir(path): return
    with open(path, "ab") as f: refused(line + MORE.get(command["name"], []), "goes into an input", stdout=f)


def test_replacing(command, out):
    """What another program wrote, what Tenon wrote, and with --force."""
    line = with_input(command, command["arguments"])[0] + MORE.get(command["name"], []) + NEEDED.get((command["name"], out), [])
    if out == "stats": return test_kept(line, out)
    path = f"{command['name']}-{out}{ENDING[out][command['name']]}"
    for text in (b"precious", b"PK\x03\x04 precious", b"\x7fELF precious", b"\x93NUMPY\x01\x00 precious", b"{\"a\": 1}"):
        open(path, "wb").write(text)
        refused([*line, f"--{out}", path], "--force replaces it")
    if command["name"] == "conform": return  # its suite is none
    status, err = tenon(*line, f"--{out}", path, "--force")
    check(status == 0 and b"precious" not in open(path, "rb").read(), f"{line} --force: {status} {err}")
    if out != "weights-out":
        status, err = tenon(*line, f"--{out}", path)
        check(status == 0, f"{line}: what Tenon wrote is not replaced: {err}")
    else:
        refused([*line, f"--{out}", path], "--force replaces it")  # raw bytes
    os.remove(path)
    open(path, "wb").close()
    status, err = tenon(*line, f"--{out}", path)
    check(status == 0, f"{line}: an empty file is not replaced: {err}")
    os.remove(path)


def test_kept(line, out):
    """A file that is used where it is there, and else written: one that is something else is an error."""
    for text in (b"precious", b"PK\x03\x04 precious"):
        open("kept", "wb").write(text)
        before = contents()
        status, err = tenon(*line, f"--{out}", "kept", "--output", "q.onnx", "--force")
        check(status == 1 and "kept" in err and contents() == before, f"{line} --{out}: status {status}: {err}")
    os.remove("kept")


# Files that follow from others: (what is linked to what, arguments, what is said)
DERIVED = [
    ("m.kernel", "KERNEL", ["cache", "export", "-o", "m.kernel", "--force"], "is also an input"),
    ("l.kernels", "k.kernels", ["cache", "merge", "k.kernels", "-o", "l.kernels"], "is also an input"),
    ("m.tenon", "m.onnx", ["compile", "m.tenon"], "is also an input"),
    ("w.html", "w.npz", ["graph", "w.onnx", "--weights", "w.html"], "is also an input"),
    ("a.h", "w.npz", ["compile", "m.onnx", "--weights", "a.h", "-o", "a.o"], "is also an input"),
    ("a.h", "w.npz", ["compile", "m.onnx", "--weights", "a.h", "-o", "a.c"], "is also an input"),
    ("a.h", "w.npz", ["compile", "m.onnx", "--weights", "a.h", "-o", "a.so"], "is also an input"),
    ("b.h", None, ["compile", "m.onnx", "-o", "b.c"], "--force replaces it"),
    ("b.h", None, ["compile", "m.onnx", "-o", "b.o"], "--force replaces it"),
    ("m.tenon", None, ["compile", "m.onnx"], "--force replaces it"),
    ("m.html", None, ["graph", "m.onnx"], "--force replaces it"),
    (None, None, ["compile", "m.onnx", "-o", "c.c", "--weights-out", "./c.c"], "two outputs"),
    (None, None, ["compile", "m.onnx", "-o", "c.c", "--weights-out", "c.h"], "two outputs"),
    ("e.onnx.data", "big.onnx.data", ["convert", "big.onnx", "--external", "-o", "e.onnx"], "is also an input"),
    ("e.onnx.data", None, ["convert", "big.onnx", "--external", "-o", "e.onnx"], "--force replaces it"),
    ("d.npz", "big.onnx.data", ["run", "big.onnx", "-o", "d.npz"], "is also an input"),
    ("d.tenon", "big.onnx.data", ["compile", "big.onnx", "-o", "d.tenon"], "is also an input"),
    ("d.html", "big.onnx.data", ["graph", "big.onnx", "-o", "d.html", "--force"], "is also an input"),
    ("d.json", "big.onnx.data", ["bench", "big.onnx", "--trace", "d.json"], "is also an input"),
    ("r.html", "big.onnx.data", ["bench", "big.onnx", "--report", "r.html", "--force"], "is also an input"),
    ("d.npz", "shard.safetensors", ["run", "m.onnx", "--weights", "index.json", "-o", "d.npz", "--force"], "is also an input"),
]


def make_big():
    """A model whose constants are in a file of their own, and weights in a file that an index names."""
    status, err = tenon("convert", os.path.join(ROOT, "examples/digits/digits.onnx"), "--external", "-o", "big.onnx")
    shard, _ = tenon("convert", "m.onnx", "-o", "shard.safetensors")
    with open("index.json", "w") as f: json.dump({"weight_map": {n: "shard.safetensors" for n in ("w1", "b1", "w2")}}, f)
    return status == 0 and shard == 0 and os.path.exists("big.onnx.data"), err


def test_derived():
    kernels = glob.glob(os.path.join(os.environ["TENON_CACHE"], "*.kernel"))
    for name, target, args, say in DERIVED:
        if target == "KERNEL":
            if not kernels: continue  # nothing is compiled here
            target = kernels[0]
        if name and os.path.lexists(name): os.remove(name)
        if name and target: os.link(target, name)
        elif name: open(name, "w").write("precious")
        refused(args, say)
        if name: os.remove(name)


def test_meanings(commands):
    seen = {}
    for c in commands:
        for o in c["options"]:
            means = (o["files"], o["kind"] == "flag")
            first = seen.setdefault(o["name"], (c["name"], means))
            check(first[1] == means, f"--{o['name']} of {c['name']} has another meaning than that of {first[0]}")
        writes = [o for o in c["options"] if o["files"] == "writes"]
        check(not writes or any(o["name"] == "force" for o in c["options"]), f"{c['name']} writes and has no --force")


def main():
    commands = json.loads(subprocess.run([program, "help", "--json"], stdout=subprocess.PIPE, check=True).stdout)["commands"]
    with tempfile.TemporaryDirectory(prefix="tenon-files-") as folder:
        os.chdir(folder)
        os.environ["TENON_CACHE"] = os.path.join(folder, "..", "tenon-files-cache")
        make_files()
        cases = 0
        for c in commands:
            names = ([c["arguments"]] if c["files"] == "reads" else []) + [o["name"] for o in c["options"] if o["files"] == "reads"]
            for name in names: test_streams(c, name)
            for out in [o["name"] for o in c["options"] if o["files"] == "writes"]:
                for name in names:
                    test_inputs(c, out, name)
                    cases += 1
                test_replacing(c, out)
        test_meanings(commands)
        ok, err = make_big()
        check(ok, f"no model with external data: {err}")
        test_derived()
        os.chdir(ROOT)
    for f in failures[:20]: print("FAIL", f)
    print(f"{cases} pairs of an output and an input")
    print(f"{passed} passed, {len(failures)} failed")
    return bool(failures)


sys.exit(main())
