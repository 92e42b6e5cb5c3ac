"""Running one node: kernels compiled for the layout of its inputs, launched in order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.expr import Index, Read, walk
from treadle.dsl.graph import Fold, Generate, Leaf, Node, Permute, Scan
from treadle.dsl.locks import cached
from treadle.dsl.types import ALL_TYPES
from treadle.skeletons.ir.specialise import computed
from treadle.skeletons.schedules.own_orders import require_fits

from ..runtime.choosing import choosing
from ..runtime.memory import POOL, address
from . import recipe
from .calls import PLAIN, Form, Forms, given_way
from .layouts import DENSE, NEIGHBOURS, Layouts, layouts_of, row_major
from .runtime import code, threads
from .runtime.tape import Copy, Failure, Fill, Tape, Unrecordable
from .runtime.tape import Launch as tape_launch

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

#: Nanoseconds of work that the skeletons put into a task, roughly: a few tasks are done by the
#: calling thread alone, for waking another takes as long.  Light tasks are twice as short.
TASK_WORK = 10_000.0

#: Elements of an array, and places at which each of its elements is read, that make a copy worth
#: while where they are not read side by side.
WORTH_COPYING, SEVERAL = 1 << 15, 3

Slots = list[Any]
Params = Sequence[Any]


#: So many kernels for different small extents, at most; the others share one for all.
_SIZES = 8
_TYPES = {t.name: t for t in ALL_TYPES}


class KernelStep:
    """One node run by compiled kernels.

    Inputs that are not dense get a variant of their own, and so do small extents (`calls.py`).
    """

    def __init__(self, owner: Any, node: Node, expendable: frozenset[int] = frozenset()) -> None:
        self.owner, self.node, self.expendable = owner, node, expendable
        slots = owner.planner.slots
        self.forms = Forms(owner, node)
        read = dict.fromkeys(leaf for n in (node, *self.forms.inside) for leaf in n.inputs())
        outside = [leaf for leaf in read if slots[leaf] < len(owner.program.inputs)]
        self.outside = [(slots[leaf], leaf) for leaf in outside]
        self.variants: dict[tuple[Layouts, Form, Any], Variant] = {}
        self._often: dict[tuple[Leaf, int, int], bool] = {}
        self.choosing = choosing(owner, node)
        first = None if self.choosing is None else self.choosing.first(owner.program)
        self.first = first

    @cached
    def dense(self) -> Variant:
        """The kernels for dense inputs of any extents."""
        return self.variant(DENSE, PLAIN, self.first)

    def variant(self, layouts: Layouts, form: Form = PLAIN, schedule: Any = None) -> Variant:
        """The kernels for inputs that lie as `layouts` say, in a form, under a schedule (None: its
        own)."""
        found = self.variants.get((layouts, form, schedule))
        if found is None:
            if form.sizes and len(self.variants) > _SIZES:
                return self.variant(layouts, Form(form.loops), schedule)
            made = self.forms.made(form)
            found = Variant(self.owner, self.node, made, self.expendable, layouts, schedule)
            self.variants[layouts, form, schedule] = found
        return found

    def often(self, layout: tuple[Leaf, int, int]) -> bool:
        """Whether an array that lies so is read at several places, and not along its rows: it is
        copied once, then."""
        found = self._often.get(layout)
        if found is None:
            leaf, axis, step = layout
            last = Index(len(self.node.outputs[0].shape) - 1)
            reads = [e for e in walk(computed(self.node)) if isinstance(e, Read)]
            places = [e.args[axis] for e in reads if Leaf(e.node, e.component) == leaf]
            near = 0 < abs(step) <= NEIGHBOURS
            scattered = [e for e in places if not (near and last in walk((e,)))]
            found = self._often[layout] = len(scattered) >= SEVERAL
        return found

    def compiled(self) -> list[Any]:
        """The kernels that ran; before a first call those for all extents."""
        made = [v for (_, form, _), v in self.variants.items() if form]
        return [k for v in made or [self.dense] for k in v.compiled()]

    def taken_in(self, slots: Slots, params: Params) -> bool:
        """Whether the kernel that reads the results computes them, for these extents."""
        return self.forms.taken_in and self.node in self.forms.loops(slots, params)

    def __call__(self, slots: Slots, params: Params) -> None:
        if self.taken_in(slots, params):
            return
        variant = self.chosen(slots, params)
        if variant is not None:
            if len(slots) < self.owner.planner.count:
                self.owner.bring_tables(slots)
            variant(slots, params)
            return
        inputs = len(self.owner.program.inputs)
        whole = [row_major(a) if k < inputs else a for k, a in enumerate(slots)]
        dense = self.chosen(whole, params)
        assert dense is not None
        if len(whole) < self.owner.planner.count:
            self.owner.bring_tables(whole)
            self.owner.bring_tables(slots)
        dense(whole, params)
        for slot in dense.targets:
            slots[slot] = whole[slot]

    def record(self, tape: Tape, slots: Slots, params: Params) -> None:
        """What `__call__` would do, on the tape instead."""
        if self.taken_in(slots, params):
            return
        variant = self.chosen(slots, params)
        if variant is None:
            raise Unrecordable
        variant.record(tape, slots, params)

    def chosen(self, slots: Slots, params: Params) -> Variant | None:
        """The kernels for these arrays; None: those for dense copies of the inputs."""
        layouts = layouts_of(self.outside, slots)
        movable = isinstance(self.node, Generate | Fold | Scan)
        if layouts and isinstance(self.node, Generate):
            large = [leaf for slot, leaf in self.outside if slots[slot].size >= WORTH_COPYING]
            if any(self.often(known) for known in layouts if known[0] in large):
                return None
        schedule = None
        if self.choosing is not None:
            schedule = self.choosing(lambda slot: slots[slot].shape)
        if self.forms.several:
            form = self.forms.form(slots, params)
            if form and layouts and not movable:
                return None
            if form:
                return self.variant(layouts, form, None if form.loops else schedule)
        if self.choosing is not None:
            return self.variant(layouts, PLAIN, schedule)
        if not layouts:
            return self.dense
        return self.variant(layouts) if movable else None


class Variant:
    """Compiled kernels of a node: outputs allocated, arguments packed, launched in order.

    `lowered_as` is the node, or what it is for the extents of one call.
    """

    def __init__(
        self,
        owner: Any,
        node: Node,
        lowered_as: Node,
        expendable: frozenset[int],
        layouts: Layouts,
        schedule: Any = None,
    ) -> None:
        settings = owner.program.settings
        slots = owner.planner.slots
        self.node = node
        self.fast_math, self.check = settings.fast_math, settings.check
        self.targets = [slots[o] for o in node.leaves]
        self.types = [o.type.numpy for o in node.outputs]
        self.reuse: list[int | None] = [None] * len(self.targets)
        self.defaults: list[int] = []
        if isinstance(node, Permute):
            self.defaults = [slots[d] for d in node.defaults]
            for k, slot in enumerate(self.defaults):
                # Defaults that nobody else reads are updated in place.
                if slot in expendable:
                    self.reuse[k] = slot
        way = given_way(node, lowered_as)
        lower = functools.partial(recipe.lowered, owner, node, lowered_as, layouts, schedule, way)
        key = recipe.key_of(owner, lowered_as, layouts, schedule, way)
        found = recipe.find(key)
        lowering = Lowering(lower)
        self.fits: Sequence[tuple[Any, int, int]] = ()
        self.filled: Mapping[int, tuple[Any, int, int, Sequence[int]]] = {}
        self.errors = 0  # numbers that kernels report an error in; those that do are never kept
        if found is None:
            made = lowering.made
            self.errors = max((k.errors for kernels in made.kernels for k in kernels), default=0)
            recipe.keep(key, made)
            found, self.fits, self.filled = made.recipe, made.fits, made.filled
        self.shapes, self.dependence = found.shapes, found.dependence
        self.scratch = [(at, _TYPES[t].numpy, zeroed) for at, t, zeroed in found.scratch]
        self.launches: list[Launch | Choice] = []
        for place, choice in enumerate(found.launches):
            variants = [
                Launch(about, functools.partial(lowering.kernel, place, k))
                for k, about in enumerate(choice)
            ]
            self.launches.append(Choice(variants) if len(variants) > 1 else variants[0])
        self.host = found.host.function()

    def compiled(self) -> list[Any]:
        return [launch.compiled(self.fast_math) for launch in self.launches]

    def __call__(self, slots: Slots, params: Params) -> None:
        values = self.host(slots, params)
        if self.fits:
            require_fits(self.node, self.fits, values, self.check)
        outs = self._outputs(slots, values, POOL.allocate)
        for out, slot in zip(outs, self.defaults, strict=False):
            if out is not slots[slot]:
                np.copyto(out, slots[slot])
        scratch = self._scratch(slots, values, POOL.allocate)
        for array, (_, _, zeroed) in zip(scratch, self.scratch, strict=True):
            if zeroed:
                array.fill(0)
        if self.errors:
            self._run_checked(slots, outs, scratch, params, values)
        else:
            for one in self.launches:
                launch = one if isinstance(one, Launch) else one.chosen(slots, params, values)
                launch.run((slots, outs, scratch), values, 0, self.fast_math)
        for slot, array in zip(self.targets, outs, strict=True):
            slots[slot] = array

    def record(self, tape: Tape, slots: Slots, params: Params) -> None:
        """What `__call__` would do, on the tape instead."""
        contents = any(where for _, _, _, where in self.filled.values())
        if self.check or self.dependence.reads or contents:
            raise Unrecordable
        tape.pinned |= self.dependence.params
        values = self.host(slots, params)
        if self.fits:
            require_fits(self.node, self.fits, values, self.check)
        outs = self._outputs(slots, values, tape.new)
        for out, slot in zip(outs, self.defaults, strict=False):
            if out is not slots[slot]:
                if not slots[slot].flags.c_contiguous:
                    raise Unrecordable
                tape.operations.append(Copy(out, tape.named(slots, slot)))
        scratch = self._scratch(slots, values, tape.new)
        for array, (_, _, zeroed) in zip(scratch, self.scratch, strict=True):
            if zeroed:
                tape.operations.append(Fill(array))
        for one in self.launches:
            launch = one if isinstance(one, Launch) else one.chosen(slots, params, values)
            launch.record(tape, (slots, outs, scratch), values, self.fast_math, self.errors)
        for slot, array in zip(self.targets, outs, strict=True):
            slots[slot] = array

    def _outputs(self, slots: Slots, values: Sequence[Any], new: Callable[..., Any]) -> list[Any]:
        outs = []
        for (start, end), type_, reused in zip(self.shapes, self.types, self.reuse, strict=True):
            if reused is not None and _alone(slots, reused):
                outs.append(slots[reused])
                continue
            shape = tuple([v if v > 0 else 0 for v in values[start:end]])
            outs.append(new(shape, type_))
        return outs

    def _scratch(self, slots: Slots, values: Sequence[Any], new: Callable[..., Any]) -> list[Any]:
        scratch = []
        for number, (at, type_, _) in enumerate(self.scratch):
            if number in self.filled:
                make, start, end, where = self.filled[number]
                table = make(values[start:end], [slots[s] for s in where])
                scratch.append(np.ascontiguousarray(table))
            else:
                scratch.append(new((max(int(values[at]), 1),), type_))
        return scratch

    def _run_checked(
        self,
        slots: Slots,
        outs: list[Any],
        scratch: list[Any],
        params: Params,
        values: Sequence[Any],
    ) -> None:
        """Launch with a buffer for what fails, read after every kernel."""
        errors = np.zeros(self.errors, np.int64)
        for one in self.launches:
            launch = one if isinstance(one, Launch) else one.chosen(slots, params, values)
            launch.run((slots, outs, scratch), values, errors.ctypes.data, self.fast_math)
            if errors[0]:
                from treadle.skeletons.ir.failures import raise_failure

                raise_failure(launch.kernel, errors)


def _alone(slots: Slots, slot: int) -> bool:
    """Whether no other slot holds what a slot holds; arguments are held by slots of their own."""
    array = slots[slot]
    return sum(held is array for held in slots) == 1


class Lowering:
    """A node as kernels, lowered (again) when somebody asks for that."""

    def __init__(self, lower: Callable[[], recipe.Lowered]) -> None:
        self.lower = lower

    @cached
    def made(self) -> recipe.Lowered:
        return self.lower()

    def kernel(self, place: int, k: int) -> Kernel:
        """A kernel of a launch, by its place, and which of its variants."""
        return self.made.kernels[place][k]


class Launch:
    """One kernel of a step and where its arguments come from (see `recipe.LaunchRecipe`).

    `kernel` is its IR, which is made when it is asked for.
    """

    def __init__(self, about: recipe.LaunchRecipe, kernel: Callable[[], Kernel]) -> None:
        self.about, self._kernel = about, kernel
        self.sources, self.start, self.end = about.sources, about.start, about.end
        self.given = about.given
        self.task_work = TASK_WORK / 2 if about.light else TASK_WORK
        self._compiled: Any = None
        self._idle: list[Any] = []  # launchers: one per thread at a time

    @property
    def kernel(self) -> Kernel:
        return self._kernel()

    def found(self, fast_math: bool) -> bool:
        """Whether there is machine code already, in memory or on disk."""
        if self._compiled is None and self.about.digest:
            held = code.find(self.about.digest)
            if held is not None:
                types = tuple(_TYPES[t] for t in self.about.types)
                self._compiled = code.CompiledKernel(
                    self._kernel, len(self.sources), types, fast_math, *held
                )
        return self._compiled is not None

    def compiled(self, fast_math: bool) -> Any:
        if not self.found(fast_math):
            from .codegen.compile import compile_kernel

            self._compiled = compile_kernel(
                self.kernel, fast_math=fast_math, digest=self.about.digest
            )
        return self._compiled

    def run(
        self, spaces: tuple[list[Any], ...], values: Sequence[Any], errors: int, fast_math: bool
    ) -> None:
        tasks = values[self.end]
        if tasks <= 0:
            return
        addresses = [address(spaces[space][k]) for space, k in self.sources]
        try:
            launcher = self._idle.pop()
        except IndexError:
            threads.join_openmp()
            launcher = self.compiled(fast_math).bind()
        launcher(addresses, values[self.start : self.end], tasks, errors, tasks * self.task_work)
        self._idle.append(launcher)

    def record(
        self,
        tape: Tape,
        spaces: tuple[list[Any], ...],
        values: Sequence[Any],
        fast_math: bool,
        errors: int,
    ) -> None:
        """What `run` would do, on the tape instead."""
        tasks = values[self.end]
        if tasks <= 0:
            return
        slots = spaces[0]
        arrays = tuple(
            tape.named(slots, k) if space == 0 else spaces[space][k] for space, k in self.sources
        )
        scalars = tuple(values[self.start : self.end])
        compiled = self.compiled(fast_math)
        work = tasks * self.task_work
        if not errors:
            tape.operations.append(tape_launch(compiled, arrays, scalars, tasks, work, self.given))
            return
        told = np.zeros(errors, np.int64)
        tape.operations += (
            Fill(told),
            tape_launch(compiled, arrays, scalars, tasks, work, self.given, told),
            Failure(told, self._kernel),
        )


class Choice:
    """Variants of a kernel, each with the conditions (`Kernel.requires`) under which it is right.

    The first right one runs; it is looked for when a scalar of the last variant, the one for
    everything, has changed.
    """

    def __init__(self, variants: list[Launch]) -> None:
        self.variants, self.about = variants, variants[0].about
        last = variants[-1].about
        #: The scalars that conditions may be about.
        self.watched = [last.start + k for k, t in enumerate(last.types) if _TYPES[t].is_integer]
        self._last: tuple[list[Any] | None, Launch] = (None, variants[-1])

    @cached
    def conditions(self) -> list[Callable[[Slots, Params], tuple[Any, ...]]]:
        return [v.about.requires.function() for v in self.variants]

    def found(self, fast_math: bool) -> bool:
        return self.variants[0].found(fast_math)

    def compiled(self, fast_math: bool) -> Any:
        """The variant for most arrays; others are compiled when an array asks for them."""
        return self.variants[0].compiled(fast_math)

    def chosen(self, slots: Slots, params: Params, values: Sequence[Any]) -> Launch:
        """The variant for these scalars."""
        key = [values[k] for k in self.watched]
        known, launch = self._last
        if known != key:
            right = (all(test(slots, params)) for test in self.conditions)
            launch = next(v for v, r in zip(self.variants, right, strict=True) if r)
            self._last = key, launch
        return launch
