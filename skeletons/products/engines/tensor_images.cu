// The images of A and B (tensor_images.cuh).  Grid: the stages of each tile of A and then of B.  A block
// makes the images of all products of its tile, whose blocks it then reads once from memory.
#include "tile_slots.cuh"
#include "tensor_images.cuh"

extern "C" __global__ void __launch_bounds__(tile::IMAGE_THREADS, 4) operand_images(const __grid_constant__ tile::Operands g) {
    using namespace tile;
    const u32 memory = dynamic_base();
    const int tile = blockIdx.x / g.a.stages, stage = blockIdx.x % g.a.stages;
#pragma unroll 1
    for (int product = 0; product < g.products; product++) {
        if (tile < g.a.tiles) images<BM, TILE_LAYOUT_A, TILE_A, false, TILE_TERMS>(g.a, g.extra, g.flag, stage, tile, product, memory);
        else images<BN, TILE_LAYOUT_B, TILE_B, true, TILE_TERMS>(g.b, g.extra, g.flag, stage, tile - g.a.tiles, product, memory);
    }
}
