"""Where a result is from: the processor, the versions of all that took part, the commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def processor() -> dict[str, Any]:
    """The processor: model, cores that this process may use, vector features, caches."""
    model = platform.processor() or platform.machine()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    about: dict[str, Any] = {"cpu": model, "machine": platform.machine()}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about["cores"] = cores
    try:
        import llvmlite.binding as llvm

        about["llvm_name"] = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features()
        wanted = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "neon", "sve")
        about["features"] = [f for f in wanted if features.get(f)]
    except (ImportError, RuntimeError):
        pass
    caches = {}
    for index in range(5):
        base = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        kind, size = _read(f"{base}/type").strip(), _read(f"{base}/size").strip()
        if size and kind != "Instruction":
            caches[f"L{_read(f'{base}/level').strip()}"] = size
    about["caches"] = caches
    about["system"] = f"{platform.system()} {platform.release().split('-')[0]}"
    return about


CPU_PACKAGES = ("treadle", "numpy", "numba", "llvmlite", "scipy", "jax", "jaxlib")


def versions(packages: Sequence[str] = CPU_PACKAGES) -> dict[str, str]:
    """Python and every package that takes part."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "treadle":
                import treadle

                found[name] = treadle.__version__
    return found


def commit() -> dict[str, Any]:
    """The git commit of the sources, and whether they were changed since."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *args],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
                encoding="utf-8",
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    # Results are written by this very command: they do not make the sources dirty.
    changes = git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return {"commit": head, "dirty": None if changes is None else bool(changes)}


def write_results(stem: Path, page: str, data: Mapping[str, Any]) -> None:
    """A page, and its data as JSON beside it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, indent=1) + "\n"
    stem.with_suffix(".json").write_text(text, encoding="utf-8")
    stem.with_suffix(".md").write_text(page, encoding="utf-8")


def describe(where: Mapping[str, Any]) -> str:
    """The device in a few words."""
    if "gpu" in where:
        return f"{where['gpu']}, driver {where['driver']}, CUDA {where['cuda']}"
    name = where.get("llvm_name", where["machine"])
    return f"{where['cpu']} ({name}), {where['cores']} cores, caches {where['caches']}"
