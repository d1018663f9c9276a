"""Whether the generator has every operator that Tenon reads.

Asks `tenon ops --frontend onnx` what is read, and the package onnx which of these are operators of ai.onnx (opset 13 up) and of
ai.onnx.ml.  tests/formats/contrib_test.py runs those of other domains beside ONNX Runtime; some of them are generated here too.
"""

import json
import os
import subprocess

import onnx

import engines
import generate


def failures():
    """Operators that no model can have, one line each."""
    program = os.path.join(engines.ROOT, "build", "tenon")
    if not os.path.exists(program):
        return [f"{program} is not built: it says which operators are read"]
    rows = json.loads(subprocess.run([program, "ops", "--frontend", "onnx", "--json"], capture_output=True, check=True).stdout)
    read = {tuple(r["op"].rpartition(".")[::2]) for r in rows if r["read"]}
    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if not s.deprecated}
    return [f"operator {'.'.join(filter(None, op))} is read, and no model of the generator has it" for op in sorted(read & known)
            if op[0] in ("", "ai.onnx.ml") and op not in generate.OPS]
