#!/usr/bin/env python3
"""llm_test.py TENON -- the commands of language models, on a tiny model of random weights (tiny_llm.py).

The same request must give the same tokens and log-probabilities whatever runs beside it: threads, chunks, pages, batches,
drafts, cached beginnings.  Wrong input must be an error that says what is wrong.  Needs nothing but the standard library.
The last line is `N passed, N failed`.
"""
import json, math, os, re, struct, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_llm

TENON = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
MODEL = tiny_llm.make(os.path.join(FOLDER.name, "tiny"))
passed, failed = 0, 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:600]}")


def run(*args, stdin=None, rc=0):
    p = subprocess.run([TENON, *map(str, args)], capture_output=True, input=stdin, timeout=300)
    check(p.returncode == rc, f"{' '.join(map(str, args))}: exit status {p.returncode}, not {rc}", p.stderr.decode(errors="replace"))
    return p.stdout, p.stderr.decode(errors="replace")


def answer(*args):
    """The JSON of one prompt, or of several."""
    out, _ = run("generate", MODEL, "--json", *args)
    found = [json.loads(line) for line in out.splitlines()]
    return found[0] if len(found) == 1 else found


def same(a, b): return a["tokens"] == b["tokens"] and a["logprobs"] == b["logprobs"] and a["finish_reason"] == b["finish_reason"]


def test_answers():
    text = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3
    a = answer("-p", text, "-n", 90, "--ignore-end")
    check(len(a["tokens"]) == 90 and len(a["logprobs"]) == 90 and a["finish_reason"] == "length", "90 tokens", a)
    check(all(x <= 0 for x in a["logprobs"]), "log-probabilities", a["logprobs"])
    for options in (["--threads", 1], ["--threads", 3], ["--batch", 7, "--draft", 0], ["--batch", 64, "--draft", 2], ["--draft", 0],
                    ["--draft", 16], ["--pages", 10], ["--sequences", 5], ["--context", 512]):
        check(same(a, answer("-p", text, "-n", 90, "--ignore-end", *options)), f"the same answer with {options}")
    small = answer("-p", text, "-n", 90, "--ignore-end", "--kv", "int8")
    check(not same(a, small), "int8 keys and values")
    for options in (["--threads", 3], ["--batch", 7, "--draft", 0], ["--pages", 10]):
        check(same(small, answer("-p", text, "-n", 90, "--ignore-end", "--kv", "int8", *options)), f"--kv int8: the same answer with {options}")
    sampled = ["--temperature", 0.9, "--top-p", 0.95, "--seed", 7]
    b = answer("-p", text, "-n", 50, *sampled)
    check(same(b, answer("-p", text, "-n", 50, *sampled, "--batch", 20, "--threads", 2)), "the same draws")
    check(not same(b, answer("-p", text, "-n", 50, *sampled[:-1], 8)), "another seed")
    c = answer("-p", text, "-n", 5, "--logprobs", 4)
    check([t[0][0] for t in c["top_logprobs"]] == c["tokens"] and all(len(t) == 4 for t in c["top_logprobs"]), "top_logprobs", c)
    check([t[0][1] for t in c["top_logprobs"]] == c["logprobs"], "the first one is the greedy token", c)


def test_batches():
    prompts = [f"prompt {i} " * (1 + i * 5 % 13) for i in range(12)]
    path = os.path.join(FOLDER.name, "prompts.txt")
    with open(path, "w") as f: f.write("\n".join(prompts) + "\n")
    lines = os.path.join(FOLDER.name, "prompts.jsonl")
    with open(lines, "w") as f: f.write("\n".join(json.dumps(p if i % 2 else {"prompt": p}) for i, p in enumerate(prompts)))
    together = answer("--file", path, "-n", 40)
    check(len(together) == 12, "12 answers", together)
    # Few pages: sequences are preempted and computed again.
    for options in (["--pages", 9], ["--sequences", 3, "--batch", 33], ["--file", lines]):
        again = answer("--file", path, "-n", 40, *options) if options[0] != "--file" else answer(*options, "-n", 40)
        check(all(map(same, together, again)), f"the same answers with {options}")
    for i in (0, 5, 11):
        check(same(together[i], answer("-p", prompts[i], "-n", 40)), f"prompt {i} alone")
    out, _ = run("generate", MODEL, "-p", "Hello", "-n", 60, "--check-same", "--temperature", 1)
    check(b"  60 tokens  same" in out or b"tokens  same" in out, "--check-same", out)


def test_text():
    a = answer("-p", "Hello", "-n", 60, "--ignore-end")
    out, _ = run("generate", MODEL, "-p", "Hello", "-n", 60, "--ignore-end")
    check(out.decode() == a["text"] + "\n", "streamed text", (out, a))
    # A stop text ends the answer in front of it.
    stop = a["text"][10:13]
    b = answer("-p", "Hello", "-n", 60, "--ignore-end", "--stop", stop)
    check(b["text"] == a["text"][: a["text"].index(stop)] and b["finish_reason"] == "stop", "--stop", b)
    never = answer("-p", "Hello", "-n", 60, "--ignore-end", "--stop", "no such text at all")
    check(never["text"] == a["text"], "a stop text that does not come", never)


def test_padding():
    # A token that only pads the vocabulary has no text, and ends nothing.
    padded = tiny_llm.make(os.path.join(FOLDER.name, "padded"), padding=125)
    out, _ = run("generate", padded, "-p", "Hello", "-n", 100, "--ignore-end", "--temperature", 50, "--json")
    a = json.loads(out)
    check(len(a["tokens"]) == 100 and max(a["tokens"]) >= tiny_llm.VOCAB, "tokens of the padding", a)
    known = [t for t in a["tokens"] if t < tiny_llm.BYTES]  # special ones have no text either: token n is byte n
    check(a["text"] == bytes(known).decode(errors="replace"), "their text", a)


def test_chat():
    out, _ = run("chat", MODEL, "-n", 20, stdin=b"Hello\nAgain\n")
    first = answer("--chat", "-p", "Hello", "-n", 20)
    check(out.decode(errors="replace").startswith(first["text"] + "\n"), "the first answer", (out, first))
    check(out.count(b"\n") >= 2, "two answers", out)
    check(first["prompt_tokens"] > 5, "the template was applied", first)


def test_adapter():
    path = tiny_llm.adapter(os.path.join(FOLDER.name, "adapter"), rank=19)
    plain = answer("-p", "Hello", "-n", 30, "--ignore-end")
    a = answer("-p", "Hello", "-n", 30, "--ignore-end", "--adapter", path)
    check(not same(a, plain), "an adapter changes the answer", a)
    for options in (["--threads", 2], ["--batch", 7, "--draft", 0], ["--adapter-scale", 1]):
        check(same(a, answer("-p", "Hello", "-n", 30, "--ignore-end", "--adapter", path, *options)), f"the same answer with {options}")
    check(not same(a, answer("-p", "Hello", "-n", 30, "--ignore-end", "--adapter", path, "--adapter-scale", 0.5)), "a scale")
    out, _ = run("generate", MODEL, "-p", "Hello", "-n", 30, "--check-same", "--adapter", path)
    check(b"tokens  same" in out, "--check-same with an adapter", out)
    _, err = run("generate", MODEL, "-p", "Hello", "--adapter", os.path.join(FOLDER.name, "none"), rc=1)
    check("none" in err, "an adapter that is not there", err)
    _, err = run("generate", MODEL, "-p", "Hello", "--adapter", MODEL, rc=1)
    check("adapter_config.json" in err, "a folder that is no adapter", err)


def test_draft_model():
    other = tiny_llm.make(os.path.join(FOLDER.name, "other"), seed=2)
    padded = tiny_llm.make(os.path.join(FOLDER.name, "draft_padded"), padding=9)
    recurrent = tiny_llm.make(os.path.join(FOLDER.name, "draft_mamba"), kind="mamba2")
    for options in ([], ["--temperature", 0.8, "--seed", 3]):
        a = answer("-p", "Hello", "-n", 60, "--ignore-end", *options)
        for small in (MODEL, other, padded):
            out, err = run("generate", MODEL, "--json", "-p", "Hello", "-n", 60, "--ignore-end", "-v", "--draft-model", small, *options)
            check(same(a, json.loads(out)), f"the same answer with the draft model {small}", out)
            right = re.search(r"(\d+) of (\d+) drafts right", err)
            if small == MODEL: check(right and int(right[1]) > 0, "some of its drafts are right", err)
            check("draft model" in err, "its memory", err)
    _, err = run("generate", MODEL, "-p", "Hello", "--draft-model", recurrent, rc=4)
    check("recurrent layers" in err, "a recurrent draft model", err)


def test_templates():
    path = os.path.join(FOLDER.name, "own.jinja")
    with open(path, "w") as f: f.write("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    a, b = answer("--chat", "-p", "Hello", "-n", 9, "--template", path), answer("-p", "[Hello]", "-n", 9)
    check(same(a, b) and a["prompt_tokens"] == 7, "--template", (a, b))
    out, _ = run("chat", MODEL, "-n", 9, "--template", path, stdin=b"Hello\n")
    check(out.decode(errors="replace") == a["text"] + "\n", "chat --template", (out, a))
    for options, says in ((["--system", "x"], "--system needs --chat"), (["--template", path], "--template needs --chat"),
                          (["--logprobs", 3], "--logprobs needs --json")):
        _, err = run("generate", MODEL, "-p", "x", "-n", 2, *options, rc=2)
        check(says in err, says, err)
    # A penalty below 0 is a reward.
    a, b = (answer("-p", "Hello", "-n", 40, "--ignore-end", "--frequency-penalty", x) for x in (-2, 0))
    check(len(set(a["tokens"])) < len(set(b["tokens"])) or not same(a, b), "a negative penalty", (a, b))


def gguf(path, keys):
    """A GGUF file of metadata alone: texts, numbers (u32) and lists of texts."""
    def text(s): return struct.pack("<Q", len(s.encode())) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, value in keys.items():
        out += text(key)
        if isinstance(value, str): out += struct.pack("<I", 8) + text(value)
        elif isinstance(value, int): out += struct.pack("<II", 4, value)
        else: out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    with open(path, "wb") as f: f.write(out + b"\0" * (-len(out) % 32))
    return path


def test_prompt_of_gguf():
    keys = {"general.architecture": "llama", "tokenizer.ggml.tokens": ["<a>", "<s>", "</s>"], "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"}
    messages = os.path.join(FOLDER.name, "messages.json")
    with open(messages, "w") as f: json.dump([{"role": "user", "content": "Hi"}], f)
    out, _ = run("prompt", gguf(os.path.join(FOLDER.name, "t.gguf"), keys), "--messages", messages)
    check(out == b"<s>Hi</s>", "the template of a GGUF file", out)
    del keys["tokenizer.chat_template"]
    _, err = run("prompt", gguf(os.path.join(FOLDER.name, "u.gguf"), keys), "--messages", messages, rc=1)
    check("no tokenizer.chat_template" in err, "a GGUF file without one", err)
    out, _ = run("inspect", MODEL)
    check(b"tokens a second at most" in out and b"bytes a token" in out, "inspect", out)


def closed(*args, stdin=None):
    """Standard error of a run whose reader has gone before it began."""
    there, here = os.pipe()
    os.close(there)
    p = subprocess.run([TENON, *map(str, args)], stdout=here, stderr=subprocess.PIPE, input=stdin, timeout=300)
    os.close(here)
    check(p.returncode == 0, f"{args[0]} without a reader: exit status {p.returncode}", p.stderr)
    return p.stderr.decode(errors="replace")


def test_closed_output():
    # What nobody reads is not computed.
    err = closed("generate", MODEL, "-p", "Hello", "-n", 400, "--ignore-end", "--draft", 0, "-v")
    made = re.search(r"; (\d+) tokens,", err)
    check(made and int(made[1]) < 50, "generating ends with its reader", err)
    closed("chat", MODEL, "-n", 50, stdin=b"Hello\nAgain\n")


def test_perplexity():
    path = os.path.join(FOLDER.name, "text.txt")
    text = "The quick brown fox jumps over the lazy dog. " * 40
    with open(path, "w") as f: f.write(text)
    out, _ = run("perplexity", MODEL, "--file", path, "--window", 128, "--json")
    a = json.loads(out)
    check(a["windows"] == len(text) // 128 and a["tokens"] == a["windows"] * 63, "windows and tokens", a)
    check(math.isclose(a["perplexity"], math.exp(-a["mean_logprob"]), rel_tol=1e-9), "exp", a)
    b = json.loads(run("perplexity", MODEL, "--file", path, "--window", 128, "--json", "--batch", 200)[0])
    check(a["mean_logprob"] == b["mean_logprob"], "the same in other chunks", (a, b))


def test_bench():
    a = json.loads(run("bench-llm", MODEL, "-p", 64, "-n", 8, "-r", 1, "--threads", 1, "--json")[0])
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "bandwidth_share", "memory_bytes"):
        check(a.get(key, 0) > 0, key, a)


def test_bench_of_little():
    for prompt, tokens in ((0, 0), (0, 1), (1, 0), (1, 2), (511, 511)):
        a = json.loads(run("bench-llm", MODEL, "-p", prompt, "-n", tokens, "-r", 1, "--threads", 1, "--json")[0])
        check((a["prefill_tokens_per_s"] > 0) == (prompt > 0) and (a["decode_tokens_per_s"] > 0) == (tokens > 0), "what was asked for", a)


def test_wrong_input():
    cases = [
        (1, "the prompt is empty", ["-p", ""]),
        (2, "no prompt", []),
        (1, "more than the context of 512", ["-p", "x", "-n", 512]),
        (1, "the prompt has 600 tokens, and the context has room for", ["-p", "x" * 600]),
        (1, "need 2 pages, and the KV cache has 1", ["-p", "x" * 20, "-n", 20, "--pages", 1]),
        (1, "a context of 513 tokens; the model was made for 512", ["-p", "x", "--context", 513]),
        (2, "temperature is not between 0 and 100", ["-p", "x", "--temperature", 101]),
        (2, "top_p is not above 0 and at most 1", ["-p", "x", "--top-p", 2]),
        (1, "bytes besides the mapped weights", ["-p", "x", "--memory", "64K"]),
        (1, "stop text 0 is not UTF-8 of 1 to 256 bytes", ["-p", "x", "--stop", "y" * 257]),
        (2, "'bench-llm'", None),
    ]
    for rc, says, args in cases:
        out, err = run("generate", MODEL, *args, rc=rc) if args is not None else run("bench-lm", MODEL, rc=rc)
        check(not out, f"{says}: nothing on standard output", out)
        check(says in err, says, err)
    _, err = run("generate", os.path.join(FOLDER.name, "nothing"), "-p", "x", rc=1)
    check("nothing" in err, "a missing model", err)
    path = os.path.join(FOLDER.name, "bad.jsonl")
    with open(path, "w") as f: f.write('{"prompt": "a"}\n{"text": 1}\n')
    _, err = run("generate", MODEL, "--file", path, rc=1)
    check("line 2 is neither a string nor an object" in err, "a wrong line", err)
    cut = os.path.join(FOLDER.name, "cut")
    os.makedirs(cut)
    for name in os.listdir(MODEL):
        data = open(os.path.join(MODEL, name), "rb").read()
        open(os.path.join(cut, name), "wb").write(data[: len(data) // 2] if name == "model.safetensors" else data)
    _, err = run("generate", cut, "-p", "x", rc=1)
    check("model.safetensors" in err, "a cut file", err)


for test in (test_answers, test_batches, test_text, test_padding, test_chat, test_adapter, test_draft_model, test_templates, test_prompt_of_gguf, test_closed_output, test_perplexity, test_bench, test_bench_of_little,
             test_wrong_input): test()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
