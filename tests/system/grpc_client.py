"""grpc_client.py -- a client of gRPC in the standard library alone: frames of HTTP/2, HPACK, protobuf.

    c = Client(port)
    status, message, answers, headers = c.call("/inference.GRPCInferenceService/ServerLive", b"")
    s = c.stream("/inference.GRPCInferenceService/ModelStreamInfer"); s.send(...); s.end(); s.answers()

One connection, one thread.  Tests that send what no client sends use frame() and headers().
"""
import gzip, socket, struct, time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# ---- HPACK ----
STATIC = [""] + """:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate""".split("\n")
# Lengths of the codes of symbols 0 to 256, A for 5 bits; the code is canonical (RFC 7541, appendix B).
LENGTHS = ("ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX"
           "PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ")


def codes():
    code, last, out = 0, 0, {}
    for symbol in sorted(range(257), key=lambda i: (LENGTHS[i], i)):
        n = ord(LENGTHS[symbol]) - ord("A") + 5
        code <<= n - last
        out[(n, code)] = symbol
        code, last = code + 1, n
    return out


CODES = codes()


def huffman(data):
    out, code, n = bytearray(), 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, n = code << 1 | byte >> bit & 1, n + 1
            if (n, code) in CODES:
                out.append(CODES[(n, code)])
                code = n = 0
    return bytes(out)


def hpack_int(value, bits, first=0):
    most = (1 << bits) - 1
    if value < most: return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def header(name, value):
    """A literal that no table keeps."""
    name, value = (x.encode() if isinstance(x, str) else x for x in (name, value))
    return b"\0" + hpack_int(len(name), 7) + name + hpack_int(len(value), 7) + value


def hpack_read(block):
    """Headers of a block whose writer has no dynamic table."""
    at, out = 0, []

    def integer(bits):
        nonlocal at
        most = (1 << bits) - 1
        value, at = block[at] & most, at + 1
        if value < most: return value
        shift = 0
        while True:
            byte, at = block[at], at + 1
            value += (byte & 127) << shift
            shift += 7
            if byte < 128: return value

    def text():
        nonlocal at
        coded = block[at] & 128
        n = integer(7)
        at += n
        return (huffman(block[at - n : at]) if coded else block[at - n : at]).decode("latin-1")

    def static(i): return (STATIC[i].split(" ", 1) + [""])[:2]

    while at < len(block):
        if block[at] & 128: out.append(tuple(static(integer(7))))
        elif block[at] & 0xE0 == 0x20: integer(5)  # the size of the dynamic table
        else:
            i = integer(6 if block[at] & 64 else 4)
            name = static(i)[0] if i else text()
            out.append((name, text()))
    return out


# ---- frames ----
def frame(kind, flags, stream, payload=b""): return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(*rows): return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *r) for r in rows))


def request_headers(path, **more):
    rows = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test", "te": "trailers", "content-type": "application/grpc"}
    rows.update({k.replace("_", "-") if not k.startswith(":") else k: v for k, v in more.items()})
    return b"".join(header(k, v) for k, v in rows.items() if v is not None)


def message(body, packed=0): return bytes([packed]) + struct.pack(">I", len(body)) + body


class Stream:
    def __init__(self, client, number, path, **more):
        self.client, self.number = client, number
        self.window, self.data, self.heads, self.over, self.reset = client.initial, bytearray(), [], False, None
        client.streams[number] = self
        client.write(frame(HEADERS, END_HEADERS, number, request_headers(path, **more)))

    def send(self, body, end=False, coding=None):
        if coding == "gzip": data = message(gzip.compress(body), 1)
        else: data = message(body)
        self.send_raw(data, end)

    def send_raw(self, data, end=False):
        while data and not self.over and self.reset is None:
            n = min(len(data), 16384, self.window, self.client.window)
            if n <= 0:
                self.client.read()
                continue
            self.client.write(frame(DATA, END_STREAM if end and n == len(data) else 0, self.number, bytes(data[:n])))
            data = data[n:]
            self.window -= n
            self.client.window -= n
            if not data: return
        if end and not self.over: self.end()

    def end(self): self.client.write(frame(DATA, END_STREAM, self.number))

    def cancel(self): self.client.write(frame(RST_STREAM, 0, self.number, struct.pack(">I", 8)))

    def answers(self, count=None):
        """Messages so far; waits for `count`, or for the end."""
        while not self.over and (count is None or len(self.messages()) < count): self.client.read()
        return self.messages()

    def messages(self):
        out, at = [], 0
        while at + 5 <= len(self.data):
            n = struct.unpack_from(">I", self.data, at + 1)[0]
            if at + 5 + n > len(self.data): break
            out.append(bytes(self.data[at + 5 : at + 5 + n]))
            at += 5 + n
        return out

    def headers(self): return dict(pair for head in self.heads for pair in head)

    def status(self):
        h = self.headers()
        return (int(h["grpc-status"]) if "grpc-status" in h else None), h.get("grpc-message", "")


class Client:
    def __init__(self, port, window=1 << 30, timeout=30, first=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.streams, self.next, self.buffer, self.initial, self.window = {}, 1, bytearray(), 65535, 65535
        self.goaway, self.closed, self.seen = None, False, []
        self.write(PREFACE + settings((1, 0), (4, min(window, (1 << 31) - 1))) + (frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", window)) if window > 65535 else b"") + first)

    def write(self, data):
        try: self.socket.sendall(data)
        except OSError: self.end()

    def end(self):
        self.closed = True
        for s in self.streams.values(): s.over = True

    def read(self):
        """One frame; False where the server closed."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try: part = self.socket.recv(1 << 20)
            except ConnectionError: part = b""
            if not part:
                self.end()
                return False
            self.buffer += part
        n, kind, flags = int.from_bytes(self.buffer[:3], "big"), self.buffer[3], self.buffer[4]
        stream = self.streams.get(int.from_bytes(self.buffer[5:9], "big"))
        payload = bytes(self.buffer[9 : 9 + n])
        del self.buffer[: 9 + n]
        self.seen.append(kind)
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, n, 6):
                key, value = struct.unpack_from(">HI", payload, i)
                if key == 4:
                    for s in self.streams.values(): s.window += value - self.initial
                    self.initial = value
            self.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK: self.write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY: self.goaway = struct.unpack_from(">II", payload)
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream: stream.window += more
            else: self.window += more
        elif stream and kind == RST_STREAM: stream.reset, stream.over = struct.unpack(">I", payload)[0], True
        elif stream and kind in (HEADERS, DATA):
            if kind == HEADERS: stream.heads.append(hpack_read(payload))
            else: stream.data += payload
            if flags & END_STREAM: stream.over = True
        return True

    def stream(self, path, **more):
        number, self.next = self.next, self.next + 2
        return Stream(self, number, path, **more)

    def call(self, path, body=b"", coding=None, **more):
        """(grpc-status, grpc-message, messages, headers)."""
        s = self.stream(path, **more, **({"grpc_encoding": coding} if coding else {}))
        s.send(body, end=True, coding=coding)
        answers = s.answers()
        del self.streams[s.number]
        return *s.status(), answers, s.headers()

    def wait_closed(self, seconds=20):
        self.socket.settimeout(seconds)
        try:
            while self.read(): pass
        except (socket.timeout, TimeoutError): return False
        return True

    def close(self): self.socket.close()


# ---- protobuf ----
def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v >= 128:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def field(number, value):
    """Text, bytes and lists of numbers have a length; a number is a varint, a float 4 bytes."""
    if isinstance(value, str): value = value.encode()
    if isinstance(value, bytes): return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float): return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(int(value))


def packed(number, values): return field(number, b"".join(varint(v) for v in values))


def entry(number, key, value): return field(number, field(1, key) + field(2, value))


def fields(data):
    """[(number, value)]: bytes, or a whole number."""
    at, out = 0, []

    def integer():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128: return value

    while at < len(data):
        tag = integer()
        if tag & 7 == 0: out.append((tag >> 3, integer()))
        else:
            n = {1: 8, 5: 4}.get(tag & 7) or (integer() if tag & 7 == 2 else None)
            out.append((tag >> 3, data[at : at + n]))
            at += n
    return out


def first(data, number, default=b""): return next((v for n, v in fields(data) if n == number), default)


def every(data, number): return [v for n, v in fields(data) if n == number]


def numbers(run):
    at, out, value, shift = 0, [], 0, 0
    for byte in run:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return out
