"""One model from a seed."""

import numpy as np
import onnx

import builder
import specs_math  # noqa: F401
import specs_nn  # noqa: F401
import specs_rest  # noqa: F401
import specs_shape  # noqa: F401
import values
from registry import OPS

NAMES = sorted(OPS)
# What follows another node most often: operators that take any tensor.
FOLLOWERS = [("", n) for n in (
    "Add Sub Mul Div Max Min Where Clip Cast Relu Neg Abs Sqrt Exp Sigmoid Tanh Transpose Reshape Slice Concat Gather Pad Squeeze "
    "Unsqueeze Expand Tile Flatten Softmax ReduceSum ReduceMax ReduceMin ReduceMean ArgMax ArgMin TopK CumSum Shape Identity "
    "Equal Less Greater And Or Not Split Mod Pow Round Floor BitwiseAnd BitShift GatherND ScatterND ScatterElements MatMul Sign"
).split()]


class Case:
    """A model, its inputs, and what the fuzzer knows of it."""

    def __init__(self, seed, model, feeds, dtypes, nodes, notes, vals):
        self.seed, self.model, self.feeds, self.dtypes = seed, model, feeds, dtypes
        self.coverage, self.notes, self.vals = nodes, notes, vals

    @property
    def exact(self):
        """Whether it is compiled with exact math: a quarter of the cases are, whatever their values."""
        return self.seed % 20 < 5

    @property
    def ops(self):
        return {n.op_type for n in self.model.graph.node}


def add_node(b, domain, op):
    """Adds one node, or nothing: what a generator has already given stays in the graph as unused inputs otherwise."""
    keep = len(b.nodes), len(b.inits), dict(b.feeds), len(b.vals), len(b.coverage)
    try:
        b.begin(op, domain)
        OPS[domain, op](b)
    except builder.Skip:
        del b.nodes[keep[0] :], b.inits[keep[1] :], b.vals[keep[3] :], b.coverage[keep[4] :]
        b.feeds = keep[2]
        return False
    return True


def make(seed, max_opset, only=None, limits=False):
    for attempt in range(50):
        b = builder.Builder((seed, attempt), max_opset, limits)
        domain, op = only or NAMES[int(b.rng.integers(0, len(NAMES)))]
        since = first_version(op, domain, max_opset)
        if since is None:
            if only:
                raise builder.Skip(op)
            continue
        b.opset = max(b.opset, b.int(since, max_opset))
        if not add_node(b, domain, op):
            continue
        if b.chance(0.4):
            for _ in range(b.int(1, 4)):
                add_node(b, *(b.pick(FOLLOWERS) if b.chance(0.75) else b.pick(NAMES)))
        try:
            model, dtypes = b.model()
        except builder.Skip:
            continue
        return Case(seed, model, b.feeds, dtypes, b.coverage, b.notes, {v.name: v for v in b.vals})
    raise builder.Skip("nothing")


def first_version(op, domain, most):
    if domain:
        return 13
    for v in range(13, most + 1):
        if builder.schema_of(op, domain, v) is not None:
            return v
    return None


def is_tensor(case, name):
    return name in case.vals and case.vals[name].dtype in values.TYPES


def groups(case):
    """The nodes as lists of indices: each by itself, or with those that a sequence, an optional or a map connects it with."""
    nodes = case.model.graph.node
    group = list(range(len(nodes)))
    made = {o: i for i, n in enumerate(nodes) for o in n.output if o}
    for i, n in enumerate(nodes):
        for name in list(n.input) + list(builder.captured(n)):
            if name in made and not is_tensor(case, name):
                group = [group[made[name]] if g == group[i] else g for g in group]
    return [[i for i, g in enumerate(group) if g == k] for k in dict.fromkeys(group)]


def part_of(case, indices, known):
    """Some nodes of a case by themselves: `known` has the arrays of their operands.  None where one is not a tensor."""
    picked = [case.model.graph.node[i] for i in indices]
    names = [n for node in picked for n in list(node.input) + list(builder.captured(node)) if n]
    inits = {t.name: t for t in case.model.graph.initializer}
    inside = {o for node in picked for a in node.attribute for g in [a.g] for n in g.node for o in n.output} | {
        i.name for node in picked for a in node.attribute for g in [a.g] for i in g.input} | {o for node in picked for o in node.output}
    feeds, keep, nodes = {}, [], []
    for n in dict.fromkeys(names):
        if n in inside:
            continue
        if n in inits:
            keep.append(inits[n])
            continue
        if n not in known:
            return None
        array, v = known[n], case.vals.get(n)
        if v is not None and v.dtype in values.CARRIED:
            feeds[n + "_"] = array
            nodes.append(onnx.helper.make_node("Cast", [n + "_"], [n], to=values.number(v.dtype)))
        else:
            feeds[n] = array
    nodes.extend(picked)
    outs, dtypes = [], []
    for o in (o for node in picked for o in node.output):
        if not o or (len(picked) > 1 and not is_tensor(case, o)):
            continue
        if not is_tensor(case, o):
            return None
        name, dtype = o, case.vals[o].dtype
        if dtype in values.CARRIED:
            name, dtype = o + "_y", values.CARRIER[dtype]
            nodes.append(onnx.helper.make_node("Cast", [o], [name], to=values.number(dtype)))
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = values.number(dtype)
        outs.append(info)
        dtypes.append(dtype)
    declared = {i.name: i for i in case.model.graph.input}
    infos = [declared.get(n) or onnx.helper.make_tensor_value_info(
        n, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), list(np.shape(x))) for n, x in feeds.items()]
    graph = onnx.helper.make_graph(nodes, "fuzz", infos, outs, keep)
    model = onnx.helper.make_model(graph, opset_imports=case.model.opset_import, ir_version=10)
    ops = {node.op_type for node in picked}
    cover = [c for c in case.coverage if c[1] in ops][: len(picked)]
    vals = {n: case.vals[n] for n in names + [o for node in picked for o in node.output] if n in case.vals}
    return Case(case.seed, model, feeds, dtypes, cover, case.notes, vals) if outs else None
