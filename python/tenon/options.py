"""Compile options by name: what the library's own table lists, so that an option needs no code here."""

import ctypes as C
import sys
from typing import Any, Dict, List, Mapping, Tuple

from . import _ffi
from .errors import InvalidError


def compile_options() -> Dict[str, str]:
    """Every option that `compile` takes by name, with what it does; the same as of ``tenon compile --help``.

    >>> import tenon
    >>> tenon.compile_options()["unroll_limit"][:36]
    'maximum nodes that unrolling a loop '
    """
    return {info.name.decode(): info.help.decode() for info in _table()}


def _table() -> List["_ffi.OptionInfo"]:
    rows = [_ffi.OptionInfo() for _ in range(_ffi.lib.tenon_option_count())]
    for i, row in enumerate(rows):
        _ffi.lib.tenon_option(i, C.byref(row))
    return rows


def _text(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, (int, str)):
        return str(value).encode()
    raise InvalidError(f"{name}={value!r}: must be a text, a number, True or False")


def names() -> List[str]:
    """The names of all options."""
    return [row.name.decode() for row in _table()]


def split(given: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """What of the keywords is a compile option, and what is not."""
    names = {row.name.decode() for row in _table()}
    return {k: v for k, v in given.items() if k in names}, {k: v for k, v in given.items() if k not in names}


class Named:
    """The named options of one compilation as C sees them; what an option prints goes to ``sys.stderr``."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        kinds = {row.name.decode(): row.kind.decode() for row in _table()}
        pairs: List[Tuple[bytes, bytes]] = []
        for name, value in given.items():
            many = kinds.get(name) == "list" and isinstance(value, (list, tuple))
            pairs += [(name.encode(), _text(name, v)) for v in (value if many else [value]) if v is not None]
        self.count = len(pairs)
        self.array = (_ffi.NamedOption * max(len(pairs), 1))(*[_ffi.NamedOption(n, v) for n, v in pairs])
        self.print = _ffi.PRINT(lambda text, size, _: sys.stderr.write(C.string_at(text, size).decode(errors="replace")))

    def put(self, options: "_ffi.Options") -> None:
        """Adds them to the options, which must not outlive this."""
        options.named, options.nnamed, options.print = self.array, self.count, self.print
