"""Kernels to callable machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.skeletons.ir.kernel import Kernel

from ...runtime.disk_cache import DiskCache
from ..runtime import code
from ..runtime.code import CompiledKernel, forget
from . import engine
from .emitter import Emitter
from .fingerprint import fingerprint
from .statements import emit
from .target import Target

__all__ = ["CompiledKernel", "compile_kernel", "emit", "emitted", "forget", "llvm_ir"]


def compile_kernel(kernel: Kernel, *, fast_math: bool = False, target: Target | None = None,
                   cache: DiskCache | None = None, digest: str = "") -> CompiledKernel:  # fmt: skip
    """Machine code for a kernel: from memory, from disk, or made now.

    `digest` is its fingerprint for this machine, if already computed and no foreign function is
    called.  `CompilationError` has the LLVM IR if LLVM rejects it.
    """
    return emitted(kernel, fast_math=fast_math, target=target, cache=cache, digest=digest)()


def emitted(kernel: Kernel, *, fast_math: bool = False, target: Target | None = None,
            cache: DiskCache | None = None, digest: str = ""
            ) -> Callable[[], CompiledKernel]:  # fmt: skip
    """The second part of `compile_kernel`: what LLVM does, without Python's lock."""
    target = target or Target.host()
    functions: list[Any] = []
    if not digest:
        digest, functions = fingerprint(kernel, target, fast_math)
    found = code.find(digest, functions, cache)
    text, emitter = ("", None) if found else emit(kernel, target, fast_math, functions)

    def finish() -> CompiledKernel:
        linked = found
        if emitter is not None:
            image = engine.to_object(text, target, _effort(emitter))
            symbols = sorted(emitter.module.symbols)
            linked = code.keep(digest, image, symbols, functions, cache), False
            code.store(digest, image, symbols, cache)
        assert linked is not None
        pointers = sum(b.role != "local" for b in kernel.buffers)
        types = tuple(v.type for v in kernel.scalars)
        return CompiledKernel(lambda: kernel, pointers, types, fast_math, *linked, target,
                              "" if functions else digest)  # fmt: skip

    return finish


def llvm_ir(compiled: CompiledKernel) -> str:
    """The LLVM IR of a kernel before optimisation."""
    return _emitted(compiled)[0]


def _effort(emitter: Emitter) -> engine.Effort:
    return "thorough" if emitter.thorough else "usual"


def _emitted(compiled: CompiledKernel) -> tuple[str, engine.Effort]:
    """The LLVM IR of a kernel, and what LLVM should do with it."""
    kernel, target, fast_math = compiled.kernel, compiled.target, compiled.fast_math
    _, functions = fingerprint(kernel, target, fast_math)
    text, emitter = emit(kernel, target, fast_math, functions)
    return text, _effort(emitter)
