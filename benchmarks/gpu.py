"""Measures treadle on an NVIDIA GPU against CuPy, PyTorch, JAX and Triton.

    python -m benchmarks.gpu [--quick] [--only NAME] [--out benchmarks/results/mine.json]

Prints a table; writes JSON, the table in Markdown, and a picture.  Times are device times (events)
of results that stay on the device; JAX, which launches on its own streams, is timed by the
host around many calls.
"""

from __future__ import annotations

from typing import Any

from benchmarks import harness, reporting, suite

PACKAGES = ("treadle", "numpy", "cupy-cuda13x", "cuda-core", "torch", "triton", "jax", "jaxlib")


def require_gpu() -> None:
    """End the command with a message if there is no GPU."""
    import treadle as td

    state = td.backends()["cuda"]
    if not state.startswith("works"):
        raise SystemExit(f"This measures a GPU, and the backend cuda is {state}")


def device() -> dict[str, Any]:
    """The GPU, its driver and CUDA."""
    import cupy as cp

    about = cp.cuda.runtime.getDeviceProperties(0)
    driver = cp.cuda.runtime.driverGetVersion()
    return {
        "gpu": about["name"].decode(),
        "multiprocessors": about["multiProcessorCount"],
        "l2_bytes": about["l2CacheSize"],
        "driver": f"{driver // 1000}.{driver % 1000 // 10}",
        "cuda": cp.cuda.runtime.runtimeGetVersion(),
    }


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a result is wrong or a workload failed."""
    options = suite.parser("gpu", __doc__).parse_args(argv)
    from benchmarks.gpu_works import elementwise, folds, moving, overheads, products, stencils
    from benchmarks.gpu_works.common import copies, cp, sample

    scale = suite.scale_of(options, "cuda")
    budget = {"full": 0.15, "quick": 0.08, "tiny": 0.0}[scale.name]
    works = suite.chosen((elementwise, folds, moving, stencils, products), scale, options)
    if options.list:
        return suite.listed(works)
    report = reporting.Report(scale.name, "treadle on a GPU", device, PACKAGES)
    copy = copies(1 << 32)
    copy()
    seconds = harness.timing(harness.interleave({"": copy}, 0.1, sample=sample)[""]).median
    report.ceilings = {"copy GB/s": round((1 << 32) / seconds / 1e9, 1)}
    print(f"copy: {report.ceilings['copy GB/s']} GB/s", flush=True)
    top = harness.Ceilings(copies)

    def measure(work: harness.Work) -> list[harness.Row]:
        cp.get_default_memory_pool().free_all_blocks()
        return suite.guarded(work, top, budget, sample)

    parts = [name.lower() for name in options.only]

    def wanted(name: str) -> bool:
        return not parts or any(p in ("overheads", name) or name in p for p in parts)

    return suite.run(
        options, report, works, measure, lambda: overheads.overheads(scale, wanted), "gpu"
    )


if __name__ == "__main__":
    raise SystemExit(main())
