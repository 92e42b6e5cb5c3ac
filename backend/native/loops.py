"""Loops over arrays as one operation of a tape: native code runs the iterations.

One iteration is recorded.  Its state and next state are different arrays in each iteration: the
operation rotates them among a few blocks (`runtime/tape.py`, `replay.c`), so nothing is copied
except a first value that iterations write to and, sometimes, a last value.  Inner loops are
recorded with the iteration.

A loop that is not part of the recording of a complete call is recorded alone after Python has run
its first iterations, and again only for other extents.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.errors import DeviceOutOfMemory
from treadle.dsl.expr import Apply, Expr, Param, Read, walk
from treadle.dsl.graph import ArrayLoop
from treadle.dsl.process import locks
from treadle.skeletons.ir.kernel import raise_failure

from ..runtime import loops
from ..runtime.memory import POOL, address
from ..runtime.run import HostValues, Unrecordable
from ..runtime.types import HostArray
from .merged import merge
from .passes import pass_of
from .running import HostRun
from .runtime.late import Growing, Instruction, Late
from .runtime.lending import Lending, Place
from .runtime.replay import Code, fill, usable, write
from .runtime.structures import InstructionKind, Outcome
from .runtime.tape import (
    UNLIMITED,
    Branch,
    Copy,
    Failure,
    Given,
    Loop,
    Operation,
    State,
    Tape,
    TooLarge,
)
from .steps import Computed

if TYPE_CHECKING:
    from ..runtime.plan import Step
    from .executable import NativeExecutor

#: Iterations that Python runs before recording one: if all kernels are compiled, and otherwise.
EARLY, LATE = 4, 256
#: Compiling a small kernel takes as long as this many iterations in Python.
COMPILED = 64
#: Launches from which a loop that is recorded alone is compiled as a whole.
ALONE = 200_000
#: Recordings of one loop that are kept.
MOST = 8
#: The maximum bytes of arrays that one loop's iterations write, except for growing arrays.
LARGEST = POOL.limit // 2


class LoopStep(loops.LoopStep[HostRun]):
    """One `ArrayLoop`; native code runs most of its iterations (module docstring)."""

    def __init__(self, owner: NativeExecutor, node: ArrayLoop, step: Step) -> None:
        super().__init__(owner, node, step)
        self._native = True
        self._used = sorted(owner.planner.used(step))
        self._recordings: list[_Recording] = []  # those that no thread is using
        self._made = 0  # iterations that Python ran, in all runs: of loops in loops there are many
        self._recorded = False  # once, for any extents: later calls run no iteration in Python
        self._lock = locks.lock()
        self._counting = None
        #: The extents of the state's arrays that change their extents, and those of the last state.
        self.varying = {
            k: HostValues(owner.host, state.leaf().shape)
            for k, state in enumerate(node.state)
            if varies(state.leaf().shape, node)
        }
        self.last = {k: HostValues(owner.host, node.leaves[k].shape) for k in self.varying}
        if node.count is not None and self.count is not None and self.count.reads:
            self._counting = Computed(owner, node.count)

    def __call__(self, run: HostRun) -> None:
        if run.tape is None:
            super().__call__(run)
            return
        begun = [run.dense(i) for i in self.init]

        def free(k: int) -> bool:
            return self.init[k] in self.expendable and run.alone(self.init[k])

        results = self.record(run, run.tape, begun, self._limit(run), 0, free)
        for slot, array in zip(self.targets, results, strict=True):
            run.slots[slot] = array
        _measure(run, results, self.last)

    # --- recorded ---

    def record(self, run: HostRun, tape: Tape, begun: Sequence[HostArray], limit: Given,
               first: int, free: Callable[[int], bool]) -> list[HostArray]:  # fmt: skip
        """Add the iterations from `first` on to a tape; return the arrays of the last state.

        `begun` is the initial state; iterations may write to its array k if `free(k)`."""
        inner = run.inner()
        now: list[HostArray] = []
        for k, array in enumerate(begun):
            if isinstance(array, Growing) and k not in self.varying and free(k):
                now.append(array)
                inner.slots[self.init[k]] = None  # the state alone refers to it
                continue
            grows = k in self.varying or isinstance(array, Growing)
            now.append(tape.copied(array, growing=True) if grows else array.view())
        for slot, array in zip(self.state, now, strict=True):
            inner.slots[slot] = array
        counter = None
        if self.index is not None:
            counter = inner.slots[self.index] = np.zeros((), np.int64)
        before = set(tape.arrays)
        with tape.part() as testing:
            _measure(inner, now, self.varying)
            for act in self.testing:
                act(inner)
        tested = tape.made_since(before)
        test = None if self.predicate is None else inner.slots[self.predicate]
        with tape.part() as once:
            for act in () if first else self.once:
                act(inner)
        before = set(tape.arrays)
        with tape.part() as rest:
            if test is None:
                _measure(inner, now, self.varying)
            for act in self.rest:
                act(inner)
            after = [inner.dense(r) for r in self.results[: len(now)]]
            own = tested | tape.made_since(before)
            exchanged = _exchanged(now, after, own, tape)
            fixed = [k for k, a in enumerate(now) if not isinstance(a, Growing)]
            stable, following = [now[k] for k in fixed], [after[k] for k in fixed]
            written = _separate(stable, following, own, inner)
        made = list({id(a): a for a in following if not any(a is s for s in stable)}.values())
        where = {id(a): k for k, a in enumerate(stable)} | {id(a): ~k for k, a in enumerate(made)}
        states, results = [], now
        for k, (part, state) in enumerate(zip(fixed, stable, strict=True)):
            source, array = where[id(following[k])], begun[part]
            stays = source == k and (k not in written or free(part))
            result = None if stays else run.new(array.shape, array.dtype)
            states.append(State(state, array, result, k in written and not stays, source))
            results[part] = array if result is None else result
        passes = None
        if test is None and not testing and not exchanged and len(stable) == len(now):
            passes = pass_of(rest, stable, made, counter)
        tape.operations.append(
            Loop(first, limit, counter, test, testing, once, rest, states, made, exchanged, passes)
        )
        return results

    def _limit(self, run: HostRun) -> Given:
        """The number of iterations: also a parameter of the program, or what operations compute."""
        if self.count is None:
            return UNLIMITED
        if self._counting is not None:
            return self._computed(run, self._counting)
        (e,) = self.count.roots
        if isinstance(e, Apply) and e.op.name == "cast":
            (e,) = e.args
        if isinstance(e, Param) and e.type.name == "int64":
            return (self.owner.host.param_index[e],)
        return int(self.count(run)[0])

    def _computed(self, run: HostRun, kernel: Computed) -> Given:
        """A number of iterations that depends on data, by instructions if there are some for it."""
        assert self.count is not None and run.tape is not None
        if self.count.params:  # which may change from call to call
            return kernel(run)
        try:
            (number,) = run.evaluate(self.count.hosted, self.count.plain)
        except Unrecordable:
            return kernel(run)
        if not isinstance(number, Late):
            return int(number)
        found = run.new((), np.dtype(np.int64))
        run.tape.code.append(Instruction(InstructionKind.STORE, found, number.register))
        return found

    # --- recorded alone ---

    def finish(self, run: HostRun, iteration: int, limit: int | None) -> bool:
        """Run the remaining iterations in native code, if one can be recorded."""
        end = UNLIMITED if limit is None else limit
        left = end - iteration
        self._made += 1
        if not self._native or iteration not in (0, EARLY, LATE) or left <= EARLY or not usable():
            return False
        recording = self._idle(run, iteration)
        if recording is None:
            if iteration == 0 and not (self._recorded and limit is not None):
                if self._idle(run) is None:
                    return False
            waiting = sum(not getattr(act, "ready", True) for act in (*self.testing, *self.rest))
            enough = min(LATE * 4, waiting * COMPILED)
            if iteration < LATE and waiting and (limit is None or left + self._made < enough):
                return False
            try:
                recording = _Recording(self, run, iteration, self._own(run), end)
                if recording.may_fail and recording.own:  # Python repeats what failed
                    recording = _Recording(self, run, iteration, frozenset(), end)
            except TooLarge:
                return False
            except Unrecordable:
                self._native = False
                return False
        self._recorded = True
        last = recording.run(run, end)
        if last is None:  # Python comes to the iteration that fails, and knows where
            self._native = False
            return False
        for slot, array in zip(self.state, last, strict=True):
            run.slots[slot] = array
        with self._lock:
            self._recordings.append(recording)
            del self._recordings[:-MOST]
        return True

    def _own(self, run: HostRun) -> frozenset[int]:
        """The arrays of the state without other references, which iterations may overwrite."""
        return frozenset(k for k, slot in enumerate(self.state) if run.alone(slot))

    def _idle(self, run: HostRun, iteration: int | None = None) -> _Recording | None:
        """Take a recording that fits the run and starts at `iteration`.  With `iteration` None:
        find one that fits, whatever its first iteration, without taking it."""
        with self._lock:
            for k, recording in enumerate(self._recordings):
                if iteration in (recording.first, None) and recording.fits(run):
                    return recording if iteration is None else self._recordings.pop(k)
        return None


def _measure(run: HostRun, arrays: Sequence[HostArray], shapes: Mapping[int, HostValues]) -> None:
    """Compute the extents of the state's arrays that change their extents."""
    for k, shape in shapes.items():
        array = arrays[k]
        assert isinstance(array, Growing)
        array.extents = run.extents(run.evaluate(shape.hosted, shape.plain))


def varies(shape: Sequence[Expr], loop: ArrayLoop) -> bool:
    """Whether extents depend on the state of a loop."""
    return any(isinstance(e, Read) and e.node in loop.bound for e in walk(shape))


def _exchanged(now: Sequence[HostArray], after: list[HostArray], own: Set[int], tape: Tape
               ) -> list[tuple[Growing, Growing]]:  # fmt: skip
    """The growing arrays of the state, each with the array that holds its next value.  Copies are
    inserted into `after` where a next value needs separate memory."""
    pairs: dict[int, tuple[Growing, Growing]] = {}
    for k, state in enumerate(now):
        made = after[k]
        if not isinstance(state, Growing):
            if isinstance(made, Growing):
                raise Unrecordable("extents depend on data")
            continue
        if made is state:
            continue
        if not isinstance(made, Growing) or id(made) not in own or id(made) in pairs:
            made = after[k] = tape.copied(made, growing=True)
        assert isinstance(made, Growing)
        pairs[id(made)] = state, made
    return list(pairs.values())


def _separate(now: Sequence[HostArray], after: list[HostArray], own: Set[int], run: HostRun
              ) -> set[int]:  # fmt: skip
    """The positions of the state's arrays that iterations write to.  Copies are inserted into
    `after` so that each of them has a separate next value.  `own`: the arrays that an iteration
    makes."""
    assert run.tape is not None
    tape = run.tape
    where = {id(a): k for k, a in enumerate(now)}

    def copied(array: HostArray) -> HostArray:
        made = run.new(array.shape, array.dtype)
        tape.operations.append(Copy(made, array))
        return made

    for k, array in enumerate(after):
        if id(array) not in where and id(array) not in own:
            after[k] = copied(array)
    written = {k for k, a in enumerate(now) if id(a) in tape.overwritten}
    waiting = list(written)
    while waiting:
        k = waiting.pop()
        if sum(a is after[k] for a in after) > 1:
            after[k] = copied(after[k])
        elif (source := where.get(id(after[k]), k)) not in written:
            written.add(source)
            waiting.append(source)
    return written


class _Recording:
    """The iterations of a loop from `first` on, for arrays of these extents.  They write to the
    arrays `own` of the state."""

    def __init__(self, loop: LoopStep, run: HostRun, first: int, own: frozenset[int],
                 limit: int) -> None:  # fmt: skip
        self.first, self.own, self._state = first, own, loop.state
        self._slots = sorted({*loop._used, *loop.state})
        tape = Tape(LARGEST, lent=True)
        inner = HostRun(list(run.slots), run.params, tape)
        inputs = {}
        self._varying = {loop.state[k]: shape for k, shape in loop.varying.items()}
        for slot in self._slots:
            array = run.slots[slot]
            if slot in self._varying:
                inner.slots[slot] = Growing.of(array.shape, array.dtype)
            elif array is not None:
                inputs[slot] = inner.slots[slot] = array.view()
        begun = [inner.slots[slot] for slot in loop.state]
        results = loop.record(inner, tape, begun, (_LIMIT,), first, own.__contains__)
        if any(a.nbytes and not a.flags.c_contiguous for a in inputs.values()
               if any(a is b for b in begun)):  # fmt: skip
            raise Unrecordable
        used = *inputs.values(), *results
        merge(tape, used, loop.owner.device.merged, {_LIMIT: limit}, ALONE)
        self._pinned = [(k, run.params[k]) for k in inner.pinned | tape.pinned]
        self._forms = self._formed(run)
        made = {id(r): r for r in results if tape.made(r) and not isinstance(r, Growing)}
        moving = (
            *inputs.values(),
            *(a for a in tape.arrays.values() if not isinstance(a, Growing)),
        )
        code = self._code = Code(tape, moving)
        code.let_go(moving)
        self._memory = Lending(
            [Place(a.nbytes, code.homes.get(id(a), code.words[id(a)]))
             for a in moving[len(inputs):] if id(a) not in made],
            [(memory, code.words[a]) for a, memory in code.memories.items()],
        )  # fmt: skip
        self._inputs = [(slot, code.words[id(a)]) for slot, a in inputs.items()]
        self._results = [(r.shape, r.dtype, code.words[id(r)]) if id(r) in made else None
                         for r in results]  # fmt: skip
        self._begun = {slot: code.memories[id(inner.slots[slot])] for slot in self._varying}
        self._grown = {slot: (r.dtype, code.memories[id(r)])
                       for slot, r in zip(loop.state, results, strict=True)
                       if isinstance(r, Growing)}  # fmt: skip
        self._numbers = {*code.of_numbers, *code.of_halves} - {_LIMIT}
        self._limits = code.of_numbers.get(_LIMIT, [])
        self._failures = list(failures(tape.operations))

    def fits(self, run: HostRun) -> bool:
        """Whether it is valid for the arrays and parameters of a run."""
        return (
            all(run.params[k] == value for k, value in self._pinned)
            and self._forms == self._formed(run)
            and all(run.alone(self._state[k]) for k in self.own)
        )

    @property
    def may_fail(self) -> bool:
        return bool(self._failures)

    def _formed(self, run: HostRun) -> list[object]:
        return [None if s in self._varying else _form(run.slots[s]) for s in self._slots]

    def run(self, run: HostRun, limit: int) -> list[HostArray] | None:
        """The state after the last iteration; None if native code cannot run one of them."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._memory.held())
            except DeviceOutOfMemory:  # Python gives back in an iteration what it has read
                return None
            return self._run(run, limit)

    def _run(self, run: HostRun, limit: int) -> list[HostArray] | None:
        for slot, memory in self._begun.items():
            fill(memory, run.slots[slot])
        for slot, words in self._inputs:
            write(words, address(run.slots[slot]))
        for number in self._numbers:
            self._code.give(number, run.params[number])
        write(self._limits, limit)
        last = []
        for slot, result in zip(self._state, self._results, strict=True):
            if result is None:
                last.append(run.slots[slot])
                continue
            shape, dtype, words = result
            last.append(POOL.allocate(shape, dtype))
            write(words, address(last[-1]))
        if self._code.run() is Outcome.FAILED:
            for failure in self._failures:
                if failure.errors[0]:
                    raise_failure(failure.kernel(), failure.errors)
            return None
        for k, slot in enumerate(self._state):
            if slot in self._grown:
                last[k] = self._taken(slot, run, last)
        return last

    def _taken(self, slot: int, run: HostRun, last: Sequence[HostArray]) -> HostArray:
        """The last value of a growing array of the state."""
        dtype, memory = self._grown[slot]
        slots = list(run.slots)
        for position, array in zip(self._state, last, strict=True):
            slots[position] = array
        shape = tuple([max(int(n), 0) for n in self._varying[slot].plain(slots, run.params)])
        taken: HostArray = POOL.allocate(shape, dtype)
        assert taken.nbytes == memory.size
        ctypes.memmove(address(taken), memory.address, memory.size)
        return taken


#: A parameter number that stands for the trip count.
_LIMIT = -1


def _form(array: HostArray | None) -> object:
    return None if array is None else (array.shape, array.strides)


def failures(operations: Sequence[Operation]) -> Iterator[Failure]:
    """The failure checks of all launches."""
    for op in operations:
        match op:
            case Failure():
                yield op
            case Loop():
                yield from failures((*op.testing, *op.once, *op.rest))
            case Branch():
                yield from failures((*op.then, *op.other))
