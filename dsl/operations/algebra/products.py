"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import late_binding as later, simplify
from ...analysis.short_extents import SHORT_AXIS, TINY, short_extent, short_extents
from ...annotations import ArrayLike, AxisLike, ScalarLike, ScheduleLike
from ...array import Array, broadcast_map, map_over, require_scalars
from ...errors import DTypeError, ShapeError, TracingError, did_you_mean, user_location
from ...expr import Const, Expr, Index, constant
from ...frontend.refusals import called
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting, in_iteration
from ...graph import Check, Label, Matmul, known
from ...process.configuration import settings
from ...scalar import apply_primitive, as_strong, fit_weak, refuse_argument, refuse_traced
from ...shapes import broadcast_shapes, require, show_shape, stretched
from ...types import LEAF, ScalarType, float32, promote
from ..common import combining, integer, label_of, normalise_axes, operation, whole_number
from ..elements.functions import conj, multiply
from ..indexing.index_space import flatten, reshape, transpose
from ..reducing.folds import folded

__all__ = ["dot", "inner", "matmul", "matvec", "outer", "strassen", "tensordot", "vdot", "vecmat"]

ALGORITHMS = ("auto", "standard", "strassen", "winograd")
PRECISIONS = (None, "float32", "tf32", "fp16x3", "bf16x6", "tf32x3")
EXECUTIONS = (
    None,
    "sequential",
    "streams",
    "atomic",
    "batched",
    "owner",
    "persistent",
    "hybrid",
    "recursive",
)

_SPLIT = (
    "products on tensor cores, added in float32; operands that this cannot hold are found and "
    "multiplied in float32"
)
PRECISIONS_IN_WORDS = {
    "tf32": "operands rounded to 11 significant bits, multiplied by tensor cores, added in float32",
    "fp16x3": f"float32 as two scaled 16-bit floats, three {_SPLIT}",
    "bf16x6": f"float32 as three bfloat16, six {_SPLIT}",
    "tf32x3": f"float32 as two tf32, three {_SPLIT}",
}
#: The most rows of products that are left to the kernels for many small ones.
_FEW_ROWS = 64
#: The most levels whose products may be listed individually: Strassen has 7⁴ at 4 levels.
DEEPEST = 4
#: With more levels, even a matrix of 16 384 rows is divided into blocks below 64.
DEEPEST_OF_ALL = 8


@dataclass(frozen=True)
class MatmulOptions:
    """How a product is computed; see matmul in the reference.  None: the model chooses."""

    algorithm: Any = "auto"
    levels: int | None = None
    precision: str | None = None
    execution: str | None = None
    deterministic: bool = False
    scaling: str | None = None
    #: `td.precision(fast=True)`: "auto" may choose Strassen's algorithm for floats too.
    fast: bool = False

    @property
    def open(self) -> bool:
        """Whether every algorithm and execution is permitted."""
        standard = self.algorithm == "auto" or self.algorithm == "standard"
        asked = self.levels, self.execution, self.scaling, self.precision
        return standard and asked in ((None,) * 4, (None, None, None, "float32"))

    def may_recurse(self, t: ScalarType) -> bool:
        """Whether a backend may choose a fast algorithm: results are exact, or the program permits
        the errors of floats that are wide enough."""
        return self.algorithm == "auto" and (not t.is_inexact or (self.fast and not t.is_narrow))

    def unused_levels(self, t: ScalarType) -> str:
        """A note of `explain` on `levels` given for an algorithm that does not recurse."""
        if not self.levels or self.may_recurse(t) or self.algorithm not in ("auto", "standard"):
            return ""
        if t.is_narrow:
            return f"; levels={self.levels} changes nothing: products of {t} have no levels"
        return (
            f'; levels={self.levels} changes nothing: name an algorithm, as algorithm="strassen"'
            + (", or use td.precision(fast=True)" if self.algorithm == "auto" else "")
        )

    def notes(self, t: ScalarType, known: tuple[str, ...] = ()) -> dict[str, str]:
        """Notes of `explain` on a standard product: why it was chosen, and what is computed for a
        `precision` that is not among those `known` to the backend."""
        found = {}
        if self.algorithm == "auto" and t.is_narrow:
            found["why"] = f"fast algorithms would round sums of blocks to {t}"
        elif self.algorithm == "auto" and t.is_inexact and not self.fast:
            found["why"] = (
                "floats keep the standard product's accuracy unless the program permits less: "
                'algorithm="strassen", or td.precision(fast=True)'
            )
        if self.precision in known:
            found["precision"] = f"{self.precision!r}: {PRECISIONS_IN_WORDS[self.precision]}"
        elif self.precision not in (None, "float32"):
            found["precision"] = (
                f"{self.precision!r} is computed in float32, which is no less exact"
            )
        return found

    def scaling_notes(self, size: tuple[int, int, int], t: ScalarType) -> dict[str, str]:
        """Notes of `explain` on the scaling of a fast product of (m, k) by (k, n)."""
        if self.scaling is None:
            return {}
        m, k, n = size
        inner = "columns of A and rows of B to one size, then " if self.scaling != "outer" else ""
        return {
            "scaling": f"{inner}rows of A and columns of B to about 1, by powers of two, undone in "
            f"the result; in copies of both ({(m * k + k * n) * t.bytes:,} bytes), read and "
            "written whole"
        }


@operation
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    algorithm: Any = "auto",
    levels: int | None = None,
    precision: str | None = None,
    execution: str | None = None,
    deterministic: bool = False,
    scaling: str | None = None,
    alpha: ScalarLike = 1,
    beta: ScalarLike = 0,
    c: ArrayLike | None = None,
    schedule: ScheduleLike | None = None,
    name: str | None = None,
) -> Array:
    """alpha · a @ b + beta · c, with NumPy's rules for ranks and batched leading axes; as in BLAS,
    c is not read if beta is 0.

    algorithm: "auto" (Strassen's where it is faster and the result exact, or for floats inside
    `td.precision(fast=True)`), "standard", "strassen", "winograd" or a BilinearAlgorithm; float16
    and bfloat16 have only the standard one.  levels: the number of recursive applications (default
    1); with "auto", the maximum. execution: how the
    block products are added to the result: "recursive", "sequential", "streams", "batched",
    "atomic", "owner", "persistent", "hybrid" (default: the model chooses; docs/products.md has a
    table).  scaling: "outer" or "inner-outer" improves fast products of badly scaled floats.
    precision, for float32: "float32", "tf32"; "fp16x3", "bf16x6" and "tf32x3" have float32's error,
    on the tensor cores of Hopper GPUs, and are float32 elsewhere.

    Parameters
        a: an array of rank ≥ 1: a vector, a matrix or matrices (…, m, k).
        b: an array: a vector, a matrix or matrices (…, k, n).
        algorithm: "auto" (default), "standard", "strassen", "winograd" or a BilinearAlgorithm.
        precision: the arithmetic of float32 products: "float32", "tf32", "fp16x3", "bf16x6",
            "tf32x3"; optional.
        scaling: "outer" or "inner-outer" for badly scaled floats; default None.
        alpha: a factor of the product; default 1.
        beta: a factor of `c`; default 0.
        c: an array that is added; default None.

    Result: the product: (…, m, n); vectors lose their axis.

    >>> td.run(td.matmul(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])))
    array([[1., 2.],
           [3., 4.]])
    """
    forbid_nesting("matmul")
    label = label_of("matmul", name, schedule, deterministic)
    options = _options("matmul", algorithm, levels, precision, execution, label.deterministic,
                       scaling)  # fmt: skip
    if c is None and not (isinstance(beta, int | float) and beta == 0):
        raise TracingError(
            f"matmul: beta={beta!r} scales c, and there is none.",
            hint="Give the array that is added: c=….",
        )
    product = _product(as_array(a, "matmul"), as_array(b, "matmul"), options, label)
    return _scaled(product, alpha, beta, c)


@operation
def strassen(
    a: ArrayLike,
    b: ArrayLike,
    *,
    levels: int = 1,
    variant: str = "strassen",
    execution: str | None = None,
    deterministic: bool = False,
    name: str | None = None,
) -> Array:
    """a @ b by `levels` levels of Strassen's or Winograd's algorithm; float16 and bfloat16 are
    refused, because sums of blocks would be rounded.

    On a GPU, one or two levels of Strassen in float32 add their products to the result in an
    unspecified order, so the last bits may differ from run to run.  Avoid this by
    `execution="owner"`, `"persistent"` or `"sequential"`, or by `deterministic=True`.

    Parameters
        a: a matrix (m, k).
        b: a matrix (k, n).
        variant: "strassen" (default) or "winograd".

    Result: the product, an array (m, n).

    >>> m = np.arange(6).reshape(2, 3)
    >>> td.strassen(m, m.T, levels=1)
    Array([[ 5, 14],
           [14, 50]])
    """
    refuse_traced("strassen", variant=variant)
    if variant not in ("strassen", "winograd"):
        raise TracingError(
            f"strassen: unknown variant {variant!r}.", hint='Variants: "strassen", "winograd".'
        )
    forbid_nesting("strassen")
    label = label_of("strassen", name, None, deterministic)
    options = _options("strassen", variant, levels, None, execution, label.deterministic, None)
    return _product(as_array(a, "strassen"), as_array(b, "strassen"), options, label)


def _options(
    what: str,
    algorithm: Any,
    levels: int | None,
    precision: str | None,
    execution: str | None,
    deterministic: bool,
    scaling: str | None,
) -> MatmulOptions:
    """The validated options of `matmul`; errors name the operation `what`."""
    if isinstance(algorithm, str) and algorithm not in ALGORITHMS:
        raise TracingError(
            f"{what}: unknown algorithm {algorithm!r}.",
            hint=did_you_mean(algorithm, ALGORITHMS)
            + "Algorithms: "
            + ", ".join(map(repr, ALGORITHMS))
            + ", or a BilinearAlgorithm.",
        )
    refuse_traced(
        what,
        algorithm=algorithm,
        levels=levels,
        precision=precision,
        execution=execution,
        scaling=scaling,
    )
    if precision not in PRECISIONS:
        raise TracingError(
            f"{what}: unknown precision {precision!r}.",
            hint="Precisions: " + ", ".join(map(repr, PRECISIONS[1:])),
        )
    if execution not in EXECUTIONS:
        raise TracingError(
            f"{what}: unknown execution {execution!r}.",
            hint="Executions: " + ", ".join(map(repr, EXECUTIONS[1:])),
        )
    if scaling not in (None, "outer", "inner-outer"):
        raise TracingError(
            f"{what}: unknown scaling {scaling!r}.", hint='Scalings: "outer", "inner-outer".'
        )
    if levels is not None:
        levels = whole_number(levels, what, "levels", "Write levels=1.", least=0)
    if levels is not None and levels > DEEPEST_OF_ALL:
        raise TracingError(
            f"{what}: {levels} levels exceed the maximum of {DEEPEST_OF_ALL}.",
            hint="One or two are the fastest on most machines; extents may allow fewer.",
        )
    named = algorithm not in ("auto", "standard")
    if not isinstance(algorithm, str) and not all(hasattr(algorithm, x) for x in "mknuvw"):
        raise TracingError(
            f"{what}: {algorithm!r} is not an algorithm.",
            hint="Give a name, or a BilinearAlgorithm with its three tables.",
        )
    if execution is not None and not named:
        raise TracingError(
            f"{what}: execution {execution!r} applies to fast algorithms, but the "
            f"algorithm is {algorithm!r}.",
            hint='Name one: algorithm="strassen", or "winograd".',
        )
    if levels is not None and levels > DEEPEST and execution not in (None, "recursive"):
        raise TracingError(
            f"{what}: execution {execution!r} lists the products of all levels at once, and "
            f"{levels} levels have too many.",
            hint=f'Up to {DEEPEST} levels, or execution="recursive".',
        )
    if levels is None and named:
        levels = 2 if execution == "hybrid" else 1
    return MatmulOptions(
        algorithm, levels, precision, execution, deterministic, scaling, settings().fast_precision
    )


def _product(a: Array, b: Array, options: MatmulOptions, label: Label) -> Array:
    what = label.operation
    for side in (a, b):
        require_scalars(side, what)
        if side.ndim == 0:
            raise ShapeError(
                f"{what} needs arrays of rank 1 at least, got a rank-0 array.",
                hint="Scale with *: a * x.",
            )
    left = map_over(a, (Index(1),), (constant(1), *a._shape), "row") if a.ndim == 1 else a
    right = map_over(b, (Index(0),), (*b._shape, constant(1)), "column") if b.ndim == 1 else b
    checks = _inner_check(a, b, left._shape[-1], right._shape[-2], what)
    batch, more = broadcast_shapes([left._shape[:-2], right._shape[:-2]], what)
    t = promote(a.types[0], False, b.types[0], False)[0]
    lead = len(batch)

    if options.precision is not None and t.name != "float32":
        if not (options.precision == "float32" and t.is_narrow):
            raise DTypeError(
                f"{what}: precision {options.precision!r} applies to products of "
                f"float32, but these are {t}.",
                hint="Leave it out, or convert the operands: a.astype(td.float32).",
            )
    if options.scaling is not None and not t.is_inexact:
        raise DTypeError(
            f"{what}: scaling helps floats of very different sizes, and these are {t}, whose "
            "products are exact.",
            hint="Leave it out.",
        )
    if options.algorithm not in ("auto", "standard") and options.levels and t.is_narrow:
        raise no_fast_product(what, options.algorithm, t, "a @ b")
    if options.algorithm not in ("auto", "standard") and options.levels:
        if options.precision == "tf32":
            raise no_fast_tf32(what, options.algorithm, 'td.matmul(a, b, precision="tf32")')
    if getattr(options.algorithm, "fractions", False) and not t.is_inexact:
        raise DTypeError(
            f"{what}: {options.algorithm.name} has fractional coefficients, which "
            f"{t.name} cannot represent.",
            hint="Use an algorithm with integer coefficients, or cast: td.cast(a, td.float64).",
        )

    def operand(array: Array) -> Expr:
        index = [*batch_index(array, batch), Index(lead), Index(lead + 1)]
        return simplify.cast(array._element(index)[0], t)

    if options.open and label.schedule is None:
        if in_iteration() and not lead:
            extents = left._shape[-1], left._shape[-2], right._shape[-1]
            tiny = short_extents(extents, TINY, what)
            checks += tiny[1] if tiny else ()
        checks += more
        if 1 in (a.ndim, b.ndim):
            return _with_vector(a, b, batch, t, label, checks, a.ndim > 1, b.ndim > 1)
        short = short_extents(b._shape, SHORT_AXIS, what) if b.ndim == 2 and t.is_float else None
        if short and min(short[0]) > 1 and short_extent(a._shape[-2], _FEW_ROWS) is None:
            # Many rows, such as points or pixels, by one small matrix fuse with what is around.
            return _with_vector(a, b, batch, t, label, checks + short[1], True, True, short[0])
        row = known(a._shape[-2]) == 1 and _has_all(b, batch)
        column = known(b._shape[-1]) == 1 and _has_all(a, batch)
        if row or column:  # a matrix for each vector
            folded = _with_vector(a, b, batch, t, label, checks, not row, not column)
            index = [Index(k) for k in range(lead)]
            index += [] if row else [Index(lead)]
            index += [] if column else [Index(lead + 1)]
            return map_over(folded, index, (*batch, a._shape[-2], b._shape[-1]), what)
        # A CPU computes sums of so few products where they are read (`passes/small_products.py`).
        takes = t.is_float and not t.is_narrow and not lead
        few = short_extents(left._shape[-1:], SHORT_AXIS, what) if takes else None
        more = few[1] if few else ()
    node = Matmul(
        batch,
        left._shape[-2],
        right._shape[-1],
        left._shape[-1],
        operand(left),
        operand(right),
        options,
        label=label,
        where=user_location(),
        checks=(*checks, *more),
    )
    result = Array(node.leaves)
    if a.ndim == 1 or b.ndim == 1:
        keep = (
            [*range(lead)] + ([] if a.ndim == 1 else [lead]) + ([] if b.ndim == 1 else [lead + 1])
        )
        full: list[Expr] = [constant(0)] * (lead + 2)
        for position, axis in enumerate(keep):
            full[axis] = Index(position)
        result = map_over(result, full, tuple(result._shape[k] for k in keep), what)
    return result


def no_fast_product(what: str, algorithm: Any, t: ScalarType, standard: str) -> DTypeError:
    """The error for a fast product of 16-bit floats; `standard`: the standard one, as written."""
    return DTypeError(
        f"{what}: {getattr(algorithm, 'name', algorithm)!r} adds blocks of the operands, and sums "
        f"of {t} would be rounded and could overflow before they are multiplied.",
        hint=f"Write {standard} for the standard product, or convert both operands to form the "
        "sums in float32: td.cast(a, td.float32).",
    )


def no_fast_tf32(what: str, algorithm: object, standard: str) -> TracingError:
    """The error for a fast product in tf32; `standard`: the standard one, as written."""
    return TracingError(
        f"{what}: {getattr(algorithm, 'name', algorithm)!r} adds blocks of the operands and of the "
        "products, in passes over memory that take more time than the products they save in tf32, "
        "and rounds those sums to 11 significant bits.",
        hint=f'Write {standard} for the standard product, or use precision="tf32x3" or "fp16x3", '
        "whose fast products have float32's accuracy.",
    )


def batch_index(array: Array, batch: Sequence[Expr]) -> list[Expr]:
    """The leading indices at which an operand of rank 2 or more is read; they broadcast."""
    return list(stretched(array._shape[:-2], tuple(batch)))


def _has_all(matrices: Array, batch: Sequence[Expr]) -> bool:
    """Whether matrices have the leading axes of a product: none is read more than once."""
    own = batch_index(matrices, batch)
    return 0 < len(batch) == len(own) and all(isinstance(e, Index) for e in own)


def _with_vector(
    a: Array,
    b: Array,
    batch: Sequence[Expr],
    t: ScalarType,
    label: Label,
    checks: tuple[Check, ...],
    rows: bool,
    columns: bool,
    short: Sequence[int] | None = None,
) -> Array:
    """A product with a vector, as a fold: it reads each element of the matrix once and fuses with
    its producers and consumers like any other fold.  `rows`, `columns`: whether the result has an
    axis of the rows of `a` and one of the columns of `b`; else there is one of them.  The extents
    of `b` are numbers if they are `short`."""
    free = [*batch]
    i: Expr = Index(len(free)) if rows else constant(0)
    if rows:
        free.append(a._shape[-2])
    k = Index(len(free) + columns)
    j: Expr = Index(len(free)) if columns else constant(0)
    if columns:
        free.append(constant(short[1]) if short else b._shape[-1])
    wide = float32 if t.is_narrow else t
    left = (k,) if a.ndim == 1 else (*batch_index(a, batch), i, k)
    right = (k,) if b.ndim == 1 else (*batch_index(b, batch), k, j)
    parts = a._element(left)[0], b._element(right)[0]
    value = apply_primitive("multiply", [simplify.cast(simplify.cast(p, t), wide) for p in parts])
    along = (constant(short[0]),) if short else a._shape[-1:]
    node = folded(tuple(free), along, value, "add", Const(0, wide), label, checks)
    made = Array(node.leaves)
    return made if wide is t else made.astype(t)


def _inner_check(a: Array, b: Array, k: Expr, other: Expr, what: str = "matmul"
                 ) -> tuple[Check, ...]:  # fmt: skip
    if k is other:
        return ()
    u, v = known(k), known(other)
    text = (
        f"{what}: inner extents differ: {show_shape(a._shape)} @ {show_shape(b._shape)}: "
        "{left} against {right}."
    )
    hint = (
        "The last axis of the left and the second to last of the right must agree; a.T transposes."
    )
    if u is not None and v is not None and int(u) != int(v):
        raise ShapeError(text.format(left=int(u), right=int(v)), hint=hint)
    return (
        Check(
            k,
            other,
            f"{what}: inner extents differ: {{left}} against {{right}}.",
            hint=hint,
            where=user_location(),
        ),
    )


def _scaled(product: Array, alpha: Any, beta: Any, c: Any) -> Array:
    """alpha·P + beta·C in P's type, by element-wise consumers, which fuse into the write-back."""
    t = product.types[0]
    if isinstance(alpha, int | float) and alpha == 1 and c is None:
        return product
    operands: list[Any] = [product, alpha] if c is None else [product, alpha, as_array(c), beta]

    def build(values: Sequence[Expr]) -> list[Expr]:
        value = apply_primitive("multiply", [values[0], fit_weak(as_scale(values[1], t), t)])
        if c is not None:
            added = apply_primitive(
                "multiply", [simplify.cast(values[2], t), fit_weak(as_scale(values[3], t), t)]
            )
            value = apply_primitive("add", [value, added])
        return [value]

    if c is not None and isinstance(beta, int | float) and beta == 0:
        operands = [product, alpha]
        c = None
        if isinstance(alpha, int | float) and alpha == 1:
            return product
    return broadcast_map(build, operands, "matmul")


def as_scale(e: Expr, t: Any) -> Expr:
    return e if e.weak else simplify.cast(as_strong(e), t)


@combining
def dot(a: ArrayLike, b: ArrayLike) -> Array:
    """NumPy's dot: the inner product of vectors, the product of matrices, otherwise the sum over
    a's last and b's second to last axis; a scalar operand scales.

    >>> td.dot(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array(8)
    """
    x, y = as_array(a, "dot"), as_array(b, "dot")
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if x.ndim == 1 and y.ndim == 1:
        checked = _inner_check(x, y, x._shape[0], y._shape[0])
        t = promote(x.types[0], False, y.types[0], False)[0]
        value = apply_primitive(
            "multiply", [simplify.cast(v._element((Index(0),))[0], t) for v in (x, y)]
        )
        node = folded((), x._shape, value, "add", Const(0, t), Label("dot"), checked)
        return Array(node.leaves, LEAF, ())
    if y.ndim <= 2:
        return matmul(x, y) if x.ndim <= 2 or y.ndim == 1 else tensordot(x, y, 1)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))


@combining
def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """The sums of products over the last axes of both; a scalar operand scales.

    Parameters
        b: an array whose last extent is that of `a`.

    >>> td.inner(np.array([1, 2, 3]), np.array([0, 1, 0]))
    Array(2)
    """
    x, y = as_array(a, "inner"), as_array(b, "inner")
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@combining
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """The sum of conj(a) · b over all elements of two arrays of one size.

    Parameters
        b: an array with as many elements.

    >>> td.vdot(np.array([1 + 2j]), np.array([1 + 2j]))
    Array(5.+0.j)
    """
    return dot(_conjugate(flatten(as_array(a, "vdot"))), flatten(as_array(b, "vdot")))


def _conjugate(array: Array) -> Array:
    return conj(array) if array.types[0].is_complex else array


@combining
def matvec(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The products of the matrices in the last two axes of `x1` with the vectors in the last axis
    of `x2`; the other axes broadcast.

    Parameters
        x1: matrices (…, m, n).
        x2: vectors (…, n).

    Result: an array (…, m).

    >>> td.matvec(np.array([[1, 2], [3, 4]]), np.array([[1, 0], [1, 1]]))
    Array([[1, 3],
           [3, 7]])
    """
    left, right = as_array(x1, "matvec"), as_array(x2, "matvec")
    _require_ranks("matvec", left, right, left, right)
    return matmul(left, right[..., None])[..., 0]


def _require_ranks(
    operation: str, first: Array, second: Array, matrices: Array, vectors: Array
) -> None:
    if matrices.ndim < 2 or vectors.ndim < 1:
        raise ShapeError(
            f"{operation} takes matrices and vectors, got ranks {first.ndim} and {second.ndim}.",
            hint="td.vecdot multiplies two vectors, td.matmul two matrices.",
        )


@combining
def vecmat(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The products of the conjugate vectors in the last axis of `x1` with the matrices in the last
    two axes of `x2`; the other axes broadcast.

    Parameters
        x1: vectors (…, m).
        x2: matrices (…, m, n).

    Result: an array (…, n).

    >>> td.vecmat(np.array([1, 1]), np.array([[1, 2], [3, 4]]))
    Array([4, 6])
    """
    left, right = as_array(x1, "vecmat"), as_array(x2, "vecmat")
    _require_ranks("vecmat", left, right, right, left)
    return matmul(_conjugate(left)[..., None, :], right)[..., 0, :]


@operation
def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """The products of each element of a with each element of b (both flattened).

    Parameters
        a: an array, taken as 1-D.
        b: an array, taken as 1-D.

    Result: an array (a.size, b.size) of the promoted type.

    >>> td.outer([1, 2], np.array([3, 1, 2]))
    Array([[3, 1, 2],
           [6, 2, 4]])
    """
    x, y = flatten(as_array(a, "outer")), flatten(as_array(b, "outer"))
    return x[:, None] * y[None, :]


@combining
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[AxisLike] = 2) -> Array:
    """NumPy's tensordot, by matmul.

    Parameters
        b: an array, whose extents along its axes are those of `a`.
        axes: how many axes to sum over, the last of `a` and the first of `b` (default 2), or their
            numbers.

    >>> m = np.arange(6).reshape(2, 3)
    >>> td.tensordot(m, m, 2)
    Array(55)
    """
    x, y = as_array(a, "tensordot"), as_array(b, "tensordot")
    refuse_argument(axes, "tensordot: axes=")
    number = integer(axes)
    if number is not None:
        axes = number
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise ShapeError(
                f"tensordot: {axes} axes do not exist in ranks {x.ndim}, {y.ndim}.",
                hint="Write the number of axes to sum over: 1 for a product of matrices.",
            )
        over_x: list[int] = list(range(x.ndim - axes, x.ndim))
        over_y: list[int] = list(range(axes))
    else:
        if not isinstance(axes, tuple | list) or len(axes) != 2:
            raise TracingError(
                f"tensordot: axes is a number or a pair, got {called(axes)}.",
                hint="Write axes=([1], [0]): the axes of the first, then those of the second.",
            )
        first, second = axes
        over_x = [_axis(k, x) for k in (first if isinstance(first, tuple | list) else (first,))]
        over_y = [_axis(k, y) for k in (second if isinstance(second, tuple | list) else (second,))]
    if len(over_x) != len(over_y):
        raise ShapeError(
            "tensordot: different numbers of axes.",
            hint="Write axes=([1], [0]): as many of the first as of the second.",
        )
    checks: tuple[Check, ...] = ()
    for i, j in zip(over_x, over_y, strict=True):
        checks += require(
            x._shape[i], y._shape[j],
            f"tensordot: axis {i} of {show_shape(x._shape)} has {{left}}, axis {j} of "
            f"{show_shape(y._shape)} has {{right}}.",
            hint="What is summed over has equal extents in both; td.transpose moves axes.",
        )  # fmt: skip
    keep_x = [k for k in range(x.ndim) if k not in over_x]
    keep_y = [k for k in range(y.ndim) if k not in over_y]
    xs, ys = x.shape, y.shape
    left = transpose(x, (*keep_x, *over_x))
    right = transpose(y, (*over_y, *keep_y))
    if checks:
        axes_of_right = [Index(k) for k in range(right.ndim)]
        right = map_over(right, axes_of_right, right._shape, "tensordot", checks)
    rows, inner = _extent(xs, keep_x), _extent(xs, over_x)
    other, cols = _extent(ys, over_y), _extent(ys, keep_y)
    product = matmul(reshape(left, (rows, inner)), reshape(right, (other, cols)))
    return reshape(product, [*(xs[k] for k in keep_x), *(ys[k] for k in keep_y)])


def _axis(k: Any, array: Array) -> int:
    return normalise_axes(k, array.ndim, "tensordot")[0]


def _extent(shape: Sequence[Any], axes: Sequence[int]) -> Any:
    total: Any = 1
    for k in axes:
        total = multiply(total, shape[k])
    return total


later.offer(dot=dot, matmul=matmul)
