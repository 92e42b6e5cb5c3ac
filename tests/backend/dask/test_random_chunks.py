"""Random programs on random chunks: a few at every run, many in `make test-long`."""

from __future__ import annotations

import numpy as np
import pytest

from .random_chunks import SCHEDULERS, campaign, processes


def test_random_programs_on_random_chunks() -> None:
    kinds, failures = campaign(2, range(4), ("synchronous", "threads"), 120)
    assert not failures, "\n\n".join(failures)
    assert kinds["right"] > 0


@pytest.mark.long
def test_many_random_programs_on_random_chunks() -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    with processes() as client:
        kinds, failures = campaign(seed, range(10**6), (*SCHEDULERS[:2], client), 600)
    assert not failures, "\n\n".join(failures)
    assert kinds["right"] > 0
