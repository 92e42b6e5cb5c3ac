"""Check and time the float32 tile engine against cuBLAS on one GPU.

    python bench.py check                       every variant against float64, odd shapes, poisoned output
    python bench.py time  [sizes] [--save]      square products, interleaved with cuBLAS, medians of events
    compute-sanitizer --tool racecheck python bench.py sanitize 'strassen atomic/nn' [size]
    ncu -k matmul_f32 python bench.py profile 'standard owner/nn' 4096

Needs nvcc (CUDA 13), PyTorch and a GPU of compute capability 9.0.  With --save
the numbers go to results/<date>-<device>.json.
"""
import argparse
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

import engine

HERE = os.path.dirname(os.path.abspath(__file__))
torch.backends.cuda.matmul.allow_tf32 = False

VARIANTS = {
    'standard owner': dict(),
    'standard split': dict(mode='split'),
    'standard atomic': dict(mode='atomic'),
    'strassen owner': dict(algorithm='strassen'),
    'strassen atomic': dict(algorithm='strassen', mode='atomic'),
}
LAYOUTS = {  # operand layouts: row-major is k-contiguous for A and r-contiguous for B
    'nn': ('k', 'r', True), 'nt': ('k', 'k', True), 'tn': ('r', 'r', True), 'tt': ('r', 'k', True),
    'nn unaligned': ('k', 'r', False), 'strided': ('s', 's', False),
}
SHAPES = [(1, 1, 1), (1, 1, 8), (2, 3, 5), (7, 1, 129), (127, 255, 8), (128, 256, 16), (129, 257, 17), (509, 521, 523), (1023, 1025, 1024),
          (4097, 33, 260), (31, 5003, 67), (8, 8, 10007), (1000, 1100, 900), (640, 1280, 0)]


def operand(rows, cols, layout, kind):
    """A random [rows, cols] tensor; layout 'c' has contiguous columns, 'r' contiguous rows, 's' neither."""
    make = {'normal': torch.randn, 'uniform': torch.rand}[kind]
    if layout == 'c':
        return make(rows, cols, device='cuda')
    if layout == 'r':
        return make(cols, rows, device='cuda').T
    return make(rows, 2 * cols + 1, device='cuda')[:, ::2][:, :cols]


def fits(layout, m, n, k, split):
    """Whether the sixteen-byte loads of a vector variant are allowed."""
    a, b, vector = layout
    if not vector:
        return True
    return (k if a == 'k' else m) % 4 == 0 and (n if b == 'r' else k) % 4 == 0


def make(layout='nn', **kw):
    a, b, vector = LAYOUTS[layout]
    return engine.Engine(a=a, b=b, vector=vector, **kw)


def build(engines):
    with ThreadPoolExecutor(os.cpu_count()) as ex:
        list(ex.map(lambda e: e.build(), engines))


def check():
    torch.manual_seed(1)
    todo = [(v, l, make(l, **kw)) for v, kw in VARIANTS.items() for l in LAYOUTS]
    build([e for *_, e in todo])
    worst = {}
    for v, l, e in todo:
        a_lay, b_lay, _ = LAYOUTS[l]
        count = 0
        for m, n, k in SHAPES:
            if not fits(LAYOUTS[l], m, n, k, e.split):
                m, n, k = -(-m // 4) * 4, -(-n // 4) * 4, -(-k // 4) * 4
            a = operand(m, k, {'k': 'c', 'r': 'r', 's': 's'}[a_lay], 'normal')
            b = operand(k, n, {'r': 'c', 'k': 'r', 's': 's'}[b_lay], 'normal')
            for alpha, beta in ((1.0, 0.0), (-0.5, 2.0)):
                wide = torch.full((m + 2, n + 8), float('nan'), device='cuda')  # poison, and a guard around C
                c = wide[1:m + 1, 4:n + 4]
                c0 = torch.randn(m, n, device='cuda')
                if beta:
                    c.copy_(c0)
                e(a, b, c, alpha, beta)
                torch.cuda.synchronize()
                err = engine.relative_error(c, a, b, alpha, beta, c0)
                if m * n < 100 and k:  # a result of few elements may cancel: measure against |A||B|
                    ref = alpha * (a.double() @ b.double()) + (beta * c0.double() if beta else 0)
                    err = ((c.double() - ref).norm() / (abs(alpha) * (a.double().abs() @ b.double().abs()) + abs(beta) * c0.double().abs()).norm()).item()
                if k == 0 and beta == 0:
                    err = float(c.abs().max())
                guard = torch.isnan(wide).sum().item() == wide.numel() - m * n
                key = (v, l)
                worst[key] = max(worst.get(key, 0.0), err if err == err else float('inf'), 0.0 if guard else float('inf'))
                count += 1
                limit = (2e-6 if e.split == 1 else 4e-6) * max(1, k / 4000) ** 0.5
                if not (err < limit and guard):
                    print(f'FAIL {v} {l} {m}x{n}x{k} alpha {alpha} beta {beta}: error {err:.2e} guard {guard}', flush=True)
        print(f'{v:15s} {l:13s} {count} products, worst relative error {worst[v, l]:.1e}', flush=True)
    bad = [k for k, x in worst.items() if not x < 8e-6]
    print('check:', 'FAILED ' + str(bad) if bad else 'passed')
    return not bad


def check_fused():
    """The slots: transforms of both operands and an epilogue, in all executions that take them."""
    torch.manual_seed(3)
    include = ['-include', os.path.join(HERE, 'fused_example.cuh')]
    cases = {'transform A': ['-DTILE_A=SquareShifted'], 'generate B': ['-DTILE_B=Generated'], 'epilogue': ['-DTILE_EPILOGUE=BiasRelu'],
             'all': ['-DTILE_A=SquareShifted', '-DTILE_B=Generated', '-DTILE_EPILOGUE=BiasRelu']}
    todo = [(c, alg, l, make(l, algorithm=alg, flags=include + f)) for c, f in cases.items() for alg in ('standard', 'strassen') for l in ('nn', 'tn', 'nn unaligned')]
    build([e for *_, e in todo])
    ok = True
    for c, alg, l, e in todo:
        worst = 0.0
        for m, n, k in ((260, 516, 1028), (129, 257, 67), (1000, 1100, 900)):
            if l != 'nn unaligned':
                m, n, k = (-(-x // 4) * 4 for x in (m, n, k))
            a = operand(m, k, 'r' if l == 'tn' else 'c', 'normal')
            b = operand(k, n, 'c', 'normal')
            x, y = a.double(), b.double()
            i, j, kk = (torch.arange(z, device='cuda') for z in (m, n, k))
            if c in ('transform A', 'all'):
                x = x * x + 0.25 * ((i[:, None] + kk) & 3)
            if c in ('generate B', 'all'):
                y = 0.125 * ((kk[:, None] * 3 + j * 5) % 17).double() - 1.0
            want = -0.5 * (x @ y)
            if c in ('epilogue', 'all'):
                want = (want + 0.5 * (i[:, None] & 1) - 0.25 * (j & 3)).clamp_min(0)
            out = torch.full((m, n), float('nan'), device='cuda')
            e(a, b, out, -0.5)
            err = ((out.double() - want).norm() / want.norm()).item()
            worst = max(worst, err if err == err else float('inf'))
        ok &= worst < 4e-6
        print(f'fused {c:12s} {alg:9s} {l:13s} worst relative error {worst:.1e}', flush=True)
    return ok


def check_int32():
    """Exactness modulo 2^32, against NumPy."""
    import numpy as np
    rng = np.random.default_rng(4)
    todo = [(alg, mode, l, make(l, algorithm=alg, mode=mode, dtype=torch.int32)) for alg in ('standard', 'strassen') for mode in ('owner', 'atomic') for l in ('nn', 'nn unaligned')]
    build([e for *_, e in todo])
    ok = True
    for m, n, k in ((1, 1, 1), (129, 257, 67), (508, 516, 700)):
        a, b, c0 = (rng.integers(-2 ** 31, 2 ** 31, s, dtype=np.int64).astype(np.int32) for s in ((m, k), (k, n), (m, n)))
        with np.errstate(over='ignore'):
            want = (np.int32(3) * (a @ b) - np.int32(5) * c0).astype(np.int32)
        ta, tb = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        for alg, mode, l, e in todo:
            if not fits(LAYOUTS[l], m, n, k, e.split):
                continue
            c = torch.from_numpy(c0.copy()).cuda()
            e(ta, tb, c, 3, -5)
            same = bool((c.cpu().numpy() == want).all())
            ok &= same
            if not same:
                print(f'FAIL int32 {alg} {mode} {l} {m}x{n}x{k}')
    print('int32 exact modulo 2^32:', ok, flush=True)
    return ok


def check_two_levels():
    todo = {m: engine.TwoLevel(mode=m) for m in ('atomic', 'owner')}
    build(todo.values())
    ok = True
    for m, n, k in ((4, 4, 4), (36, 68, 100), (516, 1028, 260), (1000, 1100, 900), (4092, 2052, 1036)):
        a, b = torch.randn(m, k, device='cuda'), torch.randn(k, n, device='cuda')
        for name, e in todo.items():
            for beta in (0.0, 2.0):
                c = torch.full((m, n), float('nan'), device='cuda')
                c0 = torch.randn(m, n, device='cuda')
                if beta:
                    c.copy_(c0)
                e(a, b, c, -0.5, beta)
                err = engine.relative_error(c, a, b, -0.5, beta, c0)
                if not err < 8e-6:
                    ok = False
                    print(f'FAIL two levels {name} {m}x{n}x{k} beta {beta}: {err:.1e}')
    print('two levels:', ok, flush=True)
    return ok


def replay(f, calls):
    """The function captured `calls` times in a CUDA graph: host time stays out of short kernels."""
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(calls):
            f()
    return g.replay


def measure(functions, reps, calls=1):
    """Interleaved runs, so that drift hits all alike: lists of milliseconds a call."""
    for f in functions:
        f()
        f()
    torch.cuda.synchronize()
    if calls > 1:
        functions = [replay(f, calls) for f in functions]
        for f in functions:
            f()
    times = [[] for _ in functions]
    for _ in range(reps):
        for f, t in zip(functions, times):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            f()
            stop.record()
            torch.cuda.synchronize()
            t.append(start.elapsed_time(stop) / calls)
    return times


def sources():
    """What was measured, also where no repository is at hand."""
    h = hashlib.sha256()
    for f in sorted(os.listdir(engine.SKELETONS)):
        if f.startswith('f32_'):
            h.update(open(os.path.join(engine.SKELETONS, f), 'rb').read())
    return h.hexdigest()[:16]


def commit():
    r = subprocess.run(['git', '-C', HERE, 'rev-parse', 'HEAD'], capture_output=True, text=True, encoding="utf-8")
    return r.stdout.strip() if r.returncode == 0 else None


def environment():
    p = torch.cuda.get_device_properties(0)
    driver = subprocess.run(['nvidia-smi', '--query-gpu=driver_version,clocks.max.sm,power.limit', '--format=csv,noheader'], capture_output=True, text=True, encoding="utf-8").stdout.strip()
    nvcc = subprocess.run(['nvcc', '--version'], capture_output=True, text=True, encoding="utf-8").stdout.split('release ')[-1].split(',')[0]
    return {'device': p.name, 'sms': p.multi_processor_count, 'driver, max clock, power limit': driver, 'torch': torch.__version__,
            'cuda': torch.version.cuda, 'cublas': '.'.join(map(str, cublas_version())), 'nvcc': nvcc,
            'date': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'), 'commit': commit(), 'f32 sources sha256': sources()}


def cublas_version():
    import ctypes
    import glob
    import site
    v = ctypes.c_int()
    out = []
    for d in site.getsitepackages():
        for f in glob.glob(os.path.join(d, 'nvidia', '*', 'lib', 'libcublas.so.*')):
            lib = ctypes.CDLL(f)
            for i in range(3):
                lib.cublasGetProperty(i, ctypes.byref(v))
                out.append(v.value)
            return out
    return out


def candidates():
    out = {name: make('nn', **kw) for name, kw in VARIANTS.items()}
    out['two levels atomic'] = engine.TwoLevel()
    out['two levels owner'] = engine.TwoLevel(mode='owner')
    return out


def ragged():
    """Extents that fill no tile: the fringe paths, and what cuBLAS makes of the same."""
    aligned = {name: make('nn', **kw) for name, kw in VARIANTS.items() if 'owner' not in name or name.startswith('standard')}
    unaligned = {name: make('nn unaligned', **kw) for name, kw in VARIANTS.items() if 'owner' not in name or name.startswith('standard')}
    build([*aligned.values(), *unaligned.values()])
    rows = []
    for m, n, k in ((4100, 4100, 4100), (4097, 4097, 4097), (5000, 5000, 5000), (8191, 8191, 8191), (16384, 512, 4096), (512, 16384, 4096), (2048, 2048, 65536)):
        todo = aligned if n % 4 == 0 and k % 4 == 0 else unaligned
        a, b, c = (torch.randn(s, device='cuda') for s in ((m, k), (k, n), (m, n)))
        fs = [lambda: torch.mm(a, b, out=c)] + [lambda e=e: e(a, b, c) for e in todo.values()]
        med = [statistics.median(t) for t in measure(fs, 9)]
        flop = 2 * m * n * k / 1e9
        rows.append({'m': m, 'n': n, 'k': k, 'cublas_tflops': flop / med[0], 'variants': {x: {'ms': t, 'tflops': flop / t, 'ratio': med[0] / t} for x, t in zip(todo, med[1:])}})
        print(f'{m}x{n}x{k} cuBLAS {flop / med[0]:.2f}  ' + '  '.join(f'{x} {flop / t:.2f} ({med[0] / t:.3f}x)' for x, t in zip(todo, med[1:])), flush=True)
    return rows


def fused():
    """What the slots cost: the fused product against the bare one."""
    include = ['-include', os.path.join(HERE, 'fused_example.cuh')]
    cases = {'bare': [], 'transform A': ['-DTILE_A=SquareShifted'], 'generate B': ['-DTILE_B=Generated'], 'epilogue': ['-DTILE_EPILOGUE=BiasRelu']}
    todo = {name: make('nn', flags=(include if f else []) + f) for name, f in cases.items()}
    build(todo.values())
    a, b, c = (torch.randn(8192, 8192, device='cuda') for _ in range(3))
    med = [statistics.median(t) for t in measure([lambda e=e: e(a, b, c) for e in todo.values()], 7)]
    print('fused, 8192: ' + '  '.join(f'{name} {t:.3f} ms ({t / med[0]:.3f})' for name, t in zip(todo, med)), flush=True)
    return {name: {'ms': t, 'of_bare': t / med[0]} for name, t in zip(todo, med)}


def int32(sizes):
    """Throughput of the int32 engine; the peer is CuPy's matmul where CuPy is installed."""
    try:
        import cupy
    except ImportError:
        cupy = None
    todo = {f'{alg} {mode}': make('nn', algorithm=alg, mode=mode, dtype=torch.int32) for alg in ('standard', 'strassen') for mode in ('owner', 'atomic')}
    build(todo.values())
    rows = []
    for n in sizes:
        a, b = (torch.randint(-2 ** 31, 2 ** 31 - 1, (n, n), device='cuda', dtype=torch.int32) for _ in range(2))
        c = torch.empty(n, n, device='cuda', dtype=torch.int32)
        fs = [lambda e=e: e(a, b, c) for e in todo.values()]
        med = [statistics.median(t) for t in measure(fs, 5, 10 if n <= 3072 else 1)]
        flop = 2 * n ** 3 / 1e9
        row = {'n': n, 'variants': {k: {'ms': t, 'tops': flop / t} for k, t in zip(todo, med)}}
        if cupy is not None and n <= 8192:
            x, y, z = (cupy.from_dlpack(v) for v in (a, b, c))
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
            with stream:
                row['cupy_tops'] = flop / statistics.median(measure([lambda: cupy.matmul(x, y, out=z)], 3)[0])
        rows.append(row)
        print('int32', n, '  '.join(f"{k} {v['tops']:.2f}" for k, v in row['variants'].items()), 'CuPy', f"{row.get('cupy_tops', float('nan')):.2f}", 'TOP/s', flush=True)
    return rows


def time(sizes, save, seconds=0.6):
    todo = candidates()
    build(todo.values())
    rows = []
    torch.manual_seed(2)
    for n in sizes:
        a, b = torch.randn(n, n, device='cuda'), torch.randn(n, n, device='cuda')
        c = torch.empty(n, n, device='cuda')
        functions = [lambda: torch.mm(a, b, out=c)] + [lambda e=e: e(a, b, c) for e in todo.values()]
        reps = max(5, min(50, int(seconds / (2 * n ** 3 / 50e12))))
        calls = 10 if n <= 3072 else 1
        times = measure(functions, max(5, reps // calls), calls)
        flop = 2 * n ** 3 / 1e9
        med = [statistics.median(t) for t in times]
        row = {'n': n, 'repetitions': max(5, reps // calls), 'calls in a graph': calls, 'cublas_tflops': flop / med[0], 'variants': {}}
        for (name, e), t, m in zip(todo.items(), times[1:], med[1:]):
            q = statistics.quantiles(t, n=4)
            row['variants'][name] = {'ms': m, 'tflops': flop / m, 'ratio': med[0] / m, 'spread': (q[2] - q[0]) / m}
        if n <= 8192:
            for name, e in todo.items():
                c.fill_(float('nan'))
                e(a, b, c)
                row['variants'][name]['error'] = engine.relative_error(c, a, b)
            torch.mm(a, b, out=c)
            row['cublas_error'] = engine.relative_error(c, a, b)
        rows.append(row)
        del a, b, c
    edge = ragged() if save else []
    slots = fused() if save else {}
    ints = int32([x for x in sizes if 1024 <= x <= 16384 and x & x - 1 == 0]) if save else []
    names = list(todo)
    print(f"{'n':>6} {'cuBLAS':>8}  " + '  '.join(f'{x:>22}' for x in names))
    for r in rows:
        print(f"{r['n']:6d} {r['cublas_tflops']:6.2f} TF  " + '  '.join(f"{r['variants'][x]['tflops']:13.2f} {r['variants'][x]['ratio']:7.3f}x" for x in names))
    if save:
        env = environment()
        path = os.path.join(HERE, 'results', f"{env['date'][:10]}-{env['device'].replace(' ', '-').lower()}-{save}.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding="utf-8") as f:
            json.dump({'environment': env, 'what': 'float32 square matmul, random normal data, medians of CUDA events (graphs of ten calls up to 3072), interleaved with cuBLAS (torch.mm, TF32 off)', 'rows': rows, 'ragged': edge, 'fused': slots, 'int32': ints}, f, indent=1)
        print('wrote', path)


def one(name, n, launches):
    v, _, l = name.partition('/')
    extra = ['-DTILE_EVERY_LANE_ARRIVES=1'] if launches == 1 else []  # for racecheck
    e = engine.TwoLevel(mode=v.split()[-1], flags=extra) if v.startswith('two') else make(l or 'nn', flags=extra, **VARIANTS[v])
    a, b = torch.randn(n, n, device='cuda'), torch.randn(n, n, device='cuda')
    if l in ('nt', 'tt'):
        b = b.T
    if l in ('tn', 'tt'):
        a = a.T
    c = torch.full((n, n), float('nan'), device='cuda')
    for _ in range(launches):
        e(a, b, c)
    torch.cuda.synchronize()
    print(name, n, 'relative error', engine.relative_error(c, a, b))


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('what', choices=['check', 'time', 'sanitize', 'profile'])
    p.add_argument('args', nargs='*')
    p.add_argument('--save', nargs='?', const='float32', default=None)
    o = p.parse_args()
    if o.what == 'check':
        sys.exit(0 if all([check(), check_fused(), check_int32(), check_two_levels()]) else 1)
    elif o.what == 'time':
        sizes = [int(x) for x in o.args[0].split(',')] if o.args else [512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 20480]
        time(sizes, o.save)
    elif o.what == 'sanitize':
        one(o.args[0], int(o.args[1]) if len(o.args) > 1 else 300, 1)
    else:
        one(o.args[0], int(o.args[1]), 2)
