"""cliffs_gpu.py -- the GPU's part of cliffs.py: layers beside PyTorch eager, both captured in a CUDA graph; networks beside torch.compile in a CUDA graph; in the same precision.

A layer is the ONNX file for Tenon and the module of onnx_torch.py for PyTorch; a network is PyTorch's own (torch_zoo.py), exported for Tenon.  Both get the same tensors on the GPU.
Errors are root mean squares of differences from PyTorch in f64 (layers) or f32 (networks), divided by the root mean square of the result; PyTorch's own error in that precision is
beside Tenon's.  Layers run in one process, which is started again where a layer ends it; before that, all are compiled by several processes into a cache, so that device time goes into
measuring.  Each network has a process of its own, and torch.compile works for several at once.
"""
import concurrent.futures, json, os, subprocess, sys, tempfile, threading, time

WAIT = 150  # seconds for one layer or for the rounds of one network
FLOOR = {"f32": 1e-6, "tf32": 1e-4, "bf16": 1e-3}  # errors below it are as good as each other


def stamp():
    library = os.path.realpath(os.environ.get("TENON_LIBRARY") or os.path.join(os.path.dirname(__file__), "..", "..", "build", "libtenon.so"))
    return f"{os.path.getsize(library)}-{os.path.getmtime(library):.0f}"


def rms(got, want):
    """Root mean square of the difference by that of the result, the largest of the outputs."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape: return float("inf")
        if not w.is_floating_point():
            worst = max(worst, float((g.cpu() != w.cpu()).double().mean()))
            continue
        g, w = g.detach().double(), w.detach().double()
        d = float((g - w).norm() / max(float(w.norm()), 1e-30))
        worst = max(worst, d) if d == d else float("inf")
    return worst


def judge(row, precision):
    """The ratios of time and error; a result that is far off is wrong."""
    row["us"] = {k: t["least"] * 1e3 for k, t in row.pop("ms").items()}
    row.update(best="torch", wrong=[], ratio=row["us"]["torch"] / row["us"]["tenon"], lost_us=row["us"]["tenon"] - row["us"]["torch"])
    floor = FLOOR[precision]
    row["error_ratio"] = max(row["error"], floor) / max(row["torch_error"], floor)
    if not row["error"] <= max(20 * row["torch_error"], 20 * floor): row["wrong"].append("tenon")
    return row


def profile(ours):
    """The kernel that takes longest, and how it is done."""
    steps = [s for s in ours.model.profile(*ours.inputs, runs=3)]
    kernels = [s for s in steps if s.kind == "kernel"]
    top = max(steps, key=lambda s: s.ns, default=None)
    if top is None: return {}
    return {"kernel": top.node, "kernels": len(kernels), "host": sum(s.kind == "host" for s in steps), "template": "host" if top.kind == "host" else (top.name or "").split(" ")[0], "schedule": top.name}


# ---- layers ----

def layer_row(args, net, folder):
    import torch
    from gpu_sides import Tenon, as_graph, flat, forget, interleaved, ready
    import onnx_torch
    path, _ = net.write(folder)
    precision = args.precision
    inputs = tuple(torch.from_numpy(v).cuda() for v in net.feed.values())
    model = onnx_torch.module(net).cuda()
    want = flat(onnx_torch.module(net).cuda().double()(*[x.double() if x.is_floating_point() else x for x in inputs]))
    model, theirs = ready(model, inputs, precision)
    row = {"torch_error": rms(flat(model(*theirs)), want)}
    plain = as_graph(lambda: model(*theirs))
    ours = Tenon(path, precision, inputs, again=False, cache=args.cache)
    captured = as_graph(ours) if ours.on_device else ours
    captured()
    torch.cuda.synchronize()
    row.update(error=rms(ours.out, want))
    row["ms"] = interleaved({"tenon": captured, "torch": plain}, args.rounds, args.seconds or 0.02)
    row.update(profile(ours))
    ours.close()
    forget()
    return judge(row, precision)


def compile_layer(args, key):
    """The layer's kernels in the cache: a session compiles them."""
    from interleave import tenon
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = dict(args.wanted(args))[key]().write(folder)
        command = [tenon, "bench", path, "--target", "cuda", "--precision", args.precision, "--inputs", inputs, "--seconds", "0.001", "--warmup", "0"]
        try: subprocess.run(command, capture_output=True, env=dict(os.environ, TENON_CACHE=args.cache), timeout=WAIT)
        except subprocess.TimeoutExpired: pass


def layer_worker(args):
    """Measures the layers whose keys come in, a row a line."""
    import torch
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    makers = dict(args.wanted(args))
    for key in map(str.strip, sys.stdin):
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            net = makers[key]()
            try: row = layer_row(args, net, folder)
            except Exception as e: row = {("skipped" if type(e).__name__ == "Unsupported" else "refused"): f"{type(e).__name__}: {str(e)[:300]}"}
        print(json.dumps({**row, "text": net.text}), file=answers, flush=True)


class Worker:
    """A process of ours that measures; one that does not answer is ended."""

    def __init__(self, more):
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", *sys.argv, "--worker", more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line, seconds=WAIT):
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            if line is not None:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError: answer = ""
        timer.cancel()
        return json.loads(answer) if answer.strip() else None

    def close(self):
        try: self.process.stdin.close()
        except OSError: pass
        self.process.wait()


def complete(args, row, ident, key, kind, build):
    import cliffs_report
    row.update(id=ident, key=key, kind=kind, seed=args.seed, precision=args.precision, build=build, revision=os.environ.get("REVISION") or said_revision(), when=time.strftime("%Y-%m-%d %H:%M", time.gmtime()))
    row.setdefault("text", "")
    return row, cliffs_report.line(row)


def said_revision():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def run_layers(args, results):
    end, build, worker = time.time() + min(args.minutes, 1e6) * 60, stamp(), None
    todo = [k for k, _ in args.wanted(args)]
    ident_of = lambda key: f"gpu layers {args.seed} {key} {args.precision}"
    done = lambda key: not args.again and results.rows.get(ident_of(key), {}).get("build") == build
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda key: compile_layer(args, key), [k for k in todo if not done(k)]): pass
    for i, key in enumerate(todo):
        ident = ident_of(key)
        if done(key): continue
        if time.time() > end:
            print(f"{i} of {len(todo)}: time is up; the same command goes on", file=sys.stderr)
            break
        worker = worker or Worker("layers")
        row = worker.ask(key)
        if row is None:
            worker.close()
            worker, row = None, {"refused": "its process ended, or gave no result in time"}
        row, line = complete(args, row, ident, key, "layers", build)
        results.add(row)
        print(f"[{i + 1}/{len(todo)}] {line}", file=sys.stderr, flush=True)
    if worker: worker.close()


# ---- networks ----

def network_worker(args, name, batch):
    """PyTorch's side first, which takes long; Tenon's and the rounds when it is told to."""
    import copy, torch
    from gpu_sides import Tenon, Torch, expected, exported, flat, interleaved, set_precision
    import torch_zoo
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        try:
            model, inputs = torch_zoo.on_gpu(name, batch)
            want = expected(model, inputs)
            theirs = Torch(copy.deepcopy(model).cuda(), inputs, args.precision, eager=False)
            path = exported(model, inputs, f"{folder}/{name.replace('/', '_')}")
        except Exception as e:
            print(json.dumps({"skipped": f"{type(e).__name__}: {str(e)[:300]}"}), file=answers, flush=True)
            return
        print("{}", file=answers, flush=True)
        if not sys.stdin.readline(): return
        try:
            ours = Tenon(path, args.precision, inputs, again=False)
            row = {"compile_s": ours.seconds["cold"]["compile"], "error": rms(ours.result(), want), "torch_error": rms(flat(theirs.compiled_result), want)}
            set_precision(args.precision)
            row["ms"] = interleaved({"tenon": ours, "torch": theirs.sides["compiled_graph"]}, args.rounds, args.seconds or 0.04)
            row.update(profile(ours))
            row = judge(row, args.precision)
        except Exception as e: row = {"refused": f"{type(e).__name__}: {str(e)[:300]}"}
        print(json.dumps(row), file=answers, flush=True)


def run_networks(args, results, jobs=4):
    """Several at once until PyTorch's side is ready; measured one by one while no other works."""
    import torch_zoo
    end, build = time.time() + min(args.minutes, 1e6) * 60, stamp()
    todo = [(n, b) for b in args.batch.split(",") for n in args.names or torch_zoo.GPU_NETWORKS]
    ident = lambda n, b: f"gpu networks {n} batch {b} {args.precision}"
    fresh = [(n, b) for n, b in todo if args.again or results.rows.get(ident(n, b), {}).get("build") != build]
    for first in range(0, len(fresh), jobs):
        if time.time() > end: return print(f"{first} of {len(fresh)}: time is up; the same command goes on", file=sys.stderr)
        some = [(n, b, Worker(f"{n}@{b}")) for n, b in fresh[first:first + jobs]]
        ready = [(n, b, w, w.ask(None, 240)) for n, b, w in some]  # a worker that is ready waits and computes nothing
        for n, b, w, said in ready:
            row = said if said else w.ask("go") if said == {} else None
            w.close()
            if row is None: row = {"refused": "its process ended, or gave no result in time"}
            row, line = complete(args, row, ident(n, b), f"{n} batch {b}", "networks", build)
            results.add(row)
            print(line, file=sys.stderr, flush=True)


def run(args, results):
    if args.worker == "layers": layer_worker(args)
    elif args.worker: network_worker(args, *(lambda n, b: (n, int(b)))(*args.worker.rsplit("@", 1)))
    elif args.networks: run_networks(args, results)
    else: run_layers(args, results)
