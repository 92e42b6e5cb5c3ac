"""Sparse matrix-vector product (CSR): a segmented fold."""

import numpy as np
from scipy import sparse

import treadle as td
from treadle.examples._show import Made, stage
from treadle.examples._timing import race


@td.jit
def spmv(data: td.Array, columns: td.Array, starts: td.Array, x: td.Array) -> td.Array:
    """The product of x with the matrix whose row i is data[starts[i] : starts[i + 1]]."""
    products = td.map(lambda value, column: value * x[column], data, columns)
    return td.fold_seg(lambda a, b: a + b, 0.0, products, starts[1:] - starts[:-1])


def grid(rows: int) -> sparse.csr_array:
    """The five-point Laplacian of a square grid: five entries per row."""
    side = max(2, int(rows**0.5))
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sparse.kronsum(line, line, format="csr")


def web(rows: int, entries: int, seed: int) -> sparse.csr_array:
    """Rows of very different lengths, some empty, like the links of web pages."""
    random = np.random.default_rng(seed)
    lengths = np.minimum(random.zipf(1.8, rows) - 1, rows)
    lengths = np.minimum((lengths * (entries / max(lengths.sum(), 1))).astype(np.int64), rows)
    columns = random.integers(0, rows, lengths.sum()).astype(np.int32)
    starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    return sparse.csr_array((random.random(columns.size), columns, starts), shape=(rows, rows))


def uniform(rows: int, each: int, seed: int) -> sparse.csr_array:
    """The same number of entries in every row, at random columns."""
    random = np.random.default_rng(seed)
    columns = random.integers(0, rows, rows * each).astype(np.int32)
    starts = np.arange(0, rows * each + 1, each, dtype=np.int32)
    return sparse.csr_array((random.random(rows * each), columns, starts), shape=(rows, rows))


def by_scipy(
    data: np.ndarray, columns: np.ndarray, starts: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """The product in scipy.sparse."""
    return sparse.csr_array((data, columns, starts), shape=(len(starts) - 1, len(x))) @ x


def program() -> td.Program:
    """The program, for any matrix in CSR form."""
    a = grid(64)
    return spmv.lower(a.data, a.indices, a.indptr, np.ones(a.shape[1]))


def main(rows: int = 250_000, seed: int = 1) -> Made:
    """Print times for three kinds of matrices compared with scipy.sparse, and the largest error."""
    stage(f"making matrices of {rows:,} rows")
    matrices = {
        "grid": grid(rows),
        "uniform": uniform(rows, 16, seed),
        "web": web(rows, 16 * rows, seed),
    }
    contests, worst, values = [], 0.0, {}
    for kind, a in matrices.items():
        args = (a.data, a.indices, a.indptr, np.random.default_rng(seed).random(a.shape[1]))
        values[kind] = (a, args[3], spmv(*args))
        worst = max(worst, float(np.max(np.abs(values[kind][2] - by_scipy(*args)))))
        contests.append((f"{kind}, {a.nnz:,} entries", spmv, by_scipy, args))
    table = race("sparse matrix times vector", "SciPy", contests)
    return Made(values, tables=(table,), notes=(f"largest difference from SciPy: {worst:.1e}",))
