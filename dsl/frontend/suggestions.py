"""Names from NumPy, JAX and other libraries that treadle lacks, with the treadle equivalent."""

from __future__ import annotations

from collections.abc import Iterable

from .. import late_binding as later
from ..errors import did_you_mean

_USE = "td.use(a) takes an array of NumPy, or of anything with DLPack; operations take them as well"
_CAPTURED = "td.random has it, of a key: td.random.normal(td.random.key(0), (3, 4))"
_WHOLE = "arrays are values: write what every element becomes, as in td.generate or td.where"
_CONVOLUTION = "td.correlate(a, weights), td.convolve, or td.stencil(lambda w: …, a)"
_OF_PROGRAM = "a program has it: td.jit(f).lower(*args)"
_PARALLEL = "nothing is marked parallel: td.map, td.generate and all other operations are"
_FILTERED = "td.stencil(lambda w: …, a) with the weights in it, or td.correlate(a, weights)"
_BUILTIN = "types have their widths in their names: td.bool_, td.int64, td.float64, td.complex128"
_PRINTED = "np.set_printoptions: arrays are shown as NumPy's"
_ABSTRACT = 'td.isdtype(type, "real floating"), "integral", …, or td.issubdtype(type, np.floating)'
#: The hint for reading the values of an array.
RUN = "td.run(x) computes it: a NumPy array, of rank 0 for one value, whose .item() is a number"

#: Function names of other libraries → the equivalent.
INSTEAD = {
    "from_numpy": _USE,
    "tensor": _USE,
    "ndarray": "an array is a td.Array; " + _USE,
    "asnumpy": "td.run(x) computes an array for NumPy",
    "vmap": "operations accept leading axes; td.map(f, a) applies f to every element",
    "vectorize": "td.map(f, a, b) applies a function to every element",
    "fori_loop": "td.loop(n, lambda k, state: …, init), or td.iterate(n, f, init)",
    "switch": "td.cond(p, a, b), one inside another",
    "lax": "its functions are td's: td.loop, td.while_loop, td.cond, td.scanl, td.fold, td.scatter",
    "segment_sum": "td.fold_seg(f, 0, a, lengths) for contiguous segments; "
    "td.scatter(td.zeros((n,)), segments, a, f) for segments by number; f = lambda x, y: x + y",
    "associative_scan": "td.scanl1(f, a)",
    "accumulate": "td.scanl1(f, a)",
    "reduce": "td.fold(f, init, a, axis), or td.fold1(f, a, axis)",
    "norm": "td.linalg.norm(a)",
    "rand": _CAPTURED,
    "randn": _CAPTURED,
    "randint": _CAPTURED,
    "normal": _CAPTURED,
    "uniform": _CAPTURED,
    "softmax": "e = td.exp(a - td.max(a, axis, keepdims=True)), then e / td.sum(e, axis, "
    "keepdims=True)",
    "logsumexp": "m = td.max(a), then m + td.log(td.sum(td.exp(a - m)))",
    "relu": "td.maximum(x, 0)",
    "sigmoid": "1 / (1 + td.exp(-x))",
    "conv1d": _CONVOLUTION,
    "conv2d": _CONVOLUTION,
    "trapz": "td.trapezoid(y, x)",
    "len": "a.shape[0]",
    "range": "td.arange(n), or td.loop(n, f, init) for a loop",
    "sorted": "td.sort(a)",
    "print": "return the value: there are no values before the program runs",
    "at": _WHOLE,
    "double": "td.float64",
    "block_until_ready": "td.run(x) computes; a program's .wait() returns when it is done",
    "half": "td.float16",
    "int": _BUILTIN,
    "int_": _BUILTIN,
    "intp": _BUILTIN,
    "float": _BUILTIN,
    "complex": _BUILTIN,
    "eig": "td.linalg.eigh for symmetric matrices; others by np.linalg.eig(a), outside of compiled "
    "functions",
    "matrix_power": "td.iterate(k, lambda p: p @ a, td.eye(n))",
    "index_add": "a.at[indices].add(values)",
    "scatter_add": "a.at[indices].add(values)",
    "one_hot": "k[:, None] == td.iota(n)",
    "convolve2d": _CONVOLUTION,
    "gaussian_filter": _FILTERED,
    "uniform_filter": _FILTERED,
    "sobel": _FILTERED,
    "reflect": "td.mirror reads 1 at -1 (np.pad's reflect), td.symmetric 0 (scipy.ndimage's)",
    "nearest": "td.clamp",
    "edge": "td.clamp",
    "periodic": "td.wrap",
    "prange": _PARALLEL,
    "parallel": _PARALLEL,
    "njit": "td.jit",
    "explain": _OF_PROGRAM + ".explain()",
    "source": _OF_PROGRAM + ".source()",
    "graph": _OF_PROGRAM + ".graph()",
    "tune": _OF_PROGRAM + ".tune(*args)",
    "save": _OF_PROGRAM + ".save(path)",
    "lower": "a compiled function has it: td.jit(f).lower(*args)",
    "set_backend": "with td.config(backend=…):, td.jit(f, backend=…), or TREADLE_BACKEND",
    "set_num_threads": "TREADLE_NUM_THREADS=… in the environment",
    "apply_along_axis": "operations take axis=; td.map(f, …) of slices, or td.stack([f(a[k]) for k "
    "in range(n)])",
    "array_repr": "repr(a)",
    "array_str": "str(a), or np.array_str(td.run(a))",
    "c_": "td.stack([a, b], axis=-1), td.concatenate",
    "r_": "td.concatenate([a, b])",
    "s_": "np.s_[…] makes an index",
    "index_exp": "np.index_exp[…] makes an index",
    "mgrid": "td.indices(shape), or td.meshgrid(x, y, indexing=\"ij\")",
    "ogrid": "td.indices(shape, sparse=True), or td.ix_",
    "cdouble": "td.complex128",
    "csingle": "td.complex64",
    "single": "td.float32",
    "uint": "td.uint64",
    "object_": "elements are numbers, or tuples of them: td.zip(a, b)",
    "dtype": "types are td.float32 and so on; td.result_type(a) is an array's",
    "einsum_path": "td.einsum chooses the order of its products itself",
    "euler_gamma": "use np.euler_gamma",
    "frombuffer": "td.use(np.frombuffer(…))",
    "fromfile": "td.use(np.fromfile(…)), or np.memmap, which is read when a program runs",
    "fromiter": "td.use(np.fromiter(…))",
    "fromstring": "td.use(np.fromstring(…))",
    "frompyfunc": "td.map(f, a, b) applies a function to every element",
    "ufunc": "td.map(f, a, b) applies a function to every element",
    "printoptions": _PRINTED,
    "set_printoptions": _PRINTED,
    "get_printoptions": _PRINTED,
    "iterable": "np.iterable(a); the elements of an array of the program are td.map's",
    "roots": "np.roots(td.run(p)): there are no eigenvalues of general matrices",
    "savez": "np.savez(path, td.run(a))",
    **dict.fromkeys(
        ("character", "complexfloating", "flexible", "floating", "generic", "inexact", "integer",
         "number", "signedinteger", "unsignedinteger"),
        _ABSTRACT,
    ),
}  # fmt: skip

#: Names of array methods.
METHODS = {
    "numpy": RUN,
    "cpu": RUN,
    "get": RUN,
    "compute": RUN,
    "block_until_ready": RUN,
    "copy": "arrays are immutable: use the array itself",
    "clone": "arrays are immutable: use the array itself",
    "fill": "arrays never change: td.full_like(a, value)",
    "view": "x.astype(type) converts values",
    "to": "x.astype(type) converts; td.config(backend=…) says where it runs",
    "permute": "td.transpose(a, axes)",
    "unsqueeze": "td.expand_dims(a, axis)",
    "values": RUN,
    "flat": "td.flatten(a)",
}

#: Names of methods of NumPy's ufuncs.
UFUNC_METHODS = {
    "reduce": "Write td.fold(f, init, a, axis), or td.fold1(f, a, axis).",
    "accumulate": "Write td.scanl1(f, a, axis).",
    "reduceat": "Write td.fold1_seg(f, a, lengths).",
    "outer": "Operators broadcast: write a[:, None] + b.",
    "at": "Write a.at[indices].add(values); other functions with td.permute.",
}


#: Keyword arguments of other libraries → treadle's name for them.
_SYNONYMS = {
    "dim": "axis",
    "axes": "axis",
    "a_min": "low",
    "min": "low",
    "a_max": "high",
    "max": "high",
    "device": "backend",
    "target": "backend",
    "newshape": "shape",
    "mode": "boundary",
    "fill_value": "value",
}
#: Keyword arguments of other libraries → the equivalent.
_KEYWORDS = {
    "out": "Results are new arrays: write b = f(a)",
    "where": "Choose the elements before: td.where(p, a, 0)",
    "dtype": "Convert it: x.astype(dtype)",
    "casting": "x.astype(dtype) converts",
    "copy": "Arrays never change: leave it out",
    "sort.order": "Ascending is the only order: td.reverse(td.sort(a), axis) descends",
    "order": "An array has no layout: leave it out",
    "initial": "td.fold(f, init, a) starts with a value",
    "static_argnums": "Put the value into a closure: td.jit(lambda a: f(a, n))",
    "static_argnames": "Put the value into a closure: td.jit(lambda a: f(a, n=n))",
    "donate_argnums": "Memory is reused automatically: leave it out",
    "nopython": "Everything is compiled: leave it out",
    "parallel": "Everything is parallel: leave it out",
    "cache": "Compiled code is cached on disk automatically: leave it out",
    "fastmath": "Write fast_math=True",
    "reverse": "td.reverse(a, axis) reverses an array",
    "key": "td.take(a, td.argsort(keys)) sorts by keys",
}


def instead_of_keyword(function: str, word: str, known: Iterable[str]) -> str:
    """A hint for a keyword argument that a function does not accept; "" if there is none."""
    if _SYNONYMS.get(word) in set(known):
        return f"Did you mean {_SYNONYMS[word]}?  "
    instead = _KEYWORDS.get(f"{function}.{word}") or _KEYWORDS.get(word)
    return f"{instead}.  " if instead else ""


def of_numpy(name: str, computable: bool) -> str:
    """A hint for NumPy's function `name` applied to an array or a scalar; `computable`: whether its
    value can be computed at this point."""
    instead = None if name in _OWN else INSTEAD.get(name)
    return _taken_by_numpy(computable) if instead is None else f"Instead: {instead}."


def _taken_by_numpy(computable: bool) -> str:
    if computable:
        return "td.run(a) computes the array, and NumPy takes it from there."
    return "There is no value for NumPy while a program is traced: write it with td's functions."


#: Names that treadle has, but on other objects.
_OWN = ("explain", "source", "graph", "tune", "save", "lower")


def no_ufunc(name: str, method: str, given: Iterable[str], computable: bool) -> tuple[str, str]:
    """The unsupported part of a call of NumPy's function `name`, and a hint."""
    if method != "__call__":
        return f"np.{name}.{method}", UFUNC_METHODS[method]
    word = next(iter(given), None)
    if word == "out":
        return f"np.{name} into an array of NumPy's", (
            "Its values are not computed yet: write w = w + v instead of w += v, and no out=."
        )
    if word is not None:
        other = "td.where(p, a, b) chooses" if word == "where" else "x.astype(type) converts"
        return f"np.{name}({word}=…)", f"Leave it out: {other}."
    return f"np.{name}", _taken_by_numpy(computable)


def missing(name: str, known: Iterable[str]) -> str:
    """The error text for a name that treadle does not have."""
    instead = INSTEAD.get(name)
    if instead is not None:
        return f"treadle has no {name!r}: {instead}."
    lower = {n.lower(): n for n in known}
    near = lower.get(name.lower())
    found = f"Did you mean {near}?" if near else did_you_mean(name, known, least=0.72)
    return f"treadle has no {name!r}.  {found}".rstrip()


later.offer(instead_of_keyword=instead_of_keyword)
