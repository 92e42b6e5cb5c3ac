"""Elements one by one, scatters, products in loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, cliff, compiled, floats


@cliff
def edit_distance_cell_by_cell(small: int) -> Cliff:
    a, b = np.random.default_rng(3).integers(0, 4, (2, 1000 // small)).astype(np.uint8)

    def natural(a: Any, b: Any) -> Any:
        n, m = a.shape[0], b.shape[0]
        table = td.zeros((n + 1, m + 1), td.int64)
        table = table.at[0, :].set(td.iota(m + 1)).at[:, 0].set(td.iota(n + 1))

        def cell(i: Any, j: Any, t: Any) -> Any:
            beside = td.minimum(t[i, j + 1], t[i + 1, j]) + 1
            return t.at[i + 1, j + 1].set(td.minimum(t[i, j] + (a[i] != b[j]), beside))

        return td.loop(n, lambda i, t: td.loop(m, lambda j, t: cell(i, j, t), t), table)

    @compiled
    def peer(a: Any, b: Any) -> Any:
        t = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        t[0, :] = np.arange(len(b) + 1)
        t[:, 0] = np.arange(len(a) + 1)
        for i in range(len(a)):
            for j in range(len(b)):
                beside = min(t[i, j + 1], t[i + 1, j]) + 1
                t[i + 1, j + 1] = min(t[i, j] + (a[i] != b[j]), beside)
        return t

    return Cliff({"": natural}, {"numba": peer}, a, b)


@cliff
def deposit_of_particles(small: int) -> Cliff:
    n = 256 // small
    x, y = n * np.random.default_rng(3).random((2, 1_000_000 // small**2))
    q = floats(x.size)

    def natural(x: Any, y: Any, q: Any) -> Any:
        i, j = td.floor(x).astype(td.int64), td.floor(y).astype(td.int64)
        fx, fy, right, up = x - i, y - j, (i + 1) % n, (j + 1) % n
        grid = td.zeros((n, n)).at[i, j].add(q * (1 - fx) * (1 - fy))
        grid = grid.at[right, j].add(q * fx * (1 - fy))
        return grid.at[i, up].add(q * (1 - fx) * fy).at[right, up].add(q * fx * fy)

    @compiled
    def peer(x: Any, y: Any, q: Any) -> Any:
        grid = np.zeros((n, n))
        for p in range(len(x)):
            i, j = int(np.floor(x[p])), int(np.floor(y[p]))
            fx, fy, right, up = x[p] - i, y[p] - j, (i + 1) % n, (j + 1) % n
            grid[i, j] += q[p] * (1 - fx) * (1 - fy)
            grid[right, j] += q[p] * fx * (1 - fy)
            grid[i, up] += q[p] * (1 - fx) * fy
            grid[right, up] += q[p] * fx * fy
        return grid

    return Cliff({"": natural}, {"numba": peer}, x, y, q)


@cliff
def shortest_paths_over_edges(small: int) -> Cliff:
    """Bellman–Ford: every edge relaxed 50 times."""
    n = 2000 // small
    of, to = np.random.default_rng(3).integers(0, n, (2, 10 * n))
    start = np.where(np.arange(n) == 0, 0.0, 100.0)

    def natural(d: Any, of: Any, to: Any, w: Any) -> Any:
        return td.loop(50, lambda k, d: d.at[to].min(d[of] + w), d)

    @compiled
    def peer(d: Any, of: Any, to: Any, w: Any) -> Any:
        for _ in range(50):
            new = d.copy()
            for e in range(len(of)):
                new[to[e]] = min(new[to[e]], d[of[e]] + w[e])
            d = new
        return d

    return Cliff({"": natural}, {"numba": peer}, start, of, to, floats(10 * n))


@cliff
def lattice_boltzmann_stacked(small: int) -> Cliff:
    """The nine populations are one array, which `td.stack` makes anew in each of ten steps."""
    f = floats(9, 200 // small, 200 // small) + 1
    east = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    north = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    directions = list(zip(east.tolist(), north.tolist(), weights.tolist(), strict=True))

    def natural(f: Any) -> Any:
        def step(_: Any, f: Any) -> Any:
            p = [td.roll(f[k], (e, n), (0, 1)) for k, (e, n, _) in enumerate(directions)]
            rho = sum(p)
            u = sum(e * p[k] for k, (e, _, _) in enumerate(directions)) / rho
            v = sum(n * p[k] for k, (_, n, _) in enumerate(directions)) / rho
            made = []
            for k, (e, n, w) in enumerate(directions):
                along = e * u + n * v
                rest = w * rho * (1 + 3 * along + 4.5 * along * along - 1.5 * (u * u + v * v))
                made.append(p[k] + 0.6 * (rest - p[k]))
            return td.stack(made)

        return td.loop(10, step, f)

    @compiled
    def peer(f: Any) -> Any:
        rows, columns = f.shape[1:]
        f, new, p = f.copy(), np.empty_like(f), np.empty(9)
        for _ in range(10):
            for i in range(rows):
                for j in range(columns):
                    rho, u, v = 0.0, 0.0, 0.0
                    for k in range(9):
                        x, y = i - east[k], j - north[k]
                        x = x + rows if x < 0 else x - rows if x >= rows else x
                        y = y + columns if y < 0 else y - columns if y >= columns else y
                        p[k] = f[k, x, y]
                        rho += p[k]
                        u += east[k] * p[k]
                        v += north[k] * p[k]
                    u, v = u / rho, v / rho
                    for k in range(9):
                        along = east[k] * u + north[k] * v
                        flow = 1 + 3 * along + 4.5 * along * along - 1.5 * (u * u + v * v)
                        new[k, i, j] = p[k] + 0.6 * (weights[k] * rho * flow - p[k])
            f, new = new, f
        return f

    return Cliff({"": natural}, {"numba": peer}, f)


@cliff
def products_in_a_loop(small: int) -> Cliff:
    a = floats(96 // small, 96 // small) / (48 // small)

    def natural(a: Any) -> Any:
        return td.loop(20, lambda k, p: p @ a, a)

    def peer(a: Any) -> Any:
        p = a
        for _ in range(20):
            p = p @ a
        return p

    return Cliff({"": natural}, {"numpy": peer}, a)


@cliff
def kalman_filter(small: int) -> Cliff:
    """A state of four numbers, of which two are measured: products of tiny matrices."""
    f, h = np.eye(4) + np.diag([0.1, 0.1], 2), np.eye(2, 4)
    data = floats(10_000 // small, 2), f, h, 0.01 * np.eye(4), 0.1 * np.eye(2), np.eye(4)

    def natural(zs: Any, f: Any, h: Any, q: Any, r: Any, p: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            gain = p @ h.T @ td.linalg.inv(h @ p @ h.T + r)
            return (x + gain @ (z - h @ x), p - gain @ h @ p), x

        return td.scan(step, (td.zeros(4), p), zs)[1]

    @compiled
    def product(a: Any, b: Any, c: Any) -> None:
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    @compiled
    def peer(zs: Any, f: Any, h: Any, q: Any, r: Any, p: Any) -> Any:
        x, p, xs = np.zeros(4), p.copy(), np.empty((len(zs), 4))
        fp, ph, hp, gain = np.empty((4, 4)), np.empty((4, 2)), np.empty((2, 4)), np.empty((4, 2))
        s, inverse, moved = np.empty((2, 2)), np.empty((2, 2)), np.empty((4, 4))
        for k in range(len(zs)):
            for i in range(4):
                xs[k, i] = 0.0
                for j in range(4):
                    xs[k, i] += f[i, j] * x[j]
            product(f, p, fp)
            product(fp, f.T, p)
            p += q
            product(p, h.T, ph)
            product(h, ph, s)
            s += r
            d = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
            inverse[0, 0], inverse[0, 1] = s[1, 1] / d, -s[0, 1] / d
            inverse[1, 0], inverse[1, 1] = -s[1, 0] / d, s[0, 0] / d
            product(ph, inverse, gain)
            for i in range(4):
                x[i] = xs[k, i]
            for j in range(2):
                error = zs[k, j]
                for i in range(4):
                    error -= h[j, i] * xs[k, i]
                for i in range(4):
                    x[i] += gain[i, j] * error
            product(h, p, hp)
            product(gain, hp, moved)
            p -= moved
        return xs

    return Cliff({"": natural}, {"numba": peer}, *data)


@cliff
def heap_sort(small: int) -> Cliff:
    """Numbers in order, by a heap in their array."""
    x = floats(20_000 // small)

    def natural(x: Any) -> Any:
        n = x.shape[0]

        def greater(h: Any, i: Any, n: Any) -> Any:
            left, right = td.minimum(2 * i + 1, n - 1), td.minimum(2 * i + 2, n - 1)
            return td.where(h[right] > h[left], right, left)

        def down(h: Any, i: Any, n: Any) -> Any:
            def exchange(s: Any) -> Any:
                h, i = s
                j = greater(h, i, n)
                return h.at[i].set(h[j]).at[j].set(h[i]), j

            def goes_on(s: Any) -> Any:
                h, i = s
                return (2 * i + 1 < n) & (h[greater(h, i, n)] > h[i])

            return td.while_loop(goes_on, exchange, (h, i))[0]

        def take(k: Any, h: Any) -> Any:
            last = n - 1 - k
            return down(h.at[0].set(h[last]).at[last].set(h[0]), 0, last)

        heap = td.loop(n // 2, lambda k, h: down(h, n // 2 - 1 - k, n), x)
        return td.loop(n - 1, take, heap)

    @compiled
    def down(h: Any, i: Any, n: Any) -> None:
        while 2 * i + 1 < n:
            j = 2 * i + 1
            if j + 1 < n and h[j + 1] > h[j]:
                j += 1
            if h[j] <= h[i]:
                break
            h[i], h[j] = h[j], h[i]
            i = j

    @compiled
    def peer(x: Any) -> Any:
        h, n = x.copy(), x.size
        for i in range(n // 2 - 1, -1, -1):
            down(h, i, n)
        for last in range(n - 1, 0, -1):
            h[0], h[last] = h[last], h[0]
            down(h, 0, last)
        return h

    return Cliff({"": natural}, {"numba": peer}, x)


@cliff
def union_find(small: int) -> Cliff:
    """The number of components of a graph, by trees whose paths are halved."""
    n, (a, b) = (
        200_000 // small,
        np.random.default_rng(0).integers(0, 200_000 // small, (2, 300_000 // small)),
    )

    def natural(a: Any, b: Any) -> Any:
        def root(parent: Any, x: Any) -> Any:
            def halve(s: Any) -> Any:
                parent, x = s
                above = parent[parent[x]]
                return parent.at[x].set(above), above

            return td.while_loop(lambda s: s[0][s[1]] != s[1], halve, (parent, x))

        def join(k: Any, s: Any) -> Any:
            parent, count = s
            parent, x = root(parent, a[k])
            parent, y = root(parent, b[k])
            return parent.at[td.maximum(x, y)].set(td.minimum(x, y)), count - (x != y)

        return td.loop(a.shape[0], join, (td.arange(n), n))[1]

    @compiled
    def peer(a: Any, b: Any) -> Any:
        parent, count = np.arange(n), n
        for k in range(a.size):
            x, y = a[k], b[k]
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            while parent[y] != y:
                parent[y] = parent[parent[y]]
                y = parent[y]
            count -= x != y
            parent[max(x, y)] = min(x, y)
        return count

    return Cliff({"": natural}, {"numba": peer}, a, b)


@cliff
def queens(small: int) -> Cliff:
    """The ways to place queens on a board, by a stack of rows; the peer is recursive."""
    n = 11 if small == 1 else 6

    def natural(n: Any) -> Any:
        full = (1 << n) - 1

        def step(s: Any) -> Any:
            columns, left, right, free, k, count = s
            f = free[k]
            bit = f & -f
            c, i, rest = columns[k] | bit, k + 1, free.at[k].set(f & (f - 1))
            a, b = ((left[k] | bit) << 1) & full, (right[k] | bit) >> 1
            down = columns.at[i].set(c), left.at[i].set(a), right.at[i].set(b)
            placed = td.cond(
                c == full,
                (columns, left, right, rest, k, count + 1),
                (*down, rest.at[i].set(full & ~(c | a | b)), i, count),
            )
            return td.cond(f == 0, (columns, left, right, free, k - 1, count), placed)

        zeros = td.zeros(n + 1, td.int64)
        start = zeros, zeros, zeros, zeros.at[0].set(full), 0, 0
        return td.while_loop(lambda s: s[4] >= 0, step, start)[5]

    @compiled
    def place(full: Any, columns: Any, left: Any, right: Any) -> Any:
        if columns == full:
            return 1
        free, count = full & ~(columns | left | right), 0
        while free:
            bit = free & -free
            free &= free - 1
            count += place(full, columns | bit, ((left | bit) << 1) & full, (right | bit) >> 1)
        return count

    @compiled
    def peer(n: Any) -> Any:
        return place((1 << n) - 1, 0, 0, 0)

    return Cliff({"": natural}, {"numba": peer}, n)


@cliff
def fannkuch(small: int) -> Cliff:
    """The most reversals of prefixes over all permutations of 8: loops three deep."""
    n = 8 if small == 1 else 5

    def natural(n: Any) -> Any:
        def exchange(s: Any) -> Any:
            q, a, b = s
            return q.at[a].set(q[b]).at[b].set(q[a]), a + 1, b - 1

        def reverse(s: Any) -> Any:
            q, number = s
            return td.while_loop(lambda s: s[1] < s[2], exchange, (q, 0, q[0]))[0], number + 1

        def advance(s: Any) -> Any:
            p, count, r, _ = s
            first = p[0]
            p = td.loop(r, lambda i, p: p.at[i].set(p[i + 1]), p).at[r].set(first)
            count = count.at[r].add(-1)
            return p, count, td.where(count[r] > 0, r, r + 1), count[r] <= 0

        def step(s: Any) -> Any:
            p, count, r, most, total, even = s
            count, r = td.while_loop(
                lambda s: s[1] > 1, lambda s: (s[0].at[s[1] - 1].set(s[1]), s[1] - 1), (count, r)
            )
            _, number = td.while_loop(lambda s: s[0][0] != 0, reverse, (p, 0))
            p, count, r, _ = td.while_loop(
                lambda s: s[3] & (s[2] < n), advance, (p, count, r, True)
            )
            total = total + td.where(even, number, -number)
            return p, count, r, td.maximum(most, number), total, ~even

        start = td.iota(n), td.zeros(n, td.int64), n - 1, 0, 0, True
        start = start[0], start[1].at[n - 1].set(n), *start[2:]
        return td.stack(td.while_loop(lambda s: s[2] < n, step, start)[3:5])

    @compiled
    def peer(n: Any) -> Any:
        p, q, count = np.arange(n), np.empty(n, np.int64), np.zeros(n, np.int64)
        r, most, total, even = n, 0, 0, True
        while True:
            while r > 1:
                count[r - 1] = r
                r -= 1
            q[:] = p
            number = 0
            while q[0] != 0:
                a, b = 0, q[0]
                while a < b:
                    q[a], q[b] = q[b], q[a]
                    a, b = a + 1, b - 1
                number += 1
            most = max(most, number)
            total += number if even else -number
            even = not even
            while True:
                if r >= n:
                    return np.array([most, total])
                first = p[0]
                for i in range(r):
                    p[i] = p[i + 1]
                p[r] = first
                count[r] -= 1
                if count[r] > 0:
                    break
                r += 1

    return Cliff({"": natural}, {"numba": peer}, n)


@cliff
def viterbi(small: int) -> Cliff:
    """The likeliest states of a hidden Markov model of 48 states."""
    random, states, steps = np.random.default_rng(3), 48, 1000 // small
    move = np.log(random.dirichlet(np.ones(states), states))
    show = np.log(random.dirichlet(np.ones(20), states))
    seen = random.integers(0, 20, steps)

    def natural(move: Any, show: Any, seen: Any) -> Any:
        def step(p: Any, o: Any) -> Any:
            to = p[:, None] + move
            return td.max(to, axis=0) + show[:, o], td.argmax(to, axis=0)

        p, back = td.scan(step, show[:, seen[0]], seen[1:])
        first, path = td.scan(lambda s, row: (row[s], s), td.argmax(p), back, reverse=True)
        return td.concatenate([first[None], path])

    @compiled
    def peer(move: Any, show: Any, seen: Any) -> Any:
        p, new = show[:, seen[0]].copy(), np.empty(states)
        back, path = np.empty((steps, states), np.int64), np.empty(steps, np.int64)
        for k in range(1, steps):
            for j in range(states):
                new[j], back[k, j] = p[0] + move[0, j], 0
            for i in range(1, states):
                for j in range(states):
                    if p[i] + move[i, j] > new[j]:
                        new[j], back[k, j] = p[i] + move[i, j], i
            for j in range(states):
                p[j] = new[j] + show[j, seen[k]]
        path[-1] = np.argmax(p)
        for k in range(steps - 1, 0, -1):
            path[k - 1] = back[k, path[k]]
        return path

    return Cliff({"": natural}, {"numba": peer}, move, show, seen)
