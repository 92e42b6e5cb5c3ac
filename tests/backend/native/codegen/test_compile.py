"""Code quality, caches, threads, forks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.codegen import compile as compiler, engine
from treadle.backend.native.codegen.compile import compile_kernel, llvm_ir
from treadle.backend.native.codegen.fingerprint import fingerprint
from treadle.backend.native.codegen.target import Target
from treadle.backend.native.runtime import threads
from treadle.backend.runtime.disk_cache import DiskCache
from treadle.dsl.errors import CompilationError
from treadle.dsl.expr import Var
from treadle.dsl.types import (
    ScalarType,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint64,
)
from treadle.skeletons.ir.kernel import Buffer, For, Kernel, Load, Store

from .helpers import TASK, N, add, ap, assembly, avx2, buffer, elementwise, k, kernel, lit, mul, run

i = Var("i", int64)


def saxpy(factor: float = 2.5) -> Kernel:
    x, y, o = buffer("x", float32), buffer("y", float32), buffer("o", float32, "output")
    start, stop = mul(TASK, k(1000)), ap("minimum", N, mul(add(TASK, k(1)), k(1000)))
    value = add(mul(Load(x, i), lit(factor, float32)), Load(y, i))
    body = (For(i, start, stop, (Store(o, i, value),), "vector"),)
    return kernel("saxpy", [x, y, o], body)


@pytest.mark.skipif(not Target.host().is_x86, reason="x86 assembly")
def test_saxpy_is_vector_code_alone() -> None:
    for target, register in ((None, "zmm"), (avx2(), "ymm")):
        if target is None and Target.host().vector_bytes < 64:
            continue
        text = assembly(compile_kernel(saxpy(), target=target))
        assert re.search(rf"vmulps.*%{register}", text) and re.search(rf"vaddps.*%{register}", text)
        assert "ss\t" not in text.replace("vbroadcastss\t", "")  # no scalar float32 arithmetic
        assert "vfmadd" not in text  # contraction is off


def test_blocks_are_numbered_by_unsigned_divisions() -> None:
    """The number of blocks in a row is positive where there are tasks; other divisors may be
    anything, and have another key."""
    across, other = Var("across", int64), Var("other", int64)
    o = buffer("o", int64, "output")

    def divided(tasks: Any, value: Any) -> Kernel:
        body = (Store(o, TASK, ap("add", ap("floor_divide", TASK, across),
                                  ap("remainder", TASK, across))),)  # fmt: skip
        made = kernel("divided", [o], body, (across, other), tasks)
        return replace(made, scalar_values=(value, k(1)))

    blocks = divided(mul(other, across), k(5))
    others = divided(other, k(5)), divided(mul(other, across), Var("anything", int64))
    assert re.findall("[us](?:div|rem) i64", llvm_ir(compile_kernel(blocks))) == [
        "udiv i64",
        "urem i64",
    ]
    for one in others:
        assert "sdiv i64" in (text := llvm_ir(compile_kernel(one))) and "udiv" not in text
        assert fingerprint(one, Target.host(), False) != fingerprint(blocks, Target.host(), False)


def test_fast_math_contracts() -> None:
    if not Target.host().is_x86 or Target.host().vector_bytes < 32:
        pytest.skip("needs FMA")
    assert "vfmadd" in assembly(compile_kernel(saxpy(), fast_math=True))


def test_mathematics_is_vector_calls() -> None:
    program = elementwise([buffer("x", float32)], buffer("o", float32, "output"),
                          lambda a: ap("exp", a))  # fmt: skip
    compiled = compile_kernel(program)
    if "_ZGV" not in llvm_ir(compiled):
        pytest.skip("no libmvec")
    assert "_ZGV" in assembly(compiled)


def test_scalars_of_every_type() -> None:
    cases: list[tuple[ScalarType, Any]] = [
        (int8, -3), (uint64, 2**63 + 5), (float16, 0.1), (float64, 1e300), (complex64, 1 + 2j),
        (complex128, 3 - 4j), (float32, 1e300), (int8, 300),
    ]  # fmt: skip
    for t, value in cases:
        s, o = Var("s", t), buffer("o", t, "output")
        program = kernel("scalar", [o], (For(i, k(0), N, (Store(o, i, s),), "vector"),), [N, s])
        out = np.zeros(20, t.numpy)
        run(program, [out], [20, value])
        with np.errstate(over="ignore"):
            expected = t.numpy.type(np.int64(value).astype(t.numpy) if value == 300 else value)
        assert (out == expected).all()


def test_code_in_a_cycle_is_freed_once() -> None:
    """The collector of cycles may call the destructor of the code's tracker before the code's."""
    image = engine.to_object("define void @f() { ret void }", Target.host())
    for tracker_first in (True, False):
        for _ in range(20):
            linked = engine.link(image, ["f"], (), {})
            cycle: list[Any] = [linked.tracker, linked] if tracker_first else [linked]
            cycle.append(cycle)
            del linked, cycle
        gc.collect()


def test_threads_compile_at_the_same_time() -> None:
    texts = [llvm_ir(compile_kernel(saxpy(1.0 + n))) for n in range(4)]
    wanted = [engine.to_object(text, Target.host()) for text in texts]
    found: dict[int, bytes] = {}

    def work(n: int) -> None:
        found[n] = engine.to_object(texts[n % 4], Target.host())

    together = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert [found[n] for n in range(16)] == wanted * 4


def test_refused_code_carries_its_source() -> None:
    x, o = Buffer("x", float64, "input", k(4)), Buffer("o", float32, "output", k(4))
    bad = Kernel("bad", (x, o), (), (), k(1), TASK, (Store(o, k(0), Load(x, k(0))),))
    with pytest.raises(CompilationError) as caught:
        compile_kernel(bad)
    assert "define internal void @bad" in caught.value.source


def test_timers_of_passes() -> None:
    """Whoever times LLVM's passes (Numba can), on any thread: a builder of passes is used again."""
    script = """
import llvmlite.binding as llvm
from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.target import Target
for k in range(2 * engine.RUNS):
    llvm.set_time_passes(True)
    text = f"define i64 @f{k}(i64 %x) {{\\n  %y = add i64 %x, {k}\\n  ret i64 %y\\n}}\\n"
    engine.to_object(text, Target.host())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# --- caches -----------------------------------------------------------------------------------


def fresh(cache: DiskCache, factor: float) -> compiler.CompiledKernel:
    compiler.forget()
    return compile_kernel(saxpy(factor), cache=cache)


def works(compiled: compiler.CompiledKernel, factor: float) -> bool:
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    compiled.bind()([x.ctypes.data, x.ctypes.data, out.ctypes.data], [50], 1)
    return bool((out == x * np.float32(factor) + x).all())


def test_memory_cache() -> None:
    first = compile_kernel(saxpy(3.5)).entry
    assert compile_kernel(saxpy(3.5)).entry == first
    assert compile_kernel(saxpy(3.25)).entry != first
    assert compile_kernel(saxpy(3.5), fast_math=True).entry != first


def test_disk_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert not fresh(cache, 1.5).from_disk
    again = fresh(cache, 1.5)
    assert again.from_disk and works(again, 1.5)
    assert "saxpy" in llvm_ir(again) and "saxpy" in assembly(again)
    assert not fresh(cache, 1.75).from_disk


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "header"])
def test_damaged_files_are_dropped(tmp_path: Path, damage: str) -> None:
    cache = DiskCache(tmp_path)
    fresh(cache, 1.5)
    (path,) = tmp_path.rglob("*.o")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[-20] ^= 1
    elif damage == "empty":
        data = bytearray()
    elif damage == "foreign":
        data = bytearray(b"something else entirely" * 10)
    else:
        data[16] ^= 0xFF
    path.write_bytes(data)
    made = fresh(cache, 1.5)
    assert not made.from_disk and works(made, 1.5)
    assert fresh(cache, 1.5).from_disk


def test_an_entry_without_an_end_is_none(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("aa11", b"one", {})
    cache.path("aa11").unlink()
    cache.path("aa11").symlink_to("/dev/zero")
    assert cache.get("aa11") is None
    cache.put("aa11", b"two", {})
    assert cache.get("aa11") == (b"two", {})


def test_an_entry_is_only_what_was_kept_under_its_key(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("aa11", b"one", {})
    cache.put("bb22", b"two", {})
    cache.path("bb22").write_bytes(cache.path("aa11").read_bytes())
    assert cache.get("bb22") is None and not cache.path("bb22").exists()
    assert cache.get("aa11") == (b"one", {})


def test_code_that_does_not_load_is_made_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    fresh(cache, 1.5)
    (path,) = tmp_path.rglob("*.o")
    cache.put(path.stem, b"\x7fELF but no more", {"symbols": []})
    made = fresh(cache, 1.5)
    assert not made.from_disk and works(made, 1.5)


def test_unusable_directory_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    cache = DiskCache(tmp_path / "file")
    assert works(fresh(cache, 1.5), 1.5) and not fresh(cache, 1.5).from_disk


def test_cache_is_bounded(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=4000)
    for n in range(12):
        cache.put(f"{n:02d}abc", bytes(1000), {"symbols": []})
        os.utime(cache.path(f"{n:02d}abc"), (n + 1, n + 1))
        cache.trim()
    left = sorted(p.stem for p in tmp_path.rglob("*.o"))
    assert left == ["10abc", "11abc"]  # room for more: three quarters of the bytes are kept


_CHILD = """
import sys
from treadle.backend.runtime.disk_cache import DiskCache
from treadle.backend.native.codegen import compile as compiler
from treadle.backend.native.codegen import engine
from tests.backend.native.codegen.test_compile import saxpy, works
for n in range(6):
    assert works(compiler.compile_kernel(saxpy(n + 0.5)), n + 0.5)
print("fine")
"""


def test_a_full_cache_is_looked_through_once_a_day(tmp_path, monkeypatch):
    trimmed = []
    monkeypatch.setattr(DiskCache, "trim", lambda self: trimmed.append(self._written))
    DiskCache(tmp_path).put("00" * 32, b"code", {})
    assert len(trimmed) == 1  # it was never used
    stamp = tmp_path / "native" / "trimmed"
    stamp.touch()
    DiskCache(tmp_path).put("01" * 32, b"code", {})
    assert len(trimmed) == 1
    os.utime(stamp, (0, 0))
    DiskCache(tmp_path).put("02" * 32, b"code", {})
    assert len(trimmed) == 2


def test_many_small_entries_are_trimmed_with_room_to_spare(tmp_path):
    cache = DiskCache(tmp_path, most=8)
    for n in range(9):
        cache.put(f"{n:02x}" * 32, b"code", {})
        os.utime(cache.path(f"{n:02x}" * 32), (n, n))
    cache.trim()
    assert [cache.get(f"{n:02x}" * 32) is not None for n in range(9)] == [False] * 3 + [True] * 6


def test_two_processes_share_a_directory(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[4])
    environment = {**os.environ, "TREADLE_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    running = [
        subprocess.Popen([sys.executable, "-c", _CHILD], env=environment, cwd=root,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    for process in running:
        out, err = process.communicate(timeout=120)
        assert out.strip() == "fine", err
    assert not list(tmp_path.rglob("*.tmp"))
    assert len(list((tmp_path / "native").rglob("*.o"))) == 6


# --- threads ----------------------------------------------------------------------------------


def check_parallel(size: int = 100_003) -> None:
    x, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    compiled = compile_kernel(saxpy())
    compiled.bind()([x.ctypes.data, x.ctypes.data, out.ctypes.data], [size], -(-size // 1000))
    assert (out == x * np.float32(2.5) + x).all()


def test_parallel_tasks() -> None:
    check_parallel()


def test_python_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "team", lambda: None)
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    check_parallel()
    check_parallel()


def test_threads_by_quota(tmp_path: Path) -> None:
    for text, cores in (("150000 100000\n", 2), ("max 100000\n", None), ("", None)):
        (tmp_path / "cpu.max").write_text(text, encoding="utf-8")
        found = threads._quota(str(tmp_path / "cpu.max"))
        assert found == (cores or threads.MOST_THREADS)
    assert threads._quota(str(tmp_path / "none")) == threads.MOST_THREADS


def test_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes late finds the gate closed: nobody waits for threads that do not run."""
    monkeypatch.setattr(threads, "thread_count", lambda: 9)
    for _ in range(20):
        check_parallel(20_000)


def test_many_callers_at_once() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                check_parallel(20_000)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=work) for _ in range(6)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not failures


def test_launcher_is_reusable() -> None:
    compiled = compile_kernel(saxpy())
    launch = compiled.bind()
    x = np.ones(10, np.float32)
    for size in (1, 5, 10):
        out = np.zeros(10, np.float32)
        launch([x.ctypes.data, x.ctypes.data, out.ctypes.data], [size], 1, 0, 10.0)
        assert out.sum() == size * 3.5


def _in_child(queue: Any) -> None:
    try:
        check_parallel()
        queue.put("openmp" if threads._state.openmp else "fine")
    except BaseException as error:
        queue.put(repr(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork() -> None:
    """The parent's threads are gone in the child: it makes its own."""
    check_parallel()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == "fine"
        child.join(timeout=60)
        assert child.exitcode == 0
    finally:
        if child.is_alive():
            child.kill()
    check_parallel()


def test_thread_count_from_the_environment() -> None:
    code = "from treadle.backend.native.runtime import threads; print(threads.thread_count())"
    root = str(Path(__file__).parents[4])
    environment = {**os.environ, "TREADLE_NUM_THREADS": "5", "PYTHONPATH": root}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                         text=True, check=True)  # fmt: skip
    assert out.stdout.strip() == "5"


_CROWDED = """
import ctypes
import numpy as np, treadle as td

def squares(factor):
    body = lambda v: td.exp(v * factor) + 1.25
    return td.jit(lambda x: td.sum(td.map(body, x)), backend="native")

x = np.linspace(0, 1, 1000)
squares(1.0)(x)  # whatever is loaded once is there
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
RESERVED = 0x104022  # private, anonymous, no memory behind it, never over what is there
PAGE, FAR = 4096, 3 << 30

def holes():
    with open("/proc/self/maps") as f:
        taken = sorted(tuple(int(x, 16) for x in line.split()[0].split("-")) for line in f)
    return [(a[1], b[0]) for a, b in zip(taken, taken[1:]) if a[1] < b[0] < 1 << 47]

below, top = max(holes(), key=lambda hole: hole[1] - hole[0])
for start, end in holes():
    if start != below and end - start > PAGE:
        mmap(start + PAGE, end - start - PAGE, 0, RESERVED, -1, 0)
for k in range(1, 1000):
    mmap(top - k * FAR + PAGE, FAR - PAGE, 0, RESERVED, -1, 0)
for factor in range(2, 6):
    got = squares(float(factor))(x)
    assert abs(got - (np.exp(x * factor) + 1.25).sum()) < 1e-9 * got, got
print("computed")
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_an_address_space_with_only_small_holes(tmp_path):
    """As a process has one that uses a GPU: single free pages, over 2 GB from each other."""
    out = subprocess.run([sys.executable, "-c", _CROWDED], capture_output=True, text=True,
                         env={**os.environ, "TREADLE_CACHE_DIR": str(tmp_path)})  # fmt: skip
    assert out.stdout.strip() == "computed", out.stderr


NUMBERS = {
    "map": lambda x, a: x * td.exp(a),
    "stencil": lambda x, a: td.stencil(lambda w: w[-1] * td.exp(a) + w[1], x),
    "loop": lambda x, a: td.map(lambda v: td.loop(20, lambda k, s: s * td.exp(a) + k, v), x),
    "named": lambda x, a: td.map(
        lambda v: td.cond(v > 0, td.exp(td.cond(a > 1, 2.0, a) * 2) * v, v), x
    ),
    "fold": lambda x, a: td.sum(x * td.exp(a)),
    "filled": lambda x, a: td.fill(x.shape, td.exp(a)) + x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_functions_of_numbers_are_computed_outside_of_loops(name: str) -> None:
    x = np.arange(1000.0)
    program = td.jit(NUMBERS[name], backend="native")
    text = program.lower(x, 0.3).source()
    head, *loops = text.split("define internal <", 1)[0].split("\ntasks")
    assert len(re.findall("call .*@(?!treadle).*exp", head)) == 1
    assert not re.findall("call .*exp", "".join(loops))
    want = td.jit(NUMBERS[name], backend="reference")(x, 0.3)
    np.testing.assert_allclose(program(x, 0.3), want, rtol=1e-12)


def test_operations_on_numbers_do_not_keep_a_producer_apart() -> None:
    def program(x, a):
        y = x * (td.exp(a) + td.sin(a) * td.log(a))
        return y[1:] - y[:-1]

    made = td.jit(program, backend="native").lower(np.arange(9.0), 0.3)
    assert len(made.kernels) == 1
