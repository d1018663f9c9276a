#!/usr/bin/env python3
"""ort_server.py MODEL.onnx PORT THREADS -- ONNX Runtime behind the part of KServe's protocol that bench/serve.py batching uses.

One input and one output as bytes behind the JSON. A thread takes each connection; ONNX Runtime runs without Python's lock.
"""
import http.server, json, socketserver, sys

import numpy as np, onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args): pass

    def reply(self, body, **headers):
        self.send_response(200)
        for name, value in {**headers, "Content-Length": len(body)}.items(): self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self): self.reply(b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        n = int(self.headers["Inference-Header-Content-Length"])
        x = json.loads(body[:n])["inputs"][0]
        y = session.run(None, {x["name"]: np.frombuffer(body[n:], np.float32).reshape(x["shape"])})[0]
        head = json.dumps({"model_name": "m", "outputs": [{"name": session.get_outputs()[0].name, "shape": y.shape, "datatype": "FP32", "parameters": {"binary_data_size": y.nbytes}}]}).encode()
        self.reply(head + y.tobytes(), Inference_Header_Content_Length=len(head))


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size = True, 256


Server(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
