#!/usr/bin/env python3
"""zoo.py -- networks beyond the eight: made by both PyTorch exporters, counted, and checked.

  make   writes each network with random weights four times: NAME.onnx (the TorchScript exporter), NAME.dyn.onnx (the same
         with free sizes), NAME.new.onnx (torch.export) and NAME.newdyn.onnx
  count  kernels after optimising beside what an engineer would write by hand (`expect`, derived in EXPECT below)
  check  `tenon run --target plan` beside ONNX Runtime: the largest difference over the largest value

Needs torch, torchvision, transformers, onnxscript (make), onnxruntime and numpy (check).

usage: bench/once/zoo.py make|count|check DIR [NAME...]     (TENON is the program, VARIANTS the suffixes)
"""
import json, os, subprocess, sys, tempfile

tenon = os.environ.get("TENON", "build/tenon")
VARIANTS = os.environ.get("VARIANTS", " .dyn .new .newdyn").split(" ")

# A kernel has one contraction, window, reduction, attention or recurrence; all that is element-wise or only moves elements
# belongs to one of its neighbours.  LN: a layer or RMS norm; SE: squeeze and excite, which is pool, fc, fc.
EXPECT = {
    "efficientnet_b0": (99, "stem, 16 blocks of expand (15), depthwise, SE, project, head, pool, fc: 1 + 15 + 16*5 + 3"),
    "convnext_tiny": (83, "stem, LN; 18 blocks of depthwise, LN, fc, fc; 3 of LN, conv; pool, LN, fc: 2 + 72 + 6 + 3"),
    "swin_t": (95, "patches, LN; 12 blocks of LN, QKV, attention, out, LN, fc, fc; 3 merges of LN, fc; LN, pool, fc: 2 + 84 + 6 + 3"),
    "inception_v3": (109, "94 convolutions, 13 pools, pool, fc"),
    "vgg16": (21, "13 convolutions, 5 pools, 3 fc; the pool of 7x7 to 7x7 is none"),
    "shufflenet_v2_x1_0": (59, "stem, pool; 3 first units of 5, 13 units of 3 convolutions; conv, pool, fc: 2 + 15 + 39 + 3"),
    "mobilenet_v3_large": (73, "stem; 15 blocks: 14 expand, 15 depthwise, 15 project, 8 SE of 3; conv, pool, fc, fc: 1 + 68 + 4"),
    "regnet_y_400mf": (103, "stem; 16 blocks of 3 convolutions and SE; 4 shortcuts; pool, fc: 1 + 96 + 4 + 2"),
    "resnext50_32x4d": (56, "53 convolutions, pool, pool, fc"),
    "googlenet": (72, "57 convolutions, 13 pools, pool, fc"),
    "mnasnet1_0": (54, "stem of 3, 16 blocks of 3, conv, pool, fc: 3 + 48 + 3"),
    "deeplabv3": (64, "ResNet-50: 53 convolutions, pool; branches: 4 convolutions, pool, conv; project, 2 convolutions, resize"),
    "unet": (27, "down: 4 of 2 convolutions, pool; 2 convolutions; up: 4 of transposed, 2 convolutions; conv: 12 + 2 + 12 + 1"),
    "ssdlite320": (123, "98 convolutions and fc, 8 pools; softmax, decoding; 3 classes of threshold, top-k; 3 concats; empty?; largest, offsets; 3 picks"),
    "fasterrcnn": (116, "79 convolutions and fc, 8 pools, 3 top-k; decoding, scores, valid?, 3 picks, empty?, largest, offsets, levels; 2 RoI aligns, 2 scatters; softmax, decoding, over threshold?, 3 picks, empty?, largest, offsets, 3 picks"),
    "whisper_encoder": (31, "2 convolutions; 4 layers of LN, QKV, attention, out, LN, fc, fc; LN: 2 + 28 + 1"),
    "whisper_decoder": (51, "the mask; 4 layers of LN, QKV, attention, out, LN, Q, KV, attention, out, LN, fc, fc; LN, logits: 1 + 48 + 2"),
    "llama": (36, "4 layers of RMS, QKV, attention with rotation, out, RMS, gate, up, down; RMS, logits; the angles; the mask: 32 + 2 + 2"),
    "distilbert": (44, "the mask; LN; 6 layers of QKV, attention, out, LN, fc, fc, LN: 1 + 1 + 42"),
    "t5_encoder": (30, "4 layers of RMS, QKV, attention, out, RMS, fc, fc; RMS; the positions' bias: 28 + 1 + 1"),
    "lstm_tagger": (4, "2 layers, fc, log-softmax; the embedding is read by the first"),
    "gru_tagger": (4, "2 layers, fc, log-softmax; the embedding is read by the first"),
    "wav2vec2": (41, "7 convolutions, norm; LN, fc; position conv, LN; 4 layers of 7; fc: 8 + 2 + 2 + 28 + 1"),
    "conformer": (64, "2 convolutions, fc; 4 blocks of LN, fc, fc, LN, QKV, attention, out, LN, conv, depthwise, conv, LN, fc, fc, LN; fc: 3 + 60 + 1"),
}


# ---- the networks: name -> (module, inputs, names of the inputs, free dimensions of each input) ----

def image(side=224, free=("batch",)):
    import torch
    dims = {0: "batch"} if len(free) == 1 else {0: "batch", 2: "height", 3: "width"}
    return (torch.randn(1, 3, side, side),), ["x"], [dims]


def vision(name, side=224):
    import torchvision.models as m
    extra = {"aux_logits": False, "init_weights": False} if name in ("inception_v3", "googlenet") else {}
    return (getattr(m, name)(weights=None, **extra),) + image(side)


def own(module):
    """The first of the outputs, so that every network has one named y."""
    import torch

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = module

        def forward(self, *x):
            y = self.m(*x)
            if isinstance(y, torch.Tensor):
                return y
            if hasattr(y, "logits"):
                return y.logits
            if hasattr(y, "last_hidden_state"):
                return y.last_hidden_state
            return y["out"] if isinstance(y, dict) else y[0]

    return First()


def deeplabv3():
    import torchvision.models.segmentation as s
    return (own(s.deeplabv3_resnet50(weights=None, weights_backbone=None, aux_loss=False)),) + image(128)


def unet():
    import torch
    from torch import nn

    def two(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            w = [16, 32, 64, 128, 256]
            self.down = nn.ModuleList([two(3 if i == 0 else w[i - 1], w[i]) for i in range(4)])
            self.mid = two(w[3], w[4])
            self.up = nn.ModuleList([nn.ConvTranspose2d(w[i + 1], w[i], 2, 2) for i in reversed(range(4))])
            self.dec = nn.ModuleList([two(2 * w[i], w[i]) for i in reversed(range(4))])
            self.last = nn.Conv2d(w[0], 2, 1)

        def forward(self, x):
            keep = []
            for d in self.down:
                x = d(x)
                keep.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = self.mid(x)
            for u, d in zip(self.up, self.dec):
                x = d(torch.cat([keep.pop(), u(x)], 1))
            return self.last(x)

    return (UNet(),) + image(128)


def detector(name):
    import torch, torchvision
    limits = {"score_thresh": 0.3, "detections_per_img": 20} if name.startswith("ssd") else {"box_score_thresh": 0.4, "rpn_post_nms_top_n_test": 50, "box_detections_per_img": 20}
    m = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=4, **limits)
    # Statistics that fit and heads that tell places apart: else all scores are equal, and which is first is anybody's guess.
    for b in m.modules():
        if isinstance(b, torch.nn.BatchNorm2d):
            b.momentum = None
    with torch.no_grad():
        m.backbone(torch.randn(4, 3, 320, 320))
        for n, p in m.named_parameters():
            if p.dim() > 1 and ("head" in n or "predictor" in n):
                p *= 2 if "cls" in n else 6 if "classification" in n else 1

    class Detect(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, x):
            y = self.m([x])[0]
            return y["boxes"], y["scores"], y["labels"]

    return Detect(), (torch.rand(3, 320, 320),), ["x"], [{}]


def whisper():
    from transformers import WhisperConfig, WhisperModel
    return WhisperModel(WhisperConfig(vocab_size=2000, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
                                      encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_source_positions=200, max_target_positions=64, num_mel_bins=80,
                                      pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1))


def whisper_encoder():
    import torch
    return own(whisper().encoder), (torch.randn(1, 80, 400),), ["x"], [{0: "batch"}]


def whisper_decoder():
    import torch
    m = whisper().decoder
    logits = torch.nn.Linear(384, 2000, bias=False)

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m, self.logits = m, logits

        def forward(self, tokens, mask, states):
            return self.logits(self.m(input_ids=tokens, attention_mask=mask, encoder_hidden_states=states, use_cache=False).last_hidden_state)

    ids, free = torch.randint(0, 2000, (1, 16)), {0: "batch", 1: "length"}
    return Decoder(), (ids, torch.ones_like(ids), torch.randn(1, 200, 384)), ["tokens", "mask", "states"], [free, free, {0: "batch"}]


def llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    m = LlamaForCausalLM(LlamaConfig(vocab_size=2000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=128))

    class Llama(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, tokens, mask):
            return self.m(input_ids=tokens, attention_mask=mask, use_cache=False).logits

    ids, free = torch.randint(0, 2000, (2, 24)), {0: "batch", 1: "length"}
    return Llama(), (ids, torch.ones_like(ids)), ["tokens", "mask"], [free, free]


def tokens(module, vocab=2000, mask=True):
    import torch
    ids = torch.randint(3, vocab, (2, 24))
    free = {0: "batch", 1: "length"}
    if not mask:
        return own(module), (ids,), ["tokens"], [free]
    return own(module), (ids, torch.ones_like(ids)), ["tokens", "mask"], [free, free]


def distilbert():
    from transformers import DistilBertConfig, DistilBertModel
    return tokens(DistilBertModel(DistilBertConfig(vocab_size=2000, dim=256, hidden_dim=1024, n_heads=4)))


def t5_encoder():
    from transformers import T5Config, T5EncoderModel
    return tokens(T5EncoderModel(T5Config(vocab_size=2000, d_model=256, d_kv=32, d_ff=1024, num_layers=4, num_heads=8)), mask=False)


def tagger(kind):
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(500, 64)
            self.rnn = getattr(nn, kind)(64, 96, num_layers=2, bidirectional=True, batch_first=True)
            self.fc = nn.Linear(192, 17)

        def forward(self, tokens):
            return torch.log_softmax(self.fc(self.rnn(self.embed(tokens))[0]), -1)

    return Tagger(), (torch.randint(0, 500, (2, 12)),), ["tokens"], [{0: "batch", 1: "length"}]


def wav2vec2():
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC
    m = Wav2Vec2ForCTC(Wav2Vec2Config(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8, conv_dim=(128,) * 7, vocab_size=32))
    return own(m), (torch.randn(1, 8000),), ["x"], [{0: "batch"}]


def conformer():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, d=144, heads=4):
            super().__init__()
            self.heads = heads
            ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            self.ff1, self.ff2, self.norm = ff(), ff(), nn.LayerNorm(d)
            self.att, self.q, self.k, self.v, self.o = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
            self.pre, self.pw1, self.pw2 = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
            self.dw, self.bn = nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d)

        def forward(self, x):
            x = x + 0.5 * self.ff1(x)
            b, t, d = x.shape
            y = self.att(x)
            q, k, v = (f(y).view(b, t, self.heads, d // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
            p = torch.softmax(q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5, -1)
            x = x + self.o((p @ v).transpose(1, 2).reshape(b, t, d))
            y = nn.functional.glu(self.pw1(self.pre(x).transpose(1, 2)), 1)
            x = x + self.pw2(nn.functional.silu(self.bn(self.dw(y)))).transpose(1, 2)
            return self.norm(x + 0.5 * self.ff2(x))

    class Conformer(nn.Module):
        def __init__(self, d=144):
            super().__init__()
            self.sub = nn.Sequential(nn.Conv2d(1, d, 3, 2), nn.ReLU(), nn.Conv2d(d, d, 3, 2), nn.ReLU())
            self.fc = nn.Linear(d * 19, d)
            self.block = nn.ModuleList([Block() for _ in range(4)])
            self.out = nn.Linear(d, 64)

        def forward(self, x):
            y = self.sub(x.unsqueeze(1))
            b, c, t, f = y.shape
            y = self.fc(y.transpose(1, 2).reshape(b, t, c * f))
            for m in self.block:
                y = m(y)
            return self.out(y)

    return Conformer(), (torch.randn(1, 99, 80),), ["x"], [{0: "batch", 1: "length"}]


SIDE = {"inception_v3": 299, "vgg16": 224, "swin_t": 224}
MAKE = {f.__name__: f for f in (deeplabv3, unet, whisper_encoder, whisper_decoder, llama, distilbert, t5_encoder, wav2vec2, conformer)}
MAKE |= {"ssdlite320": lambda: detector("ssdlite320_mobilenet_v3_large"), "fasterrcnn": lambda: detector("fasterrcnn_mobilenet_v3_large_320_fpn")}
MAKE |= {"lstm_tagger": lambda: tagger("LSTM"), "gru_tagger": lambda: tagger("GRU")}


def build(name):
    import torch
    torch.manual_seed(1)
    module, inputs, names, free = MAKE[name]() if name in MAKE else vision(name, SIDE.get(name, 224))
    for m in module.modules():  # statistics of their own, so that folding them shows
        if isinstance(m, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)) and m.num_batches_tracked == 0:
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    for p in module.parameters():  # biases of 0 and scales of 1 would be optimised away
        if p.numel() > 1 and p.min() == p.max():
            p.data += torch.randn_like(p) * 0.05
    return module.eval(), inputs, names, free


def export(name, variant, folder):
    import torch
    module, inputs, names, free = build(name)
    path = os.path.join(folder, name + variant + ".onnx")
    outs = ["boxes", "scores", "labels"] if name in ("ssdlite320", "fasterrcnn") else ["y"]
    dynamic = variant.endswith("dyn")
    with torch.no_grad():
        if "new" in variant:
            shapes = None
            if dynamic:  # inputs that share a name share a size
                shapes = tuple({k: torch.export.Dim.DYNAMIC for k in f} for f in free)
                # a size of 1 would be taken for a constant
                inputs = tuple(torch.cat([x] * 2) if f.get(0) == "batch" and x.shape[0] == 1 else x for x, f in zip(inputs, free))
            shapes = {"x": shapes} if dynamic and type(module).__name__ == "First" else shapes
            torch.onnx.export(module, inputs, path, dynamo=True, input_names=names, output_names=outs, dynamic_shapes=shapes, external_data=True, verbose=False)
        else:
            axes = {n: f for n, f in zip(names, free) if f} if dynamic else None
            torch.onnx.export(module, inputs, path, dynamo=False, input_names=names, output_names=outs, dynamic_axes=axes, opset_version=18)


def make(folder, names):
    os.makedirs(folder, exist_ok=True)
    for name in names:
        for variant in VARIANTS:
            if os.path.exists(os.path.join(folder, name + variant + ".onnx")):
                continue
            try:
                export(name, variant, folder)
                print(f"{name}{variant}: made", flush=True)
            except Exception as e:  # an exporter that cannot is a fact to report, not ours to mend
                print(f"{name}{variant}: {type(e).__name__}: {str(e).splitlines()[0][:200] if str(e) else ''}", flush=True)


# ---- counting ----

def kernels(path):
    r = subprocess.run([tenon, "inspect", "--optimised", "--json", path], capture_output=True, text=True)
    return json.loads(r.stdout)["kernels"] if r.returncode == 0 else r.stderr.strip().splitlines()[-1:]


def count(folder, names):
    print("| network | expect | " + " | ".join(v or "plain" for v in VARIANTS) + " | |\n|---|---|" + "---|" * (len(VARIANTS) + 1))
    for name in names:
        got = []
        for variant in VARIANTS:
            path = os.path.join(folder, name + variant + ".onnx")
            got.append(kernels(path) if os.path.exists(path) else None)
        print(f"| {name} | {EXPECT[name][0]} | " + " | ".join("-" if k is None else str(k) for k in got) + f" | {EXPECT[name][1]} |", flush=True)


# ---- checking ----

def feeds(session, rng):
    import numpy as np
    size = {"batch": 2, "length": 20}
    feed = {}
    for i in session.get_inputs():
        dims = [d if isinstance(d, int) else size.get(d, 2 if k == 0 else 20) for k, d in enumerate(i.shape)]
        if i.name == "mask":
            feed[i.name] = np.ones(dims, np.int64)
            feed[i.name][-1, -3:] = 0
        elif "int" in i.type:
            feed[i.name] = rng.integers(3, 400, dims)
        else:
            feed[i.name] = (rng.random(dims) if len(dims) == 3 and dims[0] == 3 else rng.standard_normal(dims)).astype(np.float32)
    return feed


def differ(path):
    import numpy as np, onnxruntime as ort
    ort.set_default_logger_severity(3)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = feeds(session, np.random.default_rng(3))
    want = session.run(None, feed)
    with tempfile.TemporaryDirectory() as tmp:
        np.savez(tmp + "/in.npz", **feed)
        r = subprocess.run([tenon, "run", "--target", "plan", path, "--inputs", tmp + "/in.npz", "--output", tmp + "/out.npz"], capture_output=True, text=True)
        if r.returncode:
            return "failed: " + " ".join(r.stderr.strip().splitlines()[:2])
        got = dict(np.load(tmp + "/out.npz"))
    worst = 0.0
    for o, w in zip(session.get_outputs(), want):
        g = got[o.name]
        if g.shape != w.shape:
            return f"{o.name}: {g.shape} for {w.shape}"
        if w.size:
            worst = max(worst, float(np.abs(g.astype(np.float64) - w).max() / max(np.abs(w.astype(np.float64)).max(), 1e-30)))
    return worst


def check(folder, names):
    wrong = 0
    for name in names:
        for variant in VARIANTS:
            path = os.path.join(folder, name + variant + ".onnx")
            if not os.path.exists(path):
                continue
            d = differ(path)
            bad = not isinstance(d, float) or not d <= 1e-4
            wrong += bad
            print(f"{name + variant:28} {d if isinstance(d, str) else f'{d:.1e}'}{'   WRONG' if bad else ''}", flush=True)
    sys.exit(1 if wrong else 0)


def main():
    todo = {"make": make, "count": count, "check": check}
    if len(sys.argv) < 3 or sys.argv[1] not in todo:
        sys.exit(__doc__)
    names = sys.argv[3:] or list(EXPECT)
    unknown = [n for n in names if n not in EXPECT]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(EXPECT)}")
    todo[sys.argv[1]](sys.argv[2], names)


main()
