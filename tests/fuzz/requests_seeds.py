#!/usr/bin/env python3
"""requests_seeds.py FOLDER http|requests -- seeds for the fuzz targets http and requests: a request of each route and form."""
import json, os, sys

SAID = [{"role": "user", "content": "Hello"}]
X = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2.5, -3e2, 4]}
S = {"name": "s", "shape": [1, 2], "datatype": "BYTES", "data": ["a", "\u00e4"]}
B = {"name": "b", "shape": [1], "datatype": "BOOL", "data": [True]}
BODIES = [
    (0, {"model": "l", "prompt": ["a", "b"], "max_tokens": 5, "n": 2, "logprobs": 3, "echo": True, "stop": ["x"], "seed": 1, "temperature": 0.5, "logit_bias": {"1": 2}}),
    (0, {"model": "l", "prompt": [1, 2], "stream": True, "stream_options": {"include_usage": True}, "grammar": "root ::= \"a\" | \"b\""}),
    (0, {"model": "l", "prompt": "a", "structured_outputs": {"regex": "[a-z]{2}"}, "top_p": 0.5, "top_k": 3, "min_p": 0.1}),
    (1, {"model": "l", "messages": SAID, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}}),
    (1, {"model": "l", "messages": [{"role": "system", "content": [{"type": "text", "text": "Be."}]}, *SAID], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "auto"}),
    (2, {"model": "l", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "instructions": "Be.", "max_output_tokens": 4}),
    (3, {"model": "l", "input": ["a", "b"], "encoding_format": "base64"}), (4, {"model": "l", "query": "a", "documents": ["b", {"text": "c"}], "top_n": 1}),
    (5, {"model": "l", "content": "a", "with_pieces": True}), (6, {"model": "l", "tokens": [1, 2]}), (7, {"model": "l", "messages": SAID}),
    (8, {"id": "a", "inputs": [X, S, B], "outputs": [{"name": "y", "parameters": {"classification": 2}}], "parameters": {"timeout": 100}}),
    (11, {"parameters": {"config": json.dumps({"max_batch_size": 4, "dynamic_batching": {"preferred_batch_size": [2], "max_queue_delay_microseconds": 9}, "instance_group": [{"count": 2}]})}}),
    (12, {}), (10, {"ready": True}), (13, {"log_info": False, "log_verbose_level": 1}), (14, {"trace_level": ["OFF"]}),
]
HTTP = ["GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 2, "POST /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n",
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}GET /ready HTTP/1.0\r\n\r\n", "HEAD http://a/v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: http://a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n", "GET /v1/models/l?x=%20y&z HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 0\r\n\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"]


def seeds(kind):
    if kind == "http":
        for h in HTTP: yield b"\x21\x00" + h.encode()
        return
    for route, body in BODIES: yield bytes([route, 0]) + json.dumps(body).encode()
    binary = [{k: v for k, v in X.items() if k != "data"} | {"parameters": {"binary_data_size": 16}}]
    head = json.dumps({"inputs": binary, "parameters": {"binary_data_output": True}}).encode()
    head += b" " * (len(head) % 2)
    yield bytes([8, len(head) // 2]) + head + bytes(16)


for i, seed in enumerate(seeds(sys.argv[2])):
    with open(os.path.join(sys.argv[1], f"seed-{i}"), "wb") as f: f.write(seed)
