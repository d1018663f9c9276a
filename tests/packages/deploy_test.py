#!/usr/bin/env python3
"""deploy_test.py TENON -- deploy/: its options are those of `tenon serve`, its probes are routes, and systemd and Kubernetes take it.

systemd-analyze and kubernetes-validate (PyPI) are used where they are installed.  The last line is `N passed, N failed`.
"""
import os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DEPLOY = os.path.join(ROOT, "deploy")
passed = failed = 0


def check(ok, what, seen=""):
    global passed, failed
    if ok: passed += 1
    else:
        failed += 1
        print(f"FAIL {what}\n  {str(seen)[:600]}")


def read(name): return open(os.path.join(DEPLOY, name)).read()


def main():
    help = subprocess.run([sys.argv[1], "serve", "--help"], stdout=subprocess.PIPE, text=True).stdout
    routes = "".join(open(os.path.join(ROOT, "src/serve", n)).read() for n in ("operation.c", "metrics.c"))
    for name in sorted(os.listdir(DEPLOY)):
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"^#.*$|--(?:uid|create-home|rm|help)", "", read(name), flags=re.M))):
            check(option in help, f"{name}: {option} is an option of tenon serve")
        for path in set(re.findall(r"path: (/[a-z0-9/]+)", read(name)) + re.findall(r"prometheus.io/path: (\S+)", read(name))):
            check(f'"{path}"' in routes, f"{name}: {path} is a route")
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, "tenon-serve.service")
            with open(unit, "w") as f: f.write(read("tenon-serve.service").replace("/usr/bin/tenon-serve", "/bin/true"))
            r = subprocess.run(["systemd-analyze", "verify", unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check(r.returncode == 0 and not r.stdout, "systemd-analyze verify", r.stdout)
    else: print("skipped: systemd-analyze is not installed")
    tool = shutil.which("kubernetes-validate") or os.path.join(os.path.dirname(sys.executable), "kubernetes-validate")
    if os.path.exists(tool):
        r = subprocess.run([tool, os.path.join(DEPLOY, "kubernetes.yaml")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(r.returncode == 0 and r.stdout.count("passed") == 2, "kubernetes-validate", r.stdout)
    else: print("skipped: kubernetes-validate is not installed")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__": sys.exit(main())
