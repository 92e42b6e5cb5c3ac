"""Handwritten digits: a neural network and its gradient."""

from pathlib import Path

import numpy as np

import treadle as td
from treadle.examples._show import INK, OUTPUT, PAPER, Made, blend, progress, save


def scores(p, x):
    """Of ten digits, for rows of pixels: one hidden layer."""
    return td.maximum(x @ p["w0"] + p["b0"], 0.0) @ p["w1"] + p["b1"]


def loss(p, x, digits):
    """The mean cross entropy."""
    s = scores(p, x)
    total = td.log(td.sum(td.exp(s - td.max(s, axis=1)[:, None]), axis=1)) + td.max(s, axis=1)
    return td.mean(total - td.generate((x.shape[0],), lambda i: s[i, digits[i]]))


@td.jit
def train(p, m, v, t, x, digits):
    """One step of Adam: the loss, and the next weights and moments."""
    value, g = td.value_and_grad(loss)(p, x, digits)
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
    v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in p}
    rate = 0.003 * td.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return value, {k: p[k] - rate * m[k] / (td.sqrt(v[k]) + 1e-8) for k in p}, m, v


def weights(hidden):
    """Random ones."""
    random, sizes = np.random.default_rng(0), {"w0": (64, hidden), "b0": hidden, "w1": (hidden, 10)}
    return {k: np.float32(random.normal(0, 0.2, n)) for k, n in (sizes | {"b1": 10}).items()}


def program() -> td.Program:
    """A training step, for any number of pictures and any width of the hidden layer."""
    p = weights(16)
    return train.lower(p, p, p, 1.0, np.zeros((20, 64), np.float32), np.zeros(20, np.int64))


def main(output: Path = OUTPUT, hidden: int = 128, rounds: int = 300) -> Made:
    """Train on 1 200 digits of scikit-learn; draw others, those that are read wrongly in red."""
    from sklearn.datasets import load_digits

    x, y = (a.astype(np.float32) / 16 if a.ndim > 1 else a for a in load_digits(return_X_y=True))
    p, m, v = weights(hidden), *({k: 0 * a for k, a in weights(hidden).items()} for _ in "mv")
    for t in progress(rounds, "training"):
        cost, p, m, v = train(p, m, v, t + 1.0, x[:1200], y[:1200])
    wrong = np.argmax(td.jit(scores)(p, x[1200:]), axis=1) != y[1200:]
    red, blue = (blend(x[1200:1680], PAPER, ink) for ink in ((200, 30, 40), INK))
    tiles = np.where(wrong[:480, None, None], red, blue).reshape(12, 40, 8, 8, 3)
    pixels = tiles.transpose(0, 2, 1, 3, 4).reshape(96, 320, 3).repeat(3, 0).repeat(3, 1)
    note = f"loss {float(cost):.4f}; {1 - wrong.mean():.1%} of the others are read rightly"
    values = {"loss": float(cost), "accuracy": 1 - float(wrong.mean())}
    return Made(values, save(pixels, output, "digits"), notes=(note,))
