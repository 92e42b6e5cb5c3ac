"""Gradients against central differences along random directions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import treadle as td
from treadle.dsl.types import flatten

BACKENDS = ("reference", "native")


def directional(f, args, k, step=1e-5):
    """A random direction of argument k, and the derivative of `f` along it by differences."""
    rng = np.random.default_rng(7)
    d = rng.standard_normal(np.shape(args[k]))

    def value(t):
        moved = list(args)
        moved[k] = args[k] + t * d
        used = [td.use(a) if np.ndim(a) else a for a in moved]
        return td.run(f(*used), backend="reference")

    return d, (8 * (value(step) - value(-step)) - value(2 * step) + value(-2 * step)) / (12 * step)


def assert_gradient(f, *args, rtol=1e-6, atol=1e-8, backends=BACKENDS):
    """The gradient by each argument and the forward derivative along each, evaluated and compiled,
    on each backend."""
    numbers = tuple(range(len(args)))
    differentiated = td.grad(f, argnums=numbers)
    expected = [directional(f, args, k) for k in numbers]
    for backend in backends:
        for found in (
            td.run(differentiated(*args), backend=backend),
            td.jit(differentiated, backend=backend)(*args),
        ):
            for a, g, (d, along) in zip(args, found, expected, strict=True):
                assert np.shape(g) == np.shape(a)
                assert g.dtype == np.asarray(a).dtype
                np.testing.assert_allclose(np.sum(g * d), along, rtol=rtol, atol=atol)
        ahead = sum(along for _, along in expected)
        directions = tuple(d for d, _ in expected)
        _, moved = td.run(td.jvp(f, args, directions), backend=backend)
        np.testing.assert_allclose(moved, ahead, rtol=rtol, atol=atol)


def inexact(values: Any) -> list[Any]:
    """The real results of floats, in a flat list."""
    if isinstance(values, dict):
        values = tuple(values.values())
    if isinstance(values, list):
        values = tuple(values)
    if dataclasses.is_dataclass(values) or isinstance(values, tuple):
        return [v for part in flatten(values, lambda v: False)[0] for v in inexact(part)]
    if isinstance(values, td.Array) and not values.structure.is_leaf:
        return inexact(td.unzip(values))
    array = td.use(values)
    if array.dtype in (td.complex64, td.complex128):
        return [td.real(array), td.imag(array)]
    return [array] if array.dtype in (td.float64, td.float32) else []


def weighted(values: Any) -> Any:
    """One number that depends on every finite element of every result, on each in its own way."""

    def of(i: Any, x: Any, k: int) -> Any:
        return td.where(td.isfinite(x), x * td.cos(i * 1.3 + k), 0)

    total: Any = 0.0
    for k, v in enumerate(inexact(values)):
        total = total + td.sum(td.imap(lambda i, x, k=k: of(i, x, k), td.flatten(v)))
    return total
