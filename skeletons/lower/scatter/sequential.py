"""Sequential: iterations that read what those before have written, in buffers that hold the
defaults already.

Tasks run in order, on one thread.  Arrays are written in place; a state of one element is a
variable of the task.  Where an iteration reads what the one before it in the row has written, this
stays in a register, too: a load would wait for the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.analysis.polynomial import polynomial
from treadle.dsl.expr import TRUE, Const, Expr, Index, Read, Var, substitute
from treadle.dsl.graph import Leaf, Sequential
from treadle.dsl.passes.waiting import last_comes_last
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Let, Load, Lowered, Store
from ...ir.linearize import Linearizer, zero
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
        self.previous = [self._previous(write) for write in range(writes)]
        for write, read in enumerate(self.previous):
            if read is not None:
                self.values[write] = last_comes_last((self.values[write],), (read,))[0]

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
        with into.loop("i", *tile.rows) as i:
            first = (*tile.leading, i, tile.cols[0])[-len(domain) :]
            carried = [self._first(into, read, first, tile) for read in self.previous]
            self._row(into, first[:-1], tile, carried)

    def _row(self, into: Linearizer, row: Sequence[Expr], tile: Tile,
             carried: Sequence[Var | None]) -> None:  # fmt: skip
        domain = self.node.domain
        with into.loop("j", *tile.cols) as j:
            counters = (*row, j)
            for k, n in zip(counters, domain, strict=True):
                self.builder.stays_below(k, n)
            known: dict[Expr, Expr] = {
                read: var
                for read, var in zip(self.previous, carried, strict=True)
                if read is not None and var is not None
            }
            known |= {Index(axis): k for axis, k in enumerate(counters)}
            with into.when_always(known):
                for write in range(len(self.node.written)):
                    self._early(into, write)
                    # What is read here is read again after the write.
                    with into.when_always({}), into.when(into.value(self.valid[write])):
                        self._write(into, write, carried[write])

    def _previous(self, write: int) -> Read | None:
        """The read by a write's value of what the iteration before in the row has written, if the
        value always reads it and nothing else is written there."""
        component, valid = self.node.written[write], self.valid[write]
        if valid is not TRUE or self.node.written.count(component) > 1 or not self.target[write]:
            return None
        leaf, last = self.node.defaults[component], Index(len(self.node.domain) - 1)
        back: dict[Expr, Expr] = {last: at.subtract(last, 1)}
        wanted = [polynomial(e) for e in substitute(self.target[write], back)]
        stack, seen = [self.values[write]], set[Expr]()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            stack += e.args
            if (
                isinstance(e, Read) and Leaf(e.node, e.component) == leaf and e.boundary is None
                and None not in wanted and [polynomial(a) for a in e.args] == wanted
            ):  # fmt: skip
                return e
        return None

    def _first(self, into: Linearizer, read: Read | None, first: Sequence[Expr], tile: Tile
               ) -> Var | None:  # fmt: skip
        """The variable of what `read` reads, with its value for the first iteration of a row."""
        if read is None:
            return None
        held = into.declare(zero(read.type), "previous")
        with into.when(at.less(*tile.cols)), into.when_always(
            {Index(axis): k for axis, k in enumerate(first)}
        ):  # fmt: skip
            into.append(Assign(held, into.value(read)))
        return held

    def _early(self, into: Linearizer, write: int) -> None:
        """The values that are computed before a write; they are bound for the iteration."""
        for name, value, before in zip(self.node.names, self.early, self.node.before, strict=True):
            if before == write:
                with into.when_always({}):
                    found = _kept(into, into.value(value), name.name)
                into.bind({name: found})

    def _write(self, into: Linearizer, write: int, carried: Var | None) -> None:
        component = self.node.written[write]
        held = self.held.get(component)
        if held is not None:
            into.append(Assign(held, into.value(self.values[write])))
            return
        shape = self.builder.shape(self.node.defaults[component].shape)
        where = into.let(at.linear(into.emit(self.target[write]), shape), "target")
        value = into.value(self.values[write])
        if carried is not None:
            value = _kept(into, value, "value")
            into.append(Assign(carried, value))
        into.append(Store(self.outs[component], where, value))


def _kept(into: Linearizer, value: Expr, name: str) -> Expr:
    """A value by a name of its own: variables of states are assigned to."""
    if isinstance(value, Const):
        return value
    made = Var(name, value.type)
    into.append(Let(made, value))
    return made
