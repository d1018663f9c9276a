"""Sequences, optionals and maps between Python and the library.

A sequence is a list, an optional its value or None, a map a dict.  What runs take may be nested lists, dicts and arrays:
Python's own numbers become the element type that the model declares, arrays keep theirs;
what they give has NumPy arrays, and Python's own numbers and strings as the keys and values of a dict, as ONNX Runtime gives them.
"""

from __future__ import annotations

import ctypes as C
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _ffi
from .arrays import array_of, describe, view_of
from .dtypes import BY_NAME, DType, array_dtype
from .errors import InvalidError, check

_SEQUENCE, _OPTIONAL, _MAP = 2, 3, 4
_WORDS = ("seq", "opt", "map")


def is_tensor(type_text: str) -> bool:
    """Whether a value of this type, in the library's words, is a tensor."""
    return not type_text.startswith(_WORDS)


class _Handles:
    """References that are released together."""

    def __init__(self) -> None:
        self.held: List[int] = []

    def keep(self, handle: C.c_void_p) -> int:
        self.held.append(handle.value or 0)
        return self.held[-1]

    def release(self) -> None:
        for handle in self.held:
            _ffi.lib.tenon_value_release(handle)
        self.held.clear()


def _call(name: str, *args: Any) -> C.c_void_p:
    out, error = C.c_void_p(), _ffi.Error()
    check(getattr(_ffi.lib, name)(*args, C.byref(out), C.byref(error)), error)
    return out


def _tensor(x: Any, want: Optional[DType], h: _Handles) -> int:
    tensor, view = _ffi.Tensor(), view_of(x, want)
    describe(tensor, view)
    return h.keep(_call("tenon_value_tensor", C.byref(tensor)))


def _inner(type_text: str) -> List[str]:
    """The types between the outermost parentheses: of a sequence's or an optional's value, of a map's keys and values."""
    if is_tensor(type_text) or "(" not in type_text:
        return [""]
    text = type_text[type_text.index("(") + 1 : type_text.rindex(")")]
    return [t.strip() for t in text.split(",", 1)] if type_text.startswith("map") else [text]


def _element(type_text: str) -> Optional[DType]:
    return BY_NAME.get(type_text.split("[")[0])


def _plain(items: List[Any], want: Optional[DType]) -> np.ndarray:
    """Numbers or strings as one array."""
    own = all(isinstance(x, (bool, int, float)) for x in items)
    return np.asarray(items, array_dtype(want) if want is not None and (own or not items) else None)


def _sequence(items: Sequence[Any], h: _Handles, type_text: str) -> int:
    made = [_make(x, h, _inner(type_text)[0]) for x in items]
    return h.keep(_call("tenon_value_sequence", 0, (C.c_void_p * len(made))(*made), len(made)))


def _map(x: Mapping[Any, Any], h: _Handles, type_text: str) -> int:
    key_type, value_type = (_inner(type_text) + [""])[:2]
    keys, values = list(x), list(x.values())
    of_keys, of_values = _element(key_type), _element(value_type)
    if not x:  # nothing shows the types of an empty one
        of_keys, of_values = of_keys or BY_NAME["i64"], of_values or BY_NAME["f32"]
    plain = all(np.ndim(v) == 0 for v in values)
    inner = _tensor(_plain(values, of_values), None, h) if plain else _sequence(values, h, f"seq({value_type})")
    return h.keep(_call("tenon_value_map", _tensor(_plain(keys, of_keys), None, h), inner))


def _make(x: Any, h: _Handles, type_text: str = "") -> int:
    if x is None:
        return h.keep(_call("tenon_value_optional", 0, None))
    if type_text.startswith("opt"):
        return _make(x, h, _inner(type_text)[0])
    if isinstance(x, Mapping):
        return _map(x, h, type_text)
    if isinstance(x, (list, tuple)) and not (type_text and is_tensor(type_text)):
        return _sequence(x, h, type_text)
    return _tensor(x, _element(type_text), h)


def _array(handle: int) -> np.ndarray:
    tensor = _ffi.Tensor()
    if _ffi.lib.tenon_value_view(handle, C.byref(tensor)):
        raise InvalidError("a value that is no tensor")
    return array_of(tensor)


def _given(handle: int) -> Any:
    kind, count = _ffi.lib.tenon_value_kind(handle), _ffi.lib.tenon_value_count(handle)
    items = [_ffi.lib.tenon_value_item(handle, i) for i in range(count)]
    if kind == _SEQUENCE:
        return [_given(i) for i in items]
    if kind == _OPTIONAL:
        return _given(items[0]) if items else None
    if kind == _MAP:
        values = _given(items[1])
        return dict(zip(_array(items[0]).tolist(), values.tolist() if isinstance(values, np.ndarray) else values))
    return _array(handle)


def run(
    function: str, handle: int, feeds: Sequence[Tuple[Any, str, Optional[DType]]], nout: int, options: Optional[int]
) -> List[Any]:
    """Runs a session or a model with values: of each input what is given, its type in the library's words, and a tensor's element type.
    None for outputs that the options do not want."""
    h = _Handles()
    made = (C.c_void_p * max(nout, 1))()
    error = _ffi.Error()
    try:
        given = [_tensor(x, want, h) if is_tensor(t) else _make(x, h, t) for x, t, want in feeds]
        inputs = (C.c_void_p * max(len(given), 1))(*given)
        check(getattr(_ffi.lib, function)(handle, inputs, len(given), made, nout, options, C.byref(error)), error)
        h.held += [v for v in made if v]
        return [_given(v) if v else None for v in made[:nout]]
    finally:
        h.release()
