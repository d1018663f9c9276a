"""ONNX Runtime's options, enumerations and descriptions: what tenon.ort has besides sessions."""
from __future__ import annotations

import enum
import operator
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .onnx_meta import NO_VERSION, Meta
from .ort_errors import refused


class GraphOptimizationLevel(enum.IntEnum):
    """Kept, without effect: Tenon always optimises."""
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Kept, without effect."""
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Kept, without effect."""
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(enum.IntEnum):
    """Kept, without effect."""
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """Kept, without effect."""
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtSparseFormat(enum.IntEnum):
    """How a sparse tensor says where its values are."""
    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtCompileApiFlags(enum.IntEnum):
    """Of ModelCompiler, which is refused."""
    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    """Which provider a session takes when none is named."""
    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class ArenaExtendStrategy(enum.IntEnum):
    """Kept, without effect."""
    kNextPowerOfTwo = 0
    kSameAsRequested = 1


class NodeArg(NamedTuple):
    """An input or output: its name, "tensor(float)", and its sizes: numbers, names, or None where a size is dynamic and has no name."""
    name: str
    type: str
    shape: List[Union[int, str, None]]


class _Options:
    """What has the attributes that it was made with, and no others: a name that is misspelt is told."""

    _made = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and not hasattr(self, name):
            raise AttributeError(f"{type(self).__name__} has no option '{name}'")
        if self._made and name in self._plain:
            want = self._plain[name]
            if want is str and not isinstance(value, str):
                raise TypeError(f"{type(self).__name__}.{name} is a text, not {type(value).__name__}")
            value = value if want is str else want(operator.index(value))
        super().__setattr__(name, value)

    def _end(self) -> None:
        """No more attributes: from now on their types are checked."""
        self._plain = {name: type(x) for name, x in vars(self).items() if type(x) in (int, bool, str)}
        self._made = True


class SessionOptions(_Options):
    """Options of a session.  These count: intra_op_num_threads (0: as many as the machine has), fixed sizes, providers, initializers,
    enable_profiling, optimized_model_filepath and the cancellation flag.  The others are kept as they are set.

    >>> import tenon.ort as ort
    >>> options = ort.SessionOptions()
    >>> options.intra_op_num_threads = 1
    >>> options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    >>> options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    >>> ort.InferenceSession("examples/digits/digits.onnx", options).get_session_options().intra_op_num_threads
    1
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.dims: Dict[str, int] = {}  # sizes by their names
        self._denoted: Dict[str, int] = {}  # sizes by what they denote
        self._entries: Dict[str, str] = {}
        self._weights: Dict[str, Any] = {}  # OrtValues by the names of initializers
        self._files: Dict[str, Any] = {}  # external data by the names of its files
        self._providers: List[Tuple[str, Dict[str, str]]] = []
        self._policy: Union[None, OrtExecutionProviderDevicePolicy, Callable[..., Any]] = None
        self._cancelled = False
        self._end()

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return _entry(self, key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic size of the model."""
        self.dims[name] = size

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes the symbolic sizes of inputs that the file says denote this, such as DATA_BATCH."""
        self._denoted[denotation] = size

    def add_initializer(self, name: str, value: Any) -> None:
        """Another value for an initializer of the model."""
        self._weights[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Values for initializers that the file has elsewhere."""
        self._weights.update(zip(names, values))

    def add_external_initializers_from_files_in_memory(self, names: Sequence[str], buffers: Sequence[Any],
                                                       lengths: Sequence[int]) -> None:
        """External data by the name of its file, whose bytes lie in memory."""
        self._files.update({n: memoryview(b).cast("B")[:length] for n, b, length in zip(names, buffers, lengths)})

    def add_provider(self, provider_name: str, provider_options: Optional[Mapping[str, str]] = None) -> None:
        self._providers.append((provider_name, dict(provider_options or {})))

    def add_provider_for_devices(self, ep_devices: Sequence[Any], provider_options: Optional[Mapping[str, str]] = None) -> None:
        if len({d.ep_name for d in ep_devices}) != 1:
            raise ValueError("the devices must be of one provider")
        self.add_provider(ep_devices[0].ep_name, provider_options)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        self._policy = OrtExecutionProviderDevicePolicy(policy)

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any]) -> None:
        """``delegate(devices, model metadata, runtime metadata, most)`` gives the devices to use."""
        self._policy = delegate

    def has_providers(self) -> bool:
        return bool(self._providers) or self._policy is not None

    def set_load_cancellation_flag(self, value: bool) -> None:
        """While it is set, sessions that are being made with these options end with ModelLoadCanceled."""
        self._cancelled = bool(value)

    def register_custom_ops_library(self, path: str) -> None:
        raise refused("a library of custom operators", "it is code for ONNX Runtime's interface")

    def set_ep_context_data_read_func(self, read_func: Callable[..., Any], max_data_size: int) -> None:
        raise refused("EPContext data", "models compiled by ONNX Runtime's providers are theirs to run; give the model that they were made of")

    def clear_ep_context_data_read_func(self) -> None:
        """There is none."""


def _entry(options: Any, key: str) -> str:
    if key not in options._entries:
        raise RuntimeError(f"{type(options).__name__} does not have configuration with key: {key}")
    return options._entries[key]


class RunOptions(_Options):
    """Options of a run.  A run that begins with `terminate` set fails; the others are kept, without effect."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.terminate = False
        self.only_execute_path_to_fetches = False
        self.training_mode = False
        self._entries: Dict[str, str] = {}
        self._end()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return _entry(self, key)

    def add_active_adapter(self, adapter: Any) -> None:
        raise refused("a LoRA adapter", "merge its weights into the model, or give them with SessionOptions.add_initializer")


class ModelMetadata:
    """What a model's file says of itself.

    >>> import tenon
    >>> tenon.InferenceSession("examples/digits/digits.onnx").get_modelmeta().producer_name
    'tenon-example'
    """

    def __init__(self, meta: Optional[Meta]) -> None:
        text: Mapping[str, Any] = meta.text if meta else {}
        self.producer_name: str = text.get("producer_name", "")
        self.graph_name: str = text.get("graph_name", "")
        self.graph_description: str = text.get("graph_description", "")
        self.description: str = text.get("description", "")
        self.domain: str = text.get("domain", "")
        self.version: int = meta.version if meta else NO_VERSION
        self.custom_metadata_map: Dict[str, str] = dict(meta.custom) if meta else {}
