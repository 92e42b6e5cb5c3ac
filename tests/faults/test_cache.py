"""A cache on disk whose writers were killed, that is damaged, foreign, full or not there."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from .processes import run, start

COMPILE = """
print("ready", flush=True)
for k in range({first}, {last}):
    check(program(k), k)
"""


def files(cache):
    return sorted(p for p in cache.rglob("*") if p.is_file())


def killed(cache, rounds, seed):
    rng = random.Random(seed)
    for k in range(rounds):
        process = start(COMPILE.format(first=4 * k, last=4 * k + 4), cache)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(rng.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run(COMPILE.format(first=0, last=4 * rounds), cache)
    left = [p.name for p in files(cache) if p.suffix in (".tmp", ".part")]
    assert len(left) <= rounds, left


def test_killed_while_compiling(tmp_path):
    killed(tmp_path / "cache", 2, 0)


@pytest.mark.long
def test_killed_while_compiling_often(tmp_path):
    killed(tmp_path / "cache", 60, None)


DAMAGES = {
    "truncated": lambda path, others: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2]
    ),
    "bits": lambda path, others: path.write_bytes(bytes(b ^ 0x10 for b in path.read_bytes())),
    "another": lambda path, others: path.write_bytes(others[path]),
    "empty": lambda path, others: path.write_bytes(b""),
    "text": lambda path, others: path.write_text("milk, bread", encoding="utf-8"),
    "last byte": lambda path, others: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "folder": lambda path, others: (path.unlink(), path.mkdir()),
    "link to nothing": lambda path, others: (path.unlink(), path.symlink_to("/nowhere/at/all")),
}


def damaged(cache, names):
    for name in names:
        run(COMPILE.format(first=0, last=3), cache)
        every = files(cache)
        assert every
        contents = [p.read_bytes() for p in every]
        others = dict(zip(every, contents[1:] + contents[:1], strict=True))
        for path in every:
            DAMAGES[name](path, others)
        run(COMPILE.format(first=0, last=3), cache)


def test_a_damaged_cache(tmp_path):
    damaged(tmp_path / "cache", ["bits"])


@pytest.mark.long
@pytest.mark.parametrize("name", DAMAGES)
def test_a_cache_damaged_in_every_way(tmp_path, name):
    damaged(tmp_path / "cache", [name])


@pytest.mark.long
def test_parts_of_a_cache_damaged_at_random(tmp_path):
    cache, rng = tmp_path / "cache", random.Random()
    for _ in range(15):
        run(COMPILE.format(first=0, last=4), cache)
        for path in files(cache):
            data = bytearray(path.read_bytes())
            for _ in range(rng.choice((0, 1, 5))):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
        run(COMPILE.format(first=0, last=4), cache)


def test_a_cache_that_cannot_be_written(tmp_path):
    """A file in its place: kept in memory only."""
    place = tmp_path / "cache"
    place.write_text("in the way", encoding="utf-8")
    run(COMPILE.format(first=0, last=1), place)
    assert place.read_text(encoding="utf-8") == "in the way"


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 100, 4096])
def test_a_full_disk(tmp_path, size):
    """No file may grow beyond some bytes."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    run(limit + COMPILE.format(first=0, last=3), tmp_path / "cache")
    run(COMPILE.format(first=0, last=3), tmp_path / "cache")


@pytest.mark.long
def test_many_processes_write_one_cache(tmp_path):
    script = COMPILE.format(first=0, last=8)
    processes = [start(script, tmp_path / "cache") for _ in range(6)]
    for process in processes:
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
