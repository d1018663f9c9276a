"""Operators that compute element by element, and reductions."""

import numpy as np

from registry import spec
import values

FLOAT_TYPES = values.FLOATS


@spec("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsNaN Log Mish Neg Not Reciprocal "
      "Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh BitwiseNot")
def unary(b):
    x = b.any(b.tin())
    b.node([x], [(b.tout(), x.shape)])


def real(b, low=-2.0, high=2.0):
    return float(np.float32(b.rng.uniform(low, high))) if b.chance(0.7) else b.pick([0.0, 1.0, -1.0, 0.5, 2.0])


@spec("Celu Elu HardSigmoid LeakyRelu Selu ThresholdedRelu Shrink Swish")
def unary_with_attributes(b):
    x = b.any(b.tin())
    attrs = {k: real(b) for k in b.schema().attributes if b.chance(0.7)}
    if b.op == "Celu" and attrs.get("alpha") == 0.0:
        attrs["alpha"] = 1.0  # a division by it
    b.node([x], [(b.tout(), x.shape)], **attrs)


@spec("Gelu")
def gelu(b):
    x = b.any(b.tin())
    b.node([x], [(b.tout(), x.shape)], approximate=b.pick([None, "none", "tanh"]))


@spec("IsInf")
def is_inf(b):
    x = b.any(b.tin())
    b.node([x], [("bool", x.shape)], detect_positive=b.pick([None, 0, 1]), detect_negative=b.pick([None, 0, 1]))


@spec("Add Sub Mul Div And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual BitwiseAnd BitwiseOr BitwiseXor PRelu")
def binary(b):
    t = b.tin()
    x, kind = b.any(t), "any"
    if b.op == "Div" and t in values.INTS:
        kind = nonzero(b, t)
    other = b.broadcastable(x.shape)
    y = b.data(b.tin(1), other) if kind == "any" else b.given(kind(other), t)
    pair, shape = [x, y], x.shape
    if b.op != "PRelu" and b.chance(0.4) and not (b.op == "Div" and t in values.INTS):
        pair.reverse()
    b.node(pair, [(b.tout(), shape)])


def nonzero(b, t):
    """Divisors: without zeros, with INT_MIN, -1 and the largest."""

    def make(shape):
        x = values.fill(b.rng, t, shape, "any", b.level)
        return np.where(x == 0, np.array(b.pick([1, 3, 7]), x.dtype), x)

    return make


@spec("Mod")
def mod(b):
    t = b.tin(0, values.INTS + values.FLOATS)
    x = b.any(t)
    floating = values.is_float(t)
    other = b.broadcastable(x.shape)
    y = b.data(t, other) if floating else b.given(nonzero(b, t)(other), t)
    b.node([x, y], [(t, x.shape)], fmod=1 if floating else b.pick([None, 0, 1]))


@spec("Pow")
def power(b):
    x = b.any(b.tin(0))
    y = b.tin(1)
    kind = "any" if b.chance(0.5) else (0, 4)
    b.node([x, b.data(y, b.broadcastable(x.shape), kind)], [(b.tout(), x.shape)])


@spec("BitShift")
def bit_shift(b):
    t = b.tin()
    bits = values.numpy_of(t).itemsize * 8
    x = b.any(t)
    y = b.data(t, b.broadcastable(x.shape), (0, bits - 1))
    b.node([x, y], [(t, x.shape)], direction=b.pick(["LEFT", "RIGHT"]))


@spec("Max Min Sum Mean")
def variadic(b):
    t, shape = b.tin(), b.shape()
    xs = [b.data(t, shape)] + [b.data(t, b.broadcastable(shape)) for _ in range(b.int(0, 3))]
    b.rng.shuffle(xs)
    b.node(xs, [(t, shape)])


@spec("Where")
def where(b):
    t, shape = b.tin(1), b.shape()
    parts = [shape, b.broadcastable(shape), b.broadcastable(shape)]
    b.rng.shuffle(parts)
    parts = [tuple(int(d) for d in p) for p in parts]
    b.node([b.data("bool", parts[0]), b.data(t, parts[1]), b.data(t, parts[2])], [(t, shape)])


@spec("Clip")
def clip(b):
    t = b.tin()
    x = b.any(t)
    bounds = [b.data(t, ()) if b.chance(0.7) else None for _ in range(2)]
    b.node([x] + bounds, [(t, x.shape)])


@spec("Cast")
def cast(b):
    a, to = b.tin(), b.tout()
    if a == "string" and to != "string":
        x = b.given(numerals(b, to, b.shape()), "string")
    else:
        x = b.any(a)
    attrs = {}
    if b.has_attr("saturate") and b.chance(0.4):
        attrs["saturate"] = b.int(0, 1)
    b.node([x], [(to, x.shape)], to=values.number(to), round_mode=round_mode(b, to), **attrs)


def round_mode(b, to):
    return b.pick([None, "up", "down", "nearest"]) if to == "float8e8m0" and b.has_attr("round_mode") else None


def numerals(b, to, shape):
    whole = to in values.INTS or to in ("int4", "uint4", "int2", "uint2")
    x = values.fill(b.rng, to if whole and to in values.INTS else "int8" if whole else "float", shape, "any", b.level)
    return np.array([str(v) for v in x.reshape(-1)], dtype=object).reshape(shape)


@spec("CastLike")
def cast_like(b):
    a, to = b.tin(), b.tin(1)
    x = b.given(numerals(b, to, b.shape()), "string") if a == "string" and to != "string" else b.any(a)
    b.node([x, b.data(to, b.shape(0, 1))], [(to, x.shape)],
           saturate=b.int(0, 1) if b.has_attr("saturate") and b.chance(0.4) else None, round_mode=round_mode(b, to))


@spec("BitCast")
def bit_cast(b):
    a, to = b.tin(), b.tout()
    if values.numpy_of(a).itemsize != values.numpy_of(to).itemsize or "string" in (a, to):
        to = b.types["T2"] = a
    if (a in values.CARRIED or to in values.CARRIED) and a != to:
        a = to
    x = b.any(a)
    b.node([x], [(to, x.shape)], to=values.number(to))


# ---- reductions ----


def reduced(shape, axes, keep):
    axes = {a % len(shape) for a in axes} if shape else set()
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)


def some_axes(b, rank, least=1):
    axes = [int(a) for a in b.rng.permutation(rank)[: b.int(min(least, rank), rank)]]
    return [a - rank if b.chance(0.3) else a for a in axes]


@spec("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare")
def reduce(b):
    t = b.tin()
    x = b.any(t)
    keep, axes, attrs, ins = b.pick([None, 0, 1]), None, {}, [x]
    if b.chance(0.8):
        axes = some_axes(b, len(x.shape), 0 if b.chance(0.1) else 1)
    as_input = "axes" not in b.schema().attributes
    if not as_input and axes is not None and not axes:
        axes = None
    if axes is not None:
        if as_input:
            ins.append(b.ints(axes))
        else:
            attrs["axes"] = axes
    if as_input and b.chance(0.3):
        attrs["noop_with_empty_axes"] = b.int(0, 1)
    full = not axes
    if full and attrs.get("noop_with_empty_axes"):
        shape = x.shape
    else:
        shape = reduced(x.shape, axes or range(len(x.shape)), keep != 0)
    b.node(ins, [(t, shape)], keepdims=keep, **attrs)


@spec("ArgMax ArgMin")
def arg(b):
    x = b.any(b.tin(), 1, 4)
    axis = b.int(-len(x.shape), len(x.shape) - 1)
    given, keep = b.chance(0.8), b.pick([None, 0, 1])
    b.node([x], [("int64", reduced(x.shape, [axis if given else 0], keep != 0))], axis=axis if given else None,
           keepdims=keep, select_last_index=b.pick([None, 0, 1]))


@spec("CumSum CumProd")
def cumulative(b):
    x = b.any(b.tin(), 1, 4)
    axis = b.int(-len(x.shape), len(x.shape) - 1)
    at = b.control(np.array(axis, values.numpy_of(b.tin(1))))
    b.node([x, at], [(x.dtype, x.shape)], exclusive=b.pick([None, 0, 1]), reverse=b.pick([None, 0, 1]))


@spec("Softmax LogSoftmax Hardmax")
def softmax(b):
    x = b.any(b.tin(), 1, 4)
    axis = b.int(-len(x.shape), len(x.shape) - 1) if b.chance(0.8) else None
    b.node([x], [(x.dtype, x.shape)], axis=axis)


@spec("TopK")
def top_k(b):
    x = b.any(b.tin(), 1, 4)
    axis = b.int(-len(x.shape), len(x.shape) - 1) if b.chance(0.8) else None
    at = -1 if axis is None else axis
    k = b.int(0, x.shape[at]) if x.shape[at] else 0
    if k == 0 and x.shape[at]:
        k = 1
    shape = list(x.shape)
    shape[at] = k
    b.node([x, b.ints([k])], [(x.dtype, shape), ("int64", shape)], axis=axis, largest=b.pick([None, 0, 1]),
           sorted=b.pick([None, 1]))


@spec("NonZero")
def non_zero(b):
    x = b.any(b.tin())
    b.node([x], [("int64", None)])


@spec("Unique")
def unique(b):
    x = b.any(b.tin(), 1, 3, least=1)
    axis = b.int(-len(x.shape), len(x.shape) - 1) if b.chance(0.5) else None
    b.node([x], [(x.dtype, None), ("int64", None), ("int64", None), ("int64", None)], axis=axis, sorted=b.pick([None, 0, 1]))


@spec("EyeLike")
def eye_like(b):
    x = b.any(b.tin(), 2, 2)
    to = b.tout() if b.chance(0.5) else None
    b.node([x], [(to or x.dtype, x.shape)], dtype=values.number(to) if to else None, k=b.pick([None, -2, -1, 0, 1, 2]))


@spec("Trilu")
def trilu(b):
    x = b.any(b.tin(), 2, 4)
    k = b.pick([None, -3, -1, 0, 1, 2, 2**31, -(2**63), 2**63 - 1])
    b.node([x, b.control(np.array(k, np.int64)) if k is not None else None], [(x.dtype, x.shape)], upper=b.pick([None, 0, 1]))


@spec("Range")
def range_(b):
    t = b.tin(0, ("float", "double", "int16", "int32", "int64", "float16", "bfloat16"))
    whole = t in values.INTS
    step = b.pick([1, 2, 3, -1, -2, 7]) if whole else b.pick([0.5, 1.0, -0.75, 0.1, 3.0])
    start = b.int(-9, 9)
    if whole and b.level == 2:
        info = np.iinfo(values.numpy_of(t))
        start = b.pick([info.min, info.max, 0, -1])
    n = b.int(0, 9)
    end = start + step * n
    if whole:
        info = np.iinfo(values.numpy_of(t))
        end = min(max(end, info.min), info.max)
    b.node([b.control(np.array(v, values.numpy_of(t))) if t != "bfloat16" else b.given(np.array(v, values.numpy_of(t)), t)
            for v in (start, end, step)], [(t, None)])


@spec("Det")
def det(b):
    n = b.int(1, 4)
    x = b.data(b.tin(), b.shape(0, 2, 1) + (n, n), "small")
    b.node([x], [(x.dtype, x.shape[:-2])])


@spec("Bernoulli Dropout RandomNormalLike RandomUniformLike")
def random_like(b):
    x = b.any(b.tin()) if b.op != "Bernoulli" else b.data(b.tin(), b.shape(), "unit")
    if b.op == "Dropout":
        ratio = b.control(np.array(0.5, values.numpy_of(b.tin(1, ("float", "double", "float16"))))) if b.chance(0.6) else None
        training = b.control(np.array(False)) if b.chance(0.5) else None
        outs = [(x.dtype, x.shape)] + ([("bool", x.shape)] if b.chance(0.6) else [])
        b.node([x, ratio, training], outs, seed=b.pick([None, 3]))
        return
    to = b.tout() if b.chance(0.5) else None
    attrs = {"dtype": values.number(to) if to else None, "seed": b.pick([None, 3.0])}
    if b.op == "RandomNormalLike":
        attrs.update(mean=b.pick([None, 2.0]), scale=b.pick([None, 3.0]))
    if b.op == "RandomUniformLike":
        attrs.update(low=b.pick([None, -2.0]), high=b.pick([None, 3.0]))
    b.notes["random"] = True
    b.node([x], [(to or x.dtype, x.shape)], **attrs)


@spec("RandomNormal RandomUniform")
def random_of_shape(b):
    to, shape = b.tout() if b.chance(0.5) else None, b.shape(1, 3)
    attrs = {"mean": b.pick([None, 2.0]), "scale": b.pick([None, 3.0])}
    if b.op == "RandomUniform":
        attrs = {"low": b.pick([None, -2.0]), "high": b.pick([None, 3.0])}
    b.notes["random"] = True
    b.node([], [(to or "float", shape)], dtype=values.number(to) if to else None, seed=b.pick([None, 3.0]),
           shape=list(shape), **attrs)


@spec("Multinomial")
def multinomial(b):
    x, n = b.data(b.tin(), (b.int(1, 3), b.int(1, 5)), "small"), b.int(1, 4)
    to = b.pick([None, "int32", "int64"])
    b.notes["random"] = True
    b.node([x], [(to or "int32", (x.shape[0], n))], dtype=values.number(to) if to else None, sample_size=n if n > 1 else None,
           seed=b.pick([None, 3.0]))
