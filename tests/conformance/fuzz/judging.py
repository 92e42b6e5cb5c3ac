"""How a program went on a backend, beside the reference and NumPy."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td

from ..helpers import BFLOAT16, assert_same, differences, to_host
from .model import Model
from .program import NAME, Line, Program, scope


@dataclass(frozen=True)
class Verdict:
    """`kind` is "right", "refused" (the reference raises a TreadleError), or what went wrong:
    "wrong" (a value), "numpy" (the reference beside NumPy), "shared" (memory), "changed" (an
    argument), "raised: …", "reference raised: …" (no TreadleError), "crashed: …" or "hung"."""

    kind: str
    message: str = ""
    line: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("right", "refused")


class Refused(Exception):
    """The reference does not take a line."""


def step(line: Line, known: dict[str, Any]) -> Any:
    """The value of a line on the reference, alone, as NumPy arrays."""
    names = [n for n in dict.fromkeys(NAME.findall(line.text)) if n in known]
    source = f"def alone({', '.join(names)}):\n    return {line.text}"
    values = scope()
    exec(compile(source, "<line>", "exec"), values)
    try:
        with np.errstate(all="ignore"), td.config(backend="reference"):
            if any(n[0] == "n" for n in names):
                return td.jit(values["alone"])(*(known[n] for n in names))
            return td.run(values["alone"](*(td.use(known[n]) for n in names)))
    except td.TreadleError as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def in_numpy(line: Line, known: dict[str, Any]) -> Any:
    """What NumPy says of a line, in the machine's byte order."""

    def native(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(native(part) for part in value)
        value = np.asarray(value)
        return value.astype(value.dtype.newbyteorder("="))

    with np.errstate(all="ignore"):
        return native(eval(line.numpy, scope(known) | {"model": Model}))


def compare(got: Any, want: Any, line: Line) -> str:
    """What differs, or ""."""
    if isinstance(want, tuple) and isinstance(got, tuple) and len(got) == len(want):
        return next(filter(None, map(lambda g, w: compare(g, w, line), got, want)), "")
    try:
        assert_same(got, want, ulps=line.ulps, label=line.name)
    except AssertionError as error:
        if line.absolute and isinstance(want, np.ndarray) and np.shape(got) == want.shape:
            got = to_host(got)
            if got.dtype == want.dtype and (want.dtype.kind in "fc" or want.dtype == BFLOAT16):
                off = differences(got, want, line.ulps)
                wide = "c16" if want.dtype.kind == "c" else "f8"
                with np.errstate(all="ignore"):
                    apart = np.abs(got.astype(wide) - want.astype(wide))
                if (apart[off] <= line.absolute).all():
                    return ""
        return str(error)
    return ""


def expected(program: Program, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The value of every line, step by step; and where the reference is not what NumPy says."""
    known, complaint = dict(arguments), ""
    for line in program.lines:
        known[line.name] = step(line, known)
        if line.numpy and not complaint:
            try:
                complaint = compare(known[line.name], in_numpy(line, known), line)
            except Exception as error:
                complaint = f"{line.name}: NumPy raises {type(error).__name__}: {error}"
    return known, complaint


def judge(program: Program, backend: str) -> Verdict:
    """Runs it, and says how that went."""
    try:
        arguments = program.arguments()
    except Exception as error:  # a shorter program may have none
        return Verdict("refused", f"arguments: {error}")
    before = {n: np.array(v) for n, v in arguments.items()}
    try:
        known, complaint = expected(program, arguments)
    except Refused as error:
        return Verdict("refused", str(error))
    except Exception as error:
        return Verdict(f"reference raised: {type(error).__name__}", str(error))
    if complaint:
        return Verdict("numpy", complaint, complaint.split(":")[0])
    try:
        every = executed(program, arguments, backend)
    except td.DTypeError as error:
        # An extent that a line alone does not know can be a Python integer in the whole program:
        # a number that is combined with it stays weak.
        too_large = "does not fit" in str(error) and any(n[0] == "n" for n in arguments)
        return Verdict("refused" if too_large else "raised: DTypeError", str(error))
    except Exception as error:
        return Verdict(f"raised: {type(error).__name__}", str(error))
    lines = {line.name: line for line in program.lines}
    for got in every:
        for name in program.results:
            if wrong := compare(got[name], known[name], lines[name]):
                return Verdict("wrong", wrong, name)
    for name, value in arguments.items():
        if not _alike(np.asarray(value), before[name]):
            return Verdict("changed", f"the argument {name} has changed", name)
    return shared([v for v in arguments.values() if isinstance(v, np.ndarray)], every)


def shared(arguments: list[np.ndarray], every: list[dict[str, Any]]) -> Verdict:
    """Results share memory neither with arguments nor with each other."""
    seen = arguments
    for got in every:
        for name, value in got.items():
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, np.ndarray):
                    if any(np.may_share_memory(part, other) for other in seen):
                        return Verdict("shared", f"{name} shares memory", name)
                    seen = [*seen, part]
    return Verdict("right")


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def executed(program: Program, arguments: dict[str, Any], backend: str) -> list[dict[str, Any]]:
    """The results of every call."""
    with td.config(backend=backend, **program.manner.settings):
        return _executed(program, arguments, backend)


def _executed(program: Program, arguments: dict[str, Any], backend: str) -> list[dict[str, Any]]:
    manner, function = program.manner, program.function()
    given = tuple(arguments.values())
    if manner.way == "run":
        used = (td.use(v) if n[0] == "a" else v for n, v in arguments.items())
        return [td.run(function(*used))]
    compiled = td.jit(function)
    if manner.way == "stored":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.treadle"
            compiled.lower(*given).save(path)
            compiled = td.load(path)
    if manner.threads == 1:
        return [compiled(*given) for _ in range(manner.calls)]
    results: list[dict[str, Any]] = []
    errors: list[Exception] = []

    def caller() -> None:
        try:
            with td.config(backend=backend, **manner.settings):
                for _ in range(manner.calls):
                    results.append(compiled(*given))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=caller) for _ in range(manner.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def together(programs: list[Program]) -> Program:
    """One program whose results are those of all; they must have one manner."""
    inputs, lines, results = [], [], []
    for place, program in enumerate(programs):

        def renamed(text: str, place: int = place) -> str:
            return NAME.sub(lambda m: f"{m[0]}{place:03}", text)

        inputs += [(renamed(n), renamed(t)) for n, t in program.inputs]
        lines += [
            replace(x, name=renamed(x.name), text=renamed(x.text), numpy=renamed(x.numpy))
            for x in program.lines
        ]
        results += [renamed(n) for n in program.results]
    return Program(tuple(inputs), tuple(lines), tuple(results), programs[0].manner)
