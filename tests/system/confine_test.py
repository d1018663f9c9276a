#!/usr/bin/env python3
"""confine_test.py PROGRAM -- the code generator ends with its parent, and the program keeps to its files.

The parent is killed by each of five signals while tenon-codegen is busy with a kernel: build/tenon-codegen-hostile waits there for
ever, so nothing but the parent's end ends it.  The last line counts.
"""
import os, resource, shutil, signal, subprocess, sys, tempfile, time

program = os.path.abspath(sys.argv[1])
build = os.path.dirname(program)
hostile = os.path.join(build, "tenon-codegen-hostile")
MODEL = 'graph @"g"(%x: f32[64, 64]) {\n  %y = exp(%x)\n  return %y\n}\n'
PATIENCE = 60  # seconds until a test gives up waiting
passed, failures, skipped = 0, [], []


def check(what, ok, detail=""):
    global passed
    if ok: passed += 1
    else: failures.append(f"{what}: {detail}")


def children_of(pid):
    """The code generators that a process started, by what it told them; also once it has ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{name}/cmdline", "rb").read().split(b"\0")
            state = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()[0]
        except OSError: continue
        if state not in "ZX" and any(a == b"--parent" and b == str(pid).encode() for a, b in zip(words, words[1:])): found.append(int(name))
    return found


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start_busy(folder):
    """A compilation whose code generator is busy, and whether it is."""
    env = dict(os.environ, HOSTILE="wait", TENON_CACHE=os.path.join(folder, "cache"))
    p = subprocess.Popen([os.path.join(folder, "tenon"), "compile", "m.tir", "-o", "out.tenon"], cwd=folder, env=env, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, preexec_fn=no_core)
    while True:
        line = p.stderr.readline()
        if b"begins" in line or not line: return p, bool(line)


def orphans(folder):
    slowest = 0
    for name in ("KILL", "TERM", "INT", "SEGV", "ABRT"):
        p, busy = start_busy(folder)
        check(f"SIG{name}: the code generator is busy", busy and children_of(p.pid), "it never began")
        p.send_signal(getattr(signal, "SIG" + name))
        p.wait()
        start = time.monotonic()
        while children_of(p.pid) and time.monotonic() - start < PATIENCE: time.sleep(0.01)
        slowest = max(slowest, time.monotonic() - start)
        left = children_of(p.pid)
        check(f"SIG{name}: no code generator is left", not left, f"processes {left}")
        for pid in left: os.kill(pid, signal.SIGKILL)
        p.stderr.close()
    print(f"the last code generator ended {slowest * 1000:.0f} ms after its parent")


def main():
    folder = tempfile.mkdtemp(prefix="tenon-confine-")
    os.environ["TMPDIR"] = folder
    open(os.path.join(folder, "m.tir"), "w").write(MODEL)
    shutil.copy(program, os.path.join(folder, "tenon"))
    if os.path.exists(hostile):
        shutil.copy(hostile, os.path.join(folder, "tenon-codegen"))
        orphans(folder)
    else: skipped.append("no tenon-codegen")
    shutil.rmtree(folder)
    for f in failures[:20]: print(f)
    for s in skipped: print("skipped:", s)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
