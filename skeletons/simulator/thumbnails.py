"""Small pictures of schedules for notebooks, without matplotlib."""

from __future__ import annotations

import base64
import dataclasses
import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import TreadleError
from treadle.dsl.html import escape
from treadle.skeletons.schedules import as_schedule
from treadle.skeletons.schedules.resolved import Resolved
from treadle.skeletons.schedules.schedule import shown

from .diagrams import TIME, threads_of

#: Units along an axis: at least and at most; the most outputs; the size of the picture in pixels.
_FEWEST, _MOST, _OUTPUTS, _PIXELS = 16, 256, 1 << 18, 128
_WIDTH = 192
#: The path is drawn for at most this many outputs.
_TRACED = 400
#: The layers that have an effect on the order or the blocks.
_DRAWN = ("order", "block", "per_thread", "lanes")


def pictured(given: object) -> str | None:
    """HTML: the outputs of a small result coloured by time, and what it shows; None for a schedule
    that leaves the order open, or has one for some extents only."""
    schedule = as_schedule(given)
    if all(getattr(schedule, slot) is None for slot in _DRAWN):
        return None
    for rank in (2, 1, 3):
        try:
            plan = schedule.resolve(rank)
            shape = _extents(plan)
            threads, _ = threads_of(plan, shape)
        except TreadleError:
            continue
        _, when = np.unique(threads.reshape(-1, shape[-1]), return_inverse=True)
        when = when.reshape(-1, shape[-1])
        down, across = (max(1, n // _PIXELS) for n in when.shape)
        picture = _png(_coloured(when[::down, ::across] / max(when.max(), 1)))
        width = round(_WIDTH * min(1.0, when.shape[1] / when.shape[0]))
        text = f"{shown(schedule)} on {' × '.join(map(str, shape))}, from dark to light"
        height = max(round(width * when.shape[0] / when.shape[1]), 12)
        return (
            f'<div><svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {when.shape[1]} {when.shape[0]}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(text)}"><image href="data:image/png;base64,{picture}" '
            f'width="{when.shape[1]}" height="{when.shape[0]}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated"/>{_path(when)}</svg>'
            f'<div style="opacity:0.7">{escape(text)}</div></div>'
        )
    return None


def _extents(plan: Resolved) -> tuple[int, ...]:
    """Extents on which an order shows what is special about it: four of its columns or tiles."""
    lengths = (getattr(plan.order, f.name) for f in dataclasses.fields(plan.order))
    longest = max((n for n in lengths if isinstance(n, int)), default=1)
    count = min(max(_FEWEST, 4 * longest), _MOST)
    while count > 1 and count**plan.ndim * math.prod(plan.unit) > _OUTPUTS:
        count //= 2
    return tuple(count * size for size in plan.unit)


def _path(when: NDArray[np.int64]) -> str:
    """The way from output to output, of few; `when`: the step at which each is computed."""
    if when.size > _TRACED or when.max() + 1 < when.size:
        return ""
    rows, columns = np.unravel_index(np.argsort(when, axis=None), when.shape)
    points = " ".join(f"{x}.5,{y}.5" for x, y in zip(columns, rows, strict=True))
    return (f'<polyline points="{points}" fill="none" stroke="white" stroke-width="0.1" '
            'opacity="0.8"/>')  # fmt: skip


def _coloured(ramp: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(…, 3) bytes of the colours of time, for numbers from 0 to 1."""
    stops = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in TIME])
    known = np.linspace(0, 1, len(TIME))
    return np.stack([np.interp(ramp, known, stops[:, k]) for k in range(3)], -1).astype(np.uint8)


def _png(pixels: NDArray[np.uint8]) -> str:
    """An image of 8-bit colours as PNG, in base 64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))  # fmt: skip

    height, width, _ = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines, 9)), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()
