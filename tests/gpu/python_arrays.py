#!/usr/bin/env python3
"""python_arrays.py -- arrays of PyTorch, CuPy and JAX on a GPU: whose memory is used, results, streams, torch.compile.

Needs an NVIDIA GPU and a library (TENON_LIBRARY, or build/libtenon.so).  A package that is not there is skipped and said.  The last
line is `N passed, N failed`.
"""
import os, sys, time, traceback, warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.environ.get("TENON_PYTHON") or os.path.join(ROOT, "python"))

import numpy as np
import tenon

# Two kernels and a result under another shape; sums of the same order on both machines.
MODEL = b"""graph(%x: f32[n, 64], %y: f32[n, 64]) { %a = add(%x, %y) %s = softmax(%a) axis=1 %k = const i64[2] {-1, 32}
%v = reshape(%s, %k) %b = mul(%a, %a) return sum = %a, soft = %s, view = %v, square = %b }"""
GATHER = b"graph(%x: f32[8, 4], %i: i64[n]) { %g = gather(%x, %i) axis=0 %y = add(%g, %g) return y = %y }"


def package(name):
    try:
        return __import__(name)
    except Exception as error:
        print(f"skip {name}: {error}")
        return None


torch = package("torch")
cupy = package("cupy")


def want(x, y):
    a = x + y
    e = np.exp(a - a.max(1, keepdims=True))
    s = e / e.sum(1, keepdims=True)
    return a, s, s.reshape(-1, 32), a * a


def near(got, right):
    return all(g.shape == w.shape and np.allclose(g, w, rtol=1e-5, atol=1e-6) for g, w in zip(got, right))


def numbers(n, seed=0):
    r = np.random.default_rng(seed)
    return r.standard_normal((n, 64), np.float32), r.standard_normal((n, 64), np.float32)


class Seen:
    """Addresses and streams that go to the C interface; no plan is kept, so that all calls are seen."""

    def __init__(self, model):
        self.session, self.calls = model.session(), []
        self.session._keep_plan = lambda *_unused: None
        launch = self.session._launch

        def wrapped():
            s = self.session
            self.calls.append(([(t.data, t.memory) for t in s._in_list], [(t.data, t.memory) for t in s._out_list], s._options.stream))
            launch()

        self.session._launch = wrapped


# ---- the tests ----


def torch_memory_is_the_callers():
    seen, (x, y) = Seen(tenon.compile(MODEL, target="cuda")), numbers(5)
    tx, ty = torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda")
    for _ in range(2):
        made = seen.session(tx, ty)
    ins, outs, stream = seen.calls[-1]
    assert ins == [(tx.data_ptr(), 2), (ty.data_ptr(), 2)], ins
    assert outs[0] == (made[0].data_ptr(), 2) and outs[3] == (made[3].data_ptr(), 2), outs
    assert all(t.is_cuda for t in made) and stream == (torch.cuda.current_stream().cuda_stream or 1)
    assert near([t.cpu().numpy() for t in made], want(x, y))
    room = [torch.empty_like(t) for t in made]
    assert seen.session(tx, ty, out=room)[0] is room[0]
    assert near([t.cpu().numpy() for t in room], want(x, y))


def torch_any_pointer():
    """New memory at every call, memory that begins anywhere, and other sizes: one graph for each size."""
    m, held = tenon.compile(MODEL, target="cuda"), []
    for i in range(40):
        n = 3 + i % 4
        x, y = numbers(n, i)
        off = i % 3
        flat = torch.zeros(n * 64 + 8, device="cuda")
        tx = flat[off:off + n * 64].view(n, 64)
        tx.copy_(torch.tensor(x))
        ty = torch.tensor(y, device="cuda")
        made = m(tx, ty)
        held.append((made, want(x, y)))
    for made, right in held:
        assert near([t.cpu().numpy() for t in made], right)


def torch_mixed():
    m, (x, y) = tenon.compile(MODEL, target="cuda"), numbers(7)
    made = m(torch.tensor(x, device="cuda"), torch.tensor(y))
    assert all(t.is_cuda for t in made) and near([t.cpu().numpy() for t in made], want(x, y))
    made = m(torch.tensor(x), torch.tensor(y))
    assert not any(t.is_cuda for t in made) and near([t.numpy() for t in made], want(x, y))
    room = [torch.empty(7, 64), torch.empty(7, 64, device="cuda"), torch.empty(14, 32), torch.empty(7, 64, device="cuda")]
    m(torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda"), out=room)
    assert near([t.cpu().numpy() for t in room], want(x, y))
    made = m(torch.tensor(x, device="cuda").t().contiguous().t(), torch.tensor(y, device="cuda"))  # other strides
    assert near([t.cpu().numpy() for t in made], want(x, y))


def torch_stream_is_respected():
    """Long work before a call, in the same stream, makes its input; what follows in the stream reads its output."""
    m = tenon.compile(MODEL, target="cuda")
    x, y = numbers(256)
    tx, ty, big = torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda"), torch.randn(4096, 4096, device="cuda")
    m(tx, ty), m(tx, ty)
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(tx)
            for _ in range(40):
                big = (big @ big).clamp(-1, 1)
            late.copy_(tx)
            begin = time.perf_counter()
            made = m(late, ty)
            issued = time.perf_counter() - begin
            after = [t.clone() for t in made]
            done = stream.query()
            late.zero_()  # inputs may be changed by what follows in the stream
        stream.synchronize()
        assert near([t.cpu().numpy() for t in after], want(x, y))
        if done:
            print(f"  (the stream was idle already: {issued * 1e6:.0f} us)")


def torch_streams_in_turn():
    """One session, another stream in every call, outputs that all differ: its memory is used one call after another."""
    m, streams = tenon.compile(MODEL, target="cuda"), [torch.cuda.Stream() for _ in range(4)]
    rows = [numbers(512, i) for i in range(12)]
    given = [(torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda")) for x, y in rows]
    torch.cuda.synchronize()
    got = []
    for i, (tx, ty) in enumerate(given):
        with torch.cuda.stream(streams[i % 4]):
            got.append(m(tx, ty))
    torch.cuda.synchronize()
    for made, (x, y) in zip(got, rows):
        assert near([t.cpu().numpy() for t in made], want(x, y))


def torch_fault_is_told():
    s = tenon.compile(GATHER, target="cuda").session()
    x, good, bad = torch.randn(8, 4, device="cuda"), torch.tensor([1, 7], device="cuda"), torch.tensor([1, 99], device="cuda")
    for _ in range(3):
        assert torch.equal(s(x, good), 2 * x[good])
    told = False
    try:
        s(x, bad)
        s.wait()
    except tenon.TenonError as error:
        told = "99" in str(error) or "index" in str(error) or "range" in str(error)
        print(f"  ({error})")
    assert told
    assert torch.equal(s(x, good), 2 * x[good])
    s.wait()


def torch_calls_like_the_one_before():
    """The quick way of a call: other tensors of the same shapes, results of their own or in the caller's."""
    m = tenon.compile(MODEL, target="cuda")
    for i in range(20):
        x, y = numbers(64, i)
        tx, ty = torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda")
        made = m(tx, ty)
        room = [torch.full_like(t, float("nan")) for t in made]
        at = [t.data_ptr() for t in room]
        given = m(tx, ty, out=room)
        torch.cuda.synchronize()
        assert [t.data_ptr() for t in given] == at
        for got in (made, given):
            assert near([t.cpu().numpy() for t in got], want(x, y))


def torch_compile():
    import tenon.torch_backend  # noqa: F401
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 64, 10))
    net = net.cuda().eval()
    fast = torch.compile(net, backend="tenon")
    with warnings.catch_warnings(record=True) as said, torch.no_grad():
        warnings.simplefilter("always")
        for n in (2, 2, 5):
            x = torch.randn(n, 3, 8, 8, device="cuda")
            got, right = fast(x), net(x)
            assert got.is_cuda and torch.allclose(got, right, rtol=1e-3, atol=1e-3), (got - right).abs().max()
    assert not [w for w in said if "left to PyTorch" in str(w.message)], [str(w.message) for w in said]
    table = torch.nn.Sequential(torch.nn.Embedding(5000, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)).cuda().eval()
    fast = torch.compile(table, backend="tenon")
    i = torch.randint(0, 5000, (4, 9), device="cuda")
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(fast(i), table(i), rtol=1e-3, atol=1e-3)


def torch_tiles():
    """Kernels whose arguments are descriptions of tensors, made anew for every address."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(512, 768), torch.nn.ReLU(), torch.nn.Linear(768, 512)).cuda().bfloat16().eval()
    m = tenon.compile(net, torch.zeros(256, 512, device="cuda", dtype=torch.bfloat16), target="cuda")
    held = []
    with torch.no_grad():
        for i in range(12):
            x = torch.randn(256, 512, device="cuda").bfloat16()
            held.append((x, m(x), net(x)))
    for x, got, right in held:
        assert got.dtype == torch.bfloat16 and torch.allclose(got.float(), right.float(), rtol=3e-2, atol=3e-2)


def torch_module():
    net = torch.nn.Linear(16, 4).cuda()
    m = tenon.compile(net, torch.zeros(3, 16, device="cuda"), target="cuda")
    x = torch.randn(3, 16, device="cuda")
    y = m(x)
    assert y.is_cuda and torch.allclose(y, net(x), rtol=1e-3, atol=1e-3)


def cupy_arrays():
    seen, (x, y) = Seen(tenon.compile(MODEL, target="cuda")), numbers(9)
    cx, cy = cupy.asarray(x), cupy.asarray(y)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(3):
            made = seen.session(cx, cy)
        after = [a + 0 for a in made]
    stream.synchronize()
    ins, outs, used = seen.calls[-1]
    assert ins == [(cx.data.ptr, 2), (cy.data.ptr, 2)] and outs[0] == (made[0].data.ptr, 2) and used == stream.ptr
    assert all(isinstance(a, cupy.ndarray) for a in made) and near([a.get() for a in after], want(x, y))

    class Bare:  # the older interface alone
        def __init__(self, a):
            self.keep, self.shape, self.__cuda_array_interface__ = a, a.shape, a.__cuda_array_interface__

    cupy.cuda.Device().synchronize()
    made = seen.session(Bare(cx), Bare(cy))
    assert all(isinstance(a, np.ndarray) for a in made) and near(made, want(x, y))
    assert seen.calls[-1][0] == ins


def jax_arrays():
    jax = package("jax")
    if jax is None or not any(d.platform == "gpu" for d in jax.devices()):
        print("  (JAX has no GPU here)")
        return
    seen, (x, y) = Seen(tenon.compile(MODEL, target="cuda")), numbers(11)
    jx, jy = jax.numpy.asarray(x), jax.numpy.asarray(y)
    for _ in range(3):
        made = seen.session(jx, jy)
    ins, outs, _ = seen.calls[-1]
    assert ins == [(jx.unsafe_buffer_pointer(), 2), (jy.unsafe_buffer_pointer(), 2)], ins
    assert outs[0] == (made[0].unsafe_buffer_pointer(), 2)
    assert all(isinstance(a, jax.Array) for a in made) and near([np.asarray(a) for a in made], want(x, y))
    assert near([np.asarray(jax.numpy.sum(made[0]))], [np.sum(want(x, y)[0]).reshape(())])


def wrong_memory_is_refused():
    m = tenon.compile(MODEL, target="interp")
    try:
        m(torch.zeros(2, 64, device="cuda"), torch.zeros(2, 64, device="cuda"))
    except tenon.UnsupportedError as error:
        assert "target=\"cuda\"" in str(error), error
    else:
        assert False, "an array on a GPU was taken by the host"


TESTS = {
    "torch": [torch_memory_is_the_callers, torch_any_pointer, torch_mixed, torch_stream_is_respected, torch_streams_in_turn,
              torch_fault_is_told, wrong_memory_is_refused, torch_compile, torch_module, torch_tiles, torch_calls_like_the_one_before],
    "cupy": [cupy_arrays],
    "jax": [jax_arrays],
}


def main():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    passed = failed = 0
    for name, tests in TESTS.items():
        if name != "jax" and {"torch": torch, "cupy": cupy}[name] is None:
            continue
        for test in tests:
            if sys.argv[1:] and not any(a in test.__name__ for a in sys.argv[1:]):
                continue
            begin = time.perf_counter()
            try:
                test()
                passed += 1
                print(f"ok   {test.__name__} ({time.perf_counter() - begin:.1f} s)", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL {test.__name__}\n{traceback.format_exc(limit=-3)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
