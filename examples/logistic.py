"""Logistic regression: gradients for scipy.optimize."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import INK, OUTPUT, Made, colour, save, stage


def features(points: td.Array) -> td.Array:
    """Products of powers of the coordinates, up to degree 5 each."""
    return td.generate(
        (points.shape[0], 36), lambda i, k: points[i, 0] ** (k // 6) * points[i, 1] ** (k % 6)
    )


def loss(w: td.Array, points: td.Array, above: td.Array) -> td.Array:
    """The mean of log(1 + exp(∓score)), and a little of the weights' squares."""
    score = features(points) @ w
    sign = td.where(above, -1.0, 1.0)
    return td.mean(td.logaddexp(0.0, sign * score)) + 1e-4 * td.sum(w * w)


@td.jit
def value_and_gradient(w: td.Array, points: td.Array, above: td.Array):
    """What `minimize(jac=True)` takes."""
    return td.value_and_grad(loss)(w, points, above)


@td.jit
def curvature(w: td.Array, d: td.Array, points: td.Array, above: td.Array) -> td.Array:
    """The Hessian times d: the derivative of the gradient along it."""
    return td.jvp(lambda w: td.grad(loss)(w, points, above), (w,), (d,))[1]


def moons(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Points around two interlocked half circles."""
    random = np.random.default_rng(seed)
    angle, above = random.uniform(0, np.pi, n), random.random(n) < 0.5
    side = np.where(above, 1, -1)
    centre = np.stack([0.25 * -side, -0.12 * side], 1)
    points = centre + 0.6 * np.stack([np.cos(angle), side * np.sin(angle)], 1)
    return points + random.normal(0, 0.09, (n, 2)), above


def program() -> td.Program:
    """The value and the gradient, for any number of points."""
    points, above = moons(50, seed=0)
    return value_and_gradient.lower(np.zeros(36), points, above)


def main(output: Path = OUTPUT, n: int = 2000, seed: int = 2, size: int = 360) -> Made:
    """Draw the probabilities over the plane, and the points."""
    from scipy.optimize import minimize

    points, above = moons(n, seed)
    stage("optimising")
    found = minimize(value_and_gradient, np.zeros(36), (points, above), "Newton-CG", jac=True,
                     hessp=curvature)  # fmt: skip
    grid = np.stack(np.meshgrid(*[np.linspace(-1.2, 1.2, size)] * 2), -1).reshape(-1, 2)
    score = td.jit(lambda w, p: features(p) @ w)
    chance = 1 / (1 + np.exp(-np.clip(score(found.x, grid), -50, 50)))
    pixels = colour(chance.reshape(size, size), "RdBu")
    at = np.clip(np.rint((points + 1.2) / 2.4 * (size - 1)).astype(int), 1, size - 1)
    pixels[at[:, 1], at[:, 0]] = pixels[at[:, 1] - 1, at[:, 0]] = np.where(
        above[:, None], INK, (120, 20, 30)
    )
    right = float(np.mean((score(found.x, points) > 0) == above))
    work = f"{found.njev} gradients and {found.nhev} Hessian products"
    note = f"{work}: loss {found.fun:.4f}, {right:.1%} right"
    values = {"w": found.x, "loss": float(found.fun), "right": right}
    return Made(values, save(pixels[::-1], output, "logistic"), notes=(note,))
