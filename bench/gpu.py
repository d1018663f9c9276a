#!/usr/bin/env python3
"""gpu.py -- Tenon beside PyTorch on an NVIDIA GPU, in one run: times, memory, and whether Tenon's outputs are right.

usage: bench/gpu.py [NAME...] [--precision f32,tf32,bf16] [--batch 1,32] [--via pt2|onnx] [--rounds N] [--no-eager] [--tune] [--kernels] [--profile] [--dynamic]
                    [--same] [--out DIR] [--report]

Networks (resnet50, bert_base, mobilenet_v2, vit_b_16) are PyTorch's own with random weights, in which the statistics of normalisations are those of random images. Tenon reads what
torch.export wrote of the same model, at the same batch, and both get the same inputs in the GPU's memory. PyTorch runs eager and compiled (torch.compile), each as it is and as a
CUDA graph, channels last where there are images; with --tune also mode max-autotune-no-cudagraphs. Sides take turns for --rounds rounds: the time is the median of the rounds, with the least and
the most of them. Errors are of Tenon's outputs against PyTorch's in f32: the norm of the difference by the norm.

  --kernels   single kernels beside PyTorch's: products, attention, a copy, a matrix by a vector; with shares of the machine's peak
  --profile   where Tenon's time goes in the networks chosen, kernel by kernel
  --dynamic   BERT with open sizes at 20 shapes: right, nothing compiled again, and its time at 1x128 beside that of fixed sizes
  --same      20 runs have the same bits; with --batch-invariant an item has the same bits at batch 1, 2, 8 and 17
  --report    only write the pages anew

Results are added to OUT/gpu.json (docs/benchmarks), from which gpu.md and gpu.svg are written: a table can be measured in parts. Needs torch, torchvision, transformers. TENON_LIBRARY names the
library (build/libtenon.so), TENON_PYTHON the folder of the Python package.
"""
import argparse, json, os, subprocess, sys, tempfile, time

import gpu_report

BOUNDS = {"f32": 1e-4, "tf32": 1e-2, "bf16": 5e-2}


def said(*command):
    try: return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError: return ""


class Results:
    """gpu.json: what was measured, by machine."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "gpu.json")
        self.all = json.load(open(self.path)) if os.path.exists(self.path) else {"machines": {}}

    def machine(self):
        import torch
        here = self.all["machines"].setdefault(self.machine_name(), {})
        driver = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        here["versions"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "driver": driver}
        return here

    def machine_name(self):
        import torch
        return torch.cuda.get_device_name()

    def add(self, section, key, row):
        row["when"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        row["revision"] = os.environ.get("REVISION") or said("git", "-C", gpu_report.ROOT, "rev-parse", "--short", "HEAD")
        self.machine().setdefault(section, {})[key] = row
        self.write()

    def write(self):
        os.makedirs(self.folder, exist_ok=True)
        gpu_report.write(self.all, self.folder)


def one_case(args, name, batch, precision, model, inputs, want, path):
    """A row of the table: both sides in turns."""
    import copy
    from gpu_sides import Tenon, Torch, far, forget, in_turns
    row = {"name": name, "batch": batch, "precision": precision}
    ours = Tenon(path, precision, inputs)
    row["tenon"] = {"seconds": ours.seconds, "bytes": ours.bytes, "on_device": ours.on_device, "error": far(ours.result(), want)}
    row["right"] = row["tenon"]["error"] <= BOUNDS[precision]
    sides = {"tenon": ours}
    if not args.alone:
        theirs = Torch(copy.deepcopy(model).cuda(), inputs, precision, not args.no_eager, args.tune)
        row["torch"] = {"seconds": theirs.seconds, "bytes": theirs.bytes, "error": far(theirs.compiled_result, want)}
        sides.update(theirs.sides)
    row["ms"] = in_turns(sides, args.rounds)
    if "compiled_graph" in row["ms"]: row["ratio"] = row["ms"]["compiled_graph"]["median"] / row["ms"]["tenon"]["median"]
    if args.top: print(gpu_report.profile_text({**row, "steps": [s._asdict() for s in ours.model.profile(*ours.inputs, runs=20)]}, args.machine, args.top), flush=True)
    if not ours.on_device: row["kernels_ms"] = sum(s.ns for s in ours.model.profile(*ours.inputs, runs=20) if s.kind == "kernel") / 1e6
    ours.close()
    sides = theirs = None
    forget()
    return row


def networks(args, results):
    import torch
    from gpu_sides import Torch, expected, exported, inputs_of, network
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        if not args.alone: Torch(torch.nn.Linear(8, 8).cuda(), (torch.ones(8, 8, device="cuda"),), "f32")  # what is loaded once
        for name in args.names:
            for batch in args.batches:
                model, inputs = network(name, "cuda"), inputs_of(name, batch, "cuda")
                want = expected(model, inputs)
                path = exported(model, inputs, f"{folder}/{name}", args.via)
                for precision in args.precisions:
                    try: row = one_case(args, name, batch, precision, model, inputs, want, path)
                    except Exception as e:
                        print(f"{name} {precision} batch {batch}: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr, flush=True)
                        continue
                    results.add("networks", f"{name} {precision} {batch}", row)
                    print(gpu_report.line(row), flush=True)
                os.unlink(path)


def profiles(args, results):
    import torch
    from gpu_sides import Tenon, exported, inputs_of, network
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name in args.names:
            for batch in args.batches:
                inputs = inputs_of(name, batch, "cuda")
                path = exported(network(name, "cuda"), inputs, f"{folder}/{name}", args.via)
                for precision in args.precisions:
                    ours = Tenon(path, precision, inputs, cold=False)
                    profile = ours.model.profile(*ours.inputs, runs=30)
                    row = {"name": name, "batch": batch, "precision": precision, "steps": [s._asdict() for s in profile]}
                    results.add("profiles", f"{name} {precision} {batch}", row)
                    print(gpu_report.profile_text(row, args.machine, args.top), flush=True)
                    ours.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--precision", default="f32,tf32,bf16")
    p.add_argument("--batch", default="1,32")
    p.add_argument("--via", choices=["pt2", "onnx"], default="pt2")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--top", type=int, default=0)
    for flag in ("no-eager", "tune", "alone", "kernels", "profile", "dynamic", "same", "batch-invariant", "report"): p.add_argument("--" + flag, action="store_true")
    p.add_argument("--out", default=os.path.join(gpu_report.ROOT, "docs", "benchmarks"))
    args = p.parse_args()
    results = Results(args.out)
    if args.report: return results.write()
    from gpu_sides import NETS
    args.precisions, args.batches = args.precision.split(","), [int(b) for b in args.batch.split(",")]
    args.names = args.names or NETS
    args.machine = results.machine_name()
    if args.profile: profiles(args, results)
    elif args.kernels or args.dynamic or args.same:
        import gpu_checks
        gpu_checks.run(args, results)
    else: networks(args, results)


if __name__ == "__main__":
    main()
