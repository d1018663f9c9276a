#!/usr/bin/env python3
"""tune_test.py -- `tenon tune` from the command line.

A small model is tuned for a second.  The schedules must give the same bits, replay to the same bytes and survive export and import.
Damaged databases and records, a killed tuner, an interrupt and several tuners on one database lose nothing and say what is wrong.
"""
import json, os, signal, sqlite3, subprocess, sys, tempfile, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")
INPUT = "image=" + os.path.join(ROOT, "examples", "digits", "digits.npy")
failed = 0


def check(ok, what):
    global failed
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    failed += not ok


def tenon(*args, **env):
    p = subprocess.run([TENON, *args], capture_output=True, text=True, env={**os.environ, **env})
    return p.returncode, p.stdout, p.stderr


def read(path):
    with open(path, "rb") as f: return f.read()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)
        db, out = at("a.db"), at("digits.schedules")
        tune = lambda *more, to=out, base=db, t="1s": tenon("tune", MODEL, "--input", INPUT, "--time", t, "--db", base, "-o", to, *more)
        rc, text, err = tune("--json")
        said = json.loads(text) if not rc else {}
        check(rc == 0 and said["trials"] > 0 and said["wrong"] == 0, f"tuned: {err.strip()[-120:]}")

        def outputs(*more):
            to = at("out.npz")
            rc, _, err = tenon("run", MODEL, "--target", "cpu", "--input", INPUT, "--output", to, *more)
            return read(to) if not rc else err
        plain = outputs()
        check(isinstance(plain, bytes) and outputs("--tuned", out) == plain, "the same bits with the tuned schedules")

        rc, _, err = tenon("tune", "replay", str(said["run"]), "--db", db, "-o", at("again"))
        check(rc == 0 and read(at("again")) == read(out), f"replay gives the same bytes {err}")
        rc, records, _ = tenon("tune", "export", "--db", db)
        with open(at("runs.jsonl"), "w") as f: f.write(records)
        rc, _, err = tenon("tune", "import", at("runs.jsonl"), "--db", at("b.db"))
        check(rc == 0 and "1 runs are new" in err, f"import {err}")
        rc, again, _ = tenon("tune", "export", "--db", at("b.db"))
        check(again == records, "what is imported is exported as it was")
        rc, _, err = tenon("tune", "merge", at("runs.jsonl"), "--db", at("b.db"))
        check(rc == 0 and "0 runs are new" in err, "a run that is there is not added again")
        rc, _, _ = tenon("tune", "replay", "1", "--db", at("b.db"), "-o", at("there"))
        check(read(at("there")) == read(out), "replay elsewhere gives the same bytes")

        with open(at("bad.jsonl"), "w") as f: f.write(records.replace('"phase":"race"', '"phase":"rase"', 1)[: len(records) - 7])
        rc, _, err = tenon("tune", "import", at("bad.jsonl"), "--db", at("c.db"))
        check(rc == 1 and "line " in err, f"damaged records: {err.strip()[-80:]}")
        check("0 runs" in tenon("tune", "list", "--db", at("c.db"))[1], "and nothing of them is there")
        rc, _, err = tenon("tune", "replay", "99", "--db", db)
        check(rc == 1 and "no run 99" in err, "no such run")

        with open(at("d.db"), "wb") as f: f.write(read(db)[:100] + b"\xff" * 5000 + read(db)[5100:])
        rc, _, err = tenon("tune", "export", "--db", at("d.db"))
        check(rc == 1 and "damaged" in err, f"a damaged database: {err.strip()[-100:]}")
        with open(at("e.db"), "w") as f: f.write("no database at all, but a text of some length" * 20)
        rc, _, err = tune(base=at("e.db"), to=at("none"))
        check(rc == 1 and "damaged" in err and not os.path.exists(at("none")), "a file that is no database")
        c = sqlite3.connect(at("b.db")); c.execute("UPDATE trial SET ns=x'0102'"); c.commit(); c.close()
        rc, _, err = tenon("tune", "replay", "1", "--db", at("b.db"))
        check(rc == 1 and "damaged" in err, "rows that are no trials")
        c = sqlite3.connect(at("f.db")); c.execute("PRAGMA user_version=9"); c.commit(); c.close()
        rc, _, err = tenon("tune", "list", "--db", at("f.db"))
        check(rc == 1 and "version 9" in err, "a newer database")
        check(tenon("tune", MODEL, "--time", "never")[0] == 2, "--time never")
        check(tenon("tune", out)[0] == 1, "a model that is none")

        start = lambda base, to: subprocess.Popen([TENON, "tune", MODEL, "--input", INPUT, "--time", "60s", "--db", base, "-o", to],
                                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        p = start(db, at("killed")); time.sleep(1.5); p.kill(); p.wait()
        check(tenon("tune", "export", "--db", db)[0] == 0 and not os.path.exists(at("killed")), "kill -9: the database is whole, no output")
        p = start(at("g.db"), at("stopped")); time.sleep(1.5); p.send_signal(signal.SIGINT); rc = p.wait()
        check(rc == 0 and outputs("--tuned", at("stopped")) == plain, "Ctrl-C keeps what was found")
        many = [start(at("h.db"), at(f"m{i}")) for i in range(4)]
        time.sleep(2)
        for p in many: p.send_signal(signal.SIGINT)
        check([p.wait() for p in many] == [0] * 4, "four tuners on one database")
        check(tenon("tune", "list", "--db", at("h.db"))[1].count("digits.onnx") == 4, "and each has its run")
        if os.path.exists("/dev/full"):
            rc, _, err = tenon("tune", "export", "--db", db, "-o", "/dev/full")
            check(rc == 1 and err, "a full disk")
    return failed > 0


sys.exit(main())
