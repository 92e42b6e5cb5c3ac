"""The layout of a small directed graph, as SVG: layers from top to bottom, edges downwards.

Nodes are put below all that they read (Sugiyama, Tagawa and Toda 1981): longest paths give the
layers, edges across several layers bend around what lies between, and barycentres order each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

#: Pixels: the width of a character and the height of a line, between boxes and between layers.
_CHARACTER, _LINE, _BESIDE, _BELOW, _PAD = 6.6, 15, 24, 46, 8
_SWEEPS = 8


@dataclass(frozen=True)
class Box:
    """A node: its lines of text, and whether it is a kernel (a rectangle) or data (round)."""

    lines: tuple[str, ...]
    kernel: bool = True

    @property
    def width(self) -> float:
        return max(map(len, self.lines), default=0) * _CHARACTER + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PAD


@dataclass(frozen=True)
class Edge:
    """An array on its way from one node to another (by number); dashed: read inside a loop."""

    start: int
    end: int
    label: str = ""
    dashed: bool = False


@dataclass
class Drawing:
    """Nodes in topological order, and edges, each from an earlier to a later node.

    >>> "sum" in Drawing([Box(("a",)), Box(("sum",))], [Edge(0, 1, "float32[n]")]).svg()
    True
    """

    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def svg(self) -> str:
        """The picture, in the colour of the text around it."""
        edges = list(dict.fromkeys(e for e in self.edges if e.start != e.end))
        level = self._levels(edges)
        # Bends: points on the layers that an edge crosses, numbered after the boxes.
        chains: list[list[int]] = []
        layers: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
        for k, at in enumerate(level):
            layers[at].append(k)
        points = len(self.boxes)
        for e in edges:
            chain = [e.start]
            for at in range(level[e.start] + 1, level[e.end]):
                layers[at].append(points)
                chain.append(points)
                points += 1
            chains.append([*chain, e.end])
        widths = [b.width for b in self.boxes] + [0.0] * (points - len(self.boxes))
        x = _placed(layers, chains, widths)
        heights = [max((self.boxes[k].height for k in layer if k < len(self.boxes)), default=0)
                   for layer in layers]  # fmt: skip
        tops = [2.0 + sum(heights[:k]) + k * _BELOW for k in range(len(layers))]
        middle = {k: tops[n] + heights[n] / 2 for n, layer in enumerate(layers) for k in layer}
        # Of arrows from one node that say the same, one has a label.
        labelled = {(e.start, e.label): e for e in reversed(edges)}
        parts = [
            self._edge(e, chain, x, middle, e.label * (labelled[e.start, e.label] is e))
            for e, chain in zip(edges, chains, strict=True)
        ]
        parts += [_drawn(b, x[k], middle[k]) for k, b in enumerate(self.boxes)]
        right = max((x[k] + widths[k] / 2 for k in range(points)), default=0) + 60
        bottom = (tops[-1] + heights[-1] if tops else 0) + 4
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}" '
            f'viewBox="0 0 {right:.0f} {bottom:.0f}" font-family="sans-serif" font-size="12" '
            'style="background:white;color:#222"><defs><marker id="treadle-arrow" refX="7" '
            'refY="3.5" markerWidth="8" markerHeight="7" orient="auto"><path d="M0 0 L8 3.5 L0 7z" '
            f'fill="#667"/></marker></defs>{"".join(parts)}</svg>'
        )

    def _levels(self, edges: Sequence[Edge]) -> list[int]:
        """The layer of each node: below everything that it reads."""
        level = [0] * len(self.boxes)
        for e in sorted(edges, key=lambda e: e.start):
            level[e.end] = max(level[e.end], level[e.start] + 1)
        for e in sorted(edges, key=lambda e: -e.start):  # what reads nothing, just above its reader
            if not any(other.end == e.start for other in edges):
                level[e.start] = min(level[o.end] for o in edges if o.start == e.start) - 1
        return level

    def _edge(
        self, e: Edge, chain: Sequence[int], x: Sequence[float], middle: dict[int, float], text: str
    ) -> str:
        above, below = self.boxes[e.start], self.boxes[e.end]
        first = (x[chain[0]], middle[chain[0]] + above.height / 2)
        last = (x[chain[-1]], middle[chain[-1]] - below.height / 2 - 1)
        way = [first, *((x[k], middle[k]) for k in chain[1:-1]), last]
        path = f"M{first[0]:.1f} {first[1]:.1f}"
        for (x0, y0), (x1, y1) in pairwise(way):
            half = (y0 + y1) / 2
            path += f" C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"
        dashes = ' stroke-dasharray="4 3"' if e.dashed else ""
        (x0, y0), (x1, y1) = way[0], way[1]
        label = (f'<text x="{(x0 + x1) / 2 + 4:.1f}" y="{(y0 + y1) / 2 + 4:.1f}" font-size="10" '
                 f'fill="#667">{escape(text)}</text>') if text else ""  # fmt: skip
        return (f'<path d="{path}" fill="none" stroke="#667"{dashes} '
                f'marker-end="url(#treadle-arrow)"/>{label}')  # fmt: skip


def _placed(
    layers: list[list[int]], chains: Sequence[Sequence[int]], widths: Sequence[float]
) -> list[float]:
    """The x coordinate of every point: layers are ordered, then moved, towards the means of their
    neighbours."""
    near: list[list[int]] = [[] for _ in widths]
    for chain in chains:
        for a, b in pairwise(chain):
            near[a].append(b)
            near[b].append(a)
    x = [0.0] * len(widths)
    for layer in layers:
        _spread(layer, x, widths)
    for sweep in range(_SWEEPS):
        for layer in layers[:: -1 if sweep % 2 else 1]:
            mean = {k: sum(x[n] for n in near[k]) / len(near[k]) if near[k] else x[k]
                    for k in layer}  # fmt: skip
            layer.sort(key=mean.__getitem__)
            for k in layer:
                x[k] = mean[k]
            _spread(layer, x, widths)
    left = min((x[k] - w / 2 for k, w in enumerate(widths)), default=0.0) - 4
    return [at - left for at in x]


def _spread(layer: Sequence[int], x: list[float], widths: Sequence[float]) -> None:
    """Move the points of a layer apart, in their order, around their common middle."""
    wanted = sum(x[k] for k in layer) / len(layer) if layer else 0.0
    for a, b in pairwise(layer):
        x[b] = max(x[b], x[a] + (widths[a] + widths[b]) / 2 + _BESIDE)
    moved = sum(x[k] for k in layer) / len(layer) - wanted if layer else 0.0
    for k in layer:
        x[k] -= moved


def _drawn(box: Box, x: float, y: float) -> str:
    left, top = x - box.width / 2, y - box.height / 2
    corner = 3 if box.kernel else box.height / 2
    fill = "#e8eefb" if box.kernel else "#f4f4f4"
    bold = ' font-weight="bold"' if box.kernel else ""
    lines = "".join(
        f'<tspan x="{x:.1f}" y="{top + _PAD + (k + 0.78) * _LINE:.1f}"{"" if k else bold}>'
        f"{escape(line)}</tspan>"
        for k, line in enumerate(box.lines)
    )
    return (f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="{corner:.1f}" fill="{fill}" stroke="#334"/>'
            f'<text text-anchor="middle" fill="#222">{lines}</text>')  # fmt: skip
