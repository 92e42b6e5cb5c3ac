"""The source of the engine's kernel for a product, for the extents of a program's examples."""

from __future__ import annotations

import re
from typing import Any

from treadle.dsl.expr import Apply, Expr, Index, Read
from treadle.dsl.graph import Leaf, Matmul, Node
from treadle.dsl.graphs.names import Names
from treadle.skeletons.products import STRASSEN, algorithm_of, instances

from ...runtime.host import HostCompiler
from ...runtime.plan import Planner
from .choice import ENGINE, KERNEL, decided
from .form import Code
from .fused import fused_source, pieces_of
from .mapped import code_of
from .parts import separated
from .ways import Measured


class _Owner:
    """What the parts of a product need from an executable, without a device."""

    def __init__(self, program: Any) -> None:
        self.program, self.planner = program, Planner(program.roots, program.inputs)
        self.host = HostCompiler(self.slot_of, {p: k for k, p in enumerate(program.params)})

    def slot_of(self, leaf: Leaf) -> int:
        return self.planner.slot(leaf)


def engine_kernel(program: Any, node: Matmul, on: Measured
                  ) -> tuple[Code | None, list[Node], list[Node]] | None:  # fmt: skip
    """The code of a product's (first) launch on a GPU that was measured, and the kernels before and
    after it.  The code is None if the library computes the product between them, or the last of
    those before; the result is None if a kernel of the skeletons or the library computes
    everything, or the extents are unknown.  Raises ScheduleError if a requested execution does not
    exist there."""
    decision = decided(program, node, on)
    if decision is None or (decision.by != ENGINE and not decision.separate):
        return None
    made = separated(node, decision.separate)
    before, inner = list[Node](made.before), made.product
    behind: list[Node] = [] if made.after is None else [made.after]
    if decision.by == KERNEL:
        return None, [*before, inner], behind
    if decision.by != ENGINE or decision.way is None or decision.form is None:
        return None, before, behind
    form, way, pieces = decision.form, decision.way, pieces_of(_Owner(program), inner)
    names = Names(program)
    m, k, n = (names.size((e,)) for e in (node.m, node.k, node.n))
    assert m is not None and k is not None and n is not None and pieces is not None
    left, right = _layout(inner.left, 1), _layout(inner.right, 0)
    source = fused_source(pieces)[0] if pieces else ""
    if form.maps and form.precision:  # dense copies have contiguous rows
        left, right = "K" if left == "S" else left, "R" if right == "S" else right
        return code_of(form, left, right, source, m <= n), before, behind
    along = (k if left == "K" else m, k if right == "K" else n)
    vector = "S" not in (left, right) and all(x % form.aligned == 0 for x in along)
    mode = way[0] if way[0] in form.modes else "atomic" if way[0] == "batched" else "owner"
    # With sums in memory, the launches are standard products of blocks.
    algorithm = algorithm_of(node.options.algorithm) or STRASSEN
    blocks = instances(algorithm) if way[1] and way[0] != "recursive" else ()
    terms = max((len(t) for i in blocks for t in (i.a, i.b)), default=1)
    code = Code(left, right, vector, mode, 1 if terms == 1 else 2 if terms == 2 else 4,
                form.arithmetic, source or None)  # fmt: skip
    return code, before, behind


def _layout(e: Expr, inner: int) -> str:
    """The index along which row-major inputs are contiguous; `inner`: the axis of k."""
    while isinstance(e, Apply) and e.args:
        e = next((a for a in e.args if not isinstance(a, Index)), e.args[0])
    last = e.args[-1] if isinstance(e, Read) and e.args else None
    return "K" if last == Index(inner) else "R" if last == Index(1 - inner) else "S"


def one_file(code: Code) -> str:
    """The source of a code in one file with other kernels: its slots have their own namespace."""
    text = code.source()
    if code.fused is None:
        return text
    structs = re.findall(r"^struct (\w+) \{", code.fused, re.M)
    uses = "".join(f"using fused::{name};\n" for name in structs)
    return text.replace(code.fused, f"namespace fused {{\n{code.fused}}}\n{uses}", 1)
