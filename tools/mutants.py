#!/usr/bin/env python3
"""mutants.py -- plants faults in the verifiers, the planner and the rules, and counts those that the tests catch.

usage: tools/mutants.py [--count N] [--list] [--only NUMBER...] [--again]

Copies of the sources of GROUPS are rewritten so that each of N faults (COUNT) is in the code and switched on by the environment:
`a < b` becomes `(mutant(17) ? a <= b : a < b)`.  They are compiled once, with gcc -O1 and traps of UndefinedBehaviorSanitizer, and linked with
the objects of the release build: build/mutants/tenon-tests.  First every test of a group runs once and notes which faults it reaches.  Then each fault is switched on
and the group's tests that reach it run, the quick ones first, for at most SECONDS of processor time.  A fault is caught when a test
fails, the program dies, or it does not end.

The kinds of fault:
  negate    if (c)      if (!c)                 equal     a == b      a != b, and the other way
  return    return c;   return !c;  of a bool   boundary  a < b       a <= b, and so on
  drop      a statement is left out             literal   n           n + 1

A fault that nothing can notice is a row of tests/mutants.txt, with the reason: it is listed, and counts neither as caught nor as missed.

--list prints the faults and runs nothing, --only runs some, --again uses what was built and reached before.
The result goes to build/mutants/result.txt.  The exit status is 1 when fewer than CAUGHT_MIN % were caught.
"""
import concurrent.futures, functools, glob, hashlib, json, os, re, resource, shlex, subprocess, sys, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.path.join(ROOT, "build", "mutants")
EQUIVALENT = os.path.join(ROOT, "tests", "mutants.txt")
COUNT, SECONDS, CAUGHT_MIN = 330, 10, 90

# name, sources, share of the faults, tests (folders below tests/, or a file without _test.c)
GROUPS = (
    ("graph verifier", ("src/ir/verify.c",), 0.10, ("ir", "rules", "passes", "frontends/onnx")),
    ("plan verifier", ("src/plan/verify.c",), 0.15, ("plan",)),
    ("loop verifier", ("src/loop/verify.c", "src/loop/verify_race.c", "src/loop/verify_tile.c"), 0.25, ("loop",)),
    ("planner", ("src/plan/plan.c", "src/plan/live.c", "src/plan/order.c", "src/plan/pack.c", "src/plan/concurrent.c", "src/plan/placement.c"),
     0.20, ("plan", "cost", "system/graphfuzz")),
    ("rules", ("src/rules/*.c", "src/rules/recognise/*.c"), 0.30, ("rules", "text", "passes", "system/graphfuzz")),
)
LEFT_OUT = ("graphfuzz_test.compiled_", "graphfuzz_test.planted_")  # these take long
HEADER = """#include <stdbool.h>
extern int tenon_mutant;  // the fault that is on; -1: note what is reached
extern unsigned char tenon_mutant_reached[];
static inline bool mutant(int n) {
  if (tenon_mutant >= 0) return tenon_mutant == n;
  tenon_mutant_reached[n] = 1;
  return false;
}
"""
SWITCH = """#include "mutant.h"
#include <stdio.h>
#include <stdlib.h>
int tenon_mutant;
unsigned char tenon_mutant_reached[%d + 1];
static void note(void) {
  const char *path = getenv("TENON_MUTANT_REACHED");
  FILE *f = path ? fopen(path, "w") : NULL;
  for (int i = 0; f && i <= %d; i++)
    if (tenon_mutant_reached[i]) fprintf(f, "%%d\\n", i);
  if (f) fclose(f);
}
__attribute__((constructor)) static void start(void) {
  const char *number = getenv("TENON_MUTANT");
  tenon_mutant = number ? atoi(number) : 0;
  if (tenon_mutant < 0) atexit(note);
}
"""

# ---- where faults can be ----

TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|->|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\+\+|--|.', re.S)
SWAP = {"==": ("!=", "equal"), "!=": ("==", "equal"), "<": ("<=", "boundary"), "<=": ("<", "boundary"), ">": (">=", "boundary"), ">=": (">", "boundary")}
BEFORE, AFTER = {"(", "&&", "||", "return", ";", ",", "?", "="}, {")", "&&", "||", ";", ",", "?"}
NEVER = {"CHECK", "fail", "graph_fail", "diag_init", "va_start", "va_end", "assert", "arena_deinit", "mem_free", "trap_leave", "trap_enter"}


class Text:
    """A source as tokens: (text, offset), comments and space left out, and the functions' bodies among them."""

    def __init__(self, path):
        self.path, self.text = path, open(os.path.join(ROOT, path), encoding="utf-8").read()
        blank = re.sub(r"(?m)^[ \t]*#(?:\\\n|.)*", lambda m: re.sub(r"[^\n]", " ", m[0]), self.text)  # no preprocessor lines
        self.tokens = [(m[0], m.start()) for m in TOKEN.finditer(blank) if not m[0].isspace() and not m[0].startswith(("//", "/*"))]
        self.pair = {}
        stack = []
        for i, (t, _) in enumerate(self.tokens):
            if t in "([{": stack.append(i)
            elif t in ")]}" and stack:
                j = stack.pop()
                self.pair[i], self.pair[j] = j, i

    def line(self, i): return self.text.count("\n", 0, self.tokens[i][1]) + 1

    def bodies(self):
        """(first token, last token, returns bool) of each function."""
        i = 0
        while i < len(self.tokens):
            if self.tokens[i][0] != "{":
                i += 1
                continue
            end = self.pair.get(i, len(self.tokens) - 1)
            if i and self.tokens[i - 1][0] == ")":
                name = self.pair[i - 1] - 1  # of the function, behind its type
                yield i, end, self.tokens[name - 1][0] == "bool"
            i = end + 1

    def operand(self, i, step):
        """The index of the last token of the simple operand that starts at i, walking by step; None: it is not simple."""
        last = None
        while 0 <= i < len(self.tokens):
            t = self.tokens[i][0]
            if t in (")", "]") if step < 0 else t in ("(", "["):
                i = self.pair.get(i)
                if i is None: return None
                last, i = i, i + step
                if step < 0 and not re.match(r"[A-Za-z_]\w*$|[\])]$", self.tokens[i][0]): return None if self.tokens[last][0] == "[" else last
                continue
            if re.match(r"[A-Za-z_0-9]", t):
                last, i = i, i + step
                nxt = self.tokens[i][0] if 0 <= i < len(self.tokens) else ""
                if nxt in ("->", "."): i += step
                elif not (step > 0 and nxt in ("(", "[")): return last
                continue
            return last
        return last


def sites(source):
    """(kind, line, [(from, to, text with %d)]) of every fault that can be planted."""
    T = source.tokens
    at, end_of = lambda i: T[i][1], lambda i: T[i][1] + len(T[i][0])
    for begin, end, returns_bool in source.bodies():
        for i in range(begin + 1, end):
            t, before = T[i][0], T[i - 1][0]
            statement = before in ("{", "}", ";")
            if t == "if" and T[i + 1][0] == "(":
                close = source.pair[i + 1]
                yield "negate", i, [(end_of(i + 1), end_of(i + 1), "mutant(%d) != !!("), (at(close), at(close), ")")]
            elif t == "return" and returns_bool and T[i + 1][0] != ";":
                k = i + 1
                while T[k][0] != ";": k = source.pair[k] + 1 if T[k][0] in "([{" else k + 1
                yield "return", i, [(at(i + 1), at(i + 1), "mutant(%d) != !!("), (at(k), at(k), ")")]
            elif t in SWAP:
                left, right = source.operand(i - 1, -1), source.operand(i + 1, 1)
                if left is None or right is None or T[left - 1][0] not in BEFORE or T[right + 1][0] not in AFTER: continue
                a, b, (other, kind) = source.text[at(left):at(i)], source.text[end_of(i):end_of(right)], SWAP[t]
                if "\n" in a + b: continue
                yield kind, i, [(at(left), end_of(right), "(mutant(%d) ? " + a + other + b + " : " + a + t + b + ")")]
            elif t.isdigit() and before in ("+", "-", "<", ">", "<=", ">=", "==", "*") and T[i + 1][0] in (")", ";", ",", "&&", "||"):
                row = source.text[source.text.rfind("\n", 0, at(i)) + 1:source.text.find("\n", at(i))]
                if not re.search(r"\b(static|enum|case)\b|\{", row): yield "literal", i, [(at(i), end_of(i), f"({t} + mutant(%d))")]
            elif statement and re.match(r"[a-z_A-Z]\w*$", t) and t not in NEVER:
                k = source.operand(i, 1)
                if k is None or k + 1 >= end: continue
                call = T[k][0] == ")" and T[k + 1][0] == ";"
                if call or T[k + 1][0] in ("+=", "-=", "|=", "&=", "*="):
                    yield "drop", i, [(at(i), at(i), "if (!mutant(%d)) ")]


def fault_text(source, kind, line, edits):
    """The line, with the fault in it."""
    begin = source.text.rfind("\n", 0, edits[0][0]) + 1
    end = source.text.find("\n", edits[-1][1])
    text, at = "", begin
    plain = {"negate": ("!(", ")"), "return": ("!(", ")"), "drop": ("/* dropped: */ ",)}.get(kind)
    for k, (a, b, new) in enumerate(edits):
        text += source.text[at:a] + (plain[k] if plain else re.sub(r"mutant\(%d\)", "1", new) if kind == "literal" else new.split(" ? ", 1)[1].split(" : ")[0])
        at = b
    return " ".join((text + source.text[at:end]).split())[:140]


def choose(count):
    """The faults, in the order of their numbers from 1: (group, source, kind, line, edits, key)."""
    faults = []
    for group, patterns, share, _ in GROUPS:
        found, seen = [], set()
        for path in sorted(p for pattern in patterns for p in glob.glob(os.path.join(ROOT, pattern))):
            source = Text(os.path.relpath(path, ROOT))
            for kind, i, edits in sites(source):
                row = source.text.split("\n")[source.line(i) - 1].strip()
                # By a hash of the line: a change elsewhere in the file keeps the choice.
                key = hashlib.md5(f"{source.path} {kind} {row} {edits[0][2]}".encode()).hexdigest()
                if key not in seen and "CHECK(" not in row: found.append((key, group, source, kind, source.line(i), edits))
                seen.add(key)
        # Four of five faults change a decision or leave something out; the rest are off by one.
        near = [f for f in sorted(found, key=lambda f: f[0]) if f[3] in ("boundary", "literal")]
        plain = [f for f in sorted(found, key=lambda f: f[0]) if f[3] not in ("boundary", "literal")]
        want = round(count * share)
        picked = plain[:want - min(len(near), want // 5)] + near[:want // 5]
        picked += (plain[len(picked):] + near[want // 5:])[:want - len(picked)]
        taken = []  # edits of one file may not overlap
        for key, group, source, kind, line, edits in sorted(picked, key=lambda f: (f[2].path, f[4])):
            span = (min(e[0] for e in edits), max(e[1] for e in edits))
            if kind in ("equal", "boundary") and any(p == source.path and a < span[1] and span[0] < b and k in ("equal", "boundary", "literal") for p, a, b, k in taken): continue
            if kind == "literal" and any(p == source.path and a < span[1] and span[0] < b and k in ("equal", "boundary") for p, a, b, k in taken): continue
            taken.append((source.path, *span, kind))
            faults.append((group, source, kind, line, edits, key[:8]))
    return faults


def equivalents(faults):
    """{number: reason} of the rows of EQUIVALENT; says which rows have no fault any more."""
    numbers, found = {f[5]: n for n, f in enumerate(faults, 1)}, {}
    for line in open(EQUIVALENT, encoding="utf-8"):
        if not line.strip() or line.startswith("#"): continue
        key, path, reason = (w.strip() for w in line.split("|", 2))
        if key in numbers: found[numbers[key]] = reason
        else: print(f"tests/mutants.txt: no fault {key} in {path} any more")
    return found


# ---- the program ----

def rewrite(faults):
    """Writes the sources with all faults in them; their paths."""
    by_file = {}
    for number, (_, source, _, _, edits, _) in enumerate(faults, 1):
        for e in edits: by_file.setdefault(source.path, (source, []))[1].append((*e, number))
    for path, (source, edits) in by_file.items():
        text = source.text
        # From the end; what replaces a span comes before what is put at its start.
        for begin, end, new, number in sorted(edits, key=lambda e: (e[0], e[1] > e[0]), reverse=True):
            text = text[:begin] + (new % number if "%d" in new else new) + text[end:]
        out = os.path.join(BUILD, path)
        os.makedirs(os.path.dirname(out), exist_ok=True)
        open(out, "w").write(f'#include "{os.path.join(BUILD, "mutant.h")}"\n#line 1 "{path}"\n' + text)
    return list(by_file)


def build(faults):
    os.makedirs(BUILD, exist_ok=True)
    open(os.path.join(BUILD, "mutant.h"), "w").write(HEADER)
    open(os.path.join(BUILD, "switch.c"), "w").write(SWITCH % (len(faults), len(faults)))
    paths = rewrite(faults)
    commands = {os.path.relpath(c["file"], ROOT): c for c in json.load(open(os.path.join(ROOT, "build", "compile_commands.json")))
                if "tenon_objects.dir" in c.get("output", c["command"])}
    objects = {}

    def compile_one(path):
        words = [w for w in shlex.split(commands[path]["command"]) if not w.endswith("ccache")]
        out, old = os.path.join(BUILD, path + ".o"), words[words.index("-o") + 1]
        words[words.index("-o") + 1], words[words.index("-c") + 1] = out, os.path.join(BUILD, path)
        drop = {words.index(f) + k for f in ("-MT", "-MF") if f in words for k in (0, 1)}
        words = [w for k, w in enumerate(words) if k not in drop and w not in ("-MD", "-Werror", "-O2")]
        subprocess.run([*words, "-O1", "-w", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"], cwd=os.path.join(ROOT, "build"), check=True)
        objects[old] = out

    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool: list(pool.map(compile_one, paths))
    link = subprocess.run(["ninja", "-C", os.path.join(ROOT, "build"), "-t", "commands", "tenon-tests"], capture_output=True, text=True, check=True).stdout
    words = [objects.get(w, w) for w in shlex.split(link.strip().split("\n")[-1]) if w not in (":", "&&")]
    words[words.index("-o") + 1] = os.path.join(BUILD, "tenon-tests")
    subprocess.run(["gcc", "-c", "-O1", "-o", os.path.join(BUILD, "switch.o"), os.path.join(BUILD, "switch.c")], check=True)
    subprocess.run([*words, os.path.join(BUILD, "switch.o")], cwd=os.path.join(ROOT, "build"), check=True)


# ---- the runs ----

def jobs(): return int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))


def run_tests(tests, mutant, reached=None, seconds=SECONDS):
    """(why it was caught or "", processor seconds)."""
    env = dict(os.environ, TENON_MUTANT=str(mutant), RULE_FUZZ="20", GRAPH_FUZZ="100", TENON_CODEGEN=os.path.join(ROOT, "build", "tenon-codegen"))
    if reached: env["TENON_MUTANT_REACHED"] = reached
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    memory = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.Popen([os.path.join(BUILD, "tenon-tests"), *tests], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=lambda: (limit(), memory()))
    why, deadline = "", time.monotonic() + 20 * seconds
    for line in p.stdout:
        if line.startswith("FAIL ") and mutant >= 0:
            why = line.split()[1]
            break
        if time.monotonic() > deadline: break
    if why or time.monotonic() > deadline: p.kill()
    status = p.wait()
    p.stdout.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not why and status < 0: why = "does not end" if status in (-9, -24) else f"signal {-status}"
    if not why and status: why = f"status {status}"
    return why, used.ru_utime + used.ru_stime - start.ru_utime - start.ru_stime


@functools.cache
def tests_of(folders):
    listed = subprocess.run([os.path.join(BUILD, "tenon-tests"), "--list"], capture_output=True, text=True, check=True).stdout.split()
    stems = {os.path.basename(p)[:-2] for f in folders for p in (glob.glob(os.path.join(ROOT, "tests", f, "**", "*_test.c"), recursive=True) or glob.glob(os.path.join(ROOT, "tests", f + "_test.c")))}
    return [t for t in listed if not t.startswith(LEFT_OUT) and t.split(".")[0] in stems or ("text" in folders and t.startswith("tir_"))]


def reach(faults):
    """{test: (seconds, faults it reaches)}; tests that fail without a fault, or take over SECONDS, are left out."""
    tests = sorted({t for _, _, _, folders in GROUPS for t in tests_of(folders)})
    folder = os.path.join(BUILD, "reached")
    os.makedirs(folder, exist_ok=True)

    def one(test):
        path, start = os.path.join(folder, test), time.monotonic()
        if os.path.exists(path): os.remove(path)
        why, _ = run_tests([test], -1, path)
        numbers = [int(n) for n in open(path).read().split()] if os.path.exists(path) else []
        return test, (time.monotonic() - start, [] if why else numbers)

    found = {}
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        for test, what in pool.map(one, tests):
            found[test] = what
            if len(found) % 50 == 0: print(f"noted what {len(found)} of {len(tests)} tests reach", flush=True)
    json.dump(found, open(os.path.join(BUILD, "reached.json"), "w"))
    return found


def judge(number, group, reached):
    """Why the fault is caught, or "" when it survives."""
    own = set(tests_of(next(folders for name, _, _, folders in GROUPS if name == group)))
    tests = sorted((s, t) for t, (s, numbers) in reached.items() if number in numbers and t in own)
    left, batch = float(SECONDS), []
    for i, (seconds, test) in enumerate(tests):
        batch.append(test)
        if i + 1 < len(tests) and tests[i + 1][0] < 0.3 and len(batch) < 40: continue
        why, used = run_tests(batch, number, seconds=max(1, left))
        if why: return why
        left, batch = left - used, []
        if left <= 0: return ""
    return ""


def main(args):
    count = int(args[args.index("--count") + 1]) if "--count" in args else COUNT
    faults = choose(count)
    name = lambda n: f"{n:4} {faults[n - 1][5]} {faults[n - 1][0]:14} {faults[n - 1][2]:8} {faults[n - 1][1].path}:{faults[n - 1][3]}"
    shown = lambda n: f"{name(n):72} {fault_text(*faults[n - 1][1:5])}"
    same = equivalents(faults)
    if "--list" in args:
        for n in range(1, len(faults) + 1): print(shown(n))
        return 0
    if "--again" not in args: build(faults)
    saved = os.path.join(BUILD, "reached.json")
    reached = json.load(open(saved)) if "--again" in args and os.path.exists(saved) else reach(faults)
    numbers = [int(a) for a in args[args.index("--only") + 1:]] if "--only" in args else [n for n in range(1, len(faults) + 1) if n not in same]
    everyone = {n for _, (_, found) in reached.items() for n in found}
    verdicts = {}
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        for n, why in zip(numbers, pool.map(lambda n: judge(n, faults[n - 1][0], reached) if n in everyone else "", numbers)):
            verdicts[n] = why
            print(f"{name(n)}: {why or 'NOT CAUGHT'}", flush=True)
    lines = []
    for group, *_ in GROUPS:
        mine = [n for n in numbers if faults[n - 1][0] == group]
        caught = sum(bool(verdicts[n]) for n in mine)
        if mine: lines.append(f"{group:16} {len(mine):4} faults, {caught:4} caught, {100 * caught / len(mine):5.1f} %")
    caught = sum(bool(v) for v in verdicts.values())
    lines += [f"{'all':16} {len(verdicts):4} faults, {caught:4} caught, {100 * caught / len(verdicts):5.1f} %", "not caught:"]
    lines += [shown(n) + ("" if n in everyone else "   (no test reaches it)") for n in numbers if not verdicts[n]]
    lines += [f"not counted, since nothing can notice them (tests/mutants.txt): {len(same)}"] + [f"{shown(n)}\n      {same[n]}" for n in sorted(same)]
    text = "\n".join(lines)
    print(text)
    open(os.path.join(BUILD, "result.txt"), "w").write(text + "\n" + "\n".join(f"{name(n)}: {verdicts[n]}" for n in numbers if verdicts[n]) + "\n")
    return caught * 100 < CAUGHT_MIN * len(verdicts)


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
