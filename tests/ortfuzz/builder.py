"""Builds one random model: names, inputs, initializers, nodes, types that the operator's schema allows."""

import functools

import numpy as np
import onnx
from onnx import helper

import values

DOMAINS = {"": "", "ml": "ai.onnx.ml", "ms": "com.microsoft"}


class Skip(Exception):
    """The operator does not exist at this opset, or has no type that the fuzzer makes."""


@functools.lru_cache(maxsize=None)
def schema_of(name, domain, opset):
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


@functools.lru_cache(maxsize=None)
def allowed(name, domain, opset, variable):
    """Element types that the schema allows for a type variable, or an input by its name."""
    s = schema_of(name, domain, opset)
    if s is None:
        return ()
    found = [list(c.allowed_type_strs) for c in s.type_constraints if c.type_param_str == variable]
    if not found:
        return ()
    names = [t[7:-1] for t in found[0] if t.startswith("tensor(")]
    return tuple(t for t in names if t in values.TYPES)


@functools.lru_cache(maxsize=None)
def implemented(name, domain, opset, variable):
    """Element types for which ONNX Runtime has a kernel; float16 where it has float, since it casts."""
    from onnxruntime.capi import _pybind_state

    found = set()
    for k in _kernels(_pybind_state).get((domain, name), ()):
        if k.version_range[0] <= opset <= k.version_range[1]:
            found.update(t[7:-1] for t in k.type_constraints.get(variable, ()) if t.startswith("tensor("))
    return found | ({"float16"} if "float" in found else set())


@functools.lru_cache(maxsize=None)
def _kernels(module):
    table = {}
    for k in module.get_all_opkernel_def() if hasattr(module, "get_all_opkernel_def") else ():
        if k.provider == "CPUExecutionProvider":
            table.setdefault((k.domain, k.op_name), []).append(k)
    return table


class Val:
    """A tensor of the graph: `shape` is None where the fuzzer does not know it."""

    __slots__ = ("name", "dtype", "shape", "fresh")

    def __init__(self, name, dtype, shape, fresh=False):
        self.name, self.dtype, self.shape, self.fresh = name, dtype, shape, fresh

    def __repr__(self):
        return f"{self.name}:{self.dtype}{self.shape}"


class Builder:
    def __init__(self, seed, max_opset, limits=False):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.integers(13, max_opset + 1))
        self.level = int(self.rng.choice([0, 0, 1, 2, 2]))
        self.limits = limits
        if limits:
            self.level = 2
        self.symbolic = self.rng.random() < 0.5
        self.nodes, self.inits, self.feeds, self.vals = [], [], {}, []
        self.domains, self.types, self.op, self.domain = set(), {}, None, ""
        self.coverage, self.notes, self.count, self.maps = [], {}, 0, {}

    # ---- choices ----

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[int(self.rng.integers(0, len(options)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def dim(self):
        r = self.rng.random()
        if r < 0.03:
            return 0
        if r < 0.2:
            return 1
        if r < 0.92:
            return self.int(2, 5)
        return self.pick([7, 8, 9, 16, 17, 33, 64, 65])

    def shape(self, low=0, high=4, least=0):
        rank = self.int(low, high)
        if low == 0 and high > 1 and rank == 0 and self.chance(0.5):
            rank = self.int(1, high)
        out = []
        for _ in range(rank):
            out.append(max(self.dim(), least))
            if np.prod(out, dtype=np.int64) > 3000:
                out[-1] = max(2, least)
        return tuple(out)

    def broadcastable(self, shape):
        """A shape that broadcasts to `shape`."""
        s = [d if self.chance(0.75) else 1 for d in shape]
        return tuple(s[self.int(0, len(s)) :] if self.chance(0.35) else s)

    # ---- types ----

    def begin(self, op, domain=""):
        self.op, self.domain, self.types = op, domain, {}
        self.version = {"": self.opset, "ai.onnx.ml": self.ml_opset, "com.microsoft": 1}[domain]
        if domain != "com.microsoft" and schema_of(op, domain, self.version) is None:
            raise Skip(op)

    @property
    def ml_opset(self):
        return 2 if self.opset < 16 else 3 if self.opset < 20 else 5 if self.opset > 22 else 4

    def schema(self):
        return schema_of(self.op, self.domain, self.version)

    def has_attr(self, name):
        return name in self.schema().attributes

    def t(self, variable="T", among=None, avoid=()):
        """The element type of a type variable, chosen once for each node."""
        if variable not in self.types:
            options = allowed(self.op, self.domain, self.version, variable)
            options = [o for o in options if (among is None or o in among) and o not in avoid]
            if not options:
                raise Skip(self.op)
            both = implemented(self.op, self.domain, self.version, variable)
            if self.chance(0.85):  # else what only Tenon may run
                options = [o for o in options if o in both] or options
            if self.chance(0.3):  # what models are made of
                common = [o for o in options if o in ("float", "int64", "float16", "int32", "uint8", "bool")]
                options = common or options
            self.types[variable] = self.pick(options)
        return self.types[variable]

    def tin(self, i=0, among=None, avoid=()):
        """The element type of input i."""
        formal = self.schema().inputs
        return self._formal(formal[min(i, len(formal) - 1)].type_str, among, avoid)

    def tout(self, i=0):
        formal = self.schema().outputs
        return self._formal(formal[min(i, len(formal) - 1)].type_str)

    def _formal(self, text, among=None, avoid=()):
        return text[7:-1] if text.startswith("tensor(") else self.t(text, among, avoid)

    # ---- values ----

    def name(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def data(self, dtype, shape, kind="any", level=None, reuse=True):
        """A tensor of a type and shape: one that the graph has, or a new input or initializer."""
        shape = tuple(int(d) for d in shape)
        if kind == "any" and reuse and self.vals and self.chance(0.5):
            fit = [v for v in self.vals if v.dtype == dtype and v.shape == shape and not v.fresh]
            if fit:
                return self.pick(fit)
        array = values.fill(self.rng, dtype, shape, kind, self.level if level is None else level)
        return self.given(array, dtype)

    def any(self, dtype, low=0, high=4, kind="any", least=0):
        """A tensor of a type with any shape, preferably one that a node made."""
        if kind == "any" and self.chance(0.7):
            fit = [
                v
                for v in self.vals
                if v.dtype == dtype and v.shape is not None and low <= len(v.shape) <= high and not v.fresh
                and (not least or all(d >= least for d in v.shape))
            ]
            if fit:
                return self.pick(fit)
        return self.data(dtype, self.shape(low, high, least), kind, reuse=False)

    def control(self, array, constant=None):
        """A small tensor that shapes or indices depend on."""
        array = np.asarray(array)
        dtype = helper.tensor_dtype_to_string(helper.np_dtype_to_tensor_dtype(array.dtype))[12:].lower()
        v = self.given(array, dtype, self.chance(0.7) if constant is None else constant)
        v.fresh = True
        return v

    def ints(self, values_, constant=None):
        return self.control(np.array(values_, np.int64), constant)

    def given(self, array, dtype, constant=None):
        constant = self.chance(0.15) if constant is None else constant
        carrier = values.CARRIER.get(dtype, dtype)
        name = self.name("c" if constant else "x")
        if carrier != dtype:
            array = array.astype(values.numpy_of(carrier))
        if constant:
            self.inits.append(tensor(name, array, carrier))
        else:
            self.feeds[name] = array
        v = Val(name, carrier, array.shape, True)
        if carrier != dtype:
            cast = self.name()
            self.nodes.append(helper.make_node("Cast", [name], [cast], to=values.number(dtype)))
            v = Val(cast, dtype, array.shape)
        v.fresh = False
        self.vals.append(v)
        return v

    def map_of(self, key, value, n, keys):
        """An input that is a map with n of the keys."""
        some = [keys[i] for i in self.rng.permutation(len(keys))[:n]]
        array = values.fill(self.rng, value, (n,), (-99, 99) if value == "int64" else "small")
        if value == "string":
            array = array.astype(object)
        name = self.name("m")
        self.feeds[name] = dict(zip(some, array.tolist()))
        self.maps[name] = f"map({key},{value})"
        return Val(name, self.maps[name], None, True)

    # ---- nodes ----

    def node(self, inputs, outs, **attrs):
        """Adds the node: inputs are Val or None, outs (dtype, shape or None); attributes that are None are left out."""
        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        results = [Val(self.name(), t, None if s is None else tuple(s)) if t else None for t, s in outs]
        given = {k: v for k, v in attrs.items() if v is not None}
        n = helper.make_node(self.op, names, [r.name if r else "" for r in results], **given)
        if self.domain:
            n.domain = self.domain
            self.domains.add(self.domain)
        self.nodes.append(n)
        for r in results:
            if r:
                self.vals.append(r)
        s = self.schema() if self.domain != "com.microsoft" else None
        self.coverage.append(
            (self.domain, self.op, s.since_version if s else 1,
             tuple(v.dtype if v is not None else "" for v in inputs), tuple(sorted(given)))
        )
        return results

    def extra(self, op, inputs, outs, **attrs):
        """A node beside the one at hand, such as one that decomposes a sequence."""
        results = [Val(self.name(), t, s) for t, s in outs]
        self.nodes.append(helper.make_node(op, [v.name for v in inputs], [r.name for r in results], **attrs))
        self.vals.extend(r for r in results if r.dtype)
        return results

    # ---- the model ----

    def model(self):
        used = {i for n in self.nodes for i in n.input} | {i for n in self.nodes for i in captured(n)}
        made = {}
        for v in self.vals:
            made[v.name] = v
        outputs = []
        for n in list(self.nodes):
            for o in n.output:
                v = made.get(o)
                if v is None or (o in used and not self.chance(0.3)):
                    continue
                if v.dtype in values.CARRIED:
                    name = self.name("y")
                    self.nodes.append(
                        helper.make_node("Cast", [o], [name], to=values.number(values.CARRIER[v.dtype]))
                    )
                    v = Val(name, values.CARRIER[v.dtype], v.shape)
                outputs.append(v)
        if not outputs:
            raise Skip(self.op)
        infos = []
        for name, x in self.feeds.items():
            if isinstance(x, dict):
                infos.append(value_info(name, self.maps[name]))
                continue
            dims = [self.symbol(d) for d in x.shape]
            infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims))
        results = [value_info(v.name, v.dtype) for v in outputs]
        graph = helper.make_graph(self.nodes, "fuzz", infos, results, self.inits)
        imports = [helper.make_opsetid("", self.opset)]
        if "ai.onnx.ml" in self.domains:
            imports.append(helper.make_opsetid("ai.onnx.ml", self.ml_opset))
        if "com.microsoft" in self.domains:
            imports.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(graph, opset_imports=imports, ir_version=10), [v.dtype for v in outputs]

    def symbol(self, d):
        return f"n{d}" if self.symbolic and d != 1 and self.chance(0.8) else d


def value_info(name, text):
    """A tensor of an element type, a map, or a sequence of maps: "seq(map(int64,float))"; shapes are not declared."""
    info = onnx.ValueInfoProto(name=name)
    kind = info.type
    if text.startswith("seq("):
        kind, text = info.type.sequence_type.elem_type, text[4:-1]
    if text.startswith("map("):
        key, text = text[4:-1].split(",")
        kind.map_type.key_type = values.number(key)
        kind = kind.map_type.value_type
    kind.tensor_type.elem_type = values.number(text)
    if name != "" and "map" in str(info.type.WhichOneof("value")):
        kind.tensor_type.shape.SetInParent()
    return info


def captured(node):
    for a in node.attribute:
        for g in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs):
            for n in g.node:
                yield from n.input
                yield from captured(n)
            yield from (o.name for o in g.output)


def tensor(name, array, dtype):
    if dtype == "string":
        return helper.make_tensor(name, values.number(dtype), array.shape, [s.encode() for s in array.reshape(-1)])
    return helper.make_tensor(name, values.number(dtype), array.shape, array.tobytes(), raw=True)
