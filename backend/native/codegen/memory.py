"""Loads and stores: the coefficient of the lane number in the index decides how.

0           one scalar load                     1    one vector load or store
−1          a vector load, reversed             2…4  overlapping vector loads and shuffles
−4…−2       the same, reversed                       (up to 8 for elements of 1 and 2 bytes)
other       scalar loads, if nothing is masked; or square blocks of rows, transposed in registers
unknown     gather; every store that is not a vector store is a scatter
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.analysis.polynomial import Polynomial
from treadle.dsl.expr import Apply, Const, Expr
from treadle.dsl.types import bool_, int64
from treadle.skeletons.ir.kernel import Buffer

from .half import from_storage, to_storage
from .lanes import BITS, Lanes, deinterleave, interleave, join, slice_lanes, transposed
from .text import Code, Reg, constants, literal, suffix, vector
from .values import LANE, Poly, Value, memory_element, parts, register_element

if TYPE_CHECKING:
    from .emitter import Emitter

#: Gathers whose elements are at most this far apart read consecutive rows.
_NEAR = 64
_LINE = 64
#: Elements with these strides are shuffled out of vectors that cover the complete range.  Elements
#: of fewer than four bytes allow larger strides, because a vector has more of them.
_STRIDES, _STRIDES_OF_SMALL = (2, 3, 4), (2, 3, 4, 5, 6, 7, 8)


def lane_step(em: Emitter, index: Value) -> tuple[Poly, int | None]:
    """Split the index into uniform part + step · lane; step is None if it has another form."""
    poly = index.poly
    assert poly is not None
    uniform: dict[tuple[int, ...], int] = {}
    step = 0
    for monomial, coefficient in poly.terms.items():
        if monomial == (LANE,):
            step = coefficient
        elif em.varies(monomial):
            return poly, None
        else:
            uniform[monomial] = coefficient
    return Polynomial(uniform), step


def _align(e: str) -> int:
    return max(BITS[e] // 8, 1)


def _group(buffer: Buffer) -> str:
    """The type of one element in memory; a complex number is one array of two parts."""
    e = memory_element(buffer.type)
    return f"[2 x {e}]" if buffer.type.is_complex else e


def pointer(em: Emitter, buffer: Buffer, index: Poly) -> Reg:
    """The address of an element.  Terms of outer loops are added first, outside, and constants
    last, so that neighbours share the other terms."""
    key = ("pointer", buffer, index.key)
    found = em.memo.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    if not index.terms:
        return em.pointers[buffer]
    constant = index.constant
    if constant and len(index.terms) > 1:
        base, offset = pointer(em, buffer, index.nonconstant), str(constant)
        return _moved(em, key, buffer, base, offset)
    depth = em.depth_of(index)
    outer: dict[tuple[int, ...], int] = {}
    inner: dict[tuple[int, ...], int] = {}
    for monomial, coefficient in index.terms.items():
        here = em.depth_of_product(monomial) == depth
        (inner if here else outer)[monomial] = coefficient
    base = pointer(em, buffer, Polynomial(outer))
    if depth >= em.depth:
        return _moved(em, key, buffer, base, em.reg(em.polynomial(Polynomial(inner)), 0))
    with em.outside(depth):
        return _moved(em, key, buffer, base, em.reg(em.polynomial(Polynomial(inner)), 0))


def _moved(em: Emitter, key: object, buffer: Buffer, base: Reg, offset: Reg) -> Reg:
    """Remember the address of `buffer`'s element `offset` behind `base`."""
    made = em.code.emit(f"getelementptr {_group(buffer)}, ptr {base}, i64 {offset}")
    return em.remember(key, made)  # type: ignore[no-any-return]


def load(em: Emitter, buffer: Buffer, index: Value) -> Value:
    """`buffer[index]`, shared with an equal load since the last store to the buffer."""
    key = ("load", buffer, index.key, em.version(buffer))
    known = em.memo.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    if index.type != int64:
        raise AssertionError(f"{buffer.name} is indexed by {index.type}")
    assert index.poly is not None
    base, step = (index.poly, 0) if not index.lanes else lane_step(em, index)
    singly = step is None or abs(step) > 1
    depth = em.depth
    if step == 0 or (singly and 0 < em.prefetch_depth < depth):
        depth = em.load_depth(
            buffer, max(em.depth_of(index.poly), em.prefetch_depth if singly else 0)
        )
    if depth == em.depth:
        found = _load(em, buffer, index, key, base, step)
        return found if em.version(buffer) else em.since(found, em.changes(index), step is None)
    with em.outside(depth, vectors=step != 0):
        return _load(em, buffer, index, key, base, step)


def _load(em: Emitter, buffer: Buffer, index: Value, key: object, base: Poly, step: int | None
          ) -> Value:  # fmt: skip
    lanes = index.lanes
    regs: tuple[Reg, ...]
    invariant = ", !invariant.load !0" if buffer.role == "input" else ""
    if step == 0:
        lanes = 0
        regs = _load_scalar(em, buffer, base, invariant)
    elif step in (1, -1):
        regs = _load_vector(em, buffer, base, step, lanes, invariant)
    elif step is not None and _is_picked(buffer, abs(step)) and em.mask is None:
        regs = _load_strided(em, buffer, base, step, lanes, invariant)
    elif step is not None and _has_rows(em, buffer, base, step):
        regs = _load_rows(em, buffer, base, step, lanes, invariant)
    elif _is_loaded_singly(buffer, step) and em.mask is None:
        regs = _load_singly(em, buffer, base, step, index, lanes, invariant)
    else:
        regs = _gather(em, buffer, base, step, index, lanes)
    v = Lanes(em.code, lanes)
    regs = tuple(from_storage(v, buffer.type, r) for r in regs)
    return em.remember(key, em.in_register(buffer.type, regs, lanes))  # type: ignore[no-any-return]


def _load_scalar(em: Emitter, buffer: Buffer, base: Poly, invariant: str) -> tuple[Reg, ...]:
    e = memory_element(buffer.type)
    at = pointer(em, buffer, base)
    first = em.code.emit(f"load {e}, ptr {at}, align {_align(e)}{invariant}")
    if parts(buffer.type) == 1:
        return (first,)
    second = em.code.emit(f"getelementptr {e}, ptr {at}, i64 1")
    return first, em.code.emit(f"load {e}, ptr {second}, align {_align(e)}{invariant}")


def _load_vector(em: Emitter, buffer: Buffer, base: Poly, step: int, lanes: int,
                 invariant: str) -> tuple[Reg, ...]:  # fmt: skip
    """Consecutive elements, forwards or backwards."""
    e, mask = memory_element(buffer.type), em.mask
    backwards = list(range(lanes - 1, -1, -1))
    if step == -1:
        base = base - (lanes - 1)
        if mask is not None:
            mask = Lanes(em.code, lanes).shuffle("i1", mask, "poison", backwards)
    count = lanes * parts(buffer.type)
    if mask is not None and buffer.type.is_complex:
        mask = interleave(em.code, "i1", mask, mask, lanes)
    at = pointer(em, buffer, base)
    t = vector(e, count)
    if mask is None and em.ahead and step == 1:
        far = em.code.emit(f"getelementptr i8, ptr {at}, i64 {em.ahead}")
        name = "llvm.prefetch.p0"
        em.module.declarations.setdefault(name, f"declare void @{name}(ptr, i32, i32, i32)")
        em.code.do(f"call void @{name}(ptr {far}, i32 0, i32 3, i32 1)")
    pieces = _pieces(em, buffer, step)
    if mask is None:
        got = em.code.emit(f"load {t}, ptr {at}, align {_align(e)}{invariant}")
    elif pieces:
        got = "zeroinitializer"
        for first, size in pieces:
            got = _with_piece(em, e, at, got, lanes, first, size)
    elif not em.target.masks("load", BITS[e]):
        name = _by_runs(em, "load", e, count)
        got = em.code.emit(f"call {t} @{name}(ptr {at}, {vector('i1', count)} {mask})")
    else:
        m = vector("i1", count)
        name = f"llvm.masked.load.{suffix(e, count)}.p0"
        em.module.declarations.setdefault(
            name, f"declare {t} @{name}(ptr captures(none), {m}, {t})"
        )
        got = em.code.emit(
            f"call {t} @{name}(ptr align {_align(e)} {at}, {m} {mask}, {t} zeroinitializer)"
        )
    regs: tuple[Reg, ...] = (got,)
    if buffer.type.is_complex:
        regs = deinterleave(em.code, e, got, lanes)
    if step == -1:
        v = Lanes(em.code, lanes)
        regs = tuple(v.shuffle(e, r, "poison", backwards) for r in regs)
    return regs


def _load_strided(em: Emitter, buffer: Buffer, base: Poly, step: int, lanes: int,
                  invariant: str) -> tuple[Reg, ...]:  # fmt: skip
    """Load elements with a small stride: vector loads up to the last element, then shuffles."""
    e = _whole(buffer)
    t, v, backwards = vector(e, lanes), Lanes(em.code, lanes), step < 0
    align = _align(memory_element(buffer.type))
    if backwards:
        base, step = base + step * (lanes - 1), -step
    starts = [k * lanes for k in range(step - 1)] + [step * (lanes - 1) + 1 - lanes]
    result = ""
    covered = 0
    for start in starts:
        at = pointer(em, buffer, base + start)
        got = em.code.emit(f"load {t}, ptr {at}, align {align}{invariant}")
        inside = [k for k in range(covered, lanes) if k * step < start + lanes]
        picks = [k if k < covered else -1 for k in range(lanes)]
        for k in inside:
            picks[k] = lanes + k * step - start
        if result:
            result = v.shuffle(e, result, got, picks)
        else:
            result = v.shuffle(e, got, "poison", [p - lanes if p >= 0 else -1 for p in picks])
        covered += len(inside)
    if backwards:
        result = v.shuffle(e, result, "poison", list(range(lanes - 1, -1, -1)))
    return _parts(em, buffer, result, lanes)


def _whole(buffer: Buffer) -> str:
    """The register type of one element; a complex number is one integer that has both parts."""
    e = memory_element(buffer.type)
    return f"i{2 * BITS[e]}" if buffer.type.is_complex else e


def _parts(em: Emitter, buffer: Buffer, whole: Reg, lanes: int) -> tuple[Reg, ...]:
    """Split elements that were loaded with the type `_whole` into their parts."""
    if not buffer.type.is_complex:
        return (whole,)
    e = memory_element(buffer.type)
    parts_of = em.code.emit(f"bitcast {vector(_whole(buffer), lanes)} {whole} to "
                            f"{vector(e, 2 * lanes)}")  # fmt: skip
    return deinterleave(em.code, e, parts_of, lanes)


def _has_rows(em: Emitter, buffer: Buffer, base: Poly, step: int) -> bool:
    """Whether `step` is the row width of the buffer, so that lanes read consecutive rows.

    The other elements of such a row may be read as well.  In a local buffer, elements near any
    element may be read, because the buffer has padding (`ROOM`) on both sides."""
    if step <= 4 or em.mask is not None:
        return False
    if buffer.role == "local":
        return True
    if _align(memory_element(buffer.type)) < 4:  # too many lanes for a square of rows
        return False
    if step > WIDEST_ROWS or buffer.type.is_complex or not buffer.dense:
        return False
    return all(c % step == 0 for m, c in base.terms.items() if m) and _is_multiple(
        buffer.size, step
    )


def _is_picked(buffer: Buffer, step: int) -> bool:
    small = _align(memory_element(buffer.type)) < 4
    return step in (_STRIDES_OF_SMALL if small else _STRIDES) and _is_gathered_whole(buffer)


def _is_gathered_whole(buffer: Buffer) -> bool:
    """Whether an element fits into a lane of 8 bytes (complex64 does, complex128 does not)."""
    return buffer.type.bytes <= 8


def _is_multiple(e: Expr, n: int) -> bool:
    if isinstance(e, Const):
        return int(e.value) % n == 0
    product = isinstance(e, Apply) and e.op.name == "multiply"
    return product and any(_is_multiple(a, n) for a in e.args)


def _load_rows(em: Emitter, buffer: Buffer, base: Poly, step: int, lanes: int,
               invariant: str) -> tuple[Reg, ...]:  # fmt: skip
    """Load one element of each row: load square blocks of the rows and transpose them."""
    e, count = memory_element(buffer.type), parts(buffer.type)
    column = base.constant % step
    each = min(lanes, SQUARE, em.target.vector_bytes // (_align(e) * count))
    first = min(column // each * each, max(step - each, 0))  # of a block in its row
    pieces = []
    for start in range(0, lanes, each):
        corner = base + (start * step + first - column)
        key = ("rows", buffer, corner.key, em.version(buffer), each)
        columns = em.memo.get(key)
        if columns is None:
            rows = _rows(em, buffer, corner, step, each, invariant)
            whole = em.target.is_x86 and each * count * BITS[e] in (128, 256, 512)
            register = "v" if whole and e != "half" else ""
            columns = em.remember(key, transposed(em.code, e, rows, count, register))
        pieces.append(columns[column - first])
    made = join(em.code, e, pieces, each * count)
    return deinterleave(em.code, e, made, lanes) if count == 2 else (made,)


def _rows(em: Emitter, buffer: Buffer, corner: Poly, step: int, lanes: int, invariant: str
          ) -> list[Reg]:  # fmt: skip
    """The first elements of `lanes` rows, each as one vector."""

    def loaded(offset: int) -> Reg:
        at = pointer(em, buffer, corner + offset)
        t = vector(e, lanes * parts(buffer.type))
        return em.code.emit(f"load {t}, ptr {at}, align {_align(e)}{invariant}")

    e = memory_element(buffer.type)
    if step >= lanes or buffer.role == "local":
        return [loaded(r * step) for r in range(lanes)]
    # Rows shorter than a vector: load all rows as consecutive vectors and shuffle each row out.
    v, side = Lanes(em.code, lanes), [loaded(k * lanes) for k in range(step)]
    found = []
    for r in range(lanes):
        k, first = divmod(r * step, lanes)
        picks = [first + i if i < step else -1 for i in range(lanes)]
        last = side[k + 1] if first + step > lanes else "poison"
        found.append(v.shuffle(e, side[k], last, picks))
    return found


def _pointers(em: Emitter, buffer: Buffer, base: Poly, step: int | None, index: Value,
              lanes: int) -> Reg:  # fmt: skip
    """A vector of addresses."""
    if step is not None:
        at, offsets = pointer(em, buffer, base), constants("i64", (k * step for k in range(lanes)))
    else:
        poly = index.poly
        assert poly is not None
        uniform = {m: c for m, c in poly.terms.items() if not em.varies(m)}
        rest = {m: c for m, c in poly.terms.items() if m not in uniform}
        at = pointer(em, buffer, Polynomial(uniform))
        offsets = em.reg(em.polynomial(Polynomial(rest)), lanes)
    t = vector("i64", lanes)
    return em.code.emit(f"getelementptr {_group(buffer)}, ptr {at}, {t} {offsets}")


def _part_pointers(em: Emitter, buffer: Buffer, pointers: Reg, lanes: int) -> list[Reg]:
    if not buffer.type.is_complex:
        return [pointers]
    e = memory_element(buffer.type)
    second = em.code.emit(f"getelementptr {e}, {vector('ptr', lanes)} {pointers}, i64 1")
    return [pointers, second]


def _prefetch_rows(em: Emitter, buffer: Buffer, base: Poly, step: int, lanes: int) -> None:
    """Prefetch the cache lines of the next `lanes` rows of `step` elements each.

    A loop reads these rows one element after the other; each iteration prefetches its share."""
    e = memory_element(buffer.type)
    size = _align(e) * parts(buffer.type)
    each = max(lanes * size // _LINE, 1)
    lead = base.constant
    at = pointer(em, buffer, base)
    name = "llvm.prefetch.p0"
    em.module.declarations.setdefault(name, f"declare void @{name}(ptr, i32, i32, i32)")
    for k in range(each):
        offset = lanes * step * size + _LINE * (lead * each + k) - lead * size
        far = em.code.emit(f"getelementptr i8, ptr {at}, i64 {offset}")
        em.code.do(f"call void @{name}(ptr {far}, i32 0, i32 3, i32 1)")


def _gather(em: Emitter, buffer: Buffer, base: Poly, step: int | None, index: Value,
            lanes: int) -> tuple[Reg, ...]:  # fmt: skip
    one = _is_gathered_whole(buffer)
    e, align = memory_element(buffer.type), _align(memory_element(buffer.type))
    e = _whole(buffer) if one else e
    # Not in inner loops: a prefetch would keep LLVM from hoisting their invariant loads.
    near = step is not None and 0 < step <= _NEAR and em.depth == em.prefetch_depth
    if near and buffer.role == "input":
        assert step is not None
        _prefetch_rows(em, buffer, base, step, lanes)
    pointers = _pointers(em, buffer, base, step, index, lanes)
    got = tuple(
        _gathered(em, e, at, em.mask, lanes, align)
        for at in ([pointers] if one else _part_pointers(em, buffer, pointers, lanes))
    )
    return _parts(em, buffer, got[0], lanes) if one else got


def _by_runs(em: Emitter, what: str, e: str, lanes: int) -> str:
    """The name of a function that loads or stores consecutive elements under a mask, where the CPU
    cannot: the first active ones in runs of halving lengths, the others one by one.

    The mask of a tail is one run, and a border has few active lanes; a gather would take the time
    of all lanes.
    """
    name = f"treadle.{what}.{e}.{lanes}"
    if name in em.module.helpers:
        return name
    em.module.helpers.add(name)
    code, t, align = Code(em.module), vector(e, lanes), _align(e)
    store = what == "store"
    local = code.allocate(t)
    code.do(f"store {t} {'%x' if store else 'zeroinitializer'}, ptr {local}")
    source, target = (local, "%p") if store else ("%p", local)

    def copy(at: Reg, size: int) -> None:
        one = vector(e, size) if size > 1 else e
        ends = [code.emit(f"getelementptr {e}, ptr {end}, i64 {at}") for end in (source, target)]
        got = code.emit(f"load {one}, ptr {ends[0]}, align {align}")
        code.do(f"store {one} {got}, ptr {ends[1]}, align {align}")

    bits = code.emit(f"bitcast {vector('i1', lanes)} %m to i{lanes}")
    if lanes < 64:
        bits = code.emit(f"zext i{lanes} {bits} to i64")
    at: Reg = "0"
    size = lanes // 2
    while size * align >= 4 and size:
        run, after = code.label("run"), code.label("after")
        here = code.emit(f"and i64 {code.emit(f'lshr i64 {bits}, {at}')}, {(1 << size) - 1}")
        code.branch(code.emit(f"icmp eq i64 {here}, {(1 << size) - 1}"), run, after)
        before = code.block
        code.start(run)
        copy(at, size)
        behind = code.emit(f"add i64 {at}, {size}")
        code.jump(after)
        code.start(after)
        at, phi = code.phi("i64", at, before)
        code.complete(phi, behind, run)
        size //= 2
    rest = code.emit(f"and i64 {bits}, {code.emit(f'shl i64 -1, {at}')}")
    single, done = code.label("single"), code.label("done")
    code.branch(code.emit(f"icmp eq i64 {rest}, 0"), done, single)
    before = code.block
    code.start(single)
    left, phi = code.phi("i64", rest, before)
    copy(Lanes(code, 0).call_immediate("cttz", "i64", left, True), 1)
    less = code.emit(f"and i64 {left}, {code.emit(f'add i64 {left}, -1')}")
    code.complete(phi, less, single)
    code.branch(code.emit(f"icmp eq i64 {less}, 0"), done, single)
    code.start(done)
    m = vector("i1", lanes)
    if store:
        code.do("ret void")
        head = f"define internal void @{name}({t} %x, ptr %p, {m} %m)"
    else:
        code.do(f"ret {t} {code.emit(f'load {t}, ptr {local}')}")
        head = f"define internal {t} @{name}(ptr %p, {m} %m)"
    em.module.helper_functions.append(code.finish(f"{head} #2"))
    return name


def _gathered(em: Emitter, e: str, pointers: Reg, mask: Reg | None, lanes: int, align: int) -> Reg:
    t, m, p = vector(e, lanes), vector("i1", lanes), vector("ptr", lanes)
    name, mask = _masked(em, "gather", e, mask, lanes, align)
    rest = "" if name.startswith("treadle") else f", {t} zeroinitializer"
    at = f"{p} align {align} {pointers}"
    return em.code.emit(f"call {t} @{name}({at}, {m} {mask}{rest})")


def _masked(em: Emitter, what: str, e: str, active: Reg | None, lanes: int, align: int
            ) -> tuple[str, Reg]:  # fmt: skip
    """The name of the function that gathers or scatters elements under the mask, and the mask.

    Where the CPU cannot, LLVM expands each masked call into one branch per lane, and takes seconds
    for a few dozen calls.  The module therefore defines one function without branches: inactive
    lanes access a dummy address.
    """
    mask = active or literal("i1", 1, lanes)
    t, m, p = vector(e, lanes), vector("i1", lanes), vector("ptr", lanes)
    name = f"llvm.masked.{what}.{suffix(e, lanes)}.v{lanes}p0"
    gather = what == "gather"
    em.module.declarations.setdefault(
        name, f"declare {t} @{name}({p}, {m}, {t})" if gather
        else f"declare void @{name}({t}, {p}, {m})",
    )  # fmt: skip
    if active is None or em.target.masks(what, BITS[e]):
        return name, mask
    ours = f"treadle.{what}.{e}.{lanes}.{align}"
    if ours not in em.module.helpers:
        em.module.helpers.add(ours)
        code = Code(em.module)
        v = Lanes(code, lanes)
        off = code.allocate("i64")
        code.do(f"store i64 0, ptr {off}")
        at = v.select("ptr", "%m", "%p", v.splat("ptr", off))
        end = f"{p} align {align} {at}, {m} {literal('i1', 1, lanes)}"
        if gather:
            code.do(f"ret {t} {code.emit(f'call {t} @{name}({end}, {t} zeroinitializer)')}")
            head = f"define internal {t} @{ours}({p} %p, {m} %m)"
        else:
            code.do(f"call void @{name}({t} %x, {end})")
            code.do("ret void")
            head = f"define internal void @{ours}({t} %x, {p} %p, {m} %m)"
        em.module.helper_functions.append(code.finish(f"{head} #2"))
    return ours, mask


def _is_loaded_singly(buffer: Buffer, step: int | None) -> bool:
    """Whether elements are loaded one by one.  Hardware prefetchers follow such loads, and they do
    not cost more than a gather.  A gather would load the parts of a complex number separately."""
    if buffer.type.is_complex:
        return True
    return step is not None and _align(memory_element(buffer.type)) >= 4


def _load_singly(em: Emitter, buffer: Buffer, base: Poly, step: int | None, index: Value,
                lanes: int, invariant: str) -> tuple[Reg, ...]:  # fmt: skip
    """Load elements one by one, each as a vector of its parts."""
    e, count = memory_element(buffer.type), parts(buffer.type)
    pointers = _pointers(em, buffer, base, step, index, lanes)
    pieces = [
        em.code.emit(f"load {vector(e, count)}, ptr {at}, align {_align(e)}{invariant}")
        for at in (Lanes(em.code, lanes).extract("ptr", pointers, k) for k in range(lanes))
    ]
    made = join(em.code, e, pieces, count)
    return deinterleave(em.code, e, made, lanes) if count == 2 else (made,)


def store(em: Emitter, buffer: Buffer, index: Value, value: Value) -> None:
    """`buffer[index] = value` for every active lane; if lanes share an index, the last one wins."""
    lanes = em.lanes if index.lanes or value.lanes else 0
    base, step = (index.poly, 0) if not index.lanes else lane_step(em, index)
    assert base is not None
    e = memory_element(buffer.type)
    if step == 0:
        if lanes:
            value = last_active(em, value)
        v = Lanes(em.code, 0)
        at = pointer(em, buffer, base)
        for k, r in enumerate(em.regs(value, 0)):
            part = em.code.emit(f"getelementptr {e}, ptr {at}, i64 {k}") if k else at
            em.code.do(f"store {e} {to_storage(v, buffer.type, r)}, ptr {part}, align {_align(e)}")
    else:
        v = Lanes(em.code, lanes)
        regs = [to_storage(v, buffer.type, r) for r in em.regs(value, lanes)]
        if step == 1:
            _store_vector(em, buffer, base, regs, lanes)
        else:
            _scatter(em, buffer, base, step, index, regs, lanes)
    em.touch((buffer,))
    if value.type != bool_ and value.lanes == lanes and step != 0:
        em.remember(("load", buffer, index.key, em.version(buffer)), value)


def _pieces(em: Emitter, buffer: Buffer, step: int) -> list[tuple[int, int]]:
    """Where a mask is known to be that of the first lanes, and masks cost more than they save: the
    first lanes and sizes of the powers of two that they are the sum of.  What is stored under a
    mask cannot be loaded again before it is in the cache."""
    count = em.code.first_lanes.get(em.mask or "", 0) if em.code.whole and step == 1 else 0
    if buffer.type.is_complex:
        return []
    found, first = list[tuple[int, int]](), 0
    for bit in reversed(range(count.bit_length())):
        if count >> bit & 1:
            found.append((first, 1 << bit))
            first += 1 << bit
    return found


def _with_piece(em: Emitter, e: str, at: Reg, into: Reg, lanes: int, first: int, size: int) -> Reg:
    """A vector with some consecutive elements in place of those lanes."""
    code = em.code
    place = code.emit(f"getelementptr {e}, ptr {at}, i64 {first}") if first else at
    got = code.emit(f"load {vector(e, size)}, ptr {place}, align {_align(e)}")
    picks = [k if k < size else -1 for k in range(lanes)]
    wide = Lanes(code, size).shuffle(e, got, "poison", picks)
    within = range(first, first + size)
    chosen = [lanes + k - first if k in within else k for k in range(lanes)]
    return Lanes(code, lanes).shuffle(e, into, wide, chosen)


def _store_vector(em: Emitter, buffer: Buffer, base: Poly, regs: list[Reg], lanes: int) -> None:
    e, mask = memory_element(buffer.type), em.mask
    count = lanes * len(regs)
    value = regs[0]
    if len(regs) == 2:
        value = interleave(em.code, e, regs[0], regs[1], lanes)
        if mask is not None:
            mask = interleave(em.code, "i1", mask, mask, lanes)
    at, t = pointer(em, buffer, base), vector(e, count)
    if mask is None:
        how = "align 64, !nontemporal !1" if em.streaming else f"align {_align(e)}"
        em.code.do(f"store {t} {value}, ptr {at}, {how}")
        return
    if pieces := _pieces(em, buffer, 1):
        for first, size in pieces:
            part = slice_lanes(em.code, e, value, lanes, first, size)
            to = em.code.emit(f"getelementptr {e}, ptr {at}, i64 {first}") if first else at
            em.code.do(f"store {vector(e, size)} {part}, ptr {to}, align {_align(e)}")
        return
    if not em.target.masks("store", BITS[e]):
        name = _by_runs(em, "store", e, count)
        em.code.do(f"call void @{name}({t} {value}, ptr {at}, {vector('i1', count)} {mask})")
        return
    name = f"llvm.masked.store.{suffix(e, count)}.p0"
    m = vector("i1", count)
    em.module.declarations.setdefault(name, f"declare void @{name}({t}, ptr captures(none), {m})")
    em.code.do(f"call void @{name}({t} {value}, ptr align {_align(e)} {at}, {m} {mask})")


#: The maximum number of rows of a square block that is transposed in registers.
SQUARE = 16
#: Bytes before and after the elements of a local buffer that may be read.
PADDING = 64
#: Rows of at most this many elements are loaded as vectors of consecutive elements.
WIDEST_ROWS = 64
#: Rows of at most this many elements are stored as vectors, each ending where the next begins.
WIDEST_ROW = 8


def are_rows(em: Emitter, buffer: Buffer, indices: list[Value]) -> bool:
    """Whether these indices are the elements of a row, with consecutive rows in the lanes."""
    width = len(indices)
    if buffer.type.is_complex or not all(p.lanes for p in indices):
        return False
    first, step = lane_step(em, indices[0])
    if step != width:
        return False
    for k, index in enumerate(indices):
        base, step = lane_step(em, index)
        if step != width or base != first + k:
            return False
    return True


def store_rows(em: Emitter, buffer: Buffer, index: Value, values: list[Value]) -> None:
    """Rows of `len(values)` elements, one a lane, from `index` on: vectors of neighbours, shuffled
    of those of each position in the row."""
    lanes, width = em.lanes, len(values)
    e, v = memory_element(buffer.type), Lanes(em.code, lanes)
    base, _ = lane_step(em, index)
    columns = [to_storage(v, buffer.type, em.regs(value, lanes)[0]) for value in values]
    each = min(lanes, em.target.vector_bytes // _align(e))
    one = Lanes(em.code, each)
    for start in range(0, lanes, each):
        parts = [slice_lanes(em.code, e, c, lanes, start, each) for c in columns]
        for part in range(width):
            slots = [divmod(part * each + lane, width) for lane in range(each)]
            made = parts[0]
            for k in range(1, width):
                picks = [
                    (lane if k > 1 else row) if column < k else each + row if column == k else -1
                    for lane, (row, column) in enumerate(slots)
                ]
                made = one.shuffle(e, made, parts[k], picks)
            at = pointer(em, buffer, base + (start * width + part * each))
            em.code.do(f"store {vector(e, each)} {made}, ptr {at}, align {_align(e)}")
    em.touch((buffer,))


def _scatter(em: Emitter, buffer: Buffer, base: Poly, step: int | None, index: Value,
             regs: list[Reg], lanes: int) -> None:  # fmt: skip
    e = memory_element(buffer.type)
    pointers = _pointers(em, buffer, base, step, index, lanes)
    for value, at in zip(regs, _part_pointers(em, buffer, pointers, lanes), strict=True):
        _scattered(em, e, at, value, em.mask, lanes)


def _scattered(em: Emitter, e: str, pointers: Reg, value: Reg, mask: Reg | None, lanes: int
               ) -> None:  # fmt: skip
    t, m, p = vector(e, lanes), vector("i1", lanes), vector("ptr", lanes)
    name, mask = _masked(em, "scatter", e, mask, lanes, _align(e))
    em.code.do(f"call void @{name}({t} {value}, {p} align {_align(e)} {pointers}, {m} {mask})")


def last_active(em: Emitter, value: Value) -> Value:
    """The value of the last active lane, as a uniform value."""
    if not value.lanes:
        return value
    lane: Reg = str(value.lanes - 1)
    if em.mask is not None:
        word = f"i{value.lanes}"
        bits = em.code.emit(f"bitcast {vector('i1', value.lanes)} {em.mask} to {word}")
        zeros = Lanes(em.code, 0).call_immediate("ctlz", word, bits, True)
        narrow = em.code.emit(f"sub {word} {value.lanes - 1}, {zeros}")
        lane = narrow if word == "i64" else em.code.emit(f"zext {word} {narrow} to i64")
    e = register_element(value.type)
    v = Lanes(em.code, value.lanes)
    regs = tuple(v.extract(e, r, lane) for r in em.regs(value))
    return em.in_register(value.type, regs, 0)
