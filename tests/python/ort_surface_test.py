"""tenon.ort beside the package onnxruntime: every public name and member of the one is in the other, or a row here says why not; and
the same calls give the same values, or exceptions of the same class with the same sentence."""
import enum
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import tenon.ort as ours
from tenon import ort_collection, ort_install, ort_state

DIGITS = "examples/digits/digits.onnx"
X = np.load("examples/digits/digits.npy")
REAL = importlib.util.find_spec("onnxruntime") is not None

# What is left out, and why.  A row that is not needed is a failure.
_CALLBACK = "handed to callbacks of EPContext models, which are refused"
_IMPORTED = "a module that the package imports, not a part of its interface"
LEFT_OUT = {
    "onnxruntime": {"OrtEpContextData": _CALLBACK, "OrtEpContextDataBuffer": _CALLBACK, "contextlib": _IMPORTED,
                    "onnxruntime_validation": "left to the real package", "capi": "a module, which install makes",
                    "import_capi_exception": "how the package reports that its own extension module failed"},
    "state": {"AdapterFormat": "refused, and of other members here", "ModelCompiler": "as AdapterFormat", "OrtEpContextData": _CALLBACK, "OrtEpContextDataBuffer": _CALLBACK},
    "collection": dict.fromkeys(("Any", "Callable", "IntEnum", "Sequence", "collections", "np", "os", "typing", "warnings",
                                 "weakref"), _IMPORTED) | {
        "GetInitializerLocationFunc": "of ModelCompiler, which is refused",
        "GetInitializerLocationWrapperFunc": "of ModelCompiler, which is refused",
        "make_get_initializer_location_func_wrapper": "of ModelCompiler, which is refused"},
}


def public(thing):
    return {n for n in dir(thing) if not n.startswith("_") or n in ("__dlpack__", "__dlpack_device__", "__array__")}


def said(call, module):
    """What a call gives, or the class and the words of its exception; paths of source files and what Tenon adds are no part of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(call(module))
    except Exception as error:
        text = re.sub(r"^/\S+:\d+ .*?<lambda\(.*?\)> ", "", str(error)).strip()
        return type(error).__name__ + ": " + text


def _binding(o, run=True):
    session = o.InferenceSession(DIGITS)
    binding = session.io_binding()
    binding.bind_cpu_input("image", X)
    binding.bind_output("probability")
    if run: session.run_with_iobinding(binding)
    return session, binding


def _coo(o, indices=(0, 4, 8)):
    return o.SparseTensor.sparse_coo_from_numpy(np.array([3, 3]), np.array([1, 2, 3], np.float32), np.array(indices), o.OrtDevice.make("cpu", 0))


def _csr(o):
    return o.SparseTensor.sparse_csr_from_numpy(np.array([3, 3]), np.array([1, 2, 3], np.float32), np.array([0, 1, 2]), np.array([0, 1, 2, 3]),
                                                o.OrtDevice.make("cpu", 0))


def _set(options, **values):
    for name, value in values.items(): setattr(options, name, value)
    return [getattr(options, name) for name in values]


def _value(o, array=X):
    return o.OrtValue.ortvalue_from_numpy(array)


def _updated(o, given):
    room = np.zeros((2, 2), np.float32)
    _value(o, room).update_inplace(given(o))
    return room.tolist()


def _run(o, feed, names=None):
    return [y.shape for y in o.InferenceSession(DIGITS).run(names, feed)]


def _terminated(o):
    options = o.RunOptions()
    options.terminate = True
    return o.InferenceSession(DIGITS).run(None, {"image": X}, options)


def _overridden(o):
    """An initialiser with another value."""
    options = o.SessionOptions()
    value = _value(o, np.zeros(10, np.float32))
    options.add_initializer("b2", value)
    return o.InferenceSession(DIGITS, options).run(None, {"image": X})[0].argmax(1).tolist()


def _cancelled(o):
    options = o.SessionOptions()
    options.set_load_cancellation_flag(True)
    return o.InferenceSession(DIGITS, options)


def _policy(o, policy):
    options = o.SessionOptions()
    options.set_provider_selection_policy(getattr(o.OrtExecutionProviderDevicePolicy, policy))
    return options.has_providers()


ENUMS = ("ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "OrtAllocatorType", "OrtMemType", "OrtCompileApiFlags",
         "OrtDeviceMemoryType", "OrtExecutionProviderDevicePolicy", "OrtHardwareDeviceType", "OrtMemoryInfoDeviceType", "OrtSparseFormat",
         "OrtDeviceVendorId")
OPTIONS = ("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "enable_profiling", "inter_op_num_threads", "intra_op_num_threads",
           "log_severity_level", "log_verbosity_level", "logid", "optimized_model_filepath", "profile_file_prefix",
           "use_deterministic_compute", "use_per_session_threads")
META = ("custom_metadata_map", "description", "domain", "graph_description", "graph_name", "producer_name", "version")
# The same value or exception from both; a second text: only so much of the message is compared.
CALLS = [
    *[lambda o, e=e: sorted((n, int(v)) for n, v in getattr(o, e).__members__.items()) for e in ENUMS],
    lambda o: [str(getattr(o.SessionOptions(), n)).split(".")[-1] for n in OPTIONS],
    lambda o: [getattr(o.RunOptions(), n) for n in ("log_severity_level", "log_verbosity_level", "logid", "terminate", "only_execute_path_to_fetches")],
    lambda o: _set(o.SessionOptions(), intra_op_num_threads=2, enable_profiling=True, logid="a", log_severity_level=3),
    lambda o: o.SessionOptions().get_session_config_entry("nope"),
    lambda o: o.RunOptions().get_run_config_entry("nope"),
    lambda o: o.SessionOptions().has_providers(),
    lambda o: _policy(o, "PREFER_GPU"),
    lambda o: _policy(o, "PREFER_CPU"),
    lambda o: _overridden(o),
    lambda o: [(v.name, v.type, v.shape) for s in [o.InferenceSession(DIGITS)] for v in s.get_inputs() + s.get_outputs()],
    lambda o: str(o.InferenceSession(DIGITS).get_inputs()[0]),
    lambda o: [getattr(o.InferenceSession(DIGITS).get_modelmeta(), n) for n in META],
    lambda o: o.InferenceSession(DIGITS, providers=[("CPUExecutionProvider", {"a": 1})]).get_provider_options().keys(),
    lambda o: o.InferenceSession(DIGITS, providers=["CPUExecutionProvider"], provider_options=[{"a": "b"}]).get_provider_options().keys(),
    lambda o: o.InferenceSession(DIGITS, None, ["NoExecutionProvider"]).get_providers(),
    lambda o: o.InferenceSession(DIGITS, providers=[]).get_providers()[-1],
    lambda o: [(m.name, m.device_id, int(m.mem_type), int(m.allocator_type), int(m.device_mem_type)) for s in [o.InferenceSession(DIGITS)]
               for m in s.get_input_memory_infos() + s.get_output_memory_infos()],
    lambda o: [d.ep_name for d in o.InferenceSession(DIGITS).get_input_epdevices()],
    lambda o: [(d.ep_name, int(d.device.type), d.device.device_id) for d in o.get_ep_devices()][-1:],  # a GPU of Tenon's comes before it
    lambda o: o.get_ep_devices()[-1].memory_info(o.OrtDeviceMemoryType.DEFAULT),
    lambda o: o.get_ep_devices()[-1].create_sync_stream(),
    lambda o: (o.InferenceSession(DIGITS).end_profiling(), o.InferenceSession(DIGITS).get_profiling_start_time_ns()),
    lambda o: o.InferenceSession(DIGITS).get_tuning_results(),
    lambda o: o.has_collective_ops(),
    lambda o: _run(o, {"image": X}), lambda o: _run(o, {"image": X}, []), lambda o: _run(o, {"image": X.tolist()}),
    lambda o: _run(o, {}),
    lambda o: o.InferenceSession(3),
    lambda o: o.InferenceSession("no/such.onnx"),
    lambda o: _value(o).shape(), lambda o: _value(o).data_type(), lambda o: _value(o).element_type(), lambda o: _value(o).device_name(),
    lambda o: (_value(o).is_tensor(), _value(o).is_sparse_tensor(), _value(o).is_tensor_sequence(), _value(o).has_value()),
    lambda o: _value(o).tensor_size_in_bytes(), lambda o: _value(o).data_ptr() == X.ctypes.data, lambda o: _value(o).__dlpack_device__(),
    lambda o: [_value(o, np.zeros(2, t)).data_type() for t in ("f2", "f8", "i1", "u2", "?", "i8")],
    lambda o: np.asarray(_value(o)).shape, lambda o: np.array(_value(o), dtype="f8").dtype.name,
    lambda o: np.from_dlpack(_value(o)).shape, lambda o: o.OrtValue.from_dlpack(X).shape(),
    lambda o: o.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float16).data_type(),
    lambda o: o.OrtValue.ortvalue_from_shape_and_type([2, 3], 7).data_type(),
    lambda o: o.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(4, np.uint16), 16).data_type(),
    lambda o: _updated(o, lambda o: np.ones((2, 2), np.float32)), lambda o: _updated(o, lambda o: _value(o, np.ones((2, 2), np.float32))),
    lambda o: _updated(o, lambda o: [1, 2]),
    lambda o: _value(o).as_sparse_tensor(),
    lambda o: (int(_coo(o).format()), _coo(o).values().tolist(), _coo(o).dense_shape(), _coo(o).data_type(), _coo(o).device_name()),
    lambda o: _coo(o).as_coo_view().indices().tolist(),
    lambda o: (_csr(o).as_csrc_view().inner().tolist(), _csr(o).as_csrc_view().outer().tolist()),
    lambda o: _csr(o).as_coo_view(),
    lambda o: [f(o.OrtValue.ort_value_from_sparse_tensor(_coo(o))) for f in (lambda v: v.data_type(), lambda v: v.is_tensor(), lambda v: v.shape(),
                                                                             lambda v: v.is_sparse_tensor(), lambda v: v.element_type())],
    lambda o: [(d.device_type(), d.device_id(), d.device_mem_type(), d.device_vendor_id()) for d in
               (o.OrtDevice.make("cpu", 0), o.OrtDevice.make("cuda", 1), o.OrtDevice.make("gpu", 0, 5))],
    lambda o: o.OrtDevice.make("foo", 0),
    lambda o: _binding(o)[1].copy_outputs_to_cpu()[0].shape,
    lambda o: [v.data_type() for v in _binding(o)[1].get_outputs()],
    lambda o: (lambda v: (len(v), v.element_type_at(0), v.bool_tensor_indices()))(_binding(o)[1].get_outputs_as_ortvaluevector()),
    lambda o: _binding(o, False)[1].bind_cpu_input("zz", X),
    lambda o: _binding(o, False)[0].run_with_iobinding(o.InferenceSession(DIGITS).io_binding()),
    lambda o: _binding(o, False)[1].bind_output("probability", "cpu", 0, None, None, X.ctypes.data),
    lambda o: [v.data_type() for v in o.InferenceSession(DIGITS).run_with_ort_values(None, {"image": _value(o)})],
    lambda o: (lambda m: (m.name, int(m.allocator_type), m.device_id, int(m.mem_type)))(
        o.OrtMemoryInfo("Cpu", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)),
    lambda o: o.OrtArenaCfg({"max_mem": 8, "arena_extend_strategy": 1}).max_mem,
    lambda o: (lambda i: (i.filepath, i.file_offset, i.byte_size))(o.OrtExternalInitializerInfo("f", 1, 2)),
    lambda o: _terminated(o),
]
# The class, and how the message begins, with what programs look for in it.
BEGINNINGS = [
    (lambda o: _run(o, {"image": X.astype("f8")}), "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected input data type. "
     "Actual: (tensor(double)) , expected: (tensor(float))"),
    (lambda o: _run(o, {"image": X[:, :4]}), "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: image "
     "for the following indices\n index: 1 Got: 4 Expected: 8\n Please fix either the inputs/outputs or the model."),
    (lambda o: _run(o, {"image": X[0]}), "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid rank for input: image Got: 2 "
     "Expected: 3 Please fix either the inputs/outputs or the model."),
    (lambda o: _run(o, {"image": X}, ["q"]), "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid output name:q"),
    (lambda o: _run(o, {"image": X, "z": X}), "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: z"),
    (lambda o: o.InferenceSession(b"abcdefgh"), "InvalidProtobuf: [ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Failed to load model because protobuf "
     "parsing failed."),
    (lambda o: o.InferenceSession("LICENSE"), "InvalidProtobuf: [ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from LICENSE failed:"
     "Protobuf parsing failed."),
    (lambda o: _cancelled(o), "ModelLoadCanceled: [ONNXRuntimeError] : 12 : MODEL_LOAD_CANCELED : "),
    (lambda o: _value(o, np.zeros(2, np.float32)).update_inplace("x"), "TypeError: data must be a numpy.ndarray or an OrtValue."),
    (lambda o: o.OrtValue.ort_value_from_sparse_tensor(_coo(o)).numpy(), "RuntimeError: "),
]


@unittest.skipUnless(REAL, "onnxruntime is not installed")
class SurfaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import onnxruntime
        import onnxruntime.capi._pybind_state as state
        import onnxruntime.capi.onnxruntime_inference_collection as collection
        if onnxruntime.__version__.split(".")[:2] != ours.__version__.split(".")[:2]:
            raise unittest.SkipTest(f"onnxruntime is {onnxruntime.__version__}; the table here is of {ours.__version__}")
        onnxruntime.set_default_logger_severity(4)
        cls.real, cls.pairs = onnxruntime, {"onnxruntime": (onnxruntime, ours), "state": (state, ort_state), "collection": (collection, ort_collection)}

    def test_every_public_name(self):
        for key, (real, mine) in self.pairs.items():
            left = set(LEFT_OUT[key]) | (ort_install.LEFT_IN_STATE if key == "state" else set())
            missing = {n for n in public(real) if n not in vars(mine)}
            self.assertEqual(sorted(missing), sorted(left & public(real)), key)
            self.assertEqual(sorted(n for n in left if n in vars(mine)), [], f"{key}: rows that are not needed")

    def test_every_member(self):
        for key, (real, mine) in self.pairs.items():
            for name in sorted(public(real) & set(vars(mine))):
                if inspect.isclass(getattr(real, name)) and getattr(real, name).__module__.startswith("onnxruntime"):
                    have = public(getattr(mine, name)) | set(getattr(getattr(mine, name), "__annotations__", ()))
                    made = _instance(mine, name)
                    with self.subTest(module=key, name=name):
                        self.assertEqual(sorted(n for n in public(getattr(real, name)) - have if not hasattr(made, n)), [])

    def test_parameters(self):
        """A call by keyword that the real one takes is taken."""
        for name in ("InferenceSession", "OrtValue", "IOBinding", "OrtDevice", "SparseTensor"):
            for method, function in inspect.getmembers(getattr(self.real, name), inspect.isfunction):
                if method.startswith("_") and method != "__init__": continue
                mine = inspect.signature(getattr(getattr(ours, name), method))
                if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in mine.parameters.values()): continue
                with self.subTest(name=name, method=method):
                    self.assertEqual([p for p in inspect.signature(function).parameters if p not in mine.parameters], [])

    def test_same_results(self):
        for i, call in enumerate(CALLS):
            with self.subTest(call=i, source=inspect.getsource(call).strip()[:150]):
                self.assertEqual(said(call, ours), said(call, self.real))

    def test_same_beginnings(self):
        for call, want in BEGINNINGS:
            for module in (self.real, ours):
                with self.subTest(want=want, module=module.__name__):
                    self.assertEqual(said(call, module)[:len(want)], want)


def _instance(module, name):
    """Something of the class, for attributes that only instances have; None where there is no simple way to one."""
    makers = {"SessionOptions": lambda: module.SessionOptions(), "RunOptions": lambda: module.RunOptions(),
              "OrtMemoryInfo": lambda: module.OrtMemoryInfo("Cpu", 0, 0, 0), "OrtArenaCfg": lambda: module.OrtArenaCfg({}),
              "OrtExternalInitializerInfo": lambda: module.OrtExternalInitializerInfo("", 0, 0), "OrtEpDevice": lambda: ours.get_ep_devices()[0],
              "ModelMetadata": lambda: ours.InferenceSession(DIGITS).get_modelmeta(), "SparseCooView": lambda: _coo(ours).as_coo_view(),
              "SparseCsrView": lambda: _csr(ours).as_csrc_view(),
              "InferenceSession": lambda: ours.InferenceSession(DIGITS)._sess,
              "SparseBlockSparseView": lambda: ours.SparseTensor.blocksparse_from_numpy([2, 2], np.ones(1), [0], "cpu").as_blocksparse_view()}
    made = getattr(module, name)
    if issubclass(made, enum.Enum): return next(iter(made))
    return makers[name]() if name in makers else None


class InstalledTest(unittest.TestCase):
    """`import onnxruntime` in a process of its own, with Tenon in its place."""

    def run_code(self, code, *path, **env):
        command = [sys.executable, "-c", "import sys, tenon.ort; tenon.ort.install()\n" + code]
        done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.abspath("python"), *path]), **env),
                              capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    def test_modules(self):
        self.assertEqual(self.run_code(
            "import importlib.util, onnxruntime, onnxruntime as o2, onnxruntime.capi\n"
            "from onnxruntime.capi import _pybind_state as C, onnxruntime_pybind11_state as D\n"
            "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, Fail, NoSuchFile, OrtDevice\n"
            "from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession, IOBinding, check_and_normalize_provider_args\n"
            "from onnxruntime.capi._pybind_state import SessionOptions, OrtValue, SparseTensor\n"
            "session = C.InferenceSession(C.get_default_session_options(), 'examples/digits/digits.onnx', True, False)\n"
            "session.initialize_session([], [], set())\n"
            "print(InferenceSession is onnxruntime.InferenceSession, C.InvalidArgument is InvalidArgument is D.InvalidArgument,\n"
            "      importlib.util.find_spec('onnxruntime') is not None, session.inputs_meta[0].name, OrtDevice.cuda(), Fail.__name__)"),
            "True True True image 1 Fail")

    def test_uninstall_gives_the_real_one_back(self):
        if not REAL: self.skipTest("onnxruntime is not installed")
        self.assertEqual(self.run_code(
            "tenon.ort.uninstall(); import onnxruntime; real = onnxruntime\n"
            "tenon.ort.install(); import onnxruntime; mine = onnxruntime; tenon.ort.install(); tenon.ort.uninstall(); import onnxruntime\n"
            "print(onnxruntime is real, mine is real, mine.InferenceSession is tenon.InferenceSession)"), "True False True")

    def test_the_rest_is_the_real_packages(self):
        if not REAL or importlib.util.find_spec("onnx") is None: self.skipTest("onnxruntime and onnx are not installed")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_code(
                "import numpy as np, onnxruntime, warnings; from onnxruntime.quantization import quantize_dynamic, quantize_static, QuantType, CalibrationDataReader\n"
                "from onnxruntime.quantization.shape_inference import quant_pre_process\n"
                "from onnxruntime.capi._pybind_state import quantize_matmul_4bits\n"
                "X = np.load('examples/digits/digits.npy')\n"
                "class Reader(CalibrationDataReader):\n"
                "    def __init__(self): self.left = [{'image': X}]\n"
                "    def get_next(self): return self.left.pop() if self.left else None\n"
                f"at = {folder!r}\n"
                "quant_pre_process('examples/digits/digits.onnx', at + '/pre.onnx', skip_symbolic_shape=True)\n"
                "quantize_static(at + '/pre.onnx', at + '/static.onnx', Reader())\n"
                "quantize_dynamic(at + '/pre.onnx', at + '/dynamic.onnx', weight_type=QuantType.QInt8)\n"
                "for kind in ('static', 'dynamic'):\n"
                "    s = onnxruntime.InferenceSession(at + '/' + kind + '.onnx')\n"
                "    print(type(s).__module__, s.run(None, {'image': X})[0].argmax(1).tolist() == list(range(10)))").splitlines()[-2:],
                ["tenon.ort True"] * 2)

    def test_without_the_real_package(self):
        with tempfile.TemporaryDirectory() as folder:  # a place where a package of this name cannot be found
            hide = ("import importlib.machinery as m; find = m.PathFinder.find_spec.__func__\n"
                    "m.PathFinder.find_spec = classmethod(lambda c, n, p=None, t=None: None if n.startswith('onnxruntime') else find(c, n, p, t))\n")
            for part in ("quantization", "tools.symbolic_shape_infer", "transformers", "datasets"):
                self.assertIn("pip install onnxruntime", self.run_code(hide + f"import onnxruntime.{part}", folder))
            self.assertIn("pip install onnxruntime", self.run_code(hide + "from onnxruntime.capi._pybind_state import quantize_matmul_4bits", folder))
            self.assertEqual(self.run_code(hide + "import importlib.util as u; print(u.find_spec('onnxruntime.training'))", folder), "None")

    def test_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("beside.py", "word = 'beside'"), ("program.py", "import sys, beside, onnxruntime\nif __name__ == '__main__':\n"
                               "    print(onnxruntime.get_build_info().split()[0], sys.argv[1:], beside.word)")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f: f.write(text)
            env = dict(os.environ, PYTHONPATH=os.path.abspath("python"))
            for args, cwd in ((["program.py", "a", "b"], folder), (["-m", "program", "a", "b"], folder),
                              ([os.path.join(folder, "program.py"), "a", "b"], None),
                              (["-c", "import sys, onnxruntime; print(onnxruntime.get_build_info().split()[0], sys.argv[1:], 'beside')", "a", "b"], folder)):
                done = subprocess.run([sys.executable, "-m", "tenon.dropin", *args], cwd=cwd, env=env, capture_output=True, text=True)
                self.assertEqual((done.stdout.strip(), done.returncode), ("Tenon ['a', 'b'] beside", 0), done.stderr)

    def test_profile(self):
        import json
        with tempfile.TemporaryDirectory() as folder:
            options = ours.SessionOptions()
            options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "times")
            session = ours.InferenceSession(DIGITS, options)
            for _ in range(2): session.run(None, {"image": X})
            with open(session.end_profiling(), encoding="utf-8") as f: events = json.load(f)
            self.assertEqual([e["name"] for e in events if e["cat"] == "Session"], ["model_run"] * 2)
            self.assertGreater(sum(e["cat"] == "Node" for e in events), 2)

    def test_sizes_by_denotation_and_files_in_memory(self):
        try: import onnx
        except ImportError: self.skipTest("onnx is not installed")
        model = onnx.load(DIGITS)
        model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        options = ours.SessionOptions()
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
        session = ours.InferenceSession(model.SerializeToString(), options)
        with self.assertRaises(ours.InvalidArgument): session.run(None, {"image": X})
        self.assertEqual(session.run(None, {"image": X[:3]})[0].shape, (3, 10))
        data = b""
        for w in model.graph.initializer:
            if len(w.dims) == 2:
                raw = onnx.numpy_helper.to_array(w).tobytes()
                onnx.external_data_helper.set_external_data(w, "weights.bin", len(data), len(raw))
                data += raw
                for field in ("raw_data", "float_data"): w.ClearField(field)
                w.data_location = onnx.TensorProto.EXTERNAL
        options = ours.SessionOptions()
        options.add_external_initializers_from_files_in_memory(["weights.bin"], [data], [len(data)])
        got = ours.InferenceSession(model.SerializeToString(), options).run(None, {"image": X})[0]
        self.assertTrue((got == ours.InferenceSession(DIGITS).run(None, {"image": X})[0]).all())
        options.add_external_initializers_from_files_in_memory(["weights.bin"], [data], [100])
        with self.assertRaises(ours.InvalidGraph): ours.InferenceSession(model.SerializeToString(), options)

    def test_assigned_nodes(self):
        options = ours.SessionOptions()
        with self.assertRaises(ours.Fail): ours.InferenceSession(DIGITS, options).get_provider_graph_assignment_info()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        found = ours.InferenceSession(DIGITS, options).get_provider_graph_assignment_info()
        self.assertEqual([(n.name, n.op_type) for n in found[0].get_nodes()][:2], [("scale", "Div"), ("flatten", "Reshape")])

    def test_refused(self):
        for call in (lambda: ours.SessionOptions().register_custom_ops_library("x.so"), lambda: ours.LoraAdapter().Load("x"),
                     lambda: ours.ModelCompiler(ours.SessionOptions(), DIGITS), lambda: ours.AdapterFormat(),
                     lambda: ours.register_execution_provider_library("a", "b.so")):
            with self.assertRaisesRegex(ours.NotImplemented, "NOT_IMPLEMENTED : .* is not supported by Tenon: "): call()


if __name__ == "__main__":
    unittest.main()
