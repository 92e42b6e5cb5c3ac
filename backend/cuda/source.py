"""The CUDA C++ of a program; printing it needs no GPU, driver, CuPy or compiler."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from treadle.dsl.errors import TracingError
from treadle.dsl.expr import Apply, Const, Expr, Extent, Param, Var, substitute, walk
from treadle.dsl.graph import ArrayLoop, Barrier, Branch, Input, Library, Matmul, Node
from treadle.dsl.graphs.names import Names
from treadle.dsl.program import TracedProgram
from treadle.dsl.schedule import Schedule
from treadle.dsl.target import CUDA
from treadle.dsl.text import in_bytes
from treadle.skeletons.ir.kernel import Kernel
from treadle.skeletons.linalg.small import has_kernel
from treadle.skeletons.lower.build import LoweringContext, describe
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.pieces import NotDivisible, pieces_of
from treadle.skeletons.model.report import ShortRows

from ..runtime.choosing import first_choice
from ..runtime.plan import Planner
from .availability import DEFAULT_ARCH
from .codegen.layout import WIDTH
from .codegen.text import print_file
from .device.device import Device
from .loops import why_host_driven
from .pieces import LARGE, PIECE
from .products.choice import KERNEL, LIBRARY, decided, small_product
from .products.text import engine_kernel, one_file
from .products.ways import Measured, by_library
from .steps import chain, context_for

#: Multiprocessors by architecture, for printing without a device.
_MULTIPROCESSORS = {"sm_80": 108, "sm_90": 132, "sm_90a": 132, "sm_100": 148, "sm_100a": 148}


#: Names the compiler flag; without it, nvcc contracts products and sums.
_CONTRACTION = (
    "// Compiled with --fmad=false: a product and a sum are one operation where fma stands."
)


def source(program: TracedProgram, arch: str | None = None) -> str:
    """The first variant of every kernel, in launch order, as one file that compiles."""
    arch = arch or DEFAULT_ARCH
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise TracingError(f"source: {arch!r} is no architecture of a GPU.",
                           hint='Write it as NVRTC does: "sm_80", "sm_90a", "sm_100".')  # fmt: skip
    settings = program.settings
    products = engine_kernels(program, arch)
    around = [node for _, before, after in products.values() for node in (*before, *after)]
    short = ShortRows(Names(program))
    kernels = (n for n in nodes(program) if n not in products and not short.left_out(n))
    parts = [
        (partial(heading, variants, arch), variants[0])
        for node in (*around, *kernels)
        for variants in kernels_of(
            short.made(node), arch, settings.check, first_choice(program, node)
        )
    ]
    text = print_file(parts, fast_math=settings.fast_math) if parts else ""
    if re.search(r"\b(float|double)", text):
        text = f"{_CONTRACTION}\n\n{text}"
    text += _engines(list(products.items()), arch)
    text = text or "// no kernel: the host or a library does everything in this program\n"
    return text + _by_others(program, {*products, *small_products(program)})


def small_products(program: TracedProgram) -> dict[Node, Node]:
    """The products that the kernel for small ones computes at the example extents, with their forms
    for these extents."""
    found: dict[Node, Node] = {}
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        made = small_product(program, step.node) if isinstance(step.node, Matmul) else None
        if made is not None:
            found[step.node] = made
    return found


def engine_kernels(program: TracedProgram, arch: str) -> dict[Matmul, Any]:
    """The products of a program that a tile engine computes at the example extents, and those that
    consist of several kernels around a library call."""
    found: dict[Matmul, Any] = {}
    on = Measured(arch=arch)
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        if isinstance(step.node, Matmul):
            made = engine_kernel(program, step.node, on)
            if made is not None:
                found[step.node] = made
    return found


def _engines(products: list[tuple[Matmul, Any]], arch: str) -> str:
    """The kernel of the first product; for the others, the definitions that differ."""
    text = ""
    for node, (code, before, _) in products:
        if code is None:
            if not any(isinstance(n, Matmul) for n in before):
                text += f"// {node.label}: the product between is the library's\n"
            continue
        made = one_file(code)
        remark = "\n".join(f"// {line}" for line in describe(node))
        remark += f"\n// on {arch}, by the tile engine: execution {code.mode}"
        if "#define TILE_LAYOUT_A" not in text:
            text += f"{remark}\n{made}"
            continue
        lines = [x for x in made.splitlines() if x.startswith("#define TILE_")][: len(code.defines)]
        lines += (code.fused or "").splitlines()
        text += "\n".join([f"{remark}, the same file with", *(f"//   {x}" for x in lines), ""])
    return text


def _by_others(program: TracedProgram, products: set[Node]) -> str:
    """Comments on the parts of a program that treadle's kernels do not compute."""
    lines = []
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
        if (isinstance(node, Library) and not has_kernel(node)) or (
            isinstance(node, Matmul) and node not in products and by_library(node)
        ):
            lines += [*describe(node), "computed by a library's kernels"]
    return "".join(f"// {line}\n" for line in lines)


def nodes(program: TracedProgram) -> list[Node]:
    """The nodes that run as kernels, in order; small products in forms for example extents."""
    found: dict[Node, None] = {}
    small = small_products(program)
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
        if isinstance(node, Barrier | ArrayLoop | Branch):
            continue
        if isinstance(node, Library) and not has_kernel(node):
            continue
        if isinstance(node, Matmul) and by_library(node) and node not in small:
            continue
        found[small.get(node, node)] = None
    return list(found)


def kernels_of(
    node: Node, arch: str, check: bool = False, schedule: Schedule | None = None
) -> list[list[Kernel]]:
    """The variants of each launch in the order tried; `schedule`: None for the node's own."""
    multiprocessors = _MULTIPROCESSORS.get(arch, 132)
    lowered = lower(node, context_for(multiprocessors, check, schedule=schedule))
    return [chain(k) for k in lowered.kernels]


def lowering(program: TracedProgram, node: Node) -> LoweringContext | None:
    """The context in which a node is lowered to kernels; None if a library computes it."""
    if isinstance(node, Library) and not has_kernel(node):
        return None
    if isinstance(node, Matmul) and by_library(node):
        return None
    return LoweringContext(
        CUDA, _MULTIPROCESSORS[DEFAULT_ARCH], vector_bytes=16, check=program.settings.check
    )


def remarks(program: TracedProgram, device: Device | None = None) -> list[str]:
    """How each loop over arrays runs on a device (default: one with measured parameters), and how
    host arrays are copied to it and back."""

    def library(node: Matmul) -> str | None:
        decision = decided(program, node, device or Measured())
        by = decision.by if decision else LIBRARY if by_library(node) else KERNEL
        return None if by == KERNEL else "cuBLAS" if by == LIBRARY else "the tile engine"

    lines: list[str] = []
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
        if not isinstance(node, ArrayLoop):
            continue
        where = f" at {node.where.short()}" if node.where is not None else ""
        why = "it runs in checked mode" if program.settings.check else (
            why_host_driven(node, library))  # fmt: skip
        if why is None:
            how = "CUDA graphs of its iterations; the GPU goes on without the host"
            if node.predicate is not None:
                how = "a conditional node of a CUDA graph; the GPU tests and goes on by itself"
        elif node.predicate is None:
            how = f"launched iteration by iteration, for {why}; the host does not wait"
        else:
            how = f"the host launches every iteration and waits for its test, for {why}"
        short = "" if why else "; or one kernel of one block of threads, where that is faster"
        lines.append(f"The loop {node.label}{where}: {how}{short}.")
    sources = [node.source for node in program.inputs[len(program.arguments) :]]
    captured = sum(a.nbytes for a in sources if type(a) is np.ndarray)
    if captured >= CAPTURED:
        lines.append(
            f"Captured arrays of the host, {in_bytes(captured)}, are copied to the GPU in each "
            "call: capture arrays of the GPU (cupy.asarray), or pass them."
        )
    return [*lines, _copied(program)]


def _copied(program: TracedProgram) -> str:
    """Whether calls with large host arrays are split into pieces; if not, why."""
    try:
        pieces_of(program.roots, program.inputs, program.settings.check)
    except NotDivisible as why:
        return f"Arrays of the host are copied whole, not in pieces: {why}."
    return (
        f"Arrays of the host from {LARGE >> 20} MB on go in pieces of up to {PIECE >> 20} MB, "
        "copied both ways beside the work."
    )


# --- The comment above a printed kernel: its launch, parameters, and conditions of its variants ---

_LARGEST = 2**31 - 1
#: Formulas longer than this are omitted: they say little to a reader.
_SHORT = 48
#: Registers of a multiprocessor.
_REGISTERS = 65_536
#: Suffixes of the names of scalars that replace a division.
_RECIPROCAL = ("_multiplier", "_shift")
#: The bytes of a captured array from which it is worth a remark.
CAPTURED = 1 << 20
#: A non-breaking space.
_JOINT = "\u00a0"
_FUNCTIONS = {"minimum": "min", "maximum": "max"}


def heading(variants: Sequence[Kernel], arch: str, names: Mapping[Var, str]) -> str:
    """Comments above the first of `variants`; `names` are the names of its scalars in the text."""
    kernel = variants[0]
    launch = textwrap.wrap(_launch(kernel, arch, names), WIDTH - 3, subsequent_indent="  ")
    lines = [*launch, *_parameters(kernel, names)]
    choices = list(dict.fromkeys(map(_needs, variants)))
    if len(choices) > 1:
        rule = "a launch takes the first for which this is true:"
        lines.append(f"variant 1 of {len(choices)}; {rule}")
        for k, needs in enumerate(choices, 1):
            lines += textwrap.wrap(f"  {k}. {needs}", WIDTH - 3, subsequent_indent="     ")
    return "".join(f"// {line}\n" for line in lines).replace(_JOINT, " ")


def _launch(kernel: Kernel, arch: str, names: Mapping[Var, str]) -> str:
    text = f"launch on {arch}: "
    bound = kernel.hosts
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
    """The formulas of the scalars if short; others are marked as computed by the host."""
    hosts = _hosts(kernel, names)
    formulas: list[str] = []
    longer: list[str] = []
    for v, host in zip(kernel.scalars, kernel.scalar_values, strict=True):
        if v not in names or isinstance(host, Param):
            continue
        text = _formula(host, {e: n for e, n in hosts.items() if e is not host})
        if text is not None:
            formulas.append(f"{names[v]} = {text}".replace(" ", _JOINT))
        elif not names[v].endswith(_RECIPROCAL):
            longer.append(names[v])
    lines = textwrap.wrap("; ".join(formulas), WIDTH - 3, break_long_words=False)
    if longer:
        lines += textwrap.wrap(f"computed by the host: {', '.join(longer)}", WIDTH - 3)
    if any(name.endswith("_multiplier") for name in names.values()):
        lines.append("…_multiplier and …_shift: reciprocals to divide by, see quotient")
    return lines


def _needs(kernel: Kernel) -> str:
    """A variant's conditions: vector accesses verbatim, 32-bit integers in one word."""
    bound = kernel.hosts
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
