#!/usr/bin/env python3
"""named_faults.py -- plants each fault of tests/named_faults.txt and runs the tests that must catch it.

usage: tools/named_faults.py [NAME...]      only faults whose name contains one of these

A fault is compiled into an object of its own, which takes the place of the source's in the link of build/tenon-tests; the source stays as it
is.  Needs an up-to-date release build.  A fault whose text is not in its source, that does not compile, or that the tests pass, is a failure.
The last line is `N passed, N failed`.
"""
import os, re, shlex, subprocess, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD, OUT = os.path.join(ROOT, "build"), os.path.join(ROOT, "build", "named_faults")
SECONDS = 120  # a test that does not end has caught it


def rows():
    with open(os.path.join(ROOT, "tests", "named_faults.txt"), encoding="utf-8") as f: lines = f.read().splitlines()
    for line in lines:
        if not line.strip() or line.startswith("#"): continue
        parts = [p.strip().replace("\\|", "|") for p in re.split(r"(?<=\s)\|(?=\s)", line)]
        if len(parts) != 5: sys.exit(f"named_faults.txt: {line!r} has {len(parts)} columns, must have 5")
        yield parts


def commands(target):
    out = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True)
    return out.stdout.splitlines()


def run(command): return subprocess.run(command, cwd=BUILD, capture_output=True, text=True)


def build(name, source, text, fault, all_commands):
    """The program of tests with the fault; or None, and why not."""
    with open(os.path.join(ROOT, source), encoding="utf-8") as f: code = f.read()
    if code.count(text) != 1: return None, f"its text is {code.count(text)} times in {source}"
    copy = os.path.join(OUT, re.sub(r"\W+", "_", name) + ".c")
    with open(copy, "w", encoding="utf-8") as f: f.write(f'#line 1 "{source}"\n' + code.replace(text, fault))
    link = shlex.split(all_commands[-1].split("&&")[1])
    wanted = [w for w in link if w.endswith("/" + source + ".o")]
    if len(wanted) != 1: return None, f"{source} is {len(wanted)} times in the link"
    compile_ = [c for c in all_commands if f" -o {wanted[0]} " in c and " -c " in c]
    words = [w for w in shlex.split(compile_[0]) if w not in ("-Werror", "/usr/bin/ccache")]
    cut = next(i for i, w in enumerate(words) if w == "-MD")  # dependency files are the build's own
    made = run(words[:cut] + ["-I" + os.path.dirname(os.path.join(ROOT, source)), "-w", "-o", copy[:-2] + ".o", "-c", copy])
    if made.returncode: return None, made.stderr[-500:]
    program = os.path.join(BUILD, "tenon-tests-fault")  # beside tenon-codegen
    link = [copy[:-2] + ".o" if w == wanted[0] else program if w == "tenon-tests" else w for w in link]
    made = run(link)
    return (None, made.stderr[-500:]) if made.returncode else (program, "")


def caught(program, tests):
    try: return subprocess.run([program, *tests.split()], cwd=ROOT, capture_output=True, timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired: return True


def main():
    os.makedirs(OUT, exist_ok=True)
    all_commands, passed, failed = commands("tenon-tests"), 0, 0
    for name, source, text, fault, tests in rows():
        if sys.argv[1:] and not any(w in name for w in sys.argv[1:]): continue
        program, why = build(name, source, text, fault, all_commands)
        if program and not caught(program, tests): why = f"{tests} passed"
        passed, failed = passed + (not why), failed + bool(why)
        print(f"{'ok  ' if not why else 'FAIL'} {name}{': ' if why else ''}{why}", flush=True)
        if program: os.remove(program)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__": main()
