"""Several GPUs: their numbers, and arrays in parts on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.backend.registry import load
from treadle.dsl.annotations import Argument
from treadle.dsl.errors import BackendUnavailable, TracingError, user_facing
from treadle.dsl.target import target_of

if TYPE_CHECKING:
    from treadle.backend.cuda.several.sharded import Sharded


def gpus(devices: int | Sequence[int], backend: str | None = "cuda") -> tuple[int, ...]:
    """The numbers of the GPUs that `devices` asks for."""
    if backend is None or not target_of(backend).several:
        other = "" if backend is None else f", not {backend!r}"
        raise BackendUnavailable(
            f'devices= is for several GPUs: it needs backend="cuda"{other}.',
            hint='Write td.jit(f, backend="cuda", devices=2).',
        )
    numbers = range(devices) if isinstance(devices, int) else devices
    found = tuple(numbers) if isinstance(numbers, Sequence) else ()
    plain = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in found)
    if not found or isinstance(devices, bool | str) or not plain or len(set(found)) < len(found):
        raise TracingError(
            f"devices= is a number of GPUs, or a list of their numbers, got {devices!r}.",
            hint="devices=2 is the same as devices=[0, 1].",
        )
    return found


@user_facing
def shard(x: Argument, devices: int | Sequence[int]) -> Sharded:
    """Put an array in parts on several GPUs, cut along its first axis.

    Functions that are compiled for these GPUs then take and return arrays in parts, and nothing is
    copied from and to the host.

    Parameters
        x: an array of NumPy or CuPy; anything with DLPack or a buffer.
        devices: the number of GPUs, or a list of their numbers.

    Result: a `Sharded`, which `np.asarray` copies to the host.

    Errors: `BackendUnavailable` if there are not so many GPUs.

    >>> import numpy as np, treadle as td
    >>> u = td.shard(np.arange(4), devices=2)  # doctest: +SKIP
    >>> td.jit(lambda a: a * 2, backend="cuda", devices=2)(u)  # doctest: +SKIP
    <Sharded int64 4, 2 parts on GPUs 0, 1>

    See also `jit`.
    """
    found: Sharded = load("cuda").sharded(x, gpus(devices))
    return found
