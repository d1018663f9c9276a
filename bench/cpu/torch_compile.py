#!/usr/bin/env python3
"""torch_compile.py [NAME...] -- torch.compile with Tenon, with Inductor, and without: times of a call and of compiling.

Needs PyTorch, torchvision and transformers.  Each network has a process of its own with empty caches; a trivial
function is compiled by each beforehand, so that imports and what a compiler starts once are not counted.  Calls are
interleaved in one loop, and medians are compared.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), os.path.join(HERE, "..", "lib")]


def seconds(f: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    f()
    return time.perf_counter() - begin


def spread(times: List[float]) -> Dict[str, float]:
    """Median, and the quarter of calls below and above, in ms."""
    q = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {"median": round(q[1] * 1e3, 3), "low": round(q[0] * 1e3, 3), "high": round(q[2] * 1e3, 3)}


def measure(name: str, turns: int, limit: float, threads: int, freezing: bool) -> Dict[str, Any]:
    import torch
    import torch_zoo

    import tenon.torch_backend as backend
    torch.set_num_threads(threads)
    m, inputs = torch_zoo.make(name)
    how = {"tenon": {"backend": backend.compile_fx}, "inductor": {"backend": "inductor"}}
    if freezing:
        how["inductor"]["options"] = {"freezing": True}
    with torch.no_grad():
        for kind in how:
            torch.compile(lambda x: torch.relu(x) + 1, **how[kind])(torch.ones(64, 64))
        torch.compile(m, backend="eager")(**inputs)  # what Dynamo does once for a network's code is nobody's
        torch._dynamo.reset()
        backend.graphs.clear()
        want = torch_zoo.first(m(**inputs))
        run: Dict[str, Callable[[], Any]] = {"eager": lambda: m(**inputs)}
        out: Dict[str, Any] = {"network": name, "compile": {}, "error": {}, "threads": threads}
        for kind in how:
            f = torch.compile(m, **how[kind])
            run[kind] = lambda f=f: f(**inputs)
            got: List[Any] = []
            torch._dynamo.utils.counters.clear()
            out["compile"][kind] = round(seconds(lambda: got.append(run[kind]())), 2)
            out["error"][kind] = float((torch_zoo.first(got[0]) - want).abs().max() / want.abs().max())
            out["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
        out["graphs"] = [g.programs for g in backend.graphs]
        times: Dict[str, List[float]] = {k: [] for k in run}
        for f in run.values():
            f()
        end = time.monotonic() + limit
        for _ in range(turns):
            for kind, f in run.items():
                f()  # whoever ran before left other things in the caches, and threads that spin
                times[kind].append(seconds(f))
            if time.monotonic() > end:
                break
    out["ms"] = {k: spread(t) for k, t in times.items()}
    out["turns"] = len(times["tenon"])
    return out


def table(results: List[Dict[str, Any]]) -> str:
    rows = [
        "| network | tenon ms | inductor ms | eager ms | over inductor | compile s | inductor s | part | error | "
        "programs |",
        "|---|---|---|---|---|---|---|---|---|---|"
    ]
    speed, part = [], []
    for r in results:
        ms, c = r["ms"], r["compile"]
        speed.append(ms["inductor"]["median"] / ms["tenon"]["median"])
        part.append(c["tenon"] / c["inductor"])
        cells = [
            f"{ms[k]['median']:.1f} ({ms[k]['low']:.1f}-{ms[k]['high']:.1f})" for k in ("tenon", "inductor", "eager")
        ]
        rows.append(
            f"| {r['network']} | {' | '.join(cells)} | {speed[-1]:.2f} | {c['tenon']:.1f} | {c['inductor']:.1f} | "
            f"{part[-1]:.2f} | {r['error']['tenon']:.1e} | {r['graphs']} |")
    mean = [math.exp(statistics.fmean(map(math.log, v))) for v in (speed, part)]
    rows.append(f"| geomean | | | | {mean[0]:.2f} | | | {mean[1]:.2f} | | |")
    return "\n".join(rows)


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("names", nargs="*")
    a.add_argument("--turns", type=int, default=15)
    a.add_argument("--limit", type=float, default=60, help="seconds of turns for a network")
    a.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    a.add_argument("--freezing", action="store_true", help="Inductor with its option of that name")
    a.add_argument("--json", help="results go here, too")
    a.add_argument("--one", help=argparse.SUPPRESS)
    a = a.parse_args()
    if a.one:
        print(json.dumps(measure(a.one, a.turns, a.limit, a.threads, a.freezing)))
        return 0
    import torch_zoo
    results = []
    for name in a.names or torch_zoo.NETWORKS:
        with tempfile.TemporaryDirectory() as caches:
            env = {
                **os.environ, "TORCHINDUCTOR_CACHE_DIR": caches + "/inductor",
                "XDG_CACHE_HOME": caches,
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"
            }
            more = ["--freezing"] if a.freezing else []
            p = subprocess.run([
                sys.executable, __file__, "--one", name, "--turns",
                str(a.turns), "--limit",
                str(a.limit), "--threads",
                str(a.threads), *more
            ],
                               env=env,
                               capture_output=True,
                               text=True)
        if p.returncode:
            print(f"{name}: {p.stderr.strip()[-2000:]}", file=sys.stderr)
            return 1
        results.append(json.loads(p.stdout.strip().splitlines()[-1]))
        print(f"{name}: {json.dumps(results[-1])}", file=sys.stderr, flush=True)
        if a.json:
            with open(a.json, "w") as f:
                json.dump(results, f, indent=1)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
