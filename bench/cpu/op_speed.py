#!/usr/bin/env python3
"""op_speed.py -- single operators beside ONNX Runtime: where a kernel is slow that no whole network shows.

usage: bench/cpu/op_speed.py [--threads N] [--clock cpu|wall] [--rounds N] [--below R] [PART...]

Makes a model of each case below, with random weights, whose name holds one of the PARTs, and runs both interleaved in one process; times are the
least of several: of the processor with one thread, else of the wall clock, unless --clock says.  Prints microseconds and the ratio, above 1 where
Tenon is faster, sorted; --below prints only those below a ratio.  Cases whose name begins with "floor" are layers of odd sizes that no template was
tuned for.  Needs a Python with onnx, onnxruntime and numpy.
"""
import argparse, os, sys, tempfile, time
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import capi  # noqa: E402

rng = np.random.default_rng(0)
CASES = {}


def case(name, nodes, inputs, weights={}, opset=18, out="y"):
    """nodes: list of (op, inputs, outputs, attributes)."""
    CASES[name] = (nodes, inputs, weights, opset, out)


def r(*shape):
    return (rng.random(shape, np.float32) - 0.5)


def one(name, op, inputs, weights={}, opset=18, **attrs):
    case(name, [(op, list(inputs) + list(weights), ["y"], attrs)], inputs, weights, opset)


def conv(name, x, cout, k, s=1, p=0, g=1, d=1, op="Conv", **more):
    nd = len(x) - 2
    k, s, p, d = ([v] * nd if isinstance(v, int) else v for v in (k, s, p, d))
    w = r(cout, x[1] // g, *k) if op == "Conv" else r(x[1], cout // g, *k)
    one(name, op, {"x": x}, {"w": w, "b": r(cout)}, strides=s, pads=p + p, group=g, dilations=d, kernel_shape=k, **more)


def cases():
    conv("conv 7x7s2 3->64 @224", (1, 3, 224, 224), 64, 7, 2, 3)
    conv("conv 3x3s2 3->32 @224", (1, 3, 224, 224), 32, 3, 2, 1)
    conv("conv 4x4s4 3->96 @224", (1, 3, 224, 224), 96, 4, 4)
    conv("conv 16x16s16 3->768 @224", (1, 3, 224, 224), 768, 16, 16)
    conv("conv 3x3 64->64 @56", (1, 64, 56, 56), 64, 3, 1, 1)
    conv("conv 3x3 512->512 @7", (1, 512, 7, 7), 512, 3, 1, 1)
    conv("conv 3x3s2 128->128 @56", (1, 128, 56, 56), 128, 3, 2, 1)
    conv("conv 3x3 64->3 @128", (1, 64, 128, 128), 3, 3, 1, 1)
    conv("conv 9x9 64->3 @64", (1, 64, 64, 64), 3, 9, 1, 4)
    conv("conv 3x3 1->64 @128", (1, 1, 128, 128), 64, 3, 1, 1)
    conv("conv 1x1 64->256 @56", (1, 64, 56, 56), 256, 1)
    conv("conv 1x1s2 256->512 @56", (1, 256, 56, 56), 512, 1, 2)
    conv("conv 1x1 1024->255 @13", (1, 1024, 13, 13), 255, 1)
    conv("conv 1x1 96->4 @1", (1, 96, 1, 1), 4, 1)
    conv("conv 1x7 192->192 @17", (1, 192, 17, 17), 192, [1, 7], 1, [0, 3])
    conv("conv 7x1 192->192 @17", (1, 192, 17, 17), 192, [7, 1], 1, [3, 0])
    conv("conv 3x3 dilated 256->256 @28", (1, 256, 28, 28), 256, 3, 1, 2, 1, 2)
    conv("conv 3x3 batch8 64->64 @28", (8, 64, 28, 28), 64, 3, 1, 1)
    conv("conv grouped 32x4 @56", (1, 128, 56, 56), 128, 3, 1, 1, 32)
    conv("conv grouped 32x16 @14", (1, 512, 14, 14), 512, 3, 1, 1, 32)
    conv("conv grouped 2x96 @27", (1, 96, 27, 27), 256, 5, 1, 2, 2)
    conv("conv grouped 8x8s2 @56", (1, 64, 56, 56), 64, 3, 2, 1, 8)
    conv("conv grouped 1x1 3x80 @28", (1, 240, 28, 28), 240, 1, 1, 0, 3)
    for i, o, g, n in [(20, 132, 4, 28), (96, 256, 4, 28), (24, 264, 8, 28), (40, 120, 4, 28), (48, 48, 3, 56), (36, 36, 9, 40), (60, 200, 20, 14)]:
        conv(f"conv grouped {i}->{o} g{g} @{n}", (1, i, n, n), o, 3, 1, 1, g)
    conv("conv grouped 1x1 48->120 g3 @28", (1, 48, 28, 28), 120, 1, 1, 0, 3)
    conv("conv 3x3 64->1 @64", (1, 64, 64, 64), 1, 3, 1, 1)
    conv("depthwise 3x3 @112", (1, 32, 112, 112), 32, 3, 1, 1, 32)
    conv("depthwise 3x3s2 @112", (1, 96, 112, 112), 96, 3, 2, 1, 96)
    conv("depthwise 5x5s2 @56", (1, 144, 56, 56), 144, 5, 2, 2, 144)
    conv("depthwise 7x7 @56", (1, 96, 56, 56), 96, 7, 1, 3, 96)
    conv("depthwise 31x31 @14", (1, 128, 14, 14), 128, 31, 1, 15, 128)
    conv("depthwise x2 3x3 @56", (1, 64, 56, 56), 128, 3, 1, 1, 64)
    conv("conv1d k10s5 1->512", (1, 1, 16000), 512, 10, 5)
    conv("conv1d k3s2 512->512", (1, 512, 1600), 512, 3, 2)
    conv("conv1d k3 80->384", (1, 80, 3000), 384, 3, 1, 1)
    conv("conv1d depthwise k31", (1, 144, 200), 144, 31, 1, 15, 144)
    conv("conv1d grouped k128 16x48", (1, 768, 100), 768, 128, 1, 64, 16)
    conv("conv1d grouped k64 32->4 g4", (1, 32, 1000), 4, 64, 1, 0, 4)
    conv("conv1d grouped k64 128->64 g16", (1, 128, 500), 64, 64, 1, 32, 16)
    conv("conv1d k128 padded 16->32", (1, 16, 1000), 32, 128, 1, 64)
    conv("conv1d k250 padded 1->8", (1, 1, 4000), 8, 250, 1, 125)
    conv("conv1d k250s10 padded 2->20", (1, 2, 8000), 20, 250, 10, 125)
    conv("conv1d dilated k3 64->64", (1, 64, 4000), 64, 3, 1, 8, 1, 8)
    conv("conv3d 3x3x3 16->32", (1, 16, 16, 32, 32), 32, 3, 1, 1)
    conv("conv3d 3x3x3 3->64 s122", (1, 3, 16, 56, 56), 64, [3, 7, 7], [1, 2, 2], [1, 3, 3])
    conv("conv3d 1x1x1 32->64", (1, 32, 8, 28, 28), 64, 1)
    conv("conv3d 1x1x1 64->17", (1, 64, 4, 14, 14), 17, 1)
    conv("conv3d 1x1x1s2 32->64", (1, 32, 8, 28, 28), 64, 1, 2)
    conv("conv3d depthwise", (1, 64, 8, 28, 28), 64, 3, 1, 1, 64)
    conv("convT 2x2s2 64->32 @56", (1, 64, 56, 56), 32, 2, 2, op="ConvTranspose")
    conv("convT 4x4s2 256->128 @16", (1, 256, 16, 16), 128, 4, 2, 1, op="ConvTranspose")
    conv("convT 3x3s2 64->64 @28", (1, 64, 28, 28), 64, 3, 2, 1, op="ConvTranspose", output_padding=[1, 1])
    conv("convT 3x3s1 64->64 @28", (1, 64, 28, 28), 64, 3, 1, 1, op="ConvTranspose")
    conv("convT 4x4s1 100->256 @1", (1, 100, 1, 1), 256, 4, 1, 0, op="ConvTranspose")
    conv("convT 4x4s2 64->3 @32", (1, 64, 32, 32), 3, 4, 2, 1, op="ConvTranspose")
    conv("convT 2x2s2 32->1 @64", (1, 32, 64, 64), 1, 2, 2, op="ConvTranspose")
    conv("convT 3x3s2 16->2 @50", (1, 16, 50, 50), 2, 3, 2, 1, op="ConvTranspose")
    conv("convT 5x5s1 32->1 @40", (1, 32, 40, 40), 1, 5, 1, 2, op="ConvTranspose")
    conv("convT depthwise 4x4s2 @28", (1, 21, 28, 28), 21, 4, 2, 1, 21, op="ConvTranspose")
    conv("convT1d k16s8 256->128", (1, 256, 100), 128, 16, 8, 4, op="ConvTranspose")
    conv("convT3d 2x2x2s2 64->32", (1, 64, 8, 8, 8), 32, 2, 2, op="ConvTranspose")
    for n, x, k, s, p in [("3x3s2 @112", (1, 64, 112, 112), 3, 2, 1), ("2x2s2 @56", (1, 128, 56, 56), 2, 2, 0), ("5x5s1 @20", (1, 256, 20, 20), 5, 1, 2), ("13x13 @13", (1, 256, 13, 13), 13, 1, 6)]:
        one("max_pool " + n, "MaxPool", {"x": x}, kernel_shape=[k, k], strides=[s, s], pads=[p] * 4)
        one("avg_pool " + n, "AveragePool", {"x": x}, kernel_shape=[k, k], strides=[s, s], pads=[p] * 4)
    one("max_pool1d", "MaxPool", {"x": (1, 64, 8000)}, kernel_shape=[4], strides=[4])
    one("max_pool3d", "MaxPool", {"x": (1, 32, 16, 32, 32)}, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    one("global_avg", "GlobalAveragePool", {"x": (1, 2048, 7, 7)})
    one("global_max", "GlobalMaxPool", {"x": (1, 512, 14, 14)})
    for mode, how in [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel")]:
        case(f"resize {mode} {how} x2 @56", [("Resize", ["x", "", "s"], ["y"], {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": "floor"})],
             {"x": (1, 64, 56, 56)}, {"s": np.array([1, 1, 2, 2], np.float32)})
    case("resize linear down @256", [("Resize", ["x", "", "s"], ["y"], {"mode": "linear"})], {"x": (1, 3, 256, 256)}, {"s": np.array([1, 1, .5, .5], np.float32)})
    one("instance_norm", "InstanceNormalization", {"x": (1, 128, 64, 64)}, {"s": r(128), "b": r(128)})
    one("group_norm", "GroupNormalization", {"x": (1, 128, 32, 32)}, {"s": r(128), "b": r(128)}, 21, num_groups=32)
    one("batch_norm", "BatchNormalization", {"x": (1, 128, 56, 56)}, {"s": r(128), "b": r(128), "m": r(128), "v": r(128) + 1})
    one("layer_norm 128x768", "LayerNormalization", {"x": (128, 768)}, {"s": r(768), "b": r(768)})
    one("layer_norm 3136x96", "LayerNormalization", {"x": (3136, 96)}, {"s": r(96), "b": r(96)})
    one("lrn", "LRN", {"x": (1, 96, 55, 55)}, size=5)
    one("lp_norm", "LpNormalization", {"x": (128, 512)}, axis=1)
    for shape, axis in [((12, 128, 128), -1), ((1, 1000), -1), ((1, 21, 128, 128), 1), ((32, 8, 1024), -1), ((128, 50257), -1)]:
        one(f"softmax {shape} {axis}", "Softmax", {"x": shape}, axis=axis)
    one("log_softmax 64x5000", "LogSoftmax", {"x": (64, 5000)}, axis=-1)
    for shape, axes in [((128, 768), [1]), ((128, 768), [0]), ((64, 56, 56), [1, 2]), ((1000000,), [0]), ((1, 64, 56, 56), [1])]:
        for op in ["ReduceMean", "ReduceMax", "ReduceL2"]:
            case(f"{op} {shape} {axes}", [(op, ["x", "a"], ["y"], {})], {"x": shape}, {"a": np.array(axes, np.int64)})
    one("argmax 128x1000", "ArgMax", {"x": (128, 1000)}, axis=1)
    one("argmax channels", "ArgMax", {"x": (1, 21, 256, 256)}, axis=1)
    case("topk 5 of 1000", [("TopK", ["x", "k"], ["y", "i"], {})], {"x": (1, 1000)}, {"k": np.array([5], np.int64)})
    case("topk 100 of 8400", [("TopK", ["x", "k"], ["y", "i"], {})], {"x": (1, 8400)}, {"k": np.array([100], np.int64)})
    case("cumsum", [("CumSum", ["x", "a"], ["y"], {})], {"x": (64, 4096)}, {"a": np.array(1, np.int64)})
    for m, k, n in [(1, 4096, 4096), (1, 768, 50257), (4, 2048, 2048), (8, 2048, 2048), (16, 1024, 1024), (64, 512, 512), (128, 768, 3072), (128, 3072, 768), (512, 512, 512), (1000, 1000, 1000),
                    (197, 768, 768), (4096, 16, 16), (4096, 64, 8), (1, 9216, 10), (3136, 96, 288), (49, 768, 3072), (5, 37, 111), (300, 1, 300), (384, 100, 1000), (17, 1000, 511), (50, 333, 77), (1000, 40, 33), (129, 513, 257)]:
        one(f"mat_mul {m}x{k}x{n}", "MatMul", {"x": (m, k)}, {"w": r(k, n)})
    for x, y in [((12, 128, 64), (12, 64, 128)), ((12, 128, 128), (12, 128, 64)), ((512, 512), (512, 512)), ((8, 1, 64), (8, 64, 512)), ((1, 512), (512, 512)), ((64, 49, 32), (64, 32, 49)), ((1000, 3), (3, 1000)), ((384, 100), (100, 1000)), ((17, 1000), (1000, 511)), ((3, 50, 1000), (3, 1000, 256)), ((3, 1, 1000), (3, 1000, 256)), ((4, 7, 100, 33), (33, 65)), ((128, 768), (768, 768)), ((2, 300, 500), (500, 300)), ((1024, 1024), (1024, 1024))]:
        one(f"mat_mul inputs {x} {y}", "MatMul", {"x": x, "z": y})
    one("gemm inputs tA", "Gemm", {"x": (256, 128), "z": (256, 200)}, transA=1)
    one("gemm inputs tB", "Gemm", {"x": (128, 256), "z": (200, 256)}, transB=1)
    case("einsum bhqd,bhkd", [("Einsum", ["x", "z"], ["y"], {"equation": "bhqd,bhkd->bhqk"})], {"x": (1, 8, 128, 64), "z": (1, 8, 128, 64)})
    for h, q, k, d in [(12, 128, 128, 64), (8, 512, 512, 64), (4, 1024, 1024, 64), (8, 1, 512, 64), (8, 1, 4096, 128), (6, 1500, 1500, 64), (1, 4096, 4096, 40), (12, 197, 300, 80), (12, 17, 64, 80), (12, 197, 197, 64), (4, 100, 77, 40), (64, 49, 49, 32), (3, 33, 250, 96)]:
        case(f"attention {h}x{q}x{k}x{d}", [("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "t"], ["s"], {}), ("Mul", ["s", "c"], ["m"], {}),
             ("Softmax", ["m"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {})], {"q": (1, h, q, d), "k": (1, h, k, d), "v": (1, h, k, d)}, {"c": np.array(d ** -.5, np.float32)})
    for op in ["Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sqrt", "HardSwish", "Softplus", "Elu", "Sin", "Abs", "Round", "Mish", "Log"]:
        one(f"{op} 1M", op, {"x": (1000, 1000)})
    one("Gelu 1M", "Gelu", {"x": (1000, 1000)}, opset=20)
    one("Pow 1M", "Pow", {"x": (1000, 1000)}, {"e": np.array(2.5, np.float32)})
    one("Add 1M", "Add", {"x": (1000, 1000), "z": (1000, 1000)})
    one("Add row 1M", "Add", {"x": (1000, 1000), "z": (1000,)})
    one("Add column 1M", "Add", {"x": (1000, 1000), "z": (1000, 1)})
    one("PRelu", "PRelu", {"x": (1, 64, 112, 112)}, {"s": r(64, 1, 1)})
    one("Mul channels", "Mul", {"x": (1, 256, 56, 56), "z": (1, 256, 1, 1)})
    one("Cast 1M", "Cast", {"x": (1000, 1000)}, to=TensorProto.INT64)
    for shape, perm in [((1, 64, 112, 112), [0, 2, 3, 1]), ((1, 112, 112, 64), [0, 3, 1, 2]), ((1000, 1000), [1, 0]), ((128, 12, 64), [1, 0, 2]), ((8, 64, 49, 32), [0, 2, 1, 3])]:
        one(f"transpose {shape} {perm}", "Transpose", {"x": shape}, perm=perm)
    one("concat channels", "Concat", {"x": (1, 64, 56, 56), "z": (1, 64, 56, 56)}, axis=1)
    one("concat last", "Concat", {"x": (4096, 16), "z": (4096, 48)}, axis=1)
    case("gather rows", [("Gather", ["w", "x"], ["y"], {})], {"x": ("i", 128)}, {"w": r(30000, 768)})
    case("gather columns", [("Gather", ["x", "i"], ["y"], {"axis": 1})], {"x": (1024, 256)}, {"i": rng.integers(0, 256, 128)})
    case("gather_elements", [("GatherElements", ["x", "i"], ["y"], {"axis": 1})], {"x": (512, 512)}, {"i": rng.integers(0, 512, (512, 512))})
    case("gather_nd", [("GatherND", ["x", "i"], ["y"], {})], {"x": (512, 512)}, {"i": rng.integers(0, 512, (4096, 2))})
    case("scatter_nd", [("ScatterND", ["x", "i", "u"], ["y"], {})], {"x": (512, 512), "u": (4096,)}, {"i": rng.permutation(512 * 512)[:4096, None] // np.array([512, 1]) % 512})
    case("scatter_elements", [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 1})], {"x": (512, 512), "u": (512, 100)}, {"i": np.stack([rng.permutation(512)[:100] for _ in range(512)])})
    case("scatter_add", [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 0, "reduction": "add"})], {"x": (1000, 64), "u": (8000, 64)}, {"i": rng.integers(0, 1000, (8000, 64))})
    for mode in ["constant", "reflect", "edge"]:
        case(f"pad {mode}", [("Pad", ["x", "p"], ["y"], {"mode": mode})], {"x": (1, 64, 64, 64)}, {"p": np.array([0, 0, 2, 2, 0, 0, 2, 2], np.int64)})
    case("tile", [("Tile", ["x", "n"], ["y"], {})], {"x": (64, 256)}, {"n": np.array([8, 4], np.int64)})
    case("slice steps", [("Slice", ["x", "a", "b", "c", "d"], ["y"], {})], {"x": (1, 64, 112, 112)}, dict(zip("abcd", [np.array(v, np.int64) for v in ([0, 0], [112, 112], [2, 3], [2, 2])])))
    one("depth_to_space", "DepthToSpace", {"x": (1, 256, 64, 64)}, blocksize=2)
    one("pixel_shuffle", "DepthToSpace", {"x": (1, 256, 64, 64)}, blocksize=2, mode="CRD")
    case("conv pixel_shuffle", [("Conv", ["x", "w"], ["c"], {"pads": [1] * 4}), ("DepthToSpace", ["c"], ["y"], {"blocksize": 3, "mode": "CRD"})], {"x": (1, 32, 128, 128)}, {"w": r(27, 32, 3, 3)})
    one("space_to_depth", "SpaceToDepth", {"x": (1, 64, 64, 64)}, blocksize=2)
    case("where", [("Greater", ["x", "z"], ["g"], {}), ("Where", ["g", "x", "z"], ["y"], {})], {"x": (1000, 1000), "z": (1000, 1000)})
    case("one_hot", [("OneHot", ["x", "d", "v"], ["y"], {})], {"x": ("i", 128)}, {"d": np.array(1000, np.int64), "v": np.array([0, 1], np.float32)})
    one("trilu", "Trilu", {"x": (8, 512, 512)}, upper=0)
    case("grid_sample", [("GridSample", ["x", "g"], ["y"], {})], {"x": (1, 32, 64, 64), "g": (1, 64, 64, 2)}, {}, 16)
    case("roi_align", [("RoiAlign", ["x", "b", "i"], ["y"], {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.1})], {"x": (1, 256, 50, 50)},
         {"b": np.sort(rng.random((100, 4), np.float32) * 400).astype(np.float32), "i": np.zeros(100, np.int64)})
    for op, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
        for seq, batch, size, dirs in [(100, 1, 256, 1), (20, 16, 128, 1), (50, 1, 128, 2), (10, 1, 512, 1), (5, 1, 32, 1)]:
            one(f"{op} {seq}x{batch}x{size} {dirs}", op, {"x": (seq, batch, size)}, {"w": r(dirs, gates * size, size), "r": r(dirs, gates * size, size) * 0.1, "b": r(dirs, 2 * gates * size)},
                hidden_size=size, direction="forward" if dirs == 1 else "bidirectional")


def pool(name, op, x, k, s=1, p=0, **more):
    nd = len(x) - 2
    k, s, p = ([v] * nd if isinstance(v, int) else v for v in (k, s, p))
    one(name, op, {"x": x}, kernel_shape=k, strides=s, pads=p + p, **more)


def resize(name, x, scale, mode, how="half_pixel", **more):
    case(name, [("Resize", ["x", "", "s"], ["y"], {"mode": mode, "coordinate_transformation_mode": how, **more})], {"x": x},
         {"s": np.array([1, 1, *scale], np.float32)})


def floor_windows():
    for x, k, s, m in [((1, 24, 61, 61), 3, 1, 1), ((1, 40, 37, 53), 5, 1, 1), ((1, 48, 28, 28), 7, 1, 1), ((2, 17, 45, 45), 9, 1, 1), ((1, 32, 57, 57), 3, 2, 1),
                       ((1, 16, 80, 80), 5, 2, 1), ((1, 12, 50, 50), 3, 1, 2), ((1, 20, 33, 33), 5, 1, 3), ((1, 3, 200, 200), 3, 1, 1), ((1, 64, 14, 14), 3, 1, 1), ((1, 6, 150, 150), 7, 1, 2)]:
        conv(f"floor depthwise {x[1]}x{m} k{k}s{s} @{x[0]}x{x[2]}x{x[3]}", x, x[1] * m, k, s, k // 2, x[1])
    conv("floor depthwise dilated 18 k3d2 @1x60x60", (1, 18, 60, 60), 18, 3, 1, 2, 18, 2)
    conv("floor depthwise1d 33 k9 @4x500", (4, 33, 500), 33, 9, 1, 4, 33)
    for op in ["AveragePool", "MaxPool"]:
        for x, k, s, p in [((1, 32, 61, 61), 5, 2, 2), ((1, 48, 26, 26), 13, 1, 6), ((1, 40, 40, 40), 7, 1, 3), ((2, 20, 75, 75), 3, 2, 1), ((1, 16, 90, 90), 2, 2, 0), ((1, 3, 128, 128), 3, 1, 1), ((1, 24, 50, 50), 9, 4, 4)]:
            pool(f"floor {op} k{k}s{s} {x}", op, x, k, s, p)


def floor_moves():
    for mode, how, x, scale in [("linear", "half_pixel", (1, 16, 40, 52), (2, 2)), ("linear", "align_corners", (1, 3, 120, 160), (1.7, 1.7)), ("linear", "pytorch_half_pixel", (2, 32, 30, 30), (.5, .5)),
                                ("nearest", "asymmetric", (1, 24, 33, 47), (2, 2)), ("nearest", "half_pixel", (1, 3, 100, 100), (1.5, 1.5)), ("nearest", "asymmetric", (1, 64, 13, 13), (2, 2)),
                                ("nearest", "half_pixel", (1, 16, 90, 90), (.4, .4)), ("cubic", "half_pixel", (1, 3, 96, 96), (2, 2)), ("linear", "half_pixel", (1, 64, 14, 14), (4, 4))]:
        resize(f"floor resize {mode} {how} {x} {scale}", x, scale, mode, how)
    for c, size, out in [(3, 100, 120), (8, 48, 48), (32, 40, 30)]:
        for mode in ["bilinear", "nearest"]:
            for pad in ["zeros", "border", "reflection"]:
                if pad != "zeros" and c != 8: continue
                case(f"floor grid_sample {c} {mode} {pad} @{size}", [("GridSample", ["x", "g"], ["y"], {"mode": mode, "padding_mode": pad})], {"x": (1, c, size, size), "g": (1, out, out, 2)}, {}, 16)
    for c, n in [(64, 50), (256, 20)]:
        case(f"floor roi_align {c} {n}", [("RoiAlign", ["x", "b", "i"], ["y"], {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.1})], {"x": (1, c, 40, 40)},
             {"b": np.sort(rng.random((n, 4), np.float32) * 400).astype(np.float32), "i": np.zeros(n, np.int64)})


def floor_rows():
    for op in ["ReduceMax", "ReduceSum", "ReduceMean"]:
        for shape, axes in [((300, 700), [1]), ((300, 700), [0]), ((8, 50, 333), [1]), ((4, 31, 40, 40), [2]), ((2000, 33), [1]), ((33, 2000), [0]), ((16, 64, 20, 20), [0]), ((7, 100, 100), [1, 2]), ((5000, 7), [1]),
                            ((3, 100000), [1])]:
            case(f"floor {op} {shape} {axes}", [(op, ["x", "a"], ["y"], {"keepdims": 0})], {"x": shape}, {"a": np.array(axes, np.int64)})
    for shape, axis in [((100, 1000), 1), ((1, 19, 128, 160), 1), ((64, 300), 0), ((4000, 10), 1), ((2, 80, 8400), 1)]:
        one(f"floor ArgMax {shape} {axis}", "ArgMax", {"x": shape}, axis=axis)
    for shape, k in [((20, 1000), 10), ((1, 20000), 50), ((300, 80), 1), ((64, 4000), 5)]:
        case(f"floor TopK {k} of {shape}", [("TopK", ["x", "k"], ["y", "i"], {})], {"x": shape}, {"k": np.array([k], np.int64)})
    for shape, axis in [((64, 1000), 1), ((1000, 64), 0), ((1, 50000), 1), ((8, 200, 30), 1)]:
        case(f"floor CumSum {shape} {axis}", [("CumSum", ["x", "a"], ["y"], {})], {"x": shape}, {"a": np.array(axis, np.int64)})
    case("floor ScatterND rows", [("ScatterND", ["x", "i", "u"], ["y"], {})], {"x": (2000, 64), "u": (500, 64)}, {"i": rng.permutation(2000)[:500, None]})
    case("floor ScatterElements", [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 1})], {"x": (200, 700), "u": (200, 300)}, {"i": np.stack([rng.permutation(700)[:300] for _ in range(200)])})


def model_of(name, path):
    nodes, inputs, weights, opset, out = CASES[name]
    feed = {}
    for key, shape in inputs.items():
        feed[key] = rng.integers(0, 900, shape[1:]) if shape[0] == "i" else r(*shape)
        if op_is(nodes, "Log", "Sqrt", "Pow"): feed[key] = np.abs(feed[key]) + 0.5
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feed.items()]
    graph = helper.make_graph([helper.make_node(op, i, o, **a) for op, i, o, a in nodes], "g", infos, [helper.make_empty_tensor_value_info(out)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return feed


def op_is(nodes, *ops): return any(n[0] in ops for n in nodes)


def least(run, clock, seconds=0.05):
    best, end = float("inf"), time.perf_counter() + seconds
    n = 1
    while n < 4 or time.perf_counter() < end:
        start = clock()
        run()
        best = min(best, clock() - start)
        n += 1
    return best * 1e6


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=["cpu", "wall"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--below", type=float, default=float("inf"))
    args, rows = parser.parse_args(), []
    clock = time.process_time if (args.clock or ("cpu" if args.threads == 1 else "wall")) == "cpu" else time.perf_counter
    cases(), floor_windows(), floor_moves(), floor_rows()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = args.threads, 1, 3
    for name in CASES:
        if args.parts and not any(p in name for p in args.parts): continue
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/m.onnx"
            try:
                feed = model_of(name, path)
                theirs = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                binding = theirs.io_binding()
                for k, v in feed.items(): binding.bind_ortvalue_input(k, ort.OrtValue.ortvalue_from_numpy(v))
                for o in theirs.get_outputs(): binding.bind_output(o.name, "cpu")
                ours = capi.Session(capi.Program(path, args.threads), args.threads)
                ours.bind(feed)
                run = lambda: theirs.run_with_iobinding(binding)
                run(), ours.run()
                a, b = ours.outputs(), dict(zip([o.name for o in theirs.get_outputs()], binding.copy_outputs_to_cpu()))
                diff = max(float(np.abs(a[k].astype(float) - b[k]).max() / max(np.abs(b[k]).max(), 1e-30)) for k in b)
                times = [(least(ours.run, clock), least(run, clock)) for _ in range(args.rounds)]
                t, o = min(x for x, _ in times), min(x for _, x in times)
                rows.append((o / t, name, t, o, diff))
                ours.close()
            except Exception as e:  # a case that one of the two does not do
                print(f"{name}: {str(e).splitlines()[0][:120]}", file=sys.stderr)
    print("| case | Tenon, us | ONNX Runtime, us | ratio | largest difference |\n|---|---|---|---|---|")
    for ratio, name, t, o, diff in sorted(rows):
        if ratio < args.below: print(f"| {name} | {t:.1f} | {o:.1f} | {ratio:.2f} | {diff:.1e} |")


main()
