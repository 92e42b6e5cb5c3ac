"""Kernels as text: what golden tests compare and people read."""

from __future__ import annotations

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk

from .ir import (
    Assign,
    Atomic,
    Barrier,
    Body,
    Collective,
    Comment,
    Declare,
    Fence,
    Fetch,
    FetchUpdate,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoadVector,
    Publish,
    Reduce,
    Report,
    Special,
    Statement,
    Store,
    StoreVector,
    While,
)

#: Conditions of more operations are counted, not shown.
_LONG_CONDITION = 9


def show(kernel: Kernel) -> str:
    """The kernel as text: what golden tests compare."""
    names: dict[Var, str] = {}

    def line(s: Statement, depth: int, out: list[str]) -> None:
        pad = "  " * depth
        match s:
            case Comment():
                out.append(f"{pad}// {s.text}")
            case Let():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = {text(s.value)}")
            case Declare():
                out.append(f"{pad}var {name(s.var)}: {s.var.type} = {text(s.value)}")
            case Assign():
                out.append(f"{pad}{name(s.var)} = {text(s.value)}")
            case Store():
                out.append(f"{pad}{s.buffer.name}[{text(s.index)}] = {text(s.value)}")
            case Atomic():
                how = "overwrite" if s.combine is None else ", ".join(
                    text(r) for r in s.combine.results)  # fmt: skip
                where = ", ".join(b.name for b in s.buffers)
                values = ", ".join(text(v) for v in s.values)
                lock = f" under {s.locks.name}" if s.locks else ""
                out.append(f"{pad}atomic {where}[{text(s.index)}] <- {values} by {how}{lock}")
            case If():
                out.append(f"{pad}if {text(s.condition)}:")
                block(s.then, depth + 1, out)
                if s.other:
                    out.append(f"{pad}else:")
                    block(s.other, depth + 1, out)
            case For():
                step = f" step {s.step}" if s.step != 1 else ""
                out.append(f"{pad}for {name(s.var)} in {text(s.start)} .. {text(s.stop)}{step} "
                           f"{s.kind}:")  # fmt: skip
                block(s.body, depth + 1, out)
            case While():
                out.append(f"{pad}while:")
                block(s.before, depth + 1, out)
                out.append(f"{pad}  break unless {text(s.condition)}")
                block(s.body, depth + 1, out)
            case Reduce():
                out.append(f"{pad}reduce {name(s.var)} in {text(s.start)} .. {text(s.stop)}:")
                block(s.body, depth + 1, out)
                for acc, value, result in zip(s.accumulators, s.values, s.combine.results,
                                           strict=True):  # fmt: skip
                    out.append(f"{pad}  {name(acc)} <- {text(value)} by {text(result)}")
            case Report():
                out.append(f"{pad}report {s.site} unless {text(s.ok)}: {text(s.index)} of "
                           f"{text(s.extent)}")  # fmt: skip
            case Barrier() | Fence():
                out.append(f"{pad}{type(s).__name__.lower()}")
            case LoadVector():
                got = ", ".join(name(v) for v in s.vars)
                out.append(f"{pad}let {got}: {s.buffer.type} = {s.buffer.name}"
                           f"[{text(s.index)} ..+{len(s.vars)}]")  # fmt: skip
            case StoreVector():
                values = ", ".join(text(v) for v in s.values)
                out.append(f"{pad}{s.buffer.name}[{text(s.index)} ..+{len(s.values)}] = {values}")
            case Fetch():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = fetch "
                           f"{s.buffer.name}[{text(s.index)}]")  # fmt: skip
            case Publish():
                out.append(f"{pad}publish {s.buffer.name}[{text(s.index)}] = {text(s.value)}")
            case FetchUpdate():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = fetch and {s.op} "
                           f"{s.buffer.name}[{text(s.index)}], {text(s.value)}")  # fmt: skip
            case Collective():
                args = ", ".join(text(a) for a in s.args)
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = warp {s.op}({args})")
            case Special():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = register {s.register}")
            case _:
                out.append(f"{pad}{s!r}")

    def name(v: Var) -> str:
        if v not in names:
            taken = sum(1 for other in names if other.name == v.name)
            names[v] = v.name if not taken else f"{v.name}_{taken}"
        return names[v]

    def text(e: Expr) -> str:
        if isinstance(e, Var):
            return name(e)
        if isinstance(e, Const):
            return str(e.value)
        if isinstance(e, Load):
            return f"{e.buffer.name}[{text(e.index)}]"
        if isinstance(e, Apply):
            if len(e.args) == 2 and e.op.symbol:
                return f"({text(e.args[0])} {e.op.symbol} {text(e.args[1])})"
            head = f"{e.type}" if e.op.name == "cast" else e.op.name
            return f"{head}({', '.join(text(a) for a in e.args)})"
        if isinstance(e, Foreign):
            return f"{e.function.name}({', '.join(text(a) for a in e.args)})"
        return repr(e)

    def block(body: Body, depth: int, out: list[str]) -> None:
        if not body:
            out.append("  " * depth + "pass")
        for s in body:
            line(s, depth, out)

    out: list[str] = [f"// {c}" for c in kernel.comments]
    scalars = ", ".join(f"{name(v)}: {v.type}" for v in kernel.scalars)
    wide = kernel.fallback  # of a narrow kernel: sizes of buffers are over its scalars
    for mine, other in zip(kernel.scalars, wide.scalars if wide else (), strict=False):
        if mine.name == other.name:
            names.setdefault(other, name(mine))
    buffers = ", ".join(f"{b.role} {b.name}: {b.type}[{text(b.size)}]" for b in kernel.buffers)
    out.append(f"kernel {kernel.name}({buffers}; {scalars})")
    short = [c for c in kernel.requires if len(list(walk((c,)))) <= _LONG_CONDITION]
    conditions = [text(c) for c in short]
    if len(short) < len(kernel.requires):
        conditions.append(f"{len(kernel.requires) - len(short)} bounds of its numbers")
    conditions += [f"{b.name} aligned" for b in kernel.aligned]
    if conditions:
        out.append(f"  requires {', '.join(conditions)}")
    if kernel.policies:
        told = ", ".join(f"{b.name} {policy}" for b, policy in kernel.policies)
        out.append(f"  caches: {told}")
    out.append(f"  for {name(kernel.task)} in 0 .. {text(kernel.tasks)} tasks:")
    if kernel.thread is not None:
        out.append(f"  for {name(kernel.thread)} in 0 .. {kernel.threads} threads:")
    block(kernel.body, 2, out)
    if kernel.fallback is not None:
        out.append("otherwise")
        return "\n".join(out) + "\n" + show(kernel.fallback)
    return "\n".join(out) + "\n"
