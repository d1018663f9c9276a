"""ONNX Runtime's values: devices, tensors, sparse tensors, vectors of them, and the bindings of a session.

ONNX Runtime has most of these twice: as a class of its extension module and as one of Python that wraps it.  Here one class takes both
kinds of arguments; `ort_state` has the few names that differ.
"""
from __future__ import annotations

import enum
import types
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import gpu, onnx_meta
from .dtypes import BY_CODE, BY_NAME, BY_NUMPY, DType, array_dtype
from .ort_errors import NotImplemented, made
from .ort_options import NodeArg, OrtSparseFormat

NAMES = {i: name for i, name in enumerate(onnx_meta.ELEMENTS)}


# ---- devices ----


class OrtDeviceVendorId(enum.IntEnum):
    """PCI vendor ids."""
    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "webgpu": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 1}
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI,
            "webgpu": OrtDeviceVendorId.NONE}


def get_ort_device_type(device_type: str) -> int:
    """The number of a kind of device."""
    if device_type not in _DEVICE_TYPES or device_type == "fpga":
        raise Exception("Unsupported device type: " + device_type)
    return _DEVICE_TYPES[device_type]


def get_vendor_id_for_device_type(device_type: str) -> Optional[OrtDeviceVendorId]:
    """The vendor that a kind of device belongs to, where there is one."""
    return _VENDORS.get(device_type)


class OrtDevice:
    """A device: its kind, its vendor and its number.

    >>> import tenon.ort as ort
    >>> device = ort.OrtDevice.make("cpu", 0)
    >>> device.device_type(), device.device_id()
    (0, 0)
    """

    def __init__(self, *fields: Any) -> None:
        if len(fields) == 1 and isinstance(fields[0], OrtDevice):
            self._fields = fields[0]._fields
        elif len(fields) in (3, 4) and all(isinstance(f, int) for f in fields):
            kind, memory, *vendor, number = fields
            self._fields = (kind, memory, int(vendor[0]) if vendor else 0, number)
        else:
            raise ValueError("an OrtDevice is made of an OrtDevice, or of numbers: type, memory, vendor (may be left out), id")

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        kind = get_ort_device_type(ort_device_name)
        vendor = int(vendor_id) if vendor_id >= 0 else int(_VENDORS.get(ort_device_name, 0))
        return OrtDevice(kind, 0, vendor, device_id)

    def _get_c_device(self) -> "OrtDevice":
        return self

    def device_type(self) -> int:
        return self._fields[0]

    def mem_type(self) -> int:
        return self._fields[1]

    def vendor_id(self) -> int:
        return self._fields[2]

    def device_id(self) -> int:
        return self._fields[3]

    device_mem_type, device_vendor_id = mem_type, vendor_id


for _name, _number in {**_DEVICE_TYPES, "default_memory": 0}.items():
    setattr(OrtDevice, _name, staticmethod(lambda _number=_number: _number))


def _device_name(device: Any) -> str:
    """"cpu", "cuda", ... of a name or an OrtDevice."""
    if not isinstance(device, OrtDevice):
        return str(device).lower()
    if device.device_type() == 0:
        return "cpu"
    cuda = device.device_type() == 1 and device.vendor_id() in (0, OrtDeviceVendorId.NVIDIA)
    return "cuda" if cuda else f"device type {device.device_type()}"


def _host_only(device: Any) -> None:
    name = _device_name(device)
    if name not in ("cpu", "cuda_pinned"):
        raise made(NotImplemented, f"an OrtValue is made in the memory of the CPU here, not of '{name}': for a GPU give "
                   "io_binding the arrays of a library that has memory there (bind_input with a tensor's data_ptr())")


# ---- tensors ----


def element_of(array: Any) -> Optional[DType]:
    return BY_NAME["string"] if array.dtype.kind in "OUS" else BY_NUMPY.get(array.dtype)


def type_of(value: Any) -> str:
    """A value's type in ONNX Runtime's words."""
    if isinstance(value, SparseTensor):
        return value.data_type()
    if isinstance(value, (list, tuple)):
        return f"seq({type_of(value[0]) if value else 'tensor(float)'})"
    if isinstance(value, dict):
        key, x = next(iter(value.items()), (0, 0.0))
        return f"map({'string' if isinstance(key, str) else 'int64'},{type_of(np.asarray(x, np.float32 if isinstance(x, float) else None))})"
    kind = element_of(value) if hasattr(value, "dtype") else None
    return f"tensor({NAMES[kind.code]})" if kind is not None else "tensor(undefined)"


def dtype_of(element: Any) -> np.dtype:
    """NumPy's dtype of a dtype, or of a number of ONNX's TensorProto.DataType."""
    return array_dtype(BY_CODE[element]) if isinstance(element, int) else np.dtype(element)


def as_numpy(x: Any) -> Any:
    """What a run is fed: ONNX Runtime gives NumPy arrays back whatever came in."""
    if isinstance(x, OrtValue):
        return x._value
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return x
    return np.from_dlpack(x.detach() if hasattr(x, "detach") else x)


class _Capsule:
    """DLPack's capsule as an object that gives it, which is what NumPy takes; capsules come from the CPU's memory."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)


class OrtValue:
    """A tensor in the memory of the CPU, which NumPy shares; as a result also a sequence, a map, or a tensor on a GPU.

    >>> import numpy as np, tenon.ort as ort
    >>> v = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    >>> v.shape(), v.data_type(), v.device_name()
    ([2, 3], 'tensor(float)', 'cpu')
    """

    def __init__(self, ortvalue: "OrtValue", numpy_obj: Any = None, session: Any = None) -> None:
        if not isinstance(ortvalue, OrtValue):
            raise ValueError("an OrtValue is made by OrtValue.ortvalue_from_numpy and its like, or of another OrtValue")
        self._value, self._type = ortvalue._value, ortvalue._type

    @classmethod
    def _of(cls, value: Any, type_text: str = "") -> "OrtValue":
        """An OrtValue of an array, a list, a dict, a SparseTensor or None; its type where the value does not tell."""
        self = cls.__new__(cls)
        self._value, self._type = value, type_text
        return self

    @property
    def _ortvalue(self) -> "OrtValue":
        return self

    def _get_c_value(self) -> "OrtValue":
        return self

    # ---- made of ----

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1) -> "OrtValue":
        _host_only(device_type)
        return cls._of(np.ascontiguousarray(numpy_obj) if np.ndim(numpy_obj) else np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, onnx_element_type: int) -> "OrtValue":
        return cls._of(np.ascontiguousarray(data).view(dtype_of(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any = np.float32, device_type: Any = "cpu",
                                     device_id: int = 0, vendor_id: int = -1, memory_info: Any = None) -> "OrtValue":
        _host_only(device_type if memory_info is None else memory_info.device_name)
        return cls._of(np.zeros(tuple(shape), dtype_of(element_type)))

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @classmethod
    def ortvalue_from_shape_and_type_for_memory_info(cls, shape: Sequence[int], element_type: Any, memory_info: Any) -> "OrtValue":
        return cls.ortvalue_from_shape_and_type(shape, element_type, memory_info=memory_info)

    ortvalue_from_shape_and_onnx_type_for_memory_info = ortvalue_from_shape_and_type_for_memory_info

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: "SparseTensor") -> "OrtValue":
        return cls._of(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> "OrtValue":
        if type(data).__name__ == "PyCapsule":
            array = np.from_dlpack(_Capsule(data))
        else:
            array = as_numpy(data)
            array = array if isinstance(array, np.ndarray) else np.from_dlpack(array)
        return cls._of(array.view(np.bool_) if is_bool_tensor and array.dtype == np.uint8 else array)

    # ---- what it is ----

    def _tensor(self) -> Any:
        """The tensor; what is none has no elements to give."""
        if not self.is_tensor():
            raise RuntimeError(f"Only OrtValues that are Tensors are convertible to Numpy objects: this is {self.data_type()}")
        return self._value

    def numpy(self) -> np.ndarray:
        if isinstance(self._tensor(), gpu.Memory):
            raise made(NotImplemented, "the tensor is on a GPU, in memory of the caller's: copy it with the library that has it")
        return self._value

    def as_sparse_tensor(self) -> "SparseTensor":
        if not self.is_sparse_tensor():
            raise RuntimeError("This OrtValue does not contain SparseTensor. Check data_type() value.")
        return self._value

    def update_inplace(self, data: Any) -> None:
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        source, room = np.asarray(as_numpy(data)), self.numpy()
        if source.shape != room.shape or source.dtype != room.dtype:
            raise RuntimeError(f"the source is {source.dtype}{list(source.shape)}, the OrtValue {room.dtype}{list(room.shape)}")
        room[...] = source

    def shape(self) -> List[int]:
        return list(self._value.dense_shape()) if self.is_sparse_tensor() else list(self._tensor().shape)

    def data_type(self) -> str:
        return self._type or type_of(self._value)

    def element_type(self) -> int:
        """The number of ONNX's TensorProto.DataType of a tensor's elements, also of a sparse one and of a sequence's."""
        inner = self._value.values() if self.is_sparse_tensor() else self._value
        if isinstance(inner, list) and inner:
            inner = inner[0]
        kind = element_of(inner) if hasattr(inner, "dtype") else None
        if kind is None:
            raise RuntimeError(f"{self.data_type()} has no element type")
        return kind.code

    def tensor_size_in_bytes(self) -> int:
        x = self._tensor()
        return int(np.prod(x.shape, dtype=np.int64)) * x.dtype.itemsize

    def data_ptr(self) -> int:
        on_gpu = isinstance(self._tensor(), gpu.Memory)
        return (self._value.__cuda_array_interface__ if on_gpu else self._value.__array_interface__)["data"][0]

    def device_name(self) -> str:
        return "cuda" if isinstance(self._value, gpu.Memory) else "cpu"

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, (np.ndarray, gpu.Memory))

    def is_sparse_tensor(self) -> bool:
        return isinstance(self._value, SparseTensor)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list) and all(isinstance(x, np.ndarray) for x in self._value)

    # ---- for other libraries ----

    def to_dlpack(self) -> Any:
        return self.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return tuple(int(n) for n in self._tensor().__dlpack_device__())

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        array = self.numpy()
        if copy is not None:
            return np.array(array, dtype=dtype, copy=copy)
        return array if dtype is None else np.asarray(array, dtype=dtype)


class OrtValueVector(List[OrtValue]):
    """OrtValues in a row, with the methods of ONNX Runtime's vector."""

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def push_back_batch(self, tensors: Sequence[Any], addresses: Sequence[int], element_types: Sequence[Any],
                        shapes: Sequence[Sequence[int]], devices: Sequence[OrtDevice]) -> None:
        for tensor, address, element, shape, device in zip(tensors, addresses, element_types, shapes, devices):
            value = OrtValue._of(memory_at(device, device.device_id(), element, shape, address))
            value._owner = tensor  # its memory lives as long as the value
            self.append(value)

    def reserve(self, count: int) -> None:
        """Python's lists grow by themselves."""

    def shrink_to_fit(self) -> None:
        """As reserve."""

    def element_type_at(self, idx: int) -> int:
        return self[idx].element_type()

    def bool_tensor_indices(self) -> List[int]:
        return [i for i, v in enumerate(self) if v.data_type() == "tensor(bool)"]

    def dlpack_at(self, idx: int) -> Any:
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Any = None) -> List[Any]:
        made_ = [v.to_dlpack() for v in self]
        return made_ if to_tensor is None else [to_tensor(c) for c in made_]


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies the elements of some tensors into others of the same types and sizes."""
    if len(src) != len(dst):
        raise RuntimeError(f"{len(src)} tensors cannot be copied into {len(dst)}")
    for a, b in zip(src, dst):
        b.update_inplace(a)


# ---- sparse tensors ----


class _View:
    """The index arrays of a sparse tensor."""

    def __init__(self, **arrays: np.ndarray) -> None:
        for name, array in arrays.items():
            setattr(self, name, lambda array=array: array)


class SparseCooView(_View):
    """indices()."""


class SparseCsrView(_View):
    """inner() and outer()."""


class SparseBlockSparseView(_View):
    """indices()."""


class SparseTensor:
    """A sparse tensor in COO, CSR or block-sparse form.

    >>> import numpy as np, tenon.ort as ort
    >>> x = ort.SparseTensor.sparse_coo_from_numpy([3, 3], np.ones(2, np.float32), np.array([0, 4]), ort.OrtDevice.make("cpu", 0))
    >>> x.format().name, x.as_coo_view().indices().tolist()
    ('ORT_SPARSE_COO', [0, 4])
    """

    def __init__(self, sparse_tensor: "SparseTensor") -> None:
        if not isinstance(sparse_tensor, SparseTensor):
            raise ValueError("a SparseTensor is made by sparse_coo_from_numpy or sparse_csr_from_numpy, or of another one")
        self.__dict__.update(sparse_tensor.__dict__)

    @classmethod
    def _of(cls, form: OrtSparseFormat, dense_shape: Sequence[int], values: np.ndarray, view: _View, device: Any) -> "SparseTensor":
        _host_only(device)
        self = cls.__new__(cls)
        self._form, self._shape, self._view = form, [int(n) for n in dense_shape], view
        self._values = np.ascontiguousarray(values)
        return self

    def _get_c_tensor(self) -> "SparseTensor":
        return self

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, coo_indices: np.ndarray,
                              ort_device: OrtDevice) -> "SparseTensor":
        at, count = np.ascontiguousarray(coo_indices, np.int64), np.asarray(values).size
        if at.size not in (count, 2 * count):
            raise RuntimeError(f"{at.size} indices do not fit {count} values: one or two for each are needed")
        return cls._of(OrtSparseFormat.ORT_SPARSE_COO, dense_shape, values, SparseCooView(indices=at), ort_device)

    @classmethod
    def sparse_csr_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, inner_indices: np.ndarray,
                              outer_indices: np.ndarray, ort_device: OrtDevice) -> "SparseTensor":
        inner, outer = (np.ascontiguousarray(x, np.int64) for x in (inner_indices, outer_indices))
        rows = list(dense_shape)[0] if len(dense_shape) == 2 else -1
        if inner.size != np.asarray(values).size or rows < 0 or outer.size not in (0, rows + 1):
            raise RuntimeError(f"{inner.size} inner and {outer.size} outer indices do not fit {np.asarray(values).size} values "
                               f"of a matrix {list(dense_shape)}")
        return cls._of(OrtSparseFormat.ORT_SPARSE_CSRC, dense_shape, values, SparseCsrView(inner=inner, outer=outer), ort_device)

    @classmethod
    def blocksparse_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, indices: np.ndarray,
                               ort_device: OrtDevice) -> "SparseTensor":
        at = np.ascontiguousarray(indices, np.int32)
        return cls._of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, dense_shape, values, SparseBlockSparseView(indices=at), ort_device)

    def _view_of(self, form: OrtSparseFormat, name: str) -> Any:
        if self._form != form:
            raise RuntimeError(f"This sparse tensor does not contain {name} format")
        return self._view

    def as_coo_view(self) -> SparseCooView:
        return self._view_of(OrtSparseFormat.ORT_SPARSE_COO, "COO")

    def as_csrc_view(self) -> SparseCsrView:
        return self._view_of(OrtSparseFormat.ORT_SPARSE_CSRC, "CSR(C)")

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        return self._view_of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, "BlockSparse")

    get_coo_data, get_csrc_data, get_blocksparse_data = as_coo_view, as_csrc_view, as_blocksparse_view

    def to_cuda(self, ort_device: OrtDevice) -> "SparseTensor":
        raise RuntimeError("Cuda is not available for sparse tensors")

    def format(self) -> OrtSparseFormat:
        return self._form

    def values(self) -> np.ndarray:
        return self._values

    def dense_shape(self) -> List[int]:
        return list(self._shape)

    def data_type(self) -> str:
        return "sparse_" + type_of(self._values)

    def device_name(self) -> str:
        return "cpu"


# ---- bindings ----


def memory_at(device_type: Any, device_id: int, element_type: Any, shape: Sequence[int],
              address: int) -> Union[np.ndarray, gpu.Memory]:
    """An array over the caller's memory, which must outlive it."""
    dtype, name = dtype_of(element_type), _device_name(device_type)
    if name == "cuda":
        return gpu.Memory(address, dtype, tuple(shape), device_id)
    if name not in ("cpu", "cuda_pinned"):
        raise made(NotImplemented, f"memory of '{name}' cannot be bound: Tenon takes the CPU's and CUDA's")
    holder = types.SimpleNamespace(__array_interface__={"version": 3, "typestr": "|u1", "data": (address, False),
                                                        "shape": (int(np.prod(shape, dtype=np.int64)) * dtype.itemsize,)})
    return np.asarray(holder).view(dtype).reshape(tuple(shape))


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

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}
        self._results = OrtValueVector()

    @property
    def _iobinding(self) -> "IOBinding":
        return self

    def _input(self, name: str) -> str:
        known: List[NodeArg] = self._session.get_inputs() + self._session.get_overridable_initializers()
        if not any(v.name == name for v in known):
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        return name

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        given = as_numpy(arr_on_cpu)
        self._inputs[self._input(name)] = given if isinstance(given, (list, dict)) else np.asarray(given)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        memory = memory_at(device_type, device_id, element_type, shape, buffer_ptr)
        self._inputs[self._input(name)] = memory

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[self._input(name)] = ortvalue._value

    def bind_output(self, name: str, device_type: Any = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        if buffer_ptr is None and _device_name(device_type) not in ("cpu", "cuda_pinned"):
            raise made(NotImplemented, "an output on a GPU needs a buffer of the caller's")
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._outputs[name] = None if not buffer_ptr else memory_at(device_type, device_id, element_type, shape or (), buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._outputs[name] = ortvalue._value

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: what is on a GPU is read after what is in CUDA's default stream."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run has ended when it returns."""

    def get_outputs(self) -> List[OrtValue]:
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return self._results

    def copy_outputs_to_cpu(self) -> List[Any]:
        return [v.numpy() if v.is_tensor() else v._value for v in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results = OrtValueVector()


class SessionIOBinding(IOBinding):
    """As in Python, with devices instead of their names."""

    def __init__(self, session: Any) -> None:
        super().__init__(session._session)

    def bind_input(self, name: str, given: Any, *memory: Any) -> None:  # type: ignore[override]
        if memory:
            super().bind_input(name, given, given.device_id(), *memory)
        else:
            self.bind_cpu_input(name, given)

    def bind_output(self, name: str, device: OrtDevice, *memory: Any) -> None:  # type: ignore[override]
        super().bind_output(name, device, device.device_id(), *memory)

    def get_outputs(self) -> OrtValueVector:
        return self._results
