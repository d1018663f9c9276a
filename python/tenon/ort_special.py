"""Programs for the sizes and numbers of a call, where a model by itself says too little.

A model whose branches differ in rank leaves ranks open that only its inputs decide: silero-vad asks for the sample rate, and
squeezes what has one element.  What has no rank is evaluated on the host, slowly.  Once sizes and numbers are known no branch is
left: such a call gets a program of its own, made when the first of its kind comes.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .errors import TenonError
from .model import Model
from .session import Value

MOST = 8  # programs of one model: an input that counts up must not fill the memory
Key = Tuple[Any, ...]


def wanted(model: Model) -> bool:
    """Whether a model's outputs have ranks that its inputs' types do not tell."""
    return any(v.shape is None for v in model.outputs)


def _is_number(v: Value) -> bool:
    return v.shape in ((), (1,)) and v.dtype.lstrip("iu").isdigit()


class Special:
    """The programs of one model; ``make(dims=, types=)`` compiles one."""

    def __init__(self, model: Model, make: Callable[..., Model]) -> None:
        self._inputs, self._make = model.inputs, make
        self._numbers = [_is_number(v) for v in model.inputs]
        self._made: Dict[Key, Optional[Model]] = {}
        self._lock = threading.Lock()

    def find(self, feeds: Sequence[Any]) -> Tuple[Optional[Model], List[Any]]:
        """The program for arrays like these, and those of them that it takes; None where there is none."""
        try:
            key = tuple(int(x.item()) if number else x.shape for x, number in zip(feeds, self._numbers))
        except (AttributeError, ValueError):  # not an array, or several elements: an error for the model to tell
            return None, []
        if key not in self._made:
            with self._lock:
                if key not in self._made and len(self._made) < MOST:
                    self._made[key] = self._compiled(key)
        return self._made.get(key), [x for x, number in zip(feeds, self._numbers) if not number]

    def _compiled(self, key: Key) -> Optional[Model]:
        dims: Dict[str, int] = {}
        types: List[str] = []
        for value, known in zip(self._inputs, key):
            if isinstance(known, int):
                types.append(f"{value.name}={known}")
                continue
            if value.shape is None or len(value.shape) != len(known):
                return None
            for symbol, size in zip(value.shape, known):
                if dims.setdefault(symbol, size) != size if isinstance(symbol, str) else symbol != size:
                    return None
        try:
            return self._make(dims=dims, types=types)
        except TenonError:  # the model as it is will say why
            return None
