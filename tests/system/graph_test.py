#!/usr/bin/env python3
"""graph_test.py -- tests `tenon graph`: the pages in headless Chromium, the picture and the Graphviz text by parsing them.

usage: tests/system/graph_test.py [TENON]      default: $TENON or build/tenon

Needs only Python's standard library.  Without Chromium the page's tests are skipped, which is said.  The last line is
`N passed, N failed`.
"""
import glob, json, os, re, shutil, subprocess, sys, tempfile
import xml.etree.ElementTree as ET

import chromium, graph_models

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TENON = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TENON") or os.path.join(ROOT, "build", "tenon"))
DATA = os.environ.get("DATA") or os.path.join(ROOT, "..", "shared", "data")
TEXT_PAGES = ("hostile", "if", "odd", "modules", "wide", "bert_base.dyn")  # whose text is looked at, at several zooms
SVG = "{http://www.w3.org/2000/svg}"

# ---- graphs ----
EVIL = ['</script><img src=x onerror="window.hacked=1">', "'\"><svg onload=window.hacked=1>", "a\\\" ]; evil [label=\\\"x", "]]> --> <!-- &lt;b&gt; &amp;",
        "\u202etxt.exe\u2066", "${window.hacked=1} `x`", "tab\there", "\u2028line\u2029"]


def quoted(name):
    return '"' + name.replace("\\\\", "\\").replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def evil_graph():
    names = [n.replace('\\"', '"') for n in EVIL]
    lines, last = [], None
    for i, name in enumerate(names):
        lines.append(f"  %{quoted(name)} = relu({last or '%x'})")
        last = "%" + quoted(name)
    body = "\n".join(lines)
    return f'graph @{quoted(names[0])}(%x: f32[batch, 4]) -> ({quoted(names[1])}: f32[batch, 4]) {{\n{body}\n  return {last}\n}}\n'


IF_GRAPH = """graph @"choose"(%cond: bool[], %x: f32[n, 4]) -> (y: f32[n, 4]) {
  %w = const f32[4] {1, 2, 3, -4.5}
  %branch = if(%cond, %x, %x) then_captures=1 then_branch={ @"then" (%a: f32[n, 4])
    %twice = add(%a, %a)
    return %twice
  } else_branch={ @"else" (%b: f32[n, 4])
    %c = neg(%b)
    %d = exp(%c)
    return %d
  }
  %y = mul(%branch, %w)
  return %y
}
"""
ODD_GRAPH = """graph @"odd"(%x: f32[6, 4], %unused: i64[]) -> (same: f32[6, 4], k: f32[2], p: f32[2, 4], q: f32[4, 4], sq: f32[2, 4]) {
  %k = const f32[2] {0.5, 1.5}
  %at = const i64[2] {2, 4}
  %s:2 = split(%x, %at) axis=0
  %sq = mul(%s.0, %s.0)
  return %x, %k, %s.0, %s.1, %sq
}
"""


def modules_graph(layers):
    """Layers of modules in modules, named as exporters do; one that computes, waits for another one and goes on; hostile segments."""
    lines, last = ["  %w = const f32[8, 8] {" + ", ".join(["0.5"] * 64) + "}"], "%x"
    for i in range(layers):
        at = f"/net/block.{i}"
        steps = [("attn/query/MatMul", "mat_mul({0}, %w)"), ("attn/Softmax", "softmax({0})"), ("mlp/<b>fc</b>/MatMul", "mat_mul({0}, %w)"),
                 ("mlp/<b>fc</b>/Relu", "relu({0})"), ("attn/out/Exp", "exp({0})")]
        first = last
        for name, what in steps:
            value = "%" + quoted(f"{at}/{name}")
            lines.append(f"  {value} = {what.format(last)}")
            last = value
        lines.append(f"  %{quoted(at + '/Add')} = add({last}, {first})")
        last = "%" + quoted(at + "/Add")
    body = "\n".join(lines)
    return f"graph(%x: f32[n, 8]) -> (y: f32[n, 8]) {{\n{body}\n  return {last}\n}}\n"


def wide_graph(n):
    lines = "\n".join(f"  %n{i} = add(%x, %c{i})" for i in range(n))
    consts = "\n".join(f"  %c{i} = const f32[1] {{{i}}}" for i in range(n))
    return f"graph(%x: f32[1]) -> (y: f32[{n}]) {{\n{consts}\n{lines}\n  %y = concat({', '.join(f'%n{i}' for i in range(n))}) axis=0\n  return %y\n}}\n"


MIX_GRAPH = """graph @"mix"(%x: f32[batch, 6]) -> (y: f32[batch, 6], z: f32[batch, 6]) {
  %w = const f32[6, 6] {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1}
  %one = const f32[] {1}
  %p = mat_mul(%x, %w)
  %q = mul(%p, %one)
  %r = relu(%q)
  %m = softmax(%r)
  %y = add(%m, %r)
  %s = mat_mul(%y, %w)
  %z = exp(%s)
  return %y, %z
}
"""


def models():
    """(name, path) of real models, as far as they are there."""
    found = [("mnist", os.path.join(DATA, "models", "mnist_onnx2c", "model.onnx"))]
    found += [(n, os.path.join(DATA, "nets", n + ".onnx")) for n in ("resnet50", "bert_base.dyn", "gpt2.new", "lstm")]
    found += [(os.path.basename(os.path.dirname(p)), p) for p in glob.glob(os.path.join(DATA, "models", "silero_vad", "**", "*.onnx"), recursive=True)[:1]]
    debian = "/usr/share/libonnx-testdata/data"
    found += [(t, os.path.join(debian, t, "model.onnx")) for t in ("node/test_loop11", "node/test_if", "simple/test_expand_shape_model1")]
    return [(n, p) for n, p in found if os.path.exists(p)]


# ---- counting ----
passed, failed = 0, 0


def check(what, ok, more=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what} {more}", flush=True)
    return ok


def draw(model, out, *options):
    p = subprocess.run([TENON, "graph", model, "-o", out, *options], capture_output=True, text=True, errors="replace")
    return check(f"{os.path.basename(model)} -> {os.path.basename(out)}", p.returncode == 0, p.stderr)


# ---- what can be seen without a browser ----
def page_data(path):
    text = open(path, encoding="utf-8").read()
    return text, json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def overlaps(nodes):
    """The first two boxes that overlap, by a sweep over y."""
    rows = sorted(enumerate(nodes), key=lambda p: p[1]["box"][1])
    active = []
    for i, n in rows:
        x, y, w, h = n["box"]
        active = [j for j in active if nodes[j]["box"][1] + nodes[j]["box"][3] > y]
        for j in active:
            bx, _, bw, _ = nodes[j]["box"]
            if x < bx + bw - 1 and bx < x + w - 1: return i, j
        active.append(i)
    return None


def drawings(data):
    """All that is laid out: drawings, and the parts of folds."""
    return data["drawings"] + [p for f in data["folds"] for p in f["parts"]]


def check_fold(name, data, fold):
    """Every node of the drawing is a leaf once, and modules hold all parts but the first."""
    flat = data["drawings"][fold["of"]]["nodes"]
    leaves = sorted(n["leaf"] for p in fold["parts"] for n in p["nodes"] if "leaf" in n)
    check(f"{name}: fold by {fold['by']}: every node once", leaves == list(range(len(flat))))
    held = sorted(n["part"] for p in fold["parts"] for n in p["nodes"] if "part" in n)
    check(f"{name}: fold by {fold['by']}: every part held", held == list(range(1, len(fold["parts"]))))


def check_data(name, data):
    for fold in data["folds"]: check_fold(name, data, fold)
    for k, d in enumerate(drawings(data)):
        pair = overlaps(d["nodes"])
        check(f"{name}: boxes of drawing {k} apart", pair is None, str(pair))
        upward = [e for e in d["edges"] if d["nodes"][e[0]]["box"][1] >= d["nodes"][e[1]]["box"][1]]
        check(f"{name}: edges of drawing {k} lead down", not upward, str(upward[:1]))
        inside = all(n["box"][0] >= 0 and n["box"][1] >= 0 and n["box"][0] + n["box"][2] <= d["w"] + 1 and n["box"][1] + n["box"][3] <= d["h"] + 1
                     for n in d["nodes"])
        check(f"{name}: drawing {k} within its size", inside)


def check_svg(name, path, data):
    try:
        tree = ET.parse(path).getroot()
    except ET.ParseError as e:
        check(f"{name}: well-formed SVG", False, str(e))
        return
    tags = {e.tag for e in tree.iter()}
    check(f"{name}: SVG of plain shapes", tags <= {SVG + t for t in ("svg", "title", "style", "rect", "path", "g", "text", "a")}, str(tags))
    cards = sum(e.get("class") == "c" for e in tree.iter(SVG + "rect"))
    check(f"{name}: every node in the SVG", cards == sum(len(d["nodes"]) for d in data["drawings"]), str(cards))
    events = [a for e in tree.iter() for a in e.attrib if a.lower().startswith("on")]
    check(f"{name}: no handlers in the SVG", not events, str(events))


def check_dot(name, path, data):
    text = open(path, encoding="utf-8").read().split("\n", 1)[1]  # after the comment that says who made it
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "@", text)
    check(f"{name}: DOT strings closed", '"' not in bare and re.fullmatch(r"[\w@\[\]{}=,;>\s-]*", bare) is not None)
    nodes = len(re.findall(r"^\s*n\d+_\d+ \[", bare, re.M))
    check(f"{name}: every node in the DOT", nodes == sum(len(d["nodes"]) for d in data["drawings"]), str(nodes))
    if shutil.which("dot") and nodes < 2000:
        check(f"{name}: Graphviz takes it", subprocess.run(["dot", "-Tplain", path], capture_output=True).returncode == 0)


# ---- optimised: what the page is told ----
def size_of(e, sizes):
    """What memory.js does: a size from its expression."""
    if not isinstance(e, list): return e
    what, *args = e
    if what == "sym": return sizes[args[0]]
    if what == "sum":
        total = 0
        for coefficient, *factors in args:
            for f in factors: coefficient *= size_of(f, sizes)
            total += coefficient
        return total
    x, y = (size_of(a, sizes) for a in args)
    return {"div": lambda: x // y, "mod": lambda: x % y, "min": lambda: min(x, y), "max": lambda: max(x, y), "bcast": lambda: y if x == 1 else x}[what]()


def lay_plan(plan, sizes):
    """Offsets and sizes of all roots, the arena's size, and two that overlap while both live (or None)."""
    b = plan["buffers"]
    size, offset, total, bad = [size_of(x["bytes"], sizes) for x in b], {}, 0, None
    for i in plan["order"]:
        offset[i] = max([offset[k] + size[k] for k in b[i]["below"]], default=0)
        total = max(total, offset[i] + size[i])
    roots = plan["order"]
    for n, i in enumerate(roots):
        for k in roots[:n]:
            together = b[i]["firstShared"] <= b[k]["lastShared"] and b[k]["firstShared"] <= b[i]["lastShared"]
            if together and size[i] and size[k] and offset[i] < offset[k] + size[k] and offset[k] < offset[i] + size[i]: bad = (i, k)
    return total, bad


def check_optimised_data(name, model, data):
    opt, before, after = data["opt"], data["drawings"][0]["nodes"], data["drawings"][data["opt"]["drawing"]]["nodes"]
    report = json.loads(subprocess.run([TENON, "inspect", model, "--optimised", "--json"], capture_output=True, text=True).stdout)
    check(f"{name}: as many kernels as inspect counts", opt["launches"] == report["kernels"], f"{opt['launches']} {report['kernels']}")
    listed = sorted(n["node"] for n in opt["nodes"])
    check(f"{name}: every operation has a fate", listed == [i for i, n in enumerate(before) if n["kind"] == "op"])
    check(f"{name}: a kernel is drawn as one", all(k["kind"] in after[k["node"]]["title"] and after[k["node"]].get("bodies") for k in opt["kernels"]))
    check(f"{name}: fates name kernels and rules that are there", all(all(k < len(opt["kernels"]) for k in n["kernels"] + [n.get("into", 0)][:len(opt["kernels"])]) and
          n.get("rule", -1) < len(opt["rules"]) and (n["fate"] == "kernel") == bool(n["kernels"]) for n in opt["nodes"]))
    fired = sum(r["fired"] for r in opt["rules"])
    check(f"{name}: what is gone was taken by a rule that fired", fired > 0 or not any(n["fate"] == "removed" for n in opt["nodes"]))
    for scale in (1, 3):
        sizes = [d and d["value"] * scale for d in opt["dims"]]
        total, bad = lay_plan(opt["plan"], sizes)
        check(f"{name}: no two live buffers overlap, sizes x {scale}", bad is None, str(bad))
        check(f"{name}: an arena where something is computed", (total > 0) == any(size_of(b["bytes"], sizes) for b in opt["plan"]["buffers"]))
    steps = opt["plan"]["steps"]
    check(f"{name}: each step is a node", len(set(steps)) == len(steps) and all(after[i]["kind"] == "op" for i in steps))


def fit(b):
    """All modules unfolded and the whole graph in view, in every pane: elements are made when they come into view."""
    if b.js("document.body.textContent.includes('modules') && [...document.querySelectorAll('header button[aria-pressed=true]')].some(e => e.textContent == 'modules')"): b.key("g")
    b.js("[...document.querySelectorAll('header button')].find(e => e.textContent == 'fit').click()")
    b.settle()


# Text that can be seen, as rectangles; two that overlap, and how many there are.
OVERLAPS = """(() => {
  const out = [];
  for (const stage of document.querySelectorAll('.holder')) {
    const box = stage.getBoundingClientRect();
    const seen = [...stage.querySelectorAll('.canvas text, .names span')].filter(e => e.checkVisibility()).map(e => [e.getBoundingClientRect(), e.textContent, e])
      .filter(([r]) => r.width && r.right > box.left && r.left < box.right && r.bottom > box.top && r.top < box.bottom).sort((a, b) => a[0].top - b[0].top);
    let pair = null;
    seen.forEach(([a, text, e], i) => {
      for (let k = i + 1; k < seen.length && seen[k][0].top < a.bottom; k++) {
        const c = seen[k][0], x = Math.min(a.right, c.right) - Math.max(a.left, c.left), y = Math.min(a.bottom, c.bottom) - Math.max(a.top, c.top);
        if (x > 1.5 && y > Math.min(a.height, c.height) * 0.35 && !pair) pair = [text, seen[k][1], x, y];
      }
    });
    out.push([seen.length, pair]);
  }
  return out;
})()"""


def check_text(b, name, page):
    """At every zoom there is text, and none over another one."""
    b.open(page)
    for zoom in (1, 2, 0.5, 0.25, 0.05):
        b.js("[...document.querySelectorAll('header button')].find(e => e.textContent == 'fit').click()")
        b.settle()
        k = b.js("Number(/scale\\(([^)]*)/.exec(document.querySelector('.canvas > svg').style.transform)[1])")
        for _ in range(40):
            if not 0.8 < k / zoom < 1.25: b.key("-" if k > zoom else "+")
            k = b.js("Number(/scale\\(([^)]*)/.exec(document.querySelector('.canvas > svg').style.transform)[1])")
        for n, pair in b.js(OVERLAPS):
            check(f"{name}: text at zoom {k:.2f}", n > 0, str(n))
            check(f"{name}: no text over another at zoom {k:.2f}", pair is None, str(pair))
    over = b.js("""[...document.querySelectorAll('.pane')].some(p => { const a = p.querySelector('.canvas').getBoundingClientRect(), m = p.querySelector('.mini').getBoundingClientRect();
      return m.width && m.left < a.right && a.left < m.right && m.top < a.bottom && a.top < m.bottom; })""")
    check(f"{name}: the minimap covers nothing", not over)


def check_modules(b, name, path, data):
    """A page that starts folded: modules open and close, search opens what holds a node."""
    fold = next((f for f in data["folds"] if f["by"] == "modules" and f["of"] == 0), None)
    if not fold or len(data["drawings"][0]["nodes"]) < 150: return
    b.open(path)
    check(f"{name}: starts folded", b.count("#canvas .node.module") > 0)
    deepest = max(range(len(fold["parts"])), key=lambda i: depth_of(fold, i))
    leaf = next(n["leaf"] for n in fold["parts"][deepest]["nodes"] if "leaf" in n)
    b.open(path, f"#d0n{leaf}")
    check(f"{name}: a node in {depth_of(fold, deepest)} modules is shown", b.count(f"#canvas .node.on[data-d='0'][data-node='{leaf}']") == 1)
    check(f"{name}: its modules are open", b.count("#canvas .node.module.open") >= depth_of(fold, deepest))
    b.key("E")
    b.key("f")
    shown = sum("leaf" in n for p in fold["parts"] for n in p["nodes"])
    check(f"{name}: all open, all nodes are there", b.count("#canvas .node[data-d='0']") == shown, f"{b.count('#canvas .node[data-d=' + chr(39) + '0' + chr(39) + ']')} {shown}")
    b.key("E")
    b.key("f")
    check(f"{name}: all closed, the first part is there", b.count("#canvas .node") == len(fold["parts"][0]["nodes"]), str(b.count("#canvas .node")))
    check(f"{name}: what was selected is in a module now", b.count("#canvas .node.module.on") == 1)
    b.key("c")
    check(f"{name}: colours by FLOPs", b.js("document.querySelector('.legend').textContent").endswith("FLOP") and "most FLOPs" in (b.key("Escape"), b.panel())[1], b.panel()[:200])
    check(f"{name}: folded: nothing on the console", not b.problems, str(b.problems[:2]))


def depth_of(fold, part):
    n = 0
    while fold["parts"][part]["parent"] >= 0: part, n = fold["parts"][part]["parent"], n + 1
    return n


def check_page(b, name, path, data):
    """What holds for every page."""
    b.open(path)
    main = data["drawings"][0]
    fit(b)
    check(f"{name}: nodes in the page", b.count(".node") == len(main["nodes"]), f"{b.count('.node')} of {len(main['nodes'])}")
    check(f"{name}: edges in the page", b.count(".edge") == len(main["edges"]))
    ops = [i for i, n in enumerate(main["nodes"]) if n["kind"] == "op"]
    if ops:
        b.open(path, f"#d0n{ops[-1]}")
        node = main["nodes"][ops[-1]]
        check(f"{name}: panel of the last operation", node["out"][0][1] in b.panel() and node["title"] in b.panel(), b.panel()[:200])
        b.key("f")
    check(f"{name}: nothing on the console", not b.problems, str(b.problems[:2]))


def check_evil_page(b, path):
    b.open(path)
    b.key("/")
    b.type("onerror")
    b.key("Enter")
    check("hostile: a name is shown as text", '</script><img src=x onerror="window.hacked=1">' in b.panel(), b.panel()[:300])
    b.key("Escape")
    b.key("/")
    b.type("RELU")
    check("hostile: search marks every node", b.count(".node.hit") == len(EVIL), str(b.count(".node.hit")))
    for i in range(len(EVIL)): b.key("Enter")
    check("hostile: no directional overrides", not b.js("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.querySelector('#canvas').textContent + document.querySelector('#matches').textContent)"))
    check("hostile: no markup was made", b.count("img") + b.count("svg svg") == 0)
    check("hostile: no script ran", b.js("window.hacked === undefined"))
    check("hostile: nothing on the console", not b.problems, str(b.problems[:2]))


def check_if_page(b, path):
    b.open(path)
    b.key("/")
    b.type("branch")
    check("if: one match", b.js("document.querySelector('#matches .count').textContent") == "1 match")
    b.key("Enter")
    check("if: the panel shows the shape", "f32[n, 4]" in b.panel(), b.panel())
    check("if: bodies are offered", b.count("#panel .open") == 2)
    b.click("#panel > .open:nth-of-type(2)")
    check("if: else branch drawn", b.count(".node") == 4, str(b.count(".node")))
    b.js("document.activeElement.blur()")
    b.key("Backspace")
    check("if: back in the main drawing", b.count(".node") == 5 and "if" in b.panel())
    b.key("ArrowDown")
    check("if: down goes to the user", "ONNX Mul" in b.panel(), b.panel())
    check("if: a constant's contents", all(t in b.panel() for t in ("1, 2, 3, -4.5", "min-4.5", "max3", "mean0.375")), b.panel())
    b.key("Escape")
    b.click(".node[data-node='2']")
    check("if: a click selects", "sub-graphs" in b.panel())
    b.key("s")
    check("if: shapes are hidden", b.js("getComputedStyle(document.querySelector('.label')).display") == "none")
    before = b.js("document.querySelector('#canvas > svg').style.transform")
    b.call("Input.dispatchMouseEvent", type="mouseWheel", x=400, y=400, deltaX=0, deltaY=-240)
    for key in "+-": b.key(key)
    check("if: wheel and keys zoom", before != b.js("document.querySelector('#canvas > svg').style.transform"))
    check("if: nothing on the console", not b.problems, str(b.problems[:2]))


# ---- optimised: what a person does with the page ----
def hover(b):
    """Moves over the memory plan until a tensor is named; the tip's text."""
    x, y, w, h = b.js("(r => [r.x, r.y, r.width, r.height])(document.querySelector('#plan').getBoundingClientRect())")
    for k in range(1, 80):
        b.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 80 + (w - 110) * (k * 0.618 % 1), y=y + h - 28 - (h - 50) * (k % 9) / 9)
        b.settle()
        if b.js("!document.querySelector('#tip').hidden"): return b.js("document.querySelector('#tip').textContent")
    return ""


def check_optimised_page(b, name, path, data):
    opt = data["opt"]
    b.open(path)
    sides = (("#canvas", data["drawings"][0]), ("#after", data["drawings"][opt["drawing"]]))
    host = next((f["parts"][0] for f in data["folds"] if f["by"] == "host" and f["of"] == opt["drawing"]), None)
    seen_after = len((host or sides[1][1])["nodes"])
    fit(b)
    for side, n in (("#canvas", len(sides[0][1]["nodes"])), ("#after", seen_after)):
        check(f"{name}: nodes of {side}", b.count(side + " .node") == n, f"{b.count(side + ' .node')} of {n}")
    check(f"{name}: the overview counts kernels", f"{opt['before']['nodes']:,} \u2192 {opt['launches']:,}" in b.panel(), b.panel()[:200])
    if opt["kernels"]:
        members = [[n["node"] for n in opt["nodes"] if k in n["kernels"]] for k in range(len(opt["kernels"]))]
        k = max(range(len(members)), key=lambda i: len(members[i]))
        kernel, at = opt["kernels"][k], opt["kernels"][k]["node"]
        plain = {n["leaf"] for n in host["nodes"] if "leaf" in n} if host else set(range(len(sides[1][1]["nodes"])))
        b.open(path, f"#d{opt['drawing']}n{at}")
        check(f"{name}: a kernel's nodes are marked before", b.count("#canvas .node.link") == len(members[k]), str(b.count("#canvas .node.link")))
        check(f"{name}: a kernel's panel", all(t in b.panel() for t in (kernel["kind"], "FLOPs per byte", "its nodes alone", "in memory")), b.panel()[:300])
        body = data["drawings"][sides[1][1]["nodes"][at]["bodies"][0][1]]
        b.click(f"#after .node[data-d='{opt['drawing']}'][data-node='{at}'] .title")
        check(f"{name}: a click opens it", b.count("#after .node.open") == 1 + (at not in plain), str(b.count("#after .node.open")))
        b.key("f")
        inside = sides[1][1]["nodes"][at]["bodies"][0][1]
        check(f"{name}: its body is there", b.count(f"#after .node[data-d='{inside}']") == len(body["nodes"]), str(b.count("#after .node")))
        b.key("e")
        check(f"{name}: a key closes it", b.count("#after .node.open") == (at not in plain))
        seen = b.js("""(box => %s.find(i => { const r = document.querySelector(`#canvas .node[data-node="${i}"]`).getBoundingClientRect();
          return r.width && r.left > box.left && r.right < box.right && r.top > box.top && r.bottom < box.bottom; }))(document.querySelector('#canvas').getBoundingClientRect())"""
                    % json.dumps(members[k]))
        check(f"{name}: some of a kernel's nodes come into view", seen is not None or not members[k])
        if seen is not None:
            b.click(f"#canvas .node[data-node='{seen}']")
            check(f"{name}: a node's kernel is marked after", b.count(f"#after .node.link[data-node='{at}']") == 1 and "in a kernel" in b.panel(), b.panel()[:200])
        b.key("E")
        b.key("2")
        b.key("f")
        shown = sum(k["node"] in plain for k in opt["kernels"])
        check(f"{name}: all kernels open", b.count("#after .node.open:not(.module)") >= shown, f"{b.count('#after .node.open')} of {shown}")
        shut = b.js("""(() => { const boxes = [...document.querySelectorAll(`#after .node[data-d="%d"] > .card`)].map(e => e.getBoundingClientRect());
          return boxes.every((a, i) => boxes.every((c, k) => i >= k || a.right <= c.left + 1 || c.right <= a.left + 1 || a.bottom <= c.top + 1 || c.bottom <= a.top + 1)); })()""" % opt["drawing"])
        check(f"{name}: open kernels do not overlap", shut)
        b.key("E")
    if any(size_of(x["bytes"], [d and d["value"] for d in opt["dims"]]) for x in opt["plan"]["buffers"]):
        text = hover(b)
        check(f"{name}: hovering names a tensor", any(x["type"] in text for x in opt["plan"]["buffers"]) and "alive" in text, text)
    b.js("document.activeElement.blur()")
    for key in "krmm":
        b.key(key)
    if opt["rules"]:
        b.click("#panel .rule:nth-of-type(3) .row" if b.count("#panel .rule") > 2 else "#panel .rule .row")
        check(f"{name}: a rule is explained", b.count("#panel .rule pre") == 1)
    for key in ("Escape", "t", "Tab", "f", "2", "ArrowDown"): b.key(key)
    check(f"{name}: optimised: nothing on the console", not b.problems, str(b.problems[:2]))


def check_mix_page(b, path, data):
    """A graph whose fate is known: the multiplication by one goes, and its rule says so; the arena follows the sizes that are set."""
    b.open(path)
    gone = [n for n in data["opt"]["nodes"] if n["fate"] == "removed"]
    check("mix: one operation is taken away", [data["drawings"][0]["nodes"][n["node"]]["name"] for n in gone] == ["q"], str(gone))
    check("mix: it is drawn as gone", b.count("#canvas .node.gone") == 1)
    b.key("r")
    b.click("#panel .rule .row")
    check("mix: its rule leads to it", b.count("#canvas .node.into") == 1 and "mul.one" in b.panel(), b.panel()[:200])
    arena = lambda: b.js("document.querySelector('.figures').textContent")
    was = arena()
    b.js("(e => { e.value = 1000; e.dispatchEvent(new Event('input')); })(document.querySelector('#dock input'))")
    total, _ = lay_plan(data["opt"]["plan"], [1000])
    check("mix: the arena follows the size", arena() != was and f"arena {total / 1024:.1f} KiB" in arena(), arena())
    b.js("(e => { e.value = -3; e.dispatchEvent(new Event('input')); })(document.querySelector('#dock input'))")
    check("mix: a size that cannot be is refused", b.count("#dock input.bad") == 1)
    b.key("/")
    b.type("softmax")
    b.key("Enter")
    b.key("Enter")
    check("mix: search finds both sides", b.count(".node.hit") >= 1 and "matches" in b.js("document.querySelector('#matches').textContent"))
    check("mix: nothing on the console", not b.problems, str(b.problems[:2]))


def check_evil_optimised(b, path):
    b.open(path)
    for key in ("2", "E", "k", "r", "Escape"): b.key(key)
    text = hover(b)
    check("hostile: optimised: a name is shown as text", text and b.count("img") + b.count("svg svg") == 0, text)
    b.key("/")
    b.type("onerror")
    for _ in range(4): b.key("Enter")
    check("hostile: optimised: no directional overrides", not b.js("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"))
    check("hostile: optimised: no script ran", b.js("window.hacked === undefined") and b.count("img") == 0)
    check("hostile: optimised: nothing on the console", not b.problems, str(b.problems[:2]))


# ---- measured times, notebooks ----
def check_profile(b, model, folder):
    """Times of an invented profile are those of the kernels, and of all that went into them; all three forms of file are read."""
    out, file = os.path.join(folder, "timed.html"), os.path.join(folder, "profile.json")
    kernels = json.loads(subprocess.run([TENON, "graph", model, "--optimised", "--json"], capture_output=True, text=True).stdout)["opt"]["kernels"]
    named = [k["name"] for k in kernels]
    times = [1.5 * (i + 1) for i in range(len(named))]
    forms = {"bench": {"steps": [{"node": n, "ms": t, "step": i, "function": 0} for i, (n, t) in reversed(list(enumerate(zip(named, times))))] + [{"node": "<i>no such</i>", "ms": 0.25, "step": 99}]},
             "python": {"steps": [{"index": i, "node": n, "ns": t * 1e6} for i, (n, t) in enumerate(zip(named, times))]},
             "trace": {"traceEvents": [{"ph": "M", "name": "process"}] + [{"ph": "X", "dur": t * 1e3, "args": {"node": n}} for n, t in zip(named, times)]}}
    for form, text in forms.items():
        json.dump(text, open(file, "w"))
        if not draw(model, out, "--times", file, "--optimised", "--force"): continue
        _, data = page_data(out)
        after = data["drawings"][data["opt"]["drawing"]]["nodes"]
        check(f"profile of {form}: each kernel has its time", [after[k["node"]]["cost"][2] for k in data["opt"]["kernels"]] == times)
        ops = [n["cost"] for n in data["drawings"][0]["nodes"] if n["kind"] == "op"]
        check(f"profile of {form}: shares add up", abs(sum(c[3] for c in ops if len(c) > 2) - sum(times)) < 1e-9)
        shared = [n["node"] for n in data["opt"]["nodes"] if n["kernels"] == [0]]
        check(f"profile of {form}: nodes of a kernel share its time", shared and all(data["drawings"][0]["nodes"][i]["cost"][2] == times[0] for i in shared))
    # Weights that passes make have the name of the node that reads them, which is the kernel's too.
    packed = os.path.join(ROOT, "tests", "models", "digits_int8.onnx")
    drawn = json.loads(subprocess.run([TENON, "graph", packed, "--optimised", "--json"], capture_output=True, text=True).stdout)["opt"]["kernels"]
    data = page_data_of(packed, file, {"steps": [{"node": k["name"], "ms": 2, "step": i} for i, k in enumerate(drawn)]})
    shares = [n["cost"][3] for n in data["drawings"][0]["nodes"] if n["kind"] == "op" and len(n["cost"]) > 2]
    check("profile: weights take no time of the kernel that has their name", abs(sum(shares) - 2 * len(drawn)) < 1e-9, f"{sum(shares)} of {2 * len(drawn)} ms")
    check("profile: steps without a node are told", [u[0] for u in page_data_of(model, file, forms["bench"])["profile"]["unplaced"]] == ["<i>no such</i>"])
    for text in ("[]", "{}", '{"steps": 3}', '{"steps": [{}]}', '{"steps": [{"node": "x", "ms": -1}]}', '{"steps": [{"node": "x", "ms": "1"}]}', '{"steps": [', "\0\xff"):
        open(file, "w").write(text)
        p = subprocess.run([TENON, "graph", model, "-o", out, "--times", file, "--force"], capture_output=True, text=True)
        check(f"profile {text!r}: an error that names the file", p.returncode == 1 and "profile.json" in p.stderr, f"{p.returncode} {p.stderr}")
    p = subprocess.run([TENON, "graph", model, "-o", os.path.join(folder, "t.svg"), "--times", file], capture_output=True, text=True)
    check("--times with a picture: usage error", p.returncode == 2 and "--times" in p.stderr, p.stderr)
    if not b: return
    json.dump(forms["bench"], open(file, "w"))
    draw(model, out, "--times", file, "--force")
    b.open(out)
    check("profile: colours are times at first", b.js("document.querySelector('header select').value") == "time" and "ms" in b.js("document.querySelector('.legend').textContent"))
    check("profile: the panel has the slowest, and what has no node", "most measured time" in b.panel() and "<i>no such</i>" in b.panel(), b.panel()[:300])
    b.click("#panel .row")
    check("profile: a fused node says that it shares", "nodes were fused into" in b.panel(), b.panel()[:400])
    check("profile: nothing on the console", not b.problems, str(b.problems[:2]))


def page_data_of(model, file, profile):
    json.dump(profile, open(file, "w"))
    return json.loads(subprocess.run([TENON, "graph", model, "--json", "--times", file], capture_output=True, text=True).stdout)


def check_notebook(b, page, folder):
    """In a frame that is not displayed at first, as in a notebook's other tab; then shown, then made smaller."""
    path = os.path.join(folder, "notebook.html")
    text = open(page, encoding="utf-8").read().replace("&", "&amp;").replace('"', "&quot;")
    open(path, "w", encoding="utf-8").write(f'<!doctype html><div id="tab" style="display:none"><iframe srcdoc="{text}" style="width:100%;height:480px"></iframe></div>')
    b.open(path)
    inside = """(() => { const d = document.querySelector('iframe').contentDocument, c = d.querySelector('#canvas').getBoundingClientRect();
      return [...d.querySelectorAll('.node > .card')].map(e => e.getBoundingClientRect()).every(r => r.width > 0 && r.left >= c.left - 1 && r.right <= c.right + 1 && r.top >= c.top - 1 && r.bottom <= c.bottom + 1); })()"""
    nodes = "document.querySelector('iframe').contentDocument.querySelectorAll('.node').length"
    check("notebook: hidden, nothing is drawn", b.js(nodes) == 0, str(b.js(nodes)))
    for width in ("100%", "420px"):
        b.js(f"(t => {{ t.style.display = 'block'; t.style.width = '{width}'; }})(document.querySelector('#tab'))")
        for _ in range(4): b.settle()
        check(f"notebook: {width} wide: all nodes in view", b.js(nodes) == 5 and b.js(inside), str(b.js(nodes)))
    check("notebook: nothing on the console", not b.problems, str(b.problems[:2]))


# ---- all of it ----
def optimised(b, name, model, out):
    if not draw(model, out, "--optimised"): return
    text, data = page_data(out)
    check(f"{name}: optimised: one script, one block of data", text.count("<script") == 2 and text.count("</script") == 2)
    check_data(name + ": optimised", data)
    check_optimised_data(name, model, data)
    if not b: return
    check_optimised_page(b, name, out, data)
    if name == "hostile": check_evil_optimised(b, out)
    if name == "mix": check_mix_page(b, out, data)


def main():
    browser = chromium.find()
    folder = tempfile.mkdtemp(prefix="tenon-graph-")
    b = None
    try:
        jobs = []
        texts = {"hostile": evil_graph(), "if": IF_GRAPH, "mix": MIX_GRAPH, "odd": ODD_GRAPH, "modules": modules_graph(30), "big2000": graph_models.branching(2000), "big": graph_models.branching(5000), "huge": graph_models.branching(10000), "wide": wide_graph(1500),
                 "empty": "graph() -> () {\n  return\n}\n"}
        for name, text in texts.items():
            path = os.path.join(folder, name + ".tir")
            open(path, "w", encoding="utf-8").write(text)
            jobs.append((name, path))
        jobs += [(n.replace("/", "_"), p) for n, p in models()]
        if browser: b = chromium.Browser(browser, os.path.join(folder, "profile"))
        for name, model in jobs:
            out = {e: os.path.join(folder, f"{name}.{e}") for e in ("html", "svg", "dot")}
            if not all([draw(model, out[e]) for e in out]): continue
            text, data = page_data(out["html"])
            check(f"{name}: one script, one block of data", text.count("<script") == 2 and text.count("</script") == 2)
            check(f"{name}: nothing from elsewhere", not re.search(r'(src|href)="(?!data:|#)', text.split('id="data"')[0]))
            check_data(name, data)
            check_svg(name, out["svg"], data)
            check_dot(name, out["dot"], data)
            if b: check_page(b, name, out["html"], data)
            if b: check_modules(b, name, out["html"], data)
            if b and name in TEXT_PAGES: check_text(b, name, out["html"])
            if b and name == "hostile": check_evil_page(b, out["html"])
            if b and name == "if": check_if_page(b, out["html"])
            if name not in ("huge", "big"): optimised(b, name, model, os.path.join(folder, name + ".optimised.html"))
        mix = os.path.join(folder, "mix.tir")
        check_profile(b, mix, folder)
        lite = json.loads(subprocess.run([TENON, "graph", os.path.join(ROOT, "tests", "models", "custom.tflite"), "--json"], capture_output=True, text=True).stdout)
        names = {n["title"]: n["name"] for n in lite["drawings"][0]["nodes"] if n["kind"] == "op"}
        check("TensorFlow Lite: nodes are named after results", names["add"] == "sum" and names["mul"] == "y" and names["custom operator Frobnicate"] == "odd", str(names))
        if b: check_notebook(b, os.path.join(folder, "if.html"), folder)
        p = subprocess.run([TENON, "graph", mix, "--optimised", "--json", "--dim", "batch=5"], capture_output=True, text=True)
        check("--json: what the page shows", p.returncode == 0 and json.loads(p.stdout)["opt"]["dims"][0]["value"] == 5, p.stderr)
        for e in ("svg", "dot"): check(f"optimised .{e}: the kernels", draw(mix, os.path.join(folder, "k." + e), "--optimised") and
                                       "0 contraction" in open(os.path.join(folder, "k." + e)).read())
        bad = subprocess.run([TENON, "graph", jobs[0][1], "-o", os.path.join(folder, "x.png")], capture_output=True, text=True)
        check("unknown format: usage error that names the formats", bad.returncode == 2 and ".svg" in bad.stderr, bad.stderr)
    finally:
        if b: b.close()
        shutil.rmtree(folder, ignore_errors=True)
    if not browser: print("skipped: the pages themselves; no Chromium here (apt install chromium)")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
