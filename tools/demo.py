#!/usr/bin/env python3
"""demo.py -- `make demo`: a real trained model on real input.

The model is the file-type detector that is inside the Python package magika (Apache-2.0, 3 MB, trained by its authors on
millions of files): it reads the first and last bytes of a file and tells which of 214 types it is.  Here Tenon runs it on
files of this repository, or on those named: demo.py FILE... (make demo FILES=...).  Where the package index cannot be
reached, the digit recogniser of examples/digits is run instead (also when asked: demo.py digits).  Needs only Python's
standard library.
"""
import array, ast, glob, gzip, importlib.util, json, os, struct, subprocess, sys, time, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TENON = os.path.join(ROOT, "build", "tenon")
WORK = os.path.join(ROOT, "build", "demo")
CODES = {"<f4": "f", "<i4": "i", "<i8": "q", "<f8": "d"}


def write_npy(path, descr, shape, values):
    head = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        f.write(array.array(CODES[descr], values).tobytes())


def read_npy(data):
    """(shape, flat list) of a version 1 .npy file."""
    n = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + n].decode())
    return head["shape"], list(array.array(CODES[head["descr"]], data[10 + n:]))


def tenon_run(model, name, inputs):
    """Runs the model; (shape, values, seconds) of its first output."""
    out = os.path.join(WORK, "out.npz")
    command = [TENON, "run", model, "--input", f"{name}={inputs}", "--output", out]
    print("$ " + " ".join(command).replace(ROOT + "/", ""), flush=True)
    start = time.monotonic()
    if subprocess.run(command, cwd=ROOT).returncode: sys.exit("demo: the run failed")
    seconds = time.monotonic() - start
    with zipfile.ZipFile(out) as z: shape, values = read_npy(z.read(z.namelist()[0]))
    return shape, values, seconds


def magika_folder():
    spec = importlib.util.find_spec("magika")
    found = glob.glob(os.path.join(spec.submodule_search_locations[0], "models", "*", "model.onnx")) if spec else []
    return os.path.dirname(sorted(found)[-1]) if found else None


def features(content, config):
    """The first and last bytes without surrounding white space, filled up with the padding token."""
    block, pad = config["block_size"], config["padding_token"]
    beg = list(content[:block].lstrip()[:config["beg_size"]])
    end = list(content[-block:].rstrip()[-config["end_size"]:])
    return beg + [pad] * (config["beg_size"] - len(beg)) + [pad] * (config["end_size"] - len(end)) + end


def sample_files(model):
    """Name -> contents: those on the command line, or some of this repository and a few made now."""
    named = [p for p in sys.argv[1:] if os.path.isfile(p)]
    if named: return {p: open(p, "rb").read() for p in named}
    wanted = ["README.md", "Makefile", "CMakeLists.txt", "CMakePresets.json", "src/base/base.h", "tests/main.c", "tools/demo.py",
              "tools/install-deps.sh", "build/tenon", "examples/digits/digits.npy"]
    files = {p: os.path.join(ROOT, p) for p in wanted}
    files["magika's own model"] = model
    samples = {name: open(path, "rb").read() for name, path in files.items() if os.path.exists(path)}
    samples["(gzip of this script)"] = gzip.compress(open(__file__, "rb").read())
    samples["(a bit of SQL)"] = b"SELECT name, count(*) FROM ops JOIN models USING (id)\nWHERE opset >= 13 GROUP BY name ORDER BY 2 DESC;\n" * 3
    samples["(a bit of Rust)"] = b"use std::fs;\n\nfn main() -> std::io::Result<()> {\n    let text = fs::read_to_string(\"a.txt\")?;\n    println!(\"{}\", text.lines().count());\n    Ok(())\n}\n"
    return samples


def file_types(folder):
    config = json.load(open(os.path.join(folder, "config.min.json"), encoding="utf-8"))
    model = os.path.join(folder, "model.onnx")
    samples = sample_files(model)
    batch = os.path.join(WORK, "bytes.npy")
    rows = [features(content, config) for content in samples.values()]
    write_npy(batch, "<i4", (len(rows), len(rows[0])), [v for r in rows for v in r])
    print(f"What kind of file is it?  Asking the model of the Python package magika about {len(rows)} files.\n")
    (n, labels), values, seconds = tenon_run(model, "bytes", batch)
    print(f"\n{'file':28} {'it is':14} sure")
    for i, name in enumerate(samples):
        scores = values[i * labels:(i + 1) * labels]
        best = max(range(labels), key=scores.__getitem__)
        print(f"{name:28} {config['target_labels_space'][best]:14} {scores[best]:6.1%}")
    print(f"\n{n} files in {seconds:.2f} s, start of the program and reading of the model included.")
    if len(sys.argv) == 1: print('Ask it about yours: make demo FILES="..."')


def digits():
    if "digits" not in sys.argv[1:]:
        print("The package magika cannot be had here (no package index?), so a smaller model of this repository runs.")
    print("Which digit is on the picture?\n")
    folder = os.path.join(ROOT, "examples", "digits")
    pictures = os.path.join(folder, "digits.npy")
    shape, pixels = read_npy(open(pictures, "rb").read())
    (n, classes), values, seconds = tenon_run(os.path.join(folder, "digits.onnx"), "image", pictures)
    print()
    for first in range(0, n, 5):
        for y in range(8):
            print("   ".join("".join(" .:-=+*#%@"[int(v * 9 / 16)] * 2 for v in pixels[(i * 8 + y) * 8:(i * 8 + y) * 8 + 8])
                             for i in range(first, min(n, first + 5))))
        row = [values[i * classes:(i + 1) * classes] for i in range(first, min(n, first + 5))]
        print("   ".join(f"{f'{max(range(classes), key=r.__getitem__)} ({max(r):.1%})':16}" for r in row) + "\n")
    print(f"{n} pictures in {seconds:.2f} s, start of the program and reading of the model included.")


def main():
    if not os.path.exists(TENON): sys.exit("demo: build/tenon is not there: make")
    os.makedirs(WORK, exist_ok=True)
    folder = None if "digits" in sys.argv[1:] else magika_folder()
    if folder: file_types(folder)
    else: digits()


main()
