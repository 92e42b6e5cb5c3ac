"""Edges of a photograph (Canny): stencils and an array loop."""

from functools import partial, reduce
from pathlib import Path

import treadle as td
from treadle.examples import _scipy_canny as peer
from treadle.examples._show import INK, OUTPUT, PAPER, Made, blend, kernels, photograph, save

GAUSS = list(enumerate(peer.GAUSS.tolist(), start=-2))  # five weights, deviation 1.4
NEAR = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]


def smooth(rgb: td.Array) -> td.Array:
    """Grey in [0, 1], blurred by a Gaussian along one axis, then along the other."""
    colours = (rgb[:, :, k].astype(td.float32) for k in range(3))
    grey = td.map(lambda r, g, b: (0.299 * r + 0.587 * g + 0.114 * b) / 255, *colours, name="grey")
    blur = partial(td.stencil, boundary=td.mirror)
    along = blur(lambda w: sum(g * w[0, k] for k, g in GAUSS), grey, name="blur along rows")
    return blur(lambda w: sum(g * w[k, 0] for k, g in GAUSS), along, name="blur along columns")


def slope(smoothed: td.Array) -> tuple[td.Array, ...]:
    """The Sobel gradient: its magnitude and its two components."""

    def sobel(w):
        dx = (w[-1, 1] - w[-1, -1] + 2 * (w[0, 1] - w[0, -1]) + w[1, 1] - w[1, -1]) / 4
        dy = (w[1, -1] - w[-1, -1] + 2 * (w[1, 0] - w[-1, 0]) + w[1, 1] - w[-1, 1]) / 4
        return td.sqrt(dx * dx + dy * dy), dx, dy

    return td.unzip(td.stencil(sobel, smoothed, name="sobel"))


def thin(gradient: tuple[td.Array, ...], strong: float) -> td.Array:
    """2 on a strong ridge of the gradient, 1 on a weak one, 0 elsewhere."""

    def ridge(m, wx, wy):
        c, x, y = m[0, 0], wx[0, 0], wy[0, 0]
        tops = lambda i, j: (c > m[-i, -j]) & (c >= m[i, j])  # noqa: E731
        level, steep = abs(y) <= 0.41421356 * abs(x), abs(x) < 0.41421356 * abs(y)
        slant = td.where(x * y > 0, tops(1, 1), tops(1, -1))
        top = td.where(level, tops(0, 1), td.where(steep, tops(1, 0), slant))
        return td.cast(top & (c >= 0.4 * strong), td.uint8) + td.cast(top & (c >= strong), td.uint8)

    return td.stencil(ridge, *gradient, boundary=td.constant(0), name="thin")


def join(ridges: td.Array) -> td.Array:
    """Strong ridges, and the weak ones connected to them: grow until nothing changes."""

    def step(state):
        near = lambda w: reduce(td.maximum, (w[at] for at in NEAR))  # noqa: E731
        grow = lambda w: td.where(w[0, 0] == 1, near(w), w[0, 0])  # noqa: E731
        grown = td.stencil(grow, state[0], boundary=td.constant(0), name="grow")
        return grown, td.any(grown != state[0])

    return td.while_loop(lambda state: state[1], step, (ridges, td.unit(True)))[0] == 2


@td.jit
def edges(rgb: td.Array, strong: float) -> td.Array:
    """The complete detector as one program."""
    return join(thin(slope(smooth(rgb)), strong))


def program() -> td.Program:
    """The detector, compiled for any colour picture."""
    return edges.lower(photograph(size=64), 0.08)


def main(output: Path = OUTPUT, image: Path | None = None, size: int | None = None,
         strong: float = 0.08, explain: bool = False) -> Made:  # fmt: skip
    """Draw the edges; print the kernels, and the times of the stages compared with SciPy."""
    rgb = photograph(image, size)
    found = edges(rgb, strong)
    table, same = peer.compare((smooth, slope, thin, join, edges), rgb, strong)
    notes = (kernels(edges.lower(rgb, strong), explain), f"{same:.3%} of pixels agree with SciPy")
    picture = save(blend(found, PAPER, INK), output, "canny", "edges, as ink on paper")
    return Made({"edges": found, "agreement": same}, picture, (table,), notes)
