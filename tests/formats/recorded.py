#!/usr/bin/env python3
"""recorded.py TENON ARCHIVE... [--target NAME]... [--every N] [--damage N] [NAME...] -- models of other frameworks, with the results that these computed.

An archive (tests/models/recorded/*.tar.xz) has small models, one or a few operators each, with operands and results.  The tests that
need a framework, tests/torch/torch_ops.py and tests/formats/tflite_*.py, write it with --record, so `make test` needs none.  Here each model
is run by TENON and compared: type, shape, and values within what was recorded.  Needs numpy.

With --damage N each model is damaged N times instead, one value, word or number of its text at a time, and inspected: it may be read or
refused with a message, but not crash, nor end as a fault of ours.

With names only cases whose name has one of them.  The last line is `N passed, N failed`.
"""
import io, json, os, random, re, struct, subprocess, sys, tarfile, tempfile, zipfile

try:
    import numpy as np
except ImportError:
    print("recorded: skipped, numpy is not installed")
    sys.exit(0)


class Recorder:
    """Cases for an archive.  `limits`: how far a value may be off: absolute, of its own size, of the largest value."""

    def __init__(self): self.files, self.index = [], []

    def add(self, name, model, extension, inputs, outputs, limits):
        n, data = len(self.index), io.BytesIO()
        arrays = {f"in{i}": np.asarray(a) for i, a in enumerate(inputs)} | {f"out{i}": np.asarray(a) for i, a in enumerate(outputs)}
        np.savez(data, **arrays)
        self.files += [(f"{n}{extension}", model), (f"{n}.npz", data.getvalue())]
        self.index.append({"name": name, "model": f"{n}{extension}", "data": f"{n}.npz", "limits": list(limits)})

    def save(self, path):
        with tarfile.open(path, "w:xz", preset=9) as tar:
            for name, data in [("index.json", json.dumps(self.index, indent=0).encode()), *self.files]:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        print(f"{len(self.index)} cases, {os.path.getsize(path)} bytes: {path}")


def differs(got, want, limits):
    """What is wrong, or None."""
    if got.shape != want.shape or got.dtype != want.dtype: return f"{got.dtype}{list(got.shape)}, must be {want.dtype}{list(want.shape)}"
    if got.dtype.kind not in "fiub": return None if np.array_equal(got, want) else "other values"
    a, b = got.astype("f8"), want.astype("f8")
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= limits[0] + limits[1] * np.abs(b) + limits[2] * largest)
    return None if same.all() else f"{int((~same).sum())} of {same.size} values differ, first {a[~same].flat[0]} for {b[~same].flat[0]}"


def check(tenon, target, folder, case):
    """What is wrong with a case, or None."""
    with np.load(os.path.join(folder, case["data"])) as z: arrays = dict(z)
    args, out = [], os.path.join(folder, "out.npz")
    for name in (k for k in arrays if k.startswith("in")):
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, arrays[name])
        args += ["--input", f"{name[2:]}={path}"]
    p = subprocess.run([tenon, "run", os.path.join(folder, case["model"]), *args, "--target", target, "--output", out, "--force"], capture_output=True, text=True)
    if p.returncode: return p.stderr.strip() or f"status {p.returncode}"
    want = [arrays[k] for k in arrays if k.startswith("out")]
    with np.load(out) as z: got = [z[k] for k in z.files]
    if len(got) < len(want): return f"{len(got)} results, must be {len(want)}"
    wrong = [f"result {i}: {why}" for i, why in enumerate(differs(g, w, case["limits"]) for g, w in zip(got, want)) if why]
    return "; ".join(wrong) or None


# ---- damage ----

WORDS = (b"0", b"1", b"-1", b"2", b"9", b"1099511627776", b"-9223372036854775808", b"1.5", b"true", b"null", b"[]", b'""', b"None", b"{}")


def damage_text(rng, text):
    """One number, string, list or line is another, or gone."""
    found = [m.span() for m in re.finditer(rb'-?\b\d+(?:\.\d+)?\b|"[^"\n]{1,60}"|\[[^\[\]]{0,80}\]|\{[^{}]{0,200}\}|\b[A-Za-z_.]{3,40}\b', text)]
    if not found: return text
    a, b = rng.choice(found)
    c, d = rng.choice(found)
    return text[:a] + rng.choice([rng.choice(WORDS), b"", text[c:d]]) + text[b:]


def damage(rng, model):
    """The bytes of a model with one fault: in a text of an archive, or in a 32-bit number."""
    if not zipfile.is_zipfile(io.BytesIO(model)):
        at = rng.randrange(0, len(model) - 4)
        value = rng.choice([0, 1, -1, 2, 7, 127, 1 << 20, -(1 << 31), struct.unpack_from("<i", model, at)[0] + rng.choice([-1, 1, 4])])
        return model[:at] + struct.pack("<I", value & 0xFFFFFFFF) + model[at + 4:]
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(model)) as z, zipfile.ZipFile(out, "w") as w:
        texts = [n for n in z.namelist() if n.endswith((".json", ".py")) and "sample" not in n] or z.namelist()
        chosen = rng.choice(texts)
        for n in z.namelist(): w.writestr(n, damage_text(rng, z.read(n)) if n == chosen else z.read(n))
    return out.getvalue()


def check_damaged(tenon, folder, case, times):
    """What is wrong with damaged forms of a model, one a line."""
    rng, model = random.Random(case["name"]), open(os.path.join(folder, case["model"]), "rb").read()
    path, wrong = os.path.join(folder, "damaged" + os.path.splitext(case["model"])[1]), []
    for i in range(times):
        with open(path, "wb") as f: f.write(damage(rng, model))
        p = subprocess.run([tenon, "inspect", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=120)
        if p.returncode not in (0, 1, 2, 3, 4) or (p.returncode and not p.stderr.strip()): wrong.append(f"damage {i}: status {p.returncode}: {p.stderr.strip()[-300:]}")
    return "; ".join(wrong) or None


def main(args):
    targets, every, names, archives, times = [], 1, [], [], 0
    tenon = args.pop(0)
    while args:
        a = args.pop(0)
        if a == "--target": targets.append(args.pop(0))
        elif a == "--every": every = int(args.pop(0))
        elif a == "--damage": times = int(args.pop(0))
        else: (archives if a.endswith(".tar.xz") else names).append(a)
    passed = failed = 0
    for archive in archives:
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(archive) as tar: tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
            cases = json.load(open(os.path.join(folder, "index.json")))
            for target in targets or ["interp"]:
                for case in cases[::every]:
                    if names and not any(n in case["name"] for n in names): continue
                    why = check_damaged(tenon, folder, case, times) if times else check(tenon, target, folder, case)
                    passed, failed = passed + (not why), failed + bool(why)
                    if why: print(f"FAIL {case['name']} ({target}): {why}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or not passed


if __name__ == "__main__":
    if len(sys.argv) < 3: sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
