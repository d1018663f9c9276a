"""Known differences: one row each.

A row has the operator, who is right, the sentence that decides it, and a condition.  The condition sees the one node that
differs (`isolate` in check.py finds it), its attributes and its inputs.  It returns which elements it explains, as a mask of
the result, or whether it explains a difference that is not one of elements.  All elements that differ must be explained, so
that a row hides nothing beside it.  Where the specification fixes a value, the row asks for that value of Tenon's result.

`quote`: words of the operator's documentation in the package onnx, which `check_quotes` looks up.
"""

import math
from fractions import Fraction

import numpy as np
import onnx

import engines
import oracle
import values

ROWS = []
NOBODY = "unspecified"
TENON = "Tenon"
ORT = ("differs",)
LOWERED = ("compiled differs", "loops differs")


class Row:
    def __init__(self, key, ops, right, why, quote, kinds, when):
        self.key, self.ops, self.right, self.why, self.quote = key, set(ops.split()), right, why, quote
        self.kinds, self.when = kinds, when


def row(key, ops, right, why, quote=None, kinds=ORT):
    def enter(fn):
        ROWS.append(Row(key, ops, right, why, quote, kinds, fn))
        return fn

    return enter


def find(problem):
    """The rows that explain a problem together, or None."""
    if problem.carried is not None:
        return problem.carried + [CARRIED]
    found, left = [], None
    for r in ROWS:
        if problem.kind not in r.kinds or not (problem.op in r.ops or "*" in r.ops):
            continue
        try:
            said = r.when(problem)
            if said is None or not np.any(said):
                continue
            if problem.diff is None or problem.diff.bad is None:
                return [r]
            left = problem.diff.bad if left is None else left
            mask = np.broadcast_to(np.asarray(said, bool), left.shape)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError, engines.Refused):
            continue
        if (left & mask).any():
            found.append(r)
            left = left & ~mask
            if not left.any():
                return found
    return None


def check_quotes():
    """Rows whose words are not in the documentation of their first operator."""
    wrong = []
    for r in ROWS:
        if r.quote and not any(_words(r.quote) in text for text in _documentation(sorted(r.ops))):
            wrong.append(r.key)
    return wrong


def _words(text):
    return " ".join(text.split())


def _documentation(ops):
    for s in onnx.defs.get_all_schemas_with_history():
        if s.name in ops:
            yield _words(s.doc or "")
            yield from (_words(a.description or "") for a in s.attributes.values())
            yield from (_words(i.description or "") for i in list(s.inputs) + list(s.outputs))


# ---- what rows ask ----


def elements(p):
    """Whether elements differ, not shapes or types."""
    return p.diff is not None and p.diff.bad is not None


def has_nan(p, i=0):
    x = p.array(i)
    return x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any())


def is_int(p):
    return elements(p) and p.diff.mine.dtype.kind in "iu"


def is_float(p):
    return elements(p) and p.diff.mine.dtype.kind == "f"


def largest(p, i=0):
    return max((abs(int(v)) for v in p.array(i).reshape(-1)), default=0)


def gap(p):
    """How far apart the results are, as double."""
    with np.errstate(all="ignore"):
        return np.abs(p.diff.mine.astype(np.float64) - p.diff.theirs.astype(np.float64))


def same(a, b, share=0.0):
    """Where two arrays agree: in class, and within a share of the value."""
    a, b = np.asarray(a), np.asarray(b)
    with np.errstate(all="ignore"):
        equal = (a == b) | ((a != a) & (b != b))
        if share and a.dtype.kind == "f":
            wide, other = a.astype(np.float64), np.asarray(b, np.float64)
            equal |= np.isfinite(wide) & np.isfinite(other) & (np.abs(wide - other) <= share * np.abs(other))
    return equal


def again(p, change):
    """The interpreter's result when `change` is applied to every array of the model."""
    model = onnx.ModelProto()
    model.CopyFrom(p.case.model)
    for t in model.graph.initializer:
        x = onnx.numpy_helper.to_array(t)
        t.CopyFrom(onnx.numpy_helper.from_array(np.asarray(change(x), x.dtype), t.name))
    feeds = {n: np.asarray(change(np.asarray(x)), np.asarray(x).dtype) for n, x in p.case.feeds.items()}
    try:
        return np.asarray(engines.run_interp(model.SerializeToString(), feeds)[p.diff.output])
    except engines.Refused:
        return None


def rephrased(p, change=None, arrays=None):
    """The case with other attributes of the node (None: without one), or with `arrays` applied to its inputs."""
    import reduce

    model = onnx.ModelProto()
    model.CopyFrom(p.case.model)
    node = next(n for n in model.graph.node if n.op_type == p.op)
    for name, value in (change or {}).items():
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if value is not None:
            node.attribute.append(onnx.helper.make_attribute(name, value))
    feeds = p.case.feeds
    if arrays:
        feeds = {n: arrays(np.asarray(x)).astype(np.asarray(x).dtype) for n, x in feeds.items()}
        for t in model.graph.initializer:
            x = onnx.numpy_helper.to_array(t)
            t.CopyFrom(onnx.numpy_helper.from_array(arrays(x).astype(x.dtype), t.name))
    return reduce.copy_with(p.case, model, feeds)


def in_ort(p, change=None, arrays=None):
    """The result of ONNX Runtime for the rephrased case."""
    case = rephrased(p, change, arrays)
    return np.asarray(engines.run_ort(case.model.SerializeToString(), case.feeds)[p.diff.output])


def as_rephrased(p, change):
    """Where Tenon's result is what ONNX Runtime gives for the node with other attributes, but for what other rows explain."""
    import check
    import compare
    case = rephrased(p, change)
    mine = engines.run_interp(p.case.model.SerializeToString(), p.case.feeds)
    d = compare.compare(case, mine, engines.run_ort(case.model.SerializeToString(), case.feeds), engines.run_interp, judge=check.judge_of(case, engines.run_ort))
    if d is None or find(check.Problem(case, "differs", str(d), d)):
        return True
    return ~d.bad if elements(p) and d.bad is not None and d.bad.shape == p.diff.bad.shape else False


def window(p):
    """Sizes of the input, extents of the window with its dilations, and strides."""
    k = p.attrs.get("kernel_shape") or p.array(1).shape[2:]
    d, s = p.attrs.get("dilations", [1] * len(k)), p.attrs.get("strides", [1] * len(k))
    return p.array(0).shape[2:], [(a - 1) * e + 1 for a, e in zip(k, d)], s


def split_pads(p, totals):
    """Pads of both ends for auto_pad: none where the formula is below 0."""
    totals = [max(t, 0) for t in totals]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return more + less if p.attrs["auto_pad"] == b"SAME_LOWER" else less + more


def same_pads(p):
    """The attributes that say what auto_pad = SAME_* of a window is by its formula."""
    sizes, extents, strides = window(p)
    pads = split_pads(p, [(-(-n // s) - 1) * s + e - n for n, e, s in zip(sizes, extents, strides)])
    return {"auto_pad": None, "pads": pads, "ceil_mode": None}


def as_reference(p):
    """Where onnx.reference, in double, agrees with Tenon's result to some units of it and of the largest operand; nowhere where it
    does not run the model."""
    want, mine = oracle.reference_in_double(p), p.diff.mine
    if want is None or want.shape != mine.shape:
        return np.zeros(mine.shape, bool)
    finite = [np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64)) for x in p.arrays() if x.dtype.kind == "f" and x.size]
    unit = 16 * float(np.finfo(mine.dtype).eps)
    with np.errstate(all="ignore"):
        near = np.abs(mine.astype(np.float64) - want) <= unit * max([1.0] + [float(x.max()) for x in finite])
    return same(mine, want, unit) | near


def nan_of_nan(p):
    """Where Tenon's result is NaN, and is not when the operands have 1 for NaN."""
    plain = again(p, lambda x: np.where(np.isnan(x), x.dtype.type(1), x) if x.dtype.kind == "f" else x)
    return np.isnan(p.diff.mine) & ~np.isnan(plain)


def reduced(p):
    """The axes of a reduction, and its operand."""
    x = p.array(0)
    axes = p.attrs.get("axes")
    if axes is None and p.array(1) is not None:
        axes = p.array(1).tolist()
    if not axes:
        axes = [] if p.attrs.get("noop_with_empty_axes") else range(x.ndim)
    return x, tuple(sorted(a % x.ndim for a in axes)), bool(p.attrs.get("keepdims", 1))


def limits(p):
    """The ends of the result's integer type, which a wider one may carry."""
    info = np.iinfo(p.diff.mine.dtype)
    return {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}.get(p.out_dtype()) or (int(info.min), int(info.max))


def wrapped(value, dtype):
    info = np.iinfo(dtype)
    return (int(value) - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min)


def each(fn, *arrays):
    """A function of Python numbers over broadcast arrays."""
    arrays = np.broadcast_arrays(*arrays)
    out = np.empty(arrays[0].shape, object)
    flat, parts = out.reshape(-1), [a.reshape(-1).tolist() for a in arrays]
    for i, args in enumerate(zip(*parts)):
        flat[i] = fn(*args)
    return out


CARRIED = Row("carried-on", "", NOBODY, "No node is wrong: on the operands that it had, each agrees or has a row. A later node makes more of a "
              "rounding, which `carried` in check.py finds out.", None, (), None)
ROWS.append(CARRIED)


# ---- NaN ----


@row("max-nan", "MaxPool GlobalMaxPool ReduceMax ReduceMin Max Min Clip ScatterElements ScatterND", NOBODY,
     "ONNX does not say what the largest of NaN and a number is. Tenon returns NaN, as NumPy does; ONNX Runtime depends on the order.")
def _(p):
    if p.diff.output == 1:  # MaxPool: where the largest lies
        return elements(p) and np.isnan(np.asarray(engines.run_interp(p.case.model.SerializeToString(), p.case.feeds)[0]))
    return is_float(p) and nan_of_nan(p)


@row("nan-operand", "Softmax LogSoftmax ReduceLogSumExp ReduceLogSum ReduceL1 ReduceL2 LpNormalization", TENON,
     "The formula of NaN is NaN. ONNX Runtime leaves NaN out of the largest element, or of the sum.")
def _(p):
    return is_float(p) and nan_of_nan(p)


@row("softmax-infinite", "Softmax LogSoftmax", NOBODY, "Infinity over infinity: ONNX does not say what a row with infinity becomes. Tenon and onnx.reference return NaN.",
     "Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)")
def _(p):
    x, axis = p.array(0), p.attrs.get("axis", -1)
    return is_float(p) and np.isnan(p.diff.mine) & np.isposinf(x).any(axis=axis, keepdims=True)


@row("clip-infinite", "Clip", NOBODY,
     "The text has the ends of the type for absent bounds; the function body and onnx.reference have none. Tenon leaves infinities as they are.",
     "They default to numeric_limits::lowest() and numeric_limits::max(), respectively.")
def _(p):
    x, y = p.array(0), p.diff.mine
    return is_float(p) and (x == y) & ((np.isposinf(y) & (p.array(2) is None)) | (np.isneginf(y) & (p.array(1) is None)))


@row("clip-nan-bound", "Clip", TENON, "NaN where a bound is NaN.", "Thus, this is equivalent to 'Min(max, Max(input, min))'.")
def _(p):
    return is_float(p) and (has_nan(p, 1) or has_nan(p, 2)) and np.isnan(p.diff.mine)


@row("label-nan", "LabelEncoder", TENON, "NaN is found among the keys.", "For key look-up, bit-wise comparison is used so even a float NaN can be mapped")
def _(p):
    listed = lambda stem: next((list(v) if isinstance(v, (list, tuple)) else onnx.numpy_helper.to_array(v).tolist()
                                for n, v in p.attrs.items() if n.startswith(stem)), [])
    text = lambda v: v.decode() if isinstance(v, bytes) else v
    value = [text(v) for k, v in zip(listed("keys_"), listed("values_")) if k != k][0]
    mine = np.asarray(p.diff.mine).reshape(p.diff.bad.shape)
    hit = mine == str(value) if mine.dtype.kind in "OU" else same(mine, np.full(mine.shape, value, mine.dtype))
    return elements(p) and np.isnan(p.array(0)).reshape(p.diff.bad.shape) & hit


@row("arg-nan", "Unique NonMaxSuppression", NOBODY, "ONNX does not order NaN. Tenon takes it as the largest, as NumPy does.")
def _(p):
    return has_nan(p)


@row("sign-nan", "Sign", NOBODY, "No case holds for NaN. Tenon leaves it NaN, as NumPy does.", "If input > 0, output 1. if input < 0, output -1. if input == 0, output 0.")
def _(p):
    return is_float(p) and np.isnan(p.array(0)) & np.isnan(p.diff.mine)


# ---- empty sets and sizes ----


@row("range-wide", "Range", TENON, "Exact. ONNX Runtime computes the number of elements in double.", "number_of_elements = max( ceil( (limit - start) / delta ) , 0 )")
def _(p):
    start, limit, delta = (int(p.array(i)) for i in range(3))
    count = max(-((start - limit) // delta), 0)
    return p.array(0).dtype.kind == "i" and max(abs(start), abs(limit)) > 2**53 and p.diff.shapes[0] == (count,)


@row("reduce-empty-shape", "ReduceMean ReduceLogSumExp ReduceLogSum ReduceL1 ReduceL2 ReduceSum ReduceSumSquare ReduceProd ReduceMax ReduceMin", TENON,
     "Every reduced axis has size 1. ONNX Runtime keeps some sizes of an empty input.", "tensor has the same rank as the input if `keepdims` equals 1.")
def _(p):
    x, axes, keep = reduced(p)
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes)
    return x.size == 0 and p.diff.shapes[0] == shape and not elements(p)


@row("reduce-empty", "ReduceMean ReduceLogSumExp ReduceLogSum ReduceMax ReduceMin", NOBODY,
     "The mean of no element is not defined, and integers have no infinity. Tenon gives NaN and the infinities that the specification names.",
     "Reduction over an empty set of values yields minus infinity (if supported by the datatype) or undefined otherwise.")
def _(p):
    want = {"ReduceMean": np.nan, "ReduceMin": np.inf}.get(p.op, -np.inf)
    return elements(p) and p.array(0).size == 0 and (is_int(p) or same(p.diff.mine, np.full(p.diff.mine.shape, want)))


@row("arg-empty", "ArgMax ArgMin", NOBODY, "ONNX does not say which element of none is the largest. Tenon refuses, as NumPy does.", kinds=("refused",))
def _(p):
    x = p.array(0)
    return x.shape[p.attrs.get("axis", 0)] == 0


@row("arg-empty-shape", "ArgMax ArgMin", TENON, "The axis has size 1 where another one is empty. ONNX Runtime keeps its size.",
     "The resulting tensor has the same rank as the input if keepdims equals 1.")
def _(p):
    x, axis = p.array(0), p.attrs.get("axis", 0) % p.array(0).ndim
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape) if i != axis or p.attrs.get("keepdims", 1))
    return x.size == 0 and p.diff.shapes[0] == shape


@row("matmul-empty", "MatMul", TENON, "A product over 0 elements is 0, as in numpy.matmul. ONNX Runtime returns memory that nothing wrote.",
     "Matrix product that behaves like [numpy.matmul]")
def _(p):
    return elements(p) and p.array(0).shape[-1] == 0 and p.diff.mine == 0


@row("squeeze-no-axes", "Squeeze", TENON, "An empty axes is provided, and names none.", "If `axes` is not provided, all the single dimensions will be removed from the shape.")
def _(p):
    return p.array(1) is not None and p.array(1).size == 0 and p.diff.shapes[0] == p.array(0).shape


@row("nonzero-scalar", "NonZero", TENON, "ONNX Runtime returns one row.", "for scalar input, NonZero produces output shape (0, N) instead of (1, N)")
def _(p):
    return p.array(0).ndim == 0 and p.diff.shapes[0] == (0, int(bool(p.array(0))))


@row("slice-backward-end", "Slice", TENON, "An end of INT_MAX is the last element, so nothing is taken. ONNX Runtime goes to the first.",
     "for negative stepping it is clamped to `[-1, dims[axes[i]]-1]`.")
def _(p):
    ends, steps = p.array(2), p.array(4)
    return bool(((steps < 0) & (ends >= 2**31 - 1)).any()) and 0 in p.diff.shapes[0]


@row("string-split-empty", "StringSplit", TENON, "Python's ''.split(',') is ['']. ONNX Runtime counts 0 substrings.", "Consecutive delimiters are not grouped together and are deemed to delimit empty strings")
def _(p):
    by, most = p.attrs.get("delimiter", b"").decode(), p.attrs.get("maxsplit", -1)
    parts = [str(s).split(by or None, -1 if most is None else most) for s in p.array(0).reshape(-1).tolist()]
    want = np.array([len(x) for x in parts]).reshape(p.array(0).shape)
    if p.diff.output == 0:
        width = int(want.max())
        want = np.array([x + [""] * (width - len(x)) for x in parts]).reshape(want.shape + (width,))
    return bool(by) and p.diff.mine.size == want.size and np.array_equal(np.asarray(p.diff.mine).reshape(want.shape).astype(want.dtype), want)


@row("pool-valid-ceil", "LpPool MaxPool AveragePool", TENON, "No window is cut off with auto_pad=VALID, in ceil_mode too.",
     "VALID: output_spatial_shape[i] = ceil((input_spatial_shape[i] - ((kernel_spatial_shape[i] - 1) * dilations[i] + 1) + 1) / strides_spatial_shape[i])")
def _(p):
    k = p.attrs["kernel_shape"]
    d, s = p.attrs.get("dilations", [1] * len(k)), p.attrs.get("strides", [1] * len(k))
    shape = tuple(-(-(n - ((a - 1) * e + 1) + 1) // t) for n, a, e, t in zip(p.array(0).shape[2:], k, d, s))
    return p.attrs.get("auto_pad") == b"VALID" and p.attrs.get("ceil_mode") == 1 and not elements(p) and p.diff.shapes[0][2:] == shape


@row("pool-same-dilated", "LpPool MaxPool AveragePool", TENON, "ONNX Runtime pads for a window without dilations. With these pads it gives Tenon's result.",
     "pad_shape[i] = (output_spatial_shape[i] - 1) * strides_spatial_shape[i] + ((kernel_spatial_shape[i] - 1) * dilations[i] + 1) - input_spatial_shape[i]")
def _(p):
    return p.attrs.get("auto_pad", b"")[:4] == b"SAME" and max(p.attrs.get("dilations", [1])) > 1 and as_rephrased(p, same_pads(p))


@row("pool-same-negative", "LpPool MaxPool AveragePool Conv", NOBODY,
     "Where strides leave elements out, the formula for SAME is below 0, which a pad cannot be. Tenon pads nothing; ONNX Runtime begins in the middle of what is left out.",
     "it can take any value greater than or equal to 0.")
def _(p):
    short = any((-(-n // s) - 1) * s + e < n for n, e, s in zip(*window(p)))
    return p.attrs.get("auto_pad", b"")[:4] == b"SAME" and short and as_rephrased(p, same_pads(p))


@row("max-pool-nothing", "MaxPool", NOBODY,
     "A window over padding alone selects no element, so that it has no index. Tenon gives -1; ONNX Runtime adds the channel's offset to that.",
     "The values in indices of are the indices of the selected values during pooling.")
def _(p):
    return is_int(p) and p.diff.mine.dtype == np.int64 and p.diff.mine == -1


@row("conv-transpose-same", "ConvTranspose", TENON, "Also where a kernel smaller than the stride reaches less far: then zeros follow, as after output_padding.",
     "output_shape[i] = input_shape[i] * strides[i]")
def _(p):
    total = [e - s for n, e, s in zip(*window(p))]
    change = {"auto_pad": None, "pads": split_pads(p, total), "output_padding": [max(-t, 0) for t in total]}
    return p.attrs.get("auto_pad", b"")[:4] == b"SAME" and min(total) < 0 and as_rephrased(p, change)


# ---- integers ----


@row("reduce-int-wide", "ReduceSum ReduceL1 ReduceSumSquare ReduceProd", TENON,
     "Sums and products of integers wrap, as NumPy's do. ONNX Runtime adds integers as floats, which is wrong above 2^53 too.")
def _(p):
    x, axes, keep = reduced(p)
    x = x.astype(object)
    x = {"ReduceL1": lambda: each(abs, x), "ReduceSumSquare": lambda: x * x}.get(p.op, lambda: x)()
    total = (np.prod if p.op == "ReduceProd" else np.sum)(x, axis=axes, keepdims=keep)
    want = each(lambda v: wrapped(v, p.diff.mine.dtype), np.asarray(total, object))
    return is_int(p) and p.diff.mine.astype(object) == want


@row("reduce-int-mean", "ReduceMean ReduceL2 ReduceLogSum", NOBODY,
     "ONNX does not say what the mean, norm or logarithm of integers is whose sum overflows, or is beyond 2^53.")
def _(p):
    x, axes, keep = reduced(p)
    power = 2 if p.op == "ReduceL2" else 1
    exact = np.sum(each(lambda v: abs(v) ** power, x.astype(object)), axis=axes, keepdims=keep)
    return is_int(p) and np.asarray(exact > min(2**53, int(np.iinfo(p.diff.mine.dtype).max)), bool)


@row("log-sum-exp-int", "ReduceLogSumExp", NOBODY, "ONNX does not say in which type the exponentials of integers are added. ONNX Runtime truncates each.")
def _(p):
    x, axes, keep = reduced(p)
    x = x.astype(np.float64)
    top = np.max(x, axis=axes, keepdims=True)
    want = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=keep)) + np.max(x, axis=axes, keepdims=keep)
    near = lambda v: np.abs(p.diff.mine.astype(np.float64) - np.trunc(v)) <= 1e-12 * np.abs(v)
    info = np.iinfo(p.diff.mine.dtype)
    outside = ~((want > float(info.min)) & (want < float(info.max)))
    return is_int(p) and (near(want) | near(want * (1 + 1e-12)) | near(want * (1 - 1e-12)) | outside)


@row("reduce-log-int", "ReduceLogSum ReduceLogSumExp", NOBODY, "The logarithm of an integer sum that is 0 or negative is no integer.",
     "Reduction over an empty set of values yields minus infinity (if supported by the datatype) or undefined otherwise.")
def _(p):
    return is_int(p) and p.diff.theirs == np.iinfo(p.diff.theirs.dtype).min


@row("fmod-wide", "Mod", TENON, "The remainder with the dividend's sign. ONNX Runtime computes it in double, wrong above 2^53.",
     "The result is exactly the value `x - n * y`, where `n` is `x / y` with its fractional part truncated.")
def _(p):
    want = each(lambda a, b: int(math.copysign(abs(a) % abs(b), a)) if abs(a) < 2**53 else (abs(a) % abs(b)) * (1 if a >= 0 else -1) if b else None,
                p.array(0).astype(object), p.array(1).astype(object))
    return is_int(p) and p.attrs.get("fmod") == 1 and p.diff.mine.astype(object) == want


@row("pow-int-overflow", "Pow", NOBODY, "ONNX does not define the overflow of an integer power. Tenon wraps; ONNX Runtime converts a double.")
def _(p):
    limit = np.iinfo(p.diff.mine.dtype)

    def free(b, e):
        if e != e or (isinstance(e, float) and (b < 0 or abs(e) == float("inf"))) or (b == 0 and e < 0):
            return True  # NaN or infinity as an integer
        try:
            r = b**e if not isinstance(e, int) or abs(e) < 4096 else float("inf") * (b > 1 or b < -1) + 0
        except OverflowError:
            return True
        return not (limit.min <= r <= limit.max and abs(r) < 2**53)

    return is_int(p) and each(free, p.array(0), p.array(1)).astype(bool)


@row("shrink-wide", "Shrink", TENON, "The formula of an integer; ONNX does not define its overflow. ONNX Runtime computes it in float.",
     "If x < -lambd, y = x + bias; If x > lambd, y = x - bias; Otherwise, y = 0.")
def _(p):
    lambd, bias = Fraction(p.attrs.get("lambd", 0.5)), Fraction(p.attrs.get("bias", 0.0))
    want = each(lambda v: math.trunc(v + bias if v < -lambd else v - bias if v > lambd else 0), p.array(0).astype(object))
    info = np.iinfo(p.diff.mine.dtype)
    outside = each(lambda v: not info.min <= v <= info.max, want).astype(bool)
    return is_int(p) and ((p.diff.mine.astype(object) == want) | outside)


@row("shrink-double", "Shrink", TENON, "The formula in type double. ONNX Runtime computes it in float, which overflows.",
     "If x < -lambd, y = x + bias; If x > lambd, y = x - bias; Otherwise, y = 0.")
def _(p):
    x, lambd, bias = p.array(0), p.attrs.get("lambd", 0.5), p.attrs.get("bias", 0.0)
    want = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.where(np.isnan(x), np.nan, 0)))
    return is_float(p) and p.diff.mine.dtype == np.float64 and same(p.diff.mine, want)


@row("einsum-int-wide", "Einsum", TENON, "Sums of integers are exact and wrap, as numpy.einsum's. ONNX Runtime adds them as floats.",
     "evaluates algebraic tensor operations on a sequence of tensors, using the Einstein summation convention.")
def _(p):
    want = np.einsum(p.attrs["equation"].decode(), *p.arrays())
    return is_int(p) and p.diff.mine == want


@row("einsum-order", "Einsum", TENON, "Products are added. ONNX Runtime adds some operands first, and 0 plus infinity is not 0 times infinity.",
     "output[output-term] = reduce-sum( input1[term1] * input2[term2] )")
def _(p):
    want = np.einsum(p.attrs["equation"].decode(), *[x.astype(np.float64) for x in p.arrays()]).astype(p.diff.mine.dtype)
    return is_float(p) and not all(np.isfinite(x).all() for x in p.arrays()) and same(p.diff.mine, want, 1e-2 if want.itemsize == 2 else 1e-5)


# ---- casts ----

CASTS = "Cast CastLike Cast+Cast Cast+Cast+Cast"


def last_cast(p):
    """The type that a chain of Casts ends in, ahead of the one that carries it."""
    to = [a.i for n in p.case.model.graph.node if n.op_type in ("Cast", "CastLike") for a in n.attribute if a.name == "to"]
    return to


@row("cast-out-of-range", CASTS, NOBODY, "NaN and infinities among them.", "fixed point: undefined if OOR.")
def _(p):
    low, high = limits(p)
    x = np.trunc(p.array(0).astype(np.float64))
    return elements(p) and p.array(0).dtype.kind == "f" and ~((x >= float(low)) & (x <= float(high)))


@row("cast-narrow-rounds", CASTS, NOBODY, "ONNX does not say how a fraction becomes an integer of 4 or 2 bits. Tenon truncates, as for wider ones; ONNX Runtime rounds.")
def _(p):
    to, x = last_cast(p), p.array(0)
    return elements(p) and x.dtype.kind == "f" and bool({21, 22, 25, 26} & set(to)) and (x != np.trunc(x))


@row("cast-to-string", CASTS, NOBODY, "ONNX does not fix the digits, nor the text of a boolean. Tenon writes what NumPy writes.",
     "to string tensors, plain floating-point representation (such as \"314.15926\") would be used.")
def _(p):
    if p.diff.mine.dtype.kind not in "OU":
        return False
    names = {"True": "1", "False": "0", "INF": "inf", "-INF": "-inf", "NaN": "nan"}
    t = values.numpy_of(p.dtype(0))

    def one(x, y):
        x, y = names.get(str(x), str(x)), names.get(str(y), str(y))
        return x == y or np.array(float(x)).astype(t) == np.array(float(y)).astype(t) or abs(float(x) - float(y)) <= 1e-5 * abs(float(x))

    return each(one, p.diff.mine, p.diff.theirs).astype(bool)


@row("cast-string-bool", "Cast CastLike", NOBODY, "ONNX does not say which strings are true. Tenon reads a number and asks whether it is 0; ONNX Runtime reads an integer.")
def _(p):
    return elements(p) and p.dtype(0) == "string" and p.out_dtype() == "bool"


@row("cast-negative-zero", "Cast CastLike", TENON, "ONNX Runtime compares the bits of 8-bit floats.", "bool: +/- 0.0 to False; all else to True.")
def _(p):
    return elements(p) and p.out_dtype() == "bool" and (p.array(0) == 0) & ~p.diff.mine.astype(bool)


@row("cast-e5m2-infinite", CASTS, TENON, "With saturate=0 what lies beyond the range is infinite in E5M2. ONNX Runtime returns NaN.",
     r"| \[x\] > FLT_MAX | NaN | NaN | Inf | NaN |")
def _(p):
    x = p.array(0).astype(np.float64)
    return is_float(p) and 19 in last_cast(p) and p.attrs.get("saturate") == 0 and np.isinf(p.diff.mine) & (np.abs(x) >= 61440) & (np.sign(x) == np.sign(p.diff.mine))


def power_of_two(v, mode, saturate):
    """A float or an integer as float8e8m0, exactly; None where ONNX does not say what it is."""
    if v < 0 or (v == 0 and math.copysign(1, v) < 0):
        return None
    if v != v or v == math.inf or v == 0:
        return math.nan if v != v or not saturate else 2.0**127 if v else 2.0**-127
    e = v.bit_length() - 1 if isinstance(v, int) else math.frexp(v)[1] - 1
    share = Fraction(v) / Fraction(2) ** e  # 1 to 2
    e += {"up": share > 1, "down": False, "nearest": share >= Fraction(3, 2)}[mode]
    if -127 <= e <= 127:
        return 2.0**e
    return math.nan if not saturate else 2.0**127 if e > 127 else 2.0**-127


@row("cast-e8m0", CASTS, TENON, "Of the exact value. ONNX Runtime rounds an integer to float first, and its CastLike always rounds up; ONNX does not define negative values.",
     "Rounding mode for conversion to float8e8m0.")
def _(p):
    mode, saturate = p.attrs.get("round_mode", b"up").decode(), p.attrs.get("saturate", 1)
    want = each(lambda v: power_of_two(float(v) if isinstance(v, str) else v, mode, saturate), p.array(0))
    mine = p.diff.mine.astype(object)
    return is_float(p) and 24 in last_cast(p) and each(lambda w, y: w is None or w == y or (w != w and y != y), want, mine).astype(bool)


# ---- one operator each ----


@row("where-zero-sign", "Where", TENON, "A -0.0 stays -0.0. ONNX Runtime adds both selections.", "Return elements, either from X or Y, depending on condition.")
def _(p):
    want = np.where(p.array(0), p.array(1), p.array(2))
    return is_float(p) and (p.diff.mine == want) & (np.signbit(p.diff.mine) == np.signbit(want))


@row("gather-strings", "Gather", TENON, "ONNX Runtime copies only the first string of each slice where the data is an initializer.", "gather entries of the axis dimension of `data`")
def _(p):
    return elements(p) and p.dtype(0) == "string" and p.diff.theirs == ""


@row("window-of-one", "HannWindow HammingWindow BlackmanWindow", NOBODY,
     "The function body divides 0 by 0 for a symmetric window of one point. Tenon returns 1, as PyTorch and SciPy do.")
def _(p):
    return elements(p) and int(p.array(0)) == 1 and p.attrs.get("periodic", 1) == 0 and p.diff.mine == 1


@row("window-double", "HannWindow HammingWindow BlackmanWindow", TENON, "ONNX Runtime computes windows of type double with constants of type float.")
def _(p):
    return is_float(p) and p.diff.mine.dtype == np.float64 and gap(p) < 1e-6


@row("double-as-float", "HardSwish Gelu Attention DFT STFT GroupNormalization LayerNormalization MeanVarianceNormalization", NOBODY,
     "The function body has constants, or a stage, of type float. Tenon computes type double in double.")
def _(p):
    return is_float(p) and p.diff.mine.dtype == np.float64 and gap(p) < 1e-6 * max(1.0, float(np.nanmax(np.abs(p.diff.mine))))


@row("dft-odd-length", "DFT STFT", TENON, "Tenon is as close to the exact sum as the element type allows. ONNX Runtime loses digits where the length is no power of 2.",
     "Computes the discrete Fourier Transform (DFT) of the input.")
def _(p):
    exact, size = oracle.reference(p), float(np.sum(np.abs(p.array(0))))
    near = np.abs(p.diff.mine.astype(np.float64) - exact) <= 4 * np.finfo(p.diff.mine.dtype).eps * size
    return is_float(p) and near & (gap(p) <= 1e-4 * size)


@row("affine-grid-one", "AffineGrid", NOBODY, "With align_corners the corners of an axis of size 1 are 2 / 0 apart in the function body.")
def _(p):
    return elements(p) and p.attrs.get("align_corners") == 1 and 1 in [int(d) for d in p.array(1)[2:]]


@row("tree-base", "TreeEnsembleRegressor", TENON, "For a target without leaves too.", "added to final prediction after applying aggregate_function")
def _(p):
    base = p.attrs.get("base_values")
    base = onnx.numpy_helper.to_array(p.attrs["base_values_as_tensor"]) if base is None else np.array(base)
    want = in_ort(p, {"base_values": None, "base_values_as_tensor": None, "post_transform": None}) + base
    if p.attrs.get("post_transform") == b"LOGISTIC":
        want = 1 / (1 + np.exp(-want))
    return is_float(p) and same(p.diff.mine, want, 1e-5)


@row("dynamic-quantize-range", "DynamicQuantizeLinear", NOBODY,
     "ONNX does not say what the range of NaN or of values further apart than a float reaches is, nor what follows from a scale that is 0 in float.",
     "y_scale = (maximum(0, max(x)) - minimum(0, min(x))) / (qmax - qmin)")
def _(p):
    x = p.array(0).astype(np.float64)
    if not x.size: return False
    span = max(x.max(), 0) - min(x.min(), 0)
    return elements(p) and (not np.isfinite(x).all() or span > 3.4e38 or (span > 0 and np.float32(span / 255) == 0))


@row("norm-mean-infinite", "LayerNormalization", NOBODY, "The mean of elements with infinity is infinite. ONNX Runtime's is NaN.", "Mean = ReduceMean<axes=normalized_axes>(X)")
def _(p):
    return is_float(p) and p.diff.output == 1 and np.isinf(p.diff.mine) & np.isnan(p.diff.theirs) & np.isinf(p.array(0)).any()


def normalised(p):
    """The formula of a normalisation in double: the result, and what is added to make it."""
    x, ops = p.array(0).astype(np.float64), [p.array(i) for i in range(1, 6)]
    if p.op == "SkipLayerNormalization":
        x = sum((v.astype(np.float64) for v in (ops[0], ops[3] if len(p.node.input) > 4 else None) if v is not None), x)
        ops = ops[1:3]
    shape = x.shape
    channels = (-1,) + (1,) * (x.ndim - 2)
    parts = lambda v: 1.0 if v is None else v.astype(np.float64) if "Layer" in p.op else v.astype(np.float64).reshape(channels)
    axes = {"LayerNormalization": range(p.attrs.get("axis", -1) % x.ndim, x.ndim), "SkipLayerNormalization": [x.ndim - 1],
            "BatchNormalization": [0, *range(2, x.ndim)], "MeanVarianceNormalization": p.attrs.get("axes", [0, 2, 3])}.get(p.op, range(2, x.ndim))
    if p.op == "GroupNormalization":
        groups = p.attrs["num_groups"]
        wide = x.reshape(shape[0], groups, -1)
        mean, var = (np.broadcast_to(f(wide, axis=2, keepdims=True), wide.shape).reshape(shape) for f in (np.mean, np.var))
        ops = [v if v.size == shape[1] else np.repeat(v, shape[1] // groups) for v in ops[:2]]
    elif p.op == "BatchNormalization" and not p.attrs.get("training_mode"):
        mean, var = (v.astype(np.float64).reshape(channels) for v in ops[2:4])
    else:
        mean, var = (f(x, axis=tuple(axes), keepdims=True) for f in (np.mean, np.var))
    if p.op == "MeanVarianceNormalization":
        return (x - mean) / (np.sqrt(var) + float(np.float32(1e-9))), 0.0
    bias = 0.0 if ops[1] is None else parts(ops[1])
    epsilon = float(np.float32(p.attrs.get("epsilon", 1e-12 if "Skip" in p.op else 1e-5)))  # an attribute is a float
    return parts(ops[0]) * (x - mean) / np.sqrt(var + epsilon) + bias, bias


@row("norm-of-equal", "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization MeanVarianceNormalization SkipLayerNormalization", TENON,
     "Of elements that are nearly equal ONNX Runtime loses digits: it computes E(X^2) - E(X)^2, or scale * x - scale * mean.", "`(X-EX)/sqrt(E(X-EX)^2)`")
def _(p):
    want, bias = normalised(p)
    room = 8 * np.finfo(p.diff.mine.dtype).eps * (np.abs(want) + np.abs(bias) + 1e-6)
    return is_float(p) and p.diff.output == 0 and np.isfinite(want) & (np.abs(p.diff.mine.astype(np.float64) - want) <= room)


@row("lrn-running-sum", "LRN", TENON, "NaN or infinity counts in the windows that hold it. ONNX Runtime has one running sum, which never leaves it.",
     "where `max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))`.")
def _(p):
    x, size = p.array(0).astype(np.float64), p.attrs["size"]
    sums = np.zeros(x.shape)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + -(-(size - 1) // 2))
        sums[:, c] = np.sum(x[:, low : high + 1] ** 2, axis=1)
    want = x / (p.attrs.get("bias", 1.0) + p.attrs.get("alpha", 1e-4) / size * sums) ** p.attrs.get("beta", 0.75)
    return is_float(p) and not np.isfinite(x).all() and same(p.diff.mine, want.astype(p.diff.mine.dtype), 1e-3)


# What takes alpha, or alpha and beta, and Tenon's values where none are given: those of the operator of that name.
ACTIVATIONS = {b"LeakyRelu": (0.01,), b"ThresholdedRelu": (1.0,), b"Elu": (1.0,), b"HardSigmoid": (0.2, 0.5), b"Affine": (1.0, 0.0), b"ScaledTanh": (1.0, 1.0)}


def explicit(p):
    """The attributes that give each activation its alpha and beta."""
    taken = [ACTIVATIONS.get(a, ()) for a in p.attrs["activations"]]
    return {"activation_alpha": [t[0] for t in taken if t], "activation_beta": [t[1] for t in taken if len(t) > 1] or None}


@row("rnn-affine", "RNN GRU LSTM", NOBODY,
     "There are no operators Affine and ScaledTanh. Tenon takes 1 and 0, ONNX Runtime 0.", "Default values are the same as of corresponding ONNX operators.")
def _(p):
    asked = {b"Affine", b"ScaledTanh"} & set(p.attrs.get("activations", []))
    return elements(p) and bool(asked) and "activation_alpha" not in p.attrs and as_rephrased(p, explicit(p))


@row("rnn-thresholded", "RNN GRU LSTM", TENON, "alpha of ThresholdedRelu is 1. ONNX Runtime takes 0.", "Default values are the same as of corresponding ONNX operators.")
def _(p):
    asked = b"ThresholdedRelu" in p.attrs.get("activations", []) and "activation_alpha" not in p.attrs
    return elements(p) and asked and as_rephrased(p, explicit(p))


@row("rnn-softplus", "RNN GRU LSTM", TENON, "It is finite for every finite x. ONNX Runtime's exponential overflows.", "log(1 + e^x)")
def _(p):
    return is_float(p) and b"Softplus" in p.attrs.get("activations", []) and ~np.isfinite(p.diff.theirs) & np.isfinite(p.diff.mine)


@row("q-ties", "QLinearAdd QLinearMul", NOBODY,
     "The documentation has no rounding. Tenon rounds and adds the zero point, as QuantizeLinear does; ONNX Runtime adds it before: ties differ by one.")
def _(p):
    a, sa, za, b, sb, zb, sc = (p.array(i).astype(np.float64) for i in range(7))
    r = ((a - za) * sa + (b - zb) * sb) / sc if p.op == "QLinearAdd" else (a - za) * sa * (b - zb) * sb / sc
    return is_int(p) and (gap(p) <= 1) & (r - np.floor(r) == 0.5)


@row("q-matmul-half", "QLinearMatMul", NOBODY, "ONNX does not say in which type scales of type float16 are multiplied.")
def _(p):
    return is_int(p) and p.array(1).dtype == np.float16 and gap(p) <= 1


def quotient(p):
    """x / y_scale in the type that the division has, for one scale of a tensor or of an axis."""
    x, s = p.array(0), p.array(1)
    t = {10: np.float16, 1: np.float32}.get(p.attrs.get("precision"), s.dtype)
    with np.errstate(all="ignore"):
        return x.astype(t) / spread_out(p, s).astype(t)


def spread_out(p, s):
    """A scale or a zero point as one that broadcasts to x."""
    x, axis = p.array(0), p.attrs.get("axis", 1)
    if s.ndim == 1 and x.ndim > 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        return s.reshape(shape)
    if s.ndim and s.ndim == x.ndim and s.shape != x.shape:
        return np.take(np.repeat(s, p.attrs["block_size"], axis=axis), np.arange(x.shape[axis]), axis=axis)
    return s


@row("quantize-half", "QuantizeLinear", TENON, "ONNX Runtime divides float16 in float.", "the precision of the division operation between `x` and `y_scale`")
def _(p):
    q = quotient(p)
    (low, high), zero = limits(p), p.array(2)
    want = np.clip(np.rint(q.astype(np.float64)) + (0 if zero is None else spread_out(p, zero).astype(np.float64)), low, high)
    return is_int(p) and q.dtype == np.float16 and p.diff.mine == want


@row("quantize-infinite", "QuantizeLinear", TENON, "A quotient saturates, however large it is. ONNX Runtime converts one beyond int32 to an integer first; ONNX does not say what NaN becomes.",
     "The quantization formula is `y = saturate((x / y_scale) + y_zero_point)`.")
def _(p):
    q, (low, high) = quotient(p), limits(p)
    with np.errstate(all="ignore"): beyond = np.abs(q.astype(np.float64)) >= 2.0**31
    return is_int(p) and (np.isnan(q) | (beyond & (q > 0) & (p.diff.mine == high)) | (beyond & (q < 0) & (p.diff.mine == low)))


@row("max-of-infinite", "GlobalMaxPool MaxPool", TENON, "The largest of elements that are all -inf is -inf. ONNX Runtime begins with the lowest finite value.",
     "max pooling consisting of computing the max on all values of a subset of the input tensor")
def _(p):
    others = in_ort(p, arrays=lambda x: ~np.isneginf(x))  # 1 where a window has another element
    return is_float(p) and np.isneginf(p.diff.mine) & (others <= 0)


@row("attention-causal", "Attention", TENON, "ONNX Runtime leaves it out for a single query, and for all batches but the first where there is a mask.",
     "query `i` attends key `j` iff `j <= i + past_sequence_length`")
def _(p):
    return is_float(p) and p.attrs.get("is_causal") == 1 and as_reference(p)


# ---- Resize ----


def interpolated(p):
    """What Resize gives for the same elements as doubles, as integers of the type."""
    model = onnx.ModelProto()
    model.CopyFrom(p.case.model)
    x = np.asarray(p.array(0))
    node = next(n for n in model.graph.node if n.op_type == "Resize")
    del model.graph.input[:]
    kept = [t for t in model.graph.initializer if t.name != node.input[0]]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    feeds = {n: v for n, v in p.case.feeds.items() if n in node.input and n != node.input[0]}
    feeds[node.input[0]] = x.astype(np.float64)
    for n, v in feeds.items():
        model.graph.input.append(onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    wide = np.asarray(engines.run_interp(model.SerializeToString(), feeds)[0], np.float64)
    info = np.iinfo(x.dtype)
    return wide, np.clip(np.rint(wide), float(info.min), float(info.max))


def nearest(p):
    """Resize by the nearest element, with exact coordinates; scales have their value as floats, sizes are a quotient."""
    F = Fraction
    x, out = p.array(0), p.diff.mine.shape
    axes = [a % x.ndim for a in p.attrs.get("axes", range(x.ndim))]
    roi, scales, kind = p.array(1), p.array(2), p.attrs.get("coordinate_transformation_mode", b"half_pixel").decode()
    pick = {"round_prefer_floor": lambda v: math.ceil(v - F(1, 2)), "round_prefer_ceil": lambda v: math.floor(v + F(1, 2)),
            "floor": math.floor, "ceil": math.ceil}[p.attrs.get("nearest_mode", b"round_prefer_floor").decode()]
    index, outside = [], np.zeros(out, bool)
    for axis in range(x.ndim):
        n, m = x.shape[axis], out[axis]
        at = axes.index(axis) if axis in axes else None
        given = at is not None and scales is not None and scales.size
        scale = F(float(scales[at])) if given else F(m, n)
        if at is not None and not given and p.attrs.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
            ratios = [F(int(s), x.shape[a]) for s, a in zip(p.array(3), axes)]
            scale = min(ratios) if p.attrs["keep_aspect_ratio_policy"] == b"not_larger" else max(ratios)
        start, end = (F(float(roi[at])), F(float(roi[at + len(axes)]))) if kind == "tf_crop_and_resize" and at is not None else (F(0), F(1))
        where = []
        for i in range(m):
            v = {"half_pixel": lambda: (i + F(1, 2)) / scale - F(1, 2), "asymmetric": lambda: i / scale,
                 "half_pixel_symmetric": lambda: F(n, 2) * (1 - m / (scale * n)) + (i + F(1, 2)) / scale - F(1, 2),
                 "pytorch_half_pixel": lambda: (i + F(1, 2)) / scale - F(1, 2) if m > 1 else F(0),
                 "align_corners": lambda: F(i * (n - 1), m - 1) if m > 1 else F(0),
                 "tf_crop_and_resize": lambda: start * (n - 1) + i * (end - start) * (n - 1) / (m - 1) if m > 1 else (start + end) * (n - 1) / 2}[kind]()
            if kind == "tf_crop_and_resize" and not 0 <= v <= n - 1:
                outside[(slice(None),) * axis + (i,)] = True
            where.append(min(max(pick(v), 0), n - 1))
        index.append(where)
    return np.where(outside, x.dtype.type(p.attrs.get("extrapolation_value", 0.0)), x[np.ix_(*index)])


@row("resize-nearest", "Resize", TENON, "With exact coordinates. ONNX Runtime rounds a coordinate to float, which moves one between two elements, and leaves axes of scale 1 as they are.",
     "It indicates how to get \"nearest\" pixel in input tensor from x_original")
def _(p):
    return elements(p) and p.attrs.get("mode", b"nearest") == b"nearest" and same(p.diff.mine, nearest(p))


@row("resize-integers", "Resize", NOBODY,
     "ONNX does not say how an interpolated value becomes an integer. Tenon rounds the exact value; ONNX Runtime interpolates in float and truncates, and clips between the axes.",
     "it calculates every value in the output tensor as a weighted average of neighborhood")
def _(p):
    wide, want = interpolated(p)
    room = np.maximum(np.abs(wide), largest(p)) * 1e-9
    tie = np.abs(np.abs(wide - np.floor(wide)) - 0.5) <= 1e-9 * np.maximum(1, np.abs(wide))
    off = np.abs(p.diff.mine.astype(np.float64) - want)
    return is_int(p) and ((off <= room) | (tie & (off <= 1)))


@row("resize-infinite", "Resize", NOBODY, "ONNX does not say whether a neighbour of weight 0 counts, nor whether the weights of an element at the border are added first. ONNX Runtime multiplies by 0, which makes NaN; Tenon does not.",
     "it calculates every value in the output tensor as a weighted average of neighborhood")
def _(p):
    return is_float(p) and not np.isfinite(p.array(0)).all() and np.isnan(p.diff.theirs) != np.isnan(p.diff.mine)


@row("resize-same-size", "Resize", TENON, "Coordinates follow from roi and scales, also where input and output have one size. ONNX Runtime copies the input.",
     "x_original = x_resized / scale")
def _(p):
    return is_float(p) and p.diff.theirs.shape == p.array(0).shape and bool(same(p.diff.theirs, p.array(0)).all()) and as_reference(p)


@row("resize-crop", "Resize", TENON, "On every axis, at its place in axes, also where its size does not change. ONNX Runtime leaves such an axis as it is, and takes numbers of other axes.",
     "x_original = length_resized > 1 ? start_x * (length_original - 1) + x_resized * (end_x - start_x) * (length_original - 1) / (length_resized - 1)")
def _(p):
    if p.attrs.get("coordinate_transformation_mode") != b"tf_crop_and_resize":
        return False
    if is_float(p):
        return as_reference(p)
    return np.abs(p.diff.mine.astype(np.float64) - oracle.reference(p).astype(np.float64)) <= 1


# ---- the type inside ----

SUMS = ("LayerNormalization InstanceNormalization GroupNormalization BatchNormalization RMSNormalization LpNormalization MeanVarianceNormalization "
        "ReduceL2 ReduceSumSquare ReduceSum ReduceMean ReduceL1 ReduceLogSumExp ReduceProd ReduceLogSum GlobalLpPool LpPool LRN MatMul Gemm Conv ConvTranspose Einsum AveragePool "
        "GlobalAveragePool CumSum CumProd Sum Mean Softmax LogSoftmax Resize Pow ScatterElements ScatterND SkipLayerNormalization FusedMatMul Celu Elu Selu Gelu Mish Swish Softplus")


def outreach(p):
    t = p.diff.mine.dtype
    limit = {2: 200.0, 4: 1e17, 8: 1e150}[t.itemsize]
    sizes = [np.abs(x[np.isfinite(x)].astype(np.float64)) for x in p.arrays() if x.dtype.kind == "f"]
    return any(bool((x > limit).any()) for x in sizes)


def not_refuted(p):
    """Where no judge in a wider type, where nothing leaves the range, speaks for ONNX Runtime's result.  Of type double the interpreter's
    own sums may overflow."""
    if p.kind != "differs":
        return True
    return ~(oracle.judged(p)[1] & (np.isfinite(p.diff.mine) | (p.diff.mine.dtype != np.float64)))


def underreach(p):
    limit = {2: 1e-2, 4: 1e-17, 8: 1e-150}[p.diff.mine.dtype.itemsize]
    sizes = [np.abs(x[np.isfinite(x)].astype(np.float64)) for x in p.arrays() if x.dtype.kind == "f"]
    return any(bool(((x < limit) & (x > 0)).any()) for x in sizes)


@row("overflow-inside", SUMS, NOBODY,
     "A sum, a square or an exponential inside leaves the range of the element type. ONNX does not say in which type it is computed: the interpreter has double.",
     kinds=ORT + LOWERED)
def _(p):
    """The other result shows an overflow, or what follows from one: infinity, NaN, or 0 of a division by it."""
    if not is_float(p) or not (outreach(p) or exponent_overflows(p)):
        return False
    seen = ~np.isfinite(p.diff.theirs) | (p.diff.theirs == 0)
    seen &= ~(np.isnan(p.diff.mine) & ~np.isnan(p.diff.theirs))
    if p.diff.mine.dtype == np.float64:  # then the sums of the interpreter overflow too, and not those of smaller operands
        small = again(p, lambda x: np.where(np.abs(x) > 1e100, x * 2.0**-600, x) if x.dtype.kind == "f" else x)
        seen |= ~np.isfinite(p.diff.mine) & ~np.isnan(small)
    return seen & not_refuted(p)


def exponent_overflows(p):
    return p.op in ("Celu", "Elu", "Selu", "Mish", "Softplus", "Swish") and bool(same(p.diff.theirs, oracle.reference(p), 1e-3)[p.diff.bad].all())


@row("underflow-inside", "CumProd LpNormalization ReduceL2 LpPool GlobalLpPool ReduceLogSum ReduceProd RMSNormalization Pow", NOBODY,
     "A square or a product inside is below the range of the element type. ONNX does not say in which type it is computed: the interpreter has double.",
     kinds=ORT + LOWERED)
def _(p):
    return is_float(p) and underreach(p) and ((p.diff.theirs == 0) | ~np.isfinite(p.diff.theirs) | (gap(p) <= 1e-18)) & (not_refuted(p) | (p.diff.mine.dtype == np.float64))


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
     "docs/codegen.md: 'The runtime flushes subnormals to zero'. The interpreter gives the same result when they are zeros.", kinds=("compiled differs",))
def _(p):
    arrays = p.arrays() + [p.diff.mine]
    if not any((flushed(x) != x).any() for x in arrays if x.dtype.kind == "f" and not np.isnan(x).all()):
        return False
    return same(flushed(p.diff.theirs), flushed(again(p, flushed)), 1e-3)


@row("compiled-subnormal-inside", "ReduceProd CumProd", "documented",
     "docs/codegen.md: 'The runtime flushes subnormals to zero', a product of some elements too.", kinds=("compiled differs",))
def _(p):
    x = np.abs(p.array(0).astype(np.float64))
    small = x[(x > 0) & (x < 1)]
    tiny = np.finfo(np.float64 if p.array(0).dtype == np.float64 else np.float32).tiny
    return is_float(p) and small.size and float(np.exp(np.sum(np.log(small)))) < tiny and np.isnan(p.diff.theirs) | (p.diff.theirs == 0)


def inside(p):
    """The convolution in double without its taps in the padding: an infinite weight counts where it meets an element.  Products that
    are not finite are 0 in the sum; how many are NaN or infinite is a convolution of its own.  Besides, the sum of the finite terms' sizes."""
    x, w, b = (None if a is None else a.astype(np.float64) for a in (p.array(0), p.array(1), p.array(2)))

    def run(x, w, b=None):
        feeds = {"x": x.astype(np.float64), "w": w.astype(np.float64), **({} if b is None else {"b": b})}
        node = onnx.helper.make_node("Conv", list(feeds), ["y"])
        node.attribute.extend(p.node.attribute)
        infos = [onnx.helper.make_tensor_value_info(n, 11, a.shape) for n, a in feeds.items()]
        graph = onnx.helper.make_graph([node], "g", infos, [onnx.helper.make_tensor_value_info("y", 11, None)])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", p.opset)], ir_version=10)
        return engines.run_interp(model.SerializeToString(), feeds)[0]

    def count(*pairs):
        return sum(run(of_x, of_w) for of_x, of_w in pairs)

    some, far, out, taps = np.ones_like(x), np.ones_like(w), np.isinf(x), np.isinf(w)
    plus = count((x == np.inf, w > 0), (x == -np.inf, w < 0), (x > 0, w == np.inf), (x < 0, w == -np.inf)) > 0
    minus = count((x == np.inf, w < 0), (x == -np.inf, w > 0), (x < 0, w == np.inf), (x > 0, w == -np.inf)) > 0
    nan = count((x == 0, taps), (out, w == 0), (np.isnan(x), far), (some, np.isnan(w))) > 0
    y = run(np.where(np.isfinite(x), x, 0), np.where(np.isfinite(w), w, 0), b)
    bias = 0 if b is None else b.reshape((-1,) + (1,) * (x.ndim - 2))
    plus, minus = plus | (bias == np.inf), minus | (bias == -np.inf)
    most = run(np.where(np.isfinite(x), np.abs(x), 0), np.where(np.isfinite(w), np.abs(w), 0), None if b is None else np.abs(b))
    return np.where(nan | (plus & minus) | np.isnan(bias), np.nan, np.where(plus, np.inf, np.where(minus, -np.inf, y))), most


@row("compiled-conv-padding", "Conv", "documented",
     "docs/codegen.md: 'Without `--exact`, taps of a convolution in the padding may be left out'. The result is that of the taps inside, or an overflow of their sum.", kinds=LOWERED)
def _(p):
    if p.case.exact or np.isfinite(p.array(1)).all():
        return False
    want, most = inside(p)
    theirs = p.diff.theirs
    # A sum that is not in double overflows by itself; one in double does so in one order and not in another.
    overflows = (most > float(np.finfo(theirs.dtype).max)) & (~np.isfinite(theirs) | (theirs.dtype == np.float64))
    return np.isnan(p.diff.mine) & (same(theirs, want.astype(theirs.dtype), 1e-2) | overflows)


# ---- the tie-breakers ----


@row("oracle", "*", TENON, "onnx.reference, which comes with the specification, gives Tenon's result; or it does, or ONNX Runtime itself does, on the same operands in a wider type.")
def _(p):
    """To a unit in the last place; integers, strings and shapes as they are."""
    return oracle.confirmed(p)
