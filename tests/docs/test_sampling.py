"""How `make test` chooses among the instances of a sweep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.sampling import left_out, sample


def test_the_same_in_any_order():
    ids = [f"test_one[{i}]" for i in range(100)]
    chosen = sample(ids, 7)
    assert len(set(chosen)) == 7
    assert chosen == sample(reversed(ids), 7)
    assert set(chosen) <= set(sample(ids, 8))
    assert sample(ids[:3], 7) == sample(ids[2::-1], 7) and len(sample(ids[:3], 7)) == 3


def item(nodeid: str, backend: str | None = None, *marks: pytest.MarkDecorator) -> pytest.Item:
    found = {mark.name: mark.mark for mark in marks}
    return cast(pytest.Item, SimpleNamespace(
        nodeid=nodeid,
        callspec=SimpleNamespace(params={"backend": backend} if backend else {}),
        get_closest_marker=found.get,
        iter_markers=lambda name: [found[name]] if name in found else [],
    ))  # fmt: skip


def test_each_test_and_backend_keeps_some():
    two = pytest.mark.sample(2)
    items = [item(f"{t}[{b}-{i}]", b, two) for t in "st" for b in ("native", "cuda")
             for i in range(5)]  # fmt: skip
    items += [item("plain"), *(item(f"unmarked[{i}]") for i in range(9))]
    out = {i.nodeid for i in left_out(items)}
    for test in "st":
        for backend in ("native", "cuda"):
            assert sum(i.startswith(f"{test}[{backend}") for i in out) == 3
    assert len(out) == 4 * 3
    assert out == {i.nodeid for i in left_out(items[::-1])}


def test_an_instance_named_alone_runs():
    assert not left_out([item("t[3]", None, pytest.mark.sample(1))])


@pytest.mark.parametrize("mark", [pytest.mark.long, pytest.mark.skip, pytest.mark.skipif(True)])
def test_what_does_not_run_takes_no_place(mark):
    one = pytest.mark.sample(1)
    idle = [item(f"t[{i}]", None, one, mark) for i in range(8)]
    assert not left_out([*idle, item("t[8]", None, one)])
