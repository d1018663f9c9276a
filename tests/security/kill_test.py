#!/usr/bin/env python3
"""kill_test.py PROGRAM [RUNS] -- kills `tenon compile` at random points, with the cache on.

After each kill -9: no file of the cache is torn, the compiled model is absent or whole, and the next compilation, which finds in
the cache what the killed one left there, gives the same bytes as an undisturbed one.  It also removes every temporary file that the
killed one left, beside the model and in the cache.  The last line counts.
"""
import json, os, random, shutil, subprocess, sys, tempfile, time

program = os.path.abspath(sys.argv[1])
runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
NKERNELS = 12


def model():
    """Kernels of different lengths, each between two values that leave the graph."""
    lines, results = [], []
    for i in range(NKERNELS):
        lines.append(f"  %y{i} = exp(%x{i})\n  %z{i} = tanh(%y{i})")
        results.append(f"%z{i}")
    params = ", ".join(f"%x{i}: f32[{i + 2}, {3 * i + 5}]" for i in range(NKERNELS))
    return f"graph @\"many\"({params}) {{\n" + "\n".join(lines) + f"\n  return {', '.join(results)}\n}}\n"


def tenon(*args):
    return subprocess.run([program, *args], capture_output=True, text=True)


def check(folder, out, good, failures):
    report = json.loads(tenon("cache", "--check", "--json").stdout)
    if report["damaged"]: failures.append(f"{report['damaged']} torn files in the cache")
    if os.path.exists(out) and open(out, "rb").read() != good: failures.append("a torn artifact")
    again = os.path.join(folder, "again.tenon")
    r = tenon("compile", os.path.join(folder, "many.tir"), "-o", again)
    if r.returncode: failures.append("the next compilation fails: " + r.stderr)
    elif open(again, "rb").read() != good: failures.append("the next compilation gives other bytes")
    for place in (folder, os.environ["TENON_CACHE"]):
        left = [n for n in os.listdir(place) if n.startswith(".tenon-")]
        if left: failures.append(f"left behind: {left}")


def main():
    folder = tempfile.mkdtemp(prefix="tenon-kill-")
    os.environ["TENON_CACHE"] = os.path.join(folder, "cache")
    source, out = os.path.join(folder, "many.tir"), os.path.join(folder, "many.tenon")
    open(source, "w").write(model())
    start = time.time()
    r = tenon("compile", source, "-o", out)
    took = time.time() - start
    if r.returncode or f"{NKERNELS} kernels" not in r.stdout:
        print(r.stdout, r.stderr)
        return 1
    good, failures, killed = open(out, "rb").read(), [], 0
    random.seed(1)
    for i in range(runs):
        tenon("cache", "clear")
        if i % 2: os.remove(out) if os.path.exists(out) else None
        p = subprocess.Popen([program, "compile", source, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * took * 1.1)
        killed += p.poll() is None
        p.kill()
        p.wait()
        check(folder, out, good, failures)
    for f in failures[:10]: print(f)
    shutil.rmtree(folder)
    print(f"{killed} of {runs} killed while they worked")
    print(f"{runs - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
