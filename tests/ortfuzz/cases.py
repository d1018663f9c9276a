"""Models with one node that were wrong once, with what they must give in the interpreter, in loops and in ONNX Runtime."""

import numpy as np
import onnx
from onnx import helper

import engines

F16, F32 = np.float16, np.float32

# operator, opset, attributes, inputs (array, or array and names of its sizes), result
CASES = [
    # Sums of narrow floats are wide until the end.
    ("Mean", 13, {}, [np.array([65504, 1], F16), np.array([65504, 2], F16), np.array([-3, 3], F16)], np.array([43680, 2], F16)),
    ("Sum", 13, {}, [np.array([65504, 2048], F16), np.array([65504, 1], F16), np.array([-65504, 1], F16)], np.array([65504, 2050], F16)),
    # No input lies between two strides, whatever is known of the sizes.
    ("ConvTranspose", 22, {"strides": [2]}, [(np.ones((1, 1, 2), F32), (None, None, "n")), np.array([[[1, np.inf, 1]]], F32)],
     np.array([[[1, np.inf, 2, np.inf, 1]]], F32)),
    ("ConvTranspose", 22, {"strides": [2]}, [np.ones((1, 1, 2), F32), np.array([[[1, np.inf, 1]]], F32)],
     np.array([[[1, np.inf, 2, np.inf, 1]]], F32)),
    # A pixel of the padding is 0, and 0 times infinity is NaN.
    ("Conv", 22, {"pads": [1, 1]}, [(np.ones((1, 1, 3), F32), (None, None, "n")), np.array([[[np.inf, 1, 1]]], F32)],
     np.array([[[np.nan, np.inf, np.inf]]], F32)),
    ("Conv", 22, {"pads": [1, 1]}, [np.ones((1, 1, 3), F32), np.array([[[np.inf, 1, 1]]], F32)], np.array([[[np.nan, np.inf, np.inf]]], F32)),
]


def model_of(op, opset, attrs, inputs):
    feeds, infos = {}, []
    for i, x in enumerate(inputs):
        x, names = x if isinstance(x, tuple) else (x, ())
        feeds[f"x{i}"] = x
        dims = [name or d for name, d in zip(list(names) + [None] * x.ndim, x.shape)]
        infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), dims))
    graph = helper.make_graph([helper.make_node(op, list(feeds), ["y"], **attrs)], "case", infos, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString(), feeds


def failures():
    """What is wrong, one line each."""
    said = []
    runs = {"interpreter": engines.run_interp, "loops": lambda d, f: engines.run_compiled(d, f, True, "ref"), "ONNX Runtime": engines.run_ort}
    for i, (op, opset, attrs, inputs, want) in enumerate(CASES):
        data, feeds = model_of(op, opset, attrs, inputs)
        for who, run in runs.items():
            try:
                got = np.asarray(run(data, feeds)[0])
                if got.dtype != want.dtype or not np.array_equal(got, want, equal_nan=True):
                    said.append(f"case {i} ({op}), {who}: {got.tolist()}, must be {want.tolist()}")
            except engines.Refused as e:
                said.append(f"case {i} ({op}), {who}: {e}")
    return said
