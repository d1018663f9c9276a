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
BELOW["energy"] = ["base"]
BELOW["text"] = ["base"]
BELOW["grammar"] = ["base", "text"]
BELOW["eval"] = ["base"]
BELOW["loop"] = ["base", "eval"]
BELOW["runtime"] = ["base", "eval"]
BELOW["engine"] = BELOW["runtime"] + ["runtime", "text"]
BELOW["ir"] = BELOW["eval"] + ["eval"]
BELOW["ops"] = BELOW["ir"] + ["ir"]
BELOW["rules"] = BELOW["ops"] + ["ops"]
BELOW["cost"] = BELOW["ops"] + ["ops"]
BELOW["plan"] = BELOW["cost"] + ["cost"]
BELOW["passes"] = BELOW["rules"] + ["rules", "cost", "plan"]
BELOW["analyse"] = BELOW["passes"] + ["passes"]
BELOW["frontends"] = BELOW["ops"] + ["ops", "text"]
BELOW["models"] = BELOW["ops"] + ["ops", "frontends"]
BELOW["exporters"] = BELOW["ops"] + ["ops"]
BELOW["lower"] = BELOW["passes"] + ["passes", "loop", "runtime"]
# inside targets/: the C family's emitter, then what extends it; the code generator of `cpu` is apart; the list of targets is on top
BELOW["targets/cstyle"] = BELOW["loop"] + ["loop"]
BELOW["targets/llvm"] = BELOW["loop"] + ["loop"]
BELOW["targets/c"] = BELOW["lower"] + ["lower", "targets/cstyle"]
BELOW["targets/opencl"] = BELOW["targets/c"]
BELOW["targets/cuda"] = BELOW["targets/c"]
BELOW["targets"] = BELOW["targets/c"] + ["targets/c", "targets/opencl", "targets/cuda", "targets/llvm"]
BELOW["compile"] = BELOW["targets"] + ["targets"]
BELOW["compress"] = BELOW["compile"] + ["compile"]
BELOW["api"] = BELOW["compress"] + ["compress", "exporters", "frontends", "text", "grammar", "models", "engine"]
BELOW["view"] = BELOW["analyse"] + ["analyse"]
BELOW["cli"] = BELOW["api"] + ["api", "energy", "view", "exporters", "analyse", "text", "grammar"]
BELOW["tune"] = BELOW["cli"] + ["cli"]
BELOW["serve"] = ["base", "text", "grammar", "eval", "runtime"]
# single files that a lower folder may include from a higher one: lists, without declarations of their own; what a target is
EXCEPT = {("ir", "ops/ops.def"), ("plan", "passes/fuse_kernels/fuse_kernels.h"), ("targets/c", "targets/object.h")}
EXCEPT |= {(target, "targets/target.h") for target in ("targets/c", "targets/opencl", "targets/cuda")}
# libraries other than the C library and POSIX, and who may include them
LIBRARIES = {"zlib.h": {"base", "cli", "serve"}, "llvm-c": {"targets/llvm"}, "sqlite3.h": {"tune"}, "nghttp2": {"serve"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer(path):
    """The folder that rules apply to: the deepest one that has a row.  Frontends are one layer, but see same_frontend; all
    readers may use frontends/common.  The sources of `tenon conform`, in tools/conform, are part of the program."""
    if path.startswith("conform/"): return "cli"
    sub = os.path.dirname(path)
    return sub if sub in BELOW else path.split("/")[0]


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
    tool = os.path.join(ROOT, "tools", target)
    if "/" not in target or not os.path.exists(tool if target.startswith("conform/") else os.path.join(ROOT, "src", target)):
        return f'"{target}" is not a path from src/'
    there = layer(target)
    if there == here:
        if here == "frontends" and not same_frontend(path, target) and target.split("/")[1] != "common":
            return f'"{target}": one reader must not need another'
        return None
    if there not in BELOW[here]:
        return f'"{target}": {here}/ may include only {", ".join(BELOW[here]) or "itself"}'
    return None


def sources():
    """(file, its path from src/ or tools/) of all that the rules bind."""
    for top, folder in ("src", "src"), ("tools", "tools/conform"):
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                full = os.path.join(where, name)
                if name.endswith((".c", ".h", ".def")): yield full, os.path.relpath(full, os.path.join(ROOT, top))


def main():
    bad = files = 0
    for full, path in sources():
        files += 1
        for number, line in enumerate(open(full, encoding="utf-8"), 1):
            m = INCLUDE.match(line)
            why = m and check(path, number, m[1], m[2])
            if why:
                print(f"{os.path.relpath(full, ROOT)}:{number}: {why}")
                bad += 1
    print(f"layering: {files} files, {bad} includes against the layers")
    return bad > 0


sys.exit(main())
