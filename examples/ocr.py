#!/usr/bin/env python3
"""ocr.py -- reads a line of handwritten digits: finds the characters in a picture, and recognises all of them in one call.

usage: ocr.py [PICTURE.npy]      a grey picture, u8[height, width], dark ink on light paper; default: one that is made up here

Needs numpy and tenon (pip install, or PYTHONPATH=python in a checkout).  The model is digits/digits.onnx; its batch size is dynamic, so a line of
any length is one run.
"""
import os, sys

import numpy as np
import tenon

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, LEVELS = 8, 16  # of the model's pictures


def write(numbers, seed=1):
    """A picture of these digits, scaled up, on paper that is not quite white."""
    shapes = np.load(os.path.join(HERE, "digits/digits.npy"))
    paper = np.random.default_rng(seed).integers(225, 245, (48, 8 + 32 * len(numbers))).astype(np.float32)
    for i, n in enumerate(numbers):
        ink = np.kron(shapes[n], np.ones((3, 3))) * (220 / LEVELS)
        top, left = 12 + (i * 5) % 9 - 4, 8 + 32 * i
        paper[top:top + 24, left:left + 24] -= ink
    return np.clip(paper, 0, 255).astype(np.uint8)


def runs(flags):
    """[(first, end)] of the stretches where flags hold."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return list(zip(edges[::2], edges[1::2]))


def characters(picture):
    """The characters from left to right, as the model wants them: f32[n, 8, 8] with ink from 0 to 16."""
    ink = np.clip((np.median(picture) - 20 - picture.astype(np.float32)) / 200, 0, 1)
    found = []
    for left, right in runs(ink.max(axis=0) > 0.1):
        rows = np.flatnonzero(ink[:, left:right].max(axis=1) > 0.1)
        top, bottom = rows[0], rows[-1] + 1
        side = max(bottom - top, right - left)
        square = np.zeros((side, side), np.float32)  # the character in the middle of a square
        y, x = (side - (bottom - top)) // 2, (side - (right - left)) // 2
        square[y:y + bottom - top, x:x + right - left] = ink[top:bottom, left:right]
        found.append(shrunk(square) * LEVELS)
    return np.array(found, np.float32).reshape(-1, SIZE, SIZE)


def shrunk(square):
    """The mean of each of 8 by 8 cells."""
    cuts = np.linspace(0, len(square), SIZE + 1).round().astype(int)
    return np.array([[square[t:max(b, t + 1), l:max(r, l + 1)].mean() for l, r in zip(cuts, cuts[1:])] for t, b in zip(cuts, cuts[1:])])


def main(args):
    picture = np.load(args[0]) if args else write([3, 1, 4, 1, 5, 9, 2, 6])
    found = characters(picture)
    if not len(found): sys.exit("ocr: no characters in the picture")
    model = tenon.compile(os.path.join(HERE, "digits/digits.onnx"))
    probability = model(found)
    print("".join(str(k) for k in probability.argmax(axis=1)), f"({probability.max(axis=1).min():.0%} sure of the least certain)")


if __name__ == "__main__": main(sys.argv[1:])
