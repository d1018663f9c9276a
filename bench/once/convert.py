#!/usr/bin/env python3
"""convert.py -- networks through `tenon convert`: the same outputs, and ONNX Runtime's time for the original and for what was written.

    bench/once/convert.py TENON FOLDER [NAME...]    FOLDER has NAME.onnx, NAME.in.npz and NAME.out.npz

Each network is converted as it is and optimised.  Tenon and ONNX Runtime must compute the stored outputs from what was written; status 1 where
they do not.  The two sessions of a pair are timed interleaved; the figure is the median of the ratios.  Needs numpy, onnx and onnxruntime.
"""
import argparse, glob, os, statistics, subprocess, sys, tempfile, time
import numpy as np, onnx, onnxruntime as ort


def session(path, threads):
    o = ort.SessionOptions()
    o.log_severity_level, o.intra_op_num_threads = 3, threads
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def timed(s, feeds):
    t = time.perf_counter()
    out = s.run(None, feeds)
    return time.perf_counter() - t, out


def near(s, got, want):
    """The largest difference, over the largest value."""
    return max(float(np.max(np.abs(g.astype(np.float64) - want[o.name]), initial=0)) / (float(np.max(np.abs(want[o.name]), initial=0)) or 1)
               for o, g in zip(s.get_outputs(), got))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tenon")
    a.add_argument("folder")
    a.add_argument("names", nargs="*")
    a.add_argument("--runs", type=int, default=9)
    a.add_argument("--threads", type=int, default=1)
    a = a.parse_args()
    names = a.names or sorted(os.path.basename(p)[:-5] for p in glob.glob(os.path.join(a.folder, "*.onnx")) if os.path.exists(p[:-5] + ".out.npz"))
    bad = 0
    print(f"{'network':24} {'form':10} {'opset':>5} {'nodes':>6} {'error':>9} {'original ms':>12} {'written ms':>11} {'ratio':>6}  {'error of Tenon':>9}")
    for name in names:
        base = os.path.join(a.folder, name)
        feeds, want = dict(np.load(base + ".in.npz")), dict(np.load(base + ".out.npz"))
        was = session(base + ".onnx", a.threads)
        for form in ("plain", "optimised"):
            with tempfile.TemporaryDirectory() as scratch:
                path = os.path.join(scratch, "model.onnx")
                subprocess.run([a.tenon, "convert", base + ".onnx", "-o", path] + (["--optimised"] if form == "optimised" else []), check=True, stdout=subprocess.DEVNULL)
                onnx.checker.check_model(path, full_check=True)
                model = onnx.load(path, load_external_data=False)
                now = session(path, a.threads)
                pairs = []
                for _ in range(a.runs):
                    (x, _), (y, out) = timed(was, feeds), timed(now, feeds)
                    pairs.append((x, y))
                error = near(now, out, want)
                ours = os.path.join(scratch, "out.npz")
                subprocess.run([a.tenon, "run", path, "--inputs", base + ".in.npz", "-o", ours], check=True, stdout=subprocess.DEVNULL)
                got = np.load(ours)
                own = near(now, [got[o.name] for o in now.get_outputs()], want)
            bad += max(error, own) > 1e-4
            print(f"{name:24} {form:10} {model.opset_import[0].version:5} {len(model.graph.node):6} {error:9.1e} {1e3 * statistics.median(x for x, _ in pairs):12.2f} "
                  f"{1e3 * statistics.median(y for _, y in pairs):11.2f} {statistics.median(y / x for x, y in pairs):6.2f}  {own:7.1e}", flush=True)
    return 1 if bad else 0


sys.exit(main())
