"""Replicas of models under Ray Serve.

    from ray import serve
    from tenon.serve.ray import llm, model, server

    serve.run(server("small=model.gguf", replicas=2))    # every route of `tenon serve`: OpenAI's and KServe's clients
    chat = serve.run(llm("model.gguf", replicas=2), name="chat", route_prefix="/chat")
    net = serve.run(model("model.tenon", replicas=2), name="net", route_prefix="/net")

    chat.generate.remote("The capital of France is", max_tokens=8).result()
    net.predict.remote({"x": array}).result()

A replica has the model in its own process; Ray starts, watches and restarts replicas, and chooses the one that answers.
`llm` and `model` take calls through a handle, or JSON over HTTP; `server` starts `tenon-serve` beside each replica and
passes requests on to it, streams too.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import subprocess
import threading
from typing import Any, AsyncIterator, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ray import serve

import tenon
from tenon.dtypes import BY_CODE, array_dtype

__all__ = ["llm", "model", "server"]

# Headers that belong to one connection and not to the request.
OF_CONNECTION = {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


def _answer(answer: "tenon.Answer") -> Dict[str, Any]:
    return {"text": answer.text, "tokens": list(answer.tokens), "finish_reason": answer.finish_reason}


def _failure(error: Exception) -> Any:
    from starlette.responses import JSONResponse

    wrong = isinstance(error, (tenon.InvalidError, tenon.UnsupportedError, ValueError, TypeError, KeyError))
    return JSONResponse({"error": {"message": str(error)}}, status_code=400 if wrong else 500)


def _dtype(name: str) -> Any:
    found = [d for d in BY_CODE.values() if d.name == name]
    return array_dtype(found[0]) if found else None


class _LLM:
    """A language model.  Calls of one replica run together, in the steps of one engine."""

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        self.llm = tenon.LLM(path, **options)

    async def generate(self, prompt: Union[str, Sequence[int]], **options: Any) -> Dict[str, Any]:
        """The answer to a prompt: a dict of text, tokens and finish_reason; `options` as of `tenon.LLM.generate`."""
        return _answer(await asyncio.to_thread(self.llm.generate, prompt, **options))

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Dict[str, Any]:
        """The answer to a conversation, likewise."""
        return _answer(await asyncio.to_thread(self.llm.chat, messages, **options))

    async def stream(self, prompt: Union[str, Sequence[Any]], **options: Any) -> AsyncIterator[str]:
        """The text of the answer in pieces, to a prompt or to messages: `handle.options(stream=True).stream.remote(...)`."""
        messages = not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)
        pieces = (self.llm.chat if messages else self.llm.generate)(prompt, stream=True, **options)
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                if piece.text:
                    yield piece.text
        finally:
            pieces.close()

    async def embed(self, texts: Union[str, List[str]], **options: Any) -> Any:
        """The vectors of texts."""
        return await asyncio.to_thread(self.llm.embed, texts, **options)

    async def __call__(self, request: Any) -> Any:
        """{"prompt": ...} or {"messages": [...]}, and options beside it."""
        try:
            asked = await request.json()
            if not isinstance(asked, dict) or ("prompt" in asked) == ("messages" in asked):
                raise ValueError("the body is a JSON object with prompt or messages")
            if "messages" in asked:
                return await self.chat(asked.pop("messages"), **asked)
            return await self.generate(asked.pop("prompt"), **asked)
        except Exception as error:
            return _failure(error)

    def check_health(self) -> None:
        self.llm.info  # raises where the model is closed


class _Model:
    """A compiled model, or a model file that is compiled when the replica starts."""

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        make = tenon.load if path.endswith(".tenon") else tenon.compile
        self.model = make(path, **options)

    def _run(self, inputs: Any) -> Dict[str, Any]:
        found = self.model(**inputs) if isinstance(inputs, Mapping) else self.model(*inputs)
        names = [v.name for v in self.model.outputs]
        return dict(zip(names, [found] if len(names) == 1 else list(found)))

    async def predict(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Dict[str, Any]:
        """Outputs by name, of arrays by name or in order."""
        return await asyncio.to_thread(self._run, inputs)

    async def __call__(self, request: Any) -> Any:
        """{"inputs": {name: nested lists}}; the outputs likewise."""
        try:
            import numpy as np

            asked = (await request.json())["inputs"]
            types = {v.name: _dtype(v.dtype) for v in self.model.inputs}
            if not isinstance(asked, dict) or set(asked) - set(types):
                raise ValueError(f"inputs are {sorted(types)}")
            found = await self.predict({n: np.asarray(x, dtype=types[n]) for n, x in asked.items()})
            return {"outputs": {n: np.asarray(x).tolist() for n, x in found.items()}}
        except Exception as error:
            return _failure(error)


class _Server:
    """`tenon-serve` on an own port of the loopback, and requests passed on to it as they are."""

    def __init__(self, program: str, models: Sequence[str], options: Sequence[str]) -> None:
        found = shutil.which(program)
        if not found:
            raise tenon.MissingFileError(f"the program {program} is not in PATH")
        self.process = subprocess.Popen(
            [found, "serve", "--host", "127.0.0.1", "--port", "0", *options, *models], stderr=subprocess.PIPE, text=True
        )
        line = self.process.stderr.readline() if self.process.stderr else ""
        try:
            self.port = int(json.loads(line)["port"])
        except (ValueError, KeyError, TypeError):
            self.process.kill()
            raise tenon.TenonError(f"tenon serve did not start: {line.strip()}") from None
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        # What it logs is the replica's log.
        for line in self.process.stderr or ():
            print(line, end="", flush=True)

    def check_health(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"tenon serve ended with status {self.process.returncode}")

    def __del__(self) -> None:
        process = getattr(self, "process", None)
        if process is not None and process.poll() is None:
            process.terminate()

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, body, dict(headers))
        return connection.getresponse()

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import StreamingResponse

        path, prefix = request.scope["path"], request.scope.get("root_path", "")
        path = path[len(prefix) :] if prefix and path.startswith(prefix) else path
        query = request.scope["query_string"].decode("latin-1")
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OF_CONNECTION}
        found = await asyncio.to_thread(
            self._ask, request.method, path + ("?" + query if query else ""), await request.body(), headers
        )

        def pieces() -> Iterator[bytes]:
            with found:  # a client that goes away ends the request
                while data := found.read1(65536):
                    yield data

        kept = {k: v for k, v in found.getheaders() if k.lower() not in OF_CONNECTION}
        return StreamingResponse(pieces(), status_code=found.status, headers=kept)


def _deploy(kind: Any, name: str, replicas: int, requests: int, actor: Optional[Mapping[str, Any]], *args: Any) -> Any:
    made = serve.deployment(kind, name=name).options(
        num_replicas=replicas, max_ongoing_requests=requests, ray_actor_options=dict(actor or {})
    )
    return made.bind(*args)


def llm(
    path: "os.PathLike[str] | str",
    *,
    replicas: int = 1,
    requests: int = 64,
    actor: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> Any:
    """An application of a language model, for `serve.run`.

    :param path: a GGUF file or a folder, there on every node.
    :param replicas: how many processes, each with the model.
    :param requests: how many calls a replica takes at a time; others wait.
    :param actor: Ray's ``ray_actor_options`` of a replica, as {"num_cpus": 4}.
    :param options: of `tenon.LLM`.
    """
    return _deploy(_LLM, "llm", replicas, requests, actor, os.path.abspath(os.fspath(path)), options)


def model(
    path: "os.PathLike[str] | str",
    *,
    replicas: int = 1,
    requests: int = 16,
    actor: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> Any:
    """An application of a compiled model (what `Model.save` wrote), or of a model file, which each replica compiles.

    :param options: of `tenon.load`, or of `tenon.compile`.  The others are as of `llm`.
    """
    return _deploy(_Model, "model", replicas, requests, actor, os.path.abspath(os.fspath(path)), options)


def server(
    *models: str,
    replicas: int = 1,
    requests: int = 256,
    actor: Optional[Mapping[str, Any]] = None,
    options: Sequence[str] = (),
    program: str = "tenon",
) -> Any:
    """An application that answers like `tenon serve MODEL...`: clients of OpenAI and KServe work with its address.

    :param models: PATH or NAME=PATH, there on every node.
    :param options: further arguments of `tenon serve`.  The others are as of `llm`.
    :param program: the program ``tenon``: a path, or a name that PATH has.
    """
    return _deploy(_Server, "server", replicas, requests, actor, program, list(models), list(options))
