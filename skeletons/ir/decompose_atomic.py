"""Which atomic updates are one operation of the machine."""

from __future__ import annotations

from treadle.dsl.expr import Apply
from treadle.dsl.simplify import LOGICAL_ON_BOOL
from treadle.dsl.target import Target

from .kernel import Atomic

#: Logical operations as those on bits, and others on integers by their first names.
_AS = {"logical_and": "bitwise_and", "logical_or": "bitwise_or", "logical_xor": "bitwise_xor",
       "fmin": "minimum", "fmax": "maximum"}  # fmt: skip


def machine_update(target: Target, s: Atomic, k: int) -> str | None:
    """The operation of the machine that updates component `k` ("add", "minimum", "maximum",
    "bitwise_and", "bitwise_or" or "bitwise_xor"), if there is one and it concerns `k` alone.

    The parts of complex numbers are added one by one.
    """
    assert s.combine is not None
    e, t = s.combine.results[k], s.buffers[k].type
    if not isinstance(e, Apply) or set(e.args) != {s.combine.left[k], s.combine.right[k]}:
        return None
    name = e.op.name
    if t.is_inexact:
        summed = name == "add" and t.name != "bfloat16"
        return name if summed and "atomic float addition" in target.operations else None
    if t.kind == "bool":
        name = LOGICAL_ON_BOOL.get(name, name)
    name = _AS.get(name, name)
    if name.startswith("bitwise"):
        return name
    short = t.bits < 32 and "short atomic operations" not in target.operations
    return name if name in ("add", "minimum", "maximum") and not short else None
