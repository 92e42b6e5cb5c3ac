"""How a product is computed on a GPU, in words: algorithm, tiles, workspace, time and error."""

from __future__ import annotations

from typing import Any

from treadle.dsl.graph import Matmul
from treadle.dsl.quantities import duration
from treadle.skeletons.algorithms import STRASSEN
from treadle.skeletons.algorithms.error import error_in_words
from treadle.skeletons.algorithms.executions import plan
from treadle.skeletons.algorithms.model import H200

from .engine import Engine, engine_for, flags_of
from .engine_form import Form, form_of
from .engine_parts import decide
from .engine_step import Measured, fused_way, predicted, refused, way_in
from .products import Card, algorithm_of, by_library, in_parts, plain_operands


def describe(node: Matmul, size: tuple[int, int, int] | None, device: Any = None) -> dict[str, str]:
    """How a product is computed, for `explain`: on `device`, where that has an engine."""
    device = device or Measured()
    t, options = node.left.type, node.options
    algorithm = algorithm_of(options.algorithm)
    asked = options.levels if algorithm is not None else None
    engine, form = engine_for(device), form_of(t, size, device.multiprocessors, options)
    if size is None:
        return {"algorithm": "the extents decide"} if options.levels or options.fast else {}
    split_up = in_parts(node)
    own = engine is not None and form is not None and (plain_operands(node) or split_up)
    error = refused(node, form if own else None)
    if error is not None:
        return {"algorithm": f"none: {error.message}"}
    way = way_in(node, engine, form, size) if own and engine and form else None
    fused = node.epilogue != (node.result,)
    m, k, n = size
    parts: dict[str, str] = {}
    if split_up:
        decision = decide(engine, form, node, size)
        way, parts = decision.way, decision.why
    elif fused and own and engine is not None and form is not None:
        way = fused_way(engine, form, size)
    levels = way[1] if way is not None else asked or 0
    found: dict[str, str] = {}
    if way is not None and engine is not None and form is not None:
        execution, chosen = way[0], algorithm or STRASSEN
        name = f"{chosen.name}, {levels} level{'s' * (levels > 1)}" if levels else "standard"
        found["algorithm"] = f"{name}, execution {execution}, by the tile engine ({form.unit})"
        if not levels:
            found["algorithm"] += options.unused_levels(t)
        if form.copies(execution):
            found["algorithm"] += ": sums in memory" + (
                ", formed beside the products before" if form.ahead else "")  # fmt: skip
        elif levels == 2:
            found["algorithm"] += ": outer sums in memory, the inner level fused"
        tile = f"{form.rows} x {form.columns}, {form.step} deep"
        found["tiles"] = f"{tile}, {form.threads} threads, {form.shared_bytes:,} bytes shared"
        space = engine.workspace(m, n, k, form.arithmetic, chosen, levels, execution)
        blocks = (chosen.m**levels, chosen.n**levels)
        tiles = -(-m // (form.rows * blocks[0])) * -(-n // (form.columns * blocks[1]))
        flags = 4 * flags_of(execution, tiles, device.multiprocessors)
        found["workspace"] = f"{space + flags:,} bytes"
        found |= _seconds(engine, form, size, levels, execution)
    elif levels and algorithm is not None and (split_up or not fused):
        made = plan(algorithm, options.execution or "recursive", levels, size, Card.workers)
        width = 4 if t.bytes == 2 else t.bytes
        found["algorithm"] = (
            f"{algorithm.name}, {made.levels} level{'s' * (made.levels > 1)}, execution "
            f"{made.execution}: sums in memory, leaves by the best standard product"
        )
        found["workspace"] = f"{made.workspace * width:,} bytes"
        levels = made.levels
    else:
        found["algorithm"] = (
            "standard, by "
            + ("cuBLAS" if by_library(node) else "a kernel of treadle's")
            + options.unused_levels(t)
        )
    if levels and t.is_inexact:
        found["error"] = error_in_words(algorithm or STRASSEN, levels, size,
                                        "float32" if t.bytes == 2 else t.name)  # fmt: skip
    return found | parts


def _seconds(engine: Engine, form: Form, size: tuple[int, int, int], levels: int, execution: str
             ) -> dict[str, str]:  # fmt: skip
    """Predicted time, with the other ways beside it."""
    others = predicted(engine, form, size, fast=True, deterministic=False)
    what = {0: "standard", 1: "strassen", 2: "two levels"}[levels]
    mine = others.get(f"{what} {execution}")
    if mine is None:
        return {}
    best = min(others[v] for v in others if v.startswith(("library", "standard")))
    why = f"{best / mine:.2f} times as fast as the best standard product" if levels else (
        f"{'the library' if form.arithmetic.startswith('Float') else 'without the engine'} "
        f"{duration(others['library'])}")  # fmt: skip
    return {"predicted": f"{duration(mine)}; {why} (measured on an {H200.name}, interpolated)"}
