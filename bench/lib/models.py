"""models.py -- the models of each section of peers.py, with inputs: found, or made from others into the work folder.

NETS: the networks with weights filled in (`make nets`), with NAME.in.npz beside each.  DATA: models with real weights.  ZOO: what zoo.py made.
What is made here: copies with all sizes fixed and without inputs that are weights (old exporters list weights as inputs, and
runtimes then treat them as changing), int8 models (`tenon quantize`), models in MNN's format (convert_mnn.py).
"""
import os, subprocess, sys
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
tenon = os.environ.get("TENON", os.path.join(here, "..", "..", "build", "tenon"))
EIGHT = ["resnet50", "mobilenet_v2", "squeezenet1_1", "densenet121", "bert_base", "gpt2.new", "vit_b_16.new", "lstm"]
SMALL = {
    "mnist": "mnist_onnx2c/model.onnx",
    "mnist_mlp": "mnist_onnx2c/pytorch.onnx",
    "silero_vad": "silero_vad/silero_vad.onnx",
    "silero_vad_ifless": "silero_vad/silero_vad_op18_ifless.onnx",
    "silero_vad_ifless_fixed": "silero_vad/silero_vad_op18_ifless.onnx",
    "dtln_1": "dtln/model_1.onnx",
    "dtln_2": "dtln/model_2.onnx",
    "ultra_light_face": "ultra_light_face/version-RFB-320_simplified.onnx",
}
# Sizes and values that a model's types do not say.
GIVEN = {"silero_vad": {"input": [1, 512], "state": [2, 1, 128], "sr": np.array(16000, np.int64)}}
GIVEN["silero_vad_ifless"] = GIVEN["silero_vad_ifless_fixed"] = GIVEN["silero_vad"]


def session_inputs(path):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).get_inputs()


def feeds(inputs, rng, given={}):
    """Inputs of the model's types; dynamic shapes are 1 for the first and 128 for others; masks are 1."""
    feed = {}
    for i in inputs:
        said = given.get(i.name)
        if isinstance(said, np.ndarray):
            feed[i.name] = said
            continue
        dims = said or [d if isinstance(d, int) else 1 if k == 0 else 128 for k, d in enumerate(i.shape)]
        if "mask" in i.name: feed[i.name] = np.ones(dims, np.int64)
        elif "int" in i.type: feed[i.name] = rng.integers(0, 400, dims).astype(i.type[len("tensor("):-1])
        else: feed[i.name] = rng.standard_normal(dims).astype(np.float32)
    return feed


def fixed(source, result, sizes={}):
    """A copy of a model without inputs that are weights, its dynamic shapes as said by name, or 1 for a first and 128 for others.
    Beside the source, since the weights are there."""
    import onnx
    if os.path.exists(result): return result
    model = onnx.load(source, load_external_data=False)
    weights = {w.name for w in model.graph.initializer}
    kept = [i for i in model.graph.input if i.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for value in model.graph.input if sizes is not None else []:
        for k, d in enumerate(value.type.tensor_type.shape.dim):
            if not d.HasField("dim_value"): d.dim_value = sizes.get(d.dim_param, sizes.get(k, 1 if k == 0 else 128))
    if sizes:  # what was inferred for dynamic shapes is not said again
        del model.graph.value_info[:]
        for value in model.graph.output:
            for d in value.type.tensor_type.shape.dim:
                if d.HasField("dim_param"): d.ClearField("dim_param")
    onnx.save(model, result)
    return result


class Models:
    def __init__(self, nets, data, zoo, work):
        self.nets, self.data, self.zoo, self.work = nets, data, zoo, work
        os.makedirs(work, exist_ok=True)

    def random_inputs(self, name, path):
        """Inputs for a model, the same each time."""
        result = os.path.join(self.work, name + ".in.npz")
        if not os.path.exists(result): np.savez(result, **feeds(session_inputs(path), np.random.default_rng(1), GIVEN.get(name, {})))
        return result

    def net(self, name):
        return f"{self.nets}/{name}.onnx", f"{self.nets}/{name}.in.npz"

    def batch(self, name, n):
        """A network with its first sizes n."""
        path = fixed(f"{self.nets}/{name}.dyn.onnx", f"{self.nets}/{name}.b{n}.onnx", {0: n, "batch": n})
        return path, self.random_inputs(f"{name}.b{n}", path)

    def bytes(self, name):
        """An int8 network, as `tenon quantize` makes it of random samples: what is measured is speed."""
        if name == "mobilenet_v2_qdq":
            path = fixed(f"{self.data}/models/mobilenet_v2_qdq_onnx/model.onnx", f"{self.work}/{name}.onnx")
            return path, self.random_inputs(name, path)
        path = f"{self.nets}/{name}.q.onnx"
        if not os.path.exists(path):
            source, samples = f"{self.nets}/{name}.onnx", f"{self.work}/{name}.samples.npz"
            rng, inputs = np.random.default_rng(2), session_inputs(source)
            many = [feeds(inputs, rng) for _ in range(8)]
            np.savez(samples, **{k: np.concatenate([m[k] for m in many]) for k in many[0]})
            subprocess.run([tenon, "quantize", source, "--data", samples, "--allow-slower", "-o", path], check=True, stdout=subprocess.DEVNULL)
        return path, f"{self.nets}/{name}.in.npz"

    def small(self, name):
        if name == "lstm": return self.net(name)
        # Sizes stay as open as the model has them, but for one copy of the model that has most to gain.
        sizes = {"batch": 1, "sequence": 512} if name.endswith("_fixed") else None
        path = fixed(f"{self.data}/models/{SMALL[name]}", f"{self.work}/{name}.onnx", sizes)
        return path, self.random_inputs(name, path)

    def other(self, name):
        """One of zoo.py's, or any file."""
        path = name if name.endswith(".onnx") else f"{self.zoo}/{name}.onnx"
        name = os.path.basename(path).removesuffix(".onnx")
        return path, self.random_inputs("other." + name, path)

    def zoo_names(self):
        here = os.listdir(self.zoo) if self.zoo and os.path.isdir(self.zoo) else []
        return sorted(f[:-5] for f in here if f.endswith(".onnx") and f.count(".") == 1)

    def mnn(self, path):
        """The model in MNN's format, or why there is none."""
        result = os.path.join(self.work, os.path.basename(path).removesuffix(".onnx") + ".mnn")
        if os.path.exists(result): return result
        r = subprocess.run([sys.executable, f"{here}/convert_mnn.py", path, result], capture_output=True, text=True)
        if r.returncode: raise RuntimeError("its converter does not read the model")
        return result
