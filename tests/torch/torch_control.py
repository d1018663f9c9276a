#!/usr/bin/env python3
"""torch_control.py TENON [--record ARCHIVE] [NAME...] -- control flow of torch.export, symbolic sizes and recurrent layers against PyTorch itself.

Needs PyTorch and numpy, so it is not part of `make test`.  Each module is exported (and traced, where it has no control flow), run by
TENON, interpreted and compiled, and compared in shape and value.  --record writes the programs and PyTorch's results, for
tests/formats/recorded.py.
"""
import os, subprocess, sys, tempfile, warnings

import numpy as np
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (self.l(x), x + 1), lambda x: (x * 2, x - 1), (x,))


class Nested(nn.Module):
    def forward(self, x):
        def inner(x):
            return torch.cond(x.max() > 1, lambda x: x + 1, lambda x: x * x, (x,))
        return torch.cond(x.sum() > 0, inner, lambda x: -x, (x,))


class While(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, self.l(x) * 0.5), (torch.tensor(0), x))


class Halve(nn.Module):  # as long as the data says
    def forward(self, x):
        return while_loop(lambda n, x: x.abs().sum() > 0.1, lambda n, x: (n + 1, x * 0.5), (torch.zeros(1), x))


class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, h, x):
        def step(h, x):
            h = torch.tanh(h @ self.w + x)
            return h, h * 2
        return scan(step, h, x, dim=0)


class ScanBack(nn.Module):
    def forward(self, h, x):
        return scan(lambda h, x: (h + x, h * x), h, x, dim=1, reverse=True)


class Split(nn.Module):  # into parts of symbolic sizes
    def forward(self, x, y):
        a, b = torch.split(torch.cat([x, y]), [x.shape[0], y.shape[0]])
        return a.sum(0), b * 2


class Lstm(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.l = nn.LSTM(4, 6, proj_size=3, **options)

    def forward(self, x):
        y, (h, c) = self.l(x)
        return y, h, c


N, M = torch.export.Dim("n", min=2, max=64), torch.export.Dim("m", min=2, max=64)
CASES = {  # module, inputs, dynamic shapes, also traced
    "cond": (Cond(), (torch.ones(3, 4),), None, False),
    "cond_else": (Cond(), (-torch.ones(3, 4),), None, False),
    "nested": (Nested(), (torch.ones(3) * 2,), None, False),
    "nested_else": (Nested(), (torch.ones(3),), None, False),
    "while": (While(), (torch.randn(3, 4),), None, False),
    "halve": (Halve(), (torch.randn(3, 4),), None, False),
    "scan": (Scan(), (torch.randn(3, 4), torch.randn(5, 3, 4)), None, False),
    "scan_back": (ScanBack(), (torch.randn(3, 4), torch.randn(3, 5, 4)), None, False),
    "split": (Split(), (torch.randn(7, 2), torch.randn(4, 2)), {"x": {0: N}, "y": {0: M}}, False),
    "lstm_projected": (Lstm(), (torch.randn(5, 2, 4),), None, True),
    "lstm_both_ways": (Lstm(num_layers=2, bidirectional=True, batch_first=True), (torch.randn(2, 5, 4),), None, True),
    "lstm_no_bias": (Lstm(bias=False), (torch.randn(5, 4),), None, True),
}


def run(tenon, path, inputs, target, folder):
    args = []
    for i, v in enumerate(inputs):
        np.save(f"{folder}/{i}.npy", v.numpy())
        args += ["--input", f"{i}={folder}/{i}.npy"]
    p = subprocess.run([tenon, "run", path, *args, "--target", target, "-o", f"{folder}/out.npz"], capture_output=True,
                       text=True)
    if p.returncode: return p.stderr.strip(), None
    got = np.load(f"{folder}/out.npz")
    return None, [got[name] for name in got.files]


def fault(got, want):
    if len(got) != len(want): return f"{len(got)} results, not {len(want)}"
    for i, (a, b) in enumerate(zip(got, want)):
        if a.shape != b.shape: return f"result {i} is {a.shape}, not {b.shape}"
        if not np.allclose(a, b, 1e-4, 1e-5): return f"result {i} has other values"
    return None


def check(tenon, name, folder, recorder):
    module, inputs, dynamic, traced = CASES[name]
    module.eval()
    want = [w.numpy() for w in torch.utils._pytree.tree_leaves(module(*inputs))]
    path = os.path.join(folder, "m.pt2")
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=dynamic, strict=True), path)
    paths = [path]
    if traced:
        paths.append(os.path.join(folder, "m.pt"))
        torch.jit.trace(module, inputs, check_trace=False).save(paths[-1])
    bad = 0
    for path in paths:
        if recorder: recorder.add(name, open(path, "rb").read(), os.path.splitext(path)[1], [v.numpy() for v in inputs], want, (1e-5, 1e-4, 0))
        for target in ("interp", "cpu"):
            message, got = run(tenon, path, inputs, target, folder)
            message = message or fault(got, want)
            if message: print(f"{name} ({os.path.basename(path)}, {target}): {message}")
            bad += message is not None
    return 2 * len(paths) - bad, bad


def main():
    good, bad, args = 0, 0, sys.argv[2:]
    archive = args[1] if args[:1] == ["--record"] else None
    if archive:
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
        import recorded
    recorder = recorded.Recorder() if archive else None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name in (args[2:] if archive else args) or CASES:
            g, b = check(sys.argv[1], name, folder, recorder)
            good, bad = good + g, bad + b
    if archive: recorder.save(archive)
    print(f"{good} passed, {bad} failed")
    return bad > 0


sys.exit(main())
