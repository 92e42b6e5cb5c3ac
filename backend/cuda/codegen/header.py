"""The comment above a printed kernel: its launch, parameters, and conditions of its variants."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from treadle.dsl.expr import Apply, Const, Expr, Extent, Param, Var, substitute, walk
from treadle.dsl.graph import Input
from treadle.skeletons.ir.kernel import Kernel

from .layout import WIDTH

_LARGEST = 2**31 - 1
#: Longer formulas are omitted: they say little to a reader.
_SHORT = 48
#: Registers of a multiprocessor.
_REGISTERS = 65_536
#: Suffixes of the names of scalars that replace a division.
_RECIPROCAL = ("_multiplier", "_shift")
#: A non-breaking space.
_JOINT = "\u00a0"
_FUNCTIONS = {"minimum": "min", "maximum": "max"}


def heading(variants: Sequence[Kernel], arch: str, names: Mapping[Var, str]) -> str:
    """Comments above the first of `variants`; `names` are the names of its scalars in the text."""
    kernel = variants[0]
    launch = textwrap.wrap(_launch(kernel, arch, names), WIDTH - 3, subsequent_indent="  ")
    lines = [*launch, *_parameters(kernel, names)]
    choices = _choices(variants)
    if len(choices) > 1:
        told = "a launch takes the first for which this is true:"
        lines.append(f"variant 1 of {len(choices)}; {told}")
        for k, needs in enumerate(choices, 1):
            lines += textwrap.wrap(f"  {k}. {needs}", WIDTH - 3, subsequent_indent="     ")
    return "".join(f"// {line}\n" for line in lines).replace(_JOINT, " ")


def _launch(kernel: Kernel, arch: str, names: Mapping[Var, str]) -> str:
    text = f"launch on {arch}: "
    bound: dict[Expr, Expr] = dict(zip(kernel.scalars, kernel.scalar_values, strict=True))
    tasks = _formula(substitute((kernel.tasks,), bound)[0], _hosts(kernel, names))
    text += (
        "blocks, as many as the host computes,"
        if tasks is None
        else f"{tasks} block{'s' * (tasks != '1')}"
    )
    text += f" of {kernel.threads} threads"
    if kernel.resident > 1:
        registers = _REGISTERS // (kernel.threads * kernel.resident) // 8 * 8
        text += (f", {kernel.resident} of them on a multiprocessor at once "
                 f"(so at most {registers} registers a thread)")  # fmt: skip
    return text


def _hosts(kernel: Kernel, names: Mapping[Var, str]) -> dict[Expr, str]:
    """The names of the kernel's scalars and of the host expressions that compute them."""
    found: dict[Expr, str] = {}
    for v, host in zip(kernel.scalars, kernel.scalar_values, strict=True):
        if v in names:
            found[v] = names[v]
            if not isinstance(host, Const):
                found.setdefault(host, names[v])
    return found


def _parameters(kernel: Kernel, names: Mapping[Var, str]) -> list[str]:
    """The formulas of the scalars where they are short; the others are marked as computed on the
    host."""
    hosts = _hosts(kernel, names)
    told: list[str] = []
    longer: list[str] = []
    for v, host in zip(kernel.scalars, kernel.scalar_values, strict=True):
        if v not in names or isinstance(host, Param):
            continue
        text = _formula(host, {e: n for e, n in hosts.items() if e is not host})
        if text is not None:
            told.append(f"{names[v]} = {text}".replace(" ", _JOINT))
        elif not names[v].endswith(_RECIPROCAL):
            longer.append(names[v])
    lines = textwrap.wrap("; ".join(told), WIDTH - 3, break_long_words=False)
    if longer:
        lines += textwrap.wrap(f"computed by the host: {', '.join(longer)}", WIDTH - 3)
    if any(name.endswith("_multiplier") for name in names.values()):
        lines.append("…_multiplier and …_shift: reciprocals to divide by, see quotient")
    return lines


def _choices(variants: Sequence[Kernel]) -> list[str]:
    """The conditions of the variants that a launch can select, in the order of trying."""
    return list(dict.fromkeys(map(_needs, variants)))


def _needs(kernel: Kernel) -> str:
    """The conditions of a variant: those of its vector accesses verbatim, those of its 32-bit
    integers summarised in one word."""
    bound: dict[Expr, Expr] = dict(zip(kernel.scalars, kernel.scalar_values, strict=True))
    own = [c for c in kernel.requires if not _of_narrow_numbers(c)]
    needs = [text for c in own if (text := _formula(substitute((c,), bound)[0], {})) is not None]
    needs = [text.replace(" ", _JOINT) for text in dict.fromkeys(needs)]
    if len(needs) < len(own):
        needs.append("more on its extents")
    if len(kernel.requires) > len(own):
        needs.append("sizes small enough for 32-bit indices (tested by the host)")
    if kernel.aligned:
        *others, last = [b.name for b in kernel.aligned]
        many = f"{', '.join(others)} and {last} begin" if others else f"{last} begins"
        needs.append(f"{many} at a multiple of 16 bytes")
    return "; ".join(needs) if needs else "always"


def _of_narrow_numbers(condition: Expr) -> bool:
    """Whether a condition says that an integer fits 32 bits, or that a count is ≥ 0 or ≠ 0."""
    consts = {e.value for e in walk((condition,)) if isinstance(e, Const)}
    if consts & {_LARGEST, -_LARGEST - 1}:
        return True
    if not isinstance(condition, Apply) or condition.op.name != "less_equal":
        return False
    least, number = condition.args
    counted = isinstance(least, Const) and least.value in (0, 1)
    return counted and isinstance(_uncast(number), Var)


def _uncast(e: Expr) -> Expr:
    return _uncast(e.args[0]) if isinstance(e, Apply) and e.op.name == "cast" else e


def _formula(e: Expr, names: Mapping[Expr, str]) -> str | None:
    """A host scalar as a formula of `names`; None if it is too long."""
    texts: dict[Expr, str | None] = {}
    sums: set[Expr] = set()  # printed in parentheses inside another expression
    for x in walk((e,)):
        if x in names:
            texts[x] = names[x]
        elif isinstance(x, Extent):
            texts[x] = f"{_array(x)}.shape[{x.axis}]" if isinstance(x.node, Input) else None
        elif isinstance(x, Const | Var | Param):
            texts[x] = str(x.value) if isinstance(x, Const) else x.name
        elif isinstance(x, Apply) and x.op.name == "cast":
            texts[x] = texts[x.args[0]]
            sums |= {x} if x.args[0] in sums else set()
        else:
            texts[x] = _of_two(x, texts, sums) if isinstance(x, Apply) else None
    return texts[e]


def _of_two(e: Apply, texts: Mapping[Expr, str | None], sums: set[Expr]) -> str | None:
    function = _FUNCTIONS.get(e.op.name)
    parts = [texts[a] for a in e.args]
    if len(parts) != 2 or None in parts or not (function or e.op.symbol):
        return None
    if function:
        text = f"{function}({parts[0]}, {parts[1]})"
    else:
        parts = [f"({p})" if a in sums else p for p, a in zip(parts, e.args, strict=True)]
        text = f"{parts[0]} {e.op.symbol} {parts[1]}".replace("+ -", "- ")
        sums |= {e} if e.op.symbol != "%" else set()
    return None if len(text) > _SHORT else text


def _array(e: Extent) -> str:
    return str(e.node.name)  # type: ignore[attr-defined]
