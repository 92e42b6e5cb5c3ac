// Several iterations of a loop at a time, block of rows by block of rows.
#include <stdint.h>

#include "team.h"

// One operation of an iteration.  Its rows are in `blocks` from `first` on, of equally many tasks.
// Block b waits for blocks of earlier operations: b + `down` − (their `down`) and those before, b −
// `up` + (their `up`) and those behind.
struct unit {
    task_function function;
    const void *source; // the packed arguments of this iteration
    int64_t words;      // of them
    int64_t counter;    // which word takes the address of the iteration's number; -1: none
    int64_t first;
    int64_t blocks;
    int64_t tasks; // of a block
    int64_t down;
    int64_t up;
};

// A pass makes at most `depth` iterations.  In each of them `down` and `up` of the operations grow by
// those of the pass.  The `chunks` of blocks between the `bounds` are for different threads; in a
// `circular` pass the first is behind the last.
struct pass {
    const struct unit *units;
    int64_t unit_count;
    int64_t depth;
    int64_t down;
    int64_t up;
    const int64_t *bounds; // one more than chunks
    int64_t chunks;
    int64_t circular;
    int64_t *arguments; // copies of packed arguments: `words` for each iteration
    int64_t words;
    int64_t *numbers; // of the iterations
};

// Keep the arguments of the next iteration, which is number `iteration` of the pass.
void keep_arguments(const struct pass *pass, int64_t iteration, int64_t number);

// A task function that copies rows of an array.
void copy_rows(const int64_t *arguments, int64_t first, int64_t end);

// Run so many iterations, of which the arguments are kept.
void run_pass(const struct pass *pass, int64_t iterations);
