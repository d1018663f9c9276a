#!/usr/bin/env python3
"""testmap.py [--check] [FILE...] -- which tests cover a source file, and which source a test covers, by name alone.

The rule:  tests/D/N_test.c         covers src/D/N.c, src/D/N.h or the folder src/D/N
           tests/D/N_ASPECT_test.c  covers one aspect of them
           tests/text/N             has the text tests of the pass src/passes/N, or of the folder src/N
           tests/system, tests/formats, tests/torch and tests/python run whole programs.
A source file without a test of its own name is covered by the tests of its folder.  --check lists every unit test that covers nothing.
"""
import os, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WHOLE = ("tests/system/", "tests/support/", "tests/replay/", "tests/text/")  # no mirror of one source file
TEXT = "tests/text/"


def unit_tests():
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "tests"))):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            if name.endswith("_test.c") and not path.startswith(WHOLE): yield path
    for name in sorted(os.listdir(os.path.join(ROOT, TEXT))):
        if os.path.isdir(os.path.join(ROOT, TEXT, name)): yield TEXT + name


def place_of(test):
    """The folder and the name that a test looks for: of a text test its folder's name."""
    if test.startswith(TEXT):
        name = test[len(TEXT) :].split("/")[0]
        return ("src", name) if os.path.isdir(os.path.join(ROOT, "src", name)) else ("src/passes", name)
    return os.path.join("src", os.path.relpath(os.path.dirname(test), "tests")), os.path.basename(test)[: -len("_test.c")]


def covered(test):
    """The source file or folder that a test's name names, the longest name first; None where there is none."""
    folder, name = place_of(test)
    words = name.split("_")
    for n in range(len(words), 0, -1):
        name = os.path.join(folder, "_".join(words[:n]))
        for path in (name + ".c", name + ".h", name, name + ".def"):
            if os.path.exists(os.path.join(ROOT, path)): return path
    return folder if os.path.basename(folder) == words[0] and os.path.isdir(os.path.join(ROOT, folder)) else None


def stem(path):
    return path if os.path.isdir(os.path.join(ROOT, path)) else os.path.splitext(path)[0]


def tests_of(source):
    """Tests by name; else those of its folder, else of the folder around it."""
    folder = os.path.dirname(source)
    mine = [t for t in unit_tests() if covered(t) and (stem(covered(t)) == stem(source) or t.startswith(TEXT) and covered(t) == folder != "src/rules")]
    while not mine and folder and folder != "src":
        near = os.path.join("tests", os.path.relpath(folder, "src"))
        mine = [t for t in unit_tests() if os.path.dirname(t) == near or covered(t) == folder]
        folder = os.path.dirname(folder)
    return mine


def main():
    if "--check" in sys.argv:
        tests = list(unit_tests())
        lost = [t for t in tests if not covered(t)]
        for t in lost: print(f"{t}: no source file or folder has such a name")
        print(f"testmap: {len(tests)} unit tests, {len(lost)} that name no source")
        return len(lost) > 0
    for path in sys.argv[1:]:
        path = os.path.relpath(os.path.abspath(path), ROOT)
        found = [covered(path) or "nothing"] if path.startswith("tests/") else tests_of(path)
        print(f"{path}: {', '.join(found) or 'whole programs alone (tests/system)'}")
    if len(sys.argv) == 1: print(__doc__.strip())
    return 0


sys.exit(main())
