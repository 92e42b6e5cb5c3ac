"""What Python does while a function is traced: it draws random numbers, which are constants, and
unrolls loops; warnings say so."""

from __future__ import annotations

import linecache
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

own, another = np.random.default_rng(0), random.Random(3)
x = np.ones(3)


def by_another() -> float:
    return random.gauss(0, 1)


def draws(*_: Any) -> Any:
    total = x * 2
    return td.use(total) + random.random()  # this line


DRAWING: list[Callable[[Any], Any]] = [
    draws,
    lambda a: a + np.random.rand(),
    lambda a: a + own.normal(),
    lambda a: td.loop(5, lambda i, s: s + random.gauss(0, 1), 0.0) + a,
    lambda a, g=another: a + g.random(),
    lambda a: a + np.random.normal(size=3),
]
CONSTANT: list[Callable[[Any], Any]] = [
    lambda a: a + np.random.default_rng(0).normal(),
    lambda a: (np.random.seed(0), a + np.random.rand())[1],
    lambda a: a + td.random.normal(td.random.key(0), 3),
    lambda a: td.sum(a),
]


@pytest.mark.parametrize("f", DRAWING)
def test_a_warning(f: Callable[[Any], Any]) -> None:
    g = td.jit(f)
    with pytest.warns(UserWarning, match=r"constants of its program.*td\.random\.key") as found:
        first = g(x)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(g(x), first)  # once, and the same in every call


def test_the_line() -> None:
    with pytest.warns(UserWarning) as found:
        td.jit(draws)(x)
    with open(__file__, encoding="utf-8") as file:
        assert "# this line" in file.read().splitlines()[found[0].lineno - 1]


@pytest.mark.parametrize("f", CONSTANT)
def test_no_warning(f: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        td.jit(f)(x)


def test_a_function_of_others_that_draws() -> None:
    with pytest.warns(UserWarning, match="were drawn while 'random_walk'"):

        def random_walk(a: Any) -> Any:
            return a + by_another() + (random is not None)

        td.jit(random_walk)(x)


def test_a_long_loop_of_pythons_is_unrolled_with_a_warning():
    def smoothed(u, n):
        for _ in range(n):
            u = td.roll(u, 1) / 2 + u / 3 + td.roll(u, -1) / 6
        return u

    u = np.arange(8.0)
    with pytest.warns(UserWarning, match=r"(?s)has 1\d\d kernels.*td\.iterate") as found:
        td.jit(lambda u: smoothed(u, 130)).lower(u)
    assert found[0].filename == __file__
    assert "td.roll(u, 1)" in linecache.getline(__file__, found[0].lineno)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        td.jit(lambda u: smoothed(u, 30)).lower(u)
        td.jit(lambda u: sum(td.sin(u) * k for k in range(300))).lower(u)  # one kernel
        td.jit(lambda u: td.iterate(300, lambda u: smoothed(u, 1), u)).lower(u)


@pytest.mark.parametrize(
    "body", ["np.random.rand()", "drawn_by_another()", "0.0 * bool(np.random)"]
)
def test_numpys_generators_are_loaded_by_who_draws(body: str) -> None:
    """A process that draws nothing does not load them, nor what tells the versions of packages."""
    text = (
        "import sys, warnings, numpy as np, treadle as td\n"
        "f = td.jit(lambda a: td.sum(a * 2), backend='native')\n"
        "assert f(np.arange(3.0)) == 6 and float(td.sum(td.use(np.arange(4)))) == 6\n"
        "assert not {'numpy.random', 'importlib.metadata', 'socket'} & set(sys.modules)\n"
        "def drawn_by_another(): return np.random.rand()\n"
        "with warnings.catch_warnings(record=True) as found:\n"
        "    warnings.simplefilter('always')\n"
        f"    td.jit(lambda a: a + {body}, backend='native')(np.arange(3.0))\n"
        "print(len(found))\n"
    )
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False,
                          env={**os.environ, "TREADLE_BACKEND": "native"})  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) == ("bool" not in body)
