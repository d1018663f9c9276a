"""Sequences, optionals, control flow, strings, classical machine learning, ONNX Runtime's own operators."""

import numpy as np
from onnx import TensorProto, helper

from registry import spec
from builder import Skip, Val
import values

SIMPLE = ("float", "double", "int32", "int64", "bool", "string", "uint8", "float16", "int8", "uint64")


def element(b):
    return b.pick(SIMPLE)


def sequence(b, t, shapes):
    xs = [b.data(t, s) for s in shapes]
    return b.extra("SequenceConstruct", xs, [(None, None)])[0]


def position(b, n, extra=0):
    dtype = b.pick([np.int32, np.int64])
    return b.control(np.array(b.int(-n, n - 1 + extra), dtype))


@spec("SequenceConstruct SequenceAt SequenceLength SequenceErase SequenceInsert SequenceEmpty ConcatFromSequence")
def sequences(b):
    t, n, shape = element(b), b.int(1, 4), b.shape(1, 3)
    kind = b.op
    if kind == "SequenceEmpty":
        s = b.extra(kind, [], [(None, None)], **({} if t == "float" and b.chance(0.5) else {"dtype": values.number(t)}))[0]
        b.coverage.append(("", kind, 11, (t,), ("dtype",)))
        b.extra("SequenceLength", [s], [("int64", ())])
        return
    s = sequence(b, t, [shape] * n)
    b.coverage.append(("", kind, 11, (t,), ()))
    if kind == "SequenceLength":
        b.extra(kind, [s], [("int64", ())])
        return
    if kind == "SequenceErase" and n > 1:
        s = b.extra(kind, [s] + ([position(b, n)] if b.chance(0.7) else []), [(None, None)])[0]
        n -= 1
    if kind == "SequenceInsert":
        s = b.extra(kind, [s, b.data(t, shape)] + ([position(b, n, 1)] if b.chance(0.7) else []), [(None, None)])[0]
        n += 1
    if kind == "ConcatFromSequence" or b.chance(0.3):
        new = b.chance(0.4)
        rank = len(shape) + new
        axis = b.int(-rank, rank - 1)
        attrs = {"new_axis": int(new)} if new or b.chance(0.3) else {}
        b.extra("ConcatFromSequence", [s], [(t, None)], axis=axis, **attrs)
        b.coverage.append(("", "ConcatFromSequence", 11, (t,), ("axis", *attrs)))
        return
    for i in range(n):
        b.extra("SequenceAt", [s, b.control(np.array(i - n if b.chance(0.3) else i, np.int64))], [(t, shape)])


@spec("SplitToSequence")
def split_to_sequence(b):
    t = element(b)
    shape = list(b.shape(1, 3, 1))
    axis = b.int(-len(shape), len(shape) - 1)
    attrs, ins, size = {"axis": axis}, [], shape[axis]
    form = b.int(0, 2)
    if form == 0:
        cut = sorted(b.int(0, size) for _ in range(2))
        ins, n = [b.ints([cut[0], cut[1] - cut[0], size - cut[1]])], 3
    elif form == 1:
        step = b.int(1, 3)
        ins, n = [b.control(np.array(step, np.int64))], -(-size // step)
    else:
        n = size
        if b.chance(0.6):
            attrs["keepdims"] = b.int(0, 1)
    x = b.data(t, shape)
    b.coverage.append(("", "SplitToSequence", 11, (t,), tuple(attrs)))
    s = b.extra("SplitToSequence", [x] + ins, [(None, None)], **attrs)[0]
    b.extra("SequenceLength", [s], [("int64", ())])
    b.extra("SequenceAt", [s, b.control(np.array(b.int(-n, n - 1), np.int64))], [(t, None)])


@spec("SequenceMap")
def sequence_map(b):
    t, n = b.pick(("float", "int64", "double")), b.int(1, 3)
    s = sequence(b, t, [b.shape(1, 2) for _ in range(n)])
    info = helper.make_tensor_value_info("e", values.number(t), None)
    out = helper.make_tensor_value_info("r", values.number(t), None)
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["r"])], "body", [info], [out])
    b.coverage.append(("", "SequenceMap", 17, (t,), ("body",)))
    r = b.extra("SequenceMap", [s], [(None, None)], body=body)[0]
    b.extra("SequenceAt", [r, b.control(np.array(b.int(0, n - 1), np.int64))], [(t, None)])


@spec("Optional OptionalHasElement OptionalGetElement")
def optional(b):
    t = element(b)
    x = b.any(t)
    b.coverage.append(("", b.op, 15, (t,), ()))
    o = b.extra("Optional", [x], [(None, None)])[0]
    if b.op == "OptionalHasElement":
        b.extra("OptionalHasElement", [o], [("bool", ())])
    else:
        b.extra("OptionalGetElement", [o], [(t, x.shape)])


# ---- control flow ----


def graph_of(nodes, name, ins, outs):
    make = lambda v: helper.make_tensor_value_info(v[0], values.number(v[1]), v[2])
    return helper.make_graph(nodes, name, [make(v) for v in ins], [make(v) for v in outs])


NUMBERS = ("float", "double", "int32", "int64")


@spec("If")
def if_(b):
    t, shape = b.pick(NUMBERS), b.shape(0, 3)
    x, y = b.data(t, shape), b.data(t, b.broadcastable(shape))
    cond = b.control(np.array(b.chance(0.5)))
    op = b.pick(["Add", "Mul", "Sub"])
    one = graph_of([helper.make_node(op, [x.name, y.name], ["p"])], "then", [], [("p", t, None)])
    two = graph_of([helper.make_node("Neg", [x.name], ["q"])], "else", [], [("q", t, None)])
    b.node([cond], [(t, shape)], then_branch=one, else_branch=two)


@spec("Loop")
def loop(b):
    t, shape = b.pick(NUMBERS), b.shape(0, 2, 1)
    start, add = b.data(t, shape, "small"), b.data(t, shape, "small")
    trips = b.int(0, 4)
    m = b.control(np.array(trips, np.int64))
    stop = b.int(1, 5)
    nodes = [
        helper.make_node("Add", ["v", add.name], ["w"]),
        helper.make_node("Identity", ["w"], ["scan"]),
        helper.make_node("Constant", [], ["limit"], value_int=stop),
        helper.make_node("Less", ["i", "limit"], ["go"]),
    ]
    body = graph_of(nodes, "body", [("i", "int64", []), ("c", "bool", []), ("v", t, list(shape))],
                    [("go", "bool", []), ("w", t, list(shape)), ("scan", t, list(shape))])
    n = min(trips, stop + 1)
    cond = b.control(np.array(True)) if b.chance(0.5) else None
    b.node([m, cond, start], [(t, shape), (t, (n,) + shape)], body=body)


@spec("Scan")
def scan(b):
    t, shape, n = b.pick(NUMBERS), b.shape(0, 2, 1), b.int(1, 4)
    s0, xs = b.data(t, shape, "small"), b.data(t, (n,) + shape, "small")
    nodes = [helper.make_node(b.pick(["Add", "Sub"]), ["s", "x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["y"])]
    body = graph_of(nodes, "body", [("s", t, list(shape)), ("x", t, list(shape))], [("t", t, list(shape)), ("y", t, list(shape))])
    attrs = {}
    if b.chance(0.4):
        attrs["scan_input_directions"] = [b.int(0, 1)]
    if b.chance(0.4):
        attrs["scan_output_directions"] = [b.int(0, 1)]
    if b.chance(0.2):
        attrs.update(scan_input_axes=[0], scan_output_axes=[0])
    b.node([s0, xs], [(t, shape), (t, (n,) + shape)], body=body, num_scan_inputs=1, **attrs)


# ---- strings ----


@spec("StringConcat")
def string_concat(b):
    x = b.any("string")
    b.node([x, b.data("string", b.broadcastable(x.shape))], [("string", x.shape)])


@spec("StringSplit")
def string_split(b):
    x = b.any("string", 0, 2, least=1)
    b.node([x], [("string", None), ("int64", x.shape)], delimiter=b.pick([None, ",", " ", "b", ""]),
           maxsplit=b.pick([None, 0, 1, 5]))


@spec("StringNormalizer")
def string_normalizer(b):
    x = b.data("string", (b.int(1, 5),) if b.chance(0.7) else (1, b.int(1, 5)))
    stop = b.pick([None, ["a", "the"], ["Ab c"]])
    b.node([x], [("string", None)], case_change_action=b.pick([None, "LOWER", "UPPER", "NONE"]),
           is_case_sensitive=b.pick([None, 0, 1]), stopwords=stop, locale=b.pick([None, None, "en_US"]))


@spec("RegexFullMatch")
def regex(b):
    x = b.any("string")
    b.node([x], [("bool", x.shape)], pattern=b.pick(["a+b?", ".*", "[A-Z].*", "", "(a|b)+", "\\d+(\\.\\d+)?", "-?[0-9.]+"]))


@spec("TfIdfVectorizer")
def tf_idf(b):
    t = b.tin()
    n = b.int(1, 8)
    x = b.data(t, (n,) if b.chance(0.6) else (b.int(1, 2), n), (0, 4) if t != "string" else "any")
    pool = {"pool_int64s": [0, 1, 2, 0, 1, 1, 2]} if t != "string" else {"pool_strings": ["a", "b", "ab", "a", "b", "b", "a"]}
    order = [int(i) for i in b.rng.permutation(5)]
    weights = {"weights": [1.0, 2.0, 0.5, 3.0, 0.25]} if b.chance(0.5) else {}
    low = b.int(1, 2)
    b.node([x], [("float", None)], mode=b.pick(["TF", "IDF", "TFIDF"]), min_gram_length=low, max_gram_length=2,
           max_skip_count=b.int(0, 2), ngram_counts=[0, 3], ngram_indexes=order, **pool, **weights)


# ---- ai.onnx.ml ----

ML = "ai.onnx.ml"


def floats(b, n, kind="small"):
    return [float(v) for v in values.fill(b.rng, "float", (n,), kind, 0)]


@spec("ArrayFeatureExtractor", ML)
def feature_extractor(b):
    x = b.any(b.tin(), 1, 3, least=1)
    i = b.ints(b.rng.integers(0, x.shape[-1], (b.int(1, 3),)))
    b.node([x, i], [(x.dtype, None)])


@spec("Binarizer", ML)
def binarizer(b):
    x = b.any(b.tin())
    b.node([x], [(x.dtype, x.shape)], threshold=b.pick([None, 0.5, -1.0]))


@spec("CategoryMapper", ML)
def category_mapper(b):
    t = b.tin()
    x = b.any(t) if t == "string" else b.data(t, b.shape(), (-2, 4))
    b.node([x], [("int64" if t == "string" else "string", x.shape)], cats_int64s=[0, 1, 2, -1], cats_strings=["a", "b", "", "A"],
           default_int64=b.pick([None, 7]), default_string=b.pick([None, "other"]))


@spec("FeatureVectorizer", ML)
def feature_vectorizer(b):
    t, n = b.tin(0), b.int(1, 3)
    sizes = [b.int(1, 3) for _ in range(b.int(1, 3))]
    b.node([b.data(t, (n, s), "small") for s in sizes], [("float", (n, sum(sizes)))], inputdimensions=sizes)


@spec("Imputer", ML)
def imputer(b):
    t = b.tin(0, ("float", "int64"))
    x = b.any(t, 2, 2, least=1)
    n = x.shape[1] if b.chance(0.5) else 1
    if t == "float":
        attrs = {"imputed_value_floats": floats(b, n), "replaced_value_float": b.pick([float("nan"), 0.0, 1.0])}
    else:
        attrs = {"imputed_value_int64s": [b.int(-9, 9) for _ in range(n)], "replaced_value_int64": b.pick([0, 1, -1, 2**63 - 1])}
    b.node([x], [(t, x.shape)], **attrs)


@spec("LabelEncoder", ML)
def label_encoder(b):
    tk, tv = b.pick(["string", "int64", "float"]), b.pick(["string", "int64", "float"])
    if b.ml_opset < 2:
        raise Skip("LabelEncoder")
    keys = {"string": ["a", "b", "", "A"], "int64": [0, 1, -1, 2**63 - 1, -(2**63)], "float": [0.5, float("nan"), 1.5, -2.5, 0.0]}[tk]
    vals = {"string": ["x", "", "z", "w", "v"], "int64": [5, -6, 2**63 - 1, -(2**63), 9], "float": [0.25, float("nan"), -0.0, 3.0, 1.0]}[tv]
    x = b.any(tk)
    if b.ml_opset >= 4 and b.chance(0.3):
        from builder import tensor

        put = lambda v, t: tensor("", np.array(v, object if t == "string" else values.numpy_of(t)), t)
        n = len(keys)
        last = {"string": "no", "int64": 77, "float": 0.75}[tv]
        b.node([x], [(tv, x.shape)], keys_tensor=put(keys, tk), values_tensor=put(vals[:n], tv), default_tensor=put([last], tv))
        return
    default = {"string": b.pick([None, "no"]), "int64": b.pick([None, 77]), "float": b.pick([None, 0.75])}[tv]
    b.node([x], [(tv, x.shape)], **{f"keys_{tk}s": keys, f"values_{tv}s": vals[: len(keys)], f"default_{tv}": default})


@spec("LinearRegressor LinearClassifier SVMRegressor SVMClassifier", ML)
def linear(b):
    t = b.tin(0, ("float", "double", "int64", "int32"))
    n, f = b.int(1, 3), b.int(1, 4)
    x = b.data(t, (n, f), "small")
    post = b.pick([None, "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
    if b.op == "LinearRegressor":
        k = b.int(1, 3)
        b.node([x], [("float", (n, k))], coefficients=floats(b, k * f), intercepts=floats(b, k) if b.chance(0.7) else None,
               targets=k if k > 1 else None, post_transform=post if post in (None, "NONE") else None)
        return
    labels = {"classlabels_ints": [3, 1, 2]} if b.chance(0.5) else {"classlabels_strings": ["c", "a", "b"]}
    tl = "int64" if "classlabels_ints" in labels else "string"
    if b.op == "LinearClassifier":
        b.node([x], [(tl, (n,)), ("float", (n, 3))], coefficients=floats(b, 3 * f), intercepts=floats(b, 3),
               post_transform=post, multi_class=b.pick([None, 0, 1]), **labels)
        return
    kernel = b.pick(["LINEAR", "RBF", "POLY", "SIGMOID"])
    params = [0.5, 0.25, 2.0]
    if b.op == "SVMRegressor":
        m = b.int(1, 3)
        b.node([x], [("float", (n, 1))], kernel_type=kernel, kernel_params=params, n_supports=m, support_vectors=floats(b, m * f),
               coefficients=floats(b, m), rho=[0.25], one_class=b.pick([None, 0, 1]))
        return
    per = [1, 2, 1]
    attrs = {}
    if b.chance(0.3):
        attrs = {"prob_a": floats(b, 3), "prob_b": floats(b, 3)}
    b.node([x], [(tl, (n,)), ("float", None)], kernel_type=kernel, kernel_params=params, vectors_per_class=per,
           support_vectors=floats(b, 4 * f), coefficients=floats(b, 8), rho=floats(b, 3), post_transform=b.pick([None, "NONE"]),
           **attrs, **labels)


@spec("Normalizer", ML)
def normalizer(b):
    x = b.data(b.tin(), (b.int(1, 3), b.int(1, 4)) if b.chance(0.7) else (b.int(1, 4),), "small")
    b.node([x], [("float", x.shape)], norm=b.pick([None, "MAX", "L1", "L2"]))


@spec("OneHotEncoder", ML)
def one_hot_encoder(b):
    t = b.tin()
    if t == "string":
        x, cats = b.any(t, 0, 2), {"cats_strings": ["a", "b", ""]}
    else:
        x, cats = b.data(t, b.shape(0, 2), (0, 4)), {"cats_int64s": [0, 1, 3]}
    b.node([x], [("float", x.shape + (3,))], zeros=b.pick([None, 1]), **cats)


@spec("Scaler", ML)
def scaler(b):
    x = b.data(b.tin(), (b.int(1, 3), b.int(1, 4)), "small")
    n = x.shape[1] if b.chance(0.6) else 1
    b.node([x], [("float", x.shape)], offset=floats(b, n), scale=floats(b, n))


LABELS = {"int64": [3, 1, -7, 2**63 - 1, 0], "string": ["c", "a", "", "b", "\u00e4"]}


@spec("ZipMap", ML)
def zip_map(b):
    key, n = b.pick(["int64", "string"]), b.int(1, 5)
    x = b.data("float", (n,) if b.chance(0.2) else (b.int(1, 4), n))
    b.node([x], [(f"seq(map({key},float))", None)], **{f"classlabels_{key}s": LABELS[key][:n]})


@spec("CastMap", ML)
def cast_map(b):
    value, sparse = b.pick(["float", "float", "float", "string"]), b.chance(0.5)
    most = b.int(1, 6)
    n = b.int(1, most)
    m = b.map_of("int64", value, n, list(range(most)) if sparse else [-(2**63), -5, 0, 7, 9, 2**63 - 1])
    if value == "string":
        b.feeds[m.name] = {k: b.pick(["1", "-3", "25"]) for k in b.feeds[m.name]}
    to = b.pick(["float", "string", "int64"] if value == "string" else ["float", "int64"])
    b.node([m], [(to, (1, most if sparse else n))], cast_to=f"TO_{to.upper()}", map_form="SPARSE" if sparse else b.pick([None, "DENSE"]),
           max_map=most if sparse else None)


@spec("DictVectorizer", ML)
def dict_vectorizer(b):
    key, value = b.pick(["string", "int64"]), "float"  # ONNX Runtime's Python interface makes maps of floats alone
    if b.chance(0.2):
        value = b.pick(["double", "int64" if key == "string" else "string"])
    vocabulary = LABELS[key][: b.int(1, 5)]
    m = b.map_of(key, value, b.int(0 if b.chance(0.1) else 1, len(vocabulary)), vocabulary)
    b.node([m], [(value, (1, len(vocabulary)))], **{f"{key}_vocabulary": vocabulary})


def a_tree(b, f):
    """One tree of three splits and four leaves, in arrays."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    mode = b.pick(modes)
    return {
        "nodes_treeids": [0] * 7, "nodes_nodeids": list(range(7)), "nodes_featureids": [b.int(0, f - 1) for _ in range(3)] + [0] * 4,
        "nodes_modes": [mode] * 3 + ["LEAF"] * 4, "nodes_values": floats(b, 3) + [0.0] * 4,
        "nodes_truenodeids": [1, 3, 5, 0, 0, 0, 0], "nodes_falsenodeids": [2, 4, 6, 0, 0, 0, 0],
        "nodes_missing_value_tracks_true": [b.int(0, 1) for _ in range(7)] if b.chance(0.4) else None,
        "nodes_hitrates": [1.0] * 7 if b.chance(0.2) else None,
    }


def as_tensors(b, attrs, names):
    """Numbers of a tree as tensors of type double, which is how an input of type double is met exactly."""
    from builder import tensor

    for name in names:
        if attrs.get(name) is not None:
            attrs[name + "_as_tensor"] = tensor("", np.array(attrs.pop(name), np.float64), "double")


@spec("TreeEnsembleRegressor TreeEnsembleClassifier", ML)
def trees(b):
    t, n, f = b.tin(), b.int(1, 4), b.int(1, 3)
    wide = b.ml_opset >= 3 and t == "double" and b.chance(0.5)
    x = b.data(t, (n, f), "any" if b.chance(0.3) else "small")
    attrs = a_tree(b, f)
    if b.op == "TreeEnsembleRegressor":
        k = b.int(1, 2)
        attrs.update(target_treeids=[0] * 4, target_nodeids=[3, 4, 5, 6], target_ids=[b.int(0, k - 1) for _ in range(4)],
                     target_weights=floats(b, 4), n_targets=k, base_values=floats(b, k) if b.chance(0.4) else None,
                     aggregate_function=b.pick([None, "SUM", "AVERAGE", "MIN", "MAX"]),
                     post_transform=b.pick([None, "NONE", "LOGISTIC"]))
        if wide:
            as_tensors(b, attrs, ("nodes_values", "target_weights", "base_values", "nodes_hitrates"))
        b.node([x], [("float", (n, k))], **attrs)
        return
    labels = {"classlabels_int64s": [3, 1, 2]} if b.chance(0.5) else {"classlabels_strings": ["c", "a", "b"]}
    tl = "int64" if "classlabels_int64s" in labels else "string"
    attrs.update(class_treeids=[0] * 4, class_nodeids=[3, 4, 5, 6], class_ids=[0, 1, 2, b.int(0, 2)], class_weights=floats(b, 4, "positive"),
                 base_values=floats(b, 3) if b.chance(0.3) else None, post_transform=b.pick([None, "NONE", "SOFTMAX", "LOGISTIC"]))
    if wide:
        as_tensors(b, attrs, ("nodes_values", "class_weights", "base_values", "nodes_hitrates"))
    b.node([x], [(tl, (n,)), ("float", (n, 3))], **attrs, **labels)


@spec("TreeEnsemble", ML)
def tree_ensemble(b):
    t, n, f = b.tin(), b.int(1, 4), b.int(1, 3)
    from builder import tensor

    put = lambda v, dtype: tensor("", np.array(v, values.numpy_of(dtype)), dtype)
    x = b.data(t, (n, f), "any" if b.chance(0.3) else "small")
    b.node([x], [(t, (n, 1))], nodes_featureids=[b.int(0, f - 1) for _ in range(3)], nodes_splits=put(floats(b, 3), t),
           nodes_modes=put([b.int(0, 5) for _ in range(3)], "uint8"), nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1],
           nodes_falsenodeids=[2, 1, 3], nodes_falseleafs=[0, 1, 1], leaf_targetids=[0] * 4, leaf_weights=put(floats(b, 4), t),
           nodes_missing_value_tracks_true=[b.int(0, 1) for _ in range(3)] if b.chance(0.4) else None,
           nodes_hitrates=put([1.0, 2.0, 3.0], t) if b.chance(0.2) else None,
           tree_roots=[0], n_targets=1, aggregate_function=b.pick([None, 0, 1, 2, 3]), post_transform=b.pick([None, 0]))


# ---- com.microsoft ----

MS = "com.microsoft"
MS_FLOATS = ("float", "float16", "double")


@spec("Gelu QuickGelu FastGelu BiasGelu", MS)
def ms_gelu(b):
    t, shape = b.pick(MS_FLOATS[:2]), b.shape(1, 3, 1)
    ins, attrs = [b.data(t, shape)], {}
    if b.op in ("FastGelu", "BiasGelu") and (b.op == "BiasGelu" or b.chance(0.5)):
        ins.append(b.data(t, shape[-1:], "small"))
    if b.op == "QuickGelu":
        attrs["alpha"] = b.pick([None, 1.0])
    b.node(ins, [(t, shape)], **attrs)


@spec("FusedMatMul TransposeMatMul", MS)
def fused_mat_mul(b):
    t, m, n, k = b.pick(("float", "double")), b.int(1, 4), b.int(1, 4), b.int(1, 5)
    ta, tb = b.chance(0.5), b.chance(0.5)
    attrs = {"transA": int(ta), "transB": int(tb), "alpha": b.pick([None, 0.5])}
    b.node([b.data(t, (k, m) if ta else (m, k), "small"), b.data(t, (n, k) if tb else (k, n), "small")], [(t, (m, n))], **attrs)


@spec("FusedGemm", MS)
def fused_gemm(b):
    m, n, k = b.int(1, 4), b.int(1, 4), b.int(1, 5)
    b.node([b.data("float", (m, k), "small"), b.data("float", (k, n), "small"), b.data("float", (n,), "small")], [("float", (m, n))],
           activation=b.pick([None, "Relu", "Tanh", "Sigmoid", "LeakyRelu"]), alpha=b.pick([None, 0.5]), beta=b.pick([None, 2.0]))


@spec("FusedConv", MS)
def fused_conv(b):
    c, k = b.int(1, 3), b.int(1, 3)
    b.node([b.data("float", (1, c, 6, 5), "small"), b.data("float", (2, c, k, k), "small"), b.data("float", (2,), "small")],
           [("float", (1, 2, 7 - k, 6 - k))], activation=b.pick(["Relu", "Tanh", "Sigmoid"]), kernel_shape=[k, k])


@spec("SkipLayerNormalization SkipSimplifiedLayerNormalization", MS)
def skip_norm(b):
    t, shape = b.pick(("float", "float16")), (b.int(1, 2), b.int(1, 3), b.int(1, 6))
    f = lambda: b.data(t, shape[-1:], "small")
    ins = [b.data(t, shape, "small"), b.data(t, shape, "small"), f()]
    if b.op == "SkipLayerNormalization" and b.chance(0.7):
        ins.append(f())
    b.node(ins, [(t, shape)], epsilon=b.pick([None, 1e-3]))


@spec("QLinearAdd QLinearMul", MS)
def q_binary(b):
    t, shape = b.pick(("uint8", "int8")), b.shape(1, 3, 1)
    sc = lambda: b.given(np.array(2.0 ** b.int(-3, 2), np.float32), "float")
    b.node([b.data(t, shape), sc(), b.data(t, ()), b.data(t, b.broadcastable(shape)), sc(), b.data(t, ()), sc(), b.data(t, ())],
           [(t, shape)])


@spec("QuantizeLinear DequantizeLinear", MS)
def ms_quantize(b):
    t, shape = b.pick(("uint8", "int8", "uint16", "int16")), b.shape(1, 3, 1)
    s, z = b.given(np.array(2.0 ** b.int(-3, 2), np.float32), "float"), b.data(t, ())
    down = b.op == "QuantizeLinear"
    b.node([b.data("float" if down else t, shape), s, z], [(t if down else "float", shape)])


@spec("ExpandDims", MS)
def expand_dims(b):
    x = b.any(b.pick(SIMPLE), 0, 3)
    axis = b.int(-len(x.shape) - 1, len(x.shape))
    at = axis if axis >= 0 else axis + len(x.shape) + 1
    b.node([x, b.control(np.array(axis, np.int32))], [(x.dtype, x.shape[:at] + (1,) + x.shape[at:])])


@spec("BiasSoftmax", MS)
def bias_softmax(b):
    n, m = b.int(1, 3), b.int(1, 5)
    b.node([b.data("float", (n, m), "small"), b.data("float", (n, m), "small")], [("float", (n, m))], axis=1, is_inner_broadcast=0)


@spec("Inverse", MS)
def inverse(b):
    n = b.int(1, 3)
    x = np.eye(n) * 3 + b.rng.uniform(-1, 1, (n, n))
    b.node([b.given(x.astype(np.float32), "float")], [("float", (n, n))])


@spec("Trilu GatherND Pad Unique Range", MS)
def ms_copies(b):
    if b.op == "Trilu":
        x = b.any("float", 2, 3)
        b.node([x], [("float", x.shape)], upper=b.pick([None, 0, 1]))
    elif b.op == "GatherND":
        b.node([b.data("float", (3, 4)), b.ints([[0, 1], [2, 3]])], [("float", (2,))])
    elif b.op == "Pad":
        b.node([b.data("float", (2, 3)), b.ints([1, 0, 0, 2]), b.data("float", (1,))], [("float", (3, 5))], mode="constant")
    elif b.op == "Unique":
        b.node([b.data("float", (b.int(1, 6),), "small")], [("float", None), ("int64", None), ("int64", None)])
    else:
        b.node([b.control(np.array(v, np.int64)) for v in (0, b.int(0, 7), b.int(1, 3))], [("int64", None)])
