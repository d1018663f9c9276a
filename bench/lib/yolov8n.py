#!/usr/bin/env python3
"""yolov8n.py -- the YOLOv8n detector as an ONNX file with random weights, as Ultralytics exports it.

Opset 17, batch 1, 80 classes, batch normalisation folded into the convolutions, and the decoding of boxes (DFL, anchors,
strides) in the graph: input `images` f32[1, 3, SIZE, SIZE], output `output0` f32[1, 84, boxes].

usage: bench/lib/yolov8n.py OUT.onnx [SIZE]       (SIZE is a multiple of 32, 640 by default; needs numpy and onnx)
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self):
        self.rng = np.random.default_rng(8)
        self.nodes, self.weights = [], []

    def const(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, inputs, outputs=1, **attributes):
        name = f"/{kind}_{len(self.nodes)}"
        made = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def plain(self, x, channels, out, kernel=1, stride=1):
        n = len(self.weights)
        w = self.rng.standard_normal((out, channels, kernel, kernel)) * (2 / (channels * kernel * kernel)) ** 0.5
        w = self.const(f"model.{n}.weight", w.astype(np.float32))
        b = self.const(f"model.{n}.bias", (self.rng.standard_normal(out) * 0.1).astype(np.float32))
        return self.op("Conv", [x, w, b], kernel_shape=[kernel, kernel], strides=[stride, stride], dilations=[1, 1],
                       group=1, pads=[kernel // 2] * 4)

    def conv(self, x, channels, out, kernel=1, stride=1):
        y = self.plain(x, channels, out, kernel, stride)
        return self.op("Mul", [y, self.op("Sigmoid", [y])])

    def c2f(self, x, channels, out, n, shortcut):
        half = out // 2
        halves = self.const(f"split.{len(self.weights)}", np.array([half, half], np.int64))
        parts = self.op("Split", [self.conv(x, channels, out), halves], outputs=2, axis=1)
        for _ in range(n):
            y = self.conv(self.conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(self.op("Add", [parts[-1], y]) if shortcut else y)
        return self.conv(self.op("Concat", parts, axis=1), (2 + n) * half, out)

    def sppf(self, x, channels):
        parts = [self.conv(x, channels, channels // 2)]
        for _ in range(3):
            parts.append(self.op("MaxPool", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1], ceil_mode=0))
        return self.conv(self.op("Concat", parts, axis=1), 2 * channels, channels)

    def up(self, x):
        scales = self.const(f"scales.{len(self.weights)}", np.array([1, 1, 2, 2], np.float32))
        return self.op("Resize", [x, "", scales], mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")

    def shape(self, *dims):
        return self.const(f"shape.{len(self.weights)}", np.array(dims, np.int64))

    def rows(self, x, begin, end):
        return self.op("Slice", [x, self.shape(begin), self.shape(end), self.shape(1)])


def backbone(n, images):
    x = n.conv(n.conv(images, 3, 16, 3, 2), 16, 32, 3, 2)
    p3 = n.c2f(n.conv(n.c2f(x, 32, 32, 1, True), 32, 64, 3, 2), 64, 64, 2, True)
    p4 = n.c2f(n.conv(p3, 64, 128, 3, 2), 128, 128, 2, True)
    p5 = n.sppf(n.c2f(n.conv(p4, 128, 256, 3, 2), 256, 256, 1, True), 256)
    return p3, p4, p5


def neck(n, p3, p4, p5):
    up4 = n.c2f(n.op("Concat", [n.up(p5), p4], axis=1), 384, 128, 1, False)
    out3 = n.c2f(n.op("Concat", [n.up(up4), p3], axis=1), 192, 64, 1, False)
    out4 = n.c2f(n.op("Concat", [n.conv(out3, 64, 64, 3, 2), up4], axis=1), 192, 128, 1, False)
    out5 = n.c2f(n.op("Concat", [n.conv(out4, 128, 128, 3, 2), p5], axis=1), 384, 256, 1, False)
    return (out3, 64), (out4, 128), (out5, 256)


def head(n, levels, size, classes=80, bins=16):
    flat, anchors, strides = [], [], []
    for i, (x, channels) in enumerate(levels):
        box = n.plain(n.conv(n.conv(x, channels, 64, 3), 64, 64, 3), 64, 4 * bins)
        kind = n.plain(n.conv(n.conv(x, channels, classes, 3), classes, classes, 3), classes, classes)
        side = size // (8 << i)
        flat.append(n.op("Reshape", [n.op("Concat", [box, kind], axis=1), n.shape(1, 4 * bins + classes, -1)]))
        y, x = np.mgrid[0:side, 0:side] + 0.5
        anchors.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(side * side, 8 << i))
    boxes = sum(a.shape[1] for a in anchors)
    box, kind = n.op("Split", [n.op("Concat", flat, axis=2), n.shape(4 * bins, classes)], outputs=2, axis=1)
    dfl = n.op("Transpose", [n.op("Reshape", [box, n.shape(1, 4, bins, boxes)])], perm=[0, 2, 1, 3])
    w = n.const("dfl.weight", np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
    dist = n.op("Conv", [n.op("Softmax", [dfl], axis=1), w], kernel_shape=[1, 1], strides=[1, 1], dilations=[1, 1], group=1, pads=[0] * 4)
    dist = n.op("Reshape", [dist, n.shape(1, 4, boxes)])
    at = n.const("anchors", np.concatenate(anchors, 1)[None].astype(np.float32))
    low = n.op("Sub", [at, n.rows(dist, 0, 2)])
    high = n.op("Add", [n.rows(dist, 2, 4), at])
    middle = n.op("Div", [n.op("Add", [low, high]), n.const("two", np.float32(2))])
    box = n.op("Concat", [middle, n.op("Sub", [high, low])], axis=1)
    box = n.op("Mul", [box, n.const("strides", np.concatenate(strides)[None].astype(np.float32))])
    n.nodes.append(helper.make_node("Concat", [box, n.op("Sigmoid", [kind])], ["output0"], name="/head/Concat", axis=1))
    return 4 + classes, boxes


def make(size=640):
    n = Net()
    rows, boxes = head(n, neck(n, *backbone(n, "images")), size)
    graph = helper.make_graph(
        n.nodes, "yolov8n", [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, rows, boxes])], n.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 640
    if size < 32 or size % 32:
        sys.exit(f"SIZE is {size}, not a multiple of 32")
    model = make(size)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
