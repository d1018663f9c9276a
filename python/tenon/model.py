"""Compiled models: compile, load, save, call."""

from __future__ import annotations

import ctypes as C
import inspect
import os
import threading
import warnings
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _ffi, options as options_by_name, progress as progresses, session as sessions
from .arrays import address_of
from .errors import InvalidError, TenonWarning, check, did_you_mean, warn_notices, warn_of_program
from .opening import OpenedModel, bytes_of  # noqa: F401
from .profile import Profile, random_inputs, measure
from .progress import ProgressFunction, Watch, bar_for, watched
from .session import Session, Value, value_of

Range = Tuple[int, int]
MATHS = {"default": _ffi.MATH_DEFAULT, "exact": _ffi.MATH_EXACT, "fast": _ffi.MATH_FAST}
PRECISIONS = {"f32": _ffi.PRECISION_DEFAULT, "default": _ffi.PRECISION_DEFAULT, "bf16": _ffi.PRECISION_BF16, "tf32": _ffi.PRECISION_TF32,
              "f16": _ffi.PRECISION_F16}
_models: "weakref.WeakSet[Model]" = weakref.WeakSet()


# ---- models ----


class Model:
    """A compiled model.  Call it with arrays; `compile` and `load` make it.

    Any number of threads may call it at once: each has a session of its own over the same code.

    >>> import tenon, numpy as np
    >>> m = tenon.compile("examples/digits/digits.onnx")
    >>> m.inputs[0].name, m.inputs[0].dtype, m.inputs[0].shape
    ('image', 'f32', ('batch', 8, 8))
    >>> m.outputs[0].type
    'f32[batch, 10]'
    >>> m(np.zeros((3, 8, 8), np.float32)).shape
    (3, 10)
    """

    SESSION = Session
    RELEASE = "tenon_program_release"
    inputs: Tuple[Value, ...]
    outputs: Tuple[Value, ...]

    def __init__(
        self,
        program: int,
        source: str = "",
        threads: Optional[int] = None,
        ranges: Optional[Mapping[str, Range]] = None,
        keep: Sequence[Any] = (),
    ) -> None:
        if not isinstance(program, int):
            raise TypeError("a Model is made by tenon.compile (of a model) or tenon.load (of a compiled one)")
        self._program = program
        self._finalizer = weakref.finalize(self, _ffi.free, self.RELEASE, program, os.getpid())
        self._finalizer.atexit = False
        self._source, self._threads, self._keep = source, threads, keep
        self._bytes = next((x for x in keep if isinstance(x, np.ndarray)), None)
        self._ranges = dict(ranges or {})
        self._describe()
        self._position = {v.name: i for i, v in enumerate(self.inputs)}
        self._local = threading.local()
        _models.add(self)

    def _describe(self) -> None:
        self.inputs, self.outputs = values_of("program", "input", self._program), values_of(
            "program", "output", self._program
        )

    def _after_fork(self) -> None:
        self._local = threading.local()

    def __copy__(self) -> "Model":
        return self  # nothing of it changes

    def __deepcopy__(self, memo: Any) -> "Model":
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a model is not pickled: save it (model.save(path)), and tenon.load(path) where it is wanted")

    # ---- calling ----

    def __call__(self, *args: Any, out: Any = None, outputs: Optional[Sequence[str]] = None, **named: Any) -> Any:
        """Runs the model.

        Inputs come in the model's order, by name, or as one dict; outputs go back in the same kind of array: one
        output as itself, several as a tuple, and a dict where a dict came in.  ``out`` is an array, a list or a
        dict of arrays that outputs are written into.  ``outputs`` names those that are wanted, in this order; what
        only others need is not computed.  Contiguous arrays are read in place; nothing is converted.

        >>> import tenon, numpy as np
        >>> m = tenon.compile("examples/digits/digits.onnx")
        >>> x = np.zeros((1, 8, 8), np.float32)
        >>> y = m(x)
        >>> bool((m(image=x) == y).all() and (m({"image": x})["probability"] == y).all())
        True
        >>> room = np.empty((1, 10), np.float32)
        >>> m(x, out=room) is room
        True
        """
        try:
            session = self._local.session
        except AttributeError:
            session = self._local.session = self.SESSION(self, self._threads)
        return session(*args, out=out, outputs=outputs, **named)

    def session(self, threads: Optional[int] = None, profile: bool = False) -> Session:
        """A session of one's own, with its own threads and memory, for one thread at a time.

        >>> import tenon
        >>> tenon.compile("examples/digits/digits.onnx").session(threads=1).threads
        1
        """
        return self.SESSION(self, self._threads if threads is None else threads, profile)

    def _order(self, args: Sequence[Any], named: Mapping[str, Any]) -> Tuple[List[Any], bool]:
        """The inputs in order, and whether they came as a dict."""
        as_dict = len(args) == 1 and not named and isinstance(args[0], Mapping)
        if as_dict and len(self.inputs) == 1 and self.inputs[0].type.startswith("map"):
            as_dict = self.inputs[0].name in args[0]  # else it is the input itself
        if as_dict:
            args, named = (), args[0]
        if len(args) > len(self.inputs):
            raise InvalidError(f"the model takes {len(self.inputs)} inputs ({self._names()}), {len(args)} are given")
        feeds: List[Any] = list(args) + [None] * (len(self.inputs) - len(args))
        for name, x in named.items():
            i = self._position.get(name)
            if i is None:
                near = did_you_mean(name, [v.name for v in self.inputs])
                raise InvalidError(f"the model has no input '{name}'{near}; it has {self._names()}")
            if i < len(args):
                raise InvalidError(f"input '{name}' is given twice, by position and by name")
            feeds[i] = x
        missing = [v.name for v, x in zip(self.inputs, feeds) if x is None and not v.type.startswith("opt")]
        if missing:
            raise InvalidError(
                f"nothing is given for input {', '.join(repr(n) for n in missing)}; the model takes {self._names()}"
            )
        return feeds, as_dict

    def _names(self) -> str:
        return ", ".join(f"{v.name}: {v.type}" for v in self.inputs) or "none"

    def _check_ranges(self, shapes: Sequence[Sequence[int]]) -> None:
        for value, shape in zip(self.inputs, shapes) if self._ranges else ():
            for symbol, size in zip(value.shape or (), shape):
                low, high = self._ranges.get(symbol, (size, size))
                if not low <= size <= high:
                    raise InvalidError(
                        f"input '{value.name}' is {value.type}: {symbol} is {size}, the model was compiled for "
                        f"{low} to {high}"
                    )

    # ---- what it is ----

    @property
    def info(self) -> Dict[str, Any]:
        """What the program is made of: target, kernels, steps, host_steps (done by the reference evaluation), bytes.

        >>> import tenon
        >>> sorted(tenon.compile("examples/digits/digits.onnx").info)
        ['code_bytes', 'constant_bytes', 'host_steps', 'kernels', 'steps', 'target']
        """
        info = _ffi.ProgramInfo()
        _ffi.lib.tenon_program_describe(self._program, C.byref(info))
        return {
            "target": info.target.decode(),
            "kernels": info.kernels,
            "steps": info.steps,
            "host_steps": info.host_steps,
            "code_bytes": info.code_bytes,
            "constant_bytes": info.constant_bytes,
        }

    @property
    def target(self) -> str:
        """What it was compiled for: "cpu"."""
        return self.info["target"]

    @property
    def options(self) -> Tuple[str, ...]:
        """The options that it was compiled with, as far as they are not at their default.

        >>> import tenon
        >>> tenon.compile("examples/digits/digits.onnx", optimize=1, fold_limit="1M").options
        ('level=1', 'fold_limit=1048576')
        """
        lib = _ffi.lib
        found = [lib.tenon_program_option(self._program, i) for i in range(lib.tenon_program_option_count(self._program))]
        return tuple(text.decode() for text in found)

    @property
    def source(self) -> str:
        """The file that it came from, or "" where it came from memory."""
        return self._source

    def profile(
        self,
        *args: Any,
        runs: int = 20,
        dims: Optional[Mapping[str, int]] = None,
        threads: Optional[int] = None,
        **named: Any,
    ) -> Profile:
        """Measures every step on these inputs, or on random ones with the sizes of ``dims`` (else 1).

        It prints as a table and shows itself in a notebook as a chart; ``to_dict`` has all of it.

        >>> import tenon
        >>> p = tenon.compile("examples/digits/digits.onnx").profile(dims={"batch": 8}, runs=5)
        >>> [s.kind for s in p] == ["kernel"] * len(p)
        True
        """
        feeds = self._order(args, named)[0] if args or named else random_inputs(self, dims)
        return measure(self.session(threads, profile=True), feeds, max(runs, 1))

    def save(self, path: Union[str, "os.PathLike[str]"], force: bool = False) -> None:
        """Writes the program to a file, which `load` and `tenon run` take; it is replaced at once or left as it was.
        A file that holds something else, such as the model itself, is replaced only with ``force``.

        >>> import os, tempfile, tenon
        >>> path = os.path.join(tempfile.mkdtemp(), "digits.tenon")
        >>> tenon.compile("examples/digits/digits.onnx").save(path)
        >>> tenon.load(path).inputs[0].name
        'image'
        """
        if _is_same_file(path, self._source):
            raise InvalidError(f"{os.fspath(path)} is the model that this was compiled from; give the output another name")
        if not force and _holds_something_else(path):
            raise InvalidError(f"{os.fspath(path)} is there already and is no compiled model; force=True replaces it")
        error = _ffi.Error()
        check(_ffi.lib.tenon_program_save(self._program, _ffi.encode(path), C.byref(error)), error)

    def _repr_html_(self) -> str:
        from .notebook import model_html

        return model_html(self)

    def __repr__(self) -> str:
        said = (
            f"{', '.join(f'{v.name}: {v.type}' for v in self.inputs)} -> "
            f"{', '.join(f'{v.name}: {v.type}' for v in self.outputs)}"
        )
        name = os.path.basename(self._source) or "model"
        return f"<tenon.Model {name} for {self.target}: {said}>"


def _is_same_file(path: Union[str, "os.PathLike[str]"], source: str) -> bool:
    try:
        return bool(source) and not os.fspath(source).endswith(".tenon") and os.path.samefile(path, source)
    except (OSError, ValueError):
        return False


def _holds_something_else(path: Union[str, "os.PathLike[str]"]) -> bool:
    """Whether saving would destroy a file that is neither empty nor a compiled model."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(len(_ffi.ARTIFACT_MAGIC)) not in (b"", _ffi.ARTIFACT_MAGIC)


def values_of(owner: str, which: str, handle: int) -> Tuple[Value, ...]:
    """The inputs or outputs ("input", "output") of a "program" or "model"."""
    info = _ffi.ValueInfo()
    get = getattr(_ffi.lib, f"tenon_{owner}_{which}")
    out = []
    for i in range(getattr(_ffi.lib, f"tenon_{owner}_{which}_count")(handle)):
        get(handle, i, C.byref(info))
        out.append(value_of(info))
    return tuple(out)


# ---- compiling ----


def _is_torch_module(source: Any) -> bool:
    return any(
        c.__module__.startswith("torch.") and c.__name__ in ("Module", "ExportedProgram") for c in type(source).__mro__
    )


def _choice(what: str, value: str, table: Mapping[str, int]) -> int:
    if value not in table:
        near = did_you_mean(str(value), list(table))
        raise InvalidError(f"{what}={value!r}: must be one of {', '.join(sorted(table))}{near}")
    return table[value]


def _split_dims(dims: Optional[Mapping[str, Union[int, Range]]]) -> Tuple[Dict[str, int], Dict[str, Range]]:
    fixed: Dict[str, int] = {}
    ranges: Dict[str, Range] = {}
    for name, size in (dims or {}).items():
        if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
            fixed[name] = int(size)
        elif isinstance(size, (tuple, list)) and len(size) == 2 and 0 <= size[0] <= size[1]:
            ranges[name] = (int(size[0]), int(size[1]))
        else:
            raise InvalidError(f"dims: {name} is {size!r}, must be a number or a range (least, greatest)")
    for name in [n for n, (low, high) in ranges.items() if low == high]:
        fixed[name] = ranges.pop(name)[0]
    return fixed, ranges


def compile(
    model: Any,
    *args: Any,
    target: str = "auto",
    threads: Optional[int] = None,
    precision: str = "f32",
    dims: Optional[Mapping[str, Union[int, Range]]] = None,
    optimize: int = 3,
    math: str = "default",
    cache: bool = True,
    batch_invariant: bool = False,
    device: Union[None, int, str] = None,
    progress: Union[None, bool, ProgressFunction] = None,
    weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]] = None,
    types: Sequence[str] = (),
    inputs: Sequence[str] = (),
    memory_limit: int = 0,
    signature: Optional[str] = None,
    **more: Any,
) -> Model:
    """Compiles a model: a path, bytes, an ``onnx.ModelProto``, or a torch module with example inputs.

    ``target``
        what for, one of `targets`; "auto" is the fastest that is available, "interp" the reference interpreter.
    ``threads``
        that compiling and each session may use; None is as many as the machine lets us.
    ``precision``
        "f32" is what the model says, "bf16" has contractions with constant weights in bf16: faster, less exact.
        "tf32" and "f16" need a target with tensor cores (cuda). ``keep=["head", "layer4.*"]`` has layers stay in f32.
    ``dims``
        sizes of symbolic dimensions: a number fixes one (the code is a little faster and refuses others), a range
        ``(least, greatest)`` keeps it dynamic and refuses calls outside.
    ``optimize``
        0 (nothing) to 3.
    ``math``
        "default", "exact" (no rule that changes a bit) or "fast" (no NaN nor infinity).
    ``cache``
        whether the cache of compiled kernels is used.
    ``batch_invariant``
        an item of a batch gets the same bits whatever the size of the batch, at some cost in speed.
    ``device``
        of a target on devices: which one, as `tenon targets` lists them (1 is the second GPU).
    ``progress``
        a function of a `Progress`, which ends the work by returning True; True or False for a bar or none; None for
        a bar where one can be seen.  Ctrl-C ends the work.
    ``weights``, ``types``, ``inputs``
        weights by name, of a file or as a dict of arrays, in place of the model's own; what inputs are where the
        file does not say it ("x=f32[batch,3,224,224]"); inputs to keep that have a default value.
    ``memory_limit``
        bytes that opening the model may take, and with the target "interp" each run again; 0 is no limit, and a negative number
        an `InvalidError`.
    ``signature``
        of a TensorFlow Lite model: the entry point to compile, whose names its inputs and outputs then have; None is the first
        sub-graph.  ``tenon inspect`` lists them.
    ``more``
        any other option of ``tenon compile`` that says how to compile, by its name: `compile_options` lists them; and
        what belongs to torch modules alone.

    >>> import tenon
    >>> m = tenon.compile("examples/digits/digits.onnx", dims={"batch": (1, 32)}, threads=1)
    >>> m.inputs[0].shape
    ('batch', 8, 8)
    >>> tenon.compile("examples/digits/digits.onnx", dims={"batch": 4}).inputs[0].shape
    (4, 8, 8)
    """
    named, torch_options = options_by_name.split(more)
    if _is_torch_module(model):
        return _compile_torch(
            model,
            args,
            target=target,
            threads=threads,
            precision=precision,
            dims=dims,
            optimize=optimize,
            math=math,
            cache=cache,
            batch_invariant=batch_invariant,
            device=device,
            progress=progress,
            **more,
        )
    if args or torch_options:
        raise TypeError(_not_taken(list(torch_options)))
    if not 0 <= optimize <= 3:
        raise InvalidError(f"optimize={optimize}: must be 0 to 3")
    fixed, ranges = _split_dims(dims)
    if target == "interp":
        return _interpreted(model, fixed, ranges, threads, weights, types, inputs, memory_limit, signature)
    array = (_ffi.Dim * max(len(fixed), 1))(*[_ffi.Dim(n.encode(), s) for n, s in fixed.items()])
    watch = Watch(bar_for(progress))
    options = _ffi.Options(
        struct_size=C.sizeof(_ffi.Options),
        target=target.encode(),
        opt_level=optimize or -1,
        math=_choice("math", math, MATHS),
        threads=threads or 0,
        dims=array,
        ndims=len(fixed),
        progress=watch.callback,
        no_cache=int(not cache),
        precision=_choice("precision", precision, PRECISIONS),
        batch_invariant=int(batch_invariant),
        device=None if device is None else str(device).encode(),
        last_use=1,
    )
    by_name = options_by_name.Named(named)
    by_name.put(options)
    with OpenedModel(model, weights, types, inputs, threads or 0, memory_limit, signature) as opened:
        program = _compile_opened(opened, options, watch)
    made = Model(program, opened.name, threads, ranges, opened.keep)
    _check_known(made, ranges)
    _warn(made, target)
    return made


def _not_taken(names: Sequence[str]) -> str:
    """What is wrong with keywords that no option has, or with example inputs."""
    if not names:
        return "tenon.compile: example inputs belong to torch modules alone"
    own = [n for n in inspect.signature(compile).parameters if n not in ("model", "args", "more")]
    near = did_you_mean(names[0], own + options_by_name.names())
    more = "" if near else "; what belongs to torch modules alone is taken with one"
    return f"tenon.compile: there is no option {names[0]!r}{near}{more}; tenon.compile_options() lists what else there is"


def _interpreted(
    model: Any, fixed: Mapping[str, int], ranges: Mapping[str, Range], threads: Optional[int], *options: Any
) -> Model:
    from .reference import ReferenceModel

    weights, types, inputs, memory_limit, signature = options
    opened = OpenedModel(model, weights, types, inputs, threads or 0, memory_limit, signature)
    limits = {**ranges, **{name: (size, size) for name, size in fixed.items()}}
    made = ReferenceModel(opened, threads, limits)
    _check_known(made, limits)
    return made


def _compile_opened(opened: OpenedModel, options: "_ffi.Options", watch: Watch) -> int:
    error, handle = _ffi.Error(), C.c_void_p()
    try:
        status = watched(
            lambda: _ffi.lib.tenon_compile(opened.handle, C.byref(options), C.byref(handle), C.byref(error)), watch
        )
        if watch.failure is not None:
            raise watch.failure
        check(status, error)
    except BaseException:
        _ffi.free("tenon_program_release", handle.value or 0, os.getpid())
        raise
    return handle.value or 0


def _check_known(made: Model, ranges: Mapping[str, Range]) -> None:
    symbols = {s for v in made.inputs for s in v.shape or () if isinstance(s, str)}
    for name in ranges:
        if name not in symbols:
            near = did_you_mean(name, sorted(symbols))
            raise InvalidError(
                f"the model has no symbolic dimension '{name}'{near}; it has {', '.join(sorted(symbols)) or 'none'}"
            )


def _warn(made: Model, target: str) -> None:
    warn_of_program(made._program, 3)
    warn_notices(stacklevel=4)
    if target == "auto" and made.target == "ref":
        warnings.warn(
            "the program tenon-codegen was not found beside the library or on the path: the model runs by the "
            "reference evaluation, which is slow",
            TenonWarning,
            stacklevel=3,
        )


def _compile_torch(module: Any, args: Sequence[Any], **options: Any) -> Model:
    try:
        from . import torch_backend
    except ImportError as error:
        raise InvalidError(f"this package cannot compile torch modules: {error}") from error
    return torch_backend.compile_module(module, *args, **options)


def load(
    path: Union[str, "os.PathLike[str]", bytes],
    target: Optional[str] = None,
    threads: Optional[int] = None,
    compiled: bool = False,
) -> Model:
    """Loads what `Model.save` or `tenon compile` wrote; of several variants the fastest that runs here, or that for
    ``target``.  It is a program, so the file's name must end in ``.tenon``.  ``compiled=True`` loads a file of another
    name, or bytes: give it only for what you trust.

    >>> import os, tempfile, tenon
    >>> path = os.path.join(tempfile.mkdtemp(), "digits.tenon")
    >>> tenon.compile("examples/digits/digits.onnx").save(path)
    >>> tenon.load(path, threads=1).outputs[0].name
    'probability'
    """
    error, handle = _ffi.Error(), C.c_void_p()
    options = _ffi.LoadOptions(struct_size=C.sizeof(_ffi.LoadOptions), target=target.encode() if target else None,
                               by_name=int(not compiled))
    keep, name = (), ""
    if isinstance(path, (str, os.PathLike)):
        name = os.fspath(path)
        status = _ffi.lib.tenon_program_load(_ffi.encode(path), C.byref(options), C.byref(handle), C.byref(error))
    else:
        data = _aligned(np.frombuffer(path, np.uint8))
        keep = (data,)
        status = _ffi.lib.tenon_program_load_memory(
            address_of(data), data.nbytes, C.byref(options), C.byref(handle), C.byref(error)
        )
    check(status, error)
    return Model(handle.value or 0, name, threads, keep=keep)


def _aligned(array: np.ndarray) -> np.ndarray:
    room = np.empty(array.nbytes + _ffi.ALIGNMENT, np.uint8)
    skip = -address_of(room) % _ffi.ALIGNMENT
    room[skip : skip + array.nbytes] = array
    return room[skip : skip + array.nbytes]


def _after_fork() -> None:
    sessions.after_fork()
    progresses.after_fork()
    for made in list(_models):
        made._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
