"""Linear algebra of many small matrices: `python -m benchmarks.matmul.linalg gpu [WORK …]` (or
`cpu`; default: every operation; `--out FOLDER`).

gpu: inverses, systems (one right-hand side), factors, determinants and eigenvalues of a million
2 × 2 … 4 × 4 and of 50,000 larger matrices of float32 and float64, beside PyTorch and CuPy, and a
copy of as many bytes as are read and written.  cpu: beside NumPy (LU: SciPy), with fewer matrices.

Residuals are checked against float64, and kept as JSON and a table in benchmarks/results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

import treadle as td
from benchmarks.harness import host_stopwatch

from .batched import RESULTS, compiled, keep, least

#: The sizes of each operation; the number of matrices on a GPU, and on a CPU.
SIZES = (2, 3, 4, 8, 16, 32)
FEW, MANY, LESS_ON_CPU = 50_000, 1_000_000, 20
#: Matrices whose residuals are computed, and that a library is timed on (its time is scaled) if all
#: of them would take longer than LONG seconds: some functions loop over matrices.
CHECKED, LONG = 1000, 1.0


def inv(a: Any, b: Any) -> Any:
    return td.linalg.inv(a)


def solve(a: Any, b: Any) -> Any:
    return td.linalg.solve(a, b)


def cholesky(a: Any, b: Any) -> Any:
    return td.linalg.cholesky(a)


def det(a: Any, b: Any) -> Any:
    return td.linalg.det(a)


def lu(a: Any, b: Any) -> Any:
    return td.linalg.lu(a)


def qr(a: Any, b: Any) -> Any:
    return td.linalg.qr(a)


def eigh(a: Any, b: Any) -> Any:
    return td.linalg.eigh(a)


def fused(a: Any, b: Any) -> Any:
    """A system with a producer and a consumer around it."""
    return td.maximum(td.linalg.solve(a + td.eye(a.shape[-1], dtype=a.dtype), td.sin(b)), 0)


WORKS: dict[str, Callable[[Any, Any], Any]] = {
    "inv": inv, "solve": solve, "cholesky": cholesky, "solve, fused": fused, "det": det, "lu": lu,
    "qr": qr, "eigh": eigh,
}  # fmt: skip


def operands(n: int, count: int, name: str, work: str) -> tuple[Any, Any]:
    """Matrices and right-hand sides around zero; definite ones for Cholesky, and symmetric ones
    for eigenvalues."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal((count, n, n)).astype(name)
    if work == "cholesky":
        a = a @ a.swapaxes(1, 2) + np.eye(n, dtype=name)
    if work == "eigh":
        a = a + a.swapaxes(1, 2)
    return a, rng.standard_normal((count, n, 1)).astype(name)


def moved(n: int, itemsize: int, count: int, work: str) -> int:
    """The bytes read and written."""
    results = {"solve": 2 * n, "det": 1, "qr": 2 * n * n, "eigh": n * n + n, "lu": n * n + n}
    each = n * n + results.get(work.removesuffix(", fused"), n * n)
    return each * itemsize * count


def residual(work: str, a: Any, b: Any, x: Any) -> float:
    """The largest backward error of the first matrices, in units of n ε."""
    eps = np.finfo(a.dtype).eps
    a, b, *found = (np.asarray(v[:CHECKED]).astype("f8")
                    for v in (a, b, *(x if isinstance(x, tuple | list) else (x,))))  # fmt: skip
    n, x = a.shape[-1], found[0]

    def size(v: Any) -> Any:
        return np.sqrt((v * v).sum(axis=(1, 2)))

    if work == "inv":
        error, scale = size(x @ a - np.eye(n)), size(a) * size(x)
    elif work == "cholesky":
        error, scale = size(x @ x.swapaxes(1, 2) - a), size(a)
    elif work == "solve":
        error, scale = size(a @ x - b), size(a) * size(x) + size(b)
    elif work == "det":
        error, scale = abs(x - np.linalg.det(a)), np.linalg.norm(a, axis=1).prod(axis=1)
    elif work == "lu":
        rows, every = a.copy(), np.arange(len(a))
        for k, pivot in enumerate(found[1].astype(int).T):
            rows[every, k], rows[every, pivot] = rows[every, pivot], rows[every, k]
        low, high = np.tril(x, -1) + np.eye(n), np.triu(x)
        error, scale = size(low @ high - rows), size(low) * size(high)
    elif work == "qr":
        error = size(x @ found[1] - a) + size(x.swapaxes(1, 2) @ x - np.eye(n)) * size(a)
        scale = size(a)
    elif work == "eigh":
        vectors = found[1]
        error, scale = size(a @ vectors - vectors * x[:, None]), size(a)
        error = error + size(vectors.swapaxes(1, 2) @ vectors - np.eye(n)) * scale
    else:
        return 0.0  # as the plain system
    return float((error / (n * eps * scale)).max())


def _peers(xp: Any, a: Any, b: Any, unit: Any) -> dict[str, Callable[[], Any]]:
    """The same by NumPy, CuPy or PyTorch."""
    of = xp.linalg
    factors = {"lu": lambda: of.lu_factor(a)} if hasattr(of, "lu_factor") else {}
    return {
        **factors,
        "det": lambda: of.det(a),
        "qr": lambda: of.qr(a),
        "eigh": lambda: of.eigh(a),
        "inv": lambda: xp.linalg.inv(a),
        "solve": lambda: xp.linalg.solve(a, b),
        "cholesky": lambda: xp.linalg.cholesky(a),
        "solve, fused": lambda: xp.linalg.solve(a + unit, xp.sin(b)).clip(0),
    }


def _on_host(cp: Any, x: Any) -> Any:
    return tuple(map(cp.asnumpy, map(cp.from_dlpack, x if isinstance(x, tuple) else (x,))))


def on_gpu(n: int, name: str, work: str) -> dict[str, Any]:
    from benchmarks.gpu_works.common import copies, cp, sample, torch

    count = MANY if n <= 4 else FEW
    a, b = operands(n, count, name, work)
    x, y = cp.asarray(a), cp.asarray(b)
    mine = td.jit(WORKS[work], backend="cuda")
    runs = {"treadle": lambda: mine(x, y)}
    libraries = {}
    if torch is not None:
        unit = torch.eye(n, dtype=getattr(torch, name), device="cuda")
        libraries["torch"] = torch, (torch.from_dlpack(x), torch.from_dlpack(y)), unit
    if work != "lu":  # CuPy factorises single matrices only
        libraries["CuPy"] = cp, (x, y), cp.eye(n, dtype=x.dtype)
    parts, failed = {}, {}
    for peer, (xp, given, unit) in libraries.items():
        try:
            runs[peer], parts[peer] = _fitting(peer, xp, given, unit, work, count)
        except Exception as problem:  # noqa: BLE001 a peer that fails does not end the others
            failed[peer] = _first_line(problem)
        _free()
    runs["copy"] = copies(moved(n, a.itemsize, count, work))
    error = residual(work, a, b, _on_host(cp, mine(x, y)))
    assert error < 8, (n, name, work, error)
    seconds = {peer: t * parts.get(peer, 1.0) for peer, t in least(runs, sample).items()}
    return {"work": work, "n": n, "type": name, "count": count, "error": error, **seconds,
            "scaled": [peer for peer, p in parts.items() if p > 1], "failed": failed}  # fmt: skip


def _fitting(peer: str, xp: Any, given: Sequence[Any], unit: Any, work: str, count: int
             ) -> tuple[Callable[[], Any], float]:  # fmt: skip
    """A library's function on as many of `count` matrices as take no longer than LONG and fit into
    memory; and by how much its time is scaled."""
    from benchmarks.gpu_works.common import sample

    some = _peers(xp, *(v[:CHECKED] for v in given), unit)[work]
    some()  # which loads what the library needs
    if sample(peer, some, 1) * count / CHECKED > LONG:
        return some, count / CHECKED
    few = count
    while True:
        run = _peers(xp, *(v[:few] for v in given), unit)[work]
        try:
            run()
            return run, count / few
        except Exception as problem:
            if few <= CHECKED or "memory" not in f"{type(problem).__name__} {problem}".lower():
                raise
        few = max(few // 4, CHECKED)
        _free()


def _free() -> None:
    """Gives back what libraries keep of a GPU's memory."""
    from benchmarks.gpu_works.common import cp, torch

    cp.get_default_memory_pool().free_all_blocks()
    if torch is not None:
        torch.cuda.empty_cache()


def _first_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"


def on_cpu(n: int, name: str, work: str) -> dict[str, Any]:
    count = (MANY if n <= 4 else FEW) // LESS_ON_CPU
    a, b = operands(n, count, name, work)
    mine = td.jit(WORKS[work], backend="native")
    peers = _peers(np, a, b, np.eye(n, dtype=name))
    peers["lu"] = lambda: [scipy.linalg.lu_factor(x) for x in a]
    error = residual(work, a, b, mine(a, b))
    assert error < 8, (n, name, work, error)
    runs = {"treadle": lambda: mine(a, b), "NumPy": peers[work]}
    return {"work": work, "n": n, "type": name, "count": count, "error": error,
            **least(runs, host_stopwatch)}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: milliseconds (≈: of fewer matrices, scaled), and ratios to the library and
    to a copy."""
    names = [k for k in ("treadle", "torch", "CuPy", "NumPy", "copy") if any(k in r for r in rows)]
    peer = next((k for k in ("torch", "CuPy", "NumPy") if k in names), "treadle")
    head = ["work", "type", "n", "matrices", *(f"{k}, ms" for k in names), f"{peer} / treadle"]
    head += ["of a copy's rate"] if "copy" in names else []
    lines = [" | ".join(head), " | ".join("---:" for _ in head)]
    for r in rows:
        cells = [r["work"], r["type"], str(r["n"]), f"{r['count']:,}"]
        cells += [f"{'≈ ' * (k in r.get('scaled', ()))}{r[k] * 1e3:.3f}" if k in r else ""
                  for k in names]  # fmt: skip
        ratios = [(peer, ".1f"), *([("copy", ".0%")] if "copy" in names else [])]
        cells += [f"{r[k] / r['treadle']:{form}}" if {k, "treadle"} <= r.keys() else ""
                  for k, form in ratios]  # fmt: skip
        lines.append(" | ".join(cells))
    made = "\n".join(f"| {line} |" for line in lines) + "\n"
    failed = [f"- {r['work']} of {r['type']} {r['n']} × {r['n']}, {k}: {why}"
              for r in rows for k, why in r.get("failed", {}).items()]  # fmt: skip
    return made + ("\nNot measured:\n\n" + "\n".join(failed) + "\n" if failed else "")


def main(arguments: Sequence[str] | None = None) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.matmul.linalg", description=__doc__,
                                     formatter_class=raw)  # fmt: skip
    parser.add_argument("where", choices=("gpu", "cpu"))
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--types", default="float32,float64", help="default: float32,float64")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    given = parser.parse_args(arguments)
    unknown = set(given.works) - set(WORKS)
    if unknown:
        parser.error(f"not an operation: {', '.join(sorted(unknown))}")
    works = given.works or list(WORKS)
    command = " ".join(["python -m benchmarks.matmul.linalg", given.where, *given.works])
    cases = [(n, name, work) for name in given.types.split(",") for work in works for n in SIZES]
    if given.where == "gpu":
        compiled(partial(td.jit(WORKS[work], backend="cuda"), *operands(n, CHECKED, name, work))
                 for n, name, work in cases)
    rows: list[dict[str, Any]] = []
    for case in cases:
        try:
            rows.append((on_gpu if given.where == "gpu" else on_cpu)(*case))
        except Exception as problem:  # noqa: BLE001 a row that fails does not end the others
            n, name, work = case
            rows.append({"work": work, "n": n, "type": name, "count": 0,
                         "failed": {"the whole row": _first_line(problem)}})  # fmt: skip
        print({k: v for k, v in rows[-1].items() if k != "count"}, flush=True)
        # Results so far, in case that the time of the machine ends.
        keep("linalg", given.where, rows, table(rows), {"command": command}, given.out,
             case == cases[-1])  # fmt: skip


if __name__ == "__main__":
    main()
