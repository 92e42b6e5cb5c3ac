// Temporal blocking: several iterations of a loop in one pass over the rows of its arrays.
//
//     iteration   3         /1 1\ 2 2 /1 1\          rows →   (of two chunks, whose ends are open)
//                 2       /1 1 1 1\ /1 1 1 1\
//                 1     /1 1 1 1 1 1 1 1 1 1 1\
//
// First every thread computes what depends on its own chunk of rows alone: fewer rows in each
// iteration (1).  It goes down the chunk once, the iterations close behind each other, so that the
// rows that they share stay in the core's caches.  Then threads fill the gaps between chunks (2).
// Distances are those of struct unit: they cover what an operation reads, and what others still have
// to read before it writes, so that arrays are the ones of single iterations.
#include "passes.h"

#include <stdbool.h>
#include <string.h>

struct part_of_pass {
    const struct pass *pass;
    int64_t iterations;
};

void keep_arguments(const struct pass *pass, int64_t iteration, int64_t number) {
    int64_t *to = pass->arguments + iteration * pass->words;
    pass->numbers[iteration] = number;
    for (int64_t k = 0; k < pass->unit_count; k++) {
        const struct unit *unit = &pass->units[k];
        memcpy(to, unit->source, (size_t)unit->words * sizeof *to);
        if (unit->counter >= 0) {
            to[unit->counter] = (intptr_t)&pass->numbers[iteration];
        }
        to += unit->words;
    }
}

// A task of a copy: one row.  Arguments: where to, where from, rows, bytes of a row.
void copy_rows(const int64_t *arguments, int64_t first, int64_t end) {
    const int64_t rows = arguments[2], bytes = arguments[3];
    end = end < rows ? end : rows;
    memcpy((char *)(intptr_t)arguments[0] + first * bytes,
           (const char *)(intptr_t)arguments[1] + first * bytes, (size_t)((end - first) * bytes));
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void run_blocks(const struct unit *unit, int64_t *arguments, int64_t first, int64_t end) {
    first = most(first - unit->first, 0);
    end = least(end - unit->first, unit->blocks);
    if (first < end) {
        unit->function(arguments, first * unit->tasks, end * unit->tasks);
    }
}

static void chunks(void *arguments, int64_t first, int64_t last) {
    const struct part_of_pass *part = arguments;
    const struct pass *pass = part->pass;
    int64_t farthest = 0;
    for (int64_t k = 0; k < pass->unit_count; k++) {
        farthest = most(farthest, pass->units[k].down);
    }
    farthest += (part->iterations - 1) * pass->down;
    for (int64_t chunk = first; chunk < last; chunk++) {
        const bool above = pass->circular || chunk > 0;
        const bool below = pass->circular || chunk < pass->chunks - 1;
        const int64_t low = pass->bounds[chunk], high = pass->bounds[chunk + 1];
        for (int64_t newest = low; newest < high + (below ? 0 : farthest); newest++) {
            int64_t *kept = pass->arguments;
            for (int64_t k = 0; k < part->iterations; k++) {
                for (int64_t u = 0; u < pass->unit_count; u++) {
                    const struct unit *unit = &pass->units[u];
                    const int64_t block = newest - k * pass->down - unit->down;
                    const int64_t begin = low + (above ? k * pass->up + unit->up : 0);
                    if (block >= begin) {
                        run_blocks(unit, kept, block, block + 1);
                    }
                    kept += unit->words;
                }
            }
        }
    }
}

static void gaps(void *arguments, int64_t first, int64_t last) {
    const struct part_of_pass *part = arguments;
    const struct pass *pass = part->pass;
    for (int64_t gap = first; gap < last; gap++) {
        const int64_t at = pass->bounds[pass->circular ? gap : gap + 1];
        int64_t *kept = pass->arguments;
        for (int64_t k = 0; k < part->iterations; k++) {
            for (int64_t u = 0; u < pass->unit_count; u++) {
                const struct unit *unit = &pass->units[u];
                const int64_t begin = at - k * pass->down - unit->down;
                const int64_t end = at + k * pass->up + unit->up;
                run_blocks(unit, kept, begin, end);
                if (pass->circular) { // perhaps from before the first block, or beyond the last
                    const int64_t all = pass->bounds[pass->chunks];
                    run_blocks(unit, kept, begin + all, end + all);
                    run_blocks(unit, kept, begin - all, end - all);
                }
                kept += unit->words;
            }
        }
    }
}

void run_pass(const struct pass *pass, int64_t iterations) {
    struct part_of_pass part = {pass, iterations};
    parallel(chunks, &part, pass->chunks, pass->chunks);
    const int64_t open = pass->circular ? pass->chunks : pass->chunks - 1;
    if (open > 0) {
        parallel(gaps, &part, open, open);
    }
}
