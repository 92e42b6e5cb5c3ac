"""Every mistake is answered with what to write instead."""

from __future__ import annotations

import ast
from pathlib import Path

import treadle.dsl

KINDS = ("ShapeError", "AxisError", "DTypeError", "TracingError", "NestedParallelismError")


def without_a_hint(source: str) -> list[int]:
    """Lines that raise an error of a user's mistake and say nothing of the way out."""
    raised = (n.exc for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Raise))
    calls = (e for e in raised if isinstance(e, ast.Call) and isinstance(e.func, ast.Name))
    return [
        call.lineno
        for call in calls
        if call.func.id in KINDS and not any(k.arg == "hint" for k in call.keywords)
    ]


def test_errors_say_what_to_write():
    root = Path(treadle.dsl.__file__).parent
    found = {str(f.relative_to(root)): without_a_hint(f.read_text()) for f in root.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
