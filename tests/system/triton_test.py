#!/usr/bin/env python3
"""triton_test.py TENON -- every call of tritonclient's HTTP and gRPC client classes but shared memory, and gRPC's asyncio class.

Both clients must get the same answers, to the bit.  The rows of src/serve/kserve/messages.def are compared with the descriptors that
the package has.  Needs tritonclient[http,grpc], of PyPI; where it is not installed the test is skipped.  The last line is
`N passed, N failed`.
"""
import asyncio, atexit, inspect, json, os, queue, re, signal, subprocess, sys, tempfile, threading

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
try:
    import numpy as np
    import tritonclient.grpc as grpc_client
    import tritonclient.grpc.aio as aio_client
    import tritonclient.grpc.auth
    import tritonclient.http as http_client
    import tritonclient.http.auth
    from google.protobuf.json_format import MessageToDict
    from tritonclient.grpc import model_config_pb2, service_pb2
    from tritonclient.utils import InferenceServerException
except ImportError as e:
    print(f"SKIP tritonclient[http,grpc] is not installed ({e})\n0 passed, 0 failed")
    sys.exit(0)

passed = failed = 0
SHARED = {name for c in (grpc_client, http_client) for name, _ in inspect.getmembers(c.InferenceServerClient) if "shared_memory" in name}
# numpy's type, the datatype, values
TYPES = [(np.bool_, "BOOL", [True, False, True]), (np.uint8, "UINT8", [0, 7, 255]), (np.uint16, "UINT16", [0, 7, 65535]), (np.uint32, "UINT32", [0, 7, 2**32 - 1]), (np.uint64, "UINT64", [0, 7, 2**64 - 1]),
         (np.int8, "INT8", [-128, 7, 127]), (np.int16, "INT16", [-32768, 7, 32767]), (np.int32, "INT32", [-(2**31), 7, 2**31 - 1]), (np.int64, "INT64", [-(2**63), 7, 2**63 - 1]),
         (np.float16, "FP16", [0.5, -65504.0, 2.0**-24]), (np.float32, "FP32", [0.1, -3e38, 2.5]), (np.float64, "FP64", [0.1, -1e308, 5e-324]), (np.object_, "BYTES", [b"", "ä\n".encode(), b"word"])]
NAMES = {"BOOL": "bool", "BYTES": "string", "FP16": "f16", "FP32": "f32", "FP64": "f64"}


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:400]}")


class Calls:
    """A client whose calls are counted by name."""

    def __init__(self, client):
        self.client, self.used = client, set()

    def __getattr__(self, name):
        self.used.add(name)
        return getattr(self.client, name)


def fails(what, call, status=None):
    try: call()
    except InferenceServerException as e:
        check(len(str(e.message())) > 3 and (status is None or str(e.status()) == status), what, (e.status(), e.message()))
    else: check(False, what + ": it is no error")


def dtype_of(datatype): return NAMES.get(datatype) or datatype.lower().replace("uint", "u").replace("int", "i")


def inputs_of(module, raw=True):
    out = []
    for t, name, values in TYPES:
        x = module.InferInput(f"in_{dtype_of(name)}", [1, 3], name)
        x.set_data_from_numpy(np.array([values], dtype=t), **({} if module is grpc_client else {"binary_data": raw}))
        out.append(x)
    return out


def mlp_input(module, rows):
    x = module.InferInput("x", list(rows.shape), "FP32")
    x.set_data_from_numpy(rows)
    return x


# ---- the table of messages ----
def table():
    """Numbers, names, kinds and repetition of every row."""
    text = open(os.path.join(ROOT, "src/serve/kserve/messages.def")).read()
    rows = re.findall(r"^KS_FIELD\((\w+), (\d+), (\w+), (\d), (\w+), (\w+)\)", text, re.M)
    all_of = {}
    def add(d):
        all_of[d.name] = d
        for n in d.nested_types: add(n)
    for file in (service_pb2, model_config_pb2):
        for d in file.DESCRIPTOR.message_types_by_name.values(): add(d)
    all_of["Named"] = all_of["ModelReadyRequest"]
    for name in ("ModelMetadataRequest", "ModelConfigRequest", "ModelStatisticsRequest"): check([(f.number, f.name) for f in all_of[name].fields] == [(1, "name"), (2, "version")], f"{name} is a Named")
    all_of["TraceSettingValue"] = all_of["TraceSettingRequest"].nested_types_by_name["SettingValue"]
    all_of["LogSettingValue"] = all_of["LogSettingsRequest"].nested_types_by_name["SettingValue"]
    kinds = {"BOOL": {8}, "INT": {3, 4, 5, 13}, "STRING": {9}, "BYTES": {12}, "DOUBLE": {1}, "FLOAT": {2}, "ENUM": {14}, "MESSAGE": {11}, "MAP": {11}}
    bad = []
    for message, number, kind, many, name, sub in rows:
        if message.startswith("HealthCheck"): continue
        f = all_of[message].fields_by_number.get(int(number))
        entry = f is not None and f.type == 11 and f.message_type.GetOptions().map_entry
        repeated = f is not None and (f.is_repeated if hasattr(f, "is_repeated") else f.label == 3)
        if f is None or f.name != name or f.type not in kinds[kind] or entry != (kind == "MAP") or (repeated and not entry) != (many == "1"): bad.append((message, number, name))
    check(len(rows) > 100 and not bad, "messages.def has tritonclient's numbers", bad)
    names = open(os.path.join(ROOT, "src/serve/kserve/message_json.c")).read()
    enums = dict((n, int(v)) for n, v in re.findall(r'{"((?:TYPE|KIND)_\w+)", (\d+)}', names))
    want = {v.name: v.number for e in (model_config_pb2.DESCRIPTOR.enum_types_by_name["DataType"], model_config_pb2.ModelInstanceGroup.DESCRIPTOR.enum_types_by_name["Kind"]) for v in e.values}
    check(all(want.get(n) == v for n, v in enums.items()) and len(enums) == 18, "enumerations have tritonclient's numbers", enums)


# ---- calls that both classes have ----
def common(c, module, plain):
    """What the server and its models say.  plain: an answer as JSON has it."""
    check(c.is_server_live() and c.is_server_ready() and c.is_model_ready("mlp") and c.is_model_ready("mlp", "1") and not c.is_model_ready("none"), "live and ready")
    answers = {"server": plain(c.get_server_metadata()), "model": plain(c.get_model_metadata("mlp")), "config": plain(c.get_model_config("mlp", "1")),
               "index": plain(c.get_model_repository_index()), "log": plain(c.get_log_settings()), "trace": plain(c.get_trace_settings()), "trace of a model": plain(c.get_trace_settings("mlp"))}
    stats = plain(c.get_inference_statistics("mlp"))["model_stats"][0]
    check(stats["name"] == "mlp" and len(plain(c.get_inference_statistics())["model_stats"]) >= 2, "statistics", stats)
    c.update_log_settings({"log_verbose_level": 1})
    check(int(str(settings_of(plain(c.get_log_settings()))["log_verbose_level"])) == 1, "the log's settings", plain(c.get_log_settings()))
    c.update_log_settings({"log_verbose_level": 0})
    c.update_trace_settings("mlp", {"trace_level": ["OFF"]})
    fails("there is no tracing", lambda: c.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}))
    fails("an unknown model", lambda: c.get_model_metadata("none"), "StatusCode.NOT_FOUND" if module is grpc_client else "404")
    c.register_plugin(module.auth.BasicAuth("user", "word"))  # a header more
    check(c.plugin() and c.is_server_live(), "a plugin")
    c.unregister_plugin()
    c.unload_model("two")
    check(not c.is_model_ready("two"), "unload")
    fails("an unloaded model", lambda: c.infer("two", [mlp_input(module, np.ones((1, 4), "f4"))]), "StatusCode.UNAVAILABLE" if module is grpc_client else "503")
    c.load_model("two", config=json.dumps({"max_batch_size": 4}))
    check(c.is_model_ready("two") and int(config_of(plain(c.get_model_config("two")))["max_batch_size"]) == 4, "load with a configuration")
    fails("a model's files", lambda: c.load_model("two", config="{}", files={"file:1/model.onnx": b"\xff"}))
    return answers


def config_of(answer): return answer.get("config", answer)


def settings_of(answer):
    """The settings of an answer by gRPC as REST writes them."""
    return {k: next(iter(v.values())) for k, v in answer["settings"].items()} if "settings" in answer else answer


def infer_bits(c, module, rows):
    """The bytes of every type, of classification, and of rows."""
    request = module.InferRequestedOutput
    result = c.infer("types", inputs_of(module), request_id="a", outputs=None, timeout=10**7, parameters={"some": "text", "flag": True, "n": 3})
    out = [result.as_numpy(f"out_{dtype_of(name)}").tolist() for _, name, _ in TYPES]
    check(out == [np.array([v + v], dtype=t).tolist() for t, _, v in TYPES], "every type", out)
    y = c.infer("mlp", [mlp_input(module, rows)], outputs=[request("y")], model_version="1")
    classes = c.infer("mlp", [mlp_input(module, rows[:1])], outputs=[request("y", class_count=2)]).as_numpy("y")
    packed = [c.infer("mlp", [mlp_input(module, rows)], **{"compression_algorithm" if module is grpc_client else "response_compression_algorithm": None if module is http_client else kind}).as_numpy("y").tobytes() for kind in ("gzip", "deflate")]
    check(packed == [y.as_numpy("y").tobytes()] * 2, "compressed messages have the same bits")
    fails("a wrong shape", lambda: c.infer("mlp", [mlp_input(module, np.ones((1, 5), "f4"))]), "StatusCode.INVALID_ARGUMENT" if module is grpc_client else "400")
    return out, y.as_numpy("y").tobytes(), classes.tolist()


def grpc_alone(c, slow, rows, bits):
    """Calls in the background, streams, times."""
    done = queue.Queue()
    for i in range(20): c.async_infer("mlp", [mlp_input(grpc_client, rows)], lambda result, error: done.put((result, error)), request_id=str(i))
    got = [done.get(timeout=30) for _ in range(20)]
    check(all(e is None and r.as_numpy("y").tobytes() == bits for r, e in got) and {r.get_response().id for r, _ in got} == {str(i) for i in range(20)}, "async_infer")
    slow.async_infer("slow", [mlp_input(grpc_client, rows[:1])], lambda result, error: done.put((result, error))).cancel()
    check(str(done.get(timeout=30)[1].status()) == "StatusCode.CANCELLED", "a call that is cancelled")
    c.start_stream(lambda result, error: done.put((result, error)), compression_algorithm="gzip")
    for i in range(50): c.async_stream_infer("mlp" if i % 7 else "none", [mlp_input(grpc_client, rows)], request_id=str(i), enable_empty_final_response=True)
    c.stop_stream()
    got = [done.get(timeout=30) for _ in range(50)]
    check([e is None for _, e in got] == [i % 7 > 0 for i in range(50)] and all(r.get_response().id == str(i) and r.as_numpy("y").tobytes() == bits for i, (r, e) in enumerate(got) if e is None), "a stream", got[:3])
    check(got[1][0].get_response().parameters["triton_final_response"].bool_param, "an answer says that it is the last of its request")
    c.start_stream(lambda result, error: done.put((result, error)), stream_timeout=60)
    c.async_stream_infer("mlp", [mlp_input(grpc_client, rows)])
    check(done.get(timeout=30)[1] is None, "a stream that waits")
    c.stop_stream(cancel_requests=True)
    fails("a time that is over", lambda: slow.infer("slow", [mlp_input(grpc_client, rows[:1])], client_timeout=0.05), "StatusCode.DEADLINE_EXCEEDED")


def http_alone(c, rows, bits):
    got = [c.async_infer("mlp", [mlp_input(http_client, rows)]) for _ in range(5)]
    check(all(r.get_result().as_numpy("y").tobytes() == bits for r in got), "async_infer")
    body, header = http_client.InferenceServerClient.generate_request_body([mlp_input(http_client, rows)])
    check(len(body) > header > 0, "a request's body")
    c.generate_request_body([mlp_input(http_client, rows)])
    c.parse_response_body(json.dumps({"outputs": []}).encode())


async def asynchronous(port, rows, bits):
    async with aio_client.InferenceServerClient(f"127.0.0.1:{port}") as c:
        check(await c.is_server_live() and await c.is_model_ready("mlp"), "asyncio: live")
        results = await asyncio.gather(*(c.infer("mlp", [mlp_input(grpc_client, rows)]) for _ in range(20)))
        check(all(r.as_numpy("y").tobytes() == bits for r in results), "asyncio: infer")

        async def requests():
            for i in range(10): yield {"model_name": "mlp", "inputs": [mlp_input(grpc_client, rows)], "request_id": str(i)}

        got = [r async for r in c.stream_infer(requests())]
        check([r.get_response().id for r, e in got] == [str(i) for i in range(10)] and all(e is None for _, e in got), "asyncio: a stream")


def all_used(c, module):
    have = {n for n, v in inspect.getmembers(module.InferenceServerClient, callable) if not n.startswith("_")} - SHARED
    check(have <= c.used | {"close"}, f"every call of {module.__name__}", sorted(have - c.used))


def main():
    folder = tempfile.mkdtemp(prefix="triton_test")
    names = [dtype_of(n) for _, n, _ in TYPES]
    with open(os.path.join(folder, "types.tir"), "w") as f:
        f.write('graph @"types"(' + ", ".join(f"%in_{t}: {t}[n, 3]" for t in names) + ") -> (" + ", ".join(f"out_{t}: {t}[n, 6]" for t in names) + ") {\n")
        f.write("".join(f"  %o{i} = concat(%in_{t}, %in_{t}) axis=1\n" for i, t in enumerate(names)) + "  return " + ", ".join(f"%o{i}" for i in range(len(names))) + "\n}\n")
    mlp = os.path.join(ROOT, "tests", "models", "mlp.onnx")
    table()

    def serve(*options):
        p = subprocess.Popen([sys.argv[1], "serve", "--port", "0", "--grpc-port", "0", *options], stderr=subprocess.PIPE, text=True)
        atexit.register(p.kill)
        line = p.stderr.readline()
        threading.Thread(target=lambda: p.stderr.read(), daemon=True).start()
        return p, re.search(r'"port":(\d+)', line), re.search(r'"grpc_port":(\d+)', line)

    p, port, grpc_port = serve(mlp, f"two={mlp}", os.path.join(folder, "types.tir"))
    if not port or not grpc_port:
        print("SKIP tenon-serve was built without gRPC\n0 passed, 0 failed")
        return 0
    late, _, late_port = serve(f"slow={mlp}", "--max-batch", "64", "--batch-delay", "5000000")
    h = Calls(http_client.InferenceServerClient(f"127.0.0.1:{port[1]}", concurrency=4))
    g = Calls(grpc_client.InferenceServerClient(f"127.0.0.1:{grpc_port[1]}"))
    while not (h.is_server_ready() and g.is_server_ready()): pass
    plain = lambda m: MessageToDict(m, preserving_proto_field_name=True)
    by_http, by_grpc = common(h, http_client, lambda a: a), common(g, grpc_client, plain)
    as_json = g.get_model_metadata("mlp", as_json=True)
    check(as_json["platform"] == by_http["model"]["platform"] and by_grpc["server"] == by_http["server"], "metadata are the same", (by_grpc, by_http))
    check([(t["name"], t["datatype"], [int(n) for n in t["shape"]]) for t in by_grpc["model"]["inputs"]] == [(t["name"], t["datatype"], t["shape"]) for t in by_http["model"]["inputs"]], "inputs are the same")
    check([i["data_type"] for i in config_of(by_grpc["config"])["input"]] == [i["data_type"] for i in by_http["config"]["input"]], "configurations are the same")
    check({m["name"] for m in by_grpc["index"]["models"]} == {m["name"] for m in by_http["index"]}, "indexes are the same")
    rows = np.random.default_rng(5).standard_normal((300, 4)).astype("f4")
    http_bits, grpc_bits = infer_bits(h, http_client, rows), infer_bits(g, grpc_client, rows)
    check(http_bits == grpc_bits, "HTTP and gRPC give the same bits")
    slow = Calls(grpc_client.InferenceServerClient(f"127.0.0.1:{late_port[1]}"))
    while not slow.is_server_ready(): pass
    grpc_alone(g, slow, rows, grpc_bits[1])
    http_alone(h, rows, http_bits[1])
    asyncio.run(asynchronous(grpc_port[1], rows, grpc_bits[1]))
    check(not g.get_system_shared_memory_status().regions and g.unregister_system_shared_memory() is None and g.unregister_cuda_shared_memory() is None, "there is no shared memory")
    fails("and none can be registered", lambda: g.register_system_shared_memory("r", "/r", 16), "StatusCode.UNIMPLEMENTED")
    for c, module in ((h, http_client), (g, grpc_client)):
        all_used(c, module)
        c.close()
    slow.close()
    for process in (p, late):
        process.send_signal(signal.SIGTERM)
        check(process.wait(30) == 0, "it ends with status 0")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
