"""Sequential: iterations that read what those before have written, in buffers that hold the
defaults already.

Tasks run in order, on one thread.  Arrays are written in place; a state of one element is a
variable of the task.
"""

from __future__ import annotations

from treadle.dsl.expr import Const, Expr, Index, Var
from treadle.dsl.graph import Sequential
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Let, Load, Lowered, Store
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder, LoweringContext
from ..elementwise.cpu import elements_per_task
from ..tiling import Tile


def lower_sequential(node: Sequential, context: LoweringContext) -> Lowered:
    """One kernel."""
    return _Sequential(Builder(node, context), node).lower()


class _Sequential:
    def __init__(self, builder: Builder, node: Sequential) -> None:
        self.builder, self.node = builder, node
        self.outs = builder.outputs("update")
        roots = transform.resolve(node.per_element(), builder, node.domain)
        self.tiles = tiling.default_tiling(
            builder, node.domain, elements_per_task(builder, roots, self.outs)
        )
        early, writes, indices = len(node.early), len(node.written), iter(roots)
        self.early = [next(indices) for _ in range(early)]
        self.valid = [next(indices) for _ in range(writes)]
        self.target = [tuple(next(indices) for _ in t) for t in node.targets()]
        self.values = list(indices)
        #: The variables of states of one element.
        self.held: dict[int, Var] = {}

    def lower(self) -> Lowered:
        builder, into, task = self.builder, self.builder.emitter(), Var("task", int64)
        for k, (leaf, out) in enumerate(zip(self.node.defaults, self.outs, strict=True)):
            if not leaf.shape:
                self.held[k] = into.declare(Load(out, at.integer(0)), "state")
                into.bind({leaf.at(): self.held[k]})
        self.tiles.emit(into, task, self._tile)
        for k, state in self.held.items():
            into.append(Store(self.outs[k], at.integer(0), state))
        comment = "iteration by iteration, each after the one before"
        return builder.lowered(builder.kernel("sequence", self.tiles.tasks, task, tuple(into.out),
                                              comments=(comment,), in_order=True))  # fmt: skip

    def _tile(self, into: Linearizer, tile: Tile) -> None:
        domain = self.node.domain
        with into.loop("i", *tile.rows) as i, into.loop("j", *tile.cols) as j:
            counters = (*tile.leading, i, j)[-len(domain) :]
            for k, n in zip(counters, domain, strict=True):
                self.builder.stays_below(k, n)
            with into.when_always({Index(axis): k for axis, k in enumerate(counters)}):
                for write in range(len(self.node.written)):
                    self._early(into, write)
                    # What is read here is read again after the write.
                    with into.when_always({}), into.when(into.value(self.valid[write])):
                        self._write(into, write)

    def _early(self, into: Linearizer, write: int) -> None:
        """The values that are computed before a write; they are bound for the iteration."""
        for name, value, before in zip(self.node.names, self.early, self.node.before, strict=True):
            if before == write:
                with into.when_always({}):
                    found = _kept(into, into.value(value), name.name)
                into.bind({name: found})

    def _write(self, into: Linearizer, write: int) -> None:
        component = self.node.written[write]
        held = self.held.get(component)
        if held is not None:
            into.append(Assign(held, into.value(self.values[write])))
            return
        shape = self.builder.shape(self.node.defaults[component].shape)
        where = into.let(at.linear(into.emit(self.target[write]), shape), "target")
        into.append(Store(self.outs[component], where, into.value(self.values[write])))


def _kept(into: Linearizer, value: Expr, name: str) -> Expr:
    """A value by a name of its own: variables of states are assigned to."""
    if isinstance(value, Const):
        return value
    made = Var(name, value.type)
    into.append(Let(made, value))
    return made
