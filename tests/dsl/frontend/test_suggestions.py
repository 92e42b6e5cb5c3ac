"""Every mistake is answered with what to write instead."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
import treadle.dsl
from treadle.dsl.errors import keywords

KINDS = ("ShapeError", "AxisError", "DTypeError", "TracingError", "NestedParallelismError")


def without_a_hint(source: str) -> list[int]:
    """Lines that raise an error of a user's mistake and say nothing of the way out."""
    raised = (n.exc for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Raise))
    calls = (e for e in raised if isinstance(e, ast.Call) and isinstance(e.func, ast.Name))
    return [
        call.lineno
        for call in calls
        if call.func.id in KINDS and not any(k.arg == "hint" for k in call.keywords)
    ]


def test_errors_say_what_to_write():
    root = Path(treadle.dsl.__file__).parent
    found = {
        str(f.relative_to(root)): without_a_hint(f.read_text(encoding="utf-8"))
        for f in root.rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


# --- mistakes of new users, and the way out that errors give ---------------------------------

A = np.arange(12.0).reshape(3, 4)
ROWS = np.array([2, 0])


def of_the_run(build, *numbers):
    """What `build` raises when it is compiled and gets numbers, which are values of the run."""
    return lambda: td.jit(build)(A, *numbers)


IN_A_CLOSURE = r".*into a closure, one program per value: td\.jit\(lambda a: f\(a, \w+=…"
MISTAKES = {
    "an array of floats among indices": (
        lambda: td.use(A)[:, td.use(ROWS) * 1.0], td.DTypeError, "needs integer indices"),
    "a mask among indices": (
        lambda: td.use(A)[:, np.ones(9, bool)], td.ShapeError,
        "a boolean index: axis 1 has . elements, the index 9"),
    "an axis": (
        of_the_run(lambda a, axis: td.sum(a, axis=axis), 1),
        td.TracingError,
        "sum: axis= needs the value of axis, an argument of the compiled" + IN_A_CLOSURE,
    ),
    "a range": (
        of_the_run(lambda a, n: [a for _ in range(2 * n)], 3),
        td.TracingError,
        r"range\(\) or a length needs the value of n, an argument" + IN_A_CLOSURE + r".*td\.loop",
    ),
    "a flag": (
        of_the_run(lambda a, neg: -a if neg else a, True),
        td.TracingError,
        "needs the value of neg, an argument" + IN_A_CLOSURE + r".*td\.where",
    ),
    "a flag of ours": (
        of_the_run(lambda a, d: td.sum(a, deterministic=d), True), td.TracingError, IN_A_CLOSURE),
    "an offset": (
        of_the_run(lambda a, k: td.stencil(lambda w: w[0, k], a), 1),
        td.TracingError,
        IN_A_CLOSURE + ".*td.correlate",
    ),
    "levels": (
        of_the_run(lambda a, k: td.strassen(a, a.T, levels=k), 1), td.TracingError, IN_A_CLOSURE),
    "bins": (of_the_run(lambda a, n: td.histogram(a, n), 3), td.TracingError, IN_A_CLOSURE),
    "axes of a product": (
        of_the_run(lambda a, n: td.tensordot(a, a.T, n), 1), td.TracingError, IN_A_CLOSURE),
    "a width": (
        of_the_run(lambda a, w: td.map(abs, a, schedule=td.schedule.Column(w)), 8),
        td.ScheduleError,
        "Column: width needs the value of w, an argument" + IN_A_CLOSURE,
    ),
    "what is not of the arguments alone": (
        of_the_run(lambda a, n: td.map(lambda x: x if x > n else n, a), 1),
        td.TracingError,
        r"the value of a traced scalar \(bool\)",
    ),
    "the self of a method": (
        lambda: td.jit(lambda self, a: a)(object(), A), td.TracingError, r"self\.step = td\.jit"),
    "NumPy's zeros": (
        of_the_run(lambda a: a + np.zeros(a.shape)), td.TracingError, r"td\.zeros\(a\.shape\)"),
    "adding in place": (
        lambda: td.jit(lambda a: np.add(A, a, out=A.copy()))(A), td.TracingError,
        r"np\.add into .*w = w \+ v"),
    "NumPy's reduce": (
        lambda: td.jit(lambda a: np.hypot.reduce(a))(A), td.TracingError,
        r"td\.fold1\(td\.hypot, a, axis"),
    "NumPy's types": (
        lambda: td.jit(lambda a: np.add(a, A, dtype="f4"))(A), td.TracingError,
        r"np\.add\(dtype=…\).*astype"),
    "NumPy's isnat": (
        lambda: td.jit(lambda a: np.isnat(a))(A), td.TracingError, "no value for NumPy while"),
    "NumPy's apply_along_axis": (
        lambda: td.jit(lambda a: np.apply_along_axis(np.sum, 0, a))(A), td.TracingError,
        "Instead: "),
    "a list of numbers": (
        lambda: td.jit(lambda a: td.sum(a))([1, 2, 3]), td.TracingError,
        r"^a\[0\] is a number by itself.*f\(np\.array\(x\)\)"),
    "a list of numbers, times two": (
        lambda: td.jit(lambda a: a * 2)([1, 2, 3]), td.TracingError,
        r"of numbers is not an array: \* repeats a list.*f\(np\.asarray\(x\)\).*td\.stack\(x\)"),
    "a list of rows, times two": (
        lambda: td.jit(lambda a: 2 * a)([[1, 2], [3, 4]]), td.TracingError,
        r"\* repeats a list.*td\.array\(x\)"),
    "lists of numbers added": (
        lambda: td.jit(lambda a, b: a + b)([1, 2], [3, 4]), td.TracingError, r"\+ joins lists"),
    "a list of numbers compared": (
        lambda: td.jit(lambda a: td.where(a == 2, a[0], a[1]))([1, 2]), td.TracingError,
        "is False for anything else"),
    "a method of a list of numbers": (
        lambda: td.jit(lambda a: a.sum())([1, 2]), AttributeError,
        r"list of numbers has no 'sum'.*np\.asarray"),
    "a list of numbers differentiated": (
        lambda: td.grad(lambda a: sum(a * 2))([1.0, 2.0]), td.TracingError, r"\* repeats a list"),
    "a loop that begins with an integer": (
        lambda: td.loop(3, lambda k, s: s + 0.5, 0), td.DTypeError,
        r"Start from a float: 0\.0 instead of 0; or convert the result: td\.cast\(x, td\.int64\)"),
    "a loop over arrays, too": (
        lambda: td.loop(3, lambda k, s: (s[0] + 0.5j, s[1]), (0.0, A)), td.DTypeError,
        "a complex number: 0j instead of 0.0; or convert the result: td.cast.x, td.float64"),
    "a dict instead of a tuple": (
        lambda: td.iterate(3, lambda s: {"a": s[0], "b": s[1]}, (A, A)), td.TracingError,
        r"returned a dict.*values without their names, \(x, y\) instead of"),
    "a tuple instead of a dict": (
        lambda: td.iterate(3, lambda s: (s["a"],), {"a": A}), td.TracingError,
        "must return a dict of 'a', but returned a tuple"),
    "bits of floats": (
        lambda: td.use(A) & 1, td.DTypeError, r"Integers have bits, x\.astype\(td\.int64\) & 1"),
    "text for an array": (
        lambda: td.jit(lambda a: a)("abc"), td.TracingError,
        r"Strings are not data \(as arguments they only select a program\): return Arrays"),
    "sorting in place": (
        lambda: td.use(A).sort(), AttributeError,
        r"write td\.sort\(a, …\), which returns a new array"),
    "dividing where that is possible": (
        lambda: np.divide(td.use(A), A, out=td.zeros_like(A), where=A != 0), td.TracingError,
        r"Write td\.where\(mask, td\.true_divide\(…\), other\), a new array"),
    "an argument too few": (
        lambda: td.jit(lambda a, b: a + b)(A), td.TracingError,
        r"missing a required argument: 'b'.*The arguments, in order: <lambda>\(a, b\)"),
    "an argument by name too few": (
        lambda: td.jit(lambda a, *, b: a + b)(A), td.TracingError,
        r"missing a required (keyword-only )?argument: 'b'.*<lambda>\(a\); by name: b=…"),
    "an argument by name that determines the program": (
        lambda: td.jit(lambda a, *, axis=0: td.sum(a, axis=axis))(A, axis=0), td.TracingError,
        "needs the value of axis, an argument of the compiled function.*into a closure"),
    "an argument twice": (
        lambda: td.jit(lambda a, b: a + b)(A, a=A), td.TracingError, "multiple values for .*'a'"),
    "zeros of a float": (
        of_the_run(lambda a, n: td.zeros((n,)), 2.0),
        td.DTypeError,
        "^zeros needs integer extents, got a float64",
    ),
    "too few elements of ones": (
        lambda: td.ones((-1,)), td.ShapeError, "^ones: the extent of axis 0 is -1"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_new_users(mistake):
    make, error, words = MISTAKES[mistake]
    with pytest.raises(error) as raised:
        make()
    assert re.search(words, " ".join(str(raised.value).split())), raised.value


def test_what_the_errors_say_works():
    taken = np.take(A, ROWS, axis=1)
    np.testing.assert_array_equal(td.run(td.take(A, ROWS, axis=1)), taken)
    np.testing.assert_array_equal(td.run(td.use(A)[(td.use(ROWS),)]), A[ROWS])
    by_row = td.jit(functools.partial(lambda a, axis: td.sum(a, axis=axis), axis=1))
    np.testing.assert_array_equal(by_row(A), A.sum(axis=1))
    np.testing.assert_array_equal(by_row(a=A), A.sum(axis=1))
    converted = td.jit(lambda a, to: td.cast(a, to))
    for to in (np.float32, td.float32, np.dtype("float32")):
        assert converted(A, to).dtype == np.float32


def test_what_other_libraries_have_and_treadle_has_not():
    names = "softmax relu logsumexp norm print conv2d rand uniform"
    for name in names.split():
        with pytest.raises(AttributeError) as raised:
            getattr(td, name)
        assert "Did you mean" not in str(raised.value) and ": " in str(raised.value), name


def test_fractions_that_a_permute_drops_are_told():
    def counted(defaults):
        send = td.jit(lambda v: td.permute(lambda x, y: x + y, defaults, lambda i: i % 3, v))
        return send.lower(np.full(5, 0.7)).explain()

    shown = "values are cast from float64 to int64: fractions are dropped"
    assert shown in counted(td.fill(3, 0)) and shown not in counted(td.fill(3, 0.0))


S = td.schedule


def scheduled(schedule):
    """A stencil of two neighbours under a schedule."""
    made = td.jit(lambda a: td.stencil(lambda w: w[0, 1] + w[1, 0], a, schedule=schedule))
    return made.lower(np.zeros((64, 96), np.float32))


def test_a_block_that_is_too_large_for_shared_memory_is_told_one_that_is_not():
    with pytest.raises(td.ScheduleError) as raised:
        scheduled(S.Block(128, 256) | S.Stage()).source("cuda")
    extents = re.search(r"for example Block\((\d+), (\d+)\)", str(raised.value))
    fits = S.Block(*map(int, extents.groups())) | S.Stage()
    assert "staged" in scheduled(fits).source("cuda")


def test_agents_that_do_not_fit_are_told_to_wait():
    shown = " ".join(scheduled(S.Block(8, 32) | S.Agents(100)).explain("cuda").split())
    assert "at most 8 blocks of so many threads fit on a multiprocessor at once" in shown
    assert "multiprocessor at once" not in scheduled(S.Block(8, 32) | S.Agents(8)).explain("cuda")


def test_a_schedule_that_stays_was_not_chosen():
    shown = scheduled(S.Block(8, 16) | S.Stage()).explain("native")
    assert "Block(8, 16) | Stage()\n" in shown and "was chosen" not in shown


def test_arguments_that_are_lists_or_pairs():
    a = np.ones((2, 2))
    for join in (td.concatenate, td.stack):
        for given in (3, None):
            with pytest.raises(td.TracingError, match="takes its arrays in a list"):
                join(given)
    for axes in ((1,), ((1,), (0,), (1,)), "ab"):
        with pytest.raises(td.TracingError, match="axes is a number or a pair"):
            td.tensordot(a, a, axes)
    np.testing.assert_array_equal(td.run(td.tensordot(a, a, ([1], [0]))), a @ a)


class Called:
    def __init__(self, q: int, *, r: int = 1) -> None:
        self.q, self.r = q, r

    def method(self, x: int, y: int = 2) -> None: ...

    def __call__(self, v: int) -> None: ...


def taking(a: int, /, b: int, *c: int, d: int = 1) -> None: ...


@functools.wraps(taking)
def wrapping(*args: Any, **named: Any) -> None: ...


@pytest.mark.parametrize(
    "f", [taking, wrapping, Called, Called(1), Called(1).method, functools.partial(wrapping, 1),
          functools.partial(taking, d=2), lambda i, **rest: i],
    ids=lambda f: getattr(f, "__name__", type(f).__name__),
)  # fmt: skip
def test_keywords(f: Any) -> None:
    """Those of the signature, however they are found."""
    found = inspect.signature(f).parameters.values()
    named = {p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in found)
    assert keywords(f) == (None if anything else named)
