"""`lgamma` and `digamma` over the range of floats."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import treadle as td

#: x, log |Γ(x)|, ψ(x), ψ′(x): by mpmath, with 150 bits.
VALUES = np.array([
    (1.0000000009313226, -5.375739784311044e-10, -0.5772156633695686, 1.644934064609221),
    (1.9999999990686774, -3.9374859519130207e-10, 0.4227843344978255, 0.6449340672245868),
    (0.5, 0.5723649429247001, -1.9635100260214235, 4.934802200544679),
    (1e-200, 460.51701859880916, -1e+200, np.nan),
    (1.75, -0.08440112102048555, 0.24747245354686118, 0.7641018698938287),
    (7.9, 8.32426586800881, 2.002238487563571, 0.13493078345663442),
    (123.456, 469.6055471299295, 4.811829323828985, 0.008132945834278198),
    (1e300, 6.897755278982137e302, 690.7755278982137, np.nan),
    (-0.5, 1.2655121234846454, 0.03648997397857652, 8.934802200544679),
    (-1e-09, 20.723265837523627, 999999999.4227843, 9.999999999999999e17),
    (-100.25, -363.4009232278215, 7.754238959208646, 19.729283325349364),
    (1.4616321449683622, -0.12148629053584961, -9.241265521729427e-17, 0.9676722454476212),
])  # fmt: skip


def _points(kind: str) -> np.ndarray:
    """Of every size, and many where the formulas change; none that are next to poles."""
    rng = np.random.default_rng(3)
    most = np.log10(float(np.finfo(kind).max)) - 3
    size = np.concatenate([
        10 ** rng.uniform(-most, most, 2000), rng.uniform(0, 3, 3000), rng.uniform(0, 30, 2000),
        [0.23164, 0.5, 0.7316, 0.9, 1, 1.23, 1.7316, 2, 3, 7, 8, 9, 10, 11],
    ])  # fmt: skip
    x = np.concatenate([size, -size[size < 100]]).astype(kind)
    return x[(x > 0) | (abs(x - np.rint(x)) > 0.05)]


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_against_scipy(backend, name, kind):
    x = _points(kind)
    with np.errstate(all="ignore"):
        wanted = {"lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma}[name](
            x.astype(np.float64)
        )
    found = td.jit(getattr(td, name), backend=backend)(x)
    assert found.dtype == x.dtype
    ulps = 32 if kind == "float64" else 1
    with np.errstate(all="ignore"):
        limit = ulps * np.finfo(kind).eps * np.maximum(abs(wanted), np.where(x < 0, 20, 1))
        close = (abs(found - wanted) <= limit) | (found == wanted.astype(kind))
    assert close.all(), (x[~close], found[~close], wanted[~close])
    inside = td.jit(lambda x: td.map(getattr(td, name), x), backend=backend)(x[:100])
    np.testing.assert_array_equal(inside, found[:100])


def test_known_values_and_derivatives(backend):
    x, log, psi, slope = VALUES.T
    run = lambda f: td.jit(f, backend=backend)(x)
    np.testing.assert_allclose(run(td.lgamma), log, rtol=1e-15)
    np.testing.assert_allclose(run(td.digamma), psi, rtol=2e-15, atol=1e-15)
    first = run(td.grad(lambda x: td.sum(td.lgamma(x))))
    np.testing.assert_allclose(first, psi, rtol=1e-14, atol=1e-14)
    known = ~np.isnan(slope)
    second = run(td.grad(lambda x: td.sum(td.digamma(x))))
    np.testing.assert_allclose(second[known], slope[known], rtol=1e-14)


def test_special_values(backend):
    x = np.array([0.0, -0.0, -1.0, -2.0, -1e16, np.inf, -np.inf, np.nan])
    log = td.jit(td.lgamma, backend=backend)(x)
    np.testing.assert_array_equal(log, [np.inf] * 7 + [np.nan])
    psi = td.jit(td.digamma, backend=backend)(x)
    np.testing.assert_array_equal(psi, [-np.inf, np.inf, *[np.nan] * 3, np.inf, np.nan, np.nan])
    assert td.run(td.lgamma(np.array([5, 1]))).tolist() == pytest.approx([np.log(24), 0])
    with pytest.raises(td.DTypeError, match="lgamma is for real numbers"):
        td.lgamma(1j)


def test_a_likelihood_of_counts(backend):
    """The gradient of a negative binomial's, as in a regression of counts."""
    k = np.array([0, 3, 17, 250])

    def loss(r):
        return -td.sum(td.lgamma(k + r) - td.lgamma(k + 1.0) - td.lgamma(r) + r * np.log(0.3))

    slope = td.jit(td.grad(loss), backend=backend)(2.5)
    wanted = -np.sum(scipy.special.digamma(k + 2.5) - scipy.special.digamma(2.5) + np.log(0.3))
    np.testing.assert_allclose(slope, wanted, rtol=1e-13)
