"""Names of NumPy, JAX and others that are not treadle's, and what is written here instead."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import did_you_mean

_USE = "td.use(a) takes an array of NumPy, or of anything with DLPack; operations take them as well"
_CAPTURED = "fill an array with NumPy's generators and pass it"
_KERNEL = "write td.generate(shape, lambda i, j: …) with reads such as a[i, j]"
_WHOLE = "arrays are values: write what every element becomes, as in td.generate or td.where"
_RUN = "td.run(x) computes it: a NumPy array, or a number for rank 0"

#: What another library calls it: what to write.
INSTEAD = {
    "array": _USE,
    "asarray": _USE,
    "from_numpy": _USE,
    "tensor": _USE,
    "ndarray": "an array is a td.Array; " + _USE,
    "asnumpy": "td.run(x) computes an array for NumPy",
    "vmap": "td.map(f, a), or td.generate(shape, f): operations take leading axes as they are",
    "vectorize": "td.map(f, a, b) applies a function to every element",
    "fori_loop": "td.loop(n, lambda k, state: …, init), or td.iterate(n, f, init)",
    "select": "td.where(p, a, b) element by element; td.cond(p, a, b) for one predicate",
    "switch": "td.cond(p, a, b), one inside another",
    "lax": "its functions are td's: td.loop, td.while_loop, td.cond, td.scanl, td.fold, td.scatter",
    "segment_sum": "td.fold_seg(f, 0, a, lengths) for segments that lie side by side; "
    "td.scatter(td.zeros((n,)), segments, a, f) for segments by number; f = lambda x, y: x + y",
    "scan": "td.scanl(f, init, a), td.scanl1(f, a) or td.cumsum(a): associative functions; "
    "td.loop for others",
    "associative_scan": "td.scanl1(f, a)",
    "accumulate": "td.scanl1(f, a)",
    "reduce": "td.fold(f, init, a, axis), or td.fold1(f, a, axis)",
    "einsum": "td.tensordot(a, b, axes), a @ b (leading axes are batches), td.outer, or td.sum "
    "of a td.generate",
    "linalg": "there are products only: a @ b, td.matmul, td.dot, td.outer, td.tensordot",
    "inner": "td.dot(a, b), or td.tensordot(a, b, …)",
    "vdot": "td.dot(td.conj(a), b)",
    "fft": "there is none: td.run(x) computes an array for NumPy's",
    "random": _CAPTURED,
    "grad": "there are no derivatives: write the derivative as another function",
    "value_and_grad": "there are no derivatives: write the derivative as another function",
    "empty": "td.zeros(shape): every element of an array has a value",
    "empty_like": "td.zeros_like(a): every element of an array has a value",
    "concat": "td.concatenate([a, b], axis)",
    "vstack": "td.concatenate([a, b], axis=0)",
    "hstack": "td.concatenate([a, b], axis=1), or axis=0 for one axis",
    "append": "td.concatenate([a, b])",
    "split": "slices: a[:k], a[k:]",
    "tile": "td.replicate(a, n), or indices modulo an extent in td.generate",
    "repeat": "td.replicate(a, n) along a new axis",
    "meshgrid": _KERNEL,
    "indices": _KERNEL,
    "fromfunction": "td.generate(shape, f)",
    "nonzero": "td.compact(p, a) keeps the elements where p holds",
    "put": _WHOLE,
    "at": _WHOLE,
    "double": "td.float64",
    "nan": "use math.nan or np.nan",
    "inf": "use math.inf or np.inf",
    "pi": "use math.pi or np.pi",
    "block_until_ready": "td.run(x) computes; a program's .wait() returns when it is done",
}

#: … of an array.
METHODS = {
    "numpy": _RUN,
    "tolist": _RUN + "; td.run(x).tolist() is a list",
    "cpu": _RUN,
    "get": _RUN,
    "compute": _RUN,
    "block_until_ready": _RUN,
    "copy": "arrays never change: use it as it is",
    "clone": "arrays never change: use it as it is",
    "fill": "arrays never change: td.full_like(a, value)",
    "at": "arrays never change: td.scatter or td.permute writes at computed places, "
    "td.where chooses",
    "view": "x.astype(type) converts values",
    "to": "x.astype(type) converts; td.config(backend=…) says where it runs",
    "permute": "td.transpose(a, axes)",
    "unsqueeze": "td.expand_dims(a, axis)",
}


def missing(name: str, known: Iterable[str]) -> str:
    """What is said of a name that treadle has not."""
    instead = INSTEAD.get(name)
    if instead is not None:
        return f"treadle has no {name!r}: {instead}."
    return f"treadle has no {name!r}.  {did_you_mean(name, known)}".rstrip()
