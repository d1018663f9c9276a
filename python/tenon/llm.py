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
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from . import _ffi
from .errors import InvalidError, OutOfMemoryError, check
from .progress import ProgressFunction, Watch, bar_for, watched

Prompt = Union[str, Sequence[int]]
Result = TypeVar("Result")
FINISH = {_ffi.LLM_STOP: "stop", _ffi.LLM_LENGTH: "length", _ffi.LLM_CANCELLED: "cancelled", _ffi.LLM_NO_TOKEN: "no token"}
POOLING = {"mean": 1, "first": 2, "last": 3}
KV_TYPES = {"f32": _ffi.DTYPES.index("F32"), "f16": _ffi.DTYPES.index("F16"), "bf16": _ffi.DTYPES.index("BF16"), "int8": _ffi.DTYPES.index("I8")}


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


Mask = Callable[[Sequence[int], int, int], Optional[Iterable[int]]]


class _Masked:
    """A mask as the library calls it.  What it raises ends the request, and is raised by the step."""

    def __init__(self, mask: Mask, vocabulary: int) -> None:
        self.mask, self.vocabulary, self.failure = mask, vocabulary, None  # type: ignore[var-annotated]
        self.callback = _ffi.LLM_MASK(self._call)

    def _call(self, place: Any, allowed: Any, _user: Any) -> int:
        at = place.contents
        try:
            found = self.mask(at.tokens[: at.ntokens], at.nprompt, at.left)
            if found is None:
                return _ffi.LLM_ALLOW_ALL
            for t in found:
                if not 0 <= t < self.vocabulary:
                    raise InvalidError(f"the mask allows token {t}, and the vocabulary has {self.vocabulary} tokens")
                allowed[t // 32] |= 1 << t % 32
            return _ffi.LLM_ALLOW_SET
        except BaseException as failure:  # an interrupt, too: nothing may pass through the library
            self.failure = failure
            return _ffi.LLM_ALLOW_FAILED


class _Request:
    def __init__(self, logprobs: bool, scores: bool, masked: Optional[_Masked]) -> None:
        self.masked = masked
        self.pieces: Deque[Piece] = deque()
        self.logprobs = logprobs
        self.scores: Optional[List[float]] = [] if scores else None
        self.vector: List[float] = []
        self.done = False

    def take(self, event: Any) -> None:
        if event.kind == _ffi.LLM_PROMPT:
            assert self.scores is not None
            self.scores.append(event.logprob)
            return
        if event.kind == _ffi.LLM_VECTOR:
            self.vector = event.vector[: event.nvector]
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
    :param kv_dtype: of the KV cache: "f32", "f16", "bf16" or "int8" (with a scale for each head of a token).
    :param exact: f32 activations where weights are in block types.
    :param draft: most draft tokens of prompt lookup, which change no token; 0 is none, None the default.
    :param draft_model: a smaller model of the same tokens, whose guesses are drafts, too.
    :param prefix_cache: whether requests share pages of equal beginnings.
    :param step_seconds: steps are kept near it by cutting prompts; 0 is no target.

    :param embed: a decoder gives embeddings, too; encoders give nothing else.
    :param adapters: LoRA adapters that may be there at the same time (`load_adapter`).
    :param adapter_rank: their greatest rank; None is 16.
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
        embed: bool = False,
        adapters: int = 0,
        adapter_rank: Optional[int] = None,
        draft_model: "Union[None, os.PathLike[str], str]" = None,
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
            embed=int(embed),
            adapters=adapters,
            adapter_rank=adapter_rank or 0,
            draft_model=_ffi.encode(draft_model) if draft_model is not None else None,
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
        dry: float = 0.0,
        dry_base: float = 1.75,
        dry_length: int = 2,
        xtc_probability: float = 0.0,
        xtc_threshold: float = 0.1,
        mask: Optional[Mask] = None,
        adapter: Optional[str] = None,
        json_schema: Union[None, str, bool, Mapping[str, Any]] = None,
        regex: Optional[str] = None,
        grammar: Optional[str] = None,
        choices: Optional[Sequence[str]] = None,
        show_special: Sequence[int] = (),
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
            dry=dry,
            dry_base=dry_base,
            dry_length=dry_length,
            xtc_probability=xtc_probability,
            xtc_threshold=xtc_threshold,
            adapter=adapter.encode() if adapter is not None else None,
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
        if json_schema is not None:
            r.json_schema = _ffi.encode(json_schema if isinstance(json_schema, str) else json.dumps(json_schema))
        if regex is not None:
            r.regex = _ffi.encode(regex)
        if grammar is not None:
            r.grammar = _ffi.encode(grammar)
        if choices is not None:
            if not choices:
                raise InvalidError("choices is empty")
            r.choices = (C.c_char_p * len(choices))(*[_ffi.encode(c) for c in choices])
            r.nchoices = len(choices)
        if show_special:
            r.shown, r.nshown = _ids(show_special), len(show_special)
        masked = _Masked(mask, int(self.info["vocabulary"])) if mask is not None else None
        if masked is not None:
            r.mask = masked.callback
        error, number = _ffi.Error(), C.c_uint64()
        check(_ffi.lib.tenon_llm_submit(self._open(), C.byref(r), C.byref(number), C.byref(error)), error)
        self._live[number.value] = _Request(logprobs is not None, prompt_logprobs, masked)
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
            piece = request.pieces.popleft()
        if piece.finish_reason is not None and request.masked is not None and request.masked.failure is not None:
            raise request.masked.failure
        return piece

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
            ``priority``, ``salt``, ``dry``, ``dry_base``, ``dry_length``, ``xtc_probability``, ``xtc_threshold``,
            ``mask``, ``adapter`` (the name of a loaded one).

        One of ``json_schema`` (a dict or text), ``regex``, ``grammar`` (GBNF) and ``choices`` (texts) holds the answer to
        a form; it is whole even where ``max_tokens`` ends it.  ``show_special`` has control tokens whose text is part of
        the answer.

        A ``mask`` is called before each token with the tokens so far, how many of them are the prompt, and how many may
        still come.  It returns the tokens that may come next, or None for all.
        """
        one = isinstance(prompts, str) or len(prompts) == 0 or not isinstance(prompts[0], (str, list, tuple))
        if one:
            return self._run(prompts, stream, options)  # type: ignore[arg-type]
        if stream:
            raise InvalidError("only one prompt can be streamed by one iterator")
        return self._batch(list(prompts), options)  # type: ignore[arg-type]

    def _batch(self, prompts: List[Prompt], options: Mapping[str, Any]) -> List[Answer]:
        return self._together(len(prompts), lambda i: self._submit(prompts[i], **options), self._answer)

    def _together(self, n: int, submit: Callable[[int], int], result: Callable[[int], Result]) -> List[Result]:
        found: Dict[int, Result] = {}
        waiting: Deque[Tuple[int, int]] = deque()
        try:
            for i in range(n):
                while True:
                    try:
                        with self._lock:
                            waiting.append((i, submit(i)))
                        break
                    except OutOfMemoryError:  # all places are taken: the first one's answer frees one
                        if not waiting:
                            raise
                        k, number = waiting.popleft()
                        found[k] = result(number)
            while waiting:
                k, number = waiting.popleft()
                found[k] = result(number)
        finally:
            for _, number in waiting:
                self._drop(number)
        return [found[i] for i in range(n)]

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

    # ---- vectors ----

    def embed(
        self,
        texts: Union[Prompt, Sequence[Prompt]],
        *,
        pooling: Optional[str] = None,
        normalise: bool = True,
        truncate: bool = False,
        adapter: Optional[str] = None,
    ) -> Union[List[float], List[List[float]]]:
        """The vector of a text, or a list of vectors of several.

        :param texts: a text, a list of tokens, or a list of either.
        :param pooling: how the vectors of tokens become one: "mean", "first" or "last"; None is as the model's files say,
            else the mean of an encoder's and the last one of a decoder.
        :param normalise: vectors get the length 1.
        :param truncate: a text that is too long loses its end; else it is an error.
        :param adapter: the name of a loaded adapter.

        Decoders need ``LLM(..., embed=True)``.
        """
        if pooling is not None and pooling not in POOLING:
            raise InvalidError(f"pooling is one of {', '.join(POOLING)}, not {pooling!r}")
        one = isinstance(texts, str) or (len(texts) > 0 and not isinstance(texts[0], (str, list, tuple)))
        found = self._vectors(
            [texts] if one else list(texts),  # type: ignore[list-item, arg-type]
            task=_ffi.LLM_EMBED,
            pooling=POOLING[pooling] if pooling else 0,
            not_normalised=int(not normalise),
            truncate=int(truncate),
            adapter=adapter.encode() if adapter is not None else None,
        )
        return found[0] if one else found

    def rerank(
        self, query: str, documents: Sequence[str], *, truncate: bool = False
    ) -> List[Tuple[int, float]]:
        """Scores documents by how well they belong to a query, by an encoder with a classifier: pairs of a document's
        number and its score, the best first.

        :param truncate: a document that is too long loses its end; else it is an error.
        """
        found = self._vectors(list(documents), task=_ffi.LLM_RANK, query=query, truncate=int(truncate))
        return sorted(((i, v[-1]) for i, v in enumerate(found)), key=lambda x: (-x[1], x[0]))

    def _submit_vector(self, text: Prompt, query: Optional[str], fields: Mapping[str, Any]) -> int:
        r = _ffi.LlmRequest(struct_size=C.sizeof(_ffi.LlmRequest), **fields)
        if isinstance(text, str):
            data = text.encode("utf-8", "surrogatepass")
            asked = data if query is None else query.encode("utf-8", "surrogatepass")
            if not data or not asked:
                raise InvalidError("the text is empty")
            r.text, r.text_size = asked, len(asked)
            if query is not None:
                r.pair, r.pair_size = data, len(data)
        else:
            ids = _ids(text)
            r.tokens, r.ntokens = ids, len(ids)
        error, number = _ffi.Error(), C.c_uint64()
        check(_ffi.lib.tenon_llm_submit(self._open(), C.byref(r), C.byref(number), C.byref(error)), error)
        self._live[number.value] = _Request(False, False, None)
        return number.value

    def _vectors(self, texts: Sequence[Prompt], *, query: Optional[str] = None, **fields: Any) -> List[List[float]]:
        def submit(i: int) -> int:
            return self._submit_vector(texts[i], query, fields)

        def vector(number: int) -> List[float]:
            request = self._live[number]
            list(_Stream(self, number))
            return request.vector

        return self._together(len(texts), submit, vector)

    # ---- adapters ----

    def load_adapter(self, name: str, path: "os.PathLike[str] | str", *, scale: float = 1.0) -> None:
        """Loads a LoRA adapter, which requests then name with ``adapter=``; others may run meanwhile.

        :param path: a folder of PEFT (adapter_config.json, adapter_model.safetensors) or a GGUF file.
        :param scale: multiplies what the adapter adds.

        The model is opened with room for it: ``LLM(..., adapters=4)``.
        """
        error = _ffi.Error()
        if not scale:
            raise InvalidError("a scale of 0 changes nothing")
        with self._lock:
            check(
                _ffi.lib.tenon_llm_load_adapter(
                    self._open(), name.encode(), _ffi.encode(path), scale, C.byref(error)
                ),
                error,
            )

    def drop_adapter(self, name: str) -> None:
        """Drops an adapter: its name is free at once, its place when the requests that use it have ended."""
        error = _ffi.Error()
        with self._lock:
            check(_ffi.lib.tenon_llm_drop_adapter(self._open(), name.encode(), C.byref(error)), error)

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

    @property
    def chat_template(self) -> Optional[str]:
        """The model's chat template, in Jinja; None: it has none."""
        with self._lock:
            text = _ffi.lib.tenon_llm_template(self._open())
        return text.decode("utf-8", "replace") if text is not None else None

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

    def pieces(self) -> List[bytes]:
        """What each token stands for, by number: bytes, which need not be whole characters."""
        found, token, error = [], _ffi.LlmToken(), _ffi.Error()
        with self._lock:
            for i in range(int(self.info["vocabulary"])):
                check(_ffi.lib.tenon_llm_piece(self._open(), i, C.byref(token), C.byref(error)), error)
                found.append(C.string_at(token.bytes, token.size))
        return found

    def ends(self) -> List[int]:
        """The tokens that end an answer."""
        with self._lock:
            n = _ffi.lib.tenon_llm_ends(self._open(), None, 0)
            ids = (C.c_int32 * n)()
            _ffi.lib.tenon_llm_ends(self._open(), ids, n)
        return list(ids)

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
