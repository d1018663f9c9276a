"""What ONNX Runtime says of machines: hardware devices, devices of execution providers, memory and allocators."""
from __future__ import annotations

import enum
import platform
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .ort_errors import refused
from .ort_options import OrtAllocatorType, OrtMemType
from .ort_values import OrtDeviceVendorId
from .tools import targets

# provider: Tenon's target
PROVIDERS: Dict[str, str] = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}
_CPU_VENDORS = {"AuthenticAMD": ("AMD", 0x1022), "GenuineIntel": ("Intel", 0x8086), "0x41": ("ARM", OrtDeviceVendorId.ARM)}


class OrtHardwareDeviceType(enum.IntEnum):
    """Kinds of hardware."""
    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemoryInfoDeviceType(enum.IntEnum):
    """Kinds of hardware that have memory."""
    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtDeviceMemoryType(enum.IntEnum):
    """Whose memory it is."""
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtCompiledModelCompatibility(enum.IntEnum):
    """Whether a provider's compiled model can run."""
    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(enum.IntEnum):
    """Why a provider cannot use a device."""
    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(1 << 31)


class OrtHardwareDevice(NamedTuple):
    """A processor of this machine."""
    type: OrtHardwareDeviceType
    vendor: str
    vendor_id: int
    device_id: int
    metadata: Dict[str, str]


class OrtMemoryInfo:
    """Memory of a device, as an allocator is asked for it."""

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0

    @staticmethod
    def create_v2(name: str, device_type: OrtMemoryInfoDeviceType, vendor_id: int, device_id: int, device_mem_type: OrtDeviceMemoryType,
                  alignment: int, allocator_type: OrtAllocatorType) -> "OrtMemoryInfo":
        self = OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT)
        self.device_mem_type, self.device_vendor_id = device_mem_type, vendor_id
        return self

    @property
    def device_name(self) -> str:
        return "cuda" if self.name.lower().startswith("cuda") and self.device_mem_type == OrtDeviceMemoryType.DEFAULT else "cpu"


class OrtSyncStream:
    """A stream of a device, by its handle."""

    def get_handle(self) -> int:
        return 0


class OrtEpDevice:
    """A device that an execution provider can use."""

    def __init__(self, ep_name: str, device: OrtHardwareDevice) -> None:
        from . import _ffi
        self.ep_name, self.ep_vendor, self.device = ep_name, "Tenon", device
        self.ep_metadata: Dict[str, str] = {"version": _ffi.lib.tenon_version().decode()}
        self.ep_options: Dict[str, str] = {}

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> Optional[OrtMemoryInfo]:
        """None of a CPU: its memory needs no allocator of the provider's."""
        if self.device.type == OrtHardwareDeviceType.CPU:
            return None
        name = "CUDAPinned" if memory_type == OrtDeviceMemoryType.HOST_ACCESSIBLE else "Cuda"
        return OrtMemoryInfo.create_v2(name, OrtMemoryInfoDeviceType.GPU, OrtDeviceVendorId.NVIDIA, self.device.device_id, memory_type, 0,
                                       OrtAllocatorType.ORT_DEVICE_ALLOCATOR)

    def create_sync_stream(self) -> OrtSyncStream:
        if self.device.type == OrtHardwareDeviceType.CPU:
            raise RuntimeError("ep_device does not use DEFAULT memory of a non-CPU device.")
        return OrtSyncStream()  # CUDA's default one, which runs begin behind


class OrtEpAssignedNode(NamedTuple):
    """A node of the model."""
    name: str
    domain: str
    op_type: str


class OrtEpAssignedSubgraph(NamedTuple):
    """The nodes that a provider runs."""
    ep_name: str
    nodes: Sequence[OrtEpAssignedNode]

    def get_nodes(self) -> List[OrtEpAssignedNode]:
        return list(self.nodes)


class OrtArenaCfg:
    """Options of an arena: kept, without effect, since Tenon plans a model's memory when it compiles."""

    def __init__(self, *given: Any) -> None:
        names = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
        told: Mapping[str, int] = given[0] if len(given) == 1 else dict(zip(names, given))
        if len(given) not in (1, 4):
            raise TypeError("an OrtArenaCfg is made of a dict, or of " + ", ".join(names))
        for name in names + ("initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes"):
            setattr(self, name, told.get(name, 0 if name == "max_mem" else -1))


class OrtExternalInitializerInfo:
    """Where an initializer lies outside of its model."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self.filepath, self.file_offset, self.byte_size = filepath, file_offset, byte_size


def _cpu_vendor() -> Tuple[str, int]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            said = next((line.split(":")[1].strip() for line in f if line.startswith(("vendor_id", "CPU implementer"))), "")
    except OSError:
        said = ""
    name, number = _CPU_VENDORS.get(said, (said or platform.machine(), 0))
    return name, int(number)


def _available() -> List[str]:
    have = {t.name for t in targets() if t.available}
    return [name for name, target in PROVIDERS.items() if target in have or target == "cpu"]


def get_hardware_devices() -> List[OrtHardwareDevice]:
    """The processors that Tenon can use here."""
    return [d.device for d in get_ep_devices()]


def get_ep_devices() -> List[OrtEpDevice]:
    """The devices of the available providers.

    >>> import tenon.ort
    >>> [d.ep_name for d in tenon.ort.get_ep_devices()][-1]
    'CPUExecutionProvider'
    """
    gpu = OrtHardwareDevice(OrtHardwareDeviceType.GPU, "NVIDIA", int(OrtDeviceVendorId.NVIDIA), 0, {})
    cpu = OrtHardwareDevice(OrtHardwareDeviceType.CPU, *_cpu_vendor(), 0, {})
    return [OrtEpDevice(name, gpu if PROVIDERS[name] == "cuda" else cpu) for name in _available()]


def get_hardware_device_ep_incompatibility_details(ep_name: str, device: OrtHardwareDevice) -> Dict[str, Any]:
    """Why a provider cannot use a device: a mask of reasons, 0 where it can."""
    fits = any(d.ep_name == ep_name and d.device.type == device.type for d in get_ep_devices())
    reason = OrtDeviceEpIncompatibilityReason.NONE if fits else OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE
    return {"reasons_bitmask": int(reason), "notes": None if fits else f"{ep_name} does not run on a {device.type.name} here", "error_code": 0}


# ---- what has no counterpart ----


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: Optional[OrtArenaCfg] = None) -> None:
    """Kept for programs that call it: Tenon plans a model's memory when it compiles."""


def create_and_register_allocator_v2(provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str],
                                     arena_cfg: Optional[OrtArenaCfg] = None) -> None:
    """As create_and_register_allocator."""


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    raise refused("a library with an execution provider", "it is code for ONNX Runtime's interface")


def unregister_execution_provider_library(registration_name: str) -> None:
    raise refused("a library with an execution provider", "none is registered")


class LoraAdapter:
    """Refused: see `RunOptions.add_active_adapter`."""

    def Load(self, file_path: str) -> None:  # noqa: N802 -- ONNX Runtime's name
        raise refused("a LoRA adapter", "merge its weights into the model, or give them with SessionOptions.add_initializer")


class _Refused:
    """A class of ONNX Runtime's that cannot be made here, with its methods."""

    WHY: Tuple[str, str] = ("", "")

    def __init__(self, *args: Any, **options: Any) -> None:
        raise refused(*self.WHY)

    def _never(self, *args: Any, **options: Any) -> Any:
        raise refused(*self.WHY)


class AdapterFormat(_Refused):
    """Refused: files of LoRA adapters are ONNX Runtime's own format."""

    WHY = ("a file of a LoRA adapter", "merge its weights into the model")
    get_format_version = set_adapter_version = get_adapter_version = set_model_version = get_model_version = _Refused._never
    set_parameters = get_parameters = export_adapter = _Refused._never

    @staticmethod
    def read_adapter(file_path: Any) -> "AdapterFormat":
        raise refused(*AdapterFormat.WHY)


class ModelCompiler(_Refused):
    """Refused: it writes models with parts compiled by ONNX Runtime's providers.  `tenon.compile` and `Model.save` write Tenon's."""

    WHY = ("ModelCompiler", "tenon.compile(model).save(path) writes a compiled model, and an InferenceSession takes its path")
    compile_to_file = compile_to_bytes = compile_to_stream = _Refused._never
    set_ep_context_data_write_func = clear_ep_context_data_write_func = _Refused._never
