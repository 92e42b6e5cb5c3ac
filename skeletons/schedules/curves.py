"""Space-filling curves: Morton's and Hilbert's, in closed form (no loops over bits).

Both divide the plane into square tiles whose side is the least power of two that holds the
shorter axis, so there is one row of tiles along the longer axis. Only ids that fall outside the
extents are padding: fewer than three for each element, and none on squares of powers of two.
Extents are run-time values; everything that depends on them alone is computed once per launch.
"""

from __future__ import annotations

from .arithmetic import Index, ceil_div, ceil_log2, minimum, where
from .orders import PlaneOrder

# Bits 0, 2, 4, ... of a 64-bit word, as a non-negative int64.
EVEN = 0x5555555555555555


class _Tiled(PlaneOrder):
    """Square tiles of a power of two along the longer axis."""

    def plane_size(self, height: Index, width: Index) -> Index:
        level = _level(height, width)
        tiles = ceil_div(height, 1 << level) * ceil_div(width, 1 << level)
        return tiles << (2 * level)


class Morton(_Tiled):
    """Z-order: the bits of row and column interleaved, the column's bit lowest.

    On a rectangle the spare high bits of the longer axis come first, so that it is a row of
    square Z-orders; the enclosing tiles are padded and the ids outside are skipped.

    >>> [Morton().coordinates(i, (2, 4)) for i in range(5)]
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]
    """

    cheap_on_gpu = True

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        level = _level(height, width)
        rest = i & ((1 << (2 * level)) - 1)
        start = (i >> (2 * level)) << level
        wide = height < width
        row, col = compact(rest >> 1), compact(rest)
        return row + where(wide, 0, start), col + where(wide, start, 0)


class Hilbert(_Tiled):
    """Hilbert's curve: successive ids are neighbours, also from one square tile to the next.

    The curve runs along the longer axis (on a square the last). On a square of a power of two,
    and on rows of such squares, there is no padding and no jump. Decoded by a parallel prefix
    over the two-bit digits (Warren, Hacker's Delight, 2nd edition, section 16-2), not a loop.

    >>> [Hilbert().coordinates(i, (2, 4)) for i in range(8)]
    [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)]
    """

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        level = _level(height, width)
        low = (1 << (2 * level)) - 1
        along, across = _hilbert_square(i & low, low)
        along = along + ((i >> (2 * level)) << level)
        wide = height <= width
        return where(wide, across, along), where(wide, along, across)


def _level(height: Index, width: Index) -> Index:
    """The binary logarithm of the tiles' side."""
    return ceil_log2(minimum(height, width))


def _hilbert_square(i: Index, low: Index) -> tuple[Index, Index]:
    """Point ``i`` of the curve in a square of ``low + 1`` points, from (0, 0) to (side - 1, 0)."""
    even = low & EVEN
    high_bits = (i >> 1) & even
    # Each two-bit digit says whether the square below it is transposed (low bit) or flipped (high
    # bit); the exclusive or over all digits above a digit is its orientation.
    turns = ((i & even) + high_bits) ^ even
    for shift in (2, 4, 8, 16, 32):
        turns = turns ^ (turns >> shift)
    swap = turns & even
    flip = (turns >> 1) & even
    t = (i & swap) ^ flip
    interleaved = i ^ high_bits ^ t ^ (t << 1)
    return compact(interleaved >> 1), compact(interleaved)


def compact(x: Index) -> Index:
    """The even bits of ``x``, moved together: bit ``2k`` becomes bit ``k``.

    >>> bin(compact(0b11_01_10_01))
    '0b1101'
    """
    x = x & EVEN
    x = (x | (x >> 1)) & 0x3333333333333333
    x = (x | (x >> 2)) & 0x0F0F0F0F0F0F0F0F
    x = (x | (x >> 4)) & 0x00FF00FF00FF00FF
    x = (x | (x >> 8)) & 0x0000FFFF0000FFFF
    return (x | (x >> 16)) & 0x00000000FFFFFFFF
