#!/usr/bin/env python3
"""tune_kill_test.py [RUNS] -- `tenon tune` under kill -9, again and again on one database, with four tuners at a time.

What was committed before a kill is there after it; the database is whole, and each run in it replays; no file of schedules is half-written.
At the end an undisturbed run uses the same database.  The last line counts.
"""
import os, random, sqlite3, subprocess, sys, tempfile, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")
INPUT = "image=" + os.path.join(ROOT, "examples", "digits", "digits.npy")
TUNERS = 4
runs = int(sys.argv[1]) if len(sys.argv) > 1 else 8


def tune(db, out, seconds): return [TENON, "tune", MODEL, "--input", INPUT, "--time", f"{seconds}s", "--db", db, "-o", out]


def trials(db):
    """Committed so far, by run; none where the database is not made yet."""
    try:
        with sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=20) as c: return dict(c.execute("SELECT run, count(*) FROM trial GROUP BY run"))
    except sqlite3.OperationalError: return {}


def main():
    random.seed(1)
    failures, killed = [], 0
    with tempfile.TemporaryDirectory() as tmp:
        db = os.path.join(tmp, "a.db")
        out = lambda i: os.path.join(tmp, f"{i}.schedules")
        for at in range(0, runs, TUNERS):
            many = [subprocess.Popen(tune(db, out(i), 60), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(min(TUNERS, runs - at))]
            begun = len(trials(db))
            limit = time.time() + 10
            while len(trials(db)) < begun + 1 and time.time() < limit: time.sleep(0.02)  # some round is over
            time.sleep(random.random() * 0.4)
            before = trials(db)
            for p in many:
                killed += p.poll() is None
                p.kill()
            for p in many: p.wait()
            after = trials(db)
            if any(after.get(run, 0) < n for run, n in before.items()): failures.append(f"after {at} kills: trials are lost")
            with sqlite3.connect(db) as c:
                state = c.execute("PRAGMA integrity_check").fetchone()[0]
                holes = c.execute("SELECT count(*) FROM (SELECT run, count(*) n, max(seq) m FROM trial GROUP BY run) WHERE n <> m + 1").fetchone()[0]
            if state != "ok": failures.append(f"after {at} kills: {state}")
            if holes: failures.append(f"after {at} kills: {holes} runs have holes")
            if any(os.path.exists(out(i)) for i in range(TUNERS)): failures.append("a file of schedules of a killed tuner")
        listed = sorted(trials(db))
        for run in listed[-3:]:
            r = subprocess.run([TENON, "tune", "replay", str(run), "--db", db], capture_output=True, text=True)
            if r.returncode: failures.append(f"run {run} does not replay: {r.stderr}")
        r = subprocess.run(tune(db, out("last"), 1), capture_output=True, text=True)
        if r.returncode or not os.path.exists(out("last")): failures.append("the undisturbed run fails: " + r.stderr)
    for f in failures: print("FAIL", f)
    print(f"{killed} tuners were killed, {len(listed)} of them after their first round")
    return bool(failures)


sys.exit(main())
