"""treadle's examples: each file is one lesson and produces a picture or a table.

Run one with ``treadle example NAME``, or ``python -m treadle.examples.NAME``. Every lesson has

- ``main(...)``, which computes, writes its picture and returns a `treadle.examples._show.Made`;
- ``program()``, its principal compiled function lowered at a small size, for ``treadle explain``.
"""
