#!/usr/bin/env python3
"""confine_test.py PROGRAM -- the code generator ends with its parent, and the program keeps to its files.

The parent is killed by each of five signals while tenon-codegen is busy with a kernel: build/tenon-codegen-hostile waits there for
ever, so nothing but the parent's end ends it.  All five are waited for together.  Other deeds of that program are stopped, and the model
runs without the kernel.  A code generator that makes no code at all is an error with the nodes and the remedy.

Then a library is preloaded into the program (confine_probe.c), which tries at its end what each command should no longer be
able to do.  Layers that this system lacks, as `tenon doctor` says, are expected to stop nothing.  The last line counts.
"""
import json, os, resource, shutil, signal, subprocess, sys, tempfile, time

program = os.path.abspath(sys.argv[1])
build = os.path.dirname(program)
hostile = os.path.join(build, "tenon-codegen-hostile")
MODEL = 'graph @"g"(%x: f32[64, 64]) {\n  %y = exp(%x)\n  return %y\n}\n'
PATIENCE = 10  # seconds until the test gives up waiting for all orphans together; a loaded machine may need more than the second that is promised
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


def confinement():
    return json.loads(subprocess.run([program, "doctor", "--json"], capture_output=True, text=True).stdout)["confinement"]


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
    parents = {}
    for name in ("KILL", "TERM", "INT", "SEGV", "ABRT"):
        p, busy = start_busy(folder)
        check(f"SIG{name}: the code generator is busy", busy and children_of(p.pid), "it never began")
        parents[name] = p
    for name, p in parents.items(): p.send_signal(getattr(signal, "SIG" + name))
    for p in parents.values(): p.wait()
    start = time.monotonic()
    while any(children_of(p.pid) for p in parents.values()) and time.monotonic() - start < PATIENCE: time.sleep(0.01)
    print(f"the last code generator ended {(time.monotonic() - start) * 1000:.0f} ms after its parent")
    for name, p in parents.items():
        left = children_of(p.pid)
        check(f"SIG{name}: no code generator is left", not left, f"processes {left}")
        for pid in left: os.kill(pid, signal.SIGKILL)
        p.stderr.close()


# A tenon-codegen that makes no code for anything: its text, None where there is none.
USELESS = {"missing": None, "ends": "#!/bin/sh\nexit 3\n", "is killed": "#!/bin/sh\nkill -9 $$\n", "is no program": "\0\1\2"}


def useless(folder):
    """The error and the warning name the nodes and the remedy, one a line; no line end is printed as '?'."""
    inner = os.path.join(folder, "useless", "bin")
    os.makedirs(inner)
    shutil.copy(program, os.path.join(inner, "tenon"))
    open(os.path.join(folder, "two.tir"), "w").write(TWO)
    for name, text in USELESS.items():
        path = os.path.join(inner, "tenon-codegen")
        if text is not None:
            with open(path, "w") as f: f.write(text)
            os.chmod(path, 0o755)
        for words, codes in ((["compile", "two.tir", "-o", "u.tenon"], (1, 4, 5)), (["run", "two.tir"], (0, 1))):
            env = dict(os.environ, PATH="/nowhere") if text is None else os.environ
            p = subprocess.run([os.path.join(inner, "tenon"), *words, "--no-cache"], cwd=folder, env=env, capture_output=True, text=True)
            what = f"tenon-codegen {name}: {words[0]}"
            check(f"{what}: exit status", p.returncode in codes, f"{p.returncode}: {p.stderr[-500:]}")
            if text is None and words[0] == "run": continue  # nothing was to be compiled: another message, of cli_test.sh
            lines = p.stderr.splitlines()
            check(f"{what}: names the nodes", "  there is no code for 2 kernels, of node 'y', 'z'" in lines, p.stderr[-900:])
            check(f"{what}: says what to do", any(line.startswith("  reinstall Tenon") for line in lines) and "--target interp" in lines[-1], p.stderr[-900:])
            check(f"{what}: line ends", "?" not in p.stderr.replace("version?", ""), p.stderr[-900:])


TWO = 'graph @"g"(%x: f32[64, 64], %w: f32[64, 64]) {\n  %y = mat_mul(%x, %w)\n  %z = softmax(%y)\n  return %z\n}\n'
# A deed of the code generator on the softmax, the layers of which any stops it, and words of the report.
DEEDS = [
    ("open", ("seccomp", "Landlock"), "sandbox does not allow"),
    ("socket", ("seccomp", "rlimits"), "sandbox does not allow"),
    ("fork", ("seccomp",), "sandbox does not allow"),
    ("allocate", ("rlimits",), "out of memory"),
    ("loop", ("rlimits",), "processor time"),
]


def deeds(folder):
    """One kernel's process is stopped: the model runs without that kernel, and the report says why.  With --strict it fails."""
    layers = confinement()["tenon-codegen"]
    open(os.path.join(folder, "two.tir"), "w").write(TWO)
    for deed, stopped_by, words in DEEDS:
        if not any(layers[name]["active"] for name in stopped_by):
            skipped.append(f"{deed}: none of {', '.join(stopped_by)} holds here")
            continue
        if not layers["seccomp"]["active"] and words.startswith("sandbox"): words = "ended by signal 6"
        env = dict(os.environ, HOSTILE=deed, HOSTILE_KERNEL="exp(")
        for more, codes in (([], (0,)), (["--strict"], (1, 5))):
            command = ["run", "two.tir", "--target", "cpu", "--no-cache", "--compare", "interp", *more]
            p = subprocess.run([os.path.join(folder, "tenon"), *command], cwd=folder, env=env, capture_output=True, text=True)
            name = " ".join([deed, *more])
            check(f"{name}: exit status", p.returncode in codes, f"{p.returncode}: {p.stderr[-500:]}")
            check(f"{name}: report", words in p.stderr and ".request" in p.stderr, p.stderr[-500:])
            check(f"{name}: the deed is not done", "succeeded" not in p.stderr, p.stderr[-500:])
            if deed in ("allocate", "loop"): break  # they take their time


# Command, and what it may execute: True for any program.
COMMANDS = [
    (["inspect", "in/m.tir"], False),
    (["inspect", "--optimised", "in/m.tir"], False),
    (["convert", "in/m.tir", "-o", "out/m.onnx"], False),
    (["graph", "in/m.tir", "-o", "out/m.html"], False),
    (["verify", "in/m.tir"], False),
    (["run", "in/m.tir", "--target", "interp", "-o", "out/y.npz"], False),
    (["run", "in/m.tir", "--target", "cpu"], False),
    (["explain", "in/m.tir", "--target", "cpu"], False),
    (["compile", "in/m.tir", "--target", "cpu", "-o", "out/m.tenon"], False),
    (["run", "compiled.tenon", "-o", "out/y.npz"], False),
    (["compile", "in/m.tir", "--emit", "so", "-o", "out/m.so"], True),
    (["run", "in/m.tir", "--target", "c"], True),
    (["cache"], False),
    (["ops"], False),
]
NEED_CODEGEN = ("cpu", "so", "compiled.tenon")


def probe(folder, library, words, extra={}):
    """Runs a command with the probe; its results by what was tried, None where the command failed."""
    results = os.path.join(folder, "probe")
    env = dict(os.environ, LD_PRELOAD=library, PROBE=results, TENON_CACHE=os.path.join(folder, "cache"), TMPDIR=os.path.join(folder, "tmp"),
               PROBE_WRITE="elsewhere/new:elsewhere/there:in/new:out/new:cache/new:tmp/new", PROBE_REMOVE="elsewhere/bait:in/m.tir", **extra)
    p = subprocess.run([program, *words], cwd=folder, env=env, capture_output=True, text=True)
    name = " ".join(words)
    check(f"{name}: works", p.returncode == 0, f"exit {p.returncode}: {p.stderr[-500:]}")
    if p.returncode: return None
    rows = (line.rsplit(" ", 1) for line in open(results).read().splitlines())
    return {what: int(err) for what, err in rows}


def fill(folder):
    for name in ("in", "out", "elsewhere", "tmp", "cache"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        os.mkdir(os.path.join(folder, name))
    open(os.path.join(folder, "in/m.tir"), "w").write(MODEL)
    for name in ("bait", "there"): open(os.path.join(folder, "elsewhere", name), "w").write("bait")


def keeps(folder, library, layers):
    landlock, seccomp = layers["Landlock"]["active"], layers["seccomp"]["active"]
    codegen = os.path.exists(os.path.join(build, "tenon-codegen"))
    if codegen: subprocess.run([program, "compile", "m.tir", "--target", "cpu", "-o", "compiled.tenon"], cwd=folder, check=True, capture_output=True)
    for words, executes in COMMANDS:
        if not codegen and any(w in NEED_CODEGEN for w in words): continue
        fill(folder)
        got, name = probe(folder, library, words), " ".join(words)
        if got is None: continue
        for what in ("write:elsewhere/new", "write:elsewhere/there", "write:in/new", "remove:elsewhere/bait", "remove:in/m.tir"):
            check(f"{name}: {what} is refused", bool(got[what]) or not landlock, "it succeeded")
        for what in ("inet", "unix"): check(f"{name}: {what} socket is refused", bool(got[what]) or not seccomp, "it succeeded")
        check(f"{name}: temporary files", not got["write:tmp/new"], f"error {got['write:tmp/new']}")
        if "-o" in words: check(f"{name}: files beside its output", not got["write:out/new"], f"error {got['write:out/new']}")
        else: check(f"{name}: no other file", bool(got["write:out/new"]) or not landlock, "it succeeded")
        check(f"{name}: other programs", not got["exec"] if executes else bool(got["exec"]) or not landlock, f"error {got['exec']}")
    fill(folder)
    got = probe(folder, library, ["inspect", "in/m.tir"], {"TENON_CONFINE": "0"})
    check("TENON_CONFINE=0 switches it off", got and not any(got.values()), str(got))


def program_keeps_to_its_files(folder):
    layers = confinement()["tenon"]
    missing = [f"{name} ({row['detail']})" for name, row in layers.items() if not row["active"] and name != "rlimits"]
    if missing: skipped.append("layers of tenon: " + ", ".join(missing))
    library, cc = os.path.join(folder, "probe.so"), os.environ.get("CC", "cc")
    if not layers["Landlock"]["active"] and not layers["seccomp"]["active"]: return
    if not shutil.which(cc): return skipped.append("no C compiler for the probe")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confine_probe.c")
    subprocess.run([cc, "-O1", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    keeps(folder, library, layers)


def main():
    folder = tempfile.mkdtemp(prefix="tenon-confine-")
    os.environ["TMPDIR"] = folder
    open(os.path.join(folder, "m.tir"), "w").write(MODEL)
    shutil.copy(program, os.path.join(folder, "tenon"))
    if os.path.exists(hostile):
        shutil.copy(hostile, os.path.join(folder, "tenon-codegen"))
        orphans(folder)
        deeds(folder)
        useless(folder)
    else: skipped.append("no tenon-codegen")
    program_keeps_to_its_files(folder)
    shutil.rmtree(folder)
    for f in failures[:20]: print(f)
    for s in skipped: print("skipped:", s)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
