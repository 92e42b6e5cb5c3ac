"""Caches and their replacement policies, as values.

>>> Cache(lines=24, line_width=4, policy=StepLru()).size
96
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treadle.dsl.errors import ScheduleError, user_facing_class


@dataclass(frozen=True)
class Policy:
    """What a full cache evicts.  Raises `ScheduleError` for invalid parameters."""

    def _require(self, name: str, least: int, most: int | None = None) -> None:
        number = getattr(self, name)
        integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not integer or number < least or (most is not None and number > most):
            upto = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ScheduleError(f"{type(self).__name__}: {name} must be an integer {upto}, "
                                f"got {number!r}.",
                                hint=f"Write {type(self).__name__}({name}=4).")  # fmt: skip


@dataclass(frozen=True)
class Lru(Policy):
    """Evicts the least recently used line; every access counts.

    >>> import treadle as td
    >>> td.Cache(policy=td.simulator.Lru()).policy
    Lru()
    """


@dataclass(frozen=True)
class StepLru(Policy):
    """Evicts the least recently used line, with all accesses of one time step simultaneous.

    A time step is one output; of the lines last used in the same step, the one fetched first is
    evicted (the setting of Prasetya 2021, section 4.1.1).

    >>> import treadle as td
    >>> td.Cache(policy=td.simulator.StepLru()).policy
    StepLru()
    """


@user_facing_class
@dataclass(frozen=True)
class SetAssociative(Policy):
    """Sets of `ways` lines; evicts the least recently used line of a set; set = line mod sets.

    >>> import treadle as td
    >>> td.simulator.SetAssociative(8).ways
    8
    """

    ways: int = 4

    def __post_init__(self) -> None:
        self._require("ways", 1)


@user_facing_class
@dataclass(frozen=True)
class Sectored(Policy):
    """Least recently used lines of `sectors` sectors; a miss fetches one sector.

    Like GPUs since Volta: lines of 128 bytes, 4 sectors of 32.  `ways` 0: fully associative.

    >>> import treadle as td
    >>> td.simulator.Sectored(sectors=4).sectors
    4
    """

    sectors: int = 4
    ways: int = 0

    def __post_init__(self) -> None:
        self._require("sectors", 1, 32)
        self._require("ways", 0)


@user_facing_class
@dataclass(frozen=True)
class RandomFour(Policy):
    """Evicts four neighbouring lines at random, as measured on the L1 of Volta and Turing.

    >>> import treadle as td
    >>> td.Cache(policy=td.simulator.RandomFour(seed=1)).lines
    256
    """

    seed: int = 0
    together: int = 4

    def __post_init__(self) -> None:
        self._require("seed", 0, 2**32 - 1)
        self._require("together", 1)


#: Policies by name, with their default parameters.
POLICIES: dict[str, Policy] = {
    "lru": Lru(), "step_lru": StepLru(), "set_associative": SetAssociative(),
    "sectored": Sectored(), "random": RandomFour(),
}  # fmt: skip


def policy_of(value: object) -> Policy:
    """A policy, or the policy of this name; `ScheduleError` for anything else."""
    found = POLICIES.get(value) if isinstance(value, str) else value
    if not isinstance(found, Policy):
        known = ", ".join(f"{kind.__name__}()" for kind in Policy.__subclasses__())
        names = ", ".join(map(repr, POLICIES))
        raise ScheduleError(
            f"{value!r} is not a cache policy.",
            hint=f"Write one of td.simulator's {known}, or of {names}.",
        )
    return found


@user_facing_class
@dataclass(frozen=True)
class Cache:
    """A cache of `lines` lines of `line_width` elements (32 of 4 bytes are a line of a GPU);
    `policy`: a value, or its name, as in POLICIES.

    Raises `ScheduleError` for invalid sizes.

    >>> import treadle as td
    >>> td.Cache(lines=16, line_width=8).size
    128
    """

    lines: int = 256
    line_width: int = 32
    policy: Policy | str = field(default_factory=Lru)

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", policy_of(self.policy))
        if not all(isinstance(n, int | np.integer) for n in (self.lines, self.line_width)):
            raise ScheduleError(f"a cache of {self.lines!r} lines of {self.line_width!r} elements.",
                                hint="Both are integers: td.Cache(256, 32).")  # fmt: skip
        if self.lines < 1 or self.line_width < 1:
            raise ScheduleError(f"a cache of {self.lines} lines of {self.line_width} elements.",
                                hint="Both are at least 1.")  # fmt: skip
        ways = getattr(self.policy, "ways", 0)
        if ways and self.lines % ways:
            raise ScheduleError(f"{self.lines} lines do not make sets of {ways}.",
                                hint=f"Choose a multiple of {ways} lines.")  # fmt: skip
        if isinstance(self.policy, Sectored) and self.line_width % self.policy.sectors:
            raise ScheduleError(
                f"a line of {self.line_width} elements has no {self.policy.sectors} equal sectors.",
                hint="Choose a line width that the number of sectors divides.",
            )
        if isinstance(self.policy, RandomFour) and self.lines % self.policy.together:
            raise ScheduleError(
                f"{self.lines} lines are not a multiple of groups of {self.policy.together}.",
                hint=f"Choose a multiple of {self.policy.together} lines.",
            )

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.lines * self.line_width
