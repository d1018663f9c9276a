"""quantizing_test.py -- tenon.quantize and tenon.prune: forms of samples, the certificate, what is written, and errors."""
import json, os, tempfile, unittest

import numpy as np
import tenon

DIGITS = "examples/digits/digits.onnx"


def pictures(n, seed=0):
    rng = np.random.default_rng(seed)
    shown = np.load("examples/digits/digits.npy")
    return np.clip(shown[rng.integers(0, len(shown), n)] + rng.normal(0, 2, (n, 8, 8)), 0, 16).astype(np.float32)


X = pictures(120)


def quantize(data=None, **more): return tenon.quantize(DIGITS, data, allow_slower=True, **more)


class Quantize(unittest.TestCase):
    def test_forms_of_samples_give_the_same_model(self):
        q = quantize({"image": X})
        self.assertEqual((q.verdict, q.quantized, q.contractions, q.samples, q.metric), ("made", 2, 2, 120, "agreement"))
        forms = {
            "samples": list(X),
            "batches of one": [x[None] for x in X],
            "batches": [X[:50], X[50:]],
            "tuples": [(x,) for x in X],
            "dictionaries": ({"image": x} for x in X),
            "labels": [(X[:70], np.arange(70)), (X[70:], np.arange(50))],
        }
        for name, data in forms.items():
            with self.subTest(name):
                other = quantize(data, labels=True if name == "labels" else None)
                self.assertEqual(other.samples, 120)
                if name != "labels": self.assertEqual(other.SerializeToString(), q.SerializeToString())

    def test_what_is_written(self):
        q = quantize({"image": X}, to="w4", metric="rms")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "q.onnx")
            q.save(path)
            self.assertEqual(sorted(os.listdir(folder)), ["q.onnx", "q.onnx.certificate.json"])
            self.assertEqual(json.load(open(path + ".certificate.json")), q.certificate)
            y = tenon.compile(path)(X[:5])
        self.assertTrue(np.array_equal(y, tenon.compile(q.SerializeToString())(X[:5])))
        want = tenon.compile(DIGITS)(X[:5])
        self.assertLess(np.abs(y - want).max(), 0.2)
        self.assertIn("Certificate", q.report)
        self.assertIn("srcdoc", q._repr_html_())
        self.assertIn("rms", repr(q))

    def test_limits(self):
        q = quantize({"image": X}, budget="rms<=0.00001%")
        self.assertEqual(q.verdict, "missed")
        with self.assertRaisesRegex(tenon.InvalidError, "limit is not met"): q.save("nowhere.onnx")
        self.assertFalse(os.path.exists("nowhere.onnx"))
        kept = quantize({"image": X}, keep=["log*"])
        self.assertEqual(kept.quantized, 1)
        free = quantize(to="w8")
        self.assertEqual((free.verdict, free.certificate, free.metric), ("made", None, None))

    def test_errors(self):
        def wrong(says, data=None, **more):
            with self.assertRaisesRegex(tenon.TenonError, says): quantize(data, **more)

        wrong("needs samples")
        wrong("no choice", {"image": X}, to="int7")
        wrong("no input", {"picture": X})
        wrong("9, 8", {"image": np.zeros((20, 9, 8), np.float32)})
        wrong("f64", {"image": X.astype(np.float64)})
        wrong("number 7", [*X[:7], np.zeros((9, 8), np.float32)])
        wrong("NaN", {"image": np.where(X > 15, np.nan, X).astype(np.float32)})
        wrong("needs 299 different samples", {"image": X}, budget="agreement>=99%")
        wrong("lacks the input", [{"picture": X[0]}])
        wrong("blocks of 48", {"image": X}, to="w4", block=48)
        wrong("no migration 'smoth'", {"image": X}, migrate="smoth")
        wrong("awq is not for int8", {"image": X}, migrate="awq")

    def test_what_an_iterable_raises_goes_on(self):
        def broken():
            yield X[0]
            raise KeyError("the disk is gone")

        with self.assertRaisesRegex(KeyError, "the disk is gone"): quantize(broken())

    def test_progress_ends_it(self):
        seen = []
        quantize({"image": X}, progress=lambda p: seen.append(p.stage) and None)
        self.assertIn("calibrate", seen)
        with self.assertRaises(tenon.CancelledError): quantize({"image": X}, progress=lambda p: p.stage == "calibrate")


class Prune(unittest.TestCase):
    def test_two_of_four(self):
        p = tenon.prune(DIGITS, {"image": X}, pattern="2:4", allow_slower=True, metric="rms")
        self.assertEqual((p.verdict, p.quantized, p.contractions, p.metric), ("made", 2, 2, "rms"))
        self.assertEqual([l["choice"] for l in p.certificate["layers"]], ["2:4", "2:4"])
        self.assertIn("Pruning", p.report)
        with tempfile.TemporaryDirectory() as folder:
            p.save(os.path.join(folder, "p.onnx"))
            y = tenon.compile(os.path.join(folder, "p.onnx"))(X[:5])
        error = np.linalg.norm(y - tenon.compile(DIGITS)(X[:5]))
        self.assertTrue(0 < error < 1.5, error)

    def test_options(self):
        kept = tenon.prune(DIGITS, list(X), pattern="2:4", keep=["log*"], allow_slower=True)
        self.assertEqual(kept.quantized, 1)
        slow = tenon.prune(DIGITS, list(X), pattern="2:4")  # no kernel leaves such zeros out
        self.assertEqual((slow.verdict, slow.quantized), ("slower", 0))
        with self.assertRaisesRegex(tenon.InvalidError, "not faster"): slow.save("nowhere.onnx")
        missed = tenon.prune(DIGITS, list(X), pattern="2:4", budget="rms<=0.0001%", allow_slower=True)
        self.assertEqual(missed.verdict, "missed")

    def test_errors(self):
        def wrong(says, data=None, **more):
            with self.assertRaisesRegex(tenon.TenonError, says): tenon.prune(DIGITS, data, **more)

        wrong("pruning needs samples")
        wrong("no pattern 'fours'", list(X), pattern="fours")
        wrong("50 or 75", list(X), zeros=60)
        wrong("at least 4", list(X[:3]))

    def test_what_an_iterable_raises_goes_on(self):
        def broken():
            yield X[0]
            raise KeyError("the disk is gone")

        with self.assertRaisesRegex(KeyError, "the disk is gone"): tenon.prune(DIGITS, broken())


if __name__ == "__main__":
    unittest.main()
