#!/usr/bin/env python3
"""c_speed.py -- models as C source beside machine code: the table of docs/targets/c.md.

usage: c_speed.py PROGRAM NETS_DIR [--seconds S] [NAME...]

One thread, ms a run (the median), on random inputs: target c, compiled by $CC (else cc) with $TENON_CFLAGS (else -O3 -march=native), beside
target cpu.  NETS_DIR holds NAME.onnx (tools/nets.sh makes them; without names the eight networks of the benchmarks).  Nothing else should run
on the machine.
"""
import json, os, subprocess, sys

NETS = ["mobilenet_v2", "lstm", "squeezenet1_1", "resnet50", "densenet121", "vit_b_16.new", "bert_base", "gpt2.new"]


def measure(program, model, target, seconds):
    command = [program, "bench", model, "--target", target, "--threads", "1", "--seconds", seconds, "--json"]
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode: sys.exit(f"c_speed: {' '.join(command)}: exit status {r.returncode}\n{r.stderr}")
    return json.loads(r.stdout)["median_ms"]


def text(ms):
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def main():
    args, seconds = sys.argv[1:], "3"
    if "--seconds" in args:
        at = args.index("--seconds")
        seconds = args[at + 1]
        del args[at:at + 2]
    if len(args) < 2: sys.exit(__doc__)
    program, folder, names = args[0], args[1], args[2:] or NETS
    rows = {t: [measure(program, os.path.join(folder, n + ".onnx"), t, seconds) for n in names] for t in ("c", "cpu")}
    print("| | " + " | ".join(n.replace(".new", "") for n in names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for target, ms in rows.items(): print(f"| `{target}` | " + " | ".join(map(text, ms)) + " |")
    print("| c / cpu | " + " | ".join(f"{a / b:.2f}" for a, b in zip(rows["c"], rows["cpu"])) + " |")


main()
