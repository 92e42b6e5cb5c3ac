"""The fused graph of a program: kernels as boxes, arrays on the edges, in Graphviz's language."""

from __future__ import annotations

from typing import Any

from treadle.dsl.graph import ArrayLoop, Branch, Input, Node, inner_inputs, topological
from treadle.dsl.graphs.names import Names, is_kernel

from .explain import fused, title
from .layout import Box, Drawing, Edge
from .shown import Graph


def graphviz(program: Any) -> Graph:
    """The fused graph as text in DOT, with its drawing."""
    names = Names(program)
    drawing = Drawing()
    ids: dict[Node, int] = {}
    inner: list[Node] = []
    lines = []
    for node in topological(program.roots):
        ids[node] = len(drawing.boxes)
        name = f"n{ids[node]}"
        if isinstance(node, Input):
            parts = [names.inputs.get(node, node.name), names.type(node.leaf())]
            look = "shape=ellipse"
        else:
            parts, look = _box(node, names)
        lines.append(f"  {name} [{look}, label={_quoted(*parts)}];")
        drawing.boxes.append(Box(tuple(parts), not isinstance(node, Input)))
        if isinstance(node, ArrayLoop | Branch):
            inner.append(node)
    reads = [(leaf, node, False) for node in ids for leaf in node.inputs() if leaf.node in ids]
    reads += [(leaf, node, True) for node in inner for leaf in inner_inputs(node)]
    for leaf, node, dashed in reads:
        start, end, label = ids[leaf.node], ids[node], names.type(leaf)
        drawing.edges.append(Edge(start, end, label, dashed))
        style = "style=dashed, " if dashed else ""
        lines.append(f"  n{start} -> n{end} [{style}label={_quoted(label)}];")
    for k, leaf in enumerate(program.roots):
        drawing.edges.append(Edge(ids[leaf.node], len(drawing.boxes), names.type(leaf)))
        drawing.boxes.append(Box((f"result {k}",), kernel=False))
        lines.append(f"  out{k} [shape=ellipse, style=bold, label={_quoted(f'result {k}')}];")
        label = _quoted(names.type(leaf))
        lines.append(f"  n{ids[leaf.node]} -> out{k} [label={label}];")
    head = [
        f"digraph {_quoted(program.name)} {{",
        '  rankdir=TB; node [fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    made = Graph("\n".join([*head, *lines, "}"]) + "\n")
    made.drawing = drawing
    return made


def _box(node: Node, names: Names) -> tuple[list[str], str]:
    """The lines of a node's box, and its look."""
    if not is_kernel(node):
        return [title(node, names)], "shape=box, style=rounded"
    parts = [f"kernel {names.kernels[node]}", title(node, names)]
    parts += [f"+ {text}" for text in fused(node)]
    if node.label.schedule is not None:
        parts.append(repr(node.label.schedule))
    return parts, "shape=box"


def _quoted(*lines: str) -> str:
    escaped = "\\n".join(lines).replace('"', '\\"')
    return f'"{escaped}"'
