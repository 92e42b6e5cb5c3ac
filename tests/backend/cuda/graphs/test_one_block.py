"""Loops as one kernel: the text of each compiles; what one block cannot do is refused."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import EmulatedDevice, emulation
from treadle.backend.cuda.compile.nvrtc import compile_text
from treadle.backend.cuda.device.device import Copy, Fill, Launch, Operation, Repeat
from treadle.backend.cuda.graphs import one_block, queued
from treadle.backend.cuda.graphs.tape import Tape, flattened

ROOM = 48 << 10
RNG = np.random.default_rng(0)
A = RNG.integers(-4, 5, (13, 13)).astype("f8")
V = RNG.integers(-4, 5, 13).astype("f8")


def heat(a, v):
    return td.iterate(300, lambda u: td.stencil(lambda w: (w[-1] + w[1]) / 2, u), v)


def triangular(a, v):
    """A fold over the first k elements, and an update in place."""

    def step(k, x):
        return td.update(x, k % 13, v[k % 13] - td.the(td.sum(a[k % 13, : k % 13] * x[: k % 13])))

    return td.loop(1, 200, step, v)


def parameter(a, v, dt):
    """A scalar that is an argument of the program."""
    return td.iterate(300, lambda u: u + dt * td.stencil(lambda w: w[1] - w[0], u), v)


def scanned(a, v):
    return td.iterate(300, lambda u: td.cumsum(u) % 7.0, v)


def by_test(a, v):
    return td.while_loop(lambda s: td.the(td.max(td.abs(s[0]))) > 0.01,
                         lambda s: (s[0] / 2, s[1] + 1), (v, 0))  # fmt: skip


def nested(a, v):
    inner = lambda u: td.iterate(35, lambda w: w * 0.5 + td.roll(w, 1), u)
    return td.iterate(300, lambda u: inner(u) - td.the(td.sum(u)), v)


def complex_state(a, v):
    """An array that is filled in every iteration, and one whose words are of 16 bytes."""

    def step(k, s):
        z, n = s
        return z * 1j + td.the(td.sum(v)), td.permute(
            lambda x, y: x + y, td.zeros(5, "i4"), lambda i: (i + k) % 5, n[:3]
        )

    return td.loop(300, step, (td.astype(v, "c16"), td.zeros(5, "i4")))


def narrow(a, v):
    return td.iterate(300, lambda u: u[::-1] // 2 + 3, v.astype("i1"))


PROGRAMS = {f.__name__: (f, (A, V)) for f in (heat, triangular, scanned, by_test, nested,
                                              complex_state, narrow)}  # fmt: skip
PROGRAMS["parameter"] = parameter, (A, V, 0.25)


def loops(program: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch) -> list[Repeat]:
    """The outermost loops of a recorded program."""
    tapes: list[Tape] = []
    prepare = EmulatedDevice.prepare

    def kept(self, tape):
        tapes.append(tape)
        return prepare(self, tape)

    monkeypatch.setattr(EmulatedDevice, "prepare", kept)
    with emulation():
        f = td.jit(program, backend="cuda")
        f(*arguments), f(*arguments)
    return [op for tape in tapes for op in tape.operations if isinstance(op, Repeat)]


def step_of(op: Operation, indices: dict[Any, int]) -> Any:
    match op:
        case Launch():
            return SimpleNamespace(indices=tuple(indices[b] for b in op.blocks), tasks=op.tasks,
                                   scalars=op.scalars, varying=op.varying)  # fmt: skip
        case Fill():
            return queued.FillStep(op, indices)
        case Copy():
            return queued.CopyStep(op, indices)
    assert isinstance(op, Repeat)

    def steps(part: Any) -> list[Any]:
        return [step_of(o, indices) for o in part]

    back = [Copy(t, s) for t, s in zip(op.front, op.back, strict=True) if t is not s]
    return SimpleNamespace(
        op=op, even=steps(op.even), odd=steps(op.odd), testing=tuple(map(steps, op.testing)),
        test=None if op.test is None else (indices[op.test[0]], indices[op.test[1]]),
        back=steps(back),
    )  # fmt: skip


def text_of(op: Repeat) -> one_block.Text:
    blocks = [b for o in flattened((op,)) for b in (*o.reads, *o.writes)]
    return one_block.Text(step_of(op, {b: k for k, b in enumerate(dict.fromkeys(blocks))}), ROOM)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_compiles(name, nvrtc, cache, monkeypatch):
    found = loops(*PROGRAMS[name], monkeypatch)
    assert found
    for op in found:
        assert one_block.is_suited(op, ROOM)
        text = text_of(op)
        # Arrays change between the functions: none may be read as a constant of the kernel.
        assert ".nc" not in text.text and "__ldg" not in text.text
        for arch in ("sm_90a", "sm_80") if name == "heat" else ("sm_90a",):
            made = compile_text(text.text, one_block.ENTRY, arch, cache=cache,
                                dynamic_shared_bytes=text.shared)  # fmt: skip
            assert made.image
        given = re.search(rf"{one_block.ENTRY}\((.*?)\) {{", text.text, re.S)
        assert given is not None
        assert given[1].count(",") + 1 == len(text.positions) + len(text.types)
        assert len(text.sources) == len(text.types)


def test_a_kernel_of_many_blocks_is_refused(monkeypatch):
    large = np.zeros(100_000)
    found = loops(heat, (A, large), monkeypatch)
    assert found and not any(one_block.is_suited(op, ROOM) for op in found)
