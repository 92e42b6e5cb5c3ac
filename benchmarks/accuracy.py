"""Measures the accuracy of the native backend's functions, for the table of docs/accuracy.md.

`python -m benchmarks.accuracy` prints the largest error of every function in units in the last
place (ulp) of its type; `--write` puts the table into docs/accuracy.md.  The reference of float32
is NumPy in float64, that of float64 NumPy in extended precision (x86's 80 bits) or, for erf and
erfc, libm (itself within 1 ulp).  The part on matrix products is `benchmarks.matmul.accuracy`'s.
"""

from __future__ import annotations

import platform
import re
import sys
import warnings
from typing import Any

import numpy as np

import treadle as td
from treadle.backend.native.codegen import mathlib
from treadle.backend.native.codegen.target import Target
from treadle.dsl.primitives import TABLE

from .matmul import accuracy as products

Numbers = np.ndarray[Any, Any]
ONE = ("sqrt", *(n for n, (_, k) in mathlib.FUNCTIONS.items() if k == 1))
TWO = tuple(n for n, (_, k) in mathlib.FUNCTIONS.items() if k == 2)
COUNT = 1 << 19
#: The usual range (low, high) of each function; random bit patterns are tried as well.
RANGES = {
    "exp": (-87, 88), "exp2": (-126, 127), "expm1": (-20, 88), "sinh": (-80, 80),
    "cosh": (-80, 80), "tanh": (-9, 9), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-1, 1), "erf": (-4, 4), "erfc": (-4, 9),
    "log1p": (-1, 10), "arccosh": (1, 100),
}  # fmt: skip


def every_pattern(dtype: Any, rng: np.random.Generator) -> Numbers:
    """Random bit patterns: every exponent, infinities, NaNs and subnormals among them."""
    size = np.dtype(dtype).itemsize
    made: Numbers = rng.integers(0, 256, COUNT * size, np.uint8).view(dtype)
    return made


def ulps(found: Numbers, reference: Numbers, dtype: Any) -> Numbers:
    """Errors in units in the last place; ∞ where one is NaN or infinite and the other is not."""
    about = np.finfo(dtype)
    _, exponent = np.frexp(np.abs(reference))
    least = about.minexp - about.nmant
    unit = np.ldexp(np.ones_like(reference), np.maximum(exponent - about.nmant - 1, least))
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(reference.dtype) - reference) / unit
        rounded = reference.astype(dtype)
    same = (np.isnan(found) & np.isnan(reference)) | (found == rounded)
    return np.where(same & ~np.isfinite(off), 0, np.where(np.isnan(off), np.inf, off))


def reference_of(name: str, args: list[Numbers], dtype: Any) -> Numbers:
    wide = np.float64 if dtype == np.float32 or name in ("erf", "erfc") else np.longdouble
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(TABLE[name].numpy(*(a.astype(wide) for a in args)))


def measure(name: str, dtype: Any) -> tuple[float, float]:
    """The largest error over the usual range, and over random bit patterns."""
    rng = np.random.default_rng(1)
    arity = TABLE[name].arity
    low, high = RANGES.get(name, (0, 100))
    if name in ("arctan2", "hypot", "arctan", "arcsinh", "cbrt"):
        low = -100
    if name == "power":
        low, high = 0, 20
    usual = [rng.uniform(low, high, COUNT).astype(dtype) for _ in range(arity)]
    wild = [every_pattern(dtype, rng) for _ in range(arity)]
    worst = []
    for args in (usual, wild):
        found = td.run(getattr(td, name)(*args), backend="native")
        worst.append(float(ulps(found, reference_of(name, args, dtype), dtype).max()))
    return worst[0], worst[1]


def table() -> str:
    target = Target.host()
    lines = [
        "| function | float32: usual | random bits | float64: usual | random bits | routine |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name in (*ONE, *TWO):
        cells = [f"{e:.2f}" for dtype in (np.float32, np.float64) for e in measure(name, dtype)]
        routine = "one instruction"
        if name in mathlib.FUNCTIONS:
            found = mathlib.routine(name, "float", target)
            routine = f"`{found.symbol}`" if found.lanes else f"`{found.symbol}` per lane"
        lines.append(f"| {name} | {' | '.join(cells)} | {routine} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with this table, and where it was made."""
    where = f"{platform.machine()} with {' '.join(platform.libc_ver())} and NumPy {np.__version__}."
    found = products.PAGE.read_text(encoding="utf-8")
    found, n = re.subn(r"(benchmarks.accuracy --write` on\n).*\n", rf"\g<1>{where}\n", found)
    found, m = re.subn(r"\| function \|[^\n]*\n(\|[^\n]*\n)+", lambda _: text + "\n", found)
    assert (n, m) == (1, 1), "the page has no place for the table"
    return found


def main() -> int:
    text = table()
    print(text)
    if "--write" in sys.argv[1:]:
        products.PAGE.write_text(page(text), encoding="utf-8")
        kept = products.newest()
        if kept is not None:
            products.write_page(kept)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
