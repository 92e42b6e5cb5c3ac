"""Gathers as tasks: the requests of each block to each chunk, the answers, and the resulting
blocks.

One task per block of positions sorts them by the chunks that hold them, one per block and chunk
takes the elements, and one assembles the answers.  Each element moves once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import product
from typing import Any

from ..blocks.domain import Chunks
from ..blocks.stages import Gathered
from .worker import answer_of, gathered, request_of, requests_of


def tasks_of(part: Gathered, chunks: Mapping[Any, Chunks], source: Any, positions: Any, words: str,
             apart: bool) -> tuple[str, dict[Any, Any]]:  # fmt: skip
    """The name of the array, and the tasks that compute it.

    `source`, `positions`: dask arrays; `apart`: tasks run in other processes, so that requests to
    each chunk are sent separately.
    """
    whole = repr((source.name, source.chunks, positions.name, positions.chunks, part.axes))
    token = hashlib.sha256(whole.encode()).hexdigest()[:32]
    name, asked, one, answered = (
        "-".join((words, *what, token)) for what in ((), ("requests",), ("request",), ("answer",))
    )
    others, dtype = part.others(), part.source.type.numpy
    sizes = [chunks[part.source][a] for a in part.axes]
    extents = tuple(map(sum, sizes))
    grid = list(product(*(range(len(chunks[part.source][a])) for a in part.axes)))
    found, axes = chunks[part.leaves[0]], (*part.axes, *others)
    rank = len(positions.chunks)
    graph: dict[Any, Any] = {}
    for block in product(*(range(len(n)) for n in found[:rank])):
        requests = (asked, *block)
        graph[requests] = (requests_of, (positions.name, *block), extents, sizes)
        requested: list[Any] = [(request_of, requests, k) for k in range(len(grid))]
        if apart:
            graph.update(((one, *block, k), task) for k, task in enumerate(requested))
            requested = [(one, *block, k) for k in range(len(grid))]
        for beside in product(*(range(len(n)) for n in found[rank:])):
            along = dict(zip(others, beside, strict=True))
            keys = []
            for k, at in enumerate(grid):
                along.update(zip(part.axes, at, strict=True))
                chunk = (source.name, *(along[a] for a in range(len(along))))
                keys.append((answered, *block, *beside, k))
                graph[keys[-1]] = (answer_of, requested[k], chunk, axes, dtype)
            at = (*block, *beside)
            shape = tuple(n[i] for n, i in zip(found, at, strict=True))
            graph[(name, *at)] = (gathered, requests, keys, shape, dtype)
    return name, graph
