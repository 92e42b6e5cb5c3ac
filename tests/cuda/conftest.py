"""`pytest tests/cuda --update-golden` writes the texts and the baseline instead of comparing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.backend.runtime.disk_cache import DiskCache


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # another conftest may have it
        parser.addoption("--update-golden", action="store_true", help="write the golden files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in (config.getoption("markexpr") or ""):
        return
    here = Path(__file__).resolve().parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: run with -m long"))


@pytest.fixture(scope="session")
def updating(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are written instead of compared."""
    return bool(request.config.getoption("--update-golden", default=False))


@pytest.fixture
def golden(updating: bool) -> Callable[[str, str], None]:
    """Compare a text with a file beside the tests, or write it."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if updating:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{name} is missing: run pytest tests/cuda --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: see --update-golden"

    return compare


@pytest.fixture(scope="session")
def nvrtc() -> None:
    """Skips where nothing compiles for a GPU."""
    pytest.importorskip("cuda.core", reason="cuda-core is not installed: treadle[test] has it")
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        pytest.skip(f"NVRTC is not installed: {error}")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    """An empty disk cache."""
    return DiskCache(tmp_path, folder="cuda")
