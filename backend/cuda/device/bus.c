// Copies in one direction by several workers, without Python.
//
// serve(lane, worker) takes segments from the lane's table, in order, until the lane is closed.  A
// segment goes through two pinned buffers that alternate: while one is on the bus, the other is filled
// (or emptied).  Bytes are credited when they have arrived; a worker that finds no segment credits all
// that it has in flight before it waits for one.
//
// copies.py makes the structures (its ctypes structures have the same fields; a test compares them).
#include <stdatomic.h>
#include <stdint.h>

enum { BUFFERS = 2, SLEEP_US = 20 };

// Alone in its cache line.
struct counter {
    _Atomic int64_t value;
    int64_t padding[7];
};

// Statuses of CUDA's driver API: 0 is success.
typedef int32_t (*event_synchronize)(void *event);
typedef int32_t (*stream_wait_event)(void *stream, void *event, uint32_t flags);
typedef int32_t (*memcpy_async)(int64_t target, int64_t source, int64_t size, void *stream);
typedef int32_t (*event_record)(void *event, void *stream);
typedef int32_t (*sleep_us)(uint32_t microseconds);

struct segment {
    int64_t target;
    int64_t source;
    _Atomic int64_t size; // bytes; 0: the entry is free
    void *after;          // the event that the copy comes after, or null
    _Atomic int64_t *arrived;
};

struct lane {
    struct counter taken;  // segments that workers have taken
    struct counter active; // workers that are not done
    struct counter filled; // segments put into the table
    struct counter closed; // 1: there will be no more
    struct counter failed; // a status, or -1: given up
    struct segment *table;
    int64_t entries; // of the table: a power of two
    int64_t chunk;   // bytes of a buffer
    int64_t upload;  // 1: to the device, 0: to the host
    event_synchronize synchronize;
    stream_wait_event wait;
    memcpy_async copy;
    event_record record;
    sleep_us sleep;
};

struct buffer {
    void *pinned;
    void *event;
    int64_t size; // bytes in flight
    int64_t target;
    _Atomic int64_t *arrived;
};

struct worker {
    void *stream;
    int64_t last; // the buffer used last
    struct buffer buffers[BUFFERS];
};

void publish(_Atomic int64_t *word, int64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

// Wait until a buffer is free; what it held has arrived then.
static int32_t complete(const struct lane *lane, struct buffer *buffer) {
    const int64_t size = buffer->size;
    if (size == 0) {
        return 0;
    }
    buffer->size = 0;
    const int32_t status = lane->synchronize(buffer->event);
    if (status) {
        return status;
    }
    if (!lane->upload) {
        __builtin_memcpy((void *)(intptr_t)buffer->target, buffer->pinned, (uint64_t)size);
    }
    atomic_fetch_add_explicit(buffer->arrived, size, memory_order_release);
    return 0;
}

static int32_t complete_all(const struct lane *lane, struct worker *worker) {
    int32_t failed = 0;
    for (int k = 0; k < BUFFERS; k++) {
        const int32_t status = complete(lane, &worker->buffers[k]);
        failed = failed ? failed : status;
    }
    return failed;
}

// Begin to copy a chunk through a buffer that is free.
static int32_t begin(const struct lane *lane, void *stream, struct buffer *buffer, int64_t target,
                     int64_t source, int64_t size, _Atomic int64_t *arrived) {
    const int64_t pinned = (intptr_t)buffer->pinned;
    int32_t status;
    if (lane->upload) {
        __builtin_memcpy(buffer->pinned, (const void *)(intptr_t)source, (uint64_t)size);
        status = lane->copy(target, pinned, size, stream);
    } else {
        status = lane->copy(pinned, source, size, stream);
    }
    if (!status) {
        status = lane->record(buffer->event, stream);
    }
    if (!status) {
        buffer->size = size;
        buffer->target = target;
        buffer->arrived = arrived;
    }
    return status;
}

// Copy the segment of an entry, chunk after chunk; the last ones stay in flight.
static int32_t copy_segment(const struct lane *lane, struct worker *worker,
                            struct segment *entry) {
    const int64_t target = entry->target, source = entry->source;
    const int64_t size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    void *const after = entry->after;
    _Atomic int64_t *const arrived = entry->arrived;
    atomic_store_explicit(&entry->size, 0, memory_order_release); // the entry is free again
    if (after) {
        const int32_t status = lane->wait(worker->stream, after, 0);
        if (status) {
            return status;
        }
    }
    for (int64_t at = 0; at < size; at += lane->chunk) {
        worker->last ^= 1;
        struct buffer *const buffer = &worker->buffers[worker->last];
        const int64_t rest = size - at;
        int32_t status = complete(lane, buffer);
        if (!status) {
            status = begin(lane, worker->stream, buffer, target + at, source + at,
                           rest < lane->chunk ? rest : lane->chunk, arrived);
        }
        if (status) {
            return status;
        }
    }
    return 0;
}

// The entry of segment `number` once it is there, null if there will be none; a status otherwise.
static int32_t await_segment(struct lane *lane, struct worker *worker, int64_t number,
                             struct segment **entry) {
    *entry = 0;
    while (!atomic_load_explicit(&lane->failed.value, memory_order_relaxed)) {
        // `closed` is read before the number of segments, because it was written after it.
        const int64_t closed = atomic_load_explicit(&lane->closed.value, memory_order_acquire);
        if (number < atomic_load_explicit(&lane->filled.value, memory_order_acquire)) {
            *entry = &lane->table[number & (lane->entries - 1)];
            return 0;
        }
        if (closed) {
            return 0;
        }
        const int32_t status = complete_all(lane, worker);
        if (status) {
            return status;
        }
        lane->sleep(SLEEP_US);
    }
    return 0;
}

void serve(struct lane *lane, struct worker *worker) {
    int32_t status;
    struct segment *entry;
    do {
        const int64_t number = atomic_fetch_add_explicit(&lane->taken.value, 1, memory_order_relaxed);
        status = await_segment(lane, worker, number, &entry);
        if (entry) {
            status = copy_segment(lane, worker, entry);
        }
    } while (entry && !status);
    if (status) {
        publish(&lane->failed.value, status);
    }
    // The memory is released afterwards: nothing stays in flight.
    status = complete_all(lane, worker);
    if (status) {
        publish(&lane->failed.value, status);
    }
    atomic_fetch_sub_explicit(&lane->active.value, 1, memory_order_release);
}
