"""What docstrings of operations need not repeat: it is said here once, and added when they are
defined."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..text import by_name

#: Parameters of these names; where it depends on the default value, for each default.
SHARED: dict[str, str | dict[Any, str]] = {
    "M": "the number of points.",
    "a": "an array of any shape.",
    "a1": "an array.",
    "a2": "an array.",
    "ar1": "an array, taken as 1-D.",
    "ar2": "an array, taken as 1-D.",
    "arr": "an array of any shape.",
    "arrays": "a sequence of arrays.",
    "assume_unique": "has no effect; for NumPy's sake; default False.",
    "axes": {
        (-2, -1): "the axes; default (-2, -1).",
        None: "the axes; default: all, or with `s` the last ones.",
    },
    "axis": {
        -1: "the axis, from −rank to rank − 1; default -1.",
        0: "the axis, from −rank to rank − 1; default 0.",
        None: "the axis, or a tuple of axes, from −rank to rank − 1; default None: all.",
    },
    "ddof": "the divisor is the number of elements minus `ddof`; default 0.",
    "density": "whether to scale so that the integral is 1; optional.",
    "deterministic": "whether sums of floats have the same bits in every run; default False,\n"
    "        unless `td.jit` or `td.config` says True.",
    "device": "where programs compute, as `a.device` says; others are refused; default None.",
    "dtype": {
        None: 'the element type: td.float32, np.float32, float, "float32", …; optional.',
        float: 'the element type: td.float32, np.float32, float, "float32", …; default float.',
    },
    "endpoint": "whether `stop` is the last value; default True.",
    "equal_nan": "whether NaN equals NaN; default False.",
    "f": "a function of scalars.",
    "hermitian": "no effect; default False.",
    "indices": "an array of integers.",
    "init": "the initial value: a number, or a tuple or class of numbers.",
    "initial": "a value that the reduction starts with; optional.",
    "k": "the diagonal: 0 the main one, positive above it, negative below; default 0.",
    "keepdims": "whether the reduced axes stay, with extent 1; default False.",
    "key": "an array (2,) of uint32, or two scalars.",
    "lengths": "a 1-D array of integers: the lengths of the segments, whose sum is the extent of\n"
    "        the last axis.",
    "method": {"linear": '"linear" (default) or another of NumPy\'s rules between two elements.'},
    "mode": {"raise": 'for indices outside: "raise" (default), "wrap" or "clip".'},
    "name": "a name for explanations and errors; default None: that of the operation.",
    "norm": '"backward" (default), "ortho" or "forward": where the factor 1/n is, as for `fft`.',
    "num": "the number of values; default 50.",
    "offset": "the diagonal: 0 (default) the main one, positive above it, negative below.",
    "parts": "the number of equal parts, or the indices at which parts begin.",
    "range": "the lowest and the highest edge; default: the least and the greatest element.",
    "rcond": "singular values below `rcond` times the largest count as 0; optional.",
    "s": "the number of points along each axis, by cropping or padding with zeros; default: the\n"
    "        extents.",
    "schedule": "how it is computed, one of `td.schedule`; default None: treadle chooses.",
    "shape": {
        ...: "an extent, or an extent for each axis; Python integers or integer scalars.",
        (): "the extents; () inside a kernel.",
    },
    "weights": "a weight for each element; default: all 1.",
    "where": "a mask that broadcasts with the array: other elements do not count; optional.",
    "x": "a number, or an array of any shape.",
    "y": "a number, or an array that broadcasts with `x`.",
}  # fmt: skip
#: Parameters of these functions that others of the same name are not.
PARAMETERS_OF = {(name, parameter): text for (parameter, names), text in {
    ("a", "all any"): "an array of any shape; numbers ≠ 0 are true.",
    ("a", "correlate fold hfft ifft ihfft irfft rfft scanl sort tril triu"):
        "an array of rank ≥ 1.",
    ("a", "det inv lu matrix_power slogdet solve"): "square matrices (…, n, n).",
    ("a", "dot kron update"): "an array.",
    ("a", "eigh eigvalsh"): "Hermitian matrices (…, n, n).",
    ("a", "fft fftn"): "an array of real or complex numbers.",
    ("a", "fft2 ifft2 ifftn irfft2 irfftn rfft2 rfftn"): "an array with these axes.",
    ("a", "qr svd matrix_rank pinv matrix_transpose"): "matrices (…, m, n).",
    ("a", "shape ndim gradient"): "an array of any shape.",
    ("a", "trace diagonal"): "an array of rank ≥ 2.",
    ("atol", "isclose allclose"): "the absolute tolerance; default 1e-8.",
    ("axes", "fftshift ifftshift"): "an axis, or a tuple of axes; default: all.",
    ("axis", "append compress cummax cummin cumprod cumsum delete insert nancumprod nancumsum "
     "packbits repeat roll unpackbits"):
        "the axis, from −rank to rank − 1; default None: of the flattened array.",
    ("axis", "cumulative_sum cumulative_prod"):
        "the axis, from −rank to rank − 1; needed unless the rank is 1.",
    ("axis", "median nanmedian nanpercentile nanquantile percentile quantile"):
        "an axis, or a tuple of axes, from −rank to rank − 1; default None: of all elements.",
    ("axis", "put_along_axis rollaxis"): "the axis, from −rank to rank − 1.",
    ("axis", "size gradient"): "the axes; default all.",
    ("axis", "sort argsort"): "the axis, from −rank to rank − 1; default -1; None: flattened.",
    ("axis1", "trace diagonal"): "the first axis of the matrices; default 0.",
    ("axis2", "trace diagonal"): "the second one; default 1.",
    ("b", "cross dot isclose allclose"): "an array that broadcasts with `a`.",
    ("bitorder", "packbits unpackbits"):
        '"big" (default): the first bit is the highest; "little": the lowest.',
    ("boundary", "correlate convolve"):
        "the values outside `a`, as those of `stencil`; the default is `td.clamp`, and\n"
        '        zeros for the mode "full".',
    ("copy", "asarray from_dlpack"):
        "True: data is copied now; None (default): only where it must be; False: never.",
    ("correction", "var std"):
        "the same as `ddof`, by the name of the Array API standard; optional.",
    ("defaults", "permute scatter"): "an array: the elements that nothing is written to.",
    ("descending", "sort argsort"):
        "whether the largest come first, NaN before them; default False.",
    ("dtype", "beta exponential gamma normal uniform"): "float32 or float64.",
    ("dtype", "cast astype"): 'the element type: td.float32, np.float32, float, "float32", ….',
    ("dtype", "empty ones zeros"):
        'the element type: td.float32, np.float32, float, "float32", …; default float.',
    ("dtype", "isdtype finfo iinfo"):
        'the element type: td.float32, np.float32, float, "float32", …, or an array of it.',
    ("dtype", "sum prod"): "the type of the result; default: that of `a`, small ones in 64 bits.",
    ("dtype", "var std"): "the type of the sums; default: that of `a`, float64 for integers.",
    ("element", "isscalar isin"): "a number or an array.",
    ("execution", "matmul strassen"):
        "how block products are scheduled; default: the model chooses.",
    ("f", "fold fold1 fold1_seg fold_seg"): "an associative function (x, y) of two elements.",
    ("fill_value", "full full_like"): "a number, or a tuple of numbers: then elements are tuples.",
    ("include_initial", "cumulative_sum cumulative_prod"):
        "whether the result begins with the neutral element; default False.",
    ("init", "iterate loop while_loop"):
        "the state: numbers or arrays, or tuples, classes, lists and dicts of them.",
    ("key", "choice permutation shuffle"): "an array (2,) of uint32.",
    ("kth", "partition argpartition"):
        "the position, in sorted order, of the element that separates the two sides, or several\n"
        "        positions; negative ones count from the end.",
    ("levels", "matmul strassen"): "how often the fast product is applied recursively; default 1.",
    ("m", "cov corrcoef"): "an array (variables, observations).",
    ("m", "eye tri tril_indices triu_indices"): "a number of columns; default: as many as rows.",
    ("m", "polyder polyint"): "how many times; default 1.",
    ("mask", "place compact"): "an array of booleans.",
    ("n", "eye tri tril_indices triu_indices"): "the number of rows.",
    ("n", "ifft ihfft rfft"):
        "the number of points, by cropping or padding with zeros; default: the extent.",
    ("n", "iota mask_indices rfftfreq"): "a number of elements, ≥ 0.",
    ("n", "irfft hfft"):
        "the number of points of the result; default: 2 (m − 1) of an axis of m values.",
    ("n", "rotate_left rotate_right"): "the number of places, an integer.",
    ("obj", "delete insert"): "an integer, slice or array of integers: the positions.",
    ("order", "unravel_index ravel_multi_index"):
        '"C" (default): the last index varies fastest; "F": the first.',
    ("p", "polyder polyint polyval"):
        "coefficients, highest power first; a number is one coefficient.",
    ("q", "percentile nanpercentile"): "the percentages: a number or an array, in 0 … 100.",
    ("q", "quantile nanquantile"): "the probabilities: a number or an array, in 0 … 1.",
    ("rowvar", "cov corrcoef"):
        "whether rows are variables and columns observations; default True.",
    ("rtol", "isclose allclose"): "the relative tolerance; default 1e-05.",
    ("rtol", "matrix_rank pinv"): "the relative tolerance; optional.",
    ("s", "fill unit"): "a number, or a tuple of numbers.",
    ("shape", "beta gamma integers poisson"): "the extents; () inside a kernel.",
    ("sparse", "meshgrid indices"):
        "whether the results have extent 1 along the other axes; default False.",
    ("start", "geomspace linspace logspace"): "the first value.",
    ("stop", "geomspace linspace logspace"): "the end of the range.",
    ("UPLO", "eigh eigvalsh"): 'which triangle is read: "L" (default) or "U".',
    ("weights", "correlate convolve"): "another name for `w`, as SciPy calls it.",
    ("x", "fabs iscomplexobj isrealobj"): "a number, or an array of any shape.",
    ("x", "svdvals diagonal matrix_transpose matrix_norm"): "matrices (…, m, n).",
    ("x1", "vecdot cross"): "an array of vectors along its last axis.",
    ("x2", "vecdot cross"): "an array of vectors along its last axis.",
    ("y", "cov corrcoef"): "further variables; default None.",
}.items() for name in names.split()}  # fmt: skip
#: Results of functions that have these parameters, or these alone.
RESULTS = {
    ("keepdims",): "an array without the axes that were reduced; of rank 0 if these are all.",
    ("key", "shape"): "an array of that shape; a scalar inside kernels, for the shape ().",
}
RESULTS_ALONE = {
    ("x",): "an array of the shape of `x`; a scalar if it is a number.",
    ("x", "y"): "an array of the shape to which the operands broadcast; a scalar without arrays.",
}
#: Results of these functions.
RESULTS_OF = by_name({
    "allclose array_equal array_equiv": "a boolean, an array of rank 0.",
    "arange expand flatten": "an array of rank 1.",
    "arctan2 choose complex_ heaviside isclose ldexp rotate_left rotate_right":
        RESULTS_ALONE["x", "y"],
    "astype interp polyval": "an array of the shape of `x`.",
    "atleast_1d atleast_2d atleast_3d gradient indices":
        "an array, or a tuple of arrays for several.",
    "bartlett blackman hamming hanning kaiser": "a float64 array (M,).",
    "broadcast_to empty fill full ones reshape resize zeros": "an array of that shape.",
    "can_cast iscomplexobj isdtype isrealobj isscalar issubdtype": "a Python bool.",
    "cast clip round": RESULTS_ALONE["x",],
    "compact filter": "the elements that fit, and their number.",
    "copy empty_like fliplr flipud full_like inv ones_like partition reverse roll sort sort_complex"
    " tril triu zeros_like cummax cummin cumprod cumsum nancumprod nancumsum scanl1 scanl1_seg"
    " scanr1 scanr1_seg": "an array of the shape of `a`.",
    "correlate convolve": "an array whose extents depend on `mode`.",
    "cov corrcoef": "a matrix; a number for one variable.",
    "cross": "an array of the shape to which the operands broadcast.",
    "cumulative_sum cumulative_prod":
        "an array of the shape of `x`, with one more along the axis if `include_initial`.",
    "det matrix_norm": "an array without the last two axes.",
    "dot inner tensordot": "an array with the other axes of `a`, then those of `b`.",
    "dsplit hsplit vsplit": "a tuple of arrays, one for each part.",
    "eigvalsh svdvals": "an array of real numbers.",
    "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn":
        "an array that differs from `a` only in the extents of these axes, and in its type.",
    "fftfreq iota": "an array (n,).",
    "fftshift ifftshift shuffle": "an array of the shape and type of `x`.",
    "fill_diagonal put update": "an array of the shape and type of `a`.",
    "fold_seg fold1_seg":
        "an array of the shape of `a` but for the last axis, which has one element per segment.",
    "foreign the": "a scalar.",
    "geomspace linspace logspace": "an array (num,).",
    "imap stencil": "an array of the shape of `a`, whose elements are what `f` returns.",
    "iterate loop while_loop": "the last state.",
    "key fold_in": "a key: an array (2,) of uint32, or two scalars inside a kernel.",
    "mask_indices tril_indices tril_indices_from triu_indices triu_indices_from":
        "a pair of int64 arrays: the rows and the columns.",
    "matrix_transpose": "an array (…, n, m).",
    "permute scatter": "an array of the shape of `defaults`.",
    "place put_along_axis": "an array of the shape and type of `arr`.",
    "polyadd polyder polyint polymul polysub": "an array of coefficients, highest power first.",
    "result_type promote_types": "an element type.",
    "rollaxis swapaxes": "an array with the same elements, and its axes in that order.",
    "scanl scanr": "an array of the shape of `a`, one longer along the axis.",
    "scanl_seg scanr_seg":
        "an array of the shape of `a`, longer along the last axis by one for each segment.",
    "setdiff1d setxor1d union1d unique_values":
        "a sorted array of rank 1, whose extent is known when the program runs.",
    "tri eye": "an array (n, m).",
    "vdot unit": "an array of rank 0.",
    "vecdot fold fold1": "an array without the axis.",
})  # fmt: skip
NO_AXIS = "Errors: `AxisError` if there is no such axis."
#: Operations that name each other; of several families, the first counts.
FAMILIES = tuple(map(str.split, (
    "allclose isclose array_equal array_equiv",
    "arange iota linspace logspace geomspace",
    "atleast_1d atleast_2d atleast_3d",
    "bartlett blackman hamming hanning kaiser",
    "broadcast_to broadcast_arrays broadcast_shapes",
    "choose where select piecewise",
    "concat stack vstack hstack dstack column_stack",
    "cov corrcoef average",
    "cumsum cumprod cummax cummin scanl1",
    "delete insert append",
    "diff ediff1d gradient trapezoid",
    "filter compact expand unique nonzero",
    "finfo iinfo isdtype issubdtype can_cast promote_types",
    "flip fliplr flipud reverse roll rot90",
    "foreign foreign_array",
    "gather take take_along_axis backpermute",
    "histogram histogram2d histogramdd bincount digitize histogram_bin_edges",
    "lgamma digamma",
    "loop iterate while_loop scan cond",
    "map imap zip generate indexed",
    "matmul dot vdot inner outer tensordot",
    "nansum nanprod nanmean nanstd nanvar nanmin nanmax",
    "nonzero flatnonzero argwhere",
    "packbits unpackbits",
    "permute scatter update put",
    "polyval polyfit polyadd polysub polymul polydiv",
    "popcount clz ctz bitwise_count",
    "put_along_axis place fill_diagonal extract compress put",
    "quantile percentile median nanquantile nanpercentile nanmedian",
    "repeat tile replicate resize",
    "reshape ravel flatten squeeze expand_dims",
    "sum prod mean std var min max",
    "argmin argmax min max",
    "fold fold1 fold_seg fold1_seg sum",
    "scanl scanl1 scanl_total scanr scanr1 scanr_total scanl_seg",
    "scanl_seg scanl1_seg scanl_total_seg scanr_seg scanr1_seg scanr_total_seg fold_seg",
    "sort argsort lexsort partition argpartition searchsorted",
    "split array_split hsplit vsplit dsplit unstack",
    "stencil convolve correlate",
    "transpose swapaxes moveaxis permute_dims rollaxis matrix_transpose",
    "tril triu tri diag diagonal trace",
    "tril_indices triu_indices diag_indices mask_indices",
    "tril_indices_from triu_indices_from diag_indices_from",
    "union1d intersect1d setdiff1d setxor1d isin",
    "unique unique_all unique_counts unique_inverse unique_values",
    "zeros ones full empty eye fill",
    "zeros_like ones_like full_like empty_like",
)))  # fmt: skip
_ALIKE = {name: [n for n in family if n != name] for family in FAMILIES[::-1] for name in family}
#: Operations that name the first five of the family of another one.
_ALIKE |= {name: [of, *_ALIKE[of]][:5] for name, of in by_name({
    "all any count_nonzero": "sum",
    "append block": "concat",
    "diagflat": "tril",
    "einsum matvec strassen vecdot vecmat": "matmul",
    "poly polyder polyint": "polyval",
    "result_type": "finfo",
}).items()}  # fmt: skip
#: Modules of td.linalg and td.random, where other names are.
ELSEWHERE = ("algebra.linear_algebra", "random.philox")


def complete(function: Callable[..., Any]) -> None:
    """Add to a docstring what it leaves out: parameters, the result, `AxisError`, related
    operations, the imports of the example."""
    text = function.__doc__
    if text is None:  # python -OO
        return
    if "\n    >>> " in text:  # the compiler has not removed the indentation: before Python 3.13
        text = text.replace("\n    ", "\n")
    parts = text.strip().split("\n\n")
    heads = [part.partition(" ")[0] for part in parts]
    example = heads.index(">>>") if ">>>" in heads else len(parts)
    if example < len(parts) and not parts[example].startswith(">>> import "):
        numpy = "numpy as np, " if any("np." in part for part in parts[example:]) else ""
        parts[example] = f">>> import {numpy}treadle as td\n{parts[example]}"
    parameters = _parameters(function)
    if "axis" in parameters and "AxisError" not in text:
        parts.insert(example, NO_AXIS)
    where = next((heads.index(h) for h in ("Result:", "Errors:") if h in heads), example)
    result = RESULTS_OF.get(function.__name__) or _result(parameters)
    if "Result:" not in heads and result:
        parts.insert(where, f"Result: {result}")
    section = next((k for k, part in enumerate(parts) if part.startswith("Parameters\n")), None)
    written = _entries(parts[section] if section is not None else "")
    own = {n: PARAMETERS_OF.get((function.__name__, n)) for n in parameters}
    shared = {n: own[n] or _shared(n, parameters[n]) for n in parameters if n not in written}
    if found := {n: f"    {n}: {text}" for n, text in shared.items() if text}:
        entries = dict.fromkeys(
            (written | found)[n] for n in parameters if n in written or n in found
        )
        made = "\n".join(["Parameters", *dict.fromkeys((*entries, *written.values()))])
        parts[slice(*((where, where) if section is None else (section, section + 1)))] = [made]
    elsewhere = function.__module__.partition(".operations.")[2] in ELSEWHERE
    alike = _ALIKE.get(function.__name__)
    if not elsewhere and alike and not parts[-1].startswith("See also"):
        parts.append(f"See also {', '.join(f'`{name}`' for name in alike)}.")
    function.__doc__ = "\n\n".join(parts)


def complete_methods(cls: type, functions: Mapping[str, Any]) -> None:
    """Add to the docstring of a method that begins with the function which it is, `td.sum`, the
    sections of that function, but for parameters that only the function has."""
    for owner in cls.__mro__[:-1]:
        for method in vars(owner).values():
            own = getattr(method, "__doc__", None) or ""
            named = re.match(r"`td\.(\w+)`", own)
            whole = getattr(functions.get(named[1]), "__doc__", None) if named else None
            if not whole or "Result:" in own:
                continue
            parameters = inspect.unwrap(method).__code__.co_varnames
            parts = [own.strip()]
            for part in whole.split("\n\n"):
                if part.startswith("Parameters\n"):
                    written = _entries(part)
                    lines = dict.fromkeys(written[n] for n in parameters if n in written)
                    parts += ["\n".join(("Parameters", *lines))] if lines else []
                elif part.startswith(("Result:", "Errors:")):
                    parts.append(part.replace("`a`", "the array").replace("`x`", "the array"))
                elif part.startswith(">>>"):
                    parts.append(part)
            method.__doc__ = "\n\n".join(parts)


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The names of a function's parameters, with their defaults."""
    code = function.__code__
    count, others = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    starred = code.co_varnames[others : others + bool(code.co_flags & inspect.CO_VARARGS)]
    positional = code.co_varnames[:count]
    names = (*positional, *starred, *code.co_varnames[count:others])
    values = function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    defaults |= function.__kwdefaults__ or {}
    return {name: defaults.get(name, ...) for name in names}


def _entries(section: str) -> dict[str, str]:
    """The text of each parameter in a section; several may share one."""
    written: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines()[1:]:
        if line[4:5] != " ":
            names = [name.strip(" *") for name in line.partition(":")[0].split(",")]
            written |= dict.fromkeys(names, line)
        else:
            written |= {name: f"{written[name]}\n{line}" for name in names}
    return written


def _result(parameters: dict[str, Any]) -> str | None:
    names = tuple(parameters)
    having = (text for some, text in RESULTS.items() if set(some) <= parameters.keys())
    return RESULTS_ALONE.get(names) or next(having, None)


def _shared(name: str, default: object) -> str | None:
    text = SHARED.get(name)
    return text.get(default) if isinstance(text, dict) else text
