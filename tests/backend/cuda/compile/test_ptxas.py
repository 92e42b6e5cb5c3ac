"""The defect of ptxas that backend/cuda/compile/ptxas.py describes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.compile import nvrtc as compiler, ptxas

pytest.importorskip("cuda.core")

KERNEL = """extern "C" __global__ void k(int* out, const int* a, const int* b) {
  const int i = threadIdx.x;
  out[i] = max(max(a[i], -b[i]), a[i + 1]);
}"""


def test_which_translators_are_concerned() -> None:
    assert ptxas.concerned((13, 0), "sm_90a") and ptxas.concerned((12, 8), "sm_100")
    assert not ptxas.concerned((13, 4), "sm_90a") and not ptxas.concerned((13, 0), "sm_89")


def test_a_negation_becomes_a_complement_and_a_sum() -> None:
    ptx = "\tneg.s32 \t%r3, %r2;\n\tmax.s32 \t%r4, %r1, %r3;\n\tmax.s32 \t%r5, %r4, %r6;\n"
    text = ptxas.without_negations(ptx)
    assert text is not None and "neg" not in text
    assert "not.b32 \t%r3, %r2;\n\tadd.s32 \t%r3, %r3, 1;" in text
    assert ptxas.without_negations(ptx.replace("neg.s32", "abs.s32")) is None
    assert ptxas.without_negations(ptx.replace("max.s32 \t%r5", "add.s32 \t%r5")) is None


def test_a_version_that_is_wrong_is_not_given_the_negation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any version declared wrong: assembled from other PTX, or refused, never left as is."""
    monkeypatch.setattr(ptxas, "RIGHT_SINCE", (99, 0))
    nvrtc = compiler._nvrtc()
    given = []

    def without(ptx: str, original=ptxas.without_negations) -> str | None:
        given.append(original(ptx))
        return given[-1]

    monkeypatch.setattr(ptxas, "without_negations", without)
    try:
        image, log = nvrtc.compile(KERNEL, "sm_90", None)
    except td.CompilationError as error:
        assert "nvidia-nvjitlink" in str(error)
    else:
        assert image[:4] == b"\x7fELF" and compiler._resources(log)["registers"] > 0
    assert given and "not.b32" in given[0]


def test_negations_of_nvvms_own_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamps become maxima of negations in the kernel of a sum, which opaque minima prevent: it is
    compiled again, and not assembled from other PTX."""
    monkeypatch.setattr(ptxas, "RIGHT_SINCE", (99, 0))
    nvrtc = compiler._nvrtc()
    summed = td.jit(lambda a: td.sum(a), backend="native").lower(np.ones((64, 64)))
    text = str(summed.source("cuda", "sm_90"))
    *_, ptx = nvrtc._translated(text, "sm_90", None)
    if ptxas.without_negations(ptx) is None:
        pytest.skip("this version of NVVM makes no negations of clamps")
    *_, ptx = nvrtc._translated(ptxas.OPAQUE + text, "sm_90", None)
    assert ptxas.without_negations(ptx) is None
    image, log = nvrtc.compile(text, "sm_90", None)
    assert image[:4] == b"\x7fELF" and compiler._resources(log)["registers"] > 0


def test_the_cache_tells_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc = compiler._nvrtc()
    monkeypatch.setattr(ptxas, "RIGHT_SINCE", (0, 0))
    right = nvrtc.translator("sm_90")
    monkeypatch.setattr(ptxas, "RIGHT_SINCE", (99, 0))
    assert nvrtc.translator("sm_90") != right == nvrtc.translator("sm_80")


def test_several_threads_that_need_the_linker_first() -> None:
    """A kernel that would be wrong is often not alone, and kernels are compiled in parallel."""
    program = """
import threading, time
from treadle.backend.cuda.compile.nvrtc import linking
found = []
threads = [threading.Thread(target=lambda: found.append(hasattr(linking(), "LinkerOptions")))
           for _ in range(60)]
for thread in threads:
    thread.start()
    time.sleep(0.005)  # the first is still importing
for thread in threads:
    thread.join()
print(found.count(True))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, "60"), ended.stderr
