"""Cache hints: attaches the policies of a schedule's `Hints` to the arrays of lowered kernels.

A policy given for an array by name takes precedence over the policy of its access class.  An array
with several kinds of accesses gets the policy of the class with the most reuse that has one, in the
order horizontal, vertical, random, streaming.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.dsl.graph import Input, Leaf, Node, topological
from treadle.dsl.schedule import ScheduleError, of_operation

from ..access.maps import access_classes
from ..ir.kernel import Buffer, Kernel, Lowered
from ..schedules import Hints, as_schedule
from ..schedules.layers import did_you_mean
from .build import LoweringContext, array_name

#: Access classes, most reuse first, and their names in `Hints`.
CLASSES = {
    "horizontal": "horizontal",
    "vertical": "vertical",
    "random": "random",
    "streaming": "stream",
}


def cached(lowered: Lowered, node: Node, context: LoweringContext) -> Lowered:
    """The kernels with the policies of the node's `Hints`; unchanged if there are none."""
    schedule = context.schedule_of(node)
    hints = None if schedule is None else schedule.hints
    if hints is None or not lowered.kernels:
        return lowered
    wanted, why = policies(node, hints)
    used: dict[str, None] = {}
    kernels = [k.every(lambda v: _with_policies(v, wanted, used, context.gpu))
               for k in lowered.kernels]  # fmt: skip
    notes = [f"caches: {note} ({why[note.split(':')[0]]})" for note in used]
    for n in sorted(set(hints.by_array) - set(why)):
        notes.append(f"{hints!r}: this kernel neither reads nor writes {n}")
    if not used:
        notes.append(f"{hints!r} has no effect here")
    return replace(lowered, kernels=tuple(kernels), notes=(*lowered.notes, *notes))


def policies(node: Node, hints: Hints) -> tuple[Mapping[Leaf, str], Mapping[str, str]]:
    """The policy of each array that has one, and the reasons by array name."""
    classes: dict[Leaf, set[str]] = {}
    for one in access_classes(node):
        mine = {"stores"} if one.store else {CLASSES[c] for c in one.classes}
        classes.setdefault(one.leaf, set()).update(mine)
    ranked = [*CLASSES.values(), "stores"]
    wanted: dict[Leaf, str] = {}
    why: dict[str, str] = {}
    for leaf, found in classes.items():
        name = array_name(leaf)
        kinds = [kind for kind in ranked if kind in found and getattr(hints, kind) is not None]
        policy = hints.by_array.get(name) or (getattr(hints, kinds[0]) if kinds else None)
        reason = "stores" if kinds == ["stores"] else f"{kinds[0]} accesses" if kinds else ""
        why[name] = "asked for by name" if name in hints.by_array else reason
        if policy is not None and policy != "default":
            wanted[leaf] = policy
    return wanted, why


def require_arrays(roots: Sequence[Leaf]) -> None:
    """Raise `ScheduleError` if an operation's `Hints` name an array that the program lacks."""
    written = list(topological(roots))
    for node in written:
        given = node.label.schedule if not isinstance(node, Input) else None
        hints = None if given is None else as_schedule(given).hints
        if hints is None or not hints.arrays:
            continue
        names = sorted({array_name(leaf) for n in written for leaf in n.leaves})
        for wanted in hints.by_array:
            if wanted not in names:
                near = did_you_mean(wanted, names)
                known = f"Its arrays: {', '.join(names)}."
                with of_operation(node.label, node.where):
                    raise ScheduleError(
                        f"{hints!r}: the program has no array named {wanted!r}.",
                        hint=known if near is None else f"{near}  {known}",
                        where=node.where,
                    )


def _with_policies(kernel: Kernel, wanted: Mapping[Leaf, str], used: dict[str, None], gpu: bool
                   ) -> Kernel:  # fmt: skip
    found: list[tuple[Buffer, str]] = []
    for b in kernel.buffers:
        policy = wanted.get(b.leaf) if b.leaf is not None else None
        if policy is None or b.role not in ("input", "output"):
            continue
        if not gpu and b.role != "output":
            used[f"{array_name(b.leaf)}: {policy} has no effect on loads of a CPU"] = None
            continue
        used[f"{array_name(b.leaf)}: {policy}"] = None
        found.append((b, policy))
    return replace(kernel, policies=tuple(found))
