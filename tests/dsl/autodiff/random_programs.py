"""Derivatives of random programs, those of tests/conformance/fuzz with smooth arguments.

python -m tests.dsl.autodiff.random_programs --count 1000 --seed 0
"""

from __future__ import annotations

import argparse
import collections
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

import treadle as td

from ...conformance.fuzz import Program, draw
from ...conformance.fuzz.program import scope
from .helpers import inexact, weighted

#: Steps of central differences; where they disagree, the program has a kink.
STEPS = (1e-4, 4e-5)


def kinds(rng: Random) -> str:
    return rng.choice(("float64",) * 7 + ("complex128", "int64", "int32"))


def smooth(program: Program) -> Program:
    """The same with arguments whose elements are positive, near 1 and all different."""
    made, values = [], scope()
    for k, (name, text) in enumerate(program.inputs):
        values[name] = value = eval(text, values)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            drawn = f"np.random.default_rng({k}).uniform(0.3, 1.7, {value.shape})"
            if value.dtype.kind == "c":
                drawn += f" + 1j * np.random.default_rng({k + 50}).uniform(0.3, 1.7, {value.shape})"
            text = f"np.asarray({drawn})"
        made.append((name, text))
    return replace(program, inputs=tuple(made))


@dataclass(frozen=True)
class Verdict:
    """`kind` is "right", "wrong", "refused" (a GradientError), "constant" (no float among arguments
    and results), "kink" (differences disagree, or steps are smaller than the distance of 16-bit
    floats), "not finite", "invalid" (the program itself is
    refused) or "raised: …"."""

    kind: str
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.kind == "wrong" or self.kind.startswith("raised")


def differences(loss: Any, args: list[Any], directions: list[Any]) -> tuple[float, float]:
    """The derivative along the directions, and how uncertain it is."""

    def at(t: float) -> float:
        moved = [td.use(a + t * d) for a, d in zip(args, directions, strict=True)]
        return float(td.run(loss(*moved), backend="reference"))

    found = []
    for h in STEPS:
        found.append((8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h))
    size = abs(at(0.0)) * 1e-15 / min(STEPS)
    return found[0], abs(found[0] - found[1]) + size


def judge(program: Program, backend: str) -> Verdict:
    program = smooth(program)
    arguments = program.arguments()
    f = program.function()
    places = [n for n, v in arguments.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fc"]
    rng = np.random.default_rng(len(program.lines))

    def random(a: np.ndarray) -> Any:
        d = rng.standard_normal(a.shape)
        return d + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else d

    args = [arguments[n] for n in places]
    directions = [random(a) for a in args]

    def loss(*xs: Any) -> Any:
        given = {n: td.use(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
        return weighted(f(**(given | dict(zip(places, xs, strict=True)))))

    with np.errstate(all="ignore"):
        try:
            if not places or not inexact(f(**{n: td.use(v) if isinstance(v, np.ndarray) else v
                                              for n, v in arguments.items()})):  # fmt: skip
                return Verdict("constant")
            expected, uncertain = differences(loss, args, directions)
        except td.TreadleError as error:
            return Verdict("invalid", str(error))
        try:
            found = td.run(td.grad(loss, argnums=tuple(range(len(args))))(*map(td.use, args)),
                           backend=backend)  # fmt: skip
        except td.GradientError as error:
            return Verdict("refused", error.message)
        except Exception as error:
            return Verdict(f"raised: {type(error).__name__}", str(error))
        try:
            _, moved = td.jvp(loss, tuple(map(td.use, args)), tuple(map(td.use, directions)))
            ahead = float(td.run(moved, backend=backend))
        except Exception as error:
            return Verdict(f"raised ahead: {type(error).__name__}", str(error))
        products = [(np.conj(g) * d).real for g, d in zip(found, directions, strict=True)]
        along = sum(float(p.sum()) for p in products)
        scale = 1 + sum(float(np.abs(p).sum()) for p in products)
        # Quotients of large integers look smooth from afar.
        halves = any("float16" in line for line in program.script(backend).splitlines())
        if halves or not abs(expected) < 1e6 or uncertain > 1e-5 * (abs(expected) + 1):
            return Verdict("kink")
        if not np.isfinite(along) and not np.isfinite(ahead):
            return Verdict("not finite")  # as sqrt(x % x)
        most = 1e-6 * scale + 10 * uncertain
        if not (abs(along - expected) <= most and abs(ahead - expected) <= most):
            return Verdict(
                "wrong", f"{along} along the direction, {ahead} forward, {expected} by differences"
            )
    return Verdict("right")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for number in range(chosen.first, chosen.first + chosen.count):
        program = draw(chosen.seed, number, kinds)
        verdict = judge(program, chosen.backend)
        counts[verdict.kind] += 1
        if verdict.failed:
            print(f"--- {number}: {verdict.kind}: {verdict.message[-1500:]}")
            print(smooth(program)._source(), *smooth(program).inputs, sep="\n")
        elif verdict.kind == "refused":
            counts[verdict.message] += 1
    print(*sorted(counts.items(), key=lambda c: -c[1]), sep="\n")


if __name__ == "__main__":
    main()
