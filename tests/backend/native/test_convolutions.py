"""Products with windows of an array are sums over the axes of a window, computed by loops or as a
product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.forms import forms_of
from treadle.backend.native.products import ContractionStep, ProductStep
from treadle.dsl.graph import Fold, Matmul, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.lower.fold.rows import goes_across, shares_elements

SMALL, LARGE = (1, 40, 40, 8), (1, 12, 12, 200)


def data(*shape: int) -> Any:
    return np.random.default_rng(8).random(shape).astype(np.float32)


def windows_of(x: Any, kh: Any, kw: Any, step: int = 1) -> Any:
    n, h, wide, c = x.shape
    return td.backpermute(
        (n, (h - kh) // step + 1, (wide - kw) // step + 1, kh, kw, c),
        lambda b, i, j, p, q, k: (b, i * step + p, j * step + q, k), x,
    )  # fmt: skip


def convolution(x: Any, w: Any) -> Any:
    return td.tensordot(windows_of(x, *w.shape[:2]), w, axes=3)


def by_sums(x: Any, w: Any) -> Any:
    windows = windows_of(x, *w.shape[:2])
    return td.sum(windows[..., None] * w, axis=(3, 4, 5))


def expected(x: Any, w: Any, step: int = 1) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
    return np.einsum("bijcpq,pqco->bijo", windows[:, ::step, ::step], w)


def kinds(f: Any, *args: Any, backend: str = "native") -> set[type]:
    program = td.jit(f, backend="native").lower(*args)
    nodes = topological(run_passes(program.source_roots, Settings(), backend).roots)
    return {type(n) for n in nodes} & {Fold, Matmul}


@pytest.mark.sample(1)
@pytest.mark.parametrize("f", [convolution, by_sums])
@pytest.mark.parametrize(("shape", "products"), [(SMALL, 0), (LARGE, 1)])
def test_a_library_computes_large_weights_and_loops_small_ones(
    f: Any, shape: tuple[int, ...], products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = data(*shape), data(3, 3, shape[3], 2 * shape[3])
    assert kinds(f, x, w) == {Fold}
    calls, call = [], ProductStep.__call__
    monkeypatch.setattr(ProductStep, "__call__", lambda s, r: calls.append(0) or call(s, r))
    program = td.jit(f, backend="native")
    for _ in range(3):  # the last one is replayed
        assert np.allclose(program(x, w), expected(x, w), rtol=1e-4)
    assert bool(calls) == bool(products)


def test_one_program_serves_all_extents() -> None:
    f = td.jit(convolution, backend="native")
    for shape, kernel, out in ((SMALL, 3, 7), (LARGE, 3, 300), ((2, 9, 7, 3), 2, 4),
                               ((1, 70, 70, 60), 9, 3), ((0, 9, 9, 3), 3, 4)):  # fmt: skip
        x, w = data(*shape), data(kernel, kernel, shape[3], out)
        found = f(x, w)
        assert found.shape == (shape[0], shape[1] - kernel + 1, shape[2] - kernel + 1, out)
        assert np.allclose(found, expected(x, w), rtol=1e-3)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_an_epilogue_strides_and_a_loop(shape: tuple[int, ...]) -> None:
    x, w = data(*shape), data(3, 3, shape[3], shape[3]) / 99
    bias = data(shape[3])

    def layer(x: Any, w: Any, bias: Any) -> Any:
        return td.maximum(td.tensordot(windows_of(x, 3, 3, 2), w, axes=3) + bias, 0.5)

    assert kinds(layer, x, w, bias) == {Fold}
    want = np.maximum(expected(x, w, 2) + bias, 0.5)
    assert np.allclose(td.jit(layer, backend="native")(x, w, bias), want, rtol=1e-4)

    def repeated(x: Any, w: Any) -> Any:
        return td.loop(3, lambda k, s: td.update(
            s, (slice(None), slice(1, -1), slice(1, -1)), convolution(s, w)), x)  # fmt: skip

    want = x.copy()
    for _ in range(3):
        want[:, 1:-1, 1:-1] = expected(want, w)
    for _ in range(3):
        assert np.allclose(td.jit(repeated, backend="native")(x, w), want, rtol=1e-3)


def test_what_is_not_reshaped_back_is_right() -> None:
    def matrix(x: Any, w: Any) -> Any:
        windows = windows_of(x, *w.shape[:2])
        rows = windows.shape[1] * windows.shape[2]
        columns = windows.shape[3] * windows.shape[4] * windows.shape[5]
        return td.reshape(windows, (rows, columns)) @ td.reshape(w, (columns, w.shape[3]))

    x, w = data(*SMALL), data(3, 3, 8, 5)
    assert kinds(matrix, x, w) == {Fold}
    want = expected(x, w).reshape(-1, 5)
    assert np.allclose(td.jit(matrix, backend="native")(x, w), want, rtol=1e-4)


def test_plain_products_stay_products() -> None:
    a, b = data(30, 6, 5), data(6, 5, 60)
    assert kinds(lambda a, b: td.tensordot(a, b, axes=2), a, b) == {Matmul}
    assert kinds(lambda a, b: a[:, :, 0] @ b[:, 0], a, b) == {Matmul}


def test_other_programs_and_backends_keep_the_product() -> None:
    x, w = data(*SMALL), data(3, 3, 8, 5)
    assert kinds(convolution, x, w, backend="cuda") == {Matmul}
    for options in ({"check": True}, {"deterministic": True}):
        with td.config(**options):
            assert np.allclose(td.jit(convolution, backend="native")(x, w), expected(x, w))


def test_gradients_are_products() -> None:
    x, w = data(1, 12, 12, 4), data(3, 3, 4, 5)
    ones = np.ones((1, 10, 10, 5), np.float32)
    gradient = td.jit(td.grad(lambda x, w: td.sum(convolution(x, w)), 1), backend="native")(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    assert np.allclose(gradient, np.einsum("bijcpq,bijo->pqco", windows, ones), rtol=1e-3)


def test_a_sum_over_several_axes_of_dense_arrays_is_a_product_of_views() -> None:
    def contraction(a: Any, b: Any) -> Any:
        return td.sum(
            td.generate(
                (a.shape[0], b.shape[2], a.shape[1], a.shape[2]),
                lambda i, j, k, q: a[i, k, q] * b[k, q, j],
            ),
            axis=(2, 3),
        )

    a, b = data(90, 40, 30), data(40, 30, 80)
    program = td.jit(contraction, backend="native").lower(a, b)
    (step,) = program.executable.kernel_steps
    assert isinstance(step, ContractionStep)
    want = np.tensordot(a, b, 2)
    assert np.allclose(program(a, b), want, rtol=1e-4)
    assert np.allclose(program(a[:5], b[:, :, :7]), want[:5, :7], rtol=1e-4)


def channels_first(x: Any, w: Any, step: int) -> Any:
    x = td.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = td.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::step, ::step]
    return td.einsum("bcijkl,rckl->brij", windows, w)


def patches(x: Any, w: Any, step: int) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    found = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return found[:, :, ::step, ::step]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize(("shape", "results"), [((8, 16, 42, 36), 24), ((2, 3, 7, 9), 2)])
def test_windows_at_a_distance_are_products_too(
    step: int, shape: tuple[int, ...], results: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = data(*shape), data(results, shape[1], 3, 2)
    calls, call = [], ProductStep.__call__
    monkeypatch.setattr(ProductStep, "__call__", lambda s, r: calls.append(0) or call(s, r))
    program = td.jit(lambda x, w: channels_first(x, w, step), backend="native").lower(x, w)
    assert any(isinstance(s, ContractionStep) for s in program.executable.kernel_steps)
    want = np.einsum("bcijkl,rckl->brij", patches(x, w, step), w)
    for _ in range(3):
        assert np.allclose(program(x, w), want, rtol=1e-4)
    assert bool(calls) == (results > 2)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_gradients_of_windows_at_a_distance(step: int) -> None:
    x, w = data(2, 5, 14, 13), data(6, 5, 3, 2)
    cotangent = np.ones_like(np.einsum("bcijkl,rckl->brij", patches(x, w, step), w))
    cotangent[...] = data(*cotangent.shape)
    gradients = td.jit(td.grad(lambda x, w, c: td.sum(channels_first(x, w, step) * c), (0, 1)),
                       backend="native")  # fmt: skip
    by_x = np.zeros((2, 5, 16, 15), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(by_x, (3, 2), axis=(2, 3), writeable=True)
    spread = np.einsum("brij,rckl->bcijkl", cotangent, w)
    for k in range(3):
        for n in range(2):  # windows overlap: one element of each at a time
            windows[:, :, ::step, ::step, k, n] += spread[..., k, n]
    by_w = np.einsum("bcijkl,brij->rckl", patches(x, w, step), cotangent)
    for _ in range(3):
        found_x, found_w = gradients(x, w, cotangent)
        assert np.allclose(found_x, by_x[:, :, 1:-1, 1:-1], rtol=1e-4)
        assert np.allclose(found_w, by_w, rtol=1e-4)


def filtered(x: Any, w: Any) -> Any:
    """Windows of any rank times weights, along every axis."""
    letters = "ijkl"[: x.ndim], "pqrs"[: x.ndim]
    return td.einsum(f"{''.join(letters)},{letters[1]}->{letters[0]}",
                     td.sliding_window_view(x, w.shape), w)  # fmt: skip


@pytest.mark.parametrize("shape", [(40,), (20, 30), (5, 5), (7, 9, 8)], ids=str)
@pytest.mark.parametrize("extent", [1, 3, 5])
def test_windows_times_a_vector_and_their_gradients(shape: tuple[int, ...], extent: int) -> None:
    """No array of all windows is stored, by the function and by its gradient."""
    x, w = data(*shape).astype(float), data(*(extent,) * len(shape)).astype(float)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    want = np.einsum(windows, list(range(2 * x.ndim)), w, list(range(x.ndim, 2 * x.ndim)))
    assert Matmul not in kinds(filtered, x, w)
    np.testing.assert_allclose(td.jit(filtered, backend="native")(x, w), want, rtol=1e-12)

    def loss(x: Any, w: Any) -> Any:
        return td.sum(td.sin(filtered(x, w)))

    gradient = td.grad(loss, argnums=(0, 1))
    assert Matmul not in kinds(gradient, x, w)
    found = td.jit(gradient, backend="native")
    td.check_grad(loss, x, w)
    reference = td.jit(gradient, backend="reference")(x, w)
    for _ in range(2):
        for a, b in zip(found(x, w), reference, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    assert max(len(n.outputs[0].shape) for n in found.lower(x, w).kernels) <= len(shape)


def test_weights_of_known_extents_have_the_same_gradient() -> None:
    def known(x: Any, w: Any) -> Any:
        return td.sum(td.einsum("ijpq,pq->ij", td.sliding_window_view(x, (3, 4)), w) ** 2)

    x, w = data(9, 11).astype(float), data(3, 4).astype(float)
    assert Matmul not in kinds(td.grad(known), x, w)
    td.check_grad(known, x, w)


def test_frames_times_a_matrix_stay_a_product() -> None:
    """Each window is read by every column of the matrix."""
    frames = lambda x, w: td.sliding_window_view(x, w.shape[:1]) @ w
    x, w = data(400), data(20, 30)
    assert kinds(frames, x, w) == {Matmul}
    want = np.lib.stride_tricks.sliding_window_view(x, 20) @ w
    assert np.allclose(td.jit(frames, backend="native")(x, w), want, rtol=1e-4)


def test_results_that_share_elements_are_folded_block_by_block() -> None:
    """The gradient by weights sums over all windows for each weight: in rows of them, and each
    block of the elements for all weights."""
    x, w = data(300, 310), data(3, 3)
    gradient = td.jit(td.grad(lambda x, w: td.sum(filtered(x, w) ** 2), 1), backend="native")
    program = gradient.lower(x, w)
    (fold,) = [n for n in program.kernels if isinstance(n, Fold) and len(n.outer) == 2
               and "adjoint" in str(n.label)]  # fmt: skip
    assert shares_elements(fold) and not goes_across(fold)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), w.shape)
    want = 2 * np.einsum("ijpq,ijrs,rs->pq", windows, windows, w.astype(float))
    np.testing.assert_allclose(gradient(x, w), want, rtol=1e-4)


@pytest.mark.parametrize("step", [2, 3])
def test_windows_at_a_distance_times_a_vector_are_loops(step: int) -> None:
    def filtered(x: Any, w: Any) -> Any:
        windows = td.sliding_window_view(x, w.shape)[::step, ::step]
        return td.einsum("ijpq,pq->ij", windows, w)

    x, w = data(61, 70), data(5, 4)
    program = td.jit(filtered, backend="native")
    want = np.lib.stride_tricks.sliding_window_view(x, w.shape)[::step, ::step]
    assert np.allclose(program(x, w), np.einsum("ijpq,pq->ij", want, w), rtol=1e-5)
    lowered = program.lower(x, w)
    (fold,) = forms_of(lowered).alone
    assert fold in lowered.kernels


def layer(order: str, step: int = 1) -> Any:
    """A layer of a network, with channels before or after rows and columns."""

    def loss(x: Any, w: Any) -> Any:
        axes = (1, 2) if order == "last" else (2, 3)
        extents = w.shape[:2] if order == "last" else w.shape[2:]
        windows = td.sliding_window_view(x, extents, axis=axes)
        at = (slice(None), slice(None, None, step), slice(None, None, step))
        windows = windows[at] if order == "last" else windows[(slice(None), *at)]
        sums = "bijcpq,pqco->bijo" if order == "last" else "bcijpq,ocpq->boij"
        return td.sum(td.sin(td.einsum(sums, windows, w)))

    return loss


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("order", ["last", "first"])
@pytest.mark.parametrize(("extents", "channels"), [((2, 3), 4), ((1, 1), 3), ((4, 4), 1)])
def test_gradients_of_layers_do_not_store_their_windows(
    order: str, extents: tuple[int, int], channels: int, step: int
) -> None:
    """What windows receive is summed as it is computed: a product with one more axis."""
    last = order == "last"
    x = data(*((2, 7, 9, channels) if last else (2, channels, 7, 9))).astype(float)
    w = data(*((*extents, channels, 5) if last else (5, channels, *extents))).astype(float)
    loss = layer(order, step)
    gradient = td.grad(loss, argnums=(0, 1))
    program = td.jit(gradient, backend="native")
    reference = td.jit(gradient, backend="reference")(x, w)
    for _ in range(3):
        for a, b in zip(program(x, w), reference, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    td.check_grad(loss, x, w)
    if channels > 1 and extents != (1, 1):
        assert "sums of elements of a product are one sum" in program.lower(x, w).explain()
        after = lambda x, w: loss(x[1:], w)  # windows of a part of the images
        np.testing.assert_allclose(
            td.jit(td.grad(after), backend="native")(x, w),
            td.jit(td.grad(after), backend="reference")(x, w), rtol=1e-11, atol=1e-13,
        )  # fmt: skip


def test_sums_along_rows_of_both_operands_are_products() -> None:
    """Of a loop, neighbours would read elements that are not adjacent."""

    def rows(a: Any, b: Any) -> Any:
        return td.sum(a[:, None] * b[None], axis=(2, 3))

    a, b = data(40, 6, 30), data(50, 6, 30)
    program = td.jit(rows, backend="native")
    assert isinstance(program.lower(a, b).executable.kernel_steps[0], ContractionStep)
    for _ in range(3):
        assert np.allclose(program(a, b), np.einsum("ikq,jkq->ij", a, b), rtol=1e-4)
    with td.config(deterministic=True):
        assert np.allclose(program(a, b), np.einsum("ikq,jkq->ij", a, b), rtol=1e-4)
