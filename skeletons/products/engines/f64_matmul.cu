// The float64 product kernel: standard, one level of Strassen or any other ⟨2,2,2;7⟩ algorithm
// (sums of two quadrants).  The algorithm is data (tile::Arguments::product); macros choose what is
// compiled:
//
//   TILE_LAYOUT_A   K_CONTIGUOUS (row-major A), R_CONTIGUOUS (A transposed), STRIDED
//   TILE_LAYOUT_B   R_CONTIGUOUS (row-major B), K_CONTIGUOUS (B transposed), STRIDED
//   TILE_VECTOR     true: sixteen-byte accesses; base pointers, leading strides and the extents
//                   along the contiguous index must be even
//   TILE_MODE       OWNER (deterministic, no atomics) or ATOMIC (C scaled by beta beforehand)
//   TILE_TERMS      1: standard, 2: operands of up to two terms
//   TILE_BM, TILE_BN, TILE_WARPS_M, TILE_BK, TILE_MMA_K, TILE_STAGES   the shape
//   TILE_A, TILE_B, TILE_EPILOGUE   the slots for fused code: structs like tile::Plain
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks as
// multiprocessors or fewer.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v f64_matmul.cu
#include "tile_slots.cuh"
#if TILE_TERMS == 2 // the producers of sums leave no registers for the larger fragments
#undef TILE_MMA_K
#define TILE_MMA_K 8
#endif
#ifndef TILE_CONSUMER_REGS // so that nothing spills; the producers get the rest
#if TILE_TERMS == 2
#define TILE_CONSUMER_REGS 192
#else
#define TILE_CONSUMER_REGS 208
#endif
#endif
#include "f64_engine.cuh"

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_f64(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
    run<TILE_LAYOUT_A, TILE_LAYOUT_B, TILE_VECTOR, TILE_A, TILE_B, TILE_EPILOGUE, TILE_MODE, TILE_TERMS>(g);
}
