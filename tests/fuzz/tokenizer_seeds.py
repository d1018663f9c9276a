#!/usr/bin/env python3
"""tokenizer_seeds.py FOLDER: small tokenizers of every format, as seeds of tests/fuzz/tokenizer.c: a file, a NUL byte, a text."""
import base64, json, os, struct, sys

TEXT = "a ab abc  aab\n caf\u00e9 12 <s>x</s> \U0001f642".encode()


def byte_chars():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(rest)}


def steps():
    yield {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    yield {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": False},
                                                 {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False, "trim_offsets": True}]}
    yield {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    yield {"type": "BertPreTokenizer"}
    yield {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "MergedWithNext"}, {"type": "WhitespaceSplit"}]}


def models():
    chars = byte_chars()
    vocab = {c: i for i, c in enumerate(chars.values())} | {"ab": 256, "abc": 257, "aa": 258, "\u0120a": 259}
    yield {"type": "BPE", "vocab": vocab, "merges": ["a b", "ab c", "a a", "\u0120 a"]}
    plain = {c: i for i, c in enumerate("\u2581abc<x>") } | {"ab": 7, "\u2581a": 8, "<unk>": 9}
    yield {"type": "BPE", "vocab": plain, "merges": [["a", "b"], ["\u2581", "a"]], "unk_token": "<unk>", "fuse_unk": True}
    yield {"type": "BPE", "vocab": plain, "merges": ["a b", "\u2581 a"], "unk_token": "<unk>"}
    yield {"type": "BPE", "vocab": plain | {f"<0x{i:02X}>": 10 + i for i in range(256)}, "merges": ["a b", "\u2581 a"], "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    yield {"type": "Unigram", "vocab": [["<unk>", 0], ["\u2581", -2], ["a", -1.5], ["ab", -1], ["b", -3.25]], "unk_id": 0}
    yield {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##b": 2, "abc": 3, "##c": 4}, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20}


def json_files():
    norms = [None, {"type": "NFKC"}, {"type": "BertNormalizer", "clean_text": True, "strip_accents": None, "lowercase": True, "handle_chinese_chars": True},
             {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}]
    decoders = [None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
                {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}]
    added = lambda first: [{"id": first, "content": "<s>", "special": True, "single_word": False, "lstrip": True, "rstrip": False, "normalized": False}, {"id": first + 1, "content": "</s>", "special": False, "single_word": False, "lstrip": False, "rstrip": True, "normalized": True}]
    posts = lambda first: [None, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [first], "tokens": ["<s>"]}}}]
    for i, m in enumerate(models()):
        for k, p in enumerate([None, *steps()]):
            n, first = i + k, len(m["vocab"])
            yield json.dumps({"version": "1.0", "added_tokens": added(first) if n % 2 else [], "normalizer": norms[n % 4], "pre_tokenizer": p, "post_processor": posts(first)[n % 2], "decoder": decoders[n % 5], "model": m}).encode()


def field(number, kind, value):
    def varint(v):
        out = b""
        while v > 127: out, v = out + bytes([v & 127 | 128]), v >> 7
        return out + bytes([v])
    body = struct.pack("<f", value) if kind == 5 else varint(len(value)) + value if kind == 2 else varint(value)
    return varint(number << 3 | kind) + body


def sentencepiece(model):
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<0x0A>", 0, 6), ("\u2581", -1, 1), ("a", -2, 1), ("b", -3, 1), ("ab", -1.5, 1), ("\u2581a", -0.5, 1), ("<x>", 0, 4)]
    out = b"".join(field(1, 2, field(1, 2, p.encode()) + field(2, 5, s) + field(3, 0, t)) for p, s, t in pieces)
    return out + field(2, 2, field(3, 0, model) + field(40, 0, 0)) + field(3, 2, field(3, 0, 1) + field(4, 0, 1))


def main():
    files = list(json_files()) + [sentencepiece(1), sentencepiece(2)]
    files.append(b"".join(base64.b64encode(bytes([i])) + f" {i}\n".encode() for i in range(256)) + base64.b64encode(b"ab") + b" 256\n")
    vocab = [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode()} for i in range(97, 103)]
    files.append(json.dumps({"config": {"pattern": "\\p{L}+|\\s", "num_vocab_tokens": 6, "default_vocab_size": 200, "default_num_special_tokens": 20}, "vocab": vocab}).encode())
    for i, f in enumerate(files):
        with open(os.path.join(sys.argv[1], f"tokenizer-{i:02}"), "wb") as out: out.write(f + b"\0" + TEXT)


if __name__ == "__main__": main()
