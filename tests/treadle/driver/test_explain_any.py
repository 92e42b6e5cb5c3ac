"""`explain()` tells of every program that can be made, for every backend: it never raises.

Random chains of all kinds of operations over arrays of rank 0 to 5, extents of 0 and 1 among them,
some under schedules.  Nothing is run.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import treadle as td

S = td.schedule
SCHEDULES = (
    S.Auto(), S.Row(), S.Column(3), S.Morton() | S.Block(32), S.Hilbert() | S.Block(8, 32),
    S.Hilbert(), S.Tile(4, 8), S.ZigZag(4), S.Row() | S.PerThread(rows=2), S.Block(4, 64),
    S.Morton() | S.Block(4) | S.LocalityGraph(), S.Agents(2), S.Hints(stream="no_l1"),
)  # fmt: skip


def last(a):
    return a.shape[-1]


#: What is done to an array, with the keywords that carry a schedule; of any rank.
ANY = {
    "map": lambda a, **k: td.map(lambda x: x * 2 + 1, a, **k),
    "imap": lambda a, **k: td.imap(lambda *ix: ix[-1] + sum(ix[:-1]), a, **k),
    "loop": lambda a, **k: td.map(lambda x:
        td.loop(5, lambda i, s: s + td.cast(i, s.dtype), x), a, **k),
    "while": lambda a, **k: td.map(lambda x:
        td.while_loop(lambda s: s < 9, lambda s: s * 2 + 1, x), a, **k),
    "cond": lambda a, **k: td.map(lambda x:
        td.cond(x > 2, td.sqrt(td.cast(x, td.float32)), 1), a, **k),
    "where": lambda a, **k: td.where(a > 1, a, 0),
    "spread": lambda a, **k: a + td.arange(3),
    "outer": lambda a, **k: a[..., None] * td.arange(2),
    "replicate": lambda a, **k: td.replicate(a, 2, 0, **k),
    "none of it": lambda a, **k: td.replicate(a, 0, 0, **k),
    "total": lambda a, **k: td.sum(a, **k),
    "largest": lambda a, **k: td.fold(td.maximum, 0, a, axis=None, **k),
    "flatten": lambda a, **k: td.flatten(a),
    "pair": lambda a, **k: td.unzip(td.map(lambda x: (x, x > 1), a, **k))[0],
    "array loop": lambda a, **k: td.iterate(3, lambda s: s + a, a),
    "array cond": lambda a, **k: td.cond(td.sum(a) > 3, a, a + 1),
    "compute": lambda a, **k: td.compute(a),
    "bins": lambda a, **k: td.permute(lambda n, o: n + o, td.zeros(4, td.int64),
                                      lambda *ix: sum(ix) % 4, td.cast(a, td.int64), **k),
    "place": lambda a, **k: td.permute(td.overwrite, a, lambda *ix: ix, a, **k),
    "one place": lambda a, **k: td.permute(lambda n, o: n + o, td.zeros((), td.float32),
                                           lambda *ix: (), td.cast(a, td.float32), **k),
}  # fmt: skip
#: … of rank 1 at least.
AXES = {
    "transpose": lambda a, **k: td.transpose(a, **k),
    "reversed": lambda a, **k: a[::-1],
    "strided": lambda a, **k: a[5:1:-2],
    "tail": lambda a, **k: a[..., 1:, None],
    "roll": lambda a, **k: td.roll(a, 3, 0, **k),
    "pad": lambda a, **k: td.pad(a, 1),
    "joined": lambda a, **k: td.concatenate([a, a, a], -1),
    "stacked": lambda a, **k: td.stack([a, a + 1], -1),
    "taken": lambda a, **k: td.take(a, np.array([0, 0]), 0),
    "along": lambda a, **k: td.take_along_axis(a, td.zeros((*a.shape[:-1], 2), td.int64), -1),
    "gathered": lambda a, **k: td.gather(a, td.zeros(3, td.int64), **k),
    "looked up": lambda a, **k: td.generate(4, lambda i: a[(i,) * a.ndim], **k),
    "sum": lambda a, **k: td.sum(a, axis=0, **k),
    "variance": lambda a, **k: td.var(td.cast(a, td.float32), axis=-1),
    "most": lambda a, **k: td.argmax(a, axis=-1),
    "running": lambda a, **k: td.cumsum(a, axis=0),
    "scanned": lambda a, **k: td.scanl(lambda x, y: x + y, 0, a, **k),
    "from the right": lambda a, **k: td.scanr1(td.minimum, a, **k),
    "segments": lambda a, **k: td.fold_seg(td.maximum, 0, a, td.stack([td.the(td.unit(last(a)))])),
    "sorted": lambda a, **k: td.sort(a),
    "filtered": lambda a, **k: td.filter(lambda x: x > 1, td.flatten(a))[0],
    "near": lambda a, **k: td.stencil(lambda w: w[(0,) * a.ndim] + w[(-1,) * a.ndim], a, **k),
    "mirrored": lambda a, **k: td.stencil(lambda w: w[(2,) * a.ndim], a, boundary=td.mirror, **k),
    "product": lambda a, **k: td.matmul(td.reshape(a, (-1, last(a))),
                                        td.reshape(a, (-1, last(a))).T),
    "dot": lambda a, **k: td.dot(td.flatten(a), td.flatten(a)),
    "diagonal": lambda a, **k: td.diagonal(a[None, :] + td.zeros((3, *a.shape), td.int32)),
}  # fmt: skip
EXTENTS = (0, 1, 1, 2, 3, 5, 8, 33)
TYPES = (np.float32, np.int32, np.uint8, np.float64, np.int64)


#: Operations of a program, and programs.
LENGTH, PROGRAMS = 6, 24
NAMES = random.Random(0).sample([*ANY, *AXES], len(ANY) + len(AXES))


def chain(seed: int):
    """A random program: its function, its argument, and the operations in it; the next ones of all
    in turn."""
    pick = random.Random(seed)
    rank = seed % 6
    value = np.zeros([pick.choice(EXTENTS) for _ in range(rank)], pick.choice(TYPES))
    names = [NAMES[(seed * LENGTH + k) % len(NAMES)] for k in range(LENGTH)]
    schedules = [pick.choice(SCHEDULES) if pick.random() < 0.4 else None for _ in names]
    done: list[str] = []

    def program(a):
        done.clear()
        results = [a]
        for name, schedule in zip(names, schedules, strict=True):
            source = results[-1] if pick.random() < 0.6 else td.compute(results[-1])
            if name in AXES and not source.ndim:
                continue
            under = {} if schedule is None else {"schedule": schedule}
            try:
                made = (ANY.get(name) or AXES[name])(source, **under)
            except td.TreadleError:  # a user's mistake: such arrays have none of it
                continue
            if made.ndim < 6:
                results.append(made)
                done.append(name)
        return tuple(results[1:])

    return program, value, done


@pytest.mark.parametrize("target", ["native", "cuda"])
def test_every_program_is_explained(target):
    told: set[str] = set()
    for seed in range(PROGRAMS):
        program, value, done = chain(seed)
        text = td.jit(program).lower(value).explain(target)
        assert target in text.splitlines()[0], f"seed {seed}: {done}"
        told.update(done)
    assert told == {*ANY, *AXES}


@pytest.mark.parametrize("schedule", [S.Row() | S.Block(2, 8, 1), S.Lanes(2)], ids=str)
def test_a_fold_under_a_block_of_its_source(schedule):
    """Its parts, and its results, have as many axes as what is folded where one axis is."""
    value = np.zeros((2, 3, 8), np.uint64)
    for f in (td.fold, lambda op, init, a, **k: td.argmax(a, **k)):
        program = td.jit(lambda a, f=f: f(td.maximum, 0, a, axis=2, schedule=schedule))
        assert "predicted" in program.lower(value).explain("cuda")


@pytest.mark.parametrize("target", ["native", "cuda"])
def test_what_has_no_elements_is_not_launched(target):
    for f in (lambda a: a[:, ::-1], lambda a: td.sum(a, axis=1), lambda a: td.cumsum(a, axis=1)):
        text = td.jit(f).lower(np.zeros((0, 7))).explain(target)
        assert text.splitlines()[0].endswith("0 kernels launched")
        assert "nothing is launched: there are no elements" in text
