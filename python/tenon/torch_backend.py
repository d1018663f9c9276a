"""``torch.compile(model, backend="tenon")``, and ``tenon.compile`` of a torch module.

Dynamo's graph goes through AOTAutograd, which makes it functional and of ATen operators; composite operators that
Tenon's table has stay whole.  The graph is written as a program (torch_export.py) and compiled at the first call,
when the weights are there.  What the table lacks is left to PyTorch: the graph is cut around it, and each operator is
named once in a warning.  Inference alone: a graph that needs gradients runs as PyTorch runs it.
"""
from __future__ import annotations

import collections
import re
import threading
import warnings
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from . import options as options_by_name, torch_export
from .errors import TenonError, TenonWarning, UnsupportedError
from .model import MATHS, PRECISIONS, Model
from .options import compile_options
from .torch_export import Unsupported, known, op_name, table_name
from .torch_program import Frozen, Options, Runner

OPTIONS = {"target": "auto", "threads": 0, "precision": "f32", "math": "default", "optimize": 3, "cache": True,
           "batch_invariant": False}
_said: Set[str] = set()


def _say(what: str) -> None:
    """A warning, once for each text."""
    if what not in _said:
        _said.add(what)
        warnings.warn(what, TenonWarning, stacklevel=2)


def _options(given: Mapping[str, Any]) -> Options:
    own = {k: v for k, v in given.items() if k in OPTIONS}
    named, wrong = options_by_name.split({k: v for k, v in given.items() if k not in OPTIONS})
    if wrong:
        raise ValueError(f"tenon has no option {', '.join(sorted(wrong))}; it has {', '.join(OPTIONS)}, "
                         f"{', '.join(compile_options())}")
    o = {**OPTIONS, **own}
    return Options(o["target"], o["threads"] or 0, PRECISIONS[o["precision"]], MATHS[o["math"]], o["optimize"] or -1,
                   bool(o["cache"]), bool(o["batch_invariant"]), named=tuple(named.items()))


def decompositions() -> Dict[Any, Callable[..., Any]]:
    """PyTorch's ways to decompose what Tenon's table does not have."""
    table = torch._decomp.core_aten_decompositions()
    return {op: f for op, f in table.items() if not (isinstance(op, torch._ops.OpOverload) and known(table_name(op)))}


# ---- cutting ----


def _runs_alone(gm: GraphModule) -> bool:
    """Whether there is nothing to compute: sizes, views and results that are arguments."""
    return not any(n.op == "call_function" and _computes(n) for n in gm.graph.nodes)


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
        return Runner(written, self.options)

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
        weights = [
            args[i] if i in self.static else None for i, _ in enumerate(self.gm.graph.find_nodes(op="placeholder"))
        ]
        self.programs = 0
        for node in list(fused.graph.nodes):
            if node.op == "call_module":
                self._replace(fused, node, weights)
        fused.recompile()
        return lambda a: fused(*a)

    def _replace(self, fused: GraphModule, node: Node, weights: Sequence[Any]) -> None:
        """A part of the graph by a program."""
        inner = getattr(fused, node.target)
        place = {n: i for i, n in enumerate(fused.graph.find_nodes(op="placeholder"))}
        given = [weights[place[a]] if a in place else None for a in node.args]
        written = torch_export.write(inner, {k: w for k, w in enumerate(given) if w is not None})
        self.programs += 1
        single = not isinstance(inner.graph.output_node().args[0], (tuple, list))
        setattr(fused, node.target, _Part(Runner(written, self.options), single))


def _copied(gm: GraphModule) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return graph


def _computes(node: Node) -> bool:
    """Not a size, a view or a part of a tuple."""
    is_op = isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view
    return is_op and isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


def _worth(partition: Any) -> bool:
    """One operator alone is PyTorch's as well."""
    return sum(map(_computes, partition.nodes)) > 1


class _Part(torch.nn.Module):
    """A program as a module of the graph around it."""

    def __init__(self, runner: Runner, single: bool) -> None:
        super().__init__()
        self.runner, self.single = runner, single

    def forward(self, *args: Any) -> Any:
        made = self.runner(args)
        return made[0] if self.single else made


def _interpret(gm: GraphModule) -> Callable[[Sequence[Any]], Any]:

    def run(args: Sequence[Any]) -> Any:
        return gm(*args)

    return run


# ---- the backend ----

# The graphs that were compiled lately, for tests and for looking.
graphs: "Deque[Cut]" = collections.deque(maxlen=64)
_lock = threading.Lock()


def _inference(gm: GraphModule, options: Options) -> Callable[..., Any]:
    """What AOTAutograd calls with a functional graph."""
    static, changed = _static_inputs()
    cut = Cut(gm, [i for i in static if i not in changed], options)
    graphs.append(cut)
    ready: Callable[[Sequence[Any]], Any]

    def make(args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        with _lock, torch.no_grad(), _disable_current_modes():  # AOTAutograd watches every operator of a first call
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
    _say("tenon: a graph that needs gradients is left to PyTorch; "
         "inference goes under torch.no_grad() or torch.inference_mode()")
    return make_boxed_func(gm.forward)


# ---- modules, without torch.compile ----


def _axes(shape: Any) -> List[Tuple[int, Any]]:
    """(axis, Dim) of one input's entry in dynamic_shapes."""
    if isinstance(shape, Mapping):
        return list(shape.items())
    return list(enumerate(shape)) if isinstance(shape, (list, tuple)) else []


def _symbol_names(values: Mapping[str, torch.Tensor], shapes: Any) -> Dict[Any, str]:
    """What the caller calls the dynamic shapes: the names of the Dims that torch.export was given."""
    entries = shapes if isinstance(shapes, Mapping) else dict(zip(values, shapes or ()))
    names: Dict[Any, str] = {}
    for name, shape in entries.items():
        for axis, dim in _axes(shape):
            size = values[name].shape[axis] if name in values else None
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and hasattr(dim, "__name__"):
                names[size.node.expr] = dim.__name__
    return names


def compile_module(module: Any,
                   *example: Any,
                   dynamic_shapes: Any = None,
                   strict: bool = False,
                   **options: Any) -> Model:
    """What `tenon.compile` does with a torch module and example inputs, or with an ExportedProgram.

    The module is exported by torch.export; ``dynamic_shapes`` is passed on to it, and a ``Dim``'s name is that of the
    dynamic size.

    >>> import tenon
    >>> m = tenon.compile(torch.nn.Linear(4, 2), torch.zeros(3, 4))
    >>> m(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """
    from .model import compile as compile_model
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    else:
        args = example[0] if len(example) == 1 and isinstance(example[0], (tuple, list, Mapping)) else example
        named = isinstance(args, Mapping)
        training = [m for m in module.modules() if m.training]
        try:
            with torch.no_grad():
                program = torch.export.export(module.eval(), () if named else tuple(args),
                                              dict(args) if named else None,
                                              dynamic_shapes=dynamic_shapes,
                                              strict=strict)
        finally:  # as the caller had it
            for m in training:
                m.training = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        program = program.run_decompositions(decompositions())
    changed = [s.target for s in program.graph_signature.output_specs if s.target is not None]
    if changed:
        raise UnsupportedError(
            f"the module changes its state: {', '.join(map(str, changed))}; torch.compile(backend=\"tenon\") takes it")
    weights = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    constants = {i: weights[s.target] for i, s in enumerate(specs) if s.target is not None and s.target in weights}
    values = {
        n.name: n.meta.get("val")
        for i, n in enumerate(program.graph.find_nodes(op="placeholder")) if i not in constants
    }
    rename = _symbol_names({k: v for k, v in values.items() if isinstance(v, torch.Tensor)}, dynamic_shapes)
    try:
        written = torch_export.Writer(program.graph_module, constants, True, rename).write()
    except Unsupported as error:
        raise UnsupportedError(f"the module cannot be written as a program: {error}") from error
    kept = {name: w.contiguous() for name, w in written.weights.items()}
    return compile_model(written.text, weights=kept, **options)


def compile_fx(gm: GraphModule,
               example_inputs: Sequence[Any],
               options: Optional[Mapping[str, Any]] = None,
               **more: Any) -> Any:
    """The backend: ``torch.compile(model, backend="tenon", options={"threads": 2, "precision": "bf16"})``.

    >>> import tenon.torch_backend as backend
    >>> f = torch.compile(lambda x: torch.relu(x) + 1, backend=backend.compile_fx)
    >>> with torch.no_grad():
    ...     f(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    from torch._dynamo.backends.common import aot_autograd
    chosen = _options({**(options or {}), **more})
    return aot_autograd(fw_compiler=_training,
                        bw_compiler=_training,
                        inference_compiler=lambda g, _: _inference(g, chosen),
                        decompositions=decompositions())(gm, example_inputs)


def register() -> None:
    """Makes "tenon" a backend of torch.compile where the package was not installed, whose entry point does the same."""
    from torch._dynamo.backends.registry import list_backends, register_backend
    if "tenon" not in list_backends(exclude_tags=None):
        register_backend(compile_fx, "tenon")


register()
