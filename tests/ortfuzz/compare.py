"""Whether two results agree.

Integers, booleans and strings must be equal.  So must floats of operators in EXACT, which IEEE 754 rounds once or which move
elements.  Other floats may differ by a few units in the last place, or by what the interpreter's own result changes when
every input, initializer and intermediate value changes by a few units: a bound that follows the conditioning of the model.
NaN, infinities and, in ZERO_SIGN, signs of zeros must be the same.
"""

import ml_dtypes
import numpy as np
import onnx

import engines
import values

MOVES = set(
    "Identity Transpose Reshape Flatten Squeeze Unsqueeze Slice Concat Split Gather GatherElements GatherND Scatter Tile Expand "
    "Pad Where Compress DepthToSpace SpaceToDepth ReverseSequence Constant ConstantOfShape Trilu OneHot CenterCropPad TensorScatter "
    "SequenceConstruct SequenceAt SequenceErase SequenceInsert ConcatFromSequence SplitToSequence Optional OptionalGetElement "
    "BitCast Unique EyeLike ArrayFeatureExtractor ExpandDims If SequenceMap".split()
)
ROUNDED_ONCE = set("Add Sub Mul Div Neg Abs Sqrt Floor Ceil Round Cast CastLike Reciprocal Max Min Relu Clip Sign Mod Shrink "
                   "TopK MaxPool GlobalMaxPool ReduceMax ReduceMin ThresholdedRelu IsNaN IsInf Hardmax MaxUnpool Binarizer Imputer "
                   "LabelEncoder BitShift".split())
EXACT = MOVES | ROUNDED_ONCE
# Without --exact rules may use another formula: a division becomes a product, two roundings become one.
REWRITTEN = set("Add Sub Mul Div Sqrt Reciprocal Mod".split())
ZERO_SIGN = MOVES | set("Neg Abs Add Sub Mul Div Sqrt Reciprocal Cast CastLike Floor Ceil Round".split())
# Formulas that add values of different sizes inside: a few units of the largest one, besides.
CANCEL = set("Gelu QuickGelu FastGelu BiasGelu Sigmoid Softplus Mish Celu Elu Selu Swish LogSoftmax Softmax SoftmaxCrossEntropyLoss "
             "ReduceLogSumExp LinearClassifier TreeEnsembleClassifier TreeEnsembleRegressor SVMClassifier SVMRegressor DFT STFT BlackmanWindow HannWindow HammingWindow "
             "Erf Tanh Exp LSTM GRU RNN LinearRegressor LpNormalization Resize GridSample RoiAlign AffineGrid MelWeightMatrix Attention "
             "LayerNormalization InstanceNormalization GroupNormalization BatchNormalization MeanVarianceNormalization Col2Im "
             "SkipLayerNormalization SkipSimplifiedLayerNormalization Inverse Det DeformConv ReduceMean ReduceSum Mean Sum BiasSoftmax "
             "RotaryEmbedding LinearAttention CumSum AveragePool GlobalAveragePool LRN RMSNormalization Einsum FusedGemm FusedConv "
             "NegativeLogLikelihoodLoss Conv ConvTranspose MatMul Gemm FusedMatMul TransposeMatMul Scaler Normalizer".split())
# Those of them that make each element of one: there it is that element's size which counts.
ELEMENTWISE = set("Gelu QuickGelu FastGelu BiasGelu Sigmoid Softplus Mish Celu Elu Selu Swish Erf Tanh Exp".split())
# Sums and products of many terms: their roundings depend on the order.
TERMS = set("ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceProd GlobalAveragePool GlobalLpPool LpPool AveragePool CumSum CumProd Sum Mean "
            "MatMul Gemm Conv ConvTranspose Einsum FusedMatMul TransposeMatMul".split())
STAGED = {"RMSNormalization"}  # a first stage in the type of an operand, which may be narrower than the result's
UNITS, NOISE, RUNS, FACTOR = 4, 4, 24, 16


class Difference:
    """The first place where two results differ."""

    def __init__(self, output, kind, text, mine=None, theirs=None, bad=None):
        self.output, self.kind, self.text, self.mine, self.theirs = output, kind, text, mine, theirs
        self.bad = bad  # which elements differ; None where it is the shape, the type or the number of results
        self.shapes = tuple(np.shape(x) for x in (mine, theirs))

    def __str__(self):
        return f"output {self.output}: {self.text}"


def _bits(x):
    return x.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[x.dtype.itemsize])


def _wrong(a, b, ops, exact_only, loose_zero):
    """A mask of the elements that differ; None where all agree."""
    if a.dtype.kind != "f":
        return a != b
    same = (_bits(a) == _bits(b)) | ((a != a) & (b != b))
    if loose_zero or not ops <= ZERO_SIGN:
        same |= a == b
    if same.all():
        return None
    bad = ~same
    if exact_only:
        return bad
    with np.errstate(all="ignore"):
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        info = ml_dtypes.finfo(a.dtype)
        room = UNITS * (float(info.eps) * np.maximum(np.abs(wide_a), np.abs(wide_b)) + float(info.smallest_subnormal))
        bad &= ~((np.abs(wide_a - wide_b) <= room) & np.isfinite(wide_a) & np.isfinite(wide_b))
    return bad if bad.any() else None


def compare(case, mine, theirs, interp=None, loose_zero=False, judge=None):
    """None, or the first Difference.  `interp` runs the interpreter again for the bound; None: there is no bound.  `judge`, given
    a Difference, says where the first result is wrong by others in a wider type: there is no bound there."""
    if len(mine) != len(theirs):
        return Difference(0, "count", f"{len(mine)} outputs, the other has {len(theirs)}")
    ops = case.ops - {"Cast"} if len(case.ops) > 1 else case.ops
    exact = ops <= (EXACT - REWRITTEN if loose_zero else EXACT)
    # ONNX Runtime computes neighbouring nodes of 16-bit floats in float32, without rounding what goes between them.
    if any(v.dtype in ("float16", "bfloat16") for v in case.vals.values()) and not carried_node(case):
        exact = False
    noise = None
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if isinstance(b, list) and b and isinstance(b[0], dict):
            if not same_maps(a, b):
                return Difference(i, "value", f"{a}, the other has {b}"[:200])
            continue
        if b is None or isinstance(b, (list, dict)):
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype and not (a.dtype.kind in "OUS" and b.dtype.kind in "OUS"):
            return Difference(i, "dtype", f"{a.dtype}, the other has {b.dtype}", a, b)
        if a.shape != b.shape:
            return Difference(i, "shape", f"shape {a.shape}, the other has {b.shape}", a, b)
        if case.notes.get("random") or a.size == 0:
            continue
        if a.dtype.kind in "OUS":
            a, b = np.array([str(v) for v in a.reshape(-1)]), np.array([str(v) for v in b.reshape(-1)])
        bad = _wrong(a, b, ops, exact, loose_zero)
        if bad is None or not bad.any():
            continue
        chain = len(case.model.graph.node) > 1 and not exact
        if interp is not None and (a.dtype.kind == "f" and not exact or chain):
            noise = noise or Noise(case, interp)
            wrong = judge(Difference(i, "value", "", a, b, bad)) if judge is not None and a.dtype.kind == "f" else False
            bad = bad & (wrong | ~noise.explains(i, a, b, bad, room_of(case, a, ops) + order_room(case, a, i, ops, interp)))
            if not bad.any():
                continue
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        return Difference(i, "value", f"{int(bad.sum())} of {bad.size} differ, at {[int(k) for k in at]}: {a[at]!r}, the other has {b[at]!r}",
                          a, b, bad)
    return None


def carried_node(case):
    """Whether the model is one node, beside Casts of operands that lose nothing and of results: then nothing goes between nodes."""
    nodes = case.model.graph.node
    casts = [n for n in nodes if n.op_type == "Cast"]
    given = {**{t.name: t for t in case.model.graph.initializer}, **case.feeds}

    def keeps(n):
        x = given.get(n.input[0])
        if x is None:
            return n.output[0] not in case.vals  # carries a result out of the model
        x = onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)
        to = next(a.i for a in n.attribute if a.name == "to")
        narrow = next(t for t, _ in values.TYPES.items() if values.number(t) == to)
        return x.dtype.kind in "fiu" and narrow in values.CARRIED and np.array_equal(x, x.astype(values.numpy_of(narrow)).astype(x.dtype), equal_nan=x.dtype.kind == "f")

    return len(nodes) - len(casts) <= 1 and (len(nodes) == 1 or all(keeps(n) for n in casts))


def same_maps(a, b):
    """Whether two sequences of maps are equal, whatever the order of their keys; NaN is NaN."""
    equal = lambda x, y: x == y or (x != x and y != y)
    return len(a) == len(b) and all(x.keys() == y.keys() and all(equal(x[k], y[k]) for k in x) for x, y in zip(a, b))


def room_of(case, a, ops):
    """What sums of values of different sizes may lose."""
    if a.dtype.kind != "f" or not ops & CANCEL:
        return 0.0
    room = 2 * UNITS * float(ml_dtypes.finfo(a.dtype).eps)
    if ops & STAGED:
        room = max([room] + [2 * UNITS * float(ml_dtypes.finfo(values.numpy_of(v.dtype)).eps) for v in case.vals.values() if v.dtype in values.FLOATS])
    if len(ops) == 1 and ops <= ELEMENTWISE:
        fit = [np.abs(np.asarray(x).astype(np.float64)) for x in case.feeds.values() if np.shape(x) == a.shape]
        return room * np.maximum(1, np.max([np.where(np.isfinite(x), x, 0) for x in fit] or [np.zeros(a.shape)], axis=0))
    return room * largest([a, *case.feeds.values()])


def order_room(case, a, i, ops, interp):
    """How far sums of the same terms may be apart: the number of terms, times a unit, times the sum of the magnitudes."""
    if a.dtype.kind != "f" or len(ops) != 1 or not ops <= TERMS or len(case.model.graph.node) != 1:
        return 0.0
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    absolute = lambda x: np.abs(x) if x.dtype.kind == "f" else x
    sizes = [np.size(x) for x in case.feeds.values() if np.asarray(x).dtype.kind == "f"]
    for t in model.graph.initializer:
        x = onnx.numpy_helper.to_array(t)
        if x.dtype.kind == "f":
            sizes.append(x.size)
            t.CopyFrom(onnx.numpy_helper.from_array(absolute(x), t.name))
    for attribute in model.graph.node[0].attribute:  # Gemm's factors of the sum and of what is added to it
        if attribute.name in ("alpha", "beta"): attribute.f = abs(attribute.f)
    try:
        y = np.asarray(interp(model.SerializeToString(), {n: absolute(np.asarray(x)) for n, x in case.feeds.items()})[i]).astype(np.float64)
    except engines.Refused:
        return 0.0
    reduces = len(sizes) == 1 and not ops & {"CumSum", "CumProd"}
    terms = -(-sizes[0] // max(a.size, 1)) if reduces else min(sizes, default=1)
    if ops & {"LpPool", "AveragePool"}:
        terms = sizes[0]
    return np.where(np.isfinite(y), terms * float(ml_dtypes.finfo(a.dtype).eps) * y, 0.0) if y.shape == a.shape else 0.0


def largest(arrays):
    """The largest finite magnitude, at least 1."""
    most = 1.0
    for x in map(np.asarray, arrays):
        if x.dtype.kind == "f" and x.size:
            x = np.abs(x.astype(np.float64))
            most = max(most, float(np.max(np.where(np.isfinite(x), x, 0))))
    return most


def within(a, b, base, runs, room):
    """Where a and b are as close as the interpreter's result `base` is to those of perturbed runs."""
    if not runs or base is None or base.shape != a.shape:
        return np.zeros(a.shape, bool)
    if a.dtype.kind != "f":
        return np.any([(r != base) if r.shape == a.shape else np.ones(a.shape, bool) for r in runs], axis=0)
    with np.errstate(all="ignore"):
        wide, other, x = base.astype(np.float64), b.astype(np.float64), a.astype(np.float64)
        spread, unstable = np.zeros(a.shape), np.zeros(a.shape, bool)
        for r in runs:
            if r.shape != a.shape:
                return np.ones(a.shape, bool)
            r = r.astype(np.float64)
            both = np.isfinite(r) & np.isfinite(wide)
            unstable |= ~both & ~((r == wide) | ((r != r) & (wide != wide)))
            spread = np.maximum(spread, np.where(both, np.abs(r - wide), 0))
        info = ml_dtypes.finfo(a.dtype)
        room = room + FACTOR * spread + UNITS * float(info.eps) * np.abs(wide)
        return unstable | ((np.abs(x - other) <= room) & np.isfinite(x) & np.isfinite(other))


class Noise:
    """The interpreter's results, and those when every float changes by some units in the last place: as many as are asked for."""

    def __init__(self, case, interp):
        self.case, self.interp, self.rng = case, interp, np.random.default_rng(1)
        self.names = {v.name: v for v in case.vals.values() if v.dtype in values.FLOATS}
        self.most = largest(case.feeds.values())
        self.base, self.runs, self.count = self.run(case.model, case.feeds), [], 0

    def run(self, model, feeds):
        try:
            return [np.asarray(x) for x in self.interp(model.SerializeToString(), feeds)]
        except engines.Refused:
            return None

    def explains(self, i, a, b, bad, room):
        """Where the results `a` and `b` of output i are as close as perturbed ones.  More runs can only explain more, so that a
        difference that the first ones explain needs no others."""
        hit = np.zeros(a.shape, bool)
        for count in (1, 2, 4, 8, RUNS):
            while self.base is not None and self.count < count:
                self.runs.append(self.run(*self.perturbed()))
                self.count += 1
            hit = within(a, b, self.base and self.base[i], [r[i] for r in self.runs[:count] if r is not None], room)
            if not (bad & ~hit).any():
                break
        return hit

    def perturbed(self):
        """The next perturbed model and its inputs."""
        rng, case = self.rng, self.case
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        feeds = {n: with_noise(rng, x) for n, x in case.feeds.items()}
        for t in model.graph.initializer:
            x = onnx.numpy_helper.to_array(t)
            if x.dtype.kind == "f" and x.size:
                t.CopyFrom(onnx.numpy_helper.from_array(with_noise(rng, x), t.name))
        nodes = list(model.graph.node)
        if len(nodes) > 1:
            del model.graph.node[:]
            for n in nodes:
                made = [(k, o) for k, o in enumerate(n.output) if o in self.names]
                for k, o in made:
                    n.output[k] = o + "_exact"
                model.graph.node.append(n)
                for _, o in made:
                    self.perturb(model.graph, n.op_type, o)
        return model, feeds

    def perturb(self, graph, op, name):
        """Nodes that change a result by some units: by a factor, and by a term, so that zeros change too."""
        v = self.names[name]
        t, shape, info = values.numpy_of(v.dtype), v.shape or (), ml_dtypes.finfo(values.numpy_of(v.dtype))
        factor = np.asarray(1 + float(info.eps) * NOISE * self.rng.uniform(-1, 1, shape)).astype(t)
        tiny = float(info.smallest_subnormal)
        if op in CANCEL:  # what its sums may lose
            tiny = max(tiny, 2 * float(info.eps) * (min(self.most, 128.0) if op in ELEMENTWISE else self.most))
        term = np.array((self.count % 3 - 1) * UNITS * tiny, t)
        for suffix, x in (("_by", factor), ("_tiny", term)):
            graph.initializer.append(onnx.helper.make_tensor(name + suffix, values.number(v.dtype), x.shape, x.tobytes(), raw=True))
        graph.node.append(onnx.helper.make_node("Mul", [name + "_exact", name + "_by"], [name + "_scaled"]))
        graph.node.append(onnx.helper.make_node("Add", [name + "_scaled", name + "_tiny"], [name]))


def with_noise(rng, x):
    if isinstance(x, dict) or x.dtype.kind != "f":
        return x
    with np.errstate(all="ignore"):
        eps = float(np.finfo(x.dtype).eps)
        return (x.astype(np.float64) * (1 + NOISE * eps * rng.uniform(-1, 1, x.shape))).astype(x.dtype)
