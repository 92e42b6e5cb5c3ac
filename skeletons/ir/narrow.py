"""Index arithmetic in 32 bits: before → after.

    out[((i * n1) + j)] = …, i and j int64     →  out[int64((i * n1) + j)] = …, both int32
    (task // across), across a scalar          →  a multiplication by its reciprocal

The low 32 bits of sums and products do not depend on the high bits of the operands, so an index,
which is below 2³¹, may be computed from the low halves of its operands alone.  Quotients,
comparisons, minima and the like need complete operands: they are narrowed if interval analysis
(`ranges.py`) shows that these fit.  The user's int64 data keeps its 64 bits.

A bound may depend on the scalars (`task` is below `tasks`).  The narrow kernel is correct under its
`requires`, which begin with its int64 scalars that became int32 and the sizes of its buffers; its
`fallback` is the original kernel.  These conditions use unbounded integers, and the values of the
scalars before they are truncated to 32 bits.

The constant part of an index is added last, in 64 bits, where it is folded into an address.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from treadle.dsl import simplify
from treadle.dsl.expr import Apply, Const, Expr, Var, constant, primitive, substitute, walk
from treadle.dsl.graph import Combine
from treadle.dsl.primitives import RECIPROCAL_DIVIDE
from treadle.dsl.types import ScalarType, bool_, int32, int64, uint32

from . import arithmetic as at, kernel as ir
from .hosted import Reciprocal, reciprocal
from .ranges import LARGEST, Ranges

#: The low half of a result depends on the low halves of the operands only.
_RING = ("add", "subtract", "multiply", "negative", "fma", "bitwise_and", "bitwise_or",
         "bitwise_xor", "invert")  # fmt: skip
_DIVISIONS = ("floor_divide", "remainder", "quot", "rem")
#: Operations whose results are correct in 32 bits if all operands fit.
_WHOLE = (*_DIVISIONS, "minimum", "maximum", "right_shift", "absolute", "sign")
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_PASSES = 12


def narrow(kernel: ir.Kernel, indices: bool = True) -> ir.Kernel | None:
    """The kernel in 32 bits, with `kernel` as its last `fallback`; None if there is no gain.

    With `indices=False` only quotients and remainders in loops are narrowed, if their divisor is
    not a constant or differs between the lanes of a vector.
    """
    made = [_narrowed(k, indices) for k in kernel.variants]
    if not any(made):
        return None
    # A narrow variant falls back to the next narrow variant, and the last one to `kernel`.
    result = kernel
    for narrowed in reversed([m for m in made if m is not None]):
        conditional = narrowed.requires or narrowed.aligned
        result = replace(narrowed, fallback=result if conditional else None)
    return result


def _narrowed(kernel: ir.Kernel, indices: bool) -> ir.Kernel | None:
    if not indices and not _divides_often(kernel.body):
        return None
    ranges = Ranges(kernel)
    # Scalars used only by the number of blocks need no 32-bit form.
    used = set(walk(e for s in ir.statements(kernel.body) for e in ir.evaluated(s)))
    wide = {v for v in kernel.scalars if v not in used} if indices else set()
    for _ in range(_PASSES):
        attempt = _Pass(kernel, ranges, wide, indices)
        made = attempt.kernel_of()
        if attempt.impossible:
            return None
        if attempt.wanted_wide <= wide:
            return made if attempt.changed else None
        wide = wide | attempt.wanted_wide
    return None


def _divides_often(body: ir.Body, loops: bool = False, lanes: bool = False) -> bool:
    """Whether a CPU kernel may contain divisions for which `_Pass._is_slow` holds."""
    for s in body:
        iterates = isinstance(s, ir.For | ir.Reduce | ir.While)
        vector = isinstance(s, ir.Reduce) or (isinstance(s, ir.For) and s.kind == "vector")
        for e in walk(ir.expressions(s)):
            if (
                isinstance(e, Apply) and e.op.name in _DIVISIONS
                and (lanes or vector or ((loops or iterates) and not isinstance(e.args[1], Const)))
            ):  # fmt: skip
                return True
        if any(_divides_often(b, loops or iterates, lanes or vector) for b in ir.children(s)):
            return True
    return False


def _to32(e: Expr) -> Expr:
    return simplify.cast(e, int32)


def _is_ones(e: Expr) -> bool:
    return isinstance(e, Const) and int(e.value) == -1


def _to64(e: Expr) -> Expr:
    return simplify.cast(e, int64)


class _Pass:
    """One attempt, in which the variables of `wide` keep 64 bits.

    An int64 expression has three representations: `low`, the low half as an int32; `exact`, the
    value as an int32, under conditions; `wide`, the value as an int64.  `wanted_wide` collects
    variables found to need 64 bits, for the next attempt.
    """

    def __init__(self, kernel: ir.Kernel, ranges: Ranges, wide: set[Var], indices: bool) -> None:
        self.kernel, self.ranges, self.wide_variables = kernel, ranges, wide
        self.indices = indices
        self.wanted_wide: set[Var] = set()
        self.extended: set[Var] = set()
        self.changed = False
        self.conditions: dict[Expr, None] = {}
        self.fitting: dict[Expr, None] = {}  # int64 expressions of the kernel that must fit
        self.highest: dict[Expr, None] = {}  # and expressions over scalars, at most LARGEST
        self.values: dict[Expr, Expr | None] = {}  # of Let variables; None of mutable ones
        self.given: dict[Expr, list[Expr]] = {}  # all values assigned to a variable
        self.reach: dict[ir.Buffer, int] = {}  # how far below an element an index may start
        self.touched: set[Var] = set()
        self.impossible = False
        self.new: dict[Var, Var] = {}
        self.counters: set[Expr] = {kernel.task}
        self.unrolled: set[Var] = set()
        self.loops = 0  # around the present statement
        self.reciprocals: dict[Expr, tuple[Var, Var]] = {}
        self._low: dict[Expr, Expr] = {}
        self._wide: dict[Expr, Expr] = {}
        if indices:
            for v in (*kernel.scalars, kernel.task, kernel.thread):
                if v is not None and self._may_retype(v):
                    self._retype(v)

    # --- the kernel -----------------------------------------------------------------------

    def _spread(self) -> None:
        """Propagate now, not by further attempts: values of 64-bit variables need 64 bits too."""
        seen: set[Var] = set()
        self.wanted_wide |= self.extended - self.fitting.keys()
        while seen != self.wanted_wide:
            for v in self.wanted_wide - seen:
                seen.add(v)
                for value in self.given.get(v, ()):
                    self.other(value)
            self.wanted_wide |= self.extended - self.fitting.keys()

    def kernel_of(self) -> ir.Kernel:
        kernel = self.kernel
        body = self.body(kernel.body)
        if self.indices:  # otherwise it depends on the loops around
            self._spread()
        retyped: dict[Expr, Expr] = {v: _to64(self.new[v]) for v in kernel.scalars if v in self.new}
        for v in retyped:
            self._test(v)
            if v not in self.touched:  # it has no use in 32 bits: data
                self.wanted_wide.add(v)  # type: ignore[arg-type]
        for buffer, reach in self.reach.items():
            self.highest[buffer.size + reach] = None
        if kernel.task in self.new:
            self.highest[kernel.tasks] = None
        for condition in self.ranges.conditions(self.fitting, self.highest):
            self._require(condition)
        for v, least in self.ranges.assumed.items():
            self._require(at.less_equal(least, v))
        requires = dict.fromkeys((*kernel.requires, *self.conditions))
        more = self._reciprocal_scalars()
        return replace(
            kernel,
            scalars=(*(self.new.get(v, v) for v in kernel.scalars), *(v for v, _ in more)),
            scalar_values=(*kernel.scalar_values, *(h for _, h in more)),
            tasks=substitute((kernel.tasks,), retyped)[0],
            task=self.new.get(kernel.task, kernel.task),
            thread=None if kernel.thread is None else self.new.get(kernel.thread, kernel.thread),
            requires=substitute(tuple(requires), retyped),
            body=body,
        )

    def _reciprocal_scalars(self) -> list[tuple[Var, Expr]]:
        found: list[tuple[Var, Expr]] = []
        for divisor, (multiplier, shift) in self.reciprocals.items():
            (host,) = substitute((divisor,), self.kernel.hosts)
            found += [(multiplier, Reciprocal(host, "multiplier")),
                      (shift, Reciprocal(host, "shift"))]  # fmt: skip
        return found

    def _require(self, condition: Expr) -> None:
        if isinstance(condition, Const):
            self.impossible |= not bool(condition.value)
        else:
            self.conditions[condition] = None

    def _test(self, e: Expr) -> None:
        if e in self.counters:  # their bounds have been tested
            return
        self.fitting[e] = None

    # --- variables ------------------------------------------------------------------------

    def _retype(self, v: Var) -> Var:
        if v not in self.new:
            self.new[v] = Var(v.name, int32)
        return self.new[v]

    def _may_retype(self, v: Var) -> bool:
        return (self.indices and v.type == int64 and v not in self.wide_variables
                and v not in self.ranges.repeated)  # fmt: skip

    def _narrowed_value(self, e: Expr) -> bool:
        """Whether the value of `e` is available in 32 bits at all its uses."""
        if not isinstance(e, Apply) or e.op.name not in _WHOLE:
            return isinstance(e, Const | Var) and self.ranges.fits(e)
        if not self.indices and e.op.name not in _DIVISIONS:
            return False
        if not all(self.ranges.fits(a) for a in e.args):
            return False
        return self.indices or self._is_slow(e)

    def _is_slow(self, e: Apply) -> bool:
        """Whether a division of a CPU kernel is executed often enough to be worth narrowing."""
        if self.ranges.depends_on_lanes(e):
            return True
        return self.loops > 0 and not isinstance(e.args[1], Const)

    # --- the three representations of an expression ---------------------------------------

    def exact(self, e: Expr) -> Expr:
        """The value as an int32, for expressions that fit (`ranges.fits`)."""
        self._test(e)
        return self.low(e)

    def low(self, e: Expr) -> Expr:
        """The low half of an int64 expression, as an int32."""
        if e not in self._low:
            self._low[e] = self._make_low(e)
        return self._low[e]

    def _make_low(self, e: Expr) -> Expr:
        if isinstance(e, Const):
            return Const((int(e.value) + (1 << 31)) % (1 << 32) - (1 << 31), int32)
        if isinstance(e, Var):
            self.touched.add(e)
            return self.new[e] if e in self.new else _to32(e)
        if isinstance(e, Apply):
            name = e.op.name
            if name == "bitwise_and":
                rest = [a for a in e.args if not _is_ones(self.low(a))]
                if len(rest) == 1:  # the mask is all ones in the low half
                    return self.low(rest[0])
            if name in _RING:
                return simplify.apply(e.op, tuple(self.low(a) for a in e.args), int32)
            if name == "select":
                sides = tuple(self.low(a) for a in e.args[1:])
                return simplify.select(self.other(e.args[0]), *sides)
            if name == "left_shift" and self.ranges.fits(e.args[1]):
                args = self.low(e.args[0]), self.exact(e.args[1])
                return simplify.apply(e.op, args, int32)
            if name == "cast":
                source = e.args[0].type
                if source.is_integer or source.family == "bool":
                    return _to32(self.other(e.args[0]))
            if self._narrowed_value(e):
                return self._whole(e)
        return _to32(self.wide(e))

    def _whole(self, e: Apply) -> Expr:
        self.changed = True
        by = e.args[-1]
        if e.op.name == "right_shift" and isinstance(by, Const) and int(by.value) >= 32:
            if self.ranges.never_negative(e.args[0]):
                return Const(0, int32)
        args = tuple(self.exact(a) for a in e.args)
        if e.op.name in _DIVISIONS and self.ranges.never_negative(e.args[0]):
            found = self._divide(e, args)
            if found is not None:
                return found
        return simplify.apply(e.op, args, int32)

    def _divide(self, e: Apply, args: tuple[Expr, ...]) -> Expr | None:
        """Quotient or remainder of a nonnegative number and a constant or host value."""
        quotient = e.op.name in ("floor_divide", "quot")
        number, divisor = args
        if isinstance(divisor, Const):
            d = int(divisor.value)
            if d < 1:
                return None
            if d & (d - 1) == 0:
                name, operand = ("right_shift", d.bit_length() - 1) if quotient else (
                    "bitwise_and", d - 1)  # fmt: skip
                return simplify.apply(primitive(name), (number, Const(operand, int32)), int32)
            op = primitive("floor_divide" if quotient else "remainder")
            unsigned = (simplify.cast(number, uint32), Const(d, uint32))
            return _to32(simplify.apply(op, unsigned, uint32))
        if isinstance(number, Const):
            return None
        power = self._log2(e.args[1])
        if power is not None:  # one of several powers of two
            ratio: Expr = simplify.apply(primitive("right_shift"), (number, power), int32)
            positive = True
        else:
            found = self._reciprocal(e.args[1])
            if found is None:
                return None
            multiplier, shift, positive = found
            ratio = Apply(RECIPROCAL_DIVIDE, (number, multiplier, shift), int32)
        if quotient:
            return ratio
        times = simplify.apply(primitive("multiply"), (ratio, divisor), int32)
        rest = simplify.apply(primitive("subtract"), (number, times), int32)
        if positive:
            return rest
        zero = Const(0, int32)
        return simplify.select(
            simplify.apply(primitive("equal"), (divisor, zero), bool_), zero, rest
        )

    def _reciprocal(self, divisor: Expr) -> tuple[Expr, Expr, bool] | None:
        """Multiplier, shift, and whether the divisor, which is nonnegative, is certainly not 0.

        For divisors that the host can compute, and for choices between such divisors.
        """
        if isinstance(divisor, Const):
            d = int(divisor.value)
            if not 0 <= d <= LARGEST:
                return None
            bits = Const(reciprocal(d, "multiplier"), int32)
            return bits, Const(reciprocal(d, "shift"), int32), d > 0
        host = self.ranges.of_scalars(divisor)
        if host is not None:
            known = self.ranges.least(host)
            if known < 0:
                self._require(at.less_equal(0, host))
            if host not in self.reciprocals:
                name = divisor.name if isinstance(divisor, Var) else "divisor"
                self.reciprocals[host] = (
                    Var(f"{name}_multiplier", int32), Var(f"{name}_shift", int32))  # fmt: skip
            return *self.reciprocals[host], known > 0
        value = self._choice(divisor)
        first, second = map(self._reciprocal, value.args[1:]) if value else (None, None)
        if value is None or first is None or second is None:
            return None
        chosen = self.other(value.args[0])
        multiplier = simplify.select(chosen, first[0], second[0])
        return multiplier, simplify.select(chosen, first[1], second[1]), first[2] and second[2]

    def _choice(self, divisor: Expr) -> Apply | None:
        """The select that defines a divisor, if its condition still has the same value here."""
        value = self.values.get(divisor) if isinstance(divisor, Var) else divisor
        if not isinstance(value, Apply) or value.op.name != "select":
            return None
        walked = walk(value.args[:1])
        changed = any(isinstance(x, ir.Load) or self.values.get(x, x) is None for x in walked)
        return None if changed else value

    def _log2(self, divisor: Expr) -> Expr | None:
        """The exponent of a divisor that is a power of two, chosen from constants."""
        if isinstance(divisor, Const):
            d = int(divisor.value)
            return Const(d.bit_length() - 1, int32) if d > 0 and d & (d - 1) == 0 else None
        value = self._choice(divisor)
        first, second = map(self._log2, value.args[1:]) if value else (None, None)
        if value is None or first is None or second is None:
            return None
        return simplify.select(self.other(value.args[0]), first, second)

    def wide(self, e: Expr) -> Expr:
        if e not in self._wide:
            self._wide[e] = self._make_wide(e)
        return self._wide[e]

    def _make_wide(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            if e not in self.new:
                return e
            if e in self.values:
                value = self.values[e]
                if value is None or not self.ranges.fits(e):
                    self.wanted_wide.add(e)
                    return _to64(self.new[e])
                if not self._narrowed_value(value):
                    self.extended.add(e)
                    return _to64(self.new[e])
            self._test(e)
            return _to64(self.new[e])
        if isinstance(e, Apply) and self.ranges.fits(e) and self._narrowed_value(e):
            self._test(e)
            return _to64(self._whole(e))
        return self._rebuilt(e)

    def other(self, e: Expr) -> Expr:
        """An expression of a type other than int64."""
        if e.type == int64:
            return self.wide(e)
        if e not in self._wide:
            self._wide[e] = self._rebuilt(e)
        return self._wide[e]

    def _rebuilt(self, e: Expr) -> Expr:
        """`e` over its operands, each in the representation that `e` needs."""
        if isinstance(e, ir.Load):
            return ir.Load(e.buffer, self.index(e.buffer, e.index))
        if not isinstance(e, Apply):
            if not e.args:
                return e
            return e.rebuild(tuple(self.other(a) for a in e.args), ())
        if e.op.name == "cast" and e.args[0].type == int64:
            return simplify.cast(self._cast_operand(e.args[0], e.type), e.type, e.weak)
        if self.indices and e.op.name in _COMPARISONS and e.args[0].type == int64:
            if all(self.ranges.fits(a) for a in e.args):
                return simplify.apply(e.op, tuple(self.exact(a) for a in e.args), e.type)
        args = tuple(self.other(a) for a in e.args)
        if all(a is b for a, b in zip(args, e.args, strict=True)):
            return e
        return e.rebuild(args, ())

    def _cast_operand(self, e: Expr, target: ScalarType) -> Expr:
        """The operand of a conversion from int64 to another type."""
        if not self.indices:
            return self.wide(e)
        if target.is_integer and target.bits <= 32:
            return self.low(e)
        return self.exact(e) if self.ranges.fits(e) else self.wide(e)

    # --- indices --------------------------------------------------------------------------

    def index(self, buffer: ir.Buffer, e: Expr) -> Expr:
        """A position in a buffer."""
        if not self.indices:
            return self.wide(e)
        if not buffer.dense:  # such a position is not bounded
            return self.exact(e) if self.ranges.fits(e) else self.wide(e)
        if not self.ranges.is_host(buffer.size):
            return self.wide(e)
        rest, fixed = self._split(e)
        bounds = self.ranges.of(fixed)
        if bounds is None or not all(isinstance(b, Const) for b in bounds):
            rest, fixed, reach = e, constant(0), 0
        else:
            reach = max(-int(bounds[0].value), 0)  # type: ignore[attr-defined]
            if max(reach, int(bounds[1].value)) > LARGEST:  # type: ignore[attr-defined]
                return self.wide(e)
        if isinstance(rest, Const):
            return self.wide(e)
        made = _to64(self.low(rest)) + self.wide(fixed)
        if made is not e:
            self.changed = True
            self.reach[buffer] = max(self.reach.get(buffer, 0), reach)
        return made

    def _split(self, e: Expr) -> tuple[Expr, Expr]:
        """Split an index into its variable part and the part that is constant after unrolling."""
        rest: Expr = constant(0)
        fixed: Expr = constant(0)
        stack = [(e, True)]
        while stack:
            term, positive = stack.pop()
            if isinstance(term, Apply) and term.op.name in ("add", "subtract"):
                stack.append((term.args[1], positive == (term.op.name == "add")))
                stack.append((term.args[0], positive))
                continue
            add = at.add if positive else at.subtract
            if all(isinstance(x, Const | Apply) or x in self.unrolled for x in walk((term,))):
                fixed = add(fixed, term)
            else:
                rest = add(rest, term)
        return rest, fixed

    # --- statements -----------------------------------------------------------------------

    def body(self, body: ir.Body) -> ir.Body:
        return tuple(self.statement(s) for s in body)

    def statement(self, s: ir.Statement) -> ir.Statement:
        match s:
            case ir.Let() | ir.Declare():
                self.values[s.var] = s.value if isinstance(s, ir.Let) else None
                if self._may_retype(s.var):
                    self.given.setdefault(s.var, []).append(s.value)
                    return type(s)(self._retype(s.var), self.low(s.value))
                return type(s)(s.var, self.other(s.value))
            case ir.Assign():
                if s.var in self.new:
                    self.given.setdefault(s.var, []).append(s.value)
                    return ir.Assign(self.new[s.var], self.low(s.value))
                return ir.Assign(s.var, self.other(s.value))
            case ir.Atomic():
                for b in s.buffers[1:]:
                    self.index(b, s.index)
                return replace(s, index=self.index(s.buffers[0], s.index),
                               values=self._others(s.values),
                               combine=s.combine and self._combine(s.combine))  # fmt: skip
            case ir.For() | ir.Reduce():
                return self._loop(s)
            case ir.Collective():
                value, *lane = s.args
                return replace(s, args=(self.other(value), *(self._number(a) for a in lane)))
        self.loops += isinstance(s, ir.While)
        made = ir.mapped(s, self.other, self.body, self.index if hasattr(s, "buffer") else None)
        self.loops -= isinstance(s, ir.While)
        return made

    def _others(self, values: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(self.other(v) for v in values)

    def _number(self, e: Expr) -> Expr:
        """An integer of any type, narrowed if possible."""
        if self.indices and e.type == int64 and self.ranges.fits(e):
            return self.exact(e)
        return self.other(e)

    def _combine(self, combine: Combine) -> Combine:
        results = self._others(combine.results)
        return combine if results == combine.results else replace(combine, results=results)

    def _loop(self, s: ir.For | ir.Reduce) -> ir.Statement:
        step = s.step if isinstance(s, ir.For) else 1
        fit = self.ranges.fits(s.start) and self.ranges.fits(s.stop)
        if fit and self._may_retype(s.var):
            start, stop, var = self.exact(s.start), self.exact(s.stop), self._retype(s.var)
            self.counters.add(s.var)
            if step > 1:  # the counter goes beyond the end
                last = self.ranges.of(s.stop)
                assert last is not None
                self.highest[last[1] + (step - 1)] = None
        else:
            start, stop, var = self.other(s.start), self.other(s.stop), s.var
        if isinstance(s, ir.For) and s.kind == "unrolled":
            self.unrolled.add(s.var)
        self.loops += 1
        body = self.body(s.body)
        if isinstance(s, ir.For):
            made: ir.Statement = ir.For(var, start, stop, body, s.kind, s.step, s.rare)
        else:
            self.wanted_wide.update(v for v in s.accumulators if v in self.new)
            made = ir.Reduce(var, start, stop, body, self._others(s.values), s.accumulators,
                          self._combine(s.combine), s.long)  # fmt: skip
        self.loops -= 1
        return made
