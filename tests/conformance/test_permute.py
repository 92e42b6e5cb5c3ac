"""permute, scatter and counting: forward permutation with collisions."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import EXTENTS, INTEGERS, NUMBERS, assert_same, generator, small, to_host, wide


def plus(new, old):
    return new + old


@pytest.mark.parametrize("n", EXTENTS)
def test_histogram_by_permute(check, n):
    bins = generator("bins", n).integers(0, 50, n)
    one_bin = np.zeros(n, "i8")
    used, single = td.use(bins), td.use(one_bin)
    ones = np.ones(n, "i4")
    check(
        {
            "bins": (
                lambda: td.permute(plus, np.zeros(50, "i4"), lambda i: used[i], ones),
                np.bincount(bins, minlength=50).astype("i4"),
            ),
            "one bin": (
                lambda: td.permute(plus, np.full(2, 7, "i4"), lambda i: single[i], ones),
                np.array([7 + n, 7], "i4"),
            ),
            "filled": (
                lambda: td.permute(plus, td.fill((50,), 0), lambda i: used[i], td.fill((n,), 1)),
                np.bincount(bins, minlength=50),
            ),
        }
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NUMBERS)
def test_combinations_by_type(check, name):
    a = small(name, 257, low=0, high=3)
    bins = generator("types").integers(0, 9, 257)
    used = td.use(bins)
    start = small(name, 9, 1, 0, 3)
    sums = start.copy()
    for b, x in zip(bins, a, strict=True):
        sums[b] = sums[b] + x
    cases = {"+": (lambda: td.permute(plus, start, lambda i: used[i], a), sums)}
    if not name.startswith("complex"):
        a2 = small(name, 257, 2, -100, 100)
        least, most = start.copy(), start.copy()
        np.minimum.at(least, bins, a2)
        np.maximum.at(most, bins, a2)
        cases |= {
            "minimum": (
                lambda: td.permute(lambda n, o: td.minimum(n, o), start, lambda i: used[i], a2),
                least,
            ),
            "maximum": (
                lambda: td.permute(lambda n, o: td.maximum(n, o), start, lambda i: used[i], a2),
                most,
            ),
        }
    if name in INTEGERS:
        w = wide(name, 257)
        product, both, either, odd = (start + 1, start + 1, start.copy(), start.copy())
        np.multiply.at(product, bins, w | 1)
        np.bitwise_and.at(both, bins, w)
        np.bitwise_or.at(either, bins, w)
        np.bitwise_xor.at(odd, bins, w)
        total = start.copy()
        np.add.at(total, bins, w)
        cases |= {
            "wrapping +": (lambda: td.permute(plus, start, lambda i: used[i], w), total),
            "*": (
                lambda: td.permute(lambda n, o: n * o, start + 1, lambda i: used[i], w | 1),
                product,
            ),
            "&": (lambda: td.permute(lambda n, o: n & o, start + 1, lambda i: used[i], w), both),
            "|": (lambda: td.permute(lambda n, o: n | o, start, lambda i: used[i], w), either),
            "^": (lambda: td.permute(lambda n, o: n ^ o, start, lambda i: used[i], w), odd),
            "general": (  # no hardware atomic does this one
                lambda: td.permute(
                    lambda n, o: td.maximum(n, o) + td.minimum(n, o), start, lambda i: used[i], w
                ),
                total,
            ),
        }
    check(cases)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(40, 30, 3), (500, 4), (0, 7, 2), (3, 0, 5), (9, 11, 9)])
def test_channels(check, shape):
    """Short last axes: by channel, of another pixel, with values of their own."""
    image = generator("channels", shape).integers(0, 16, shape)
    a, width, channels = td.use(image), shape[-2], shape[-1]
    count = np.zeros((channels, 16), int)
    np.add.at(count, (np.broadcast_to(np.arange(channels), shape), image), 1)
    weighted = np.zeros((16, channels), int)
    beside = image[..., np.minimum(np.arange(width) + 1, width - 1), :]
    np.add.at(weighted, (beside, np.broadcast_to(np.arange(channels), shape)), 3 * image + 1)
    last = len(shape) - 1

    def right(i):
        return (*i[:-2], td.minimum(i[-2] + 1, width - 1), i[-1])

    zeros = np.zeros((channels, 16), int)
    ones = td.fill(shape, 1)
    check(
        {
            "by channel": (lambda: td.permute(plus, zeros, lambda *i: (i[last], a[i]), ones),
                           count),
            "in order": (lambda: td.permute(plus, zeros, lambda *i: (i[last], a[i]), ones,
                                            deterministic=True), count),
            "beside": (lambda: td.permute(plus, zeros.T.copy(),
                                          lambda *i: (a[right(i)], i[last]), 3 * a + 1), weighted),
            "columns": (lambda: td.permute(plus, zeros, lambda *i: (i[last], a[i]), ones,
                                           schedule=td.schedule.Column(2)), count),
        }
    )  # fmt: skip


def test_ignore(check):
    x = small("int32", 5000, low=-50, high=50)
    ux = td.use(x)
    zeros = np.zeros(50, "i8")
    ones = np.ones(5000, "i8")
    positive = np.bincount(x[x > 0], minlength=50)
    i, j = np.indices((60, 70))
    matrix = small("int64", (60, 70), high=100)
    triangle = np.where(i >= j, matrix, 0)[:, :60]
    check(
        {
            "always": (
                lambda: td.permute(plus, np.arange(50), lambda i: td.ignore, ones),
                np.arange(50),
            ),
            "where": (
                lambda: td.permute(
                    plus, zeros, lambda i: td.where(ux[i] > 0, ux[i], td.ignore), ones
                ),
                positive,
            ),
            "where, ignored first": (
                lambda: td.permute(
                    plus, zeros, lambda i: td.where(ux[i] <= 0, td.ignore, ux[i]), ones
                ),
                positive,
            ),
            "cond": (
                lambda: td.permute(
                    plus, zeros, lambda i: td.cond(ux[i] > 0, ux[i], td.ignore), ones
                ),
                positive,
            ),
            "nested": (
                lambda: td.permute(
                    plus,
                    zeros,
                    lambda i: td.cond(
                        ux[i] > 0, td.where(ux[i] % 2 == 0, ux[i], td.ignore), td.ignore
                    ),
                    ones,
                ),
                np.where(np.arange(50) % 2 == 0, positive, 0),
            ),
            "tuple by where": (
                lambda: td.permute(
                    plus,
                    np.zeros((60, 60), "i8"),
                    lambda i, j: td.where(i >= j, (i, j), td.ignore),
                    matrix,
                ),
                triangle,
            ),
            "tuple by cond": (
                lambda: td.permute(
                    plus,
                    np.zeros((60, 60), "i8"),
                    lambda i, j: td.cond(j > i, td.ignore, (i, j)),
                    matrix,
                ),
                triangle,
            ),
            "of no columns": (
                lambda: td.permute(
                    plus,
                    np.ones((60, 60), "i8"),
                    lambda i, j: td.cond(j > 3, (i, j), td.ignore),
                    td.zeros((60, 0), dtype=td.int64),
                ),
                np.ones((60, 60), "i8"),
            ),
            "into nothing": (
                lambda: td.permute(plus, zeros[:0], lambda i: td.ignore, ones),
                zeros[:0],
            ),
        }
    )


def test_targets_of_every_rank(check):
    a = small("int64", (6, 7), high=100)
    v = small("int64", 42, high=100)
    diagonals = np.zeros(12, "i8")
    for (i, j), x in np.ndenumerate(a):
        diagonals[i + j] += x
    check(
        {
            "transpose": (
                lambda: td.permute(plus, np.zeros((7, 6), "i8"), lambda i, j: (j, i), a),
                a.T,
            ),
            "rank 2 to 1": (
                lambda: td.permute(plus, np.zeros(12, "i8"), lambda i, j: i + j, a),
                diagonals,
            ),
            "rank 1 to 2": (
                lambda: td.permute(plus, np.zeros((6, 7), "i8"), lambda i: (i // 7, i % 7), v),
                v.reshape(6, 7),
            ),
            "rank 2 to 0": (
                lambda: td.permute(plus, np.array(5), lambda i, j: (), a),
                np.array(5 + a.sum()),
            ),
            "reversal of a computed source": (
                lambda: td.permute(plus, td.fill((42,), 0), lambda i: 41 - i, td.use(v) * 2),
                v[::-1] * 2,
            ),
        }
    )


def test_argument_order_and_casting(check):
    """`combine(new, old)`; the result has the type of `defaults`."""
    a = np.arange(5)
    old = np.array([100, 200, 300, 400, 500])
    floats = np.array([1.75, -2.75, 3.0, 300.0, np.nan])
    check(
        {
            "new - old": (
                lambda: td.permute(lambda n, o: n - 2 * o, old, lambda i: 4 - i, a),
                a[::-1] - 2 * old,
            ),
            "new": (lambda: td.permute(lambda n, o: n, old, lambda i: i, a), a),
            "old": (lambda: td.permute(lambda n, o: o, old, lambda i: i, a), old),
            "int64 into int8": (
                lambda: td.permute(td.overwrite, np.zeros(5, "i1"), lambda i: i, a + 254),
                (a + 254).astype("i1"),
            ),
            "float64 into int8": (
                lambda: td.permute(td.overwrite, np.zeros(5, "i1"), lambda i: i, floats),
                np.array([1, -2, 3, 127, 0], "i1"),
            ),
            "int into float32": (
                lambda: td.permute(plus, np.full(5, 0.5, "f4"), lambda i: i, a),
                (a + 0.5).astype("f4"),
            ),
        }
    )


def test_overwrite_without_collisions(check):
    permutation = generator("shuffle").permutation(70001)
    used = td.use(permutation)
    a = wide("int32", 70001)
    want = np.empty_like(a)
    want[permutation] = a
    check(
        {
            "permutation": (
                lambda: td.permute(td.overwrite, np.zeros(70001, "i4"), lambda i: used[i], a),
                want,
            ),
            "into a larger array": (
                lambda: td.permute(
                    td.overwrite, np.arange(20, dtype="i4"), lambda i: 2 * i + 1, a[:10]
                ),
                np.stack([np.arange(0, 20, 2, dtype="i4"), a[:10]], 1).reshape(-1),
            ),
            "strings of bools": (
                lambda: td.permute(td.overwrite, np.zeros(10, bool), lambda i: 9 - i, a[:10] > 0),
                (a[:10] > 0)[::-1],
            ),
        }
    )


def test_colliding_overwrites_keep_one_whole_value(run):
    """Never a mix of two tuples, never a value that was not written."""
    n, bins = 70001, 7
    target = generator("overwrite").integers(0, bins, n)
    used = td.use(target)
    k = np.arange(n)
    source = td.zip(k, (k * 3 % 251).astype("u1"), k * 0.5, (k % 2 == 0))
    defaults = td.zip(
        np.full(bins + 1, -1), np.zeros(bins + 1, "u1"), np.zeros(bins + 1), np.ones(bins + 1, bool)
    )
    ids, small_ids, halves, even = run(
        td.permute(td.overwrite, defaults, lambda i: used[i], source)
    )
    assert (target[ids[:bins]] == np.arange(bins)).all()
    assert ids[bins] == -1
    assert_same(small_ids[:bins], (ids[:bins] * 3 % 251).astype("u1"))
    assert_same(halves[:bins], ids[:bins] * 0.5)
    assert_same(even[:bins], ids[:bins] % 2 == 0)


def best(new, old):
    """The larger key; of equal keys the smaller place."""
    key, place = new
    other_key, other_place = old
    better = (key > other_key) | ((key == other_key) & (place < other_place))
    return td.where(better, key, other_key), td.where(better, place, other_place)


@pytest.mark.parametrize("n", (0, 1, 33, 5000, 70001))
def test_tuple_combination_is_never_torn(check, n):
    rng = generator("tuples", n)
    bins = rng.integers(0, 5, n)
    keys = rng.integers(0, 1000, n).astype("f4")
    used = td.use(bins)
    want_keys, want_places = np.full(6, -1, "f4"), np.full(6, 10**9)
    for b in range(5):
        places = np.flatnonzero(bins == b)
        if places.size:
            first = places[np.argmax(keys[places])]
            want_keys[b], want_places[b] = keys[first], first
    check(
        {
            "largest, first": (
                lambda: td.permute(
                    best,
                    td.zip(np.full(6, -1, "f4"), np.full(6, 10**9)),
                    lambda i: used[i],
                    td.zip(keys, np.arange(n)),
                ),
                (want_keys, want_places),
            ),
            "sums of three": (
                lambda: td.permute(
                    lambda new, old: (new[0] + old[0], new[1] + old[1], new[2] | old[2]),
                    td.zip(np.zeros(6, "i8"), np.zeros(6, "i2"), np.zeros(6, bool)),
                    lambda i: used[i],
                    td.zip(np.arange(n), np.ones(n, "i2"), keys > 990),
                ),
                (
                    np.bincount(bins, np.arange(n), 6).astype("i8"),
                    np.bincount(bins, minlength=6).astype("i2"),
                    np.bincount(bins, keys > 990, 6) > 0,
                ),
            ),
        }
    )


def test_defaults_are_unchanged_for_other_readers(run):
    host = np.arange(9)
    before = host.copy()
    defaults = td.use(host)
    shared = defaults * 2
    once = td.permute(plus, shared, lambda i: i % 9, np.ones(100, "i8"))
    twice = td.permute(td.overwrite, shared, lambda i: 8 - i, td.use(host))
    first, second, third, fourth = run((once, twice, shared, defaults))
    assert_same(first, before * 2 + np.bincount(np.arange(100) % 9))
    assert_same(second, before[::-1].copy())
    assert_same(third, before * 2)
    assert_same(fourth, before)
    direct = run(td.permute(plus, host, lambda i: i % 9, np.ones(100, "i8")))
    assert_same(direct, before + np.bincount(np.arange(100) % 9))
    assert_same(host, before, label="the caller's array")


def test_permute_into_a_permute(check):
    """A permuted array feeds kernels and another permute."""
    x = generator("twice").integers(0, 40, 3000)
    used = td.use(x)

    def program():
        counts = td.permute(plus, td.fill((40,), 0), lambda i: used[i], td.fill((3000,), 1))
        total = td.permute(plus, td.fill((10,), 0), lambda i: i // 4, counts * 10)
        return total, counts + 1, td.sum(counts)

    counts = np.bincount(x, minlength=40)
    check({"twice": (program, (counts.reshape(10, 4).sum(1) * 10, counts + 1, counts.sum()))})


def test_scatter(check):
    defaults = np.arange(10, dtype="i4") * 100
    indices = np.array([3, 7, 1], "i8")
    a = np.array([1, 2, 3], "i4")
    replaced = defaults.copy()
    replaced[indices] = a
    many = generator("scatter").integers(0, 10, 5000).astype("i4")
    summed = defaults + np.bincount(many, minlength=10).astype("i4")
    check(
        {
            "overwrite": (lambda: td.scatter(defaults, indices, a), replaced),
            "combine": (lambda: td.scatter(defaults, many, np.ones(5000, "i4"), plus), summed),
            "by name": (
                lambda: td.scatter(defaults, many, np.ones(5000, "i4"), combine=plus),
                summed,
            ),
            "nothing": (lambda: td.scatter(defaults, indices[:0], a[:0]), defaults),
        }
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", INTEGERS)
def test_bincount(check, name):
    x = generator("bincount").integers(0, 100, 5000).astype(name)
    weights = small("float32", 5000)
    few = np.array([3, 1, 3], name)
    check(
        {
            "plain": (lambda: td.bincount(x), np.bincount(x.astype("i8"))),
            "few": (lambda: td.bincount(few), np.array([0, 1, 0, 2])),
            "minlength": (lambda: td.bincount(few, minlength=6), np.array([0, 1, 0, 2, 0, 0])),
            "smaller minlength": (lambda: td.bincount(few, minlength=2), np.array([0, 1, 0, 2])),
            "weights": (
                lambda: td.bincount(x, weights=weights),
                np.bincount(x.astype("i8"), weights),
            ),
            "int weights": (
                lambda: td.bincount(few, weights=np.array([5, 6, 7])),
                np.array([0, 6.0, 0, 12]),
            ),
            "length": (lambda: td.bincount(few, length=5), np.array([0, 1, 0, 2, 0])),
            "length and weights": (
                lambda: td.bincount(few, weights=np.array([0.5, 1, 2]), length=4),
                np.array([0, 1, 0, 2.5]),
            ),
            "empty": (lambda: td.bincount(x[:0]), np.zeros(0, "i8")),
            "empty, minlength": (lambda: td.bincount(x[:0], minlength=3), np.zeros(3, "i8")),
            "used downstream": (lambda: td.sum(td.bincount(x) * 2), np.array(10000)),
        }
    )


def test_values_without_a_bin_are_dropped_and_reported_in_checked_mode(backend):
    x = np.array([1, 9, -1, 0, 1])
    count = td.jit(lambda a: td.bincount(a, length=3), backend=backend)
    assert_same(count(x), np.array([1, 2, 0]))
    assert_same(count(x[[2, 0]]), np.array([0, 1, 0]))
    for given in (x[:2], x[2:]):
        with td.config(check=True), pytest.raises(IndexError, match="bincount"):
            count(given)
        with pytest.raises(td.IndexOutOfBounds, match=r"no bin for 9|must not be negative"):
            td.bincount(given, length=3)
        with pytest.raises(IndexError, match="bincount"):
            td.run(td.bincount(td.use(given) * 1, length=3), backend=backend, check=True)
    counts, _ = td.run(td.histogram(np.array([0.5, 7.0, -3.0]), 2, (0, 1)), check=True)
    assert_same(counts, np.array([0, 1]))


def test_combinations_of_more_than_one_operator(backend):
    """Conditions, loops, reads and the numbers of a call, where places are met again and again."""
    keys, values = small("int64", 200, low=0, high=5), small("int64", 200, low=0, high=9)
    table = np.arange(9)
    sums, most = np.zeros(5, "i8"), np.zeros(5, "i8")
    np.add.at(sums, keys, values)
    np.maximum.at(most, keys, values)

    def program(keys, values, table, cap):
        def into(combine):
            return td.permute(combine, td.zeros(5, dtype=td.int64), lambda i: keys[i], values)

        return (
            into(lambda new, old: td.cond(new > old, new, old)),
            into(lambda new, old: td.minimum(new + old, cap)),
            into(lambda new, old: td.minimum(new + old, keys.shape[0])),
            into(lambda new, old: td.where(table[new] > table[old], new, old)),
            into(lambda new, old: td.maximum(old, td.cond(new < 9, table[new], new))),
            into(lambda new, old: old + td.loop(new, lambda k, s: s + 1, td.int64(0))),
        )

    few, all_keys = np.minimum(sums, 50), np.minimum(sums, 200)
    got = td.jit(program, backend=backend)(keys, values, table, 50)
    assert_same(tuple(to_host(g) for g in got), (most, few, all_keys, most, most, sums))


def test_counts_of_bytes_have_a_constant_extent(run):
    x = np.random.default_rng(3).integers(0, 256, 500).astype("u1")
    for bins, constant in ((256, True), (300, True), (255, False), (0, False)):
        counts = td.jit(lambda x, n=bins: (td.bincount(x, minlength=n), 0))
        program = td.jit(lambda x, n=bins: td.bincount(x, minlength=n)).lower(x)
        assert (program.explain().count("by maximum") == 0) == constant
        assert_same(counts(x)[0], np.bincount(x, minlength=bins))
        assert_same(run(td.bincount(td.use(x) + 0, minlength=bins)), counts(x)[0])
