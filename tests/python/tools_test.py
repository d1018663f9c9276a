"""tools_test.py -- inspect, targets, graph, profile, and how models show themselves in a notebook."""
import html.parser, io, json, os, sys, tempfile, unittest
from unittest import mock

import numpy as np
import tenon
from tenon import progress

DIGITS = "examples/digits/digits.onnx"


class Balanced(html.parser.HTMLParser):
    """Raises on tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs): self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag): assert self.open.pop() == tag, tag


class Tools(unittest.TestCase):
    def test_targets(self):
        found = {t.name: t for t in tenon.targets()}
        self.assertTrue(found["ref"].available)
        self.assertIn("cpu", found)

    def test_inspect_says_the_same_of_a_file_and_of_bytes(self):
        a, b = tenon.inspect(DIGITS), tenon.inspect(open(DIGITS, "rb").read())
        self.assertEqual((a["inputs"], a["ops"]), (b["inputs"], b["ops"]))
        with self.assertRaises(tenon.TenonError) as e: tenon.inspect("/no/such.onnx")
        self.assertIn("/no/such.onnx", str(e.exception))
        with self.assertRaises(tenon.TenonError): tenon.inspect(b"rubbish")
        with self.assertRaises(tenon.InvalidError): tenon.inspect(DIGITS, dims={"batch": "x"})

    def test_without_the_program_it_is_said(self):
        with mock.patch("tenon._ffi.program", lambda *_: None), self.assertRaisesRegex(tenon.UnsupportedError, "`tenon`"):
            tenon.inspect(DIGITS)

    def test_graph(self):
        self.assertIn("softmax", tenon.graph(DIGITS).lower())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.svg")
            tenon.graph(DIGITS, path, optimised=True, dims={"batch": 4})
            self.assertIn("<svg", open(path, encoding="utf-8").read())

    def test_profile(self):
        m = tenon.compile(DIGITS)
        for p in (m.profile(np.zeros((3, 8, 8), np.float32), runs=4), m.profile(dims={"batch": 3}, runs=4), m.profile(runs=4, threads=1)):
            self.assertEqual((len(p), p.runs), (m.info["steps"], 4))
            self.assertTrue(all(s.ns > 0 for s in p if s.kind == "kernel"))
            again = json.loads(json.dumps(p.to_dict()))
            self.assertEqual(again["steps"][0]["name"], p[0].name)
            self.assertIn("ms a run", str(p))
            self.assertEqual(sum(tag == "rect" for tag, _ in Balanced(p._repr_html_()).seen), sum(s.ns > 0 for s in p))
        with self.assertRaises(tenon.InvalidError): m.profile(np.zeros((3, 8), np.float32))

    def test_a_profile_colours_the_graph(self):
        m = tenon.compile(DIGITS)
        p = m.profile(runs=2)
        with tempfile.TemporaryDirectory() as folder:
            path, file = os.path.join(folder, "g.json"), os.path.join(folder, "p.json")
            with open(file, "w") as f: json.dump(p.to_dict(), f)
            for profile in (p, file):
                tenon.graph(DIGITS, path, profile=profile, force=True)
                with open(path) as f: said = json.load(f)
                timed = [n["cost"] for n in said["drawings"][0]["nodes"] if len(n.get("cost", ())) > 2]
                self.assertAlmostEqual(sum(c[3] for c in timed), sum(s.ns for s in p if s.node) / 1e6, places=6)
            with self.assertRaises(tenon.InvalidError): tenon.graph(DIGITS, path, profile=path, force=True)

    def test_a_model_shows_itself(self):
        for source in (DIGITS, open(DIGITS, "rb").read()):
            page = Balanced(tenon.compile(source)._repr_html_())
            tags = [tag for tag, _ in page.seen]
            self.assertEqual((tags.count("table"), tags.count("iframe")), (1, 1))
            frame = next(attrs for tag, attrs in page.seen if tag == "iframe")
            self.assertIn("softmax", frame["srcdoc"].lower())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.tenon")
            tenon.compile(DIGITS).save(path)
            self.assertIn("<table", tenon.load(path)._repr_html_())

    def test_names_are_no_markup(self):
        m = tenon.compile(b'graph(%"<b>x</b>": f32[2]) { return "<i>" = %"<b>x</b>" }', target="interp")
        page = m._repr_html_()
        self.assertNotIn("<b>x", page)
        self.assertIn("&lt;b&gt;x", page)


class Bars(unittest.TestCase):
    def test_a_bar_on_a_terminal(self):
        class Terminal(io.StringIO):
            def isatty(self): return True

        with mock.patch.object(sys, "stderr", Terminal()) as terminal, mock.patch.object(progress.Bar, "DELAY", 0.0), \
                mock.patch.object(progress.Bar, "EVERY", 0.0):
            self.assertIsInstance(progress.bar_for(None), progress.Bar)
            tenon.compile(DIGITS, cache=False)
            shown = terminal.getvalue()
        self.assertIn("optimise", shown)
        self.assertTrue(shown.endswith("\r"))

    def test_no_bar_elsewhere(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as nowhere:
            self.assertIsNone(progress.bar_for(None))
            self.assertIsNone(progress.bar_for(False))
            self.assertIsInstance(progress.bar_for(True), progress.Bar)
            tenon.compile(DIGITS)
            self.assertEqual(nowhere.getvalue(), "")
        with mock.patch.object(sys, "stderr", None): self.assertIsNone(progress.bar_for(None))

    def test_records_of_the_logger(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as nowhere, mock.patch.object(progress.Bar, "DELAY", 0.0), \
                mock.patch.object(progress.Bar, "LOG_EVERY", 0.0), self.assertLogs("tenon", "INFO") as records:
            tenon.InferenceSession(DIGITS, providers=[("CPUExecutionProvider", {"no_cache": "1"})])
            self.assertEqual(nowhere.getvalue(), "")
        if any(t.name == "cpu" and t.available for t in tenon.targets()):
            self.assertTrue(any("make code" in line and "hidden" in line for line in records.output), records.output)


if __name__ == "__main__": unittest.main()
