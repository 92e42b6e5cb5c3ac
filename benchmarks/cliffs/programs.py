"""Programs of others, written for this list; walks, and loops that differ in length."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, Program, cliff, compiled, floats


@cliff
def pathfinder_of_rodinia(small: int) -> Cliff:
    """The cheapest way down a grid, which moves by at most one column in each row."""
    wall = np.random.default_rng(3).integers(0, 10, (500 // small, 4000 // small))

    def natural(wall: Any) -> Any:
        def row(k: Any, d: Any) -> Any:
            last = d.shape[0] - 1
            sides = td.generate(d.shape, lambda j: td.minimum(
                d[td.maximum(j - 1, 0)], d[td.minimum(j + 1, last)]))  # fmt: skip
            return wall[k] + td.minimum(d, sides)

        return td.loop(1, wall.shape[0], row, wall[0])

    @compiled
    def peer(wall: Any) -> Any:
        d = wall[0].copy()
        new = np.empty_like(d)
        for k in range(1, len(wall)):
            for j in range(len(d)):
                least = d[j]
                if j > 0:
                    least = min(least, d[j - 1])
                if j < len(d) - 1:
                    least = min(least, d[j + 1])
                new[j] = wall[k, j] + least
            d, new = new, d
        return d

    return Cliff({"": natural}, {"numba": peer}, wall)


@cliff
def lud_of_rodinia(small: int) -> Cliff:
    """The factors of a matrix, in place, without pivots."""
    n = 256 // small
    a = floats(n, n) + n * np.eye(n)

    def natural(a: Any) -> Any:
        def eliminate(k: Any, a: Any) -> Any:
            a = a.at[k + 1 :, k].set(a[k + 1 :, k] / a[k, k])
            return a.at[k + 1 :, k + 1 :].add(-a[k + 1 :, k, None] * a[k, k + 1 :])

        return td.loop(a.shape[0] - 1, eliminate, a)

    @compiled
    def peer(a: Any) -> Any:
        a = a.copy()
        for k in range(len(a) - 1):
            for i in range(k + 1, len(a)):
                a[i, k] /= a[k, k]
                for j in range(k + 1, len(a)):
                    a[i, j] -= a[i, k] * a[k, j]
        return a

    return Cliff({"": natural}, {"numba": peer}, a)


@cliff
def local_binary_pattern_of_skimage(small: int) -> Cliff:
    """One bit for each of eight neighbours that is not darker."""
    image = np.random.default_rng(3).integers(0, 256, (1080 // small, 1920 // small))
    image = image.astype(np.uint8)
    around = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))

    def natural(x: Any) -> Any:
        n, m = x.shape
        middle, code = x[1:-1, 1:-1], td.zeros((n - 2, m - 2), td.uint8)
        for bit, (i, j) in enumerate(around):
            other = x[1 + i : n - 1 + i, 1 + j : m - 1 + j]
            code = code | td.where(other >= middle, np.uint8(1 << bit), np.uint8(0))
        return code

    @compiled
    def peer(x: Any) -> Any:
        n, m = x.shape
        code = np.zeros((n - 2, m - 2), np.uint8)
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                c, found = x[i, j], 0
                found |= (x[i, j + 1] >= c) * 1
                found |= (x[i - 1, j + 1] >= c) * 2
                found |= (x[i - 1, j] >= c) * 4
                found |= (x[i - 1, j - 1] >= c) * 8
                found |= (x[i, j - 1] >= c) * 16
                found |= (x[i + 1, j - 1] >= c) * 32
                found |= (x[i + 1, j] >= c) * 64
                found |= (x[i + 1, j + 1] >= c) * 128
                code[i - 1, j - 1] = found
        return code

    return Cliff({"": natural}, {"numba": peer}, image)


@cliff
def words_of_eight_letters(small: int) -> Cliff:
    """How often each word of eight letters occurs in DNA, by a code that rolls along."""
    letters = np.random.default_rng(3).integers(0, 4, 4_000_000 // small).astype(np.uint8)
    most = 4**8

    def natural(letters: Any) -> Any:
        def step(code: Any, letter: Any) -> Any:
            code = (code * 4 + letter) % most
            return code, code

        codes = td.scan(step, td.int64(0), letters)[1]
        return td.bincount(codes[7:], minlength=most)

    def by_slices(letters: Any) -> Any:
        n = letters.shape[0] - 7
        code = td.zeros(n, td.int64)
        for k in range(8):
            code = code * 4 + letters[k : k + n]
        return td.bincount(code, length=most)

    @compiled
    def peer(letters: Any) -> Any:
        counts, code = np.zeros(4**8, np.int64), 0
        for k in range(letters.size):
            code = (code * 4 + letters[k]) % 4**8
            if k >= 7:
                counts[code] += 1
        return counts

    return Cliff({"": natural, "slices": by_slices}, {"numba": peer}, letters)


@cliff
def dynamic_time_warping(small: int) -> Cliff:
    """The cost of the cheapest alignment of two series, row by row."""
    x, y = floats(2, 1000 // small)

    def natural(x: Any, y: Any) -> Any:
        def row(before: Any, a: Any) -> Any:
            beside = td.concatenate([td.full(1, np.inf), before[:-1]])

            def cell(left: Any, given: Any) -> Any:
                cost, best = given
                made = cost + td.minimum(left, best)
                return made, made

            given = td.abs(a - y), td.minimum(before, beside)
            return td.scan(cell, np.inf, given)[1], None

        return td.scan(row, td.cumsum(td.abs(x[0] - y)), x[1:])[0][-1]

    @compiled
    def peer(x: Any, y: Any) -> Any:
        before, row = np.full(y.size + 1, np.inf), np.full(y.size + 1, np.inf)
        before[0] = 0.0
        for i in range(x.size):
            for j in range(y.size):
                best = min(before[j], before[j + 1], row[j])
                row[j + 1] = abs(x[i] - y[j]) + best
            before, row = row, before
            row[0] = np.inf
        return before[-1]

    return Cliff({"": natural}, {"numba": peer}, x, y)


@cliff
def superpixels_of_skimage(small: int) -> Cliff:
    """SLIC: each pixel joins the nearest of the nine centres around, which move to the means."""
    side, h, w = 16, 240 // min(small, 5), 320 // min(small, 5)
    ny, nx, ratio = h // side, w // side, (10 / side) ** 2
    image = 100 * floats(h // 8, w // 8, 3).repeat(8, 0).repeat(8, 1) + 5 * floats(h, w, 3)

    def natural(image: Any) -> Any:
        y, x = td.meshgrid(td.arange(h), td.arange(w), indexing="ij")
        places = td.stack([y, x], axis=2).astype(td.float64)
        features = td.concatenate([image, places], axis=2)
        first = features[side // 2 :: side, side // 2 :: side].reshape(-1, 5)

        def labels(centres: Any) -> Any:
            best, label = td.full((h, w), np.inf), td.zeros((h, w), td.int64)
            for i in (-1, 0, 1):
                for j in (-1, 0, 1):
                    row, column = y // side + i, x // side + j
                    there = (row >= 0) & (row < ny) & (column >= 0) & (column < nx)
                    k = td.where(there, row * nx + column, 0)
                    c = centres[k]
                    colour = ((image - c[:, :, :3]) ** 2).sum(axis=2)
                    place = (y - c[:, :, 3]) ** 2 + (x - c[:, :, 4]) ** 2
                    distance = td.where(there, colour + ratio * place, np.inf)
                    label = td.where(distance < best, k, label)
                    best = td.minimum(distance, best)
            return label.reshape(-1)

        def step(_: Any, centres: Any) -> Any:
            label = labels(centres)
            count = td.bincount(label, length=ny * nx)[:, None]
            total = td.zeros((ny * nx, 5)).at[label].add(features.reshape(-1, 5))
            return td.where(count > 0, total / td.maximum(count, 1), centres)

        return labels(td.loop(9, step, first))

    @compiled
    def peer(image: Any) -> Any:
        label, centres = np.zeros(h * w, np.int64), np.empty((ny * nx, 5))
        total, count = np.empty((ny * nx, 5)), np.empty(ny * nx, np.int64)
        for k in range(ny * nx):
            y, x = k // nx * side + side // 2, k % nx * side + side // 2
            centres[k, :3] = image[y, x]
            centres[k, 3], centres[k, 4] = y, x
        for _ in range(10):
            total[:], count[:] = 0, 0
            for y in range(h):
                for x in range(w):
                    best, nearest = np.inf, 0
                    for row in range(max(y // side - 1, 0), min(y // side + 2, ny)):
                        for column in range(max(x // side - 1, 0), min(x // side + 2, nx)):
                            c = centres[row * nx + column]
                            place = (y - c[3]) ** 2 + (x - c[4]) ** 2
                            colour = 0.0
                            for part in range(3):
                                colour += (image[y, x, part] - c[part]) ** 2
                            if colour + ratio * place < best:
                                best, nearest = colour + ratio * place, row * nx + column
                    label[y * w + x] = nearest
                    count[nearest] += 1
                    for part in range(3):
                        total[nearest, part] += image[y, x, part]
                    total[nearest, 3] += y
                    total[nearest, 4] += x
            for k in range(ny * nx):
                if count[k] > 0:
                    centres[k] = total[k] / count[k]
        return label

    return Cliff({"": natural}, {"numba": peer}, image)


def _walk(ours: Program, scalar: Program, small: int) -> Cliff:
    """A scan of numbers, s / 2 + f(x), and all its states."""

    def natural(xs: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            s = s / 2 + ours(x)
            return s, s

        return td.scan(step, 0.0, xs)[1]

    each = compiled(scalar)

    @compiled
    def peer(xs: Any) -> Any:
        out, s = np.empty_like(xs), 0.0
        for k in range(xs.size):
            s = s / 2 + each(xs[k])
            out[k] = s
        return out

    return Cliff({"": natural}, {"numba": peer}, floats(2_000_000 // small))


@cliff
def walk_with_a_division(small: int) -> Cliff:
    return _walk(lambda x: 1 / (1 + x), lambda x: 1 / (1 + x), small)


@cliff
def walk_with_an_exponential(small: int) -> Cliff:
    return _walk(td.exp, lambda x: np.exp(x), small)


@cliff
def loops_that_differ_in_length(small: int) -> Cliff:
    """The steps of Collatz's sequences to 1."""

    def natural(n: Any) -> Any:
        def steps(n: Any) -> Any:
            def next_of(s: Any) -> Any:
                return td.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

            return td.while_loop(lambda s: s[0] > 1, next_of, (n, td.int64(0)))[1]

        return td.map(steps, n)

    @compiled
    def peer(n: Any) -> Any:
        out = np.zeros(n.shape, np.int64)
        for k in range(n.size):
            x = n[k]
            while x > 1:
                x = x // 2 if x % 2 == 0 else 3 * x + 1
                out[k] += 1
        return out

    return Cliff({"": natural}, {"numba": peer}, np.arange(1, 200_000 // small, dtype=np.int64))


@cliff
def breadth_first_search_of_rodinia(small: int) -> Cliff:
    """The distances of the nodes of a graph from one of them, by a queue."""
    random, n = np.random.default_rng(3), 100_000 // small
    rows = np.concatenate([[0], np.cumsum(random.integers(1, 8, n))])
    to = random.integers(0, n, rows[-1])

    def natural(rows: Any, to: Any) -> Any:
        def visit(s: Any) -> Any:
            distance, queue, first, end = s
            node = queue[first]

            def edge(e: Any, s: Any) -> Any:
                distance, queue, end = s
                new = distance[to[e]] < 0
                distance = td.cond(new, distance.at[to[e]].set(distance[node] + 1), distance)
                queue = td.cond(new, queue.at[end].set(to[e]), queue)
                return distance, queue, td.where(new, end + 1, end)

            inner = td.loop(rows[node], rows[node + 1], edge, (distance, queue, end))
            return inner[0], inner[1], first + 1, inner[2]

        n = rows.shape[0] - 1
        start = td.full(n, -1).at[0].set(0), td.zeros(n, td.int64), 0, 1
        return td.while_loop(lambda s: s[2] < s[3], visit, start)[0]

    @compiled
    def peer(rows: Any, to: Any) -> Any:
        n = len(rows) - 1
        distance, queue = np.full(n, -1), np.zeros(n, np.int64)
        distance[0], first, end = 0, 0, 1
        while first < end:
            node = queue[first]
            first += 1
            for e in range(rows[node], rows[node + 1]):
                if distance[to[e]] < 0:
                    distance[to[e]] = distance[node] + 1
                    queue[end] = to[e]
                    end += 1
        return distance

    return Cliff({"": natural}, {"numba": peer}, rows, to)


@cliff
def gas_on_transposes(small: int) -> Cliff:
    """Euler's equations of a gas, by one function for fluxes along the first axis."""
    n, steps, gamma = 200 // min(small, 5), 10, 1.4
    gas = np.ones((4, n, n))
    gas[:, : n // 2] = np.array([0.125, 0.0, 0.0, 0.25])[:, None, None]
    gas[1], gas[2], gas[3, n // 2 :] = 0.1 * gas[0], 0.05 * gas[0], 2.5

    def natural(gas: Any) -> Any:
        def change(gas: Any) -> Any:
            rho, along, beside, energy = gas
            u, v = along / rho, beside / rho
            p = (gamma - 1) * (energy - 0.5 * (along * u + beside * v))
            fluxes = along, along * u + p, beside * u, (energy + p) * u
            speed = td.abs(u) + td.sqrt(gamma * p / rho)
            top = td.maximum(speed, td.roll(speed, -1, 0))
            sides = [0.5 * (f + td.roll(f, -1, 0)) - 0.5 * top * (td.roll(q, -1, 0) - q)
                     for f, q in zip(fluxes, gas, strict=True)]  # fmt: skip
            return [f - td.roll(f, 1, 0) for f in sides]

        def step(gas: Any) -> Any:
            rho, x, y, energy = gas
            turned = [q.T for q in change([rho.T, y.T, x.T, energy.T])]
            turned[1], turned[2] = turned[2], turned[1]
            return tuple(q - 0.1 * (a + b)
                         for q, a, b in zip(gas, change(gas), turned, strict=True))  # fmt: skip

        return td.iterate(steps, step, tuple(gas))

    @compiled
    def side(rho: Any, a: Any, b: Any, energy: Any) -> Any:
        u, v = a / rho, b / rho
        p = (gamma - 1) * (energy - 0.5 * (a * u + b * v))
        return a, a * u + p, b * u, (energy + p) * u, abs(u) + np.sqrt(gamma * p / rho)

    @compiled
    def flux(r: Any, a: Any, b: Any, e: Any, s: Any, c: Any, d: Any, f: Any) -> Any:
        r1, a1, b1, e1, left = side(r, a, b, e)
        r2, a2, b2, e2, right = side(s, c, d, f)
        top = max(left, right)
        return (
            0.5 * (r1 + r2) - 0.5 * top * (s - r), 0.5 * (a1 + a2) - 0.5 * top * (c - a),
            0.5 * (b1 + b2) - 0.5 * top * (d - b), 0.5 * (e1 + e2) - 0.5 * top * (f - e),
        )  # fmt: skip

    @compiled
    def peer(gas: Any) -> Any:
        q = gas.copy()
        down, across = np.empty((n, n, 4)), np.empty((n, n, 4))
        for _ in range(steps):
            for i in range(n):
                for j in range(n):
                    k, m = i + 1 if i < n - 1 else 0, j + 1 if j < n - 1 else 0
                    f = flux(q[0, i, j], q[1, i, j], q[2, i, j], q[3, i, j],
                             q[0, k, j], q[1, k, j], q[2, k, j], q[3, k, j])  # fmt: skip
                    down[i, j, 0], down[i, j, 1], down[i, j, 2], down[i, j, 3] = f
                    f = flux(q[0, i, j], q[2, i, j], q[1, i, j], q[3, i, j],
                             q[0, i, m], q[2, i, m], q[1, i, m], q[3, i, m])  # fmt: skip
                    across[i, j, 0], across[i, j, 2], across[i, j, 1], across[i, j, 3] = f
            for i in range(n):
                for j in range(n):
                    for c in range(4):
                        change = down[i, j, c] - down[i - 1, j, c]
                        q[c, i, j] -= 0.1 * (change + across[i, j, c] - across[i, j - 1, c])
        return q[0], q[1], q[2], q[3]

    return Cliff({"": natural}, {"numba": peer}, gas)
