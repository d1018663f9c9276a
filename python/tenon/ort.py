"""ONNX Runtime's Python interface over Tenon, so that a program written for the one runs with the other.

Swap one import, ``import tenon.ort as onnxruntime``; or, for packages that import it themselves, call `install` before they do.

>>> import numpy as np, tenon.ort as ort
>>> session = ort.InferenceSession("examples/digits/digits.onnx", providers=["CPUExecutionProvider"])
>>> session.get_inputs()[0]
NodeArg(name='image', type='tensor(float)', shape=['batch', 8, 8])
>>> [y.shape for y in session.run(None, {"image": np.zeros((2, 8, 8), np.float32)})]
[(2, 10)]

Models are compiled when a session is made; kernels come from the cache the second time.  A session may be run by any number of threads
at once.  What only tunes ONNX Runtime (optimisation levels, arenas, logging) is kept and has no effect.
"""
from __future__ import annotations

import os
import sys
import threading
import types
import warnings
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors, gpu, onnx_meta, options as options_by_name, ort_special
from .dtypes import BY_CODE, BY_NAME, BY_NUMPY, array_dtype
from .model import Model, compile, load
from .ort_options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtAllocatorType,  # noqa: F401
                          OrtMemType, RunOptions, SessionOptions)
from .tools import targets

__version__ = "1.23.0"  # of the interface that this follows: programs ask for at least some version

# ---- errors: ONNX Runtime's classes ----


class OnnxRuntimeError(Exception):
    """What all of them have in common here; ``__cause__`` is Tenon's own exception."""


Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf, ModelLoaded, NotImplemented, InvalidGraph, \
    EPFail = (type(name, (OnnxRuntimeError,), {"__module__": __name__}) for name in (
        "Fail", "InvalidArgument", "NoSuchFile", "NoModel", "EngineError", "RuntimeException", "InvalidProtobuf", "ModelLoaded",
        "NotImplemented", "InvalidGraph", "EPFail"))

_LOADING = ((errors.FormatError, InvalidProtobuf), (errors.InvalidError, InvalidGraph), (errors.UnsupportedError, NotImplemented),
            (errors.FileError, Fail))
_RUNNING = ((errors.InvalidError, InvalidArgument), (errors.UnsupportedError, NotImplemented), (errors.DeviceError, EPFail))


def _as_ort(error: errors.TenonError, table: Sequence[Tuple[type, type]]) -> OnnxRuntimeError:
    made = next((ort for ours, ort in table if isinstance(error, ours)), RuntimeException)
    return made(str(error))


# ---- providers ----

_PROVIDERS = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}


def get_all_providers() -> List[str]:
    """Providers that Tenon has a target for, the fastest first."""
    return list(_PROVIDERS)


def get_available_providers() -> List[str]:
    """Those of them that run on this machine.

    >>> import tenon.ort
    >>> "CPUExecutionProvider" in tenon.ort.get_available_providers()
    True
    """
    have = {t.name for t in targets() if t.available}
    return [name for name, target in _PROVIDERS.items() if target in have or target == "cpu"]


def get_device() -> str:
    """"GPU" where a provider for one is available, else "CPU"."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def _chosen(providers: Optional[Sequence[Any]], provider_options: Optional[Sequence[Mapping[str, Any]]]) -> Dict[str, Dict[str, Any]]:
    """The providers that are asked for and available, with their options; the CPU's comes last, and always."""
    have, chosen = get_available_providers(), {}
    for i, given in enumerate(providers or ()):
        name, options = given if isinstance(given, (tuple, list)) else (given, (provider_options or {})[i] if provider_options else {})
        if name in have:
            chosen[name] = dict(options)
        else:
            warnings.warn(f"Specified provider '{name}' is not in available provider names. Available providers: '{', '.join(have)}'")
    chosen.setdefault("CPUExecutionProvider", {})
    return chosen


# ---- values ----

_NUMPY_NAMES = {i: name for i, name in enumerate(onnx_meta.ELEMENTS)}


def _type_of(array: np.ndarray) -> str:
    kind = BY_NAME["string"] if array.dtype.kind in "OUS" else BY_NUMPY.get(array.dtype)
    return f"tensor({_NUMPY_NAMES[kind.code]})" if kind is not None else "tensor(undefined)"


def _dtype_of(element: Any) -> np.dtype:
    """NumPy's dtype of a dtype, or of a number of ONNX's TensorProto.DataType."""
    return array_dtype(BY_CODE[element]) if isinstance(element, int) else np.dtype(element)


def _as_numpy(x: Any) -> Any:
    """What a run is fed: ONNX Runtime gives NumPy arrays back whatever came in."""
    if isinstance(x, OrtValue):
        return x.numpy()
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return x
    return np.from_dlpack(x.detach() if hasattr(x, "detach") else x)


def _host_only(device_type: str) -> None:
    if str(device_type).lower() not in ("cpu", "cuda_pinned"):
        raise NotImplemented(
            f"an OrtValue is made in the memory of the CPU here, not of '{device_type}': for a GPU give "
            "io_binding the arrays of a library that has memory there (bind_input with a tensor's data_ptr())"
        )


class OrtValue:
    """A tensor in the memory of the CPU, which NumPy shares; as a result of `IOBinding` also one on a GPU.

    >>> import numpy as np, tenon.ort as ort
    >>> v = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    >>> v.shape(), v.data_type(), v.device_name()
    ([2, 3], 'tensor(float)', 'cpu')
    """

    def __init__(self, array: Union[np.ndarray, gpu.Memory]) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _host_only(device_type)
        return OrtValue(np.ascontiguousarray(numpy_obj) if np.ndim(numpy_obj) else np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> "OrtValue":
        return OrtValue(np.ascontiguousarray(data).view(_dtype_of(onnx_element_type)))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu",
                                     device_id: int = 0) -> "OrtValue":
        _host_only(device_type)
        return OrtValue(np.zeros(tuple(shape), _dtype_of(element_type)))

    @staticmethod
    def from_dlpack(x: Any, is_bool_tensor: bool = False) -> "OrtValue":
        array = np.from_dlpack(x)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def numpy(self) -> np.ndarray:
        if isinstance(self._array, gpu.Memory):
            raise NotImplemented("the tensor is on a GPU, in memory of the caller's: copy it with the library that has it")
        return self._array

    def update_inplace(self, np_arr: np.ndarray) -> None:
        self._array[...] = np_arr

    def shape(self) -> List[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        return _type_of(self._array)

    def element_type(self) -> int:
        kind = BY_NAME["string"] if self._array.dtype.kind in "OUS" else BY_NUMPY[self._array.dtype]
        return kind.code

    def data_ptr(self) -> int:
        on_gpu = isinstance(self._array, gpu.Memory)
        return (self._array.__cuda_array_interface__ if on_gpu else self._array.__array_interface__)["data"][0]

    def device_name(self) -> str:
        return "cuda" if isinstance(self._array, gpu.Memory) else "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._array.__dlpack_device__()

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        return np.asarray(self._array, *args, **options)


class IOBinding:
    """Inputs and outputs that are said once and used by every `InferenceSession.run_with_iobinding`.

    >>> import numpy as np, tenon.ort as ort
    >>> session = ort.InferenceSession("examples/digits/digits.onnx")
    >>> binding = session.io_binding()
    >>> binding.bind_cpu_input("image", np.zeros((1, 8, 8), np.float32))
    >>> binding.bind_output("probability")
    >>> session.run_with_iobinding(binding)
    >>> binding.copy_outputs_to_cpu()[0].shape
    (1, 10)
    """

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}
        self._results: List[OrtValue] = []

    def _name(self, name: str, among: Sequence[NodeArg], what: str) -> str:
        if not any(v.name == name for v in among):
            raise InvalidArgument(f"Failed to find {what} name in the mapping: {name}")
        return name

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._inputs[self._name(name, self._session.get_inputs(), "input")] = np.asarray(_as_numpy(arr_on_cpu))

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        memory = _memory(device_type, device_id, element_type, shape, buffer_ptr)
        self._inputs[self._name(name, self._session.get_inputs(), "input")] = memory

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[self._name(name, self._session.get_inputs(), "input")] = ortvalue._array

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        if device_type == "cuda" and not buffer_ptr:
            raise NotImplemented("an output on a GPU needs a buffer of the caller's")
        room = None if not buffer_ptr else _memory(device_type, device_id, element_type, shape or (), buffer_ptr)
        self._outputs[self._name(name, self._session.get_outputs(), "output")] = room

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._outputs[self._name(name, self._session.get_outputs(), "output")] = ortvalue._array

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: what is on a GPU is read after what is in CUDA's default stream."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run has ended when it returns."""

    def get_outputs(self) -> List[OrtValue]:
        return self._results

    def copy_outputs_to_cpu(self) -> List[np.ndarray]:
        return [v.numpy() for v in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results = []


def _memory(device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
            address: int) -> Union[np.ndarray, gpu.Memory]:
    """An array over the caller's memory, which must outlive it."""
    dtype = _dtype_of(element_type)
    if device_type == "cuda":
        return gpu.Memory(address, dtype, tuple(shape), device_id)
    if device_type not in ("cpu", "cuda_pinned"):
        raise NotImplemented(f"memory of '{device_type}' cannot be bound: Tenon takes the CPU's and CUDA's")
    holder = types.SimpleNamespace(__array_interface__={"version": 3, "typestr": "|u1", "data": (address, False),
                                                        "shape": (int(np.prod(shape, dtype=np.int64)) * dtype.itemsize,)})
    return np.asarray(holder).view(dtype).reshape(tuple(shape))


# ---- sessions ----


class InferenceSession:
    """A model that is compiled and can be run, with ONNX Runtime's methods.

    >>> import numpy as np, tenon
    >>> session = tenon.InferenceSession("examples/digits/digits.onnx")
    >>> session.get_providers()
    ['CPUExecutionProvider']
    >>> session.run(["probability"], {"image": np.zeros((1, 8, 8), np.float32)})[0].shape
    (1, 10)
    """

    def __init__(self, path_or_bytes: Union[str, bytes, "os.PathLike[str]"], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Mapping[str, Any]]] = None,
                 **kwargs: Any) -> None:
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._source = path_or_bytes
        self._model_path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._variants: Dict[FrozenSet[str], Model] = {}
        self._picks: Dict[Tuple[str, ...], Tuple[List[str], List[int]]] = {}
        self.set_providers(providers, provider_options)

    def set_providers(self, providers: Optional[Sequence[Any]] = None,
                      provider_options: Optional[Sequence[Mapping[str, Any]]] = None) -> None:
        """Compiles the model for the first of these that is available, or for the CPU."""
        self._providers = _chosen(providers, provider_options)
        self._variants.clear()
        self._model = self._compiled(frozenset())
        self._special = ort_special.Special(self._model, self._compile) if ort_special.wanted(self._model) else None
        self._names = [v.name for v in self._model.inputs]
        self._local = threading.local()
        self._meta = onnx_meta.read(self._source)
        self._inputs = _node_args(self._model.inputs, self._meta.inputs if self._meta else ())
        self._outputs = _node_args(self._model.outputs, self._meta.outputs if self._meta else ())

    def _compiled(self, inputs: FrozenSet[str]) -> Model:
        """The model, with these of its initialisers as inputs."""
        made = self._variants.get(inputs)
        if made is not None:
            return made
        path = self._model_path
        if path is not None and not os.path.isfile(path):
            raise NoSuchFile(f"Load model from {path} failed: the file does not exist")
        try:
            if path is not None and path.endswith(".tenon"):
                if any("max_memory" in given for given in self._providers.values()):
                    raise errors.InvalidError(f"{path} is a compiled model, whose code no limit holds: max_memory goes with a model")
                made = load(path, threads=self._options.intra_op_num_threads or None)
            else:
                made = self._compile(inputs=sorted(inputs))
        except errors.TenonError as error:
            raise _as_ort(error, _LOADING) from error
        self._variants[inputs] = made
        return made

    def _compile(self, dims: Optional[Mapping[str, int]] = None, **options: Any) -> Model:
        target = _PROVIDERS[next(iter(self._providers))]
        if not any(t.name == target and t.available for t in targets()):
            target = "auto"
        named, _ = options_by_name.split(next(iter(self._providers.values())))
        return compile(self._source, target=target, threads=self._options.intra_op_num_threads or None, **named,
                       dims={**(getattr(self._options, "dims", None) or {}), **(dims or {})}, progress=False, **options)

    # ---- running ----

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None) -> List[Any]:
        """The outputs of these names, or all of them (None), as NumPy arrays."""
        feeds = [input_feed[name] for name in self._names if name in input_feed]
        if len(feeds) != len(self._names) or len(input_feed) != len(feeds):
            return self._run_others(output_names, input_feed)
        for i, x in enumerate(feeds):
            if type(x) is not np.ndarray:
                feeds[i] = _as_numpy(x)
        model = None
        if self._special is not None:
            model, fewer = self._special.find(feeds)
            feeds = feeds if model is None else fewer
        try:
            if not output_names:
                return self._session_of(model or self._model).run_list(feeds)
            names, order = self._pick(output_names)
            made = self._session_of(model or self._model).run_list(feeds, outputs=names)
        except errors.TenonError as error:
            raise _as_ort(error, _RUNNING) from error
        return [made[i] for i in order]

    def _session_of(self, model: Model) -> Any:
        """This thread's session of the model, or of a program of it for some sizes."""
        try:
            return self._local.sessions[model]
        except AttributeError:
            self._local.sessions = {model: model.session()}
        except KeyError:
            self._local.sessions[model] = model.session()
        return self._local.sessions[model]

    def _pick(self, output_names: Sequence[str]) -> Tuple[List[str], List[int]]:
        """The outputs to compute, each once, and where among them each name is."""
        key = tuple(output_names)
        if key not in self._picks:
            have = [v.name for v in self._outputs]
            for name in key:
                if name not in have:
                    raise InvalidArgument(f"Invalid output name: {name}; the model has {', '.join(have)}")
            names = [name for name in have if name in key]
            self._picks[key] = (names, [names.index(name) for name in key])
        return self._picks[key]

    def _run_others(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any]) -> List[Any]:
        """A feed with too few names or more: values for initialisers make another model, which is compiled then."""
        missing = [n for n in self._names if n not in input_feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        more = frozenset(n for n in input_feed if n not in self._names)
        for name in more - {v.name for v in self.get_overridable_initializers()}:
            raise InvalidArgument(f"Invalid input name: {name}; the model takes {', '.join(self._names)}")
        model = self._compiled(more)
        try:
            made = model({name: _as_numpy(x) for name, x in input_feed.items()})
        except errors.TenonError as error:
            raise _as_ort(error, _RUNNING) from error
        return [made[name] for name in output_names or [v.name for v in self._outputs]]

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
                  callback: Callable[[Optional[List[Any]], Any, str], None], user_data: Any,
                  run_options: Optional[RunOptions] = None) -> None:
        """Runs in a thread of its own, which then calls ``callback(results, user_data, error text)``."""
        def work() -> None:
            try:
                results, said = self.run(output_names, input_feed, run_options), ""
            except Exception as error:  # whatever it is, the callback is told
                results, said = None, str(error)
            callback(results, user_data, said)
        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:
        return [OrtValue(y) for y in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        rooms = {n: a for n, a in iobinding._outputs.items() if a is not None}
        names = list(iobinding._outputs) or [v.name for v in self._outputs]
        if not rooms and not any(isinstance(x, gpu.Memory) for x in iobinding._inputs.values()):
            iobinding._results = self.run_with_ort_values(names, iobinding._inputs, run_options)
            return
        try:
            made = self._model(dict(iobinding._inputs), out=rooms or None)
        except errors.TenonError as error:
            raise _as_ort(error, _RUNNING) from error
        iobinding._results = [OrtValue(made[n]) for n in names]

    # ---- what it is ----

    def get_inputs(self) -> List[NodeArg]:
        return self._inputs

    def get_outputs(self) -> List[NodeArg]:
        return self._outputs

    def get_overridable_initializers(self) -> List[NodeArg]:
        found = self._meta.inputs if self._meta else ()
        return [NodeArg(v.name, v.type, v.shape or []) for v in found if v.name in self._meta.initializers]

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._meta)

    def get_providers(self) -> List[str]:
        return list(self._providers)

    def get_provider_options(self) -> Dict[str, Dict[str, Any]]:
        return {name: dict(options) for name, options in self._providers.items()}

    def get_session_options(self) -> SessionOptions:
        return self._options

    def disable_fallback(self) -> None:
        """Nothing to disable: a session runs where it was compiled for."""

    def enable_fallback(self) -> None:
        """Kept for programs that call it."""


def _node_args(values: Sequence[Any], declared: Sequence[onnx_meta.Declared]) -> List[NodeArg]:
    """As the file declares them; what it leaves open is as shape inference found it."""
    said = {d.name: d for d in declared}
    made = []
    for v in values:
        found = [None if s == "?" else s for s in v.shape or ()]
        code = BY_NAME[v.dtype].code if v.dtype in BY_NAME else 0
        kind, shape = f"tensor({_NUMPY_NAMES[code]})", found
        if v.name in said:
            kind = said[v.name].type or kind
            shape = said[v.name].shape if said[v.name].shape is not None else found
            if len(shape) == len(found):
                shape = [f if s is None and isinstance(f, int) else s for s, f in zip(shape, found)]
        made.append(NodeArg(v.name, kind, shape))
    return made


# ---- the rest of the module ----


def set_default_logger_severity(severity: int) -> None:
    """Kept for programs that call it: Tenon says what it has to say by exceptions and warnings."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """As set_default_logger_severity."""


def set_seed(seed: int) -> None:
    """Random operators without a seed of their own always begin with the same one."""


def enable_telemetry_events() -> None:
    """There are none."""


def disable_telemetry_events() -> None:
    """There are none."""


def preload_dlls(*args: Any, **options: Any) -> None:
    """Devices' drivers are loaded when they are asked for."""


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    from . import __version__ as ours
    return f"Tenon {ours}"


_INSTALLED = ("onnxruntime", "onnxruntime.capi", "onnxruntime.capi.onnxruntime_pybind11_state", "onnxruntime.capi._pybind_state",
              "onnxruntime.capi.onnxruntime_inference_collection")


def install() -> None:
    """Lets every ``import onnxruntime`` from now on in this process give this module.

    >>> import tenon.ort
    >>> tenon.ort.install()
    >>> from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
    >>> import onnxruntime
    >>> onnxruntime.InferenceSession is tenon.InferenceSession
    True
    >>> tenon.ort.uninstall()
    """
    for name in _INSTALLED:
        sys.modules[name] = sys.modules[__name__]


def uninstall() -> None:
    """Undoes `install` for imports to come."""
    for name in _INSTALLED:
        if sys.modules.get(name) is sys.modules[__name__]:
            del sys.modules[name]
