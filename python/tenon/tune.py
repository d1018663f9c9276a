"""Tuning: `tune` searches for faster schedules of a model's kernels by measuring."""

from __future__ import annotations

import ctypes as C
import os
from typing import NamedTuple, Optional, Union

from . import _ffi
from .errors import check


class Tuned(NamedTuple):
    """What `tune` found.  `path` is the file for the option `tuned` of `compile`."""

    path: str
    gain: float
    kernels: int
    tasks: int
    trials: int


def tune(
    model: "Union[str, os.PathLike[str]]",
    output: "Union[str, os.PathLike[str]]",
    seconds: float = 60,
    database: "Union[None, str, os.PathLike[str]]" = None,
    inputs: "Union[None, str, os.PathLike[str]]" = None,
    threads: int = 0,
    reorder: bool = False,
    fresh: bool = False,
    seed: int = 0,
    objective: str = "time",
) -> Tuned:
    """Measures other schedules of the model's kernels, and writes the faster ones to `output`.

    The program `tenon-tune` does the work, as `tenon tune` on the command line.  `database` is a file; "none" does
    without; None is the user's own.  `inputs` is an `.npz` with inputs by name; without it they are random.  With
    `reorder` results may have other bits.  `objective` is "time", "energy" or "edp", their product, by this
    machine's meter.

    >>> t = tenon.tune("model.onnx", "model.schedules")  # doctest: +SKIP
    >>> m = tenon.compile("model.onnx", target="cpu", tuned=t.path)  # doctest: +SKIP
    """
    text = lambda x: _ffi.encode(x) if x is not None else None
    options = _ffi.TuneOptions(
        struct_size=C.sizeof(_ffi.TuneOptions),
        seconds=seconds,
        database=text(database),
        inputs=text(inputs),
        threads=threads,
        reorder=reorder,
        fresh=fresh,
        seed=seed,
        objective=text(objective),
    )
    info, error = _ffi.TuneInfo(), _ffi.Error()
    check(_ffi.lib.tenon_tune(_ffi.encode(model), _ffi.encode(output), C.byref(options), C.byref(info), C.byref(error)), error)
    return Tuned(os.fspath(output), info.gain, info.kernels, info.tasks, info.trials)
