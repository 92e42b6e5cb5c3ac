"""treadle: a purely functional array language for Python, compiled for CPUs and GPUs.

    import treadle as td

Programs build typed expressions, which are computed when `td.run` or a function compiled by
`td.jit` is called.  The same program has the same meaning on every backend.
"""

from __future__ import annotations

import os as _os
import sys as _sys
from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING

if not _os.path.isdir(_os.path.join(_os.path.dirname(__file__), "dsl")):
    # In a checkout on a file system without symbolic links, the folders are siblings of this one.
    __path__.append(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))

from treadle.backend.cuda.several.sharded import Sharded
from treadle.backend.registry import backends
from treadle.driver.evaluator import Driver as _Driver
from treadle.driver.jit import jit, run
from treadle.driver.program import Program, load
from treadle.driver.several import shard
from treadle.driver.streaming import stream
from treadle.dsl import VERSION as _VERSION
from treadle.dsl.array import Array
from treadle.dsl.autodiff import *
from treadle.dsl.errors import (
    AxisError,
    BackendUnavailable,
    CompilationError,
    DeviceOutOfMemory,
    DistributionError,
    DTypeError,
    ExponentError,
    GradientError,
    IndexOutOfBounds,
    LinAlgError,
    MemoryLimitExceeded,
    NestedParallelismError,
    NotAssociative,
    ScheduleError,
    ShapeError,
    StorageError,
    TracingError,
    TreadleError,
)
from treadle.dsl.errors import no_attribute as _no_attribute
from treadle.dsl.evaluator import install as _install
from treadle.dsl.frontend.sources import use
from treadle.dsl.frontend.standard import *
from treadle.dsl.frontend.suggestions import missing as _missing
from treadle.dsl.operations import fourier as fft
from treadle.dsl.operations import random
from treadle.dsl.operations.algebra import linear_algebra as linalg
from treadle.dsl.operations.algebra.contraction import *
from treadle.dsl.operations.algebra.matrices import *
from treadle.dsl.operations.algebra.polynomials import *
from treadle.dsl.operations.algebra.products import *
from treadle.dsl.operations.control import *
from treadle.dsl.operations.elements.bits import *
from treadle.dsl.operations.elements.choosing import ignore
from treadle.dsl.operations.elements.foreign import *
from treadle.dsl.operations.elements.functions import *
from treadle.dsl.operations.elements.mapping import *
from treadle.dsl.operations.elements.numeric import *
from treadle.dsl.operations.elements.windows import *
from treadle.dsl.operations.indexing.editing import *
from treadle.dsl.operations.indexing.index_arrays import *
from treadle.dsl.operations.indexing.index_space import *
from treadle.dsl.operations.indexing.joining import *
from treadle.dsl.operations.indexing.making import *
from treadle.dsl.operations.indexing.permuting import *
from treadle.dsl.operations.indexing.rearranging import *
from treadle.dsl.operations.indexing.updating import *
from treadle.dsl.operations.queries import *
from treadle.dsl.operations.reducing.differences import *
from treadle.dsl.operations.reducing.folds import *
from treadle.dsl.operations.reducing.histograms import *
from treadle.dsl.operations.reducing.irregular import *
from treadle.dsl.operations.reducing.quantiles import *
from treadle.dsl.operations.reducing.recurrences import *
from treadle.dsl.operations.reducing.reductions import *
from treadle.dsl.operations.reducing.scans import *
from treadle.dsl.operations.reducing.searching import *
from treadle.dsl.operations.reducing.segments import *
from treadle.dsl.operations.reducing.sets import *
from treadle.dsl.operations.reducing.statistics import *
from treadle.dsl.operations.stencils import *
from treadle.dsl.operations.stencils import constant_boundary as constant
from treadle.dsl.operations.stencils import function_boundary as function
from treadle.dsl.process.configuration import config, precision
from treadle.dsl.scalar import Scalar
from treadle.dsl.types import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from treadle.dsl.types import bool_ as bool
from treadle.skeletons import schedules as schedule
from treadle.skeletons import simulator
from treadle.skeletons.products import BilinearAlgorithm, error_bound
from treadle.skeletons.simulator import Cache, simulate

__version__ = _VERSION

# Written out, as type checkers need it; tests/docs/test_typed.py compares it with the modules'.
__all__ = [
    "Array", "AxisError", "BackendUnavailable", "BilinearAlgorithm", "Cache", "CompilationError",
    "DTypeError", "DeviceOutOfMemory", "DistributionError", "ExponentError", "GradientError",
    "IndexOutOfBounds", "LinAlgError", "MemoryLimitExceeded", "NestedParallelismError",
    "NotAssociative", "Program", "Scalar", "ScheduleError", "ShapeError", "Sharded", "StorageError",
    "TracingError", "TreadleError", "abs", "absolute", "acos", "acosh", "add", "all", "allclose",
    "amax", "amin", "angle", "any", "append", "apply_over_axes", "arange", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition",
    "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_split",
    "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d",
    "atleast_3d", "average", "backends", "backpermute", "bartlett", "bfloat16", "bincount",
    "bitcast", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bool",
    "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "cast", "cbrt",
    "ceil", "check_grad", "choose", "clamp", "clip", "clz", "column_stack", "compact", "complex128",
    "complex64", "complex_", "compress", "compute", "concat", "concatenate", "cond", "config",
    "conj", "conjugate", "constant", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos",
    "cosh", "count_nonzero", "cov", "cross", "ctz", "cummax", "cummin", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete", "diag", "diag_indices",
    "diag_indices_from", "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot",
    "dsplit", "dstack", "e", "ediff1d", "einsum", "empty", "empty_like", "equal", "erf", "erfc",
    "error_bound", "exp", "exp2", "expand", "expand_dims", "expm1", "extract", "eye", "fabs", "fft",
    "fill", "fill_diagonal", "filter", "finfo", "fixed_point", "flatnonzero", "flatten", "flip",
    "fliplr", "flipud", "float16", "float32", "float64", "float_power", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "fold", "fold1", "fold1_seg", "fold_seg", "foreign", "foreign_array",
    "frexp", "from_dlpack", "fromfunction", "full", "full_like", "function", "gather", "gcd",
    "generate", "geomspace", "grad", "gradient", "greater", "greater_equal", "hamming", "hanning",
    "heaviside", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit",
    "hstack", "hypot", "i0", "identity", "ignore", "iinfo", "imag", "imap", "indexed", "indices",
    "inf", "inner", "insert", "int16", "int32", "int64", "int8", "interp", "intersect1d", "invert",
    "iota", "isclose", "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isin", "isinf", "isnan",
    "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "issubdtype", "iterate", "ix_",
    "jit", "jvp", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal", "lexsort",
    "linalg", "linspace", "load", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logspace", "loop", "map",
    "mask_indices", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median",
    "meshgrid", "min", "minimum", "mirror", "mod", "modf", "moveaxis", "multiply", "nan",
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean",
    "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
    "ndim", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones", "ones_like",
    "outer", "overwrite", "packbits", "pad", "partition", "percentile", "permute", "permute_dims",
    "pi", "piecewise", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint",
    "polymul", "polysub", "polyval", "popcount", "positive", "pow", "power", "precision", "prod",
    "promote_types", "ptp", "put", "put_along_axis", "quantile", "quot", "rad2deg", "radians",
    "random", "ravel", "ravel_multi_index", "real", "reciprocal", "rem", "remainder", "repeat",
    "replicate", "reshape", "resize", "result_type", "reverse", "right_shift", "rint", "roll",
    "rollaxis", "rot90", "rotate_left", "rotate_right", "round", "rule", "run", "scan", "scanl",
    "scanl1", "scanl1_seg", "scanl_seg", "scanl_total", "scanl_total_seg", "scanr", "scanr1",
    "scanr1_seg", "scanr_seg", "scanr_total", "scanr_total_seg", "scatter", "schedule",
    "searchsorted", "select", "setdiff1d", "setxor1d", "shape", "shard", "sign", "signbit",
    "simulate", "simulator", "sin", "sinc", "sinh", "size", "sort", "sort_complex", "spacing",
    "split", "sqrt", "square", "squeeze", "stack", "std", "stencil", "stop", "strassen", "stream",
    "subtract", "sum", "swapaxes", "symmetric", "take", "take_along_axis", "tan", "tanh",
    "tensordot", "the", "tile", "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices",
    "tril_indices_from", "trim_zeros", "triu", "triu_indices", "triu_indices_from", "true_divide",
    "trunc", "uint16", "uint32", "uint64", "uint8", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unit", "unpackbits", "unravel_index",
    "unstack", "unwrap", "unzip", "update", "use", "value_and_grad", "vander", "var", "vdot",
    "vecdot", "vecmat", "vjp", "vsplit", "vstack", "where", "while_loop", "wrap", "zeros",
    "zeros_like", "zip",
]  # fmt: skip

_install(_Driver(_sys.modules[__name__]))


def __dir__() -> list[str]:
    folders = {"annotations", "backend", "driver", "dsl", "explore", "skeletons", "tuning"}
    public = (n for n in globals() if n not in folders and (not n.startswith("_") or n[1] == "_"))
    return sorted(public)


if not _TYPE_CHECKING:  # a misspelled name is an error there
    _PACKAGES = {"schedule": schedule, "simulator": simulator, "linalg": linalg, "random": random,
                 "fft": fft}  # fmt: skip

    def _answering(package: str) -> _Callable[[str], object]:
        """The `__getattr__` of a package: what is written instead of the name."""

        def answer(name: str) -> object:
            if name in __all__ and not name.startswith("__") and name != package:
                raise _no_attribute(f"treadle.{package} has no {name!r}: td.{name}.", name)
            raise _no_attribute(_missing(name, _PACKAGES[package].__all__, package), name)

        return answer

    for _name in ("linalg", "random", "fft"):
        vars(_PACKAGES[_name])["__getattr__"] = _answering(_name)

    def __getattr__(name: str) -> object:
        for module, package in _PACKAGES.items():
            if name in package.__all__:
                raise _no_attribute(f"treadle has no {name!r}: td.{module}.{name}.", name)
        known = [n for n in globals() if not n.startswith("_")]
        raise _no_attribute(_missing(name, known), name)
