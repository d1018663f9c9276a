"""contender.py -- one runtime in a process of its own: makes a session, then does what its standard input says (interleave.py asks).

usage: contender.py KIND[:PRECISION] MODEL INPUTS.npz THREADS wall|cpu

KIND is tenon, onnxruntime, openvino, mnn (SETTINGS below) or litert (XNNPACK); PRECISION is f32 or bf16.  Answers in lines of
JSON: first how long the session took to make (the library's own loading into Python is not counted), then one for each line
of input:
  SECONDS  runs again and again for that long, at least thrice after one run that does not count: the times in ms,
           by the clock or of the processor
  memory   the resident set now, its largest size, and how much both grew since before the library was loaded, in bytes
  F.npz    writes the outputs there
  open MODEL INPUTS.npz   a session of another model in place of this one; answers as at the start, or {"failed": why}
Inputs and outputs are bound once, so that what is measured is the run and not the copying of arrays.  Whatever a library
prints goes to standard error.
"""
import json, os, sys, time
import numpy as np

SETTINGS = {
    "tenon": "the defaults",
    "onnxruntime": "all graph optimisations, intra-op threads as said, spinning, sequential",
    "openvino": "PERFORMANCE_HINT LATENCY, one stream, INFERENCE_PRECISION_HINT as said, no dynamic quantisation of activations",
    "mnn": "converted by its own converter, precision high (f32) or low, numThread as said",
}


made_before = []  # a session that the next one takes the place of


def memory(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))


def tenon(path, feed, threads, precision):
    import capi
    for old in made_before: old.close()
    made_before.clear()
    start = time.perf_counter()
    session = capi.Session(capi.Program(path, threads, precision), threads)
    made = time.perf_counter() - start
    made_before.append(session)
    session.bind(feed)
    return made, session.run, session.outputs


def onnxruntime(path, feed, threads, precision):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.log_severity_level = 3
    start = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    made = time.perf_counter() - start
    binding, names = session.io_binding(), [o.name for o in session.get_outputs()]
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
    for name, value in values.items(): binding.bind_ortvalue_input(name, value)
    for name in names: binding.bind_output(name, "cpu")
    try:  # twice: what the first run leaves is bound in the second, and must then have the rank that the model declares
        for _ in range(2): session.run_with_iobinding(binding)
    except RuntimeError:
        return made, lambda: session.run(names, feed), lambda: dict(zip(names, session.run(names, feed)))
    return made, lambda: session.run_with_iobinding(binding), lambda: dict(zip(names, binding.copy_outputs_to_cpu()))


def openvino(path, feed, threads, precision):
    import openvino as ov
    core = ov.Core()
    # The precision is said because the default is bf16 where the processor has instructions for it.
    # Products with weights of 4 and 8 bits would round their activations to 8 bits, which no other runtime here does.
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision,
               "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    if "OPENVINO_CACHE" in os.environ: options["CACHE_DIR"] = os.environ["OPENVINO_CACHE"]
    start = time.perf_counter()
    request = core.compile_model(path, "CPU", options).create_infer_request()
    made = time.perf_counter() - start
    for name, array in feed.items(): request.set_tensor(name, ov.Tensor(array, shared_memory=bool(array.shape)))
    outputs = lambda: {p.get_any_name(): request.get_tensor(p).data.copy() for p in request.model_outputs}
    return made, request.infer, outputs


def mnn(path, feed, threads, precision):
    """path: a .mnn file that convert_mnn.py made, which has the names of the outputs beside it."""
    import MNN.expr as F, MNN.nn as nn
    names = json.load(open(path + ".json"))
    start = time.perf_counter()
    runtime = nn.create_runtime_manager(({"backend": "CPU", "precision": "high" if precision == "f32" else "low", "numThread": threads},))
    module = nn.load_module_from_file(path, names["inputs"], names["outputs"], runtime_manager=runtime, shape_mutable=False)
    values = []
    for name in names["inputs"]:
        real = feed[name].dtype.kind == "f"
        values.append(F.const(np.ascontiguousarray(feed[name], np.float32 if real else np.int32), list(feed[name].shape), F.NCHW, F.float if real else F.int))
    last = [module.forward(values)]  # the first call decides on algorithms and memory: it belongs to making the session
    made = time.perf_counter() - start

    def run(): last[0] = module.forward(values)
    return made, run, lambda: {name: np.array(v.read()) for name, v in zip(names["outputs"], last[0])}


def litert(path, feed, threads, precision):
    from ai_edge_litert.interpreter import Interpreter
    start = time.perf_counter()
    it = Interpreter(path, num_threads=threads)
    for d in it.get_input_details(): it.resize_tensor_input(d["index"], feed[d["name"]].shape)
    it.allocate_tensors()
    made = time.perf_counter() - start
    for d in it.get_input_details(): it.set_tensor(d["index"], feed[d["name"]])
    return made, it.invoke, lambda: {d["name"]: it.get_tensor(d["index"]) for d in it.get_output_details()}


def measure(run, seconds, clock):
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        run()
        took = clock() - start
        if took > 0: times.append(took * 1e3)  # the processor's clock may stand still during a short run
    return times


def main():
    kind, path, inputs, threads, which = sys.argv[1:6]
    kind, _, precision = kind.partition(":")
    clock = time.process_time if which == "cpu" else time.perf_counter
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what): print(json.dumps(what), file=answers, flush=True)
    make = {"tenon": tenon, "onnxruntime": onnxruntime, "openvino": openvino, "mnn": mnn, "litert": litert}[kind]

    feed = {}  # runtimes read these arrays in place

    def session(path, inputs):
        feed.clear()
        with np.load(inputs) as archive: feed.update((name, archive[name]) for name in archive)
        return make(path, feed, int(threads), precision or "f32")
    before = memory("VmRSS")
    made, run, outputs = session(path, inputs)
    say({"made_ms": made * 1e3})
    for line in sys.stdin:
        line = line.strip()
        if line == "memory":
            rss, most = memory("VmRSS"), memory("VmHWM")
            say({"rss": rss, "hwm": most, "grown": rss - before, "grown_most": most - before})
        elif line.startswith("open "):
            run = outputs = None
            try:
                made, run, outputs = session(*line.split(" ")[1:])
                say({"made_ms": made * 1e3})
            except Exception as e: say({"failed": f"{type(e).__name__}: {e}"})
        elif line.endswith(".npz"):
            run()
            np.savez(line, **outputs())
            say({})
        else: say({"ms": measure(run, float(line), clock)})


if __name__ == "__main__":
    main()
