"""Where the time of a model goes: `Model.profile`."""

from __future__ import annotations

import ctypes as C
import html
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _ffi
from .dtypes import BY_NAME, array_dtype
from .errors import InvalidError

if TYPE_CHECKING:
    from .model import Model
    from .session import Session

KINDS = {_ffi.STEP_KERNEL: "kernel", _ffi.STEP_HOST: "host", _ffi.STEP_VIEW: "view", _ffi.STEP_COPY: "copy"}
_COLOURS = {"kernel": "#4878a8", "host": "#c44e52", "view": "#999999", "copy": "#dd8452"}


class Step(NamedTuple):
    """A step of a run, as it was measured: nanoseconds and operations are of one run."""

    index: int
    name: str  # the kernel's schedule, or the operator
    node: str  # of the model
    kind: str  # "kernel", "host" (the reference evaluation), "view", "copy"
    ns: float
    flops: float
    bytes: float


class Profile(Sequence[Step]):
    """Steps of a model with the time of each, the slowest first when printed.  A sequence of `Step`, in the order
    of the run.

    >>> import tenon
    >>> p = tenon.compile("examples/digits/digits.onnx").profile(runs=3)
    >>> p.runs, len(p) == p.model.info["steps"], p.ms > 0
    (3, True, True)
    >>> sorted(p.to_dict())
    ['model', 'ms', 'runs', 'steps', 'target']
    """

    def __init__(self, model: "Model", steps: List[Step], runs: int, ms: float) -> None:
        self.model, self.steps, self.runs = model, steps, runs
        self.ms = ms  # of one run, its call included

    def __getitem__(self, i: Any) -> Any:
        return self.steps[i]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def to_dict(self) -> Dict[str, Any]:
        """Everything as plain numbers and strings, for json."""
        return {
            "model": self.model.source,
            "target": self.model.target,
            "runs": self.runs,
            "ms": self.ms,
            "steps": [s._asdict() for s in self.steps],
        }

    def _slowest(self, most: int) -> List[Step]:
        return sorted((s for s in self.steps if s.ns), key=lambda s: -s.ns)[:most]

    def __str__(self) -> str:
        total = sum(s.ns for s in self.steps) or 1.0
        wide = min(max([len(s.node) for s in self._slowest(30)] + [4]), 40)  # longer names are not cut
        lines = [
            f"{self.ms:.3f} ms a run, {len(self.steps)} steps, {self.runs} runs",
            "",
            f"{'ms':>9}  {'%':>5}  {'GFLOP/s':>8}  {'GB/s':>7}  {'kind':6}  {'node':{wide}}  name",
        ]
        for s in self._slowest(30):
            lines.append(
                f"{s.ns / 1e6:9.4f}  {100 * s.ns / total:5.1f}  {s.flops / s.ns:8.1f}  {s.bytes / s.ns:7.1f}  "
                f"{s.kind:6}  "
                f"{s.node:{wide}}  {s.name}"
            )
        rest = len(self.steps) - min(len(self.steps), 30)
        return "\n".join(lines + ([f"{rest} more steps"] if rest else []))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        total = sum(s.ns for s in self.steps) or 1.0
        slowest = self._slowest(30)
        longest = slowest[0].ns if slowest else 1.0
        rows = []
        for k, s in enumerate(slowest):
            y, width = 20 * k, 320 * s.ns / longest
            label = f"{s.node or s.name} \u2014 {s.ns / 1e6:.4f} ms, {100 * s.ns / total:.1f} %"
            title = f"{s.name}: {s.flops / s.ns:.1f} GFLOP/s, {s.bytes / s.ns:.1f} GB/s"
            rows.append(
                f'<g><title>{html.escape(title)}</title><rect x="0" y="{y + 2}" width="{width:.1f}" height="16" '
                f'fill="{_COLOURS[s.kind]}"/><text x="{width + 6:.1f}" y="{y + 14}" font-size="12" fill="currentColor">'
                f'{html.escape(label)}</text></g>'
            )
        return (
            f"<div><b>{self.ms:.3f} ms</b> a run, {len(self.steps)} steps, {self.runs} runs"
            f'<svg width="900" height="{20 * len(slowest)}" style="display:block;font-family:sans-serif" role="img">'
            f'{"".join(rows)}</svg></div>'
        )


def random_inputs(model: "Model", dims: Optional[Mapping[str, int]] = None, seed: int = 0) -> List[np.ndarray]:
    """Inputs for a model that is measured: small random numbers, dynamic sizes from `dims`, else 1."""
    random, out = np.random.default_rng(seed), []
    for value in model.inputs:
        if value.shape is None or not value.dtype:
            raise InvalidError(f"input '{value.name}' is {value.type}: give arrays to measure it with", value.name)
        shape = [s if isinstance(s, int) else int((dims or {}).get(s, 1)) for s in value.shape]
        if value.dtype == "string":
            out.append(np.full(shape, "", object))
        elif value.dtype in ("f32", "f64", "f16", "bf16"):
            out.append(random.uniform(-1, 1, shape).astype(array_dtype(BY_NAME[value.dtype])))
        else:
            out.append(np.zeros(shape, array_dtype(BY_NAME[value.dtype])))
    return out


def measure(session: "Session", feeds: Sequence[Any], runs: int) -> Profile:
    """Runs a session made for it, once to warm up and then `runs` times, and reads its steps."""
    model = session.model
    session.run_list(feeds)
    _ffi.lib.tenon_session_profile_reset(session._handle)
    begin = time.perf_counter()
    for _ in range(runs):
        session.run_list(feeds)
    ms = (time.perf_counter() - begin) * 1e3 / runs
    step, steps = _ffi.Step(), []
    for i in range(_ffi.lib.tenon_session_step_count(session._handle)):
        _ffi.lib.tenon_session_step(session._handle, i, C.byref(step))
        steps.append(
            Step(
                i,
                step.name.decode("utf-8", "replace"),
                step.node.decode("utf-8", "replace"),
                KINDS[step.kind],
                step.ns / runs,
                step.flops,
                step.bytes,
            )
        )
    return Profile(model, steps, runs, ms)
