"""tiny_llm.py FOLDER [SEED [PADDING [KIND]]] -- a language model of random weights as Hugging Face saves one, by the standard library alone.

KIND is llama: two layers with grouped queries; mamba2: two recurrent layers; bert: an encoder of two layers, or rank: one with a
classifier.  All have a byte-level tokenizer without merges.  Its answers mean
nothing, and depend on every weight, position and key: what an engine does wrong changes them.  PADDING rows of the
vocabulary have no token, as published models have them.
"""
import json, math, os, random, struct, sys

HIDDEN, HEADS, KV_HEADS, HEAD, FFN, LAYERS, BYTES, CONTEXT = 64, 4, 2, 16, 96, 2, 256, 512
STATE, GROUPS, TAPS = 16, 2, 4  # of Mamba-2, whose heads are as many
KINDS = "llama", "mamba2"  # that generate
SPECIAL = ["<|end|>", "<|im_start|>", "<|im_end|>"]
VOCAB = BYTES + len(SPECIAL)
CHAT = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_letters():
    """GPT-2's letters for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def makers(seed):
    """What makes a matrix and a vector, (name, shape, values)."""
    rng = random.Random(seed)

    def matrix(name, rows, columns, scale=1.0, shape=None):
        spread = scale / math.sqrt(columns)
        return name, shape or [rows, columns], [rng.gauss(0, spread) for _ in range(rows * columns)]

    def vector(name, size=HIDDEN, mean=1.0):
        return name, [size], [mean + rng.gauss(0, 0.1) for _ in range(size)]

    return matrix, vector


def mamba2(seed, vocab):
    matrix, vector = makers(seed)
    inner = 2 * HIDDEN
    channels = inner + 2 * GROUPS * STATE
    yield matrix("backbone.embeddings.weight", vocab, HIDDEN, 8.0)
    for i in range(LAYERS):
        at = f"backbone.layers.{i}."
        yield vector(at + "norm.weight")
        yield matrix(at + "mixer.in_proj.weight", inner + channels + HEADS, HIDDEN, 2.0)
        yield matrix(at + "mixer.conv1d.weight", channels, TAPS, 2.0, [channels, 1, TAPS])
        yield vector(at + "mixer.conv1d.bias", channels, 0)
        for name in "dt_bias", "A_log", "D": yield vector(at + "mixer." + name, HEADS)
        yield vector(at + "mixer.norm.weight", inner)
        yield matrix(at + "mixer.out_proj.weight", HIDDEN, inner, 2.0)
    yield vector("backbone.norm_f.weight")
    yield matrix("lm_head.weight", vocab, HIDDEN, 4.0)


def llama(seed, vocab):
    matrix, norm = makers(seed)
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


def bert(seed, vocab):
    matrix, norm = makers(seed)

    def linear(name, rows, columns, scale=1.0):
        yield matrix(name + ".weight", rows, columns, scale)
        yield norm(name + ".bias", rows, 0)

    def layer_norm(name):
        yield norm(name + ".weight")
        yield norm(name + ".bias", HIDDEN, 0)

    for name, rows in ("word", vocab), ("position", CONTEXT), ("token_type", 2):
        yield matrix(f"bert.embeddings.{name}_embeddings.weight", rows, HIDDEN, 8.0 if name == "word" else 2.0)
    yield from layer_norm("bert.embeddings.LayerNorm")
    for i in range(LAYERS):
        at = f"bert.encoder.layer.{i}."
        for part in "query", "key", "value": yield from linear(at + "attention.self." + part, HIDDEN, HIDDEN, 2.0)
        yield from linear(at + "attention.output.dense", HIDDEN, HIDDEN)
        yield from layer_norm(at + "attention.output.LayerNorm")
        yield from linear(at + "intermediate.dense", FFN, HIDDEN)
        yield from linear(at + "output.dense", HIDDEN, FFN)
        yield from layer_norm(at + "output.LayerNorm")
    yield from linear("bert.pooler.dense", HIDDEN, HIDDEN)


def rank(seed, vocab):
    yield from bert(seed, vocab)
    matrix, vector = makers(seed + 1)
    yield matrix("classifier.weight", 1, HIDDEN)
    yield vector("classifier.bias", 1, 0)


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f: json.dump(value, f, ensure_ascii=False)


OWN = {
    "llama": {"architectures": ["LlamaForCausalLM"], "intermediate_size": FFN, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "rms_norm_eps": 1e-5, "rope_theta": 10000.0},
    "mamba2": {"architectures": ["Mamba2ForCausalLM"], "num_heads": HEADS, "head_dim": 2 * HIDDEN // HEADS, "state_size": STATE,
               "n_groups": GROUPS, "expand": 2, "conv_kernel": TAPS, "use_conv_bias": True, "use_bias": False,
               "layer_norm_epsilon": 1e-5},
    **{kind: {"architectures": [name], "intermediate_size": FFN, "num_attention_heads": HEADS, "layer_norm_eps": 1e-12,
              "type_vocab_size": 2, "hidden_act": "gelu"} for kind, name in (("bert", "BertModel"), ("rank", "BertForSequenceClassification"))},
}


def tensors(path, named):
    """A safetensors file of (name, shape, values)."""
    header, blobs, at = {}, [], 0
    for name, shape, values in named:
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def adapter(folder, seed=2, rank=4):
    """A LoRA adapter of the llama kind, as PEFT saves one."""
    os.makedirs(folder, exist_ok=True)
    matrix, _ = makers(seed)

    def factors():
        for i in range(LAYERS):
            for name, rows, columns in (("self_attn.q_proj", HEADS * HEAD, HIDDEN), ("mlp.down_proj", HIDDEN, FFN)):
                at = f"base_model.model.model.layers.{i}.{name}."
                yield matrix(at + "lora_A.weight", rank, columns, 2.0)
                yield matrix(at + "lora_B.weight", rows, rank, 2.0)

    write(folder, "adapter_config.json", {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none",
                                          "target_modules": ["q_proj", "down_proj"]})
    tensors(os.path.join(folder, "adapter_model.safetensors"), factors())
    return folder


# Chat templates that know tools, by the form of their calls; `thinks`: the prompt begins reasoning.
TOOL_CHAT = {
    "hermes": "{% if tools %}<|im_start|>system\nTools:{% for t in tools %} {{ t | tojson }}{% endfor %}\nCall as <tool_call></tool_call>.<|im_end|>\n{% endif %}"
              "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% for c in m.tool_calls or [] %}<tool_call>\n"
              "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "qwen3_coder": "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{# <tool_call><function=f><parameter=p> #}"
                   "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
}
# Turns that must alternate and no system message, as Gemma 2 and Mistral 7B v0.1 want them.
TOOL_CHAT["turns"] = ("{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
                      "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
# Functions whose descriptions are joined to text, as Hermes 2 Pro and Apertus do, and without tools no prompt; calls whose arguments are text.
TOOL_CHAT["described"] = ("{% for t in tools %}{{ t.function.name + ': ' + t.function.description + (t.function.parameters.properties | tojson) + ';' }}{% endfor %}{# <tool_call> #}"
                          "{% for m in messages %}{{ m['role'] + ' ' + (m['content'] or '') }}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}{{ ';' }}{% endfor %}")
TOOL_CHAT["thinks"] = TOOL_CHAT["hermes"].replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}")


def make(folder, seed=1, padding=0, kind="llama", chat=CHAT, context=CONTEXT):
    os.makedirs(folder, exist_ok=True)
    end = BYTES
    around = [{"SpecialToken": {"id": SPECIAL[i], "type_id": 0}} for i in (1, 2)]
    first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    template = {"type": "TemplateProcessing", "single": [around[0], first, around[1]],
                "pair": [around[0], first, around[1], second, {"SpecialToken": {"id": SPECIAL[2], "type_id": 1}}],
                "special_tokens": {t: {"id": t, "ids": [BYTES + i], "tokens": [t]} for i, t in enumerate(SPECIAL)}}
    write(folder, "config.json", {
        "model_type": kind, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "vocab_size": VOCAB + padding,
        "max_position_embeddings": context, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": end,
        "eos_token_id": end, "torch_dtype": "float32", **OWN[kind]})
    write(folder, "generation_config.json", {"bos_token_id": end, "eos_token_id": [end, end + 2]})
    write(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": BYTES + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, t in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": template if kind in ("bert", "rank") else None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {letter: i for i, letter in enumerate(byte_letters())}, "merges": []}})
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[0],
                                            "chat_template": chat})
    kinds = {"llama": llama, "mamba2": mamba2, "bert": bert, "rank": rank}
    tensors(os.path.join(folder, "model.safetensors"), kinds[kind](seed, VOCAB + padding))
    return folder


if __name__ == "__main__": make(sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:5])
