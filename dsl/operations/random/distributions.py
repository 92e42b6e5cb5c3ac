"""Normal, exponential, gamma, beta and Poisson distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...annotations import ArrayLike, DTypeLike, ShapeLike, Value
from ...errors import DTypeError
from ...scalar import Scalar, apply_primitive
from ...types import ScalarType, as_type, float32, float64, int64, uint32
from ..common import operation
from ..control import cond, while_loop
from ..elements.functions import cast, exp, floor, isfinite, log, log1p, sqrt, where
from . import philox
from .uniforms import as_float, float_type, is_literal, odd_fraction, unit_fraction

# The quantiles of the normal distribution.  float64: Wichura's algorithm AS 241 (1988), ratios of
# polynomials of degree 7 in 0.180625 − q², of q = u − ½, and in √(−log min(u, 1 − u)).  float32:
# Giles, Approximating the erfinv function (2010), polynomials in −log (1 − x²), of x = 2u − 1.
_CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_FLANK = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip
_SHORT_CENTRE = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                 -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
_SHORT_TAIL = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
               -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Of coefficients in ascending order."""
    value: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def _quantile(x: Scalar) -> Scalar:
    """√2 · erf⁻¹(x), of an `odd_fraction` number."""
    size = abs(x)
    if x.dtype == float32:
        w = -log((1 - x) * (1 + x))
        centre, tail = _polynomial(_SHORT_CENTRE, w - 2.5), _polynomial(_SHORT_TAIL, sqrt(w) - 3)
        return where(w < 5, centre, tail) * x * math.sqrt(2.0)
    q = 0.5 * x
    square = 0.180625 - q * q
    r = sqrt(-log(0.5 * (1 - size)))
    centre, flank = ([_polynomial(c, y) for c in of]
                     for of, y in ((_CENTRE, square), (_FLANK, r - 1.6)))  # fmt: skip
    rare = _polynomial(_TAIL[0], r - 5) / _polynomial(_TAIL[1], r - 5)
    near = size <= 0.85
    above = where(near, centre[0] * q, where(x < 0, -flank[0], flank[0]))
    usual = above / where(near, centre[1], flank[1])
    return cond(r <= 5, usual, where(x < 0, -rare, rare))


@operation
def normal(
    key: philox.KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Value:  # fmt: skip
    """Floats of the normal distribution with mean `loc` and standard deviation `scale`.

    Parameters
        loc, scale: mean and standard deviation, numbers or arrays that broadcast to `shape`.

    A number is √2 erf⁻¹(2u − 1), u = (k + ½) 2⁻²³ for the top 23 bits k of `bits(key, shape,
    uint32)`; in float64 u = (k + ½) 2⁻⁵² for the top 52 bits k of a uint64.

    >>> td.run(td.random.normal(td.random.key(0), 3)).round(3)
    array([-0.256,  0.63 ,  1.915])
    """
    t = float_type(dtype, "normal")

    def draw(key: philox.ScalarKey, i: Scalar, loc: Any, scale: Any) -> Scalar:
        return _moved(_quantile(odd_fraction(philox.drawn_word(key, i, t.bits), t)), loc, scale, t)

    return philox.random_values("normal", key, shape, draw, loc, scale)


def _moved(x: Scalar, loc: Any, scale: Any, t: ScalarType) -> Scalar:
    if not is_literal(scale, 1):
        x = x * as_float(scale, t)
    return x if is_literal(loc, 0) else x + as_float(loc, t)


@operation
def exponential(
    key: philox.KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, scale: ArrayLike = 1.0
) -> Value:
    """Exponentially distributed floats: −scale · log(1 − u) of `uniform` numbers u.

    Parameters
        scale: the mean, a number or an array that broadcasts to `shape`.

    >>> td.run(td.random.exponential(td.random.key(0), 3)).round(3)
    array([0.509, 1.331, 3.584])
    """
    t = float_type(dtype, "exponential")

    def draw(key: philox.ScalarKey, i: Scalar, scale: Any) -> Scalar:
        return _moved(-log1p(-unit_fraction(philox.drawn_word(key, i, t.bits), t)), 0, scale, t)

    return philox.random_values("exponential", key, shape, draw, scale)


def _gamma_parts(key: philox.ScalarKey, i: Scalar, a: Scalar) -> tuple[Scalar, Scalar]:
    """x and y of a number x · eʸ of the gamma distribution, by Marsaglia and Tsang (2000).

    Of a < 1, the number of a + 1 times a power of a uniform one, which may underflow: y is its
    logarithm, else 0."""
    t = a.dtype
    small = a < 1
    usable = (a > 0) & isfinite(a)
    d = where(small, a + 1, a) - 1 / 3
    c = 1 / sqrt(9 * d)

    def pair(attempt: Any) -> tuple[Scalar, Scalar]:
        words = philox.random_block(key, i, attempt, philox.RETRY)
        if t == float32:
            return words[0], words[1]
        return philox.wide_word(words[0], words[1]), philox.wide_word(words[2], words[3])

    def draw(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        first, second = pair(attempt)
        x, u = _quantile(odd_fraction(first, t)), unit_fraction(second, t)
        root = 1 + c * x
        v = root * root * root
        bound = 0.5 * x * x + d - d * v + d * log(v)
        return attempt, v, (root > 0) & (log(u) < bound)

    _, v, _ = while_loop(lambda s: ~s[2], draw, (uint32(0), t(1), ~usable))
    power = log(0.5 * (1 + odd_fraction(pair(0)[0], t))) / a
    found = apply_primitive("stop", [(d * v)._expr])
    drawn = Scalar(apply_primitive("gamma_draw", [found, where(small, a + 1, a)._expr]))
    value = where(usable, drawn, where((a == 0) | (a == math.inf), a, math.nan))
    return value, where(small & usable, power, 0)


@operation
def gamma(
    key: philox.KeyLike, shape: ShapeLike, a: ArrayLike, scale: ArrayLike = 1.0,
    dtype: DTypeLike = float64,
) -> Value:  # fmt: skip
    """Floats of the gamma distribution, of density xᵃ⁻¹ e⁻ˣ / Γ(a).

    Parameters
        a: the shape parameter, a number or an array that broadcasts to `shape`; NaN results where
            it is negative.
        scale: what the numbers are multiplied by.

    By the rejection method of Marsaglia and Tsang (2000).  Differentiated by `a` as a quantile, at
    a fixed probability; for a < 1 as the product of two quantiles by which it is drawn.

    >>> td.run(td.random.gamma(td.random.key(0), 3, 2.0)).round(3)
    array([2.559, 3.371, 1.041])
    """
    t = float_type(dtype, "gamma")

    def draw(key: philox.ScalarKey, i: Scalar, a: Any, scale: Any) -> Scalar:
        value, power = _gamma_parts(key, i, as_float(a, t))
        return _moved(value * exp(power), 0, scale, t)

    return philox.random_values("gamma", key, shape, draw, a, scale)


@operation
def beta(
    key: philox.KeyLike, shape: ShapeLike, a: ArrayLike, b: ArrayLike, dtype: DTypeLike = float64
) -> Value:
    """Floats of the beta distribution, of density xᵃ⁻¹ (1 − x)ᵇ⁻¹ / B(a, b).

    Parameters
        a, b: the shape parameters, positive numbers or arrays that broadcast to `shape`.

    Of two numbers x and y of gamma distributions, x / (x + y).

    >>> td.run(td.random.beta(td.random.key(0), 3, 2.0, 5.0)).round(3)
    array([0.301, 0.228, 0.034])
    """
    t = float_type(dtype, "beta")

    def draw(key: philox.ScalarKey, i: Scalar, a: Any, b: Any) -> Scalar:
        (x, p), (y, q) = (
            _gamma_parts(philox.derived_key(key, k), i, as_float(v, t))
            for k, v in enumerate((a, b))
        )
        most = where(p > q, p, q)
        x, y = x * exp(p - most), y * exp(q - most)
        return x / (x + y)

    return philox.random_values("beta", key, shape, draw, a, b)


def _log_factorial(k: Scalar) -> Scalar:
    """log k! of whole float64 numbers k ≥ 0: Stirling's series from 7 on."""
    x = k + 1
    below: Any = 1.0
    for step in range(7):  # Γ(x) = Γ(x + n) / (x (x + 1) … (x + n − 1))
        below = below * where(x + step < 7, x + step, 1.0)
    x = where(x < 7, 7.0, x)
    inverse = 1 / (x * x)
    series = _polynomial((1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
                         inverse) / x  # fmt: skip
    return (x - 0.5) * log(x) - x + 0.5 * math.log(2 * math.pi) + series - log(below)


def _poisson_by_search(key: philox.ScalarKey, i: Scalar, mean: Scalar) -> Scalar:
    """The first k whose cumulative probability exceeds a uniform number."""
    words = philox.random_block(key, i, 0, philox.RETRY)
    u = unit_fraction(philox.wide_word(words[0], words[1]), float64)

    def step(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        k, probability, total = state
        probability = probability * mean / (k + 1)
        return k + 1, probability, total + probability

    start = exp(-mean)  # (beyond 100, probabilities are below 2⁻²⁰⁰)
    found: Scalar = while_loop(
        lambda s: (u >= s[2]) & (s[0] < 100), step, (float64(0), start, start)
    )[0]
    return found


def _poisson_by_rejection(key: philox.ScalarKey, i: Scalar, mean: Scalar) -> Scalar:
    """Hörmann's transformed rejection (PTRS, 1993), for means of 10 and more."""
    root, logarithm = sqrt(mean), log(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    accepted = 0.9277 - 3.6224 / (b - 2)

    def draw(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        words = philox.random_block(key, i, attempt, philox.RETRY)
        u = unit_fraction(philox.wide_word(words[0], words[1]), float64) - 0.5
        v = unit_fraction(philox.wide_word(words[2], words[3]), float64)
        near = 0.5 - abs(u)
        k = floor((2 * a / near + b) * u + mean + 0.43)
        outside = (k < 0) | ((near < 0.013) & (v > near))
        left = log(v * inverse / (a / (near * near) + b))
        inside = left <= k * logarithm - mean - _log_factorial(where(k < 0, 0.0, k))
        return attempt, k, ((near >= 0.07) & (v <= accepted)) | (~outside & inside)

    usable = (mean >= 10) & isfinite(mean)
    return while_loop(lambda s: ~s[2], draw, (uint32(0), float64(0), ~usable))[1]


@operation
def poisson(
    key: philox.KeyLike, shape: ShapeLike, lam: ArrayLike, dtype: DTypeLike = int64
) -> Value:
    """Integers of the Poisson distribution, of probability lamᵏ e⁻ˡᵃᵐ / k!.

    Parameters
        lam: the mean, a number or an array that broadcasts to `shape`; −1 results where it is
            negative, infinite or NaN.
        dtype: a signed integer type, or a float type.

    By search for means below 10, else by Hörmann's transformed rejection (1993).

    >>> td.run(td.random.poisson(td.random.key(0), 5, 3.0))
    array([5, 4, 3, 1, 1])
    """
    t = as_type(dtype)
    if not (t.is_float or (t.is_integer and t.signed)):
        raise DTypeError(
            f"random.poisson gives signed integers or floats, not {t}.",
            hint="Convert the numbers: td.random.poisson(key, shape, lam).astype(…).",
        )

    def draw(key: philox.ScalarKey, i: Scalar, lam: Any) -> Scalar:
        mean = as_float(lam, float64)
        large, small = _poisson_by_rejection(key, i, mean), _poisson_by_search(key, i, mean)
        found = cond(mean < 10, small, large)
        return cast(where((mean >= 0) & isfinite(mean), found, -1.0), t)

    return philox.random_values("poisson", key, shape, draw, lam)
