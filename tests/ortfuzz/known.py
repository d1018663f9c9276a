"""Known differences: one row each.

A row has the operator, who is right, a condition on the case, and the sentence that decides it.  The condition sees the one node
that differs (`isolate` in check.py finds it), its attributes and its inputs, so that a row hides nothing else.
"""

import numpy as np

import values

ROWS = []
NOBODY = "unspecified"
TENON = "Tenon"
ORT = "ONNX Runtime"


class Row:
    def __init__(self, key, ops, right, why, when):
        self.key, self.ops, self.right, self.why, self.when = key, set(ops.split()), right, why, when


def row(key, ops, right, why):
    def enter(fn):
        ROWS.append(Row(key, ops, right, why, fn))
        return fn

    return enter


def find(problem):
    """The row that explains a problem, or None."""
    for r in ROWS:
        if problem.op in r.ops or "*" in r.ops:
            try:
                if r.when(problem):
                    return r
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                continue
    return None


# ---- what rows ask ----


def differs(p):
    return p.kind == "differs" and p.diff is not None


def bad(p):
    """Where the two results differ."""
    a, b = p.diff.mine, p.diff.theirs
    with np.errstate(all="ignore"):
        return ~((a == b) | ((a != a) & (b != b)))


def has_nan(p, i=0):
    x = p.array(i)
    return x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any())


def empty(p, i=0):
    return p.array(i).size == 0


def is_int(p):
    return p.diff.mine.dtype.kind in "iu"


def largest(p, i=0):
    return max((abs(int(v)) for v in p.array(i).reshape(-1)), default=0)


def relative(p):
    a, b = p.diff.mine[bad(p)].astype(np.float64), p.diff.theirs[bad(p)].astype(np.float64)
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-300)))


def absolute(p):
    a, b = p.diff.mine[bad(p)].astype(np.float64), p.diff.theirs[bad(p)].astype(np.float64)
    return float(np.max(np.abs(a - b)))


# ---- NaN ----


@row("max-nan", "MaxPool GlobalMaxPool ReduceMax ReduceMin Max Min Clip ScatterElements ScatterND Softmax LogSoftmax", NOBODY,
     "ONNX does not say what the largest of NaN and a number is. Tenon returns NaN, as NumPy does; ONNX Runtime depends on the order.")
def _(p):
    a, b = p.diff.mine, p.diff.theirs
    return differs(p) and any(has_nan(p, i) for i in range(len(p.node.input))) and (p.diff.output == 1 or bool(np.isnan(a[bad(p)]).all()))


@row("clip-infinite", "Clip", NOBODY,
     "Absent bounds 'default to numeric_limits::lowest() and numeric_limits::max()', but onnx.reference and Tenon leave infinities as they are.")
def _(p):
    return differs(p) and len([n for n in p.node.input if n]) < 3 and bool(np.isinf(p.diff.mine[bad(p)]).all())


@row("label-nan", "LabelEncoder", TENON, "'For key look-up, bit-wise comparison is used so even a float NaN can be mapped'.")
def _(p):
    return differs(p) and bool(np.isnan(p.array(0).reshape(-1)[bad(p).reshape(-1)]).all())


@row("range-wide", "Range", TENON, "'number_of_elements = max( ceil( (limit - start) / delta ) , 0 )', exact. ONNX Runtime computes it in double.")
def _(p):
    return p.kind == "differs" and p.array(0).dtype.kind == "i" and max(largest(p, 0), largest(p, 1)) > 2**53


@row("log-sum-exp-int", "ReduceLogSumExp", NOBODY, "ONNX does not say in which type the exponentials of integers are added. ONNX Runtime truncates each.")
def _(p):
    return differs(p) and is_int(p)


@row("arg-nan", "ArgMax ArgMin Hardmax TopK Unique NonMaxSuppression", NOBODY,
     "ONNX does not order NaN. Tenon takes it as the largest, and as the extreme of ArgMin too, as NumPy does.")
def _(p):
    return p.kind == "differs" and has_nan(p)


@row("sign-nan", "Sign", TENON, "'If input > 0, output 1. if input < 0, output -1. if input == 0, output 0.' None holds for NaN: it stays NaN, as in NumPy.")
def _(p):
    return differs(p) and bool(np.isnan(p.array(0)[bad(p)]).all())


# ---- empty sets and sizes ----


@row("reduce-empty-shape", "ReduceMean ReduceLogSumExp ReduceLogSum ReduceL1 ReduceL2 ReduceSum ReduceSumSquare ReduceProd ReduceMax ReduceMin", TENON,
     "'The resulting tensor has the same rank as the input if keepdims equals 1': every reduced axis has size 1. ONNX Runtime keeps some sizes of an empty input.")
def _(p):
    return p.kind == "differs" and empty(p)


@row("arg-empty", "ArgMax ArgMin", NOBODY, "ONNX does not say which element of none is the largest. Tenon refuses, as NumPy does. With other axes of size 0 ONNX Runtime keeps the size of the axis.")
def _(p):
    return empty(p)


@row("matmul-empty", "MatMul", TENON, "A product over 0 elements is 0. ONNX Runtime returns memory that nothing wrote.")
def _(p):
    return differs(p) and p.array(0).size == 0 and bool((p.diff.mine == 0).all())


@row("norm-mean-infinite", "LayerNormalization", NOBODY, "ONNX does not say what mean and deviation of elements with infinity are. Tenon's mean is infinite; ONNX Runtime's is NaN.")
def _(p):
    return differs(p) and p.diff.output > 0 and not np.isfinite(p.array(0)).all() and bool(np.isnan(p.diff.theirs[bad(p)]).all())


@row("squeeze-no-axes", "Squeeze", TENON, "'If axes is not provided, all the single dimensions will be removed': an empty axes is provided, and names none.")
def _(p):
    return p.kind == "differs" and p.array(1) is not None and p.array(1).size == 0


@row("nonzero-scalar", "NonZero", TENON, "'For scalar input, NonZero produces output shape (0, N) instead of (1, N)'.")
def _(p):
    return p.kind == "differs" and p.array(0).ndim == 0


@row("window-of-one", "HannWindow HammingWindow BlackmanWindow", NOBODY,
     "The function body divides 0 by 0 for a symmetric window of one point. Tenon returns 1, as PyTorch and SciPy do.")
def _(p):
    return differs(p) and int(p.array(0)) == 1 and p.attrs.get("periodic", 1) == 0


@row("slice-backward-end", "Slice", TENON,
     "'for negative stepping' ends are clamped 'to [-1, dims[axes[i]]-1]': an end of INT_MAX is the last element, so nothing is taken. ONNX Runtime goes to the first.")
def _(p):
    ends, steps = p.array(2), p.array(4)
    return p.kind == "differs" and bool(((steps < 0) & (ends >= 2**31 - 1)).any())


# ---- integers ----


@row("reduce-int-wide", "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceProd ReduceLogSum ReduceLogSumExp", TENON,
     "ONNX does not define integer overflow; Tenon wraps as NumPy does. ONNX Runtime adds integers as floats, which is wrong above 2^53 too.")
def _(p):
    if not (differs(p) and is_int(p)):
        return False
    power = 2 if p.op in ("ReduceL2", "ReduceSumSquare") else 1
    if p.op == "ReduceProd":
        exact = 1
        for v in p.array(0).reshape(-1):
            exact *= max(abs(int(v)), 1)
    else:
        exact = sum(abs(int(v)) ** power for v in p.array(0).reshape(-1))
    return exact > min(2**53, int(np.iinfo(p.diff.mine.dtype).max))


@row("fmod-wide", "Mod", TENON, "fmod=1 of integers is the remainder with the dividend's sign. ONNX Runtime computes it in double, wrong above 2^53.")
def _(p):
    return differs(p) and is_int(p) and p.attrs.get("fmod") == 1 and max(largest(p, 0), largest(p, 1)) > 2**53


@row("pow-int-overflow", "Pow", NOBODY, "ONNX does not define the overflow of an integer power. Tenon wraps; ONNX Runtime converts a double.")
def _(p):
    if not (differs(p) and is_int(p)):
        return False
    x, y, at = np.broadcast_arrays(p.array(0), p.array(1), bad(p))
    limit = np.iinfo(p.diff.mine.dtype)
    for b, e in zip(x[at].tolist(), y[at].tolist()):
        if e != e or (isinstance(e, float) and (b < 0 or abs(e) == float("inf"))) or (b == 0 and e < 0):
            continue  # NaN or infinity as an integer
        try:
            r = b**e if not isinstance(e, int) or abs(e) < 4096 else float("inf") * (b > 1 or b < -1) + 0
        except OverflowError:
            continue
        if limit.min <= r <= limit.max and abs(r) < 2**53:
            return False
    return True


@row("cast-out-of-range", "Cast CastLike Cast+Cast Cast+Cast+Cast", NOBODY,
     "'Conversion from float to integer: out of range values are undefined', NaN and infinities among them.")
def _(p):
    if not (differs(p) and (is_int(p) or p.diff.mine.dtype.kind == "b")):
        return False
    x = p.array(0)
    low, high = {"int4": (-8, 7), "uint4": (0, 15)}.get(p.out_dtype()) or (
        np.iinfo(p.diff.mine.dtype).min, np.iinfo(p.diff.mine.dtype).max)
    x = np.trunc(x[bad(p)].astype(np.float64))
    return x.dtype.kind == "f" and not bool(((x >= low) & (x <= high)).any())


# ---- one operator each ----


@row("where-zero-sign", "Where", TENON, "'Return elements, either from X or Y': a -0.0 stays -0.0. ONNX Runtime adds both selections.")
def _(p):
    a, b = p.diff.mine, p.diff.theirs
    return p.kind == "differs" and bool((a == b).all() | ((a == b) | ((a != a) & (b != b))).all())


@row("gather-strings", "Gather", TENON, "ONNX Runtime copies only the first string of each slice where the data is an initializer.")
def _(p):
    return differs(p) and p.dtype(0) == "string" and bool((p.diff.theirs[bad(p)] == "").all())


@row("window-double", "HannWindow HammingWindow BlackmanWindow", TENON, "ONNX Runtime computes windows of type double with constants of type float.")
def _(p):
    return differs(p) and p.diff.mine.dtype == np.float64 and absolute(p) < 1e-6


@row("double-as-float", "HardSwish Gelu Attention DFT STFT GroupNormalization LayerNormalization MeanVarianceNormalization", NOBODY,
     "The function body has constants, or a stage, of type float. Tenon computes type double in double.")
def _(p):
    return differs(p) and p.diff.mine.dtype == np.float64 and absolute(p) < 1e-6 * max(1.0, float(np.nanmax(np.abs(p.diff.mine))))


@row("shrink-double", "Shrink", TENON, "'y = x + bias' for type double. ONNX Runtime computes it in float, which overflows.")
def _(p):
    return differs(p) and p.diff.mine.dtype == np.float64 and bool((p.diff.theirs[bad(p)].astype(np.float32) == p.diff.mine[bad(p)].astype(np.float32)).all() or absolute(p) < 1e-6 * max(1.0, float(np.nanmax(np.abs(p.array(0))))))


@row("affine-grid-one", "AffineGrid", NOBODY, "With align_corners the corners of an axis of size 1 are 2 / 0 apart in the function body.")
def _(p):
    return differs(p) and p.attrs.get("align_corners") == 1 and 1 in [int(d) for d in p.array(1)[2:]]


@row("string-split-empty", "StringSplit", TENON,
     "'Splitting with a delimiter' follows Python: ''.split(',') is ['']. ONNX Runtime counts 0 substrings.")
def _(p):
    return p.kind == "differs" and bool(p.attrs.get("delimiter")) and "" in p.array(0).reshape(-1).tolist()


@row("tree-base", "TreeEnsembleRegressor", TENON, "'Base values for regression, added to final prediction after applying aggregate function', for a target without leaves too.")
def _(p):
    return differs(p) and ("base_values" in p.attrs or "base_values_as_tensor" in p.attrs) and bool(np.isin(p.diff.theirs[bad(p)], (0, 0.5)).all())


@row("dynamic-quantize-range", "DynamicQuantizeLinear", NOBODY, "ONNX does not say what the range of NaN or of values further apart than a float reaches is.")
def _(p):
    x = p.array(0).astype(np.float64)
    return p.kind == "differs" and (not np.isfinite(x).all() or x.max() - x.min() > 3.4e38)


@row("mvn-narrow", "MeanVarianceNormalization", NOBODY,
     "The function body takes the root of E[x^2] - E[x]^2, which rounding makes 0 or negative where all elements are equal.")
def _(p):
    return differs(p) and bool(np.isnan(p.diff.theirs[bad(p)]).all() and np.isfinite(p.diff.mine[bad(p)]).all() and np.isfinite(p.array(0)).all())


@row("rnn-affine", "RNN GRU LSTM", NOBODY,
     "'Default values are the same as of corresponding ONNX operators': there are no operators Affine and ScaledTanh. Tenon takes 1 and 0, ONNX Runtime 0.")
def _(p):
    return differs(p) and {b"Affine", b"ScaledTanh"} & set(p.attrs.get("activations", [])) and "activation_alpha" not in p.attrs


@row("rnn-thresholded", "RNN GRU LSTM", TENON,
     "'Default values are the same as of corresponding ONNX operators': alpha of ThresholdedRelu is 1. ONNX Runtime takes 0.")
def _(p):
    return differs(p) and b"ThresholdedRelu" in p.attrs.get("activations", []) and "activation_alpha" not in p.attrs


@row("resize-integers", "Resize", NOBODY, "ONNX does not say how an interpolated value becomes an integer: Tenon truncates, as a cast would.")
def _(p):
    return differs(p) and is_int(p) and absolute(p) <= max(1, largest(p) * 2.0**-20) and p.attrs.get("mode") in (b"linear", b"cubic")


@row("resize-infinite", "Resize", NOBODY, "ONNX does not say whether a neighbour of weight 0 counts. In ONNX Runtime and in Tenon's loops 0 times infinity makes NaN; the interpreter leaves it out.")
def _(p):
    one = p.kind in ("differs", "compiled differs", "loops differs")
    return one and not np.isfinite(p.array(0)).all() and bool(np.isnan(p.diff.theirs[bad(p)]).all())


@row("resize-same-size", "Resize", TENON,
     "Coordinates follow from roi and scales ('x_original = x_resized / scale'), also where input and output have one size. ONNX Runtime copies the input.")
def _(p):
    return differs(p) and p.diff.theirs.shape == p.array(0).shape and bool(
        np.array_equal(p.diff.theirs, p.array(0), equal_nan=p.diff.theirs.dtype.kind == "f"))


@row("reduce-log-int", "ReduceLogSum ReduceLogSumExp", NOBODY, "The logarithm of an integer sum that is 0 or negative is no integer: 'out of range values are undefined'.")
def _(p):
    return differs(p) and is_int(p) and bool((p.diff.theirs[bad(p)] == np.iinfo(p.diff.theirs.dtype).min).all())


@row("pool-valid-ceil", "LpPool MaxPool AveragePool", TENON,
     "With auto_pad=VALID, 'output_spatial_shape[i] = ceil((input_spatial_shape[i] - ((kernel_spatial_shape[i] - 1) * dilations[i] + 1) + 1) / strides_spatial_shape[i])' in ceil_mode too: no window is cut off.")
def _(p):
    return p.kind == "differs" and p.attrs.get("auto_pad") == b"VALID" and p.attrs.get("ceil_mode") == 1


@row("pool-same-dilated", "LpPool MaxPool AveragePool", TENON,
     "With auto_pad=SAME, 'output_spatial_shape[i] = ceil(input_spatial_shape[i] / strides_spatial_shape[i])', whatever the dilations are. ONNX Runtime pads for a window without them.")
def _(p):
    return p.kind == "differs" and p.attrs.get("auto_pad", b"")[:4] == b"SAME" and max(p.attrs.get("dilations", [1])) > 1


@row("conv-transpose-same", "ConvTranspose", TENON,
     "With auto_pad=SAME, 'output_shape[i] = input_shape[i] * strides[i]', also where a kernel smaller than the stride reaches less far.")
def _(p):
    k = p.array(1).shape[2:]
    d, s = p.attrs.get("dilations", [1] * len(k)), p.attrs.get("strides", [1] * len(k))
    short = any((size - 1) * e + 1 < step for size, e, step in zip(k, d, s))
    return p.kind == "differs" and p.attrs.get("auto_pad", b"")[:4] == b"SAME" and short


@row("cast-narrow-rounds", "Cast CastLike Cast+Cast Cast+Cast+Cast", NOBODY, "ONNX does not say how a float becomes a 4-bit integer. Tenon truncates, as for wider ones; ONNX Runtime rounds.")
def _(p):
    to = [a.i for n in p.case.model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"]
    return differs(p) and p.array(0).dtype.kind == "f" and (21 in to or 22 in to)


@row("cast-to-string", "Cast CastLike Cast+Cast Cast+Cast+Cast", NOBODY, "ONNX does not fix the text of a number or a boolean. Tenon writes what NumPy writes.")
def _(p):
    if not (differs(p) and p.diff.mine.dtype.kind in "OU"):
        return False
    names = {"True": "1", "False": "0", "INF": "inf", "-INF": "-inf", "NaN": "nan"}
    pairs = [(names.get(str(x), str(x)), names.get(str(y), str(y))) for x, y in zip(p.diff.mine[bad(p)], p.diff.theirs[bad(p)])]
    t = values.numpy_of(p.dtype(0))
    same = lambda x, y: x == y or np.array(float(x)).astype(t) == np.array(float(y)).astype(t) or abs(float(x) - float(y)) <= 1e-5 * abs(float(x))
    return all(same(x, y) for x, y in pairs)


@row("shrink-wide", "Shrink", TENON, "'y = x - bias' of an integer. ONNX Runtime computes it in float.")
def _(p):
    return differs(p) and is_int(p) and largest(p) > 2**24


@row("q-ties", "QLinearAdd QLinearMul", NOBODY,
     "The documentation has no rounding. Tenon rounds and adds the zero point, as QuantizeLinear does; ONNX Runtime adds it before: ties differ by one.")
def _(p):
    return differs(p) and absolute(p) <= 1


@row("norm-of-equal", "InstanceNormalization GroupNormalization LayerNormalization MeanVarianceNormalization", NOBODY,
     "x - mean is 0 where all elements are equal. ONNX Runtime computes scale * x - scale * mean, whose rounding error is divided by sqrt(epsilon).")
def _(p):
    x = p.array(0).astype(np.float64)
    return differs(p) and absolute(p) < 2e-4 * max(1.0, float(np.abs(x[np.isfinite(x)]).max()))


@row("overflow-inside", "LayerNormalization InstanceNormalization GroupNormalization BatchNormalization RMSNormalization LpNormalization MeanVarianceNormalization "
     "ReduceL2 ReduceSumSquare ReduceSum ReduceMean ReduceL1 ReduceLogSumExp ReduceProd ReduceLogSum GlobalLpPool LpPool LRN MatMul Gemm Conv ConvTranspose Einsum AveragePool "
     "GlobalAveragePool CumSum CumProd Sum Mean Softmax LogSoftmax Resize Pow ScatterElements ScatterND SkipLayerNormalization FusedMatMul", NOBODY,
     "A sum or a square inside overflows in the type of the elements. Tenon's interpreter computes in double; ONNX does not say in which type.")
def _(p):
    limit = {2: 200.0, 4: 1e17, 8: 1e150}[p.diff.mine.dtype.itemsize] if p.diff.mine.dtype.kind == "f" else None
    reach = max((float(np.abs(x[np.isfinite(x)].astype(np.float64)).max()) for x in p.arrays() if x.dtype.kind == "f" and np.isfinite(x).any()), default=0)
    return differs(p) and limit is not None and reach > limit


@row("quantize-half", "QuantizeLinear", TENON,
     "'precision: the precision of the division operation between x and y_scale. If not provided, it will be the same as the type of y_scale.' ONNX Runtime divides float16 in float.")
def _(p):
    return differs(p) and is_int(p) and p.array(1).dtype == np.float16 and absolute(p) <= 1


@row("quantize-infinite", "QuantizeLinear", TENON, "'saturate((x / y_scale) + y_zero_point)': infinity saturates. ONNX Runtime converts it to an integer first; ONNX does not say what NaN becomes.")
def _(p):
    return differs(p) and is_int(p) and not np.isfinite(p.array(0)[bad(p)]).any()


@row("softmax-infinite", "Softmax LogSoftmax", NOBODY, "inf - inf is NaN: with infinity in a row ONNX does not say what the others are.")
def _(p):
    return differs(p) and bool(np.isposinf(p.array(0)).any()) and bool(np.isnan(p.diff.mine[bad(p)]).all())


@row("einsum-int-wide", "Einsum", TENON, "Sums of integers are exact and wrap. ONNX Runtime adds them as floats.")
def _(p):
    return differs(p) and is_int(p) and max(largest(p, i) for i in range(len(p.node.input))) > 2**24


@row("attention-mask-causal", "Attention", NOBODY,
     "With past keys onnx.reference and Tenon let query i see key j where j <= i; ONNX Runtime adds the number of past keys.")
def _(p):
    return differs(p) and p.attrs.get("is_causal") == 1 and p.array(4) is not None


@row("resize-antialias-crop", "Resize", NOBODY, "ONNX does not say how antialiasing and the extrapolation value of tf_crop_and_resize go together.")
def _(p):
    return differs(p) and p.attrs.get("antialias") == 1 and p.attrs.get("coordinate_transformation_mode") == b"tf_crop_and_resize"


@row("clip-nan-bound", "Clip", TENON, "'equivalent to Min(max, Max(input, min))', which is NaN where a bound is NaN.")
def _(p):
    return differs(p) and (has_nan(p, 1) or has_nan(p, 2))


@row("cast-string-bool", "Cast CastLike", NOBODY, "ONNX does not say which strings are true. Tenon reads a number and asks whether it is 0; ONNX Runtime reads an integer.")
def _(p):
    return differs(p) and p.dtype(0) == "string" and p.out_dtype() == "bool"


@row("cast-negative-zero", "Cast CastLike", TENON, "-0.0 equals 0, so it is False. ONNX Runtime compares the bits of 8-bit floats.")
def _(p):
    return differs(p) and p.out_dtype() == "bool" and bool((p.array(0)[bad(p)] == 0).all())


@row("resize-antialias-int8", "Resize", TENON, "Interpolated values of int8 are negative where the elements are. ONNX Runtime clips them as uint8.")
def _(p):
    return differs(p) and p.attrs.get("antialias") == 1 and p.dtype(0) == "int8" and bool((p.diff.mine[bad(p)] < 0).all())


@row("q-matmul-half", "QLinearMatMul", NOBODY, "ONNX does not say in which type scales of type float16 are multiplied.")
def _(p):
    return differs(p) and p.array(1).dtype == np.float16 and absolute(p) <= 1


@row("max-of-infinite", "GlobalMaxPool MaxPool", TENON, "The largest of elements that are all -inf is -inf. ONNX Runtime begins with the lowest finite value.")
def _(p):
    return differs(p) and bool(np.isneginf(p.diff.mine[bad(p)]).all())


# ---- compiled code ----


def flushed(x):
    """Subnormals become zeros of their sign."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    with np.errstate(all="ignore"):
        tiny = np.finfo(np.float32 if x.dtype == np.float16 else x.dtype).tiny
        return np.where(np.abs(x) < tiny, np.copysign(np.zeros_like(x), x), x)


@row("compiled-subnormal", "*", "documented",
     "docs/codegen.md: 'The runtime flushes subnormals to zero'. The interpreter gives the same result when they are zeros.")
def _(p):
    import compare
    import engines

    if p.kind != "compiled differs":
        return False
    case = p.case
    arrays = p.arrays() + [p.diff.mine]
    if not any((flushed(x) != x).any() for x in arrays if x.dtype.kind == "f" and not np.isnan(x).all()):
        return False
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for t in model.graph.initializer:
        x = onnx.numpy_helper.to_array(t)
        if x.dtype.kind == "f" and x.size:
            t.CopyFrom(onnx.numpy_helper.from_array(flushed(x), t.name))
    out = engines.run_interp(model.SerializeToString(), {n: flushed(x) for n, x in case.feeds.items()})[p.diff.output]
    a, b = flushed(out), flushed(p.diff.theirs)
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind == "f":
            same |= np.abs(a.astype(np.float64) - b.astype(np.float64)) <= 1e-3 * np.abs(b.astype(np.float64))
    return bool(same.all())
