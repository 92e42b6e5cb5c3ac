"""Some of the works in Triton, as its tutorials would write them: peers where Triton is installed.

Each function gives {name: run}, or nothing without Triton.  Results are PyTorch tensors.
"""

from __future__ import annotations

import math
from typing import Any

from .common import Run, tensor, torch, triton

if triton is not None and torch is not None:
    import triton.language as tl

    @triton.jit
    def chain_kernel(x_ptr, y_ptr, out_ptr, a, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        t = a * tl.load(x_ptr + at, inside) + tl.load(y_ptr + at, inside)
        tl.store(out_ptr + at, tl.sqrt(t * t + 1.0), inside)

    @triton.jit
    def prices_kernel(s_ptr, k_ptr, t_ptr, call_ptr, put_ptr, n, rate, volatility,
                      BLOCK: tl.constexpr):  # fmt: skip
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        s = tl.load(s_ptr + at, inside, other=1.0)
        k = tl.load(k_ptr + at, inside, other=1.0)
        t = tl.load(t_ptr + at, inside, other=1.0)
        root = volatility * tl.sqrt(t)
        d1 = (tl.log(s / k) + (rate + volatility * volatility / 2) * t) / root
        d2 = d1 - root
        n1 = 0.5 + 0.5 * tl.erf(d1 * 0.7071067811865476)
        n2 = 0.5 + 0.5 * tl.erf(d2 * 0.7071067811865476)
        discounted = k * tl.exp(-rate * t)
        call = s * n1 - discounted * n2
        tl.store(call_ptr + at, call, inside)
        tl.store(put_ptr + at, call - s + discounted, inside)

    @triton.jit
    def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        total = tl.zeros((BLOCK,), tl.float32)
        first = tl.program_id(0).to(tl.int64) * BLOCK
        for start in range(first, n, tl.num_programs(0) * BLOCK):
            at = start + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + at, at < n, other=0.0)
        tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))

    @triton.jit
    def stencil_kernel(a_ptr, w_ptr, out_ptr, h, w, R: tl.constexpr, ROWS: tl.constexpr,
                       COLS: tl.constexpr):  # fmt: skip
        y = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        x = tl.program_id(1) * COLS + tl.arange(0, COLS)
        total = tl.zeros((ROWS, COLS), tl.float32)
        for i in tl.static_range(2 * R + 1):
            row = tl.minimum(tl.maximum(y + (i - R), 0), h - 1)
            for j in tl.static_range(2 * R + 1):
                col = tl.minimum(tl.maximum(x + (j - R), 0), w - 1)
                weight = tl.load(w_ptr + i * (2 * R + 1) + j)
                total += weight * tl.load(a_ptr + row[:, None] * w + col[None, :])
        inside = (y < h)[:, None] & (x < w)[None, :]
        tl.store(out_ptr + y[:, None] * w + x[None, :], total, inside)

    @triton.jit
    def product_kernel(a_ptr, b_ptr, c_ptr, n, BM: tl.constexpr, BN: tl.constexpr,
                       BK: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
        down = tl.cdiv(n, BM)
        across = tl.cdiv(n, BN)
        program = tl.program_id(0)
        group = program // (GROUP * across)
        rows_left = tl.minimum(down - group * GROUP, GROUP)
        i = group * GROUP + program % (GROUP * across) % rows_left
        j = program % (GROUP * across) // rows_left
        rows = (i * BM + tl.arange(0, BM)) % n
        cols = (j * BN + tl.arange(0, BN)) % n
        k = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, n, BK):
            at = start + k
            a = tl.load(a_ptr + rows[:, None] * n + at[None, :], (at < n)[None, :], other=0.0)
            b = tl.load(b_ptr + at[:, None] * n + cols[None, :], (at < n)[:, None], other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
        y = i * BM + tl.arange(0, BM)
        x = j * BN + tl.arange(0, BN)
        tl.store(c_ptr + y[:, None] * n + x[None, :], total, (y < n)[:, None] & (x < n)[None, :])


def _peer(run: Run) -> dict[str, Run]:
    return {"Triton": run}


def chain(a: float, x: Any, y: Any) -> dict[str, Run]:
    """√((ax + y)² + 1)."""
    if triton is None or torch is None:
        return {}
    t, u = tensor(x), tensor(y)
    n, block = t.numel(), 1024

    def run() -> Any:
        out = torch.empty_like(t)
        chain_kernel[(triton.cdiv(n, block),)](t, u, out, a, n, BLOCK=block)
        return out

    return _peer(run)


def prices(rate: float, volatility: float, *arrays: Any) -> dict[str, Run]:
    """Black–Scholes: calls and puts."""
    if triton is None or torch is None:
        return {}
    s, k, t = map(tensor, arrays)
    n, block = s.numel(), 1024

    def run() -> Any:
        call, put = torch.empty_like(s), torch.empty_like(s)
        prices_kernel[(triton.cdiv(n, block),)](s, k, t, call, put, n, rate, volatility,
                                                BLOCK=block)  # fmt: skip
        return call, put

    return _peer(run)


def total(x: Any) -> dict[str, Run]:
    """A sum: one partial result to a program, then a program that adds these up."""
    if triton is None or torch is None:
        return {}
    t = tensor(x)
    programs, block = 132 * 8, 4096

    def run() -> Any:
        partial = torch.empty(programs, dtype=torch.float32, device=t.device)
        out = torch.empty(1, dtype=torch.float32, device=t.device)
        sum_kernel[(programs,)](t, partial, t.numel(), BLOCK=block, num_warps=8)
        sum_kernel[(1,)](partial, out, programs, BLOCK=2048)
        return out[0]

    return _peer(run)


def stencil(a: Any, w: Any) -> dict[str, Run]:
    """A window of weights with a clamped border."""
    if triton is None or torch is None:
        return {}
    t, weights = tensor(a), tensor(w).contiguous()
    (h, width), rows, cols = t.shape, 8, 128

    def run() -> Any:
        out = torch.empty_like(t)
        grid = math.ceil(h / rows), math.ceil(width / cols)
        stencil_kernel[grid](t, weights, out, h, width, R=weights.shape[0] // 2, ROWS=rows,
                             COLS=cols)  # fmt: skip
        return out

    return _peer(run)


def product(a: Any, b: Any) -> dict[str, Run]:
    """A float32 product in float32 (`input_precision="ieee"`), of square matrices."""
    if triton is None or torch is None:
        return {}
    t, u = tensor(a), tensor(b)
    n, tile = t.shape[0], 128

    def run() -> Any:
        out = torch.empty_like(t)
        grid = (triton.cdiv(n, tile) ** 2,)
        product_kernel[grid](t, u, out, n, BM=tile, BN=tile, BK=16, GROUP=8, num_warps=8,
                             num_stages=3)  # fmt: skip
        return out

    return _peer(run)
