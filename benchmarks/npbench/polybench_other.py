"""NPBench's programs of statistics, graphs and sequences (its folder `polybench`)."""

from __future__ import annotations

import treadle as td

from .registry import program


@program("correlation")
def correlation(M, float_n, data):
    stddev = td.std(data, axis=0)
    stddev = td.where(stddev <= 0.1, 1.0, stddev)
    data = (data - td.mean(data, axis=0)) / (td.sqrt(float_n) * stddev)
    return td.where(td.eye(M, dtype=bool), 1.0, data.T @ data)


@program("covariance")
def covariance(M, float_n, data):
    data = data - td.mean(data, axis=0)
    return data.T @ data / (float_n - 1.0)


@program("covariance2")
def covariance2(M, float_n, data):
    data = data - td.mean(data, axis=0)
    return data.T @ data / (data.shape[0] - 1)


@program("floyd_warshall")
def floyd_warshall(path):
    def through(k, path):
        return td.minimum(path, path[:, k, None] + path[k])

    return td.loop(path.shape[0], through, path)


@program("nussinov")
def nussinov(N, seq):
    def diagonal(d, table):  # the segments of d + 1 elements, from shorter ones
        def best(i):
            j = i + d
            pair = td.where((d > 1) & (seq[i] + seq[j] == 3), 1, 0)
            inner = table[i + 1, j - 1] + td.cast(pair, td.int32)
            ends = td.maximum(table[i, j - 1], table[i + 1, j])
            return td.loop(
                i + 1,
                j,
                lambda k, score: td.maximum(score, table[i, k] + table[k + 1, j]),
                td.maximum(ends, inner),
            )

        start = td.iota(N - d)
        return td.update(table, (start, start + d), td.generate(N - d, best))

    return td.loop(1, N, diagonal, td.zeros((N, N), td.int32))
