"""Language models: text in, text out.

    llm = tenon.LLM("model.gguf")
    print(llm.generate("The capital of France is", max_tokens=32).text)
    for piece in llm.chat([{"role": "user", "content": "Hello"}], stream=True):
        print(piece.text, end="", flush=True)
"""

from __future__ import annotations

import ctypes as C
import json
import os
import threading
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _ffi
from .errors import InvalidError, OutOfMemoryError, check
from .progress import ProgressFunction, Watch, bar_for, watched

Prompt = Union[str, Sequence[int]]
FINISH = {_ffi.LLM_STOP: "stop", _ffi.LLM_LENGTH: "length", _ffi.LLM_CANCELLED: "cancelled", _ffi.LLM_NO_TOKEN: "no token"}
KV_TYPES = {"f32": _ffi.DTYPES.index("F32"), "f16": _ffi.DTYPES.index("F16"), "bf16": _ffi.DTYPES.index("BF16")}


class Piece(NamedTuple):
    """What a step added to an answer: text of whole characters, which may be empty, and a token (None: there is
    none, as at the end of a cancelled request)."""

    text: str
    token: Optional[int]
    logprob: Optional[float]
    top_logprobs: Optional[List[Tuple[int, float]]]
    finish_reason: Optional[str]


class Answer(NamedTuple):
    """A whole answer.  ``finish_reason`` is "stop", "length", "cancelled" or "no token".  ``logprobs`` and
    ``top_logprobs`` are there where they were asked for, ``prompt_logprobs`` begins with the prompt's second
    token."""

    text: str
    tokens: List[int]
    finish_reason: str
    logprobs: Optional[List[float]]
    top_logprobs: Optional[List[List[Tuple[int, float]]]]
    prompt_logprobs: Optional[List[float]]


class _Request:
    def __init__(self, logprobs: bool, scores: bool) -> None:
        self.pieces: Deque[Piece] = deque()
        self.logprobs = logprobs
        self.scores: Optional[List[float]] = [] if scores else None
        self.done = False

    def take(self, event: Any) -> None:
        if event.kind == _ffi.LLM_PROMPT:
            assert self.scores is not None
            self.scores.append(event.logprob)
            return
        finish = FINISH.get(event.finish)
        has_token = event.kind == _ffi.LLM_TOKEN
        top = [(event.top[i].token, event.top[i].logprob) for i in range(event.ntop)]
        self.pieces.append(
            Piece(
                C.string_at(event.text, event.text_size).decode("utf-8", "replace"),
                event.token if has_token else None,
                event.logprob if has_token and self.logprobs else None,
                top if has_token and self.logprobs else None,
                finish,
            )
        )
        self.done = finish is not None


class _Stream:
    """The pieces of an answer.  A generator would not do: closed before its first piece, it runs no code, and its
    request would stay."""

    def __init__(self, llm: "LLM", number: int) -> None:
        self._llm, self._number, self._ended = llm, number, False
        self._request = llm._live[number]

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> Piece:
        if self._ended:
            raise StopIteration
        try:
            piece = self._llm._next(self._request)
        except BaseException:  # an interrupt, too
            self.close()
            raise
        if piece.finish_reason is not None:
            self.close()
        return piece

    def close(self) -> None:
        """Ends the request if it still runs."""
        self._ended = True
        self._llm._drop(self._number)

    def __del__(self) -> None:
        if not self._ended:
            self.close()


class LLM:
    """An open language model: a GGUF file, or a folder with config.json, safetensors files and tokenizer.json.

    :param target: what runs it, "cpu" by default.
    :param threads: None is as many as the machine lets us; results do not depend on it.
    :param context: tokens of one request, prompt included; None is the model's, 4096 at most.
    :param sequences: requests that run at the same time; others wait.
    :param requests: running and waiting together.

    :param batch: tokens of a step.
    :param pages: of the KV cache, 32 tokens each.
    :param memory_limit: bytes besides the mapped weights; 0 is none.
    :param kv_dtype: of the KV cache: "f32", "f16" or "bf16".
    :param exact: f32 activations where weights are in block types.
    :param draft: most draft tokens of prompt lookup, which change no token; 0 is none, None the default.
    :param prefix_cache: whether requests share pages of equal beginnings.
    :param step_seconds: steps are kept near it by cutting prompts; 0 is no target.
    :param cache: whether the cache of compiled kernels is used.
    :param progress: as of `compile`.

    All memory is reserved when it is made (`memory`).  Threads may share it; a step runs in one of them at a time.
    """

    def __init__(
        self,
        path: "os.PathLike[str] | str",
        *,
        target: Optional[str] = None,
        threads: Optional[int] = None,
        context: Optional[int] = None,
        sequences: Optional[int] = None,
        requests: Optional[int] = None,
        batch: Optional[int] = None,
        pages: Optional[int] = None,
        memory_limit: int = 0,
        kv_dtype: str = "f32",
        exact: bool = False,
        draft: Optional[int] = None,
        prefix_cache: bool = True,
        step_seconds: float = 0.0,
        cache: bool = True,
        progress: Union[None, bool, ProgressFunction] = None,
    ) -> None:
        self._handle, self._process = 0, os.getpid()
        self._lock = threading.RLock()
        self._live: Dict[int, _Request] = {}
        if kv_dtype not in KV_TYPES:
            raise InvalidError(f"kv_dtype is one of {', '.join(KV_TYPES)}, not {kv_dtype!r}")
        watch = Watch(bar_for(progress))
        options = _ffi.LlmOptions(
            struct_size=C.sizeof(_ffi.LlmOptions),
            target=target.encode() if target else None,
            threads=threads or 0,
            context=context or 0,
            sequences=sequences or 0,
            requests=requests or 0,
            batch=batch or 0,
            pages=pages or 0,
            memory_limit=memory_limit,
            kv_dtype=KV_TYPES[kv_dtype],
            exact=int(exact),
            draft=0 if draft is None else draft or -1,
            no_prefix_cache=int(not prefix_cache),
            step_seconds=step_seconds,
            progress=watch.callback,
            no_cache=int(not cache),
        )
        error, handle = _ffi.Error(), C.c_void_p()
        status = watched(
            lambda: int(
                _ffi.lib.tenon_llm_open(_ffi.encode(path), C.byref(options), C.byref(handle), C.byref(error))
            ),
            watch,
        )
        if watch.failure is not None:
            _ffi.free("tenon_llm_close", handle.value or 0, self._process)
            raise watch.failure
        check(status, error)
        self._handle = handle.value or 0

    def close(self) -> None:
        """Frees the model, after the step that another thread may be in; a second call does nothing."""
        with self._lock:
            handle, self._handle = self._handle, 0
        _ffi.free("tenon_llm_close", handle, self._process)

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_unused: Any) -> None:
        self.close()

    def _open(self) -> int:
        if not self._handle:
            raise InvalidError("the model is closed")
        return self._handle

    # ---- requests ----

    def _submit(
        self,
        prompt: Prompt,
        *,
        max_tokens: Optional[int] = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        repeat_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        seed: int = 0,
        bias: Optional[Mapping[int, float]] = None,
        stop: Union[None, str, Sequence[str]] = None,
        ignore_end: bool = False,
        logprobs: Optional[int] = None,
        prompt_logprobs: bool = False,
        parse_special: bool = False,
        add_special: bool = True,
        priority: int = 0,
        salt: int = 0,
    ) -> int:
        stops = [stop] if isinstance(stop, str) else list(stop or [])
        if max_tokens is not None and max_tokens < (0 if prompt_logprobs else 1):
            raise InvalidError(f"max_tokens is {max_tokens}")
        if not top_p > 0 or not typical > 0 or not repeat_penalty > 0:
            raise InvalidError("top_p, typical and repeat_penalty must be above 0")
        r = _ffi.LlmRequest(
            struct_size=C.sizeof(_ffi.LlmRequest),
            parse_special=int(parse_special),
            no_special=int(not add_special),
            max_tokens=0 if max_tokens is None else max_tokens or -1,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical=typical,
            repeat_penalty=repeat_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            seed=seed % 2**64,
            ignore_end=int(ignore_end),
            logprobs=int(logprobs is not None),
            top_logprobs=logprobs or 0,
            prompt_logprobs=int(prompt_logprobs),
            priority=priority,
            salt=salt % 2**64,
        )
        if isinstance(prompt, str):
            text = prompt.encode("utf-8", "surrogatepass")
            if not text:
                raise InvalidError("the prompt is empty")
            r.text, r.text_size = text, len(text)
        else:
            ids = _ids(prompt)
            r.tokens, r.ntokens = ids, len(ids)
        if bias:
            r.bias = (_ffi.LlmBias * len(bias))(*[_ffi.LlmBias(t, x) for t, x in bias.items()])
            r.nbias = len(bias)
        if stops:
            r.stop = (C.c_char_p * len(stops))(*[_ffi.encode(s) for s in stops])
            r.nstop = len(stops)
        error, number = _ffi.Error(), C.c_uint64()
        check(_ffi.lib.tenon_llm_submit(self._open(), C.byref(r), C.byref(number), C.byref(error)), error)
        self._live[number.value] = _Request(logprobs is not None, prompt_logprobs)
        return number.value

    def _step(self) -> None:
        error, events, n = _ffi.Error(), C.POINTER(_ffi.LlmEvent)(), C.c_size_t()
        check(_ffi.lib.tenon_llm_step(self._open(), C.byref(events), C.byref(n), C.byref(error)), error)
        for i in range(n.value):
            request = self._live.get(events[i].id)
            if request is not None:
                request.take(events[i])

    def _drop(self, number: int) -> None:
        """Forgets a request, which is cancelled if it still runs."""
        with self._lock:
            request = self._live.pop(number, None)
            if request is not None and not request.done and self._handle:
                _ffi.lib.tenon_llm_cancel(self._handle, number, None)

    def _next(self, request: _Request) -> Piece:
        with self._lock:
            while not request.pieces:
                self._step()
            return request.pieces.popleft()

    def _answer(self, number: int) -> Answer:
        request = self._live[number]
        pieces = list(_Stream(self, number))
        tokens = [p for p in pieces if p.token is not None]
        return Answer(
            "".join(p.text for p in pieces),
            [p.token for p in tokens if p.token is not None],
            pieces[-1].finish_reason or "",
            [p.logprob for p in tokens if p.logprob is not None] if request.logprobs else None,
            [p.top_logprobs or [] for p in tokens] if request.logprobs else None,
            request.scores,
        )

    def _run(self, prompt: Prompt, stream: bool, options: Mapping[str, Any]) -> Union[Answer, Iterator[Piece]]:
        with self._lock:
            number = self._submit(prompt, **options)
        return _Stream(self, number) if stream else self._answer(number)

    def generate(
        self, prompts: Union[Prompt, Sequence[Prompt]], *, stream: bool = False, **options: Any
    ) -> Union[Answer, List[Answer], Iterator[Piece]]:
        """Continues a prompt, or several together.

        :param prompts: a text, a list of tokens, or a list of either: the result is then a list of answers.
        :param stream: return an iterator of `Piece` for one prompt; closing it ends the request.
        :param options: ``max_tokens`` (None is what is left of the context), ``temperature`` (0 is the most probable
            token), ``top_k``, ``top_p``, ``min_p``, ``typical``, ``repeat_penalty``, ``presence_penalty``,
            ``frequency_penalty``, ``seed``, ``bias`` (a dict of tokens), ``stop`` (texts), ``ignore_end``, ``logprobs``
            (how many of the most probable tokens, 0 to 20), ``prompt_logprobs``, ``parse_special``, ``add_special``,
            ``priority``, ``salt``.
        """
        one = isinstance(prompts, str) or len(prompts) == 0 or not isinstance(prompts[0], (str, list, tuple))
        if one:
            return self._run(prompts, stream, options)  # type: ignore[arg-type]
        if stream:
            raise InvalidError("only one prompt can be streamed by one iterator")
        return self._batch(list(prompts), options)  # type: ignore[arg-type]

    def _batch(self, prompts: List[Prompt], options: Mapping[str, Any]) -> List[Answer]:
        answers: List[Optional[Answer]] = [None] * len(prompts)
        waiting: Deque[Tuple[int, int]] = deque()
        try:
            for i, prompt in enumerate(prompts):
                while True:
                    try:
                        with self._lock:
                            waiting.append((i, self._submit(prompt, **options)))
                        break
                    except OutOfMemoryError:  # all places are taken: the first one's answer frees one
                        if not waiting:
                            raise
                        k, number = waiting.popleft()
                        answers[k] = self._answer(number)
            while waiting:
                k, number = waiting.popleft()
                answers[k] = self._answer(number)
        finally:
            for _, number in waiting:
                self._drop(number)
        return [a for a in answers if a is not None]

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        stream: bool = False,
        tools: Optional[Sequence[Any]] = None,
        variables: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> Union[Answer, Iterator[Piece]]:
        """Answers a conversation, by the model's chat template.

        :param messages: dicts with "role" and "content".
        :param tools, variables: passed on to the template.
        :param stream, options: as of `generate`.
        """
        prompt = self.chat_prompt(messages, tools=tools, variables=variables)
        return self._run(prompt, stream, {"parse_special": True, "add_special": False, **options})

    # ---- text ----

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Optional[Sequence[Any]] = None,
        variables: Optional[Mapping[str, Any]] = None,
    ) -> str:
        """The text that the chat template makes of a conversation."""
        texts = [
            json.dumps(x, ensure_ascii=False).encode() if x is not None else None
            for x in (list(messages), tools, variables)
        ]

        def call(to: Any, room: int, size: Any, error: Any) -> int:
            return int(_ffi.lib.tenon_llm_chat(self._open(), *texts, to, room, size, error))

        return self._text(call)

    def tokenize(self, text: str, *, parse_special: bool = False, add_special: bool = True) -> List[int]:
        """The tokens of a text."""
        data, n, error = text.encode("utf-8", "surrogatepass"), C.c_size_t(), _ffi.Error()
        room = len(data) + 16
        while True:
            ids = (C.c_int32 * room)()
            with self._lock:
                status = _ffi.lib.tenon_llm_tokenize(
                    self._open(), data, len(data), parse_special, not add_special, ids, room, C.byref(n), C.byref(error)
                )
            check(status, error)
            if n.value <= room:
                return list(ids[: n.value])
            room = n.value

    def detokenize(self, tokens: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of tokens."""
        ids = _ids(tokens)

        def call(to: Any, room: int, size: Any, error: Any) -> int:
            return int(
                _ffi.lib.tenon_llm_detokenize(self._open(), ids, len(ids), skip_special, to, room, size, error)
            )

        return self._text(call)

    def _text(self, call: Any) -> str:
        size, error = C.c_size_t(), _ffi.Error()
        with self._lock:
            check(call(None, 0, C.byref(size), C.byref(error)), error)
            to = C.create_string_buffer(size.value or 1)
            check(call(to, size.value, C.byref(size), C.byref(error)), error)
        return to.raw[: size.value].decode("utf-8", "replace")

    # ---- facts ----

    @property
    def stats(self) -> Dict[str, int]:
        """Counts since the model was opened: steps, tokens, cached tokens, preemptions, drafts, pages."""
        counts = _ffi.LlmCounts()
        with self._lock:
            _ffi.lib.tenon_llm_stats(self._open(), C.byref(counts))
        return {name: getattr(counts, name) for name, *_ in counts._fields_}

    @property
    def memory(self) -> Dict[str, int]:
        """Bytes by what they are for, all reserved at the start.  ``weights`` are mapped and not in ``total``."""
        found = _ffi.LlmBytes()
        with self._lock:
            _ffi.lib.tenon_llm_memory(self._open(), C.byref(found))
        return {name: getattr(found, name) for name, *_ in found._fields_}

    @property
    def info(self) -> Dict[str, Union[str, int]]:
        """Architecture, tokenizer, vocabulary, context, layers, bytes."""
        found = _ffi.LlmInfo()
        with self._lock:
            _ffi.lib.tenon_llm_describe(self._open(), C.byref(found))
            values = {name: getattr(found, name) for name, *_ in found._fields_}
        return {name: v.decode() if isinstance(v, bytes) else v for name, v in values.items()}


def _ids(tokens: Sequence[int]) -> Any:
    try:
        found = [int(t) for t in tokens]
    except (TypeError, ValueError):
        raise InvalidError("a prompt is a text or a list of token numbers") from None
    if not all(-(2**31) <= t < 2**31 for t in found):
        raise InvalidError("a token number is out of range")
    return (C.c_int32 * max(len(found), 1))(*found) if found else (C.c_int32 * 0)()
