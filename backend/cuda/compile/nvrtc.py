"""CUDA C++ to machine code: NVRTC, with an in-memory and an on-disk cache.

Neither a GPU nor a driver is needed: NVRTC compiles for any architecture that it supports.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from treadle.dsl.errors import BackendUnavailable, CompilationError
from treadle.dsl.process import locks
from treadle.dsl.process.recent import Recent
from treadle.dsl.process.workers import concurrently
from treadle.skeletons.ir.kernel import Kernel, statements

from ...runtime.disk_cache import DiskCache
from ..codegen.text import dynamic_shared_bytes, entry_name, print_kernel
from . import ptxas


@dataclass(frozen=True)
class Cubin:
    """Machine code of one kernel for one architecture.

    `name` is the kernel in `image`.  `registers` are per thread; `spills`: bytes of register spills
    that a thread stores; `stack`: bytes of its stack frame (arrays that are not in registers);
    `shared_bytes`: static shared memory; `dynamic_shared_bytes`: shared memory that a launch must
    request.
    """

    name: str
    arch: str
    image: bytes
    source: str
    registers: int
    spills: int
    stack: int
    shared_bytes: int
    dynamic_shared_bytes: int
    from_disk: bool = False


#: No contraction: a product and a sum are fused only where the IR says so.
_OPTIONS = ("--ptxas-options=-v", "--fmad=false", "--std=c++17", "--no-display-error-number")
_memory = Recent[tuple[str, DiskCache | None], Cubin](1024)
_memory_lock = locks.lock()
#: Kernels are printed one after the other: Python would not print two in less time, and so the
#: compiler, which needs no Python, begins with the first while the second is printed.
_printing = locks.lock()
_linking = locks.lock()
_disk = DiskCache(folder="cuda")


def compile_kernel(kernel: Kernel, arch: str, fast_math: bool = False, *,
                   cache: DiskCache | None = None) -> Cubin:  # fmt: skip
    """Machine code for a GPU kernel (not for its fallback), from the caches or newly compiled.

    `arch` is a real architecture, such as "sm_90a".  `CompilationError` carries the CUDA C++ and
    NVRTC's log.
    """
    with _printing:
        source = print_kernel(kernel, fast_math=fast_math)
    return compile_text(source, entry_name(kernel), arch, kernel=kernel,
                        dynamic_shared_bytes=dynamic_shared_bytes(kernel), cache=cache)  # fmt: skip


def compile_kernels(kernels: Sequence[Kernel], arch: str, fast_math: bool = False) -> list[Cubin]:
    """Like `compile_kernel` for several kernels, compiled in parallel, the largest first."""
    order = sorted(range(len(kernels)), key=lambda k: -len(statements(kernels[k].body)))
    jobs = [partial(compile_kernel, kernels[k], arch, fast_math) for k in order]
    made = dict(zip(order, concurrently(jobs, os.cpu_count() or 1), strict=True))
    return [made[k] for k in range(len(kernels))]


def compile_text(source: str, name: str, arch: str, *, kernel: Kernel | None = None,
                 dynamic_shared_bytes: int = 0,
                 cache: DiskCache | None = None) -> Cubin:  # fmt: skip
    """Machine code for CUDA C++ with the `extern "C"` kernel `name`."""
    nvrtc = _nvrtc()
    disk = _disk if cache is None else cache
    key = hashlib.sha256(
        "\0".join((source, name, arch, nvrtc.translator(arch), repr(_OPTIONS))).encode()
    ).hexdigest()
    memory_key = key, cache
    with _memory_lock:
        cached = _memory.get(memory_key)
        if cached is not None:
            _memory.move_to_end(memory_key)
            return cached
    made = _from_disk(key, source, name, arch, disk, dynamic_shared_bytes)
    if made is None:
        image, log = nvrtc.compile(source, arch, kernel)
        used = _resources(log)
        disk.put(key, image, {"arch": arch, "kernel": name, **used})
        made = _cubin(name, arch, image, source, used, dynamic_shared_bytes, False)
    with _memory_lock:
        _memory[memory_key] = made
    return made


def _from_disk(key: str, source: str, name: str, arch: str, disk: DiskCache,
               dynamic: int) -> Cubin | None:  # fmt: skip
    found = disk.get(key)
    if found is None:
        return None
    image, about = found
    try:
        used = {word: int(about[word]) for word in _RESOURCES}
    except (KeyError, TypeError, ValueError):
        disk.drop(key)
        return None
    return _cubin(name, arch, image, source, used, dynamic, True)


def _cubin(name: str, arch: str, image: bytes, source: str, used: dict[str, int], dynamic: int,
           from_disk: bool) -> Cubin:  # fmt: skip
    return Cubin(name, arch, image, source, used["registers"], used["spills"], used["stack"],
                 used["shared_bytes"], dynamic, from_disk)  # fmt: skip


def linking() -> ModuleType:
    """`cuda.core`, one thread at a time.

    It replaces its own `__spec__` early, by which Python would know that it is being imported, and
    so another thread's `import` gives a module that is half made (seen in 1.2).
    """
    with _linking:
        import cuda.core

        core: ModuleType = cuda.core
        return core


class _Nvrtc:
    """NVRTC through cuda-bindings (cuda-core takes 0.2 s of processor time to import)."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import nvrtc
        except ImportError as error:
            raise BackendUnavailable(
                f"compiling for a GPU needs cuda-bindings: {error}.",
                hint="pip install 'treadle[cuda13]'",
            ) from None
        self.nvrtc: Any = nvrtc
        try:
            _, major, minor = nvrtc.nvrtcVersion()
        except Exception as error:
            raise BackendUnavailable(
                f"compiling for a GPU needs NVRTC: {error}.", hint="pip install nvidia-cuda-nvrtc"
            ) from None
        self.number = major, minor
        self.version = f"{major}.{minor}"

    def translator(self, arch: str) -> str:
        """The identity of the compiler, which is part of the cache key."""
        return self.version + " without negations" * ptxas.concerned(self.number, arch)

    def compile(self, source: str, arch: str, kernel: Kernel | None) -> tuple[bytes, str]:
        """The cubin and the log."""
        image, log, ptx = self._translated(source, arch, kernel)
        if not ptxas.concerned(self.number, arch) or ptxas.without_negations(ptx) is None:
            return image, log
        image, log, ptx = self._translated(ptxas.OPAQUE + source, arch, kernel)
        text = ptxas.without_negations(ptx)
        return (image, log) if text is None else self._assemble(text, arch, source)

    def _options(self, source: str, arch: str) -> list[bytes]:
        options = [f"-arch={arch}", *_OPTIONS]
        if "__int128" in source:
            options.append("--device-int128")
        if self.number >= (12, 4) and "cuda" not in source:
            options.append("--minimal")  # no declarations of textures and of the runtime
        if self.number >= (12, 9):
            options.append("--no-cache")  # treadle has its own
        return [o.encode() for o in options]

    def _translated(self, source: str, arch: str, kernel: Kernel | None) -> tuple[bytes, str, str]:
        """The machine code, the log and the PTX."""
        nvrtc = self.nvrtc
        options = self._options(source, arch)
        failed, program = nvrtc.nvrtcCreateProgram(source.encode(), b"treadle", 0, [], [])
        if failed:
            raise _refused(failed.name, source, arch, kernel, self.version)
        try:
            (failed,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            log = self._read("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if failed:
                raise _refused(log or failed.name, source, arch, kernel, self.version)
            concerned = ptxas.concerned(self.number, arch)
            ptx = self._read("PTX", program).rstrip(b"\0").decode() if concerned else ""
            return self._read("CUBIN", program), log, ptx
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def _read(self, what: str, program: Any) -> bytes:
        """What NVRTC holds of a program."""
        _, size = getattr(self.nvrtc, f"nvrtcGet{what}Size")(program)
        data = bytes(size)
        getattr(self.nvrtc, f"nvrtcGet{what}")(program, data)  # into these bytes
        return data

    def _assemble(self, ptx: str, arch: str, source: str) -> tuple[bytes, str]:
        """The cubin and the log, by nvJitLink or the driver."""
        try:
            core = linking()
            options = core.LinkerOptions(arch=arch, ptxas_options=["-v"], verbose=True)
            linker = core.Linker(core.ObjectCode.from_ptx(ptx.encode()), options=options)
            made = linker.link("cubin")
            return bytes(made.code), linker.get_info_log()
        except Exception as error:
            raise CompilationError(
                f"NVRTC {self.version} would make wrong machine code of this kernel for {arch} (it "
                "loses the sign of an integer in a minimum of three), and its PTX cannot be "
                f"assembled otherwise: {error}",
                source=source,
                hint="pip install -U nvidia-cuda-nvrtc, 13.4 or newer, or nvidia-nvjitlink.",
            ) from None


def _refused(log: str, source: str, arch: str, kernel: Kernel | None,
             version: str) -> CompilationError:  # fmt: skip
    """NVRTC's errors with the source lines they refer to and the operation these come from."""
    log = log.replace("\0", "").strip()
    what = "a text" if kernel is None else kernel.name
    if kernel is not None and kernel.comments:
        what += f" ({'; '.join(c.strip() for c in kernel.comments)})"
    if "gpu-architecture" in log:
        return CompilationError(f"NVRTC {version} makes no code for {arch!r}.", source=source,
                                hint="Architectures look like sm_90a; a newer NVRTC knows more: "
                                     "pip install -U nvidia-cuda-nvrtc")  # fmt: skip
    lines, parts = source.splitlines(), []
    for found in list(re.finditer(r"\((\d+)\): (?:catastrophic )?error:? ?(.*)", log))[:3]:
        number = int(found.group(1))
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        parts.append(f"  line {number}: {text}\n    {found.group(2).strip()}")
        remark = _remark_above(lines, number)
        if remark:
            parts[-1] += f"\n    (after the comment: {remark})"
    return CompilationError(
        f"NVRTC {version} cannot compile {what} for {arch}:\n" + ("\n".join(parts) or f"  {log}"),
        source=source,
        hint="This is a mistake of treadle's own: please report it with the program.",
        log=log,
    )


def _remark_above(lines: Sequence[str], number: int) -> str:
    """The nearest comment above a line inside the kernel, which names the operation."""
    for text in reversed(lines[: number - 1]):
        if text.startswith(('extern "C"', "}")):
            break
        if text.strip().startswith("//"):
            return text.strip().lstrip("/ ")
    return ""


_loading = locks.lock()
_loaded: list[_Nvrtc] = []


def _nvrtc() -> _Nvrtc:
    """The compiler, loaded once (two threads must not import it at the same time)."""
    with _loading:
        if not _loaded:
            _loaded.append(_Nvrtc())
        return _loaded[0]


_RESOURCES = ("registers", "spills", "stack", "shared_bytes")


def _resources(log: str) -> dict[str, int]:
    """The resources of a kernel as reported by ptxas."""

    def find(pattern: str) -> int:
        found = re.search(pattern, log, re.IGNORECASE)
        return int(found.group(1)) if found else 0

    return {
        "registers": find(r"Used (\d+) registers"),
        "spills": find(r"(\d+) bytes spill stores"),
        "stack": find(r"(\d+) bytes stack frame"),
        "shared_bytes": find(r"(\d+) bytes smem"),
    }


def forget() -> None:
    """Clear the in-memory cache (for tests)."""
    with _memory_lock:
        _memory.clear()
