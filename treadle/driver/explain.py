"""`explain`: describe a compiled program in plain words.

For every kernel, in launch order: what was fused into it, where it reads, how many bytes it moves
and how much it computes; then why kernels were not fused.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.backend.registry import offered
from treadle.backend.runtime.choosing import first_choice, reasons
from treadle.dsl import graph
from treadle.dsl.analysis.combines import called, ways
from treadle.dsl.analysis.updates import overwritable
from treadle.dsl.expr import Apply, Expr
from treadle.dsl.graphs.names import (
    Names,
    address,
    in_order,
    is_kernel,
    location,
    operations,
    word_of,
)
from treadle.dsl.libraries.checkpoints import recomputed
from treadle.dsl.operations.indexing.index_space import reshaped
from treadle.dsl.passes import cost
from treadle.dsl.passes.horizontal import kept_apart
from treadle.dsl.passes.rows import row_axes, row_members
from treadle.dsl.target import target_of
from treadle.dsl.text import count, count_of, duration, in_bytes, rounded
from treadle.skeletons.access.maps import (
    Access,
    accesses,
    counters,
    read_bodies,
    show_access,
    stores,
)
from treadle.skeletons.lower.launches import lowering_report, two_traversals
from treadle.skeletons.model.device import device_of
from treadle.skeletons.model.report import PLAIN, ShortRows
from treadle.skeletons.schedules import Auto, Tuned
from treadle.skeletons.schedules.schedule import shown
from treadle.tuning.report import measured_lines

if TYPE_CHECKING:
    from .program import Program

WIDTH = 96
INDENT = "  "
#: Shorter kernels, in seconds, are dominated by their launch.
_SHORTEST = 1e-6

_CLASSES = {
    "horizontal": "elements of one row share what they read (one memory sector serves several)",
    "vertical": "neighbouring rows share what they read, or its cache lines (cheap while cached)",
    "streaming": "every element is read once: nothing to gain from a cache",
    "random": "the indices depend on data: no order can be planned",
}
_BORDERS = {
    "clamp": "outside, the nearest element at the edge",
    "mirror": "outside, the array reflected at its edge element",
    "symmetric": "outside, the array reflected beyond its edge",
    "wrap": "outside, the opposite side",
    "constant": "outside, a given value",
    "function": "outside, a given function of the index",
}


def explain(program: Program) -> str:
    """The explanation as text, with lines of at most about 96 characters."""
    names = Names(program)
    short = ShortRows(names)
    words: dict[str, str] = {}
    lines = [_headline(program, names, short), ""]
    lines += _inputs(names)
    for depth, node, under in in_order(program.roots):
        block = (
            _kernel(node, names, words, short) if is_kernel(node) else _control_flow(node, names)
        )
        if under:
            block[0] += f"   ({under})"
        lines += [INDENT * 2 * depth + line for line in block]
        lines.append("")
    lines += _remarks(program)
    lines += _recognised(program)
    lines += _not_fused(program, names, short)
    if words:
        lines.append("Words")
        lines += _table([(word, meaning) for word, meaning in words.items()])
    return "\n".join(lines).rstrip() + "\n"


# --- head ------------------------------------------------------------------------------------


def _headline(program: Program, names: Names, short: ShortRows) -> str:
    written = len(operations(program.source_roots))
    kernels = [n for _, n, _ in in_order(program.roots) if is_kernel(n)]
    several = sum(
        any(head == "launches" for head, _ in _product(n, names))
        for n in kernels if isinstance(n, graph.Matmul)
    )  # fmt: skip
    launched = sum(_launched(n, names, short) for n in kernels)
    made = count(launched, "kernel") + " launched"
    if several:
        some = f", {several}" if len(kernels) > 1 else ""
        made = f"{count(len(kernels), 'step')}{some} of several kernels"
    text = f"{program.name} on {program.backend}: {count(written, 'operation')} written, {made}"
    if not target_of(program.backend).kernels:
        text += "\n(the reference backend runs every operation as it was written)"
    return text


def _launched(node: graph.Node, names: Names, short: ShortRows) -> int:
    """The number of kernels that a node launches."""
    if isinstance(node, graph.CrossedFolds):
        lowering = offered(names.program.backend, "lowering")
        context = None if lowering is None else lowering(names.program, node)
        if context is not None and two_traversals(node, context, names.known) is not None:
            return 2
    return int(not (short.left_out(node) or _is_empty(node, names)))


def _is_empty(node: graph.Node, names: Names) -> bool:
    """Whether a kernel has no results for these extents, and is not launched."""
    made = isinstance(node, graph.Fold | graph.Generate | graph.Scan)
    return made and all(names.size(out.shape) == 0 for out in node.outputs)


def _inputs(names: Names) -> list[str]:
    rows = []
    written: set[Expr] = set()
    for node in names.program.inputs:
        new = [e for e in dict.fromkeys(node.shape) if e not in written]
        written.update(new)
        values = [f"{names.extents[e]} = {names.known[e]}"
                  for e in new if e in names.extents and e in names.known]  # fmt: skip
        rows.append((names.inputs[node], names.type(node.leaf()), ", ".join(values)))
    for param in names.program.params:
        here = f", here {names.known[param]}" if param in names.known else ""
        rows.append((param.name, str(param.type), f"a number given at each call{here}"))
    return ["Inputs", *_table(rows), ""] if rows else []


def _remarks(program: Program) -> list[str]:
    """The backend's remarks on how it runs the program."""
    remarks = offered(program.backend, "remarks")
    found = [] if remarks is None else remarks(program)
    return [*found, ""] if found else []


# --- kernels ---------------------------------------------------------------------------------


def title(node: graph.Node, names: Names) -> str:
    number = names.number(node)
    text = str(node.label)
    if number is not None and not node.label.name:
        text += f" {address(number)}"
    if word := word_of(node):
        text += f" of {word}"
    where = location(node.where)
    return f"{text} at {where}" if where else text


def _control_flow(node: graph.Node, names: Names) -> list[str]:
    """A loop (what is repeated) or a branch (what decides)."""
    name = names.loops[node]
    if isinstance(node, graph.ArrayLoop):
        times = "until its test fails" if node.count is None else (
            f"{names.extent(node.count)} times")  # fmt: skip
        states = [
            f"{names.inputs[s]} starts as {names.array(first)}, becomes {names.array(new)}"
            for s, first, new in zip(node.state, node.init, node.body, strict=True)
        ]
        rows = [(name, states), *_unordered(node, "the operations in its body have their own")]
        return [f"Repeat {times}: {title(node, names)}", *_rows(rows)]
    if isinstance(node, graph.Branch):
        sides = [
            f"{names.array(a)} or {names.array(b)}"
            for a, b in zip(node.then, node.other, strict=True)
        ]
        rows = [(name, sides), *_unordered(node, "the operations of its sides have their own")]
        return [f"Choose: {title(node, names)}", *_rows(rows)]
    rows = _unordered(node, "its operand has its own")
    return [f"Keep in memory: {title(node, names)}", *_rows(rows)]


def _unordered(node: graph.Node, others: str) -> list[tuple[str, list[str]]]:
    """A row for the schedule of a node that computes nothing itself."""
    if not node.label.ordered:
        return []
    text = f"{node.label.schedule!r}: no effect: it computes nothing itself; {others}"
    return [("schedule", _wrapped_text(text))]


def _kernel(node: graph.Node, names: Names, words: dict[str, str], short: ShortRows) -> list[str]:
    rows: list[tuple[str, list[str]]] = []
    product = _product(node, names) if isinstance(node, graph.Matmul) else []
    several = any(head == "launches" for head, _ in product)
    shown = short.shown(node)
    if shown.fused:
        rows.append(("together with" if several else "fused in", fused(shown)))
    found = accesses(shown)
    reads = _reads(shown, found, names, words)
    if reads:
        rows.append(("reads", reads))
    rows.append(("writes", _writes(node, names, words)))
    text = short.describe(node)
    head = "loops" if node in short.short.deep else "short rows"
    head = "few" if isinstance(node, graph.Generate) else head
    rows += [(head, _wrapped_text(text))] if text else []
    rows += [] if short.left_out(node) else _costs(shown, found, names, words)
    rows += product
    schedule = [] if short.left_out(node) else _schedule(node, names, product, short)
    rows += [("schedule", schedule)] if schedule else []
    rows += _measured(node, names)
    what = "Step" if several else "Kernel"
    return [f"{what} {names.kernels[node]}: {title(node, names)}", *_rows(rows)]


def _checkpoints(node: graph.Library, names: Names) -> list[tuple[str, list[str]]]:
    """How many states of a loop are stored for its gradient, and what the others cost."""
    if node.operation.name != "checkpoints":
        return []
    counts = [names.size((e,)) for leaf in node.arguments
              for e in getattr(leaf.node, "elements", ())]  # fmt: skip
    if len(counts) != 3 or None in counts:
        return [("stored", ["as many states of the loop as fit, known when it starts"])]
    n, length, slots = (int(c or 0) for c in counts)
    again = recomputed(max(n, 0), length, slots)
    text = f"{min(length + slots, n):,} of {n:,} states; {again:,} iterations are computed again"
    if n:
        text += f": with the loop itself {1 + again / n:.2g} times as many"
    return [("stored", _wrapped_text(text))]


def _schedule(node: graph.Node, names: Names, product: Sequence[tuple[str, list[str]]],
              short: ShortRows) -> list[str]:  # fmt: skip
    """The given or the chosen schedule, with reasons; then the launch configuration."""
    program, schedule = names.program, node.label.schedule
    given = "none given" if schedule is None else shown(schedule)
    lowering = offered(program.backend, "lowering")
    if lowering is None:
        return [] if schedule is None else [f"{given}: no effect on {program.backend}"]
    context = lowering(program, node)
    who = _external_kernel(node, product, context is None)
    chosen = _is_open(schedule)
    found = reasons(program, node, names.known)
    if who is not None:
        own = f"{who} has an order of its own"
        if schedule is None:
            return [own]
        return [given, own if chosen else f"no effect: {own}"]
    context = replace(context, schedule=first_choice(program, node))
    what = lowering_report(short.made(node), context, names.known)
    if _is_plain(found):
        found = found[1:]
        if schedule is None and len(found) > 1:  # show candidates only for an explicit Auto()
            found = [found[0], "schedule=Auto() shows the candidates"]
    if context.schedule is not None:
        name = repr(context.schedule)
        given = given if given == name else f"{given}; {name} was chosen"
        found = [f for f in found if f != name]
    elif chosen and what.code is not None:
        given += f"; as {what.code!r}"
    vectors = offered(program.backend, "vectors")
    lanes = [] if vectors is None else vectors(short.made(node), context)
    lines = [given, *what.launches, *what.notes, *lanes, *found]
    return [part for line in lines for part in _wrapped_text(line)]


def _measured(node: graph.Node, names: Names) -> list[tuple[str, list[str]]]:
    """The results of `tune` for a kernel on this device, at these extents."""
    lines = measured_lines(names, node, names.tuning)
    return [("measured", [part for line in lines for part in _wrapped_text(line)])] if lines else []


def _wrapped_text(text: str) -> list[str]:
    """A sentence wrapped to lines; a row of a table unchanged."""
    if len(text) <= WIDTH - 13 or "  " in text.strip():
        return [text]
    return textwrap.wrap(text, WIDTH - 13, subsequent_indent=INDENT)


def _is_open(schedule: Any) -> bool:
    """Whether treadle chooses the entire schedule."""
    return schedule is None or schedule in (Auto(), Tuned())


def _is_plain(found: Sequence[str]) -> bool:
    """Whether reasons begin with the name of the default."""
    return bool(found) and found[0] == PLAIN


def _external_kernel(node: graph.Node, product: Sequence[tuple[str, list[str]]], library: bool
                     ) -> str | None:  # fmt: skip
    """A description of what computes a node, if that is not a kernel of the skeletons."""
    if isinstance(node, graph.Library):
        return f"the library's {node.operation.name}" if library else None
    if not isinstance(node, graph.Matmul):
        return None
    way = " ".join(dict(product).get("algorithm", []))
    if "by the tile engine" in way:
        return "the tile engine"
    if "by a kernel of treadle's" in way:
        return "the kernel for many small products" if library else None
    return way.partition("by ")[2].split(" ")[0].rstrip(",:") if way.startswith(
        "standard, by ") else "its execution"  # fmt: skip


def _product(node: graph.Matmul, names: Names) -> list[tuple[str, list[str]]]:
    """How the backend computes a product: algorithm, tiles, workspace, predicted time, error."""
    described = offered(names.program.backend, "describe_product")
    if described is None:
        return []
    extents = [names.size((e,)) for e in (node.m, node.k, node.n)]
    size = None if None in extents else tuple(extents)
    described_product = described(
        node, size, names.program.settings.check, names.size(node.batch) or 1
    )
    return [(head, textwrap.wrap(text, WIDTH - 16)) for head, text in described_product.items()]


def fused(node: graph.Node) -> list[str]:
    """Labels with locations; equal ones are counted."""
    counts: dict[str, int] = {}
    for label, where in node.fused:
        spot = location(where)
        text = f"{label} at {spot}" if spot else str(label)
        counts[text] = counts.get(text, 0) + 1
    shown = [text if n == 1 else f"{text} ({n} times)" for text, n in counts.items()]
    if len(shown) > 12:
        shown = [*shown[:10], f"and {sum(list(counts.values())[10:])} more"]
    return shown


def _reads(
    node: graph.Node, found: Sequence[Access], names: Names, words: dict[str, str]
) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for access in found:
        for word in access.classes:
            words.setdefault(word, _CLASSES[word])
        if access.boundary is not None:
            words.setdefault(access.boundary, _BORDERS[access.boundary])
        leaf = access.leaf
        rows.append((f"{names.array(leaf)}: {show_access(access, names.form)}",
                     names.type(leaf), ", ".join(access.classes)))  # fmt: skip
    for leaf in node.operands():
        if _in_place(node, leaf, names):
            rows.append((f"{names.array(leaf)}: updated in place", names.type(leaf), ""))
            continue
        rows.append((f"{names.array(leaf)}: whole", names.type(leaf), "streaming"))
        words.setdefault("streaming", _CLASSES["streaming"])
    lines = _table(rows, "")
    if max(map(len, lines), default=0) <= WIDTH - 13:
        return lines
    return [
        line for first, *rest in rows for line in (first, INDENT + ", ".join(filter(None, rest)))
    ]


def _in_place(node: graph.Node, leaf: graph.Leaf, names: Names) -> bool:
    """Whether these are a permute's defaults, which it updates in place: nothing needs the old
    ones afterwards."""
    if not isinstance(node, graph.Permute | graph.Sequential):
        return False
    if isinstance(leaf.node, graph.Input):
        loops = (n for n in names.loops if isinstance(n, graph.ArrayLoop) and leaf.node in n.state)
        return any(leaf in overwritable(n).get(node, ()) for n in loops)
    others = (le for n in names.kernels if n is not node for le in n.inputs())
    return leaf not in {*others, *names.program.roots} and node.defaults.count(leaf) == 1


def _writes(node: graph.Node, names: Names, words: dict[str, str]) -> list[str]:
    types = [names.type(leaf) for leaf in node.leaves]
    if isinstance(node, graph.Permute):
        target = stores(node)[0]
        how = "overwriting" if node.combine is None else f"combined with {called(node.combine)}"
        words.setdefault(
            "scattered", "written at computed indices; values at equal indices are combined"
        )
        lines = [f"{t}  scattered at {show_access(target, names.form)}, {how}" for t in types]
        return [*lines, *_lost_fractions(node)]
    if isinstance(node, graph.Sequential):
        counts = Counter(node.written)
        return [f"{t}  {counts[k]} written in each iteration, in place"
                for k, t in enumerate(types)]  # fmt: skip
    if isinstance(node, graph.Fold | graph.StoringFold) and node.inner:
        inner = names.shape(node.inner)
        folded = len(node.epilogue)
        by_component = node.epilogue == node.results and called(node.combine) not in (
            "argmin",
            "argmax",
        )
        each = ways(node.combine) if by_component else [called(node.combine)] * folded
        found = zip(types[:folded], each, strict=True)
        return [*(f"{t}  each from {inner} elements by {w}" for t, w in found), *types[folded:]]
    if isinstance(node, graph.CrossedFolds):
        rows = len(node.epilogue)
        return [
            f"{t}  each {'along' if k < rows else 'across'} {names.shape(over)}"
            for k, t in enumerate(types)
            for over in [node.inner if k < rows else node.outer[-1:]]
        ]
    if isinstance(node, graph.FoldSeg):
        return [f"{t}  one per segment, by {called(node.combine)}" for t in types]
    if isinstance(node, graph.Scan):
        way = "from the end" if node.reverse else "from the start"
        return [f"{t}  running {called(node.combine)} along axis {node.axis}, {way}" for t in types]
    if isinstance(node, graph.Recurrence):
        way = "from the end" if node.reverse else "from the start"
        along = f"along axis {node.axis}, {way}"
        stored = len(node.collected)
        return [f"{t}  {f'of every step {along}' if k < stored else 'of the last step'}"
                for k, t in enumerate(types)]  # fmt: skip
    if isinstance(node, graph.Matmul):
        return [f"{t}  sums of {names.extent(node.k)} products" for t in types]
    return types


def _lost_fractions(node: graph.Permute) -> list[str]:
    """Notes on fractions lost by casting values to the type of a permute's defaults."""
    casts = (v for v in node.values if isinstance(v, Apply) and v.op.name == "cast")
    lossy = {(v.args[0].type, v.type) for v in casts if v.args[0].type.is_float}
    return [
        f"{INDENT}values are cast from {before} to {now}: fractions are dropped"
        for before, now in sorted(lossy, key=str)
        if now.is_integer
    ]


def _costs(node: graph.Node, found: Sequence[Access], names: Names, words: dict[str, str]) -> list[
        tuple[str, list[str]]]:  # fmt: skip
    """Memory traffic, operations and intensity."""
    if isinstance(node, graph.Memory):
        size = _total([names.size(leaf.shape) for leaf in node.leaves],
                      [leaf.type.bytes for leaf in node.leaves])  # fmt: skip
        return [("memory", ["allocated" if size is None else f"{in_bytes(size)} allocated"])]
    replaced = isinstance(node, graph.Permute) and node.combine is None
    kept = (le for le in node.operands() if not (replaced and _in_place(node, le, names)))
    leaves = dict.fromkeys([*(a.leaf for a in found), *kept])
    results = list(node.leaves)
    each, elements, after, finished = _work(node, names)
    sizes = {le: names.size(le.shape) for le in leaves}
    if elements is not None and not counters(read_bodies(node)):
        for leaf in dict.fromkeys(a.leaf for a in found if a.leaf not in node.operands()):
            reads = elements * sum(a.count for a in found if a.leaf == leaf)
            size = sizes[leaf]
            sizes[leaf] = reads if size is None else min(size, reads)
    total_read = _total(sizes.values(), [le.type.bytes for le in leaves])
    total_written = _total([names.size(le.shape) for le in results],
                           [le.type.bytes for le in results])  # fmt: skip
    per_read = sum(le.type.bytes for le in leaves)
    per_written = sum(le.type.bytes for le in results)
    moved = f"{per_read} B read + {per_written} B written per element"
    if total_read is not None and total_written is not None:
        moved = f"{in_bytes(total_read)} read + {in_bytes(total_written)} written"
    rows = [("memory", [moved])]
    if isinstance(node, graph.Library):
        lowering = offered(names.program.backend, "lowering")
        own = lowering is not None and lowering(names.program, node) is not None
        name = node.operation.name
        rows.append(("work", [f"a kernel for {name}" if own else f"a library's {name}"]))
        rows += _checkpoints(node, names)
        return rows
    if not each and not after:
        target = target_of(names.program.backend)
        whole = target.cores or (target.gpu and names.program.devices is None)
        same = whole and reshaped(node) is not None
        text = "none if what it reads is dense: the same memory" if same else "only moves elements"
        rows.append(("work", [text]))
        return rows
    words.setdefault(
        "operations", "counted in additions: a multiply-add is 2, a division 8, an exponential 20"
    )
    unit = "product" if isinstance(node, graph.Matmul) else "element"
    work = f"{count_of(each, 'operation')} per {unit}" if each else ""
    if after:
        work += (", " if work else "") + f"{count_of(after, 'operation')} per result"
    total = None
    if elements is not None and (finished is not None or not after):
        total = each * elements + after * (finished or 0)
        work += f", {rounded(total)} in all"
    if cost.guesses_trip_count((*node.per_element(), *_epilogue(node)), names.value):
        work += f" (loops of unknown length as {cost.UNKNOWN_TRIP_COUNT:.0f} iterations)"
    rows.append(("work", [work]))
    byte: float | None = per_read + per_written or None
    spent = each + after
    if total_read is not None and total_written is not None and total is not None:
        byte = (total_read + total_written) or None
        spent = total
    if byte is not None:
        known = None not in (total_read, total_written, total)
        limit = _limit(names.program, spent, byte, known and not isinstance(node, graph.Matmul))
        rows.append(("intensity", [f"{count_of(spent / byte, 'operation')} per byte: {limit}"]))
    return rows


def _limit(program: Program, work: float, moved: float, whole: bool) -> str:
    """Whether arithmetic or memory limits a kernel; for an entire kernel (`whole`) on a GPU also
    the time.  (Times on a CPU vary with the machine: `Auto` and `treadle ceilings`.)"""
    device = device_of(program)
    computing, moving = work / (2 * device.issue * device.lanes), moved / device.dram
    what = "memory" if computing < moving else "arithmetic"
    longest = max(computing, moving)
    if not (whole and device.gpu) or longest < _SHORTEST:
        return f"{what} is the limit"
    rate = "the rate of a copy" if computing < moving else "its best"
    return f"{what} is the limit, {duration(longest)} at {rate}"


def _epilogue(node: graph.Node) -> tuple[Expr, ...]:
    """The expressions computed once per result of a reduction, not once per element."""
    reduces = isinstance(node, graph.Fold | graph.StoringFold | graph.FoldSeg | graph.Matmul)
    if isinstance(node, graph.CrossedFolds):
        return node.finished
    return tuple(getattr(node, "epilogue", ())) if reduces else ()


def _work(node: graph.Node, names: Names) -> tuple[float, int | None, float, int | None]:
    """(additions per element of the domain, elements of the domain, additions per result of a
    reduction, number of results)."""
    epilogue = _epilogue(node)
    after = cost.arithmetic(epilogue, names.value)
    finished = names.size(node.leaves[0].shape) if node.leaves else None
    if isinstance(node, graph.Matmul):
        size = names.size((*node.batch, node.m, node.n, node.k))
        return 2.0, size, after, finished
    own = [e for e in node.per_element() if e not in epilogue]
    axes = row_axes(own, node.shape) if isinstance(node, graph.Generate) else None
    if axes is not None and isinstance(node, graph.Generate) and not node.label.ordered:
        members = row_members(own, node.shape, axes)  # which share what they have in common
        each = cost.arithmetic([e for m in members for e in m], names.value) / len(members)
    else:
        each = cost.arithmetic(own, names.value)
    combine = getattr(node, "combine", None)
    if combine is not None:
        each += cost.arithmetic(combine.results, names.value)
    if isinstance(node, graph.CrossedFolds):
        each += cost.arithmetic(node.across_combine.results, names.value)
    space = (
        (*node.outer, node.extent) if isinstance(node, graph.FoldSeg) else node.iteration_space()
    )
    return each, names.size(space), after, finished


def _total(sizes: Iterable[int | None], each: Iterable[int]) -> int | None:
    total = 0
    for size, n in zip(sizes, each, strict=True):
        if size is None:
            return None
        total += size * n
    return total


# --- decisions -------------------------------------------------------------------------------


def _recognised(program: Program) -> list[str]:
    notes = program.history.context.notes if program.history.context else []
    return (
        ["Recognised", *(f"{INDENT}{note}" for note in dict.fromkeys(notes)), ""] if notes else []
    )


#: Why kernels that read the same array were not fused.
_SCHEDULED = (
    "operations with schedules of their own are kernels of their own; one operation that returns "
    "a tuple, td.map(lambda x: (f(x), g(x)), a), is one kernel"
)


def _not_fused(program: Program, names: Names, short: ShortRows) -> list[str]:
    """Why kernels that read each other's results, or the same arrays, were not fused."""
    context = program.history.context
    kept = context.kept if context else {}
    read_by: dict[graph.Node, list[int]] = {}
    for node in graph.topological(program.roots):
        if node in names.kernels:
            for leaf in dict.fromkeys(leaf.node for leaf in node.inputs()):
                read_by.setdefault(leaf, []).append(names.kernels[node])
        for leaf_ in graph.inner_inputs(node):
            read_by.setdefault(leaf_.node, [])
    rows = []
    for node, number in names.kernels.items():
        readers = read_by.get(node)
        reason = short.why_separate(node, kept.get(node, ""))
        if not readers or not reason:
            continue
        into = ", ".join(map(str, readers))
        rows.append((f"kernel {number} into {into}", reason))
    for nodes in kept_apart(program.roots, context) if context else ():
        numbers = sorted(names.kernels[node] for node in nodes if node in names.kernels)
        if len(numbers) > 1:
            beside = ", ".join(map(str, numbers[1:]))
            rows.append((f"kernel {numbers[0]} with {beside}", _SCHEDULED))
    return ["Not fused", *_table(rows), ""] if rows else []


# --- text ------------------------------------------------------------------------------------


def _rows(rows: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Lines with headings; further lines of a heading are aligned below the first."""
    width = max([9, *(len(head) for head, _ in rows)]) + 2
    lines = []
    for head, texts in rows:
        for k, text in enumerate(texts):
            lines.append(f"{INDENT}{head if k == 0 else '':<{width}}{text}".rstrip())
    return lines


def _table(rows: Sequence[tuple[str, ...]], indent: str = INDENT) -> list[str]:
    """Aligned columns, separated by two spaces."""
    if not rows:
        return []
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)]
        lines += _wrapped(indent + "  ".join(cells).rstrip(), sum(widths[:-1]) + 2 * len(
            widths[:-1]) + len(indent))  # fmt: skip
    return lines


def _wrapped(line: str, hanging: int) -> list[str]:
    if len(line) <= WIDTH or hanging > WIDTH // 2:
        return [line]
    return [line[:hanging] + part if k == 0 else " " * hanging + part for k, part in enumerate(
        textwrap.wrap(line[hanging:], WIDTH - hanging))]  # fmt: skip
