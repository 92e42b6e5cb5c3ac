"""What iterations read or write at indices of their own, in the reverse derivative of a loop.

    for k: s, ys[k] = f(s, xs[k])   →   for k, backward: s̄, x̄s[k] = f̄(s̄, ȳs[k], …)

The cotangents of results that a loop collects are read where the loop wrote, and do not change.
The cotangents of slices, one for each iteration, are collected, and sent to the array that was
sliced after the loop.  So the reversed loop of a scan is a scan, too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from ..analysis.combines import ways
from ..analysis.steps import moving_with, written_alone
from ..expr import TRUE, Cond, Const, Expr, Index, Proj, Read, constant, substitute, walk
from ..graph import (
    ArrayLoop,
    Fold,
    Generate,
    Label,
    Leaf,
    Node,
    Permute,
    Shape,
    indices,
    is_identity_read,
    topological,
)
from ..operations.indexing.row_major import minus
from ..scalar import apply_primitive
from ..simplify import cast
from .expressions import Cotangent, add, guarded, zero
from .permutes import one_to_one
from .reads import Scatterer
from .reverse import Reverse, adjoint, own


class Collected(NamedTuple):
    """State number `state` of a loop, whose iterations only write `value` at `target`; `sign` and
    `start` say where along `axis`."""

    state: int
    value: Leaf
    target: tuple[Expr, ...]
    axis: int
    sign: int
    start: Expr

    def given(self, bar: Leaf) -> Expr:
        """The cotangent of the value, from that of the state after the loop."""
        return bar.at(*self.target)

    def holds(self, loop: ArrayLoop, k: int) -> bool:
        """Whether this collects the next values of state number `k`, in every iteration."""
        n, following = loop.init[self.state].shape[self.axis], loop.body[k]
        start = constant(0) if self.sign > 0 else minus(n, constant(1))
        return (
            self.value.node.bodies()[-1] is own(following, len(following.shape))
            and n is loop.count
            and self.start is start
        )

    def before(self, step: Expr, results: Leaf, first: Leaf, loop: ArrayLoop, label: Label) -> Leaf:
        """The state before a step, the value collected in the one before it."""
        assert loop.index is not None
        last: dict[Expr, Expr] = {loop.index.leaf().at(): minus(step, constant(1))}
        index = indices(len(first.shape))
        some = apply_primitive("greater", [step, constant(0)])
        e = guarded(some, results.at(*substitute(self.target, last)), first.at(*index))
        return Generate(first.shape, (e,), label=label, where=loop.where).leaf()

    def of_initial(self, bar: Leaf, count: Expr) -> Expr:
        """The cotangent of the initial state."""
        e = Index(self.axis)
        step = minus(e, self.start) if self.sign > 0 else minus(self.start, e)
        tests = [apply_primitive("less", [step, zero(step.type)]),
                 apply_primitive("greater_equal", [step, count])]  # fmt: skip
        kept = apply_primitive("logical_or", tests)
        return guarded(kept, own(bar, len(bar.shape)), zero(bar.type))


def collected(loop: ArrayLoop, nodes: Sequence[Node]) -> dict[int, Collected]:
    """The states that iterations only write, at an index of their own for each."""
    assert loop.index is not None
    found: dict[int, Collected] = {}
    for k, made in written_alone(loop, nodes).items():
        index = indices(len(made.domain))
        for axis, at in enumerate(made.target):
            moving = moving_with(at, loop.index.leaf().at())
            if moving is not None and (*made.target[:axis], *made.target[axis + 1 :]) == index:
                element = made.values[loop.body[k].component]
                value = Generate(made.domain, (element,), label=made.label, where=made.where)
                found[k] = Collected(k, value.leaf(), made.target, axis, *moving)
    return found


def evolves_by_element(loop: ArrayLoop, among: Sequence[int]) -> bool:
    """Whether an iteration computes each element of these states from elements at its own index,
    as far as it reads states."""
    changing: set[Node] = {loop.state[k] for k in range(len(loop.state))}
    for node in topological([loop.body[k] for k in among]):
        if any(leaf.node in changing for leaf in (*node.inputs(), *node.inside())):
            changing.add(node)
            reads = (e for e in walk(node.bodies()) if isinstance(e, Read) and e.node in changing)
            if not isinstance(node, Generate) or not all(
                is_identity_read(e, len(node.shape)) for e in reads
            ):
                return False
    return True


class Slices(NamedTuple):
    """The cotangents that all iterations send to `leaf`: `value`, over the axes of `domain`, is
    added at `target`; it is summed over axes that this does not mention."""

    leaf: Leaf
    target: tuple[Expr, ...]
    domain: Shape
    axis: int
    value: Expr

    def shape(self, count: Expr) -> Shape:
        return (*self.domain[: self.axis], count, *self.domain[self.axis :])

    def put(self, into: Leaf, step: Expr, label: Label, loop: ArrayLoop) -> Leaf:
        """The cotangent of an iteration, stored in the array of all of them."""
        index = indices(len(self.domain))
        target = (*index[: self.axis], step, *index[self.axis :])
        made = Permute(self.domain, TRUE, target, (cast(self.value, into.type),), (into,), None,
                       label=label, where=loop.where)  # fmt: skip
        return made.leaf()

    def contribution(self, stored: Leaf, loop: ArrayLoop, r: Reverse) -> Expr:
        """What the array of all cotangents is to that of `leaf`."""
        assert loop.index is not None
        moved: dict[Expr, Expr] = {
            Index(a): Index(a + (a >= self.axis)) for a in range(len(self.domain))
        }
        moved[loop.index.leaf().at()] = Index(self.axis)
        read = self.leaf.at(*substitute(self.target, moved))
        assert isinstance(read, Read)
        send = Scatterer(stored.shape, adjoint(loop), loop.where, r.unified, r.tame)
        return send.contribution(read, Cotangent((), own(stored, len(stored.shape))))


def slices(
    inner: Reverse, loop: ArrayLoop, fixed: Sequence[Leaf], active: Sequence[int], along: int
) -> list[Slices]:
    """The contributions to loop-invariant arrays that go to one index along an axis in every
    iteration, another one in each; they are removed from `inner`.  If elements of the states evolve
    independently, and there is no limit of memory, sums over all elements of an array as large as a
    state are taken after the loop, of an array with iterations along axis `along`."""
    late = inner.memory is None and evolves_by_element(loop, active)
    shapes = {inner.unified(loop.state[k].shape) for k in active} if late else ()
    found: dict[tuple[Leaf, tuple[Expr, ...], Shape], Slices] = {}
    changing: set[Node] | None = None
    for leaf in fixed:
        for part in tuple(inner.parts.get(leaf, ())):
            by = part.node if isinstance(part, Read) else None
            if not (isinstance(by, Permute) and is_identity_read(part, len(leaf.shape))
                    and adds_to_zeros(by)):  # fmt: skip
                continue
            one = not any(isinstance(e, Index) for e in walk(by.target))  # for the whole domain
            if not (inner.unified(by.domain) in shapes if one and by.domain else one_to_one(by)):
                continue
            if changing is None:
                changing = loop.varying(list(topological([*loop.body, *_read_by(inner)])))
            if (axis := _axis(by, loop, changing)) is None:
                continue
            axis = min(along, len(by.domain)) if one else axis
            value, domain = by.values[0], by.domain
            condition, total = guarded_sum(value)
            if total is not None and not domain and inner.unified(total.inner) in shapes:
                value = guarded(condition, total.elements[0], zero(value.type))
                domain, axis = total.inner, min(along, len(total.inner))
            value = guarded(by.valid, value, zero(value.type))
            key = leaf, by.target, domain
            if key in found:
                value = add(found[key].value, value)
            found[key] = Slices(leaf, by.target, domain, axis, value)
            inner.parts[leaf].remove(part)
    return list(found.values())


def _read_by(inner: Reverse) -> list[Leaf]:
    return [Leaf(e.node, e.component) for parts in inner.parts.values() for e in walk(parts)
            if isinstance(e, Read)]  # fmt: skip


def _axis(by: Permute, loop: ArrayLoop, changing: Container[Node]) -> int | None:
    """Before which axis of its domain the iterations of an update are, if it goes to one index of
    its own for each along an axis, and to the same along the others."""
    assert loop.index is not None
    counter = loop.index.leaf().at()
    moving = [a for a, e in enumerate(by.target) if moving_with(e, counter) is not None]
    rest = [e for a, e in enumerate(by.target) if a not in moving]
    reads = walk((*rest, *by.domain))
    if len(moving) != 1 or any(isinstance(e, Read) and e.node in changing for e in reads):
        return None
    before = by.target[: moving[0]]
    return sum(any(isinstance(e, Index) for e in walk((t,))) for t in before)


def guarded_sum(part: Expr) -> tuple[Expr, Fold | None]:
    """Condition and fold of a full sum of an array that is 0 where the condition fails."""
    condition: Expr = TRUE
    if isinstance(part, Proj) and isinstance(part.args[0], Cond):
        condition, (part, other) = part.args[0].args[0], part.args[0].scoped
        if not isinstance(other, Const) or other.value or condition.reads:
            return TRUE, None
    node = part.node if isinstance(part, Read) else None
    if (
        not isinstance(node, Fold)
        or node.outer
        or len(node.elements) != 1
        or node.epilogue != node.results
        or ways(node.combine) != ["add"]
        or node.init is None
        or not isinstance(node.init[0], Const)
        or node.init[0].value
    ):
        return TRUE, None
    return condition, node


def adds_to_zeros(node: Permute) -> bool:
    start = node.defaults[0].node
    return (
        len(node.defaults) == 1
        and node.combine is not None
        and ways(node.combine) == ["add"]
        and isinstance(start, Generate)
        and isinstance(start.elements[0], Const)
        and not start.elements[0].value
    )
