"""The machine code is made for: CPU, features, vector width."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Target:
    """A CPU by LLVM's name, its features (`+avx2,-sse4a,…`) and the bytes of one vector."""

    cpu: str
    features: str
    vector_bytes: int

    @property
    def attributes(self) -> str:
        """Function attributes that make LLVM use whole vectors."""
        if not self.is_x86:
            return ""
        bits = str(self.vector_bytes * 8)
        return f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    @property
    def is_x86(self) -> bool:
        return platform.machine().lower() in ("x86_64", "amd64")

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def host() -> Target:
        """This machine; `TREADLE_VECTOR_BYTES` (16, 32) asks for shorter vectors."""
        features = llvm.get_host_cpu_features()
        size = 16
        if all(features.get(f"avx512{k}") for k in ("f", "vl", "bw", "dq")):
            size = 64
        elif features.get("avx2") and features.get("fma"):
            size = 32
        asked = os.environ.get("TREADLE_VECTOR_BYTES", "")
        if asked.isdigit():
            size = min(size, max(16, int(asked)))
        flat = features.flatten()
        if size < 64 and features.get("avx512f"):
            flat = ",".join(
                f"-{f[1:]}" if f[1:].startswith(("avx512", "avx10")) else f for f in flat.split(",")
            )
        return Target(llvm.get_host_cpu_name(), flat, size)
