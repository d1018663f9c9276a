#!/usr/bin/env python3
"""Random ONNX models in Tenon's interpreter, in compiled code and in ONNX Runtime.

    tests/ortfuzz/run.py --models 1000            # seeds 1 to 1000; every ninth model is compiled too, every third one's loops are interpreted
    tests/ortfuzz/run.py --first 4711 --models 1  # one model again
    tests/ortfuzz/run.py --op ArgMin --models 500

Models run in a process of their own, which is started again when ONNX Runtime or Tenon ends it.  A difference that no row of
known.py explains is open: it is reduced, written to --out and makes the exit status 1.
"""

import argparse
import collections
import json
import os
import select
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PIECE = 2500  # models of a process
STALL = 120  # seconds without a finding or a tally: the model at hand hangs


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=int, default=1000)
    p.add_argument("--first", type=int, default=1, help="the first seed")
    p.add_argument("--compile", type=int, default=9, help="compile every Nth model (0: none)")
    p.add_argument("--loops", type=int, default=3, help="interpret the loops of every Nth model (0: none)")
    p.add_argument("--op", help="models that begin with this operator (DOMAIN:NAME for another domain)")
    p.add_argument("--opset", type=int, default=0, help="the last opset (default: the last one that ONNX Runtime loads, up to 26)")
    p.add_argument("--limits", action="store_true", help="limits of the types in every model")
    p.add_argument("--jobs", type=int, default=1, help="processes at a time")
    p.add_argument("--out", default="build/fuzz-ort")
    p.add_argument("--no-reference", dest="reference", action="store_false", help="do not ask onnx.reference about models that ONNX Runtime refuses")
    p.add_argument("--details", action="store_true", help="print what each operator was run with, and why models were refused")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--count", type=int, help=argparse.SUPPRESS)
    p.add_argument("--place", help=argparse.SUPPRESS)
    o = p.parse_args()
    o.only = None
    if o.op:
        domain, _, name = o.op.rpartition(":")
        o.only = (domain, name)
    return o


class Total:
    """What all processes found; one thread a process adds to it."""

    def __init__(self):
        self.done, self.lock = 0, threading.Lock()
        self.outcomes, self.rows = collections.Counter(), collections.Counter()
        self.ran, self.reasons, self.attrs = collections.Counter(), collections.Counter(), set()
        self.open, self.crashes, self.unsettled, self.examples, self.lowered = [], [], collections.Counter(), {}, collections.Counter()

    def add(self, n):
        with self.lock:
            self.done += n

    def take(self, line):
        with self.lock:
            self._take(line)

    def _take(self, line):
        if line["kind"] == "open":
            self.open.append(line)
            return
        if line["kind"] == "unsettled":
            self.examples.setdefault(line["signature"], line)
            return
        self.done += line["done"]
        for name in ("outcomes", "rows", "reasons", "unsettled", "lowered"):
            getattr(self, name).update(line[name])
        for key, n in line["ran"]:
            self.ran[tuple(key)] += n
        self.attrs.update(line["attrs"])


def child(o, first, count, place, total):
    """Runs seeds in a process; returns the next seed to run."""
    command = [sys.executable, os.path.abspath(__file__), "--child", "--first", str(first), "--count", str(count), "--place", place,
               "--compile", str(o.compile), "--loops", str(o.loops), "--opset", str(o.opset), "--out", o.out]
    command += ["--op", o.op] if o.op else []
    command += ["--limits"] if o.limits else []
    command += [] if o.reference else ["--no-reference"]
    command += ["--details"] if o.details else []
    with open(place, "wb") as f:
        f.write(b"0 start".ljust(128))
    log = open(os.path.join(o.out, "worker.log"), "ab")
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    buffer, last, why = b"", time.monotonic(), None
    done = 0
    while True:
        ready, _, _ = select.select([p.stdout], [], [], 5)
        if ready:
            got = os.read(p.stdout.fileno(), 1 << 16)
            if not got:
                break
            last = time.monotonic()
            buffer += got
            *lines, buffer = buffer.split(b"\n")
            for line in map(json.loads, lines):
                done += line.get("done", 0)
                total.take(line)
        elif time.monotonic() - last > STALL:
            why = f"no progress for {STALL} s"
            p.kill()
            break
    code = p.wait()
    with open(place, "rb") as f:
        seed, _, stage = f.read().decode().strip().partition(" ")
    if code == 0 and stage == "done":
        return first + count
    at = int(seed) or first
    total.crashes.append((at, stage, why or f"exit status {code}"))
    total.add(max(0, at - first + 1 - done))
    return at + 1


def pieces(o, left, job, total):
    """Runs pieces of the seeds until none is left."""
    place = os.path.join(o.out, f"place-{os.getpid()}-{job}")
    while True:
        with total.lock:
            seed = next(left, None)
        if seed is None:
            break
        end = min(seed + PIECE, o.first + o.models)
        while seed < end:
            seed = child(o, seed, end - seed, place, total)
    if os.path.exists(place):
        os.remove(place)


def attribute_coverage(total):
    """Attributes of operators of the newest opset that no model had."""
    import onnx

    missing = []
    for s in onnx.defs.get_all_schemas():
        if s.domain in ("", "ai.onnx.ml"):
            missing += [f"{s.domain}.{s.name}.{a}" for a in s.attributes if f"{s.domain}.{s.name}.{a}" not in total.attrs]
    return sorted(missing)


def summary(o, total, seconds):
    import known

    print(f"{total.done} models in {seconds:.0f} s ({total.done / max(seconds, 1e-9):.0f} a second), {total.lowered['compiled']} of them compiled, the loops of {total.lowered['loops']} interpreted")
    for name, n in total.outcomes.most_common():
        print(f"  {n:7d} {name}")
    ops = {k[0] for k in total.ran}
    ran = {k[:3] for k in total.ran if k[3] in ("agree", "differ")}
    print(f"operators: {len(ops)}; operator x version x types that Tenon and ONNX Runtime both ran: {len(ran)}")
    if not o.only and total.done >= 20000:
        print(f"attributes that no model had: {' '.join(attribute_coverage(total)) or 'none'}")
    if o.details:
        table = collections.defaultdict(collections.Counter)
        for (op, since, dtypes, outcome), n in total.ran.items():
            table[f"{op} {since}"][f"{outcome}: {dtypes}"] += n
        for op in sorted(table):
            print(f"  {op}: " + "; ".join(f"{k} x{n}" for k, n in sorted(table[op].items())))
        for text, n in total.reasons.most_common():
            print(f"  {n:7d} {text}")
        for signature, n in total.unsettled.most_common():
            x = total.examples.get(signature, {})
            print(f"  {n:7d} {signature}: seed {x.get('seed')}: {x.get('text')}")
    print("known differences:")
    for r in known.ROWS:
        print(f"  {total.rows[r.key]:7d} {r.key}: right is {r.right}")
    never = [r.key for r in known.ROWS if not total.rows[r.key]]
    if never:
        print(f"rows that never applied: {', '.join(never)}")
    for seed, stage, why in total.crashes:
        print(f"seed {seed}: the process ended in '{stage}' ({why})")
    groups = collections.Counter(x["signature"] for x in total.open)
    for signature, n in groups.most_common():
        first = next(x for x in total.open if x["signature"] == signature)
        print(f"OPEN {n} x {signature}: seed {first['seed']}: {first['text']}\n    {first['verdict']}; {first['path']}")


def main():
    o = arguments()
    sys.path.insert(0, HERE)
    if o.child:
        import worker

        worker.main(o)
        return 0
    import cases
    import coverage
    import known

    wrong = coverage.failures() + [f"row {key}: its words are not in the documentation of ONNX" for key in known.check_quotes()] + cases.failures()
    for line in wrong:
        print(line)
    if wrong:
        return 1
    os.makedirs(o.out, exist_ok=True)
    total, start = Total(), time.monotonic()
    left = iter(range(o.first, o.first + o.models, PIECE))
    jobs = [threading.Thread(target=pieces, args=(o, left, job, total)) for job in range(max(o.jobs, 1))]
    for t in jobs:
        t.start()
    for t in jobs:
        t.join()
    summary(o, total, time.monotonic() - start)
    ours = [c for c in total.crashes if c[1] != "ort"]
    failed = len(total.open) + len(ours)
    print(f"{total.done - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
