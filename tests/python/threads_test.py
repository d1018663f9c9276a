"""threads_test.py -- many threads, forked processes, and the end of the interpreter: no crash, no deadlock, right results."""
import gc, os, signal, subprocess, sys, threading, time, unittest

import numpy as np
import tenon
from tenon import session as sessions

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = "examples/digits/digits.onnx"
SECONDS_MAX = 60


def images():
    return np.load("examples/digits/digits.npy")


def in_child(work):
    """The exit status of a forked child that runs `work`; one that hangs is ended by an alarm."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            signal.alarm(SECONDS_MAX)
            status = 0 if work() else 2
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


class Threads(unittest.TestCase):
    def test_each_thread_has_its_own_session_and_frees_it(self):
        gc.collect()
        m, x = tenon.compile(DIGITS, threads=1), images()
        want, wrong, before = m(x).tobytes(), [], len(sessions._live)

        def work():
            for k in range(30):
                if m(x[:k % 10 + 1]).tobytes() != want[:(k % 10 + 1) * 40]: wrong.append(k)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        del threads, t
        gc.collect()
        self.assertEqual((wrong, len(sessions._live)), ([], before))

    def test_models_are_freed_while_others_run(self):
        x, stop, wrong = images(), threading.Event(), []
        keep = tenon.compile(DIGITS)
        want = keep(x).tobytes()

        def work():
            while not stop.is_set():
                if keep(x).tobytes() != want: wrong.append(1)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(10):
                m = tenon.compile(DIGITS)
                if m(x).tobytes() != want: wrong.append(2)
                del m
        finally:
            stop.set()
            thread.join()
        self.assertEqual(wrong, [])

    def test_compiling_in_several_threads(self):
        x, results = images(), []
        threads = [threading.Thread(target=lambda: results.append(tenon.compile(DIGITS, cache=False)(x).tobytes())) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        self.assertEqual((len(results), len(set(results))), (3, 1))


@unittest.skipUnless(hasattr(os, "fork"), "no fork")
class Forks(unittest.TestCase):
    def test_models_and_sessions_go_on_in_a_child(self):
        m, x = tenon.compile(DIGITS, threads=2), images()
        s, reference = m.session(), tenon.compile(DIGITS, target="interp")
        want = m(x).tobytes()
        judged = reference(x).tobytes()
        s(x)

        def child():
            ok = all(f(x).tobytes() == want for f in (m, s, m, s)) and reference(x).tobytes() == judged
            made = tenon.compile(DIGITS, cache=False)
            return ok and made(x).tobytes() == want

        for _ in range(3): self.assertEqual(in_child(child), 0)
        self.assertEqual(m(x).tobytes(), want)
        self.assertEqual(s(x).tobytes(), want)

    def test_everything_can_be_freed_in_a_child(self):
        made = [tenon.compile(DIGITS, threads=2), tenon.compile(DIGITS, target="interp")]
        for m in made: m(images())
        del m

        def child():
            made.clear()
            gc.collect()
            return True

        self.assertEqual(in_child(child), 0)

    def test_forking_while_another_thread_compiles(self):
        stop, x = threading.Event(), images()
        want = tenon.compile(DIGITS)(x).tobytes()

        def work():
            while not stop.is_set(): tenon.compile(DIGITS, cache=False)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(4):
                self.assertEqual(in_child(lambda: tenon.compile(DIGITS, cache=False)(x).tobytes() == want), 0)
        finally:
            stop.set()
            thread.join()

    def test_a_child_that_lives_on_does_not_hold_up_its_parent(self):
        stop, count = threading.Event(), [0]

        def work():
            while not stop.is_set():
                tenon.compile(DIGITS, cache=False)
                count[0] += 1

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        pid = os.fork()
        if not pid:
            time.sleep(SECONDS_MAX)
            os._exit(0)
        try:
            seen, deadline = count[0], time.monotonic() + SECONDS_MAX / 2
            while count[0] < seen + 2 and time.monotonic() < deadline: time.sleep(0.05)
            self.assertGreaterEqual(count[0], seen + 2)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            stop.set()
            thread.join()


ENDING = """
import sys, threading, time
sys.path.insert(0, "python")
import numpy as np, tenon
m, x = tenon.compile("examples/digits/digits.onnx", {options}), np.load("examples/digits/digits.npy")
x = np.repeat(x, 200, 0)
m(x)
def work():
    while True: {work}
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep({seconds})
{end}
"""


class Ends(unittest.TestCase):
    def run_it(self, end="", work="m(x)", options="threads=2", seconds=0.1):
        p = subprocess.run([sys.executable, "-c", ENDING.format(end=end, work=work, options=options, seconds=seconds)], cwd=ROOT,
                           capture_output=True, text=True, timeout=SECONDS_MAX)
        return p.returncode, p.stderr

    def test_the_interpreter_ends_during_runs(self):
        for seconds in (0.05, 0.1): self.assertEqual(self.run_it(seconds=seconds), (0, ""))

    def test_it_ends_during_runs_of_the_interpreter(self):
        self.assertEqual(self.run_it(options="target='interp'"), (0, ""))

    def test_it_ends_during_compilations(self):
        work = "tenon.compile('examples/digits/digits.onnx', cache=False)"
        self.assertEqual(self.run_it(work=work, seconds=0.3), (0, ""))

    def test_it_ends_by_an_exception(self):
        status, said = self.run_it(end="raise KeyError('own')")
        self.assertEqual((status, said.count("KeyError: 'own'"), "Fatal" in said), (1, 1, False), said)

    def test_models_that_live_to_the_end(self):
        self.assertEqual(self.run_it(work="time.sleep(1)", end="keep = m.session(); keep(x); sys.modules['own'] = keep"), (0, ""))


if __name__ == "__main__": unittest.main()
