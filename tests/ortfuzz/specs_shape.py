"""Operators that move, select and scatter elements."""

import numpy as np

from registry import spec
from specs_math import some_axes
import values


def axis_of(b, rank, none=0.2):
    """An axis, sometimes counted from the end, sometimes absent; and where it is."""
    if b.chance(none):
        return None
    return b.int(-rank, rank - 1)


def indices(b, shape, size, dtype="int64"):
    """Indices into `size` elements, some counted from the end."""
    x = b.rng.integers(-size, size, shape) if b.chance(0.6) else b.rng.integers(0, size, shape)
    return b.control(np.asarray(x).astype(values.numpy_of(dtype)))


@spec("Reshape")
def reshape(b):
    x = b.any(b.tin())
    n, zero = int(np.prod(x.shape)), b.opset >= 14 and b.chance(0.3)
    to, rest = [], n
    for _ in range(b.int(0, 3)):
        options = [d for d in (1, 2, 3, 4, 5) if rest and rest % d == 0]
        to.append(b.pick(options or [1]))
        rest //= max(to[-1], 1)
    if n == 0:
        to = [0] + to if zero else list(x.shape)
        shape = to
        if not zero:  # 0 copies the size
            shape = list(x.shape)
    else:
        to.insert(b.int(0, len(to)), rest)
        shape = list(to)
        if b.chance(0.5):
            to[b.int(0, len(to) - 1)] = -1
        if not zero and x.shape and to and to[0] == x.shape[0] and b.chance(0.5):
            to[0] = 0
    b.node([x, b.ints(to)], [(x.dtype, shape)], allowzero=1 if zero else None)


@spec("Transpose")
def transpose(b):
    x = b.any(b.tin())
    perm = [int(p) for p in b.rng.permutation(len(x.shape))] if x.shape and b.chance(0.8) else None
    b.node([x], [(x.dtype, [x.shape[p] for p in (perm if perm is not None else reversed(range(len(x.shape))))])], perm=perm)


@spec("Flatten")
def flatten(b):
    x = b.any(b.tin())
    axis = b.int(-len(x.shape), len(x.shape)) if b.chance(0.8) else None
    at = 1 if axis is None else axis + len(x.shape) if axis < 0 else axis
    shape = (int(np.prod(x.shape[:at])), int(np.prod(x.shape[at:])))
    if at > len(x.shape):
        axis, shape = 0, (1, int(np.prod(x.shape)))
    b.node([x], [(x.dtype, shape)], axis=axis)


@spec("Squeeze")
def squeeze(b):
    shape = [d if b.chance(0.6) else 1 for d in b.shape(1, 4)]
    x = b.data(b.tin(), shape)
    ones = [i for i, d in enumerate(shape) if d == 1]
    axes = [i - len(shape) if b.chance(0.4) else i for i in ones if b.chance(0.7)] if b.chance(0.8) else None
    gone = set(ones) if axes is None else {a % len(shape) for a in axes}
    b.node([x, b.ints(axes) if axes is not None else None], [(x.dtype, [d for i, d in enumerate(shape) if i not in gone])])


@spec("Unsqueeze")
def unsqueeze(b):
    x = b.any(b.tin(), 0, 3)
    rank = len(x.shape) + b.int(1, 2)
    axes = [int(a) for a in b.rng.permutation(rank)[: rank - len(x.shape)]]
    rest, shape = iter(x.shape), []
    for i in range(rank):
        shape.append(1 if i in axes else next(rest))
    b.node([x, b.ints([a - rank if b.chance(0.4) else a for a in axes])], [(x.dtype, shape)])


@spec("Shape")
def shape_of(b):
    x, attrs = b.any(b.tin()), {}
    if b.has_attr("start"):
        attrs = {k: b.int(-5, 5) for k in ("start", "end") if b.chance(0.5)}
    b.node([x], [("int64", (len(x.shape[slice(attrs.get("start"), attrs.get("end"))]),))], **attrs)


@spec("Size")
def size_of(b):
    b.node([b.any(b.tin())], [("int64", ())])


@spec("Expand")
def expand(b):
    x = b.any(b.tin(), 0, 3)
    shape = [d if d != 1 else b.pick([1, 2, 3]) for d in x.shape]
    lead = [b.pick([1, 2, 3]) for _ in range(b.int(0, 1))]
    to = lead + [d if b.chance(0.8) else 1 for d in shape]
    got = lead + [t if d == 1 else d for t, d in zip(to[len(lead):], x.shape)]
    b.node([x, b.ints(to)], [(x.dtype, got)])


@spec("Tile")
def tile(b):
    x = b.any(b.tin(), 0, 3)
    n = [b.pick([1, 1, 2, 3, 0] if b.chance(0.1) else [1, 2, 3]) for _ in x.shape]
    b.node([x, b.ints(n)], [(x.dtype, [d * k for d, k in zip(x.shape, n)])])


@spec("Concat")
def concat(b):
    t, shape = b.tin(), list(b.shape(1, 4))
    axis = b.int(-len(shape), len(shape) - 1)
    xs = []
    for _ in range(b.int(1, 4)):
        shape[axis] = b.dim() if b.chance(0.5) else b.int(1, 3)
        xs.append(b.data(t, shape))
    shape[axis] = sum(x.shape[axis] for x in xs)
    b.node(xs, [(t, shape)], axis=axis)


@spec("Split")
def split(b):
    shape = list(b.shape(1, 4))
    axis = axis_of(b, len(shape))
    at = 0 if axis is None else axis
    n, attrs, ins = b.int(1, 3), {}, []
    if b.chance(0.6):
        parts = [b.int(0, 3) for _ in range(n)]
        shape[at] = sum(parts)
        ins = [b.ints(parts)]
    elif b.has_attr("num_outputs"):
        attrs["num_outputs"] = n
        shape[at] = size = b.int(n, 7)
        step = -(-size // n)
        parts = [step] * (n - 1) + [size - step * (n - 1)]
        if parts[-1] < 0:
            shape[at], parts = n, [1] * n
    else:
        shape[at] = n * b.int(1, 3)
        parts = [shape[at] // n] * n
    x = b.data(b.tin(), shape)
    outs = []
    for p in parts:
        shape[at] = p
        outs.append((x.dtype, tuple(shape)))
    b.node([x] + ins, outs, axis=axis, **attrs)


@spec("Slice")
def slice_(b):
    x = b.any(b.tin(), 1, 4)
    axes = some_axes(b, len(x.shape))
    far = [2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for a in axes:
        n = shape[a]
        step = b.pick([1, 1, 1, 2, -1, -2, 3])
        if b.chance(0.05):
            step = b.pick([2**63 - 1, -(2**63 - 1), 2**31 - 1])
        starts.append(b.int(-n - 2, n + 2) if b.chance(0.85) else b.pick(far))
        ends.append(b.int(-n - 2, n + 2) if b.chance(0.85) else b.pick(far))
        steps.append(step)
        shape[a] = len(range(n)[starts[-1] : ends[-1] : step])
    t = b.tin(1)
    if t == "int32":
        starts, ends, steps = ([max(min(v, 2**31 - 1), -(2**31)) for v in p] for p in (starts, ends, steps))
    put = lambda v: b.control(np.array(v, values.numpy_of(t)))
    ins = [x, put(starts), put(ends)]
    in_order = sorted(axes) == list(range(len(axes))) and axes == sorted(axes)
    ones = all(s == 1 for s in steps)
    if not (in_order and ones and b.chance(0.5)):
        ins += [put(axes), put(steps) if not ones or b.chance(0.5) else None]
    b.node(ins, [(x.dtype, shape)])


@spec("Pad")
def pad(b):
    x = b.any(b.tin(), 1, 4)
    mode = b.pick(["constant", "reflect", "edge"] + (["wrap"] if b.opset >= 19 else []))
    axes = list(range(len(x.shape)))
    use = b.opset >= 18 and b.chance(0.4)
    if use:
        axes = some_axes(b, len(x.shape))
    pads, shape = [[0] * len(axes), [0] * len(axes)], list(x.shape)
    for i, a in enumerate(axes):
        n = shape[a]
        most = {"constant": 4, "edge": 4 if n else 0, "reflect": n - 1 if n else 0, "wrap": n}[mode]
        for side in range(2):
            low = -1 if mode == "constant" and n > 2 and b.chance(0.2) else 0
            pads[side][i] = b.int(low, max(min(most, 4), 0))
        shape[a] = n + pads[0][i] + pads[1][i]
    ins = [x, b.ints(pads[0] + pads[1])]
    ins.append(b.data(x.dtype, ()) if mode == "constant" and b.chance(0.6) else None)
    if use:
        t = b.tin(3)
        ins.append(b.control(np.array(axes, values.numpy_of(t))))
    b.node(ins, [(x.dtype, shape)], mode=None if mode == "constant" and b.chance(0.5) else mode)


# ---- gather and scatter ----


@spec("Gather")
def gather(b):
    x = b.any(b.tin(), 1, 3, least=1)
    axis = axis_of(b, len(x.shape))
    at = 0 if axis is None else axis % len(x.shape)
    i = indices(b, b.shape(0, 2), x.shape[at], b.tin(1))
    b.node([x, i], [(x.dtype, x.shape[:at] + i.shape + x.shape[at + 1 :])], axis=axis)


def below(b, shape, at):
    """A shape of the same rank, not larger on the other axes."""
    return tuple(b.int(0, 4) if i == at else b.int(min(1, d), d) for i, d in enumerate(shape))


@spec("GatherElements")
def gather_elements(b):
    x = b.any(b.tin(), 1, 3, least=1)
    axis = axis_of(b, len(x.shape))
    at = 0 if axis is None else axis % len(x.shape)
    i = indices(b, below(b, x.shape, at), x.shape[at], b.tin(1))
    b.node([x, i], [(x.dtype, i.shape)], axis=axis)


@spec("GatherND")
def gather_nd(b):
    batch = b.int(0, 1)
    x = b.any(b.tin(), 1 + batch, 4, least=1)
    depth = b.int(1, len(x.shape) - batch)
    outer = x.shape[:batch] + b.shape(0 if batch else 1, 2)
    i = np.zeros(outer + (depth,), np.int64)
    for k in range(depth):
        n = x.shape[batch + k]
        i[..., k] = b.rng.integers(-n, n, outer)
    b.node([x, b.control(i)], [(x.dtype, outer + x.shape[batch + depth :])], batch_dims=batch if batch or b.chance(0.3) else None)


def reduction(b):
    if not b.has_attr("reduction") or b.chance(0.3) or b.tin() in ("string", "bool"):
        return None
    return b.pick(["none", "add", "mul"] + (["min", "max"] if b.opset >= 18 else []))


@spec("ScatterElements Scatter")
def scatter_elements(b):
    x = b.any(b.tin(), 1, 3, least=1)
    axis = axis_of(b, len(x.shape))
    at = 0 if axis is None else axis % len(x.shape)
    shape, how = below(b, x.shape, at), reduction(b)
    t = b.tin(1)
    if how in (None, "none"):  # places must differ
        shape = tuple(min(d, x.shape[i]) if i == at else d for i, d in enumerate(shape))
        order = np.argsort(b.rng.random(shape[:at] + (x.shape[at],) + shape[at + 1 :]), axis=at)
        i = np.take(order, range(shape[at]), axis=at)
        i = b.control((i - (x.shape[at] if b.chance(0.3) else 0)).astype(values.numpy_of(t)))
    else:
        i = indices(b, shape, x.shape[at], t)
    b.node([x, i, b.data(x.dtype, shape)], [(x.dtype, x.shape)], axis=axis, reduction=how)


@spec("ScatterND")
def scatter_nd(b):
    x = b.any(b.tin(), 1, 3, least=1)
    depth, how = b.int(1, len(x.shape)), reduction(b)
    outer = b.shape(1, 2, 1)
    lead = x.shape[:depth]
    total, want = int(np.prod(lead)), int(np.prod(outer))
    if how in (None, "none"):
        if want > total:
            outer, want = (total,), total
        flat = b.rng.permutation(total)[:want]
    else:
        flat = b.rng.integers(0, total, want)
    i = np.stack(np.unravel_index(flat, lead), -1).reshape(outer + (depth,)).astype(np.int64)
    if b.chance(0.3):
        i -= np.array(lead, np.int64)
    b.node([x, b.control(i), b.data(x.dtype, outer + x.shape[depth:])], [(x.dtype, x.shape)], reduction=how)


@spec("TensorScatter")
def tensor_scatter(b):
    batch, length, rest = b.int(1, 3), b.int(1, 5), b.shape(1, 2, 1)
    axis = b.pick([None, 1, 1 - 2 - len(rest)] if len(rest) > 1 else [1, -1 - len(rest)])
    rank = 2 + len(rest)
    at = (-2 if axis is None else axis) % rank
    shape = [batch] + list(rest)
    shape.insert(at, length)
    mode = b.pick([None, "linear", "circular"])
    new = list(shape)
    new[at] = b.int(1, length)
    t = b.tin()
    first = b.rng.integers(0, length if mode == "circular" else length - new[at] + 1, batch)
    at_input = b.ints(first) if b.chance(0.8) else None
    b.node([b.data(t, shape), b.data(t, new), at_input], [(t, shape)], axis=axis, mode=mode)


@spec("Compress")
def compress(b):
    x = b.any(b.tin(), 1, 3)
    axis = b.int(-len(x.shape), len(x.shape) - 1) if b.chance(0.6) else None
    n = int(np.prod(x.shape)) if axis is None else x.shape[axis]
    cond = b.control(b.rng.random(b.int(0, n) if b.chance(0.3) else n) < 0.5)
    b.node([x, cond], [(x.dtype, None)], axis=axis)


@spec("OneHot")
def one_hot(b):
    depth = b.int(1, 5)
    t = b.tin(0, values.INTS + ("float",))
    unsigned = t.startswith("uint")
    shape = b.shape(0, 2)
    x = b.rng.integers(0 if unsigned else -depth - 1, depth + 2, shape)
    i = b.control(np.asarray(x).astype(values.numpy_of(t)))
    axis = b.int(-len(shape) - 1, len(shape)) if b.chance(0.6) else None
    at = len(shape) if axis is None or axis == -1 else axis % (len(shape) + 1)
    d = b.control(np.array(depth if b.chance(0.5) else [depth], values.numpy_of(b.tin(1, ("int64", "int32", "float")))))
    v = b.data(b.tin(2), (2,))
    b.node([i, d, v], [(v.dtype, shape[:at] + (depth,) + shape[at:])], axis=axis)


@spec("ReverseSequence")
def reverse_sequence(b):
    time, batch = b.int(1, 5), b.int(1, 4)
    first = b.chance(0.5)
    x = b.data(b.tin(), ((time, batch) if first else (batch, time)) + b.shape(0, 2))
    lens = b.ints(b.rng.integers(1, time + 1, batch))
    default = first and b.chance(0.5)
    b.node([x, lens], [(x.dtype, x.shape)], time_axis=None if default else 0 if first else 1,
           batch_axis=None if default else 1 if first else 0)


@spec("DepthToSpace SpaceToDepth")
def depth_space(b):
    k, n, c, h, w = b.int(1, 3), b.int(1, 2), b.int(1, 3), b.int(1, 3), b.int(1, 4)
    deep, wide = (n, c * k * k, h, w), (n, c, h * k, w * k)
    to_space = b.op == "DepthToSpace"
    x = b.data(b.tin(), deep if to_space else wide)
    b.node([x], [(x.dtype, wide if to_space else deep)], blocksize=k,
           mode=b.pick([None, "DCR", "CRD"]) if b.has_attr("mode") else None)


@spec("CenterCropPad")
def center_crop_pad(b):
    x = b.any(b.tin(), 1, 4, least=1)
    axes = some_axes(b, len(x.shape)) if b.chance(0.5) else None
    shape = list(x.shape)
    to = [b.int(1, 6) for _ in (axes if axes is not None else shape)]
    for a, n in zip(axes if axes is not None else range(len(shape)), to):
        shape[a] = n
    b.node([x, b.control(np.array(to, values.numpy_of(b.tin(1))))], [(x.dtype, shape)], axes=axes)


@spec("Constant")
def constant(b):
    kind = b.pick(["value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"])
    if kind == "value":
        t = b.tout()
        if t in values.CARRIED:
            t = "float"
        x = values.fill(b.rng, t, b.shape(0, 2), "any", b.level)
        from builder import tensor

        b.node([], [(t, x.shape)], value=tensor("", x, t))
        return
    base = kind[6:].rstrip("s")
    if base == "float":
        made = [float(v) for v in values.fill(b.rng, "float", (3,), "any", b.level)]
    elif base == "int":
        made = [int(v) for v in values.fill(b.rng, "int64", (3,), "any", b.level)]
    else:
        made = ["a", "", "\u00e4"]
    t = {"float": "float", "int": "int64", "string": "string"}[base]
    b.node([], [(t, (3,) if kind[-1] == "s" else ())], **{kind: made if kind[-1] == "s" else made[0]})


@spec("ConstantOfShape")
def constant_of_shape(b):
    from builder import tensor

    t, shape = b.tout(), b.shape(0, 3)
    if t in values.CARRIED:
        t = "float"
    given = b.chance(0.7)
    x = values.fill(b.rng, t, (1,), "any", b.level)
    b.node([b.ints(list(shape))], [(t if given else "float", shape)], value=tensor("", x, t) if given else None)


@spec("Einsum")
def einsum(b):
    t, sizes = b.tin(), {c: b.int(1, 4) for c in "abcd"}
    one = b.pick(["ab,bc->ac", "ab->ba", "ab->", "aab->ab", "ab,ab->a", "abc,abd->acd", "a,b->ab", "abc,cb->a", "...a,a...->...",
                  "ab,bc", "aa->a", "...ab,...bc->...ac", "abc->cab", "ab,b,a->a", " a b , b -> a "])
    left = one.split("->")[0].replace(" ", "").split(",")
    xs = [b.data(t, tuple(sizes[c] for c in p.replace("...", ""))) for p in left]
    b.node(xs, [(t, None)], equation=one)


@spec("Resize")
def resize(b):
    rank = b.pick([3, 4, 4, 5]) if b.chance(0.7) else b.int(1, 3)
    shape = [b.int(1, 3) if rank > 2 and i < 2 else b.int(1, 6) for i in range(rank)]
    x = b.data(b.tin(), shape)
    mode = b.pick([None, "nearest", "linear", "cubic"])
    axes = list(range(rank)) if rank < 3 else list(range(2, rank))
    attrs = {"mode": mode}
    if mode == "cubic" and (rank != 4):
        attrs["mode"] = mode = "linear"
    ct = b.pick([None, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
                + (["half_pixel_symmetric"] if b.opset >= 19 else []))
    attrs["coordinate_transformation_mode"] = ct
    if mode in (None, "nearest"):
        attrs["nearest_mode"] = b.pick([None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attrs["cubic_coeff_a"] = b.pick([None, -0.5])
        attrs["exclude_outside"] = b.pick([None, 0, 1])
    if b.has_attr("antialias") and mode in ("linear", "cubic") and b.chance(0.3):
        attrs["antialias"] = 1
    if b.has_attr("axes") and b.chance(0.4):
        attrs["axes"] = axes
    some = axes if "axes" in attrs else list(range(rank))
    roi = None
    if ct == "tf_crop_and_resize":
        n = len(some)
        start = [0.0 if a not in axes else round(float(b.rng.uniform(-0.2, 0.4)), 2) for a in some]
        end = [1.0 if a not in axes else round(float(b.rng.uniform(0.6, 1.2)), 2) for a in some]
        roi = b.control(np.array(start + end, values.numpy_of(b.tin(1, ("float", "double", "float16")))))
        attrs["extrapolation_value"] = b.pick([None, 2.5])
    if b.chance(0.5):
        scales = [1.0 if a not in axes else b.pick([0.5, 2.0, 1.5, 0.75, 3.0, 1.0, 0.6, 1.3]) for a in some]
        out = [int(np.floor(np.float32(shape[a]) * np.float32(s))) for a, s in zip(some, scales)]
        if 0 in out:
            scales = [2.0 if a in axes else 1.0 for a in some]
        ins = [x, roi, b.control(np.array(scales, np.float32))]
    else:
        to = [shape[a] if a not in axes else b.int(1, 9) for a in some]
        if b.has_attr("keep_aspect_ratio_policy") and b.chance(0.3):
            attrs["keep_aspect_ratio_policy"] = b.pick(["stretch", "not_larger", "not_smaller"])
            if attrs["keep_aspect_ratio_policy"] != "stretch" and "axes" not in attrs:
                attrs["axes"], to = axes, [b.int(1, 9) for _ in axes]
                if roi is not None:
                    attrs["coordinate_transformation_mode"], roi = "half_pixel", None
                    attrs.pop("extrapolation_value")
        ins = [x, roi, None, b.ints(to)]
    b.node(ins, [(x.dtype, None)], **attrs)


@spec("Upsample")
def upsample(b):
    raise __import__("builder").Skip("Upsample")  # ends with opset 9


@spec("Col2Im")
def col2im(b):
    n, c, h, w = b.int(1, 2), b.int(1, 3), b.int(3, 6), b.int(3, 6)
    kh, kw = b.int(1, 3), b.int(1, 3)
    strides = [b.int(1, 2), b.int(1, 2)] if b.chance(0.5) else None
    dil = [b.int(1, 2), 1] if b.chance(0.3) and h >= 6 else None
    pads = [b.int(0, 1) for _ in range(4)] if b.chance(0.4) else None
    s, d, p = strides or [1, 1], dil or [1, 1], pads or [0] * 4
    blocks = [(size + p[i] + p[i + 2] - d[i] * (k - 1) - 1) // s[i] + 1 for i, (size, k) in enumerate(((h, kh), (w, kw)))]
    if min(blocks) < 1:
        blocks, pads, dil, strides = [h - kh + 1, w - kw + 1], None, None, None
    x = b.data(b.tin(0, values.FLOATS + values.INTS), (n, c * kh * kw, blocks[0] * blocks[1]))
    b.node([x, b.ints([h, w]), b.ints([kh, kw])], [(x.dtype, (n, c, h, w))], strides=strides, dilations=dil, pads=pads)
