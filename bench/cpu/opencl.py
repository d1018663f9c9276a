#!/usr/bin/env python3
"""opencl.py -- the networks on an OpenCL device beside the CPU, as a table; and whether five runs give the same bits.

  bench/cpu/opencl.py [--tenon build/tenon] [--device NAME] [--nets build/nets] [NET...]

A network is right when its largest error against ONNX Runtime's outputs (NET.out.npz) is below 1e-4 of the largest value.  Times are
medians of `tenon bench`, in ms; the first run of a network takes long, since the driver compiles its kernels.
"""
import argparse, json, os, subprocess, sys, tempfile

NETS = "mobilenet_v2 squeezenet1_1 resnet50 densenet121 lstm bert_base gpt2 vit_b_16".split()


def tenon(args, *more):
    device = ["--device", args.device] if args.device and "opencl" in more else []
    return subprocess.run([args.tenon, *more, *device], capture_output=True, text=True)


def check(args, base):
    """'right' or what is wrong, and whether five runs gave the same bits."""
    import numpy as np
    want = np.load(base + ".out.npz")
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(5):
            out = os.path.join(folder, f"{i}.npz")
            p = tenon(args, "run", base + ".onnx", "--target", "opencl", "--inputs", base + ".in.npz", "-o", out)
            if p.returncode: return p.stderr.strip().splitlines()[-1], "-"
            got = np.load(out)
            runs.append({k: got[k] for k in want.files})
    worst = max(float(np.abs(runs[0][k].astype("f8") - want[k]).max()) / max(float(np.abs(want[k]).max()), 1e-30) for k in want.files)
    same = all(r[k].tobytes() == runs[0][k].tobytes() for r in runs for k in want.files)
    return "right" if worst < 1e-4 else f"off by {worst:.1e}", "yes" if same else "NO"


def milliseconds(args, base, target):
    p = tenon(args, "bench", base + ".onnx", "--target", target, "--json")
    return f"{json.loads(p.stdout)['median_ms']:.3g}" if p.returncode == 0 else "-"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tenon", default="build/tenon")
    ap.add_argument("--device")
    ap.add_argument("--nets", default="build/nets")
    ap.add_argument("--suffix", default="", help="of the files' names, before .onnx")
    ap.add_argument("net", nargs="*")
    args = ap.parse_args()
    print("| network | result | same bits in 5 runs | `opencl`, ms | `cpu`, ms |\n|---|---|---|---|---|", flush=True)
    bad = 0
    for net in args.net or NETS:
        base = os.path.join(args.nets, net + args.suffix)
        if not os.path.exists(base + ".onnx"): continue
        result, same = check(args, base)
        bad += result != "right" or same != "yes"
        print(f"| {net} | {result} | {same} | {milliseconds(args, base, 'opencl')} | {milliseconds(args, base, 'cpu')} |", flush=True)
    return bad > 0


sys.exit(main())
