#!/usr/bin/env python3
"""symbols.py -- checks that the libraries export exactly the names of tools/exported-symbols.txt.

usage: symbols.py BUILD_DIR [--update]

Also that every name starts with tenon_, and that what the public header declares is what is exported, so that
nothing is declared and missing.  --update rewrites the list: do it on purpose, the list is the promise to users.
"""
import os, re, subprocess, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LIST = os.path.join(ROOT, "tools", "exported-symbols.txt")


def defined(path, *flags):
    text = subprocess.run(["nm", *flags, "--defined-only", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^[0-9a-f]* *[A-Z] (\S+)$", text, re.M)
    return sorted({n.split("@")[0] for n in found} - {"_edata", "_end", "__bss_start", "_init", "_fini"})


def declared():
    """Functions and objects that include/tenon/*.h declares with TENON_API."""
    names = set()
    folder = os.path.join(ROOT, "include", "tenon")
    for header in os.listdir(folder):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(os.path.join(folder, header), encoding="utf-8").read(), flags=re.S)
        for piece in re.findall(r"^TENON_API([^;]*);", text, re.M):
            m = re.search(r"\b(tenon_\w+)\s*\(", piece) or re.search(r"\b(tenon_\w+)\s*(?:\[|$)", piece)
            names.add(m[1])
    return sorted(names)


def compare(what, got, want):
    for n in sorted(set(got) - set(want)): print(f"{what}: {n} is not in the list")
    for n in sorted(set(want) - set(got)): print(f"{what}: {n} is missing")
    return got != want


def main():
    build = sys.argv[1]
    shared = defined(os.path.join(build, "libtenon.so"), "-D")
    static = defined(os.path.join(build, "libtenon.a"), "-g")
    if "--update" in sys.argv:
        open(LIST, "w").write("".join(n + "\n" for n in shared))
    want = open(LIST).read().split() if os.path.exists(LIST) else []
    bad = compare("libtenon.so", shared, want)
    bad |= compare("libtenon.a", static, want)
    bad |= compare("include/tenon", declared(), want)
    for n in want:
        if not n.startswith("tenon_"):
            print(f"{n} does not start with tenon_")
            bad = True
    print(f"symbols: {len(want)} exported names")
    return bad


sys.exit(main())
