"""In-place updates: state that an iteration of a loop changes in part.

`permute` and `td.update` return a copy of their defaults with some elements written.  If the
defaults are the state of a loop and nothing needs the old value afterwards, no copy is needed: the
elements are written into the state itself, and an iteration costs only what it writes.

    x = update(x, i, (b[i] − Σ l[i, j]·x[j]) / l[i, i])    x is read before it is written: in place
    y = x; x = update(x, i, …)                             y needs the old x: a copy
    x = cond(p, update(x, i, …), x)                        one side writes, one does nothing

`overwritable` finds these states.  `is_separate` decides whether the elements that an update itself
reads of its defaults still have their old values when it reads them: an element that it writes at
that very index, or one that it never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ..expr import TRUE, Apply, Const, Expr, Index, Read, Var, rewrite, substitute, walk
from ..graph import ArrayLoop, Branch, Input, Leaf, Node, Permute, Sequential, known, topological
from ..scalar import apply_primitive
from ..types import int64
from .bounds import is_counter
from .polynomial import Polynomial, affine_forms, polynomial, variables

# --- Permutes in which every source has a target of its own: parts given by slices, transposes ----
# Such updates need no atomics, locks or order, and may be vectors.

#: Index arithmetic wraps: multiples of a step with more factors of 2 might meet modulo 2**64 in a
#: domain of 2**44 elements.
MOST_FACTORS = 1 << 20


def is_one_to_one(node: Permute) -> bool:
    """Whether each axis of the target is a constant of the launch, or such a constant plus a
    multiple of one axis of the domain, and every axis with several elements occurs in one."""
    used: set[Expr] = set()
    target = _constants_named(node.target)
    forms = affine_forms(target)
    for e in target:
        form = forms.get(e)
        moving = {} if form is None else {
            v: c for v, c in variables(form).items() if isinstance(v, Index)
        }  # fmt: skip
        if form is None or len(moving) > 1:
            return False
        for variable, step in moving.items():
            if step & -step > MOST_FACTORS or variable in used:
                return False
            used.add(variable)
    return all(
        Index(k) in used or (isinstance(n, Const) and int(n.value) <= 1)
        for k, n in enumerate(node.domain)
    )


def parted(condition: Expr) -> tuple[Expr, Expr]:
    """A condition as two conjuncts: the one equal for a whole launch, and the rest."""
    fixed: Expr = TRUE
    rest: Expr = TRUE
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, Apply) and e.op.name == "logical_and":
            stack += reversed(e.args)
        elif any(isinstance(x, Index) for x in walk((e,))):
            rest = apply_primitive("logical_and", [rest, e])
        else:
            fixed = apply_primitive("logical_and", [fixed, e])
    return fixed, rest


def _constants_named(target: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The target with every launch constant replaced by a variable."""
    uniform: dict[Expr, bool] = {}
    for e in walk(target):
        uniform[e] = not isinstance(e, Index) and all(uniform[x] for x in (*e.args, *e.scoped))
    named: dict[Expr, Expr] = {
        e: Var("fixed", e.type)
        for e, fixed in uniform.items()
        if fixed and e.type is not None and not isinstance(e, Const | Var)
    }
    return rewrite(target, lambda e: e, named)


def defaults_of(node: Node) -> tuple[Leaf, ...]:
    """The arrays that a node copies and then modifies."""
    if isinstance(node, Permute | Sequential):
        return node.defaults
    return node.init if isinstance(node, ArrayLoop) else ()


def overwritable(loop: ArrayLoop, split: set[Node] | None = None, between: bool = False
                 ) -> dict[Node, list[Leaf]]:  # fmt: skip
    """The nodes of a loop's body that may overwrite states of the loop, and these states; with
    `between`, also those that overwrite what other nodes of the body have made.

    All other readers of such a state can run before the node that overwrites it.  If that node is a
    branch, the nodes in its sides that write the state are included.  With `split`, so are nodes
    that could overwrite a state if their values were stored first, or if those of others were,
    which are added to `split`."""
    order = [n for n in topological(loop.inner_roots(), inside=False) if not isinstance(n, Input)]
    tested = set(() if loop.predicate is None else topological((loop.predicate,), inside=False))
    results = set(loop.body)
    states = [s.leaf() for s in loop.state if s.leaf() not in results]
    if between:
        made = {*order} - tested
        changed = dict.fromkeys(leaf for n in order for leaf in defaults_of(n))
        states += [leaf for leaf in changed if leaf.node in made and leaf not in results]
    found = _overwriting(order, (), states, tested, split)
    waiting = [(n, found[n], order) for n in found if isinstance(n, Branch)]
    while waiting:
        branch, states, outside = waiting.pop()
        for side, nodes in zip((branch.then, branch.other),
                               in_sides(branch, states, outside, split), strict=True):  # fmt: skip
            inner = [*outside, *topological(side, inside=False, known=outside)]
            waiting += [(n, nodes[n], inner) for n in nodes if isinstance(n, Branch)]
            for node, its in nodes.items():
                found[node] = list(dict.fromkeys((*found.get(node, ()), *its)))
    return found


def in_sides(
    branch: Branch, states: Iterable[Leaf], outside: Sequence[Node], split: set[Node] | None = None
) -> tuple[dict[Node, list[Leaf]], dict[Node, list[Leaf]]]:
    """For each side of a branch the nodes, other than those `outside`, that may overwrite states
    which nothing needs after the branch.  A side that returns a state returns it as it is."""

    def of_side(side: Sequence[Leaf]) -> dict[Node, list[Leaf]]:
        nodes = topological(side, inside=False, known=outside)
        order = [n for n in nodes if not isinstance(n, Input)]
        return _overwriting(order, outside, [s for s in states if s not in side], set(), split)

    states = list(states)
    return of_side(branch.then), of_side(branch.other)


def _overwriting(order: Sequence[Node], outside: Sequence[Node], states: Iterable[Leaf],
                 before: Set[Node], split: set[Node] | None) -> dict[Node, list[Leaf]]:  # fmt: skip
    """Those of `order` that may overwrite states, unless they must run `before`."""
    known = [*outside, *order]
    used = {node: set(_used(node, known)) for node in order}
    needs = {node: {leaf.node for leaf in used[node]} for node in order}
    found: dict[Node, list[Leaf]] = {}

    def inside(branch: Node, leaf: Leaf) -> bool:
        if not isinstance(branch, Branch):
            return False
        others = None if split is None else set[Node]()
        sides = in_sides(branch, [*found.get(branch, ()), leaf], known, others)
        return any(leaf in its for side in sides for its in side.values())

    for leaf in states:
        readers = [n for n in order if leaf in used[n]]
        writers = [n for n in readers if leaf in defaults_of(n)]
        writers = writers or [n for n in readers if inside(n, leaf)]
        if len(writers) != 1 or writers[0] in before:
            continue
        (writer,) = writers
        others = {n for n in readers if n is not writer}
        late = {n for n in others if _reaches([n], writer, needs)}
        stored = [n for n in late if split is not None and isinstance(n, Permute)
                  and leaf not in n.defaults and not _reads_elsewhere(n, leaf)]  # fmt: skip
        values = {e.node for n in stored for e in walk(n.values) if isinstance(e, Read)}
        ahead = (others - late) | values
        if len(stored) < len(late) or _reaches(ahead, writer, needs):
            continue
        if isinstance(writer, Branch) or overwrites(writer, leaf, split is not None):
            found.setdefault(writer, []).append(leaf)
            needs[writer] |= ahead
            if split is not None:
                split.update(stored)
    return found


def _reads_elsewhere(node: Permute, leaf: Leaf) -> bool:
    """Whether a node reads elements other than to compute the values that it writes."""
    own = (*node.domain, node.valid, *node.target)
    own += () if node.combine is None else node.combine.results
    return any(_of(e, leaf) for e in walk(own))


def _reaches(starts: Iterable[Node], end: Node, needs: Mapping[Node, Iterable[Node]]) -> bool:
    """Whether one of the nodes depends on `end`, directly or indirectly."""
    stack, seen = list(starts), set()
    while stack:
        node = stack.pop()
        if node is end:
            return True
        if node not in seen:
            seen.add(node)
            stack += needs.get(node, ())
    return False


def overwrites(node: Node, leaf: Leaf, split: bool = False) -> bool:
    """Whether a node whose defaults include `leaf` needs no copy of it for its own reads; with
    `split`, not counting the reads of values that are stored first."""
    if defaults_of(node).count(leaf) != 1:
        return False
    if isinstance(node, Permute):
        return is_separate(node, leaf, split)
    if isinstance(node, Sequential):  # it reads its defaults as modified by earlier writes
        return not any(_of(e, leaf) for e in walk(node.domain))
    inside = topological(node.inside())
    return not any(leaf in n.inputs() for n in inside) and leaf not in node.inside()


def _used(node: Node, outside: Iterable[Node]) -> Iterator[Leaf]:
    """The leaves to which a node, and nodes inside it other than those `outside`, refer."""
    yield from node.inputs()
    if isinstance(node, ArrayLoop | Branch):
        yield from node.inside()
        for inner in topological(node.inside(), known=outside):
            yield from inner.inputs()
            yield from inner.inside()


def is_separate(node: Permute, leaf: Leaf, split: bool = False) -> bool:
    """Whether every element of `leaf` that a node with these defaults reads is the one it writes
    at that index (and nowhere else in its expressions), or is never written; or only one element
    is written, which is after all are read."""
    if _reads_elsewhere(node, leaf):
        return False
    if len(node.values) == 1 and all(known(n) == 1 for n in node.domain):
        return True
    found = [e for e in (() if split else walk(node.values)) if _of(e, leaf)]
    own_place = is_one_to_one(node)
    return all((own_place and _at_target(node, e)) or _never_written(node, e) for e in found)


def reads_own(node: Permute, leaf: Leaf) -> bool:
    """Whether a node that may overwrite these defaults reads elements that it writes."""
    if not overwrites(node, leaf):
        return False
    return any(_of(e, leaf) and _at_target(node, e) for e in walk(node.values))


def _at_target(node: Permute, read: Expr) -> bool:
    assert isinstance(read, Read)
    symbols: dict[Expr, Expr] = {}
    return read.boundary is None and all(
        e is t or ((form := _form(e, symbols)) is not None and form == _form(t, symbols))
        for e, t in zip(read.args, node.target, strict=True)
    )


def _of(e: Expr, leaf: Leaf) -> bool:
    return isinstance(e, Read) and e.node is leaf.node and e.component == leaf.component


def _never_written(node: Permute, read: Expr) -> bool:
    """Whether no element of the domain writes an element that any element reads by `read`: along
    one axis, the indices differ for all pairs of elements."""
    assert isinstance(read, Read)
    if read.boundary is not None:
        return False
    other: dict[Expr, Expr] = {Index(k): Var(f"other{k}", int64) for k in range(len(node.domain))}
    symbols: dict[Expr, Expr] = {}
    for at, to in zip(read.args, node.target, strict=True):
        here, there = (_form(e, symbols) for e in (at, *substitute((to,), other)))
        natural = {*other, *other.values(), *(v for e, v in symbols.items() if is_counter(e))}
        if here is not None and there is not None and _differs(here - there, natural):
            return True
    return False


def _form(e: Expr, symbols: dict[Expr, Expr]) -> Polynomial[Expr] | None:
    """The polynomial of an int64 index; counters of loops and other scalars are variables."""

    def change(x: Expr) -> Expr:
        if isinstance(x, Read) and isinstance(x.node, Input) and not x.args:
            return symbols.setdefault(x, Var("scalar", x.type))
        return x

    (plain,) = rewrite((e,), change)
    if any(x.type is not None and x.type != int64 for x in walk((plain,))):
        return None  # it may wrap
    return polynomial(plain)


def _differs(difference: Polynomial[Expr], natural: set[Expr]) -> bool:
    """Whether a difference of indices has the same sign, and is not 0, whatever the values of the
    variables, none of which is negative."""
    least = most = True
    for monomial, coefficient in difference.terms.items():
        if not monomial:
            continue
        if not natural.issuperset(monomial):
            return False
        least &= coefficient > 0
        most &= coefficient < 0
    constant = difference.terms.get((), 0)
    return (least and constant > 0) or (most and constant < 0)
