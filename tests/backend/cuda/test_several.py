"""Programs on several GPUs have the bits that they have on one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks import gpus
from tests.backend.cuda.emulated import emulation
from tests.backend.cuda.pretended import pretended
from tests.backend.dask.test_arrays import PROGRAMS as OF_DASK, flat, matrix
from tests.conformance.fuzz.drawing import draw
from tests.conformance.fuzz.program import Program
from treadle.backend.blocks import loops
from treadle.backend.cuda.several import engine, running
from treadle.backend.cuda.several.peers import MAIN
from treadle.dsl.process.configuration import settings
from treadle.skeletons.lower.fold import gpu_columns as fold_columns, gpu_rows
from treadle.skeletons.lower.scan import gpu as scans, gpu_columns as scan_columns

F = Callable[..., Any]


def heat(u: Any, steps: Any, boundary: Any = td.clamp) -> Any:
    def euler(w: Any) -> Any:
        near = w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]
        return w[0, 0] + np.float32(0.2) * (near - 4 * w[0, 0])

    return td.iterate(steps, lambda u: td.stencil(euler, u, boundary=boundary), u)


PROGRAMS: dict[str, F] = {
    **OF_DASK,
    "sums": lambda a: (a.sum(), td.sum(a * a + 1), td.mean(a), td.prod(a * 2)),
    "heat": lambda a: heat(a, 9),
    "heat around": lambda a: heat(a, 5, td.wrap),
    "gradient through heat": lambda a: td.grad(
        lambda a: td.sum(td.iterate(3, lambda u: u + u * td.roll(u, 1, 0), a))
    )(a),
    "heat, then its sum": lambda a: heat(a, 3).sum(),
    "recurrence": lambda a: td.scan(lambda s, x: 2 * (s * np.float32(0.5) + x,), a[0], a),
    "loop of sums": lambda a: td.iterate(3, lambda u: u / u.sum(axis=1)[:, td.newaxis], a),
    "product of all": lambda a: td.cast(a * 9, td.int32) @ td.cast(a.T * 9, td.int32),
    "while": lambda a: td.while_loop(
        lambda u: td.max(u) > 0.01, lambda u: u * np.float32(0.5), a
    ),
    "sorted": lambda a: td.sort(a.ravel()) + 1,
    "nothing read": lambda a: td.iota(2000) * 3,
    "the argument": lambda a: (a, a),
}  # fmt: skip


def on_one(f: F, *args: Any) -> list[np.ndarray]:
    with emulation():
        return flat(td.jit(f, backend="cuda")(*args))


def check(f: F, devices: int, *args: Any, seed: int = 0) -> None:
    wanted = on_one(f, *args)
    with pretended(devices, seed):
        compiled = td.jit(f, backend="cuda", devices=devices)
        sharded = [td.shard(a, devices) if isinstance(a, np.ndarray) else a for a in args]
        for given in (*[sharded] * 4, args):  # the last one of these by a graph
            for g, w in zip(flat(compiled(*given)), wanted, strict=True):
                assert (g.shape, g.dtype) == (w.shape, w.dtype)
                found = np.asarray(g)
                assert found.tobytes() == w.tobytes(), np.argwhere(found != w)[:4]


@pytest.mark.sample(1)
@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_of_one_gpu(name: str, devices: int) -> None:
    check(PROGRAMS[name], devices, matrix((37, 53)), seed=devices)


ROWS: dict[str, F] = {
    "integers": lambda a: td.cumsum(td.cast(a * 99, td.int32)),
    "to the left": lambda a: td.scanr1(lambda x, y: x + y, td.cast(a * 99, td.int64)) * 2,
    "extremes": lambda a: td.scanl1(td.maximum, td.sin(a * 9)),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ROWS)
def test_scans_of_one_row_in_parts(name: str) -> None:
    """Their blocks get what comes before them, and read each element twice, not more."""
    a = np.random.default_rng(3).random(3000).astype(np.float32)
    for devices in (2, 3):
        check(ROWS[name], devices, a)


def drawn(seed: int, number: int) -> str:
    """What a random program does on several GPUs, beside one: "same", or why it is refused."""
    program = draw(seed, number)
    devices = 1 + number % 3
    f = program.function()
    try:
        with emulation():
            one = td.jit(f, backend="cuda")(*program.arguments().values())
    except td.TreadleError:
        return "refused on one"
    with pretended(devices, number):
        try:
            several = td.jit(f, backend="cuda", devices=devices)(*program.arguments().values())
        except td.DistributionError as error:
            return str(error)
    for name in program.results:
        for got, wanted in zip(flat(several[name]), flat(one[name]), strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), program
            same = np.asarray(got).tobytes() == np.asarray(wanted).tobytes()
            assert same or approximate(program), program
    return "same"


def approximate(program: Program) -> bool:
    """Whether a program has a product of floats, which may be computed otherwise for fewer rows."""
    return any(re.search(r"@|matmul|dot|strassen|outer|kron", line.text) for line in program.lines)


def test_random_programs() -> None:
    found = [drawn(7, number) for number in range(8)]
    assert found.count("same") > 2, found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_random_programs(seed: int) -> None:
    for number in range(50):
        drawn(seed, number)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(2000, 12), (1999, 13), (300, 400), (3, 30000)])
def test_sums_of_columns_and_rows_in_parts(shape: tuple[int, int]) -> None:
    for axis in (0, 1):
        check(lambda a, axis=axis: td.sum(td.sin(a), axis=axis) * 2, 3, matrix(shape))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("shape", "f"),
    [
        ((16, 4096), lambda a: td.sum(td.sin(a), axis=1) * 2),
        ((16, 1100, 5), lambda a: td.sum(td.sin(a), axis=1)),
        ((12, 2000), lambda a: td.cumsum(td.sin(a), axis=1)),
        ((12, 400, 5), lambda a: td.cumsum(td.sin(a), axis=1)),
    ],
)
def test_rows_of_a_block_are_grouped_as_in_all(
    shape: tuple[int, ...], f: F, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU splits rows and columns if there are few, as in a block.  Nothing is moved."""
    for module, name, value in (
        (gpu_rows, "BLOCKS", 16), (gpu_rows, "LEAST", 1),
        (fold_columns, "BLOCKS", 16), (fold_columns, "LEAST", 1),
        (scans, "MANY_ROWS", 8), (scan_columns, "ENOUGH", 60),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    a = np.random.default_rng(2).random(shape).astype(np.float32)
    check(f, 3, a)
    with pretended(3) as machine:
        u = td.shard(a, 3)
        before = machine.moved
        td.jit(f, backend="cuda", devices=3)(u).wait()
        assert machine.moved == before


def numbered(a: Any) -> Any:
    """The index of each element, in row-major order, as floats."""
    return td.cast(td.iota(a.size), td.float32).reshape(a.shape)


def affine(x: Any, y: Any) -> Any:
    return x[0] * y[0], x[1] * y[0] + y[1]


SUMS: dict[str, F] = {
    "weights": lambda a: td.sum(a * numbered(a)),
    "differences": lambda a: td.sum(td.abs(a[1:] - a[:-1])) * 2,
    "stencil": lambda a: td.sum(td.stencil(lambda w: w[-1, 0] + w[1, 1], a, boundary=td.mirror)),
    "mask": lambda a: td.mean(td.where(numbered(a) % 3 == 0, a, 0)),
    "in a fixed order": lambda a: td.sum(a * 2, deterministic=True),
    "halves": lambda a: td.sum(a.astype(td.float16) * td.cast(numbered(a) % 5, td.float16)),
    "beside an extreme": lambda a: td.fold(
        lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0, 0),
        td.zip(a * numbered(a), a), axis=None),
    "affine functions": lambda a: td.fold(affine, (1, 0), td.zip(1 + a * 1e-3, numbered(a)), None),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(20011, 1), (137, 153)])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_any_elements_are_cut(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each GPU adds what it has; only totals, and what lies beside cuts, are moved."""
    monkeypatch.setattr(gpu_rows, "BLOCKS", 16)
    monkeypatch.setattr(gpu_rows, "LEAST", 1)
    a = np.random.default_rng(4).random(shape).astype(np.float32)
    check(SUMS[name], 3, a)
    with pretended(2) as machine:
        u = td.shard(a, 2)
        before = machine.moved
        td.jit(SUMS[name], backend="cuda", devices=2)(u)
        assert machine.moved - before < a.nbytes // 4


def test_sums_of_columns_move_totals() -> None:
    a = matrix((4096, 16))
    with pretended(2) as machine:
        u = td.shard(a, 2)
        before = machine.moved
        np.asarray(td.jit(lambda a: td.sum(a, axis=0), backend="cuda", devices=2)(u))
        assert machine.moved - before < a.nbytes // 16


def test_the_benchmark(tmp_path: Path) -> None:
    """Every program of it, on tiny data: it measures, predicts and compares."""
    with pretended(2):
        assert gpus.main(["--tiny", "--no-jax", "--out", str(tmp_path / "gpus.json")]) == 0
    report = json.loads((tmp_path / "gpus.json").read_text(encoding="utf-8"))
    assert {x["devices"] for x in report["lines"]} == {1, 2}
    several = [x for x in report["lines"] if x["devices"] == 2]
    inexact = ("stencil loop, weak", "product, one Strassen level")
    assert all(x["same_bits"] for x in several if x["work"] not in inexact)
    assert "| transposition |" in (tmp_path / "gpus.md").read_text(encoding="utf-8")


def test_the_benchmark_goes_on_where_jax_does_not_return() -> None:
    worker = """
import json, sys, time
print(8, flush=True)
for line in sys.stdin:
    name, n, d = json.loads(line)
    if d == 4:
        break
    time.sleep(60 * (d == 2))
    print(json.dumps(n / d if name == "sum" else "no memory"), flush=True)
"""
    jax = gpus.Jax(1.0, [sys.executable, "-c", worker])
    total, rows = gpus.WORKS[2], gpus.WORKS[3]
    try:
        assert jax.ask(total, 6, 1) == 6.0
        assert jax.ask(total, 6, 2) == "no result within 1 s"
        assert jax.ask(total, 6, 3) == 2.0  # by another process
        assert jax.ask(rows, 6, 1) == "no memory"
        assert jax.ask(total, 6, 4) == "the process ended"
    finally:
        jax.stop()


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["transpose", "reshape", "strides", "roll", "product of all"])
def test_blocks_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gets much of other GPUs is computed while more of it is copied, but not copied twice."""
    blocks, moved = list[int](), list[int]()
    for pipelined in (1 << 62, 1):
        monkeypatch.setattr(engine, "PIPELINED", pipelined)
        monkeypatch.setattr(running, "LARGE", pipelined)
        check(PROGRAMS[name], 3, matrix((37, 53)), seed=pipelined)
        with pretended(3) as machine:
            u = td.shard(matrix((37, 53)), 3)
            before = machine.moved
            found = td.jit(PROGRAMS[name], backend="cuda", devices=3)(u)
            np.asarray(found)
            assert len(found.parts) <= 3
            blocks.append(len(machine.ran))
            moved.append(machine.moved - before)
    assert moved[0] == moved[1]
    assert blocks[1] == (4 if name == "transpose" else 1) * blocks[0]


def test_only_halos_are_moved() -> None:
    """A loop copies as many rows across a cut as it makes iterations between exchanges."""
    a = matrix((64, 16))
    with pretended(2) as machine:
        u = td.shard(a, 2)
        before = machine.moved
        td.jit(lambda u: heat(u, 4), backend="cuda", devices=2)(u).wait()
        assert machine.moved - before == 2 * 4 * 16 * 4


def waves(u: Any) -> Any:
    """Two states, at a periodic boundary, read from both sides by different numbers of rows."""

    def step(state: Any) -> Any:
        a, b = state
        return (
            td.stencil(lambda a, b: a[-2, 0] * 0.5 + b[1, 0] * 0.25, a, b, boundary=td.wrap),
            td.stencil(lambda b: b[0, -1] * 0.5 + b[3, 0] * 0.25, b, boundary=td.wrap),
        )

    return td.iterate(24, step, (u, u + 1))


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("name", ["heat", "waves"])
def test_windows_of_a_loop(name: str, devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of arrays that the call made get their halo around them: only that is copied."""
    f = {"heat": lambda u: heat(u, 24), "waves": waves}[name]
    monkeypatch.setattr(engine, "ELEMENT", 1.0)
    a = matrix((64 * devices, 4))
    check(f, devices, a, seed=devices)
    with pretended(devices) as machine:
        u, compiled = td.shard(a, devices), td.jit(f, backend="cuda", devices=devices)
        text = compiled.lower(u).explain()
        assert ("to 3. iterate" if name == "heat" else "to 4. iterate") in text, text
        moved = []
        for _ in range(2):
            before = machine.moved, machine.copied
            flat(compiled(u))[0].wait()
            moved.append((machine.moved - before[0], machine.copied - before[1]))
        # Arguments have no room for a halo: the blocks at their cuts are computed apart (of heat),
        # which needs 16 rows of the part beside the 8 of its neighbour, or all is copied.
        cuts, row = 2 * (devices - 1), a.shape[1] * 4
        if name == "heat":
            assert moved == [(24 * cuts * row, (16 + 8) * cuts * row)] * 2
        else:
            assert moved == [(24 * (2 + 3) * 2 * devices * row, a.nbytes)] * 2
        for _ in range(3):
            flat(compiled(u))[0].wait()
        assert machine.launched >= 1  # a graph, once results are at the same addresses again


@pytest.mark.parametrize("name", ["product", "transposition", "sums of rows"])
def test_gpus_wait_only_for_what_they_copy(name: str) -> None:
    """The second one does all that it has to do before the first one has begun to compute."""
    (work,) = [w for w in gpus.WORKS if w.name == name]
    with pretended(2) as machine:
        arrays = gpus.data(work, 32, 2)
        for k in (0, 1):
            with machine.on(k):
                machine.wait()
        machine.ran.clear()
        found = td.jit(work.run, backend="cuda", devices=2)(*arrays)
        machine.drain((1, MAIN), first=True)
        assert set(machine.ran) == {1}
        assert np.asarray(found).shape[0] == 32


def test_what_exchanges_nothing_is_a_graph_for_each_gpu() -> None:
    programs: dict[str, tuple[Callable[..., Any], list[list[int]]]] = {
        "map": (lambda a: a * 2 + 1, [[0], [1]]),
        "sums of rows": (lambda a: td.sum(a, axis=1), [[0], [1]]),
        "sum": (td.sum, [[0, 1]]),
        "heat": (lambda u: heat(u, 9), [[0, 1]]),
    }
    a = matrix((64, 8))
    for name, (f, groups) in programs.items():
        (wanted,) = on_one(f, a)
        with pretended(2) as machine:
            u, compiled = td.shard(a, 2), td.jit(f, backend="cuda", devices=2)
            for _ in range(4):
                assert np.asarray(compiled(u)).tobytes() == wanted.tobytes(), name
            assert machine.groups and machine.groups[: len(groups)] == groups, name


def test_calls_that_recur_are_graphs() -> None:
    """Of the same arguments, and of results that become arguments; results live on."""

    def program(u: Any, k: Any) -> Any:
        return td.iterate(9, lambda v: heat(v, 1) * k, u)

    a = matrix((64, 16))
    with emulation():
        one = td.jit(program, backend="cuda")
        wanted = [(k, one(a, k)) for k in map(np.float32, (0.5, 0.0, -0.0))]
        chain = [a]
        for _ in range(12):
            chain.append(one(chain[-1], np.float32(0.5)))
    with pretended(2, 5) as machine:
        f, u = td.jit(program, backend="cuda", devices=2), td.shard(a, 2)
        kept = [(f(u, k), want) for k, want in wanted * 5]
        assert machine.launched == 0  # every result is somewhere else
        for found, want in kept:
            assert np.asarray(found).tobytes() == want.tobytes()
        del kept, found
        for k, want in wanted * 5:
            assert np.asarray(f(u, k)).tobytes() == want.tobytes()
        before = machine.launched
        assert before >= 3
        for want in chain[1:]:
            u = f(u, np.float32(0.5))
            assert np.asarray(u).tobytes() == want.tobytes()
        assert machine.launched > before


def test_what_cannot_be_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CUDA refuses it, and where there is no memory for results beside intermediate arrays,
    calls are queued as before."""
    a = matrix((40, 8))

    def refused(*_: Any) -> Any:
        tried.append(1)
        raise td.DeviceOutOfMemory("no memory")

    tried: list[int] = []
    with pretended(2) as machine:
        u, want, copy = td.shard(a, 2), on_one(lambda u: heat(u, 2), a)[0], machine.copy
        patches = (
            (machine, "copy", lambda *args: (copy if machine.graph is None else refused)(*args)),
            (running.Schedule, "_empty", refused),
        )
        for where, name, instead in patches:
            step = td.jit(lambda u: heat(u, 2), backend="cuda", devices=2)
            tried.clear()
            with monkeypatch.context() as patched:
                patched.setattr(where, name, instead)
                for _ in range(5):
                    assert np.asarray(step(u)).tobytes() == want.tobytes()
            assert machine.launched == 0 and len(tried) == 1


def test_a_plan_is_explained() -> None:
    with pretended(2):
        compiled = td.jit(lambda a: td.cumsum(a.ravel()), backend="cuda", devices=2)
        text = compiled.lower(matrix((64, 16))).explain()
    assert "On 2 GPUs: " in text and "in one block: it goes along the rows" in text


def test_arguments_from_other_places() -> None:
    with pretended(3) as machine:
        compiled = td.jit(lambda a: a * 2, backend="cuda", devices=[0, 2])
        with machine.on(1):
            elsewhere = machine.upload(matrix((5, 4)))
        found = compiled(elsewhere)
        assert isinstance(found, td.Sharded) and found.devices == (0, 2)
        assert found.boxes == ((slice(0, 3), slice(0, 4)), (slice(3, 5), slice(0, 4)))
        assert (np.asarray(found) == matrix((5, 4)) * 2).all()
        whole = found.gather()
        with machine.on(0):
            assert (machine.devices[0].download(whole) == np.asarray(found)).all()
        with pytest.raises(td.TracingError, match="GPUs 0, 2"):
            td.jit(lambda a: a, backend="cuda", devices=[1, 2])(found)
        with pytest.raises(td.BackendUnavailable, match="there is no GPU 7"):
            td.shard(np.zeros(4), 8)


def test_other_programs_take_arrays_in_parts() -> None:
    a = matrix((5, 4))
    with pretended(2) as machine:
        u = td.shard(a, 2)
        assert (td.jit(lambda a: a + 1, backend="native")(u) == a + 1).all()
        assert (td.run(td.use(u) * 2, backend="reference") == a * 2).all()
        found = td.jit(lambda a: a + 1, backend="cuda")(u)
        assert (machine.devices[0].download(found) == a + 1).all()


def test_calls_on_arrays_in_parts_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls like earlier ones do without a look at types and extents; all others are right."""
    a, f = matrix((40, 8)), lambda u, k, n: (u * k + n, td.sum(u))
    calls = [(a, 2.0, 3), (a + 1, -0.5, 4), (a[:5], 2.0, 3), (a[:1], 2.0, 3)]
    calls += [(a.astype(np.float64), 2.0, 3), (a, 2, 3), (a, np.float32(2), 3), (a, 2.0, 1 << 40)]
    calls += [(a, 2.0, True), (a, 1j, 3), (a[:0], 2.0, 3)]
    with pretended(2):
        g = td.jit(f, backend="cuda", devices=2)
        on_cpu = td.jit(f, backend="native")
        for _ in range(2):
            for u, *numbers in calls:
                for made in (g, on_cpu):
                    found = [np.asarray(x) for x in made(td.shard(u, 2), *numbers)]
                    for got, want in zip(found, on_one(f, u, *numbers), strict=True):
                        assert got.dtype == want.dtype and got.shape == want.shape
                        if made is g:
                            assert got.tobytes() == want.tobytes()
                        np.testing.assert_allclose(got, want, rtol=1e-5)
        u, (want, _) = td.shard(a + 2, 2), on_one(f, a + 2, 0.25, 3)

        def looked(*_: Any) -> Any:
            raise AssertionError("a call that was not replayed")

        monkeypatch.setattr("treadle.driver.jit.signature", looked)
        found, total = g(u, 0.25, 3)
        assert np.asarray(found).tobytes() == want.tobytes()
        assert total.shape == ()
        with pytest.raises(AssertionError):
            g(u, 0.25, 5)


@pytest.mark.long
def test_the_conformance_suite_runs_on_several() -> None:
    """`TREADLE_TEST_DEVICES`: programs run in parts, and those without a rule are skipped."""
    here = Path(__file__).parents[2] / "conformance"
    chosen = [
        f"{here}/test_folds.py::test_typed_init_and_epilogue",
        f"{here}/test_permute.py::test_bincount[cuda-emulated-int8]",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-rs", "-p", "no:cacheprovider", *chosen],
        env={**os.environ, "TREADLE_TEST_DEVICES": "3", "TREADLE_TEST_BACKENDS": "cuda-emulated"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout and "refused on 3 GPUs: " in done.stdout


@pytest.mark.parametrize("devices", [0, [], [1, 1], True, "two", [-1], 1.5])
def test_devices_are_numbers(devices: Any) -> None:
    with pytest.raises(td.TracingError, match="devices="):
        td.jit(lambda a: a, backend="cuda", devices=devices)
    with pytest.raises(td.BackendUnavailable, match="several GPUs"):
        td.jit(lambda a: a, backend="native", devices=2)


def test_a_plan_serves_all_floats() -> None:
    """Only integers decide about blocks: calls with other floats plan and compile nothing."""

    def damped(u: Any, factor: Any, steps: Any) -> Any:
        return td.iterate(steps, lambda u: td.stencil(
            lambda w: w[0, 0] * factor + w[-1, 0], u, boundary=td.clamp), u)  # fmt: skip

    a = matrix((48, 8))
    compiled = td.jit(damped, backend="cuda", devices=2)
    with pretended(2):
        found = [np.asarray(compiled(a, x, 3)) for x in (0.5, 0.25, -2.0)]
        executable = compiled.lower(a, 0.5, 3).executable
        assert len(executable.schedules) == 1
    for x, got in zip((0.5, 0.25, -2.0), found, strict=True):
        (wanted,) = on_one(damped, a, x, 3)
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("n", [1 << 10, 1 << 14, 1 << 16])
@pytest.mark.parametrize("devices", [2, 3, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 100, 203])
@pytest.mark.parametrize("given", [True, False])
def test_windows_of_a_loop_are_whole_passes(n, devices, count, given):
    """As many iterations run one by one as on one GPU, whose passes are of `MOST_ITERATIONS`."""
    host, rows = engine.engine(settings(), devices, 1 << 36), n // devices
    found = loops.spans(count, rows, rows * n * host.element, 3 / rows, host.overhead, host, given)
    assert sum(found) == count and max(found, default=0) <= rows
    assert sum(k % host.iterations for k in found) == count % host.iterations
