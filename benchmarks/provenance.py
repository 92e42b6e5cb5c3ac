"""Where a result is from: the processor, the versions of all that took part, the commit; and what
all pages of results share."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


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


def about(
    title: str, device: Mapping[str, Any], packages: Sequence[str] = CPU_PACKAGES
) -> dict[str, Any]:
    """What a file of results says first: what was measured, when, where, and with which sources."""
    now = datetime.now(UTC)
    return {"title": title, "date": f"{now:%Y-%m-%d %H:%M} UTC", "device": device,
            "versions": versions(packages), **commit()}  # fmt: skip


def heading(about: Mapping[str, Any]) -> list[str]:
    """The title of a page in Markdown, and a line that says where its results are from."""
    return [
        f"# {about['title']}", "",
        f"{about['date']} · {describe(about['device'])} · treadle {about['versions']['treadle']} "
        f"at {str(about['commit'])[:12]}"
        f"{', with uncommitted changes' if about['dirty'] else ''}",
    ]  # fmt: skip


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], words: int | None = 1
) -> list[str]:
    """Lines of Markdown; columns after the first ones, of words, are aligned to the right (None:
    all are of words)."""
    left = len(head) if words is None else words
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return ["| " + " | ".join(r) + " |" for r in (head, rule, *rows)]


def newest(kind: str) -> tuple[Path, dict[str, Any]]:
    """The newest full result of a kind ("cpu", "matmul-cuda"): its file and its contents."""
    found = [p for p in sorted(RESULTS.glob(f"{kind}-*.json"))
             if re.fullmatch(rf"{kind}-[\d-]+", p.stem)]  # fmt: skip
    if not found:
        raise FileNotFoundError(f"no results of kind {kind!r} in {RESULTS}")
    return found[-1], json.loads(found[-1].read_text(encoding="utf-8"))


def replaced(page: str, marks: tuple[str, str], part: str) -> str:
    """A page with `part` between its marks; ValueError if it has none."""
    begin, end = marks
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"a page lacks the marks {begin} … {end}")
    return f"{before}{begin}\n{part}\n{end}{after}"


def write_results(stem: Path, page: str, data: Mapping[str, Any]) -> None:
    """A page, and its data as JSON beside it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    stem.with_suffix(".json").write_text(text, encoding="utf-8")
    stem.with_suffix(".md").write_text(page, encoding="utf-8")


def describe(where: Mapping[str, Any]) -> str:
    """The device in a few words."""
    if "gpu" in where:
        return f"{where['gpu']}, driver {where['driver']}, CUDA {where['cuda']}"
    name = where.get("llvm_name", where["machine"])
    return f"{where['cpu']} ({name}), {where['cores']} cores, caches {where['caches']}"
