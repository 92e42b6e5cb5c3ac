"""Object files in memory, without LLVM's linker."""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.backend.native.codegen import engine
from treadle.backend.native.codegen.target import Target
from treadle.backend.native.runtime import objects
from treadle.dsl.errors import CompilationError

pytestmark = pytest.mark.skipif(not objects._is_ours(), reason="LLVM links objects here")

Unary = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
Real = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)

#: Constants, variables with and without a first value, tables of addresses, jumps by a table,
#: calls inside and outside, and what is outside of the file.
TEXT = """
@given = external global i64, align 8
@zero = internal global i64 0, align 8
@begun = internal global i64 40, align 8
@table = internal constant [2 x ptr] [ptr @once, ptr @twice], align 8
@visible = global i64 7, align 8
declare double @sin(double) nounwind
declare i64 @outside(i64) nounwind
define internal i64 @once(i64 %x) noinline nounwind { ret i64 %x }
define internal i64 @twice(i64 %x) noinline nounwind {
  %y = shl i64 %x, 1
  ret i64 %y
}
define i64 @counted(i64 %x) nounwind {
  %a = load i64, ptr @zero
  %b = add i64 %a, %x
  store i64 %b, ptr @zero
  %c = load i64, ptr @begun
  %d = load i64, ptr @visible
  %e = add i64 %c, %d
  %f = add i64 %e, %b
  ret i64 %f
}
define i64 @chosen(i64 %k) nounwind {
  %p = getelementptr ptr, ptr @table, i64 %k
  %f = load ptr, ptr %p
  %r = call i64 %f(i64 21)
  ret i64 %r
}
define i64 @switched(i64 %k) nounwind {
  switch i64 %k, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d
                                i64 4, label %e ]
a: ret i64 11
b: ret i64 23
c: %x = call i64 @once(i64 31)
   ret i64 %x
d: ret i64 47
e: ret i64 59
other: ret i64 -1
}
define double @sine(double %x) nounwind {
  %y = call double @sin(double %x)
  %z = fadd double %y, 0.3
  ret double %z
}
define i64 @calls(i64 %x) nounwind {
  %g = load i64, ptr @given
  %y = call i64 @outside(i64 %g)
  %z = add i64 %y, %x
  ret i64 %z
}
"""
EXPORTS = ("counted", "chosen", "switched", "sine", "calls", "visible")


@pytest.fixture(scope="module")
def image() -> bytes:
    host = Target.host()
    return engine.to_object(engine.header(host) + TEXT, host)


def far_function(low: bool) -> int:
    """The address of machine code for x + 1: `lea rax, [rdi + 1]; ret`; `low`: far away."""
    library = objects._process()
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # An address is a wish: a Python at a fixed place has its heap at some of these.
    wishes = range(0x10000000, 0x70000000, 0x10000000) if low else [None]
    for wish in wishes:
        address: int = library.mmap(wish, 4096, protection, kind, -1, 0)
        if address == wish:
            break
    ctypes.memmove(address, b"\x48\x8d\x47\x01\xc3", 5)
    return address


@pytest.mark.parametrize("low", [False, True])
def test_an_object_does_what_it_says(image: bytes, low: bool) -> None:
    given = ctypes.c_int64(100)
    function = far_function(low)
    foreign = {"given": ctypes.addressof(given), "outside": function}
    made = objects.load(image, EXPORTS, ["sin"], foreign)
    at = made.addresses
    assert low == (abs(at["calls"] - function) >= 1 << 31)
    counted, chosen, switched, calls = (
        Unary(at[name]) for name in ("counted", "chosen", "switched", "calls")
    )
    assert [counted(1), counted(2), counted(3)] == [48, 50, 53]
    assert [chosen(0), chosen(1)] == [21, 42]
    assert [switched(k) for k in range(-1, 6)] == [-1, 11, 23, 31, 47, 59, -1]
    assert Real(at["sine"])(0.5) == math.sin(0.5) + 0.3
    assert calls(5) == 106
    given.value = 7
    assert calls(5) == 13
    assert ctypes.c_int64.from_address(at["visible"]).value == 7
    again = objects.load(image, EXPORTS, ["sin"], foreign)
    assert Unary(again.addresses["counted"])(1) == 48  # with variables of its own


def test_code_cannot_be_written_nor_data_run(image: bytes) -> None:
    foreign = {"given": 8, "outside": 8}
    made = objects.load(image, EXPORTS, ["sin"], foreign)
    kinds = {}
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        kinds.update({n: line.split()[1] for n, a in made.addresses.items() if start <= a < end})
    assert kinds == {name: "rw-p" if name == "visible" else "r-xp" for name in EXPORTS}


def test_memory_is_returned(image: bytes) -> None:
    made = objects.load(image, EXPORTS, ["sin"], {"given": 8, "outside": 8})
    start = made.addresses["counted"] & -mmap.PAGESIZE
    assert f"{start:x}-" in Path("/proc/self/maps").read_text(encoding="ascii")
    del made
    gc.collect()
    assert f"{start:x}-" not in Path("/proc/self/maps").read_text(encoding="ascii")


def test_what_nothing_defines(image: bytes) -> None:
    with pytest.raises(CompilationError, match=r"nothing defines (given|outside)\."):
        objects.load(image, EXPORTS, ["sin"], {})
    with pytest.raises(CompilationError, match="cannot be loaded"):
        objects.load(image, ["missing"], ["sin"], {"given": 8, "outside": 8})


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_object_is_refused_or_loaded(image: bytes, seed: int) -> None:
    """The cache has checksums; still, no file ends the process while it is loaded."""
    draw = random.Random(seed)
    refused = 0
    for _ in range(300):
        damaged = bytearray(image[: draw.randrange(len(image))] if draw.random() < 0.3 else image)
        for _ in range(draw.randrange(1, 4)):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            objects.load(bytes(damaged), EXPORTS, ["sin"], {"given": 8, "outside": 8})
        except CompilationError:
            refused += 1
    assert refused > 50


def test_other_files_are_refused(image: bytes) -> None:
    for other in (b"", b"MZ" + image[2:], b"\x7fELF\x01" + image[5:],
                  image[:18] + struct.pack("<H", 183) + image[20:]):  # fmt: skip
        with pytest.raises(CompilationError, match="cannot be loaded"):
            objects.load(other, EXPORTS, ["sin"], {"given": 8, "outside": 8})


@pytest.mark.parametrize(
    "text, said",
    [
        ("@x = thread_local global i64 1\ndefine ptr @f() { ret ptr @x }", "variables of threads"),
        ("@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
         "[{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]\ndefine void @f() { ret void }",
         "constructors"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused(text: str, said: str) -> None:
    host = Target.host()
    made = engine.to_object(engine.header(host) + text, host)
    with pytest.raises(CompilationError, match=said):
        objects.load(made, ["f"], (), {})


def test_limits_of_memory_are_errors(image: bytes, tmp_path: Path) -> None:
    (tmp_path / "object.o").write_bytes(image)
    code = f"""
import resource, pathlib
from treadle.backend.native.runtime import objects
from treadle.dsl.errors import DeviceOutOfMemory
image = pathlib.Path({str(tmp_path / "object.o")!r}).read_bytes()
objects.load(image, ["calls"], ["sin"], {{"given": 8, "outside": 8}})
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used, used))
try:
    for k in range(10000):
        made = objects.load(image, ["calls"], ["sin"], {{"given": 8, "outside": 8}})
        globals()[f"held{{k}}"] = made
except (DeviceOutOfMemory, MemoryError) as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("DeviceOutOfMemory", "MemoryError")


def test_llvm_links_where_this_module_does_not(
    image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_is_ours", lambda: False)
    given = ctypes.c_int64(100)
    foreign = {"given": ctypes.addressof(given), "outside": far_function(False)}
    made = objects.load(image, EXPORTS, ["sin"], foreign)
    assert isinstance(made.memory, engine.Linked)
    assert Unary(made.addresses["counted"])(1) == 48
    assert Unary(made.addresses["calls"])(5) == 106
    assert Real(made.addresses["sine"])(0.5) == math.sin(0.5) + 0.3
