"""Every example of the reference with one argument replaced by something odd gives a result, or an
error of treadle's: never one of Python's from inside of it."""

from __future__ import annotations

import ast
import inspect
import random
import traceback
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import treadle as td
from tests.docs import reference_page

ODD = [
    "None", "'a'", "''", "[1,2]", "-1", "99", "1.5", "object()", "td", "{}", "()", "(1,)",
    "(1,'a')", "10**30", "True", "b'x'", "td.float32", "...", "slice(None)", "1j", "set()",
    "range(3)", "int", "np.int64", "-99", "float('nan')", "float('inf')", "td.ones((3,4,5))",
    "td.ones(0)", "td.zip(td.ones(2),td.ones(2))", "NotImplemented", "[[1],[2,3]]",
    "np.array('x')", "np.float64(2)", "np.array(2)", "td.unit(1)", "td.clamp", "[]", "[None]",
    "{'a':1}", "np.zeros((0,3))", "np.ones((2,2),object)", "td.schedule.Row()", "2**63",
    "-2**63-1", "np.uint8(200)", "np.bool_(True)",
]  # fmt: skip
ODD += ["lambda: 0", "lambda *a: None", "lambda *a: 'x'", "lambda *a: a"]
#: What computes, where a number makes it endless, and what is not an operation.
OTHERS = [
    "run", "stream", "foreign", "foreign_array", "while_loop", "iterate", "loop", "load",
    "shard", "simulate", "Cache", "config", "Program", "error_bound", "finfo", "iinfo",
]  # fmt: skip
#: Of schedules, the arithmetic of orders works on anything that NumPy's does.
PARTS = ("td.schedule", "td.simulator")


def variants(example: str) -> Iterator[str]:
    """The text of an example with one argument replaced."""
    tree = ast.parse(example, mode="eval")
    for node in ast.walk(tree):
        function = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if not function.startswith("td.") or function.startswith(PARTS):
            continue
        if function.rpartition(".")[2] in OTHERS:
            continue
        assert isinstance(node, ast.Call)
        for holder, field in [(node.args, k) for k in range(len(node.args))] + [
            (keyword, "value") for keyword in node.keywords
        ]:
            for odd in ODD:
                new = ast.parse(odd, mode="eval").body
                if isinstance(holder, list):
                    old, holder[field] = holder[field], new
                else:
                    old, holder.value = holder.value, new
                yield ast.unparse(ast.fix_missing_locations(tree))
                if isinstance(holder, list):
                    holder[field] = old
                else:
                    holder.value = old


def try_all(share: float) -> None:
    names = reference_page.preamble()
    names["np"], names["td"] = np, td
    rng, wrong = random.Random(5), []
    for row in reference_page.rows():
        if any(s in row.example for s in ("with ", "isinstance", "issubclass")):
            continue
        for text in variants(row.example):
            if rng.random() > share:
                continue
            try:
                eval(compile(text, "odd.py", "eval"), names)
            except td.TreadleError as error:
                if "odd.py" not in str(error) and error.where is not None:
                    wrong.append(f"{text}: not at the line: {error}")
            except Exception as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                if at.filename not in ("odd.py", __file__) and not isinstance(
                    error, AttributeError | np.ma.MaskError
                ):
                    wrong.append(f"{text}: {error!r} at {at.filename}:{at.lineno}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_some() -> None:
    try_all(0.02)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_many() -> None:
    try_all(0.5)


@pytest.mark.parametrize("n", [10**7, 2**63])
def test_no_number_is_unrolled_for_ever(n: int) -> None:
    x = np.arange(3.0)
    for endless in (
        lambda: td.polyint(x, n),
        lambda: td.array_split(x, n),
        lambda: td.unstack(td.zeros((min(n, 2**62), 0))),
        lambda: td.choose(np.array([0]), td.zeros(min(n, 2**62))),
        lambda: td.map(lambda i: td.random.split(td.random.key(0), n)[0][0], x),
    ):
        with pytest.raises(td.ShapeError, match="one after the other"):
            endless()
    for nothing in (td.diff, td.polyder):
        assert td.run(nothing(x, n)).shape == td.jit(lambda x, f=nothing: f(x, n))(x).shape == (0,)


@pytest.mark.sample(1)
@pytest.mark.parametrize("f", ["tril_indices", "triu_indices"])
def test_indices_of_huge_triangles_cost_nothing(f: str) -> None:
    rows, columns = getattr(td, f)(2**31, 2**31 - 3)
    assert rows.shape == columns.shape == (2**62 - 3 if f == "tril_indices" else 6,)
    with pytest.raises(td.DTypeError, match="does not fit in 64 bits"):
        getattr(td, f)(2**62)
    for n, k, m in [(0, 0, 3), (5, -2, 3), (3, 1, 7), (4, -9, 4), (4, 9, 4), (3, -1, None)]:
        for mine, numpys in zip(getattr(td, f)(n, k, m), getattr(np, f)(n, k, m), strict=True):
            np.testing.assert_array_equal(td.run(mine), numpys)


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    """All public functions, and the methods of arrays, by name."""
    for home in (td, td.linalg, td.fft, td.random, td.Array):
        for name in dir(home):
            found = getattr(home, name)
            if not name.startswith("_") and inspect.isfunction(found):
                yield f"{home.__name__}.{name}", found


def parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def test_what_is_true_or_false_is_nothing_else() -> None:
    """A parameter that is True or False takes no other value for its truth."""
    seen = []
    for name, function in public():
        receiver = [td.iota(3)] if name.startswith("Array.") else []
        for word, parameter in parameters(function).items():
            if parameter.annotation in ("bool", "bool | None"):
                seen.append(f"{name} {word}")
                for value in (1, "no", iter([1]), td.any(np.array([True])), np.array([True])):
                    with pytest.raises(td.TracingError, match=f"{word}(= | is True or False)"):
                        function(*receiver, **{word: value})
    assert len(seen) > 90, seen


def test_methods_take_what_their_functions_take() -> None:
    """Methods of arrays have the keywords of the functions of the same name, but for `copy`, and
    for names that are NumPy's."""
    for name, function in public():
        method = getattr(td.Array, name.removeprefix("treadle."), None)
        if not inspect.isfunction(method):
            continue
        wanted = {k for k, p in parameters(function).items() if p.kind is p.KEYWORD_ONLY}
        missing = wanted - set(parameters(method)) - {"copy", "device", "name", "schedule"}
        assert not missing, f"{name}: {missing}"


def test_methods_that_reduce_take_types_and_corrections() -> None:
    a = np.arange(6, dtype=np.int32)
    assert td.run(td.use(a).sum(dtype=td.float32)).dtype == np.float32
    assert td.run(td.use(a).prod(0, True, dtype=td.int8)).dtype == np.int8
    assert td.run(td.use(a).var(correction=1)) == a.var(ddof=1)
    assert td.run(td.use(a).std(correction=1)) == a.std(ddof=1)
    assert td.run(td.use(a).argsort(descending=True)).tolist() == [5, 4, 3, 2, 1, 0]


def test_what_has_no_meaning_is_refused() -> None:
    v = np.array([3, 1, 2])
    for f in (td.degrees, td.rad2deg, td.radians, td.deg2rad):
        with pytest.raises(td.DTypeError, match="is not defined for complex128"):
            f(1j)
    with pytest.raises(td.DTypeError, match="beta is a real number"):
        td.kaiser(3, 1j)
    with pytest.raises(td.DTypeError, match="None is no type"):
        td.isdtype(None, "integral")
    with pytest.raises(td.ShapeError, match="period is one number"):
        td.unwrap(v * 1.0, period=v)
    with pytest.raises(td.ShapeError, match="discont is one number"):
        td.unwrap(v * 1.0, td.use(v))  # type: ignore[arg-type]
    with pytest.raises(td.ShapeError, match="obj is a number, a slice or of rank 1"):
        td.insert(v, [[1], [2]], 9)
    for join in (td.concatenate, td.stack, td.hstack, td.vstack, td.dstack, td.column_stack):
        for unordered in ({1}, {1: 2}):
            with pytest.raises(td.TracingError, match="takes its arrays in a list"):
                join(unordered)


def test_averages_of_what_overflows_are_those_of_numpy() -> None:
    big = np.finfo(float).max
    a, w = np.array([[big, 1.0], [1.0, 2.0]]), np.array([[4.0, 1.0], [0.5, 1.0]])
    with np.errstate(over="ignore"):
        wanted = np.average(a, axis=1, weights=w)
    np.testing.assert_allclose(td.run(td.average(a, axis=1, weights=w)), wanted)
    np.testing.assert_allclose(td.run(td.i0(np.array([True, False]))), np.i0([1.0, 0.0]))
    np.testing.assert_allclose(td.run(td.i0(np.array([-(2**63), -3]))), np.i0([-(2.0**63), -3.0]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint64"])
def test_parts_of_integers_have_the_floats_of_numpy(name: str) -> None:
    x = np.array([1, 0, 3]).astype(name)
    for f in ("spacing", "modf", "frexp"):
        mine, numpys = td.run(getattr(td, f)(x)), getattr(np, f)(x)
        for a, b in zip(mine, numpys, strict=True):
            assert a.dtype == b.dtype, f
            np.testing.assert_array_equal(a, b)
    scaled = td.run(td.ldexp(x, np.int64([1, 2, 3])))
    assert scaled.dtype == np.ldexp(x, np.int64([1, 2, 3])).dtype
