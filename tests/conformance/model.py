"""An eager model of the language on NumPy arrays, for programs whose text runs on either."""

from __future__ import annotations

from functools import partial

import numpy as np

from .helpers import neighbour, precise, scan_left, scan_right


class Window:
    """What a stencil's function receives: arrays of neighbours."""

    def __init__(self, a, boundary):
        self.a, self.boundary = a, boundary

    def __getitem__(self, offsets):
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        return neighbour(self.a, offsets, self.boundary)


class Model:
    """The language on NumPy arrays, eagerly; scalar functions see whole arrays of scalars."""

    ignore = object()
    clamp, mirror, symmetric, wrap = "clamp", "mirror", "symmetric", "wrap"
    minimum, maximum, clip, abs = np.minimum, np.maximum, np.clip, np.abs
    sin, exp, sqrt, tanh = (partial(precise, f) for f in (np.sin, np.exp, np.sqrt, np.tanh))
    int64, float64 = np.int64, np.float64
    transpose, reshape, concatenate = np.transpose, np.reshape, np.concatenate
    roll, pad, sort, matmul, take = np.roll, np.pad, np.sort, np.matmul, np.take
    reverse = np.flip

    @staticmethod
    def use(a):
        return a

    compute = the = use
    unit = np.asarray

    @staticmethod
    def constant(value):
        return ("constant", value)

    @staticmethod
    def where(p, a, b):
        if a is Model.ignore:
            return Model.where(~p, b, a)
        if b is Model.ignore:
            if isinstance(a, tuple):
                return tuple(np.where(p, part, -1) for part in a)
            return np.where(p, a, -1)
        if isinstance(a, tuple):
            return tuple(np.where(p, x, y) for x, y in zip(a, b, strict=True))
        return np.where(p, a, b)

    cond = where

    @staticmethod
    def spread(value, shape):
        if isinstance(value, tuple):
            return tuple(Model.spread(part, shape) for part in value)
        return np.broadcast_to(np.asarray(value), shape).copy()

    @staticmethod
    def map(f, *arrays):
        return Model.spread(f(*arrays), arrays[0].shape)

    @staticmethod
    def imap(f, *arrays):
        shape = arrays[0].shape
        return Model.spread(f(*np.indices(shape), *arrays), shape)

    @staticmethod
    def generate(shape, f):
        return Model.spread(f(*np.indices(shape)), shape)

    @staticmethod
    def backpermute(shape, f, a):
        return a[f(*np.indices(shape))]

    @staticmethod
    def replicate(a, n, axis):
        return np.repeat(np.expand_dims(a, axis), n, axis)

    @staticmethod
    def flatten(a):
        return a.reshape(-1)

    @staticmethod
    def stencil(f, a, boundary):
        return Model.spread(f(Window(a, boundary)), a.shape)

    @staticmethod
    def fold(f, init, a, axis=-1):
        if axis is None:
            return scan_left(f, init, a.reshape(-1))[..., -1]
        return scan_left(f, init, np.moveaxis(a, axis, -1))[..., -1]

    @staticmethod
    def fold1(f, a, axis=-1):
        return scan_left(f, None, np.moveaxis(a, axis, -1))[..., -1]

    @staticmethod
    def fold_seg(f, init, a, lengths):
        ends = np.cumsum(lengths)
        parts = [
            scan_left(f, init, a[..., end - n : end])[..., -1:]
            for n, end in zip(lengths, ends, strict=True)
        ]
        return np.concatenate([a[..., :0], *parts], axis=-1)

    @staticmethod
    def scanl(f, init, a, axis=-1):
        return np.moveaxis(scan_left(f, init, np.moveaxis(a, axis, -1)), -1, axis)

    @staticmethod
    def scanl1(f, a, axis=-1):
        return Model.scanl(f, None, a, axis)

    @staticmethod
    def scanr(f, init, a, axis=-1):
        return np.moveaxis(scan_right(f, init, np.moveaxis(a, axis, -1)), -1, axis)

    @staticmethod
    def scanr1(f, a, axis=-1):
        return Model.scanr(f, None, a, axis)

    @staticmethod
    def permute(combine, defaults, f, a):
        out = defaults.copy()
        target = f(*np.indices(a.shape))
        target = target if isinstance(target, tuple) else (target,)
        target = [np.broadcast_to(t, a.shape) for t in target]
        for index in np.ndindex(a.shape):
            place = tuple(int(t[index]) for t in target)
            if min(place) >= 0:
                new = a[index].astype(out.dtype)
                out[place] = combine(new, out[place])
        return out

    @staticmethod
    def filter(p, a):
        keep = Model.spread(p(a), a.shape)
        return a[keep], np.array(keep.sum())

    @staticmethod
    def sum(a):
        return np.asarray(np.sum(a))

    @staticmethod
    def max(a):
        return np.asarray(np.max(a))

    @staticmethod
    def iterate(n, f, init):
        for _ in range(n):
            init = f(init)
        return init

    @staticmethod
    def loop(n, f, init):
        for k in range(n):
            init = f(k, init)
        return init

    @staticmethod
    def while_loop(p, f, init):
        while p(init):
            init = f(init)
        return init
