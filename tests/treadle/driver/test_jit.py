"""Compiled functions as objects of Python's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import treadle as td


@td.jit
def decorated(x):
    return x * 2


def plain(x):
    return x + 1


class Holder:
    @td.jit
    def method(x):
        return x * 3


@pytest.mark.parametrize("f", [decorated, Holder.method])
def test_decorated_functions_are_pickled_by_name(f):
    f(np.ones(2))
    assert pickle.loads(pickle.dumps(f)) is f
    assert copy.deepcopy(f) is f


def test_other_compiled_functions_are_compiled_anew():
    f = td.jit(plain, backend="reference")
    f(np.ones(2))
    g = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(g(np.ones(2)), [2, 2])
    assert g.lower(np.ones(2)).backend == "reference"
    with pytest.raises(Exception, match="<lambda>"):
        pickle.dumps(td.jit(lambda x: x))
