#!/usr/bin/env python3
"""graph_page.py -- how long a page of `tenon graph` takes to open in headless Chromium, from navigation to the first paint of the graph.

usage: bench/graph_page.py [--tenon build/tenon] [--runs 7] [--nodes 2000] [MODEL...]

Without a MODEL: made graphs of --nodes operations, as one chain with branches and in modules.  Each is drawn as a page and with
--optimised; times are medians and, in brackets, the least.  `written` is what `tenon graph` takes, `page` the size of the file, `drawn`
what the page marks when its first frame was painted, `zoom` a frame while zooming.  Needs Chromium and Python's standard library.
"""
import argparse, os, statistics, subprocess, sys, tempfile, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
import chromium, graph_models


def made_graph(n, modules):
    """With names of modules in modules, or of no path."""
    paths = lambda i: f'"/net/block.{i // 40}/part.{i // 8 % 5}/n{i}"'
    return graph_models.branching(n, paths) if modules else graph_models.branching(n)


def drawn_ms(b, page):
    b.open(page)
    return b.js("""new Promise(done => { const look = () => { const m = performance.getEntriesByName('drawn')[0];
      if (m) done(m.startTime); else setTimeout(look, 5); }; look(); })""")


def zoom_ms(b):
    """Of the page that is open: the mean over 20 frames."""
    return b.js("""(async () => {
      const t = performance.now();
      for (let i = 0; i < 20; i++) {
        document.querySelector('#canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: i < 10 ? 120 : -120, bubbles: true, cancelable: true}));
        await new Promise(requestAnimationFrame);
      }
      return (performance.now() - t) / 20;
    })()""")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tenon", default=os.path.join(ROOT, "build", "tenon"))
    p.add_argument("--runs", type=int, default=7)
    p.add_argument("--nodes", type=int, default=2000)
    p.add_argument("models", nargs="*")
    o = p.parse_args()
    program = chromium.find()
    if not program: sys.exit("graph_page.py: no Chromium here (apt install chromium)")
    with tempfile.TemporaryDirectory(prefix="tenon-page-") as folder:
        models = list(o.models)
        for kind in () if models else ("chain", "modules"):
            models.append(os.path.join(folder, f"{kind}{o.nodes}.tir"))
            open(models[-1], "w").write(made_graph(o.nodes, kind == "modules"))
        b = chromium.Browser(program, os.path.join(folder, "profile"))
        print(f"{'model':28} {'view':10} {'written':>8} {'page':>9} {'drawn':>14} {'zoom':>8}")
        try:
            for model in models:
                for view in ("graph", "optimised"):
                    page = os.path.join(folder, "page.html")
                    start = time.monotonic()
                    subprocess.run([o.tenon, "graph", model, "-o", page, "--force", *(["--optimised"] if view == "optimised" else [])], check=True, capture_output=True)
                    written = (time.monotonic() - start) * 1e3
                    times = [drawn_ms(b, page) for _ in range(o.runs)]
                    print(f"{os.path.basename(model):28} {view:10} {written:5.0f} ms {os.path.getsize(page) / 1024:6.0f} KB {statistics.median(times):5.0f} ms [{min(times):.0f}] {zoom_ms(b):5.0f} ms", flush=True)
        finally:
            b.close()


main()
