#!/usr/bin/env python3
"""The wheel in an older Debian: pip installs it, and the tests of tests/python pass there.

usage: wheel_root_test.py [amd64|arm64] [RELEASE] [PATTERN...]     default: this machine's architecture, bullseye (glibc 2.31, Python 3.9)

The tests see no file of python/ or build/: what they test is the wheel.  arm64 on another machine runs under qemu.  Needs the wheel
of that architecture in build/wheel (make wheel, make wheel ARCH=aarch64), and a package index for NumPy; what is missing is said.
PATTERNs are given to tests/python/run.py.  The last line is `N passed, N failed`.
"""
import glob, os, re, subprocess, sys

from root import ROOT, Checks, Missing, Root, own_arch, skip

PACKAGES = "python3,python3-pip,gcc,libc6-dev,zlib1g"
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


def numpy_wheel(arch, python):
    """NumPy's wheel for that machine and Python, which pip fetches on this one."""
    folder = os.path.join(ROOT, "build/roots", f"numpy-{arch}-{python}")
    done = glob.glob(os.path.join(folder, "numpy-*.whl"))
    if not done:
        pip = os.path.join(ROOT, "build/venv/bin/python")
        subprocess.run([pip if os.path.exists(pip) else sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python,
                        "--platform", f"manylinux2014_{MACHINE[arch]}", "-d", folder, "numpy"], check=False)
        done = glob.glob(os.path.join(folder, "numpy-*.whl"))
    if not done: raise Missing("pip cannot fetch NumPy (no package index?)")
    return done[0]


def main(arch, release, patterns):
    wheels = glob.glob(os.path.join(ROOT, f"build/wheel/tenon-*_{MACHINE[arch]}.whl"))
    if len(wheels) != 1: skip(f"no one wheel for {MACHINE[arch]} in build/wheel: make wheel ARCH={MACHINE[arch]}")
    check = Checks()
    try:
        root = Root(release, arch, PACKAGES)
        with root.layer() as layer:
            status, said = layer.run(["python3", "-c", "import os, sys; print(sys.version_info[:2], os.uname().machine, os.confstr('CS_GNU_LIBC_VERSION'))"])
            if not check(f"Python runs in {release} for {arch}", status == 0 and MACHINE[arch] in said, said): check.close()
            print("     " + said.strip())
            python = "{}.{}".format(*re.findall(r"\d+", said)[:2])
            for wheel in (numpy_wheel(arch, python), wheels[0]): layer.put(wheel, "/tmp/" + os.path.basename(wheel))
            status, said = layer.run(["python3", "-m", "pip", "install", "-q", "--no-index", "--find-links", "/tmp", "tenon"])
            if not check("pip installs the wheel", status == 0, said): check.close()
            layer.put_tree(["tests", "examples", "docs", "include", "README.md"], "/srv/tenon")
            status, said = layer.run(["tenon", "--version"])
            check("the console script", status == 0, said)
            status, said = layer.run(["sh", "-c", 'cd /srv/tenon && exec python3 tests/python/run.py "$@"', "run", *patterns])
    except Missing as missing:
        skip(missing)
    print("".join(f"     {line}\n" for line in said.split("\n") if "skipped '" in line), end="")
    counts = re.findall(r"^(\d+) passed, (\d+) failed", said, re.M)
    check("tests/python pass", status == 0 and counts and int(counts[-1][0]) > 50 or patterns and status == 0, said)
    if counts: check.passed, check.failed = check.passed + int(counts[-1][0]), check.failed + int(counts[-1][1])
    check.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given.pop(0) if given[:1] and given[0] in MACHINE else own_arch(), given.pop(0) if given else "bullseye", given)
