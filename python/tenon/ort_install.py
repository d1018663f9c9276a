"""tenon.ort in the place of the package `onnxruntime`.

`install` puts modules of the names that programs import into `sys.modules`: the package, and of its folder `capi` what Tenon has.
Everything else of the package (quantization, tools, transformers, datasets, backend) is imported from the real one, where it is
installed; it then works with Tenon's sessions.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any, Dict, List, Optional, Sequence

# Parts of the package that are not Tenon's.
LEFT = ("backend", "datasets", "quantization", "tools", "transformers")
# Names of the extension module that are not Tenon's: other parts of the package use them.
LEFT_IN_STATE = frozenset((
    "get_all_operator_schema", "get_all_opkernel_def", "get_compatibility_info_from_model", "get_compatibility_info_from_model_bytes",
    "get_model_compatibility_for_ep_devices", "get_registered_ep_kernel_defs", "opkernel", "pack_fp4_weights_for_cuda_moe_gemm",
    "quantize_matmul_2bits", "quantize_matmul_4bits", "quantize_matmul_8bits", "quantize_matmul_bnb4", "quantize_qdq_matmul_2bits",
    "quantize_qdq_matmul_4bits", "schemadef"))
STATE = "onnxruntime.capi.onnxruntime_pybind11_state"

_saved: Optional[Dict[str, types.ModuleType]] = None  # the real package's modules, while Tenon is in their place


def _real_folder() -> List[str]:
    """Where the real package is; nothing where it is not installed."""
    spec = importlib.machinery.PathFinder.find_spec("onnxruntime")
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def _advice(what: str) -> str:
    return f"{what} is left to the package onnxruntime, which is not installed: pip install onnxruntime"


def real_state() -> Any:
    """The real extension module, loaded beside Tenon's.  Importing one registers it: what was there is put back."""
    folders = [os.path.join(f, "capi") for f in _real_folder()]
    spec = importlib.machinery.PathFinder.find_spec(STATE, folders) if folders else None
    if spec is None:
        raise ImportError(_advice(STATE), name="onnxruntime")
    held = sys.modules.get(STATE)
    try:
        module = importlib.util.module_from_spec(spec)
        if spec.loader is not None:
            spec.loader.exec_module(module)
    finally:
        if held is not None:
            sys.modules[STATE] = held
        else:
            sys.modules.pop(STATE, None)
    return module


class _Finder(importlib.abc.MetaPathFinder):
    """Says what is missing where a part of the real package is imported and the package is not installed.  It also gives the loader
    that modules made here are said to have."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> None:
        parts = name.split(".")
        if _saved is not None and parts[0] == "onnxruntime" and len(parts) > 1 and parts[1] in LEFT and not _real_folder():
            raise ModuleNotFoundError(_advice(f"'{name}'"), name=name)
        return None


class _Loader(importlib.abc.Loader):
    """Of modules that exist already."""

    def create_module(self, spec: Any) -> types.ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is left to do."""


_finder = _Finder()


def _module(name: str, source: Any, folders: Optional[List[str]] = None) -> types.ModuleType:
    """A module of this name with what `source` has; a package where it has folders."""
    module = types.ModuleType(name, source.__doc__)
    kept = ("__name__", "__spec__", "__loader__", "__package__", "__path__", "__file__", "__cached__", "__builtins__")
    module.__dict__.update({n: x for n, x in vars(source).items() if n not in kept})
    spec = importlib.machinery.ModuleSpec(name, _Loader(), is_package=folders is not None)
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, source.__file__
    module.__package__ = name if folders is not None else name.rpartition(".")[0]
    if folders is not None:
        spec.submodule_search_locations = module.__path__ = folders
    return module


def install() -> None:
    """Lets every ``import onnxruntime`` from now on in this process give Tenon; ``python -m tenon.dropin PROGRAM`` does it for a program.

    >>> import tenon.ort
    >>> tenon.ort.install()
    >>> from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
    >>> import onnxruntime
    >>> onnxruntime.InferenceSession is tenon.InferenceSession
    True
    >>> tenon.ort.uninstall()
    """
    global _saved
    if _saved is not None:
        return
    from . import ort, ort_collection, ort_state
    _saved = _taken()
    folders = _real_folder()
    top = _module("onnxruntime", ort, folders)
    capi = top.capi = _module("onnxruntime.capi", types.SimpleNamespace(__doc__="Tenon's, and of the real package the rest.", __file__=ort.__file__),
                              [os.path.join(f, "capi") for f in folders])
    state = _module(STATE, ort_state)
    named = {"onnxruntime_pybind11_state": state, "_pybind_state": _module("onnxruntime.capi._pybind_state", ort_state),
             "onnxruntime_inference_collection": _module("onnxruntime.capi.onnxruntime_inference_collection", ort_collection)}
    for name, module in named.items():
        setattr(capi, name, module)
        sys.modules[f"onnxruntime.capi.{name}"] = module
    sys.modules["onnxruntime"], sys.modules["onnxruntime.capi"] = top, capi
    sys.meta_path.insert(0, _finder)


def _taken() -> Dict[str, types.ModuleType]:
    """The modules that are in onnxruntime's place, taken away."""
    names = [n for n in sys.modules if n == "onnxruntime" or n.startswith("onnxruntime.")]
    return {n: sys.modules.pop(n) for n in names}


def uninstall() -> None:
    """Undoes `install` for imports to come."""
    global _saved
    if _saved is None:
        return
    _taken()
    sys.modules.update(_saved)
    sys.meta_path.remove(_finder)
    _saved = None
