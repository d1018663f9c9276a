#!/usr/bin/env python3
"""compress.py -- what quantisation loses, beside other tools; whether certificates hold; what calibration costs.

    bench/compress.py accuracy     [MODEL...] [--peers ort-minmax,ort-entropy,ort-percentile,nncf,aimet] [--to int8] [-o F.json]
    bench/compress.py certificates [MODEL...] [--splits 20] [--budgets 'agreement>=98%,agreement>=99%,rms<=10%']
    bench/compress.py calibration  [MODEL...] [--samples 1000]
    bench/compress.py migration    [MODEL...]

accuracy: each tool quantises the same model with the same 1,000 samples; ONNX Runtime judges all results on the same 10,000 other samples.
Printed are points of accuracy lost, and the divergence of the scores from the float model's in 1/1000 nats. A peer that is not
installed is named and left out.
certificates: each quantised model's bound beside what ten times as many new samples give. A bound is violated where those show worse
beyond their own chance. Ends with status 1 where more than 5 % are violated, or where a certificate does not replay, or
replays with a weight or a sample changed.
migration: accuracy of models whose channels have been made uneven by powers of two, which changes nothing in floats: as they were, plain int8,
and with scale moved (--migrate). Ends with status 1 where int8 loses more than half a point by it.
calibration: time and resident memory of calibrating beside plain runs of the float model on the same samples.

Models and samples are those of bench/lib/trained.py; FOLDER (--folder) keeps what was trained. Needs numpy, onnx, onnxruntime.
"""
import argparse, contextlib, io, json, logging, math, os, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import numpy as np, trained

ROOT = trained.ROOT
PROGRAM = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
CALIBRATE, JUDGE = 1, 2  # seeds of samples


# ---- tools: each writes a quantised model from the float one and samples ----

def by_tenon(m, x, out, to="int8", more=()):
    np.savez(out + ".npz", **{m.input: x})
    r = subprocess.run([PROGRAM, "quantize", m.path, "--data", out + ".npz", "--to", to, "--allow-slower", "--force", "-o", out, *more], capture_output=True, text=True)
    os.remove(out + ".npz")
    if r.returncode: raise RuntimeError(r.stderr.strip()[-300:])


def batches(m, x):
    """Samples as inputs of one run each."""
    return [{m.input: v[None]} for v in x]


def recent(m):
    """The float model for peers, which quantise by channel from opset 13 on, without shapes of values inside, which may be wrong."""
    import onnx
    model = onnx.load(m.path)
    if model.opset_import[0].version < 13: model = onnx.version_converter.convert_version(model, 13)
    made = {t.name for t in model.graph.initializer}
    for v in [v for v in model.graph.input if v.name in made]: model.graph.input.remove(v)
    del model.graph.value_info[:]
    return model


def by_ort(method):
    def quantise(m, x, out):
        from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quant_pre_process, quantize_static
        class Reader(CalibrationDataReader):
            def __init__(self): self.rows = iter(batches(m, x))
            def get_next(self): return next(self.rows, None)
        import onnx
        logging.getLogger().setLevel(logging.ERROR)
        try: quant_pre_process(recent(m), out + ".pre", skip_symbolic_shape=True)
        except onnx.checker.ValidationError:  # where constants are attributes it wants a file
            onnx.save(recent(m), out + ".recent")
            quant_pre_process(out + ".recent", out + ".pre", skip_symbolic_shape=True)
        quantize_static(out + ".pre", out, Reader(), per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=getattr(CalibrationMethod, method))
    return quantise


def by_nncf(m, x, out):
    import nncf, onnx
    nncf.set_log_level(logging.ERROR)
    kind = nncf.ModelType.TRANSFORMER if "vit" in m.name or "norm" in m.name else None
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix
    whole = AdvancedQuantizationParameters(overflow_fix=OverflowFix.DISABLE)  # else weights have 7 bits
    done = nncf.quantize(recent(m), nncf.Dataset(batches(m, x)), preset=nncf.QuantizationPreset.MIXED, subset_size=len(x), model_type=kind, advanced_parameters=whole)
    onnx.save(done, out)


AIMET = """
import sys, numpy as np, onnx
from aimet_onnx.quantsim import QuantizationSimModel
name, x = next(iter(np.load(sys.argv[2]).items()))
sim = QuantizationSimModel(onnx.load(sys.argv[1]), param_type="int8", activation_type="int8")
sim.compute_encodings([{name: v[None]} for v in x])
onnx.save(sim.to_onnx_qdq(), sys.argv[3])
"""


def by_aimet(m, x, out):
    """In the Python that AIMET_PYTHON names, since it wants packages of its own versions."""
    import onnx
    if "AIMET_PYTHON" not in os.environ: raise ImportError("AIMET_PYTHON names no Python that has it")
    onnx.save(recent(m), out + ".pre")
    np.savez(out + ".npz", **{m.input: x})
    r = subprocess.run([os.environ["AIMET_PYTHON"], "-c", AIMET, out + ".pre", out + ".npz", out], capture_output=True, text=True)
    os.remove(out + ".npz")
    if r.returncode: raise RuntimeError(r.stderr.strip()[-300:])


TOOLS = {"tenon": by_tenon, "ort-minmax": by_ort("MinMax"), "ort-entropy": by_ort("Entropy"), "ort-percentile": by_ort("Percentile"), "nncf": by_nncf, "aimet": by_aimet}


# ---- judging ----

def scores_of(path, m, x):
    import onnxruntime
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 3
    s = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    size = m.dims[0] or 500
    return np.concatenate([s.run(None, {m.input: x[i : i + size]})[0].reshape(size, -1) for i in range(0, len(x) // size * size, size)])


def divergence(want, got):
    """In nats, of scores that are logits, or probabilities where the float model's are."""
    shares = (want >= 0).all() and np.allclose(want.sum(1), 1, atol=1e-3)
    def log_softmax(s):
        s = np.log(np.maximum(s, 1e-6)) if shares else s
        s = s.astype(np.float64) - s.max(1, keepdims=True)
        return s - np.log(np.exp(s).sum(1, keepdims=True))
    p, q = log_softmax(want), log_softmax(got)
    return float((np.exp(p) * (p - q)).sum(1).mean())


def accuracy(a):
    table, best = {}, 0
    tools = ["tenon"] + [p for p in a.peers.split(",") if p]
    absent = {}
    print(f"{'model':14} {'float':>7}  " + "  ".join(f"{t:>16}" for t in tools), flush=True)
    for name in a.models:
        m = trained.Trained(name, a.folder)
        x, _ = m.draw(1000, CALIBRATE)
        test, labels = m.draw(a.judge, JUDGE)
        want = scores_of(m.path, m, test)
        right = 100 * float((want.argmax(1) == labels[: len(want)]).mean())
        row = {"float": right}
        for tool in tools:
            if tool in absent: continue
            out = os.path.join(a.folder, f"{name}.{tool}.onnx")
            try:
                start = time.time()
                with contextlib.redirect_stdout(io.StringIO()):
                    TOOLS[tool](m, x, out) if tool != "tenon" else by_tenon(m, x, out, a.to, a.options.split())
                seconds = time.time() - start
                got = scores_of(out, m, test)
            except ImportError as e:
                absent[tool] = f"not installed: {e}"
                continue
            except Exception as e:
                row[tool] = {"failed": f"{type(e).__name__}: {e}"[:200]}
                continue
            row[tool] = {"loss": right - 100 * float((got.argmax(1) == labels[: len(got)]).mean()), "kl": divergence(want, got),
                         "disagree": 100 * float((got.argmax(1) != want.argmax(1)).mean()), "seconds": seconds}
        table[name] = row
        say = lambda t: f"{row[t]['loss']:6.2f} {1000 * row[t]['kl']:9.3f}" if "loss" in row.get(t, {}) else "-"
        print(f"{name:14} {right:7.2f}  " + "  ".join(f"{say(t):>16}" for t in tools), flush=True)
    peers = [t for t in tools[1:] if t not in absent]
    judged = [r for r in table.values() if "loss" in r.get("tenon", {}) and any("loss" in r.get(p, {}) for p in peers)]
    lead = [r["tenon"]["loss"] - min(r[p]["loss"] for p in peers if "loss" in r.get(p, {})) for r in judged]
    kl = [r["tenon"]["kl"] <= min(r[p]["kl"] for p in peers if "loss" in r.get(p, {})) for r in judged]
    for tool, why in absent.items(): print(f"{tool}: {why}")
    for name, row in table.items():
        for tool, v in row.items():
            if isinstance(v, dict) and "failed" in v: print(f"{name}: {tool} failed: {v['failed']}")
    if lead: print(f"loss at most the best peer's on {sum(v <= 1e-9 for v in lead)} of {len(lead)}, at most {max(lead):.2f} points above it; divergence on {sum(kl)} of {len(kl)}")
    if a.output: json.dump(table, open(a.output, "w"), indent=1)
    return bool(lead) and max(lead) > 0.3


# ---- certificates ----

def metric_of(budget): return budget.split(">")[0].split("<")[0]


def measure(metric, want, got):
    """Of each sample, as metrics.def has it."""
    if metric == "agreement": return (want.argmax(1) == got.argmax(1)).astype(float)
    if metric == "rms": return np.sqrt(((got - want) ** 2).sum(1)) / np.sqrt((want ** 2).sum(1))
    raise SystemExit(f"no fresh samples are judged by {metric}")


def violated(metric, bound, v):
    """Whether new samples say, beyond their own chance (one in a thousand), that the bound does not hold."""
    mean, spread = v.mean(), v.std() / math.sqrt(len(v))
    if metric != "agreement": return mean - 3.1 * spread > bound
    misses, p = int((v == 0).sum()), 1 - bound
    if p <= 0: return misses > 0
    # The chance of so many misses or more, were the bound true.
    n, log_term, below = len(v), len(v) * math.log1p(-p), 0.0
    for k in range(misses):
        below += math.exp(log_term)
        log_term += math.log(n - k) - math.log(k + 1) + math.log(p) - math.log1p(-p)
    return 1 - below < 1e-3


def replays(m, out, data, folder):
    """The certificate as it is; with one byte of a weight changed; with one sample changed."""
    def verify(model, samples): return subprocess.run([PROGRAM, "verify", model, "--certificate", out + ".certificate.json", "--data", samples], capture_output=True, text=True).returncode
    if verify(out, data) != 0: return "does not replay"
    import onnx
    model = onnx.load(out)
    weight = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    raw = bytearray(weight.raw_data)
    raw[len(raw) // 2] ^= 1
    weight.raw_data = bytes(raw)
    onnx.save(model, os.path.join(folder, "changed.onnx"))
    if verify(os.path.join(folder, "changed.onnx"), data) == 0: return "replays with a weight changed"
    certificate = json.load(open(out + ".certificate.json"))
    x = np.load(data)[m.input].copy()
    told = 0
    for row in range(3):  # a sample that calibrates is none of those that certify; it moves others only by its hash
        y = x.copy()
        y.reshape(len(y), -1)[row, :] += 0.001
        np.savez(os.path.join(folder, "changed.npz"), **{m.input: y})
        told += verify(out, os.path.join(folder, "changed.npz")) != 0
    return None if certificate and told == 3 else "replays with a sample changed"


def certificates(a):
    count = bad = 0
    wrong = []
    for name in a.models:
        m = trained.Trained(name, a.folder)
        fresh, _ = m.draw(a.judge, 99)
        want = scores_of(m.path, m, fresh)
        for split in range(a.splits):
            x, _ = m.draw(1000 if split % 2 else 2000, 1000 + split)
            for budget in a.budgets.split(","):
                with tempfile.TemporaryDirectory() as folder:
                    out, data = os.path.join(folder, "q.onnx"), os.path.join(folder, "d.npz")
                    np.savez(data, **{m.input: x})
                    r = subprocess.run([PROGRAM, "quantize", m.path, "--data", data, "--budget", budget, "--allow-slower", "--seed", str(split), "-o", out], capture_output=True, text=True)
                    if r.returncode == 3: continue  # the bound does not meet the limit: no certificate
                    if r.returncode: wrong.append(f"{name} {split} {budget}: {r.stderr.strip()[-200:]}")
                    if r.returncode: continue
                    c = json.load(open(out + ".certificate.json"))
                    v = measure(metric_of(budget), want, scores_of(out, m, fresh))
                    count += 1
                    if violated(metric_of(budget), c["bound"], v):
                        bad += 1
                        print(f"{name} split {split} {budget}: bound {c['bound']:.5f}, new samples {v.mean():.5f}")
                    why = replays(m, out, data, folder) if split < 2 else None
                    if why: wrong.append(f"{name} split {split} {budget}: {why}")
        print(f"{name}: so far {count} certificates, {bad} violated", flush=True)
    for w in wrong: print(w)
    print(f"{count} certificates, {bad} violated ({100 * bad / max(count, 1):.1f} %), {len(wrong)} wrong")
    return bad > 0.05 * count or bool(wrong) or not count


# ---- migration ----

def uneven(m, out):
    """The model with the channels between two layers scaled by powers of two, where only ReLU, pools and a flattening are between; how many pairs."""
    import onnx
    model, rng = onnx.load(m.path), np.random.default_rng(0)
    held = {t.name: t for t in model.graph.initializer}
    users = lambda name: [n for n in model.graph.node if name in n.input]
    transposed = lambda n: any(a.name == "transB" and a.i for a in n.attribute)
    layer = lambda n: n.op_type in ("Conv", "Gemm", "MatMul") and len(n.input) > 1 and n.input[1] in held and len(users(n.input[1])) == 1
    def scale(name, axis, by):
        v = onnx.numpy_helper.to_array(held[name])
        by = np.repeat(by, v.shape[axis] // len(by))
        held[name].CopyFrom(onnx.numpy_helper.from_array((v * by.reshape([-1] + [1] * (v.ndim - 1 - axis))).astype(v.dtype), name))
    pairs = 0
    for first in [n for n in model.graph.node if layer(n)]:
        at, added, behind = first.output[0], [], None
        while len(users(at)) == 1 and not behind:
            n = users(at)[0]
            if layer(n) and n.input[0] == at: behind = n
            elif n.op_type == "Add" and any(i in held for i in n.input): added.append(next(i for i in n.input if i in held))
            elif n.op_type not in ("Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Flatten", "Reshape"): break
            at = n.output[0]
        if not behind or any(a.name == "group" and a.i > 1 for a in behind.attribute): continue
        weight = onnx.numpy_helper.to_array(held[first.input[1]])
        out_axis = 0 if first.op_type == "Conv" or transposed(first) else 1
        by = 2.0 ** rng.integers(-7, 8, weight.shape[out_axis])
        in_axis = 1 if behind.op_type == "Conv" or transposed(behind) else 0
        size = onnx.numpy_helper.to_array(held[behind.input[1]]).shape[in_axis]
        if size % len(by) or any(onnx.numpy_helper.to_array(held[a]).size != len(by) for a in added): continue
        scale(first.input[1], out_axis, by)
        for name in list(first.input[2:3]) + added: scale(name, onnx.numpy_helper.to_array(held[name]).shape.index(len(by)), by)
        scale(behind.input[1], in_axis, 1 / by)
        pairs += 1
    onnx.save(model, out)
    return pairs


def migration(a):
    wrong = 0
    print(f"{'model':14} {'pairs':>5} {'float':>7}  {'even':>16}  {'uneven':>16}  {'scale moved':>16}   points lost / disagreeing", flush=True)
    for name in a.models:
        m = trained.Trained(name, a.folder)
        x, _ = m.draw(1000, CALIBRATE)
        test, labels = m.draw(a.judge, JUDGE)
        want = scores_of(m.path, m, test)
        right = 100 * float((want.argmax(1) == labels[: len(want)]).mean())
        out, rows = os.path.join(a.folder, name + ".uneven.q.onnx"), []
        even, changed = m.path, os.path.join(a.folder, name + ".uneven.onnx")
        pairs = uneven(m, changed)
        if not pairs:
            print(f"{name:14} {0:5}   no two layers that only ReLU, pools and a flattening join", flush=True)
            continue
        if not np.array_equal(scores_of(changed, m, test), want): print(f"{name:14} another runtime's floats differ in the last places", flush=True)
        for path, more in ((even, ["--migrate", "none"]), (changed, ["--migrate", "none"]), (changed, [])):
            m.path = path
            by_tenon(m, x, out, "int8", more)
            got = scores_of(out, m, test)
            rows.append((right - 100 * float((got.argmax(1) == labels[: len(got)]).mean()), 100 * float((got.argmax(1) != want.argmax(1)).mean())))
        wrong += rows[2][0] > max(rows[0][0], 0) + 0.5
        print(f"{name:14} {pairs:5} {right:7.2f}  " + "  ".join(f"{l:7.2f} /{d:7.2f}" for l, d in rows), flush=True)
    return wrong > 0


# ---- calibration ----

def most_resident(pid):
    with open(f"/proc/{pid}/status") as f: return next(int(l.split()[1]) for l in f if l.startswith("VmHWM")) / 1024


def calibrate(model, data, folder):
    """(seconds, MiB): from the first sample that calibrates to the last, and resident at the most until then."""
    p = subprocess.Popen([PROGRAM, "quantize", model, "--data", data, "--allow-slower", "-o", os.path.join(folder, "q.onnx")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         text=True, env={**os.environ, "TENON_PROGRESS": "1"})
    first, lines, count = None, [], 0
    for line in p.stderr:
        lines.append(line)
        if not line.rstrip().endswith("calibrate"): continue
        last, count = time.time(), count + 1
        first = first or last
        if count % 64 == 1: resident = most_resident(p.pid)
    p.wait()
    if not first: raise SystemExit("".join(lines)[-500:])
    return (last - first) * count / max(count - 1, 1), resident


def calibration(a):
    """MODEL is a name of trained.py, or a file, whose samples are noise."""
    import onnx
    print(f"{'model':20} {'plain':>9} {'calibrate':>9} {'ratio':>6}   {'plain':>7} {'calibrate':>9}  MiB")
    worst = 0
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            data, n = os.path.join(folder, "d.npz"), a.samples * 5 // 2
            if os.path.exists(name):
                graph = onnx.load(name, load_external_data=False).graph
                made = {t.name for t in graph.initializer}
                rng, arrays = np.random.default_rng(0), {}
                for v in graph.input:
                    dims = [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
                    if v.name not in made: arrays[v.name] = rng.standard_normal([n] + dims[1:], np.float32) if v.type.tensor_type.elem_type == 1 else rng.integers(0, 1000, [n] + dims[1:])
                path = name
            else:
                m = trained.Trained(name, a.folder)
                path, arrays = m.path, {m.input: m.draw(n, CALIBRATE)[0]}
            np.savez(data, **arrays)
            np.savez(os.path.join(folder, "one.npz"), **{k: v[:1] for k, v in arrays.items()})
            arrays = None  # what this process holds counts for those that it starts
            ratios = []
            for turn in range(3):
                bench = subprocess.run([PROGRAM, "bench", path, "--inputs", os.path.join(folder, "one.npz"), "--seconds", str(a.seconds), "--json"], capture_output=True, text=True, check=True)
                plain = json.loads(bench.stdout)
                seconds, resident = calibrate(path, data, folder)
                each = plain["mean_ms"] / 1000 * a.samples
                ratios.append((seconds / each, each, seconds, plain["peak_rss_bytes"] / 2 ** 20, resident))
            ratio, each, seconds, base, resident = sorted(ratios)[1]
            worst = max(worst, ratio)
            print(f"{os.path.basename(name):20} {each:8.3f}s {seconds:8.3f}s {ratio:6.2f}   {base:7.1f} {resident:9.1f}  ({resident - base:+.1f})", flush=True)
    return worst > 1.5


def main():
    p = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    p.add_argument("what", choices=["accuracy", "certificates", "calibration", "migration"])
    p.add_argument("models", nargs="*")
    p.add_argument("--peers", default="ort-minmax,ort-entropy,ort-percentile,nncf,aimet")
    p.add_argument("--to", default="int8")
    p.add_argument("--options", default="", help="more options of tenon quantize")
    p.add_argument("--judge", type=int, default=10000, help="samples to judge with")
    p.add_argument("--splits", type=int, default=20)
    p.add_argument("--budgets", default="agreement>=98%,agreement>=99%,rms<=10%")
    p.add_argument("--samples", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=3, help="of plain runs")
    p.add_argument("--folder", default=os.path.join(ROOT, "build", "compress"))
    p.add_argument("-o", "--output")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    a.models = a.models or [m[0] for m in trained.MODELS]
    return {"accuracy": accuracy, "certificates": certificates, "calibration": calibration, "migration": migration}[a.what](a)


if __name__ == "__main__": sys.exit(main())
