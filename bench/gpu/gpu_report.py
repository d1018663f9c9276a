"""gpu_report.py -- what gpu.py measured, as gpu.json, a page (gpu.md) and a drawing (gpu.svg)."""
import json, math, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from report import ROW, STYLE, WIDTH, at, bar, escape, geomean, number, text

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What the makers say that a machine does at most: operations a second (dense), bytes a second of its memory.
PEAKS = {
    "H200": {"bf16": 989e12, "tf32": 494e12, "f32": 67e12, "bytes": 4.8e12},
    "H100": {"bf16": 989e12, "tf32": 494e12, "f32": 67e12, "bytes": 3.35e12},
    "A100": {"bf16": 312e12, "tf32": 156e12, "f32": 19.5e12, "bytes": 2.0e12},
}
KINDS = {"tenon": "Tenon", "compiled_graph": "compiled, graph", "compiled": "compiled", "eager_graph": "eager, graph", "eager": "eager", "tuned_graph": "tuned, graph", "tuned": "tuned"}
PRECISIONS = ["bf16", "tf32", "f32"]
BOUNDS = {"f32": 1e-4, "tf32": 1e-2, "bf16": 5e-2}  # of errors, by norm


def peaks_of(machine):
    return next((p for name, p in PEAKS.items() if name in machine), None)


def line(row):
    """A case in one line, for a terminal."""
    ms = "  ".join(f"{k} {v['median']:.4f}" for k, v in row["ms"].items())
    ours = row["tenon"]
    made = " ".join(f"{k} {v['compile']:.2f}+{v['first'] - v['compile']:.2f}s" for k, v in ours["seconds"].items())
    theirs = f"  torch compile {row['torch']['seconds']['compiled']:.1f}s error {row['torch']['error']:.1e} {row['torch']['bytes'] / 1e6:.0f} MB" if "torch" in row else ""
    kernels = f"  kernels {row['kernels_ms']:.4f}" if "kernels_ms" in row else ""
    return (f"{row['name']} {row['precision']} {row['batch']}: {'right' if row['right'] else 'WRONG'} {ours['error']:.1e}  {row.get('ratio', 0):.2f}x  {ms}{kernels}  {made} {ours['bytes'] / 1e6:.0f} MB{theirs}"
            + ("" if ours["on_device"] else "  (copies included)"))


# ---- profiles ----

def profile_rows(row, machine, top=0):
    """Kernels with the same work and schedule as one: (ms, calls, share of the peak, what bounds it, name, node)."""
    peaks, merged = peaks_of(machine), {}
    for s in row["steps"]:
        if s["kind"] != "kernel" or not s["ns"]: continue
        got = merged.setdefault((s["name"], s["flops"], s["bytes"]), [0.0, 0, s["node"]])
        got[0] += s["ns"] / 1e6
        got[1] += 1
    rows = []
    for (name, flops, moved), (ms, calls, node) in merged.items():
        share, bound = 0.0, ""
        if peaks:
            share, bound = max((flops / peaks[row["precision"]], "operations"), (moved / peaks["bytes"], "bytes"))
            share *= calls / (ms / 1e3)
        rows.append((ms, calls, share, bound, name, node, flops * calls / ms / 1e9, moved * calls / ms / 1e6))
    rows.sort(reverse=True)
    return rows[:top] if top else rows


def profile_text(row, machine, top=0):
    rows = profile_rows(row, machine)
    total = sum(r[0] for r in rows)
    lines = [f"{row['name']} {row['precision']} batch {row['batch']}: {total:.3f} ms in {sum(r[1] for r in rows)} kernels, each timed by itself", "      us   n  % of peak  TFLOP/s   GB/s  name"]
    lines += [f"{ms * 1e3:8.1f} {n:3d}  {share * 100:5.1f} {bound[:5]:5} {tera:7.1f} {giga:6.0f}  {name} [{node}]" for ms, n, share, bound, name, node, tera, giga in rows[: top or None]]
    return "\n".join(lines)


# ---- the page ----

def cases(m):
    """(precision, batch) to its rows, in order."""
    out = {}
    for p in PRECISIONS:
        for row in m.get("networks", {}).values():
            if row["precision"] == p: out.setdefault((p, row["batch"]), []).append(row)
    return dict(sorted(out.items(), key=lambda kv: (PRECISIONS.index(kv[0][0]), kv[0][1])))


def network_lines(m):
    lines = []
    for (precision, batch), rows in cases(m).items():
        kinds = [k for k in KINDS if any(k in r["ms"] for r in rows)]
        ratios = [r["ratio"] for r in rows if "ratio" in r]
        lines += [f"### {precision}, batch {batch}", ""]
        if ratios: lines += [f"Geometric mean of the ratios: **{geomean(ratios):.2f}**; smallest: {min(ratios):.2f}.", ""]
        lines += ["| network | " + " | ".join(KINDS[k] for k in kinds) + " | compiled, graph / Tenon | error | PyTorch's |", "|---" * (len(kinds) + 4) + "|"]
        for r in rows:
            ms = " | ".join(text(r["ms"][k]) if k in r["ms"] else "–" for k in kinds)
            error = f"{r['tenon']['error']:.1e}" + ("" if r["right"] else " **wrong**")
            theirs = f"{r['torch']['error']:.1e}" if "torch" in r else "–"
            note = "" if r["tenon"]["on_device"] else " (copies included)"
            lines.append(f"| {r['name']} | {ms} | {r['ratio']:.2f}{note} | {error} | {theirs} |" if "ratio" in r else f"| {r['name']} | {ms} | – | {error} | – |")
        lines.append("")
    return lines


def cost_lines(m):
    rows = list(m.get("networks", {}).values())
    if not rows: return []
    lines = ["### Time until the first result, and memory", "", "| network | Tenon, s | from the cache | torch.compile, s | Tenon allocates, MB | PyTorch allocates, MB | Tenon holds, MB | PyTorch holds, MB |", "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        ours, theirs = r["tenon"], r.get("torch")
        first = lambda k: f"{ours['seconds'][k]['first']:.2f}" if k in ours["seconds"] else "–"
        torch_s = f"{theirs['seconds']['compiled']:.1f}" if theirs else "–"
        mb = lambda n: "–" if n is None else f"{n / 1e6:.1f}"
        allocated, held = [[side.get(k) for side in (ours, theirs or {})] for k in ("bytes", "held")]
        lines.append(f"| {r['name']}, {r['precision']}, batch {r['batch']} | {first('cold')} | {first('cached')} | {torch_s} | {' | '.join(map(mb, allocated + held))} |")
    return lines + [""]


def kernel_lines(m):
    rows = m.get("kernels", {})
    if not rows: return []
    lines = ["### Kernels", "", "| | Tenon, µs | PyTorch, µs | PyTorch / Tenon | Tenon reaches | of the peak | error |", "|---|---|---|---|---|---|---|"]
    for name, r in rows.items():
        us = lambda k: text({q: v * 1e3 for q, v in r["ms"][k].items()})
        lines.append(f"| {name} | {us('tenon')} | {us('torch')} | {r['ratio']:.2f} | {r['reaches']} | {r['share'] * 100:.0f} % | {r['error']:.1e} |")
    return lines + [""]


def other_lines(m):
    lines = []
    if "dynamic" in m:
        lines += ["### Dynamic shapes", "", "BERT exported with dynamic batch and length. *Compiled later*: kernels compiled after the first call. *Ratio*: dynamic time divided by static time.", "",
                  "| | correct shapes | largest error | compiled later | dynamic, at 1x128, ms | static, ms | ratio |", "|---|---|---|---|---|---|---|"]
        for name, r in m["dynamic"].items():
            lines.append(f"| {name} | {r['right']} of {r['shapes']} | {r['error']:.1e} | {r['made']} | {text(r['open_ms'])} | {text(r['fixed_ms'])} | {r['ratio']:.2f} |")
        lines.append("")
    if "same" in m:
        lines += ["### Batch invariance", "", "With `--batch-invariant`: distinct hashes of 20 runs, and of one item at batch 1, 2, 8 and 17, each in a program for that batch. *Cost*: time with the option divided by the time without.", "",
                  "| | hashes of runs | hashes of an item | cost at batch 1 | cost at batch 32 |", "|---|---|---|---|---|"]
        lines += [f"| {name} | {r['runs']} | {r['items']} | {r['cost_1']:.2f} | {r['cost_32']:.2f} |" for name, r in m["same"].items()]
        lines.append("")
    return lines


def profile_lines(m, machine):
    lines = []
    for row in m.get("profiles", {}).values():
        rows = profile_rows(row, machine)
        lines += [f"### Where the time goes: {row['name']}, {row['precision']}, batch {row['batch']}", "", "Kernels timed one by one, some microseconds too long each.", "",
                  "| µs | kernels | of the peak | bound by | schedule | node |", "|---|---|---|---|---|---|"]
        lines += [f"| {ms * 1e3:.1f} | {n} | {share * 100:.0f} % | {bound} | `{name}` | `{node}` |" for ms, n, share, bound, name, node, _, _ in rows[:12]]
        lines.append("")
    return lines


HEAD = """# Tenon and PyTorch on NVIDIA GPUs

`bench/gpu.py` writes this page. [benchmarks.md](../benchmarks.md) explains the method.

| column | meaning |
|---|---|
| times | milliseconds per call, median (least–most) of the rounds; the same model, weights and inputs, all in the GPU's memory |
| compiled, graph | `torch.compile` with CUDA graphs |
| compiled, graph / Tenon | its time divided by Tenon's. Above 1, Tenon is faster |
| error | norm of the difference from PyTorch's f32 outputs, divided by their norm |

![Speed of Tenon and of torch.compile](gpu.svg)
"""


def markdown(all_):
    lines = [HEAD]
    for name, m in all_["machines"].items():
        v = m.get("versions", {})
        stamps = [r[k] for s in ("networks", "kernels", "dynamic", "same") for r in m.get(s, {}).values() for k in ("when",)]
        revisions = dict.fromkeys(r["revision"] for s in ("networks", "kernels", "dynamic", "same") for r in m.get(s, {}).values())
        lines += [f"## {name}", "", f"PyTorch {v.get('torch')}, CUDA {v.get('cuda')}, driver {v.get('driver')}; measured {min(stamps, default='')} to {max(stamps, default='')} UTC, Tenon {', '.join(revisions)}.", ""]
        lines += network_lines(m) + cost_lines(m) + kernel_lines(m) + other_lines(m) + profile_lines(m, name)
    return "\n".join(lines).rstrip("\n") + "\n"


# ---- the drawing ----

def bars(rows, y):
    out = []
    for r in rows:
        out += bar(r["name"], r["ratio"], y)
        y += ROW
    return out, y


def svg(all_):
    out, y = [], 52
    for name, m in all_["machines"].items():
        out.append(f'<text class="section" x="14" y="{y}">{escape(name)}, PyTorch {escape(str(m.get("versions", {}).get("torch")))}</text>')
        y += 8
        for (precision, batch), rows in cases(m).items():
            rows = [r for r in rows if "ratio" in r]
            if not rows: continue
            y += 22
            out.append(f'<text class="section" x="14" y="{y}">{precision}, batch {batch}</text><text class="small" x="{WIDTH - 14}" y="{y}" text-anchor="end">geometric mean {geomean([r["ratio"] for r in rows]):.2f}</text>')
            top = y + 4
            more, y = bars(rows, y + 6)
            for tick in (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5):
                x = at(tick)
                out.append(f'<line class="{"one" if tick == 1 else "grid"}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y + 2}"/><text class="small" x="{x:.1f}" y="{y + 14}" text-anchor="middle">{tick:g}</text>')
            out += more
            y += 18
        y += 16
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" role="img" aria-label="Speed of Tenon and of torch.compile">',
                      f"<style>{STYLE}\n</style>", '<text class="title" x="14" y="24">Speed relative to torch.compile with CUDA graphs (1); further right is faster</text>', *out, "</svg>"]) + "\n"


def rounded(x):
    """No digits that mean nothing."""
    if isinstance(x, float): return float(f"{x:.5g}") if math.isfinite(x) else None
    if isinstance(x, dict): return {k: rounded(v) for k, v in x.items()}
    return [rounded(v) for v in x] if isinstance(x, list) else x


def data(x, depth=0):
    """JSON with a line for each case."""
    if depth > 3 or not isinstance(x, dict): return json.dumps(rounded(x))
    pad = "\n" + " " * (depth + 1)
    return "{" + ",".join(pad + json.dumps(k) + ": " + data(v, depth + 1) for k, v in x.items()) + "\n" + " " * depth + "}"


def write(all_, folder):
    for name, content in (("gpu.json", data(all_) + "\n"), ("gpu.md", markdown(all_)), ("gpu.svg", svg(all_))):
        path = os.path.join(folder, name)
        with open(path + ".part", "w") as f: f.write(content)
        os.replace(path + ".part", path)
