"""The programs whose explanations are kept in golden/: places in this file are part of them."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.driver.program import Program
from treadle.dsl.process.configuration import Settings


def lower(function, *args, backend="native") -> Program:
    """A program for a backend that need not run here: only its passes do."""
    traced = td.jit(function, backend="reference").lower(*args)
    made = Program(traced.source_roots, traced.tree, Settings(), backend, traced.arguments,
                   traced.params, traced.name)  # fmt: skip
    made.example_shapes = traced.example_shapes
    return made


def image(*extents):
    return np.zeros(extents, np.float32)


def blur_and_sum():
    """A pipeline that becomes one kernel, under a schedule."""

    def brightness(picture, gain):
        bright = td.map(lambda x: x * gain, picture)
        blurred = td.stencil(
            lambda w: (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]) / 4,
            bright,
            name="blur",
            schedule=td.schedule.Column(256),
        )
        return blurred, td.sum(td.sqrt(blurred), axis=1)

    return lower(brightness, image(480, 640), 2.0)


def heat():
    """A loop over arrays, then a scattered histogram."""

    def diffuse(rod, steps):
        warm = td.iterate(steps, lambda t: td.stencil(lambda w: (w[-1] + w[1]) / 2, t), rod)
        bins = td.map(lambda x: td.cast(x, td.int64), warm)
        return td.bincount(bins, length=16), td.cumsum(warm)

    return lower(diffuse, np.zeros(1000), 10)


def product():
    """An idiom recognised, a choice, a gather."""

    def project(a, b, places):
        left, right = td.replicate(a, 50, 1), td.replicate(b.T, 30, 0)
        table = td.fold(lambda x, y: x + y, 0.0, left * right)
        picked = td.gather(table, places)
        return td.cond(td.the(td.any(picked > 0)), picked + 1, picked - 1)

    return lower(project, np.zeros((30, 40)), np.zeros((40, 50)), np.zeros(7, np.int64))


PROGRAMS = {f.__name__: f for f in (blur_and_sum, heat, product)}
