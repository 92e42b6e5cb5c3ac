"""Derivatives of what libraries compute, and of small matrices, which are unrolled."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treadle as td
from treadle.dsl.autodiff.library_rules import RULES, ZERO
from treadle.dsl.libraries import base

rng = np.random.default_rng(0)
X = rng.random((5, 6))
Z = X + 1j * rng.random((5, 6))
W = rng.random((5, 6))
V = rng.random((9, 9))


@pytest.fixture(autouse=True)
def reference(request):
    """Rules make ordinary operations: of most the reference is enough, and faster."""
    with td.config(backend="native" if "native" in request.node.name else "reference"):
        yield


def test_every_operation_has_a_rule_or_is_constant():
    later = {"sort_boundaries", "sort_ranks", "sort_windows", "linalg.potrf"}  # after derivatives
    assert set(base._BUILTIN) - later == {*RULES, *ZERO}


def test_sorting_native():
    td.check_grad(lambda x: td.sum(td.sort(x, 0) ** 2 * W), X)
    td.check_grad(lambda x: td.sum(td.take_along_axis(x * x, td.argsort(x, 1), 1) * W), X)
    td.check_grad(lambda x: td.sum(td.grad(lambda y: td.sum(td.sort(y) ** 3))(x) ** 2), X[0])
    td.check_grad(lambda x: td.sum(td.median(x, axis=1) * W[:, 0]), X)
    td.check_grad(lambda x: td.sum(td.partition(x, 2, 0) ** 2 * W[2]), X)
    td.check_grad(lambda x: td.sum(td.quantile(x, 0.3) ** 2), np.random.default_rng(1).random(99))


@pytest.mark.sample(1)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(norm):
    fft = td.fft
    td.check_grad(lambda x: td.sum(td.real(fft.fft(x, norm=norm) * Z)), X)
    td.check_grad(lambda x: td.sum(td.real(fft.fft(x, axis=0, norm=norm) * Z)), Z)
    td.check_grad(lambda x: td.sum(td.real(fft.ifft2(x, norm=norm) * Z)), Z)
    td.check_grad(lambda x: td.sum(td.abs(fft.rfft(x, n=8, norm=norm)) ** 2 * V[:5, :5]), X)
    td.check_grad(lambda x: td.sum(td.real(fft.rfftn(x, norm=norm) * Z[:, :4])), X)
    td.check_grad(lambda x: td.sum(fft.irfft(x, norm=norm) ** 2), Z)
    td.check_grad(lambda x: td.sum(fft.irfft(x, n=9, norm=norm) ** 2), Z)
    td.check_grad(lambda x: td.sum(fft.irfftn(x, s=(5, 7), norm=norm) ** 2 * V[:5, :7]), Z)


SIZES = [3, 6]  # unrolled, and by a library


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", SIZES)
def test_square_matrices(n, kind):
    linalg = td.linalg
    a = V[:n, :n] + 3 * np.eye(n)
    a = np.stack([a, a.T * 1.3 + V[:n, :n]])
    if kind == "complex":
        a = a + 1j * rng.random(a.shape)
    w, b = rng.random((2, n, n)), rng.random((n, 2))
    td.check_grad(lambda a: td.sum(td.real(linalg.inv(a) * (w * (1 if kind == "real" else 2j)))), a)
    td.check_grad(lambda a: td.sum(td.abs(linalg.solve(a, b)) ** 2), a)
    td.check_grad(lambda b: td.sum(td.abs(linalg.solve(a, b)) ** 2), b)
    td.check_grad(lambda a: td.sum(td.abs(linalg.det(a)) * w[:, 0, 0]), a)
    td.check_grad(lambda a: td.sum(td.real(linalg.slogdet(a)[0] * (1 + 2j))
                                   + linalg.slogdet(a)[1] * w[:, 0, 0]), a)  # fmt: skip
    td.check_grad(lambda a: td.sum(linalg.svd(a, compute_uv=False) ** 2 * w[:, 0]), a)
    td.check_grad(lambda a: td.sum(td.real(linalg.qr(a)[0]) * w
                                   + td.abs(linalg.qr(a)[1]) ** 2 * w), a)  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("trans", "NTC")
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", SIZES)
def test_triangular_systems(n, kind, trans):
    a, b = V[:n, :n] + 3 * np.eye(n), rng.random((n, 2))
    a = np.stack([a, a.T * 1.3])
    if kind == "complex":
        a, b = a + 1j * rng.random(a.shape), b + 1j
    for lower in (False, True):
        for unit in (False, True):
            scaled = a / n if unit else a

            def f(a, b, lower=lower, unit=unit):
                x = td.linalg.solve_triangular(a, b, trans, lower, unit)
                return td.sum(td.abs(x + 0.3) ** 2)

            td.check_grad(lambda a, f=f: f(a, b), scaled)
            td.check_grad(lambda b, f=f, a=scaled: f(a, b), b)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", SIZES)
def test_hermitian_matrices(n, kind):
    a = V[:n, :n] + 3 * np.eye(n) + (0 if kind == "real" else 1j * V[2 : n + 2, :n])
    a = a @ a.conj().T
    w = rng.random((n, n))
    for upper in (False, True):
        td.check_grad(
            lambda a, upper=upper: td.sum(td.abs(td.linalg.cholesky(a, upper=upper) + 0.2) * w), a
        )
        triangle = "U" if upper else "L"

        def loss(a, triangle=triangle):
            values, vectors = td.linalg.eigh(a, triangle)
            return td.sum(values**2 * w[0]) + td.sum(td.abs(vectors) ** 2 * w)

        td.check_grad(loss, a)


def test_eigenvectors_of_diagonal_matrices():
    """The rotations that find them do nothing there: their derivatives would be 0."""
    w = np.arange(9.0).reshape(3, 3)
    td.check_grad(lambda a: td.sum(td.linalg.eigh(a)[1] ** 3 * w), np.diag([1.0, 2.0, 3.0]))
    f = td.grad(lambda a: td.sum(td.linalg.eigh(a)[1][:, 0] * w[0]))
    found = td.run(f(np.diag([1.0, 2.0, 3.0])))
    assert abs(found[1, 0]) == 1 and abs(found[2, 0]) == 1  # w / (difference of eigenvalues)


def test_rectangular_matrices():
    tall, w = rng.random((7, 5)), rng.random((7, 5))

    def vectors(a):
        u, _, vh = td.linalg.svd(a, full_matrices=False)
        return td.sum(u**2 * w) + td.sum(vh**2 * w[:5])

    td.check_grad(vectors, tall)
    td.check_grad(lambda a: td.sum(td.linalg.svd(a.T, full_matrices=False)[2] ** 2 * w.T), tall)
    td.check_grad(lambda a: td.sum(td.linalg.qr(a)[0] * w), tall)
    td.check_grad(lambda a: td.sum(td.linalg.qr(a, "r") ** 2 * w[:5]), tall)
    td.check_grad(lambda a: td.sum(td.linalg.pinv(a) * w.T), tall)
    td.check_grad(lambda a: td.linalg.norm(a, "nuc"), tall)


@pytest.mark.parametrize("n", SIZES)
def test_all_singular_vectors_of_square_matrices(n):
    a = np.stack([V[:n, :n], V[2 : n + 2, :n]])

    def loss(a):
        u, s, vh = td.linalg.svd(a)
        return td.sum(u**3 * V[:n, :n]) + td.sum(vh**2 * V[1 : n + 1, :n]) + td.sum(s**2 * V[0, :n])

    td.check_grad(loss, a)
    slope = td.grad(loss)
    td.check_grad(lambda a: td.sum(slope(a) * V[:n, :n]), a, rtol=1e-4)
    td.check_grad(lambda b: td.sum(td.linalg.svd(b @ b.T)[0] ** 2 * V[:n, :n]), a[0, :, 1:])
    late = td.jit(td.grad(lambda a, w: td.sum(td.linalg.svd(a)[0] ** 3 * w)))
    want = td.run(td.grad(lambda a: td.sum(td.linalg.svd(a)[0] ** 3 * V[:n, :n]))(a))
    np.testing.assert_allclose(late(a, V[:n, :n]), want, rtol=1e-9, atol=1e-12)
    with pytest.raises(td.GradientError, match="not square"):
        late(a[:, 1:], V[: n - 1, : n - 1])


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_vectors_of_equal_values_have_no_derivative(backend):
    """But the values, and other vectors, do."""
    equal, w = np.diag([3.0, 3.0, 1.0, 2.0]), V[:4, :4]
    linalg = td.linalg

    def gradient(f):
        return np.tril(td.run(td.grad(f)(equal), backend=backend))

    assert np.isnan(gradient(lambda a: td.sum(linalg.eigh(a)[1] * w))).any()
    assert np.isnan(gradient(lambda a: td.sum(linalg.eigh(a)[1][:, -1] ** 2 * w[0]))).any()
    assert np.isnan(gradient(lambda a: td.sum(linalg.svd(a)[0] * w))).any()
    f = lambda a: td.sum(linalg.eigh(a)[1][:, 0] ** 3 * w[0])
    h = 1e-5
    for i, j in ((2, 0), (3, 2), (1, 0)):
        moved = np.zeros((4, 4))
        moved[i, j] = h
        up, down = (td.run(f(td.use(equal + s * moved)), backend=backend) for s in (1, -1))
        np.testing.assert_allclose(gradient(f)[i, j], (up - down) / (2 * h), atol=1e-8)
    np.testing.assert_array_equal(gradient(lambda a: td.sum(linalg.eigh(a)[0] ** 2)), 2 * equal)
    np.testing.assert_allclose(gradient(lambda a: td.sum(linalg.svd(a)[1] ** 2)), 2 * equal)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 5)])
def test_pseudo_inverses(shape, kind):
    a = rng.random(shape) + (1j * rng.random(shape) if kind == "complex" else 0)
    w = rng.random((*shape[:-2], shape[-1], shape[-2]))
    td.check_grad(lambda a: td.sum(td.abs(td.linalg.pinv(a)) ** 2 * w), a)
    inner = td.grad(lambda a: td.sum(td.abs(td.linalg.pinv(a)) ** 2 * w))
    td.check_grad(lambda a: td.sum(td.abs(inner(a)) ** 2), a)


@pytest.mark.parametrize("kind", [float, complex])
def test_pseudo_inverses_of_matrices_with_equal_singular_values(kind):
    a = np.eye(7, 4, dtype=kind)
    td.check_grad(lambda a: td.sum(td.real(td.linalg.pinv(a)) * V[:4, :7]), a)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_determinants_of_small_matrices_are_polynomials(n):
    a = 0.2 * np.random.default_rng(n).standard_normal((3, n, n)) + np.eye(n)
    for f in (td.linalg.det, lambda a: td.linalg.slogdet(a)[1]):
        slope = td.grad(lambda a, f=f: td.sum(td.sin(f(a))))
        td.check_grad(lambda a, slope=slope: td.sum(td.cos(slope(a))), a)
        second = td.jit(td.grad(lambda a, slope=slope: td.sum(slope(a) ** 2)), backend="native")
        assert len(second.lower(a).kernels) < 10
    want = np.linalg.det(a)[:, None, None] * np.linalg.inv(a).swapaxes(1, 2)
    found = td.run(td.grad(lambda a: td.sum(td.linalg.det(a)))(a))
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-13)
    z = a + 1j * a.swapaxes(1, 2) ** 2
    td.check_grad(lambda z: td.sum(td.abs(td.linalg.det(z)) ** 2), z)


@pytest.mark.sample(2)
@pytest.mark.parametrize("factor", [0, 1j])
@pytest.mark.parametrize("n", [3, 4, 6, 9])
def test_determinants_of_singular_matrices(n, factor):
    a = V[:n, :n] + factor * V[:n, :n].T ** 2
    a[-1] = 0  # so that it is computed as 0
    td.check_grad(lambda a: td.real(td.linalg.det(a) * (1 + 0.5j)), a)
    both = np.stack([a, a + np.eye(n)])
    td.check_grad(lambda a: td.sum(td.real(td.linalg.det(a)) * np.array([1.0, 2.0])), both)
    np.testing.assert_array_equal(td.run(td.grad(td.linalg.det)(np.zeros((n, n)))), 0)


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 7)])
def test_factors_of_wide_matrices(shape):
    wide = rng.random(shape) + np.eye(*shape[-2:])
    q_weights, r_weights = rng.random((*shape[:-1], shape[-2])), rng.random(shape)

    def loss(a):
        q, r = td.linalg.qr(a)
        return td.sum(q * q_weights) + td.sum(r**2 * r_weights)

    td.check_grad(loss, wide)
    td.check_grad(lambda a: td.sum(td.linalg.qr(a, "r") ** 2 * r_weights), wide)
    td.check_grad(lambda a: td.sum(td.linalg.qr(a)[0] * q_weights), wide)
    given = td.run(td.grad(loss)(wide))
    np.testing.assert_allclose(td.jit(td.grad(loss))(wide), given, rtol=1e-10)
    tall = np.swapaxes(wide, -1, -2)
    f = td.jit(td.grad(lambda a: td.sum(td.linalg.qr(a)[1] ** 2)))
    np.testing.assert_allclose(f(tall), 2 * tall, rtol=1e-10)  # the squares of A's elements
    np.testing.assert_allclose(f(wide), 2 * wide, rtol=1e-10)


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", SIZES)
def test_factors(n):
    a = V[:n, :n] + 4 * np.eye(n)[::-1]  # the choice of pivots is clear
    w = V[:n, 3 : 3 + n]
    stacked = np.stack([a, a.T]) + 1j * V[:n, 2 : 2 + n]
    for one in (a, stacked):
        td.check_grad(lambda a: td.sum(td.abs(td.linalg.lu(a)[0]) ** 2 * w), one)
    inner = td.grad(lambda a: td.sum(td.linalg.lu(a)[0] ** 2 * w))
    td.check_grad(lambda a: td.sum(inner(a) * w), a)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("m", "n"), [(7, 4), (4, 7), (5, 5)])
@pytest.mark.parametrize("factor", [0, 1j])
def test_least_squares(m, n, factor):
    a, b, w = V[:m, :n] + factor * V[2 : m + 2, 2 : n + 2], V[:m, 5:8] + factor, V[:n, 6:9]

    def loss(a, b):
        x, squares, _, values = td.linalg.lstsq(a, b)
        vector = td.linalg.lstsq(a, b[:, 0])[0]
        parts = (td.abs(x) ** 2 * w, squares**2, values**3, td.real(vector))
        return sum(map(td.sum, parts))

    td.check_grad(loss, a, b)
    numbers = np.array(a), np.array(b)
    np.testing.assert_allclose(td.jit(td.grad(loss))(*numbers), td.run(td.grad(loss)(*numbers)))


def test_least_squares_of_a_constant_rank():
    """Along products of matrices of rank 3."""
    p, q, b = V[:7, :3], V[:3, :4], V[:7, 5:8]
    td.check_grad(lambda p, q, b: td.sum(td.linalg.lstsq(p @ q, b, 1e-10)[0] ** 2), p, q, b)
    td.check_grad(lambda p, q, b: td.sum(td.linalg.lstsq(p @ q, b, 1e-10)[1] ** 2), p, q, b)


def test_second_derivatives_native():
    a = np.eye(5) * 2 + V[:5, :5]

    def loss(a):
        return td.sum(td.grad(lambda b: td.sum(td.linalg.inv(b) ** 2))(a) * V[:5, :5])

    td.check_grad(loss, a)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (6, 6)], ids=str)
def test_complete_factors_of_triangular_matrices_native(shape):
    """Columns that are 0 below the diagonal are not reflected, and their neighbours would be."""
    a = np.triu(V[: shape[0], : shape[1]]) + 3 * np.eye(*shape)
    weights = np.arange(1.0, a.size + 1).reshape(shape)
    by = lambda mode: lambda a: td.sum(abs(td.linalg.qr(a, mode)[1]) * weights)
    td.check_grad(by("complete"), a)
    both = (td.run(td.grad(by(mode))(a)) for mode in ("complete", "reduced"))
    np.testing.assert_allclose(*both, rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda a: td.sum(td.linalg.svd(a[:4])[0]), "full_matrices=False"),
        (lambda a: td.sum(td.linalg.svd(a[:, :4])[2]), "full_matrices=False"),
        (lambda a: td.sum(td.linalg.qr(a[:, :5], "complete")[0]), "reduced"),
        (lambda a: td.sum(td.linalg.qr(a[:4, :2], "complete")[0]), "reduced"),
    ],
)
def test_refusals(f, message):
    with pytest.raises(td.GradientError, match=message):
        td.grad(f)(V)


@pytest.mark.sample(1)
@pytest.mark.parametrize("of", ["inv", "solve", "lu", "cholesky", "qr"])
def test_gradients_of_small_matrices_cost_a_few_times_the_value_native(of):
    """By the rules of matrix calculus, not by differentiating what is unrolled."""
    a = np.stack([V[:4, :4] @ V[:4, :4].T + np.eye(4)] * 50)

    def loss(a):
        made = td.linalg.solve(a, a[..., :1]) if of == "solve" else getattr(td.linalg, of)(a)
        return td.sum((made[0] if of in ("lu", "qr") else made) ** 2)

    def work(f):
        said = td.jit(f).lower(a).explain()
        units = {"": 1, "k": 1e3, "M": 1e6}
        found = re.findall(r"operations per element, ([\d.,]+) ?([kM]?) in all", said)
        return sum(float(n.replace(",", "")) * units[unit] for n, unit in found)

    assert 0 < work(td.grad(loss)) < 20 * work(loss)
