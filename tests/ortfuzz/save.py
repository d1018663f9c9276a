"""Writes a failing case to a folder: model.onnx, inputs and outputs as .npy, and what was found."""

import os

import numpy as np

import engines


def write(problem, folder):
    path = os.path.join(folder, f"seed{problem.case.seed}-{problem.kind.replace(' ', '_')}")
    os.makedirs(path, exist_ok=True)
    data = problem.case.model.SerializeToString()
    with open(os.path.join(path, "model.onnx"), "wb") as f:
        f.write(data)
    for name, x in problem.case.feeds.items():
        np.save(os.path.join(path, f"input_{name}.npy"), x, allow_pickle=True)
    names = [o.name for o in problem.case.model.graph.output]
    for who, run in (("tenon", engines.run_interp), ("onnxruntime", engines.run_ort)):
        try:
            for name, x in zip(names, run(data, problem.case.feeds)):
                np.save(os.path.join(path, f"{who}_{name}.npy"), np.asarray(x), allow_pickle=True)
        except engines.Refused as e:
            with open(os.path.join(path, f"{who}.txt"), "w") as f:
                f.write(str(e))
    with open(os.path.join(path, "report.txt"), "w") as f:
        f.write(f"seed {problem.case.seed}\n{problem.signature}\n{problem.text}\n")
    return path
