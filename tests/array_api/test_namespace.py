"""The Array API standard 2024.12, without its suite: names, arguments, special cases."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

LINES = [
    line
    for line in Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
BACKENDS = ("reference", "native")
#: Defaults that are written differently and mean the same.
SAME = {"norm": ("backward", None), "correction": (0.0, None), "device": (None, None)}


@pytest.fixture(params=BACKENDS)
def xp(request: pytest.FixtureRequest) -> Any:
    """The namespace, of arrays that compute on a backend."""
    with td.config(backend=request.param):
        yield td.asarray([1]).__array_namespace__(api_version="2024.12")


def found(name: str) -> Any:
    """What a name of the list is in treadle."""
    value: Any = td
    for part in name.split("."):
        value = getattr(value, part.removesuffix("()"))
        value = value() if part.endswith("()") else value
    return value


def standard(line: str) -> tuple[str, inspect.Signature | None]:
    """Name and signature of a line of the list; None for what is no function."""
    name, bracket, arguments = line.rpartition("(") if line.endswith(")") else (line, "", "")
    if not bracket:
        return line, None
    scope: dict[str, Any] = {}
    exec(f"def f({arguments}: pass", {"inf": np.inf}, scope)
    return name, inspect.signature(scope["f"])


@pytest.mark.parametrize("line", LINES)
def test_names_and_arguments(line: str) -> None:
    name, theirs = standard(line)
    value = found(name)
    if theirs is None:
        return
    special = re.fullmatch(r"Array\.__(abs|neg|pos|[a-z]+)__", name) is not None
    try:
        ours = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        pytest.fail(f"{name} has no signature")
    ours = ours[1:] if name.startswith("Array.") else ours
    wanted = list(theirs.parameters.values())
    places = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p.kind for p in ours]
    for k, p in enumerate(wanted):
        if p.kind == p.VAR_POSITIONAL:
            assert p.VAR_POSITIONAL in rest
            continue
        own = next((q for q in ours if q.name == p.name), None)
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            assert k < len(places), f"{name}: {p.name} by position"
            own = places[k] if p.kind == p.POSITIONAL_ONLY else own
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            assert own is not None and own.kind != p.POSITIONAL_ONLY, f"{name}: {p.name}= by name"
        assert own is not None
        if p.default is not p.empty and (p.default, own.default) != SAME.get(p.name):
            assert own.default == p.default, f"{name}: {p.name}={p.default}"
    required = [p for p in ours if p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    assert special or len(required) <= len([p for p in wanted if p.default is p.empty])


# --- special cases -----------------------------------------------------------------------------

ENDS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 1e-300, 1e300, np.inf, -np.inf, np.nan]
ONE = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log "
    "log1p log2 log10 negative positive reciprocal round sign signbit sin sinh sqrt square tan "
    "tanh trunc"
)
TWO = (
    "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal "
    "logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract"
)


def same(ours: Any, theirs: np.ndarray[Any, Any]) -> bool:
    """Equal types; equal signs and values up to rounding, NaN being equal."""
    own = np.asarray(ours)
    if own.dtype != theirs.dtype or own.shape != theirs.shape:
        return False
    if theirs.dtype.kind == "c":
        return same(own.real, theirs.real) and same(own.imag, theirs.imag)
    if theirs.dtype.kind != "f":
        return bool((own == theirs).all())
    there = ~np.isnan(theirs)
    close = np.isclose(own, theirs, 1e-13 if theirs.dtype == np.float64 else 1e-5, 0, True)
    return bool((close & ((np.signbit(own) == np.signbit(theirs)) | ~there)).all())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_special_cases_are_numpys(xp: Any, dtype: str) -> None:
    one, two = ONE.split(), TWO.split()
    with np.errstate(all="ignore"):
        x = np.array(ENDS, dtype)
        pairs = [np.ascontiguousarray(a) for a in np.broadcast_arrays(x[:, None], x[None])]
        asked = [getattr(xp, n)(xp.asarray(x)) for n in one]
        ours = td.run(asked + [getattr(xp, n)(*map(xp.asarray, pairs)) for n in two])
        theirs = [getattr(np, n)(x) for n in one] + [getattr(np, n)(*pairs) for n in two]
    for k, name in enumerate(one + two):
        if name in ("maximum", "minimum"):  # of 0 and -0: either
            ours[k], theirs[k] = ours[k] + 0.0, theirs[k] + 0.0
    wrong = [n for n, a, b in zip(one + two, ours, theirs, strict=True) if not same(a, b)]
    assert wrong == []


def test_complex_special_cases(xp: Any) -> None:
    """As the standard has them, where NumPy's expm1 is NaN."""
    z = [complex(np.inf, 0.0), complex(-np.inf, np.inf), complex(np.nan, 0.0), 0j, 1e-9 + 1e-9j]
    found = np.asarray(xp.expm1(xp.asarray(z)))
    assert found[0] == complex(np.inf, 0.0) and found[1] == -1 and np.isnan(found[2].real)
    assert found[2].imag == 0 and found[3] == 0 and np.isclose(found[4], z[4], 1e-8, 0)


# --- what functions do -------------------------------------------------------------------------

A = np.array([[3.0, 1.0, 2.0], [1.0, np.nan, 1.0]])
K = np.array([[3, 1, 2], [1, 1, 3]], "int8")

#: Programs written against the standard; NumPy's namespace computes what is right.
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda xp, a, k: (xp.sum(k), xp.sum(k, dtype=xp.int16), xp.sum(a, axis=0)),
    "prod": lambda xp, a, k: (xp.prod(k, axis=1, keepdims=True), xp.prod(k, dtype=xp.float32)),
    "std": lambda xp, a, k: (xp.std(a, axis=0, correction=1), xp.var(a, axis=1, correction=0.5)),
    "sort": lambda xp, a, k: (xp.sort(k, axis=0), xp.sort(a, axis=1), xp.argsort(k)),
    "diff": lambda xp, a, k: xp.diff(a, prepend=xp.zeros((2, 1)), append=xp.ones((2, 2))),
    "mask": lambda xp, a, k: (a[k > 1], a[xp.asarray([True, False])], k[k > 9]),
    "repeat": lambda xp, a, k: (
        xp.repeat(a, 2, axis=1), xp.repeat(a, xp.asarray([2, 0]), axis=0),
        xp.repeat(k, xp.asarray([1, 2, 0, 1, 0, 3])), xp.repeat(k, xp.asarray([2]))),
    "concat": lambda xp, a, k: (xp.concat([a, a], axis=None), xp.concat([a, k], axis=-1)),
    "clip": lambda xp, a, k: (xp.clip(a, min=1.5), xp.clip(k, min=2, max=2)),
    "where": lambda xp, a, k: (xp.where(k > 1, a, 0.0), xp.where(k > 1, 1, k)),
    "take": lambda xp, a, k: (xp.take(a, xp.asarray([1, 0]), axis=1),
                              xp.take_along_axis(a, xp.argsort(k, axis=1), axis=1)),
    "unique": lambda xp, a, k: (*xp.unique_all(k), xp.unique_values(a).shape),
    "norms": lambda xp, a, k: (
        xp.linalg.vector_norm(a, axis=0), xp.linalg.vector_norm(k[0, :] * 1.0, ord=3),
        xp.linalg.vector_norm(a[:1, :], axis=(0, 1), ord=1),
        xp.linalg.vector_norm(a[:1, :], ord=float("inf"), keepdims=True),
        xp.linalg.matrix_norm(a[:, ::2], ord=1), xp.linalg.matrix_norm(a[:, ::2])),
    "matrices": lambda xp, a, k: (
        xp.linalg.diagonal(a, offset=1), xp.linalg.matrix_transpose(k), xp.linalg.matmul(k, k.T),
        xp.linalg.tensordot(k, k, axes=((1,), (1,))), xp.linalg.svdvals(a[:, ::2]),
        xp.linalg.eigvalsh(xp.asarray([[2.0, 1.0], [1.0, 2.0]]))),
    "frequencies": lambda xp, a, k: (xp.fft.fftfreq(5, d=0.5), xp.fft.rfftfreq(4)),
    "kinds": lambda xp, a, k: (xp.isdtype(k.dtype, "integral"),
                               xp.isdtype(a.dtype, ("bool", "complex floating")),
                               xp.result_type(k, xp.int16, 1) == xp.int16,
                               xp.finfo(xp.float32).eps, xp.iinfo(k.dtype).max),
    "shapes": lambda xp, a, k: (a.shape, a[:, None, ...].shape, a.size, a.ndim, a.mT.shape,
                                [type(n) is not None and n + 1 for n in a.shape]),
    "eye": lambda xp, a, k: (xp.eye(2, 3, k=1), xp.eye(2, k=2**70), xp.eye(2, k=-(2**63) - 1)),
    "constants": lambda xp, a, k: (xp.pi, xp.e, xp.inf, xp.isnan(xp.asarray(xp.nan)),
                                   a[xp.newaxis].shape),
    "defaults": lambda xp, a, k: (xp.zeros(2, dtype=None), xp.ones((2,)), xp.eye(2), xp.arange(3),
                                  xp.linspace(0, 1, 3, endpoint=False), xp.full((2,), 3)),
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_numpys(xp: Any, name: str) -> None:
    with np.errstate(all="ignore"):
        ours = flat(PROGRAMS[name](xp, xp.asarray(A), xp.asarray(K)))
        theirs = flat(PROGRAMS[name](np, A, K))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, td.Array):
            assert same(a, np.asarray(b)), (a, b)
        else:
            assert a == b, (a, b)


def test_descending(xp: Any) -> None:
    k = xp.asarray(K)
    assert xp.sort(k, descending=True).tolist() == [[3, 2, 1], [3, 1, 1]]
    order = xp.argsort(k, descending=True, stable=True)
    assert order.tolist() == [[0, 2, 1], [2, 0, 1]]
    assert xp.argsort(xp.asarray([1.0, np.nan, 2.0]), descending=True).tolist() == [1, 2, 0]


def test_extents_are_python_ints(xp: Any) -> None:
    a = xp.asarray(A)
    rows, columns = a.shape
    assert isinstance(rows, int) and rows < 3 and max(a.shape) == 3 and range(columns - 1)
    assert (xp.zeros(rows * columns).shape, (a + 1).shape[0] // 2) == ((6,), 1)
    assert xp.mean(a[:1, :]) * columns == 6 and (a.shape[0] / 2) == 1.0
    counted = xp.unique_values(xp.asarray([1, 1, 2])).shape
    assert counted == (2,) and int(counted[0]) == 2 and bool(counted[0] < 3)


def test_one_program_serves_all_extents() -> None:
    def halves(a: td.Array) -> td.Array:
        n = a.shape[0]
        return td.generate((n - n // 2,), lambda i: a[i + n // 2] / n)

    counted = set()
    for n in (4, 5, 9):
        made = halves(td.use(np.arange(float(n))))
        assert np.allclose(np.asarray(made), np.arange(n)[n // 2 :] / n)
        counted.add(td.jit(halves, backend="native").lower(np.ones(n)).source())
    assert len(counted) == 1


def test_devices_and_inspection(xp: Any) -> None:
    info = xp.__array_namespace_info__()
    a = xp.asarray(A)
    assert a.device == info.default_device() == "cpu" and info.devices() == ["cpu"]
    assert a.to_device("cpu") is a and xp.zeros(2, device="cpu").device == "cpu"
    with pytest.raises(td.ShapeError, match="arrays are on 'cpu'"):
        a.to_device("cuda")
    with pytest.raises(td.ShapeError, match="arrays are on 'cpu'"):
        xp.zeros(2, device="mars")
    assert info.capabilities()["data-dependent shapes"] is True
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.default_dtypes()["indexing"] == xp.int64
    with pytest.raises(td.DTypeError, match="no kind 'text'"):
        info.dtypes(kind="text")
    with pytest.raises(td.ShapeError, match="not '2019'"):
        a.__array_namespace__(api_version="2019")


def test_data_is_shared_or_copied(xp: Any) -> None:
    data = np.array([1, 2])
    shared, copied = xp.asarray(data), xp.asarray(data, copy=True)
    data[0] = 9
    assert copied.tolist() == [1, 2] and shared.tolist() == [9, 2]
    assert xp.asarray(data, copy=False).tolist() == [9, 2]
    with pytest.raises(td.ShapeError, match="copy=False"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(td.TreadleError):
        xp.from_dlpack([1, 2])
    assert np.from_dlpack(xp.from_dlpack(data) + 1).tolist() == [10, 3]


def test_masks_inside_compiled_functions(xp: Any) -> None:
    chosen = td.jit(lambda a: a[a > 1] * 2)
    assert chosen(np.array([1, 2, 3])).tolist() == [4, 6]
    none = xp.zeros((2, 0), dtype=xp.bool)
    assert xp.asarray(K)[none].shape == (0,) and xp.asarray(K)[none[0, :]].shape == (0, 3)
    with pytest.raises(IndexError, match="axis 0 has 3 elements, the index 2"):
        xp.asarray([1, 2, 3])[xp.asarray([True, False])]
    with pytest.raises(IndexError, match="boolean index of rank 2"):
        xp.asarray([1, 2])[xp.asarray(K > 1)]


def test_types_are_not_none(xp: Any) -> None:
    """np.dtype(None) is float64."""
    assert not operator.eq(xp.float64, None) and operator.ne(xp.float64, None)
    assert xp.float32 == np.float32 and xp.float32 != "no type" and xp.float32 in ("float32",)


def test_vectors_have_equally_many_elements(xp: Any) -> None:
    assert xp.vecdot(xp.ones((2, 3)), xp.ones(3)).tolist() == [3, 3]
    with pytest.raises(td.ShapeError, match="1 and 3 elements"):
        xp.vecdot(xp.ones((2, 1)), xp.ones((2, 3)))


def test_two_corrections_are_refused(xp: Any) -> None:
    with pytest.raises(td.TracingError, match="takes one number"):
        xp.std(xp.asarray(A), ddof=1, correction=1)


def test_immutable(xp: Any) -> None:
    a = xp.asarray([1, 2])
    with pytest.raises(td.TracingError, match=r"a\.at\[0\]\.set\(3\)"):
        a[0] = 3
    b = a
    b += 1
    assert (a.tolist(), b.tolist()) == ([1, 2], [2, 3])
