"""What is read from a clone of NPBench: descriptions, data, versions, when a result is right."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: The arrays with the results, where NPBench's description names none or another one.
OUTPUTS = {"scattering_self_energies": ("Sigma",), "doitgen": ("A",), "trisolv": ("x",)}
#: The endings of the modules with a framework's versions.  Numba's object mode is not among them.
VERSIONS: Mapping[str, Sequence[str]] = {
    "numpy": ("numpy",),
    "numba": ("numba_npr", "numba_np", "numba_n"),
    "jax": ("jax", "jax_lib"),
    "cupy": ("cupy",),
}


@dataclass(frozen=True)
class Benchmark:
    """The description of one program, from the folder `bench_info` of the clone."""

    name: str
    info: Mapping[str, Any]

    @property
    def module(self) -> str:
        path = self.info["relative_path"].replace("/", ".")
        return f"npbench.benchmarks.{path}.{self.info['module_name']}"

    @property
    def arguments(self) -> list[str]:
        return list(self.info["input_args"])

    @property
    def arrays(self) -> list[str]:
        return list(self.info["array_args"])

    @property
    def outputs(self) -> list[str]:
        """The arguments that the NumPy version changes and that are compared."""
        return list(OUTPUTS.get(self.name, self.info["output_args"]))

    def data(self, preset: str) -> dict[str, Any]:
        """The values of all arguments, made by NPBench's initialiser."""
        values = dict(self.info["parameters"][preset])
        init = self.info.get("init")
        if init:
            make = getattr(importlib.import_module(self.module), init["func_name"])
            made = make(*(values[a] for a in init["input_args"]))
            names = init["output_args"]
            values.update(zip(names, made if len(names) > 1 else (made,), strict=True))
        return {name: values[name] for name in self.arguments}

    def versions(self, framework: str) -> dict[str, Callable[[], Callable[..., Any]]]:
        """The versions that NPBench has for a framework: by the ending of the module, a function
        that imports it."""

        def importer(module: str) -> Callable[[], Callable[..., Any]]:
            return lambda: getattr(importlib.import_module(module), self.info["func_name"])

        found = {ending: f"{self.module}_{ending}" for ending in VERSIONS[framework]}
        return {e: importer(m) for e, m in found.items() if importlib.util.find_spec(m)}

    def compare(self, expected: Sequence[Any], found: Sequence[Any]) -> tuple[bool, float]:
        """Whether a result is right by NPBench's rule, and the worst relative error.

        The rule: `numpy.allclose`, or a relative error in the Euclidean norm below `norm_error`.
        """
        rtol, atol = self.info.get("rtol", 1e-5), self.info.get("atol", 1e-8)
        allowed = self.info.get("norm_error", 1e-5)
        right, worst = len(found) >= len(expected), 0.0
        for want, got in zip(expected, found, strict=False):
            want, got = np.asarray(want), np.asarray(got)
            if want.size != got.size:
                return False, float("inf")
            got = got.reshape(want.shape)
            with np.errstate(all="ignore"):
                length = np.linalg.norm(want.ravel())
                error = float(np.linalg.norm((want - got).ravel()) / (length or 1.0))
            if not error < allowed and not np.allclose(want, got, rtol=rtol, atol=atol):
                right = False
            if not np.isnan(error):
                worst = max(worst, error)
        return right, worst


def enter(clone: Path) -> None:
    """Make `npbench` importable from the clone; SystemExit if it is none."""
    if not (clone / "bench_info").is_dir() or not (clone / "npbench").is_dir():
        raise SystemExit(f"{clone} is no clone of NPBench (git clone of github.com/spcl/npbench)")
    sys.path.insert(0, str(clone.resolve()))


def benchmarks(clone: Path) -> dict[str, Benchmark]:
    """All programs of the clone, by the names of their files."""
    return {
        path.stem: Benchmark(path.stem, json.loads(path.read_text(encoding="utf-8"))["benchmark"])
        for path in sorted((clone / "bench_info").glob("*.json"))
    }
