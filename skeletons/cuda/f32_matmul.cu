// Standard float32 products and one-level bilinear algorithms (Strassen,
// Winograd's ⟨2,2,2;7⟩ without reused sums) on the tile engine.
//
// The macros are the slots for fused code: a struct with `identity` and
// `apply(x, i, k)` each (see tile::Plain).
#include "f32_engine.cuh"
#ifndef TILE_A
#define TILE_A tile::Plain
#endif
#ifndef TILE_B
#define TILE_B tile::Plain
#endif
#ifndef TILE_EPILOGUE
#define TILE_EPILOGUE tile::Plain
#endif
#ifndef TILE_LAYOUT_A
#define TILE_LAYOUT_A K_CONTIGUOUS
#endif
#ifndef TILE_LAYOUT_B
#define TILE_LAYOUT_B R_CONTIGUOUS
#endif
#ifndef TILE_VECTOR
#define TILE_VECTOR true
#endif
#ifndef TILE_MODE
#define TILE_MODE OWNER
#endif
#ifndef TILE_TERMS
#define TILE_TERMS 1
#endif

#ifndef TILE_ARITHMETIC
#define TILE_ARITHMETIC tile::Float32
#endif

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_f32(const __grid_constant__ tile::Arguments g) {
    using namespace tile;
    typedef Loader<TILE_ARITHMETIC, BM, PITCH_A, TILE_LAYOUT_A, TILE_VECTOR, TILE_A, false> LA;
    typedef Loader<TILE_ARITHMETIC, BN, PITCH_B, TILE_LAYOUT_B, TILE_VECTOR, TILE_B, true> LB;
    run<TILE_ARITHMETIC, Registers<TILE_ARITHMETIC, LA, LB>, TILE_EPILOGUE, TILE_MODE, TILE_TERMS>(g);
}
