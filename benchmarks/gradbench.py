"""Functions of GradBench (https://github.com/gradbench/gradbench), in arrays: mixtures of Gaussians
(`gmm`), bundle adjustment (`ba`), hand tracking (`ht`) and the LSTM of ADBench; k-means (`kmeans`),
log-sum-exp (`lse`), least squares by a polynomial (`llsq`), a Runge-Kutta method (`ode`) and
determinants (`det`).

Each is written once, for treadle and for `jax.numpy`.  `particle` and `saddle`, which are about
derivatives in derivatives, are in tests/benchmarks/test_gradbench.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td

rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Workload:
    """`function(m, *arguments, *data)` returns one number, of the module m (treadle or jax.numpy);
    it is differentiated by the arguments."""

    name: str
    target: float
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    memory: int | None = None
    data: tuple[Any, ...] = ()


def log_sum_exp(m: Any, x: Any, axis: int) -> Any:
    most = m.max(x, axis=axis)
    return m.log(m.sum(m.exp(x - m.expand_dims(most, axis)), axis)) + most


def mixture(d: int, k: int, n: int) -> Workload:
    """The likelihood of a mixture of k Gaussians whose inverse covariances have the Cholesky
    factors exp(q) + lower: of n points in d dimensions."""

    def loss(m: Any, alphas: Any, means: Any, q: Any, lower: Any, x: Any) -> Any:
        below = lower * np.tril(np.ones((d, d)), -1)
        centred = x[:, None, :] - means[None, :, :]
        moved = m.exp(q)[None] * centred + m.einsum("kij,nkj->nki", below, centred)
        main = alphas[None] + m.sum(q, 1)[None] - 0.5 * m.sum(moved * moved, 2)
        fit = m.sum(log_sum_exp(m, main, 1)) - x.shape[0] * log_sum_exp(m, alphas, 0)
        prior = 0.5 * (m.sum(m.exp(2 * q)) + m.sum(below * below)) - m.sum(q)
        return fit + prior

    factors = rng.normal(size=(k, d)) * 0.3, rng.normal(size=(k, d, d)) * 0.3
    given = (rng.normal(size=k), rng.random((k, d)), *factors, rng.random((n, d)))
    return Workload(f"gmm, {k} Gaussians, {n} points in {d} dimensions", 4, loss, given)


def _cross(m: Any, a: Any, b: Any) -> list[Any]:
    return [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]


def adjustment(cameras: int, points: int, seen: int) -> Workload:
    """The sum of squared reprojection errors of bundle adjustment."""

    def loss(m: Any, cams: Any, x: Any, w: Any, camera: Any, point: Any, features: Any) -> Any:
        cam, place = cams[camera], x[point]
        c = [cam[:, k] for k in range(11)]
        p = [place[:, k] - c[3 + k] for k in range(3)]
        angle = m.sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2])
        axis = [c[k] / angle for k in range(3)]
        cos, sin = m.cos(angle), m.sin(angle)
        along = (axis[0] * p[0] + axis[1] * p[1] + axis[2] * p[2]) * (1 - cos)
        turned = [p[k] * cos + v * sin + axis[k] * along
                  for k, v in enumerate(_cross(m, axis, p))]  # fmt: skip
        u, v = turned[0] / turned[2], turned[1] / turned[2]
        square = u * u + v * v
        bent = 1 + c[9] * square + c[10] * square * square
        errors = [w * (c[6] * e * bent + c[7 + k] - features[:, k]) for k, e in enumerate((u, v))]
        return m.sum(errors[0] * errors[0] + errors[1] * errors[1]) + m.sum((1 - w * w) ** 2)

    given = (rng.random((cameras, 11)) + 0.5, rng.random((points, 3)) + 2, rng.random(seen))
    data = rng.integers(0, cameras, seen), rng.integers(0, points, seen), rng.random((seen, 2))
    return Workload(f"ba, {seen} observations", 4, loss, given, data=data)


def k_means(m: Any, centres: Any, points: Any) -> Any:
    apart = points[:, None, :] - centres[None, :, :]
    return m.sum(m.min(m.sum(apart * apart, 2), axis=1))


def lstm(layers: int, length: int, size: int) -> Workload:
    sequence = rng.integers(0, 2, (length, size)).astype(np.float64)

    def loss(m: Any, weights: Any, extra: Any) -> Any:
        def squashed(x: Any) -> Any:
            return 1 / (1 + m.exp(-x))

        def step(state: Any, x: Any) -> Any:
            h, c = state
            x = x * extra[0]
            hidden, cells = [], []
            for k in range(layers):
                w = [weights[k, j] for j in range(8)]
                forget, enter = squashed(x * w[0] + w[4]), squashed(h[k] * w[1] + w[5])
                leave, change = squashed(x * w[2] + w[6]), m.tanh(h[k] * w[3] + w[7])
                cells.append(c[k] * forget + enter * change)
                hidden.append(leave * m.tanh(cells[k]))
                x = hidden[k]
            y = x * extra[1] + extra[2]
            state = m.stack(hidden), m.stack(cells)
            return state, y - m.log(m.sum(m.exp(y)) + 2)

        start = m.zeros((layers, size)), m.zeros((layers, size))
        if m is td:
            _, y = td.scan(step, start, td.use(sequence[:-1]))
        else:
            import jax

            _, y = jax.lax.scan(step, start, sequence[:-1])
        return -m.sum(y * sequence[1:]) / (length - 1)

    given = rng.normal(size=(layers, 8, size)) * 0.3, rng.normal(size=(3, size))
    return Workload(f"lstm, {layers} layers, {length} steps of {size}", 4, loss, given)


def loop(m: Any, count: int, step: Callable[[Any], Any], start: Any) -> Any:
    """The state after so many steps."""
    if m is td:
        return td.iterate(count, step, start)
    import jax

    return jax.lax.scan(lambda s, _: (step(s), None), start, None, length=count)[0]


def squares(points: int, terms: int) -> Workload:
    """Half of the sum of squared distances between the sign of t and a polynomial."""
    t = np.linspace(-1, 1, points)

    def loss(m: Any, x: Any, powers: Any, seen: Any) -> Any:
        return 0.5 * m.sum((seen - powers @ x) ** 2)

    data = t[:, None] ** np.arange(terms), np.sign(t)
    given = (rng.normal(size=terms),)
    return Workload(f"llsq, {points} points, {terms} terms", 4, loss, given, data=data)


def runge_kutta(size: int, steps: int) -> Workload:
    """The last component at 1 of y, where y'[0] = x[0] and y'[k] = x[k] y[k - 1]."""

    def slope(m: Any, x: Any, y: Any) -> Any:
        return x * m.concatenate([m.ones((1,)), y[:-1]])

    def loss(m: Any, x: Any) -> Any:
        h = 1 / steps

        def step(y: Any) -> Any:
            a = slope(m, x, y)
            b = slope(m, x, y + a * (h / 2))
            c = slope(m, x, y + b * (h / 2))
            return y + (a + 2 * b + 2 * c + slope(m, x, y + c * h)) * (h / 6)

        return loop(m, steps, step, m.zeros((size,)))[-1]

    given = (rng.random(size) + 0.5,)
    return Workload(f"ode, {size} components, {steps} steps", 4, loss, given)


def determinants(count: int, size: int) -> Workload:
    """The sum of the determinants of many matrices."""
    given = (rng.normal(size=(count, size, size)),)
    name = f"det, {count} matrices, {size} x {size}"
    return Workload(name, 4, lambda m, x: m.sum(m.linalg.det(x)), given)


#: The bones of a hand: its root, its wrist, and the four bones of each of five fingers, those at
#: the same place in theirs after each other.
FINGERS, JOINTS = 5, 4
BONES = 2 + FINGERS * JOINTS


def _rotations(m: Any, angles: Any) -> Any:
    """The 4 x 4 matrices of rotations about the axes by three angles each."""
    (cx, cy, cz), (sx, sy, sz) = ([f(angles[:, k]) for k in range(3)] for f in (m.cos, m.sin))
    none = m.zeros_like(cx)
    rows = [
        [cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz, none],
        [cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz, none],
        [-sy, sx * cy, cx * cy, none],
        [none, none, none, none + 1],
    ]
    return m.stack([m.stack(row, axis=1) for row in rows], axis=1)


def _chained(m: Any, local: Any) -> Any:
    """The positions of all bones, from those relative to the bone that each hangs from."""
    wrist = local[0] @ local[1]
    found = [local[:1], wrist[None]]
    for joint in range(JOINTS):
        first = 2 + FINGERS * joint
        found.append((found[-1] if joint else wrist[None]) @ local[first : first + FINGERS])
    return m.concatenate(found)


def hand(vertices: int, seen: int) -> Workload:
    """The sum of squared distances of points to the vertices of a hand that bones move: by the
    angles of the bones, and the place of the hand."""
    rest = np.tile(np.eye(4), (BONES, 1, 1))
    rest[:, :3, 3] = rng.normal(size=(BONES, 3))
    back = np.linalg.inv(_chained(np, rest))

    def loss(m: Any, angles: Any, place: Any, base: Any, weights: Any, which: Any, points: Any
             ) -> Any:  # fmt: skip
        turned = _chained(m, rest @ _rotations(m, angles)) @ back
        skin = m.einsum("bij,vj->bvi", turned, base)
        found = m.einsum("vb,bvi->vi", weights, skin)[:, :3] + place[None]
        return m.sum((points - found[which]) ** 2)

    weights = rng.random((vertices, BONES)) ** 4
    weights /= weights.sum(1, keepdims=True)
    base = np.concatenate([rng.normal(size=(vertices, 3)), np.ones((vertices, 1))], 1)
    data = base, weights, rng.integers(0, vertices, seen), rng.normal(size=(seen, 3))
    given = rng.normal(size=(BONES, 3)) * 0.3, rng.normal(size=3)
    return Workload(f"ht, {vertices} vertices, {seen} points", 4, loss, given, data=data)
