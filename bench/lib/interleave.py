"""interleave.py -- runtimes that are measured interleaved: each a process of its own (contender.py), which stands still (SIGSTOP) meanwhile."""
import json, os, signal, statistics, subprocess, sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tenon = os.environ.get("TENON", os.path.join(root, "build", "tenon"))


class Ended(Exception):
    """A runtime that could not do what it was asked."""


class Contender:
    def __init__(self, kind, path, inputs, threads, env=None, clock="wall"):
        command = [sys.executable, os.path.join(root, "bench", "lib", "contender.py"), kind, path, inputs, str(threads), clock]
        self.log = open(os.devnull if not os.environ.get("BENCH_LOG") else os.environ["BENCH_LOG"], "a")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=dict(os.environ, **(env or {})))
        self.made_ms = self.answer()["made_ms"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line: raise Ended(f"ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, what):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
        except BrokenPipeError: raise Ended("ended")
        answer = self.answer()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def open(self, path, inputs):
        """A session of another model in place of this one."""
        answer = self.ask(f"open {path} {inputs}")
        if "failed" in answer: raise Ended(answer["failed"])
        self.made_ms = answer["made_ms"]

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


def difference(a, b):
    """The largest difference of two archives' outputs, as a share of the largest element; infinite where they have other shapes."""
    import numpy as np
    worst = 0.0
    with np.load(a) as x, np.load(b) as y:
        if sorted(x) != sorted(y): return float("inf")
        for name in x:
            if x[name].size != y[name].size: return float("inf")
            if not y[name].size: continue
            far = float(np.abs(x[name].ravel().astype(float) - y[name].ravel()).max() / max(np.abs(y[name]).max(), 1e-30))
            worst = max(worst, far) if far == far else float("inf")
    return worst


def probe(threads):
    """Nanoseconds that a cache line takes to another core and back, now; None on one thread."""
    if threads < 2: return None
    r = subprocess.run([tenon, "doctor", "--round-trip", "--json"], capture_output=True, text=True)
    return json.loads(r.stdout).get("round_trip_ns") if r.returncode == 0 else None


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def rounds(contenders, count, seconds, threads, note=lambda i: None):
    """Name to its times: in `count` rounds each contender runs for `seconds`, and none is always the first."""
    names = list(contenders)
    times, trips = {name: [] for name in names}, []
    for i in range(count):
        note(i)
        trips.append(probe(threads))
        first = i % len(names)
        for name in names[first:] + names[:first]: times[name].append(contenders[name].ask(str(seconds))["ms"])
    out = {}
    for name in names:
        medians = [statistics.median(ms) for ms in times[name]]
        out[name] = {"rounds_ms": medians, "ms": spread(medians), "min_ms": min(min(ms) for ms in times[name]), "runs": sum(map(len, times[name]))}
    return out, trips
