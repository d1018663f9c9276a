#!/usr/bin/env python3
"""gpu.py -- Tenon beside PyTorch on an NVIDIA GPU, in one run: times, memory, and whether Tenon's outputs are right.

usage: bench/gpu.py [NAME...] [--precision f32,tf32,bf16] [--batch 1,32] [--via pt2|onnx] [--rounds N] [--jobs N] [--limit S] [--no-eager] [--tune] [--alone] [--top N]
                    [--kernels] [--profile] [--dynamic] [--same] [--out DIR] [--report]

Networks (resnet50, bert_base, mobilenet_v2, vit_b_16; `more`: regnet_y_8gf, vgg16, efficientnet_b0, swin_t, convnext_tiny, densenet121, gpt2, llama, qwen3, clip_vision) are PyTorch's own with random weights, in which the statistics of normalisations are those of random images. Tenon reads what
torch.export wrote of the same model, at the same batch, and both get the same inputs in the GPU's memory. PyTorch runs eager and compiled (torch.compile), each as it is and as a
CUDA graph, channels last where there are images; with --tune also mode max-autotune-no-cudagraphs. Sides are interleaved for --rounds rounds: the time is the median of the rounds, with the least and
the most of them. Errors are of Tenon's outputs against PyTorch's in f32: the norm of the difference by the norm. torch.compile takes most of the time of it all: it is done for --jobs cases
at once, each in a process of its own (1: one after the other, which it should be where its own time is to be compared), and Tenon's side and the rounds while nothing else runs. A case that gives no result for
--limit seconds (120) is given up. --alone leaves PyTorch out, --top N prints the N kernels that take longest.

  --kernels   single kernels beside PyTorch's: products, attention, a copy, a matrix by a vector; with shares of the machine's peak; --only WORD,... some of them
  --profile   where Tenon's time goes in the networks chosen, kernel by kernel
  --dynamic   BERT with dynamic shapes at 20 shapes: right, nothing compiled again, and its time at 1x128 beside that of fixed sizes
  --same      the same bits in 20 runs, and, with batch_invariant, of an item at batch 1, 2, 8 and 17; what that costs
  --report    only write the pages anew, with the results of other such files added, which are named: bench/gpu.py --report run1/gpu.json

Results are added to OUT/gpu.json (docs/benchmarks), from which gpu.md and gpu.svg are written: a table can be measured in parts. Needs torch, torchvision, transformers. TENON_LIBRARY names the
library (build/libtenon.so), TENON_PYTHON the folder of the Python package.
"""
import argparse, json, os, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu"))
import gpu_report  # noqa: E402


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

    def take(self, paths):
        """Results of other files of this kind: newer rows in place of older ones."""
        for path in paths:
            with open(path) as f: other = json.load(f)
            for name, sections in other["machines"].items():
                here = self.all["machines"].setdefault(name, {})
                for section, rows in sections.items():
                    for key, row in rows.items():
                        old = here.setdefault(section, {}).get(key)
                        if not isinstance(row, dict) or not old or row["when"] >= old["when"]: here[section][key] = row

    def write(self):
        os.makedirs(self.folder, exist_ok=True)
        gpu_report.write(self.all, self.folder)


# ---- networks ----

class Case:
    """A network at a batch, in all precisions, in a process of its own: first PyTorch's side, which takes long and is made for several cases at once; then, while
    no other works, Tenon's and the rounds."""

    def __init__(self, args, name, batch):
        import copy, torch
        from gpu_sides import Torch, expected, exported, inputs_of, network
        self.args, self.name, self.batch, self.sides = args, name, batch, {}
        self.folder = tempfile.TemporaryDirectory()
        model, self.inputs = network(name, "cuda"), inputs_of(name, batch, "cuda")
        self.want = expected(model, self.inputs)
        self.path = exported(model, self.inputs, f"{self.folder.name}/{name}", args.via)
        if args.alone: return
        Torch(torch.nn.Linear(8, 8).cuda(), (torch.ones(8, 8, device="cuda"),), "f32")  # what is loaded once
        for precision in args.precisions:
            try: self.sides[precision] = Torch(copy.deepcopy(model).cuda(), self.inputs, precision, not args.no_eager, args.tune)
            except Exception as e: complain(name, precision, batch, e)

    def row(self, precision):
        from gpu_sides import Tenon, far, interleaved, set_precision
        row = {"name": self.name, "batch": self.batch, "precision": precision}
        ours, theirs = Tenon(self.path, precision, self.inputs, again=not self.args.alone), self.sides.get(precision)
        row["tenon"] = {"seconds": ours.seconds, "bytes": ours.bytes, "held": ours.held, "on_device": ours.on_device, "error": far(ours.result(), self.want)}
        row["right"] = row["tenon"]["error"] <= gpu_report.BOUNDS[precision]
        sides = {"tenon": ours}
        if theirs:
            row["torch"] = {"seconds": theirs.seconds, "bytes": theirs.bytes, "held": theirs.held, "error": far(theirs.compiled_result, self.want)}
            sides.update(theirs.sides)
        set_precision(precision)
        row["ms"] = interleaved(sides, self.args.rounds)
        if theirs: row["ratio"] = row["ms"]["compiled_graph"]["median"] / row["ms"]["tenon"]["median"]
        steps = [s._asdict() for s in ours.model.profile(*ours.inputs, runs=20 if self.args.top or not ours.on_device else 1)]
        if self.args.top: print(gpu_report.profile_text({**row, "steps": steps}, self.args.machine, self.args.top), file=sys.stderr, flush=True)
        row["kernels"] = sum(s["kind"] == "kernel" for s in steps)
        if not ours.on_device: row["kernels_ms"] = sum(s["ns"] for s in steps if s["kind"] == "kernel") / 1e6
        ours.close()
        return row


def complain(name, precision, batch, e):
    print(f"{name} {precision} batch {batch}: {type(e).__name__}: {str(e)[:400]}", file=sys.stderr, flush=True)


def worker(args):
    """Makes a case, says so, and measures when it is told to; a row is a line of JSON."""
    import torch
    with torch.no_grad():
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        case = Case(args, args.names[0], args.batches[0])
        print("ready", file=answers, flush=True)
        if not sys.stdin.readline(): return  # nobody asks any more
        for precision in args.precisions:
            try: print(json.dumps(case.row(precision)), file=answers, flush=True)
            except Exception as e: complain(case.name, precision, case.batch, e)


def watched(process, seconds):
    """A timer that ends the process: a kernel that never ends must not keep the other cases."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    return timer


def networks(args, results):
    """Cases in as many processes as --jobs says, of which one measures at a time and no other works meanwhile."""
    from collections import deque
    todo = deque((name, batch) for batch in args.batches for name in args.names)
    while todo:
        started = []
        for _ in range(min(args.jobs, len(todo))):
            name, batch = todo.popleft()
            # Inductor's own processes, of which each case would have as many as there are cores.
            threads = str(max(2, (os.cpu_count() or 2) // args.jobs))
            command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", name, "--batch", str(batch)]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            env={"TORCHINDUCTOR_COMPILE_THREADS": threads, "OMP_NUM_THREADS": threads, **os.environ}))
        for process in started: process.stdout.readline()
        for process in started:
            try:
                process.stdin.write("go\n")
                process.stdin.close()
            except OSError: continue
            watch = watched(process, args.limit)
            for text in process.stdout:
                watch.cancel()
                row = json.loads(text)
                results.add("networks", f"{row['name']} {row['precision']} {row['batch']}", row)
                print(gpu_report.line(row), flush=True)
                watch = watched(process, args.limit)
            watch.cancel()
            if process.wait() < 0: print(f"{' '.join(process.args[-3:])}: no result within {args.limit} s, given up", file=sys.stderr, flush=True)


def profiles(args, results):
    import torch
    from gpu_sides import Tenon, exported, inputs_of, network
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name in args.names:
            for batch in args.batches:
                inputs = inputs_of(name, batch, "cuda")
                path = exported(network(name, "cuda"), inputs, f"{folder}/{name}", args.via)
                for precision in args.precisions:
                    ours = Tenon(path, precision, inputs, again=False)
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
    p.add_argument("--jobs", type=int, default=8)
    p.add_argument("--limit", type=float, default=120)
    p.add_argument("--only")
    p.add_argument("--shapes", type=int, default=20)
    p.add_argument("--worker")
    for flag in ("no-eager", "tune", "alone", "kernels", "profile", "dynamic", "same", "report"): p.add_argument("--" + flag, action="store_true")
    p.add_argument("--out", default=os.path.join(gpu_report.ROOT, "docs", "benchmarks"))
    args = p.parse_intermixed_args()
    results = Results(args.out)
    if args.report:
        results.take(args.names)
        return results.write()
    from gpu_sides import MORE, NETS
    args.precisions, args.batches = args.precision.split(","), [int(b) for b in args.batch.split(",")]
    args.names = [args.worker] if args.worker else [n for name in args.names or NETS for n in (MORE if name == "more" else [name])]
    args.machine = results.machine_name()
    if args.worker: worker(args)
    elif args.profile: profiles(args, results)
    elif args.kernels or args.dynamic or args.same:
        import gpu_checks
        gpu_checks.run(args, results)
    else: networks(args, results)


if __name__ == "__main__":
    main()
