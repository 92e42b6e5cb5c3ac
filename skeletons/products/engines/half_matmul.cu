// The product of 16-bit floats on tensor cores.  TILE_BN columns of a tile (a multiple of 64);
// TILE_ELEMENT: HALF or BFLOAT; TILE_LAYOUT_A, TILE_LAYOUT_B; TILE_EPILOGUE, with TILE_VALUE for the
// type of an output; TILE_PORTABLE 1 for every architecture from sm_80 on.
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks as
// multiprocessors or fewer.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v half_matmul.cu
#include "tile_slots.cuh"
#include "half_engine.cuh"
#ifndef TILE_VALUE
#define TILE_VALUE tile::Bits
#endif

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_half(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
    run<TILE_LAYOUT_A == R_CONTIGUOUS, TILE_LAYOUT_B == R_CONTIGUOUS, TILE_EPILOGUE, TILE_VALUE>(g);
}
