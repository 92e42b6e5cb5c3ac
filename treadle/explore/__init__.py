"""The page of `treadle explore`, which shows schedules at work.

`pattern_of` gives the addresses of programs, the CUDA backend the text of their kernels.  The page
visits the addresses in any order and simulates any cache, by `simulator.js`, which a test compares
with the simulator in Python.

presets    the built-in programs of the page
own        a user's program
page       programs combined into one HTML file
"""

from .own import lowered, naming_no_function, own_program, plane_shapes
from .page import PageError, Shown, Variant, page
from .presets import presets

__all__ = ["PageError", "Shown", "Variant", "lowered", "naming_no_function", "own_program", "page",
           "plane_shapes", "presets"]  # fmt: skip
