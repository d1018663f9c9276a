"""Sessions: running a compiled program, with everything that a call needs made beforehand.

A session has its threads, its memory between operators and its tensor structures, and serves one thread at a time.
A call whose arrays are like those of the call before (`_Plan`) only writes addresses; every other one is checked in
words (`_general`).  A call with arrays on a GPU (gpu.py) works there, in the stream of the library that has them.
"""

from __future__ import annotations

import ctypes as C
import itertools
import os
import re
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _ffi, gpu, values
from .arrays import NUMPY, Kind, Shape, TorchKind, View, address_of, describe, kind_of, take, view_of
from .dtypes import BY_CODE, DType, array_dtype, library_name
from .errors import InvalidError, UnsupportedError, check, did_you_mean, from_c, warn_notices

if TYPE_CHECKING:
    from .model import Model

Dims = Optional[Tuple[Union[int, str], ...]]


class Value(NamedTuple):
    """An input or output of a model: its name, element type ("f32") and shape, with symbols ("batch") for dynamic
    dimensions.

    The shape is None where even the rank is dynamic; the dtype is "" where it is not known before a run.
    """

    name: str
    dtype: str
    shape: Dims
    type: str  # in words, as the C interface has it: "f32[batch, 10]"


def value_of(info: "_ffi.ValueInfo") -> Value:
    shape: Dims = None
    if info.kind == _ffi.KIND_TENSOR and info.rank >= 0:
        shape = tuple(
            (
                info.shape[k]
                if info.shape[k] >= 0
                else info.symbol[k].decode("utf-8", "replace") if info.symbol[k] else "?"
            )
            for k in range(info.rank)
        )
    dtype = BY_CODE[info.dtype].name if info.kind == _ffi.KIND_TENSOR and info.dtype in BY_CODE else ""
    return Value(info.name.decode("utf-8", "replace"), dtype, shape, info.type.decode("utf-8", "replace"))


class _Plan:
    """A call that was checked, for inputs of certain shapes: tensor structures in which only addresses are missing."""

    __slots__ = ("kind", "ins", "outs", "in_at", "out_at", "inputs", "outputs", "device", "where", "options", "options_at")

    def __init__(
        self, kind: Kind, ins: Any, outs: Any, in_types: Sequence[Any], out_types: Sequence[Any], wanted: Sequence[int]
    ) -> None:
        self.kind = kind
        self.device = -1  # of PyTorch's tensors: the GPU that has them all
        self.options, self.options_at = None, None  # where the call has some
        self.where: Any = "cpu"  # the same as PyTorch says it
        self.ins, self.outs = type(ins).from_buffer_copy(ins), type(outs).from_buffer_copy(outs)
        self.in_at, self.out_at = C.addressof(self.ins), C.addressof(self.outs)
        self.inputs = list(zip(self.ins, in_types))  # (tensor, the library's dtype)
        self.outputs = [(self.outs[i], tuple(self.outs[i].shape[: self.outs[i].rank]), out_types[i]) for i in wanted]


PLANS_MAX = 256
class _Call:
    """A call under way: the session knows it by a weak reference, so that one which was interrupted anywhere is over."""

    __slots__ = ("__weakref__",)


_BUSY = "the session is running in another thread: give each thread its own (model.session())"
# The quickest way to a writable array's address, which fails for others.
_addressof, _from_buffer = C.addressof, C.c_char.from_buffer
_session_run = _ffi.lib.tenon_session_run
# The words of a size's text: symbols, quoted where they are no identifiers, with ? where only a run shows them; and
# functions.
_WORD = re.compile(r"'[^']*'|\??[^\W\d][\w.]*")
_FUNCTIONS = {"floor", "ceil", "mod", "min", "max", "bcast"}
_live: "weakref.WeakSet[Session]" = weakref.WeakSet()


class Session:
    """Runs a model's program with threads and memory of its own: one for each thread that runs it.

    ``model(x)`` has one for every thread by itself; ``model.session()`` makes one to keep, for instance with
    another number of threads.  It is called as the model is.

    >>> import tenon, numpy as np
    >>> m = tenon.compile("examples/digits/digits.onnx")
    >>> s = m.session(threads=1)
    >>> s(np.zeros((2, 8, 8), np.float32)).shape
    (2, 10)
    """

    RUN_VALUES = "tenon_session_run_values"

    def __init__(self, model: "Model", threads: Optional[int] = None, profile: bool = False) -> None:
        self._model = model
        self._threads, self._profile = threads or 0, int(profile)
        self._error = _ffi.Error()
        self._error_at = C.addressof(self._error)
        self._nin, self._nout = len(model.inputs), len(model.outputs)
        self._in = (_ffi.Tensor * max(self._nin, 1))()
        self._out = (_ffi.Tensor * max(self._nout, 1))()
        self._in_at, self._out_at = C.addressof(self._in), C.addressof(self._out)
        self._in_list, self._out_list = list(self._in), list(self._out)
        self._in_types = [_type_named(v.dtype) for v in model.inputs]
        self._out_types = [_type_named(v.dtype) for v in model.outputs]
        self._names = [v.name for v in model.inputs]
        # By the wanted outputs, where not all are, and the inputs' shapes.
        self._shapes: Dict[Tuple[Any, ...], List[Shape]] = {}
        self._plans: Dict[Tuple[Any, ...], _Plan] = {}
        self._predictable = [_follows(v, model.inputs) for v in model.outputs]
        self._composite = not all(values.is_tensor(v.type) for v in model.inputs + model.outputs)
        self._lock = threading.Lock()  # around `_running`
        self._running: Optional["weakref.ref[_Call]"] = None
        self._options = _ffi.RunOptions(struct_size=C.sizeof(_ffi.RunOptions))
        self._options_at: Optional[int] = None  # of the call that is being made: its address, where it has some
        self._all = tuple(range(self._nout))
        self._wants: Dict[Tuple[int, ...], Tuple[Any, Any]] = {}  # options by wanted outputs, and what they refer to
        self._handle = 0
        self._open()
        _live.add(self)

    # ---- making and freeing ----

    def _open(self) -> None:
        options = _ffi.SessionOptions(
            struct_size=C.sizeof(_ffi.SessionOptions), threads=self._threads, profile=self._profile
        )
        handle = C.c_void_p()
        check(
            _ffi.lib.tenon_session_create(self._model._program, C.byref(options), C.byref(handle), self._error_at),
            self._error,
        )
        self._handle = handle.value or 0
        self._finalizer = weakref.finalize(self, _ffi.free, "tenon_session_release", self._handle, os.getpid())
        self._finalizer.atexit = False
        warn_notices(stacklevel=4)

    def _forget(self) -> None:
        """In a forked child: the threads of the session are the parent's.  It is left as it is, and made anew when
        used."""
        self._handle = 0
        self._plans.clear()
        self._lock = threading.Lock()
        self._running = None

    def _begin(self, call: _Call) -> None:
        with self._lock:
            if self._running is not None and self._running() is not None:
                raise InvalidError(_BUSY)
            self._running = weakref.ref(call)

    def _end(self, call: _Call) -> None:
        if self._running is not None and self._running() is call:
            self._running = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a session cannot be copied or pickled: save its model (model.save(path)) and tenon.load it there")

    def close(self) -> None:
        """Frees the session now; it is freed with its last reference otherwise.

        >>> import tenon
        >>> s = tenon.compile("examples/digits/digits.onnx").session()
        >>> s.close()
        """
        call = _Call()
        try:
            self._begin(call)
            self._plans.clear()
            self._handle = 0
            self._finalizer()
        finally:
            self._end(call)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()

    @property
    def model(self) -> "Model":
        """The model that it runs."""
        return self._model

    @property
    def threads(self) -> int:
        """Threads that it has, the caller's included."""
        if not self._handle:
            self._open()
        return _ffi.lib.tenon_session_threads(self._handle)

    @property
    def device_bytes(self) -> int:
        """Bytes of devices' memory that it has now, with the model's constants there, which all sessions of the model share;
        neither code nor arrays of the caller's are counted.  0 where everything is the host's.

        >>> import tenon
        >>> tenon.compile("examples/digits/digits.onnx", target="cpu").session(threads=1).device_bytes
        0
        """
        if not self._handle:
            self._open()
        return _ffi.lib.tenon_session_device_bytes(self._handle)

    # ---- running ----

    def __call__(self, *args: Any, out: Any = None, outputs: Optional[Sequence[str]] = None, **named: Any) -> Any:
        """Runs the model: see Model.__call__."""
        call = _Call()
        try:
            self._begin(call)
            made, wanted = None, None if outputs is None else self._positions(outputs, out)
            if not named:
                made = self._quickly(args, out, wanted)
            elif not args and len(named) == self._nin:
                made = self._quickly([named.get(n) for n in self._names], out, wanted)
            if made is None:
                return self._general(args, named, out, wanted)
            return made[0] if len(made) == 1 else tuple(made)
        finally:
            self._end(call)

    def run_list(self, feeds: Sequence[Any], out: Any = None, outputs: Optional[Sequence[str]] = None) -> List[Any]:
        """Runs with the inputs in order and gives all outputs, or those named, in order, as a list.  What only other
        outputs need is not computed.

        >>> import tenon, numpy as np
        >>> s = tenon.compile("examples/digits/digits.onnx").session()
        >>> [y.shape for y in s.run_list([np.zeros((2, 8, 8), np.float32)])]
        [(2, 10)]
        """
        call = _Call()
        try:
            self._begin(call)
            wanted = None if outputs is None else self._positions(outputs, out)
            made = self._quickly(feeds, out, wanted)
            return self._run(list(feeds), out, wanted) if made is None else made
        finally:
            self._end(call)

    def _positions(self, names: Sequence[str], out: Any) -> Optional[Tuple[int, ...]]:
        """The positions of outputs by their names; None when they are all, in the model's order."""
        if isinstance(names, str):
            raise InvalidError(f"outputs={names!r}: must be a list of names")
        if out is not None:
            raise InvalidError("out and outputs: a call takes one of the two")
        have = [v.name for v in self._model.outputs]
        for name in names:
            if name not in have:
                raise InvalidError(f"outputs: the model has no output {name!r}{did_you_mean(name, have)}; it has {', '.join(have)}")
        if len(set(names)) != len(names):
            raise InvalidError(f"outputs: {', '.join(map(str, names))}: a name is given twice")
        wanted = tuple(have.index(name) for name in names)
        return None if wanted == self._all else wanted

    def _options_for(self, wanted: Optional[Tuple[int, ...]]) -> Any:
        """The options of a call; a structure of its own for each set of outputs."""
        if wanted is None:
            return self._options
        if wanted not in self._wants:
            positions = (C.c_size_t * max(len(wanted), 1))(*wanted)
            options = _ffi.RunOptions(
                struct_size=C.sizeof(_ffi.RunOptions), wanted=C.addressof(positions), nwanted=len(wanted)
            )
            self._wants[wanted] = (options, positions)
        return self._wants[wanted][0]

    def _quickly(self, feeds: Sequence[Any], out: Any, wanted: Optional[Tuple[int, ...]] = None) -> Optional[List[Any]]:
        """A call like an earlier one; None when it is another."""
        try:
            shapes = tuple([x.shape for x in feeds])
            plan = self._plans[shapes if wanted is None else (wanted, shapes)]
        except (KeyError, AttributeError, TypeError):
            return None
        if out is not None and not isinstance(out, (list, tuple)):
            out = [out]
        made = self._numpy(plan, feeds, out) if plan.kind is NUMPY else self._torch(plan, feeds, out)
        if made is not None:
            if out is not None:
                _keep_apart(plan.ins, plan.outs, self._nin, self._nout, self._model)
            status = _session_run(
                self._handle, plan.in_at, self._nin, plan.out_at, self._nout, plan.options_at, self._error_at
            )
            if status:
                raise from_c(status, self._error)
        return made

    def _numpy(self, plan: _Plan, feeds: Sequence[Any], out: Optional[Sequence[Any]]) -> Optional[List[Any]]:
        """Writes the addresses of NumPy arrays into a plan, and gives the outputs; None when one is not as it
        should be."""
        for x, (tensor, dtype) in zip(feeds, plan.inputs):
            if type(x) is not np.ndarray or x.dtype != dtype:
                return None
            try:
                tensor.data = _addressof(_from_buffer(x))
            except (TypeError, ValueError, BufferError):  # read-only, of another library's dtype, or not contiguous
                if not x.flags.c_contiguous:
                    return None
                tensor.data = address_of(x)
        made: List[Any] = []
        if out is None:
            for tensor, shape, dtype in plan.outputs:
                y = np.empty(shape, dtype)
                try:
                    tensor.data = _addressof(_from_buffer(y))
                except ValueError:
                    tensor.data = address_of(y)
                made.append(y)
            return made
        for y, (tensor, shape, dtype) in zip(out, plan.outputs):
            if type(y) is not np.ndarray or y.dtype != dtype or y.shape != shape:
                return None
            try:
                tensor.data = _addressof(_from_buffer(y))
            except (TypeError, ValueError, BufferError):
                return None
            made.append(y)
        return made if len(made) == self._nout == len(out) else None

    def _torch(self, plan: _Plan, feeds: Sequence[Any], out: Optional[Sequence[Any]]) -> Optional[List[Any]]:
        """The same of PyTorch's tensors."""
        torch, device = plan.kind.torch, plan.device
        for x, (tensor, dtype) in zip(feeds, plan.inputs):
            if (
                type(x) is not torch.Tensor
                or x.dtype != dtype
                or x.get_device() != device
                or not x.is_contiguous()
                or x.is_neg()
            ):
                return None
            tensor.data = x.data_ptr()
        made: List[Any] = []
        if out is not None:
            for y, (tensor, shape, dtype) in zip(out, plan.outputs):
                if type(y) is not torch.Tensor or y.dtype != dtype or y.shape != shape or y.get_device() != device:
                    return None
                if not y.is_contiguous() or y.is_neg():
                    return None
                tensor.data = y.data_ptr()
                made.append(y)
            if len(made) != self._nout or len(out) != self._nout:
                return None
        else:
            where = plan.where
            for tensor, shape, dtype in plan.outputs:
                y = torch.empty(shape, dtype=dtype, device=where)
                tensor.data = y.data_ptr()
                made.append(y)
        if device >= 0:
            plan.options.stream = gpu.torch_stream(device)
        return made

    def _launch(self) -> None:
        status = _session_run(
            self._handle, self._in_at, self._nin, self._out_at, self._nout, self._options_at, self._error_at
        )
        if status:
            raise from_c(status, self._error)

    def wait(self) -> None:
        """Waits for calls with arrays on a GPU, which return as soon as their work is in the stream, and raises what
        one of them found wrong (an index out of range) that no later call has raised.

        >>> import tenon
        >>> tenon.compile("examples/digits/digits.onnx").session().wait()
        """
        call = _Call()
        try:
            self._begin(call)
            check(_ffi.lib.tenon_session_wait(self._handle, self._error_at), self._error) if self._handle else None
        finally:
            self._end(call)

    def _general(
        self, args: Sequence[Any], named: Mapping[str, Any], out: Any, wanted: Optional[Tuple[int, ...]]
    ) -> Any:
        feeds, as_dict = self._model._order(args, named)
        made = self._run(feeds, out, wanted)
        if as_dict:
            return {self._model.outputs[i].name: y for i, y in zip(self._all if wanted is None else wanted, made)}
        return made[0] if len(made) == 1 else tuple(made)

    def _run(self, feeds: List[Any], out: Any, wanted: Optional[Tuple[int, ...]] = None) -> List[Any]:
        if not self._handle:
            self._open()
        model = self._model
        if len(feeds) != self._nin:
            raise InvalidError(f"the model takes {self._nin} inputs ({model._names()}), {len(feeds)} are given")
        if self._composite:
            return self._run_values(feeds, out, wanted)
        given = self._given(out)
        home, kind = self._home(feeds, given)
        views = [_checked_view(x, v, t, home) for x, v, t in zip(feeds, model.inputs, self._in_types)]
        shapes = tuple(v.shape for v in views)
        model._check_ranges(shapes)
        for tensor, view in zip(self._in_list, views):
            describe(tensor, view)
        key: Tuple[Any, ...] = shapes if wanted is None else (wanted, shapes)
        known = self._shapes.get(key)
        if known is None and home is not None:
            known = _shapes_of(model.outputs, model.inputs, shapes)
        _check_devices(feeds, views, home)
        positions = self._all if wanted is None else wanted
        made, held = self._rooms(kind, given, known, home, positions)
        if out is not None:
            _keep_apart(self._in, self._out, self._nin, self._nout, model)
        options = self._options_for(wanted)
        options.stream = home.stream if home is not None else None
        self._options_at = C.addressof(options) if home is not None or wanted is not None else None
        try:
            self._launch()
            if home is not None and not home.told:
                check(_ffi.lib.tenon_session_wait(self._handle, self._error_at), self._error)
            results = self._results(kind, given, made, key, home, positions)
            self._keep_plan(kind, feeds, views, key, wanted)
        finally:
            for tensor in self._out_list:  # what a failure between left behind
                _ffi.lib.tenon_tensor_release(C.addressof(tensor))
            held.clear()  # views of the caller's arrays, alive until here
        return results

    def _run_values(self, feeds: List[Any], out: Any, wanted: Optional[Tuple[int, ...]]) -> List[Any]:
        """Where an input or output is a sequence, an optional or a map; results are NumPy's."""
        if out is not None:
            raise InvalidError("out: a model with sequences, optionals or maps makes its outputs itself")
        model = self._model
        types = [v.type for v in model.inputs]
        for x, v, t in zip(feeds, model.inputs, self._in_types):
            if values.is_tensor(v.type):
                _checked_view(x, v, t)
        options = None if wanted is None else C.addressof(self._options_for(wanted))
        made = values.run(self.RUN_VALUES, self._handle, list(zip(feeds, types, self._in_types)), self._nout, options)
        return [made[i] for i in (self._all if wanted is None else wanted)]

    def _home(self, feeds: Sequence[Any], given: Sequence[Any]) -> Tuple[Optional[gpu.Home], Kind]:
        """Where the call works, if that is a GPU, and what its results are."""
        for x in itertools.chain(feeds, given):
            if isinstance(x, np.ndarray) or x is None:
                continue
            device = gpu.device_of(x)
            if device is not None and self._runs_on_gpu():
                return gpu.home_of(x, device), kind_of(x)
        return None, next((k for k in map(kind_of, feeds) if k is not NUMPY), NUMPY)

    def _runs_on_gpu(self) -> bool:
        return "cuda" in self._model.target.split(",")

    def _given(self, out: Any) -> List[Optional[Any]]:
        """The caller's array for each output, or None."""
        model = self._model
        if out is None:
            return [None] * self._nout
        if isinstance(out, Mapping):
            names = [v.name for v in model.outputs]
            for name in out:
                if name not in names:
                    raise InvalidError(
                        f"out: the model has no output '{name}'{did_you_mean(name, names)}; it has {', '.join(names)}"
                    )
            return [out.get(name) for name in names]
        if not isinstance(out, (list, tuple)):
            out = [out]
        if len(out) != self._nout:
            raise InvalidError(f"out: the model has {self._nout} outputs, {len(out)} arrays are given")
        return list(out)

    def _rooms(
        self,
        kind: Kind,
        given: List[Any],
        known: Optional[Sequence[Optional[Shape]]],
        home: Optional[gpu.Home],
        wanted: Sequence[int],
    ) -> Tuple[List[Any], List[View]]:
        """Says where each output goes: into the caller's array, a new one, or (unknown size) memory that the run
        allocates.  Gives these arrays, and the views of the caller's."""
        made: List[Any] = []
        held: List[View] = []
        for i, tensor in enumerate(self._out_list):
            array, t = given[i], self._out_types[i]
            tensor.data, tensor.bytes, tensor.owner = None, 0, None
            tensor.memory = tensor.device = 0
            shape = known[i] if known is not None and self._predictable[i] and i in wanted else None
            if array is not None:
                view = _writable(array, self._model.outputs[i], t, home)
                held.append(view)
                tensor.data, tensor.bytes = view.address, view.nbytes
                tensor.memory, tensor.device = view.memory, view.device
            elif shape is not None and t is not None and t.bits >= 8:
                device = home.device if home is not None and kind.on_gpu else None
                array, tensor.data = kind.empty(t, shape, device)
                tensor.bytes = _ffi.lib.tenon_tensor_size(t.code, len(shape), (C.c_int64 * len(shape))(*shape))
                if not tensor.bytes:
                    tensor.data = None  # nothing to write: the run gives it an address
                if device is not None:
                    tensor.memory, tensor.device = _ffi.MEMORY_CUDA, device
            made.append(array)
        return made, held

    def _results(
        self,
        kind: Kind,
        given: List[Any],
        made: List[Any],
        key: Tuple[Any, ...],
        home: Optional[gpu.Home],
        wanted: Sequence[int],
    ) -> List[Any]:
        seen: List[Shape] = [()] * self._nout
        for i in wanted:
            tensor = self._out_list[i]
            shape = tuple(tensor.shape[: tensor.rank])
            seen[i] = shape
            if made[i] is None:
                t = BY_CODE[tensor.dtype]
                made[i] = kind.wrap(take(tensor), t)
                if home is not None:
                    made[i] = kind.move(made[i], home.device)
            elif given[i] is not None and tuple(given[i].shape) != shape:
                raise InvalidError(
                    f"output '{self._model.outputs[i].name}' is {list(shape)}, the array given for it is "
                    f"{list(given[i].shape)}"
                )
        if len(self._shapes) < 4096:
            self._shapes[key] = seen
        return [made[i] for i in wanted]

    def _keep_plan(
        self, kind: Kind, feeds: List[Any], views: List[View], key: Tuple[Any, ...], wanted: Optional[Tuple[int, ...]]
    ) -> None:
        """Remembers a call that went well, where the next one like it gives outputs of the same shapes."""
        types = self._out_types
        positions = self._all if wanted is None else wanted
        if (
            not all(self._predictable[i] for i in positions)
            or any(t is None or t.bits < 8 for t in types)
            or any(0 in s for s in self._shapes.get(key, [(0,)]))
        ):
            return
        if kind is NUMPY and all(view.keep is x and not view.memory for x, view in zip(feeds, views)):
            out_types = [array_dtype(t) for t in types]
        elif isinstance(kind, TorchKind) and all(type(x) is kind.torch.Tensor and x.is_contiguous() for x in feeds):
            out_types = [kind.dtype(t) for t in types]
        else:
            return
        outs = [self._out_list[i] for i in positions]
        devices = {(t.memory, t.device) for t in itertools.chain(self._in_list[: self._nin], outs)}
        if len(devices) != 1:
            return
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        plan = self._plans[key] = _Plan(kind, self._in, self._out, [x.dtype for x in feeds], out_types, positions)
        memory, device = devices.pop()
        if memory == _ffi.MEMORY_CUDA or wanted is not None:
            plan.options = self._options_for(wanted)
            plan.options_at = C.addressof(plan.options)
        if memory == _ffi.MEMORY_CUDA:
            plan.device = device
            plan.where = kind.torch.device("cuda", device) if isinstance(kind, TorchKind) else None
        for tensor, t in ((plan.outs[i], types[i]) for i in positions):
            tensor.owner = None
            tensor.bytes = _ffi.lib.tenon_tensor_size(t.code, tensor.rank, tensor.shape)


# ---- checks ----


def _type_named(name: str) -> Optional[DType]:
    return next((t for t in BY_CODE.values() if t.name == name), None)


def _follows(output: Value, inputs: Sequence[Value]) -> bool:
    """Whether an output's shape is a function of the inputs' shapes, so that equal ones give an equal one."""
    if output.shape is None:
        return False
    known = {w for v in inputs for s in v.shape or () if isinstance(s, str) for w in _WORD.findall(s)} | _FUNCTIONS
    return all(s != "?" and set(_WORD.findall(s)) <= known for s in output.shape if isinstance(s, str))


def _shapes_of(
    outputs: Sequence[Value], inputs: Sequence[Value], shapes: Sequence[Shape]
) -> List[Optional[Shape]]:
    """The shapes of outputs whose sizes are numbers and symbols that inputs have; None for others."""
    bound: Dict[Any, int] = {}
    for value, shape in zip(inputs, shapes):
        bound.update({s: n for s, n in zip(value.shape or (), shape) if isinstance(s, str)})
    found: List[Optional[Shape]] = []
    for value in outputs:
        sizes = [bound.get(s) if isinstance(s, str) else s for s in value.shape or ()]
        found.append(None if value.shape is None or None in sizes else tuple(s for s in sizes if s is not None))
    return found


def _fits(shape: Shape, want: Dims) -> bool:
    return want is None or (len(shape) == len(want) and all(isinstance(w, str) or n == w for n, w in zip(shape, want)))


def _checked_view(x: Any, value: Value, want: Optional[DType], home: Optional[gpu.Home] = None) -> View:
    try:
        view = view_of(x, want, home)
    except (InvalidError, UnsupportedError) as error:
        raise type(error)(f"input '{value.name}' ({value.type}): {error}", value.name) from None
    except (TypeError, ValueError) as error:
        raise InvalidError(f"input '{value.name}' ({value.type}): {error}", value.name) from None
    if want is not None and view.dtype.code != want.code:
        raise InvalidError(
            f"input '{value.name}' is {value.type}, given is {view.dtype.name}{list(view.shape)}: "
            f"convert it, for instance with x.astype({_astype(want)})",
            value.name,
        )
    if len(view.shape) > _ffi.MAX_RANK or not _fits(view.shape, value.shape):
        raise InvalidError(
            f"input '{value.name}' is {value.type}, given is {view.dtype.name}{list(view.shape)}", value.name
        )
    return view


def _astype(t: DType) -> str:
    return f'"{array_dtype(t).name}"' if t.numpy is not None and t.numpy.isbuiltin == 1 else f"ml_dtypes.{library_name(t)}"


def _writable(array: Any, value: Value, want: Optional[DType], home: Optional[gpu.Home] = None) -> View:
    if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.flags.writeable):
        raise InvalidError(f"out: the array for output '{value.name}' must be writable and contiguous (row-major)")
    if want is not None and (want.bits < 8 or want.name == "string"):
        raise UnsupportedError(f"out: output '{value.name}' is {value.type}, which has no form in a caller's array")
    if not isinstance(array, np.ndarray) and not hasattr(array, "__dlpack__") and gpu.device_of(array) is None:
        raise InvalidError(f"out: {type(array).__name__} for output '{value.name}' is no array")
    view = view_of(array, want, home)
    own = isinstance(view.keep, np.ndarray) == isinstance(array, np.ndarray) and not view.copied
    if not own or (isinstance(array, np.ndarray) and view.address != address_of(array)):
        raise InvalidError(
            f"out: the array for output '{value.name}' must be contiguous (row-major), in this machine's byte order, "
            "with no sign or conjugation pending"
        )
    if want is not None and view.dtype.code != want.code or not _fits(view.shape, value.shape):
        raise InvalidError(
            f"out: output '{value.name}' is {value.type}, the array given for it is "
            f"{view.dtype.name}{list(view.shape)}",
            value.name,
        )
    return view


def _keep_apart(ins: Any, outs: Any, nin: int, nout: int, model: "Model") -> None:
    """Refuses outputs whose memory is that of an input or of another output: what is read would be overwritten."""
    for i in range(nout):
        y = outs[i]
        at, size, memory = y.data, y.bytes, y.memory
        for k in range(nin + i if at else 0):
            x = ins[k] if k < nin else outs[k - nin]
            if x.memory == memory and x.data and x.data < at + size and at < x.data + x.bytes:
                name = f"input '{model.inputs[k].name}'" if k < nin else f"output '{model.outputs[k - nin].name}'"
                raise InvalidError(
                    f"out: the array for output '{model.outputs[i].name}' shares memory with that of {name}: "
                    "give one of its own"
                )


def _check_devices(feeds: Sequence[Any], views: Sequence[View], home: Optional[gpu.Home]) -> None:
    """Arrays on GPUs are on one, and those whose library tells no stream but by its interface have one stream."""
    if home is None:
        return
    for x, view in zip(feeds, views):
        if view.memory == _ffi.MEMORY_CUDA and view.device != home.device:
            raise InvalidError(f"arrays on two GPUs, {home.device} and {view.device}: bring them to one")
        stream = gpu.told_stream(x)
        if stream is not None and stream != home.stream:
            raise InvalidError(
                f"an array is in stream {stream}, the call works in stream {home.stream}: wait for it, and give it without one"
            )


def after_fork() -> None:
    """In a forked child, before it goes on."""
    for session in list(_live):
        session._forget()
