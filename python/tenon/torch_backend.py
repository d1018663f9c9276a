"""``torch.compile(model, backend="tenon")``, and ``tenon.compile`` of a torch module.

Dynamo's graph goes through AOTAutograd, which makes it functional and of ATen operators; composite operators that Tenon's table has stay
whole.  The graph is written as a program (torch_export.py) and compiled at the first call, when the weights are there.  What the table
lacks is left to PyTorch: the graph is cut around it, and each operator is named once in a warning.  Inference alone: a graph that needs
gradients runs as PyTorch runs it.
"""
from __future__ import annotations

import re
import threading
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node

from . import torch_export
from .errors import TenonError, TenonWarning
from .model import MATHS, PRECISIONS, Model
from .torch_export import Unsupported, known, op_name, table_name
from .torch_program import Frozen, Options, Runner, compile_text

OPTIONS = {"target": "auto", "threads": 0, "precision": "f32", "math": "default", "optimize": 3, "cache": True}
_said: Set[str] = set()


def _say(what: str) -> None:
    """A warning, once for each text."""
    if what not in _said:
        _said.add(what)
        warnings.warn(what, TenonWarning, stacklevel=2)


def _options(given: Mapping[str, Any]) -> Options:
    wrong = set(given) - set(OPTIONS)
    if wrong:
        raise ValueError(f"tenon has no option {', '.join(sorted(wrong))}; it has {', '.join(OPTIONS)}")
    o = {**OPTIONS, **given}
    return Options(o["target"], o["threads"] or 0, PRECISIONS[o["precision"]], MATHS[o["math"]], o["optimize"] or -1, bool(o["cache"]))


def decompositions() -> Dict[Any, Callable[..., Any]]:
    """PyTorch's ways to take apart what Tenon's table does not have."""
    table = torch._decomp.core_aten_decompositions()
    return {op: f for op, f in table.items() if not (isinstance(op, torch._ops.OpOverload) and known(table_name(op)))}


# ---- cutting ----


def _runs_alone(gm: GraphModule) -> bool:
    """Whether there is nothing to compute: sizes, views and results that are arguments."""
    return not any(n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and
                   isinstance(n.meta.get("val"), (torch.Tensor, list, tuple)) for n in gm.graph.nodes)


class Cut:
    """A graph and the operators in it that are PyTorch's."""

    def __init__(self, gm: GraphModule, static: Sequence[int], options: Options) -> None:
        self.gm, self.static, self.options = gm, set(static), options
        self.banned: Set[str] = set()
        self.programs = 0

    def supports(self, node: Node) -> bool:
        return torch_export.supported(node) and str(node.target) not in self.banned

    def function(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        """Compiled for these arguments: their weights, and the sizes that the graph has open."""
        while True:
            try:
                return self._whole(args) if self._is_whole() else self._parts(args)
            except (TenonError, Unsupported) as error:
                op = self._culprit(error)
                if op is None:
                    _say(f"tenon: a graph is left to PyTorch: {error}")
                    return _interpret(self.gm)
                self.banned.add(op)
                _say(f"tenon: {op} is left to PyTorch: {error}")

    def _is_whole(self) -> bool:
        return all(self.supports(n) for n in self.gm.graph.nodes if n.op == "call_function")

    def _culprit(self, error: Exception) -> Optional[str]:
        """The operator that an error names, if it is one that a cut can avoid."""
        found = re.findall(r"torch\.ops\.([\w.]+\w)", str(error)) + [getattr(error, "op", "")]
        here = {str(n.target) for n in self.gm.graph.nodes if n.op == "call_function"}
        return next((op for op in found if op in here and op not in self.banned), None)

    def _whole(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        if _runs_alone(self.gm):
            return _interpret(self.gm)
        self.programs = 1
        written = torch_export.write(self.gm, {i: args[i] for i in self.static})
        return Runner(written, args, self.options)

    def _parts(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.passes.operator_support import create_op_support
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and not torch_export.supported(node):
                _say(f"tenon: {op_name(node)} is left to PyTorch: it is not in the table of operators")
        copy = GraphModule(self.gm, _copied(self.gm))
        support = create_op_support(lambda _, node: self.supports(node))
        cut = CapabilityBasedPartitioner(copy, support, allows_single_node_partition=True)
        fused = cut.fuse_partitions([p for p in cut.propose_partitions() if _worth(p)])
        weights = [args[i] if i in self.static else None for i, _ in enumerate(self.gm.graph.find_nodes(op="placeholder"))]
        self.programs = 0
        for node in list(fused.graph.nodes):
            if node.op == "call_module":
                self._replace(fused, node, weights)
        fused.recompile()
        return lambda a: fused(*a)

    def _replace(self, fused: GraphModule, node: Node, weights: Sequence[Any]) -> None:
        """A part of the graph by a function that is compiled at its first call."""
        inner = getattr(fused, node.target)
        outer = fused.graph.find_nodes(op="placeholder")
        place = {n: i for i, n in enumerate(outer)}
        constants = {k: weights[place[a]] for k, a in enumerate(node.args) if a in place and weights[place[a]] is not None}
        self.programs += 1
        part = _Part(inner, constants, self.options)
        setattr(fused, node.target, part)


def _copied(gm: GraphModule) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return graph


def _worth(partition: Any) -> bool:
    """More than sizes and views: something is computed."""
    return sum(isinstance(n.target, torch._ops.OpOverload) and isinstance(n.meta.get("val"), (torch.Tensor, tuple, list)) and
               not n.target.is_view for n in partition.nodes) > 1


class _Part(torch.nn.Module):
    """A partition as a module of the graph around it."""

    def __init__(self, inner: GraphModule, constants: Mapping[int, torch.Tensor], options: Options) -> None:
        super().__init__()
        self.single = not isinstance(inner.graph.output_node().args[0], (tuple, list))
        self.__dict__.update(inner=inner, constants=constants, options=options, run=None)

    def forward(self, *args: Any) -> Any:
        if self.run is None:
            self.__dict__["run"] = self._compiled(args)
        made = self.run(args)
        return made[0] if self.single and isinstance(made, (list, tuple)) else made

    def _compiled(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        try:
            return Runner(torch_export.write(self.inner, self.constants), args, self.options)
        except (TenonError, Unsupported) as error:
            _say(f"tenon: a part of a graph is left to PyTorch: {error}")
            return _interpret(self.inner)


def _interpret(gm: GraphModule) -> Callable[[Sequence[Any]], Any]:
    def run(args: Sequence[Any]) -> Any:
        return gm(*args)

    return run


# ---- the backend ----


class Graphs(List[Cut]):
    """Every graph that was compiled since the last `clear`, for tests and for looking."""


graphs = Graphs()
_lock = threading.Lock()


def _inference(gm: GraphModule, options: Options) -> Callable[..., Any]:
    """What AOTAutograd calls with a functional graph."""
    static, changed = _static_inputs()
    cut = Cut(gm, [i for i in static if i not in changed], options)
    graphs.append(cut)
    ready: Callable[[Sequence[Any]], Any]

    def make(args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        with _lock, torch.no_grad():
            return cut.function(args)

    if cut.static:
        ready = Frozen(make, sorted(cut.static))
    else:
        ready = _Once(make)

    def run(args: List[Any]) -> Any:
        made = ready(args)
        args.clear()
        return made

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _Once:
    """A function that is made at its first call."""

    def __init__(self, make: Callable[[Sequence[Any]], Callable[[Sequence[Any]], Any]]) -> None:
        self.make, self.function = make, None

    def __call__(self, args: Sequence[Any]) -> Any:
        if self.function is None:
            self.function = self.make(args)
        return self.function(args)


def _static_inputs() -> Tuple[Sequence[int], Set[int]]:
    """The arguments that are parameters and buffers, and those that the graph changes."""
    context = torch._guards.TracingContext.try_get()
    meta = getattr(context, "fw_metadata", None)
    if meta is None:
        return (), set()
    changed = {i for i, info in enumerate(meta.input_info) if info.mutates_data or info.mutates_metadata}
    return list(meta.static_input_indices or ()), changed


def _training(gm: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    from functorch.compile import make_boxed_func
    _say("tenon: a graph that needs gradients is left to PyTorch; inference goes under torch.no_grad() or torch.inference_mode()")
    return make_boxed_func(gm.forward)


def compile_fx(gm: GraphModule, example_inputs: Sequence[Any], options: Optional[Mapping[str, Any]] = None, **more: Any) -> Any:
    """The backend: ``torch.compile(model, backend="tenon", options={"threads": 2, "precision": "bf16"})``.

    >>> import tenon.torch_backend as backend
    >>> f = torch.compile(lambda x: torch.relu(x) + 1, backend=backend.compile_fx)
    >>> with torch.no_grad():
    ...     f(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    from torch._dynamo.backends.common import aot_autograd
    chosen = _options({**(options or {}), **more})
    return aot_autograd(fw_compiler=_training, bw_compiler=_training, inference_compiler=lambda g, _: _inference(g, chosen),
                        decompositions=decompositions())(gm, example_inputs)
