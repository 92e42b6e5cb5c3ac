"""Every skeleton once, small, under NVIDIA's compute-sanitizer:

    python tests/gpu/sanitizer.py                 memcheck, then racecheck
    python tests/gpu/sanitizer.py synccheck       another tool
    python tests/gpu/sanitizer.py --bare          the programs alone

Needs a GPU and compute-sanitizer, which comes with the CUDA toolkit.  Prints one line per tool, and
for one that found something the first of it; ends with status 1 then.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck")
SECONDS = 240
#: Processes that share the programs of a tool.
SHARES = max(1, min(8, (os.cpu_count() or 1) // 2))
#: A folder for what the tools print in full.
LOGS = os.environ.get("SANITIZER_LOGS")


#: Executions that the tile engines of Hopper have.
ENGINES = {
    "float32": ("atomic", "owner", "persistent", "recursive"),
    "int32": ("atomic", "owner", "recursive"),
}


def programs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and functions that build an expression over a few thousand elements."""
    import treadle as td
    from treadle.skeletons.lower.scan import gpu as lowering

    rng = np.random.default_rng(0)
    n = 5003
    ints, more = rng.integers(0, 9, n), rng.integers(0, 9, n)
    table = rng.integers(0, 9, (67, 131))
    image = rng.random((70, 133)).astype("f4")
    solid, cube = rng.random((9, 35, 40)), rng.integers(0, 9, (9, 18, 35))
    square = rng.random((256, 256)).astype("f4")
    unsorted, permutation = rng.integers(0, 1000, 700), rng.permutation(n)
    places, lengths = td.use(rng.integers(0, 40, n)), np.array([0, 5, 0, 998, 3000, 1000])

    long = np.arange(1 << 23, dtype=np.int32)  # several tiles for every multiprocessor

    def plus(x: Any, y: Any) -> Any:
        return x + y

    def affine(x: Any, y: Any) -> Any:
        return x[0] * y[0], x[1] * y[0] + y[1]

    yield "map", lambda: td.use(ints) * 2 + more
    yield "map of bytes", lambda: td.use(ints.astype("u1")) + td.use(more.astype("u1"))
    yield "slices", lambda: td.use(table)[::-1, 3::2] + 1
    yield "transpose", lambda: td.transpose(td.use(table)) * 3
    yield "transpose of rank 3", lambda: td.transpose(td.use(solid), (2, 0, 1))
    yield "morton", lambda: td.map(lambda x: x + 1, table, schedule=td.schedule.Morton())
    for name in ("clamp", "mirror", "symmetric", "wrap"):
        boundary = getattr(td, name)
        yield (
            f"stencil {name}",
            lambda b=boundary: td.stencil(
                lambda w: w[-1, 0] + w[1, 0] + w[0, -2] + w[0, 1], image, boundary=b
            ),
        )
    yield "stencil of rank 1", lambda: td.stencil(lambda w: w[-3] + w[2], ints)
    yield (
        "stencil of rank 3",
        lambda: td.stencil(lambda w: w[-1, 0, 0] + w[0, 1, 0] + w[0, 0, -1], cube),
    )
    yield "sum", lambda: td.sum(td.use(ints))
    yield "fold of rows", lambda: td.sum(td.use(table), axis=1)
    yield "fold of columns", lambda: td.sum(td.use(table), axis=0)
    yield "fold in order", lambda: td.fold(affine, (3, 5), td.zip(ints, more))
    yield "argmax", lambda: td.argmax(td.use(ints))
    one, other = (td.use(rng.random((m, 5)).astype("f4")) for m in (130, 2100))
    pairs = td.generate((130, 2100), lambda i, j: td.loop(
        5, lambda k, s: s + (one[i, k] - other[j, k]) ** 2, td.float32(0)))  # fmt: skip
    yield "fold over tiles", lambda: td.argmin(pairs, axis=1)
    yield "fold over tiles that rounds", lambda: td.sum(td.exp(-pairs), axis=1)
    yield "fold_seg", lambda: td.fold_seg(plus, 1, ints, lengths)
    for scan in ("scanl1", "scanr1"):
        yield scan, lambda s=scan: getattr(td, s)(plus, ints)
        yield f"{scan} in order", lambda s=scan: getattr(td, s)(affine, td.zip(ints, more))
        yield f"{scan} of rows", lambda s=scan: getattr(td, s)(plus, table, axis=1)
        yield f"{scan} of columns", lambda s=scan: getattr(td, s)(plus, table, axis=0)
    lowering.LONG_ROW = long.size  # the form for very long rows, without so many elements
    yield "scan of a very long row", lambda: td.scanl1(plus, long)
    yield "filter", lambda: td.filter(lambda x: x > 4, ints)
    yield "sort", lambda: td.sort(td.use(unsorted))
    yield "permute", lambda: td.permute(plus, np.zeros(40, "i8"), lambda i: places[i], ints)
    yield "permute of pairs", lambda: td.permute(
        lambda new, old: (new[0] + old[0], td.maximum(new[1], old[1])),
        td.zip(np.zeros(40, "i8"), np.zeros(40, "i8")), lambda i: places[i], td.zip(ints, more),
    )  # fmt: skip
    yield "histogram", lambda: td.bincount(td.use(ints), minlength=300)
    yield "scatter", lambda: td.scatter(np.zeros(n, "i8"), td.use(permutation), np.arange(n))
    yield "matmul of integers", lambda: td.matmul(table, table.T.copy())
    yield "matmul", lambda: td.matmul(image, image.T.copy())
    whole = rng.integers(-99, 99, (256, 256))
    for of, x in (("float32", square), ("int32", whole.astype("i4"))):
        for execution in ENGINES[of]:  # by name: so small a product is the library's
            yield (
                f"tile engine, {of}, {execution}",
                lambda x=x, e=execution: td.strassen(x, x, execution=e),
            )
    yield (
        "tile engine with what surrounds it",
        lambda: td.maximum(td.strassen(2 * td.use(square) + 1, square, execution="persistent"), 9),
    )
    for precision in ("fp16x3", "bf16x6", "tf32x3"):
        yield (
            f"tile engine, {precision}",
            lambda p=precision: td.maximum(
                td.matmul(2 * td.use(square), square.T, precision=p) + square[0], 9
            ),
        )
    yield (
        "tile engine, fp16x3, one level",
        lambda: td.matmul(square, square, precision="fp16x3", algorithm="strassen"),
    )
    yield (
        "tile engine, a row that needs float32",
        lambda: td.matmul(np.where(square > 0.999, np.inf, square), square, precision="fp16x3"),
    )
    half = rng.random((2048, 136)).astype("f2")
    yield "tile engine, float16", lambda: td.maximum(td.matmul(half, half.T) + half[:, 0], 1)
    wide = rng.random((2048, 328)).astype("f4")
    yield (
        "tile engine, tf32",
        lambda: td.maximum(td.matmul(wide, wide.T, precision="tf32") + wide[:, 0], 1),
    )
    yield (
        "tile engine, tf32, in registers",
        lambda: td.maximum(td.matmul(wide, 2 * td.use(wide[:328]), precision="tf32") + 1, 9),
    )
    for kind in ("f2", "f4", "c8"):
        for size in (3, 8, 13, 32, 60):
            many = rng.random((70, size, size)).astype(kind)
            yield f"small products of {kind}, {size}", lambda x=many: td.use(x) @ x + 1
    for size in (6, 8, 13, 32):
        many = rng.random((70, size, size)).astype("f4") + 4 * np.eye(size, dtype="f4")
        symmetric = many + many.swapaxes(1, 2)
        for f in (td.linalg.inv, td.linalg.cholesky, td.linalg.lu, td.linalg.qr):
            yield f"{f.__name__} of matrices of {size}", lambda f=f, x=symmetric: f(x)
        sides = rng.random((70, size, 2)).astype("f4") + 1
        yield f"solve of matrices of {size}", lambda x=many, b=sides: td.linalg.solve(x, b) + 1
        yield (
            f"triangular systems of matrices of {size}",
            lambda x=many, b=sides: td.linalg.solve_triangular(x, b, "T", lower=True) + 1,
        )
        yield f"eigh of matrices of {size}", lambda x=symmetric: _from_eigenvalues(x)
    points, means = rng.random((130, 50)), td.use(rng.random((3, 50)))
    for columns in (64, 150):
        apart = td.use(points)[None] - means[:, None]
        right, weights = rng.random((3, 130, columns)), rng.random((3, 130, 1))
        yield (
            f"a float64 product that folds its rows of {columns}",
            lambda a=apart, b=right[:, :50]: _and_sum(a @ b, 2),
        )
        yield (
            f"a float64 product that stores and folds an operand of {columns}",
            lambda a=apart, y=right, w=weights: _with_operand(a, td.use(y) * w),
        )
    yield (
        "matmul with sums in memory",
        lambda: td.matmul(
            image.astype("f8"), image.T.astype("f8"), algorithm="winograd", execution="batched"
        ),
    )
    for residency in (td.schedule.Agents(2), td.schedule.LocalityGraph(), td.schedule.Clusters(4)):
        placed = td.schedule.Block(4, 32) | residency
        yield (
            f"stencil, {residency}",
            lambda s=placed: td.stencil(
                lambda w: w[-1, 0] + w[0, 1], table, boundary=td.clamp, schedule=s
            ),
        )
        yield (
            f"gather, {residency}",
            lambda s=placed: td.generate(
                (n // 7, 64), lambda i, j: places[7 * i + j % 7] + j, schedule=s
            ),
        )
        yield (
            f"permute, {residency}",
            lambda s=placed: td.permute(
                plus, np.zeros(40, "i8"), lambda i, j: places[131 * (i % 30) + j], table, schedule=s
            ),
        )
    yield "loop", lambda: td.iterate(20, lambda a: td.stencil(lambda w: w[-1] + w[1], a), ints)
    for boundary in (td.clamp, td.mirror, td.wrap, td.constant(0)):
        yield f"stencils in passes, {boundary}", lambda b=boundary: _diffused(image[:, :132], b)
        yield f"gradient in passes, {boundary}", lambda b=boundary: _gradient(image[:, :132], b)
    planes = rng.random((16, 70, 132)).astype("f4")
    yield "waves in passes", lambda: _waves(image[:, :132], planes)
    for size in (13, 700):
        yield f"loop by one block of {size}", lambda x=ints[:size]: _repeated(x)


def _diffused(x: Any, boundary: Any) -> Any:
    """Iterations of which a pass makes several, with a field of coefficients."""
    import treadle as td

    return td.iterate(21, lambda u: td.stencil(
        lambda w: 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] + w[0, 0]) * w[0, 0], u,
        boundary=boundary,
    ) + 0.01 * td.use(x), x)  # fmt: skip


def _gradient(x: Any, boundary: Any) -> Any:
    """A loop that stores its states, and the reversed one, which reads windows of them."""
    import treadle as td

    def f(u: Any) -> Any:
        return td.sum(_diffused(u, boundary) ** 2)

    return td.value_and_grad(f)(td.use(x))[1]


def _waves(x: Any, planes: Any) -> Any:
    """The same with two states, one the other's value before, and a plane for each iteration."""
    import treadle as td

    near = td.use(planes)

    def step(k: Any, state: Any) -> Any:
        now, before = state
        around = td.stencil(lambda w: w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0], now)
        return 2 * now - before + 0.1 * around + 0.01 * near[k], now

    return td.loop(16, step, (x, x))[0]


def _repeated(x: Any) -> Any:
    """Less what a loop gives that one block of threads has run: zeros."""
    import treadle as td
    from treadle.backend.cuda.graphs import one_block

    def step(k: Any, u: Any) -> Any:
        total = td.the(td.sum(u))
        steps = td.cumsum(td.stencil(lambda w: w[-1] + w[1], u) + total) % 5
        return td.permute(lambda x, y: x + y, steps, lambda i: (7 * i + k) % u.shape[0], u) % 9

    program = td.jit(lambda u: td.loop(70, step, u), backend="cuda")
    loop, ran = one_block.OneBlock.run, []

    def run(self: Any, *args: Any) -> None:
        ran.append(loop(self, *args))

    one_block.WORTH, one_block.OneBlock.run = 0.0, run  # type: ignore[method-assign]
    later, one_block.later = one_block.later, lambda job, _: job()
    try:
        for _ in range(6):
            found = program(x)
    finally:
        one_block.OneBlock.run, one_block.later = loop, later  # type: ignore[method-assign]
    assert ran, "no loop was run by one block"
    return found - td.run(td.loop(70, step, td.use(x)), backend="reference")


def _from_eigenvalues(x: Any) -> Any:
    """A symmetric matrix from its decomposition, which is not unique."""
    import treadle as td

    values, vectors = td.linalg.eigh(x)
    return (vectors * values[:, None]) @ td.swapaxes(vectors, 1, 2)


def _and_sum(y: Any, axis: int) -> Any:
    import treadle as td

    return td.sum(y * y, axis=axis), y


def _with_operand(a: Any, g: Any) -> Any:
    import treadle as td

    return *_and_sum(g, 1), td.matrix_transpose(a) @ g


def bare(tool: str = "", share: str = "0/1") -> int:
    """Run a share of the programs and compare with `reference`."""
    import treadle as td
    from treadle.backend.cuda.products import choice

    choice.tensor_seconds = lambda *_: 0.0  # float64 products that compute an operand, at any size
    if tool == "racecheck":
        _let_every_lane_arrive()
    try:
        import cupy

        cupy.cuda.set_allocator(None)  # without a pool, overruns hit what is not allocated
    except ImportError:
        pass
    wrong, (own, shares) = 0, map(int, share.split("/"))
    for name, program in itertools.islice(programs(), own, None, shares):
        try:
            got = td.run(program(), backend="cuda")
            want = td.run(program(), backend="reference")
        except Exception as error:
            print(f"PROGRAM {name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            wrong += 1
            continue
        pairs = list(zip(_parts(got), _parts(want), strict=True))
        if not all(np.allclose(_host(g), w, rtol=1e-2) for g, w in pairs):
            print(f"PROGRAM {name}: wrong")
            wrong += 1
    print(f"PROGRAMS wrong: {wrong}")
    return wrong


def _let_every_lane_arrive() -> None:
    """Compile the tile engines so that racecheck can follow them.

    Of a warp, one lane arrives at an mbarrier, behind a `__syncwarp`.  racecheck follows only
    threads that arrive themselves; with all of them arriving the protocol is the same.
    """
    from treadle.backend.cuda.products import form as engine_form

    plain = engine_form.text
    engine_form.text = lambda name: "#define TILE_EVERY_LANE_ARRIVES 1\n" + plain(name)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


def sanitizer() -> str | None:
    """Where compute-sanitizer is."""
    found = shutil.which("compute-sanitizer")
    homes = [os.environ.get("CUDA_HOME", ""), *sorted(glob("/usr/local/cuda*"), reverse=True)]
    for home in (h for h in homes if h):
        for folder in ("bin", "compute-sanitizer"):
            path = os.path.join(home, folder, "compute-sanitizer")
            found = found or (path if os.path.isfile(path) else None)
    return found


def check(tool: str, program: str) -> int:
    """Run the programs under a tool, shared among processes; print a line or a few."""
    with ThreadPoolExecutor(SHARES) as pool:
        done = list(pool.map(lambda k: _under(tool, program, f"{k}/{SHARES}"), range(SHARES)))
    if not all(done):
        print(f"{tool}: not done in {SECONDS} s")
        return 1
    if LOGS:
        (Path(LOGS) / f"sanitizer-{tool}.log").write_text("".join(done), encoding="utf-8")
    return max(_report(tool, text) for text in done)


def _under(tool: str, program: str, share: str) -> str:
    """What a share of the programs prints under a tool, and how it ended; "" if it did not."""
    # Calls of the driver that fail are the libraries' way of asking what there is.
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [program, "--tool", tool, *quiet, sys.executable, __file__, "--bare", tool, share]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT,
                              env=environment, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""
    return f"{done.stdout}{done.stderr}\nEXIT {done.returncode}\n"


def _report(tool: str, text: str) -> int:
    lines = text.splitlines()
    found = [line.strip("= ") for line in lines
             if re.search(r"Invalid|Error:|Warning:|Program hit|Misaligned|leaked", line)
             and "SUMMARY" not in line]  # fmt: skip
    at = [m[1] for line in lines if (m := re.search(r"\bat (\w+)[(+]", line))]
    summary = [line.strip("= ") for line in lines if "SUMMARY" in line]
    own = [line for line in lines if line.startswith("PROGRAM")]
    print(f"{tool}: {'; '.join(summary) or 'no summary'}; {own[-1] if own else 'nothing ran'}")
    for line in own[:-1][:4]:
        print(f"  {line[:150]}")
    for text, count in Counter(found).most_common(3):
        print(f"  {count} × {text[:150]}")
    if at:
        print(f"  in {', '.join(f'{k} ({c})' for k, c in Counter(at).most_common(4))[:150]}")
    if not own:
        print("  " + " | ".join(lines[-2:])[:300])
    clean = own and own[-1].endswith(" 0") and lines[-1] == "EXIT 0"
    return 0 if clean and all(re.search(r": 0 ", s) for s in summary) else 1


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--bare"]:
        return bare(*arguments[1:])
    program = sanitizer()
    if program is None:
        print("compute-sanitizer is not here: it comes with the CUDA toolkit")
        return 1
    return max(check(tool, program) for tool in arguments or TOOLS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
