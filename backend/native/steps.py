"""Running one node: kernels compiled for the layout of its inputs, launched in order."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import TreadleError
from treadle.dsl.expr import Expr, Index, Read, walk
from treadle.dsl.graph import Branch, Fold, Generate, Label, Leaf, Node
from treadle.dsl.process.locks import cached
from treadle.dsl.process.workers import concurrently
from treadle.dsl.schedule import Schedule
from treadle.dsl.types import ALL_TYPES
from treadle.skeletons.ir.kernel import raise_failure
from treadle.skeletons.ir.specialise import computed

from ..runtime import steps
from ..runtime.host import HostFunction
from ..runtime.memory import address
from ..runtime.run import Params, Run, Slots, Unrecordable
from ..runtime.steps import Form
from ..runtime.types import HostArray, Numbers
from . import recipe
from .codegen.target import Target
from .forms import NativeForms, fixed_direction
from .layouts import NEIGHBOURS, Layout, Layouts, layouts_of
from .running import HostRun
from .runtime import code, threads
from .runtime.late import Extent, Growing, Late
from .runtime.structures import InstructionKind
from .runtime.tape import Branch as tape_branch, Copy, Failure, Fill, Launch as tape_launch, Tape

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

    from ..runtime.plan import Step
    from .executable import NativeExecutor

#: The approximate nanoseconds of work in a task.  The calling thread runs a few tasks alone first,
#: because waking another thread takes as long.  Light tasks take half the time.
TASK_WORK = 10_000.0

#: The most threads that compile at the same time: emitting code needs Python's lock.
MOST_COMPILERS = 8

#: An array whose elements are not read consecutively is copied if it has at least `WORTH_COPYING`
#: elements and at least `SEVERAL` reads.
WORTH_COPYING, SEVERAL = 1 << 15, 3

_TYPES = {t.name: t for t in ALL_TYPES}


class KernelStep(steps.KernelStep[HostRun, "NodeKernels", Layout]):
    """One node run by compiled kernels; small extents have separate kernels (`forms.py`)."""

    owner: NativeExecutor

    def __init__(
        self, owner: NativeExecutor, node: Node, expendable: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(owner, node, expendable)
        self._often: dict[Layout, bool] = {}

    def _forms(self) -> NativeForms:
        return NativeForms(self.owner, self.node)

    def kernels(self, made: Node, layouts: Layouts, schedule: Schedule | None) -> NodeKernels:
        return NodeKernels(self.owner, self.node, made, self.expendable, layouts, schedule)

    def layouts(self, run: HostRun) -> Layouts:
        return layouts_of(self.outside, run.slots, isinstance(self.node, Fold))

    def decided(self, run: HostRun) -> bool:
        """Whether the kernels are known, though nodes before this one may not have run."""
        extents = () if self.choosing is None else self.choosing.positions
        return self.forms.known(run) and run.has(slot for slot, _ in extents)

    def copied(self, run: HostRun, layouts: Layouts, form: Form) -> bool:
        if not self.movable:
            return bool(form) or self.choosing is None
        if not isinstance(self.node, Generate):
            return False
        large = [leaf for slot, leaf in self.outside if run.slots[slot].size >= WORTH_COPYING]
        return any(self.is_read_often(known) for known in layouts if known[0] in large)

    def is_read_often(self, layout: Layout) -> bool:
        """Whether several reads of such an array cross its rows, so that a copy pays."""
        found = self._often.get(layout)
        if found is None:
            leaf, axis, step, _ = layout
            last = Index(len(self.node.outputs[0].shape) - 1)
            reads = [e for e in walk(computed(self.node)) if isinstance(e, Read)]
            positions = [e.args[axis] for e in reads if Leaf(e.node, e.component) == leaf]
            near = 0 < abs(step) <= NEIGHBOURS
            scattered = [e for e in positions if not (near and last in walk((e,)))]
            found = self._often[layout] = len(scattered) >= SEVERAL
        return found

    def compiled(self) -> list[code.CompiledKernel]:
        """The kernels that ran; before the first call, the general kernels."""
        made = [v for (_, form, _), v in self.variants.items() if form]
        return [k for v in made or [self.dense] for k in v.compiled()]


class Computed:
    """A number that decides what runs next, computed by a kernel while operations are recorded."""

    def __init__(self, owner: NativeExecutor, e: Expr) -> None:
        node = Generate((), (e,), label=Label("decides"))
        self.slot = owner.planner.slot(node.leaf())
        self.kernels = KernelStep(owner, node)

    def __call__(self, run: HostRun) -> HostArray:
        self.kernels(run)
        return run.array(self.slot)


class BranchStep(steps.BranchStep):
    """A branch, of which both sides are recorded if data selects the side."""

    def __init__(self, owner: NativeExecutor, node: Branch, step: Step) -> None:
        super().__init__(owner, node, step)
        self.deciding = Computed(owner, node.predicate) if self.predicate.reads else None

    @property
    def ready(self) -> bool:
        return self.deciding is None

    def __call__(self, run: Run[Any]) -> None:
        assert isinstance(run, HostRun)
        if run.tape is None or self.deciding is None:
            super().__call__(run)
            return
        test, sides = self.deciding(run), []
        before = set(run.tape.arrays)
        for actions, results in self.sides:
            inner = run.inner()
            with run.tape.part() as operations:
                try:
                    for act in actions:
                        act(inner)
                except TreadleError as error:  # a failed check of a side that may never run
                    raise Unrecordable("a side that cannot run") from error
                sides.append((operations, [inner.dense(r) for r in results]))
        (then, left), (other, right) = sides
        own, taken = run.tape.made_since(before), set[int]()
        for target, x, y in zip(self.targets, left, right, strict=True):
            if isinstance(x, Growing) or isinstance(y, Growing) or x.shape != y.shape:
                raise Unrecordable("extents depend on data")
            if x is y:  # updated in place, or unchanged
                run.slots[target] = x
                continue
            # The first side's array can hold the result, unless it is also another result.
            made = x if id(x) in own and id(x) not in taken else run.new(x.shape, x.dtype)
            run.slots[target] = made
            taken.add(id(made))
            if made is not x:
                then.append(Copy(made, x))
            other.append(Copy(made, y))
        run.tape.operations.append(tape_branch(test, then, other))


class NodeKernels(steps.NodeKernels[HostRun, HostArray]):
    """The kernels of a node, from a cached recipe or from lowering it.

    `lowered_as` is the node, or its specialisation for the extents of one call.
    """

    def __init__(
        self,
        owner: NativeExecutor,
        node: Node,
        lowered_as: Node,
        expendable: frozenset[int],
        layouts: Layouts,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(owner, node, lowered_as, expendable)
        self.fast_math = owner.program.settings.fast_math
        way = fixed_direction(node, lowered_as)
        repeated = recipe.place_of(node) in owner.device.repeated and not self.fast_math
        by_rows = node in owner.device.by_rows and schedule is None
        lower = functools.partial(recipe.lowered, owner, node, lowered_as, layouts, schedule, way,
                                  repeated=repeated, by_rows=by_rows)  # fmt: skip
        key = recipe.key_of(owner, lowered_as, layouts, schedule, way, repeated, by_rows)
        found = recipe.find(key)
        lowering = Lowering(functools.partial(lower, made_before=found))
        self.errors = 0  # numbers of an error report; recipes with reports are never cached
        if found is None:
            made = lowering.made
            self.errors = max((k.errors for kernels in made.kernels for k in kernels), default=0)
            recipe.keep(key, made)
            found = made.recipe
            self._sized(found.shapes, found.scratch, made.fits, made.filled)
        else:
            self._sized(found.shapes, found.scratch, (), {})
        self.dependence = found.dependence
        self.contents = any(where for _, _, _, where in self.filled.values())
        self.launches: list[KernelLaunch | Choice] = []
        for position, choice in enumerate(found.launches):
            variants = [
                KernelLaunch(about, functools.partial(lowering.kernel, position, k))
                for k, about in enumerate(choice)
            ]
            self.launches.append(Choice(variants) if len(variants) > 1 else variants[0])
        self.launched = False
        self.hosted = found.host
        self.host = found.host.function()

    def compiled(self) -> list[code.CompiledKernel]:
        return [launch.usual.compiled(self.fast_math) for launch in self.launches]

    def values(self, run: HostRun) -> Numbers:
        if run.recording:
            if self.check or self.contents:
                raise Unrecordable("the contents of an array decide what runs")
            run.pinned |= self.dependence.params
            return run.evaluate(self.hosted, self.host)
        return self.host(run.slots, run.params)

    def launch(
        self, run: HostRun, outs: Sequence[HostArray], scratch: Sequence[HostArray], values: Numbers
    ) -> None:
        spaces = run.slots, outs, scratch
        if not self.launched and run.tape is None:
            self.launched = True
            if len(self.launches) > 1:
                compile_together(self._wanted(run, spaces, values))
        errors = np.zeros(self.errors, np.int64) if self.errors else None
        for one in self.launches:
            if run.tape is not None:
                for chosen, tasks in choices(one, run, values):
                    chosen.record(run.tape, spaces, values, tasks, self.fast_math, self.errors)
                continue
            launch = one.chosen(run.slots, run.params, values)
            launch.run(spaces, values, errors, self.fast_math)
            if errors is not None and errors[0]:
                raise_failure(launch.kernel, errors)

    def ahead(self, run: HostRun) -> Iterator[Job]:
        """The kernels that a call will launch, as far as known before it: which variants have tasks
        may depend on arrays that the program computes."""
        hosts = [self.hosted, *(test for one in self.launches for test in one.tests)]
        if not all(run.has(host.slots) for host in hosts):
            if len(self.launches) == 1:
                yield self.launches[0].usual, self.fast_math, False
            return
        values = self.host(run.slots, run.params)
        outs = [math.prod(run.extents(values[start:end])) * type_.itemsize
                for (start, end), type_ in zip(self.shapes, self.types, strict=True)]  # fmt: skip
        scratch = [int(values[at]) * type_.itemsize for at, type_, _ in self.scratch]
        for one in self.launches:
            launch = one.chosen(run.slots, run.params, values)
            if values[launch.end] > 0:
                yield launch, self.fast_math, launch.is_large(outs, scratch)

    def _wanted(self, run: HostRun, spaces: Spaces, values: Numbers) -> Iterator[Job]:
        for one in self.launches:
            launch = one.chosen(run.slots, run.params, values)
            if values[launch.end] > 0:
                yield launch, self.fast_math, launch.is_large(_sizes(spaces[1]), _sizes(spaces[2]))


class Lowering:
    """The kernels of a node, lowered (again) on first access."""

    def __init__(self, lower: Callable[[], recipe.Lowered]) -> None:
        self.lower = lower

    @cached
    def made(self) -> recipe.Lowered:
        return self.lower()

    def kernel(self, position: int, k: int) -> Kernel:
        """Variant `k` of the kernel of launch number `position`."""
        return self.made.kernels[position][k]


def _target(large: bool) -> Target:
    return Target.host() if large else Target.host().regular


#: The arrays of a launch: slots, outputs of the node, scratch (see `steps.sources_of`).
Spaces = tuple[Sequence[HostArray], Sequence[HostArray], Sequence[HostArray]]


class KernelLaunch:
    """One kernel of a step and the sources of its arguments (see `recipe.LaunchRecipe`).

    `kernel` is its IR, which is lowered on first access.
    """

    def __init__(self, about: recipe.LaunchRecipe, kernel: Callable[[], Kernel]) -> None:
        self.about, self._kernel = about, kernel
        self.sources, self.start, self.end = about.sources, about.start, about.end
        self.given = about.given
        self.in_order = about.in_order
        self.task_work = TASK_WORK / 2 if about.light else TASK_WORK
        #: The code without and with streaming stores, and idle launchers of each: a launcher serves
        #: one thread at a time.
        self._compiled: list[code.CompiledKernel | None] = [None, None]
        self._idle: tuple[list[code.Launcher], ...] = ([], [])
        self._joined = False  # whether it has been launched on several threads

    @property
    def kernel(self) -> Kernel:
        return self._kernel()

    @cached
    def requires(self) -> Callable[[Slots, Params], tuple[Any, ...]]:
        return self.about.requires.function()

    @property
    def usual(self) -> KernelLaunch:
        return self

    @property
    def tests(self) -> list[HostFunction]:
        return []

    def chosen(self, slots: Slots, params: Params, values: Numbers) -> KernelLaunch:
        return self

    def found(self, fast_math: bool, large: bool = False) -> bool:
        """Whether machine code exists already, in memory or on disk."""
        digest = self.about.digests[large]
        if self._compiled[large] is None and digest:
            cached = code.find(digest)
            if cached is not None:
                types = tuple(_TYPES[t] for t in self.about.types)
                self._compiled[large] = code.CompiledKernel(
                    self._kernel,
                    len(self.sources),
                    types,
                    fast_math,
                    *cached,
                    _target(large),
                    digest,
                )
        return self._compiled[large] is not None

    def compiled(self, fast_math: bool, large: bool = False) -> code.CompiledKernel:
        """The machine code; `large`: with streaming stores."""
        if self._compiled[large] is None and not self.found(fast_math, large):
            self.emitted(fast_math, large)()
        made = self._compiled[large]
        assert made is not None
        return made

    def emitted(self, fast_math: bool, large: bool) -> Callable[[], None]:
        """What LLVM has to do for the machine code, after this call."""
        from .codegen.compile import emitted

        finish = emitted(
            self.kernel, fast_math=fast_math, target=_target(large),
            digest=self.about.digests[large],
        )  # fmt: skip

        def compile_now() -> None:
            self._compiled[large] = finish()

        return compile_now

    def arrays(self, spaces: Spaces) -> list[HostArray]:
        return [spaces[space][k] for space, k in self.sources]

    def is_large(self, outs: Sequence[float], scratch: Sequence[float]) -> bool:
        """Whether an array that the kernel writes is so large that streaming stores may pay, given
        the bytes of the node's outputs and scratch."""
        if len(self.about.digests) < 2:
            return False
        limit, sizes = Target.host().streaming_bytes, ((), outs, scratch)
        return any(space and sizes[space][k] >= limit for space, k in self.sources)

    def run(
        self, spaces: Spaces, values: Numbers, errors: HostArray | None, fast_math: bool
    ) -> None:
        """Launch now; the kernel reports failures in `errors`."""
        tasks = values[self.end]
        if tasks <= 0:
            return
        arrays = self.arrays(spaces)
        large = self.is_large(_sizes(spaces[1]), _sizes(spaces[2]))
        idle = self._idle[large]
        try:
            launcher = idle.pop()
        except IndexError:
            launcher = self.compiled(fast_math, large).bind()
        work = tasks * self.task_work
        if not self._joined and tasks > 1 and work >= threads.SERIAL_WORK:
            # A program on the calling thread alone needs neither a team nor its machine code.
            threads.join_openmp()
            self._joined = True
        report = 0 if errors is None else address(errors)
        addresses = [address(a) for a in arrays]
        scalars = values[self.start : self.end]
        launcher(addresses, scalars, tasks, report, work, self.in_order)
        idle.append(launcher)

    def record(
        self,
        tape: Tape,
        spaces: Spaces,
        values: Numbers,
        tasks: Extent,
        fast_math: bool,
        errors: int,
    ) -> None:
        """Record on the tape what `run` would execute."""
        if isinstance(tasks, int) and tasks <= 0:
            return
        arrays = tuple(self.arrays(spaces))
        scalars = tuple(values[self.start : self.end])
        large = self.is_large(_sizes(spaces[1]), _sizes(spaces[2]))
        compiled, work = self.compiled(fast_math, large), self.task_work
        report = np.zeros(errors, np.int64) if errors else None
        rows = self.about.rows
        if rows is not None:
            extent, unit, row = (int(values[k]) for k in (rows.extent, rows.unit, rows.row))
            rows = rows._replace(extent=extent, unit=unit, row=row)
        launch = tape_launch(compiled, arrays, scalars, tasks, work, self.given, report,
                             self.in_order, rows, functools.partial(self.compiled, fast_math)
                             )  # fmt: skip
        if report is None:
            tape.operations.append(launch)
        else:
            tape.operations += (Fill(report), launch, Failure(report, self._kernel))


def _sizes(arrays: Sequence[HostArray]) -> list[float]:
    """The bytes of arrays; growing arrays count as large."""
    return [math.inf if isinstance(a, Growing) else a.nbytes for a in arrays]


#: A kernel, whether to use fast math, and whether its arrays are large.
Job = tuple[KernelLaunch, bool, bool]


def compile_together(wanted: Iterable[Job]) -> None:
    """Compile those that are in no cache, several at a time, and while the next ones are lowered
    and emitted: LLVM runs without locks, and Python in this thread alone."""
    cores = os.cpu_count() or 1
    if cores > 1:
        concurrently(_missing(wanted), min(cores, MOST_COMPILERS))


def _missing(wanted: Iterable[Job]) -> Iterator[Callable[[], None]]:
    """What compiles the kernels that are in no cache, each once."""
    seen: set[Any] = set()
    for launch, fast_math, large in wanted:
        key = launch.about.digests[large] or (id(launch), large)
        if key not in seen and not launch.found(fast_math, large):
            seen.add(key)
            yield launch.emitted(fast_math, large)


def choices(launch: KernelLaunch | Choice, run: HostRun, values: Numbers
            ) -> list[tuple[KernelLaunch, Extent]]:  # fmt: skip
    """The kernels to record for a launch, with their numbers of tasks.  If operations compute the
    values on which the choice of a variant depends, all variants are recorded, and all but one have
    no tasks at run time."""
    variants = launch.variants if isinstance(launch, Choice) else [launch]
    if not any(isinstance(values[v.end], Late) or any(
            isinstance(x, Late) for x in values[v.start : v.end]) for v in variants):  # fmt: skip
        if isinstance(launch, Choice):
            launch = launch.chosen(run.slots, run.params, values)
        return [(launch, int(values[launch.end]))]
    if not isinstance(launch, Choice):
        return [(launch, values[launch.end])]
    assert run.tape is not None
    found: list[tuple[KernelLaunch, Extent]] = []
    before: Extent = 1  # 1 if no earlier variant is valid
    for variant in variants:
        right = before
        for one in run.evaluate(variant.about.requires, variant.requires):
            if isinstance(one, Late):
                right = run.tape.apply(InstructionKind.BITWISE_AND, right, one)
            elif not one:
                right = 0
        if isinstance(right, int) and not right:
            continue
        tasks = values[variant.end]
        if isinstance(right, Late):
            tasks = run.tape.apply(InstructionKind.SELECT, right, tasks, 0)
        found.append((variant, tasks))
        if right is before:
            break
        before = run.tape.apply(InstructionKind.BITWISE_XOR, before, right)
    return found


class Choice:
    """Variants of a kernel, each with the conditions (`Kernel.requires`) under which it is correct.

    The first variant whose conditions hold runs.  The conditions are evaluated again when an
    integer scalar of the last variant, which is always correct, has changed.
    """

    def __init__(self, variants: list[KernelLaunch]) -> None:
        self.variants, self.about = variants, variants[0].about
        last = variants[-1].about
        #: The scalars that conditions may depend on.
        self.watched = [last.start + k for k, t in enumerate(last.types) if _TYPES[t].is_integer]
        self._last: tuple[list[Any] | None, KernelLaunch] = (None, variants[-1])

    @property
    def usual(self) -> KernelLaunch:
        """The variant for most arrays; other variants are compiled at their first launch."""
        return self.variants[0]

    @property
    def tests(self) -> list[HostFunction]:
        return [v.about.requires for v in self.variants]

    def chosen(self, slots: Slots, params: Params, values: Numbers) -> KernelLaunch:
        key = [values[k] for k in self.watched]
        known, launch = self._last
        if known != key:
            launch = next(v for v in self.variants if all(v.requires(slots, params)))
            self._last = key, launch
        return launch
