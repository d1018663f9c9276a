"""model_test.py -- compiling, calling and saving models from Python; what is refused, and how it is said."""
import copy, gc, os, pickle, signal, subprocess, sys, tempfile, threading, time, unittest, warnings

from unittest import mock

import numpy as np
import tenon
from tenon import session

DIGITS = "examples/digits/digits.onnx"
IMAGES = "examples/digits/digits.npy"


def digits(**options):
    return tenon.compile(DIGITS, **options), np.load(IMAGES)


class Limits(unittest.TestCase):
    def test_negative_memory_limit(self):
        for target in ("auto", "interp"):
            with self.assertRaisesRegex(tenon.InvalidError, "memory_limit"): digits(target=target, memory_limit=-1)


class Devices(unittest.TestCase):
    def test_one_that_is_not_there(self):
        if not any(t.name == "opencl" and t.available for t in tenon.targets()): self.skipTest("no OpenCL device")
        with self.assertRaisesRegex(tenon.TenonError, "no OpenCL device 'none such'"): digits(target="opencl", device="none such")


COMPOSITE = b"""graph @"m"(%xs: seq(f32[n]), %o: opt(f32[k]), %rows: f32[b, 2]) -> (all: f32[?s], more: seq(f32[n]), same: opt(f32[k]), maps: seq(map(i64, f32[]))) {
  %all = concat_from_sequence(%xs) axis=0
  %i = const i64[] {0}
  %first = sequence_at(%xs, %i)
  %more = sequence_insert(%xs, %first)
  %maps = zip_map(%rows) classlabels_int64s=[3, 7]
  return %all, %more, %o, %maps
}
"""


def here(*targets):
    """Those that run on this machine."""
    have = {t.name for t in tenon.targets() if t.available} | {"interp"}
    return [t for t in targets if t in have]


SEVERAL = b"""graph @"m"(%x: f32[n, 2], %i: i64[k]) -> (twice: f32[n, 2], picked: f32[k, 2], sum: f32[1, 1]) {
  %twice = add(%x, %x)
  %picked = gather(%x, %i) axis=0
  %sum = reduce_sum(%twice)
  return %twice, %picked, %sum
}
"""


class Signatures(unittest.TestCase):
    """Entry points of TensorFlow Lite models, with names of their own."""

    def test_each_signature(self):
        x = np.array([3, -4], "f4")
        for target in here("interp", "ref", "cpu"):
            for name, want in (("twice", 2 * x), ("square", x * x)):
                m = tenon.compile("tests/models/signatures.tflite", target=target, signature=name)
                self.assertEqual(m({"x": x})["y"].tolist(), want.tolist())
        m = tenon.compile("tests/models/signatures.tflite", target="ref")
        self.assertEqual([v.name for v in m.inputs + m.outputs], ["twice/in:0", "twice/out:0"])


class Wanted(unittest.TestCase):
    """Some of the outputs: what only others need is not computed, so a wrong index is no error."""

    def test_some_outputs(self):
        x, wrong = np.arange(6, dtype="f4").reshape(3, 2), np.array([9])
        for target in here("interp", "ref", "cpu"):
            m = tenon.compile(SEVERAL, target=target)
            with self.assertRaisesRegex(tenon.InvalidError, "out of range"): m(x, wrong)
            for rows in (x, x[:1], x, x):  # the second call of a shape takes the quick way
                self.assertEqual(m(rows, wrong, outputs=["sum"]).item(), 2 * rows.sum())
                total, twice = m(rows, wrong, outputs=["sum", "twice"])
                self.assertEqual((total.item(), twice.tolist()), (2 * rows.sum(), (2 * rows).tolist()))
                self.assertEqual(list(m({"x": rows, "i": wrong}, outputs=["twice"])), ["twice"])
            whole, picked, total = m(x, wrong - 8)
            self.assertEqual(picked.tolist(), x[1:2].tolist())
            self.assertEqual(m.session().run_list([x, wrong], outputs=[]), [])
        with self.assertRaisesRegex(tenon.InvalidError, "no output 'twise'; did you mean 'twice'"): m(x, wrong, outputs=["twise"])
        with self.assertRaisesRegex(tenon.InvalidError, "one of the two"): m(x, wrong, outputs=["sum"], out=x)
        with self.assertRaisesRegex(tenon.InvalidError, "list of names"): m(x, wrong, outputs="sum")

    def test_inference_session(self):
        x, wrong = np.ones((1, 2), "f4"), np.array([9])
        session = tenon.InferenceSession(SEVERAL)
        for names in (["sum"], ["sum", "twice"], ["twice", "sum", "twice"]):
            for _ in range(2):
                got = session.run(names, {"x": x, "i": wrong})
                self.assertEqual([y.tolist() for y in got], [{"sum": [[4]], "twice": [[2, 2]]}[n] for n in names])


class Composites(unittest.TestCase):
    """Sequences, optionals and maps."""

    def test_they_come_and_go(self):
        x, y, rows = np.arange(3, dtype="f4"), np.ones(2, "f4"), np.array([[0.25, 0.75]], "f4")
        for target in here("interp", "ref", "cpu"):
            m = tenon.compile(COMPOSITE, target=target)
            for _ in range(2):
                whole, more, same, maps = m([x, y], x, rows)
                self.assertEqual(whole.tolist(), [0, 1, 2, 1, 1])
                self.assertEqual([v.tolist() for v in more], [[0, 1, 2], [1, 1], [0, 1, 2]])
                self.assertEqual(same.tolist(), [0, 1, 2])
                self.assertEqual(maps, [{3: 0.25, 7: 0.75}])
            self.assertIsNone(m({"xs": (x,), "rows": rows})["same"])
            self.assertEqual(m([x, y], x, rows, outputs=["maps"]), [{3: 0.25, 7: 0.75}])

    def test_a_map_by_position(self):
        text = b"""graph @"m"(%d: map(i64, f32[])) -> (y: f32[1, 2]) {
  %y = dict_vectorizer(%d) int64_vocabulary=[1, 7]
  return %y
}
"""
        for target in here("interp", "ref", "cpu"):
            m = tenon.compile(text, target=target)
            self.assertEqual(m({7: 2.0}).tolist(), [[0, 2]])
            self.assertEqual(m({}).tolist(), [[0, 0]])
            self.assertEqual(m({"d": {1: 3.0}})["y"].tolist(), [[3, 0]])

    def test_numbers_take_the_declared_type(self):
        text = b"""graph @"m"(%d: map(string, f32[]), %xs: seq(f32[n])) -> (row: f32[1, 2], all: f32[?s]) {
  %row = dict_vectorizer(%d) string_vocabulary=["a", "b"]
  %all = concat_from_sequence(%xs) axis=0
  return %row, %all
}
"""
        for target in here("interp", "ref", "cpu"):
            m = tenon.compile(text, target=target)
            for given, want in (({"b": 1.5}, [0, 1.5]), ({"a": np.float32(2), "b": np.float32(1)}, [2, 1]), ({}, [0, 0])):
                row, whole = m(given, [np.ones(1, "f4"), np.zeros(1, "f4")])
                self.assertEqual((row.dtype, row.tolist(), whole.tolist()), (np.float32, [want], [1, 0]))

    def test_what_is_refused(self):
        m, rows = tenon.compile(COMPOSITE, target="ref"), np.zeros((1, 2), "f4")
        with self.assertRaisesRegex(tenon.TenonError, "it is a tensor, a sequence is needed"): m(rows[0], None, rows)
        with self.assertRaisesRegex(tenon.TenonError, "another dtype than item 0"): m([rows[0], rows[0].astype("f8")], None, rows)
        with self.assertRaisesRegex(tenon.TenonError, "makes its outputs itself"): m([rows[0]], None, rows, out=rows)
        with self.assertRaisesRegex(tenon.TenonError, "rows"): m([rows[0]], None, rows.astype("i4"))


class Notices(unittest.TestCase):
    def test_a_cache_that_others_may_write_to(self):
        """In a process of its own: a notice is given once a process."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            code = f"import tenon; tenon.compile({DIGITS!r}, target='cpu'); tenon.compile({DIGITS!r}, target='cpu')"
            r = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True,
                               env={**os.environ, "TENON_CACHE": folder, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(tenon.__file__)))})
            if "UnsupportedError" in r.stderr: self.skipTest("no code generator")
            self.assertEqual((r.returncode, r.stderr.count("TenonWarning: the cache"), r.stderr.count("chmod go-w")), (0, 1, 1), r.stderr)


class Calls(unittest.TestCase):
    def test_what_it_takes_and_gives(self):
        m, _ = digits()
        self.assertEqual(m.inputs, (("image", "f32", ("batch", 8, 8), "f32[batch, 8, 8]"),))
        self.assertEqual(m.outputs, (("probability", "f32", ("batch", 10), "f32[batch, 10]"),))
        self.assertEqual(m.info["host_steps"], 0)
        self.assertIn("digits.onnx", repr(m))

    def test_every_way_to_call_gives_the_same(self):
        m, x = digits()
        y = m(x)
        self.assertEqual(list(y.argmax(1)), list(range(10)))
        for other in (m(x), m(image=x), m({"image": x})["probability"], m.session()(x), m.session().run_list([x])[0]):
            self.assertEqual(y.tobytes(), other.tobytes())

    def test_shapes_may_change(self):
        m, x = digits()
        whole = m(x)
        for n in (1, 10, 3, 3, 3, 1, 0, 10):
            y = m(x[:n])
            self.assertEqual(y.shape, (n, 10))
            self.assertEqual(y.tobytes(), whole[:n].tobytes())

    def test_results_are_new_arrays(self):
        m, x = digits()
        first = m(x)
        kept = first.copy()
        for _ in range(3): m(np.zeros_like(x))
        self.assertEqual(first.tobytes(), kept.tobytes())

    def test_strided_and_read_only_inputs(self):
        m, x = digits()
        want = m(x).tobytes()
        for other in (np.asfortranarray(x), np.repeat(x, 2, 0)[::2], x[::-1][::-1], x.astype(">f4")):
            self.assertEqual(m(other).tobytes(), want)
            self.assertEqual(m(x).tobytes(), want)  # the quick way before and after
            self.assertEqual(m(other).tobytes(), want)
        frozen = x.copy()
        frozen.flags.writeable = False
        for _ in range(3): self.assertEqual(m(frozen).tobytes(), want)

    def test_lists_and_unaligned_arrays(self):
        m, x = digits()
        want = m(x).tobytes()
        self.assertEqual(m(x.tolist()).tobytes(), want)
        room = np.empty(x.nbytes + 1, np.uint8)
        odd = room[1:].view(np.float32).reshape(x.shape)
        odd[...] = x
        for _ in range(2): self.assertEqual(m(odd).tobytes(), want)

    def test_out(self):
        m, x = digits()
        want, room = m(x), np.empty((10, 10), np.float32)
        for out in (room, [room], {"probability": room}):
            room.fill(0)
            self.assertIs(m(x, out=out), room)
            self.assertEqual(room.tobytes(), want.tobytes())

    def test_wrong_out(self):
        m, x = digits()
        wrong = [(np.empty((10, 10), np.float64), "f32"), (np.empty((9, 10), np.float32), "360"), (np.empty((10, 20), np.float32)[:, ::2], "row"),
                 ([], "1 outputs"), ({"nope": None}, "nope"), (3, "no array"), (np.empty((11, 10), np.float32), "11")]
        for out, word in wrong:
            with self.assertRaisesRegex(tenon.InvalidError, word): m(x, out=out)
        self.assertEqual(m(x).shape, (10, 10))

    def test_wrong_inputs_say_what_was_expected(self):
        m, x = digits()
        wrong = [((x.astype("f8"),), {}, "image.*f32.*f64.*float32"), ((x[:, :4],), {}, r"image.*8, 8.*10, 4, 8"), ((x[0],), {}, "image"),
                 ((x, x), {}, "takes 1"), ((), {}, "'image'"), ((), {"img": x}, "no input 'img'.*image"), ((x,), {"image": x}, "twice"),
                 (("text",), {}, "image"), ((np.zeros(3, "M8[s]"),), {}, "element type"), (({"nope": x},), {}, "nope")]
        for args, named, pattern in wrong:
            with self.assertRaisesRegex(tenon.InvalidError, pattern): m(*args, **named)
        with self.assertRaises(tenon.InvalidError) as e: m(x[:, :4])
        self.assertEqual((e.exception.code, e.exception.node, isinstance(e.exception, ValueError)), ("invalid", "image", True))

    def test_sizes(self):
        m, x = digits(dims={"batch": 4})
        self.assertEqual(m.inputs[0].shape, (4, 8, 8))
        self.assertEqual(m(x[:4]).shape, (4, 10))
        with self.assertRaises(tenon.InvalidError): m(x)
        m, x = digits(dims={"batch": (2, 5)})
        self.assertEqual(m(x[:5]).shape, (5, 10))
        for n in (1, 6):
            with self.assertRaisesRegex(tenon.InvalidError, "2 to 5"): m(x[:n])
        for dims in ({"nope": 3}, {"nope": (1, 2)}, {"batch": "4"}, {"batch": (5, 2)}, {"batch": -1}):
            with self.assertRaises(tenon.InvalidError): digits(dims=dims)

    def test_a_session_serves_one_thread(self):
        m, x = digits()
        s = m.session()
        call = session._Call()
        s._begin(call)
        with self.assertRaisesRegex(tenon.InvalidError, "another thread"): s(x)
        del call  # as when an interrupt ended it anywhere
        self.assertEqual(s(x).shape, (10, 10))
        s.close()
        self.assertEqual(s(x).shape, (10, 10))


    def test_names_are_checked_in_every_call(self):
        m, x = digits()
        m(x)
        for wrong in (dict(imagee=x), dict(image=x)):
            with self.assertRaises(tenon.InvalidError): m(x, **wrong)
        with self.assertRaises(tenon.InvalidError): m(image=x, other=x)

    def test_copies_are_the_model_itself(self):
        m, x = digits()
        self.assertIs(copy.copy(m), m)
        self.assertIs(copy.deepcopy(m), m)
        with self.assertRaisesRegex(TypeError, "tenon.load"): pickle.dumps(m)
        with self.assertRaisesRegex(TypeError, "save its model"): copy.copy(m.session())

    def test_paths_have_no_null_bytes(self):
        m, _ = digits()
        with self.assertRaisesRegex(ValueError, "null byte"): m.save("a\0b.tenon")


class Outputs(unittest.TestCase):
    PRODUCT = b"graph(%x: f32[n, n], %y: f32[n, n]) { %a = mat_mul(%x, %y) return p = %a }"

    def test_memory_of_an_input_is_refused(self):
        m = tenon.compile(self.PRODUCT)
        x, y = (np.random.default_rng(k).random((9, 9), np.float32) for k in (1, 2))
        for _ in range(2):  # the first call, and one like it
            with self.assertRaisesRegex(tenon.InvalidError, "shares memory with that of input 'x'"): m(x, y, out=x)
            whole = np.zeros((9, 9), np.float32)
            self.assertIs(m(x, y, out=whole), whole)
            np.testing.assert_allclose(whole, x @ y, rtol=1e-5)

    def test_arrays_that_are_converted_are_refused(self):
        m = tenon.compile(self.PRODUCT)
        x = np.ones((4, 4), np.float32)
        with self.assertRaisesRegex(tenon.InvalidError, "byte order"): m(x, x, out=np.zeros((4, 4), ">f4"))


class Making(unittest.TestCase):
    def test_from_memory(self):
        m, x = digits()
        data = open(DIGITS, "rb").read()
        for source in (data, bytearray(data), memoryview(data)):
            self.assertEqual(tenon.compile(source)(x).tobytes(), m(x).tobytes())

    def test_from_onnx(self):
        try: import onnx
        except ImportError: self.skipTest("no onnx")
        m, x = digits()
        self.assertEqual(tenon.compile(onnx.load(DIGITS))(x).tobytes(), m(x).tobytes())

    def test_save_and_load(self):
        m, x = digits()
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "d \u00fc.tenon")
            m.save(path)
            m.save(path)  # its own file is replaced
            other = os.path.join(os.path.dirname(path), "other.onnx")
            with open(other, "wb") as f: f.write(b"precious")
            with self.assertRaisesRegex(tenon.InvalidError, "force=True"): m.save(other)
            self.assertEqual(open(other, "rb").read(), b"precious")
            m.save(other, force=True)
            with self.assertRaisesRegex(tenon.InvalidError, "ends in .tenon"): tenon.load(other)
            self.assertEqual(tenon.load(other, compiled=True).inputs, m.inputs)
            model = os.path.join(tmp, "m.onnx")
            with open(DIGITS, "rb") as f, open(model, "wb") as g: g.write(f.read())
            own = tenon.compile(model)
            with self.assertRaisesRegex(tenon.InvalidError, "compiled from"): own.save(model, force=True)
            self.assertEqual(open(model, "rb").read(), open(DIGITS, "rb").read())
            with self.assertRaisesRegex(TypeError, "tenon.compile"): tenon.Model(model)
            session = tenon.InferenceSession(path)
            self.assertEqual(session.run(None, {"image": x})[0].tobytes(), m(x).tobytes())
            with self.assertRaisesRegex(Exception, "max_memory"):
                tenon.InferenceSession(path, providers=["CPUExecutionProvider"], provider_options=[{"max_memory": "1G"}])
            loaded = tenon.load(path)
            self.assertEqual(loaded(x).tobytes(), m(x).tobytes())
            self.assertEqual(loaded.inputs, m.inputs)
            self.assertEqual(tenon.load(open(path, "rb").read(), compiled=True)(x).tobytes(), m(x).tobytes())
            with self.assertRaises(tenon.FileError) as e: m.save(os.path.join(tmp, "no", "such"))
            self.assertIsInstance(e.exception, OSError)
        with self.assertRaises(tenon.FormatError): tenon.load(b"no program")
        with self.assertRaises(tenon.TenonError): tenon.load(DIGITS)

    def test_options(self):
        for options in ({"optimize": 0}, {"math": "exact"}, {"math": "fast"}, {"cache": False}, {"threads": 1}, {"target": "ref"}):
            m, x = digits(**options)
            self.assertEqual(list(m(x).argmax(1)), list(range(10)), options)
        for options in ({"optimize": 4}, {"math": "none"}, {"precision": "f8"}, {"target": "abacus"}, {"threads": -1}):
            with self.assertRaises(tenon.InvalidError): digits(**options)
        with self.assertRaises(TypeError): digits(flavour=1)

    def test_named_options(self):
        """Whatever the library's table has reaches it, and the compiled model says so, also from a file."""
        m, x = digits(fold_limit="1M", disable="merge-matmuls", batch_invariant=True)
        self.assertEqual(m.options, ("batch_invariant=1", "disable=merge-matmuls", "fold_limit=1048576"))
        self.assertEqual(list(m(x).argmax(1)), list(range(10)))
        with tempfile.TemporaryDirectory() as tmp:
            m.save(os.path.join(tmp, "m.tenon"))
            self.assertEqual(tenon.load(os.path.join(tmp, "m.tenon")).options, m.options)
        self.assertEqual(digits()[0].options, ())
        self.assertEqual(digits(target="interp")[0].options, ())
        self.assertIn("fold_limit", tenon.compile_options())
        for wrong in ({"fold_limit": "much"}, {"exact": True, "fast": True}, {"unroll_limit": 1.5}):
            with self.assertRaises(tenon.InvalidError): digits(**wrong)

    def test_memory_limit_of_compiling(self):
        """The table's max_memory: a compilation ends with an error, and the next one is as free as ever."""
        with self.assertRaises(tenon.OutOfMemoryError): digits(target="ref", max_memory="16K")
        with self.assertRaises(tenon.InvalidError): digits(max_memory=0)
        m, x = digits(target="ref", max_memory=1 << 30)
        self.assertEqual((list(m(x).argmax(1)), m.options), (list(range(10)), ()))

    def test_errors(self):
        with self.assertRaises(tenon.FileError) as e: tenon.compile("/no/such.onnx")
        self.assertEqual((e.exception.code, isinstance(e.exception, OSError)), ("io", True))
        self.assertIn("/no/such.onnx", str(e.exception))
        with self.assertRaises(tenon.FormatError): tenon.compile(b"rubbish")
        with self.assertRaises(tenon.InvalidError): tenon.compile(3.5)
        again = pickle.loads(pickle.dumps(tenon.InvalidError("node 'x' (Add): no")))
        self.assertEqual((str(again), again.node, again.status), ("node 'x' (Add): no", "x", 1))

    def test_a_program_out_of_the_cache(self):
        def stages(**options):
            seen = []
            m, images = digits(progress=lambda p: seen.append(p.stage), tier="full", **options)
            return set(seen), m(images)

        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TENON_CACHE=folder):
            first, y = stages()
            gc.collect()  # the model goes, and waits until its program is written
            second, z = stages()
            other, _ = stages(math="exact")
        if tenon.tools.is_available("cpu"):
            self.assertEqual((first >= {"optimise", "load"}, second, "optimise" in other), (True, {"read", "load"}, True))
        self.assertTrue((y == z).all())

    def test_progress(self):
        seen = []
        digits(progress=lambda p: seen.append(p), cache=False)
        self.assertEqual([s for s in dict.fromkeys(p.stage for p in seen)][0], "read")
        self.assertIn("optimise", {p.stage for p in seen})
        with self.assertRaises(tenon.CancelledError): digits(progress=lambda p: True)

        def fail(p): raise RuntimeError("own")
        with self.assertRaisesRegex(RuntimeError, "own"): digits(progress=fail)

    def test_ctrl_c_ends_a_compilation(self):
        def slow(p): time.sleep(0.02)
        # A shell's background jobs begin with the signal ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt): digits(progress=slow, cache=False)
        timer.join()
        self.assertEqual(digits()[0].target, digits()[0].target)

    def test_without_codegen_there_is_a_warning(self):
        m, _ = digits(target="ref")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            from tenon.model import _warn
            _warn(m, "auto")
        self.assertIs(said[0].category, tenon.TenonWarning)


if __name__ == "__main__": unittest.main()
