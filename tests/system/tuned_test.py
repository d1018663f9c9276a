#!/usr/bin/env python3
"""tuned_test.py -- what --tuned does to compiling, from the command line.

A file of tuned schedules is written here from what `tenon explain --json` prints, with one FREE field changed.  Compiling with it
must give the same results bit for bit, the same artifact twice, and a record of the file's hash.  Damaged files, files for another
machine and entries that do not fit are refused or named.
"""
import hashlib, json, os, re, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")
INPUT = "image=" + os.path.join(ROOT, "examples", "digits", "digits.npy")
failed = 0


def check(ok, what):
    global failed
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    failed += not ok


def tenon(*args):
    p = subprocess.run([TENON, *args], capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def sealed(body): return body + "sha256 " + hashlib.sha256(body.encode()).hexdigest() + "\n"


def schedules(machine, entries, first="tenon-schedules 1"):
    return sealed("\n".join([first, f"machine {machine}", *(f"{k} {s} # 1.250" for k, s in sorted(entries.items()))]) + "\n")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "digits.schedules")
        def put(text):
            with open(path, "w") as f: f.write(text)
        rc, out, err = tenon("explain", MODEL, "--json", "--target", "cpu")
        if rc: print(err); return 1
        said = json.loads(out)
        machine = said["tuning_machine"]
        default = {k["workload"]: k["schedule_text"] for g in said["kernels"] for k in g["lowered"]}
        changed = {w: re.sub(r"item_rows=\d+", "item_rows=28", s) for w, s in default.items()}
        check(changed != default, "a field of a schedule is another")

        def outputs(*more):
            to = os.path.join(tmp, "out.npz")
            rc, _, err = tenon("run", MODEL, "--target", "cpu", "--input", INPUT, "--output", to, *more)
            return (open(to, "rb").read() if not rc else None), err

        plain, _ = outputs()
        put(schedules(machine, changed))
        tuned, err = outputs("--tuned", path)
        check(plain == tuned and plain, f"the same bits with tuned schedules {err}")
        check(outputs("--tuned", path, "--tuned-strict")[0] == plain, "every kernel has one: --tuned-strict")
        check(outputs("--tuned", "none")[0] == plain, "--tuned none")
        rc, out, _ = tenon("explain", MODEL, "--json", "--target", "cpu", "--tuned", path)
        got = {k["workload"]: (k["schedule_text"], k["tuned_gain"]) for g in json.loads(out)["kernels"] for k in g["lowered"]}
        check(got == {w: (s, 1.25) for w, s in changed.items()}, "explain shows schedules and gains")
        rc, out, _ = tenon("explain", MODEL, "--target", "cpu", "--tuned", path)
        check("1.25 x" in out, "explain prints the gain")

        def artifact(name, *more):
            to = os.path.join(tmp, name)
            rc, _, err = tenon("compile", MODEL, "--target", "cpu", "-o", to, "--tuned", path, *more)
            return open(to, "rb").read() if not rc else err
        a, b = artifact("a.tenon"), artifact("b.tenon", "--no-cache")
        check(isinstance(a, bytes) and a == b, "two compilations give one artifact")
        rc, out, _ = tenon("inspect", os.path.join(tmp, "a.tenon"))
        check("tuned=sha256:" + hashlib.sha256(open(path, "rb").read()).hexdigest() in out, "the artifact has the hash of the file")

        wrong = {w: re.sub(r"item_panels=\d+", "item_panels=3", s) for w, s in default.items()}
        put(schedules(machine, wrong))
        got, err = outputs("--tuned", path)
        check(got == plain and "has not its tuned schedule" in err, "a schedule that does not fit: a warning and the default")
        check(outputs("--tuned", path, "--tuned-strict")[0] is None, "and an error with --tuned-strict")
        put(schedules(machine, {}))
        got, err = outputs("--tuned", path, "--tuned-strict")
        check(got is None and "no schedule for its workload" in err, "a missing one is an error with --tuned-strict")
        put(schedules("0" * 16 + " vector=1", changed))
        got, err = outputs("--tuned", path)
        check(got is None and "another machine" in err, "of another machine")
        for what, text in (("cut off", schedules(machine, changed)[:-9]), ("changed", schedules(machine, changed).replace("item_rows=28", "item_rows=29")),
                           ("of another version", schedules(machine, changed, "tenon-schedules 2")), ("empty", "")):
            put(text)
            got, err = outputs("--tuned", path)
            check(got is None and path in err and ("byte" in err or not text), f"a file that is {what}: {err.strip()[-90:]}")
        check(outputs("--tuned", path + ".none")[0] is None, "no such file")
    return failed > 0


sys.exit(main())
