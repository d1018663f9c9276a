#!/usr/bin/env python3
"""contrib_test.py PROGRAM -- operators of domain com.microsoft, one node at a time, against ONNX Runtime.

Each case is a model of one node with random inputs.  Floats must agree within 1e-4 (relative) plus 1e-5, quantized results within
one step.  Every case is run twice: with all dimensions known, and with the leading ones left symbolic.
"""
import os, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime as ort
from onnx import helper, numpy_helper

rng = np.random.default_rng(7)
CASES = []

def f(*shape, k=1.0): return (rng.standard_normal(shape) * k).astype(np.float32)
def u8(*shape): return rng.integers(0, 256, shape).astype(np.uint8)
def i8(*shape): return rng.integers(-128, 128, shape).astype(np.int8)
def bits(*shape): return rng.integers(0, 2, shape).astype(np.int32)
def s(v): return np.array(v, np.float32)
def i32(v): return np.array(v, np.int32)
def i64(v): return np.array(v, np.int64)

def case(op, inputs, attrs=None, outs=1, consts=(), domain="com.microsoft", opset=20):
    outs = ["y%d" % i for i in range(outs)] if isinstance(outs, int) else outs
    CASES.append(("%s_%d" % (op, len(CASES)), op, inputs, attrs or {}, outs, consts, domain, opset))

def products():
    a, b = f(2, 3, 4, 5), f(2, 3, 5, 6)
    case("FusedMatMul", [a, b], dict(alpha=0.5))
    case("FusedMatMul", [f(2, 3, 5, 4), b], dict(transA=1))
    case("FusedMatMul", [a, f(2, 3, 6, 5)], dict(transB=1, alpha=2.0))
    case("FusedMatMul", [f(4, 2, 3, 5), b], dict(transBatchA=1))
    case("FusedMatMul", [f(5, 2, 3, 4), b], dict(transBatchA=1, transA=1))
    case("FusedMatMul", [a, f(6, 2, 3, 5)], dict(transBatchB=1, transB=1))
    case("TransposeMatMul", [f(4, 5), f(6, 5)], dict(transB=1))
    for act, extra in (("Relu", {}), ("LeakyRelu", dict(activation_alpha=0.2)), ("Sigmoid", {}), ("Tanh", {}),
                       ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4)), ("Softplus", {})):
        case("FusedGemm", [f(4, 5), f(6, 5), f(6)], dict(transB=1, activation=act, **extra))
    conv = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for act, params in (("Relu", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])):
        case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)],
             dict(conv, activation=act, **({"activation_params": params} if params else {})))
    case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4), f(1, 4, 8, 8)], dict(conv, activation="Relu"))
    case("NhwcMaxPool", [u8(1, 8, 8, 3)], dict(conv, strides=[2, 2]))

def element_wise():
    x = f(2, 3, 8, k=2)
    case("Gelu", [x])
    case("BiasGelu", [x, f(8)])
    case("FastGelu", [x])
    case("FastGelu", [x, f(8)])
    case("QuickGelu", [x], dict(alpha=1.1))
    case("ExpandDims", [x, i32(-1)], consts=(1,))
    case("Range", [s([1]), s([10]), s([2.5])])
    case("Pad", [x, i64([0, 1, 2, 0, 0, 1]), s([3])], consts=(1,))
    case("Unique", [s([2, 1, 1, 3, 4, 3])], outs=3)
    case("Trilu", [f(4, 4), i64(1)], dict(upper=0))
    case("CDist", [f(3, 5), f(4, 5)], dict(metric="euclidean"))
    case("Inverse", [f(2, 4, 4) + 3 * np.eye(4, dtype=np.float32)])

def normalization():
    x = f(2, 3, 8)
    case("SkipLayerNormalization", [x, f(2, 3, 8), f(8), f(8), f(8)], dict(epsilon=1e-5), outs=["y0", "", "", "y3"])
    case("SkipLayerNormalization", [x, f(3, 8), f(8)])
    case("SkipSimplifiedLayerNormalization", [x, f(2, 3, 8), f(8), f(8)], dict(epsilon=1e-5), outs=["y0", "", "", "y3"])
    case("SimplifiedLayerNormalization", [x, f(8)], dict(epsilon=1e-5, axis=-1), outs=2, domain="", opset=17)
    case("LayerNormalization", [x, f(8), f(8)], dict(epsilon=1e-5, axis=-1), outs=3, domain="", opset=14)
    ids, seg = rng.integers(0, 10, (2, 5)).astype(np.int32), bits(2, 5)
    mask = i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    tables = [f(10, 8), f(7, 8), f(2, 8), f(8), f(8)]
    case("EmbedLayerNormalization", [ids, seg] + tables, dict(epsilon=1e-5), outs=2)
    case("EmbedLayerNormalization", [ids, seg] + tables + [mask, i32([[4, 3, 2, 1, 0], [0, 0, 1, 1, 2]])], outs=3)
    case("EmbedLayerNormalization", [ids, None, f(10, 8), f(7, 8), None, f(8), f(8)], outs=2)

def attention():
    batch, seq, heads, size = 2, 4, 2, 4
    w = heads * size
    x, weights, bias = f(batch, seq, 6), f(6, 3 * w, k=0.5), f(3 * w)
    n = dict(num_heads=heads)
    mask = i32([[1, 1, 1, 0], [1, 1, 0, 0]])
    past = f(2, batch, heads, 3, size)
    case("Attention", [x, weights, bias], n, consts=(1, 2))
    case("Attention", [x, weights, bias, mask], dict(n, unidirectional=1), consts=(1, 2))
    case("Attention", [x, weights, bias, i32([3, 2])], n, consts=(1, 2))
    case("Attention", [x, weights, bias, i32([3, 4, 0, 1])], n, consts=(1, 2))
    case("Attention", [x, weights, bias, None, past], dict(n, unidirectional=1), outs=2, consts=(1, 2))
    case("Attention", [x, weights, bias, mask, None, f(1, heads, seq, seq)], dict(n, scale=0.3), consts=(1, 2))
    case("Attention", [x, f(6, 2 * w + 12), f(2 * w + 12)], dict(n, qkv_hidden_sizes=[w, w, 12]), consts=(1, 2))
    q, k, v = f(batch, seq, w), f(batch, 5, w), f(batch, 5, w)
    case("MultiHeadAttention", [q, k, v, bias], n)
    case("MultiHeadAttention", [q, k, f(batch, 5, 12), f(2 * w + 12)], n)
    case("MultiHeadAttention", [q, k, v, None, i32([[1, 1, 1, 0, 0], [1, 0, 1, 0, 1]])], n)
    case("MultiHeadAttention", [q, k, v, None, i32([3, 5])], n)
    case("MultiHeadAttention", [q, k, v, None, None, f(batch, heads, seq, 5)], n)
    case("MultiHeadAttention", [q, f(batch, heads, 5, size), f(batch, heads, 5, size)], n)
    case("MultiHeadAttention", [q, f(batch, seq, w), f(batch, seq, w), bias, None, None, past[0], past[1]],
         dict(n, unidirectional=1), outs=3)
    cos, sin, pos = f(16, 2), f(16, 2), i64([[0, 1, 2, 3], [4, 5, 6, 7]])
    case("RotaryEmbedding", [q, pos, cos, sin])
    case("RotaryEmbedding", [q, i64([3]), cos, sin])
    case("RotaryEmbedding", [f(batch, heads, seq, size), pos, cos, sin], dict(interleaved=1))
    case("RotaryEmbedding", [f(batch, seq, 16), pos, cos, sin], dict(num_heads=2, rotary_embedding_dim=4))

def grouped_attention():
    def gqa(batch, seq, cache, lengths, total, rotary=0, packed=False, bias=None, sink=None, **attrs):
        heads, kv, size = 4, 2, 16
        q, k, v = f(batch, seq, heads * size), f(batch, seq, kv * size), f(batch, seq, kv * size)
        if packed: q, k, v = np.concatenate([q, k, v], -1), None, None
        past = [f(batch, kv, cache, size) for _ in range(2)] if cache else [None, None]
        angles = [f(32, size // 2), f(32, size // 2)] if rotary else [None, None]
        if rotary: attrs["do_rotary"] = 1
        case("GroupQueryAttention", [q, k, v] + past + [i32(lengths) - 1, i32(total)] + angles + [None, bias, sink],
             dict(num_heads=heads, kv_num_heads=kv, **attrs), outs=3)
    gqa(2, 4, 0, [4, 2], 4)
    gqa(1, 4, 0, [4], 4, rotary=1, packed=True)
    gqa(2, 1, 5, [6, 4], 6, rotary=1, rotary_interleaved=1)
    gqa(2, 1, 10, [6, 4], 6, rotary=1)
    gqa(1, 3, 5, [8], 8, rotary=1)
    gqa(1, 6, 0, [6], 6, local_window_size=2, softcap=2.0, scale=0.5)
    gqa(2, 4, 0, [4, 4], 4, bias=f(2, 4, 4, 4))
    gqa(1, 4, 0, [4], 4, smooth_softmax=1)
    gqa(2, 1, 5, [6, 6], 6, sink=f(4))

def quantized():
    for r, z in ((u8, lambda v: np.array(v, np.uint8)), (i8, lambda v: np.array(v, np.int8))):
        low = z(0) if r is u8 else z(-128)
        case("QLinearAdd", [r(2, 3, 8), s(.05), z(3), r(8), s(.07), z(5), s(.12), z(9)])
        case("QLinearMul", [r(2, 3, 8), s(.05), z(3), r(2, 3, 8), s(.07), z(5), s(.12), z(9)])
        scales = [s(.05), z(3), s(.04), z(7)]
        case("QLinearSigmoid", [r(4, 50), s(.05), z(3), s(1 / 256), low], consts=(1, 2, 3, 4))
        case("QLinearLeakyRelu", [r(4, 50)] + scales, dict(alpha=0.1), consts=(1, 2, 3, 4))
        pool = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
        case("QLinearAveragePool", [r(1, 3, 8, 8)] + scales, dict(pool, count_include_pad=1), consts=(1, 2, 3, 4))
        case("QLinearAveragePool", [r(1, 8, 8, 3)] + scales, dict(kernel_shape=[3, 3], channels_last=1), consts=(1, 2, 3, 4))
        case("QLinearGlobalAveragePool", [r(2, 8, 8, 3)] + scales, dict(channels_last=1))
        case("QLinearSoftmax", [r(2, 3, 10), s(.05), z(3), s(1 / 256), low], dict(axis=1, opset=12), consts=(1, 2, 3, 4))
        case("QLinearWhere", [bits(3, 4).astype(bool), r(3, 4), s(.05), z(3), r(3, 4), s(.04), z(7), s(.06), z(1)])
        case("QLinearConcat", [s(.05), z(3), r(2, 3), s(.05), z(3), r(2, 4), s(.07), z(1)], dict(axis=1), consts=(0, 1, 3, 4, 6, 7))
        weights = [i8(6, 5), s(.02), np.array(0, np.int8)]
        case("QGemm", [r(4, 6), s(.05), z(3)] + weights + [i32(range(-2, 3)), s(.3), z(7)], dict(alpha=1.0))
        case("QGemm", [r(4, 6), s(.05), z(3)] + weights + [i32(range(-2, 3))], dict(alpha=1.0))
        case("MatMulIntegerToFloat", [r(4, 6), i8(6, 5), s(.05), s([.02, .03, .01, .04, .05]), z(3), i8(5), f(5)])
    case("DynamicQuantizeMatMul", [f(4, 6), i8(6, 5), s([.02, .03, .01, .04, .05]), i8(5), f(5)])
    for directions, columns in ((1, False), (2, False), (2, True)):
        def scale(): return np.abs(f(directions, 12, k=.02) if columns else f(directions, k=.02)) + np.float32(.01)
        zero = np.zeros((directions, 12) if columns else directions, np.int8)
        case("DynamicQuantizeLSTM", [f(4, 1, 5), i8(directions, 5, 12), i8(directions, 3, 12), f(directions, 24), None, None, None, None,
                                     scale(), zero, scale(), zero],
             dict(hidden_size=3, direction="bidirectional" if directions == 2 else "forward"), outs=3, consts=(1, 2, 8, 9, 10, 11))
    case("QAttention", [u8(2, 4, 6), i8(6, 24), f(24), s(.02), s(.01), bits(2, 4) | i32([[1, 0, 0, 0]] * 2), np.array(128, np.uint8),
                        np.array(0, np.int8)], dict(num_heads=2), consts=(1, 2))

def packed():
    def n_bits(width, bits_, block, zeros, bias=False):
        rows, blocks = 8, -(-width // block)
        z = {None: None, "packed": u8(rows, -(-blocks * bits_ // 8)), "float": np.abs(f(rows, blocks, k=4))}[zeros]
        case("MatMulNBits", [f(3, width), u8(rows, blocks, block * bits_ // 8), np.abs(f(rows, blocks, k=.1)), z, None,
                             f(rows) if bias else None], dict(K=width, N=rows, bits=bits_, block_size=block), consts=(1, 2, 3, 5))
    n_bits(64, 4, 16, None)
    n_bits(80, 4, 32, "packed", bias=True)
    n_bits(64, 4, 32, "float")
    n_bits(64, 8, 32, "packed")
    n_bits(64, 2, 16, "packed")
    for kind in (0, 1):
        case("MatMulBnb4", [f(3, 33), u8(83), np.abs(f(11))], dict(K=33, N=5, block_size=16, quant_type=kind), consts=(1, 2))
    rows = i64([[1, 2], [3, 9]])
    case("GatherBlockQuantized", [u8(10, 32), rows, np.abs(f(10, 2)), u8(10, 2)], dict(block_size=16, bits=8), consts=(0, 2, 3))
    case("GatherBlockQuantized", [u8(10, 24), rows, np.abs(f(10, 3)), u8(10, 2)], dict(block_size=16, bits=4), consts=(0, 2, 3))

def build(path, op, inputs, attrs, outs, consts, domain, opset, symbolic):
    names = ["" if a is None else "x%d" % i for i, a in enumerate(inputs)]
    while not names[-1]: names.pop()
    params, weights, feed = [], [], {}
    for i, a in enumerate(inputs):
        if a is None: continue
        if i in consts:
            weights.append(numpy_helper.from_array(a, "x%d" % i))
            continue
        shape = ["d%d_%d" % (i, j) if symbolic and j < min(2, a.ndim - 1) else d for j, d in enumerate(a.shape)]
        params.append(helper.make_tensor_value_info("x%d" % i, helper.np_dtype_to_tensor_dtype(a.dtype), shape))
        feed["x%d" % i] = a
    node = helper.make_node(op, names, outs, domain=domain, **attrs)
    graph = helper.make_graph([node], "case", params, [helper.make_empty_tensor_value_info(o) for o in outs if o], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return feed

def reference(path, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))

def differs(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return "%s%s, must be %s%s" % (got.dtype, got.shape, want.dtype, want.shape)
    if want.dtype.kind in "iub":
        apart = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        return "" if apart <= (want.dtype.itemsize == 1) else "%d apart" % apart
    if np.allclose(got, want, rtol=1e-4, atol=1e-5, equal_nan=True): return ""
    return "%g apart" % np.abs(got.astype(np.float64) - want).max()

def check(program, folder, c, symbolic):
    name = c[0] + ("_symbolic" if symbolic else "")
    path, given, made = (os.path.join(folder, n) for n in ("model.onnx", "in.npz", "out.npz"))
    feed = build(path, *c[1:], symbolic)
    want = reference(path, feed)
    np.savez(given, **feed)
    run = subprocess.run([program, "run", path, "--target", "interp", "--inputs", given, "--output", made], capture_output=True, text=True)
    if run.returncode: return "%s: %s" % (name, run.stderr.strip())
    got = np.load(made)
    for k, v in want.items():
        wrong = differs(got[k], v) if k in got.files else "missing"
        if wrong: return "%s: output %s: %s" % (name, k, wrong)
    return ""

def main():
    if len(sys.argv) != 2: sys.exit(__doc__)
    ort.set_default_logger_severity(4)
    for part in (products, element_wise, normalization, attention, grouped_attention, quantized, packed): part()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for c in CASES:
            for symbolic in (False, True):
                wrong = check(sys.argv[1], folder, c, symbolic)
                failed += bool(wrong)
                passed += not wrong
                if wrong: print(wrong)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)

main()
