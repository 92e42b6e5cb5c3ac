"""Assigns the elements of a permute's source to the threads of persistent blocks.

    tile = 512 threads · several elements each; block b takes tiles b, b + blocks, …
      all loads of a tile (16 bytes at a time if elements are contiguous)
      the target index of each element (−1: none), and its values
      the action on them
    the remainder, element by element

The domain is treated as one row of row-major positions; arrays with its extents are read at the
position, and other indices are computed from it.  Under a schedule, the numbers of its visits are
distributed instead, and elements are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.dsl.analysis.updates import parted
from treadle.dsl.errors import WRITTEN
from treadle.dsl.expr import TRUE, Const, Expr, Index, Read, Var, constant, rewrite, walk
from treadle.dsl.graph import Leaf, Permute
from treadle.dsl.operations.indexing.row_major import linear
from treadle.dsl.records import dataclass
from treadle.dsl.types import bool_, int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Load
from ...ir.linearize import Linearizer, zero
from .. import transform
from ..build import Builder, element_cost
from ..combining import Values, assign, declare
from ..gpu import common
from ..gpu.orders import Visits, leaf
from ..tiling import schedule_of

#: Elements that a thread has in flight, if they are cheap.
IN_FLIGHT = 8
#: The largest cost of the elements in flight, in additions.
IN_FLIGHT_COST = 256.0

#: Stands for the condition that a visit has an element.
_EXISTS = Var("exists", bool_)

Action = Callable[[Linearizer, Expr, Expr, Values], None]
"""What to do with an element: its position, its target index, its values."""


@dataclass(frozen=True)
class _Found:
    position: Expr
    target: Expr
    values: Values
    certain: bool


class Sources:
    """The elements of one permute (module docstring)."""

    def __init__(self, builder: Builder, node: Permute) -> None:
        self.builder = builder
        self.target_shape = node.defaults[0].shape
        self.size_host = at.product(self.target_shape)
        self.domain = node.domain or (constant(1),)
        self.count_host = at.product(self.domain)
        self.count = builder.scalar(self.count_host, "count")
        self.visits: Visits | None = None
        if node.label.deterministic:
            if schedule_of(builder) is not None:
                builder.notes.append("deterministic=True: the source is visited in its own order")
        elif node.domain:
            self.visits = Visits.of(builder, node.domain, [1 for _ in node.domain])
        self.numbers_host = self.count_host if self.visits is None else self.visits.total_host
        self.line = Var("p", int64)
        roots = transform.resolve((node.valid, *node.target, *node.values), builder, self.domain)
        self.launched, valid = parted(roots[0])
        roots = self._at_positions((valid, *roots[1:]), len(node.domain))
        rank = len(node.target)
        self.valid, self.target, self.values = roots[0], roots[1 : rank + 1], roots[rank + 1 :]
        self.indexed = any(isinstance(e, Index) for e in walk(roots))
        types = [e.type for e in walk(roots) if isinstance(e, Load | Read) and e.args
                 and common.coefficient(e.args[-1], self.line) in (1, -1)]  # fmt: skip
        self.cost = max(element_cost(roots), 1.0)
        self.in_flight = IN_FLIGHT
        while self.in_flight > 1 and self.in_flight * self.cost > IN_FLIGHT_COST:
            self.in_flight //= 2
        if common.has_loops(roots) or builder.context.check:
            self.in_flight = 1
        count = common.vector_count(types) if types and self.in_flight > 1 else 1
        if self.visits is not None:
            count = 1
        self.group = common.Group(builder, roots, self.line, count)

    def _at_positions(self, roots: Sequence[Expr], rank: int) -> tuple[Expr, ...]:
        """Turn reads at the domain's own index into loads at the position."""
        builder, domain = self.builder, self.domain
        own_index = tuple(Index(k) for k in range(rank))
        memo: dict[Expr, Expr] = {}
        if rank and not any(at.is_constant(n, 0) for n in domain):  # else i·0 + j would be j
            memo[linear(own_index, domain)] = self.line
        if rank == 1:
            memo[own_index[0]] = self.line
        for e in walk(roots):
            if not isinstance(e, Read) or e.boundary is not None or not rank or e.args != own_index:
                continue
            leaf = Leaf(e.node, e.component)
            if leaf not in builder.context.strided and all(
                builder.same(a, b) for a, b in zip(leaf.shape, domain, strict=True)
            ):
                memo[e] = Load(builder.input(leaf), self.line)
        return rewrite(roots, lambda e: e, memo)

    @property
    def wide(self) -> bool:
        """Whether some reads may load several elements at once."""
        return bool(self.group.streams)

    # --- one element ---

    def _bindings(self, into: Linearizer, position: Expr) -> dict[Expr, Expr]:
        if self.visits is not None:
            return self._visited(self.visits, into, position)
        position = into.let(position, "p")
        found: dict[Expr, Expr] = {self.line: position}
        if len(self.domain) == 1:
            self.builder.stays_below(position, self.domain[0])
        if self.indexed:
            coordinates = at.row_major(position, self.builder.shape(self.domain))
            for k, coordinate in enumerate(coordinates):
                found[Index(k)] = named = into.let(coordinate, f"i{k}")
                self.builder.stays_below(named, self.domain[k])
        return found

    def _visited(self, visits: Visits, into: Linearizer, number: Expr) -> dict[Expr, Expr]:
        """The element of a visit; `_EXISTS` is the condition that it exists."""
        exists, indices = leaf(visits, into, into.let(number, "number"))
        position = into.let(at.linear(indices, visits.counts), "p")
        found: dict[Expr, Expr] = {self.line: position, _EXISTS: exists}
        found.update((Index(k), c) for k, c in enumerate(indices))
        return found

    def _locate(self, into: Linearizer, named: bool) -> _Found:
        """The target index and the values of the element bound in this scope."""
        builder, check = self.builder, self.builder.context.check
        position = into.value(self.line)

        def found(inner: Linearizer) -> tuple[Expr, Expr]:
            target = inner.emit(self.target)
            ok: Expr = TRUE
            if check:
                target = tuple(inner.let(i, "at") for i in target)
                ok = builder.check_index(WRITTEN, target, self.target_shape, inner)
            return ok, at.linear(target, builder.shape(self.target_shape))

        valid = into.value(self.valid)
        if self.visits is not None:
            valid = at.both(into.value(_EXISTS), valid)
        if valid is TRUE and not check:
            _, where = found(into)
            where = into.let(where, "target")
            values = into.emit(self.values, named=named or len(self.values) > 1)
            return _Found(position, where, values, True)
        target = into.declare(constant(-1), "target")
        constants = [e if isinstance(e, Const) else None for e in self.values]
        fresh = declare(into, [zero(e.type) for e, h in zip(self.values, constants, strict=True)
                               if h is None], "value")  # fmt: skip
        with into.when(valid):
            ok, where = found(into)
            with into.when(ok):
                into.append(Assign(target, where))
                wanted = [e for e, h in zip(self.values, constants, strict=True) if h is None]
                assign(into, fresh, into.emit(wanted))
        rest = iter(fresh)
        values = tuple(into.value(h) if h is not None else next(rest) for h in constants)
        return _Found(position, target, values, False)

    def element(self, into: Linearizer, position: Expr, act: Action) -> None:
        """One element, at a position below the count."""
        with into.when(into.value(self.launched)):
            self._element(into, position, act)

    def _element(self, into: Linearizer, position: Expr, act: Action) -> None:
        with into.when_always(self._bindings(into, position)):
            self._apply(into, self._locate(into, False), act)

    def _apply(self, into: Linearizer, found: _Found, act: Action) -> None:
        if found.certain:
            act(into, found.position, found.target, found.values)
            return
        with into.when(at.less_equal(0, found.target)):
            act(into, found.position, found.target, found.values)

    # --- all of them ---

    def sample(self, into: Linearizer, grid: common.Threads, act: Action) -> None:
        """`act` on the elements of this block's first tile, if it has one (see `walk`)."""
        vector, iterations = self._shape(False)
        tile = grid.count * vector * iterations
        tiles = self.builder.scalar(self.numbers_host // tile, "tiles")
        with into.when(at.both(into.value(self.launched), at.less(grid.task, tiles))):
            first = into.let(grid.task * tile + grid.thread, "first")
            self._tile(into, first, grid.count, iterations, False, act, None)

    def _shape(self, wide: bool) -> tuple[int, int]:
        """Elements of one access, and accesses of a thread in a tile."""
        vector = self.group.count if wide else 1
        return vector, max(self.in_flight // vector, 1)

    def walk(self, into: Linearizer, grid: common.Threads, tasks: Expr, act: Action, wide: bool,
             task: Expr | None = None, all_act: Action | None = None) -> None:  # fmt: skip
        """`act` on every element that has a target, in block number `task` (default `grid.task`) of
        `tasks`.

        `wide`: with accesses of several elements.  `all_act`, if given, is applied to whole tiles
        instead: by all threads of a block at once, also for elements without a target (−1).
        """
        with into.when(into.value(self.launched)):
            self._walk(into, grid, tasks, act, wide, grid.task if task is None else task, all_act)

    def _walk(self, into: Linearizer, grid: common.Threads, tasks: Expr, act: Action, wide: bool,
              task: Expr, all_act: Action | None) -> None:  # fmt: skip
        vector, iterations = self._shape(wide)
        done: Expr = constant(0)
        if vector * iterations > 1:
            tile = grid.count * vector * iterations
            tiles = self.builder.scalar(self.numbers_host // tile, "tiles")
            rounds = at.ceil_div(tiles - task, tasks)
            with into.loop("iteration", 0, into.let(rounds, "rounds")) as iteration:
                number = task + iteration * tasks
                first = into.let(number * tile + grid.thread * vector, "first")
                self._tile(into, first, grid.count * vector, iterations, wide, act, all_act)
            done = tiles * tile
        ident = task * grid.count + grid.thread
        start = into.let(done + ident, "left")
        stride = into.let(tasks * grid.count, "stride")
        numbers = self.builder.scalar(self.numbers_host, "count")
        rounds = at.ceil_div(at.maximum(numbers - start, 0), stride)
        with into.loop("iteration", 0, into.let(rounds, "rounds")) as iteration:
            self._element(into, start + iteration * stride, act)

    def _tile(self, into: Linearizer, first: Expr, step: int, iterations: int, wide: bool,
              act: Action, all_act: Action | None) -> None:  # fmt: skip
        starts = [into.let(first + u * step, "first") for u in range(iterations)]
        loads: list[list[dict[Expr, Expr]]] = [
            self.group.load(into, s) if wide else [{}] for s in starts
        ]
        found = []
        for start, reads in zip(starts, loads, strict=True):
            for v, loaded in enumerate(reads):
                with into.when_always({**self._bindings(into, start + v), **loaded}):
                    found.append(self._locate(into, True))
        for element in found:
            if all_act is None:
                self._apply(into, element, act)
            else:
                all_act(into, element.position, element.target, element.values)
