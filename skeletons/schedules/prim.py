"""Prim's walk over a weighted graph, compiled: a heap of edges with lazy deletion."""

from __future__ import annotations

import heapq
from typing import Any

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
def walk(starts: Any, neighbours: Any, weights: Any) -> Any:
    """The order in which Prim's algorithm grows a maximum spanning forest; of edges with equal
    weights, the one to the lowest block comes first.

    `starts`, `neighbours`, `weights`: the graph in compressed rows (`BlockGraph`).

    >>> walk(np.array([0, 1, 1, 2]), np.array([2, 0]), np.array([5, 5])).tolist()
    [0, 2, 1]
    """
    count = starts.size - 1
    order = np.empty(count, np.int64)
    reached = np.zeros(count, np.bool_)
    heap = [(np.int64(0), np.int64(0))]
    heap.pop()
    done, least = 0, 0
    while done < count:
        block = np.int64(-1)
        while len(heap) > 0:
            _, b = heapq.heappop(heap)
            if not reached[b]:
                block = b
                break
        if block < 0:
            while reached[least]:
                least += 1
            block = np.int64(least)
        reached[block] = True
        order[done] = block
        done += 1
        for k in range(starts[block], starts[block + 1]):
            if not reached[neighbours[k]]:
                heapq.heappush(heap, (-weights[k], neighbours[k]))
    return order
