"""Operands of products that are read in place, as strided views of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from treadle.dsl.expr import Apply, Const, Expr, Index, Read, substitute
from treadle.dsl.graph import Leaf
from treadle.dsl.passes.cost import is_affine_view

from .run import HostValues, Run

if TYPE_CHECKING:
    from .executor import Executor

ViewLayout = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Extents, strides in bytes, and the indices of the first element."""


def plain(e: Expr) -> bool:
    """Whether an operand is an array read under an affine index map, perhaps converted."""
    while isinstance(e, Apply) and e.op.name == "cast":
        e = e.args[0]
    return isinstance(e, Read) and e.boundary is None and is_affine_view((e,))


class Operand:
    """One operand: a read under an affine index map (transposed, broadcast, …) is a strided view.
    Type conversions run before the product."""

    def __init__(self, owner: Executor[Any], e: Expr, shape: Sequence[Expr]) -> None:
        self.casts: list[Any] = []
        while isinstance(e, Apply) and e.op.name == "cast":
            self.casts.insert(0, e.type.numpy)
            e = e.args[0]
        assert isinstance(e, Read) and plain(e), e
        self.index = e.args
        self.slot = owner.planner.slots[Leaf(e.node, e.component)]
        self.rank, self.axes = len(shape), len(e.args)
        hosts: list[Expr] = list(shape)
        #: For each axis of the operand, the axis of the array (None: broadcast); None as a whole if
        #: the index map does more than permute axes.
        self.permuted: tuple[int | None, ...] | None = None
        if all(isinstance(i, Index) for i in e.args) and len(set(e.args)) == self.axes:
            axis_of = {i: axis for axis, i in enumerate(e.args)}
            self.permuted = tuple(axis_of.get(Index(k)) for k in range(self.rank))
        else:  # an affine map is determined by its values at the origin and the unit vectors
            for at in range(-1, self.rank):
                point: dict[Expr, Expr] = {
                    Index(k): Const(int(k == at), Index(0).type) for k in range(self.rank)
                }
                hosts += substitute(e.args, point)
        self.values = HostValues(owner.host, hosts)

    def layout(self, run: Run[Any]) -> ViewLayout:
        """Extents, strides in bytes, and the indices of the first element."""
        values = self.values(run)
        extents = tuple(max(int(v), 0) for v in values[: self.rank])
        block = run.array(self.slot)
        if self.permuted is not None:
            by = block.strides
            strides = tuple([0 if a is None else by[a] for a in self.permuted])
            return extents, strides, (0,) * self.axes
        rows = [
            [int(v) for v in values[self.rank + k * self.axes : self.rank + (k + 1) * self.axes]]
            for k in range(self.rank + 1)
        ]
        strides = tuple(
            sum((x - o) * s for x, o, s in zip(rows[k + 1], rows[0], block.strides, strict=True))
            for k in range(self.rank)
        )
        return extents, strides, tuple(rows[0])

    def view(self, run: Run[Any]) -> tuple[tuple[int, ...], Callable[[Any, Any], Any]]:
        """The extents, and a function (library, array) → the operand."""
        layout = self.layout(run)
        return layout[0], self.view_at(layout)

    def view_at(self, layout: ViewLayout) -> Callable[[Any, Any], Any]:
        """A function (library, array) → the operand."""
        (extents, strides, origin), casts = layout, self.casts

        def view(library: Any, array: Any) -> Any:
            corner = array[tuple(slice(o, None) for o in origin)]
            made = library.lib.stride_tricks.as_strided(corner, extents, strides)
            for t in casts:
                made = made.astype(t)
            return made

        return view
