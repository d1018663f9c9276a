#!/usr/bin/env python3
"""chat_template_test.py [PROGRAM] [--data FOLDER] [--seed N] [--count N] -- chat templates against Python's jinja2.

jinja2 gets the settings of Hugging Face transformers (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls,
`generation` blocks, its own tojson, raise_exception, strftime_now).  Three parts, each byte for byte, or both refuse:

  templates    every template of FOLDER (.jinja), each with 20 conversations; skipped where the folder is not there
  expressions  `count` random expressions over random values, with every filter, test and method
  statements   `count`/4 random templates: loops, macros, scopes, white space control

`--seed` varies what is random.  What Tenon refuses by name, or for a limit, is counted and may not exceed one in ten.  Needs jinja2.
"""
import argparse, datetime, glob, json, os, random, subprocess, sys, tempfile, warnings

try:
    import jinja2, jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("chat_template_test: skipped, jinja2 is not there\n0 passed, 0 failed")
    sys.exit(0)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chat_template_random as make

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
warnings.simplefilter("ignore", SyntaxWarning)  # of Python, which compiles what jinja2 writes
NOW = 1735732805  # 2025-01-01 12:00:05
count = {"passed": 0, "failed": 0}


class Generation(jinja2.ext.Extension):
    """As transformers' AssistantTracker parses it: a call block around the body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_generation_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _generation_support(self, context, caller):
        return caller()


class Refused(Exception):
    pass


def raise_exception(message):
    raise Refused(str(message))


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(format)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = strftime_now


def judge(source, variables, cache={}):
    """What jinja2 makes of it: (text, None) or (None, reason)."""
    try:
        if source not in cache: cache[source] = ENV.from_string(source)
        text = cache[source].render(**{"tools": None, "documents": None, **variables})
        text.encode("utf-8")
        return text, None
    except Refused as e:
        return None, "refused: " + str(e)
    except Exception as e:
        cache.setdefault(source, None)
        if cache[source] is None: del cache[source]
        return None, f"{type(e).__name__}: {e}"


def ours(cases):
    """Tenon's answers to (source, variables), by one process."""
    with tempfile.TemporaryDirectory() as tmp:
        lines, none = os.path.join(tmp, "lines"), os.path.join(tmp, "none.jinja")
        open(none, "w").write("")
        with open(lines, "w", encoding="utf-8") as f:
            for source, variables in cases: f.write(json.dumps({**variables, "chat_template": source}, ensure_ascii=False) + "\n")
        p = subprocess.run([ARGS.program, "prompt", none, "--lines", lines, "--now", str(NOW)], capture_output=True)
        out = p.stdout.decode("utf-8").split("\n")[:-1]
        if p.returncode or len(out) != len(cases):
            print(f"FAIL {ARGS.program}: status {p.returncode}, {len(out)} of {len(cases)} answers\n{p.stderr.decode()}")
            if len(out) < len(cases): print("     at", repr(cases[len(out)][0]))
            count["failed"] += 1
        return [json.loads(x) for x in out]


def compare(name, cases, say=20):
    """Compares all; what Tenon alone refuses by name or for a limit is counted apart."""
    left = 0
    for (source, variables), mine in zip(cases, ours(cases)):
        text, why = judge(source, variables)
        kind = mine.get("kind")
        if text is not None and mine.get("text") == text or text is None and kind: ok = True
        elif kind in ("unsupported", "limit") and text is not None: ok, left = True, left + 1
        else: ok = False
        if why and why.startswith("refused: ") and ok: ok = kind in ("unsupported", "limit") or kind == "refused" and mine["error"] == why[9:]
        count["passed" if ok else "failed"] += 1
        if not ok and (say := say - 1) >= 0:
            print(f"FAIL {name if isinstance(name, str) else name[(source, id(variables))]}: {source[:1500] if len(source) < 1500 else ''}")
            print(f"     with   {json.dumps(variables, ensure_ascii=False)[:700]}")
            print(f"     jinja2 {text!r:.1500}" if text is not None else f"     jinja2 {why}")
            print(f"     tenon  {mine.get('text', mine)!r:.1500}")
    return left


def templates(folder):
    names, cases = {}, []
    talks = make.conversations()
    files = sorted(glob.glob(os.path.join(folder, "*.jinja")))
    if not files: print(f"chat_template_test: no templates in {folder}; that part is skipped")
    for path in files:
        source = open(path, encoding="utf-8").read()
        for title, variables in talks.items():
            names[(source, id(variables))] = f"{os.path.basename(path)} with '{title}'"
            cases.append((source, variables))
    if not cases: return
    left = compare(names, cases)
    done = sum(judge(s, v)[0] is not None for s, v in cases)
    print(f"{len(files)} templates x {len(talks)} conversations: {done} rendered, {len(cases) - done} refused by jinja2, {left} by Tenon alone")
    if left:
        print("FAIL a published template is not supported")
        count["failed"] += 1


def random_part(name, of, n):
    cases = [of(random.Random(f"{name} {ARGS.seed} {i}")) for i in range(n)]
    left = compare(name, cases)
    done = sum(judge(s, v)[0] is not None for s, v in cases)
    print(f"{n} random {name}: {done} rendered, {n - done} refused by jinja2, {left} by Tenon alone")
    if left * 10 > n:
        print(f"FAIL too many {name} are not supported")
        count["failed"] += 1


parser = argparse.ArgumentParser()
parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "build", "tenon"))
parser.add_argument("--data", default=os.path.join(os.environ.get("TENON_DATA", os.path.join(ROOT, "..", "shared", "data")), "chat-templates"))
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=4000)
ARGS = parser.parse_args()
templates(ARGS.data)
random_part("expressions", make.expression_case, ARGS.count)
random_part("statements", make.statement_case, ARGS.count // 4)
print(f"{count['passed']} passed, {count['failed']} failed")
sys.exit(count["failed"] > 0)
