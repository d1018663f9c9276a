"""Checks one case three ways, and finds the node that differs."""

import numpy as np
import onnx

import compare
import engines
import generate
import known
import oracle
import values


class Problem:
    """What differs, at one node where it can be told apart.  Rows of known.py look at it."""

    def __init__(self, case, kind, text, diff=None):
        self.case, self.kind, self.text, self.diff = case, kind, text, diff
        self.carried = None  # rows that explain single nodes, where the difference is what the nodes after them make of it
        nodes = list(case.model.graph.node)
        # Of Casts alone the last one may only carry a result out of the model, and the first one an input to its type.
        nodes = [n for n in nodes if n.op_type != "Cast"] or [n for n in nodes if not carries_out(case, n)][-1:] or nodes[:1]
        self.node = nodes[0]
        self.op = self.node.op_type if len(nodes) == 1 else "+".join(n.op_type for n in nodes)
        self.ops = [n.op_type for n in nodes]
        self.attrs = {a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute}
        self.opset = next(i.version for i in case.model.opset_import if not i.domain)
        self.domain = self.node.domain

    def array(self, i):
        """Input i of the node, or None."""
        if i >= len(self.node.input) or not self.node.input[i]:
            return None
        name = self.node.input[i]
        for n in (name, name + "_"):
            if n in self.case.feeds:
                return np.asarray(self.case.feeds[n])
        for n in self.case.model.graph.node:
            if n.op_type == "Cast" and name in n.output and n.input[0] in self.case.feeds:
                return np.asarray(self.case.feeds[n.input[0]])
        for t in self.case.model.graph.initializer:
            if t.name == name:
                return onnx.numpy_helper.to_array(t)
        return None

    def arrays(self):
        return [x for x in (self.array(i) for i in range(len(self.node.input))) if x is not None]

    def dtype(self, i=0):
        v = self.case.vals.get(self.node.input[i])
        return v.dtype if v is not None else None

    def out_dtype(self, i=0):
        v = self.case.vals.get(self.node.output[i])
        return v.dtype if v is not None else None

    @property
    def signature(self):
        return f"{self.kind}|{self.domain}.{self.op}"


def all_outputs(case):
    """The same model with every tensor as an output, in a type that carries it, and their names."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.output[:]
    names = []
    for n in case.model.graph.node:
        for o in n.output:
            v = case.vals.get(o)
            dtype = v.dtype if v is not None else None
            if v is None:
                dtype = next((d for d, g in zip(case.dtypes, case.model.graph.output) if g.name == o), None)
            if dtype not in values.TYPES:
                continue
            info = onnx.ValueInfoProto(name=o)
            if dtype in values.CARRIED:
                info.name, dtype = o + "_carried", values.CARRIER[dtype]
                model.graph.node.append(onnx.helper.make_node("Cast", [o], [info.name], to=values.number(dtype)))
            info.type.tensor_type.elem_type = values.number(dtype)
            model.graph.output.append(info)
            names.append(o)
    return model, names


def isolate(case, run, mine, loose_zero=False):
    """The nodes whose results differ between the interpreter and `run`, each by itself on the interpreter's operands, with their
    differences; and whether all nodes were looked at.  `mine` are the interpreter's results, which it must give again."""
    if len(case.model.graph.node) < 2:
        return [], False
    model, names = all_outputs(case)
    try:
        made = dict(zip(names, engines.run_interp(model.SerializeToString(), case.feeds)))
    except engines.Refused:
        return [], False
    have, found = operands(case, made), []
    whole = all(g.name in made and identical(made[g.name], x) for g, x in zip(case.model.graph.output, mine))
    for indices in inner_groups(case):
        part = generate.part_of(case, indices, have)
        problem = differs(part, run, loose_zero) if part is not None else None
        if problem:
            found.append(problem)
        whole = whole and part is not None and (problem is not None or runs(part, run))
    return found, whole


def inner_groups(case):
    """The groups of nodes, but for Casts that only carry a result out of the model."""
    return [g for g in generate.groups(case) if not (len(g) == 1 and carries_out(case, case.model.graph.node[g[0]]))]


def operands(case, made):
    """Every array of a model, by name."""
    return {**{t.name: onnx.numpy_helper.to_array(t) for t in case.model.graph.initializer}, **made, **case.feeds}


def carries_out(case, node):
    """Whether a Cast only carries a result out of the model."""
    return node.op_type == "Cast" and node.output[0] not in case.vals


def runs(case, run):
    try:
        run(case.model.SerializeToString(), case.feeds)
    except engines.Refused:
        return False
    return True


def carried(case, run, theirs, kind="differs", loose_zero=False):
    """Rows that explain a difference as one that nodes carry on, or None.

    Each node must agree with the interpreter on the operands that it had in the other engine, or a row must explain it.  Then
    no node is wrong: one of them differs by what it may, and a later one, such as a division, makes more of it."""
    if len(case.model.graph.node) < 2:
        return None
    model, names = all_outputs(case)
    try:
        got = dict(zip(names, run(model.SerializeToString(), case.feeds)))
    except engines.Refused:
        return None
    if not all(g.name in got and identical(got[g.name], x) for g, x in zip(case.model.graph.output, theirs)):
        return None
    have, rows = operands(case, got), []
    for indices in inner_groups(case):
        part = generate.part_of(case, indices, have)
        if part is None:
            return None
        try:
            mine = engines.run_interp(part.model.SerializeToString(), part.feeds)
        except engines.Refused:
            return None
        made = [o for i in indices for o in case.model.graph.node[i].output if generate.is_tensor(case, o)]
        d = compare.compare(part, mine, [got[o] for o in made], engines.run_interp, loose_zero, judge_of(part, run))
        if d is not None:
            found = known.find(Problem(part, kind, str(d), d))
            if found is None:
                return None
            rows += found
    return rows


def judge_of(case, run):
    """What decides about roundings of one node beside ONNX Runtime; compiled code is itself what is tested."""
    p = Problem(case, "differs", "")
    if run is not engines.run_ort or not oracle.alone(p):
        return None

    def judge(difference):
        p.diff = difference
        return oracle.judged(p)[1]

    return judge


def identical(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and (a.tobytes() == b.tobytes() if a.dtype.kind != "O" else a.tolist() == b.tolist())


def differs(case, run, loose_zero=False):
    data = case.model.SerializeToString()
    try:
        mine = engines.run_interp(data, case.feeds)
    except engines.Refused as e:
        try:
            run(data, case.feeds)
        except engines.Refused:
            return None
        return Problem(case, "refused", str(e))
    try:
        theirs = run(data, case.feeds)
    except engines.Refused as e:
        return Problem(case, "other refused", str(e)) if run is not engines.run_ort else None
    d = compare.compare(case, mine, theirs, engines.run_interp, loose_zero, judge_of(case, run))
    return Problem(case, "differs", str(d), d) if d else None


def check_ort(case, stage):
    """(outcome, Problems, the interpreter's results, error)"""
    data = case.model.SerializeToString()
    mine = error = None
    stage("interp")
    try:
        mine = engines.run_interp(data, case.feeds)
    except engines.Refused as e:
        error = e
    try:
        theirs = engines.run_ort(data, case.feeds)
    except engines.Refused as e:
        if error:
            return "refused by both", [], mine, e
        return ("not in ONNX Runtime" if e.unsupported else "refused by ONNX Runtime"), [], mine, e
    if error:
        part = isolate_refusal(case)
        return "refused by Tenon", [Problem(part or case, "refused", str(error))], None, error
    d = compare.compare(case, mine, theirs, engines.run_interp, judge=judge_of(case, engines.run_ort))
    if d is None:
        return "agree", [], mine, None
    found, whole = isolate(case, engines.run_ort, mine)
    if found:
        return "differ", found, mine, None
    p = Problem(case, "differs", str(d), d)
    # Where each node agrees on the interpreter's operands, no node of the interpreter is wrong.
    p.carried = [] if whole else carried(case, engines.run_ort, theirs)
    return "differ", [p if p.carried is not None else made_by(case, d) or p], mine, None


def made_by(case, d):
    """The difference as one of the node that makes this result of operands of the model, where that node by itself does not differ
    again: ONNX Runtime may return memory that nothing wrote."""
    have = {t.name: onnx.numpy_helper.to_array(t) for t in case.model.graph.initializer}
    have.update(case.feeds)
    name = case.model.graph.output[d.output].name
    for i, n in enumerate(case.model.graph.node):
        if name in n.output:
            part = generate.part_of(case, [i], have)
            if part is not None:
                d.output = list(n.output).index(name)
                return Problem(part, "differs", str(d), d)
    return None


def isolate_refusal(case):
    """A node that the interpreter refuses and ONNX Runtime runs, by itself."""
    model, names = all_outputs(case)
    try:
        theirs = dict(zip(names, engines.run_ort(model.SerializeToString(), case.feeds)))
    except engines.Refused:
        return None
    theirs.update(case.feeds)
    for indices in generate.groups(case):
        part = generate.part_of(case, indices, theirs)
        if part is None:
            continue
        try:
            engines.run_interp(part.model.SerializeToString(), part.feeds)
        except engines.Refused:
            return part
    return None


def compiler(case, label):
    """What compiles the case and runs it: every fourth one as quick code, so that both tiers are compared."""
    tier = "quick" if case.seed // 20 % 4 == 0 else "full"
    return lambda d, f: engines.run_compiled(d, f, case.exact, LABELS[label], tier)


LABELS = {"compiled": "cpu", "loops": "ref"}


def check_compiled(case, mine, stage, label):
    """Compiled code, or its loops, against the interpreter's results: Problems."""
    data = case.model.SerializeToString()
    exact, run = case.exact, compiler(case, label)
    stage(label)
    try:
        theirs = run(data, case.feeds)
    except engines.Refused as e:
        return [Problem(case, f"{label} refused", str(e))]
    stage("compare")
    d = compare.compare(case, mine, theirs, engines.run_interp, not exact)
    if d is None:
        return []
    found, _ = isolate(case, run, mine, not exact)
    problems = found or [Problem(case, "differs", str(d), d)]
    for p in problems:
        p.kind = f"{label} {p.kind}"
    if not found:
        problems[0].carried = carried(case, run, theirs, problems[0].kind, not exact)
    return problems


def check_reference(case, mine, stage):
    stage("reference")
    try:
        theirs = engines.run_reference(case.model, case.feeds)
    except engines.Refused:
        return "no reference", None
    d = compare.compare(case, mine, theirs, engines.run_interp, True)
    if d is None:
        return "agree with the reference", None
    return "differ from the reference", Problem(case, "reference differs", str(d), d)


def verdict(problem):
    """Whom onnx.reference agrees with."""
    case = problem.case
    try:
        data = case.model.SerializeToString()
        theirs = engines.run_reference(case.model, case.feeds)
    except engines.Refused as e:
        return f"the reference does not run it ({str(e)[:80]})"
    said = []
    for name, run in (("Tenon", engines.run_interp), ("ONNX Runtime", engines.run_ort)):
        try:
            if compare.compare(case, run(data, case.feeds), theirs, engines.run_interp, True) is None:
                said.append(name)
        except engines.Refused:
            continue
    return "the reference agrees with " + (" and ".join(said) or "neither")


def explained(problem):
    return known.find(problem)


def reduced(problem):
    """The same difference in a smaller case."""
    import reduce

    if not problem.kind.endswith("differs") or problem.kind.startswith("reference"):
        return problem
    compiled = problem.kind != "differs"
    exact = problem.case.exact
    run = compiler(problem.case, problem.kind.split()[0]) if compiled else engines.run_ort

    def again(case):
        p = differs(case, run, compiled and not exact)
        if p is not None and p.kind == "differs":
            p.kind = problem.kind
            return p if known.find(p) is None else None
        return None

    return reduce.smaller(problem, again)
