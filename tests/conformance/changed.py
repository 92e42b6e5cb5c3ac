"""Run by `test_changed.py` in a process of its own: arrays of NumPy are changed after operations
have looked at them, and before results are computed.  Prints each attack, and what became of it."""

from __future__ import annotations

import numpy as np

import treadle as td

FAR = 10**15  # no process has elements so far away: a read there ends it
A = np.arange(12.0)
M = A.reshape(3, 4)
ADD = td.add


def indices(dtype=np.int64) -> np.ndarray:
    return np.array([0, 1, 2], dtype)


def mask() -> np.ndarray:
    return A < 3


def edges() -> np.ndarray:
    return np.array([1.0, 4.0, 9.0])


def lengths() -> np.ndarray:
    return np.array([4, 4, 4])


#: A function of A and of an array of the host; that array, and an element that it gets meanwhile.
ATTACKS = {
    "index": (lambda a, i: a[i], indices, FAR),
    "negative index": (lambda a, i: a[i], indices, -FAR),
    "int32": (lambda a, i: a[i], lambda: indices(np.int32), -(2**31)),
    "uint64": (lambda a, i: a[i], lambda: indices(np.uint64), 2**63 + 2**40),
    "big endian": (lambda a, i: a[i], lambda: indices(">i8"), FAR),
    "every second": (lambda a, i: a[i], lambda: np.repeat(indices(), 2)[::2], FAR),
    "rows": (lambda a, i: td.use(M)[i], indices, FAR),
    "pairs": (lambda a, i: td.use(M)[i, i], indices, FAR),
    "beside a number": (lambda a, i: td.use(M)[1, i], indices, FAR),
    "matrix of indices": (lambda a, i: a[i], lambda: np.array([[0, 1], [2, 3]]), FAR),
    "take": (td.take, indices, FAR),
    "take along axis 1": (lambda a, i: td.take(td.use(M), i, axis=1), indices, FAR),
    "gather": (td.gather, indices, -1),
    "take_along_axis": (td.take_along_axis, indices, FAR),
    "permutation": (lambda a, i: a[i], lambda: np.arange(12)[::-1].copy(), FAR),
    "order": (lambda a, i: td.take_along_axis(a, i), lambda: np.argsort(-A), FAR),
    "chain": (lambda a, i: td.sum(a[i] * 2 + 1), indices, FAR),
    "gradient": (lambda a, i: td.grad(lambda x: td.sum(x[i] ** 2))(a), indices, FAR),
    "gradient of at": (lambda a, i: td.grad(lambda x: td.sum(x.at[i].add(2.0) ** 2))(a),
                       indices, FAR),
    "of a part that data decides": (lambda a, i: a[a > 4][i], indices, FAR),
    "at": (lambda a, i: a.at[i].add(1.0), indices, FAR),
    "update": (lambda a, i: td.update(a, i, 7.0), indices, FAR),
    "put_along_axis": (lambda a, i: td.put_along_axis(a, i, 1.0, 0), indices, FAR),
    "scatter": (lambda a, i: td.scatter(a, i, np.ones(3)), indices, FAR),
    "bincount, length": (lambda a, i: td.bincount(i, length=12), indices, FAR),
    "bincount": (lambda a, i: td.bincount(i), indices, -FAR),
    "mask": (lambda a, m: a[m], mask, False),
    "mask, then index": (lambda a, m: a[m][np.array([0, 2])], mask, False),
    "mask, written": (lambda a, m: a.at[m].set(np.ones(3)), mask, False),
    "compress": (lambda a, m: td.compress(m, a), mask, False),
    "nonzero": (lambda a, m: td.nonzero(m)[0], mask, False),
    "segments": (lambda a, n: td.fold_seg(ADD, 0.0, a, n), lengths, FAR),
    "negative segments": (lambda a, n: td.fold_seg(ADD, 0.0, a, n), lengths, -FAR),
    "no empty segments": (lambda a, n: td.fold1_seg(ADD, a, n), lengths, 0),
    "scan of segments": (lambda a, n: td.scanl1_seg(ADD, a, n), lengths, FAR),
    "repeat": (lambda a, n: td.repeat(a[:3], n), lengths, FAR),
    "negative repeats": (lambda a, n: td.repeat(a[:3], n), lengths, -FAR),
    "searchsorted": (lambda a, e: td.searchsorted(e, a), edges, np.nan),
    "digitize": (lambda a, e: td.digitize(a, e), edges, -1e300),
    "histogram": (lambda a, e: td.histogram(a, e)[0], edges, np.nan),
    "interp": (lambda a, e: td.interp(a, e, np.ones(3)), edges, np.nan),
    "quantile": (lambda a, q: td.quantile(a, q), lambda: np.array([0.1, 0.5, 0.9]), 1e18),
    "percentile": (lambda a, q: td.percentile(a, q), lambda: np.array([0.1, 5, 9]), np.nan),
    "roll": (lambda a, s: td.roll(a.reshape(3, 4), s, axis=(0, 1)), lambda: np.array([1, 2]), FAR),
    "partition": (td.partition, lambda: np.array([1, 2]), FAR),
    "delete": (td.delete, indices, FAR),
    "insert": (lambda a, i: td.insert(a, i, 9.0), indices, FAR),
    "pad": (td.pad, lambda: np.array([1, 2]), FAR),
    "choose": (lambda a, i: td.choose(i, [a[:3], a[3:6]]), lambda: np.array([0, 1, 1]), FAR),
    "unravel_index": (lambda a, i: td.unravel_index(i, (3, 4))[0], indices, FAR),
    "looked up by elements": (lambda a, i: td.map(lambda x: x + 1, a[i]), indices, FAR),
}  # fmt: skip


def outcome(compute) -> str:
    try:
        np.asarray(compute())
    except td.TreadleError as error:
        return type(error).__name__
    return "a value"


def attack(f, make, bad) -> tuple[set[str], set[str]]:
    """What becomes of calls whose data is changed before they are computed, from the first one to
    those that are cached, and of a compiled function whose captured array is changed."""
    eager = set()
    for count in range(6):
        given = make()
        result = f(td.use(A), given)
        result = result if count % 2 else result * 2
        given.flat[1] = bad
        eager.add(outcome(lambda result=result: result))
    given = make()
    compiled = td.jit(lambda x: f(x, given), backend="native")
    for _ in range(3):
        compiled(A)
    given.flat[1] = bad
    return eager, {outcome(lambda: compiled(A)) for _ in range(3)}


if __name__ == "__main__":
    for name, about in ATTACKS.items():
        print(name, flush=True)
        print(*(" ".join(found) for found in attack(*about)), sep=", ", flush=True)
