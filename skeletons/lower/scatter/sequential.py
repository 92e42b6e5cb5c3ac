"""Sequential: iterations that read what earlier ones have written, in buffers that already hold the
defaults.

Tasks run in order, on one thread.  Arrays are written in place; a state of one element is a
variable of the task.  If an iteration reads what the previous one in the row has written, the value
also stays in a register, since a load would wait for the store.  A test that several parts of an
iteration share is made once, as a branch around them and around values that only they need or that
the test selects: a processor speculates past a branch that waits for data, but not past a select.

Loops within an iteration are loops of the kernel; their numbers are variables of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.dsl import expr as ex
from treadle.dsl.analysis.bounds import element_bounds
from treadle.dsl.analysis.polynomial import polynomial
from treadle.dsl.expr import Expr, While
from treadle.dsl.graph import BEGIN, END, TEST, Leaf, Sequential
from treadle.dsl.passes.inner_loops import where_both
from treadle.dsl.passes.waiting import last_comes_last
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.decided import decided
from ...ir.kernel import Assign, Let, Load, Lowered, Statement, Store, While as WhileStatement
from ...ir.linearize import Linearizer, zero
from .. import tiling, transform
from ..build import Builder, LoweringContext
from ..elementwise.cpu import elements_per_task
from ..tiling import Tile


def lower_sequential(node: Sequential, context: LoweringContext) -> Lowered:
    """One kernel."""
    return _Sequential(Builder(node, context), node).lower()


#: Iterations of at most _SHORT expressions are computed _COPIES at a time.
_SHORT, _COPIES = 24, 4


class _Part(NamedTuple):
    """A write of an iteration, the value of a name, or a loop, guarded by tests."""

    tests: tuple[Expr, ...]
    used: tuple[Expr, ...] = ()
    name: ex.Var | None = None
    write: int = -1
    loop: _Loop | None = None

    @property
    def value(self) -> Expr:
        return self.used[0]


class _Loop(NamedTuple):
    """A loop that repeats while `test` holds, which `before` computes."""

    before: list[_Part]
    test: Expr
    inner: list[_Part]


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
        self.held: dict[int, ex.Var] = {}
        plain = min(node.written) >= 0
        self.previous = [self._previous(write) if plain else None for write in range(writes)]
        for write, read in enumerate(self.previous):
            if read is not None:
                self.values[write] = last_comes_last((self.values[write],), (read,))[0]
        self.numbers = {k for k, leaf in enumerate(node.defaults) if not leaf.shape}
        self.numbers.update(range(len(node.defaults), len(node.defaults) + len(node.variables)))
        whole = self._in_order(iter(range(writes)))
        self.before, self.test = whole.before, whole.test
        self.parts = self._arranged(whole.inner)
        self.beyond = self._beyond_border(whole.inner) if plain else None

    def lower(self) -> Lowered:
        builder, into, task = self.builder, self.builder.emitter(), ex.Var("task", int64)
        for k, (leaf, out) in enumerate(zip(self.node.defaults, self.outs, strict=True)):
            if not leaf.shape:
                self.held[k] = into.declare(Load(out, at.integer(0)), "state")
                into.bind({leaf.at(): self.held[k]})
        for k, var in enumerate(self.node.variables, len(self.outs)):
            self.held[k] = into.declare(zero(var.type), var.name)
            into.bind({var: self.held[k]})
        self.tiles.emit(into, task, self._tile)
        for k, out in enumerate(self.outs):
            if k in self.held:
                into.append(Store(out, at.integer(0), self.held[k]))
        comment = "iteration by iteration, each after the one before"
        kernel = builder.kernel("sequence", self.tiles.tasks, task, tuple(into.out),
                                comments=(comment,), in_order=True)  # fmt: skip
        first = {b: element_bounds(b.leaf) for b in kernel.buffers if isinstance(b.leaf, Leaf)}
        for out, leaf, found in itertools.zip_longest(
            self.outs, self.node.defaults, self.node.first
        ):
            first[out] = found or element_bounds(leaf)
        return builder.lowered(decided(kernel, first))

    def _tile(self, into: Linearizer, tile: Tile) -> None:
        domain = self.node.domain
        if self.test is not ex.TRUE:
            j = into.declare(at.integer(tile.cols[0]), "j")
            goes_on = at.less(j, tile.cols[1])
            with into.when_always({ex.Index(0): j}):
                whole = _Loop(self.before, where_both(goes_on, self.test), self.parts)
                self._repeat(into, whole, [Assign(j, j + 1)])
            return
        with into.loop("i", *tile.rows) as i:
            first = (*tile.leading, i, tile.cols[0])[-len(domain) :]
            carried = [self._first(into, read, first, tile) for read in self.previous]
            self._row(into, first[:-1], tile, carried)

    def _row(self, into: Linearizer, row: Sequence[Expr], tile: Tile,
             carried: Sequence[ex.Var | None]) -> None:  # fmt: skip
        start, stop = tile.cols
        if self.beyond is not None:
            border, beyond = self.beyond
            if border:
                self._columns(into, row, (start, at.minimum(border, stop)), self.parts, carried)
                start = at.maximum(start, border)
            count = at.maximum(stop - start, 0)
            whole = into.let(count - count % _COPIES, "whole")
            start, first = start + whole, start
            self._columns(into, row, (first, start), beyond, carried, _COPIES)
        self._columns(into, row, (start, stop), self.parts, carried)

    def _columns(self, into: Linearizer, row: Sequence[Expr], columns: tuple[Expr, Expr],
                 parts: Sequence[_Part], carried: Sequence[ex.Var | None], copies: int = 1
                 ) -> None:  # fmt: skip
        """Emit some iterations of a row."""
        with into.loop("j", *columns, step=copies) as j:
            for counter, n in zip((*row, j), self.node.domain, strict=True):
                self.builder.stays_below(counter, n)
            for copy in range(copies):
                known: dict[Expr, Expr] = {  # what is read after the write is the same element
                    read: _kept(into, var, "before")
                    for read, var in zip(self.previous, carried, strict=True)
                    if read is not None and var is not None
                }
                known |= {ex.Index(axis): k for axis, k in enumerate((*row, j + copy))}
                with into.when_always(known):
                    self._parts(into, parts, carried, {})

    def _beyond_border(self, parts: Sequence[_Part]) -> tuple[int, list[_Part]] | None:
        """The column from which tests of the column, such as `j - 7 >= 0`, hold, and the parts
        there; only for iterations so short that their tests matter.

        Not if it contains a select: LLVM may turn selects in longer loops into branches.
        """
        column = ex.Index(len(self.node.domain) - 1)
        tests: dict[Expr, int] = {}
        for e in (every := ex.walk([e for part in parts for e in (*part.tests, *part.used)])):
            if isinstance(e, ex.Cond | ex.Loop | While | ex.Foreign):
                return None
            if isinstance(e, ex.Apply) and e.op.name in ("select", "minimum", "maximum"):
                return None
            if (
                isinstance(e, ex.Apply)
                and e.op.name == "greater_equal"
                and e.args[1] is ex.constant(0)
            ):
                offset = e.args[0].args[-1] if e.args[0].args else None
                if isinstance(offset, ex.Const) and e.args[0] is column + int(offset.value):
                    tests[e] = -int(offset.value)
        if len(every) > _SHORT:
            return None
        known: dict[Expr, Expr] = dict.fromkeys(tests, ex.TRUE)
        beyond = [part._replace(
            tests=tuple(t for t in ex.rewrite(part.tests, lambda e: e, known) if t is not ex.TRUE),
            used=ex.rewrite(part.used, lambda e: e, known),
        ) for part in parts]  # fmt: skip
        return max((0, *tests.values())), self._arranged(beyond)

    def _in_order(self, steps: Iterator[int]) -> _Loop:
        """The parts of an iteration, or of a loop within it, from the next steps."""
        node, parts = self.node, list[_Part]()
        before = list[_Part]()
        test: Expr = ex.TRUE
        named = list(zip(node.before, node.names, self.early, strict=True))
        for write in steps:
            parts += [_Part(*_guarded(e), name) for w, name, e in named if w == write]
            if node.written[write] == END:
                break
            if node.written[write] == TEST:
                before, test, parts = parts, self.valid[write], []
            elif node.written[write] == BEGIN:
                loop = self._in_order(steps)
                parts.append(_Part((), loop=loop._replace(inner=self._arranged(loop.inner))))
            else:
                used = (*self.target[write], self.values[write])
                parts.append(_Part(_tests(self.valid[write]), used, write=write))
        return _Loop(before, test, parts)

    def _arranged(self, parts: Sequence[_Part]) -> list[_Part]:
        return self._together(_under_tests(self._in_branches(parts)))

    def _in_branches(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts, with a value that a shared test selects split into one part per side: code
        after a branch does not wait for the test, but code after a select does."""
        tested = {_positive(test)[0] for part in parts for test in part.tests if _is_kept(test)}

        def sides(part: _Part) -> list[_Part]:
            if part.loop is not None:
                return [part]
            chosen = _choice(part.value)
            held = part.name is None and self.node.written[part.write] in self.numbers
            if not (chosen and (part.name or held) and _is_kept(chosen[0])
                    and _positive(chosen[0])[0] in tested):  # fmt: skip
                return [] if held and part.value is self._own(part.write) else [part]
            test, then, other = chosen
            opposite = apply_primitive("logical_not", [test])
            return [
                found for one, value in ((test, then), (opposite, other))
                for found in sides(part._replace(tests=(*part.tests, one), used=(value,)))
            ]  # fmt: skip

        return [made for part in parts for made in sides(part)]

    def _together(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts reordered so that those with the same tests are adjacent."""
        component = {leaf: k for k, leaf in enumerate(self.node.defaults)}
        uses, makes = list[set[object]](), list[set[object]]()
        for part in parts:
            every = _every(part)
            read = ex.walk([e for p in every for e in _needed_by(p)])
            arrays = {Leaf(e.node, e.component) for e in read if isinstance(e, ex.Read)}
            uses.append({e for e in read if isinstance(e, ex.Var)} | {
                component[leaf] for leaf in arrays if leaf in component})  # fmt: skip
            makes.append({p.name or self._changed(p.write) for p in every if p.loop is None})
        after = [
            {j for j in range(k) if makes[j] & uses[k] or uses[j] & makes[k] or makes[j] & makes[k]}
            for k in range(len(parts))
        ]
        ready, made = [k for k, first in enumerate(after) if not first], list[int]()
        while ready:
            last = parts[made[-1]].tests if made else ()
            made.append(max(ready, key=lambda k: (len(_shared(last, parts[k].tests)), -k)))
            ready.remove(made[-1])
            for k in range(made[-1] + 1, len(parts)):
                if made[-1] in after[k]:
                    after[k].remove(made[-1])
                    if not after[k]:
                        ready.append(k)
        return [parts[k] for k in made]

    def _changed(self, write: int) -> object:
        """The array (by its number) or variable that a write changes."""
        k = self.node.written[write] - len(self.node.defaults)
        return self.node.variables[k] if k >= 0 else self.node.written[write]

    def _own(self, write: int) -> Expr:
        """The value of a number before it is written."""
        changed = self._changed(write)
        return changed if isinstance(changed, ex.Var) else self.node.defaults[
            self.node.written[write]].at()  # fmt: skip

    def _previous(self, write: int) -> ex.Read | None:
        """The read, in a write's value, of the element that the previous iteration in the row
        wrote, if the value always reads it and nothing else is written there."""
        component, valid = self.node.written[write], self.valid[write]
        if valid is not ex.TRUE or self.node.written.count(component) > 1 or not self.target[write]:
            return None
        leaf, last = self.node.defaults[component], ex.Index(len(self.node.domain) - 1)
        back: dict[Expr, Expr] = {last: last - 1}
        wanted = [polynomial(e) for e in ex.substitute(self.target[write], back)]
        stack, seen = [self.values[write]], set[Expr]()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            stack += e.args
            if (
                isinstance(e, ex.Read) and Leaf(e.node, e.component) == leaf and e.boundary is None
                and None not in wanted and [polynomial(a) for a in e.args] == wanted
            ):  # fmt: skip
                return e
        return None

    def _first(self, into: Linearizer, read: ex.Read | None, first: Sequence[Expr], tile: Tile
               ) -> ex.Var | None:  # fmt: skip
        """A variable for the value of `read`, initialised for the first iteration of a row."""
        if read is None:
            return None
        held = into.declare(zero(read.type), "previous")
        with into.when(at.less(*tile.cols)), into.when_always(
            {ex.Index(axis): k for axis, k in enumerate(first)}
        ):  # fmt: skip
            into.append(Assign(held, into.value(read)))
        return held

    def _parts(self, into: Linearizer, parts: Sequence[_Part], carried: Sequence[ex.Var | None],
               cells: dict[Expr, ex.Var]) -> None:  # fmt: skip
        """Parts of an iteration.  `cells`: the variables of values that branches compute."""
        for test, run in itertools.groupby(parts, lambda part: part.tests[:1]):
            if not test or not _is_kept(test[0]):  # what is tested may change between writes
                for _, same in itertools.groupby(run, _found_by):
                    self._part(into, tuple(same), carried, cells)
                continue
            inside = [part._replace(tests=part.tests[1:]) for part in run]
            for name in [part.name for part in inside if part.name is not None]:
                if name not in cells:
                    cells[name] = into.declare(zero(name.type), name.name)
                    into.bind({name: cells[name]})
            with into.when(into.value(test[0])):
                self._parts(into, inside, carried, cells)

    def _part(self, into: Linearizer, same: Sequence[_Part], carried: Sequence[ex.Var | None],
              cells: dict[Expr, ex.Var]) -> None:  # fmt: skip
        """A value, several that one loop finds, a write or a loop, under what is left of its
        tests."""
        part = same[0]
        valid = _both(part.tests)
        if part.loop is not None:
            with into.when_always({}), into.when(into.value(valid)):
                self._repeat(into, part.loop)
            return
        if part.name is None:
            # Elements read here are read again after the write.
            with into.when_always({}), into.when(into.value(valid)):
                self._write(into, part, carried[part.write])
            return
        found: dict[Expr, Expr] = {}
        with into.when_always({}):
            values = into.emit(_where(valid, tuple(p.value for p in same)))
            for name, value in zip((p.name for p in same), values, strict=True):
                assert name is not None
                if name in cells:
                    into.append(Assign(cells[name], value))
                else:
                    found[name] = _kept(into, value, name.name)
        into.bind(found)

    def _repeat(self, into: Linearizer, loop: _Loop, after: Sequence[Statement] = ()) -> None:
        nothing = [None] * len(self.values)
        with into.body() as before:
            self._parts(into, loop.before, nothing, {})
            with into.when_always({}):
                test = into.value(loop.test)
            with into.body() as inner:
                self._parts(into, loop.inner, nothing, {})
                into.append(*after)
        into.append(WhileStatement(tuple(before), test, tuple(inner)))

    def _write(self, into: Linearizer, part: _Part, carried: ex.Var | None) -> None:
        component = self.node.written[part.write]
        *target, written = part.used
        held = self.held.get(component)
        if held is not None:
            into.append(Assign(held, into.value(written)))
            return
        shape = self.builder.shape(self.node.defaults[component].shape)
        where = into.let(at.linear(into.emit(target), shape), "target")
        value = into.value(written)
        if carried is not None:
            value = _kept(into, value, "value")
            into.append(Assign(carried, value))
        into.append(Store(self.outs[component], where, value))


def _every(part: _Part) -> list[_Part]:
    """A part, and the parts of its loop."""
    if part.loop is None:
        return [part]
    return [part, *(p for x in (*part.loop.before, *part.loop.inner) for p in _every(x))]


def _needed_by(part: _Part) -> tuple[Expr, ...]:
    return (*part.tests, *part.used, *((part.loop.test,) if part.loop else ()))


def _tests(valid: Expr) -> tuple[Expr, ...]:
    """The conjuncts of a condition."""
    if valid is ex.TRUE:
        return ()
    cond = valid.args[0] if isinstance(valid, ex.Proj) else None
    if isinstance(cond, ex.Cond) and cond.other == (ex.FALSE,):
        return (*_tests(cond.args[0]), *_tests(cond.then[0]))
    every = _conjuncts(valid)
    kept = [e for e in every if _is_kept(e)]
    rest = [e for e in every if not _is_kept(e)]
    return (*kept, *([at.both(*rest)] if rest else []))


def _conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, ex.Apply) and e.op.name == "logical_and":
        return [part for a in e.args for part in _conjuncts(a)]
    return [e]


def _is_kept(test: Expr) -> bool:
    """Whether a test is of a named value, which does not change."""
    return isinstance(_positive(test)[0], ex.Var)


def _positive(test: Expr) -> tuple[Expr, bool]:
    """A test without its negation, and whether it was negated."""
    if isinstance(test, ex.Apply) and test.op.name == "logical_not":
        return test.args[0], True
    return test, False


def _choice(value: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The test and the two values of a select."""
    if isinstance(value, ex.Apply) and value.op.name == "select":
        return value.args[0], value.args[1], value.args[2]
    if isinstance(value, ex.Proj) and isinstance(cond := value.args[0], ex.Cond):
        return cond.args[0], cond.then[value.which], cond.other[value.which]
    return None


def _shared(some: Sequence[Expr], others: Sequence[Expr]) -> tuple[Expr, ...]:
    """The common prefix of two lists of tests."""
    same = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(some, others, strict=False))
    return tuple(test for test, _ in same)


def _both(tests: Sequence[Expr]) -> Expr:
    valid: Expr = ex.TRUE
    for test in tests:
        valid = where_both(valid, test)
    return valid


def _guarded(value: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The tests without which a value is 0, and the value where they hold."""
    tests: tuple[Expr, ...] = ()
    while isinstance(value, ex.Proj) and isinstance(cond := value.args[0], ex.Cond):
        if cond.other[value.which] is not zero(value.type):
            break
        tests = (*tests, *(test for test in _tests(cond.args[0]) if test not in tests))
        value = cond.then[value.which]
    return tests, (value,)


def _where(valid: Expr, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if valid is ex.TRUE:
        return values
    chosen = ex.Cond(valid, values, tuple(zero(e.type) for e in values))
    return tuple(ex.Proj(chosen, k) for k in range(len(values)))


def _found_by(part: _Part) -> object:
    """What values have in common that one loop finds under the same tests."""
    loop = part.value.args[0] if part.name and isinstance(part.value, ex.Proj) else None
    return (loop, part.tests) if isinstance(loop, ex.Loop | While) else part


def _under_tests(parts: Sequence[_Part]) -> list[_Part]:
    """The parts, with values also guarded by earlier tests without which no later part needs
    them."""
    place: dict[Expr, int] = {p.name: k for k, p in enumerate(parts) if p.name is not None}
    needed: dict[Expr, tuple[Expr, ...]] = {}
    found = list[_Part]()
    for k, part in reversed(list(enumerate(parts))):
        if part.name is not None:
            wanted = needed.get(part.name, ())
            before = (place.get(_positive(test)[0], k) < k for test in wanted)
            known = tuple(itertools.compress(wanted, itertools.takewhile(bool, before)))
            own = (test for test in part.tests if test not in known)
            part = part._replace(tests=(*known, *own))
        uses = [
            *((test,) for test in part.tests),
            [e for p in _every(part) for e in (_needed_by(p) if part.loop else p.used)],
        ]
        for level, es in enumerate(uses):
            for name in ex.walk(es):
                if name in place:
                    tests = part.tests[:level]
                    needed[name] = _shared(needed.get(name, tests), tests)
        found.append(part)
    return found[::-1]


def _kept(into: Linearizer, value: Expr, name: str) -> Expr:
    """A copy of a value under its own name, since variables of states are reassigned."""
    if isinstance(value, ex.Const):
        return value
    made = ex.Var(name, value.type)
    into.append(Let(made, value))
    return made
