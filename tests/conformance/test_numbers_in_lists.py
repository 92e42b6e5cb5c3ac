"""Numbers in lists, ranges and tuples are arrays wherever an array is taken, as NumPy's."""

import inspect
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td

SPACES = {"": td, "linalg.": td.linalg, "fft.": td.fft}
#: What a plain tuple is for these: an element of several parts.
OF_TUPLES = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "where",
             "cond", "use")  # fmt: skip
_ARRAYS = ("ArrayLike", "Operand")


def _functions():
    """The public functions that take arrays, and how many of their arguments are such."""
    for prefix, space in SPACES.items():
        for name in space.__all__:
            function = getattr(space, name)
            if not inspect.isfunction(function) or name in OF_TUPLES:
                continue
            taken = [p.annotation in _ARRAYS
                     for p in inspect.signature(function).parameters.values()
                     if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]  # fmt: skip
            if taken and taken[0]:
                yield prefix + name, function, taken


def _outcome(function, taken, given):
    """What a function returns, or the text of its error, for `given` as each of its arrays."""
    try:
        return function(*(given if array else 1 for array in taken))
    except td.TreadleError as error:
        return str(error).partition("\n")[0]


def _numbers(value):
    if isinstance(value, tuple | list):
        return [part for v in value for part in _numbers(v)]
    if isinstance(value, td.Array) and not value.structure.is_leaf:
        return _numbers(td.unzip(value))
    return [np.asarray(value) if isinstance(value, td.Array) else value]


@pytest.mark.sample(1)
@pytest.mark.parametrize("rows", [[1.0, 2.0], [[1.0, 2.0], [0.0, 4.0]], [3, 1]], ids=str)
def test_every_function_takes_them(rows):
    """The result, or the error, for numbers in lists and tuples is that for NumPy's array."""
    with td.config(backend="reference"):  # which compiles nothing
        compared = sum(_compare(rows, *of) for of in _functions())
    assert compared > 150


def _compare(rows, name, function, taken):
    wanted = _outcome(function, taken, np.array(rows))
    for given in rows, tuple(tuple(r) if isinstance(r, list) else r for r in rows):
        got = _outcome(function, taken, given)
        if isinstance(wanted, str):
            assert got == wanted, name
            continue
        for mine, theirs in zip(_numbers(got), _numbers(wanted), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
    return not isinstance(wanted, str)


def test_operators():
    a = td.iota(2)
    for made, want in [
        (a | [3, 0], [3, 1]), (a - (3, 0), [-3, 1]), ([3, 0] - a, [3, -1]), (a * [2, 5], [0, 5]),
        ((2, 5) * a, [0, 5]), (a ** [2, 2], [0, 1]), (a + range(2), [0, 2]), (a | [[2], [4]],
        [[2, 3], [4, 5]]), (a == [0, 2], [True, False]), (a == (0, 2), [True, False]),
        (a < (1, 1), [True, False]), (a != [0, 2], [False, True]), (a @ [1, 4], 4),
        (td.less([1, 2], (2, 2)), [True, False]), (a & [1, 1],
        [0, 1]),
    ]:  # fmt: skip
        np.testing.assert_array_equal(np.asarray(made), want)
    scaled = td.jit(lambda x, k: x * [1.0, 2.0] + (k - [1.0, 2.0]))
    np.testing.assert_array_equal(scaled(np.ones(2), 3.0), [3, 3])


def test_choices_and_conditions():
    mask = [True, False]
    for made, want in [
        (td.where(mask, [1, 2], 0), [1, 0]), (td.where((True, False), 5, [1, 2]), [5, 2]),
        (td.where(np.array(mask), 1.5, range(2)), [1.5, 1]), (td.clip([1, 5], (2, 2), [3, 3]),
        [2, 3]), (td.choose((1, 0), ((1, 2), (3, 4))), [3, 2]), (td.select([mask], [[1, 2]], 9),
        [1, 9]), (td.isin([1, 2], (2, 3)), [False, True]),
    ]:  # fmt: skip
        np.testing.assert_array_equal(np.asarray(made), want)


def test_indices_and_updates():
    a = td.iota(4) * 10
    for made, want in [
        (a[range(1, 3)], [10, 20]), (a[range(0)], []), (a[[True, False, False, True]], [0, 30]),
        (td.take(a, (0, 2)), [0, 20]), (td.take(a, ()), []), (td.update(a, range(2), (7, 8)),
        [7, 8, 20, 30]), (a.at[[0, 0]].add((1, 2)), [3, 10, 20, 30]),
        (td.update(a, a > 10, (1, 2)), [0, 10, 1, 2]),
    ]:  # fmt: skip
        np.testing.assert_array_equal(np.asarray(made), want)
    with pytest.raises(td.IndexOutOfBounds, match="index 4"):
        a[range(2, 5)]


def test_a_tuple_within_an_index_is_an_array():
    m = np.arange(12).reshape(3, 4)
    for index in ((0, 1),), ((0, 1), (2, 3)), (slice(None), (0, 2)), ((),), (((0, 1), (1, 2)),):
        np.testing.assert_array_equal(np.asarray(td.use(m)[index]), m[index])
        want = m.copy()
        want[index] = 7
        np.testing.assert_array_equal(np.asarray(td.update(m, index, 7)), want)


def test_repeating_by_a_number_that_is_an_array():
    """NumPy's integers repeat a list, its arrays multiply it: which is meant, is said."""
    n = td.sum(td.iota(3))
    for product in (lambda: [0] * n, lambda: n * [0], lambda: "ab" * n, lambda: (1,) * n):
        with pytest.raises(td.TracingError, match=r"\[0\] \* int\(n\) to repeat"):
            product()
    assert (td.unit(2.5) * [2, 4]).tolist() == [5, 10]


def test_tuples_that_are_elements_stay_elements():
    p = np.array([True, False])
    first, second = td.where(p, (1, 2), (3, 4))
    assert first.tolist() == [1, 3] and second.tolist() == [2, 4]
    assert bool(td.run(td.equal((1, 2), (1, 2)))) and bool(td.run(td.less((1, 9), (2, 0))))
    assert len(td.unzip(td.use((1, 2)))) == 2
    assert (td.zip(np.arange(2), np.arange(2)) == (1, 1)).tolist() == [False, True]
    changed = td.update(td.zip(np.arange(2), np.arange(2)), 0, (7, 8))
    assert [x.tolist() for x in td.unzip(changed)] == [[7, 1], [8, 1]]
    assert td.run((1, 2)) == (1, 2)
    with pytest.raises(td.TracingError, match=r"\(a, b\) against one value") as raised:
        td.where(p, (1, 2), 0)
    assert "[1, 2] and np.array((1, 2)) are arrays" in " ".join(str(raised.value).split())


class Point(NamedTuple):
    x: object
    y: object


@pytest.mark.parametrize(("given", "said"), [
    (lambda: td.sum((np.arange(2), np.arange(2))), "sum needs an array, got a tuple of 2 arrays."),
    (lambda: td.sum([td.iota(2), td.iota(2)]), "a list of treadle's arrays is not an array."),
    (lambda: td.sum(x for x in [1, 2]), "sum needs an array, got generator."),
    (lambda: td.sqrt(x for x in [1, 2]), "sqrt cannot use a value of type generator."),
    (lambda: td.sqrt({1, 2}), "sqrt cannot use a value of type set."),
    (lambda: td.sqrt(Point(1, 2)), "sqrt cannot use a value of type Point."),
    (lambda: td.sqrt([1, [2]]), "lists of different lengths do not make an array."),
    (lambda: td.iota(2) - ["a", "b"], "arrays of dtype <U1 are not supported."),
    (lambda: td.jit(lambda x: td.sqrt([x, 4]))(1.0),
     "a list with a run-time number is not an array."),
    (lambda: td.jit(lambda x: td.sum((x, 4)))(1.0),
     "a list with a run-time number is not an array."),
    (lambda: td.jit(lambda x: td.sqrt(x))((1, 4)),
     "x[0] is a number by itself: a list of numbers (or a tuple) given to a compiled function is "
     "as many arguments."),
])  # fmt: skip
def test_what_is_no_array_says_so(given, said):
    with pytest.raises(td.TreadleError) as raised:
        given()
    assert str(raised.value).partition("\n")[0] == said


def test_inside_a_kernel_they_are_arrays():
    with pytest.raises(td.NestedParallelismError, match="'sqrt' was started inside"):
        td.map(lambda x: td.sqrt([4, 1]), td.iota(2))
