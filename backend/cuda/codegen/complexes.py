"""Primitives on complex numbers in C++.

Transcendental functions of complex64 are computed in double and rounded; those of complex128
follow W. Kahan, "Branch cuts for complex elementary functions" (1987), whose formulas have no
cancellation and keep the sign of zero on branch cuts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.expr import Apply, Const

from .prelude import Helper
from .scalars import EQUALITY, PRIMARY, PRODUCT, SUM, UNARY, Term

if TYPE_CHECKING:
    from .expressions import Expressions

_OPERATORS = {
    "add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT),
    "true_divide": ("/", PRODUCT), "equal": ("==", EQUALITY), "not_equal": ("!=", EQUALITY),
}  # fmt: skip
_FUNCTIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "arcsin": "asin", "arccos": "acos", "arccosh": "acosh", "arctanh": "atanh", "expm1": "expm1",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsinh": "asinh",
    "arctan": "atan", "exp2": "exp2", "log2": "log2", "log10": "log10", "power": "pow",
}  # fmt: skip
_TESTS = ("isnan", "isinf", "isfinite")


def number(p: Expressions, e: Apply) -> Term:
    """A primitive on complex numbers."""
    name, args = e.op.name, e.args
    t = args[0].type
    p.type(t)
    if name in _OPERATORS:
        symbol, level = _OPERATORS[name]
        p.use(f"complex_{name}")
        return p.binary(args[0], symbol, args[1], level)
    match name:
        case "real" | "imag":
            return Term(f"{p.term(args[0]).within(PRIMARY)}.{name}")
        case "negative":
            p.use("complex_negative")
            return Term(f"-{p.term(args[0]).within(UNARY + 1)}", UNARY)
        case "conjugate":
            p.use("complex_conjugate")
            return p.call("conj", p.term(args[0]))
        case "absolute":
            p.use("complex_absolute")
            return p.call("abs", p.term(args[0]))
        case "sign":
            p.use("complex_sign")
            return p.call("sign", p.term(args[0]))
        case "fma":
            p.use("complex_add")
            p.use("complex_multiply")
            product = p.binary(args[0], "*", args[1], PRODUCT)
            return Term(f"{product.code} + {p.term(args[2]).within(SUM + 1)}", SUM)
        case _ if name in _TESTS:
            p.use(f"complex_{name}")
            return p.call(name, p.term(args[0]))
        case "power" if isinstance(args[1], Const) and complex(args[1].value) in (1, 2, 3, 4):
            return _small_power(p, args[0].type.name, p.term(args[0]),
                                int(complex(args[1].value).real))  # fmt: skip
    p.use(f"complex_{name}")
    if t.bits == 128:
        return p.call(_FUNCTIONS[name], *(p.term(a) for a in args))
    wide = [p.call("complex128", p.term(a)) for a in args]
    return p.call(t.name, p.call(_FUNCTIONS[name], *wide))


def _small_power(p: Expressions, name: str, z: Term, exponent: int) -> Term:
    if exponent == 1:
        return z
    p.use("complex_multiply")
    if z.code.isidentifier():
        return Term(" * ".join([z.code] * exponent), PRODUCT)
    p.use("complex_whole_power")
    return Term(f"whole_power<{exponent}>({z.code})")


def _function(body: str, *needs: str) -> Helper:
    return Helper(f"\n{body.strip()}\n", ("complex128", *(f"complex_{n}" for n in needs)))


def _operator(body: str, *needs: str) -> Helper:
    return Helper(f"\ntemplate <class T>\n__device__ __forceinline__ {body.strip()}\n",
                  ("complex", *(f"complex_{n}" for n in needs)))  # fmt: skip


HELPERS = {
    "complex": Helper("""
template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real, imag;
  complex() = default;
  __device__ __forceinline__ complex(T r, T i) : real(r), imag(i) {}
  template <class U>
  __device__ __forceinline__ explicit complex(complex<U> z) : real(z.real), imag(z.imag) {}
};
"""),
    "complex64": Helper("using complex64 = complex<float>;", ("complex",)),
    "complex128": Helper("using complex128 = complex<double>;", ("complex",)),
    "complex_add": _operator("""
complex<T> operator+(complex<T> z, complex<T> w) {
  return complex<T>(z.real + w.real, z.imag + w.imag);
}"""),
    "complex_subtract": _operator("""
complex<T> operator-(complex<T> z, complex<T> w) {
  return complex<T>(z.real - w.real, z.imag - w.imag);
}"""),
    "complex_negative": _operator("""
complex<T> operator-(complex<T> z) {
  return complex<T>(-z.real, -z.imag);
}"""),
    "complex_multiply": _operator("""
complex<T> operator*(complex<T> z, complex<T> w) {
  return complex<T>(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real);
}"""),
    "complex_true_divide": Helper("""
// R. L. Smith's division, as NumPy does it.
template <class T>
__device__ complex<T> operator/(complex<T> z, complex<T> w) {
  if (fabs(w.real) >= fabs(w.imag)) {
    if (w.real == 0) return complex<T>(z.real / fabs(w.real), z.imag / fabs(w.real));
    const T ratio = w.imag / w.real, scale = T(1) / (w.real + w.imag * ratio);
    return complex<T>((z.real + z.imag * ratio) * scale, (z.imag - z.real * ratio) * scale);
  }
  if (w.imag == 0) return complex<T>(z.real / fabs(w.real), z.imag / fabs(w.real));
  const T ratio = w.real / w.imag, scale = T(1) / (w.imag + w.real * ratio);
  return complex<T>((z.imag + z.real * ratio) * scale, (z.imag * ratio - z.real) * scale);
}
""", ("complex",)),
    "complex_equal": _operator("""
bool operator==(complex<T> z, complex<T> w) {
  return z.real == w.real && z.imag == w.imag;
}"""),
    "complex_not_equal": _operator("""
bool operator!=(complex<T> z, complex<T> w) {
  return z.real != w.real || z.imag != w.imag;
}"""),
    "complex_conjugate": _operator("""
complex<T> conj(complex<T> z) {
  return complex<T>(z.real, -z.imag);
}"""),
    "complex_absolute": _operator("""
T abs(complex<T> z) {
  return hypot(z.real, z.imag);
}"""),
    "complex_isnan": _operator("""
bool isnan(complex<T> z) {
  return z.real != z.real || z.imag != z.imag;
}"""),
    "complex_isinf": _operator("""
bool isinf(complex<T> z) {
  return isinf(z.real) || isinf(z.imag);
}"""),
    "complex_isfinite": _operator("""
bool isfinite(complex<T> z) {
  return isfinite(z.real) && isfinite(z.imag);
}"""),
    "complex_whole_power": Helper("""
template <int N, class T>
__device__ __forceinline__ complex<T> whole_power(complex<T> z) {
  complex<T> result = z;
  for (int k = 1; k < N; ++k) result = result * z;
  return result;
}
""", ("complex", "complex_multiply")),
    "complex_sign": Helper("""
// z / |z|; 0 of 0; of one infinite part, its sign.
template <class T>
__device__ complex<T> sign(complex<T> z) {
  const T size = hypot(z.real, z.imag), zero = 0;
  if (size != size) return complex<T>(size, size);
  if (size == 0) return complex<T>(zero, zero);
  if (!isinf(size)) return complex<T>(z.real / size, z.imag / size);
  if (isinf(z.real) && isinf(z.imag)) return complex<T>(zero / zero, zero / zero);
  return isinf(z.real) ? complex<T>(copysign(T(1), z.real), zero)
                       : complex<T>(zero, copysign(T(1), z.imag));
}
""", ("complex",)),
    "complex_exp": _function("""
// e^x (cos y + i sin y); beyond e^709 in two factors, since cos y may bring it back.
__device__ complex128 exp(complex128 z) {
  const bool large = z.real > 709.0;
  const double size = exp(large ? z.real - 709.0 : z.real);
  if (size == 0) return complex128(0.0, z.imag == 0 ? z.imag : 0.0);
  const double factor = large ? 8.218407461554972e307 : 1.0;
  double s, c;
  sincos(z.imag, &s, &c);
  return complex128(size * c * factor, z.imag == 0 ? z.imag : size * s * factor);
}"""),
    "complex_log_size": _function("""
// log |x + iy|, accurate also where |x + iy| is close to 1.
__device__ double log_size(double x, double y) {
  const double a = fmax(fabs(x), fabs(y)), b = fmin(fabs(x), fabs(y));
  if (a > 0.6 && a + b < 1.75) {
    const double square = a * a, other = b * b, above = square - 1.0, total = above + other;
    const double back = total - above;
    const double lost = (above - (total - back)) + (other - back);
    const double rest = fma(a, a, -square) + fma(b, b, -other);
    return 0.5 * log1p(total + (lost + rest));
  }
  if (a > 1e300) return log(hypot(0.25 * x, 0.25 * y)) + 1.3862943611198906;
  return log(hypot(x, y));
}"""),
    "complex_log": _function("""
__device__ complex128 log(complex128 z) {
  return complex128(log_size(z.real, z.imag), atan2(z.imag, z.real));
}""", "log_size"),
    "complex_sqrt": _function("""
__device__ complex128 sqrt(complex128 z) {
  const double largest = fmax(fabs(z.real), fabs(z.imag));
  if (isinf(z.imag)) return complex128(fabs(z.imag), z.imag);
  if (largest == 0) return complex128(0.0, z.imag);
  const bool huge = largest > 1e300, tiny = largest < 1e-290;
  const double scale = huge ? 0.25 : tiny ? 0x1p108 : 1.0;
  const double undo = huge ? 2.0 : tiny ? 0x1p-54 : 1.0;
  const double x = z.real * scale, y = z.imag * scale;
  const double root = sqrt(0.5 * (hypot(x, y) + fabs(x)));
  const double other = y / (2.0 * root) * undo;
  if (z.real < 0) return complex128(fabs(other), copysign(root * undo, z.imag));
  return complex128(root * undo, other);
}"""),
    "complex_power": _function("""
// exp(w log z); 0 to a power is 1, 0 or NaN.
__device__ complex128 pow(complex128 z, complex128 w) {
  if (w.real == 0 && w.imag == 0) return complex128(1.0, 0.0);
  if (z.real == 0 && z.imag == 0) {
    const double result = w.real > 0 ? 0.0 : NAN;
    return complex128(result, result);
  }
  return exp(w * log(z));
}""", "multiply", "exp", "log"),
    "complex_sinh": _function("""
__device__ complex128 sinh(complex128 z) {
  double s, c;
  sincos(z.imag, &s, &c);
  return complex128(z.real == 0 ? z.real : sinh(z.real) * c,
                    z.imag == 0 ? z.imag : cosh(z.real) * s);
}"""),
    "complex_cosh": _function("""
__device__ complex128 cosh(complex128 z) {
  double s, c;
  sincos(z.imag, &s, &c);
  const double sign = copysign(1.0, z.real) * copysign(1.0, z.imag);
  return complex128(cosh(z.real) * c,
                    z.real == 0 || z.imag == 0 ? copysign(0.0, sign) : sinh(z.real) * s);
}"""),
    "complex_tanh": _function("""
__device__ complex128 tanh(complex128 z) {
  if (fabs(z.real) > 22.0) {
    const double small = exp(-2.0 * fabs(z.real));
    const double cross = 4.0 * sin(z.imag) * (cos(z.imag) * small);
    return complex128(copysign(1.0, z.real), z.imag == 0 ? z.imag : cross);
  }
  const double tangent = tan(z.imag), beta = 1.0 + tangent * tangent;
  const double s = sinh(z.real), rho = sqrt(1.0 + s * s), below = 1.0 + beta * (s * s);
  return complex128(beta * rho * s / below, tangent / below);
}"""),
    "complex_arcsin": _function("""
__device__ complex128 asin(complex128 z) {
  const complex128 less = sqrt(complex128(1.0 - z.real, -z.imag));
  const complex128 more = sqrt(complex128(1.0 + z.real, z.imag));
  return complex128(atan2(z.real, less.real * more.real - less.imag * more.imag),
                    asinh(less.real * more.imag - less.imag * more.real));
}""", "sqrt"),
    "complex_arccos": _function("""
__device__ complex128 acos(complex128 z) {
  const complex128 less = sqrt(complex128(1.0 - z.real, -z.imag));
  const complex128 more = sqrt(complex128(1.0 + z.real, z.imag));
  return complex128(2.0 * atan2(less.real, more.real),
                    asinh(more.real * less.imag - more.imag * less.real));
}""", "sqrt"),
    "complex_arccosh": _function("""
__device__ complex128 acosh(complex128 z) {
  const complex128 less = sqrt(complex128(z.real - 1.0, z.imag));
  const complex128 more = sqrt(complex128(z.real + 1.0, z.imag));
  return complex128(asinh(less.real * more.real + less.imag * more.imag),
                    2.0 * atan2(less.imag, more.real));
}""", "sqrt"),
    "complex_arctanh": _function("""
__device__ complex128 atanh(complex128 z) {
  const double x = fabs(z.real), y = z.imag;
  if (fmax(x, fabs(y)) > 1e150) {
    const double size = hypot(x, y);
    return complex128(copysign(isinf(size) ? 0.0 : x / size / size, z.real),
                      copysign(1.5707963267948966, y));
  }
  const double gap = 1.0 - x, below = gap * gap + y * y;
  return complex128(copysign(0.25 * log1p(4.0 * x / below), z.real),
                    0.5 * atan2(2.0 * y, gap * (1.0 + x) - y * y));
}"""),
    "complex_expm1": _function("""
__device__ complex128 expm1(complex128 z) {
  const double half = sin(0.5 * z.imag);
  return complex128(expm1(z.real) * cos(z.imag) - 2.0 * (half * half),
                    exp(z.real) * sin(z.imag));
}"""),
    "complex_log1p": _function("""
__device__ complex128 log1p(complex128 z) {
  const double x = z.real, y = z.imag;
  const bool small = fmax(fabs(x), fabs(y)) < 0.25;
  return complex128(small ? 0.5 * log1p(x * (2.0 + x) + y * y) : log_size(x + 1.0, y),
                    atan2(y, x + 1.0));
}""", "log_size"),
}  # fmt: skip

for _name, _inner in (("sin", "sinh"), ("tan", "tanh"), ("arcsinh", "arcsin"),
                      ("arctan", "arctanh")):  # fmt: skip
    _own, _other = _FUNCTIONS[_name], _FUNCTIONS[_inner]
    HELPERS[f"complex_{_name}"] = _function(f"""
// -i {_other}(iz)
__device__ complex128 {_own}(complex128 z) {{
  const complex128 w = {_other}(complex128(-z.imag, z.real));
  return complex128(w.imag, -w.real);
}}""", _inner)  # fmt: skip
HELPERS["complex_cos"] = _function(
    """
// cosh(iz)
__device__ complex128 cos(complex128 z) {
  return cosh(complex128(-z.imag, z.real));
}""",
    "cosh",
)
HELPERS["complex_exp2"] = _function(
    """
__device__ complex128 exp2(complex128 z) {
  const double scale = 0.6931471805599453;
  return exp(complex128(scale * z.real, scale * z.imag));
}""",
    "exp",
)
for _name, _scale in (("log2", "1.4426950408889634"), ("log10", "0.4342944819032518")):
    HELPERS[f"complex_{_name}"] = _function(f"""
__device__ complex128 {_name}(complex128 z) {{
  const complex128 w = log(z);
  return complex128({_scale} * w.real, {_scale} * w.imag);
}}""", "log")  # fmt: skip
HELPERS["complex_power"] = Helper(
    HELPERS["complex_power"].text, ("NAN", *HELPERS["complex_power"].needs)
)
