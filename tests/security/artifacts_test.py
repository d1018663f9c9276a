#!/usr/bin/env python3
"""artifacts_test.py PROGRAM -- a compiled model is run only under a name that ends in .tenon or with --compiled.

The machine code of an artifact is replaced by traps, with its checksums made right, so running any of it ends the process by a signal.
That artifact is then given to every command and to the Python package: renamed, linked, piped, nested in other files and under
limits.  No process may end by a signal, and none but those that read it as plain data may succeed.  Controls show that the same
artifact does trap where it is run.  The last line counts.
"""
import io, json, os, pathlib, platform, shutil, signal, struct, subprocess, sys, tarfile, tempfile, threading, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/tenon"))
TRAP = b"\xcc" if platform.machine() in ("x86_64", "AMD64", "i686") else b"\0"  # int3; elsewhere an instruction that is none
PAGE, BLOCK, VARIANTS, HEADER = 4096, 1 << 16, 96, 96 + 8 * 64 + 8
passed, failures, ran = 0, [], 0


# ---- an artifact that traps ----


def crc_table():
    for i in range(256):
        for _ in range(8): i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        yield i


TABLE = list(crc_table())


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for b in data: crc = crc >> 8 ^ TABLE[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def crc_blocks(data):
    return crc32c(b"".join(struct.pack("<I", crc32c(data[i : i + BLOCK])) for i in range(0, len(data), BLOCK)))


def pages(n):
    return -(-n // PAGE) * PAGE


def trapped(data):
    """The artifact with traps for code; artifact_layout.h has the offsets."""
    data = bytearray(data)
    constants, more = struct.unpack_from("<q", data, 24)[0], struct.unpack_from("<q", data, 40)[0]
    plan, code = struct.unpack_from("<q", data, VARIANTS + 32)[0], struct.unpack_from("<q", data, VARIANTS + 48)[0]
    at = PAGE + pages(constants) + pages(more) + pages(plan)
    assert code > 0 and at + pages(code) == len(data), "the layout of an artifact has changed"
    data[at : at + code] = TRAP * code
    struct.pack_into("<I", data, VARIANTS + 56, crc_blocks(data[at : at + code]))
    struct.pack_into("<I", data, HEADER - 8, 0)
    struct.pack_into("<I", data, HEADER - 8, crc32c(data[:PAGE]))
    return bytes(data)


# ---- the command line ----


def count(ok, what):
    global passed
    if ok: passed += 1
    else: failures.append(what)


def tenon(args, stdin=None, data=None):
    r = subprocess.run([program, *args], stdin=stdin if data is None else None, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return r.returncode, r.stderr.decode("utf-8", "replace").strip()


def refuse(args, may_pass=False, **how):
    """Nothing of the artifact runs, and the command fails, unless it reads the file as data."""
    global ran
    ran += 1
    status, err = tenon(args, **({"stdin": subprocess.DEVNULL} if not how else how))
    count(status > 0 or (may_pass and status == 0), f"tenon {' '.join(args)}: status {status}: {err[:200]}")


def runs(args, **how):
    """A control: the artifact is run, which ends the process by a signal."""
    status, err = tenon(args, **({"stdin": subprocess.DEVNULL} if not how else how))
    count(status < 0, f"tenon {' '.join(args)} does not run the artifact: status {status}: {err[:200]}")


NAMES = ["resnet50.onnx", "m.tir", "m.pt", "m.pt2", "m.tflite", "m.gguf", "m.safetensors", "m.npz", "m.mlir", "m.bin", "model", "m.TENON",
         "m.tenon.onnx", "m.tenon~", "m.tenon.gz", "tenon", "a.tenon/model.onnx", "m.tenon\n", " m.tenon "]
# Every command that takes a model.  `inspect` lists an artifact as data.
COMMANDS = [["run"], ["run", "--target", "cpu"], ["bench", "--seconds", "0.01", "--warmup", "0"], ["bench", "--profile", "--seconds", "0.01"],
            ["compare", "--seconds", "0", "--b", "strict"], ["bench", "--report", "-", "--seconds", "0.01"],
            ["verify"], ["verify", "--precision", "bf16"], ["explain"], ["graph", "-o", "out.svg"], ["convert", "-o", "out.onnx"],
            ["convert", "-o", "out.npz"], ["compile", "-o", "out.c"], ["inspect"], ["inspect", "--json"]]
RUNNERS = COMMANDS[:6]


def reads(command):
    return command[0] == "inspect"


def test_renamed():
    for name in NAMES:
        for command in COMMANDS if name in NAMES[:2] else RUNNERS[::2]: refuse([command[0], name, *command[1:]], reads(command))
    refuse(["inspect", "a.tenon"], True)
    for command in COMMANDS[6:-2]: refuse([command[0], "a.tenon", *command[1:]])


def test_links():
    os.symlink("a.tenon", "soft.onnx")
    os.symlink("soft.onnx", "chain.onnx")
    os.link("a.tenon", "hard.onnx")
    for name in ("soft.onnx", "chain.onnx", "hard.onnx"):
        for command in RUNNERS + [["inspect"]]: refuse([command[0], name, *command[1:]], reads(command))


def test_pipes(artifact):
    for command in COMMANDS:
        refuse([command[0], "-", *command[1:]], reads(command), data=artifact)
        for name in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
            if command not in RUNNERS and name != "/dev/stdin": continue
            with open("a.tenon", "rb") as f: refuse([command[0], name, *command[1:]], reads(command), stdin=f)
            refuse([command[0], name, *command[1:]], reads(command), data=artifact)
    for name in ("fifo.onnx", "fifo.tenon"):
        os.mkfifo(name)
        for command in RUNNERS: refuse([command[0], name, *command[1:]])


def test_limits(artifact):
    table = json.loads(subprocess.run([program, "help", "--json"], stdout=subprocess.PIPE, check=True).stdout)["commands"]
    for c in table:
        limits = [o["name"] for o in c["options"] if o["name"].startswith("max-")]
        if c["name"] not in ("run", "bench"): continue
        for limit in limits:
            for more in ([], ["--compiled"]):
                refuse([c["name"], "a.tenon", f"--{limit}", "1G", *more])
                refuse([c["name"], "resnet50.onnx", f"--{limit}", "1G", *more])
            refuse([c["name"], "-", f"--{limit}", "1G", "--compiled"], data=artifact)
        count(c["name"] != "run" or len(limits) >= 3, f"{c['name']} has the limits {limits}")
    for command in RUNNERS: refuse([command[0], "plain.onnx", *command[1:], "--compiled"])  # no artifact at all


def tensor(name, dtype, dims, raw):
    """TensorProto: dims, data_type, name, raw_data."""
    out = b"".join(b"\x08" + bytes([d]) for d in dims) + b"\x10" + bytes([dtype]) + b"\x42" + bytes([len(name)]) + name
    return out + b"\x4a" + varint(len(raw)) + raw


def varint(n):
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def test_nested(artifact):
    for option in ("--weights", "--inputs", "--expect"):
        for name in ("a.tenon", "resnet50.onnx"): refuse(["run", "plain.onnx", option, name])
    for name in ("a.tenon", "resnet50.onnx"):
        refuse(["run", "plain.onnx", "--input", f"x={name}"])
        refuse(["compile", "plain.onnx", "-o", "out.tenon", "--constant", f"x={name}"])
        refuse(["bench", "plain.onnx", "--weights", name])
        for command in (["verify"], ["explain"], ["graph", "-o", "out.svg"], ["convert", "-o", "out.onnx"], ["inspect"]):
            refuse([command[0], "plain.onnx", *command[1:], "--weights", name])
    # External data that is an artifact is elements of a tensor.
    shutil.copy(os.path.join(ROOT, "tests/models/external.onnx"), "external.onnx")
    open("external.bin", "wb").write(artifact)
    for command in RUNNERS[:3] + [["inspect"]]: refuse([command[0], "external.onnx", *command[1:]], True)
    # Archives.
    for name in ("archive.pt", "archive.pth", "archive.npz", "archive.zip", "archive.tenon"):
        with zipfile.ZipFile(name, "w") as z:
            for member in ("archive/data.pkl", "archive/version", "archive/data/0", "x.npy", "model.tenon", "model.onnx"): z.writestr(member, artifact)
        for command in RUNNERS[::2] + [["inspect"]]: refuse([command[0], name, *command[1:]])
        refuse(["run", "plain.onnx", "--weights", name])
    json.dump({"weight_map": {"w1": "a.tenon"}}, open("index.json", "w"))
    refuse(["run", "plain.onnx", "--weights", "index.json"])
    refuse(["run", "index.json"])
    # With other bytes before or behind, cut, doubled.
    plain = open("plain.onnx", "rb").read()
    for i, data in enumerate((plain + artifact, artifact + plain, b"\n" + artifact, artifact[:-1], artifact * 2, artifact[8:], artifact[:PAGE])):
        open(f"mixed{i}.onnx", "wb").write(data)
        refuse(["run", f"mixed{i}.onnx"], i == 0)
    # Test suites.
    os.makedirs("suite/test_a/test_data_set_0")
    shutil.copy("a.tenon", "suite/test_a/model.onnx")
    open("suite/test_a/test_data_set_0/input_0.pb", "wb").write(tensor(b"x", 1, [1, 4], bytes(16)))
    open("suite/test_a/test_data_set_0/output_0.pb", "wb").write(tensor(b"y", 1, [1, 3], bytes(12)))
    with tarfile.open("suite.tar", "w") as t: t.add("suite")
    for suite in ("suite", "suite.tar"):
        for target in ("interp", "cpu"): conform(suite, target)


def conform(suite, target):
    """Each test is a process of its own: one that traps counts as crashed."""
    global ran
    ran += 1
    r = subprocess.run([program, "conform", suite, "--target", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    count(b"0 passed" in r.stdout and b"0 crashed" in r.stdout, f"conform {suite} --target {target}: {r.stdout[-200:]}")


# ---- Python ----


def in_child(call):
    """The exit status of a forked process: 0 the artifact ran to its end, 1 an error, negative a signal."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        status = 1
        try:
            call()
            status = 0
        except BaseException:  # an error of any kind is a refusal
            pass
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_python(artifact):
    global ran
    try:
        sys.path.insert(0, os.path.join(ROOT, "python"))
        os.environ.setdefault("TENON_LIBRARY", os.path.join(os.path.dirname(program), "libtenon.so"))
        import numpy as np, tenon, tenon.ort
    except (ImportError, OSError) as error:
        print("skipped: the Python package:", error)
        return
    x = np.zeros((1, 4), np.float32)
    session = lambda source: tenon.InferenceSession(source).run(None, {"x": x})
    calls = {
        "load": lambda s: tenon.load(s)(x),
        "load target": lambda s: tenon.load(s, target="cpu")(x),
        "load profile": lambda s: tenon.load(s).profile(x),
        "compile": lambda s: tenon.compile(s)(x),
        "compile limited": lambda s: tenon.compile(s, memory_limit=1 << 30)(x),
        "compile interp": lambda s: tenon.compile(s, target="interp")(x),
        "run": lambda s: tenon.run(s, x),
        "InferenceSession": session,
        "graph": tenon.graph,
    }
    sources = [(name, name) for name in NAMES] + [("pathlib", pathlib.Path("resnet50.onnx")), ("absolute", os.path.abspath("resnet50.onnx")),
               ("symlink", "soft.onnx"), ("hard link", "hard.onnx"), ("fifo", "fifo.onnx"), ("fifo.tenon", "fifo.tenon")]
    memory = [("bytes", artifact), ("bytearray", bytearray(artifact)), ("memoryview", memoryview(artifact)), ("array", np.frombuffer(artifact, np.uint8)),
              ("BytesIO", io.BytesIO(artifact)), ("file", open("a.tenon", "rb")), ("bytes of a path", b"a.tenon")]
    for name, call in calls.items():
        for label, source in sources + memory if name in ("load", "compile", "InferenceSession") else sources[:1] + sources[-6:-4] + memory[:2]:
            ran += 1
            status = in_child(lambda: call(source))
            count(status == 1, f"tenon.{name} of {label}: {'ended by signal' if status < 0 else 'status'} {abs(status)}")
    for weights in ("a.tenon", "resnet50.onnx"):
        ran += 1
        status = in_child(lambda: tenon.compile("plain.onnx", weights=weights)(x))
        count(status == 1, f"tenon.compile with the weights {weights}: {status}")
    count(in_child(lambda: tenon.compile("a.tenon")) == 1, "tenon.compile takes a compiled model")
    count(in_child(lambda: tenon.inspect("resnet50.onnx")) == 0, "tenon.inspect does not list an artifact")
    for label, call in {"load": lambda: tenon.load("a.tenon")(x), "load compiled": lambda: tenon.load("resnet50.onnx", compiled=True)(x),
                        "load bytes": lambda: tenon.load(artifact, compiled=True)(x), "InferenceSession": lambda: session("a.tenon")}.items():
        status = in_child(call)
        count(status < 0, f"{label} does not run the artifact: status {status}")


def main():
    with tempfile.TemporaryDirectory(prefix="tenon-artifacts-") as folder:
        os.chdir(folder)
        shutil.copy(os.path.join(ROOT, "tests/models/mlp.onnx"), "plain.onnx")
        status, err = tenon(["compile", "plain.onnx", "--target", "cpu", "-o", "good.tenon"])
        assert status == 0, err
        artifact = trapped(open("good.tenon", "rb").read())
        open("a.tenon", "wb").write(artifact)
        for name in NAMES:
            if os.path.dirname(name): continue
            open(name, "wb").write(artifact)
        os.makedirs("d/a.tenon")
        shutil.copy("a.tenon", "d/a.tenon/model.onnx")
        NAMES[NAMES.index("a.tenon/model.onnx")] = "d/a.tenon/model.onnx"
        runs(["run", "a.tenon"])
        runs(["bench", "a.tenon", "--seconds", "0.01"])
        runs(["run", "./a.tenon", "--compiled"])
        runs(["run", "resnet50.onnx", "--compiled"])
        runs(["run", "-", "--compiled"], data=artifact)
        status, err = tenon(["run", "good.tenon"])
        count(status == 0, f"run good.tenon: {err}")
        test_renamed()
        test_links()
        test_pipes(artifact)
        test_limits(artifact)
        test_nested(artifact)
        test_python(artifact)
        os.chdir(ROOT)
    for f in failures[:20]: print("FAIL", f)
    print(f"{ran} variations")
    print(f"{passed} passed, {len(failures)} failed")
    return bool(failures)


sys.exit(main())
