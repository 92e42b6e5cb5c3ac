"""Draws programs: each line uses a public name, and each name has a function that draws its lines.

A line is kept when the reference takes it. Its value is known then, and with it what may follow:
`Line.ulps` and `Line.absolute` say how far floats may lie apart, and what is not exact is only
moved about afterwards, so that no comparison or rounding makes a small difference large.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from ..helpers import BFLOAT16, DTYPES, FLOATS
from . import arguments
from .judging import Refused, step
from .model import Model
from .program import Line, Manner, Program, scope
from .scalars import LARGEST, Scalars

#: A name of `td` and the function that draws a line with it.
GENERATED: dict[str, Callable[[Writer, str], None]] = {}

#: Public names that no line draws, and why.
NOT_GENERATED = {
    **dict.fromkeys(
        ("Array", "Program", "Scalar", "Sharded", "BilinearAlgorithm", "Cache"),
        "a class, not an operation",
    ),
    **dict.fromkeys(
        ("AxisError", "BackendUnavailable", "CompilationError", "DTypeError", "DeviceOutOfMemory",
         "DistributionError", "ExponentError", "GradientError", "IndexOutOfBounds", "LinAlgError",
         "MemoryLimitExceeded", "NestedParallelismError", "NotAssociative",
         "ScheduleError", "ShapeError", "StorageError", "TracingError", "TreadleError"),
        "an error",
    ),
    "stream": "jit, on files: tests/backend/dask",
    "shard": "arrays on several GPUs: tests/backend/cuda/test_several.py",
    **dict.fromkeys(("jit", "run", "load", "config", "precision"), "a manner of running"),
    **dict.fromkeys(("backends", "error_bound"), "tells about machines and errors, makes no array"),
    "fft": "a module: transforms by a library, tests/conformance/test_fourier.py",
    "linalg": "a module: floats of matrices, tests/conformance/test_linear_algebra.py",
    "random": "a module: numbers of a key, tests/conformance/test_random_numbers.py",
    **dict.fromkeys(("schedule", "simulator", "simulate"), "a module; schedules are drawn"),
    **dict.fromkeys(
        ("append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays",
         "column_stack", "dsplit", "dstack", "hsplit", "hstack", "split", "unstack", "vsplit",
         "vstack", "argpartition", "partition", "lexsort", "meshgrid", "vander", "piecewise",
         "frexp", "modf", "divmod", "average", "cov", "corrcoef", "nanstd", "nanvar", "gradient",
         "unwrap", "rollaxis", "ediff1d", "identity", "tri", "diagflat", "float_power", "sinc",
         "digamma", "lgamma",
         "logaddexp2", "nancumprod", "quantile", "percentile", "nanquantile", "nanpercentile",
         "median", "nanmedian", "nonzero", "argwhere", "flatnonzero", "interp",
         "einsum", "nanprod", "nanmean", "trapezoid", "allclose", "ldexp"),
        "made of operations that are drawn: tests/conformance/test_numpy_words.py",
    ),
    **dict.fromkeys(
        ("grad", "value_and_grad", "vjp", "jvp", "stop", "rule", "fixed_point", "check_grad"),
        "derivatives: tests/dsl/autodiff",
    ),
    **dict.fromkeys(
        ("broadcast_shapes", "can_cast", "finfo", "iinfo", "iscomplexobj", "isdtype",
         "isrealobj", "isscalar", "issubdtype", "ndim", "promote_types", "result_type",
         "shape", "size"),
        "tells about shapes and types, makes no array: tests/conformance/test_numpy_numerics.py",
    ),
    **dict.fromkeys(
        ("apply_over_axes", "array", "array_equiv", "asarray",
         "astype", "bartlett", "bitwise_invert", "bitwise_left_shift",
         "bitwise_right_shift", "blackman", "block", "choose", "compress", "concat",
         "copy", "cumulative_prod", "cumulative_sum", "delete", "diag_indices",
         "diag_indices_from", "empty", "empty_like", "extract", "fill_diagonal",
         "fromfunction", "geomspace", "hamming", "hanning", "histogram2d",
         "histogram_bin_edges", "histogramdd", "i0", "indices", "inner", "insert",
         "intersect1d", "ix_", "kaiser", "logspace", "mask_indices", "matvec",
         "packbits", "permute_dims", "place", "poly", "polyadd", "polyder", "polydiv",
         "polyfit", "polyint", "polymul", "polysub", "polyval", "put", "put_along_axis",
         "ravel_multi_index", "resize", "setdiff1d", "setxor1d", "sort_complex",
         "spacing", "tril_indices", "tril_indices_from", "trim_zeros",
         "triu_indices", "triu_indices_from", "union1d", "unique_all", "unique_counts",
         "unique_inverse", "unique_values", "unpackbits", "unravel_index",
         "vdot", "vecdot", "vecmat"),
        "made of operations that are drawn: test_numpy_editing.py, test_numpy_numerics.py",
    ),
    **dict.fromkeys(
        ("bitcast", "bool", "e", "from_dlpack", "inf", "nan", "newaxis", "pi"),
        "tests/array_api, and bits in tests/conformance/test_numpy_words.py",
    ),
    "foreign": "takes a function compiled by Numba: tests of foreign functions",
    "foreign_array": "takes one function a backend: tests of foreign functions",
}  # fmt: skip

MOST = 20_000
#: Operations that the model has, and NumPy has not.
MODELLED = frozenset(
    [
        *("map", "imap", "generate", "backpermute", "replicate", "stencil", "permute", "scatter"),
        *("update", "fold", "fold1", "fold_seg", "scanl", "scanl1", "scanr", "scanr1", "filter"),
    ]
)
OPTIONS = ("Row()", "Column(3)", "Column(64)", "ZigZag(4)", "Tile(2, 3)", "Morton()", "Hilbert()",
           "Swizzle(2)", "Row() | td.schedule.Block(3, 5)", "Hilbert() | td.schedule.Block(4, 4)",
           "Swizzle(2) | td.schedule.PerThread(rows=2)",
           "Tile(8, 8) | td.schedule.PerThread(cols=2)")  # fmt: skip


class NoLine(Exception):
    """Nothing drawn so far fits the operation."""


class Broken(Exception):
    """The reference raised what is no TreadleError: the last line is a finding."""


@dataclass
class Writer:
    """A program as it grows, with the value of every line."""

    rng: Random
    kinds: Callable[[Random], str] = arguments.kind
    inputs: list[tuple[str, str]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    rough: set[str] = field(default_factory=set)
    refused: list[tuple[str, str]] = field(default_factory=list)

    # What there is.

    def arrays(self, fits: Callable[[np.ndarray], bool], rough: bool = False) -> list[str]:
        return [
            n
            for n, v in self.known.items()
            if n[0] == "a"
            and isinstance(v, np.ndarray)
            and (rough or n not in self.rough)
            and fits(v)
        ]

    def array(
        self, fits: Callable[[np.ndarray], bool] = lambda v: True, rough: bool = False
    ) -> str:
        """The name of an array that fits, drawn from the latest more often."""
        names = self.arrays(fits, rough)
        if not names:
            raise NoLine
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def vector(
        self, fits: Callable[[np.ndarray], bool] = lambda v: True, rough: bool = False
    ) -> str:
        """An array with an axis."""
        return self.array(lambda v: v.ndim > 0 and fits(v), rough)

    def integers(self) -> str:
        return self.array(lambda v: v.dtype.kind in "iu")

    def value(self, name: str) -> np.ndarray:
        found = self.known[name]
        assert isinstance(found, np.ndarray)
        return found

    def like(self, name: str, kind: bool = True) -> str:
        """Another array of the same extents (and type)."""
        v = self.value(name)
        found = self.arrays(lambda x: x.shape == v.shape and (not kind or x.dtype == v.dtype))
        if len(found) > 1 or self.rng.random() < 0.5:
            return self.rng.choice(found)
        return self.argument(kind=v.dtype.name if kind else None, shape=v.shape)

    def argument(
        self, kind: str | None = None, shape: tuple[int, ...] | None = None, text: str | None = None
    ) -> str:
        """A new argument."""
        kind = kind or self.kinds(self.rng)
        if shape is None:
            shape = arguments.shape(self.rng)
        elif math.prod(shape) > MOST:
            raise NoLine
        if text is None:
            same = {n for n, _ in self.inputs if n[0] == "a"}
            alike = [
                n
                for n in self.arrays(lambda v: v.shape == shape and v.dtype.name == kind)
                if n in same
            ]
            text = arguments.array(self.rng, kind, shape, alike)
        return self._give(f"a{len(self.known)}", text)

    def number(self) -> str:
        found = [n for n in self.known if n[0] == "n"]
        if found and self.rng.random() < 0.6:
            return self.rng.choice(found)
        return self._give(f"n{len(self.known)}", arguments.number(self.rng))

    def whole_number(self) -> str:
        """The name of an argument that is a Python int."""
        found = [n for n, v in self.known.items() if n[0] == "n" and type(v) is int]
        return (
            self.rng.choice(found)
            if found
            else self._give(
                f"n{len(self.known)}",
                str(self.rng.choice((2, 3, 12345, 2**31, 2**32 + 1, 2**62, -(2**63)))),
            )
        )

    def _give(self, name: str, text: str) -> str:
        self.known[name] = eval(text, scope(self.known))
        self.inputs.append((name, text))
        return name

    def count(self, below: int) -> str:
        """An integer in 0 … below - 1 of the host: a literal, or made of extents and arguments."""
        rng = self.rng
        if rng.random() < 0.6:
            return str(rng.randrange(below))
        variables = {self.whole_number(): "int64"}
        for name in self.arrays(lambda v: v.ndim > 0):
            variables[f"{name}.shape[0]"] = "int64"
        return f"({Scalars(rng).integer(variables, 2)} % {below})"

    # Lines.

    def line(self, text: str, ulps: float = 0, absolute: float = 0.0, numpy: str = "",
             exact: bool = True) -> str | None:  # fmt: skip
        """Adds `name = text` if the reference takes it. `exact=False` says that the result has no
        tolerance, and is not to be computed with either."""
        name = f"a{len(self.known)}"
        if not (numpy or ulps or absolute):
            numpy = in_model(text, [v for v in self.known.values() if isinstance(v, np.ndarray)])
        line = Line(name, text, ulps, absolute, numpy)
        try:
            value = step(line, self.known)
        except Refused as error:
            self.refused.append((text, str(error)))
            return None
        except Exception as error:
            self.lines.append(line)
            raise Broken from error
        parts = value if isinstance(value, tuple) else (value,)
        if sum(np.size(p) for p in parts) > MOST:
            return None
        self.known[name] = value
        self.lines.append(line)
        if ulps or absolute or not exact:
            self.rough.add(name)
        return name

    def extents(self, shape: tuple[int, ...]) -> str:
        """A shape, in which some extents are computed instead."""
        parts = [str(n) if self.rng.random() < 0.8 else self.count(7) for n in shape]
        return f"({', '.join(parts)}{',' if shape else ''})"

    def schedule(self) -> str:
        """An option, now and then."""
        if self.rng.random() < 0.8:
            return ""
        return f", schedule=td.schedule.{self.rng.choice(OPTIONS)}"

    def scalars(self) -> Scalars:
        names = [n for n in self.arrays(lambda v: v.size > 0 and whole(v))]
        return Scalars(
            self.rng, [(n, self.value(n).shape, self.value(n).dtype.name) for n in names[-4:]]
        )


def whole(value: np.ndarray) -> bool:
    """Whether sums and products with it are exact: integers, and small whole floats."""
    if value.dtype.kind in "biu":
        return True
    if value.dtype.kind == "c":
        return whole(value.real) and whole(value.imag)
    most = LARGEST.get(value.dtype.name, 0)
    wide = value.astype("f8")
    return bool(
        np.isfinite(wide).all() and (np.abs(wide) <= most).all() and (wide == np.rint(wide)).all()
    )


def draws(names: str) -> Callable[[Callable[[Writer, str], None]], Callable[[Writer, str], None]]:
    def register(f: Callable[[Writer, str], None]) -> Callable[[Writer, str], None]:
        for name in names.split():
            assert name not in GENERATED, name
            GENERATED[name] = f
        return f

    return register


def in_numpy(text: str, *values: np.ndarray) -> str:
    """The same text for NumPy; "" beside bfloat16, which is not NumPy's."""
    if any(v.dtype == BFLOAT16 for v in values):
        return ""
    windows = "sliding_window_view"  # stands elsewhere in NumPy
    return text.replace(f"td.{windows}", f"np.lib.stride_tricks.{windows}").replace("td.", "np.")


SCHEDULE = re.compile(r", schedule=[^()]*\([^()]*\)(?: \| [^()]*\([^()]*\))?")
#: What a model of NumPy's words cannot know: numbers of the run, which wrap, and treadle's own.
UNKNOWN = re.compile(r"\bn\d|\.shape|\.astype|\bs\d+\[|\.T\b")


def in_model(text: str, values: list[np.ndarray]) -> str:
    """The same text for the model, "" where that does not have all of it."""
    text = SCHEDULE.sub("", text)
    words = set(re.findall(r"td\.(\w+)", text))
    first = re.match(r"td\.(\w+)\(", text)
    if not first or first[1] not in MODELLED or not words <= vars(Model).keys():
        return ""
    if UNKNOWN.search(text) or any(v.dtype == BFLOAT16 for v in values):
        return ""
    return text.replace("td.", "model.")


# ---------------------------------------------------------------------------------------------
# Element-wise

ROUNDED = frozenset(
    [
        *("acos", "acosh", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh"),
        *("asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "deg2rad", "degrees", "erf"),
        *("erfc", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "rad2deg", "radians"),
        *("sin", "sinh", "tan", "tanh"),
    ]
)
#: Functions that NumPy does not have, or in which the language departs from it.
OWN = frozenset(
    ["bitwise_not", "clz", "complex_", "ctz", "erf", "erfc", "popcount", "quot", "rem", "cast"]
)


def tolerance(name: str, *values: np.ndarray) -> float:
    if any(v.dtype.kind == "c" for v in values):
        exact = (
            "negative conj conjugate real imag isnan isinf isfinite equal not_equal add subtract"
        )
        return 0 if name in exact.split() else 64
    if name in ROUNDED or name in ("power", "pow", "hypot", "arctan2", "atan2"):
        return 4
    return 16 if name == "logaddexp" else 0


@draws(
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh "
    "atan atanh bitwise_count bitwise_not cbrt ceil clz conj conjugate cos cosh ctz deg2rad "
    "degrees "
    "erf erfc exp exp2 expm1 fabs floor imag invert isfinite isinf isnan log log10 log1p log2 "
    "logical_not negative popcount rad2deg radians real reciprocal rint round sign signbit sin "
    "sinh sqrt square tan tanh trunc"
)
def unary(w: Writer, name: str) -> None:
    a = w.array()
    v = w.value(a)
    more = (
        f", {w.rng.choice((0, 1, 2, -1))}"
        if name in ("round", "around") and w.rng.random() < 0.3
        else ""
    )
    text = f"td.{name}({a}{more})"
    numpy = in_numpy(text, v) if name not in OWN and v.dtype.kind not in "b" and not more else ""
    if v.dtype.kind == "c" and name not in ("real", "imag", "conj", "conjugate", "negative", "abs"):
        numpy = ""
    if name in ("reciprocal", "sign", "bitwise_count", "angle"):
        numpy = ""
    if name in ("rint", "fabs") and v.dtype.kind in "iu":
        numpy = ""  # NumPy makes floats of integers
    if w.rng.random() < 0.35:
        text = f"td.map(lambda x: td.{name}(x{more}), {a}{w.schedule()})"
    ulps = tolerance(name, v)
    tiny = 0.0 if v.dtype.kind != "c" else 1e-5 if v.dtype == np.complex64 else 1e-13
    fractions = name in ("sqrt", "reciprocal") or bool(more)
    w.line(text, ulps, tiny if ulps else 0.0, numpy, exact=not fractions or v.dtype.kind != "c")


@draws(
    "add arctan2 atan2 bitwise_and bitwise_or bitwise_xor copysign divide equal floor_divide fmax "
    "fmin fmod greater greater_equal heaviside hypot isclose left_shift less less_equal logaddexp "
    "logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal pow power "
    "quot rem remainder right_shift subtract true_divide"
)
def binary(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.array()
    v = w.value(a)
    form = rng.random()
    if form < 0.6:
        b = w.like(a, kind=rng.random() < 0.7)
    elif form < 0.7 and v.ndim:
        b = w.argument(v.dtype.name, tuple(1 if rng.random() < 0.5 else n for n in v.shape[1:]))
    elif form < 0.85:
        b = w.number() if name not in ("pow", "power") else rng.choice(("2", "3", "0", "0.5"))
    else:
        b = rng.choice(("0", "1", "2", "3", "7", "-1", "2.5", "63", "200"))
    other = w.known.get(b, np.zeros(0, v.dtype))
    if name in ("pow", "power") and b in w.known:
        b, other = f"({b} % 4)" if np.asarray(other).dtype.kind in "iu" else "2", v
    order = (
        (a, b)
        if rng.random() < 0.8 or name in ("pow", "power", "left_shift", "right_shift")
        else (b, a)
    )
    text = f"td.{name}({order[0]}, {order[1]})"
    both = (v, np.asarray(other))
    numpy = in_numpy(text, *both) if name not in OWN and b[0] != "n" else ""
    # What NumPy says of these is not what the language says, or said in another type.
    if name in (
        "isclose",
        "power",
        "pow",
        "left_shift",
        "right_shift",
        "heaviside",
        "logaddexp",
    ) or any(x.dtype.kind in "bc" for x in both):
        numpy = ""
    if form < 0.6 and rng.random() < 0.35:
        parameters = ("x", "y") if order == (a, b) else ("y", "x")
        if "%" not in b and b in w.known:
            text = (
                f"td.map(lambda x, y: td.{name}({', '.join(parameters)}), {a}, {b}{w.schedule()})"
            )
    ulps = tolerance(name, *both)
    absolute = 0.0
    if ulps and any(x.dtype.kind == "c" for x in both):
        absolute = 1e-3 if any(x.dtype == np.complex64 for x in both) else 1e-11
    if name == "logaddexp":
        absolute = 1e-6
    w.line(text, ulps, absolute, numpy)


@draws("isin")
def membership(w: Writer, name: str) -> None:
    a = w.array(lambda v: v.dtype.kind in "iuf" and v.dtype.name != "float16")
    v = w.value(a)
    values = ", ".join(
        w.rng.choice(("0", "1", "2", "7", "3")) for _ in range(w.rng.randrange(1, 4))
    )
    text = f"td.isin({a}, [{values}])"
    w.line(text, numpy=in_numpy(text, v))


@draws("where cond")
def choice(w: Writer, name: str) -> None:
    a = w.array()
    b = w.like(a, kind=w.rng.random() < 0.6)
    if name == "cond" and w.rng.random() < 0.6:
        n = w.whole_number()
        test = w.rng.choice((f"{n} * 2 < 0", f"{n} * {n} + 3 > {n}", f"td.sum({w.integers()}) > 5"))
        w.line(f"td.cond({test}, {a}, {w.like(a)})")
        return
    if name == "cond":
        w.line(f"td.map(lambda x, y: td.cond(x == y, x, y), {a}, {w.like(a)}{w.schedule()})")
        return
    p = f"{a} {w.rng.choice(('==', '!='))} {w.like(a)}"
    w.line(
        f"td.where({p}, {a}, {b})",
        numpy=in_numpy(f"td.where({p}, {a}, {b})", w.value(a), w.value(b)),
    )


@draws("clip")
def clip(w: Writer, name: str) -> None:
    a = w.array(lambda v: v.dtype.kind in "iuf")
    low, high = sorted((w.rng.randrange(0, 9), w.rng.randrange(0, 60)))
    text = f"td.clip({a}, {low}, {high})"
    w.line(text, numpy=in_numpy(text, w.value(a)))


@draws("cast bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
       "float64 complex64 complex128")  # fmt: skip
def cast(w: Writer, name: str) -> None:
    a = w.array()
    kind = w.rng.choice(DTYPES) if name == "cast" else name
    kind = "bool_" if kind == "bool" else kind
    typed = f"td.where(td.isnan(x), td.{kind}(1), td.{kind}(0))"
    w.line(w.rng.choice((f"td.cast({a}, td.{kind})", f"{a}.astype(td.{kind})",
                         f"td.map(lambda x: td.cast(x, td.{kind}), {a}{w.schedule()})",
                         f"td.map(lambda x: {typed}, {a})")))  # fmt: skip


@draws("complex_")
def complex_(w: Writer, name: str) -> None:
    a = w.array(lambda v: v.dtype.name in ("float32", "float64"))
    w.line(f"td.complex_({a}, {w.like(a)})")


@draws("map imap")
def mapped(w: Writer, name: str) -> None:
    first = w.array(lambda v: whole(v) and v.dtype.kind != "c")
    shape = w.value(first).shape
    names = [first]
    for _ in range(w.rng.randrange(3)):
        names.append(w.array(lambda v: v.shape == shape and whole(v) and v.dtype.kind != "c"))
    variables = dict(zip("xyz", (w.value(n).dtype.name for n in names), strict=False))
    parameters = list(variables)
    if name == "imap":
        indices = [f"i{k}" for k in range(len(shape))]
        parameters = [*indices, *parameters]
        variables |= dict.fromkeys(indices, "int64")
    if w.rng.random() < 0.3:
        variables[w.whole_number()] = "int64"
    scalars = w.scalars()
    body = scalars.of_any_type(variables)
    if w.rng.random() < 0.15:
        body = f"({body}, {scalars.of_any_type(variables, 2)})"
    text = f"td.{name}(lambda {', '.join(parameters)}: {body}, {', '.join(names)}{w.schedule()})"
    w.line(text)


@draws("generate")
def generate(w: Writer, name: str) -> None:
    shape = arguments.shape(w.rng)
    indices = {f"i{k}": "int64" for k in range(len(shape))}
    extents = w.extents(shape)
    variables = dict(indices)
    if w.rng.random() < 0.3:
        variables[w.whole_number()] = "int64"
    body = w.scalars().of_any_type(variables)
    w.line(f"td.generate({extents}, lambda {', '.join(indices)}: {body}{w.schedule()})")


@draws("zip unzip indexed")
def tuples(w: Writer, name: str) -> None:
    a = w.array(lambda v: whole(v) and v.dtype.kind in "iuf")
    b = w.array(lambda v: v.shape == w.value(a).shape and whole(v) and v.dtype.kind in "iuf")
    v = w.value(a)
    variables = {"p[0]": v.dtype.name, "p[1]": w.value(b).dtype.name}
    if name == "indexed":
        variables = {f"p[{k}]": "int64" for k in range(v.ndim)} | {f"p[{v.ndim}]": v.dtype.name}
        if not v.ndim:
            raise NoLine
        w.line(f"td.map(lambda p: {w.scalars().of_any_type(variables, 2)}, td.indexed({a}))")
    elif name == "unzip":
        body = ", ".join(w.scalars().of_any_type(variables, 2) for _ in "ab")
        w.line(f"td.unzip(td.map(lambda p: ({body}), td.zip({a}, {b})))[{w.rng.randrange(2)}]")
    elif w.rng.random() < 0.5:
        w.line(f"td.zip({a}, {b})")
    else:
        body = w.scalars().of_any_type(variables, 2)
        w.line(f"td.map(lambda p: {body}, td.zip({a}, {b}){w.schedule()})")


# ---------------------------------------------------------------------------------------------
# Making


@draws("fill full zeros ones unit")
def making(w: Writer, name: str) -> None:
    rng = w.rng
    shape = arguments.shape(rng)
    extents = w.extents(shape)
    kind = rng.choice(DTYPES)
    kind = "bool_" if kind == "bool" else kind
    s = rng.choice(("1", "2.5", "True", f"td.{kind}(3)", w.whole_number(), w.number()))
    w.line({
        "fill": f"td.fill({extents}, {s}{w.schedule()})",
        "full": f"td.full({extents}, {rng.choice((s, f'3, td.{kind}'))})",
        "zeros": f"td.zeros({extents}, td.{kind})",
        "ones": f"td.ones({extents}, td.{kind})",
        "unit": f"td.unit({s})",
    }[name])  # fmt: skip


@draws("full_like zeros_like ones_like")
def making_like(w: Writer, name: str) -> None:
    a = w.array(rough=True)
    text = f"td.{name}({a}{', 3' if name == 'full_like' else ''})"
    w.line(text, numpy=in_numpy(text, w.value(a)))


@draws("iota arange linspace eye")
def ranges(w: Writer, name: str) -> None:
    rng = w.rng
    n, m, k = rng.choice((0, 1, 5, 33)), rng.randrange(9), rng.randrange(-4, 5)
    if name == "iota":
        w.line(
            f"td.iota({w.count(40)}{rng.choice(('', ', td.int8', ', td.float32', ', td.uint64'))})"
        )
    elif name == "arange":
        text = f"td.arange({k}, {rng.choice((9, 20, -20))}, {rng.choice((1, 2, -3))})"
        w.line(text, numpy=text.replace("td.", "np."))
    elif name == "linspace":
        w.line(f"td.linspace({k}, {m}, {n}, {rng.random() < 0.5})", 2, 1e-14)
    else:
        text = (
            f"td.eye({m}, {rng.choice((3, None, 8))}, {k}, {rng.choice(('int', 'float', 'bool'))})"
        )
        w.line(text, numpy=text.replace("td.", "np."))


@draws("use the compute")
def same(w: Writer, name: str) -> None:
    a = w.array(rough=True)
    if name == "the":
        a = w.array(lambda v: v.ndim == 0)
        w.line(f"td.fill(({w.rng.randrange(4)}, 3), td.the({a}))")
        return
    limits = next((line for line in w.lines if line.name == a), Line(a, ""))
    w.line(f"td.{name}({a})", limits.ulps, limits.absolute, exact=a not in w.rough)


# ---------------------------------------------------------------------------------------------
# The index space

MOVES = (
    "reshape flatten ravel transpose swapaxes broadcast_to replicate reverse flip take "
    "concatenate stack pad roll diagonal expand_dims squeeze"
)


def moved(w: Writer, a: str, text: str, numpy: bool = True) -> None:
    """A line that only moves elements of `a` (and of arrays as exact)."""
    limits = next((line for line in w.lines if line.name == a), Line(a, ""))
    words = in_numpy(text, w.value(a)) if numpy else ""
    w.line(text, limits.ulps, limits.absolute, words, exact=a not in w.rough)


@draws(MOVES)
def moves(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(rough=True)
    v = w.value(a)
    axis = rng.randrange(-v.ndim, v.ndim)
    at = axis % v.ndim
    n = v.shape[axis]
    if name == "reshape":
        shape = rng.choice((tuple(reversed(v.shape)), (v.size,), (1, -1), (-1,), (*v.shape, 1)))
        if v.size % 2 == 0 and v.size and rng.random() < 0.5:
            shape = (2, -1)
        moved(w, a, f"td.reshape({a}, {shape})", numpy=v.size > 0)
    elif name in ("flatten", "ravel"):
        moved(w, a, f"td.{name}({a})", numpy=name == "ravel")
    elif name == "transpose":
        axes = list(range(v.ndim))
        rng.shuffle(axes)
        moved(w, a, rng.choice((f"td.transpose({a}, {tuple(axes)})", f"{a}.T")))
    elif name == "swapaxes":
        moved(w, a, f"td.swapaxes({a}, {axis}, {rng.randrange(v.ndim)})")
    elif name == "broadcast_to":
        moved(w, a, f"td.broadcast_to({a}, ({rng.randrange(4)}, *{v.shape}))")
    elif name == "replicate":
        moved(w, a, f"td.replicate({a}, {w.count(5)}, {rng.randrange(v.ndim + 1)})", numpy=False)
    elif name in ("reverse", "flip"):
        moved(w, a, f"td.{name}({a}{rng.choice(('', f', {axis}'))})", numpy=name == "flip")
    elif name == "take":
        if not n:
            raise NoLine
        places = [rng.randrange(n) for _ in range(rng.randrange(6))]
        if rng.random() < 0.5:
            b = w.array(lambda x: x.dtype == np.int64 and x.ndim < 3)
            moved(w, a, f"td.take({a}, {b} % {n}, {axis})")
        else:
            moved(w, a, f"td.take({a}, np.array({places}, 'i8'), {axis})")
    elif name in ("concatenate", "stack"):

        def fits(x: np.ndarray) -> bool:
            if name == "stack":
                return x.shape == v.shape and x.dtype == v.dtype
            return (
                x.ndim == v.ndim
                and x.dtype == v.dtype
                and np.delete(x.shape, at).tolist() == np.delete(v.shape, at).tolist()
            )

        names = [a, *(w.array(fits) for _ in range(rng.choice((0, 1, 1, 2, 5))) if w.arrays(fits))]
        parts = [
            x if rng.random() < 0.7 or name == "stack" else f"td.roll({x}, 1, {axis})"
            for x in names
        ]
        rng.shuffle(parts)
        moved(w, a, f"td.{name}([{', '.join(parts)}], {axis})")
    elif name == "pad":
        modes = ("constant", "edge", "reflect", "symmetric", "wrap") if v.size else ("constant",)
        width = tuple((rng.randrange(3), rng.randrange(4)) for _ in v.shape)
        moved(w, a, f"td.pad({a}, {width}, mode={rng.choice(modes)!r})")
    elif name == "roll":
        amount = str(rng.randrange(-4, 9)) if rng.random() < 0.7 else f"{w.whole_number()} % 11"
        moved(w, a, f"td.roll({a}, {amount}, {axis})", numpy="%" not in amount)
    elif name == "diagonal":
        if v.ndim < 2:
            raise NoLine
        moved(w, a, f"td.diagonal({a}, {rng.randrange(-2, 3)}, 0, {rng.randrange(1, v.ndim)})")
    elif name == "expand_dims":
        moved(w, a, f"td.expand_dims({a}, {rng.randrange(v.ndim + 1)})")
    else:
        ones = tuple(k for k, n in enumerate(v.shape) if n == 1)
        moved(w, a, f"td.squeeze({a}, axis={ones})")


@draws("constant clamp mirror symmetric wrap function stencil convolve correlate")
def stencil(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.size < 1500 and v.ndim < 4 and whole(v) and v.dtype.kind in "iuf")
    v = w.value(a)
    kind = v.dtype.name
    wrong = ["clamp", "mirror", "symmetric", "wrap", "constant", "function"]
    word = name if name in wrong else rng.choice(wrong)
    indices = [f"i{k}" for k in range(v.ndim)]
    boundary = f"td.{word}"
    if word == "constant":
        boundary = f"td.constant({rng.choice(('0', '7', '1', w.whole_number()))})"
    elif word == "function":
        variables = dict.fromkeys(indices, "int64")
        body = w.scalars().integer(variables, 2)
        boundary = f"td.function(lambda {', '.join(indices)}: td.cast({body}, td.int64) % 7)"
    if name in ("convolve", "correlate"):
        weights = w.argument(kind, tuple(rng.choice((1, 2, 3, 4)) for _ in v.shape))
        if not whole(w.value(weights)):
            raise NoLine
        limits = exactness(w.value(a), w.value(weights).size * 100)
        w.line(f"td.{name}({a}, {weights}, {boundary}{w.schedule()})", 0, limits)
        return
    taps = []
    more = w.like(a) if rng.random() < 0.25 else ""
    more = more if more and whole(w.value(more)) else ""
    for _ in range(rng.randrange(1, 6)):
        offset = ", ".join(str(rng.choice((0, 0, 1, -1, 1, -1, 2, -3, 5))) for _ in indices)
        taps.append(f"{rng.choice('wu') if more else 'w'}[{offset}]")
    wide = [f"{t} * {rng.choice((1, 1, 2, 3))}" for t in taps]
    body = " + ".join(wide)
    if kind in FLOATS:
        body = rng.choice((body, f"td.clip({body}, -8, 8)", f"td.maximum({taps[0]}, {taps[-1]})"))
    elif rng.random() < 0.4:
        body = w.scalars().of_any_type({t: kind for t in taps}, 2)
    parameters = "w, u" if more else "w"
    both = f"{a}, {more}" if more else a
    absolute = exactness(v, 60) if kind in FLOATS else 0.0
    w.line(
        f"td.stencil(lambda {parameters}: {body}, {both}, boundary={boundary}{w.schedule()})",
        0,
        absolute,
    )


def exactness(v: np.ndarray, size: float) -> float:
    """0 if sums of `size` terms are exact in the type, else what they may be off."""
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "complex64": 24}
    found = digits.get(v.dtype.name)
    if found is None and v.dtype.kind != "c":
        return 0.0
    wide = np.abs(v.astype("c16" if v.dtype.kind == "c" else "f8"))
    most = float(np.max(wide, initial=0)) * size
    bound = 2.0 ** (found or 53)
    return 0.0 if most < bound else most / bound * 4


@draws("backpermute gather take_along_axis")
def gathers(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.size > 0, rough=True)
    v = w.value(a)
    if name == "backpermute":
        shape = arguments.shape(rng, rng.randrange(1, 4))
        variables = {f"i{k}": "int64" for k in range(len(shape))}
        places = ", ".join(w.scalars().place(variables, n) for n in v.shape)
        moved(
            w,
            a,
            f"td.backpermute({shape}, lambda {', '.join(variables)}: ({places},), "
            f"{a}{w.schedule()})",
            False,
        )
        return
    axis = rng.randrange(v.ndim)
    if name == "gather":
        b = w.array(lambda x: x.dtype.kind in "i" and x.dtype.itemsize == 8 and x.ndim < 3)
        moved(w, a, f"td.gather({a}, {b} % {v.shape[axis]}, {axis}{w.schedule()})", False)
        return
    b = w.argument("int64", v.shape)
    moved(w, a, f"td.take_along_axis({a}, {b} % {v.shape[axis]}, {axis})")


@draws("permute scatter overwrite bincount histogram")
def permutes(w: Writer, name: str) -> None:
    rng = w.rng
    if name in ("bincount", "histogram"):
        b = w.array(
            lambda v: (
                (v.ndim == 1 and v.dtype.kind in "iu" and v.dtype.itemsize < 8)
                or (v.dtype == np.int64 and v.ndim == 1)
            )
        )
        if name == "histogram":
            text = f"td.histogram({b} % 13, bins={rng.choice((1, 5, 10))}, range=(0, 13))[0]"
            w.line(text)
        else:
            length = rng.choice((", length=13", "", ", minlength=20"))
            w.line(f"td.bincount(td.cast({b}, td.int64) % 13{length})")
        return
    a = w.vector(lambda v: v.size < 800 and v.dtype.kind in "iuf" and whole(v))
    v = w.value(a)
    shape = tuple(rng.choice((1, 2, 3, 4, 7)) for _ in range(rng.randrange(1, 4)))
    defaults = w.argument(rng.choice((v.dtype.name, "int64", "float64")), shape)
    if not whole(w.value(defaults)):
        raise NoLine
    floats = {v.dtype.kind, w.value(defaults).dtype.kind} & {"f", "V"}
    added = v.astype("f8") if floats and v.dtype.kind in "iu" else v
    off = exactness(w.value(defaults), v.size * 100) or exactness(added, v.size)
    words = ["lambda n, o: td.minimum(n, o)", "lambda n, o: td.maximum(n, o)"]
    if not (floats and off):
        words.append("lambda n, o: n + o")
    if not floats:
        words += ["lambda n, o: n ^ o", "lambda n, o: n * o"]
    combine = rng.choice(words)
    if name == "scatter":
        n = shape[0]
        source = w.argument(v.dtype.name, (rng.choice((0, 1, 3, 8)), *shape[1:]))
        rounded = floats and exactness(w.value(source).astype("f8"), 8 * v.size)
        if not whole(w.value(source)) or (rounded and combine == "lambda n, o: n + o"):
            raise NoLine
        places = rng.sample(range(n), min(n, w.value(source).shape[0]))
        if len(places) == w.value(source).shape[0] and rng.random() < 0.6:
            w.line(f"td.scatter({defaults}, np.array({places}, 'i8'), {source}{w.schedule()})")
        else:
            places = [rng.randrange(n) for _ in range(w.value(source).shape[0])]
            w.line(
                f"td.scatter({defaults}, np.array({places}, 'i8'), {source}, "
                f"{combine}{w.schedule()})"
            )
        return
    variables = {f"i{k}": "int64" for k in range(v.ndim)}
    if name == "overwrite":
        # Each place is hit once: those of the source, in another order.
        target = ", ".join(f"{n - 1} - i{k}" for k, n in enumerate(v.shape))
        defaults = w.like(a, kind=False)
        if v.dtype.kind == "f" and w.value(defaults).dtype.kind in "iu":
            raise NoLine  # a value outside the integer type may become anything
        target = f"({target},)"
        combine = "td.overwrite"
    else:
        target = f"({', '.join(w.scalars().place(variables, n) for n in shape)},)"
    if rng.random() < 0.4:
        test = w.scalars().truth(variables, 2)
        target = f"td.{rng.choice(('where', 'cond'))}({test}, {target}, td.ignore)"
    w.line(
        f"td.permute({combine}, {defaults}, lambda {', '.join(variables)}: {target}, "
        f"{a}{w.schedule()})"
    )


@draws(
    "moveaxis matrix_transpose fliplr flipud rot90 repeat tile diag trace tril triu kron cross "
    "diff ptp nansum nanmin nanmax nanargmin nanargmax nancumsum array_equal searchsorted digitize "
    "positive isposinf isneginf isreal iscomplex gcd lcm nan_to_num select rotate_left "
    "rotate_right sliding_window_view"
)
def words(w: Writer, name: str) -> None:
    """Words of NumPy that are made of other operations."""
    rng = w.rng
    if name in ("gcd", "lcm", "rotate_left", "rotate_right"):
        a = w.array(lambda v: v.dtype.kind in "iu" and v.size < MOST)
        other = rng.choice(("3", "6", "12", "1"))
        numpy = in_numpy(f"td.{name}({a}, {other})", w.value(a)) if name in ("gcd", "lcm") else ""
        w.line(f"td.{name}({a}, {other})", numpy=numpy)
        return
    if name in ("searchsorted", "digitize"):
        a = w.array(lambda v: v.dtype.kind in "iu" and v.dtype.itemsize < 8)
        table = sorted(rng.sample(range(-9, 30), rng.randrange(1, 9)))
        given = (f"np.array({table})", a) if name == "searchsorted" else (a, f"np.array({table})")
        text = f"td.{name}({', '.join(given)})"
        w.line(text, numpy=in_numpy(text, w.value(a)))
        return
    least = {"matrix_transpose": 2, "fliplr": 2, "rot90": 2, "trace": 2, "tril": 1, "triu": 1,
             "flipud": 1, "moveaxis": 1, "sliding_window_view": 1, "diff": 1,
             "nancumsum": 1}.get(name, 0)  # fmt: skip
    reduced = name.startswith("nan") or name in ("trace", "ptp")
    a = w.array(
        lambda v: (
            v.ndim >= least
            and v.size < 500
            and (name != "diag" or v.ndim in (1, 2))
            and (name != "sliding_window_view" or v.shape[-1] > 1)
            and (name != "cross" or (v.ndim and v.shape[-1] == 3 and v.dtype.kind in "iu"))
            and (not reduced or (v.size and v.dtype.kind in "iu"))
            and (name != "kron" or (v.size < 20 and v.dtype.kind in "iu"))
            and (name not in ("ptp", "isposinf", "isneginf") or v.dtype.kind in "iuf")
            and v.dtype.kind != "V"
        )
    )
    v = w.value(a)
    more = {
        "moveaxis": f", {rng.randrange(v.ndim or 1)}, {-1 - rng.randrange(v.ndim or 1)}",
        "rot90": f", {rng.randrange(-1, 5)}",
        "repeat": f", {rng.randrange(4)}, {rng.choice(('None', *range(v.ndim)))}",
        "tile": f", {rng.choice(('2', '(2, 1)', '(1, 3)', '0'))}",
        "diag": f", {rng.randrange(-2, 3)}",
        "tril": f", {rng.randrange(-2, 3)}",
        "triu": f", {rng.randrange(-2, 3)}",
        "kron": f", {a}",
        "cross": f", {a}",
        "diff": f", {rng.randrange(3)}",
        "sliding_window_view": f", {rng.randrange(1, 3)}, -1",
        "array_equal": f", {w.like(a)}",
    }.get(name, "")
    text = f"td.{name}({a}{more})"
    if name == "select":
        b = w.like(a, kind=True)
        text = f"td.select([{a} > 2, {b} < 1], [{a}, {b}])"
        if v.dtype.kind == "c":
            raise NoLine
    w.line(text, numpy=in_numpy(text, v) if v.dtype.kind in "iu" and name != "select" else "")


@draws("update")
def updates(w: Writer, name: str) -> None:
    """Parts of arrays: integers and slices of numbers or of the host, integer arrays, masks."""
    rng = w.rng
    a = w.array(lambda v: v.size < 2000 and whole(v))
    v = w.value(a)
    method = rng.choice(["update", "update", "set", "add", "multiply", "min", "max"])
    if method in ("min", "max") and v.dtype.kind == "c":
        raise NoLine
    if method in ("add", "multiply") and v.dtype.kind not in "iu":
        raise NoLine
    if rng.random() < 0.2:
        b = w.like(a)
        index, new = f"{a} {rng.choice(('==', '!='))} {b}", rng.choice((b, w.like(a)))
        if new not in {given for given, _ in w.inputs}:
            raise NoLine  # computed extents may not be known to be those of the array
    else:
        parts, values, block = [], [], rng.choice(((), (3,), (2, 3), (0,), (70,)))
        for n in v.shape[: rng.randrange(v.ndim + 1)]:
            which = rng.random() if n else 1.0
            if which < 0.3:
                text, value = counted(w, str(rng.randrange(-n, n)), n)
            elif which < 0.6:
                b = w.argument("int64", block[rng.randrange(len(block) + 1) :])
                back = rng.choice((0, n))
                text, value = f"{b} % {n} - {back}", w.value(b) % n - back
            else:
                near = str(rng.randrange(-n - 2, n + 3))
                (start, low), (stop, high) = (
                    ("None", None) if rng.random() < 0.3 else counted(w, near, n + 2)
                    for _ in range(2)
                )
                step_ = rng.choice((None, 1, 2, 3, -1, -2))
                text, value = f"slice({start}, {stop}, {step_})", slice(low, high, step_)
            parts.append(text)
            values.append(value)
        index = f"({', '.join(parts)}{',' if parts else ''})"
        try:
            part = v[tuple(values)].shape
        except IndexError:  # integer arrays of different shapes
            raise NoLine from None
        stretched = tuple(1 if rng.random() < 0.2 else n for n in part)
        new = w.argument(v.dtype.name, stretched[rng.randrange(len(part) + 1) :])
        if not whole(w.value(new)):
            raise NoLine
    if method == "update":
        w.line(f"td.update({a}, {index}, {new}{w.schedule()})")
    else:
        w.line(f"td.use({a}).at[{index}].{method}({new}{w.schedule()})")


def counted(w: Writer, number: str, below: int) -> tuple[str, int]:
    """This number, or one of the host, with its value."""
    text = w.rng.choice((number, w.count(below)))
    try:
        return text, int(step(Line("", f"td.unit({text})"), w.known))
    except Refused:
        raise NoLine from None


@draws("ignore")
def ignoring(w: Writer, name: str) -> None:
    a = w.vector(lambda v: v.ndim == 1 and v.size > 0)
    n = w.value(a).shape[0]
    test = w.scalars().truth({"i": "int64"}, 2)
    w.line(
        f"td.permute(td.overwrite, {w.like(a)}, "
        f"lambda i: td.where({test}, {n - 1} - i, td.ignore), {a})"
    )


# ---------------------------------------------------------------------------------------------
# Reductions and scans

OPERATORS = (
    "lambda x, y: x + y",
    "lambda x, y: td.minimum(x, y)",
    "lambda x, y: td.maximum(x, y)",
    "lambda x, y: td.where(x != 0, x, y)",
    "lambda x, y: td.where(y > 5, y, x)",
)
PAIRS = ("lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])",
         "lambda p, q: td.where(q[0] > p[0], q, p)",
         "lambda p, q: (td.minimum(p[0], q[0]), p[1] + q[1])")  # fmt: skip


def roughness(v: np.ndarray) -> float:
    """How far a sum of all elements may be off."""
    if v.dtype.kind in "biu":
        return 0.0
    wide = np.abs(v.astype("c16" if v.dtype.kind == "c" else "f8"))
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24}.get(v.dtype.name, 53)
    with np.errstate(all="ignore"):
        total = float(np.sum(wide)) if wide.size else 0.0
    return total * 2.0**-digits * (8 + np.log2(wide.size + 1) * 2)


@draws("sum prod mean std var")
def arithmetic_reductions(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.array(lambda v: v.dtype.kind != "b" or name in ("sum", "mean"))
    v = w.value(a)
    axis = rng.choice(("", ", axis=None", *(f", axis={k}" for k in range(-v.ndim, v.ndim)),
                       *([", axis=(0, 1)", ", axis=(-1, 0)"] if v.ndim > 1 else [])))  # fmt: skip
    keep = ", keepdims=True" if rng.random() < 0.25 else ""
    text = f"td.{name}({a}{axis}{keep}{w.schedule()})"
    numpy = in_numpy(f"td.{name}({a}{axis}{keep})", v)
    floating = v.dtype.kind not in "biu"
    if floating and not np.isfinite(v.astype("c16")).all():
        raise NoLine
    if name == "sum":
        off = 0.0 if whole(v) and not exactness(v, v.size) else roughness(v)
        w.line(text, 0, off, numpy if v.dtype.name not in ("float16",) else "")
    elif name == "prod":
        if floating:
            if v.size > 12 or not whole(v):
                raise NoLine  # overflows, in whatever order
            w.line(text, 4096 if v.dtype.name in ("float16", "bfloat16") else 100_000, 1e-3)
        else:
            w.line(text, numpy=numpy)
    else:
        scale = roughness(v) if floating else roughness(v.astype("f8"))
        off = max(scale * 8, 1e-300) if name == "mean" else max(scale, scale**2) * 64 + 1e-6
        narrow = v.dtype.kind == "b" or v.dtype.itemsize == 2 or not v.size
        w.line(text, 64, off, "" if narrow else numpy)


@draws("min max amin amax all any argmin argmax count_nonzero")
def exact_reductions(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.dtype.kind != "c")
    v = w.value(a)
    axis = rng.choice(("", *(f", axis={k}" for k in range(-v.ndim, v.ndim))))
    keep = ", keepdims=True" if rng.random() < 0.25 else ""
    text = f"td.{name}({a}{axis}{keep}{w.schedule()})"
    w.line(text, numpy=in_numpy(f"td.{name}({a}{axis}{keep})", v))


@draws("fold fold1 scanl scanl1 scanr scanr1 scanl_total scanr_total")
def folds(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.dtype.kind in "iuf" and whole(v))
    v = w.value(a)
    axis = rng.randrange(-v.ndim, v.ndim)
    of = f", axis={axis}" if rng.random() < 0.7 else ""
    if name[:4] == "fold" and rng.random() < 0.15:
        of = ", axis=None"
    # Of one type: the first of PAIRS is not associative where products wrap in a narrower one.
    pairs = [n for n in w.arrays(lambda x: x.shape == v.shape and x.dtype == v.dtype)]
    part = ""
    if v.dtype.kind in "iu" and pairs and rng.random() < 0.4:
        f, init = rng.choice(PAIRS), "(1, 0)"
        source = f"td.zip({a}, {rng.choice(pairs)})"
    else:
        off = exactness(v, v.size + 10)
        f = rng.choice(OPERATORS if not off else OPERATORS[1:])
        if v.dtype.kind in "iu" and rng.random() < 0.3:
            f = rng.choice(("lambda x, y: x * y", "lambda x, y: x & y", "lambda x, y: x ^ y"))
        init = rng.choice(("0", "1", "9", "9", str(w.rng.randrange(9))))
        source = a
    first = "" if name.endswith("1") else f"{init}, "
    part = f"[{rng.randrange(2)}]" if name.endswith("total") else ""
    w.line(f"td.{name}({f}, {first}{source}{of}{w.schedule()}){part}")


#: What a step of a sequential scan makes of integers: element by element, and of the whole state.
STEPS = (
    "lambda s, x: (s + x, s - x)",
    "lambda s, x: (x - s, td.maximum(s, x))",
    "lambda s, x: (td.where(s > x, s - x, x), s)",
    "lambda s, x: (s * 3 + x, s)",
    "lambda s, x: (s + td.roll(x, 1, axis=0), s + td.max(x))",
)


@draws("scan")
def sequential_scans(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.dtype.kind in "iu")
    v = w.value(a)
    axis = rng.randrange(-v.ndim, v.ndim)
    others = tuple(np.delete(v.shape, axis))
    step = rng.choice(STEPS if others and 0 not in others else STEPS[:-1])
    first = f"np.zeros({others}, '{v.dtype.name}')" if others else f"td.{v.dtype.name}(0)"
    backwards = rng.choice(("", ", reverse=True"))
    w.line(f"td.scan({step}, {first}, {a}, axis={axis}{backwards})[{rng.randrange(2)}]")


@draws(
    "fold_seg fold1_seg scanl_seg scanl1_seg scanr_seg scanr1_seg scanl_total_seg scanr_total_seg"
)
def segmented(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.dtype.kind in "iuf" and whole(v))
    v = w.value(a)
    left, lengths = v.shape[-1], []
    low = 1 if "fold1" in name else 0
    while left > 0:
        lengths.append(min(left, rng.choice((0, 1, 1, 2, 3, 7, 40)) + low))
        left -= lengths[-1]
    if not low:
        lengths += [0] * rng.randrange(2)
    f = rng.choice(OPERATORS if not exactness(v, v.size + 10) else OPERATORS[1:])
    init = "" if "1" in name else f"{rng.randrange(9)}, "
    given = f"np.array({lengths}, '{rng.choice(('i8', 'i4', 'u1'))}')"
    part = f"[{rng.randrange(2)}]" if "total" in name else ""
    w.line(f"td.{name}({f}, {init}{a}, {given}{w.schedule()}){part}")


@draws("cumsum cumprod cummax cummin")
def cumulative(w: Writer, name: str) -> None:
    a = w.vector(
        lambda v: (
            v.dtype.kind in "iu" or (name in ("cummax", "cummin", "cumsum") and v.dtype.kind == "f")
        )
    )
    v = w.value(a)
    axis = w.rng.choice(("", *(f", axis={k}" for k in range(-v.ndim, v.ndim))))
    text = f"td.{name}({a}{axis}{w.schedule()})"
    off = 0.0
    if name == "cumsum" and v.dtype.kind == "f":
        if not np.isfinite(v).all():
            raise NoLine
        off = 0.0 if whole(v) and not exactness(v, v.size) else roughness(v)
    numpy = (
        f"np.{name}({a}{axis})"
        if name in ("cumsum", "cumprod") and v.dtype.name != "float16"
        else ""
    )
    w.line(text, 0, off, numpy)


# ---------------------------------------------------------------------------------------------
# Control, irregular, products

BODIES = (
    "{a} * 3 + {b}",
    "{b}",
    "{b} - td.reverse({a}, axis=0)",
    "td.scanl1(lambda x, y: x + y, {b})",
    "td.compute({b}) ^ {a}",
    "td.maximum({a}, {b}) + 1",
    "td.cond(td.sum({a}) % 3 == 1, {b}, {a})",
    "td.roll({a}, 1, 0) + {b}",
    "td.update({a}, slice(1, None), {b}[:-1])",
    "td.concatenate([{a}, {b}], 0)[: {a}.shape[0]]",
    "td.sort({a}, 0)",
    "td.stencil(lambda w: w[{z}] + 1, {a}, boundary=td.wrap)",
    "td.map(lambda x: x % 7, {a})",
)


@draws("loop iterate while_loop")
def loops(w: Writer, name: str) -> None:
    rng = w.rng
    a = w.vector(lambda v: v.dtype.kind in "iu" and v.size < 300)
    v = w.value(a)
    init = [a, *(w.like(a) for _ in range(rng.randrange(3)))]
    zero = ", ".join("0" for _ in v.shape)
    every = [f"s[{k}]" for k in range(len(init))] + [*init, w.like(a)]

    def part() -> str:
        return rng.choice(BODIES).format(a=rng.choice(every), b=rng.choice(every), z=zero)

    body = ", ".join(part() for _ in init)
    iterations = w.count(6)
    if name == "while_loop":
        count = f"s[{len(init)}]"
        test = f"td.the({count}) < {iterations}"
        if rng.random() < 0.5:
            test = f"({test}) & (td.the(td.sum({rng.choice(every)})) % 7 != 2)"
        state = f"({', '.join(init)}, td.unit(0))"
        text = f"td.while_loop(lambda s: {test}, lambda s: ({body}, {count} + 1), {state})"
    else:
        if name == "loop" and rng.random() < 0.5:
            body = body.replace("+ 1", "+ td.cast(k, td.int8)")
        given = "s" if name == "iterate" else "k, s"
        if name == "loop" and rng.random() < 0.3:
            iterations = f"{w.count(4)}, {iterations}"
        text = f"td.{name}({iterations}, lambda {given}: ({body},), ({', '.join(init)},))"
    w.line(f"{text}[{rng.randrange(len(init))}]")


@draws("filter compact expand unique sort argsort")
def irregular(w: Writer, name: str) -> None:
    rng = w.rng
    if name in ("sort", "argsort"):
        a = w.vector(lambda v: v.dtype.kind != "c")
        v = w.value(a)
        axis = rng.choice(("", *(f", {k}" for k in range(-v.ndim, v.ndim))))
        text = f"td.{name}({a}{axis})"
        w.line(text, numpy=in_numpy(text, v) if name == "sort" else "")
        return
    a = w.vector(lambda v: v.dtype.kind in "iub" and v.ndim == 1)
    v = w.value(a)
    part = rng.randrange(2)
    if name == "filter":
        w.line(f"td.filter(lambda x: {w.scalars().truth({'x': v.dtype.name}, 2)}, {a})[{part}]")
    elif name == "compact":
        b = w.like(a)
        w.line(f"td.compact({a} == {b}, {b})[{part}]")
    elif name == "unique":
        w.line(f"td.unique({a})", numpy=in_numpy(f"td.unique({a})", v))
    else:
        body = w.scalars().integer({"x": v.dtype.name, "k": "int64"}, 2)
        w.line(f"td.expand(lambda x: td.cast(x, td.int64) % 4, lambda x, k: {body}, {a})")


@draws("matmul strassen dot outer tensordot")
def products(w: Writer, name: str) -> None:
    rng = w.rng
    rank = 1 if name == "outer" else 2
    a = w.array(lambda v: v.ndim == rank and v.size < 1200 and whole(v) and v.dtype.kind != "b")
    v = w.value(a)
    kind = v.dtype.name
    if name == "strassen" and kind in ("float16", "bfloat16"):
        raise NoLine  # refused
    m = rng.choice((0, 1, 2, 5, 17, 33))
    shape = (m,) if rank == 1 else (v.shape[1], m)
    if name in ("matmul", "dot") and rng.random() < 0.3:
        shape = (v.shape[1],)
    b = w.argument(kind, shape)
    if not whole(w.value(b)):
        raise NoLine
    other = w.value(b)
    most = (
        float(np.max(np.abs(other.astype("c16")), initial=0)) if other.dtype.kind not in "iu" else 0
    )
    factor = 64 if name == "strassen" else 4
    off = exactness(v, max(v.shape[-1], 1) * most * factor) if most else 0.0
    numpy = "" if v.dtype.itemsize == 2 and v.dtype.kind not in "iu" else f"np.{name}({a}, {b})"
    if name == "outer" and rng.random() < 0.5:
        b = w.like(a)
        numpy = ""
        off = exactness(v, 1000)
    if name == "strassen":
        w.line(f"td.strassen({a}, {b}, levels={rng.choice((1, 1, 2))})", 0, off)
    elif name == "tensordot":
        w.line(f"td.tensordot({a}, {b}, 1)", 0, off, f"np.tensordot({a}, {b}, 1)" if numpy else "")
    elif name == "matmul" and rng.random() < 0.3:
        w.line(f"{a} @ {b}", 0, off, f"{a} @ {b}" if numpy else "")
    else:
        w.line(f"td.{name}({a}, {b})", 0, off, numpy)


def operators(w: Writer, name: str) -> None:
    """Python's operators, and slices."""
    rng = w.rng
    if rng.random() < 0.4:
        a = w.array()
        b = w.like(a) if rng.random() < 0.7 else w.number()
        w.line(f"{a} {rng.choice(('+', '-', '*', '&', '|', '^', '<', '==', '>='))} {b}",
               4 * (w.value(a).dtype.kind == "c"))  # fmt: skip
        return
    a = w.vector(rough=True)
    parts, plain = [], True
    for n in w.value(a).shape:
        form = rng.randrange(6)
        if form == 0 and n:
            parts.append(str(rng.randrange(-n, n)))
        elif form == 1:
            parts.append("None, :")
        elif form == 2 and rng.random() < 0.6:
            plain = False
            product = f"{w.whole_number()} * {w.whole_number()}"
            parts.append(
                rng.choice(
                    (f"{w.count(max(n, 1))}:", f":{w.count(n + 1)}", f"{product} % {n + 1}:")
                )
            )
        else:
            start = rng.choice(("", "1", "-2", "2", "-40"))
            stop = rng.choice(("", "", "-1", "3", "40"))
            parts.append(f"{start}:{stop}:{rng.choice((1, 1, 2, -1, -2, 3))}")
    if rng.random() < 0.2:
        parts.append("...")
    moved(w, a, f"{a}[{', '.join(parts)}]", plain)


FAMILIES = sorted({f.__name__: f for f in GENERATED.values()}.items())


def draw(seed: int, number: int, kinds: Callable[[Random], str] = arguments.kind) -> Program:
    """The program of that number: the same on every machine and backend. `kinds` draws the types
    of arguments."""
    return write(seed, number, kinds)[0]


def write(
    seed: int, number: int, kinds: Callable[[Random], str] = arguments.kind
) -> tuple[Program, list[tuple[str, str]]]:
    """The program, and the lines that the reference refused on the way."""
    rng = Random(f"{seed}/{number}")
    w = Writer(rng, kinds)
    for _ in range(rng.randrange(2, 5)):
        w.argument()
    names = sorted(GENERATED)
    wanted, tries = rng.choice((2, 3, 5, 8)), 0
    while len(w.lines) < wanted and tries < 60:
        tries += 1
        form = rng.random()
        try:
            if form < 0.15:
                operators(w, "")
            elif form < 0.6:
                f = rng.choice(FAMILIES)[1]
                f(w, rng.choice([n for n in names if GENERATED[n] is f]))
            else:
                name = rng.choice(names)
                GENERATED[name](w, name)
        except NoLine:
            continue
        except Broken:
            last = w.lines[-1].name
            return Program(tuple(w.inputs), tuple(w.lines), (last,)).needed(), w.refused
    every = [line.name for line in w.lines]
    used = {n for line in w.lines for n in line.text.replace("(", " ").split() if n in every}
    last = [n for n in every if n not in used or rng.random() < 0.3]
    program = Program(tuple(w.inputs), tuple(w.lines), tuple(last or every[-1:])).needed()
    return Program(program.inputs, program.lines, program.results, manner(rng, program)), w.refused


def manner(rng: Random, program: Program) -> Manner:
    ways = ("jit", "jit", "jit", "stored") if any(n[0] == "n" for n, _ in program.inputs) else (
        "run", "run", "jit", "jit", "stored"
    )  # fmt: skip
    way = rng.choice(ways)
    calls, threads = 1, 1
    if way == "jit":
        calls, threads = rng.choice(((1, 1), (1, 1), (4, 1), (3, 4)))
    return Manner(way, calls, threads, rng.random() < 0.2, rng.random() < 0.1, rng.random() < 0.9)
