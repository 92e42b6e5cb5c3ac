"""An eager model of the language on NumPy arrays: what the reference is compared with where NumPy
has no word. The text of a line runs on either; scalar functions see whole arrays of scalars."""

from __future__ import annotations

import numpy as np

from ..helpers import neighbour, scan_left, scan_right


class Window:
    """What a stencil's function receives: arrays of neighbours."""

    def __init__(self, a, boundary):
        self.a, self.boundary = a, boundary

    def __getitem__(self, offsets):
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        return neighbour(self.a, offsets, self.boundary)


class Model:
    """Exact operations only. Missing: loops, `cond` of arrays, and all that NumPy has."""

    ignore = object()
    clamp, mirror, symmetric, wrap = "clamp", "mirror", "symmetric", "wrap"
    minimum, maximum, fmin, fmax, abs = np.minimum, np.maximum, np.fmin, np.fmax, np.abs
    clip, negative, floor, ceil, trunc = np.clip, np.negative, np.floor, np.ceil, np.trunc
    sign, left_shift = np.sign, np.left_shift
    right_shift, isnan, roll, reverse = np.right_shift, np.isnan, np.roll, np.flip
    int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
    uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
    float32, float64 = np.float32, np.float64

    @staticmethod
    def rint(x):
        """Integers stay what they are, which is not NumPy's."""
        return np.rint(x) if np.asarray(x).dtype.kind == "f" else x

    @staticmethod
    def square(x):
        """Booleans stay what they are, which is not NumPy's."""
        return np.multiply(x, x)

    @staticmethod
    def the(a):
        return a

    @staticmethod
    def cast(x, kind):
        """Floats saturate, and NaN is 0."""
        x, kind = np.asarray(x), np.dtype(kind)
        if x.dtype.kind == "c" and kind.kind != "c":
            x = x.real
        if x.dtype.kind == "f" and kind.kind in "iu":
            info = np.iinfo(kind)
            inside = np.where((x >= float(info.min)) & (x < float(info.max)), x, 0).astype(kind)
            ends = np.where(x >= float(info.max), info.max, inside)
            return np.where(x < float(info.min), info.min, ends).astype(kind)
        return x.astype(kind)

    @staticmethod
    def quot(a, b):
        if np.result_type(a, b).kind == "f":
            return np.trunc(a / b)
        down = a // b
        return np.where((a % b != 0) & ((a < 0) != (b < 0)), down + 1, down).astype(down.dtype)

    @staticmethod
    def rem(a, b):
        if np.result_type(a, b).kind == "f":
            return np.fmod(a, b)
        return np.where(b == 0, 0, a - Model.quot(a, b) * b).astype(np.result_type(a, b))

    @staticmethod
    def overwrite(new, old):
        return new

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
        return a[tuple(np.broadcast_to(part, shape) for part in f(*np.indices(shape)))]

    @staticmethod
    def replicate(a, n, axis):
        return np.repeat(np.expand_dims(a, axis), n, axis)

    @staticmethod
    def stencil(f, *arrays, boundary):
        return Model.spread(f(*(Window(a, boundary) for a in arrays)), arrays[0].shape)

    @staticmethod
    def fold(f, init, a, axis=-1):
        if axis is None:
            return scan_left(f, init, a.reshape(-1))[..., -1]
        return scan_left(f, init, np.moveaxis(a, axis, -1))[..., -1]

    @staticmethod
    def fold1(f, a, axis=-1):
        if axis is None:
            return scan_left(f, None, a.reshape(-1))[..., -1]
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
    def scan(f, init, xs, axis=0, reverse=False):
        state, steps, ys = np.asarray(init), np.moveaxis(xs, axis, 0), np.zeros_like(xs)
        for k in reversed(range(len(steps))) if reverse else range(len(steps)):
            state, np.moveaxis(ys, axis, 0)[k] = f(state, steps[k])
        return state, ys

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
    def scatter(defaults, indices, a, combine=None):
        out = defaults.copy()
        for row, place in enumerate(indices):
            new = a[row].astype(out.dtype)
            out[place] = combine(new, out[place]) if combine else new
        return out

    @staticmethod
    def update(a, index, new):
        places = np.arange(a.size).reshape(a.shape)[index]
        if isinstance(index, np.ndarray):  # a mask: `new` is an array like `a`
            new = new[index]
        out = a.copy().reshape(-1)
        new = np.broadcast_to(new, places.shape)
        for place, value in zip(places.flat, new.flat, strict=True):
            out[place] = value
        return out.reshape(a.shape)

    @staticmethod
    def filter(p, a):
        keep = Model.spread(p(a), a.shape)
        return a[keep], np.array(keep.sum())
