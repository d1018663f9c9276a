#!/usr/bin/env python3
"""floor.py [--precision f32|tf32|bf16] [--rounds N] [NAME...] -- layers that no tensor core multiplies, and recurrent ones, beside PyTorch on a GPU.

Recurrent layers, norms, reductions, scans, top-k, scatters and a U-Net block, each as a model of PyTorch: Tenon's session, PyTorch's eager kernels in a CUDA graph, and
(for models with weights) torch.compile in a CUDA graph, in turn on one clock (gpu_sides.py).  A row has milliseconds of a call, the ratio of PyTorch's best to Tenon's (above 1:
Tenon is faster), and both differences from PyTorch's f32 result.  The last line is the geometric mean of the ratios."""
import argparse, math, os, sys, tempfile
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_sides as sides  # noqa: E402

nn = torch.nn


class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *x): return self.fn(*x)


class First(nn.Module):
    """The output of a recurrent layer without its last states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x): return self.layer(x)[0]


class UNetBlock(nn.Module):
    """Two levels with group norms and a skip concatenation."""

    def __init__(self, width=64):
        super().__init__()
        conv = lambda a, b, s=1: nn.Conv2d(a, b, 3, s, 1)  # noqa: E731
        self.first, self.down, self.mid = conv(4, width), conv(width, 2 * width, 2), conv(2 * width, 2 * width)
        self.n1, self.n2, self.n3 = nn.GroupNorm(8, width), nn.GroupNorm(8, 2 * width), nn.GroupNorm(8, 3 * width)
        self.last = conv(3 * width, width)

    def forward(self, x):
        act = nn.functional.silu
        a = self.first(x)
        b = self.mid(act(self.n2(self.down(act(self.n1(a))))))
        b = nn.functional.interpolate(b, scale_factor=2.0, mode="nearest")
        return self.last(act(self.n3(torch.cat([a, b], 1))))


def recurrent(kind, time, batch, size, hidden, **options):
    return lambda: (First(getattr(nn, kind)(size, hidden, **options)), (torch.randn(time, batch, size),))


def layer(fn, *shapes, index=None):
    """index: the size that whole numbers of the second input are below."""
    def make():
        x = [torch.randn(*s) for s in shapes]
        if index: x[1] = torch.randint(0, index, shapes[1])
        return Fn(fn), tuple(x)
    return make


CASES = {
    "lstm 2x512, 64 steps": recurrent("LSTM", 64, 1, 256, 512, num_layers=2),
    "lstm 2x512, 64 steps, batch 32": recurrent("LSTM", 64, 32, 256, 512, num_layers=2),
    "bi-lstm 128, 32 steps": recurrent("LSTM", 32, 1, 128, 128, bidirectional=True),
    "gru 256, 64 steps": recurrent("GRU", 64, 1, 256, 256),
    "rnn 256, 64 steps": recurrent("RNN", 64, 1, 256, 256),
    "u-net block 64x64": lambda: (UNetBlock(), (torch.randn(1, 4, 64, 64),)),
    "group norm, 2 groups": lambda: (nn.GroupNorm(2, 32), (torch.randn(1, 32, 128, 128),)),
    "softmax 8x100000": layer(lambda x: torch.softmax(x, -1), (8, 100000)),
    "softmax over axis 1": layer(lambda x: torch.softmax(x, 1), (4, 256, 1000)),
    "sum of 4 M": layer(lambda x: x.sum(), (1 << 22,)),
    "max over axis 0": layer(lambda x: x.amax(0), (4096, 1000)),
    "argmax 32x50000": layer(lambda x: x.argmax(1), (32, 50000)),
    "layer norm 4096x768": lambda: (nn.LayerNorm(768), (torch.randn(4096, 768),)),
    "cumsum 64x65536": layer(lambda x: torch.cumsum(x, 1), (64, 65536)),
    "cumsum over axis 0": layer(lambda x: torch.cumsum(x, 0), (512, 1000)),
    "topk 50 of 64x4096": layer(lambda x: torch.topk(x, 50)[0], (64, 4096)),
    "topk 5 of 1000x100": layer(lambda x: torch.topk(x, 5)[0], (1000, 100)),
    "topk 10 of 4x50000": layer(lambda x: torch.topk(x, 10)[0], (4, 50000)),
    "scatter add 500 of 1000": layer(lambda x, i, u: x.scatter_add(0, i, u), (1000, 256), (500, 256), (500, 256), index=1000),
    "index put 500 rows": layer(lambda x, i, u: torch.index_put(x, (i,), u), (1000, 256), (500,), (500, 256), index=1000),
    "gather 500 rows": layer(lambda x, i: x[i], (1000, 256), (500,), index=1000),
}


def measure(name, precision, rounds):
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    model = model.eval()
    network = any(True for _ in model.parameters())
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = sides.exported(model, inputs, os.path.join(folder, "model"))
        model, inputs = model.cuda(), tuple(x.cuda() for x in inputs)
        want = sides.expected(model, inputs)
        ours = sides.Tenon(path, precision, inputs, again=False)
        mine = sides.far(ours.result(), want)
        cast, given = sides.ready(model, inputs, precision)
        ways = {"tenon": ours, "eager": sides.as_graph(lambda: cast(*given))}
        theirs = sides.far([y.float() for y in sides.flat(cast(*given))], want)
        if network and not isinstance(cast, First):  # torch.compile leaves recurrent layers to cuDNN
            compiled = torch.compile(cast)
            ways["compiled"] = sides.as_graph(lambda: compiled(*given))
        times = {k: v["median"] for k, v in sides.interleaved(ways, rounds).items()}
        seconds = ours.seconds["cold"]["first"]
        ours.close()
    best = min(t for k, t in times.items() if k != "tenon")
    others = " ".join(f"{times[k]:9.4f}" if k in times else "        -" for k in ("eager", "compiled"))
    print(f"{name:32} {times['tenon']:9.4f} {others} {best / times['tenon']:7.2f}   {mine:.1e} {theirs:.1e} {seconds:7.1f} s", flush=True)
    return best / times["tenon"]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--precision", default="f32", choices=["f32", "tf32", "bf16"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    print(f"{a.precision}, ms of a call{'':11} {'tenon':>9} {'eager':>9} {'compiled':>9} {'ratio':>7}   error   PyTorch's   first")
    ratios = []
    for name in CASES:
        if a.names and not any(n in name for n in a.names): continue
        try:
            ratios.append(measure(name, a.precision, a.rounds))
        except Exception as e:  # the others are measured all the same
            print(f"{name:32} failed: {str(e)[:300]}", flush=True)
    if ratios: print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} of {len(ratios)}, least {min(ratios):.2f}")


if __name__ == "__main__": main()
