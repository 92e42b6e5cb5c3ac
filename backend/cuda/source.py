"""The CUDA C++ of a program: printed without a GPU, a driver, CuPy or a compiler."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from treadle.backend.choosing import first_choice
from treadle.backend.plan import Planner
from treadle.dsl.errors import TracingError
from treadle.dsl.expr import Apply, Const, Expr, Var, walk
from treadle.dsl.graph import ArrayLoop, Barrier, Branch, Library, Matmul, Node
from treadle.skeletons.kernel.ir import Kernel
from treadle.skeletons.pieces import Whole, pieces_of

from .availability import DEFAULT_ARCH
from .layout import WIDTH
from .loops import why_host_driven
from .pieces import LARGE, PIECE
from .products import by_library

#: Multiprocessors by architecture, for what is printed without a device.
_MULTIPROCESSORS = {"sm_80": 108, "sm_90": 132, "sm_90a": 132, "sm_100": 148, "sm_100a": 148}

_LARGEST = 2**31 - 1


def source(program: Any, arch: str | None = None) -> str:
    """Every kernel in order of launch, the variant that is tried first: a file that compiles."""
    from .text import print_file

    arch = arch or DEFAULT_ARCH
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise TracingError(f"source: {arch!r} is no architecture of a GPU.",
                           hint='Write it as NVRTC does: "sm_80", "sm_90a", "sm_100".')  # fmt: skip
    settings = program.settings
    products = engine_kernels(program, arch)
    around = [node for _, before, after in products.values() for node in (*before, *after)]
    parts = [
        (_variants(variants, arch), variants[0])
        for node in (*around, *(n for n in nodes(program) if n not in products))
        for variants in kernels_of(node, arch, settings.check, first_choice(program, node))
    ]
    text = print_file(parts, fast_math=settings.fast_math) if parts else ""
    text += _engines(list(products.items()), arch)
    return text or "// no kernel: the host or a library does everything in this program\n"


def engine_kernels(program: Any, arch: str) -> dict[Matmul, Any]:
    """The products of a program that a tile engine computes at the extents of the examples, and
    those that are several kernels around the library's."""
    from .engine_source import engine_kernel
    from .engine_step import Measured

    found: dict[Matmul, Any] = {}
    on = Measured(arch=arch)
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        if isinstance(step.node, Matmul) and not program.settings.check:
            made = engine_kernel(program, step.node, on)
            if made is not None:
                found[step.node] = made
    return found


def _engines(products: list[tuple[Matmul, Any]], arch: str) -> str:
    """The first product's kernel; of others, what they define otherwise."""
    from .engine_source import one_file

    text = ""
    for node, (code, *_) in products:
        if code is None:
            text += f"// {node.label}: the product between is the library's\n"
            continue
        made = one_file(code)
        remark = f"// {node.label} for {arch}, by the tile engine: execution {code.mode}"
        if "#define TILE_LAYOUT_A" not in text:
            text += f"{remark}\n{made}"
            continue
        lines = [x for x in made.splitlines() if x.startswith("#define TILE_")][: len(code.defines)]
        lines += (code.fused or "").splitlines()
        text += "\n".join([f"{remark}, the same file with", *(f"//   {x}" for x in lines), ""])
    return text


def nodes(program: Any) -> list[Node]:
    """The nodes of a program that run as kernels, in order."""
    found: dict[Node, None] = {}
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
        if isinstance(node, Barrier | Library | ArrayLoop | Branch):
            continue
        if isinstance(node, Matmul) and by_library(node):
            continue
        found[node] = None
    return list(found)


def kernels_of(
    node: Node, arch: str, check: bool = False, schedule: Any = None
) -> list[list[Kernel]]:
    """For each launch of a node its variants, in the order of trying, under a schedule (None: the
    node's own)."""
    from .steps import chain, lower_for

    multiprocessors = _MULTIPROCESSORS.get(arch, 132)
    lowered = lower_for(node, multiprocessors, check, schedule=schedule)
    return [chain(k) for k in lowered.kernels]


def _variants(variants: list[Kernel], arch: str) -> str:
    """Which variants there are, and when a launch takes the one that is shown."""
    first = variants[0]
    if len(variants) == 1:
        return f"// {first.name} for {arch}\n"
    lines = [f"// {first.name} for {arch}, variant 1 of {len(variants)}; a launch takes the first "
             "for which this is true:"]  # fmt: skip
    for k, v in enumerate(variants, 1):
        lines += textwrap.wrap(f"//   {k}. {_needs(v)}", WIDTH, subsequent_indent="//      ")
    return "\n".join(lines) + "\n"


def _needs(kernel: Kernel) -> str:
    """The conditions of a variant: those of its wide accesses as they are, those of its 32-bit
    numbers counted."""
    own = [c for c in kernel.requires if not _of_narrow_numbers(c)]
    needs = [text for text in map(_condition, own) if text is not None]
    if len(needs) < len(own):
        needs.append(f"{len(own) - len(needs)} more on its extents")
    bounds = len(kernel.requires) - len(own)
    if bounds:
        tested = f" ({bounds} bounds, tested by the host)" if bounds > 1 else ""
        needs.append(f"sizes small enough for 32-bit indices{tested}")
    if kernel.aligned:
        *others, last = [b.name for b in kernel.aligned]
        many = f"{', '.join(others)} and {last} begin" if others else f"{last} begins"
        needs.append(f"{many} at a multiple of 16 bytes")
    return "; ".join(needs) if needs else "always"


def _of_narrow_numbers(condition: Expr) -> bool:
    """Whether it says that a number fits 32 bits, or that a count is not negative or not 0."""
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


def _condition(e: Expr, inside: bool = False) -> str | None:
    """As one writes it, None if that is more than a few words."""
    e = _uncast(e)
    if isinstance(e, Var | Const):
        return e.name if isinstance(e, Var) else str(e.value)
    if not isinstance(e, Apply) or not e.op.symbol or len(e.args) != 2:
        return None
    parts = [_condition(a, inside=True) for a in e.args]
    if None in parts:
        return None
    text = f"{parts[0]} {e.op.symbol} {parts[1]}"
    return None if len(text) > 40 else f"({text})" if inside and e.op.symbol != "%" else text


def remarks(program: Any) -> list[str]:
    """How each loop over arrays runs, what came of the layers of schedules about blocks, and how
    arrays of the host get there and back."""
    from treadle.skeletons.lower import LoweringContext, layer_notes

    lines: list[str] = []
    context = LoweringContext("cuda", _MULTIPROCESSORS[DEFAULT_ARCH])
    for node in nodes(program):
        lines += [f"{node.label}: {note}." for note in layer_notes(node, context)]
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
        if isinstance(node, Matmul) and by_library(node):
            lines += [f"{node.label}: {n}." for n in layer_notes(node, context, "cuBLAS")]
        if not isinstance(node, ArrayLoop):
            continue
        where = f" at {node.where.short()}" if node.where is not None else ""
        why = "it runs in checked mode" if program.settings.check else why_host_driven(node)
        if why is None:
            how = "CUDA graphs of its turns; the GPU goes on without the host"
            if node.predicate is not None:
                how = "a conditional node of a CUDA graph; the GPU tests and goes on by itself"
        elif node.predicate is None:
            how = f"launched turn by turn, for {why}; the host does not wait"
        else:
            how = f"the host launches every turn and waits for its test, for {why}"
        lines.append(f"Loop {node.label}{where}: {how}.")
    return [*lines, _copied(program)]


def _copied(program: Any) -> str:
    """Whether calls with large arrays of the host are made in pieces, and why not."""
    try:
        pieces_of(program.roots, program.inputs, program.settings.check)
    except Whole as why:
        return f"Arrays of the host are copied whole, not in pieces: {why}."
    return (
        f"Arrays of the host from {LARGE >> 20} MB on go in pieces of up to {PIECE >> 20} MB, "
        "copied both ways beside the work."
    )
