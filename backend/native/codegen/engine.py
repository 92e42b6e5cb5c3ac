"""LLVM: text to an object file, and its linker, for where `runtime/objects.py` is none.

Objects of llvmlite are created and freed by another thread than the main one: a KeyboardInterrupt
between freeing an object and recording that it is freed would free it twice.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from treadle.dsl.errors import CompilationError
from treadle.dsl.process import locks
from treadle.dsl.process.limits import LLVM_AT_LEAST, LLVM_PER_BYTE, require_memory, require_stack
from treadle.dsl.process.workers import on_other_thread
from treadle.dsl.records import dataclass

from .libraries import address_of
from .llvm import llvm, lock as _lock
from .target import Target

_names = itertools.count()


@functools.lru_cache(maxsize=1)
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _machine(target: Target) -> Any:
    """A machine to ask, and to link for."""
    return _new_machine(target)


def _new_machine(target: Target, opt: int = 3) -> Any:
    _initialise()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.cpu, features=target.features, opt=opt, reloc="pic", codemodel="small", jit=True
    )


class _Linker:
    """The linker of objects, replaced after a number of objects.  It keeps 9 KB per linked object
    until it is freed, which is when the last of their code is freed."""

    objects = 64

    def __init__(self) -> None:
        self.jit: Any = None
        self.linked = 0

    def next(self) -> Any:
        if self.linked % self.objects == 0:
            # JITLink allocates each object as one block.  The older linker maps code and constants
            # separately, and aborts the process if they are over 2 GB apart.  This happens if
            # another library (CUDA) has reserved most of the address space nearby.
            machine = _machine(Target.host())
            self.jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
        self.linked += 1
        return self.jit


_linker = _Linker()


#: Pass pipeline runs per builder.  llvmlite never frees 1.5 kB of a builder (its
#: PassInstrumentationCallbacks).  Each run adds a callback whose object is freed after the run; the
#: callback accesses the object only for `optnone` functions.  Pass timers would add callbacks that
#: always access it, so they are off during our runs.  So would LLVM's options that print or verify
#: between passes (`llvm.set_option("", "-print-after-all")`): to use one, set this constant to 1.
RUNS = 64


#: What LLVM does: make code soon, which runs longer; make good code; or run all of -O2 before.
Effort = Literal["quick", "usual", "thorough"]


class _Compiler:
    """What one thread compiles with; `quick` code is made by another instruction selector.

    LLVM lets threads compile at the same time, if no object is shared between them.  llvmlite's
    lock, which it takes for each call, is taken here for the short calls only; a fork waits for the
    long ones by the `lock` of each compiler.
    """

    def __init__(self, target: Target, quick: bool) -> None:
        self.lock = locks.held_across_fork(threading.RLock())
        self.machine = _new_machine(target, opt=0 if quick else 3)
        self.runs = 0

    def object_of(self, text: str, effort: Effort) -> bytes:
        with self.lock, self.parsed(text) as module:
            self.optimise(module, effort)
            return self._emitted(module)

    @contextmanager
    def parsed(self, text: str) -> Iterator[Any]:
        """A module, freed at the end: Python's cycle collector might free its context first."""
        with _lock:
            context = llvm.create_context()
            try:
                module = llvm.parse_assembly(text, context)
            except RuntimeError as error:
                raise _refused(text, error) from error
        try:
            try:
                module.verify()
            except RuntimeError as error:
                raise _refused(text, error) from error
            yield module
        finally:
            module.close()

    def optimise(self, module: Any, effort: Effort) -> None:
        with _lock:
            passes = self._passes(effort)
            llvm.set_time_passes(False)
        _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, self.builder)
        # llvmlite would not free them: the `_dispose` that does is hidden by another base's.
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()

    def _passes(self, effort: Effort) -> Any:
        if self.runs % RUNS == 0:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            options.loop_vectorization = False
            options.slp_vectorization = False
            options.loop_unrolling = False
            options.loop_interleaving = False
            self.builder = llvm.create_pass_builder(self.machine, options)
        self.runs += 1
        if effort == "thorough":
            return self.builder.getModulePassManager()
        # The emitter has numbered values, moved them out of loops and vectorized.
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        if effort == "usual":
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
        return passes

    def _emitted(self, module: Any) -> bytes:
        library = llvm.ffi.lib
        with llvm.ffi.OutputString() as error:
            made = _unlocked("LLVMPY_TargetMachineEmitToMemory")(self.machine, module, 1, error)
            if not made:
                raise CompilationError(f"LLVM made no code for a kernel: {error}")
        try:
            size = library.LLVMPY_GetBufferSize(made)
            return ctypes.string_at(library.LLVMPY_GetBufferStart(made), size)
        finally:
            library.LLVMPY_DisposeMemoryBuffer(made)


def _refused(text: str, error: RuntimeError) -> CompilationError:
    return CompilationError(
        f"LLVM refused the code made for a kernel: {str(error).strip()}", source=text
    )


def _unlocked(name: str) -> Any:
    """A function of LLVM without llvmlite's lock."""
    return getattr(llvm.ffi.lib, name)._cfn


_compilers: list[_Compiler] = []
_idle: dict[tuple[Target, bool], list[_Compiler]] = {}
_idle_lock = locks.lock()


@contextmanager
def compiler(target: Target, quick: bool = False) -> Iterator[_Compiler]:
    """A compiler that no other thread uses meanwhile."""
    target = target.regular
    with _idle_lock:
        waiting = _idle.setdefault((target, quick), [])
        found = waiting.pop() if waiting else None
    if found is None:
        with _lock:
            found = _Compiler(target, quick)
            _compilers.append(found)
    try:
        yield found
    finally:
        waiting.append(found)


@functools.cache
@on_other_thread
def header(target: Target) -> str:
    """The lines of LLVM IR that specify the target."""
    with _lock:
        machine = _machine(target)
        return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


def _require_whole() -> None:
    if locks.lost(_lock) or any(locks.lost(c.lock) for c in _compilers):
        raise CompilationError(
            "this process was forked while another thread was compiling, for longer than a fork "
            "waits: LLVM cannot be used here.",
            hint="Fork before other threads compile, or use multiprocessing's spawn.",
        )


@on_other_thread
def to_object(text: str, target: Target, effort: Effort = "usual") -> bytes:
    """Machine code for LLVM IR, as an object file."""
    with _lock:
        _require_whole()
        require_memory(LLVM_AT_LEAST + LLVM_PER_BYTE * len(text), "for LLVM to compile a kernel")
    with compiler(target, effort == "quick") as one:
        return one.object_of(text, effort)


_dispose = _unlocked("LLVMPY_LLJIT_Dylib_Tracker_Dispose")
_message = ctypes.byref(ctypes.c_char_p())


@dataclass(frozen=True)
class Linked:
    """Code in memory, for the lifetime of this object."""

    addresses: Mapping[str, int]
    tracker: Any

    def __del__(
        self,
        lock: Any = _lock,
        shutting_down: Any = llvm.common._is_shutting_down,
        dispose: Any = _dispose,
        message: Any = _message,
    ) -> None:
        # An interruption in llvmlite's destructor, which is Python code, would leave its lock
        # taken.  It does nothing for an owned object; `lock` and `dispose` are C.  The collector
        # of cycles may have called the tracker's destructor first.
        if not shutting_down():
            with lock:
                if not (self.tracker._owned or self.tracker._closed):
                    self.tracker._owned = True
                    dispose(self.tracker._ptr, message)


@on_other_thread
def link(image: bytes, exports: Iterable[str], symbols: Iterable[str],
         foreign: Mapping[str, int]) -> Linked:  # fmt: skip
    """Load an object file whose undefined symbols are `symbols` (of libm) and `foreign`."""
    require_stack()
    with _lock:
        _require_whole()
        require_memory(LLVM_AT_LEAST + LLVM_PER_BYTE * len(image), "for LLVM to load a kernel")
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            address = address_of(symbol)
            if address:
                library.import_symbol(symbol, address)
        for symbol, address in foreign.items():
            library.import_symbol(symbol, address)
        wanted = list(exports)
        for name in wanted:
            library.export_symbol(name)
        try:
            tracker = library.link(_linker.next(), f"treadle.{next(_names)}")
        except RuntimeError as error:
            raise CompilationError(f"LLVM could not load compiled code: {error}") from error
        return Linked({name: tracker[name] for name in wanted}, tracker)
