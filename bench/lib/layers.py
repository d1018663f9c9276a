"""layers.py -- random layers as ONNX models: every op family, tiny to large, odd sizes, strides, groups, dilation, dtypes, layouts, epilogues.

`layers(seed, count)` names layers in rounds over the families, so that a part of them has every family.  `make(seed, key)` gives one:
the same seed and key, the same model and inputs.  A family is a function of a Net; what it adds to the Net is the layer.
"""
import random
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FAMILIES = {}
ONNX_TYPE = {np.dtype(k): v for k, v in {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE, "int8": TensorProto.INT8,
             "uint8": TensorProto.UINT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}.items()}


def family(f):
    FAMILIES[f.__name__] = f
    return f


class Net:
    """A model that is being made: inputs with their values, constants, nodes; `r` and `g` are the layer's own random numbers."""

    def __init__(self, key):
        self.r = random.Random(key)
        self.g = np.random.default_rng(self.r.randrange(1 << 30))
        self.nodes, self.weights, self.feed, self.words, self.opset = [], [], {}, [], 18
        self.domains, self.outputs, self.near = set(), [], 1e-3

    # ---- random numbers ----
    def pick(self, *values): return self.r.choice(values)

    def size(self, least, most):
        """From tiny to large, by their logarithm, large ones more often; half of them round numbers."""
        n = int(round(least * (most / least) ** (self.r.random() ** 0.6)))
        step = next((s for s in (64, 32, 16, 8, 4) if n >= 2 * s), 1) if self.r.random() < 0.5 else 1
        return max(least, n // step * step)

    def normal(self, *shape, scale=1.0, dtype=np.float32): return (self.g.standard_normal(shape) * scale).astype(dtype)

    # ---- the model ----
    def say(self, *words): self.words += [str(w) for w in words]

    def input(self, value, name=None):
        name = name or f"x{len(self.feed)}"
        self.feed[name] = np.asarray(value, order="C")
        return name

    def x(self, *shape, dtype=np.float32):
        """An input of random numbers."""
        self.say("x".join(map(str, shape)) + ("" if dtype == np.float32 else f" {np.dtype(dtype).name}"))
        kind = np.dtype(dtype).kind
        if kind == "f": return self.input(self.normal(*shape, dtype=dtype))
        if kind == "b": return self.input(self.g.random(shape) < 0.5)
        return self.input(self.g.integers(0 if kind == "u" else -100, 100, shape).astype(dtype))

    def const(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def ints(self, *v): return self.const(np.array(v, np.int64))

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        made = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        if domain: self.domains.add(domain)
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(kind, [i or "" for i in inputs], made, name=f"{kind}_{len(self.nodes)}", domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def result(self, *names): self.outputs += names

    def model(self):
        graph = helper.make_graph(self.nodes, "layer", [helper.make_tensor_value_info(n, ONNX_TYPE[v.dtype], v.shape) for n, v in self.feed.items()],
                                  [helper.make_empty_tensor_value_info(o) for o in self.outputs], self.weights)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, {"ai.onnx.ml": 3}.get(d, 1)) for d in sorted(self.domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def write(self, folder):
        """The model and its inputs as files."""
        onnx.save(self.model(), f"{folder}/model.onnx")
        np.savez(f"{folder}/inputs.npz", **self.feed)
        return f"{folder}/model.onnx", f"{folder}/inputs.npz"

    # ---- parts of layers ----
    def act(self, x, kind=None):
        kind = kind or self.pick("none", "none", "relu", "relu6", "silu", "gelu", "sigmoid", "hardswish", "leaky")
        if kind != "none": self.say(kind)
        if kind == "relu": return self.op("Relu", x)
        if kind == "relu6": return self.op("Clip", x, self.const(np.float32(0)), self.const(np.float32(6)))
        if kind == "silu": return self.op("Mul", x, self.op("Sigmoid", x))
        if kind == "sigmoid": return self.op("Sigmoid", x)
        if kind == "hardswish": return self.op("HardSwish", x)
        if kind == "leaky": return self.op("LeakyRelu", x, alpha=0.1)
        if kind == "gelu":
            e = self.op("Erf", self.op("Mul", x, self.const(np.float32(0.5 ** 0.5))))
            return self.op("Mul", self.op("Mul", x, self.op("Add", e, self.const(np.float32(1)))), self.const(np.float32(0.5)))
        return x

    def epilogue(self, y, shape, channel):
        """What follows a contraction: an activation, a residual, a scale of each channel, two results."""
        which = self.pick("act", "act", "act", "residual", "residual_relu", "scale", "both", "concat", "transpose")
        if which == "act": return self.result(self.act(y))
        self.say(which)
        if which == "residual": return self.result(self.op("Add", y, self.input(self.normal(*shape))))
        if which == "residual_relu": return self.result(self.op("Relu", self.op("Add", self.input(self.normal(*shape)), y)))
        if which == "scale":
            lane = [s if i == channel or i == 0 else 1 for i, s in enumerate(shape)]
            return self.result(self.op("Mul", y, self.op("Sigmoid", self.input(self.normal(*lane)))))
        if which == "both": return self.result(self.op("Relu", y), self.op("Add", y, self.const(np.float32(1))))
        if which == "concat": return self.result(self.op("Concat", self.op("Relu", y), self.input(self.normal(*shape)), axis=channel))
        order = list(range(len(shape)))
        order.append(order.pop(channel))
        return self.result(self.op("Transpose", y, perm=order))


# ---- convolutions ----

def conv(n, rank, cin, cout, group, kernel, spatial, batch=1, flops=6e8):
    """A convolution with an epilogue; sizes are halved until it takes at most `flops`."""
    stride, dilation = [n.pick(1, 1, 1, 2) for _ in range(rank)], [n.pick(1, 1, 1, 2) for _ in range(rank)]
    if n.pick(0, 1): stride, dilation = [stride[0]] * rank, [dilation[0]] * rank
    spatial = list(spatial)
    while 2 * batch * cout * (cin // group) * np.prod(kernel) * np.prod(spatial) / np.prod(stride) > flops and max(spatial) > 7: spatial = [max(s // 2, 7) for s in spatial]
    need = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    pad = [m // 2 if n.pick(1, 1, 1, 0) or s < m else 0 for m, s in zip(need, spatial)]
    spatial = [max(s, m) for s, m in zip(spatial, need)]
    out = [(s + 2 * p - m) // t + 1 for s, p, m, t in zip(spatial, pad, need, stride)]
    n.say(f"k{'x'.join(map(str, kernel))} {cin}->{cout} g{group} s{'x'.join(map(str, stride))} d{'x'.join(map(str, dilation))} p{'x'.join(map(str, pad))} on")
    x = n.x(batch, cin, *spatial)
    w = n.const(n.normal(cout, cin // group, *kernel, scale=(1 / (cin // group * np.prod(kernel))) ** 0.5))
    b = n.const(n.normal(cout, scale=0.1)) if n.pick(1, 1, 0) else None
    inputs = [x, w] + ([b] if b else [])
    y = n.op("Conv", *inputs, kernel_shape=kernel, strides=stride, dilations=dilation, pads=pad + pad, group=group)
    n.epilogue(y, [batch, cout] + out, 1)


@family
def conv2d(n):
    k = n.pick(3, 3, 3, 5, 7, 2)
    conv(n, 2, n.size(8, 256), n.size(8, 256), 1, [k, n.pick(k, k, 1, 3)], [n.size(7, 112)] * 2, n.pick(1, 1, 4))


@family
def conv_pointwise(n): conv(n, 2, n.size(8, 1024), n.size(8, 1024), 1, [1, 1], [n.size(4, 112), n.size(4, 112)], n.pick(1, 1, 3))


@family
def conv_grouped(n):
    g = n.pick(2, 3, 4, 8, 16, 32)
    conv(n, 2, g * n.size(2, 32), g * n.size(2, 48), g, [n.pick(1, 3, 3, 5)] * 2, [n.size(7, 80)] * 2)


@family
def conv_depthwise(n):
    c, k = n.size(4, 512), n.pick(3, 3, 5, 7, 9)
    conv(n, 2, c, c * n.pick(1, 1, 1, 2, 3), c, [k, k], [n.size(7, 112), n.size(7, 112)])


@family
def conv1d(n):
    g = n.pick(1, 1, 1, 4, 16)
    conv(n, 1, g * n.size(2, 128), g * n.size(1, 128), g, [n.pick(1, 3, 5, 8, 16, 64, 128, 250)], [n.size(50, 8000)])


@family
def conv3d(n):
    k = n.pick(1, 3, 3)
    conv(n, 3, n.size(3, 64), n.size(8, 64), n.pick(1, 1, 1), [n.pick(1, k), k, k], [n.size(4, 16), n.size(7, 56), n.size(7, 56)])


@family
def conv_first(n): conv(n, 2, n.pick(1, 2, 3, 4), n.size(8, 96), 1, [n.pick(3, 4, 7, 16)] * 2, [n.size(64, 384)] * 2)


@family
def conv_head(n): conv(n, 2, n.size(16, 256), n.pick(1, 2, 3, 5), 1, [n.pick(1, 3, 3, 5)] * 2, [n.size(16, 160)] * 2)


@family
def conv_transpose(n):
    rank, g = n.pick(1, 2, 2, 2, 3), n.pick(1, 1, 1, 2)
    cin, cout, k, s = g * n.size(4, 128), g * n.size(1, 64), n.pick(2, 3, 4), n.pick(1, 2, 2, 4)
    side = n.size(4, {1: 2000, 2: 48, 3: 10}[rank])
    pad = n.pick(0, 1)
    n.say(f"k{k} {cin}->{cout} g{g} s{s} p{pad} on")
    x = n.x(1, cin, *[side] * rank)
    w = n.const(n.normal(cin, cout // g, *[k] * rank, scale=(1 / cin) ** 0.5))
    y = n.op("ConvTranspose", x, w, n.const(n.normal(cout)), kernel_shape=[k] * rank, strides=[s] * rank, pads=[pad] * 2 * rank, group=g)
    n.epilogue(y, [1, cout] + [(side - 1) * s + k - 2 * pad] * rank, 1)


@family
def conv_scaled(n):
    """Squeeze and excite: what a convolution reads is scaled by channel, or normalised."""
    cin, cout, side = n.size(16, 512), n.size(16, 256), n.size(7, 56)
    x, gate = n.x(1, cin, side, side), n.input(n.normal(1, cin, 1, 1))
    n.say(f"scaled by channel, 1x1 to {cout}")
    y = n.op("Conv", n.op("Mul", x, n.op("Sigmoid", gate)), n.const(n.normal(cout, cin, 1, 1, scale=cin ** -0.5)), kernel_shape=[1, 1])
    n.result(n.op("Add", y, n.input(n.normal(1, cout, side, side))) if n.pick(0, 1) else y)


@family
def conv_concat(n):
    """A convolution over a concatenation, with normalisation by groups: a U-Net's way up."""
    c, side, g = n.pick(16, 32, 64, 96), n.size(8, 48), n.pick(4, 8)
    a, b = n.x(1, c, side, side), n.x(1, c, side, side)
    n.say(f"group norm {g}, silu, conv 3x3 over the concat")
    y = n.op("Concat", a, b, axis=1)
    y = n.op("Reshape", n.op("InstanceNormalization", n.op("Reshape", y, n.ints(0, g, -1)), n.const(np.ones(g, np.float32)), n.const(np.zeros(g, np.float32))), n.ints(1, 2 * c, side, side))
    y = n.op("Add", n.op("Mul", y, n.const(n.normal(2 * c, 1, 1))), n.const(n.normal(2 * c, 1, 1)))
    n.result(n.op("Conv", n.act(y, "silu"), n.const(n.normal(c, 2 * c, 3, 3, scale=0.05)), kernel_shape=[3, 3], pads=[1] * 4))


# ---- products ----

@family
def gemm(n):
    m, k, cols = n.size(1, 512), n.size(16, 2048), n.size(8, 2048)
    while m * k * cols > 3e8: m = max(1, m // 2); k = max(16, k * 2 // 3)
    dtype = n.pick(np.float32, np.float32, np.float32, np.float16)
    n.near = 1e-3 if dtype == np.float32 else 2e-2
    x = n.x(*n.pick([m, k], [1, m, k]), dtype=dtype)
    n.say(f"by {k}x{cols}")
    y = n.op("MatMul", x, n.const(n.normal(k, cols, scale=k ** -0.5, dtype=dtype)))
    if dtype == np.float16: return n.result(n.op("Add", y, n.const(n.normal(cols, dtype=dtype))))
    if n.pick(0, 1): y = n.op("Add", y, n.const(n.normal(cols)))
    n.epilogue(y, list(n.feed["x0"].shape[:-1]) + [cols], len(n.feed["x0"].shape) - 1)


@family
def gemv(n):
    m, k, cols = n.pick(1, 1, 2, 3, 8), n.size(64, 4096), n.size(10, 4096)
    while k * cols > 4e6: cols = cols * 2 // 3
    x = n.x(m, k)
    n.say(f"by {k}x{cols}", *(["transposed"] if (t := n.pick(0, 1)) else []))
    y = n.op("Gemm", x, n.const(n.normal(*((cols, k) if t else (k, cols)), scale=k ** -0.5)), n.const(n.normal(cols)), transB=t)
    n.result(n.act(y))


@family
def matmul(n):
    """Two operands of the run."""
    batch = n.pick([], [3], [8], [2, 4])
    m, k, cols = n.size(1, 1024), n.size(8, 512), n.size(1, 1024)
    while np.prod(batch, initial=1) * m * k * cols > 2e8: m, cols = max(1, m // 2), max(1, cols * 2 // 3)
    a = n.x(*batch, m, k)
    b = n.x(*(batch if n.pick(1, 1, 0) else []), *((cols, k) if (t := n.pick(0, 1)) else (k, cols)))
    if t:
        rank = len(n.feed[b].shape)
        b = n.op("Transpose", b, perm=list(range(rank - 2)) + [rank - 1, rank - 2])
        n.say("transposed")
    y = n.op("MatMul", a, b)
    n.result(n.op("Mul", y, n.const(np.float32(0.125))) if n.pick(0, 1) else y)


@family
def einsum(n):
    text, dims = n.pick(("bhwc,hkc->bhwk", "bhwck"), ("bij,bjk->bik", "bijk"), ("bchw,co->bohw", "bchwo"), ("nhld,mhld->nhm", "nhldm"), ("bqhd,bkhd->bhqk", "bqhkd"))
    size = {d: n.size(3, 48) for d in dims}
    size.update(b=n.pick(1, 2, 4))
    n.say(text)
    n.result(n.op("Einsum", *[n.x(*[size[d] for d in part]) for part in text.split("->")[0].split(",")], equation=text))


@family
def mlp_gated(n):
    m, d, h = n.size(1, 256), n.size(64, 768), n.size(128, 2048)
    while m * d * h > 8e7: m = max(1, m // 2); h = max(64, h * 3 // 4)
    x = n.x(m, d)
    n.say(f"gated MLP, {h} hidden")
    gate, up = (n.op("MatMul", x, n.const(n.normal(d, h, scale=d ** -0.5))) for _ in range(2))
    y = n.op("MatMul", n.op("Mul", n.act(gate, n.pick("silu", "gelu")), up), n.const(n.normal(h, d, scale=h ** -0.5)))
    n.result(n.op("Add", x, y))


@family
def norm_gemm(n):
    """A normalisation before a product, with a gather or a residual before it."""
    m, d, cols = n.size(1, 256), n.size(64, 1024), n.size(64, 2048)
    while m * d * cols > 2e8: m = max(1, m // 2); cols = max(64, cols * 3 // 4)
    if n.pick(0, 1):
        n.say(f"embedding of {m} tokens,")
        x = n.op("Gather", n.const(n.normal(1000, d)), n.input(n.g.integers(0, 1000, (1, m))))
    else: x = n.op("Add", n.x(1, m, d), n.x(1, m, d))
    n.say(f"layer norm {m}x{d}, product to {cols}")
    y = n.op("LayerNormalization", x, n.const(n.normal(d)), n.const(n.normal(d)), axis=-1)
    y = n.op("MatMul", y, n.const(n.normal(d, cols, scale=d ** -0.5)))
    n.result(n.op("Add", y, n.const(n.normal(cols))), *([x] if n.pick(0, 1) else []))


@family
def attention(n):
    b, h, q, d = n.pick(1, 1, 2), n.pick(1, 4, 8, 12), n.size(1, 384), n.pick(32, 64, 64, 80, 96, 128)
    k = n.pick(q, q, n.size(16, 384))
    n.say(f"attention {b}x{h}x{q}x{k}x{d}")
    mask = n.pick("", "", "mask", "causal") if k == q else ""
    n.say(mask)
    a = [n.input(n.normal(b, h, s, d)) for s in (q, k, k)]
    s = n.op("Mul", n.op("MatMul", a[0], n.op("Transpose", a[1], perm=[0, 1, 3, 2])), n.const(np.float32(d ** -0.5)))
    if mask == "causal": s = n.op("Add", s, n.const(np.triu(np.full((q, k), -1e9, np.float32), 1)))
    if mask == "mask": s = n.op("Add", s, n.input(np.where(n.g.random((b, 1, 1, k)) < 0.2, -1e9, 0).astype(np.float32)))
    y = n.op("MatMul", n.op("Softmax", s, axis=-1), a[2])
    n.result(n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(b, q, h * d)) if n.pick(0, 1) else y)


@family
def int8_conv(n):
    """QDQ: u8 activations, i8 weights by channel."""
    c, o, k, side = n.size(8, 256), n.size(8, 256), n.pick(1, 3), n.size(7, 56)
    g = n.pick(1, 1, 1, c)
    if g > 1: o = c
    n.near = 0.05
    n.say(f"QDQ k{k} {c}->{o} g{g} on")
    x = n.x(1, c, side, side, dtype=np.uint8)
    scale, zero = n.const(np.float32(0.02)), n.const(np.uint8(128))
    w = n.op("DequantizeLinear", n.const(n.g.integers(-127, 128, (o, c // g, k, k)).astype(np.int8)), n.const((n.g.random(o) * 0.01 + 0.001).astype(np.float32)), n.const(np.zeros(o, np.int8)), axis=0)
    y = n.op("Conv", n.op("DequantizeLinear", x, scale, zero), w, n.const(n.normal(o, scale=0.1)), kernel_shape=[k, k], pads=[k // 2] * 4, group=g)
    if n.pick(0, 1): y = n.op("Relu", y)
    n.result(n.op("QuantizeLinear", y, n.const(np.float32(0.1)), zero))


@family
def int8_gemm(n):
    m, k, cols = n.size(1, 256), n.size(16, 1024), n.size(16, 1024)
    which = n.pick("integer", "dynamic", "qdq")
    n.say(which, f"by {k}x{cols}")
    n.near = 0.05
    w = n.const(n.g.integers(-127, 128, (k, cols)).astype(np.int8))
    if which == "integer": return n.result(n.op("MatMulInteger", n.x(m, k, dtype=np.uint8), w, n.const(np.uint8(120))))
    scale = n.const((n.g.random(cols) * 0.01 + 0.001).astype(np.float32))
    if which == "qdq":
        x = n.op("DequantizeLinear", n.x(m, k, dtype=np.uint8), n.const(np.float32(0.02)), n.const(np.uint8(128)))
        y = n.op("MatMul", x, n.op("DequantizeLinear", w, scale, n.const(np.zeros(cols, np.int8)), axis=1))
        return n.result(n.op("QuantizeLinear", y, n.const(np.float32(0.1)), n.const(np.uint8(128))))
    q, s, z = n.op("DynamicQuantizeLinear", n.x(m, k), outputs=3)
    y = n.op("Cast", n.op("MatMulInteger", q, w, z), to=TensorProto.FLOAT)
    n.result(n.op("Mul", y, n.op("Mul", s, scale)))


@family
def int4_gemm(n):
    m, k, cols, block = n.pick(1, 1, 4, 32), 32 * n.size(2, 64), n.size(64, 2048), n.pick(32, 64, 128)
    k = -(-k // block) * block
    while m * k * cols > 5e7: cols = cols * 2 // 3
    x = n.x(m, k)
    n.say(f"by 4 bits {k}x{cols}, blocks of {block}")
    n.near = 0.02
    w = n.const(n.g.integers(0, 256, (cols, k // block, block // 2)).astype(np.uint8))
    n.result(n.op("MatMulNBits", x, w, n.const((n.g.random((cols, k // block)) * 0.01).astype(np.float32)), domain="com.microsoft", K=k, N=cols, bits=4, block_size=block))


# ---- recurrent layers ----

def recurrent(n, kind, gates):
    t, b, i, h = n.size(4, 100), n.pick(1, 1, 2, 16), n.size(8, 256), n.size(8, 256)
    d = n.pick(1, 1, 2)
    while t * b * d * gates * h * (i + h) > 1e8: t = max(2, t // 2); h = max(8, h * 3 // 4)
    x = n.x(t, b, i)
    n.say(f"hidden {h}", *(["bidirectional"] if d == 2 else []))
    w, r = n.const(n.normal(d, gates * h, i, scale=i ** -0.5)), n.const(n.normal(d, gates * h, h, scale=h ** -0.5))
    inputs = [x, w, r, n.const(n.normal(d, 2 * gates * h, scale=0.1))]
    if n.pick(0, 0, 1):
        n.say("lengths")
        inputs.append(n.input(n.g.integers(1, t + 1, b).astype(np.int32)))
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    n.result(*n.op(kind, *inputs, outputs=2, hidden_size=h, direction="bidirectional" if d == 2 else "forward", **extra))


@family
def lstm(n): recurrent(n, "LSTM", 4)


@family
def gru(n): recurrent(n, "GRU", 3)


@family
def rnn(n): recurrent(n, "RNN", 1)


# ---- reductions, norms, pools ----

def some_shape(n, most=2e6, rank=None):
    """Three of four have at least 2 % of the most elements."""
    rank = rank or n.pick(1, 2, 3, 4)
    top = {1: 1000000, 2: 3000, 3: 256, 4: 128}[rank]
    shape = [n.size(1, top) for _ in range(rank)]
    least = most / 50 if n.pick(1, 1, 1, 0) else 0
    while np.prod(shape) < least: shape[n.r.randrange(rank)] *= n.pick(2, 3)
    while np.prod(shape) > most: shape[int(np.argmax(shape))] //= 2
    return shape


@family
def reduce(n):
    shape = some_shape(n)
    kind = n.pick("Sum", "Mean", "Max", "Min", "L2", "SumSquare", "LogSumExp", "Prod", "L1")
    count = n.pick(*range(1, len(shape) + 1))
    axes = sorted(n.r.sample(range(len(shape)), count))
    dtype = n.pick(np.float32, np.float32, np.float32, np.int32, np.float16) if kind in ("Sum", "Max", "Min") else np.float32
    if dtype == np.float16: n.near = 2e-2
    n.say(kind, f"axes {axes} of")
    x = n.x(*shape, dtype=dtype)
    if kind == "Prod": x = n.op("Add", n.op("Mul", x, n.const(np.float32(1e-3))), n.const(np.float32(1)))
    n.result(n.op("Reduce" + kind, x, n.ints(*axes), keepdims=n.pick(0, 1)))


@family
def arg_reduce(n):
    shape = some_shape(n)
    axis = n.pick(*range(len(shape)))
    kind = n.pick("ArgMax", "ArgMin")
    n.say(kind, f"axis {axis} of")
    n.result(n.op(kind, n.x(*shape), axis=axis, keepdims=n.pick(0, 1)))


@family
def softmax(n):
    shape = some_shape(n)
    axis, kind = n.pick(len(shape) - 1, *range(len(shape))), n.pick("Softmax", "Softmax", "LogSoftmax")
    n.say(kind, f"axis {axis} of")
    x = n.x(*shape)
    n.result(n.op(kind, n.op("Mul", x, n.const(np.float32(0.3))) if n.pick(0, 1) else x, axis=axis))


@family
def layer_norm(n):
    shape = some_shape(n, rank=n.pick(2, 3))
    d, which = shape[-1], n.pick("layer", "layer", "rms", "residual", "l2")
    n.say(which, "norm of")
    x = n.x(*shape)
    if which == "residual": x = n.op("Add", x, n.x(*shape))
    if which == "l2": return n.result(n.op("LpNormalization", x, axis=-1, p=2))
    if which == "rms":
        m = n.op("ReduceMean", n.op("Mul", x, x), n.ints(-1), keepdims=1)
        return n.result(n.op("Mul", n.op("Mul", x, n.op("Reciprocal", n.op("Sqrt", n.op("Add", m, n.const(np.float32(1e-5)))))), n.const(n.normal(d))))
    y = n.op("LayerNormalization", x, n.const(n.normal(d)), n.const(n.normal(d)), axis=-1)
    n.result(y, *([x] if which == "residual" else []))


@family
def group_norm(n):
    g, per, side = n.pick(1, 2, 4, 8, 32), n.size(1, 32), n.size(4, 96)
    c = g * per
    while c * side * side > 2e6: side //= 2
    n.say(f"{g} groups")
    x = n.x(n.pick(1, 1, 2), c, side, side)
    b = n.feed[x].shape[0]
    y = n.op("InstanceNormalization", n.op("Reshape", x, n.ints(b, g, -1)), n.const(np.ones(g, np.float32)), n.const(np.zeros(g, np.float32)))
    y = n.op("Reshape", y, n.ints(b, c, side, side))
    n.result(n.act(n.op("Add", n.op("Mul", y, n.const(n.normal(c, 1, 1))), n.const(n.normal(c, 1, 1))), n.pick("none", "silu", "relu")))


@family
def instance_norm(n):
    c, side = n.size(2, 128), n.size(4, 96)
    x = n.x(1, c, side, side)
    which = n.pick("InstanceNormalization", "LRN", "BatchNormalization", "MeanVarianceNormalization")
    n.say(which)
    v = [n.const(n.normal(c)) for _ in range(2)]
    if which == "InstanceNormalization": return n.result(n.op(which, x, *v))
    if which == "LRN": return n.result(n.op(which, x, size=5))
    if which == "BatchNormalization": return n.result(n.op(which, x, *v, n.const(n.normal(c)), n.const((n.g.random(c) + 0.5).astype(np.float32))))
    n.result(n.op(which, x, axes=[0, 2, 3]))


@family
def pool(n):
    rank, kind = n.pick(1, 2, 2, 2, 3), n.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool")
    c, side = n.size(3, 256), n.size(7, {1: 4000, 2: 96, 3: 20}[rank])
    while c * side ** rank > 2e6: side //= 2
    if kind.startswith("Global"): return n.result((n.say(kind), n.op(kind, n.x(1, c, *[side] * rank)))[1])
    k, s = min(n.pick(2, 3, 3, 5, 7, 13), side), n.pick(1, 2, 2)
    p = n.pick(0, k // 2)
    n.say(f"{kind} k{k} s{s} p{p} of")
    extra = {"count_include_pad": n.pick(0, 1)} if kind == "AveragePool" else {}
    n.result(n.op(kind, n.x(1, c, *[side] * rank), kernel_shape=[k] * rank, strides=[s] * rank, pads=[p] * 2 * rank, **extra))


@family
def cumsum(n):
    shape = some_shape(n, 1e6)
    axis = n.pick(*range(len(shape)))
    n.say(f"axis {axis} of")
    n.near = 1e-2
    n.result(n.op("CumSum", n.x(*shape), n.const(np.int64(axis)), exclusive=n.pick(0, 0, 1), reverse=n.pick(0, 0, 1)))


@family
def top_k(n):
    shape = some_shape(n, 5e5)
    axis = n.pick(len(shape) - 1, *range(len(shape)))
    k = max(1, min(shape[axis], n.pick(1, 5, 10, 100)))
    n.say(f"k {k} axis {axis} of")
    n.result(*n.op("TopK", n.x(*shape), n.ints(k), outputs=2, axis=axis, largest=n.pick(1, 1, 0)))


@family
def resize(n):
    c, h, w, mode = n.size(1, 128), n.size(14, 96), n.size(14, 96), n.pick("nearest", "linear", "linear", "cubic")
    scale = n.pick(2.0, 2.0, 0.5, 1.5, 4.0)
    while c * h * w * scale * scale > 3e6: c = max(1, c // 2)
    coordinates = n.pick("half_pixel", "asymmetric", "align_corners" if mode != "nearest" else "half_pixel")
    n.say(mode, coordinates, f"by {scale:g}")
    n.result(n.op("Resize", n.x(1, c, h, w), None, n.const(np.array([1, 1, scale, scale], np.float32)), mode=mode, coordinate_transformation_mode=coordinates,
                  nearest_mode="floor" if mode == "nearest" else None))


@family
def grid_sample(n):
    c, side, out = n.size(1, 64), n.size(8, 96), n.size(8, 96)
    mode, padding = n.pick("bilinear", "bilinear", "nearest", "bicubic"), n.pick("zeros", "border", "reflection")
    n.say(mode, padding)
    grid = n.input((n.g.random((1, out, out, 2)) * 2.2 - 1.1).astype(np.float32))
    n.result(n.op("GridSample", n.x(1, c, side, side), grid, mode=mode, padding_mode=padding, align_corners=n.pick(0, 1)))


@family
def roi_align(n):
    c, side, rois, out = n.size(4, 128), n.size(14, 64), n.size(1, 100), n.pick(7, 7, 14)
    corner = n.g.random((rois, 2)) * side * 0.6
    boxes = np.concatenate([corner, corner + 1 + n.g.random((rois, 2)) * side * 0.4], 1).astype(np.float32)
    n.say(f"{rois} boxes to {out}x{out} of")
    n.result(n.op("RoiAlign", n.x(1, c, side, side), n.input(boxes), n.const(np.zeros(rois, np.int64)), output_height=out, output_width=out, sampling_ratio=2, mode="avg"))


# ---- element-wise, movement, indices ----

@family
def unary(n):
    shape, kinds = some_shape(n), ["Exp", "Tanh", "Sqrt", "Erf", "Sigmoid", "Softplus", "Sin", "Elu", "Abs", "Floor", "Round", "Neg", "Log", "Mish", "Softsign", "Atan"]
    x = n.x(*shape)
    for kind in n.r.sample(kinds, n.pick(1, 2, 3)):
        n.say(kind)
        if kind in ("Sqrt", "Log"): x = n.op("Add", n.op("Abs", x), n.const(np.float32(0.1)))
        x = n.op(kind, x)
    n.result(x)


@family
def activation(n):
    x = n.x(*some_shape(n))
    n.result(n.act(x, n.pick("relu", "relu6", "silu", "gelu", "hardswish", "leaky")))


@family
def binary(n):
    shape = some_shape(n)
    other = [s if n.pick(1, 1, 0) else 1 for s in shape]
    dtype = n.pick(np.float32, np.float32, np.float32, np.int32, np.int64, np.float16)
    if dtype == np.float16: n.near = 2e-2
    kind = n.pick("Add", "Mul", "Sub", "Max", "Min") if dtype != np.float32 else n.pick("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "PRelu")
    n.say(kind)
    a, b = n.x(*shape, dtype=dtype), n.x(*other, dtype=dtype)
    if kind in ("Div", "Pow"): a, b = (n.op("Add", n.op("Abs", v), n.const(np.float32(0.5))) for v in (a, b))
    n.result(n.op(kind, a, b))


@family
def compare(n):
    shape = some_shape(n)
    kind = n.pick("Greater", "Equal", "LessOrEqual")
    n.say("where", kind)
    a, b = n.x(*shape), n.x(*[s if n.pick(1, 0) else 1 for s in shape])
    n.result(n.op("Where", n.op(kind, a, b), a, n.const(np.float32(-1))))


@family
def cast(n):
    types = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.int32: TensorProto.INT32, np.uint8: TensorProto.UINT8, np.int64: TensorProto.INT64}
    a, b = n.r.sample(list(types), 2)
    n.near = 2e-2
    x = n.x(*some_shape(n), dtype=a)
    n.say("to", np.dtype(b).name)
    if np.dtype(b).kind == "u" and np.dtype(a).kind != "u": x = n.op("Abs", x)
    n.result(n.op("Cast", x, to=types[b]))


@family
def transpose(n):
    shape = some_shape(n, rank=n.pick(2, 3, 4, 4))
    perm = list(range(len(shape)))
    while perm == sorted(perm): n.r.shuffle(perm)
    dtype = n.pick(np.float32, np.float32, np.uint8, np.float16)
    n.say(f"perm {perm}")
    y = n.op("Transpose", n.x(*shape, dtype=dtype), perm=perm)
    n.result(n.op("Relu", y) if dtype == np.float32 and n.pick(0, 1) else y)


@family
def concat(n):
    shape = some_shape(n, 5e5, rank=n.pick(2, 3, 4))
    axis = n.pick(*range(len(shape)))
    n.say(f"axis {axis} of")
    y = n.op("Concat", *[n.x(*[n.size(1, 2 * s) if i == axis else s for i, s in enumerate(shape)]) for _ in range(n.pick(2, 3, 5))], axis=axis)
    n.result(n.act(y, n.pick("none", "relu")))


@family
def slices(n):
    shape = [s + 2 for s in some_shape(n, 1e6, rank=n.pick(1, 2, 3, 4))]
    which = n.pick("slice", "step", "reverse", "split", "pad", "reflect", "edge")
    axis = n.pick(*range(len(shape)))
    n.say(which, f"axis {axis} of")
    x, size = n.x(*shape), shape[axis]
    if which == "split": return n.result(*n.op("Split", x, n.ints(size // 3, size - size // 3), outputs=2, axis=axis))
    if which in ("pad", "reflect", "edge"):
        pads = [1 if i == axis else 0 for i in range(len(shape))]
        return n.result(n.op("Pad", x, n.ints(*pads, *pads), mode={"pad": "constant"}.get(which, which)))
    begin, end, step = {"slice": (1, size - 1, 1), "step": (0, size, 2), "reverse": (size, -size - 1, -1)}[which]
    n.result(n.op("Slice", x, n.ints(begin), n.ints(end), n.ints(axis), n.ints(step)))


@family
def expand(n):
    shape = some_shape(n, 1e5, rank=n.pick(2, 3))
    if n.pick(0, 1):
        repeat = [n.pick(1, 2, 3) for _ in shape]
        n.say(f"tile {repeat} of")
        return n.result(n.op("Tile", n.x(*shape), n.ints(*repeat)))
    thin = [1 if n.pick(0, 1) else s for s in shape]
    n.say(f"expand to {shape} of")
    n.result(n.op("Expand", n.x(*thin), n.ints(*shape)))


@family
def pixels(n):
    b, c, h, w = n.pick(2, 2, 4), n.size(1, 32), n.size(4, 64), n.size(4, 64)
    if n.pick(0, 1): n.result((n.say(f"depth to space {b}"), n.op("DepthToSpace", n.x(1, c * b * b, h, w), blocksize=b, mode=n.pick("DCR", "CRD")))[1])
    else: n.result((n.say(f"space to depth {b}"), n.op("SpaceToDepth", n.x(1, c, h * b, w * b), blocksize=b))[1])


@family
def windows(n):
    """Patches of an image, as Swin and ViT take them."""
    p, c, k = n.pick(2, 4, 7, 8), n.size(3, 96), n.size(2, 8)
    x = n.x(1, k * p, k * p, c)
    n.say(f"windows of {p}")
    y = n.op("Transpose", n.op("Reshape", x, n.ints(1, k, p, k, p, c)), perm=[0, 1, 3, 2, 4, 5])
    n.result(n.op("Reshape", y, n.ints(k * k, p * p, c)))


@family
def gather(n):
    which = n.pick("rows", "rows", "axis", "elements", "nd")
    n.say(which)
    if which == "rows":
        rows, d, count = n.size(10, 30000), n.size(1, 768), n.size(1, 2000)
        while count * d > 5e5: count //= 2
        table = n.const(n.normal(min(rows, 4000000 // d), d))
        rows = min(rows, 4000000 // d)
        n.say(f"{count} of {rows}x{d}")
        return n.result(n.op("Gather", table, n.input(n.g.integers(0, rows, (1, count)))))
    shape = some_shape(n, 3e5, rank=n.pick(2, 3))
    axis = n.pick(*range(len(shape)))
    x, count = n.x(*shape), n.size(1, 300)
    if which == "axis": return n.result(n.op("Gather", x, n.input(n.g.integers(0, shape[axis], count)), axis=axis))
    if which == "elements":
        like = [min(s, 64) if i != axis else count for i, s in enumerate(shape)]
        return n.result(n.op("GatherElements", x, n.input(n.g.integers(0, shape[axis], like)), axis=axis))
    n.result(n.op("GatherND", x, n.input(np.stack([n.g.integers(0, s, count) for s in shape[:2]], -1))))


@family
def scatter(n):
    shape, which = some_shape(n, 3e5, rank=n.pick(1, 2, 3)), n.pick("elements", "elements_add", "nd", "nd_add")
    n.say(which)
    x, count = n.x(*shape), n.size(1, 2000)
    reduction = "add" if "add" in which else None
    if which.startswith("nd"):
        rows = n.g.permutation(shape[0])[:min(count, shape[0])] if not reduction else n.g.integers(0, shape[0], count)
        n.say(f"{len(rows)} rows")
        return n.result(n.op("ScatterND", x, n.input(rows.reshape(-1, 1)), n.input(n.normal(len(rows), *shape[1:])), reduction=reduction))
    axis = n.pick(*range(len(shape)))
    like = [max(1, s // 2) for s in shape]
    index = n.g.integers(0, shape[axis], like) if reduction else np.broadcast_to(np.expand_dims(n.g.permutation(shape[axis])[:like[axis]], [i for i in range(len(shape)) if i != axis]), like)
    n.result(n.op("ScatterElements", x, n.input(index.astype(np.int64)), n.input(n.normal(*like)), axis=axis, reduction=reduction))


@family
def gnn(n):
    """Messages along edges: gather, a product, a sum by target."""
    nodes, edges, d = n.size(10, 2000), n.size(20, 8000), n.size(4, 64)
    n.say(f"{nodes} nodes {edges} edges {d} features")
    x = n.input(n.normal(nodes, d))
    source, target = n.input(n.g.integers(0, nodes, edges)), n.input(n.g.integers(0, nodes, (edges, 1)))
    m = n.act(n.op("MatMul", n.op("Gather", x, source), n.const(n.normal(d, d, scale=d ** -0.5))), "relu")
    n.result(n.op("ScatterND", n.const(np.zeros((nodes, d), np.float32)), target, m, reduction="add"))


@family
def one_hot(n):
    count, depth = n.size(1, 2000), n.size(2, 1000)
    while count * depth > 1e6: count //= 2
    n.say(f"one-hot {count} of {depth}")
    n.result(n.op("OneHot", n.input(n.g.integers(0, depth, count)), n.const(np.int64(depth)), n.const(np.array([0, 1], np.float32)), axis=n.pick(-1, 0)))


@family
def triangle(n):
    side, rank = n.size(4, 700), n.pick(2, 3)
    n.say(n.pick("upper", "lower"))
    n.result(n.op("Trilu", n.x(*([4] if rank == 3 else []), side, side), n.const(np.int64(n.pick(0, 1, -1))), upper=int(n.words[-2] == "upper")))


@family
def rotary(n):
    b, t, h, d = 1, n.size(1, 512), n.pick(4, 8, 16), n.pick(32, 64, 128)
    x = n.x(b, h, t, d)
    n.say("rotary")
    angle = n.normal(t, d)
    cos, sin = n.const(np.cos(angle)), n.const(np.sin(angle))
    a, c = n.op("Split", x, n.ints(d // 2, d // 2), outputs=2, axis=-1)
    n.result(n.op("Add", n.op("Mul", x, cos), n.op("Mul", n.op("Concat", n.op("Neg", c), a, axis=-1), sin)))


@family
def image_in(n):
    """Bytes of an image, channels last, to normalised floats, channels first."""
    h, w = n.size(32, 480), n.size(32, 640)
    y = n.op("Cast", n.op("Transpose", n.x(1, h, w, 3, dtype=np.uint8), perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
    n.say("bytes to planes")
    n.result(n.op("Div", n.op("Sub", y, n.const(np.array([120, 115, 100], np.float32).reshape(1, 3, 1, 1))), n.const(np.array([58, 57, 56], np.float32).reshape(1, 3, 1, 1))))


@family
def fourier(n):
    which = n.pick("dft", "stft")
    n.near = 1e-2
    if which == "dft":
        rows, length = n.size(1, 16), n.pick(64, 100, 128, 400, 512, 1024)
        n.opset = 17
        n.say(f"DFT {rows}x{length}")
        return n.result(n.op("DFT", n.input(n.normal(rows, length, 1)), axis=1, onesided=1))
    length, frame = n.size(800, 16000), n.pick(128, 256, 400, 512)
    length = max(length, 2 * frame)
    n.say(f"STFT {length}, frames of {frame}")
    n.result(n.op("STFT", n.input(n.normal(1, length)), n.const(np.int64(frame // 4)), n.const(np.hanning(frame).astype(np.float32)), n.const(np.int64(frame)), onesided=1))


@family
def trees(n):
    rows, features, count, depth, targets = n.pick(1, 1, 20, 500), n.size(4, 50), n.size(5, 100), n.pick(3, 5, 7), n.pick(1, 1, 3)
    n.say(f"{count} trees of depth {depth}")
    a = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true", "hitrates")}
    out = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    inner = 2 ** depth - 1
    for t in range(count):
        for i in range(2 * inner + 1):
            leaf = i >= inner
            for k, v in zip(a, (t, i, 0 if leaf else n.r.randrange(features), 0.0 if leaf else n.r.gauss(0, 1), "LEAF" if leaf else "BRANCH_LEQ", 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2, 0, 1.0)): a[k].append(v)
            if leaf:
                for k, v in zip(out, (t, i, n.r.randrange(targets), n.r.gauss(0, 1))): out[k].append(v)
    n.result(n.op("TreeEnsembleRegressor", n.x(rows, features), domain="ai.onnx.ml", n_targets=targets,
                  **{f"nodes_{k}": v for k, v in a.items()}, **{f"target_{k}": v for k, v in out.items()}))


@family
def classic(n):
    rows, f, which = n.pick(1, 20, 500), n.size(4, 64), n.pick("linear", "svm", "scaler")
    n.say(which)
    x = n.x(rows, f)
    if which == "scaler": return n.result(n.op("Scaler", x, domain="ai.onnx.ml", offset=n.normal(f).tolist(), scale=n.normal(f).tolist()))
    if which == "linear": return n.result(n.op("LinearRegressor", x, domain="ai.onnx.ml", coefficients=n.normal(f * 3).tolist(), intercepts=n.normal(3).tolist(), targets=3))
    s = n.size(5, 200)
    n.result(n.op("SVMRegressor", x, domain="ai.onnx.ml", kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0], n_supports=s, rho=[0.2], coefficients=n.normal(s).tolist(), support_vectors=n.normal(s * f).tolist()))


@family
def selection(n):
    """Sizes that the data says."""
    which = n.pick("nonzero", "nms", "compress")
    n.say(which)
    if which == "nonzero": return n.result(n.op("NonZero", n.op("Greater", n.x(*some_shape(n, 2e5, rank=2)), n.const(np.float32(0.8)))))
    if which == "compress":
        shape = some_shape(n, 3e5, rank=2)
        return n.result(n.op("Compress", n.x(*shape), n.input(n.g.random(shape[0]) < 0.4), axis=0))
    count, classes = n.size(10, 1000), n.pick(1, 3)
    corner = n.g.random((1, count, 2)) * 90
    boxes = np.concatenate([corner, corner + 1 + n.g.random((1, count, 2)) * 20], 2).astype(np.float32)
    n.say(f"{count} boxes")
    n.result(n.op("NonMaxSuppression", n.input(boxes), n.input(n.g.random((1, classes, count)).astype(np.float32)), n.ints(50), n.const(np.array([0.5], np.float32)), n.const(np.array([0.3], np.float32))))


@family
def integers(n):
    shape, dtype = some_shape(n, 1e6), n.pick(np.int32, np.int64, np.uint8)
    kind = n.pick("Mod", "BitShift", "Mul", "Clip", "Add") if dtype != np.int32 else n.pick("Mod", "Mul", "Add", "Max")
    if kind == "BitShift": dtype = np.uint8
    n.say(kind)
    x, seven = n.x(*shape, dtype=dtype), n.const(np.array(7, dtype))
    if kind == "BitShift": return n.result(n.op(kind, x, n.const(np.array(2, dtype)), direction="RIGHT"))
    if kind == "Clip": return n.result(n.op(kind, x, seven, n.const(np.array(90, dtype))))
    n.result(n.op(kind, x, seven))


# ---- lists and layers ----

def layers(count):
    """Keys of layers, in rounds over the families."""
    names = list(FAMILIES)
    return [f"{names[i % len(names)]}/{i // len(names)}" for i in range(count)]


def make(seed, key):
    """The layer of a key such as conv2d/3: its Net, with .model(), .feed, .near and .text."""
    n = Net(f"{seed}/{key}")
    FAMILIES[key.split("/")[0]](n)
    n.text = " ".join(w for w in n.words if w)
    return n
