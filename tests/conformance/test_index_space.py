"""Index space: what moves elements without computing (docs/reference.md, "Index space")."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import treadle as td

from .helpers import DTYPES, EXTENTS, assert_same, small, wide

SHAPES = ((5, 7), (1, 1), (0, 3), (3, 0), (33, 2))

# What stands between the brackets, by rank.
SLICES = {
    1: (
        "1:-1",
        ":",
        "::-1",
        "::2",
        "1::3",
        "-3:",
        ":-3",
        "5:2",
        "100:",
        ":100",
        "-100:3",
        "::-2",
        "7:1:-2",
        "-2::-1",
        "None",
        "None, ::2",
        ":, None",
        "...",
        "..., None",
        "0:0",
        "3:4",
    ),
    2: (
        "1:-1, ::2",
        "::-1, ::-1",
        "1:",
        ":, 1:-1",
        "..., ::-2",
        "None",
        ":, None",
        ":, None, ::-1",
        "..., None",
        "::3, 1::-1",
        "2:0:-1, 5:100",
        "..., 1:1",
        "None, ..., None, 1:",
        "-2:, -100:-1",
        ":100, 100:",
    ),
    3: (
        "1:, ::-1",
        "..., ::2",
        ":, ..., 0:1",
        "::-1, :, 1:",
        "::2, None, 1:, ::-3",
        "..., None, :",
    ),
}
# With integers, that every non-empty array here has.
INTEGERS_IN_SLICES = {
    1: ("0", "-1", "3"),
    2: (
        "0",
        "-1",
        ":, 2",
        "2, 1:",
        "1, -1",
        "-2, -3",
        "..., 0",
        "None, 1",
        "1, None, ::-1",
        "0, ...",
    ),
    3: ("1", "..., 2", ":, -1, ::-1", "0, 1, 2", "1, ..., 2", "0, :, None, 1", "-1, 0"),
}


def take_slice(a, text):
    return eval(f"a[{text}]", {"a": a})


@pytest.mark.sample(1)
@pytest.mark.parametrize("rank", (1, 2, 3))
def test_basic_slicing(check, rank):
    shapes = {
        1: ((7,), (1,), (0,), (33,)),
        2: ((5, 7), (1, 4), (0, 3), (3, 1)),
        3: ((2, 3, 5), (1, 4, 0)),
    }[rank]
    cases = {}
    for shape in shapes:
        a = small("int32", shape)
        for text in SLICES[rank]:
            cases[f"{shape}[{text}]"] = (
                lambda a=a, t=text: take_slice(td.use(a), t),
                take_slice(a, text),
            )
    a = small("int32", {1: (7,), 2: (5, 7), 3: (2, 3, 5)}[rank], 1)
    for text in INTEGERS_IN_SLICES[rank]:
        cases[f"integer [{text}]"] = (lambda t=text: take_slice(td.use(a), t), take_slice(a, text))
    check(cases)


STEPS = (1, 2, 3, 7, 30, -1, -2, -5, -30, 2**63 - 1, 1 - 2**63)


@pytest.mark.parametrize("start", [None, 0, 3, -2, 25, -25])
@pytest.mark.parametrize("stop", [None, 0, 3, -2, 25, -25])
def test_slices_of_run_time_steps(backend, start, stop):
    a = np.arange(40).reshape(20, 2)
    read = td.jit(lambda a, k: a[start:stop:k], backend=backend)
    written = td.jit(lambda a, k: a.at[start:stop:k, 1].set(-1), backend=backend)
    for step in STEPS:
        wanted = a.copy()
        wanted[start:stop:step, 1] = -1
        np.testing.assert_array_equal(read(a, step), a[start:stop:step])
        np.testing.assert_array_equal(written(a, step), wanted)
    if start is not None and stop is not None:
        whole = td.jit(lambda a, i, j, k: a[i:j:k], backend=backend)
        for step in STEPS:
            np.testing.assert_array_equal(whole(a, start, stop, step), a[start:stop:step])


def test_steps_of_slices_that_are_computed(backend):
    """By extents, by elements, by counters of loops (the sieve of Eratosthenes)."""
    a = np.arange(20.0)
    f = td.jit(lambda a, v: (a[:: a.shape[0] // 3], a[:: td.sum(v)]), backend=backend)
    for found, step in zip(f(a, np.array([1, 3])), (6, 4), strict=True):
        np.testing.assert_array_equal(found, a[::step])

    def sieve(n):
        start = td.ones((n,), bool).at[:2].set(False)
        return td.loop(2, 32, lambda i, f: f.at[i * i :: i].set(False), start)

    primes = [n for n in range(2, 1000) if all(n % k for k in range(2, n))]
    assert np.flatnonzero(td.jit(sieve, backend=backend)(1000)).tolist() == primes


def test_derivatives_of_slices_of_run_time_steps(backend):
    slope = td.jit(td.grad(lambda a, k: td.sum(a[1::k] ** 2)), backend=backend)
    for step in (2, 3, -1):
        wanted = np.zeros(9)
        wanted[1::step] = 2 * np.arange(9.0)[1::step]
        np.testing.assert_array_equal(slope(np.arange(9.0), step), wanted)


def test_slices_of_run_time_extents(backend):
    """One compiled program clips the bounds to whatever extent arrives."""

    @td.jit(backend=backend)
    def program(a):
        return [a[2:5], a[-3:], a[::-1], a[:-2], a[10:3:-3], a[::2], a[40:]]

    for n in EXTENTS:
        a = wide("int64", n)
        want = [a[2:5], a[-3:], a[::-1], a[:-2], a[10:3:-3], a[::2], a[40:]]
        assert_same(program(a), want, label=f"extent {n}")


ONE_WIDE = {
    "-1:": (lambda a: a - a[:, -1:]),
    "rows -1:": (lambda a: a[-1:] + a),
    ":1": (lambda a: a - a[:, :1]),
    "-2:-1": (lambda a: a * a[:, -2:-1]),
    "k:k + 1": (lambda a: a + a[1:2]),
    "n - 1:": (lambda a: a * a[:, a.shape[1] - 1 :]),
    "of a slice": (lambda a: a[1:, 1:] - a[1:, 1:][:, -1:]),
    "transposed": (lambda a: a.T - a.T[-1:]),
    "alone": (lambda a: a[-1:]),
    "both one wide": (lambda a: a[:, -1:] * 2 + a[:, :1]),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ONE_WIDE)
def test_slices_of_one_element_at_most_broadcast(backend, name):
    """The last column, kept as a column, as in NumPy: in one trace for all extents but 1."""
    program = td.jit(ONE_WIDE[name], backend=backend)
    for shape in ((3, 7), (2, 2), (5, 5), (1, 4), (4, 1), (1, 1), (3, 0), (0, 7), (0, 0)):
        a = wide("int64", shape)
        want = ONE_WIDE[name](a)
        assert_same(program(a), want, label=f"{shape}")
        again = td.run(ONE_WIDE[name](td.use(a)), backend=backend)
        assert_same(again, want, label=f"{shape}, run")


def test_a_scalar_counts_from_the_end_in_slices_of_one_element(backend):
    program = td.jit(lambda a, k: (a[k : k + 1], a + a[k : k + 1]), backend=backend)
    for n in (2, 5):
        a = wide("int64", n)
        for k in (*range(n), -2):
            assert_same(program(a, k), (a[k : k + 1], a + a[k : k + 1]), label=f"{n}, {k}")
        assert_same(td.jit(lambda a, k: a[-7:k], backend=backend)(a, -1), a[-7:-1])
        with pytest.raises(td.ShapeError, match="an operand is empty"):
            program(a, -1)  # a[-1:0]


def test_other_extents_that_happen_to_be_one_do_not_broadcast(backend):
    said = "extent 1 in one operand and 3 in another.  It is 1 only at run time: extents that"
    for body in (lambda a: a[2:] + a, lambda a: a[::3] + a):
        with pytest.raises(td.ShapeError, match=said):
            td.jit(body, backend=backend)(np.ones(3))
        stored = pickle.loads(pickle.dumps(td.jit(body, backend=backend).lower(np.ones(4))))
        with pytest.raises(td.ShapeError, match=said):
            stored(np.ones(3))
    narrow = td.jit(lambda a, n: a + a[:, :n], backend=backend)
    with pytest.raises(td.ShapeError, match=r"only at run time(.|\n)*td\.reshape"):
        narrow(np.ones((2, 3)), 1)
    with pytest.raises(td.ShapeError, match=r"extent 3 in one operand and 2 in another\.\n"):
        narrow(np.ones((2, 3)), 2)
    shown = td.jit(lambda a, n: a + td.reshape(a[:, :n], (-1, 1)), backend=backend)
    assert_same(shown(np.ones((2, 3)), 1), np.full((2, 3), 2.0))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", DTYPES)
def test_every_type_moves(check, name):
    a = wide(name, (5, 6))
    check(
        {
            "slice": (lambda: td.use(a)[::-2, 1:], a[::-2, 1:]),
            "transpose": (lambda: td.transpose(a), a.T),
            "reshape": (lambda: td.reshape(a, (3, 10)), a.reshape(3, 10)),
            "concatenate": (lambda: td.concatenate([a, a[:2]]), np.concatenate([a, a[:2]])),
            "roll": (lambda: td.roll(a, 2, 1), np.roll(a, 2, 1)),
            "pad": (lambda: td.pad(a, 1), np.pad(a, 1)),
            "gather": (lambda: td.gather(a, np.array([4, 0, 4])), a[[4, 0, 4]]),
        }
    )


def test_reshape_and_flatten(check):
    cases = {}
    for source, target in (
        ((12,), (3, 4)),
        ((3, 4), (2, 6)),
        ((2, 3, 4), (24,)),
        ((6,), (1, 6, 1)),
        ((1, 1), ()),
        ((), (1,)),
        ((0, 3), (5, 0)),
        ((3, 4), (2, -1)),
        ((3, 4), (-1,)),
        ((3, 4), -1),
    ):
        a = small("int64", source)
        cases[f"{source} to {target}"] = (lambda a=a, t=target: td.reshape(a, t), a.reshape(target))
    for shape in ((), (0,), (3, 4), (2, 0, 3), (2, 3, 4)):
        a = small("int16", shape)
        cases[f"flatten {shape}"] = (lambda a=a: td.flatten(a), a.reshape(-1))
    a = small("int64", (4, 6))
    cases["of a transpose"] = (lambda: td.reshape(td.use(a).T, (3, 8)), a.T.reshape(3, 8))
    cases["of a slice"] = (lambda: td.flatten(td.use(a)[::2, ::-1]), a[::2, ::-1].reshape(-1))
    check(cases)


def test_transpose(check):
    cases = {}
    for shape in ((), (3,), (5, 7), (0, 3), (1, 4), (33, 65), (2, 3, 4), (2, 3, 4, 5)):
        a = wide("int64", shape)
        cases[f"{shape}"] = (lambda a=a: td.transpose(a), np.transpose(a))
        cases[f"T {shape}"] = (lambda a=a: td.use(a).T, a.T)
    a = wide("int64", (2, 3, 4))
    for axes in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0), (-1, 0, -2)):
        cases[f"axes {axes}"] = (lambda x=axes: td.transpose(a, x), np.transpose(a, axes))
    cases["axes by name"] = (lambda: td.transpose(a, axes=(2, 1, 0)), a.T)
    check(cases)


def test_broadcast_to_and_replicate(check):
    cases = {}
    for source, target in (
        ((), (3,)),
        ((1,), (4,)),
        ((3,), (2, 3)),
        ((3, 1), (3, 5)),
        ((1, 3), (0, 3)),
        ((2, 1, 3), (4, 2, 5, 3)),
        ((0,), (2, 0)),
    ):
        a = small("int32", source)
        cases[f"{source} to {target}"] = (
            lambda a=a, t=target: td.broadcast_to(a, t),
            np.broadcast_to(a, target).copy(),
        )
    a = small("int32", (2, 3))
    for n in (0, 1, 4):
        for axis in (0, 1, 2, -1):
            want = np.repeat(np.expand_dims(a, axis), n, axis)
            cases[f"replicate {n} at {axis}"] = (lambda n=n, x=axis: td.replicate(a, n, x), want)
    cases["replicate rank 0"] = (
        lambda: td.replicate(np.array(5, "i2"), 3, axis=0),
        np.full(3, 5, "i2"),
    )
    check(cases)


def test_a_shift_is_an_integer(backend):
    """A truth value given at a call is refused as a literal one is."""
    for shift in (True, np.float32(1)):
        with pytest.raises(td.DTypeError, match="roll needs an integer index"):
            td.roll(np.arange(3), shift)
        with pytest.raises(td.DTypeError, match="roll needs an integer index"):
            td.jit(lambda a, n: td.roll(a, n), backend=backend)(np.arange(3), shift)


def test_reverse_and_roll(check):
    cases = {}
    for shape in ((7,), (0,), (1,), (3, 5), (0, 4), (2, 3, 4)):
        a = small("int32", shape)
        for axis in (*range(len(shape)), -1):
            cases[f"reverse {shape} {axis}"] = (
                lambda a=a, x=axis: td.reverse(a, x),
                np.flip(a, axis).copy(),
            )
            for shift in (0, 2, -3, 100):
                cases[f"roll {shape} {shift} {axis}"] = (
                    lambda a=a, s=shift, x=axis: td.roll(a, s, axis=x),
                    np.roll(a, shift, axis),
                )
        cases[f"roll {shape} flat"] = (lambda a=a: td.roll(a, 2), np.roll(a, 2))
    a = small("int32", (4, 5))
    cases["roll two axes"] = (lambda: td.roll(a, (1, -2), axis=(0, 1)), np.roll(a, (1, -2), (0, 1)))
    check(cases)


def test_reads_of_an_axis_without_elements(backend):
    """At indices that depend on data, none of which is in range, in unchecked programs, too."""
    i, row, full = np.array([0, 0]), np.zeros((2, 0)), np.ones((4, 3))
    readers = {
        "gather": lambda a, i: td.gather(a, i),
        "take": lambda a, i: td.sum(td.take(a, i, axis=0)),
        "clipped": lambda a, i: td.take(a, i, axis=0, mode="clip"),
        "wrapped": lambda a, i: td.take(a, i, axis=0, mode="wrap"),
        "index": lambda a, i: a[i] + 1,
        "two": lambda a, i: a[i, i],
        "backpermute": lambda a, i: td.backpermute(
            (i.shape[0], a.shape[1]), lambda j, k: (i[j], k), a
        ),
    }
    for name, function in readers.items():
        program = td.jit(function, backend=backend)
        with pytest.raises(td.IndexOutOfBounds, match="axis 0 has no elements") as caught:
            program(full[:0], i)
        assert "lambda a, i:" in str(caught.value), name
        assert np.array_equal(program(full, i), td.jit(function, backend="reference")(full, i))
        program(full[:0], i[:0])
        if name != "two":
            program(row[:0], i)
    guarded = td.jit(lambda a, i: td.cond(a.shape[0] > 0, a[i], td.zeros((2, 3))), backend=backend)
    for a in (full[:0], full):
        assert np.array_equal(guarded(a, i), np.ones((2, 3)) * (len(a) > 0))
    with pytest.raises(td.IndexOutOfBounds, match="axis 0"):
        td.run(td.gather(full[:0], i), backend=backend)


def test_take_and_gather(check):
    a = small("int64", (4, 5, 3), high=1000)
    indices = np.array([3, 0, 0, 2], "i4")
    grid = np.array([[0, 2], [1, 1], [2, 0]])
    v = wide("float32", 257)
    where = small("uint8", 1000, high=255)
    cases = {}
    for axis in (0, 1, 2, -1):
        bounded = indices % a.shape[axis]
        cases[f"take {axis}"] = (
            lambda i=bounded, x=axis: td.take(a, i, x),
            np.take(a, bounded, axis),
        )
        cases[f"gather {axis}"] = (
            lambda i=bounded, x=axis: td.gather(a, i, axis=x),
            np.take(a, bounded, axis),
        )
        cases[f"take grid {axis}"] = (
            lambda x=axis: td.take(a, grid, axis=x),
            np.take(a, grid, axis),
        )
    empty = np.zeros(0, "i8")
    cases |= {
        "gather": (lambda: td.gather(v, where), v[where]),
        "no indices": (lambda: td.gather(v, empty), v[:0]),
        "none of none": (lambda: td.gather(v[:0], empty), v[:0]),
        "computed indices": (
            lambda: td.gather(v, td.map(lambda i: i * i % 257, td.iota(300))),
            v[np.arange(300) ** 2 % 257],
        ),
    }
    check(cases)


def test_concatenate_and_stack(check):
    a, b, c = (small("int32", (n, 3), n) for n in (2, 0, 5))
    x, y = small("int8", 4, 1), small("float32", 4, 2)
    big = [wide("int64", n, n) for n in (31, 5000, 0, 1, 70001)]
    check(
        {
            "axis 0": (lambda: td.concatenate([a, b, c]), np.concatenate([a, b, c])),
            "axis 1": (lambda: td.concatenate([a.T, c.T], axis=1), np.concatenate([a.T, c.T], 1)),
            "axis -1": (lambda: td.concatenate((a.T, b.T), axis=-1), np.concatenate([a.T, b.T], 1)),
            "one": (lambda: td.concatenate([a]), a),
            "types": (lambda: td.concatenate([x, y]), np.concatenate([x, y])),
            "large": (lambda: td.concatenate(big), np.concatenate(big)),
            "of computed": (
                lambda: td.concatenate([td.use(a) + 1, td.reverse(c, 0)]),
                np.concatenate([a + 1, c[::-1]]),
            ),
            "stack 0": (lambda: td.stack([x, x + 1]), np.stack([x, x + 1])),
            "stack 1": (lambda: td.stack([x, x + 1, x], axis=1), np.stack([x, x + 1, x], 1)),
            "stack -1": (lambda: td.stack([a, a], axis=-1), np.stack([a, a], -1)),
            "stack types": (lambda: td.stack([x, y]), np.stack([x, y])),
            "stack rank 0": (lambda: td.stack([td.unit(1), td.unit(2)]), np.array([1, 2])),
        }
    )


PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", PAD_MODES)
def test_pad(check, mode):
    cases = {}
    for shape, width in (
        ((5,), 2),
        ((5,), (1, 3)),
        ((5,), (0, 0)),
        ((2,), (7, 9)),
        ((1,), (3, 2)),
        ((3, 4), 1),
        ((3, 4), ((2, 0), (1, 5))),
        ((1, 2), ((4, 4), (5, 5))),
        ((2, 3, 2), ((1, 0), (0, 2), (3, 3))),
    ):
        a = small("int32", shape, high=99)
        cases[f"{shape} {width}"] = (
            lambda a=a, w=width: td.pad(a, w, mode=mode),
            np.pad(a, width, mode=mode),
        )
    check(cases)


@pytest.mark.parametrize("mode", ("edge", "reflect", "symmetric", "wrap"))
def test_pad_has_nothing_to_repeat_on_an_empty_axis(backend, mode):
    with pytest.raises(td.ShapeError, match="axis 0 is empty"):
        td.pad(np.zeros((0, 2)), 1, mode=mode)
    later = td.jit(lambda a: td.pad(a, ((1, 0), (0, 0)), mode=mode), backend=backend)
    with pytest.raises(td.ShapeError, match="axis 0 is empty"):
        later(np.zeros((0, 2)))
    assert later(np.ones((1, 0))).shape == (2, 0)  # that axis does not grow
    with pytest.raises(td.ShapeError, match="axis 0 is empty"):
        td.run(td.pad(td.filter(lambda x: x > 1, np.ones(3))[0], 1, mode=mode), backend=backend)


@pytest.mark.parametrize("mode", PAD_MODES)
def test_pad_by_run_time_widths(backend, mode):
    padded = td.jit(lambda a, n, m: td.pad(a, ((n, m), (0, n)), mode=mode), backend=backend)
    a = small("int32", (3, 4), high=99)
    for n, m in ((0, 0), (2, 1), (5, 7)):
        np.testing.assert_array_equal(padded(a, n, m), np.pad(a, ((n, m), (0, n)), mode=mode))
    with pytest.raises(td.ShapeError, match="pad: a width is negative: -2"):
        padded(a, 1, -2)
    to_eights = td.jit(lambda a: td.pad(a, (0, -a.shape[0] % 8), mode=mode), backend=backend)
    for n in (0, 16) if mode == "constant" else (16, 21):
        long = small("float32", (n,))
        np.testing.assert_array_equal(to_eights(long), np.pad(long, (0, -n % 8), mode=mode))
    np.testing.assert_array_equal(td.pad(a[0], td.min(a) - td.min(a) + 2, mode=mode),
                                  np.pad(a[0], 2, mode=mode))  # fmt: skip


def test_pad_with_constants(check):
    a = small("float32", (2, 3))
    check(
        {
            "default": (lambda: td.pad(a, 1), np.pad(a, 1)),
            "value": (
                lambda: td.pad(a, 2, mode="constant", constant_values=7),
                np.pad(a, 2, constant_values=7),
            ),
            "before and after": (
                lambda: td.pad(a, (1, 2), constant_values=(7, 8)),
                np.pad(a, (1, 2), constant_values=(7, 8)),
            ),
            "by axis, whose corners are the last's": (
                lambda: td.pad(a, 1, constant_values=((1, 2), (3, 4))),
                np.pad(a, 1, constant_values=((1, 2), (3, 4))),
            ),
            "empty": (
                lambda: td.pad(a[:0], ((1, 2), (0, 1)), constant_values=3),
                np.pad(a[:0], ((1, 2), (0, 1)), constant_values=3),
            ),
        }
    )


def test_diagonal(check):
    cases = {}
    for shape in ((4, 4), (3, 5), (5, 3), (1, 1), (0, 3)):
        a = small("int32", shape)
        for offset in (0, 1, -1, 2, -4):
            cases[f"{shape} {offset}"] = (
                lambda a=a, o=offset: td.diagonal(a, o),
                np.diagonal(a, offset).copy(),
            )
    a = small("int32", (3, 4, 5))
    cases["rank 3"] = (lambda: td.diagonal(a), np.diagonal(a).copy())
    cases["other axes"] = (
        lambda: td.diagonal(a, offset=1, axis1=1, axis2=2),
        np.diagonal(a, 1, 1, 2).copy(),
    )
    cases["axes swapped"] = (
        lambda: td.diagonal(a, offset=-1, axis1=2, axis2=0),
        np.diagonal(a, -1, 2, 0).copy(),
    )
    check(cases)


def test_backpermute(check):
    a = wide("int64", (4, 6))
    v = wide("float32", 33)
    i, j = np.indices((5, 3))
    check(
        {
            "transpose": (lambda: td.backpermute((6, 4), lambda i, j: (j, i), a), a.T),
            "reverse": (lambda: td.backpermute((33,), lambda i: 32 - i, v), v[::-1]),
            "one index as a tuple": (
                lambda: td.backpermute((33,), lambda i: (32 - i,), v),
                v[::-1],
            ),
            "wider": (
                lambda: td.backpermute((5, 3), lambda i, j: ((i * j) % 4, i), a),
                a[(i * j) % 4, i],
            ),
            "rank up": (lambda: td.backpermute((5, 3), lambda i, j: i * 3 + j, v), v[i * 3 + j]),
            "rank down": (
                lambda: td.backpermute((4,), lambda i: (i, i + 1), a),
                a[np.arange(4), np.arange(4) + 1],
            ),
            "to rank 0": (lambda: td.backpermute((), lambda: (2, 3), a), a[2, 3]),
            "empty": (lambda: td.backpermute((0,), lambda i: i, v), v[:0]),
            "repeated": (
                lambda: td.backpermute((70001,), lambda i: i % 33, v),
                v[np.arange(70001) % 33],
            ),
        }
    )


def test_compositions(check):
    """Index transforms stacked on each other and on computations."""
    a = wide("int32", (6, 8, 5))

    def chain(x, flip, swap, turn):
        x = swap(x, (2, 0, 1))
        x = x[::-1, 1:, ::2]
        x = flip(x, 1)
        x = turn(x, 2, 2)
        return x[None, ..., 1, :]

    check(
        {
            "chain": (
                lambda: chain(td.use(a), td.reverse, td.transpose, td.roll),
                chain(a, np.flip, np.transpose, np.roll),
            ),
            "chain of a map": (
                lambda: chain(td.use(a) * 3, td.reverse, td.transpose, td.roll),
                chain(a * 3, np.flip, np.transpose, np.roll),
            ),
            "sum of shifted": (
                lambda: td.use(a)[1:] - td.use(a)[:-1] + td.reverse(a, 0)[1:],
                a[1:] - a[:-1] + a[::-1][1:],
            ),
        }
    )


@pytest.mark.parametrize("build", [
    lambda a: td.take(a, [10**7], axis=0),
    lambda a: td.take(a, [0, -5], axis=0),
    lambda a: td.take(a, [12]),
    lambda a: td.gather(a, np.array([-1])),
    lambda a: td.use(a)[np.arange(5)],
    lambda a: td.take_along_axis(a, np.full((4, 3), 3), axis=1),
])  # fmt: skip
def test_indices_of_the_host_are_always_checked(build):
    with pytest.raises(IndexError, match=r"index -?\d+ is out of range for axis"):
        build(np.arange(12.0).reshape(4, 3))


@pytest.mark.parametrize(("axis", "shape"), [
    (1, (4, 3)), (1, (1, 2)), (0, (2, 1)), (0, (2, 3)), (-1, (4, 0)), (1, (5, 2)), (0, (2, 2)),
])  # fmt: skip
def test_indices_along_an_axis_broadcast_along_the_others(axis, shape, backend):
    a, indices = np.arange(12.0).reshape(4, 3), np.resize([2, -1, 0], shape)
    given = td.jit(lambda a, i: td.take_along_axis(a, i, axis), backend=backend)
    if shape in ((5, 2), (2, 2)):
        with pytest.raises(td.ShapeError, match="take_along_axis cannot broadcast"):
            given(a, indices)
    else:
        assert_same(given(a, indices), np.take_along_axis(a, indices, axis))


def test_squeeze_drops_axes_of_one_element(backend):
    squeezed = td.jit(lambda a: td.squeeze(a[1:], axis=0) * 2, backend=backend)
    a = np.arange(6.0).reshape(2, 3)
    assert_same(squeezed(a), a[1] * 2)
    for rows in (np.zeros((4, 3)), np.zeros((1, 3))):
        with pytest.raises(td.ShapeError, match=rf"axis 0 has extent {len(rows) - 1}, not 1"):
            squeezed(rows)


def test_numbers_among_the_arguments_are_checked_at_every_call(backend):
    f = td.jit(lambda a, n: a[n], backend=backend)
    a = np.arange(5.0)
    assert [float(f(a, n)) for n in (0, 4, -5, 4)] == [0.0, 4.0, 0.0, 4.0]
    for n in (5, -6, 10**11):
        with pytest.raises(IndexError, match="out of range for axis 0"):
            f(a, n)
    assert float(f(np.arange(20.0), 10)) == 10.0


def test_sixty_four_axes(backend):
    """As many as NumPy's arrays have; one more is an error."""
    a = np.arange(12).reshape((1,) * 30 + (3,) + (1,) * 32 + (4,))
    f = td.jit(
        lambda a: (a + 1, a.T, td.sum(a, axis=30), td.cumsum(a, axis=-1), td.roll(a, 1, 30)),
        backend=backend,
    )
    want = a + 1, a.T, a.sum(30), a.cumsum(-1), np.roll(a, 1, 30)
    assert_same(f(a), want)
    b = td.permute(lambda x, y: x + y, a, lambda *i: i, a)
    assert_same(td.run(b, backend=backend), 2 * a)


@pytest.mark.parametrize(
    "build",
    {
        "generate": lambda a: td.generate((1,) * 65, lambda *i: 1.0),
        "fill": lambda a: td.fill((2,) * 70, 1.0),
        "expand_dims": lambda a: td.expand_dims(a, 0),
        "slice": lambda a: td.use(a)[None],
        "stack": lambda a: td.stack([a, a]),
        "replicate": lambda a: td.replicate(a, 2, 0),
        "reshape": lambda a: td.reshape(a, (1,) * 65),
        "broadcast_to": lambda a: td.broadcast_to(a, (3, *a.shape)),
        "outer": lambda a: td.tensordot(a, a, 0),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_more_axes_than_arrays_have(build):
    with pytest.raises(td.ShapeError, match=r"rank \d+: arrays have at most 64 axes"):
        build[1](np.ones((1,) * 64))


def test_squeeze_without_axes_refuses_extents_that_are_known_at_run_time_only(backend):
    every_other = td.jit(lambda a: td.squeeze(a[::2]), backend=backend)
    with pytest.raises(td.ShapeError, match="axis 0 has extent 1 is known only"):
        every_other(np.ones((2, 1, 4)))
    complete = td.jit(lambda a: td.squeeze(a) * 2, backend=backend)
    for shape in ((3, 1, 4), (3, 5, 4), (1, 5, 1)):
        assert_same(complete(np.ones(shape)), np.squeeze(np.ones(shape)) * 2)
    assert_same(td.run(td.squeeze(td.use(np.ones((2, 1, 4)))[::2])), np.ones(4))


@pytest.mark.parametrize("extent", [0, 1, 3])
@pytest.mark.parametrize("step", [-2, -1, 1, 2])
def test_run_time_slices_of_a_known_extent(backend, extent, step):
    program = td.jit(
        lambda k: (
            td.arange(extent)[k::step], td.arange(extent)[:k:step], td.arange(extent)[-1:k:step]
        ),
        backend=backend,
    )  # fmt: skip
    a = np.arange(extent)
    for k in (-9, -3, -1, 0, 1, 2, 9):
        for found, want in zip(program(k), (a[k::step], a[:k:step], a[-1:k:step]), strict=True):
            np.testing.assert_array_equal(found, want, err_msg=f"{k}")


#: Reshapes to extents computed from those of the array, and the shapes that they fit.
SPLITS = {
    "split both": (lambda n, m: (n // 2, 2, m // 3, 3), [(4, 6), (2, 3), (0, 5), (6, 0)]),
    "split the last": (lambda n, m: (n, m // 4, 4), [(3, 8), (1, 4), (0, 8)]),
    "join": (lambda n, m: (n * m,), [(3, 5), (1, 7), (0, 4)]),
    "join by -1": (lambda n, m: (-1,), [(3, 5), (1, 7)]),
    "join, split elsewhere": (lambda n, m: (n * m // 6, 6), [(4, 6), (3, 4), (9, 2)]),
    "swap extents": (lambda n, m: (m, n), [(3, 5), (5, 1)]),
    "ones": (lambda n, m: (1, n, 1, m, 1), [(3, 5), (1, 1)]),
    "split the first by -1": (lambda n, m: (-1, 2, m), [(4, 3), (2, 5)]),
}


@pytest.mark.parametrize("name", SPLITS)
def test_reshape_to_run_time_extents(name, backend):
    extents, shapes = SPLITS[name]
    program = td.jit(lambda a: td.reshape(a, extents(*a.shape)) + 0.0, backend=backend)
    for shape in shapes:
        a = np.arange(float(np.prod(shape))).reshape(shape)
        assert_same(program(a), a.reshape(extents(*shape)))


def test_reshape_to_fewer_elements_is_an_error(backend):
    program = td.jit(lambda a: td.reshape(a, (a.shape[0] // 2, 2, a.shape[1])), backend=backend)
    assert_same(program(np.ones((4, 3))), np.ones((2, 2, 3)))
    with pytest.raises(td.ShapeError, match="15 elements"):
        program(np.ones((5, 3)))
    whole = td.jit(lambda a: a[: a.shape[0] // 2 * 2], backend=backend)
    assert_same(whole(np.arange(5.0)), np.arange(4.0))


_ROWS, _COLUMNS = np.array([True, False, True]), np.array([False, True, True, True])
_PLANE = np.arange(12).reshape(3, 4) % 3 == 1
MASKED = {
    "a[:, :, mask]": (slice(None), slice(None), _COLUMNS),
    "a[..., mask]": (..., _COLUMNS),
    "a[0, :, mask]": (0, slice(None), _COLUMNS),
    "a[:, 1, mask]": (slice(None), 1, _COLUMNS),
    "a[:, mask, 2]": (slice(None), _ROWS, 2),
    "a[:, mask]": (slice(None), _ROWS),
    "a[1:, mask, ::-1]": (slice(1, None), _ROWS, slice(None, None, -1)),
    "a[:, plane]": (slice(None), _PLANE),
    "a[1, plane]": (1, _PLANE),
    "a[plane.T[:2], 0]": (np.array([[True, False, True], [False, True, True]]), 0),
    "a[None, :, mask]": (None, slice(None), _ROWS),
    "a[:, [2], mask]": (slice(None), [2], _COLUMNS),
    "a[:, list of truth]": (slice(None), [True, False, True]),
    "a[:, none]": (slice(None), np.zeros(3, bool)),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MASKED)
def test_masks_beside_other_indices(backend, name):
    index = MASKED[name]
    a = np.arange(24).reshape(2, 3, 4)
    assert np.array_equal(td.run(td.use(a)[index], backend=backend), a[index])
    changed = a.copy()
    changed[index] = -1
    assert np.array_equal(td.run(td.use(a).at[index].set(-1), backend=backend), changed)


def test_masks_of_arguments_beside_slices(backend):
    f = td.jit(lambda a, m: td.sum(a[:, m] * 2, axis=1), backend=backend)
    a = np.arange(20.0).reshape(4, 5)
    for m in (np.array([1, 0, 1, 1, 0], bool), np.zeros(5, bool), np.ones(5, bool)):
        assert np.array_equal(f(a, m), (a[:, m] * 2).sum(axis=1))


def test_a_mask_of_another_extent_is_an_error():
    with pytest.raises(td.ShapeError, match="axis 1 has 4 elements, the index 3"):
        td.use(np.zeros((3, 4)))[:, np.ones(3, bool)]
    with pytest.raises(td.AxisError, match="3 indices for an array of rank 2"):
        td.use(np.zeros((3, 4)))[:, np.ones((4, 2), bool)]


def test_arrays_are_unpacked_into_names(backend):
    """`x, y, z = a` takes the parts of a short axis whose extent the arguments decide."""

    def lorenz(t, state):
        x, y, z = state
        return td.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    state = np.array([1.0, 2.0, 4.0])
    compiled = td.jit(lorenz, backend=backend)
    np.testing.assert_array_equal(compiled(0.0, state), td.run(lorenz(0.0, state)))

    @td.jit(backend=backend)
    def nested(a):
        (p, q), (r, _) = np.moveaxis(a, -1, 0)
        return p * 100 + q * 10 + r

    a = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_array_equal(nested(a), a[0, :, 0] * 100 + a[1, :, 0] * 10 + a[0, :, 1])
    for n in (2, 4):
        with pytest.raises(ValueError, match="values to unpack"):
            compiled(0.0, np.ones(n))

    def first(a):
        x, *_ = a
        return x

    assert td.jit(first, backend=backend)(state) == 1
    with pytest.raises(td.TracingError, match="cannot be iterated"):
        td.jit(first, backend=backend)(np.ones(50))
