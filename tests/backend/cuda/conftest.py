"""Fixtures for compiling CUDA C++ without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.backend.runtime.disk_cache import DiskCache


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
