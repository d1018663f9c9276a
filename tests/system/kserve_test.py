#!/usr/bin/env python3
"""kserve_test.py TENON -- `tenon serve` as KServe's clients see it: REST, gRPC, batching, several models, engines that die.

Needs nothing but the standard library; tests/system/triton_test.py runs tritonclient.  The last line is `N passed, N failed`.
"""
import atexit, http.client, json, os, random, re, shutil, signal, struct, subprocess, sys, tempfile, threading, time

from grpc_client import Client, entry, every, field, fields, first, numbers, packed

TENON = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODELS = os.path.join(ROOT, "tests", "models")
FOLDER = tempfile.mkdtemp(prefix="kserve_test")
passed, failed, lock = 0, 0, threading.Lock()

# dtype of a model, its name, struct's letter (f16 as its bits), three values
TYPES = [("bool", "BOOL", "?", [True, False, True]), ("u8", "UINT8", "B", [0, 7, 255]), ("u16", "UINT16", "H", [0, 7, 65535]), ("u32", "UINT32", "I", [0, 7, 2**32 - 1]),
         ("u64", "UINT64", "Q", [0, 2**53 + 1, 2**64 - 1]), ("i8", "INT8", "b", [-128, 7, 127]), ("i16", "INT16", "h", [-32768, 7, 32767]), ("i32", "INT32", "i", [-(2**31), 7, 2**31 - 1]),
         ("i64", "INT64", "q", [-(2**63), 7, 2**63 - 1]), ("f16", "FP16", "e", [0.5, -65504.0, 2.0**-24]), ("f32", "FP32", "f", [0.1, -3.0e38, 2.5]), ("f64", "FP64", "d", [0.1, -1e308, 5e-324]),
         ("bf16", "BF16", None, [0.5, -1.0, 2.0**100]), ("string", "BYTES", None, ["", "ä\n\"\\", "word"])]


def check(ok, what, seen=""):
    global passed, failed
    with lock:
        if ok: passed += 1
        else:
            failed += 1
            print(f"FAIL {what}\n  {str(seen)[:500]}")


def write(name, text):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f: f.write(text)
    return path


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([TENON, "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        line = self.process.stderr.readline()
        self.port = int(re.search(r'"port":(\d+)', line)[1])
        self.grpc_port = int((re.search(r'"grpc_port":(\d+)', line) or [0, 0])[1])
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.local = threading.local()

    def ask(self, method, path, body=None, headers={}):
        """(status, headers, body) on the thread's own connection."""
        if not hasattr(self.local, "c"): self.local.c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if isinstance(body, (dict, list)): body = json.dumps(body)
        self.local.c.request(method, path, body, headers)
        r = self.local.c.getresponse()
        return r.status, r.headers, r.read()

    def json(self, method, path, body=None):
        status, _, text = self.ask(method, path, body)
        return status, json.loads(text) if text else None

    def ready(self, seconds=60):
        end = time.time() + seconds
        while time.time() < end and self.ask("GET", "/v2/health/ready")[0] != 200: time.sleep(0.02)
        return self.ask("GET", "/v2/health/ready")[0] == 200

    def engines(self, model=""):
        """Process ids of the engines, by their parent and command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                parent = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
                line = open(f"/proc/{pid}/cmdline").read()
            except (OSError, IndexError): continue
            if parent == self.process.pid and "--engine=model" in line and model in line: found.append(int(pid))
        return found

    def infer(self, model, rows, **more):
        """The rows of the mlp model."""
        status, answer = self.json("POST", f"/v2/models/{model}/infer", mlp_request(rows, **more))
        if status != 200: return status, answer
        out = answer["outputs"][0]
        n = out["shape"][1]
        return status, [out["data"][i * n : (i + 1) * n] for i in range(out["shape"][0])]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(30) == 0, "the server ends with status 0")


def mlp_request(rows, **more):
    return {"inputs": [{"name": "x", "shape": [len(rows), 4], "datatype": "FP32", "data": [v for row in rows for v in row]}], **more}


def raw_bytes(letter, name, values):
    if name == "BYTES": return b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)
    if name == "BF16": return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}{letter}", *values)


# ---- element types, JSON and bytes ----
def types(server):
    for binary_in in (False, True):
        for binary_out in (False, True):
            inputs, behind = [], b""
            for text, name, letter, values in TYPES:
                tensor = {"name": f"in_{text}", "shape": [1, 3], "datatype": name}
                if binary_in:
                    data = raw_bytes(letter, name, values)
                    tensor["parameters"] = {"binary_data_size": len(data)}
                    behind += data
                else: tensor["data"] = [values] if text in ("f32", "string") else values  # nested, or flat
                inputs.append(tensor)
            head = json.dumps({"id": "so", "inputs": inputs, "parameters": {"binary_data_output": binary_out}}).encode()
            status, headers, body = server.ask("POST", "/v2/models/types/infer", head + behind, {"Inference-Header-Content-Length": str(len(head))} if binary_in else {})
            what = f"types, binary in {binary_in}, out {binary_out}"
            check(status == 200, what, body)
            if status != 200: continue
            n = int(headers["Inference-Header-Content-Length"]) if binary_out else len(body)
            answer, at = json.loads(body[:n]), n
            check(answer["model_name"] == "types" and answer["model_version"] == "1" and answer["id"] == "so", what + ": names", answer)
            for (text, name, letter, values), out in zip(TYPES, answer["outputs"]):
                check((out["datatype"], out["shape"]) == (name, [1, 6]), f"{what}: {name}", out)
                want = raw_bytes(letter, name, values * 2)
                if binary_out:
                    size = out["parameters"]["binary_data_size"]
                    check(body[at : at + size] == want, f"{what}: the bytes of {name}", body[at : at + size])
                    at += size
                else: check(raw_bytes(letter, name, out["data"]) == want, f"{what}: the values of {name}", out["data"])
            check(not binary_out or at == len(body), what + ": nothing behind")


# ---- what is refused ----
def refusals(server):
    good = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    def tensor(**change): return {"inputs": [{k: v for k, v in {**good, **change}.items() if v is not None}]}
    cases = [("no JSON", b"{", 400), ("no object", b"[]", 400), ("nothing", b"", 400), ("no inputs", {}, 400), ("inputs of another kind", {"inputs": {}}, 400),
             ("no name", tensor(name=None), 400), ("a wrong name", tensor(name="y"), 400), ("twice", {"inputs": [good, good]}, 400), ("none", {"inputs": []}, 400),
             ("no datatype", tensor(datatype=None), 400), ("an unknown datatype", tensor(datatype="FP33"), 400), ("another datatype", tensor(datatype="INT32"), 400),
             ("no shape", tensor(shape=None), 400), ("a wrong shape", tensor(shape=[4, 1]), 400), ("a wrong rank", tensor(shape=[4]), 400), ("17 sizes", tensor(shape=[1] * 17), 400),
             ("a negative size", tensor(shape=[-1, 4]), 400), ("a size that overflows", tensor(shape=[2**62, 4]), 400), ("sizes that overflow", tensor(shape=[2**32, 2**32, 4]), 400),
             ("a size with a fraction", tensor(shape=[1.5, 4]), 400), ("too few elements", tensor(data=[1, 2, 3]), 400), ("too many elements", tensor(data=[1, 2, 3, 4, 5]), 400),
             ("no data", tensor(data=None), 400), ("data of another kind", tensor(data=7), 400), ("text in data", tensor(data=[1, 2, 3, "4"]), 400), ("null in data", tensor(data=[1, 2, 3, None]), 400),
             ("an object in data", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,{},4]}]}', 400), ("a bad number", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,03,4]}]}', 400),
             ("a missing comma", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1 2,3,4]}]}', 400), ("a number out of range", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,1e40]}]}', 400),
             ("an open array", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4', 400), ("deep data", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":' + b"[" * 100000, 400),
             ("deep JSON", b'{"a":' * 100000, 400), ("data twice", b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4],"data":[1,2,3,4]}]}', 400),
             ("bytes that are not there", tensor(data=None, parameters={"binary_data_size": 16}), 400), ("negative bytes", tensor(data=None, parameters={"binary_data_size": -16}), 400),
             ("shared memory", tensor(data=None, parameters={"shared_memory_region": "r", "shared_memory_byte_size": 16}), 400), ("UTF-8", b'{"id":"\xff"}', 400),
             ("an unknown output", {"inputs": [good], "outputs": [{"name": "z"}]}, 400), ("an output twice", {"inputs": [good], "outputs": [{"name": "y"}] * 2}, 400),
             ("outputs of another kind", {"inputs": [good], "outputs": 7}, 400), ("an id of another kind", {"inputs": [good], "id": 7}, 400), ("a bad timeout", {"inputs": [good], "parameters": {"timeout": "x"}}, 400),
             ("10,000 inputs", {"inputs": [good] * 10000}, 400), ("all is well", {"inputs": [good], "outputs": [{"name": "y"}]}, 200)]
    for what, body, want in cases:
        status, _, text = server.ask("POST", "/v2/models/mlp/infer", body)
        check(status == want and (want == 200 or len(json.loads(text)["error"]) > 5), f"{what}: {want}", (status, text))
    for size in ("-1", "x", "99999999999", "7"):
        status, _, text = server.ask("POST", "/v2/models/mlp/infer", json.dumps({"inputs": [good]}), {"Inference-Header-Content-Length": size})
        check(status == 400, f"Inference-Header-Content-Length {size}", (status, text))
    for method, path, want in (("GET", "/v2/models/none", 404), ("GET", "/v2/models/mlp/versions/9", 404), ("POST", "/v2/models/none/infer", 404), ("GET", "/v2/models/none/ready", 404),
                               ("POST", "/v2/repository/models/none/load", 404), ("POST", "/v2/repository/models/none/unload", 404), ("GET", "/v2/models/..%2fx", 404), ("GET", "/v2/models/mlp/infer", 405)):
        status, _, text = server.ask(method, path, b"{}" if method == "POST" else None)
        check(status == want, f"{method} {path}: {want}", (status, text))
    big = b'{"inputs":[{"name":"in_string","shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":12}}]}'
    status, _, text = server.ask("POST", "/v2/models/types/infer", big + struct.pack("<III", 0xFFFFFFFF, 0, 0), {"Inference-Header-Content-Length": str(len(big))})
    check(status == 400 and b"BYTES" in text, "a length of BYTES beyond its bytes", text)


def metadata(server):
    check(server.json("GET", "/v2")[1]["name"] == "tenon", "server metadata")
    status, answer = server.json("GET", "/v2/models/mlp")
    check(answer == {"name": "mlp", "versions": ["1"], "platform": "tenon_cpu", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}], "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]}, "model metadata", answer)
    check(server.ask("GET", "/v2/models/mlp/versions/1/ready")[0] == 200, "a version is ready")
    check(server.json("GET", "/v2/models/mlp/config")[1]["max_batch_size"] == 64, "the configuration has the batch size")
    check({m["name"]: m["state"] for m in server.json("POST", "/v2/repository/index", {})[1]}["mlp"] == "READY", "the index")
    status, answer = server.json("POST", "/v2/models/mlp/infer", {**mlp_request([[1, 2, 3, 4]]), "outputs": [{"name": "y", "parameters": {"classification": 2, "binary_data": False}}]})
    check(status == 200 and answer["outputs"][0]["datatype"] == "BYTES" and len(answer["outputs"][0]["data"]) == 2, "classification", answer)
    check(server.json("POST", "/v2/logging", {"log_info": False})[1]["log_info"] is False and server.json("POST", "/v2/logging", {"log_info": True})[1]["log_info"] is True, "the log's settings")


# ---- batching ----
def batching(server, alone):
    """Many requests at once give the bits of each alone, in fewer runs."""
    draw = random.Random(7)
    cases = [[[draw.uniform(-9, 9) for _ in range(4)] for _ in range(draw.choice((1, 1, 2, 3, 5, 70)))] for _ in range(300)]
    want = [alone.infer("mlp", rows) for rows in cases]
    before = server.json("GET", "/v2/models/mlp/stats")[1]["model_stats"][0]
    got, next_one = [None] * len(cases), iter(range(len(cases)))

    def client():
        while True:
            with lock: i = next(next_one, None)
            if i is None: return
            got[i] = server.infer("mlp", cases[i])

    threads = [threading.Thread(target=client) for _ in range(24)]
    for t in threads: t.start()
    for t in threads: t.join()
    check(all(w[0] == 200 for w in want) and got == want, "the bits of a request alone", [i for i in range(len(cases)) if got[i] != want[i]][:5])
    after = server.json("GET", "/v2/models/mlp/stats")[1]["model_stats"][0]
    runs, rows = after["execution_count"] - before["execution_count"], after["inference_count"] - before["inference_count"]
    check(rows == sum(len(c) for c in cases) and runs < len(cases), "rows are counted, runs are fewer", (runs, rows))
    # A request that fails in a batch fails alone.
    seen, together = [], threading.Barrier(8)

    def pick(i):
        together.wait()
        status, answer = server.json("POST", "/v2/models/pick/infer", {"inputs": [{"name": "i", "shape": [1], "datatype": "INT64", "data": [i if i < 7 else 4000]}]})
        with lock: seen.append((i, status, answer["outputs"][0]["data"] if status == 200 else answer))

    for _ in range(20):
        threads = [threading.Thread(target=pick, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
    check(len(seen) == 160 and all((status, data) == (200, [i + 0.5]) if i < 7 else status == 400 for i, status, data in seen), "an index out of range is an error of its own request", [s for s in seen if s[1] != 200][:3])
    stats = server.json("GET", "/v2/models/pick/stats")[1]["model_stats"][0]
    check(stats["inference_count"] == 140 and stats["inference_stats"]["fail"]["count"] == 20, "the others are counted once", stats)
    # Rows that depend on one another must not run together.
    status, answer = server.json("POST", "/v2/models/rows/infer", mlp_request([[0, 0, 0, 0], [0, 0, 0, 0]]))
    check(status == 200 and answer["outputs"][0]["data"] == [0.5] * 8, "a softmax over the rows runs alone", answer)
    check(server.json("GET", "/v2/models/rows/config")[1]["max_batch_size"] == 0 and any("depend" in line for line in server.log), "and the log says so", server.log)


def death(server):
    """An engine that is killed fails its own requests alone, and is started again."""
    seen, stop = {}, threading.Event()

    def client():
        while not stop.is_set():
            status = server.infer("mlp", [[1, 2, 3, 4]])[0]
            with lock: seen[status] = seen.get(status, 0) + 1

    threads = [threading.Thread(target=client) for _ in range(4)]
    for t in threads: t.start()
    for _ in range(3):
        time.sleep(0.3)
        for pid in server.engines("mlp"): os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    stop.set()
    for t in threads: t.join()
    check(set(seen) <= {200, 503} and seen.get(200, 0) > 50 and seen.get(503, 0) <= 20, "200, and 503 for those it had", seen)
    check(server.ready() and server.infer("mlp", [[1, 2, 3, 4]])[0] == 200, "it is started again")


def load_unload(server):
    check(server.ask("POST", "/v2/repository/models/mlp/unload")[0] == 200, "unload")
    check(server.ask("GET", "/v2/models/mlp/ready")[0] == 503 and server.infer("mlp", [[1, 2, 3, 4]])[0] == 503, "an unloaded model answers nothing")
    check(not server.engines("mlp"), "and has no engine", server.engines("mlp"))
    check(server.ask("POST", "/v2/repository/models/mlp/load", {"parameters": {"config": json.dumps({"max_batch_size": 4, "instance_group": [{"count": 2}]})}})[0] == 200, "load with a configuration")
    check(len(server.engines("mlp")) == 2 and server.json("GET", "/v2/models/mlp/config")[1]["max_batch_size"] == 4, "it has two instances", server.engines())
    status, answer = server.json("POST", "/v2/repository/models/mlp/load", {"parameters": {"config": '{"max_batch_size": -1}'}})
    check(status == 400 and "max_batch_size" in answer["error"], "a bad configuration", answer)
    check(server.ask("POST", "/v2/repository/models/bad/load")[0] == 400, "a file that is no model cannot be loaded")
    status, answer = server.infer("bad", [[1, 2, 3, 4]])
    check(status == 503 and "bad" in answer["error"], "and says why", answer)


# ---- gRPC ----
SERVICE = "/inference.GRPCInferenceService/"
OK, CANCELLED, INVALID, LATE, NOT_FOUND, EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = 0, 1, 3, 4, 5, 8, 12, 14, 16
# Field of InferTensorContents of a type; 0: raw bytes alone.
CONTENTS = {"BOOL": 1, "INT8": 2, "INT16": 2, "INT32": 2, "INT64": 3, "UINT8": 4, "UINT16": 4, "UINT32": 4, "UINT64": 5, "FP32": 6, "FP64": 7, "BYTES": 8, "FP16": 0, "BF16": 0}


def has_grpc():
    p = subprocess.run([TENON, "serve", "--port", "0", "--grpc-port", "0", "none"], capture_output=True, text=True)
    return "without gRPC" not in p.stderr


def contents_of(name, values, one_by_one):
    number = CONTENTS[name]
    if name == "BYTES": return b"".join(field(8, v.encode()) for v in values)
    if number >= 6:
        letter = "f" if number == 6 else "d"
        if not one_by_one: return field(number, struct.pack(f"<{len(values)}{letter}", *values))
        return b"".join(bytes([number << 3 | (5 if number == 6 else 1)]) + struct.pack("<" + letter, v) for v in values)
    return b"".join(field(number, v) for v in values) if one_by_one else packed(number, values)


def grpc_input(name, datatype, shape, contents=None, parameters=b""):
    tensor = field(1, name) + field(2, datatype) + packed(3, shape) + parameters
    return field(5, tensor + (field(5, contents) if contents is not None else b""))


def grpc_request(model, rows, more=b"", raw=True):
    data = struct.pack(f"<{4 * len(rows)}f", *[v for row in rows for v in row])
    head = field(1, model) + more + grpc_input("x", "FP32", [len(rows), 4], None if raw else field(6, data))
    return head + (field(7, data) if raw else b"")


def grpc_types(server, c):
    """The bytes of every type are REST's, by raw and by typed contents."""
    inputs = [{"name": f"in_{t}", "shape": [1, 3], "datatype": n, "data": v} for t, n, _, v in TYPES]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}})
    _, headers, body = server.ask("POST", "/v2/models/types/infer", head)
    rest = body[int(headers["Inference-Header-Content-Length"]) :]
    raw = b"".join(field(7, raw_bytes(letter, name, values)) for _, name, letter, values in TYPES)
    plain = b"".join(grpc_input(f"in_{t}", name, [1, 3]) for t, name, _, _ in TYPES)
    for coding in (None, "gzip"):
        status, why, answers, _ = c.call(SERVICE + "ModelInfer", field(1, "types") + field(3, "so") + plain + raw, coding)
        check(status == OK and len(answers) == 1, f"gRPC: every type, coding {coding}", (status, why))
        check(b"".join(every(answers[0], 6)) == rest, "gRPC: the bytes are REST's")
        check((first(answers[0], 1), first(answers[0], 2), first(answers[0], 3)) == (b"types", b"1", b"so"), "gRPC: names", answers[0][:40])
        check([(first(o, 1).decode(), first(o, 2).decode(), numbers(first(o, 3))) for o in every(answers[0], 5)] == [(f"out_{t}", n, [1, 6]) for t, n, _, _ in TYPES], "gRPC: outputs")
    for one_by_one in (False, True):  # FP16 and BF16 have no contents of their own: the message is refused
        typed = b"".join(grpc_input(f"in_{t}", name, [1, 3], contents_of(name, values, one_by_one) if CONTENTS[name] else b"") for t, name, _, values in TYPES)
        status, why, _, _ = c.call(SERVICE + "ModelInfer", field(1, "types") + typed)
        check(status == INVALID and "raw_input_contents" in why, "gRPC: typed contents of FP16", (status, why))
        for t, name, letter, values in TYPES:
            if not CONTENTS[name]: continue
            status, why, answers, _ = c.call(SERVICE + "ModelInfer", field(1, "one_" + t) + grpc_input("x", name, [1, 3], contents_of(name, values, one_by_one)))
            check(status == OK and first(answers[0], 6) == raw_bytes(letter, name, values * 2), f"gRPC: contents of {name}", (status, why))


def grpc_refusals(c):
    x = struct.pack("<4f", 1, 2, 3, 4)
    good, raw = grpc_input("x", "FP32", [1, 4]), field(7, x)
    mlp = field(1, "mlp")
    def parameter(key, number, value): return entry(4, key, field(number, value))
    cases = [("no model", good + raw, NOT_FOUND), ("another model", field(1, "none") + good + raw, NOT_FOUND), ("a version that is not there", mlp + field(2, "9") + good + raw, NOT_FOUND),
             ("no bytes", mlp + good, INVALID), ("bytes twice", mlp + good + raw + raw, INVALID), ("too few bytes", mlp + good + field(7, x[:15]), INVALID), ("no inputs", mlp, INVALID),
             ("an input twice", mlp + good + good + raw + raw, INVALID), ("a wrong name", mlp + grpc_input("y", "FP32", [1, 4]) + raw, INVALID), ("no name", mlp + grpc_input("", "FP32", [1, 4]) + raw, INVALID),
             ("another datatype", mlp + grpc_input("x", "INT32", [1, 4]) + raw, INVALID), ("an unknown datatype", mlp + grpc_input("x", "FP33", [1, 4]) + raw, INVALID),
             ("a wrong shape", mlp + grpc_input("x", "FP32", [4, 1]) + raw, INVALID), ("17 sizes", mlp + grpc_input("x", "FP32", [1] * 17) + raw, INVALID), ("a negative size", mlp + grpc_input("x", "FP32", [-1, 4]) + raw, INVALID),
             ("sizes that overflow", mlp + grpc_input("x", "FP32", [2**32, 2**32, 4]) + raw, INVALID), ("contents and bytes", mlp + grpc_input("x", "FP32", [1, 4], field(6, x)) + raw, INVALID),
             ("contents of another type", mlp + grpc_input("x", "FP32", [1, 4], field(7, x)), INVALID), ("too few contents", mlp + grpc_input("x", "FP32", [1, 4], field(6, x[:12])), INVALID),
             ("contents twice", mlp + field(5, field(1, "x") + field(2, "FP32") + packed(3, [1, 4]) + field(5, field(6, x)) + field(5, field(6, x))), INVALID),
             ("shared memory", mlp + grpc_input("x", "FP32", [1, 4], None, entry(4, "shared_memory_region", field(3, "r"))), INVALID), ("an unknown output", mlp + good + field(6, field(1, "z")) + raw, INVALID),
             ("an output twice", mlp + good + field(6, field(1, "y")) * 2 + raw, INVALID), ("a bad classification", mlp + good + field(6, field(1, "y") + entry(2, "classification", field(2, -1))) + raw, INVALID),
             ("a bad timeout", mlp + parameter("timeout", 3, "x") + good + raw, INVALID), ("300 parameters", mlp + b"".join(parameter(f"p{i}", 1, 1) for i in range(300)) + good + raw, INVALID),
             ("2,000 inputs", mlp + good * 2000 + raw, INVALID), ("no protobuf", b"\xff" * 30, INVALID), ("a cut field", mlp + b"\x2a\x7f", INVALID), ("a name of bytes", b"\x0a\x02\xff\xfe" + good + raw, INVALID),
             ("all is well", mlp + parameter("timeout", 2, 10**7) + parameter("priority", 5, 7) + good + field(6, field(1, "y")) + field(99, "unknown") + raw, OK)]
    for what, body, want in cases:
        status, why, answers, _ = c.call(SERVICE + "ModelInfer", body)
        check(status == want and (why if want else answers), f"gRPC: {what}: {want}", (status, why))
    for number, values in ((2, [128]), (2, [-129]), (4, [256]), (1, [2])):
        name = {1: "bool", 2: "i8", 4: "u8"}[number]
        datatype = {1: "BOOL", 2: "INT8", 4: "UINT8"}[number]
        status, why, _, _ = c.call(SERVICE + "ModelInfer", field(1, "one_" + name) + grpc_input("x", datatype, [1, 3], packed(number, values + [0, 0])))
        check(status == INVALID and "range" in why, f"gRPC: {values[0]} is no {datatype}", (status, why))
    for method, body, want in (("ModelMetadata", field(1, "none"), NOT_FOUND), ("ModelConfig", field(1, "mlp") + field(2, "9"), NOT_FOUND), ("ModelStatistics", field(1, "none"), NOT_FOUND),
                               ("RepositoryModelLoad", field(2, "none"), NOT_FOUND), ("RepositoryModelUnload", field(2, "none"), NOT_FOUND), ("ModelMetadata", b"\x0a\x05x", INVALID), ("Nothing", b"", UNIMPLEMENTED),
                               ("RepositoryModelLoad", field(2, "mlp") + entry(3, "file:1/model.onnx", field(4, b"\xff")), INVALID), ("LogSettings", entry(1, "log_file", field(3, "/tmp/x")), INVALID),
                               ("TraceSetting", entry(1, "trace_level", field(1, "TIMESTAMPS")), INVALID), ("SystemSharedMemoryRegister", field(1, "r"), UNIMPLEMENTED), ("CudaSharedMemoryRegister", b"", UNIMPLEMENTED)):
        status, why, _, _ = c.call(SERVICE + method, body)
        check(status == want and why, f"gRPC: {method}: {want}", (status, why))


def grpc_metadata(server, c):
    """What REST says in JSON is in the messages."""
    def ask(method, body=b""):
        status, why, answers, _ = c.call(SERVICE + method, body)
        check(status == OK and len(answers) == 1, f"gRPC: {method}", (status, why))
        return answers[0] if answers else b""
    check(ask("ServerLive") == field(1, 1) and ask("ServerReady") == field(1, 1) and ask("ModelReady", field(1, "mlp") + field(2, "1")) == field(1, 1), "gRPC: live and ready")
    check(ask("ModelReady", field(1, "none")) == b"", "gRPC: a model that is not there is not ready")
    rest = server.json("GET", "/v2")[1]
    check([v.decode() for _, v in fields(ask("ServerMetadata"))] == [rest["name"], rest["version"], *rest["extensions"]], "gRPC: server metadata")
    rest, answer = server.json("GET", "/v2/models/mlp")[1], ask("ModelMetadata", field(1, "mlp"))
    check((first(answer, 1).decode(), [v.decode() for v in every(answer, 2)], first(answer, 3).decode()) == (rest["name"], rest["versions"], rest["platform"]), "gRPC: model metadata", answer)
    for number, key in ((4, "inputs"), (5, "outputs")):
        seen = [{"name": first(t, 1).decode(), "datatype": first(t, 2).decode(), "shape": [n - 2**64 if n >> 63 else n for n in every(t, 3)]} for t in every(answer, number)]
        check(seen == rest[key], f"gRPC: {key}", seen)
    config = first(ask("ModelConfig", field(1, "mlp")), 1)
    check(first(config, 4) == 64 and first(first(config, 5), 2) == 11 and first(first(config, 11), 2) == 2000, "gRPC: the configuration", config)
    stats = [first(m, 1) for m in every(ask("ModelStatistics"), 1)]
    check({b"mlp", b"types"} <= set(stats), "gRPC: statistics of all models", stats)
    check([first(m, 1) for m in every(ask("ModelStatistics", field(1, "mlp")), 1)] == [b"mlp"], "gRPC: statistics of one")
    index = {first(m, 1): first(m, 3) for m in every(ask("RepositoryIndex", field(2, 1)), 1)}
    check(index[b"mlp"] == b"READY", "gRPC: the index", index)
    for value in (0, 1):
        settings = {first(e, 1): first(e, 2) for e in every(ask("LogSettings", entry(1, "log_info", field(1, value))), 1)}
        check(settings[b"log_info"] == field(1, value), "gRPC: the log's settings", settings)
    settings = {first(e, 1): first(e, 2) for e in every(ask("TraceSetting", entry(1, "trace_rate", b"")), 1)}
    check(settings[b"trace_level"] == field(1, "OFF"), "gRPC: there is no tracing", settings)
    check(ask("SystemSharedMemoryStatus") == b"" and ask("CudaSharedMemoryUnregister") == b"", "gRPC: no shared memory")
    check(c.call("/grpc.health.v1.Health/Check")[2] == [field(1, 1)] and c.call("/grpc.health.v1.Health/Check", field(1, "none"))[0] == NOT_FOUND, "gRPC: the health service")
    want = server.json("POST", "/v2/models/mlp/infer", {**mlp_request([[1, 2, 3, 4]]), "outputs": [{"name": "y", "parameters": {"classification": 2}}]})[1]["outputs"][0]
    answer = ask("ModelInfer", grpc_request("mlp", [[1, 2, 3, 4]], field(6, field(1, "y") + entry(2, "classification", field(2, 2)))))
    check(first(answer, 6) == raw_bytes(None, "BYTES", want["data"]) and first(first(answer, 5), 2) == b"BYTES", "gRPC: classification", answer)


def grpc_floats(answer): return [v for (v,) in struct.iter_unpack("<f", first(answer, 6))]


def grpc_streams(server, c):
    """Answers come in order, a failure ends no stream, and sizes beyond every window pass."""
    s = c.stream(SERVICE + "ModelStreamInfer")
    draw, want = random.Random(3), []
    for i in range(60):
        rows = [[draw.uniform(-9, 9) for _ in range(4)] for _ in range(draw.choice((1, 2, 70)))]
        model = "none" if i % 9 == 4 else "mlp"
        s.send(grpc_request(model, rows, field(3, str(i)), i % 2 == 0))
        want.append([v for row in server.infer("mlp", rows)[1] for v in row] if model == "mlp" else None)
    s.end()
    got = s.answers()
    check(s.status()[0] == OK and len(got) == 60, "gRPC: a stream", (s.status(), len(got)))
    check([int(first(first(m, 2), 3)) for m in got] == list(range(60)), "gRPC: answers in order")
    same = [("none" in first(m, 1).decode() if w is None else not first(m, 1) and [json.loads(json.dumps(v)) for v in grpc_floats(first(m, 2))] == [struct.unpack("<f", struct.pack("<f", v))[0] for v in w]) for m, w in zip(got, want)]
    check(all(same), "gRPC: the bits of REST, and the reason of a failure", same)
    rows = 200000
    data = b"".join(struct.pack("<4f", i, 1, 2, 3) for i in range(rows))
    body = field(1, "mlp") + grpc_input("x", "FP32", [rows, 4]) + field(7, data)
    small = Client(server.port, window=65535)
    a = small.stream(SERVICE + "ModelInfer")
    a.send(body, end=True)
    while not a.over and small.read():  # a window that opens a little at a time
        if len(a.data) and not a.over: small.write(b"".join(b"\0\0\4\x08\0" + struct.pack(">II", n, 40000) for n in (0, a.number)))
    head = b'{"inputs":[{"name":"x","shape":[%d,4],"datatype":"FP32","parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}' % (rows, len(data))
    _, headers, rest = server.ask("POST", "/v2/models/mlp/infer", head + data, {"Inference-Header-Content-Length": str(len(head))})
    check(a.status()[0] == OK and first(a.messages()[0], 6) == rest[int(headers["Inference-Header-Content-Length"]) :], "gRPC: a message of megabytes", a.status())
    small.close()


def grpc_many(server):
    """Calls of many clients run together, and each has the bits of REST."""
    draw, bad = random.Random(11), []
    cases = [[[draw.uniform(-9, 9) for _ in range(4)] for _ in range(draw.choice((1, 2, 5)))] for _ in range(16)]
    want = [server.infer("mlp", rows)[1] for rows in cases]
    def client(seed):
        c, order = Client(server.port), random.Random(seed)
        for _ in range(5):  # several calls of a connection at a time
            calls = [(i, c.stream(SERVICE + "ModelInfer")) for i in order.choices(range(16), k=4)]
            for i, s in calls: s.send(grpc_request("mlp", cases[i]), end=True)
            for i, s in calls:
                answers = s.answers()
                if s.status()[0] != OK or grpc_floats(answers[0]) != [struct.unpack("<f", struct.pack("<f", v))[0] for row in want[i] for v in row]: bad.append((i, s.status()))
        c.close()
    threads = [threading.Thread(target=client, args=(i,)) for i in range(12)]
    for t in threads: t.start()
    for t in threads: t.join()
    check(not bad, "gRPC: the bits of many clients", bad[:3])


def grpc_ends():
    """Keys, times, cancelled calls, and what was accepted when the server shuts down."""
    mlp = os.path.join(MODELS, "mlp.onnx")
    server = Server(mlp, "--api-key-file", write("keys.txt", "secret\n"), "--max-batch", "64", "--batch-delay", "3000000", "--max-body", "100000", "--grpc-port", "0")
    c = Client(server.grpc_port)
    check(c.call(SERVICE + "ServerLive")[0] == OK and c.call(SERVICE + "ModelReady", field(1, "mlp"))[0] == UNAUTHENTICATED, "gRPC: health needs no key, all else does")
    check(c.call(SERVICE + "ModelReady", field(1, "mlp"), authorization="Bearer wrong")[0] == UNAUTHENTICATED, "gRPC: a wrong key")
    key = {"authorization": "Bearer secret"}
    end = time.time() + 60
    while time.time() < end and c.call(SERVICE + "ModelReady", field(1, "mlp"), **key)[2] != [field(1, 1)]: time.sleep(0.02)
    request = grpc_request("mlp", [[1, 2, 3, 4]])
    check(c.call(SERVICE + "ModelInfer", request, grpc_timeout="50m", **key)[0] == LATE, "gRPC: grpc-timeout")
    check(c.call(SERVICE + "ModelInfer", request + entry(4, "timeout", field(2, 50000)), **key)[0] == LATE, "gRPC: the parameter timeout")
    check(c.call(SERVICE + "ModelInfer", bytes(100001), **key)[0] == EXHAUSTED, "gRPC: a message over --max-body")
    check(c.call(SERVICE + "ModelInfer", bytes(100001), "gzip", **key)[0] == EXHAUSTED, "gRPC: one that is so uncompressed")
    gone = [c.stream(SERVICE + "ModelInfer", **key) for _ in range(5)]
    for s in gone:
        s.send(request, end=True)
        s.cancel()
    check(c.call(SERVICE + "ServerLive")[0] == OK, "gRPC: cancelled calls hold nothing up")
    # Accepted, and waiting for others to run with: answered while the server shuts down.
    calls = [c.stream(SERVICE + "ModelInfer", **key) for _ in range(3)]
    for s in calls: s.send(request, end=True)
    stream = c.stream(SERVICE + "ModelStreamInfer", **key)
    stream.send(request)
    idle = c.stream(SERVICE + "ModelStreamInfer", **key)
    check(c.call(SERVICE + "ServerLive")[0] == OK, "gRPC: they are there")
    server.process.send_signal(signal.SIGTERM)
    check(all(s.answers() and s.status()[0] == OK for s in calls), "gRPC: what was accepted is answered", [s.status() for s in calls])
    check(len(stream.answers()) == 1 and stream.status()[0] == UNAVAILABLE, "gRPC: a stream is answered, then ended", (len(stream.messages()), stream.status()))
    idle.answers()
    check(idle.status()[0] == UNAVAILABLE and c.wait_closed() and c.goaway, "gRPC: the client is told", (idle.status(), c.goaway))
    check(server.process.wait(30) == 0, "gRPC: the server ends with status 0")


# ---- a repository, and one memory budget ----
def repository():
    top = os.path.join(FOLDER, "repository")
    for name, version in (("one", "1"), ("one", "3"), ("two", "1")):
        os.makedirs(os.path.join(top, name, version))
        shutil.copy(os.path.join(MODELS, "mlp.onnx"), os.path.join(top, name, version, "model.onnx"))
    write("repository/two/config.json", json.dumps({"name": "two", "backend": "tenon", "max_batch_size": 16, "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 100}}))
    server = Server("--repository", top)
    check(server.ready(), "the repository is loaded")
    index = {(m["name"], m["version"]): m["state"] for m in server.json("POST", "/v2/repository/index", {})[1]}
    check(index == {("one", "1"): "UNAVAILABLE", ("one", "3"): "READY", ("two", "1"): "READY"}, "the latest versions are loaded", index)
    check(server.json("GET", "/v2/models/two/config")[1]["dynamic_batching"] == {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 100}, "config.json")
    check(server.json("POST", "/v2/models/one/versions/1/infer", mlp_request([[1, 2, 3, 4]]))[1]["model_version"] == "1", "another version is loaded when it is asked")
    shutil.copytree(os.path.join(top, "one", "3"), os.path.join(top, "one", "4"))
    check(server.ask("POST", "/v2/repository/models/one/load")[0] == 200 and server.json("POST", "/v2/models/one/infer", mlp_request([[1, 2, 3, 4]]))[1]["model_version"] == "4", "a new version")
    shutil.rmtree(os.path.join(top, "two"))
    check(server.ask("POST", "/v2/repository/models/two/unload")[0] == 200 and len([m for m in server.json("POST", "/v2/repository/index", {})[1] if m["name"] == "two"]) == 0, "a model that is gone")
    server.stop()


def beginning():
    """What cannot be served ends the program at once; a server without a model says so."""
    for options, want in ((["nothing.onnx"], "nothing.onnx: cannot open"), ([write("text.txt", "a")], "neither a compiled model nor a language model")):
        p = subprocess.run([TENON, "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode == 1 and want in p.stderr and "listening" not in p.stderr, f"serve {options}", (p.returncode, p.stderr))
    for level, lines in (("warning", ["info listening", "warning no model"]), ("error", ["info listening"])):
        p = subprocess.Popen([TENON, "serve", "--port", "0", "--log", level], stderr=subprocess.PIPE, text=True)
        said = [json.loads(p.stderr.readline()) for _ in lines]
        p.send_signal(signal.SIGTERM)
        said += [json.loads(line) for line in p.communicate(timeout=60)[1].splitlines()]
        check([f"{line['level']} {line['event']}" for line in said] == lines and p.returncode == 0, f"a server without a model, --log {level}", said)


def budget():
    """Room for two of four models: all are answered, never more than two are loaded, those in use stay."""
    names = ["a", "b", "c", "d"]
    models = [f"{n}={os.path.join(MODELS, 'mlp.onnx')}" for n in names]
    probe = Server(models[0])
    check(probe.ready(), "a model is loaded")
    pages = int(open(f"/proc/{probe.engines()[0]}/statm").read().split()[1])
    probe.stop()
    server = Server("--memory-budget", str(pages * 4096 * 5 // 2), *models)
    check(server.ready() and not server.engines(), "nothing is loaded before it is asked")
    most, bad = 0, []
    def client(seed):
        nonlocal most
        draw = random.Random(seed)
        for _ in range(25):
            name = draw.choice(names)
            answer = server.infer(name, [[1, 2, 3, 4]])
            with lock:
                if answer[0] != 200: bad.append(answer)
                most = max(most, len(server.engines()))
    threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    check(not bad, "every request is answered", bad[:2])
    check(0 < most <= 2, "at most two engines at a time", most)
    server.stop()
    server = Server("--memory-budget", "1K", models[0])
    status, answer = server.infer("a", [[1, 2, 3, 4]])
    check(status == 503 or status == 200, "a model larger than the budget", answer)
    server.stop()


def main():
    types_model = "graph @\"types\"(" + ", ".join(f"%in_{t}: {t}[n, 3]" for t, *_ in TYPES) + ") -> (" + ", ".join(f"out_{t}: {t}[n, 6]" for t, *_ in TYPES) + ") {\n"
    types_model += "".join(f"  %o{i} = concat(%in_{t}, %in_{t}) axis=1\n" for i, (t, *_) in enumerate(TYPES)) + "  return " + ", ".join(f"%o{i}" for i in range(len(TYPES))) + "\n}\n"
    rows_model = 'graph @"rows"(%x: f32[n, 4]) -> (y: f32[n, 4]) {\n  %y = softmax(%x) axis=0\n  return %y\n}\n'
    pick_model = 'graph @"pick"(%i: i64[n]) -> (y: f32[n]) {\n  %t = const f32[7] {0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5}\n  %y = gather(%t, %i)\n  return %y\n}\n'
    mlp = os.path.join(MODELS, "mlp.onnx")
    alone = Server(mlp)
    ones = [write(f"one_{t}.tir", f'graph @"one"(%x: {t}[n, 3]) -> (y: {t}[n, 6]) {{\n  %y = concat(%x, %x) axis=1\n  return %y\n}}\n') for t, *_ in TYPES] if has_grpc() else []
    server = Server(mlp, write("types.tir", types_model), write("rows.tir", rows_model), write("pick.tir", pick_model), *ones, "--max-batch", "64", "--batch-delay", "2000")
    check(alone.ready() and server.ready(), "the models are loaded", server.log)
    types(server)
    metadata(server)
    refusals(server)
    if ones:
        c = Client(server.port)
        grpc_types(server, c)
        grpc_refusals(c)
        grpc_metadata(server, c)
        grpc_streams(server, c)
        c.close()
        grpc_many(server)
        grpc_ends()
    else: print("SKIP gRPC: tenon-serve was built without it")
    batching(server, alone)
    death(server)
    alone.stop()
    server.stop()
    server = Server(mlp, "bad=" + write("bad.onnx", "no model"))
    load_unload(server)
    server.stop()
    repository()
    beginning()
    budget()
    shutil.rmtree(FOLDER)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
