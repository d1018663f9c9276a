"""tenon.ort: names, types, errors and bindings as ONNX Runtime's users know them."""
import os
import tempfile
import unittest

import numpy as np
import tenon.ort as ort

DIGITS = "examples/digits/digits.onnx"
X = np.load("examples/digits/digits.npy")


class OrtTest(unittest.TestCase):
    def setUp(self):
        self.session = ort.InferenceSession(DIGITS)

    def test_options_that_are_misspelt_are_told(self):
        options = ort.SessionOptions()
        with self.assertRaisesRegex(AttributeError, "no option 'intra_op_num_thread'"): options.intra_op_num_thread = 1

    def test_provider_options_are_compile_options(self):
        """Those that Tenon's compiler has by name; ONNX Runtime's own have no meaning here."""
        asked = [("CPUExecutionProvider", {"max_memory": "16K", "arena_extend_strategy": "kNextPowerOfTwo"})]
        with self.assertRaisesRegex(Exception, "memory"): ort.InferenceSession(DIGITS, providers=asked)
        session = ort.InferenceSession(DIGITS, providers=["CPUExecutionProvider"], provider_options=[{"max_memory": "1G"}])
        self.assertEqual(session.get_provider_options()["CPUExecutionProvider"], {"max_memory": "1G"})
        self.assertTrue((session.run(None, {"image": X})[0] == self.session.run(None, {"image": X})[0]).all())

    def test_values_on_a_gpu_are_refused(self):
        with self.assertRaisesRegex(Exception, "memory of the CPU"):
            ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32), "cuda", 0)

    def test_bytes_and_path_agree(self):
        with open(DIGITS, "rb") as f:
            other = ort.InferenceSession(f.read(), providers=["CPUExecutionProvider"])
        a, b = self.session.run(None, {"image": X})[0], other.run(["probability"], {"image": X.tolist()})[0]
        self.assertTrue((a == b).all())
        self.assertEqual(self.session.get_outputs()[0], ort.NodeArg("probability", "tensor(float)", ["batch", 10]))

    def test_errors(self):
        wrong = [({"image": X[:, :4]}, ort.InvalidArgument), ({"image": X.astype(np.float64)}, ort.InvalidArgument),
                 ({}, ValueError), ({"image": X, "more": X}, ort.InvalidArgument)]
        for feed, kind in wrong:
            with self.assertRaises(kind):
                self.session.run(None, feed)
        with self.assertRaises(ort.InvalidArgument):
            self.session.run(["nothing"], {"image": X})
        with self.assertRaises(ort.NoSuchFile):
            ort.InferenceSession("no/such.onnx")
        with tempfile.NamedTemporaryFile(suffix=".onnx") as f:
            f.write(os.urandom(64))
            f.flush()
            with self.assertRaises(ort.InvalidProtobuf):
                ort.InferenceSession(f.name)
        with self.assertWarns(UserWarning):
            ort.InferenceSession(DIGITS, providers=["NoExecutionProvider"])

    def test_binding_writes_into_memory(self):
        want, room = self.session.run(None, {"image": X})[0], np.zeros((len(X), 10), np.float32)
        binding = self.session.io_binding()
        binding.bind_input("image", "cpu", 0, np.float32, X.shape, X.ctypes.data)
        binding.bind_output("probability", "cpu", 0, 1, room.shape, room.ctypes.data)
        self.session.run_with_iobinding(binding)
        self.assertTrue((room == want).all() and (binding.get_outputs()[0].numpy() == want).all())
        value = ort.OrtValue.ortvalue_from_numpy(X)
        self.assertTrue((self.session.run_with_ort_values(None, {"image": value})[0].numpy() == want).all())

    def test_binding_memory_of_a_gpu(self):
        """What is passed on: the run itself is the host's."""
        from unittest import mock
        from tenon import session as sessions
        x, room = np.load("examples/digits/digits.npy").astype(np.float32), np.zeros((10, 10), np.float32)
        launch, seen = sessions.Session._launch, []

        def wrapped(self):
            tensors = self._in_list + self._out_list
            seen.append([(t.data, t.memory, t.device) for t in tensors])
            for t in tensors: t.memory = t.device = 0
            launch(self)

        with mock.patch.object(sessions.Session, "_launch", wrapped), \
             mock.patch.object(sessions.Session, "_runs_on_gpu", lambda self: True):
            binding = self.session.io_binding()
            binding.bind_input("image", "cuda", 1, np.float32, x.shape, x.ctypes.data)
            binding.bind_output("probability", "cuda", 1, np.float32, room.shape, room.ctypes.data)
            self.session.run_with_iobinding(binding)
            value = binding.get_outputs()[0]
            self.assertEqual((value.device_name(), value.shape(), value.data_ptr()), ("cuda", [10, 10], room.ctypes.data))
            binding.clear_binding_outputs()
            self.session.run_with_iobinding(binding)  # outputs of the CPU
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], room)
        self.assertEqual(seen[0], [(x.ctypes.data, 2, 1), (room.ctypes.data, 2, 1)])
        np.testing.assert_array_equal(room, self.session.run(None, {"image": x})[0])
        with self.assertRaises(ort.NotImplemented): binding.bind_output("probability", "cuda")
        with self.assertRaises(ort.NotImplemented): value.numpy()

    def test_numbers_that_decide_ranks(self):
        session = ort.InferenceSession("tests/models/rate.onnx")
        x = np.arange(3, dtype=np.float32).reshape(1, 3)
        for _ in range(2):
            for rate, want in ((8, x[0]), (16, 3 * x)):
                got = session.run(None, {"x": x, "rate": np.array(rate)})[0]
                self.assertEqual(got.shape, want.shape)
                self.assertTrue((got == want).all())
        self.assertEqual(session.run(None, {"x": x.repeat(2, 0), "rate": np.array(1)})[0].shape, (2, 3))
        with self.assertRaises(ort.InvalidArgument):
            session.run(None, {"x": x.repeat(2, 0), "rate": np.array(8)})
        for rate in range(20, 40):  # more numbers than programs are made for
            self.assertTrue((session.run(None, {"x": x, "rate": np.array(rate)})[0] == 3 * x).all())

    def test_fixed_sizes(self):
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_name("batch", 2)
        session = ort.InferenceSession(DIGITS, options)
        self.assertEqual(session.run(None, {"image": X[:2]})[0].shape, (2, 10))
        with self.assertRaises(ort.InvalidArgument):
            session.run(None, {"image": X[:3]})


if __name__ == "__main__":
    unittest.main()
