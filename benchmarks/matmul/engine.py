"""Building and launching the float32 tile engine (skeletons/products/engines/f32_matmul.cu) on PyTorch tensors."""
import ctypes
import os
import struct

import torch

import cu

SKELETONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'skeletons', 'cuda')
BM, BN, THREADS = 128, 256, 384

I, F, W, L, P = ctypes.c_int, ctypes.c_float, ctypes.c_uint32, ctypes.c_longlong, ctypes.c_void_p


class Term(ctypes.Structure):
    _fields_ = [('row', I), ('col', I), ('factor', W)]


class Target(ctypes.Structure):
    _fields_ = [('row', I), ('col', I), ('factor', W), ('first', I), ('last', I)]


class Product(ctypes.Structure):
    _fields_ = [('na', I), ('nb', I), ('nc', I), ('pad', I), ('a', Term * 2), ('b', Term * 2), ('c', Target * 4)]


class Arguments(ctypes.Structure):
    _fields_ = [('a', P), ('b', P), ('c', P), ('flags', P), ('a_row', L), ('a_col', L), ('b_row', L), ('b_col', L), ('c_row', L),
                ('a_rows', I), ('a_depth', I), ('b_depth', I), ('b_cols', I), ('c_rows', I), ('c_cols', I), ('qm', I), ('qn', I), ('qk', I), ('alpha', W), ('beta', W),
                ('tiles_m', I), ('tiles_n', I), ('group', I), ('products', I), ('items', I), ('product', Product * 7), ('extra', ctypes.c_uint64 * 16)]


class Quadrant(ctypes.Structure):
    _fields_ = [('p', P), ('pitch', L), ('rows', I), ('cols', I)]


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


def word(x, dtype=torch.float32):
    """A scalar as the engine's 32-bit word."""
    return struct.unpack('<I', struct.pack('<f', x))[0] if dtype == torch.float32 else int(x) & 0xFFFFFFFF


def products(algorithm, dtype=torch.float32):
    out = (Product * 7)()
    targets = [q for _, _, cs in algorithm for q, _ in cs]
    seen = []
    for p, (a, b, c) in zip(out, algorithm):
        p.na, p.nb, p.nc = len(a), len(b), len(c)
        for dst, src in ((p.a, a), (p.b, b)):
            assert src[0][1] == 1
            for d, (q, f) in zip(dst, src):
                d.row, d.col, d.factor = q >> 1, q & 1, word(f, dtype)
        for d, (q, f) in zip(p.c, c):
            d.row, d.col, d.factor = q >> 1, q & 1, word(f, dtype)
            d.first = q not in seen
            seen.append(q)
            d.last = seen.count(q) == targets.count(q)
    return out


def ceil(a, b):
    return -(-a // b)


class Engine:
    """One compiled variant: layouts of A and B ('k' or 'r' contiguous), algorithm, execution."""

    def __init__(self, a='k', b='r', vector=True, algorithm='standard', mode='owner', flags=(), group=16, dtype=torch.float32):
        self.algorithm = {'standard': STANDARD, 'strassen': STRASSEN}[algorithm]
        self.split = 1 if algorithm == 'standard' else 2
        self.mode, self.group = mode, group
        lay = {'k': 'K_CONTIGUOUS', 'r': 'R_CONTIGUOUS', 's': 'STRIDED'}
        self.flags = [f'-DTILE_LAYOUT_A={lay[a]}', f'-DTILE_LAYOUT_B={lay[b]}', f'-DTILE_VECTOR={"true" if vector else "false"}',
                      f'-DTILE_MODE={mode.upper()}', f'-DTILE_TERMS={2 if self.split == 2 else 1}', *flags]
        self.source = os.path.join(SKELETONS, 'f32_matmul.cu')
        self.dtype = dtype
        if dtype == torch.int32:
            self.flags.append('-DTILE_ARITHMETIC=tile::Int32')
        self.kernel = self.flags_ = None
        self.products = products(self.algorithm, dtype)
        self.sms = None

    def build(self):
        return cu.build(self.source, self.flags)

    def shared_bytes(self):
        """What f32_engine.cuh lays out (SHARED_BYTES)."""
        value = dict(f[2:].split('=') for f in self.flags if '=' in f)
        stage = ceil(8 * 4 * (BM + 4 + BN + 4) + 16, 128) * 128
        size = int(value.get('TILE_STAGES', 8)) * stage + 2048 + 128
        return size

    def load(self):
        if self.kernel is None:
            torch.zeros(1, device='cuda')  # creates the context
            smem = self.shared_bytes()
            blob = self.build()
            self.kernel = cu.Kernel(blob, 'matmul_f32', smem)
            self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        return self

    def quadrants(self, m, n, k):
        if self.split == 1:
            return m, n, k
        # multiples of eight: quadrants start on sixteen bytes, and only the last k-step has a fringe
        return tuple(ceil(ceil(x, 2), 8) * 8 for x in (m, n, k))

    def launch(self, a, b, c, alpha, beta, quadrants, table):
        """One launch: the products of `table` on the quadrants of a and b, into quadrants of c."""
        g = Arguments()
        g.a, g.b, g.c = a.data_ptr(), b.data_ptr(), c.data_ptr()
        g.a_row, g.a_col = a.stride()
        g.b_row, g.b_col = b.stride()
        g.c_row = c.stride(0)
        (g.a_rows, g.a_depth), (g.b_depth, g.b_cols), (g.c_rows, g.c_cols) = a.shape, b.shape, c.shape
        g.qm, g.qn, g.qk = quadrants
        g.alpha, g.beta = word(alpha, self.dtype), word(beta, self.dtype)
        g.tiles_m, g.tiles_n, g.group = ceil(g.qm, BM), ceil(g.qn, BN), self.group
        g.products = len(self.algorithm)
        g.items = g.tiles_m * g.tiles_n * (g.products if self.mode == 'atomic' else 1)
        if self.mode == 'split':
            if self.flags_ is None:
                self.flags_ = torch.zeros(self.sms + 1, dtype=torch.int32, device='cuda')
            g.flags = self.flags_.data_ptr()
        g.product = table
        work = g.items * (4 if self.mode == 'owner' else max(1, ceil(g.qk, 8)))  # a block's share is no less than 4 k-steps
        self.kernel((max(1, min(work // 4, self.sms)), 1, 1), THREADS, g, stream=torch.cuda.current_stream().cuda_stream)

    def prepare(self, c, beta):
        """The atomic execution adds to C: scale it first."""
        if self.mode == 'atomic':
            if beta == 0:
                c.zero_()
            elif beta != 1:
                c.mul_(beta)

    def __call__(self, a, b, c, alpha=1.0, beta=0.0):
        """c = alpha a b + beta c; a [m, k], b [k, n] of any strides, c row-major with contiguous columns."""
        self.load()
        (m, k), n = a.shape, b.shape[1]
        if m == 0 or n == 0:
            return c
        if k == 0:
            return c.mul_(beta) if beta else c.zero_()
        self.prepare(c, beta)
        self.launch(a, b, c, alpha, beta, self.quadrants(m, n, k), self.products)
        return c


class TwoLevel:
    """Strassen twice: the outer level's operand sums in memory (one each for A and B), the inner level
    fused; every inner product is added to up to four of the sixteen blocks of C at once."""

    def __init__(self, mode='atomic', **kw):
        self.inner = Engine(algorithm='strassen', mode=mode, **kw)
        self.mode, self.split = mode, 4
        self.sum_source = os.path.join(SKELETONS, 'f32_sum.cu')
        self.sum = None
        # the targets of inner product s within outer product r, on the 4 x 4 grid of C
        seq = [(r, s, co, ci, fo * fi) for r, (_, _, outer) in enumerate(STRASSEN) for s, (_, _, inner) in enumerate(STRASSEN)
               for co, fo in outer for ci, fi in inner]
        place = lambda co, ci: ((co >> 1) * 2 + (ci >> 1), (co & 1) * 2 + (ci & 1))
        order = {}
        for i, (_, _, co, ci, _) in enumerate(seq):
            order.setdefault(place(co, ci), []).append(i)
        self.tables = []
        for r in range(7):
            t = products(STRASSEN)
            for s in range(7):
                mine = [(i, *x[2:]) for i, x in enumerate(seq) if x[:2] == (r, s)]
                t[s].nc = len(mine)
                for d, (i, co, ci, f) in zip(t[s].c, mine):
                    d.row, d.col = place(co, ci)
                    d.factor, d.first, d.last = word(f), order[d.row, d.col][0] == i, order[d.row, d.col][-1] == i
            self.tables.append(t)

    def build(self):
        cu.build(self.sum_source)
        return self.inner.build()

    def load(self):
        self.inner.load()
        if self.sum is None:
            self.sum = cu.Kernel(cu.build(self.sum_source), 'quadrant_sum')
        return self

    def combine(self, x, terms, rows, cols, out):
        """A view of one quadrant, or the sum of two in `out`."""
        part = lambda q: x[(q >> 1) * rows:((q >> 1) + 1) * rows, (q & 1) * cols:((q & 1) + 1) * cols]
        if len(terms) == 1:
            return part(terms[0][0])
        p, q = part(terms[0][0]), part(terms[1][0])
        aligned = all(y.data_ptr() % 16 == 0 and y.stride(0) % 4 == 0 for y in (p, q))
        quads = []
        for y in (p, q):
            z = Quadrant()
            z.p, z.pitch, z.rows, z.cols = y.data_ptr(), y.stride(0), y.shape[0], y.shape[1]
            quads.append(z)
        self.sum((ceil(cols, 1024), min(rows, 2048), 1), 256, P(out.data_ptr()), L(cols), I(rows), *quads, F(terms[1][1]), I(aligned),
                 stream=torch.cuda.current_stream().cuda_stream)
        return out

    def __call__(self, a, b, c, alpha=1.0, beta=0.0):
        """Row-major operands with contiguous columns."""
        self.load()
        (m, k), n = a.shape, b.shape[1]
        qm, qn, qk = (ceil(ceil(x, 4), 8) * 8 for x in (m, n, k))
        s = torch.empty(2 * qm, 2 * qk, device=a.device)
        t = torch.empty(2 * qk, 2 * qn, device=a.device)
        self.inner.prepare(c, beta)
        for (ta, tb, _), table in zip(STRASSEN, self.tables):
            x = self.combine(a, ta, 2 * qm, 2 * qk, s)
            y = self.combine(b, tb, 2 * qk, 2 * qn, t)
            self.inner.launch(x, y, c, alpha, beta, (qm, qn, qk), table)
        return c


def relative_error(c, a, b, alpha=1.0, beta=0.0, c0=None):
    ref = alpha * (a.double() @ b.double())
    if beta:
        ref = ref + beta * c0.double()
    return ((c.double() - ref).norm() / ref.norm().clamp_min(1e-300)).item()
