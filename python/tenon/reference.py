"""The reference interpreter, which judges compiled code: `run`, and `compile` for the target "interp"."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from . import _ffi
from .errors import UnsupportedError, from_c
from .model import Model, OpenedModel, values_of
from .session import Session


class ReferenceSession(Session):
    """Runs a model in the interpreter, which several threads may use at once."""

    RUN_VALUES = "tenon_run_values"

    def _open(self) -> None:
        self._handle = self._model._program
        self._finalizer = weakref.finalize(self, lambda: None)
        self._finalizer.atexit = False

    @property
    def threads(self) -> int:
        return 1

    def _keep_plan(self, *_unused: Any) -> None:
        """None: a run takes longer than finding out what it is."""

    def _launch(self) -> None:
        status = _ffi.lib.tenon_run(
            self._handle, self._in_at, self._nin, self._out_at, self._nout, self._options_at, self._error_at
        )
        if status:
            raise from_c(status, self._error)


class ReferenceModel(Model):
    """A model that the interpreter runs: each operator by its definition, slowly."""

    SESSION = ReferenceSession
    RELEASE = "tenon_model_close"

    def __init__(self, opened: OpenedModel, threads: Optional[int], ranges: Mapping[str, Tuple[int, int]]) -> None:
        super().__init__(opened.take(), opened.name, threads, ranges, opened.keep)

    def _describe(self) -> None:
        self.inputs, self.outputs = values_of("model", "input", self._program), values_of(
            "model", "output", self._program
        )

    @property
    def info(self) -> Dict[str, Any]:
        return {"target": "interp", "kernels": 0, "steps": 0, "host_steps": 0, "code_bytes": 0, "constant_bytes": 0}

    @property
    def options(self) -> Tuple[str, ...]:
        return ()

    def save(self, path: Any, force: bool = False) -> None:
        raise UnsupportedError(
            "the reference interpreter makes no program that could be saved: compile for another target"
        )

    def profile(self, *args: Any, **options: Any) -> Any:
        raise UnsupportedError("the reference interpreter measures no steps: compile for another target")


def run(model: Any, *args: Any, out: Any = None, outputs: Optional[Sequence[str]] = None, **named: Any) -> Any:
    """Runs a model once in the reference interpreter: inputs and outputs as in `Model.__call__`.

    >>> import tenon, numpy as np
    >>> x = np.load("examples/digits/digits.npy")
    >>> [int(k) for k in tenon.run("examples/digits/digits.onnx", x).argmax(1)]
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    from .model import compile as compile_model

    return compile_model(model, target="interp")(*args, out=out, outputs=outputs, **named)
