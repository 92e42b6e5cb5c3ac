"""What the language asks of whoever runs it: backends by name, values of expressions.

The driver installs itself when `treadle` is imported; the language imports nothing above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .configuration import Settings
    from .graph import Input, Leaf
    from .program import TracedProgram
    from .values import Tree


class Evaluator(Protocol):
    """The driver, as the language sees it."""

    @property
    def names(self) -> Mapping[str, Any]:
        """The public names of the package, which hints are about."""

    def backends(self) -> tuple[str, ...]:
        """The backends that there are, whether or not they work here."""

    def choose_backend(self, name: str | None) -> str:
        """The backend that a name stands for: itself, or for None and "auto" the best that works
        here; `BackendUnavailable` where it does not work."""

    def require_backend_name(self, name: str | None) -> None:
        """Refuse what is no name of a backend (`BackendUnavailable`)."""

    def is_backend_name(self, name: str) -> bool:
        """Whether this is the name of a backend, there or planned."""

    def borrowed(self, value: Any) -> Any:
        """An array on a GPU whose type is not NumPy's (PyTorch's) as one whose type is."""

    def run(self, expr: Any) -> Any:
        """The value of an expression."""

    def program(self, roots: Sequence[Leaf], tree: Tree, settings: Settings, backend: str,
                arguments: Sequence[Input]) -> TracedProgram:  # fmt: skip
        """The program that computes these results of these arguments."""


_installed: list[Evaluator] = []


def install(evaluator: Evaluator) -> None:
    """Make this the evaluator."""
    _installed[:] = [evaluator]


def evaluator() -> Evaluator:
    """The one that is installed."""
    return _installed[0]


def public(name: str) -> Any:
    """What `treadle` offers under a name; None where nothing."""
    return _installed[0].names.get(name) if _installed else None
