"""Laws of the language: algebra, fusion, schedules."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import treadle as td
from tests.skeletons.schedules.strategies import examples

from .helpers import EXTENTS, affine, assert_same, generator, same_bits, small, to_host, wide

SHAPES = ((0,), (1,), (33,), (5000,), (5, 7), (1, 4), (0, 3), (3, 0), (31, 33), (2, 3, 4))


def plus(x, y):
    return x + y


def equal(run, left, right, label):
    """Both sides of a law, run as one program and apart, are the same."""
    first, second = run((left, right))
    assert_same(first, second, label=label)
    assert_same(run(left), second, label=f"{label}, left alone")
    return first


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_index_transforms(check, shape):
    """Every one is an identity: it gives back its argument."""
    a = wide("int32", shape)
    rank = len(shape)
    last = rank - 1
    middle = (slice(None),) * last
    cases = {
        "reverse∘reverse": (lambda: td.reverse(td.reverse(a, last), last), a),
        "a[::-1][::-1]": (lambda: td.use(a)[::-1][::-1], a),
        "transpose∘transpose": (lambda: td.transpose(td.transpose(a)), a),
        "T.T": (lambda: td.use(a).T.T, a),
        "slice∘replicate": (lambda: td.replicate(a, 3, 0)[1], a),
        "slice∘replicate, last": (lambda: td.replicate(a, 2, rank)[..., 0], a),
        "reshape∘flatten": (lambda: td.reshape(td.flatten(a), shape), a),
        "roll back": (lambda: td.roll(td.roll(a, 5, last), -5, last), a),
        "slice∘pad": (lambda: td.pad(a, 2)[(slice(2, -2),) * rank], a),
        "slice∘concatenate": (
            lambda: td.concatenate([a, td.use(a) * 2], axis=last)[(*middle, slice(shape[-1]))],
            a,
        ),
        "concatenate∘slice": (
            lambda: td.concatenate(
                [td.use(a)[(*middle, slice(2))], td.use(a)[(*middle, slice(2, None))]], axis=last
            ),
            a,
        ),
        "slice∘stack": (lambda: td.stack([td.use(a) + 1, a], axis=rank)[..., 1], a),
        "backpermute identity": (lambda: td.backpermute(shape, lambda *i: i, a), a),
        "permute identity": (
            lambda: td.permute(td.overwrite, np.zeros(shape, "i4"), lambda *i: i, a),
            a,
        ),
        "gather of all": (lambda: td.gather(a, td.iota(shape[0])), a),
        "unzip∘zip": (lambda: td.unzip(td.zip(a, a[::-1]))[0], a),
        "map identity": (lambda: td.map(lambda x: x, a), a),
        "filter everything": (
            lambda: td.filter(lambda x: x == x + 0, td.flatten(a))[0],
            a.reshape(-1),
        ),
    }
    check(cases)


@pytest.mark.parametrize("n", EXTENTS)
def test_map_fusion(run, n):
    """map f ∘ map g = map (f ∘ g), floats to the bit, materialised between or not."""
    a = generator("fusion", n).standard_normal(n).astype("f4")

    def g(x):
        return td.exp(-x * x) + x * 0.1

    def f(x):
        return td.sin(x) / (x * x + 0.3)

    apart, fused, stored = run(
        (td.map(f, td.map(g, a)), td.map(lambda x: f(g(x)), a), td.map(f, td.compute(td.map(g, a))))
    )
    same_bits(apart, fused, "fused")
    same_bits(apart, stored, "materialised between")
    inner = np.exp(-a * a) + a * np.float32(0.1)
    want = np.sin(inner) / (inner * inner + np.float32(0.3))
    np.testing.assert_allclose(apart, want, rtol=1e-4, atol=1e-6)


def test_materialising_never_changes_a_bit(run):
    """Products and sums of random floats: also where a multiply and an add could contract."""
    rng = generator("bits")
    a, b, c = (rng.standard_normal((33, 97)).astype("f4") for _ in range(3))
    x, y, z = td.use(a), td.use(b), td.use(c)

    def taps(w):
        return w[0, -1] * 0.3 + w[0, 0] * 0.1 + w[1, 1] * 0.7

    pairs = {
        "x * y + z": (x * y + z, td.compute(x * y) + z),
        "x - y * z": (x - y * z, x - td.compute(y * z)),
        "stencil of a product": (
            td.stencil(taps, x * y, boundary=td.mirror),
            td.stencil(taps, td.compute(x * y), boundary=td.mirror),
        ),
        "sum of a stencil": (td.stencil(taps, x) * z + y, td.compute(td.stencil(taps, x)) * z + y),
        "gathered": (
            td.backpermute((97, 33), lambda i, j: (j, i), x * y + z),
            td.backpermute((97, 33), lambda i, j: (j, i), td.compute(x * y + z)),
        ),
    }
    for label, (fused, stored) in pairs.items():
        first, second = run((fused, stored))
        same_bits(first, second, label)
        same_bits(run(fused), second, f"{label}, alone")
        if label == "x * y + z":
            np.testing.assert_allclose(first, a * b + c, rtol=1e-3, atol=1e-5)


def test_pinned_sums_do_not_see_how_elements_are_stored(backend):
    """deterministic=True: a sum of what is read in place is that of its stored copy, to the bit."""
    x, y = (td.use(generator("stored", s).standard_normal(s).astype("f4"))
            for s in ((37, 533), (13, 7, 129)))  # fmt: skip
    programs = [
        lambda copy, **pin: td.sum(copy(td.transpose(x)), axis=1, **pin),
        lambda copy, **pin: td.sum(copy(td.transpose(y, (2, 0, 1))), **pin),
        lambda copy, **pin: td.mean(copy(td.transpose(y, (1, 2, 0))), axis=(0, 1), **pin),
        lambda copy, **pin: td.fold(plus, 0, copy(x[::-1, 1:-1].T), axis=0, **pin),
        lambda copy, **pin: td.sum(copy(td.replicate(x[0], 9, 1)), axis=1, **pin),
    ]
    for f in programs:
        fused, stored = (f(copy, deterministic=True) for copy in (lambda v: v, td.compute))
        first, second = (td.run(e, backend=backend) for e in (fused, stored))
        same_bits(to_host(first), to_host(second))
        with td.config(deterministic=True):  # says so of every operation
            third = td.run(f(lambda v: v), backend=backend)
        same_bits(to_host(first), to_host(third))
    column = td.schedule.Column(8)
    ordered = td.jit(lambda: td.sum(td.transpose(x, schedule=column), axis=1), deterministic=True,
                     backend=backend)  # fmt: skip
    same_bits(to_host(ordered()), to_host(td.run(programs[0](td.compute, deterministic=True),
                                                 backend=backend)))  # fmt: skip


def test_functions_of_constants_are_the_backend_s_own(run):
    """exp(0.83) has the bits that the backend computes, also where fusion makes 0.83 a constant."""
    functions = (td.exp, td.log, td.sin, td.cos, td.tan, td.arctan, td.sinh, td.cbrt, td.erfc)
    for kind, number in (("float32", 0.17), ("float64", 0.83), ("complex128", 0.83 - 0.7j)):
        filled = td.fill(3, getattr(td, kind)(number))
        guarded = td.generate(5, lambda i, a=filled: td.cond(i < 3, a[i], a[0]))
        real = kind.startswith("float")
        mapped = functions if real else (td.exp, td.abs, lambda z: z * (z + 1j))
        fused = [f(filled) for f in mapped] + [td.exp(guarded)]
        stored = td.compute(filled)
        apart = [f(stored) for f in mapped] + [td.exp(td.compute(guarded))]
        for one, two in zip(run(fused), run(apart), strict=True):
            same_bits(to_host(one), to_host(two), kind)


def test_borders_compute_the_same_bits_as_the_interior(run):
    """A stencil's element depends on its neighbourhood alone, not on where it lies."""
    rng = generator("border")
    a = np.tile(rng.standard_normal((8, 8)).astype("f4"), (5, 12))

    def kernel(w):
        return td.exp(w[0, -1] * 0.3 + w[-1, 0] * 0.1) + w[1, 1] * w[0, 2]

    out = run(td.stencil(kernel, a, boundary=td.wrap))
    same_bits(out, np.tile(out[8:16, 8:16], (5, 12)))


def test_backpermute_composes(run):
    a = wide("int64", (6, 8))

    def f(i, j):
        return (j, (i * 3 + j) % 8)

    def g(i, j):
        return ((i + j) % 5, j % 6)

    both = td.backpermute((7, 9), g, td.backpermute((5, 6), f, a))
    one = td.backpermute((7, 9), lambda i, j: f(*g(i, j)), a)
    result = equal(run, both, one, "backpermute")
    i, j = np.indices((7, 9))
    p, q = (i + j) % 5, j % 6
    assert_same(result, a[q, (p * 3 + q) % 8])


@pytest.mark.sample(6)
@pytest.mark.parametrize("n", EXTENTS)
def test_folds_and_scans_agree(run, n):
    a, b = wide("int64", n, 1), wide("int64", n, 2)
    pairs = td.zip(a, b)
    if n == 70001:
        a, b, pairs = a[:5003], b[:5003], td.zip(a[:5003], b[:5003])
    last = td.scanl(affine, (3, 5), pairs)[-1]
    folded = td.fold(affine, (3, 5), pairs)
    total = td.scanl_total(affine, (3, 5), pairs)[1]
    first = td.scanr(lambda x, y: affine(y, x), (3, 5), td.reverse(pairs, 0))[0]
    lengths = np.array([a.size])
    segment = td.fold_seg(affine, (3, 5), pairs, lengths)
    one, two, three, four, five = run((last, folded, total, first, segment))
    assert_same(one, two)
    assert_same(three, two)
    assert_same(four, two)
    assert_same(tuple(np.array(p[0]) for p in five), two)
    plain = run((td.sum(td.use(a)), td.fold(plus, 0, a), td.cumsum(np.append(a, 0))[-1]))
    for got in plain:
        assert_same(got, np.asarray(a.sum()))


def test_folds_of_parts(run):
    """fold f z (x ++ y) = fold f (fold f z x) y."""
    a, b = wide("int64", 400, 1), wide("int64", 400, 2)
    whole = td.fold(affine, (3, 5), td.zip(a, b))
    for cut in (0, 1, 33, 399, 400):
        head = run(td.fold(affine, (3, 5), td.zip(a[:cut], b[:cut])))
        init = (td.int64(int(head[0])), td.int64(int(head[1])))
        assert_same(run(td.fold(affine, init, td.zip(a[cut:], b[cut:]))), run(whole))


def test_products_and_transposes(run):
    a, b = wide("int64", (9, 5), 1), wide("int64", (5, 7), 2)
    c = wide("int64", (7, 4), 3)
    x, y, z = td.use(a), td.use(b), td.use(c)
    assert_same(equal(run, (x @ y).T, y.T @ x.T, "transpose"), (a @ b).T)
    equal(run, (x @ y) @ z, x @ (y @ z), "associative")
    equal(run, td.strassen(x, y), x @ y, "strassen")
    equal(run, td.tensordot(x, y, axes=1), td.dot(x, y), "tensordot")
    equal(run, x @ td.eye(5, dtype=td.int64), x + 0, "unit")


# ---------------------------------------------------------------------------------------------
# Schedules never change a bit


class Backwards(td.schedule.Order):
    """A user's own order: the elements from the last to the first."""

    def coordinates(self, i, shape):
        extents = list(shape)
        total = 1
        for extent in extents:
            total = total * extent
        i = total - 1 - i
        out = []
        for extent in reversed(extents):
            out.append(i % extent)
            i = i // extent
        return tuple(reversed(out))


#: All built-in orders, new ones included.
BUILT_IN = {repr(order): order for order in examples(8)}


def orders(size):
    """All orders, for arrays of rank two with `size` elements."""
    s = td.schedule
    permutation = generator("table", size).permutation(size)
    return {
        **BUILT_IN,
        "Column(256)": s.Column(256),
        "Table": s.Table(permutation),
        "Column of blocks": s.Column(64) | s.Block(8, 32),
        "Column, block grain": s.Column(64, grain="block"),
        "blocks and several outputs": s.Row() | s.Block(8, 32) | s.PerThread(rows=8),
        "PerThread": s.PerThread(rows=4, cols=2),
        "Auto": s.Auto(),
        "Backwards": Backwards(),
    }


ORDERS = (
    *BUILT_IN,
    "Column(256)",
    "Table",
    "Column of blocks",
    "Column, block grain",
    "blocks and several outputs",
    "PerThread",
    "Auto",
    "Backwards",
)


def scheduled_programs(a, b, schedule):
    """Programs over (rows, columns) arrays of which every kernel has the given schedule."""
    rows, columns = a.shape

    def taps(w):
        return w[-1, 0] * 0.25 + w[0, -1] * 0.5 + w[0, 0] + w[1, 2] * 0.125

    return {
        "map": td.map(lambda x, y: td.sin(x) * y + x, a, b, schedule=schedule),
        "generate": td.generate((rows, columns), lambda i, j: i * 1000 + j * j, schedule=schedule),
        "stencil": td.stencil(taps, a, boundary=td.mirror, schedule=schedule),
        "turned read": td.backpermute(
            (rows, columns), lambda i, j: (rows - 1 - i, columns - 1 - j), b, schedule=schedule
        ),
    }


@cache
def plain_results(backend, shape):
    """What the programs give without any schedule."""
    a, b = scheduled_inputs(shape)
    return td.run(scheduled_programs(td.use(a), td.use(b), None), backend=backend)


def scheduled_inputs(shape):
    rng = generator("schedules", shape)
    return rng.standard_normal(shape).astype("f4"), rng.standard_normal(shape)


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", ORDERS)
def test_any_schedule_means_the_row_order(backend, order):
    """One compiled program per order, for ragged, empty, thin and square extents."""
    schedule = orders(33 * 97)[order]
    program = td.jit(lambda a, b: scheduled_programs(a, b, schedule), backend=backend)
    shapes = ((33, 97), (0, 7), (64, 64), (1, 5))
    for shape in shapes[:1] if order == "Table" else shapes:
        a, b = scheduled_inputs(shape)
        got = program(a, b)
        for label, want in plain_results(backend, shape).items():
            same_bits(got[label], want, f"{label} of {shape} in {order}")
        i, j = np.indices(shape)
        assert_same(got["generate"], i * 1000 + j * j)
        assert_same(got["turned read"], b[::-1, ::-1])


@pytest.mark.sample(2)
@pytest.mark.parametrize("order", (*BUILT_IN, "Backwards"))
def test_scheduled_folds_scans_and_permutes(run, order):
    """Orders never change a bit, of rounded sums neither."""
    rng = generator("ordered folds")
    a = rng.standard_normal((33, 97)).astype("f4")
    v = rng.standard_normal(5000).astype("f4")
    targets = td.use(rng.integers(0, 50, 5000))
    ones = np.ones(5000, "i4")

    def programs(s):
        return {
            "fold": td.fold(plus, 0, a, schedule=s),
            "sum": td.sum(v, schedule=s),
            "scanl1": td.scanl1(plus, a, schedule=s),
            "permute": td.permute(plus, np.zeros(50, "i4"), lambda i: targets[i], ones, schedule=s),
            "matmul": td.matmul(small("float32", (33, 20)), small("float32", (20, 17)), schedule=s),
        }

    plain, other = run(programs(None)), run(programs(orders(33 * 97)[order]))
    row = run(programs(td.schedule.Row()))
    for label in plain:
        same_bits(other[label], row[label], f"{label} in {order}")
        np.testing.assert_allclose(other[label], plain[label], rtol=1e-5, atol=1e-4)


def test_scheduled_arrays_and_programs(run, backend):
    a = generator("scheduled").standard_normal((33, 40)).astype("f4")
    used = td.use(a)
    plain = run(td.exp(used) * 2)
    same_bits(run((td.exp(used) * 2).scheduled(td.schedule.Column(8))), plain)
    same_bits(run(td.exp(used) * 2, schedule=td.schedule.Morton()), plain)

    @td.jit(backend=backend)
    def blur(image):
        return td.stencil(lambda w: w[0, -1] * 0.5 + w[0, 1] * 0.25, image, name="blur")

    same_bits(blur.scheduled(blur=td.schedule.ZigZag(16))(a), blur(a))


def test_schedules_are_values():
    s = td.schedule
    assert s.Column(8) == s.Column(8)
    assert s.Column(8) != s.Column(16)
    assert s.Row() != s.Column(8)
    assert hash(s.Tile(4, 8)) == hash(s.Tile(4, 8))
    assert "8" in repr(s.Column(8))
    assert (s.Row() | s.Block(8, 32)) == (s.Row() | s.Block(8, 32))


def test_options_never_change_integers(backend):
    """Recognised or not, deterministic or not, named or not."""
    a = wide("int32", (33, 20))
    ones = np.ones(660, "i4")

    def program(x):
        box = td.stencil(
            lambda w: sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)), x, name="box"
        )
        keys = td.flatten(x) & 31
        counts = td.permute(plus, td.fill((32,), 0), lambda i: keys[i], ones)
        return box, counts, td.sum(x), td.cumsum(x, axis=0)

    want = td.jit(program, backend=backend)(a)
    for options in ({"recognise": False}, {"deterministic": True}, {"fast_math": True}):
        assert_same(td.jit(program, backend=backend, **options)(a), want, label=str(options))
    assert_same(want[1], np.bincount(a.reshape(-1) & 31, minlength=32))
    assert_same(want[2], np.asarray(a.sum()))
