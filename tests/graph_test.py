#!/usr/bin/env python3
"""graph_test.py -- tests `tenon graph`: the page in headless Chromium, the picture and the Graphviz text by parsing them.

usage: tests/graph_test.py [TENON]      default: $TENON or build/tenon

Needs only Python's standard library.  Without Chromium the page's tests are skipped, which is said.  The last line is
`N passed, N failed`.
"""
import glob, json, os, re, shutil, subprocess, sys, tempfile, time
import xml.etree.ElementTree as ET

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TENON = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TENON") or os.path.join(ROOT, "build", "tenon"))
DATA = os.environ.get("DATA") or os.path.join(ROOT, "..", "shared", "data")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
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


def big_graph(n):
    """n operations: chains that branch, join and skip."""
    lines = []
    for i in range(n):
        a = f"%n{i - 1}" if i else "%x"
        b = f"%n{i - 7}" if i % 5 == 0 and i >= 7 else f"%n{i // 2}" if i % 97 == 0 and i else a
        lines.append(f"  %n{i} = {'add' if i % 2 else 'mul'}({a}, {b})" if b != a or i % 3 else f"  %n{i} = exp({a})")
    body = "\n".join(lines)
    return f"graph(%x: f32[8]) -> (y: f32[8]) {{\n{body}\n  return %n{n - 1}\n}}\n"


def wide_graph(n):
    lines = "\n".join(f"  %n{i} = add(%x, %c{i})" for i in range(n))
    consts = "\n".join(f"  %c{i} = const f32[1] {{{i}}}" for i in range(n))
    return f"graph(%x: f32[1]) -> (y: f32[{n}]) {{\n{consts}\n{lines}\n  %y = concat({', '.join(f'%n{i}' for i in range(n))}) axis=0\n  return %y\n}}\n"


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


def draw(model, out):
    start = time.monotonic()
    p = subprocess.run([TENON, "graph", model, "-o", out], capture_output=True, text=True, errors="replace")
    return check(f"{os.path.basename(model)} -> {os.path.basename(out)}", p.returncode == 0, p.stderr) and time.monotonic() - start


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


def check_data(name, data):
    for k, d in enumerate(data["drawings"]):
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
    text = open(path, encoding="utf-8").read()
    bare = re.sub(r'"(?:\\.|[^"\\])*"', "@", text)
    check(f"{name}: DOT strings closed", '"' not in bare and re.fullmatch(r"[\w@\[\]{}=,;>\s-]*", bare) is not None)
    nodes = len(re.findall(r"^\s*n\d+_\d+ \[", bare, re.M))
    check(f"{name}: every node in the DOT", nodes == sum(len(d["nodes"]) for d in data["drawings"]), str(nodes))
    if shutil.which("dot") and nodes < 2000:
        check(f"{name}: Graphviz takes it", subprocess.run(["dot", "-Tplain", path], capture_output=True).returncode == 0)


# ---- the browser: its DevTools protocol over a pipe ----
class Browser:
    def __init__(self, program, folder):
        to_r, to_w = os.pipe()
        from_r, from_w = os.pipe()
        args = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1400,900",
                "--user-data-dir=" + folder, "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_r} 4>&{from_w}', "bash", *args], pass_fds=(to_r, from_w),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(from_w)
        self.write, self.read = to_w, os.fdopen(from_r, "rb")
        self.buffer, self.number, self.session, self.problems = b"", 0, None, []
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"): self.call(domain + ".enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session: message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive()
            if reply.get("id") == self.number:
                if "error" in reply: raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            if reply.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.problems.append(json.dumps(reply["params"])[:600])

    def receive(self):
        while b"\0" not in self.buffer:
            more = self.read.read1(1 << 16)
            if not more: raise RuntimeError("the browser went away")
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r: raise RuntimeError(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def settle(self):
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open(self, path, hash=""):
        self.problems.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + path + hash)
        for _ in range(400):
            if self.js("document.readyState == 'complete' && location.protocol == 'file:'"): break
            time.sleep(0.05)
        self.settle()

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def click(self, selector):
        x, y = self.js(f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.settle()

    def count(self, selector): return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")
    def panel(self): return self.js("document.querySelector('#panel').textContent")

    def close(self):
        try: self.call("Browser.close")
        except (RuntimeError, OSError): pass
        try: self.process.wait(10)
        except subprocess.TimeoutExpired: self.process.kill()


def check_page(b, name, path, data):
    """What holds for every page."""
    b.open(path)
    main = data["drawings"][0]
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


def check_speed(b, path):
    start = time.monotonic()
    b.open(path)
    check("5,000 nodes: the page opens within 5 s", time.monotonic() - start < 5, f"{time.monotonic() - start:.1f} s")
    frame = """(async () => {
      const t = performance.now();
      for (let i = 0; i < 20; i++) {
        document.querySelector('#canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: i < 10 ? 120 : -120, bubbles: true, cancelable: true}));
        await new Promise(requestAnimationFrame);
      }
      return (performance.now() - t) / 20;
    })()"""
    ms = b.js(frame)
    print(f"5,000 nodes: {ms:.0f} ms a frame while zooming")
    check("5,000 nodes: zooming under 200 ms a frame", ms < 200, f"{ms:.0f} ms")


# ---- all of it ----
def main():
    browser = next((p for p in map(shutil.which, BROWSERS) if p), None)
    folder = tempfile.mkdtemp(prefix="tenon-graph-")
    b = None
    try:
        jobs = []
        texts = {"hostile": evil_graph(), "if": IF_GRAPH, "odd": ODD_GRAPH, "big": big_graph(5000), "huge": big_graph(10000), "wide": wide_graph(1500),
                 "empty": "graph() -> () {\n  return\n}\n"}
        for name, text in texts.items():
            path = os.path.join(folder, name + ".tir")
            open(path, "w", encoding="utf-8").write(text)
            jobs.append((name, path))
        jobs += [(n.replace("/", "_"), p) for n, p in models()]
        if browser: b = Browser(browser, os.path.join(folder, "profile"))
        for name, model in jobs:
            out = {e: os.path.join(folder, f"{name}.{e}") for e in ("html", "svg", "dot")}
            seconds = [draw(model, out[e]) for e in out]
            if False in seconds: continue
            text, data = page_data(out["html"])
            check(f"{name}: one script, one block of data", text.count("<script") == 2 and text.count("</script") == 2)
            check(f"{name}: nothing from elsewhere", not re.search(r'(src|href)="(?!data:|#)', text.split('id="data"')[0]))
            check(f"{name}: drawn within 10 s", max(seconds) < 10, str(seconds))
            check_data(name, data)
            check_svg(name, out["svg"], data)
            check_dot(name, out["dot"], data)
            if b: check_page(b, name, out["html"], data)
            if b and name == "hostile": check_evil_page(b, out["html"])
            if b and name == "if": check_if_page(b, out["html"])
            if b and name == "big": check_speed(b, out["html"])
        bad = subprocess.run([TENON, "graph", jobs[0][1], "-o", os.path.join(folder, "x.png")], capture_output=True, text=True)
        check("unknown format: usage error that names the formats", bad.returncode == 2 and ".svg" in bad.stderr, bad.stderr)
    finally:
        if b: b.close()
        shutil.rmtree(folder, ignore_errors=True)
    if not browser: print("skipped: the pages themselves; no Chromium here (apt install chromium)")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
