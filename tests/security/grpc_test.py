#!/usr/bin/env python3
"""grpc_test.py TENON -- what no client of gRPC sends: wrong frames, floods, bombs, cut messages, clients that do not read.

Each probe has a connection of its own.  What it may end with: an answer with a status of gRPC or HTTP, a reset of the stream, or the
end of the connection; never an answer that counts the request as sound, and never a server that is gone, hangs or grows.  The last
line is `N passed, N failed`.
"""
import atexit, gzip, os, re, signal, socket, struct, subprocess, sys, threading, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from grpc_client import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
                         Client, field, frame, header, hpack_int, message, packed, request_headers, settings)

SERVICE = "/inference.GRPCInferenceService/"
LIVE, INFER, STREAM = SERVICE + "ServerLive", SERVICE + "ModelInfer", SERVICE + "ModelStreamInfer"
EMPTY = message(b"")
BOMB = gzip.compress(bytes(17 << 20))  # some 17 KB
INVALID, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 8, 12, 13
passed = failed = 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:300]}")


def limit(name):
    text = open(os.path.join(ROOT, "src/serve/limits.def")).read()
    return eval(re.search(rf"SERVE_LIMIT\({name}, [^,]+, ([^,]+),", text)[1], {})


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([sys.argv[1], "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        line = self.process.stderr.readline()
        self.port = int(re.search(r'"port":(\d+)', line)[1])
        self.grpc = int((re.search(r'"grpc_port":(\d+)', line) or [0, 0])[1])
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def pages(self): return int(open(f"/proc/{self.pid()}/statm").read().split()[1])

    def pid(self): return self.process.pid

    def alive(self):
        c = Client(self.grpc)
        fine = c.call(LIVE)[0] == 0
        c.close()
        return fine and self.process.poll() is None


def ends(server, data, preface=PREFACE + settings(), seconds=10):
    """(error of GOAWAY, error of a reset, headers of stream 1, closed) behind `data`."""
    c = Client.__new__(Client)
    c.socket = socket.create_connection(("127.0.0.1", server.grpc), timeout=seconds)
    c.streams, c.next, c.buffer, c.initial, c.window, c.goaway, c.closed, c.seen = {}, 3, bytearray(), 65535, 65535, None, False, []
    s = type("S", (), {"data": bytearray(), "heads": [], "over": False, "reset": None, "window": 65535})()
    c.streams[1] = s
    try: c.socket.sendall(preface + data)
    except OSError: pass
    try:
        while not s.over and c.goaway is None and c.read(): pass
        while c.goaway is not None and not c.closed and c.read(): pass
    except (socket.timeout, TimeoutError): pass
    c.close()
    heads = dict(p for h in s.heads for p in h)
    return (c.goaway or [None, None])[1], s.reset, heads, c.closed


def call(path=LIVE, body=EMPTY, **more):
    data = b"".join(frame(DATA, END_STREAM if i + 16384 >= len(body) else 0, 1, body[i : i + 16384]) for i in range(0, max(len(body), 1), 16384))
    return frame(HEADERS, END_HEADERS, 1, request_headers(path, **more)) + data


def connection_errors(server):
    """Frames that are wrong: the connection ends, with GOAWAY or at once."""
    head = frame(HEADERS, END_HEADERS, 1, request_headers(LIVE))
    open_block = frame(HEADERS, 0, 1, request_headers(LIVE))
    cases = [("a frame over SETTINGS_MAX_FRAME_SIZE", head + frame(DATA, 0, 1, bytes(16385))), ("a length of 2^24 - 1", b"\xff\xff\xff" + bytes([DATA, 0]) + struct.pack(">I", 1)),
             ("DATA on stream 0", frame(DATA, 0, 0, b"x")), ("HEADERS on stream 0", frame(HEADERS, END_HEADERS, 0, request_headers(LIVE))), ("HEADERS on an even stream", frame(HEADERS, END_HEADERS, 2, request_headers(LIVE))),
             ("DATA on an idle stream", frame(DATA, 0, 5, b"x")), ("RST_STREAM on an idle stream", frame(RST_STREAM, 0, 5, bytes(4))), ("RST_STREAM of 3 bytes", head + frame(RST_STREAM, 0, 1, bytes(3))),
             ("WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 5, struct.pack(">I", 1))), ("WINDOW_UPDATE of 0", frame(WINDOW_UPDATE, 0, 0, bytes(4))), ("WINDOW_UPDATE of 5 bytes", frame(WINDOW_UPDATE, 0, 0, bytes(5))),
             ("a window over 2^31 - 1", frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1)) * 2), ("SETTINGS of 7 bytes", frame(SETTINGS, 0, 0, bytes(7))), ("SETTINGS on a stream", frame(SETTINGS, 0, 1)),
             ("SETTINGS ACK with a payload", frame(SETTINGS, ACK, 0, bytes(6))), ("a window of 2^31", settings((4, 2**31))), ("a frame size of 100", settings((5, 100))), ("push of 2", settings((2, 2))),
             ("PING of 7 bytes", frame(PING, 0, 0, bytes(7))), ("PING on a stream", frame(PING, 0, 1, bytes(8))), ("GOAWAY of 4 bytes", frame(GOAWAY, 0, 0, bytes(4))), ("PUSH_PROMISE", head + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4) + request_headers(LIVE))),
             ("CONTINUATION without HEADERS", frame(CONTINUATION, END_HEADERS, 1, b"")), ("a frame within a block", open_block + frame(PING, 0, 0, bytes(8))), ("CONTINUATION of another stream", open_block + frame(CONTINUATION, END_HEADERS, 3, b"")),
             ("padding longer than the frame", frame(DATA, 8, 1, b"\xff")),
             ("HPACK: an index that is not there", frame(HEADERS, END_HEADERS, 1, b"\xff\x80\x01")), ("HPACK: index 0", frame(HEADERS, END_HEADERS, 1, b"\x80")), ("HPACK: a cut literal", frame(HEADERS, END_HEADERS, 1, b"\x00\x05ab")),
             ("HPACK: a number of 10 bytes", frame(HEADERS, END_HEADERS, 1, b"\x00\x7f" + b"\xff" * 10)), ("HPACK: a table of 1 GB", frame(HEADERS, END_HEADERS, 1, hpack_int(1 << 30, 5, 0x20))), ("HPACK: bad Huffman", frame(HEADERS, END_HEADERS, 1, b"\x00\x84\xff\xff\xff\xff\x00"))]
    for what, data in cases:
        error, _, heads, closed = ends(server, data)
        check(closed and heads.get("grpc-status") != "0", what, (error, heads, closed))
    for what, first in (("noise", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 5), ("HTTP/1.1", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ("a cut preface and more", PREFACE[:20] + b"XXXX" + settings()), ("no SETTINGS", PREFACE + call())):
        error, _, heads, closed = ends(server, b"", first)
        check(closed and heads.get("grpc-status") != "0", f"it begins with {what}", (error, heads, closed))


def stream_errors(server):
    """Calls that are wrong: a status, or a reset."""
    big = {f"x-{i}": "v" * 100 for i in range(90)}
    ok = ends(server, call())
    check(ok[2].get("grpc-status") == "0", "a call that is sound", ok)
    cases = [("GET", call(**{":method": "GET"}), {":status": "405"}), ("no content type", call(content_type=None), {":status": "415"}), ("JSON", call(content_type="application/json"), {":status": "415"}), ("gRPC-web", call(content_type="application/grpc-web+proto"), {":status": "415"}),
             ("no path", call(**{":path": None}), None), ("a name in capitals", call(**{"X-Y": "z"}), None), ("a connection header", call(connection="close"), None), ("te of another value", call(te="gzip"), None), ("a pseudo header behind others", frame(HEADERS, END_HEADERS, 1, request_headers(LIVE) + header(":path", LIVE)), None),
             ("a line end in a header", call(**{"x": "a\r\nb"}), None), ("an unknown pseudo header", call(**{":what": "x"}), None), ("two keys", frame(HEADERS, END_HEADERS, 1, request_headers(LIVE, authorization="a") + header("authorization", "b")) + frame(DATA, END_STREAM, 1, EMPTY), {":status": "400"}),
             ("no such method", call(SERVICE + "What"), {"grpc-status": str(UNIMPLEMENTED)}), ("no such service", call("/x"), {"grpc-status": str(UNIMPLEMENTED)}), ("a path of 8 KiB", call("/" + "a" * 8192), {"grpc-status": str(UNIMPLEMENTED)}),
             ("an unknown coding", call(grpc_encoding="br"), {"grpc-status": str(UNIMPLEMENTED)}), ("a bad time", call(grpc_timeout="1x"), {"grpc-status": str(INVALID)}), ("compressed, but not said", call(body=message(b"x", 1)), {"grpc-status": str(INTERNAL)}),
             ("a flag of 7", call(body=message(b"", 7)), {"grpc-status": str(INTERNAL)}), ("no gzip", call(body=message(b"xxxx", 1), grpc_encoding="gzip"), {"grpc-status": str(INTERNAL)}), ("cut gzip", call(body=message(gzip.compress(bytes(100))[:-9], 1), grpc_encoding="gzip"), {"grpc-status": str(INTERNAL)}),
             ("a gzip bomb", call(body=message(BOMB, 1), grpc_encoding="gzip"), {"grpc-status": str(EXHAUSTED)}), ("a message of 4 GB", call(body=b"\0\xff\xff\xff\xff"), {"grpc-status": str(EXHAUSTED)}),
             ("no message", call(body=b""), {"grpc-status": str(INVALID)}), ("two messages", call(body=EMPTY * 2), {"grpc-status": str(INVALID)}), ("a cut prefix", call(body=b"\0\0"), {"grpc-status": str(INVALID)}), ("a cut message", call(body=message(b"xxxx")[:-1]), {"grpc-status": str(INVALID)}),
             ("bad protobuf", call(INFER, message(b"\xff" * 9)), {"grpc-status": str(INVALID)}), ("groups in groups", call(INFER, message(b"\x0b" * 5000)), {"grpc-status": str(INVALID)}), ("metadata of 10 KB", call(**big), {"grpc-status": "0"}),
             ("101 headers", call(**{f"x-{i}": "v" for i in range(101)}), {"grpc-status": str(EXHAUSTED)}), ("content-length that lies", call(content_length="99"), None)]
    for what, data, want in cases:
        error, reset, heads, closed = ends(server, data)
        if want is None: fine = reset not in (None, 0) or error not in (None, 0) or closed or heads.get(":status", "200") != "200" or heads.get("grpc-status", "0") != "0"
        else: fine = all(heads.get(k) == v if v else heads.get(k, "0") != "0" for k, v in want.items())
        check(fine, what, (error, reset, heads, closed))
    bomb = header("x", "y" * 4000)[1:]  # a row of the dynamic table, then named again and again
    block = request_headers(LIVE) + b"\x40" + bomb + b"\xbe" * 12000
    error, reset, heads, closed = ends(server, frame(HEADERS, END_HEADERS, 1, block))
    check(closed or heads.get("grpc-status") == str(EXHAUSTED), "an HPACK bomb of 48 MB", (error, reset, heads, closed))


def flood(server, what, data, rounds=4000, first=b""):
    """The connection ends before the client has sent it all, or with GOAWAY."""
    c = Client(server.grpc, first=first)
    c.socket.settimeout(10)
    try:
        for i in range(rounds): c.socket.sendall(data(i) if callable(data) else data)
    except OSError: pass
    try: closed = c.wait_closed(10)
    except OSError: closed = True
    c.close()
    check(closed, what + ": the connection ends", c.goaway)


def floods(server):
    before = server.pages()
    flood(server, "pings", frame(PING, 0, 0, bytes(8)) * 16)
    flood(server, "settings", settings((3, 100)) * 16)
    flood(server, "window updates", frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 16)
    flood(server, "priorities", frame(PRIORITY, 0, 1, bytes(5)) * 16)
    flood(server, "rapid resets", lambda i: b"".join(frame(HEADERS, END_HEADERS, n, request_headers(INFER)) + frame(RST_STREAM, 0, n, struct.pack(">I", 8)) for n in range(1 + 32 * i, 33 + 32 * i, 2)))
    flood(server, "continuations", frame(CONTINUATION, 0, 1, b"") * 16, first=frame(HEADERS, 0, 1, request_headers(LIVE)))
    flood(server, "continuations with headers", frame(CONTINUATION, 0, 1, header("x", "y" * 100) * 100), 100, frame(HEADERS, 0, 1, request_headers(LIVE)))
    flood(server, "empty data", frame(DATA, 0, 1, b"") * 16, first=frame(HEADERS, END_HEADERS, 1, request_headers(STREAM)))
    c = Client(server.grpc)
    check(c.call(LIVE)[0] == 0, "a call, behind which the settings are agreed on")
    for _ in range(limit("GRPC_CALLS") + 1): c.stream(STREAM)
    check(c.wait_closed(10) and c.goaway and c.goaway[1] == 1, "more calls than were agreed on: PROTOCOL_ERROR", c.goaway)
    c.close()
    c = Client(server.grpc, first=frame(0x77, 0, 0, b"x") * 100000)
    check(c.call(LIVE)[0] == 0, "frames of unknown types are let pass")
    c.close()
    flood(server, "a client that reads nothing of its pings", frame(PING, 0, 0, bytes(8)) * 64, 20000)
    check(server.alive(), "the server is there after the floods")
    check((server.pages() - before) * 4096 < 64 << 20, "it did not grow by 64 MiB", (before, server.pages()))
    flooded = [line for line in server.log if "flood" in line]
    check(flooded, "the log says so")


def windows(server):
    """A client that takes nothing of an answer holds nobody up."""
    closed = Client(server.grpc, window=0)
    calls = [closed.stream(LIVE) for _ in range(50)]
    for s in calls: s.send(b"", end=True)
    check(server.alive(), "windows of 0 hold nobody up")
    for s in calls: closed.write(frame(WINDOW_UPDATE, 0, s.number, struct.pack(">I", 1000)))
    check(all(s.answers() and s.status()[0] == 0 for s in calls), "and are answered once they open")
    closed.close()
    # Many streams with messages that have begun: what has come counts, not what is promised.
    before = server.pages()
    c = Client(server.grpc)
    for _ in range(100): c.stream(STREAM).send_raw(b"\0\0\xff\0\0" + b"x" * 100)
    check(c.call(LIVE)[0] == 0 and (server.pages() - before) * 4096 < 16 << 20, "lengths that are promised take no memory", (before, server.pages()))
    c.close()


def slow(server):
    """A message that never ends is refused in time, as is a connection that does not begin; a stream may wait; a cut connection frees its calls."""
    silent = socket.create_connection(("127.0.0.1", server.grpc), timeout=20)
    c = Client(server.grpc, timeout=60)
    waits = c.stream(STREAM)
    s = c.stream(INFER)
    s.send_raw(b"\0\0\0\1\0" + b"x")
    cuts = [Client(server.grpc) for _ in range(20)]
    for k in cuts:
        k.stream(STREAM).send(field(1, "none"))
        k.write(frame(HEADERS, END_HEADERS, 9, request_headers(INFER))[:30])
        k.close()
    check(server.alive(), "cut frames")
    s.answers()
    check(s.status()[0] == 4, "a message that does not come", s.status())
    waits.send(field(1, "none"))
    check(len(waits.answers(1)) == 1, "a stream that waited", waits.status())
    check(silent.recv(1000)[-1:] != b"x" and silent.recv(1000) == b"", "a connection that does not begin is closed")
    c.close()


def broken_streams(server):
    """A message that cannot be read behind one that is being answered: the call ends, and nothing answers it later."""
    sound = message(field(1, "mlp") + field(5, field(1, "x") + field(2, "FP32") + packed(3, (1, 4))) + field(7, bytes(16)))
    for what, behind, end in (("a cut message", b"\0", True), ("a flag of 2", b"\2\0\0\0\0", False), ("a message of 4 GB", b"\0\xff\xff\xff\xff", False)):
        for _ in range(12):
            c = Client(server.grpc)
            s = c.stream(STREAM)
            s.send_raw(sound * 3 + behind, end)
            s.answers()
            check(s.status()[0] in (INVALID, EXHAUSTED, INTERNAL), f"{what} behind sound ones", s.status())
            c.close()
    time.sleep(0.2)
    check(server.alive(), "the server is there when their answers come")


def same_port(server):
    """The port of HTTP takes both, and tells them apart however the bytes come."""
    for step in (1, 7, 24):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, 24, step):
            s.sendall(PREFACE[i : i + step])
            time.sleep(0.01)
        s.sendall(settings())
        got = s.recv(9)
        check(got[3:4] == bytes([SETTINGS]), f"HTTP/2 on the port of HTTP, {step} bytes at a time", got)
        s.close()
    c = Client(server.port)
    check(c.call(LIVE)[0] == 0, "a call there")
    c.close()
    s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    s.sendall(b"P")
    time.sleep(0.05)
    s.sendall(b"OST /v2/models/none/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
    check(b" 404 " in s.recv(1000), "a POST whose first byte comes alone")
    s.close()


def main():
    p = subprocess.run([sys.argv[1], "serve", "--port", "0", "--grpc-port", "0", "none"], capture_output=True, text=True)
    if "without gRPC" in p.stderr:
        print("SKIP tenon-serve was built without gRPC\n0 passed, 0 failed")
        return 0
    server = Server("--grpc-port", "0", os.path.join(ROOT, "tests", "models", "mlp.onnx"))
    late = threading.Thread(target=slow, args=(server,))
    late.start()  # it waits for SERVE_BODY_SECONDS
    connection_errors(server)
    stream_errors(server)
    broken_streams(server)
    same_port(server)
    windows(server)
    floods(server)
    late.join()
    check(server.alive(), "the server is there at the end")
    server.process.send_signal(signal.SIGTERM)
    check(server.process.wait(20) == 0, "it ends with status 0")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
