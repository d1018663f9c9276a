#!/usr/bin/env python3
"""ops.py -- single operators beside ONNX Runtime: models of one node at realistic sizes, worst ratio first.

usage: bench/ops.py [--threads 1,2] [--rounds N] [--seconds S] [--folder F] [NAME...]

Each case is a model of one node that is made here, with random inputs.  Both contenders are processes of their own (contender.py)
and stand still while the other one is measured; rounds go through them in turn.  The ratio is ONNX Runtime's least time divided by
Tenon's, above 1 where Tenon is faster.  Outputs are compared.  NAME: the cases whose names contain it (else all).
Needs a Python that has onnx, onnxruntime and numpy.  Models stay in --folder (build/ops).
"""
import argparse, math, os, sys
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "bench"))
from turns import Contender, difference

rng = np.random.default_rng(0)
f32 = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
i64 = lambda *values: np.array(values, np.int64)
cases = {}


def case(name, op, inputs, weights=(), outputs=1, absent=(), **attrs):
    """inputs: arrays given at a run; weights: arrays of the model, behind them; absent: places without an operand."""
    cases[name] = (op, list(inputs), list(weights), outputs, set(absent), attrs)


def all_cases():
    image, wide, tall = f32(1, 64, 112, 112), f32(1, 64, 56, 56), f32(1, 256, 14, 14)
    tokens, matrix, heads = f32(8, 128, 768), f32(2000, 2000), f32(1, 12, 128, 128)
    case("conv_transpose 4x4/2", "ConvTranspose", [f32(1, 128, 32, 32)], [f32(128, 64, 4, 4)], strides=[2, 2], pads=[1] * 4)
    case("conv_transpose 2x2/2", "ConvTranspose", [f32(1, 128, 64, 64)], [f32(128, 64, 2, 2)], strides=[2, 2])
    case("conv_transpose 3x3/2", "ConvTranspose", [f32(1, 64, 56, 56)], [f32(64, 32, 3, 3)], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
    case("conv_transpose 3x3/1", "ConvTranspose", [f32(1, 64, 32, 32)], [f32(64, 64, 3, 3)], pads=[1] * 4)
    case("conv_transpose 1-D 16/8", "ConvTranspose", [f32(1, 128, 200)], [f32(128, 64, 16)], strides=[8], pads=[4, 4])
    case("conv_transpose 3-D", "ConvTranspose", [f32(1, 32, 8, 16, 16)], [f32(32, 16, 2, 2, 2)], strides=[2, 2, 2])
    case("conv_transpose groups", "ConvTranspose", [f32(1, 64, 32, 32)], [f32(64, 16, 4, 4)], strides=[2, 2], pads=[1] * 4, group=4)
    case("top_k 10 of 64x10000", "TopK", [f32(64, 10000)], [i64(10)], outputs=2)
    case("top_k 100 of 8400", "TopK", [f32(1, 8400)], [i64(100)], outputs=2)
    case("top_k 1 of 512x1000", "TopK", [f32(512, 1000)], [i64(1)], outputs=2)
    for mode in "reflect", "edge", "constant":
        case(f"pad {mode}", "Pad", [wide], [i64(0, 0, 3, 3, 0, 0, 3, 3)], mode=mode)
    case("max_pool 3x3/2", "MaxPool", [image], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    case("max_pool 2x2/2", "MaxPool", [image], kernel_shape=[2, 2], strides=[2, 2])
    case("max_pool 3x3/1", "MaxPool", [f32(1, 192, 28, 28)], kernel_shape=[3, 3], pads=[1] * 4)
    case("max_pool 5x5/1", "MaxPool", [f32(1, 256, 20, 20)], kernel_shape=[5, 5], pads=[2] * 4)
    case("average_pool 2x2/2", "AveragePool", [image], kernel_shape=[2, 2], strides=[2, 2])
    case("average_pool 3x3/1", "AveragePool", [f32(1, 192, 28, 28)], kernel_shape=[3, 3], pads=[1] * 4)
    case("global_average_pool", "GlobalAveragePool", [f32(1, 2048, 7, 7)])
    for mode, how in ("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel"):
        case(f"resize {mode} x2", "Resize", [f32(1, 64, 40, 40)], [np.array([1, 1, 2, 2], np.float32)], absent=[1], mode=mode,
             coordinate_transformation_mode=how, **({"nearest_mode": "floor"} if mode == "nearest" else {}))
    case("resize linear x1.5", "Resize", [f32(1, 3, 224, 224)], [np.array([1, 1, 1.5, 1.5], np.float32)], absent=[1], mode="linear")
    case("resize nearest x0.75", "Resize", [f32(1, 3, 320, 320)], [np.array([1, 1, 0.75, 0.75], np.float32)], absent=[1], mode="nearest")
    case("resize linear last x2", "Resize", [f32(1, 40, 40, 64)], [np.array([1, 2, 2, 1], np.float32)], absent=[1], mode="linear")
    case("transpose 2000x2000", "Transpose", [matrix], perm=[1, 0])
    case("transpose 0231", "Transpose", [f32(1, 64, 56, 56)], perm=[0, 2, 3, 1])
    case("transpose 0312", "Transpose", [f32(1, 56, 56, 64)], perm=[0, 3, 1, 2])
    case("transpose 0213", "Transpose", [f32(8, 128, 12, 64)], perm=[0, 2, 1, 3])
    case("transpose 0132", "Transpose", [f32(8, 12, 128, 64)], perm=[0, 1, 3, 2])
    case("transpose image last", "Transpose", [f32(1, 3, 224, 224)], perm=[0, 2, 3, 1])
    case("scatter_elements axis 0", "ScatterElements", [f32(512, 512)], [rng.integers(0, 512, (512, 512)), f32(512, 512)], axis=0)
    case("scatter_elements axis 1", "ScatterElements", [f32(512, 512)], [rng.integers(0, 512, (512, 256)), f32(512, 256)], axis=1)
    case("scatter_nd rows", "ScatterND", [f32(4096, 256)], [rng.permutation(4096)[:1024].reshape(-1, 1), f32(1024, 256)])
    case("scatter_nd points", "ScatterND", [f32(512, 512)], [rng.integers(0, 512, (20000, 2)), f32(20000)])
    case("cum_sum last", "CumSum", [f32(256, 4096)], [i64(1)[0]])
    case("cum_sum first", "CumSum", [f32(4096, 256)], [i64(0)[0]])
    case("arg_max last", "ArgMax", [f32(512, 1000)], axis=1)
    case("arg_max first", "ArgMax", [f32(21, 65536)], axis=0)
    case("arg_max middle", "ArgMax", [f32(1, 21, 256, 256)], axis=1)
    for name, axes in ("first", [0]), ("middle", [1]), ("last", [2]), ("all", [0, 1, 2]):
        case(f"reduce_mean {name}", "ReduceMean", [f32(64, 128, 256)], [i64(*axes)])
    case("reduce_max middle", "ReduceMax", [f32(64, 128, 256)], [i64(1)])
    case("reduce_l2 last", "ReduceL2", [tokens], [i64(2)])
    case("softmax last", "Softmax", [heads], axis=-1)
    case("softmax middle", "Softmax", [f32(1, 21, 256, 256)], axis=1)
    case("softmax first", "Softmax", [f32(1000, 512)], axis=0)
    case("log_softmax last", "LogSoftmax", [f32(128, 30522)], axis=-1)
    case("gather rows", "Gather", [rng.integers(0, 30522, (8, 128))], [f32(30522, 768)], absent=["swap"])
    case("gather axis 1", "Gather", [f32(512, 1024)], [rng.integers(0, 1024, (256,))], axis=1)
    case("gather_elements", "GatherElements", [f32(512, 512)], [rng.integers(0, 512, (512, 512))], axis=1)
    case("gather_nd", "GatherND", [f32(512, 512)], [rng.integers(0, 512, (20000, 2))])
    case("where", "Where", [rng.random((1, 1, 128, 128)) < 0.5, heads, np.array(-1e9, np.float32)])
    case("add rows", "Add", [tokens, f32(768)])
    case("add column", "Add", [tokens, f32(8, 128, 1)])
    case("mul channels", "Mul", [image, f32(1, 64, 1, 1)])
    case("cast to f16", "Cast", [tokens], to=T.FLOAT16)
    case("cast to i64", "Cast", [tokens], to=T.INT64)
    case("cast i64 to f32", "Cast", [rng.integers(0, 100, (512, 1024))], to=T.FLOAT)
    case("cast u8 to f32", "Cast", [rng.integers(0, 255, (3, 640, 640)).astype(np.uint8)], to=T.FLOAT)
    case("one_hot", "OneHot", [rng.integers(0, 1000, (1024,))], [i64(1000)[0], np.array([0, 1], np.float32)])
    case("tile", "Tile", [f32(64, 128, 16)], [i64(2, 2, 4)])
    case("expand", "Expand", [f32(64, 1, 256)], [i64(64, 64, 256)])
    case("split last", "Split", [tokens], outputs=3, axis=2, num_outputs=3)
    case("split first", "Split", [tokens], outputs=2, axis=0, num_outputs=2)
    case("concat last", "Concat", [tokens, tokens], axis=2)
    case("concat channels", "Concat", [wide, wide], axis=1)
    case("slice step 2", "Slice", [wide], [i64(0, 0), i64(56, 56), i64(2, 3), i64(2, 2)])
    case("slice", "Slice", [wide], [i64(4, 4), i64(52, 52), i64(2, 3)])
    case("depth_to_space", "DepthToSpace", [f32(1, 256, 40, 40)], blocksize=2)
    case("space_to_depth", "SpaceToDepth", [f32(1, 64, 80, 80)], blocksize=2)
    case("layer_norm", "LayerNormalization", [tokens], [f32(768), f32(768)])
    case("instance_norm", "InstanceNormalization", [wide], [f32(64), f32(64)])
    case("group_norm", "GroupNormalization", [wide], [f32(64), f32(64)], num_groups=8)
    case("batch_norm", "BatchNormalization", [wide], [f32(64), f32(64), f32(64), np.abs(f32(64))])
    case("lrn", "LRN", [wide], size=5)
    case("gelu", "Gelu", [tokens])
    case("erf", "Erf", [tokens])
    case("tanh", "Tanh", [tokens])
    case("sigmoid", "Sigmoid", [tokens])
    case("pow", "Pow", [np.abs(tokens), np.array(1.7, np.float32)])
    case("clip", "Clip", [tokens], [np.array(0, np.float32), np.array(6, np.float32)])
    case("p_relu", "PRelu", [wide, f32(64, 1, 1)])
    case("quantize", "QuantizeLinear", [tokens], [np.array(0.05, np.float32), np.array(128, np.uint8)])
    case("dequantize", "DequantizeLinear", [rng.integers(0, 255, (8, 128, 768)).astype(np.uint8)],
         [np.array(0.05, np.float32), np.array(128, np.uint8)])
    case("grid_sample", "GridSample", [f32(1, 32, 64, 64), np.tanh(f32(1, 64, 64, 2))])
    case("non_zero", "NonZero", [(rng.random((512, 512)) < 0.1).astype(np.float32)])


def write(name, folder):
    op, inputs, weights, outputs, absent, attrs = cases[name]
    arrays, initial, names, kept = {}, [], [], list(inputs) + list(weights)
    for i, array in enumerate(kept):
        array = np.asarray(array)
        names.append(f"x{i}")
        if i < len(inputs): arrays[f"x{i}"] = array
        else: initial.append(nh.from_array(array, f"x{i}"))
    if "swap" in absent: names.reverse()
    for i in sorted(a for a in absent if a != "swap"): names.insert(i, "")
    result = [f"y{i}" for i in range(outputs)]
    value = lambda n, a: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), a.shape)
    graph = h.make_graph([h.make_node(op, names, result, **attrs)], "op", [value(n, a) for n, a in arrays.items()],
                         [h.make_empty_tensor_value_info(n) for n in result], initial)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    path = os.path.join(folder, name.replace(" ", "_").replace("/", "s"))
    onnx.save(model, path + ".onnx")
    np.savez(path + ".npz", **arrays)
    return path


def measure(path, threads, args):
    kinds = ["tenon", "onnxruntime"]
    both = {k: Contender(k, path + ".onnx", path + ".npz", threads, f"{args.folder}/cache") for k in kinds}
    least = dict.fromkeys(kinds, math.inf)
    for k in kinds: both[k].ask(f"{path}.{k}.out.npz")
    for i in range(args.rounds):
        for k in kinds if i % 2 else kinds[::-1]: least[k] = min(least[k], *both[k].ask(str(args.seconds))["ms"])
    for k in kinds: both[k].close()
    return least, difference(*(f"{path}.{k}.out.npz" for k in kinds))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--folder", default=os.path.join(root, "build", "ops"))
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    all_cases()
    rows = []
    for name in [c for c in cases if not args.names or any(n in c for n in args.names)]:
        path = write(name, args.folder)
        for threads in map(int, args.threads.split(",")):
            least, off = measure(path, threads, args)
            rows.append((least["onnxruntime"] / least["tenon"], name, threads, least, off))
    print("| operator | threads | Tenon, ms | ONNX Runtime, ms | ratio | largest difference |\n" + "|---" * 6 + "|")
    for ratio, name, threads, least, off in sorted(rows, key=lambda r: r[0]):
        print(f"| {name} | {threads} | {least['tenon']:.3f} | {least['onnxruntime']:.3f} | {ratio:.2f} | {off:.0e} |")
    print(f"\nGeometric mean of the ratios: {math.exp(sum(math.log(r[0]) for r in rows) / len(rows)):.2f}.")


if __name__ == "__main__": main()
