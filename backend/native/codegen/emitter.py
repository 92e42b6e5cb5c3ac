"""Kernel IR to LLVM IR, with explicit SIMD.

A vector loop runs W iterations at once: values are uniform (scalar registers) or varying (one
vector register of W lanes per part).  Divergent control flow becomes masks; invariant: wherever
memory is accessed, the current mask has an active lane.  The loop's body is emitted twice: without
a mask for full groups of W, and with the mask of the tail.  Both apply the same instructions to the
same lanes, so results in the tail have the same bits.

Values are numbered: equal values (operation, operands, and for loads the state of their buffer)
have one number and are computed once in a straight-line region.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from treadle.dsl.analysis.polynomial import Polynomial, arithmetic
from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, primitive, walk
from treadle.dsl.primitives import Primitive
from treadle.dsl.types import ScalarType, int64
from treadle.skeletons.ir.kernel import Buffer, For, Kernel, Load, Statement

from . import memory
from .analysis import EXPENSIVE, modified, natural_scalars, once, positive_scalars
from .atomics import call_foreign
from .half import CONVERSIONS
from .lanes import Lanes
from .late_choices import late_choices
from .operations import literals, operate
from .target import Target
from .text import FENCE, Code, Module, Reg, is_number, vector
from .values import LANE, Poly, Value, parts, register_element, wrapped

#: The kinds of types whose operations are hoisted out of loops.
_EXACT = frozenset(("bool", "int", "uint"))
_POLYNOMIAL = frozenset(("add", "subtract", "multiply", "negative"))
#: Divisions of a non-negative number by a positive one.
_UNSIGNED = {"floor_divide": "udiv", "remainder": "urem"}
#: The size limits of polynomials of int64 values; a larger one is computed and becomes an atom.
_MOST_TERMS, _MOST_FACTORS = 12, 4
FAST = "reassoc nsz arcp contract afn "
#: The maximum bytes of local buffers on the stack; larger buffers are allocated.
_STACK = 256 * 1024


@dataclass(eq=False)
class Slot:
    """A mutable variable: stack memory that LLVM promotes to registers."""

    pointers: tuple[Reg, ...]
    lanes: int
    mask: Reg | None
    type: ScalarType
    depth: int


@dataclass(eq=False)
class HoistPoint:
    """A point before a loop where code can be hoisted to, and the keys of the values remembered
    there.  Values computed before it have numbers below `mark`."""

    lines: list[str]
    trail: list[object]
    mark: int


class Copy:
    """One of the interleaved copies of a body: the values of its variables."""

    __slots__ = ("slots", "values")

    def __init__(self, parent: Copy | None = None) -> None:
        self.values: dict[Var, Value] = dict(parent.values) if parent else {}
        self.slots: dict[Var, Slot] = dict(parent.slots) if parent else {}


class Emitter(ABC):
    """The state of emitting one kernel's function."""

    def __init__(self, kernel: Kernel, target: Target, fast_math: bool,
                 module: Module | None = None) -> None:  # fmt: skip
        self.kernel, self.target = kernel, target
        self.module = module or Module(target.vector_bytes)
        self.code = Code(self.module, FAST if fast_math else "")
        self.lanes = 0  # of the enclosing vector loop
        self.mask: Reg | None = None  # None: every lane
        self.varying: set[Var] = set()
        self.around: For | None = None  # the enclosing vector loop
        self.single = False  # inside a vector loop whose elements are computed one by one
        #: Two points for each enclosing loop: before it, and (if not None) behind its entry test,
        #: which is reached only if the loop iterates.  At depth d, d / 2 loops enclose an
        #: instruction; odd d is the second point of the next loop.  Loop-invariant code is emitted
        #: at a smaller `depth`.
        self._hoist_points: list[HoistPoint | None] = []
        self.depth = 0
        self.sure = -1  # the depth of the innermost code that perhaps is not reached
        self.tested = 0  # the depth in the innermost loop without a second point
        self.memo: dict[Any, Any] = {}
        self._trail: list[object] = []  # the keys that the innermost scope remembers
        self._levels: dict[object, int] = {}  # the depth at which a key was remembered
        self._numbers: dict[object, int] = {}
        self._constants: dict[Const, Value] = {}
        self._fresh = 0
        self._versions: dict[object, int] = {}
        self.atoms: dict[int, Value] = {}
        self._depths: dict[int, int] = {LANE: 0}  # of what is in registers
        self._changes: dict[int, int] = {LANE: 0}  # of the loops in which it differs
        self.pointers: dict[Buffer, Reg] = {}
        self.foreign: list[Any] = []
        self.errors = ""
        self.streaming = False  # vector stores bypass the caches
        self.ahead = 0  # the prefetch distance of vector loads in bytes
        self.row: tuple[int, int] | None = None  # of the enclosing loop: variable (an atom), step
        self.prefetch_depth = 0  # the loop depth at which gathers prefetch the next rows
        self.thorough = False  # LLVM can hoist code out of loops
        self.late = set[Expr]()  # selects that are better branches
        #: The numbers of values that are known to be at least 0, and at least 1.
        self.natural: set[int] = set()
        self.positive: set[int] = set()
        #: The numbers of scalars that are literals of the program.
        self.literals: set[int] = set()

    # --- numbering and sharing ------------------------------------------------------------

    def number(self, key: object) -> int:
        """The number of the value with this key."""
        found = self._numbers.get(key)
        if found is None:
            self._fresh += 1
            found = self._numbers[key] = self._fresh
        return found

    def fresh_number(self) -> int:
        self._fresh += 1
        return self._fresh

    def version(self, thing: object) -> int:
        return self._versions.get(thing, 0)

    def touch(self, things: Any) -> None:
        """Later loads from these have new values."""
        for thing in things:
            self._versions[thing] = self.fresh_number()

    def remember(self, key: object, value: Any) -> Any:
        self.memo[key] = value
        self._trail.append(key)
        self._levels[key] = self.depth
        return value

    @contextmanager
    def scope(self, reached: bool = False) -> Iterator[None]:
        """Values computed inside are not reused outside, where they may not dominate.

        `reached`: the inside is executed whenever the point before it is (for a loop's body:
        whenever the loop's second point is).
        """
        before, self._trail = self._trail, []
        sure = self.sure
        if not reached:
            iterates = (
                self.tested == self.depth
                or not self._hoist_points
                or self._hoist_points[-1] is not None
            )
            self.sure = self.depth if iterates else self.depth - 2
        yield
        for key in self._trail:
            self.memo.pop(key, None)
        self._trail, self.sure = before, sure

    @contextmanager
    def loop(self, tested: bool = False) -> Iterator[None]:
        """What is emitted inside is the body of a loop; invariant integers are hoisted.
        `tested`: a test precedes each iteration, so there is no second point (`entered`)."""
        self._hoist_points += (
            HoistPoint(self.code.insertion_point(), self._trail, self._fresh),
            None,
        )
        self.depth += 2
        before = self.tested
        if tested:
            self.tested = self.depth
        yield
        self.tested = before
        self.depth -= 2
        del self._hoist_points[-2:]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What is emitted inside runs only if the innermost loop iterates; invariant loads come
        here."""
        point = self._hoist_points[-1] = HoistPoint(self.code.insertion_point(), [], self._fresh)
        yield
        for key in point.trail:
            self.memo.pop(key, None)
        self._hoist_points[-1] = None

    @contextmanager
    def counted(self, first: Reg, last: Reg, step: int, name: str) -> Iterator[Reg]:
        """A loop over first, first + step, … < last, inside `loop`: yields the counter."""
        code = self.code
        enter, body, done = (code.label(f"{word}{name}") for word in ("enter_", "", "end_"))
        known = is_number(first) and is_number(last) and int(first) < int(last)
        if known and int(first) + step >= int(last) and not self.kernel.errors:
            with self.entered():
                yield first
            return
        sure = self.sure
        if known and not self.kernel.errors:
            code.jump(enter)
        else:
            some = self.unless_reported(code.emit(f"icmp slt i64 {first}, {last}"))
            code.branch(some, enter, done)
            self.sure = max(sure, self.depth - 2)  # of outer loops, not every iteration comes here
        code.start(enter)
        with self.entered():
            code.jump(body)
            code.start(body)
            counter, at = code.phi("i64", first, enter, "i")
            yield counter
            after = code.advance(counter, step)
            code.complete(at, after, code.block)
            more = self.unless_reported(code.emit(f"icmp slt i64 {after}, {last}"))
            code.branch(more, body, done)
        self.sure = sure
        code.start(done)

    def load_depth(self, buffer: Buffer, depth: int) -> int:
        """The depth at which to emit a load whose index has this depth: as far outside as possible,
        such that the load is executed whenever that point is reached, and no store to the buffer is
        in between."""
        for level in range(depth | 1, self.depth, 2):
            point = self._hoist_points[level]
            if (point is not None and level > self.sure and self.version(buffer) <= point.mark
                    and not self.kernel.errors):  # fmt: skip
                return level
        if self.depth > 2 and depth < (self.depth if self.kernel.errors else self.tested):
            self.thorough = True
        return self.depth

    def changes(self, value: Value) -> int:
        """The depth of the innermost loop in which a value varies."""
        if value.poly is None:
            return self._changes.get(value.key, 0)  # a constant has none
        return max([self._changes[a] for product in value.poly.terms for a in product], default=0)

    def since(self, value: Value, depth: int, costly: bool) -> Value:
        """Record that a value made here varies at this depth only.  If it is costly, LLVM is asked
        to hoist it out of the inner loops (`thorough`)."""
        if depth < self.depth:
            self._changes[value.key if value.poly is None else self.atom(value)] = depth
            self.thorough |= costly and self.depth > 2
        return value

    @contextmanager
    def outside(self, depth: int, vectors: bool = False) -> Iterator[None]:
        """Emit at `depth`, which is less than the current one.

        `vectors`: what is emitted is a vector.  Vectors are computed where they are first used,
        maybe deeper than `depth`; those do not dominate this point and are computed again.
        """
        point, code = self._hoist_points[depth], self.code
        assert point is not None
        before = code.lines, self._trail, self.depth
        code.lines, self._trail, self.depth = point.lines, point.trail, depth
        deeper = [k for k in self.memo if self._levels[k] > depth] if vectors else []
        hidden = {k: self.memo.pop(k) for k in deeper}
        yield
        for key, value in hidden.items():
            self.memo.setdefault(key, value)
        code.lines, self._trail, self.depth = before

    @contextmanager
    def masked(self, mask: Reg | None) -> Iterator[None]:
        """Only these lanes are active inside."""
        before, self.mask = self.mask, mask
        with self.scope():
            yield
        self.mask = before

    @contextmanager
    def one_by_one(self) -> Iterator[None]:
        """What is emitted inside computes one element of the enclosing vector loop."""
        before = self.lanes, self.mask, self.varying, self.single
        self.lanes, self.mask, self.varying, self.single = 0, None, set(), True
        with self.scope():
            yield
        self.lanes, self.mask, self.varying, self.single = before

    # --- making values --------------------------------------------------------------------

    def in_register(self, type_: ScalarType, regs: tuple[Reg, ...], lanes: int) -> Value:
        """A computed value; an int64 becomes an atom of polynomials."""
        number = self.fresh_number()
        self._depths[number] = self._changes[number] = self.depth
        if type_ == int64:
            self.atoms[number] = Value(type_, regs, lanes, number)
            poly = Polynomial.atom(number)
            return Value(type_, regs, lanes, self.number(poly.key), poly)
        return Value(type_, regs, lanes, number)

    def atom(self, value: Value) -> int:
        """The atom of a value made by `in_register`."""
        assert value.poly is not None
        (monomial,) = value.poly.terms
        return monomial[0]

    def polynomial(self, poly: Poly) -> Value:
        """An int64 value; its code is emitted at its first use."""
        lanes = self.lanes
        if lanes and not any(map(self.varies, poly.terms)):
            lanes = 0
        # The tail of a loop has fewer lanes than its groups: what they remember is not the same.
        key = self.number((poly.key, lanes) if lanes else poly.key)
        return Value(int64, (), lanes, key, poly, poly.value)

    def varies(self, monomial: tuple[int, ...]) -> bool:
        """Whether a product of atoms differs between lanes."""
        for a in monomial:  # noqa: SIM110
            if a == LANE or self.atoms[a].lanes:
                return True
        return False

    def constant(self, type_: ScalarType, value: Any) -> Value:
        if type_ == int64:
            return self.polynomial(Polynomial.number(int(value)))
        number = self.number(("c", type_.name, bytes(type_.numpy.type(value).tobytes())))
        regs = literals(Lanes(self.code, 0), type_, value)
        return Value(type_, regs, 0, number, None, value)

    def regs(self, value: Value, lanes: int | None = None) -> tuple[Reg, ...]:
        """The registers of a value, as scalars or as vectors of `lanes` lanes."""
        lanes = value.lanes if lanes is None else lanes
        regs = value.regs
        if not regs:
            key = ("written", value.key)
            regs = self.memo.get(key) or self._written(key, value)
        if lanes == value.lanes:
            return regs
        if lanes == 0:
            raise AssertionError("a varying value where a uniform one is needed")
        splat = ("splat", value.key, lanes)
        found = self.memo.get(splat)
        if found is None:
            v, e = Lanes(self.code, lanes), register_element(value.type)
            # Literals become vectors before all loops, where LLVM has those of constants.
            literal = value.key in self.literals and self.depth > 0
            with self.outside(0) if literal else nullcontext():
                found = self.remember(splat, tuple(v.splat(e, r) for r in regs))
        return found  # type: ignore[no-any-return]

    def reg(self, value: Value, lanes: int | None = None) -> Reg:
        return self.regs(value, lanes)[0]

    def _written(self, key: object, value: Value) -> tuple[Reg, ...]:
        assert value.poly is not None
        depth = self.depth_of(value.poly)
        if value.lanes or depth >= self.depth:
            return self.remember(key, (self.write(value),))  # type: ignore[no-any-return]
        with self.outside(depth):
            return self.remember(key, (self.write(value),))  # type: ignore[no-any-return]

    def write(self, value: Value) -> Reg:
        """Emit the code of a polynomial: sums of terms of outer loops first, hoisted out of inner
        loops."""
        poly = value.poly
        assert poly is not None
        if not poly.terms:
            return "0"
        v = Lanes(self.code, value.lanes)
        if len(poly.terms) == 1:
            ((monomial, coefficient),) = poly.terms.items()
            if monomial == (LANE,):
                return v.iota("i64", coefficient)
            if not monomial:
                return str(coefficient)
            result = self._product(monomial, value.lanes)
            if coefficient != 1:
                result = v.op("mul", "i64", result, v.lit("i64", coefficient))
            return result
        last = max(poly.terms, key=self._term_depth)
        rest = dict(poly.terms)
        tail = self.polynomial(Polynomial({last: rest.pop(last)}))
        first = self.polynomial(Polynomial(rest))
        return v.op("add", "i64", self.reg(first, value.lanes), self.reg(tail, value.lanes))

    def _term_depth(self, monomial: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        varying = self.varies(monomial)
        constant = 0 if monomial else 1
        return (2 * varying + constant, self.depth_of_product(monomial), monomial)

    def depth_of_product(self, monomial: tuple[int, ...]) -> int:
        """The loop depth of the innermost atom of a product."""
        return max([self._depths[a] for a in monomial], default=0)

    def depth_of(self, poly: Poly) -> int:
        """The loop depth of the innermost atom of a polynomial."""
        return max([self._depths[a] for product in poly.terms for a in product], default=0)

    def _depth(self, value: Value) -> int:
        if value.poly is not None:
            return self.depth_of(value.poly)
        return self._depths.get(value.key, 0)  # a constant has none

    def _product(self, monomial: tuple[int, ...], lanes: int) -> Reg:
        v = Lanes(self.code, lanes)
        result = ""
        for a in monomial:
            factor = v.iota("i64") if a == LANE else self.reg(self.atoms[a], lanes)
            result = v.op("mul", "i64", result, factor) if result else factor
        return result

    # --- expressions ----------------------------------------------------------------------

    def value(self, e: Expr, copy: Copy) -> Value:
        """Evaluate an expression for one copy."""
        if isinstance(e, Var):
            return self.variable(e, copy)
        if isinstance(e, Const):
            return self._literal(e)
        done: dict[Expr, Value] = {}
        for node in walk((e,)):
            done[node] = self._node(node, [done[a] for a in node.args], copy)
        return done[e]

    def _node(self, node: Expr, args: list[Value], copy: Copy) -> Value:
        if isinstance(node, Apply):
            self.code.branches = node in self.late
            return self.applied(node.op, node.type, args)
        if isinstance(node, Load):
            return memory.load(self, node.buffer, args[0])
        if isinstance(node, Var):
            return self.variable(node, copy)
        if isinstance(node, Const):
            return self._literal(node)
        if isinstance(node, Foreign):
            return call_foreign(self, node, args)
        raise AssertionError(f"{type(node).__name__} in kernel IR")

    def _literal(self, e: Const) -> Value:
        found = self._constants.get(e)
        if found is None:
            found = self._constants[e] = self.constant(e.type, e.value)
        return found

    def variable(self, var: Var, copy: Copy) -> Value:
        found = copy.values.get(var)
        if found is not None:
            return found
        slot = copy.slots[var]
        key = ("var", id(slot), self.version(slot), self.version(var))
        cached = self.memo.get(key)
        if cached is None:
            t = vector(register_element(var.type), slot.lanes)
            regs = tuple(self.code.emit(f"load {t}, ptr {p}") for p in slot.pointers)
            cached = self.remember(key, self.in_register(var.type, regs, slot.lanes))
        return cached  # type: ignore[no-any-return]

    def apply(self, name: str, type_: ScalarType, args: list[Value]) -> Value:
        """A primitive of the language, by its name, on values."""
        return self.applied(primitive(name), type_, args)

    def applied(self, op: Primitive, type_: ScalarType, args: list[Value]) -> Value:
        """A primitive on values."""
        name, source = op.name, args[-1].type
        if type_ == int64 and name in _POLYNOMIAL and source == int64:
            found = self._linear(name, args)
            if found is not None:
                return self.polynomial(found)
        numbers = [a.key for a in args]
        if op.commutative:
            numbers.sort()
        key = self.number((name, type_.name, source.name, *numbers))
        cached = self.memo.get(key)
        if cached is not None:
            return cached  # type: ignore[no-any-return]
        lanes = self.lanes and (self.lanes if any([a.lanes for a in args]) else 0)
        regs = None
        if lanes and name == "equal" and source == int64:
            regs = self._one_lane(args)
        if not lanes and name != "power" and type_.kind in _EXACT and source.kind in _EXACT:
            depth = max(map(self._depth, args))
            if depth < self.depth:
                with self.outside(depth):
                    return self._computed(key, op, type_, args, lanes)
        made = self._computed(key, op, type_, args, lanes, regs)
        if not self.depth:
            return made
        costly = op.cost >= EXPENSIVE and (lanes > 0 or type_.is_inexact)
        return self.since(made, max(map(self.changes, args)), costly)

    def _computed(self, key: int, op: Primitive, type_: ScalarType, args: list[Value], lanes: int,
                  regs: tuple[Reg, ...] | None = None) -> Value:  # fmt: skip
        """The value with this key, in `regs` already or by code for it."""
        if regs is None:
            regs = self.combine(op, type_, args, lanes)
        made = self.in_register(type_, regs, lanes)
        if self._is_natural(op, args):
            self.natural.add(made.key)
        return self.remember(key, made)  # type: ignore[no-any-return]

    def _is_natural(self, op: Primitive, args: list[Value]) -> bool:
        """Whether this divides a non-negative number by a positive one."""
        return op.name in _UNSIGNED and args[0].key in self.natural and args[1].key in self.positive

    def _one_lane(self, args: list[Value]) -> tuple[Reg, ...] | None:
        """The comparison of two indices that are equal in at most one lane, as a mask with that
        bit; None for other indices."""
        a, b = (x.poly for x in args)
        if a is None or b is None or self.lanes > 32:
            return None
        step = (a - b).coefficient(LANE)
        if step not in (1, -1):
            return None
        found = wrapped((b - a) * step + Polynomial.atom(LANE))
        if any(map(self.varies, found.terms)):
            return None
        lane = self.reg(self.polynomial(found), 0)
        most = self.code.intrinsic("llvm.umin.i64", "i64", [("i64", lane), ("i64", "63")])
        bit = self.code.emit(f"shl i64 1, {most}")  # without such a lane, trunc drops it
        bits = self.code.emit(f"trunc i64 {bit} to i{self.lanes}")
        return (self.code.emit(f"bitcast i{self.lanes} {bits} to {vector('i1', self.lanes)}"),)

    def _linear(self, name: str, args: list[Value]) -> Poly | None:
        forms = [a.poly for a in args if a.poly is not None]
        if name == "multiply":
            # Products of indices are expanded; data is not, because that adds operations.
            a, b = forms
            if (
                (self._is_data(a) or self._is_data(b))
                and not (a.value is not None and len(b.terms) <= 1)
                and not (b.value is not None and len(a.terms) <= 1)
            ):
                return None
            if len(a.terms) * len(b.terms) > _MOST_TERMS or a.degree + b.degree > _MOST_FACTORS:
                return None
        found = arithmetic(name, forms)
        assert found is not None
        found = wrapped(found)
        return found if len(found.terms) <= _MOST_TERMS else None

    def _is_data(self, poly: Poly) -> bool:
        """Whether a polynomial has lane-varying terms other than the lane number."""
        return any(a != LANE and self.atoms[a].lanes for m in poly.terms for a in m)

    def combine(self, op: Primitive, type_: ScalarType, args: list[Value],
                lanes: int) -> tuple[Reg, ...]:  # fmt: skip
        """A primitive on registers of `lanes` lanes, independent of the enclosing loop."""
        regs = [self.regs(a, lanes) for a in args]
        if self._is_natural(op, args):
            return (self.code.emit(f"{_UNSIGNED[op.name]} i64 {regs[0][0]}, {regs[1][0]}"),)
        types, consts = [a.type for a in args], [a.const for a in args]
        return operate(Lanes(self.code, lanes), self.target, op, type_, types, regs, consts)

    # --- variables ------------------------------------------------------------------------

    def declare(self, var: Var, value: Value, copy: Copy) -> None:
        lanes = self.lanes if var in self.varying else 0
        t = vector(register_element(var.type), lanes)
        pointers = tuple(self.code.allocate(t) for _ in range(parts(var.type)))
        copy.slots[var] = slot = Slot(pointers, lanes, self.mask, var.type, self.depth)
        copy.values.pop(var, None)
        self._put(var, slot, value)

    def assign(self, var: Var, value: Value, copy: Copy) -> None:
        slot = copy.slots[var]
        if slot.lanes and self.mask is not None and self.mask != slot.mask:
            v, e = Lanes(self.code, slot.lanes), register_element(var.type)
            old, new = self.regs(self.variable(var, copy)), self.regs(value, slot.lanes)
            kept = tuple(v.select(e, self.mask, n, o) for n, o in zip(new, old, strict=True))
            value = self.in_register(var.type, kept, slot.lanes)
        self._put(var, slot, value)

    def _put(self, var: Var, slot: Slot, value: Value) -> None:
        t = vector(register_element(var.type), slot.lanes)
        regs = self.regs(value, slot.lanes)
        for p, r in zip(slot.pointers, regs, strict=True):
            self.code.do(f"store {t} {r}, ptr {p}")
        self.touch((slot,))
        stored = value
        if slot.lanes != value.lanes:
            stored = self.in_register(var.type, regs, slot.lanes)
        self.remember(("var", id(slot), self.version(slot), self.version(var)), stored)

    def reload(self, var: Var, pointers: Sequence[Reg], copy: Copy) -> None:
        """Assign the vectors in memory to a variable, whatever the mask; bools are bytes there."""
        slot, regs = copy.slots[var], []
        e = register_element(var.type)
        for p in pointers:
            t = vector("i8" if e == "i1" else e, slot.lanes)
            got = self.code.emit(f"load {t}, ptr {p}")
            if e == "i1":
                got = self.code.emit(f"trunc {t} {got} to {vector(e, slot.lanes)}")
            regs.append(got)
        self._put(var, slot, self.in_register(var.type, tuple(regs), slot.lanes))

    def unless_reported(self, condition: Reg) -> Reg:
        """The condition for another iteration; checked kernels stop at the first failed check."""
        if not self.kernel.errors:
            return condition
        site = self.code.emit(f"load atomic i64, ptr {self.errors} monotonic, align 8")
        none = self.code.emit(f"icmp eq i64 {site}, 0")
        return self.code.emit(f"and i1 {condition}, {none}")

    # --- the function ---------------------------------------------------------------------

    def address(self, buffer: Buffer) -> Reg:
        return self.pointers[buffer]

    # `statements.KernelEmitter` implements the emission of statements.

    @abstractmethod
    def block(self, body: Sequence[Statement], copies: Sequence[Copy]) -> None:
        """Statements in order, for every copy."""

    @abstractmethod
    def statement(self, s: Statement, copies: Sequence[Copy]) -> None:
        """One statement, for every copy."""

    @abstractmethod
    def uniform_for(self, s: For, copies: Sequence[Copy], start: Value, stop: Value) -> None:
        """A loop whose bounds all copies share."""

    def emit(self) -> str:
        """The text of the complete module."""
        kernel, code = self.kernel, self.code
        self.late = late_choices(kernel.body)
        arguments, loads, given, legend = [], [], [], []
        slot = 0

        def incoming(name: str, type_: str, attributes: str = "") -> Reg:
            nonlocal slot
            reg = f"%a{slot}"
            legend.append(f"{reg} {name}")
            arguments.append(f"{type_}{attributes} {reg}")
            loads.append(f"  %p{slot} = getelementptr i64, ptr %args, i64 {slot}")
            loads.append(f"  %v{slot} = load {type_}, ptr %p{slot}")
            given.append(f"{type_} %v{slot}")
            slot += 1
            return reg

        heap: list[Reg] = []
        stack = 0
        for b in kernel.buffers:
            if b.role == "local":
                size = self.local_size(b) * b.type.bytes + 2 * memory.PADDING
                if stack + size <= _STACK:
                    stack += size
                    whole = code.allocate("i8", 64, size)
                else:
                    self.module.declare("malloc", "ptr", ["i64"], pure=False)
                    whole = code.emit(f"call ptr @malloc(i64 {size})")
                    heap.append(whole)
                self.pointers[b] = code.emit(f"getelementptr i8, ptr {whole}, i64 {memory.PADDING}")
            else:
                self.pointers[b] = incoming(b.name, "ptr", " noalias")
        self.errors = incoming("errors", "ptr", " noalias")
        top = Copy()
        natural = natural_scalars(kernel)
        for var in kernel.scalars:
            e = register_element(var.type)
            regs = []
            within = f" range(i64 0, {-(1 << 63)})" if var in natural else ""
            for _ in range(parts(var.type)):
                reg = incoming(var.name, "i64" if e == "i1" else e, within)
                regs.append(code.emit(f"trunc i64 {reg} to i1") if e == "i1" else reg)
            top.values[var] = self.in_register(var.type, tuple(regs), 0)
        first = len(kernel.scalars) - kernel.literals
        self.literals = {top.values[v].key for v in kernel.scalars[first:]}
        self.positive = {top.values[v].key for v in positive_scalars(kernel)}
        for named, x in once(kernel.body, kernel.scalars):  # equal ones in loops have its number
            made = self.value(x, top)
            if named is not None:
                top.values[named] = made
        with self.loop(), self.counted("%begin", "%end", 1, "task") as task:
            top.values[kernel.task] = self.in_register(int64, (task,), 0)
            self.natural.add(top.values[kernel.task].key)
            if kernel.in_order:  # a task loads what those before have stored
                self.touch(modified(kernel.body))
                self.thorough = True  # and its parts load the same elements between stores
                self.code.in_order = True
            with self.scope(reached=True):
                self.block(kernel.body, [top])
        for pointer in heap:
            self.module.declare("free", "void", ["ptr"], pure=False)
            code.do(f"call void @free(ptr {pointer})")
        if FENCE in self.module.declarations:
            code.do(f"call void @{FENCE}()")
        code.do("ret void")
        name = re.sub(r"[^A-Za-z0-9_.]", "_", kernel.name)
        inner = ", ".join([*arguments, "i64 %begin", "i64 %end"])
        remarks = [*kernel.comments, "tasks %begin to %end; " + ", ".join(legend)]
        self.module.functions.append(
            "".join(f"; {line}\n" for remark in remarks for line in remark.splitlines())
            + code.finish(f"define internal void @{name}({inner}) #2")
        )
        passed = ", ".join([*given, "i64 %begin", "i64 %end"])
        lines = ["define void @entry(ptr %args, i64 %begin, i64 %end) #0 {", *loads,
                 f"  call void @{name}({passed})", "  ret void", "}", ""]  # fmt: skip
        self.module.functions.append("\n".join(lines))
        text = self.module.text(self.target.attributes)
        if self.target.is_x86 and "+f16c" not in self.target.features and " half" in text:
            text += CONVERSIONS
        return text

    def local_size(self, buffer: Buffer) -> int:
        if not isinstance(buffer.size, Const):
            raise AssertionError(f"local buffer {buffer.name} has no constant size")
        return int(buffer.size.value)

    def same(self, e: Expr, copies: Sequence[Copy]) -> Value | None:
        """The value of `e` when all copies agree on it."""
        values = [self.value(e, c) for c in copies]
        first = values[0]
        return first if all(x.key == first.key for x in values) else None
