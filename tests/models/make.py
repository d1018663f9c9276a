#!/usr/bin/env python3
"""make.py -- writes the small models of this folder, which the tests open and run.

usage: make.py      (needs the Python package onnx; the files are kept in the repository)

Each model stands for a part of the format: see the functions' names.  The same script gives the same bytes.
"""
import os
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
F, I, S, B = T.FLOAT, T.INT64, T.STRING, T.BOOL


def value(name, dtype, *shape):
    return h.make_tensor_value_info(name, dtype, list(shape))


def const(name, array):
    return nh.from_array(np.asarray(array), name)


def save(name, nodes, inputs, outputs, inits=(), functions=(), opsets=(), values=()):
    graph = h.make_graph(nodes, name, inputs, outputs, list(inits), value_info=list(values))
    imports = [h.make_opsetid("", 20)] + [h.make_opsetid(d, v) for d, v in opsets]
    model = h.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9)
    model.producer_name = "tenon-tests"
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def weights(*shape):
    n = int(np.prod(shape))
    return ((np.arange(n, dtype=np.float32) * 7 % 11 - 5) / 8).reshape(shape)


def mlp():
    nodes = [h.make_node("MatMul", ["x", "w1"], ["a"], "fc1"), h.make_node("Add", ["a", "b1"], ["b"], "bias1"),
             h.make_node("Relu", ["b"], ["c"], "relu"), h.make_node("MatMul", ["c", "w2"], ["y"], "fc2")]
    save("mlp", nodes, [value("x", F, "batch", 4)], [value("y", F, "batch", 3)],
         [const("w1", weights(4, 8)), const("b1", weights(8)), const("w2", weights(8, 3))])


def conv():
    nodes = [h.make_node("Conv", ["x", "w", "b"], ["a"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
             h.make_node("MaxPool", ["a"], ["p"], "pool", kernel_shape=[2, 2]),
             h.make_node("GlobalAveragePool", ["p"], ["g"], "gap"), h.make_node("Flatten", ["g"], ["y"], "flat")]
    save("conv", nodes, [value("x", F, "batch", 2, "h", "w")], [value("y", F, "batch", 4)],
         [const("w", weights(4, 2, 3, 3)), const("b", weights(4))])


def shapes():
    """The chains that exporters write for a reshape."""
    nodes = [h.make_node("Shape", ["x"], ["s"], "shape"), h.make_node("Gather", ["s", "zero"], ["n"], "gather"),
             h.make_node("Unsqueeze", ["n", "axis"], ["n1"], "unsqueeze"),
             h.make_node("Concat", ["n1", "rest"], ["to"], "concat", axis=0), h.make_node("Reshape", ["x", "to"], ["r"], "reshape"),
             h.make_node("Transpose", ["r"], ["t"], "transpose", perm=[1, 0, 2]), h.make_node("Softmax", ["t"], ["y"], "softmax")]
    save("shapes", nodes, [value("x", F, "batch", 6)], [value("y", F, 2, "batch", 3)],
         [const("zero", np.int64(0)), const("axis", np.int64([0])), const("rest", np.int64([2, 3]))])


def branch():
    then = h.make_graph([h.make_node("Add", ["x", "k"], ["t"], "then_add")], "then", [], [value("t", F, "n")])
    other = h.make_graph([h.make_node("Mul", ["x", "k"], ["m"], "else_mul"), h.make_node("Neg", ["m"], ["e"], "else_neg")],
                         "else", [], [value("e", F, "n")])
    nodes = [h.make_node("ReduceSum", ["x"], ["s"], "sum", keepdims=0), h.make_node("Greater", ["s", "zero"], ["c"], "greater"),
             h.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other)]
    save("branch", nodes, [value("x", F, "n")], [value("y", F, "n")], [const("k", np.float32(3)), const("zero", np.float32(0))])


def rate():
    """Branches that give other ranks, one of which makes no sense at some sizes: a number decides between them."""
    then = h.make_graph([h.make_node("Squeeze", ["x", "axis"], ["t"], "then_squeeze")], "then", [], [h.make_tensor_value_info("t", F, None)])
    other = h.make_graph([h.make_node("Mul", ["x", "k"], ["e"], "else_mul")], "else", [], [h.make_tensor_value_info("e", F, None)])
    nodes = [h.make_node("Equal", ["rate", "eight"], ["c"], "equal"), h.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other)]
    save("rate", nodes, [value("x", F, "m", "n"), value("rate", I)], [h.make_tensor_value_info("y", F, None)],
         [const("k", np.float32(3)), const("eight", np.int64(8)), const("axis", np.int64([0]))])


def loop():
    """Carries a vector that doubles, stacks its sums, and ends early."""
    body = h.make_graph(
        [h.make_node("Add", ["v", "v"], ["v2"], "twice"), h.make_node("ReduceSum", ["v2"], ["sum"], "sum", keepdims=0),
         h.make_node("Less", ["sum", "limit"], ["go"], "less")],
        "body", [value("i", I), value("c", B), value("v", F, "n")], [value("go", B), value("v2", F, "n"), value("sum", F)])
    save("loop", [h.make_node("Loop", ["trips", "", "x"], ["y", "sums"], "loop", body=body)],
         [value("trips", I), value("x", F, "n")], [value("y", F, "n"), value("sums", F, "rounds")],
         [const("limit", np.float32(100))])


def scan():
    body = h.make_graph([h.make_node("Add", ["s", "v"], ["s2"], "add"), h.make_node("Tanh", ["s2"], ["o"], "tanh")],
                        "body", [value("s", F, 3), value("v", F, 3)], [value("s2", F, 3), value("o", F, 3)])
    save("scan", [h.make_node("Scan", ["start", "x"], ["end", "y"], "scan", body=body, num_scan_inputs=1)],
         [value("x", F, "steps", 3)], [value("end", F, 3), value("y", F, "steps", 3)], [const("start", weights(3))])


def rows():
    """Rows whose rank only the model's declaration tells."""
    nodes = [h.make_node("Identity", ["going"], ["go_on"]), h.make_node("Identity", ["v"], ["v_out"]),
             h.make_node("Reshape", ["v", "shape"], ["row"]), h.make_node("Reshape", ["v", "shape"], ["open"])]
    body = h.make_graph(nodes, "body", [value("i", I), value("going", B), value("v", F, "n")],
                        [value("go_on", B), value("v_out", F, "n"), value("row", F, 2, "k"),
                         h.make_tensor_value_info("open", F, None)])
    save("rows", [h.make_node("Loop", ["trips", "", "x"], ["y", "rows", "open"], "loop", body=body)],
         [value("trips", I), value("x", F, "n"), value("shape", I, "r")],
         [value("y", F, "n"), h.make_tensor_value_info("rows", F, None), h.make_tensor_value_info("open", F, None)])


def strings():
    words = h.make_tensor("words", S, [3], [b"oak", b"", "b\u00fcche".encode()])
    nodes = [h.make_node("Gather", ["words", "index"], ["w"], "gather"), h.make_node("Concat", ["w", "x"], ["c"], "concat", axis=0),
             h.make_node("StringConcat", ["c", "c"], ["y"], "twice")]
    save("strings", nodes, [value("x", S, "n"), value("index", I, "k")], [value("y", S, "m")], [words])


def sequence():
    nodes = [h.make_node("SplitToSequence", ["x", "one"], ["parts"], "split", axis=0),
             h.make_node("SequenceInsert", ["parts", "extra"], ["more"], "insert"),
             h.make_node("SequenceErase", ["more", "zero"], ["fewer"], "erase"),
             h.make_node("SequenceLength", ["fewer"], ["n"], "length"),
             h.make_node("ConcatFromSequence", ["fewer"], ["y"], "concat", axis=0)]
    save("sequence", nodes, [value("x", F, "rows", 2)], [value("n", I), value("y", F, "rest", 2)],
         [const("one", np.int64(1)), const("zero", np.int64(0)), const("extra", weights(1, 2))])


def external():
    data = weights(6, 4)
    with open(os.path.join(HERE, "external.bin"), "wb") as f:
        f.write(b"\0" * 64 + data.tobytes())
    w = onnx.TensorProto(name="w", data_type=F, dims=[6, 4], data_location=T.EXTERNAL)
    for key, text in [("location", "external.bin"), ("offset", "64"), ("length", str(data.nbytes))]:
        w.external_data.add(key=key, value=text)
    nodes = [h.make_node("Gather", ["w", "x"], ["r"], "rows"), h.make_node("Exp", ["r"], ["y"], "exp")]
    save("external", nodes, [value("x", I, "n")], [value("y", F, "n", 4)], [w])


def refer(node, name, to):
    node.attribute.add(name=name, ref_attr_name=to, type=onnx.AttributeProto.FLOAT)


def functions():
    """A function with an attribute that calls another one."""
    ops = [h.make_opsetid("", 20), h.make_opsetid("local", 1)]
    scale = h.make_node("Constant", [], ["k"], "k")
    refer(scale, "value_float", "by")
    inner = h.make_function("local", "Scale", ["v"], ["o"], [scale, h.make_node("Mul", ["v", "k"], ["o"], "mul")], ops[:1], ["by"])
    call = h.make_node("Scale", ["v"], ["a"], "call", domain="local")
    refer(call, "by", "gain")
    outer = h.make_function("local", "Soft", ["v"], ["o"], [call, h.make_node("Sigmoid", ["a"], ["o"], "sigmoid")], ops, ["gain"])
    nodes = [h.make_node("Soft", ["x"], ["a"], "soft1", domain="local", gain=2.0),
             h.make_node("Soft", ["a"], ["y"], "soft2", domain="local", gain=-0.5)]
    save("functions", nodes, [value("x", F, "n", 3)], [value("y", F, "n", 3)], functions=[inner, outer], opsets=[("local", 1)])


def quant():
    nodes = [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize"), h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantize"),
             h.make_node("Clip", ["d", "low", "high"], ["c"], "clip"), h.make_node("Cast", ["c"], ["y"], "cast", to=T.FLOAT16)]
    save("quant", nodes, [value("x", F, "n", 2)], [value("y", T.FLOAT16, "n", 2)],
         [const("s", np.float32(0.125)), const("z", np.uint8(128)), const("low", np.float32(-3)), const("high", np.float32(2))])


def custom():
    nodes = [h.make_node("Ramp", ["x", "", "w"], ["r", "count"], "ramp1", domain="com.example", power=0.5, offsets=[1, -2, 3], label="up"),
             h.make_node("Neg", ["r"], ["y"], "neg"), h.make_node("Blur", ["x"], ["z"], "blur1", domain="com.example"),
             h.make_node("Blur", ["y"], ["z2"], "blur2", domain="com.example")]
    save("custom", nodes, [value("x", F, "n", 2)], [value("y", F, "n", 2), value("count", I), value("z2", F, "n", 2)],
         [const("w", weights(2))], opsets=[("com.example", 1)])


def kinds():
    """Inputs and outputs that are not tensors."""
    seq = h.make_tensor_sequence_value_info("xs", F, ["n"])
    out = h.make_tensor_sequence_value_info("ys", F, ["n"])
    save("kinds", [h.make_node("SequenceInsert", ["xs", "x"], ["ys"], "insert")], [seq, value("x", F, "n")], [out])


for make in (mlp, conv, shapes, branch, rate, loop, rows, scan, strings, sequence, external, functions, quant, custom, kinds):
    make()
