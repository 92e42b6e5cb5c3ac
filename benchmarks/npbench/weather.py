"""NPBench's codes on grids: diffusion and advection in a weather model, flow in a cavity and in a
channel."""

from __future__ import annotations

import treadle as td
from benchmarks.npbench.registry import program


@program("hdiff")
def hdiff(in_field, out_field, coeff):
    f = in_field
    lap = 4.0 * f[1:-1, 1:-1] - (f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2])
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx = td.where(flx * (f[2:-1, 2:-2] - f[1:-2, 2:-2]) > 0, 0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly = td.where(fly * (f[2:-2, 2:-1] - f[2:-2, 1:-2]) > 0, 0, fly)
    return f[2:-2, 2:-2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


@program("vadv")
def vadv(utens_stage, u_stage, wcon, u_pos, utens, dtr_stage):
    # A tridiagonal system along the last axis; a is 0 in the first level, c in the last.
    before, after = ((0, 0), (0, 0), (1, 0)), ((0, 0), (0, 0), (0, 1))
    w = 0.125 * (wcon[1:, :, 1:] + wcon[:-1, :, 1:])
    rise = u_stage[:, :, 1:] - u_stage[:, :, :-1]
    a, c = td.pad(-w, before), td.pad(w, after)
    b = dtr_stage - a - c
    d = dtr_stage * u_pos + utens + utens_stage - td.pad(w * rise, before) - td.pad(w * rise, after)

    def eliminate(above, level):
        c_above, d_above = above
        a, b, c, d = level
        divided = 1.0 / (b - c_above * a)
        row = c * divided, (d - d_above * a) * divided
        return row, row

    def substitute(below, row):
        c, d = row
        x = d - c * below
        return x, x

    zero = td.zeros_like(w[:, :, 0])
    _, rows = td.scan(eliminate, (zero, zero), (a, b, c, d), axis=2)
    _, x = td.scan(substitute, zero, rows, axis=2, reverse=True)
    return dtr_stage * (x - u_pos)


def divergence(rho, dt, dx, dy):
    """The right-hand side of the pressure's equation, at a point of the velocities u, v."""

    def at(u, v):
        u_x, u_y = (u[0, 1] - u[0, -1]) / (2 * dx), (u[1, 0] - u[-1, 0]) / (2 * dy)
        v_x, v_y = (v[0, 1] - v[0, -1]) / (2 * dx), (v[1, 0] - v[-1, 0]) / (2 * dy)
        return rho * (1 / dt * (u_x + v_y) - u_x**2 - 2 * u_y * v_x - v_y**2)

    return at


def relaxed(dx, dy):
    """A step of Jacobi's method for the pressure p, at a point."""
    scale = 2 * (dx**2 + dy**2)

    def at(p, b):
        sides = (p[0, 1] + p[0, -1]) * dy**2 + (p[1, 0] + p[-1, 0]) * dx**2
        return sides / scale - dx**2 * dy**2 / scale * b[0, 0]

    return at


def moved(w, u, v, dt, dx, dy, nu):
    """Advection and diffusion of w by the velocities u, v, at a point."""
    return (
        w[0, 0]
        - u[0, 0] * dt / dx * (w[0, 0] - w[0, -1])
        - v[0, 0] * dt / dy * (w[0, 0] - w[-1, 0])
        + nu * (
            dt / dx**2 * (w[0, 1] - 2 * w[0, 0] + w[0, -1])
            + dt / dy**2 * (w[1, 0] - 2 * w[0, 0] + w[-1, 0])
        )
    )  # fmt: skip


@program("cavity_flow")
def cavity_flow(nx, ny, nt, nit, u, v, dt, dx, dy, p, rho, nu):
    def pressure(p, b):
        p = td.stencil(relaxed(dx, dy), p, b)
        p = p.at[:, -1].set(p[:, -2])
        p = p.at[0].set(p[1])
        p = p.at[:, 0].set(p[:, 1])
        return p.at[-1].set(0)

    def step(state):
        u, v, p = state
        b = td.stencil(divergence(rho, dt, dx, dy), u, v)
        p = td.iterate(nit, lambda p: pressure(p, b), p)

        def u_at(u, v, p):
            return moved(u, u, v, dt, dx, dy, nu) - dt / (2 * rho * dx) * (p[0, 1] - p[0, -1])

        def v_at(u, v, p):
            return moved(v, u, v, dt, dx, dy, nu) - dt / (2 * rho * dy) * (p[1, 0] - p[-1, 0])

        def walls(w, lid):
            return w.at[0].set(0).at[:, 0].set(0).at[:, -1].set(0).at[-1].set(lid)

        next_v = walls(td.stencil(v_at, u, v, p), 0)
        return walls(td.stencil(u_at, u, v, p), 1), next_v, p

    return td.iterate(nt, step, (u, v, p))


@program("channel_flow")
def channel_flow(nit, u, v, dt, dx, dy, p, rho, nu, F):
    # Periodic along x; the walls are the first and the last row.
    def pressure(p, b):
        p = td.stencil(relaxed(dx, dy), p, b, boundary=td.wrap)
        p = p.at[-1].set(p[-2])
        return p.at[0].set(p[1])

    def step(state):
        u, v, p, _, count = state
        b = td.stencil(divergence(rho, dt, dx, dy), u, v, boundary=td.wrap)
        p = td.iterate(nit, lambda p: pressure(p, b), p)

        def u_at(u, v, p):
            slope = dt / (2 * rho * dx) * (p[0, 1] - p[0, -1])
            return moved(u, u, v, dt, dx, dy, nu) - slope + F * dt

        def v_at(u, v, p):
            return moved(v, u, v, dt, dx, dy, nu) - dt / (2 * rho * dy) * (p[1, 0] - p[-1, 0])

        def walls(w):
            return w.at[0].set(0).at[-1].set(0)

        next_u = walls(td.stencil(u_at, u, v, p, boundary=td.wrap))
        next_v = walls(td.stencil(v_at, u, v, p, boundary=td.wrap))
        change = (td.sum(next_u) - td.sum(u)) / td.sum(next_u)
        return next_u, next_v, p, change, count + 1

    start = (u, v, p, td.unit(1.0), td.unit(0))
    u, v, p, _, count = td.while_loop(lambda s: td.the(s[3]) > 0.001, step, start)
    return count, u, v, p
