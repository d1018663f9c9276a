#!/usr/bin/env python3
"""The source tarball: the same commit gives the same bytes, and it has what git tracks.

usage: dist_test.py [--build]      --build also builds the tarball's tree, runs a model with it and makes its Debian packages' tree

The last line is `N passed, N failed`.
"""
import glob, os, subprocess, sys, tarfile, tempfile

from root import ROOT, Checks, skip


def run(command, cwd=ROOT, **env):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def check_built(check, tree):
    """As the page docs/install.md says, in a folder that is no checkout."""
    status, said = run(["cmake", "--preset", "release"], tree)
    if status == 0: status, said = run(["cmake", "--build", "--preset", "release", "-j", os.environ.get("JOBS", "2"), "--target", "tenon_cli", "tenon_shared"], tree)
    if not check("the tarball's tree builds", status == 0, said): return
    status, said = run(["build/tenon", "run", "examples/digits/digits.onnx", "--input", "image=examples/digits/digits.npy", "--target", "interp"], tree)
    check("the program that it made runs a model", status == 0 and "probability" in said, said)


def main(args):
    if run(["git", "rev-parse", "HEAD"])[0]: skip("no git checkout: a source tarball is made in one")
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for name in ("a", "b"):
            status, said = run(["packaging/dist.sh", os.path.join(folder, name)], LEVEL="0")  # a fifth of the time
            if not check(f"dist.sh, {name}", status == 0, said): check.close()
            made += glob.glob(os.path.join(folder, name, "tenon-*.tar.xz"))
        with open(made[0], "rb") as a, open(made[1], "rb") as b: check("made again, it has the same bytes", a.read() == b.read())
        check("its checksum", run(["sha256sum", "-c", made[0] + ".sha256"], os.path.dirname(made[0]))[0] == 0)
        top = os.path.basename(made[0])[:-len(".tar.xz")]
        tracked = run(["git", "ls-tree", "-r", "--name-only", "-z", "HEAD"])[1].split("\0")[:-1]
        with tarfile.open(made[0]) as tar:
            names = sorted(m.name for m in tar.getmembers() if not m.isdir())
            check("it has every tracked file and no other", names == sorted(f"{top}/{n}" for n in tracked), " ".join(set(names) ^ {f"{top}/{n}" for n in tracked}))
            if "--build" in args:
                tar.extractall(folder)
                check_built(check, os.path.join(folder, top))
    check.close()


if __name__ == "__main__": main(sys.argv[1:])
