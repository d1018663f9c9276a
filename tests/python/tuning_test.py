"""tuning_test.py -- tenon.tune: the program it starts, what it returns, and what it raises."""
import os, tempfile, unittest

import numpy as np
import tenon
from tenon import _ffi

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "examples", "digits", "digits.onnx")


@unittest.skipUnless(_ffi.program("tenon-tune") and tenon.tools.is_available("cpu"), "no tenon-tune, or no code generator")
class Tuning(unittest.TestCase):
    def test_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            t = tenon.tune(MODEL, os.path.join(folder, "digits.schedules"), seconds=1, database="none", seed=1)
            self.assertEqual(t.tasks, 3)
            self.assertTrue(0 <= t.kernels <= t.tasks and t.trials > 0 and t.gain > 0)
            x = np.random.default_rng(0).uniform(0, 16, (5, 8, 8)).astype(np.float32)
            plain, tuned = tenon.compile(MODEL, target="cpu"), tenon.compile(MODEL, target="cpu", tuned=t.path)
            self.assertEqual(np.asarray(plain(x)).tobytes(), np.asarray(tuned(x)).tobytes())

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "f")
            with self.assertRaises(tenon.FileError): tenon.tune(os.path.join(folder, "none.onnx"), out, database="none")
            with self.assertRaises(tenon.InvalidError): tenon.tune(MODEL, out, seconds=0.001, database="none")
            self.assertFalse(os.path.exists(out))


if __name__ == "__main__": unittest.main()
