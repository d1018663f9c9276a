"""turns.py -- contenders that are measured in turns: each a process of its own (contender.py), which stands still (SIGSTOP) meanwhile."""
import json, os, signal, subprocess, sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Contender:
    def __init__(self, kind, path, inputs, threads, cache=None, clock="wall"):
        command = [sys.executable, os.path.join(root, "bench", "contender.py"), kind, path, inputs, str(threads), clock]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, TENON_CACHE=cache) if cache else None)
        self.made_ms = self.answer()["made_ms"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line: raise SystemExit(f"contender {' '.join(self.process.args[2:4])} ended")
        return json.loads(line)

    def ask(self, what):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def difference(a, b):
    """The largest difference of two archives' outputs, as a share of the largest element."""
    import numpy as np
    worst = 0.0
    with np.load(a) as x, np.load(b) as y:
        if sorted(x) != sorted(y): raise SystemExit(f"other outputs in {a} and {b}")
        for name in x:
            if not y[name].size: continue
            worst = max(worst, float(np.abs(x[name].astype(float) - y[name]).max() / max(np.abs(y[name]).max(), 1e-30)))
    return worst
