"""The derivatives of library operations: sorting, Fourier transforms, linear algebra.

A rule is a function of the cotangents of the results (None is 0), the results and the arguments,
all arrays, and the parameters of the operation; it returns the cotangents of the arguments.
Forward derivatives are transposes of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array
from ..errors import user_location
from ..expr import Const, Expr, Index
from ..graph import Barrier, Check, Generate, Label, Leaf, Library, Node, indices, known
from ..libraries.base import LibraryOperation
from ..operations import fourier
from ..operations.algebra import linear_algebra, matrices as triangles
from ..operations.algebra.decompositions import cofactors, conjugate_transpose as _h
from ..operations.control import cond
from ..operations.elements import functions
from ..operations.indexing import index_space, joining, making
from ..operations.reducing import irregular, reductions
from ..scalar import Scalar, apply_primitive
from ..simplify import cast
from .expressions import Cotangent, guarded, settled, where_given, zero
from .forward import Forward, forward_rule, transposed
from .reverse import Bars, Reverse, own, refused, reverse_rule

Bar = Array | None
Rule = Callable[[Sequence[Bar], Sequence[Array], Sequence[Array], tuple[Any, ...]], Sequence[Bar]]

RULES: dict[str, Rule] = {}
#: Operations whose results are not floats, or are constant wherever they have a derivative.
ZERO = frozenset(["argsort", "argpartition", "checkpoints"])


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@reverse_rule(Library)
def _library(r: Reverse, node: Library, bars: Bars) -> None:
    _through(r, node, node.operation, node.leaves, node.arguments, bars)


@forward_rule(Barrier)
def _barrier_tangents(f: Forward, node: Barrier) -> None:
    given = [f.tangents.get(leaf) for leaf in node.arguments]
    if isinstance(node.rule, LibraryOperation):
        pairs = zip(node.arguments[node.ruled :], given[node.ruled :], strict=True)
        moving = {leaf: t for leaf, t in pairs if t is not None}
        f.tangents.update(transposed(node, moving, f) if moving else {})
    elif node.rule is not None:
        f.tangents.update(node.rule.forward(node, given, f))
    else:
        pairs = zip(node.leaves, given, strict=True)
        f.tangents.update((leaf, t) for leaf, t in pairs if t is not None)


@reverse_rule(Barrier)
def _barrier(r: Reverse, node: Barrier, bars: Bars) -> None:
    if isinstance(node.rule, LibraryOperation):
        n = node.ruled
        _through(r, node, node.rule, node.leaves[:n], node.arguments[n:], bars[:n])
    elif node.rule is not None:
        node.rule.reverse(r, node, bars)
    else:
        for leaf, bar in zip(node.arguments, bars, strict=True):
            if bar is not None:
                r.give(leaf, own(bar, len(leaf.shape)))


def _through(
    r: Reverse, node: Node, operation: LibraryOperation, outs: Sequence[Leaf],
    operands: Sequence[Leaf], bars: Bars,
) -> None:  # fmt: skip
    name = operation.name
    if name in ZERO:
        return
    found = RULES.get(name)
    if found is None:
        raise refused(
            f"'{node.label}' has no derivative here.",
            "Give one with td.rule, or stop the gradient before it: td.stop(x).",
        )
    given = [None if b is None else Array((b,)) for b in bars]
    results = [Array((leaf,)) for leaf in outs]
    arguments = [Array((leaf,)) for leaf in operands]
    made = found(given, results, arguments, operation.parameters)
    for leaf, g in zip(operands, made, strict=True):
        if g is None or leaf not in r.moving:
            continue
        # The leading axes that were broadcast are summed.
        while g.ndim > len(leaf.shape):
            g = reductions.sum(g, 0)
        for k, n in enumerate(leaf.shape):
            if isinstance(n, Const) and n.value == 1 and g._shape[k] is not n:
                g = reductions.sum(g, k, keepdims=True)
        e: Expr = g._leaves[0].at(*indices(g.ndim))
        if e.type.is_complex and not leaf.type.is_complex:
            e = Scalar(e).real._expr
        r.give(leaf, cast(e, leaf.type))


# --- sorting and Fourier transforms ------------------------------------------------------------


@rule("sort")
def _sort(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
          parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    """A permutation: each element receives the cotangent of the position that it moved to."""
    ((g,), (x,), (axis,)) = bars, arguments, parameters
    if g is None:
        return [None]
    went = irregular.argsort(irregular.argsort(x, axis), axis)
    return [index_space.take_along_axis(g, went, axis)]


@rule("partition")
def _partition(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
               parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    """A permutation too: sorting the result gives the sorted array."""
    ((g,), (y,), (x, _), (axis,)) = bars, results, arguments, parameters
    if g is None:
        return [None, None]
    ordered = index_space.take_along_axis(g, irregular.argsort(y, axis), axis)
    return [*_sort([ordered], (), [x], parameters), None]


#: The normalisation with which the opposite transform is the adjoint.
_ADJOINT = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _of_transform(name: str) -> Rule:
    def adjoint(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
                parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
        ((g,), (x,), (axes, norm)) = bars, arguments, parameters
        if g is None:
            return [None]
        norm = _ADJOINT[norm]
        if name == "forward":
            return [fourier.ifftn(g, None, axes, norm)]
        if name == "inverse":
            return [fourier.fftn(g, None, axes, norm)]
        if name == "real_forward":  # what is not stored has no cotangent
            return [functions.real(fourier.ifftn(g, [x.shape[k] for k in axes], axes, norm))]
        last = axes[-1]
        made = fourier.rfftn(g, None, axes, norm)
        n = g.shape[last]
        k = making.arange(made.shape[last])
        twice = functions.where((k == 0) | (k * 2 == n), 1.0, 2.0)  # each is two of the fftn
        shape = [1] * g.ndim
        shape[last] = made.shape[last]
        return [made * index_space.reshape(twice.astype(g.dtype), tuple(shape))]

    return adjoint


for _name in ("forward", "inverse", "real_forward", "real_inverse"):
    RULES[f"fft.{_name}"] = _of_transform(_name)


# --- linear algebra ----------------------------------------------------------------------------


def _sum(*parts: Bar) -> Bar:
    total: Bar = None
    for p in parts:
        total = p if total is None else total if p is None else total + p
    return total


@rule("linalg.inv")
def _inv(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
         parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    g, y = bars[0], results[0]
    return [None if g is None else -(_h(y) @ g @ _h(y))]


@rule("linalg.solve")
def _solve(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
           parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    g = bars[0]
    if g is None:
        return [None, None]
    b = linear_algebra.solve(_h(arguments[0]), g)
    return [-(b @ _h(results[0])), b]


@rule("linalg.solve_triangular")
def _solve_triangular(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
                      parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (lower, trans, unit), g, (a, _), x = parameters, bars[0], arguments, results[0]
    if g is None:
        return [None, None]
    turned = trans == "T" and g.types[0].is_complex  # the adjoint of Aᵀ is the conjugate of A
    if turned:
        g, x = functions.conj(g), functions.conj(x)
    adjoint = "N" if trans != "N" else "C"
    b = linear_algebra.solve_triangular(a, g, adjoint, lower, unit)
    of_a = -(b @ _h(x)) if trans == "N" else -(x @ _h(b))
    own = int(unit)  # a diagonal of ones has no cotangent
    of_a = triangles.tril(of_a, -own) if lower else triangles.triu(of_a, own)
    return [of_a, functions.conj(b) if turned else b]


@rule("linalg.det")
def _det(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
         parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (g,), (d,), (a,) = bars, results, arguments
    if g is None:
        return [None]
    small = cofactors(a)
    if small is not None:
        return [g[..., None, None] * (functions.conj(small) if a.types[0].is_complex else small)]
    scale = g * functions.conj(d) if d.types[0].is_complex else g * d
    regular = reductions.all(d != 0)
    inverse = linear_algebra.inv(functions.where(d[..., None, None] != 0, a, _unit_like(a)))
    return [cond(regular, scale[..., None, None] * _h(inverse), g[..., None, None] * _cofactors(a))]


def _unit_like(a: Array) -> Array:
    return making.eye(a.shape[-1], dtype=a.dtype)


def _cofactors(a: Array) -> Array:
    """The adjoint of the adjugate, also for singular matrices: via singular values, each replaced
    by the product of the others."""
    u, s, vh = linear_algebra.svd(a, full_matrices=False)
    n = s.shape[-1]
    i, j = making.arange(n)[:, None], making.arange(n)[None, :]
    others = reductions.prod(functions.where(i == j, 1.0, s[..., None, :]).astype(s.dtype), -1)
    turn = linear_algebra.det(u) * linear_algebra.det(vh)
    if turn.types[0].is_complex:
        turn = functions.conj(turn)
    found: Array = (u * (turn[..., None] * others)[..., None, :]) @ vh
    return found


@rule("linalg.pinv")
def _pinv(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
          parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    """For matrices of constant rank."""
    (g,), (p,), (a,) = bars, results, arguments
    if g is None:
        return [None]
    left = (_h(g) - a @ (p @ _h(g))) @ (p @ _h(p))
    right = (_h(p) @ p) @ (_h(g) - (_h(g) @ p) @ a)
    return [left + right - _h(p) @ g @ _h(p)]


@rule("linalg.slogdet")
def _slogdet(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
             parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (of_sign, g), (sign, _), (a,) = bars, results, arguments
    if not a.types[0].is_complex:
        of_sign = None
    if of_sign is None and g is None:
        return [None]
    rotation = None if of_sign is None else 1j * functions.imag(of_sign * functions.conj(sign))
    scale = _sum(g, rotation)
    assert scale is not None
    return [scale[..., None, None] * _h(linear_algebra.inv(a))]


@rule("linalg.lu")
def _lu(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
        parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    """For P A = L U: Abar = Pᵀ L⁻ᴴ X U⁻ᴴ, and Pᵀ L⁻ᴴ = A⁻ᴴ Uᴴ."""
    g, packed, (a,) = bars[0], results[0], arguments
    if g is None:
        return [None]
    n = packed.shape[-1]
    i, j = making.arange(n)[:, None], making.arange(n)[None, :]
    below = triangles.tril(packed, -1)
    low = below + functions.where(i == j, 1, 0).astype(packed.dtype)
    up = triangles.triu(packed)
    inner = triangles.tril(_h(low) @ triangles.tril(g, -1), -1)
    inner = inner + triangles.triu(triangles.triu(g) @ _h(up))
    moved = _h(linear_algebra.solve_triangular(up, _h(inner)))
    return [linear_algebra.solve(_h(a), _h(up) @ moved)]


@rule("linalg.lstsq")
def _lstsq(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
           parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    """For the minimum-norm solution with matrices of constant rank, and the residual r = b − A x;
    the derivative of r² is 2 r (db − dA x)."""
    (of_x, of_squares, _, of_values), (x, *_), (a, b) = bars, results, arguments
    of_a: Bar = None
    of_b: Bar = None
    rest = b - a @ x
    if of_x is not None:
        cutoff = None if parameters[0] is None else float(parameters[0])
        eps = float(np.finfo(a.types[0].numpy).eps)
        inverse = linear_algebra.pinv(
            a, functions.maximum(a.shape[0], a.shape[1]) * eps if cutoff is None else cutoff
        )
        of_b = _h(inverse) @ of_x
        outside = of_x - inverse @ (a @ of_x)
        of_a = (rest @ _h(inverse @ of_b) + (_h(inverse) @ x) @ _h(outside)) - of_b @ _h(x)
    if of_squares is not None:
        taller = apply_primitive("greater", [a._shape[0], a._shape[1]])
        each = guarded(taller, of_squares._leaves[0].at(Index(1)), zero(of_squares.types[0]))
        node = Generate(rest._shape, (each,), label=Label("adjoint of lstsq"))
        twice = 2 * rest * Array(node.leaves)
        of_b = _sum(of_b, twice)
        of_a = _sum(of_a, -(twice @ _h(x)))
    if of_values is not None:
        u, _, vh = linear_algebra.svd(a, full_matrices=False)
        of_a = _sum(of_a, (u * of_values[..., None, :]) @ vh)
    return [of_a, of_b]


def _real_type(a: Array) -> Any:
    return functions.real(a).dtype


def _halved(a: Array) -> Array:
    n = a.shape[-1]
    i, j = making.arange(n)[:, None], making.arange(n)[None, :]
    return a * functions.where(i == j, 0.5, 1.0).astype(_real_type(a))


def _of_triangle(s: Array, upper: bool) -> Array:
    """The cotangent of the triangle read of a Hermitian matrix with the cotangent s."""
    both = s + _h(s)
    return _halved(triangles.triu(both) if upper else triangles.tril(both))


@rule("linalg.cholesky")
def _cholesky(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
              parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (upper,) = parameters
    g, low = bars[0], results[0]
    if g is None:
        return [None]
    if upper:
        g, low = _h(g), _h(low)
    n = low.shape[-1]
    i, j = making.arange(n)[:, None], making.arange(n)[None, :]
    inner = _halved(triangles.tril(_h(low) @ g))
    if inner.types[0].is_complex:  # the diagonal of L is real
        inner = functions.where(i == j, functions.real(inner).astype(inner.dtype), inner)
    half = linear_algebra.solve_triangular(low, inner, "C", lower=True)
    s = _h(linear_algebra.solve_triangular(low, _h(half), "C", lower=True))
    return [_of_triangle(s, upper)]


def _turned(values: Array, c: Array) -> Array:
    """(c − cᴴ)[i, j] / (values[j] − values[i]), where c has the cotangents of eigenvectors in their
    own basis: the rates at which they rotate into each other. 0 on the diagonal: their phases are
    fixed.

    Eigenvectors of equal values are arbitrary: NaN, if they have a cotangent.
    """
    *batch, i, j = indices(c.ndim)
    value, given = values._leaves[0], c._leaves[0]

    def over(g: Expr, divisor: float | Scalar) -> Expr:  # linear in g
        mask, _ = where_given(g)
        return settled(Cotangent(mask, (Scalar(g) / divisor)._expr))

    own = Generate(c._shape, (over(given.at(*batch, i, j), np.nan),), label=Label("unknown"))
    unknown = reductions.sum(Array(own.leaves), -2)._leaves[0]
    either = Scalar(unknown.at(*batch, i)) + Scalar(unknown.at(*batch, j))
    gap = Scalar(value.at(*batch, j)) - Scalar(value.at(*batch, i))
    skew = Scalar(given.at(*batch, i, j)) - functions.conj(Scalar(given.at(*batch, j, i)))
    turned = functions.where(gap == 0, either, Scalar(over(skew._expr, gap)))
    here = functions.where(Scalar(i) == Scalar(j), 0, turned)
    return Array(Generate(c._shape, (here._expr,), label=Label("turned")).leaves)


@rule("linalg.eigh")
def _eigh(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
          parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (triangle,) = parameters
    of_values, of_vectors = bars[:2]
    w, v = results[:2]
    if of_values is None and of_vectors is None:
        return [None]
    inner = None if of_vectors is None else _turned(w, _h(v) @ of_vectors) * 0.5
    diagonal = None if of_values is None else _diagonal(of_values)
    total = _sum(inner, diagonal)
    assert total is not None
    s = v @ total.astype(v.dtype) @ _h(v)
    return [_of_triangle(s, triangle == "U")]


def _diagonal(values: Array) -> Array:
    n = values.shape[-1]
    i, j = making.arange(n)[:, None], making.arange(n)[None, :]
    return functions.where(i == j, values[..., None, :], 0.0)


@rule("linalg.svd")
def _svd(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
         parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    (a,) = arguments
    full, vectors = parameters
    if not vectors:
        (of_values, *_), of_left, of_right = bars, None, None
    else:
        of_left, of_values, of_right = bars[:3]
    if of_left is None and of_right is None:
        if of_values is None:
            return [None]
        u, _, vh = linear_algebra.svd(a, full_matrices=False)
        return [(u * of_values[..., None, :]) @ vh]
    m, n = a._shape[-2:]
    rows, columns = known(m), known(n)
    square = full or m is n or (rows is not None and rows == columns)
    why, hint = (
        "the derivative of all singular vectors of a matrix that is not square is not supported: "
        "those beyond the singular values are arbitrary.",
        "Write full_matrices=False.",
    )
    if full and rows is not None and columns is not None and rows != columns:
        raise refused(why, hint)
    if a.types[0].is_complex:
        raise refused(
            "the derivative of singular vectors of complex matrices is not supported.",
            "Their phases are arbitrary: compute with td.linalg.eigh of a.conj().T @ a.",
        )
    u, s, vh = results[:3]
    if full and m is not n and None in (rows, columns):  # they are compared when it runs
        check = Check(m, n, why, error="GradientError", hint=hint, where=user_location())
        element = own(u._leaves[0], u.ndim)
        u = Array(Generate(u._shape, (element,), label=Label("svd"), checks=(check,)).leaves)
    v = _h(vh)
    wider, taller = (square or (x and y and x < y) for x, y in ((rows, columns), (columns, rows)))
    total = None if of_values is None else (u * of_values[..., None, :]) @ vh
    if of_left is not None:
        inner = _h(u) @ of_left
        part = u @ (_turned(s * s, inner) * s[..., None, :])
        if not wider:  # the component orthogonal to all of them
            part = part + (of_left - u @ inner) / s[..., None, :]
        total = _sum(total, part @ vh)
    if of_right is not None:
        g = _h(of_right)
        inner = _h(v) @ g
        part = (s[..., :, None] * _turned(s * s, inner)) @ vh
        if not taller:
            part = part + (_h(g) - _h(inner) @ vh) / s[..., :, None]
        total = _sum(total, u @ part)
    return [total]


@rule("linalg.qr")
def _qr(bars: Sequence[Bar], results: Sequence[Array], arguments: Sequence[Array],
        parameters: tuple[Any, ...]) -> Sequence[Bar]:  # fmt: skip
    ((mode,), (a,)) = parameters, arguments
    m, n = map(known, results[-1]._shape[-2:])
    if mode == "complete" and (m is None or n is None or m > n):
        raise refused("the derivative of the complete qr is not supported: the columns beyond the "
                      "matrix's are arbitrary.", 'Write mode="reduced".')  # fmt: skip
    of_q, of_r = (None, bars[0]) if mode == "r" else bars[:2]
    if of_q is None and of_r is None:
        return [None]
    q, r = linear_algebra.qr(a) if mode == "r" else results[:2]
    wide = m is None or m != n
    rest: Array | None = None
    if wide:  # the columns beyond the first ones, which are as many as the rows, are Q R₂
        k = q.shape[-1]
        r, beyond = r[..., :k], a[..., k:]
        if of_r is None:
            rest = making.zeros_like(beyond)
        else:
            of_beyond, of_r = of_r[..., k:], of_r[..., :k]
            of_q, rest = _sum(of_q, beyond @ _h(of_beyond)), q @ of_beyond
    part = None if of_r is None else r @ _h(of_r)
    other = None if of_q is None else -(_h(of_q) @ q)
    both = _sum(part, other)
    assert both is not None
    half = _halved(triangles.tril(both))
    mirrored = half + _h(half)
    total = _sum(of_q, q @ mirrored)
    assert total is not None
    found = _h(linear_algebra.solve_triangular(r, _h(total)))  # total R⁻ᴴ
    return [found if rest is None else joining.concatenate([found, rest], -1)]
