"""Derivatives of random programs, those of tests/conformance/fuzz with smooth arguments.

    python -m tests.dsl.autodiff.random_programs --count 1000 --seed 0 [--backend cuda]

Reverse and forward derivatives are compared with each other and with central differences; so are
second ones of every third program.  The backend "cuda" is an emulated GPU.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import time
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

import treadle as td

from ...backend.cuda.emulated import emulation
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
    def right(self) -> bool:
        return self.kind.startswith("right")

    @property
    def failed(self) -> bool:
        return self.kind == "wrong" or self.kind.startswith("raised")


def differences(f: Any, args: list[Any], directions: list[Any]) -> tuple[float, float]:
    """The derivative along the directions, and how uncertain it is."""

    def at(t: float) -> float:
        moved = [td.use(a + t * d) for a, d in zip(args, directions, strict=True)]
        return float(td.run(f(*moved), backend="reference"))

    found = []
    for h in STEPS:
        found.append((8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h))
    size = abs(at(0.0)) * 1e-15 / min(STEPS)
    return found[0], abs(found[0] - found[1]) + size


def forward(f: Any, directions: list[Any]) -> Any:
    """The derivative of `f` along directions, as a function."""
    return lambda *xs: td.jvp(f, xs, tuple(map(td.use, directions)))[1]


def reverse(f: Any, directions: list[Any]) -> Any:
    """The same from the gradient."""

    def along(*xs: Any) -> Any:
        gradients = td.grad(f, argnums=tuple(range(len(xs))))(*xs)
        total: Any = 0.0
        for g, d in zip(gradients, directions, strict=True):
            total = total + td.sum(td.real(td.conj(g) * d) if d.dtype.kind == "c" else g * d)
        return total

    return along


def compared(
    f: Any, ways: list[Any], args: list[Any], directions: list[Any], backend: str, text: str
) -> Verdict:
    """The derivatives of `f` along directions, computed in these ways, and by differences."""
    try:
        expected, uncertain = differences(f, args, directions)
    except td.TreadleError as error:
        return Verdict("invalid", str(error))
    found = []
    for way in ways:
        try:
            found.append(float(td.run(way(*map(td.use, args)), backend=backend)))
        except td.GradientError as error:
            return Verdict("refused", error.message)
        except Exception as error:
            return Verdict(f"raised: {type(error).__name__}", str(error))
    if not any(map(np.isfinite, found)):
        return Verdict("not finite")  # as sqrt(x % x)
    gradients = td.run(td.grad(f, argnums=tuple(range(len(args))))(*map(td.use, args)),
                       backend=backend)  # fmt: skip
    scale = 1 + sum(float(np.abs(g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    said = f"{found} in these ways, {expected} ± {uncertain} by differences"
    single = any(t in text for t in ("float32", "complex64", "float16"))
    apart = 1e-4 if single else 1e-9
    if "float16" not in text and not all(abs(x - found[0]) <= apart * scale for x in found):
        return Verdict("wrong", said)
    # Quotients of large integers look smooth from afar, and differences of floats of 16 bits are 0.
    if single or not abs(expected) < 1e6 or uncertain > 1e-5 * (abs(expected) + 1):
        return Verdict("kink")
    if not abs(found[0] - expected) <= 1e-6 * scale + 10 * uncertain:
        return Verdict("wrong", said)
    return Verdict("right")


def judge(program: Program, backend: str, twice: bool = False) -> Verdict:
    """`twice`: also the second derivatives, if the first are right."""
    program = smooth(program)
    arguments = program.arguments()
    f = program.function()
    places = [n for n, v in arguments.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fc"]
    rng = np.random.default_rng(len(program.lines))

    def random(a: np.ndarray) -> Any:
        d = rng.standard_normal(a.shape)
        return d + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else d

    args = [arguments[n] for n in places]
    used = {n: td.use(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}

    def loss(*xs: Any) -> Any:
        return weighted(f(**(used | dict(zip(places, xs, strict=True)))))

    with np.errstate(all="ignore"):
        try:
            if not places or not inexact(f(**used)):
                return Verdict("constant")
        except td.TreadleError as error:
            return Verdict("invalid", str(error))
        text = program.script(backend)
        first, second = ([random(a) for a in args] for _ in range(2))
        ways = [reverse(loss, first), forward(loss, first)]
        found = compared(loss, ways, args, first, backend, text)
        if not twice or found.kind != "right":
            return found
        slope = reverse(loss, first)
        ways = [reverse(slope, second), forward(forward(loss, first), second)]
        again = compared(slope, ways, args, second, backend, text)
        kind = again.kind if again.failed else f"right, second derivative {again.kind}"
        return Verdict(kind, f"second derivatives: {again.message}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    with emulation() if chosen.backend == "cuda" else contextlib.nullcontext():
        for number in range(chosen.first, chosen.first + chosen.count):
            if time.monotonic() - began > chosen.seconds:
                break
            program = draw(chosen.seed, number, kinds)
            verdict = judge(program, chosen.backend, number % 3 == 0)
            counts[verdict.kind] += 1
            if verdict.failed:
                print(f"--- {number}: {verdict.kind}: {verdict.message[-1500:]}")
                print(smooth(program)._source(), *smooth(program).inputs, sep="\n", flush=True)
            elif verdict.kind == "refused":
                counts[verdict.message] += 1
    print(*sorted(counts.items(), key=lambda c: -c[1]), sep="\n")


if __name__ == "__main__":
    main()
