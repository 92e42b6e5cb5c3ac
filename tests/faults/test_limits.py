"""Limits of the system, and environments that are unusual: a right result or a TreadleError."""

from __future__ import annotations

import pytest

from .processes import run

#: Sets a limit after the imports, then traces, compiles and runs.
LIMITED = """
import resource
{before}
try:
    for k in range(3):
        check(program(k), k)
    big = td.run(td.sum(td.scanl1(lambda x, y: x + y, td.fill({n}, 1.0))), backend="native")
    print("right" if big == {n} * ({n} + 1) / 2 else "wrong")
except (td.TreadleError, MemoryError) as error:
    assert isinstance(error, (td.DeviceOutOfMemory, td.BackendUnavailable)), repr(error)
    print("refused", type(error).__name__)
"""
ROOM = """
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
resource.setrlimit(resource.RLIMIT_AS, (now + {room} * 1_000_000,) * 2)
"""


def address_space(tmp_path, room):
    script = LIMITED.format(before=ROOM.format(room=room), n=10_000_000)
    assert run(script, tmp_path / "cache", {"TREADLE_NUM_THREADS": "2"}).split()[0] in (
        "right", "refused",
    )  # fmt: skip


def test_little_address_space(tmp_path):
    address_space(tmp_path, 80)


@pytest.mark.long
@pytest.mark.parametrize("room", [5, 20, 40, 60, 100, 150, 200, 300, 400, 600])
def test_any_address_space(tmp_path, room):
    address_space(tmp_path, room)


@pytest.mark.parametrize("name, value", [
    ("NOFILE", "len(os.listdir('/proc/self/fd')) + 2"),
    pytest.param("NOFILE", "len(os.listdir('/proc/self/fd')) - 1", marks=pytest.mark.long),
    pytest.param("NPROC", "1", marks=pytest.mark.long),
    pytest.param("FSIZE", "1000", marks=pytest.mark.long),
    pytest.param("STACK", "1 << 20", marks=pytest.mark.long),
])  # fmt: skip
def test_other_limits(tmp_path, name, value):
    limit = f"check(program(9), 9)\nresource.setrlimit(resource.RLIMIT_{name}, ({value},) * 2)"
    made = run(LIMITED.format(before=limit, n=100_000), tmp_path / "cache").split()
    # Without a file that can be opened, the runtime may be refused, if it was not needed before.
    assert made[0] == "right" or (
        value.endswith("- 1") and made == ["refused", "BackendUnavailable"]
    )


def test_a_stack_too_small_for_kernels_is_refused(tmp_path):
    before = "resource.setrlimit(resource.RLIMIT_STACK, (1 << 19,) * 2)"
    made = run(LIMITED.format(before=before, n=100_000), tmp_path / "cache")
    assert made.split() == ["refused", "DeviceOutOfMemory"]


ENVIRONMENTS = {
    "no UTF-8": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin 1": {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "comma": {"LC_ALL": "de_DE.UTF-8"},
    "no home": {"HOME": None, "TREADLE_CACHE_DIR": None, "XDG_CACHE_HOME": None},
    "home that is not there": {"HOME": "/proc/nowhere", "TREADLE_CACHE_DIR": None},
    "empty cache home": {"XDG_CACHE_HOME": "", "TREADLE_CACHE_DIR": None},
    "relative cache home": {"XDG_CACHE_HOME": "here", "TREADLE_CACHE_DIR": None},
    "empty cache": {"TREADLE_CACHE_DIR": ""},
    "tilde": {"TREADLE_CACHE_DIR": "~/x"},
    "one thread": {"TREADLE_NUM_THREADS": "1"},
    "optimised Python": {"PYTHONOPTIMIZE": "2"},
    "warnings are errors": {"PYTHONWARNINGS": "error::BytesWarning"},
    "hashes": {"PYTHONHASHSEED": "7"},
    "developer's Python": {"PYTHONDEVMODE": "1"},
}
QUICK = {"no UTF-8", "empty cache home", "tilde"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.long] * (n not in QUICK))
    for n in ENVIRONMENTS
])  # fmt: skip
def test_environments(tmp_path, name):
    """It runs, explains itself, and leaves nothing where it was started."""
    folder, home = tmp_path / "here", tmp_path / "home"
    folder.mkdir(), home.mkdir()
    script = """
check(program(2), 2)
text = program(2).lower(A).explain() + program(2).lower(A).source()
print(len(text) > 100)
"""
    changes = {"HOME": str(home)} | ENVIRONMENTS[name]
    assert run(script, tmp_path / "cache", changes, folder) == "True\n"
    assert list(folder.iterdir()) == []
