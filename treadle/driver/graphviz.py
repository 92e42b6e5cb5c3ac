"""The fused graph of a program in Graphviz's language."""

from __future__ import annotations

from typing import Any

from treadle.dsl.graph import ArrayLoop, Branch, Input, Node, inner_inputs, topological
from treadle.dsl.graphs.names import Names, is_kernel

from .explain import fused, title


def graphviz(program: Any) -> str:
    """The fused graph in Graphviz's DOT: kernels as boxes, arrays on the edges."""
    names = Names(program)
    lines = [
        f"digraph {_quoted(program.name)} {{",
        '  rankdir=TB; node [fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    ids: dict[Node, str] = {}
    inner: list[Node] = []
    for node in topological(program.roots):
        ids[node] = f"n{len(ids)}"
        if isinstance(node, Input):
            label = f"{names.inputs.get(node, node.name)}\\n{names.type(node.leaf())}"
            lines.append(f"  {ids[node]} [shape=ellipse, label={_quoted(label)}];")
            continue
        lines.append(f"  {ids[node]} {_box(node, names)};")
        if isinstance(node, ArrayLoop | Branch):
            inner.append(node)
    for node in ids:
        for leaf in node.inputs():
            if leaf.node in ids:
                lines.append(f"  {ids[leaf.node]} -> {ids[node]} "
                             f"[label={_quoted(names.type(leaf))}];")  # fmt: skip
    for node in inner:
        for leaf in inner_inputs(node):
            lines.append(f"  {ids[leaf.node]} -> {ids[node]} "
                         f"[style=dashed, label={_quoted(names.type(leaf))}];")  # fmt: skip
    for k, leaf in enumerate(program.roots):
        lines.append(f"  out{k} [shape=ellipse, style=bold, label={_quoted(f'result {k}')}];")
        lines.append(f"  {ids[leaf.node]} -> out{k} [label={_quoted(names.type(leaf))}];")
    return "\n".join([*lines, "}"]) + "\n"


def _box(node: Node, names: Names) -> str:
    if not is_kernel(node):
        return f"[shape=box, style=rounded, label={_quoted(title(node, names))}]"
    head = f"kernel {names.kernels[node]}\\n{title(node, names)}"
    parts = [head, *(f"+ {text}" for text in fused(node))]
    if node.label.schedule is not None:
        parts.append(repr(node.label.schedule))
    text = "\\n".join(parts)
    return f"[shape=box, label={_quoted(text)}]"


def _quoted(text: str) -> str:
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'
