"""The execution plan: an optimised graph as steps over numbered slots.

A slot holds one array.  Loops and branches have nested plans, which can access the outer slots.
Loop-invariant nodes run before the loop, unless they may read outside their arrays: these run in
the first iteration, because the loop may have none.  Nodes that only one side of a branch needs run
inside that side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from treadle.dsl import graph
from treadle.dsl.analysis.regions import regions
from treadle.dsl.analysis.updates import defaults_of, in_sides, overwritable, overwrites
from treadle.dsl.expr import Expr, Extent, Foreign, Read, While, walk
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.libraries.base import is_builtin
from treadle.dsl.passes.tested import may_be_outside


@dataclass
class Step:
    """Run one node; the slots in `release` are not read afterwards.

    `inner` has the sides of a branch.  For a loop it has three plans: the test of each iteration
    (empty if the loop is counted), what only the first iteration runs after its test, and what
    every iteration runs then.
    """

    node: Node
    inner: list[Plan] = field(default_factory=list)
    release: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """Steps in order, and the slots of the results.

    `checks` are verified before the first step.  The checks of a loop's body belong to the
    enclosing plan; a branch verifies the checks of the side that it takes.
    """

    steps: list[Step]
    results: list[int]
    checks: list[graph.Check]

    def walk(self) -> Iterator[tuple[int, Step]]:
        """Every step with its depth of nesting."""
        for step in self.steps:
            yield 0, step
            for inner in step.inner:
                for depth, nested in inner.walk():
                    yield depth + 1, nested


class Planner:
    """Numbers the slots and orders the nodes.

    `inside`: the other nodes that a node's step may compute, so that it reads their inputs;
    `checked`: whether indices are tested.
    """

    def __init__(
        self,
        roots: Sequence[Leaf],
        inputs: Sequence[graph.Input],
        inside: Callable[[Node], Sequence[Node]] = lambda node: (),
        checked: bool = False,
    ) -> None:
        self.slots: dict[Leaf, int] = {}
        self.inside, self.checked = inside, checked
        self._used: dict[Node, set[Leaf]] = {}
        for node in inputs:
            self.slot(Leaf(node, 0))
        self.region = regions(roots)
        self.plan = self.sub_plan(roots, set(inputs), frozenset())

    @property
    def count(self) -> int:
        return len(self.slots)

    def slot(self, leaf: Leaf) -> int:
        return self.slots.setdefault(leaf, len(self.slots))

    def sub_plan(self, roots: Sequence[Leaf], done: set[Node], bound: frozenset[Node]) -> Plan:
        """The plan for `roots`, given that `done` nodes have their slots."""
        steps: list[Step] = []
        checks: list[graph.Check] = []
        wanted: list[Leaf] = list(roots)
        pending = self._needed(wanted, done, bound)
        finished = set(done)
        for node in pending:
            if node in finished:
                continue
            step = Step(node)
            for c in node.checks:
                if not c.reads:
                    checks.append(c)
            if isinstance(node, graph.ArrayLoop):
                for variable in node.bound:
                    self.slot(variable.leaf())
                inside = finished | set(node.bound)
                body = self.sub_plan(node.inner_roots(), inside, bound | set(node.bound))
                checks += body.checks
                step.inner = self.parts(node, body)
            elif isinstance(node, graph.Branch):
                step.inner = [
                    self.sub_plan(node.then, finished, bound),
                    self.sub_plan(node.other, finished, bound),
                ]
            for leaf in node.leaves:
                self.slot(leaf)
            steps.append(step)
            finished.add(node)
        plan = Plan(steps, [self.slot(r) for r in roots], list(dict.fromkeys(checks)))
        self.releases(plan, {self.slot(r) for r in roots})
        return plan

    def parts(self, loop: graph.ArrayLoop, body: Plan) -> list[Plan]:
        """The plans of an iteration (see `Step`); the last plan has the results."""
        tested: list[Step] = []
        if loop.predicate is not None:
            wanted = {self.slot(loop.predicate)}
            for step in reversed(body.steps):
                if not wanted.isdisjoint(self.slots[leaf] for leaf in step.node.leaves):
                    tested.insert(0, step)
                    wanted |= self.used(step)
        first: list[Step] = []
        rest: list[Step] = []
        for step in body.steps:
            step.release = []
            if step not in tested:
                same = self.region[step.node].isdisjoint(loop.bound)
                (first if same else rest).append(step)
        own = set(without_memory([step.node for step in first]))
        rest = [s for s in first if s.node not in own] + rest
        first = [s for s in first if s.node in own]
        updated = overwritable(loop)
        rest = self._readers_first(rest, overwritable(loop, between=True))
        every, results = [*tested, *rest], set(body.results)
        self.releases(Plan(every, body.results, []), results)
        self._release_updated(rest, updated, [s.node for s in body.steps])
        self.releases(Plan(first, [], []), results.union(*map(self.used, every)))
        return [Plan(tested, [], []), Plan(first, [], []), Plan(rest, body.results, [])]

    def _release_updated(self, steps: Sequence[Step], updated: Mapping[Node, Sequence[Leaf]],
                         outside: Sequence[Node]) -> None:  # fmt: skip
        """Release states where they are overwritten, also in the sides of branches; `outside`: the
        nodes that run outside these sides."""
        for step in steps:
            states = updated.get(step.node, ())
            step.release += [self.slots[state] for state in states]
            if not (states and isinstance(step.node, graph.Branch)):
                continue
            for side, inner in zip(step.inner, in_sides(step.node, states, outside), strict=True):
                side.steps = self._readers_first(side.steps, inner)
                for one in side.steps:
                    one.release = []
                self.releases(side, set(side.results))
                self._release_updated(side.steps, inner, [*outside, *(s.node for s in side.steps)])

    def _readers_first(self, steps: list[Step], updated: Mapping[Node, Sequence[Leaf]]
                       ) -> list[Step]:  # fmt: skip
        """Reorder the steps so that all readers of a state precede the step that overwrites it."""
        makers = {self.slots[leaf]: s for s in steps for leaf in s.node.leaves}
        needs = {id(s): [makers[slot] for slot in self.used(s) if slot in makers] for s in steps}
        for writer in steps:
            states = {self.slots[state] for state in updated.get(writer.node, ())}
            needs[id(writer)] += [
                s for s in steps if s is not writer and not states.isdisjoint(self.used(s))
            ]
        ordered: dict[int, Step] = {}
        for step in steps:
            stack = [step]
            while stack:
                waiting = [s for s in needs[id(stack[-1])] if id(s) not in ordered
                           and s is not stack[-1]]  # fmt: skip
                if waiting:
                    stack.append(waiting[0])
                else:
                    last = stack.pop()
                    ordered[id(last)] = last
        return list(ordered.values())

    def _needed(self, roots: Sequence[Leaf], done: set[Node], bound: frozenset[Node]) -> list[Node]:
        """Nodes to run here, dependencies first, including the invariants of loop bodies.

        A node needed both here and inside a loop or branch is ordered before it, and not run again
        there.
        """
        order: list[Node] = []
        seen: set[Node] = set(done)
        outside = self._outside(roots, bound)
        stack: list[tuple[Node, bool]] = [(leaf.node, False) for leaf in reversed(list(roots))]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, graph.Input):
                continue
            stack.append((node, True))
            needed = [leaf.node for leaf in node.inputs()]
            if isinstance(node, graph.ArrayLoop):
                needed += invariants(node, self.region, bound, self.checked)
                needed += [n for n in graph.topological(node.inner_roots()) if n in outside]
            elif isinstance(node, graph.Branch):
                needed += [n for n in graph.topological((*node.then, *node.other)) if n in outside]
            stack += [(n, False) for n in reversed(needed) if n not in seen]
        return order

    def _outside(self, roots: Sequence[Leaf], bound: frozenset[Node]) -> set[Node]:
        """The nodes that run here, including those needed only by loop bodies."""
        found: set[Node] = set()
        wanted = list(roots)
        while wanted:
            more = list(graph.topological(wanted, inside=False, known=found))
            found.update(more)
            wanted = [
                n.leaf()
                for node in more
                if isinstance(node, graph.ArrayLoop)
                for n in invariants(node, self.region, bound, self.checked)
            ]
        return found

    def releases(self, plan: Plan, kept: set[int]) -> None:
        """Release the slots made in this plan after their last use in it."""
        made = {self.slots[le] for s in plan.steps for le in s.node.leaves} - kept
        last: dict[int, Step] = {}
        for step in plan.steps:
            for slot in self.used(step):
                if slot in made:
                    last[slot] = step
            for leaf in step.node.leaves:
                if self.slots[leaf] in made:
                    last[self.slots[leaf]] = step
        for slot, step in last.items():
            step.release.append(slot)

    def expendable(self, step: Step) -> frozenset[int]:
        """Slots that a step may overwrite: they hold its initial values (the defaults of a permute,
        the first state of a loop), and nothing else needs these values during or after the step.
        Another slot or the user may still refer to their arrays."""
        inside = self.used_inside(step)
        return frozenset(
            self.slots[leaf]
            for leaf in defaults_of(step.node)
            if self.slots[leaf] in step.release
            and self.slots[leaf] not in inside
            and overwrites(step.node, leaf)
        )

    def used(self, step: Step) -> set[int]:
        return self._slots_of(step.node) | self.used_inside(step)

    def _slots_of(self, node: Node) -> set[int]:
        if node not in self._used:
            self._used[node] = used_leaves(node)
        return {self.slots[leaf] for leaf in self._used[node] if leaf in self.slots}

    def used_inside(self, step: Step) -> set[int]:
        """The slots that nodes inside a step read and that its bodies return."""
        used = set[int]().union(*map(self._slots_of, self.inside(step.node)))
        for inner in step.inner:
            used |= set(inner.results)
            for nested in inner.steps:
                used |= self.used(nested)
        return used


def invariants(loop: graph.ArrayLoop, region: Mapping[Node, Set[Node]], bound: Set[Node],
               checked: bool) -> list[Node]:  # fmt: skip
    """Nodes of a loop's body that depend only on the states of enclosing loops (`bound`), and that
    may be computed before the loop even if it has no iteration.

    `region` maps a node to the states that it depends on.  Nodes that only one side of a `cond`
    needs stay there.  Nodes that may fail stay in the loop, unless the first test needs them.
    """
    in_branches = _branch_nodes(loop.inner_roots())
    tested = () if loop.predicate is None else graph.topological((loop.predicate,), inside=False)
    always = set(tested)
    found, later = [], []
    for node in graph.topological(loop.inner_roots()):
        if isinstance(node, graph.Input) or node in in_branches or not region[node] <= bound:
            continue
        late = _may_fail(node, checked) or any(leaf.node in in_branches for leaf in node.inputs())
        if late and node not in always:
            in_branches.add(node)
            later.append(node)
        else:
            found.append(node)
    taken = _taken(loop, later)
    return without_memory([n for n in found if n not in taken])


def _taken(loop: graph.ArrayLoop, later: Sequence[Node]) -> set[Node]:
    """Nodes that are only initial values of an array that one of the `later` nodes updates:
    computed together with that node, they are not copied."""
    given = [leaf.node for n in later for leaf in defaults_of(n) if overwrites(n, leaf)]
    uses = Counter(leaf.node for leaf in loop.inner_roots())
    for node in graph.topological(loop.inner_roots()) if given else ():
        uses.update({leaf.node for leaf in used_leaves(node)})
    return {n for n in given if uses[n] == 1}


def without_memory(nodes: Sequence[Node]) -> list[Node]:
    """The nodes without memory that none of them writes to: its writer may allocate it."""
    used = {leaf.node for n in nodes for leaf in used_leaves(n)}
    return [n for n in nodes if not isinstance(n, graph.Memory) or n in used]


def _may_fail(node: Node, checked: bool) -> bool:
    """Whether a node may read outside its arrays, or do something else that must not happen if the
    loop has no iteration: stop a checked program, run forever, or call a user's function."""
    if isinstance(node, graph.ArrayLoop | graph.Branch) or (
        checked and isinstance(node, graph.Permute)
    ):
        return True
    if isinstance(node, graph.Library):
        return not is_builtin(node.operation)
    over = node.iteration_space()
    return any(
        isinstance(e, While | Foreign) or (isinstance(e, Read) and may_be_outside(e, over))
        for e in walk(node.expressions())
    )


def used_leaves(node: Node) -> set[Leaf]:
    """Every leaf whose array is accessed by a node, or by the host on its behalf."""
    found = set(node.inputs())
    # Addresses need the extents of all arrays read, including extents known only at run time.
    hosts: list[Expr] = [*node.expressions(), *(e for leaf in found for e in leaf.shape)]
    for c in node.checks:
        hosts += [c.left, c.right]
    for e in walk(hosts):
        if isinstance(e, Extent):
            found.add(Leaf(e.node, 0))
        elif isinstance(e, Read):
            found.add(Leaf(e.node, e.component))
    if isinstance(node, graph.ArrayLoop):
        found |= set(node.inner_roots())
    if isinstance(node, graph.Branch):
        found |= {*node.then, *node.other}
    return found


def _branch_nodes(roots: Sequence[Leaf]) -> set[Node]:
    """Nodes that only the sides of branches need."""
    always = set(graph.topological(roots, inside=False))
    found: set[Node] = set()
    for node in graph.topological(roots):
        if isinstance(node, graph.Branch):
            found |= {n for n in graph.topological((*node.then, *node.other)) if n not in always}
    return found


def data_checks(node: Node) -> list[graph.Check]:
    """The checks of a node that read arrays: they are verified just before it runs."""
    return [c for c in node.checks if c.reads]
