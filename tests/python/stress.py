#!/usr/bin/env python3
"""stress.py -- many threads that call models for a while, with models made and freed and processes forked meanwhile.

usage: stress.py [--threads N] [--seconds N] [MODEL...]

Every result is compared, bit for bit, with what the model gave at first.  Memory must not grow: resident memory after half of the time and at the
end are printed, and differ by less than a tenth.  The last line is `N passed, N failed`.
"""
import argparse, gc, os, random, signal, sys, threading, time


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import tenon
from tenon.profile import random_inputs

DEFAULT = [os.path.join(ROOT, "examples", "digits", "digits.onnx")]
GROWTH_MAX = 64  # megabytes that may come besides the tenth: allocators keep some


def resident():
    with open("/proc/self/statm") as f: return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


class Case:
    """A model with inputs of several sizes, and what it gives for each."""

    def __init__(self, path):
        self.path, self.model = path, tenon.compile(path)
        symbols = {s for v in self.model.inputs for s in v.shape or () if isinstance(s, str)}
        self.feeds = [random_inputs(self.model, {s: n for s in symbols}, seed=n) for n in ((1, 2, 7) if symbols else (1,))]
        self.want = [self.bits(self.model(*f)) for f in self.feeds]

    @staticmethod
    def bits(y):
        return [v.tobytes() for v in (y if isinstance(y, tuple) else (y,))]

    def check(self, call, k):
        return self.bits(call(*self.feeds[k])) == self.want[k]


class Stress:
    def __init__(self, cases):
        self.cases, self.stop, self.calls, self.wrong, self.lock = cases, threading.Event(), 0, [], threading.Lock()

    def call(self, seed):
        rng, done = random.Random(seed), 0
        own = [c.model.session(threads=1) for c in self.cases] if seed % 2 else None
        while not self.stop.is_set():
            i = rng.randrange(len(self.cases))
            case, k = self.cases[i], rng.randrange(len(self.cases[i].feeds))
            if not case.check(own[i] if own else case.model, k): self.wrong.append(f"{case.path} gave other bits")
            done += 1
        with self.lock: self.calls += done

    def make(self):
        """Models come and go."""
        while not self.stop.is_set():
            case = random.choice(self.cases)
            if not case.check(tenon.compile(case.path), 0): self.wrong.append(f"{case.path}, compiled again, gave other bits")
            time.sleep(0.05)

    def fork(self):
        """A forked child calls everything once."""
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            ok = all(c.check(c.model, 0) for c in self.cases)
            os._exit(0 if ok else 1)
        if os.waitpid(pid, 0)[1]: self.wrong.append("a forked child failed")

    def run(self, nthreads, seconds):
        threads = [threading.Thread(target=self.call, args=(k,)) for k in range(nthreads)] + [threading.Thread(target=self.make)]
        for t in threads: t.start()
        begin, half, forks = time.monotonic(), 0, 0
        while time.monotonic() < begin + seconds and not self.wrong:
            time.sleep(min(1.0, seconds / 4))
            self.fork()
            forks += 1
            if not half and time.monotonic() > begin + seconds / 2: half = resident()
        self.stop.set()
        for t in threads: t.join()
        gc.collect()
        return forks, half


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", type=int, default=8)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("models", nargs="*", default=DEFAULT)
    a = p.parse_args()
    stress = Stress([Case(path) for path in a.models])
    forks, half = stress.run(a.threads, a.seconds)
    end = resident()
    grown = half and end > half * 1.1 + GROWTH_MAX
    print(f"{stress.calls} calls by {a.threads} threads in {a.seconds:g} s, {forks} forked children; {half} MB resident at half time, {end} at the end")
    for line in sorted(set(stress.wrong)): print(line)
    if grown: print("memory has grown")
    failed = len(set(stress.wrong)) + bool(grown)
    print(f"{1 if not failed else 0} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__": sys.exit(main())
