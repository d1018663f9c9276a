"""Element types: Tenon's names, NumPy's dtypes, DLPack's codes.

bf16, fp8 and the types of fewer than 8 bits are ml_dtypes' where that package is present.  Without it their bits
come and go as unsigned integers of the same size (bf16: uint16, fp8: uint8).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from . import _ffi

try:
    import ml_dtypes as _ml
except ImportError:
    _ml = None


class DType(NamedTuple):
    """One element type."""

    code: int  # tenon_dtype
    name: str  # "f32"
    numpy: Optional[np.dtype]  # of an element in an array; None where NumPy has none
    raw: Optional[np.dtype]  # unsigned integer of the same bits: what an array can always be viewed as
    bits: int
    dlpack: Optional[Tuple[int, int]]  # DLPack's code and bits


def library_name(t: DType) -> str:
    """What NumPy or ml_dtypes calls it."""
    return _TABLE[t.name.upper()][0]


# name: (NumPy's or ml_dtypes' name, bits, DLPack's code)
_TABLE = {
    "F32": ("float32", 32, 2),
    "U8": ("uint8", 8, 1),
    "I8": ("int8", 8, 0),
    "U16": ("uint16", 16, 1),
    "I16": ("int16", 16, 0),
    "I32": ("int32", 32, 0),
    "I64": ("int64", 64, 0),
    "STRING": ("object", 0, None),
    "BOOL": ("bool", 8, 6),
    "F16": ("float16", 16, 2),
    "F64": ("float64", 64, 2),
    "U32": ("uint32", 32, 1),
    "U64": ("uint64", 64, 1),
    "C64": ("complex64", 64, 5),
    "C128": ("complex128", 128, 5),
    "BF16": ("bfloat16", 16, 4),
    "F8E4M3": ("float8_e4m3fn", 8, 10),
    "F8E4M3Z": ("float8_e4m3fnuz", 8, 11),
    "F8E5M2": ("float8_e5m2", 8, 12),
    "F8E5M2Z": ("float8_e5m2fnuz", 8, 13),
    "U4": ("uint4", 4, None),
    "I4": ("int4", 4, None),
    "F4E2M1": ("float4_e2m1fn", 4, None),
    "F8E8M0": ("float8_e8m0fnu", 8, 14),
    "U2": ("uint2", 2, None),
    "I2": ("int2", 2, None),
}


def _numpy_dtype(name: str) -> Optional[np.dtype]:
    if name in ("object", "bool") or hasattr(np, name):
        return np.dtype(name)
    scalar = getattr(_ml, name, None)
    return np.dtype(scalar) if scalar is not None else None


def _make(code: int, key: str) -> DType:
    name, bits, dl = _TABLE[key]
    raw = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}.get(max(bits, 8))
    return DType(
        code,
        _ffi.lib.tenon_dtype_name(code).decode(),
        _numpy_dtype(name),
        np.dtype(raw) if raw and key != "STRING" else None,
        bits,
        (dl, bits) if dl is not None else None,
    )


BY_CODE: Dict[int, DType] = {code: _make(code, key) for code, key in enumerate(_ffi.DTYPES) if key != "NONE"}
BY_NAME: Dict[str, DType] = {t.name: t for t in BY_CODE.values()}
BY_NUMPY: Dict[Any, DType] = {t.numpy: t for t in BY_CODE.values() if t.numpy is not None}
BY_DLPACK: Dict[Tuple[int, int], DType] = {t.dlpack: t for t in BY_CODE.values() if t.dlpack is not None}


def array_dtype(t: DType) -> np.dtype:
    """What an array of these elements has as its dtype: NumPy's own, ml_dtypes', or the bare bits."""
    return t.numpy if t.numpy is not None else t.raw


def pack(array: np.ndarray, bits: int) -> np.ndarray:
    """Elements of fewer than 8 bits, one a byte, packed as Tenon has them: the first in the low bits."""
    per = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-flat.size % per, np.uint8)]).reshape(-1, per)
    out = np.zeros(flat.shape[0], np.uint8)
    for k in range(per):
        out |= flat[:, k] << (k * bits)
    return out


def unpack(packed: np.ndarray, t: DType, count: int) -> np.ndarray:
    """The other way: one element a byte, with the sign carried on where the type has one."""
    per = 8 // t.bits
    out = np.empty((packed.size, per), np.uint8)
    for k in range(per):
        out[:, k] = (packed >> (k * t.bits)) & ((1 << t.bits) - 1)
    flat = out.reshape(-1)[:count]
    if t.name in ("i4", "i2"):
        sign = np.uint8(1 << (t.bits - 1))
        flat = (flat ^ sign) - sign
    return flat.view(t.numpy) if t.numpy is not None else flat
