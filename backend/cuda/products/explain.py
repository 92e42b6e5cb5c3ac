"""Descriptions of GPU products for `explain`: algorithm, tiles, workspace, time and error."""

from __future__ import annotations

from typing import Any

from treadle.dsl.errors import ScheduleError
from treadle.dsl.graph import Matmul
from treadle.dsl.text import duration
from treadle.skeletons.products import STRASSEN, BilinearAlgorithm, algorithm_of
from treadle.skeletons.products.error import SPLITS, TF32, error_in_words
from treadle.skeletons.products.measured import exact, levels_of
from treadle.skeletons.products.model import H200
from treadle.skeletons.products.small import on_gpu, on_tensor_cores, staged

from .choice import LIBRARY, Decision, decide
from .engine import Engine, engine_for, flags_of, launch_plan
from .form import HOPPER, Form, features, form_of
from .library import planned
from .ways import OVER_LIBRARY, Measured, predicted, standard_way


def describe(node: Matmul, size: tuple[int, int, int] | None, device: Any = None,
             checked: bool = False, count: int = 1) -> dict[str, str]:  # fmt: skip
    """Describes how a product is computed on `device`, by its engine if it has one; `checked`:
    indices are tested; `count`: the number of products along leading axes."""
    device = device or Measured()
    t, options = node.left.type, node.options
    algorithm = algorithm_of(options.algorithm)
    asked = options.levels if algorithm is not None else None
    if size is None:
        return {"algorithm": "the extents decide"} if options.levels or options.fast else {}
    engine = engine_for(device)
    try:
        decision = decide(engine, node, size, processors=device.multiprocessors, checked=checked,
                          count=count)  # fmt: skip
    except ScheduleError as error:
        return {"algorithm": f"none: {error.message}"}
    form = form_of(t, size, device.multiprocessors, options, device.arch)
    way, separate = decision.way, len(decision.separate)
    m, k, n = size
    levels = way[1] if way is not None else asked or 0
    found: dict[str, str] = {}
    precision = "" if decision.form is None else decision.form.precision
    if way is not None and engine is not None and form is not None:
        execution, chosen = way[0], algorithm or STRASSEN
        name = f"{chosen.name}, {levels} level{'s' * (levels > 1)}" if levels else "standard"
        found["algorithm"] = f"{name}, execution {execution}, by the tile engine ({form.unit})"
        found |= options.notes(t, (form.precision,))
        if not levels:
            found["algorithm"] += options.unused_levels(t)
            found |= _why_standard(engine, form, size, options)
        if execution == "recursive":
            found["algorithm"] += ": sums in memory"
        elif levels == 2:
            found["algorithm"] += ": outer sums in memory, the inner level fused"
        space = engine.workspace(m, n, k, form.arithmetic, chosen, levels, execution)
        blocks = (chosen.m**levels, chosen.n**levels)
        tiles = -(-m // (form.rows * blocks[0])) * -(-n // (form.columns * blocks[1]))
        tile = f"{tiles:,} of {form.rows} x {form.columns}, {form.step} deep"
        if levels:
            tile += f", in a block of {-(-m // blocks[0]):,} x {-(-n // blocks[1]):,}"
        found["tiles"] = (
            f"{tile}; {device.multiprocessors} blocks of {form.threads} threads at most, "
            f"{form.shared_bytes:,} bytes shared"
        )
        if execution == "atomic" and t.is_inexact:
            found["bits"] = (
                "products are added in the order they arrive: the last bits differ from run to "
                "run; deterministic=True takes another execution"
            )
        flags = 4 * flags_of(execution, tiles, device.multiprocessors)
        found["workspace"] = f"{space + flags:,} bytes"
        found |= _compared(decision, device) or _seconds(
            engine, form.arithmetic, size, levels, execution)  # fmt: skip
        found |= _launches(chosen, levels, execution, separate)
    elif decision.by == LIBRARY and (made := planned(device, t, options, size)) is not None:
        algorithm = made.algorithm
        found["algorithm"] = (
            f"{algorithm.name}, {made.levels} level{'s' * (made.levels > 1)}, execution "
            f"{made.execution}: sums in memory, leaves by the best standard product"
        )
        parts_of = (algorithm.m, algorithm.k, algorithm.n)
        leaf = m, k, n = tuple(
            c // p**made.levels for c, p in zip(made.core, parts_of, strict=True)
        )
        form = form_of(t, leaf, device.multiprocessors, options, device.arch)
        if engine is not None and form is not None and standard_way(engine, form, leaf, options):
            precision = form.precision
        found["tiles"] = f"leaves of {m:,} x {k:,} by {k:,} x {n:,}"
        found["workspace"] = f"{made.workspace * t.bytes:,} bytes"
        found |= options.scaling_notes(size, t) | options.notes(t, (precision,))
        levels = made.levels
        found["launches"] = _in_words(algorithm.products**levels, "product", True, separate)
        known = algorithm is STRASSEN and made.execution == "batched" and levels < 3
        if known and engine is not None and t.name in OVER_LIBRARY:
            found |= _seconds(engine, OVER_LIBRARY[t.name], size, levels, made.execution)
    else:
        by = "cuBLAS" if decision.by == LIBRARY else "a kernel of treadle's"
        found["algorithm"] = f"standard, by {by}{options.unused_levels(t)}"
        if decision.by == LIBRARY and options.precision == "tf32":
            precision = "tf32"
        found |= options.notes(t, (precision,))
        if separate:
            found["launches"] = _in_words(1, "product", False, separate)
        if decision.by == LIBRARY:
            found |= {"tiles": "the library's own", "workspace": "0 bytes besides the library's"}
        elif on_gpu(t, size, count, plain=not decision.why):
            cores, shared = on_tensor_cores(t, m, n, k), staged(t, m, n, k)
            found["tiles"] = (("a warp computes a part" if shared else "a warp computes a product")
                              + ", on tensor cores" if cores else
                              "a thread computes a part of a product, in registers")  # fmt: skip
            if shared:
                found["tiles"] += ", of operands in shared memory"
        found |= _compared(decision, device)
        if not (decision.why or node.batch or (options.precision == "tf32" and form is None)):
            arithmetic = form.arithmetic if form is not None else OVER_LIBRARY.get(t.name)
            found |= _library_seconds(engine, arithmetic, size)
    split = TF32 if precision == "tf32" else SPLITS.get(precision)
    if (levels or split) and t.is_inexact:
        found["error"] = error_in_words(algorithm or STRASSEN, levels, size, t.name, split)
    return found | decision.why


def _origin(device: Any) -> str:
    """Where predictions come from."""
    if features(device.arch) >= HOPPER:
        return f"(measured on an {H200.name}, interpolated)"
    return (f"(measured on an {H200.name}, interpolated, and scaled to {device.multiprocessors} "
            f"multiprocessors of {device.arch})")  # fmt: skip


def _compared(decision: Decision, device: Any) -> dict[str, str]:
    """The predicted time of a product with its parts, and of the alternatives."""
    if not decision.prices:
        return {}
    (_, mine), *others = decision.prices
    times = "; ".join([duration(mine), *(f"{name} {duration(s)}" for name, s in others)])
    return {"predicted": f"{times} {_origin(device)}"}


def _why_standard(engine: Engine, form: Form, size: tuple[int, int, int], options: Any
                  ) -> dict[str, str]:  # fmt: skip
    """The time of the fastest level, for a product that may be fast but is not."""
    if options.algorithm != "auto" or not (exact(form.arithmetic) or options.fast):
        return {}
    found = predicted(engine, form.arithmetic, size, fast=True, deterministic=options.deterministic)
    levels = {way: s for way, s in found.items() if levels_of(way)}
    if not levels:
        return {}
    best = min(levels, key=levels.__getitem__)
    count = "one level" if levels_of(best) == 1 else "two levels"
    return {"why": f"{count} of Strassen's algorithm, execution {best.rsplit(' ', 1)[1]}, would "
            f"take {duration(levels[best])}"}  # fmt: skip


def _launches(algorithm: BilinearAlgorithm, levels: int, execution: str, separate: int
              ) -> dict[str, str]:  # fmt: skip
    """The number of kernels of an engine's product, if it is not one."""
    recursive = execution == "recursive"
    count = 1
    if levels and recursive:
        count = algorithm.products**levels
    elif levels:
        outer = algorithm.products if levels == 2 else 1
        count = outer * len(launch_plan(algorithm, execution).launches)
    summed = (levels > 0 and recursive) or levels == 2
    if count == 1 and not separate:
        return {}
    return {"launches": _in_words(count, "launch of the engine", summed, separate)}


def _in_words(count: int, what: str, sums: bool, separate: int) -> str:
    many = "es" if what.startswith("launch") else "s"
    named = what if count == 1 else what.replace(what.split()[0], what.split()[0] + many, 1)
    text = f"{count} {named}" + (", and sums of blocks" if sums else "")
    return text + (f", and {separate} separate kernel{'s' * (separate > 1)}" if separate else "")


def _library_seconds(engine: Engine | None, arithmetic: str | None, size: tuple[int, int, int]
                     ) -> dict[str, str]:  # fmt: skip
    """The predicted time of a standard product without an engine, and of the fastest engine."""
    found = {} if engine is None or arithmetic is None else predicted(
        engine, arithmetic, size, fast=False, deterministic=True)  # fmt: skip
    if "library" not in found:
        return {}
    text = duration(found.pop("library"))
    if found:
        text += f"; the tile engine {duration(min(found.values()))}"
    assert engine is not None
    return {"predicted": f"{text} {_origin(engine.device)}"}


def _seconds(engine: Engine, arithmetic: str, size: tuple[int, int, int], levels: int,
             execution: str) -> dict[str, str]:  # fmt: skip
    """The predicted time, and that of the best alternative."""
    others = predicted(engine, arithmetic, size, fast=True, deterministic=False)
    what = {0: "standard", 1: "strassen", 2: "two levels"}[levels]
    mine = others.get(f"{what} {execution}")
    if mine is None:
        return {}
    best = min(others[v] for v in others if v.startswith(("library", "standard")))
    why = f"{best / mine:.2f} times as fast as the best standard product" if levels else (
        f"{'without the engine' if exact(arithmetic) else 'the library'} "
        f"{duration(others['library'])}")  # fmt: skip
    return {"predicted": f"{duration(mine)}; {why} {_origin(engine.device)}"}
