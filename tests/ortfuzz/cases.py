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


def open_rank(op, gates, states):
    """A recurrent layer whose input and states come out of an If that leaves their rank open: [steps, batch, 3] or one batch without its axis."""
    rng, hidden = np.random.default_rng(3), 2
    x = rng.standard_normal((5, 3), F32)
    w, r = (rng.standard_normal((1, gates * hidden, n), F32) for n in (3, hidden))
    state = rng.standard_normal((1, hidden), F32)
    info, node = helper.make_tensor_value_info, helper.make_node
    branch = lambda name, *nodes: helper.make_graph(list(nodes), name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])
    either = lambda v: node("If", ["flat"], [v + "3"], then_branch=branch("t", node("Unsqueeze", [v, "one"], [v + "t"])), else_branch=branch("e", node("Identity", [v], [v + "e"])))
    inputs = ["x3", "w", "r", "", "", "state3", "state3"][:5 + states]
    graph = helper.make_graph([node("Identity", ["flag"], ["flat"]), either("x"), either("state"), node(op, inputs, ["y", "h"], hidden_size=hidden)], "case",
                              [info("x", 1, ["s", 3]), info("state", 1, [1, hidden]), info("flag", 9, [])], [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="h")],
                              [onnx.numpy_helper.from_array(v, n) for n, v in (("w", w), ("r", r), ("one", np.array([1])))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return model.SerializeToString(), {"x": x, "state": state, "flag": np.array(True)}


def layers_of_open_rank():
    """What is wrong with them, against ONNX Runtime."""
    said = []
    for op, gates, states in ("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1):
        data, feeds = open_rank(op, gates, states)
        want = engines.run_ort(data, feeds)
        for who, run in {"interpreter": engines.run_interp, "loops": lambda d, f: engines.run_compiled(d, f, True, "ref")}.items():
            try: near = all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(run(data, feeds), want))
            except engines.Refused as e: near, want = False, e
            if not near: said.append(f"{op} of an open rank, {who}: not what ONNX Runtime gives ({want})")
    return said


def failures():
    """What is wrong, one line each."""
    said = layers_of_open_rank()
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
