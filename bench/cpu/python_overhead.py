#!/usr/bin/env python3
"""python_overhead.py -- what a call from Python costs beyond the C interface's tenon_session_run, in microseconds.

usage: python_overhead.py [MODEL] [--calls N] [--rounds N]

A small model (examples/digits/digits.onnx) runs on one thread: in a loop of C, whose outputs are in a buffer that stays; by m(x), with new
arrays for the outputs; with out=; by name; and of PyTorch's tensors where PyTorch is there.  Figures are the median and the least of
rounds that are interleaved: the latter is what a busy machine disturbs less.  Needs numpy and a C compiler.
"""
import argparse, os, statistics, subprocess, sys, tempfile, time


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import tenon
from tenon import _ffi

LOOP = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tenon/tenon.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
int main(int argc, char **argv) {
  static tenon_error e;
  tenon_program *p; tenon_session *s;
  tenon_session_options so = {.struct_size = sizeof so, .threads = 1};
  if (argc < 3 || tenon_program_load(argv[1], NULL, &p, &e) || tenon_session_create(p, &so, &s, &e)) return puts(e.message), 1;
  static tenon_tensor in[64], out[64];
  size_t nin = tenon_program_input_count(p), nout = tenon_program_output_count(p);
  for (size_t i = 0; i < nin; i++) {
    tenon_value_info v;
    tenon_program_input(p, i, &v);
    in[i].dtype = v.dtype; in[i].rank = v.rank;
    for (int k = 0; k < v.rank; k++) in[i].shape[k] = v.shape[k] < 0 ? 1 : v.shape[k];
    in[i].bytes = tenon_tensor_size(v.dtype, v.rank, in[i].shape);
    in[i].data = calloc(1, (size_t)in[i].bytes + 64);
  }
  if (tenon_session_run(s, in, nin, out, nout, NULL, &e)) return puts(e.message), 1;
  for (int n = atoi(argv[2]);;) {
    if (getchar() == EOF) return 0;
    double begin = now();
    for (int k = 0; k < n; k++) tenon_session_run(s, in, nin, out, nout, NULL, &e);
    printf("%.6f\n", (now() - begin) / n);
    fflush(stdout);
  }
}
"""


class CLoop:
    """The C program, which measures a round for every line."""

    def __init__(self, folder, path, calls):
        source, binary, library = os.path.join(folder, "loop.c"), os.path.join(folder, "loop"), os.path.abspath(_ffi.lib_path())
        open(source, "w").write(LOOP)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-I", os.path.join(ROOT, "include"), source, library, "-o", binary,
                        f"-Wl,-rpath,{os.path.dirname(library)}"], check=True)
        self.process = subprocess.Popen([binary, path, str(calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def timed(call, calls):
    def measure():
        begin = time.perf_counter()
        for _ in range(calls): call()
        return (time.perf_counter() - begin) * 1e6 / calls
    call(), call(), call()
    return measure


def ways(model, feeds, calls):
    names, rooms = [v.name for v in model.inputs], model.session().run_list(feeds)
    out = rooms if len(rooms) > 1 else rooms[0]
    by_name = dict(zip(names, feeds))
    yield "m(x)", timed(lambda: model(*feeds), calls)
    yield "m(x, out=y)", timed(lambda: model(*feeds, out=out), calls)
    yield "m(name=x)", timed(lambda: model(**by_name), calls)
    try:
        import torch
    except ImportError:
        return
    tensors = [torch.from_numpy(x) for x in feeds]
    other = tenon.compile(model.source, threads=1)
    yield "m(x), torch", timed(lambda: other(*tensors), calls)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", nargs="?", default=os.path.join(ROOT, "examples", "digits", "digits.onnx"))
    p.add_argument("--calls", type=int, default=500)
    p.add_argument("--rounds", type=int, default=101)
    a = p.parse_args()
    from tenon.profile import random_inputs
    model = tenon.compile(a.model, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tenon")
        model.save(path)
        measures = {"C": CLoop(folder, path, a.calls), **dict(ways(model, random_inputs(model), a.calls))}
        times = {name: [] for name in measures}
        for _ in range(a.rounds):
            for name, measure in measures.items(): times[name].append(measure())
        base, least = statistics.median(times["C"]), min(times["C"])
        print(f"{'call':14} {'us':>8} {'over C':>8} {'least':>8} {'over C':>8}")
        for name, values in times.items():
            middle = statistics.median(values)
            print(f"{name:14} {middle:8.2f} {middle - base:8.2f} {min(values):8.2f} {min(values) - least:8.2f}")
        measures["C"].process.stdin.close()
        measures["C"].process.wait()


if __name__ == "__main__": main()
