"""The stages of canny.py in SciPy and NumPy, for comparison.

SciPy has no non-maximum suppression; that stage uses NumPy on entire arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

import treadle as td
from treadle.examples._show import Table
from treadle.examples._timing import Contest, race

Array = NDArray[Any]
_WEIGHTS = np.exp(-0.5 * (np.arange(-2, 3) / 1.4) ** 2)
GAUSS = _WEIGHTS / _WEIGHTS.sum()


def smooth(rgb: Array) -> Array:
    """Grey in [0, 1], blurred along both axes."""
    r, g, b = (rgb[:, :, k].astype(np.float32) for k in range(3))
    grey = (0.299 * r + 0.587 * g + 0.114 * b) / 255
    across = ndimage.correlate1d(grey, GAUSS, axis=1, mode="mirror")
    blurred: Array = ndimage.correlate1d(across, GAUSS, axis=0, mode="mirror")
    return blurred


def slope(smoothed: Array) -> tuple[Array, Array, Array]:
    """The Sobel gradient: its magnitude and its two components."""
    dx = ndimage.sobel(smoothed, axis=1, mode="nearest") / 4
    dy = ndimage.sobel(smoothed, axis=0, mode="nearest") / 4
    return np.sqrt(dx * dx + dy * dy), dx, dy


def thin(gradient: tuple[Array, Array, Array], strong: float) -> Array:
    """2 on a strong ridge of the gradient, 1 on a weak one, 0 elsewhere."""
    length, dx, dy = gradient
    padded, (h, w) = np.pad(length, 1), length.shape
    near = {
        (i, j): padded[1 + i : 1 + i + h, 1 + j : 1 + j + w] for i in (-1, 0, 1) for j in (-1, 0, 1)
    }
    level, steep = abs(dy) <= 0.41421356 * abs(dx), abs(dx) < 0.41421356 * abs(dy)
    ways = [level, steep, dx * dy > 0]
    before = np.select(ways, [near[0, -1], near[-1, 0], near[-1, -1]], near[-1, 1])
    after = np.select(ways, [near[0, 1], near[1, 0], near[1, 1]], near[1, -1])
    ridge = (length > before) & (length >= after)
    weak = ridge & (length >= np.float32(0.4 * strong))
    return weak.astype(np.uint8) + (ridge & (length >= np.float32(strong)))


def join(ridges: Array) -> Array:
    """Strong ridges, and the weak ones connected to them."""
    joined: Array = ndimage.binary_propagation(ridges == 2, np.ones((3, 3)), ridges > 0)
    return joined


def edges(rgb: Array, strong: float) -> Array:
    """All four stages."""
    return join(thin(slope(smooth(rgb)), strong))


def compare(
    stages: tuple[Callable[..., Any], ...], rgb: Array, strong: float
) -> tuple[Table, float]:
    """Compare treadle's (smooth, slope, thin, join, edges) with the functions of this module.

    Also reports the share of pixels on which both agree.
    """
    blur, gradient, ridges, joined = map(td.jit, stages[:-1])
    everything = stages[-1]  # compiled already
    grey = smooth(rgb)
    steep = slope(grey)
    h, w, _ = rgb.shape
    contests: list[Contest] = [
        ("blur", blur, smooth, (rgb,)),
        ("Sobel", gradient, slope, (grey,)),
        ("thin", ridges, thin, (steep, strong)),
        ("join (loop)", joined, join, (thin(steep, strong),)),
        ("all as one", everything, edges, (rgb, strong)),
    ]
    same = np.mean(everything(rgb, strong) == edges(rgb, strong))
    return race(f"{w} x {h} pixels, median times", "SciPy", contests), float(same)
