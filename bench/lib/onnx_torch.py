"""onnx_torch.py -- a layer or network of layers.py and networks.py as a torch module, node by node, with the function that PyTorch has for each op.

Pieces that PyTorch has one function for are recognised: attention becomes scaled_dot_product_attention, x * sigmoid(x) silu, x * (erf + 1) / 2 gelu.
`module(net)` gives the module; Unsupported is raised for an op that has no row below, or whose sizes the data says, which a CUDA graph cannot hold.
"""
import math
import numpy as np
import torch
import torch.nn.functional as F
from onnx import numpy_helper, helper


class Unsupported(Exception):
    pass


TYPES = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64}
OPS = {}


def op(f):
    OPS[f.__name__.rstrip("_")] = f
    return f


def known(m, name):
    """The numbers of a constant operand."""
    if name not in m.numbers: raise Unsupported(f"{name} is not a constant")
    return m.numbers[name]


def ints(m, name): return [int(v) for v in np.atleast_1d(known(m, name))]


def simple(name, f):
    def run(m, n, a, v): return f(*v)
    OPS[name] = run


for _name, _f in {"Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Sqrt": torch.sqrt, "Erf": torch.erf, "Softplus": F.softplus, "Sin": torch.sin, "Abs": torch.abs,
                  "Floor": torch.floor, "Round": torch.round, "Neg": torch.neg, "Log": torch.log, "Mish": F.mish, "Softsign": F.softsign, "Atan": torch.atan, "HardSwish": F.hardswish,
                  "Reciprocal": torch.reciprocal, "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "MatMul": torch.matmul, "Where": torch.where,
                  "Greater": torch.gt, "Equal": torch.eq, "LessOrEqual": torch.le, "Max": torch.maximum, "Min": torch.minimum}.items(): simple(_name, _f)


@op
def Div(m, n, a, v): return torch.div(v[0], v[1]) if v[0].is_floating_point() else torch.div(v[0], v[1], rounding_mode="trunc")


@op
def Mod(m, n, a, v): return torch.remainder(v[0], v[1])


@op
def BitShift(m, n, a, v): return torch.bitwise_right_shift(v[0], v[1])


@op
def PRelu(m, n, a, v): return torch.where(v[0] >= 0, v[0], v[0] * v[1])


@op
def Elu(m, n, a, v): return F.elu(v[0], a.get("alpha", 1.0))


@op
def LeakyRelu(m, n, a, v): return F.leaky_relu(v[0], a.get("alpha", 0.01))


@op
def Clip(m, n, a, v): return torch.clamp(v[0], *[float(known(m, i)) if v[0].is_floating_point() else int(known(m, i)) for i in n.input[1:3]])


@op
def Cast(m, n, a, v): return v[0].to(m.cast_to(TYPES[a["to"]]))


# ---- convolutions, products ----

def same_pads(a, rank):
    p = a.get("pads", [0] * 2 * rank)
    if p[:rank] != p[rank:]: raise Unsupported("pads that differ at both ends")
    return p[:rank]


@op
def Conv(m, n, a, v):
    rank = v[0].dim() - 2
    f = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return f(v[0], v[1], v[2] if len(v) > 2 else None, a.get("strides", [1] * rank), same_pads(a, rank), a.get("dilations", [1] * rank), a.get("group", 1))


@op
def ConvTranspose(m, n, a, v):
    rank = v[0].dim() - 2
    f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    return f(v[0], v[1], v[2] if len(v) > 2 else None, a.get("strides", [1] * rank), same_pads(a, rank), 0, a.get("group", 1))


@op
def Gemm(m, n, a, v): return F.linear(v[0], v[1] if a.get("transB") else v[1].t(), v[2] if len(v) > 2 else None)


@op
def Einsum(m, n, a, v): return torch.einsum(a["equation"].decode(), *v)


@op
def Attention_(m, n, a, v):
    q, k, x, mask = v[0], v[1], v[2], v[3] if len(v) > 3 else None
    return F.scaled_dot_product_attention(q, k, x, attn_mask=mask, scale=a["scale"])


# ---- recurrent layers ----

def recurrent(kind, gates, order):
    def run(m, n, a, v):
        if len(v) > 4 and v[4] is not None: raise Unsupported("sequence lengths")
        if n.name not in m.recurrent:
            w, r, b = (m.value(n.input[i]) for i in (1, 2, 3))
            d, h = w.shape[0], a["hidden_size"]
            layer = kind(w.shape[2], h, bidirectional=d == 2).to(w.device, w.dtype).eval()
            pick = lambda t: torch.cat([t[i * h:(i + 1) * h] for i in order])
            with torch.no_grad():
                for i, suffix in enumerate(("", "_reverse")[:d]):
                    getattr(layer, "weight_ih_l0" + suffix).copy_(pick(w[i]))
                    getattr(layer, "weight_hh_l0" + suffix).copy_(pick(r[i]))
                    getattr(layer, "bias_ih_l0" + suffix).copy_(pick(b[i][:gates * h]))
                    getattr(layer, "bias_hh_l0" + suffix).copy_(pick(b[i][gates * h:]))
            layer.flatten_parameters()
            m.recurrent[n.name] = layer
        layer = m.recurrent[n.name]
        y, last = layer(v[0])
        t, bat, d = y.shape[0], y.shape[1], 2 if layer.bidirectional else 1
        return y.reshape(t, bat, d, -1).transpose(1, 2), last[0] if isinstance(last, tuple) else last
    return run


OPS["LSTM"] = recurrent(torch.nn.LSTM, 4, (0, 2, 3, 1))  # ONNX: i o f c; PyTorch: i f g o
OPS["GRU"] = recurrent(torch.nn.GRU, 3, (1, 0, 2))  # ONNX: z r h; PyTorch: r z n
OPS["RNN"] = recurrent(torch.nn.RNN, 1, (0,))


# ---- reductions, norms, pools ----

def reduction(f):
    def run(m, n, a, v):
        axes = ints(m, n.input[1]) if len(n.input) > 1 and n.input[1] else list(range(v[0].dim()))
        return f(v[0], axes, bool(a.get("keepdims", 1)))
    return run


def product(x, d, k):
    for axis in sorted((i % x.dim() for i in d), reverse=True): x = torch.prod(x, axis, keepdim=k)
    return x


def total(x, d, k): return torch.sum(x, d, keepdim=k, dtype=x.dtype)


OPS.update(ReduceSum=reduction(total), ReduceMean=reduction(lambda x, d, k: torch.mean(x, d, keepdim=k)), ReduceMax=reduction(lambda x, d, k: torch.amax(x, d, keepdim=k)),
           ReduceMin=reduction(lambda x, d, k: torch.amin(x, d, keepdim=k)), ReduceL2=reduction(lambda x, d, k: torch.linalg.vector_norm(x, 2, d, keepdim=k)),
           ReduceL1=reduction(lambda x, d, k: torch.linalg.vector_norm(x, 1, d, keepdim=k)), ReduceSumSquare=reduction(lambda x, d, k: torch.sum(x * x, d, keepdim=k)),
           ReduceLogSumExp=reduction(lambda x, d, k: torch.logsumexp(x, d, keepdim=k)), ReduceProd=reduction(product))


@op
def ArgMax(m, n, a, v): return torch.argmax(v[0], a.get("axis", 0), keepdim=bool(a.get("keepdims", 1)))


@op
def ArgMin(m, n, a, v): return torch.argmin(v[0], a.get("axis", 0), keepdim=bool(a.get("keepdims", 1)))


@op
def Softmax(m, n, a, v): return torch.softmax(v[0], a.get("axis", -1))


@op
def LogSoftmax(m, n, a, v): return torch.log_softmax(v[0], a.get("axis", -1))


@op
def LayerNormalization(m, n, a, v): return F.layer_norm(v[0], v[0].shape[a.get("axis", -1):], *v[1:3], a.get("epsilon", 1e-5))


@op
def InstanceNormalization(m, n, a, v): return F.instance_norm(v[0], weight=v[1], bias=v[2], eps=a.get("epsilon", 1e-5))


@op
def GroupNorm_(m, n, a, v): return F.group_norm(v[0], a["groups"], v[1].reshape(-1), v[2].reshape(-1), a.get("epsilon", 1e-5))


@op
def BatchNormalization(m, n, a, v): return F.batch_norm(v[0], v[3], v[4], v[1], v[2], eps=a.get("epsilon", 1e-5))


@op
def LRN(m, n, a, v): return F.local_response_norm(v[0], a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0))


@op
def MeanVarianceNormalization(m, n, a, v):
    x, axes = v[0], a.get("axes", [0, 2, 3])
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / ((x * x).mean(axes, keepdim=True) - mean * mean).sqrt()


@op
def LpNormalization(m, n, a, v): return F.normalize(v[0], float(a.get("p", 2)), a.get("axis", -1))


def pool(kind):
    def run(m, n, a, v):
        rank = v[0].dim() - 2
        k, s, p = a["kernel_shape"], a.get("strides", [1] * rank), same_pads(a, rank)
        if kind == "max": return (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1](v[0], k, s, p)
        f = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
        if kind == "average": return f(v[0], k, s, p, count_include_pad=bool(a.get("count_include_pad", 0)))
        return (f(v[0] * v[0], k, s, p, count_include_pad=True) * math.prod(k)).sqrt()
    return run


OPS.update(MaxPool=pool("max"), AveragePool=pool("average"), LpPool=pool("lp"))


@op
def GlobalAveragePool(m, n, a, v): return v[0].mean(list(range(2, v[0].dim())), keepdim=True)


@op
def GlobalMaxPool(m, n, a, v): return v[0].amax(list(range(2, v[0].dim())), keepdim=True)


@op
def CumSum(m, n, a, v):
    axis, x = int(known(m, n.input[1])), v[0]
    if a.get("reverse"): x = x.flip(axis)
    y = torch.cumsum(x, axis)
    if a.get("exclusive"): y = y - x
    return y.flip(axis) if a.get("reverse") else y


@op
def TopK(m, n, a, v): return tuple(torch.topk(v[0], ints(m, n.input[1])[0], a.get("axis", -1), bool(a.get("largest", 1))))


@op
def Resize(m, n, a, v):
    mode, where = a["mode"].decode(), a.get("coordinate_transformation_mode", b"half_pixel").decode()
    size = ints(m, n.input[3])[2:] if len(n.input) > 3 and n.input[3] else [math.floor(s * f) for s, f in zip(v[0].shape[2:], known(m, n.input[2])[2:])]
    if mode == "nearest": return F.interpolate(v[0], size=size, mode="nearest" if where == "asymmetric" else "nearest-exact")
    if where == "asymmetric": raise Unsupported("PyTorch has no linear resize with asymmetric coordinates")
    return F.interpolate(v[0], size=size, mode={"linear": "bilinear", "cubic": "bicubic"}[mode], align_corners=where == "align_corners")


@op
def GridSample(m, n, a, v): return F.grid_sample(v[0], v[1].to(v[0].dtype), a["mode"].decode(), a["padding_mode"].decode(), bool(a.get("align_corners", 0)))


@op
def RoiAlign(m, n, a, v):
    try: from torchvision.ops import roi_align
    except ImportError: raise Unsupported("torchvision is not installed")
    return roi_align(v[0], torch.cat([v[2].to(v[1].dtype)[:, None], v[1]], 1), (a["output_height"], a["output_width"]), 1.0, a["sampling_ratio"], True)


# ---- movement, indices ----

@op
def Transpose(m, n, a, v): return v[0].permute(a["perm"]).contiguous() if m.is_result(n.output[0]) else v[0].permute(a["perm"])


@op
def Reshape(m, n, a, v): return v[0].reshape([v[0].shape[i] if s == 0 else s for i, s in enumerate(ints(m, n.input[1]))])


@op
def Flatten(m, n, a, v): return v[0].flatten(a.get("axis", 1))


@op
def Unsqueeze(m, n, a, v):
    x = v[0]
    for axis in sorted(ints(m, n.input[1])): x = x.unsqueeze(axis)
    return x


@op
def Concat(m, n, a, v): return torch.cat(v, a["axis"])


@op
def Split(m, n, a, v):
    parts = torch.split(v[0], ints(m, n.input[1]), a.get("axis", 0))
    return tuple(p.contiguous() if m.is_result(o) else p for p, o in zip(parts, n.output))


@op
def Slice(m, n, a, v):
    begin, end, axis, step = (ints(m, n.input[i])[0] if len(n.input) > i else 1 for i in (1, 2, 3, 4))
    size, x = v[0].shape[axis], v[0]
    if step < 0: return x.flip(axis)
    y = x.narrow(axis, begin, min(end, size) - begin)
    y = y[(slice(None),) * axis + (slice(None, None, step),)] if step > 1 else y
    return y.contiguous() if m.is_result(n.output[0]) else y


@op
def Pad(m, n, a, v):
    pads, rank = ints(m, n.input[1]), v[0].dim()
    mode = a.get("mode", b"constant").decode()
    if mode != "constant": raise Unsupported("PyTorch pads by reflection and edges along the last axes alone")
    return F.pad(v[0], [p for i in reversed(range(rank)) for p in (pads[i], pads[i + rank])])


@op
def Tile(m, n, a, v): return v[0].tile(ints(m, n.input[1]))


@op
def Expand(m, n, a, v):
    y = v[0].expand(torch.broadcast_shapes(v[0].shape, ints(m, n.input[1])))
    return y.contiguous() if m.is_result(n.output[0]) else y


@op
def DepthToSpace(m, n, a, v):
    b, (k, c, h, w) = a["blocksize"], v[0].shape
    if a.get("mode", b"DCR") == b"CRD": return F.pixel_shuffle(v[0], b)
    return v[0].reshape(k, b, b, c // b // b, h, w).permute(0, 3, 4, 1, 5, 2).reshape(k, c // b // b, h * b, w * b)


@op
def SpaceToDepth(m, n, a, v):
    b, (k, c, h, w) = a["blocksize"], v[0].shape
    return v[0].reshape(k, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(k, c * b * b, h // b, w // b)


@op
def Gather(m, n, a, v):
    axis = a.get("axis", 0)
    if v[1].dim() == 0: return v[0].select(axis, int(known(m, n.input[1])))
    if axis == 0 and v[0].dim() == 2: return F.embedding(v[1], v[0])
    return v[0].index_select(axis, v[1].reshape(-1)).reshape(*v[0].shape[:axis], *v[1].shape, *v[0].shape[axis + 1:])


@op
def GatherElements(m, n, a, v):
    axis, like = a.get("axis", 0), v[1].shape
    x = v[0]
    return torch.gather(x, axis, v[1]) if all(i == axis or l <= s for i, (l, s) in enumerate(zip(like, x.shape))) else None


@op
def GatherND(m, n, a, v): return v[0][tuple(v[1].unbind(-1))]


@op
def ScatterElements(m, n, a, v):
    if a.get("reduction") == b"add": return v[0].scatter_add(a.get("axis", 0), v[1], v[2])
    return v[0].scatter(a.get("axis", 0), v[1], v[2])


@op
def ScatterND(m, n, a, v): return v[0].index_put(tuple(v[1].unbind(-1)), v[2].to(v[0].dtype), accumulate=a.get("reduction") == b"add")


@op
def OneHot(m, n, a, v):
    y = F.one_hot(v[0], int(known(m, n.input[1]))).to(v[2].dtype)
    return y.movedim(-1, 0).contiguous() if a.get("axis", -1) == 0 else y


@op
def Trilu(m, n, a, v): return (torch.triu if a.get("upper", 1) else torch.tril)(v[0], int(known(m, n.input[1])))


@op
def DFT(m, n, a, v): return torch.view_as_real(torch.fft.rfft(v[0].squeeze(-1).float(), dim=a["axis"]))


@op
def STFT(m, n, a, v):
    frame = int(known(m, n.input[3]))
    y = torch.stft(v[0].float(), frame, int(known(m, n.input[1])), frame, v[2].float(), center=False, return_complex=True)
    return torch.view_as_real(y.transpose(1, 2)).contiguous()


# ---- pieces that are one function ----

class Rewriter:
    """Replaces patterns of nodes by one."""

    def __init__(self, nodes, outputs, consts):
        self.nodes, self.outputs, self.consts = list(nodes), set(outputs), consts

    def maker(self, name): return next((n for n in self.nodes if name in n.output), None)

    def users(self, name): return [n for n in self.nodes if name in n.input]

    def only(self, name, kind):
        """The node of this kind that makes a value which nobody else reads."""
        n = self.maker(name)
        return n if n is not None and n.op_type == kind and name not in self.outputs and len(self.users(name)) == 1 else None

    def replace(self, last, gone, kind, inputs, **attributes):
        new = helper.make_node(kind, inputs, list(last.output), name=last.name + "_" + kind, **attributes)
        self.nodes = [new if n is last else n for n in self.nodes if n is last or n not in gone]

    def attention(self, last):
        soft = self.only(last.input[0], "Softmax")
        s = soft and self.maker(soft.input[0])
        mask = None
        if s is not None and s.op_type == "Add": mask, s = s.input[1], self.only(s.input[0], "Mul")
        if s is None or s.op_type != "Mul" or s.input[1] not in self.consts: return
        dot = self.only(s.input[0], "MatMul")
        key = dot and self.only(dot.input[1], "Transpose")
        if not key or list(helper.get_node_attr_value(key, "perm")) != [0, 1, 3, 2]: return
        add = [self.maker(soft.input[0])] if mask else []
        self.replace(last, [soft, s, dot, key] + add, "Attention", [dot.input[0], key.input[0], last.input[1]] + ([mask] if mask else []), scale=float(self.consts[s.input[1]]))

    def silu(self, last):
        for x, y in (last.input, reversed(list(last.input))):
            g = self.only(y, "Sigmoid")
            if g and g.input[0] == x: return self.replace(last, [g], "Silu", [x])

    def gelu(self, last):
        half = self.only(last.input[0], "Mul")
        add = half and self.only(half.input[1], "Add")
        erf = add and self.only(add.input[0], "Erf")
        scale = erf and self.only(erf.input[0], "Mul")
        if scale and scale.input[0] == half.input[0]: self.replace(last, [half, add, erf, scale], "Gelu", [half.input[0]])

    def group_norm(self, last):
        mul = self.only(last.input[0], "Mul")
        shape = mul and self.only(mul.input[0], "Reshape")
        norm = shape and self.only(shape.input[0], "InstanceNormalization")
        first = norm and self.only(norm.input[0], "Reshape")
        if first: self.replace(last, [mul, shape, norm, first], "GroupNorm", [first.input[0], mul.input[1], last.input[1]], groups=int(self.consts[norm.input[1]].size))

    def run(self):
        for kind, f in (("MatMul", self.attention), ("Mul", self.gelu), ("Mul", self.silu), ("Add", self.group_norm)):
            for n in list(self.nodes):
                if n.op_type == kind and n in self.nodes: f(n)
        return self.nodes


OPS["Silu"] = lambda m, n, a, v: F.silu(v[0])
OPS["Gelu"] = lambda m, n, a, v: F.gelu(v[0])


class Module(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.results, self.inputs = list(net.outputs), list(net.feed)
        self.numbers = {w.name: numpy_helper.to_array(w) for w in net.weights}
        self.nodes = Rewriter(net.nodes, net.outputs, self.numbers).run()
        missing = sorted({n.op_type for n in self.nodes if n.op_type not in OPS or n.domain})
        if missing: raise Unsupported("no row for " + ", ".join(missing))
        self.attributes = {n.name: {a.name: helper.get_attribute_value(a) for a in n.attribute} for n in self.nodes}
        self.recurrent = {}
        for name, value in self.numbers.items(): self.register_buffer(name, torch.from_numpy(np.array(value)))

    def is_result(self, name): return name in self.results

    def value(self, name): return getattr(self, name)

    def cast_to(self, dtype): return self.value_type if dtype == torch.float32 else dtype

    @property
    def value_type(self): return next((b.dtype for b in self.buffers() if b.is_floating_point()), torch.float32)

    def forward(self, *inputs):
        values = dict(zip(self.inputs, inputs, strict=True))
        for n in self.nodes:
            v = [None if not i else values[i] if i in values else getattr(self, i) for i in n.input]
            y = OPS[n.op_type](self, n, self.attributes[n.name], v)
            if y is None: raise Unsupported(n.op_type)
            values.update(zip(n.output, y if isinstance(y, tuple) else (y,)))
        y = tuple(values[r] for r in self.results)
        return y if len(y) > 1 else y[0]


def module(net): return Module(net).eval()
