#!/usr/bin/env python3
"""memory.py -- the planned arena of each network beside the memory that ONNX Runtime takes for a run.

Tenon: what `tenon inspect --optimised` plans for all values that are neither inputs nor weights, and the lower bound, the
largest sum of live bytes in the chosen order.  ONNX Runtime, one thread, each in a process of its own:
  arena  bytes that its arena took from the system during the first run.  The arena extends as requested, not by powers of
         two, and weights are kept elsewhere; the numbers are those that it logs.
  rss    growth of the resident set's largest size (VmHWM) during the second run, with the arena off, so that everything
         is given back between runs and weights have been touched before.

usage: bench/cpu/memory.py NETS_DIR [NAME...]      (TENON is the program)
"""
import glob, json, os, re, subprocess, sys

tenon = os.environ.get("TENON", "build/tenon")

CHILD = r"""
import sys, numpy as np, onnxruntime as ort
path, what = sys.argv[1:3]
options = ort.SessionOptions()
options.intra_op_num_threads = 1
if what == "arena":
    ort.set_default_logger_severity(0)
    options.log_severity_level = 0
    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(info, ort.OrtArenaCfg({"arena_extend_strategy": 1}))
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
else:
    options.enable_cpu_mem_arena = False
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
rng, feed = np.random.default_rng(1), {}
for i in session.get_inputs():
    dims = [d if isinstance(d, int) else 1 if k == 0 else 128 for k, d in enumerate(i.shape)]
    feed[i.name] = np.ones(dims, np.int64) if "int" in i.type else rng.standard_normal(dims).astype(np.float32)
    for k, d in enumerate(i.shape):
        if not isinstance(d, int): print("dim", d, dims[k])

def memory(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

print("marker", file=sys.stderr, flush=True)
session.run(None, feed)
print("marker", file=sys.stderr, flush=True)
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
session.run(None, feed)
print("rss", memory("VmHWM") - before)
"""


def runtime(path, what):
    env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")
    r = subprocess.run([sys.executable, "-c", CHILD, path, what], capture_output=True, text=True, check=True, env=env)
    if what == "rss":
        return int(re.search(r"rss (-?\d+)", r.stdout)[1])
    first = r.stderr.split("marker")[1]
    return sum(int(b) for b in re.findall(r"Extended allocation by (\d+) bytes", first)), re.findall(r"dim (\S+) (\d+)", r.stdout)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    here = sorted(os.path.basename(f)[:-5] for f in glob.glob(os.path.join(sys.argv[1], "*.onnx")))
    names = sys.argv[2:] or [n for n in here if "." not in n or (n.endswith(".new") and n[:-4] not in here)]
    print("| network | planned arena | lower bound | ONNX Runtime's arena | its resident set | arena to its arena |\n|---|---|---|---|---|---|")
    for name in names:
        path = os.path.join(sys.argv[1], name + ".onnx")
        arena, dims = runtime(path, "arena")
        rss = runtime(path, "rss")
        bind = [a for n, v in dict(dims).items() for a in ("--dim", f"{n}={v}")]
        r = subprocess.run([tenon, "inspect", "--optimised", "--json", path] + bind, capture_output=True, text=True, check=True)
        plan = json.loads(r.stdout)
        ours, bound = plan["planned_arena_bytes"], plan["planned_peak_bytes"]
        print(f"| {name} | {ours:,} | {bound:,} | {arena:,} | {rss:,} | {ours / arena:.2f} |", flush=True)


main()
