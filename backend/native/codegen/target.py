"""The machine code is made for: CPU, features, vector width, cache."""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import replace

from treadle.dsl.process import locks
from treadle.dsl.process.environment import variable, warn_of
from treadle.dsl.records import dataclass

from ...runtime.disk_cache import DiskCache
from ..runtime import machine

#: CPUs with AVX2 whose gathers LLVM takes to be slower than loads, and does not use.
SLOW_GATHERS = ("x86-64", "haswell", "broadwell", "bdver", "znver")


@dataclass(frozen=True)
class Target:
    """A CPU by LLVM's name, its features (`+avx2,-sse4a,…`) and the bytes of one vector.

    Results of at least `streaming_bytes` are written by streaming stores where possible; 0: never.
    """

    cpu: str
    features: str
    vector_bytes: int
    streaming_bytes: int = 0

    @property
    def attributes(self) -> str:
        """Function attributes that make LLVM use full vectors."""
        if not self.is_x86:
            return ""
        bits = str(self.vector_bytes * 8)
        return f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    @property
    def is_x86(self) -> bool:
        return platform.machine().lower() in ("x86_64", "amd64")

    def masks(self, what: str, bits: int) -> bool:
        """Whether LLVM has instructions that `load` or `store` consecutive elements of so many
        bits, or `gather` or `scatter` any, under a mask on this CPU.  If not, it expands each
        access into a branch per lane."""
        consecutive = what in ("load", "store")
        if self.vector_bytes == 64:
            return consecutive or bits >= 32
        if not self._has_avx2 or bits < 32:
            return False
        return consecutive or (what == "gather" and not self.cpu.startswith(SLOW_GATHERS))

    @property
    def slow_masks(self) -> bool:
        """Whether comparing into a mask register, as LLVM does with AVX-512, and choosing by it
        takes several times the cycles of the same in vector registers."""
        return self.cpu.startswith("znver")

    @locks.cached
    def _has_avx2(self) -> bool:
        return self.is_x86 and "+avx2" in self.features.split(",")

    @property
    def regular(self) -> Target:
        """The same CPU without streaming stores."""
        return replace(self, streaming_bytes=0)

    def with_vectors_of(self, size: int) -> Target:
        """The same CPU restricted to vectors of 32 or 16 bytes."""
        features = ",".join(
            f"-{f[1:]}" if f[1:].startswith(("avx512", "avx10")) else f
            for f in self.features.split(",")
        )
        return Target(self.cpu, features, size, self.streaming_bytes)

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def host() -> Target:
        """This machine; `TREADLE_VECTOR_BYTES` (16, 32) selects shorter vectors."""
        cpu, features = _described()
        names = features.split(",")
        size = 16
        if all(f"+avx512{k}" in names for k in ("f", "vl", "bw", "dq")):
            size = 64
        elif "+avx2" in names and "+fma" in names:
            size = 32
        found = Target(cpu, features, size)
        if found.is_x86:
            found = Target(cpu, features, size, _last_cache() * 3 // 4)
        asked: int | None = variable("TREADLE_VECTOR_BYTES")
        if asked is not None and asked > size:
            longest = f"has no effect: the vectors of this CPU have {size} bytes."
            warn_of("TREADLE_VECTOR_BYTES", str(asked), longest)
        elif asked is not None and asked < size:
            return found.with_vectors_of(asked)
        if size < 64 and "+avx512f" in names:
            return found.with_vectors_of(size)
        return found


#: What LLVM says about this machine, kept on disk: LLVM is loaded to compile only.
_disk = DiskCache(folder="machines")


def _described() -> tuple[str, str]:
    """LLVM's name of this CPU, and its features."""
    key = hashlib.sha256(f"host\n{machine.llvm()}\n{machine.processor()}".encode()).hexdigest()
    stored = _disk.get(key)
    if stored is not None:
        cpu, features = stored[1].get("cpu"), stored[1].get("features")
        if isinstance(cpu, str) and isinstance(features, str):
            return cpu, features
    from .llvm import host

    cpu, features = host()
    _disk.put(key, b"", {"cpu": cpu, "features": features})
    return cpu, features


def _last_cache() -> int:
    """The bytes of the largest cache; 32 MB if the system does not report it."""
    largest = 0
    for text in map(str.strip, machine.caches()):
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        digits = text.rstrip("KM")
        largest = max(largest, int(digits) * unit if digits.isdigit() else 0)
    return largest or 32 << 20
