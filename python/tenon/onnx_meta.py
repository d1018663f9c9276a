"""What an ONNX file says of itself besides its graph: producer, versions, metadata, and the types of inputs and outputs as written.

The C interface has the types that shape inference found, with Tenon's names for sizes; programs written for ONNX Runtime compare with
what the file has.  Only the fields needed are looked at, in place: weights are skipped by their lengths.  The file has been read
by Tenon before, so a damaged one never comes here; what cannot be read gives None.
"""
from __future__ import annotations

import mmap
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

ELEMENTS = ("undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double",
            "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
            "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2")
DEPTH = 8  # of types within types
NO_VERSION = (1 << 63) - 1  # what ONNX Runtime gives of a model that states none

Dim = Union[int, str, None]


class Declared(NamedTuple):
    """An input or output as the file declares it: "tensor(float)", and None for a dynamic shape or size."""
    name: str
    type: str
    shape: Optional[List[Dim]]


class External(NamedTuple):
    """An initializer that lies in another file."""
    name: str
    element: int  # of TensorProto.DataType
    shape: Tuple[int, ...]
    location: str
    offset: int
    length: int  # -1: as many bytes as its elements have


class NodeName(NamedTuple):
    """A node of the graph, without its operands."""
    name: str
    domain: str
    op_type: str


class Meta(NamedTuple):
    """What the file says."""
    text: Dict[str, str]  # producer_name, domain, description, graph_name, graph_description
    version: int
    custom: Dict[str, str]
    inputs: List[Declared]
    outputs: List[Declared]
    initializers: frozenset


def _varint(data: Any, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of too many bytes")


def _fields(data: Any, at: int, end: int) -> Iterator[Tuple[int, int, int]]:
    """(number, value, 0) of a number and (number, start, end) of bytes, in order; other fields are skipped."""
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value, 0
        elif kind == 2:
            size, at = _varint(data, at)
            if size > end - at:
                raise ValueError("bytes beyond their message")
            yield tag >> 3, at, at + size
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("no field of a message")


def _text(data: Any, start: int, end: int) -> str:
    return bytes(data[start:end]).decode("utf-8", "replace")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _shape(data: Any, start: int, end: int) -> List[Dim]:
    dims: List[Dim] = []
    for number, a, b in _fields(data, start, end):
        if number != 1:
            continue
        dim: Dim = None
        for part, c, d in _fields(data, a, b):
            if part == 1:
                dim = _signed(c)
            elif part == 2:
                dim = _text(data, c, d) or None
        dims.append(dim)
    return dims


def _element(code: int) -> str:
    return ELEMENTS[code] if code < len(ELEMENTS) else "undefined"


def _type(data: Any, start: int, end: int, depth: int = 0) -> Tuple[str, Optional[List[Dim]]]:
    """A TypeProto in ONNX Runtime's words, and a tensor's shape."""
    if depth > DEPTH:
        raise ValueError("types within types")
    said, shape = "", None
    for number, a, b in _fields(data, start, end):
        inner = {part: (c, d) for part, c, d in _fields(data, a, b)} if b else {}
        within = inner.get(2 if number == 5 else 1, (0, 0))
        if number in (1, 8):
            said = f"{'tensor' if number == 1 else 'sparse_tensor'}({_element(inner.get(1, (0, 0))[0])})"
            shape = _shape(data, *inner[2]) if 2 in inner else None
        elif number in (4, 9):
            said = f"{'seq' if number == 4 else 'optional'}({_type(data, *within, depth + 1)[0]})"
        elif number == 5:
            said = f"map({_element(inner.get(1, (0, 0))[0])},{_type(data, *within, depth + 1)[0]})"
    return said, shape


def _declared(data: Any, start: int, end: int) -> Declared:
    name, said, shape = "", "", None
    for number, a, b in _fields(data, start, end):
        if number == 1:
            name = _text(data, a, b)
        elif number == 2:
            said, shape = _type(data, a, b)
    return Declared(name, said, shape)


def _pair(data: Any, start: int, end: int) -> Tuple[str, str]:
    parts = {number: _text(data, a, b) for number, a, b in _fields(data, start, end) if b}
    return parts.get(1, ""), parts.get(2, "")


def _read(data: Any) -> Meta:
    names = {2: "producer_name", 3: "producer_version", 4: "domain", 6: "description"}
    text, custom, version = dict.fromkeys(list(names.values()) + ["graph_name", "graph_description"], ""), {}, NO_VERSION
    inputs: List[Declared] = []
    outputs: List[Declared] = []
    initializers = set()
    for number, a, b in _fields(data, 0, len(data)):
        if number in names:
            text[names[number]] = _text(data, a, b)
        elif number == 5:
            version = _signed(a)
        elif number == 14:
            key, value = _pair(data, a, b)
            custom[key] = value
        for part, c, d in _fields(data, a, b) if number == 7 else ():
            if part in (2, 10):
                text["graph_name" if part == 2 else "graph_description"] = _text(data, c, d)
            elif part in (11, 12):
                (inputs if part == 11 else outputs).append(_declared(data, c, d))
            elif part == 5:
                initializers.update(_text(data, e, f) for n, e, f in _fields(data, c, d) if n == 8)
    return Meta(text, version, custom, inputs, outputs, frozenset(initializers))


def _external(data: Any, start: int, end: int) -> Optional[External]:
    """A TensorProto's place in another file; None where its elements are in the model."""
    dims: List[int] = []
    element, name, place = 0, "", {}
    for number, a, b in _fields(data, start, end):
        if number == 1 and not b:
            dims.append(_signed(a))
        elif number == 1:
            while a < b:
                value, a = _varint(data, a)
                dims.append(_signed(value))
        elif number == 2:
            element = a
        elif number == 8:
            name = _text(data, a, b)
        elif number == 13:
            key, value_text = _pair(data, a, b)
            place[key] = value_text
    if "location" not in place:
        return None
    return External(name, element, tuple(dims), place["location"], int(place.get("offset") or 0), int(place.get("length") or -1))


def _graph(data: Any) -> Iterator[Tuple[int, int, int]]:
    for number, a, b in _fields(data, 0, len(data)):
        if number == 7:
            yield from _fields(data, a, b)


def _denoted(data: Any, start: int, end: int) -> Iterator[Tuple[str, str]]:
    """(symbol, denotation) of the sizes of a ValueInfoProto that is a tensor."""
    spans = [(start, end)]
    for wanted in (2, 1, 2, 1):  # type, tensor_type, shape, dim
        spans = [(a, b) for at, to in spans for number, a, b in _fields(data, at, to) if number == wanted and b]
    for at, to in spans:
        parts = {number: _text(data, a, b) for number, a, b in _fields(data, at, to) if b}
        if parts.get(2) and parts.get(3):
            yield parts[2], parts[3]


def _opened(source: Any, look: Callable[[Any], Any], otherwise: Any) -> Any:
    """What `look` finds in a model's bytes; `otherwise` where they cannot be read as a model."""
    try:
        if isinstance(source, (bytes, bytearray, memoryview)):
            return look(memoryview(source))
        with open(source, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return look(data)
    except (ValueError, IndexError, OSError, OverflowError):
        return otherwise


def externals(source: Any) -> List[External]:
    """The initializers of the main graph that lie in other files."""
    return _opened(source, lambda data: [x for n, a, b in _graph(data) if n == 5 for x in [_external(data, a, b)] if x], [])


def denotations(source: Any) -> List[Tuple[str, str]]:
    """(symbol, denotation) of every symbolic size of an input that has one."""
    return _opened(source, lambda data: [x for n, a, b in _graph(data) if n == 11 for x in _denoted(data, a, b)], [])


def nodes(source: Any) -> List[NodeName]:
    """The nodes of the main graph."""
    def look(data: Any) -> List[NodeName]:
        found = []
        for number, a, b in _graph(data):
            if number == 1:
                parts = {n: _text(data, c, d) for n, c, d in _fields(data, a, b) if n in (3, 4, 7)}
                found.append(NodeName(parts.get(3, ""), parts.get(7, ""), parts.get(4, "")))
        return found
    return _opened(source, look, [])


def read(source: Any) -> Optional[Meta]:
    """The metadata of an ONNX model, from a path or bytes; None of any other file.

    >>> from tenon import onnx_meta
    >>> onnx_meta.read("examples/digits/digits.onnx").inputs[0]
    Declared(name='image', type='tensor(float)', shape=['batch', 8, 8])
    """
    found = _opened(source, _read, None)
    return found if found is not None and (found.inputs or found.outputs) else None
