"""Runs a model in ONNX Runtime, as `tenon run` and `tenon bench --json` run one in Tenon.

usage: python3 -c TEXT MODEL INPUTS.npz OUTPUTS.npz|- SECONDS THREADS

Prints one JSON object with the keys of `tenon bench --json`.  Outputs that are no arrays are named
under "others".
"""
import sys

# A program given by -c finds modules in the current folder first: what lies beside a model is no code of ours.
sys.path[:] = [p for p in sys.path if p]

import json
import resource
import statistics
import time

# Exit statuses of `tenon`: failed, and not supported.
FAILED, UNSUPPORTED = 1, 4


def leave(status, text):
    print("tenon: " + text, file=sys.stderr)
    sys.exit(status)


def read_feeds(session, archive):
    """The arrays by input; items of a sequence are NAME.0, NAME.1 and so on."""
    feeds = {}
    for value in session.get_inputs():
        if value.name in archive:
            feeds[value.name] = archive[value.name]
        elif value.type.startswith("seq"):
            items = []
            while f"{value.name}.{len(items)}" in archive:
                items.append(archive[f"{value.name}.{len(items)}"])
            feeds[value.name] = items
    return feeds


def write_outputs(np, session, results, path):
    """What arrays can hold, under the names that `tenon run --output` gives; the names of the rest."""
    arrays, others = {}, []
    for value, result in zip(session.get_outputs(), results):
        if isinstance(result, np.ndarray):
            arrays[value.name] = result.astype("U") if result.dtype == object else result
        elif isinstance(result, list) and all(isinstance(x, np.ndarray) for x in result):
            arrays.update((f"{value.name}.{i}", x) for i, x in enumerate(result))
        else:
            others.append(value.name)
    with open(path, "wb") as f:
        np.savez(f, **arrays)
    return others


def measure(session, feeds, seconds):
    for _ in range(2):
        session.run(None, feeds)
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(1e3 * (time.perf_counter() - start))
    times.sort()
    return {
        "runs": len(times),
        "median_ms": statistics.median(times),
        "min_ms": times[0],
        "p99_ms": times[min(len(times) - 1, len(times) * 99 // 100)],
    }


def main(model, inputs, outputs, seconds, threads):
    try:
        import numpy as np
        import onnxruntime
    except ImportError as e:
        leave(UNSUPPORTED, f"{sys.executable} has no onnxruntime ({e}); --python names another")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = int(threads)
    start = time.perf_counter()
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        load_ms = 1e3 * (time.perf_counter() - start)
        with np.load(inputs) as archive:
            feeds = read_feeds(session, archive)
        results = session.run(None, feeds)
        report = {"version": onnxruntime.__version__, "threads": int(threads), "load_ms": load_ms}
        if outputs != "-":
            report["others"] = write_outputs(np, session, results, outputs)
        if float(seconds) > 0:
            report.update(measure(session, feeds, float(seconds)))
    except Exception as e:  # whatever the runtime raises is its answer
        leave(FAILED, f"onnxruntime {onnxruntime.__version__}: {e}")
    report["peak_rss_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(report))


main(*sys.argv[1:])
