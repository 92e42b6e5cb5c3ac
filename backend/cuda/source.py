"""The CUDA C++ of a program: printed without a GPU, a driver, CuPy or a compiler."""

from __future__ import annotations

from typing import Any

from treadle.backend.plan import Planner
from treadle.dsl.graph import ArrayLoop, Barrier, Branch, Library, Matmul, Node
from treadle.skeletons.kernel.ir import Kernel

from .availability import DEFAULT_ARCH
from .loops import why_host_driven
from .products import by_library

#: Multiprocessors by architecture, for what is printed without a device.
_MULTIPROCESSORS = {"sm_80": 108, "sm_90": 132, "sm_90a": 132, "sm_100": 148, "sm_100a": 148}


def source(program: Any, arch: str | None = None) -> str:
    """Every kernel in order of launch, the variant that is tried first; the others by name."""
    from .text import print_kernel

    arch = arch or DEFAULT_ARCH
    settings = program.settings
    parts: list[str] = []
    for node in nodes(program):
        for variants in kernels_of(node, arch, settings.check):
            parts.append(_others(variants, arch))
            parts.append(print_kernel(variants[0], fast_math=settings.fast_math))
    text = "\n".join(parts)
    return text or "// no kernel: the host or a library does everything in this program\n"


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


def kernels_of(node: Node, arch: str, check: bool = False) -> list[list[Kernel]]:
    """For each launch of a node its variants, in the order of trying."""
    from .steps import chain, lower_for

    lowered = lower_for(node, _MULTIPROCESSORS.get(arch, 132), check)
    return [chain(k) for k in lowered.kernels]


def _others(variants: list[Kernel], arch: str) -> str:
    """What is launched when the first variant is not right."""
    lines = [f"// {variants[0].name} for {arch}"]
    lines += [f"// {'first' if k == 0 else 'then'} {needs}" for k, needs in enumerate(
        _needs(v) for v in variants if v.requires or v.aligned)]  # fmt: skip
    if len(variants) > 1:
        lines.append("// else a variant that is always right, not shown")
    return "\n".join(lines)


def _needs(kernel: Kernel) -> str:
    """The conditions of a variant, in a few words."""
    needs = [f"{b.name} at a multiple of 16 bytes" for b in kernel.aligned]
    if kernel.requires:
        needs.insert(0, f"{len(kernel.requires)} bounds of its numbers")
    return "if " + ", ".join(needs)


def remarks(program: Any) -> list[str]:
    """How each loop over arrays runs."""
    lines: list[str] = []
    for _, step in Planner(program.roots, program.inputs).plan.walk():
        node = step.node
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
    return lines
