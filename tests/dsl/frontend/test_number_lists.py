"""Lists of numbers among arguments: lists in every respect but arithmetic."""

import numpy as np
import pytest

import treadle as td

A = np.arange(3.0)


def ran(f, *args):
    return td.jit(f, backend="reference")(*args)


def test_lists_stay_lists():
    assert ran(lambda x: x, [1, 2.5]) == [1, 2.5]
    assert ran(lambda x: [*x, *x], [1, 2]) == [1, 2, 1, 2]
    more = [3]
    assert ran(lambda x: x + more, [1, 2]) == [1, 2, 3]
    assert ran(lambda x: more + x, [1, 2]) == [3, 1, 2]
    assert ran(lambda x: sum(x) + x[-1] * len(x), [1, 2]) == 7
    assert ran(lambda x: td.zeros(x).shape, [2, 3]) == (2, 3)
    assert ran(lambda x: [v * 2 for v in x], [1, 5]) == [2, 10]
    assert np.array_equal(ran(lambda x: td.array(x) * 2, [[1, 2], [3, 4]]), [[2, 4], [6, 8]])


def test_lists_of_arrays_are_as_before():
    assert [a.tolist() for a in ran(lambda x: x * 2, [A, A + 1])] == [[0, 1, 2], [1, 2, 3]] * 2
    assert len(ran(lambda x: x + x, [A, 1.0])) == 4
    assert ran(lambda x: x * 2, []) == []


OPERATORS = ["x * 2", "2 * x", "x + x", "x + 1", "1 + x", "x - 1", "x / 2", "2 / x", "x // 2",
             "x % 2", "x ** 2", "2 ** x", "x @ x", "x @ td.use(A)", "-x", "+x", "~x", "abs(x)",
             "x & 1", "x | 1", "x ^ 1", "x << 1", "x >> 1", "x < 1", "x <= 1", "x > 1", "x >= 1",
             "x == 1", "x != 1", "x * A", "x * td.use(A)", "x * np.float64(2)"]  # fmt: skip


@pytest.mark.parametrize("written", OPERATORS)
@pytest.mark.parametrize("values", [[1, 2, 3], [1.0, True], [np.float32(1)], [[1], [2]]])
def test_operators_are_errors(written, values):
    function = eval(f"lambda x: {written}", {"td": td, "np": np, "A": A})
    with pytest.raises(td.TracingError, match="list of numbers is not an array"):
        ran(function, values)


def test_in_place_operators_are_errors():
    def doubled(x):
        x *= 2
        return x

    with pytest.raises(td.TracingError, match=r"\* repeats a list"):
        ran(doubled, [1, 2])
