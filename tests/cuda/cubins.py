"""The kernels of programs as machine code, and what they take: for the tests, and as a table.

`python tests/cuda/cubins.py` compiles every variant of every kernel of the programs of
tests/dsl/zoo.py for three architectures and writes tests/cuda/table.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "dsl", HERE.parent / "golden"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import zoo  # noqa: E402

import treadle as td  # noqa: E402
from treadle.backend.cuda.codegen.text import print_kernel  # noqa: E402
from treadle.backend.cuda.compile.nvrtc import Cubin, compile_kernel  # noqa: E402
from treadle.backend.cuda.source import kernels_of, nodes  # noqa: E402
from treadle.skeletons.ir.kernel import Kernel  # noqa: E402

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")


def variants(program: str, arch: str) -> Iterator[tuple[str, int, Kernel]]:
    """The kernels of a program of the zoo: name, number of the variant, kernel."""
    case = zoo.ZOO[program]
    lowered = td.jit(case.function).lower(*case.arguments)
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
        f"block in bytes. `python tests/cuda/cubins.py` writes this file.", "",
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
    (HERE / "table.md").write_text(table(), encoding="utf-8")
