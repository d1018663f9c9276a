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

import collections.abc
import os
import platform
import shutil
import threading
import warnings
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors, gpu, onnx_meta, options as options_by_name, ort_special
from .dtypes import BY_NAME
from .model import Model, compile, load
from .ort_devices import (PROVIDERS, AdapterFormat, LoraAdapter, ModelCompiler, OrtArenaCfg, OrtDeviceMemoryType,  # noqa: F401
                          OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpDevice, OrtExternalInitializerInfo, OrtHardwareDevice,
                          OrtHardwareDeviceType, OrtMemoryInfo, OrtMemoryInfoDeviceType, OrtSyncStream, create_and_register_allocator,
                          create_and_register_allocator_v2, get_ep_devices, register_execution_provider_library,
                          unregister_execution_provider_library)
from .ort_errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled,  # noqa: F401
                         ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented, OnnxRuntimeError,
                         RuntimeException, made as _error, of_loading, of_running)
from .ort_install import install, uninstall  # noqa: F401
from .ort_options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtAllocatorType,  # noqa: F401
                          OrtCompileApiFlags, OrtExecutionProviderDevicePolicy, OrtMemType, OrtSparseFormat, RunOptions,
                          SessionOptions)
from .ort_profile import Recorder
from .progress import bar_until
from .ort_values import (NAMES, IOBinding, OrtDevice, OrtDeviceVendorId, OrtValue, OrtValueVector, SessionIOBinding,  # noqa: F401
                         SparseTensor, as_numpy, copy_tensors, dtype_of)
from .tools import is_available, targets

__version__ = version = "1.31.1"  # of the interface that this follows: programs ask for at least some version
__author__ = "Tenon"
package_name, cuda_version = "onnxruntime", ""

# ---- providers ----

def get_all_providers() -> List[str]:
    """Providers that Tenon has a target for, the fastest first."""
    return list(PROVIDERS)


def get_available_providers() -> List[str]:
    """Those of them that run on this machine.

    >>> import tenon.ort
    >>> "CPUExecutionProvider" in tenon.ort.get_available_providers()
    True
    """
    have = {t.name for t in targets() if t.available}
    return [name for name, target in PROVIDERS.items() if target in have or target == "cpu"]


class _Available(collections.abc.Sequence):  # type: ignore[type-arg]
    """The available providers.  Whether one is among them is asked of its own driver alone: loading one takes longer than a session."""

    def __contains__(self, name: object) -> bool:
        target = PROVIDERS.get(str(name))
        return target is not None and (target == "cpu" or is_available(target))

    def __getitem__(self, i: Any) -> Any:
        return get_available_providers()[i]

    def __len__(self) -> int:
        return len(get_available_providers())


def get_device() -> str:
    """"GPU" where a provider for one is available, else "CPU"."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def check_and_normalize_provider_args(providers: Optional[Sequence[Any]], provider_options: Optional[Sequence[Mapping[Any, Any]]],
                                      available_provider_names: Sequence[str]) -> Tuple[List[str], List[Dict[str, str]]]:
    """Names and options of the providers that are asked for, as ONNX Runtime checks them."""
    if providers is None:
        return [], []
    if not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is None:
        pairs = [(p, {}) if isinstance(p, str) else p for p in providers]
        if not all(isinstance(p, (tuple, list)) and len(p) == 2 and isinstance(p[0], str) and isinstance(p[1], Mapping) for p in pairs):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    else:
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(p, str) for p in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(o, Mapping) for o in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options))
    chosen: Dict[str, Dict[str, str]] = {}
    for name, options in pairs:
        if name not in available_provider_names:
            warnings.warn(f"Specified provider '{name}' is not in available provider names."
                          f"Available providers: '{', '.join(available_provider_names)}'")
        if name in chosen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.")
            continue
        chosen[name] = {str(key): str(value) for key, value in options.items()}
    return list(chosen), list(chosen.values())


_FOR_GPUS = (OrtExecutionProviderDevicePolicy.PREFER_GPU, OrtExecutionProviderDevicePolicy.MAX_PERFORMANCE)


def _by_policy(options: SessionOptions) -> List[Any]:
    """The providers that the session's options name, or that their policy chooses."""
    if options._providers or options._policy is None:
        return list(options._providers)
    if isinstance(options._policy, OrtExecutionProviderDevicePolicy):
        return get_available_providers() if options._policy in _FOR_GPUS else ["CPUExecutionProvider"]
    return list(dict.fromkeys(d.ep_name for d in options._policy(get_ep_devices(), {}, {}, len(PROVIDERS))))


def _chosen(providers: Optional[Sequence[Any]], provider_options: Optional[Sequence[Mapping[str, Any]]],
            options: SessionOptions) -> Dict[str, Dict[str, str]]:
    """The providers that are asked for and available, with their options; the CPU's comes last, and always."""
    have = _Available()
    try:
        names, given = check_and_normalize_provider_args(providers if providers else _by_policy(options), provider_options, have)
    except ValueError as error:
        warnings.warn(f"EP Error {error} when using {providers}: falling back to the CPU")
        names, given = [], []
    chosen = {name: told for name, told in zip(names, given) if name in have}
    chosen.setdefault("CPUExecutionProvider", {})
    return chosen


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
        self._recorder = Recorder(self._options.profile_file_prefix) if self._options.enable_profiling else None
        self.set_providers(providers, provider_options)
        if self._options.optimized_model_filepath:
            _write_model(self._source, self._options.optimized_model_filepath)

    def set_providers(self, providers: Optional[Sequence[Any]] = None,
                      provider_options: Optional[Sequence[Mapping[str, Any]]] = None) -> None:
        """Compiles the model for the first of these that is available, or for the CPU."""
        self._providers = _chosen(providers, provider_options, self._options)
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
        if path is not None and not os.path.exists(path):
            raise _error(NoSuchFile, f"Load model from {path} failed:Load model {path} failed. File doesn't exist")
        try:
            if path is not None and path.endswith(".tenon"):
                if any("max_memory" in given for given in self._providers.values()):
                    raise errors.InvalidError(f"{path} is a compiled model, whose code no limit holds: max_memory goes with a model")
                made = load(path, threads=self._threads())
            else:
                made = self._compile(inputs=sorted(inputs))
        except errors.TenonError as error:
            raise of_loading(error, path) from error
        self._variants[inputs] = made
        return made

    def _threads(self) -> Optional[int]:
        own = self._options.intra_op_num_threads
        return own or (None if self._options.use_per_session_threads else _global_threads) or None

    def _compile(self, dims: Optional[Mapping[str, int]] = None, **options: Any) -> Model:
        target = PROVIDERS[next(iter(self._providers))]
        if not is_available(target):
            target = "auto"
        named, _ = options_by_name.split(next(iter(self._providers.values())))
        said, weights = self._options, _weights(self._options, self._source)
        fixed = {symbol: said._denoted[what] for symbol, what in onnx_meta.denotations(self._source) if what in said._denoted} \
            if said._denoted else {}
        return compile(self._source, target=target, threads=self._threads(), weights=weights, **named,
                       dims={**fixed, **said.dims, **(dims or {})}, progress=bar_until(lambda: said._cancelled), **options)

    # ---- running ----

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None) -> List[Any]:
        """The outputs of these names, or all of them (None), as NumPy arrays."""
        if run_options is not None and run_options.terminate:
            raise _error(Fail, "Exiting due to terminate flag being set to true.")
        feeds = [input_feed[name] for name in self._names if name in input_feed]
        if len(feeds) != len(self._names) or len(input_feed) != len(feeds):
            return self._run_others(output_names, input_feed)
        for i, x in enumerate(feeds):
            if type(x) is not np.ndarray:
                feeds[i] = as_numpy(x)
        model = None
        if self._special is not None:
            model, fewer = self._special.find(feeds)
            feeds = feeds if model is None else fewer
        names, order = self._pick(output_names) if output_names else (None, ())
        session = self._session_of(model or self._model)
        try:
            if self._recorder is None:
                made = session.run_list(feeds, outputs=names)
            else:
                made = self._recorder.run(session, lambda: session.run_list(feeds, outputs=names))
        except errors.TenonError as error:
            raise of_running(error, self._inputs, {name: as_numpy(x) for name, x in input_feed.items()}) from error
        return made if names is None else [made[i] for i in order]

    def _session_of(self, model: Model) -> Any:
        """This thread's session of the model, or of a program of it for some sizes."""
        try:
            return self._local.sessions[model]
        except AttributeError:
            self._local.sessions = {}
        except KeyError:
            pass
        made = self._local.sessions[model] = model.session(profile=self._recorder is not None)
        return made

    def _pick(self, output_names: Sequence[str]) -> Tuple[List[str], List[int]]:
        """The outputs to compute, each once, and where among them each name is."""
        key = tuple(output_names)
        if key not in self._picks:
            have = [v.name for v in self._outputs]
            for name in key:
                if name not in have:
                    raise _error(InvalidArgument, f"Invalid output name:{name}; the model has {', '.join(have)}")
            names = [name for name in have if name in key]
            self._picks[key] = (names, [names.index(name) for name in key])
        return self._picks[key]

    def _run_others(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any]) -> List[Any]:
        """A feed with too few names or more: values for initialisers make another model, which is compiled then."""
        missing = [v.name for v in self._inputs if v.name not in input_feed and not v.type.startswith("optional")]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        more = frozenset(n for n in input_feed if n not in self._names)
        for name in more - {v.name for v in self.get_overridable_initializers()}:
            raise _error(InvalidArgument, f"Invalid input name: {name}; the model takes {', '.join(self._names)}")
        model = self._compiled(more)
        try:
            made = model({name: as_numpy(x) for name, x in input_feed.items()})
        except errors.TenonError as error:
            raise of_running(error, self._inputs, input_feed) from error
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
        results = self.run(output_names, input_dict_ort_values, run_options)
        types_ = {v.name: v.type for v in self._outputs}
        return [OrtValue._of(y, "" if isinstance(y, np.ndarray) else types_[name])
                for name, y in zip(output_names or types_, results)]

    def run_with_ortvaluevector(self, run_options: Optional[RunOptions], feed_names: Sequence[str], feeds: Sequence[OrtValue],
                                fetch_names: Sequence[str], fetches: List[OrtValue], fetch_devices: Sequence[OrtDevice]) -> None:
        """Appends the outputs of these names to `fetches`."""
        fetches.extend(self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options))

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        rooms = {n: a for n, a in iobinding._outputs.items() if a is not None}
        names = list(iobinding._outputs) or [v.name for v in self._outputs]
        try:
            self._pick(names)
            if not rooms and not any(isinstance(x, gpu.Memory) for x in iobinding._inputs.values()):
                found = self.run_with_ort_values(names, iobinding._inputs, run_options)
            else:
                made = self._model(dict(iobinding._inputs), out=rooms or None)
                found = [OrtValue._of(made[n]) for n in names]
        except (errors.TenonError, OnnxRuntimeError, ValueError) as error:
            said = of_running(error, self._inputs, iobinding._inputs) if isinstance(error, errors.TenonError) else error
            raise RuntimeError(f"Error in execution: {said}") from error
        iobinding._results = OrtValueVector(found)

    def create_ortvalue_from_shape_and_type(self, shape: Sequence[int], element_type: Any, device_type: Any = "cpu", device_id: int = 0,
                                            vendor_id: int = -1) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def end_profiling(self) -> str:
        """Writes the times of all runs so far as a Chrome trace and gives its name; "" without `enable_profiling`."""
        return self._recorder.write() if self._recorder is not None else ""

    def get_profiling_start_time_ns(self) -> int:
        return self._recorder.begin_ns if self._recorder is not None else 0

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

    def get_input_memory_infos(self) -> List[OrtMemoryInfo]:
        return [_host_memory() for _ in self._inputs]

    def get_output_memory_infos(self) -> List[OrtMemoryInfo]:
        return [_host_memory() for _ in self._outputs]

    def get_input_epdevices(self) -> List[OrtEpDevice]:
        """The device of each input: that of the provider which the model is compiled for."""
        device = next(d for d in get_ep_devices() if d.ep_name in self._providers)
        return [device for _ in self._inputs]

    def get_provider_graph_assignment_info(self) -> List[OrtEpAssignedSubgraph]:
        """The nodes, which the session's provider runs; kept only where the session's options ask for it."""
        if self._options._entries.get("session.record_ep_graph_assignment_info") != "1":
            raise _error(Fail, "Session configuration entry 'session.record_ep_graph_assignment_info' must be set to \"1\" to retrieve "
                         "EP graph assignment information.")
        nodes = [OrtEpAssignedNode(*n) for n in onnx_meta.nodes(self._source)]
        return [OrtEpAssignedSubgraph(next(iter(self._providers)), nodes)]

    def get_tuning_results(self) -> List[Any]:
        """None: schedules are chosen when a model is compiled."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """As get_tuning_results."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Kept for programs that call it: Tenon's providers have none."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Kept for programs that call it: Tenon keeps CUDA graphs itself."""

    @property
    def _sess(self) -> Any:
        """The session of ONNX Runtime's extension module, for programs that reach for it."""
        from . import ort_state
        return ort_state.InferenceSession._around(self)

    def disable_fallback(self) -> None:
        """Nothing to disable: a session runs where it was compiled for."""

    def enable_fallback(self) -> None:
        """Kept for programs that call it."""


Session = InferenceSession  # ONNX Runtime has a base class of this name, which nothing else is derived from


def _node_args(values: Sequence[Any], declared: Sequence[onnx_meta.Declared]) -> List[NodeArg]:
    """As the file declares them; what it leaves open is as shape inference found it."""
    said = {d.name: d for d in declared}
    made = []
    for v in values:
        found = [None if s == "?" else s for s in v.shape or ()]
        code = BY_NAME[v.dtype].code if v.dtype in BY_NAME else 0
        kind, shape = f"tensor({NAMES[code]})", found
        if v.name in said:
            kind = said[v.name].type or kind
            shape = said[v.name].shape if said[v.name].shape is not None else found
            if len(shape) == len(found):
                shape = [f if s is None and isinstance(f, int) else s for s, f in zip(shape, found)]
        made.append(NodeArg(v.name, kind, shape))
    return made


def _host_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)


def _weights(options: SessionOptions, source: Any) -> Optional[Dict[str, Any]]:
    """Initializers that the session's options give, by name."""
    found = {name: as_numpy(value) for name, value in options._weights.items()}
    for x in onnx_meta.externals(source) if options._files else ():
        data = options._files.get(x.location)
        if data is None:
            continue
        dtype, count = dtype_of(x.element), int(np.prod(x.shape, dtype=np.int64))
        size = count * dtype.itemsize
        if x.offset < 0 or x.length not in (-1, size) or size > len(data) - x.offset:
            raise _error(InvalidGraph, f"initializer '{x.name}' lies beyond the {len(data)} bytes of '{x.location}'")
        found[x.name] = np.frombuffer(data, dtype, count, x.offset).reshape(x.shape)
    return found or None


def _write_model(source: Any, path: str) -> None:
    """The file of `optimized_model_filepath`: the model itself, since Tenon's optimised form is no ONNX file."""
    if onnx_meta.externals(source) and os.path.dirname(os.path.abspath(os.fspath(source))) != os.path.dirname(os.path.abspath(path)):
        raise _error(Fail, f"{path}: the model has external data beside it, so its copy must be in the same folder")
    if isinstance(source, bytes):
        with open(path, "wb") as f:
            f.write(source)
    elif not (os.path.exists(path) and os.path.samefile(source, path)):
        shutil.copyfile(source, path)


# ---- the rest of the module ----

_global_threads = 0


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Threads of sessions whose options say `use_per_session_threads = False`."""
    global _global_threads
    _global_threads = intra_op_num_threads


def has_collective_ops() -> bool:
    return False


def print_debug_info() -> None:
    """Prints versions, targets and what decides them."""
    from . import _ffi
    print(f"onnxruntime interface: {__version__}, of {get_build_info()} at {_ffi.lib_path()}")
    print(f"platform: {platform.platform()}")
    print(f"targets: {', '.join(t.name for t in targets() if t.available)}")



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
