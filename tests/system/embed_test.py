#!/usr/bin/env python3
"""embed_test.py TENON -- `tenon embed` and `tenon rerank` on tiny models of random weights (tiny_llm.py).

An encoder is computed here once more, by the standard library alone.  The same text must give the same bits whatever runs
beside it.  The last line is `N passed, N failed`.
"""
import json, math, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_llm
from tiny_llm import BYTES, CONTEXT, HEADS, HIDDEN, LAYERS

TENON = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
BERT, RANK, LLAMA = (tiny_llm.make(os.path.join(FOLDER.name, kind), kind=kind) for kind in ("bert", "rank", "llama"))
BEGIN, END = BYTES + 1, BYTES + 2
passed, failed = 0, 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:600]}")


def run(*args, rc=0):
    p = subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=300)
    check(p.returncode == rc, f"{' '.join(map(str, args))}: exit status {p.returncode}, not {rc}", p.stderr)
    return p.stdout, p.stderr


def vectors(model, texts, *args):
    out, _ = run("embed", model, *[a for t in texts for a in ("-p", t)], *args)
    return [json.loads(line)["embedding"] for line in out.splitlines()]


# ---- the reference ----


def times(w, x, b): return [sum(a * c for a, c in zip(row, x)) + d for row, d in zip(w, b)]


def normed(x, w, b):
    mean = sum(x) / len(x)
    by = 1 / math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + 1e-12)
    return [(a - mean) * by * s + t for a, s, t in zip(x, w, b)]


def weights(kind):
    found = {}
    for name, shape, v in getattr(tiny_llm, kind)(1, tiny_llm.VOCAB):
        found[name] = [v[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])] if len(shape) == 2 else v
    return found


def attention(q, k, v):
    size, out = HIDDEN // HEADS, [[] for _ in q]
    for h in range(0, HIDDEN, size):
        for i, row in enumerate(q):
            e = [math.exp(sum(row[h + d] * other[h + d] for d in range(size)) / math.sqrt(size)) for other in k]
            out[i] += [sum(p * other[h + d] for p, other in zip(e, v)) / sum(e) for d in range(size)]
    return out


def encoder(w, ids, types):
    """The last hidden states of tokens."""

    def linear(name, rows): return [times(w[name + ".weight"], x, w[name + ".bias"]) for x in rows]

    def added(name, rows, more):
        return [normed([a + b for a, b in zip(x, y)], w[name + ".weight"], w[name + ".bias"]) for x, y in zip(rows, more)]

    at = "bert.embeddings."
    tables = [w[f"{at}{t}_embeddings.weight"] for t in ("word", "position", "token_type")]
    x = added(at + "LayerNorm", [[a + b for a, b in zip(tables[0][t], tables[1][i])] for i, t in enumerate(ids)], [tables[2][t] for t in types])
    for layer in range(LAYERS):
        at = f"bert.encoder.layer.{layer}."
        y = attention(*(linear(f"{at}attention.self.{part}", x) for part in ("query", "key", "value")))
        x = added(at + "attention.output.LayerNorm", x, linear(at + "attention.output.dense", y))
        y = [[a * 0.5 * (1 + math.erf(a / math.sqrt(2))) for a in row] for row in linear(at + "intermediate.dense", x)]
        x = added(at + "output.LayerNorm", x, linear(at + "output.dense", y))
    return x


def near(a, b): return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) <= 1e-5 * max(map(abs, b))


TEXTS = ["Hello", "the clocks were striking thirteen", "x", "It was a bright cold day in April"]


def test_encoder():
    w = weights("bert")
    for i, text in enumerate(TEXTS):
        ids = [BEGIN, *text.encode(), END]
        rows = encoder(w, ids, [0] * len(ids))
        mean = [sum(c) / len(rows) for c in zip(*rows)]
        length = math.sqrt(sum(a * a for a in mean))
        for how, want in (("mean", mean), ("first", rows[0]), ("last", rows[-1])):
            check(near(vectors(BERT, [text], "--raw", "--pooling", how)[0], want), f"text {i}, {how}")
            if i: break
        check(near(vectors(BERT, [text])[0], [a / length for a in mean]), f"text {i}, the default: a mean of length 1")


def test_scores():
    w, query, want = weights("rank"), "which day", []
    for text in TEXTS:
        ids = [BEGIN, *query.encode(), END, *text.encode(), END]
        second = len(query) + 2
        first = encoder(w, ids, [int(i >= second) for i in range(len(ids))])[0]
        pooled = map(math.tanh, times(w["bert.pooler.dense.weight"], first, w["bert.pooler.dense.bias"]))
        want.append(times(w["classifier.weight"], list(pooled), w["classifier.bias"])[0])
    texts = [a for t in TEXTS for a in ("-p", t)]
    found = [json.loads(line) for line in run("rerank", RANK, "-q", query, *texts, "--json")[0].splitlines()]
    check([f["scores"][0] for f in found] == sorted((f["scores"][0] for f in found), reverse=True), "the best first", found)
    check(all(abs(f["scores"][0] - want[f["index"]]) < 1e-5 and f["text"] == TEXTS[f["index"]] for f in found), "scores", (found, want))
    out, _ = run("rerank", RANK, "-q", query, *texts, "-n", 2)
    check([int(line.split()[1]) for line in out.splitlines()] == [f["index"] for f in found[:2]], "the best two as text", out)


def test_company():
    texts = [f"text {i} " * (1 + i * 7 % 11) for i in range(14)]
    for model in BERT, LLAMA:
        for how in "mean", "first", "last":
            together = vectors(model, texts, "--pooling", how)
            for options in (["--threads", 1], ["--threads", 3], ["--sequences", 2], ["--batch", 32], ["--pages", 20]):
                check(vectors(model, texts, "--pooling", how, *options) == together, f"{model}: the same vectors with {options}")
            check([vectors(model, [t], "--pooling", how)[0] for t in texts[:3]] == together[:3], f"{model}: alone")
    path = os.path.join(FOLDER.name, "texts.jsonl")
    with open(path, "w") as f: f.write("\n".join(json.dumps({"text": t} if i % 2 else t) for i, t in enumerate(texts)))
    check([json.loads(x)["embedding"] for x in run("embed", BERT, "--file", path)[0].splitlines()] == vectors(BERT, texts), "--file")


def test_wrong_input():
    long = "a" * (CONTEXT + 5)
    for args, what, rc in ((("embed", BERT, "-p", long), f"room for {CONTEXT}", 1), (("embed", BERT), "no text", 2),
                           (("rerank", BERT, "-q", "a", "-p", "b"), "no classifier", 4), (("rerank", RANK, "-p", "b"), "no query", 2),
                           (("generate", BERT, "-p", "a"), "generates nothing", 4), (("embed", BERT, "-p", "a", "--pooling", "max"), "max", 2)):
        _, err = run(*args, rc=rc)
        check(what in err, f"{args[0]}: the message has '{what}'", err)
    cut = vectors(BERT, [long, long[: CONTEXT - 2]], "--truncate")
    check(cut[0] == cut[1], "--truncate")
    pair = ["-q", "which", "-p", long, "-p", long[: CONTEXT - 8], "--truncate", "--json"]
    found = [json.loads(line)["scores"] for line in run("rerank", RANK, *pair)[0].splitlines()]
    check(found[0] == found[1], "--truncate of documents", found)


def test_folders():
    """What modules.json says."""
    os.makedirs(os.path.join(BERT, "1_Pooling"))

    def modules(*kinds): tiny_llm.write(BERT, "modules.json", [{"type": "x.models." + k, "path": "" if k == "Transformer" else "1_Pooling"} for k in kinds])

    def pooling(**modes): tiny_llm.write(os.path.join(BERT, "1_Pooling"), "config.json", {f"pooling_mode_{k}": v for k, v in modes.items()})

    modules("Transformer", "Pooling", "Normalize")
    for key, how in (("cls_token", "first"), ("mean_tokens", "mean"), ("lasttoken", "last")):
        pooling(**{key: True})
        check(vectors(BERT, ["Hello"]) == vectors(BERT, ["Hello"], "--pooling", how), f"pooling_mode_{key}")
    pooling(max_tokens=True)
    check("max_tokens" in run("embed", BERT, "-p", "a", rc=4)[1], "a pooling that is not there")
    pooling(mean_tokens=True)
    modules("Transformer", "Pooling", "Dense")
    check("Dense" in run("embed", BERT, "-p", "a", rc=4)[1], "a module that is not there")


for test in test_encoder, test_scores, test_company, test_wrong_input, test_folders: test()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
