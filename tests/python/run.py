#!/usr/bin/env python3
"""run.py -- the tests of python/tenon: every *_test.py here, and the examples in docstrings and in docs/python.md.

usage: run.py [PATTERN...]      only tests whose name contains one of them

Needs numpy, and a library (TENON_LIBRARY, or build/libtenon.so).  What else it lacks (torch, ml_dtypes, onnx, a C compiler, models)
is skipped and said.  The last line is `N passed, N failed`.
"""
import doctest, glob, importlib.util, os, pkgutil, re, sys, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "python"), HERE]
# Modules that need a package which may not be there, by how their names begin.
NEEDS = {"tenon.torch_": "torch"}


def lacks(name):
    return any(name.startswith(p) and importlib.util.find_spec(need) is None for p, need in NEEDS.items())


def doctests():
    import tenon
    for info in pkgutil.iter_modules(tenon.__path__, "tenon."):
        if info.name.endswith("__main__") or lacks(info.name): continue
        yield doctest.DocTestSuite(importlib.import_module(info.name))
    guide = os.path.join(ROOT, "docs", "python.md")
    text = re.sub(r"^```.*$", "", open(guide, encoding="utf-8").read(), flags=re.M)  # fences are no output
    yield doctest.DocTestCase(doctest.DocTestParser().get_doctest(text, {}, "python.md", guide, 0))


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite): yield from flat(t)
        else: yield t


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main(patterns):
    os.chdir(ROOT)
    loader, suite = unittest.TestLoader(), unittest.TestSuite()
    for path in sorted(glob.glob(os.path.join(HERE, "*_test.py"))):
        suite.addTests(loader.loadTestsFromName(os.path.basename(path)[:-3]))
    suite.addTests(doctests())
    if patterns: suite = unittest.TestSuite(t for t in flat(suite) if any(p in t.id() for p in patterns))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(suite)
    bad = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
