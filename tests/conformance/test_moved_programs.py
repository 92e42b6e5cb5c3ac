"""Random compositions of operations that move elements, over arguments in all layouts: kernels
that read along other axes, in parts, in tiles or over borders give what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, generator
from .test_layouts import LAYOUTS

#: Extents around those of vectors and tiles, by what is left of them.
EXTENTS = (1, 2, 3, 5, 8, 17, 48, 50, 65, 131)
MOST = 20_000
TYPES = ("int64", "int32", "uint8", "float32", "int16", "complex64")
BOUNDARIES = (td.clamp, td.wrap, td.mirror, td.symmetric, td.constant(7))
MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


class Writer:
    """A program as steps `(text, function)` over the values before them, with their shapes."""

    def __init__(self, *seed):
        self.rng = generator("moved", *seed)
        self.type = np.dtype(self.pick(TYPES))
        self.arguments, self.layouts, self.steps, self.shapes = [], [], [], []
        for _ in range(self.number(1, 3)):
            shape = self.shape() if not self.shapes else self.pick(self.shapes)
            layout = self.pick([name for name in LAYOUTS if name != "empty"])
            values = self.rng.integers(-9, 9, shape).astype(self.type)
            self.arguments.append(LAYOUTS[layout](values))
            self.layouts.append(layout)
            self.shapes.append(shape)
        while len(self.steps) < self.number(2, 6):
            self.step()

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def shape(self):
        while True:
            found = tuple(self.pick(EXTENTS) for _ in range(self.pick((1, 2, 2, 2, 3))))
            if np.prod(found) <= MOST:
                return found

    def add(self, text, shape, function, *of):
        if 0 < np.prod(shape) <= MOST and len(shape) <= 4:
            self.steps.append((f"{text} of {', '.join(f'%{k}' for k in of)}", function, of))
            self.shapes.append(tuple(shape))

    def step(self):
        k = self.number(max(len(self.shapes) - 4, 0), len(self.shapes) - 1)
        name = self.pick([n for n in dir(self) if n.startswith("do_")])
        getattr(self, name)(k, self.shapes[k], self.number(0, len(self.shapes[k]) - 1))

    def do_roll(self, k, shape, axis):
        by = self.number(-3, 3)
        self.add(f"roll {by} {axis}", shape, lambda a: td.roll(a, by, axis), k)

    def do_flip(self, k, shape, axis):
        self.add(f"flip {axis}", shape, lambda a: td.flip(a, axis), k)

    def do_transpose(self, k, shape, axis):
        order = tuple(int(x) for x in self.rng.permutation(len(shape)))
        to = [shape[x] for x in order]
        self.add(f"transpose {order}", to, lambda a: td.transpose(a, order), k)

    def do_slice(self, k, shape, axis):
        step = self.pick((1, 1, 2, 3, -1, -2))
        low = self.number(0, shape[axis] - 1)
        cut = slice(low, None, step) if step > 0 else slice(None, low - 1 if low else None, step)
        index = (slice(None),) * axis + (cut,)
        to = np.empty(shape, "b")[index].shape
        self.add(f"slice {cut} {axis}", to, lambda a: a[index], k)

    def do_pad(self, k, shape, axis):
        mode, by = self.pick(MODES), (self.number(0, 3), self.number(0, 3))
        widths = [by if x == axis or self.number(0, 1) else (0, 0) for x in range(len(shape))]
        to = [n + sum(w) for n, w in zip(shape, widths, strict=True)]
        self.add(f"pad {mode} {widths}", to, lambda a: td.pad(a, widths, mode), k)

    def do_stencil(self, k, shape, axis):
        boundary = self.pick(BOUNDARIES)
        offsets = [tuple(self.number(-2, 2) for _ in shape) for _ in range(self.number(1, 4))]

        def f(w):
            total = w[offsets[0]]
            for c, o in enumerate(offsets[1:]):
                total = total + w[o] * (c + 2)
            return total

        self.add(f"stencil {offsets} {boundary}", shape,
                 lambda a: td.stencil(f, a, boundary=boundary), k)  # fmt: skip

    def do_concatenate(self, k, shape, axis):
        alike = [
            j
            for j, s in enumerate(self.shapes)
            if len(s) == len(shape)
            and all(x == axis or m == n for x, (m, n) in enumerate(zip(s, shape, strict=True)))
        ]
        parts = [k, *(self.pick(alike) for _ in range(self.number(1, 3)))]
        if self.number(0, 1):
            parts = parts[::-1]
        to = list(shape)
        to[axis] = sum(self.shapes[j][axis] for j in parts)
        self.add(f"concatenate {axis}", to, lambda *a: td.concatenate(a, axis), *parts)

    def do_stack(self, k, shape, axis):
        alike = [j for j, s in enumerate(self.shapes) if s == shape]
        parts = [self.pick(alike) for _ in range(self.number(1, 3))]
        at = self.number(0, len(shape))
        to = (*shape[:at], len(parts), *shape[at:])
        self.add(f"stack {at}", to, lambda *a: td.stack(a, at), *parts)

    def do_where(self, k, shape, axis):
        j = self.pick([j for j, s in enumerate(self.shapes) if s == shape])
        n = self.number(0, shape[axis])
        place = tuple(slice(None) if x == axis else None for x in range(len(shape)))
        test = self.pick(("index", "data"))

        def f(a, b):
            p = (td.iota(shape[axis]) < n)[place] if test == "index" else td.real(a) < td.real(b)
            return td.where(p, a, b)

        self.add(f"where {test} {axis} < {n}", shape, f, k, j)

    def do_add(self, k, shape, axis):
        j = self.pick([j for j, s in enumerate(self.shapes) if s == shape])
        self.add("add", shape, lambda a, b: a + b, k, j)

    def do_reshape(self, k, shape, axis):
        to = (int(np.prod(shape)),) if len(shape) > 1 else (1, shape[0])
        if axis + 1 < len(shape):
            to = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        self.add(f"reshape {to}", to, lambda a: td.reshape(a, to), k)

    def do_replicate(self, k, shape, axis):
        n = self.number(1, 3)
        to = (*shape[:axis], n, *shape[axis:])
        self.add(f"replicate {n} {axis}", to, lambda a: td.replicate(a, n, axis), k)

    def do_compute(self, k, shape, axis):
        self.add("compute", shape, td.compute, k)

    def do_sum(self, k, shape, axis):
        if len(shape) > 1:
            to = (*shape[:axis], *shape[axis + 1 :])
            self.add(f"sum {axis}", to,
                     lambda a: td.sum(a, axis).astype(self.type.name), k)  # fmt: skip

    def do_cumsum(self, k, shape, axis):
        self.add(f"cumsum {axis}", shape,
                 lambda a: td.cumsum(a, axis).astype(self.type.name), k)  # fmt: skip

    def do_permute(self, k, shape, axis):
        j = self.pick([j for j, s in enumerate(self.shapes) if s == shape])
        n = shape[axis]

        def to(*ix):
            return tuple((n - 1 - i) if x == axis else i for x, i in enumerate(ix))

        self.add(f"permute {axis}", shape,
                 lambda a, b: td.permute(lambda x, y: x + y, a, to, b), k, j)  # fmt: skip

    def __call__(self, *arguments):
        values = list(arguments)
        for _, function, of in self.steps:
            values.append(function(*(values[k] for k in of)))
        return tuple(values[len(arguments) :][-2:])

    def __str__(self):
        given = [f"%{k} {self.type} {shape} {layout}" for k, (shape, layout) in enumerate(
            zip(self.shapes, self.layouts, strict=False))]  # fmt: skip
        return "\n".join([*given, *(f"%{k + len(given)} {s[0]} : {self.shapes[k + len(given)]}"
                                    for k, s in enumerate(self.steps))])  # fmt: skip


def try_program(backend, *seed):
    """Compiled as a function and run on captured arrays, against the reference."""
    program = Writer(*seed)
    want = td.jit(program.__call__, backend="reference")(*map(np.array, program.arguments))
    try:
        got = td.jit(program.__call__, backend=backend)(*program.arguments)
        assert_same(got, want, ulps=4)
    except BaseException as error:
        error.add_note(f"program {seed}:\n{program}")
        raise


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(40))
def test_moved(backend, seed):
    try_program(backend, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_moved_much(backend, seed):
    for k in range(30):
        try_program(backend, seed, k)
