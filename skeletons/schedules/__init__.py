"""Schedules: the order, the blocks and the processors in which an operation computes its elements.

A schedule is a value made of layers, composed with ``|``. It never changes what is computed.

>>> from treadle.skeletons.schedules import Block, Column, PerThread
>>> Column(256, grain="block") | Block(8, 32) | PerThread(rows=8)
Column(256, grain="block") | Block(8, 32) | PerThread(rows=8)
"""

from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .arithmetic import ceil_div, ceil_log2, clz, lookup, maximum, minimum, where
from .examine import check, draw, evaluate, inverse_table, padding
from .layers import (
    Agents,
    Auto,
    Block,
    Clusters,
    Grid,
    Hints,
    Lanes,
    Layer,
    LocalityGraph,
    PerThread,
    Residency,
    Stage,
    Tuned,
)
from .orders import Column, Hilbert, Morton, Order, PlaneOrder, Row, Swizzle, Tile, ZigZag
from .resolved import Resolved
from .schedule import Schedule, ScheduleLike, as_schedule
from .serial import from_dict, to_dict
from .table import Table

__all__ = ["Agents", "Auto", "Block", "Clusters", "Column", "Grid", "Hilbert", "Hints", "Lanes",
           "Layer", "LocalityGraph", "Morton", "Order", "PerThread", "PlaneOrder", "Residency",
           "Resolved", "Row", "Schedule", "ScheduleError", "ScheduleLike", "ScheduleTypeError",
           "Stage", "Swizzle", "Table", "Tile", "Tuned", "ZigZag", "as_schedule", "ceil_div",
           "ceil_log2", "check", "clz", "draw", "evaluate", "from_dict", "inverse_table", "lookup",
           "maximum", "minimum", "padding", "to_dict", "where"]  # fmt: skip
