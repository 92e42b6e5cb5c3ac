"""Every public function has a summary, all of its parameters, a result and an example."""

from __future__ import annotations

import inspect
import operator
import re

import pytest

import treadle as td
from tests.docs.test_typed import public

#: Said once for all operations, in docs/reference.md.
COMMON = {"self", "cls"}
FUNCTIONS = [
    name
    for name, _ in public()
    if inspect.ismodule(operator.attrgetter(name.rpartition(".")[0])(td) if "." in name else td)
]
CLASSES = [name for name in dir(td) if inspect.isclass(getattr(td, name))] + [
    f"{module}.{name}"
    for module in ("schedule", "simulator")
    for name in getattr(td, module).__all__
    if inspect.isclass(getattr(getattr(td, module), name))
]


def documented(text: str) -> set[str]:
    """The names in the section `Parameters`."""
    section = re.search(r"^Parameters\n((?: {4}.*\n?)+)", text, re.MULTILINE)
    lines = re.findall(r"^ {4}([\w*, ]+):", section[1], re.MULTILINE) if section else []
    return {name.strip(" *") for line in lines for name in line.split(",")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    function = operator.attrgetter(name)(td)
    text = inspect.getdoc(function) or ""
    summary = text.partition("\n\n")[0]
    assert summary.endswith((".", ":")), "a summary is a sentence"
    own = set(inspect.signature(function).parameters)
    assert own - COMMON <= documented(text) <= own
    assert re.search(r"^Result: \S", text, re.MULTILINE)
    if "plot" not in name:  # (those need matplotlib)
        assert ">>>" in text, "an example"


#: Texts that say nothing, or say it twice.
GENERIC = re.compile(
    r"Result: (an array|arrays?, as described|two arrays|a tuple of arrays)\.$|"
    r"Parameters( as|:)|of the shape of `f`|a shape that fits",
    re.MULTILINE,
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_is_its_own(name: str) -> None:
    text = inspect.getdoc(operator.attrgetter(name)(td)) or ""
    assert not GENERIC.search(text), GENERIC.search(text)
    alike = re.search(r"^See also (.*)\.$", text, re.MULTILINE)
    known = re.findall(r"`([\w.]+)`", alike[1]) if alike else []
    module = name.rpartition(".")[0]
    for other in known:
        assert hasattr(operator.attrgetter(module)(td) if module else td, other), other


@pytest.mark.parametrize(
    "name", [*(t.name for t in td.__array_namespace_info__().dtypes().values()), "bfloat16"]
)
def test_a_type_says_what_it_holds(name: str) -> None:
    own = inspect.getdoc(getattr(td, name))
    assert own and own != inspect.getdoc(type(td.float32))
    others = [inspect.getdoc(t) for t in (td.int8, td.uint64, td.float32) if t.name != name]
    assert own not in others and (str(getattr(td, name).bits) in own or name == "bool")


@pytest.mark.parametrize("name", ["clamp", "mirror", "symmetric", "wrap"])
def test_a_boundary_says_what_it_reads(name: str) -> None:
    text = inspect.getdoc(getattr(td, name)) or ""
    assert text.startswith("Outside the array, ") and f"boundary=td.{name}" in text


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    thing = operator.attrgetter(name)(td)
    text = inspect.getdoc(thing) or ""
    assert text.partition("\n\n")[0].endswith((".", ":", ")"))
    assert ">>>" in text, "an example"


def test_a_boundary_is_explained() -> None:
    text = td.stencil.__doc__ or ""
    assert all(f"td.{kind}" in text for kind in ("clamp", "wrap", "mirror", "symmetric",
                                                 "constant", "function"))  # fmt: skip


@pytest.mark.parametrize("name", ["Array", "Scalar", "Program", "schedule.Schedule"])
def test_members(name: str) -> None:
    members = inspect.getmembers(operator.attrgetter(name)(td))
    shown = [(n, v) for n, v in members if not n.startswith("_")]
    assert not [n for n, v in shown if callable(v) or isinstance(v, property) if not v.__doc__]


METHODS = [
    *(f"Array.{n}" for n in dir(td.Array) if n[0] != "_" and callable(getattr(td.Array, n))),
    *(f"Program.{n}" for n in ("explain", "graph", "save", "scheduled", "source", "tune", "wait")),
]


@pytest.mark.parametrize("name", METHODS)
def test_method(name: str) -> None:
    """A method of an array, or one of a program that its users call, says as much as a function."""
    method = operator.attrgetter(name)(td)
    text = inspect.getdoc(method) or ""
    own = set(inspect.signature(method).parameters)
    assert own - COMMON <= documented(text) <= own
    assert re.search(r"^Result: \S", text, re.MULTILINE) and ">>>" in text
