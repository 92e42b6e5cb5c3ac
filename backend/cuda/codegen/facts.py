"""Integer analysis of a kernel: ranges, and whether arithmetic can wrap.

In C++ signed overflow is undefined; in the language integers wrap.  So data is computed in unsigned
arithmetic, and only arithmetic that cannot overflow is printed as signed:

    index arithmetic           an index, the bounds of a loop, and values used only for these
    a value of known range     block and thread indices, loop counters, extents

An extent or an element count is at most 2⁴⁷ (no device has more memory).  So is a position: a
block, thread or iteration index times an expression of extents alone.  In a kernel with 32-bit
indices (`skeletons/ir/narrow.py`) the kernel's conditions keep index arithmetic within 31 bits,
unless it cannot be distinguished from 32-bit arithmetic on indices in the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable

from treadle.dsl.analysis.bounds import Intervals, Range, whole
from treadle.dsl.expr import Apply, Const, Expr, Extent, Var, unknown, walk
from treadle.dsl.types import int32, int64
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.hosted import Stride

#: The upper bound of extents, element counts and element positions.
_SIZE = 1 << 47
#: Larger constants are not index arithmetic, but bit manipulation such as hashing.
_LARGE = 1 << 24
_LINEAR = ("add", "subtract", "multiply", "negative", "fma")


def _clamped(r: Range, bound: int) -> Range:
    """A range clamped to ±bound."""
    return max(r[0], -bound), min(r[1], bound)


class Facts(Intervals):
    """The ranges of a kernel's integers, and which arithmetic is printed as signed."""

    def __init__(self, kernel: ir.Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self._exact: set[Expr] = set()  # linear arithmetic that stays within its type
        self._indexlike: dict[Expr, bool] = {}
        self._sizes: set[Expr] = set()
        self._values: dict[Var, Expr] = {}
        self._trusted = self._narrow_is_trusted()
        self._scalars()
        self._numbers()
        for s in ir.statements(kernel.body):
            self._variables(s)
        self._indices: set[Expr] = set()
        self._data: set[Expr] = set()
        self._separate()

    # --- questions ------------------------------------------------------------------------

    def is_plain(self, e: Apply) -> bool:
        """Whether signed linear arithmetic may be printed as signed."""
        if e in self._indices and e not in self._data:
            return True
        self.range(e)
        return e in self._exact

    # --- leaves ---------------------------------------------------------------------------

    def _wide(self) -> ir.Kernel | None:
        """The kernel with 64-bit indices from which this one was narrowed."""
        if self.kernel.task.type != int32:
            return None
        return next((k for k in self.kernel.variants if k.task.type != int32), None)

    def _narrow_is_trusted(self) -> bool:
        """Whether all 32-bit arithmetic on indices was introduced by `narrow`."""
        wide = self._wide()
        if wide is None:
            return False
        every = walk(
            e
            for s in ir.statements(wide.body)
            if not (isinstance(s, ir.Store | ir.FetchUpdate) and s.buffer.below is not None)
            for e in ir.expressions(s)  # (without task indices)
        )
        return not any(
            isinstance(e, Apply) and e.op.name == "cast" and e.type == int32
            and e.args[0].type == int64 and not isinstance(e.args[0], ir.Load)
            for e in every
        )  # fmt: skip

    def _scalars(self) -> None:
        kernel = self.kernel
        wide = self._wide()
        users = set(wide.scalars) if wide is not None else set()
        hosts: dict[Expr, Expr] = {}
        if len(kernel.scalars) == len(kernel.scalar_values):
            hosts = kernel.hosts
        for v in kernel.scalars:
            host = hosts.get(v)
            if v.type not in (int32, int64) or host is None:
                continue
            counts = all(isinstance(x, Const | Extent | Apply) for x in walk((host,)))
            if v.type == int64 and counts:
                self.known[v] = _clamped(self.range(host), _SIZE)
                self._sizes.add(v)
            elif v.type == int64 and isinstance(host, Stride):
                self.known[v] = (-_SIZE, _SIZE)
                self._sizes.add(v)
            elif v.type == int32 and v not in users and wide is not None:
                self.known[v] = _clamped(self.range(host) if counts else whole(int32), 2**31 - 1)
                self._sizes.add(v)
        for condition in kernel.requires:
            self._condition(condition)
        back: dict[Expr, Expr] = {h: v for v, h in hosts.items()}
        tasks = hosts.get(kernel.tasks, kernel.tasks)
        for e in (kernel.tasks, tasks):
            for positive in _positive_parts(e):
                known = back.get(positive, positive)
                if isinstance(known, Var) and known.type.is_integer:
                    low, high = self.range(known)
                    self.known[known] = (max(low, 1), high)

    def _condition(self, e: Expr) -> None:
        """`constant <= scalar` and `scalar <= constant` among the kernel's conditions."""
        if not isinstance(e, Apply) or e.op.name != "less_equal":
            return
        a, b = (_under_casts(x) for x in e.args)
        if isinstance(a, Const) and isinstance(b, Var):
            low, high = self.range(b)
            self.known[b] = (max(low, int(a.value)), high)
        elif isinstance(b, Const) and isinstance(a, Var):
            low, high = self.range(a)
            self.known[a] = (low, min(high, int(b.value)))

    def _numbers(self) -> None:
        kernel = self.kernel
        self.known[kernel.task] = (0, 2**31 - 2)
        self._sizes.add(kernel.task)
        if kernel.thread is not None:
            self.known[kernel.thread] = (0, kernel.threads - 1)
            self._sizes.add(kernel.thread)

    def _variables(self, s: ir.Statement) -> None:
        match s:
            case ir.Let() if s.var.type.is_integer:
                self._values[s.var] = s.value
                self.known[s.var] = self.range(s.value)
            case ir.For() | ir.Reduce():
                low, high = self.range(s.start)[0], self.range(s.stop)[1]
                if self._is_index(s.start) and self._is_index(s.stop):
                    self._sizes.add(s.var)
                    high = min(high, _SIZE)
                self.known[s.var] = (low, max(high - 1, low))

    def _is_index(self, e: Expr) -> bool:
        """Whether `e` consists only of block and thread indices, loop counters and extents."""
        for node in unknown((e,), self._indexlike):
            if isinstance(node, Const):
                found = abs(int(node.value)) < _LARGE if node.type.is_integer else True
            elif isinstance(node, Var):
                value = self._values.get(node)
                found = node in self._sizes or (value is not None and self._is_index(value))
            elif isinstance(node, Extent):
                found = True
            elif isinstance(node, ir.Load):
                found = node.buffer.below is not None
            else:
                found = isinstance(node, Apply) and all(self._indexlike[a] for a in node.args)
            self._indexlike[node] = found
        return self._indexlike[e]

    # --- expressions ----------------------------------------------------------------------

    def leaf(self, e: Expr) -> Range:
        if isinstance(e, Extent):
            return 0, _SIZE
        return (
            (0, 2**31 - 2)
            if isinstance(e, ir.Load) and e.buffer.below is not None
            else whole(e.type)
        )

    def result(self, e: Apply, found: Range) -> Range:
        name = e.op.name
        if name == "reciprocal_divide":  # of a non-negative dividend
            return 0, self.known[e.args[0]][1]
        if name not in _LINEAR:
            return super().result(e, found)
        low, high = whole(e.type)
        first, last = found
        if low <= first and last <= high:
            self._exact.add(e)
            return first, last
        if not self._is_index(e):
            return low, high
        if e.type == int32 and self._trusted:
            self._exact.add(e)
            return max(first, low), min(last, high)
        if name == "multiply" and any(self._is_uniform(a) for a in e.args):
            self._exact.add(e)
            return _clamped((first, last), _SIZE)
        return low, high

    def _is_uniform(self, e: Expr) -> bool:
        """Whether `e` consists of the kernel's sizes alone."""
        for node in walk((e,)):
            if isinstance(node, Var) and node in self._values:
                if not self._is_uniform(self._values[node]):
                    return False
            elif isinstance(node, Var) and (
                node not in self._sizes or node not in self.kernel.scalars
            ):
                return False
        return True

    # --- where arithmetic is data -----------------------------------------------------------

    def _separate(self) -> None:
        """Separate the expressions that indices consist of from those that data depends on."""
        work: list[tuple[Expr, bool]] = []  # expression, whether as data
        for s in ir.statements(self.kernel.body):
            work += _uses(s)
        while work:
            e, as_data = work.pop()
            reached = self._data if as_data else self._indices
            if e in reached:
                continue
            reached.add(e)
            if isinstance(e, ir.Load):
                work.append((e.index, False))
            elif isinstance(e, Var):
                if as_data and e in self._values:
                    work.append((self._values[e], True))
            else:
                as_index = (
                    not as_data
                    and isinstance(e, Apply)
                    and (
                        e.op.name in _LINEAR or (e.op.name == "cast" and e.args[0].type.is_integer)
                    )
                )
                work += [(a, not as_index) for a in e.args]


def _uses(s: ir.Statement) -> Iterable[tuple[Expr, bool]]:
    """The expressions of a statement, and whether each is used as data."""
    match s:
        case ir.Let():
            return [(s.value, not s.var.type.is_integer)]  # the uses of an integer decide
        case ir.For() | ir.Reduce():
            rest = s.values if isinstance(s, ir.Reduce) else ()
            return [(s.start, False), (s.stop, False), *((v, True) for v in rest)]
        case ir.Store() | ir.Publish() | ir.FetchUpdate():
            return [(s.index, False), (s.value, True)]
        case ir.StoreVector() | ir.Atomic():
            return [(s.index, False), *((v, True) for v in s.values)]
        case ir.LoadVector() | ir.Fetch():
            return [(s.index, False)]
        case ir.Declare() | ir.Assign():
            return [(s.value, True)]
    return [(e, True) for e in ir.expressions(s)]


def _under_casts(e: Expr) -> Expr:
    while isinstance(e, Apply) and e.op.name == "cast":
        e = e.args[0]
    return e


def _positive_parts(e: Expr) -> Iterable[Expr]:
    """The non-negative subexpressions that must be at least 1 if `e` is."""
    yield e
    if not isinstance(e, Apply):
        return
    a = e.args[0]
    match e.op.name:
        case "multiply":
            for part in e.args:
                yield from _positive_parts(part)
        case "minimum":
            for part in e.args:
                yield from _positive_parts(part)
        case "cast":
            yield from _positive_parts(a)
        case "floor_divide":
            divisor = e.args[1]
            if not (isinstance(a, Apply) and a.op.name == "add"):
                yield from _positive_parts(a)
            elif isinstance(divisor, Const) and isinstance(a.args[1], Const):
                if int(a.args[1].value) < int(divisor.value):  # rounds up
                    yield from _positive_parts(a.args[0])
