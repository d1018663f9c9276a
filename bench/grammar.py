#!/usr/bin/env python3
"""grammar.py TOKENIZER [--generated N] [--runs N] [--xgrammar] [--tool PROGRAM] -- structured output under random logits.

Every schema of Debian's json-schema-test-suite (draft2020-12, else the newest there) and N generated ones, each with
max_tokens of 8, 12, 20, 40 and 100: answers are drawn token by token from the masks (build/tenon-grammar) and judged by
Python's jsonschema and by Tenon's own validator.  A schema may be refused before the first token; then nothing is drawn.
At the end: how many were refused and why, the times of compilation and of masks, and every answer that is not valid.
With --xgrammar: instead, masks of regular expressions and EBNF grammars beside those of the package xgrammar, where it
is installed; the tokenizer is a .tiktoken file.

The tokenizer: any that Tenon reads, with a vocabulary as large as the times are to be for.
"""
import argparse, collections, glob, json, os, random, subprocess, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SUITE = "/usr/share/json-schema-test-suite/tests"
MAX_TOKENS = (8, 12, 20, 40, 100)


class Tool:
    def __init__(self, program, tokenizer):
        self.p = subprocess.Popen([program, tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, **request):
        self.p.stdin.write(json.dumps(request).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line: sys.exit(f"grammar: the program ended at {request}")
        return json.loads(line)


def suite_schemas():
    newest = sorted(d for d in os.listdir(SUITE) if d.startswith("draft") and d != "draft-next" and os.path.isdir(os.path.join(SUITE, d)))
    drafts = [d for d in newest if d == "draft2020-12"] or newest[-1:]
    for path in sorted(glob.glob(os.path.join(SUITE, drafts[0], "**", "*.json"), recursive=True)):
        for case in json.load(open(path, encoding="utf-8")):
            yield os.path.basename(path) + ": " + case["description"], case["schema"]


# ---- generated schemas ----
WORDS = ["id", "name", "age", "tags", "a b", "é", "value", "x", "list", "kind", "no\nte", 'q"q']
PATTERNS = ["^[a-z]+$", "\\d{3}", "^(foo|bar)", "x$", "^[^0-9]*$", "^\\w+@\\w+$", "a|b", "^.{2,4}$", "^\\S+$", "[\\u00e0-\\u00ff]"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email", "uri", "hostname"]


def scalar(r):
    return r.choice([None, True, False, 0, 1, -7, 3.5, "", "a", "é\n", "long text \u20ac", 1e10])


def generated(r, depth=0):
    kind = r.choice(["string", "integer", "number", "boolean", "null", "enum", "const", "any"] + (["object", "array", "anyOf", "allOf", "oneOf", "types", "ref"] * 2 if depth < 3 else []))
    if kind == "any": return r.choice([True, {}, {"title": "x"}])
    if kind == "enum": return {"enum": [scalar(r) for _ in range(r.randint(1, 5))]}
    if kind == "const": return {"const": r.choice([scalar(r), [1, {"a": None}], {"b": [True]}])}
    if kind == "types": return {"type": r.sample(["string", "integer", "null", "boolean", "object", "array", "number"], 2)}
    if kind == "ref": return {"$ref": "#/$defs/" + r.choice("pq")}
    if kind == "anyOf": return {"anyOf": [generated(r, depth + 1) for _ in range(r.randint(1, 3))]}
    if kind == "oneOf":
        return {"oneOf": [{"type": "object", "properties": {"t": {"const": i}, "v": generated(r, depth + 1)}, "required": ["t"]} for i in range(r.randint(1, 3))]}
    if kind == "allOf": return {"allOf": [generated(r, depth + 1), {"title": "all"}]}
    s = {"type": kind}
    if kind == "string":
        if r.random() < 0.4: s["minLength"] = r.randint(0, 4)
        if r.random() < 0.4: s["maxLength"] = r.randint(4, 30)
        if r.random() < 0.3: s["pattern"] = r.choice(PATTERNS)
        elif r.random() < 0.2: s["format"] = r.choice(FORMATS)
    if kind in ("integer", "number"):
        lo = r.choice([r.randint(-200, 200), round(r.uniform(-50, 50), 2), -0.001, 0])
        if r.random() < 0.5: s[r.choice(["minimum", "exclusiveMinimum"])] = lo
        if r.random() < 0.5: s[r.choice(["maximum", "exclusiveMaximum"])] = lo + r.choice([1, 2.5, 1000, 99999])
        if r.random() < 0.2: s["multipleOf"] = r.choice([2, 3, 7, 10, 25])
    if kind == "array":
        if r.random() < 0.7: s["items"] = generated(r, depth + 1)
        if r.random() < 0.3: s["prefixItems"] = [generated(r, depth + 1) for _ in range(r.randint(1, 3))]
        if r.random() < 0.4: s["minItems"] = r.randint(0, 3)
        if r.random() < 0.4: s["maxItems"] = r.randint(3, 6)
        if r.random() < 0.15: s["contains"] = {"type": "integer"}
        if r.random() < 0.15: s["items"], s["uniqueItems"] = {"enum": [1, 2, "a", None]}, True
    if kind == "object":
        names = r.sample(WORDS, r.randint(0, 5))
        s["properties"] = {n: generated(r, depth + 1) for n in names}
        s["required"] = [n for n in names if r.random() < 0.5] + (["other"] if r.random() < 0.1 else [])
        if r.random() < 0.6: s["additionalProperties"] = r.choice([False, False, True, {"type": "integer"}])
        if r.random() < 0.2: s["patternProperties"] = {r.choice(["^x", "e$", "^[a-z]$"]): generated(r, depth + 1)}
        if r.random() < 0.1: s["propertyNames"] = {"pattern": "^[a-z]+$"}
        if r.random() < 0.15: s["minProperties"] = r.randint(1, 3)
        if r.random() < 0.15: s["maxProperties"] = r.randint(2, 5)
        if r.random() < 0.1 and len(names) > 1: s["dependentRequired"] = {names[0]: [names[1]]}
    return s


def generated_schemas(n):
    for i in range(n):
        r = random.Random(i)
        s = generated(r)
        if isinstance(s, bool): s = {"allOf": [s]}
        s = dict(s)
        s["$defs"] = {"p": generated(r, 2), "q": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/q"}}, "additionalProperties": False}}
        yield f"generated {i}", s


# ---- judging ----
def unique_keys(pairs):
    if len({k for k, _ in pairs}) != len(pairs): raise ValueError("a key twice")
    return dict(pairs)


def judge(schema, answer):
    """None, or what is wrong."""
    import jsonschema
    try:
        value = json.loads(answer.decode("utf-8"), object_pairs_hook=unique_keys)
        jsonschema.Draft202012Validator(schema).validate(value)
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:200]}"
    return None


def percentile(times, p):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * p))] if times else 0


def run(tool, schemas, runs):
    refused, compile_us, mask_us, bad, answers, short = collections.Counter(), [], [], [], 0, 0
    for name, schema in schemas:
        text = json.dumps(schema, ensure_ascii=False)
        for most in MAX_TOKENS:
            got = tool.ask(kind="schema", text=text, max=most, runs=runs, seed=most)
            if got is None:
                bad.append((name, most, "the request was not read", text))
                break
            compile_us.append(got["compile_us"])
            if got["status"] != "ok":
                refused[got["message"].split("': ")[0].split("/")[-1] + ": " + got["message"].split("': ")[-1][:60].strip()] += 1
                if got["status"] in ("internal", "memory"): bad.append((name, most, got["message"], text))
                break
            if "answers" not in got:
                short += 1
                continue
            mask_us += got["mask_us"]
            if got["wrong"]: bad.append((name, most, got["wrong"], text))
            for answer, own in zip(got["answers"], got.get("judged", [])):
                answers += 1
                answer = bytes.fromhex(answer)
                wrong = judge(schema, answer)
                if wrong: bad.append((name, most, wrong, answer.decode("utf-8", "replace") + "  <- " + text))
                elif own != "ok": bad.append((name, most, "own validator: " + own, answer.decode("utf-8", "replace") + "  <- " + text))
    print(f"{answers} answers, {len(bad)} wrong; {sum(refused.values())} schemas refused, {short} times more tokens needed than there were")
    for why, n in refused.most_common(40): print(f"  refused {n}: {why}")
    for label, times in (("compile", compile_us), ("mask", mask_us)):
        print(f"{label}: {len(times)} times, median {percentile(times, 0.5):.1f} us, p99 {percentile(times, 0.99):.1f} us, most {percentile(times, 1):.1f} us")
    for name, most, why, text in bad[:20]: print(f"WRONG {name} (max_tokens {most}): {why}\n    {text[:600]}")
    return not bad


# ---- masks beside xgrammar's ----
SHARED = [
    ("regex", "[a-z]{3}-\\d{2,4}"), ("regex", "(ab|c)+d?"), ("regex", "[^\\n\"]*\"x"), ("regex", "\\w+@\\w+\\.(com|org)"),
    ("regex", "-?(0|[1-9][0-9]*)(\\.[0-9]+)?"), ("regex", "[\\u4e00-\\u9fff]{2,5}!"), ("regex", "(yes|no|maybe),? (sir|madam)"),
    ("gbnf", 'root ::= expr\nexpr ::= term ("+" term)*\nterm ::= [0-9]+ | "(" expr ")"'),
    ("gbnf", 'root ::= "a" root "b" | "c"'),
    ("gbnf", 'root ::= word (" " word)* "."\nword ::= [a-zA-Z]+ | [^a-z .\\x00-\\x1f]{1,3}'),
    ("gbnf", 'root ::= value\nvalue ::= "{" (pair ("," pair)*)? "}" | "[" (value ("," value)*)? "]" | str | [0-9]+ | "true" | "null"\n'
             'pair ::= str ":" value\nstr ::= "\\"" ([^"\\\\\\x00-\\x1f] | "\\\\" ["\\\\/bfnrt])* "\\""'),
    ("gbnf", 'root ::= ("if " cond " then " stmt (" else " stmt)?)\ncond ::= [a-z]+ ("<" | ">" | "==") [0-9]+\nstmt ::= [a-z]+ ":=" [0-9]{1,4} | "{" stmt (";" stmt)* "}"'),
    ("gbnf", 'root ::= "\u00e9" [\u00e0-\u00ff]* "\\n"'),
]


def compare(tool, tokenizer):
    """Masks of random answers beside xgrammar's, for a .tiktoken file; without the package nothing is compared."""
    try:
        import base64, torch, xgrammar
    except ImportError as e:
        print(f"== xgrammar: skipped ({e})")
        return True
    lines = [line.split() for line in open(tokenizer, "rb").read().splitlines() if line]
    vocab = [base64.b64decode(t) for t, _ in sorted(lines, key=lambda x: int(x[1]))] + [b"<end>"]
    info = xgrammar.TokenizerInfo(vocab, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[len(vocab) - 1])
    compiler = xgrammar.GrammarCompiler(info)
    masks = different = 0
    for kind, text in SHARED:
        grammar = compiler.compile_regex(text) if kind == "regex" else compiler.compile_grammar(text)
        for seed in range(3):
            r, matcher, tokens, theirs = random.Random(seed), xgrammar.GrammarMatcher(grammar), [], []
            bits = xgrammar.allocate_token_bitmask(1, len(vocab))
            for _ in range(24):
                matcher.fill_next_token_bitmask(bits)
                mask = int.from_bytes(bits.numpy().tobytes(), "little") & ((1 << (len(vocab) - 1)) - 1)
                theirs.append(mask)
                allowed = [i for i in range(len(vocab) - 1) if mask >> i & 1] if mask.bit_count() < 3000 else [i for i in (r.randrange(len(vocab) - 1) for _ in range(4000)) if mask >> i & 1]
                if not allowed: break
                tokens.append(r.choice(allowed))
                matcher.accept_token(tokens[-1])
            got = tool.ask(kind=kind, text=text, tokens=tokens)
            ours = [int.from_bytes(bytes.fromhex(m), "little") & ((1 << (len(vocab) - 1)) - 1) for m in got.get("masks", [])]
            for i, mask in enumerate(theirs):
                masks += 1
                if i >= len(ours) or ours[i] != mask:
                    different += 1
                    more, less = (ours[i] & ~mask, mask & ~ours[i]) if i < len(ours) else (0, mask)
                    some = [vocab[k] for k in range(len(vocab) - 1) if (more | less) >> k & 1][:5]
                    print(f"DIFFERENT {kind} {text!r} behind {b''.join(vocab[t] for t in tokens[:i])!r}: {more.bit_count()} more, {less.bit_count()} less: {some} {got.get('message', '')}")
                    break
    print(f"== xgrammar {xgrammar.__version__ if hasattr(xgrammar, '__version__') else ''}: {masks} masks of {len(SHARED)} forms, {different} different")
    return not different


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tokenizer")
    p.add_argument("--generated", type=int, default=500)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--no-suite", action="store_true")
    p.add_argument("--xgrammar", action="store_true")
    p.add_argument("--tool", default=os.path.join(ROOT, "build", "tenon-grammar"))
    o = p.parse_args()
    ok = True
    if o.xgrammar: sys.exit(not compare(Tool(o.tool, o.tokenizer), o.tokenizer))
    if os.path.isdir(SUITE) and not o.no_suite:
        print("== json-schema-test-suite")
        ok &= run(Tool(o.tool, o.tokenizer), suite_schemas(), o.runs)
    print("== generated")
    ok &= run(Tool(o.tool, o.tokenizer), generated_schemas(o.generated), o.runs)
    sys.exit(not ok)


main()
