#!/usr/bin/env python3
"""cuda_text_test.py TENON [--arch sm_90a]... [--precision bf16] [--tiles N] [--graphs N [--seed S]] [--suite DIR --compiled N] MODEL... -- compiles the CUDA text of models with NVRTC, without a GPU.

Every kernel of every model must build for every architecture (sm_80 and sm_90a unless --arch says otherwise), and a kernel with tiles must not spill
registers, nor wait for each of its products before the next; with --tiles there must be N such kernels.  --graphs adds N random graphs, which the unit tests
beside TENON write.  --suite adds every model.onnx below DIR, of which at least N must compile for each architecture: Tenon refuses the others.  NVRTC is the library that TENON_NVRTC names, or a Python package's (nvidia-cuda-nvrtc), or what the loader finds; where there is none the test
says so and passes.
"""
import argparse, concurrent.futures, ctypes, glob, hashlib, os, re, site, subprocess, sys, tempfile

HEAD, TILED = b"//tn kernel ", b"//tn threads"  # what pieces, and of these those with tiles, begin with


def find_nvrtc():
    names = [os.environ.get("TENON_NVRTC", "")]
    for folder in site.getsitepackages() + [site.getusersitepackages()]:
        names += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")), reverse=True)
    names += ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]
    for name in names:
        if not name: continue
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


def compile_text(text, arch):
    """(bytes of the cubin, what the compiler said)"""
    rtc = find_nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    if rtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None): return 0, "no program"
    options = [b"--gpu-architecture=" + arch.encode(), b"--std=c++17", b"--fmad=false", b"-default-device", b"--ptxas-options=-v"]
    failed = rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    rtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    rtc.nvrtcGetProgramLog(program, log)
    size.value = 0
    if not failed: rtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    rtc.nvrtcDestroyProgram(ctypes.byref(program))
    return size.value, log.value.decode(errors="replace")


def pieces(path):
    data, at = open(path, "rb").read(), 0
    while (at := data.find(HEAD, at)) >= 0:
        end = data.find(b"\n", at)
        length = int(data[at + len(HEAD):end])
        yield data[end + 1:end + 1 + length]
        at = end + 1 + length


def kernel_name(text):
    return re.findall(rb"^// (\S+)\(", text, re.M)[-1].decode()[:60]


def check(job):
    model, arch, text = job
    size, log = compile_text(text, arch)
    if not size: return f"{model} {arch} {kernel_name(text)}: {log[:600]}"
    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", log))
    if "serialized" in log: return f"{model} {arch} {kernel_name(text)}: products wait for each other, for lack of registers"
    if spills and text.startswith(TILED): return f"{model} {arch} {kernel_name(text)}: {spills} bytes spilled"
    return None


def random_graphs(tenon, count, seed, folder):
    """Written by tenon-tests; some seeds give none."""
    tests = os.path.join(os.path.dirname(os.path.abspath(tenon)), "tenon-tests")
    env = dict(os.environ, GRAPH_FUZZ_FILES=folder, GRAPH_FUZZ=str(count), GRAPH_FUZZ_SEED=str(seed))
    subprocess.run([tests, "graph_fuzz_files"], env=env, check=True, capture_output=True)
    return sorted(glob.glob(os.path.join(folder, "seed*.tir")))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tenon")
    p.add_argument("--arch", action="append")
    p.add_argument("--precision", default="f32")
    p.add_argument("--keep", help="a folder for the texts")
    p.add_argument("--tiles", type=int, default=0)
    p.add_argument("--graphs", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--suite")
    p.add_argument("--compiled", type=int, default=0)
    p.add_argument("models", nargs="*")
    a = p.parse_intermixed_args()
    if not find_nvrtc():
        print("there is no NVRTC: TENON_NVRTC may name one, or pip install nvidia-cuda-nvrtc\n0 passed, 0 failed")
        return 0
    jobs, seen, bad = [], set(), []
    with tempfile.TemporaryDirectory() as folder:
        graphs = random_graphs(a.tenon, a.graphs, a.seed, folder) if a.graphs else []
        if len(graphs) < a.graphs * 0.9: bad.append(f"{len(graphs)} random graphs, not {a.graphs}")
        suite = dict.fromkeys(sorted(glob.glob(os.path.join(a.suite, "**", "model.onnx"), recursive=True))) if a.suite else {}
        refused = {}  # of each architecture: the suite's models that Tenon refuses
        for model in a.models + graphs + list(suite):
            for arch in a.arch or ["sm_80", "sm_90a"]:
                out = os.path.join(folder, "model.tenon")
                command = [a.tenon, "compile", model, "--target", "cuda", "--precision", a.precision, "-o", out]
                r = subprocess.run(command, env=dict(os.environ, TENON_CUDA_DEVICE=arch), capture_output=True, text=True)
                if r.returncode and model in suite:
                    refused.setdefault(arch, []).append(model)
                    print(f"refused for {arch}: {r.stderr.strip()[:300]}")
                    continue
                if r.returncode:
                    bad.append(f"{model} {arch}: {r.stderr}")
                    continue
                for text in pieces(out):
                    key = (arch, hashlib.sha256(text).digest())
                    if key in seen: continue
                    seen.add(key)
                    jobs.append((os.path.relpath(model, a.suite) if model in suite else os.path.basename(model), arch, text))
                    if a.keep:
                        open(os.path.join(a.keep, f"{os.path.basename(model)}.{arch}.{len(jobs)}.cu"), "wb").write(text)
    for arch, models in refused.items():
        if len(suite) - len(models) < a.compiled: bad.append(f"{arch}: {len(suite) - len(models)} models compile, not {a.compiled}")
    tiles = sum(text.startswith(TILED) for _, _, text in jobs)
    if tiles < a.tiles: bad.append(f"{tiles} kernels with tiles, not {a.tiles}")
    with concurrent.futures.ProcessPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        bad += [said for said in pool.map(check, jobs) if said]
    for said in bad: print(said)
    print(f"{len(jobs) - len(bad)} passed, {len(bad)} failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
