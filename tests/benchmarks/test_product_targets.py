"""The benchmark of products with targets: every row that a CPU can compute, small, is right; wrong
results and slow machines are said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.matmul import targets
from benchmarks.matmul.targets import ITEMS, Goal, Item


class Host:
    """A machine without a library beside NumPy."""

    backend = "native"

    def make(self, shape: tuple[int, ...], kind: str) -> Any:
        rng = np.random.default_rng(shape[-1])
        if kind == "int32":
            return rng.integers(-(2**31), 2**31, shape, np.int32)
        return rng.standard_normal(shape).astype(kind)

    def definite(self, a: Any) -> Any:
        return a @ a.swapaxes(1, 2) + np.eye(a.shape[-1], dtype=a.dtype)

    def given(self, x: Any) -> Any:
        return x

    def whole(self, found: Any) -> Any:
        return found

    def host(self, x: Any) -> Any:
        return np.asarray(x).astype(np.float32) if x.dtype == np.float16 else np.asarray(x)

    def copy(self, size: int) -> Callable[[], Any]:
        source = np.zeros(size // 2, np.uint8)
        return source.copy

    def library(self, work: str, a: Any, b: Any, bias: Any) -> Callable[[], Any]:
        return lambda: a if b is None else a @ b

    def residues(self, n: int) -> Callable[[], Any]:
        return lambda: None

    def seconds(self, run: Callable[[], Any], calls: int) -> float:
        run()
        return 1e-3

    def free(self) -> None:
        pass


def _small(item: Item) -> Item:
    return replace(item, sizes=tuple(min(s, 19) for s in item.sizes), count=min(item.count, 70))


@pytest.mark.sample(6)
@pytest.mark.parametrize("item", [i for i in ITEMS if "portable" not in i.work
                                  and i.type != "bfloat16"], ids=str)  # fmt: skip
def test_every_row_is_measured(item: Item, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "ROUNDS", 1)
    monkeypatch.setattr(targets, "SECONDS", 1e-3)
    (row,) = targets.measured(Host(), [_small(item)], 60.0)
    assert "failure" not in row, row
    assert len(row["reached"]) == len(item.goals) and None not in row["reached"]
    assert item.work in targets.table([row])


def test_wrong_results_are_no_results() -> None:
    class Wrong(Host):
        def whole(self, found: Any) -> Any:
            return found + np.float32(0.1)

    item = Item("product", "float32", (8, 8, 8), 70, (Goal("copy", 0.5),))
    (row,) = targets.measured(Wrong(), [item], 60.0)
    assert "wrong" in row["failure"] and not targets.met(row)
    assert "missed" in targets.table([row]) and "wrong" in targets.table([row])


def test_what_does_not_fit_into_the_time_is_named() -> None:
    (row,) = targets.measured(Host(), ITEMS[:1], -1.0)
    assert "not measured" in row["failure"] and not targets.met(row)
