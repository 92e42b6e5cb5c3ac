"""Decomposition of primitives into simpler ones, with one set of rules for all printers.

A printer knows the operations of kernel IR: arithmetic on real numbers, comparisons, choices, bits
and the functions of a mathematical library.  Every other primitive has a `definition`: a `Function`
of the operands in simpler primitives, which are decomposed recursively until only operations are
left.  LLVM IR inlines the function's body at each use; CUDA C++ calls one `__device__` function (or
inlines the body of functions that are `inline`).

A rule is a Python function on `Value`s that returns the body.  It may test the operations of the
target (`Target.operations`) and known facts on the operands (constants, signs), but never the
target's name.  Printers may evaluate one or both sides of a choice (`where`): no operation fails,
but some have undefined results for some operands, which the choice must discard.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from treadle.dsl.expr import Apply, Const, Expr, Var, walk
from treadle.dsl.primitives import Primitive
from treadle.dsl.process.locks import cached
from treadle.dsl.records import dataclass
from treadle.dsl.simplify import LOGICAL_ON_BOOL
from treadle.dsl.target import Target
from treadle.dsl.types import ALL_TYPES, ScalarType

from . import decompose_complex, decompose_real  # noqa: F401  (they enter their rules)
from .kernel import Atomic
from .rules import RULES, Body, Operand, Rule, Value, kind_of


@dataclass(frozen=True, eq=False)
class Function:
    """`result` over `parameters`; `names` maps named values to their names.

    `inline`: its body is as short as a call.  `large`: it need not be inlined.
    """

    name: str
    doc: str
    parameters: tuple[Var, ...]
    result: Expr
    names: dict[Expr, str]
    inline: bool
    large: bool
    target: Target

    @cached
    def steps(self) -> tuple[Expr, ...]:
        return tuple(walk((self.result,)))

    @cached
    def plan(self) -> tuple[Step, ...]:
        """The operations among the steps, with their own definitions expanded recursively."""
        return tuple(_step(self.target, e) for e in self.steps if isinstance(e, Apply))


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of a function: the types of its operands, and the values of constant ones."""

    operation: Apply
    types: tuple[ScalarType, ...]
    constants: tuple[Any, ...]
    function: Function | None


def _step(target: Target, e: Apply) -> Step:
    types = tuple(a.type for a in e.args)
    constants = tuple(a.value if isinstance(a, Const) else None for a in e.args)
    return Step(e, types, constants, with_constants(target, e.op, e.type, types, constants))


#: Primitives whose rules test for a constant second operand.
_OF_CONSTANTS = frozenset(("power", "floor_divide", "remainder", "quot", "rem", "fmod",
                           "left_shift", "right_shift"))  # fmt: skip
_KINDS = {t.name: kind_of(t) for t in ALL_TYPES}


def is_decomposed(op: Primitive, t: ScalarType) -> bool:
    """Whether there is a rule for a primitive on operands of a type."""
    return op.formula is not None or (_KINDS[t.name], op.name) in RULES


def depends_on_operands(op: Primitive) -> bool:
    """Whether the rules of a primitive depend on known facts on its operands."""
    return op.name in _OF_CONSTANTS


def with_constants(
    target: Target,
    op: Primitive,
    result: ScalarType,
    types: Sequence[ScalarType],
    constants: Sequence[Any],
) -> Function | None:
    """The definition for known values of `constants`; the other operands are unknown."""
    if not is_decomposed(op, types[0]):
        return None
    known = depends_on_operands(op)
    given = (of_constant(t, c) if known and c is not None else _unknown(t)
             for t, c in zip(types, constants, strict=True))  # fmt: skip
    return definition(target, op, result, *given)


@functools.lru_cache(maxsize=64)
def _unknown(t: ScalarType) -> Operand:
    return Operand(t)


@functools.lru_cache(maxsize=1024)
def of_constant(t: ScalarType, value: Any) -> Operand:
    """Known facts on a constant; none for float zeros, which are equal but differ in sign."""
    if not t.is_integer:
        return Operand(t, value if value not in (0, None) and value == value else None)
    n = int(value)
    return Operand(t, value, n >= 0, n > 0, n != 0, 0 <= n < t.bits)


@functools.lru_cache(maxsize=4096)
def definition(
    target: Target, op: Primitive, result: ScalarType, *operands: Operand
) -> Function | None:
    """The decomposition of `op` for these operands; None if it is a target operation."""
    found = RULES.get((kind_of(operands[0].type), op.name))
    if found is None and op.formula is not None:
        found = op.formula, op.cost > 8
    if found is None:
        return None
    made, large = found
    body = Body(target, {})
    parameters = tuple(Var(n, o.type) for n, o in zip(_names(made), operands, strict=False))
    given = []
    for p, o in zip(parameters, operands, strict=True):
        e = p if o.constant is None else Const(o.constant, o.type)
        body.operands[e] = o
        given.append(Value(body, e))
    value = made(*given, result) if op.name == "cast" else made(*given)
    if value is None:
        return None
    assert value.type == result, f"{op.name} of {operands[0].type}: {value.type}, not {result}"
    doc = (body.doc or made.__doc__ or "").split("\n\n")[0]
    name = body.name or (f"to_{result.name}" if op.name == "cast" else op.name)
    return Function(name, " ".join(doc.split()), parameters, value.expr, body.names, body.inline,
                    large, target)  # fmt: skip


def _names(made: Rule) -> list[str]:
    found = inspect.signature(made).parameters.values()
    named = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
    return [*named, "y", "z"]


# --- Which atomic updates are one operation of the machine ----------------------------------------

#: Logical operations map to bitwise ones, and float operations to their integer counterparts.
_AS = {"logical_and": "bitwise_and", "logical_or": "bitwise_or", "logical_xor": "bitwise_xor",
       "fmin": "minimum", "fmax": "maximum"}  # fmt: skip


def machine_update(target: Target, s: Atomic, k: int) -> str | None:
    """The machine operation that updates component `k` ("add", "minimum", "maximum", "bitwise_and",
    "bitwise_or" or "bitwise_xor"), if there is one and it involves only `k`.

    The parts of complex numbers are added separately.
    """
    assert s.combine is not None
    e, t = s.combine.results[k], s.buffers[k].type
    if not isinstance(e, Apply) or set(e.args) != {s.combine.left[k], s.combine.right[k]}:
        return None
    name = e.op.name
    if t.is_inexact:
        summed = name == "add" and t.name != "bfloat16"
        return name if summed and "atomic float addition" in target.operations else None
    if t.family == "bool":
        name = LOGICAL_ON_BOOL.get(name, name)
    name = _AS.get(name, name)
    if name.startswith("bitwise"):
        return name
    short = t.bits < 32 and "short atomic operations" not in target.operations
    return name if name in ("add", "minimum", "maximum") and not short else None
