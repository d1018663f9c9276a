"""ffi_test.py -- the declarations of tenon._ffi against the header, as a C compiler understands it."""
import ctypes as C, os, re, shutil, subprocess, sys, tempfile, unittest

from tenon import _ffi

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDE = os.path.join(ROOT, "include")
HEADER = open(os.path.join(INCLUDE, "tenon", "tenon.h"), encoding="utf-8").read()
PLAIN = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)


def compiler():
    return next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)


def ask(lines):
    """What a C program that prints `lines` says, as numbers."""
    with tempfile.TemporaryDirectory() as tmp:
        source, binary = os.path.join(tmp, "ask.c"), os.path.join(tmp, "ask")
        body = "\n".join(f'  printf("%lld\\n", (long long)({line}));' for line in lines)
        open(source, "w").write(f"#include <stdio.h>\n#include <tenon/tenon.h>\nint main(void) {{\n{body}\n  return 0;\n}}\n")
        subprocess.run([compiler(), "-I", INCLUDE, source, "-o", binary], check=True)
        return [int(x) for x in subprocess.run([binary], capture_output=True, check=True, text=True).stdout.split()]


class Declarations(unittest.TestCase):
    @unittest.skipUnless(compiler(), "no C compiler")
    def test_structures(self):
        lines, want = [], []
        for name, struct in _ffi.STRUCTS.items():
            lines.append(f"sizeof({name})"), want.append((name, C.sizeof(struct)))
            for field, *_ in struct._fields_:
                at = getattr(struct, field)
                lines += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
                want += [(f"{name}.{field}", at.offset), (f"{name}.{field}", at.size)]
        for (what, ours), theirs in zip(want, ask(lines)): self.assertEqual(ours, theirs, what)

    def test_every_field_is_there(self):
        for name, struct in _ffi.STRUCTS.items():
            body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), PLAIN, re.S).group(1)
            fields = []
            for part in body.split(";"):
                if not part.strip(): continue
                callback = re.search(r"\(\*(\w+)\)", part)
                fields += [callback.group(1)] if callback else [re.sub(r"\[.*", "", d).split()[-1].lstrip("*") for d in part.split(",")]
            self.assertEqual(fields, [f for f, *_ in struct._fields_], name)

    @unittest.skipUnless(compiler(), "no C compiler")
    def test_numbers(self):
        names = ["OK", "EINVAL", "EFORMAT", "EUNSUPPORTED", "EIO", "ENOMEM", "EDEVICE", "EINTERNAL", "ECANCELLED", "KIND_TENSOR",
                 "KIND_SEQUENCE", "KIND_OPTIONAL", "KIND_MAP", "MATH_DEFAULT", "MATH_EXACT", "MATH_FAST", "PRECISION_DEFAULT",
                 "PRECISION_BF16", "PRECISION_TF32", "STEP_KERNEL", "STEP_HOST", "STEP_VIEW", "STEP_COPY", "MEMORY_HOST", "MEMORY_CUDA", "MAX_RANK", "ALIGNMENT",
                 "ERROR_CAPACITY"]
        for name, value in zip(names, ask([f"TENON_{n}" for n in names])): self.assertEqual(getattr(_ffi, name), value, name)
        for i, value in enumerate(ask([f"TENON_DTYPE_{n}" for n in _ffi.DTYPES])): self.assertEqual(i, value)

    def test_no_number_is_missing(self):
        for name in re.findall(r"\bTENON_((?:E[A-Z]+|KIND|MATH|MEMORY|PRECISION|STEP)\w*)\b", PLAIN):
            self.assertTrue(hasattr(_ffi, name), name)
        self.assertEqual(set(re.findall(r"TENON_DTYPE_(\w+) =", PLAIN)), set(_ffi.DTYPES))

    def test_prototypes_have_the_right_number_of_parameters(self):
        declared = {name: args for name, args in re.findall(r"TENON_API [^;(]*?\b(tenon_\w+)\(([^;]*)\);", PLAIN)}
        for name, (_, parameters) in _ffi.PROTOTYPES.items():
            args = declared[name].strip()
            self.assertEqual(0 if args == "void" else len(args.split(",")), len(parameters), name)


class Finding(unittest.TestCase):
    def run_python(self, code, **env):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/",
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **env})

    def test_a_missing_library_is_said(self):
        p = self.run_python("import tenon", TENON_LIBRARY="/nowhere/libtenon.so")
        self.assertIn("ImportError", p.stderr)
        self.assertIn("TENON_LIBRARY", p.stderr)
        self.assertIn("/nowhere/libtenon.so", p.stderr)

    def test_a_library_of_another_kind_is_said(self):
        p = self.run_python("import tenon", TENON_LIBRARY=C.util.find_library("m") or "libm.so.6")
        self.assertIn("another version", p.stderr)

    def test_the_program_is_found_beside_the_library(self):
        found = _ffi.program()
        if os.path.isabs(_ffi.lib_path()) and os.path.exists(os.path.join(os.path.dirname(_ffi.lib_path()), "tenon")):
            self.assertEqual(os.path.dirname(found), os.path.dirname(_ffi.lib_path()))
