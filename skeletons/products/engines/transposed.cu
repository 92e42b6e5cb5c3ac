// The transposed matrix of words: out(i, j) = x(j, i).  Grid: blocks of SIDE x SIDE words, in one row.
#include "i32_ptx.cuh"

namespace tile {

constexpr int SIDE = 32, THREADS = 256, SHARED_BYTES = SIDE * (SIDE + 1) * 4; // a column more: no bank conflicts

struct Arguments {
    const int *x;
    int *out;
    i64 x_row, out_row;
    int rows, cols, across; // of out; blocks of a row of blocks
};

__device__ __forceinline__ void transposed(const Arguments &g) {
    const u32 memory = shared_base();
    const int i0 = blockIdx.x / g.across * SIDE, j0 = blockIdx.x % g.across * SIDE, along = threadIdx.x % SIDE;
    for (int line = threadIdx.x / SIDE; line < SIDE; line += THREADS / SIDE) {
        int v = 0;
        if (j0 + line < g.cols && i0 + along < g.rows) ldg(v, g.x + (j0 + line) * g.x_row + i0 + along);
        store(memory + (line * (SIDE + 1) + along) * 4, (u32)v);
    }
    __syncthreads();
    for (int line = threadIdx.x / SIDE; line < SIDE; line += THREADS / SIDE)
        if (i0 + line < g.rows && j0 + along < g.cols)
            stg(g.out + (i0 + line) * g.out_row + j0 + along, (int)lds32(memory + (along * (SIDE + 1) + line) * 4));
}

} // namespace tile

extern "C" __global__ void __launch_bounds__(tile::THREADS) transposed_words(const __grid_constant__ tile::Arguments g) {
    tile::transposed(g);
}
