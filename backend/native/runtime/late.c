// Instructions on numbers, and memory that grows (late.py writes the instructions).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "late.h"

void hold(struct memory *memory, void *block, void *address, int64_t size, int64_t capacity) {
    memory->block = block;
    memory->size = size;
    memory->capacity = capacity;
    if (memory->address != address) {
        memory->address = address;
        patch(memory->patches, memory->patch_count, (intptr_t)address);
    }
}

// Bytes that may be read beyond an array, and the alignment of its first.
static const int64_t MARGIN = 64, MOST_BYTES = INT64_C(1) << 46;

// Whether there is room for so many bytes now.
static bool resize(struct memory *memory, int64_t bytes) {
    if (bytes < 0 || bytes > MOST_BYTES) {
        return false;
    }
    if (bytes <= memory->capacity) {
        memory->size = bytes;
        return true;
    }
    int64_t capacity = 2 * memory->capacity > bytes ? 2 * memory->capacity : bytes;
    PyMem_RawFree(memory->block);
    void *block = PyMem_RawMalloc((size_t)(capacity + 2 * MARGIN));
    if (!block) {
        capacity = bytes;
        block = PyMem_RawMalloc((size_t)(capacity + 2 * MARGIN));
    }
    if (!block) {
        hold(memory, NULL, NULL, 0, 0);
        return false;
    }
    const intptr_t aligned = ((intptr_t)block + MARGIN - 1) / MARGIN * MARGIN;
    hold(memory, block, (void *)aligned, bytes, capacity);
    return true;
}

// Give the memory back to the operating system if it is more than `most` bytes.
void release(struct memory *memory, int64_t most) {
    if (memory->capacity > most) {
        PyMem_RawFree(memory->block);
        hold(memory, NULL, NULL, 0, 0);
    }
}

// Copy bytes into the memory; whether there is room.
int64_t fill_memory(struct memory *memory, const void *source, int64_t bytes) {
    if (!resize(memory, bytes)) {
        return 0;
    }
    memcpy(memory->address, source, (size_t)bytes);
    return 1;
}

// Element `index` of an array.
static int64_t load(const char *array, int64_t index, int64_t bits) {
    const void *address = array + index * (((bits < 0 ? -bits : bits) + 7) / 8);
    switch (bits) {
    case 1:
    case 8:
        return *(const uint8_t *)address;
    case 16:
        return *(const uint16_t *)address;
    case 32:
        return *(const uint32_t *)address;
    case -8:
        return *(const int8_t *)address;
    case -16:
        return *(const int16_t *)address;
    case -32:
        return *(const int32_t *)address;
    default:
        return *(const int64_t *)address;
    }
}

// A number in an integer type of at most 64 bits, wrapped.
static int64_t wrapped(int64_t value, int64_t bits) {
    if (bits == 1) {
        return value != 0;
    }
    const int64_t size = bits < 0 ? -bits : bits;
    if (size >= 64) {
        return value;
    }
    const uint64_t low = (uint64_t)value << (64 - size);
    return bits < 0 ? (int64_t)low >> (64 - size) : (int64_t)(low >> (64 - size));
}

static int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return (int64_t)(0 - (uint64_t)a);
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceiling_log(int64_t divisor) {
    return divisor <= 1 ? 0 : 64 - __builtin_clzll((uint64_t)divisor - 1);
}

// Half of the reciprocal of a divisor, 0 if it has none.
static int64_t reciprocal(int64_t divisor, bool multiplier) {
    if (divisor < 1 || divisor > INT32_MAX) {
        return 0;
    }
    const int64_t shift = ceiling_log(divisor);
    if (!multiplier) {
        return shift;
    }
    const uint64_t power = UINT64_C(1) << (31 + shift);
    return (int64_t)((power - 1) / (uint64_t)divisor + 1) - (INT64_C(1) << 32);
}

bool run_evaluation(const struct evaluation *evaluation) {
    int64_t *r = evaluation->registers;
    const struct instruction *end = evaluation->instructions + evaluation->count;
    for (const struct instruction *at = evaluation->instructions; at < end; at++) {
        int64_t value = 0;
        bool over = false;
        switch ((enum instruction_kind)at->kind) {
        case LOAD:
            value = load((const char *)at->a, r[at->b], at->bits);
            break;
        case STORE:
            *(int64_t *)at->to = r[at->a];
            continue;
        case SIZE:
            value = ((const struct memory *)at->a)->size;
            break;
        case RESIZE:
            if (!resize((struct memory *)at->to, r[at->a])) {
                return false;
            }
            continue;
        case RELEASE:
            release((struct memory *)at->to, r[at->a]);
            continue;
        case REQUIRE:
            if (!r[at->a]) {
                return false;
            }
            continue;
        case ADD:
            over = __builtin_add_overflow(r[at->a], r[at->b], &value);
            break;
        case SUBTRACT:
            over = __builtin_sub_overflow(r[at->a], r[at->b], &value);
            break;
        case MULTIPLY:
            over = __builtin_mul_overflow(r[at->a], r[at->b], &value);
            break;
        case MINIMUM:
            value = r[at->a] < r[at->b] ? r[at->a] : r[at->b];
            break;
        case MAXIMUM:
            value = r[at->a] > r[at->b] ? r[at->a] : r[at->b];
            break;
        case NEGATIVE:
            over = __builtin_sub_overflow(0, r[at->a], &value);
            break;
        case ABSOLUTE:
            value = r[at->a];
            if (value < 0) {
                over = __builtin_sub_overflow(0, value, &value);
            }
            break;
        case FLOOR_DIVIDE:
            value = floor_divide(r[at->a], r[at->b]);
            over = r[at->a] == INT64_MIN && r[at->b] == -1;
            break;
        case REMAINDER:
            value = (int64_t)((uint64_t)r[at->a]
                              - (uint64_t)floor_divide(r[at->a], r[at->b]) * (uint64_t)r[at->b]);
            value = r[at->b] ? value : 0;
            break;
        case SELECT:
            value = r[at->a] ? r[at->b] : r[at->c];
            break;
        case BITWISE_AND:
            value = r[at->a] & r[at->b];
            break;
        case BITWISE_OR:
            value = r[at->a] | r[at->b];
            break;
        case BITWISE_XOR:
            value = r[at->a] ^ r[at->b];
            break;
        case INVERT:
            value = ~r[at->a];
            break;
        case CAST:
            value = r[at->a];
            break;
        case LESS:
            value = r[at->a] < r[at->b];
            break;
        case LESS_EQUAL:
            value = r[at->a] <= r[at->b];
            break;
        case EQUAL:
            value = r[at->a] == r[at->b];
            break;
        case NOT_EQUAL:
            value = r[at->a] != r[at->b];
            break;
        case MULTIPLIER:
            value = reciprocal(r[at->a], true);
            break;
        case SHIFT:
            value = reciprocal(r[at->a], false);
            break;
        }
        if (!at->exact) {
            value = wrapped(value, at->bits);
        } else if (over) {
            return false;
        }
        r[at->to] = value;
    }
    return true;
}
