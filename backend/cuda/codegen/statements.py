"""Statements of kernel IR as C++ text."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, conjuncts, primitive, unknown, walk
from treadle.dsl.types import ScalarType
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.linearize import element_name

from . import atomics, policies, vectors, warps
from .expressions import Expressions
from .facts import Facts
from .layout import wrap
from .names import Names
from .prelude import Prelude
from .scalars import AND, SUM, Term, type_name, unsigned_name

_COMPOUND = {"add": "+=", "subtract": "-=", "multiply": "*="}
#: An expression with more operations than this gets a name if it is used more than once.
_WORTH_A_NAME = 3
#: Deeper expressions are split, for readability and to limit recursion.
_DEEPEST = 24
#: Sizes saturate at this number of operations.
_LARGEST = 999


class Writer:
    """Writes the body of one kernel, line by line."""

    def __init__(self, kernel: ir.Kernel, prelude: Prelude, names: Names, facts: Facts,
                 fast_math: bool) -> None:  # fmt: skip
        self.kernel, self.prelude, self.names, self.facts = kernel, prelude, names, facts
        self.lines: list[str] = []
        self.depth = 1
        self.variables: dict[Var, Term] = {}
        self.buffers: dict[ir.Buffer, str] = {}
        self.vectors: dict[tuple[str, ...], tuple[str, str]] = {}  # parts: type, name
        mine = weakref.proxy(self)  # avoids a cycle that would keep the kernel's arrays alive
        name = lambda v: mine._variable(v)  # noqa: E731
        self.p = Expressions(prelude, facts, name, self.buffers.__getitem__, fast_math)
        self.p.policies = dict(kernel.policies)
        self.mutable = {
            s.var for s in ir.statements(kernel.body) if isinstance(s, ir.Declare | ir.Assign)
        }
        self.constant_buffers = {b for b in kernel.buffers if b.role == "input"}
        self.barrier = "__syncthreads();"
        self._lasting = 0  # how many names in `p.bound`, the first ones, are of fixed values
        self._fixed: dict[Expr, bool] = {}
        self._sizes: dict[Expr, int] = {}
        self._uses = self._count_uses(kernel.body)
        sums = (e for e in self._uses if isinstance(e, Apply) and e.op.name in ("add", "subtract"))
        self._bases = {e.args[0] for e in sums if _is_widening(e.args[0])}

    # --- text ---

    def line(self, text: str) -> None:
        self.lines += wrap("  " * self.depth + text)

    def _variable(self, v: Var) -> Term:
        return self.variables[v]

    def introduce(self, v: Var) -> str:
        """Name a variable whose scope begins here."""
        name = self.names.fresh(v.name)
        self.variables[v] = Term(name)
        return name

    def is_read(self, v: Var) -> bool:
        """Whether anything in the kernel uses a variable."""
        return self._uses[v] > 0

    def type(self, t: ScalarType) -> str:
        return self.p.type(t)

    def unreported(self) -> str:
        """The condition that no check has failed so far."""
        self.p.use("unreported")
        return "unreported(errors)"

    # --- naming common subexpressions ---

    def _count_uses(self, body: ir.Body) -> Counter[Expr]:
        """How many expressions and statements use each expression."""
        roots = [e for s in ir.statements(body) for e in ir.expressions(s)]
        return Counter(roots + [a for e in walk(roots) for a in e.args])

    def is_fixed(self, e: Expr) -> bool:
        """Whether `e` has the same value wherever its variables are visible."""
        if e in self._fixed:
            return self._fixed[e]
        for node in unknown((e,), self._fixed):
            own = not (
                node in self.mutable
                if isinstance(node, Var)
                else isinstance(node, ir.Load) and node.buffer not in self.constant_buffers
            )
            self._fixed[node] = own and all(self._fixed[a] for a in node.args)
        return self._fixed[e]

    def size(self, e: Expr) -> int:
        """The number of operations in the tree of `e`, at most `_LARGEST`."""
        for node in unknown((e,), self._sizes):
            own = 0
            if isinstance(node, ir.Load) or (isinstance(node, Apply) and node.op.name != "cast"):
                own = 1 if _is_cheap(node) else 4
            self._sizes[node] = min(_LARGEST, own + sum(self._sizes[a] for a in node.args))
        return self._sizes[e]

    def prepare(self, roots: Sequence[Expr]) -> None:
        """Name the subexpressions that `roots` use more than once."""
        order = unknown(roots, self.p.bound)
        here = Counter([*roots, *(a for e in order for a in e.args)])
        depth: dict[Expr, int] = {}
        for e in order:
            if e in self.p.bound or isinstance(e, Const | Var):
                depth[e] = 0
                continue
            depth[e] = 1 + max((depth.get(a, 0) for a in e.args), default=0)
            fixed = self.is_fixed(e)
            again = (self._uses[e] if fixed else here[e]) > 1
            if isinstance(e, Foreign):
                again = here[e] > 1
            if (again and self.size(e) >= _WORTH_A_NAME and e not in roots) or (
                again and here[e] > 1 and self.size(e) >= _WORTH_A_NAME
            ) or depth[e] > _DEEPEST:  # fmt: skip
                # An index is stored as an int32 (see Expressions.index), unless constants are added
                # to it: the load instruction takes a constant offset from a 64-bit address.
                narrow = _is_widening(e) and e not in self._bases
                named = e.args[0] if narrow else e
                if named not in self.p.bound:
                    self.name_value(named, "position" if _is_widening(e) else None)
                depth[e] = 0

    def name_value(self, e: Expr, wish: str | None = None) -> str:
        """Name a value until the end of the scope, or of the statement if it may change then."""
        if wish is None:
            wish = element_name(e) if isinstance(e, ir.Load) else "t"
        text = _initial(self, e)
        name = self.names.fresh(wish)
        self.line(f"const {self.type(e.type)} {name} = {text};")
        self.p.bound[e] = name
        return name

    def forget(self) -> None:
        """End a statement: drop the names of values that may change now, which are among those
        given since the last time."""
        bound = self.p.bound
        for e in list(islice(reversed(bound), len(bound) - self._lasting)):
            if not self.is_fixed(e):
                del bound[e]
        self._lasting = len(bound)

    # --- blocks ---

    @contextmanager
    def scope(self) -> Iterator[None]:
        """An indented scope; names introduced inside are dropped at its end."""
        bound, lasting = self.p.bound, self._lasting
        self.p.bound = dict(bound)
        self.forget()
        self.depth += 1
        with self.names.scope():
            yield
        self.depth -= 1
        self.p.bound, self._lasting = bound, lasting

    def block(self, body: ir.Body) -> None:
        """Write statements in a new scope."""
        with self.scope():
            for s in body:
                self.statement(s)

    def statement(self, s: ir.Statement) -> None:
        if isinstance(s, ir.While | ir.Reduce):
            _while(self, s) if isinstance(s, ir.While) else _reduce(self, s)
            return
        self.prepare(ir.expressions(s))
        _write(self, s)
        self.forget()


def _is_widening(e: Expr) -> bool:
    """Whether `e` converts an int32 to int64."""
    return (isinstance(e, Apply) and e.op.name == "cast" and e.type.name == "int64"
            and e.args[0].type.name == "int32")  # fmt: skip


def _is_cheap(e: Expr) -> bool:
    """Whether `e` takes about one machine instruction."""
    if not isinstance(e, Apply):
        return False
    by = e.args[-1]
    if e.op.name in ("floor_divide", "remainder") and isinstance(by, Const) and e.type.is_integer:
        return int(by.value).bit_count() == 1
    return e.op.cost <= 2


def _write(w: Writer, s: ir.Statement) -> None:
    p = w.p
    match s:
        case ir.Comment():
            for text in s.text.splitlines():
                w.line(f"// {text}")
        case ir.Let() if _is_alias(w, s):
            w.variables[s.var] = p.term(s.value)
        case ir.Let():
            value = _initial(w, s.value)
            name = w.introduce(s.var)
            w.line(f"const {w.type(s.var.type)} {name} = {value};")
            if isinstance(s.value, Apply | ir.Load) and w.is_fixed(s.value):
                p.bound.setdefault(s.value, name)
        case ir.Declare():
            value = _initial(w, s.value)
            w.line(f"{w.type(s.var.type)} {w.introduce(s.var)} = {value};")
        case ir.Assign():
            _assign(w, s.var, s.value)
        case ir.Store():
            element, value = f"{w.buffers[s.buffer]}[{p.index(s.index)}]", _initial(w, s.value)
            kind = w.type(s.buffer.type)
            w.line(policies.store(p, s.buffer, f"&{element}", value, kind, s.buffer.type.bytes)
                   or f"{element} = {value};")  # fmt: skip
        case ir.If():
            _if(w, s)
        case ir.For():
            _for(w, s)
        case ir.Report():
            p.use("report")
            w.line(f"if ({_negated(w, s.ok)}) report(errors, {s.site + 1}, {p.text(s.index)}, "
                   f"{p.text(s.extent)});")  # fmt: skip
        case ir.Atomic():
            atomics.atomic(w, s)
        case ir.Fetch() | ir.Publish() | ir.FetchUpdate():
            atomics.between_blocks(w, s)
        case ir.Barrier():
            w.line(w.barrier)
        case ir.Fence():
            w.line("__threadfence();")
        case ir.LoadVector():
            vectors.load(w, s)
        case ir.StoreVector():
            vectors.store(w, s)
        case ir.Collective():
            warps.collective(w, s)
        case ir.WarpProduct():
            warps.product(w, s)
        case ir.Special():
            name = w.introduce(s.var)
            w.line(f"{w.type(s.var.type)} {name};")
            w.line(f'asm volatile("mov.u32 %0, %%{s.register};" : "=r"({name}));')
        case _:
            raise AssertionError(f"{type(s).__name__} in kernel IR")


def _is_alias(w: Writer, s: ir.Let) -> bool:
    """Whether the value already has a permanent name."""
    if isinstance(s.value, Var):
        return s.value not in w.mutable
    return s.value in w.p.bound and w.is_fixed(s.value)


def _initial(w: Writer, e: Expr) -> str:
    """A value in a context of known type: C++ does its outermost integer conversion implicitly."""
    text = w.p.text(e)
    if isinstance(e, Apply) and e.op.name == "cast" and e not in w.p.bound and e.type.is_integer:
        if e.args[0].type.is_integer or e.args[0].type.family == "bool":
            return w.p.text(e.args[0])
    if e.type.is_integer and text.startswith(f"({type_name(e.type)})("):
        inner = text[len(type_name(e.type)) + 2 :]
        if _closes_at_end(inner):
            return inner[1:-1]
    return text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return k == len(text) - 1
    return False


def _negated(w: Writer, e: Expr) -> str:
    """Not `e`, as a condition."""
    return w.p.text(Apply(primitive("logical_not"), (e,), e.type))


def _assign(w: Writer, var: Var, value: Expr) -> None:
    name = w.variables[var].code
    if isinstance(value, Apply) and value not in w.p.bound and len(value.args) == 2:
        symbol = _COMPOUND.get(value.op.name)
        plain = var.type.family not in ("bool", "complex") and var.type.bits >= 32
        if symbol and plain and value.args[0] is var:
            w.line(f"{name} {symbol} {_step(w, value, value.args[1])};")
            return
        if symbol and plain and value.op.commutative and value.args[1] is var:
            w.line(f"{name} {symbol} {_step(w, value, value.args[0])};")
            return
    w.line(f"{name} = {_initial(w, value)};")


def _step(w: Writer, sum_: Apply, e: Expr) -> str:
    """The right side of `+=`: unsigned if the sum of signed integers might overflow."""
    if sum_.type.is_integer and sum_.type.signed and not w.facts.is_plain(sum_):
        if isinstance(e, Const) and int(e.value) >= 0:
            return f"{int(e.value)}{'u' if sum_.type.bits == 32 else 'ull'}"
        return w.p.cast(unsigned_name(sum_.type.bits), w.p.term(e)).code
    return w.p.text(e)


def _condition(w: Writer, e: Expr) -> str:
    """A condition without duplicate terms: a user's bounds test may equal a generated one."""
    texts = [w.p.term(part).within(AND) for part in conjuncts(e)]
    once = list(dict.fromkeys(texts))
    return w.p.text(e) if len(once) == len(texts) else " && ".join(once)


def _if(w: Writer, s: ir.If) -> None:
    w.line(f"if ({_condition(w, s.condition)}) {{")
    w.block(s.then)
    other = s.other
    while len(other) == 1 and isinstance(other[0], ir.If):
        inner = other[0]
        if any(e not in w.p.bound and w.size(e) > 40 for e in ir.expressions(inner)):
            break
        w.line(f"}} else if ({w.p.text(inner.condition)}) {{")
        w.block(inner.then)
        other = inner.other
    if other:
        w.line("} else {")
        w.block(other)
    w.line("}")


def _stops(w: Writer, s: ir.For | ir.While) -> bool:
    """Whether a loop stops after a check has failed (see `Report`)."""
    unrolled = isinstance(s, ir.For) and s.kind == "unrolled"
    return w.kernel.errors > 0 and not unrolled and not ir.synchronises((s,))


def _for(w: Writer, s: ir.For) -> None:
    p = w.p
    start = p.text(s.start)
    stop = _bound(w, s.stop, s.var.name)
    if s.kind == "unrolled":
        w.line("#pragma unroll")
    elif s.kind == "rolled":
        w.line("#pragma unroll 1")
    with w.names.scope():
        name = w.introduce(s.var)
        step = f"++{name}" if s.step == 1 else f"{name} += {s.step}"
        until = f" && {w.unreported()}" if _stops(w, s) else ""
        w.line(f"for ({w.type(s.var.type)} {name} = {start}; {name} < {stop}{until}; {step}) {{")
        w.block(s.body)
        w.line("}")


def _bound(w: Writer, stop: Expr, name: str) -> str:
    """The upper bound of a loop, evaluated once."""
    if not w.is_fixed(stop) or w.size(stop) > 2:
        w.name_value(stop, f"{name}_end")
    return w.p.term(stop).within(SUM)


def _while(w: Writer, s: ir.While) -> None:
    if not any(e.type is not None and e.type.is_inexact for e in walk((s.condition,))):
        # ptxas 13 unrolls loops that count down until they wrap (`while (n < 0) n -= 1`) as if
        # their trip count were signed, and executes some that must not run at all.
        w.line("#pragma unroll 1")
    first, stops = len(w.lines), _stops(w, s)
    w.line("while (true) {")
    with w.scope():
        for inner in s.before:
            w.statement(inner)
        w.prepare((s.condition,))
        if len(w.lines) == first + 1:  # nothing before the test
            until = f"{w.p.term(s.condition).within(AND)} && {w.unreported()}" if stops else ""
            until = until or w.p.text(s.condition)
            w.lines[first:] = wrap("  " * (w.depth - 1) + f"while ({until}) {{")
        else:
            w.line(f"if ({_negated(w, s.condition)}) break;")
            if stops:
                w.line(f"if (!{w.unreported()}) break;")
        w.forget()
        for inner in s.body:
            w.statement(inner)
    w.line("}")


def _reduce(w: Writer, s: ir.Reduce) -> None:
    loop = ir.as_loop(s)
    w.mutable.update(s.accumulators)
    w.statement(loop)
