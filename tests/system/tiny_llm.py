"""tiny_llm.py FOLDER [SEED [PADDING]] -- a language model of random weights as Hugging Face saves one, by the standard library alone.

Two layers of the Llama architecture, with grouped queries, and a byte-level tokenizer without merges.  Its answers mean
nothing, and depend on every weight, position and key: what an engine does wrong changes them.  PADDING rows of the
vocabulary have no token, as published models have them.
"""
import json, math, os, random, struct, sys

HIDDEN, HEADS, KV_HEADS, HEAD, FFN, LAYERS, BYTES, CONTEXT = 64, 4, 2, 16, 96, 2, 256, 512
SPECIAL = ["<|end|>", "<|im_start|>", "<|im_end|>"]
VOCAB = BYTES + len(SPECIAL)
CHAT = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_letters():
    """GPT-2's letters for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def tensors(seed, vocab):
    """(name, shape, values), in f32."""
    rng = random.Random(seed)

    def matrix(name, rows, columns, scale=1.0):
        spread = scale / math.sqrt(columns)
        return name, [rows, columns], [rng.gauss(0, spread) for _ in range(rows * columns)]

    def norm(name):
        return name, [HIDDEN], [1 + rng.gauss(0, 0.1) for _ in range(HIDDEN)]

    yield matrix("model.embed_tokens.weight", vocab, HIDDEN, 8.0)
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        yield norm(at + "input_layernorm.weight")
        yield norm(at + "post_attention_layernorm.weight")
        yield matrix(at + "self_attn.q_proj.weight", HEADS * HEAD, HIDDEN, 2.0)
        yield matrix(at + "self_attn.k_proj.weight", KV_HEADS * HEAD, HIDDEN, 2.0)
        yield matrix(at + "self_attn.v_proj.weight", KV_HEADS * HEAD, HIDDEN, 2.0)
        yield matrix(at + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD, 2.0)
        yield matrix(at + "mlp.gate_proj.weight", FFN, HIDDEN)
        yield matrix(at + "mlp.up_proj.weight", FFN, HIDDEN)
        yield matrix(at + "mlp.down_proj.weight", HIDDEN, FFN)
    yield norm("model.norm.weight")
    yield matrix("lm_head.weight", vocab, HIDDEN, 4.0)


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f: json.dump(value, f, ensure_ascii=False)


def make(folder, seed=1, padding=0):
    os.makedirs(folder, exist_ok=True)
    end = BYTES
    write(folder, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "vocab_size": VOCAB + padding, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": end, "eos_token_id": end, "torch_dtype": "float32"})
    write(folder, "generation_config.json", {"bos_token_id": end, "eos_token_id": [end, end + 2]})
    write(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": BYTES + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, t in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {letter: i for i, letter in enumerate(byte_letters())}, "merges": []}})
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[0],
                                            "chat_template": CHAT})
    header, blobs, at = {}, [], 0
    for name, shape, values in tensors(seed, VOCAB + padding):
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f: f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return folder


if __name__ == "__main__": make(sys.argv[1], *map(int, sys.argv[2:4]))
