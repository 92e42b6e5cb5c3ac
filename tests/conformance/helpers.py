"""What every file of the conformance suite uses: sample values, oracles, comparison."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from treadle.driver.program import Program

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
REALS = INTEGERS + FLOATS
NUMBERS = REALS + COMPLEXES
DTYPES = BOOL + NUMBERS
KNOWN_BACKENDS = ("reference", "native", "cuda")
EMULATED = "cuda-emulated"

# One element, a vector and its ragged neighbours, primes, and a few beyond one block.
SMALL_EXTENTS = (0, 1, 2, 31, 32, 33, 97, 257)
LARGE_EXTENTS = (5000, 70001)
EXTENTS = SMALL_EXTENTS + LARGE_EXTENTS


def dt(name) -> np.dtype:
    """The NumPy dtype of a treadle type's name."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def td_dtype(name):
    """The treadle dtype of that name (`bool` is `td.bool_`)."""
    return getattr(td, "bool_" if name == "bool" else name)


def generator(*seed) -> np.random.Generator:
    """A generator that depends on the seed's text alone (never on Python's hash)."""
    return np.random.default_rng(list(repr(seed).encode()))


def small(dtype, shape=97, seed=0, low=-4, high=5) -> np.ndarray:
    """Random small whole numbers of any type: sums and products of a few stay exact."""
    dtype = dt(dtype)
    rng = generator("small", dtype.name, shape, seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "u":
        low = max(low, 0)
    values = rng.integers(low, high, shape)
    if dtype.kind == "c":
        return (values + 1j * rng.integers(low, high, shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


def wide(dtype, shape=97, seed=0) -> np.ndarray:
    """Random values of the whole range of an integer type (extremes included); floats in ±100."""
    dtype = dt(dtype)
    rng = generator("wide", dtype.name, shape, seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        flat = values.reshape(-1)
        for place, value in enumerate((info.min, info.max, 0, 1)):
            if place < flat.size:
                flat[-1 - place] = value
        return values
    if dtype.kind == "c":
        parts = rng.uniform(-10, 10, shape) + 1j * rng.uniform(-10, 10, shape)
        return np.asarray(parts).astype(dtype)
    return np.asarray(rng.uniform(-100, 100, shape)).astype(dtype)


# ---------------------------------------------------------------------------------------------
# Which backends


def _available(entry) -> bool:
    """Whether what `td.backends()` says about a backend means that it works here."""
    for name in ("available", "works", "ok"):
        value = getattr(entry, name, None)
        if value is None and isinstance(entry, Mapping):
            value = entry.get(name)
        if value is not None:
            return bool(value() if callable(value) else value)
    if isinstance(entry, str):
        first = re.match("[a-z]*", entry.lower())[0]
        return first in ("", "ok", "works", "available", "yes")
    return entry is None or bool(entry)


def backends_report() -> dict:
    """`td.backends()` as a dict from name to whether it works, whatever its container."""
    answer = td.backends()
    if isinstance(answer, Mapping):
        return {str(getattr(name, "name", name)): _available(e) for name, e in answer.items()}
    report = {}
    for entry in answer:
        if isinstance(entry, str):
            report[entry] = True
        elif isinstance(entry, tuple):
            report[entry[0]] = _available(entry[1])
        else:
            report[entry.name] = _available(entry)
    return report


def _wanted() -> list[str]:
    wanted = os.environ.get("TREADLE_TEST_BACKENDS", "").split(",")
    return [name.strip() for name in wanted if name.strip()]


@cache
def working_backends() -> tuple[str, ...]:
    """The backends under test; those that `TREADLE_TEST_BACKENDS` names must work."""
    report = backends_report()
    wanted = _wanted()
    if wanted:
        missing = [name for name in wanted if name != EMULATED and not report.get(name)]
        if missing:
            raise RuntimeError(f"TREADLE_TEST_BACKENDS names {missing}, which do not work here")
        return tuple(name for name in wanted if name != EMULATED)
    working = tuple(name for name in KNOWN_BACKENDS if report.get(name))
    if not working:
        raise RuntimeError(f"no backend works here: {td.backends()}")
    return working


def emulation() -> str:
    """How much runs on a GPU made of NumPy: "all" where `TREADLE_TEST_BACKENDS` names
    "cuda-emulated", "some" where nothing is named and there is no GPU, else ""."""
    wanted = _wanted()
    if wanted:
        return "all" if EMULATED in wanted else ""
    return "" if "cuda" in working_backends() else "some"


def devices() -> int | None:
    """On how many GPUs programs of the backend "cuda" run: `TREADLE_TEST_DEVICES`, None for one
    that is not asked for by number."""
    wanted = os.environ.get("TREADLE_TEST_DEVICES", "")
    return int(wanted) if wanted else None


def not_in_parts(reason: str, emulated: bool = False):
    """Marks a test that is not about several GPUs, or, `emulated`, not about emulated ones."""
    several = devices() is not None and (not emulated or bool(emulation()))
    return pytest.mark.skipif(several, reason=f"on several GPUs: {reason}")


#: The queues of emulated GPUs do not run before somebody waits for them, nor for two threads.
AT_ONCE = "a function of the user's runs before what it is given is computed"
THREADS = "the emulated queues are for one thread"


def first_line(error: Exception) -> str:
    """What an error says, without where and what to do."""
    return str(error).partition("\n")[0]


@contextmanager
def cuda(emulated: bool):
    """A context in which the backend "cuda" runs on the GPU of tests/backend/cuda/emulated.py if
    `emulated`, and on several if `TREADLE_TEST_DEVICES` is set (but for checked programs); yields
    what emulates, or None."""
    from tests.backend.cuda import emulated as one, pretended as several

    count = devices()
    with ExitStack() as stack:
        made = None
        if emulated:
            made = stack.enter_context(several.pretended(count) if count else one.emulation())
        if count:
            stack.enter_context(_on_several(count))
        yield made


@contextmanager
def _on_several(count: int):
    """Programs of the backend "cuda" are made for `count` GPUs."""
    before = Program.__init__
    signature = inspect.signature(before)

    def made(*args, **options):
        given = signature.bind(*args, **options).arguments
        if given["backend"] == "cuda" and not given["settings"].check:
            given["devices"] = given.get("devices") or tuple(range(count))
        before(**given)

    # Errors name the innermost line that is not of treadle's files.
    made.__code__ = made.__code__.replace(co_filename=before.__code__.co_filename)
    Program.__init__ = made
    try:
        yield
    finally:
        Program.__init__ = before


# ---------------------------------------------------------------------------------------------
# Comparison


def ulp_distance(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How many representable numbers lie between two real float arrays of one type."""
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
    sign = bits(1) << bits(8 * got.dtype.itemsize - 1)

    def ordered(values):
        pattern = np.asarray(values, order="C").view(bits)  # of rank 0, too
        return np.where(pattern & sign, ~pattern, pattern | sign)

    a, b = ordered(got), ordered(want)
    return np.maximum(a, b) - np.minimum(a, b)


def differences(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    """A mask of the elements that differ by more than `ulps` (NaN equals NaN, 0 equals -0)."""
    with np.errstate(all="ignore"):
        if got.dtype.kind == "c":
            exact = (got == want) | (np.isnan(got) & np.isnan(want))
            if not ulps:
                return ~exact
            epsilon = np.finfo(got.dtype).eps
            return ~(exact | (np.abs(got - want) <= ulps * epsilon * np.abs(want)))
        if got.dtype.kind == "f" or got.dtype == BFLOAT16:
            exact = (got == want) | (np.isnan(got) & np.isnan(want))
            if not ulps:
                return ~exact
            close = np.isfinite(got) & np.isfinite(want) & (ulp_distance(got, want) <= ulps)
            return ~(exact | close)
        return got != want


def to_host(value):
    """A NumPy array of a result (a device's result is copied)."""
    if isinstance(value, td.Sharded):
        return np.asarray(value)
    if not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__"):
        return value.get()
    return value


def assert_same(got, want, *, ulps: float = 0, label: str = "result"):
    """The same structure, classes, types, shapes and values (floats within `ulps`)."""
    if dataclasses.is_dataclass(want) and not isinstance(want, type):
        assert type(got) is type(want), f"{label}: {type(got)}, not {type(want)}"
        for field in dataclasses.fields(want):
            mine, theirs = getattr(got, field.name), getattr(want, field.name)
            assert_same(mine, theirs, ulps=ulps, label=f"{label}.{field.name}")
        return
    if isinstance(want, dict):
        assert type(got) is dict, f"{label}: {type(got)}, not a dict"
        assert list(got) == list(want), f"{label}: keys {list(got)}, not {list(want)}"
        for key in want:
            assert_same(got[key], want[key], ulps=ulps, label=f"{label}[{key!r}]")
        return
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want), f"{label}: {type(got)}, not {type(want)}"
        assert len(got) == len(want), f"{label}: {len(got)} parts, not {len(want)}"
        for place, (mine, theirs) in enumerate(zip(got, want, strict=True)):
            assert_same(mine, theirs, ulps=ulps, label=f"{label}[{place}]")
        return
    got, want = to_host(got), np.asarray(want)
    assert isinstance(got, np.ndarray), f"{label}: {type(got)}, not an array"
    assert got.dtype == want.dtype, f"{label}: dtype {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{label}: shape {got.shape}, not {want.shape}"
    wrong = differences(got, want, ulps)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        raise AssertionError(
            f"{label}: {int(wrong.sum())} of {wrong.size} elements differ, the first at {index}: "
            f"got {got[index]!r}, not {want[index]!r} ({want.dtype}, shape {want.shape})"
        )


def same_bits(got, want, label="result"):
    """The same type, shape and bit pattern (NaN payloads and signs of zero included)."""
    assert got.dtype == want.dtype, f"{label}: dtype {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{label}: shape {got.shape}, not {want.shape}"
    mine = np.ascontiguousarray(got).tobytes()
    assert mine == np.ascontiguousarray(want).tobytes(), f"{label}: the bits differ"


def check_cases(cases, *, backend, ulps: float = 0, **options):
    """Run all cases as one program; when that fails, each alone, and say which ones fail.

    `cases` maps a label to `(thunk, want)` or `(thunk, want, ulps)`; a thunk builds an expression.
    """
    failures, refused, built = [], [], {}
    for label, (thunk, *_) in cases.items():
        try:
            built[label] = thunk()
        except Exception as error:
            failures.append(f"{label}: building raised {type(error).__name__}: {error}")
    try:
        results = td.run(built, backend=backend, **options)
    except Exception as error:
        results, before = {}, len(failures)
        for label, expression in built.items():
            try:
                results[label] = td.run(expression, backend=backend, **options)
            except td.DistributionError as single:
                refused.append(f"{label}: {first_line(single)}")
            except Exception as single:
                failures.append(f"{label}: running raised {type(single).__name__}: {single}")
        if len(failures) == before and not refused:
            failures.append(f"together, but not alone: {type(error).__name__}: {error}")
    for label, got in results.items():
        _, want, *tolerance = cases[label]
        try:
            assert_same(got, want, ulps=tolerance[0] if tolerance else ulps, label=label)
        except AssertionError as error:
            failures.append(str(error))
    if failures:
        raise AssertionError(f"{len(failures)} of {len(cases)}:\n" + "\n".join(failures))
    if refused:
        raise td.DistributionError("; ".join(refused))


# ---------------------------------------------------------------------------------------------
# Oracles


def precise(function, *arrays, dtype=None) -> np.ndarray:
    """`function` of NumPy, evaluated in a wider type and rounded once to NumPy's result type."""
    with np.errstate(all="ignore"):
        if dtype is None:
            dtype = function(*(np.zeros(0, a.dtype) for a in arrays)).dtype
        dtype = np.dtype(dtype)
        wider = {"f2": "f8", "f4": "f8", "f8": "g", "c8": "c16", "c16": "G"}
        wide_type = np.dtype("f8" if dtype == BFLOAT16 else wider[f"{dtype.kind}{dtype.itemsize}"])
        # The arguments are first rounded to the result's type, as NumPy does.
        wider_arrays = (np.asarray(a, dtype).astype(wide_type) for a in arrays)
        return np.asarray(function(*wider_arrays)).astype(dtype)


def along_last(function, a: np.ndarray, axis) -> np.ndarray:
    """Applies a function of (…, n) to the given axis."""
    return np.moveaxis(function(np.moveaxis(a, axis, -1)), -1, axis)


def affine(left, right):
    """x ↦ a·x + b, composed left to right: associative, not commutative, wraps."""
    (a, b), (c, d) = left, right
    return a * c, b * c + d


def matrix_product(left, right):
    """2×2 matrix product on tuples of four: associative, not commutative."""
    (a, b, c, d), (e, f, g, h) = left, right
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


def scan_steps(f, init, parts):
    """All prefixes of a left scan: `parts` is a tuple of (…, n) arrays, `init` a tuple or None.

    Gives a tuple of (…, n + 1) arrays, or of (…, n) without `init`; vectorised over other axes.
    """
    n = parts[0].shape[-1]
    batch = parts[0].shape[:-1]
    kinds = [p.dtype for p in parts]
    steps = []
    with np.errstate(all="ignore"):
        if init is None:
            state = None
        else:
            pairs = zip(init, kinds, strict=True)
            state = tuple(np.full(batch, value).astype(kind) for value, kind in pairs)
            steps.append(state)
        for k in range(n):
            item = tuple(p[..., k] for p in parts)
            state = item if state is None else f(state, item)
            pairs = zip(state, kinds, strict=True)
            state = tuple(np.asarray(value).astype(kind) for value, kind in pairs)
            steps.append(state)
    length = len(steps)
    out = []
    for place, kind in enumerate(kinds):
        if length:
            out.append(np.stack([step[place] for step in steps], axis=-1))
        else:
            out.append(np.zeros((*batch, 0), kind))
    return tuple(out)


def scan_left(f, init, a: np.ndarray) -> np.ndarray:
    """`scan_steps` for plain elements."""

    def lifted(left, right):
        return (f(left[0], right[0]),)

    return scan_steps(lifted, None if init is None else (init,), (a,))[0]


def scan_right(f, init, a: np.ndarray) -> np.ndarray:
    """`out[k]` combines `a[k:]` (and `init` on the right)."""
    return scan_left(lambda x, y: f(y, x), init, a[..., ::-1])[..., ::-1]


def segments(lengths):
    """Slices of the segments of the given lengths."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    return [slice(int(end - n), int(end)) for n, end in zip(lengths, ends, strict=True)]


def boundary_index(kind: str, index: int, n: int) -> int:
    """Where a coordinate outside 0 … n-1 reads, by the boundary's name."""
    if kind == "clamp":
        return min(max(index, 0), n - 1)
    if kind == "wrap":
        return index % n
    if kind == "symmetric":
        index %= 2 * n
        return index if index < n else 2 * n - 1 - index
    if kind == "mirror":
        if n == 1:
            return 0
        index %= 2 * (n - 1)
        return index if index < n else 2 * (n - 1) - index
    raise ValueError(kind)


def neighbour(a: np.ndarray, offsets, boundary) -> np.ndarray:
    """The array of `a`'s neighbours at `offsets`; `boundary` is a name, `("constant", v)` or
    `("function", g)`."""
    if 0 in a.shape:
        return a.copy()
    if isinstance(boundary, str):
        grids = [
            [boundary_index(boundary, i + o, n) for i in range(n)]
            for n, o in zip(a.shape, offsets, strict=True)
        ]
        return a[np.ix_(*grids)]
    kind, value = boundary
    out = np.empty_like(a)
    for index in np.ndindex(a.shape):
        source = tuple(i + o for i, o in zip(index, offsets, strict=True))
        inside = all(0 <= i < n for i, n in zip(source, a.shape, strict=True))
        if inside:
            out[index] = a[source]
        else:
            replacement = value if kind == "constant" else value(*source)
            out[index] = np.asarray(replacement).astype(a.dtype)
    return out
