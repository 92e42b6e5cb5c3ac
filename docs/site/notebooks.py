"""Notebooks as pages: run from the top, and shown with what their cells print and draw."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def executed(path: Path) -> Any:
    """The notebook with its outputs; raises CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    client = NotebookClient(notebook, timeout=60, kernel_name="python3",
                            resources={"metadata": {"path": str(path.parent)}})  # fmt: skip
    return client.execute()


def page(path: Path) -> str:
    """The notebook as Markdown, with a link to the file itself below its title."""
    link = f"[Download this notebook]({path.name}){{ .md-button }}"
    parts = []
    for cell in executed(path).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source.replace(".ipynb)", ".md)"))  # other notebooks are pages, too
        elif cell.source.strip():
            parts.append(f"```python\n{cell.source}\n```")
            parts += filter(None, map(_output, cell.outputs))
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, link, rest, *parts[1:]]) + "\n"


def _output(output: Any) -> str:
    """The richest form of an output that a page can show."""
    if output.output_type == "stream":
        return "" if output.name == "stderr" else _text(output.text)
    data = output.data
    if "image/svg+xml" in data:
        return f'<div class="output">{_one_block(data["image/svg+xml"])}</div>'
    if "text/html" in data:
        return f'<div class="output">{_one_block(data["text/html"])}</div>'
    if "image/png" in data:
        source = "".join(data["image/png"].split())
        return f'<div class="output"><img alt="" src="data:image/png;base64,{source}"></div>'
    return _text(data.get("text/plain", ""))


def _one_block(html: str) -> str:
    """Without blank lines, at which Markdown would end the block."""
    return "\n".join(line for line in html.splitlines() if line.strip())


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""
