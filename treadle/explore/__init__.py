"""The page of `treadle explore`, which shows schedules at work.

`pattern_of` gives the addresses of programs, the CUDA backend the text of their kernels.  The page
visits the addresses in any order and simulates any cache, by `simulator.js`, which a test compares
with the simulator in Python.

presets    the built-in programs of the page
own        a user's program
page       programs combined into one HTML file
"""

from .page import PageError, Shown, Variant, page
from .presets import presets
from .user_program import load_program, lowered, naming_no_function, plane_shapes

__all__ = ["PageError", "Shown", "Variant", "lowered", "naming_no_function", "load_program", "page",
           "plane_shapes", "presets"]  # fmt: skip
