#!/usr/bin/env python3
"""http_test.py TENON [--address HOST:PORT] -- requests that a server must refuse, and how slow clients are sent away.

Each probe sends bytes on a connection of its own and names the statuses that are right; `closed` may stand for one where an
answer is not due.  A server that read the probe otherwise than a proxy would have let a second request through.  --address
tries another server (the probes that compare limits then use Tenon's).  The last line is `N passed, N failed`.
"""
import os, re, signal, socket, subprocess, sys, threading, time

ADDRESS = sys.argv[sys.argv.index("--address") + 1] if "--address" in sys.argv else None
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
passed, failed, lock = 0, 0, threading.Lock()


def check(ok, what, seen=""):
    global passed, failed
    with lock:
        if ok: passed += 1
        else:
            failed += 1
            print(f"FAIL {what}\n  {str(seen)[:300]}")


def limit(name):
    text = open(os.path.join(ROOT, "src/serve/limits.def")).read()
    value = re.search(rf"SERVE_LIMIT\({name}, [^,]+, ([^,]+),", text)[1]
    return eval(value, {})


class Server:
    def __init__(self, *options):
        if ADDRESS:
            host, port = ADDRESS.rsplit(":", 1)
            self.at, self.process = (host, int(port)), None
            return
        self.process = subprocess.Popen([sys.argv[1], "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.at = ("127.0.0.1", int(re.search(r'"port":(\d+)', line)[1]))
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def connect(self, timeout=30):
        s = socket.create_connection(self.at, timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def stop(self):
        if not self.process: return
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(20) == 0, "it ends with status 0")


def read_all(s):
    """All until the server closes, or until nothing comes for a second after something came."""
    got = b""
    try:
        while True:
            part = s.recv(65536)
            if not part: return got, True
            got += part
            s.settimeout(1)
    except (socket.timeout, ConnectionError) as e:
        return got, isinstance(e, ConnectionError)


def statuses(answer): return [int(m) for m in re.findall(rb"^HTTP/1\.1 (\d+) ", answer, re.M)]


def head(*lines, first=b"GET /health HTTP/1.1"): return b"\r\n".join([first, *lines, b"", b""])


HOST = b"Host: a"
POST = b"POST /health HTTP/1.1"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


def probes():
    """(name, bytes, statuses of the first answer)."""
    ok, post = {200}, {404, 405}  # a request that is fine; one whose body must be read
    yield "plain", head(HOST), ok
    yield "HTTP/1.0", b"GET /health HTTP/1.0\r\n\r\n", ok
    yield "absolute target", head(HOST, first=b"GET http://a/health HTTP/1.1"), ok
    yield "HEAD", head(HOST, first=b"HEAD /health HTTP/1.1"), ok
    yield "content-length 0", head(HOST, b"Content-Length: 0", first=POST), post
    yield "body", head(HOST, b"Content-Length: 3", first=POST) + b"abc", post
    yield "chunks", head(HOST, b"Transfer-Encoding: chunked", first=POST) + b"3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n", post
    yield "H1 length and chunks", head(HOST, b"Content-Length: 5", b"Transfer-Encoding: chunked", first=POST) + b"0\r\n\r\n" + SMUGGLED, {400}
    yield "H1 chunks and length", head(HOST, b"Transfer-Encoding: chunked", b"Content-Length: 5", first=POST) + b"0\r\n\r\n" + SMUGGLED, {400}
    yield "H2 two lengths", head(HOST, b"Content-Length: 3", b"Content-Length: 4", first=POST) + b"abcd", {400}
    yield "H2 a list of lengths", head(HOST, b"Content-Length: 13, 14", first=POST) + b"a" * 14, {400}
    for text in b"+13", b"0x0d", b"-1", b"18446744073709551616", b"1 3", b"", b"13.0", b"1e1", b"\x0b13", b"1_3":
        yield f"H3 length {text}", head(HOST, b"Content-Length: " + text, first=POST) + b"a" * 13, {400, 413}
    for text in b"chunked, identity", b"xchunked", b"identity, chunked", b"chunked, chunked", b"gzip, chunked", b"chunkedx", b"\x0bchunked", b"\"chunked\"":
        yield f"H4 coding {text}", head(HOST, b"Transfer-Encoding: " + text, first=POST) + b"0\r\n\r\n" + SMUGGLED, {400, 501}
    yield "H4 coding twice", head(HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", first=POST) + b"0\r\n\r\n" + SMUGGLED, {400}
    yield "H4 chunks in HTTP/1.0", head(b"Transfer-Encoding: chunked", first=b"POST /health HTTP/1.0") + b"0\r\n\r\n" + SMUGGLED, {400}
    for name, body in {"20 digits": b"10000000000000000003\r\nabc\r\n0\r\n\r\n", "no line end": b"3\r\nabc0\r\n\r\n", "bare line feed": b"3\nabc\n0\n\n",
                       "extension": b"3;" + b"a" * 1000000 + b"\r\nabc\r\n0\r\n\r\n", "negative": b"-3\r\nabc\r\n0\r\n\r\n", "prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
                       "space": b" 3\r\nabc\r\n0\r\n\r\n", "none": b"\r\nabc\r\n0\r\n\r\n", "space behind": b"3 \r\nabc\r\n0\r\n\r\n",
                       "line feed in an extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n", "folded trailer": b"0\r\n a: b\r\n\r\n"}.items():
        yield f"H5 chunk: {name}", head(HOST, b"Transfer-Encoding: chunked", first=POST) + body, {400, 413}
    yield "H5 trailers without end", head(HOST, b"Transfer-Encoding: chunked", first=POST) + b"0\r\n" + b"a: b\r\n" * 5000, {400, 431}
    yield "H6 folded header", head(HOST, b"A: b", b" c"), {400}
    yield "H6 folded first header", b"GET /health HTTP/1.1\r\n Host: a\r\n\r\n", {400}
    for i in [0, 1, 8, 11, 27, 127]:
        yield f"H7 byte {i} in a header", head(HOST, b"A: x%cy" % i), {400}
    yield "H7 carriage return in a header", head(HOST, b"A: x\ry"), {400}
    yield "H7 byte 0 in the path", head(HOST, first=b"GET /hea\0lth HTTP/1.1"), {400}
    yield "H8 space before the colon", head(HOST, b"Content-Length : 5", first=POST), {400}
    yield "H8 header without a colon", head(HOST, b"Nonsense"), {400}
    yield "H8 header without a name", head(HOST, b": x"), {400}
    yield "H8 name with a space", head(HOST, b"A b: x"), {400}
    yield "H9 no host", b"GET /health HTTP/1.1\r\n\r\n", {400}
    yield "H9 two hosts", head(HOST, b"Host: b"), {400}
    yield "H9 a host with a path", head(b"Host: a/b"), {400}
    yield "H9 a host with a user", head(b"Host: a@b"), {400}
    for version in b"HTTP/9.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b"HTTP/1", b"HTCPCP/1.1", b"HTTP/ 1.1":
        yield f"H10 {version}", head(HOST, first=b"GET /health " + version), {400, 505}
    yield "H10 HTTP/0.9", b"GET /health\r\n\r\n", {400}
    yield "H11 a method of 10 KB", head(HOST, first=b"A" * 10240 + b" / HTTP/1.1"), {400, 414, 431, 501}
    yield "H11 an unknown method", head(HOST, first=b"BREW /health HTTP/1.1"), {405, 501}
    yield "H11 a method with a bracket", head(HOST, first=b"G[T /health HTTP/1.1"), {400}
    yield "CONNECT", head(HOST, first=b"CONNECT a:443 HTTP/1.1"), {400, 405, 501}
    yield "two spaces", head(HOST, first=b"GET  /health HTTP/1.1"), {400}
    yield "a tab", head(HOST, first=b"GET\t/health HTTP/1.1"), {400}
    yield "a space at the end", head(HOST, first=b"GET /health HTTP/1.1 "), {400}
    yield "a path without slash", head(HOST, first=b"GET health HTTP/1.1"), {400}
    yield "a fragment", head(HOST, first=b"GET /health#x HTTP/1.1"), {400}
    yield "UTF-8 in the path", head(HOST, first="GET /hé HTTP/1.1".encode()), {400}
    yield "bare line feeds", b"GET /health HTTP/1.1\nHost: a\n\n", {400}
    yield "one bare line feed", b"GET /health HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", {400}
    yield "noise", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}
    yield "HTTP/2 preface behind a request", head(HOST) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ok  # grpc_test.py has those at the beginning
    yield "not quite HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", {400, 501, 505}
    yield "H12 a path of 9 KB", head(HOST, first=b"GET /" + b"a" * 9000 + b" HTTP/1.1"), {414}
    yield "H13 headers of 17 KiB", head(HOST, b"A: " + b"a" * 17 * 1024), {431}
    yield "H13 headers without end", b"GET /health HTTP/1.1\r\n" + b"A: " + b"a" * 100000, {431}
    yield "H14 101 headers", head(HOST, *[b"A%d: b" % i for i in range(100)]), {431}
    yield "H14 100 headers", head(HOST, *[b"A%d: b" % i for i in range(99)]), ok
    yield "H15 a body over the limit", head(HOST, b"Content-Length: 2000000000", first=b"POST /health HTTP/1.1"), {404, 405, 413}
    yield "H16 an unknown expectation", head(HOST, b"Expect: 200-ok", b"Content-Length: 3", first=POST), {417}
    yield "H22 a gzip body", head(HOST, b"Content-Encoding: gzip", b"Content-Length: 3", first=POST) + b"abc", {415}
    yield "H23 h2c", head(HOST, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), ok
    yield "H34 dots", head(HOST, first=b"GET /v2/models/../../x HTTP/1.1"), {400, 404}
    yield "H34 encoded dots", head(HOST, first=b"GET /v2/models/..%2f..%2fx HTTP/1.1"), {400, 404}
    yield "an encoded NUL", head(HOST, first=b"GET /v2/models/a%00b HTTP/1.1"), {400, 404}
    yield "a cut escape", head(HOST, first=b"GET /v2/models/a%2 HTTP/1.1"), {400, 404}


def run_probe(server, name, data, right):
    s = server.connect()
    try:
        s.sendall(data)
    except ConnectionError:
        pass
    answer, closed = read_all(s)
    s.close()
    seen = statuses(answer)
    check(seen and seen[0] in right, f"{name}: {right}", answer or "no answer")
    check(len(seen) <= 1 or seen[0] == 200, f"{name}: one answer", answer)
    if seen and seen[0] in (400, 413, 414, 431, 501, 505): check(closed, f"{name}: the connection closes", answer)


def steps(server, name, first, step, seconds, right):
    """Sends `first`, then `step` each two seconds, and wants `right` within `seconds`."""
    s, began = server.connect(seconds + 20), time.time()
    try:
        s.sendall(first)
        s.settimeout(2)
        answer = b""
        while time.time() - began < seconds + 10:
            try:
                answer = s.recv(65536)
                break
            except socket.timeout:
                if step: s.sendall(step)
    except ConnectionError:
        pass
    took = time.time() - began
    s.close()
    check(took < seconds + 3 and (statuses(answer)[:1] or [0])[0] in right, f"{name}: {right} within {seconds} s", (took, answer))


def slow(server):
    wait = limit("HEAD_SECONDS")
    cases = [("H17 slow headers", b"GET /health HTTP/1.1\r\n", b"A", wait, {408}),
             ("H17 silence in the headers", b"GET /health HT", b"", wait, {408}),
             ("H17 silence", b"", b"", wait, {0}),
             ("H16 100-continue, then silence", head(HOST, b"Content-Length: 9", b"Expect: 100-continue", first=b"POST /v1/none HTTP/1.1"), b"", wait, {404, 408}),
             ("H18 slow body", head(HOST, b"Content-Length: 9999", first=POST), b"a", limit("BODY_SECONDS"), {405, 408})]
    threads = [threading.Thread(target=steps, args=(server, *case)) for case in cases]
    for t in threads: t.start()
    for t in threads: t.join()


def pipelined(server):
    n, s, got = 10000, server.connect(), b""
    threading.Thread(target=lambda: s.sendall(head(HOST) * n), daemon=True).start()
    while got.count(b"HTTP/1.1 200") < n:
        part = s.recv(1 << 20)
        if not part: break
        got += part
    check(got.count(b"HTTP/1.1 200") == n, "H21 10,000 pipelined requests", got.count(b"HTTP/1.1 200"))
    s.close()
    # The same without a reader: the server waits for the client, and its memory stays.
    s, sent = server.connect(2), 0
    try:
        while sent < 64 << 20: sent += s.send(head(HOST) * 1000)
    except (socket.timeout, ConnectionError):
        pass
    check(sent < 64 << 20, "H21 a client that does not read is not read from", sent)
    if server.process:
        resident = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{server.process.pid}/status").read())[1])
        check(resident < 64 << 10, "memory stays below 64 MiB", resident)
    s.close()


def torn(server):
    """Every probe that is fine, one byte at a time and cut anywhere."""
    data = head(HOST, b"Transfer-Encoding: chunked", first=POST) + b"3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n"
    s = server.connect()
    for i in range(len(data)): s.sendall(data[i : i + 1])
    answer, _ = read_all(s)
    check(statuses(answer)[:1] in ([404], [405]), "one byte at a time", answer)
    for i in range(len(data)):
        s = server.connect()
        s.sendall(data[:i])
        s.close()
    s = server.connect()
    s.sendall(head(HOST))
    check(statuses(s.recv(4096)) == [200], "alive after requests that were cut")
    s.close()


def keys():
    path = os.path.join(ROOT, "build", "test-logs", "http_keys.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f: f.write("# keys\nsecret-one\n\n  secret two  \n")
    server = Server("--api-key-file", path)
    for header, want in ((None, 401), (b"Bearer secret-one", 404), (b"bearer secret two", 404), (b"Bearer secret-on", 401), (b"Bearer secret-onee", 401), (b"Bearer ", 401),
                         (b"Bearer", 401), (b"Basic secret-one", 401), (b"secret-one", 401), (b"Bearer # keys", 401)):
        s = server.connect()
        s.sendall(head(HOST, *([b"Authorization: " + header] if header is not None else []), first=b"GET /nothing HTTP/1.1"))
        seen = statuses(s.recv(4096))
        check(seen == [want], f"key {header}: {want}", seen)
        s.close()
    s = server.connect()
    s.sendall(head(HOST))
    check(statuses(s.recv(4096)) == [200], "health needs no key")
    s.sendall(head(HOST, b"Content-Length: 100000", first=b"POST /v1/completions HTTP/1.1"))
    answer, closed = read_all(s)
    check(statuses(answer) == [401] and closed, "without a key no body is read", answer)
    server.stop()


def options():
    server = Server("--max-body", "1024")
    s = server.connect()
    s.sendall(head(HOST, b"Content-Length: 1025", first=b"POST /v1/models HTTP/1.1"))
    check(statuses(s.recv(4096))[:1] in ([413], [404], [405]), "--max-body")
    s.close()
    # Pages of other sites.
    for origin, want in ((b"http://a", 200), (b"http://b", 403), (b"null", 403), (b"https://a", 200), (b"http://a.b", 403)):
        s = server.connect()
        s.sendall(head(HOST, b"Origin: " + origin))
        seen = statuses(s.recv(4096))
        check(seen == [want], f"origin {origin}: {want}", seen)
        s.close()
    server.stop()


def main():
    server = Server()
    slow_ones = threading.Thread(target=slow, args=(server,))
    slow_ones.start()
    threads = []
    for name, data, right in probes():
        threads.append(threading.Thread(target=run_probe, args=(server, name, data, right)))
        threads[-1].start()
    for t in threads: t.join()
    pipelined(server)
    torn(server)
    slow_ones.join()
    server.stop()
    if not ADDRESS:
        keys()
        options()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
