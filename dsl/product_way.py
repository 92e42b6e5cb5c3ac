"""How a product is computed, as measurement chooses it where the program leaves it open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .errors import ScheduleError
from .graph import Matmul, Node

#: Another way is tried if it is predicted to take at most so many times as long as the fastest.
WORTH_TRYING = 4.0


@dataclass(frozen=True)
class ProductWay:
    """Algorithm, levels and execution of one product, as `td.matmul` takes them.

    `algorithm` None: the one that was written, which may be a table of the user's own.

    >>> ProductWay("strassen", 1, "owner")
    td.matmul(a, b, algorithm="strassen", levels=1, execution="owner")
    """

    algorithm: str | None = None
    levels: int | None = None
    execution: str | None = None

    def put_on(self, node: Node) -> Matmul:
        """The product computed that way; its name, place and schedule stay."""
        if not isinstance(node, Matmul):
            raise ScheduleError(
                f"{node.label}: {self!r} is a way to compute a product, and this is none.",
                hint="Tune the program again: it is not the one that was measured.",
                where=node.where,
            )
        given = node.options
        options = replace(
            given,
            algorithm=given.algorithm if self.algorithm is None else self.algorithm,
            levels=given.levels if self.levels is None else self.levels,
            execution=self.execution,
        )
        made: Matmul = node.with_(options=options)
        return made

    def words(self) -> str:
        """The arguments alone."""
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
        """Strings and numbers, for the store."""
        return {"algorithm": self.algorithm, "levels": self.levels, "execution": self.execution}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProductWay:
        """What `to_dict` gave; ValueError, KeyError or TypeError for anything else."""
        from .operations.linalg import ALGORITHMS, DEEPEST_OF_ALL, EXECUTIONS

        made = cls(data["algorithm"], data["levels"], data["execution"])
        if (
            made.algorithm not in (None, *ALGORITHMS)
            or made.execution not in EXECUTIONS
            or not (made.levels is None or 0 <= int(made.levels) <= DEEPEST_OF_ALL)
        ):
            raise ValueError(f"no way to compute a product: {data!r}")
        return made


def left_open(node: Matmul) -> str:
    """What of a product the program leaves open: "way" (algorithm, levels and execution),
    "execution" alone, or "" (floats keep the standard product's digits until somebody asks for
    less).

    An algorithm that was named stays, and so do its levels, the default being one.
    """
    options, t = node.options, node.left.type
    if t.kind == "bool" or options.execution is not None:
        return ""
    if options.algorithm == "auto":
        free = (options.fast or not t.is_inexact) and options.scaling is None
        return "way" if free and options.levels != 0 else ""
    return "execution" if options.levels and options.algorithm != "standard" else ""


def executed(node: Matmul, execution: str) -> ProductWay:
    """A fast product by another execution, everything else as it was written."""
    name = node.options.algorithm
    return ProductWay(name if isinstance(name, str) else None, node.options.levels, execution)


def why_closed(node: Matmul) -> str:
    """Why there is no other way to try."""
    options = node.options
    if options.execution is not None:
        return f"its execution was asked for: {options.execution!r}"
    if options.algorithm == "auto" and node.left.type.is_inexact:
        return (
            "floats keep the standard product's digits; inside td.precision(fast=True) other "
            "algorithms are tried"
        )
    return "there is one way to compute the standard product"
