#!/usr/bin/env python3
"""ray_test.py TENON -- tenon.serve.ray on a local Ray cluster: two replicas of a language model, a compiled model and the server.

Needs ray[serve]; `make test-ray` installs it.  The last line is `N passed, N failed`.
"""
import json, os, sys, tempfile, urllib.error, urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")  # of the replicas
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "python")]

import numpy as np
import ray
from ray import serve

import tenon, tiny_llm
from tenon.serve.ray import llm, model, server

passed = failed = 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:600]}", flush=True)


def post(path, body, raw=False):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode() if body is not None else None, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as r: return r.status, r.read() if raw else json.load(r)
    except urllib.error.HTTPError as e: return e.code, json.load(e)


def test_llm(path, plain):
    handle = serve.run(llm(path, replicas=2, threads=1), name="chat", route_prefix="/chat")
    want = plain.generate("Hello", max_tokens=12)
    found = [handle.generate.remote("Hello", max_tokens=12) for _ in range(8)]
    check(all(r.result() == {"text": want.text, "tokens": want.tokens, "finish_reason": want.finish_reason} for r in found), "eight answers")
    said = [{"role": "user", "content": "Hello"}]
    check(handle.chat.remote(said, max_tokens=12).result()["text"] == plain.chat(said, max_tokens=12).text, "a conversation")
    parts = list(handle.options(stream=True).stream.remote("Hello", max_tokens=12))
    check("".join(parts) == want.text, "a stream", parts)
    check(handle.generate.remote("Hello", max_tokens=8, regex="[0-9]{3}").result()["text"].isdigit(), "a form")
    check(post("/chat", {"prompt": "Hello", "max_tokens": 12}) == (200, {"text": want.text, "tokens": list(want.tokens), "finish_reason": want.finish_reason}), "over HTTP")
    for wrong in ({}, {"prompt": "x", "messages": []}, {"prompt": "Hello", "nonsense": 1}, {"prompt": ""}):
        status, a = post("/chat", wrong)
        check(status == 400 and a["error"]["message"], f"{wrong} is refused", (status, a))
    states = serve.status().applications["chat"].deployments["llm"].replica_states
    check(sum(states.values()) == 2, "two replicas", states)


def test_model(folder):
    program = os.path.join(folder, "digits.tenon")
    m = tenon.compile(os.path.join(ROOT, "examples/digits/digits.onnx"), threads=1)
    m.save(program)
    shape = [d if isinstance(d, int) else 1 for d in m.inputs[0].shape]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 64
    want, name = m(x), m.outputs[0].name
    for path in program, os.path.join(ROOT, "examples/digits/digits.onnx"):
        handle = serve.run(model(path, replicas=2, threads=1), name="net", route_prefix="/net")
        found = [handle.predict.remote({m.inputs[0].name: x}).result()[name] for _ in range(4)]
        check(all(np.array_equal(want, y) for y in found), "the same bits", found[0])
        status, a = post("/net", {"inputs": {m.inputs[0].name: x.tolist()}})
        check(status == 200 and np.allclose(a["outputs"][name], want), "over HTTP", a)
    check(post("/net", {"inputs": {"none": [1]}})[0] == 400, "a wrong name")


def test_server(path, plain):
    serve.run(server(f"one={path}", replicas=2, options=["--threads", "1"], program=os.path.abspath(sys.argv[1])), name="server", route_prefix="/")
    said = {"model": "one", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 0}
    want = plain.chat(said["messages"], max_tokens=12).text
    for _ in range(4):
        status, a = post("/v1/chat/completions", said)
        check(status == 200 and a["choices"][0]["message"]["content"] == want, "chat", a)
    status, text = post("/v1/chat/completions", dict(said, stream=True), raw=True)
    parts = [json.loads(p[6:]) for p in text.decode().split("\n\n")[:-2]]
    check("".join(p["choices"][0]["delta"].get("content", "") for p in parts) == want and text.endswith(b"data: [DONE]\n\n"), "a stream", text)
    status, a = post("/v1/chat/completions", {"model": "none", "messages": said["messages"]})
    check(status == 404 and a["error"]["code"] == "model_not_found", "an error passes", a)
    check(post("/v1/models", None)[1]["data"][0]["id"] == "one", "GET")


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_llm.make(os.path.join(folder, "one"))
        plain = tenon.LLM(path, threads=1)
        ray.init(num_cpus=8, include_dashboard=False, configure_logging=False)
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        test_llm(path, plain)
        serve.delete("chat")
        test_model(folder)
        serve.delete("net")
        test_server(path, plain)
        serve.shutdown()
        ray.shutdown()
        plain.close()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()
if __name__ == "__main__": sys.exit(main())
