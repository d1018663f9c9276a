"""Arrays in the memory of NVIDIA's GPUs: whose they are, which stream their library works in, and results there.

A run reads them in place and writes its results into arrays that their own library made.  All of it goes into
the stream that this library uses at the moment (PyTorch's or CuPy's current stream), so that nobody has to wait.
Libraries that have none to tell (JAX) make what they give ready for CUDA's default stream, by DLPack's ``stream``;
after such a run the results are waited for.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, NamedTuple, Optional, Tuple

from .errors import InvalidError

# DLPack's numbers of device memory that a GPU reads by address: CUDA's, and managed.
CUDA_DEVICES = (2, 13)
LEGACY = 1  # CUDA's default stream, as DLPack and the driver number it


class Home(NamedTuple):
    """Where the arrays of a call lie, if some are on a GPU."""

    device: int
    stream: int  # that the call's work goes into
    told: bool  # whether the caller's own work goes there, too: else the call is waited for


def device_of(x: Any) -> Optional[int]:
    """The number of the GPU that has the array; None where it is the host's."""
    found = getattr(x, "__dlpack_device__", None)
    if found is not None:
        kind, number = found()
        return int(number) if int(kind) in CUDA_DEVICES else None
    return getattr(x, "device_id", 0) if getattr(x, "__cuda_array_interface__", None) is not None else None


def library_of(x: Any) -> str:
    name = type(x).__module__.split(".")[0]
    if name != "torch" and hasattr(x, "data_ptr") and "torch" in sys.modules:
        return "torch"  # a subclass of its tensors
    return {"jaxlib": "jax"}.get(name, name)


@functools.lru_cache(maxsize=None)
def _torch_raw() -> Callable[[int], int]:
    """PyTorch's own quick way to its current stream, which has no public name; else the public one."""
    torch = sys.modules["torch"]
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick if quick is not None else lambda device: torch.cuda.current_stream(device).cuda_stream


def torch_stream(device: int) -> int:
    """PyTorch's current stream."""
    return _torch_raw()(device) or LEGACY


def _cupy_stream(device: int) -> int:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        return int(cupy.cuda.get_current_stream().ptr) or LEGACY


_STREAMS = {"torch": torch_stream, "cupy": _cupy_stream}


def home_of(x: Any, device: int) -> Home:
    """Where a call works that has this array on a GPU."""
    stream = _STREAMS.get(library_of(x))
    if stream is not None:
        return Home(device, stream(device), True)
    said = getattr(x, "__cuda_array_interface__", None) if not hasattr(x, "__dlpack__") else None
    return Home(device, int((said or {}).get("stream") or LEGACY), False)


def told_stream(x: Any) -> Optional[int]:
    """The stream that an array with `__cuda_array_interface__` alone says it is in; None where it says none."""
    said = getattr(x, "__cuda_array_interface__", None) if not hasattr(x, "__dlpack__") else None
    return int(said["stream"]) if said and said.get("stream") else None


class Memory:
    """Memory of a GPU that somebody else owns, as a contiguous array."""

    def __init__(self, address: int, dtype: Any, shape: Tuple[int, ...], device: int) -> None:
        self.dtype, self.shape, self.device_id = dtype, shape, device
        self.__cuda_array_interface__ = {"version": 3, "typestr": dtype.str, "shape": shape, "data": (address, False)}


def row_by_row(x: Any) -> Any:
    """A contiguous copy of an array on a GPU, made by its own library."""
    if hasattr(x, "contiguous"):
        return x.contiguous()
    module = sys.modules.get(library_of(x))
    if hasattr(module, "ascontiguousarray"):
        return module.ascontiguousarray(x)
    raise InvalidError("the array is on a GPU and is not contiguous (row-major)")


def from_interface(x: Any) -> Tuple[int, str, Tuple[int, ...], bool]:
    """Address, NumPy's type, shape, and whether it is contiguous, of an array with `__cuda_array_interface__`."""
    said = x.__cuda_array_interface__
    shape, strides, size = tuple(said["shape"]), said.get("strides"), int(said["typestr"][2:])
    want, dense = size, True
    for n, s in zip(reversed(shape), reversed(strides or ())):
        dense = dense and (n == 1 or s == want)
        want *= n
    return int(said["data"][0] or 0), said["typestr"], shape, dense or 0 in shape


def to_host(x: Any) -> Any:
    """A copy in the host's memory, by the array's own library."""
    if hasattr(x, "cpu"):
        return x.detach().cpu() if hasattr(x, "detach") else x.cpu()
    if library_of(x) == "jax":
        return sys.modules["jax"].device_get(x)
    return x.get() if hasattr(x, "get") else x.copy_to_host()

