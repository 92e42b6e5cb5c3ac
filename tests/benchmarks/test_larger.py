"""The benchmark of arrays of dask and streams, tiny."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("part", ["plans", "streams"])
def test_a_part_is_measured(part, tmp_path, monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import larger

    out = tmp_path / "out.json"
    assert larger.main(["--tiny", "--only", part, "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found["parts"]) == [part] and found["parts"][part]
    assert part in out.with_suffix(".md").read_text(encoding="utf-8")
