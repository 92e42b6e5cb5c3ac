"""Building and launching the float32 tile engine (skeletons/cuda/f32_matmul.cu) on PyTorch tensors."""
import ctypes
import os

import torch

import cu

SKELETONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'skeletons', 'cuda')
BM, BN, THREADS = 128, 256, 384

I, F, L, P = ctypes.c_int, ctypes.c_float, ctypes.c_longlong, ctypes.c_void_p


class Term(ctypes.Structure):
    _fields_ = [('row', I), ('col', I), ('factor', F)]


class Target(ctypes.Structure):
    _fields_ = [('row', I), ('col', I), ('factor', F), ('first', I), ('last', I)]


class Product(ctypes.Structure):
    _fields_ = [('na', I), ('nb', I), ('nc', I), ('pad', I), ('a', Term * 2), ('b', Term * 2), ('c', Target * 2)]


class Arguments(ctypes.Structure):
    _fields_ = [('a', P), ('b', P), ('c', P), ('a_row', L), ('a_col', L), ('b_row', L), ('b_col', L), ('c_row', L),
                ('m', I), ('n', I), ('k', I), ('qm', I), ('qn', I), ('qk', I), ('alpha', F), ('beta', F),
                ('tiles_m', I), ('tiles_n', I), ('group', I), ('products', I), ('items', I), ('product', Product * 7)]


# (terms of A, terms of B, targets in C), quadrants numbered 0..3 by rows
STANDARD = [(((0, 1),), ((0, 1),), ((0, 1),))]
STRASSEN = [
    (((0, 1), (3, 1)), ((0, 1), (3, 1)), ((0, 1), (3, 1))),
    (((2, 1), (3, 1)), ((0, 1),), ((2, 1), (3, -1))),
    (((0, 1),), ((1, 1), (3, -1)), ((1, 1), (3, 1))),
    (((3, 1),), ((2, 1), (0, -1)), ((0, 1), (2, 1))),
    (((0, 1), (1, 1)), ((3, 1),), ((1, 1), (0, -1))),
    (((2, 1), (0, -1)), ((0, 1), (1, 1)), ((3, 1),)),
    (((1, 1), (3, -1)), ((2, 1), (3, 1)), ((0, 1),)),
]


def products(algorithm):
    out = (Product * 7)()
    targets = [q for _, _, cs in algorithm for q, _ in cs]
    seen = []
    for p, (a, b, c) in zip(out, algorithm):
        p.na, p.nb, p.nc = len(a), len(b), len(c)
        for dst, src in ((p.a, a), (p.b, b)):
            assert src[0][1] == 1
            for d, (q, f) in zip(dst, src):
                d.row, d.col, d.factor = q >> 1, q & 1, f
        for d, (q, f) in zip(p.c, c):
            d.row, d.col, d.factor = q >> 1, q & 1, f
            d.first = q not in seen
            seen.append(q)
            d.last = seen.count(q) == targets.count(q)
    return out


def ceil(a, b):
    return -(-a // b)


class Engine:
    """One compiled variant: layouts of A and B ('k' or 'r' contiguous), algorithm, execution."""

    def __init__(self, a='k', b='r', vector=True, algorithm='standard', mode='owner', flags=(), group=8, post=None, tma=False):
        self.algorithm = {'standard': STANDARD, 'strassen': STRASSEN}[algorithm]
        self.split = 1 if algorithm == 'standard' else 2
        self.mode, self.group = mode, group
        lay = {'k': 'K_CONTIGUOUS', 'r': 'R_CONTIGUOUS', 's': 'STRIDED'}
        self.flags = [f'-DTILE_LAYOUT_A={lay[a]}', f'-DTILE_LAYOUT_B={lay[b]}', f'-DTILE_VECTOR={"true" if vector else "false"}',
                      f'-DTILE_MODE={mode.upper()}', f'-DTILE_TERMS={2 if self.split == 2 else 1}', *flags]
        self.layout, self.tma, self.maps = (a, b), tma, {}
        if tma:
            self.flags += ['-DTILE_TMA=1', f'-DTILE_PAD_A={4 if a == "k" else 0}', f'-DTILE_PAD_B={4 if b == "k" else 0}']
        self.source = os.path.join(SKELETONS, 'f32_matmul.cu')
        self.post = post
        self.kernel = None
        self.products = products(self.algorithm)
        self.sms = None

    def build(self):
        return cu.build(self.source, self.flags)

    def shared_bytes(self):
        """What f32_engine.cuh lays out (SHARED_BYTES and the feed's own)."""
        value = dict(f[2:].split('=') for f in self.flags)
        get = lambda name, default: int(value.get(name, default))
        stage = 8 * 4 * (BM + get('TILE_PAD_A', 4) + BN + get('TILE_PAD_B', 4)) + 16
        size = get('TILE_STAGES', 8) * (ceil(stage, 128) * 128) + 2048 + 256
        if self.tma:
            terms, raw = get('TILE_TERMS', 1), get('TILE_RAW', 4)
            size += raw * (terms * 32 * (BM + BN) + 16)
        return size

    def map(self, x, layout, tile, contiguous):
        """The tensor map of an operand; boxes of one stage."""
        key = (x.data_ptr(), *x.shape, *x.stride(), tile)
        if key not in self.maps:
            y = x if layout == contiguous else x.T
            box = (tile, 8) if layout == 'k' else (8, tile)
            rows, cols = y.shape
            self.maps[key] = cu.tensor_map_2d(y.data_ptr(), rows, cols, max(y.stride(0), cols), *box, None)
        return self.maps[key]

    def load(self):
        if self.kernel is None:
            torch.zeros(1, device='cuda')  # creates the context
            smem = self.shared_bytes()
            blob = self.build()
            if self.post:
                blob = self.post(blob)
            self.kernel = cu.Kernel(blob, 'matmul_f32', smem)
            self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        return self

    def __call__(self, a, b, c, alpha=1.0, beta=0.0):
        """c = alpha a b + beta c; a [m, k], b [k, n] of any strides, c row-major with contiguous columns."""
        self.load()
        g = Arguments()
        (m, k), n = a.shape, b.shape[1]
        if m == 0 or n == 0:
            return c
        if k == 0:
            return c.mul_(beta) if beta else c.zero_()
        g.a, g.b, g.c = a.data_ptr(), b.data_ptr(), c.data_ptr()
        g.a_row, g.a_col = a.stride()
        g.b_row, g.b_col = b.stride()
        g.c_row = c.stride(0)
        g.m, g.n, g.k = m, n, k
        if self.split == 2:
            # multiples of eight: quadrants start on sixteen bytes and no k-step of the copy engine crosses into the next
            g.qm, g.qn, g.qk = (ceil(ceil(x, 2), 8) * 8 for x in (m, n, k))
        else:
            g.qm, g.qn, g.qk = m, n, k
        g.alpha, g.beta = alpha, beta
        g.tiles_m, g.tiles_n, g.group = ceil(g.qm, BM), ceil(g.qn, BN), self.group
        g.products = len(self.algorithm)
        g.items = g.tiles_m * g.tiles_n * (g.products if self.mode == 'atomic' else 1)
        g.product = self.products
        ma = self.map(a, self.layout[0], BM, 'k') if self.tma else cu.aligned_map()
        mb = self.map(b, self.layout[1], BN, 'r') if self.tma else ma
        if self.mode == 'atomic':
            if beta == 0:
                c.zero_()
            elif beta != 1:
                c.mul_(beta)
        work = g.items * (max(1, ceil(g.qk, 8)) if self.mode == 'atomic' else 4)  # in the atomic execution a block takes no fewer than 4 k-steps
        self.kernel((max(1, min(work // 4, self.sms)), 1, 1), THREADS, g, ma, mb, stream=torch.cuda.current_stream().cuda_stream)
        return c


def relative_error(c, a, b, alpha=1.0, beta=0.0, c0=None):
    ref = alpha * (a.double() @ b.double())
    if beta:
        ref = ref + beta * c0.double()
    return ((c.double() - ref).norm() / ref.norm().clamp_min(1e-300)).item()
