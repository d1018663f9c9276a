#!/usr/bin/env python3
"""tool_calls_seeds.py FOLDER -- first inputs of the fuzz target tool_calls: the answers of tests/text/tool_calls_test.c, with every family."""
import os, re, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
with open(os.path.join(ROOT, "src/text/tool_syntax.def"), encoding="utf-8") as f: families = re.findall(r"^SYNTAX\((\w+)", f.read(), re.M)
with open(os.path.join(ROOT, "tests/text/tool_calls_test.c"), encoding="utf-8") as f: source = f.read()
LITERAL = r'"(?:[^"\\]|\\.)*"'
rows = re.findall(rf'\{{("\w+"|NULL),\s*((?:{LITERAL}\s*)+),', source)
for i, (family, text) in enumerate(rows):
    name = family.strip('"')
    first = families.index(name) if name in families else 0
    joined = "".join(re.findall(LITERAL, text)).replace('""', "")[1:-1]
    answer = joined.encode().decode("unicode_escape").encode("latin-1", "replace") if joined.isascii() else re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), joined).encode()
    for cut in 0x00, 0x0B:
        with open(os.path.join(sys.argv[1], f"row-{i}-{cut}"), "wb") as f: f.write(bytes([first, cut]) + answer)
