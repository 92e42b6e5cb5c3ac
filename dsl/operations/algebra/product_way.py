"""A way to compute a matrix product, chosen by measurement if the program leaves it open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ScheduleError
from ...graph import Matmul, Node
from .products import ALGORITHMS, DEEPEST_OF_ALL, EXECUTIONS

#: Alternatives are tried if they are predicted to take at most this multiple of the fastest time.
WORTH_TRYING = 4.0


@dataclass(frozen=True)
class ProductWay:
    """Algorithm, levels and execution of one product, as arguments of `td.matmul`.

    `algorithm` None: as written, possibly a user-defined table.

    >>> ProductWay("strassen", 1, "owner")
    td.matmul(a, b, algorithm="strassen", levels=1, execution="owner")
    """

    algorithm: str | None = None
    levels: int | None = None
    execution: str | None = None

    def put_on(self, node: Node) -> Matmul:
        """The product computed in this way; its name, location and schedule are unchanged."""
        if not isinstance(node, Matmul):
            raise ScheduleError(
                f"{node.label}: {self!r} is a way to compute a product, but this is not one.",
                hint="Tune the program again: it differs from the one that was measured.",
                where=node.where,
            )
        given = node.options
        options = replace(
            given,
            algorithm=given.algorithm if self.algorithm is None else self.algorithm,
            levels=given.levels if self.levels is None else self.levels,
            execution=self.execution,
        )
        return node.with_(options=options)

    def words(self) -> str:
        """The arguments as text."""
        text = self.algorithm or "as written"
        if self.levels:
            text += f", {self.levels} level{'s' * (self.levels > 1)}"
        return text if self.execution is None else f"{text}, {self.execution}"

    def __repr__(self) -> str:
        shown = ["algorithm=…" if self.algorithm is None else f'algorithm="{self.algorithm}"']
        shown += [] if self.levels is None else [f"levels={self.levels}"]
        shown += [] if self.execution is None else [f'execution="{self.execution}"']
        return f"td.matmul({', '.join(['a', 'b', *shown])})"

    def to_dict(self) -> dict[str, Any]:
        """Strings and numbers, for storage."""
        return {"algorithm": self.algorithm, "levels": self.levels, "execution": self.execution}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProductWay:
        """The inverse of `to_dict`; ValueError, KeyError or TypeError for malformed data."""
        made = cls(data["algorithm"], data["levels"], data["execution"])
        if (
            made.algorithm not in (None, *ALGORITHMS)
            or made.execution not in EXECUTIONS
            or not (made.levels is None or 0 <= int(made.levels) <= DEEPEST_OF_ALL)
        ):
            raise ValueError(f"no way to compute a product: {data!r}")
        return made


def left_open(node: Matmul) -> str:
    """What a program leaves open for a product: "way" (algorithm, levels and execution),
    "execution" only, or "" (floats keep the accuracy of the standard product unless the user
    permits less).

    An explicitly named algorithm is kept, together with its levels (default 1).
    """
    options, t = node.options, node.left.type
    if t.family == "bool" or options.execution is not None:
        return ""
    if options.algorithm == "auto":
        free = options.may_recurse(t) and options.scaling is None
        return "way" if free and options.levels != 0 else ""
    return "execution" if options.levels and options.algorithm != "standard" else ""


def executed(node: Matmul, execution: str) -> ProductWay:
    """A fast product with another execution, otherwise as written."""
    name = node.options.algorithm
    return ProductWay(name if isinstance(name, str) else None, node.options.levels, execution)


def why_closed(node: Matmul) -> str:
    """Why there is no alternative to try."""
    options, t = node.options, node.left.type
    if options.execution is not None:
        return f"the program sets its execution: {options.execution!r}"
    if t.is_narrow:
        return f"fast algorithms would round sums of blocks to {t}"
    if options.algorithm == "auto" and t.is_inexact:
        return (
            "floats keep the standard product's accuracy; inside td.precision(fast=True) other "
            "algorithms are tried"
        )
    return "there is one way to compute the standard product"
