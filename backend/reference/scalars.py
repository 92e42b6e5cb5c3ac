"""Scalar expressions on NumPy arrays of lanes: one lane per element of a domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl import expr as ex
from treadle.dsl.errors import out_of_range
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf
from treadle.dsl.operations.stencils import resolve_read

if TYPE_CHECKING:
    from .evaluate import Evaluator

Value = Any  # an array of lanes, or a 0-d array when every lane agrees


class Lanes:
    """The values of expressions on a set of lanes; subsets share the values of their parent."""

    def __init__(
        self,
        count: int,
        leaves: dict[Expr, Value],
        machine: Machine,
        parent: Lanes | None = None,
        chosen: Any = None,
    ) -> None:
        self.count, self.values, self.machine = count, leaves, machine
        self.parent, self.chosen = parent, chosen

    def lookup(self, e: Expr) -> Value | None:
        found = self.values.get(e)
        if found is None and self.parent is not None:
            found = self.parent.lookup(e)
            if found is not None:
                found = found if found.ndim == 0 else found[self.chosen]
                self.values[e] = found
        return found

    def subset(self, chosen: Any, extra: dict[Expr, Value]) -> Lanes:
        """The lanes where the boolean `chosen` holds, with further variables."""
        return Lanes(int(np.count_nonzero(chosen)), extra, self.machine, self, chosen)

    def full(self, value: Value) -> Value:
        return np.broadcast_to(value, (self.count,))

    def evaluate(self, roots: Sequence[Expr]) -> list[Value]:
        """The values of `roots`; only `args` are followed, guarded parts run on sub-sets."""
        stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
        while stack:
            e, ready = stack.pop()
            if self.lookup(e) is not None:
                continue
            if not ready:
                stack.append((e, True))
                stack += [(a, False) for a in reversed(e.args) if self.lookup(a) is None]
                continue
            if isinstance(e, ex.Proj):
                continue  # set by its parent
            self._compute(e)
        return [self._get(r) for r in roots]

    def _get(self, e: Expr) -> Value:
        found = self.lookup(e)
        assert found is not None, e
        return found

    def _compute(self, e: Expr) -> None:
        args = (
            [self._get(a) for a in e.args]
            if not isinstance(e, ex.Cond | ex.While | ex.Loop)
            else []
        )
        if isinstance(e, ex.Const):
            self.values[e] = np.asarray(e.value)
        elif isinstance(e, ex.Apply):
            self.values[e] = e.value(args)
        elif isinstance(e, ex.Read):
            self._read(e)
        elif isinstance(e, ex.Cond):
            self._cond(e)
        elif isinstance(e, ex.While):
            self._while(e)
        elif isinstance(e, ex.Loop):
            self._loop(e)
        elif isinstance(e, ex.Foreign):
            call = np.vectorize(e.function, otypes=[e.type.numpy])
            size = np.broadcast(*args).size if args else 1
            self.values[e] = call(*args) if size else np.zeros(0, e.type.numpy)
        elif isinstance(e, ex.Extent | ex.Param):
            self.values[e] = np.asarray(self.machine.evaluator.host_value(e), e.type.numpy)
        else:
            raise AssertionError(f"unbound {type(e).__name__} {e!r}")

    def _read(self, e: ex.Read) -> None:
        if e.boundary is not None:
            (self.values[e],) = self.evaluate([resolve_read(e)])
            return
        array = self.machine.evaluator.array(Leaf(e.node, e.component))
        position = [self._get(a) for a in e.args]
        bad = np.zeros((), bool)
        for axis, (i, n) in enumerate(zip(position, array.shape, strict=True)):
            outside = (i < 0) | (i >= n)
            if self.machine.check and np.any(outside) and self.count:
                value = int(np.broadcast_to(i, np.shape(outside))[outside].flat[0])
                name = e.node.called()
                raise out_of_range(self.machine.operation, name, axis, value, n, self.machine.where)
            bad = bad | outside
        if array.size == 0:
            self.values[e] = np.zeros(np.shape(bad), array.dtype)
            return
        # (Axes of extent 1 are omitted: NumPy accepts fewer index arrays than arrays have axes.)
        inside = [np.clip(i, 0, n - 1) for i, n in zip(position, array.shape, strict=True) if n > 1]
        self.values[e] = np.asarray(array.squeeze()[tuple(inside)])

    def _cond(self, e: ex.Cond) -> None:
        p = self.full(self._get(e.args[0]))
        results = [np.zeros(self.count, t.numpy) for t in e.types]
        for chosen, side in ((p, e.then), (~p, e.other)):
            if np.any(chosen):
                for out, value in zip(results, self.subset(chosen, {}).evaluate(side), strict=True):
                    out[chosen] = value
        self._set(e, results)

    def _while(self, e: ex.While) -> None:
        state = [np.array(self.full(self._get(a))) for a in e.args]
        active = np.ones(self.count, bool)
        while True:
            lanes = self.subset(active, {v: s[active] for v, s in zip(e.vars, state, strict=True)})
            if not lanes.count:
                break
            (again,) = lanes.evaluate(e.scoped[:1])
            still = active.copy()
            still[active] = again
            active = still
            lanes = self.subset(active, {v: s[active] for v, s in zip(e.vars, state, strict=True)})
            if not lanes.count:
                break
            for s, value in zip(state, lanes.evaluate(e.scoped[1:]), strict=True):
                s[active] = value
        self._set(e, state)

    def _loop(self, e: ex.Loop) -> None:
        count = self.full(self._get(e.count))
        state = [np.array(self.full(self._get(a))) for a in e.args[1:]]
        for k in range(int(count.max()) if self.count else 0):
            active = count > k
            extra: dict[Expr, Value] = {
                v: s[active] for v, s in zip(e.vars[1:], state, strict=True)
            }
            extra[e.vars[0]] = np.asarray(k, np.int64)
            for s, value in zip(state, self.subset(active, extra).evaluate(e.scoped), strict=True):
                s[active] = value
        self._set(e, state)

    def _set(self, e: Expr, results: Sequence[Value]) -> None:
        self.values[e] = np.zeros(())  # its components are read by projections
        for k, value in enumerate(results):
            self.values[ex.Proj(e, k)] = value


class Machine:
    """The environment of expressions: the arrays and host values of an evaluator (a weak reference,
    because the evaluator refers to this), and the location for errors."""

    def __init__(self, evaluator: Evaluator, check: bool) -> None:
        self.evaluator, self.check = evaluator, check
        self.operation: str = "an operation"
        self.where: Any = None


def combine_values(
    machine: Machine, combine: Any, left: Sequence[Value], right: Sequence[Value]
) -> list[Value]:
    """A combining function on arrays of any (equal) shape."""
    shape = np.shape(left[0])
    size = int(np.prod(shape))
    leaves: dict[Expr, Value] = {}
    for v, x in zip((*combine.left, *combine.right), (*left, *right), strict=True):
        leaves[v] = np.asarray(x, v.type.numpy).reshape(size)
    lanes = Lanes(size, leaves, machine)
    return [np.array(lanes.full(r)).reshape(shape) for r in lanes.evaluate(combine.results)]
