"""The kernels of programs as machine code, and what they take: for the tests, and as a table.

`python -m tests.backend.cuda.compile.cubins` compiles every variant of every kernel of the programs
of tests/dsl/zoo.py for three architectures and writes table.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import treadle as td
from tests.dsl import zoo
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.compile.nvrtc import Cubin, compile_kernel
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.skeletons.ir.kernel import Kernel

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")


def variants(program: str, arch: str) -> Iterator[tuple[str, int, Kernel]]:
    """The kernels of a program of the zoo: name, number of the variant, kernel."""
    case = zoo.ZOO[program]
    lowered = td.jit(case.function, backend="native").lower(*case.arguments)._on("cuda")
    count: dict[str, int] = {}
    for node in nodes(lowered):
        for chain in kernels_of(node, arch):
            name = without_lines(chain[0].name)
            count[name] = count.get(name, 0) + 1
            if count[name] > 1:
                name = f"{name}#{count[name]}"
            for k, kernel in enumerate(chain):
                yield name, k, kernel


def without_lines(text: str) -> str:
    """A text in which it does not matter where the program stands in its file."""
    return re.sub(r"_line\d+", "", re.sub(r"(\.py):\d+", r"\1", text))


def resources(made: Cubin) -> dict[str, int]:
    return {"registers": made.registers, "spills": made.spills, "stack": made.stack,
            "shared": made.shared_bytes + made.dynamic_shared_bytes}  # fmt: skip


def nvrtc_version() -> str:
    from treadle.backend.cuda.compile.nvrtc import _nvrtc

    return _nvrtc().version


def table() -> str:
    """Every variant for every architecture, as Markdown."""
    lines = [
        "# What the kernels take", "",
        f"Every variant of every kernel of the programs of `tests/dsl/zoo.py`, compiled by NVRTC "
        f"{nvrtc_version()}: registers of a thread, and + bytes that spill; shared memory of a "
        f"block in bytes. `python -m tests.backend.cuda.compile.cubins` writes this file.", "",
        "| program | kernel | variant | threads | shared | " + " | ".join(ARCHITECTURES) + " |",
        "|---" * (5 + len(ARCHITECTURES)) + "|",
    ]  # fmt: skip
    seen: dict[str, Any] = {}
    for program in zoo.ZOO:
        for name, k, kernel in variants(program, "sm_90a"):
            key = without_lines(print_kernel(kernel))
            if key in seen:
                continue
            made = [compile_kernel(kernel, arch) for arch in ARCHITECTURES]
            seen[key] = made
            cells = [f"{m.registers}" + (f" + {m.spills}" if m.spills else "") for m in made]
            shared = resources(made[1])["shared"]
            lines.append(f"| {program} | {name} | {k} | {kernel.threads} | {shared} | "
                         + " | ".join(cells) + " |")  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("table.md").write_text(table(), encoding="utf-8")
