"""Quantising and pruning models: `quantize` makes a model of fewer bits from a float one and samples, `prune` one with zeros."""

from __future__ import annotations

import ctypes as C
import json
import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _ffi
from .arrays import describe, view_of
from .errors import InvalidError, check
from .opening import OpenedModel
from .progress import ProgressFunction, Watch, bar_for, watched

VERDICTS = ("made", "slower", "missed")


class Quantized:
    """What `quantize` or `prune` made.

    `certificate` is what the model lost on samples that nothing else saw: the dictionary that `save` writes as JSON.
    `report` is a page of HTML.  `verdict` is "made"; or "slower" or "missed", and then `save` refuses.
    """

    def __init__(self, info: _ffi.QuantizedInfo) -> None:
        self.verdict = VERDICTS[info.verdict]
        self.contractions, self.quantized, self.samples = info.contractions, info.quantized, info.samples
        self.bytes = (info.bytes[0], info.bytes[1])
        self.seconds: Optional[Tuple[float, float]] = (info.ns[0] / 1e9, info.ns[1] / 1e9) if info.ns[0] else None
        self.metric: Optional[str] = info.metric.decode() if info.metric else None
        self.value: Optional[float] = info.value if info.metric else None
        self.bound: Optional[float] = info.bound if info.metric else None
        self.certificate: Optional[Dict[str, Any]] = json.loads(info.certificate) if info.certificate else None
        self._certificate = info.certificate
        self.report: str = info.report.decode()
        self._model = C.string_at(info.model, info.model_size) if info.model_size else b""

    def SerializeToString(self) -> bytes:
        """The ONNX model, whatever the verdict; so `tenon.compile` takes this object."""
        return self._model

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the model, and the certificate to `path` with `.certificate.json` behind it."""
        if self.verdict != "made":
            why = "the model is not faster" if self.verdict == "slower" else "the limit is not met"
            raise InvalidError(f"{os.fspath(path)}: nothing is written: {why}")
        _replace(os.fspath(path), self._model)
        if self._certificate:
            _replace(os.fspath(path) + ".certificate.json", self._certificate)

    def _repr_html_(self) -> str:
        import html

        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{html.escape(self.report)}"></iframe>'

    def __repr__(self) -> str:
        parts = [self.verdict, f"{self.quantized} of {self.contractions} contractions"]
        if self.seconds: parts.append(f"{self.seconds[0] / self.seconds[1]:.2f} times as fast")
        if self.metric: parts.append(f"{self.metric} {self.value:.6g}, bound {self.bound:.6g}")
        return f"<tenon.Quantized: {', '.join(parts)}>"


def _replace(path: str, data: bytes) -> None:
    """Whole or not at all."""
    part = f"{path}.{os.getpid()}.tmp"
    try:
        with open(part, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part): os.remove(part)
        raise


# ---- samples ----

Sample = Tuple[List[np.ndarray], int]


def _numpy(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


def _rows(names: Sequence[str], ranks: Sequence[int], arrays: Sequence[np.ndarray], labels: Optional[np.ndarray], lead: bool) -> Iterator[Sample]:
    """The samples of arrays whose first axis is that of samples (`lead`), or that are of the inputs' own ranks: a batch."""
    batched = lead or all(a.ndim == r and a.ndim for a, r in zip(arrays, ranks))
    count = len(arrays[0]) if batched and arrays else 1
    for name, a in zip(names, arrays):
        if batched and (not a.ndim or len(a) != count):
            raise InvalidError(f"input {name!r} has {len(a) if a.ndim else 'no'} samples, others have {count}")
    for i in range(count):
        one = [a[i] if batched else a for a in arrays]
        one = [x[None] if x.ndim + 1 == r else x for x, r in zip(one, ranks)]
        label = -1 if labels is None else int(labels.reshape(-1)[i] if batched else labels.reshape(-1)[0])
        yield [np.ascontiguousarray(x) for x in one], label


def _item(names: Sequence[str], item: Any, labelled: bool) -> Tuple[List[np.ndarray], Optional[np.ndarray]]:
    """The arrays of one item of an iterable, in the order of the inputs, and the labels behind them."""
    if isinstance(item, Mapping):
        missing = [n for n in names if n not in item]
        if missing: raise InvalidError(f"a sample lacks the input {missing[0]!r}; it has {sorted(map(str, item))}")
        labels = _numpy(item["labels"]) if labelled and "labels" in item else None
        return [_numpy(item[n]) for n in names], labels
    parts = list(item) if isinstance(item, (tuple, list)) else [item]
    labels = _numpy(parts[len(names)]) if labelled and len(parts) > len(names) else None
    if len(parts) < len(names): raise InvalidError(f"a sample has {len(parts)} arrays, the model {len(names)} inputs")
    return [_numpy(x) for x in parts[: len(names)]], labels


def _samples(names: Sequence[str], ranks: Sequence[int], data: Any, labels: Any) -> Iterator[Sample]:
    if isinstance(data, Mapping):
        unknown = [n for n in data if n not in names]
        if unknown: raise InvalidError(f"the samples have {unknown[0]!r}, which is no input; inputs: {', '.join(names)}")
        arrays, _ = _item(names, data, False)
        yield from _rows(names, ranks, arrays, None if labels is None else _numpy(labels), True)
        return
    for item in data:
        arrays, own = _item(names, item, labels is not None)
        yield from _rows(names, ranks, arrays, own, False)


class _Feed:
    """The C callback that gives samples.  `failure` is what the caller's iterable raised."""

    def __init__(self, samples: Optional[Iterator[Sample]]) -> None:
        self.samples, self.keep, self.failure = samples, [], None
        self.callback = _ffi.NEXT_SAMPLE(self._next) if samples is not None else _ffi.NEXT_SAMPLE()

    def _next(self, tensors: Any, count: int, label: Any, _user: Any) -> int:
        try:
            got = next(self.samples, None)
            if got is None: return 0
            self.keep = [view_of(x) for x in got[0]]
            for i in range(count): describe(tensors[i], self.keep[i])
            label[0] = got[1]
            return 1
        except BaseException as error:
            self.failure = error
            return -1


def _names_and_ranks(handle: int) -> Tuple[List[str], List[int]]:
    names, ranks, info = [], [], _ffi.ValueInfo()
    for i in range(_ffi.lib.tenon_model_input_count(handle)):
        _ffi.lib.tenon_model_input(handle, i, C.byref(info))
        names.append(info.name.decode())
        ranks.append(info.rank)
    return names, ranks


def _made(call: Any, options: Any, model: Any, data: Any, labels: Any, keep: Sequence[str], progress: Union[None, bool, ProgressFunction]) -> Quantized:
    """Calls the C function with the options, whose fields for samples, names and progress are filled in here."""
    texts = [_ffi.encode(k) for k in keep]
    with OpenedModel(model) as opened:
        names, ranks = _names_and_ranks(opened.handle)
        feed = _Feed(_samples(names, ranks, data, labels) if data is not None else None)
        watch = Watch(bar_for(progress))
        dataset = _ffi.Dataset(next=feed.callback)
        options.struct_size = C.sizeof(options)
        options.keep, options.nkeep = (C.c_char_p * len(texts))(*texts) if texts else None, len(texts)
        options.labels, options.progress = labels is not None, watch.callback
        error, made = _ffi.Error(), C.c_void_p()
        status = watched(lambda: call(opened.handle, C.byref(dataset), C.byref(options), C.byref(made), C.byref(error)), watch)
        for failure in (feed.failure, watch.failure):
            if failure is not None: raise failure
        check(status, error)
        try:
            info = _ffi.QuantizedInfo()
            _ffi.lib.tenon_quantized_describe(made, C.byref(info))
            return Quantized(info)
        finally:
            _ffi.lib.tenon_quantized_free(made)


def _encoded(text: Optional[str]) -> Optional[bytes]: return text.encode() if text is not None else None


def quantize(
    model: Any,
    data: Union[None, Mapping[str, Any], Iterable[Any]] = None,
    to: str = "int8",
    budget: Optional[str] = None,
    keep: Sequence[str] = (),
    labels: Any = None,
    metric: Optional[str] = None,
    method: Optional[str] = None,
    block: int = 0,
    migrate: Optional[str] = None,
    target: Optional[str] = None,
    threads: int = 0,
    seed: int = 0,
    allow_slower: bool = False,
    progress: Union[None, bool, ProgressFunction] = None,
) -> Quantized:
    """Makes a model of fewer bits from a float one, with a certificate of what it lost.

    `model` is a path, bytes or an onnx.ModelProto.  `data` is a dictionary of arrays with a leading sample axis, or an
    iterable, such as a DataLoader: of dictionaries, tuples or arrays, each a sample or a batch.  `labels` is an array of
    right classes; True: the iterable gives them behind the inputs.  `to`, `budget`, `metric`, `method`, `block` and
    `migrate` are those of `tenon quantize`.

    >>> import numpy as np, tenon
    >>> x = np.random.default_rng(0).uniform(0, 16, (64, 8, 8)).astype(np.float32)
    >>> q = tenon.quantize("examples/digits/digits.onnx", {"image": x}, allow_slower=True)
    >>> q.verdict, q.quantized, q.certificate["metric"]
    ('made', 2, 'agreement')
    """
    options = _ffi.QuantizeOptions(
        to=to.encode(),
        budget=_encoded(budget),
        metric=_encoded(metric),
        method=_encoded(method),
        block=block,
        target=_encoded(target),
        threads=threads,
        seed=seed,
        allow_slower=allow_slower,
        migrate=_encoded(migrate),
    )
    return _made(_ffi.lib.tenon_quantize, options, model, data, labels, keep, progress)


def prune(
    model: Any,
    data: Union[None, Mapping[str, Any], Iterable[Any]] = None,
    pattern: str = "auto",
    zeros: int = 0,
    budget: Optional[str] = None,
    keep: Sequence[str] = (),
    labels: Any = None,
    metric: Optional[str] = None,
    target: Optional[str] = None,
    threads: int = 0,
    seed: int = 0,
    allow_slower: bool = False,
    progress: Union[None, bool, ProgressFunction] = None,
) -> Quantized:
    """Makes a model whose weights have zeros that kernels leave out, with a certificate of what it lost.

    `pattern`, `zeros` (per cent), `budget`, `metric` and `keep` are those of `tenon prune`; all else is as of `quantize`.
    `quantized` of the result counts the layers that are pruned.

    >>> import numpy as np, tenon
    >>> x = np.random.default_rng(0).uniform(0, 16, (64, 8, 8)).astype(np.float32)
    >>> p = tenon.prune("examples/digits/digits.onnx", {"image": x}, pattern="2:4", allow_slower=True)
    >>> p.verdict, p.quantized, p.certificate["layers"][0]["choice"]
    ('made', 2, '2:4')
    """
    options = _ffi.PruneOptions(
        pattern=pattern.encode(),
        zeros=zeros,
        budget=_encoded(budget),
        metric=_encoded(metric),
        target=_encoded(target),
        threads=threads,
        allow_slower=allow_slower,
        seed=seed,
    )
    return _made(_ffi.lib.tenon_prune, options, model, data, labels, keep, progress)
