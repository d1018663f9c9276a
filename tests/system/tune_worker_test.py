#!/usr/bin/env python3
"""tune_worker_test.py [MODE] -- workers of `tenon tune`, good ones and bad ones.

Schedules that workers find give the same bits.  A worker of another feature set gives schedules for its own machine.  With MODE this
program is a worker itself: it passes frames on to a real one, and spoils what comes back.  The tuner must name the reason, drop it and
go on with the other worker.  What a worker gets on its standard input is damaged as well.  MODES in the environment takes a part of the modes.
"""
import json, os, subprocess, sys, tempfile, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")
INPUT = "image=" + os.path.join(ROOT, "examples", "digits", "digits.npy")
HEADER = 16
# What the tuner says of each; a lie is told from the second answer on, when the tuner trusts it.
REASON = {"garbage": "no frame", "chatter": "no frame", "die": "it has ended", "hang": "did not answer in time", "cut": "it has ended",
          "flip": "damaged frame", "huge": "no frame", "bits": "other bits", "faster": "copies of one kernel", "long": "longer than it did",
          "more": "more times", "fewer": "number of kernels", "other": "another task", "negative": "wrong time", "version": "of version"}
failed = 0


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8): i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for b in data: crc = table[(crc ^ b) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frame(kind, text):
    return b"TNWK" + bytes([1, kind, 0, 0]) + len(text).to_bytes(4, "little") + crc32c(text).to_bytes(4, "little") + text


def read_frame(f):
    head = f.read(HEADER)
    if len(head) < HEADER: return None
    return head[5], f.read(int.from_bytes(head[8:12], "little"))


def spoil(mode, answer):
    x = json.loads(answer)
    if mode == "bits":
        for k in x["kernels"]: k["hash"] = "0" * 64 if k["hash"] else ""
    if mode == "faster": x["kernels"] = [x["kernels"][0]] + [{**k, "ns": [max(n // 9, 1) for n in k["ns"]]} for k in x["kernels"][1:]]
    if mode == "long": x["kernels"][0]["ns"] = [n + 10**12 for n in x["kernels"][0]["ns"]]
    if mode == "more": x["kernels"][0]["ns"] *= 5
    if mode == "fewer": x["kernels"].pop()
    if mode == "other": x["task"] += 1
    if mode == "unable": x["kernels"] = [{**k, "status": "failed", "why": "short of memory", "hash": "", "code_bytes": 0, "ns": []} for k in x["kernels"]]
    if mode == "negative": x["kernels"][0]["ns"] = [-1]
    return json.dumps(x, separators=(",", ":")).encode()


def be_worker(mode):
    out = sys.stdout.buffer
    send = lambda data: (out.write(data), out.flush())
    if mode == "garbage": return send(os.urandom(4096))
    if mode == "chatter": send(b"Welcome to the machine room!\n")
    p = subprocess.Popen([TENON, "tune", "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    kind, hello = read_frame(p.stdout)
    if mode == "version": hello = json.dumps({**json.loads(hello), "tool": "0.0.0"}).encode()
    send(frame(kind, hello))
    for n in range(10**6):
        got = read_frame(sys.stdin.buffer)
        if not got: break
        p.stdin.write(frame(*got)); p.stdin.flush()
        kind, answer = read_frame(p.stdout)
        if n == 0: send(frame(kind, answer)); continue
        if mode == "die": break
        if mode == "hang": sys.stdin.buffer.read()
        if mode == "cut": send(frame(kind, answer)[:-9]); break
        if mode == "huge": send(frame(kind, answer)[:8] + b"\xff" * 8); break
        whole = frame(kind, spoil(mode, answer))
        send(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:] if mode == "flip" else whole)
    p.stdin.close(); p.wait()


def check(ok, what):
    global failed
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    failed += not ok


def main():
    good, bad = f"{TENON} tune worker", lambda mode: f"{sys.executable} {os.path.abspath(__file__)} {mode}"
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)

        def tune(*workers, to="s", seconds=1.5, env={}):
            p = subprocess.run([TENON, "tune", MODEL, "--input", INPUT, "--time", f"{seconds}s", "--db", at("db"), "--fresh", "-o", at(to), "--json",
                                *("--worker=" + w for w in workers)], capture_output=True, text=True, env={**os.environ, **env})
            return p.returncode, json.loads(p.stdout) if p.stdout else {}, p.stderr

        def outputs(*more, env={}):
            p = subprocess.run([TENON, "run", MODEL, "--target", "cpu", "--input", INPUT, "--output", at("out.npz"), *more], capture_output=True, text=True, env={**os.environ, **env})
            if p.returncode: return p.stderr
            with open(at("out.npz"), "rb") as f: return f.read()

        plain = outputs()
        rc, said, err = tune(good, good)
        check(rc == 0 and said["trials"] > 0 and not said["wrong"] and not said["workers_dropped"] and not said["model_was_run"], f"two workers: {err.strip()[-150:]}")
        check(outputs("--tuned", at("s")) == plain, "the same bits")
        host = subprocess.run([TENON, "tune", "list", "--db", at("db")], capture_output=True, text=True).stdout
        check("digits.onnx" in host, "the run is in the database")
        rc, said, err = tune("env TENON_FEATURES=-sse4.1 " + good, to="other")
        with open(at("other")) as f: machine = f.readlines()[1]
        check(rc == 0 and "vector=16" in machine, f"schedules are for the worker's machine: {machine.strip()} {err.strip()[-150:]}")
        check("another machine" in str(outputs("--tuned", at("other"))) or "vector=16" in str(outputs("--tuned", at("other"))) or "x86_64" not in os.uname().machine, "and for no other")
        check(outputs("--tuned", at("other"), env={"TENON_FEATURES": "-sse4.1"}) == outputs(env={"TENON_FEATURES": "-sse4.1"}), "the same bits there")
        rc, _, err = tune(good, "env TENON_FEATURES=-sse4.1 " + good)
        check(rc == 0 and "of another kind" in err, "a machine of another kind is dropped")

        for mode in os.environ.get("MODES", " ".join(REASON)).split():
            rc, said, err = tune(bad(mode), good, to="with", seconds=12 if mode == "hang" else 1.5)
            if not rc and REASON[mode] not in err: rc, said, err = tune(bad(mode), good, to="with", seconds=6)  # a busy machine
            check(rc == 0 and said["trials"] > 0 and REASON[mode] in err and said["workers_dropped"] == 1, f"{mode}: {err.strip()[-150:]}")
            check(outputs("--tuned", at("with")) == plain, f"{mode}: the same bits")
        rc, said, err = tune(bad("unable"), good, to="with")
        check(rc == 0 and said["trials"] > 0 and not said["workers_dropped"], f"one that cannot run the default leaves its share to the other: {err.strip()[-150:]}")
        check(outputs("--tuned", at("with")) == plain, "the same bits without it")
        rc, said, err = tune(bad("unable"), to="none")
        check(rc == 0 and not said["kernels"], f"nobody can: {err.strip()[-150:]}")
        rc, _, err = tune("false", "exit 3", to="none2")
        check(rc == 1 and "no worker is left" in err and not os.path.exists(at("none2")), f"no worker: {err.strip()[-150:]}")

        p = subprocess.Popen([TENON, "tune", "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        read_frame(p.stdout)
        with open(f"/proc/{p.pid}/status") as f: status = f.read()
        check("NoNewPrivs:\t1" in status and ("Seccomp:" not in status or "Seccomp:\t2" in status), "a worker has given up its rights")
        p.stdin.close(); p.wait()
        for what, data in (("nothing", b""), ("words", b"hello, is anybody there?"), ("half a frame", frame(2, b"{}")[:9]), ("no task", frame(2, b"{}")),
                           ("another frame", frame(1, b"{}")), ("damage", frame(2, b"{}")[:-1] + b"!"), ("a length", b"TNWK\1\2\0\0\xff\xff\xff\xff\0\0\0\0")):
            p = subprocess.run([TENON, "tune", "worker"], input=data, capture_output=True)
            check(p.returncode == (0 if not data else 1) and p.stdout[:4] == b"TNWK" and bool(p.stderr) == bool(data), f"a worker gets {what}: {p.stderr.decode().strip()[-100:]}")
    return failed > 0


if len(sys.argv) > 1: be_worker(sys.argv[1])
else: sys.exit(main())
