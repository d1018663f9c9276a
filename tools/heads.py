#!/usr/bin/env python3
"""heads.py [FILE...] -- every source file says what it is; a pass, template or emitter also what it needs and guarantees.

The first line of a .c or .h file of src/ is `// NAME -- what it is`.  The head, the comment that begins there, of a .c
file of FOLDERS also has

    // Needs:      what holds on entry: what has run before, which operands, sizes and target traits it takes.
    // Guarantees: what holds afterwards: order of sums, bit-equality, ownership, what is left to others.

each with words behind it, in lines of at most 100 columns.  Exit status 1 lists every file that does not.
"""
import os, re, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
FOLDERS = ("src/passes/", "src/lower/", "src/targets/")
LABELS = ("Needs", "Guarantees")
COLUMNS = 100

# (path, text, part of what is found; None: nothing), so that a slip cannot switch a check off.
BOTH = "//\n// Needs:      b.\n// Guarantees: c.\n"
SAMPLES = [
    ("src/lower/x.c", "// x.c -- a.\n" + BOTH + "int x;\n", None),
    ("src/ir/x.c", "// x.c -- a.\nint x;\n", None),
    ("src/lower/x.h", "// x.h -- a.\nint x;\n", None),
    ("src/ir/x.c", "int x;\n", "first line"),
    ("src/ir/x.h", "// y.h -- a.\n", "first line"),
    ("src/ir/x.c", "// x.c -- \n", "first line"),
    ("src/lower/x.c", "// x.c -- a.\nint x;\n" + BOTH, "no `Needs:`"),
    ("src/passes/x.c", "// x.c -- a.\n//\n// Needs:      b.\n", "no `Guarantees:`"),
    ("src/targets/a/x.c", "// x.c -- a.\n//\n// Needs:\n// Guarantees: c.\n", "no `Needs:`"),
    ("src/lower/x.c", "// x.c -- a.\n" + BOTH + "// " + "d" * COLUMNS + "\n", "columns"),
]


def head(text):
    return re.match(r"(?://[^\n]*(?:\n|$))*", text)[0].split("\n")[:-1]


def faults(path, text):
    """What is missing in a file's head, as sentences."""
    first = text.split("\n", 1)[0]
    if not re.match(rf"// {re.escape(os.path.basename(path))} -- \S", first):
        yield f"1: the first line is not `// {os.path.basename(path)} -- what it is`"
    if not path.endswith(".c") or not path.startswith(FOLDERS): return
    lines = head(text)
    for label in LABELS:
        if not any(re.match(rf"// {label}: +\S", line) for line in lines): yield f"1: the head has no `{label}:` line"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS: yield f"{number}: the head has {len(line)} columns, at most {COLUMNS}"


def sources():
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "src"))):
        for name in sorted(names):
            if name.endswith((".c", ".h")): yield os.path.relpath(os.path.join(folder, name), ROOT)


def main():
    for path, text, want in SAMPLES:
        found = " ".join(faults(path, text))
        if (want is None) != (not found) or (want and want not in found):
            sys.exit(f"heads: '{want or 'nothing'}' is not what is found in a sample of {path}: '{found}'")
    paths = sys.argv[1:] or list(sources())
    bad = 0
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f: text = f.read()
        for fault in faults(path, text):
            print(f"{path}:{fault}")
            bad += 1
    print(f"heads: {len(paths)} files, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
