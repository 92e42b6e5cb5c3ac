"""Helpers of the examples: load photographs, display pictures, tables and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
OUTPUT = Path("treadle-output")
PAPER, INK = (250, 246, 236), (28, 34, 58)


class ExampleError(ValueError):
    """A user's mistake: the message says what to do about it."""


@dataclass(frozen=True)
class Table:
    """A titled table with rows of numbers and text; `str` aligns the columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cells(self) -> list[list[str]]:
        """Every row as text, with numbers to four significant digits."""
        return [[_text(value) for value in row] for row in self.rows]

    def __str__(self) -> str:
        lines = [list(self.columns), *self.cells()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = (
            "  ".join(_align(c, w) for c, w in zip(row, widths, strict=True)) for row in lines
        )
        return "\n".join([self.title, *(line.rstrip() for line in padded)])


@dataclass(frozen=True)
class Made:
    """The results of an example: values by name, and what to display."""

    values: dict[str, Any]
    picture: Path | None = None
    tables: tuple[Table, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        parts = [*self.notes, *map(str, self.tables)]
        return "\n\n".join(parts + ([f"picture: {self.picture}"] if self.picture else []))


def kernels(program: Any, explain: bool) -> str:
    """One line per kernel of a program, in launch order; or the full `explain()`.

    MB: the size of the arrays that a launch reads and writes.
    """
    if explain:
        return str(program.explain())
    from treadle.dsl.graphs.names import Names, in_order, is_kernel

    names, rows = Names(program), []
    for depth, node, _ in in_order(program.roots):
        if not is_kernel(node):
            continue
        moved = [(names.size(x.shape), x.type.bytes) for x in (*node.inputs(), *node.leaves)]
        total = round(sum((n or 0) * size for n, size in moved) / 1e6, 4)
        made = " and ".join(dict.fromkeys(names.type(leaf) for leaf in node.leaves))
        name = f"{node.label}, in a loop" if depth else str(node.label)
        rows.append((name, len(node.fused), total, made))
    columns = ("kernel", "fused in", "MB", "makes")
    table = Table(f"{len(rows)} kernels of {program.name!r}", columns, tuple(rows))
    return f"{table}\n(--explain shows what each reads, writes and costs)"


def photograph(image: Path | str | None = None, size: int | None = None) -> Pixels:
    """A picture as (height, width, 3) bytes: the user's, or Grace Hopper's portrait (public
    domain).

    If `size` is given, the picture is resampled to that many pixels along its longer side.
    """
    from PIL import Image, UnidentifiedImageError

    if image is None:
        from matplotlib.cbook import get_sample_data

        image = Path(get_sample_data("grace_hopper.jpg", asfileobj=False))
    try:
        with Image.open(image) as opened:
            picture = opened.convert("RGB")
    except FileNotFoundError:
        raise ExampleError(f"no such image: {image}") from None
    except (UnidentifiedImageError, OSError) as problem:
        raise ExampleError(f"cannot read {image} as an image: {problem}") from None
    if size is not None:
        scale = size / max(picture.size)
        wide, high = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((wide, high), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def colour(values: NDArray[Any], palette: str, low: float = 0.0, high: float = 1.0) -> Pixels:
    """Map values between `low` and `high` to RGB bytes with a matplotlib palette."""
    from matplotlib import colormaps

    unit = (np.asarray(values, dtype=np.float64) - low) / max(high - low, 1e-300)
    rgba: Pixels = np.asarray(colormaps[palette](np.clip(unit, 0, 1), bytes=True))
    rgb: Pixels = rgba[..., :3]
    return rgb


def blend(amount: NDArray[Any], none: Sequence[int], full: Sequence[int]) -> Pixels:
    """Interpolate from the colour `none` where `amount` is 0 to `full` where it is 1."""
    share = np.clip(np.asarray(amount, dtype=np.float64), 0, 1)[..., None]
    return np.rint((1 - share) * np.asarray(none) + share * np.asarray(full)).astype(np.uint8)


def beside(*pictures: NDArray[Any], gap: int = 8) -> Pixels:
    """Join pictures of equal height horizontally, separated by white."""
    rgb = [p if p.ndim == 3 else np.repeat(p[..., None], 3, axis=2) for p in pictures]
    white = np.full((rgb[0].shape[0], gap, 3), 255, np.uint8)
    return np.concatenate([x for p in rgb for x in (white, p)][1:], axis=1).astype(np.uint8)


def captioned(pixels: NDArray[Any], captions: Sequence[str]) -> Pixels:
    """The picture with a line of text below each of its equally wide parts, if the lines fit."""
    from PIL import Image, ImageDraw, ImageFont

    width, size = pixels.shape[1], max(13, pixels.shape[1] // 64)
    font = ImageFont.load_default(size)
    each = width / max(len(captions), 1)
    if not captions or any(font.getlength(text) > each - 4 for text in captions):
        return pixels
    strip = Image.new("RGB", (width, 2 * size), PAPER)
    pen = ImageDraw.Draw(strip)
    for k, text in enumerate(captions):
        pen.text(((k + 0.5) * each, size), text, INK, font, anchor="mm")
    rgb = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
    return np.concatenate([rgb, np.asarray(strip)]).astype(np.uint8)


def save(pixels: NDArray[Any], output: Path | str, name: str, *captions: str) -> Path:
    """Write a PNG to `output` if it names a file, otherwise to `output`/`name`.png.

    captions: of the parts of the picture, from left to right.
    """
    from PIL import Image

    path = Path(output)
    path = path if path.suffix else path / f"{name}.png"
    if path.suffix.lower() not in Image.registered_extensions():
        raise ExampleError(f"cannot write {path}: end its name in .png (or name a folder)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = captioned(np.ascontiguousarray(pixels), captions)
        Image.fromarray(picture).save(path, optimize=True)
    except OSError as problem:
        raise ExampleError(f"cannot write {path}: {problem.strerror or problem}") from None
    return path


Listener = Callable[[str, int, int | None], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report the progress of the example inside the block by `listener(what, done, total)`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def stage(what: str) -> None:
    """Report what the example does next."""
    if (listener := _listener.get()) is not None:
        listener(what, 0, None)


def progress(count: int, what: str) -> Iterator[int]:
    """`range(count)` with progress reports."""
    for k in range(count):
        if (listener := _listener.get()) is not None:
            listener(what, k, count)
        yield k


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        plain = value == 0 or 1e-3 <= abs(float(value)) < 1e5
        return f"{value:.4g}" if plain else f"{value:.3e}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def _align(cell: str, width: int) -> str:
    numeric = cell[:1].isdigit() or cell[:1] == "-"
    return cell.rjust(width) if numeric else cell.ljust(width)
