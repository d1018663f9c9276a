"""What ONNX Runtime's extension module has (`onnxruntime.capi.onnxruntime_pybind11_state`), for programs that import from it.

Most of it is tenon.ort's own.  Sessions, bindings and sparse tensors have other signatures there than in Python, and are made here.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import ort, ort_install
from .ort import *  # noqa: F401,F403
from .ort_devices import (OrtCompiledModelCompatibility, OrtDeviceEpIncompatibilityReason,  # noqa: F401
                          get_hardware_device_ep_incompatibility_details, get_hardware_devices)
from .ort_errors import DeviceReset  # noqa: F401
from .ort_options import ArenaExtendStrategy, RunOptions, SessionOptions
from .ort_values import (OrtDevice, OrtValue, OrtValueVector, SparseBlockSparseView, SparseCooView, SparseCsrView,  # noqa: F401
                         SparseTensor as _PythonSparseTensor)

kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy.kNextPowerOfTwo, ArenaExtendStrategy.kSameAsRequested  # noqa: N816

del AdapterFormat, ModelCompiler  # noqa: F821 -- refused, and of other members there


def __getattr__(name: str) -> Any:
    """Names that are left to the real package."""
    if name in ort_install.LEFT_IN_STATE:
        return getattr(ort_install.real_state(), name)
    raise AttributeError(f"module '{ort_install.STATE}' has no attribute '{name}'")


class SessionObjectInitializer:
    """Kept for programs that ask for one."""


def get_session_initializer() -> SessionObjectInitializer:
    return SessionObjectInitializer()


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a DLPack capsule of the CPU's memory has elements of uint8, which is also what it has of bool."""
    return OrtValue.from_dlpack(capsule).data_type() in ("tensor(uint8)", "tensor(bool)")


class SparseTensor(_PythonSparseTensor):
    """As in Python, but its format is an attribute."""

    format = property(_PythonSparseTensor.format)  # type: ignore[assignment]


class InferenceSession:
    """A session of the extension module: made, then initialised."""

    def __init__(self, options: SessionOptions, path_or_bytes: Any, is_path: bool, read_config_from_model: bool = False) -> None:
        self._given, self.session_options = path_or_bytes, options
        self._session: Any = None

    @classmethod
    def _around(cls, session: "ort.InferenceSession") -> "InferenceSession":
        """The one that a session of Python wraps."""
        self = cls(session.get_session_options(), session._source, session._model_path is not None)
        self._session = session
        return self

    def initialize_session(self, providers: Sequence[str] = (), provider_options: Sequence[Mapping[str, str]] = (),
                           disabled_optimizers: Any = ()) -> None:
        self._session = ort.InferenceSession(self._given, self.session_options, list(providers) or None,
                                             list(provider_options) or None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._session is None:
            raise AttributeError(f"a session that is not initialised has no '{name}'")
        return getattr(self._session, name)

    inputs_meta = property(lambda self: self._session.get_inputs())
    outputs_meta = property(lambda self: self._session.get_outputs())
    overridable_initializers = property(lambda self: self._session.get_overridable_initializers())
    model_meta = property(lambda self: self._session.get_modelmeta())
    input_meminfos = property(lambda self: self._session.get_input_memory_infos())
    output_meminfos = property(lambda self: self._session.get_output_memory_infos())
    input_epdevices = property(lambda self: self._session.get_input_epdevices())
    get_profiling_start_time_ns = property(lambda self: self._session.get_profiling_start_time_ns())

    def run(self, output_names: Sequence[str], feed: Mapping[str, Any], run_options: Optional[RunOptions] = None) -> List[Any]:
        return self._session.run(output_names, feed, run_options)

    def run_with_ort_values(self, feed: Dict[str, OrtValue], output_names: Sequence[str],
                            run_options: Optional[RunOptions] = None) -> OrtValueVector:
        return OrtValueVector(self._session.run_with_ort_values(output_names, feed, run_options))

    def run_with_iobinding(self, binding: ort.IOBinding, run_options: Optional[RunOptions] = None) -> None:
        self._session.run_with_iobinding(binding, run_options)

    def create_ortvalue_from_shape_and_onnx_type(self, shape: Sequence[int], element_type: int, device: OrtDevice) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device)

    def is_webgpu_graph_capture_enabled(self) -> bool:
        return False

    def webgpu_context_id(self) -> int:
        return -1
