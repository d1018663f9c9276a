#!/usr/bin/env python3
"""quantise.py -- int8 networks, as ONNX Runtime's quantize_static makes them.

Each network is calibrated with random inputs: what is measured is speed, and integer results are compared with the
interpreter's run of the same model, so no data set is needed.  Weights are i8 by channel, activations u8 (or i8).

usage: bench/quantise.py [--activations u8|i8] [--weights i8|u8] [--per-tensor] [--operators] IN.onnx OUT.onnx

--operators writes QLinearConv and its like in place of QuantizeLinear and DequantizeLinear around floats.
Needs onnx, onnxruntime and numpy.
"""
import argparse

import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

TYPES = {"i8": QuantType.QInt8, "u8": QuantType.QUInt8}


def random_input(rng, node):
    """Values of an input: floats around 0, tokens below 1000, masks and types of 0 and 1."""
    shape = [d if isinstance(d, int) else 1 for d in node.shape]
    if "float" in node.type:
        return rng.standard_normal(shape, dtype=np.float32)
    few = "mask" in node.name or "type" in node.name
    return rng.integers(0, 2 if few else 1000, shape).astype(np.int64)


class RandomData(CalibrationDataReader):
    def __init__(self, path, count):
        rng = np.random.default_rng(0)
        inputs = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()
        self.sets = iter([{i.name: random_input(rng, i) for i in inputs} for _ in range(count)])

    def get_next(self):
        return next(self.sets, None)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--activations", choices=TYPES, default="u8")
    p.add_argument("--weights", choices=TYPES, default="i8")
    p.add_argument("--per-tensor", action="store_true")
    p.add_argument("--operators", action="store_true")
    p.add_argument("source")
    p.add_argument("result")
    a = p.parse_args()
    quantize_static(
        a.source, a.result, RandomData(a.source, 2), per_channel=not a.per_tensor,
        quant_format=QuantFormat.QOperator if a.operators else QuantFormat.QDQ,
        activation_type=TYPES[a.activations], weight_type=TYPES[a.weights])


if __name__ == "__main__":
    main()
