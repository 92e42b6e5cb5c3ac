#pragma once
// Defaults of the macros of a product kernel: one plain product of row-major operands, nothing fused.
// Their values name parts of the engine.
#ifndef TILE_TERMS
#define TILE_TERMS 1
#endif
#ifndef TILE_VECTOR
#define TILE_VECTOR true
#endif
#ifndef TILE_MODE
#define TILE_MODE OWNER
#endif
#ifndef TILE_LAYOUT_A
#define TILE_LAYOUT_A K_CONTIGUOUS
#endif
#ifndef TILE_LAYOUT_B
#define TILE_LAYOUT_B R_CONTIGUOUS
#endif
#ifndef TILE_A
#define TILE_A tile::Plain
#endif
#ifndef TILE_B
#define TILE_B tile::Plain
#endif
#ifndef TILE_EPILOGUE
#define TILE_EPILOGUE tile::Plain
#endif
// One lane arrives for its warp, after a __syncwarp.  compute-sanitizer's racecheck
// follows only threads that arrive themselves: for it, let every lane arrive.
#ifndef TILE_EVERY_LANE_ARRIVES
#define TILE_EVERY_LANE_ARRIVES 0
#endif
#define ARRIVALS_PER_WARP (TILE_EVERY_LANE_ARRIVES ? 32 : 1)
