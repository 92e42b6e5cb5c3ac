"""One run of a program: what its slots hold, on the device and on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from treadle.dsl.expr import Expr, Param, Read, substitute, walk
from treadle.dsl.graph import Leaf

from ..runtime.host import HostCompiler
from .device.device import Block, Copy
from .graphs.tape import Queue


class Run:
    """The state of one run.

    `faces[slot]` is a `Block` on the device, or a NumPy array that is only on the host (numbers
    that the host computed, data not copied yet), or None.  `shapers` collects the positions of the
    parameters that decide what runs, or over which extents: a tape is good for one value of them.
    """

    __slots__ = ("_host", "faces", "params", "queue", "shapers")

    def __init__(self, queue: Queue, faces: list[Any], params: Sequence[Any]) -> None:
        self.queue, self.faces, self.params = queue, faces, params
        self.shapers: set[int] = set()
        self._host: dict[int, tuple[Any, Any]] = {}

    def block(self, slot: int) -> Block:
        """What a slot holds, on the device."""
        face = self.faces[slot]
        if isinstance(face, Block):
            return face
        made = self.faces[slot] = self.queue.upload(face)
        self._host[slot] = made, face
        return made

    def dense(self, slot: int) -> Block:
        """What a slot holds, dense on the device."""
        block = self.block(slot)
        if not block.dense:
            made = self.queue.block(block.shape, block.dtype)
            self.queue.put(Copy(made, block))
            block = self.faces[slot] = made
        return block

    def on_host(self, slot: int) -> np.ndarray[Any, Any]:
        """What a slot holds, on the host (copied once)."""
        face = self.faces[slot]
        if not isinstance(face, Block):
            return np.asarray(face)
        kept = self._host.get(slot)
        if kept is None or kept[0] is not face:
            kept = self._host[slot] = face, self.queue.download(face)
        return np.asarray(kept[1])

    def alone(self, slot: int) -> bool:
        """Whether a slot holds a block of the program's own that no other slot holds, and no check
        looks at in the end."""
        face = self.faces[slot]
        if not isinstance(face, Block) or face.kind == "input":
            return False
        if any(face in v.blocks for v in self.queue.verdicts or ()):
            return False
        return sum(f is face for f in self.faces) == 1


class HostFunction:
    """Host expressions over extents, parameters and the contents of small arrays, for a run.

    `conditions`, over `scalars`, as `HostCompiler.plan` takes them.
    """

    __slots__ = ("_compiler", "_conditions", "_made", "params", "reads", "roots")

    def __init__(
        self,
        compiler: HostCompiler,
        roots: Sequence[Expr],
        conditions: Sequence[Expr] = (),
        scalars: Mapping[Expr, Expr] = MappingProxyType({}),
    ) -> None:
        self._compiler, self._conditions = compiler, (conditions, scalars)
        self.roots = (*roots, *substitute(conditions, dict(scalars)))
        self._made: Any = None
        nodes = list(walk(self.roots))
        self.params = {compiler.param_index[e] for e in nodes if isinstance(e, Param)}
        reads = [compiler.slot(Leaf(e.node, e.component)) for e in nodes if isinstance(e, Read)]
        self.reads = tuple(dict.fromkeys(reads))

    @property
    def _function(self) -> Callable[..., tuple[Any, ...]]:
        if self._made is None:
            conditions, scalars = self._conditions
            roots = self.roots[: len(self.roots) - len(conditions)]
            self._made = self._compiler.plan(roots, conditions, scalars).function()
        made: Callable[..., tuple[Any, ...]] = self._made
        return made

    def __call__(self, run: Run, *, shapes: bool = True) -> tuple[Any, ...]:
        """The values; `shapes`: what runs, or over which extents, depends on them."""
        if shapes:
            run.shapers |= self.params
        return self._function(self.view(run), run.params)

    def view(self, run: Run) -> list[Any]:
        """The slots as the function reads them."""
        if not self.reads:
            return run.faces
        faces = list(run.faces)
        for slot in self.reads:
            faces[slot] = run.on_host(slot)
        return faces

    def after(self, run: Run) -> tuple[tuple[Block, ...], Any] | None:
        """Blocks of rank 0 that a run makes, and a function of what they hold in the end and of the
        parameters; None where more of the device is read than such numbers."""
        slots = [s for s in self.reads if isinstance(run.faces[s], Block)]
        blocks = tuple(run.faces[s] for s in slots)
        if not blocks or any(b.shape or b.kind == "input" for b in blocks):
            return None
        run.shapers |= self.params
        faces, function = list(run.faces), self._function

        def values(held: Sequence[Any], params: Sequence[Any]) -> tuple[Any, ...]:
            found = list(faces)
            for slot, value in zip(slots, held, strict=True):
                found[slot] = value
            return function(found, params)

        return blocks, values

    @property
    def plain(self) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
        """(slots, parameters) → values, for slots that hold all it reads as arrays of the host."""
        return self._function

    def later(self, run: Run) -> Any:
        """A function of the parameters alone, for the extents of this run."""
        faces, function = list(self.view(run)), self._function
        return lambda params: function(faces, params)
