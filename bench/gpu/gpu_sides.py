"""gpu_sides.py -- what gpu.py measures: networks of PyTorch, the same on both sides, PyTorch's ways to run them, Tenon's session, and one clock for all.

A side is a function that queues one call on the current stream, with its tensors on the GPU.  `burst` times calls that follow each other between two events of
the stream, so what is measured is the device's time, or the host's where it cannot queue as fast as the device works."""
import gc, os, statistics, sys, tempfile, time
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TENON_LIBRARY", os.path.join(ROOT, "build", "libtenon.so"))
sys.path.insert(0, os.environ.get("TENON_PYTHON") or os.path.join(ROOT, "python"))
import tenon  # noqa: E402

NETS = ["resnet50", "bert_base", "mobilenet_v2", "vit_b_16"]
MORE = ["regnet_y_8gf", "vgg16", "efficientnet_b0", "swin_t", "convnext_tiny", "densenet121", "gpt2", "llama", "qwen3", "clip_vision"]  # never tuned for
LENGTH = 128  # tokens


# ---- networks ----

class Bert(torch.nn.Module):
    """BERT whose outputs are a tuple."""

    def __init__(self):
        super().__init__()
        import transformers
        self.config = transformers.BertConfig()
        self.bert = transformers.BertModel(self.config)

    def forward(self, ids): return tuple(self.bert(ids, return_dict=False))


class Decoder(torch.nn.Module):
    """A language model of the transformers package that gives logits for all tokens, without a KV cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids): return self.model(ids, use_cache=False, return_dict=False)[0]


class ClipVision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import transformers
        self.model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig())

    def forward(self, pixels): return self.model(pixels, return_dict=False)[1]


def decoder(name):
    import transformers as t
    if name == "gpt2": return Decoder(t.GPT2LMHeadModel(t.GPT2Config()))
    if name == "llama":
        return Decoder(t.LlamaForCausalLM(t.LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=32,
                                                        num_key_value_heads=8)))
    return Decoder(t.Qwen3ForCausalLM(t.Qwen3Config(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=8, num_attention_heads=16,
                                                    num_key_value_heads=8, head_dim=128)))


# Vocabularies of networks that read tokens.
WORDS = {"bert_base": 30522, "gpt2": 50257, "llama": 32000, "qwen3": 151936}


def settle(model):
    """Random weights that a signal gets through: statistics of every normalisation as they are, no layer of zeros, means other than zero, and branches that add a
    part to what goes by them, as trained ones do. Without the last two every layer doubles a rounding, and outputs in bf16 are a tenth off whoever computes them."""
    import torchvision
    for m in model.modules():
        branch = {torchvision.models.resnet.Bottleneck: lambda m: m.bn3, torchvision.models.mobilenetv2.InvertedResidual: lambda m: m.conv[-1]}.get(type(m))
        if branch: torch.nn.init.constant_(branch(m).weight, 0.25)
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.momentum = None  # the mean of all that comes
            torch.nn.init.constant_(m.bias, 0.5)
        if isinstance(m, torch.nn.Linear) and not m.weight.abs().max(): torch.nn.init.normal_(m.weight, std=0.02)
    if any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules()):
        model.train()
        with torch.no_grad():
            for _ in range(4): model(torch.randn(16, 3, 224, 224, device=next(model.parameters()).device))
    return model.eval()


def network(name, device):
    """In f32, the same weights each time."""
    torch.manual_seed(0)
    with torch.device(device):
        if name == "bert_base": return Bert().eval()
        if name in WORDS: return decoder(name).eval()
        if name == "clip_vision": return ClipVision().eval()
        import torchvision
        return settle(getattr(torchvision.models, name)(weights=None))


def inputs_of(name, batch, device, length=LENGTH):
    torch.manual_seed(1)
    if name in WORDS: return (torch.randint(0, WORDS[name], (batch, length)).to(device),)
    return (torch.randn(batch, 3, 224, 224).to(device),)


def flat(y): return list(y) if isinstance(y, (tuple, list)) else [y]


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def expected(model, inputs):
    """What is right: f32 without tf32."""
    set_precision("f32")
    with torch.no_grad(): return [y.float() for y in flat(model(*inputs))]


def exported(model, inputs, path, via="pt2", dims=None):
    """The model as a file for Tenon."""
    cpu = [x.cpu() for x in inputs]
    model = model.cpu()
    if via == "onnx":
        path += ".onnx"
        torch.onnx.export(model, tuple(cpu), path, dynamo=True, dynamic_shapes=dims)
    else:
        path += ".pt2"
        with torch.no_grad(): program = torch.export.export(model, tuple(cpu), dynamic_shapes=dims)
        program._example_inputs = None  # nobody needs them, and they may be large
        torch.export.save(program, path)
    return path


def far(got, want):
    """The largest of the outputs' differences: norm by norm."""
    worst = 0.0
    for g, w in zip(flat(got), flat(want), strict=True):
        g, w = g.detach().double().cpu(), w.detach().double().cpu()
        if g.shape != w.shape: return float("inf")
        d = float((g - w).norm() / max(float(w.norm()), 1e-30))
        worst = max(worst, d) if d == d else float("inf")
    return worst


# ---- the clock ----

def burst(fn, seconds=0.04, least=3):
    """Milliseconds of a call, each of several pieces of calls back to back."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(2): fn()
    torch.cuda.synchronize()
    one = max((time.perf_counter() - start) / 2, 1e-6)
    pieces = max(least, 5)
    count = max(1, int(seconds / pieces / one))
    times = []
    for _ in range(pieces):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(count): fn()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / count)
    return statistics.median(times)


def interleaved(sides, rounds, seconds=0.04):
    """Side to its times: in every round each runs for a while, and none is always the first."""
    names, times = list(sides), {name: [] for name in sides}
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]: times[name].append(burst(sides[name], seconds))
    return {name: {"median": statistics.median(t), "least": min(t), "most": max(t)} for name, t in times.items()}


def free_bytes():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def forget():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


# ---- Tenon ----

class Tenon:
    """A compiled model, bound to tensors.  `seconds`: to compile, and until the first result, with an empty cache and with what that left.  `bytes` of constants, of what
    lies between kernels and of results, and `held` of the GPU: those, rounded up, and code and graphs.  `cache`: a folder with what others compiled, in place of an empty one."""

    def __init__(self, path, precision, inputs, again=True, cache=None, **options):
        self.seconds, self.model, self.session = {}, None, None
        self.folder = tempfile.TemporaryDirectory()
        os.environ["TENON_CACHE"] = cache or self.folder.name
        for kind in ["cold", "cached"] if again else ["cold"]:
            self.model = self.session = self.out = self.into = None
            forget()
            before, start = free_bytes(), time.perf_counter()
            self.model = tenon.compile(path, target="cuda", precision=precision, progress=False, **options)
            compiled = time.perf_counter() - start
            self.session = self.model.session()
            self.bind(inputs)
            torch.cuda.synchronize()
            self.seconds[kind] = {"compile": compiled, "first": time.perf_counter() - start}
        self.held = before - free_bytes()
        self.bytes = self.session.device_bytes + sum(t.numel() * t.element_size() for t in self.out)

    def bind(self, inputs):
        self.inputs, self.on_device = inputs, True
        try: self.out = flat(self.session(*inputs))
        except tenon.TenonError as e:  # a library that takes arrays of the host alone
            if "cuda" not in str(e).lower() and "device" not in str(e).lower(): raise
            self.inputs, self.on_device = tuple(x.cpu() for x in inputs), False
            self.out = flat(self.session(*self.inputs))
        self.into = self.out if len(self.out) > 1 else self.out[0]

    def __call__(self): self.session(*self.inputs, out=self.into)

    def result(self, inputs=None):
        """Outputs of a call, as they are until the next."""
        if inputs is None: self()
        y = self.out if inputs is None else flat(self.session(*inputs))
        torch.cuda.synchronize()
        return [t.clone() for t in y]

    def close(self):
        self.model = self.session = self.out = self.into = None
        self.folder.cleanup()
        forget()


# ---- PyTorch ----

def as_graph(fn):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3): fn()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): fn()
    return graph.replay


def ready(model, inputs, precision):
    """Model and inputs as PyTorch runs them fastest in that precision."""
    set_precision(precision)
    if precision == "bf16":
        model = model.to(torch.bfloat16)
        inputs = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs)
    if inputs[0].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    return model, inputs


class Torch:
    """Ways to run a model: `sides`, with the time to the first result of torch.compile and the memory of a call: `bytes` that are allocated, and `held` of the GPU for them."""

    def __init__(self, model, inputs, precision, eager=True, tune=False):
        from torch._inductor.utils import fresh_inductor_cache
        model, inputs = ready(model, inputs, precision)
        self.sides, self.keep = {}, (model, inputs)
        plain = lambda: model(*inputs)  # noqa: E731
        self.result = flat(plain())
        torch.cuda.synchronize()
        modes = {"compiled": {}} | ({"tuned": {"mode": "max-autotune-no-cudagraphs"}} if tune else {})
        self.seconds, self.errors = {}, {}
        if eager: self.add("eager", plain)
        for kind, options in modes.items():
            with fresh_inductor_cache():
                compiled = torch.compile(model, **options)
                start = time.perf_counter()
                y = compiled(*inputs)
                torch.cuda.synchronize()
                self.seconds[kind] = time.perf_counter() - start
            self.compiled_result = [t.clone() for t in flat(y)]
            del y
            self.add(kind, lambda compiled=compiled: compiled(*inputs))
        self.weights = list(model.parameters()) + list(model.buffers())
        self.bytes, self.held = self.peak(self.sides["compiled"]), self.segments(self.sides["compiled"])

    def add(self, kind, fn):
        self.sides[kind], self.sides[kind + "_graph"] = fn, as_graph(fn)

    def peak(self, fn):
        """Bytes of weights and of a call: the most that was allocated at a time, less what graphs and results here hold. Inputs are the caller's."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fn()
        torch.cuda.synchronize()
        return sum(t.numel() * t.element_size() for t in self.weights) + torch.cuda.max_memory_allocated() - before

    def segments(self, fn):
        """Bytes that the allocator has of the GPU for them: segments in which weights lie, and those that a call needs besides."""
        forget()
        at = [t.data_ptr() for t in self.weights]
        ours = [s["total_size"] for s in torch.cuda.memory_snapshot() if any(s["address"] <= a < s["address"] + s["total_size"] for a in at)]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_reserved()
        fn()
        torch.cuda.synchronize()
        return sum(ours) + torch.cuda.max_memory_reserved() - before
