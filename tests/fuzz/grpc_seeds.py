#!/usr/bin/env python3
"""grpc_seeds.py FOLDER -- connections and messages of gRPC to begin with (grpc.c)."""
import gzip, os, struct, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from grpc_client import DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, entry, field, frame, message, packed, request_headers, settings

SERVICE = "/inference.GRPCInferenceService/"
METHODS = ["ModelInfer", "ModelStreamInfer", "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
           "LogSettings", "TraceSetting", "SystemSharedMemoryStatus", "CudaSharedMemoryRegister"]
REQUEST = (field(1, "m") + field(3, "id") + entry(4, "timeout", field(2, 5)) + field(5, field(1, "x") + field(2, "FP32") + packed(3, [1, 4]) + entry(4, "a", field(1, 1)))
           + field(6, field(1, "y") + entry(2, "classification", field(2, 2))) + field(7, struct.pack("<4f", 1, 2, 3, 4)))
TYPED = field(1, "m") + field(5, field(1, "x") + field(2, "INT8") + packed(3, [3]) + field(5, packed(2, [1, 2, -3]))) + field(5, field(1, "s") + field(2, "BYTES") + packed(3, [1]) + field(5, field(8, "text")))
BODIES = {"ModelInfer": REQUEST, "ModelStreamInfer": TYPED, "RepositoryModelLoad": field(2, "m") + entry(3, "config", field(3, "{}")) + entry(3, "file:1/model", field(4, b"\xff\0")),
          "LogSettings": entry(1, "log_info", field(1, 1)), "TraceSetting": entry(1, "trace_level", field(1, "OFF")) + field(2, "m")}


def call(method, body, number=1, **more):
    return frame(HEADERS, END_HEADERS, number, request_headers((SERVICE + method), **more)) + frame(DATA, END_STREAM, number, body)


def main():
    folder = sys.argv[1]
    def put(name, data):
        with open(os.path.join(folder, name), "wb") as f: f.write(data)
    for m in METHODS:
        body = BODIES.get(m, field(1, "m") + field(2, "1"))
        put("call-" + m, b"\0" + call(m, message(body)))
        put("gzip-" + m, b"\0" + call(m, message(gzip.compress(body, mtime=0), 1), grpc_encoding="gzip", grpc_timeout="1S"))
    put("health", b"\0" + frame(HEADERS, END_HEADERS, 1, request_headers("/grpc.health.v1.Health/Check")) + frame(DATA, END_STREAM, 1, message(b"")))
    put("many", b"\0" + b"".join(call("ModelReady", message(field(1, "m")), 2 * i + 1) for i in range(5)))
    put("control", b"\0" + settings((1, 0), (4, 100)) + frame(PING, 0, 0, bytes(8)) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 9)) + call("ModelStreamInfer", message(REQUEST) * 3) + frame(RST_STREAM, 0, 1, bytes(4)))
    for coding in range(3): put(f"frames-{coding}", bytes([201 + coding]) + message(b"one") + message(b"") + message(gzip.compress(bytes(300), mtime=0), 1))
    for i, body in enumerate([REQUEST, TYPED]): put(f"infer-{i}", bytes([230]) + body)
    for kind in range(50):
        for i, body in enumerate(list(BODIES.values())[:5]): put(f"message-{kind}-{i}", bytes([1 + kind]) + body)


main()
