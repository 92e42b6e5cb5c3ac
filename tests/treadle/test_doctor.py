"""`treadle doctor` finds what is broken, says what to do, and exits with 1 only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import treadle as td
from treadle import cli, doctor


def of(findings: list[doctor.Finding], about: str) -> doctor.Finding:
    return next(finding for finding in findings if finding.about == about)


def test_here() -> None:
    findings = doctor.examine()
    assert doctor.healthy(findings)
    assert "a small program ran" in of(findings, "native").text
    assert of(findings, "numpy").state == "works"
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert done.exit_code == 0 and done.output.endswith("Programs run here.\n")


def test_every_remedy_is_on_a_line_of_its_own() -> None:
    shown = str(doctor.Finding("scipy", "missing", "Fourier transforms", "pip install scipy"))
    assert shown == "missing  scipy: Fourier transforms\n         -> pip install scipy"


def test_old_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"numpy": "1.26.4", "llvmlite": None}
    installed = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda n: have[n] if n in have else installed(n))
    findings = doctor.examine()
    assert of(findings, "numpy").text == "1.26.4 is older than 2.0"
    assert of(findings, "llvmlite").remedy.startswith("pip install --upgrade 'llvmlite>=")
    assert not doctor.healthy(findings)
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert done.exit_code == 1 and "Something that treadle needs is broken" in done.output


def test_a_backend_that_computes_nonsense_is_found() -> None:
    finding = doctor._tried("reference", "NumPy", lambda x: td.sum(x))
    assert (finding.state, finding.text) == ("broken", "a sum that is 20 came out as 30.0")
    finding = doctor._tried("no such", "none")
    assert finding.state == "broken" and "BackendUnavailable" in finding.text


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way", encoding="utf-8")
    monkeypatch.setattr(doctor, "cache_directory", lambda: file / "cache")
    finding = doctor._cache()
    assert finding.state == "missing" and "TREADLE_CACHE_DIR" in finding.remedy


def test_versions_are_compared_by_number() -> None:
    assert doctor._numbers("2.10.0rc1") > doctor._numbers("2.9") > doctor._numbers("2")
