"""cliffs_report.py -- the rows of cliffs.py as text and as a page: geometric mean, shares below 1 and 0.8, ranked by the time lost."""
import math, os

SMALL_US = 20  # a layer whose peer takes less is listed, not counted


def geomean(values): return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def us(t): return f"{t / 1e3:,.2f} ms" if t >= 1e4 else f"{t:,.1f} us"


def line(r):
    if "skipped" in r: return f"{r['key']:20} skipped: {r['skipped']}  ({r['text']})"
    if "refused" in r: return f"{r['key']:20} REFUSED: {r['refused']}  ({r['text']})"
    head = f"{r['key']:20} {r['ratio']:6.2f} x  {us(r['us']['tenon']):>12} {us(r['us'][r['best']]):>12} {r['best']}" if "ratio" in r else f"{r['key']:20} no peer       {us(r['us']['tenon'])}"
    wrong = "  WRONG" if "tenon" in r.get("wrong", []) else ""
    return f"{head}{wrong}  [{r.get('template', '')}]  {r['text']}"


def groups(rows):
    """Rows that belong together: title to rows."""
    out = {}
    for r in rows:
        where = {"gpu": f"GPU, {r.get('precision')}"}.get(r["id"].split(" ")[0], f"CPU, {r.get('threads')} thread{'s' if r.get('threads', 1) > 1 else ''}" + (f", {r['features']} alone" if r.get("features") else ""))
        out.setdefault(f"{r['kind']}, {where}", []).append(r)
    return out


def parts(rows):
    """Counted, small, and those without a ratio."""
    counted = [r for r in rows if "ratio" in r and "tenon" not in r.get("wrong", []) and (r["kind"] == "networks" or r["us"][r["best"]] >= SMALL_US)]
    small = [r for r in rows if "ratio" in r and r not in counted and "tenon" not in r.get("wrong", [])]
    return counted, small, [r for r in rows if r not in counted and r not in small]


def summary(rows):
    counted, small, rest = parts(rows)
    ratios = [r["ratio"] for r in counted]
    share = lambda bar: 100 * sum(x < bar for x in ratios) / max(len(ratios), 1)
    out = [f"{len(rows)} {rows[0]['kind']}: {len(counted)} counted, {len(small)} whose peer takes under {SMALL_US} us, {len(rest)} refused, wrong or without a peer.",
           f"Geometric mean {geomean(ratios):.2f}, below 1.0: {share(1):.1f} %, below 0.8: {share(0.8):.1f} %, least {min(ratios, default=math.nan):.3f}."]
    alone = [r["us"]["onnxruntime"] / r["us"]["tenon"] for r in counted if "onnxruntime" in r["us"] and "onnxruntime" not in r["wrong"]]
    if alone: out.append(f"Beside ONNX Runtime alone: geometric mean {geomean(alone):.2f} of {len(alone)}, below 1.0: {100 * sum(x < 1 for x in alone) / len(alone):.1f} %.")
    errors = [r["error_ratio"] for r in rows if r.get("error_ratio")]
    if errors: out.append(f"RMS error beside PyTorch's own: geometric mean {geomean(errors):.2f}, most {max(errors):.2f}.")
    return out


def by_family(rows):
    """Families with their mean and least ratio, worst first."""
    out = {}
    for r in parts(rows)[0]: out.setdefault(r["key"].split("/")[0], []).append(r["ratio"])
    return sorted(((geomean(v), min(v), len(v), k) for k, v in out.items()))


def text(rows, args):
    out = []
    for title, group in groups(rows).items():
        counted, small, rest = parts(group)
        out += [f"==== {title} ====", *summary(group), ""]
        if group[0]["kind"] == "layers":
            out += ["family: mean, least, count"] + [f"  {k:18} {m:6.2f} {least:6.2f} {n:3}" for m, least, n, k in by_family(group)] + [""]
        for heading, some in (("by time lost", sorted(counted, key=lambda r: -r["lost_us"])), (f"peer under {SMALL_US} us", sorted(small, key=lambda r: r["ratio"])), ("refused, wrong, without a peer", rest)):
            if not some: continue
            out.append(f"-- {heading} --")
            for r in some:
                out.append(line(r))
                if r.get("ratio", 1) < 1 and "refused" not in r:
                    if r.get("schedule"): out.append(f"{'':22}{r['schedule'][:150]}")
                    for step in r.get("steps", []) if len(r.get("steps", [])) > 1 else []: out.append(f"{'':22}{step[:150]}")
                    if r.get("reason"): out.append(f"{'':22}why: {r['reason'][:400]}")
            out.append("")
    return "\n".join(out) + "\n"


HEAD = """# Where Tenon falls off

`bench/cliffs.py --docs` writes this page from the rows that `bench/cliffs.py` measured ([method](../benchmarks.md#cliffs)).

A ratio is the best peer's time divided by Tenon's: above 1, Tenon is faster. Layers whose peer takes under 20 us are counted apart.
"""


def table(counted):
    out = ["| layer | ratio | Tenon | best peer | template |", "|---|---|---|---|---|"]
    name = lambda r: f"{r['key'].split('/')[0]}: {r['text']}" if r["kind"] == "layers" else r["key"]
    for r in counted: out.append(f"| {name(r)} | {r['ratio']:.2f} | {us(r['us']['tenon'])} | {us(r['us'][r['best']])} ({r['best']}) | {r.get('template', '')} |")
    return out + [""]


def where(group):
    """The machine, and the clock where it was not the wall's."""
    machines = list(dict.fromkeys(r["machine"] for r in group if r.get("machine")))
    return "".join(f"; {m}" for m in machines) + ("; processor time" if any(r.get("clock") == "cpu" for r in group) else "")


def page(rows):
    out = [HEAD]
    for title, group in groups(rows).items():
        counted = sorted(parts(group)[0], key=lambda r: -r["lost_us"])
        whens, revisions = sorted(r["when"] for r in group), list(dict.fromkeys(r["revision"] for r in group))
        out += [f"## {title[0].upper()}{title[1:]}", "", f"Measured {whens[0]} to {whens[-1]} UTC, Tenon {', '.join(revisions)}{where(group)}.", ""]
        out += [f"* {s}" for s in summary(group)] + [""]
        if group[0]["kind"] == "layers":
            out += ["| family | geometric mean | least | layers |", "|---|---|---|---|"] + [f"| {k} | {m:.2f} | {least:.2f} | {n} |" for m, least, n, k in by_family(group)] + [""]
            out += ["The thirty that lose most:", ""]
            counted = [r for r in counted if r["ratio"] < 1][:30]
        if counted: out += table(counted)
    return "\n".join(out).rstrip("\n") + "\n"


def write_page(rows, path):
    with open(path + ".part", "w") as f: f.write(page(list(rows)))
    os.replace(path + ".part", path)
