"""Kernels of whole programs compile without a GPU, and take no more than they did.

`baseline.json` holds what each kernel takes with one version of NVRTC: with that version it must be
the same, with another one about the same.  `--update-golden` writes it; table.md
(`python -m tests.backend.cuda.compile.cubins`) shows every variant.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.compile import cubins
from tests.dsl import zoo
from treadle.backend.cuda.codegen.text import entry_name, print_kernel
from treadle.backend.cuda.compile.nvrtc import compile_kernel, compile_kernels, compile_text
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.skeletons.ir.kernel import statements

BASELINE = Path(__file__).parent / "baseline.json"
#: Programs that every architecture compiles; the others only for sm_90a.
EVERYWHERE = ("arithmetic", "casts", "turned", "stencil_clamp", "sums", "scans", "permuted",
              "counted", "complex_numbers", "while_in_kernel")  # fmt: skip
#: With another NVRTC, so many registers more are no regression.
SLACK = 1.3


def _measured(program: str, arch: str) -> dict[str, dict[str, int]]:
    """The variants that are tried first, and the last of each, which is always right."""
    found = {}
    chosen: dict[str, Any] = {}
    for name, k, kernel in cubins.variants(program, arch):
        if k == 0:
            chosen[f"{name} first"] = kernel
        elif program in EVERYWHERE:
            chosen[f"{name} last"] = kernel
    for name, kernel in chosen.items():
        found[name] = cubins.resources(compile_kernel(kernel, arch))
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("program", zoo.ZOO)
def test_kernels(program: str, nvrtc: None, updating: bool) -> None:
    found = _measured(program, "sm_90a")
    held = (
        json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {"programs": {}}
    )
    if updating:
        held = {"nvrtc": cubins.nvrtc_version(), "programs": {**held["programs"], program: found}}
        held["programs"] = {p: held["programs"][p] for p in zoo.ZOO if p in held["programs"]}
        BASELINE.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    before = held["programs"].get(program)
    assert before is not None, f"{program} has no baseline: see --update-golden"
    if held["nvrtc"] == cubins.nvrtc_version():
        assert found == before, "see --update-golden"
        return
    assert found.keys() == before.keys(), "see --update-golden"
    for name, now in found.items():
        assert now["registers"] <= SLACK * before[name]["registers"] + 4, name
        assert now["shared"] == before[name]["shared"], name
        assert now["spills"] <= before[name]["spills"] + 32, name


@pytest.mark.sample(1)
@pytest.mark.parametrize("arch", [a for a in cubins.ARCHITECTURES if a != "sm_90a"])
@pytest.mark.parametrize("program", EVERYWHERE)
def test_other_architectures(program: str, arch: str, nvrtc: None) -> None:
    for name, k, kernel in cubins.variants(program, arch):
        if k == 0:
            assert compile_kernel(kernel, arch).arch == arch, name


@pytest.mark.sample(1)
@pytest.mark.parametrize("own", [(8, 1), (8, 2), (4, 4), (8, 4), (8, 8)], ids=repr)
def test_outputs_of_a_thread_and_what_their_turns_read_stay_in_registers(
    own: tuple[int, int], nvrtc: None
) -> None:
    def product(a: td.Array, b: td.Array) -> td.Array:
        return td.generate(
            (a.shape[0], b.shape[1]),
            lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0)),
            schedule=td.schedule.Row() | td.schedule.Block(64, 128) | td.schedule.PerThread(*own),
        )

    square = np.zeros((8, 8), np.float32)
    (node,) = nodes(td.jit(product).lower(square, square))
    ((kernel, *_),) = kernels_of(node, "sm_90a")
    made = compile_kernel(kernel, "sm_90a")
    assert "for (int k = 0; k < n2; k += 4)" in print_kernel(kernel)
    assert made.spills == 0 and made.registers <= 128


@pytest.mark.sample(1)
@pytest.mark.parametrize("fold", ["argmin", "sum"])
@pytest.mark.parametrize("type_", [td.float32, td.float64])
def test_tiles_that_are_folded_stay_in_registers(fold: str, type_: Any, nvrtc: None) -> None:
    def squares(a: td.Array, b: td.Array) -> td.Array:
        def one(i, j):
            return td.loop(a.shape[1], lambda k, s: s + (a[i, k] - b[j, k]) ** 2, type_(0))

        return getattr(td, fold)(td.generate((a.shape[0], b.shape[0]), one), axis=1)

    points = np.zeros((8, 8), type_.name)
    (node,) = nodes(td.jit(squares).lower(points, points[:4]))
    kernels = [k for k, *_ in kernels_of(node, "sm_90a") if "tiles" in k.name]
    made = compile_kernel(kernels[0], "sm_90a")
    assert made.spills == made.stack == 0 and made.registers <= 128


def _shared_names(a: td.Array) -> tuple[td.Array, ...]:
    """Kernels that want the same names, and two foreign functions of one name."""

    def twice(x):
        return 2.0 * x

    def again(x):
        return x + x

    again.__name__ = "twice"
    doubled = td.map(lambda x: td.foreign(twice, x), a)
    both = td.map(lambda x: td.foreign(again, x) + td.foreign(twice, x), td.sort(doubled))
    return td.argmax(a), td.argmin(a), td.scanl1(lambda x, y: x + y, both)


@pytest.mark.sample(1)
@pytest.mark.parametrize("program", ["sums", "scans", "shared names"])
def test_what_source_prints_is_one_file_that_compiles(program: str, nvrtc: None) -> None:
    if program == "shared names":
        lowered = td.jit(_shared_names).lower(np.arange(100.0))
    else:
        lowered = td.jit(zoo.ZOO[program].function).lower(*zoo.ZOO[program].arguments)
    text = lowered.source("cuda")
    entries = re.findall(r"^(\w+)\(", text, re.M)
    assert len(entries) >= 2
    assert compile_text(text, entries[0], "sm_90a").image


#: A register or a few, where a bound on registers buys blocks that run at the same time.
A_FEW = 48
#: 9 × 9 weights and 80 carried values of float64 do not fit into 255 registers.
KNOWN = {
    "correlated: correlate first",
    "permuted: permute_bins last",
    "sorted_: unique_overwrite first",
}


def test_kernels_that_compile_together_are_in_their_order(nvrtc: None) -> None:
    """Though the largest is begun first."""
    kernels = [kernel for _, k, kernel in cubins.variants("sums", "sm_90a") if k == 0]
    sizes = [len(statements(kernel.body)) for kernel in kernels]
    assert sizes != sorted(sizes, reverse=True)
    made = compile_kernels(kernels, "sm_90a")
    assert [m.name for m in made] == [entry_name(kernel) for kernel in kernels]


def test_nothing_spills() -> None:
    """Registers that ran out cost memory traffic: a kernel that spills has the wrong size."""
    held = json.loads(BASELINE.read_text(encoding="utf-8"))
    spilling = {
        f"{program}: {name}": taken["spills"]
        for program, kernels in held["programs"].items()
        for name, taken in kernels.items()
        if taken["spills"] > A_FEW
    }
    assert spilling.keys() <= KNOWN, spilling


@pytest.mark.sample(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("operation", [td.cumsum, td.cummax])
def test_scans_of_very_long_rows_spill_nothing(operation: Any, arch: str, nvrtc: None) -> None:
    """Three tiles of a block fit the shared memory of an A100, too."""
    program = td.jit(lambda a: operation(a)).lower(np.ones(1 << 24, np.float32))
    (node,) = cubins.nodes(program)
    variants = cubins.kernels_of(node, arch)[-1]
    assert "pipelined" in variants[0].name
    for kernel in variants:
        made = compile_kernel(kernel, arch)
        assert made.spills == 0 and made.shared_bytes + made.dynamic_shared_bytes <= 163 << 10
