#!/usr/bin/env python3
"""coverage.py -- which lines and branches of src/ the tests execute.

usage: tools/coverage.py [--report] [--missed FOLDER] [--run TEXT]

Builds the preset `coverage` (clang's source-based coverage), runs RUNS below, and prints one row per folder of src/.
--report prints the table of what was counted before, and runs nothing.
--missed FOLDER lists the files of a folder, and the lines of which no execution was counted.
--run TEXT builds, and adds the counts of the runs that have TEXT to those of before.

The table goes to build/coverage/coverage.txt, the counts of every line and branch to build/coverage/coverage.lcov.
The exit status is 1 when a run failed, or when a bar was missed: LINES_MIN % of lines, BRANCHES_MIN % of branches.

What counts:
  lines     every line of src/**/*.c and *.h that has code
  branches  each condition counts twice: it was true once, it was false once.  So do the parts of && and ||, and the
            conditions that a macro brings with it, such as TRY's.
  not       conditions of CHECK: its false side is a defect of Tenon, which no test can cause.  The table says how many these are.
Counters live in a shared mapping of a file, so what a killed or confined process executed counts too.
"""
import collections, glob, os, re, shlex, subprocess, sys, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.path.join(ROOT, "build", "coverage")
PROGRAMS = ("tenon-tests", "tenon", "tenon-codegen")
LINES_MIN, BRANCHES_MIN = 90, 80

# One command a line; they run in the repository's root.  $B is the build, $DATA models and suites, $PYTHON an interpreter with
# the packages of the tests.  A line that starts with `data` needs $DATA.
RUNS = """
TEST_EVERY=4 RULE_FUZZ=50 GRAPH_FUZZ=200 CSTYLE_LEVEL=-O0 tests/unit.sh $B/tenon-tests
tests/system/cli_test.sh $B/tenon
data tests/system/conform.sh $B/tenon 1 --reparse $DATA/suites/onnx-node-tests.tar.xz $DATA/suites/onnx-other-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 --target plan --every 4 $DATA/suites/onnx-node-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 --target ref --every 10 $DATA/suites/onnx-node-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 --target cpu --every 4 $DATA/suites/onnx-node-tests.tar.xz $DATA/suites/onnx-other-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 --expand --every 4 $DATA/suites/onnx-node-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 $DATA/suites/stablehlo-testdata.tar.xz
data tests/system/conform.sh $B/tenon 1 --target cpu --every 40 $DATA/suites/stablehlo-testdata.tar.xz
data tests/system/conform.sh $B/tenon 1 --target c --every 20 $DATA/suites/onnx-node-tests.tar.xz
data tests/system/conform.sh $B/tenon 1 --target opencl --every 60 $DATA/suites/onnx-node-tests.tar.xz
$PYTHON tests/formats/export_test.py $B/tenon
data $PYTHON tests/formats/tflite_test.py $B/tenon
$PYTHON tests/formats/recorded.py $B/tenon tests/models/recorded/*.tar.xz
$PYTHON tests/formats/recorded.py $B/tenon --damage 20 tests/models/recorded/torch_*.tar.xz
$PYTHON tests/formats/recorded.py $B/tenon --damage 3 tests/models/recorded/tflite_*.tar.xz
$PYTHON tests/formats/contrib_test.py $B/tenon
$PYTHON tests/formats/npz_test.py $B/tenon
$PYTHON tests/system/graph_test.py $B/tenon
TENON_LIBRARY=$B/libtenon.so $PYTHON tests/python/run.py
tests/system/c_test.py $B/tenon
tests/system/aot_test.py $B/tenon
$PYTHON tests/security/confine_test.py $B/tenon
tests/security/kill_test.py $B/tenon 3
tests/system/split_test.py $B/tenon
tests/security/files_test.py $B/tenon
$PYTHON tests/security/artifacts_test.py $B/tenon
$PYTHON tests/security/limits_test.py $B/tenon 11
TENON=$B/tenon $PYTHON tests/system/schedule_replay.py tests/models/{past.tir,whole_int8.tir,conv.onnx,mlp.onnx,digits_int8.onnx,keywords_int8.onnx,scan.onnx}
data TENON=$B/tenon $PYTHON tests/system/models_test.py models $DATA/models
data TENON=$B/tenon $PYTHON tests/system/models_test.py inspect $DATA/nets
tests/fuzz/replay.sh $B
"""


def environment():
    env = dict(os.environ, B=BUILD, JOBS=os.environ.get("JOBS") or str(len(os.sched_getaffinity(0))))
    venv = os.path.join(ROOT, "build", "venv", "bin", "python")
    env["PYTHON"] = env.get("TENON_PYTHON") or (venv if os.path.exists(venv) else sys.executable)
    env["DATA"] = env["TENON_DATA"] = os.path.abspath(os.path.join(ROOT, env.get("TENON_DATA") or "../shared/data"))
    env["LLVM_PROFILE_FILE"] = os.path.join(BUILD, "profiles", "%m%c")
    return env


def build(env):
    targets = ("tenon-tests", "tenon_cli", "tenon-codegen", "tenon-codegen-hostile", "tenon_shared", "fuzz-targets")
    subprocess.run(["cmake", "--preset", "coverage"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "coverage", "-j", env["JOBS"], "--target", *targets], cwd=ROOT, check=True)
    # Object files that the program wrote are linked by cc, with a runtime that counts nothing.
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "-j", env["JOBS"], "--target", "tenon_runtime"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    runtime = os.path.join(BUILD, "libtenon_runtime.a")
    if not os.path.lexists(runtime): os.symlink(os.path.join("..", "libtenon_runtime.a"), runtime)


def run_all(env, only):
    failed, folder = 0, os.path.join(BUILD, "logs")
    os.makedirs(folder, exist_ok=True)
    if only is None:
        for f in glob.glob(os.path.join(BUILD, "profiles", "*")): os.remove(f)
    for number, line in enumerate(RUNS.strip().split("\n")):
        if only and only not in line: continue
        need_data, command = line.startswith("data "), line.removeprefix("data ")
        if need_data and not os.path.isdir(env["DATA"]):
            print(f"skip  {command}: no {env['DATA']}", flush=True)
            continue
        start = time.monotonic()
        with open(os.path.join(folder, f"{number}.log"), "wb") as log:
            status = subprocess.run(["bash", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
        failed += status != 0
        print(f"{'FAIL' if status else 'ok  '}  {time.monotonic() - start:6.1f} s  {command}", flush=True)
        if status: subprocess.run(["tail", "-n", "15", log.name])
    return failed


def tool(name):
    """llvm-cov and llvm-profdata of the compiler that built the programs."""
    version = re.search(r"version (\d+)", subprocess.run(["clang", "--version"], capture_output=True, text=True).stdout)[1]
    for candidate in (f"{name}-{version}", f"/usr/lib/llvm-{version}/bin/{name}", name):
        if subprocess.run(["sh", "-c", f"command -v {shlex.quote(candidate)}"], stdout=subprocess.DEVNULL).returncode == 0: return candidate
    sys.exit(f"coverage: no {name} {version} here")


def export():
    """Merges the profiles, and writes coverage.lcov."""
    data, out = os.path.join(BUILD, "coverage.profdata"), os.path.join(BUILD, "coverage.lcov")
    profiles = glob.glob(os.path.join(BUILD, "profiles", "*"))
    if not profiles: sys.exit("coverage: nothing was counted; run it without --report")
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *profiles, "-o", data], check=True)
    objects = [o for o in (os.path.join(BUILD, p) for p in PROGRAMS) if os.path.isfile(o)]  # the fuzz targets have no other code of src/
    with open(out, "wb") as f:
        subprocess.run([tool("llvm-cov"), "export", "-format=lcov", objects[0], *(x for o in objects[1:] for x in ("-object", o)),
                        "-instr-profile", data, os.path.join(ROOT, "src")], check=True, stdout=f)
    return out


class Count:
    """Of a file or folder: lines and branches, those executed, branches of CHECK."""

    def __init__(self): self.lines = self.lines_hit = self.branches = self.branches_hit = self.checks = 0

    def add(self, o):
        for k in vars(self): setattr(self, k, getattr(self, k) + getattr(o, k))

    def row(self, name):
        percent = lambda a, b: 100 * a / b if b else 100
        return (f"{name:28} {self.lines:7} {percent(self.lines_hit, self.lines):6.1f} %  {self.branches:8} "
                f"{percent(self.branches_hit, self.branches):6.1f} %  {self.checks:7}")


def checks_of(path):
    """Numbers of the lines that a CHECK takes."""
    found, depth = set(), 0
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if depth == 0:
            m = re.search(r"\bCHECK\(", line)
            if not m or line.lstrip().startswith(("#", "//")): continue
            depth, line = 1, line[m.end():]
        found.add(number)
        for c in re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", line):
            depth += (c == "(") - (c == ")")
            if depth == 0: break
    return found


def read(lcov):
    """{path: (Count, lines never executed)} of src/."""
    files, path = {}, None
    for line in open(lcov, encoding="utf-8"):
        kind, _, rest = line.strip().partition(":")
        if kind == "SF":
            path = os.path.relpath(os.path.realpath(rest), ROOT)
            if not path.startswith("src" + os.sep): path = None
            else: count, missed, checks = *files.setdefault(path, (Count(), [])), checks_of(os.path.join(ROOT, path))
        elif path and kind == "DA":
            number, hits = rest.split(",")[:2]
            count.lines += 1
            count.lines_hit += hits != "0"
            if hits == "0": missed.append(int(number))
        elif path and kind == "BRDA":
            number, _, _, hits = rest.split(",")
            if int(number) in checks: count.checks += 1
            else:
                count.branches += 1
                count.branches_hit += hits not in ("0", "-")
    return files


def folder_of(path):
    parts = path.split(os.sep)
    return "/".join(parts[:3] if parts[1] in ("frontends", "exporters", "lower", "targets", "cli") and len(parts) > 3 else parts[:2])


def spans(numbers):
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1: out[-1][1] = n
        else: out.append([n, n])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def report(files, failed):
    folders, total = collections.defaultdict(Count), Count()
    for path, (count, _) in files.items():
        folders[folder_of(path)].add(count)
        total.add(count)
    lines = [f"{'folder':28} {'lines':>7} {'executed':>8}  {'branches':>8} {'taken':>8}  {'of CHECK':>7}"]
    lines += [folders[f].row(f) for f in sorted(folders)] + [total.row("src")]
    text = "\n".join(lines)
    print(text)
    open(os.path.join(BUILD, "coverage.txt"), "w").write(text + "\n")
    good = total.lines_hit * 100 >= LINES_MIN * total.lines and total.branches_hit * 100 >= BRANCHES_MIN * total.branches
    print(f"bars: {LINES_MIN} % of lines, {BRANCHES_MIN} % of branches: {'held' if good else 'MISSED'}; {failed} runs failed")
    return 0 if good and not failed else 1


def main(args):
    env = environment()
    failed = 0
    if "--report" not in args and "--missed" not in args:
        build(env)
        failed = run_all(env, args[args.index("--run") + 1] if "--run" in args else None)
    files = read(export())
    if "--missed" in args:
        under = args[args.index("--missed") + 1].rstrip("/") + "/"
        for path in sorted(files, key=lambda p: files[p][0].lines_hit - files[p][0].lines):
            if path.startswith(under): print(files[path][0].row(path), "\n    ", spans(files[path][1]))
        return 0
    return report(files, failed)


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
