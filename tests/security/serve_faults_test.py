#!/usr/bin/env python3
"""serve_faults_test.py TENON -- tenon-serve while memory, reads, writes and processes fail: an error to that request alone.

build/tenon-serve-faults is the server with faults planted from here (serve_faults.c): the k-th allocation of the front or of an
engine, for k from 0 until a request needs no more; short and interrupted reads and writes; clients and engines that are killed;
SIGTERM under load; the k-th call of a CUDA driver, which is a fake one.  SERVE_FAULTS_FULL=1 tries every k and drains 10,000 requests.  The last line is `N passed, N failed`.
"""
import json, mmap, os, re, signal, socket, struct, subprocess, sys, tempfile, threading, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
import tiny_llm

SERVE = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "tenon-serve-faults")
FULL = bool(os.environ.get("SERVE_FAULTS_FULL"))
ALLOC, SHORT_READ, SHORT_WRITE, READ_AGAIN, WRITE_AGAIN, READ_RESET, WRITE_RESET, ACCEPT = range(1, 9)
CUDA, CUDA_CODES = 9, 12  # + an error's number (cuda_fake.c)
FRONT, ENGINE = 0, 32
passed, failed = 0, 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:500]}", flush=True)


class Server:
    def __init__(self, folder, *options, **environment):
        self.plan = open(os.path.join(folder, "plan"), "w+b")
        self.plan.write(bytes(64))
        self.plan.flush()
        self.map = mmap.mmap(self.plan.fileno(), 64)
        self.process = subprocess.Popen([SERVE, "--port=0", *options], stderr=subprocess.PIPE, text=True, env=dict(os.environ, SERVE_FAULTS=self.plan.name, **environment))
        self.port = int(re.search(r'"port":(\d+)', self.process.stderr.readline())[1])
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.ready()

    def ready(self):
        end = time.time() + 60
        while time.time() < end:
            if self.ask("GET", "/ready")[0] == 200: return True
            time.sleep(0.02)
        check(False, "the server becomes ready", self.log)

    def fault(self, who, kind, left=0, every=0): self.map[who : who + 32] = struct.pack("<4q", kind, left, every, 0)
    def planted(self, who): return struct.unpack_from("<q", self.map, who + 24)[0]

    def connect(self): return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, method, path, body=None):
        """(status, body); 0: the connection was closed without a whole answer."""
        text = json.dumps(body).encode() if body is not None else b""
        try:
            with self.connect() as c:
                c.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
                got = b""
                while part := c.recv(65536): got += part
        except ConnectionError: return 0, b""
        head, _, body = got.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 "): return 0, b""
        length = re.search(rb"Content-Length: (\d+)", head)
        whole = len(body) == int(length[1]) if length else body.endswith(b"0\r\n\r\n")
        return (int(head[9:12]) if whole else 0), body

    def engines(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]) == self.process.pid: found.append(int(pid))
            except (OSError, IndexError): continue
        return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(30) == 0, "it ends with status 0", self.log)


INFER = {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": list(range(8))}]}
TEXT = {"model": "one", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
SAID = {"model": "one", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
REQUESTS = [("POST", "/v2/models/mlp/infer", INFER), ("POST", "/v1/completions", TEXT), ("POST", "/v1/completions", dict(TEXT, stream=True)), ("POST", "/v1/chat/completions", dict(SAID, logprobs=True)),
            ("POST", "/v1/responses", {"model": "one", "input": "Hello", "max_output_tokens": 4, "temperature": 0}), ("GET", "/v1/models", None), ("GET", "/metrics", None), ("POST", "/v1/completions", dict(TEXT, prompt=7)),
            ("POST", "/v1/chat/completions", dict(SAID, response_format={"type": "json_object"}, max_tokens=12)), ("POST", "/tokenize", {"model": "one", "content": "Hello"}), ("GET", "/v2/models/mlp", None)]


def plain(answer):
    """Without what differs from one answer to the next."""
    return re.sub(rb'"(id|created|created_at|item_id|seed)":("[^"]*"|\d+)|tenon_\S+ \S+|^[0-9a-f]+\r$', b"", answer[1], flags=re.M) if answer[1] else b""


def allocations(s):
    """The k-th allocation of a request fails: 503, or the connection ends; and the same request is then answered as ever."""
    for who in FRONT, ENGINE:
        for method, path, body in REQUESTS:
            what = f"{'engine' if who else 'front'}: {path} {str(body)[:40]}"
            want, k, seen = s.ask(method, path, body), 0, {}
            while k < 2000:
                s.fault(who, ALLOC, k)
                got = s.ask(method, path, body)
                planted = s.planted(who)
                s.fault(who, 0)
                seen[got[0]] = seen.get(got[0], 0) + 1
                right = got[0] in (0, 500, 503) or got[0] == want[0] and (path == "/metrics" or plain(got) == plain(want) or b'"error"' in got[1])
                if not right: check(False, f"{what}: allocation {k} fails", (got, want))
                if not planted: break
                k += 1 if FULL or k < 40 else 7
            check(k < 2000 and seen.get(want[0]), f"{what}: it needs a number of allocations", (k, seen))
            s.ready()
            again = s.ask(method, path, body)
            check(again[0] == want[0] and (path == "/metrics" or plain(again) == plain(want)), f"{what}: answered as ever afterwards", (again, want))
    check(len(s.engines()) == 2, "both engines are there", s.log[-5:])


def transfers(s):
    """Reads and writes of a byte, and interrupted ones, lose nothing."""
    want = [s.ask(*r) for r in REQUESTS]
    for who in FRONT, ENGINE:
        for kind, every, name in ((SHORT_READ, 1, "reads of a byte"), (SHORT_WRITE, 1, "writes of a byte"), (READ_AGAIN, 2, "interrupted reads"), (WRITE_AGAIN, 2, "interrupted writes")):
            s.fault(who, kind, 0, every)
            got = [s.ask(*r) for r in REQUESTS]
            planted = s.planted(who)
            s.fault(who, 0)
            check(planted > 0, f"{name}: there were some", planted)
            for r, a, b in zip(REQUESTS, want, got): check(a[0] == b[0] and (r[1] == "/metrics" or plain(a) == plain(b)), f"{name} ({'engine' if who else 'front'}): {r[1]}", (b, a))
    for kind, name in ((READ_RESET, "a client that resets while it is read"), (WRITE_RESET, "and while it is written to")):
        for k in range(4):
            s.fault(FRONT, kind, k)
            for r in REQUESTS[:3]: s.ask(*r)
            s.fault(FRONT, 0)
        got = [s.ask(*r)[0] for r in REQUESTS]
        check(got == [w[0] for w in want], name, got)
    s.fault(FRONT, ACCEPT, 0, 0)
    check(s.ask("GET", "/health")[0] == 200 and s.planted(FRONT) == 1, "a descriptor that is missing for a moment")


def pages(s):
    text = s.ask("GET", "/metrics")[1].decode()
    return [float(re.search(rf'^{n}{{model="one"}} (\S+)$', text, re.M)[1]) for n in ("tenon_kv_pages", "tenon_kv_pages_free", "tenon_kv_pages_cached", "tenon_engine_running", "tenon_queue_requests")]


def kills(s):
    """Clients that are killed in the middle of their streams, and engines."""
    code = ("import socket,json,sys,time\ncs=[]\nfor i in range(20):\n  b=json.dumps({'model':'one','prompt':'Hello','max_tokens':400,'ignore_eos':True,'stream':True}).encode()\n  c=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
            "  c.sendall(b'POST /v1/completions HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: %d\\r\\n\\r\\n'%len(b)+b)\n  cs.append(c)\ncs[0].recv(100)\nprint('on',flush=True)\ntime.sleep(60)\n")
    for _ in range(5 if FULL else 2):
        p = subprocess.Popen([sys.executable, "-c", code, str(s.port)], stdout=subprocess.PIPE)
        p.stdout.readline()
        p.kill()
        p.wait()
    calm, end = 0, time.time() + 60  # an engine tells its counts ten times a second
    while calm < 5 and time.time() < end:
        calm = 0 if sum(pages(s)[3:]) else calm + 1
        time.sleep(0.1)
    total, free, cached, running, waiting = pages(s)
    check(free + cached == total and not running and not waiting, "killed clients: all pages are back", pages(s))
    for pid in s.engines(): os.kill(pid, signal.SIGKILL)
    seen, end = [], time.time() + 30
    while seen != [200] * 4 and time.time() < end: seen = [s.ask(*r)[0] for r in REQUESTS[:4]]
    check(seen == [200] * 4, "killed engines are started again", seen)
    for k in range(12 if FULL else 4):  # and while there is no memory for it
        s.fault(FRONT, ALLOC, k)
        os.kill(s.engines()[0], signal.SIGKILL)
        seen, end = [], time.time() + 30
        while (seen != [200] * 4 or len(s.engines()) < 2) and time.time() < end: seen = [s.ask(*r)[0] for r in REQUESTS[:4]]
        s.fault(FRONT, 0)
        check(seen == [200] * 4, f"also where allocation {k} fails then", (seen, s.log[-2:]))


def cuda(folder, model):
    """The k-th call of the CUDA driver fails: an error to that request alone.  Where the error ends the context, the engine is started again."""
    s = Server(folder, os.path.join(ROOT, "tests", "models", "mlp.onnx"), "one=" + model, "--target=cuda", "--threads=1", SERVE_FAULTS_CUDA="1")
    for method, path, body in REQUESTS[:2]:
        want, restarts = s.ask(method, path, body), 0
        check(want[0] == 200, f"CUDA: {path}", want)
        for code in range(CUDA_CODES):
            k, seen = 0, {}
            while k < 4000:
                before = set(s.engines())
                s.fault(ENGINE, CUDA + code, k)
                got = s.ask(method, path, body)
                planted = s.planted(ENGINE)
                s.fault(ENGINE, 0)
                seen[got[0]] = seen.get(got[0], 0) + 1
                if got[0] not in (500, 503) and (got[0] != want[0] or plain(got) != plain(want)): check(False, f"CUDA: {path}: call {k} fails with error {code}", (got, want))
                if planted:
                    again, end = s.ask(method, path, body), time.time() + 30
                    while again[0] == 503 and time.time() < end:  # the engine is started again
                        time.sleep(0.02)
                        again = s.ask(method, path, body)
                    if again[0] != 200 or plain(again) != plain(want): check(False, f"CUDA: {path}: answered as ever behind error {code} of call {k}", (again, want))
                    restarts += set(s.engines()) != before
                else: break
                k += 1 if FULL or code in (0, 8) and k < 12 else 7
            check(k < 4000 and seen.get(200), f"CUDA: {path} needs a number of calls, error {code}", (k, seen))
        check(restarts > 0, f"CUDA: {path}: a context that has ended is replaced", restarts)
    s.ready()
    s.stop()


def drain(folder):
    """SIGTERM with requests of every kind under way: each is answered, kept connections are closed behind their answer."""
    n = 10000 if FULL else 600
    mlp = os.path.join(ROOT, "tests", "models", "mlp.onnx")
    s = Server(folder, mlp, "--max-batch=8", "--batch-delay=500")
    body = json.dumps(INFER).encode()
    one = b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    each = 20
    clients = [s.connect() for _ in range(n // each)]
    idle = [s.connect() for _ in range(10)]
    threads, got = [], [b""] * len(clients)

    def read(i):
        try:
            while part := clients[i].recv(65536): got[i] += part
        except OSError: got[i] += b" reset"

    for i, c in enumerate(clients):
        c.sendall(one)  # its first one is answered, so it has been accepted
        c.settimeout(60)
    for i, c in enumerate(clients): got[i] = c.recv(65536)
    for c in clients: c.sendall(one * (each - 1))
    s.process.send_signal(signal.SIGTERM)
    for i in range(len(clients)):
        threads.append(threading.Thread(target=read, args=(i,)))
        threads[-1].start()
    for t in threads: t.join()
    answers = [g.count(b"HTTP/1.1 200 OK") for g in got]
    check(sum(answers) == each * len(clients), f"SIGTERM: {each * len(clients)} accepted requests are answered", (sum(answers), min(answers), got[answers.index(min(answers))][-200:]))
    check(all(c.recv(10) == b"" for c in idle), "connections without a request are closed")
    check(s.process.wait(30) == 0, "and it ends", s.log[-3:])


def main():
    with tempfile.TemporaryDirectory(prefix="serve_faults") as folder:
        model = os.path.join(folder, "one")
        tiny_llm.make(model, seed=1, kind="llama")
        s = Server(folder, os.path.join(ROOT, "tests", "models", "mlp.onnx"), "one=" + model, "--threads=1", "--log=requests", "--log-text=1")
        tests = {f.__name__: f for f in (allocations, transfers, kills)}
        for name, f in tests.items():
            if len(sys.argv) < 3 or name == sys.argv[2]: f(s)
        s.stop()
        if len(sys.argv) < 3 or sys.argv[2] == "cuda": cuda(folder, model)
        if len(sys.argv) < 3 or sys.argv[2] == "drain": drain(folder)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
