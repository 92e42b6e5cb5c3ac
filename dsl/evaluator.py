"""The interface through which the language calls the driver: backends by name, values of
expressions.

The driver installs itself when `treadle` is imported, so that `dsl` imports nothing above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .expr import Param
    from .frontend.deferred import CallProgram, HostArray
    from .frontend.trees import Tree
    from .graph import Input, Leaf
    from .process.configuration import Settings
    from .program import TracedProgram


class Evaluator(Protocol):
    """The interface of the driver."""

    @property
    def names(self) -> Mapping[str, Any]:
        """The public names of the package, for hints."""

    @property
    def module(self) -> ModuleType:
        """The package."""

    def backends(self) -> tuple[str, ...]:
        """The names of all backends, available or not."""

    def choose_backend(self, name: str | None) -> str:
        """The backend with this name; for None and "auto" the best available one.
        `BackendUnavailable` if it does not work here."""

    def require_backend_name(self, name: str | None) -> None:
        """Raise `BackendUnavailable` unless this is the name of a backend."""

    def borrowed(self, value: Any) -> Any:
        """View a GPU array of another library (PyTorch) with a NumPy dtype; no copy."""

    def values(self, leaves: Sequence[Leaf]) -> Sequence[Any]:
        """The values of leaves that depend only on data."""

    def call_program(self, leaves: Sequence[Leaf], data: Sequence[HostArray],
                     others: Sequence[Leaf], other_data: Sequence[HostArray],
                     numbers: Sequence[Param]) -> CallProgram | None:  # fmt: skip
        """A program that computes the leaves from their data and the values of `numbers`, if it is
        the same for other data; None if it is not, or if computing them requires naming source
        lines."""

    def program(self, roots: Sequence[Leaf], tree: Tree, settings: Settings, backend: str,
                arguments: Sequence[Input]) -> TracedProgram:  # fmt: skip
        """The program that computes these results from these arguments."""


_installed: list[Evaluator] = []


def install(evaluator: Evaluator) -> None:
    _installed[:] = [evaluator]


def evaluator() -> Evaluator:
    return _installed[0]


def public(name: str) -> Any:
    """The public object of `treadle` with this name, else None."""
    return _installed[0].names.get(name) if _installed else None
