#!/usr/bin/env python3
"""split_test.py -- one file for machines with and without OpenCL, and models split over the CPU and an OpenCL device.

usage: split_test.py PROGRAM [MODEL...]

Each model is compiled for the CPU, for OpenCL, and for both together (kernels alternating, so that everything crosses), all three into one
file.  Each variant, asked for by name, gives what the CPU gives; without a driver the file runs on the CPU and says nothing, `inspect` says
why not the others, and the split one alone is an error that names the driver.  Without OpenCL on this machine only the latter is tested.
More models (networks) may be given.  Needs Python's standard library.
"""
import json, os, shutil, subprocess, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORK = os.path.join(ROOT, "build", "split-test")
MODELS = ["tests/models/text.tir", "tests/models/repeat.tir", "tests/models/keywords_int8.onnx", "examples/digits/digits.onnx"]
NO_DRIVER = {"OCL_ICD_VENDORS": os.path.join(WORK, "none"), "OPENCL_VENDOR_PATH": os.path.join(WORK, "none")}
passed = 0


def ok(what):
    global passed
    passed += 1
    print(f"ok {what}", flush=True)


def call(*command, env=None):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, **(env or {})})


def need(result, *command):
    if result.returncode: sys.exit(f"split_test: {' '.join(command)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def run(*command, env=None):
    return need(call(*command, env=env), *command)


def expect(condition, what, result):
    if not condition: sys.exit(f"split_test: {what}\n{result.stdout}{result.stderr}")


def variants(program, path, env=None):
    return json.loads(run(program, "inspect", path, "--json", env=env).stdout)["variants"]


def check_model(program, model):
    name = os.path.splitext(os.path.basename(model))[0]
    path, out = os.path.join(WORK, name + ".tenon"), os.path.join(WORK, name + ".npz")
    run(program, "compile", model, "--target", "cpu", "--target", "opencl", "--target", "cpu,opencl", "--place", "alternate", "-o", path)
    run(program, "run", model, "--target", "cpu", "-o", out)
    names = [v["target"] for v in variants(program, path)]
    # With one kernel there is nothing to split.
    if names not in (["cpu", "opencl", "cpu,opencl"], ["cpu", "opencl"]): sys.exit(f"split_test: {name} has the variants {names}")
    for target in names:
        run(program, "run", path, "--target", target, "--expect", out, "--rtol", "1e-3", "--atol", "1e-4")
    ok(f"{name}: {'; '.join(names)}")
    # A device that is the CPU itself is never taken before it; a better one would be.
    chosen = [v for v in variants(program, path) if v["chosen"]]
    if len(chosen) != 1: sys.exit(f"split_test: {name}: {chosen}")
    r = run(program, "run", path, "--expect", out, "--rtol", "1e-3", "--atol", "1e-4", env=NO_DRIVER)
    expect(not r.stderr, f"{name}: something was said without a driver", r)
    for v in variants(program, path, NO_DRIVER):
        if v["chosen"] != (v["target"] == "cpu"): sys.exit(f"split_test: {name}: without a driver {v}")
        if not v["chosen"] and "opencl: " not in v["why_not"]: sys.exit(f"split_test: {name}: no reason: {v}")
    ok(f"{name}: the same file without a driver")
    if len(names) < 3: return
    alone = os.path.join(WORK, name + "-split.tenon")
    run(program, "compile", model, "--target", "opencl,cpu", "--place", "*=opencl", "--place", "alternate", "-o", alone)
    r = call(program, "run", alone, env=NO_DRIVER)
    expect(r.returncode == 4 and "compiled for cpu,opencl, which is not here: opencl: " in r.stderr, f"{name}: split, without a driver", r)
    ok(f"{name}: split, without a driver")


def check_rules(program):
    model = MODELS[0]
    r = call(program, "run", model, "--target", "cpu,opencl", "--place", "nonsense")
    expect(r.returncode and "'nonsense' places nothing" in r.stderr, "a rule that is none", r)
    # By cost alone: whatever it is, it is right.
    run(program, "run", model, "--target", "cpu,opencl", "--compare", "interp")
    ok("rules, and the cost model's own choice")
    x = json.loads(run(program, "explain", MODELS[2], "--target", "cpu,opencl", "--place", "alternate", "--json").stdout)["steps"]
    copied = sum(s["copied_bytes"] for s in x if s["kind"] == "copy")
    if {s["on"] for s in x} != {"cpu", "opencl"} or copied <= 0: sys.exit(f"split_test: explain says {x}")
    ok("explain: where each step is done, and what is copied")


def main():
    if len(sys.argv) < 2: sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    os.chdir(ROOT)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(os.path.join(WORK, "none"))
    targets = json.loads(run(program, "targets", "--json").stdout)
    works = {t["name"]: t["works"] for t in targets["targets"]}
    if not works[targets["auto"]]: sys.exit(f"split_test: auto is {targets['auto']}, which is not here")
    r = call(program, "run", MODELS[0], "--target", "opencl", env=NO_DRIVER)
    expect(r.returncode and "OpenCL" in r.stderr, "opencl without a driver", r)
    ok("opencl without a driver is an error")
    if works.get("opencl") and works["cpu"]:
        check_rules(program)
        for model in MODELS + sys.argv[2:]: check_model(program, model)
    else:
        print("skipped: there is no OpenCL device, or no tenon-codegen")
    print(f"{passed} passed, 0 failed")


main()
