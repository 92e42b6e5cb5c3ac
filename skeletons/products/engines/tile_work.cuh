// How the tiles of i32_engine.cuh are distributed among blocks.  Needs f32_ptx.cuh's types and `keep`.
#pragma once

namespace tile {

// Fused producers and consumers.  `apply(x, i, k)` gets an element and its indices in the complete
// operand; `finish(x, i, j, extra)` gets the final value of C(i, j) and the words of the launch.
struct Plain {
    static constexpr bool identity = true;
    template <class T> __device__ static __forceinline__ T apply(T x, int, int) { return x; }
    template <class T> __device__ static __forceinline__ T finish(T x, int, int, const u64 *) { return x; }
};

enum Layout { K_CONTIGUOUS, R_CONTIGUOUS, STRIDED }; // the index of the tile along which memory is contiguous
// OWNER: a block computes all products of its tile, in order: deterministic, beta and epilogue fused.
// ATOMIC: the items are (tile, product) pairs, distributed in waves; those of the last, partial waves are cut along k
// into equal shares.  Products are added to C, which is scaled by beta beforehand, in the L2.
enum Mode { OWNER, ATOMIC };

// Groups of g.group tile rows, visited column by column: concurrent blocks share a nearly square part of A and B in the
// L2.
template <class Arguments> __device__ __forceinline__ void tile_of(const Arguments &g, int t, int &tm, int &tn) {
    int per = g.group * g.tiles_n, band = t / per, first = band * g.group;
    int rows = min(g.group, g.tiles_m - first), in = t - band * per;
    tm = first + in % rows;
    tn = in / rows;
}

// The items of a block, in order: the same sequence for its producers and consumers.
template <Mode MODE, class Arguments> struct Walk {
    int item, from, count; // the item and its stages
    int unit;              // except OWNER: position in this worker's share, in stages after the last full wave
    __device__ static __forceinline__ int workers() { return (int)gridDim.x; }
    __device__ static __forceinline__ int worker() { return (int)blockIdx.x; }
    __device__ static __forceinline__ int whole(const Arguments &g) { // items distributed in full waves
        int waves = g.items / workers();
        return (g.items % workers() ? max(waves - 1, 0) : waves) * workers();
    }
    __device__ static __forceinline__ int share(const Arguments &g, int stages, int worker) {
        return (int)((i64)(g.items - whole(g)) * stages * worker / workers());
    }
    __device__ __forceinline__ Walk(const Arguments &g, int stages) : item(worker() - workers()), from(0), count(stages), unit(0) {
        if (MODE != OWNER) unit = share(g, stages, worker());
    }
    __device__ __forceinline__ bool next(const Arguments &g, int stages) {
        item += workers();
        if (MODE == OWNER) return item < g.items;
        int after = worker() + 1;
        keep(after); // recomputed per item: consumers have no registers to keep it
        const int dealt = whole(g), left = share(g, stages, after) - unit;
        if (item < dealt) return true;
        if (left <= 0) return false;
        item = dealt + unit / stages;
        from = unit % stages;
        count = min(stages - from, left);
        unit += count;
        return true;
    }
};

template <int BYTES, int STAGES> struct Ring {
    u32 base, at, parity; // parity: of the phase that this use of `at` completes
    __device__ __forceinline__ void next() {
        at += BYTES;
        if (at == base + STAGES * BYTES) { at = base; parity ^= 1; }
    }
};

__device__ __forceinline__ void warp_arrive(u32 bar, bool leader) {
    __syncwarp();
    if (TILE_EVERY_LANE_ARRIVES || leader) barrier_arrive(bar);
}

} // namespace tile
