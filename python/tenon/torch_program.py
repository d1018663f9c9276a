"""A program of Tenon as a function of torch tensors: inputs by their address, results written into new tensors.

Weights are given by address while the program is made.  What the program packs for its kernels is a copy; embedding
tables are read in place at every call.  A program is for its weights: `Frozen` has one for each set of them,
and makes it anew when an optimizer or ``load_state_dict`` has changed them.

A graph of tensors on a GPU is a program for it (target "cuda"): its arguments are read in place, its results are
new tensors there, and all goes into PyTorch's current stream.  Weights come to the host to be packed, and go back with
the program, but for embedding tables.
"""
from __future__ import annotations

import ctypes as C
import math
import operator
import os
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from . import _ffi, gpu
from .errors import check, from_c, warn_notices, warn_of_program
from .options import Named
from .torch_export import DTYPES, Input, Program, Unsupported, hint

_run = _ffi.lib.tenon_session_run
_is, _version_of = operator.is_, operator.attrgetter("_version")
_empty, _CPU = torch.empty, torch.device("cpu")
_live: "weakref.WeakSet[Runner]" = weakref.WeakSet()


class Options(NamedTuple):
    """How programs are compiled and run."""
    target: str = "auto"
    threads: int = 0  # 0: as many as PyTorch uses
    precision: int = _ffi.PRECISION_DEFAULT
    math: int = _ffi.MATH_DEFAULT
    opt_level: int = 0
    cache: bool = True
    batch_invariant: bool = False
    device: Optional[str] = None
    named: Tuple[Tuple[str, Any], ...] = ()  # compile options by name


def place(tensor: torch.Tensor) -> Tuple[int, int]:
    """Whose memory a tensor lies in, and which device's."""
    if tensor.device.type != "cuda":
        return _ffi.MEMORY_HOST, 0
    return _ffi.MEMORY_CUDA, torch.cuda.current_device() if tensor.device.index is None else tensor.device.index


# ---- compiling ----


def describe(tensor: torch.Tensor, into: "_ffi.Tensor") -> None:
    """A dense tensor's address and type."""
    if tensor.dtype not in DTYPES:
        raise Unsupported(f"a tensor of {tensor.dtype}")
    into.data, into.dtype, into.rank = tensor.data_ptr() or None, DTYPES[tensor.dtype], tensor.dim()
    into.bytes = tensor.numel() * tensor.element_size()
    into.memory, into.device = place(tensor)
    for k, s in enumerate(tensor.shape):
        into.shape[k] = s


def compile_text(text: bytes, weights: Mapping[str, torch.Tensor], options: Options) -> int:
    """Opens a program with its weights and compiles it; the handle is the caller's."""
    error, model, made = _ffi.Error(), C.c_void_p(), C.c_void_p()
    tensors = (_ffi.NamedTensor * max(len(weights), 1))()
    keep = {name: w.detach().cpu().contiguous() for name, w in weights.items()}
    for slot, (name, w) in zip(tensors, keep.items()):
        slot.name = name.encode()
        describe(w, slot.tensor)
    opening = _ffi.OpenOptions(struct_size=C.sizeof(_ffi.OpenOptions), tensors=tensors, ntensors=len(weights))
    check(_ffi.lib.tenon_model_open_memory(text, len(text), C.byref(opening), C.byref(model), C.byref(error)), error)
    try:
        o = _ffi.Options(struct_size=C.sizeof(_ffi.Options),
                         target=options.target.encode(),
                         opt_level=options.opt_level,
                         math=options.math,
                         precision=options.precision,
                         no_cache=int(not options.cache),
                         batch_invariant=int(options.batch_invariant),
                         device=None if options.device is None else options.device.encode(),
                         last_use=1)
        named = Named(dict(options.named))
        named.put(o)
        check(_ffi.lib.tenon_compile(model, C.byref(o), C.byref(made), C.byref(error)), error)
        warn_of_program(made.value or 0, 2)
        warn_notices()
    finally:
        _ffi.lib.tenon_model_close(model)
    del keep
    return made.value or 0


# ---- sizes of results ----


def _sources(inputs: Sequence[Input]) -> Dict[sympy.Symbol, str]:
    """Where each symbol can be read from the arguments."""
    found: Dict[sympy.Symbol, str] = {}
    for one in inputs:
        sizes = enumerate(one.value.shape) if isinstance(one.value, torch.Tensor) else [(None, one.value)]
        for axis, s in sizes:
            expr = s.node.expr if isinstance(s, torch.SymInt) else None
            if isinstance(expr, sympy.Symbol):
                found.setdefault(expr, f"a[{one.at}]" if axis is None else f"a[{one.at}].shape[{axis}]")
    return found


def _code(size: Any, sources: Mapping[sympy.Symbol, str]) -> str:
    if not isinstance(size, torch.SymInt):
        return repr(int(size))
    expr = size.node.expr
    missing = [s for s in expr.free_symbols if s not in sources]
    if missing:
        raise Unsupported(f"a size {expr} that no input has")
    return PythonPrinter().doprint(expr)


def size_function(values: Sequence[Any], inputs: Sequence[Input]) -> Callable[[Sequence[Any]], Tuple[Any, ...]]:
    """From the arguments to the shapes (of tensors) and numbers: Python made of the sizes' expressions."""
    sources = _sources(inputs)
    parts = []
    for v in values:
        if isinstance(v, torch.Tensor):
            parts.append("(" + "".join(_code(s, sources) + ", " for s in v.shape) + ")")
        else:
            parts.append(_code(v, sources))
    used = "".join(f"    {s.name} = {where}\n" for s, where in sources.items())
    text = f"def sizes(a):\n{used}    return ({''.join(p + ', ' for p in parts)})\n"
    names: Dict[str, Any] = {"math": math, "torch": torch, "min": min, "max": max}
    exec(text, names)  # our own text: numbers and names of symbols
    return names["sizes"]


# ---- running ----


class _Frame:
    """A session with the structures of its calls, for one call at a time."""

    def __init__(self, program: int, nin: int, nout: int, threads: int) -> None:
        self.error = _ffi.Error()
        handle = C.c_void_p()
        options = _ffi.SessionOptions(struct_size=C.sizeof(_ffi.SessionOptions),
                                      threads=threads or torch.get_num_threads())
        check(_ffi.lib.tenon_session_create(program, C.byref(options), C.byref(handle), C.byref(self.error)),
              self.error)
        self.session = handle.value or 0
        weakref.finalize(self, _ffi.free, "tenon_session_release", self.session, os.getpid()).atexit = False
        self.inputs, self.outputs = (_ffi.Tensor * max(nin, 1))(), (_ffi.Tensor * max(nout, 1))()
        self.refs, self.rooms = list(self.inputs)[:nin], list(self.outputs)[:nout]
        self.options = _ffi.RunOptions(struct_size=C.sizeof(_ffi.RunOptions))
        self.at = (self.session, C.addressof(self.inputs), nin, C.addressof(self.outputs), nout,
                   C.addressof(self.options), C.addressof(self.error))


class _Taken(NamedTuple):
    at: int
    order: Optional[Tuple[int, ...]]
    moving: bool  # its shape differs from call to call
    number: bool


class Runner:
    """A compiled program, called with the list of all arguments of the graph."""

    def __init__(self, written: Program, options: Options) -> None:
        tensors = [v.value for v in (*written.inputs, *written.outputs) if isinstance(v.value, torch.Tensor)]
        places = {place(t) for t in (*tensors, *written.weights.values())} - {(_ffi.MEMORY_HOST, 0)}
        if len(places) > 1:
            raise Unsupported("tensors on several GPUs")
        self.device = places.pop()[1] if places else -1
        if self.device >= 0:
            if options.target not in ("auto", "cuda"):
                raise Unsupported(f"tensors on a GPU, for the target {options.target}")
            options = options._replace(target="cuda", device=str(self.device))
        self.program = compile_text(written.text, written.weights, options)
        weakref.finalize(self, _ffi.free, "tenon_program_release", self.program, os.getpid()).atexit = False
        self.options = options
        self.taken = [
            _Taken(i.at, i.order, not isinstance(i.value, torch.Tensor) or _is_open(i.value),
                   not isinstance(i.value, torch.Tensor)) for i in written.inputs
        ]
        self.types = [_type_of(i.value, i.order) for i in written.inputs]
        self.results = written.outputs
        tensors = [o for o in written.outputs if o.kind == "tensor"]
        self.made = [(o.value.dtype, o.order, tuple(o.value.shape), o.value.device) for o in tensors]
        self.homes = [place(i.value) if isinstance(i.value, torch.Tensor) else (0, 0) for i in written.inputs]
        self.rooms = [place(o.value) for o in tensors]
        self.open = any(_is_open(o.value) for o in tensors)
        self.sizes = size_function([o.value for o in tensors], written.inputs) if self.open else None
        numbers = [o.value for o in written.outputs if o.kind == "size"]
        self.numbers = size_function(numbers, written.inputs) if numbers else None
        self.plain = len(tensors) == len(written.outputs)
        self.frames: List[_Frame] = [self._frame()]
        _live.add(self)

    def _frame(self) -> _Frame:
        frame = _Frame(self.program, len(self.taken), len(self.made), self.options.threads)
        for ref, (dtype, shape, size) in zip(frame.refs, self.types):
            ref.dtype, ref.rank, ref.bytes = dtype, len(shape), size
            ref.shape[:len(shape)] = shape
        for ref, (memory, device) in zip(frame.refs, self.homes):
            ref.memory, ref.device = memory, device
        for room, (dtype, *_), (memory, device) in zip(frame.rooms, self.made, self.rooms):
            room.dtype, room.memory, room.device = DTYPES[dtype], memory, device
        return frame

    def __call__(self, args: Sequence[Any]) -> List[Any]:
        try:
            frame = self.frames.pop()
        except IndexError:  # another thread is inside
            frame = self._frame()
        keep = []
        for ref, (at, order, moving, number) in zip(frame.refs, self.taken):
            x = args[at]
            if number:
                x = torch.tensor(int(x), device=_CPU)
                keep.append(x)
            elif order is not None:
                x = x.permute(order)
            if not x.is_contiguous():
                x = x.contiguous()
                keep.append(x)
            ref.data = x.data_ptr()
            if moving and not number:
                ref.shape[:x.dim()] = x.shape
                ref.bytes = x.numel() * x.element_size()
        shapes = self.sizes(args) if self.sizes is not None else None
        made = []
        for i, (dtype, order, shape, device) in enumerate(self.made):
            if shapes is not None:
                shape = shapes[i]
            if order is None:
                y = _empty(shape, dtype=dtype, device=device)
            else:
                y = _empty([shape[k] for k in order], dtype=dtype, device=device)
            room = frame.rooms[i]
            room.data, room.bytes = y.data_ptr() or None, y.numel() * y.element_size()
            made.append(y if order is None else y.permute([order.index(k) for k in range(len(order))]))
        if self.device >= 0:
            frame.options.stream = gpu.torch_stream(self.device)
        status = _run(*frame.at)
        if status:
            raise from_c(status, frame.error)
        self.frames.append(frame)
        return made if self.plain else self._results(args, made)

    def _results(self, args: Sequence[Any], made: Sequence[Any]) -> List[Any]:
        tensors, numbers = iter(made), iter(self.numbers(args) if self.numbers is not None else ())
        give = {
            "tensor": lambda v: next(tensors),
            "size": lambda v: next(numbers),
            "argument": lambda v: args[v],
            "value": lambda v: v
        }
        return [give[o.kind](o.value) for o in self.results]


def _type_of(value: Any, order: Optional[Tuple[int, ...]]) -> Tuple[int, Tuple[int, ...], int]:
    """tenon_dtype, shape and bytes of an argument as the program takes it; dynamic shapes as Dynamo saw them first."""
    if not isinstance(value, torch.Tensor):
        return DTYPES[torch.int64], (), 8
    shape = [hint(s) for s in value.shape]
    size = math.prod(shape) * value.element_size()
    return DTYPES[value.dtype], tuple(shape if order is None else (shape[k] for k in order)), size


def _after_fork() -> None:
    """In a child: the threads of its sessions are the parent's, so that each begins with new ones."""
    for runner in list(_live):
        runner.frames = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_open(value: torch.Tensor) -> bool:
    return any(isinstance(s, torch.SymInt) for s in value.shape)


class Frozen:
    """A function whose arguments at ``static`` are weights: programs are made for them and kept.

    Identity and version of every weight are compared at each call, so that a program is never run with other weights
    than its own; ``p.data = ...``, which changes neither, is not noticed.
    """

    MOST = 64  # sets of weights, as of layers that share one graph

    def __init__(self, make: Callable[[Sequence[Any]], Callable[[Sequence[Any]], Any]], static: Sequence[int]) -> None:
        self.make = make
        self.weights_of = operator.itemgetter(*static) if len(static) > 1 else lambda a: tuple(a[i] for i in static)
        self.made: Dict[Tuple[int, ...], Tuple[Sequence[Any], int, Callable[[Sequence[Any]], Any]]] = {}
        self.last: Optional[Tuple[Sequence[Any], int, Callable[[Sequence[Any]], Any]]] = None

    def __call__(self, args: Sequence[Any]) -> Any:
        weights, last = self.weights_of(args), self.last
        if last is None or not all(map(_is, weights, last[0])):
            last = self.made.get(tuple(map(id, weights)))
        version = _versions(weights)
        if last is None or last[1] != version:
            if len(self.made) >= self.MOST:
                self.made.pop(next(iter(self.made)))
            last = self.made[tuple(map(id, weights))] = (weights, version, self.make(args))
        self.last = last
        return last[2](args)


def _versions(weights: Sequence[torch.Tensor]) -> int:
    try:
        return sum(map(_version_of, weights))
    except RuntimeError:  # tensors of torch.inference_mode have none
        return sum(_version_of(w) for w in weights if not w.is_inference())
