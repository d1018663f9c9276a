"""Following a long compilation: a bar on a terminal or in a notebook, and a way to end it.

The compilation runs on a thread of its own while the main thread waits for it, so that Ctrl-C reaches Python at
once: it makes the next progress call end the work.  So does the end of the interpreter, which no call into Python
may outlive.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from typing import Any, Callable, NamedTuple, Optional, Set, Union

from . import _ffi
from .errors import CancelledError

LOG = logging.getLogger("tenon")
LONGEST_PIECE = 60.0  # seconds that one piece of a compilation may take
STAGES = ("read", "optimise", "plan", "lower", "make code")


class Progress(NamedTuple):
    """Where a compilation is: the stage, which pass, node or kernel, and how many pieces of the stage are done."""

    stage: str
    what: str
    done: int
    total: int


ProgressFunction = Callable[[Progress], Any]


class Bar:
    """A line that is written over: on a terminal, or in a notebook through IPython's display.  Also a record of the
    logger `tenon`, level INFO, once a second."""

    DELAY, EVERY, LOG_EVERY = 1.0, 0.1, 1.0  # seconds before it shows at all, and between two pictures or records

    def __init__(self, display: Optional[Any] = None, seen: bool = True) -> None:
        self.display = display
        self.seen = seen  # else there are records alone
        self.shown = False
        self.next = self.next_record = time.monotonic() + self.DELAY

    def text(self, p: Progress) -> str:
        part = p.done / p.total if p.total else 0.0
        at = (STAGES.index(p.stage) + part) / len(STAGES) if p.stage in STAGES else part
        full = int(at * 24)
        return f"tenon [{'#' * full}{'.' * (24 - full)}] {p.stage} {p.done}/{p.total} {p.what[:40]}"

    def __call__(self, p: Progress) -> Any:
        now = time.monotonic()
        if now >= self.next_record:
            self.next_record = now + self.LOG_EVERY
            LOG.info("compiling: %s %d/%d %s", p.stage, p.done, p.total, p.what)
        if now < self.next or not self.seen:
            return
        self.next = now + self.EVERY
        text = self.text(p)
        if self.display is not None:
            self.display.update({"text/plain": text}, raw=True)
        else:
            sys.stderr.write(f"\r{text:<79}"[:80])
            sys.stderr.flush()
        self.shown = True

    def end(self) -> None:
        if self.shown and self.display is not None:
            self.display.update({"text/plain": ""}, raw=True)
        elif self.shown:
            sys.stderr.write("\r" + " " * 79 + "\r")
            sys.stderr.flush()


def _notebook_display() -> Optional[Any]:
    if "ipykernel" not in sys.modules:
        return None
    from IPython.display import DisplayHandle

    handle = DisplayHandle()
    handle.display({"text/plain": ""}, raw=True)
    return handle


def bar_for(progress: Union[None, bool, ProgressFunction]) -> Optional[ProgressFunction]:
    """What to call: the caller's function, a bar (True, or None where one can be seen), or nothing."""
    if callable(progress):
        return progress
    if progress is False:
        return None
    display = _notebook_display()
    try:
        seen = progress or display is not None or sys.stderr.isatty()
    except (AttributeError, ValueError):
        seen = False
    return Bar(display, bool(seen)) if seen or LOG.isEnabledFor(logging.INFO) else None


class _BarUntil(Bar):
    def __init__(self, stop: Callable[[], Any], display: Optional[Any], seen: bool) -> None:
        super().__init__(display, seen)
        self.stop = stop

    def __call__(self, p: Progress) -> Any:
        super().__call__(p)
        return self.stop()


def bar_until(stop: Callable[[], Any]) -> ProgressFunction:
    """A bar where one can be seen, of a compilation that ends when ``stop()`` is True."""
    bar = bar_for(None)
    return _BarUntil(stop, bar.display, bar.seen) if isinstance(bar, Bar) else lambda _: stop()


class Watch:
    """The C callback of one compilation.  `failure` is what a progress function raised."""

    def __init__(self, function: Optional[ProgressFunction]) -> None:
        self.function = function
        self.cancelled = False
        self.failure: Optional[BaseException] = None
        self.callback = _ffi.PROGRESS(self._tell)

    def _tell(self, at: Any, _user: Any) -> int:
        if self.cancelled:
            return 1
        if self.function is None:
            return 0
        try:
            p = at.contents
            stop = self.function(
                Progress(p.stage.decode(), p.what.decode("utf-8", "replace") if p.what else "", p.done, p.total)
            )
        except BaseException as error:  # KeyboardInterrupt too: it goes on in the caller
            self.failure = error
            stop = True
        self.cancelled = self.cancelled or stop is True
        return int(self.cancelled)


class _Running:
    """The compilations of this process."""

    changed = threading.Condition()
    watches: Set[Watch] = set()
    ending = False


def _begin(watch: Watch) -> None:
    with _Running.changed:
        if not _Running.ending:
            _Running.watches.add(watch)
            return
    _park()
    raise CancelledError("the interpreter is ending")


def _done(watch: Watch) -> None:
    with _Running.changed:
        _Running.watches.discard(watch)
        _Running.changed.notify_all()
        if not _Running.ending:
            return
    _park()


def _park() -> None:
    """Keeps a daemon thread from going on while the interpreter ends: its error would be about nothing that anybody
    did."""
    if threading.current_thread() is not threading.main_thread():
        threading.Event().wait()


def _end_all() -> None:
    """At the end of the interpreter: ends what daemon threads are compiling, and waits until it is over."""
    with _Running.changed:
        _Running.ending = True
        for watch in _Running.watches:
            watch.cancelled = True
        _Running.changed.wait_for(lambda: not _Running.watches, LONGEST_PIECE)


def after_fork() -> None:
    """In a forked child, where none of them goes on."""
    _Running.changed, _Running.watches = threading.Condition(), set()


atexit.register(_end_all)


def watched(work: Callable[[], int], watch: Watch) -> int:
    """Calls `work`, on a thread of its own when this is the main thread; KeyboardInterrupt ends it and goes on."""
    _begin(watch)
    try:
        if threading.current_thread() is not threading.main_thread():
            return work()
        return _on_thread(work, watch)
    finally:
        _done(watch)
        if isinstance(watch.function, Bar):
            watch.function.end()


def _on_thread(work: Callable[[], int], watch: Watch) -> int:
    status, failed, done = [_ffi.EINTERNAL], [], threading.Event()

    def body() -> None:
        try:
            status[0] = work()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=body, name="tenon-compile", daemon=True).start()
    interrupted: Optional[BaseException] = None
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:  # a signal's handler raised: the work ends at its next piece
            watch.cancelled = True
            interrupted = error
    if interrupted is not None:
        raise interrupted
    if failed:
        raise failed[0]
    return status[0]
