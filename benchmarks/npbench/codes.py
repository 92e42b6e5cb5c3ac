"""NPBench's codes of physics, chemistry and geometry; fractals, transforms, sums, checksums."""

from __future__ import annotations

import math

import treadle as td
from benchmarks.npbench.registry import program


@program("go_fast")
def go_fast(a):
    return a + td.sum(td.tanh(td.diagonal(a)))


@program("compute")
def compute(array_1, array_2, a, b, c):
    return td.clip(array_1, 2, 10) * a + array_2 * b + c


@program("arc_distance")
def arc_distance(theta_1, phi_1, theta_2, phi_2):
    squared_sine = (
        td.sin((theta_2 - theta_1) / 2) ** 2
        + td.cos(theta_1) * td.cos(theta_2) * td.sin((phi_2 - phi_1) / 2) ** 2
    )
    return 2 * td.arctan2(td.sqrt(squared_sine), td.sqrt(1 - squared_sine))


@program("azimint_hist", static=("npt",))
def azimint_hist(data, radius, npt):
    counts, _ = td.histogram(radius, npt)
    sums, _ = td.histogram(radius, npt, weights=data)
    return sums / counts


@program("azimint_naive")
def azimint_naive(data, radius, npt):
    edges = td.max(radius) * td.arange(npt + 1) / npt
    inside = (edges[:-1, None] <= radius) & (radius < edges[1:, None])
    return td.sum(td.where(inside, data, 0.0), axis=1) / td.count_nonzero(inside, axis=1)


@program("mandelbrot1")
def mandelbrot1(xmin, xmax, ymin, ymax, xn, yn, maxiter, horizon):
    x, y = td.linspace(xmin, xmax, xn), td.linspace(ymin, ymax, yn)

    def point(i, j):
        c = td.complex_(x[j], y[i])
        z, n = td.while_loop(
            lambda s: (td.abs(s[0]) < horizon) & (s[1] < maxiter),
            lambda s: (s[0] * s[0] + c, s[1] + 1),
            (td.complex128(0), td.int64(0)),
        )
        return z, td.where(n == maxiter, 0, n - 1)

    return td.unzip(td.generate((yn, xn), point))


@program("mandelbrot2")
def mandelbrot2(xmin, xmax, ymin, ymax, xn, yn, itermax, horizon):
    x, y = td.linspace(xmin, xmax, xn), td.linspace(ymin, ymax, yn)

    def point(i, j):
        c = td.complex_(x[j], y[i])
        z, n = td.while_loop(
            lambda s: (td.abs(s[0]) <= horizon) & (s[1] < itermax),
            lambda s: (s[0] * s[0] + c, s[1] + 1),
            (td.complex128(0), td.int64(0)),
        )
        left = td.abs(z) > horizon
        return td.where(left, z, td.complex128(0)), td.where(left, n, 0)

    return td.unzip(td.generate((yn, xn), point))


@program("stockham_fft", static=("R", "K"))
def stockham_fft(N, R, K, x, y):
    butterfly = td.generate((R, R), lambda i, j: td.exp(-2j * math.pi * (i * j) / R))
    y = x
    for stage in range(K):
        done, left = R**stage, R ** (K - stage - 1)
        turned = td.transpose(td.reshape(y, (done, R, left)), (1, 0, 2))
        twiddles = td.generate(
            (R, done, 1), lambda i, j, _, n=R * done: td.exp(-2j * math.pi * (i * j) / n)
        )
        y = td.reshape(butterfly @ td.reshape(turned * twiddles, (R, -1)), -1)
    return y


@program("nbody")
def nbody(mass, pos, vel, N, Nt, dt, G, softening):
    masses = mass[:, 0]

    def acceleration(pos):
        away = pos[None, :, :] - pos[:, None, :]
        squared = td.sum(away * away, axis=2) + softening**2
        cubed = td.where(squared > 0, squared**-1.5, 0.0)
        return G * td.sum(away * (cubed * masses)[:, :, None], axis=1)

    def energy(pos, vel):
        away = pos[None, :, :] - pos[:, None, :]
        distance = td.sqrt(td.sum(away * away, axis=2))
        inverse = td.where(distance > 0, 1 / distance, 0.0)
        pairs = masses[:, None] * masses * inverse
        upper = td.imap(lambda i, j, p: td.where(i < j, p, 0.0), pairs)
        return 0.5 * td.sum(mass * vel**2), -G * td.sum(upper)

    def step(state, _):
        pos, vel, acc = state
        vel = vel + acc * dt / 2
        pos = pos + vel * dt
        acc = acceleration(pos)
        vel = vel + acc * dt / 2
        return (pos, vel, acc), energy(pos, vel)

    vel = vel - td.mean(mass * vel, axis=0) / td.mean(mass)
    _, (kinetic, potential) = td.scan(step, (pos, vel, acceleration(pos)), length=Nt)
    first = energy(pos, vel)
    return (
        td.concatenate([td.reshape(first[0], 1), kinetic]),
        td.concatenate([td.reshape(first[1], 1), potential]),
    )


@program("spmv")
def spmv(A_row, A_col, A_val, x):
    return td.fold_seg(td.add, 0.0, A_val * td.take(x, A_col), A_row[1:] - A_row[:-1])


@program("scattering_self_energies")
def scattering_self_energies(neigh_idx, dH, G, D, Sigma):
    # dHG: k, E, a, b, i; dHD: w, a, b, i; and matrices along the last two axes of both
    dHG = td.take(G, neigh_idx, axis=2)[:, :, :, :, None] @ dH
    dHD = td.sum(dH[:, :, None] * td.sum(D, axis=0)[..., None, None], axis=4)

    def shifted(w, sigma):
        products = dHG[:, : dHG.shape[1] - w] @ dHD[w]
        return sigma.at[:, w:].add(td.sum(products, axis=(3, 4)))

    return td.loop(D.shape[1], shifted, Sigma)


@program("crc16")
def crc16(data):
    def byte(crc, b):
        crc = crc ^ td.cast(b, td.int64)
        for _ in range(8):
            crc = td.where(crc & 1 == 1, (crc >> 1) ^ 0x8408, crc >> 1)
        return crc, None

    crc, _ = td.scan(byte, td.int64(0xFFFF), data)
    crc = ~crc & 0xFFFF
    return (crc << 8 | crc >> 8) & 0xFFFF


@program("contour_integral", static=("NR", "NM", "slab_per_bc"))
def contour_integral(NR, NM, slab_per_bc, Ham, int_pts, Y):
    z = int_pts[:, None, None]
    T = sum(z ** (slab_per_bc / 2 - n) * Ham[n] for n in range(slab_per_bc + 1))
    X = td.linalg.inv(T) if NR == NM else td.linalg.solve(T, Y)
    X = td.where(td.abs(z) < 1, -X, X)
    return td.sum(X, axis=0), td.sum(z * X, axis=0)
