"""That the host lays out the arguments of an engine as the kernel does, as claims of CUDA C++."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable


def laid_out(
    name: str, structure: type[ctypes.Structure], fields: Iterable[str] | None = None
) -> list[str]:
    """The size of a structure, and where its fields are, all by default.

    NVRTC defines no `offsetof`, and NVRTC 13.0 knows no `__builtin_offsetof`.
    """
    members = [field[0] for field in structure._fields_] if fields is None else fields
    return [f"sizeof({name}) == {ctypes.sizeof(structure)}",
            *(f"__INTADDR__(&(({name} *)0)->{f}) == {getattr(structure, f).offset}"
              for f in members)]  # fmt: skip


def asserted(claims: Iterable[str]) -> str:
    """The claims as assertions of the compiler's."""
    return "".join(f'static_assert({claim}, "");\n' for claim in claims)
