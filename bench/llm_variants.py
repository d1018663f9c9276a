#!/usr/bin/env python3
"""llm_variants.py -- tiny language models of random weights in configurations that are not the usual ones.

    bench/llm_variants.py OUT [NAME...] [--seed 5]

Some 60 Hugging Face folders with ids.npy and the logits.npy of transformers in f32, as bench/llm_check.py and bench/llm_engine.py
take them: other numbers of heads and head sizes, windows, lists of layers, soft caps, biases, activations, scalings of rotary positions, experts,
multipliers and states than those of the architectures' usual models.  Norms and biases are random too, so that a forgotten one shows.

Needs torch, transformers, tokenizers and numpy (tried with torch 2.13, transformers 5.22).
"""
import argparse, os, sys

import numpy as np, tokenizers, torch, transformers as T

V = 512
B = dict(vocab_size=V, hidden_size=96, intermediate_size=144, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
         max_position_embeddings=512, bos_token_id=0, eos_token_id=1, pad_token_id=2, tie_word_embeddings=False)
C = {}  # name -> class of the configuration, and its keys; ... takes a key of B away


def c(name, cls, **keys): C[name] = (cls, {a: b for a, b in {**B, **keys}.items() if b is not ...})


def rope(t, **k): return dict(rope_type=t, rope_theta=k.pop("theta", 10000.0), **k)
NOHEAD = dict(num_key_value_heads=...)
c('llama-mqa', 'LlamaConfig', num_key_value_heads=1, attention_bias=True, mlp_bias=True)
c('llama-mha-tied', 'LlamaConfig', num_key_value_heads=6, tie_word_embeddings=True, hidden_act='gelu')
c('llama-head', 'LlamaConfig', head_dim=20, rms_norm_eps=0.03, hidden_act='gelu_pytorch_tanh')
c('llama-linear', 'LlamaConfig', rope_parameters=rope('linear', factor=4.0))
c('llama-dynamic', 'LlamaConfig', rope_parameters=rope('dynamic', factor=2.0))
c('llama-yarn', 'LlamaConfig', rope_parameters=rope('yarn', factor=4.0, original_max_position_embeddings=128))
c('llama-yarn2', 'LlamaConfig', rope_parameters=rope('yarn', factor=8.0, original_max_position_embeddings=64, beta_fast=16.0, beta_slow=2.0, attention_factor=0.9))
c('llama-relu', 'LlamaConfig', hidden_act='relu', num_hidden_layers=1)
c('mistral-full', 'MistralConfig', sliding_window=None, head_dim=32)
c('mistral-w5', 'MistralConfig', sliding_window=5, num_key_value_heads=6)
c('mistral-w1', 'MistralConfig', sliding_window=1)
c('qwen2-window', 'Qwen2Config', use_sliding_window=True, sliding_window=9, max_window_layers=1)
c('qwen2-types', 'Qwen2Config', use_sliding_window=True, sliding_window=9, layer_types=['sliding_attention', 'full_attention', 'sliding_attention'], tie_word_embeddings=True)
c('qwen2-yarn', 'Qwen2Config', rope_parameters=rope('yarn', factor=4.0, original_max_position_embeddings=128, theta=1e6))
c('qwen3-bias', 'Qwen3Config', head_dim=20, attention_bias=True, tie_word_embeddings=True)
c('qwen3-window', 'Qwen3Config', head_dim=24, use_sliding_window=True, sliding_window=7, max_window_layers=2)
c('qwen3moe-norm', 'Qwen3MoeConfig', head_dim=24, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=True)
c('qwen3moe-sparse', 'Qwen3MoeConfig', head_dim=24, num_experts=6, num_experts_per_tok=1, moe_intermediate_size=40, decoder_sparse_step=2, num_hidden_layers=4)
c('qwen3moe-dense', 'Qwen3MoeConfig', head_dim=24, num_experts=6, num_experts_per_tok=6, moe_intermediate_size=40, mlp_only_layers=[0, 2], attention_bias=True)
c('mixtral-top1', 'MixtralConfig', num_local_experts=3, num_experts_per_tok=1, head_dim=20)
c('mixtral-window', 'MixtralConfig', num_local_experts=8, num_experts_per_tok=2, sliding_window=6)
c('gemma-mqa', 'GemmaConfig', head_dim=24, num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True)
c('gemma2-caps', 'Gemma2Config', head_dim=24, sliding_window=8, query_pre_attn_scalar=17, attn_logit_softcapping=3.0, final_logit_softcapping=4.0, tie_word_embeddings=True, num_hidden_layers=5)
c('gemma2-nocaps', 'Gemma2Config', head_dim=24, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=True, layer_types=['full_attention', 'sliding_attention', 'sliding_attention'])
c('gemma3-types', 'Gemma3TextConfig', head_dim=24, sliding_window=11, query_pre_attn_scalar=30, tie_word_embeddings=True, num_hidden_layers=4, layer_types=['full_attention', 'sliding_attention', 'sliding_attention', 'full_attention'])
c('gemma3-scaled', 'Gemma3TextConfig', head_dim=24, sliding_window=8, tie_word_embeddings=True, num_hidden_layers=6, rope_parameters=dict(full_attention=rope('linear', factor=8.0, theta=1e6), sliding_attention=rope('default', theta=1e4)))
c('phi3-window', 'Phi3Config', sliding_window=6, num_key_value_heads=6)
c('phi3-longrope', 'Phi3Config', rope_parameters=rope('longrope', short_factor=[1.0 + 0.1 * i for i in range(8)], long_factor=[2.0 + 0.5 * i for i in range(8)], original_max_position_embeddings=512), max_position_embeddings=2048, original_max_position_embeddings=512)
c('phi3-partial', 'Phi3Config', partial_rotary_factor=0.5, tie_word_embeddings=True)
c('phi2-norm', 'PhiConfig', num_key_value_heads=6, partial_rotary_factor=0.25, qk_layernorm=True)
c('phi2-gqa', 'PhiConfig', num_key_value_heads=2, partial_rotary_factor=1.0, layer_norm_eps=0.01, hidden_act='gelu')
G = dict(hidden_size=..., intermediate_size=..., num_hidden_layers=..., num_attention_heads=..., num_key_value_heads=..., max_position_embeddings=...)
c('gpt2-small', 'GPT2Config', n_embd=60, n_layer=2, n_head=3, n_positions=128, **G)
c('gpt2-plain', 'GPT2Config', n_embd=64, n_layer=2, n_head=4, n_positions=128, n_inner=100, scale_attn_weights=False, activation_function='relu', layer_norm_epsilon=0.01, **G)
c('gptneox-serial', 'GPTNeoXConfig', use_parallel_residual=False, rotary_pct=0.5, attention_bias=False, **NOHEAD)
c('gptneox-all', 'GPTNeoXConfig', rope_parameters=dict(rope_type='default', rope_theta=5000.0, partial_rotary_factor=1.0), hidden_act='gelu_new', tie_word_embeddings=True, **NOHEAD)
c('stablelm-parallel', 'StableLmConfig', use_parallel_residual=True, use_qkv_bias=True)
c('stablelm-norm', 'StableLmConfig', qk_layernorm=True, partial_rotary_factor=0.5)
c('olmo2-mqa', 'Olmo2Config', num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=rope('default', theta=500000.0))
c('starcoder2-plain', 'Starcoder2Config', use_bias=False, sliding_window=7, tie_word_embeddings=False, hidden_act='gelu')
F = dict(num_key_value_heads=..., intermediate_size=...)
c('falcon-7b', 'FalconConfig', new_decoder_architecture=False, multi_query=True, parallel_attn=True, **F)
c('falcon-rw', 'FalconConfig', new_decoder_architecture=False, multi_query=False, parallel_attn=False, bias=True, **F)
c('falcon-11b', 'FalconConfig', new_decoder_architecture=True, num_kv_heads=3, num_ln_in_parallel_attn=1, ffn_hidden_size=200, **F)
c('granite-many', 'GraniteConfig', embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.015625, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
c('smollm3-list', 'SmolLM3Config', no_rope_layers=[0, 1, 1, 0], num_hidden_layers=4, tie_word_embeddings=True)
c('smollm3-every', 'SmolLM3Config', no_rope_layer_interval=2, num_hidden_layers=4, use_sliding_window=True, sliding_window=9, attention_bias=True)
c('glm4-nobias', 'Glm4Config', head_dim=24, attention_bias=False, partial_rotary_factor=1.0, tie_word_embeddings=True)
c('cohere2-scale', 'Cohere2Config', sliding_window=5, num_hidden_layers=5, tie_word_embeddings=True, logit_scale=0.25, attention_bias=True)
c('cohere2-types', 'Cohere2Config', sliding_window=5, num_hidden_layers=3, tie_word_embeddings=True, layer_types=['full_attention', 'sliding_attention', 'full_attention'])
D = dict(kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, num_key_value_heads=6, moe_intermediate_size=48)
c('deepseek2-lora', 'DeepseekV2Config', q_lora_rank=24, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2, first_k_dense_replace=0, n_group=1, topk_group=1, routed_scaling_factor=2.5, **D)
c('deepseek2-groups', 'DeepseekV2Config', q_lora_rank=24, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=2, n_group=4, topk_group=2, topk_method='group_limited_greedy', attention_bias=True, **D)
c('deepseek2-yarn', 'DeepseekV2Config', q_lora_rank=None, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1, rope_parameters=rope('yarn', factor=4.0, original_max_position_embeddings=128, mscale=0.707, mscale_all_dim=0.707), **D)
c('gptoss-yarn', 'GptOssConfig', head_dim=24, num_local_experts=6, num_experts_per_tok=3, sliding_window=7, rope_parameters=rope('yarn', factor=32.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, truncate=False, theta=150000.0))
c('gptoss-types', 'GptOssConfig', head_dim=16, num_local_experts=4, num_experts_per_tok=4, sliding_window=3, layer_types=['full_attention', 'full_attention', 'sliding_attention'], tie_word_embeddings=True)
c('exaone4-full', 'Exaone4Config', sliding_window=None, head_dim=24, layer_types=['full_attention'] * 3)
c('exaone4-types', 'Exaone4Config', sliding_window=6, head_dim=24, num_hidden_layers=5, sliding_window_pattern=2, tie_word_embeddings=True)
BL = dict(num_key_value_heads=..., intermediate_size=..., num_hidden_layers=..., num_attention_heads=...)
c('bloom-6', 'BloomConfig', n_layer=2, n_head=6, tie_word_embeddings=True, **BL)
c('bloom-5', 'BloomConfig', n_layer=2, n_head=5, hidden_size=100, layer_norm_epsilon=0.01, tie_word_embeddings=True, **BL)
M = dict(num_attention_heads=..., num_key_value_heads=..., intermediate_size=..., max_position_embeddings=...)
c('mamba2-groups', 'Mamba2Config', state_size=24, num_heads=12, head_dim=16, expand=2, n_groups=3, chunk_size=16, conv_kernel=3, use_bias=True, **M)
c('mamba2-noconv', 'Mamba2Config', state_size=16, num_heads=6, head_dim=16, expand=1, n_groups=1, chunk_size=16, use_conv_bias=False, time_step_limit=[0.01, 0.5], tie_word_embeddings=True, **M)
Q = dict(head_dim=24, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, shared_expert_intermediate_size=40)
c('qwen3next-types', 'Qwen3NextConfig', linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=3, linear_num_value_heads=6, num_hidden_layers=3, layer_types=['full_attention', 'linear_attention', 'full_attention'], **Q)
c('qwen3next-conv', 'Qwen3NextConfig', linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=2, linear_conv_kernel_dim=3, num_hidden_layers=4, partial_rotary_factor=0.5, norm_topk_prob=False, tie_word_embeddings=True, **Q)


def tokenizer_of_bytes():
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer, t.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>", "<unk>"]
    t.train_from_iterator([], tokenizers.trainers.BpeTrainer(special_tokens=special, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


def make(folder, cls, keys, seed, tokenizer):
    ids = torch.randint(4, V - 4, (1, 40), generator=torch.Generator().manual_seed(seed + 7))
    config = getattr(T, cls)(**keys)
    config._attn_implementation = "eager"
    model = T.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            r = torch.randn(p.shape, generator=g)
            p.copy_(r * 0.08 if p.dim() > 1 else p + r * 0.1)
        logits = model(ids).logits[0].float()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    np.save(f"{folder}/ids.npy", ids.numpy())
    np.save(f"{folder}/logits.npy", logits.numpy())


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("names", nargs="*")
    a.add_argument("--seed", type=int, default=5)
    a = a.parse_args()
    torch.set_num_threads(1)
    tokenizer = tokenizer_of_bytes()
    for name in a.names or C:
        make(f"{a.out}/{name}", *C[name], a.seed, tokenizer)
        print(name, flush=True)


if __name__ == "__main__": sys.exit(main())
