// A grid of CUDA threads on one core, for code that touches the machine only through the functions
// of skeletons/products/engines/*_ptx.cuh (which instructions.h replaces).
//
// Every thread is a fiber.  A fiber runs until it has to wait, so what it sees of the others depends
// only on what it waited for; the order in which fibers run is drawn from a seed.
//
// What goes wrong on a GPU now and then goes wrong here always:
//   - a vector clock a warp (and one for each warp's asynchronous copies) tells whether two accesses
//     to a word of shared memory, one of them a write, are ordered by barriers: if not, a race;
//   - a vector clock a block does the same for global memory, ordered by flags that are released and
//     acquired;
//   - asynchronous copies land late, when the scheduler pleases, in any order, and their destination
//     holds NaNs until then; shared memory starts as NaNs;
//   - accesses outside of what the caller allowed, or misaligned, stop the launch;
//   - so do a barrier with too many arrivals, lanes of a warp that meet at different instructions,
//     copies that nobody waits for, and threads that all wait.
#pragma once
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }

namespace grid {

constexpr int SHARED = 232448, WORDS = SHARED / 4; // bytes of a block, and what is watched
constexpr u64 LIMIT = 100000000;
constexpr u32 BASE = 1024;                         // shared addresses: BASE + offset
struct Index { unsigned x, y, z; };
typedef std::vector<u32> Clock;

struct Word { u32 writer = 0, written = 0; Clock reads; bool stored = false; }; // agents' clocks at the last write and reads;
                                                                                // stored: and not yet for the tensor cores to see
struct Barrier { int count = 0, left = 0; i64 bytes = 0; u32 phase = 0; Clock gathered, done; }; // bytes: that copies still bring
struct Meeting { int arrived = 0; u64 times = 0; std::vector<int> warps; }; // of all threads of a block, or a few warps
struct Warp {
    int arrived = 0;
    u64 times = 0;
    const char *what = nullptr;
    void *lane[32] = {};
};
// A bulk copy on its way: to shared memory, completing on a barrier, or from there, for a thread to wait for.
// Of cp.async: the first `bytes` of sixteen, then zeros; it is one of a group of a thread's copies.
struct Copies { int left = 0; Clock clock; };
struct Landing {
    struct Block *block;
    u32 barrier;
    Clock clock;
    void *to;
    const void *from;
    u32 bytes;
    struct Fiber *fiber;
    std::shared_ptr<Copies> copies;
    std::shared_ptr<std::vector<unsigned char>> box; // what a tensor map makes of memory
};
struct Block {
    std::unique_ptr<unsigned char[]> memory{new unsigned char[SHARED]};
    std::vector<Word> words;
    std::unordered_map<u32, Barrier> barriers;
    std::vector<Warp> warps;
    Meeting all;
    std::unordered_map<int, Meeting> some;
    int number = 0;
    Clock seen;                // of all blocks, for global memory
    std::vector<Clock> clocks; // of the agents: warps, then their copies
};
struct Fiber {
    jmp_buf at;
    ucontext_t start;
    std::unique_ptr<char[]> stack;
    Index thread, block_index;
    Block *block = nullptr;
    int warp = 0, lane = 0;
    bool started = false, finished = false;
    // what it waits for: a counter to move on, a barrier's phase, or just its next turn
    const u64 *counter = nullptr;
    u64 seen = 0;
    u32 barrier = 0, parity = 0;
    u64 begun = 0, landed = 0; // bulk copies from shared memory
    std::shared_ptr<Copies> copies;             // of cp.async, since the last group
    std::deque<std::shared_ptr<Copies>> waiting; // those that it did not wait for
    u64 copied = 0;
    std::vector<Word *> stores; // since the last fence for the tensor cores
    // wgmma (instructions.h): what was begun, groups committed, groups waited for, whether a fence came since
    std::shared_ptr<void> pending;
    int groups = 0, upto = 0;
    bool fenced = false;
};
struct Range { const char *begin, *end; bool writable; };

inline std::vector<std::unique_ptr<Fiber>> fibers;
inline std::vector<Range> allowed;
inline std::deque<Landing> landings;
inline Fiber *now;
inline jmp_buf scheduler;
inline char message[512];
inline bool failed;
struct Written { int block; u32 when; bool added; };
inline std::unordered_map<const void *, Written> written; // elements of global memory
inline std::unordered_map<const void *, Clock> flags;
inline Index extent;
inline int warps_of_block;
inline u32 shared_bytes; // of a block of this launch
inline void (*body)();

[[noreturn]] inline void fail(const char *format, ...) {
    if (!failed) {
        va_list list;
        va_start(list, format);
        int n = std::snprintf(message, sizeof message, "block %u thread %u: ", now ? now->block_index.x : 0, now ? now->thread.x : 0);
        std::vsnprintf(message + n, sizeof message - n, format, list);
        va_end(list);
    }
    failed = true;
    _longjmp(scheduler, 1);
}

// ---------------------------------------------------------------- waiting

inline void turn() {
    if (!_setjmp(now->at)) _longjmp(scheduler, 1);
}
inline void wait_for(const u64 &counter) {
    now->counter = &counter;
    now->seen = counter;
    turn();
}

// ---------------------------------------------------------------- order

inline int agents() { return 2 * warps_of_block; } // of one block
inline Clock &clock_of(Block *b, int agent) { return b->clocks[agent]; }
inline Clock &my_clock() { return clock_of(now->block, now->warp); }
inline void join(Clock &a, const Clock &b) {
    if (b.empty()) return;
    if (a.empty()) a.assign(b.size(), 0);
    for (size_t i = 0; i < a.size(); i++) a[i] = std::max(a[i], b[i]);
}

// An access of this warp (or its copies) to shared memory, which must be ordered after all that it conflicts with.
inline unsigned char *shared(u32 at, u32 size, bool write, bool copy = false) {
    Block *b = now->block;
    if (at < BASE || at + size > BASE + shared_bytes) fail("shared memory has no address %u", at);
    if (at % size) fail("a shared access of %u bytes at %u", size, at);
    const u32 agent = now->warp + (copy ? warps_of_block : 0);
    Clock &mine = b->clocks[agent];
    for (u32 w = (at - BASE) / 4; w < (at - BASE + size) / 4; w++) {
        Word &x = b->words[w];
        if (x.written > mine[x.writer] && x.writer != agent)
            fail("race: %s of shared word %u, which warp %u%s wrote", write ? "write" : "read", w, x.writer % agents() % warps_of_block,
                 (int)(x.writer % agents()) >= warps_of_block ? " by an asynchronous copy" : "");
        if (write) {
            for (u32 i = 0; i < x.reads.size(); i++)
                if (x.reads[i] > mine[i] && i != agent) fail("race: write of shared word %u, which warp %u reads", w, i % agents() % warps_of_block);
            x.writer = agent;
            x.written = mine[agent];
            x.stored = !copy;
            if (!copy) now->stores.push_back(&x);
        } else {
            if (x.reads.empty()) x.reads.assign(mine.size(), 0);
            x.reads[agent] = mine[agent];
        }
    }
    return b->memory.get() + (at - BASE);
}
// fence.proxy.async: what this thread stored may be read by the tensor cores.
inline void publish() {
    for (Word *w : now->stores) w->stored = false;
    now->stores.clear();
}
// A read by the tensor cores, or by an asynchronous copy.
inline unsigned char *read_by_others(u32 at, u32 size, bool copy) {
    unsigned char *p = shared(at, size, false, copy);
    for (u32 w = (at - BASE) / 4; w < (at - BASE + size) / 4; w++)
        if (now->block->words[w].stored)
            fail("%s shared memory that was stored without fence.proxy.async", copy ? "a bulk copy reads" : "the tensor cores read");
    return p;
}
template <class T> T read_shared(u32 at) { T v; std::memcpy(&v, shared(at, sizeof v, false), sizeof v); return v; }
template <class T> void write_shared(u32 at, const T &v) { std::memcpy(shared(at, sizeof v, true), &v, sizeof v); }

// ---------------------------------------------------------------- global memory

inline void check(const void *p, u32 size, bool write) {
    const char *c = static_cast<const char *>(p);
    if ((uintptr_t)c % size) fail("a global access of %u bytes at %p", size, p);
    for (const Range &r : allowed)
        if (c >= r.begin && c + size <= r.end && (r.writable || !write)) return;
    fail("a global %s of %u bytes outside of the arrays", write ? "write" : "read", size);
}
// An access to what blocks write (ADD: by an atomic addition), which must be ordered after what other blocks wrote.
inline void order(const void *p, u32 size, bool write, bool add) {
    Block *b = now->block;
    for (u32 i = 0; i < size; i += 4) {
        const void *at = static_cast<const char *>(p) + i;
        auto found = written.find(at);
        if (found != written.end() && found->second.block != b->number && !(add && found->second.added) && found->second.when > b->seen[found->second.block])
            fail("race: %s of global memory that block %d wrote", write ? "write" : "read", found->second.block);
        if (write) written[at] = {b->number, b->seen[b->number], add};
    }
}
template <class T> T read_global(const void *p) {
    check(p, sizeof(T), false);
    order(p, sizeof(T), false, false);
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class T> void write_global(void *p, const T &v) {
    check(p, sizeof v, true);
    order(p, sizeof v, true, false);
    std::memcpy(p, &v, sizeof v);
}
template <class T, class F> void add_global(T *p, F sum) {
    check(p, sizeof(T), true);
    order(p, sizeof(T), true, true);
    *p = sum(*p);
}
// Flags: what was written before the release is ordered before what comes after an acquire that sees it.
inline void release(u32 *flag, u32 v) {
    check(flag, 4, true);
    join(flags[flag], now->block->seen);
    now->block->seen[now->block->number]++;
    *flag = v;
}
inline u32 acquire(const u32 *flag) {
    check(flag, 4, false);
    if (*flag) join(now->block->seen, flags[flag]);
    return *flag;
}

// ---------------------------------------------------------------- meeting

template <class F> void meet(Meeting &m, int threads, F act) {
    std::vector<Clock> &clocks = now->block->clocks;
    if (std::find(m.warps.begin(), m.warps.end(), now->warp) == m.warps.end()) m.warps.push_back(now->warp);
    if (++m.arrived < threads) return wait_for(m.times);
    act();
    Clock all;
    for (int w : m.warps) join(all, clocks[w]);
    for (int w : m.warps) {
        clocks[w] = all;
        clocks[w][w]++;
    }
    m.arrived = 0;
    m.warps.clear();
    m.times++;
}
inline void meet(Meeting &m, int threads) { meet(m, threads, [] {}); }
// All lanes of a warp bring an argument; the last one acts on all of them.
template <class F> void together(const char *what, void *mine, F act) {
    Warp &w = now->block->warps[now->warp];
    if (w.arrived && w.what != what && std::strcmp(w.what, what)) fail("lanes of a warp meet at %s and %s", w.what, what);
    w.what = what;
    w.lane[now->lane] = mine;
    if (++w.arrived < 32) return wait_for(w.times);
    act(w.lane);
    w.arrived = 0;
    w.times++;
}

// ---------------------------------------------------------------- mbarriers and asynchronous copies

inline Barrier &barrier(Block *b, u32 at) {
    auto found = b->barriers.find(at);
    if (found == b->barriers.end()) fail("no barrier at %u", at);
    return found->second;
}
inline void completed(Barrier &x, const Clock &clock) {
    join(x.gathered, clock);
    if (x.left || x.bytes) return;
    x.left = x.count;
    x.phase++;
    x.done = x.gathered;
}
inline void arrival(Block *b, u32 at, const Clock &clock) {
    Barrier &x = barrier(b, at);
    if (!x.left) fail("more arrivals at the barrier %u than it expects", at);
    x.left--;
    completed(x, clock);
}
inline void arrive(u32 at) {
    Block *b = now->block;
    arrival(b, at, my_clock());
    my_clock()[now->warp]++;
}
inline void wait_barrier(u32 at, u32 parity) {
    Barrier &x = barrier(now->block, at);
    if ((x.phase & 1) == parity) {
        now->barrier = at;
        now->parity = parity;
        turn();
    }
    join(my_clock(), x.done);
}
// Bulk copies.  Their accesses to shared memory are those of the warp's copies, after all that the warp did.
inline void begin_copy(bool load, u32 at, const void *global, u32 bytes, u32 bar) {
    const int agent = now->warp + warps_of_block;
    Clock &c = clock_of(now->block, agent);
    join(c, my_clock());
    unsigned char *here = now->block->memory.get() + (at - BASE), *there = static_cast<unsigned char *>(const_cast<void *>(global));
    if (at % 16 || bytes % 16) fail("a bulk copy of %u bytes at %u", bytes, at);
    for (u32 i = 0; i < bytes; i += 16) {
        if (load) shared(at + i, 16, true, true);
        else read_by_others(at + i, 16, true);
        check(there + i, 16, !load);
        order(there + i, 16, !load, false);
    }
    std::memset(load ? here : there, 0xff, load ? bytes : 0);
    if (load) barrier(now->block, bar);
    else now->begun++;
    landings.push_back({now->block, load ? bar : 0, c, load ? here : there, load ? there : here, bytes, now, nullptr});
    c[agent]++;
}
// A box of a matrix to lines of 128 bytes, whose sixteen-byte units are permuted; zeros outside.  `change` is done to each
// element.
struct Matrix { const unsigned char *first; u64 inner, outer, pitch; int lines; }; // inner, pitch: bytes
template <class T, class F> inline void begin_box(u32 at, const Matrix &m, int x, int y, u32 bar, F change) {
    constexpr int LINE = 128;
    const int agent = now->warp + warps_of_block;
    Clock &c = clock_of(now->block, agent);
    join(c, my_clock());
    if (at % 1024) fail("a box at %u", at);
    if ((uintptr_t)m.first % 16 || m.pitch % 16) fail("a tensor map of %p with lines of %llu bytes", (const void *)m.first, m.pitch);
    auto made = std::make_shared<std::vector<unsigned char>>(m.lines * LINE);
    for (int line = 0; line < m.lines; line++)
        for (u32 i = 0; i < LINE; i += sizeof(T)) {
            const i64 column = (i64)x * (i64)sizeof(T) + i, row = (i64)y + line;
            T v = 0;
            if (column >= 0 && column < (i64)m.inner && row >= 0 && row < (i64)m.outer) {
                const unsigned char *from = m.first + row * m.pitch + column;
                check(from, sizeof v, false);
                order(from, (sizeof v + 3) / 4 * 4, false, false);
                std::memcpy(&v, from, sizeof v);
                v = change(v);
            }
            std::memcpy(made->data() + line * LINE + (i ^ line % 8 * 16), &v, sizeof v);
        }
    for (u32 i = 0; i < made->size(); i += 16) shared(at + i, 16, true, true);
    unsigned char *here = now->block->memory.get() + (at - BASE);
    std::memset(here, 0xff, made->size());
    barrier(now->block, bar);
    landings.push_back({now->block, bar, c, here, made->data(), (u32)made->size(), now, nullptr, made});
    c[agent]++;
}
// cp.async.
inline void begin_copy16(u32 at, const void *global, int bytes) {
    const int agent = now->warp + warps_of_block;
    Clock &c = clock_of(now->block, agent);
    join(c, my_clock());
    if (bytes < 0 || bytes > 16) fail("a copy of %d bytes", bytes);
    unsigned char *here = shared(at, 16, true, true);
    if ((uintptr_t)global % 16) fail("a copy of sixteen bytes from %p", global);
    for (int i = 0; i < bytes; i += 2) check(static_cast<const char *>(global) + i, 2, false);
    std::memset(here, 0xff, 16);
    if (!now->copies) now->copies = std::make_shared<Copies>();
    now->copies->left++;
    landings.push_back({now->block, 0, c, here, global, (u32)bytes, now, now->copies});
    c[agent]++;
}
inline void copies_commit() {
    if (!now->copies) now->copies = std::make_shared<Copies>();
    now->copies->clock = clock_of(now->block, now->warp + warps_of_block);
    now->waiting.push_back(std::move(now->copies));
}
// Until all but the last `later` groups have landed.
inline void copies_wait(size_t later) {
    for (; now->waiting.size() > later; now->waiting.pop_front()) {
        while (now->waiting.front()->left) wait_for(now->copied);
        join(my_clock(), now->waiting.front()->clock);
    }
}
inline void copies_done() {
    while (now->landed < now->begun) wait_for(now->landed);
    join(my_clock(), clock_of(now->block, now->warp + warps_of_block));
}
__attribute__((noinline)) inline void land(Landing &l) {
    now = nullptr;
    if (_setjmp(scheduler)) return;
    std::memcpy(l.to, l.from, l.bytes);
    if (l.copies) {
        std::memset(static_cast<char *>(l.to) + l.bytes, 0, 16 - l.bytes);
        l.copies->left--;
        l.fiber->copied++;
        return;
    }
    if (!l.barrier) {
        l.fiber->landed++;
        return;
    }
    Barrier &x = barrier(l.block, l.barrier);
    x.bytes -= l.bytes;
    completed(x, l.clock);
}

// ---------------------------------------------------------------- running

inline void first() {
    body();
    now->finished = true;
    bool late = now->landed < now->begun || now->copies;
    for (auto &x : now->waiting) late = late || x->left;
    if (late) fail("asynchronous copies that nobody waits for");
    _longjmp(scheduler, 1);
}
inline bool ready(Fiber &f) {
    if (f.finished) return false;
    if (f.counter) {
        if (*f.counter == f.seen) return false;
        f.counter = nullptr;
    }
    if (f.barrier) {
        if ((f.block->barriers[f.barrier].phase & 1) == f.parity) return false;
        f.barrier = 0;
    }
    return true;
}
// Neither is inlined: what a caller holds in registers would not survive the jumps back.
__attribute__((noinline)) inline void resume(Fiber &f) {
    now = &f;
    if (_setjmp(scheduler)) return;
    if (f.started) _longjmp(f.at, 1);
    f.started = true;
    setcontext(&f.start);
}
// Runs some blocks of a grid.
inline void run(int begin, int end, int threads, std::mt19937 &random, int prefer) {
    fibers.clear();
    landings.clear();
    const int blocks = extent.x * extent.y;
    std::vector<std::unique_ptr<Block>> made(end - begin);
    for (int i = begin; i < end; i++) {
        made[i - begin].reset(new Block);
        Block &b = *made[i - begin];
        std::memset(b.memory.get(), 0xff, SHARED);
        b.words.resize(WORDS);
        b.warps.resize(warps_of_block);
        b.clocks.assign(agents(), Clock(agents(), 0));
        for (int a = 0; a < agents(); a++) b.clocks[a][a] = 1;
        b.number = i;
        b.seen.assign(blocks, 0);
        b.seen[i] = 1;
        for (int t = 0; t < threads; t++) {
            fibers.emplace_back(new Fiber);
            Fiber &f = *fibers.back();
            f.thread = {(unsigned)t, 0, 0};
            f.block_index = {i % extent.x, i / extent.x, 0};
            f.block = &b;
            f.warp = t / 32;
            f.lane = t % 32;
            const size_t size = 1 << 15;
            f.stack.reset(new char[size]);
            getcontext(&f.start);
            f.start.uc_stack.ss_sp = f.stack.get();
            f.start.uc_stack.ss_size = size;
            f.start.uc_link = nullptr;
            makecontext(&f.start, first, 0);
        }
    }
    // In sweeps over all fibers from a random place on, forwards or backwards.
    const int all = (int)fibers.size();
    u64 turns = 0;
    for (int left = all; left && !failed;) {
        const int from = random() % all, step = random() & 1 ? 1 : all - 1;
        int ran = 0;
        for (int pass = 0; pass < (prefer ? 2 : 1) && !(pass && ran); pass++)
            for (int i = 0, at = from; i < all && !failed; i++, at = (at + step) % all) {
                Fiber &f = *fibers[at];
                const bool late = f.warp >= warps_of_block - 4;
                if (prefer && pass == 0 && late != (prefer == 1)) continue;
                while (ready(f)) {
                    ran++;
                    if (++turns > LIMIT) {
                        std::snprintf(message, sizeof message, "no end after %llu turns", LIMIT);
                        failed = true;
                        break;
                    }
                    resume(f);
                    if (f.finished) left--;
                    if (failed || f.counter || f.barrier || random() % 4 == 0) break;
                }
            }
        while (!landings.empty() && (random() % 3 == 0 || !ran)) {
            std::swap(landings[random() % landings.size()], landings.front());
            Landing l = std::move(landings.front());
            landings.pop_front();
            land(l);
            ran++;
        }
        if (!ran && !failed) {
            now = nullptr;
            for (auto &f : fibers)
                if (!f->finished) { now = f.get(); break; }
            std::snprintf(message, sizeof message, "%d threads wait for ever: block %u thread %u %s", left, now->block_index.x, now->thread.x,
                          now->barrier ? "at an mbarrier" : "for other threads");
            failed = true;
        }
    }
    if (!failed && !landings.empty()) {
        std::snprintf(message, sizeof message, "asynchronous copies that nobody waits for");
        failed = true;
    }
    fibers.clear();
}
// `resident`: how many blocks run at a time, if not all do.
// The order of fibers.  prefer: 0 any, 1 the last threads of blocks (producers), 2 the first ones.
inline const char *launch(void (*kernel)(), int across, int down, int resident, int shared, int threads, unsigned seed, int prefer) {
    std::mt19937 random(seed);
    warps_of_block = threads / 32;
    shared_bytes = shared;
    body = kernel;
    failed = false;
    extent = {(unsigned)across, (unsigned)down, 1};
    written.clear();
    flags.clear();
    const int all = across * down;
    for (int at = 0; at < all && !failed; at += resident) run(at, min(at + resident, all), threads, random, prefer);
    return failed ? message : nullptr;
}

} // namespace grid

#define threadIdx (grid::now->thread)
#define blockIdx (grid::now->block_index)
#define gridDim (grid::extent)

inline void __syncthreads() { grid::meet(grid::now->block->all, grid::warps_of_block * 32); }
inline void __syncwarp() { grid::together("__syncwarp", nullptr, [](void **) {}); }
inline void __threadfence() {}
