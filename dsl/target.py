"""The target of a program, which tells passes, lowerings and analyses the kind of machine."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Target:
    """A kind of machine.

    `gpu`: kernels run in blocks of threads with warps and shared memory, otherwise as tasks on
    cores.  `kernels`: programs are compiled to kernels; otherwise the graph is interpreted.
    `blocks`: arrays are in blocks that an engine computes.  `several`: a program may be compiled
    for several of these machines at once.

    `operations`: those that the machine or its compiler's library provides; others are decomposed
    (`skeletons/ir/decompose.py`):

        integer absolute        |a| of integers; of the least integer, itself
        classification          isnan, isinf, isfinite and signbit of float32 and float64
        nextafter               of float32 and float64
        saturating conversion   floats beyond the range of an integer type are clamped to it
        S to T of NaN           converting NaN from the type S to the type T gives 0
        float64 to float16      rounded once
        complex conversion      between the complex types
        atomic float addition   except for bfloat16
        short atomic operations of 8 and 16 bits: sums, minima and maxima
    """

    name: str
    gpu: bool = False
    kernels: bool = True
    blocks: bool = False
    several: bool = False
    operations: frozenset[str] = frozenset()

    @property
    def in_memory(self) -> bool:
        """Whether kernels run over arrays that are whole in one memory."""
        return self.kernels and not self.blocks

    @property
    def cores(self) -> bool:
        """Whether CPU cores run kernels over arrays that are whole in memory."""
        return self.in_memory and not self.gpu


_targets: dict[str, Target] = {}


def register(target: Target) -> Target:
    """Register a target under its name, which is that of its backend."""
    _targets[target.name] = target
    return target


def target_of(name: str) -> Target:
    """The target with this name; an unregistered one interprets the graph."""
    return _targets.get(name, Target(name, kernels=False))


REFERENCE = register(Target("reference", kernels=False))
NATIVE = register(Target("native", operations=frozenset((
    "integer absolute", "short atomic operations",
))))  # fmt: skip
#: `native` computes the blocks of dask arrays, with the same bits.
register(replace(NATIVE, name="dask", blocks=True))
CUDA = register(Target("cuda", gpu=True, several=True, operations=frozenset((
    "classification", "nextafter", "saturating conversion", "float32 to int32 of NaN",
    "float32 to uint32 of NaN", "float64 to float16", "complex conversion", "atomic float addition",
))))  # fmt: skip
