#!/usr/bin/env python3
"""energy_test.py -- `bench --energy` and `tune --objective energy` over a file system whose counter rises, and over one without a counter.

For `bench` the counter rises by 20 watts; for `tune` by 20 joules per second of the tuner's processor time, so that faster schedules take less energy."""
import json, os, subprocess, sys, tempfile, threading, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")
failed = 0


def check(ok, what):
    global failed
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    failed += not ok


def bench(root):
    p = subprocess.run([TENON, "bench", MODEL, "--target", "cpu", "--seconds", "0.1", "--warmup", "0", "--energy", "--json"], capture_output=True, text=True,
                       env={**os.environ, "TENON_SYSFS": root})
    return p.returncode, p.stdout, p.stderr


with tempfile.TemporaryDirectory() as tmp:
    rc, out, err = bench(tmp)
    check(rc == 4 and "powercap" in err and not out, f"no meter: status 4 and what is missing: {err.strip()[:90]}")
    folder = os.path.join(tmp, "sys/class/powercap/intel-rapl:0")
    os.makedirs(folder)
    def put(name, text):
        with open(os.path.join(folder, name + ".new"), "w") as f: f.write(text)
        os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))
    put("name", "package-0\n"); put("max_energy_range_uj", "262143328850\n"); put("energy_uj", "0\n")
    begin, stop = time.monotonic(), threading.Event()
    def rise():
        while not stop.is_set(): put("energy_uj", f"{int((time.monotonic() - begin) * 20e6)}\n"); time.sleep(0.005)
    t = threading.Thread(target=rise); t.start()
    rc, out, err = bench(tmp)
    stop.set(); t.join()
    said = json.loads(out).get("energy", {}) if rc == 0 else {}
    check(said.get("meter") == "powercap" and said.get("runs", 0) > 0, f"measured by powercap: {said} {err[-100:]}")
    check(said.get("watts", 0) > 0 and said.get("idle_watts", 0) > 0, "the counter's power is found")


def tune(root, *more, seconds="5s"):
    """Runs the tuner while the counter below `root` follows its processor time."""
    p = subprocess.Popen([TENON, "tune", MODEL, "--time", seconds, "--json", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "TENON_SYSFS": root})
    stop = threading.Event()
    def follow():
        while not stop.is_set():
            try:
                with open(f"/proc/{p.pid}/schedstat") as f: ns = int(f.read().split()[0])
                counter = os.path.join(root, "sys/class/powercap/intel-rapl:0/energy_uj")
                if os.path.exists(counter):
                    with open(counter + ".new", "w") as f: f.write(f"{ns * 20 // 1000}\n")
                    os.rename(counter + ".new", counter)
            except (OSError, IndexError): pass
            time.sleep(0.002)
    t = threading.Thread(target=follow); t.start()
    out, err = p.communicate()
    stop.set(); t.join()
    return p.returncode, out, err


if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(TENON)), "tenon-tune")):
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)
        rc, out, err = tune(tmp, "--objective", "energy", "--db", "none", "-o", at("none"))
        check(rc == 4 and "powercap" in err and not out and not os.path.exists(at("none")), f"tune without a meter: status 4: {err.strip()[:90]}")
        rc, out, err = tune(tmp, "--objective", "energy", "--worker", "true")
        check(rc == 2 and "--worker" in err, f"tune by energy takes no workers: {err.strip()[:90]}")
        rc, out, err = tune(tmp, "--objective", "heat")
        check(rc == 2 and "edp" in err, f"legal objectives are named: {err.strip()[:90]}")
        folder = os.path.join(tmp, "sys/class/powercap/intel-rapl:0")
        os.makedirs(folder)
        put("name", "package-0\n"); put("max_energy_range_uj", "262143328850\n"); put("energy_uj", "0\n")
        run = lambda *more: subprocess.run([TENON, "run", MODEL, "--target", "cpu", *more], stdout=subprocess.DEVNULL).returncode
        plain = run("--output", at("plain.npz"))
        for objective in ("energy", "edp"):
            rc, out, err = tune(tmp, "--objective", objective, "--fresh", "--db", at("db"), "-o", at(objective))
            said = json.loads(out) if rc == 0 else {}
            check(said.get("objective") == objective and said.get("trials", 0) > 0 and said.get("gain", 0) >= 1, f"tune by {objective}: {said.get('trials')} trials, {said.get('gain')} {err.strip()[-90:]}")
            records = subprocess.run([TENON, "tune", "export", "--db", at("db")], capture_output=True, text=True).stdout
            check(f'"phase":"{objective}"' in records.replace(" ", ""), f"schedules were confirmed by {objective}")
            tuned = run("--tuned", at(objective), "--output", at("tuned.npz"))
            with open(at("plain.npz"), "rb") as a, open(at("tuned.npz"), "rb") as b: check(plain == tuned == 0 and a.read() == b.read(), f"tune by {objective}: the same bits")
sys.exit(failed > 0)
