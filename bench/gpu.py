#!/usr/bin/env python3
"""gpu.py -- Tenon beside PyTorch on an NVIDIA GPU, in one run: times, and whether Tenon's outputs are right.

usage: bench/gpu.py [--nets build/nets] [--json F.json] [--precision f32,bf16] [--products] [NAME...]

Networks are those that `make nets` filled (NAME.onnx, NAME.in.npz, NAME.out.npz); PyTorch runs its own of the same name from torchvision or transformers, with random
weights, since time does not depend on them: eager and torch.compile, each as it is and as a CUDA graph.  Tenon's time is that of a whole call, inputs and outputs copied from and to the
host, and the sum of its kernels alone; PyTorch's is of tensors that are on the GPU.  With --products also bf16 matrix products of 1024 to 8192 beside cuBLAS, back to back: the difference
of two chains of products, so that copies do not count.  Needs torch; onnx for --products.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TENON = os.environ.get("TENON") or os.path.join(ROOT, "build", "tenon")


def tenon_json(*args):
    r = subprocess.run([TENON, *args, "--json"], capture_output=True, text=True)
    if r.returncode: return {"error": r.stderr.strip().split("\n")[-1]}
    return json.loads(r.stdout)


def tenon_times(model, precision, inputs=None):
    common = ["bench", model, "--target", "cuda", "--precision", precision, "--seconds", "1", "--warmup", "0.5"]
    if inputs: common += ["--inputs", inputs]
    call = tenon_json(*common)
    if "error" in call: return call
    steps = tenon_json(*common, "--profile").get("steps", [])
    kernels = sum(s.get("ms", 0) for s in steps if s.get("kind") == "kernel")
    return {"call_ms": call["median_ms"], "kernels_ms": kernels, "compile_ms": call["compile_ms"]}


ERROR_MAX = {"f32": 1e-4, "bf16": 0.1}  # of the whole output: the norm of the difference by the norm of what is expected


def error_of(stem, precision):
    """The largest relative error of an output, or why there is none."""
    import numpy as np
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.npz")
        r = subprocess.run([TENON, "run", stem + ".onnx", "--target", "cuda", "--precision", precision, "--inputs", stem + ".in.npz", "--output", path], capture_output=True, text=True)
        if r.returncode: return r.stderr.strip().split("\n")[-1]
        got, want = np.load(path), np.load(stem + ".out.npz")
        return max(float(np.linalg.norm(got[k].astype(np.float64) - want[k]) / max(np.linalg.norm(want[k]), 1e-30)) for k in want.files)


def checked(stem, precision):
    error = error_of(stem, precision)
    return {"error": error, "right": isinstance(error, float) and error <= ERROR_MAX[precision]}


# ---- PyTorch ----

def torch_net(name):
    """(model, inputs), on the CPU in f32; None where there is none of that name"""
    import torch
    if name == "bert_base":
        import transformers
        config = transformers.BertConfig()
        return transformers.BertModel(config).eval(), (torch.randint(0, config.vocab_size, (1, 128)),)
    import torchvision
    make = getattr(torchvision.models, name, None)
    return (make(weights=None).eval(), (torch.randn(1, 3, 224, 224),)) if make else None


def time_calls(fn, calls=30):
    import torch
    for _ in range(5): fn()
    times = []
    for _ in range(calls):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        a.record()
        fn()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    return statistics.median(times)


def as_graph(fn):
    import torch
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3): fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): fn()
    return graph.replay


def torch_times(name, precision):
    import torch
    found = torch_net(name)
    if not found: return {}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model, inputs = found[0].cuda(), tuple(x.cuda() for x in found[1])
    if precision == "bf16":
        model = model.to(torch.bfloat16)
        inputs = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs)
    if inputs[0].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
    out = {}
    with torch.no_grad():
        compiled = torch.compile(model)
        for kind, fn in (("eager", lambda: model(*inputs)), ("compiled", lambda: compiled(*inputs))):
            out[kind + "_ms"] = time_calls(fn)
            out[kind + "_graph_ms"] = time_calls(as_graph(fn))
    return out


# ---- products ----

def chain_model(path, n, count):
    """x w w ... in bf16 from inputs of f32; with normal numbers, those of w by the root of n, every product has such numbers, as real data: zeros or infinities run faster"""
    import onnx
    from onnx import TensorProto, helper
    nodes = [helper.make_node("Cast", [k + "32"], [k], to=TensorProto.BFLOAT16) for k in ("y0", "w")]
    nodes += [helper.make_node("Gemm", [f"y{i}", "w"], [f"y{i + 1}"], transB=1) for i in range(count)]
    tensor = lambda name, t: helper.make_tensor_value_info(name, t, [n, n])
    graph = helper.make_graph(nodes, "chain", [tensor("y032", TensorProto.FLOAT), tensor("w32", TensorProto.FLOAT)], [tensor(f"y{count}", TensorProto.BFLOAT16)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def product_times(n):
    import numpy as np, torch
    with tempfile.TemporaryDirectory() as folder:
        call, data = [], os.path.join(folder, "in.npz")
        normal = np.random.default_rng(1).standard_normal((2, n, n), np.float32)
        np.savez(data, y032=normal[0], w32=normal[1] / np.sqrt(n, dtype=np.float32))
        for count in (10, 60):
            path = os.path.join(folder, f"{count}.onnx")
            chain_model(path, n, count)
            call.append(tenon_json("bench", path, "--target", "cuda", "--inputs", data, "--seconds", "1", "--warmup", "0.5").get("median_ms", float("nan")))
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def fifty():
        for _ in range(50): torch.mm(a, b.T)
    ours, theirs = (call[1] - call[0]) / 50 * 1e3, time_calls(as_graph(fifty), 10) / 50 * 1e3
    return {"name": f"product {n}", "precision": "bf16", "tenon_us": ours, "cublas_us": theirs, "tflops": 2 * n ** 3 / ours / 1e6, "share": theirs / ours}


def show(row):
    if "tenon_us" in row:
        print(f"{row['name']:16} bf16  {row['tenon_us']:9.1f} us {row['tflops']:7.1f} TFLOP/s   cuBLAS {row['cublas_us']:9.1f} us   {row['share']:.2f}", flush=True)
        return
    words = [f"{k[:-3]} {v:.3f}" for k, v in row.items() if k.endswith("_ms")]
    print(f"{row['name']:16} {row['precision']:5} {'right' if row.get('right') else 'WRONG'} {row.get('error')!s:9.9}  " + "  ".join(words), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nets", default=os.path.join(ROOT, "build", "nets"))
    p.add_argument("--json")
    p.add_argument("--precision", default="f32,bf16")
    p.add_argument("--products", action="store_true")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    rows = [product_times(n) for n in (1024, 2048, 4096, 8192)] if a.products else []
    for row in rows: show(row)
    for name in a.names or ["resnet50", "bert_base", "mobilenet_v2", "vit_b_16"]:
        stem = os.path.join(a.nets, name)
        if not os.path.exists(stem + ".onnx"):
            print(f"{name}: not in {a.nets}", file=sys.stderr)
            continue
        for precision in a.precision.split(","):
            row = {"name": name, "precision": precision, **checked(stem, precision), **tenon_times(stem + ".onnx", precision, stem + ".in.npz")}
            row.update({"torch_" + k: v for k, v in torch_times(name, precision).items()})
            rows.append(row)
            show(row)
    if a.json: json.dump(rows, open(a.json, "w"), indent=1)
    return any(not r.get("right", True) for r in rows)


if __name__ == "__main__":
    sys.exit(main())
