"""Benchmarks: treadle beside what a user would pick instead, in the same process and run.

`python -m benchmarks` measures the CPU; see `benchmarks/cpu.py`.
"""
