"""Makes a failing case smaller as long as it fails in the same way: sizes first, then values."""

import numpy as np
import onnx

import engines
import generate

ATTEMPTS = 80


def smaller(problem, check):
    """`check(case)` returns the Problem of a case, or None."""
    best, left = problem, [ATTEMPTS]

    def attempt(make, *args):
        if left[0] <= 0:
            return None
        left[0] -= 1
        try:
            p = check(make(best.case, *args))
        except (engines.Refused, ValueError, TypeError, IndexError, AttributeError):
            return None
        return p if p is not None and p.signature == problem.signature else None

    for size in sorted({d for x in best.case.feeds.values() for d in np.shape(x) if d > 1}, reverse=True):
        for to in (1, size // 2):
            p = attempt(resized, size, to) if to < size else None
            if p:
                best = p
                break
    for name in list(best.case.feeds):
        for part in parts(best.case.feeds[name]):
            p = attempt(replaced, name, part)
            best = p or best
    return best


def copy_with(case, model, feeds):
    return generate.Case(case.seed, model, feeds, case.dtypes, case.coverage, case.notes, case.vals)


def resized(case, size, to):
    """Every axis of one size made smaller, in inputs and initializers."""
    cut = lambda x: x[tuple(slice(0, to) if d == size else slice(None) for d in x.shape)]
    feeds = {n: np.ascontiguousarray(cut(np.asarray(x))) for n, x in case.feeds.items()}
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for t in model.graph.initializer:
        if size in t.dims:
            t.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(cut(onnx.numpy_helper.to_array(t))), t.name))
    for i in model.graph.input:
        for d in i.type.tensor_type.shape.dim:
            if d.dim_value == size:
                d.dim_value = to
    return copy_with(case, model, feeds)


def parts(x):
    """Which elements become 0: all, each half, each quarter."""
    n = np.size(x)
    for pieces in (1, 2, 4):
        for k in range(pieces):
            if n >= pieces:
                yield n * k // pieces, n * (k + 1) // pieces


def replaced(case, name, part):
    x = np.array(case.feeds[name])
    flat = x.reshape(-1)
    zero = "" if x.dtype == object else 0
    if all(v == zero for v in flat[part[0] : part[1]].tolist()):
        raise ValueError("nothing to replace")
    flat[part[0] : part[1]] = zero
    return copy_with(case, case.model, {**case.feeds, name: x})
