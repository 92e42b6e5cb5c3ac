"""Text form of scalar expressions and of the array graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import expr as ex, graph, late_binding as later
from ..expr import Expr

MAX = 400


def show(e: Expr) -> str:
    """An expression on one line, truncated if long."""
    names: dict[Expr, str] = {}
    for node in ex.walk((e,)):
        text = _one(node, names)
        names[node] = text if len(text) <= MAX else text[: MAX - 1] + "…"
    return names[e]


def _one(e: Expr, done: dict[Expr, str]) -> str:
    args = [done[a] for a in e.args]
    scoped = [done[s] for s in e.scoped]
    match e:
        case ex.Const():
            return str(e.value)
        case ex.Index():
            return "ijklmnop"[e.axis] if e.axis < 8 else f"i{e.axis}"
        case ex.Var():
            return e.name
        case ex.Needed():
            return f"needed({_array(e.node)})"
        case ex.Param():
            return e.name
        case ex.Extent():
            return f"{_array(e.node)}.shape[{e.axis}]"
        case ex.Read():
            border = f"|{e.boundary}" if e.boundary else ""
            return f"{_leaf(graph.Leaf(e.node, e.component))}[{', '.join(args)}{border}]"
        case ex.Apply():
            if len(args) == 2 and e.op.symbol:
                return f"({args[0]} {e.op.symbol} {args[1]})"
            if e.weak and e.args[0].type == e.type:  # only marks the value as weak
                return args[0]
            return f"{e.type if e.op.name == 'cast' else e.op.name}({', '.join(args)})"
        case ex.Cond():
            n = len(e.types)
            return f"cond({args[0]}, {_group(scoped[:n])}, {_group(scoped[n:])})"
        case ex.While():
            return f"while({_group(args)}; {scoped[0]}; {_group(scoped[1:])})"
        case ex.Loop():
            return f"loop({args[0]}, {_group(args[1:])}; {_group(scoped)})"
        case ex.Proj():
            parent = e.args[0]
            single = len(parent.types) == 1  # type: ignore[attr-defined]
            return args[0] if single else f"{args[0]}.{e.which}"
        case ex.Foreign():
            return f"{e.function.name}({', '.join(args)})"
    return type(e).__name__


def _group(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + ", ".join(parts) + ")"


def _array(node: graph.Node) -> str:
    return f"%{node.uid}"


def _leaf(leaf: graph.Leaf) -> str:
    """A component of a node: `%3`, or `%3.1` if the node has several."""
    return f"%{leaf.node.uid}" + (f".{leaf.component}" if len(leaf.node.outputs) > 1 else "")


def show_node(node: graph.Node) -> str:
    """One node: its operation and operands."""

    def many(es: Iterable[Expr]) -> str:
        return _group([show(e) for e in es])

    types = ", ".join(o.type.name for o in node.outputs)
    shape = "; ".join("(" + ", ".join(show(e) for e in o.shape) + ")" for o in node.outputs[:1])
    head = f"%{node.uid}: {types}{shape} = {node.label}"
    match node:
        case graph.Input():
            return head
        case graph.Generate():
            return f"{head} {many(node.elements)}"
        case graph.Fold() | graph.StoringFold():
            inner = ", ".join(show(e) for e in node.inner)
            stored = ""
            if isinstance(node, graph.StoringFold):
                at = many([ex.Index(k) for k in node.order])
                stored = f" storing {many(node.kept)} at {at}"
            return (
                f"{head} over ({inner}) of {many(node.elements)} by "
                f"{many(node.combine.results)}{_from(node.init)}{_epilogue(node)}{stored}"
            )
        case graph.CrossedFolds():
            names = f" as {many(node.names)}" if node.names else ""
            return (
                f"{head} along ({show(node.inner[0])}) of {many(node.elements)} by "
                f"{many(node.combine.results)}{_from(node.init)}{_epilogue(node)}{names}, across "
                f"({show(node.outer[-1])}) of {many(node.across)} by "
                f"{many(node.across_combine.results)}{_from(node.across_init)}"
                f"{_epilogue(node.apart()[1])}"
            )
        case graph.FoldSeg():
            return (
                f"{head} segments of {many(node.elements)} by {many(node.combine.results)}"
                f"{_epilogue(node)}"
            )
        case graph.Scan():
            way = "backward" if node.reverse else "forward"
            return (
                f"{head} {node.form} {way} along {node.axis} of {many(node.elements)} by "
                f"{many(node.combine.results)}{_epilogue(node)}"
            )
        case graph.Recurrence():
            way = "backward" if node.reverse else "forward"
            stored = f" collecting {many(node.collected)}" if node.collected else ""
            return (
                f"{head} {way} along {node.axis} from {many(node.start)} by "
                f"{many(node.steps)}{stored}"
            )
        case graph.Permute():
            how = "overwrite" if node.combine is None else many(node.combine.results)
            defaults = ", ".join(map(_leaf, node.defaults))
            return (
                f"{head} into {defaults} at ({many(node.target)}) if {show(node.valid)} "
                f"<- {many(node.values)} by {how}"
            )
        case graph.Sequential():
            named = list(zip(node.before, node.names, node.early, strict=True))
            parts = list[str]()
            steps = zip(node.written, node.targets(), node.valid, node.values, strict=True)
            for number, (k, place, valid, value) in enumerate(steps):
                parts += [f"{show(v)} = {show(e)};" for w, v, e in named if w == number]
                if k == graph.BEGIN:
                    parts.append("repeat {")
                elif k == graph.TEST:
                    parts.append(f"break unless {show(valid)};")
                elif k == graph.END:
                    parts.append("}")
                else:
                    own = k - len(node.defaults)
                    into = (f"{_leaf(node.defaults[k])} at ({many(place)})" if own < 0
                            else show(node.variables[own]))  # fmt: skip
                    parts.append(f"{into} if {show(valid)} <- {show(value)};")
            return f"{head} for each of ({many(node.domain)}): {' '.join(parts).removesuffix(';')}"
        case graph.Matmul():
            folded = ""
            if isinstance(node, graph.StoringMatmul):
                at, of = many([ex.Index(k) for k in node.order]), ("left", "right")[node.side]
                folded = f" storing the {of} operand {show(node.kept)} at {at}"
            if isinstance(node, graph.FoldingMatmul):
                start = "" if node.init is None else f" from {many(node.init)}"
                folded += (
                    f" folding {many(node.elements)} by {many(node.combine.results)}{start} "
                    f"then {many(node.finish)} at {many([ex.Index(k) for k in node.places])}"
                )
            return f"{head} {show(node.left)} @ {show(node.right)}{_epilogue(node)}{folded}"
        case graph.ArrayLoop():
            init, body = ", ".join(map(_leaf, node.init)), ", ".join(map(_leaf, node.body))
            return f"{head} from {init} body {body}"
        case graph.Branch():
            return f"{head} if {show(node.predicate)}"
    used = [*map(_leaf, node.operands()), *map(show, node.bodies())]
    return f"{head} of {', '.join(used)}" if used else head


def _from(init: tuple[Expr, ...] | None) -> str:
    return "" if init is None else f" from {_group([show(e) for e in init])}"


def _epilogue(node: Any) -> str:
    results = (node.result,) if isinstance(node, graph.Matmul) else node.results
    if tuple(node.epilogue) == tuple(results):
        return ""
    return " then " + _group([show(e) for e in node.epilogue])


def show_graph(roots: Iterable[graph.Leaf]) -> str:
    """Every node, one per line, dependencies first."""
    return "\n".join(show_node(node) for node in graph.topological(roots)) + "\n"


later.offer(show_expression=show)
