"""report.py -- what peers.py measured, as cpu.json, a page (cpu.md) and a drawing (cpu.svg)."""
import json, math, os, statistics
from contender import SETTINGS

NAMES = {"tenon": "Tenon", "tenon:f32": "Tenon, f32", "tenon:bf16": "Tenon, bf16", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO",
         "openvino:bf16": "OpenVINO, bf16", "mnn": "MNN"}


ORDER = ["f32", "f32_1", "batch8", "bf16", "int8", "small", "small_1", "zoo", "models", "start", "size"]


def in_order(sections):
    return sorted(sections.items(), key=lambda s: ORDER.index(s[0]))


def number(x):
    """Three digits that count."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}" if x >= 1 else f"{x:.3f}" if x >= 0.1 else f"{x:.4f}"


def text(s, digits=None):
    put = number if digits is None else lambda x: f"{x:.{digits}f}"
    return f"{put(s['median'])} ({put(s['least'])}–{put(s['most'])})"


def geomean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def kinds_of(rows):
    found = [k for r in rows.values() for k in list(r["runtimes"]) + list(r["missing"])]
    return [k for k in NAMES if k in found]


def cell(row, kind):
    got = row["runtimes"].get(kind)
    if not got: return "–"
    note = " *other outputs*" if got.get("wrong") else ""
    return text(got["ms"]) + note


def speed_table(rows):
    kinds = kinds_of(rows)
    own = any("to_tenon_f32" in r for r in rows.values())
    head = ["network"] + [f"{NAMES[k]}, ms" for k in kinds] + ["best peer / Tenon", "of the least times"] + (["our f32 / this"] if own else []) + ["of the peak", "largest difference"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, r in rows.items():
        ratio = f"**{r['ratio']['median']:.2f}** ({r['ratio']['least']:.2f}–{r['ratio']['most']:.2f}), {NAMES[r['best']].split(',')[0]}" if "ratio" in r else "–"
        ours = r["runtimes"][r["ours"]]
        share = f"{100 * r['peak_share']:.0f} %" if "peak_share" in r else "–"
        lines.append("| " + " | ".join([name] + [cell(r, k) for k in kinds] + [ratio, f"{r['ratio_min']:.2f}" if "ratio_min" in r else "–"]
                                       + ([f"{r['to_tenon_f32']:.2f}" if "to_tenon_f32" in r else "–"] if own else [])
                                       + [share, f"{ours['difference']:.1e}" if ours.get("difference") is not None else "–"]) + " |")
    ratios = [r["ratio"]["median"] for r in rows.values() if "ratio" in r]
    if ratios: lines += ["", f"Geometric mean of the ratios: **{geomean(ratios):.2f}**; smallest: {min(ratios):.2f}."]
    against = [r["to_onnxruntime"] for r in rows.values() if "to_onnxruntime" in r]
    if against: lines[-1] += f" Against ONNX Runtime alone: {geomean(against):.2f}; smallest: {min(against):.2f}."
    return lines + [""] + trips(rows)


def trips(rows):
    all_trips = [t for r in rows.values() for t in r.get("round_trip_ns", []) if t]
    if not all_trips: return []
    near = sum(t < 150 for t in all_trips)
    return [f"Round trip of a cache line to the other core, before each round: {min(all_trips):.0f} to {max(all_trips):.0f} ns, below 150 ns in {near} of {len(all_trips)}.", ""]


def memory_table(rows):
    kinds = kinds_of(rows)
    lines = ["Resident memory above that of a Python process with NumPy, MB: while running, and the peak, which includes creating the session.", "",
             "| network | " + " | ".join(NAMES[k] for k in kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for name, r in rows.items():
        mb = lambda k: f"{r['runtimes'][k]['memory']['grown'] / 1e6:.0f}, {r['runtimes'][k]['memory']['grown_most'] / 1e6:.0f}" if k in r["runtimes"] else "–"
        lines.append(f"| {name} | " + " | ".join(map(mb, kinds)) + " |")
    return lines + [""]


def start_table(rows):
    whats = list(dict.fromkeys(w for r in rows.values() for w in r["ms"]))
    lines = ["Milliseconds until a session exists, each time in a new process (loading the library is not counted), median (least–most).", "",
             "| network | " + " | ".join(whats) + " |", "|---" * (len(whats) + 1) + "|"]
    for name, r in rows.items(): lines.append(f"| {name} | " + " | ".join(text(r["ms"][w]) if w in r["ms"] else "–" for w in whats) + " |")
    return lines + [""]


def size_table(rows):
    lines = ["| what | MB on the disk |", "|---|---|"]
    for r in rows.values(): lines += [f"| {NAMES.get(k, k[:1].upper() + k[1:])} | {v / 1e6:.1f} |" for k, v in r["bytes"].items() if v]
    return lines + [""]


def section_lines(name, s):
    rows = s["rows"]
    lines = [f"### {s['title']}", "", f"`make bench-cpu SECTIONS={name}`; measured {min(r['when'] for r in rows.values())} to {max(r['when'] for r in rows.values())} UTC, Tenon {', '.join(dict.fromkeys(r['revision'] for r in rows.values()))}.", ""]
    if name == "start": return lines + start_table(rows)
    if name == "size": return lines + size_table(rows)
    lines += speed_table(rows)
    reasons = [f"{NAMES[k]} on {n}: {why}" for n, r in rows.items() for k, why in r["missing"].items()]
    if reasons: lines += ["Not measured: " + "; ".join(reasons) + ".", ""]
    return lines + (memory_table(rows) if name == "f32" else [])


def machine_lines(name, m):
    v = m["versions"]
    lines = [f"## {name}", "", f"ONNX Runtime {v['onnxruntime']}, OpenVINO {v['openvino']}, MNN {v['mnn']}; Linux {v['system']}; {' '.join(m['features'])}.", ""]
    if m.get("peaks"):
        lines += ["| threads | f32, GFLOP/s | L1, GB/s | L2 | L3 | memory |", "|---|---|---|---|---|---|"]
        for t, p in m["peaks"].items(): lines.append(f"| {t} | {p['gflops']:.0f} | " + " | ".join(f"{p.get(k, 0) / 1e9:.0f}" for k in ("l1_bandwidth", "l2_bandwidth", "l3_bandwidth", "bandwidth")) + " |")
        lines += ["", "Peak of the machine, measured by `tenon doctor --measure`.", ""]
    for key, s in in_order(m["sections"]):
        if s["rows"]: lines += section_lines(key, s)
    return lines


HEAD = """# Tenon and other runtimes on CPUs

`make bench-cpu` (`bench/peers.py`) writes this page. [benchmarks.md](../benchmarks.md) explains the method.

| column | meaning |
|---|---|
| times | milliseconds, median (least–most) of the rounds' medians. Each runtime is a process of its own, which is stopped while another runs |
| best peer / Tenon | the best peer's median divided by Tenon's, with the least and the most of the rounds. Above 1, Tenon is faster |
| of the least times | the same ratio of the least times |
| of the peak | operations of the model as it is written, divided by the time and by the measured peak. Winograd does fewer, so it can exceed 100 % |
| largest difference | of Tenon's outputs from ONNX Runtime's, divided by the largest element. A peer with other outputs is marked and does not count |

![Speed of Tenon and of the best peer](cpu.svg)

Settings: """


def markdown(all_):
    settings = "; ".join(f"{NAMES[k]}: {v}" for k, v in SETTINGS.items() if k != "tenon")
    lines = [HEAD + settings + ".", ""]
    for name, m in all_["machines"].items(): lines += machine_lines(name, m)
    return "\n".join(lines).rstrip("\n") + "\n"


# ---- the drawing: for each network a bar from 1 (the best peer) to Tenon's ratio, and where each peer stands ----

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 600; } .section { font-weight: 600; } .small { font-size: 11px; fill: #57606a; }
  .grid { stroke: #d0d7de; } .one { stroke: #57606a; stroke-width: 1.5; }
  .ours { fill: #1a7f64; } .slower { fill: #bf5b04; } .value { font-weight: 600; }
  .onnxruntime { fill: #2f6fd0; } .openvino { fill: #8250df; } .mnn { fill: #c7397b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9198a1; } .grid { stroke: #3d444d; } .one { stroke: #9198a1; }
    .ours { fill: #3fb68b; } .slower { fill: #f0883e; } .onnxruntime { fill: #6ca4ff; } .openvino { fill: #b98eff; } .mnn { fill: #f778ba; }
  }"""
LEFT, WIDTH, ROW, MOST = 190, 820, 22, 2.5


def at(ratio):
    """Where a speed stands, on a logarithmic scale from 0.5 to MOST."""
    share = (math.log(min(max(ratio, 0.5), MOST)) - math.log(0.5)) / (math.log(MOST) - math.log(0.5))
    return LEFT + share * (WIDTH - LEFT - 60)


def escape(s): return s.replace("&", "&amp;").replace("<", "&lt;")


def shape(kind, x, y):
    if kind == "onnxruntime": return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if kind == "openvino": return f'<rect class="{kind}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    return f'<path class="{kind}" d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>'


def bar(name, ratio, y):
    """A row of the drawing: how many times as fast."""
    a, b = sorted((at(1), at(ratio)))
    return [f'<text x="{LEFT - 12}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{"ours" if ratio >= 1 else "slower"}" x="{a:.1f}" y="{y + 4}" width="{max(b - a, 1.5):.1f}" height="14" rx="2"/>',
            f'<text class="value" x="{max(b, at(1)) + 8:.1f}" y="{y + 15}">{ratio:.2f}</text>']


def bars(rows, y):
    out = []
    for name, r in rows.items():
        if "ratio" not in r: continue
        ratio, best = r["ratio"]["median"], r["runtimes"][r["best"]]["ms"]["median"]
        out += bar(name, ratio, y)
        for kind, got in r["runtimes"].items():
            peer = kind.split(":")[0]
            if peer != "tenon" and not got.get("wrong"): out.append(shape(peer, at(best / got["ms"]["median"]), y + 11))
        y += ROW
    return out, y


def svg(all_):
    out, y = [], 74
    for name, m in all_["machines"].items():
        out.append(f'<text class="section" x="14" y="{y}">{escape(name)}</text>')
        y += 12
        for key, s in in_order(m["sections"]):
            rows = {n: r for n, r in s["rows"].items() if "ratio" in r}
            if key in ("start", "size", "models") or not rows: continue
            mean = geomean([r["ratio"]["median"] for r in rows.values()])
            y += 22
            out.append(f'<text class="section" x="14" y="{y}">{escape(s["title"])}</text><text class="small" x="{WIDTH - 14}" y="{y}" text-anchor="end">geometric mean {mean:.2f}</text>')
            y += 4
            top = y
            more, y = bars(rows, y + 2)
            for tick in (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5):
                x = at(tick)
                out.append(f'<line class="{"one" if tick == 1 else "grid"}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y + 2}"/><text class="small" x="{x:.1f}" y="{y + 14}" text-anchor="middle">{tick:g}</text>')
            out += more
            y += 18
        y += 16
    legend, x = [], 14
    for kind in ("onnxruntime", "openvino", "mnn"):
        legend.append(shape(kind, x + 5, 46) + f'<text x="{x + 16}" y="50">{NAMES[kind]}</text>')
        x += 28 + 8 * len(NAMES[kind])
    legend.append(f'<rect class="ours" x="{x}" y="39" width="22" height="14" rx="2"/><text x="{x + 28}" y="50">Tenon, relative to the best peer (1); further right is faster</text>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" role="img" aria-label="Speed of Tenon and of other runtimes">',
                      f"<style>{STYLE}\n</style>", '<text class="title" x="14" y="24">Speed relative to the best peer of each network</text>', *legend, *out, "</svg>"]) + "\n"


def data(x, depth=0):
    """JSON with a line for each model, and no digits that mean nothing."""
    if isinstance(x, float): return json.dumps(float(f"{x:.5g}") if math.isfinite(x) else None)
    if isinstance(x, list): return "[" + ", ".join(data(v, 9) for v in x) + "]"
    if not isinstance(x, dict): return json.dumps(x)
    items = [json.dumps(k) + ": " + data(v, depth + 1) for k, v in x.items()]
    if depth > 5: return "{" + ", ".join(items) + "}"
    pad = "\n" + " " * (depth + 1)
    return "{" + pad + ("," + pad).join(items) + "\n" + " " * depth + "}"


def write(all_, folder):
    for name, content in (("cpu.json", data(all_) + "\n"), ("cpu.md", markdown(all_)), ("cpu.svg", svg(all_))):
        path = os.path.join(folder, name)
        with open(path + ".part", "w") as f: f.write(content)
        os.replace(path + ".part", path)
