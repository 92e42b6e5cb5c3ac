"""Long lines of C++ on several."""

from __future__ import annotations

#: Columns of a line.
WIDTH = 98


def wrap(text: str) -> list[str]:
    """A statement on as many lines as it takes, broken where its brackets are fewest.

    >>> wrap("x = " + " + ".join(["f(a, b)"] * 12) + ";")[1]
    '    + f(a, b) + f(a, b) + f(a, b);'
    """
    if len(text) <= WIDTH or text.lstrip().startswith(("//", "#")):
        return [text]
    pad = len(text) - len(text.lstrip()) + 4
    lines = []
    while len(text) > WIDTH:
        at = _break(text)
        if at is None:
            break
        lines.append(text[:at].rstrip())
        text = " " * pad + text[at:].lstrip()
    return [*lines, text]


def _break(text: str) -> int | None:
    """Where a line is best broken: after a comma or `=`, before an operator, as far out as it
    can be, then as late as it can be."""
    start = len(text) - len(text.lstrip())
    best: tuple[int, int] | None = None
    depth = 0
    quoted = False
    for k in range(start, min(len(text), WIDTH)):
        c = text[k]
        if c == '"':
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        if c in "<>" and text[k - 1] not in " <>-":  # of a template
            depth += 1 if c == "<" else -1
        if c != " " or k < start + 20:
            continue
        before, after = text[k - 1], text[k + 1 : k + 3]
        if before in ",;=" or after[:1] in "+-*/%&|^?:<>" or after in ("==", "!="):
            rank = 2 * depth + (0 if before in ",;=" else 1)
            if best is None or rank <= best[0]:
                best = rank, k + 1
    return None if best is None else best[1]
