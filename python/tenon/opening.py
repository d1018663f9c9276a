"""Model files on their way into the compiler: paths, bytes, onnx.ModelProto, and weights that lie in arrays."""

from __future__ import annotations

import ctypes as C
import os
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from . import _ffi
from .arrays import address_of, describe, view_of
from .errors import InvalidError, check
from .gpu import device_of, to_host


class OpenedModel:
    """A tenon_model for as long as a `with` lasts.  `keep` is what must live as long as a program made of it."""

    def __init__(
        self,
        source: Any,
        weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]] = None,
        types: Sequence[str] = (),
        inputs: Sequence[str] = (),
        threads: int = 0,
        memory_limit: int = 0,
        signature: Optional[str] = None,
    ) -> None:
        error, handle = _ffi.Error(), C.c_void_p()
        options = _ffi.OpenOptions(
            struct_size=C.sizeof(_ffi.OpenOptions),
            threads=threads,
            memory_limit=memory_limit,
            inputs=_texts(inputs),
            ninputs=len(inputs),
            types=_texts(types),
            ntypes=len(types),
            signature=signature.encode() if signature is not None else None,
        )
        self.handle, self.keep, self.name = 0, [], ""
        if isinstance(weights, Mapping):
            views = [view_of(to_host(x) if device_of(x) is not None else x) for x in weights.values()]
            tensors = (_ffi.NamedTensor * max(len(views), 1))()
            for tensor, name, view in zip(tensors, weights, views):
                tensor.name = name.encode()
                describe(tensor.tensor, view)
            options.tensors, options.ntensors = tensors, len(views)
            self.keep.append(views)
        elif weights is not None:
            options.weights = _ffi.encode(weights)
        if isinstance(source, (str, os.PathLike)):
            self.name = os.fspath(source)
            status = _ffi.lib.tenon_model_open_with(
                _ffi.encode(source), C.byref(options), C.byref(handle), C.byref(error)
            )
        else:
            data = bytes_of(source)
            self.keep.append(data)
            status = _ffi.lib.tenon_model_open_memory(
                address_of(data), data.nbytes, C.byref(options), C.byref(handle), C.byref(error)
            )
        check(status, error)
        self.handle = handle.value or 0

    def __enter__(self) -> "OpenedModel":
        return self

    def __exit__(self, *_unused: Any) -> None:
        _ffi.lib.tenon_model_close(self.handle)
        self.handle = 0

    def take(self) -> int:
        """The handle, which is the caller's to close from now on."""
        handle, self.handle = self.handle, 0
        return handle


def _texts(texts: Sequence[str]) -> Any:
    return (C.c_char_p * len(texts))(*[t.encode() for t in texts]) if texts else None


def bytes_of(source: Any) -> np.ndarray:
    """A model in memory: bytes, or whatever serialises itself as onnx.ModelProto does."""
    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    try:
        return np.frombuffer(source, np.uint8)
    except (TypeError, ValueError):
        raise InvalidError(
            f"a model is a path, bytes, an onnx.ModelProto or a torch module, not {type(source).__name__}"
        ) from None
