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
// Needs tensor_ptx.cuh and tile_work.cuh.
#pragma once

namespace tile {

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
    __device__ __forceinline__ u32 stage() const { return base + at * BYTES; }
    __device__ __forceinline__ u32 full() const { return base + FULL + 8 * at; }
    __device__ __forceinline__ u32 empty() const { return base + EMPTY + 8 * at; }
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
            for (int item = blockIdx.x; item < g.items; item += gridDim.x) {
                int tm, tn;
                tile_of(g, item, tm, tn);
                for (int r = 0; r < Work::products(g); r++) {
                    typename Work::Source from(g, tm, tn, r);
#pragma unroll 1
                    for (int s = 0; s < from.count; s++) {
                        barrier_wait(ring.empty(), ring.parity ^ 1);
                        barrier_expect(ring.full(), Work::Feed::BYTES);
                        from.load(g, ring.stage(), ring.full());
                        ring.next();
                    }
                }
            }
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
