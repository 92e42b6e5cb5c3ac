"""Which instances of a sweep `make test` runs.

`@pytest.mark.sample(n)` (or `pytestmark` of a module) lets n instances of a parametrised test run
in `make test`, n on each backend where the test has a parameter of that name. The others are
marked `long`: `make test` deselects and counts them, `make test-long` runs them.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest


def sample(ids: Iterable[str], count: int) -> list[str]:
    """`count` of some different ids: always the same, in whatever order they come."""
    return sorted(ids, key=lambda i: (zlib.crc32(i.encode()), i))[:count]


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The instances of sampled tests that are not among those that `make test` runs.

    Instances that are long anyway, or are always skipped, take no place of another's."""
    groups: dict[tuple[str, object, int], dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark and not item.get_closest_marker("long") and not _skipped(item):
            test = item.nodeid.partition("[")[0]
            groups[test, _backend(item), mark.args[0]][item.nodeid] = item
    out = []
    for (_, _, count), group in groups.items():
        kept = set(sample(group, count))
        out += [item for name, item in group.items() if name not in kept]
    return out


def _backend(item: pytest.Item) -> object:
    spec = getattr(item, "callspec", None)
    return spec.params.get("backend") if spec else None


def _skipped(item: pytest.Item) -> bool:
    marks = item.iter_markers("skipif")
    return bool(item.get_closest_marker("skip")) or any(True in mark.args for mark in marks)
