#!/usr/bin/env python3
"""quantize_gguf_test.py [PROGRAM] -- `tenon quantize` of GGUF files: which tensors change, into what, and how far off they are.

The file is made here; what was written is read by `tenon convert` and by this program. Needs numpy. The last line is `N passed, N failed`.
"""
import os, struct, subprocess, sys, tempfile
import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tenon"))
TYPES = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}
FILE_TYPES = {"q8_0": 7, "q6_k": 18, "q5_k": 16, "q4_k": 14, "q5_1": 9, "q5_0": 8, "q4_1": 3, "q4_0": 2}
NARROW = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
MOST = {"q8_0": 0.006, "q6_k": 0.019, "q5_k": 0.038, "q4_k": 0.076, "q5_1": 0.04, "q5_0": 0.047, "q4_1": 0.08, "q4_0": 0.092}  # relative errors
count = {"passed": 0, "failed": 0}


def check(what, good, more=""):
    count["passed" if good else "failed"] += 1
    if not good: print(f"FAIL {what} {more}")


def run(*args): return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120)


def text(s): return struct.pack("<Q", len(s)) + s.encode()


PAIRS = [text("general.architecture") + struct.pack("<I", 8) + text("llama"), text("general.file_type") + struct.pack("<II", 4, 1),
         text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("<s>") + text("a"), text("general.alignment") + struct.pack("<II", 4, 64)]


def write(path, tensors):
    """Arrays of f32 or f16 by name."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(PAIRS)) + b"".join(PAIRS), b""
    for name, x in tensors.items():
        head += text(name) + struct.pack("<I", x.ndim) + struct.pack(f"<{x.ndim}Q", *x.shape[::-1]) + struct.pack("<IQ", {4: 0, 2: 1}[x.itemsize], len(data))
        data += x.tobytes()
        data += bytes(-len(data) % 64)
    with open(path, "wb") as f: f.write(head + bytes(-len(head) % 64) + data)


def table(path):
    """(metadata's bytes, the type of each tensor), where PAIRS are the metadata."""
    with open(path, "rb") as f: b = f.read()
    n = struct.unpack("<Q", b[8:16])[0]
    at = 24 + sum(map(len, PAIRS))
    pairs, types = b[24:at], {}
    for _ in range(n):
        size = struct.unpack("<Q", b[at : at + 8])[0]
        name = b[at + 8 : at + 8 + size].decode()
        rank = struct.unpack("<I", b[at + 8 + size : at + 12 + size])[0]
        at += 12 + size + 8 * rank
        types[name], offset = struct.unpack("<IQ", b[at : at + 12])
        check(f"{name} lies at a multiple of 64", offset % 64 == 0, offset)
        at += 12
    return pairs, types


def main():
    rng = np.random.default_rng(0)
    normal = lambda *dims: rng.normal(0, 0.05, dims).astype(np.float32)
    tensors = {"token_embd.weight": normal(40, 512), "blk.0.attn_q.weight": normal(64, 512).astype(np.float16), "blk.0.attn_norm.weight": normal(512),
               "blk.0.ffn_down.weight": normal(64, 96), "blk.0.ffn_gate_inp.weight": normal(8, 512), "blk.0.ffn_up_exps.weight": normal(3, 16, 256),
               "blk.0.odd.weight": normal(8, 40), "output.weight": normal(40, 512)}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("m.gguf", tensors)
        for to, code in TYPES.items():
            r = run("quantize", "m.gguf", "--to", to, "-o", f"{to}.gguf")
            check(to, r.returncode == 0 and "5 of 6 matrices quantised" in r.stdout, r.stdout + r.stderr)
            pairs, types = table(f"{to}.gguf")
            check(f"{to}: file type", pairs == b"".join(PAIRS).replace(struct.pack("<II", 4, 1), struct.pack("<II", 4, FILE_TYPES[to])))
            narrow, head = NARROW.get(to, to), to if to == "q8_0" else "q6_k"
            want = {"token_embd.weight": code, "blk.0.attn_q.weight": code, "blk.0.attn_norm.weight": 0, "blk.0.ffn_down.weight": TYPES[narrow],
                    "blk.0.ffn_gate_inp.weight": 0, "blk.0.ffn_up_exps.weight": code, "blk.0.odd.weight": 0, "output.weight": TYPES[head]}
            check(f"{to}: types", types == want, types)
            r = run("convert", f"{to}.gguf", "-o", f"{to}.npz")
            check(f"{to}: read again", r.returncode == 0, r.stderr)
            got, kind = np.load(f"{to}.npz"), {to: MOST[to], narrow: MOST[narrow], head: MOST[head]}
            for name, x in tensors.items():
                e = np.sqrt(((got[name] - x.astype(np.float32)) ** 2).mean() / (x.astype(np.float32) ** 2).mean())
                most = next((v for k, v in kind.items() if TYPES[k] == types[name]), 0)
                check(f"{to}: {name}", got[name].shape == x.shape and (e <= most if most == 0 else most / 4 < e < most), e)
        check("threads do not matter", run("quantize", "m.gguf", "--to", "q4_k", "-o", "one.gguf", "-j", "1").returncode == 0 and open("one.gguf", "rb").read() == open("q4_k.gguf", "rb").read())
        r = run("quantize", "m.gguf", "--to", "q4_0", "--keep", "blk.0.*", "-o", "k.gguf", "--json")
        check("keep", r.returncode == 0 and table("k.gguf")[1]["blk.0.attn_q.weight"] == 1 and '"quantized": 2' in r.stdout, r.stdout + r.stderr)

        def bad(what, status, says, *args):
            r = run("quantize", *args, "-o", "bad.gguf")
            check(what, r.returncode == status and says in r.stderr and not os.path.exists("bad.gguf"), f"{r.returncode} {r.stderr}")

        bad("a type", 2, "no type 'q3_k'", "m.gguf", "--to", "q3_k")
        bad("samples", 2, "without samples", "m.gguf", "--data", "m.gguf")
        bad("twice", 1, "quantised already", "q4_0.gguf", "--to", "q8_0", "--keep", "blk.0.odd*")
        with open("no.gguf", "wb") as f: f.write(b"PK\3\4 and more")
        bad("no GGUF file", 1, "no GGUF file", "no.gguf")
        with open("cut.gguf", "wb") as f: f.write(open("m.gguf", "rb").read()[:3000])
        bad("cut off", 1, "cut.gguf", "cut.gguf")
        tensors["blk.0.ffn_down.weight"][3, 5] = np.nan
        write("nan.gguf", tensors)
        bad("NaN", 1, "blk.0.ffn_down.weight", "nan.gguf")
        r = run("quantize", "m.gguf", "-o", "m.gguf")
        check("onto itself", r.returncode == 2, r.stderr)
        with open("mine.gguf", "wb") as f: f.write(b"mine")
        r = run("quantize", "m.gguf", "-o", "mine.gguf")
        check("a foreign file", r.returncode == 2 and "--force" in r.stderr and open("mine.gguf", "rb").read() == b"mine", r.stderr)
        os.chdir(ROOT)
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] != 0


sys.exit(main())
