"""A linker in memory for the ELF object files that LLVM makes of our modules.

A file becomes one block of memory: executable sections and stubs of jumps to external functions,
read-only sections and a table of addresses, writable sections.  Objects of other formats and
processors are left to LLVM's linker.  That needs LLVM's library, which takes as long to load as a
cached program takes to run.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence

from treadle.dsl.errors import CompilationError, DeviceOutOfMemory
from treadle.dsl.process.limits import require_memory, require_stack
from treadle.dsl.records import dataclass

from ..codegen.libraries import address_of

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _EMPTY = 2, 4, 8
_CONSTRUCTORS = (b".init_array", b".ctors")
_WRITABLE, _ALLOCATED, _EXECUTABLE, _PER_THREAD = 1, 2, 4, 0x400
_UNDEFINED, _RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
#: The relocations of position-independent code: R_X86_64_64, …_PC32, …_PLT32, …_GOTPCREL(X).
_ADDRESS, _RELATIVE, _CALL, _IN_TABLE = 1, 2, 4, (9, 41, 42)
#: `jmp *…(%rip)`, padded.
_JUMP = struct.Struct("<HiH")
_JUMP_CODE, _JUMP_END = 0x25FF, 6
#: The maximum size of a section in bytes.
_LARGEST = 1 << 26


@dataclass(frozen=True, eq=False)
class Linked:
    """Code in memory, for the lifetime of this object; `functions` are what it calls."""

    addresses: Mapping[str, int]
    memory: object
    functions: Sequence[object] = ()


def load(image: bytes, exports: Iterable[str], symbols: Iterable[str],
         foreign: Mapping[str, int], functions: Sequence[object] = ()) -> Linked:  # fmt: skip
    """Load an object file.  Its undefined symbols are `foreign`, `symbols` of libm, or the
    process's.  `CompilationError` if it cannot be loaded."""
    require_stack()
    if not _is_ours():
        from ..codegen import engine

        held = engine.link(image, exports, symbols, foreign)
        return Linked(held.addresses, held, functions)
    own = frozenset(symbols)

    def outside(name: str) -> int:
        found = foreign.get(name) or (address_of(name) if name in own else 0) or _in_process(name)
        if not found:
            raise CompilationError(f"compiled code cannot be loaded: nothing defines {name}.")
        return found

    try:
        placed = _Placed(image)
        block = _Block(placed.size)
        addresses = placed.write(block, {name: outside(name) for name in placed.undefined})
        return Linked({name: addresses[name] for name in exports}, block, functions)
    except (struct.error, LookupError, ValueError) as error:
        raise CompilationError(f"compiled code cannot be loaded: {error}.") from error


def _is_ours() -> bool:
    """Whether the objects of this machine are those that this module loads."""
    processor = platform.machine().lower()
    return sys.platform == "linux" and processor == "x86_64" and sys.maxsize > 1 << 32


# --- memory --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _process() -> ctypes.CDLL:
    """The libraries loaded into the process, including the C library."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = pointer, size, number, number, number, ctypes.c_long
    library.mmap.restype = pointer
    library.mprotect.argtypes = pointer, size, number
    library.munmap.argtypes = pointer, size
    return library


def _in_process(name: str) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(_process(), name))
    except ValueError:
        return 0


class _Block:
    """A block of memory of this size, which is written once."""

    def __init__(self, size: int) -> None:
        require_memory(size, "to load a kernel")
        library = _process()
        protection, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = library.mmap(None, size, protection, kind, -1, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            self.size = 0
            raise DeviceOutOfMemory("the system has no memory to load a kernel.")
        self.address: int = address
        self.size = size
        self._unmap = library.munmap

    def protect(self, start: int, end: int, protection: int) -> None:
        if end > start and _process().mprotect(self.address + start, end - start, protection):
            raise CompilationError(
                f"the system refuses memory for compiled code (error {ctypes.get_errno()})."
            )

    def __del__(self, finalizing: object = sys.is_finalizing) -> None:
        # At the end of the process another thread may be running the code.
        if self.size and callable(finalizing) and not finalizing():
            self._unmap(self.address, self.size)


# --- ELF -----------------------------------------------------------------------------------------


class _Placed:
    """An object file, with a place in a block for each of its sections that programs use."""

    def __init__(self, image: bytes) -> None:
        self.image = image
        ident, kind, processor, _, _, _, start, *_, count, named = _HEADER.unpack_from(image)
        if ident[:6] != b"\x7fELF\x02\x01" or (kind, processor) != (_RELOCATABLE, _X86_64):
            raise ValueError("it is no object file for this processor")
        end = start + count * _SECTION.size
        self.sections = list(_SECTION.iter_unpack(self._bytes(start, end - start)))
        self._names = self._content(self.sections[named])
        tables = [s for s in self.sections if s[1] == _SYMBOLS]
        names = self._content(self.sections[tables[0][6]]) if tables else b""
        self.symbols = [
            (names[name : names.index(0, name)].decode(), bind >> 4, section, value)
            for table in tables[:1]
            for name, bind, _, section, value, _ in _SYMBOL.iter_unpack(self._content(table))
        ]
        self.undefined = [name for name, _, at, _ in self.symbols if at == _UNDEFINED and name]
        self._place()

    def _bytes(self, start: int, size: int) -> bytes:
        if start + size > len(self.image):
            raise ValueError("it is truncated")
        return self.image[start : start + size]

    def _content(self, section: tuple[int, ...]) -> bytes:
        return self._bytes(section[4], section[5])

    def _place(self) -> None:
        """Executable sections first, then constants, then variables, each from a new page on."""
        self.places: dict[int, int] = {}
        at = 0
        ends: list[int] = []
        for wanted in (_EXECUTABLE, 0, _WRITABLE):
            for k, (name, _, flags, _, _, size, _, _, alignment, _) in enumerate(self.sections):
                if not flags & _ALLOCATED or flags & (_EXECUTABLE | _WRITABLE) != wanted:
                    continue
                if self._names.startswith(_CONSTRUCTORS, name) or flags & _PER_THREAD:
                    raise ValueError("it has constructors or variables of threads")
                if alignment > mmap.PAGESIZE or size > _LARGEST:
                    raise ValueError("it has a section that is too large")
                at = _rounded(at, alignment)
                self.places[k] = at
                at += size
            if wanted == _EXECUTABLE:
                self.jumps = at = _rounded(at, _JUMP.size)
                at += _JUMP.size * len(self.symbols)
            elif not wanted:
                self.table = at = _rounded(at, 8)
                at += 8 * len(self.symbols)
            at = _rounded(at, mmap.PAGESIZE)
            ends.append(at)
        self.code_end, self.constants_end, self.size = ends

    def write(self, block: _Block, outside: Mapping[str, int]) -> Mapping[str, int]:
        """Write the block, and return the addresses of the symbols by name."""
        base, places = block.address, self.places
        data = bytearray(self.size)
        for k, place in places.items():
            if self.sections[k][1] != _EMPTY:
                data[place : place + self.sections[k][5]] = self._content(self.sections[k])
        found: list[int] = []
        for k, (name, _, section, value) in enumerate(self.symbols):
            if section == _UNDEFINED:
                address = outside.get(name, 0)
            elif section == _ABSOLUTE:
                address = value
            elif section in places and value <= self.sections[section][5]:
                address = base + places[section] + value
            elif section >= _RESERVED or section in places:
                raise ValueError(f"nothing defines {name}")
            else:
                address = 0  # of a section that is not loaded
            found.append(address)
            slot, jump = self.table + 8 * k, self.jumps + _JUMP.size * k
            struct.pack_into("<Q", data, slot, address)
            _JUMP.pack_into(data, jump, _JUMP_CODE, slot - jump - _JUMP_END, 0)
        for table in self.sections:
            if table[1] == _RELOCATIONS and table[7] in places:
                self._relocate(data, base, found, table)
        ctypes.memmove(base, bytes(data), len(data))
        block.protect(0, self.code_end, mmap.PROT_READ | mmap.PROT_EXEC)
        block.protect(self.code_end, self.constants_end, mmap.PROT_READ)
        return {s[0]: address for s, address in zip(self.symbols, found, strict=True) if s[0]}

    def _relocate(
        self, data: bytearray, base: int, found: Sequence[int], table: tuple[int, ...]
    ) -> None:
        """Write the addresses that the code or the data of a section refers to."""
        place, size = self.places[table[7]], self.sections[table[7]][5]
        for offset, info, addend in _RELOCATION.iter_unpack(self._content(table)):
            at, which, kind = place + offset, info >> 32, info & 0xFFFFFFFF
            if offset + (8 if kind == _ADDRESS else 4) > size:
                raise ValueError("it refers to what is outside of it")
            if kind == _ADDRESS:
                struct.pack_into("<Q", data, at, found[which] + addend)
                continue
            if kind in (_RELATIVE, _CALL):
                value = found[which] + addend - (base + at)
                if kind == _CALL and not -(1 << 31) <= value < 1 << 31:
                    value = self.jumps + _JUMP.size * which + addend - at
            elif kind in _IN_TABLE:
                value = self.table + 8 * which + addend - at
            else:
                raise ValueError(f"it has relocations of kind {kind}")
            struct.pack_into("<i", data, at, value)


def _rounded(at: int, alignment: int) -> int:
    return -(-at // max(alignment, 1)) * max(alignment, 1)
