"""A recorded loop as one function: its launches are calls of their kernels, which LLVM inlines.

    entry(…):  run up to `CHUNK` iterations, from number `chunk · CHUNK` on, or fewer if the loop
               ends; then `running` becomes false

Extents, tasks and scalars that are known in the recording are constants.  Small arrays that nothing
outside of the loop refers to are on the stack, where LLVM makes registers of single numbers.  What
iterations make for the next state is copied, or is in one of two places alternately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from treadle.dsl.types import ScalarType, bool_, int64

from ..runtime.late import Growing, Instruction, Late
from ..runtime.structures import InstructionKind as Kind
from ..runtime.tape import Branch, Copy, Evaluate, Fill, Launch, Loop, Operation, State, arrays_of
from .known import with_known
from .memory import PADDING
from .statements import KernelEmitter
from .text import Code, Module, Reg, literal
from .values import parts, register_element

if TYPE_CHECKING:
    from ...runtime.types import HostArray
    from ..runtime.code import CompiledKernel
    from .target import Target

_Form = tuple[str, tuple[int | None, ...], int | None]
#: Bytes of arrays on the stack: of one, and of all.
ON_STACK, STACK = 4096, 1 << 16
#: States of at most so many bytes are copied from one iteration to the next.
COPIED = 64
_SIMPLE = {
    Kind.ADD: "add", Kind.SUBTRACT: "sub", Kind.MULTIPLY: "mul", Kind.BITWISE_AND: "and",
    Kind.BITWISE_OR: "or", Kind.BITWISE_XOR: "xor",
}  # fmt: skip
_OVERFLOWING = {Kind.ADD: "sadd", Kind.SUBTRACT: "ssub", Kind.MULTIPLY: "smul"}
_COMPARED = {Kind.LESS: "slt", Kind.LESS_EQUAL: "sle", Kind.EQUAL: "eq", Kind.NOT_EQUAL: "ne"}
_EXTREMES = {Kind.MINIMUM: "llvm.smin.i64", Kind.MAXIMUM: "llvm.smax.i64"}
#: Bytes of an array that grows, at most, and those on the stack that it begins with.
_MOST_BYTES, _FIRST_BYTES = 1 << 46, 2048


class MergedLoop:
    """The text of a loop.

    `arrays` and `scalars` are the arguments of its kernel: scalars are numbers of parameters, with
    their types, and registers of the recording.  `own(array)`: whether only the loop refers to it.
    `known`: the registers that are constant.
    """

    def __init__(
        self,
        loop: Loop,
        target: Target,
        own: Callable[[HostArray], bool],
        known: Mapping[int, int],
        chunk: int,
        around: Sequence[HostArray],
    ) -> None:
        """`around`: the number of the chunk, and whether the loop goes on after it, and whether
        nothing has failed."""
        self.target, self._own, self._known, self.chunk = target, own, known, chunk
        self.module = Module(target.vector_bytes)
        self.code = Code(self.module)
        self.arrays: list[HostArray] = []
        self.scalars: list[tuple[ScalarType, tuple[int] | int]] = []
        self._places: dict[int, Reg] = {}
        self._moved: dict[int, Reg] = {}  # pointers in memory to what is in several places
        #: What iterations make for the next state where that may be the state itself, which then
        #: needs no copy: the identities of both.
        self.chosen: dict[int, int] = {}
        self._growing: dict[int, tuple[Reg, Reg]] = {}  # pointers to a pointer and to a capacity
        self._firsts: dict[Reg, Reg] = {}  # their first memory
        self._registers: dict[int, Reg] = {}
        self._given: dict[tuple[int, str], tuple[Reg, ...]] = {}
        self._stack = 0
        #: By their keys, and what is known of their scalars and tasks: kernels, and their names.
        self.kernels: dict[_Form, tuple[CompiledKernel, str]] = {}
        self._kept = [*around]  # so that no other array has their identity
        #: What must be kept for the next chunk.
        self._lasting = {id(a) for op in loop.once for a in arrays_of(op)}
        self._lasting.update(id(s.result) for s in loop.states)
        chunk_number, self._running, self._okay = around
        self._leave = self.code.label("leave")
        self._outermost(loop, chunk_number)

    # --- the function ---

    def text(self) -> str:
        """The module: kernels, the loop, and its entry."""
        arguments, loads, passed = [], [], []
        words = [("ptr", " noalias")] * (len(self.arrays) + 1)
        for t, _ in self.scalars:
            e = register_element(t)
            words += [("i64" if e == "i1" else e, "")] * parts(t)
        for k, (type_, attributes) in enumerate(words):
            arguments.append(f"{type_}{attributes} %a{k}")
            loads.append(f"  %p{k} = getelementptr i64, ptr %args, i64 {k}")
            loads.append(f"  %v{k} = load {type_}, ptr %p{k}")
            passed.append(f"{type_} %v{k}")
        # Scalars are numbered before all arrays are known.
        first = len(self.arrays) + 1
        body = re.sub(r"%scalar(\d+)\b", lambda m: f"%a{first + int(m[1])}", self._body)
        for (_, known, tasks), (compiled, name) in self.kernels.items():
            kernel = with_known(compiled.kernel, known, tasks)
            emitter = KernelEmitter(kernel, compiled.target.regular, compiled.fast_math,
                                    module=self.module)  # fmt: skip
            # Most loops iterate a few times, as LLVM sees if it sees their counters.
            emitter.code.whole = True
            emitter.emit()
            self.module.functions.pop()
            # What a kernel only reads changes between launches.
            function = self.module.functions.pop().replace(", !invariant.load !0", "")
            # All that is inlined is on the stack together.
            local = sum(emitter.local_size(b) * b.type.bytes for b in kernel.buffers
                        if b.role == "local")  # fmt: skip
            how = 4 if local <= ON_STACK else 2
            head = re.search(r"^define internal void @[^(]*\((.*)\) #2 \{$", function, re.MULTILINE)
            assert head is not None
            self.module.functions.append(
                f"define internal void @{name}({head[1]}) #{how} {{{function[head.end() :]}"
            )
        self.module.functions += [
            f"define internal void @loop({', '.join(arguments)}) #2 {{\n{body}",
            "\n".join(["define void @entry(ptr %args, i64 %begin, i64 %end) #0 {", *loads,
                       f"  call void @loop({', '.join(passed)})", "  ret void", "}", ""]),
        ]  # fmt: skip
        text = self.module.text(self.target.attributes)
        return text + f"attributes #4 = {{ nounwind alwaysinline {self.target.attributes} }}\n"

    @property
    def structure(self) -> str:
        """What the machine code depends on besides its kernels."""
        return self._body

    def _outermost(self, loop: Loop, chunk_number: HostArray) -> None:
        code = self.code
        chunk = code.emit(f"load i64, ptr {self._pointer(chunk_number)}")
        begin = code.emit(f"add i64 {code.emit(f'mul i64 {chunk}, {self.chunk}')}, {loop.first}")
        is_first = code.emit(f"icmp eq i64 {chunk}, 0")
        end = code.emit(f"add i64 {begin}, {self.chunk}")
        states = [_Moving(self, s, loop, is_first) for s in loop.states]
        finished, pause = code.label("finished"), code.label("pause")
        self._iterations(loop, states, begin, end, finished, pause)
        code.start(finished)
        code.do(f"store i8 0, ptr {self._pointer(self._running)}")
        code.jump(pause)
        code.start(pause)
        for state in states:
            state.leave()
        code.jump(self._leave)
        code.start(self._leave)
        for place, _ in self._growing.values():
            self._free(place)
        code.do("ret void")
        self._body = code.finish("").split("\n", 1)[1]

    def _fails_unless(self, holds: Reg) -> None:
        code = self.code
        failed, good = code.label("failed"), code.label("good")
        code.branch(holds, good, failed)
        code.start(failed)
        code.do(f"store i8 0, ptr {self._pointer(self._running)}")
        code.do(f"store i8 0, ptr {self._pointer(self._okay)}")
        code.jump(self._leave)
        code.start(good)

    # --- where arrays are ---

    def _pointer(self, array: HostArray) -> Reg:
        """The address of an array, as it is here."""
        moved = self._moved.get(id(array))
        if moved is not None:
            return self.code.emit(f"load ptr, ptr {moved}")
        if isinstance(array, Growing) and self._own(array):
            return self.code.emit(f"load ptr, ptr {self._memory(array)[0]}")
        found = self._places.get(id(array))
        if found is None:
            kept = id(array) in self._lasting or not self._own(array)
            if not kept and array.nbytes <= min(ON_STACK, STACK - self._stack):
                found = self.allocated(array.nbytes)
            else:
                found = f"%a{len(self.arrays)}"
                self.arrays.append(array)
            self._places[id(array)] = found
            self._kept.append(array)
        return found

    def allocated(self, size: int) -> Reg:
        """Memory on the stack: kernels may read a vector beyond the end of an array."""
        self._stack += size
        whole, made = self.code.allocate("i8", 64, size + 2 * PADDING), self.code.fresh("m")
        self.code.allocations.append(
            f"  {made} = getelementptr inbounds i8, ptr {whole}, i64 {PADDING}"
        )
        return made

    def place(self, array: HostArray, where: Reg) -> None:
        self._places[id(array)] = where
        self._kept.append(array)

    def alternate(self, array: HostArray, where: Reg) -> Reg:
        """Let an array be where a pointer says; returns the address of that."""
        moved = self._moved[id(array)] = self.code.allocate("ptr")
        self._kept.append(array)
        self.code.do(f"store ptr {where}, ptr {moved}")
        return moved

    def copy(self, target: Reg, source: Reg, size: int | Reg) -> None:
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"], False)
        self.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, "
                     "i1 false)")  # fmt: skip

    def _memory(self, array: Growing) -> tuple[Reg, Reg]:
        """Pointers to the address and the capacity of an array that grows, which has memory on the
        stack until it has more than fits there."""
        found = self._growing.get(id(array))
        if found is None:
            first = self.allocated(_FIRST_BYTES)
            found = self._growing[id(array)] = (
                self.code.allocate("ptr"), self.code.allocate("i64"))  # fmt: skip
            self.code.allocations += [f"  store ptr {first}, ptr {found[0]}",
                                      f"  store i64 {_FIRST_BYTES}, ptr {found[1]}"]  # fmt: skip
            self._firsts[found[0]] = first
            self._kept.append(array)
        return found

    def _free(self, place: Reg) -> None:
        """Give memory back that is not on the stack."""
        code = self.code
        free, kept = code.label("free"), code.label("kept")
        now = code.emit(f"load ptr, ptr {place}")
        code.branch(code.emit(f"icmp eq ptr {now}, {self._firsts[place]}"), kept, free)
        code.start(free)
        self.module.declare("free", "void", ["ptr"], pure=False)
        block = code.emit(f"getelementptr i8, ptr {now}, i64 -8")
        code.do(f"call void @free(ptr {code.emit(f'load ptr, ptr {block}')})")
        code.jump(kept)
        code.start(kept)

    def _resize(self, array: Growing, size: Reg) -> None:
        """Make room for so many bytes."""
        code, (place, capacity) = self.code, self._memory(array)
        self._fails_unless(code.emit(f"icmp ule i64 {size}, {_MOST_BYTES}"))
        grow, ready = code.label("grow"), code.label("ready")
        had = code.emit(f"load i64, ptr {capacity}")
        code.branch(code.emit(f"icmp sle i64 {size}, {had}"), ready, grow)
        code.start(grow)
        self._free(place)
        self.module.declare("malloc", "ptr", ["i64"], pure=False)
        more = code.emit(f"shl i64 {size}, 1")
        whole = code.emit(f"call ptr @malloc(i64 {code.emit(f'add i64 {more}, 192')})")
        code.do(f"store ptr {self._firsts[place]}, ptr {place}")
        self._fails_unless(code.emit(f"icmp ne ptr {whole}, null"))
        number = code.emit(f"ptrtoint ptr {whole} to i64")
        beyond = code.emit(f"and i64 {code.emit(f'add i64 {number}, 127')}, -64")
        aligned = code.emit(f"inttoptr i64 {beyond} to ptr")
        block = code.emit(f"getelementptr i8, ptr {aligned}, i64 -8")
        code.do(f"store ptr {whole}, ptr {block}")
        code.do(f"store ptr {aligned}, ptr {place}")
        code.do(f"store i64 {more}, ptr {capacity}")
        code.jump(ready)
        code.start(ready)

    # --- operations ---

    def _operations(self, operations: Sequence[Operation]) -> None:
        for op in operations:
            match op:
                case Launch():
                    self._launch(op)
                case Copy():
                    if self.chosen.get(id(op.target)) == id(op.source):
                        now = self._pointer(op.source)
                        self.code.do(f"store ptr {now}, ptr {self._moved[id(op.target)]}")
                        continue
                    self.copy(self._pointer(op.target), self._pointer(op.source), op.target.nbytes)
                case Fill():
                    self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"],
                                        False)  # fmt: skip
                    self.code.do(f"call void @llvm.memset.p0.i64(ptr {self._pointer(op.target)}, "
                                 f"i8 0, i64 {op.target.nbytes}, i1 false)")  # fmt: skip
                case Loop():
                    self._nested(op)
                case Branch():
                    self._branch(op)
                case Evaluate():
                    for one in op.code:
                        self._instruction(one)

    def _launch(self, op: Launch) -> None:
        given, types = dict(op.given), op.compiled.types
        known = tuple(
            int(value) if t.is_integer and k not in given and not isinstance(value, Late) else None  # type: ignore[arg-type]
            for k, (t, value) in enumerate(zip(types, op.scalars, strict=True))
        )
        form = op.compiled.digest, known, op.tasks if isinstance(op.tasks, int) else None
        name = f"kernel.{len(self.kernels)}"
        _, name = self.kernels.setdefault(form, (op.compiled, name))
        arguments = [f"ptr {self._pointer(a)}" for a in op.arrays] + ["ptr null"]
        for k, (t, value) in enumerate(zip(op.compiled.types, op.scalars, strict=True)):
            e = register_element(t)
            e = "i64" if e == "i1" else e
            if k in given:
                arguments += [f"{e} {r}" for r in self._parameter(t, given[k])]
            elif isinstance(value, Late):
                arguments.append(f"{e} {self._cut(self._number(value.register), e)}")
            elif t.is_complex:
                both = complex(value)
                arguments += [f"{e} {literal(e, x)}" for x in (both.real, both.imag)]
            elif t.is_inexact:
                arguments.append(f"{e} {literal(e, float(value))}")  # type: ignore[arg-type]
            else:
                arguments.append(f"{e} {literal(e, int(value))}")  # type: ignore[arg-type]
        late = isinstance(op.tasks, Late)
        tasks = self._number(op.tasks.register) if isinstance(op.tasks, Late) else str(op.tasks)
        call = f"call void @{name}({', '.join(arguments)}, i64 0, i64 {tasks})"
        if not late:
            self.code.do(call)
            return
        run, skip = self.code.label("run"), self.code.label("skip")
        self.code.branch(self.code.emit(f"icmp sgt i64 {tasks}, 0"), run, skip)
        self.code.start(run)
        self.code.do(call)
        self.code.jump(skip)
        self.code.start(skip)

    def _cut(self, value: Reg, element: str) -> Reg:
        return value if element == "i64" else self.code.emit(f"trunc i64 {value} to {element}")

    def _parameter(self, t: ScalarType, number: int) -> tuple[Reg, ...]:
        """The value of a parameter of the program, as a kernel takes it."""
        key = number, t.name
        if key not in self._given:
            first = sum(parts(known) for known, _ in self.scalars)
            self.scalars.append((t, (number,)))
            self._given[key] = tuple(f"%scalar{first + k}" for k in range(parts(t)))
        return self._given[key]

    def _number(self, register: int) -> Reg:
        """The number in a register."""
        if register in self._known:
            return str(self._known[register])
        if register in self._registers:
            return self.code.emit(f"load i64, ptr {self._registers[register]}")
        key = ~register, "int64"  # what operations before the loop have computed
        if key not in self._given:
            first = sum(parts(known) for known, _ in self.scalars)
            self.scalars.append((int64, register))
            self._given[key] = (f"%scalar{first}",)
        return self._given[key][0]

    def _branch(self, op: Branch) -> None:
        code = self.code
        then, other, after = (code.label(x) for x in ("then", "other", "after"))
        test = code.emit(f"load i8, ptr {self._pointer(op.test)}")
        code.branch(code.emit(f"icmp ne i8 {test}, 0"), then, other)
        for label, operations in ((then, op.then), (other, op.other)):
            code.start(label)
            self._operations(operations)
            code.jump(after)
        code.start(after)

    def _instruction(self, one: Instruction) -> None:
        code = self.code
        if one.kind == Kind.RESIZE:
            assert isinstance(one.to, Growing) and isinstance(one.a, int)
            self._resize(one.to, self._number(one.a))
            return
        if one.kind == Kind.REQUIRE:
            assert isinstance(one.a, int)
            self._fails_unless(code.emit(f"icmp ne i64 {self._number(one.a)}, 0"))
            return
        bits, signed = (1 if one.type == bool_ else one.type.bits), one.type.signed
        assert isinstance(one.to, int)
        if one.kind == Kind.LOAD:
            assert not isinstance(one.a, int)
            element = f"i{max(bits, 8)}"
            got = code.emit(f"load {element}, ptr {self._pointer(one.a)}")
            if element != "i64":
                got = code.emit(f"{'sext' if signed else 'zext'} {element} {got} to i64")
        else:
            assert isinstance(one.a, int)
            got = self._computed(one)
            if not one.exact:
                got = self._wrapped(got, bits, signed)
        if one.to not in self._registers:
            self._registers[one.to] = code.allocate("i64")
        code.do(f"store i64 {got}, ptr {self._registers[one.to]}")

    def _computed(self, one: Instruction) -> Reg:
        code, kind = self.code, one.kind
        assert isinstance(one.a, int)
        a = self._number(one.a)
        if kind in (Kind.CAST, Kind.INVERT):
            return a if kind == Kind.CAST else code.emit(f"xor i64 {a}, -1")
        if kind == Kind.NEGATIVE:
            return self._exactly("ssub", "sub", "0", a, one.exact)
        if kind == Kind.ABSOLUTE:
            opposite = self._exactly("ssub", "sub", "0", a, False)
            if one.exact:
                self._fails_unless(code.emit(f"icmp ne i64 {a}, {-(1 << 63)}"))
            return code.intrinsic("llvm.smax.i64", "i64", [("i64", a), ("i64", opposite)])
        b = self._number(one.b)
        if kind in _OVERFLOWING:
            return self._exactly(_OVERFLOWING[kind], _SIMPLE[kind], a, b, one.exact)
        if kind in _SIMPLE:
            return code.emit(f"{_SIMPLE[kind]} i64 {a}, {b}")
        if kind in _COMPARED:
            return code.emit(f"zext i1 {code.emit(f'icmp {_COMPARED[kind]} i64 {a}, {b}')} to i64")
        if kind in _EXTREMES:
            return code.intrinsic(_EXTREMES[kind], "i64", [("i64", a), ("i64", b)])
        if kind == Kind.SELECT:
            c = self._number(one.c)
            return code.emit(f"select i1 {code.emit(f'icmp ne i64 {a}, 0')}, i64 {b}, i64 {c}")
        # floor(a / b), 0 for b = 0; −a for b = −1, where the quotient of machines may overflow.
        no, back = code.emit(f"icmp eq i64 {b}, 0"), code.emit(f"icmp eq i64 {b}, -1")
        unusual = code.emit(f"or i1 {no}, {back}")
        divisor = code.emit(f"select i1 {unusual}, i64 1, i64 {b}")
        quotient, rest = (code.emit(f"{op} i64 {a}, {divisor}") for op in ("sdiv", "srem"))
        signs = code.emit(f"icmp slt i64 {code.emit(f'xor i64 {rest}, {divisor}')}, 0")
        down = code.emit(f"and i1 {signs}, {code.emit(f'icmp ne i64 {rest}, 0')}")
        if kind == Kind.REMAINDER:
            more = code.emit(f"select i1 {down}, i64 {divisor}, i64 0")
            plain = code.emit(f"add i64 {rest}, {more}")
            return code.emit(f"select i1 {unusual}, i64 0, i64 {plain}")
        floor = code.emit(f"sub i64 {quotient}, {code.emit(f'zext i1 {down} to i64')}")
        opposite = code.emit(f"sub i64 0, {a}")
        if one.exact:
            lowest = code.emit(f"icmp eq i64 {a}, {-(1 << 63)}")
            over = code.emit(f"and i1 {back}, {lowest}")
            self._fails_unless(code.emit(f"xor i1 {over}, true"))
        other = code.emit(f"select i1 {back}, i64 {opposite}, i64 {floor}")
        return code.emit(f"select i1 {no}, i64 0, i64 {other}")

    def _exactly(self, checked: str, plain: str, a: Reg, b: Reg, exact: bool) -> Reg:
        code = self.code
        if not exact:
            return code.emit(f"{plain} i64 {a}, {b}")
        name, pair = f"llvm.{checked}.with.overflow.i64", "{ i64, i1 }"
        both = code.intrinsic(name, pair, [("i64", a), ("i64", b)])
        over = code.emit(f"extractvalue {pair} {both}, 1")
        self._fails_unless(code.emit(f"xor i1 {over}, true"))
        return code.emit(f"extractvalue {pair} {both}, 0")

    def _wrapped(self, value: Reg, bits: int, signed: bool) -> Reg:
        code = self.code
        if bits == 64:
            return value
        if bits == 1:
            return code.emit(f"zext i1 {code.emit(f'icmp ne i64 {value}, 0')} to i64")
        narrow = code.emit(f"trunc i64 {value} to i{bits}")
        return code.emit(f"{'sext' if signed else 'zext'} i{bits} {narrow} to i64")

    # --- loops ---

    def _nested(self, loop: Loop) -> None:
        states = [_Moving(self, s, loop, "true") for s in loop.states]
        after = self.code.label("after")
        self._iterations(loop, states, str(loop.first), None, after, after)
        self.code.start(after)
        for state in states:
            state.leave()

    def _iterations(self, loop: Loop, states: Sequence[_Moving], begin: Reg, end: Reg | None,
                    finished: str, pause: str) -> None:  # fmt: skip
        """Iterations until the loop is `finished`, or `end` is reached: blocks that follow."""
        code = self.code
        if isinstance(loop.limit, tuple):
            (limit,) = self._parameter(int64, loop.limit[0])
        elif isinstance(loop.limit, int):
            limit = str(loop.limit)
        else:
            limit = code.emit(f"load i64, ptr {self._pointer(loop.limit)}")
        number = code.allocate("i64")
        code.do(f"store i64 {begin}, ptr {number}")
        head, within, body = (code.label(x) for x in ("head", "within", "body"))
        code.jump(head)
        code.start(head)
        k = code.emit(f"load i64, ptr {number}")
        code.branch(code.emit(f"icmp slt i64 {k}, {limit}"), within, finished)
        code.start(within)
        if end is None:
            code.jump(body)
        else:
            code.branch(code.emit(f"icmp slt i64 {k}, {end}"), body, pause)
        code.start(body)
        if loop.counter is not None:
            self.place(loop.counter, self.allocated(8))
            code.do(f"store i64 {k}, ptr {self._pointer(loop.counter)}")
        if loop.test is not None:
            self._operations(loop.testing)
            holds = code.emit(f"load i8, ptr {self._pointer(loop.test)}")
            rest = code.label("rest")
            code.branch(code.emit(f"icmp ne i8 {holds}, 0"), rest, finished)
            code.start(rest)
        if loop.once:
            once, after = code.label("once"), code.label("after")
            code.branch(code.emit(f"icmp eq i64 {k}, {loop.first}"), once, after)
            code.start(once)
            self._operations(loop.once)
            code.jump(after)
            code.start(after)
        self._operations(loop.rest)
        for step in (_Moving.keep, _Moving.copy, _Moving.restore, _Moving.swap):
            for state in states:
                step(state)
        code.do(f"store i64 {code.emit(f'add i64 {k}, 1')}, ptr {number}")
        code.jump(head)


class _Moving:
    """A state of a loop: where it is, and how it becomes the next one."""

    def __init__(self, into: MergedLoop, state: State, loop: Loop, is_first: Reg) -> None:
        """`is_first`: whether this is where the loop begins."""
        self.into, self.state, self.loop = into, state, loop
        self.number = next(k for k, s in enumerate(loop.states) if s is state)
        code, size = into.code, state.now.nbytes
        self.kept: Reg | None = None  # of another state, until that is the next one
        self.spare: Reg | None = None  # a pointer to where the next one is made, if it is another
        self.swapped: tuple[Reg, Reg] | None = None  # pointers to it and to what is made
        self.place = self.first = into._pointer(state.first)
        self.result: Reg | None = None
        if state.result is None:
            into.place(state.now, self.first)
            return
        self.result = result = into._pointer(state.result)
        alone = sum(s.source == state.source for s in loop.states) == 1
        if size > COPIED and state.source < 0 and alone:
            made = loop.made[~state.source]
            begun = code.emit(f"select i1 {is_first}, ptr {self.first}, ptr {result}")
            if state.copied:
                self._begin(is_first, result)
                begun = result
            other = into._pointer(made)
            self.swapped = into.alternate(state.now, begun), into.alternate(made, other)
            if _is_chosen((*loop.testing, *loop.once, *loop.rest), made):
                into.chosen[id(made)] = id(state.now)
                self.spare = code.allocate("ptr")
                code.do(f"store ptr {other}, ptr {self.spare}")
            return
        self.place = result
        if is_first != "true" and size <= ON_STACK:
            self.place = into.allocated(size)
            into.copy(self.place, code.emit(
                f"select i1 {is_first}, ptr {self.first}, ptr {result}"), size)  # fmt: skip
        else:
            self._begin(is_first, result)
        into.place(state.now, self.place)
        if state.source >= 0 and state.source != self.number:
            self.kept = into.allocated(size)

    def _begin(self, is_first: Reg, result: Reg) -> None:
        code = self.into.code
        if is_first == "true":
            self.into.copy(result, self.first, self.state.now.nbytes)
            return
        begin, begun = code.label("begin"), code.label("begun")
        code.branch(is_first, begin, begun)
        code.start(begin)
        self.into.copy(result, self.first, self.state.now.nbytes)
        code.jump(begun)
        code.start(begun)

    @property
    def _own(self) -> bool:
        return self.state.result is None or self.swapped is not None

    def keep(self) -> None:
        """Keep a state that is the next value of this one, before it changes itself."""
        if self.kept is not None:
            source = self.loop.states[self.state.source].now
            self.into.copy(self.kept, self.into._pointer(source), self.state.now.nbytes)

    def copy(self) -> None:
        """Take what the iteration has made."""
        if not self._own and self.state.source < 0:
            made = self.loop.made[~self.state.source]
            self.into.copy(self.place, self.into._pointer(made), self.state.now.nbytes)

    def restore(self) -> None:
        if self.kept is not None:
            self.into.copy(self.place, self.kept, self.state.now.nbytes)

    def swap(self) -> None:
        """What has been made is the state; the next one is made where that was, but never where the
        loop began with it if others own that."""
        if self.swapped is None:
            return
        code, (now, made) = self.into.code, self.swapped
        was, new = (code.emit(f"load ptr, ptr {p}") for p in (now, made))
        old = was
        if not self.state.copied:
            began = code.emit(f"icmp eq ptr {was}, {self.first}")
            was = code.emit(f"select i1 {began}, ptr {self.result}, ptr {was}")
        if self.spare is not None:
            same = code.emit(f"icmp eq ptr {old}, {new}")
            spare = code.emit(f"load ptr, ptr {self.spare}")
            was = code.emit(f"select i1 {same}, ptr {spare}, ptr {was}")
            code.do(f"store ptr {was}, ptr {self.spare}")
        code.do(f"store ptr {new}, ptr {now}")
        code.do(f"store ptr {was}, ptr {made}")

    def leave(self) -> None:
        """Put the last value where the result is."""
        code, size = self.into.code, self.state.now.nbytes
        if self.result is None:
            return
        where = (
            self.place if self.swapped is None else code.emit(f"load ptr, ptr {self.swapped[0]}")
        )
        if where == self.result:
            return
        move, moved = code.label("move"), code.label("moved")
        code.branch(code.emit(f"icmp eq ptr {where}, {self.result}"), moved, move)
        code.start(move)
        self.into.copy(self.result, where, size)
        code.jump(moved)
        code.start(moved)


def _is_chosen(operations: Sequence[Operation], made: HostArray, within: bool = False) -> bool:
    """Whether branches write an array, each side once, and nothing reads it."""
    uses = [op for op in operations if any(a is made for a in arrays_of(op))]
    if len(uses) == 1 and isinstance(branch := uses[0], Branch):
        return all(_is_chosen(side, made, True) for side in (branch.then, branch.other))
    return within and len(uses) == 1 and isinstance(uses[0], Launch | Copy)
