"""Names shared by the texts about a program: inputs, extents, kernels, source locations.

Operations are numbered as written, dependencies first: `#3` addresses the third one in
`Program.scheduled` and `Program.tune`, whether it has a name or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import late_binding as later
from ..analysis.bounds import is_counter
from ..analysis.polynomial import Polynomial, in_parentheses, polynomial, show
from ..analysis.regions import regions
from ..errors import Location
from ..expr import Apply, Const, Expr, Extent, Index, Param, Read, Var, walk
from ..graph import ArrayLoop, Barrier, Branch, Input, Leaf, Node, topological
from ..naming import written
from ..process.locks import cached


def is_kernel(node: Node) -> bool:
    """Whether a node of the optimised graph launches a kernel; loops and branches do not."""
    return not isinstance(node, Input | ArrayLoop | Branch | Barrier)


def operations(roots: Sequence[Leaf]) -> list[Node]:
    """The operations of a graph as written, dependencies first; numbered from 1."""
    return [node for node in topological(roots) if not isinstance(node, Input)]


def address(number: int) -> str:
    return f"#{number}"


def location(where: Location | None) -> str:
    """`file.py:12`, or an empty string if the location is unknown."""
    return where.short() if where is not None else ""


def word_of(node: Node) -> str:
    """The operation called on the user's line, if it created an operation without a name: `std` for
    the `sum` in td.std(x); else ""."""
    if node.where is None or node.label.name:
        return ""
    return written(node.label.operation, node.where.text())


def in_order(roots: Sequence[Leaf]) -> Iterator[tuple[int, Node, str]]:
    """(depth, node, heading) in launch order.  Kernels inside loops and branches follow their loop
    or branch one level deeper; loop-invariant kernels, and those that a side of a branch shares
    with nodes outside it, precede it."""
    return _in_order(roots, 0, "", regions(roots), set())


def _in_order(
    leaves: Sequence[Leaf], depth: int, under: str, region: Mapping[Node, frozenset[Node]],
    done: set[Node],
) -> Iterator[tuple[int, Node, str]]:  # fmt: skip
    order = list(topological(leaves, inside=False))
    outside = {node for node in order if not isinstance(node, Input)}
    for node in order:
        if node in done or isinstance(node, Input):
            continue
        done.add(node)
        if isinstance(node, ArrayLoop):
            bound = frozenset(node.bound)
            invariant = [
                n.leaf() for n in topological(node.inner_roots(), inside=False)
                if not isinstance(n, Input) and not region[n] & bound
            ]  # fmt: skip
            yield from _in_order(invariant, depth, under, region, done)
            yield depth, node, under
            yield from _in_order(node.inner_roots(), depth + 1, "", region, done)
        elif isinstance(node, Branch):
            shared = [
                n.leaf()
                for n in topological((*node.then, *node.other), inside=False)
                if n in outside
            ]
            yield from _in_order(shared, depth, under, region, done)
            yield depth, node, under
            yield from _in_order(node.then, depth + 1, "if it holds", region, done)
            yield from _in_order(node.other, depth + 1, "otherwise", region, done)
        else:
            yield depth, node, under


_AXES = "ijklmnop"
#: The most characters of an extent's text.
_LONGEST = 120


class Names:
    """The names used in one program's explanation, and its known extents."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.inputs: dict[Node, str] = {}
        self.extents: dict[Expr, str] = {}
        self.known: dict[Expr, int] = {}
        self.kernels: dict[Node, int] = {}
        self.loops: dict[Node, str] = {}
        self._numbers = {node: k for k, node in enumerate(operations(program.source_roots), 1)}
        self._by_text: dict[Any, list[tuple[Node, int]]] = {}
        for node, k in self._numbers.items():
            self._by_text.setdefault(_written_as(node), []).append((node, k))
        numbers = getattr(program, "example_numbers", ())
        for param, value in zip(program.params, numbers, strict=False):
            if param.type.is_integer:
                self.known[param] = int(value)
        self._texts: dict[Expr, str] = {}
        self._name_inputs()
        self._name_kernels()
        self._texts.clear()  # cached before names were complete

    def _name_inputs(self) -> None:
        arguments = set(self.program.arguments)
        shapes = dict(
            zip(self.program.arguments, getattr(self.program, "example_shapes", None) or (),
                strict=False)
        )  # fmt: skip
        count = Counter(_plain_name(n) for n in self.program.inputs)
        numbers: Counter[str] = Counter()
        for node in self.program.inputs:
            name = _plain_name(node)
            numbers[name] += 1
            unique = node in arguments or count[name] == 1
            self.inputs[node] = name if unique else f"{name}{numbers[name]}"
            shape = shapes.get(node)
            if shape is None and node.source is not None:
                shape = tuple(int(n) for n in node.source.shape)
            for axis, extent in enumerate(node.shape):
                if isinstance(extent, Extent):
                    self.extents.setdefault(extent, f"n{len(self.extents) + 1}")
                    if shape is not None:
                        self.known[extent] = int(shape[axis])

    def _name_kernels(self) -> None:
        for _, node, _ in in_order(self.program.roots):
            if is_kernel(node):
                self.kernels[node] = len(self.kernels) + 1
            else:
                self.loops[node] = f"{node.label.operation}{len(self.loops) + 1}"
            for extra in getattr(node, "bound", ()):
                kind = "counter" if extra.kind == "counter" else "state"
                self.inputs.setdefault(extra, f"{kind}{len(self.inputs)}")

    @cached
    def tuning(self) -> Any:
        """Measurements of the program on this device (`TuningTable`), or None."""
        return self.program.measured()

    # --- text ---
    def array(self, leaf: Leaf) -> str:
        """The name of an array: an input's name, `kernel 3`, or a loop's result."""
        node = leaf.node
        part = f".{leaf.component}" if len(node.outputs) > 1 else ""
        if node in self.inputs:
            return self.inputs[node]
        if node in self.kernels:
            return f"kernel {self.kernels[node]}{part}"
        if isinstance(node, Barrier):
            return self.array(node.arguments[leaf.component])
        return f"{self.loops.get(node, str(node.label))}{part}"

    def number(self, node: Node) -> int | None:
        """The number of the written operation from which a kernel was made."""
        found = self._numbers.get(node)
        if found is not None:
            return found
        same = self._by_text.get(_written_as(node), [])
        alike = [k for w, k in same if type(w) is type(node)] or [k for _, k in same]
        return alike[0] if alike else None

    def address(self, node: Node) -> str:
        """The address of a kernel's operation in `Program.scheduled`; "" if a pass made it."""
        number = self.number(node)
        return node.label.name or ("" if number is None else address(number))

    def atom(self, e: Expr) -> str:
        if isinstance(e, Index):
            return _AXES[e.axis] if e.axis < len(_AXES) else f"i{e.axis}"
        if isinstance(e, Extent):
            return self.extents.get(e, f"{self.inputs.get(e.node, 'array')}.shape[{e.axis}]")
        if isinstance(e, Param | Var):
            return e.name
        if isinstance(e, Read) and is_counter(e):
            return self.inputs.get(e.node, "counter")
        return self._formula(e)

    def form(self, p: Polynomial[Expr]) -> str:
        """A form of indices and extents as text, simplified as in `extent`; "" for 0."""
        total = Polynomial[Expr].number(0)
        for monomial, c in p.terms.items():
            term = Polynomial[Expr].number(c)
            for a in monomial:
                known = polynomial(self._chosen(a)) if isinstance(a, Apply) else None
                term = term * (known or Polynomial.atom(a))
            total = total + term
        return show(total, self.atom)

    def extent(self, e: Expr) -> str:
        """An extent as text: `n1 - 2`; `?` if it depends on data; `…` if it is too long."""
        if e not in self._texts:
            here = self._chosen(e)
            p = polynomial(here, {x: Polynomial.atom(x) for x in walk((here,)) if is_counter(x)})
            text = self._formula(here) if p is None else self.form(p) or "0"
            self._texts[e] = text if len(text) <= _LONGEST else "…"
        return self._texts[e]

    def _chosen(self, e: Expr) -> Expr:
        """`e` with each minimum and maximum of known values replaced by the selected operand, and
        each select with a known condition by the selected value."""
        values = evaluations(e, self.known)
        made: dict[Expr, Expr] = {}
        for x in walk((e,)):
            name = x.op.name if isinstance(x, Apply) else ""
            if name in ("minimum", "maximum") and all(a in values for a in x.args):
                first = (values[x.args[0]] <= values[x.args[1]]) == (name == "minimum")
                made[x] = made[x.args[0 if first else 1]]
            elif name == "select" and x.args[0] in values:
                made[x] = made[x.args[1 if values[x.args[0]] else 2]]
            else:
                args = tuple(made[a] for a in x.args)
                changed = any(a is not b for a, b in zip(args, x.args, strict=True))
                made[x] = x.rebuild(args, x.scoped) if changed else x
        return made[e]

    def _formula(self, e: Expr) -> str:
        """An expression that is not a polynomial, as a function of others."""
        if is_counter(e):
            return self.atom(e)
        if not isinstance(e, Apply):
            return "?"
        parts = [self.extent(a) for a in e.args]
        if any("?" in part for part in parts):
            return "?"
        if e.op.name == "maximum" and "0" in parts:
            return parts[1 - parts.index("0")]
        if len(parts) == 2 and e.op.symbol:
            return f" {e.op.symbol} ".join(map(in_parentheses, parts))
        name = {"minimum": "min", "maximum": "max"}.get(e.op.name, e.op.name)
        return f"{name}({', '.join(parts)})"

    def shape(self, shape: Sequence[Expr]) -> str:
        return "[" + ", ".join(self.extent(e) for e in shape) + "]"

    def type(self, leaf: Leaf) -> str:
        """`float32[n1, n2]`."""
        return f"{leaf.type}{self.shape(leaf.shape)}" if leaf.shape else f"{leaf.type}"

    # --- numbers ---
    def value(self, e: Expr) -> int | None:
        """An extent's value for the known shapes; None if it is unknown."""
        return evaluate(e, self.known)

    def size(self, shape: Sequence[Expr | None]) -> int | None:
        """The number of elements of a shape; None if it is unknown."""
        total = 1
        for e in shape:
            n = None if e is None else self.value(e)
            if n is None:
                return None
            total *= max(n, 0)
        return total


def _plain_name(node: Input) -> str:
    return node.name.replace(" ", "")


def _written_as(node: Node) -> tuple[int, str, str | None]:
    """The attributes that a kernel shares with the operation from which it was made."""
    return id(node.where), node.label.operation, node.label.name


def evaluate(e: Expr, known: Mapping[Expr, int]) -> int | None:
    """The value of an integer expression over known extents; None if it depends on other values."""
    found = evaluations(e, known).get(e)
    return None if found is None else int(found)


def evaluations(e: Expr, known: Mapping[Expr, int]) -> dict[Expr, Any]:
    """The values of an expression and its subexpressions, as far as extents are known."""
    values: dict[Expr, Any] = {}
    for node in walk((e,)):
        if isinstance(node, Const):
            values[node] = node.value
        elif node in known:
            values[node] = known[node]
        elif isinstance(node, Apply) and all(a in values for a in node.args):
            values[node] = node.value([values[a] for a in node.args])[()]
        elif isinstance(node, Apply) and node.op.name == "select":
            sides = [values.get(a) for a in node.args[1:]]
            if sides[0] is not None and sides[0] == sides[1]:  # for either condition
                values[node] = sides[0]
    return values


later.offer(evaluate_extent=evaluate)
