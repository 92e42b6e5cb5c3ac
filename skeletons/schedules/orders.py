"""Orders: the sequence in which blocks, or single elements, are visited.

An order is a bijection from linear ids to coordinates, written once in ordinary scalar
arithmetic. The same definition is lowered for every backend, evaluated by NumPy (the oracle and
the simulator) and inverted by the tests. So ``coordinates`` may use ``+ - * // % << >> & | ^``,
comparisons and the functions of ``arithmetic``, but no Python ``if`` or ``while`` on values.

Every operand is a non-negative int64 in meaning, and ids are below ``linear_size``. Divisors
depend on the extents alone, or are selected from two that do, so that a backend can precompute
their magic numbers once per launch.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self

from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .arithmetic import Index, ceil_div, ceil_log2, minimum, product, where
from .layers import Layer, choice, integer, is_built_in

Grain = Literal["thread", "block"]
GRAINS: tuple[str, ...] = ("thread", "block")


class Order(Layer):
    """A bijection from linear ids to coordinates; subclass it to write your own.

    Only ``coordinates`` is required; parameters are annotated class attributes. An order that
    pads, that is, whose ids may fall outside the extents, also overrides ``linear_size``: ids
    outside the extents are skipped. Test a new order with ``check(order, shape)``.

    ``grain`` says what is visited: "thread" the elements, "block" the blocks; ``None`` means
    blocks if the schedule has a ``Block``, else elements. Parameters that are lengths count
    elements; ``in_units`` converts them into units of what is visited.

    >>> class Upwards(Order):
    ...     def coordinates(self, i, shape):
    ...         return shape[0] - 1 - i // shape[1], i % shape[1]
    >>> Upwards().coordinates(0, (3, 4)), Upwards()
    ((2, 0), Upwards())
    """

    slot = "order"
    dense: ClassVar[bool] = True
    """Whether every id below ``linear_size`` is inside the extents, so that none is skipped."""
    cheap_on_gpu: ClassVar[bool] = False
    """Whether a GPU computes ``coordinates`` of blocks as fast as it reads them from a table.
    Not inherited."""
    grain: Grain | None = dataclasses.field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.__dict__
        if "dense" not in own and ("linear_size" in own or "plane_size" in own):
            cls.dense = False
        if "cheap_on_gpu" not in own:
            cls.cheap_on_gpu = False

    def _finish(self) -> None:
        if self.grain is not None:
            choice(self.grain, GRAINS, type(self), "grain")
        if is_built_in(type(self)):
            return  # built-in orders validate their own parameters
        for field in dataclasses.fields(self):
            if field.type in (int, "int"):
                integer(self, field.name, None)
                if getattr(self, field.name) < 1 and not self._can_evaluate():
                    integer(self, field.name)

    def _can_evaluate(self) -> bool:
        """Whether the order can be evaluated at id 0 of some small shapes; False if a length of 0
        makes it divide by zero, for example."""
        for shape in ((6,), (2, 3), (1, 2, 3)):
            try:
                self.coordinates(0, shape)
            except (ZeroDivisionError, ScheduleError):
                return False
            except Exception:  # the shape has the wrong rank
                continue
        return True

    def coordinates(self, i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        """The coordinates visited at id ``i``, ``0 <= i < linear_size(shape)``, one per axis."""
        raise ScheduleTypeError(
            f"{type(self).__name__} has to define coordinates(self, i, shape).",
            hint="It returns the coordinates visited at id i, one for each axis of shape.",
        )

    def linear_size(self, shape: tuple[Index, ...]) -> Index:
        """The number of ids, at least the number of elements; more if the order pads."""
        return product(shape)

    @property
    def run(self) -> int | None:
        """The length of the row segments that ids are visited in, or None if there are none.

        Contract: if the first and the last of some consecutive ids lie in one row, as far apart as
        the ids are, then the ids between them visit the elements between them. A backend can treat
        such ids as one segment after it has looked at both ends (and, if the order ``reverses``,
        at the second id, which must lie in the direction of the last).
        """
        return None

    @property
    def reverses(self) -> bool:
        """Whether some rows are walked backwards."""
        return False

    def in_units(self, rows: int, cols: int) -> Self:
        """The same order with its lengths in units of ``rows`` x ``cols`` elements, rounded up.

        Orders whose parameters are not lengths do not override it.
        """
        return self

    def require(self, shape: tuple[int, ...]) -> None:
        """Raises ``ScheduleError`` when the order cannot be used on these (integer) extents."""


class PlaneOrder(Order):
    """An order of the last two axes: ``plane`` defines it for every rank.

    Leading axes are outermost, in row-major order. On a rank-1 shape, elements are visited from
    left to right, which is what the built-in orders do on a single row.

    >>> Column(2).coordinates(9, (2, 2, 4))
    (1, 0, 1)
    """

    dense = True

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        """Row and column visited at id ``i`` of one plane."""
        raise ScheduleTypeError(
            f"{type(self).__name__} has to define plane(self, i, height, width).",
            hint="It returns the row and the column visited at id i of one plane.",
        )

    def plane_size(self, height: Index, width: Index) -> Index:
        """The number of ids of one plane."""
        return height * width

    def coordinates(self, i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        if len(shape) < 2:
            return (i,) * len(shape)
        *leading, height, width = shape
        if not leading:
            return self.plane(i, height, width)
        size = self.plane_size(height, width)
        return *row_major(i // size, tuple(leading)), *self.plane(i % size, height, width)

    def linear_size(self, shape: tuple[Index, ...]) -> Index:
        if len(shape) < 2:
            return product(shape)
        *leading, height, width = shape
        return product((*leading, self.plane_size(height, width)))


def row_major(i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """The coordinates of linear id ``i``, last axis fastest.

    >>> row_major(7, (2, 5))
    (1, 2)
    """
    reversed_coordinates = []
    for extent in shape[:0:-1]:
        reversed_coordinates.append(i % extent)
        i = i // extent
    return (*((i,) if shape else ()), *reversed_coordinates[::-1])


def _column(i: Index, height: Index, width: Index, c: int) -> tuple[Index, Index, Index, Index]:
    """Column order: (row, first column of the group, column in the group, width of the group)."""
    per_group = height * c
    group = i // per_group
    rest = i % per_group
    # min(width - group * c, c), as a selection between two divisors known before the launch.
    taken = where(group < width // c, c, width % c)
    return rest // taken, group * c, rest % taken, taken


class Row(PlaneOrder):
    """Row-major order: the last axis fastest.

    >>> Row().coordinates(5, (3, 4))
    (1, 1)
    """

    cheap_on_gpu = True

    def coordinates(self, i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        return row_major(i, shape)


class _Lengths(PlaneOrder):
    """An order whose parameters are lengths along the axes of the plane."""

    #: The names of the parameters that are lengths; "" where there is none.
    down: ClassVar[str] = ""
    across: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in filter(None, (self.down, self.across)):
            integer(self, name)

    @property
    def run(self) -> int | None:
        return getattr(self, self.across) if self.across else None

    def in_units(self, rows: int, cols: int) -> Self:
        sides = ((self.down, rows), (self.across, cols))
        lengths = {name: ceil_div(getattr(self, name), n) for name, n in sides if name}
        return dataclasses.replace(self, **lengths)


class Column(_Lengths):
    """Columns of ``width`` elements, each walked row by row (Prasetya 2021, section 4.1).

    The last column is narrower when the extent is no multiple of ``width``. At block grain this
    is Triton's grouped ordering of the transposed grid.

    >>> [Column(2).coordinates(i, (2, 3)) for i in range(6)]
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """

    cheap_on_gpu = True
    across = "width"
    width: int

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        row, start, x, _ = _column(i, height, width, self.width)
        return row, start + x


class ZigZag(_Lengths):
    """Columns of ``width`` elements whose odd rows are walked backwards (Prasetya 2021, 4.1).

    On odd rows position ``x`` of a column ``t`` wide goes to ``t - 1 - x`` (the paper's ``t - x``
    is off by one, so not a bijection).

    >>> [ZigZag(2).coordinates(i, (2, 3)) for i in range(6)]
    [(0, 0), (0, 1), (1, 1), (1, 0), (0, 2), (1, 2)]
    """

    cheap_on_gpu = True
    across = "width"
    width: int

    @property
    def reverses(self) -> bool:
        return True

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        row, start, x, taken = _column(i, height, width, self.width)
        return row, start + where((row & 1) > 0, taken - 1 - x, x)


class Tile(_Lengths):
    """Tiles of ``rows`` x ``cols`` elements in row-major order, each walked row by row.

    Tiles at the lower and right border are smaller when the extents are no multiples.

    >>> [Tile(2, 2).coordinates(i, (3, 3)) for i in (3, 4, 6, 8)]
    [(1, 1), (0, 2), (2, 0), (2, 2)]
    """

    cheap_on_gpu = True
    down, across = "rows", "cols"
    rows: int
    cols: int

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        per_band = width * self.rows
        band = i // per_band
        # A band of tiles is an array of its own, walked in columns as wide as a tile.
        # Its height, min(height - band * rows, rows), is a selection for the reason given above.
        band_height = where(band < height // self.rows, self.rows, height % self.rows)
        row, start, x, _ = _column(i % per_band, band_height, width, self.cols)
        return band * self.rows + row, start + x


class Swizzle(_Lengths):
    """Groups of ``group`` rows, each walked column by column: ``Column`` transposed.

    At block grain this is Triton's grouped ordering of a matrix product and NVIDIA's
    thread-group tiling.

    >>> [Swizzle(2).coordinates(i, (3, 2)) for i in range(6)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """

    cheap_on_gpu = True
    down = "group"
    group: int

    def plane(self, i: Index, height: Index, width: Index) -> tuple[Index, Index]:
        col, start, y, _ = _column(i, width, height, self.group)
        return start + y, col


# --- Space-filling curves: Morton's and Hilbert's, in closed form (no loops over bits) ------------
# Both divide the plane into square tiles whose side is the least power of two that holds the
# shorter axis, so there is one row of tiles along the longer axis. Only ids that fall outside the
# extents are padding: fewer than three for each element, and none on squares of powers of two.
# Extents are run-time values; everything that depends on them alone is computed once per launch.

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
