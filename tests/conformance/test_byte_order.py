"""Arrays of NumPy in the other byte order: values, types and bytes are as of any other array."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import treadle as td

SWAPPED = np.arange(5).astype(np.dtype("f8").newbyteorder("S"))


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.asarray(a),
        lambda a: np.asarray(a[:]),
        lambda a: np.frombuffer(a.tobytes()),
        lambda a: np.from_dlpack(a),
        lambda a: np.asarray(pickle.loads(pickle.dumps(a))),
        lambda a: np.array([float(x) for x in a]),
        lambda a: np.array(a.tolist()),
        lambda a: td.run(a),
        lambda a: td.run(a[:] + 0),
    ],
)
def test_given_arrays_in_the_other_byte_order(f):
    made = f(td.use(SWAPPED))
    assert made.dtype.isnative
    assert np.array_equal(made, np.arange(5.0))
    assert td.use(SWAPPED).__array_interface__["typestr"] == np.dtype("f8").str


def test_arguments_in_the_other_byte_order(backend):
    for f in (lambda a: a, lambda a: a[:], lambda a: a * 1):
        made = td.jit(f, backend=backend)(SWAPPED)
        assert made.dtype.isnative
        assert np.array_equal(made, np.arange(5.0))
