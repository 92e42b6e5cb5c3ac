"""A program as a value: arguments, lines, results and how it is run; it prints as a script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import treadle as td

NAME = re.compile(r"\b[an]\d+\b")


@dataclass(frozen=True)
class Line:
    """`name = text`, an array of treadle's or a tuple of such. Floats of the result may differ by
    `ulps` units in the last place or by `absolute`; with 0 and 0 the result is exact. `numpy` is
    the same in NumPy's words, or in those of
    `model.Model`; "" where neither has any."""

    name: str
    text: str
    ulps: float = 0
    absolute: float = 0.0
    numpy: str = ""


@dataclass(frozen=True)
class Manner:
    """How a program is run: `way` is "run" (`td.run`), "jit" (a compiled function, called `calls`
    times by each of `threads`) or "stored" (saved, loaded and called)."""

    way: str = "run"
    calls: int = 1
    threads: int = 1
    check: bool = False
    deterministic: bool = False
    recognise: bool = True

    @property
    def settings(self) -> dict[str, bool]:
        """What of `td.config` differs from its defaults."""
        wanted = {"check": self.check, "deterministic": self.deterministic}
        return {k: v for k, v in wanted.items() if v} | (
            {} if self.recognise else {"recognise": False}
        )


@dataclass(frozen=True)
class Program:
    """Arguments (arrays `a0`… and numbers `n0`…, each with an expression of NumPy), lines in order,
    and the names of the lines that are results."""

    inputs: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    results: tuple[str, ...]
    manner: Manner = Manner()

    def needed(self) -> Program:
        """Without what no result depends on."""
        wanted, lines, inputs = set(self.results), [], []
        for line in reversed(self.lines):
            if line.name in wanted:
                lines.append(line)
                wanted.update(NAME.findall(line.text))
        for name, text in reversed(self.inputs):
            if name in wanted:
                inputs.append((name, text))
                wanted.update(NAME.findall(text))
        return replace(self, inputs=tuple(reversed(inputs)), lines=tuple(reversed(lines)))

    def arguments(self) -> dict[str, Any]:
        """The arguments, made anew. Later ones may be views of earlier ones."""
        values = scope()
        for name, text in self.inputs:
            values[name] = eval(text, values)
        return {name: values[name] for name, _ in self.inputs}

    def function(self) -> Any:
        """A Python function of the arguments that gives a dict of the results."""
        values = scope()
        exec(compile(self._source(), "<program>", "exec"), values)
        return values["program"]

    def _source(self) -> str:
        body = [f"    {line.name} = {line.text}" for line in self.lines]
        results = ", ".join(f'"{name}": {name}' for name in self.results)
        arguments = ", ".join(name for name, _ in self.inputs)
        return "\n".join([f"def program({arguments}):", *body, f"    return {{{results}}}"])

    def script(self, backend: str) -> str:
        """A Python script that runs it on a backend and on the reference, and prints both."""
        names = ", ".join(name for name, _ in self.inputs)
        options = "".join(f", {k}={v}" for k, v in self.manner.settings.items())
        used = ", ".join(f"td.use({n})" if n[0] == "a" else n for n, _ in self.inputs)
        call = {
            "run": f"td.run(program({used}))",
            "jit": f"td.jit(program)({names})",
            "stored": f"stored({names})",
        }[self.manner.way]
        text = ["import numpy as np", "import treadle as td"]
        if any("bfloat16" in t for _, t in self.inputs):
            text.append("from ml_dtypes import bfloat16")
        text += ["", *(f"{name} = {value}" for name, value in self.inputs), "", self._source(), ""]
        if self.manner.way == "stored":
            text += [
                "def stored(*given):",
                '    td.jit(program).lower(*given).save("program.treadle")',
                '    return td.load("program.treadle")(*given)',
                "",
            ]
        if self.manner.calls > 1 or self.manner.threads > 1:
            text += [f"# {self.manner.threads} threads call it {self.manner.calls} times each"]
        for line in self.lines:
            if line.name in self.results and (line.ulps or line.absolute):
                text += [f"# {line.name}: within {line.ulps} ulps or {line.absolute:.3g}"]
            if line.name in self.results and line.numpy:
                text += [f"# {line.name} in NumPy: {line.numpy}"]
        text += [
            f'for backend in ("{backend}", "reference"):',
            f"    with td.config(backend=backend{options}):",
            f"        print(backend, {call})",
        ]
        return "\n".join(text) + "\n"


def scope(more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the text of arguments and lines may name."""
    return {"np": np, "td": td, "bfloat16": ml_dtypes.bfloat16} | dict(more or {})
