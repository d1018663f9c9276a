"""Element types of the fuzzer, and values at their limits."""

import ml_dtypes
import numpy as np
from onnx import TensorProto

# ONNX's name: (TensorProto number, NumPy's type of an element).  The types below the line do not cross ONNX Runtime's Python
# interface; a model has a Cast between them and the type in CARRIER, which holds each of their values.
PLAIN = {
    "float": (TensorProto.FLOAT, np.float32),
    "double": (TensorProto.DOUBLE, np.float64),
    "float16": (TensorProto.FLOAT16, np.float16),
    "int8": (TensorProto.INT8, np.int8),
    "int16": (TensorProto.INT16, np.int16),
    "int32": (TensorProto.INT32, np.int32),
    "int64": (TensorProto.INT64, np.int64),
    "uint8": (TensorProto.UINT8, np.uint8),
    "uint16": (TensorProto.UINT16, np.uint16),
    "uint32": (TensorProto.UINT32, np.uint32),
    "uint64": (TensorProto.UINT64, np.uint64),
    "bool": (TensorProto.BOOL, np.bool_),
    "string": (TensorProto.STRING, np.object_),
}
CARRIED = {
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "float8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "float8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    "uint4": (TensorProto.UINT4, ml_dtypes.uint4),
    "int4": (TensorProto.INT4, ml_dtypes.int4),
    "float4e2m1": (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
    "float8e8m0": (TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu),
    "uint2": (TensorProto.UINT2, ml_dtypes.uint2),
    "int2": (TensorProto.INT2, ml_dtypes.int2),
}
CARRIER = {n: "float" for n in CARRIED}
CARRIER.update(uint4="uint8", int4="int8", uint2="uint8", int2="int8")
TYPES = {**PLAIN, **CARRIED}

FLOATS = ("float", "double", "float16", "bfloat16")
SMALL_FLOATS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "float8e8m0")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TEXTS = ["", "a", "b", "ab", "A", "Ab c", "1.5", "-3", "NaN", "\u00e4\u00d6\u00df", "a b  c", "x,y,,z", "9223372036854775807", "the"]


def number(dtype):
    return TYPES[dtype][0]


def numpy_of(dtype):
    return np.dtype(TYPES[dtype][1])


def is_float(dtype):
    return dtype in FLOATS or dtype in SMALL_FLOATS


def float_limits(dtype):
    """NaN, infinities, zeros of both signs, the ends of the range, subnormals, and values that integers just miss."""
    info = ml_dtypes.finfo(numpy_of(dtype))
    if dtype == "float8e8m0":  # powers of two alone
        return [1.0, 2.0, 0.5, float(info.max), float(info.tiny), float("nan")]
    greatest, tiny = float(info.max), float(info.smallest_subnormal)
    out = [0.0, -0.0, 1.0, -1.0, greatest, -greatest, float(info.tiny), tiny, -tiny, 0.5, -0.5, 1.5, 2.5, -2.5]
    if dtype != "float4e2m1":
        out += [float("nan")] * 2
    if dtype in ("float", "double", "float16", "bfloat16", "float8e5m2"):
        out += [float("inf"), float("-inf")]
    return out


def int_limits(dtype):
    info = ml_dtypes.iinfo(numpy_of(dtype))
    low, high = int(info.min), int(info.max)
    return [low, low + 1, high, high - 1, 0, 1, 2, -1 if low else 3]


def fill(rng, dtype, shape, kind="any", level=0):
    """An array of random elements.  kind: any, small (|x| below 4), positive, unit (0 to 1), probability, or (low, high).
    level: 0 plain values, 1 with zeros of both signs and ties, 2 with every limit of the type."""
    t, n = numpy_of(dtype), int(np.prod(shape, dtype=np.int64))
    if dtype == "string":
        return np.array([TEXTS[i] for i in rng.integers(0, len(TEXTS), n)], dtype=object).reshape(shape)
    if dtype == "bool":
        return (rng.random(n) < 0.5).reshape(shape)
    if isinstance(kind, tuple):
        if is_float(dtype):
            return rng.uniform(kind[0], kind[1], n).astype(t).reshape(shape)
        return rng.integers(kind[0], kind[1] + 1, n).astype(t).reshape(shape)
    if is_float(dtype):
        return _floats(rng, dtype, t, n, kind, level).reshape(shape)
    return _ints(rng, dtype, t, n, kind, level).reshape(shape)


def _floats(rng, dtype, t, n, kind, level):
    if kind in ("unit", "probability"):
        return rng.random(n).astype(t)
    x = rng.normal(0, 1 if kind == "small" else 3, n)
    if rng.random() < 0.3:
        x = np.round(x * 2) / 2  # ties
    if kind == "positive":
        x = np.abs(x) + 0.01
    with np.errstate(all="ignore"):
        x = (np.abs(x) + 0.01 if dtype == "float8e8m0" else x).astype(t)
        if level and kind == "any":
            limits = np.array(float_limits(dtype) if level > 1 else [0.0, -0.0, 0.5, -0.5, 1.5, 2.5], t)
            at = rng.random(n) < rng.choice([0.1, 0.5, 1.0])
            x = np.where(at, limits[rng.integers(0, len(limits), n)], x)
    return x


def _ints(rng, dtype, t, n, kind, level):
    info = ml_dtypes.iinfo(t)
    low, high = int(info.min), int(info.max)
    near = rng.integers(max(low, -4), min(high, 5) + 1, n)
    if kind in ("unit", "probability"):
        near = rng.integers(0, 2, n)
    if kind == "positive":
        near = rng.integers(1, min(high, 6) + 1, n)
    x = near.astype(t)
    if level and kind == "any":
        limits = np.array(int_limits(dtype), dtype=object).astype(t)
        at = rng.random(n) < rng.choice([0.1, 0.5, 1.0])
        whole = rng.integers(low, high, n, dtype=np.uint64 if dtype == "uint64" else np.int64, endpoint=True).astype(t)
        x = np.where(at, limits[rng.integers(0, len(limits), n)], x if level < 2 or rng.random() < 0.5 else whole)
    return x
