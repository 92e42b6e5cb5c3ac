"""Many arrays, extents and programs: memory stays what it was."""

from __future__ import annotations

import pytest

from .processes import run

#: `step(k)` a first time, then often; what the process holds grows by less than `most` MB.
FLOOD = """
{step}
for k in range({first}):
    step(k)
before = resident()
for k in range({first}, {first} + {count}):
    step(k)
grown = resident() - before
print(f"{{grown:.1f}} MB")
assert grown < {most}, f"{{grown:.1f}} MB more after {count} steps"
"""
ARRAYS = {
    "run": "def step(k): td.run(td.sum(np.ones(50_000)), backend='native')",
    "reference": "def step(k): td.run(td.sum(np.ones(50_000)), backend='reference')",
    "not run": "def step(k): td.sum(td.use(np.ones(50_000)) * 2)",
    "captured": """
def step(k):
    a = td.use(np.full(50_000, 1.0))
    assert td.jit(lambda: td.sum(a), backend='reference')() == 50_000
""",
    "arguments": """
f = td.jit(lambda a, k: (td.sum(a), a[k:]), backend='native')
def step(k): assert f(np.ones(50_000), k)[0] == 50_000
""",
    "axes": """
def step(k):
    a = td.use(np.ones((50, 1000)))
    td.run((td.sum(a, axis=1), td.cumsum(a, axis=0), td.sort(a), a.T @ a[:, :3]), backend='native')
""",
    "errors": """
def step(k):
    try:
        td.map(lambda x, y: x, np.ones(50_000), np.ones(3))
    except td.ShapeError:
        pass
""",
}  # fmt: skip
#: Small arrays, and how many of them.
SMALL = {
    "run": (
        "def step(k): assert td.run(td.sum(np.full(10, k)), backend='native') == 10 * k", 100_000
    ),
    "not run": ("def step(k): td.sum(td.use(np.full(10, k)) * 2)", 100_000),
    "arguments": ("""
f = td.jit(lambda a: td.sum(a), backend='native')
def step(k): assert f(np.full(10, k)) == 10 * k
""", 1_000_000),
}  # fmt: skip
EXTENTS = """
f = td.jit(lambda a: (td.sum(a), td.scanl1(lambda x, y: x + y, a), a[::-1] + a, td.filter(
    lambda x: x > 3, a)), backend='native')
def step(k): assert f(A[:k % 997])[0] == A[:k % 997].sum()
"""
PROGRAMS = "def step(k): check(program(k), k)"
#: LLVM's passes alone, of which each run left 1.5 kB.
PASSES = """
from treadle.backend.native.codegen.engine import to_object
from treadle.backend.native.codegen.target import Target
TEXT = "define i64 @f(i64 %x) {\\n  %y = add i64 %x, 5\\n  ret i64 %y\\n}\\n"
def step(k):
    effort = ("usual", "thorough", "quick")[k % 3]
    to_object(TEXT.replace("@f", f"@f{k}"), Target.host(), effort)
"""
#: One function that traces another program for every call.
SIGNATURES = """
f = td.jit(lambda a, words: td.sum(a) + len(words), backend='native')
def step(k): assert f(A, 'x' * (k % 5000)) == A.sum() + k % 5000
"""


def flood(tmp_path, step, first, count, most, seconds=120):
    # What glibc keeps for threads is no leak, but jumps.
    changes = {"MALLOC_ARENA_MAX": "1", "TREADLE_NUM_THREADS": "2"}
    script = FLOOD.format(step=step, first=first, count=count, most=most)
    run(script, tmp_path / "cache", changes, seconds=seconds)


def test_arrays(tmp_path):
    flood(tmp_path, ARRAYS["run"], 20, 150, 20)


@pytest.mark.long
@pytest.mark.parametrize("name", ARRAYS)
def test_many_arrays(tmp_path, name):
    flood(tmp_path, ARRAYS[name], 200, 20_000 if name == "arguments" else 3000, 30, 600)


@pytest.mark.long
def test_small_arrays(tmp_path):
    flood(tmp_path, SMALL["run"][0], 100, 500, 5)
    flood(tmp_path, SMALL["arguments"][0], 1000, 50_000, 5)


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_many_small_arrays(tmp_path, name):
    step, count = SMALL[name]
    flood(tmp_path, step, 1000, count, 10, 1800)


@pytest.mark.long
def test_passes(tmp_path):
    flood(tmp_path, PASSES, 300, 2000, 1)


@pytest.mark.long
def test_extents(tmp_path):
    flood(tmp_path, EXTENTS, 1000, 2000, 10)


@pytest.mark.long
def test_many_extents(tmp_path):
    flood(tmp_path, EXTENTS, 1000, 300_000, 15, 600)


@pytest.mark.long
@pytest.mark.parametrize("step", [PROGRAMS, SIGNATURES], ids=["functions", "signatures"])
def test_many_programs(tmp_path, step):
    flood(tmp_path, step, 300, 1500, 5, 1200)
