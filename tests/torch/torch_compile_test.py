#!/usr/bin/env python3
"""torch_compile_test.py -- torch.compile(backend="tenon") and tenon.compile of torch modules, against PyTorch itself.

Needs PyTorch; the networks need torchvision and transformers besides.  What is not there is skipped and said.
"""
import importlib.util, os, sys, threading, unittest, warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "bench")]
if importlib.util.find_spec("torch") is None:
    print("torch_compile_test: skipped, PyTorch is not installed")
    sys.exit(0)

import torch
import torch.nn.functional as F

import tenon
import tenon.torch_backend as backend
import torch_zoo

WITHIN = 1e-4


def error(got, want):
    """The largest difference as a share of the largest element; infinite where type or shape differ."""
    if got.shape != want.shape or got.dtype != want.dtype: return float("inf")
    if not want.numel(): return 0.0
    return float((got.double() - want.double()).abs().max() / want.double().abs().max().clamp(min=1e-30))


class Counter(torch.nn.Module):
    """Has a state that every call changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(3))

    def forward(self, x):
        self.n.add_(x)
        return self.n * 2


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.b(F.gelu(self.n(self.a(x))))


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        backend.graphs.clear()
        backend._said.clear()

    def same(self, f, *args, within=1e-5, compiled=None, **named):
        """Compiled and not give the same; returns the compiled function."""
        g = compiled if compiled is not None else torch.compile(f, backend="tenon")
        with torch.no_grad():
            want, got = f(*args, **named), g(*args, **named)
        for w, y in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (want, got))):
            if isinstance(w, torch.Tensor):
                self.assertLessEqual(error(y, w), within)
                self.assertEqual(y.stride(), w.stride())
            else:
                self.assertEqual(y, w)
        return g


class Backend(Case):
    def test_shapes(self):
        """A size that changes is a symbol: two graphs at most, and no other program for a third size."""
        m = Small().eval()
        f = self.same(m, torch.randn(3, 16))
        for n in (5, 7, 64):
            self.same(m, torch.randn(n, 16), compiled=f)
        self.assertEqual([g.programs for g in backend.graphs], [1, 1])

    def test_marked_dynamic(self):
        def f(x, y):
            return torch.softmax(x @ y.mT, -1) @ y, x.reshape(-1, x.shape[1] * 16), x.shape[1] * 2

        g = None
        for n in (4, 9, 33):
            x = torch.randn(2, n, 16)
            torch._dynamo.mark_dynamic(x, 1)
            g = self.same(f, x, torch.randn(2, 6, 16), compiled=g)
        self.assertEqual([c.programs for c in backend.graphs], [1])

    def test_weights_change(self):
        m = Small().eval()
        x = torch.randn(3, 16)
        f = self.same(m, x)
        with torch.no_grad():
            m.b.bias.add_(1)
        self.same(m, x, compiled=f)
        m.load_state_dict(Small().state_dict())
        self.same(m, x, compiled=f)

    def test_layers_share_a_graph(self):
        layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3)).eval()
        x = torch.randn(2, 8)
        want = [m(x) for m in layers]
        with torch.no_grad():
            for m in layers: m.compile(backend="tenon")
            for _ in range(2):
                for m, w in zip(layers, want): self.assertLessEqual(error(m(x), w), 1e-5)

    def test_left_to_pytorch(self):
        def f(x):
            return torch.linalg.eigvalsh(F.relu(x) @ x.mT + 1) * 2 + 1

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            x = torch.randn(5, 5)
            g = self.same(f, x)
            self.same(f, x, compiled=g)
        texts = [str(w.message) for w in said if issubclass(w.category, tenon.TenonWarning)]
        self.assertEqual(sum("_linalg_eigh" in t for t in texts), 1, texts)
        self.assertEqual([g.programs for g in backend.graphs], [2])

    def test_refused_arguments(self):
        """An operator of the table with arguments that it does not take: the rest is compiled all the same."""
        def f(x):
            return (torch.sort(x.exp() + 1, 0)[0] * 2).half().cumsum(0, dtype=torch.float64) + torch.rand_like(x) * 0

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.same(f, torch.randn(5, 5))
        self.assertTrue(any("rand" in str(w.message) for w in said))

    def test_gradients(self):
        m, other = Small(), Small()
        other.load_state_dict(m.state_dict())
        x = torch.randn(3, 16)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.compile(m, backend="tenon")(x).sum().backward()
        self.assertTrue(any("gradients" in str(w.message) for w in said))
        other(x).sum().backward()
        for p, q in zip(m.parameters(), other.parameters()): self.assertLessEqual(error(p.grad, q.grad), 1e-5)

    def test_inference_mode(self):
        m, x = Small().eval(), torch.randn(3, 16)
        with torch.inference_mode():
            self.assertLessEqual(error(torch.compile(m, backend="tenon")(x), m(x)), 1e-5)

    def test_memory_order(self):
        m = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
        self.same(m, torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last))
        self.same(lambda x: (x.mT * 2, x[:, ::2] + 1, x.t()), torch.randn(4, 6))
        self.same(lambda x: x + 1, torch.randn(6, 4)[::2])
        self.same(lambda x: x + 1, torch.randn(1, 4).expand(3, 4))

    def test_results(self):
        self.same(lambda x, y: (x, x + y, None, 3, x.view(-1), y), torch.randn(2, 3), torch.randn(2, 3))
        self.same(lambda x: x.split(2, 1), torch.randn(3, 5))
        self.same(lambda x: (x.topk(2)[1], x.sort(0)[0], x > 0), torch.randn(3, 5))
        self.same(lambda x: x.sum(0), torch.randn(0, 5))

    def test_state(self):
        m, other = Counter(), Counter()
        f = torch.compile(m, backend="tenon")
        with torch.no_grad():
            for _ in range(3):
                x = torch.randn(3)
                self.assertLessEqual(error(f(x), other(x)), 1e-6)
        self.assertLessEqual(error(m.n, other.n), 1e-6)

    def test_argument_changed(self):
        def f(x):
            x.mul_(2)
            return x + 1

        x, y = torch.ones(4), torch.ones(4)
        with torch.no_grad():
            self.assertTrue(torch.equal(torch.compile(f, backend="tenon")(x), f(y)))
        self.assertTrue(torch.equal(x, y))

    def test_types(self):
        for t in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
            x = torch.arange(12).reshape(3, 4).to(t)
            self.same(lambda x: (x + 1, x.float().mean(), x.reshape(4, 3)), x, within=1e-2)

    def test_masks(self):
        q = torch.randn(1, 2, 8, 16)
        for mask in (torch.ones(8, 8).tril().bool(), torch.ones(8, 8).tril(-2).bool(), torch.randn(8, 8)):
            self.same(lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), q, mask)

    def test_tables_are_not_copied(self):
        m = torch.nn.Embedding(20000, 64).eval()
        self.same(m, torch.randint(0, 20000, (3, 5)))
        cut, = backend.graphs
        written = backend.torch_export.write(cut.gm, {0: m.weight})
        self.assertEqual(len(written.inputs), 2)

    def test_threads(self):
        m = Small().eval()
        f = self.same(m, torch.randn(3, 16))
        bad = []

        def work(seed):
            g = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for _ in range(50):
                    x = torch.randn(3, 16, generator=g)
                    if error(f(x), m(x)) > 1e-5: bad.append(seed)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        self.assertEqual(bad, [])

    def test_fork(self):
        m, x = Small().eval(), torch.randn(3, 16)
        f = self.same(m, x)
        with torch.no_grad():
            want = m(x)
            child = os.fork()
            if not child: os._exit(0 if error(f(x), want) <= 1e-5 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(m, x, compiled=f)

    def test_options(self):
        m, x = Small().eval(), torch.randn(3, 16)
        with torch.no_grad():
            y = torch.compile(m, backend="tenon", options={"threads": 1, "precision": "bf16"})(x)
            self.assertLessEqual(error(y, m(x)), 0.05)
            y = torch.compile(m, backend="tenon", options={"unroll_limit": 0, "disable": "merge-matmuls"})(x)
            self.assertLessEqual(error(y, m(x)), 1e-5)
            with self.assertRaises(Exception): torch.compile(m, backend="tenon", options={"no_such": 1})(x)


class Modules(Case):
    def test_module(self):
        m, x = Small().eval(), torch.randn(3, 16)
        c = tenon.compile(m, x)
        with torch.no_grad():
            self.assertLessEqual(error(c(x), m(x)), 1e-5)
            self.assertLessEqual(error(torch.from_numpy(c(x.numpy())), m(x)), 1e-5)
            self.assertLessEqual(error(tenon.compile(m, (x,))(x), m(x)), 1e-5)
            self.assertLessEqual(error(tenon.compile(m, {"x": x})(x=x), m(x)), 1e-5)

    def test_dynamic_shapes(self):
        m = Small().eval()
        c = tenon.compile(m, torch.randn(3, 16), dynamic_shapes={"x": {0: torch.export.Dim("batch", max=64)}})
        self.assertEqual(c.inputs[0].shape, ("batch", 16))
        with torch.no_grad():
            for n in (2, 9):
                x = torch.randn(n, 16)
                self.assertLessEqual(error(c(x), m(x)), 1e-5)

    def test_changes_state(self):
        with self.assertRaisesRegex(tenon.UnsupportedError, "state"): tenon.compile(Counter(), torch.zeros(3))


class Networks(Case):
    def network(self, name):
        for need in ("torchvision", "transformers"):
            if importlib.util.find_spec(need) is None: self.skipTest(f"{need} is not installed")
        m, inputs = torch_zoo.make(name)
        with torch.no_grad():
            want = torch_zoo.first(m(**inputs))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                got = torch_zoo.first(torch.compile(m, backend="tenon")(**inputs))
        self.assertEqual([str(w.message) for w in said if issubclass(w.category, tenon.TenonWarning)], [])
        self.assertEqual([g.programs for g in backend.graphs], [1])
        self.assertEqual(sum(torch._dynamo.utils.counters["graph_break"].values()), 0)
        self.assertLessEqual(error(got, want), WITHIN)


for _name in torch_zoo.NETWORKS:
    setattr(Networks, f"test_{_name}", lambda self, name=_name: self.network(name))

if __name__ == "__main__":
    unittest.main(verbosity=1)
