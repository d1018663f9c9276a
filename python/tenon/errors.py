"""Exceptions: one class a status of the C interface, all of them TenonError.

>>> import tenon
>>> try:
...     tenon.compile(b"no model")
... except tenon.TenonError as error:
...     print(type(error).__name__, error.code)
FormatError malformed
"""

from __future__ import annotations

import ctypes as C
import errno
import os
import re
import warnings
from typing import Dict, Optional, Sequence, Type

from . import _ffi


class TenonError(Exception):
    """Anything that Tenon refuses or fails at, with the message that the C interface gives.

    ``status`` is the number of the ``tenon_status``, ``code`` its word ("invalid", "malformed", ...), and ``node``
    the name of the node, input or output that the message is about, or None.
    """

    status: int = _ffi.EINTERNAL

    def __init__(self, message: str, node: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self._node = node

    @property
    def code(self) -> str:
        return _ffi.lib.tenon_status_name(self.status).decode()

    @property
    def node(self) -> Optional[str]:
        if self._node is not None:
            return self._node
        found = re.search(r"node '(.*?)'(?: \(|:)", self.message)
        return found.group(1) if found else None

    def __str__(self) -> str:
        return self.message


class InvalidError(TenonError, ValueError):
    """A wrong argument, an unsound model, shapes that do not fit."""

    status = _ffi.EINVAL


class FormatError(TenonError, ValueError):
    """Bytes that are not what they should be."""

    status = _ffi.EFORMAT


class UnsupportedError(TenonError, NotImplementedError):
    """Sound, but beyond what Tenon does."""

    status = _ffi.EUNSUPPORTED


class FileError(TenonError, OSError):
    """A file could not be opened, read or written."""

    status = _ffi.EIO


class MissingFileError(FileError, FileNotFoundError):
    """A file that does not exist."""


class OutOfMemoryError(TenonError, MemoryError):
    """Out of memory, or beyond a limit that was set."""

    status = _ffi.ENOMEM


class DeviceError(TenonError, RuntimeError):
    """A device failed."""

    status = _ffi.EDEVICE


class InternalError(TenonError, RuntimeError):
    """A defect of Tenon's own; please report it."""

    status = _ffi.EINTERNAL


class CancelledError(TenonError):
    """Ended by the caller's own progress function."""

    status = _ffi.ECANCELLED


class TenonWarning(UserWarning):
    """What works, but perhaps not as it was meant."""


BY_STATUS: Dict[int, Type[TenonError]] = {
    c.status: c
    for c in (
        InvalidError,
        FormatError,
        UnsupportedError,
        FileError,
        OutOfMemoryError,
        DeviceError,
        InternalError,
        CancelledError,
    )
}


def from_c(status: int, error: "_ffi.Error") -> TenonError:
    """The exception of a failed call."""
    message = error.message.decode("utf-8", "replace") or _ffi.lib.tenon_status_name(status).decode()
    made = BY_STATUS.get(status, InternalError)(message)
    if isinstance(made, FileError) and (os.strerror(errno.ENOENT) in message or "which is not there" in message):
        made = MissingFileError(message)
        made.errno = errno.ENOENT
    return made


def check(status: int, error: "_ffi.Error") -> None:
    """Raises what a call of the C interface says, when it says something."""
    if status:
        raise from_c(status, error)


def warn_of_program(program: int, stacklevel: int) -> None:
    """What its compilation has to say, such as a kernel that could not be made as it was chosen."""
    lib = _ffi.lib
    for i in range(lib.tenon_program_warning_count(program)):
        warnings.warn(lib.tenon_program_warning(program, i).decode(), TenonWarning, stacklevel=stacklevel + 1)


def warn_notices(stacklevel: int = 3) -> None:
    """Gives what the library has to say, each text once a process, as a `TenonWarning`."""
    text = C.create_string_buffer(1024)
    while _ffi.lib.tenon_notice(text, len(text)):
        warnings.warn(text.value.decode(errors="replace"), TenonWarning, stacklevel=stacklevel)


def _distance(a: str, b: str) -> int:
    """Letters to add, drop or change."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def _common_prefix(word: str, text: str) -> int:
    """Letters that the word and a part of the text, between - and _, begin with alike."""
    return max(len(os.path.commonprefix([word, part])) for part in re.split("[-_]", text))


def nearest(word: str, words: Sequence[str]) -> Optional[str]:
    """The word that was meant, by the rule of the library's own messages; None where none is near."""
    best = min(words, key=lambda w: _distance(word, w), default=None)
    if best is not None:
        least = _distance(word, best)
        if least <= max(2, len(word) // 3) and least < max(len(word), 2):
            return best
    alike = max(words, key=lambda w: _common_prefix(word, w), default=None)
    common = 0 if alike is None else _common_prefix(word, alike)
    return alike if common >= 3 and 2 * common >= len(word) else None


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """A hint for a message, or nothing.

    >>> from tenon.errors import did_you_mean
    >>> did_you_mean("threds", ["target", "threads"]), did_you_mean("xyz", ["target"])
    ("; did you mean 'threads'?", '')
    """
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near else ""
