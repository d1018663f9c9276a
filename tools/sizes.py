#!/usr/bin/env python3
"""sizes.py -- files up to 800 lines, functions up to 60; with --report, the sizes by folder.

Relies on the formatting: a function's head starts in column 0 and its closing brace stands alone there.
Tables (.def files, and initializers in .c files) may be longer; other exceptions are named below with the reason.
"""
import os, re, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FILE_MAX, FUNCTION_MAX = 800, 60
EXEMPT_FILES = {
    # path: reason
    "include/tenon/tenon.h": "the public interface is one header, most of it comments",
}
EXEMPT_FUNCTIONS = {
    # path:function: reason
}

HEAD = re.compile(r"^[A-Za-z_].*?\b([A-Za-z_]\w*)\s*\(")
NOT_A_FUNCTION = ("typedef", "struct", "enum", "union", "#", "//")


def functions(lines):
    """(name, first line, length) of every function longer than a line."""
    start = name = None
    in_body = False
    for i, line in enumerate(lines):
        end = line.split("//")[0].rstrip()[-1:]
        if start is None:
            m = HEAD.match(line)
            if not m or line.startswith(NOT_A_FUNCTION) or end in (";", "}", "\\"): continue
            start, name, in_body = i, m[1], end == "{"
        elif not in_body:
            if end == "{": in_body = True
            elif end in (";", "}", "\\"): start = None  # a declaration, or a one-line body
        elif line.startswith("}"):
            if line.rstrip() == "}": yield name, start + 1, i - start + 1
            start = None


def sources():
    for top in ("src", "include", "tests", "tools", "examples"):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                if name.endswith((".c", ".h")): yield os.path.relpath(os.path.join(folder, name), ROOT)


def main():
    bad, by_folder = 0, {}
    for path in sources():
        full = os.path.join(ROOT, path)
        lines = open(full, encoding="utf-8").read().split("\n")
        folder = by_folder.setdefault(os.path.dirname(path), [0, 0, 0])
        folder[0] += 1
        folder[1] += len(lines) - 1
        if len(lines) - 1 > FILE_MAX and path not in EXEMPT_FILES:
            print(f"{path}: {len(lines) - 1} lines, the limit is {FILE_MAX}")
            bad += 1
        for name, first, length in functions(lines):
            folder[2] += 1
            if length > FUNCTION_MAX and f"{path}:{name}" not in EXEMPT_FUNCTIONS:
                print(f"{path}:{first}: {name} has {length} lines, the limit is {FUNCTION_MAX}")
                bad += 1
    if "--report" in sys.argv:
        for folder, (files, lines, funcs) in sorted(by_folder.items()):
            print(f"{folder:28} {files:4} files {lines:7} lines {funcs:6} functions")
    total = [sum(v[i] for v in by_folder.values()) for i in range(3)]
    print(f"sizes: {total[0]} files, {total[1]} lines, {total[2]} functions, {bad} too long")
    return bad > 0


sys.exit(main())
