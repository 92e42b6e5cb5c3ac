"""Loops over arrays as one operation of a tape: native code makes the iterations.

One iteration is recorded.  Its state, and what it makes for the next state, are other arrays in
each iteration: the operation moves them between a few blocks (`runtime/tape.py`, `replay.c`), so
nothing is copied but a first value that iterations write to, and now and then a last value.  Loops
inside of the iteration are recorded with it.

A loop that is not part of the recording of a complete call is recorded alone, when Python has run
its first iterations, and again only for other extents.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl import locks
from treadle.dsl.expr import Apply, Param
from treadle.dsl.graph import ArrayLoop
from treadle.skeletons.ir.failures import raise_failure

from ..runtime import loops
from ..runtime.memory import POOL, address
from ..runtime.run import HostArray, Unrecordable
from .running import HostRun
from .runtime.replay import LARGEST, Code, usable
from .runtime.structures import Outcome
from .runtime.tape import Branch, Copy, Failure, Given, Loop, Operation, State, Tape, TooLarge
from .steps import Computed

if TYPE_CHECKING:
    from ..runtime.plan import Step
    from .executable import NativeExecutor

#: Iterations that Python runs before one is recorded: if all kernels are compiled, and if not.
EARLY, LATE = 4, 256
#: Recordings of one loop that are kept, and the bytes of each.
MOST, KEPT = 8, 1 << 20
_UNLIMITED = (1 << 63) - 1


class LoopStep(loops.LoopStep[HostRun]):
    """One `ArrayLoop`; native code runs most of its iterations (module docstring)."""

    def __init__(self, owner: NativeExecutor, node: ArrayLoop, step: Step) -> None:
        super().__init__(owner, node, step)
        self._native = True
        self._used = sorted(owner.planner.used(step))
        self._recordings: list[_Recording] = []  # those that no thread is using
        self._lock = locks.lock()
        self._counting = None
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

    # --- recorded ---

    def record(self, run: HostRun, tape: Tape, begun: Sequence[HostArray], limit: Given,
               first: int, free: Callable[[int], bool]) -> list[HostArray]:  # fmt: skip
        """Add the iterations from `first` on to a tape; returns the arrays of the last state.

        `begun` is the state before, of which iterations may write to part k if `free(k)`."""
        inner = run.inner()
        now = [array.view() for array in begun]
        for slot, array in zip(self.state, now, strict=True):
            inner.slots[slot] = array
        counter = None
        if self.index is not None:
            counter = inner.slots[self.index] = np.zeros((), np.int64)
        with tape.part() as look, tape.making() as tested:
            for act in self.look:
                act(inner)
        test = None if self.predicate is None else inner.slots[self.predicate]
        with tape.part() as once:
            for act in () if first else self.once:
                act(inner)
        with tape.part() as rest, tape.making() as renewed:
            for act in self.rest:
                act(inner)
            after = [inner.dense(r) for r in self.results[: len(now)]]
            written = _separate(now, after, tested | renewed, inner)
        made = list({id(a): a for a in after if not any(a is s for s in now)}.values())
        places = {id(a): k for k, a in enumerate(now)} | {id(a): ~k for k, a in enumerate(made)}
        states = []
        for k, array in enumerate(begun):
            source = places[id(after[k])]
            stays = source == k and (k not in written or free(k))
            result = None if stays else run.new(array.shape, array.dtype)
            states.append(State(now[k], array, result, k in written and not stays, source))
        tape.operations.append(Loop(first, limit, counter, test, look, once, rest, states, made))
        return [s.first if s.result is None else s.result for s in states]

    def _limit(self, run: HostRun) -> Given:
        """The number of iterations: also a parameter of the program, or what a kernel computes."""
        if self.count is None:
            return _UNLIMITED
        if self._counting is not None:
            return self._counting(run)
        (e,) = self.count.roots
        if isinstance(e, Apply) and e.op.name == "cast":
            (e,) = e.args
        if isinstance(e, Param) and e.type.name == "int64":
            return (self.owner.host.param_index[e],)
        return int(self.count(run)[0])

    # --- recorded alone ---

    def finish(self, run: HostRun, iteration: int, limit: int | None) -> bool:
        """Run the remaining iterations in native code, if one can be recorded."""
        left = _UNLIMITED if limit is None else limit - iteration
        if not self._native or iteration not in (0, EARLY, LATE) or left <= EARLY or not usable():
            return False
        recording = self._idle(run, iteration)
        if recording is None:
            if iteration == 0 and self._idle(run) is None:
                return False
            ready = all(getattr(act, "ready", True) for act in (*self.look, *self.rest))
            if iteration < LATE and not ready and (limit is None or left < LATE * 4):
                return False
            try:
                recording = _Recording(self, run, iteration)
            except TooLarge:
                return False
            except Unrecordable:
                self._native = False
                return False
        last = recording.run(run, _UNLIMITED if limit is None else limit)
        for slot, array in zip(self.state, last, strict=True):
            run.slots[slot] = array
        if recording.size <= KEPT:
            with self._lock:
                self._recordings.append(recording)
                del self._recordings[:-MOST]
        return True

    def _idle(self, run: HostRun, iteration: int | None = None) -> _Recording | None:
        """A recording for such a run, which is taken; with `iteration` None, one of any iteration,
        which is not."""
        with self._lock:
            for k, recording in enumerate(self._recordings):
                if iteration in (recording.first, None) and recording.fits(run):
                    return recording if iteration is None else self._recordings.pop(k)
        return None


def _separate(now: Sequence[HostArray], after: list[HostArray], own: Set[int], run: HostRun
              ) -> set[int]:  # fmt: skip
    """The parts of the state that iterations write to.  Each of them gets a next value of its own:
    `after` is changed to copies where that must be.  `own`: what an iteration makes."""
    assert run.tape is not None
    tape = run.tape
    places = {id(a): k for k, a in enumerate(now)}

    def copied(array: HostArray) -> HostArray:
        made = run.new(array.shape, array.dtype)
        tape.operations.append(Copy(made, array))
        return made

    for k, array in enumerate(after):
        if id(array) not in places and id(array) not in own:
            after[k] = copied(array)
    written = {k for k, a in enumerate(now) if id(a) in tape.overwritten}
    waiting = list(written)
    while waiting:
        k = waiting.pop()
        if sum(a is after[k] for a in after) > 1:
            after[k] = copied(after[k])
        elif (source := places.get(id(after[k]), k)) not in written:
            written.add(source)
            waiting.append(source)
    return written


class _Recording:
    """The iterations of a loop from `first` on, for arrays of these extents."""

    def __init__(self, loop: LoopStep, run: HostRun, first: int) -> None:
        self.first, self._state = first, loop.state
        self._slots = sorted({*loop._used, *loop.state})
        tape = Tape(LARGEST)
        inner = HostRun(list(run.slots), run.params, tape)
        inputs = {}
        for slot in self._slots:
            array = run.slots[slot]
            if array is not None:
                inputs[slot] = inner.slots[slot] = array.view()
        begun = [inputs[slot] for slot in loop.state]
        results = loop.record(inner, tape, begun, (_LIMIT,), first, lambda k: False)
        if any(a.nbytes and not a.flags.c_contiguous for a in begun):
            raise Unrecordable
        self.size = tape.size
        self._pinned = [(k, run.params[k]) for k in inner.pinned | tape.pinned]
        self._forms = [_form(run.slots[slot]) for slot in self._slots]
        made = {id(r): r for r in results if tape.made(r)}
        code = self._code = Code(tape, (*inputs.values(), *made.values()))
        self._inputs = [(slot, code.words[id(a)]) for slot, a in inputs.items()]
        self._results = [(r.shape, r.dtype, code.words[id(r)]) if id(r) in made else None
                         for r in results]  # fmt: skip
        self._numbers = [(k, words) for k, words in code.of_numbers.items() if k != _LIMIT]
        self._limits = code.of_numbers.get(_LIMIT, [])
        self._failures = list(failures(tape.operations))

    def fits(self, run: HostRun) -> bool:
        """Whether it is right for the arrays and parameters of a run."""
        return all(run.params[k] == value for k, value in self._pinned) and self._forms == [
            _form(run.slots[slot]) for slot in self._slots
        ]

    def run(self, run: HostRun, limit: int) -> list[HostArray]:
        """The state after the last iteration."""
        for slot, words in self._inputs:
            _write(words, address(run.slots[slot]))
        for number, words in self._numbers:
            value = run.params[number]
            (bits,) = struct.unpack(
                "=q", struct.pack("=d" if type(value) is float else "=q", value)
            )
            _write(words, bits)
        _write(self._limits, limit)
        last = []
        for slot, result in zip(self._state, self._results, strict=True):
            if result is None:
                last.append(run.slots[slot])
                continue
            shape, dtype, words = result
            last.append(POOL.allocate(shape, dtype))
            _write(words, address(last[-1]))
        if self._code.run() is Outcome.FAILED:
            for failure in self._failures:
                if failure.errors[0]:
                    raise_failure(failure.kernel(), failure.errors)
        return last


#: What stands for the number of iterations among the numbers of parameters.
_LIMIT = -1


def _form(array: HostArray | None) -> object:
    return None if array is None else (array.shape, array.strides)


def _write(words: Sequence[int], bits: int) -> None:
    for word in words:
        ctypes.c_int64.from_address(word).value = bits


def failures(operations: Sequence[Operation]) -> Iterator[Failure]:
    """Those of all launches."""
    for op in operations:
        match op:
            case Failure():
                yield op
            case Loop():
                yield from failures((*op.look, *op.once, *op.rest))
            case Branch():
                yield from failures((*op.then, *op.other))
