// The exact int32 (uint32) product on int8 tensor cores: standard, and one level of Strassen or any
// other ⟨2,2,2;7⟩ algorithm.  Macros as for f32_matmul.cu; TILE_MODE is OWNER or ATOMIC, TILE_VECTOR
// true allows sixteen-byte loads of operands that are contiguous along k (base pointers, leading
// strides and extents along k multiples of four).
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks as
// multiprocessors or fewer.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v i32_matmul.cu
#include "tile_slots.cuh"
#include "i32_engine.cuh"

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_i32(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
    run<TILE_LAYOUT_A, TILE_LAYOUT_B, TILE_VECTOR, TILE_A, TILE_B, TILE_EPILOGUE, TILE_MODE, TILE_TERMS>(g);
}
