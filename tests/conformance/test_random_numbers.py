"""td.random: Random123's known answers, the bits that the page fixes, and distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treadle as td
from treadle.dsl.operations.random.philox import philox

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")

r = td.random
KEY = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
LARGE = 20_000

#: Random123's kat_vectors of philox4x32 with ten rounds: counter, key, words.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32)


def block(counter, key=KEY):
    """Philox as its paper writes it, on Python's integers."""
    c, k = [int(x) for x in counter], [int(x) for x in key]
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q % 2**32, (p >> 32) ^ c[3] ^ k[1], p % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def u32(count, key=KEY):
    blocks = [block((b % 2**32, b >> 32, 0, 0), key) for b in range(-(-count // 4))]
    return np.array(blocks, np.uint32).reshape(-1)[:count]


def u64(count, key=KEY):
    w = u32(2 * count, key).astype(np.uint64)
    return (w[0::2] << np.uint64(32)) | w[1::2]


# --- bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter, key, answer", KNOWN)
def test_known_answers(run, counter, key, answer):
    assert block(words(counter), words(key)) == words(answer).tolist()
    c, k = td.use(words(counter)), td.use(words(key))
    found = td.generate((), lambda: philox((c[0], c[1], c[2], c[3]), (k[0], k[1])))
    np.testing.assert_array_equal(run(found), words(answer))


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (64,), (3, 5), (2, 3, 130), (0,), (0, 4)])
def test_bits(run, shape):
    n = math.prod(shape)
    for t, want in (
        (np.uint32, u32(n)), (np.uint64, u64(n)), (np.uint8, u32(n) >> 24),
        (np.uint16, u32(n) >> 16),
    ):  # fmt: skip
        found = run(r.bits(KEY, shape, t))
        assert found.dtype == t and found.shape == shape
        np.testing.assert_array_equal(found, want.reshape(shape))


def test_bits_far_into_the_stream():
    """Blocks beyond 2³²; `reference` would compute the array that only one element is read of."""
    n = 5 * 2**32 + 2
    want = block((n // 4 % 2**32, n // 4 >> 32, 0, 0))[n % 4]
    far = td.jit(lambda key, columns: r.bits(key, (2, columns))[1, 2])
    with td.config(backend="native"):
        assert td.run(r.bits(KEY, (2, 5 * 2**32))[1, 2]) == want
        assert far(KEY, 5 * 2**32) == want


def test_keys(run):
    for seed in (0, 7, 2**32 + 5, 2**64 - 1, 2**64 + 3, -1):
        want = [seed % 2**32, (seed >> 32) % 2**32]
        assert run(r.key(seed)).tolist() == want
        assert run(r.key(seed)).dtype == np.uint32
    assert run(td.jit(r.key)(2**33 + 1)).tolist() == [1, 2]
    assert run(td.jit(r.key)(-1)).tolist() == [2**32 - 1] * 2
    for n in (0, 3, 2**32 + 9, 2**63, -1):
        m = n % 2**64
        want = block((m % 2**32, m >> 32, 0, 1))[:2]
        assert run(r.fold_in(KEY, n)).tolist() == want
    want = [block((k, 0, 0, 1))[:2] for k in range(5)]
    np.testing.assert_array_equal(run(r.split(KEY, 5)), want)
    assert run(r.split(KEY)).shape == (2, 2)
    np.testing.assert_array_equal(run(r.fold_in(r.split(KEY, 5)[3], 8)),
                                  block((8, 0, 0, 1), want[3])[:2])  # fmt: skip


def test_uniform(run):
    n = 1001
    np.testing.assert_array_equal(
        run(r.uniform(KEY, n, np.float32)), (u32(n) >> 8).astype(np.float32) * np.float32(2**-24)
    )
    u = (u64(n) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_array_equal(run(r.uniform(KEY, n)), u)
    np.testing.assert_array_equal(run(r.uniform(KEY, n, low=-3.7, high=11.3)), -3.7 + 15.0 * u)
    low = np.linspace(-1, 1, n)
    np.testing.assert_array_equal(run(r.uniform(KEY, n, low=low, high=2)), low + (2 - low) * u)
    f = np.float32
    want = f(0.1) + (f(0.7) - f(0.1)) * ((u32(n) >> 8).astype(f) * f(2**-24))
    np.testing.assert_array_equal(run(r.uniform(KEY, n, f, 0.1, 0.7)), want)


def test_a_scaled_uniform_number_stays_what_it_is_in_a_sum(run):
    """low + (high − low) u is rounded twice, also beside other operations."""
    x = r.uniform(KEY, 257, low=0.1, high=0.3)
    u = (u64(257) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_array_equal(run(x * 2 + 0), (0.1 + (0.3 - 0.1) * u) * 2)


def lemire(n, low, high, bits, key=KEY):
    """The numbers of `integers`, and how many words it has refused."""
    span, found, refused = high - low, [], 0
    for i in range(n):
        attempt, each = 0, 128 // bits
        while True:
            b = i // each
            w = block((b % 2**32, b >> 32, attempt, 2 if attempt else 0), key)
            k = i % each
            x = w[k] if bits == 32 else (w[2 * k] << 32) | w[2 * k + 1]
            if x * span % 2**bits >= 2**bits % span:
                break
            attempt, refused = attempt + 1, refused + 1
        found.append(low + (x * span >> bits))
    return found, refused


RANGES = [
    (np.int64, 0, 10), (np.int64, -5, 2**40), (np.int64, -(2**63), 2**63),
    (np.int64, -1, 2**63), (np.uint64, 0, 2**64), (np.uint64, 5, 3 * 2**62),
    (np.int32, -7, 9), (np.int32, -(2**31), 2**31), (np.uint32, 0, 3 * 2**30),
    (np.uint8, 0, 256), (np.int8, -128, 127), (np.uint16, 9, 10),
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype, low, high", RANGES)
def test_integers(run, dtype, low, high):
    want, refused = lemire(200, low, high, 64 if np.dtype(dtype).itemsize == 8 else 32)
    assert refused > 20 or high - low not in (3 * 2**62 - 5, 3 * 2**30)
    found = run(r.integers(KEY, (40, 5), low, high, dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.reshape(-1), np.array(want, dtype))


def test_integers_between_bounds_of_run_time(backend):
    f = td.jit(lambda key, a, b: r.integers(key, 50, a, b), backend=backend)
    for low, high in ((0, 10), (-3, 2**62), (3, 4)):
        np.testing.assert_array_equal(f(KEY, low, high), lemire(50, low, high, 64)[0])
    low, high = np.array([[0], [10]]), np.array([1, 5, 200])
    found = td.run(r.integers(KEY, (2, 3), low, high, np.int16), backend=backend)
    assert found[0, 0] == 0 and (found[0] < high).all() and (found[0] >= 0).all()
    assert (found[1, :2] == 10).all() and 10 <= found[1, 2] < 200


def test_permutations(run):
    for n in (0, 1, 2, 1000):
        p = run(r.permutation(KEY, n))
        assert p.dtype == np.int64
        np.testing.assert_array_equal(p, np.argsort(u64(n), kind="stable"))
    a = np.arange(24.0).reshape(4, 6)
    for axis in (0, 1, -1):
        order = np.argsort(u64(a.shape[axis]), kind="stable")
        for f in (r.shuffle, r.permutation):
            np.testing.assert_array_equal(run(f(KEY, a, axis)), np.take(a, order, axis))


def test_choice(run):
    a = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(run(r.choice(KEY, 9, 50)), lemire(50, 0, 9, 64)[0])
    picks = np.array(lemire(6, 0, 4, 64)[0]).reshape(2, 3)
    np.testing.assert_array_equal(run(r.choice(KEY, a, (2, 3), axis=1)), a[:, picks])
    order = np.argsort(u64(10), kind="stable")
    np.testing.assert_array_equal(run(r.choice(KEY, 10, (2, 3), False)), order[:6].reshape(2, 3))
    p = np.array([0.0, 0.5, 0.0, 0.2, 0.3, 0.0])
    found = run(r.choice(KEY, 6, 1000, p=p))
    u = (u64(1000) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_array_equal(found, np.searchsorted(np.cumsum(p), u, side="right"))
    np.testing.assert_array_equal(run(r.choice(KEY, 6, 1000, p=7 * p)), found)
    assert sorted(run(r.choice(KEY, 6, 3, False, p=p)).tolist()) == [1, 3, 4]
    assert run(r.choice(KEY, np.array([5.0]))) == 5.0


# --- inside kernels --------------------------------------------------------------------------


DRAWS = {
    "bits": lambda k: r.bits(k, ()),
    "uniform": lambda k: r.uniform(k, (), np.float32, 1.0, 3.0),
    "normal": lambda k: r.normal(k, ()),
    "integers": lambda k: r.integers(k, (), 0, 3 * 2**62, np.uint64),
    "exponential": lambda k: r.exponential(k, ()),
    "gamma": lambda k: r.gamma(k, (), 0.5),
    "beta": lambda k: r.beta(k, (), 0.5, 2.0),
    "poisson": lambda k: r.poisson(k, (), 4.0),
    "choice": lambda k: r.choice(k, 7, ()),
    "nested": lambda k: r.uniform(r.split(r.fold_in(k, 3), 2)[1], ()),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", DRAWS)
def test_inside_kernels(backend, name):
    """A scalar key inside a kernel gives what the same key gives outside."""
    draw = DRAWS[name]
    inside = td.run(td.generate(4, lambda i: draw(r.fold_in(KEY, i))), backend=backend)
    for i in range(4):
        outside = td.run(draw(r.fold_in(KEY, i)), backend=backend)
        assert outside.shape == () and outside.dtype == inside.dtype
        np.testing.assert_allclose(inside[i], outside, rtol=1e-12)
    over = td.map(lambda i: draw(r.fold_in(r.key(5), i)), np.arange(3))
    again = td.run(draw(r.fold_in(r.key(5), 2)), backend=backend)
    np.testing.assert_allclose(td.run(over, backend=backend)[2], again, rtol=1e-12)


def test_steps_of_a_random_walk_are_drawn_in_parallel():
    """Numbers are costly, and depend on no other; the walk adds them."""

    def walk(key, n):
        return td.scan(lambda x, i: (x + r.normal(r.fold_in(key, i), ()), x), 0.0, td.iota(n))[1]

    program = td.jit(walk, backend="native").lower(KEY, 100)
    assert "2 kernels" in program.explain()


# --- distributions ---------------------------------------------------------------------------


def agrees(found, distribution):
    """A wide bound: fixed keys, and what is wrong is very wrong."""
    found = np.asarray(found, np.float64)
    assert stats.kstest(found, distribution.cdf).pvalue > 1e-4
    n, spread, kurtosis = len(found), distribution.std(), float(distribution.stats("k"))
    assert abs(found.mean() - distribution.mean()) < 5 * spread / math.sqrt(n)
    assert abs(found.var() / spread**2 - 1) < 5 * math.sqrt((kurtosis + 2) / n)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal(run, dtype):
    bits = 23 if dtype == np.float32 else 52
    words_ = u32(5000) if bits == 23 else u64(5000)
    k = (words_ >> words_.dtype.type(words_.itemsize * 8 - bits)).astype(object)
    x = np.array([(2 * int(j) + 1 - 2**bits) / 2**bits for j in k])
    want = math.sqrt(2) * special.erfinv(x)
    found = run(r.normal(KEY, 5000, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=1e-6 if bits == 23 else 4e-15)
    np.testing.assert_allclose(run(r.normal(KEY, 5000, dtype, 3.0, 2.0)), 3 + 2 * found,
                               rtol=1e-5 if bits == 23 else 1e-14, atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_far_from_the_mean(run, dtype):
    """Quantiles of all sizes, down to those next to 0 and 1."""
    from treadle.dsl.operations.random.distributions import _quantile
    from treadle.dsl.operations.random.uniforms import odd_fraction

    t, bits, unsigned = (td.float32, 32, np.uint32) if dtype == np.float32 else (
        td.float64, 64, np.uint64)  # fmt: skip
    top = 23 if bits == 32 else 52
    k = np.unique(np.concatenate([np.arange(200), np.floor(2.0 ** np.linspace(0, top - 1, 500))]))
    k = k.astype(unsigned)
    low = k << unsigned(bits - top)
    p = (k.astype(np.longdouble) + 0.5) / 2.0**top
    want = special.ndtri(p.astype(np.float64))
    for w, sign in ((low, 1), (~low, -1)):
        found = run(td.map(lambda x: _quantile(odd_fraction(x, t)), w))
        np.testing.assert_allclose(found, sign * want, rtol=1e-6 if bits == 32 else 4e-15)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distributions_of_floats(run, dtype):
    key = r.key(11)
    agrees(run(r.normal(key, LARGE, dtype, 1.0, 3.0)), stats.norm(1, 3))
    agrees(run(r.uniform(key, LARGE, dtype, -1, 4)), stats.uniform(-1, 5))
    agrees(run(r.exponential(key, LARGE, dtype, 2.0)), stats.expon(scale=2))
    for a in (0.3, 1.0, 2.5, 40.0):
        agrees(run(r.gamma(key, LARGE, a, 0.5, dtype)), stats.gamma(a, scale=0.5))
    for a, b in ((0.5, 0.5), (2.0, 5.0), (0.05, 3.0)):
        found = run(r.beta(key, LARGE, a, b, dtype))
        assert found.dtype == dtype and (found >= 0).all() and (found <= 1).all()
        agrees(found, stats.beta(a, b))


@pytest.mark.parametrize("a", [1.0, 1.4, 6.0, 300.0, 1e5])
def test_a_number_of_the_gamma_distribution_moves_as_a_quantile(run, a):
    """At a probability p, by the inverse of the distribution: of a < 1, times a power."""
    x, slope = run(td.jvp(lambda a: r.gamma(r.key(5), 40, a), (a,), (1.0,)))
    p, h = special.gammainc(a, x), 1e-4 * math.sqrt(a)
    want = (special.gammaincinv(a + h, p) - special.gammaincinv(a - h, p)) / (2 * h)
    np.testing.assert_allclose(slope, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_of_derivatives_are_derivatives_of_means(run, dtype):
    """Of E log x = ψ(a), E x² = a (a + 1) and E x = a / (a + b): to five standard errors."""
    n = 4000

    def mean_and_derivative(f, at):
        at = dtype(at)
        slopes = run(td.jvp(f, (td.full(n, at),), (td.ones(n, dtype),))[1])
        assert slopes.dtype == dtype
        return slopes.mean(), 5 * slopes.std() / math.sqrt(n)

    for a in (0.2, 2.0, 30.0):
        for f, want in ((td.log, special.polygamma(1, a)), (td.square, 2 * a + 1)):
            found, error = mean_and_derivative(lambda a, f=f: f(r.gamma(KEY, n, a, 1.0, dtype)), a)
            assert abs(found - want) < error
    found, error = mean_and_derivative(lambda a: r.beta(KEY, n, a, 2.0, dtype), 3.0)
    assert abs(found - 2 / 25) < error


def test_second_derivatives_of_gamma_numbers(run):
    slope = td.grad(lambda a: td.mean(td.log(r.gamma(KEY, 4000, a))))
    assert abs(run(td.grad(slope)(3.0)) - special.polygamma(2, 3.0)) < 0.02
    slopes = td.map(td.grad(lambda a: r.gamma(KEY, (), a)), np.array([0.5, 2.0]))
    whole = [td.grad(lambda a: r.gamma(KEY, (), a))(a) for a in (0.5, 2.0)]
    np.testing.assert_allclose(run(slopes), [float(w) for w in whole], rtol=1e-12)


def test_exponential_is_a_function_of_uniform(run):
    u = (u64(500) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_allclose(run(r.exponential(KEY, 500, scale=3.0)), -3 * np.log1p(-u), 4e-15)


@pytest.mark.sample(3)
@pytest.mark.parametrize("mean", [0.01, 1.0, 9.9, 10.0, 33.3, 1000.0, 1e7])
def test_poisson(run, mean):
    found = run(r.poisson(r.key(3), LARGE, mean))
    assert found.dtype == np.int64
    law = stats.poisson(mean)
    assert abs(found.mean() - mean) < 5 * math.sqrt(mean / LARGE)
    assert abs(found.var() / mean - 1) < 0.1 + 5 / math.sqrt(LARGE * mean)
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    for edge in edges:  # of the empirical distribution, at every step
        share, p = (found <= edge).mean(), law.cdf(edge)
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / LARGE) + 1e-9


def test_parameters_may_be_arrays(run):
    a = np.array([-1.0, 0.0, np.inf, np.nan, 2.0])
    found = run(r.gamma(KEY, (3, 5), a))
    assert np.isnan(found[:, [0, 3]]).all() and (found[:, 1] == 0).all()
    assert np.isinf(found[:, 2]).all() and np.isfinite(found[:, 4]).all()
    found = run(r.poisson(KEY, (2, 6), np.array([-1.0, 0.0, np.inf, np.nan, 2.0, 1e10])))
    assert (found[:, [0, 2, 3]] == -1).all() and (found[:, 1] == 0).all()
    assert (abs(found[:, 5] - 1e10) < 1e6).all()
    x = run(r.normal(KEY, (2, 3), loc=np.array([0.0, 100.0, 1000.0]), scale=np.ones((2, 1))))
    assert (abs(x - [0, 100, 1000]) < 10).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [
    lambda k: r.bits(k, LARGE) >> 31, lambda k: r.integers(k, LARGE, 0, 2),
    lambda k: r.uniform(k, LARGE) < 0.5,
], ids=["bits", "integers", "uniform"])  # fmt: skip
def test_keys_and_neighbours_are_independent(run, make):
    x, y = (run(td.cast(make(k), td.float64)) * 2 - 1 for k in (r.split(KEY)[0], r.split(KEY)[1]))
    bound = 5 / math.sqrt(LARGE)
    assert abs((x * y).mean()) < bound
    for lag in (1, 2, 3, 4):
        assert abs((x[lag:] * x[:-lag]).mean()) < bound


def test_integers_are_uniform(run):
    counts = np.bincount(run(r.integers(r.key(5), LARGE, 0, 6)), minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-4
    # Two thirds of the range: a remainder would give half of the numbers twice the probability.
    found = run(r.integers(r.key(5), LARGE, 0, 3 * 2**30, np.uint32))
    assert stats.kstest(found.astype(float), stats.uniform(0, 3 * 2.0**30).cdf).pvalue > 1e-4


def test_choices_without_replacement_have_their_probabilities(run):
    p = np.array([0.5, 0.3, 0.2])
    keys = run(r.split(r.key(1), 300))
    f = td.jit(lambda key: r.choice(key, 3, 2, False, p=p))
    pairs = [tuple(f(key).tolist()) for key in keys]
    for i, j in ((0, 1), (1, 2), (2, 0)):
        want = p[i] * p[j] / (1 - p[i])
        assert abs(pairs.count((i, j)) / 300 - want) < 5 * math.sqrt(want / 300)


# --- mistakes --------------------------------------------------------------------------------


MISTAKES = [
    (lambda: r.uniform(0, 3), td.DTypeError, r"td\.random\.key\(0\)"),
    (lambda: r.uniform(np.array([1, 2]), 3), td.DTypeError, "int64"),
    (lambda: r.uniform(np.zeros(3, np.uint32), 3), td.ShapeError, "two numbers"),
    (lambda: r.uniform(r.split(r.key(0), 3), 3), td.ShapeError, "one key"),
    (lambda: r.uniform(r.key(0), 3, np.int32), td.DTypeError, "float32 or float64"),
    (lambda: r.uniform(r.key(0), 3, td.float16), td.DTypeError, "astype"),
    (lambda: r.bits(r.key(0), 3, np.int32), td.DTypeError, "unsigned"),
    (lambda: r.integers(r.key(0), 3, 5, 5), td.ShapeError, "no integers"),
    (lambda: r.integers(r.key(0), 3, 0, 300, np.uint8), td.DTypeError, "out of the range"),
    (lambda: r.integers(r.key(0), 3, 0.5, 3), td.DTypeError, "integer"),
    (lambda: r.integers(r.key(0), 3, 0, 3, np.float32), td.DTypeError, "uniform"),
    (lambda: r.poisson(r.key(0), 3, 1.0, np.uint8), td.DTypeError, "signed"),
    (lambda: r.key(0.5), td.DTypeError, "integer"),
    (lambda: r.choice(r.key(0), 3, 4, replace=False), td.ShapeError, "without replacement"),
    (lambda: r.choice(r.key(0), 3, 4, p=[0.5, 0.5]), td.ShapeError, "probabilities"),
    (lambda: r.choice(r.key(0), np.float64(3.5)), td.DTypeError, "integer"),
    (lambda: r.normal(r.key(0), (2, -1)), td.ShapeError, "negative"),
    (lambda: r.gamma(r.key(0), 3, np.ones(4)), td.ShapeError, "4"),
    (lambda: td.generate(3, lambda i: r.uniform(r.key(0), 3)), td.NestedParallelismError,
     "fold_in"),
    (lambda: td.generate(3, lambda i: r.permutation(r.key(0), 3)[i]), td.NestedParallelismError,
     "permutation"),
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["uniform", "exponential", "gamma", "poisson"])
def test_parameters_of_rank_0(backend, name):
    draw = {
        "uniform": lambda x: r.uniform(KEY, (2, 3), low=x),
        "exponential": lambda x: r.exponential(KEY, (2, 3), scale=x),
        "gamma": lambda x: r.gamma(KEY, (2, 3), x),
        "poisson": lambda x: r.poisson(KEY, (2, 3), x),
    }[name]
    f = td.jit(draw, backend=backend)
    assert np.array_equal(f(np.array(0.5)), f(0.5))


@pytest.mark.parametrize("wrong, error, said", MISTAKES)
def test_mistakes(wrong, error, said):
    with pytest.raises(error, match=said):
        td.run(wrong())


def test_a_key_of_three_numbers_is_refused_at_run_time(backend):
    f = td.jit(lambda key: r.uniform(key, 3), backend=backend)
    assert f(KEY).shape == (3,)
    with pytest.raises(td.ShapeError, match="two numbers"):
        f(np.zeros(3, np.uint32))
