"""Runs a program that imports onnxruntime with Tenon in its place.

    python -m tenon.dropin SCRIPT.py ARGS...
    python -m tenon.dropin -m MODULE ARGS...
    python -m tenon.dropin -c CODE ARGS...
"""
from __future__ import annotations

import os
import runpy
import sys

from . import ort


def main() -> None:
    """As the interpreter's own command line: the program is `__main__` and sees its own arguments."""
    given = sys.argv[1:]
    if not given or given[0] in ("-h", "--help"):
        sys.exit(__doc__) if not given else print(__doc__)
        return
    kind = given.pop(0) if given[0] in ("-m", "-c") else ""
    if not given:
        sys.exit(f"tenon.dropin: {kind} needs a {'module' if kind == '-m' else 'program'}")
    ort.install()
    program, sys.argv = given[0], given if not kind else [kind] + given[1:]
    if kind == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif kind == "-m":
        sys.argv[0] = program
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
