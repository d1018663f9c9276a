"""What other engines give for one node in a wider type.

A difference from ONNX Runtime says that one of both is wrong or loses digits, not which.  So the node is run again on the same
operands as doubles, by ONNX Runtime and by onnx.reference, which share no code with Tenon.  There float and narrower types
neither round visibly nor leave the range inside.  Where one of them gives Tenon's result to a unit, Tenon is right.  A node
of type double is run by onnx.reference in NumPy's longdouble.
"""

import ml_dtypes
import numpy as np
import onnx

import builder
import compare
import engines
import values

WIDER = {"float": "double", "float16": "double", "bfloat16": "double"}
UNITS = 2  # of the result's type: each side rounds once
ROUNDINGS = 8  # inside, of the largest operand; and that many times more of the result


def reference(p):
    """The result of onnx.reference in the model's own types, or None."""
    return _result(p, lambda: engines.run_reference(p.case.model, p.case.feeds))


def reference_in_double(p):
    """onnx.reference computes in the type that it is given, whether the schema has it or not."""
    made = widened(p, False)
    return None if made is None else _result(p, lambda: engines.run_reference(*made))


def ort_in_double(p):
    made = widened(p, True)
    return None if made is None else _result(p, lambda: engines.run_ort(made[0].SerializeToString(), made[1]))


def reference_in_longdouble(p):
    """For nodes of type double: NumPy computes in longdouble what it is given so."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps or np.asarray(p.diff.mine).dtype != np.float64:
        return None
    have = operands(p)
    if not alone(p) or any(x is None or p.dtype(i) in values.CARRIED for i, x in enumerate(have.values())):
        return None
    wide = {n: x.astype(np.longdouble) if x.dtype == np.float64 else x for n, x in have.items()}
    return _result(p, lambda: engines.run_reference(node_model(p, wide, {}), wide))


WIDE = (ort_in_double, reference_in_double, reference_in_longdouble)


def agrees(p, want):
    """Where Tenon's result is `want` to a unit of its own type.  Where both results are 0, it is the sign that differs."""
    mine = np.asarray(p.diff.mine)
    nowhere = np.zeros(mine.shape, bool)
    if want is None or want.shape != mine.shape or want.dtype.kind != mine.dtype.kind or (p.diff.kind == "dtype" and want.dtype != mine.dtype):
        return nowhere
    if mine.dtype.kind != "f":
        return mine == want
    with np.errstate(all="ignore"):
        rounded = want.astype(mine.dtype)
        x, y = mine.astype(np.longdouble), want.astype(np.longdouble)
        near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= unit_of(p, y)) & (not set(p.ops) <= compare.EXACT)
        zeros = (mine == 0) & (np.asarray(p.diff.theirs) == 0) if p.diff.bad is not None else nowhere
        sign = ~zeros | (np.signbit(mine) == np.signbit(want))
    return ((mine == rounded) | ((mine != mine) & (want != want)) | near) & sign


def confirmed(p):
    """Where one of the judges gives Tenon's result; for a difference that is not one of elements, whether one does."""
    if p.diff.bad is None:
        return any(bool(agrees(p, want).all()) for want in [judge(p) for judge in (reference, *WIDE)] if np.shape(want) == np.shape(p.diff.mine))
    return agrees(p, reference(p)) | judged(p)[0]


def judged(p):
    """Where a judge in a wider type gives Tenon's result, and where one is against it."""
    hit, wrong = (np.zeros(np.shape(p.diff.mine), bool) for _ in range(2))
    for judge in WIDE:
        want = judge(p)
        if want is not None and want.shape == hit.shape and want.dtype.kind == p.diff.mine.dtype.kind:
            hit = hit | agrees(p, want)
            if want.dtype.kind == "f" and judge is ort_in_double:
                wrong = wrong | against(p, want)
            elif want.dtype.kind == "f" and not all_floats(want):  # it multiplies by 0 where nothing is, such as between dilated taps
                wrong = wrong | against(p, want) & ~np.isnan(want)
            if hit[p.diff.bad].all():
                break
    return hit, wrong & ~hit


def against(p, want):
    """Where `want` is nearer to the other result than Tenon's is, and further from Tenon's than roundings inside explain.  A judge that
    is far from both, such as onnx.reference for attributes that it leaves out, says nothing."""
    with np.errstate(all="ignore"):
        mine, theirs, want = (np.asarray(x).astype(np.longdouble) for x in (p.diff.mine, p.diff.theirs, want))
        inside = float(np.finfo(np.float64 if p.diff.mine.dtype == np.float64 else np.float32).eps)
        room = unit_of(p, want) + ROUNDINGS * inside * np.maximum(ROUNDINGS * np.abs(want), compare.largest([p.diff.mine, *p.arrays()]))
        room = np.where(np.isfinite(want), room, 0)
        distance = lambda a, b: np.where((a == b) | ((a != a) & (b != b)), 0, np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf))
        return np.isfinite(distance(want, theirs)) & (distance(want, theirs) <= distance(mine, theirs)) & (distance(mine, want) > room)


def all_floats(want):
    """Whether all finite results are floats, as those of onnx.reference are where it has a stage of that type, such as erf."""
    finite = want[np.isfinite(want)]
    with np.errstate(all="ignore"):
        return finite.size > 0 and np.array_equal(finite, finite.astype(np.float32))


def unit_of(p, want):
    """Some units of the result's type."""
    t = result_type(p)
    info = ml_dtypes.finfo(values.numpy_of(t) if t in values.TYPES and values.is_float(t) else p.diff.mine.dtype)
    return UNITS * (float(info.eps) * np.abs(want) + float(info.smallest_subnormal))


def alone(p):
    """Whether the case is one node, beside Casts that carry its operands and results, and has no graph inside."""
    known = builder.schema_of(p.node.op_type, p.domain, version_of(p)) is not None
    return known and len(p.ops) == 1 and p.op != "Cast" and not any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in p.node.attribute)


def operands(p):
    """The node's operands by name; None stands for one that the case does not have."""
    return {name: p.array(i) for i, name in enumerate(p.node.input) if name}


def result_type(p):
    """The element type of the result that differs."""
    made = [p.out_dtype(i) for i, name in enumerate(p.node.output) if name]
    return made[p.diff.output] if alone(p) and p.diff.output < len(made) else None


def widened(p, by_schema):
    """A model of the node with operands of type double, where its schema has that type or only for type variables, and its operands; None
    where nothing changes."""
    schema = builder.schema_of(p.node.op_type, p.domain, version_of(p))
    have = operands(p)
    if not alone(p) or any(x is None for x in have.values()):
        return None
    formal = {name: schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i, name in enumerate(p.node.input) if name}
    types = {}  # by type variable
    for i, name in enumerate(p.node.input):
        if not name or p.dtype(i) not in WIDER:
            continue
        of_variable = builder.allowed(p.node.op_type, p.domain, version_of(p), formal[name])
        if WIDER[p.dtype(i)] in of_variable or (of_variable and not by_schema):
            types[formal[name]] = WIDER[p.dtype(i)]
    if not types or any(name and p.dtype(i) in values.CARRIED and formal[name] not in types for i, name in enumerate(p.node.input)):
        return None
    wide = {n: x.astype(values.numpy_of(types[formal[n]])) if formal[n] in types else x for n, x in have.items()}
    return node_model(p, wide, types), wide


def version_of(p):
    return next((i.version for i in p.case.model.opset_import if i.domain == p.domain), 1)


def node_model(p, arrays, types):
    """The node by itself; `types` are the new ones of type variables."""
    schema = builder.schema_of(p.node.op_type, p.domain, version_of(p))
    infos = [onnx.helper.make_tensor_value_info(n, number_of(x), list(x.shape)) for n, x in arrays.items()]
    outs = []
    for i, name in enumerate(p.node.output):
        if name:
            t = types.get(schema.outputs[min(i, len(schema.outputs) - 1)].type_str) or p.out_dtype(i)
            info = onnx.ValueInfoProto(name=name)
            info.type.tensor_type.elem_type = values.number(t)
            outs.append(info)
    graph = onnx.helper.make_graph([p.node], "node", infos, outs)
    return onnx.helper.make_model(graph, opset_imports=p.case.model.opset_import, ir_version=10)


def number_of(x):
    return onnx.TensorProto.DOUBLE if x.dtype == np.longdouble else onnx.helper.np_dtype_to_tensor_dtype(x.dtype)


def _result(p, run):
    try:
        return np.asarray(run()[p.diff.output])
    except (engines.Refused, IndexError, KeyError, TypeError, ValueError):
        return None
