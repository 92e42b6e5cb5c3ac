"""Wrapping long lines of C++."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Maximum columns of a line.
WIDTH = 98
#: Operator precedence: lines are broken before the operator that binds least tightly.
_BINDING = {"?": 1, ":": 1, "||": 2, "&&": 3,
            "==": 4, "!=": 4, "<": 4, ">": 4, "<=": 4, ">=": 4, "|": 5, "^": 5, "&": 5,
            "<<": 6, ">>": 6, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8}  # fmt: skip
#: Longer arguments get separate lines.
SHORT = 40


def wrap(text: str) -> list[str]:
    """Wrap a statement: each long argument of a call gets its own line, as does each link of a
    nested chain of calls (`fmaf(a, b, fmaf(c, d, …))`); other text is broken at the lowest bracket
    depth.

    >>> wrap("x = " + " + ".join(["f(a, b)"] * 12) + ";")[1]
    '    + f(a, b) + f(a, b) + f(a, b);'
    >>> wrap("x = " + "fmaf(left, right, " * 6 + "0.0f" + ")" * 6 + ";")[:2]
    ['x = fmaf(left, right,', '    fmaf(left, right,']
    >>> wrap("x = " + "tanh(" * 2 + "a + " * 21 + "b));")[0]
    'x = tanh('
    """
    if len(text) <= WIDTH or text.lstrip().startswith(("//", "#")):
        return [text]
    pad = len(text) - len(text.lstrip())
    cut = _assignment(text)
    if cut is None:
        return _lay(text[pad:], pad)
    head, value = text[:cut], text[cut + 1 :]
    call = _call(value)
    if call is None:
        return _fill(text)
    first, *rest = _lay(value, pad + 4 if call.chain() else pad)
    if len(head) + 1 + len(first.lstrip()) <= WIDTH:
        return [f"{head} {first.lstrip()}", *rest]
    return [head, *_lay(value, pad + 4)]


def _assignment(text: str) -> int | None:
    """The position of the blank after the `=` of an assignment."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and text.startswith(" = ", k):
            return k + 2
    return None


class _Call(NamedTuple):
    name: str
    arguments: list[str]
    end: str  # what follows the last argument: brackets, a comma or a semicolon

    def chain(self) -> _Call | None:
        """The last argument, if it is a call of the same function."""
        last = _call(self.arguments[-1])
        return last if last is not None and last.name == self.name else None


def _call(text: str) -> _Call | None:
    """`text` as a call, if it is exactly one call."""
    found = re.match(r"(\w+)\(", text)
    if found is None:
        return None
    depth, arguments, begin = 0, [], found.end()
    for k in range(found.end() - 1, len(text)):
        c = text[k]
        depth += (c in "([{") - (c in ")]}")
        if depth == 1 and text.startswith(", ", k):
            arguments.append(text[begin:k])
            begin = k + 2
        if depth == 0:
            whole = not text[k:].strip(");,")
            return _Call(found[1], [*arguments, text[begin:k]], text[k:]) if whole else None
    return None


def _lay(text: str, pad: int) -> list[str]:
    """The lines of a statement or expression that begins in column `pad`."""
    line = " " * pad + text
    call = None if len(line) <= WIDTH else _call(text)
    if call is None:
        return _fill(line)
    if call.chain() is not None:
        return _links(call, pad) or _fill(line)
    if max(map(len, call.arguments)) <= SHORT:
        return _fill(line)
    *others, last = call.arguments
    given: list[str] = []
    for argument in (*(f"{a}," for a in others), last + call.end):
        separate = not given or _call(given[-1]) is not None or _call(argument) is not None
        if separate or pad + 4 + len(given[-1]) + 1 + len(argument) > WIDTH:
            given.append(argument)
        else:
            given[-1] += f" {argument}"
    return [f"{' ' * pad}{call.name}(", *(part for a in given for part in _lay(a, pad + 4))]


def _links(call: _Call, pad: int) -> list[str]:
    """A line for each link of a chain; empty if one is too long."""
    lines, end = [], ""
    link: _Call | None = call
    while link is not None:
        end = link.end + end
        inner = link.chain()
        given = [", ".join(link.arguments) + end] if inner is None else link.arguments[:-1]
        after = "," if inner is not None and given else ""
        lines.append(f"{' ' * pad}{link.name}({', '.join(given)}{after}")
        link = inner
    return lines if max(map(len, lines)) <= WIDTH else []


def _fill(text: str) -> list[str]:
    """Lines filled as far as possible, broken at the lowest bracket depth."""
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
    """Where to break a line: after a comma or `=`, or before an operator, at the lowest bracket
    depth, and there as late as possible."""
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
        before, operator = text[k - 1], text[k + 1 : k + 3].strip()
        binding = 0 if before in ",;" or text[k - 2 : k] == " =" else _BINDING.get(operator)
        if binding is not None:
            rank = len(_BINDING) * depth + binding
            if best is None or rank <= best[0]:
                best = rank, k + 1
    return None if best is None else best[1]
