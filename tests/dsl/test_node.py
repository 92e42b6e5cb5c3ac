"""A node class declares its fields: everything that traverses graphs follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Expr, Index
from treadle.dsl.graph import ArrayLoop, Input, Label, Leaf, Node, Output, Scope, Shape, topological
from treadle.dsl.graphs.encoding import Decoder, Encoder
from treadle.dsl.graphs.printer import show_graph
from treadle.dsl.graphs.rebuild import rewrite_graph
from treadle.dsl.graphs.verify import verify
from treadle.dsl.node import NODES


@pytest.fixture
def repeated() -> Iterator[Any]:
    """A node class of this test: each element, so many times one after the other."""

    class Repeated(Node):
        rows: Shape
        elements: tuple[Expr, ...]
        times: int

        computed = ("elements",)

        def _outputs(self) -> tuple[Output, ...]:
            return tuple(Output(self.rows, e.type) for e in self.elements)

        def iteration_space(self) -> Shape:
            return self.rows

        def bodies(self) -> tuple[Expr, ...]:
            return self.elements

        def scopes(self) -> Iterator[Scope]:
            yield Scope("the elements", self.elements, len(self.rows))

    yield Repeated
    del NODES["Repeated"]


def made(kind: Any, data: Any) -> Node:
    leaf = td.use(data)._leaves[0]
    node: Node = kind(leaf.shape, (leaf.at(Index(0)),), 2, label=Label("repeat"))
    return node


def test_fields_are_all_that_a_node_declares(repeated: Any) -> None:
    source = np.arange(5.0)
    leaf = td.use(source)._leaves[0]
    one = repeated(leaf.shape, (leaf.at(Index(0)),), 2, label=Label("repeat"))
    assert one is repeated(leaf.shape, (leaf.at(Index(0)),), 2, label=Label("repeat"))
    assert one is not one.with_(times=3) and one.with_(times=3).times == 3
    assert one.inputs() == (leaf,) and one.schedule_axes() == 1
    verify(one.leaves)
    assert "= repeat of %" in show_graph(one.leaves)
    with pytest.raises(AssertionError):
        verify(one.with_(elements=(leaf.at(Index(1)),)).leaves)


def test_a_graph_is_rebuilt_over_its_inputs(repeated: Any) -> None:
    one = made(repeated, np.arange(5.0))
    other = td.use(np.arange(7.0))._leaves[0].node

    def change(node: Node) -> Node:
        return other if isinstance(node, Input) else node

    (root,) = rewrite_graph(one.leaves, change)
    assert root.node.inputs() == (Leaf(other, 0),) and root.node is not one
    assert [type(n).__name__ for n in topological([root])] == ["Input", "Repeated"]


def test_it_is_stored_and_read(repeated: Any) -> None:
    one = made(repeated, np.arange(5.0))
    encoder = Encoder((), full=True)
    (found,) = encoder.graph(one.leaves)
    decoder = Decoder((), lambda d: d, lambda *a: a)
    decoder.table(encoder.table)
    read = decoder.leaf(found).node
    assert type(read) is repeated and read.times == 2 and show_graph(read.leaves).count("\n") == 2


def test_shapes_of_chains_of_loops_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asked the states before it for their types and their shapes: four times as long for
    every loop more."""
    asked: list[None] = []
    outputs = ArrayLoop.outputs.fget  # type: ignore[attr-defined]
    counted = property(lambda node: asked.append(None) or outputs(node))
    monkeypatch.setattr(ArrayLoop, "outputs", counted)

    def chain(x: Any, loops: int) -> int:
        state = (td.use(x), td.use(x))
        for _ in range(loops):
            state = td.iterate(3, lambda s: (s[1] + 1, td.roll(s[0], 1)), state)
        asked.clear()
        assert [leaf.shape for leaf in state[0]._leaves]
        return len(asked)

    x = np.arange(50.0)
    assert chain(x, 6) == chain(x, 3)
