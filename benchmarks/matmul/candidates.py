"""Check and time the tile engine for int32 by limbs, beside CuPy and the IMAD engine.

    python candidates.py table [--all]                  registers, spills, main loops (--all: of every layout); needs no
                                                        GPU, leaves the cubins in build/ for `run` to load
    python candidates.py run [--seconds 95] [--out F]   on a GPU

`run` checks every variant on integers (every sum is exact: results must be equal), odd extents, all layouts, poisoned
results with a guard around them; owner and recursive bit for bit over repeated runs; then times products, each
variant interleaved with CuPy alone, so that power and clocks are those of the pair; medians of CUDA
events.  A short table comes last, the numbers go to results/<date>-<device>-candidates.json.  What is expected, and
why: NOTES-float64.md.

Needs NumPy, CuPy, cuda-core with NVRTC (12.9 or later), and a GPU of compute capability 9.0.
"""
import argparse
import datetime
import hashlib
import itertools
import json
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..'))

from treadle.backend.cuda.compile.nvrtc import Cubin, compile_text  # noqa: E402
from treadle.backend.cuda.products.form import FORMS, Code  # noqa: E402
from treadle.skeletons.products import STRASSEN  # noqa: E402

# (form, mode, levels); mode is an execution where there are levels
VARIANTS = [('Limbs32', 'owner', 0), ('Limbs32', 'atomic', 0), ('Limbs32', 'recursive', 1), ('Limbs32', 'recursive', 2), ('Limbs32', 'atomic', 1),
            ('Int32', 'split', 0), ('Int32', 'atomic', 1)]
SIZES = (256, 512, 768, 1024, 2048, 4096, 8192, 16384)
LAYOUTS = ('nn', 'nt', 'tn', 'tt', 'ss')
SHAPES = ((1, 1, 1), (7, 1, 129), (127, 255, 8), (128, 256, 64), (129, 257, 17), (509, 521, 523), (1000, 1100, 900), (2050, 33, 260), (640, 1280, 0))
HANG = 25  # seconds that a step may take


def title(name, mode, levels):
    return f"{name} {('', 'strassen ', 'two levels ')[levels]}{mode}"


def layouts(variant):
    """The engine in every layout; levels in one or two."""
    name, mode, levels = variant
    return LAYOUTS if name == 'Limbs32' and not levels else ('nn', 'tt') if mode == 'recursive' else ('nn',)


def codes(variants):
    """What these variants compile."""
    found = {}
    for name, mode, levels in variants:
        for v in [(name, mode, levels)] if mode != 'recursive' else [(name, 'owner', 0), (name, FORMS[name].cut, 0)]:
            for how in layouts((name, mode, levels)):
                left, right = {'n': 'K', 't': 'R', 's': 'S'}[how[0]], {'n': 'R', 't': 'K', 's': 'S'}[how[1]]
                for vector in (True, False) if how != 'ss' else (False,):
                    found[Code(left, right, vector, v[1], 2 if v[2] else 1, v[0])] = None
    return list(found)


def made(code, arch='sm_90a'):
    """Machine code: from build/, or compiled now."""
    form, source = FORMS[code.arithmetic], code.source()
    path = os.path.join(HERE, 'build', f'{form.entry}-{arch}-' + hashlib.sha256(source.encode()).hexdigest()[:20])
    if os.path.exists(path + '.cubin'):
        with open(path + '.cubin', 'rb') as f, open(path + '.json', encoding="utf-8") as g:
            return Cubin(form.entry, arch, f.read(), source, *json.load(g), form.shared_bytes)
    c = compile_text(source, form.entry, arch, dynamic_shared_bytes=form.shared_bytes)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + '.json', 'w', encoding="utf-8") as g:
        json.dump([c.registers, c.spills, c.stack, c.shared_bytes], g)
    with open(path + '.cubin', 'wb') as f:
        f.write(c.image)
    return c


def table(everything):
    """Registers, spills and the main loop, for sm_90a."""
    import shutil
    import tempfile

    import sass_stats
    nvdisasm = shutil.which('nvdisasm') or next((p for p in (os.path.join(d, 'nvidia', 'cu13', 'bin', 'nvdisasm') for d in sys.path) if os.path.exists(p)), None)
    todo = codes([v for v in VARIANTS if everything or v[0] != 'Int32'])
    if not everything:
        todo = [c for c in todo if (c.left, c.right, c.vector) == ('K', 'R', True)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cubins = list(pool.map(made, todo))
    print(f"{'form':24} {'layout':6} {'vector':6} {'mode':7} terms  regs spills  shared  main loop")
    for c, m in zip(todo, cubins):
        loop = ''
        if nvdisasm:
            with tempfile.NamedTemporaryFile(suffix='.cubin') as f:
                f.write(m.image)
                f.flush()
                for ins, labels in sass_stats.kernels(f.name, nvdisasm).values():
                    wanted = {'Limbs32': 'IGMMA', 'Int32': 'IMAD'}[c.arithmetic]
                    r = sass_stats.analyse(ins, labels, wanted, 4)
                    if r:
                        loop = f'{len(r[1])} instructions, {r[0][0]} {wanted}, {r[2].get("LDS", 0)} LDS, {r[2].get("LDL", 0) + r[2].get("STL", 0)} spilled'
        print(f'{c.arithmetic:24} {c.left + c.right:6} {c.vector!s:6} {c.mode:7} {c.terms:5} {m.registers:5} {m.spills:6} {m.dynamic_shared_bytes:7}  {loop}')


# ---------------------------------------------------------------- on the GPU


class Watchdog:
    """Ends the process when a step takes too long: a kernel that waits for ever would eat the lease."""

    def __init__(self):
        self.step('start', 60)
        threading.Thread(target=self.watch, daemon=True).start()

    def step(self, what, seconds=HANG):
        self.what, self.until = what, time.monotonic() + seconds

    def watch(self):
        while True:
            time.sleep(0.5)
            if time.monotonic() > self.until:
                print(f'HANGS: {self.what}', flush=True)
                os._exit(3)


class Bench:
    def __init__(self):
        self.dog = Watchdog()
        import cupy as cp

        from treadle.backend.cuda.graphs.launch import CudaDevice
        from treadle.backend.cuda.products.engine import Engine
        from treadle.backend.cuda.products.launching import Matrix
        self.cp, self.Matrix = cp, Matrix
        self.device = CudaDevice.current()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.engine = Engine(self.device)
        self.dog.step('compiling', 300)
        started = time.monotonic()
        todo = codes(VARIANTS)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            cubins = list(pool.map(lambda c: made(c, self.device.arch), todo))
        self.dog.step('loading')
        for code, cubin in zip(todo, cubins):
            self.engine._loaded[code] = self.device.load(cubin, FORMS[code.arithmetic].threads)
        print(f'{len(todo)} kernels in {time.monotonic() - started:.1f} s', flush=True)

    def matrix(self, x):
        return self.Matrix(x.data.ptr, *x.shape, *(s // x.itemsize for s in x.strides), x.itemsize)

    def product(self, variant, out, a, b):
        name, mode, levels = variant
        o, x, y = map(self.matrix, (out, a, b))
        if levels:
            self.engine.product(o, x, y, mode, name, STRASSEN, levels)
        else:
            self.engine.standard(o, x, y, mode, name)

    def operand(self, rows, cols, lies):
        cp = self.cp
        rows, cols = max(rows, 0), max(cols, 0)
        shape = (2 * rows, 2 * cols) if lies == 's' else (rows, cols)
        x = cp.random.randint(-2 ** 31, 2 ** 31 - 1, shape).astype(cp.int32)
        return x[::2, ::2] if lies == 's' else cp.asfortranarray(x) if lies == 't' else x

    def check(self):
        cp, wrong, count = self.cp, [], 0
        cp.random.seed(1)
        for how, (m, n, k) in itertools.product(LAYOUTS, SHAPES):
            a, b = self.operand(m, k, how[0]), self.operand(k, n, how[1])
            want = a @ b if k else cp.zeros((m, n), a.dtype)
            for v in VARIANTS:
                if v[0] == 'Int32' or how not in layouts(v) or v[2] and min(m, n, k) < 2:
                    continue
                what = f'{title(*v)} {how} {m}x{n}x{k}'
                self.dog.step(what)
                guard = cp.full((m + 2, n), 77, a.dtype)
                out = guard[1:m + 1]
                self.product(v, out, a, b)
                cp.cuda.Device().synchronize()
                edge = cp.concatenate([guard[:1], guard[-1:]])
                kept = (edge == 77).all()
                count += 1
                if not bool((out == want).all()) or not bool(kept):
                    wrong.append(what)
                    if len(wrong) <= 8:
                        print(f'WRONG {what}: {int((out != want).sum())} of {m * n} differ, guard {bool(kept)}', flush=True)
        n = 1000
        a, b = self.operand(n, n, 'n'), self.operand(n, n, 'n')
        want = a @ b
        for v in VARIANTS:
            if v[0] == 'Int32':
                continue
            self.dog.step(f'{title(*v)} repeated')
            runs = []
            for _ in range(5):
                out = cp.empty((n, n), a.dtype)
                self.product(v, out, a, b)
                runs.append(out)
            same = all(bool((x == runs[0]).all()) for x in runs)
            if not same or not bool((runs[0] == want).all()):
                wrong.append(f'{title(*v)} repeated: same {same}')
                print('WRONG', wrong[-1], flush=True)
        print(f'{count} products, {len(wrong)} wrong', flush=True)
        return {'products': count, 'wrong': wrong}

    def replay(self, f, calls):
        """The function `calls` times, in a CUDA graph: host time stays out of short kernels."""
        f()
        self.stream.begin_capture()
        for _ in range(calls):
            f()
        graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)

    def pair(self, peer, mine, calls, repetitions, graph):
        """Milliseconds of both, interleaved."""
        cp, times = self.cp, ([], [])
        with self.stream:
            functions = [peer and (lambda: [peer() for _ in range(calls)]), self.replay(mine, calls) if graph else mine]
            if peer and graph:
                functions[0] = self.replay(peer, calls)
            for r in range(repetitions + 1):
                for f, t in zip(functions, times):
                    if f is None:
                        continue
                    begin, end = cp.cuda.Event(), cp.cuda.Event()
                    begin.record()
                    f()
                    end.record()
                    end.synchronize()
                    if r:
                        t.append(cp.cuda.get_elapsed_time(begin, end) / calls)
        return times

    def time(self, deadline):
        cp, rows = self.cp, []
        for n in SIZES:
            a, b = self.operand(n, n, 'n'), self.operand(n, n, 'n')
            c, d = cp.empty_like(a), cp.empty_like(a)
            peer = (lambda: cp.matmul(a, b, out=d)) if n <= 4096 else None
            cp.cuda.Device().synchronize()
            flop = 2 * n ** 3 / 1e9
            row = {'n': n, 'variants': {}}
            for v in VARIANTS:
                if time.monotonic() > deadline:
                    print(f'no time for {title(*v)} {n}', flush=True)
                    continue
                known = v[0] == 'Int32' and n > 4096
                if v[2] and n < (2048 if v[2] == 1 else 4096) or known:
                    continue
                self.dog.step(f'timing {title(*v)} {n}')
                calls = max(1, min(20, int(2e-3 / (flop * 1e9 / 50e12))))
                repetitions = max(3, min(15, int(0.25 / (calls * flop * 1e9 / 25e12))))
                base, mine = self.pair(peer, lambda: self.product(v, c, a, b), calls, repetitions, calls > 1 or v[2] > 0)
                med = statistics.median(mine)
                other = statistics.median(base) if base else None
                found = {'ms': med, 'tflops': flop / med, 'peer_ms': other, 'ratio': other / med if base else None, 'spread': (max(mine) - min(mine)) / med}
                row['variants'][title(*v)] = found
            rows.append(row)
            best = sorted(row['variants'].items(), key=lambda x: x[1]['ms'])
            print(f'{n}: ' + '  '.join(f"{name} {x['tflops']:.1f}" + (f" ({x['ratio']:.3f})" if x['ratio'] else '') for name, x in best), flush=True)
            del a, b, c, d
            cp.get_default_memory_pool().free_all_blocks()
        return rows


def run(seconds, out):
    started = time.monotonic()
    bench = Bench()
    check = bench.check()
    rows = bench.time(started + seconds)
    import importlib.metadata as versions
    about = {p: versions.version(p) for p in ('numpy', 'cupy-cuda13x', 'cuda-core') if p in {d.metadata['Name'] for d in versions.distributions()}}
    with open(out, 'w', encoding="utf-8") as f:
        json.dump({'date': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'), 'packages': about, 'device': bench.device.name,
                   'check': check, 'rows': rows}, f, indent=1)
    names = list(dict.fromkeys(k for r in rows for k in r['variants']))
    print(f"\n{check['products']} products checked, {len(check['wrong'])} wrong; Top/s (x peer)")
    print(f"{'':34}" + ''.join(f"{r['n']:>16}" for r in rows))
    for k in names:
        cells = (r['variants'].get(k) for r in rows)
        print(f'{k:34}' + ''.join(f"{x['tflops']:8.1f} ({x['ratio'] or float('nan'):.3f})" if x else f"{'':16}" for x in cells))
    print(f'wrote {out}; {time.monotonic() - started:.0f} s')
    return 1 if check['wrong'] else 0


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('what', choices=['table', 'run'])
    p.add_argument('--seconds', type=float, default=95)
    p.add_argument('--out')
    p.add_argument('--all', action='store_true')
    o = p.parse_args()
    if o.what == 'table':
        table(o.all)
    else:
        sys.exit(run(o.seconds, o.out or os.path.join(HERE, 'results', f'{datetime.date.today()}-candidates.json')))
