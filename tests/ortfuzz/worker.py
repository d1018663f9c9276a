"""Runs a range of seeds in this process and prints one line of JSON for each finding, and a summary every CHUNK models.

A file says which seed is at hand and what is done with it, so that the parent knows what ended a process that crashed."""

import collections
import json
import mmap
import os
import re
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.filterwarnings("ignore")
import builder  # noqa: E402
import check  # noqa: E402
import engines  # noqa: E402
import generate  # noqa: E402
import save  # noqa: E402

CHUNK = 200


class Place:
    def __init__(self, path):
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 128)

    def put(self, seed, stage):
        self.map[:128] = f"{seed} {stage}".encode().ljust(128)


def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def short(text):
    return re.sub(r"[0-9]+", "N", text)[:100]


class Tally:
    def __init__(self):
        self.clear()

    def clear(self):
        self.outcomes, self.rows = collections.Counter(), collections.Counter()
        self.ran, self.attrs, self.reasons = collections.Counter(), set(), collections.Counter()
        self.unsettled = collections.Counter()
        self.done, self.lowered = 0, collections.Counter()

    def dump(self):
        say(kind="tally", done=self.done, lowered=self.lowered, outcomes=self.outcomes, rows=self.rows,
            ran=[[list(k), v] for k, v in self.ran.items()], attrs=sorted(self.attrs), reasons=self.reasons,
            unsettled=self.unsettled)
        self.clear()


def report(tally, problem, seed, folder):
    rows = check.explained(problem)
    if rows:
        tally.rows.update(r.key for r in rows)
        return
    problem = check.reduced(problem)
    path = save.write(problem, folder)
    say(kind="open", seed=seed, signature=problem.signature, text=problem.text[:300], verdict=check.verdict(problem), path=path)


def settle(tally, problem, seed, options):
    """A difference from onnx.reference alone: it breaks ties, and has faults of its own, so that it opens nothing by itself."""
    rows = check.explained(problem)
    if rows:
        tally.rows.update(r.key for r in rows)
    else:
        tally.unsettled[problem.signature] += 1
        if options.details:
            say(kind="unsettled", seed=seed, signature=problem.signature, text=problem.text[:200], path=save.write(problem, options.out))


def one(seed, options, tally, stage):
    try:
        case = generate.make(seed, options.opset, options.only, options.limits)
    except builder.Skip:
        return
    outcome, problems, mine, error = check.check_ort(case, stage)
    tally.outcomes[outcome] += 1
    for domain, op, since, dtypes, attrs in case.coverage:
        tally.ran[f"{domain}.{op}", since, ",".join(dtypes), outcome] += 1
        tally.attrs.update(f"{domain}.{op}.{a}" for a in attrs)
    if error is not None and len(case.coverage) == 1:
        tally.reasons[f"{outcome}: {case.coverage[0][1]}: {short(str(error))}"] += 1
    for problem in problems:
        report(tally, problem, seed, options.out)
    if mine is not None and outcome in ("not in ONNX Runtime", "refused by ONNX Runtime") and options.reference:
        outcome, problem = check.check_reference(case, mine, stage)
        tally.outcomes[outcome] += 1
        if problem:
            settle(tally, problem, seed, options)
    for label, every in (("compiled", options.compile), ("loops", options.loops)):
        if mine is None or case.notes.get("random") or not every or seed % every:
            continue
        tally.lowered[label] += 1
        for problem in check.check_compiled(case, mine, stage, label):
            report(tally, problem, seed, options.out)


def main(options):
    place, tally = Place(options.place), Tally()
    np.seterr(all="ignore")
    options.opset = options.opset or engines.max_opset()
    for seed in range(options.first, options.first + options.count):
        stage = engines.stage = lambda what: place.put(seed, what)
        stage("generate")
        try:
            one(seed, options, tally, stage)
        except Exception as e:  # noqa: BLE001 - a fault of the fuzzer, or an internal error of Tenon
            import traceback

            say(kind="open", seed=seed, signature=f"error|{type(e).__name__}", text=traceback.format_exc()[-900:], verdict="", path="")
        tally.done += 1
        if tally.done == CHUNK:
            tally.dump()
    tally.dump()
    place.put(0, "done")
