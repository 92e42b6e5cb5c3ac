"""Tasks and streams run in the memory that is projected for them, under a limit of the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: What memory besides arrays a task may take: small objects, and what is rounded to pages.
COMMON = """
import resource, sys
import numpy as np, treadle as td

def in_use(what):
    return 1024 * int(open("/proc/self/status").read().split(what)[1].split()[0])

def limited(kind, size, call):
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (size, before[1]))
    try:
        return call()
    finally:
        resource.setrlimit(kind, before)
"""

#: Every task of the programs, each with the bytes that are projected for its stage.
TASKS = """
import dask.array as da
from tests.backend.dask.test_arrays import PROGRAMS, flat
from treadle.backend.blocks.memory import elements, projected
from treadle.backend.dask import graph, worker

ROOM = 2 << 20
stages, least = {}, []
token, computed = graph._token, graph.computed

def noted(text, blocks, sources):
    read = sum(elements(b) * b.leaf.type.numpy.itemsize for b in blocks.buffers)
    stages[text] = max((projected(blocks), read), stages.get(text, (0, 0)))
    return token(text, blocks, sources)

def held(text, block, *pieces, **more):
    given = {id(a): a.nbytes for p in pieces for a in (p if isinstance(p, list) else [p])}
    needed, read = stages[text]
    least.append(needed)
    size = in_use("VmSize:") - min(sum(given.values()), read) + needed + ROOM
    return limited(resource.RLIMIT_AS, size, lambda: computed(text, block, *pieces, **more))

a = np.random.default_rng(1).random((1600, 1800)).astype(np.float32)
given = da.from_array(a, chunks=(400, 1800))
for name in sys.argv[1:]:
    f = td.jit(PROGRAMS[name])
    graph._token, graph.computed = token, computed
    wanted = [np.asarray(r.compute(scheduler="synchronous")) for r in flat(f(given))]
    graph._token, graph.computed = noted, held
    for r, w in zip(flat(f(given)), wanted, strict=True):
        assert r.compute(scheduler="synchronous").tobytes() == w.tobytes(), name
assert max(least) > ROOM
"""

#: A file of four times the memory, read and written, and temporary files between.
STREAM = """
from tests.backend.dask.test_stream import heat

n, folder, name = 4096, sys.argv[1], sys.argv[2]
programs = {"map": (lambda a: td.sqrt(a) * 2 + 1, ()), "heat": (heat, (40,)),
            "quotients": (lambda a: a / td.sum(a, axis=0), ())}
for file in ("a", "b"):
    open(folder + "/" + file, "wb").truncate(4 * n * n)
f, more = programs[name]
source = np.memmap(folder + "/a", np.float32, "r+", shape=(n, n))
source[:] = 1
out = np.memmap(folder + "/b", np.float32, "r+", shape=(n, n))
td.stream(f, source, *more, out=out, memory="16 MB")  # compiled
size = in_use("VmData:") + (16 << 20) + ROOM
"""


def run(script: str, *arguments: str) -> None:
    """With one thread, and without the memory that the C library keeps for others."""
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536",
           "MALLOC_TRIM_THRESHOLD_": "65536", "TREADLE_NUM_THREADS": "1"}  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", COMMON + script, *arguments], cwd=ROOT, env=env,
                         capture_output=True, text=True)  # fmt: skip
    assert not ran.returncode, ran.stderr[-2000:]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name",
    ["map", "transpose", "rows", "columns", "total", "mean", "extremes", "scan", "integer scans",
     "sort", "product", "histogram", "cross clamp", "far mirror", "cross wrap", "roll", "strides",
     "blurred twice"],
)  # fmt: skip
def test_tasks(name: str) -> None:
    run(TASKS, name)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["map", "heat", "quotients"])
def test_streams(name: str, tmp_path: Path) -> None:
    run(
        STREAM.replace("ROOM", str(2 << 20)).rstrip()
        + "\nlimited(resource.RLIMIT_DATA, size, "
        + 'lambda: td.stream(f, source, *more, out=out, memory="16 MB"))\n',
        str(tmp_path),
        name,
    )
