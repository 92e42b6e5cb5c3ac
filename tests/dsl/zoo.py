"""Sixty small programs over all operations, each with arguments: the passes must keep them all.

Inputs have different prime extents, so that a wrong axis cannot go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import treadle as td

rng = np.random.default_rng(7)
F = rng.normal(size=(7, 11))
G = rng.normal(size=(11, 5))
S = rng.normal(size=(7, 11)).astype(np.float32)
V = rng.normal(size=13)
W = rng.normal(size=13)
I = rng.integers(-9, 9, (7, 11))
J = rng.integers(0, 13, 17)
B = rng.random((7, 11)) < 0.4
L = np.array([3, 0, 4, 6])
C = rng.normal(size=13) + 1j * rng.normal(size=13)


class Case(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


ZOO: dict[str, Case] = {}


def case(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        ZOO[function.__name__] = Case(function, arguments)
        return function

    return keep


# --- element by element ----------------------------------------------------------------------


@case(F, F + 1)
def arithmetic(a, b):
    return a * b + 2 * a - b / 3


@case(S, 1.5)
def run_time_numbers(a, k):
    return a * k + td.sqrt(td.abs(a))


@case(I, I + 3)
def integers(a, b):
    return (a // b, a % b, a & b, a << 2, td.minimum(a, b) ^ b)


@case(C)
def complex_numbers(z):
    return (z * z + 1, td.abs(z), td.real(z), td.conj(z))


@case(S)
def casts(a):
    return td.cast(a, td.float64) + td.cast(td.cast(a * 100, td.int8), td.float64)


@case(F, B)
def choices(a, p):
    return td.where(p, a, -a), td.where(a > 0, a, 0)


@case(F)
def named_maps(a):
    return td.map(lambda x: x * 3, td.map(lambda x: x + 1, a, name="first"), name="second")


@case(F)
def indices_as_values(a):
    return td.imap(lambda i, j, x: x * i - j, a)


@case(V, W)
def tuples(a, b):
    pairs = td.zip(a, b)
    swapped = td.map(lambda p: (p[1], p[0] * 2), pairs)
    return td.unzip(swapped)


@case(F)
def broadcasting(a):
    return a - td.mean(a, axis=0) + td.arange(11) * a[:, 0][:, None]


@case(V)
def shared_work(a):
    b = td.exp(a)
    return b + 1, b * 2, td.sum(b)


@case(V)
def diamond(a):
    b = td.sin(a)
    return (b * b + b) * (b - 1)


@case(V)
def fused_multiply_add(a):
    return a * 2.5 + td.reverse(a, 0), a * a - 1


# --- index space -----------------------------------------------------------------------------


@case(F)
def slices(a):
    return a[1:-1, ::2] + 1, a[3], a[:, -1]


@case(F)
def turned(a):
    return td.transpose(a) * 2, td.reverse(a, 1), td.roll(a, 3, 1)


@case(F)
def reshaped(a):
    return td.reshape(a * 2, (11, 7)) + 1, td.flatten(a)


@case(F, F)
def joined(a, b):
    return td.concatenate([a * 2, b], axis=0), td.stack([a, b + 1], axis=1)


@case(F)
def padded(a):
    return td.pad(a, 2), td.pad(a + 1, ((0, 1), (2, 0)))


@case(V)
def replicated(a):
    return td.replicate(td.exp(a), 3, 0) * td.replicate(a, 3, 0)


@case(V, J)
def gathered(a, at):
    return td.gather(a * 2, at), td.take(a, at, 0)


@case(V, J)
def gathered_costly(a, at):
    return td.gather(td.sin(a) + td.cos(a), at) + 1


@case(F)
def back_permuted(a):
    return td.backpermute((5, 7), lambda i, j: (j, 2 * i), a + 1)


@case(F)
def diagonals(a):
    return td.diagonal(a) * 2


@case()
def made():
    return td.iota(5) * 2 + td.fill(5, 3), td.eye(4), td.linspace(0, 1, 7)


@case(F)
def generated(a):
    return td.generate((4, 5), lambda i, j: a[i, j] * 2 + a[j, i])


@case(V)
def guarded_reads(a):
    return td.generate((20,), lambda i: td.cond(i < 13, a[i], 0.0))


@case(V)
def guarded_reads_of_a_map(a):
    b = td.exp(a)
    return td.generate((20,), lambda i: td.cond(i < 13, b[i], -1.0) + 1)


@case(V)
def guarded_twice(a):
    b = a * 2
    return td.generate(
        (20,), lambda i: td.cond(i < 13, b[i] * b[i], 0.0) + td.cond(i < 13, b[i], 1.0)
    )


# --- stencils --------------------------------------------------------------------------------


def cross(w):
    return w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0]


@case(F)
def stencil_clamp(a):
    return td.stencil(cross, a)


@case(F)
def stencil_of_map(a):
    return td.stencil(cross, a * 2 + 1, boundary=td.mirror)


@case(F)
def stencil_of_costly_map(a):
    return td.stencil(cross, td.exp(td.sin(a)), boundary=td.symmetric)


@case(F)
def stencil_of_stencil(a):
    return td.stencil(cross, td.stencil(cross, a, boundary=td.wrap), boundary=td.constant(1.0))


@case(F)
def stencil_of_indices(a):
    return td.stencil(cross, td.imap(lambda i, j, x: x + i * j, a), boundary=td.wrap)


@case(F)
def stencil_function(a):
    return td.stencil(cross, a, boundary=td.function(lambda i, j: i * 10 + j))


@case(F, F)
def stencil_pair(a, b):
    return td.stencil(lambda v, w: v[0, 1] * w[1, 0], a, b + 1, boundary=(td.clamp, td.wrap))


@case(F, np.ones((3, 3)))
def correlated(a, weights):
    return td.correlate(a, weights), td.convolve(a + 1, weights)


@case(F)
def correlated_constant(a):
    return td.correlate(a, np.array([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]]))


@case(F)
def separable_blur(a):
    row = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    return td.correlate(a, row[:, None] * row[None, :])


@case(F)
def siblings(a):
    return td.stencil(lambda w: w[0, 1], a), td.stencil(lambda w: w[1, 0], a), a * 2


# --- folds and scans -------------------------------------------------------------------------


@case(F)
def sums(a):
    return td.sum(a), td.sum(a, axis=0), td.sum(a * a, axis=1)


@case(F)
def statistics(a):
    return td.mean(a, axis=1), td.var(a), td.min(a), td.max(a, axis=0), td.argmax(a, axis=1)


@case(F, B)
def truths(a, p):
    return td.all(p), td.any(a > 1, axis=0), td.count_nonzero(p, axis=1)


@case(F)
def fold_then_map(a):
    return td.sqrt(td.sum(a * a, axis=1)) + 1


@case(F)
def fold_chain(a):
    return td.exp(td.sin(td.sum(a, axis=0)) * 2) - 1


@case(F)
def fold_used_twice(a):
    total = td.sum(a, axis=1)
    return total, total * 2, a / total[:, None]


@case(V, W)
def fold_tuple(a, b):
    return td.fold(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0.0, -9.0), td.zip(a, b))


@case(V)
def fold_first(a):
    return td.fold1(lambda x, y: td.minimum(x, y), a)


@case(V, L)
def fold_segments(a, lengths):
    return td.fold_seg(lambda x, y: x + y, 0.0, a * 2, lengths) + 1


@case(F)
def scans(a):
    return td.cumsum(a, axis=1), td.scanl(lambda x, y: x + y, 1.0, a), td.cummax(a * 2, axis=0)


@case(V)
def scans_backward(a):
    n, total = td.scanr_total(lambda x, y: x + y, 0.0, a)
    return n * 2, total, td.scanr1(lambda x, y: x + y, a)


@case(V, L)
def scan_segments(a, lengths):
    return td.scanl1_seg(lambda x, y: x + y, a, lengths)


@case(F)
def scan_then_map(a):
    return td.exp(td.cumsum(a, axis=0)) + 1


# --- scatters, irregular ---------------------------------------------------------------------


@case(V, J)
def permuted(a, at):
    return td.permute(lambda x, y: x + y, td.fill(13, 0.0), lambda i: at[i], td.gather(a, at))


@case(V)
def permuted_some(a):
    return td.permute(
        lambda x, y: x + y, a * 2, lambda i: td.where(i % 2 == 0, i // 2, td.ignore), td.exp(a)
    )


@case(J)
def counted(at):
    return td.bincount(at, length=15), td.histogram(at, 4)[0]


@case(V)
def filtered(a):
    values, count = td.filter(lambda x: x > 0, a * 2)
    return td.sum(values), count, values + 1


@case(L)
def expanded(n):
    return td.expand(lambda x: x, lambda x, k: x * 10 + k, n) + 1


@case(J, V)
def sorted_(at, a):
    return td.sort(at * 2), td.argsort(a), td.unique(at)


# --- products --------------------------------------------------------------------------------


@case(F, G)
def product(a, b):
    return a @ b + 1


@case(F, G)
def product_scaled(a, b):
    return td.matmul(a * 2, b, alpha=3.0, beta=0.5, c=np.ones((7, 5)))


@case(F, G)
def product_by_hand(a, b):
    left, right = td.replicate(a, 5, 1), td.replicate(b.T, 7, 0)
    return td.fold(lambda x, y: x + y, 0.0, left * right)


@case(V, W)
def inner_product(a, b):
    return td.dot(a, b), td.outer(a, b)


# --- control ---------------------------------------------------------------------------------


@case(V)
def loop_in_kernel(a):
    return td.map(lambda x: td.iterate(5, lambda y: y * 0.5 + 1, x), a)


@case(F)
def counted_loop_in_kernel(a):
    return td.generate((7,), lambda i: td.loop(11, lambda k, s: s + a[i, k], 0.0))


@case(V)
def while_in_kernel(a):
    return td.map(lambda x: td.while_loop(lambda y: y < 10, lambda y: y * 2 + 1, td.abs(x)), a)


@case(F)
def array_loop(a):
    return td.iterate(3, lambda t: td.stencil(cross, t * 0.1) + 1, a)


@case(F, 4)
def array_loop_counted(a, n):
    scale = td.exp(a)
    return td.loop(n, lambda k, t: t * scale + k, a) + 1


@case(V)
def array_while(a):
    return td.while_loop(lambda t: td.the(td.sum(t * t) > 1e-3), lambda t: t * 0.5, a)


@case(V, 2.0)
def branch(a, k):
    b = td.sin(a)
    return td.cond(k > 1, b + 1, td.exp(b) * 2)


@case(V)
def branch_in_loop(a):
    return td.loop(4, lambda k, t: td.cond(k % 2 == 0, t * 2, t + 1), a)


@case(V)
def materialised(a):
    return td.compute(td.exp(a)) + 1
