"""The graph of a program after the passes, which do not run again for a graph met before.

The passes are a function of the graph as written, the settings, the target and treadle itself.
Their result is stored on disk under a hash of these.  It refers by number to what the hash leaves
out, which a program has anyway: its places in the user's code, schedules, arguments and data.

Only the graph is stored, and it is only run: whoever asks for the passes' decisions (`explain()`)
has them run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from treadle.backend.runtime.disk_cache import DiskCache, sources
from treadle.dsl.errors import Location, TreadleError
from treadle.dsl.expr import Expr, Param, Var
from treadle.dsl.graph import Check, Input, Label, Leaf, Node, topological
from treadle.dsl.graphs.encoding import Data, Decoder, Encoder
from treadle.dsl.passes import History, run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.process.locks import cached
from treadle.dsl.schedule import Schedule
from treadle.dsl.target import target_of
from treadle.skeletons.products import BilinearAlgorithm

FORMAT = 1
#: The least operations of a graph that is looked up: the passes of fewer take less time.
LEAST = 8

_disk = DiskCache(folder="graphs")


class Optimised:
    """A graph as written, and what the passes make of it, now or before."""

    def __init__(
        self,
        roots: Sequence[Leaf],
        inputs: tuple[Input, ...],
        params: Sequence[Param],
        settings: Settings,
        backend: str,
        in_parts: bool,
    ) -> None:
        self._written, self._inputs = roots, inputs
        self._how = settings, backend, in_parts
        self._known: tuple[list[Leaf], tuple[Input, ...]] | None = None
        written = _encoded(roots, inputs, params, *self._how)
        if written is not None:
            self._known = written.read()
        if self._known is None:
            history = self.history
            if written is not None:
                written.keep(history)

    @cached
    def history(self) -> History:
        """What the passes do."""
        return run_passes(self._written, *self._how)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the optimised graph, in the order of those as written."""
        return self.history.inputs(self._inputs)

    @property
    def runs(self) -> tuple[list[Leaf], tuple[Input, ...]]:
        """The results and inputs of the optimised graph; from disk, if that is its source."""
        known = self._known
        return known if known is not None else (self.history.roots, self.inputs)


def _encoded(roots: Sequence[Leaf], inputs: Sequence[Input], params: Sequence[Param],
             settings: Settings, backend: str, in_parts: bool) -> _Written | None:  # fmt: skip
    """The graph as written, as data; None if its passes always run: of few operations, of a program
    that is checked or not compiled to kernels, and of what no file has."""
    if settings.check or not target_of(backend).in_memory:
        return None
    if sum(not isinstance(n, Input) for n in topological(roots)) < LEAST:
        return None
    encoder = _Written(params)
    try:
        return encoder.of(roots, inputs, [asdict(settings), backend, in_parts])
    except (TreadleError, _Unknown):
        return None


class _Unknown(Exception):
    """What the numbers of a graph as written cannot say."""


class _Graph(Encoder):
    """A graph with what only programs in memory have: the operations fused into each node."""

    def _node(self, node: Node) -> None:
        super()._node(node)
        self.table[-1].append([[self._label(one), self._place(at)] for one, at in node.fused])

    def _label(self, label: Label) -> list[Data]:
        if label.whole is not None:
            raise _Unknown
        return super()._label(label)

    def _check(self, check: Check) -> list[Data]:
        if check.in_checked:
            raise _Unknown
        return super()._check(check)


class _Written(_Graph):
    """A graph as written, and the numbers of its places and schedules."""

    def __init__(self, params: Sequence[Param]) -> None:
        super().__init__(params, full=True)
        self.places: dict[Location, int] = {}
        self.schedules: dict[int, tuple[int, Schedule]] = {}
        self.inputs: Sequence[Input] = ()
        self.key = ""

    def of(self, roots: Sequence[Leaf], inputs: Sequence[Input], how: list[Data]) -> _Written:
        self.inputs, found = inputs, self.graph(roots, inputs)
        of = [self.numbers[node] for node in inputs]
        text = json.dumps([FORMAT, sources(), how, found, of, _by_age(self.numbers), self.table])
        self.key = hashlib.sha256(text.encode()).hexdigest()
        return self

    def _place(self, where: Location | None) -> Data:
        return None if where is None else self.places.setdefault(where, len(self.places))

    def _label(self, label: Label) -> list[Data]:
        if label.schedule is not None:
            self.schedules.setdefault(id(label.schedule), (len(self.schedules), label.schedule))
        return super()._label(label)

    def _input(self, node: Input) -> int:
        known = node in self.numbers
        number = super()._input(node)
        if not known:  # passes may look at the extents of data, but not at the data
            self.table[number].append(str(getattr(node.source, "shape", None)))
        return number

    def read(self) -> tuple[list[Leaf], tuple[Input, ...]] | None:
        """The optimised graph, if it is on disk."""
        stored = _disk.get(self.key)
        if stored is None:
            return None
        decoder = _Reader(self)
        try:
            about = stored[1]
            decoder.table_of(about["variables"], about["table"])
            roots = [decoder.leaf(r) for r in about["roots"]]
            return roots, tuple(decoder.node(n, Input) for n in about["inputs"])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            _disk.drop(self.key)  # a complete file with other content
            return None

    def keep(self, history: History) -> None:
        """Store what the passes have made of it."""
        made = _Made(self, history)
        try:
            about = made.of(history.roots, history.inputs(self.inputs))
        except (TreadleError, _Unknown):
            return
        _disk.put(self.key, b"", about)


def _by_age(numbers: dict[Expr | Node, int]) -> list[list[int]]:
    """The numbers of what is ordered by its age in sums and products: variables, and the inputs of
    extents.  (Nodes may be older than they are here: equal ones are shared.)"""
    variables = sorted((e.uid, n) for e, n in numbers.items() if isinstance(e, Var | Param))
    inputs = sorted((e.uid, n) for e, n in numbers.items() if isinstance(e, Input))
    return [[n for _, n in found] for found in (variables, inputs)]


class _Made(_Graph):
    """An optimised graph in terms of the graph as written."""

    def __init__(self, written: _Written, history: History) -> None:
        super().__init__(list(written.params), full=True)
        self.written = written
        pairs = zip(written.inputs, history.inputs(written.inputs), strict=True)
        self.replaced = {made: of for of, made in pairs}

    def of(self, roots: Sequence[Leaf], inputs: Sequence[Input]) -> dict[str, Data]:
        nodes = dict.fromkeys((*inputs, *topological(roots)))
        for node in sorted(nodes, key=lambda n: n.uid):
            if isinstance(node, Input):
                self._input(node)
            else:
                self._node(node)
        variables = [self.numbers[v] for v in sorted(
            (e for e in self.numbers if isinstance(e, Var)), key=lambda v: v.uid)]  # fmt: skip
        return {"variables": variables, "table": self.table,
                "roots": [self.value(r) for r in roots],
                "inputs": [self.numbers[node] for node in inputs]}  # fmt: skip

    def _place(self, where: Location | None) -> Data:
        if where is None:
            return None
        found = self.written.places.get(where)
        if found is None:  # of an equal node of another program
            raise _Unknown
        return found

    def _label(self, label: Label) -> list[Data]:
        schedule = None
        if label.schedule is not None:
            found = self.written.schedules.get(id(label.schedule))
            if found is None:
                raise _Unknown
            schedule = found[0]
        return [label.operation, label.name, schedule, label.deterministic]

    def _input(self, node: Input) -> int:
        known = self.numbers.get(node)
        if known is not None:
            return known
        of = self.replaced.get(node, node)
        number = self.written.numbers.get(of)
        if number is None and not node.bound:
            raise _Unknown
        extents = [self._extent(e, node, axis) for axis, e in enumerate(node.shape)]
        if number is None:
            return self._add(node, ["input", node.type.name, extents, node.kind, node.name,
                                    self._place(node.where)])  # fmt: skip
        return self._add(node, ["given", number, of is node, extents])


class _Reader(Decoder):
    """Reads an optimised graph of a program."""

    def __init__(self, written: _Written) -> None:
        super().__init__(list(written.params), lambda k: self.schedules[k], BilinearAlgorithm)
        self.places = list(written.places)
        self.schedules = [schedule for _, schedule in written.schedules.values()]
        self.inputs = {n: node for node, n in written.numbers.items() if isinstance(node, Input)}
        self.aged: dict[int, Var] = {}

    def table_of(self, variables: Sequence[int], entries: Sequence[Data]) -> None:
        for n in variables:  # in the order of their age
            _, type_, name, shared = entries[n]
            self.aged[n] = super()._var(type_, name, shared)
        self.table(entries)

    def _readers(self) -> dict[str, Callable[..., Expr | Node]]:
        return {**super()._readers(), "given": self._given}

    def _var(self, type_: str, name: str, shared: bool) -> Var:
        return self.aged[len(self.made)]

    def _place(self, where: Data) -> Location | None:
        return None if where is None else self.places[where]

    def _given(self, number: int, same: bool, extents: list[int | list[int] | None]) -> Input:
        node = self.inputs[number]
        if same:
            return node
        made = node.copy()
        return made.of_shape(self._shape(made, extents))
