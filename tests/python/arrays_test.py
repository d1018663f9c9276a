"""arrays_test.py -- arrays of every kind on their way in and out: whose memory it is, and what is copied."""
import os, subprocess, sys, unittest

import numpy as np
import tenon
from tenon import arrays

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TWICE = b"graph(%x: f32[n, 4]) { %two = const f32[] {2}  %y = mul(%x, %two)  return %y }"
PAIR = b"graph(%a: f32[n], %b: i64[n]) { %c = add(%a, %a)  %d = add(%b, %b)  return sum = %c, whole = %d }"
NONZERO = b"graph(%x: f32[n]) { %y = non_zero(%x)  return %y }"


def package(name):
    try: return __import__(name)
    except ImportError: return None


torch, ml_dtypes = package("torch"), package("ml_dtypes")


def same(dtype):
    """A model that gives what it gets."""
    return tenon.compile(f"graph(%x: {dtype}[n]) {{ return y = %x }}".encode(), target="interp")


class Seen:
    """Addresses that a session hands to the C interface, by running it in a wrapper."""

    def __init__(self, model):
        self.session, self.inputs, self.outputs = model.session(), [], []
        self.session._keep_plan = lambda *_unused: None  # every call is launched where it can be seen
        launch = self.session._launch

        def wrapped():
            self.inputs = [t.data for t in self.session._in_list]
            self.outputs = [t.data for t in self.session._out_list]
            launch()

        self.session._launch = wrapped


class NumPy(unittest.TestCase):
    def test_memory_is_the_callers(self):
        seen = Seen(tenon.compile(TWICE))
        x, room = np.ones((3, 4), np.float32), np.empty((3, 4), np.float32)
        for _ in range(3):
            y = seen.session(x)
            self.assertEqual(seen.inputs, [x.ctypes.data])
            self.assertIn(seen.outputs, ([y.ctypes.data], [None]))  # None: a shape of which nothing was known yet
            seen.session(x, out=room)
            self.assertEqual((seen.inputs, seen.outputs), ([x.ctypes.data], [room.ctypes.data]))
        seen.session(x)
        seen.session(x)
        y = seen.session(x)
        self.assertEqual((seen.inputs, seen.outputs), ([x.ctypes.data], [y.ctypes.data]))

    def test_what_a_run_allocates_is_given_over(self):
        m = tenon.compile(NONZERO)
        for k in (3, 0, 5):
            x = np.zeros(9, np.float32)
            x[:k] = 1
            y = m(x)
            self.assertEqual((y.dtype, y.tolist()), (np.int64, [list(range(k))]))
            self.assertTrue(y.flags.writeable)

    def test_results_outlive_everything(self):
        m = tenon.compile(NONZERO)
        y = m(np.ones(1000, np.float32))
        part = y[0, 10:20]
        del m, y
        self.assertEqual(part.tolist(), list(range(10, 20)))

    def test_several_outputs(self):
        m = tenon.compile(PAIR)
        a, b = np.arange(3, dtype=np.float32), np.arange(3)
        for _ in range(3):
            y = m(a, b=b)
            self.assertIsInstance(y, tuple)
            self.assertEqual([v.tolist() for v in y], [[0, 2, 4], [0, 2, 4]])
        self.assertEqual(list(m({"a": a, "b": b})), ["sum", "whole"])
        room = np.empty(3, np.int64)
        y = m(a, b, out={"whole": room})
        self.assertIs(y[1], room)
        y = m(a, b, out=[None, room])
        self.assertIs(y[1], room)
        self.assertEqual(y[0].tolist(), [0, 2, 4])

    def test_every_dtype(self):
        for name in ("f32", "f64", "f16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool", "c64", "c128"):
            t = tenon.dtypes.BY_NAME[name]
            x = np.array([0, 1, 1, 0, 1], t.numpy)
            m = same(name)
            for _ in range(2):
                y = m(x)
                self.assertEqual((y.dtype, y.tobytes()), (x.dtype, x.tobytes()), name)

    def test_strings(self):
        m = same("string")
        for x in (np.array(["a", "", "\u00fcber"], object), np.array(["a", "", "\u00fcber"]), ["a", "", "\u00fcber"]):
            self.assertEqual(m(x).tolist(), ["a", "", "\u00fcber"])
        self.assertEqual(m(np.array([b"x"])).tolist(), ["x"])
        self.assertEqual(m(np.array([], object)).tolist(), [])

    @unittest.skipUnless(ml_dtypes, "no ml_dtypes")
    def test_types_of_ml_dtypes(self):
        names = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e4m3z": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
                 "f8e5m2z": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "i4": "int4", "u4": "uint4", "f4e2m1": "float4_e2m1fn",
                 "i2": "int2", "u2": "uint2"}
        for name, theirs in names.items():
            if not hasattr(ml_dtypes, theirs): continue
            dtype = np.dtype(getattr(ml_dtypes, theirs))
            x = np.array([1, 0.5 if name == "f8e8m0" else 0, 1, 1, 1, 1, 1][::-1], np.float32).astype(dtype)
            if name in ("i4", "i2"): x[1] = -1
            m = same(name)
            for _ in range(2):
                y = m(x)
                self.assertEqual((y.dtype, y.astype(np.float32).tolist()), (dtype, x.astype(np.float32).tolist()), name)

    def test_bf16_without_ml_dtypes(self):
        code = "import sys; sys.modules['ml_dtypes'] = None; sys.path.insert(0, 'python'); import numpy as np, tenon\n" \
               "m = tenon.compile(b'graph(%x: bf16[n]) { %y = add(%x, %x)  return %y }')\n" \
               "for _ in range(3): y = m(np.array([0x3f80, 0x4000], np.uint16))\n" \
               "print(y.dtype, [hex(v) for v in y])"
        p = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(p.stdout.strip(), "uint16 ['0x4000', '0x4080']", p.stderr)


class Foreign:
    """An array of a library that has nothing but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.shape = array, device, array.shape

    def __dlpack_device__(self): return self.device

    def __dlpack__(self, **_unused): return self.array.__dlpack__()


# The arrays of another library are played by NumPy's own.
dlpack = unittest.skipUnless(hasattr(np.ndarray, "__dlpack__"), "no DLPack in this NumPy (1.22 has it)")


@dlpack
class DLPack(unittest.TestCase):
    def test_memory_is_the_callers(self):
        seen, x = Seen(tenon.compile(TWICE)), np.arange(12, dtype=np.float32).reshape(3, 4)
        y = seen.session(Foreign(x))
        self.assertEqual((seen.inputs, y.tolist()), ([x.ctypes.data], (2 * x).tolist()))
        room = np.empty((3, 4), np.float32)
        seen.session(Foreign(x), out=Foreign(room))
        self.assertEqual((seen.outputs, room.tolist()), ([room.ctypes.data], (2 * x).tolist()))

    def test_strides(self):
        m, x = tenon.compile(TWICE), np.arange(24, dtype=np.float32).reshape(4, 6)
        for view in (x[:, :4], x[:, ::-1][:, :4], x.T[:4].T, x[::2, 1:5], x[::-1, 2:], x[:0, :4], x[1:2, :4]):
            self.assertEqual(m(Foreign(view)).tolist(), (2 * view).tolist())

    def test_other_devices_are_refused_by_name(self):
        m, x = tenon.compile(TWICE), np.zeros((3, 4), np.float32)
        with self.assertRaisesRegex(tenon.UnsupportedError, "'x'.*CUDA device 1.*CPU"): m(Foreign(x, (2, 1)))

    def test_read_only_or_strided_out_is_refused(self):
        m, x = tenon.compile(TWICE), np.zeros((3, 4), np.float32)
        with self.assertRaisesRegex(tenon.InvalidError, "row-major"): m(x, out=Foreign(np.zeros((3, 8), np.float32)[:, ::2]))


class OnGpu(Foreign):
    """An array that says it is on a GPU; it remembers which stream it was asked for."""

    made = []

    def __init__(self, array, device=(2, 0)):
        super().__init__(array, device)
        self.streams = []

    def __dlpack__(self, stream=None, **_unused):
        self.streams.append(stream)
        return self.array.__dlpack__()

    def contiguous(self): return OnGpu(np.ascontiguousarray(self.array), self.device)


class GpuKind(arrays.Kind):
    on_gpu = True

    def empty(self, t, shape, device=None):
        array = np.zeros(shape, t.numpy)
        OnGpu.made.append(array)
        return OnGpu(array, (2, device)), array.ctypes.data

    def move(self, array, device): return OnGpu(array, (2, device))


class Interface:
    """An array with `__cuda_array_interface__` alone, as Numba's are."""

    def __init__(self, array, stream=None):
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
                                         "strides": array.strides, "version": 3, "stream": stream}


@dlpack
class Gpu(unittest.TestCase):
    """What is handed to the C interface for arrays on a GPU; the run itself is the host's, which has all of this memory."""

    def setUp(self):
        self.kinds = dict(arrays._kinds)
        arrays._kinds[OnGpu.__module__.split(".")[0]] = GpuKind()

    def tearDown(self): arrays._kinds.clear(), arrays._kinds.update(self.kinds)

    def session(self, text):
        session = tenon.compile(text).session()
        session._runs_on_gpu = lambda: True
        session.seen, launch = [], session._launch

        def wrapped():
            tensors = session._in_list[:session._nin] + session._out_list[:session._nout]
            session.seen.append([(t.data, t.memory, t.device) for t in tensors] + [session._options_at and session._options.stream])
            for t in tensors: t.memory = t.device = 0
            launch()

        session._launch = wrapped
        return session

    def test_memory_and_stream(self):
        s, x = self.session(TWICE), np.arange(12, dtype=np.float32).reshape(3, 4)
        given = OnGpu(x)
        y = s(given)
        self.assertIsInstance(y, OnGpu)
        self.assertEqual(y.array.tolist(), (2 * x).tolist())
        self.assertEqual(given.streams, [1])  # no stream of its own: ready for the default one
        self.assertEqual(s.seen, [[(x.ctypes.data, 2, 0), (y.array.ctypes.data, 2, 0), 1]])

    def test_a_second_call_and_out(self):
        s, x, room = self.session(TWICE), np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
        s(OnGpu(x, (2, 1)))
        y = s(OnGpu(x, (2, 1)), out=OnGpu(room, (2, 1)))
        self.assertEqual((y.array is room, room.tolist()), (True, (2 * x).tolist()))
        self.assertEqual(s.seen[1], [(x.ctypes.data, 2, 1), (room.ctypes.data, 2, 1), 1])
        s(x, out=OnGpu(room))  # an input of the host's
        self.assertEqual(s.seen[2], [(x.ctypes.data, 0, 0), (room.ctypes.data, 2, 0), 1])
        host = np.zeros((3, 4), np.float32)
        self.assertIs(s(OnGpu(x), out=host), host)
        self.assertEqual(s.seen[3], [(x.ctypes.data, 2, 0), (host.ctypes.data, 0, 0), 1])

    def test_strides_are_the_librarys_to_copy(self):
        s, x = self.session(TWICE), np.arange(24, dtype=np.float32).reshape(3, 8)[:, ::2]
        self.assertEqual(s(OnGpu(x)).array.tolist(), (2 * x).tolist())
        with self.assertRaisesRegex(tenon.InvalidError, "row-major"): s(OnGpu(x), out=OnGpu(x))

    def test_interface(self):
        s, x = self.session(TWICE), np.arange(12, dtype=np.float32).reshape(3, 4)
        y = s(Interface(x, 7))
        self.assertEqual((type(y), y.tolist()), (np.ndarray, (2 * x).tolist()))
        self.assertEqual(s.seen[0][0::2], [(x.ctypes.data, 2, 0), 7])
        self.assertEqual(s(Interface(x)).tolist(), (2 * x).tolist())
        self.assertEqual(s.seen[1][-1], 1)
        with self.assertRaisesRegex(tenon.InvalidError, "row-major"): s(Interface(x.T[:4, :3].T[:, ::2]))
        with self.assertRaisesRegex(tenon.UnsupportedError, "GPU"): tenon.compile(TWICE)(Interface(x))

    def test_sizes_that_only_a_run_shows(self):
        s, x = self.session(NONZERO), np.array([0, 1, 0, 2], np.float32)
        y = s(OnGpu(x))
        self.assertEqual((type(y), y.array.tolist()), (OnGpu, [[1, 3]]))

    def test_host_arrays_have_no_stream(self):
        s, x = self.session(TWICE), np.ones((3, 4), np.float32)
        s(x)
        self.assertIsNone(s.seen[0][-1])


@unittest.skipUnless(torch, "no torch")
class Torch(unittest.TestCase):
    def test_memory_is_the_callers(self):
        seen, x = Seen(tenon.compile(TWICE)), torch.arange(12, dtype=torch.float32).reshape(3, 4)
        for k in range(4):
            y = seen.session(x)
            self.assertIsInstance(y, torch.Tensor)
            self.assertEqual(seen.inputs, [x.data_ptr()])
            if k: self.assertEqual(seen.outputs, [y.data_ptr()])
            self.assertTrue(torch.equal(y, 2 * x))
        room = torch.empty(3, 4)
        self.assertIs(seen.session(x, out=room), room)
        self.assertEqual(seen.outputs, [room.data_ptr()])

    def test_kinds_of_tensors(self):
        m, x = tenon.compile(TWICE), torch.rand(3, 4)
        want = 2 * x
        others = [x.t().contiguous().t(), x.clone().requires_grad_(), torch.nn.Parameter(x), torch._neg_view(-x), x[None].squeeze(0)]
        for other in others:
            for y in (m(x), m(other), m(other)): self.assertTrue(torch.equal(y, want))
        with self.assertRaisesRegex(tenon.InvalidError, "f64"): m(x.double())
        self.assertIsInstance(m(x.numpy()), np.ndarray)

    def test_types(self):
        for name in ("bf16", "f16", "f8e4m3", "f8e5m2", "i64", "bool", "c64"):
            dtype = arrays.TorchKind(torch).dtypes[name]
            x = torch.tensor([1, 0, 1]).to(dtype)
            m = same(name)
            for _ in range(3):
                y = m(x)
                self.assertEqual((y.dtype, y.to(torch.complex64).tolist()), (dtype, [1, 0, 1]))

    def test_unknown_sizes(self):
        m = tenon.compile(NONZERO)
        y = m(torch.tensor([0.0, 1.0, 1.0]))
        self.assertTrue(torch.equal(y, torch.tensor([[1, 2]])))


MEMORY = """
import sys
sys.path.insert(0, "python")
import numpy as np, tenon
def peak():
    return [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0] // 1024
m = tenon.compile(b"graph(%x: f32[n]) { %y = reduce_max(%x)  %z = mul(%x, %x)  return top = %y }", threads=1)
small = np.ones(1 << 10, np.float32)
m(small)
x = np.ones((MEGABYTES << 20) // 4, np.float32)
out = np.empty(1, np.float32).reshape(())
before = peak()
y = m(x)
m(x, out=y.reshape(y.shape))
m(x)
print(peak() - before, y.ravel()[0])
"""


@unittest.skipUnless(os.path.exists("/proc/self/status"), "no /proc")
class Memory(unittest.TestCase):
    def test_a_large_input_takes_no_more_memory(self):
        """1 GB of input, or less where the machine has little."""
        megabytes = 1024 if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") > 3 << 30 else 256
        p = subprocess.run([sys.executable, "-c", MEMORY.replace("MEGABYTES", str(megabytes))], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        more, top = p.stdout.split()
        self.assertLess(int(more), 8, f"{more} MB more for an input of {megabytes} MB")
        self.assertEqual(float(top), 1.0)


if __name__ == "__main__": unittest.main()
