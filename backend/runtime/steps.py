"""Steps of a program: nodes run by compiled kernels, host scalars, checks, branches.

A step is a function of a run: it reads arrays from slots and stores its results in other slots.  A
node has several forms, selected by the extents of a call: short folds become loops in the kernels
that read them, and a kernel may be specialised for some extents.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from treadle.dsl.analysis.updates import defaults_of, overwrites
from treadle.dsl.expr import Expr, substitute
from treadle.dsl.graph import Branch, Check, Fold, Generate, Leaf, Library, Node, Scan
from treadle.dsl.graphs.relations import verify_checks
from treadle.dsl.libraries.base import is_builtin, parts_of
from treadle.dsl.operations.indexing.index_space import reshaped
from treadle.dsl.passes.short_folds import length
from treadle.dsl.process.locks import cached
from treadle.dsl.schedule import Schedule
from treadle.dsl.types import ALL_TYPES
from treadle.skeletons.schedules.user_orders import require_fits

from .choosing import choosing
from .run import A, HostValues, Run
from .types import DType, HostArray, Numbers

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Buffer, Lowered
    from treadle.skeletons.schedules.orders import Order

    from .executor import Executor
    from .plan import Step


NOTHING: frozenset[Node] = frozenset()


class Form(NamedTuple):
    """A form of a node: the folds that it computes as loops, and the extents that are constants."""

    loops: frozenset[Node] = NOTHING
    sizes: tuple[tuple[Expr, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.loops or self.sizes)


#: The general form, for all extents.
PLAIN = Form()


class Forms:
    """The forms of one node of a program."""

    def __init__(self, owner: Executor[Any], node: Node) -> None:
        self.node, self.short = node, owner.short
        self.inside = self.short.inside(node)
        #: Whether the kernel that reads this node may compute it instead.
        self.taken_in = node in self.short.reader
        self._values: HostValues | None = None
        if self.inside:
            self._worth = [c for f in self.inside for c in self.short.conditions(f)]
            self._values = HostValues(owner.host, (*map(length, self.inside), *self._worth))

    @property
    def several(self) -> bool:
        return bool(self.inside)

    def known(self, run: Run[Any]) -> bool:
        """Whether what the form depends on is known, though nodes before this one may not have
        run."""
        return self._values is None or run.has(self._values.hosted.slots)

    def loops(self, run: Run[Any]) -> frozenset[Node]:
        """The folds that are loops in this kernel, for the extents of a run; includes the node
        itself if its reader computes it."""
        if self._values is None:
            return NOTHING
        values = run.counts(self._values)
        count = len(self.inside)
        counts: dict[Node, int] = dict(zip(self.inside, values[:count], strict=True))
        holds = dict(zip(self._worth, values[count:], strict=True))
        return self.short.loops(self.node, counts.__getitem__, holds.__getitem__)

    def form(self, run: Run[Any], loops: frozenset[Node]) -> Form:
        """The form for the extents of a run, with these loops."""
        return Form(loops) if loops else PLAIN

    def made(self, form: Form) -> Node:
        return self.short.of(self.node, form.loops) if form.loops else self.node


#: A step: a function of the device's class of run.
Action = Callable[[Any], None]
R = TypeVar("R", bound=Run[Any])
K = TypeVar("K", bound="NodeKernels[Any, Any]")
Layout = TypeVar("Layout")
#: The maximum number of specialisations of a node; other extents share the general kernel.
_SIZES = 8
_TYPES = {t.name: t for t in ALL_TYPES}
#: Scratch arrays whose names have this prefix are initialised with zeros.
ZERO = "zero_"


class KernelStep(ABC, Generic[R, K, Layout]):
    """One node run by compiled kernels.

    There are separate kernels (`K`) for inputs that are not dense (`Layout` describes one), for
    small extents, and for the schedules chosen by extents.
    """

    def __init__(
        self, owner: Executor[Any], node: Node, expendable: frozenset[int] = frozenset()
    ) -> None:
        self.owner, self.node, self.expendable = owner, node, expendable
        self.forms = self._forms()
        self.slots = slots = owner.planner.slots
        count = len(owner.program.inputs)
        read = dict.fromkeys(leaf for n in (node, *self.forms.inside) for leaf in n.inputs())
        self.outside = [(slots[leaf], leaf) for leaf in read if slots[leaf] < count]
        self.movable = isinstance(node, Generate | Fold | Scan)
        self.variants: dict[tuple[frozenset[Layout], Form, Schedule | None], K] = {}
        self.choosing = choosing(owner, node)
        #: The arrays that the results reshape, if the node does nothing else.
        self.reshaped = None if expendable else reshaped(node)

    def _forms(self) -> Forms:
        return Forms(self.owner, self.node)

    @abstractmethod
    def kernels(self, made: Node, layouts: frozenset[Layout], schedule: Schedule | None) -> K:
        """The kernels of the node, whose specialisation for a call is `made`."""

    @abstractmethod
    def layouts(self, run: R) -> frozenset[Layout]:
        """The layouts of the inputs that are not dense."""

    def copied(self, run: R, layouts: frozenset[Layout], form: Form) -> bool:
        """Whether inputs with these layouts are copied instead of getting separate kernels."""
        return not self.movable

    @cached
    def dense(self) -> K:
        first = None if self.choosing is None else self.choosing.first(self.owner.program)
        return self.variant(frozenset(), PLAIN, first)

    def variant(
        self, layouts: frozenset[Layout], form: Form = PLAIN, schedule: Schedule | None = None
    ) -> K:
        """The kernels for input layouts, a form and a schedule (None: the node's own)."""
        found = self.variants.get((layouts, form, schedule))
        if found is None:
            if form.sizes and len(self.variants) > _SIZES:
                return self.variant(layouts, Form(form.loops), schedule)
            found = self.kernels(self.forms.made(form), layouts, schedule)
            self.variants[layouts, form, schedule] = found
        return found

    def chosen(self, run: R) -> tuple[K, bool] | None:
        """The kernels for the extents and layouts of a run, and whether they read dense copies of
        the inputs; None if the kernel that reads the results computes them."""
        form = PLAIN
        if self.forms.several:
            loops = self.forms.loops(run)
            if self.forms.taken_in and self.node in loops:
                return None
            form = self.forms.form(run, loops)
        layouts = self.layouts(run)
        copied = bool(layouts) and self.copied(run, layouts, form)
        if copied:
            layouts = frozenset()
        if self.choosing is not None:
            schedule = self.choosing(lambda slot: run.slots[slot].shape)
            return self.variant(layouts, form, None if form.loops else schedule), copied
        return self.variant(layouts, form) if layouts or form else self.dense, copied

    def __call__(self, run: R) -> None:
        chosen = self.chosen(run)
        if chosen is None:
            return
        kernels, copied = chosen
        inside = run.with_dense([slot for slot, _ in self.outside]) if copied else run
        if len(inside.slots) < len(self.slots):  # lowering added arrays of schedules
            self.owner.add_tables(inside)
        kernels(inside)
        if inside is not run:
            self.owner.add_tables(run)
            for slot in kernels.targets:
                run.slots[slot] = inside.slots[slot]


#: Of any device.
AnyKernelStep = KernelStep[Any, Any, Any]


class ReshapeStep:
    """Arrays in another shape: the same memory if they are dense, otherwise copies."""

    def __init__(self, kernels: AnyKernelStep, sources: Sequence[Leaf]) -> None:
        self.kernels, node = kernels, kernels.node
        self.sources = [kernels.slots[leaf] for leaf in sources]
        self.targets = [kernels.slots[leaf] for leaf in node.leaves]
        self.extents = HostValues(kernels.owner.host, node.outputs[0].shape)

    def __call__(self, run: Run[Any]) -> None:
        arrays = run.reshaped(self.sources, self.extents)
        if arrays is None:
            self.kernels(run)
            return
        for slot, array in zip(self.targets, arrays, strict=True):
            run.slots[slot] = array


def moving(kernels: AnyKernelStep) -> Action:
    """The step of a node with these kernels: a `ReshapeStep` if the node only reshapes arrays."""
    sources = kernels.reshaped
    return kernels if sources is None else ReshapeStep(kernels, sources)


#: Scratch that a host function fills: the function, the range of host values that are its
#: arguments, and the slots of its arrays.
Filled = tuple[Callable[[Sequence[Any], Sequence[HostArray]], HostArray], int, int, Sequence[int]]
#: An order that may be valid for some extents only, with the range of host values to test.
Fits = tuple["Order", int, int]


class Sizes(NamedTuple):
    """The values of a lowered node that the host computes before any launch.

    `hosts` are the expressions.  The other fields refer to ranges and positions in them: `shapes`
    of the outputs; `scratch` with (position of its size, type, whether it is zero-initialised);
    orders to test (`fits`); scratch that the host fills (`filled`), by its index.
    """

    hosts: list[Expr]
    shapes: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, str, bool], ...]
    fits: tuple[Fits, ...]
    filled: Mapping[int, Filled]

    @staticmethod
    def of(node: Node, lowered: Lowered, bound: Mapping[Expr, Expr],
           slot_of: Callable[[Leaf], int]) -> Sizes:  # fmt: skip
        """The sizes of `node`, which may depend on `bound`, the scalars of its kernels."""
        hosts: list[Expr] = []

        def put(expressions: Sequence[Expr]) -> tuple[int, int]:
            hosts.extend(expressions)
            return len(hosts) - len(expressions), len(hosts)

        shapes = tuple(put(out.shape) for out in node.outputs)
        first, _ = put(substitute([b.size for b in lowered.scratch], dict(bound)))
        scratch = tuple(
            (first + k, b.type.name, b.name.startswith(ZERO)) for k, b in enumerate(lowered.scratch)
        )
        fits = tuple((order, *put(substitute(grid, dict(bound)))) for order, grid in lowered.fits)
        numbers = {b: k for k, b in enumerate(lowered.scratch)}
        filled: dict[int, Filled] = {}
        for t in lowered.tables:
            where = [slot_of(leaf) for leaf in t.arrays]
            filled[numbers[t.buffer]] = (t.make, *put(t.values), where)
        return Sizes(hosts, shapes, scratch, fits, filled)


#: The sources of a kernel's arrays: a slot of the program, an output of its node, scratch.
SLOT, OUTPUT, SCRATCH = 0, 1, 2


def sources_of(
    buffers: Sequence[Buffer], scratch: Sequence[Buffer], node: Node, slot_of: Callable[[Leaf], int]
) -> tuple[tuple[int, int], ...]:
    """(SLOT, OUTPUT or SCRATCH, number) of each buffer of a kernel of `node`."""
    numbers = {b: k for k, b in enumerate(scratch)}
    return tuple(
        (SCRATCH, numbers[b]) if b in numbers
        else (OUTPUT, b.leaf.component) if b.leaf.node is node
        else (SLOT, slot_of(b.leaf))
        for b in buffers
    )  # fmt: skip


class NodeKernels(ABC, Generic[R, A]):
    """The kernels of a node for one layout of its inputs.  A call allocates the outputs, collects
    the arguments and launches the kernels in order."""

    #: See `Sizes`.
    shapes: Sequence[tuple[int, int]]
    fits: Sequence[Fits]
    filled: Mapping[int, Filled]

    def __init__(
        self, owner: Executor[Any], node: Node, lowered_as: Node, expendable: Set[int]
    ) -> None:
        slots = owner.planner.slots
        self.node, self.check = node, owner.program.settings.check
        self.targets = [slots[o] for o in node.leaves]
        self.types = [o.type.numpy for o in node.outputs]
        self.defaults = [slots[d] for d in defaults_of(node)]
        # Defaults without other readers are updated in place.
        self.reuse = [
            slot if slot in expendable and overwrites(lowered_as, leaf) else None
            for slot, leaf in zip(self.defaults, defaults_of(node), strict=False)
        ]
        self.reuse += [None] * (len(self.targets) - len(self.defaults))
        self.scratch: list[tuple[int, DType, bool]] = []

    def _sized(self, shapes: Sequence[tuple[int, int]], scratch: Sequence[tuple[int, str, bool]],
               fits: Sequence[Fits], filled: Mapping[int, Filled]) -> None:  # fmt: skip
        self.shapes, self.fits, self.filled = shapes, fits, filled
        self.scratch = [(at, _TYPES[t].numpy, zeroed) for at, t, zeroed in scratch]

    @abstractmethod
    def values(self, run: R) -> Numbers:
        """Compute the values that the host needs before any launch."""

    @abstractmethod
    def launch(self, run: R, outs: Sequence[A], scratch: Sequence[A], values: Numbers) -> None:
        """Launch every kernel."""

    def __call__(self, run: R) -> None:
        values = self.values(run)
        if self.fits:
            require_fits(self.node, self.fits, values, self.check)
        outs = []
        for (start, end), type_, reused in zip(self.shapes, self.types, self.reuse, strict=True):
            if reused is not None and run.alone(reused):
                outs.append(run.array(reused))
                continue
            outs.append(run.new(run.extents(values[start:end]), type_))
            if self.defaults:
                run.copy(outs[-1], self.defaults[len(outs) - 1])
        scratch = []
        for number, (at, type_, zeroed) in enumerate(self.scratch):
            if number in self.filled:
                make, start, end, where = self.filled[number]
                contents = [run.on_host(slot) for slot in where]
                scratch.append(run.constant(make(values[start:end], contents)))
                continue
            scratch.append(run.new(run.extents((values[at],), least=1), type_))
            if zeroed:
                run.clear(scratch[-1])
        self.launch(run, outs, scratch, values)
        for slot, array in zip(self.targets, outs, strict=True):
            run.slots[slot] = array


# --- steps without kernels -----------------------------------------------------------------------


class HostStep:
    """Scalars and predicates whose inputs are already on the host, where a launch would cost more.

    A kernel computes them instead if the host would have to wait or to stop recording for their
    inputs, or if a recording would be valid for only one value of a parameter.
    """

    def __init__(self, owner: Executor[Any], node: Generate) -> None:
        self.owner, self.node = owner, node
        self.values = HostValues(owner.host, node.elements)
        self.targets = [(owner.planner.slots[o], o.type.numpy) for o in node.leaves]
        params = owner.program.params
        self.inexact = any(params[k].type.is_inexact for k in self.values.params)

    @cached
    def kernels(self) -> AnyKernelStep:
        made: AnyKernelStep = self.owner.device.kernel_step(self.owner, self.node)
        return made

    @property
    def ready(self) -> bool:
        """Whether recording this step needs no compiler."""
        return "kernels" in self.__dict__ or not (self.values.reads or self.inexact)

    def __call__(self, run: Run[Any]) -> None:
        if (run.recording and self.inexact) or any(map(run.needs_sync, self.values.reads)):
            self.kernels(run)
            return
        for (slot, t), value in zip(self.targets, self.values(run), strict=True):
            run.slots[slot] = run.known(np.array(value, t))


class CheckStep:
    """A check of a relation between elements of arrays."""

    def __init__(self, owner: Executor[Any], check: Check) -> None:
        self.check = check
        self.values = HostValues(owner.host, (check.left, check.right))

    def __call__(self, run: Run[Any]) -> None:
        if not run.defer(self.check, self.values):
            verify(self.check, *self.values(run))


def verify(check: Check, left: Any, right: Any) -> None:
    """Raise the error of a check if these values of its sides violate it."""
    verify_checks((check,), lambda e: left if e is check.left else right)


class BranchStep:
    """Run the side of a branch that its predicate selects."""

    def __init__(self, owner: Executor[Any], node: Branch, step: Step) -> None:
        self.predicate = HostValues(owner.host, (node.predicate,))
        self.sides: list[tuple[list[Action], list[int]]] = [
            ([*(CheckStep(owner, c) for c in p.checks), *owner.actions_of(p)], p.results)
            for p in step.inner
        ]
        self.targets = [owner.planner.slots[o] for o in node.leaves]
        #: The results made by each side: only the targets refer to them after the step.
        self.spent = [
            {owner.planner.slots[o] for s in p.steps for o in s.node.leaves}.intersection(p.results)
            for p in step.inner
        ]

    def __call__(self, run: Run[Any]) -> None:
        which = 0 if self.predicate(run)[0] else 1
        actions, results = self.sides[which]
        for act in actions:
            act(run)
        for target, array in zip(self.targets, [run.dense(r) for r in results], strict=True):
            run.slots[target] = array
        for slot in self.spent[which]:
            run.slots[slot] = None


class LibraryStep(Generic[R]):
    """An operation on complete arrays, by a library on the host or a user's function."""

    def __init__(self, owner: Executor[Any], node: Library, function: Callable[..., Any]) -> None:
        slots = owner.planner.slots
        self.node, self.function, self.ours = node, function, is_builtin(node.operation)
        self.sources = [slots[a] for a in node.arguments]
        self.targets = [(slots[o], o.type.numpy) for o in node.leaves]
        self.extents = HostValues(owner.host, [e for o in node.outputs for e in o.shape])

    def _recorded(self, run: R, options: dict[str, Any]) -> bool:
        function, count = self.function, len(self.sources)
        extents, targets = list(run.extents(self.extents(run))), []
        for (slot, dtype), output in zip(self.targets, self.node.outputs, strict=True):
            rank = len(output.shape)
            targets.append((slot, tuple(extents[:rank]), dtype))
            del extents[:rank]

        def call(*arrays: Any) -> None:
            result = function(*arrays[:count], **options)
            parts = result if isinstance(result, tuple) else (result,)
            for made, part in zip(arrays[count:], parts, strict=True):
                np.copyto(made, part, casting="unsafe")

        return run.recorded(call, self.sources, targets)

    def parts(self, run: R, result: Any) -> Iterator[tuple[int, DType, Any]]:
        """The slots, types and arrays of the function's result."""
        operation, extents = self.node.operation, iter(self.extents(run))
        parts = parts_of(operation, result, extents, self.node.where)
        return ((*target, part) for target, part in zip(self.targets, parts, strict=True))

    def __call__(self, run: R) -> None:
        if not self.ours:
            run.refuse_recording("a function of the user's")
        operation, options = self.node.operation, {}
        if operation.sized:
            options = operation.options(self.extents(run)[: len(self.node.outputs[0].shape)])
        if self.ours and run.recording and self._recorded(run, options):
            return
        result = self.function(*[run.on_host(slot) for slot in self.sources], **options)
        if self.ours:  # treadle's own functions return the right shapes
            parts = result if isinstance(result, tuple) else (result,)
            for (slot, t), part in zip(self.targets, parts, strict=True):
                run.slots[slot] = run.known(np.array(part, t, order="C", copy=None))
            return
        made = list(self.parts(run, result))
        del result
        while made:
            slot, t, part = made.pop()
            if sys.getrefcount(part) == _ALONE and _is_whole(part):  # it cannot be written to later
                run.slots[slot] = np.asarray(part, t)
            else:
                run.slots[slot] = np.array(part, t, order="C", copy=True)
        run.mark_shared(self.sources)


def _is_whole(part: Any) -> bool:
    """Whether an array is a row-major NumPy array that owns its memory."""
    flags = part.flags if type(part) is np.ndarray else None
    return flags is not None and flags.owndata and flags.c_contiguous and flags.writeable


def _alone() -> int:
    """The `getrefcount` of a value with a single local reference."""
    made = [(0, np.empty(0))]
    _, part = made.pop()
    return sys.getrefcount(part)


_ALONE = _alone()


class BarrierStep:
    """Assign arrays to further slots, as dense arrays: (target, source) pairs."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self.pairs = tuple(pairs)

    def __call__(self, run: Run[Any]) -> None:
        for target, source in self.pairs:
            run.slots[target] = run.dense(source)


class ReleaseStep:
    """Clear slots that are not read any more."""

    def __init__(self, slots: Sequence[int]) -> None:
        self.released = tuple(slots)

    def __call__(self, run: Run[Any]) -> None:
        for slot in self.released:
            run.slots[slot] = None
