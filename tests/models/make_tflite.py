#!/usr/bin/env python3
"""make_tflite.py -- writes signatures.tflite beside itself: two sub-graphs, twice(x) = x + x and square(x) = x * x, each with a signature.
Needs flatbuffers and ai-edge-litert, for the schema."""
import os
import flatbuffers
from ai_edge_litert import schema_py_generated as S


def tensor(name):
    t = S.TensorT()
    t.name, t.shape, t.type, t.buffer = name, [2], S.TensorType.FLOAT32, 0
    return t


def subgraph(name, code):
    g, op = S.SubGraphT(), S.OperatorT()
    g.name, g.tensors, g.inputs, g.outputs = name, [tensor(f"{name}/in:0"), tensor(f"{name}/out:0")], [0], [1]
    op.opcodeIndex, op.inputs, op.outputs = code, [0, 0], [1]
    g.operators = [op]
    return g


def signature(key, index):
    s, maps = S.SignatureDefT(), []
    for name, at in (("x", 0), ("y", 1)):
        m = S.TensorMapT()
        m.name, m.tensorIndex = name, at
        maps.append([m])
    s.signatureKey, s.subgraphIndex, s.inputs, s.outputs = key, index, *maps
    return s


def code(builtin):
    c = S.OperatorCodeT()
    c.builtinCode = c.deprecatedBuiltinCode = builtin
    c.version = 1
    return c


model = S.ModelT()
model.version, model.description, model.buffers = 3, "two signatures", [S.BufferT()]
model.operatorCodes = [code(S.BuiltinOperator.ADD), code(S.BuiltinOperator.MUL)]
model.subgraphs = [subgraph("twice", 0), subgraph("square", 1)]
model.signatureDefs = [signature("twice", 0), signature("square", 1)]
builder = flatbuffers.Builder(1024)
builder.Finish(model.Pack(builder), b"TFL3")
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "signatures.tflite"), "wb") as f: f.write(builder.Output())
