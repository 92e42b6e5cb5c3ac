"""Types are real: of the public functions, and for a user's program under mypy and pyright."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import treadle as td
from tests.docs import pages

FOLDER = pages.ROOT / "tests" / "docs" / "typed"
#: Any by nature: `Element` and `Function` are what users' functions take and return: scalars, and
#: tuples and classes of them, which types cannot describe.  Other places, by name:
BY_NATURE = {
    "item": "a Python number of the array's type",
    "tolist": "nested lists of numbers, as deep as the array has axes",
    "run": "trees of arrays as the user built them",
    "random.key": "an array, or in kernels two scalars",
    "random.fold_in": "an array, or in kernels two scalars",
    "random.split": "an array, or in kernels a tuple of keys",
    "loop": "loop(n, f, init) by position or by name",
    "stop": "arrays in the user's tuples and classes, as given",
    "scan": "the state and results of the user's function",
    "vjp": "the arguments and results of the user's function",
    "qr": "an array or a pair, as `mode` says",
    "svd": "an array or three, as `compute_uv` says",
    "random.choice": "an element in kernels, else an array",
    "foreign_array": "one array or a tuple, as the functions return",
    "use": "whatever NumPy, DLPack and the CUDA array interface take",
    **dict.fromkeys(
        ("plot", "plot_order", "plot_predictions", "plot_sweep", "plot_tuning"),
        "matplotlib's axes: treadle does not need matplotlib",
    ),
    **dict.fromkeys(
        ("executable", "execute", "offered", "lowering", "first_choice", "product_ways"),
        "for backends, which bring their own classes",
    ),
}
#: Parameters and results of type Any that are not by nature: to be made fewer, never more.
MOST = 17


def public() -> Iterator[tuple[str, FunctionType]]:
    for prefix, space in [("", td), *((f"{m}.", getattr(td, m)) for m in
                          ("schedule", "simulator", "linalg", "random", "fft"))]:  # fmt: skip
        for name in space.__all__:
            thing = getattr(space, name)
            if inspect.isfunction(thing):
                yield prefix + name, thing
            elif inspect.isclass(thing) and not issubclass(thing, Exception):
                for member, value in vars(thing).items():
                    value = value.fget if isinstance(value, property) else value
                    value = getattr(value, "__func__", value)
                    if inspect.isfunction(value) and not member.startswith("_"):
                        yield f"{prefix}{name}.{member}", value


def untyped() -> list[str]:
    """Public parameters and results whose annotation is missing or Any."""
    found = []
    for name, function in public():
        if name in BY_NATURE or name.rpartition(".")[2] in BY_NATURE:
            continue
        signature = inspect.signature(function)
        for p in signature.parameters.values():
            if p.name not in ("self", "cls") and p.annotation in (p.empty, "Any"):
                found.append(f"{name}({p.name})")
        if signature.return_annotation in (signature.empty, "Any"):
            found.append(f"{name} ->")
    return found


def test_public_functions_are_typed() -> None:
    assert len(untyped()) <= MOST, untyped()


def test_all_is_what_the_package_offers() -> None:
    assert len(set(td.__all__)) == len(td.__all__)
    loaded = {"ceilings", "cli", "doctor", "examples", "explore"}  # by other tests
    names = [name for name in dir(td) if not name.startswith("_") and name not in loaded]
    assert sorted(td.__all__) == names


def test_every_name_is_exported(tmp_path: Path) -> None:
    program = tmp_path / "names.py"
    program.write_text(
        "import treadle as td\n" + "\n".join(f"td.{n}" for n in td.__all__), encoding="utf-8"
    )
    assert not _mypy(program)


def _wrong() -> list[int]:
    lines = (FOLDER / "wrong.py").read_text(encoding="utf-8").splitlines()
    return [k for k, line in enumerate(lines, 1) if line.endswith("# wrong")]


def _mypy(program: Path) -> dict[int, str]:
    """The errors of a user's program under `mypy --strict`, by line; the package's are silent."""
    pytest.importorskip("mypy")
    command = ["mypy", "--strict", "--no-error-summary", "--config-file=", "--python-version=3.11"]
    shown = subprocess.run(
        [sys.executable, "-m", *command, "--follow-imports=silent", "--ignore-missing-imports",
         str(program)],
        capture_output=True, text=True, cwd=pages.ROOT,
    )  # fmt: skip
    assert shown.returncode in (0, 1), shown.stderr
    found = re.findall(r"(\w+\.py):(\d+): error: (.*)", shown.stdout)
    return {int(line): text for file, line, text in found if file == program.name}


def _pyright(program: Path) -> dict[int, str]:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("needs pyright")
    shown = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable,
         str(program)],
        capture_output=True, text=True, cwd=pages.ROOT,
    )  # fmt: skip
    report = json.loads(shown.stdout)
    return {
        d["range"]["start"]["line"] + 1: d["message"]
        for d in report["generalDiagnostics"]
        if d["severity"] == "error" and d["file"].endswith(program.name)
    }


@pytest.mark.parametrize("checker", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_a_users_program(checker) -> None:  # type: ignore[no-untyped-def]
    assert checker(FOLDER / "user.py") == {}
    assert sorted(checker(FOLDER / "wrong.py")) == _wrong()
