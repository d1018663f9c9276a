#!/usr/bin/env python3
"""layering.py -- checks that the includes of src/ form the DAG of docs/architecture.md.

A folder may include itself, the folders of its row below, and <system> headers.  Quoted includes are paths
from src/ (or include/), so a reader sees the folder.  Exit status 1 lists every include that breaks a rule.
"""
import os, re, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# folder -> folders it may include, besides itself
BELOW = {}
BELOW["base"] = []
BELOW["eval"] = ["base"]
BELOW["loop"] = ["base", "eval"]
BELOW["runtime"] = ["base", "eval"]
BELOW["ir"] = BELOW["eval"] + ["eval"]
BELOW["ops"] = BELOW["ir"] + ["ir"]
BELOW["rules"] = BELOW["ops"] + ["ops"]
BELOW["cost"] = BELOW["ops"] + ["ops"]
BELOW["passes"] = BELOW["rules"] + ["rules", "cost"]
BELOW["frontends"] = BELOW["ops"] + ["ops"]
BELOW["exporters"] = BELOW["ops"] + ["ops"]
BELOW["lower"] = BELOW["passes"] + ["passes", "loop", "runtime"]
BELOW["targets"] = BELOW["lower"] + ["lower"]
BELOW["api"] = BELOW["targets"] + ["targets", "frontends"]
BELOW["view"] = BELOW["passes"] + ["passes"]
BELOW["cli"] = BELOW["api"] + ["api", "view", "exporters"]
# single files that a lower folder may include from a higher one: lists, without declarations of their own
EXCEPT = {("ir", "ops/ops.def"), ("eval", "ops/scalar.def")}
# libraries other than the C library and POSIX, and who may include them
LIBRARIES = {"zlib.h": {"base", "cli"}, "llvm-c": {"targets"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer(path):
    """The folder that rules apply to: frontends are one layer, but see same_frontend; all readers may use frontends/common."""
    return path.split("/")[0]


def same_frontend(user, used):
    return user.split("/")[1] == used.split("/")[1]


def check(path, line, quote, target):
    """A sentence when this include breaks a rule, else None."""
    here = layer(path)
    if here not in BELOW:
        return f"folder '{here}' has no row in tools/layering.py"
    if quote == "<":
        library = target.split("/")[0]  # a header, or a library's folder of them
        if library in LIBRARIES and here not in LIBRARIES[library]:
            return f"<{target}> belongs to {', '.join(sorted(LIBRARIES[library]))}"
        return None
    if target in ("tenon/tenon.h", "tenon/aot.h") or (here, target) in EXCEPT:
        return None
    if "/" not in target or not os.path.exists(os.path.join(ROOT, "src", target)):
        return f'"{target}" is not a path from src/'
    there = layer(target)
    if there == here:
        if here == "frontends" and not same_frontend(path, target) and target.split("/")[1] != "common":
            return f'"{target}": one reader must not need another'
        return None
    if there not in BELOW[here]:
        return f'"{target}": {here}/ may include only {", ".join(BELOW[here]) or "itself"}'
    return None


def main():
    bad = files = 0
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".def")): continue
            full = os.path.join(folder, name)
            path = os.path.relpath(full, os.path.join(ROOT, "src"))
            files += 1
            for number, line in enumerate(open(full, encoding="utf-8"), 1):
                m = INCLUDE.match(line)
                why = m and check(path, number, m[1], m[2])
                if why:
                    print(f"src/{path}:{number}: {why}")
                    bad += 1
    print(f"layering: {files} files, {bad} includes against the layers")
    return bad > 0


sys.exit(main())
