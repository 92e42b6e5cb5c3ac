"""A progress bar for tuning, on a terminal or in a notebook, with the best time so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treadle.dsl.html import display_handle, escape, in_notebook
from treadle.dsl.text import duration


class Bar:
    """A progress bar; this base class displays nothing.

    >>> with progress_bar(3, wanted=False) as bar:
    ...     bar.tick("blur", 1.5)
    """

    def tick(self, operation: str, ms: float | None) -> None:
        """Report that a candidate of an operation is finished, and the best time so far."""

    def more(self, count: int) -> None:
        """Increase the total number of candidates."""


class _Shown(Bar):
    """A bar on a terminal."""

    def __init__(self, progress: Any, total: int) -> None:
        self.progress, self.total = progress, total
        self.task = progress.add_task("tuning", total=total, best="")

    def tick(self, operation: str, ms: float | None) -> None:
        best = "" if ms is None else f"best {duration(ms / 1e3)}"
        self.progress.update(self.task, advance=1, description=f"tuning {operation}", best=best)

    def more(self, count: int) -> None:
        self.total += count
        self.progress.update(self.task, total=self.total)


class _InNotebook(Bar):
    """A bar below the cell of a notebook; it stays there."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.operation, self.best = total, 0, "", ""
        self.handle = display_handle(self)

    def tick(self, operation: str, ms: float | None) -> None:
        self.done, self.operation = self.done + 1, f" {operation}"
        if ms is not None:
            self.best = f", best {duration(ms / 1e3)}"
        self.handle.update(self)

    def more(self, count: int) -> None:
        self.total += count
        self.handle.update(self)

    def __repr__(self) -> str:
        return f"tuning{self.operation} {self.done}/{self.total}{self.best}"

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done}" max="{self.total}"></progress> {escape(repr(self))}'


@contextmanager
def progress_bar(total: int, wanted: bool) -> Iterator[Bar]:
    """A progress bar, displayed in a notebook, or if standard error is a terminal."""
    if wanted and total and in_notebook():
        yield _InNotebook(total)
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (wanted and total and console.is_terminal):
        yield Bar()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("{task.fields[best]}"))  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Shown(bar, total)
