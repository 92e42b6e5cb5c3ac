// The pipeline of the engines on tensor cores: persistent blocks with a ring of stages.
//
// A `Work` is an arithmetic, with what brings its operands and stores its results:
//
//   Feed             the ring: `Slots`
//   ARRIVALS, GIVEN  how many threads announce a full stage, and give it back
//   consume          computes and stores the outputs of a tile
//   LOADER           whether one more warpgroup brings stages, of which one thread starts bulk copies; then also
//   REGISTERS        of a consumer thread; the loader has what they leave of the launch's 504 for three warpgroups
//   Source           the stages of a tile, in order: `count`, `load` (to a stage, completing BYTES on a barrier)
//
// Needs tensor_ptx.cuh and tile_work.cuh; the arguments of `tile_of` and `SoftBarrier`.
#pragma once

#ifndef TILE_PATIENCE
#define TILE_PATIENCE 2000
#endif
namespace tile {

constexpr int PATIENCE = TILE_PATIENCE; // reads of the L2

// A ring: STAGES stages of BYTES, what else is in shared memory, the barriers of full stages, those of empty ones.
template <int BYTES_, int STAGES, int BESIDE = 0> struct Slots {
    static constexpr int BYTES = BYTES_, FULL = STAGES * BYTES + BESIDE, EMPTY = FULL + 8 * STAGES, SHARED = EMPTY + 8 * STAGES;
    u32 base;
    int at;
    u32 parity;
    __device__ static __forceinline__ void begin(u32 base, int t, int full, int empty) {
        if (t == 0)
            for (int s = 0; s < STAGES; s++) {
                barrier_init(base + FULL + 8 * s, full);
                if (empty) barrier_init(base + EMPTY + 8 * s, empty);
            }
        barriers_made();
        __syncthreads();
    }
    __device__ __forceinline__ void next() {
        if (++at == STAGES) { at = 0; parity ^= 1; }
    }
    // So many stages later, fewer than all.
    __device__ __forceinline__ Slots ahead(int by) const {
        Slots later = {base, at + by, parity};
        if (later.at >= STAGES) { later.at -= STAGES; later.parity ^= 1; }
        return later;
    }
    __device__ __forceinline__ u32 stage() const { return base + at * BYTES; }
    __device__ __forceinline__ u32 full() const { return base + FULL + 8 * at; }
    __device__ __forceinline__ u32 empty() const { return base + EMPTY + 8 * at; }
};

// Concurrent blocks read the same parts of operands, which stay in the L2 for a while only: a block that is behind reads
// memory, and falls further behind.  So their loaders wait for each other: after every `g.pace` stages (0: never) each
// counts in `*g.arrived`, and waits until all blocks, on average, have arrived once less often.  Nothing but time depends
// on it: if others do not arrive, since they are not running, it waits no more.
struct SoftBarrier {
    int every, left, mine;
    template <class Arguments> __device__ __forceinline__ SoftBarrier(const Arguments &g) : every(g.pace), left(g.pace), mine(0) {}
    // Before a stage.
    template <class Arguments> __device__ __forceinline__ void wait(const Arguments &g) {
        if (every == 0 || --left > 0) return;
        left = every;
        red32(g.arrived, 1);
        const int enough = mine++ * (int)gridDim.x;
        for (int i = 0; load_relaxed(g.arrived) < enough; i++)
            if (i == PATIENCE) {
                every = 0;
                return;
            }
    }
    // After the last of this block's stages; others may have `stages`.
    template <class Arguments> __device__ __forceinline__ void leave(const Arguments &g, int stages) {
        if (every) red32(g.arrived, stages / every - mine);
    }
};

template <class Work, int CONSUMERS, class Arguments> __device__ __forceinline__ void pipeline(const Arguments &g) {
    const int t = threadIdx.x;
    const u32 base = dynamic_base();
    Work::Feed::begin(base, t, Work::ARRIVALS, Work::GIVEN);
    if constexpr (Work::LOADER) {
        if (t >= CONSUMERS) {
            fewer_registers<504 - 2 * Work::REGISTERS>();
            if (t != CONSUMERS) return;
            typename Work::Feed ring = {base, 0, 0};
            SoftBarrier others(g);
            int stages = 0;
            for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
                int tm, tn;
                tile_of(g, item, tm, tn);
                for (int r = 0; r < Work::products(g); r++) {
                    typename Work::Source from(g, tm, tn, r);
#pragma unroll 1
                    for (int s = 0; s < from.count; s++) {
                        others.wait(g);
                        barrier_wait(ring.empty(), ring.parity ^ 1);
                        barrier_expect(ring.full(), Work::Feed::BYTES);
                        from.load(g, ring.stage(), ring.full());
                        ring.next();
                    }
                    stages += from.count;
                }
            }
            const int items = (g.items - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x, most = (g.items + (int)gridDim.x - 1) / (int)gridDim.x;
            others.leave(g, stages / items * most);
            return;
        }
        more_registers<Work::REGISTERS>();
    }
    Work work(g, base, t);
    for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
        int tm, tn;
        tile_of(g, item, tm, tn);
        work.consume(g, base, item, tm, tn, t);
    }
}

} // namespace tile
