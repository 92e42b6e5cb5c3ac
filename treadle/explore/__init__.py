"""One page to look at schedules: `treadle explore`.

The addresses of programs come from `pattern_of`, their kernels' text from the CUDA backend; the
page walks the addresses in any order, and sends them through any cache, by `simulator.js`, which a
test holds to the numbers of the simulator in Python.

presets    the programs that the page has by itself
own        a program of the person's
page       programs into one HTML file
"""

from .own import lowered, naming_no_function, own_program, plane_shapes
from .page import PageError, Shown, Variant, page
from .presets import presets

__all__ = [
    "PageError",
    "Shown",
    "Variant",
    "lowered",
    "naming_no_function",
    "own_program",
    "page",
    "plane_shapes",
    "presets",
]
