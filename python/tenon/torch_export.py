"""An FX graph of ATen operators as torch.export's JSON, which Tenon's reader takes with its weights by address.

The graph is functional, as AOTAutograd and torch.export make it; every value has its fake tensor in ``meta["val"]``. 
Dense tensors in another order than row-major (channels last) keep their layout, under a permutation
of their axes, so that nothing is copied.
"""
from __future__ import annotations

import functools
import json
import math
import operator
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import sympy
import torch
from torch.fx import GraphModule, Node

from . import _ffi

SCHEMA = {"major": 8, "minor": 8}
# Numbers of dtypes in the schema, which are not PyTorch's own.
SCALAR_TYPES = {
    torch.uint8: 1,
    torch.int8: 2,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.complex64: 10,
    torch.complex128: 11,
    torch.bool: 12,
    torch.bfloat16: 13,
    torch.uint16: 28,
    torch.float8_e4m3fn: 29,
    torch.float8_e5m2: 30,
    torch.float8_e4m3fnuz: 31,
    torch.float8_e5m2fnuz: 32,
}
# tenon_dtype of what a tensor can have.
DTYPES = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.uint16: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.bfloat16: 16,
    torch.float8_e4m3fn: 17,
    torch.float8_e4m3fnuz: 18,
    torch.float8_e5m2: 19,
    torch.float8_e5m2fnuz: 20,
}
# Arithmetic on sizes that the reader has.
NUMBER_OPS = {
    getattr(operator, n): f"_operator.{n}"
    for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge")
}
NUMBER_OPS.update({torch.sym_max: "torch.sym_max", torch.sym_min: "torch.sym_min"})
# A table of embeddings from this many bytes on is an input of the program: it is read in place, not copied.
TABLE_BYTES = 1 << 20


class Unsupported(Exception):
    """Something that no program of Tenon can have; ``op`` is the operator where it is one."""

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


@functools.lru_cache(maxsize=None)
def known(op: str) -> bool:
    """Whether the reader's table has an overload, as in ``aten::add.Tensor``.

    >>> known("aten::add.Tensor"), known("aten::no_such")
    (True, False)
    """
    return bool(_ffi.lib.tenon_op_known(b"pytorch", op.encode()))


def table_name(target: Any) -> str:
    """How the table spells an overload: ``aten::relu`` for ``aten.relu.default``."""
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def op_name(node: Node) -> str:
    """What a warning calls the operator of a node."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else getattr(
        node.target, "__name__", str(node.target))


def _leaves(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _fits(value: Any) -> bool:
    """Whether a value of this fake tensor or number can be one of the program's."""
    if isinstance(value, torch.Tensor):
        return value.dtype in DTYPES and value.layout is torch.strided and value.device.type in ("cpu", "cuda") and \
            not any(isinstance(s, torch.SymInt) and _unbacked(s) for s in value.shape)
    return value is None or isinstance(value, (int, bool, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def _unbacked(size: "torch.SymInt") -> bool:
    return any(str(s).startswith("u") for s in size.node.expr.free_symbols)


def _changes_nothing(node: Node) -> bool:
    """Whether an as_strided gives the tensor that it is given: strides of axes of one element mean nothing."""
    if node.target is not torch.ops.aten.as_strided.default or len(node.args) > 3 or node.kwargs:
        return False
    x, y = node.args[0].meta["val"], node.meta["val"]
    axes = [(tuple(s for n, s in zip(t.shape, t.stride()) if n != 1)) for t in (x, y)]
    return x.shape == y.shape and axes[0] == axes[1] and not any(isinstance(s, torch.SymInt) for s in x.shape)


def supported(node: Node) -> bool:
    """Whether the reader has the node's operator, for values that a program can have."""
    if node.op == "get_attr":
        return True
    if node.op != "call_function" or not all(map(_fits, _leaves(node.meta.get("val")))):
        return False
    if not all(map(_fits, (v for a in node.all_input_nodes for v in _leaves(a.meta.get("val"))))):
        return False
    if node.target is operator.getitem or node.target in NUMBER_OPS or _changes_nothing(node):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and known(table_name(node.target))


def hint(size: Any) -> int:
    """A size as a number: an open one as it was when it was traced."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def axes_in_memory(value: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """The axes from the slowest to the fastest, where the elements are dense but not row-major; else None.

    >>> axes_in_memory(torch.empty(2, 3, 4, 5)) is None
    True
    >>> axes_in_memory(torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last))
    (0, 2, 3, 1)
    """
    sizes, strides = [hint(s) for s in value.shape], [hint(s) for s in value.stride()]
    order = sorted(range(len(sizes)), key=lambda k: (-strides[k], k))
    expected = 1
    for k in reversed(order):
        if sizes[k] != 1 and strides[k] != expected:
            return None
        expected *= sizes[k]
    wide = [k for k in order if sizes[k] != 1]
    return None if wide == sorted(wide) else tuple(order)


class Input(NamedTuple):
    """An input of the program: which of the caller's arguments, and in which order of axes."""
    at: int
    value: Any  # the fake tensor, or the number
    order: Optional[Tuple[int, ...]]


class Output(NamedTuple):
    """A result: of the program ("tensor"), one of the arguments, a number, or one that sizes give ("size")."""
    kind: str
    value: Any
    order: Optional[Tuple[int, ...]] = None


class Program(NamedTuple):
    """What a graph says to Tenon."""
    text: bytes
    inputs: List[Input]
    weights: Dict[str, torch.Tensor]
    outputs: List[Output]


class Writer:
    """Writes one graph.  ``constants`` are tensors by the position of their argument: all others are inputs.

    ``plain``: inputs and outputs are the graph's own, row-major, for callers that know nothing of the graph;
    ``rename`` gives symbols other names.
    """

    def __init__(self,
                 gm: GraphModule,
                 constants: Mapping[int, torch.Tensor],
                 plain: bool = False,
                 rename: Optional[Mapping[sympy.Symbol, str]] = None) -> None:
        self.gm, self.constants, self.plain = gm, constants, plain
        self.rename = {s: sympy.Symbol(n, positive=True, integer=True) for s, n in (rename or {}).items()}
        self.names: Dict[Any, Any] = {}  # of a node's value, of one of its results, or the number that it is
        self.types: Dict[str, Any] = {}
        self.nodes: List[Dict[str, Any]] = []
        self.specs: List[Dict[str, Any]] = []
        self.inputs: List[Input] = []
        self.weights: Dict[str, torch.Tensor] = {}
        self.ranges: Dict[str, Any] = {}
        self.tables: Dict[Node, str] = {}  # weights that are inputs where rows are looked up

    # ---- types ----

    def size(self, s: Any) -> Dict[str, Any]:
        if not isinstance(s, torch.SymInt):
            return {"as_int": int(s)}
        expr = s.node.expr
        if expr.is_number:
            return {"as_int": int(expr)}
        for symbol in expr.free_symbols:
            self.range_of(symbol, s.node.shape_env)
        return {"as_expr": {"expr_str": sympy.srepr(expr.xreplace(self.rename))}}

    def range_of(self, symbol: sympy.Symbol, env: Any) -> None:
        bounds, name = env.var_to_range.get(symbol), self.rename.get(symbol, symbol).name
        if bounds is None or name in self.ranges:
            return
        low, high = (int(b) if b.is_finite and abs(b) < 2**62 else None for b in (bounds.lower, bounds.upper))
        self.ranges[name] = {"min_val": low, "max_val": high}

    def declare(self, name: str, value: torch.Tensor, shape: Sequence[Any]) -> None:
        if value.dtype not in SCALAR_TYPES:
            raise Unsupported(f"a tensor of {value.dtype}")
        self.types[name] = {"dtype": SCALAR_TYPES[value.dtype], "sizes": [self.size(s) for s in shape]}

    # ---- inputs ----

    def weight(self, name: str, tensor: torch.Tensor) -> str:
        self.weights[name] = tensor
        self.specs.append({"parameter": {"arg": {"name": name}, "parameter_name": name}})
        return name

    def tensor_input(self, name: str, at: int, value: torch.Tensor) -> str:
        order = None if self.plain else axes_in_memory(value)
        shape = list(value.shape) if order is None else [value.shape[k] for k in order]
        plain = name if order is None else f"{name}.lying"
        self.inputs.append(Input(at, value, order))
        self.declare(plain, value, shape)
        self.specs.append({"user_input": {"arg": {"as_tensor": {"name": plain}}}})
        if order is not None:
            back = [order.index(k) for k in range(len(order))]
            self.call(name, "torch.ops.aten.permute.default", {
                "self": {
                    "as_tensor": {
                        "name": plain
                    }
                },
                "dims": {
                    "as_ints": back
                }
            })
        return name

    def placeholders(self) -> None:
        numbers = []
        for at, node in enumerate(n for n in self.gm.graph.nodes if n.op == "placeholder"):
            value = node.meta.get("val")
            if at in self.constants:
                self.names[node] = self.weight(node.name, self.constants[at])
                if self._is_table(node, self.constants[at]):
                    self.tables[node] = self.tensor_input(f"{node.name}.table", at, self.constants[at])
            elif isinstance(value, torch.Tensor):
                self.names[node] = self.tensor_input(node.name, at, value)
            elif isinstance(value, torch.SymInt) and not value.node.expr.is_number:
                numbers.append((at, node, value))
            elif value is None or isinstance(value, (int, float, bool, torch.SymInt)):
                self.names[node] = int(value) if isinstance(value, torch.SymInt) else value
            else:
                raise Unsupported(f"an argument of type {type(value).__name__}")
        for at, node, value in numbers:
            self.number_input(at, node, value)

    def _is_table(self, node: Node, tensor: torch.Tensor) -> bool:
        if self.plain or tensor.numel() * tensor.element_size() < TABLE_BYTES or not tensor.is_contiguous():
            return False
        return any(u.target is torch.ops.aten.embedding.default and u.args[0] is node and u.args[1].op != "get_attr"
                   for u in node.users)

    def number_input(self, at: int, node: Node, value: "torch.SymInt") -> None:
        """A size that is given besides its tensor: asked of the tensor, so that it is the same symbol."""
        for one in self.inputs:
            for axis, s in enumerate(one.value.shape if isinstance(one.value, torch.Tensor) else ()):
                if isinstance(s, torch.SymInt) and s.node.expr == value.node.expr:
                    source = self.gm.graph.find_nodes(op="placeholder")[one.at]
                    self.call(node.name, "torch.ops.aten.sym_size.int", {
                        "self": {
                            "as_tensor": {
                                "name": self.names[source]
                            }
                        },
                        "dim": {
                            "as_int": axis
                        }
                    }, "as_sym_int")
                    self.names[node] = node.name
                    return
        self.inputs.append(Input(at, value, None))
        self.specs.append({"user_input": {"arg": {"as_sym_int": {"as_name": node.name}}}})
        self.names[node] = node.name

    # ---- calls ----

    def call(self, name: str, target: str, inputs: Mapping[str, Any], kind: str = "as_tensor") -> None:
        out = {"as_tensor": {"name": name}} if kind == "as_tensor" else {kind: {"as_name": name}}
        self.put(name, target, inputs, [out])

    def put(self, name: str, target: str, inputs: Mapping[str, Any], outputs: List[Any]) -> None:
        self.nodes.append({
            "name": name,
            "target": target,
            "inputs": [{
                "name": k,
                "arg": v,
                "kind": 1
            } for k, v in inputs.items()],
            "outputs": outputs,
            "metadata": {}
        })

    def value_of(self, node: Node) -> Any:
        if node not in self.names:
            raise Unsupported(f"a value of '{node.name}', which is not one")
        return self.names[node]

    def argument(self, a: Any) -> Dict[str, Any]:
        if isinstance(a, Node):
            name = self.value_of(a)
            if not isinstance(name, str):
                return self.argument(name)
            value = a.meta.get("val") if a.op != "get_attr" else self.weights[name]
            for kind, union in ((torch.Tensor, "as_tensor"), (torch.SymInt, "as_sym_int"),
                                (torch.SymFloat, "as_sym_float"), (torch.SymBool, "as_sym_bool")):
                if isinstance(value, kind):
                    return {union: {"name" if union == "as_tensor" else "as_name": name}}
            return {"as_sym_int": {"as_name": name}}
        if a is None or isinstance(a, (torch.device, torch.layout, torch.memory_format)):
            return {"as_none": True}
        if isinstance(a, bool):
            return {"as_bool": a}
        if isinstance(a, (int, torch.SymInt)):
            return {"as_int": int(a)}
        if isinstance(a, float):
            return {"as_float": a if math.isfinite(a) else "NaN" if a != a else "Infinity" if a > 0 else "-Infinity"}
        if isinstance(a, str):
            return {"as_string": a}
        if isinstance(a, torch.dtype):
            if a not in SCALAR_TYPES:
                raise Unsupported(f"the type {a}")
            return {"as_scalar_type": SCALAR_TYPES[a]}
        if isinstance(a, (list, tuple)):
            return self.list_argument(a)
        raise Unsupported(f"an argument of type {type(a).__name__}")

    def list_argument(self, items: Sequence[Any]) -> Dict[str, Any]:
        each = [self.argument(i) for i in items]
        kinds = {k for e in each for k in e}
        if kinds == {"as_tensor"}:
            return {"as_tensors": [e["as_tensor"] for e in each]}
        if "as_tensor" in kinds:
            return {"as_optional_tensors": each}
        if "as_sym_int" in kinds:
            return {"as_sym_ints": [e.get("as_sym_int", e) for e in each]}
        for kind in ("as_float", "as_bool", "as_string"):
            if kind in kinds:
                return {kind + "s": [e.get(kind, e.get("as_int")) for e in each]}
        return {"as_ints": [e["as_int"] for e in each]}

    def operator(self, node: Node) -> None:
        schema = node.target._schema.arguments
        inputs = {schema[i].name: self.argument(a) for i, a in enumerate(node.args)}
        if node.target is torch.ops.aten.embedding.default and node.args[0] in self.tables:
            inputs["weight"] = {"as_tensor": {"name": self.tables[node.args[0]]}}
        inputs.update((k, self.argument(a)) for k, a in node.kwargs.items())
        value = node.meta.get("val")
        target = f"torch.ops.{node.target}"
        if isinstance(value, (list, tuple)):
            names = [f"{node.name}.{k}" for k in range(len(value))]
            self.put(node.name, target, inputs, [{"as_tensor": {"name": n}} for n in names])
            self.names[node] = names
            return
        kind = "as_tensor" if isinstance(value, torch.Tensor) else "as_sym_int"
        self.call(node.name, target, inputs, kind)
        self.names[node] = node.name

    def one(self, node: Node) -> None:
        if node.op == "get_attr":
            tensor = functools.reduce(getattr, node.target.split("."), self.gm)
            self.names[node] = self.weight(node.name, tensor)
        elif node.target is operator.getitem:
            self.names[node] = self.value_of(node.args[0])[node.args[1]]
        elif _changes_nothing(node):
            self.names[node] = self.value_of(node.args[0])
        elif node.target in NUMBER_OPS:
            kind = "as_sym_bool" if isinstance(node.meta.get("val"), (bool, torch.SymBool)) else "as_sym_int"
            self.call(node.name, NUMBER_OPS[node.target], {
                "ab"[i]: self.argument(a)
                for i, a in enumerate(node.args)
            }, kind)
            self.names[node] = node.name
        elif isinstance(node.target, torch._ops.OpOverload):
            self.operator(node)
        else:
            raise Unsupported(f"a call of {op_name(node)}", op_name(node))

    # ---- results ----

    def result(self, a: Any, positions: Mapping[Node, int]) -> Tuple[Output, Optional[Dict[str, Any]]]:
        if not isinstance(a, Node):
            return Output("value", a), None
        if a in positions and not self.plain:
            return Output("argument", positions[a]), None
        value = a.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return Output("size", value), None
        name, order = self.value_of(a), None if self.plain else axes_in_memory(value)
        if order is not None:
            self.call(f"{name}.out", "torch.ops.aten.permute.default", {
                "self": {
                    "as_tensor": {
                        "name": name
                    }
                },
                "dims": {
                    "as_ints": list(order)
                }
            })
            name = f"{name}.out"
        return Output("tensor", value, order), {"user_output": {"arg": {"as_tensor": {"name": name}}}}

    def write(self) -> Program:
        self.placeholders()
        outputs, specs = [], []
        for node in self.gm.graph.nodes:
            if node.op in ("call_function", "get_attr"):
                self.one(node)
        positions = {n: i for i, n in enumerate(self.gm.graph.find_nodes(op="placeholder"))}
        results = self.gm.graph.output_node().args[0]
        for a in results if isinstance(results, (list, tuple)) else [results]:
            output, spec = self.result(a, positions)
            outputs.append(output)
            specs.extend([spec] if spec else [])
        root = {
            "graph_module": {
                "graph": {
                    "inputs": [],
                    "outputs": [],
                    "nodes": self.nodes,
                    "tensor_values": self.types
                },
                "signature": {
                    "input_specs": self.specs,
                    "output_specs": specs
                },
            },
            "range_constraints": self.ranges,
            "schema_version": SCHEMA,
            "torch_version": torch.__version__,
        }
        return Program(json.dumps(root).encode(), self.inputs, self.weights, outputs)


def write(gm: GraphModule, constants: Mapping[int, torch.Tensor]) -> Program:
    """The graph as a program for Tenon."""
    return Writer(gm, constants).write()
