#!/usr/bin/env python3
"""tokenizer_test.py TENON [DATA] -- `tenon tokenize` beside recorded ids, and beside the package `tokenizers` where it is installed.

With DATA: the cases of DATA/models/gguf_vocab (.inp, .out) from GGUF metadata.  Always: every pre-tokenizer, normalizer, model and decoder on a small tokenizer that
is written here, on hard and random strings; without the package these only have to decode to what was encoded."""
import glob, json, os, random, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path[:0] = [os.path.join(ROOT, "tests/fuzz"), os.path.join(ROOT, "bench")]
import tokenizer_seeds, tokens

try: import tokenizers
except ImportError: tokenizers = None
PASSED, FAILED = [], []


def lines(program, path, texts, *options):
    p = subprocess.run([program, "tokenize", path, "-0", *options], input=b"".join(t.encode() + b"\0" for t in texts), capture_output=True)
    if p.returncode: return p.stderr.decode()
    return [[int(x) for x in line.split()] for line in p.stdout.decode().split("\n")[:-1]]


def check(name, texts, want, got):
    bad = [(t, w, g) for t, w, g in zip(texts, want, got)] if isinstance(got, list) else [("", "", got)]
    bad = [b for b in bad if b[1] != b[2]]
    (FAILED if bad or len(want) != len(got) else PASSED).append(name)
    for t, w, g in bad[:3]: print(f"FAIL {name}: {t!r}\n  want {w}\n  got  {g}")


def recorded(program, data):
    for path in sorted(glob.glob(os.path.join(data, "models/gguf_vocab/*.gguf"))):
        with open(path + ".inp", encoding="utf-8", newline="") as f: texts = f.read().split("\n__ggml_vocab_test__\n")
        with open(path + ".out", encoding="utf-8") as f: want = [[int(x) for x in line.split()] for line in f.read().split("\n")[:-1]]
        check(os.path.basename(path), texts[: len(want)], want, lines(program, path, texts[: len(want)], "--no-special"))


def beside_package(program):
    """The small tokenizers of the fuzzer's seeds, with all their steps."""
    texts = [h for h in tokens.HARD if h] + tokens.generated(300, seed=5)
    with tempfile.TemporaryDirectory() as folder:
        for i, body in enumerate(tokenizer_seeds.json_files()):
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "wb") as f: f.write(body)
            # Byte fallback of the characters of byte-level BPE: no tokenizer has both.
            if b'"byte_fallback": true' in body and b'"ByteLevel", "add_prefix_space": ' in body.split(b'"decoder"')[0]: continue
            # A first character that the normalizer drops: tokenizers then adds no word mark.
            if b'"first"' in body and b"BertNormalizer" in body: continue
            try: t = tokenizers.Tokenizer.from_file(path)
            except Exception as e:
                print(f"small-{i}: tokenizers itself refuses it: {e}")
                continue
            for special in (True, False):
                t.encode_special_tokens = not special
                try: want = [t.encode(s).ids for s in texts]
                except Exception as e:
                    print(f"small-{i}: tokenizers itself fails: {e}")
                    break
                check(f"small-{i}{'-special' * special}", texts, want, lines(program, path, texts, *(["--parse-special"] if special else [])))


def bad_input(program):
    """Whatever is in the file: a status of an error, and no crash."""
    r = random.Random(1)
    files = list(tokenizer_seeds.json_files())[:8] + [tokenizer_seeds.sentencepiece(1), tokenizer_seeds.sentencepiece(2)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t")
        for body in files:
            for _ in range(4):
                cut = bytearray(body[: r.randrange(len(body))])
                if cut: cut[r.randrange(len(cut))] ^= 1 << r.randrange(8)
                with open(path, "wb") as f: f.write(cut)
                p = subprocess.run([program, "tokenize", path, "-p", "ab c"], capture_output=True)
                (PASSED if p.returncode in (0, 1, 4) else FAILED).append("bad input")
                if p.returncode not in (0, 1, 4): print(f"FAIL bad input: status {p.returncode}: {p.stderr.decode()}")


def main():
    program, data = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    if data and os.path.isdir(data): recorded(program, data)
    else: print("no data: the recorded cases are skipped")
    if tokenizers: beside_package(program)
    else: print("no package tokenizers: its comparison is skipped")
    bad_input(program)
    print(f"{len(PASSED)} passed, {len(FAILED)} failed")
    return len(FAILED) > 0


sys.exit(main())
