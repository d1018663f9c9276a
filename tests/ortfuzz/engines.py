"""The engines that are compared: Tenon's interpreter, Tenon's compiled code, ONNX Runtime, onnx.reference."""

import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import onnxruntime  # noqa: E402
import tenon  # noqa: E402

onnxruntime.set_default_logger_severity(4)
_options = onnxruntime.SessionOptions()
_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
_options.intra_op_num_threads = _options.inter_op_num_threads = 1
_options.log_severity_level = 4
_options.add_session_config_entry("session.allow_spinning", "0") if hasattr(_options, "add_session_config_entry") else None


def max_opset():
    """The last opset, up to 26, that this ONNX Runtime loads: a seed gives the same model wherever that is the same."""
    from onnx import defs, helper

    for opset in range(min(26, defs.onnx_opset_version()), 13, -1):
        node = helper.make_node("Identity", ["x"], ["y"])
        infos = [helper.make_tensor_value_info(n, 1, [1]) for n in "xy"]
        graph = helper.make_graph([node], "g", infos[:1], infos[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        try:
            run_ort(model.SerializeToString(), {"x": np.zeros(1, np.float32)})
        except Refused:
            continue
        return opset
    return 13


class Refused(Exception):
    """The engine does not run the model; `unsupported` where it has no implementation, else it calls the model wrong."""

    def __init__(self, text, unsupported):
        super().__init__(text)
        self.unsupported = unsupported


def run_interp(data, feeds):
    try:
        out = tenon.compile(data, target="interp")(dict(feeds))
    except tenon.InternalError:
        raise
    except tenon.TenonError as e:
        raise Refused(str(e), isinstance(e, tenon.UnsupportedError)) from None
    return list(out.values())


def run_compiled(data, feeds, exact, target="cpu", tier="full"):
    """Compiled code; target "ref": its loops, interpreted, which takes a twentieth of the time.  Tier "auto" would compare quick code alone."""
    try:
        m = tenon.compile(data, target=target, threads=1, math="exact" if exact else "default", cache=False, tier=tier)
        out = m(dict(feeds))
    except tenon.InternalError:
        raise
    except tenon.TenonError as e:
        raise Refused(str(e), isinstance(e, tenon.UnsupportedError)) from None
    return list(out.values())


stage = lambda what: None  # told what is at hand, so that a process that ended says in which engine


def run_ort(data, feeds):
    stage("ort")
    try:
        s = onnxruntime.InferenceSession(data, _options, providers=["CPUExecutionProvider"])
        # Its BatchNormalization in training mode writes the running variance over the input.
        return s.run(None, {k: x.copy() if isinstance(x, np.ndarray) else x for k, x in feeds.items()})
    except Exception as e:  # noqa: BLE001 - it raises classes of its own
        text = str(e)
        raise Refused(text, "NOT_IMPLEMENTED" in text or "Could not find an implementation" in text) from None
    finally:
        stage("compare")


def run_reference(model, feeds):
    import onnx.reference

    try:
        with np.errstate(all="ignore"):
            out = onnx.reference.ReferenceEvaluator(model).run(None, dict(feeds))
        return [np.asarray(x) for x in out]
    except Exception as e:  # noqa: BLE001
        raise Refused(f"{type(e).__name__}: {e}", True) from None
