"""NPBench: 54 NumPy programs that others wrote, as treadle programs, beside NPBench's own versions.

`python -m benchmarks.npbench --clone DIR` measures them; `python -m benchmarks.npbench.page` writes
docs/npbench.md from the committed results.  Nothing of NPBench's code is here: its initialisers and
its versions for NumPy, Numba, JAX and CuPy are imported from the clone (github.com/spcl/npbench).
"""
