#!/usr/bin/env python3
"""requests_test.py TENON -- hostile requests and models for tenon-serve: rows H19, H20, H24 to H34 and K1 to K5 of the list below.

Rows H1 to H18, H21 to H23 are in http_test.py; a check's name begins with its row, and the end of this test wants a check of
every row in one of the two files.  A server must answer with 4xx and the reason, stay alive, and have all its pages afterwards.
Needs nothing but the standard library.  The last line is `N passed, N failed`.
"""
import json, os, re, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
import tiny_llm

# Row: what it is. K: files of a model folder.
ROWS = {"H1": "length and chunks together", "H2": "two lengths", "H3": "lengths that are no number", "H4": "transfer codings", "H5": "malformed chunks", "H6": "folded headers", "H7": "control characters", "H8": "space before a colon",
        "H9": "hosts", "H10": "versions", "H11": "methods", "H12": "long paths", "H13": "long headers", "H14": "many headers", "H15": "a body over the limit", "H16": "100-continue, then silence", "H17": "slow headers", "H18": "slow body",
        "H19": "a client that never reads its stream", "H20": "a client that goes away in its stream", "H21": "10,000 pipelined requests", "H22": "encoded bodies", "H23": "upgrades", "H24": "JSON that is none", "H25": "n = 10^9",
        "H26": "negative integers", "H27": "max_tokens", "H28": "sampling numbers", "H29": "tokens beyond the vocabulary", "H30": "many stops, long prompts", "H31": "schemas and patterns", "H32": "addresses are never fetched",
        "H33": "tensors that do not fit", "H34": "paths as names", "K1": "depth of tokenizer.json", "K2": "two tokens of one id", "K3": "merges of unknown tokens", "K4": "patterns that backtrack", "K5": "endless templates"}
passed, failed, seen_rows = 0, 0, set()


def check(ok, what, seen=""):
    global passed, failed
    seen_rows.add(what.split()[0])
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:400]}", flush=True)


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([sys.argv[1], "serve", "--port", "0", "--threads", "1", *options], stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r'"port":(\d+)', self.process.stderr.readline())[1])
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def send(self, path, body):
        c = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        c.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return c

    def ask(self, path, body=None):
        if body is None: body = b""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with self.send(path, body) if body else self.get(path) as c:
                got = b""
                while part := c.recv(65536): got += part
        except ConnectionError: return 0, b""
        return (int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0), got.partition(b"\r\n\r\n")[2]

    def get(self, path):
        c = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        c.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        return c

    def metric(self, name):
        return float(re.search(rf'^{name}{{model="one"}} (\S+)$', self.ask("/metrics")[1].decode(), re.M)[1])

    def quiet(self, seconds=90):
        """Nothing runs or waits for half a second: an engine tells its counts ten times a second."""
        calm, end = 0, time.time() + seconds
        while calm < 5 and time.time() < end:
            calm = 0 if self.metric("tenon_engine_running") or self.metric("tenon_queue_requests") else calm + 1
            time.sleep(0.1)
        return calm == 5

    def ready(self, seconds=30):
        end = time.time() + seconds
        while time.time() < end:
            if self.ask("/ready")[0] == 200: return self
            time.sleep(0.02)
        raise SystemExit(f"the server is not ready: {self.log}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(30) == 0, "end: it ends with status 0", self.log)


TEXT, CHAT, INFER = "/v1/completions", "/v1/chat/completions", "/v2/models/mlp/infer"
BASE = {"model": "one", "prompt": "Hello", "max_tokens": 2}
SAID = {"model": "one", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
GOOD = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}


def bodies():
    """(check, path, body), each refused with 400."""
    for path in TEXT, CHAT, "/v1/responses", "/v1/embeddings", "/v1/rerank", "/tokenize", "/detokenize", "/apply-template", INFER, "/v2/repository/index":
        for name, body in (("invalid UTF-8", b'{"model":"\xff\xfe"}'), ("a lone surrogate", b'{"model":"\\ud800"}'), ("an overlong letter", b'{"a":"\xc0\xaf"}'), ("depth 100,000", b'{"a":' + b"[" * 100000), ("a key twice", b'{"model":"one","model":"one"}'),
                           ("1e999", b'{"seed":1e999}'), ("bytes behind it", b'{"model":"one"} x'), ("NaN", b'{"seed":NaN}'), ("a NUL", b'{"model":"one"}\0'), ("a byte order mark", b"\xef\xbb\xbf{}"), ("cut", b'{"model":"on')):
            yield f"H24 {path}: {name}", path, body
    for name, value in (("n", 10**9), ("best_of", 10**9)): yield f"H25 {name} = 10^9", TEXT, dict(BASE, **{name: value})
    yield "H25 10^9 choices in all", TEXT, dict(BASE, prompt=["a"] * 100, n=128)
    for name, least, most in re.findall(r"^SERVE_FIELD\((\w+), INT, ([^,]+), ([^,]+),", open(os.path.join(ROOT, "src/serve/limits.def")).read(), re.M):
        if name in ("dimensions", "top_n", "max_output_tokens", "top_logprobs"): continue
        for v in {"INT64_MIN": (-(2**63) - 1, 2**63, 2**64, -(10**30))}.get(least) or (int(least) - 1, int(most) + 1, -(2**63), 2**63): yield f"H26 {name} = {v}", TEXT, dict(BASE, **{name: v})
    for name in "n_discard", "n_keep", "n_predict", "id_slot", "min_tokens": yield f"H26 {name}, which is not known", TEXT, dict(BASE, **{name: -1})
    for v in -1, 0, 2**63, 1.5, "1", [1]: yield f"H27 max_tokens = {v}", TEXT, dict(BASE, max_tokens=v)
    for name, v in (("temperature", -1), ("temperature", 1e308), ("top_k", -5), ("top_p", 2), ("top_p", -0.1), ("min_p", 1.1), ("repetition_penalty", 0), ("presence_penalty", 1e308)): yield f"H28 {name} = {v}", TEXT, dict(BASE, **{name: v})
    yield "H28 temperature NaN", TEXT, json.dumps(dict(BASE, temperature="X")).replace('"X"', "NaN").encode()
    for name, body in (("logit_bias", dict(BASE, logit_bias={"259": 1})), ("a negative logit_bias", dict(BASE, logit_bias={"-1": 1})), ("2^63 in logit_bias", dict(BASE, logit_bias={str(2**63): 1})),
                       ("a prompt", dict(BASE, prompt=[259])), ("a negative prompt", dict(BASE, prompt=[-1])), ("a prompt of 2^31", dict(BASE, prompt=[2**31]))): yield f"H29 {name}", TEXT, body
    yield "H29 tokens to text", "/detokenize", {"model": "one", "tokens": [10**9]}
    yield "H30 10^5 stops", TEXT, dict(BASE, stop=["a"] * 100000)
    yield "H30 a stop of 10^5 bytes", TEXT, dict(BASE, stop="a" * 100000)
    yield "H30 a prompt of 10 MB", TEXT, dict(BASE, prompt="a" * 10000000)
    yield "H30 a conversation of 10 MB", CHAT, dict(SAID, messages=[{"role": "user", "content": "a" * 10000000}])
    yield "H30 100,000 messages", CHAT, dict(SAID, messages=[{"role": "user", "content": "a"}] * 100000)
    yield "H30 an empty prompt", TEXT, dict(BASE, prompt="")
    yield "H30 a prompt of no tokens", TEXT, dict(BASE, prompt=[])
    deep = {"type": "object"}
    for _ in range(25): deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    many = {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": "^(a|b)*[0-9]{1,500}$"} for i in range(300)}}
    for name, schema in (("no object", 7), ("a reference elsewhere", {"$ref": "http://127.0.0.1:1/x"}), ("a file", {"$ref": "file:///etc/passwd"}), ("itself", {"$ref": "#"}),
                         ("a bad pattern", {"type": "string", "pattern": "("}), ("a bad minimum", {"type": "array", "minItems": -1}), ("10^9 items", {"type": "array", "items": {"type": "integer"}, "minItems": 10**9}), ("25 objects in two tokens", deep), ("300 patterns", many)):
        yield f"H31 schema: {name}", CHAT, dict(SAID, response_format={"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}})
    for pattern in "(", "[", "(a+)+$" * 2000, "(((((((((((a{1,100}){1,100}){1,100}){1,100}){1,100})))))))", "a{10000000}", "(?<=a)b", "\\1": yield f"H31 pattern {pattern[:30]}", TEXT, dict(BASE, structured_outputs={"regex": pattern})
    for g in "root ::= root", 'root ::= "a', "root ::= x", 'root ::= (((((((("a"*)*)*)*)*)*)*)* x', "root ::= [", 'root ::= "a"{1000000000}': yield f"H31 grammar {g[:30]}", TEXT, dict(BASE, grammar=g)
    for url in "file:///etc/passwd", "http://169.254.169.254/latest/meta-data", "http://127.0.0.1:PORT/", "data:image/png;base64,AA", "ftp://a/b", "\\\\host\\share":
        yield f"H32 {url}", CHAT, dict(SAID, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])
    def tensor(**change): return {"inputs": [{k: v for k, v in {**GOOD, **change}.items() if v is not None}]}
    for name, body in (("too few elements", tensor(data=[1])), ("too many", tensor(data=[1] * 5)), ("a wrong dtype", tensor(datatype="INT64")), ("an unknown dtype", tensor(datatype="FP7")), ("dims that overflow", tensor(shape=[2**62, 2**62])),
                       ("a negative dim", tensor(shape=[-1, 4])), ("2^63 elements", tensor(shape=[2**63, 4])), ("17 dims", tensor(shape=[1] * 17)), ("bytes that are not there", tensor(data=None, parameters={"binary_data_size": 16})), ("a wrong shape", tensor(shape=[1, 5]))):
        yield f"H33 {name}", INFER, body
    for name in "../../etc/passwd", "/etc/passwd", "..", "a\0b", "one/../one", "file:///x": yield f"H34 model {name!r}", TEXT, dict(BASE, model=name)


def requests(s):
    fetched = socket.create_server(("127.0.0.1", 0))
    fetched.settimeout(0)
    for what, path, body in bodies():
        if isinstance(body, dict): body = json.dumps(body).replace("PORT", str(fetched.getsockname()[1])).encode()
        began = time.time()
        status, answer = s.ask(path, body)
        right = {404} if what.startswith("H34") else {400}
        check(status in right and b'"error"' in answer, f"{what}: {right}", (status, answer))
        if time.time() - began > 5: print(f"note: {what} took {time.time() - began:.1f} s")
    try: check(not fetched.accept(), "H32 nothing is fetched")
    except BlockingIOError: check(True, "H32 nothing is fetched")
    for path in "/v2/models/..%2f..%2fetc%2fpasswd", "/v1/models/..%2f..", "/v2/models/%2e%2e/infer", "/v1/models/%00": check(s.ask(path)[0] in (400, 404, 405), f"H34 {path}")
    for name in "..%2fx", "%2e%2e": check(s.ask(f"/v2/repository/models/{name}/load", b"{}")[0] == 404, f"H34 load {name}")


def streams(s):
    ask = json.dumps({"model": "one", "prompt": "Hello", "max_tokens": 450, "ignore_eos": True, "stream": True, "logprobs": 20}).encode()
    for what, reads in (("H19 clients that never read", False), ("H20 clients that go away", True)):
        clients = []
        for _ in range(12):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", s.port))
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(ask) + ask)
            if reads: c.recv(10)
            clients.append(c)
        if reads:
            for c in clients: c.close()
        check(s.quiet(), f"{what}: all that was asked is over")
        check(s.metric("tenon_engine_running") == 0, f"{what}: nothing runs any more")
        check(s.metric("tenon_kv_pages_free") + s.metric("tenon_kv_pages_cached") == s.metric("tenon_kv_pages"), f"{what}: all pages are back")
        check(s.ask(TEXT, BASE)[0] == 200, f"{what}: others are answered")
        for c in clients: c.close()


# ---- model folders ----
def damaged(top, name, change):
    """The tiny model with another tokenizer.json or template."""
    path = os.path.join(top, name)
    shutil.copytree(os.path.join(top, "one"), path)
    change(path)
    return f"{name}={path}"


def edit(file, fn):
    def change(path):
        with open(os.path.join(path, file), encoding="utf-8") as f: text = f.read()
        with open(os.path.join(path, file), "w", encoding="utf-8") as f: f.write(fn(text))
    return change


def with_json(fn):
    def change(text):
        j = json.loads(text)
        fn(j)
        return json.dumps(j, ensure_ascii=False)
    return change


def backtracks(j): j["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a+)+$|((a|aa)+)+b|(.*)*x"}, "behavior": "Isolated", "invert": False}
def two_ids(j): j["model"]["vocab"] = {**j["model"]["vocab"], "zz": 0}
def merges(j): j["model"]["merges"] = [["nosuch", "token"], ["q", "nosuch"]]


def folders(top, options):
    config = "tokenizer_config.json"
    def template(text): return edit(config, with_json(lambda j: j.update(chat_template=text)))
    bad = [("K1", "depth", edit("tokenizer.json", lambda t: '{"a":' * 100000), {503}), ("K1", "cut", edit("tokenizer.json", lambda t: t[: len(t) // 2]), {503}), ("K2", "twice", edit("tokenizer.json", with_json(two_ids)), {200, 400, 503}),
           ("K3", "merges", edit("tokenizer.json", with_json(merges)), {200, 400, 503}), ("K4", "regex", edit("tokenizer.json", with_json(backtracks)), {200, 400, 503}), ("K5", "loop", template("{% for i in range(1000000000) %}{% for j in range(1000000000) %}x{% endfor %}{% endfor %}"), {400, 503}),
           ("K5", "text", template("{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}"), {400, 503}), ("K5", "power", template("{{ 'x' * 1000000000 }}"), {400, 503}),
           ("K5", "itself", template("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), {400, 503})]
    s = Server(*options, *(damaged(top, name, change) for _, name, change, _ in bad), "--sequences", "2", "--context", "64")
    end = time.time() + 60
    while time.time() < end and b'"loading"' in s.ask("/v1/models")[1]: time.sleep(0.05)
    for row, name, _, right in bad:
        began = time.time()
        status, answer = s.ask(CHAT, dict(SAID, model=name, messages=[{"role": "user", "content": "a" * 40 + "!"}]))
        check(status in right, f"{row} {name}: {right}", (status, answer))
        check(time.time() - began < 50, f"{row} {name}: it ends", time.time() - began)
    check(s.ask(CHAT, SAID)[0] == 200, "K5 the other models are served")
    s.stop()


def main():
    with tempfile.TemporaryDirectory(prefix="requests_test") as top:
        tiny_llm.make(os.path.join(top, "one"), seed=1, kind="llama")
        models = ["one=" + os.path.join(top, "one"), "mlp=" + os.path.join(ROOT, "tests", "models", "mlp.onnx")]
        s = Server(*models).ready()
        requests(s)
        streams(s)
        check(s.ask(TEXT, BASE)[0] == 200 and s.ask(INFER, {"inputs": [GOOD]})[0] == 200, "end: it still answers")
        s.stop()
        folders(top, models[:1])
    other = open(os.path.join(ROOT, "tests", "security", "http_test.py")).read()
    for row, what in ROWS.items(): check(row in seen_rows or re.search(rf'"{row} ', other), f"{row} has a check: {what}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
