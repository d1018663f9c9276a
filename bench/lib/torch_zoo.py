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
