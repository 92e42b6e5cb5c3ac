"""Forms of a node for the extents of a call: short folds become loops in the kernels that read
them, and a kernel may be specialised for some extents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.dsl.expr import Expr
from treadle.dsl.graph import Node
from treadle.dsl.passes.short_folds import length

from .run import HostValues, Run

if TYPE_CHECKING:
    from .executor import Executor

NOTHING: frozenset[Node] = frozenset()


class Form(NamedTuple):
    """A form of a node: the folds that are loops in it, and the extents that are constants."""

    loops: frozenset[Node] = NOTHING
    sizes: tuple[tuple[Expr, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.loops or self.sizes)


#: The general form, for all extents.
PLAIN = Form()


class Forms:
    """The forms of one node of a program."""

    def __init__(self, owner: Executor[Any], node: Node) -> None:
        self.node, self.short = node, owner.short
        self.inside = self.short.inside(node)
        #: Whether the kernel that reads the node may compute it.
        self.taken_in = node in self.short.reader
        self._values: HostValues | None = None
        if self.inside:
            self._worth = [c for f in self.inside for c in self.short.conditions(f)]
            self._values = HostValues(owner.host, (*map(length, self.inside), *self._worth))

    @property
    def several(self) -> bool:
        """Whether the form depends on extents."""
        return bool(self.inside)

    def loops(self, run: Run[Any]) -> frozenset[Node]:
        """The folds that are loops in this kernel, for the extents of a run; includes the node
        itself if its reader computes it."""
        if self._values is None:
            return NOTHING
        values = run.counts(self._values)
        count = len(self.inside)
        counts: dict[Node, int] = dict(zip(self.inside, values[:count], strict=True))
        holds = dict(zip(self._worth, values[count:], strict=True))
        return self.short.loops(self.node, counts.__getitem__, holds.__getitem__)

    def form(self, run: Run[Any], loops: frozenset[Node]) -> Form:
        """The form for the extents of a run, with these loops."""
        return Form(loops) if loops else PLAIN

    def made(self, form: Form) -> Node:
        """The node in a form."""
        return self.short.of(self.node, form.loops) if form.loops else self.node
