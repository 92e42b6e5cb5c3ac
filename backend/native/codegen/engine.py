"""LLVM: text to an object file, object file to addresses."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.dsl.errors import CompilationError
from treadle.dsl.process import locks
from treadle.dsl.process.limits import LLVM_AT_LEAST, LLVM_PER_BYTE, require_memory, require_stack

from .libraries import address_of
from .target import Target, llvm
from .target import lock as _lock

_names = itertools.count()


@functools.lru_cache(maxsize=1)
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _machine(target: Target) -> Any:
    _initialise()
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small", jit=True
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


def _optimised(text: str, target: Target, thorough: bool) -> tuple[Any, Any]:
    machine = _machine(target)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompilationError(
            f"LLVM refused the code made for a kernel: {str(error).strip()}", source=text
        ) from error
    _run_passes(module, target, thorough)
    return module, machine


#: Pass pipeline runs per builder.  llvmlite never frees 1.5 kB of a builder (its
#: PassInstrumentationCallbacks).  Each run adds a callback whose object is freed after the run; the
#: callback accesses the object only for `optnone` functions.  Pass timers would add callbacks that
#: always access it, so they are off during our runs.  So would LLVM's options that print or verify
#: between passes (`llvm.set_option("", "-print-after-all")`): to use one, set this constant to 1.
RUNS = 64
_runs = itertools.count()


@functools.lru_cache(maxsize=2)
def _builder(target: Target, number: int) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    return llvm.create_pass_builder(_machine(target), options)


def _run_passes(module: Any, target: Target, thorough: bool) -> None:
    builder = _builder(target, next(_runs) // RUNS)
    if thorough:
        passes = builder.getModulePassManager()
    else:
        # The emitter has already numbered values and vectorized loops.  Code generation needs only
        # variables in registers and simplified control flow, which takes a fifth of the time.
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_loop_simplify_pass()
        passes.add_lcssa_pass()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
    llvm.set_time_passes(False)
    passes.run(module, builder)
    # llvmlite would not free them: the `_dispose` that does is hidden by another base's.
    llvm.newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()


def header(target: Target) -> str:
    """The lines of LLVM IR that specify the target."""
    with _lock:
        machine = _machine(target)
        return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


def _require_whole() -> None:
    if locks.lost(_lock):
        raise CompilationError(
            "this process was forked while another thread was compiling, for longer than a fork "
            "waits: LLVM cannot be used here.",
            hint="Fork before other threads compile, or use multiprocessing's spawn.",
        )


def to_object(text: str, target: Target, thorough: bool = False) -> bytes:
    """Machine code for LLVM IR, as an object file; `thorough` runs all of -O2."""
    with _lock:
        _require_whole()
        require_memory(LLVM_AT_LEAST + LLVM_PER_BYTE * len(text), "for LLVM to compile a kernel")
        module, machine = _optimised(text, target, thorough)
        return bytes(machine.emit_object(module))


@dataclass(frozen=True)
class Linked:
    """Code in memory, for the lifetime of this object."""

    addresses: Mapping[str, int]
    tracker: Any
    functions: Sequence[Any] = ()  # that it calls


def link(image: bytes, exports: Iterable[str], symbols: Iterable[str],
         foreign: Mapping[str, int], functions: Sequence[Any] = ()) -> Linked:  # fmt: skip
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
        return Linked({name: tracker[name] for name in wanted}, tracker, functions)
