// Numbers that operations compute for those that follow: extents, tasks, scalars, and the memory of
// arrays of these extents.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Write a number, or an address, to all of these words.
static inline void patch(int64_t *const *words, int64_t count, int64_t bits) {
    for (int64_t k = 0; k < count; k++) {
        *words[k] = bits;
    }
}

// Memory of an array whose size operations compute.  `patches`: words that take its address.
struct memory {
    void *address;
    int64_t size;
    int64_t capacity;
    void *block; // what malloc returned
    int64_t **patches;
    int64_t patch_count;
};

enum instruction_kind {
    // `to` is what is at the address `a`, of the type.
    LOAD,
    // The word at the address `to` is `a`.
    STORE,
    // `to` is the size of the memory at `a`.
    SIZE,
    // The memory at `to` has `a` bytes, whose contents are undefined if they were fewer.
    RESIZE,
    // The memory at `to` is given back if it is more than `a` bytes.
    RELEASE,
    // Operations have failed unless `a`.
    REQUIRE,
    // `to` is computed from `a`, `b` and `c`.
    ADD,
    SUBTRACT,
    MULTIPLY,
    MINIMUM,
    MAXIMUM,
    NEGATIVE,
    ABSOLUTE,
    FLOOR_DIVIDE,
    REMAINDER,
    SELECT,
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    INVERT,
    CAST,
    LESS,
    LESS_EQUAL,
    EQUAL,
    NOT_EQUAL,
    MULTIPLIER, // as `reciprocal` of hosted.py
    SHIFT
};

// Other than in LOAD and STORE, `to`, `a`, `b` and `c` are registers, or addresses of memory.
struct instruction {
    int64_t kind; // enum instruction_kind
    int64_t bits; // of the type of the result, negative if it has a sign
    int64_t exact; // whether operations fail if the type cannot have the result; else it wraps
    int64_t to;
    int64_t a;
    int64_t b;
    int64_t c;
};

// Instructions that compute extents, tasks and scalars from what operations have computed.
struct evaluation {
    const struct instruction *instructions;
    int64_t count;
    int64_t *registers;
};

// Let the memory be at this address, in a block that malloc has returned.
void hold(struct memory *memory, void *block, void *address, int64_t size, int64_t capacity);

// Run the instructions: false if one of them fails.
bool run_evaluation(const struct evaluation *evaluation);
