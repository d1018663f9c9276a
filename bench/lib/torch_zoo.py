"""torch_zoo.py -- networks of torchvision and transformers, with random weights, for torch.compile.

Each entry gives the module, in eval mode, and its keyword inputs.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import torch

Network = Tuple[torch.nn.Module, Dict[str, Any]]


def image(name: str) -> Network:
    import inspect

    import torchvision
    m = getattr(torchvision.models, name)(weights=None)
    for p in m.parameters():  # a head that starts as zeros would hide all else
        if p.dim() > 1 and not p.any():
            torch.nn.init.normal_(p, std=0.02)
    return m.eval(), {next(iter(inspect.signature(m.forward).parameters)): torch.randn(1, 3, 224, 224)}


def transformer(name: str, config: str, length: int = 128, **settings: Any) -> Network:
    import transformers
    c = getattr(transformers, config)(**settings)
    m = getattr(transformers, name)(c).eval()
    return m, {"input_ids": torch.randint(0, c.vocab_size, (1, length))}


def whisper() -> Network:
    from transformers import WhisperConfig, WhisperModel
    c = WhisperConfig()
    return WhisperModel(c).get_encoder().eval(), {"input_features": torch.randn(1, c.num_mel_bins, 3000)}


class LSTM(torch.nn.Module):
    """Two layers, 256 to 512, over 64 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(256, 512, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


class UNet(torch.nn.Module):
    """Group norm, attention in the middle, concatenated skips."""

    def __init__(self, w: int = 64) -> None:
        super().__init__()
        nn = torch.nn
        block = lambda i, o: nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.first = nn.Conv2d(4, w, 3, padding=1)
        self.down = nn.ModuleList([block(w << max(i - 1, 0), w << i) for i in range(3)])
        self.less = nn.ModuleList([nn.Conv2d(w << i, w << i, 3, 2, 1) for i in range(3)])
        self.norm, self.qkv, self.out = nn.GroupNorm(8, 4 * w), nn.Linear(4 * w, 12 * w), nn.Linear(4 * w, 4 * w)
        self.up = nn.ModuleList([block((w << min(i + 1, 2)) + (w << i), w << i) for i in reversed(range(3))])
        self.last = nn.Conv2d(w, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, keep = self.first(x), []
        for d, l in zip(self.down, self.less):
            x = d(x)
            keep.append(x)
            x = l(x)
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, h * w, 4, c // 4).transpose(1, 2) for t in self.qkv(self.norm(x).reshape(b, c, h * w).transpose(1, 2)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        x = x + self.out(y).transpose(1, 2).reshape(b, c, h, w)
        for u in self.up:
            x = u(torch.cat([torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"), keep.pop()], 1))
        return self.last(x)


def clip_vision() -> Network:
    from transformers import CLIPVisionConfig, CLIPVisionModel
    return CLIPVisionModel(CLIPVisionConfig()).eval(), {"pixel_values": torch.randn(1, 3, 224, 224)}


def first(result: Any) -> torch.Tensor:
    """The first tensor of what a network gives."""
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    return result


NETWORKS: Dict[str, Callable[[], Network]] = {
    "resnet50": lambda: image("resnet50"),
    "mobilenet_v3": lambda: image("mobilenet_v3_large"),
    "vit_b_16": lambda: image("vit_b_16"),
    "swin_t": lambda: image("swin_t"),
    "bert": lambda: transformer("BertModel", "BertConfig"),
    "gpt2": lambda: transformer("GPT2LMHeadModel", "GPT2Config", use_cache=False),
    "t5_encoder": lambda: transformer("T5EncoderModel", "T5Config"),
    "whisper_encoder": whisper,
}


def make(name: str) -> Network:
    """A network by its name, the same at every call."""
    torch.manual_seed(0)
    return NETWORKS[name]()


IMAGES = ["resnet50", "vgg16", "regnet_y_8gf", "efficientnet_b0", "convnext_tiny", "densenet121", "swin_t", "vit_b_16", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x1_0",
          "resnext50_32x4d", "mnasnet1_0", "squeezenet1_1"]
LLAMA = dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4, use_cache=False)
QWEN = dict(vocab_size=32000, hidden_size=1024, intermediate_size=3072, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8, head_dim=64, use_cache=False)
GPU_NETWORKS: Dict[str, Callable[[], Network]] = {
    **{name: (lambda name=name: image(name)) for name in IMAGES},
    "bert": lambda: transformer("BertModel", "BertConfig"),
    "distilbert": lambda: transformer("DistilBertModel", "DistilBertConfig"),
    "roberta": lambda: transformer("RobertaModel", "RobertaConfig"),
    "gpt2": lambda: transformer("GPT2LMHeadModel", "GPT2Config", use_cache=False),
    "llama": lambda: transformer("LlamaForCausalLM", "LlamaConfig", **LLAMA),
    "qwen3": lambda: transformer("Qwen3ForCausalLM", "Qwen3Config", **QWEN),
    "t5_encoder": lambda: transformer("T5EncoderModel", "T5Config"),
    "whisper_encoder": whisper,
    "clip_vision": clip_vision,
    "lstm": lambda: (LSTM().eval(), {"x": torch.randn(1, 64, 256)}),
    "unet": lambda: (UNet().eval(), {"x": torch.randn(1, 4, 64, 64)}),
}


class First(torch.nn.Module):
    """A network whose result is its first tensor, and whose inputs have no names."""

    def __init__(self, m: torch.nn.Module, names: Any) -> None:
        super().__init__()
        self.m, self.names = m, list(names)

    def forward(self, *x: torch.Tensor) -> torch.Tensor:
        return first(self.m(**dict(zip(self.names, x))))


def on_gpu(name: str, batch: int) -> Tuple[torch.nn.Module, Tuple[torch.Tensor, ...]]:
    """A network of GPU_NETWORKS at a batch, in f32, the same at every call, and its inputs on the GPU."""
    torch.manual_seed(0)
    m, inputs = GPU_NETWORKS[name]()
    many = []
    for x in inputs.values():
        shape = (batch, *x.shape[1:])
        many.append(torch.randn(shape).cuda() if x.is_floating_point() else torch.randint(0, 2000, shape).cuda())
    return settled(First(m, inputs).eval().cuda(), tuple(many)), tuple(many)


def settled(m: torch.nn.Module, inputs: Tuple[torch.Tensor, ...]) -> torch.nn.Module:
    """Statistics of batch normalisations as they are, and means other than zero, so that a signal gets through (gpu_sides.settle)."""
    norms = [b for b in m.modules() if isinstance(b, torch.nn.modules.batchnorm._BatchNorm)]
    for b in norms:
        b.momentum = None
        torch.nn.init.constant_(b.bias, 0.5)
    if norms:
        m.train()
        with torch.no_grad():
            for _ in range(2):
                m(*(torch.randn(16, *x.shape[1:], device=x.device) for x in inputs))
    return m.eval()
