"""Random arguments: arrays in any layout as expressions of NumPy, numbers at their types' edges."""

from __future__ import annotations

import math
from random import Random

from ..helpers import COMPLEXES, DTYPES, INTEGERS

EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65)
LONG = (127, 257, 1000, 1025, 2999)
MOST = 3000
#: Whole numbers of a float type below this size, products of two of which are exact.
SPECIAL = "0.0, -0.0, 1, -1, 0.5, 2.5, -1.5, 3, 1e-3, np.inf, -np.inf, np.nan"
WHOLE = {"float16": 9, "bfloat16": 4, "float32": 100, "float64": 100}
LAYOUTS = (
    *("plain",) * 5, *("columns", "strided", "reversed") * 2,
    "axes", "broadcast", "unaligned", "swapped", "frozen", "window",
)  # fmt: skip


def shape(rng: Random, rank: int | None = None) -> tuple[int, ...]:
    if rank is None:
        rank = rng.choice((0, 1, 1, 1, 2, 2, 2, 3, 4))
    pool = EXTENTS if rng.random() < 0.85 else (*EXTENTS, *LONG)
    while True:
        found = tuple(rng.choice(pool) for _ in range(rank))
        # Layouts have elements even where an extent is 0.
        if math.prod(max(n, 1) for n in found) <= MOST:
            return found


def kind(rng: Random) -> str:
    return rng.choice((*DTYPES, "int64", "int32", "float64", "float32", "uint8"))


def _dtype(kind: str) -> str:
    return "bfloat16" if kind == "bfloat16" else f"'{kind}'"


def values(rng: Random, kind: str, shape: tuple[int, ...]) -> str:
    """A row-major array: small whole numbers, the whole range, or special numbers."""
    draw = f"np.random.default_rng({rng.randrange(100)})"
    dtype = _dtype(kind)
    if kind == "bool":
        return (
            f"({draw}.random({shape}) < 0.5)" if shape else str(f"np.array({rng.random() < 0.5})")
        )
    form = rng.random()
    if kind in INTEGERS:
        least, most = f"np.iinfo({dtype}).min", f"np.iinfo({dtype}).max"
        if form < 0.55:
            low = 0 if kind[0] == "u" else -9
            text = f"{draw}.integers({low}, 10, {shape}, {dtype})"
        elif form < 0.8:
            text = f"{draw}.integers({least}, {most}, {shape}, {dtype}, True)"
        else:
            edges = f"np.array([{least}, {most}, 0, 1, 2, 7, {most} - 1], {dtype})"
            text = f"{draw}.choice({edges}, {shape})"
        return text if shape else f"np.asarray({text})"
    if kind in COMPLEXES:
        if not shape:
            return f"np.array({rng.randrange(-5, 6)}+{rng.randrange(6)}j, {dtype})"
        part = f"{draw}.integers(-5, 6, {shape})"
        return f"({part} + 1j * {part}[::-1]).astype({dtype})"
    if form < 0.65:
        text = f"{draw}.integers({-WHOLE[kind]}, {WHOLE[kind] + 1}, {shape})"
    elif form < 0.85:
        text = f"{draw}.normal(0, {rng.choice((1, 1, 10))}, {shape})"
    else:
        text = f"{draw}.choice([{SPECIAL}], {shape})"
    return f"{text}.astype({dtype})" if shape else f"np.array({text}, {dtype})"


def array(rng: Random, kind: str, shape: tuple[int, ...], earlier: list[str]) -> str:
    """An array in some layout; `earlier` are names of arguments of this type and shape."""
    if earlier and rng.random() < 0.15:
        name = rng.choice(earlier)
        return f"{name}[::-1]" if shape and rng.random() < 0.5 else f"{name}[...]"
    layout = rng.choice(LAYOUTS)
    dtype = _dtype(kind)
    if layout == "swapped" and kind not in ("bool", "bfloat16", "int8", "uint8"):
        return f"{values(rng, kind, shape)}.astype(np.dtype({dtype}).newbyteorder())"
    if layout in ("unaligned", "frozen"):
        before = 'b"\\0" + ' if layout == "unaligned" else ""
        offset = ", 1" if layout == "unaligned" else ""
        count = ", -1" if offset else ""
        if 0 in shape:
            return values(rng, kind, shape)
        return (
            f"np.frombuffer({before}{values(rng, kind, shape)}.tobytes(), {dtype}{count}{offset})"
            f".reshape({shape})"
        )
    if not shape:
        return values(rng, kind, shape)
    if layout == "columns":
        return f"np.asfortranarray({values(rng, kind, shape)})"
    if layout == "axes":
        order = list(range(len(shape)))
        rng.shuffle(order)
        stored = [0] * len(shape)
        for place, axis in enumerate(order):
            stored[axis] = shape[place]
        return f"{values(rng, kind, tuple(stored))}.transpose({tuple(order)})"
    if layout == "strided":
        steps = [rng.choice((1, 2, 3)) for _ in shape]
        stored = tuple(n * s for n, s in zip(shape, steps, strict=True))
        return f"{values(rng, kind, stored)}[{', '.join(f'::{s}' for s in steps)}]"
    if layout == "reversed":
        return f"{values(rng, kind, shape)}[{', '.join(rng.choice(('::-1', ':')) for _ in shape)}]"
    if layout == "window":
        stored = tuple(n + 3 for n in shape)
        return f"{values(rng, kind, stored)}[{', '.join(f'1:{n + 1}' for n in shape)}]"
    if layout == "broadcast":
        kept = tuple(1 if rng.random() < 0.6 else n for n in shape)
        return f"np.broadcast_to({values(rng, kind, kept)}, {shape})"
    return values(rng, kind, shape)


def number(rng: Random) -> str:
    """A Python or NumPy number, often at an edge of its type."""
    form = rng.random()
    if form < 0.6:
        near = rng.choice((0, 1, 2, 3, 5, 12345, -1, -2, 255, 256, 2**31, -(2**31), 2**32, 2**62,
                           2**63 - 1, -(2**63), 3037000500, -3037000500))  # fmt: skip
        return str(near + rng.choice((0, 0, 0, 1, -1)) if abs(near) < 2**62 else near)
    if form < 0.75:
        return rng.choice(("0.0", "1.0", "-2.5", "3.0", "100.0", "1e300", "float('inf')"))
    if form < 0.8:
        return rng.choice(("True", "False"))
    kind = rng.choice(INTEGERS)
    info = f"np.iinfo(np.{kind})"
    return f"np.{kind}({rng.choice((f'{info}.min', f'{info}.max', '1', '0', '3'))})"


__all__ = ["array", "kind", "number", "shape", "values"]
