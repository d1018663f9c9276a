#!/usr/bin/env python3
"""run_test.py -- tests/run.py on step files of its own: sections, cores, budgets, counts, steps that die."""
import contextlib, io, os, re, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import run

passed = failed = 0


def play(steps, *args, jobs=2):
    """(exit status, output) of the runner on these steps, which may write into $HERE."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        run.STEPS, run.LOGS = os.path.join(folder, "steps.txt"), os.path.join(folder, "logs")
        os.environ.update(HERE=folder, JOBS=str(jobs))
        open(run.STEPS, "w").write(steps)
        status = run.main(list(args))
    return status, out.getvalue()


def check(what, ok, said):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok: print(f"FAIL {what}\n{said}")


BURN = "python3 -c 'while __import__(\"time\").process_time() < 1.3: pass'"
# Each of the two waits for the other one: they pass only at the same time.
MEET = "touch $HERE/{0}; for i in $(seq 100); do [ -e $HERE/{1} ] && exit; sleep 0.1; done; exit 1"


def main():
    two = "[test]\na | 1 | 9 | | true\n[long]\nb | 1 | 9 | | true\n"
    for args, names in (((), "a"), (("--long",), "ab"), (("b",), "b"), (("--long", "a"), "a")):
        status, said = play(two, *args)
        check(f"the steps of {args}", not status and re.findall(r"^ok +(\w)", said, re.M) == list(names), said)

    status, said = play("a | 1 | 9 | | " + MEET.format("a", "b") + "\nb | 1 | 9 | | " + MEET.format("b", "a") + "\n")
    check("two steps of one core run at the same time", not status, said)
    steps = "a | 1 | 9 | | sleep 0.3; touch $HERE/a\nb | all | 9 | | [ -e $HERE/a ] && sleep 0.3 && touch $HERE/b\nc | 1 | 9 | | [ -e $HERE/b ]\n"
    status, said = play(steps)
    check("a step on all cores runs alone", not status and "3 passed, 0 failed" in said, said)
    status, said = play("a | 1 | 9 | | [ $JOBS = 1 ]\nb | all | 9 | | [ $JOBS = 3 ]\n", jobs=3)
    check("a step gets its cores", not status, said)

    status, said = play(f"a | 1 | 1 | | {BURN}\nb | 1 | 9 | | {BURN}\n")
    check("a step over its budget is named, and passes", not status and re.findall(r"^over budget: (\w) took", said, re.M) == ["a"], said)

    status, said = play("a | 1 | 9 | | echo 5 passed, 2 failed; exit 1\nb | 1 | 9 | | kill -9 $$\nc | 1 | 9 | file:/none | true\n")
    check("what fails is counted", status and said.rstrip().endswith("5 passed, 3 failed"), said)
    check("what lacks something is skipped", re.search(r"^skip +c +no /none", said, re.M), said)
    check("the last line counts", re.fullmatch(r"\d+ passed, \d+ failed", said.rstrip().split("\n")[-1]), said)

    # Reports of sanitizers count, even where the step forgives any exit status; warnings do not.
    probe = os.path.join(run.ROOT, "build", "asan", "sanitizer-probe")
    write = "echo '{}' > ${{ASAN_OPTIONS#*log_path=}}.7"
    status, said = play("a | 1 | 9 | | " + write.format("SUMMARY: AddressSanitizer: leak") + "\nb | 1 | 9 | | true\n")
    check("a report fails its step alone", status and "2 passed, 1 failed" in said and "AddressSanitizer: leak" in said, said)
    status, said = play("a | 1 | 9 | | " + write.format("WARNING: AddressSanitizer failed to allocate") + "\n")
    check("a warning is no report", not status, said)
    if os.path.exists(probe):
        for fault in ("heap", "stack", "leak", "null", "overflow", "shift"):
            status, said = play(f"a | 1 | 9 | | {probe} {fault}; [ $? = 99 ]\nb | 1 | 9 | | {probe} none; [ $? = 1 ]\n")
            check(f"{fault} ends with 99 and is seen", status and "2 passed, 1 failed" in said, said)
    else:
        print("skip: no build/asan/sanitizer-probe")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
