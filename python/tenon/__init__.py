"""Tenon, an AI compiler, from Python.

    import tenon
    m = tenon.compile("model.onnx")
    y = m(x)

`compile` makes a `Model` of a file, of bytes, of an onnx.ModelProto or of a torch module; `load` of what
`Model.save` wrote.  Arrays are NumPy's or anything's with `__dlpack__`, and are not copied.
"""

import os as _os
import sys as _sys

from . import _ffi
from .errors import (
    CancelledError,
    DeviceError,
    FileError,
    FormatError,
    InternalError,
    InvalidError,
    MissingFileError,
    OutOfMemoryError,
    TenonError,
    TenonWarning,
    UnsupportedError,
)
from .llm import LLM, Answer, Piece
from .model import Model, compile, load
from .options import compile_options
from .ort import InferenceSession
from .profile import Profile
from .progress import Progress
from .quantize import Quantized, prune, quantize
from .reference import run
from .session import Session, Value
from .tools import Target, graph, inspect, targets
from .tune import Tuned, tune

# In a checkout there is no entry point from which torch.compile knows the backend.
if "torch" in _sys.modules and not _os.path.isdir(_os.path.join(_ffi.HERE, "lib")):
    from . import torch_backend as _torch_backend

__version__ = _ffi.lib.tenon_version().decode()
__all__ = [
    "Answer",
    "CancelledError",
    "DeviceError",
    "FileError",
    "FormatError",
    "InferenceSession",
    "InternalError",
    "InvalidError",
    "LLM",
    "MissingFileError",
    "Model",
    "OutOfMemoryError",
    "Piece",
    "Profile",
    "Progress",
    "Quantized",
    "Session",
    "Target",
    "TenonError",
    "TenonWarning",
    "Tuned",
    "UnsupportedError",
    "Value",
    "compile",
    "compile_options",
    "graph",
    "inspect",
    "load",
    "prune",
    "quantize",
    "run",
    "targets",
    "tune",
]
