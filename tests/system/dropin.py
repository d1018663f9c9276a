"""dropin.py -- packages that use ONNX Runtime, with it and with tenon.ort in its place: what dropin_test.py compares and
bench/once/dropin.py times.

A case is a package's own code on real input.  `load` imports the package anew under an engine, so that both can live in one process.
"""
import contextlib
import gc
import glob
import importlib
import importlib.util
import io
import logging
import os
import sys
import wave

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
ENGINES = ("onnxruntime", "tenon")
TEXTS = (("The quick brown fox", "jumps over the lazy dog", "0123456789"), ("Invoice 2024-117", "Total: 1,234.50 EUR", "due in 14 days"),
         ("make wheel", "pip install tenon", "python -m tenon run model.onnx", "equal results"))


@contextlib.contextmanager
def engine_in_place(engine, package):
    """Inside, `import onnxruntime` gives the engine, and the package is imported anew."""
    for name in [n for n in sys.modules if n.split(".")[0] in (package, "onnxruntime")]:
        del sys.modules[name]
    import tenon.ort
    if engine == "tenon":
        tenon.ort.install()
    try:
        yield
    finally:
        tenon.ort.uninstall()


def missing(*packages):
    return [p for p in packages if importlib.util.find_spec(p) is None]


# ---- magika: which kind of file ----


def magika_inputs():
    names = ["README.md", "Makefile", "LICENSE", "CMakeLists.txt", ".clang-format", "CMakePresets.json", "examples/digits/digits.onnx",
             "examples/digits/digits.npy", "src/view/viewer.css", "src/view/viewer.js", "tools/format.sh", "tools/docs.py", sys.executable]
    for pattern in ("src/base/*.c", "src/ops/*.def", "docs/*.md", "tests/*.py", "docs/**/*.svg", "docs/**/*.json"):
        names += sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))[:8]
    return [p for p in (os.path.join(ROOT, n) for n in names) if os.path.isfile(p)]


def magika_load():
    import magika
    return magika.Magika()


def magika_run(model, paths):
    return [(r.output.label, r.score) for r in map(model.identify_path, paths)]


def magika_batch(model, paths):
    return [(r.output.label, r.score) for r in model.identify_paths(paths)]


# ---- silero-vad: where speech is ----


def silero_inputs():
    import torch
    path = os.path.join(os.environ.get("TENON_DATA", ""), "models/silero_vad/test.wav")
    if os.path.isfile(path):
        with wave.open(path) as w:
            samples = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
            return torch.from_numpy(samples[:: max(1, w.getframerate() // 16000)].copy())
    t = np.arange(16000 * 20) / 16000  # without the recording: bursts of a voice-like buzz
    buzz = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 20)) * (np.sin(2 * np.pi * 0.4 * t) > 0)
    return torch.from_numpy((buzz / np.abs(buzz).max() * 0.5).astype(np.float32))


def silero_load():
    import silero_vad
    model = silero_vad.load_silero_vad(onnx=True)
    model.speech = silero_vad.get_speech_timestamps
    return model


def silero_run(model, wav):
    spans = model.speech(wav, model, sampling_rate=16000)
    model.reset_states()
    chances = [float(model(wav[i:i + 512], 16000)) for i in range(0, min(len(wav), 512 * 200) - 511, 512)]
    model.reset_states()
    return [((s["start"], s["end"]), 0.0) for s in spans] + [("chance", c) for c in chances]


# ---- rapidocr: text in pictures ----


def ocr_inputs():
    from PIL import Image, ImageDraw, ImageFont
    made = []
    for i, lines in enumerate(TEXTS):
        picture = Image.new("RGB", (480 + 160 * i, 120 + 60 * len(lines)), "white")
        draw = ImageDraw.Draw(picture)
        for k, line in enumerate(lines):
            draw.text((30 + 10 * i, 40 + 56 * k), line, fill=(10, 10, 60), font=ImageFont.load_default(26 + 4 * (k % 2)))
        made.append(np.asarray(picture)[:, :, ::-1].copy())
    return made


def ocr_load():
    import rapidocr
    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    engine = rapidocr.RapidOCR()
    engine(ocr_inputs()[0])  # it makes its sessions when they are first used
    return engine


def ocr_run(engine, pictures):
    out = []
    for picture in pictures:
        r = engine(picture)
        out += list(zip(r.txts or (), r.scores or ()))
    return out


def ocr1_load():
    import rapidocr_onnxruntime
    return rapidocr_onnxruntime.RapidOCR()


def ocr1_run(engine, pictures):
    out = []
    for picture in pictures:
        out += [(text, float(score)) for _, text, score in engine(picture)[0] or ()]
    return out


# name: (package, what it needs, inputs, load, run, how far scores may differ)
CASES = {
    "magika": ("magika", ("magika",), magika_inputs, magika_load, magika_run, 1e-4),
    # ONNX Runtime's own scores differ by 3e-4 between one file at a time and a batch
    "magika, a batch": ("magika", ("magika",), magika_inputs, magika_load, magika_batch, 1e-3),
    "silero-vad": ("silero_vad", ("silero_vad", "torch"), silero_inputs, silero_load, silero_run, 1e-3),
    "rapidocr": ("rapidocr", ("rapidocr", "PIL"), ocr_inputs, ocr_load, ocr_run, 1e-2),
    "rapidocr-onnxruntime": ("rapidocr_onnxruntime", ("rapidocr_onnxruntime", "PIL"), ocr_inputs, ocr1_load, ocr1_run, 1e-2),
}


def load(case, engine):
    """The package's object, made with an engine; what it prints on the way is kept back."""
    package, _, _, make, _, _ = CASES[case]
    before = sessions(engine)
    with engine_in_place(engine, package), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = make()
    if sessions(engine) == before:
        raise RuntimeError(f"{case}: no session of {engine} was made")
    return made


def sessions(engine):
    """How many of the engine's sessions live."""
    return sum(type(o).__name__ == "InferenceSession" and type(o).__module__.split(".")[0] == engine for o in gc.get_objects())


def lacking(case):
    return missing("onnxruntime", *CASES[case][1])
