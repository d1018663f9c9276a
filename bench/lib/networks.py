"""networks.py -- whole networks for cliffs.py: made here with onnx alone, by random configuration; those that zoo.py made; and files.

A network is a function of a Net (layers.py), as a layer is.  Its configuration (widths, depths, sizes) follows from the key, NAME/0, NAME/1: the same key, the same network.
"""
import os
import numpy as np
import onnx
from layers import Net
import models

NETWORKS = {}
VARIANTS = 2  # of each network


def network(f):
    NETWORKS[f.__name__] = f
    return f


# ---- parts ----

def conv(n, x, cin, cout, k=3, s=1, g=1, act="relu", d=1, rank=2):
    w = n.const(n.normal(cout, cin // g, *[k] * rank, scale=(2 / (cin // g * k ** rank)) ** 0.5))
    pad = (k - 1) * d // 2
    y = n.op("Conv", x, w, n.const(n.normal(cout, scale=0.1)), kernel_shape=[k] * rank, strides=[s] * rank, dilations=[d] * rank, pads=[pad] * 2 * rank, group=g)
    return part(n, y, act)


def part(n, y, act):
    """An activation that the description does not name."""
    kept = list(n.words)
    y = n.act(y, act)
    n.words = kept
    return y


def dense(n, x, i, o, act="none", bias=True):
    y = n.op("MatMul", x, n.const(n.normal(i, o, scale=i ** -0.5)))
    if bias: y = n.op("Add", y, n.const(n.normal(o, scale=0.1)))
    return part(n, y, act)


def layer_norm(n, x, d): return n.op("LayerNormalization", x, n.const(1 + n.normal(d, scale=0.1)), n.const(n.normal(d, scale=0.1)), axis=-1)


def rms_norm(n, x, d):
    m = n.op("ReduceMean", n.op("Mul", x, x), n.ints(-1), keepdims=1)
    return n.op("Mul", n.op("Mul", x, n.op("Reciprocal", n.op("Sqrt", n.op("Add", m, n.const(np.float32(1e-5)))))), n.const(1 + n.normal(d, scale=0.1)))


def group_norm(n, x, g, c, h, w):
    y = n.op("InstanceNormalization", n.op("Reshape", x, n.ints(1, g, -1)), n.const(np.ones(g, np.float32)), n.const(np.zeros(g, np.float32)))
    return n.op("Add", n.op("Mul", n.op("Reshape", y, n.ints(1, c, h, w)), n.const(1 + n.normal(c, 1, 1, scale=0.1))), n.const(n.normal(c, 1, 1, scale=0.1)))


def squeeze_excite(n, x, c):
    r = max(4, c // 4)
    y = n.op("ReduceMean", x, n.ints(2, 3), keepdims=1)
    y = conv(n, conv(n, y, c, r, 1, act="relu"), r, c, 1, act="sigmoid")
    return n.op("Mul", x, y)


def heads_of(n, x, t, h, d): return n.op("Transpose", n.op("Reshape", x, n.ints(1, t, h, d)), perm=[0, 2, 1, 3])


def attend(n, q, k, v, t, h, d, mask=None):
    s = n.op("Mul", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])), n.const(np.float32(d ** -0.5)))
    if mask is not None: s = n.op("Add", s, mask)
    y = n.op("MatMul", n.op("Softmax", s, axis=-1), v)
    return n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(1, t, h * d))


def encoder_layer(n, x, t, d, h, mask=None, act="gelu", first=True):
    """A transformer layer, the norms before its parts or after them."""
    y = layer_norm(n, x, d) if first else x
    q, k, v = (heads_of(n, dense(n, y, d, d), t, h, d // h) for _ in range(3))
    x = n.op("Add", x, dense(n, attend(n, q, k, v, t, h, d // h, mask), d, d))
    if not first: x = layer_norm(n, x, d)
    y = layer_norm(n, x, d) if first else x
    x = n.op("Add", x, dense(n, dense(n, y, d, 4 * d, act), 4 * d, d))
    return x if first else layer_norm(n, x, d)


def pooled(n, x, c, classes=100): return n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.const(n.normal(classes, c, scale=c ** -0.5)), n.const(n.normal(classes)), transB=1)


def embed(n, t, d, vocab=2000): return n.op("Gather", n.const(n.normal(vocab, d)), n.input(n.g.integers(0, vocab, (1, t)), "tokens"))


# ---- images ----

@network
def resnet(n):
    w, side, basic = n.pick(24, 32, 48), n.pick(96, 128, 160), n.pick(0, 1)
    x, c = conv(n, n.x(1, 3, side, side), 3, w, 7, 2), w
    x = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage in range(4):
        o = w << stage
        for i in range(2):
            s = 2 if i == 0 and stage else 1
            y = conv(n, conv(n, x, c, o, 3, s), o, o, 3, act="none") if basic else conv(n, conv(n, conv(n, x, c, o, 1), o, o, 3, s), o, o, 1, act="none")
            x, c = n.op("Relu", n.op("Add", y, x if s == 1 and c == o else conv(n, x, c, o, 1, s, act="none"))), o
    n.result(pooled(n, x, c))


@network
def mobile(n):
    act, k, side = n.pick("relu6", "hardswish", "silu"), n.pick(3, 5), n.pick(128, 160, 192)
    x, c = conv(n, n.x(1, 3, side, side), 3, 16, 3, 2, act=act), 16
    for o, s, se in ((24, 2, 0), (24, 1, 1), (40, 2, 1), (40, 1, 1), (80, 2, 0), (80, 1, 1), (112, 1, 1)):
        e = c * n.pick(3, 4, 6)
        y = conv(n, conv(n, x, c, e, 1, act=act), e, e, k, s, e, act)
        y = conv(n, squeeze_excite(n, y, e) if se else y, e, o, 1, act="none")
        x, c = n.op("Add", x, y) if s == 1 and c == o else y, o
    n.result(pooled(n, conv(n, x, c, 320, 1, act=act), 320))


@network
def regnet(n):
    per, side = n.pick(8, 16, 24), n.pick(112, 128, 160)
    x, c = conv(n, n.x(1, 3, side, side), 3, 32, 3, 2), 32
    for o in (2 * per, 6 * per, 12 * per):
        for i in range(2):
            y = conv(n, conv(n, x, c, o, 1), o, o, 3, 2 if i == 0 else 1, o // per)
            y = conv(n, squeeze_excite(n, y, o), o, o, 1, act="none")
            x, c = n.op("Relu", n.op("Add", y, x if i else conv(n, x, c, o, 1, 2, act="none"))), o
    n.result(pooled(n, x, c))


@network
def densenet(n):
    growth, side = n.pick(12, 24, 32), n.pick(96, 128)
    x, c = conv(n, n.x(1, 3, side, side), 3, 2 * growth, 7, 2), 2 * growth
    for block in range(3):
        for _ in range(4):
            v = [n.const(np.abs(n.normal(c)) + 0.5) for _ in range(4)]
            y = n.op("Relu", n.op("BatchNormalization", x, *v))
            x, c = n.op("Concat", x, conv(n, conv(n, y, c, 4 * growth, 1), 4 * growth, growth, 3, act="none"), axis=1), c + growth
        if block < 2: x, c = n.op("AveragePool", conv(n, x, c, c // 2, 1), kernel_shape=[2, 2], strides=[2, 2]), c // 2
    n.result(pooled(n, x, c))


@network
def shuffle(n):
    x, c, side = conv(n, n.x(1, 3, 160, 160), 3, 24, 3, 2), 24, 80
    for o, s in ((96, 2), (96, 1), (192, 2), (192, 1), (192, 1)):
        half = o // 2
        if s == 2: a, b, i = conv(n, conv(n, x, c, c, 3, 2, c, "none"), c, half, 1), x, c
        else: (a, b), i = n.op("Split", x, n.ints(half, half), outputs=2, axis=1), half
        b = conv(n, conv(n, conv(n, b, i, half, 1), half, half, 3, s, half, "none"), half, half, 1)
        side, c = side // s, o
        x = n.op("Reshape", n.op("Concat", a, b, axis=1), n.ints(1, 2, half, side, side))
        x = n.op("Reshape", n.op("Transpose", x, perm=[0, 2, 1, 3, 4]), n.ints(1, o, side, side))
    n.result(pooled(n, x, c))


@network
def convnext(n):
    d, side = n.pick(48, 64), n.pick(128, 160)
    x = n.op("Conv", n.x(1, 3, side, side), n.const(n.normal(d, 3, 4, 4, scale=0.1)), kernel_shape=[4, 4], strides=[4, 4])
    for stage in range(3):
        for _ in range(2):
            y = n.op("Transpose", conv(n, x, d, d, 7, 1, d, "none"), perm=[0, 2, 3, 1])
            y = dense(n, dense(n, layer_norm(n, y, d), d, 4 * d, "gelu"), 4 * d, d)
            x = n.op("Add", x, n.op("Transpose", n.op("Mul", y, n.const(n.normal(d))), perm=[0, 3, 1, 2]))
        if stage < 2:
            x = n.op("Conv", x, n.const(n.normal(2 * d, d, 2, 2, scale=d ** -0.5)), kernel_shape=[2, 2], strides=[2, 2])
            d *= 2
    n.result(pooled(n, x, d))


@network
def vgg(n):
    w, side = n.pick(24, 32), n.pick(96, 112)
    x, c = n.x(1, 3, side, side), 3
    for stage in range(4):
        for _ in range(2): x, c = conv(n, x, c, min(w << stage, 256)), min(w << stage, 256)
        x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    f = c * (side // 16) ** 2
    n.result(dense(n, dense(n, n.op("Flatten", x), f, 512, "relu"), 512, 100))


@network
def unet(n):
    """Group norm, attention in the middle, concatenations: a denoiser."""
    w, side = n.pick(16, 32, 48), n.pick(32, 48, 64)
    x, keep, c, s = conv(n, n.x(1, 4, side, side), 4, w, act="none"), [], w, side
    block = lambda x, i, o, s: conv(n, part(n, group_norm(n, x, 8, i, s, s), "silu"), i, o, act="none")
    for level in range(3):
        o = w << level
        x, c = block(x, c, o, s), o
        keep.append((x, c, s))
        x, s = conv(n, x, c, c, 3, 2, act="none"), s // 2
    t = s * s
    y = n.op("Transpose", n.op("Reshape", group_norm(n, x, 8, c, s, s), n.ints(1, c, t)), perm=[0, 2, 1])
    q, k, v = (heads_of(n, dense(n, y, c, c), t, 4, c // 4) for _ in range(3))
    y = dense(n, attend(n, q, k, v, t, 4, c // 4), c, c)
    x = n.op("Add", x, n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1]), n.ints(1, c, s, s)))
    for skip, o, s in reversed(keep):
        x = n.op("Resize", x, None, n.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        x, c = block(n.op("Concat", x, skip, axis=1), c + o, o, s), o
    n.result(conv(n, x, c, 4, act="none"))


@network
def segment(n):
    """Dilated convolutions, pooled context, bilinear resizing: DeepLab's way."""
    side, w = n.pick(128, 160), n.pick(24, 32)
    x, c = conv(n, conv(n, n.x(1, 3, side, side), 3, w, 3, 2), w, 2 * w, 3, 2), 2 * w
    parts = [conv(n, x, c, w, 1)] + [conv(n, x, c, w, 3, d=d) for d in (2, 4, 6)]
    y = conv(n, n.op("GlobalAveragePool", x), c, w, 1)
    parts.append(n.op("Resize", y, None, None, n.ints(1, w, side // 4, side // 4), mode="linear", coordinate_transformation_mode="half_pixel"))
    y = conv(n, conv(n, n.op("Concat", *parts, axis=1), 5 * w, 2 * w, 1), 2 * w, 21, 1, act="none")
    n.result(n.op("Resize", y, None, n.const(np.array([1, 1, 4, 4], np.float32)), mode="linear", coordinate_transformation_mode=n.pick("half_pixel", "align_corners")))


@network
def upscale(n):
    """Super-resolution: residual blocks, pixel shuffle."""
    w, side, b = n.pick(24, 32, 48), n.pick(48, 64), n.pick(2, 3)
    x = first = conv(n, n.x(1, 3, side, side), 3, w, act="none")
    for _ in range(4): x = n.op("Add", x, conv(n, conv(n, x, w, w), w, w, act="none"))
    y = n.op("DepthToSpace", conv(n, n.op("Add", x, first), w, 3 * b * b, act="none"), blocksize=b, mode="CRD")
    n.result(y)


@network
def autoencoder(n):
    w, side = n.pick(16, 24), n.pick(64, 96)
    x, c = n.x(1, 3, side, side), 3
    for i in range(3): x, c = conv(n, x, c, w << i, 3, 2, act="leaky"), w << i
    for o in (w << 1, w, 3):
        x, c = n.op("ConvTranspose", x, n.const(n.normal(c, o, 4, 4, scale=(1 / c) ** 0.5)), n.const(n.normal(o)), kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4), o
        x = n.op("Sigmoid", x) if o == 3 else n.op("Relu", x)
    n.result(x)


@network
def video(n):
    w = n.pick(12, 16)
    x, c = n.x(1, 3, 8, 56, 56), 3
    for i in range(3):
        x, c = conv(n, x, c, w << i, 3, 1, rank=3), w << i
        x = n.op("MaxPool", x, kernel_shape=[1 if i == 0 else 2, 2, 2], strides=[1 if i == 0 else 2, 2, 2])
    n.result(pooled(n, x, c))


@network
def vit(n):
    d, h, side, p = n.pick(128, 192, 256), 4, n.pick(96, 112, 128), 16
    t = (side // p) ** 2
    x = n.op("Conv", n.x(1, 3, side, side), n.const(n.normal(d, 3, p, p, scale=0.03)), n.const(n.normal(d)), kernel_shape=[p, p], strides=[p, p])
    x = n.op("Add", n.op("Concat", n.const(n.normal(1, 1, d)), n.op("Transpose", n.op("Reshape", x, n.ints(1, d, t)), perm=[0, 2, 1]), axis=1), n.const(n.normal(1, t + 1, d)))
    for _ in range(4): x = encoder_layer(n, x, t + 1, d, h)
    n.result(dense(n, n.op("Gather", layer_norm(n, x, d), n.const(np.int64(0)), axis=1), d, 100))


@network
def swin(n):
    """Attention in shifted windows."""
    d, h, p, k = n.pick(48, 64, 96), 4, 7, n.pick(4, 8)
    side = p * k
    x = n.x(1, side, side, d)
    bias = n.const(n.normal(1, h, p * p, p * p))
    for i in range(4):
        y = layer_norm(n, x, d)
        if i % 2: y = roll(n, roll(n, y, 1, p // 2, side), 2, p // 2, side)
        y = n.op("Reshape", n.op("Transpose", n.op("Reshape", y, n.ints(k, p, k, p, d)), perm=[0, 2, 1, 3, 4]), n.ints(k * k, p * p, d))
        q = n.op("Transpose", n.op("Reshape", dense(n, y, d, 3 * d), n.ints(k * k, p * p, 3, h, d // h)), perm=[2, 0, 3, 1, 4])
        q, kk, v = (n.op("Gather", q, n.const(np.int64(j)), axis=0) for j in range(3))
        s = n.op("Add", n.op("MatMul", n.op("Mul", q, n.const(np.float32((d // h) ** -0.5))), n.op("Transpose", kk, perm=[0, 1, 3, 2])), bias)
        y = n.op("Reshape", n.op("Transpose", n.op("MatMul", n.op("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3]), n.ints(k, k, p, p, d))
        y = n.op("Reshape", n.op("Transpose", dense(n, y, d, d), perm=[0, 2, 1, 3, 4]), n.ints(1, side, side, d))
        if i % 2: y = roll(n, roll(n, y, 1, side - p // 2, side), 2, side - p // 2, side)
        x = n.op("Add", x, y)
        x = n.op("Add", x, dense(n, dense(n, layer_norm(n, x, d), d, 4 * d, "gelu"), 4 * d, d))
    n.result(n.op("ReduceMean", x, n.ints(1, 2), keepdims=0))


def roll(n, x, axis, by, size):
    a, b = (n.op("Slice", x, n.ints(f), n.ints(t), n.ints(axis)) for f, t in ((by, size), (0, by)))
    return n.op("Concat", a, b, axis=axis)


@network
def mixer(n):
    t, d = n.pick(49, 64, 100), n.pick(128, 192)
    x = n.x(1, t, d)
    for _ in range(4):
        y = n.op("Transpose", layer_norm(n, x, d), perm=[0, 2, 1])
        x = n.op("Add", x, n.op("Transpose", dense(n, dense(n, y, t, 2 * t, "gelu"), 2 * t, t), perm=[0, 2, 1]))
        x = n.op("Add", x, dense(n, dense(n, layer_norm(n, x, d), d, 4 * d, "gelu"), 4 * d, d))
    n.result(n.op("ReduceMean", layer_norm(n, x, d), n.ints(1), keepdims=0))


# ---- text ----

@network
def encoder(n):
    t, d, h = n.pick(32, 64, 128), n.pick(128, 256, 320), n.pick(4, 8)
    mask = n.op("Mul", n.op("Sub", n.const(np.float32(1)), n.input(np.ones((1, 1, 1, t), np.float32), "mask")), n.const(np.float32(-1e9)))
    x = layer_norm(n, n.op("Add", embed(n, t, d), n.const(n.normal(1, t, d))), d)
    for _ in range(4): x = encoder_layer(n, x, t, d, h, mask, first=False)
    n.say(f"{t} tokens, {d}, {h} heads")
    n.result(x)


@network
def decoder(n):
    """Rotary positions, grouped queries, gated MLPs, RMS norm."""
    t, h, kv, hd = n.pick(16, 64, 128), n.pick(4, 8), 2, n.pick(32, 64)
    d = h * hd
    x = embed(n, t, d)
    angle = n.normal(t, hd)
    cos, sin = n.const(np.cos(angle)), n.const(np.sin(angle))
    causal = n.const(np.triu(np.full((t, t), -1e9, np.float32), 1))

    def rotate(v):
        a, b = n.op("Split", v, n.ints(hd // 2, hd // 2), outputs=2, axis=-1)
        return n.op("Add", n.op("Mul", v, cos), n.op("Mul", n.op("Concat", n.op("Neg", b), a, axis=-1), sin))

    def repeat(v):
        v = n.op("Expand", n.op("Unsqueeze", v, n.ints(2)), n.ints(1, kv, h // kv, t, hd))
        return n.op("Reshape", v, n.ints(1, h, t, hd))
    for _ in range(4):
        y = rms_norm(n, x, d)
        q = rotate(heads_of(n, dense(n, y, d, d, bias=False), t, h, hd))
        k, v = rotate(heads_of(n, dense(n, y, d, kv * hd, bias=False), t, kv, hd)), heads_of(n, dense(n, y, d, kv * hd, bias=False), t, kv, hd)
        x = n.op("Add", x, dense(n, attend(n, q, repeat(k), repeat(v), t, h, hd, causal), d, d, bias=False))
        y, f = rms_norm(n, x, d), d * 8 // 3 // 16 * 16
        x = n.op("Add", x, dense(n, n.op("Mul", dense(n, y, d, f, "silu", False), dense(n, y, d, f, bias=False)), f, d, bias=False))
    n.say(f"{t} tokens, {d}, {h} heads of {kv}")
    n.result(dense(n, rms_norm(n, x, d), d, 2000, bias=False))


@network
def gpt(n):
    t, d, h = n.pick(16, 32, 128), n.pick(192, 256), 4
    x = n.op("Add", embed(n, t, d), n.const(n.normal(1, t, d)))
    causal = n.const(np.triu(np.full((t, t), -1e9, np.float32), 1))
    for _ in range(4): x = encoder_layer(n, x, t, d, h, causal)
    n.say(f"{t} tokens, {d}")
    n.result(dense(n, layer_norm(n, x, d), d, 2000, bias=False))


def recurrent(n, x, kind, gates, i, h, two):
    d = 2 if two else 1
    y, *_ = n.op(kind, x, n.const(n.normal(d, gates * h, i, scale=i ** -0.5)), n.const(n.normal(d, gates * h, h, scale=h ** -0.5)), n.const(n.normal(d, 2 * gates * h, scale=0.1)),
                 outputs=2, hidden_size=h, direction="bidirectional" if two else "forward", **({"linear_before_reset": 1} if kind == "GRU" else {}))
    return n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(0, 0, d * h)), d * h


@network
def tagger(n):
    t, d, h, kind = n.pick(16, 40, 64), n.pick(64, 100), n.pick(96, 128, 200), n.pick("LSTM", "GRU")
    x = n.op("Transpose", embed(n, t, d), perm=[1, 0, 2])
    x, i = recurrent(n, x, kind, 4 if kind == "LSTM" else 3, d, h, True)
    x, i = recurrent(n, x, kind, 4 if kind == "LSTM" else 3, i, h, True)
    n.say(f"{kind} {t} tokens, hidden {h}")
    n.result(n.op("LogSoftmax", dense(n, x, i, 17), axis=-1))


@network
def text_conv(n):
    t, d = n.pick(40, 100), n.pick(64, 128)
    x = n.op("Transpose", embed(n, t, d), perm=[0, 2, 1])
    parts = [n.op("ReduceMax", conv(n, x, d, 96, k, rank=1), n.ints(2), keepdims=0) for k in (3, 5, 7)]
    n.say(f"{t} tokens")
    n.result(n.op("Softmax", dense(n, n.op("Concat", *parts, axis=1), 288, 20), axis=-1))


# ---- sound, tables, graphs ----

@network
def speech(n):
    """Strided 1-D convolutions, then a transformer."""
    d, length = n.pick(128, 192), n.pick(2000, 4000)
    x, c = n.x(1, 1, length), 1
    for k, s in ((10, 5), (8, 4), (4, 2)):
        x = part(n, n.op("Conv", x, n.const(n.normal(d, c, k, scale=(1 / (c * k)) ** 0.5)), n.const(n.normal(d)), kernel_shape=[k], strides=[s]), "gelu")
        c, length = d, (length - k) // s + 1
    x = n.op("Transpose", x, perm=[0, 2, 1])
    for _ in range(3): x = encoder_layer(n, x, length, d, 4)
    n.result(dense(n, layer_norm(n, x, d), d, 32))


@network
def wavenet(n):
    c, length = n.pick(24, 32), n.pick(2000, 4000)
    x, skip = conv(n, n.x(1, 1, length), 1, c, 3, act="none", rank=1), None
    for i in range(8):
        y = n.op("Mul", n.op("Tanh", conv(n, x, c, c, 3, act="none", d=1 << i % 6, rank=1)), n.op("Sigmoid", conv(n, x, c, c, 3, act="none", d=1 << i % 6, rank=1)))
        y = conv(n, y, c, c, 1, act="none", rank=1)
        x, skip = n.op("Add", x, y), y if skip is None else n.op("Add", skip, y)
    n.result(conv(n, n.op("Relu", skip), c, 1, 1, act="none", rank=1))


@network
def conformer(n):
    t, d, h = n.pick(50, 100), 144, 4
    x = n.x(1, t, d)
    half = n.const(np.float32(0.5))
    for _ in range(3):
        x = n.op("Add", x, n.op("Mul", dense(n, dense(n, layer_norm(n, x, d), d, 4 * d, "silu"), 4 * d, d), half))
        y = layer_norm(n, x, d)
        q, k, v = (heads_of(n, dense(n, y, d, d), t, h, d // h) for _ in range(3))
        x = n.op("Add", x, dense(n, attend(n, q, k, v, t, h, d // h), d, d))
        a, b = n.op("Split", conv(n, n.op("Transpose", layer_norm(n, x, d), perm=[0, 2, 1]), d, 2 * d, 1, act="none", rank=1), n.ints(d, d), outputs=2, axis=1)
        y = conv(n, n.op("Mul", a, n.op("Sigmoid", b)), d, d, 31, g=d, act="silu", rank=1)
        x = layer_norm(n, n.op("Add", x, n.op("Transpose", conv(n, y, d, d, 1, act="none", rank=1), perm=[0, 2, 1])), d)
    n.result(dense(n, x, d, 64))


@network
def recommend(n):
    """Embeddings, pairwise products, a multi-layer perceptron."""
    rows, d, fields = n.pick(1, 64, 256), 32, 8
    dense_in = dense(n, dense(n, n.x(rows, 13), 13, 128, "relu"), 128, d, "relu")
    each = [n.op("Gather", n.const(n.normal(5000, d)), n.input(n.g.integers(0, 5000, rows), f"field{i}")) for i in range(fields)]
    all_ = n.op("Concat", *[n.op("Unsqueeze", e, n.ints(1)) for e in [dense_in] + each], axis=1)
    pairs = n.op("Reshape", n.op("MatMul", all_, n.op("Transpose", all_, perm=[0, 2, 1])), n.ints(rows, (fields + 1) ** 2))
    x = n.op("Concat", dense_in, pairs, axis=1)
    n.result(n.op("Sigmoid", dense(n, dense(n, x, d + (fields + 1) ** 2, 256, "relu"), 256, 1)))


@network
def graph_net(n):
    nodes, edges, d = n.pick(200, 1000), n.pick(1000, 5000), n.pick(16, 32, 64)
    x = n.input(n.normal(nodes, d), "x")
    source, target = n.input(n.g.integers(0, nodes, edges), "source"), n.input(n.g.integers(0, nodes, (edges, 1)), "target")
    for _ in range(3):
        m = dense(n, n.op("Gather", x, source), d, d, "relu")
        s = n.op("ScatterND", n.const(np.zeros((nodes, d), np.float32)), target, m, reduction="add")
        x = layer_norm(n, n.op("Add", dense(n, x, d, d), dense(n, s, d, d, "relu")), d)
    n.say(f"{nodes} nodes, {edges} edges, {d}")
    n.result(n.op("ReduceMean", x, n.ints(0), keepdims=0))


@network
def quantized(n):
    """QDQ convolutions with residuals."""
    side, w = n.pick(56, 64), n.pick(32, 48)
    zero, scale = n.const(np.uint8(128)), n.const(np.float32(0.05))
    dq = lambda v: n.op("DequantizeLinear", v, scale, zero)
    q = lambda v: n.op("QuantizeLinear", v, scale, zero)

    def layer(x, i, o, k, s=1, g=1, relu=True):
        weight = n.op("DequantizeLinear", n.const(n.g.integers(-127, 128, (o, i // g, k, k)).astype(np.int8)), n.const(np.full(o, 0.8 / 64 / (i // g * k * k) ** 0.5, np.float32)), n.const(np.zeros(o, np.int8)), axis=0)
        y = n.op("Conv", dq(x), weight, n.const(n.normal(o, scale=0.1)), kernel_shape=[k, k], strides=[s, s], pads=[k // 2] * 4, group=g)
        return q(n.op("Relu", y) if relu else y)
    n.near = 0.2
    x = layer(q(n.x(1, 3, side, side)), 3, w, 3, 2)
    for _ in range(3):
        y = layer(layer(layer(x, w, 4 * w, 1), 4 * w, 4 * w, 3, g=4 * w), 4 * w, w, 1, relu=False)
        x = q(n.op("Add", dq(x), dq(y)))
    n.result(pooled(n, dq(x), w))


# ---- lists ----

class File:
    """A network of a file."""

    def __init__(self, path, work):
        self.path, self.work, self.near, self.text = path, work, 1e-3, os.path.basename(path).removesuffix(".onnx")

    def write(self, folder):
        found = models.Models("", "", "", self.work)
        return self.path, found.other(self.path)[1]


def make(key, seed=1):
    n = Net(f"{seed}/{key}")
    n.near = 2e-3
    NETWORKS[key.split("/")[0]](n)
    n.text = " ".join(w for w in n.words if w)
    return n


def found(names, zoo, work):
    """Key and maker of each: files that are named, else all of ours and of the zoo."""
    files = [f for f in names if f.endswith(".onnx")]
    ours = [f"{k}/{i}" for i in range(VARIANTS) for k in NETWORKS if not names or k in names or f"{k}/{i}" in names]
    if not names and zoo and os.path.isdir(zoo): files += sorted(os.path.join(zoo, f) for f in os.listdir(zoo) if f.endswith(".onnx") and f.count(".") == 1)
    return [(k, lambda k=k: make(k)) for k in ours] + [(os.path.basename(f).removesuffix(".onnx"), lambda f=f: File(f, work)) for f in files]
