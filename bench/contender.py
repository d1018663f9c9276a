"""contender.py -- one contender of peers.py in a process of its own: makes a session, then does what its standard input says.

usage: contender.py tenon|onnxruntime|openvino MODEL INPUTS.npz THREADS wall|cpu

Answers in lines of JSON: first how long the session took to make (the library's own loading into Python is not counted), then
one for each line of input:
  SECONDS  runs again and again for that long, at least thrice after one run that does not count: the times in ms,
           by the clock or of the processor
  memory   the resident set now, its largest size, and how much it grew since before the library was loaded, in bytes
  F.npz    writes the outputs there
Inputs and outputs are bound once, so that what is measured is the run and not the copying of arrays.
"""
import json, sys, time
import numpy as np


def memory(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))


def tenon(path, feed, threads):
    import capi
    start = time.perf_counter()
    session = capi.Session(capi.Program(path, threads), threads)
    made = time.perf_counter() - start
    session.bind(feed)
    return made, session.run, session.outputs


def onnxruntime(path, feed, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    start = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    made = time.perf_counter() - start
    binding, names = session.io_binding(), [o.name for o in session.get_outputs()]
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
    for name, value in values.items(): binding.bind_ortvalue_input(name, value)
    for name in names: binding.bind_output(name, "cpu")
    return made, lambda: session.run_with_iobinding(binding), lambda: dict(zip(names, binding.copy_outputs_to_cpu()))


def openvino(path, feed, threads):
    import openvino as ov
    core = ov.Core()
    # The precision is said because the default is bf16 where the processor has instructions for it.
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    start = time.perf_counter()
    request = core.compile_model(path, "CPU", options).create_infer_request()
    made = time.perf_counter() - start
    for name, array in feed.items(): request.set_tensor(name, ov.Tensor(array, shared_memory=True))
    outputs = lambda: {p.get_any_name(): request.get_tensor(p).data.copy() for p in request.model_outputs}
    return made, request.infer, outputs


def measure(run, seconds):
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        run()
        times.append((clock() - start) * 1e3)
    return times


kind, path, inputs, threads = sys.argv[1:5]
clock = time.process_time if sys.argv[5] == "cpu" else time.perf_counter
with np.load(inputs) as archive: feed = {name: archive[name] for name in archive}
before = memory("VmRSS")
made, run, outputs = {"tenon": tenon, "onnxruntime": onnxruntime, "openvino": openvino}[kind](path, feed, int(threads))
print(json.dumps({"made_ms": made * 1e3}), flush=True)
for line in sys.stdin:
    line = line.strip()
    if line == "memory":
        answer = {"rss": memory("VmRSS"), "hwm": memory("VmHWM"), "grown": memory("VmRSS") - before}
    elif line.endswith(".npz"):
        run()
        np.savez(line, **outputs())
        answer = {}
    else: answer = {"ms": measure(run, float(line))}
    print(json.dumps(answer), flush=True)
