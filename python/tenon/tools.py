"""What there is to compile for, and what a model is: `targets`, `inspect`, `graph`.

`inspect` and `graph` ask the program `tenon`, which is in the library's folder.
"""

from __future__ import annotations

import ctypes as C
import json
import os
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _ffi
from .errors import BY_STATUS, InternalError, InvalidError, UnsupportedError

# Exit statuses of the program, and the status of the C interface that is meant.
_EXIT = {2: _ffi.EINVAL, 4: _ffi.EUNSUPPORTED}


class Target(NamedTuple):
    """What a model can be compiled for, and whether this machine can run it."""

    name: str
    doc: str
    available: bool


def _each_target() -> Iterator[Target]:
    """One after another: whether a device is there is asked of its driver, which takes long to load."""
    info = _ffi.TargetInfo()
    for i in range(_ffi.lib.tenon_target_count()):
        _ffi.lib.tenon_target(i, C.byref(info))
        yield Target(info.name.decode(), info.doc.decode(), bool(info.available))


def targets() -> List[Target]:
    """What models can be compiled for.

    >>> import tenon
    >>> [t.name for t in tenon.targets()][:2]
    ['cpu', 'cuda']
    """
    return list(_each_target())


def is_available(name: str) -> bool:
    """Whether this machine can run what is compiled for a target; those after it in the table are not asked."""
    return next((t.available for t in _each_target() if t.name == name), False)


def _call(command: str, model: Any, options: Sequence[str]) -> Tuple[bytes, bytes]:
    """Runs the program on a model, which is given through a file in place in memory."""
    from .opening import bytes_of

    program = _ffi.program()
    if program is None:
        raise UnsupportedError(
            f"the program `tenon`, which does this, is not beside {_ffi.lib_path()} nor on the path"
        )
    if isinstance(model, (str, os.PathLike)):
        return _call_file(program, command, os.fspath(model), options)
    with tempfile.NamedTemporaryFile(suffix=".model") as f:
        f.write(bytes_of(model).data)
        f.flush()
        return _call_file(program, command, f.name, options)


def _call_file(program: str, command: str, path: str, options: Sequence[str]) -> Tuple[bytes, bytes]:
    p = subprocess.run(
        [program, command, *options, "--", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    if p.returncode:
        said = p.stderr.decode("utf-8", "replace").strip()
        said = said[len("tenon: ") :] if said.startswith("tenon: ") else said
        kind = BY_STATUS.get(_EXIT.get(p.returncode, _ffi.EINVAL), InternalError) if p.returncode > 0 else InternalError
        raise kind(said or f"tenon {command} ended with status {p.returncode}")
    return p.stdout, p.stderr


def _dims(dims: Optional[Mapping[str, int]]) -> List[str]:
    for name, size in (dims or {}).items():
        if not isinstance(size, int):
            raise InvalidError(f"dims: {name} is {size!r}, must be a number")
    return [x for name, size in (dims or {}).items() for x in ("--dim", f"{name}={size}")]


def inspect(model: Any, dims: Optional[Mapping[str, int]] = None) -> Dict[str, Any]:
    """What a model takes, gives, consists of and costs, as ``tenon inspect --json`` says it.  ``dims`` are sizes
    for the costs.

    >>> import tenon
    >>> about = tenon.inspect("examples/digits/digits.onnx")
    >>> about["inputs"]
    [{'name': 'image', 'dtype': 'f32', 'shape': ['batch', 8, 8]}]
    >>> about["ops"]["Gemm"]
    2
    """
    said, _ = _call("inspect", model, ["--json", *_dims(dims)])
    return json.loads(said)


def graph(
    model: Any,
    path: Union[None, str, "os.PathLike[str]"] = None,
    optimised: bool = False,
    dims: Optional[Mapping[str, int]] = None,
    force: bool = False,
    profile: Any = None,
) -> Optional[str]:
    """The graph of a model as a page, or, with ``path``, in a file: .html, .svg, .dot or .json, as its name ends.
    A file that Tenon did not write is replaced only with ``force``.  ``profile`` colours the page by measured time:
    what ``Model.profile`` returned, or a file of ``tenon bench --profile --json`` or ``tenon bench --trace``.

    >>> import tenon
    >>> "<html" in tenon.graph("examples/digits/digits.onnx").lower()
    True
    """
    options = (["--optimised"] if optimised else []) + (["--force"] if force else []) + _dims(dims)
    with tempfile.TemporaryDirectory() as folder:
        if profile is not None:
            options += ["--times", _profile_file(profile, folder)]
        if path is not None:
            _call("graph", model, [*options, "--output", os.fspath(path)])
            return None
        page = os.path.join(folder, "graph.html")
        _call("graph", model, [*options, "--output", page])
        with open(page, encoding="utf-8") as f:
            return f.read()


def _profile_file(profile: Any, folder: str) -> str:
    if isinstance(profile, (str, os.PathLike)):
        return os.fspath(profile)
    path = os.path.join(folder, "profile.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(profile.to_dict(), f)
    return path
