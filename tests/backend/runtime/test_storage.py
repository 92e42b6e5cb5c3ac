"""Programs in files: what comes back, and what is refused."""

from __future__ import annotations

import base64
import copy
import dataclasses
import importlib
import json
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td
from tests.dsl.zoo import ZOO
from treadle.backend.runtime.storage import _checksum, canonical_key, packed, save
from treadle.driver.program import load, unpacked
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.process.configuration import Settings


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Box:
    low: object
    high: object


def lowered(function, *args):
    return td.jit(function, backend="reference").lower(*args)


def again(program, tmp_path):
    path = tmp_path / "program.json"
    program.save(path)
    return td.load(path)


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(dataclasses.astuple(a), dataclasses.astuple(b))
    np.testing.assert_array_equal(a, b)
    return a.dtype == b.dtype


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", ZOO)
def test_every_program_comes_back(name, tmp_path):
    function, arguments = ZOO[name]
    program = lowered(function, *arguments)
    found = again(program, tmp_path)
    assert same(found(*arguments), program(*arguments))
    key = canonical_key(program.source_roots, program.settings)
    assert canonical_key(found.source_roots, found.settings) == key
    assert (found.name, found.backend, found.settings) == (
        program.name, program.backend, program.settings)  # fmt: skip


def test_results_keep_their_nesting(tmp_path):
    def nested(a):
        pair = td.map(lambda x: Point(x, x * 2), a)
        return {"p": Point(a + 1, [a, (a * 2,)]), "box": Box(a - 1, pair), 3: a}

    a = np.arange(4.0)
    program = lowered(nested, a)
    found = again(program, tmp_path)(a)
    assert same(found, program(a))
    assert type(found["p"]) is Point and type(found["box"]) is Box
    assert list(found) == ["p", "box", 3]


@pytest.mark.parametrize("dtype", ["bool_", "int8", "uint64", "float16", "bfloat16", "complex64"])
def test_captured_data_come_along(dtype, tmp_path):
    t = getattr(td, dtype)
    for held in (np.arange(6).astype(t.numpy).reshape(2, 3), np.ones((1, 3), t.numpy),
                 np.zeros((), t.numpy), np.zeros((0, 3), t.numpy)):  # fmt: skip
        program = lowered(lambda h=held: td.map(lambda x: x, h))
        assert same(again(program, tmp_path)(), program())


def test_captured_data_of_a_foreign_order_of_bytes(tmp_path):
    held = np.arange(6, dtype=np.dtype("int32").newbyteorder(">"))
    program = lowered(lambda: td.use(held) + 1)
    assert same(again(program, tmp_path)(), np.arange(1, 7, dtype=np.int32))
    truths = (np.arange(6) > 3).astype(np.dtype(bool).newbyteorder(">"))  # not np.dtype(bool)
    program = lowered(lambda: td.cast(td.use(truths), td.int64) + 1)
    assert same(again(program, tmp_path)(), np.array([1, 1, 1, 1, 2, 2]))


def test_schedules_names_and_explanations_come_along(tmp_path):
    def blurred(a):
        order = td.schedule.Column(64) | td.schedule.Block(8, 32)
        return td.stencil(lambda w: w[0, 1] + w[1, 0], a, name="blur", schedule=order)

    a = np.zeros((8, 8))
    program = lowered(blurred, a).scheduled(blur=td.schedule.Row())
    found = again(program, tmp_path)
    assert found.explain() == program.explain()
    assert "Row()" in found.explain()


def test_errors_still_name_the_place(tmp_path):
    program = lowered(lambda a, b: a + b, np.zeros(3), np.zeros(3))
    with pytest.raises(td.ShapeError, match="test_storage"):
        again(program, tmp_path)(np.zeros(3), np.zeros(4))


def test_another_process_reads_it(tmp_path):
    path = tmp_path / "p.json"
    lowered(lambda a: td.sum(a * 2), np.zeros(3)).save(path)
    code = f"import treadle as td, numpy as np; print(td.load({str(path)!r})(np.arange(3.0)))"
    root = os.path.dirname(os.path.dirname(td.__file__))
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env={**os.environ, "PYTHONPATH": root})  # fmt: skip
    assert out.stdout.strip() == "6.0"


# --- refusals --------------------------------------------------------------------------------


def test_an_algorithm_of_ones_own_is_data(tmp_path):
    halves = td.BilinearAlgorithm("halves", 1, 1, 2, [[1, 1]], np.eye(2) / 2, 2 * np.eye(2))
    a = np.arange(16.0).reshape(4, 4)
    program = lowered(lambda x: td.matmul(x, x, algorithm=halves), a)
    assert same(again(program, tmp_path)(a), a @ a)


def test_python_functions_cannot_be_stored(tmp_path):
    def user(x):
        return x * 2

    held = td.foreign_array({"reference": user}, np.zeros(3), fallback=lambda a: a * 2)
    with td.config(backend="reference"):
        held = td.foreign_array({"reference": user}, np.zeros(3), fallback=lambda a: a * 2)
        program = lowered(lambda: held)
    with pytest.raises(td.StorageError, match=r"foreign_array.*Python function"):
        program.save(tmp_path / "p")
    numba = pytest.importorskip("numba")
    scalar = numba.njit(lambda x: x + 1.0)
    program = lowered(lambda a: td.map(lambda x: td.foreign(scalar, x), a), np.zeros(3))
    with pytest.raises(td.StorageError, match="foreign function"):
        program.save(tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_local_classes_cannot_be_stored(tmp_path):
    class Local(NamedTuple):
        x: object

    program = lowered(lambda a: Local(a), np.zeros(3))
    with pytest.raises(td.StorageError, match="Local"):
        program.save(tmp_path / "p")


def stored(tmp_path):
    path = tmp_path / "p.json"
    held = np.arange(3.0)
    save(lowered(lambda a: Point(a + held, td.sum(a)), np.zeros(3)), path)
    return path, json.loads(path.read_text(encoding="utf-8"))


def rewritten(path, document):
    document["sha256"] = _checksum(document["payload"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_truncated_and_flipped_files(tmp_path):
    path, _ = stored(tmp_path)
    text = path.read_text(encoding="utf-8")
    for cut in (0, 1, len(text) // 2, len(text) - 1):
        path.write_text(text[:cut], encoding="utf-8")
        with pytest.raises(td.StorageError):
            load(path)
    rng = np.random.default_rng(1)
    for at in rng.integers(0, len(text), 60):
        path.write_bytes(text[:at].encode() + bytes([ord(text[at]) ^ 1]) + text[at + 1 :].encode())
        with pytest.raises(td.StorageError):
            load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(td.StorageError):
        load(path)
    with pytest.raises(td.StorageError, match="cannot read"):
        load(tmp_path / "absent")


def test_other_formats_and_versions(tmp_path):
    path, document = stored(tmp_path)
    for change, word in (({"format": "x"}, "not a stored"), ({"version": 99}, "version 99"),
                         ({"sha256": "0"}, "checksum")):  # fmt: skip
        path.write_text(json.dumps({**document, **change}), encoding="utf-8")
        with pytest.raises(td.StorageError, match=word):
            load(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(td.StorageError, match="not a stored"):
        load(path)


def test_no_class_but_tuples_and_dataclasses(tmp_path):
    path, document = stored(tmp_path)
    for name, word in (("os:system", "neither"), ("subprocess:Popen", "neither"),
                       ("no_such_module:X", "no_such_module"), ("os:nothing", "os:nothing"),
                       ("", "imported")):  # fmt: skip
        document["payload"]["results"][1] = name
        with pytest.raises(td.StorageError, match=word):
            load(rewritten(path, document))


def test_a_wrong_payload_is_damaged_whatever_it_says(tmp_path):
    """Random edits below a right checksum: an error or a program, never anything else."""
    path, _ = stored(tmp_path)
    original = path.read_text(encoding="utf-8")
    rng = np.random.default_rng(2)
    words = [None, -1, 10**9, "x", [], {}, True, "node", ["e", 0], 1.5]
    for _ in range(150):
        document = json.loads(original)
        place = document["payload"]
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = keys[rng.integers(len(keys))]
            deeper = place[key]
            if not isinstance(deeper, dict | list) or not deeper or rng.random() < 0.2:
                break
            place = deeper
        place[key] = words[rng.integers(len(words))]
        try:
            load(rewritten(path, document))
        except td.TreadleError as error:
            assert isinstance(error, td.StorageError)


def first(payload, kind):
    """The first entry of a kind in the table."""
    return next(e for e in payload["table"] if kind in (e[0], e[1] if e[0] == "node" else None))


#: What a file may say with a right checksum and without meaning.
NONSENSE = {
    "an axis beyond the rank": lambda p: first(p, "extent").__setitem__(2, 7),
    "an axis that is a word": lambda p: first(p, "extent").__setitem__(2, "int64"),
    "a negative index": lambda p: first(p, "index").__setitem__(1, -3),
    "an index beyond the rank": lambda p: first(p, "index").__setitem__(1, 9),
    "a negative part": lambda p: first(p, "proj").__setitem__(2, -1),
    "an operation that is a number": lambda p: first(p, "node")[3].__setitem__(0, 1),
    "a name that is a list": lambda p: first(p, "node")[3].__setitem__(1, []),
    "a place without a line": lambda p: first(p, "node")[5].pop(),
    "a place of numbers": lambda p: first(p, "node").__setitem__(5, [1, 2, 3]),
    "a border without a value": lambda p: first(p, "read").__setitem__(5, [0]),
    "a sort along no axis": lambda p: first(p, "Library")[2][0][2].__setitem__(0, 7),
    "a sort that is none": lambda p: first(p, "Library")[2].__setitem__(0, 3),
    "a scan along no axis": lambda p: first(p, "Scan")[2].__setitem__(1, -1),
    "a scan of no form": lambda p: first(p, "Scan")[2].__setitem__(5, "both"),
    "a captured array left out": lambda p: p["inputs"].__setitem__(-1, p["inputs"][0]),
    "an example of another rank": lambda p: p["example_shapes"].__setitem__(0, []),
    "a negative example": lambda p: p["example_shapes"][0].__setitem__(0, -1),
}


@pytest.fixture(scope="module")
def of_many_kinds():
    held = np.arange(3.0)

    def f(a):
        chosen = td.map(lambda x: td.cond(x > 0, x, x * a.shape[0]), a)
        return td.cumsum(td.sort(chosen) + held)

    return packed(lowered(f, np.zeros(3)))


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_below_a_right_checksum_is_found_when_it_is_read(what, of_many_kinds):
    document = json.loads(of_many_kinds)
    assert same(unpacked(of_many_kinds)(np.ones(3)), np.cumsum(1 + np.arange(3.0)))
    NONSENSE[what](document["payload"])
    document["sha256"] = _checksum(document["payload"])
    with pytest.raises(td.StorageError, match="is damaged"):
        unpacked(json.dumps(document))


@pytest.mark.parametrize("text", [b"1.0 2.0\n", b"", b"\xff\xfe", b"[1, 2]", b"{}"])
def test_another_file_is_not_called_damaged(tmp_path, text):
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(td.StorageError, match="is not a stored treadle program"):
        load(tmp_path / "x")


def test_pickled_data_are_refused(tmp_path):
    import io

    path, document = stored(tmp_path)
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    document["payload"]["data"] = [base64.b64encode(file.getvalue()).decode()]
    with pytest.raises(td.StorageError, match="damaged"):
        load(rewritten(path, document))


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    path, _ = stored(tmp_path)
    before = path.read_text(encoding="utf-8")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(td.StorageError, match="No space"):
        lowered(lambda a: a, np.zeros(3)).save(path)
    assert path.read_text(encoding="utf-8") == before and [p.name for p in tmp_path.iterdir()] == [
        "p.json"
    ]
    with pytest.raises(td.StorageError, match="cannot write"):
        lowered(lambda a: a, np.zeros(3)).save(tmp_path / "absent" / "p")


# --- keys and speed --------------------------------------------------------------------------


def key_of(expression, **settings):
    return canonical_key(flatten_results(expression)[0], Settings(**settings))


def test_keys_are_of_the_meaning():
    def program(data, k=2, **options):
        return td.fold(lambda x, y: x + y, 0.0, td.map(lambda x: x * k, td.use(data)), **options)

    a, b = np.arange(4.0), np.arange(5.0)
    key = key_of(program(a))
    assert key == key_of(program(b)) and len(key) == 64
    assert key != key_of(program(a, k=3))
    assert key != key_of(program(a.astype(np.float32)))
    assert key != key_of(program(a), fast_math=True)
    assert key != key_of(program(a, schedule=td.schedule.Row()))
    c, d = td.use(a), td.use(a + 1)
    assert key_of(c - d) == key_of(d - c) != key_of(c - c)


def chain(n):
    a = td.use(np.arange(4.0))
    for k in range(n):
        a = a * 1.5 if k % 2 else a + float(k)
    return a


def test_a_thousand_operations_in_linear_time(tmp_path, calls):
    def work(n):
        program = lowered(lambda: chain(n))
        return calls(lambda: again(program, tmp_path))

    work(10)
    assert work(1000) < 4 * 1.2 * work(250)


def test_reading_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "orders_of_mine.py").write_text(
        "import treadle as td\n"
        "class Down(td.schedule.Order):\n"
        "    def coordinates(self, i, shape):\n"
        "        return i % shape[0], i // shape[0]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    down = importlib.import_module("orders_of_mine").Down()
    path = tmp_path / "down.treadle"
    program = td.jit(lambda a: td.map(lambda x: x + 1, a, schedule=down), backend="reference")
    program.lower(np.ones((2, 3))).save(path)
    held = sys.modules.pop("orders_of_mine")
    with pytest.raises(td.StorageError, match=r"not been imported(.|\n)*`import orders_of_mine`"):
        td.load(path)
    assert "orders_of_mine" not in sys.modules
    monkeypatch.setitem(sys.modules, "orders_of_mine", held)
    assert td.load(path)(np.ones((2, 3))).tolist() == [[2.0] * 3] * 2


def test_pickles_of_programs(tmp_path):
    program = lowered(lambda a: td.map(lambda x: x * 2 + 1, a, name="m"), np.ones(3))
    program(np.ones(3))
    again = pickle.loads(pickle.dumps(program.scheduled(m=td.schedule.Column(8))))
    assert again(np.arange(3.0)).tolist() == [1.0, 3.0, 5.0] and "Column(8)" in again.explain()
    with pytest.raises(td.StorageError, match="the pickled program is damaged"):
        unpacked("{")
    array = td.use(np.ones(3)) + 1
    assert pickle.loads(pickle.dumps(array)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(td.TracingError, match=r"pickle needs(.|\n)*td\.jit\(f\)\.lower"):
        td.jit(lambda a: pickle.dumps(a))(np.ones(3))
    assert copy.deepcopy([array])[0] is array


def test_a_program_is_looked_at_for_other_extents_though_no_file_can_hold_it():
    numba = pytest.importorskip("numba")
    twice = numba.njit(lambda n: 2 * n)
    compiled = td.jit(lambda a: td.map(lambda n: td.foreign(twice, n), a))
    first, other = (compiled.lower(np.zeros(n, np.int64)) for n in (4, 7))
    assert other is not first and other.executable is first.executable
