"""How well predicted times rank what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import exp, log

#: Times closer than this are the same: repeated runs are.
SAME = 1.02


def levels(times: Sequence[float]) -> list[int]:
    """Times as numbers of levels, from the shortest on: a level begins with the first time that is
    more than SAME times the one that the level before began with."""
    found, level, begin = [0] * len(times), -1, 0.0
    for k in sorted(range(len(times)), key=lambda k: times[k]):
        if level < 0 or times[k] > SAME * begin:
            level, begin = level + 1, times[k]
        found[k] = level
    return found


def correlation(pairs: Sequence[tuple[float, float]], tied: bool = True) -> float | None:
    """Spearman's rank correlation of (predicted, measured), `tied` by `levels`; None where either
    has one level, or there are fewer than four."""
    if len(pairs) < 4:
        return None
    made = [levels(times) if tied else times for times in zip(*pairs, strict=True)]
    if any(len(set(x)) == 1 for x in made):
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(*made).statistic)


def relative(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Predicted and measured, each over its geometric mean: how much longer than others a schedule
    of a program takes, however long the program takes."""
    means = [geometric(times) for times in zip(*pairs, strict=True)]
    return [(p / means[0], t / means[1]) for p, t in pairs]


def ordered(pairs: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Of all pairs of schedules more than SAME apart as measured: how many are predicted in that
    order, and how many there are."""
    apart = [(p, q) for (p, t), (q, u) in permutations(pairs, 2) if u > SAME * t]
    return sum(p < q for p, q in apart), len(apart)


def error(pairs: Sequence[tuple[float, float]]) -> float:
    """The typical factor between predicted and measured, less one (geometric mean)."""
    return exp(sum(abs(log(p / t)) for p, t in pairs) / len(pairs)) - 1


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))
