"""The verifier of the kernel IR.  The tests run it after every lowering."""

from __future__ import annotations

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk
from treadle.dsl.types import bfloat16, float16, float32, float64, uint32

from . import kernel as ir

#: Bytes of the widest access of a thread.
WIDEST = 16
_GPU_ONLY = (ir.Barrier, ir.Fence, ir.LoadVector, ir.StoreVector, ir.FetchUpdate, ir.Collective,
             ir.WarpProduct, ir.Special)  # fmt: skip
#: Registers of the hardware that a block may read.
REGISTERS = ("smid",)


class InvalidKernel(AssertionError):
    """A kernel violates a rule of the IR: an internal error of treadle."""


def verify(kernel: ir.Kernel) -> None:
    """Check that variables are defined before use, types agree, buffers are declared and used
    according to their roles, and that CPU kernels have no GPU statements and vice versa."""
    _Verifier(kernel).run()
    if kernel.fallback is not None:
        if kernel.fallback.fallback is None and not (kernel.requires or kernel.aligned):
            raise InvalidKernel(f"{kernel.name}: a fallback that nothing leads to")
        verify(kernel.fallback)


class _Verifier:
    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.buffers = set(kernel.buffers)

    def fail(self, why: str) -> None:
        raise InvalidKernel(f"{self.kernel.name}: {why}")

    def run(self) -> None:
        kernel = self.kernel
        known = set(kernel.scalars)
        for e in (kernel.tasks, *kernel.requires):
            self.expression(e, known)
        if (kernel.threads > 0) != (kernel.thread is not None):
            self.fail("a GPU kernel has threads and the number of one")
        if kernel.threads:
            if kernel.threads % 32 or kernel.threads > 1024:
                self.fail(f"{kernel.threads} threads: whole warps, at most 1024")
            known.add(kernel.thread)  # type: ignore[arg-type]
        for s in ir.statements(kernel.body):
            if isinstance(s, ir.For) and s.kind == "vector" and kernel.threads:
                self.fail("a vector loop in a GPU kernel")
            if isinstance(s, _GPU_ONLY) and not kernel.threads:
                self.fail(f"{type(s).__name__} in a CPU kernel")
        for b, _ in kernel.policies:
            self.reads(b)
        if any(b.role == "shared" for b in kernel.buffers) and not kernel.threads:
            self.fail("shared memory in a CPU kernel")
        self.block(kernel.body, {*known, kernel.task})

    def expression(self, e: Expr, known: set[Var]) -> None:
        for node in walk((e,)):
            if isinstance(node, Var):
                if node not in known:
                    self.fail(f"{node.name} is used before it is defined")
            elif isinstance(node, ir.Load):
                self.reads(node.buffer)
            elif not isinstance(node, Const | Apply | Foreign):
                self.fail(f"{type(node).__name__} in kernel IR")

    def reads(self, buffer: ir.Buffer) -> None:
        if buffer not in self.buffers:
            self.fail(f"unknown buffer {buffer.name}")

    def block(self, body: ir.Body, known: set[Var]) -> None:
        here = set(known)
        for s in body:
            self.statement(s, here)
            here.update(ir.defined(s))

    def statement(self, s: ir.Statement, here: set[Var]) -> None:
        if isinstance(s, ir.While):
            inner = set(here)
            for b in s.before:
                self.statement(b, inner)
                inner.update(ir.defined(b))
            self.expression(s.condition, inner)
            self.block(s.body, inner)
            return
        if isinstance(s, ir.Reduce):
            self.reduce(s, here)
            return
        for e in ir.expressions(s):
            self.expression(e, here)
        for buffer in ir.written(s):
            if buffer not in self.buffers or buffer.role == "input":
                self.fail(f"store to {buffer.name}")
        match s:
            case ir.Let() | ir.Declare() | ir.Assign():
                if isinstance(s, ir.Assign) and s.var not in here:
                    self.fail(f"{s.var.name} assigned, not declared")
                if s.var.type != s.value.type:
                    self.fail(f"{s.var.name} gets {s.value.type}")
            case ir.Store() | ir.Publish():
                self.same_type(s.buffer, s.value)
            case ir.StoreVector():
                self.wide(s.buffer, len(s.values))
                for v in s.values:
                    self.same_type(s.buffer, v)
            case ir.LoadVector():
                self.reads(s.buffer)
                self.wide(s.buffer, len(s.vars))
                for v in s.vars:
                    self.same_type(s.buffer, v)
            case ir.Special():
                if s.register not in REGISTERS or s.var.type != uint32:
                    self.fail(f"{s.var.name}: {s.var.type} is register {s.register}")
            case ir.Fetch() | ir.FetchUpdate():
                self.reads(s.buffer)
                self.same_type(s.buffer, s.var)
            case ir.Atomic():
                for buffer, value in zip(s.buffers, s.values, strict=True):
                    self.same_type(buffer, value)
            case ir.WarpProduct():
                self.warp_product(s)
            case ir.For():
                self.block(s.body, here | {s.var})
            case ir.If():
                self.block(s.then, here)
                self.block(s.other, here)

    def warp_product(self, s: ir.WarpProduct) -> None:
        of, into = ({e.type for e in x} for x in ((*s.left, *s.right), (*s.vars, *s.sums)))
        deep = 2 if of == {float64} else 4
        if [len(x) for x in (s.vars, s.sums, s.left, s.right)] != [4, 4, 2 * deep, deep]:
            self.fail("a warp product of other extents")
        sums = {float64} if of == {float64} else {float32}
        if into != sums or of not in ({float16}, {bfloat16}, {float64}):
            self.fail(f"a warp product of {', '.join(sorted(t.name for t in of))}")

    def reduce(self, s: ir.Reduce, here: set[Var]) -> None:
        self.expression(s.start, here)
        self.expression(s.stop, here)
        inner = here | {s.var}
        for b in s.body:
            self.statement(b, inner)
            inner.update(ir.defined(b))
        for v in s.values:
            self.expression(v, inner)
        if not set(s.accumulators) <= here:
            self.fail("an accumulator is not declared")

    def same_type(self, buffer: ir.Buffer, e: Expr) -> None:
        if buffer.type != e.type:
            self.fail(f"{buffer.name} and {e.type}")

    def wide(self, buffer: ir.Buffer, count: int) -> None:
        if count & (count - 1) or count * buffer.type.bytes > WIDEST:
            self.fail(f"{count} elements of {buffer.type} in one access")
        if buffer.role in ("input", "output", "update") and buffer not in self.kernel.aligned:
            self.fail(f"wide access to {buffer.name}, whose alignment is not checked")
