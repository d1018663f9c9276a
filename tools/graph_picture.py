#!/usr/bin/env python3
"""graph_picture.py -- makes docs/images/graph.png: the page of a model, coloured by measured time, in headless Chromium.

usage: tools/graph_picture.py [MODEL] [--node NAME] [--out FILE.png] [--times N] [--dark]

Measures MODEL (default: build/nets/bert_base.onnx, which `make nets` makes) with `tenon bench --profile`, draws it, opens the
modules that hold the node NAME, and takes the picture.  Needs Chromium and Python's standard library.
"""
import argparse, json, os, re, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
import chromium

TENON = os.path.join(ROOT, "build", "tenon")
LARGEST = 200 * 1024


def measure(model, folder, times):
    """The least time of each step, of several measurements: others may work on this machine, too."""
    best = None
    for _ in range(times):
        found = json.loads(subprocess.run([TENON, "bench", model, "--profile", "--json", "--seconds", "0.3", "--warmup", "0.1"], capture_output=True, check=True).stdout)
        steps = {(s["function"], s["step"], s["node"], s["what"]): s for s in found["steps"]}
        best = {k: min(s, best[k], key=lambda x: x["ms"]) if best and k in best else s for k, s in steps.items()}
    path = os.path.join(folder, "profile.json")
    with open(path, "w") as f: json.dump({"steps": list(best.values())}, f)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model", nargs="?", default=os.path.join(ROOT, "build", "nets", "bert_base.onnx"))
    p.add_argument("--node", default="/m/encoder/layer.0/intermediate/dense/MatMul")
    p.add_argument("--out", default=os.path.join(ROOT, "docs", "images", "graph.png"))
    p.add_argument("--times", type=int, default=8, help="measurements")
    p.add_argument("--dark", action="store_true")
    o = p.parse_args()
    program = chromium.find()
    if not program: sys.exit("graph_picture.py: no Chromium here (apt install chromium)")
    with tempfile.TemporaryDirectory(prefix="tenon-picture-") as folder:
        profile, page = measure(o.model, folder, o.times), os.path.join(folder, "page.html")
        subprocess.run([TENON, "graph", o.model, "--times", profile, "-o", page], check=True)
        data = json.loads(re.search(r'id="data">(.*?)</script>', open(page, encoding="utf-8").read(), re.S)[1])
        at = next((i for i, n in enumerate(data["drawings"][0]["nodes"]) if n["name"] == o.node), None)
        b = chromium.Browser(program, os.path.join(folder, "browser"))
        try:
            b.dark(o.dark)
            b.size(1280, 800)
            b.open(page, f"#d0n{at}" if at is not None else "")
            b.key("Escape")  # the side panel has what takes longest
            os.makedirs(os.path.dirname(o.out), exist_ok=True)
            b.picture(o.out)
        finally:
            b.close()
    size = os.path.getsize(o.out)
    print(f"{o.out}: {size // 1024} KB")
    if size > LARGEST: sys.exit(f"graph_picture.py: more than {LARGEST // 1024} KB")


main()
