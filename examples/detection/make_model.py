#!/usr/bin/env python3
"""make_model.py -- writes red_square.onnx: a detector of red squares with the inputs and outputs of YOLOv8, for examples/detect.cc.

Nothing in it is trained: one convolution measures how red each cell is, and each cell has a box of 16 by 16.  Needs the package onnx.
"""
import os

import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as n, save

SIZE, CELL, BOX = 96, 8, 16
CELLS = SIZE // CELL


def constant(name, array): return n.from_array(array, name)


def main():
    weight = np.zeros((1, 3, BOX, BOX), np.float32)
    weight[0, 0], weight[0, 1:] = 1 / BOX**2, -0.5 / BOX**2  # red, less half of green and of blue
    centres = (np.arange(CELLS, dtype=np.float32) + 0.5) * CELL
    y, x = np.meshgrid(centres, centres, indexing="ij")
    boxes = np.stack([x.ravel(), y.ravel(), np.full(CELLS**2, BOX), np.full(CELLS**2, BOX)])[None].astype(np.float32)
    nodes = [h.make_node("Conv", ["images", "weight"], ["red"], strides=[CELL, CELL], pads=[BOX // 4] * 4),
             h.make_node("Clip", ["red", "zero", "one"], ["score"]),
             h.make_node("Reshape", ["score", "flat"], ["scores"]),
             h.make_node("Concat", ["boxes", "scores"], ["output0"], axis=1)]
    graph = h.make_graph(nodes, "red_square", [h.make_tensor_value_info("images", T.FLOAT, [1, 3, SIZE, SIZE])],
                         [h.make_tensor_value_info("output0", T.FLOAT, [1, 5, CELLS**2])],
                         [constant("weight", weight), constant("boxes", boxes), constant("zero", np.float32(0)), constant("one", np.float32(1)),
                          constant("flat", np.array([1, 1, -1], np.int64))])
    model = h.make_model(graph, producer_name="tenon-example", opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "red_square.onnx"))


if __name__ == "__main__": main()
