"""Names of other libraries that people try answer with what is written instead, and that works."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import treadle as td

_ASKED = """
numpy lax jnp nn vmap pmap jacobian jacfwd jacrev hessian linearize stop_gradient custom_vjp remat
tree_map make_jaxpr eval_shape ShapeDtypeStruct device_put device_get devices select_n
dynamic_slice dynamic_update_slice reduce_window conv_general_dilated fori_loop switch segment_sum
segment_max top_k rsqrt expit gelu gammaln erfinv float128 longdouble complex256 float8_e4m3fn
int4 intc longlong byte float_ bool8 str_ object datetime64 nditer ndenumerate ndindex errstate
seterr testing default_rng RandomState loadtxt savetxt matrix ma polynomial Inf NaN NINF in1d
row_stack product sometrue msort ascontiguousarray asanyarray shares_memory cumulative_trapezoid
Tensor cat unsqueeze mm bmm no_grad clamp_min cdist set_device cuda compile to_numpy to_dlpack
guvectorize ElementwiseKernel RawKernel ReductionKernel get_array_module synchronize field ndrange
threadIdx atomic_add syncthreads shared if_ for_ enumerate vgrad eigvals lu_factor
solve_triangular multi_dot toeplitz dct fft.dct linalg.expm linalg.cond linalg.lu_solve linalg.eig
linalg.cg
random.PRNGKey random.rand random.randn random.randint random.seed random.default_rng
random.bernoulli random.categorical random.gumbel random.laplace random.dirichlet
random.multivariate_normal random.lognormal random.chisquare random.sum linalg.sin fft.abs
tree_flatten ravel_pytree pure_callback debug_nans enable_x64 psum named_scope logcumsumexp
broadcasted_iota dot_general sort_key_val population_count rev softplus log_softmax signal image
dtypes random.t random.maxwell igamma integer_pow broadcast_in_dim default_device
"""


@pytest.mark.parametrize("name", _ASKED.split())
def test_answers_with_what_is_written(name):
    package, _, word = name.rpartition(".")
    where = f"treadle.{package}" if package else "treadle"
    with pytest.raises(AttributeError, match=f"^{where} has no '{word}': .") as info:
        operator.attrgetter(name)(td)
    assert info.value.name == word


@pytest.mark.parametrize(
    "name",
    ["numpy", "cuda", "strides", "data", "requires_grad", "iloc", "length", "view", "apply", "set",
     "to_list", "clone", "values"],
)  # fmt: skip
def test_attributes_of_arrays(name):
    with pytest.raises(AttributeError, match=f"an Array has no '{name}': ."):
        getattr(td.iota(3), name)


def test_functions_that_are_advised():
    a = np.array([[0.5, -2.0, 1.5], [3.0, 0.0, -1.0]])
    np.testing.assert_allclose(td.run(td.logaddexp(a, 0)), np.log1p(np.exp(a)))
    sums = td.run(td.scanl1(td.logaddexp, a[0]))
    np.testing.assert_allclose(sums, np.log(np.cumsum(np.exp(a[0]))))
    e = a - td.max(a, 1, keepdims=True)
    soft = td.run(e - td.log(td.sum(td.exp(e), 1, keepdims=True)))
    np.testing.assert_allclose(np.exp(soft).sum(axis=1), 1)


def test_every_function_of_arrays_of_numpy_is_there_or_answered():
    for package in ("", "linalg.", "fft."):
        get = operator.attrgetter
        for word in get(package[:-1])(np).__all__ if package else np.__all__:
            function = get(package + word)(np)
            if not isinstance(function, np.ufunc | type(np.sum)):
                continue
            where = f"treadle.{package}"[:-1] if package else "treadle"
            try:
                get(package + word)(td)
            except AttributeError as error:
                assert f"{where} has no {word!r}: " in str(error)
    with pytest.raises(AttributeError, match=r"np\.array2string\(td\.run\(a\), …\), outside"):
        _ = td.array2string
    with pytest.raises(AttributeError, match=r"treadle has no 'show_config'\.$"):
        _ = td.show_config


def test_misspelled_names_of_packages():
    with pytest.raises(AttributeError, match=r"treadle\.random has no 'unifrom'\.  Did you mean"):
        _ = td.random.unifrom
    assert not hasattr(td.linalg, "__wrapped__")


def test_dtypes_have_numpys_letters():
    for t in (td.bool_, td.int8, td.int64, td.uint16, td.float16, td.float64, td.complex64):
        assert t.kind == np.dtype(t).kind and t.char == np.dtype(t).char
    assert td.bfloat16.kind == "f"
    assert td.iota(3).dtype.kind == "i" and (td.iota(3) / 2).dtype.kind == "f"


def test_the_hessian_and_the_jacobian_that_are_advised():
    def f(x):
        return td.sum(x**3) + x[0] * x[1]

    x = np.array([1.0, 2.0])
    columns = [td.run(td.jvp(td.grad(f), (x,), (e,))[1]) for e in np.eye(2)]
    assert np.allclose(np.stack(columns, 1), [[6, 1], [1, 12]])
    row = td.run(td.grad(lambda x: (x**2 * x[0])[1])(x))
    assert np.allclose(row, [4, 4])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("made", "mean", "variance"),
    [
        (lambda k, n: -td.log(td.random.exponential(k, n)), 0.5772, np.pi**2 / 6),
        (lambda k, n: td.exp(td.random.exponential(k, n) / 5) - 1, 0.25, 5 / 48),
        (lambda k, n: td.sqrt(2 * td.random.exponential(k, n)), np.sqrt(np.pi / 2), 2 - np.pi / 2),
        (lambda k, n: td.ceil(td.random.exponential(k, n) / -td.log1p(-0.25)), 4.0, 12.0),
        (lambda k, n: 2 * td.random.gamma(k, n, 1.5), 3.0, 6.0),
        (lambda k, n: 2 * td.random.integers(k, n, 0, 2) - 1, 0.0, 1.0),
        (lambda k, n: td.random.exponential(k, n) ** 0.5, np.sqrt(np.pi) / 2, 1 - np.pi / 4),
        (lambda k, n: td.linalg.norm(td.random.normal(k, (n, 3)), axis=-1), (8 / np.pi) ** 0.5,
         3 - 8 / np.pi),
        (lambda k, n: td.random.normal(k, n)
         / td.sqrt(td.random.gamma(td.random.fold_in(k, 1), n, 3.0) / 3), 0.0, 1.5),
    ],
    ids=["gumbel", "pareto", "rayleigh", "geometric", "chisquare", "rademacher", "weibull",
         "maxwell", "t"],
)  # fmt: skip
def test_the_distributions_that_are_advised(made, mean, variance):
    values = td.run(made(td.random.key(3), 200_000))
    assert abs(values.mean() - mean) < 6 * np.sqrt(variance / values.size)
    assert abs(values.var() / variance - 1) < 0.1


def test_the_special_functions_that_are_advised():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-3, 3, 50)
    assert np.allclose(td.run(1 / (1 + td.exp(-x))), special.expit(x))
    assert np.allclose(td.run((1 + td.erf(x / 2**0.5)) / 2), special.ndtr(x))


def test_numpy_counts_bits_of_absolute_values(backend):
    x = np.array([-1, -128, 127, 0, 6], "int8")
    assert np.array_equal(td.run(td.bitwise_count(x), backend=backend), np.bitwise_count(x))


@pytest.mark.parametrize(
    ("f", "hint"),
    [
        (lambda v: v / math.sqrt(v.shape[0]), r"Write td\.sqrt\(v\.shape\[0\]\)"),
        (lambda v: v * math.log2(td.sum(v)), r"Write td\.log2\(td\.sum\(v\)\)"),
        (lambda v: td.map(lambda x: math.sin(x), v), r"Write td\.sin\(x\)"),
        (lambda v: td.map(lambda x: math.floor(x), v), r"Write td\.floor\(x\)"),
        (lambda v: v / float(v.shape[0]), r"td\.cast\(x, td\.float64\)"),
        (lambda v: td.map(lambda x: math.gamma(x), v), r"td\.sin instead of math\.sin"),
    ],
    ids=["sqrt", "log2", "sin", "floor", "float", "gamma"],
)  # fmt: skip
def test_functions_of_math_answer_with_those_of_td(f, hint):
    with pytest.raises(td.TracingError, match=hint):
        td.jit(f).lower(np.ones(3))


def test_functions_of_users_are_not_those_of_their_names():
    """A ufunc that somebody made is called as it is, also where treadle has another of its name."""
    numba = pytest.importorskip("numba")
    made = {}
    for name in ("cumsum", "clip", "exp"):
        space = {}
        exec(f"def {name}(x): return x * 100", space)
        made[name] = numba.vectorize(["float64(float64)"])(space[name])
    x = np.array([1.5, -2.0])
    for name, function in made.items():
        assert np.array_equal(function(td.use(x)), x * 100), name
        with pytest.raises(td.TracingError, match=name):
            td.jit(lambda a, function=function: function(a))(x)
