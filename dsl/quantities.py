"""Quantities as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Three digits, in the unit that suits.

    >>> duration(1.57), duration(0.0834), duration(1.23e-5), duration(754)
    ('1.57 s', '83.4 ms', '12.3 µs', '754 s')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * size:
            scaled = seconds / size
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
