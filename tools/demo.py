#!/usr/bin/env python3
"""demo.py -- `make demo`: a real trained model on real input, compiled.

The model is the file-type detector that is inside the Python package magika (Apache-2.0, 3 MB, trained by its authors on
millions of files): it reads the first and last bytes of a file and tells which of 214 types it is.  Here Tenon compiles it for
this CPU, says how long each stage took, which kernels there are and how much memory they need, runs it on files of this
repository, or on those named (demo.py FILE..., make demo FILES=...), measures it beside the reference evaluation and, where
it is installed, ONNX Runtime, and last makes a program of it that needs nothing of Tenon.  Where the package index cannot be
reached, the digit recogniser of examples/digits is taken instead (also when asked: demo.py digits).  Without tenon-codegen
(LLVM) everything is the same, but slow.  Needs only Python's standard library.
"""
import array, ast, glob, gzip, importlib.util, json, os, statistics, struct, subprocess, sys, time, zipfile

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


def heading(text): print(f"\n--- {text} ---", flush=True)


def call(*command, quiet=False):
    """Runs a command that is shown; its standard output, where it is not."""
    if not quiet: print("$ " + " ".join(command).replace(ROOT + "/", ""), flush=True)
    r = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE if quiet else None, text=True)
    if r.returncode: sys.exit("demo: that failed")
    return r.stdout


def bench_tenon(model, target, given):
    r = json.loads(call(TENON, "bench", model, "--target", target, "--seconds", "1", "--warmup", "0.2", "--json", *given, quiet=True))
    return r["median_ms"], r["threads"]


def bench_onnxruntime(model, name, inputs, threads):
    """Median milliseconds, or None where it is not installed."""
    try:
        import numpy, onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed, times, end = {name: numpy.load(inputs)}, [], time.monotonic() + 1.2
    while time.monotonic() < end or len(times) < 3:
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return statistics.median(times[len(times) // 6:]) * 1e3


class Compiled:
    """A model, compiled: each method is a part of the demonstration."""

    def __init__(self, model, title, name, inputs):
        self.model, self.title, self.name, self.inputs = model, title, name, inputs
        self.file = os.path.join(WORK, title + ".tenon")
        self.native = os.path.exists(os.path.join(ROOT, "build", "tenon-codegen"))
        self.target = "cpu" if self.native else "host"

    def compile(self):
        heading("compile: stages and kernels, with the time of each")
        if not self.native:
            print("build/tenon-codegen, which makes machine code, is not there: LLVM 19 was not found when Tenon was built.\n"
                  "tools/install-deps.sh build installs it (Debian's package llvm-19-dev); then make clean, and make again.\n"
                  "Until then the model runs by its reference evaluation: the same results, slowly.")
        call(TENON, "compile", self.model, "-o", self.file, "--target", self.target, "--timings")
        heading("memory plan")
        lines = call(TENON, "inspect", "--optimised", self.model, quiet=True).splitlines()
        kept = ("dimensions", "parameters", "operations", "peak memory", "planned", "kernels", "before")
        for before, line in zip([""] + lines, lines):
            if line.startswith(kept) or (line.startswith("      ") and before.startswith("planned")): print(line)

    def run(self):
        """(shape, values) of the first output."""
        heading("run")
        out = os.path.join(WORK, "out.npz")
        call(TENON, "run", self.file, "--input", f"{self.name}={self.inputs}", "--output", out)
        with zipfile.ZipFile(out) as z:
            self.output = z.namelist()[0]
            self.shape, self.values = read_npy(z.read(self.output))
        return self.shape, self.values

    def measure(self):
        heading(f"speed, {self.shape[0]} at once")
        given = ["--input", f"{self.name}={self.inputs}"]
        reference, threads = bench_tenon(self.model, "host", given)
        rows = [("reference evaluation", reference)]
        if self.native: rows.append(("compiled for this CPU", bench_tenon(self.model, "cpu", given)[0]))
        other = bench_onnxruntime(self.model, self.name, self.inputs, threads)
        if other: rows.append(("ONNX Runtime", other))
        for label, ms in rows: print(f"{label:24}{ms:12.4f} ms{reference / ms:10.1f} x")
        print(f"Median of a second's runs, {threads} thread{'s' * (threads != 1)}." + ("" if other else "  ONNX Runtime is not installed here (make nets installs it)."))

    def standalone(self):
        heading("the same as a program of its own")
        exe, prefix = os.path.join(WORK, self.title), os.path.join(WORK, "exe-")
        call(TENON, "compile", self.model, "--target", self.target, "--emit=exe", "-o", exe)
        about = json.loads(call(TENON, "inspect", "--json", self.model, quiet=True))
        call(exe, "--output", prefix, self.inputs)
        with open(prefix + self.output, "rb") as f: same = read_npy(f.read()) == (self.shape, self.values)
        if not same: sys.exit("demo: the program's results are not those of the run above")
        print(f"{os.path.getsize(exe) / 1024:.0f} KiB, {about['param_bytes'] / 1024:.0f} KiB of them weights; no compiler and no LLVM inside; "
              "the results are the same to the last bit.")


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
    wanted = ["README.md", "Makefile", "CMakeLists.txt", "CMakePresets.json", "src/base/base.h", "tests/support/main.c", "tools/demo.py",
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
    compiled = Compiled(model, "magika", "bytes", batch)
    compiled.compile()
    (_, labels), values = compiled.run()
    print(f"\n{'file':28} {'it is':14} sure")
    for i, name in enumerate(samples):
        scores = values[i * labels:(i + 1) * labels]
        best = max(range(labels), key=scores.__getitem__)
        print(f"{name:28} {config['target_labels_space'][best]:14} {scores[best]:6.1%}")
    compiled.measure()
    compiled.standalone()
    if len(sys.argv) == 1: print('\nAsk it about yours: make demo FILES="..."')


def digits():
    if "digits" not in sys.argv[1:]:
        print("The package magika cannot be had here (no package index?), so a smaller model of this repository runs.")
    print("Which digit is on the picture?\n")
    folder = os.path.join(ROOT, "examples", "digits")
    pictures = os.path.join(folder, "digits.npy")
    shape, pixels = read_npy(open(pictures, "rb").read())
    compiled = Compiled(os.path.join(folder, "digits.onnx"), "digits", "image", pictures)
    compiled.compile()
    (n, classes), values = compiled.run()
    print()
    for first in range(0, n, 5):
        for y in range(8):
            print("   ".join("".join(" .:-=+*#%@"[int(v * 9 / 16)] * 2 for v in pixels[(i * 8 + y) * 8:(i * 8 + y) * 8 + 8])
                             for i in range(first, min(n, first + 5))))
        row = [values[i * classes:(i + 1) * classes] for i in range(first, min(n, first + 5))]
        print("   ".join(f"{f'{max(range(classes), key=r.__getitem__)} ({max(r):.1%})':16}" for r in row) + "\n")
    compiled.measure()
    compiled.standalone()


def main():
    if not os.path.exists(TENON): sys.exit("demo: build/tenon is not there: make")
    os.makedirs(WORK, exist_ok=True)
    folder = None if "digits" in sys.argv[1:] else magika_folder()
    if folder: file_types(folder)
    else: digits()


main()
