"""The built-in programs of the page: practical ones, and the settings of the paper's figures."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import treadle as td
from treadle.skeletons.simulator.patterns import matmul_pattern, stencil_pattern
from treadle.skeletons.simulator.programs import pattern_of

from .page import Shown, Variant

SHAPES = ((16, 16), (24, 40), (32, 32), (64, 64))
BINS = 64
UNTYPED = "  # type: ignore[no-untyped-def]"  # hidden from readers of the page


def stencil3(image: td.Array) -> td.Array:
    box = [(i, j) for i in range(-1, 2) for j in range(-1, 2)]
    return td.stencil(
        lambda w: sum(w[i, j] / (1 + i * i + j * j) for i, j in box), image, name="blur"
    )


def stencil7(image: td.Array) -> td.Array:
    box = [(i, j) for i in range(-3, 4) for j in range(-3, 4)]
    return td.stencil(
        lambda w: sum(w[i, j] / (1 + i * i + j * j) for i, j in box), image, name="blur"
    )


def stencil9(image: td.Array) -> td.Array:
    box = [(i, j) for i in range(-4, 5) for j in range(-4, 5)]
    return td.stencil(
        lambda w: sum(w[i, j] / (1 + i * i + j * j) for i, j in box), image, name="blur"
    )


def five_point(u: td.Array) -> td.Array:
    def euler(w):  # type: ignore[no-untyped-def]
        return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])

    return td.stencil(euler, u, name="heat")


def product(a: td.Array, b: td.Array) -> td.Array:
    def element(i, j):  # type: ignore[no-untyped-def]
        return td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0))

    return td.generate((a.shape[0], b.shape[1]), element, name="product")


def transposition(a: td.Array) -> td.Array:
    return td.generate(a.shape[::-1], lambda i, j: a[j, i], name="transposition")


def column_sum(a: td.Array) -> td.Array:
    return td.sum(a, axis=0)


def histogram(levels: td.Array) -> td.Array:
    def add(new, old):  # type: ignore[no-untyped-def]
        return new + old

    bins, ones = td.fill(BINS, 0), td.fill(levels.shape, 1)
    return td.permute(add, bins, lambda i, j: levels[i, j], ones, name="histogram")


def presets(shapes: tuple[tuple[int, int], ...] = SHAPES) -> list[Shown]:
    """The page's built-in programs, for each of `shapes`.

    >>> [p.key for p in presets(((4, 4),))][:3]
    ['stencil7', 'stencil3', 'stencil9']
    """
    window = Variant("16 × 16, figure 4", stencil_pattern(16, 16, 7, 7))
    matrices = Variant("16 × 16, figure 5", matmul_pattern(16, 16, 16))
    paper = {"order": "Column", "width": 4, "line": 4, "policy": "StepLru"}
    made = [
        _Preset(stencil7, "7×7 stencil", "Every element reads 49 neighbours. In the setting of "
                "figure 4 of Prasetya (2021) there are no borders: a row continues in the next "
                "one, and nothing is stored.", "blur", {**paper, "lines": 24}, more=(window,)),
        _Preset(stencil3, "3×3 stencil", "Nine neighbours, the border repeated outside.", "blur",
                {**paper, "lines": 16}),
        _Preset(stencil9, "9×9 stencil", "81 neighbours: nine rows have to stay while the order "
                "moves on.", "blur", {**paper, "width": 8, "lines": 48}),
        _Preset(five_point, "5-point stencil", "One step of the heat equation: left, right, "
                "above, below.", "heat", {**paper, "lines": 12}),
        _Preset(product, "matrix product, naive", "Every element reads a row of a and a column of "
                "b; neighbouring columns share cache lines. Figure 5 of Prasetya (2021) is "
                "without the stores.", "product", {**paper, "lines": 32}, _factors, (matrices,)),
        _Preset(transposition, "transposition", "Reads down, writes along: whichever way a row "
                "order goes, one of the two crosses a line at every step.", "transposition",
                {**paper, "order": "Tile", "rows": 4, "cols": 4, "lines": 12}),
        _Preset(column_sum, "column sum", "A fold down the columns. Its result has one axis, so "
                "an order of planes has nothing to choose; a cache with a line for every row does.",
                None, {"order": "Row", "line": 4, "lines": 12, "policy": "Lru"}),
        _Preset(histogram, "histogram", "A permute: where an element goes depends on the data, "
                "here a soft picture. Neighbours have like levels, so orders that stay near "
                "stay in the bins.", "histogram",
                {**paper, "order": "Hilbert", "lines": 8}, _levels),
    ]  # fmt: skip
    return [each.shown(shapes) for each in made]


def _floats(shape: tuple[int, int]) -> tuple[Any, ...]:
    return (np.zeros(shape, np.float32),)


def _factors(shape: tuple[int, int]) -> tuple[Any, ...]:
    m, n = shape
    return np.zeros((m, m), np.float32), np.zeros((m, n), np.float32)


def _levels(shape: tuple[int, int]) -> tuple[Any, ...]:
    """Two soft hills with a little noise, as levels 0 … BINS - 1."""
    i, j = np.mgrid[: shape[0], : shape[1]] / np.maximum(shape, 2)[:, None, None]
    hills = np.exp(-8 * ((i - 0.3) ** 2 + (j - 0.3) ** 2)) + np.exp(-6 * (i - 0.8) ** 2 - 9 * j**2)
    noise = np.random.default_rng(0).normal(0, 0.015, shape)
    return (np.clip((hills / hills.max() + noise) * BINS, 0, BINS - 1).astype(np.int32),)


@dataclass(frozen=True)
class _Preset:
    """A function, its description, its arrays for a shape, and further variants."""

    function: Callable[..., Any]
    title: str
    note: str
    kernel: str | None
    start: dict[str, Any]
    data: Callable[[tuple[int, int]], tuple[Any, ...]] = _floats
    more: tuple[Variant, ...] = ()

    def shown(self, shapes: tuple[tuple[int, int], ...]) -> Shown:
        # Execute exactly the text that the page shows, so that line numbers agree.
        name = self.function.__name__
        code = textwrap.dedent(inspect.getsource(self.function)).replace(UNTYPED, "")
        names: dict[str, Any] = {"td": td, "BINS": BINS}
        exec(compile(code, f"{name}.py", "exec"), names)
        variants, program = [], None
        for shape in (*(v.pattern.shape for v in self.more), *shapes):
            arrays = self.data((shape[0], shape[1]))
            program = td.jit(names[name]).lower(*arrays)
            found = pattern_of(program, self.kernel, arrays)
            variants.append(Variant(" × ".join(map(str, shape)), found, program))
        for at, variant in enumerate(self.more):  # the addresses of the paper's figures
            variants[at] = replace(variant, program=variants[at].program)
        return Shown(name, self.title, self.note, code, tuple(variants), program, self.kernel,
                     self.start)  # fmt: skip
