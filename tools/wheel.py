#!/usr/bin/env python3
"""Makes the wheel: python/tenon, the library, the programs and the licences of what is linked into them.

    tools/wheel.py [--build DIR] [--sysroot DIR] [--out DIR]

A wheel is a zip file with a list of its files (RECORD), so no packaging library is needed.  The same inputs give the same
bytes: names in order, one time stamp, fixed permissions.  Its tag is what the programs themselves say: their machine, and the newest
version of glibc that they ask for.  Prints the path of the wheel, its size and the size that it has when installed.
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}  # e_machine of ELF
OLDEST = 28  # glibc 2.28, which the wheel is linked for: that it asks for nothing newer than 2.27 is no promise
PROGRAMS = ("libtenon.so", "tenon", "tenon-codegen")
# What is linked into tenon-codegen, and where Debian keeps its terms.
LICENCES = {
    "LLVM": "/usr/share/doc/llvm-19-dev/copyright",
    "zstd": "/usr/share/doc/libzstd-dev/copyright",
    "libstdc++": "/usr/share/doc/libstdc++-12-dev/copyright",
}
METADATA = """Metadata-Version: 2.1
Name: tenon
Version: {version}
Summary: An AI compiler: ONNX, PyTorch, TensorFlow Lite and StableHLO models to machine code
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """Wheel-Version: 1.0
Generator: tenon tools/wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """[console_scripts]
tenon = tenon.__main__:main

[torch_dynamo_backends]
tenon = tenon.torch_backend:compile_fx
"""


def read(path):
    with open(path, "rb") as f:
        return f.read()


def version():
    header = read(os.path.join(ROOT, "include/tenon/tenon.h")).decode()
    return re.search(r'#define TENON_VERSION +"([0-9.]+)"', header).group(1)


def machine(path):
    return MACHINES[int.from_bytes(read(path)[18:20], "little")]


def platform_tag(build):
    """manylinux_2_N_MACHINE: N is the newest glibc of which a program or the library uses a symbol, OLDEST at least."""
    paths = [os.path.join(build, name) for name in PROGRAMS]
    said = subprocess.run(["readelf", "--version-info", "--wide", *paths], capture_output=True, text=True, check=True).stdout
    newest = max([OLDEST] + [int(minor) for minor in re.findall(r"Name: GLIBC_2\.([0-9]+)", said)])
    return f"py3-none-manylinux_2_{newest}_{machine(paths[0])}"


def stripped(path, folder):
    """The file without symbols that only a debugger needs; what a shared library exports stays."""
    out = os.path.join(folder, os.path.basename(path))
    strip = shutil.which(f"{machine(path)}-linux-gnu-strip") or "strip"
    subprocess.run([strip, "-o", out, os.path.realpath(path)], check=True)
    return read(out)


def contents(build, sysroot, tag, folder):
    """{path in the wheel: (bytes, whether it is a program)}."""
    files = {}
    package = os.path.join(ROOT, "python/tenon")
    for below in ("", "serve/"):
        for name in sorted(os.listdir(os.path.join(package, below))):
            if name.endswith(".py") or name == "py.typed":
                files[f"tenon/{below}{name}"] = (read(os.path.join(package, below, name)), False)
    for name in PROGRAMS:
        files[f"tenon/lib/{name}"] = (stripped(os.path.join(build, name), folder), True)
    # So that `tenon compile --emit=exe` and --emit=so find what they link.
    files["tenon/lib/libtenon_runtime.a"] = (read(os.path.join(build, "libtenon_runtime.a")), False)
    for name in ("tenon.h", "aot.h", "tenon.hpp"):
        files[f"tenon/include/tenon/{name}"] = (read(os.path.join(ROOT, "include/tenon", name)), False)
    info = f"tenon-{version()}.dist-info"
    readme = read(os.path.join(ROOT, "README.md")).decode()
    files[f"{info}/METADATA"] = (METADATA.format(version=version(), readme=readme).encode(), False)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), False)
    files[f"{info}/entry_points.txt"] = (ENTRY_POINTS.encode(), False)
    files[f"{info}/licenses/LICENSE"] = (read(os.path.join(ROOT, "LICENSE")), False)
    for name, path in LICENCES.items():
        files[f"{info}/licenses/{name}.txt"] = (read(sysroot + path), False)
    return files


def record(files, info):
    lines = []
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{info}/RECORD,,\n"]).encode()


def write(path, files):
    made = path + ".part"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as z:
        for name, (data, program) in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            z.writestr(entry, data)
    os.replace(made, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build/wheel-build", os.uname().machine),
                        help="folder with libtenon.so, libtenon_runtime.a, tenon, and a tenon-codegen with LLVM inside")
    parser.add_argument("--sysroot", default="", help="folder with the Debian packages of which archives were linked (default: /)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build/wheel"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            tag = platform_tag(args.build)
            files = contents(args.build, args.sysroot, tag, folder)
        except FileNotFoundError as error:
            sys.exit(f"wheel.py: {error.filename} is not there: make wheel builds what is needed")
    info = f"tenon-{version()}.dist-info"
    files[f"{info}/RECORD"] = (record(files, info), False)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"tenon-{version()}-{tag}.whl")
    write(path, files)
    print(f"{os.path.relpath(path)}: {os.path.getsize(path) / 1e6:.1f} MB, {sum(len(d) for d, _ in files.values()) / 1e6:.1f} MB installed")


if __name__ == "__main__":
    main()
