// The float32 (or int32) product kernel: standard, and one level of Strassen or any other
// ⟨2,2,2;7⟩ algorithm whose operands are sums of at most two quadrants.  The algorithm is
// data (tile::Arguments::product); macros choose what is compiled:
//
//   TILE_LAYOUT_A   K_CONTIGUOUS (row-major A), R_CONTIGUOUS (A transposed), STRIDED
//   TILE_LAYOUT_B   R_CONTIGUOUS (row-major B), K_CONTIGUOUS (B transposed), STRIDED
//   TILE_VECTOR     true: sixteen-byte loads; base pointers, leading strides and the quadrant
//                   extents along the contiguous index must be multiples of four elements
//   TILE_MODE       OWNER (deterministic), SPLIT (deterministic, balanced, one product, workspace),
//                   PERSISTENT (deterministic, an item for each product, flags in memory) or ATOMIC
//                   (balanced; C scaled by beta beforehand)
//   TILE_BN         columns of a tile: 256, or 192 for architectures other than Hopper
//   TILE_TERMS      1: standard, 2: operands of up to two terms
//   TILE_ARITHMETIC tile::Float32 or tile::Int32
//   TILE_A, TILE_B, TILE_EPILOGUE   the slots for fused code: structs like tile::Plain
//   TILE_GUARDED    the product is computed only if the word at tile::Arguments::flags is not zero
//   TILE_CONSUMER_REGS   registers of a consumer (default: the fastest number measured)
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks
// as multiprocessors or fewer.  The 16-byte path covers all tiles inside their quadrants;
// fringes are loaded element by element, and zero-padded in the tiles only.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v f32_matmul.cu
#include "tile_slots.cuh"
#include "f32_engine.cuh"
#ifndef TILE_ARITHMETIC
#define TILE_ARITHMETIC tile::Float32
#endif

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_f32(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
#ifdef TILE_GUARDED
    if (*g.flags == 0) return;
#endif
    typedef Loader<TILE_ARITHMETIC, BM, PITCH_A, TILE_LAYOUT_A, TILE_VECTOR, TILE_A, false> LA;
    typedef Loader<TILE_ARITHMETIC, BN, PITCH_B, TILE_LAYOUT_B, TILE_VECTOR, TILE_B, true> LB;
#ifdef TILE_CONSUMER_REGS
    constexpr int registers = TILE_CONSUMER_REGS;
#else
    // The most that the producers can give up before ptxas ignores register banks: from the machine code, and measured.
    constexpr bool two = TILE_TERMS == 2, a = LA::SOURCES > 1, b = LB::SOURCES > 1;
    constexpr bool full = two ? a || !TILE_B::identity : a && b && TILE_MODE != SPLIT;
    constexpr int registers = TILE_VECTOR ? full ? 200 : 208 : two ? 192 : TILE_MODE == SPLIT ? 208 : 200;
#endif
    run<TILE_ARITHMETIC, Registers<TILE_ARITHMETIC, LA, LB>, TILE_EPILOGUE, TILE_MODE, TILE_TERMS, registers>(g);
}
