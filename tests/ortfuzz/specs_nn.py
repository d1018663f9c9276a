"""Convolutions, pools, normalisations, recurrent layers, attention, quantisation, losses, images and signals."""

import numpy as np

from registry import spec
import values


def tame(b):
    """The kind of values for sums: mostly small ones, sometimes the limits of the type."""
    return "any" if b.chance(0.25) or b.limits else "small"


class Window:
    """Random window attributes that fit a shape."""

    def __init__(self, b, nd, dilation=True):
        self.size = [b.int(1, 9) for _ in range(nd)]
        self.kernel = [b.int(1, 3) for _ in range(nd)]
        self.strides = [b.int(1, 3) for _ in range(nd)] if b.chance(0.5) else None
        self.dilations = [b.int(1, 2) for _ in range(nd)] if dilation and b.chance(0.3) else None
        self.pads, self.auto_pad = None, None
        r = b.rng.random()
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations or [1] * nd)]
        if r < 0.35:
            self.pads = [b.int(0, k - 1) for k in self.kernel * 2]
        elif r < 0.5:
            self.auto_pad = b.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        for i in range(nd):
            if self.auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
                self.size[i] = max(self.size[i], reach[i])

    def attrs(self):
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads, "auto_pad": self.auto_pad}


@spec("Conv ConvInteger QLinearConv ConvTranspose")
def conv(b):
    nd, group = b.pick([1, 2, 2, 3]), b.pick([1, 1, 2])
    w = Window(b, nd)
    cin, cout, n = group * b.int(1, 3), group * b.int(1, 3), b.int(1, 2)
    if b.chance(0.1):
        group = cin = cout = b.int(2, 4)  # depthwise
    x_shape, transposed = [n, cin] + w.size, b.op == "ConvTranspose"
    w_shape = ([cin, cout // group] if transposed else [cout, cin // group]) + w.kernel
    attrs = dict(w.attrs(), group=group if group > 1 or b.chance(0.3) else None,
                 kernel_shape=w.kernel if b.chance(0.6) else None)
    if transposed:
        if b.chance(0.3) and w.auto_pad is None:
            attrs["output_padding"] = [b.int(0, (s or 1) - 1) for s in (w.strides or [1] * nd)]
        elif b.chance(0.2) and w.pads is None and w.auto_pad is None:
            s, d = w.strides or [1] * nd, w.dilations or [1] * nd
            attrs["output_shape"] = [s[i] * (w.size[i] - 1) + (w.kernel[i] - 1) * d[i] + 1 for i in range(nd)]
    kind = tame(b)
    if b.op in ("Conv", "ConvTranspose"):
        t = b.tin()
        bias = b.data(t, (cout,), kind) if b.chance(0.5) else None
        b.node([b.data(t, x_shape, kind), b.data(t, w_shape, kind), bias], [(t, None)], **attrs)
        return
    tx, tw = b.tin(0), b.tin(1 if b.op == "ConvInteger" else 3)
    if b.op == "ConvInteger":
        zero = b.data(tx, (), "any") if b.chance(0.6) else None
        wzero = b.data(tw, () if b.chance(0.7) else (cout,), "any") if zero and b.chance(0.6) else None
        b.node([b.data(tx, x_shape), b.data(tw, w_shape), zero, wzero], [("int32", None)], **attrs)
        return
    per = b.chance(0.4)
    ins = [b.data(tx, x_shape), scale(b), b.data(tx, ()), b.data(tw, w_shape), scale(b, (cout,) if per else ()),
           b.given(np.zeros((cout,) if per else (), values.numpy_of(tw)), tw), scale(b), b.data(b.tin(7), ())]
    ins.append(b.data("int32", (cout,), (-50, 50)) if b.chance(0.4) else None)
    b.node(ins, [(b.tin(7), None)], **attrs)


def scale(b, shape=(), dtype="float"):
    """Powers of two, so that every implementation divides exactly, or any."""
    x = np.exp2(b.rng.integers(-4, 3, shape)) if b.chance(0.5) else b.rng.uniform(0.01, 2, shape)
    return b.given(np.asarray(x).astype(values.numpy_of(dtype)), dtype)


@spec("MaxPool AveragePool LpPool")
def pool(b):
    nd = b.pick([1, 2, 2, 3])
    dilates = b.has_attr("dilations")
    w = Window(b, nd, dilates)
    t = b.tin()
    x = b.data(t, [b.int(1, 2), b.int(1, 3)] + w.size, "any" if b.op == "MaxPool" else tame(b))
    attrs = dict(w.attrs(), kernel_shape=w.kernel)
    if not dilates:
        attrs.pop("dilations")
    if b.has_attr("ceil_mode"):
        attrs["ceil_mode"] = b.pick([None, 0, 1])
    outs = [(t, None)]
    if b.op == "MaxPool":
        attrs["storage_order"] = b.pick([None, 0, 1])
        if b.chance(0.5):
            outs.append(("int64", None))
        else:
            attrs["storage_order"] = None
    if b.op == "AveragePool":
        attrs["count_include_pad"] = b.pick([None, 0, 1])
    if b.op == "LpPool":
        attrs["p"] = b.pick([None, 1, 2, 3])
    b.node([x], outs, **attrs)


@spec("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(b):
    shape = (b.int(1, 2), b.int(1, 3)) + b.shape(1, 3, 1)
    x = b.data(b.tin(), shape, "any" if b.op == "GlobalMaxPool" else tame(b))
    b.node([x], [(x.dtype, shape[:2] + (1,) * (len(shape) - 2))], p=b.pick([None, 1, 3]) if b.op == "GlobalLpPool" else None)


@spec("MaxUnpool")
def max_unpool(b):
    n, c, h, w = 1, b.int(1, 2), b.int(1, 3), b.int(1, 3)
    k, s = [b.int(2, 3)] * 2, [b.int(2, 3)] * 2
    size = [(h - 1) * s[0] + k[0], (w - 1) * s[1] + k[1]]
    x = b.data(b.tin(), (n, c, h, w), "small")
    i = np.stack([b.rng.permutation(size[0] * size[1])[: h * w].reshape(h, w) + p * size[0] * size[1] for p in range(n * c)])
    to = b.ints([n, c] + size) if b.chance(0.3) else None
    b.node([x, b.ints(i.reshape(n, c, h, w)), to], [(x.dtype, (n, c, *size))], kernel_shape=k, strides=s,
           pads=[0] * 4 if b.chance(0.3) else None)


@spec("MaxRoiPool RoiAlign")
def roi(b):
    n, c, h, w, m = b.int(1, 2), b.int(1, 2), b.int(3, 8), b.int(3, 8), b.int(1, 3)
    t = b.tin(0, ("float", "double", "float16"))
    x = b.data(t, (n, c, h, w), "small")
    lo = b.rng.uniform(0, 3, (m, 2))
    boxes = np.concatenate([lo, lo + b.rng.uniform(0.5, 4, (m, 2))], 1)
    batch = b.rng.integers(0, n, m)
    if b.op == "MaxRoiPool":
        r = np.concatenate([batch[:, None], np.round(boxes)], 1).astype(values.numpy_of(t))
        b.node([x, b.given(r, t)], [(t, None)], pooled_shape=[b.int(1, 3), b.int(1, 3)], spatial_scale=b.pick([None, 0.5]))
        return
    attrs = {"mode": b.pick([None, "avg", "max"]), "output_height": b.pick([None, 2]), "output_width": b.pick([None, 3]),
             "sampling_ratio": b.pick([None, 0, 1, 2]), "spatial_scale": b.pick([None, 0.5])}
    if b.has_attr("coordinate_transformation_mode"):
        attrs["coordinate_transformation_mode"] = b.pick([None, "half_pixel", "output_half_pixel"])
    b.node([x, b.given(boxes.astype(values.numpy_of(t)), t), b.ints(batch)], [(t, None)], **attrs)


@spec("BatchNormalization")
def batch_norm(b):
    t, c = b.tin(), b.int(1, 4)
    shape = (b.int(1, 3), c) + b.shape(0, 2, 1)
    t1, t2 = (b.tin(1), b.tin(3)) if b.opset >= 15 else (t, b.tin(3) if b.opset >= 14 else t)
    kind = tame(b)
    ins = [b.data(t, shape, kind), b.data(t1, (c,), "small"), b.data(t1, (c,), "small"), b.data(t2, (c,), "small"),
           b.data(t2, (c,), "positive")]
    attrs = {"epsilon": b.pick([None, 1e-3]), "momentum": b.pick([None, 0.5])}
    outs = [(t, shape)]
    if b.has_attr("training_mode") and b.chance(0.2):
        attrs["training_mode"] = 1
        outs += [(t2, (c,)), (t2, (c,))]
    b.node(ins, outs, **attrs)


@spec("InstanceNormalization GroupNormalization")
def instance_norm(b):
    groups = b.int(1, 3)
    t, c = b.tin(), groups * b.int(1, 2)
    shape = (b.int(1, 2), c) + b.shape(1, 2, 1)
    attrs, n = {"epsilon": b.pick([None, 1e-3])}, c
    if b.op == "GroupNormalization":
        attrs["num_groups"] = groups
        n = c if b.opset >= 21 else groups
        if b.has_attr("stash_type") and b.chance(0.3):
            attrs["stash_type"] = 1
    b.node([b.data(t, shape, tame(b)), b.data(t, (n,), "small"), b.data(t, (n,), "small")], [(t, shape)], **attrs)


@spec("LayerNormalization RMSNormalization")
def layer_norm(b):
    t, shape = b.tin(), b.shape(1, 4, 1)
    axis = b.int(-len(shape), len(shape) - 1) if b.chance(0.8) else None
    tail = shape[axis if axis is not None else -1 :]
    w = b.data(b.tin(1) if b.op != "LayerNormalization" else t, b.broadcastable(tail) if b.chance(0.2) else tail, "small")
    attrs = {"axis": axis, "epsilon": b.pick([None, 1e-3]), "stash_type": b.pick([None, 1])}
    x = b.data(t, shape, tame(b))
    if b.op == "RMSNormalization":
        b.node([x, w], [(w.dtype, shape)], **attrs)
        return
    bias = b.data(t, tail, "small") if b.chance(0.5) else None
    outs = [(t, shape)]
    if b.chance(0.3):
        lead = shape[: len(shape) - len(tail)] + (1,) * len(tail)
        outs += [("float", lead), ("float", lead)]
    b.node([x, w, bias], outs, **attrs)


@spec("LpNormalization MeanVarianceNormalization LRN")
def other_norm(b):
    t = b.tin()
    shape = b.shape(1, 4, 1) if b.op == "LpNormalization" else (b.int(1, 2), b.int(1, 5), b.int(1, 4), b.int(1, 4))
    x, attrs = b.data(t, shape, tame(b)), {}
    if b.op == "LpNormalization":
        attrs = {"axis": b.int(-len(shape), len(shape) - 1) if b.chance(0.7) else None, "p": b.pick([None, 1, 2])}
    elif b.op == "LRN":
        attrs = {"size": b.int(1, 5), "alpha": b.pick([None, 0.1]), "beta": b.pick([None, 0.5]), "bias": b.pick([None, 2.0])}
    elif b.chance(0.5):
        attrs = {"axes": [0, 2, 3] if b.chance(0.5) else [1]}
    b.node([x], [(t, shape)], **attrs)


# ---- products ----


@spec("MatMul MatMulInteger QLinearMatMul")
def mat_mul(b):
    m, n, k = b.int(1, 5), b.int(1, 5), b.pick([0, 1, 2, 3, 7, 33])
    if k == 0 and (b.chance(0.7) or b.op != "MatMul"):  # ONNX Runtime leaves the result unwritten
        k = 4
    batch = b.shape(0, 2, 1)
    a, w = batch + (m, k), b.broadcastable(batch) + (k, n)
    if b.op == "MatMul" and b.chance(0.15):
        a = (k,)
    if b.op == "MatMul" and b.chance(0.15):
        w = (k,)
    ta = b.tin(0)
    if b.op == "MatMul":
        kind = tame(b)
        b.node([b.data(ta, a, kind), b.data(ta, w, kind)], [(ta, None)])
        return
    tb = b.tin(1 if b.op == "MatMulInteger" else 3)
    if b.op == "MatMulInteger":
        za = b.data(ta, ()) if b.chance(0.6) else None
        zb = b.data(tb, () if b.chance(0.7) or len(w) != 2 else (n,)) if za and b.chance(0.6) else None
        b.node([b.data(ta, a), b.data(tb, w), za, zb], [("int32", None)])
        return
    ty, ts = b.tin(7), b.tin(1)
    per = b.chance(0.3) and len(w) == 2
    b.node([b.data(ta, a), scale(b, (), ts), b.data(ta, ()), b.data(tb, w), scale(b, (n,) if per else (), ts),
            b.data(tb, (n,) if per else ()), scale(b, (), ts), b.data(ty, ())], [(ty, None)])


@spec("Gemm")
def gemm(b):
    m, n, k = b.int(1, 5), b.int(1, 5), b.pick([1, 2, 5, 17])
    t, ta, tb = b.tin(), b.chance(0.4), b.chance(0.4)
    kind = tame(b)
    c = None
    if b.chance(0.6):
        c = b.data(t, b.pick([(), (1,), (n,), (1, n), (m, 1), (m, n)]), kind)
    b.node([b.data(t, (k, m) if ta else (m, k), kind), b.data(t, (n, k) if tb else (k, n), kind), c], [(t, (m, n))],
           alpha=b.pick([None, 1.0, 0.5, -2.0]), beta=b.pick([None, 1.0, 0.0, 3.0]),
           transA=1 if ta else b.pick([None, 0]), transB=1 if tb else b.pick([None, 0]))


# ---- quantisation ----


@spec("QuantizeLinear DequantizeLinear")
def quantize(b):
    down = b.op == "QuantizeLinear"
    ty = b.tout() if down else b.tin()
    shape = b.shape(1, 3, 1)
    axis = b.int(-len(shape), len(shape) - 1)
    form = b.pick(["one", "one", "axis", "block"] if b.has_attr("block_size") else ["one", "axis"])
    block = b.int(1, 3)
    s_shape = {"one": (), "axis": (shape[axis],)}.get(form)
    if form == "block":
        s_shape = list(shape)
        s_shape[axis] = -(-shape[axis] // block)
    ts = b.tin(1) if down and b.opset >= 23 else (b.tout() if not down and b.opset < 23 else b.tin(1)) if b.opset >= 19 else "float"
    if down and b.opset >= 19 and b.opset < 23:
        ts = b.tin(0)
    if ts not in values.FLOATS + ("int32", "float8e8m0"):
        ts = "float"
    if ts == "int32":
        s = b.given(b.rng.integers(1, 5, s_shape).astype(np.int32), ts)
    else:
        s = scale(b, s_shape, ts)
    attrs = {"axis": axis if form != "one" or b.chance(0.2) else None, "block_size": block if form == "block" else None}
    zero = None
    signed = not (values.is_float(ty) or ty in ("int32",))
    if down or b.chance(0.6):
        z = values.fill(b.rng, ty, s_shape, "any", 1) if signed else np.zeros(s_shape, values.numpy_of(ty))
        zero = b.given(z, ty)
        if down and ty == "uint8" and b.chance(0.3):
            zero = None
    if down:
        if b.has_attr("saturate") and ty.startswith("float8") and b.chance(0.5):
            attrs["saturate"] = b.int(0, 1)
        if b.has_attr("output_dtype") and b.chance(0.3):
            attrs["output_dtype"] = values.number(ty)
        if b.has_attr("precision") and b.chance(0.2) and ts != "int32":
            attrs["precision"] = values.number(b.pick([ts if ts in values.FLOATS else "float", "float"]))
        b.node([b.data(b.tin(0), shape), s, zero], [(ty, shape)], **attrs)
        return
    to = ts
    if b.has_attr("output_dtype") and (b.chance(0.3) or ts == "float8e8m0"):  # no result has that type
        to = b.tout()
        attrs["output_dtype"] = values.number(to)
    b.node([b.data(ty, shape), s, zero], [(to, shape)], **attrs)


@spec("DynamicQuantizeLinear")
def dynamic_quantize(b):
    x = b.data("float", b.shape(1, 3, 1), tame(b))
    b.node([x], [("uint8", x.shape), ("float", ()), ("uint8", ())])


# ---- recurrent layers ----


@spec("LSTM GRU RNN")
def recurrent(b):
    t = b.tin()
    seq, batch, size, hidden = b.int(1, 4), b.int(1, 3), b.int(1, 3), b.int(1, 4)
    direction = b.pick([None, "forward", "reverse", "bidirectional"])
    nd = 2 if direction == "bidirectional" else 1
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[b.op]
    layout = 1 if b.has_attr("layout") and b.chance(0.1) else None
    x_shape = (batch, seq, size) if layout else (seq, batch, size)
    state = (batch, nd, hidden) if layout else (nd, batch, hidden)
    pick = lambda p, shape: b.data(t, shape, "small") if b.chance(p) else None
    ins = [b.data(t, x_shape, "small"), b.data(t, (nd, gates * hidden, size), "small"),
           b.data(t, (nd, gates * hidden, hidden), "small"), pick(0.5, (nd, 2 * gates * hidden)),
           b.control(b.rng.integers(1, seq + 1, batch).astype(np.int32)) if b.chance(0.3) else None, pick(0.4, state)]
    attrs = {"direction": direction, "hidden_size": hidden, "layout": layout, "clip": b.pick([None, None, 0.5])}
    y_shape = (batch, seq, nd, hidden) if layout else (seq, nd, batch, hidden)
    outs = [(t, y_shape), (t, state)]
    if b.op == "LSTM":
        ins += [pick(0.4, state), pick(0.2, (nd, 3 * hidden))]
        outs.append((t, state))
        attrs["input_forget"] = b.pick([None, None, 0, 1])
    if b.op == "GRU":
        attrs["linear_before_reset"] = b.pick([None, 0, 1])
    if b.chance(0.2):
        kinds = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[b.op]
        alt = ["Relu", "Sigmoid", "Tanh", "HardSigmoid", "Softsign", "Softplus", "LeakyRelu", "Elu", "Affine", "ScaledTanh",
               "ThresholdedRelu"]
        names = [b.pick(alt) if b.chance(0.4) else k for k in kinds * nd]
        attrs["activations"] = names
        if b.chance(0.5):
            attrs["activation_alpha"] = [0.3] * len(names)
            attrs["activation_beta"] = [0.4] * len(names)
    b.node(ins, outs, **attrs)


# ---- attention ----


@spec("Attention")
def attention(b):
    t = b.tin()
    batch, hq, q, kv, hd, vd = b.int(1, 2), b.pick([1, 2, 4]), b.int(1, 4), b.int(1, 5), b.pick([2, 4]), b.pick([2, 4])
    hk = b.pick([1, hq])
    flat = b.chance(0.4)
    kind = "small"
    tv = b.tin(2)
    if flat:
        ins = [b.data(t, (batch, q, hq * hd), kind), b.data(t, (batch, kv, hk * hd), kind), b.data(tv, (batch, kv, hk * vd), kind)]
    else:
        ins = [b.data(t, (batch, hq, q, hd), kind), b.data(t, (batch, hk, kv, hd), kind), b.data(tv, (batch, hk, kv, vd), kind)]
    past = b.int(1, 3) if b.chance(0.3) else 0
    mask = None
    if b.chance(0.4):
        tm = b.tin(3, ("bool", t))
        shape = b.pick([(q, kv + past), (batch, 1, q, kv + past), (batch, hq, q, kv + past)])
        mask = b.data(tm, shape, "small")
    ins.append(mask)
    if past:
        ins += [b.data(t, (batch, hk, past, hd), kind), b.data(tv, (batch, hk, past, vd), kind)]
    attrs = {"is_causal": b.pick([None, 0, 1]), "scale": b.pick([None, 0.5]), "softcap": b.pick([None, None, 2.0])}
    if flat:
        attrs.update(q_num_heads=hq, kv_num_heads=hk)
    outs = [(t, None)]
    if past:
        outs += [(t, None), (tv, None)]
    if past and b.chance(0.4) and b.opset < 24:
        outs.append((t, None))
        attrs["qk_matmul_output_mode"] = b.pick([None, 0, 1, 2, 3])
    attrs["softmax_precision"] = b.pick([None, None, 1])
    for side in ("left_window_size", "right_window_size"):
        if b.has_attr(side) and b.chance(0.2):
            attrs[side] = b.int(0, 3)
    b.node(ins, outs, **attrs)


@spec("RotaryEmbedding")
def rotary(b):
    t, batch, heads, seq, hd = b.tin(), b.int(1, 2), b.int(1, 3), b.int(1, 4), b.pick([4, 8])
    part = b.pick([None, 0, hd // 2])
    turned = part or hd
    flat = b.chance(0.4)
    x = b.data(t, (batch, seq, heads * hd) if flat else (batch, heads, seq, hd), "small")
    ids = b.chance(0.6)
    cache = (8, turned // 2) if ids else (batch, seq, turned // 2)
    ins = [x, b.data(t, cache, "small"), b.data(t, cache, "small"), b.ints(b.rng.integers(0, 8, (batch, seq))) if ids else None]
    b.node(ins, [(t, x.shape)], interleaved=b.pick([None, 0, 1]), rotary_embedding_dim=part,
           num_heads=heads if flat or b.chance(0.3) else None)


@spec("CausalConvWithState")
def causal_conv(b):
    t, n, c, length, k = b.tin(), b.int(1, 2), b.int(1, 3), b.int(1, 5), b.int(1, 4)
    ins = [b.data(t, (n, c, length), "small"), b.data(t, (c, 1, k), "small"), b.data(t, (c,), "small") if b.chance(0.5) else None,
           b.data(t, (n, c, k - 1), "small") if b.chance(0.5) and k > 1 else None]
    b.node(ins, [(t, (n, c, length)), (t, (n, c, k - 1))], activation=b.pick([None, "none", "silu", "swish"]))


@spec("LinearAttention")
def linear_attention(b):
    t, n, heads, kv, seq, hd, vd = b.tin(), b.int(1, 2), 2, b.pick([1, 2]), b.int(1, 4), 2, 3
    rule = b.pick([None, "linear", "gated", "delta", "gated_delta"])
    ins = [b.data(t, (n, seq, heads * hd), "small"), b.data(t, (n, seq, kv * hd), "small"),
           b.data(t, (n, seq, kv * vd), "small"), b.data(b.tin(3), (n, kv, hd, vd), "small") if b.chance(0.5) else None]
    full = rule or "gated_delta"
    ins.append(b.data(t, (n, seq, kv), (-1.0, 0.0)) if "gated" in full else None)
    ins.append(b.data(t, (n, seq, kv), "unit") if "delta" in full else None)
    b.node(ins, [(t, None), (b.types.get("S", t), None)], update_rule=rule, q_num_heads=heads, kv_num_heads=kv,
           scale=b.pick([None, 0.5]), chunk_size=b.pick([None, 2]))


@spec("SwiGLU")
def swiglu(b):
    x = b.any(b.tin(), 1, 3)
    ins = [x] + [b.data(x.dtype, x.shape, "small") for _ in b.schema().inputs[1:]]
    b.node(ins, [(x.dtype, None)])


# ---- losses ----


@spec("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def loss(b):
    t, n, c, rest = b.tin(), b.int(1, 4), b.int(1, 4), b.shape(0, 2, 1)
    nll = b.op[0] == "N"
    x = b.data(t, (n, c) + rest, "small")
    ignore = b.pick([None, 0, -1, 255, -(2**31), 2**31 - 1])
    target = b.rng.integers(0, c, (n,) + rest)
    if ignore is not None:
        target = np.where(b.rng.random(target.shape) < 0.3, ignore, target)
    target = b.control(target.astype(values.numpy_of(b.tin(1))))
    weight = b.data(t, (c,), "positive") if b.chance(0.5) else None
    how = b.pick([None, "mean", "sum", "none"])
    y = (t, (n,) + rest if how == "none" else ())
    outs = [y] if nll or b.chance(0.6) else [y, (t, x.shape)]
    b.node([x, target, weight], outs, reduction=how, ignore_index=ignore)


# ---- images and signals ----


@spec("GridSample")
def grid_sample(b):
    nd = 2 if b.opset < 20 or b.chance(0.7) else 3
    t, n, c = b.tin(0), b.int(1, 2), b.int(1, 2)
    x = b.data(t, (n, c) + tuple(b.int(1, 5) for _ in range(nd)), "small")
    grid = b.data(b.tin(1), (n,) + tuple(b.int(1, 4) for _ in range(nd)) + (nd,), (-1.2, 1.2))
    modes = ["bilinear", "nearest", "bicubic"] if b.opset < 20 else ["linear", "nearest", "cubic"]
    if nd == 3:
        modes = modes[:2]
    b.node([x, grid], [(t, None)], mode=b.pick([None] + modes), align_corners=b.pick([None, 0, 1]),
           padding_mode=b.pick([None, "zeros", "border", "reflection"]))


@spec("AffineGrid")
def affine_grid(b):
    nd, n = b.pick([2, 3]), b.int(1, 2)
    t = b.tin()
    theta = b.data(t, (n, nd, nd + 1), "small")
    b.node([theta, b.ints([n, 2] + [b.int(1, 4) for _ in range(nd)])], [(t, None)], align_corners=b.pick([None, 0, 1]))


@spec("DeformConv")
def deform_conv(b):
    t, n, cin, cout, h, w, k = b.tin(), b.int(1, 2), 2, 2, b.int(3, 5), b.int(3, 5), b.int(1, 3)
    strides = [b.int(1, 2), b.int(1, 2)] if b.chance(0.4) else None
    pads = [b.int(0, 1) for _ in range(4)] if b.chance(0.4) else None
    dilations = [b.int(1, 2), 1] if b.chance(0.3) and h >= 2 * k else None
    group, og = b.pick([None, 1, 2]), b.pick([1, 2])
    st, pd, dl = strides or [1, 1], pads or [0] * 4, dilations or [1, 1]
    oh, ow = ((size + pd[i] + pd[i + 2] - dl[i] * (k - 1) - 1) // st[i] + 1 for i, size in enumerate((h, w)))
    ins = [b.data(t, (n, cin, h, w), "small"), b.data(t, (cout, cin // (group or 1), k, k), "small"),
           b.data(t, (n, og * 2 * k * k, oh, ow), "small"), b.data(t, (cout,), "small") if b.chance(0.5) else None,
           b.data(t, (n, og * k * k, oh, ow), "unit") if b.chance(0.5) else None]
    b.node(ins, [(t, (n, cout, oh, ow))], offset_group=og if og > 1 or b.chance(0.3) else None,
           kernel_shape=[k, k] if b.chance(0.5) else None, strides=strides, pads=pads, dilations=dilations, group=group)


@spec("NonMaxSuppression")
def nms(b):
    n, c, m = b.int(1, 2), b.int(1, 2), b.int(1, 6)
    lo = b.rng.uniform(0, 2, (n, m, 2))
    boxes = np.concatenate([lo, lo + b.rng.uniform(0.1, 2, (n, m, 2))], 2).astype(np.float32)
    scores = np.round(b.rng.random((n, c, m)), b.pick([1, 4])).astype(np.float32)
    f = lambda v: b.control(np.array([v], np.float32))
    ins = [b.given(boxes, "float"), b.given(scores, "float"), b.ints([b.int(0, 4)]) if b.chance(0.9) else None,
           f(b.pick([0.0, 0.3, 0.5, 0.9])) if b.chance(0.7) else None, f(b.pick([0.0, 0.4])) if b.chance(0.5) else None]
    b.node(ins, [("int64", None)], center_point_box=b.pick([None, 0, 1]))


@spec("BlackmanWindow HammingWindow HannWindow")
def window(b):
    to = b.tout() if b.chance(0.5) else None
    size = b.control(np.array(b.int(0, 9), values.numpy_of(b.tin())))
    b.node([size], [(to or "float", None)], output_datatype=values.number(to) if to else None, periodic=b.pick([None, 0, 1]))


@spec("MelWeightMatrix")
def mel(b):
    t1, t2 = b.tin(0), b.tin(3, ("float", "double"))
    i = lambda v: b.control(np.array(v, values.numpy_of(t1)))
    f = lambda v: b.control(np.array(v, values.numpy_of(t2)))
    to = b.tout() if b.chance(0.4) else None
    b.node([i(b.int(1, 6)), i(b.pick([8, 16, 32])), i(8192), f(b.pick([0.0, 20.0])), f(b.pick([4096.0, 3000.0]))],
           [(to or "float", None)], output_datatype=values.number(to) if to else None)


@spec("DFT")
def dft(b):
    t, one = b.tin(), b.chance(0.5)
    shape = b.shape(1, 3, 1) + (1 if one else 2,)
    rank = len(shape)
    axis = b.int(0, rank - 2) if b.chance(0.7) else None
    inverse = b.chance(0.3)
    onesided = one and not inverse and b.chance(0.4)
    length = b.control(np.array(b.int(1, 6), np.int64)) if b.chance(0.3) else None
    attrs = {"inverse": 1 if inverse else None, "onesided": 1 if onesided else None}
    ins = [b.data(t, shape, "small"), length]
    default = 1 if b.opset < 20 else rank - 2
    if axis is None and default > rank - 2:
        axis = 0
    if b.opset < 20:
        attrs["axis"] = axis
    elif axis is not None:
        ins.append(b.control(np.array(axis - rank if b.chance(0.3) else axis, np.int64)))
    b.node(ins, [(t, None)], **attrs)


@spec("STFT")
def stft(b):
    t, n, length, frame, step = b.tin(0, ("float", "double", "float16", "bfloat16")), b.int(1, 2), b.int(8, 20), b.pick([4, 8, 5]), b.int(1, 4)
    i = lambda v: b.control(np.array(v, values.numpy_of(b.tin(1))))
    win = b.data(t, (frame,), "small") if b.chance(0.6) else None
    b.node([b.data(t, (n, length, 1), "small"), i(step), win, i(frame) if not win or b.chance(0.5) else None], [(t, None)],
           onesided=b.pick([None, 0, 1]))
