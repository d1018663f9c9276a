#!/usr/bin/env python3
"""onnx_types.py [--check] -- writes src/exporters/onnx/types.def: which element types every ONNX operator takes and gives, from the onnx package.

--check compares instead.  An older package than the one that wrote the file knows less, so rows that it lacks are no fault.
Says so and ends with status 0 where onnx is absent.
"""
import os, re, sys

try:
    from onnx import defs
except ImportError as e:
    print(f"onnx types: skipped, {e.name} is not installed")
    sys.exit(0)

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src/exporters/onnx/types.def")
AT_LEAST = 21  # ONNX_OPSET of src/exporters/onnx/write.h
LETTER = {"float16": "h", "float": "f", "double": "d", "bfloat16": "b", "int8": "1", "int16": "2", "int32": "4", "int64": "8", "uint8": "w", "uint16": "x",
          "uint32": "y", "uint64": "z", "bool": "?", "string": "s", "complex64": "c", "complex128": "C", "float8e4m3fn": "e", "float8e4m3fnuz": "E",
          "float8e5m2": "g", "float8e5m2fnuz": "G", "uint4": "u", "int4": "i", "float4e2m1": "m", "float8e8m0": "M", "uint2": "v", "int2": "j"}
HEAD = """\
// types.def -- the element types that ONNX's operators take and give, by operator set; written by tools/onnx_types.py.
//
// ONNX_TYPES(operator, operator set since which it is so, operands, results): a group of letters each, the last for all that follow; `*`: also what is no tensor.
//
//   h f16  f f32  d f64  b bf16  1 i8  2 i16  4 i32  8 i64  w u8  x u16  y u32  z u64  ? bool  s string  c c64  C c128
//   e f8e4m3  E f8e4m3z  g f8e5m2  G f8e5m2z  u u4  i i4  m f4e2m1  M f8e8m0  v u2  j i2
//
// clang-format off
"""


def group(types):
    if any(not t.startswith("tensor(") for t in types): return "*"
    given = {LETTER.get(t[7:-1]) for t in types}
    return "".join(c for c in LETTER.values() if c in given)


def groups(schema, values):
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return " ".join(group(allowed.get(v.type_str, [v.type_str])) for v in values)


def rows():
    schemas = {}
    for s in defs.get_all_schemas_with_history():
        if not s.domain and not s.deprecated: schemas.setdefault(s.name, {})[s.since_version] = s
    for name, versions in sorted(schemas.items()):
        first, last = max((v for v in versions if v <= AT_LEAST), default=0), None
        for since in sorted(v for v in versions if v >= first):
            s = versions[since]
            now = groups(s, s.inputs), groups(s, s.outputs)
            if now != last: yield f'ONNX_TYPES("{name}", {since}, "{now[0]}", "{now[1]}")'
            last = now


def main():
    wanted = list(rows())
    if "--check" not in sys.argv[1:]:
        with open(PATH, "w") as f: f.write(HEAD + "\n".join(wanted) + "\n// clang-format on\n")
        return 0
    there = set(re.findall(r"^ONNX_TYPES.*$", open(PATH).read(), re.M))
    wrong = [r for r in wanted if r not in there]
    print("\n".join(wrong + [f"onnx types: {len(wanted) - len(wrong)} rows agree, {len(wrong)} do not"]))
    return 1 if wrong else 0


sys.exit(main())
