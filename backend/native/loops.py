"""Loops over arrays: Python runs the first iterations, native code runs the others.

One iteration is recorded.  An iteration must not write to memory that it still reads, so the state
rotates through several sets of arrays.  After a few iterations the state is in its first set again.
The iterations of this period are the phases that native code repeats, some thousands per call, so
that Python can handle interrupts between calls.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import ArrayLoop

from ..runtime import loops
from ..runtime.memory import POOL, address
from ..runtime.run import Slots, Unrecordable
from .running import HostRun
from .runtime import modules
from .runtime.replay import LARGEST, fill, usable
from .runtime.structures import Operation, OperationKind, Phase
from .runtime.tape import Failure, Tape, TooLarge

if TYPE_CHECKING:
    from ..runtime.plan import Step
    from .executable import NativeExecutor

#: Iterations that Python runs before one is recorded: if all kernels are compiled, and if not.
EARLY, LATE = 4, 256
#: The longest period after which the state is in the same arrays again.
LONGEST = 12
#: Seconds of native code between two checks for interrupts.
BREATH = 5e-3
_UNLIMITED = 1 << 62


class LoopStep(loops.LoopStep[HostRun]):
    """One `ArrayLoop`; native code runs most of its iterations (module docstring)."""

    def __init__(self, owner: NativeExecutor, node: ArrayLoop, step: Step) -> None:
        super().__init__(owner, node, step)
        self._native = True

    def __call__(self, run: HostRun) -> None:
        run.refuse_recording("a loop inside of what is recorded")
        super().__call__(run)

    def finish(self, run: HostRun, iteration: int, limit: int | None) -> bool:
        """Run the remaining iterations in native code, if one can be recorded."""
        left = _UNLIMITED if limit is None else limit - iteration
        if not self._native or iteration not in (EARLY, LATE) or left <= EARLY:
            return False
        ready = all(getattr(act, "ready", True) for act in (*self.look, *self.rest))
        if iteration == EARLY and not ready and (limit is None or left < LATE * 4):
            return False
        try:
            phases = _Phases(self, run)
        except TooLarge:
            return False
        except Unrecordable:
            self._native = False
            return False
        last = _UNLIMITED if limit is None else limit
        for s, array in zip(self.state, phases.run(iteration, last), strict=True):
            run.slots[s] = array
        return True


@functools.lru_cache(maxsize=1)
def _turns() -> Any:
    types = (ctypes.c_void_p, *[ctypes.c_int64] * 4)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(modules.replayer()["iterate"])


class _Phases:
    """The iterations of a period, as native code runs them, with separate memory.

    The memory belongs to one execution, because its results may be returned to the user.
    """

    def __init__(self, loop: LoopStep, run: HostRun) -> None:
        if not usable():
            raise Unrecordable("native code knows nothing of this interpreter")
        self.loop = loop
        slots, index = list(run.slots), np.zeros((), np.int64)
        if loop.index is not None:
            slots[loop.index] = index
        tape = Tape(frozenset(loop.state), LARGEST, POOL.allocate)
        first = tuple([slots[s] for s in loop.state])
        inner = HostRun(slots, run.params, tape)
        for act in loop.look:
            act(inner)
        self.looking = len(tape.operations)
        for act in loop.rest:
            act(inner)
        self.failures = [op for op in tape.operations if isinstance(op, Failure)]
        self._rotate(tape, first, slots)
        self._kept: list[Any] = [tape, index, slots]
        self._tables = []
        rows = [self._rows(tape, k, index, slots) for k in range(len(self.renamed))]
        self._kept += rows
        for part in (rows[: self.transient], rows[self.transient :]):
            table = (Phase * len(part))(*[Phase(ctypes.addressof(r), len(r)) for r in part])
            self._tables.append((table, len(part)))

    def _rotate(self, tape: Tape, first: tuple[Any, ...], slots: Slots) -> None:
        """Assign arrays to the state of each iteration (`states`) and to the arrays that it makes
        (`renamed`).  After `transient` iterations the assignment repeats.  The first state is never
        written to, because it may have other readers."""
        loop = self.loop
        results = loop.results[: len(first)]
        own = dict(zip(map(id, first), loop.state, strict=True))
        self.updated = {id(slots[r]): own[id(slots[r])] for r in results
                        if r not in loop.state and id(slots[r]) in own}  # fmt: skip
        made = {id(slots[r]): slots[r] for r in results
                if r not in loop.state and id(slots[r]) not in own}  # fmt: skip
        if not all(map(tape.made, made.values())):
            raise Unrecordable
        blocks = list(made.values())
        writable = {*self.updated, *map(id, blocks)}
        self.states = [first]
        self.renamed: list[dict[int, Any]] = []
        seen = {tuple(map(id, first)): 0}
        while len(self.renamed) < LONGEST:
            now = dict(zip(loop.state, self.states[-1], strict=True))
            taken = {id(a) for a in now.values()}
            if any(id(now[s]) not in writable for s in self.updated.values()):
                raise Unrecordable("an update in place of an array with other readers")
            names: dict[int, Any] = {id_: now[s] for id_, s in self.updated.items()}
            for key, array in made.items():
                names[key] = _idle(blocks, array, taken)
                taken.add(id(names[key]))
                writable.add(id(names[key]))
            following = tuple([now[r] if r in now else names[id(slots[r])] for r in results])
            self.renamed.append(names)
            place = tuple(map(id, following))
            if place in seen:
                self.transient = seen[place]
                return
            seen[place] = len(self.states)
            self.states.append(following)
        raise Unrecordable

    def _rows(self, tape: Tape, iteration: int, index: Any, slots: Sequence[Any]) -> Any:
        """The operations of one iteration."""
        places = _Places(
            dict(zip(self.loop.state, self.states[iteration], strict=True)),
            self.renamed[iteration],
            {id(a) for a in self.states[0]} - self.updated.keys(),
        )
        rows: list[Operation] = []
        if self.loop.index is not None:
            rows.append(Operation(OperationKind.NUMBER, address(index)))
        flag = self.loop.predicate
        for number, op in enumerate((*tape.operations, None)):
            if number == self.looking and flag is not None:
                test = places.address(tape.named(slots, flag))
                rows.append(Operation(OperationKind.TEST, test))
            if op is not None:
                rows.append(fill(Operation(), op, places, self._kept))
        return (Operation * len(rows))(*rows)

    def run(self, first: int, limit: int) -> tuple[Any, ...]:
        """Run the iterations `first` to `limit` − 1; return the last state."""
        turns = _turns()
        at, many, steady = first, 16, first + self.transient
        while at < limit:
            (table, count), shift, stop = (
                (self._tables[0], first, min(limit, steady))
                if at < steady
                else (self._tables[1], steady, limit)
            )
            last = min(stop, at + many)
            began = time.perf_counter()
            done = turns(ctypes.addressof(table), count, shift, at, last)
            self._verify()
            if done < last:
                at = done
                break
            at = last
            spent = time.perf_counter() - began
            many = many * 2 if spent < BREATH / 2 else max(1, many // 2) if spent > BREATH else many
        place, period = at - first, len(self.states) - self.transient
        if place >= len(self.states):
            place = self.transient + (place - self.transient) % period
        return self.states[place]

    def _verify(self) -> None:
        """Raise the error of a launch that failed."""
        for failure in self.failures:
            if failure.errors[0]:
                from treadle.skeletons.ir.failures import raise_failure

                raise_failure(failure.kernel(), failure.errors)


def _idle(blocks: list[Any], like: Any, taken: set[int]) -> Any:
    """A block that is not in `taken`; allocated if there is none."""
    for b in blocks:
        if id(b) not in taken and b.shape == like.shape and b.dtype == like.dtype:
            return b
    blocks.append(POOL.allocate(like.shape, like.dtype))
    return blocks[-1]


class _Places:
    """Resolves the arrays of an iteration's operations: state by slot, other arrays by identity."""

    def __init__(self, state: dict[int, Any], made: dict[int, Any], hidden: set[int]) -> None:
        self.state, self.made, self.hidden = state, made, hidden

    def array(self, named: Any) -> Any:
        if isinstance(named, int):
            return self.state[named]
        if id(named) in self.hidden:
            raise Unrecordable  # an array of the state that is not referred to by its slot
        return self.made.get(id(named), named)

    def address(self, named: Any, place: int = 0) -> int:
        return address(self.array(named))

    def number(self, which: int, place: int) -> None:
        """Nothing to do: parameters do not change during a loop."""
