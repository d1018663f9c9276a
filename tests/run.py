#!/usr/bin/env python3
"""run.py -- runs the steps of tests/steps.txt and counts what passed.

usage: tests/run.py [--long] [GLOB...]

--long runs the section [long] too.  GLOB names steps of either section: only those run.

Steps start in the order of the file.  A step on all cores runs alone; of the others as many run at once as there are cores (JOBS).
The end lists the steps that took more processor seconds than their budget: a warning, not a failure.
A sanitizer's report of any program that a step starts is a failure of the step, whatever became of the program's status.
The last line is `N passed, N failed`; the exit status is 1 when anything failed.  Needs only Python's standard library.
"""
import dataclasses, fnmatch, glob, os, re, signal, subprocess, sys, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
STEPS = os.path.join(ROOT, "tests", "steps.txt")
LOGS = os.path.join(ROOT, "build", "test-logs")
TAIL_LINES = 40
STEP_SECONDS_MIN = 1500  # a step that hangs is ended, with everything it started: after this time,
STEP_BUDGETS = 10        # or after so many times its budget where that is longer
SECTIONS = ("test", "long")


@dataclasses.dataclass
class Step:
    name: str
    section: str  # one of SECTIONS
    cores: int    # 1; 0: all of them
    budget: int   # processor seconds
    needs: list
    command: str
    process: object = None
    start: float = 0

    @property
    def log(self): return os.path.join(LOGS, self.name + ".log")

    @property
    def reports(self): return os.path.join(LOGS, self.name + ".report")

    @property
    def limit(self): return max(STEP_SECONDS_MIN, STEP_BUDGETS * self.budget)


def read_steps():
    steps, section = [], SECTIONS[0]
    for number, line in enumerate(open(STEPS, encoding="utf-8"), 1):
        line, where = line.strip(), f"tests/steps.txt:{number}"
        if not line or line.startswith("#"): continue
        if line.startswith("["):
            section = line.strip("[]")
            if section not in SECTIONS: sys.exit(f"{where}: no section {line}")
            continue
        cells = [c.strip() for c in line.split("|", 4)]
        if len(cells) != 5 or cells[1] not in ("1", "all") or not cells[2].isdigit():
            sys.exit(f"{where}: not 'name | cores | seconds | needs | command'")
        if cells[0] in [s.name for s in steps]: sys.exit(f"{where}: a second step {cells[0]}")
        steps.append(Step(cells[0], section, int(cells[1]) if cells[1] == "1" else 0, int(cells[2]), cells[3].split(), cells[4]))
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
    return env


SANITIZERS = ("ASAN", "LSAN", "UBSAN", "TSAN")


def watched(env, step):
    """The environment in which reports of sanitizers become files STEP.report.PID in LOGS.  A child whose status nobody looks
    at, or that falls back to something else, cannot hide a finding."""
    for s in SANITIZERS:
        name = s + "_OPTIONS"
        own = [o for o in env.get(name, "").split(":") if o and not o.startswith("log_path=")]  # a runner may run in a step
        env[name] = ":".join(own + [f"log_path={step.reports}"])
    return env


def findings(step):
    """The reports that the step's programs left."""
    for path in sorted(glob.glob(glob.escape(step.reports) + ".*")):
        text = open(path, encoding="utf-8", errors="replace").read()
        if re.search(r"^SUMMARY: |runtime error: |ERROR: \w+Sanitizer", text, re.M): yield text  # others are warnings
        os.remove(path)


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


def count(step, status):
    """(passed, failed, output) of a finished step."""
    text = open(step.log, encoding="utf-8", errors="replace").read()
    found = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
    passed, failed = (int(found[-1][0]), int(found[-1][1])) if found else (int(status == 0), int(status != 0))
    if status != 0 and failed == 0: failed = 1  # it died after or beside its own count
    reports = list(findings(step))
    failed += len(reports)
    text += "".join(f"\na sanitizer's report:\n{r}" for r in reports)
    return passed, failed, text


class Run:
    """The steps under way, and the counts of those that ended."""

    def __init__(self, env):
        self.env, self.jobs = env, max(1, int(env["JOBS"]))
        self.passed = self.failed = self.skipped = 0
        self.processors = 0.0
        self.running, self.over = [], []  # over: (step, processor seconds)

    def fits(self, step):
        if not self.running: return True
        return step.cores and all(s.cores for s in self.running) and len(self.running) < self.jobs

    def start(self, step):
        """Starts it, or says why it is not run."""
        missing = [why for why in (lacks(n, self.env) for n in step.needs) if why]
        if any("`tenon" in why for why in missing) and os.path.exists(os.path.join(ROOT, "src", "cli", "main.c")):
            print(f"FAIL  {step.name:21} {'; '.join(missing)}", flush=True)  # the program is broken: not a reason to skip
            self.failed += 1
        elif missing:
            print(f"skip  {step.name:21} {'; '.join(missing)}", flush=True)
            self.skipped += 1
        else:
            env = watched(dict(self.env, JOBS=str(step.cores or self.jobs)), step)
            list(findings(step))  # of an earlier run
            step.start = time.monotonic()
            with open(step.log, "wb") as log:
                step.process = subprocess.Popen(["bash", "-c", step.command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            self.running.append(step)

    def kill(self, step):
        os.killpg(step.process.pid, signal.SIGKILL)
        return os.wait4(step.process.pid, 0)

    def poll(self, step):
        """(exit status, processor seconds of it and of what it waited for) once it ended, else None."""
        pid, status, used = os.wait4(step.process.pid, os.WNOHANG)
        if not pid:
            if time.monotonic() - step.start < step.limit: return None
            _, status, used = self.kill(step)
            with open(step.log, "ab") as log: log.write(f"\nended after {step.limit} s\n".encode())
        step.process.returncode = os.waitstatus_to_exitcode(status)
        return step.process.returncode, used.ru_utime + used.ru_stime

    def finish(self, step, status, used):
        seconds, (p, f, text) = time.monotonic() - step.start, count(step, status)
        self.passed, self.failed, self.processors = self.passed + p, self.failed + f, self.processors + used
        if used > step.budget: self.over.append((step, used))
        numbers = f"{p} passed" + (f", {f} failed" if f else "")
        print(f"{'FAIL' if f else 'ok  '}  {step.name:21} {seconds:6.1f} s ({used:5.1f} s of processors)  {numbers}", flush=True)
        if f: print("\n".join("    | " + line for line in text.rstrip().split("\n")[-TAIL_LINES:]), flush=True)

    def wait(self):
        """Until a running step has ended; counts it."""
        while True:
            for step in self.running:
                ended = self.poll(step)
                if ended:
                    self.running.remove(step)
                    return self.finish(step, *ended)
            time.sleep(0.02)

    def all(self, steps):
        try:
            for step in steps:
                while not self.fits(step): self.wait()
                self.start(step)
            while self.running: self.wait()
        except BaseException:  # the user's Ctrl-C: nothing is left running
            for step in self.running: self.kill(step)
            raise


def main(args):
    os.makedirs(LOGS, exist_ok=True)
    both = "--long" in args
    globs = [a for a in args if a != "--long"]
    run, start = Run(environment()), time.monotonic()
    run.all(s for s in read_steps() if (any(fnmatch.fnmatch(s.name, g) for g in globs) if globs else both or s.section == "test"))
    for step, used in run.over:
        print(f"over budget: {step.name} took {used:.0f} s of processors, its budget in tests/steps.txt is {step.budget}")
    print(f"{time.monotonic() - start:.0f} s in all ({run.processors:.0f} s of processors), {run.skipped} steps skipped; "
          "logs in build/test-logs")
    print(f"{run.passed} passed, {run.failed} failed", flush=True)
    return run.failed > 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
