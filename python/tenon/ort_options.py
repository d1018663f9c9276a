"""ONNX Runtime's options, enumerations and descriptions: what tenon.ort has besides sessions."""
from __future__ import annotations

import enum
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

from .onnx_meta import Meta


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
    DEFAULT = 0


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
        super().__setattr__(name, value)


class SessionOptions(_Options):
    """Options of a session.  intra_op_num_threads counts (0: as many as the machine has), and so do sizes that are fixed; the others
    are kept as they are set.

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
        self._entries: Dict[str, str] = {}
        self._made = True

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic size of the model."""
        self.dims[name] = size

    def has_providers(self) -> bool:
        return False


class RunOptions(_Options):
    """Options of a run: kept, without effect."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.terminate = False
        self.only_execute_path_to_fetches = False
        self.training_mode = False
        self._entries: Dict[str, str] = {}
        self._made = True

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return self._entries[key]


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
        self.version: int = meta.version if meta else 0
        self.custom_metadata_map: Dict[str, str] = dict(meta.custom) if meta else {}
