"""The benchmark of arrays of dask and streams, tiny."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.parametrize("part", ["plans", "streams", "little"])
def test_a_part_is_measured(part, tmp_path, monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import larger

    out = tmp_path / "out.json"
    assert larger.main(["--tiny", "--only", part, "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found["parts"]) == [part] and found["parts"][part]
    assert part in out.with_suffix(".md").read_text(encoding="utf-8")


def test_the_page_has_the_numbers_of_a_run(monkeypatch):
    """Every part of a run, and nothing else."""
    pytest.importorskip("dask")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import larger

    by_name = dict.fromkeys(larger.PROGRAMS, 0.123)
    plan = {"chunks": 100489, "seconds": 0.456, "bytes": 7 * 10**6, "tasks": 2.97}
    shown = {"plain": 1.25, "seconds": 1.5, "share of the rate": 0.833}
    stream = {f"{state}, {k}": v for state in ("disk", "cached") for k, v in shown.items()}
    stream["peak"] = 33 << 20
    report = {
        "date": "2026-11-28", "load": 0.5, "device": {"cpu": "A processor", "cores": 2},
        "parts": {
            "tasks": {"treadle": 2e-4, "dask.array": 3e-4},
            "plans": {"threads": plan, "processes": plan, "scan": plan, "dask.array": plan},
            "heat": {"extent": 4096, "one process": 1.0, "dask, threads": 0.7,
                     "map_overlap, threads": 28.0},
            "streams": {"file": 8 << 26, "memory": 1 << 26,
                        **dict.fromkeys(larger.STREAMS, stream)},
            "little": {"256 KiB": {n: {"seconds": 9e-4, "NumPy": 1e-4} for n in larger.LITTLE}},
            "clusters": {"extent": 4096, "one thread": by_name, "1 workers": by_name,
                         "2 workers": dict.fromkeys(by_name, 0.0789),
                         "costs": {"1": {"task": 2e-3}, "of the prediction": {"start": 0.0151}},
                         "predicted": {"1 workers": by_name, "2 workers": by_name}},
        },
    }  # fmt: skip
    text = larger.section(report, "larger-2026-11-28")
    assert "| stencil, processes, chunks of 4 MB | 100,489 | 0.456 | 7 | 3.0 |" in text
    assert "start of a call (15.1 ms), for a trivial task (2.0 ms)" in text
    assert "| sort | 0.123 | 0.123 | 0.0789 | 0.123 |" in text
    assert "| percentiles | 1.25 | 1.5 | 0.833 | 1.25 | 1.5 | 0.833 | 33 |" in text
    assert "| milliseconds | 256 KiB | NumPy |" in text and "| sum | 0.9 | 0.1 |" in text
    assert "results/larger-2026-11-28.png" in text and "2 cores; load average 0.5" in text
