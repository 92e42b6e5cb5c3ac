"""The examples in the docstrings run, and the package needs nothing but NumPy."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import treadle.skeletons.schedules as schedules

MODULES = [schedules.__name__] + [
    f"{schedules.__name__}.{module.name}" for module in pkgutil.iter_modules(schedules.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0


def test_modules_stay_short() -> None:
    for path in Path(schedules.__file__).parent.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 400, path.name


def test_orders_on_numbers_do_not_start_the_language() -> None:
    code = (
        "import sys\n"
        "from treadle.skeletons.schedules import Hilbert, draw\n"
        "before = {m for m in sys.modules if m.startswith('treadle.dsl.functions')}\n"
        "draw(Hilbert(), (8, 8))\n"
        "assert before == {m for m in sys.modules if m.startswith('treadle.dsl.functions')}\n"
    )
    environment = {"PYTHONPATH": str(Path(schedules.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
