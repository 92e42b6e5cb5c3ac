// The product of float32 rounded to tf32.  TILE_BN columns of a tile, of C or (TILE_FLIPPED 1) of C transposed;
// TILE_LAYOUT_A, TILE_LAYOUT_B: that of the operand whose rows are wgmma's is free, the other one's is K_CONTIGUOUS;
// TILE_A or TILE_B: a function of the former; TILE_EPILOGUE.
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks as
// multiprocessors or fewer.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v tf32_matmul.cu
#include "tile_slots.cuh"
#include "tf32_engine.cuh"

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_tf32(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
#if TILE_FLIPPED
    run<true, TILE_LAYOUT_B == R_CONTIGUOUS, TILE_B, TILE_EPILOGUE>(g);
#else
    run<false, TILE_LAYOUT_A == R_CONTIGUOUS, TILE_A, TILE_EPILOGUE>(g);
#endif
}
