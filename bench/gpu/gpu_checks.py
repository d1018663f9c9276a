"""gpu_checks.py -- what gpu.py measures besides networks: single kernels, dynamic shapes, the same bits."""
import copy, hashlib, os, sys, tempfile
import torch
import torch.nn.functional as F

import gpu_report
from gpu_sides import Tenon, as_graph, expected, exported, far, forget, interleaved, inputs_of, network, set_precision


# ---- kernels ----

class Product(torch.nn.Module):
    def forward(self, a, b): return a @ b.t()


class Across(torch.nn.Module):
    def forward(self, a, b): return a @ b


class Attention(torch.nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


class Decode(torch.nn.Module):
    """One query of each head over a long past; heads share keys."""

    def forward(self, q, k, v): return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class More(torch.nn.Module):
    def forward(self, x): return x + 1


def normal(*shape, dtype=torch.bfloat16): return torch.randn(*shape, device="cuda").to(dtype)


def product(n, precision, model=Product()):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return model, lambda: (normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)), precision, {"flops": 2 * n ** 3}


def attention(causal):
    b, h, n, d = 4, 32, 4096, 128
    return Attention(causal), lambda: tuple(normal(b, h, n, d) for _ in range(3)), "bf16", {"flops": 4 * b * h * n * n * d / (2 if causal else 1)}


def decode(b, keys):
    h, shared, d = 32, 8, 128
    return Decode(), lambda: (normal(b, h, 1, d), normal(b, shared, keys, d), normal(b, shared, keys, d)), "bf16", {"bytes": 4 * b * shared * keys * d}


def vector(rows, columns):
    torch.manual_seed(0)
    layer = torch.nn.Linear(columns, rows, bias=False, device="cuda", dtype=torch.bfloat16)
    return layer, lambda: (normal(1, columns),), "bf16", {"bytes": 2 * rows * columns}


def copy_of(count): return More(), lambda: (normal(count, dtype=torch.float32),), "f32", {"bytes": 8 * count}


# Name: model, inputs, precision, and what it takes at least; how near it must be.
KERNELS = {
    "product 4096, bf16": (lambda: product(4096, "bf16"), 1e-2), "product 8192, bf16": (lambda: product(8192, "bf16"), 1e-2),
    "product 4096, bf16, a @ b": (lambda: product(4096, "bf16", Across()), 1e-2),
    "product 4096, tf32": (lambda: product(4096, "tf32"), 2e-3), "product 4096, f32": (lambda: product(4096, "f32"), 1e-5),
    "attention 4x32x4096x128, bf16": (lambda: attention(False), 2e-2), "attention 4x32x4096x128, bf16, causal": (lambda: attention(True), 2e-2),
    "decode 8x32 over 8192 keys of 8 heads, bf16": (lambda: decode(8, 8192), 2e-2), "decode 1x32 over 32768 keys of 8 heads, bf16": (lambda: decode(1, 32768), 2e-2),
    "matrix 14336x4096 by a vector, bf16": (lambda: vector(14336, 4096), 1e-2), "copy of 1 GiB (x + 1)": (lambda: copy_of(1 << 28), 1e-6),
}


def one_kernel(args, name, folder):
    make, near = KERNELS[name]
    model, inputs, precision, needs = make()
    torch.manual_seed(1)
    inputs = inputs()
    path = exported(copy.deepcopy(model), inputs, os.path.join(folder, "kernel"), args.via)
    set_precision(precision)
    # A model of bf16 stays what it is; `precision` says how f32 is multiplied.
    ours = Tenon(path, "f32" if precision == "bf16" else precision, inputs, again=False)
    plain = as_graph(lambda: model(*inputs))
    want = copy.deepcopy(model).double()(*(x.double() for x in inputs)) if needs.get("flops", 0) < 2e11 else model(*inputs).double()
    row = {"name": name, "precision": precision, "error": far(ours.result(), [want]), **needs}
    del want
    row["ms"] = interleaved({"tenon": ours, "torch": plain}, args.rounds, 0.05)
    row["right"], row["ratio"] = row["error"] <= near, row["ms"]["torch"]["median"] / row["ms"]["tenon"]["median"]
    seconds, peaks = row["ms"]["tenon"]["median"] / 1e3, gpu_report.peaks_of(args.machine) or {}
    kind = "bytes" if "bytes" in needs else precision
    row["reaches"] = f"{needs['bytes'] / seconds / 1e12:.2f} TB/s" if kind == "bytes" else f"{needs['flops'] / seconds / 1e12:.0f} TFLOP/s"
    row["share"] = needs.get("flops", needs.get("bytes")) / seconds / peaks.get(kind, float("inf"))
    row["schedule"] = "; ".join(s.name for s in ours.model.profile(*ours.inputs, runs=3) if s.kind == "kernel")
    ours.close()
    return row


def kernels(args, results):
    chosen = [k for k in KERNELS if not args.only or any(w in k for w in args.only.split(","))]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            try: row = one_kernel(args, name, folder)
            except Exception as e:
                print(f"{name}: {type(e).__name__}: {str(e)[:400]}", file=sys.stderr, flush=True)
                continue
            results.add("kernels", name, row)
            print(f"{name}: {'right' if row['right'] else 'WRONG'} {row['error']:.1e}  Tenon {row['ms']['tenon']['median'] * 1e3:.1f} us ({row['reaches']}, {row['share'] * 100:.0f} % of the peak)  "
                  f"PyTorch {row['ms']['torch']['median'] * 1e3:.1f} us  {row['ratio']:.2f}x  [{row['schedule']}]", flush=True)
            forget()


# ---- dynamic shapes ----

SHAPES = [(1, 128), (1, 1), (1, 7), (1, 64), (1, 200), (1, 512), (2, 128), (2, 33), (3, 50), (4, 128), (4, 256), (5, 17), (8, 64), (8, 128), (13, 100), (16, 32), (16, 128), (24, 80), (32, 128), (32, 48)]


def programs_made(folder): return sum(len(files) for _, _, files in os.walk(folder))


def dynamic(args, results):
    """BERT with a batch and a dynamic length, at many shapes: right, and nothing compiled after the first call."""
    from torch.export import Dim
    model = network("bert_base", "cuda")
    pairs = SHAPES[: args.shapes]
    with tempfile.TemporaryDirectory() as folder:
        want = {s: expected(model, inputs_of("bert_base", s[0], "cuda", s[1])) for s in pairs}
        open_path = exported(model, inputs_of("bert_base", 2, "cuda"), f"{folder}/open", args.via, dims=({0: Dim("batch", min=1, max=64), 1: Dim("length", min=1, max=512)},))
        fixed_path = exported(model, inputs_of("bert_base", 1, "cuda"), f"{folder}/fixed", args.via)
        for precision in args.precisions:
            at_128 = inputs_of("bert_base", 1, "cuda")
            ours = Tenon(open_path, precision, at_128, again=False)
            made, bound, worst, right = programs_made(ours.folder.name), gpu_report.BOUNDS[precision], 0.0, 0
            for shape in pairs:
                error = far(ours.result(inputs_of("bert_base", shape[0], "cuda", shape[1])), want[shape])
                worst, right = max(worst, error), right + (error <= bound)
            row = {"name": "bert_base", "precision": precision, "shapes": len(pairs), "right": right, "error": worst, "made": programs_made(ours.folder.name) - made}
            fixed = Tenon(fixed_path, precision, at_128, again=False)
            os.environ["TENON_CACHE"] = ours.folder.name
            ms = interleaved({"open": ours, "fixed": fixed}, args.rounds)
            row.update(open_ms=ms["open"], fixed_ms=ms["fixed"], ratio=ms["open"]["median"] / ms["fixed"]["median"])
            results.add("dynamic", f"bert_base {precision}", row)
            print(f"bert_base, dynamic shapes, {precision}: {right} of {len(pairs)} right, largest error {worst:.1e}, made after the first call {row['made']}, at 1x128 {ms['open']['median']:.4f} ms, fixed {ms['fixed']['median']:.4f} ms: {row['ratio']:.2f}", flush=True)
            ours.close()
            fixed.close()


# ---- the same bits ----

def digest(tensors): return hashlib.sha256(b"".join(t.float().cpu().numpy().tobytes() for t in tensors)).hexdigest()


def same(args, results):
    """Hashes of 20 runs, and of an item at several batches with programs that are made for each; what this costs."""
    for name in args.names:
        model = network(name, "cuda")
        inputs = inputs_of(name, 32, "cuda")
        with tempfile.TemporaryDirectory() as folder:
            paths = {b: exported(model, tuple(x[:b] for x in inputs), f"{folder}/{b}", args.via) for b in (1, 2, 8, 17, 32)}
            for precision in args.precisions:
                runs, items = set(), set()
                for batch in (1, 2, 8, 17):
                    ours = Tenon(paths[batch], precision, tuple(x[:batch].contiguous() for x in inputs), again=False, batch_invariant=True)
                    items.add(digest([t[:1] for t in ours.result()]))
                    if batch == 8:
                        for _ in range(20): runs.add(digest(ours.result()))
                    ours.close()
                row = {"name": name, "precision": precision, "runs": len(runs), "items": len(items)}
                for batch in (1, 32):
                    sides = {k: Tenon(paths[batch], precision, tuple(x[:batch].contiguous() for x in inputs), again=False, batch_invariant=k == "with") for k in ("with", "without")}
                    ms = interleaved(sides, args.rounds)
                    row[f"cost_{batch}"] = ms["with"]["median"] / ms["without"]["median"]
                    row[f"ms_{batch}"] = ms
                    for s in sides.values(): s.close()
                results.add("same", f"{name} {precision}", row)
                print(f"{name} {precision}: 20 runs {len(runs)} hash, an item at batch 1, 2, 8, 17 {len(items)} hash, cost at batch 1 {row['cost_1']:.2f}, at 32 {row['cost_32']:.2f}", flush=True)


def run(args, results):
    with torch.no_grad():
        if args.kernels: kernels(args, results)
        if args.dynamic: dynamic(args, results)
        if args.same: same(args, results)
