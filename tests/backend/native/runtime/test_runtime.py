"""The C files of the runtime: what is shipped is made of them, and Python agrees with both."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.llvm import llvm
from treadle.backend.native.codegen.target import Target
from treadle.backend.native.runtime import build, modules, replay, structures, threads

MODULES = pytest.mark.parametrize("module", build.MODULES, ids=lambda m: m.output.name)
REPLAY, LATE, PASSES, TEAM = (
    build.MODULES[0].source.with_name(name) for name in ("replay.c", "late.h", "passes.h", "team.c")
)


def code(path: Path) -> str:
    """A C file without comments."""
    return re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def members(path: Path) -> dict[str, list[str]]:
    """The names of the fields of each structure, in order."""
    found = re.findall(r"^struct (\w+) \{(.*?)^\};", code(path), re.M | re.S)
    return {name: re.findall(r"(\w+)(?:\[\w+\])?;", body) for name, body in found}


def constants(path: Path) -> dict[str, int]:
    """Those of all enums."""
    found: dict[str, int] = {}
    for body in re.findall(r"enum \w* ?\{(.*?)\};", code(path), re.S):
        following = 0
        for name, value in re.findall(r"(\w+)(?: = ([^,]+))?,?", body):
            found[name] = eval(value, {}, found) if value else following
            following = found[name] + 1
    return found


@MODULES
def test_the_shipped_code_is_that_of_the_c_file(module: build.Module) -> None:
    text = module.output.read_text(encoding="utf-8")
    assert f": {module.digest()}\n" in text, (
        f"{module.source.name} has changed: python -m treadle.backend.native.runtime.build"
    )
    assert f"; {module.command}\n" in text


@MODULES
def test_clang_makes_the_shipped_code(module: build.Module) -> None:
    try:
        build.require_clang()
    except build.BuildError as error:
        pytest.skip(str(error))
    assert module.text() == module.output.read_text(encoding="utf-8")


@MODULES
def test_the_shipped_code_is_for_any_machine(module: build.Module) -> None:
    text = module.output.read_text(encoding="utf-8")
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    assert not parsed.triple and not parsed.data_layout
    assert not re.search(r"target-cpu|target-features|^!|metadata", text, re.M)
    assert "/" not in text  # no path


def test_the_extra_is_the_pinned_clang() -> None:
    project = Path(__file__).resolve().parents[4] / "pyproject.toml"
    extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["runtime"] == [f"ziglang=={build.ZIGLANG}"]


def test_structures_are_those_of_c() -> None:
    found = members(REPLAY) | members(LATE) | members(PASSES)
    assert set(found) == {
        "operation", "part", "branch", "buffer", "moving", "state", "made", "loop", "dimension",
        "array", "number", "block", "result", "record", "view", "runner", "memory", "instruction",
        "evaluation", "unit", "pass",
    }  # fmt: skip
    del found["runner"]  # C's own
    for name, fields in found.items():
        structure = getattr(structures, name.title())
        assert fields == [field for field, _ in structure._fields_], name
        sizes = [ctypes.sizeof(kind) for _, kind in structure._fields_]
        assert ctypes.sizeof(structure) == sum(sizes) and not any(size % 8 for size in sizes)


def test_constants_are_those_of_c() -> None:
    enums = (structures.OperationKind, structures.InstructionKind, structures.NumberKind,
             structures.Outcome)  # fmt: skip
    kinds = {name: value for enum in enums for name, value in enum.__members__.items()}
    own = {"WORTH_PLACING", "MOST_STATES", "MOST_PERIOD"}
    shared = constants(REPLAY) | constants(LATE)
    assert {name: value for name, value in shared.items() if name not in own} == kinds
    found = constants(TEAM)
    assert found["MOST_THREADS"] == threads.MOST_THREADS
    assert found["MOST_TASKS"] == threads.MOST_TASKS


# --- what replay.c sees in arrays ---------------------------------------------------------------


needs_replay = pytest.mark.skipif(not replay.supported(), reason="calls are not replayed here")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """The check has not been made."""
    replay.usable.cache_clear()
    yield
    replay.usable.cache_clear()


@needs_replay
@pytest.mark.usefixtures("unchecked")
def test_arrays_lie_as_the_headers_say() -> None:
    """If this fails, calls are slow: replay.c must be compiled with the headers that are used."""
    assert replay.usable()


@needs_replay
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("field", [name for name, _ in structures.View._fields_])
def test_calls_go_the_ordinary_way_where_arrays_lie_otherwise(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspect = replay.inspect
    other = np.arange(7)

    def elsewhere(identity: int) -> structures.View:
        seen = inspect(identity)
        value = {"extents": other.ctypes.data, "strides": other.ctypes.data}.get(field)
        setattr(seen, field, getattr(seen, field) + 1 if value is None else value)
        return seen

    monkeypatch.setattr(replay, "inspect", elsewhere)
    assert not replay.usable()
    f = td.jit(lambda x: td.iterate(40, lambda s: s + 1, x), backend="native")
    x = np.arange(5.0)
    for _ in range(3):
        assert np.array_equal(f(x), x + 40)
    assert not f.lower(x).executable.calls.replays.records


# --- the team ------------------------------------------------------------------------------------


Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.fixture
def team() -> threads.Team:
    found = threads.team()
    if found is None:
        pytest.skip("no native threads here")
    return found


def address(task: Any) -> int:
    return ctypes.cast(task, ctypes.c_void_p).value or 0


def brief(function: int, arguments: int, tasks: int, workers: int) -> None:
    """`parallel_brief` of team.c."""
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    ctypes.CFUNCTYPE(None, *types)(modules.team()["parallel_brief"])(
        function, arguments, tasks, workers
    )


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("tasks", [0, 1, 5, 1000])
def test_every_task_is_done_once(team: threads.Team, tasks: int, workers: int) -> None:
    done: list[int] = []
    task = Task(lambda _, first, last: done.extend(range(first, last)))
    for run in (team.parallel, brief):
        done.clear()
        run(address(task), 0, tasks, workers)
        assert sorted(done) == list(range(tasks))


def test_jobs_of_changing_sizes_follow_each_other(team: threads.Team) -> None:
    """Jobs with ranges of tasks and without, brief ones, of more and of fewer threads than the one
    before."""
    done: list[int] = []
    task = Task(lambda _, first, last: done.extend(range(first, last)))
    for k in range(600):
        workers, tasks = 2 + k * 5 % 7, 1 + k * 11 % 31
        done.clear()
        run = brief if k % 3 == 1 else team.parallel
        run(address(task), 0, tasks, min(workers, tasks))
        assert sorted(done) == list(range(tasks)), (workers, tasks)


def test_long_jobs_pause_and_go_on(team: threads.Team) -> None:
    done: list[int] = []

    def slow(_: int, first: int, last: int) -> None:
        time.sleep(0.06)
        done.extend(range(first, last))

    task = Task(slow)
    held = ctypes.c_int32(0)
    pauses = 0
    while team.interruptible(address(task), 0, 8, 2, ctypes.addressof(held)):
        assert held.value == 1
        pauses += 1
    assert held.value == 0
    assert sorted(done) == list(range(8))
    assert 1 <= pauses <= 8


def test_abandoned_jobs_leave_the_team_to_others(team: threads.Team) -> None:
    done: list[int] = []
    slow = Task(lambda _, first, last: time.sleep(0.06))
    fast = Task(lambda _, first, last: done.extend(range(first, last)))
    held = ctypes.c_int32(0)
    assert team.interruptible(address(slow), 0, 100, 2, ctypes.addressof(held)) == 1
    team.parallel(address(fast), 0, 10, 2)  # taken: the caller does them alone
    assert sorted(done) == list(range(10))
    team.abandon(ctypes.addressof(held))
    assert held.value == 0
    done.clear()
    while team.interruptible(address(fast), 0, 10, 2, ctypes.addressof(held)):
        pass
    assert sorted(done) == list(range(10))


def test_without_a_team_the_caller_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    assert modules.team_target() is None
    monkeypatch.undo()
    entry = modules.linked(TEAM.with_name("team.generic.ll"), ("parallel_brief",))["parallel_brief"]
    ranges: list[tuple[int, int]] = []
    task = Task(lambda _, first, last: ranges.append((first, last)))
    integers = [ctypes.c_int64] * 2
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *integers)(entry)(
        address(task), 0, 10, 4
    )
    assert ranges == [(0, 10)]


def test_good_code_of_the_runtime_is_for_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    jobs: list[Callable[[], object]] = []
    made: list[str] = []
    held = engine.to_object
    here = threading.get_ident()  # another thread may still make the code of an earlier test

    def to_object(text: str, target: Target, effort: engine.Effort = "usual") -> bytes:
        if threading.get_ident() == here:
            made.append(effort)
        return held(text, target, effort)

    monkeypatch.setattr(modules, "later", jobs.append)
    monkeypatch.setattr(engine, "to_object", to_object)
    path = TEAM.with_name("replay.ll")
    text = path.read_text(encoding="utf-8")
    soon = modules._image(text)
    assert made == ["quick"]
    assert modules._image(text) == soon  # from disk, in a process that ends soon
    assert made == ["quick"]
    assert len(jobs) == 2
    monkeypatch.delenv("TREADLE_CACHE_DIR")  # the code is stored where the other is
    jobs[0]()
    assert made == ["quick", "usual"]
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    good = modules._image(text)
    assert good != soon
    assert made == ["quick", "usual"]
    assert len(jobs) == 2


@pytest.mark.parametrize(("length", "joined"), [(100, False), (1 << 20, True)])
def test_a_program_that_one_thread_runs_needs_no_team(
    length: int, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(threads, "join_openmp", lambda: asked.append(None))
    x = np.arange(length, dtype=np.float64)
    program = td.jit(lambda x: x * 3 + length, backend="native")
    for k in range(4):  # the later calls are replayed
        np.testing.assert_array_equal(program(x + k), (x + k) * 3 + length)
    assert bool(asked) == joined
