"""HTML for notebooks: built from strings, without IPython, in the colours of the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

__all__ = ["display_handle", "escape", "in_notebook", "of_array", "preformatted", "table"]

#: Longer axes are shown by their first and last elements.
_MOST, _ENDS = 12, 5
_CELL = "padding:1px 8px;text-align:right;font-family:monospace"


def preformatted(text: str) -> str:
    return f'<pre style="margin:0;line-height:1.35">{escape(text)}</pre>'


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    top = "".join(f'<th style="{_CELL}">{cell}</th>' for cell in head)
    body = ["".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows]
    lines = ([f"<tr>{top}</tr>"] if head else []) + [f"<tr>{line}</tr>" for line in body]
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def of_array(values: np.ndarray[Any, Any], dtype: str) -> str:
    """An array under its extents and type: a table for one or two axes, else NumPy's text."""
    extents = " × ".join(map(str, values.shape)) or "one"
    caption = f'<div style="opacity:0.7">{extents} {escape(dtype)}</div>'
    if values.ndim not in (1, 2) or not values.size:
        return caption + preformatted(str(values))
    rows, columns = (_shown(n) for n in np.atleast_2d(values).shape)
    part = np.atleast_2d(values)[np.ix_(rows, columns)]
    text = np.array2string(part, separator="\t", threshold=sys.maxsize, max_line_width=sys.maxsize)
    cells = [[escape(x.strip()) for x in line.strip(" []\t\n").split("\t") if x.strip()]
             for line in text.split("\n")]  # fmt: skip
    for line in cells:
        if len(columns) < values.shape[-1]:
            line.insert(_ENDS, "…")
    if len(rows) < len(np.atleast_2d(values)):
        cells.insert(_ENDS, ["⋮"] * len(cells[0]))
    return caption + table(cells)


def _shown(n: int) -> list[int]:
    """The indices shown of an axis of n elements."""
    return list(range(n)) if n <= _MOST else [*range(_ENDS), *range(n - _ENDS, n)]


def in_notebook() -> bool:
    """Whether a cell of a Jupyter notebook is running."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def display_handle(first: object) -> Any:
    """Show an object below the running cell: a handle whose `update(other)` replaces it."""
    return sys.modules["IPython"].display.display(first, display_id=True)
