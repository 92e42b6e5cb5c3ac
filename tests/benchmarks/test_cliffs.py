"""Programs of `benchmarks.cliffs`: every form gives what its peers give, at small extents."""

import numpy as np
import pytest

from benchmarks.cliffs import CLIFFS


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CLIFFS)
def test_every_form_is_right(name: str) -> None:
    case = CLIFFS[name](16).case()
    exact = case.exact()
    for label, run in {**case.ours, **case.peers}.items():
        found = run()
        if not isinstance(exact, tuple):
            found, want = (found,), (exact,)
        else:
            want = exact
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-4, err_msg=label)
