"""What all works share: sizes, random data, JAX if it is here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[], Any]


@dataclass(frozen=True)
class Scale:
    """How large the data is: "full", "quick" (still beyond the caches) or "tiny" (for checking).

    `backend` is treadle's.
    """

    name: str = "full"
    backend: str = "native"

    def n(self, full: int, quick: int | None = None, tiny: int = 1000) -> int:
        """An extent at this scale."""
        return {"full": full, "quick": full if quick is None else quick, "tiny": tiny}[self.name]


def generator() -> np.random.Generator:
    """The same random numbers in every run."""
    return np.random.default_rng(20)


def uniform(shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Any:
    """Random numbers in [low, high)."""
    if dtype == np.float32:
        made = generator().random(shape, dtype=np.float32)
        return made if (low, high) == (0.0, 1.0) else (low + (high - low) * made).astype(np.float32)
    return generator().uniform(low, high, shape).astype(dtype)


def count(n: int) -> str:
    """An extent in words: 16 M, 256 k."""
    for power, letter in ((1 << 20, "M"), (1 << 10, "k")):
        if n >= power and n % power == 0:
            return f"{n // power} {letter}"
    return str(n)


try:
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")
except ImportError:
    jax = jnp = None


def by_jax(f: Callable[..., Any], *args: Any, name: str = "JAX") -> dict[str, Run]:
    """{name: the compiled function on data that JAX holds already}; nothing without JAX."""
    if jax is None:
        return {}
    compiled = jax.jit(f)
    held = [jax.device_put(a) for a in args]
    return {name: lambda: jax.block_until_ready(compiled(*held))}
