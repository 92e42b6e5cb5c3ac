"""Loops over arrays of dask: several iterations per task, with the bits of one machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.blocks import loops, plan
from treadle.backend.dask import executable, graph, stream

from .test_arrays import BOUNDARIES, da, flat, matrix

CHUNKS = [
    ((37,), (53,)),
    ((20, 17), (53,)),
    ((10, 10, 10, 7), (20, 20, 13)),
    ((1,) * 37, (53,)),
    ((5, 1, 1, 30), (3, 50)),
]


def smooth(w: Any) -> Any:
    return w[-1, 0] * 0.1 + 0.2 * w[1, 0] + w[0, -1] * 0.3 + w[0, 1] * 0.1 + 0.2 * w[0, 0]


def stages(f: Any, *args: Any) -> list[Any]:
    program = td.jit(f).lower(*args)
    arrays = [a for a in args if isinstance(a, da.Array)]
    numbers = [a for a in args if not isinstance(a, da.Array)]
    return list(program.executable.plan(arrays, numbers).stages)


def check(f: Any, *args: Any, chunks: Any = CHUNKS) -> None:
    wanted = flat(td.jit(f, backend="native")(*args))
    for some in chunks:
        given = [da.from_array(a, chunks=some) if isinstance(a, np.ndarray) else a for a in args]
        for got, w in zip(flat(td.jit(f)(*given)), wanted, strict=True):
            assert got.compute(scheduler="synchronous").tobytes() == w.tobytes(), some


@pytest.mark.sample(1)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_stencils(boundary: str) -> None:
    b = BOUNDARIES[boundary]
    check(lambda a, n: td.iterate(n, lambda u: td.stencil(smooth, u, boundary=b), a),
          matrix((37, 53)), 13)  # fmt: skip


def test_states_coefficients_and_counters() -> None:
    a, b = matrix((37, 53)), matrix((37, 53))[::-1].copy()

    def weighted(u: Any, h: Any, n: Any) -> Any:
        return td.iterate(n, lambda u: td.stencil(smooth, u, boundary=td.clamp) * h, u)

    def counted(u: Any, n: Any) -> Any:
        def body(k: Any, u: Any) -> Any:
            return td.stencil(smooth, u, boundary=td.mirror) + td.cast(k, td.float32)

        return td.loop(n, body, u)

    def waves(u: Any, v: Any, n: Any) -> Any:
        def body(s: Any) -> Any:
            return td.stencil(smooth, s[1], boundary=td.clamp), s[0] * 0.5 + s[1]

        return td.iterate(n, body, (u, v))

    check(weighted, a, b, 7, chunks=CHUNKS[1:3])
    check(counted, a, 7, chunks=CHUNKS[1:3])
    check(waves, a, b, 6, chunks=CHUNKS[1:3])


def test_no_iteration() -> None:
    check(lambda a, n: td.iterate(n, lambda u: u * 2, a), matrix((37, 53)), 0, chunks=CHUNKS[1:2])


def test_other_bodies() -> None:
    a = matrix((37, 53))
    check(lambda u, n: td.iterate(n, lambda u: u / td.max(u), u), a, 3, chunks=CHUNKS[1:3])


def until_it_rests(u: Any) -> Any:
    def step(state: Any) -> Any:
        v = td.stencil(smooth, state[0], boundary=td.clamp)
        return v, td.max(td.abs(v - state[0])), state[2] + 1

    first = u, td.float32(1), td.int32(0)
    return td.while_loop(lambda state: state[1] > 0.05, step, first)


def shared(f: Any) -> Any:
    """A function of an array and of its sums, which are results themselves."""

    def results(u: Any) -> Any:
        z = td.cumsum(u, axis=1)
        return f(u, z), td.cumsum(z, axis=0), z

    return results


def test_the_next_state_is_an_array_from_outside() -> None:
    def f(u: Any, n: Any) -> Any:
        return td.iterate(n, lambda s: (td.stencil(smooth, s[1]), u), (u, u))

    for n in (0, 1, 3):
        check(f, matrix((37, 53)), n, chunks=CHUNKS[:3])


#: Loops that a predicate ends, and branches.
STEERED: dict[str, Any] = {
    "until it rests": until_it_rests,
    "doubled": lambda u: td.while_loop(lambda u: td.max(u) < 50, lambda u: u * 2, u),
    "never": lambda u: (td.while_loop(lambda u: td.max(u) < 0, lambda u: u * 2, u), u),
    "other chunks": lambda u: td.while_loop(
        lambda u: td.sum(u[0]) < 1000, lambda u: td.roll(u, 7, axis=1) * td.mean(u, axis=0) * 3, u),
    "with data": lambda u: td.while_loop(
        lambda v: td.max(v) < 9, lambda v: v + u * td.sum(u, axis=0), td.sqrt(u)),
    "either": lambda u: td.cond(td.max(u) > 0.5, u * 2, td.stencil(smooth, u)),
    "or": lambda u: td.cond(td.max(u) < 0.5, u * 2, td.stencil(smooth, u)),
    "each time": lambda u: td.while_loop(
        lambda u: td.max(u) < 50, lambda u: td.cond(td.min(u) > 3, u * 2, u + 1), u),
    "shared with a side": shared(lambda u, z: td.cond(td.max(u) > 0.5, z, u)),
    "shared inside a side": shared(lambda u, z: td.cond(td.max(u) < 0.5, u, td.cumsum(z, 0))),
    "shared with a loop": shared(
        lambda u, z: td.while_loop(lambda v: td.max(v) < 50, lambda v: v + z, u)),
    "shared with a predicate": shared(
        lambda u, z: td.while_loop(lambda v: td.max(v) < td.max(z), lambda v: v + u, u)),
    "shared with iterations": shared(
        lambda u, z: td.iterate(7, lambda v: td.stencil(smooth, v) + z, u)),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STEERED)
def test_steered(name: str) -> None:
    f, a = STEERED[name], matrix((37, 53))
    check(f, a, chunks=CHUNKS[1:3])
    wanted = flat(td.jit(f, backend="native")(a))
    for got, w in zip(flat(td.stream(f, a, memory=40_000)), wanted, strict=True):
        assert got.tobytes() == w.tobytes()


@pytest.mark.long
def test_many_iterations_of_other_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run one by one, instead of as a graph of all."""
    monkeypatch.setattr(plan, "UNROLLED", 10)
    a = matrix((37, 53))

    def f(u: Any, n: Any) -> Any:
        return td.loop(n, lambda k, u: u / td.max(u) + td.cast(k, td.float32), u)

    check(f, a, 9, chunks=CHUNKS[1:3])
    assert td.stream(f, a, 9, memory=40_000).tobytes() == td.jit(f)(a, 9).tobytes()
    assert not stages(f, da.from_array(a, chunks=20), 9)


def test_a_stream_leaves_no_states_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def watched(*given: Any) -> Any:
        seen.append(len(list(tmp_path.rglob("tmp*"))))
        return read(*given)

    read = stream._Reader.read
    monkeypatch.setattr(stream._Reader, "read", watched)
    td.stream(STEERED["doubled"], matrix((300, 200)) / 1000, memory=40_000)
    assert 1 <= max(seen) <= 3 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_several_chunks_per_task(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between processes, which are pretended; in the chunks of the argument, also where another
    loop goes on."""
    monkeypatch.setattr(graph, "has_workers", lambda: True)
    monkeypatch.setattr(executable, "threads", lambda: workers)
    monkeypatch.setattr(loops, "NEARLY", 1)

    def waves(u: Any, v: Any, n: Any) -> Any:
        def body(s: Any) -> Any:
            return td.stencil(smooth, s[1], boundary=td.wrap), s[0] * 0.5 + s[1]

        first = td.iterate(n, body, (u, v))
        return *first, td.iterate(n, lambda u: td.stencil(smooth, u) * v, first[0])

    a, b = matrix((37, 53)), matrix((37, 53))[::-1].copy()
    for n in (0, 3, 40):
        check(waves, a, b, n, chunks=CHUNKS[1:])
    for some in CHUNKS[2:]:
        given = da.from_array(a, chunks=some), da.from_array(b, chunks=some)
        found = stages(waves, *given, 40)
        assert all(np.prod(s.blocks.grid) <= max(workers, 4) for s in found), some
        assert all(made.chunks == some for made in flat(td.jit(waves)(*given, 40))), some


def test_chunks_stay_apart_where_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, and the halos that iterations need, are no larger than a task may use."""
    a = da.from_array(matrix((400, 30)), chunks=(50, 30))

    def f(u: Any) -> Any:
        return td.iterate(100, lambda u: td.stencil(smooth, u), u)

    monkeypatch.setattr(executable, "threads", lambda: 1)
    for memory, grid, steps in ((1 << 30, (), 100), (60_000, (8,), 25), (30_000, (8,), 4)):
        monkeypatch.setattr(executable, "limit", lambda memory=memory: memory)
        made = stages(f, a)
        assert (made[0].blocks.grid, len(made)) == (grid, 100 // steps), memory


def test_several_iterations_per_task() -> None:
    a = da.from_array(matrix((40, 50)), chunks=(20, 50))
    found = stages(lambda u, n: td.iterate(n, lambda u: td.stencil(smooth, u), u), a, 30)
    assert [s.blocks.notes for s in found] == 2 * [["15 iterations per task"]]
    assert found[0].blocks.program is found[1].blocks.program  # one binary
