"""Shorter programs that go as wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from .judging import Verdict
from .program import Manner, Program


def shrink(program: Program, verdict: Verdict, judged: Callable[[Program], Verdict],
           tries: int = 150) -> tuple[Program, Verdict]:  # fmt: skip
    """The shortest program found with this kind of failure, and what is said of it. `judged` runs
    a program; no more than `tries` are run."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(program, verdict):
            if tries <= 0:
                return program, verdict
            tries -= 1
            found = judged(candidate)
            if found.kind == verdict.kind:
                program, verdict, smaller = candidate, found, True
                break
    return program, verdict


def _candidates(program: Program, verdict: Verdict) -> Iterator[Program]:
    """Programs with less, the boldest first."""
    if len(program.results) > 1:
        names = [n for n in program.results if n == verdict.line] + list(program.results)
        for name in names:
            yield replace(program, results=(name,)).needed()
        for name in names:
            yield replace(program, results=tuple(n for n in program.results if n != name)).needed()
    manner = program.manner
    for simpler in (
        Manner(), replace(manner, calls=1, threads=1), replace(manner, threads=1),
        replace(manner, way="jit"), replace(manner, check=False), replace(manner, recognise=True),
        replace(manner, deterministic=False),
    ):  # fmt: skip
        if simpler != manner:
            yield replace(program, manner=simpler)
    # A line before the last as the result; a line less, its readers reading what it read.
    for line in program.lines[:-1]:
        yield replace(program, results=(line.name,)).needed()
    for place, line in enumerate(program.lines):
        for text in _simpler(line.text):
            lines = list(program.lines)
            lines[place] = replace(
                line, text=text, numpy=text.replace("td.", "np.") if line.numpy else ""
            )
            yield replace(program, lines=tuple(lines)).needed()
    for place, (name, text) in enumerate(program.inputs):
        for simpler_text in _simpler(text):
            inputs = list(program.inputs)
            inputs[place] = (name, simpler_text)
            yield replace(program, inputs=tuple(inputs)).needed()


def _simpler(text: str) -> Iterator[str]:
    """The expression with one of its parts replaced by a part of that; clips, which keep floats
    exact, stay."""
    tree = ast.parse(text, mode="eval")
    nodes = [
        n
        for n in ast.walk(tree)
        if isinstance(n, (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp))
    ]
    nodes.sort(key=lambda n: n.col_offset - (n.end_col_offset or 0))
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("clip", "default_rng"):
                continue
            parts = [*node.args, node.func.value]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        elif isinstance(node, ast.UnaryOp):
            parts = [node.operand]
        else:
            continue
        for part in parts:
            if isinstance(
                part, (ast.BinOp, ast.Call, ast.Subscript, ast.Name, ast.Constant, ast.UnaryOp)
            ):
                piece = ast.get_source_segment(text, part)
                if piece in ("td", "np", None):
                    continue
                start, end = node.col_offset, node.end_col_offset
                yield f"{text[:start]}{piece}{text[end:]}"
    keywords = [k for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords]
    for keyword in keywords:
        piece = ast.get_source_segment(text, keyword)
        if piece and f", {piece}" in text:
            yield text.replace(f", {piece}", "")
