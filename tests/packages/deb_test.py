#!/usr/bin/env python3
"""The Debian packages in a fresh system: apt installs them, and the program, the library and the Python package work there.

usage: deb_test.py      of build/deb (make deb); made again, the packages must have the same bytes

The system is one of this machine's release, made by debootstrap.  lintian, where it is installed, must find no error.  Needs root and
a Debian mirror; what is missing is said.  The last line is `N passed, N failed`.
"""
import glob, os, shutil, subprocess, tempfile

from root import ROOT, Checks, Missing, Root, own_arch, release, skip

MODEL = ["examples/digits/digits.onnx", "--input", "image=examples/digits/digits.npy"]
PYTHON = """
import numpy as np, tenon
model = tenon.compile("examples/digits/digits.onnx", target="cpu")
print(model.target, model(np.load("examples/digits/digits.npy")).argmax(axis=1).tolist())
"""


def check_lintian(check, debs):
    if not shutil.which("lintian"): return print("     skipped: lintian is not installed")
    said = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", *debs], capture_output=True, text=True).stdout
    print("".join(f"     {line}\n" for line in said.split("\n") if line.startswith("W:")), end="")
    check("lintian finds no error", not [line for line in said.split("\n") if line.startswith("E:")], said)


def check_again(check, debs):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.join(ROOT, "packaging/deb.sh"), folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        same = done.returncode == 0
        for deb in debs if same else ():
            with open(deb, "rb") as a, open(os.path.join(folder, os.path.basename(deb)), "rb") as b: same = same and a.read() == b.read()
        check("made again, they have the same bytes", same, done.stdout)


def check_used(check, layer):
    def use(what, command, want):
        status, said = layer.run(["sh", "-c", "cd /srv/tenon && " + command])
        check(what, status == 0 and want in said, said)

    use("tenon run, compiled", "tenon run " + " ".join(MODEL) + " --target cpu", "probability")
    use("manual pages", "zcat /usr/share/man/man1/tenon.1.gz /usr/share/man/man3/tenon.3.gz", ".TH")
    use("completions", "test -s /usr/share/bash-completion/completions/tenon && test -s /usr/share/zsh/vendor-completions/_tenon && echo there", "there")
    use("a C program with pkg-config", "gcc examples/compile_model.c $(pkg-config --cflags --libs tenon) -o /tmp/c && /tmp/c examples/digits/digits.onnx", "")
    use("a C program with the archive", "gcc examples/run_model.c $(pkg-config --cflags tenon) -l:libtenon.a -lz -lm -o /tmp/s && /tmp/s examples/digits/digits.onnx", "")
    use("a program with the model inside", "tenon compile " + MODEL[0] + " --emit=exe -o /tmp/digits && /tmp/digits examples/digits/digits.npy", "")
    use("the Python package", f"python3 -c '{PYTHON}'", "cpu [")


def main():
    debs = sorted(glob.glob(os.path.join(ROOT, "build/deb/*.deb")))
    if not debs: skip("no packages in build/deb: make deb")
    check = Checks()
    check_again(check, debs)
    check_lintian(check, debs)
    try:
        with Root(release(), own_arch(), "ca-certificates").layer() as layer:
            for deb in debs: layer.put(deb, "/deb/" + os.path.basename(deb))
            layer.put_tree(["examples"], "/srv/tenon")
            status, said = layer.run(["sh", "-c", "apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev pkg-config"])
            if status: raise Missing("apt-get finds no packages in the new system: " + said.strip()[-200:])
            status, said = layer.run(["sh", "-c", "apt-get install -y -q --no-install-recommends /deb/*.deb"])
            if check("apt-get installs the packages", status == 0, said):
                check_used(check, layer)
                status, said = layer.run(["sh", "-c", "apt-get purge -y -q tenon libtenon0 libtenon-dev python3-tenon && find /usr -name '*tenon*' ! -path '*/__pycache__*'"])
                check("purged, they leave nothing", status == 0 and not [line for line in said.split("\n") if line.startswith("/usr")], said)
    except Missing as missing:
        skip(missing)
    check.close()


if __name__ == "__main__": main()
