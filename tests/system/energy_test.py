#!/usr/bin/env python3
"""energy_test.py -- `bench --energy` over a file system whose counter rises by 20 watts, and over one without a counter."""
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
sys.exit(failed > 0)
