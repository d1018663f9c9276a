"""`python -m tenon` and the console script `tenon`: the command line, which is the program beside the library."""
from __future__ import annotations

import os
import sys

from . import _ffi


def main() -> None:
    """Becomes the program `tenon` with this process's arguments."""
    program = _ffi.program("tenon")
    if program is None:
        sys.exit(f"tenon: the program is not there: a build puts it next to {_ffi.lib_path()}")
    os.execv(program, ["tenon"] + sys.argv[1:])


if __name__ == "__main__":
    main()
