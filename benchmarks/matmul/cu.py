"""The few driver calls the benchmarks need, through ctypes: no host C++ and no package beside NumPy and PyTorch."""
import ctypes
import hashlib
import os
import subprocess
import threading

lib = ctypes.CDLL('libcuda.so.1')
P = ctypes.c_void_p


def call(name, *args):
    r = getattr(lib, name)(*args)
    if r:
        s = ctypes.c_char_p()
        lib.cuGetErrorString(r, ctypes.byref(s))
        raise RuntimeError(f'{name}: {r} {s.value}')


class Kernel:
    def __init__(self, cubin, name, smem=0):
        self.mod, self.fn = P(), P()
        call('cuModuleLoadData', ctypes.byref(self.mod), ctypes.c_char_p(cubin))
        call('cuModuleGetFunction', ctypes.byref(self.fn), self.mod, name.encode())
        self.smem = smem
        if smem > 48 * 1024 - 1024:
            call('cuFuncSetAttribute', self.fn, 8, ctypes.c_int(smem))

    def attr(self, which):
        v = ctypes.c_int()
        call('cuFuncGetAttribute', ctypes.byref(v), which, self.fn)
        return v.value

    regs = property(lambda s: s.attr(4))
    local = property(lambda s: s.attr(3))

    def __call__(self, grid, block, *args, stream=0):
        ptrs = (P * len(args))(*[ctypes.addressof(a) for a in args])
        call('cuLaunchKernel', self.fn, *[ctypes.c_uint(g) for g in grid], ctypes.c_uint(block), ctypes.c_uint(1), ctypes.c_uint(1),
             ctypes.c_uint(self.smem), P(stream), ptrs, None)


def build(source, flags=(), out=None, post=None):
    """nvcc -cubin, kept under a name that the sources and flags determine."""
    here = os.path.dirname(os.path.abspath(source))
    h = hashlib.sha256(repr(sorted(flags)).encode())
    for f in sorted(os.listdir(here)):
        if f.endswith('.cuh') or f == os.path.basename(source):
            h.update(open(os.path.join(here, f), 'rb').read())
    for f in flags:
        if os.path.isfile(f):
            h.update(open(f, 'rb').read())
    out = out or os.path.join(os.path.dirname(os.path.abspath(__file__)), 'build')
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, os.path.basename(source)[:-3] + '-' + h.hexdigest()[:16] + '.cubin')
    if not os.path.exists(path):
        tmp = f'{path}.{os.getpid()}.{threading.get_ident()}'
        r = subprocess.run(['nvcc', '-gencode=arch=compute_90a,code=sm_90a', '-cubin', '-std=c++17', '-Xptxas', '-v', *flags, source, '-o', tmp],
                           capture_output=True, text=True, encoding="utf-8")
        if r.returncode:
            raise RuntimeError(r.stderr)
        with open(path + '.log', 'w', encoding="utf-8") as f:
            f.write(r.stderr)
        os.rename(tmp, path)
    with open(path, 'rb') as f:
        return f.read()
