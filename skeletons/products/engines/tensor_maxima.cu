// The largest magnitudes of the rows of A and the columns of B (tensor_images.cuh), which scale them.
// Grid: blocks of rows of A, then of columns of B; parts of k.  `maxima` are zero before.
#include "tile_slots.cuh"
#include "tensor_images.cuh"

extern "C" __global__ void __launch_bounds__(tile::MAXIMA_THREADS) operand_maxima(const __grid_constant__ tile::Operands g) {
    using namespace tile;
    __shared__ u32 found[8][32];
    const int of_a = g.a.tiles * BM / MAXIMA_ROWS<TILE_LAYOUT_A>, block = blockIdx.x;
    if (block < of_a)
        for (int of = 0; of < g.a.blocks; of++) maxima<BM, TILE_LAYOUT_A, TILE_A, false>(g.a, g.extra, block, blockIdx.y, gridDim.y, of, found);
    else
        for (int of = 0; of < g.b.blocks; of++) maxima<BN, TILE_LAYOUT_B, TILE_B, true>(g.b, g.extra, block - of_a, blockIdx.y, gridDim.y, of, found);
}
