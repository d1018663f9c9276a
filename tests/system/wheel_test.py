#!/usr/bin/env python3
"""Installs the wheel into a fresh environment and uses it there, with LLVM out of sight.

    tests/system/wheel_test.py [--again] [--sizes [SITE-PACKAGES...]]

Needs build/wheel/*.whl (make wheel) and NumPy.  --again makes the wheel a second time, which must give the same bytes.  --sizes
prints the installed size beside those of onnxruntime, openvino and torch: as installed in the folders given, or as their wheels of the
package index would be.
"""
import base64
import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 60e6  # bytes when installed
# What manylinux_2_28 promises, of what we use.
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libz.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GLIBC = (2, 28)
PEERS = ("onnxruntime", "openvino", "torch")
failed = 0


def check(what, good, detail=""):
    global failed
    failed += not good
    print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + str(detail).strip()[-2000:] if detail and not good else ''}")


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    return done.returncode, done.stdout


def find():
    made = glob.glob(os.path.join(ROOT, f"build/wheel/tenon-*_{os.uname().machine}.whl"))
    if len(made) != 1:
        sys.exit("wheel_test: there is no one wheel for this machine in build/wheel: make wheel")
    return made[0]


def check_record(wheel):
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith("/RECORD"))
        rows = [line.rsplit(",", 2) for line in z.read(name).decode().splitlines()]
        wrong = [path for path, digest, size in rows if path != name and (
            digest != "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(z.read(path)).digest()).rstrip(b"=").decode()
            or int(size) != z.getinfo(path).file_size)]
        check("RECORD has every file and its hash", not wrong and sorted(r[0] for r in rows) == sorted(z.namelist()), wrong)


def check_binaries(folder):
    for name in ("libtenon.so", "tenon", "tenon-codegen"):
        path = os.path.join(folder, name)
        said = subprocess.run(["readelf", "-dW", "--version-info", path], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))
        glibc = max((tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", said)), default=(0,))
        check(f"{name} needs the system's libraries alone", needed <= SYSTEM, needed - SYSTEM)
        check(f"{name} runs with glibc {GLIBC[0]}.{GLIBC[1]}", glibc <= GLIBC, glibc)
        check(f"{name} can be run", os.access(path, os.X_OK))


def hidden(command):
    """The command where LLVM cannot be read, if this machine lets us make such a place; else as it is."""
    if run(["unshare", "-rm", "true"])[0]:
        return command, False
    libraries = glob.glob("/usr/lib/llvm-*") + glob.glob("/usr/lib/*/libLLVM*")
    hide = "".join(f"mount -t tmpfs none '{p}'; " if os.path.isdir(p) and not os.path.islink(p)
                   else f"mount --bind /dev/null '{os.path.realpath(p)}' 2>/dev/null; " for p in libraries)
    return ["unshare", "-rm", "sh", "-c", hide + 'exec "$0" "$@"'] + command, True


def example():
    """The Python example of README.md."""
    with open(os.path.join(ROOT, "README.md")) as f:
        return "".join(re.findall(r"```python\n(.*?)```", f.read(), re.S))


def check_use(folder, python, bin_folder):
    """In a folder with nothing but the examples, with an empty cache and nothing on the path but the system."""
    os.makedirs(os.path.join(folder, "work/examples"))
    work = os.path.join(folder, "work")
    shutil.copytree(os.path.join(ROOT, "examples/digits"), os.path.join(work, "examples/digits"))
    env = {"PATH": "/usr/bin:/bin", "HOME": folder, "XDG_CACHE_HOME": os.path.join(folder, "cache")}

    def use(what, command, want):
        whole, out_of_sight = hidden(command)
        status, said = run(whole, cwd=work, env=env)
        check(what + (", without LLVM" if out_of_sight else ""), status == 0 and want in said, said)

    code = example()
    check("README.md has a Python example", "tenon" in code)
    use("the example of README.md", [python, "-W", "error", "-c", code + "\nprint('done')"], "done")
    where = "import tenon._ffi as f, tenon; print(f.lib_path(), f.program('tenon-codegen'), tenon.compile('examples/digits/digits.onnx', cache=False).target)"
    use("the library and tenon-codegen are the wheel's", [python, "-c", where], " cpu")
    inputs = ["examples/digits/digits.onnx", "--input", "image=examples/digits/digits.npy"]
    use("python -m tenon run", [python, "-m", "tenon", "run", *inputs, "--target", "cpu"], "probability")
    use("the console script", [os.path.join(bin_folder, "tenon"), "--version"], "0.")
    if shutil.which("cc"):
        use("tenon compile --emit=exe", [python, "-m", "tenon", "compile", inputs[0], "--emit=exe", "-o", "digits"], "")
        use("the program that it made", ["./digits", "examples/digits/digits.npy"], "")


def tree_size(folder):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def check_installed(wheel, folder):
    venv = os.path.join(folder, "venv")
    python = os.path.join(venv, "bin/python")
    status, said = run([sys.executable, "-m", "venv", venv])
    check("a fresh environment", status == 0, said)
    status, said = run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel])
    check("pip install", status == 0, said)
    site = glob.glob(os.path.join(venv, "lib/python3*/site-packages"))[0]
    # NumPy is the only requirement; it comes from where this program has it, so that no package index is needed.
    numpy = os.path.dirname(importlib.util.find_spec("numpy").submodule_search_locations[0])
    os.makedirs(os.path.join(folder, "numpy"))
    for part in ["numpy"] + [os.path.basename(p) for p in glob.glob(os.path.join(numpy, "numpy*.libs"))]:
        os.symlink(os.path.join(numpy, part), os.path.join(folder, "numpy", part))
    with open(os.path.join(site, "numpy-elsewhere.pth"), "w") as f:
        f.write(os.path.join(folder, "numpy") + "\n")
    size = sum(tree_size(p) for p in glob.glob(os.path.join(site, "tenon*")))
    check(f"installed size {size / 1e6:.1f} MB, of at most {LIMIT / 1e6:.0f}", size <= LIMIT)
    check_binaries(os.path.join(site, "tenon/lib"))
    check_use(folder, python, os.path.join(venv, "bin"))
    return size


def check_again(wheel, folder):
    status, said = run([sys.executable, os.path.join(ROOT, "tools/wheel.py"), "--out", folder])
    same = status == 0
    if same:
        with open(wheel, "rb") as a, open(os.path.join(folder, os.path.basename(wheel)), "rb") as b:
            same = a.read() == b.read()
    check("made again, it has the same bytes", same, said)


def check_audit(wheel):
    if importlib.util.find_spec("auditwheel") is None:
        print("skip auditwheel is not installed")
        return
    status, said = run([sys.executable, "-m", "auditwheel", "show", wheel])
    tag = re.search(r'platform tag: "manylinux_2_([0-9]+)_', " ".join(said.split()))
    check("auditwheel says manylinux_2_28, or an older one", status == 0 and tag and int(tag[1]) <= GLIBC[1], said)


def peer_size(name, sites, folder):
    """What a package's files take: where it is installed, or (without what it depends on) in its wheel of the package index."""
    for site in sites:
        for record in glob.glob(os.path.join(site, f"{name}-*.dist-info/RECORD")):
            with open(record) as f:
                return sum(int(s) for s in (line.strip().rsplit(",", 1)[1] for line in f) if s.isdigit()), "installed"
    status, _ = run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder, name])
    made = glob.glob(os.path.join(folder, f"{name}-*.whl"))
    if status or not made:
        return None, "cannot be had"
    with zipfile.ZipFile(made[0]) as z:
        return sum(i.file_size for i in z.infolist()), f"wheel of {os.path.getsize(made[0]) / 1e6:.0f} MB"


def main():
    wheel = find()
    if importlib.util.find_spec("numpy") is None:
        print("skip NumPy is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        check_record(wheel)
        check_audit(wheel)
        size = check_installed(wheel, folder)
        if "--again" in sys.argv:
            check_again(wheel, folder)
        if "--sizes" in sys.argv:
            print(f"  {'tenon':12} {size / 1e6:8.1f} MB  wheel of {os.path.getsize(wheel) / 1e6:.0f} MB")
            for name in PEERS:
                peer, how = peer_size(name, sys.argv[sys.argv.index("--sizes") + 1:], folder)
                print(f"  {name:12} {peer / 1e6:8.1f} MB  {how}" if peer else f"  {name:12} {how}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
