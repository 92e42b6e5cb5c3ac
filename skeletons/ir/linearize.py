"""From scalar expressions to statements.

`Linearizer.emit` turns roots of the scalar IR into kernel-IR expressions, appending the
statements they need.  Control becomes statements:

    Cond   →  var r = 0;  if p: r = then  else: r = other
    While  →  var s = init;  while: [predicate]; break unless p; s = next
    Loop   →  var s = init;  for k in 0 .. count: s = next
    Proj   →  the variable

Sharing is preserved: each value is computed once per scope, and a value used more than once is
named by a `Let`.  Guards are preserved: a value belongs to the outermost scope in which it is
needed *unconditionally* (`_unconditional`), so nothing is hoisted above its guard unless it would
be evaluated there anyway.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from treadle.dsl import expr as ex, simplify
from treadle.dsl.expr import Expr
from treadle.dsl.types import ScalarType, bool_, int64

from . import kernel as ir
from .arithmetic import add, integer

Value = Expr | tuple[ex.Var, ...]

#: Expressions deeper than this are cut by a Let, so that printers may recurse.
_DEEPEST = 24
#: A conditional whose sides are pure and cost no more than this becomes a select.
_CHEAP_SIDE = 6.0
#: The nesting depth of conditionals up to which common parts of the sides of a Cond are searched.
_NESTED_CONDITIONS = 3


class Leaves(Protocol):
    """The environment of a linearization, which defines leaves and reads."""

    def leaf(self, e: Expr) -> Expr:
        """The kernel expression of an Extent, a Param or any other leaf that is not bound."""

    def host_scalar(self, e: Expr) -> Expr | None:
        """The scalar of the kernel whose value is `e`, if there is one."""

    def read(self, read: ex.Read, indices: tuple[Expr, ...], into: Linearizer) -> Expr:
        """The element of an array; may append statements to `into` (checks)."""

    def exists(self, read: ex.Read) -> bool:
        """Whether the element is in range wherever an expression with this read is evaluated."""

    def iterations(
        self, loop: ex.Loop, index: ex.Var, into: Linearizer
    ) -> Sequence[Mapping[Expr, Expr]]:
        """For one step of an unrolled loop at `index`: the known values of each iteration.

        The trip count is a multiple of their number; may append statements to `into`.
        """


def zero(type_: ScalarType) -> ex.Const:
    return ex.Const(np.zeros((), type_.numpy)[()], type_)


class Linearizer:
    """Statements under construction, with the values computed so far.

    `out` receives the statements.  `bind` defines the values of leaves (Index, Var).
    """

    def __init__(self, leaves: Leaves, bindings: dict[Expr, Expr] | None = None) -> None:
        self.leaves = leaves
        self.out: list[ir.Statement] = []
        self._memo: dict[Expr, Value] = {}
        self._depth: dict[Expr, int] = {}
        self._scope: list[Expr] = []
        self.bind(bindings or {})

    def bind(self, bindings: dict[Expr, Expr]) -> None:
        """Bind leaves to these kernel expressions, for the rest of this scope."""
        for key, value in bindings.items():
            self._remember(key, value)

    def append(self, *statements: ir.Statement) -> None:
        self.out.extend(statements)

    def note(self, text: str) -> None:
        self.append(ir.Comment(text))

    def let(self, value: Expr, name: str = "t") -> Expr:
        """Name a value, unless it is a variable or a constant."""
        if isinstance(value, ex.Const | ex.Var):
            return value
        var = ex.Var(name, value.type)
        self.append(ir.Let(var, value))
        return var

    def declare(self, value: Expr, name: str) -> ex.Var:
        var = ex.Var(name, value.type)
        self.append(ir.Declare(var, value))
        return var

    @contextmanager
    def body(self, bindings: dict[Expr, Expr] | None = None) -> Iterator[list[ir.Statement]]:
        """A nested scope: what is emitted inside goes to the yielded list.

        Values computed outside are available inside; values computed inside are dropped afterwards.
        """
        outer, outer_scope = self.out, self._scope
        self.out, self._scope = [], []
        self.bind(bindings or {})
        try:
            yield self.out
        finally:
            for key in self._scope:
                del self._memo[key]
            self.out, self._scope = outer, outer_scope

    @contextmanager
    def loop(self, name: str | ex.Var, start: Expr | int, stop: Expr | int, kind: str = "serial",
             step: int = 1, rare: bool = False) -> Iterator[ex.Var]:  # fmt: skip
        """`for name in start .. stop`; yields the variable, the body is what is emitted inside."""
        var = ex.Var(name, int64) if isinstance(name, str) else name
        with self.body() as inside:
            yield var
        self.append(ir.For(var, integer(start), integer(stop), tuple(inside), kind, step, rare))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """`if condition`; without a test if the condition is a constant."""
        with self.body() as inside:
            yield
        if condition is ex.TRUE:
            self.append(*inside)
        elif condition is not ex.FALSE:
            self.append(ir.If(condition, tuple(inside)))

    @contextmanager
    def when_always(self, bindings: dict[Expr, Expr]) -> Iterator[None]:
        """A new scope for `bindings`, in the same list of statements."""
        with self.body(bindings) as inside:
            yield
        self.append(*inside)

    @contextmanager
    def otherwise(self, condition: Expr) -> Iterator[None]:
        """The other side of the `when(condition)` just emitted."""
        with self.body() as inside:
            yield
        if condition is ex.FALSE:
            self.append(*inside)
        elif condition is not ex.TRUE:
            last = self.out[-1]
            assert isinstance(last, ir.If) and last.condition is condition
            self.out[-1] = ir.If(condition, last.then, tuple(inside))

    # --- emission ---

    def emit(self, roots: Sequence[Expr], named: bool = False) -> tuple[Expr, ...]:
        """The kernel expressions of `roots`, evaluated here; with `named`, each is a variable."""
        needed = self._unconditional(roots)
        order = [e for e in ex.walk(roots, self._is_new) if self._is_new(e)]
        uses = Counter([*roots, *(child for e in order for child in e.args + e.scoped)])
        for node in order:
            if node in needed and self._find(node) is None:
                self._compute(node, uses[node])
        found = tuple(self._value(r) for r in roots)
        return tuple(self.let(e, _name_for(e, "x")) for e in found) if named else found

    def value(self, root: Expr, name: str | None = None) -> Expr:
        """One root; named when `name` is given."""
        (found,) = self.emit((root,))
        return found if name is None else self.let(found, name)

    def _find(self, e: Expr) -> Value | None:
        found = self._memo.get(e)
        return found if found is not None else self.leaves.host_scalar(e)

    def _value(self, e: Expr) -> Expr:
        found = self._find(e)
        assert isinstance(found, Expr), f"{e!r} has no value yet"
        return found

    def _remember(self, e: Expr, value: Value) -> None:
        if e not in self._memo:
            self._scope.append(e)
        self._memo[e] = value

    def _is_new(self, e: Expr) -> bool:
        return self._find(e) is None

    # --- what is needed unconditionally ---

    def _reach(self, roots: Iterable[Expr], known: set[Expr]) -> set[Expr]:
        """All nodes that `roots` evaluate without a guard and that are not computed yet."""
        found: set[Expr] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in found or node in known or self._find(node) is not None:
                continue
            found.add(node)
            stack.extend(node.args)
        return found

    def _unconditional(self, roots: Iterable[Expr]) -> set[Expr]:
        """The nodes that are evaluated here whatever the conditions.

        They are reachable through `args`, or on both sides of a Cond that is itself in the set;
        also elements that several such conditionals read on one side, if they exist in any case.
        """
        needed = self._reach(roots, set())
        waiting = [e for e in needed if isinstance(e, ex.Cond)]
        while waiting:
            common = self._common(waiting.pop(), needed)
            new = self._reach(common, needed)
            needed |= new
            waiting += [e for e in new if isinstance(e, ex.Cond)]
        conditionals = [e for e in needed if isinstance(e, ex.Cond)]
        return needed | self._read_by_several(conditionals, needed)

    def _read_by_several(self, conditionals: Sequence[ex.Cond], known: set[Expr]) -> set[Expr]:
        """In-range elements that several conditionals read: loaded once, without vector masks."""
        if len(conditionals) < 2:
            return set()
        sides = (self._reach((*c.then, *c.other), known) for c in conditionals)
        uses = Counter(e for side in sides for e in side
                       if isinstance(e, ex.Read) and self.leaves.exists(e))  # fmt: skip
        return self._reach([e for e, number in uses.items() if number > 1], known)

    def _common(self, cond: ex.Cond, known: set[Expr]) -> set[Expr]:
        sides = [self._reach(cond.then, known), self._reach(cond.other, known)]
        for _ in range(_NESTED_CONDITIONS):
            shared = sides[0] & sides[1]
            if shared:
                return shared
            grown = False
            for side in sides:
                for inner in [e for e in side if isinstance(e, ex.Cond)]:
                    more = self._reach(inner.then, known) & self._reach(inner.other, known)
                    if not more <= side:
                        side |= more
                        grown = True
            if not grown:
                break
        return sides[0] & sides[1]

    # --- one node ---

    def _compute(self, node: Expr, uses: int) -> None:
        match node:
            case ex.Const():
                made: Value = ex.Const(node.value, node.type) if node.weak else node
            case ex.Apply():
                made = self._apply(node)
            case ex.Read():
                made = self.leaves.read(node, tuple(self._value(a) for a in node.args), self)
            case ir.Load():
                made = ir.Load(node.buffer, self._value(node.index))
            case ex.Proj():
                state = self._memo[node.args[0]]
                assert isinstance(state, tuple)
                made = state[node.which]
            case ex.Cond():
                made = self._cond(node)
            case ex.While():
                made = self._while(node)
            case ex.Loop():
                made = self._loop(node)
            case ex.Foreign():
                made = ex.Foreign(
                    node.function, tuple(self._value(a) for a in node.args), node.type
                )
            case _:
                made = self.leaves.leaf(node)
        if isinstance(made, Expr):
            depth = 1 + max((self._depth.get(a, 0) for a in made.args), default=0)
            if depth > _DEEPEST or (uses > 1 and not _is_plain(made)):
                made = self.let(made, _name_for(made))
                depth = 0
            self._depth[made] = depth
        self._remember(node, made)

    def _apply(self, node: ex.Apply) -> Expr:
        if node.op.name == "also":  # its other operand has been evaluated, which tests the indices
            return self._value(node.args[0])
        args = tuple(self._value(a) for a in node.args)
        if node.type.is_integer and node.op.name != "cast":
            return simplify.apply(node.op, args, node.type)  # bounds and positions fold
        return ex.Apply(node.op, args, node.type)

    def _cond(self, node: ex.Cond) -> Value:
        predicate = self._value(node.args[0])
        if self._only_computes(node.then) and self._only_computes(node.other):
            with self.body() as inside:
                then, other = self.emit(node.then), self.emit(node.other)
            self.out += inside
            made = tuple(simplify.select(predicate, a, b) for a, b in zip(then, other, strict=True))
            return tuple(self._as_var(e) for e in made)
        results = tuple(self.declare(zero(t), "chosen") for t in node.types)
        then_body = self._assigning(node.then, results)
        other_body = self._assigning(node.other, results)
        if not then_body:
            predicate = simplify.apply(ex.primitive("logical_not"), (predicate,), bool_)
            then_body, other_body = other_body, ()
        if then_body:
            self.append(ir.If(predicate, then_body, other_body))
        return results

    def _as_var(self, e: Expr) -> ex.Var:
        if isinstance(e, ex.Var):
            return e
        var = ex.Var("chosen", e.type)
        self.append(ir.Let(var, e))
        return var

    def _assigning(self, values: Sequence[Expr], to: Sequence[ex.Var]) -> ir.Body:
        """`to = values` in a new scope; the variables are already initialised with zeros."""
        with self.body() as inside:
            found = self.emit(values)
            self.append(*(ir.Assign(v, e) for v, e in zip(to, found, strict=True)
                          if e is not zero(v.type)))  # fmt: skip
        return tuple(inside)

    def _only_computes(self, roots: Sequence[Expr]) -> bool:
        """Whether `roots` add only a little arithmetic: no reads, calls or loops."""
        cost = 0.0
        seen: set[Expr] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in seen or self._find(node) is not None:
                continue
            seen.add(node)
            if isinstance(node, ex.Apply):
                cost += node.op.cost
            elif isinstance(node, ex.Cond):
                cost += 1.0
            elif isinstance(node, ex.Read | ir.Load | ex.While | ex.Loop | ex.Foreign):
                return False
            if cost > _CHEAP_SIDE:
                return False
            stack.extend(node.args + node.scoped)
        return True

    def _state(self, variables: Sequence[ex.Var], init: Sequence[Expr]) -> tuple[ex.Var, ...]:
        return tuple(self.declare(self._value(e), v.name)
                     for v, e in zip(variables, init, strict=True))  # fmt: skip

    def _step(self, values: Sequence[Expr], state: Sequence[ex.Var]) -> None:
        """Assign all next values at once: each is computed from the old state."""
        found = self.emit(values)
        if len(found) > 1:
            stale = set(state)
            found = tuple(
                e if isinstance(e, ex.Const) or (isinstance(e, ex.Var) and e not in stale)
                else self._renamed(e) for e in found
            )  # fmt: skip
        self.append(*(ir.Assign(v, e) for v, e in zip(state, found, strict=True) if v is not e))

    def _renamed(self, e: Expr) -> ex.Var:
        var = ex.Var("next", e.type)
        self.append(ir.Let(var, e))
        return var

    def _while(self, node: ex.While) -> Value:
        results = self._state(node.vars, node.args)
        state: dict[Expr, Expr] = dict(zip(node.vars, results, strict=True))
        with self.body(state) as before:
            condition = self.value(node.scoped[0])
            with self.body() as inside:
                self._step(node.scoped[1:], results)
        self.append(ir.While(tuple(before), condition, tuple(inside)))
        return results

    def _loop(self, node: ex.Loop) -> Value:
        count = self._value(node.count)
        results = self._state(node.vars[1:], node.args[1:])
        state: dict[Expr, Expr] = dict(zip(node.vars[1:], results, strict=True))
        index = ex.Var(node.vars[0].name, node.vars[0].type)
        with self.body(state) as inside:
            iterations = self.leaves.iterations(node, index, self)
            for k, known in enumerate(iterations):
                with self.when_always({node.vars[0]: add(index, k), **known}):
                    self._step(node.scoped, results)
        self.append(ir.For(index, ex.constant(0), count, tuple(inside), step=len(iterations)))
        return results


def _is_plain(e: Expr) -> bool:
    """Whether repeating `e` is free: names, constants, short index arithmetic."""
    if isinstance(e, ex.Const | ex.Var):
        return True
    return (
        isinstance(e, ex.Apply)
        and e.type.name == "int64"
        and e.op.name in ("add", "subtract", "multiply")
        and all(isinstance(a, ex.Const | ex.Var) for a in e.args)
    )


def _name_for(e: Expr, otherwise: str = "t") -> str:
    return element_name(e) if isinstance(e, ir.Load) else otherwise


def element_name(e: ir.Load) -> str:
    """A name for an element: `x_p` of x[p], `w_2_1` of w[2·n + 1], else `x_value`."""
    index: Expr = e.index
    while isinstance(index, ex.Apply) and index.op.name == "cast":
        index = index.args[0]
    if isinstance(index, ex.Var):
        return f"{e.buffer.name}_{index.name}"
    terms: list[str] = []
    while isinstance(index, ex.Apply) and index.op.name == "add":
        index, last = index.args
        terms.append(_factor(last))
    terms.append(_factor(index))
    if not isinstance(index, ex.Const) and len(terms) == 1:
        terms.insert(0, "0")
    if "" in terms:
        return f"{e.buffer.name}_value"
    return "_".join([e.buffer.name, *reversed(terms)])


def _factor(e: Expr) -> str:
    """c for a term `c` or `n·c`, "1" for an extent such as `n1`; empty for anything else."""
    if isinstance(e, ex.Var) and re.fullmatch(r"n\d+", e.name):
        return "1"
    if isinstance(e, ex.Apply) and e.op.name == "multiply" and isinstance(e.args[0], ex.Var):
        e = e.args[1]
    return str(int(e.value)) if isinstance(e, ex.Const) and int(e.value) >= 0 else ""
