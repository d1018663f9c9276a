#!/usr/bin/env python3
"""tflite_quant_test.py -- quantised operators of TensorFlow Lite, one model each, against the format's own interpreter.

  tflite_quant_test.py TENON [--target NAME]... [--record ARCHIVE] [OP]...

Needs ai-edge-litert and numpy; without them it says so and ends with status 77.  Models are made here, of one operator with
random weights, scales and operands, and run by the interpreter with its reference kernels.  Results must be the same
integers; where the kernels themselves approximate, or are known to compute in floats, they may be one apart.
--record writes the models and what the interpreter computed, for recorded.py.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded

try:
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as s
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TYPES = {"int8": (s.TensorType.INT8, np.int8), "uint8": (s.TensorType.UINT8, np.uint8),
         "int16": (s.TensorType.INT16, np.int16), "int32": (s.TensorType.INT32, np.int32),
         "int64": (s.TensorType.INT64, np.int64), "float32": (s.TensorType.FLOAT32, np.float32),
         "bool": (s.TensorType.BOOL, np.bool_)}


class T:
    """A tensor: its shape, type, quantisation, contents where it is a constant."""

    def __init__(self, shape, dtype, scale=None, zero=0, data=None, axis=0, variable=False):
        self.shape, self.dtype, self.data, self.axis, self.variable = list(shape), dtype, data, axis, variable
        self.scale = None if scale is None else np.atleast_1d(np.asarray(scale, np.float32))
        self.zero = None if scale is None else np.broadcast_to(np.asarray(zero, np.int64), self.scale.shape)


def build(code, options, inputs, outputs, version=1, options_type=None):
    """The bytes of a model of one operator."""
    m, g, op, oc = s.ModelT(), s.SubGraphT(), s.OperatorT(), s.OperatorCodeT()
    oc.builtinCode, oc.deprecatedBuiltinCode, oc.version = code, min(code, 127), version
    m.version, m.operatorCodes, m.subgraphs, m.buffers = 3, [oc], [g], [s.BufferT()]
    g.tensors, g.inputs, g.outputs, op.inputs, op.outputs = [], [], [], [], []
    for tensors, used, ends in ((inputs, op.inputs, g.inputs), (outputs, op.outputs, g.outputs)):
        for t in tensors:
            if t is None:
                used.append(-1)
                continue
            x = s.TensorT()
            x.name, x.shape, x.type = f"t{len(g.tensors)}", t.shape, TYPES[t.dtype][0]
            x.isVariable, x.buffer = t.variable, 0
            if t.scale is not None:
                x.quantization = s.QuantizationParametersT()
                x.quantization.scale, x.quantization.zeroPoint = list(t.scale), list(t.zero)
                x.quantization.quantizedDimension = t.axis
            if t.data is not None:
                b = s.BufferT()
                b.data = np.frombuffer(np.ascontiguousarray(t.data, TYPES[t.dtype][1]).tobytes(), np.uint8)
                x.buffer = len(m.buffers)
                m.buffers.append(b)
            elif not t.variable:
                ends.append(len(g.tensors))
            used.append(len(g.tensors))
            g.tensors.append(x)
    op.opcodeIndex = 0
    if options is not None:
        op.builtinOptions = options
        op.builtinOptionsType = getattr(s.BuiltinOptions, type(options).__name__[:-1])
    g.operators = [op]
    b = flatbuffers.Builder(1024)
    b.Finish(m.Pack(b), b"TFL3")
    return bytes(b.Output())


def options(kind, **values):
    o = getattr(s, kind + "T")()
    for k, v in values.items():
        assert hasattr(o, k), (kind, k)
        setattr(o, k, v)
    return o


rng = np.random.default_rng(7)


def ints(shape, dtype, spread=1.0):
    i = np.iinfo(dtype)
    lo, hi = int(i.min * spread), int(i.max * spread)
    return rng.integers(lo, hi + 1, shape).astype(dtype)


# ---- cases: name, model, kind of difference allowed (quanta) ----

CASES = []


def case(name, model, allowed=0, spread=1.0):
    CASES.append((name, model, allowed, spread))


def zero_of(t):
    return {"int8": -5, "uint8": 120, "int16": 0}[t]


def unary(name, code, opt=None, allowed=0, types=("int8", "uint8", "int16"), scales=(0.05, 0.04), zero=None, ver=1,
          in_zero=None):
    for t in types:
        sc = [x / 256 if t == "int16" else x for x in scales]
        z = zero_of(t) if zero is None else zero[t]
        zi = zero_of(t) if in_zero is None else in_zero[t]
        case(f"{name} {t}", build(code, opt() if opt else None, [T([3, 90], t, sc[0], zi)], [T([3, 90], t, sc[1], z)], ver),
             allowed)


def arithmetic():
    B = s.BuiltinOperator
    act = s.ActivationFunctionType
    for t, act_f in (("int8", act.NONE), ("uint8", act.RELU), ("int8", act.RELU6), ("int16", act.NONE)):
        k = 1 / 256 if t == "int16" else 1
        z = zero_of(t)
        for shape in ([2, 5, 8], [8]):
            a, b, y = T([2, 5, 8], t, 0.031 * k, z), T(shape, t, 0.047 * k, z), T([2, 5, 8], t, 0.058 * k, z)
            label = f"{t} {shape} act {act_f}"
            extra = {"potScaleInt16": False}
            case(f"ADD {label}", build(B.ADD, options("AddOptions", fusedActivationFunction=act_f, **extra), [a, b], [y], 2))
            case(f"SUB {label}", build(B.SUB, options("SubOptions", fusedActivationFunction=act_f, **extra), [a, b], [y], 2))
            y2 = T([2, 5, 8], t, 0.11 * k, z)
            case(f"MUL {label}", build(B.MUL, options("MulOptions", fusedActivationFunction=act_f), [a, b], [y2], 2))
    for t in ("int8", "uint8", "int16"):
        a = T([3, 40], t, 2.0**-12 if t == "int16" else 0.03, zero_of(t))
        for name in ("MAXIMUM", "MINIMUM"):
            case(f"{name} {t}", build(getattr(B, name), options("MaximumMinimumOptions"), [a, a], [a], 2))
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        for t in ("int8", "uint8"):
            a, b = T([3, 50], t, 0.03, zero_of(t)), T([3, 50], t, 0.05, zero_of(t) + 3)
            case(f"{name} {t}", build(getattr(B, name), None, [a, b], [T([3, 50], "bool")], 2))
    a, b, y = T([3, 50], "int8", 0.03, -5), T([3, 50], "int8", 0.02, 7), T([3, 50], "int8", 0.1, -100)
    case("SQUARED_DIFFERENCE int8", build(B.SQUARED_DIFFERENCE, options("SquaredDifferenceOptions"), [a, b], [y], 2))
    for t in ("int8", "uint8"):
        al = T([1, 50], t, 0.003, zero_of(t), ints([1, 50], TYPES[t][1]))
        case(f"PRELU {t}", build(B.PRELU, None, [T([3, 50], t, 0.03, zero_of(t)), al], [T([3, 50], t, 0.04, zero_of(t))], 1))


def functions():
    B = s.BuiltinOperator
    pot = {"int8": -128, "uint8": 0, "int16": 0}
    mid = {"int8": 0, "uint8": 128, "int16": 0}
    for t, sc in (("int8", 1 / 256), ("uint8", 1 / 256), ("int16", 1 / 32768)):
        for k in (0.01, 0.05, 0.11):
            inp = T([3, 90], t, 2.0**-12 if t == "int16" and k == 0.01 else k / 256 if t == "int16" else k, zero_of(t))
            case(f"LOGISTIC {t} {k}", build(B.LOGISTIC, None, [inp], [T([3, 90], t, sc, pot[t])], 2))
            case(f"TANH {t} {k}", build(B.TANH, None, [inp], [T([3, 90], t, 2 * sc if t != "int16" else sc, mid[t])], 2))
    unary("RELU", B.RELU, ver=2)
    unary("RELU6", B.RELU6, types=("int8", "uint8"), ver=2)
    unary("RELU_N1_TO_1", B.RELU_N1_TO_1, types=("int8", "uint8"))
    unary("LEAKY_RELU", B.LEAKY_RELU, lambda: options("LeakyReluOptions", alpha=0.17), ver=2)
    unary("HARD_SWISH", B.HARD_SWISH, types=("int8", "uint8"), scales=(0.05, 0.03))
    unary("ELU", B.ELU, types=("int8",), allowed=1)
    unary("GELU", B.GELU, lambda: options("GeluOptions", approximate=False), types=("int8", "uint8"), allowed=1)
    unary("GELU tanh", B.GELU, lambda: options("GeluOptions", approximate=True), types=("int8",), allowed=1)
    unary("EXP", B.EXP, lambda: options("ExpOptions"), types=("int8", "int16"), scales=(0.02, 0.1), allowed=1, ver=2)
    unary("RSQRT", B.RSQRT, types=("int8",), scales=(0.05, 0.02), zero={"int8": -128}, in_zero={"int8": -128}, allowed=1,
          ver=2)
    unary("ABS", B.ABS, lambda: options("AbsOptions"), types=("int8", "int16"), ver=2)


def rows():
    B = s.BuiltinOperator
    for t, sc in (("int8", 1 / 256), ("uint8", 1 / 256), ("int16", 1 / 32768)):
        for k in (0.02, 0.2):
            k = k / 256 if t == "int16" else k
            z = {"int8": -128, "uint8": 0, "int16": 0}[t]
            case(f"SOFTMAX {t} {k:.4f}", build(B.SOFTMAX, options("SoftmaxOptions", beta=1.0), [T([4, 33], t, k, zero_of(t))],
                                               [T([4, 33], t, sc, z)], 2), 1 if t == "int16" else 0)
    case("LOG_SOFTMAX int8", build(B.LOG_SOFTMAX, options("LogSoftmaxOptions"), [T([4, 20], "int8", 0.03, 3)],
                                   [T([4, 20], "int8", 16 / 256, 127)], 2), 1)
    for t, z in (("int8", 0), ("uint8", 128)):
        case(f"L2_NORMALIZATION {t}", build(B.L2_NORMALIZATION, options("L2NormOptions"), [T([4, 20], t, 0.03, zero_of(t))],
                                            [T([4, 20], t, 1 / 128, z)], 2), 1)
    for t in ("int8", "uint8", "int16"):
        k = 1 / 256 if t == "int16" else 1
        for name, z in (("MEAN", 4), ("SUM", 4)):
            for axes in ([1, 2], [2], [-1, 0]):
                sc = 0.04 if name == "MEAN" else 0.5
                a = T([2, 5, 7, 3], t, 0.03 * k, zero_of(t))
                shape = [n for i, n in enumerate(a.shape) if i not in [x % 4 for x in axes]]
                y = T(shape, t, sc * k, 0 if t == "int16" else zero_of(t) + z)
                ax = T([len(axes)], "int32", data=axes)
                # Some of the interpreter's ways compute the mean of bytes in floats.
                case(f"{name} {t} {axes}", build(getattr(B, name), options("ReducerOptions", keepDims=False), [a, ax], [y], 2), 1)


def windows():
    B, pad, act = s.BuiltinOperator, s.Padding, s.ActivationFunctionType
    for t in ("int8", "uint8", "int16"):
        for p in (pad.SAME, pad.VALID):
            o = dict(padding=p, strideW=2, strideH=1, filterWidth=3, filterHeight=2, fusedActivationFunction=act.NONE)
            x = T([2, 9, 10, 5], t, 0.03, zero_of(t))
            shape = [2, 9, 5, 5] if p == pad.SAME else [2, 8, 4, 5]
            for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
                case(f"{name} {t} {p}", build(getattr(B, name), options("Pool2DOptions", **o), [x], [T(shape, t, 0.03, zero_of(t))], 2))
    for t, axis in (("int8", True), ("int8", False), ("uint8", False), ("int16", True)):
        for p in (pad.SAME, pad.VALID):
            convolutions(t, axis, p)


def convolutions(t, by_channel, p):
    B, act = s.BuiltinOperator, s.ActivationFunctionType
    k = 1 / 256 if t == "int16" else 1
    wt, bt = ("uint8", "int32") if t == "uint8" else ("int8", "int64" if t == "int16" else "int32")
    x = T([2, 9, 8, 4], t, 0.03 * k, zero_of(t))
    same = p == s.Padding.SAME
    for name, wshape, axis, n in (("CONV_2D", [6, 3, 2, 4], 0, 6), ("DEPTHWISE_CONV_2D", [1, 3, 2, 8], 3, 8)):
        ws = rng.uniform(0.001, 0.02, n) if by_channel else [0.01]
        w = T(wshape, wt, ws, 131 if wt == "uint8" else 0, ints(wshape, TYPES[wt][1]), axis)
        b = T([n], bt, np.asarray(ws) * x.scale[0], 0, rng.integers(-2000, 2000, n))
        o = dict(padding=p, strideW=2, strideH=1, fusedActivationFunction=act.RELU6, dilationWFactor=1, dilationHFactor=1)
        kind = "Conv2DOptions"
        if name[0] == "D":
            kind, o["depthMultiplier"] = "DepthwiseConv2DOptions", 2
        y = T([2, 9, 4, n] if same else [2, 7, 4, n], t, 0.05 * k, zero_of(t))
        label = f"{name} {t} {'by channel' if by_channel else 'one scale'} {p}"
        case(label, build(getattr(B, name), options(kind, **o), [x, w, b], [y], 5 if t == "int16" else 3))
    ws = rng.uniform(0.001, 0.02, 6) if by_channel else [0.01]
    w = T([6, 3, 2, 4], wt, ws, 131 if wt == "uint8" else 0, ints([6, 3, 2, 4], TYPES[wt][1]), 0)
    b = T([6], bt, np.asarray(ws) * x.scale[0], 0, rng.integers(-2000, 2000, 6))
    shape = [2, 18, 16, 6] if same else [2, 19, 16, 6]
    y, sizes = T(shape, t, 0.08 * k, zero_of(t)), T([4], "int32", data=shape)
    o = options("TransposeConvOptions", padding=p, strideW=2, strideH=2, fusedActivationFunction=act.NONE)
    case(f"TRANSPOSE_CONV {t} {'by channel' if by_channel else 'one scale'} {p}",
         build(B.TRANSPOSE_CONV, o, [sizes, w, x, b], [y], 3))


def matrices():
    B, act = s.BuiltinOperator, s.ActivationFunctionType
    for t, by_channel in (("int8", False), ("int8", True), ("uint8", False), ("int16", False)):
        k = 1 / 256 if t == "int16" else 1
        wt, bt = ("uint8", "int32") if t == "uint8" else ("int8", "int64" if t == "int16" else "int32")
        ws = rng.uniform(0.002, 0.02, 12) if by_channel else [0.01]
        w = T([12, 20], wt, ws, 125 if wt == "uint8" else 0, ints([12, 20], TYPES[wt][1]))
        x = T([5, 20], t, 0.03 * k, zero_of(t))
        b = T([12], bt, np.asarray(ws) * x.scale[0], 0, rng.integers(-2000, 2000, 12))
        o = options("FullyConnectedOptions", fusedActivationFunction=act.RELU)
        case(f"FULLY_CONNECTED {t} {by_channel}", build(B.FULLY_CONNECTED, o, [x, w, b], [T([5, 12], t, 0.07 * k, zero_of(t))], 4))
    for t in ("int8", "int16"):
        k = 1 / 256 if t == "int16" else 1
        x, w = T([2, 5, 20], t, 0.03 * k, zero_of(t)), T([2, 20, 6], t, 0.02 * k, zero_of(t))
        o = options("BatchMatMulOptions", adjX=False, adjY=False, asymmetricQuantizeInputs=False)
        case(f"BATCH_MATMUL {t}", build(B.BATCH_MATMUL, o, [x, w], [T([2, 5, 6], t, 0.2 * k, zero_of(t))], 3), 1)
    w = T([12, 20], "int8", [0.01], 0, np.maximum(ints([12, 20], np.int8), -127))
    for asym in (False, True):
        o = options("FullyConnectedOptions", fusedActivationFunction=act.NONE, asymmetricQuantizeInputs=asym)
        case(f"FULLY_CONNECTED hybrid {asym}", build(B.FULLY_CONNECTED, o, [T([5, 20], "float32"), w, T([12], "float32", data=rng.normal(size=12))],
                                                     [T([5, 12], "float32")], 9 if asym else 3), 1e-4)
    for asym, adj, shape in ((False, False, [3, 8, 6]), (True, False, [3, 8, 6]), (True, True, [3, 6, 8]), (True, False, [8, 6])):
        wide = T(shape, "int8", [0.01], 0, np.maximum(ints(shape, np.int8), -127))
        o = options("BatchMatMulOptions", adjY=adj, asymmetricQuantizeInputs=asym)
        case(f"BATCH_MATMUL hybrid {asym} {adj} {shape}",
             build(B.BATCH_MATMUL, o, [T([3, 5, 8], "float32"), wide], [T([3, 5, 6], "float32")], 4 if asym else 2), 1e-5)
    o = options("TransposeConvOptions", padding=s.Padding.SAME, strideW=2, strideH=2)
    for scales in ([0.01], rng.uniform(0.002, 0.02, 3)):
        w = T([3, 3, 2, 4], "int8", scales, 0, np.maximum(ints([3, 3, 2, 4], np.int8), -127))
        case(f"TRANSPOSE_CONV hybrid {len(scales)}",
             build(B.TRANSPOSE_CONV, o, [T([4], "int32", data=[2, 10, 8, 3]), w, T([2, 5, 4, 4], "float32")], [T([2, 10, 8, 3], "float32")], 3), 1e-3)
    ws = rng.uniform(0.002, 0.02, 6)
    w = T([6, 3, 2, 4], "int8", ws, 0, np.maximum(ints([6, 3, 2, 4], np.int8), -127))
    o = options("Conv2DOptions", padding=s.Padding.SAME, strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
    case("CONV_2D hybrid", build(B.CONV_2D, o, [T([2, 9, 8, 4], "float32"), w, T([6], "float32", data=rng.normal(size=6))],
                                 [T([2, 9, 8, 6], "float32")], 5), 1e-3)


def images():
    B = s.BuiltinOperator
    for t in ("int8", "uint8", "int16"):
        for corners, half in ((False, False), (True, False), (False, True)):
            for size in ([9, 13], [3, 4]):
                o = options("ResizeBilinearOptions", alignCorners=corners, halfPixelCenters=half)
                x, y = T([2, 5, 6, 3], t, 0.03, zero_of(t)), T([2] + size + [3], t, 0.03, zero_of(t))
                # Bytes without a sign are interpolated in floats.
                case(f"RESIZE_BILINEAR {t} {size} {corners} {half}",
                     build(B.RESIZE_BILINEAR, o, [x, T([2], "int32", data=size)], [y], 3), 1 if t == "uint8" else 0)
    for t in ("int8", "uint8"):
        x = T([1, 4, 3, 2], t, 0.03, zero_of(t))
        y = T([6, 3, 1, 2], t, 0.03, zero_of(t))
        block, pads = T([2], "int32", data=[2, 3]), T([2, 2], "int32", data=[[1, 1], [0, 0]])
        case(f"SPACE_TO_BATCH_ND {t}", build(B.SPACE_TO_BATCH_ND, options("SpaceToBatchNDOptions"), [x, block, pads], [y], 2))
    table = T([9, 5], "int8", [0.03], 0, ints([9, 5], np.int8))
    where = T([4], "int32", data=[3, 0, 8, 3])
    case("EMBEDDING_LOOKUP hybrid", build(B.EMBEDDING_LOOKUP, None, [where, table], [T([4, 5], "float32")], 3), 1e-6)


def lstm(name, seq, state_type="float32", weight="float32", **more):
    """An LSTM over floats, its weights floats or bytes."""
    n, i, h, steps = 2, 6, 5, 4

    def w(shape):
        if weight == "float32":
            return T(shape, "float32", data=rng.normal(size=shape) * 0.4)
        return T(shape, "int8", [0.004], 0, np.maximum(ints(shape, np.int8), -127))

    proj = more.pop("proj", 0)
    out = proj or h
    inputs = [T([n, steps, i] if seq else [n, i], "float32")]
    inputs += [w([h, i]) for _ in range(4)] + [w([h, out]) for _ in range(4)]
    if more.pop("peephole", False):
        inputs += [T([h], "float32", data=rng.normal(size=h)) for _ in range(3)]
    else:
        inputs += [None] * 3
    inputs += [T([h], "float32", data=rng.normal(size=h)) for _ in range(4)]
    inputs += [w([proj, h]) if proj else None, T([proj], "float32", data=rng.normal(size=proj)) if proj else None]
    if more.pop("cifg", False):
        inputs[1] = inputs[5] = inputs[9] = inputs[12] = None
    inputs += [T([n, out], "float32", variable=True), T([n, h], "float32", variable=True)]
    B = s.BuiltinOperator
    kind = "UnidirectionalSequenceLSTMOptions" if seq else "LSTMOptions"
    o = options(kind, fusedActivationFunction=s.ActivationFunctionType.TANH, **more)
    y = T([n, steps, out] if seq else [n, out], "float32")
    case(f"{name} {weight}", build(B.UNIDIRECTIONAL_SEQUENCE_LSTM if seq else B.LSTM, o, inputs, [y], 3 if weight == "int8" else 1),
         2e-5 if weight == "float32" else 1e-3)


def recurrent():
    B, act = s.BuiltinOperator, s.ActivationFunctionType
    for weight in ("float32", "int8"):
        lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", True, weight=weight)
        lstm("UNIDIRECTIONAL_SEQUENCE_LSTM clip", True, weight=weight, cellClip=0.5)
        lstm("UNIDIRECTIONAL_SEQUENCE_LSTM proj", True, weight=weight, proj=3, projClip=0.4)
        lstm("UNIDIRECTIONAL_SEQUENCE_LSTM cifg", True, weight=weight, cifg=True)
        lstm("LSTM", False, weight=weight)
    lstm("UNIDIRECTIONAL_SEQUENCE_LSTM peephole", True, peephole=True)

    def f(shape):
        return T(shape, "float32", data=rng.normal(size=shape) * 0.4)

    x, y = T([2, 4, 6], "float32"), T([2, 4, 5], "float32")
    o = options("SequenceRNNOptions", timeMajor=False, fusedActivationFunction=act.RELU)
    case("UNIDIRECTIONAL_SEQUENCE_RNN", build(B.UNIDIRECTIONAL_SEQUENCE_RNN, o, [x, f([5, 6]), f([5, 5]), f([5]), T([2, 5], "float32", variable=True)], [y]), 2e-5)
    o = options("RNNOptions", fusedActivationFunction=act.RELU)
    case("RNN", build(B.RNN, o, [T([2, 6], "float32"), f([5, 6]), f([5, 5]), f([5]), T([2, 5], "float32", variable=True)], [T([2, 5], "float32")]), 2e-5)
    o = options("BidirectionalSequenceRNNOptions", timeMajor=False, fusedActivationFunction=act.RELU, mergeOutputs=True)
    one = [f([5, 6]), f([5, 5]), f([5]), T([2, 5], "float32", variable=True)]
    two = [f([5, 6]), f([5, 5]), f([5]), T([2, 5], "float32", variable=True)]
    case("BIDIRECTIONAL_SEQUENCE_RNN", build(B.BIDIRECTIONAL_SEQUENCE_RNN, o, [x] + one + two + [None] * 3, [T([2, 4, 10], "float32")]), 2e-5)
    o = options("SVDFOptions", rank=2, fusedActivationFunction=act.RELU)
    case("SVDF", build(B.SVDF, o, [T([2, 6], "float32"), f([8, 6]), f([8, 3]), f([4]), T([2, 24], "float32", variable=True)], [T([2, 4], "float32")]), 2e-5)


def movement():
    B = s.BuiltinOperator
    for t in ("int8", "uint8"):
        z = zero_of(t)
        a, b, y = T([2, 3, 4], t, 0.03, z), T([2, 5, 4], t, 0.03 if t == "int8" else 0.05, z), T([2, 8, 4], t, 0.03, z)
        case(f"CONCATENATION {t}", build(B.CONCATENATION, options("ConcatenationOptions", axis=1), [a, b], [y], 2))
        pads = T([3, 2], "int32", data=[[0, 1], [2, 0], [1, 1]])
        case(f"PAD {t}", build(B.PAD, options("PadOptions"), [a, pads], [T([3, 5, 6], t, 0.03, z)], 2))
    a, b, y = T([2, 3, 4], "int16", 0.0003), T([2, 5, 4], "int16", 0.0005), T([2, 8, 4], "int16", 0.0004)
    case("CONCATENATION int16 scales", build(B.CONCATENATION, options("ConcatenationOptions", axis=1), [a, b], [y], 3))
    for t in ("int8", "int16"):
        k = 1 / 256 if t == "int16" else 1
        case(f"REDUCE_PROD {t}", build(B.REDUCE_PROD, options("ReducerOptions", keepDims=False), [T([3, 4, 5], t, 0.02 * k, zero_of(t)), T([1], "int32", data=[1])],
                                       [T([3, 5], t, 0.03 * k, zero_of(t))], 2))
    for b in ("int8", "int16"):
        scales = rng.uniform(0.01, 0.05, 5)
        case(f"QUANTIZE float by channel {b}",
             build(B.QUANTIZE, options("QuantizeOptions"), [T([3, 7, 5], "float32")], [T([3, 7, 5], b, scales, [0] * 5, axis=2)], 3))
        if b == "int8": case(f"DEQUANTIZE by channel {b}",
             build(B.DEQUANTIZE, options("DequantizeOptions"), [T([3, 7, 5], b, scales, [0] * 5, axis=2)], [T([3, 7, 5], "float32")], 5), 1e-6)
    for a, b in (("int8", "int8"), ("int8", "uint8"), ("uint8", "int8"), ("int16", "int8"), ("int8", "int16"), ("int16", "int16"),
                 ("int16", "int32"), ("int32", "int16"), ("int32", "int8")):
        sc = {"int8": 0.03, "uint8": 0.05, "int16": 0.0004, "int32": 0.00001}
        z = {"int8": -5, "uint8": 9, "int16": 0, "int32": 0}
        case(f"QUANTIZE {a} {b}", build(B.QUANTIZE, options("QuantizeOptions"), [T([3, 90], a, sc[a] * 1.1, z[a])], [T([3, 90], b, sc[b], z[b])], 2),
             spread=1e-4 if a == "int32" else 1)
    for b in ("int8", "uint8", "int16"):
        case(f"QUANTIZE float {b}", build(B.QUANTIZE, options("QuantizeOptions"), [T([3, 90], "float32")], [T([3, 90], b, 0.02, zero_of(b))], 2))
        case(f"DEQUANTIZE {b}", build(B.DEQUANTIZE, options("DequantizeOptions"), [T([3, 90], b, 0.02, zero_of(b))], [T([3, 90], "float32")], 3))


# ---- running ----

def operand(d, spread):
    if d["dtype"] == np.float32:
        return rng.normal(size=d["shape"]).astype(np.float32)
    return ints(d["shape"], d["dtype"], spread)


def one(tenon, target, folder, name, model, allowed, spread, recorder=None):
    path = os.path.join(folder, "m.tflite")
    with open(path, "wb") as f:
        f.write(model)
    try:
        # The reference kernel for sums reads what it has not set.
        kind = OpResolverType.AUTO if name.startswith("SUM") else OpResolverType.BUILTIN_REF
        it = Interpreter(path, experimental_op_resolver_type=kind)
        it.allocate_tensors()
    except (RuntimeError, ValueError) as e:
        if kind == OpResolverType.BUILTIN_REF and "Didn't find op" in str(e):
            kind = None
        if kind is not None:
            return None, f"the interpreter refuses it: {str(e).strip().splitlines()[0][:120]}"
        it = Interpreter(path)  # no reference kernel
        it.allocate_tensors()
    x = {}
    for d in it.get_input_details():
        x[d["name"]] = operand(d, spread)
        it.set_tensor(d["index"], x[d["name"]])
    it.invoke()
    np.savez(os.path.join(folder, "in.npz"), **x)
    out = os.path.join(folder, "out.npz")
    r = subprocess.run([tenon, "run", path, "--inputs", os.path.join(folder, "in.npz"), "-o", out, "-t", target],
                       capture_output=True, text=True, timeout=120)
    if r.returncode:
        return False, (r.stderr or r.stdout).strip()[-300:]
    got = np.load(out)
    for d in it.get_output_details():
        want, have = it.get_tensor(d["index"]), got[d["name"]]
        if want.shape != have.shape:
            return False, f"shape {have.shape}, must be {want.shape}"
        diff = np.abs(want.astype(np.float64) - have.astype(np.float64))
        if diff.size and diff.max() > allowed:
            at = np.unravel_index(diff.argmax(), diff.shape)
            return False, f"{int((diff > allowed).sum())} of {diff.size} differ, {have[at]} for {want[at]}"
    if recorder: recorder.add(name, model, ".tflite", list(x.values()), [it.get_tensor(d["index"]) for d in it.get_output_details()], (allowed, 0, 0))
    return True, ""


def main():
    args, targets, only, record = sys.argv[1:], [], [], None
    tenon = args.pop(0)
    while args:
        a = args.pop(0)
        if a == "--record": record = args.pop(0)
        else: targets.append(args.pop(0)) if a == "--target" else only.append(a)
    recorder = recorded.Recorder() if record else None
    for part in (arithmetic, functions, rows, windows, matrices, images, recurrent, movement):
        part()
    failed = refused = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for target in targets or ["interp"]:
            for name, model, allowed, spread in CASES:
                if only and not any(name.startswith(o) for o in only):
                    continue
                ok, why = one(tenon, target, folder, name, model, allowed, spread, recorder)
                passed += ok is True
                refused += ok is None
                failed += ok is False
                if not ok:
                    print(f"{'FAILED' if ok is False else 'left out'} {name} ({target}): {why}")
    if recorder: recorder.save(record)
    print(f"{passed} passed, {failed} failed, {refused} left out")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
