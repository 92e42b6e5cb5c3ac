"""Permutes in which every source has a target of its own: parts given by slices, transposes.

Such updates need no atomics, locks or order, and may be vectors.
"""

from __future__ import annotations

from ..expr import TRUE, Apply, Const, Expr, Index, Var, rewrite, walk
from ..graph import Permute
from ..scalar import apply_primitive
from .polynomial import affine_forms, variables

#: Index arithmetic wraps: multiples of a step with more factors of 2 might meet modulo 2**64 in a
#: domain of 2**44 elements.
MOST_FACTORS = 1 << 20


def is_one_to_one(node: Permute) -> bool:
    """Whether each axis of the target is a constant of the launch, or such a constant plus a
    multiple of one axis of the domain, and every axis with several elements occurs in one."""
    used: set[Expr] = set()
    target = _constants_named(node.target)
    forms = affine_forms(target)
    for e in target:
        form = forms.get(e)
        moving = {} if form is None else {
            v: c for v, c in variables(form).items() if isinstance(v, Index)
        }  # fmt: skip
        if form is None or len(moving) > 1:
            return False
        for variable, step in moving.items():
            if step & -step > MOST_FACTORS or variable in used:
                return False
            used.add(variable)
    return all(
        Index(k) in used or (isinstance(n, Const) and int(n.value) <= 1)
        for k, n in enumerate(node.domain)
    )


def parted(condition: Expr) -> tuple[Expr, Expr]:
    """A condition as two: what has one value for all elements of a launch, and the rest."""
    fixed: Expr = TRUE
    rest: Expr = TRUE
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, Apply) and e.op.name == "logical_and":
            stack += reversed(e.args)
        elif any(isinstance(x, Index) for x in walk((e,))):
            rest = apply_primitive("logical_and", [rest, e])
        else:
            fixed = apply_primitive("logical_and", [fixed, e])
    return fixed, rest


def _constants_named(target: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The target with a variable for every value that does not change during a launch."""
    uniform: dict[Expr, bool] = {}
    for e in walk(target):
        uniform[e] = not isinstance(e, Index) and all(uniform[x] for x in (*e.args, *e.scoped))
    named: dict[Expr, Expr] = {
        e: Var("fixed", e.type)
        for e, fixed in uniform.items()
        if fixed and e.type is not None and not isinstance(e, Const | Var)
    }
    return rewrite(target, lambda e: e, named)
