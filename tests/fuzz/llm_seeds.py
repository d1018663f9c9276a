#!/usr/bin/env python3
"""llm_seeds.py FOLDER -- seeds for the fuzz target llm: configurations, a GGUF model, and adapters in both forms (llm.c)."""
import json, pathlib, struct, sys

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 16, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True}
# What other architectures have besides.
CONFIGS = (
    {}, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
    {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    {"architectures": ["Gemma2ForCausalLM"], "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 4, "sliding_window": 16,
     "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True,
     "decoder_sparse_step": 1, "mlp_only_layers": []},
    {"architectures": ["DeepseekV2ForCausalLM"], "q_lora_rank": None, "kv_lora_rank": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
     "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 0},
    {"architectures": ["Mamba2ForCausalLM"], "num_heads": 4, "head_dim": 4, "state_size": 4, "n_groups": 1, "expand": 2, "conv_kernel": 4,
     "use_conv_bias": True, "use_bias": False, "layer_norm_epsilon": 1e-5},
    {"architectures": ["BertModel"], "layer_norm_eps": 1e-12, "type_vocab_size": 2, "hidden_act": "gelu"},
)
QUANTISED = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 4, "desc_act": True, "checkpoint_format": "gptq", "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 4, "zero_point": True, "version": "gemm"},
    "fp8": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [8, 4]},
    "packed": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 4, "symmetric": False}}}},
}
PRODUCTS = {"attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8), "ffn_gate": (12, 8), "ffn_up": (12, 8), "ffn_down": (8, 12)}


def text(s): return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str): return struct.pack("<I", 8) + text(v)
    if isinstance(v, float): return struct.pack("<If", 6, v)
    return struct.pack("<II", 4, v)


def gguf(pairs, tensors):
    out, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)), b""
    for key, v in pairs.items(): out += text(key) + value(v)
    for name, dims in tensors.items():
        out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims)) + struct.pack("<IQ", 0, len(data))
        n = 1
        for d in dims: n *= d
        data += struct.pack("<f", 0.5) * n
        data += bytes(-len(data) % 32)
    return out + bytes(-len(out) % 32) + data


def safetensors(tensors):
    """By name a shape of f32, or a shape, a word for the type and the bytes."""
    header, data = {}, b""
    for name, t in tensors.items():
        shape, word, part = t if isinstance(t[0], tuple) else (t, "F32", struct.pack("<f", 0.5) * (t[0] * t[1]))
        header[name] = {"dtype": word, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


LAYER = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (8, 8), "self_attn.v_proj": (8, 8), "self_attn.o_proj": (8, 8), "mlp.gate_proj": (8, 8),
         "mlp.up_proj": (8, 8), "mlp.down_proj": (8, 8)}


def words(n): return bytes(range(1, 1 + 4 * n))


def quantised(form):
    """The tensors of a small Llama, whose products are packed in a form: 8 x 8, groups of 4."""
    t = {"model.embed_tokens.weight": (16, 8), "model.norm.weight": ((8,), "F32", bytes(32))}
    for name in "input_layernorm", "post_attention_layernorm": t[f"model.layers.0.{name}.weight"] = ((8,), "F32", bytes(32))
    for name in LAYER:
        x = f"model.layers.0.{name}."
        if form in ("gptq", "awq"):
            t[x + "qweight"] = ((1, 8) if form == "gptq" else (8, 1), "I32", words(8))
            t[x + "qzeros"], t[x + "scales"] = ((2, 1), "I32", words(2)), ((2, 8), "F16", bytes([0, 60]) * 16)
            if form == "gptq": t[x + "g_idx"] = ((8,), "I32", struct.pack("<8i", 0, 1, 0, 1, 1, 0, 1, 0))
        elif form == "fp8":
            t[x + "weight"], t[x + "weight_scale_inv"] = ((8, 8), "F8_E4M3", words(16)), ((1, 2), "F32", words(2))
        else:
            t[x + "weight_packed"], t[x + "weight_zero_point"] = ((8, 1), "I32", words(8)), ((1, 2), "I32", words(2))
            t[x + "weight_scale"], t[x + "weight_shape"] = ((8, 2), "BF16", bytes([0, 60]) * 16), ((2,), "I64", struct.pack("<2q", 8, 8))
    return t


def seeds():
    for extra in CONFIGS: yield b"\0" + json.dumps({**LLAMA, **extra}).encode()
    meta = {"general.architecture": "llama", "llama.context_length": 64, "llama.embedding_length": 8, "llama.block_count": 1,
            "llama.feed_forward_length": 12, "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
            "llama.attention.key_length": 4, "llama.attention.value_length": 4, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 10000.0, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    tensors = {"token_embd.weight": (16, 8), "output_norm.weight": (8,), "blk.0.attn_norm.weight": (8,), "blk.0.ffn_norm.weight": (8,),
               **{f"blk.0.{name}.weight": dims for name, dims in PRODUCTS.items()}}
    yield b"\1" + gguf(meta, tensors)
    yield b"\1" + gguf({**meta, "general.architecture": "gemma3"}, tensors)
    lora = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 4.0}
    factors = {}
    for name, (rows, columns) in PRODUCTS.items():
        factors[f"blk.0.{name}.weight.lora_a"], factors[f"blk.0.{name}.weight.lora_b"] = (2, columns), (rows, 2)
    yield b"\2" + gguf(lora, factors)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "use_rslora": False, "rank_pattern": {"down_proj": 2},
              "alpha_pattern": {"self_attn.q_proj": 8}, "target_modules": ["q_proj"]}
    peft = {}
    for name, (rows, columns) in {"self_attn.q_proj": (8, 8), "mlp.down_proj": (8, 12)}.items():
        for factor, dims in (("A", (2, columns)), ("B", (rows, 2))): peft[f"base_model.model.model.layers.0.{name}.lora_{factor}.weight"] = dims
    yield b"\3" + json.dumps(config).encode() + b"\0" + safetensors(peft)
    for form, how in QUANTISED.items():
        config = {**LLAMA, "num_key_value_heads": 2, "intermediate_size": 8, "quantization_config": how}
        yield b"\4" + json.dumps(config).encode() + b"\0" + safetensors(quantised(form))


folder = pathlib.Path(sys.argv[1])
for i, data in enumerate(seeds()): (folder / f"llm-{i}").write_bytes(data)
