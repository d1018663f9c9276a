"""Arrays of other libraries as tensors of the C interface and back, without copies where strides allow it.

A view (`View`) is an address, an element type and a shape, with whatever keeps the memory alive.  Views are taken
of NumPy arrays, of anything with `__dlpack__` (PyTorch, JAX, CuPy), and of what NumPy makes arrays of
(lists, numbers); of arrays on a GPU (gpu.py) too, where the model runs there.  A copy is made only of an array that is not contiguous, of strings, and of elements of
fewer than 8 bits, which Tenon packs.

Results are of the kind that came in (`Kind`).
"""

from __future__ import annotations

import ctypes as C
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _ffi, gpu
from .dtypes import BY_CODE, BY_DLPACK, BY_NUMPY, DType, array_dtype, pack, unpack
from .errors import InvalidError, UnsupportedError

Shape = Tuple[int, ...]


class View(NamedTuple):
    """Memory that the C interface reads or writes."""

    address: int
    dtype: DType
    shape: Shape
    nbytes: int
    keep: Any  # what must stay alive as long as the address is used
    memory: int = _ffi.MEMORY_HOST
    device: int = 0
    copied: bool = False  # of another library's array: the memory is not the array's own


# ---- NumPy ----


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _strings(array: np.ndarray) -> View:
    texts = [x if isinstance(x, bytes) else str(x).encode("utf-8") for x in array.reshape(-1).tolist()]
    blob = C.create_string_buffer(b"".join(texts) + b"\0")
    elements = (_ffi.String * max(len(texts), 1))()
    at = C.addressof(blob)
    for element, text in zip(elements, texts):
        element.data, element.size = at, len(text)
        at += len(text)
    return View(C.addressof(elements), BY_NUMPY[np.dtype(object)], array.shape, C.sizeof(elements), (elements, blob))


def _numpy_type(array: np.ndarray, want: Optional[DType]) -> DType:
    """Which type the elements are: bare bits count as the type that is wanted, where NumPy has none for it."""
    if want is not None and want.numpy is None and array.dtype == want.raw:
        return want
    found = BY_NUMPY.get(array.dtype)
    if found is None:
        raise InvalidError(f"Tenon has no element type for NumPy's {array.dtype}")
    return found


def view_numpy(array: np.ndarray, want: Optional[DType]) -> View:
    if array.dtype.kind in "OUS":
        return _strings(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    t = _numpy_type(array, want)
    shape = array.shape
    if t.bits < 8:
        array = pack(np.ascontiguousarray(array), t.bits)
    elif not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return View(address_of(array), t, shape, array.nbytes, array)


# ---- DLPack ----


class _DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device_type", C.c_int32),
        ("device_id", C.c_int32),
        ("ndim", C.c_int32),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


_pointer_of = C.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
_HOST = {1: "cpu", 3: "cuda_host", 11: "rocm_host"}
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}


def _row_major(d: _DLTensor, shape: Shape) -> bool:
    if not d.strides:
        return True
    want = 1
    for k in range(len(shape) - 1, -1, -1):
        if shape[k] != 1 and d.strides[k] != want:
            return 0 in shape
        want *= shape[k]
    return True


def _strided(address: int, t: DType, shape: Shape, strides: Sequence[int]) -> np.ndarray:
    """A row-major copy of elements that lie otherwise."""
    size = t.raw.itemsize if t.raw is not None else t.bits // 8
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides))
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides))
    memory = (C.c_char * ((high - low + 1) * size)).from_address(address + low * size)
    base = np.frombuffer(memory, dtype=t.raw if t.raw is not None else t.numpy)
    seen = np.lib.stride_tricks.as_strided(base[-low:], shape, [s * size for s in strides])
    return np.ascontiguousarray(seen)


def _not_here(kind: int, number: int) -> UnsupportedError:
    where = _DEVICES.get(kind, f"DLPack device {kind}")
    advice = ', or compile the model for the GPU (target="cuda")' if kind in gpu.CUDA_DEVICES else ""
    return UnsupportedError(
        f"the array is in the memory of {where} device {number}; Tenon takes arrays in the memory of the CPU here: "
        f"copy it there first (x.cpu(), jax.device_get(x)){advice}"
    )


def view_dlpack(x: Any, home: Optional[gpu.Home] = None) -> View:
    kind, number = map(int, x.__dlpack_device__())
    on_gpu = kind in gpu.CUDA_DEVICES and home is not None
    if kind not in _HOST and not on_gpu:
        raise _not_here(kind, number)
    resolved = False
    if hasattr(x, "resolve_neg"):  # PyTorch's: DLPack takes none with a gradient, and says nothing of pending signs
        before, x = x, x.detach().resolve_neg().resolve_conj()
        resolved = x.data_ptr() != before.data_ptr()
    capsule = x.__dlpack__(stream=home.stream) if on_gpu and home is not None else x.__dlpack__()
    d = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    t = BY_DLPACK.get((d.code, d.bits)) if d.lanes == 1 else None
    if t is None:
        raise InvalidError(f"Tenon has no element type for DLPack's type {d.code} of {d.bits} bits, {d.lanes} lanes")
    shape = tuple(d.shape[: d.ndim])
    address = (d.data or 0) + d.byte_offset
    if not _row_major(d, shape):
        if on_gpu:
            return view_dlpack(gpu.row_by_row(x), home)._replace(copied=True)
        copy = _strided(address, t, shape, d.strides[: d.ndim])
        return View(address_of(copy), t, shape, copy.nbytes, copy)
    count = 1
    for n in shape:
        count *= n
    view = View(address, t, shape, count * t.bits // 8, (capsule, x), copied=resolved)
    return view._replace(memory=_ffi.MEMORY_CUDA, device=number) if on_gpu else view


def _view_interface(x: Any, home: Optional[gpu.Home]) -> View:
    if home is None:
        raise _not_here(2, 0)
    address, name, shape, dense = gpu.from_interface(x)
    t = BY_NUMPY.get(np.dtype(getattr(x, "dtype", name)))  # types of ml_dtypes have no name in the interface
    if t is None or not dense:
        raise InvalidError(f"the array on the GPU has elements {name} of shape {list(shape)}: " +
                           ("it must be contiguous (row-major)" if t else "Tenon has no such type"))
    return View(address, t, shape, int(np.prod(shape, dtype=np.int64)) * t.bits // 8, x, _ffi.MEMORY_CUDA, home.device)


def view_of(x: Any, want: Optional[DType] = None, home: Optional[gpu.Home] = None) -> View:
    """The memory of anything that is an array or can be made one; `want` is the type that the model takes, `home`
    where the call works if that is a GPU."""
    if isinstance(x, np.ndarray):
        return view_numpy(x, want)
    if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
        return view_dlpack(x, home)
    if getattr(x, "__cuda_array_interface__", None) is not None:
        return _view_interface(x, home)
    if isinstance(x, np.generic):
        return view_numpy(np.asarray(x), want)
    return view_numpy(np.asarray(x, dtype=array_dtype(want) if want is not None else None), want)


def describe(tensor: "_ffi.Tensor", view: View) -> None:
    tensor.data, tensor.dtype, tensor.rank = view.address, view.dtype.code, len(view.shape)
    tensor.bytes, tensor.owner, tensor.memory, tensor.device = view.nbytes, None, view.memory, view.device
    for k, n in enumerate(view.shape):
        tensor.shape[k] = n


# ---- results ----


class _Owned:
    """Memory that Tenon allocated, given back with the last array that shows it."""

    def __init__(self, tensor: "_ffi.Tensor", nbytes: int) -> None:
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (tensor.data, False)}

    def __del__(self) -> None:
        if not _ffi._Life.ending:
            _ffi.lib.tenon_tensor_release(C.addressof(self.tensor))


def take(tensor: "_ffi.Tensor") -> np.ndarray:
    """An array of what a run allocated; the tensor's memory goes over to it."""
    own = _ffi.Tensor.from_buffer_copy(tensor)
    tensor.data = tensor.owner = None
    tensor.bytes = 0
    t, shape = BY_CODE[own.dtype], tuple(own.shape[: own.rank])
    if t.name == "string":
        made = _strings_of(own, shape)
        _ffi.lib.tenon_tensor_release(C.addressof(own))
        return made
    return _typed(np.asarray(_Owned(own, own.bytes)), t, shape)


def array_of(tensor: "_ffi.Tensor") -> np.ndarray:
    """A copy of a tensor whose memory stays the library's."""
    t, shape = BY_CODE[tensor.dtype], tuple(tensor.shape[: tensor.rank])
    if t.name == "string":
        return _strings_of(tensor, shape)
    return _typed(np.frombuffer(bytearray(C.string_at(tensor.data, tensor.bytes)), np.uint8), t, shape)


def _typed(held: np.ndarray, t: DType, shape: Shape) -> np.ndarray:
    if t.bits < 8:
        return unpack(held, t, int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return held.view(array_dtype(t)).reshape(shape)


def _strings_of(tensor: "_ffi.Tensor", shape: Shape) -> np.ndarray:
    out = np.empty(int(np.prod(shape, dtype=np.int64)), object)
    elements = (_ffi.String * out.size).from_address(tensor.data) if out.size else ()
    for i, element in enumerate(elements):
        out[i] = C.string_at(element.data, element.size).decode("utf-8", "replace") if element.size else ""
    return out.reshape(shape)


class Kind:
    """A library's arrays, as results are made of them.  This one: NumPy."""

    name = "numpy"
    on_gpu = False  # whether it has arrays there

    def empty(self, t: DType, shape: Shape, device: Optional[int] = None) -> Tuple[Any, int]:
        """A new array and its address; on a GPU, where a device is given."""
        array = np.empty(shape, array_dtype(t))
        return array, address_of(array)

    def move(self, array: Any, device: int) -> Any:
        """A result of the host's on a GPU."""
        return array

    def wrap(self, array: np.ndarray, t: DType) -> Any:
        """The array of this library that shows a NumPy array's memory; the NumPy array where the library has no
        such type."""
        return array


class TorchKind(Kind):
    """PyTorch's tensors, made through data pointers: no copy and no capsule."""

    name = "torch"
    on_gpu = True

    def __init__(self, torch: Any) -> None:
        names = {
            "f32": "float32",
            "f64": "float64",
            "f16": "float16",
            "bf16": "bfloat16",
            "u8": "uint8",
            "i8": "int8",
            "i16": "int16",
            "i32": "int32",
            "i64": "int64",
            "bool": "bool",
            "u16": "uint16",
            "u32": "uint32",
            "u64": "uint64",
            "c64": "complex64",
            "c128": "complex128",
            "f8e4m3": "float8_e4m3fn",
            "f8e4m3z": "float8_e4m3fnuz",
            "f8e5m2": "float8_e5m2",
            "f8e5m2z": "float8_e5m2fnuz",
            "f8e8m0": "float8_e8m0fnu",
        }
        self.torch = torch
        self.dtypes = {k: getattr(torch, v) for k, v in names.items() if hasattr(torch, v)}

    def dtype(self, t: DType) -> Any:
        if t.name not in self.dtypes:
            raise UnsupportedError(f"PyTorch has no element type for {t.name}")
        return self.dtypes[t.name]

    def empty(self, t: DType, shape: Shape, device: Optional[int] = None) -> Tuple[Any, int]:
        where = None if device is None else self.torch.device("cuda", device)
        tensor = self.torch.empty(shape, dtype=self.dtype(t), device=where)
        return tensor, tensor.data_ptr()

    def move(self, array: Any, device: int) -> Any:
        return array.to(self.torch.device("cuda", device)) if isinstance(array, self.torch.Tensor) else array

    def wrap(self, array: np.ndarray, t: DType) -> Any:
        if t.name not in self.dtypes:
            return array
        if t.numpy is not None and t.numpy.isbuiltin == 1:
            return self.torch.from_numpy(array)
        return self.torch.from_numpy(array.view(t.raw)).view(self.dtypes[t.name])


class DLPackKind(Kind):
    """Any other library with from_dlpack: results are NumPy's memory, shown by it."""

    def __init__(self, name: str, from_dlpack: Any) -> None:
        self.name = name
        self.from_dlpack = from_dlpack

    def wrap(self, array: np.ndarray, t: DType) -> Any:
        return self.from_dlpack(array) if array.dtype.isbuiltin == 1 and array.dtype != object else array


class CupyKind(DLPackKind):
    """CuPy's arrays, which are always on a GPU."""

    on_gpu = True

    def __init__(self, cupy: Any) -> None:
        super().__init__("cupy", cupy.asarray)
        self.cupy = cupy

    def empty(self, t: DType, shape: Shape, device: Optional[int] = None) -> Tuple[Any, int]:
        if device is None:
            return super().empty(t, shape)
        with self.cupy.cuda.Device(device):
            array = self.cupy.empty(shape, array_dtype(t))
        return array, array.data.ptr

    def wrap(self, array: np.ndarray, t: DType) -> Any:
        return array

    def move(self, array: Any, device: int) -> Any:
        with self.cupy.cuda.Device(device):
            return self.cupy.asarray(array)


class JaxKind(DLPackKind):
    """JAX's arrays.  One on a GPU is written into before anybody else has seen it."""

    on_gpu = True

    def __init__(self, jax: Any) -> None:
        super().__init__("jax", jax.numpy.from_dlpack)
        self.jax = jax

    def _device(self, number: int) -> Any:
        return next(d for d in self.jax.devices("gpu") if (d.local_hardware_id or 0) == number)

    def empty(self, t: DType, shape: Shape, device: Optional[int] = None) -> Tuple[Any, int]:
        if device is None:
            return super().empty(t, shape)
        array = self.jax.numpy.empty(shape, array_dtype(t), device=self._device(device)).block_until_ready()
        if array.dtype != array_dtype(t):  # 64 bits, unless JAX is told to have them
            raise UnsupportedError(f"JAX has no {t.name} unless jax_enable_x64 is set")
        return array, array.unsafe_buffer_pointer()

    def move(self, array: Any, device: int) -> Any:
        return self.jax.device_put(array, self._device(device))


NUMPY = Kind()
_kinds = {"numpy": NUMPY}


def kind_of(x: Any) -> Kind:
    """The kind of results that an input asks for."""
    if isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "__dlpack__"):
        return NUMPY
    name = type(x).__module__.split(".")[0]
    name = {"jaxlib": "jax"}.get(name, name)
    if name not in _kinds:
        module = sys.modules.get(name)
        if name == "torch" or hasattr(x, "data_ptr") and "torch" in sys.modules:
            _kinds[name] = TorchKind(sys.modules["torch"])
        elif name == "jax":
            _kinds[name] = JaxKind(sys.modules["jax"])
        elif name == "cupy":
            _kinds[name] = CupyKind(module)
        elif hasattr(module, "from_dlpack"):
            _kinds[name] = DLPackKind(name, module.from_dlpack)
        else:
            _kinds[name] = NUMPY
    return _kinds[name]
