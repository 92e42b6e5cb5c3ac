"""Random programs over the whole public API, against the reference backend and NumPy.

`draw(seed, number)` gives a `Program`, a value that prints as a script; `judge(program, backend)`
says how it went there; `shrink` looks for a shorter one that goes as wrong; `campaign` draws and
judges many, each in a process that may crash or hang. From the root of the repository:

    python -m tests.conformance.fuzz --backend native --count 10000 --seed 0 --jobs 2
"""

from .campaign import Summary, campaign
from .drawing import GENERATED, NOT_GENERATED, draw
from .judging import Verdict, judge
from .program import Line, Manner, Program
from .shrinking import shrink

__all__ = ["GENERATED", "NOT_GENERATED", "Line", "Manner", "Program", "Summary", "Verdict",
           "campaign", "draw", "judge", "shrink"]  # fmt: skip
