#!/usr/bin/env python3
"""heads_suite.py TENON FOLDER SIZE... -- convolutional heads as a suite of tests, for cross_test.py.

Two 3x3 convolutions, 16 to 32 to 1 ... 4 channels, at each SIZE, with nothing, Relu, Concat or Resize between them: what Winograd's transforms
do with few output channels.  Stored results are those of the interpreter.
"""
import os, shutil, subprocess, sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

BETWEEN = ("plain", "relu", "concat", "resize")


def head(size, outputs, between):
    rng = np.random.default_rng(size * 16 + outputs)
    wide = 64 if between == "concat" else 32
    init = [nh.from_array((rng.standard_normal((32, 16, 3, 3)) / 12).astype(np.float32), "v"),
            nh.from_array((rng.standard_normal((outputs, wide, 3, 3)) / 16).astype(np.float32), "w"),
            nh.from_array(np.array([1, 1, 2, 2], np.float32), "scales")]
    middle = {"plain": [], "relu": [h.make_node("Relu", ["c"], ["m"])], "concat": [h.make_node("Concat", ["c", "c"], ["m"], axis=1)],
              "resize": [h.make_node("Resize", ["c", "", "scales"], ["m"], mode="nearest")]}[between]
    nodes = [h.make_node("Conv", ["x", "v"], ["c"], "first", pads=[1] * 4), *middle, h.make_node("Conv", ["m" if middle else "c", "w"], ["y"], "head", pads=[1] * 4)]
    graph = h.make_graph(nodes, "head", [h.make_tensor_value_info("x", T.FLOAT, [1, 16, size, size])], [h.make_tensor_value_info("y", T.FLOAT, None)], init)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), rng.standard_normal((1, 16, size, size)).astype(np.float32)


def main():
    tenon, folder = sys.argv[1:3]
    shutil.rmtree(folder, ignore_errors=True)
    for size in map(int, sys.argv[3:]):
        for outputs in (1, 2, 3, 4):
            for between in BETWEEN:
                where = os.path.join(folder, f"test_head_{size}_{outputs}_{between}")
                data, model, made = os.path.join(where, "test_data_set_0"), os.path.join(where, "model.onnx"), os.path.join(where, "y.npy")
                os.makedirs(data)
                graph, x = head(size, outputs, between)
                onnx.save(onnx.shape_inference.infer_shapes(graph), model)
                np.save(os.path.join(where, "x.npy"), x)
                subprocess.run([tenon, "run", model, "--target", "interp", "-i", f"x={where}/x.npy", "-o", made], check=True, stdout=subprocess.DEVNULL)
                for name, array in (("input_0", x), ("output_0", np.load(made))):
                    with open(os.path.join(data, name + ".pb"), "wb") as f: f.write(nh.from_array(array, name[0]).SerializeToString())


main()
