"""Recipes: everything needed to run one node in addition to machine code, as plain data.

Lowering makes a recipe, which has the expressions that the host evaluates, the arrays to allocate
and the arguments of each launch.  Recipes are cached in memory and on disk.  Their key is the
meaning of the node: its own graph, which of its inputs share a slot, the settings and the machine.
A program seen before is therefore neither lowered nor compiled, and equal nodes of a program are
lowered once.  Nodes whose kernels refer to Python objects (foreign functions, orders that are
tables or user-defined) have no recipe on disk, nor do checked programs, whose messages name source
locations.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.dsl.errors import TreadleError
from treadle.dsl.expr import Expr, Read, constant, substitute, walk
from treadle.dsl.graph import Input, Label, Leaf, Node, topological
from treadle.dsl.graphs.encoding import Encoder
from treadle.dsl.process.recent import Recent
from treadle.dsl.schedule import Schedule, as_schedule
from treadle.skeletons.access.rows import Access, access_of

from ..runtime.disk_cache import DiskCache
from ..runtime.host import HostFunction
from ..runtime.steps import Filled, Fits, Sizes, sources_of
from .runtime import machine, threads
from .runtime.tape import Dependence, Rows, dependence, given

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

    from .executable import NativeExecutor
    from .layouts import Layouts

FORMAT = 8
#: The least nodes of a place whose kernels are compared with each other.
MANY = 4


class LaunchRecipe(NamedTuple):
    """One kernel and the sources of its arguments.

    `digests` are the keys of its machine code without and with streaming stores, "" if unknown; the
    second is for large arrays and absent if the code is the same.  `sources` are (space, number) of
    each buffer; space 0 is a slot of the program, 1 an output of the node, 2 scratch.  The host
    values from `start` to `end` are the kernel's scalars, of the `types`; the value at `end` is its
    number of tasks.  `given` are the scalars that are parameters: (position, parameter number).

    `requires`: the conditions under which this kernel is correct; `light` and `in_order` are those
    of `Kernel`.  `integers` are the numbers of those that are arguments (`Differences`).
    `rows`: for passes of a loop, with the numbers of host values in place of these; or None.
    """

    digests: tuple[str, ...]
    sources: tuple[tuple[int, int], ...]
    start: int
    end: int
    types: tuple[str, ...]
    given: tuple[tuple[int, int], ...]
    requires: HostFunction
    light: bool = False
    in_order: bool = False
    integers: tuple[int, ...] = ()
    rows: Rows | None = None


class Recipe(NamedTuple):
    """How to run a node.

    `shapes` are the ranges of host values that are the shapes of the outputs.  `scratch` has
    (position of its size, type, whether it is zero-initialised).  `launches`, in order, have the
    variants of each kernel, of which the last is always correct.  `dependence`: what the host
    values and the choice of variants depend on.
    """

    host: HostFunction
    shapes: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, str, bool], ...]
    launches: tuple[tuple[LaunchRecipe, ...], ...]
    dependence: Dependence

    def data(self) -> dict[str, Any]:
        launches = [
            [
                [r.digests, r.sources, r.start, r.end, r.types, r.given, r.requires.data(),
                 r.light, r.in_order, r.integers, r.rows]
                for r in choice
            ]
            for choice in self.launches
        ]  # fmt: skip
        depends = [self.dependence.reads, sorted(self.dependence.params)]
        return {"format": FORMAT, "host": self.host.data(), "shapes": self.shapes,
                "scratch": self.scratch, "launches": launches, "depends": depends}  # fmt: skip

    def moved(self, slots: Mapping[int, int]) -> Recipe:
        """The same recipe with renumbered slots."""
        launches = [
            [
                r._replace(requires=r.requires.moved(slots), sources=tuple(
                    (space, slots[k] if space == 0 else k) for space, k in r.sources))
                for r in choice
            ]
            for choice in self.launches
        ]  # fmt: skip
        return self._replace(host=self.host.moved(slots), launches=tuple(map(tuple, launches)))

    @staticmethod
    def of(data: Mapping[str, Any]) -> Recipe:
        """The inverse of `data`; raises `ValueError` and the like for other input."""
        if data["format"] != FORMAT:
            raise ValueError("another format")
        reads, params = data["depends"]
        launches = tuple(
            tuple(LaunchRecipe(*(*_tuples(r[:6]), HostFunction.of(r[6]), *_tuples(r[7:10]),
                                 None if r[10] is None else Rows(*_tuples(r[10]))))
                  for r in choice)
            for choice in data["launches"]
        )  # fmt: skip
        return Recipe(HostFunction.of(data["host"]), _tuples(data["shapes"]),
                      _tuples(data["scratch"]), launches,
                      Dependence(reads, frozenset(params)))  # fmt: skip


def _tuples(data: Any) -> Any:
    return tuple(map(_tuples, data)) if isinstance(data, list) else data


# --- making ----------------------------------------------------------------------------------


class Lowered(NamedTuple):
    """A recipe and the parts that are not stored on disk: the kernels, orders that may be valid for
    some extents only (with the range of host values to test), and scratch that Python fills, by its
    number: (function, start and end of its values, slots of its arrays)."""

    recipe: Recipe
    kernels: tuple[tuple[Kernel, ...], ...]
    fits: tuple[Fits, ...]
    filled: Mapping[int, Filled]

    @property
    def plain(self) -> bool:
        """Whether the recipe alone is sufficient to run the node."""
        return not self.fits and not self.filled


def lowered(owner: NativeExecutor, node: Node, lowered_as: Node, layouts: Layouts,
            schedule: Schedule | None, across: bool | None = None, *, repeated: bool = False,
            by_rows: bool = False, made_before: Recipe | None = None) -> Lowered:  # fmt: skip
    """Lower a node of a program; `lowered_as` is its specialisation for the extents of a call.

    `repeated`: other nodes may differ from it in their numbers only, which become arguments; if
    there is a recipe already, the integers are those of that.
    `by_rows`: it belongs to a loop that may run in passes over blocks of rows."""
    from treadle.skeletons.ir.literals import (
        as_arguments,
        integers_as_arguments,
        stored_as_arguments,
    )
    from treadle.skeletons.ir.narrow import narrow
    from treadle.skeletons.lower.lower import LoweringContext, lower

    from .codegen.fingerprint import fingerprints, targets_of, without

    settings = owner.program.settings
    context = LoweringContext(
        threads=threads.thread_count(), check=settings.check, schedule=schedule, across=across,
        strided=frozenset(leaf for leaf, *_ in layouts),
        steps=layouts,
        blocks=by_rows,
    )  # fmt: skip
    made = lower(lowered_as, context)
    access = access_of(lowered_as) if by_rows else None
    for change in (stored_as_arguments, as_arguments)[: 2 if repeated else 1]:
        made = replace(made, kernels=tuple(k.every(change) for k in made.kernels))
    slot_of, compiler = owner.slot_of, owner.host
    bound: dict[Expr, Expr] = {}  # scratch sizes may use scalars of any kernel
    for kernel in made.kernels:
        bound.update(kernel.hosts)
    sizes = Sizes.of(node, made, bound, slot_of)
    hosts = sizes.hosts
    passed: set[int] = set()  # parameters used only by kernels
    decided: list[Expr] = []
    launches: list[tuple[LaunchRecipe, ...]] = []
    kernels: list[tuple[Kernel, ...]] = []
    many = repeated and owner.device.repeated[place_of(node)] >= MANY
    differences = owner.device.differences if many else None
    for kernel in made.kernels:
        variants: list[LaunchRecipe] = []
        versions: list[Kernel] = []
        narrowed: Kernel | None = narrow(kernel, indices=False) or kernel
        while narrowed is not None:
            integers: tuple[int, ...] = ()
            if made_before is not None:
                integers = made_before.launches[len(launches)][len(variants)].integers
            elif differences is not None:
                integers = differences.of(narrowed, without)
            narrowed = integers_as_arguments(narrowed, integers)
            start = len(hosts)
            hosts += narrowed.scalar_values
            end = len(hosts)
            known: dict[Expr, Expr] = {**bound}
            known.update(narrowed.hosts)
            hosts += substitute([narrowed.tasks], known)
            buffers = [b for b in narrowed.buffers if b.role != "local"]
            sources = sources_of(buffers, made.scratch, lowered_as, slot_of)
            rows = None
            if access is not None and len(made.kernels) == 1:
                rows, values = _rows(kernel, narrowed, access, lowered_as, len(hosts))
                hosts += substitute(values, known)
            own = given(narrowed.scalar_values, compiler.param_index)
            targets = targets_of(narrowed)
            digests = [""] * len(targets)
            if not variants:
                found, functions = fingerprints(narrowed, targets, settings.fast_math)
                digests = digests if functions else found
            types = tuple(v.type.name for v in narrowed.scalars)
            variants.append(LaunchRecipe(tuple(digests), sources, start, end, types, own,
                                         compiler.plan((), narrowed.requires, known),
                                         narrowed.light, narrowed.in_order, integers,
                                         rows))  # fmt: skip
            versions.append(narrowed)
            decided += substitute(narrowed.requires, known)
            passed |= {start + position for position, _ in own}
            narrowed = narrowed.fallback
        launches.append(tuple(variants))
        kernels.append(tuple(versions))
    decided += [e for k, e in enumerate(hosts) if k not in passed]
    recipe = Recipe(compiler.plan(hosts), sizes.shapes, sizes.scratch, tuple(launches),
                    dependence(decided, compiler.param_index))  # fmt: skip
    return Lowered(recipe, tuple(kernels), sizes.fits, sizes.filled)


def _rows(kernel: Kernel, made: Kernel, access: Access, node: Node, value: int
          ) -> tuple[Rows | None, tuple[Expr, ...]]:  # fmt: skip
    """For passes, with its host values, the first of which is number `value`; `made` is `kernel` in
    32 bits."""
    blocks, size = kernel.blocks, -1
    if access.row is None:
        if blocks is None:
            return None, ()
        size = next((k for k, v in enumerate(kernel.scalars) if v is blocks.size), -1)
        if size < 0 or made.scalar_values[size] is not kernel.scalar_values[size]:
            return None, ()
    touched: list[tuple[int, int, bool, int, bool] | None] = []
    for b in made.buffers:
        if b.role == "scratch":
            return None, ()
        if b.role != "local":
            own = b.leaf.node is node
            rows = access.writes[b.leaf] if own else access.reads.get(b.leaf)
            touched.append(None if rows is None else (*rows, own))
    values: tuple[Expr, ...] = (constant(1), constant(1), access.row or constant(0))
    if blocks is not None and access.row is None:
        values = (blocks.extent, blocks.unit, constant(0))
    multiple = 1 if blocks is None or size < 0 else blocks.multiple
    return Rows(size, value, value + 1, value + 2, multiple, tuple(touched)), values


def place_of(node: Node) -> tuple[str, int]:
    """The basis of kernel names: the operation and the user's line."""
    return node.label.called, 0 if node.where is None else node.where.line


def repeated_places(roots: Sequence[Leaf]) -> dict[tuple[str, int], int]:
    """The source locations of several nodes, with their number: a Python loop was unrolled by
    tracing."""
    found = Counter(place_of(n) for n in topological(roots) if not isinstance(n, Input))
    return {place: count for place, count in found.items() if count > 1}


# --- keeping ---------------------------------------------------------------------------------

_memory = Recent[str, Recipe](256)
_disk = DiskCache(folder="recipes")


class Key(NamedTuple):
    """The hash of everything that a recipe depends on, and the program's slots; a cached recipe
    refers to a slot by its position here."""

    digest: str
    slots: tuple[int, ...]


def find(key: Key | None) -> Recipe | None:
    if key is None:
        return None
    found = _kept(key.digest)
    return None if found is None else found.moved(dict(enumerate(key.slots)))


def _kept(key: str) -> Recipe | None:
    found = _memory.get(key)
    if found is None:
        stored = _disk.get(key)
        if stored is None:
            return None
        try:
            found = Recipe.of(stored[1])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            _disk.drop(key)  # a valid file with other content
            return None
        _memory[key] = found
    return found


def keep(key: Key | None, made: Lowered) -> None:
    """Cache a recipe, if it alone suffices to run the node."""
    if key is not None and made.plain:
        recipe = made.recipe.moved({slot: k for k, slot in enumerate(key.slots)})
        _memory[key.digest] = recipe
        _disk.put(key.digest, b"", recipe.data())


def forget() -> None:
    """Clear the cache in memory (tests)."""
    _memory.clear()


def key_of(owner: NativeExecutor, lowered_as: Node, layouts: Layouts, schedule: Schedule | None,
           across: bool | None = None, repeated: bool = False, by_rows: bool = False
           ) -> Key | None:  # fmt: skip
    """The key of a recipe; None if it cannot be cached."""
    settings = owner.program.settings
    if settings.check:
        return None
    encoder = _NodeEncoder(owner)
    try:
        encoder.whole(lowered_as)
        strided = sorted((encoder.slot(leaf), *known) for leaf, *known in layouts)
        text = json.dumps([asdict(settings), threads.thread_count(), encoder.table, strided,
                           _schedule(schedule), len(encoder.params), across, repeated,
                           by_rows])  # fmt: skip
    except (TreadleError, _Unplaced):
        return None
    digest = hashlib.sha256(f"{machine.machine_key()}\n{text}".encode()).hexdigest()
    return Key(digest, tuple(encoder.numbered))


def _schedule(schedule: Schedule | None) -> dict[str, Any] | None:
    return None if schedule is None else as_schedule(schedule).to_dict()


class _Unplaced(Exception):
    """An array has no slot in the program, because it belongs to a schedule."""


class _NodeEncoder(Encoder):
    """One node as plain data.  Its inputs are represented by types, shapes and slots, which are
    `numbered` in order of first use.  What the user calls the node is only in texts."""

    def __init__(self, owner: NativeExecutor) -> None:
        super().__init__(owner.program.params, full=False)
        self._slots: Mapping[Leaf, int] = owner.planner.slots
        self.numbered: dict[int, int] = {}

    def _label(self, label: Label) -> list[Any]:
        schedule = None if label.schedule is None else label.schedule.to_dict()
        return [label.part, schedule, label.deterministic]

    def slot(self, leaf: Leaf) -> int:
        found = self._number(leaf)
        if found is None:
            raise _Unplaced
        return found

    def _number(self, leaf: Leaf) -> int | None:
        found = self._slots.get(leaf)
        return None if found is None else self.numbered.setdefault(found, len(self.numbered))

    def whole(self, node: Node) -> None:
        for leaf in node.inputs():
            self._given(leaf.node)
        self._node(node)

    def _input(self, node: Input) -> int:
        known = node in self.numbers
        number = super()._input(node)
        if not known:
            self.table[number].append(self.slot(node.leaf()))
        return number

    def _given(self, node: Node) -> None:
        if node in self.numbers:
            return
        if isinstance(node, Input):
            self._input(node)
            return
        outputs = []
        for leaf in node.leaves:
            for e in walk(leaf.shape):
                if isinstance(e, Read) and e.node is node:  # a loop that changes extents
                    self._add(e, ["last", e.component])
                elif e not in self.numbers:
                    self._expression(e, node)
            outputs.append([leaf.type.name, [self.numbers[e] for e in leaf.shape],
                            self._number(leaf)])  # fmt: skip
        self._add(node, ["given", outputs])

    def _expression(self, e: Expr, node: Node) -> None:
        if isinstance(e, Read):
            self._given(e.node)
        super()._expression(e, node)
