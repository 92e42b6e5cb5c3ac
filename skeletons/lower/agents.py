"""Assignment of a kernel's tasks to blocks: transformations of one variant of a kernel that
preserve its meaning.

    agents      persistent blocks: each queries its multiprocessor, takes the next task of that
                multiprocessor's queue, and steals from the tail of another queue when it is empty
    redirected  renumbers the tasks so that neighbouring tasks are `count` launches apart
    reordered   runs the tasks in the order of a table

All of them require independent tasks, which may run in any order.

A queue holds a range of task ids (or of positions in a table).  Of T tasks, each of Q queues gets
⌊T/Q⌋, and the first T mod Q queues get one more.  The state of a queue is one 64-bit word: the
low half counts the tasks taken from the front, the high half those stolen from the tail.  One
atomic addition to the word takes a task.  If the word was (h, s) before it and h + s < size, the
owner gets task h and a thief gets task size − 1 − s; otherwise the queue is empty and stays empty.
Every task is taken exactly once, because each addition increases h + s by one and the owners' tasks
stay below the stolen ones.  An agent that finds its queue empty inspects all queues, continues
with the fullest (the nearest on a tie), and exits when all are empty.  Correctness does not depend
on which multiprocessors have blocks, nor on their speed.

An agent requests its next task before it executes the current one, which hides the latency of the
atomic, as long as the queue has more tasks than agents that could take them.

After A. Li et al., *Locality-aware CTA clustering for modern GPUs* (ASPLOS 2017): agents,
redirection; D. Tripathy et al., *PAVER* (TACO 2021): queues, stealing from the fullest one's tail.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.dsl import simplify
from treadle.dsl.expr import Const, Expr, Var, constant, primitive, substitute
from treadle.dsl.types import int32, int64, uint32

from ..ir import arithmetic as at, kernel as ir

#: Each queue word has a 32-byte sector of its own, so that atomics on one do not disturb others.
STRIDE = 4
_HALF = 32
#: Counts stay below 2³⁰: fewer than 2³¹ tasks are shared by more than two multiprocessors, and an
#: agent queries an empty queue once.
_COUNT = (1 << 30) - 1


def independent(kernel: ir.Kernel) -> bool:
    """Whether the tasks of a kernel (and of its fallbacks) may run in any order, one by one."""
    return not any(
        isinstance(s, ir.Fetch | ir.Publish | ir.FetchUpdate) and s.buffer.role != "shared"
        for k in kernel.variants
        for s in ir.statements(k.body)
    )


def agents(
    kernel: ir.Kernel, queues: int, per_queue: int, words: ir.Buffer, table: ir.Buffer | None = None
) -> ir.Kernel:
    """`kernel` run by at most `queues` × `per_queue` persistent blocks (module docstring).

    `words`: int64 scratch, `STRIDE` words per queue, zero when the kernel starts.  `table` (int32,
    one entry per task): the tasks in queue order; without it, tasks are ordered by number.
    """
    task, thread = kernel.task, kernel.thread
    assert thread is not None, "agents are blocks of a GPU"
    share, spare, scalars, values = _shares(kernel, queues)
    # One more than the position of the next task; 0 if there is none.
    ticket = ir.Buffer("ticket", int32, "shared", constant(2), below=kernel.tasks + 1)
    fullest = ir.Buffer("fullest", int32, "shared", constant(1), below=constant((1 << 31) - 1))

    def begin(q: Expr) -> Expr:
        return q * share + at.minimum(q, spare)

    def size(q: Expr) -> Expr:
        return share + at.select(at.less(q, spare), 1, 0)

    def taken(word: Expr) -> tuple[Expr, Expr]:
        """The numbers of tasks taken by owners and by thieves."""
        high = _bits("right_shift", word, _HALF)
        return _bits("bitwise_and", word, _COUNT), _bits("bitwise_and", high, _COUNT)

    def remains(length: Expr, word: Expr) -> Expr:
        """The number of tasks left in a queue; once 0 or less, it stays so."""
        front, stolen = taken(word)
        return at.maximum(length - front, 0) - stolen

    sm, here = Var("multiprocessor", uint32), Var("here", int64)
    victim, more, slot = Var("victim", int64), Var("more", int64), Var("slot", int64)
    mine, first, length = Var("mine", task.type), Var("first", int64), Var("length", int64)
    word, following = Var("word", int64), Var("following", int64)
    rest, requested = Var("rest", int64), Var("asked", int64)
    got, top = Var("got", int64), Var("top", int64)
    q, state, left = Var("queue", int64), Var("held", int64), Var("left", int64)

    leader = at.equal(thread, 0)
    front, stolen = taken(word)
    own = at.equal(victim, here)
    position = first + at.select(own, front + 1, length - stolen)
    request: ir.Body = (
        ir.FetchUpdate(word, words, victim * STRIDE, at.select(own, 1, 1 << _HALF)),
        ir.Assign(rest, remains(length, word)),
        ir.Assign(following, at.select(at.less(0, rest), position, 0)),
    )
    # A 32-bit sort key, fuller queues first: the (capped) number of tasks left in the high bits,
    # the nearness of the queue in the low bits.  Different agents break ties differently, since
    # near the end few tasks are left in many queues.
    bits = (queues - 1).bit_length()
    much = (1 << (31 - bits)) - 1
    far = (q + queues - here) % queues
    near = (1 << bits) - 1 - far
    key = simplify.cast(at.minimum(left, much) * (1 << bits) + near, int32)
    look: ir.Body = (
        ir.Fetch(state, words, q * STRIDE, ordered=False),
        ir.Let(left, remains(size(q), state)),
        ir.If(
            at.less(0, left),
            (ir.FetchUpdate(Var("old", int32), fullest, constant(0), key, "maximum"),),
        ),
    )
    # One queue per thread, or a loop that the compiler should not unroll.
    candidate = Var("candidate", int64)
    all_queues: tuple[ir.Statement, ...] = (
        ir.If(at.less(thread, queues), (ir.Let(q, thread), *look)),
    )
    if kernel.threads < queues:
        step = ir.Assign(candidate, candidate + kernel.threads)
        looking = ir.While((), at.less(candidate, queues), (ir.Let(q, candidate), *look, step))
        all_queues = (ir.Declare(candidate, thread), looking)
    none = at.equal(top, 0)
    distance = (1 << bits) - 1 - _bits("bitwise_and", top, (1 << bits) - 1)
    fuller = (here + distance) % queues
    search: ir.Body = (
        ir.If(leader, (ir.Store(fullest, constant(0), Const(0, int32)),)),
        ir.Barrier(),
        *all_queues,
        ir.Barrier(),
        ir.Let(top, simplify.cast(ir.Load(fullest, constant(0)), int64)),
        ir.If(
            none,
            (ir.Assign(more, constant(0)),),
            (
                ir.Assign(victim, fuller),
                ir.Assign(first, begin(victim)),
                ir.Assign(length, size(victim)),
            ),
        ),
    )
    before: ir.Body = (
        # Two alternating slots: a thread writes one only after all have read the other.
        ir.If(
            leader,
            (
                ir.If(at.equal(requested, 0), request),
                ir.Store(ticket, slot, simplify.cast(following, int32)),
                ir.Assign(requested, constant(0)),
            ),
        ),
        ir.Barrier(),
        ir.Let(got, simplify.cast(ir.Load(ticket, slot), int64)),
        ir.Assign(slot, 1 - slot),
        ir.If(at.equal(got, 0), search),
        ir.If(
            at.both(leader, at.less(0, got), at.less(per_queue, rest)),
            (*request, ir.Assign(requested, constant(1))),
        ),
    )
    number = at.maximum(got - 1, 0)
    if table is not None:
        number = _looked_up(table, number)
    number_here = simplify.apply(primitive("remainder"), (sm, Const(queues, uint32)), uint32)
    work = ir.If(at.less(0, got), (ir.Let(task, number), *kernel.body))
    loop = ir.While(before, at.equal(more, 1), (work,))
    body: ir.Body = (
        ir.Special(sm, "smid"),
        ir.Let(here, simplify.cast(number_here, int64)),
        ir.Declare(victim, here),
        ir.Declare(first, begin(here)),
        ir.Declare(length, size(here)),
        ir.Declare(following, constant(0)),
        ir.Declare(rest, constant(0)),
        ir.Declare(requested, constant(0)),
        ir.Declare(slot, constant(0)),
        ir.Declare(more, constant(1)),
        loop,
    )
    order = f", {table.name} has their order" if table is not None else ""
    return replace(
        kernel,
        buffers=(*kernel.buffers, *([] if table is None else [table]), words, ticket, fullest),
        scalars=(*kernel.scalars, *scalars),
        scalar_values=(*kernel.scalar_values, *values),
        tasks=at.minimum(kernel.tasks, queues * per_queue),
        task=mine,
        body=body,
        resident=0,  # the number of agents determines it
        comments=(*kernel.comments, f"{per_queue} {'agents' if per_queue > 1 else 'agent'} on each "
                  f"multiprocessor, {queues} queues{order}"),
    )  # fmt: skip


def _bits(name: str, e: Expr, by: int) -> Expr:
    return simplify.apply(primitive(name), (e, constant(by)), int64)


def _shares(kernel: ir.Kernel, queues: int) -> tuple[Expr, Expr, tuple[Var, ...], tuple[Expr, ...]]:
    """Tasks per queue and the remainder: kernel scalars unless constant."""
    share, spare = kernel.tasks // queues, kernel.tasks % queues
    if isinstance(kernel.tasks, Const):
        return share, spare, (), ()
    names = Var("share", int64), Var("spare", int64)
    return (*names, names, substitute((share, spare), kernel.hosts))


def redirected(kernel: ir.Kernel, neighbours: int, multiprocessors: int) -> ir.Kernel:
    """Renumber tasks so that `neighbours` consecutive ones are `multiprocessors` launches apart: a
    GPU that assigns blocks round-robin runs them on the same multiprocessor.

    In a group of neighbours · M tasks (M multiprocessors), task u becomes
    (u mod M) · neighbours + u div M.  The last tasks, too few for a group, keep their numbers.
    """
    task, group = kernel.task, neighbours * multiprocessors
    mine = Var("mine", task.type)
    rest = mine % group
    moved = mine - rest + (rest % multiprocessors * neighbours + rest // multiprocessors)
    whole = kernel.tasks - kernel.tasks % group
    scalars: tuple[Var, ...] = ()
    values: tuple[Expr, ...] = ()
    if not isinstance(whole, Const):
        values, whole = substitute((whole,), kernel.hosts), Var("grouped", int64)
        scalars = (whole,)
    number = _within(at.select(at.less(mine, whole), moved, mine), kernel.tasks)
    return replace(
        kernel,
        scalars=(*kernel.scalars, *scalars),
        scalar_values=(*kernel.scalar_values, *values),
        task=mine,
        body=(ir.Let(task, number), *kernel.body),
        comments=(*kernel.comments, f"{neighbours} neighbours {multiprocessors} blocks apart"),
    )


def reordered(kernel: ir.Kernel, table: ir.Buffer) -> ir.Kernel:
    """Run the tasks in the order of a table (int32, one entry per task)."""
    mine = Var("mine", kernel.task.type)
    number = _looked_up(table, mine)
    return replace(
        kernel,
        buffers=(*kernel.buffers, table),
        task=mine,
        body=(ir.Let(kernel.task, number), *kernel.body),
        comments=(*kernel.comments, f"tasks in the order of {table.name}"),
    )


def _looked_up(table: ir.Buffer, position: Expr) -> Expr:
    return simplify.cast(ir.Load(table, position), int64)


def _within(number: Expr, tasks: Expr) -> Expr:
    """The number of a task, with explicit bounds for the range analysis of later arithmetic."""
    return at.maximum(at.minimum(number, tasks - 1), 0)
