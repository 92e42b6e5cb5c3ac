"""Names from NumPy, JAX and other libraries that treadle lacks, with the treadle equivalent."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from .. import late_binding as later
from ..errors import did_you_mean
from ..evaluator import public
from ..text import by_name

_USE = "td.use(a) takes an array of NumPy, or of anything with DLPack; operations take them as well"
_CAPTURED = "td.random has it, of a key: td.random.normal(td.random.key(0), (3, 4))"
_WHOLE = "arrays are values: write what every element becomes, as in td.generate or td.where"
_CONVOLUTION = "td.correlate(a, weights), td.convolve, or td.stencil(lambda w: …, a)"
_OF_PROGRAM = "a program has it: td.jit(f).lower(*args)"
_PARALLEL = "nothing is marked parallel: td.map, td.generate and all other operations are"
_SCIPY = "SciPy's function takes arrays of treadle, and functions compiled by td.jit"
_MEDIAN = "np.pad or td.pad, then td.stack of shifted views, and a reduction (recipes: Images)"
_SAMPLED = (
    "td.generate(shape, lambda i, j: …) reads a[y, x] at any index; interpolate its neighbours"
)
_FILTERED = "td.stencil(lambda w: …, a) with the weights in it, or td.correlate(a, weights)"
_SEGMENTS = (
    "td.{}.at[ids].{}(a) for segments by number; td.fold_seg(f, init, a, lengths) for segments "
    "that lie one after another"
)
_BUILTIN = "types have their widths in their names: td.bool_, td.int64, td.float64, td.complex128"
_PRINTED = "np.set_printoptions: arrays are shown as NumPy's"
_ABSTRACT = 'td.isdtype(type, "real floating"), "integral", …, or td.issubdtype(type, np.floating)'
_BY_NUMBA = "f = numba.njit(lambda x: math.{}(x)), then td.map(lambda x: td.foreign(f, x), a)"
_FRAME = "pandas reads and groups; td takes its columns (recipes: pandas, Group-by of a data frame)"
_PICTURE = (
    "Pillow, imageio and matplotlib read, write and show what td.run(a) returns (recipes: Images)"
)
_POOLED = "n, m = a.shape; td.max(a.reshape((n // 2, 2, m // 2, 2)), axis=(1, 3)): 2 × 2"
#: The hint for reading the values of an array.
RUN = "td.run(x) computes it: a NumPy array, of rank 0 for one value, whose .item() is a number"

#: Names that have another meaning in one of the packages.
_IN_PACKAGE = {
    "": by_name({
        "gamma":
            "td.random.gamma draws numbers; the function: td.exp(td.lgamma(x)) of x > 0, or "
            + _BY_NUMBA.format("gamma"),
        "beta": "td.random.beta draws numbers; the function: scipy.special.beta(a, b)",
    }),
    "random": by_name({
        "PRNGKey seed default_rng Generator RandomState":
            "key = td.random.key(0); td.random.split(key) makes others",
        "rand random random_sample ranf sample": "td.random.uniform(key, shape)",
        "randn standard_normal": "td.random.normal(key, shape)",
        "randint random_integers": "td.random.integers(key, shape, low, high)",
        "bernoulli": "td.random.uniform(key, shape) < p",
        "binomial": "td.sum(td.random.uniform(key, (*shape, n)) < p, axis=-1)",
        "categorical multinomial": "td.random.choice(key, n, shape, p=p)",
        "rademacher": "2 * td.random.integers(key, shape, 0, 2) - 1",
        "gumbel": "-td.log(td.random.exponential(key, shape))",
        "laplace": "td.random.exponential(k1, shape) - td.random.exponential(k2, shape)",
        "cauchy standard_cauchy": "td.tan(td.pi * (td.random.uniform(key, shape) - 0.5))",
        "logistic": "u = td.random.uniform(key, shape), then td.log(u / (1 - u))",
        "lognormal": "td.exp(td.random.normal(key, shape))",
        "pareto": "td.exp(td.random.exponential(key, shape) / a) - 1",
        "t standard_t student_t":
            "td.random.normal(k1, shape) / td.sqrt(td.random.gamma(k2, shape, n / 2) * 2 / n)",
        "orthogonal": "td.linalg.qr(td.random.normal(key, (n, n)))[0]",
        "ball":
            "x = td.random.normal(k1, (*shape, d)), then x / td.linalg.norm(x, axis=-1, "
            "keepdims=True) * td.random.uniform(k2, (*shape, 1)) ** (1 / d)",
        "maxwell": "td.linalg.norm(td.random.normal(key, (*shape, 3)), axis=-1)",
        "rayleigh": "td.sqrt(2 * td.random.exponential(key, shape))",
        "weibull weibull_min": "td.random.exponential(key, shape) ** (1 / a)",
        "geometric": "td.ceil(td.random.exponential(key, shape) / -td.log1p(-p))",
        "chisquare": "2 * td.random.gamma(key, shape, n / 2)",
        "standard_gamma": "td.random.gamma(key, shape, a)",
        "standard_exponential": "td.random.exponential(key, shape)",
        "negative_binomial":
            "td.random.poisson(k1, shape, td.random.gamma(k2, shape, n, (1 - p) / p))",
        "permuted":
            "rows, each by itself: td.take_along_axis(x, td.argsort(td.random.bits(key, x.shape), "
            "axis=1), axis=1)",
        "dirichlet":
            "g = td.random.gamma(key, shape, alpha), then g / td.sum(g, axis=-1, keepdims=True)",
        "multivariate_normal": "mean + td.random.normal(key, (n, d)) @ td.linalg.cholesky(cov).T",
        "truncated_normal":
            "in a kernel, td.while_loop draws td.random.normal(k, ()) with other keys k until a "
            "number is inside",
        "key_data wrap_key_data clone": "a key is an array of two td.uint32",
    }),
    "linalg": by_name({
        "cond": "s = td.linalg.svdvals(a), then s[..., 0] / s[..., -1]",
    }),
}  # fmt: skip

#: Function names of other libraries → the equivalent.
INSTEAD = by_name({
    "from_numpy tensor Tensor": _USE,
    "ndarray Array_ DeviceArray": "an array is a td.Array; " + _USE,
    "vmap":
        "operations accept leading axes; td.map(f, a) applies f to every element, td.scan(lambda "
        "none, row: (none, f(row)), 0, a)[1] to every row",
    "vectorize frompyfunc ufunc": "td.map(f, a, b) applies a function to every element",
    "fori_loop": "td.loop(a, b, lambda k, state: …, init), or td.iterate(n, f, init)",
    "switch": "td.cond(p, a, b), one inside another",
    "lax": "its functions are td's: td.loop, td.while_loop, td.cond, td.scan, td.fold, td.scatter",
    "segment_sum": _SEGMENTS.format("zeros(n)", "add"),
    "segment_prod": _SEGMENTS.format("ones(n)", "multiply"),
    "segment_max": _SEGMENTS.format("full(n, low)", "max"),
    "segment_min": _SEGMENTS.format("full(n, high)", "min"),
    "associative_scan accumulate": "td.scanl1(f, a)",
    "reduce": "td.fold(f, init, a, axis), or td.fold1(f, a, axis)",
    "norm": "td.linalg.norm(a)",
    "rand randn randint normal uniform seed default_rng Generator RandomState random_sample "
    "choice shuffle permutation": _CAPTURED,
    "softmax":
        "e = td.exp(a - td.max(a, axis, keepdims=True)), then e / td.sum(e, axis, keepdims=True)",
    "logsumexp log_sum_exp":
        "m = td.max(a, axis, keepdims=True), then m + td.log(td.sum(td.exp(a - m), axis, "
        "keepdims=True))",
    "relu": "td.maximum(x, 0)",
    "sigmoid expit logit_inverse": "1 / (1 + td.exp(-x))",
    "conv1d conv2d convolve2d conv conv_general_dilated conv3d convolve1d fftconvolve correlate2d "
    "correlate1d": _CONVOLUTION,
    "trapz": "td.trapezoid(y, x)",
    "len": "a.shape[0]",
    "range": "td.arange(n), or td.loop(n, f, init) for a loop",
    "sorted": "td.sort(a)",
    "print": "return the value: there are no values before the program runs",
    "at": "an array has it: a.at[index].set(new), .add(new), .max(new)",
    "double": "td.float64",
    "block_until_ready sync Event synchronize":
        "td.run(x) computes; a program's .wait() returns when it is done",
    "half": "td.float16",
    "int int_ intp float complex intc uintc long ulong longlong ulonglong short ushort byte ubyte "
    "uintp float_ bool8": _BUILTIN,
    "eig":
        "td.linalg.eigh for symmetric matrices; others by np.linalg.eig(a), outside of compiled "
        "functions",
    "index_add scatter_add": "a.at[indices].add(values)",
    "one_hot": "k[:, None] == td.iota(n)",
    "gaussian_filter uniform_filter sobel gaussian laplace prewitt sobel_h sobel_v "
    "gaussian_laplace savgol_filter unsharp_mask": _FILTERED,
    "reflect": "td.mirror reads 1 at -1 (np.pad's reflect), td.symmetric 0 (scipy.ndimage's)",
    "nearest edge": "td.clamp",
    "periodic": "td.wrap",
    "prange parallel": _PARALLEL,
    "njit": "td.jit",
    "explain": _OF_PROGRAM + ".explain()",
    "source": _OF_PROGRAM + ".source()",
    "graph": _OF_PROGRAM + ".graph()",
    "tune": _OF_PROGRAM + ".tune(*args)",
    "save": "np.save(path, a) stores an array, and " + _OF_PROGRAM + ".save(path)",
    "lower": "a compiled function has it: td.jit(f).lower(*args)",
    "set_backend": "with td.config(backend=…):, td.jit(f, backend=…), or TREADLE_BACKEND",
    "set_num_threads": "TREADLE_NUM_THREADS=… in the environment",
    "apply_along_axis":
        "operations take axis=; td.map(f, …) of slices, or td.stack([f(a[k]) for k in range(n)])",
    "array_repr": "repr(a)",
    "array_str": "str(a), or np.array_str(td.run(a))",
    "c_": "td.stack([a, b], axis=-1), td.concatenate",
    "r_": "td.concatenate([a, b])",
    "s_": "np.s_[…] makes an index",
    "index_exp": "np.index_exp[…] makes an index",
    "mgrid": 'td.indices(shape), or td.meshgrid(x, y, indexing="ij")',
    "ogrid": "td.indices(shape, sparse=True), or td.ix_",
    "cdouble": "td.complex128",
    "csingle": "td.complex64",
    "single": "td.float32",
    "uint": "td.uint64",
    "object_ str str_ string_ bytes_ object void char rec recarray":
        "elements are numbers, or tuples of them: td.zip(a, b)",
    "dtype": "types are td.float32 and so on; td.result_type(a) is an array's",
    "einsum_path": "td.einsum chooses the order of its products itself",
    "euler_gamma": "use np.euler_gamma",
    "frombuffer": "td.use(np.frombuffer(…))",
    "fromfile": "td.use(np.fromfile(…)), or np.memmap, which is read when a program runs",
    "fromiter": "td.use(np.fromiter(…))",
    "fromstring": "td.use(np.fromstring(…))",
    "printoptions set_printoptions get_printoptions": _PRINTED,
    "iterable": "np.iterable(a); the elements of an array of the program are td.map's",
    "roots": "np.roots(td.run(p)): there are no eigenvalues of general matrices",
    "savez": "np.savez(path, td.run(a))",
    "character complexfloating flexible floating generic inexact integer number signedinteger "
    "unsignedinteger": _ABSTRACT,
    "float128 longdouble float96": "td.float64 is the widest float",
    "complex256 clongdouble longcomplex": "td.complex128 is the widest complex type",
    "float8_e4m3fn float8_e5m2": "td.float16 and td.bfloat16 are the smallest floats",
    "int4 uint4 int2 uint2":
        "td.int8 and td.uint8 are the smallest integers; td.packbits stores single bits",
    "datetime64 timedelta64": "count units: a.astype(np.int64)",
    "numpy np jnp": "its functions are td's: td.sum, td.linalg.inv, td.fft.rfft",
    "asanyarray ascontiguousarray asfortranarray require": "td.asarray(a): an array has no layout",
    "shares_memory may_share_memory": "arrays never change, so none is a view",
    "nditer ndenumerate ndindex":
        "td.imap(lambda i, j, x: …, a) calls a function with the index and the element",
    "errstate seterr geterr":
        "no warnings are given: td.isfinite(a) tells; td.run(a, check=True) tests indices",
    "testing": "np.testing takes arrays of td: np.testing.assert_allclose(a, b)",
    "loadtxt genfromtxt memmap load_npy":
        "td.use(np.loadtxt(path)), or td.use(np.memmap(…)): td.use takes what NumPy reads",
    "savetxt": "np.savetxt(path, td.run(a))",
    "matrix mat bmat": "td.array(rows), whose @ is the matrix product",
    "ma": "keep a mask beside the array: td.where(mask, a, 0), td.compact(mask, a), td.nansum(a)",
    "polynomial Polynomial poly1d": "td.polyval(p, x), td.polyfit, td.polyder",
    "Inf Infinity PINF": "td.inf",
    "NaN NAN": "td.nan",
    "NINF": "-td.inf",
    "NZERO": "-0.0 is td.float64(-0.0)",
    "in1d": "td.isin(a, values)",
    "row_stack": "td.vstack(arrays)",
    "product": "td.prod(a)",
    "cumproduct": "td.cumprod(a)",
    "sometrue": "td.any(a)",
    "alltrue": "td.all(a)",
    "msort": "td.sort(a, axis=0)",
    "asscalar": "a.item()",
    "cumulative_trapezoid": "td.cumsum((y[1:] + y[:-1]) / 2 * dx)",
    "pmap pjit shard_map":
        'td.jit(f, devices=4) runs f on several GPUs, td.jit(f, backend="dask") on several '
        "processes or machines",
    "jacobian jacfwd jacrev":
        "a row is td.grad(lambda x: f(x)[k])(x), a column td.jvp(f, (x,), (e,))[1] of a unit "
        "vector e",
    "hessian":
        "a column is the derivative of the gradient along a unit vector e: td.jvp(td.grad(f), "
        "(x,), (e,))[1]",
    "linearize": "td.jvp(f, args, tangents)",
    "hvp vhp hessian_vector_product": "td.jvp(td.grad(f), (x,), (v,))[1]",
    "lax_map": "td.scan(lambda none, row: (none, f(row)), 0, rows)[1]",
    "slice_in_dim": "a[start:stop] along the first axis, a[:, start:stop] along the second",
    "custom_linear_solve": "td.linalg.solve(a, b), or td.fixed_point(f, x0, tol)",
    "clear_caches": "the programs called last are kept, and code on disk, in TREADLE_CACHE_DIR",
    "Mesh NamedSharding PartitionSpec": "td.shard(a, devices=4) cuts an array along its first axis",
    "device_count devices default_backend default_device local_devices":
        "td.backends() says what works here",
    "defvjp defjvp custom_vjp custom_jvp custom_gradient": "f = td.rule(f), then @f.vjp or @f.jvp",
    "autograd backward": "td.grad(f) is the function that computes the gradient of f",
    "manual_seed": "key = td.random.key(0), which functions of td.random take",
    "swish silu": "x / (1 + td.exp(-x))",
    "elu": "td.where(x > 0, x, td.expm1(x))",
    "fix": "td.trunc(x)",
    "leaky_relu": "td.where(x > 0, x, 0.01 * x)",
    "index_select": "td.take(a, indices, axis)",
    "masked_fill": "td.where(mask, value, a)",
    "mv": "a @ v",
    "xlog1py": "td.where(x == 0, 0, x * td.log1p(y))",
    "entr": "-td.where(x == 0, 0, x * td.log(x))",
    "disable_jit": "leave td.jit out: each operation is computed when its value is needed",
    "ops": "its functions are td's: td.permute, td.fold_seg, a.at[index].add",
    "special lib": "its functions are td's: td.erf, td.erfc, td.lgamma, td.digamma, td.sinc, td.i0",
    "linear_transpose": "td.vjp(f, x)[1]",
    "stop_gradient": "td.stop(x)",
    "checkpoint remat":
        'td.grad(f, memory="2 GB") stores fewer states of loops, and computes the others again',
    "tree tree_map tree_util tree_flatten tree_unflatten tree_leaves tree_structure tree_reduce "
    "pytree":
        "tuples, dataclasses and dicts of arrays go in and out of td.run, td.jit and td.grad; a "
        "comprehension maps over them: {k: w[k] - 0.1 * g[k] for k in w}",
    "make_jaxpr eval_shape":
        "td.jit(f).lower(*args) has .explain() and .graph(); an array has .shape and .dtype "
        "before it is computed",
    "ShapeDtypeStruct": "example arrays: td.jit(f).lower(np.empty(shape, dtype))",
    "device_put to_device": "td.use(a): data is copied when a program needs it",
    "device_get to_numpy": "td.run(a), or np.asarray(a)",
    "debug": "outside of td.jit, print shows values; inside there are none: return them",
    "flatten_util ravel_pytree":
        "td.concatenate([td.flatten(x) for x in arrays]) is one vector of them",
    "pure_callback io_callback":
        "td.foreign_array calls a function of arrays, td.foreign one of numbers",
    "debug_nans debug_infs checkify":
        "td.any(td.isnan(a)) finds NaN; td.config(check=True) checks indices and matrices",
    "enable_x64 x64_enabled": "floats have 64 bits unless an array has 32: x.astype(td.float32)",
    "psum pmean all_gather axis_index": "axes have numbers, no names: td.sum(a, axis=0)",
    "named_scope named_call": "operations take name=, which explain() shows",
    "cumlogsumexp logcumsumexp": "td.scanl1(td.logaddexp, a)",
    "custom_root": "td.fixed_point(f, x0, tol)",
    "broadcasted_iota": "td.indices(shape)[axis]",
    "dot_general": "td.einsum, or td.tensordot",
    "sort_key_val": "order = td.argsort(keys), then keys[order], values[order]",
    "population_count": "td.bitwise_count(a)",
    "bitcast_convert_type view": "td.bitcast(x, type)",
    "count": "td.count_nonzero(a == x) counts elements",
    "mode": "values, counts = td.unique_counts(a); values[td.argmax(counts)]",
    "putmask": "td.where(mask, values, a), or a.at[mask].set(values)",
    "copyto": "td.where(where, src, dst), a new array",
    "live_arrays": "an array is freed with the last reference to it",
    "profiler":
        "f.lower(*args).explain() says what each kernel moves and computes, f.tune(*args).tuning "
        "has times",
    "experimental": "what there is has its name in td, td.linalg, td.fft, td.random",
    "ndtri": "scipy.special.ndtri(td.run(x))",
    "rev": "td.reverse(a, axis)",
    "softplus": "td.logaddexp(x, 0)",
    "log_softmax":
        "e = a - td.max(a, axis, keepdims=True), then e - td.log(td.sum(td.exp(e), axis, "
        "keepdims=True))",
    "ndimage": "td.convolve, td.stencil; the functions of scipy.ndimage take arrays of treadle",
    "explore": "`treadle explore` on the command line opens the page",
    "signal":
        "td.convolve, td.correlate, td.fft; the functions of scipy.signal take arrays of treadle",
    "image":
        "td.generate(shape, lambda i, j: …) reads a[y, x] at any index; interpolate its neighbours",
    "dtypes": "types are td.float32 and so on",
    "select_n": "td.where(p, a, b), or td.select(conditions, choices)",
    "dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim":
        "a[i] and a[i : i + n] take run-time values",
    "dynamic_update_slice dynamic_update_index_in_dim":
        "td.update(a, slice(i, i + n), new), or a.at[i : i + n].set(new)",
    "reduce_window": "td.stencil(lambda w: …, a), or td.fold of a reshaped array",
    "nn": "write the functions: td.maximum(x, 0), td.tanh(x), 1 / (1 + td.exp(-x))",
    "top_k topk":
        "td.argpartition(-a, k)[:k] are the indices of the k largest, in any order; "
        "td.argsort(a, descending=True)[..., :k] in theirs",
    "rsqrt": "1 / td.sqrt(x)",
    "integer_pow": "x ** n",
    "broadcast_in_dim": "td.broadcast_to(a[:, None], shape)",
    "rng_uniform": "td.random.uniform(key, shape)",
    "gelu": "x / 2 * (1 + td.erf(x / 2**0.5))",
    "ndtr": "(1 + td.erf(x / 2**0.5)) / 2",
    "cdf sf":
        "a formula: of the standard normal distribution td.erfc(-x / 2**0.5) / 2 is the cdf, and "
        "td.erfc(x / 2**0.5) / 2 the sf",
    "pdf logpdf":
        "a formula: of the standard normal distribution td.exp(-(x**2) / 2) / (2 * td.pi) ** 0.5 "
        "is the pdf",
    "xlogy": "td.where(x == 0, 0, x * td.log(y))",
    "lerp": "a + t * (b - a)",
    "addcmul": "a + t * b * c",
    "gammaln loggamma": "td.lgamma(x)",
    "betaln": "td.lgamma(a) + td.lgamma(b) - td.lgamma(a + b)",
    "psi": "td.digamma(x)",
    "factorial": "math.factorial(n), or td.cumprod(td.arange(1, n + 1)) for a table",
    "logit": "td.log(p / (1 - p))",
    "polygamma betainc zeta erfinv erf_inv igamma igammac gammainc jv j0 j1 bessel_i0e bessel_i1e":
        "td.foreign(f, x) calls a compiled function of numbers inside a kernel, as one of "
        "scipy.special.cython_special by ctypes; td.erf, td.lgamma and td.digamma are here",
    "cat": "td.concat(arrays, axis)",
    "unsqueeze": "td.expand_dims(a, axis)",
    "mm bmm": "td.matmul(a, b), or a @ b",
    "addmm": "td.matmul(a, b, alpha=…, beta=…, c=…)",
    "clamp_min": "td.maximum(x, least)",
    "clamp_max": "td.minimum(x, most)",
    "clip_by_value": "td.clip(x, least, most)",
    "no_grad": "derivatives are only computed by td.grad: leave it out; td.stop(x) is a constant",
    "cdist":
        "td.generate((n, m), lambda i, j: …), or td.linalg.norm(a[:, None] - b[None], axis=-1)",
    "set_device get_device cuda gpu": 'td.config(backend="cuda"), td.jit(f, backend="cuda")',
    "compile": "td.jit(f)",
    "to_dlpack": "an array has __dlpack__: torch.from_dlpack(a)",
    "guvectorize ElementwiseKernel RawKernel kernel func launch parallel_for RawModule real_func "
    "pyfunc":
        "td.generate(shape, lambda i, j: …), td.map(f, a): functions of one element become kernels",
    "ReductionKernel": "td.fold(f, init, a)",
    "jitclass": "a dataclass of arrays and numbers, which compiled functions take and return",
    "typed": "Python's own lists and dicts of arrays and numbers are arguments and results",
    "objmode":
        "Python runs before and after a compiled function, or while it is traced; td.foreign(f, "
        "x) calls a compiled function of numbers inside",
    "literal_unroll": "a Python for is unrolled while a function is traced",
    "typeof": "a.dtype and a.ndim; td.result_type(a, b)",
    "overload overload_method intrinsic extending register_jitable":
        "a Python function is traced where it is called: nothing is registered",
    "threading_layer get_num_threads": "TREADLE_NUM_THREADS=… in the environment, or all cores",
    "fuse memoize": "td.jit(f); operations are fused",
    "Vector Matrix vec2 vec3 vec4 mat22 mat33 Struct":
        "a tuple of scalars inside a kernel, an array with an axis for the components outside",
    "Stream MemoryPool get_default_memory_pool memory block_local":
        "treadle chooses streams and memory; td.schedule says how blocks are computed",
    "f16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64": "td.float32, td.int32, td.uint8, …",
    "template grouped": "leave it out: functions take arrays of any rank and type",
    "cpu": 'td.config(backend="native"), td.jit(f, backend="native")',
    "cupyx": "td.convolve, td.stencil, td.fft, td.linalg, a.at[i].add(x)",
    "benchmark timeit":
        "time.perf_counter() around calls of f = td.jit(f), after the first, which compiles",
    "get_array_module": "a.__array_namespace__(); td's functions take arrays of NumPy and CuPy",
    "field Field": "td.zeros(shape); what changes is the state of td.iterate or td.loop",
    "init ti wp": "nothing to initialise: td.config(backend=…) chooses",
    "static": "Python loops in a traced function are unrolled: leave it out",
    "math tm": "its functions are td's: td.sin, td.clip, td.floor",
    "GUI ui imshow imread imwrite imsave": _PICTURE,
    "Tape ad": "td.grad(f), td.value_and_grad(f)",
    "loop_config loop_unroll":
        "td.schedule says how loops run: td.schedule.Row() | td.schedule.Block(8, 32)",
    "dataclass": "Python's dataclasses and named tuples of arrays or numbers",
    "types": "functions take arrays of any type: td.float32, td.int32 are names of types",
    "root": _SCIPY + " (recipes: SciPy's optimisers); of a tree of fields, td.zeros(shape)",
    "arch device": "td.config(backend=…) says where programs run, td.backends() what works here",
    "get asnumpy": "td.run(a) computes an array for NumPy",
    "ndrange grid idx threadIdx blockIdx thread":
        "td.generate(shape, lambda i, j: …) gives the index",
    "atomic atomic_add atomic_sub atomic_max atomic_min scatter_max scatter_min":
        "td.permute(f, defaults, target, a), or a.at[indices].add(values), .max(values), "
        ".min(values)",
    "Acc Exp": "td.Array, td.Scalar",
    "foldAll": "td.fold(f, init, a, axis=None)",
    "T2 T3 T4 lift unlift": "tuples: td.zip(a, b), td.unzip(c)",
    "stencil3x3 stencil5x5 stencil3": "td.stencil(lambda w: …, a): w[-1, 0] is a neighbour",
    "Z index1 index2 shapeSize": "shapes and indices are tuples; a.shape, a.size",
    "DataFrame Series read_csv groupby pivot_table resample": _FRAME,
    "rolling ewm":
        'td.convolve(a, td.ones(n) / n, mode="valid") is a rolling mean, td.stencil any other '
        "function of a window",
    "shift": "td.roll(a, n), or td.pad(a[:-n], (n, 0))",
    "nlargest": "-td.partition(-a, k)[:k], in any order; td.sort(a, descending=True)[:k] in theirs",
    "rank": "td.argsort(td.argsort(a))",
    "max_pool avg_pool pool": _POOLED,
    "stride_tricks": "td.stencil(lambda w: …, a), or td.stack of shifted views",
    "simpson": "td.sum(y * weights) of the weights 1, 4, 2, 4, …, 4, 1",
    "for_loop": "td.loop(n, lambda k, state: …, init)",
    "case": "td.cond(p, a, b), one inside another, or td.select(conditions, choices)",
    "cfunc": "td.jit(f) for arrays; td.foreign(f, x) calls a numba.cfunc",
    "optim": "write the step, w - 0.1 * td.grad(loss)(w), in td.iterate",
    "array_api": "import treadle.array_api: the Array API standard's namespace",
    "binomial multinomial bernoulli":
        "td.random says what is written: td.random.choice, or td.random.uniform(key, shape) < p",
    "shared local syncthreads":
        "schedules say how blocks are computed: td.schedule.Block(8, 32) | td.schedule.Stage()",
    "ifelse if_": "td.cond(p, a, b), td.where(p, a, b)",
    "for_": "td.loop(n, f, init)",
    "enumerate": "td.indexed(a), td.imap(f, a)",
    "vgrad": "td.value_and_grad(f)",
    "reduce_sum vsum": "td.sum(a, axis)",
    "scipy": "td.convolve, td.linalg, td.fft; the other functions of SciPy take arrays of treadle",
    "eigvals":
        "td.linalg.eigvalsh for symmetric matrices; others by np.linalg.eigvals(a), outside of "
        "compiled functions",
    "schur hessenberg expm logm sqrtm":
        "scipy.linalg's takes arrays of treadle, outside of compiled functions",
    "cg cgs bicg bicgstab gmres minres lsqr":
        "docs/recipes.md has a solver, by td.while_loop, and SciPy's take a compiled product f: "
        "scipy.sparse.linalg.LinearOperator(a.shape, matvec=f)",
    "lu_factor": "td.linalg.lu(a)",
    "lu_solve cho_solve": "td.linalg.solve(a, b)",
    "cho_factor": "td.linalg.cholesky(a)",
    "multi_dot": "a @ b @ c, or td.einsum, which orders the products",
    "tensorinv tensorsolve": "td.reshape to matrices, then td.linalg.solve",
    "median_filter rank_filter percentile_filter": _MEDIAN,
    "maximum_filter grey_dilation binary_dilation dilation":
        "td.stencil(lambda w: …, a) with td.maximum of its neighbours",
    "minimum_filter grey_erosion binary_erosion erosion":
        "td.stencil(lambda w: …, a) with td.minimum of its neighbours",
    "zoom map_coordinates affine_transform rescale remap": _SAMPLED,
    "warp": f"{_SAMPLED}.  The boundary is td.wrap",
    "rotate imrotate": "td.rot90 by right angles; for others " + _SAMPLED,
    "rgb2gray rgb2grey": "rgb @ np.float32([0.2125, 0.7154, 0.0721])",
    "equalize_hist": "td.cumsum(td.bincount(grey, length=256)), read at the pixels",
    "threshold_otsu": "td.bincount(grey, length=256), and td.cumsum and td.argmax of it",
    "canny": "`treadle example canny` has its source",
    "lfilter sosfilt filtfilt":
        "td.scan(f, init, a) for a recurrence; td.convolve for finite weights",
    "hilbert": "td.fft.fft, twice the positive frequencies, td.fft.ifft",
    "interp1d make_interp_spline CubicSpline": "td.interp(x, xp, fp) is linear",
    "minimize least_squares curve_fit root_scalar linprog quad solve_ivp odeint fsolve brentq "
    "optimize":
        _SCIPY + " (recipes: SciPy's optimisers)",
    "integrate":
        "td.trapezoid(y, x) of samples, td.iterate for steps in time; functions compiled by td.jit "
        "are what scipy.integrate takes",
    "stats":
        "td.mean, td.std, td.median, td.quantile, td.histogram, td.corrcoef; td.random draws; "
        "scipy.stats takes what td.run(a) returns",
    "interpolate": "td.interp(x, xp, fp) is linear; scipy.interpolate takes what td.run(a) returns",
    "spatial sparse cluster":
        "SciPy's functions take what td.run(a) returns; td.fold_seg works on the rows of a sparse "
        "matrix",
    "io": "files are NumPy's, Pillow's, zarr's or h5py's: np.load(path), np.save(path, td.run(a)); "
        "td.stream(f, a) reads and writes arrays larger than memory",
    "constants": "np.pi, np.e and scipy.constants are numbers of Python's",
    "strings": "elements are numbers: compare text before, np.asarray(names) == name",
    "label distance_transform_edt watershed regionprops find_peaks griddata KDTree cKDTree "
    "pearsonr spearmanr": _SCIPY.partition(",")[0],
    "csr_matrix csr_array coo_matrix csc_matrix spdiags":
        "td.fold_seg of the values of rows, with np.diff(m.indptr) for a CSR matrix m",
    "zscore": "(a - td.mean(a)) / td.std(a)",
    "circulant": "td.generate((n, n), lambda i, j: c[(i - j) % n])",
    "hist histc": "td.histogram(a, bins)",
    "inverse": "td.linalg.inv(a)",
    "dot_product inner_product": "td.dot(a, b), td.linalg.vecdot(a, b)",
    "sort_values": "td.sort(a); td.take(a, td.argsort(keys)) sorts by keys",
    "block_diag": "td.block of the blocks and td.zeros",
    "toeplitz": "td.generate((n, n), lambda i, j: c[td.abs(i - j)])",
    "dct idct dst": "td.fft.rfft of the array and its reflection",
    "next_fast_len": "any extent is fast whose prime factors are 2, 3, 5 and 7: td.fft.rfft(a, n)",
})  # fmt: skip

#: Names of boundaries in other libraries, and treadle's as texts.
BOUNDARIES = {
    **{name: f"td.{name}" for name in ("clamp", "mirror", "symmetric", "wrap")},
    **{name: INSTEAD[name] for name in ("reflect", "nearest", "edge", "periodic")},
    **by_name({
        "replicate extend clamped border": "td.clamp",
        "circular grid-wrap cyclic": "td.wrap",
        "grid-mirror": "td.symmetric",
        "zero zeros fill grid-constant": "td.constant(0)",
        "constant": "td.constant(value)",
    }),
}  # fmt: skip

#: Names of array methods.
METHODS = by_name({
    "numpy cpu get compute block_until_ready values detach addressable_data persist": RUN,
    "clone": "arrays are immutable: use the array itself",
    "fill": "arrays never change: td.full_like(a, value)",
    "view": "td.bitcast(x, type) reads the same bits as another type, x.astype(type) converts; a "
            "library that wants views takes td.run(x), an array of NumPy's",
    "to": "x.astype(type) converts; td.config(backend=…) says where it runs",
    "permute": "td.transpose(a, axes)",
    "unsqueeze": "td.expand_dims(a, axis)",
    "flat": "td.flatten(a)",
    "data ctypes byteswap": "the memory is that of td.run(a), an array of NumPy's",
    "tofile": "td.run(a).tofile(path), or np.save(path, a)",
    "to_list": "a.tolist()",
    "fillna": "td.where(td.isnan(a), value, a)",
    "dropna notna notnull": "a[~td.isnan(a)] are the elements that are not NaN",
    "isna isnull": "td.isnan(a)",
    "head tail": "a[:5], a[-5:]",
    "equals": "td.array_equal(a, b)",
    "index": "td.flatnonzero(a == x)[0] is the first index",
    "idxmax": "td.argmax(a)",
    "idxmin": "td.argmin(a)",
    "between": "(low <= a) & (a <= high)",
    "value_counts": "values, counts = td.unique_counts(a)",
    "nunique": "td.unique(a).shape[0]",
    "pct_change": "td.diff(a) / a[:-1]",
    "corr": "td.corrcoef(a, b)",
    "describe": "td.percentile(a, [0, 25, 50, 75, 100]), a.mean(), a.std(ddof=1)",
    "plot hist": "matplotlib takes arrays: plt.plot(a), plt.hist(a)",
    "cuda is_cuda sharding": 'td.config(backend="cuda") says where it runs',
    "strides flags contiguous setflags newbyteorder":
        "an array has no layout, but td.run(a) has: give it to what asks",
    "requires_grad backward": "td.grad(f) is the gradient of a function",
    "length": "a.shape[0], a.size",
    "apply pipe": "td.map(f, a), or f(a)",
    "iloc loc": "a[index]",
    "set sort_ add_": "arrays never change: a.at[index].set(new)",
    "chunks": 'td.jit(f, backend="dask") takes arrays in chunks',
    "weak_type aval": "a.dtype, a.shape",
})  # fmt: skip

_CODE = (
    'f.lower(*args).source() is the code of its kernels: LLVM IR on "native", CUDA C++ on "cuda"'
)
_SAYS = "f.lower(*args).explain() says what became of it, and with which types"
#: Names of attributes of compiled functions of other libraries.
COMPILED = by_name({
    "inspect_llvm inspect_asm inspect_ptx inspect_sass as_text": _CODE,
    "inspect_types parallel_diagnostics inspect_cfg cost_analysis memory_analysis "
    "nopython_signatures signatures": _SAYS,
    "py_func": "the Python function is f.__wrapped__",
    "compile recompile clear_cache eval_shape trace":
        "it is compiled when a combination of ranks and types is new; f.lower(*args) is its "
        "program",
})  # fmt: skip

#: Names of attributes of lowered functions of other libraries.
PROGRAM = {
    **{name: said.replace("f.lower(*args).", "program.") for name, said in COMPILED.items()},
    **by_name({
        "compile": "it is compiled at its first call, program(*args), or found in the disk cache",
        "lower trace": "it is the program for these arguments: call it",
        "cost_analysis memory_analysis":
            "program.explain() says which bytes each kernel moves, and what it computes",
        "in_tree out_tree args_info out_info in_avals out_avals":
            _SAYS.replace("f.lower(*args).", "program."),
        "serialize export compiler_ir as_serialized_dot_graph":
            "program.save(path) writes it, td.load(path) reads it, program.source() is its code",
    }),
}  # fmt: skip
#: Names of methods of `a.at[index]` of other libraries.
AT_METHODS = {
    **{name: f"td.permute(td.{function}, a, lambda i: indices[i], new)"
       for function in ("logical_or", "logical_and", "bitwise_or", "bitwise_and", "bitwise_xor")
       for name in (function, function.partition("_")[2])},
    **by_name({
        "get": "read the part: a[index]",
        "apply": "a.at[index].set(f(a[index]))",
        "mul": "a.at[index].multiply(new)",
        "divide div": "a.at[index].set(a[index] / new)",
        "subtract": "a.at[index].add(-new)",
        "power": "a.at[index].set(a[index] ** new)",
    }),
}  # fmt: skip

#: Names of methods of NumPy's ufuncs.
UFUNC_METHODS = {
    "reduce": "Write td.fold(f, init, a, axis), or td.fold1(f, a, axis).",
    "accumulate": "Write td.scanl1(f, a, axis).",
    "reduceat": "Write td.fold1_seg(f, a, lengths).",
    "outer": "Operators broadcast: write a[:, None] + b.",
}
#: The reductions and scans of functions of NumPy's that have names.
_NAMED = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
    ("maximum", "accumulate"): "cummax",
    ("minimum", "accumulate"): "cummin",
}


def of_ufunc(name: str, method: str) -> str:
    """What is written instead of the method of NumPy's function of this name."""
    if method == "at":
        return f"{at_indices(name)}."
    if named := _NAMED.get((name, method)):
        return f"Write td.{named}(a, axis); of a list of arrays a = td.stack([x, y]), axis=0."
    combine = "f" if public(name) is None else f"td.{name}"
    return UFUNC_METHODS[method].replace("(f,", f"({combine},")


#: Functions of NumPy's whose `np.f.at(a, indices, values)` is a method of `a.at[indices]`.
_AT_INDICES = {
    "add": "add(values)",
    "subtract": "add(-values)",
    "multiply": "multiply(values)",
    "minimum": "min(values)",
    "maximum": "max(values)",
}


def at_indices(function: str) -> str:
    """What is written instead of `np.function.at(a, indices, values)`."""
    if function in _AT_INDICES:
        return f"Write a = a.at[indices].{_AT_INDICES[function]}"
    combine = "f" if public(function) is None else f"td.{function}"
    return f"Write td.permute({combine}, a, lambda i: td.use(indices)[i], values)"


#: Keyword arguments of other libraries → treadle's name for them.
_SYNONYMS = by_name({
    "dim axes": "axis",
    "a_min min minval": "low",
    "a_max max maxval": "high",
    "device target": "backend",
    "newshape size": "shape",
    "mode": "boundary",
    "fill_value": "value",
    "num": "n",
})  # fmt: skip
#: Keyword arguments of other libraries → the equivalent.
_KEYWORDS = {
    **by_name({
        "out": "Results are new arrays: write b = f(a)",
        "where": "td.where(p, f(x), other) chooses results, a[p] are the elements where p holds",
        "array.ndmin": "a[None] and td.atleast_2d(a) add axes",
        "dtype": "Convert it: x.astype(dtype)",
        "casting": "x.astype(dtype) converts",
        "copy": "Arrays never change: leave it out",
        "stencil.": "It is called where the array is, td.stencil(f, a), in a function with @td.jit",
        "where.":
            "The indices where it holds are td.nonzero(p), the elements a[p] or td.filter(f, a)",
        "where.size where.fill_value":
            "td.nonzero(p) are the indices: extents may depend on what arrays hold",
        "unique.axis": "Of rows, outside of compiled functions: np.unique(a, axis=0)",
        "choice. integers. integers.* permutation. shuffle.":
            "The first argument is a key, td.random.key(0)",
        "loop.*":
            "Of steps other than 1 give the number: td.loop(len(range(a, b, step)), lambda k, s: "
            "f(a + k * step, s), init)",
        "cond.*": "The sides are values, of which one is computed: td.cond(p, f(x), g(x))",
        "kind": "Sorts are stable: leave it out",
        "sort.order": "Ascending is the only order: td.reverse(td.sort(a), axis) descends",
        "order": "An array has no layout: leave it out",
        "optimize": "The order of products is chosen automatically: leave it out",
        "pad.reflect_type pad.end_values pad.stat_length":
            "By NumPy, before: np.pad(np.asarray(a), …); or td.concatenate of the parts",
        "initial": "td.fold(f, init, a) starts with a value",
        "static_argnums": "Put the value into a closure: td.jit(lambda a: f(a, n))",
        "static_argnames": "Put the value into a closure: td.jit(lambda a: f(a, n=n))",
        "donate_argnums donate_argnames": "Memory is reused automatically: leave it out",
        "debug_nans": "td.any(td.isnan(a)) finds NaN, of an intermediate result that f returns",
        "check": "Write with td.config(check=True): before the call",
        "enable_x64": "Floats have 64 bits unless an array has 32: leave it out",
        "unroll": "Steps are run as they are: leave it out",
        "nopython": "Everything is compiled: leave it out",
        "parallel": "Everything is parallel: leave it out",
        "cache": "Compiled code is cached on disk automatically: leave it out",
        "fastmath": "Write fast_math=True",
        "linspace.retstep": "The distance is x[1] - x[0]",
        "cval": "Write boundary=td.constant(value)",
        "truncate": "The weights say how far a filter reaches",
        "reverse": "td.reverse(a, axis) reverses an array",
        "key": "td.take(a, td.argsort(keys)) sorts by keys",
    }),
    **dict.fromkeys(
        (f"{f}.{word}" for f in ("unique", "unique_values", "unique_counts", "unique_inverse",
                                 "unique_all", "nonzero", "flatnonzero", "argwhere")
         for word in ("size", "fill_value")),
        "Extents may depend on what arrays hold, also in compiled functions: leave it out",
    ),
    **dict.fromkeys(
        (f"{f}.mode" for f in ("set", "add", "multiply", "min", "max")),
        "An index that is computed and out of range changes nothing: leave it out",
    ),
}  # fmt: skip


def instead_of_keyword(function: str, word: str, known: Iterable[str]) -> str:
    """A hint for a keyword argument that a function does not accept; "" if there is none."""
    if _SYNONYMS.get(word) in set(known):
        return f"Did you mean {_SYNONYMS[word]}?  "
    instead = _KEYWORDS.get(f"{function}.{word}") or _KEYWORDS.get(word)
    return f"{instead}.  " if instead else ""


def of_numpy(name: str, computable: bool, package: str = "") -> str:
    """A hint for NumPy's function `name`, of the package `linalg`, `fft` or none of these, applied
    to an array or a scalar; `computable`: whether its value can be computed at this point."""
    if name in _WRITERS and not computable:
        return f"Return the array, and store what the call returns: np.{name}(path, f(a))."
    instead = None if name in _OWN else _IN_PACKAGE.get(package, {}).get(name, INSTEAD.get(name))
    return _taken_by_numpy(computable) if instead is None else f"Instead: {instead}."


def _taken_by_numpy(computable: bool) -> str:
    if computable:
        return "td.run(a) computes the array, and NumPy takes it from there."
    return "There is no value for NumPy while a program is traced: write it with td's functions."


#: Names that treadle has, but on other objects.
_OWN = ("explain", "source", "graph", "tune", "save", "lower")
#: NumPy's functions that write files.
_WRITERS = ("save", "savez", "savez_compressed", "savetxt")


_OF_NUMBERS = (
    "It computes with values.  In a program write it with td's functions: td.map(lambda x, y: …, "
    "a, b) for numbers, axis=-1 for rows; td.foreign(f, x) calls a function of numbers that "
    "numba.njit compiled, td.foreign_array any function of arrays."
)


def counterpart(name: str) -> str | None:
    """What is written for a library's function of this name; None if nothing is known."""
    if public(name) is not None:
        return f"td.{name}"
    for package in ("linalg", "fft"):
        if name in vars(public(package)):
            return f"td.{package}.{name}"
    return INSTEAD.get(name)


def no_ufunc(
    ufunc: np.ufunc, method: str, given: Iterable[str], computable: bool
) -> tuple[str, str]:
    """The unsupported part of a call of a function of NumPy's or of others', and a hint."""
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:
        special = getattr(sys.modules.get("scipy.special"), name, None) is ufunc
        instead = counterpart(name) if special else None
        said = _OF_NUMBERS if instead is None else f"Instead: {instead}."
        return f"{'scipy.special.' if special else 'the ufunc '}{name}", said
    if method != "__call__":
        return f"np.{name}.{method}", of_ufunc(name, method)
    word = next(iter(given), None)
    if word == "out":
        return f"np.{name} into an array of NumPy's", (
            "Its values are not computed yet: write w = w + v instead of w += v, and no out=."
        )
    if word is not None:
        other = "td.where(p, a, b) chooses" if word == "where" else "x.astype(type) converts"
        return f"np.{name}({word}=…)", f"Leave it out: {other}."
    return f"np.{name}", _taken_by_numpy(computable)


def missing(name: str, known: Iterable[str], package: str = "", homes: Sequence[str] = ()) -> str:
    """The error text for a name that treadle, or a package of it, does not have; `homes`: where
    else in treadle it is."""
    where = f"treadle.{package}" if package else "treadle"
    instead = _IN_PACKAGE.get(package, {}).get(name)
    if instead is None:
        instead = homes[0] if homes else INSTEAD.get(name)
    if instead is not None:
        return f"{where} has no {name!r}: {instead}."
    lower = {n.lower(): n for n in known}
    # (NumPy loads np.fft when it is asked for.)
    home = getattr(np, package) if package in ("linalg", "fft") else None if package else np
    numpys = getattr(home, name, None)
    if isinstance(numpys, np.ufunc | type(np.sum)):  # which look at the classes of arguments
        of = f"np.{package}.{name}".replace("..", ".")
        return f"{where} has no {name!r}: {of}(td.run(a), …), outside of compiled functions."
    near = lower.get(name.lower())
    least = 0.72 if len(name) > 3 else 0.8  # short names resemble too many
    found = f"Did you mean {near}?" if near else did_you_mean(name, known, least=least)
    return f"{where} has no {name!r}.  {found}".rstrip()


later.offer(instead_of_keyword=instead_of_keyword)
