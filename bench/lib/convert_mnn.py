"""convert_mnn.py -- an ONNX model in MNN's format, by MNN's converter, with its inputs' and outputs' names beside it (OUT.json).

usage: convert_mnn.py MODEL.onnx OUT.mnn

The converter is called as a module: its command line installs and runs a service that reports its use.  Runs in a process of
its own, since a model that it cannot read may end it.
"""
import json, os, sys
import _tools
import onnxruntime as ort

source, result = sys.argv[1:3]
options = ort.SessionOptions()
options.graph_optimization_level, options.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 3
session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
names = {"inputs": [i.name for i in session.get_inputs()], "outputs": [o.name for o in session.get_outputs()]}
_tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", result + ".part", "--bizCode", "bench"])
if not os.path.exists(result + ".part"): sys.exit("MNN's converter wrote nothing")
with open(result + ".json", "w") as f: json.dump(names, f)
os.replace(result + ".part", result)
