#!/usr/bin/env python3
"""messages_test.py [PROGRAM] -- what people read when something is wrong: one row a mistake, on the command line and in Python.

A row has a name, what is done, the exit status or the exception, what the message must say, and optionally what it must not.  Files that
rows need are made first (`files`).  Needs numpy for the rows of Python.  The last line is `N passed, N failed`.
"""
import collections, gzip, io, os, pickle, struct, subprocess, sys, tarfile, tempfile, zipfile, zlib

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tenon"))
DIGITS = os.path.join(ROOT, "examples", "digits", "digits.onnx")
SIGNATURES = os.path.join(ROOT, "tests", "models", "signatures.tflite")
Row = collections.namedtuple("Row", "name do status says once", defaults=("",))
count = {"passed": 0, "failed": 0}


def npy(dtype, shape, data):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def field(number, body):
    """A field of protobuf with a length."""
    assert len(body) < 128 and number < 4096
    tag = number << 3 | 2
    return (bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])) + bytes([len(body)]) + body


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in members: z.writestr(name, b"x")
    return out.getvalue()


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in members: t.addfile(tarfile.TarInfo(name))
    return out.getvalue()


def safetensors(data):
    head = b'{"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}'
    return struct.pack("<Q", len(head)) + head + data


def files(tmp):
    """Files that rows need, by name."""
    model = open(DIGITS, "rb").read()
    constants = "".join(f"  %w{i} = const f32[1000] @0+{4000 * i}\n" for i in range(39))
    sums = "".join(f"  %y{i} = add(%{'x' if not i else f'y{i - 1}'}, %w{i})\n" for i in range(39))
    made = {
        "cut.onnx": model[:300], "empty.onnx": b"", "text.onnx": b"This is a note about a model.\n", "noise.onnx": bytes(range(255, 0, -1)) * 9,
        "page.onnx": b"<!DOCTYPE html><html><body>log in</body></html>", "lfs.onnx": b"version https://git-lfs.github.com/spec/v1\n",
        "cut.tflite": struct.pack("<I4sI", 4096, b"TFL3", 0), "cut.pt": archive(["a/data.pkl"])[:20], "cut.safetensors": safetensors(b"0" * 8),
        "cut.gguf": b"GGUF" + struct.pack("<IQ", 3, 1), "model.h5": b"\x89HDF\r\n\x1a\n" + b"\0" * 90,
        "model.keras": archive(["metadata.json", "config.json", "model.weights.h5"]), "model.zip": archive(["readme.txt", "net/model.onnx"]),
        "plain.zip": archive(["readme.txt"]), "model.onnx.gz": gzip.compress(model), "model.tar": tar(["model.onnx"]),
        "model.xz": b"\xfd7zXZ\0" + b"\0" * 40, "model.pkl": pickle.dumps({"a": [1.5]}), "model.joblib": zlib.compress(b"\x80\x04" * 40),
        "model.mlmodel": b"\x08\x04" + field(2, b"\x0a\x03abc") + field(500, b"\x0a\x03abc"), "saved_model.pb": b"\x08\x01" + field(2, field(1, b"abc")),
        "frozen.pb": field(1, field(1, b"x") + field(2, b"Placeholder")) + field(4, b"\x08\x01"),
        "model.pdmodel": field(1, b"\x08\x00\x10\x00" + field(3, b"")) + field(4, b"\x08\x00"),
        "model.xml": b'<?xml version="1.0"?>\n<net name="m" version="11">\n</net>\n', "model.param": b"7767517\n2 2\nInput x 0 1 x\n",
        "model.json": b'{"format": "graph-model", "modelTopology": {}}', "booster.json": b'{"learner": {}, "version": [2, 0]}',
        "model.cbm": b"CBM1" + b"\0" * 20, "model.ort": b"\x1c\0\0\0ORTM" + b"\0" * 20, "lgb.txt": b"tree\nversion=v4\nnum_class=1\n",
        "f64.npy": npy("<f8", (1, 8, 8), bytes(8 * 64)), "cut.npy": npy("<f4", (1, 8, 8), bytes(16)),
        "data.tir": f'graph @"m"(%x: f32[1000]) {{\n  source @0 external "gone.bin"\n{constants}{sums}  return y = %y38\n}}\n'.encode(),
        "folder/saved_model.pb": b"\x08\x01", "paddle/inference.pdmodel": b"x", "hub/config.json": b"{}", "hub/model.safetensors": b"x",
        "onnx/weights.bin": b"x", "onnx/model.onnx": model, "nothing/readme.txt": b"x",
        "shape.tir": b'graph @"m"(%x: f32[2]) {\n  %y = relu(%x)\n  return y = %y\n}\n',
    }
    for name, data in made.items():
        path = os.path.join(tmp, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f: f.write(data)


def command(*args):
    return ["command", *args]


def python(text):
    return ["python", text]


NOT_READ = "which Tenon does not read"
ROWS = [
    # ---- files ----
    Row("a file cut short", command("run", "cut.onnx"), 1, ["the file ends early (300 of about 10 k bytes): was the download cut off?"]),
    Row("an empty file", command("run", "empty.onnx"), 1, ["the file is empty"]),
    Row("a .tflite cut short", command("inspect", "cut.tflite"), 1, ["was the download cut off?"]),
    Row("a .pt cut short", command("inspect", "cut.pt"), 1, ["ends early", "was the download cut off?"]),
    Row("a .safetensors cut short", command("inspect", "cut.safetensors"), 1, ["was the download cut off?"]),
    Row("a .gguf cut short", command("inspect", "cut.gguf"), 1, ["was the download cut off?"]),
    Row("an input cut short", command("run", DIGITS, "--input", "image=cut.npy"), 1, ["was the download cut off?"]),
    Row("text as .onnx", command("run", "text.onnx"), 1, ["not an ONNX model (it looks like text)"]),
    Row("random bytes as .onnx", command("run", "noise.onnx"), 1, ["not an ONNX model (it looks like binary data"]),
    Row("a web page", command("run", "page.onnx"), 1, ["not an ONNX model (it looks like a web page)", "download the file itself"]),
    Row("a Git LFS pointer", command("run", "lfs.onnx"), 1, ["it looks like a Git LFS pointer", "git lfs pull"]),
    Row("missing external data", command("run", "data.tir"), 1, ["39 constants of the model are in it"], "which is not there"),
    Row("missing external data, compiling", command("compile", "data.tir", "-o", "data.tenon"), 1, ["39 constants"], "which is not there"),
    Row("missing external data, verifying", command("verify", "data.tir"), 1, ["39 constants"], "which is not there"),
    # ---- formats that are not read ----
    Row("Keras, HDF5", command("run", "model.h5"), 4, [NOT_READ, "Keras", 'export("model.onnx", format="onnx")']),
    Row("Keras, archive", command("run", "model.keras"), 4, [NOT_READ, "Keras", 'export("model.onnx", format="onnx")']),
    Row("Core ML", command("run", "model.mlmodel"), 4, [NOT_READ, "Core ML", "made from"]),
    Row("SavedModel's graph", command("run", "saved_model.pb"), 4, [NOT_READ, "SavedModel", "tf2onnx.convert --saved-model"]),
    Row("SavedModel", command("run", "folder"), 4, [NOT_READ, "SavedModel", "tf2onnx.convert --saved-model"]),
    Row("GraphDef", command("run", "frozen.pb"), 4, [NOT_READ, "GraphDef", "tf2onnx.convert --graphdef"]),
    Row("Paddle", command("run", "model.pdmodel"), 4, [NOT_READ, "Paddle", "paddle2onnx"]),
    Row("a folder of Paddle", command("run", "paddle"), 4, [NOT_READ, "Paddle", "paddle2onnx"]),
    Row("OpenVINO", command("run", "model.xml"), 4, [NOT_READ, "OpenVINO", "made from"]),
    Row("ncnn", command("run", "model.param"), 4, [NOT_READ, "ncnn", "made from"]),
    Row("TensorFlow.js", command("run", "model.json"), 4, [NOT_READ, "TensorFlow.js", "--tfjs"]),
    Row("XGBoost", command("run", "booster.json"), 4, [NOT_READ, "XGBoost", "convert_xgboost"]),
    Row("LightGBM", command("run", "lgb.txt"), 4, [NOT_READ, "LightGBM", "convert_lightgbm"]),
    Row("CatBoost", command("run", "model.cbm"), 4, [NOT_READ, "CatBoost", 'format="onnx"']),
    Row("ONNX Runtime's format", command("run", "model.ort"), 4, [NOT_READ, ".ort"]),
    Row("a pickle", command("run", "model.pkl"), 4, [NOT_READ, "pickle", "skl2onnx"]),
    Row("a compressed joblib", command("run", "model.joblib"), 4, [NOT_READ, "joblib", "skl2onnx"]),
    Row("zip with a model", command("run", "model.zip"), 4, [NOT_READ, "give 'net/model.onnx'"]),
    Row("zip without one", command("run", "plain.zip"), 4, [NOT_READ, "unpack it"]),
    Row("gzip", command("run", "model.onnx.gz"), 4, [NOT_READ, "gunzip"]),
    Row("tar", command("run", "model.tar"), 4, [NOT_READ, "tar xf"]),
    Row("xz", command("run", "model.xz"), 4, [NOT_READ, "unxz"]),
    Row("a checkpoint", command("run", "hub"), 4, ["must name one class in the list 'architectures'", "optimum-cli export onnx"]),
    Row("a folder with a model", command("run", "onnx"), 4, ["give the file 'model.onnx' in it"]),
    Row("a folder", command("run", "nothing"), 4, ["a folder", "give the file of the model"]),
    # ---- words of the command line ----
    Row("an input of f64", command("run", DIGITS, "--input", "image=f64.npy"), 1,
        ["input 'image' is f64, f32 is needed: convert it", 'astype("float32")']),
    Row("--fix", command("run", DIGITS, "--fix", "btach=4"), 2, ["did you mean 'batch'?"]),
    Row("--fix of compile", command("compile", DIGITS, "--fix", "btach=4", "-o", "x.tenon"), 2, ["did you mean 'batch'?"]),
    Row("--dim", command("run", DIGITS, "--dim", "bach=4"), 2, ["did you mean 'batch'?"]),
    Row("--disable", command("run", DIGITS, "--disable", "fusion"), 2, ["there is no pass 'fusion'", "fuse-kernels", "`tenon passes`"]),
    Row("--stop-after", command("inspect", DIGITS, "--optimised", "--stop-after", "fuse-kernel"), 2, ["did you mean 'fuse-kernels'?"]),
    Row("--precision", command("run", DIGITS, "--precision", "fp16"), 2, ["f32, tf32, bf16 or f16", "did you mean 'f16'?"]),
    Row("--target", command("run", DIGITS, "--target", "gpu"), 2, ["did you mean 'cuda'?", "auto, interp, cpu, cuda"]),
    Row("--target of bench", command("bench", DIGITS, "--target", "opnecl"), 2, ["did you mean 'opencl'?"]),
    Row("--only", command("run", DIGITS, "--only", "probabilty"), 2, ["did you mean 'probability'?", "output probability"]),
    Row("--input", command("run", DIGITS, "--input", "imgae=f64.npy"), 2, ["did you mean 'image'?"]),
    Row("an option", command("run", DIGITS, "--thraeds", "2"), 2, ["did you mean '--threads'?"]),
    Row("a command", command("inpsect", DIGITS), 2, ["did you mean 'inspect'?"]),
    Row("explain --node", command("explain", DIGITS, "--node", "nosuch*"), 2, ["no node fits 'nosuch*'", "the nearest names are"]),
    Row("--triple", command("compile", DIGITS, "--triple", "arm64-macos", "-o", "x.tenon"), 2, ["nothing could load the code for 'arm64-macos'", "Linux"]),
    Row("--triple of Windows", command("compile", DIGITS, "--triple", "x86_64-pc-windows-msvc", "-o", "x.o"), 2, ["nothing could load"]),
    Row("--signature", command("run", SIGNATURES, "--signature", "squar"), 2, ["did you mean 'square'?", "signature twice"]),
    Row("--signature of ONNX", command("run", DIGITS, "--signature", "main"), 2, ["only TensorFlow Lite models have signatures"]),
    Row("--compiled", command("run", DIGITS, "--compiled"), 1, ["this is not a compiled model"]),
    # ---- Python ----
    Row("compile(target)", python(f"tenon.compile({DIGITS!r}, target='gpu')"), "InvalidError", ["did you mean 'cuda'?"]),
    Row("compile(threds)", python(f"tenon.compile({DIGITS!r}, threds=2)"), "TypeError", ["did you mean 'threads'?"]),
    Row("compile(fold_limt)", python(f"tenon.compile({DIGITS!r}, fold_limt=2)"), "TypeError", ["did you mean 'fold_limit'?"]),
    Row("compile(dims)", python(f"tenon.compile({DIGITS!r}, dims={{'btach': 4}})"), "InvalidError", ["did you mean 'batch'?"]),
    Row("compile(dims, a range)", python(f"tenon.compile({DIGITS!r}, dims={{'btach': (1, 4)}})"), "InvalidError", ["did you mean 'batch'?"]),
    Row("compile(precision)", python(f"tenon.compile({DIGITS!r}, precision='fp16')"), "InvalidError", ["bf16", "did you mean"]),
    Row("compile(disable)", python(f"tenon.compile({DIGITS!r}, disable='fusion')"), "InvalidError", ["fuse-kernels"]),
    Row("load(a model)", python(f"tenon.load({DIGITS!r})"), "FormatError", ["this is not a compiled model", "use tenon.compile"]),
    Row("a missing file", python("tenon.compile('no/such.onnx')"), "FileNotFoundError", ["no/such.onnx"]),
    Row("a missing file is a FileError", python("tenon.load('no/such.tenon')"), "FileError", ["no/such.tenon"]),
    Row("missing external data in Python", python("tenon.compile('data.tir')"), "FileNotFoundError", ["39 constants"], "which is not there"),
    Row("a file cut short in Python", python("tenon.compile('cut.onnx')"), "FormatError", ["was the download cut off?"]),
    Row("text as .onnx in Python", python("tenon.compile('text.onnx')"), "FormatError", ["not an ONNX model (it looks like text)"]),
    Row("a folder in Python", python("tenon.compile('folder')"), "UnsupportedError", ["SavedModel"]),
    Row("a wrong input's name", python(f"tenon.compile({DIGITS!r}, target='ref')(imgae=1)"), "InvalidError", ["did you mean 'image'?"]),
    Row("a wrong output's name", python(f"tenon.compile({DIGITS!r}, target='ref')(None, outputs=['probabilty'])"), "InvalidError",
        ["did you mean 'probability'?"]),
]


def of_command(row, tmp):
    p = subprocess.run([PROGRAM, *row.do[1:]], capture_output=True, text=True, cwd=tmp, errors="replace")
    return p.returncode, p.stdout + p.stderr


def of_python(row, tenon):
    try:
        eval(row.do[1], {"tenon": tenon})  # rows above, no input
    except Exception as error:
        return ({c.__name__ for c in type(error).__mro__} & {row.status} or {type(error).__name__}).pop(), str(error)
    return "no exception", ""


def check(row, status, text):
    wrong = [f"status {status}, expected {row.status}"] if status != row.status else []
    wrong += [f"does not say: {s}" for s in row.says if s not in text]
    if row.once and text.count(row.once) != 1: wrong.append(f"says {text.count(row.once)} times: {row.once}")
    count["failed" if wrong else "passed"] += 1
    for w in wrong: print(f"FAIL {row.name}: {w}")
    if wrong: print("  " + text.strip().replace("\n", "\n  "))


def main():
    sys.path.insert(0, os.path.join(ROOT, "python"))
    with tempfile.TemporaryDirectory() as tmp:
        files(tmp)
        for row in ROWS:
            if row.do[0] == "command": check(row, *of_command(row, tmp))
        os.chdir(tmp)
        import tenon
        for row in ROWS:
            if row.do[0] == "python": check(row, *of_python(row, tenon))
        os.chdir(ROOT)
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] > 0


sys.exit(main())
