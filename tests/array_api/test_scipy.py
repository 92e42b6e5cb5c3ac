"""Functions of SciPy, which are written against the Array API standard, on treadle's arrays."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.docs import pages

pytest.importorskip("scipy", minversion="1.15")


@pytest.mark.parametrize("backend", [pytest.param("reference", marks=pytest.mark.long), "native"])
def test_the_program_of_the_gallery(backend: str) -> None:
    """SciPy reads SCIPY_ARRAY_API when it is imported: in a process of its own."""
    text = (pages.ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    found = re.search(r"^```py\n(.*?)^```\n\n```text\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    environment = dict(os.environ, TREADLE_BACKEND=backend, PYTHONPATH=str(pages.ROOT))
    done = subprocess.run([sys.executable, "-c", found[1]], capture_output=True, text=True,
                          env=environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == found[2]
