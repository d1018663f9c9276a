"""The profiler's file of a session with `enable_profiling`: a Chrome trace, as ONNX Runtime writes one.

Each run is an event, and each of its steps one within it, named after the node that it computes.  Steps are placed one behind the other:
the library measures how long each took, not when it began.
"""
from __future__ import annotations

import ctypes as C
import json
import os
import threading
import time
from typing import Any, Callable, Dict, List

from . import _ffi


class Recorder:
    """The events of one session."""

    def __init__(self, prefix: str) -> None:
        self.begin_ns = time.monotonic_ns()
        self._name = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        self._events: List[Dict[str, Any]] = []
        self._lock = threading.Lock()

    def _event(self, category: str, name: str, at_us: float, long_us: float, **args: Any) -> Dict[str, Any]:
        return {"cat": category, "pid": os.getpid(), "tid": threading.get_native_id(), "dur": round(long_us, 3), "ts": round(at_us, 3),
                "ph": "X", "name": name, "args": args}

    def run(self, session: Any, work: Callable[[], Any]) -> Any:
        """Does the work, which is one run of the session, and notes its times."""
        _ffi.lib.tenon_session_profile_reset(session._handle) if session._handle else None
        begin = time.monotonic_ns()
        results = work()
        at = (begin - self.begin_ns) / 1e3
        events = [self._event("Session", "model_run", at, (time.monotonic_ns() - begin) / 1e3)]
        step = _ffi.Step()
        for i in range(_ffi.lib.tenon_session_step_count(session._handle)):
            _ffi.lib.tenon_session_step(session._handle, i, C.byref(step))
            node, long = step.node.decode("utf-8", "replace"), step.ns / 1e3
            events.append(self._event("Node", f"{node}_kernel_time", at, long, op_name=step.name.decode("utf-8", "replace"), node_index=str(i)))
            at += long
        with self._lock:
            self._events += events
        return results

    def write(self) -> str:
        with self._lock, open(self._name, "w", encoding="utf-8") as f:
            json.dump(self._events, f, indent=1)
        return self._name
