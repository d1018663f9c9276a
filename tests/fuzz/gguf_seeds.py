#!/usr/bin/env python3
"""gguf_seeds.py FOLDER -- seeds for the fuzz target gguf: a file per ggml type, one with metadata of every kind, and damaged ones."""
import pathlib, random, struct, sys

# ggml's number, elements and bytes of a block, as src/frontends/gguf/blocks.c has them.
TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84), 11: (256, 110),
         12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50),
         20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8),
         29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18)}
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def text(s): return struct.pack("<Q", len(s)) + s.encode()


def number(kind, v): return struct.pack("<" + NUMBERS[kind], v)


def metadata(rng):
    """Encoded pairs: every kind, alone and in arrays."""
    out = []
    for kind in NUMBERS:
        value = rng.choice((0, 1))
        out.append(text(f"k.{kind}") + struct.pack("<I", kind) + number(kind, value))
        out.append(text(f"a.{kind}") + struct.pack("<IIQ", ARRAY, kind, 5) + b"".join(number(kind, i % 2) for i in range(5)))
    out.append(text("general.architecture") + struct.pack("<I", STRING) + text("llama"))
    out.append(text("tokens") + struct.pack("<IIQ", ARRAY, STRING, 3) + text("<s>") + text("") + text("\u2581the"))
    out.append(text("general.alignment") + struct.pack("<II", 4, 32))
    return out


def file_of(version, pairs, tensors, rng):
    head, data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs), b""
    for i, (kind, dims) in enumerate(tensors):
        head += text(f"t{i}") + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, len(data))
        n = 1
        for d in dims: n *= d
        block, size = TYPES[kind]
        data += rng.randbytes(n // block * size)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


def main():
    folder, rng = pathlib.Path(sys.argv[1]), random.Random(1)
    files = {"metadata": file_of(3, metadata(rng), [], rng), "old": file_of(2, metadata(rng)[:4], [(0, [2, 3])], rng)}
    for kind, (block, _) in TYPES.items(): files[f"type{kind}"] = file_of(3, [], [(kind, [block * 2, 2]), (kind, [block])], rng)
    for name, whole in files.items(): (folder / f"seed-{name}").write_bytes(whole)


if __name__ == "__main__": main()
