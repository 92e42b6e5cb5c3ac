"""What a program is for, as passes, lowerings and analyses see it: never a backend's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A kind of machine.

    `gpu`: kernels are for blocks of threads with warps and shared memory, else for tasks on cores.
    `kernels`: programs become kernels; without them the graph is run as it was written.
    """

    name: str
    gpu: bool = False
    kernels: bool = True


_targets: dict[str, Target] = {}


def register(target: Target, *names: str) -> None:
    """Make a target known by its name, which is that of its backend, and by others."""
    for name in (target.name, *names):
        _targets[name] = target


def target_of(name: str) -> Target:
    """The target of a name; one that nobody registered runs the graph as it was written."""
    return _targets.get(name, Target(name, kernels=False))


register(Target("reference", kernels=False))
register(Target("native"), "cpu")
register(Target("cuda", gpu=True))
