"""Small mistakes of those who know NumPy, JAX, Numba, Triton and Taichi, in a table: what was
written, the class of the error, words of its text and, where there is one, what works instead.

Every error of treadle's names the user's line and shows it, whatever library stood between; where
Python itself refuses something its own error stays.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import os

import numpy as np
import pytest

import treadle as td
from treadle.dsl import errors

PREAMBLE = '''
import array, bisect, collections, copy, dataclasses, datetime, functools, itertools, json, math
import operator, pickle, random
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
import numpy as np
import treadle as td

a, b, k = np.arange(5.0), np.arange(4.0), np.arange(5)
m, u = np.arange(12.0).reshape(3, 4), np.arange(4, dtype="u1")
A, B, K, M, U, P = td.use(a), td.use(b), td.use(k), td.use(m), td.use(u), td.use(a > 2)
Z, S = td.use(np.ones(3, complex)), td.sum(A)

def run(f, *args):
    return td.jit(f, backend="reference")(*args)

def plus(x, y):
    return x + y

class Left:
    """What stands on the left and turns what is on its right into an array, as pandas' `@`."""
    def __matmul__(self, other):
        return np.ones(5) @ np.asarray(other)

class Table:
    """An array-like that computes with NumPy's arrays unless the other comes first, as pandas'."""
    __array_priority__, __pandas_priority__ = 1000, 3000
    def __array__(self, dtype=None, copy=None):
        return np.arange(5.0)
    def __add__(self, other):
        if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
            return NotImplemented
        return np.arange(5.0) + np.asarray(other)

class Own:
    """A class that knows how it is added to arrays."""
    def __radd__(self, other):
        return "its own"
    def __eq__(self, other):
        return "its own"
    __hash__ = None
'''
TRACING, DTYPE, SHAPE = td.TracingError, td.DTypeError, td.ShapeError
NESTED = td.NestedParallelismError

#: (what was written, class, words, what works)
MISTAKES = [
    # What functions return.
    ("def f(x):\n    yield x\ntd.map(f, a)", TRACING, "the function given to map is a generator: "
     "it has a `yield`. | Write return instead of yield", "td.map(lambda x: x, a)"),
    ("def f(x):\n    yield x\nrun(f, a)", TRACING, "the compiled function is a generator", ""),
    ("def f(s):\n    yield s\ntd.iterate(3, f, A)", TRACING, "the body of iterate is a generator",
     ""),
    ("def f(s):\n    yield s\ntd.map(lambda x: td.iterate(3, f, x), a)", TRACING,
     "the body of iterate is a generator", ""),
    ("def f(w):\n    yield w[0]\ntd.stencil(f, a)", TRACING, "given to stencil is a generator", ""),
    ("async def f(x):\n    return x\ntd.map(f, a)", TRACING, "given to map is asynchronous | "
     "def instead of async def", ""),
    ("async def f(x):\n    return x\nrun(f, a)", TRACING, "compiled function is asynchronous", ""),
    ('td.map(lambda x: "done", a)', TRACING, "given to map returned a str. | Strings are", ""),
    ('run(lambda x: f"{x}", a)', TRACING, "the compiled function returned a str. | Strings are",
     ""),
    ("def f(x):\n    i, j = np.ogrid[:x.shape[0], :3]\n    return x + i\nrun(f, a)",
     td.TreadleError, "td.indices((n, m), sparse=True)", ""),
    ("def f(x):\n    return x + np.mgrid[:x.shape[0]]\nrun(f, a)", td.TreadleError,
     "np.mgrid[:n, :m] is td.indices((n, m))", ""),
    ("td.map(lambda x: {'x': x}, a)", TRACING, "returned a dict. | (x, y) instead of", ""),
    ("td.map(lambda x: (), a)", TRACING, "returned an empty tuple", ""),
    ("td.generate(3, lambda i: ())", TRACING, "returned an empty tuple", ""),
    ("td.map(lambda x: lambda: x, a)", TRACING, "returned a function. | Call it", ""),
    ("td.map(lambda x: np.float32, a)", TRACING, "returned the class float32. | Call it", ""),
    ("td.map(lambda x: map(abs, (x,)), a)", TRACING, "returned a map. | tuple(x)", ""),
    ("td.fold(lambda x, y: None, 0.0, a)", TRACING, "the function of fold returned None", ""),
    ("td.loop(3, lambda k, s: None, A)", TRACING, "the body of loop returned None. | the state",
     "td.loop(3, lambda k, s: s, A)"),
    ("td.while_loop(lambda s: None, lambda s: s, td.unit(0))", TRACING,
     "the predicate of while_loop returned None. | one truth value", ""),
    ("td.loop(3, lambda k, s: 'x', A)", TRACING, "the body of loop returned a str", ""),
    ("run(lambda x: None, a)", TRACING, "the compiled function returned None. | forget `return`",
     ""),
    ("run(lambda x: (x, 's'), a)", TRACING, "the compiled function returned a str", ""),
    ("run(lambda x: x.sum, a)", TRACING, "returned a function. | Call it", ""),
    ("td.run(lambda: A)", TRACING, "got a function. | Call it", "td.run((lambda: A)())"),
    ("td.full(3, None)", TRACING, "full cannot use a value of type NoneType", ""),
    ("td.unit('x')", TRACING, "unit cannot use a value of type str", ""),
    ("p = A.at[1]\np += 3", TRACING, "has methods and no operators. | a.at[index].add(new)", ""),
    ("A.at[1] * 3", TRACING, "has methods and no operators. | multiply", "A.at[1].multiply(3)"),
    ("3 - A.at[:2]", TRACING, "has methods and no operators", ""),
    ("run(lambda x: np.maximum.reduce([x, x + 1]), a)", TRACING,
     "td.stack([a, b]) | np.maximum(a, b)", "run(lambda x: np.max(td.stack([x, x]), axis=0), a)"),
    ("run(lambda x: np.mean((x, x), axis=0), a)", TRACING, "td.stack([a, b])", ""),
    ("run(lambda d: d['x'].mean(), m)", TRACING, "no columns with names, as 'x'. | dict of columns",
     "run(lambda d: d['x'].mean(), {'x': a})"),
    # A fold of tuples is one tuple.
    ("s, q = td.fold(lambda x, y: (x[0] + y[0], x[1]), (0.0, 0.0), td.zip(a, a))", TRACING,
     "it is one tuple. | x, y = td.unzip(a)",
     "s, q = td.unzip(td.fold(lambda x, y: (x[0] + y[0], x[1]), (0.0, 0.0), td.zip(a, a)))"),
    ("run(lambda a: td.fold(lambda x, y: x, (0.0, 0.0), td.zip(a, a))[0], a)", td.AxisError,
     "1 index for an array of rank 0. | x, y = td.unzip(a)", ""),
    ("td.zip(m, m)[0, 0, 0]", td.AxisError, "Write at most 2. | td.unzip(a)", ""),
    ("S[0]", td.AxisError, "1 index for an array of rank 0. | one value: td.the(a) | float(a)", ""),
    ("x, y = S", TRACING, "it is one value. | td.the(a)", ""),
    # Derivatives.
    ("td.check_grad(lambda y, n: td.sum(y * n), a, k)", DTYPE, "the argument n is int64. | Leave "
     "it out, td.check_grad(lambda x: f(x, n), x) | n.astype(np.float64)",
     "td.check_grad(lambda y: td.sum(y * k), a)"),
    ("td.check_grad(lambda d: td.sum(d['w']), {'w': np.float32([1])})", DTYPE,
     "the argument d['w'] is float32. | Convert it: d['w'].astype(np.float64)", ""),
    ("td.check_grad(lambda x: td.fold(lambda s, y: s * 0.5 + y, 0.0, x), a)", td.GradientError,
     "the function of a td.fold is not associative", ""),
    ("td.check_grad(lambda x: td.sum(td.log(x)), 1e-5 * (a + 1))", td.GradientError,
     "need f within 0.0002 of its arguments, where it is nan. | differences nearby: eps=1e-06",
     "td.check_grad(lambda x: td.sum(td.log(x)), 1e-5 * (a + 1), eps=1e-6)"),
    ("td.grad(td.sum, a)", TRACING, "got an ndarray. | td.grad(f)(x)", "td.grad(td.sum)(a)"),
    ("td.value_and_grad(td.sum, A)", TRACING, "got an Array. | td.value_and_grad(f)(x)", ""),
    ("td.check_grad(lambda x: td.sum(x), a, rtol=-1)", TRACING, "rtol is a number, 0 or more", ""),
    ("td.check_grad(lambda x: td.sum(x), a, rtol='1')", TRACING, "rtol is a number", ""),
    ("td.check_grad(lambda x: td.sum(x), a, eps=0)", TRACING, "eps is a positive number", ""),
    # Complex numbers have no order.
    *((f"td.{call}", DTYPE, f"{call.partition('(')[0]} needs real numbers: complex ones have no "
       "order. | td.real(a)", "") for call in
      ("median(a * 1j)", "quantile(a * 1j, 0.5)", "nanpercentile(a * 1j, 50)", "max(a * 1j)",
       "argmin(a * 1j)", "searchsorted(a * 1j, 0.5)", "searchsorted(a, 1j)", "digitize(a, [1j])",
       "digitize(a * 1j, a)", "histogram(a * 1j, 3)")),
    ("td.map(lambda x: td.foreign(abs), a)", TRACING,
     "and their arguments: td.foreign(f, x).", "td.map(lambda x: td.foreign(lambda y: -y, x), a)"),
    ("td.vjp(A, A)", TRACING, "vjp needs a function, got an Array. | td.vjp(f, x)", ""),
    ("td.jvp(a, (a,), (a,))", TRACING, "jvp needs a function, got an ndarray.", ""),
    ("td.check_grad(A, A)", TRACING, "check_grad needs a function", ""),
    ("td.scan(a, 0, a)", TRACING, "the function of scan must be a function, got an ndarray. | "
     "scan(f, init, xs)", ""),
    ("td.iterate(td.sin, 3, a)", TRACING, "the body of iterate must be a function, got an int. | "
     "iterate(n, f, init)", "td.iterate(3, td.sin, a)"),
    # Names.
    ("td.meen(a)", AttributeError, "Did you mean mean?", "td.mean(a)"),
    ("td.inverse(m)", AttributeError, "td.linalg.inv(a)", ""),
    ("td.linalg.inverse(m)", AttributeError, "td.linalg.inv(a)", ""),
    ("td.hist(a)", AttributeError, "td.histogram(a, bins)", "td.histogram(a, 3)"),
    ("A.at.set(3)", AttributeError, "Write a.at[index].set(new).", "A.at[0].set(3)"),
    ("A.at.mul(3)", AttributeError, "a.at[index].set(new), a.at[index].add(new)", ""),
    # Arguments in the order of other libraries.
    ("td.random.normal((3, 4))", DTYPE, "needs a key | got (3, 4). | The shape comes after it",
     "td.random.normal(td.random.key(0), (3, 4))"),
    ("td.random.integers(td.random.key(0), 0, 10, (3,))", DTYPE, "not a tuple. | The shape comes "
     "after the key", "td.random.integers(td.random.key(0), (3,), 0, 10)"),
    ("td.stencil(lambda w: w[-1], a, td.wrap)", TRACING, "the boundary has a name. | "
     "boundary=td.wrap", "td.stencil(lambda w: w[-1], a, boundary=td.wrap)"),
    ("td.vstack(A, A)", TRACING, "Several arrays are a list: vstack([a, b])", "td.vstack([A, A])"),
    ("td.eye((3, 3))", SHAPE, "two numbers, not a shape. | td.eye(n, m)", "td.eye(3, 3)"),
    ("M.reshape(5, -1)", SHAPE, "(5, 2), which holds 10 (-1 stands for 2).", ""),
    ("td.digitize(a, 3)", SHAPE, "rank 0. | edges", ""),
    ("td.digitize(a, [1, 3, 2])", SHAPE, "neither ascend nor descend. | np.sort(edges)",
     "td.digitize(a, [3, 2, 1])"),
    ("td.roll(m, (1, 2, 3), axis=(0, 1))", SHAPE, "3 shifts for 2 axes", ""),
    ("td.cond(True, a, None)", DTYPE, "different structure: one value against None.",
     "td.cond(True, (a, None), (a, None))"),
    ("td.map(lambda x: td.cond(x > 1, x, ()), a)", DTYPE, "one value against ().", ""),
    ("td.interp(a, a, a, period=0)", SHAPE, "a period is not 0, and finite, got 0",
     "td.interp(a, a, a, period=9)"),
    ("td.run(td.histogram(1e308 * np.array([1.0, -1.0]), 4))", SHAPE, "range of bins=4 | range=",
     ""),
    ("td.run(td.histogram(1 + 2e-16 * a, 9))", SHAPE, "narrower than floats are apart", ""),
    ("td.histogram(a, 4, (-1e308, 1e308))", SHAPE, "too far apart for 4 bins", ""),
    ("td.histogram(a, 4, ('a', 1))", TRACING, "histogram cannot use a value of type str", ""),
    # What treadle, NumPy or Python can make nothing of.
    ("td.percentile(a, 200)", SHAPE, "q must be in 0 … 100, got 200", "td.percentile(a, 20)"),
    ("td.quantile(a, [0.5, -1])", SHAPE, "q must be in 0 … 1", "td.quantile(a, [0.5, 1])"),
    ("td.quantile(a, td.use([0.5, 2]))", SHAPE, "q must be in 0 … 1, got array([0.5, 2. ])", ""),
    ("td.fixed_point(td.cos, a, -1e-9)", TRACING, "tol must not be negative", ""),
    ("td.fixed_point(td.cos, a, np.int64(-2**63))", TRACING, "tol must not be negative", ""),
    ("td.fixed_point(td.cos, a, float('nan'))", TRACING, "tol must not be negative", ""),
    ("td.fixed_point(td.cos, a, 1e-9, maxiter=0)", SHAPE, "maxiter", "maxiter=1000"),
    ("td.fixed_point(td.cos, a, 1e-9, maxiter=2.5)", TRACING, "maxiter", "maxiter=1000"),
    ("td.fixed_point(td.cos, a, np.array([1e-9]))", TRACING, "tol is a real number", ""),
    ("run(lambda t: td.fixed_point(td.cos, a, t), -1.0)", TRACING, "must not be negative", ""),
    ("run(lambda t: td.fixed_point(td.cos, a, t), np.nan)", TRACING, "nor NaN", ""),
    ("td.split(a, 2**40)", SHAPE, "does not split into 1099511627776 equal parts", ""),
    ("td.pad(a, 2**63)", SHAPE, "does not fit in 64 bits", ""),
    ("td.empty(2**63)", SHAPE, "no array has 9223372036854775808 elements | below 2**63", ""),
    ("td.sort(A, axis=int)", SHAPE, "axis must be an integer, got <class 'int'>", ""),
    ("td.insert(a, [[1], [2, 3]], 9)", SHAPE, "insert can make nothing of these arguments", ""),
    ("td.fft.rfftfreq(4, 1j)", DTYPE, "fft.rfftfreq: d is a real number", "td.fft.rfftfreq(4, 2)"),
    ("td.append(a, a, axis=np.array([None]))", SHAPE, "axis must be an integer", "td.append(a, a)"),
    ("td.append(m, m, axis='')", SHAPE, "axis must be an integer", "td.append(m, m, axis=None)"),
    ("td.append(m, m, axis=False)", SHAPE, "axis must be an integer", "td.append(m, m, axis=1)"),
    ("td.nan_to_num(a, posinf=1j)", DTYPE, "complex numbers do not fit", "td.nan_to_num(Z, nan=1)"),
    ("td.nan_to_num(1.5, posinf=a)", SHAPE, "nan_to_num", "td.nan_to_num(a, posinf=a)"),
    ("td.einsum('i,i', a, a, deterministic=np.zeros(0))", TRACING, "deterministic", ""),
    ("td.einsum('i,i', a, a, deterministic='')", TRACING, "deterministic", ""),
    ("td.hanning('a')", TRACING, "hanning: M must be an integer, got 'a'", "td.hanning(3)"),
    ("td.hamming(1.5)", TRACING, "hamming: M must be an integer, got 1.5", "td.hamming(1)"),
    ("td.insert(np.arange(3), 1, 1j)", td.DTypeError, "complex values for an array of int64", ""),
    ("td.put_along_axis(np.arange(3), np.array([0]), 1j, 0)", td.DTypeError,
     "put_along_axis: complex values for an array of int64. | td.real(values)", ""),
    ("td.while_loop(lambda s: s < 9, None, 3)", TRACING, "'NoneType' object is not callable", ""),
    ("td.scanl(plus, (), A)", DTYPE, "scanl is (), the elements are one value", ""),
    ("td.gcd(k)", TRACING, "gcd: missing a required argument: 'y'", "td.gcd(k, 3)"),
    ("td.run(A, backend=['native'])", td.BackendUnavailable, "no backend ['native']", ""),
    # What is compiled.
    ("@td.jit\nclass Model:\n    pass", TRACING, "needs a function, got the class Model. | "
     "td.jit(lambda x: model(x))", "model = abs; td.jit(lambda x: model(x))(a)"),
    ("class C:\n    @td.jit\n    @staticmethod\n    def f(x):\n        return x", TRACING,
     "got a staticmethod. | @staticmethod above @td.jit",
     "class C:\n    @staticmethod\n    @td.jit\n    def f(x):\n        return x\nC().f(a)"),
    ("class C:\n    @td.jit\n    @classmethod\n    def f(cls, x):\n        return x", TRACING,
     "got a classmethod. | @classmethod above @td.jit",
     "class C:\n    @classmethod\n    @td.jit\n    def f(cls, x):\n        return x\nC.f(a)"),
    ("class C:\n    @td.jit\n    @property\n    def f(self):\n        return 1", TRACING,
     "got a property", ""),
    ("class C:\n    @td.jit\n    def f(self, x):\n        return x\nC().f(a)", TRACING,
     "an argument of type C. | into a closure", ""),
    ("td.jit('float64(float64)')", TRACING, "needs a function, got a str", ""),
    ("td.jit(plus, static_argnums=1)", TRACING, "'static_argnums'. | into a closure", ""),
    ("td.jit(plus, nopython=True)", TRACING, "no argument 'nopython'. | leave it out", ""),
    ("td.jit(plus, device='cuda')", TRACING, "Did you mean devices?", ""),
    # Arguments.
    ("run(plus, a, {1, 2})", TRACING, "argument of type set. | np.array(list(x))",
     "run(plus, a, np.array(list({1, 2, 3, 4, 5})))"),
    ("run(plus, a, range(5))", TRACING, "argument of type range. | td.arange",
     "td.run(A + td.arange(0, 5, 1))"),
    ("run(plus, a, b'x')", TRACING, "argument of type bytes", ""),
    ("run(plus, a, Fraction(1, 2))", TRACING, "argument of type Fraction. | float(x)",
     "run(plus, a, float(Fraction(1, 2)))"),
    ("run(plus, a, Decimal(1))", TRACING, "argument of type Decimal. | float(x)", ""),
    ("run(plus, a, datetime.date.today())", TRACING, "argument of type date", ""),
    ("run(plus, a, np.array(['2020-01-01'], 'M8[D]'))", DTYPE, "a.astype(np.int64)",
     "run(plus, a, np.array(['2020-01-01'], 'M8[D]').astype(np.int64))"),
    ("run(plus, a, np.array([1, 2, 3, 4, 5], object))", DTYPE, "np.array(x, np.float64)",
     "run(plus, a, np.array(np.array([1, 2, 3, 4, 5], object), np.float64))"),
    ("td.use(np.zeros(3, [('x', 'f4'), ('y', 'i4')]))", DTYPE, "td.zip(a['x'], a['y'])",
     "r = np.zeros(3, [('x', 'f4'), ('y', 'i4')]); td.zip(r['x'], r['y'])"),
    ("td.use(np.zeros(3, np.longdouble))", DTYPE, "a.astype(np.float64)", ""),
    ("run(lambda x: x + 1, [1.0, 2.0])", TRACING, "is a list of numbers is not an "
     "array: + joins lists. | f(np.asarray(x))", "run(lambda x: x + 1, np.array([1.0, 2.0]))"),
    ("run(lambda x: x / 2, (1.0, 2.0))", TRACING, "argument that is a tuple is not an array", ""),
    ("run(plus, a, [1, 2, 3, 4, 5])", TRACING, "is not an array: + joins lists | "
     "f(np.asarray(x))", "run(plus, a, np.array([1, 2, 3, 4, 5]))"),
    ("run(lambda x: td.sum(x), (1.0, 2.0))", TRACING, "is a number by itself | f(np.array(x))", ""),
    ("td.map(lambda p: p + 1, td.zip(A, A))", TRACING, "tuple is not an array | x, y = p", ""),
    ("td.sum([A, A])", TRACING, "a list of treadle's arrays | td.stack([a, b])",
     "td.sum(td.stack([A, A]))"),
    ("td.use(lambda: 3)", TRACING, "use needs an array, got function", ""),
    ("td.use(object())", TRACING, "use needs an array, got object", ""),
    ("td.map(abs, {'a': 1})", TRACING, "got dict. | x['name']", ""),
    ("td.map(abs, zip(a, a))", TRACING, "got zip. | np.array(list(x))", ""),
    ("td.sum(td.filter(lambda x: x > 1, A))", TRACING, "got a tuple of 2 arrays. | "
     "values, count = …", "values, count = td.filter(lambda x: x > 1, A)\ntd.sum(values)"),
    ("run(lambda x: tuple(td.filter(lambda v: v > 2, x)[0]), a)", TRACING,
     "cannot be iterated", ""),
    ("x, y = td.unzip(td.zip(A, A))[0][0]", TRACING, "a rank-0 array cannot be iterated", ""),
    ("run(lambda z: [x for x in z][0], np.ones(33))", TRACING,
     "cannot be iterated or unpacked | td.map(f, a", ""),
    ("run(lambda z: sum(z), np.ones(33))", TRACING, "cannot be iterated | td.sum(a)", ""),
    ("run(lambda z: [x for x in z], np.ones(0))", TRACING, "cannot be iterated or unpacked", ""),
    ("run(lambda z: [z[k] for k in range(z.shape[0])], a)", TRACING,
     "Extents are run-time values | for c in td.unstack(a, axis)", ""),
    ("td.use(a).item(1e300)", TRACING, "item: 'float' object", ""),
    ("td.use(a).item(99)", td.IndexOutOfBounds, "item: index 99 is out of bounds", ""),
    ("td.use(a).item(td.use(np.ones((2, 3), int)))", SHAPE, "needs one number, but", ""),
    ("td.use(a).item(1 << 70)", td.IndexOutOfBounds, "item: ", ""),
    ("td.use(a).item(0, 1)", SHAPE, "item: incorrect number of indices", ""),
    ("td.generate((5,), 3)", TRACING, "generate needs a function, got int. | generate(shape, f)",
     ""),
    ("td.generate(abs, 5)", TRACING, "generate's shape cannot use | generate(shape, f)", ""),
    ("td.scatter(A, K, A, 'add')", TRACING, "scatter needs a function to combine | td.add",
     "td.scatter(A, K, A, td.add)"),
    ("td.loop(range(3), lambda k, s: s, A)", TRACING, "the number of its iterations, got a range",
     "td.loop(3, lambda k, s: s, A)"),
    ("td.concatenate(A)", SHAPE, "td.concatenate([a, b])", "td.concatenate([A, B])"),
    ("td.stack([A, B])", SHAPE, "stack needs arrays of equal shape, got (5,) and (4,)", ""),
    ("td.compact(A[:3] > 1, M)", SHAPE, "the mask has rank 1, the array rank 2. | a[mask]",
     "M[M[:, 0] > 1]"),
    ("td.convolve(A, B[:3], 'same')", TRACING, "'same' is not a boundary. | mode='same'",
     "td.convolve(A, B[:3], mode='same')"),
    ("td.convolve(A, B[:3], 0)", TRACING, "0 is not a boundary. | td.constant(0)",
     "td.convolve(A, B[:3], td.constant(0))"),
    ("td.histogram(A, bins='auto')", TRACING, "got 'auto'. | np.histogram_bin_edges(x, 'auto')",
     "td.histogram(A, np.histogram_bin_edges(a, 'auto')); np.histogram(A, bins='auto')"),
    ("run(lambda x: np.asarray(x) + 1, a)", TRACING, "NumPy needs the value | leave it out",
     "run(lambda x: td.asarray(x) + 1, a)"),
    ("run(lambda x, n: x * np.linspace(0, 1, n), a, 5)", TRACING, "td.linspace takes it.",
     "run(lambda x, n: x * td.linspace(0, 1, n), a, 5)"),
    ("td.random.integers(td.random.key(0), 0, 10, 5)", SHAPE, "the shape comes before them", ""),
    ("td.transpose(M, 1)", SHAPE, "not a permutation", "td.transpose(M, (1, 0))"),
    ("td.sum(A, A)", SHAPE, "sum: axis must be an integer, got an Array", ""),
    ("td.min(A, B)", SHAPE, "min: axis must be an integer, got an Array", ""),
    ("td.zeros(2, 3)", DTYPE, "A shape is one argument", "td.zeros((2, 3))"),
    ("td.cast('f4', A)", DTYPE, "is not a scalar type", "td.cast(A, 'f4')"),
    ("td.var(A, ddof='x')", TRACING, "var takes one number", "td.var(A, ddof=1)"),
    ("td.foreign_array(3, A, fallback=td.sort)", TRACING, "a dict of functions by backend", ""),
    ("td.where(P, lambda: A, 0)", TRACING, "where takes values, got a function", ""),
    # Keywords of others.
    ("td.sum(A, dim=0)", TRACING, "no argument 'dim'. | Did you mean axis?", "td.sum(A, axis=0)"),
    ("A.sum(dim=0)", TRACING, "no argument 'dim'. | Did you mean axis?", ""),
    ("td.max(A, dtype='f4')", TRACING, "no argument 'dtype'. | x.astype(dtype)",
     "td.max(A).astype('f4')"),
    ("run(lambda x: np.sum(x, out=a), A)", TRACING,
     "sum has no argument 'out'. | Results are new arrays", ""),
    ("td.add(A, A, where=P)", TRACING, "no argument 'where'. | td.where(p, f(x), other)", ""),
    ("td.nanmax(A, initial=0)", TRACING, "no argument 'initial'. | td.fold(f, init, a)",
     "td.fold(plus, 0, A)"),
    ("A.reshape((5, 1), order='f')", TRACING, "order is 'C' or 'F'",
     "A.reshape((5, 1), order='F')"),
    ("td.copy(A, order='F')", TRACING, "no argument 'order'. | no layout", "td.copy(A)"),
    ("td.take(A, [9], mode='fill')", TRACING, "no mode 'fill'", "td.take(A, [9], mode='clip')"),
    ("td.einsum('i,i', A, A, optimize=True)", TRACING, "no argument 'optimize'. | leave it out",
     ""),
    ("td.pad(A, 1, mode='reflect', reflect_type='odd')", TRACING, "no argument | td.concatenate",
     ""),
    ("td.sort(A, order='descending')", TRACING, "td.reverse(td.sort(a), axis)",
     "td.reverse(td.sort(A), 0)"),
    ("A.astype('f4', np.ones(2))", TRACING, "astype: order is 'C' or 'F', got", ""),
    ("td.clip(A, a_min=0)", TRACING, "Did you mean min?", "td.clip(A, min=0)"),
    ("td.stencil(lambda w: w[0], a, mode='wrap')", TRACING, "Did you mean boundary?",
     "td.stencil(lambda w: w[0], a, boundary=td.wrap)"),
    # Numbers of the run where the program is shaped.
    ("run(lambda x, n: td.matmul(x, x, algorithm=n), m, 1)", TRACING,
     "algorithm= needs the value of n", ""),
    ("run(lambda x, n: td.pad(x, 1, n), m, 1)", TRACING, "pad: mode= needs the value of n", ""),
    ("td.jit(lambda a: td.jit(lambda b: b + 1)(a, 2))(A)", TRACING,
     "too many positional | (b)", ""),
    ("td.cond(True, abs, abs, 1)", TRACING, "too many positional | td.cond(p, f(x), g(x))",
     "td.cond(True, abs(1), abs(2))"),
    ("td.nonzero(a, size=3)", TRACING, "no argument 'size' | leave it out", "td.nonzero(a)"),
    ("td.unique(a, fill_value=0)", TRACING, "no argument 'fill_value' | leave it out",
     "td.unique(a)"),
    ("run(lambda x, n: td.pad(x, n), m, -1)", SHAPE, "pad: a width is negative: -1. | a[1:-1]", ""),
    ("run(lambda x, n: td.pad(x, n), m, 0.5)", DTYPE, "pad needs an integer, got", ""),
    ("td.iterate(2.5, lambda s: s, A)", DTYPE, "iterate needs an integer, got float64",
     "td.iterate(2, lambda s: s, A)"),
    # What Numba's users write, and random numbers without a key.
    ("td.jit(lambda x: x + 1)[32, 128](a)", TRACING, "called, not launched | f.scheduled",
     "td.jit(lambda x: x + 1)(a)"),
    ("td.loop(0, 9, 2, lambda k, s: s + k, 0)", TRACING, "too many | len(range(a, b, step))",
     "td.loop(len(range(0, 9, 2)), lambda k, s: s + k * 2, 0)"),
    ("td.loop(range(2, 5), lambda k, s: s + k, 0)", TRACING, "td.loop(start, stop, f, init)",
     "td.loop(2, 5, lambda k, s: s + k, 0)"),
    ("td.map(lambda x, y: x + y, a, 1.5)", SHAPE, "(5,) and () | used in the function",
     "td.map(lambda x: x + 1.5, a)"),
    ("td.generate(a, lambda i: i)", DTYPE, "generate needs extents | a.shape",
     "td.generate(a.shape, lambda i: i)"),
    ("td.zeros(A)", DTYPE, "zeros needs extents | a.shape", "td.zeros(A.shape)"),
    ("run(lambda x: {3: 4}.get(x[0]), k)", TRACING, "has no hash | td.isin(k, (3, 1))",
     "run(lambda x: td.where(x[0] == 3, 4, 0), k)"),
    ("td.random.normal(0, 1, 3)", DTYPE, "The first argument is a key",
     "td.random.normal(td.random.key(0), 3)"),
    ("td.random.permutation(5)", TRACING, "'x' | The first argument is a key",
     "td.random.permutation(td.random.key(0), 5)"),
    ("td.random.choice([1, 2])", TRACING, "'a' | The first argument is a key",
     "td.random.choice(td.random.key(0), td.array([1, 2]))"),
    ("td.convolve(a, [], mode='full')", SHAPE, "weights of extent 0", "td.convolve(a, [1.0])"),
    ("td.unique(m, axis=0)", TRACING, "no argument 'axis' | np.unique(a, axis=0)",
     "np.unique(m, axis=0)"),
    ("td.maximum.reduce([A, A])", TRACING, "no 'reduce' | td.max(a, axis) | td.stack",
     "td.max(td.stack([A, A]), axis=0)"),
    ("td.add.accumulate(A)", TRACING, "td.cumsum(a, axis)", "td.cumsum(A)"),
    ("td.gcd.reduce(K)", TRACING, "td.fold1(td.gcd, a, axis)", "td.fold1(td.gcd, K)"),
    ("td.hypot.reduce(A)", TRACING, "td.fold1(td.hypot, a, axis)", "td.fold1(td.hypot, A)"),
    ("td.add.at(K, [0, 0], 1)", TRACING, "a.at[indices].add(values)", "K.at[[0, 0]].add(1)"),
    ("td.multiply.outer(A, A)", TRACING, "a[:, None]", "A[:, None] * A"),
    ("np.add(A, 1, out=A)", TRACING, "with out= changes | Leave it out", "np.add(A, 1)"),
    ("np.add.reduce(m, out=A)", TRACING, "with out= changes | Leave it out", "np.add.reduce(m)"),
    ("td.save('a.npy', A)", AttributeError, "np.save(path, a) stores an array", ""),
    ("A.strides", AttributeError, "td.run(a) has", "td.run(A).strides"),
    # Functions of Python's that compare, and NumPy's and SciPy's of what is traced.
    ("run(lambda x: x[: min(x.shape)], m)", TRACING, "td.minimum(a, b)",
     "run(lambda x: x[: td.minimum(*x.shape)], m)"),
    ("run(lambda x: max(td.sum(x), 0), a)", TRACING, "td.maximum(a, b)",
     "run(lambda x: td.maximum(td.sum(x), 0), a)"),
    ("td.map(lambda x, y: sorted((x, y))[0], a, a)", TRACING, "td.sort(a)", ""),
    ("run(lambda x: x if any(x > 1) else -x, a)", TRACING, "td.any(a)", ""),
    ("run(lambda x: x / np.prod(x.shape), m)", TRACING, "math.prod(a.shape)",
     "run(lambda x: x / math.prod(x.shape) + x.size, m)"),
    ("run(lambda x: x / np.max(x.shape), m)", TRACING, "td.maximum(a.shape[0], a.shape[1])", ""),
    ("run(lambda x: x * np.hanning(x.shape[0]), a)", TRACING, "td.hanning takes them",
     "run(lambda x: x * td.hanning(x.shape[0]), a)"),
    ("run(lambda x: np.fft.rfftfreq(x.shape[0], 0.1), a)", TRACING,
     "np.fft.rfftfreq needs the value | n should be an integer | td.fft.rfftfreq",
     "run(lambda x: td.fft.rfftfreq(x.shape[0], 0.1), a)"),
    ("td.map(lambda x: td.where(0 < x < 1, 1, 0), a)", TRACING, "Write (a < x) & (x < b)",
     "td.map(lambda x: td.where((0 < x) & (x < 1), 1, 0), a)"),
    ("td.map(lambda x: td.where(x > 0 and x < 1, 1, 0), a)", TRACING, "p & q, p | q, ~p", ""),
    # Statements that change elements.
    ("M[1:-1, 2] -= 2 * M[0, 0]", TRACING, "M = M.at[1:-1, 2].add(-(2 * M[0, 0]))",
     "M = M.at[1:-1, 2].add(-(2 * M[0, 0]))"),
    ("M[0][1] = 3", TRACING, "a = td.update(a, index, new)", "M = M.at[0, 1].set(3)"),
    ("M[0, 1] /= 3", TRACING, "a = td.update(a, index, new)", ""),
    ("def f(x):\n    y = np.zeros(5)\n    y[0] = x[1]\n    return y\nrun(f, a)", TRACING,
     "Make it by td.zeros(…), and then y = y.at[0].set(x[1])",
     "run(lambda x: td.zeros(5).at[0].set(x[1]), a)"),
    ("run(lambda x: np.array([y for y in (x, x)]), a)", TRACING, "td.stack([x, y])",
     "run(lambda x: td.stack([x, x]), a)"),
    # Arguments.
    ("run(lambda x, s: x[s], a, slice(1, 3))", TRACING, "x[start:stop]",
     "run(lambda x, i, j: x[i:j], a, 1, 3)"),
    # Structures.
    ("td.iterate(3, lambda s: (s,), A)", DTYPE, "state, one value, but returned (a,).", ""),
    ("td.iterate(3, lambda s: ((s[0], s[1]),), (A, B))", DTYPE,
     "state, (a, b), but returned ((a, b),).", "td.iterate(3, lambda s: (s[0], s[1]), (A, B))"),
    ("td.cond(True, (1, 2), 3)", DTYPE, "(a, b) against one value", ""),
    ("td.where(True, (1, (2, 3)), (1, 2))", TRACING, "(a, (b, c)) against (a, b)", ""),
    # Extents that are no sum or product of others are not written out.
    ("run(lambda x, y: x.at[:, 1:-1].set(y), m, m)", SHAPE,
     "(y.shape[0], y.shape[1]) does not broadcast to the part (x.shape[0], ?): axis 1 has 4 "
     "against 2", ""),
    ("run(lambda x, y: x.at[:2].set(td.stack([y, y, y])), m, a)", SHAPE,
     "(3, y.shape[0]) does not broadcast to the part (?, x.shape[1])", ""),
    # Files and frames.
    ("import io\nf = io.BytesIO()\nnp.savez(f, a=a)\nf.seek(0)\ntd.use(np.load(f))", TRACING,
     "use needs an array, got NpzFile | x['name']", ""),
    ("td.matmul(M, M.T, scaling=A)", TRACING, "scaling= determines the program", ""),
    ("td.run(A, check=P)", TRACING, "run: check= determines the program", ""),
    ("with td.config(check=P):\n    pass", TRACING, "config: check= determines the program", ""),
    # Operands.
    ("A + None", TRACING, "add cannot use a value of type NoneType. | forget to return", ""),
    ("None + A", TRACING, "add cannot use a value of type NoneType", ""),
    ("td.map(lambda x: x ** None, a)", TRACING, "power cannot use a value of type NoneType", ""),
    ("'x' + A", TRACING, "add cannot use a value of type str", ""),
    ("[1.0, 2.0] * A", SHAPE, "axis -1 has 2 against 5", "[1.0] * A"),
    ("A + [A, A]", TRACING, "td.stack([a, b])", "A + td.stack([A, A])"),
    ("A + {1, 2}", TRACING, "type set. | np.array(list(x))", ""),
    ("A + collections.OrderedDict(x=1)", TRACING, "x['name']",
     "A + collections.OrderedDict(x=1)['x']"),
    ("A + Fraction(1, 2)", TRACING, "type Fraction. | float(x)", "A + float(Fraction(1, 2))"),
    ("td.map(lambda x: Fraction(1, 2) * x, a)", TRACING, "type Fraction. | float(x)", ""),
    ("A + len", TRACING, "type builtin_function_or_method", ""),
    ("A + object()", TRACING, "type object", ""),
    ("A == None", TRACING, "equal cannot use | Write x is None.", "A is None"),
    ("None != A", TRACING, "not_equal cannot use | Write x is not None.", "A is not None"),
    ("td.map(lambda x: x == None, a)", TRACING, "Write x is None.", ""),
    ("A == 'a'", TRACING, "equal cannot use a value of type str. | compared in Python", ""),
    ("td.map(lambda x: x == 'a', a)", TRACING, "equal cannot use a value of type str", ""),
    ("A == Fraction(1, 2)", TRACING, "type Fraction. | float(x)", "A == float(Fraction(1, 2))"),
    ("A * np.matrix(np.ones((1, 5)))", TRACING, "the matrix product for np.matrix | a @ np.asarray",
     "A @ np.asarray(np.matrix(np.ones((5, 1))))"),
    ("np.matrix(np.ones((1, 5))) * A", TRACING, "is the matrix product for np.matrix", ""),
    ("run(lambda x: Left() @ x, a)", TRACING,
     "NumPy needs the value of an array | td's functions take the array itself", "Left() @ A"),
    ("run(lambda x: np.ma.array(a, mask=a > 2) + x, a)", TRACING,
     "NumPy needs the value of an array", "np.ma.array(a, mask=a > 2) + A"),
    ("A + np.ma.array(a, mask=a > 2)", TRACING, "would lose its mask", ""),
    ("A ^ 2", DTYPE, "bitwise_xor is not defined for float64, int64. | A power is written with **",
     "A ** 2"),
    ("td.map(lambda x: x ^ 2, a)", DTYPE, "A power is written with **", ""),
    ("td.use(np.ones(3, 'u8')) | td.use(np.ones(3, 'i8'))", DTYPE,
     "No integer type holds both: convert the right operand, y.astype(td.uint64)",
     "td.use(np.ones(3, 'u8')) | td.use(np.ones(3, 'i8')).astype(td.uint64)"),
    ("td.use(np.ones(3, 'i8')) & td.use(np.ones(3, 'u8'))", DTYPE, "y.astype(td.int64)",
     "td.use(np.ones(3, 'i8')) & td.use(np.ones(3, 'u8')).astype(td.int64)"),
    ("A > 1 & A < 3", DTYPE, "& binds more tightly", "(A > 1) & (A < 3)"),
    ("A & B[:1]", DTYPE, "td.cast(x, td.int32)", "td.cast(A, td.int32) & td.cast(B, td.int32)[:1]"),
    # Powers.
    ("K ** -1", td.ExponentError, "negative integer powers | a.astype(td.float64) ** -1",
     "K.astype(td.float64) ** -1"),
    ("td.power(K, -2)", td.ExponentError, "the exponent -2 | ** -2", ""),
    ("K ** np.int64(-1)", td.ExponentError, "negative integer powers", ""),
    ("K ** (td.int64(1) - 2)", td.ExponentError, "negative integer powers", ""),
    ("U ** -1", td.ExponentError, "negative integer powers", ""),
    ("P ** -1", td.ExponentError, "negative integer powers", ""),
    ("2 ** td.int32(-1)", td.ExponentError, "negative integer powers", ""),
    ("td.map(lambda x: x ** -1, k)", td.ExponentError, "negative integer powers", ""),
    ("td.loop(3, lambda k, s: s ** -1, K)", td.ExponentError, "negative integer powers", ""),
    ("K ** -1", ValueError, "negative integer powers", ""),
    # In place.
    ("A[0] = 1.0", TRACING, "arrays are immutable | A = A.at[0].set(1.0)",
     "td.update(A, 0, 1.0)"),
    ("A[1:3] += 1", TRACING, "A = A.at[1:3].add(1)", "A.at[1:3].add(1)"),
    ("A[P] = 0", TRACING, "A = A.at[P].set(0)", "td.update(A, P, 0)"),
    ("del A[0]", TRACING, "td.concatenate([a[:k], a[k + 1:]])", "td.concatenate([A[:0], A[1:]])"),
    ("def f(x):\n    x[0] = 1\n    return x\ntd.map(f, a)", TRACING, "from the function of map",
     ""),
    ("def f(i):\n    A[i] = i\n    return i\ntd.generate(3, f)", TRACING, "function of generate",
     ""),
    ("A.shape = (5, 1)", TRACING, "shape cannot be set | td.reshape(a, shape)",
     "td.reshape(A, (5, 1))"),
    ("def f(x):\n    x.shape = (5, 1)\n    return x\nrun(f, a)", TRACING, "shape cannot be set",
     ""),
    ("A.dtype = 'f4'", TRACING, "dtype cannot be set | a.astype(dtype)", "A.astype('f4')"),
    ("Z.imag = 0", TRACING, "imag cannot be set | td.complex_(a.real, new)",
     "td.complex_(Z.real, np.zeros(3))"),
    ("del A.shape", TRACING, "shape cannot be set", ""),
    ("def f(x):\n    x.real = 0\n    return x\ntd.map(f, a)", TRACING, "real cannot be set", ""),
    ("A.foo = 3", AttributeError, "no attribute 'foo'", ""),
    ("run(lambda x: operator.iadd(a, x), a)", TRACING, "write w = w + v", "a += A"),
    ("np.subtract.at(A, k, b)", TRACING, "a = a.at[indices].add(-values)", "A.at[k[:4]].add(-b)"),
    ("np.maximum.at(A, k, a)", TRACING, "a = a.at[indices].max(values)", "A.at[k].max(a)"),
    ("run(lambda x: np.add.at(np.zeros(5), k, x), a)", TRACING, "a.at[indices].add(values)",
     "run(lambda x: td.zeros(5).at[k].add(x), a)"),
    ("np.bitwise_or.at(K, k, k)", TRACING,
     "td.permute(td.bitwise_or, a, lambda i: td.use(indices)[i], values)",
     "td.permute(td.bitwise_or, K, lambda i: td.use(k)[i], k)"),
    ("td.permute(td.maximum, A, k, a)", TRACING, "lambda i: td.use(k)[i]. | permute(combine, ",
     "td.permute(td.maximum, A, lambda i: td.use(k)[i], a)"),
    # Neighbourhoods.
    ("td.stencil(lambda w: w.mean(), a)", AttributeError, "no 'mean' | Write the offsets",
     "td.stencil(lambda w: (w[-1] + w[0] + w[1]) / 3, a)"),
    ("td.stencil(lambda w: td.sum(w[-1:2]), a)", TRACING, "no slices | Write the offsets", ""),
    ("td.convolve(2, 3)", SHAPE, "Numbers are multiplied: a * w", ""),
    # Hashes and members.
    ("td.map(lambda i: i in {3, 1}, k)", TRACING, "a hash, for a dict | td.isin | td.where",
     "td.map(lambda i: td.isin(i, (3, 1)), k)"),
    ("td.map(lambda i: {3: 30}.get(i, 0), k)", TRACING, "a hash | td.isin | td.where",
     "td.map(lambda i: td.where(i == 3, 30, 0), k)"),
    ("td.map(lambda i: {0: 1.0}[i], k)", TRACING, "a hash | table[k]",
     "table = td.use([1.0, 2.0, 3.0, 4.0, 5.0])\ntd.map(lambda i: table[i], k)"),
    ("td.map(lambda i: len({i, i}), k)", TypeError, "a hash", ""),
    ("td.map(functools.lru_cache(lambda x: x + 1), a)", TRACING, "a cache", ""),
    ("run(lambda x, n: {1: x, 2: -x}[n], a, 2)", TRACING, "a hash | needs the value of n", ""),
    ("td.map(lambda i: i in [3, 1], k)", TRACING, "`in` needs | td.isin(k, (3, 1))",
     "td.map(lambda i: td.isin(i, [3, 1]), k)"),
    ("td.map(lambda i: 1.0 if i in (3, 1) else 0.0, k)", TRACING, "`in` needs | td.isin", ""),
    ("td.map(lambda i: i in A, k)", TRACING, "`in` needs | td.isin(x, a)", "td.isin(k, A)"),
    ("run(lambda x: 3 in x, a)", TRACING, "`in` needs | td.any(a == x)", "3 in A"),
    ("td.map(lambda x: 3 in x, a)", TRACING, "a scalar has no members", ""),
    ("{A: 1}", TRACING, "an array has no hash", "{'A': A}"),
    ("A in {1, 2}", TypeError, "an array has no hash", ""),
    ("run(functools.lru_cache(lambda x: x + 1), a)", TRACING, "an array has no hash", ""),
    ("run(lambda x: {x}, a)", TRACING, "an array has no hash", ""),
    ("run(lambda x: {x.shape[0]: x}, a)", TRACING, "a hash", ""),
    # Truth, lengths, text.
    ("run(lambda x: 1 if td.sum(x) > 3 else 2, a)", TRACING,
     "the truth value of an array | td.where(p, a, b)", "if S > 3:\n    pass"),
    ("run(lambda x: x if x.sum() > 0 else -x, a)", TRACING, "td.cond(p, a, b)",
     "run(lambda x: td.cond(x.sum() > 0, x, -x), a)"),
    ("td.map(lambda x: 0 < x < 3, a)", TRACING, "(a < x) & (x < b)",
     "td.map(lambda x: (0 < x) & (x < 3), a)"),
    ("td.map(lambda x: max(x, 0), a)", TRACING, "td.maximum",
     "td.map(lambda x: td.maximum(x, 0), a)"),
    ("td.map(lambda x: len(x), a)", TRACING, "a scalar has no length", ""),
    ("run(lambda x: float(x.sum()), a)", TRACING, "Write td.float64(x)",
     "run(lambda x: td.float64(x.sum()), a)"),
    ("run(lambda x: int(x[1]), a)", TRACING, "int() needs the value | Write td.int64(x)",
     "run(lambda x: x[td.int64(x[1])], a)"),
    ("run(lambda x: complex(x[1]), a)", TRACING, "Write td.complex128(x)", "complex(A[1])"),
    ("run(lambda x: np.float32(x), a)", TRACING, "Write td.float32(x)",
     "run(lambda x: td.float32(x), a)"),
    ("run(lambda n: np.float32(2.5 * n), 3)", TRACING, "Write td.float32(x)",
     "run(lambda n: td.float32(2.5 * n), 3)"),
    ("td.map(lambda x: np.int8(x), a)", TRACING, "Write td.int8(x)",
     "td.map(lambda x: td.int8(x), a)"),
    ("run(lambda x: x[1].item(), a)", TRACING, "item() needs the value | Leave it out",
     "A[1].item()"),
    ("run(lambda x: x.tolist(), a)", TRACING, "Leave it out", "A.tolist()"),
    ("run(lambda p: p * 0.5, [1.0, 2.0])", TRACING, "an argument that is a list | f(np.asarray(x))",
     "run(lambda p: p * 0.5, np.array([1.0, 2.0]))"),
    ("run(lambda x: math.sin(td.sum(x)), a)", TRACING,
     "no values while a program is traced", "math.sin(S)"),
    ("run(lambda x: '%.2f' % td.sum(x), a)", TRACING,
     "no values while a program is traced", "'%.2f' % S"),
    ("td.map(lambda x: f'{x:.2f}', a)", TRACING, "formatting by '.2f'", ""),
    ("td.map(lambda x: pickle.dumps(x), a)", TRACING, "pickle needs the value", ""),
    ("pow(K, 2, 3)", TypeError, "pow()", ""),
    ("json.dumps(A)", TypeError, "not JSON serializable", ""),
    # Other libraries between.
    ("td.map(lambda x: random.randint(0, x), k)", TRACING, "needs the value of a traced", ""),
    ("td.map(lambda x: bisect.bisect([1.0, 2.0], x), a)", TRACING, "td.where(p, a, b)", ""),
    ("td.map(lambda x: np.random.normal(x), a)", TRACING,
     "a NumPy conversion | td.random.normal(key, shape)", ""),
    ("run(lambda n: np.random.normal(size=n), 3)", TRACING,
     "as a shape | constants of the program | td.random.normal(key, shape)",
     "run(lambda key: td.random.normal(key, 3), td.run(td.random.key(1)))"),
    ("run(lambda x: np.array([x[1], -x[0]]), a)", TRACING, "td.stack([x, y])",
     "run(lambda x: td.stack([x[1], -x[0]]), a)"),
    ("td.map(lambda x: np.array([x, x]), a)", TRACING, "a list of Python's", ""),
    ("run(lambda n: td.loop(n, lambda i, s: s.at[k[i]].add(a[i]), td.zeros(5)), 5)", TRACING,
     "a = td.use(a)",
     "run(lambda n: td.loop(n, lambda i, s: s.at[K[i]].add(A[i]), td.zeros(5)), 5)"),
    ("def body(i, s):\n    s[k[i]] += a[i]\n    return s\n"
     "run(lambda n: td.loop(n, body, td.zeros(5)), 5)", TRACING,
     "s = s.at[k].add(w) | td.fold_seg | td.use(k)[i]", "td.zeros(5).at[k].add(a)"),
    # Arguments of other loops, and of other functions.
    ("td.iterate(3, lambda i, x: x + i, A)", TRACING,
     "called with state, but takes (i, x). | td.loop(n, lambda k, state: …, init)",
     "td.loop(3, lambda i, x: x + i, A)"),
    ("td.loop(3, lambda x: x + 1, A)", TRACING,
     "called with k and state | td.iterate(n, lambda state: …, init)",
     "td.iterate(3, lambda x: x + 1, A)"),
    ("td.sort(A, kind='stable')", TRACING, "Sorts are stable: leave it out", "td.sort(A)"),
    ("A.at[k].set(1.0, mode='drop')", TRACING, "out of range changes nothing", "A.at[k].set(1.0)"),
    ("td.generate(3, lambda i: td.sum(M[i]))", NESTED, "td.sum(a, axis=-1)", "td.sum(M, axis=-1)"),
    ("td.map(lambda x: np.linalg.cond(x), a)", TRACING, "np.linalg.cond does not work", ""),
    ("td.map(lambda x: np.real_if_close(x), a)", TRACING, "write it with td's functions", ""),
    ("run(lambda x: np.linalg.cond(x), a)", TRACING, "np.linalg.cond does not work",
     "np.linalg.cond(td.ones((2, 2)))"),
    ("run(lambda x: np.save('x', x), a)", TRACING, "np.save(path, f(a))", ""),
    ("td.map(lambda x: x @ x, a)", NESTED, "matmul", "td.map(lambda x: x * x, a)"),
    ("td.map(lambda x: np.dot(x, x), a)", NESTED, "call td.dot on entire arrays", "td.dot(A, A)"),
    ("td.map(lambda x: td.isin(x, K), a)", NESTED, "Compute td.isin(…) outside", "td.isin(a, K)"),
    ("td.map(lambda x: td.foreign(math.sin, x), a)", TRACING, "Numba could not compile 'sin'", ""),
    # Numbers of the program, and lists of them.
    ("run(lambda a, k: a[::k], a, 0)", SHAPE, "the step of a slice must not be 0", ""),
    ("run(lambda k: td.scatter(td.fill(5, 0.0), [k, 2], [1.0, 2.0]), 3)", TRACING,
     "td.stack([k, 2])",
     "run(lambda k: td.scatter(td.fill(5, 0.0), td.stack([k, 2]), [1.0, 2.0]), 3)"),
    ("run(lambda a, k: a[[[0], [k]]], a, 2)", TRACING, "td.stack([k, 2])", ""),
    ("td.permute(lambda x, y: x + y, td.fill((9, 9), 0.0), lambda i: (i, td.ignore), a)", TRACING,
     "td.where(p, (i, j), td.ignore)",
     "td.permute(lambda x, y: x + y, td.fill((9, 9), 0.0), "
     "lambda i: td.where(i > 0, (i, i), td.ignore), a)"),
    # Integers that no index reaches.
    ("K[2**63]", td.IndexOutOfBounds, "is out of range for axis 0 with extent 5", ""),
    ("K[np.uint64(2**64 - 1)]", td.IndexOutOfBounds, "is out of range for axis 0", ""),
    ("K[-2**63]", td.IndexOutOfBounds, "is out of range for axis 0 with extent 5", ""),
    ("td.take(k, 2**63 - 1)", td.IndexOutOfBounds, "is out of range for axis 0", ""),
    ("K.at[2**63].set(1)", td.IndexOutOfBounds, "is out of range for axis 0", ""),
    # A method of a class's class is not one of the object.
    ("P | ''", TRACING, "bitwise_or cannot use a value of type str", ""),
    ("td.foreign_array({'reference': np.sort}, a, fallback=td.sort, name=a)", TRACING,
     "name must be a string, got ndarray", ""),
    ("td.foreign_array({'reference': 3}, a, fallback=td.sort)", TRACING,
     "the implementation for reference is not a function", ""),
    ("td.schedule.Table([1, [2]])", td.ScheduleError, "a rank-1 array of integers, got [1, [2]]",
     "td.schedule.Table([1, 0])"),
    ("td.run(A, backend=a)", td.BackendUnavailable, "there is no backend array(", "td.run(A)"),
    ("td.jit(plus, backend=a)(a, a)", td.BackendUnavailable, "there is no backend array(", ""),
    ("run(plus, a, a)\ntd.jit(plus).lower(a, a).explain(a)", td.BackendUnavailable,
     "there is no backend array(", "td.jit(plus).lower(a, a).explain('native')"),
    ("td.run(A, check=a)", TRACING, "run: check is True or False, got array(",
     "td.run(A, check=np.bool_(True))"),
    ("with td.config(check=a): pass", TRACING, "config: check is True or False", ""),
    ("td.jit(plus, deterministic='x')", TRACING, "jit: deterministic is True or False, got 'x'",
     "td.jit(plus, deterministic=True)"),
    # Names that are not there.
    ("td.vmap(abs)", AttributeError, "td.map(f, a) applies f to every element", "td.map(abs, a)"),
    ("td.zeros_like_(a)", AttributeError, "Did you mean zeros_like?", "td.zeros_like(a)"),
    ("td.Sum(a)", AttributeError, "Did you mean sum?", "td.sum(a)"),
    ("td.len(A)", AttributeError, "a.shape[0]", "A.shape[0]"),
    ("td.map(lambda x: x.sum(), a)", AttributeError, "it is one value", ""),
    ("td.map(lambda row: row.sum(), M)", AttributeError, "outside of the function: td.sum(a, axis",
     "td.sum(M, axis=-1)"),
    ("run(lambda x: np.r_[True, x], a)", TRACING, "td.concatenate([a, b]) is np.r_[a, b]",
     "run(lambda x: td.concatenate([[True], x]), a)"),
    ("run(lambda x: np.c_[x, x], a)", TRACING, "td.column_stack([a, b]) is np.c_[a, b]",
     "run(lambda x: td.column_stack([x, x]), a)"),
    ("run(lambda x: np.linalg.cond(x), m)", TRACING, "s = td.linalg.svdvals(a)",
     "s = td.linalg.svdvals(M)\ns[..., 0] / s[..., -1]"),
    ("td.map(lambda x: x.sqrt(), a)", AttributeError, "write td.sqrt(x)",
     "td.map(lambda x: td.sqrt(x), a)"),
    ("A.numpy()", AttributeError, "td.run(x) computes it", "td.run(A)"),
]  # fmt: skip


def names():
    found: dict[str, object] = {}
    exec(compile(PREAMBLE, "<treadle preamble>", "exec"), found)
    return found


def execute(text, file):
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names())


@pytest.mark.sample(64)
@pytest.mark.parametrize(
    ("written", "kind", "words", "works"), MISTAKES, ids=[f"{k}" for k in range(len(MISTAKES))]
)
@pytest.mark.filterwarnings("ignore")
def test_mistakes(written, kind, words, works):
    with pytest.raises(kind) as error:
        execute(written, "<a mistake>")
    text = " ".join(str(error.value).split())
    missing = [w for w in words.split(" | ") if w not in text]
    assert not missing, f"{missing} not in:\n{error.value}"
    if isinstance(error.value, td.TreadleError):
        where = error.value.where
        assert where is not None and where.file == "<a mistake>", where
        assert written.splitlines()[where.line - 1].strip() in str(error.value)
        assert "^" in str(error.value)
    if works:
        execute(works, "<what works>")


def test_what_has_its_own_way_with_arrays_keeps_it():
    found = names()
    assert found["A"] + found["Own"]() == "its own"
    assert (found["A"] == found["Own"]()) == "its own"
    with pytest.raises(td.TracingError, match="cannot use a value of type Own"):
        found["A"] - found["Own"]()


def test_arrays_on_the_left_leave_the_operation_to_us(run):
    """As pandas' do by `__pandas_priority__`, NumPy's and theirs by `__array_ufunc__`."""
    found = names()
    a, table = found["A"], found["Table"]()
    sub = np.arange(5.0).view(type("Sub", (np.ndarray,), {}))
    for made in (table + a, a + table, sub + a, a + sub, np.arange(5.0) + a):
        assert isinstance(made, td.Array)
        np.testing.assert_array_equal(run(made), np.arange(5.0) * 2)
    np.testing.assert_array_equal(run(table + td.sum(a)), np.arange(5.0) + 10)
    np.testing.assert_array_equal(
        run(td.map(lambda x: np.clip(x, 1, 3) + np.where(x > 1, x, 0), a)), [1, 1, 4, 6, 7]
    )
    assert np.shape(a) == (5,) and np.ndim(a) == 1 and np.size(a) == 5


def test_functions_of_other_packages_compute_outside():
    ndimage = pytest.importorskip("scipy.ndimage")
    with pytest.raises(td.TracingError, match=r"scipy computes with values(?s:.*)foreign_array"):
        td.jit(lambda x: ndimage.gaussian_filter(x, 2))(np.ones(9))
    special = pytest.importorskip("scipy.special")
    with pytest.raises(td.TracingError, match=r"instead of it, m = td\.max\(a, axis, keepdims"):
        td.jit(lambda x: special.logsumexp(x))(np.ones(9))
    stats = pytest.importorskip("scipy.stats")
    with pytest.raises(td.TracingError, match=r"scipy computes with values(?s:.*)td\.foreign\("):
        td.map(stats.norm.cdf, np.ones(9))
    with pytest.raises(td.TracingError, match=r"td\.erfc\(-x / 2\*\*0\.5\) / 2 is the cdf"):
        td.jit(lambda x: stats.norm.cdf(x))(np.ones(9))
    x = np.linspace(-9, 9, 37)
    for formula, wanted in (
        (td.erfc(-td.use(x) / 2**0.5) / 2, stats.norm.cdf(x)),
        (td.erfc(td.use(x) / 2**0.5) / 2, stats.norm.sf(x)),
        (td.exp(-(td.use(x) ** 2) / 2) / (2 * td.pi) ** 0.5, stats.norm.pdf(x)),
    ):
        np.testing.assert_allclose(td.run(formula), wanted, rtol=1e-12)


def test_functions_that_numba_compiled():
    numba = pytest.importorskip("numba")
    square = numba.njit(lambda x: x * x)
    for call in (
        lambda: td.map(square, np.arange(3.0)),
        lambda: td.jit(lambda x: square(x))(np.arange(3.0)),
        lambda: square(td.use(np.arange(3.0))),
    ):
        with pytest.raises(td.TracingError, match=r"Numba compiled(?s:.*)py_func(?s:.*)foreign"):
            call()
    for f in (square.py_func, lambda x: td.foreign(square, x)):
        np.testing.assert_array_equal(td.run(td.map(f, np.arange(3.0))), [0, 1, 4])


def test_ufuncs_of_others():
    numba = pytest.importorskip("numba")
    special = pytest.importorskip("scipy.special")
    square = numba.vectorize(["float64(float64)"])(lambda x: x * x)
    with pytest.raises(td.TracingError, match=r"^the ufunc <lambda> does not(?s:.*)td\.foreign\("):
        td.jit(lambda x: square(x))(np.ones(3))
    np.testing.assert_array_equal(square(td.iota(3) * 1.0), [0, 1, 4])
    with pytest.raises(
        td.TracingError, match=r"^scipy\.special\.jv does not(?s:.*)td\.foreign\(f, x\)"
    ):
        td.jit(lambda x: special.jv(1, x))(np.ones(3))
    with pytest.raises(td.TracingError, match=r"Instead: 1 / \(1 \+ td\.exp\(-x\)\)\."):
        td.jit(lambda x: special.expit(x))(np.ones(3))


def test_one_suggestion_for_a_missing_name():
    """Python adds one of its own to an AttributeError that names an object: none to ours."""
    for ask in (
        lambda: td.vmap,
        lambda: td.schedule.Columns,
        lambda: td.use(np.ones(3)).sort,
        lambda: td.jit(abs).explain,
    ):
        with pytest.raises(AttributeError) as error:
            ask()
        assert error.value.name and error.value.obj is None


def test_extents_that_are_known_are_numbers():
    """Equal ones have equal hashes, as of Python's numbers; those of arguments have none."""
    rows, other = td.use(np.ones((3, 4))).shape, td.use(np.ones((4, 3))).shape
    assert {3: "three"}[rows[0]] == "three" and rows[0] in {3.0} and rows[1] not in {3}
    assert rows[0] == other[1] and hash(rows[0]) == hash(other[1]) == hash(3)
    assert (rows[0] != other[0]) is True and (rows[0] != 3) is False and rows[0] == 3.0
    assert len({*rows, *other}) == 2 and [0] * rows[0] == [0, 0, 0]
    assert rows == (3, 4) and rows != (3, 3)


@pytest.mark.parametrize("space", [td, td.linalg, td.fft, td.random, td.schedule],
                         ids=lambda m: m.__name__)  # fmt: skip
def test_every_function_refuses_an_unknown_argument_itself(space):
    raw = []
    for name in sorted(set(space.__all__)):
        function = getattr(space, name)
        if not inspect.isfunction(function):
            continue
        try:
            function(no_such_argument=1)
        except td.TreadleError:
            continue
        except TypeError as error:
            raw.append(f"{name}: {error}")
    assert not raw


def test_libraries_lie_where_numpy_does(tmp_path, monkeypatch):
    """`pip install --target` makes packages in another folder than site-packages."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/__init__.py").write_text(
        "def call(f, x):\n    return f(x)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(errors, "_BESIDE_NUMPY", str(tmp_path.resolve()) + os.sep)
    library = importlib.import_module("library")
    with pytest.raises(td.TracingError) as error:
        td.map(lambda x: library.call(float, x), np.ones(3))
    assert error.value.where.file == __file__
