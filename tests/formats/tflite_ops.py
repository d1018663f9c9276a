"""tflite_ops.py -- one small TensorFlow Lite model for each builtin operator and form of it, for tflite_test.py.

Models are built with the schema's own classes, which come with ai-edge-litert.
"""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9, "float64": 10, "uint32": 15, "uint16": 16}


class K:
    """A constant operand."""
    def __init__(self, value, dtype=None): self.a = np.array(value, dtype or (np.int32 if np.array(value).dtype.kind == "i" else np.float32))


class Build:
    """A model under construction: one list of buffers and operator codes for all sub-graphs."""
    def __init__(self):
        self.m = schema.ModelT()
        self.m.version, self.m.description = 3, "test"
        empty = schema.BufferT()
        self.m.buffers, self.m.operatorCodes, self.m.subgraphs = [empty], [], []

    def graph(self, name="main"):
        s = schema.SubGraphT()
        s.name, s.tensors, s.operators, s.inputs, s.outputs = name, [], [], [], []
        self.m.subgraphs.append(s)
        return s

    def tensor(self, s, dtype, shape, data=None, name=None, variable=False):
        t = schema.TensorT()
        t.shape, t.type, t.buffer, t.name, t.isVariable = list(shape), dtype, 0, name or f"t{len(s.tensors)}", variable
        if data is not None:
            b = schema.BufferT()
            b.data = np.frombuffer(data, np.uint8)
            t.buffer = len(self.m.buffers)
            self.m.buffers.append(b)
        s.tensors.append(t)
        return len(s.tensors) - 1

    def array(self, s, a, const):
        """A tensor like an array: a constant, or an input."""
        a = np.ascontiguousarray(a) if a.ndim else a
        i = self.tensor(s, TYPES[str(a.dtype)], a.shape, a.tobytes() if const else None)
        if not const: s.inputs.append(i)
        return i

    def op(self, s, name, inputs, outputs, options=None, version=1, custom=None):
        code = schema.OperatorCodeT()
        code.builtinCode = schema.BuiltinOperator.CUSTOM if custom else getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        o = schema.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = len(self.m.operatorCodes), list(inputs), list(outputs)
        if custom: code.customCode, o.customOptions = name, list(custom)
        if options:
            kind, fields = options
            t = getattr(schema, kind + "T")()
            for k, v in fields.items(): setattr(t, k, v)
            if hasattr(schema.BuiltinOptions, kind): o.builtinOptionsType, o.builtinOptions = getattr(schema.BuiltinOptions, kind), t
            else: o.builtinOptions2Type, o.builtinOptions2 = getattr(schema.BuiltinOptions2, kind), t
        self.m.operatorCodes.append(code)
        s.operators.append(o)

    def bytes(self):
        b = flatbuffers.Builder(1024)
        b.Finish(self.m.Pack(b), b"TFL3")
        return bytes(b.Output())


def single(name, operands, outs, options=None, shape=None, version=1):
    """A model of one operator: operands are arrays (inputs), K(...) or None; outs dtypes."""
    b = Build()
    s = b.graph()
    ins = [-1 if a is None else b.array(s, a.a if isinstance(a, K) else a, isinstance(a, K)) for a in operands]
    s.outputs = [b.tensor(s, TYPES[o], shape or []) for o in outs]
    b.op(s, name, ins, s.outputs, options, version)
    return b.bytes(), [a for a in operands if isinstance(a, np.ndarray)]


rng = np.random.default_rng(3)
F, I, L = ["float32"], ["int32"], ["int64"]
x = rng.normal(size=(2, 3, 4)).astype("f4")
y = (rng.random(size=(2, 3, 4)) + 0.5).astype("f4")
row = rng.normal(size=(4,)).astype("f4")
im = rng.normal(size=(2, 7, 6, 4)).astype("f4")
i3 = rng.integers(-9, 10, (2, 3, 4)).astype("i4")
p3 = rng.integers(1, 5, (2, 3, 4)).astype("i4")
i64 = i3.astype("i8")
flags = rng.random((2, 3, 4)) > 0.5
vol = rng.normal(size=(1, 4, 5, 6, 2)).astype("f4")


def elementwise():
    for name in "FLOOR CEIL ROUND ABS NEG EXP SIN COS TANH LOGISTIC RELU RELU6 RELU_N1_TO_1 SQUARE ELU HARD_SWISH SIGN RELU_0_TO_1".split():
        yield name, single(name, [x * 3], F)
    for name in "LOG SQRT RSQRT".split(): yield name, single(name, [y], F)
    yield "ABS i32", single("ABS", [i3], I)
    yield "LOGICAL_NOT", single("LOGICAL_NOT", [flags], ["bool"])
    yield "LEAKY_RELU", single("LEAKY_RELU", [x], F, ("LeakyReluOptions", {"alpha": 0.3}))
    for a in (False, True): yield f"GELU {a}", single("GELU", [x], F, ("GeluOptions", {"approximate": a}))
    yield "PRELU", single("PRELU", [im, K(rng.normal(size=(1, 1, 4)))], F)
    for to, a in (("int32", x * 5), ("float32", i3), ("int64", i3), ("bool", i3), ("uint8", p3), ("float32", flags), ("int16", p3)):
        yield f"CAST {to}", single("CAST", [a], [to], ("CastOptions", {}))
    yield "ZEROS_LIKE", single("ZEROS_LIKE", [x], F)
    yield "FAKE_QUANT", single("FAKE_QUANT", [x], F, ("FakeQuantOptions", {"min": -1.1, "max": 1.3, "numBits": 8}))
    yield "BITCAST", single("BITCAST", [x], I, ("BitcastOptions", {}))
    for name, o in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        for act in (0, 1, 2, 3):
            yield f"{name} act {act}", single(name, [x * 4, y], F, (o, {"fusedActivationFunction": act}))
        yield f"{name} row", single(name, [x, K(row)], F, (o, {}))
        yield f"{name} i32", single(name, [i3, p3], I, (o, {}))
    for name in "MAXIMUM MINIMUM POW FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE ATAN2".split():
        a, b = (y, x) if name == "POW" else (x, y)
        yield name, single(name, [a, b], F)
        if name != "ATAN2": yield name + " row", single(name, [a, K(np.abs(row) + 0.1)], F)
    for name in "MAXIMUM MINIMUM FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE POW".split(): yield name + " i32", single(name, [i3, p3], I)
    for name in "LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL".split():
        yield name, single(name, [x, y], ["bool"])
        yield name + " i32", single(name, [i3, p3], ["bool"])
    for name in "LOGICAL_AND LOGICAL_OR".split(): yield name, single(name, [flags, flags[::-1].copy()], ["bool"])
    yield "ADD_N", single("ADD_N", [x, y, x], F)
    yield "BITWISE_XOR", single("BITWISE_XOR", [i3, p3], I)
    yield "RIGHT_SHIFT", single("RIGHT_SHIFT", [i3, p3], I)
    yield "SELECT", single("SELECT", [flags, x, y], F)
    yield "SELECT rows", single("SELECT", [flags[:, 0, 0].copy(), x, y], F)
    yield "SELECT_V2", single("SELECT_V2", [flags[:, :1].copy(), x, K(row)], F)


def reductions():
    for name in "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN".split():
        for axes in ([1], [-1, 0], [0, 1, 2], [2, 2]):
            for keep in (False, True): yield f"{name} {axes} {keep}", single(name, [x, K(axes)], F, ("ReducerOptions", {"keepDims": keep}))
    yield "SUM i32", single("SUM", [i3, K([1])], I, ("ReducerOptions", {}))
    for name in ("REDUCE_ANY", "REDUCE_ALL"): yield name, single(name, [flags, K([1, 2])], ["bool"], ("ReducerOptions", {}))
    for name, o in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        yield name, single(name, [x, K([-1])], I, (o, {"outputType": 2}))
        yield name + " i64", single(name, [x, K([1])], L, (o, {"outputType": 4}))
    for ex in (False, True):
        for back in (False, True): yield f"CUMSUM {ex} {back}", single("CUMSUM", [x, K(1)], F, ("CumsumOptions", {"exclusive": ex, "reverse": back}))


def shapes():
    yield "RESHAPE", single("RESHAPE", [x, K([4, -1])], F)
    yield "RESHAPE option", single("RESHAPE", [x], F, ("ReshapeOptions", {"newShape": [6, 4]}))
    yield "TRANSPOSE", single("TRANSPOSE", [x, K([2, 0, 1])], F)
    yield "SQUEEZE", single("SQUEEZE", [x[:1, :, None].copy()], F, ("SqueezeOptions", {"squeezeDims": [0, -2]}))
    yield "SQUEEZE all", single("SQUEEZE", [x[:1, :, None].copy()], F, ("SqueezeOptions", {}))
    for a in (0, -1, 2): yield f"EXPAND_DIMS {a}", single("EXPAND_DIMS", [x, K(a)], F)
    yield "CONCATENATION", single("CONCATENATION", [x, y, K(x[:, :1])], F, ("ConcatenationOptions", {"axis": 1}))
    yield "CONCATENATION -1", single("CONCATENATION", [x, y], F, ("ConcatenationOptions", {"axis": -1, "fusedActivationFunction": 0}))
    yield "SPLIT", single("SPLIT", [K(-1), x], F * 2, ("SplitOptions", {"numSplits": 2}))
    yield "SPLIT_V", single("SPLIT_V", [x, K([1, -1, 1]), K(2)], F * 3, ("SplitVOptions", {"numSplits": 3}))
    for a in (0, 1, -1): yield f"PACK {a}", single("PACK", [x, y], F, ("PackOptions", {"valuesCount": 2, "axis": a}))
    yield "UNPACK", single("UNPACK", [x], F * 3, ("UnpackOptions", {"num": 3, "axis": 1}))
    yield "SLICE", single("SLICE", [x, K([0, 1, 1]), K([2, -1, 2])], F)
    yield "SLICE dynamic", single("SLICE", [x, np.array([0, 1, 1], "i4"), np.array([2, 1, -1], "i4")], F)
    for begin, end, step, o in (([0, 0, 1], [2, 3, 3], [1, 1, 1], {}), ([0, -1, 0], [0, 0, 0], [1, -1, 2], {"beginMask": 1, "endMask": 7}),
                                ([1, 0, 0], [2, 2, 4], [1, 1, 1], {"shrinkAxisMask": 1}), ([0, -1], [0, 0], [1, 1], {"ellipsisMask": 1, "shrinkAxisMask": 2}),
                                ([0, 1], [0, 2], [1, 1], {"newAxisMask": 1}), ([0, 0, 0], [0, 0, 2], [1, 1, 1], {"newAxisMask": 2, "endMask": 1}),
                                ([1], [2], [1], {}), ([-3, 5, -1], [9, -9, -9], [1, -2, -1], {})):
        yield f"STRIDED_SLICE {begin} {end} {step} {o}", single("STRIDED_SLICE", [x, K(begin), K(end), K(step)], F, ("StridedSliceOptions", o))
    yield "STRIDED_SLICE dynamic", single("STRIDED_SLICE", [x, np.array([0, 1], "i4"), np.array([2, 3], "i4"), K([1, 1])], F, ("StridedSliceOptions", {"shrinkAxisMask": 0}))
    yield "PAD", single("PAD", [x, K([[1, 0], [0, 2], [1, 1]])], F)
    yield "PADV2", single("PADV2", [x, K([[1, 0], [0, 2], [1, 1]]), K(2.5)], F)
    for mode in (0, 1): yield f"MIRROR_PAD {mode}", single("MIRROR_PAD", [x, K([[1, 0], [2, 1], [2, 3]])], F, ("MirrorPadOptions", {"mode": mode}))
    yield "TILE", single("TILE", [x, K([2, 1, 3])], F)
    yield "BROADCAST_TO", single("BROADCAST_TO", [x[:, :1].copy(), K([5, 2, 3, 4])], F, ("BroadcastToOptions", {}), version=2)
    yield "BROADCAST_ARGS", single("BROADCAST_ARGS", [K([3, 1]), np.array([2, 3, 4], "i4")], I)
    yield "SHAPE", single("SHAPE", [x], I, ("ShapeOptions", {"outType": 2}))
    yield "RANK", single("RANK", [x], I)
    yield "FILL", single("FILL", [K([2, 3]), np.array(2.5, "f4")], F)
    yield "RANGE", single("RANGE", [np.array(2, "i4"), np.array(11, "i4"), np.array(3, "i4")], I)
    yield "RANGE f32", single("RANGE", [K(5.0), K(1.0), K(-0.75)], F)
    yield "REVERSE_V2", single("REVERSE_V2", [x, K([1])], F)
    yield "REVERSE_SEQUENCE", single("REVERSE_SEQUENCE", [im, K([2, 5])], F, ("ReverseSequenceOptions", {"seqDim": 1, "batchDim": 0}))
    yield "REVERSE_SEQUENCE 2", single("REVERSE_SEQUENCE", [im, K([2, 5, 1, 3])], F, ("ReverseSequenceOptions", {"seqDim": 1, "batchDim": 3}))
    yield "DEPTH_TO_SPACE", single("DEPTH_TO_SPACE", [im], F, ("DepthToSpaceOptions", {"blockSize": 2}))
    yield "SPACE_TO_DEPTH", single("SPACE_TO_DEPTH", [im[:, :6].copy()], F, ("SpaceToDepthOptions", {"blockSize": 2}))
    yield "SPACE_TO_BATCH_ND", single("SPACE_TO_BATCH_ND", [im, K([2, 3]), K([[1, 0], [0, 3]])], F)
    yield "SPACE_TO_BATCH_ND 3", single("SPACE_TO_BATCH_ND", [x, K([2]), K([[0, 1]])], F)
    yield "BATCH_TO_SPACE_ND", single("BATCH_TO_SPACE_ND", [np.repeat(im, 3, 0), K([2, 3]), K([[1, 0], [0, 2]])], F)
    yield "MATRIX_DIAG", single("MATRIX_DIAG", [x], F)
    yield "MATRIX_SET_DIAG", single("MATRIX_SET_DIAG", [x, y[:, 0, :3].copy()], F)
    yield "DILATE", single("DILATE", [x, K([2, 1, 3]), K(0.5)], F)


def indices():
    for axis in (0, 1, -1): yield f"GATHER {axis}", single("GATHER", [x, K([[1, 0], [0, 1]])], F, ("GatherOptions", {"axis": axis}))
    yield "GATHER batch", single("GATHER", [x, K([[1, 0], [2, 1]])], F, ("GatherOptions", {"axis": 1, "batchDims": 1}))
    yield "GATHER batch 2", single("GATHER", [x, K([[1, 0, 3], [2, 1, 1]])], F, ("GatherOptions", {"axis": 2, "batchDims": 1}))
    yield "GATHER_ND", single("GATHER_ND", [x, K([[1, 0], [0, 2]])], F)
    yield "SCATTER_ND", single("SCATTER_ND", [K([[1], [3], [1]]), y[0], K([5, 4])], F)
    for axis in (-1, 0): yield f"ONE_HOT {axis}", single("ONE_HOT", [i3, K(4), K(1.5), K(-0.5)], F, ("OneHotOptions", {"axis": axis}))
    yield "TOPK_V2", single("TOPK_V2", [x, K(2)], ["float32", "int32"])
    yield "WHERE", single("WHERE", [flags], L)
    yield "UNIQUE", single("UNIQUE", [i3.reshape(-1)], ["int32", "int32"], ("UniqueOptions", {"idxOutType": 2}))
    yield "SPARSE_TO_DENSE", single("SPARSE_TO_DENSE", [K([[0, 1], [2, 3]]), K([3, 4]), K([1.5, 2.5]), K(-1.0)], F)
    yield "EMBEDDING_LOOKUP", single("EMBEDDING_LOOKUP", [np.array([1, 0, 1], "i4"), K(x)], F)
    yield "SEGMENT_SUM", single("SEGMENT_SUM", [x[0], K([0, 0, 1])], F)
    for k in "PROD MAX SUM MIN".split(): yield f"UNSORTED_SEGMENT_{k}", single(f"UNSORTED_SEGMENT_{k}", [x[0], K([2, 0, 2]), K(3)], F)
    yield "BUCKETIZE", single("BUCKETIZE", [x], I, ("BucketizeOptions", {"boundaries": [-0.5, 0.1, 0.7]}))
    for at in ([0, 1, 2], [1, 9, -3]): yield f"DYNAMIC_UPDATE_SLICE {at}", single("DYNAMIC_UPDATE_SLICE", [x, y[:1, :2, :2].copy(), np.array(at, "i4")], F)
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]], "f4")
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], "f4")
    yield "NON_MAX_SUPPRESSION_V4", single("NON_MAX_SUPPRESSION_V4", [boxes, scores, K(5), K(0.5), K(0.4)], ["int32", "int32"])
    yield "NON_MAX_SUPPRESSION_V5", single("NON_MAX_SUPPRESSION_V5", [boxes, scores, K(5), K(0.5), K(0.4), K(0.0)], ["int32", "float32", "int32"])


def windows():
    w = rng.normal(size=(5, 3, 2, 4)).astype("f4")
    for pad in (0, 1):
        for sh, sw, dh, dw in ((1, 1, 1, 1), (2, 3, 1, 1), (1, 1, 2, 1)):
            o = {"padding": pad, "strideH": sh, "strideW": sw, "dilationHFactor": dh, "dilationWFactor": dw, "fusedActivationFunction": 1}
            yield f"CONV_2D {pad} {sh}{sw}{dh}{dw}", single("CONV_2D", [im, K(w), K(rng.normal(size=5))], F, ("Conv2DOptions", o))
            o = dict(o, depthMultiplier=2)
            yield f"DEPTHWISE {pad} {sh}{sw}{dh}{dw}", single("DEPTHWISE_CONV_2D", [im, K(rng.normal(size=(1, 3, 2, 8))), K(rng.normal(size=8))], F, ("DepthwiseConv2DOptions", o))
        yield f"CONV_2D groups {pad}", single("CONV_2D", [im, K(rng.normal(size=(6, 3, 3, 2))), K(np.zeros(6))], F, ("Conv2DOptions", {"padding": pad, "strideH": 1, "strideW": 1}))
        yield f"CONV_3D {pad}", single("CONV_3D", [vol, K(rng.normal(size=(2, 3, 2, 2, 3))), K(rng.normal(size=3))], F, ("Conv3DOptions", {"padding": pad, "strideD": 1, "strideH": 2, "strideW": 2}))
        for s in (1, 2, 3):
            out = [2, 7 * s, 6 * s, 5] if pad == 0 else [2, 6 * s + 3, 5 * s + 2, 5]
            yield f"TRANSPOSE_CONV {pad} {s}", single("TRANSPOSE_CONV", [K(out), K(w), im], F, ("TransposeConvOptions", {"padding": pad, "strideH": s, "strideW": s}))
        out3 = [1, 8, 10, 12, 3] if pad == 0 else [1, 8, 11, 12, 3]
        yield f"CONV_3D_TRANSPOSE {pad}", single("CONV_3D_TRANSPOSE", [K(out3), K(rng.normal(size=(2, 3, 2, 3, 2))), vol], F, ("Conv3DOptions", {"padding": pad, "strideD": 2, "strideH": 2, "strideW": 2}))
        for name in "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D".split():
            o = {"padding": pad, "strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2, "fusedActivationFunction": 3}
            yield f"{name} {pad}", single(name, [im], F, ("Pool2DOptions", o))
    for keep in (False, True): yield f"FULLY_CONNECTED {keep}", single("FULLY_CONNECTED", [x, K(rng.normal(size=(5, 4))), K(rng.normal(size=5))], F, ("FullyConnectedOptions", {"keepNumDims": keep, "fusedActivationFunction": 1}))
    for ax in (False, True):
        for ay in (False, True):
            a, b = x if not ax else np.swapaxes(x, 1, 2).copy(), y.transpose(0, 2, 1).copy() if not ay else y
            yield f"BATCH_MATMUL {ax} {ay}", single("BATCH_MATMUL", [a, b], F, ("BatchMatMulOptions", {"adjX": ax, "adjY": ay}))
    yield "SOFTMAX", single("SOFTMAX", [x], F, ("SoftmaxOptions", {"beta": 0.7}))
    yield "LOG_SOFTMAX", single("LOG_SOFTMAX", [x], F)
    yield "L2_NORMALIZATION", single("L2_NORMALIZATION", [x], F, ("L2NormOptions", {}))
    yield "LOCAL_RESPONSE_NORMALIZATION", single("LOCAL_RESPONSE_NORMALIZATION", [im], F, ("LocalResponseNormalizationOptions", {"radius": 1, "bias": 1.5, "alpha": 0.3, "beta": 0.6}))
    for corners, half in ((False, False), (True, False), (False, True)):
        for size in ([14, 9], [3, 4]):
            yield f"RESIZE_BILINEAR {corners} {half} {size}", single("RESIZE_BILINEAR", [im, K(size)], F, ("ResizeBilinearOptions", {"alignCorners": corners, "halfPixelCenters": half}))
            yield f"RESIZE_NEAREST_NEIGHBOR {corners} {half} {size}", single("RESIZE_NEAREST_NEIGHBOR", [im, K(size)], F, ("ResizeNearestNeighborOptions", {"alignCorners": corners, "halfPixelCenters": half}))


def spectra():
    """RFFT2D and what decomposes its complex values."""
    wave = rng.normal(size=(3, 4, 16)).astype("f4")
    for lengths in ([1, 16], [4, 16], [2, 8], [8, 32]):
        for last in ("COMPLEX_ABS", "REAL", "IMAG"):
            b = Build()
            s = b.graph()
            a = b.array(s, wave[:, :1].copy() if lengths[0] == 1 else wave, False)
            n = b.tensor(s, 2, [2], np.array(lengths, "i4").tobytes())
            c, flat, s.outputs = b.tensor(s, 8, []), b.tensor(s, 8, []), [b.tensor(s, 0, [])]
            b.op(s, "RFFT2D", [a, n], [c], ("Rfft2dOptions", {}))
            b.op(s, "RESHAPE", [c, b.tensor(s, 2, [2], np.array([3, -1], "i4").tobytes())], [flat])
            b.op(s, last, [flat], s.outputs)
            yield f"RFFT2D {lengths} {last}", (b.bytes(), [wave[:, :1].copy() if lengths[0] == 1 else wave])


def moved_spectra():
    """Complex values that are moved, joined and cut between RFFT2D and REAL or IMAG, in one model."""
    wave = rng.normal(size=(3, 1, 16)).astype("f4")
    b = Build()
    s = b.graph()
    a = b.array(s, wave, False)
    ints = lambda v: b.tensor(s, 2, [len(v)], np.array(v, "i4").tobytes())
    one = lambda v: b.tensor(s, 2, [], np.array(v, "i4").tobytes())
    z = lambda: b.tensor(s, 8, [])
    offset = np.exp(1j * np.arange(9)).astype("c8").reshape(1, 1, 9)
    c = z()
    b.op(s, "RFFT2D", [a, ints([1, 16])], [c], ("Rfft2dOptions", {}))                       # [3, 1, 9]
    steps = [("ADD", [b.tensor(s, 8, [1, 1, 9], offset.tobytes())], ("AddOptions", {})),
             ("CAST", [], ("CastOptions", {})),
             ("SQUEEZE", [], ("SqueezeOptions", {"squeezeDims": [1]})),                      # [3, 9]
             ("TRANSPOSE", [ints([1, 0])], ("TransposeOptions", {})),                        # [9, 3]
             ("SLICE", [ints([1, 0]), ints([6, 3])], ("SliceOptions", {})),                  # [6, 3]
             ("EXPAND_DIMS", [one(0)], ("ExpandDimsOptions", {})),                           # [1, 6, 3]
             ("STRIDED_SLICE", [ints([0, 0, 0]), ints([1, 6, 3]), ints([1, 2, 1])], ("StridedSliceOptions", {})),
             ("GATHER", [ints([2, 0, 1, 1])], ("GatherOptions", {"axis": 1}))]               # [1, 4, 3]
    for name, more, options in steps:
        d = z()
        b.op(s, name, [c] + more, [d], options)
        c = d
    d, re, im, cast, back = z(), b.tensor(s, 0, []), b.tensor(s, 0, []), b.tensor(s, 0, []), z()
    b.op(s, "CONCATENATION", [c, c], [d], ("ConcatenationOptions", {"axis": 2}))
    b.op(s, "REAL", [d], [re])
    b.op(s, "CAST", [d], [cast], ("CastOptions", {}))
    b.op(s, "CAST", [cast], [back], ("CastOptions", {}))
    magnitude = b.tensor(s, 0, [])
    b.op(s, "COMPLEX_ABS", [back], [magnitude])
    b.op(s, "IMAG", [d], [im])
    s.outputs = [re, im, cast, magnitude]
    v = (np.fft.rfft(wave) + offset)[:, 0].T[1:7][None][:, ::2][:, [2, 0, 1, 1]]
    v = np.concatenate([v, v], 2)
    yield "complex values that are moved", (b.bytes(), [wave], [v.real.astype("f4"), v.imag.astype("f4"), v.real.astype("f4"), np.abs(v.real).astype("f4")])


def pool_with_indices(size, padding, window):
    """MediaPipe's pooling with indices, whose bits are in a tensor of floats, and its reverse; small integers, so that some elements are equal."""
    x, (kh, kw) = rng.integers(-3, 4, (2, *size, 3)).astype("f4"), window
    out = [-(-n // k) if padding == 1 else n // k for n, k in zip(size, window)]
    more = [max(o * k - n, 0) for o, k, n in zip(out, window, size)]
    whole = np.pad(x, ((0, 0), *((m // 2, m - m // 2) for m in more), (0, 0)), "edge")[:, :out[0] * kh, :out[1] * kw]
    taps = whole.reshape(2, out[0], kh, out[1], kw, 3).transpose(0, 1, 3, 5, 4, 2).reshape(2, *out, 3, kh * kw)
    best = taps.argmax(-1)
    b, options = Build(), np.array([padding, kw, kh, kw, kh] + [0] * 5, "i4").tobytes()
    s = b.graph()
    a, (y, index, bits, back) = b.array(s, x, False), [b.tensor(s, t, []) for t in (0, 0, TYPES["int32"], 0)]
    b.op(s, "MaxPoolingWithArgmax2D", [a], [y, index], custom=options)
    b.op(s, "BITCAST", [index], [bits], ("BitcastOptions", {}))
    s.outputs, want = [y, bits], [taps.max(-1), best.astype("i4")]
    if padding == 2:
        b.op(s, "MaxUnpooling2D", [y, index], [back], custom=options)
        only = np.where(np.arange(kh * kw) == best[..., None], taps, 0).reshape(2, *out, 3, kw, kh).transpose(0, 1, 5, 2, 4, 3)
        s.outputs, want = [y, bits, back], [*want, only.reshape(2, out[0] * kh, out[1] * kw, 3)]
    return b.bytes(), [x], want


def custom():
    """Custom operators whose options are the bytes of a C struct: MediaPipe's transposed convolution, beside the builtin one, and pools."""
    for padding, stride in ((1, (2, 2)), (2, (2, 3)), (1, (1, 3)), (2, (1, 1))):  # SAME, VALID; strides along h, w
        x, w, bias = rng.normal(size=(1, 5, 4, 3)).astype("f4"), rng.normal(size=(2, 3, 2, 3)).astype("f4"), np.array([0.5, -1], "f4")
        b = Build()
        s = b.graph()
        a = b.array(s, x, False)
        consts = [b.tensor(s, 0, list(v.shape), v.tobytes()) for v in (w, bias)]
        s.outputs = [b.tensor(s, 0, [])]
        b.op(s, "Convolution2DTransposeBias", [a, *consts], s.outputs, custom=np.array([padding, stride[1], stride[0]], "i4").tobytes())
        size = [(n - 1) * t + k for n, t, k in zip((5, 4), stride, (3, 2))]
        full = np.zeros((1, *size, 2))
        for i in range(5):
            for j in range(4):
                for p in range(3):
                    for q in range(2): full[0, i * stride[0] + p, j * stride[1] + q] += w[:, p, q, :].astype("f8") @ x[0, i, j]
        if padding == 1:  # as many outputs as inputs times the stride, cut evenly, or followed by zeros
            want = np.zeros((1, 5 * stride[0], 4 * stride[1], 2))
            lo = [max((n - 1) * t + k - n * t, 0) // 2 for n, t, k in zip((5, 4), stride, (3, 2))]
            part = full[:, lo[0]:lo[0] + want.shape[1], lo[1]:lo[1] + want.shape[2]]
            want[:, :part.shape[1], :part.shape[2]] = part
            full = want
        yield f"Convolution2DTransposeBias {padding} {stride}", (b.bytes(), [x], [(full + bias).astype("f4")])
    for size, padding, window in (((4, 6), 2, (2, 2)), ((5, 7), 2, (2, 3)), ((5, 7), 1, (3, 2)), ((3, 9), 1, (2, 4))):
        yield f"MaxPoolingWithArgmax2D {size} {padding} {window}", pool_with_indices(size, padding, window)


def quantized(b, s, i, scale, zero):
    q = schema.QuantizationParametersT()
    q.scale, q.zeroPoint = [scale], [zero]
    s.tensors[i].quantization = q


def flex(name, operands, outs, options, scales=None):
    """A model of one custom operator whose options are a FlexBuffer; `scales` of operands by number."""
    from flatbuffers import flexbuffers
    b = Build()
    s = b.graph()
    ins = [b.array(s, a.a if isinstance(a, K) else a, isinstance(a, K)) for a in operands]
    for i, pair in (scales or {}).items(): quantized(b, s, ins[i], *pair)
    s.outputs = [b.tensor(s, TYPES[o], []) for o in outs]
    b.op(s, name, ins, s.outputs, custom=flexbuffers.Dumps(options))
    return b.bytes(), [a for a in operands if isinstance(a, np.ndarray)]


def sounds():
    """TensorFlow's spectrograms and cepstra.  Windows that are no power of two, several channels, rates that are inputs."""
    for samples, channels, window, stride, squared in ((400, 1, 64, 32, True), (333, 2, 50, 17, False), (64, 1, 64, 5, True)):
        sound = (rng.normal(size=(samples, channels)) * 0.3).astype("f4")
        yield f"AudioSpectrogram {window} {stride} {squared}", flex(
            "AudioSpectrogram", [sound], F, {"window_size": window, "stride": stride, "magnitude_squared": squared})
    for bins, rate, low, high, bands, count in ((129, 16000, 20, 4000, 40, 13), (65, 8000, 0, 4000, 20, 20), (257, 44100, 300, 12345, 26, 5)):
        power = (rng.random((2, 3, bins)) * 50).astype("f4")
        options = {"upper_frequency_limit": float(high), "lower_frequency_limit": low, "filterbank_channel_count": bands, "dct_coefficient_count": count}
        for given in (K([rate]), np.array([rate], "i4")):
            yield f"Mfcc {bins} {rate} {type(given).__name__}", flex("Mfcc", [power, given], F, options)
    yield "Mfcc beyond the last bin", flex("Mfcc", [power, K([20000])], F, options)


def detections():
    """Boxes of a detector: suppressed by the best class or class by class, with and without a background, as floats and as bytes."""
    for regular, background, each, most, bytes_ in ((False, True, 1, 6, False), (False, False, 3, 4, False), (True, True, 1, 10, False),
                                                    (True, False, 1, 200, False), (False, True, 2, 5, True), (True, True, 1, 8, True)):
        n, classes = 60, 5
        anchors = np.stack([*rng.random((2, n)), *(0.2 + 0.2 * rng.random((2, n)))], 1).astype("f4")
        codes, scores = rng.normal(size=(1, n, 4)).astype("f4"), rng.permutation(n * (classes + background)).reshape(1, n, -1).astype("f4") / 400
        options = {"max_detections": most, "max_classes_per_detection": each, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5,
                   "num_classes": classes, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "use_regular_nms": regular}
        if regular: options["detections_per_class"] = 7
        scales = {0: (0.03, 128), 1: (1 / 400, 3), 2: (1 / 255, 0)} if bytes_ else {}
        given = [codes, scores, anchors]
        for i, (scale, zero) in scales.items(): given[i] = np.clip(np.round(given[i] / scale) + zero, 0, 255).astype("u1")
        if bytes_:  # few that count, since the reference leaves open which of two equal ones comes first
            given[1] = np.where(rng.random(scores.shape) < 0.03, rng.integers(130, 256, scores.shape), 0).astype("u1")
        yield f"TFLite_Detection_PostProcess {regular} {background} {each} {most} {bytes_}", flex(
            "TFLite_Detection_PostProcess", [given[0], given[1], K(given[2], given[2].dtype)], F * 4, options, scales)
    yield "NumericVerify", flex("NumericVerify", [rng.integers(0, 256, (2, 3)).astype("u1"), x[0, :2, :3].copy()], F, {"tolerance": 5.0, "log_if_failed": False},
                                {0: (0.02, 120)})


def hlo():
    """Operators of StableHLO, most of which LiteRT reads but does not run: what NumPy computes is given."""
    z, whole = y[::-1].copy(), [2, 3, 4]
    for name, f in (("ADD", np.add), ("DIVIDE", np.divide), ("MULTIPLY", np.multiply), ("MAXIMUM", np.maximum), ("MINIMUM", np.minimum),
                    ("SUBTRACT", np.subtract), ("POWER", np.power), ("REMAINDER", np.fmod)):
        yield "STABLEHLO_" + name, (*single("STABLEHLO_" + name, [y, z], F, shape=whole), [f(y, z)])
    for name, f, a in (("ABS", np.abs, x), ("COSINE", np.cos, x), ("EXPONENTIAL", np.exp, x), ("FLOOR", np.floor, x), ("NEGATE", np.negative, x), ("TANH", np.tanh, x),
                       ("LOGISTIC", lambda a: 1 / (1 + np.exp(-a)), x), ("LOG", np.log, y), ("RSQRT", lambda a: 1 / np.sqrt(a), y), ("CBRT", np.cbrt, x)):
        yield "STABLEHLO_" + name, (*single("STABLEHLO_" + name, [a], F, shape=whole), [f(a)])
    yield "STABLEHLO_CLAMP", (*single("STABLEHLO_CLAMP", [K(-0.5), x, K(0.5)], F, shape=whole), [np.clip(x, -0.5, 0.5)])
    yield "STABLEHLO_SELECT", (*single("STABLEHLO_SELECT", [flags, x, y], F, shape=whole), [np.where(flags, x, y)])
    for k, f in enumerate((np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)):
        yield f"STABLEHLO_COMPARE {k}", (*single("STABLEHLO_COMPARE", [i3, p3], ["bool"], ("StablehloCompareOptions", {"comparisonDirection": k})), [f(i3, p3)])
    yield "STABLEHLO_AND", (*single("STABLEHLO_AND", [i3, p3], I, shape=whole), [i3 & p3])
    yield "STABLEHLO_OR", (*single("STABLEHLO_OR", [flags, flags], ["bool"], shape=whole), [flags])
    yield "STABLEHLO_SHIFT_LEFT", (*single("STABLEHLO_SHIFT_LEFT", [i3, p3], I, shape=whole), [i3 << p3])
    yield "STABLEHLO_CONVERT", (*single("STABLEHLO_CONVERT", [i3], F, shape=whole), [i3.astype("f4")])
    yield "STABLEHLO_RESHAPE", (*single("STABLEHLO_RESHAPE", [x], F, shape=[4, 6]), [x.reshape(4, 6)])
    yield "STABLEHLO_CONCATENATE", (*single("STABLEHLO_CONCATENATE", [x, y], F, ("StablehloConcatenateOptions", {"dimension": 1})), [np.concatenate([x, y], 1)])
    yield "STABLEHLO_SLICE", (*single("STABLEHLO_SLICE", [x], F, ("StablehloSliceOptions", {"startIndices": [0, 1, 0], "limitIndices": [2, 3, 4], "strides": [1, 1, 2]})), [x[0:2, 1:3, 0:4:2]])
    yield "STABLEHLO_BROADCAST_IN_DIM", (*single("STABLEHLO_BROADCAST_IN_DIM", [row], F, ("StablehloBroadcastInDimOptions", {"broadcastDimensions": [1]}), shape=[2, 4, 3]), [np.broadcast_to(row[None, :, None], (2, 4, 3))])
    yield "STABLEHLO_IOTA", (*single("STABLEHLO_IOTA", [], I, ("StablehloIotaOptions", {"iotaDimension": 1}), shape=[2, 3]), [np.array([[0, 1, 2]] * 2, "i4")])
    yield "STABLEHLO_TRANSPOSE", (*single("STABLEHLO_TRANSPOSE", [x], F, ("StablehloTransposeOptions", {"permutation": [2, 0, 1]})), [x.transpose(2, 0, 1)])
    starts = [np.array(v, "i4") for v in (0, 1, 2)]
    moved = x.copy()
    moved[:1, 1:3, 2:4] = y[:1, :2, :2]
    yield "STABLEHLO_DYNAMIC_UPDATE_SLICE", (*single("STABLEHLO_DYNAMIC_UPDATE_SLICE", [x, y[:1, :2, :2].copy(), *starts], F, shape=whole), [moved])


def control():
    for value in (1.0, -1.0):
        b = Build()
        s, then, other = b.graph(), b.graph("then"), b.graph("else")
        c, a = b.tensor(s, 6, [], name="c"), b.tensor(s, 0, [3], name="a")
        s.inputs, s.outputs = [c, a], [b.tensor(s, 0, [3])]
        b.op(s, "IF", [c, a], s.outputs, ("IfOptions", {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}))
        for g, name in ((then, "EXP"), (other, "NEG")):
            g.inputs = [b.tensor(g, 0, [3])]
            g.outputs = [b.tensor(g, 0, [3])]
            b.op(g, name, g.inputs, g.outputs)
        yield f"IF {value}", (b.bytes(), [np.array(value > 0), np.array([1, 2, value], "f4")])
    b = Build()
    s, cond, body = b.graph(), b.graph("cond"), b.graph("body")
    for g in (s, cond, body): g.inputs = [b.tensor(g, 2, []), b.tensor(g, 0, [2, 2])]
    s.outputs = [b.tensor(s, 2, []), b.tensor(s, 0, [2, 2])]
    b.op(s, "WHILE", s.inputs, s.outputs, ("WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}))
    cond.outputs = [b.tensor(cond, 6, [])]
    b.op(cond, "LESS", [cond.inputs[0], b.tensor(cond, 2, [], np.int32(5).tobytes())], cond.outputs)
    body.outputs = [b.tensor(body, 2, []), b.tensor(body, 0, [2, 2])]
    b.op(body, "ADD", [body.inputs[0], b.tensor(body, 2, [], np.int32(1).tobytes())], body.outputs[:1], ("AddOptions", {}))
    b.op(body, "MUL", [body.inputs[1], body.inputs[1]], body.outputs[1:], ("MulOptions", {}))
    for n in (0, 3, 9): yield f"WHILE from {n}", (b.bytes(), [np.array(n, "i4"), np.array([[1, 0.5], [-1.1, 0.9]], "f4")])
    b = Build()
    s, init = b.graph(), b.graph("init")
    s.inputs, s.outputs = [b.tensor(s, 0, [3])], [b.tensor(s, 0, [3])]
    name = ("VarHandleOptions", {"container": "", "sharedName": "counter"})
    h = b.tensor(s, 13, [])
    got, total = b.tensor(s, 0, [3]), s.outputs[0]
    b.op(s, "CALL_ONCE", [], [], ("CallOnceOptions", {"initSubgraphIndex": 1}))
    b.op(s, "VAR_HANDLE", [], [h], name)
    b.op(s, "READ_VARIABLE", [h], [got])
    b.op(s, "ADD", [got, s.inputs[0]], [total], ("AddOptions", {}))
    b.op(s, "ASSIGN_VARIABLE", [h, total], [])
    h = b.tensor(init, 13, [])
    b.op(init, "VAR_HANDLE", [], [h], name)
    b.op(init, "ASSIGN_VARIABLE", [h, b.tensor(init, 0, [3], np.array([1, 2, 3], "f4").tobytes())], [])
    yield "variables", (b.bytes(), [np.array([0.5, 0.25, 2], "f4")])


def cases():
    for family in (elementwise, reductions, shapes, indices, windows, spectra, moved_spectra, custom, sounds, detections, hlo, control): yield from family()
