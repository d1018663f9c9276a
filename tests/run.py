#!/usr/bin/env python3
"""run.py -- runs the steps of tests/steps.txt and counts what passed.

usage: tests/run.py [GLOB...]      only the steps whose name matches one of the globs

The last line is `N passed, N failed`; the exit status is 1 when anything failed.  Needs only Python's standard library.
"""
import fnmatch, os, re, resource, signal, subprocess, sys, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LOGS = os.path.join(ROOT, "build", "test-logs")
TAIL_LINES = 40
STEP_SECONDS_MAX = 1500  # a step that hangs is ended, with everything it started


def read_steps():
    steps = []
    for number, line in enumerate(open(os.path.join(ROOT, "tests", "steps.txt"), encoding="utf-8"), 1):
        if not line.strip() or line.startswith("#"): continue
        cells = [c.strip() for c in line.split("|", 2)]
        if len(cells) != 3: sys.exit(f"tests/steps.txt:{number}: not 'name | needs | command'")
        if cells[0] in [s[0] for s in steps]: sys.exit(f"tests/steps.txt:{number}: a second step {cells[0]}")
        steps.append(cells)
    return steps


def environment():
    env = dict(os.environ)
    venv = os.path.join(ROOT, "build", "venv", "bin", "python")
    env["DATA"] = os.path.abspath(os.path.join(ROOT, env.get("TENON_DATA") or "../shared/data"))
    env["TENON_DATA"] = env["DATA"]
    env["SUITE"] = "/usr/share/libonnx-testdata/data"
    env["PYTHON"] = env.get("TENON_PYTHON") or (venv if os.path.exists(venv) else sys.executable)
    env["TENON"] = os.path.join(ROOT, "build", "tenon")
    env["JOBS"] = env.get("JOBS") or str(len(os.sched_getaffinity(0)))
    # A finding of a sanitizer ends the program, and is never retried or lost.
    env.setdefault("ASAN_OPTIONS", "abort_on_error=0:detect_leaks=1:allocator_may_return_null=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    return env


def works(command, env):
    return subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def lacks(need, env):
    """Why a need is not met, or None."""
    kind, _, what = need.partition(":")
    if kind == "data": return None if os.path.isdir(env["DATA"]) else f"no {env['DATA']}"
    if kind == "nodata": return "the data has it all" if os.path.isdir(env["DATA"]) else None
    if kind == "file": return None if os.path.exists(os.path.join(ROOT, os.path.expandvars(what))) else f"no {what}"
    if kind == "py": return None if works([env["PYTHON"], "-c", f"import {what}"], env) else f"no Python package {what}"
    if kind == "tenon":
        if os.path.exists(env["TENON"]) and works([env["TENON"], what, "--help"], env): return None
        return f"no command `tenon {what}`"
    return f"tests/steps.txt: unknown need '{need}'"


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_step(name, command, env):
    """Runs it, output to its log; (exit status, seconds, seconds of processors: what a busy machine does not lengthen)."""
    start, used = time.monotonic(), processor_seconds()
    with open(os.path.join(LOGS, name + ".log"), "wb") as log:
        p = subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log,
                             stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = p.wait(STEP_SECONDS_MAX)
        except BaseException as e:  # a hang, or the user's Ctrl-C: nothing is left running
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            if not isinstance(e, subprocess.TimeoutExpired): raise
            log.write(f"\nended after {STEP_SECONDS_MAX} s\n".encode())
            status = 124
    return status, time.monotonic() - start, processor_seconds() - used


def count(name, status):
    """(passed, failed) of a finished step."""
    text = open(os.path.join(LOGS, name + ".log"), encoding="utf-8", errors="replace").read()
    found = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
    passed, failed = (int(found[-1][0]), int(found[-1][1])) if found else (int(status == 0), int(status != 0))
    if status != 0 and failed == 0: failed = 1  # it died after or beside its own count
    return passed, failed, text


def main():
    os.makedirs(LOGS, exist_ok=True)
    globs, env = sys.argv[1:], environment()
    passed = failed = skipped = 0
    start = time.monotonic()
    for name, needs, command in read_steps():
        if globs and not any(fnmatch.fnmatch(name, g) for g in globs): continue
        missing = [why for why in (lacks(n, env) for n in needs.split()) if why]
        if missing and any("`tenon" in why for why in missing) and os.path.exists(os.path.join(ROOT, "src", "cli", "main.c")):
            print(f"FAIL  {name:18} {'; '.join(missing)}", flush=True)  # the program is broken: not a reason to skip
            failed += 1
            continue
        if missing:
            print(f"skip  {name:18} {'; '.join(missing)}", flush=True)
            skipped += 1
            continue
        if sys.stdout.isatty(): print(f"      {name}", end="\r", flush=True)
        status, seconds, used = run_step(name, command, env)
        p, f, text = count(name, status)
        passed, failed = passed + p, failed + f
        numbers = f"{p} passed" + (f", {f} failed" if f else "")
        print(f"{'FAIL' if f else 'ok  '}  {name:18} {seconds:6.1f} s ({used:5.1f} s of processors)  {numbers}", flush=True)
        if f:
            print("\n".join("    | " + line for line in text.rstrip().split("\n")[-TAIL_LINES:]), flush=True)
    print(f"{time.monotonic() - start:.0f} s in all ({processor_seconds():.0f} s of processors), {skipped} steps skipped; "
          "logs in build/test-logs")
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed > 0


sys.exit(main())
