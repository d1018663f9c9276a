"""ONNX Runtime's exceptions: their classes, their numbers, and the sentences by which programs know them.

Every message begins as ONNX Runtime's does ("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ") and ends with Tenon's own, which names the
node and the cause.
"""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type

import numpy as np

from . import errors


class OnnxRuntimeError(Exception):
    """What all of them have in common here; ``__cause__`` is Tenon's own exception."""


STATUS: Dict[str, Tuple[int, str]] = {
    "Fail": (1, "FAIL"), "InvalidArgument": (2, "INVALID_ARGUMENT"), "NoSuchFile": (3, "NO_SUCHFILE"), "NoModel": (4, "NO_MODEL"),
    "EngineError": (5, "ENGINE_ERROR"), "RuntimeException": (6, "RUNTIME_EXCEPTION"), "InvalidProtobuf": (7, "INVALID_PROTOBUF"),
    "ModelLoaded": (8, "MODEL_LOADED"), "NotImplemented": (9, "NOT_IMPLEMENTED"), "InvalidGraph": (10, "INVALID_GRAPH"),
    "EPFail": (11, "EP_FAIL"), "ModelLoadCanceled": (12, "MODEL_LOAD_CANCELED"),
    "ModelRequiresCompilation": (13, "MODEL_REQUIRES_COMPILATION"), "NotFound": (14, "NOT_FOUND"), "DeviceReset": (15, "DEVICE_RESET"),
}
_CLASSES: Dict[str, Type[OnnxRuntimeError]] = {name: type(name, (OnnxRuntimeError,), {"__module__": __name__}) for name in STATUS}
Fail, InvalidArgument, NoSuchFile, NoModel = (_CLASSES[n] for n in ("Fail", "InvalidArgument", "NoSuchFile", "NoModel"))
EngineError, RuntimeException, InvalidProtobuf = (_CLASSES[n] for n in ("EngineError", "RuntimeException", "InvalidProtobuf"))
ModelLoaded, NotImplemented, InvalidGraph, EPFail = (_CLASSES[n] for n in ("ModelLoaded", "NotImplemented", "InvalidGraph", "EPFail"))
ModelLoadCanceled, ModelRequiresCompilation = _CLASSES["ModelLoadCanceled"], _CLASSES["ModelRequiresCompilation"]
NotFound, DeviceReset = _CLASSES["NotFound"], _CLASSES["DeviceReset"]


def made(kind: Type[OnnxRuntimeError], text: str) -> OnnxRuntimeError:
    """An exception with ONNX Runtime's head.

    >>> from tenon import ort_errors
    >>> print(ort_errors.made(ort_errors.InvalidArgument, "Invalid input name: z"))
    [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: z
    """
    number, word = STATUS[kind.__name__]
    return kind(f"[ONNXRuntimeError] : {number} : {word} : {text}")


def refused(what: str, why: str) -> OnnxRuntimeError:
    """What Tenon does not do, with the reason and what to do instead."""
    return made(NotImplemented, f"{what} is not supported by Tenon: {why}")


# Tenon's class: (ONNX Runtime's, its sentence)
_LOADING = ((errors.CancelledError, ModelLoadCanceled, "Session initialization canceled due to user request. "),
            (errors.FormatError, InvalidProtobuf, "Protobuf parsing failed. "),
            (errors.InvalidError, InvalidGraph, "This is an invalid model. "),
            (errors.UnsupportedError, NotImplemented, "Could not find an implementation. "),
            (errors.FileError, Fail, ""))
_RUNNING = ((errors.InvalidError, InvalidArgument, ""), (errors.UnsupportedError, NotImplemented, ""),
            (errors.DeviceError, EPFail, ""))


def _as_ort(error: errors.TenonError, table: Any, head: str) -> OnnxRuntimeError:
    for ours, kind, sentence in table:
        if isinstance(error, ours):
            return made(kind, f"{head}{sentence}{error}")
    return made(RuntimeException, f"{head}{error}")


def of_loading(error: errors.TenonError, path: Optional[str]) -> OnnxRuntimeError:
    """What a session's constructor raises."""
    if path is None and isinstance(error, errors.FormatError):
        return made(InvalidProtobuf, f"Failed to load model because protobuf parsing failed. {error}")
    return _as_ort(error, _LOADING, f"Load model from {path} failed:" if path is not None else "")


def of_running(error: errors.TenonError, inputs: Sequence[Any], feed: Mapping[str, Any]) -> OnnxRuntimeError:
    """What a run raises; where an input does not fit, in ONNX Runtime's words for it."""
    if isinstance(error, errors.InvalidError):
        for arg in inputs:
            said = _mismatch(arg, feed.get(arg.name))
            if said:
                return made(InvalidArgument, f"{said}\n{error}")
    return _as_ort(error, _RUNNING, "")


def _mismatch(arg: Any, given: Any) -> str:
    """How an array differs from a NodeArg; nothing where it fits, or is none."""
    if not isinstance(given, np.ndarray):
        return ""
    from .ort_values import type_of
    actual = type_of(given)
    if actual != arg.type:
        return f"Unexpected input data type. Actual: ({actual}) , expected: ({arg.type})"
    if given.ndim != len(arg.shape):
        return (f"Invalid rank for input: {arg.name} Got: {given.ndim} Expected: {len(arg.shape)} "
                "Please fix either the inputs/outputs or the model.")
    wrong = [f" index: {i} Got: {n} Expected: {want}\n" for i, (n, want) in enumerate(zip(given.shape, arg.shape))
             if isinstance(want, int) and n != want]
    if not wrong:
        return ""
    return (f"Got invalid dimensions for input: {arg.name} for the following indices\n{''.join(wrong)}"
            " Please fix either the inputs/outputs or the model.")
