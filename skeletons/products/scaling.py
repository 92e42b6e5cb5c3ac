"""Scaling by powers of two before a fast product, undone after it (Ballard et al. 2016).

    outer        rows of A and columns of B to largest elements near 1:  C = D_A · (A'·B') · D_B
    inner-outer  first columns of A against rows of B, A·D⁻¹ · D·B, to similar sizes

A standard product does not need scaling: every element of C is a sum over one row and one column.
A fast product adds blocks, hence rows and columns of very different magnitudes, and the small ones
lose digits.  Powers of two make the scaling itself exact.
"""

from __future__ import annotations

from typing import Any

#: Limits of the exponents of scale factors: products of two factors stay representable.
LARGEST = {2: 6, 4: 60, 8: 500}


def scaled(library: Any, a: Any, b: Any, scaling: str) -> tuple[Any, Any, Any, Any]:
    """(A', B', rows, columns): the product of A' and B', times rows and columns, is A·B."""
    if scaling == "inner-outer":
        down, across = exponents(library, a, -2), exponents(library, b, -1)
        inner = (down.swapaxes(-1, -2) - across) // 2
        a, b = _times(library, a, -inner.swapaxes(-1, -2)), _times(library, b, inner)
    rows, columns = exponents(library, a, -1), exponents(library, b, -2)
    return _times(library, a, -rows), _times(library, b, -columns), rows, columns


def undo(library: Any, out: Any, rows: Any, columns: Any) -> None:
    """Multiplies `out` by the factors of its rows and columns, in place."""
    real = out.real.dtype
    library.multiply(out, _factor(library, rows, real), out=out)
    library.multiply(out, _factor(library, columns, real), out=out)


def exponents(library: Any, x: Any, axis: int) -> Any:
    """Exponents of the largest finite elements along an axis (kept, extent 1); 0 if none."""
    size = library.abs(x)
    most = library.where(library.isfinite(size), size, 0).max(axis=axis, keepdims=True, initial=0)
    found = library.frexp(most)[1]
    limit = LARGEST[x.real.dtype.itemsize]
    return library.clip(library.where(most > 0, found, 0), -limit, limit)


def _times(library: Any, x: Any, exponent: Any) -> Any:
    return x * _factor(library, exponent, x.real.dtype)


def _factor(library: Any, exponent: Any, t: Any) -> Any:
    return library.ldexp(library.ones((), t), exponent).astype(t)
