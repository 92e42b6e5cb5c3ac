"""The page: HTML, CSS and JavaScript combined with the data of programs into one file."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from treadle.dsl.errors import TreadleError
from treadle.skeletons.schedules import (
    Block,
    Column,
    Hilbert,
    Morton,
    Row,
    ScheduleLike,
    Swizzle,
    Tile,
    ZigZag,
    as_schedule,
)  # fmt: skip
from treadle.skeletons.simulator.patterns import Pattern

#: The most accesses of a program: a browser simulates all of them while a slider is dragged.
MOST_ACCESSES = 1 << 20

#: The schedules whose kernels the page shows; others show the nearest one.
KERNELS = (
    Row(), Column(4), Column(8), Column(32), ZigZag(8), Tile(4, 4), Tile(8, 8), Swizzle(4),
    Morton(), Hilbert(), Row() | Block(8, 32), Column(32) | Block(8, 32),
)  # fmt: skip


class PageError(ValueError):
    """A user's mistake; the message says what to write."""


@dataclass(frozen=True)
class Variant:
    """A program's addresses for one shape; `label` is its name on the page.

    `program`: what `explain()` is asked for these extents; without one, that of the `Shown`.
    """

    label: str
    pattern: Pattern
    program: Any = None


@dataclass(frozen=True)
class Shown:
    """A program of the page.

    `note`: a short description; `code`: its Python source; `program`, `kernel`: the source of the
    kernels' text (the operation of that name, under each of `KERNELS`); `start`: initial settings,
    by the names of the page's state (order, width, lines, line, policy).
    """

    key: str
    title: str
    note: str
    code: str
    variants: tuple[Variant, ...]
    program: Any = None
    kernel: str | None = None
    start: Mapping[str, Any] = field(default_factory=dict)


def page(programs: Sequence[Shown], kernels: Sequence[ScheduleLike] = KERNELS) -> str:
    """The HTML of a page with these programs, as one self-contained file.

    kernels: the schedules for which it contains the kernels' text.

    Errors: `PageError` for a program with more than `MOST_ACCESSES` accesses.
    """
    here = files(__package__)

    def text(name: str) -> str:
        return here.joinpath(name).read_text(encoding="utf-8")

    # "</" would end the script element early; in JSON "<\/" is the same text.
    described = [_program(p, kernels) for p in programs]
    data = json.dumps(described, ensure_ascii=False).replace("</", "<\\/")
    parts = {
        "page.css": text("page.css"),
        "simulator.js": text("simulator.js"),
        "pictures.js": text("pictures.js"),
        "page.js": text("page.js"),
        "data": data,
    }
    html = text("page.html")
    for name, part in parts.items():
        html = html.replace(f"{{{{ {name} }}}}", part, 1)
    return html


def _program(shown: Shown, kernels: Sequence[ScheduleLike]) -> dict[str, Any]:
    return {
        "key": shown.key,
        "title": shown.title,
        "note": shown.note,
        "code": shown.code,
        "start": dict(shown.start),
        "variants": [_variant(v) for v in shown.variants],
        "texts": _packed(json.dumps(_texts(shown, kernels)).encode()),
    }


def _variant(variant: Variant) -> dict[str, Any]:
    pattern = variant.pattern
    outputs = int(np.prod(pattern.shape))
    accesses = outputs * pattern.touched(np.zeros((1, len(pattern.shape)), np.int64)).shape[1]
    if accesses > MOST_ACCESSES:
        raise PageError(
            f"{pattern.name} on {variant.label} makes {accesses:,} accesses, and the page takes "
            f"{MOST_ACCESSES:,}: choose a smaller --shape; what an order does shows on small ones."
        )
    table = pattern.touched(np.stack(np.unravel_index(np.arange(outputs), pattern.shape), -1))
    # One array per read, as differences: an affine index becomes a run of equal numbers.
    deltas = np.diff(table.T.reshape(-1), prepend=0).astype("<i4")
    placed = [{"name": a.name, "base": a.base, "shape": list(a.shape)} for a in pattern.arrays]
    return {
        "label": variant.label,
        "name": pattern.name,
        "shape": list(pattern.shape),
        "span": pattern.span,
        "taps": table.shape[1],
        "arrays": placed,
        "table": _packed(deltas.tobytes()),
    }


def _texts(shown: Shown, schedules: Sequence[ScheduleLike]) -> dict[str, Any]:
    """The kernels under each applicable schedule, and `explain()` for each shape."""
    if shown.program is None:
        return {"kernels": [], "explain": [""] * len(shown.variants)}
    kernels: list[dict[str, Any]] = []
    for schedule in schedules:
        try:
            made = shown.program.scheduled(**{shown.kernel: schedule}) if shown.kernel else None
            made = made or shown.program
            text = made.source("cuda")
        except TreadleError:  # a schedule that does not apply to this operation
            continue
        if len(kernels) == 1 and text == kernels[0]["cuda"]:  # it ignores the order
            kernels[0]["schedule"] = "any order: this operation has its own"
            break
        order, block = as_schedule(schedule).order, as_schedule(schedule).block
        kernels.append({
            "schedule": repr(schedule) if shown.kernel else "a schedule chosen by treadle",
            "cuda": text, "name": type(order).__name__, "blocks": block is not None,
            "size": next(iter(order.arguments().values()), 0) if order else 0,
        })  # fmt: skip
        if not shown.kernel:
            break
    explained = [(variant.program or shown.program).explain() for variant in shown.variants]
    return {"kernels": kernels, "explain": explained}


def _packed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")
