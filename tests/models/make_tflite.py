#!/usr/bin/env python3
"""make_tflite.py -- writes models beside itself.  signatures.tflite: two sub-graphs, twice(x) = x + x and square(x) = x * x, each with a
signature.  custom.tflite: a custom operator that nobody knows, between a sum and a product.  mfcc.tflite: a custom operator
with options in a FlexBuffer, which also seeds the fuzz target.  Needs flatbuffers and ai-edge-litert, for the schema."""
import os
import flatbuffers
from flatbuffers import flexbuffers
from ai_edge_litert import schema_py_generated as S


def tensor(name):
    t = S.TensorT()
    t.name, t.shape, t.type, t.buffer = name, [2], S.TensorType.FLOAT32, 0
    return t


def subgraph(name, code):
    g = S.SubGraphT()
    g.name, g.tensors, g.inputs, g.outputs = name, [tensor(f"{name}/in:0"), tensor(f"{name}/out:0")], [0], [1]
    g.operators = [operator(code, [0, 0], [1])]
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


def save(name, **fields):
    model = S.ModelT()
    model.version, model.description, model.buffers = 3, name, [S.BufferT()]
    for field, value in fields.items(): setattr(model, field, value)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.tflite"), "wb") as f: f.write(builder.Output())


def operator(code, inputs, outputs):
    op = S.OperatorT()
    op.opcodeIndex, op.inputs, op.outputs = code, inputs, outputs
    return op


def custom():
    g, unknown = S.SubGraphT(), code(S.BuiltinOperator.CUSTOM)
    unknown.customCode = "Frobnicate"
    g.name, g.tensors, g.inputs, g.outputs = "main", [tensor(n) for n in ("x", "sum", "odd", "y")], [0], [3]
    g.operators = [operator(0, [0, 0], [1]), operator(2, [1], [2]), operator(1, [2, 1], [3])]
    save("custom", operatorCodes=[code(S.BuiltinOperator.ADD), code(S.BuiltinOperator.MUL), unknown], subgraphs=[g])


def mfcc():
    """Options in a FlexBuffer, whose keys and numbers have several widths."""
    g, op = S.SubGraphT(), code(S.BuiltinOperator.CUSTOM)
    op.customCode = "Mfcc"
    g.name, g.tensors, g.inputs, g.outputs = "main", [tensor(n) for n in ("power", "rate", "y")], [0, 1], [2]
    g.tensors[0].shape, g.tensors[1].shape, g.tensors[1].type, g.tensors[2].shape = [1, 2, 9], [1], S.TensorType.INT32, [1, 2, 3]
    g.operators = [operator(0, [0, 1], [2])]
    options = {"upper_frequency_limit": 4000.0, "lower_frequency_limit": 20, "filterbank_channel_count": 4, "dct_coefficient_count": 3}
    g.operators[0].customOptions = list(flexbuffers.Dumps(options))
    save("mfcc", operatorCodes=[op], subgraphs=[g])


def signatures():
    save("signatures", operatorCodes=[code(S.BuiltinOperator.ADD), code(S.BuiltinOperator.MUL)],
         subgraphs=[subgraph("twice", 0), subgraph("square", 1)], signatureDefs=[signature("twice", 0), signature("square", 1)])


custom()
mfcc()
signatures()
