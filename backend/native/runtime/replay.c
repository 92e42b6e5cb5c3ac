// Calls that were made before, and loops, run without the interpreter.
//
// replay.py fills in the structures (its ctypes structures have the same fields, all of eight bytes; a
// test compares them).  Nothing here depends on the version of CPython or NumPy beyond what `inspect`
// reports, which replay.py compares with what Python says before the first call is replayed:
// reference counts are changed by calls, not by macros.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL numpy_functions
#define NO_IMPORT_ARRAY
#include <numpy/arrayobject.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "team.h"

enum operation_kind { LAUNCH, FILL, COPY, FAILURE, LOOP, BRANCH, EVALUATE, CALL };

struct operation {
    int64_t kind; // enum operation_kind
    // LAUNCH, CALL: the function, of Python's for CALL; LOOP, BRANCH, EVALUATE: the structure; else
    // what is written, or tested
    void *target;
    void *source;    // LAUNCH: the packed arguments; COPY: what is read
    int64_t size;    // LAUNCH: tasks; FILL, COPY: bytes
    int64_t threads; // LAUNCH; negative: of a brief job
};

struct part {
    const struct operation *operations;
    int64_t operation_count;
};

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

// One of two parts.
struct branch {
    const uint8_t *test;
    struct part then;
    struct part other;
};

// Memory of a loop.  One for each result comes from outside.
struct buffer {
    void *address;
    int64_t bytes;
    int64_t taken;
};

// An array that is somewhere else in each iteration.  `patches`: words that take its address.
struct moving {
    void *address;
    int64_t buffer; // -1: memory that is not the loop's, and is not written
    int64_t **patches;
    int64_t patch_count;
};

struct state {
    struct moving now;
    void *first;    // its first value
    int64_t copied; // whether iterations write to it, and its first value is not theirs
    int64_t result; // the buffer of the last value; -1: it stays where it is
    int64_t source; // the next value: a state, or counted from -1 downwards what an iteration makes
    void *next;
    int64_t next_buffer;
};

// What an iteration makes for the next state.  With a `partner` it is alternately in these two buffers:
// in `result` after the last iteration.
struct made {
    struct moving now;
    int64_t first_buffer;
    int64_t last_buffer;
    int64_t result;
    int64_t partner;
};

// `testing` computes the test, `once` is only for the first iteration, `rest` makes the next state.
struct loop {
    int64_t first;
    int64_t limit;
    const int64_t *computed_limit; // if not NULL
    int64_t *counter;    // NULL: nobody reads it
    const uint8_t *test; // NULL: the loop is counted
    struct part testing;
    struct part once;
    struct part rest;
    struct state *states;
    int64_t state_count;
    struct made *made;
    int64_t made_count;
    struct buffer *buffers;
    int64_t buffer_count;
    struct memory **exchanged; // pairs: the state and what an iteration makes for the next state
    int64_t exchange_count;    // of pairs
};

struct dimension {
    int64_t extent;
    int64_t stride;
};

// What an array must look like.  `patches`: words that take its address.
struct array {
    int64_t position; // among the arguments; -1 for a captured array
    PyArrayObject *captured;
    PyArray_Descr *dtype;
    int64_t rank;
    const struct dimension *dimensions;
    int64_t **patches;
    int64_t patch_count;
};

// The last four are parts of one complex number, also in 32 bits.
enum number_kind { FLOAT, INT, BOOL, REAL, IMAGINARY, REAL_32, IMAGINARY_32 };

// What a number, or a part of it, must be.  Bits are compared as signed integers.
struct number {
    int64_t position;
    int64_t kind; // enum number_kind
    int64_t least;
    int64_t most;
    int64_t bits; // in this call
    int64_t **patches;
    int64_t patch_count;
};

// Memory for a result, in use while anybody but the record refers to its owner.
struct block {
    PyObject *owner;
    void *address;
};

// A result, which is a new array in each call.
struct result {
    PyArray_Descr *dtype;
    int64_t rank;
    npy_intp *extents;
    const struct block *blocks;
    int64_t block_count; // 0: NumPy allocates
    int64_t **patches;
    int64_t patch_count;
    // Where operations compute the extents: what they write, which the array takes over; or NULL.
    struct memory *memory;
    PyArrayObject *made; // in this call
};

// What a call does whose arguments look like this.
struct record {
    struct record *next;
    int64_t busy; // a thread is running the operations
    int64_t argument_count;
    const struct array *arrays;
    int64_t array_count;
    struct number *numbers;
    int64_t number_count;
    struct result *results;
    int64_t result_count;
    struct part part;
};

// --- operations --------------------------------------------------------------------------------

// How operations end: FAILED where a launch says so, INTERRUPTED where a function of Python's, or a
// handler of a signal, has raised an exception.
enum outcome { DONE, FAILED, INTERRUPTED };

// The thread that runs operations without the interpreter lock.
struct runner {
    PyThreadState *state;
    int64_t iterations; // until the clock is read
    int64_t interval;   // the last value of that
    int64_t since;      // when Python handled signals
};

// Time between two checks for signals, and after which the clock is read less often.
static const int64_t BREATH = CLOCKS_PER_SEC / 20, SHORT = BREATH / 8, MOST_ITERATIONS = 4096;

// Tasks that one thread runs between two readings of the clock (threads.py: MOST_TASKS).
static const int64_t MOST_TASKS = 128;

static enum outcome run_part(const struct part *part, struct runner *runner);

static void patch(int64_t *const *words, int64_t count, int64_t bits) {
    for (int64_t k = 0; k < count; k++) {
        *words[k] = bits;
    }
}

// --- numbers that operations compute -----------------------------------------------------------

static void hold(struct memory *memory, void *block, void *address, int64_t size, int64_t capacity) {
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

static int64_t load(const void *address, int64_t bits) {
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

static bool run_evaluation(const struct evaluation *evaluation) {
    int64_t *r = evaluation->registers;
    const struct instruction *end = evaluation->instructions + evaluation->count;
    for (const struct instruction *at = evaluation->instructions; at < end; at++) {
        int64_t value = 0;
        bool over = false;
        switch ((enum instruction_kind)at->kind) {
        case LOAD:
            value = load((const void *)at->a, at->bits);
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

// --- loops -------------------------------------------------------------------------------------

// Let Python handle signals, from time to time.
static enum outcome breathe(struct runner *runner) {
    const int64_t time = clock(), passed = time - runner->since;
    if (passed < SHORT && runner->interval < MOST_ITERATIONS) {
        runner->interval *= 2;
    } else if (passed > BREATH && runner->interval > 1) {
        runner->interval /= 2;
    }
    runner->iterations = runner->interval;
    if (passed < BREATH) {
        return DONE;
    }
    PyEval_RestoreThread(runner->state);
    const int raised = PyErr_CheckSignals();
    runner->state = PyEval_SaveThread();
    runner->since = clock();
    return raised ? INTERRUPTED : DONE;
}

// A function of Python's without arguments: it has its arrays.
static enum outcome call_python(PyObject *function, struct runner *runner) {
    PyEval_RestoreThread(runner->state);
    PyObject *returned = PyObject_CallNoArgs(function);
    const enum outcome outcome = returned ? DONE : INTERRUPTED;
    Py_DecRef(returned); // perhaps NULL
    runner->state = PyEval_SaveThread();
    return outcome;
}

// A launch by one thread; a long one lets Python handle signals between its tasks.
static enum outcome launch_alone(const struct operation *op, struct runner *runner) {
    const task_function function = (task_function)op->target;
    enum outcome outcome = DONE;
    for (int64_t first = 0; first < op->size && outcome == DONE; first += MOST_TASKS) {
        const bool last = op->size - first <= MOST_TASKS;
        function(op->source, first, last ? op->size : first + MOST_TASKS);
        if (!last) {
            outcome = breathe(runner);
        }
    }
    return outcome;
}

static void move_to(struct moving *array, void *address, int64_t buffer) {
    array->buffer = buffer;
    if (array->address != address) {
        array->address = address;
        patch(array->patches, array->patch_count, (intptr_t)address);
    }
}

static void enter_loop(struct loop *loop) {
    for (int64_t k = 0; k < loop->state_count; k++) {
        struct state *state = &loop->states[k];
        void *address = state->first;
        int64_t buffer = -1;
        if (state->copied) {
            buffer = state->result;
            const int64_t made = ~state->source;
            if (made >= 0 && loop->made[made].partner >= 0 && (loop->limit - loop->first) % 2) {
                buffer = loop->made[made].partner;
            }
            address = loop->buffers[buffer].address;
            memcpy(address, state->first, (size_t)loop->buffers[buffer].bytes);
        }
        move_to(&state->now, address, buffer);
    }
}

// Where an iteration puts what it makes: buffers that no state is in.
static void choose_buffers(struct loop *loop, int64_t iteration) {
    for (int64_t k = 0; k < loop->buffer_count; k++) {
        loop->buffers[k].taken = 0;
    }
    for (int64_t k = 0; k < loop->state_count; k++) {
        if (loop->states[k].now.buffer >= 0) {
            loop->buffers[loop->states[k].now.buffer].taken = 1;
        }
    }
    for (int64_t k = 0; k < loop->made_count; k++) {
        struct made *made = &loop->made[k];
        int64_t buffer = made->first_buffer;
        if (made->partner >= 0) {
            buffer = (loop->limit - iteration) % 2 ? made->result : made->partner;
        } else {
            while (buffer < made->last_buffer && loop->buffers[buffer].taken) {
                buffer++;
            }
        }
        loop->buffers[buffer].taken = 1;
        move_to(&made->now, loop->buffers[buffer].address, buffer);
    }
}

static void next_state(struct loop *loop) {
    for (int64_t k = 0; k < loop->state_count; k++) {
        struct state *state = &loop->states[k];
        const struct moving *source =
            state->source >= 0 ? &loop->states[state->source].now : &loop->made[~state->source].now;
        state->next = source->address;
        state->next_buffer = source->buffer;
    }
    for (int64_t k = 0; k < loop->state_count; k++) {
        move_to(&loop->states[k].now, loop->states[k].next, loop->states[k].next_buffer);
    }
    for (int64_t k = 0; k < loop->exchange_count; k++) {
        struct memory *a = loop->exchanged[2 * k], *b = loop->exchanged[2 * k + 1];
        const struct memory was = *a;
        hold(a, b->block, b->address, b->size, b->capacity);
        hold(b, was.block, was.address, was.size, was.capacity);
    }
}

static void swap_bytes(uint8_t *a, uint8_t *b, int64_t bytes) {
    for (int64_t k = 0; k < bytes; k++) {
        const uint8_t kept = a[k];
        a[k] = b[k];
        b[k] = kept;
    }
}

// Move the states in one buffer of the loop to another, and those in the other back.
static void exchange(struct loop *loop, int64_t from, int64_t to) {
    struct buffer *source = &loop->buffers[from], *target = &loop->buffers[to];
    bool taken = false;
    for (int64_t k = 0; k < loop->state_count; k++) {
        int64_t *buffer = &loop->states[k].now.buffer;
        taken |= *buffer == to;
        *buffer = *buffer == from ? to : *buffer == to ? from : *buffer;
    }
    if (taken) {
        swap_bytes(source->address, target->address, target->bytes);
    } else {
        memcpy(target->address, source->address, (size_t)target->bytes);
    }
}

// Put the last state where the results must be: of the states in one buffer, the first is exchanged
// with what is there, and the others, which no other state can be in the way of then, are copied.
static void leave_loop(struct loop *loop) {
    for (int64_t k = 0; k < loop->state_count; k++) {
        const int64_t buffer = loop->states[k].now.buffer;
        int64_t first = 0;
        while (loop->states[first].now.buffer != buffer) {
            first++;
        }
        if (buffer >= 0 && first == k && buffer != loop->states[k].result) {
            exchange(loop, buffer, loop->states[k].result);
        }
    }
    for (int64_t k = 0; k < loop->state_count; k++) {
        const struct state *state = &loop->states[k];
        const int64_t now = state->now.buffer;
        if (state->result >= 0 && now != state->result) {
            const struct buffer *buffer = &loop->buffers[state->result];
            const void *address = now < 0 ? state->now.address : loop->buffers[now].address;
            memcpy(buffer->address, address, (size_t)buffer->bytes);
        }
    }
}

static enum outcome run_loop(struct loop *loop, struct runner *runner) {
    enum outcome outcome = DONE;
    if (loop->computed_limit) {
        loop->limit = *loop->computed_limit;
    }
    enter_loop(loop);
    for (int64_t k = loop->first; k < loop->limit; k++) {
        choose_buffers(loop, k);
        if (loop->counter) {
            *loop->counter = k;
        }
        if (loop->test) {
            outcome = run_part(&loop->testing, runner);
            if (outcome != DONE) {
                return outcome;
            }
            if (!*loop->test) {
                break;
            }
        }
        if (k == loop->first) {
            outcome = run_part(&loop->once, runner);
        }
        if (outcome == DONE) {
            outcome = run_part(&loop->rest, runner);
        }
        if (outcome == DONE && --runner->iterations <= 0) {
            outcome = breathe(runner);
        }
        if (outcome != DONE) {
            return outcome;
        }
        next_state(loop);
    }
    leave_loop(loop);
    return DONE;
}

static enum outcome run_part(const struct part *part, struct runner *runner) {
    const struct operation *end = part->operations + part->operation_count;
    enum outcome outcome = DONE;
    for (const struct operation *op = part->operations; op < end && outcome == DONE; op++) {
        switch ((enum operation_kind)op->kind) {
        case LAUNCH:
            if (op->threads < 0) {
                parallel_brief((task_function)op->target, op->source, op->size, -op->threads);
            } else if (op->threads <= 1) {
                outcome = launch_alone(op, runner);
            } else if (op->size > 0) {
                parallel((task_function)op->target, op->source, op->size, op->threads);
            }
            break;
        case FILL:
            memset(op->target, 0, (size_t)op->size);
            break;
        case COPY:
            memcpy(op->target, op->source, (size_t)op->size);
            break;
        case FAILURE:
            outcome = *(const int64_t *)op->target ? FAILED : DONE;
            break;
        case LOOP:
            outcome = run_loop(op->target, runner);
            break;
        case BRANCH: {
            const struct branch *branch = op->target;
            outcome = run_part(*branch->test ? &branch->then : &branch->other, runner);
            break;
        }
        case EVALUATE:
            outcome = run_evaluation(op->target) ? DONE : FAILED;
            break;
        case CALL:
            outcome = call_python(op->target, runner);
            break;
        }
    }
    return outcome;
}

// The same without the interpreter lock, which the caller has.  A Python exception is set if it was
// interrupted.
int64_t run_operations(const struct part *part) {
    struct runner runner = {.iterations = 1, .interval = 1};
    runner.state = PyEval_SaveThread();
    runner.since = clock();
    const enum outcome outcome = run_part(part, &runner);
    PyEval_RestoreThread(runner.state);
    return outcome;
}

// --- does a record fit a call? -----------------------------------------------------------------

static PyArrayObject *given(const struct array *array, PyObject *const *arguments) {
    return array->position < 0 ? array->captured : (PyArrayObject *)arguments[array->position];
}

static bool array_fits(PyArrayObject *object, const struct array *array) {
    if (!PyArray_CheckExact((PyObject *)object) || PyArray_DESCR(object) != array->dtype
        || PyArray_NDIM(object) != array->rank
        || !(PyArray_FLAGS(object) & NPY_ARRAY_ALIGNED)) {
        return false;
    }
    for (int64_t k = 0; k < array->rank; k++) {
        if (PyArray_DIMS(object)[k] != array->dimensions[k].extent
            || PyArray_STRIDES(object)[k] != array->dimensions[k].stride) {
            return false;
        }
    }
    return true;
}

// Whether a number has the kind and is in the range; its bits are kept.
static bool number_fits(PyObject *object, struct number *number) {
    switch ((enum number_kind)number->kind) {
    case FLOAT: {
        if (Py_TYPE(object) != &PyFloat_Type) {
            return false;
        }
        const double value = PyFloat_AsDouble(object);
        memcpy(&number->bits, &value, sizeof value);
        break;
    }
    case INT: {
        if (Py_TYPE(object) != &PyLong_Type) {
            return false;
        }
        int overflow;
        number->bits = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow) {
            return false;
        }
        break;
    }
    case BOOL:
        if (Py_TYPE(object) != &PyBool_Type) {
            return false;
        }
        number->bits = object == Py_True;
        break;
    case REAL:
    case IMAGINARY:
    case REAL_32:
    case IMAGINARY_32: {
        if (Py_TYPE(object) != &PyComplex_Type) {
            return false;
        }
        const bool real = number->kind == REAL || number->kind == REAL_32;
        const double value = real ? PyComplex_RealAsDouble(object) : PyComplex_ImagAsDouble(object);
        if (number->kind == REAL || number->kind == IMAGINARY) {
            memcpy(&number->bits, &value, sizeof value);
        } else {
            const float single = (float)value;
            int32_t low;
            memcpy(&low, &single, sizeof low);
            number->bits = low;
        }
        break;
    }
    }
    return number->bits >= number->least && number->bits <= number->most;
}

static bool record_fits(struct record *record, PyObject *const *arguments, Py_ssize_t count) {
    if (record->busy || record->argument_count != count) {
        return false;
    }
    for (int64_t k = 0; k < record->array_count; k++) {
        const struct array *array = &record->arrays[k];
        if (!array_fits(given(array, arguments), array)) {
            return false;
        }
    }
    for (int64_t k = 0; k < record->number_count; k++) {
        struct number *number = &record->numbers[k];
        if (!number_fits(arguments[number->position], number)) {
            return false;
        }
    }
    return true;
}

// --- results -----------------------------------------------------------------------------------

// The low half of the reference count: since CPython 3.14 the upper half holds flags.
static uint32_t references(const PyObject *object) {
    return *(const uint32_t *)((const char *)object + offsetof(PyObject, ob_refcnt));
}

static const struct block *idle_block(const struct result *result) {
    for (int64_t k = 0; k < result->block_count; k++) {
        if (references(result->blocks[k].owner) == 1) {
            return &result->blocks[k];
        }
    }
    return NULL;
}

static PyArrayObject *new_array(const struct result *result, void *data) {
    Py_IncRef((PyObject *)result->dtype); // the array takes this reference
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, result->dtype, (int)result->rank,
                                                 result->extents, NULL, data,
                                                 data ? NPY_ARRAY_CARRAY : 0, NULL);
}

// A new array for a result, NULL without memory for it.
static PyArrayObject *new_result(const struct result *result) {
    if (result->block_count == 0) {
        return new_array(result, NULL);
    }
    const struct block *block = idle_block(result);
    if (!block) {
        return NULL;
    }
    PyArrayObject *made = new_array(result, block->address);
    if (!made) {
        return NULL;
    }
    Py_IncRef(block->owner); // the array takes this reference
    if (PyArray_SetBaseObject(made, block->owner)) {
        Py_DecRef((PyObject *)made);
        return NULL;
    }
    return made;
}

static void free_block(PyObject *owner) {
    PyMem_RawFree(PyCapsule_GetPointer(owner, NULL));
}

// A new array that has the memory which operations have written, NULL without memory for it.
static PyArrayObject *written_result(const struct result *result) {
    struct memory *memory = result->memory;
    if (!memory->block) { // no elements
        return new_array(result, NULL);
    }
    PyArrayObject *made = new_array(result, memory->address);
    PyObject *owner = made ? PyCapsule_New(memory->block, NULL, free_block) : NULL;
    if (!owner) {
        Py_DecRef((PyObject *)made);
        return NULL;
    }
    hold(memory, NULL, NULL, 0, 0);
    if (PyArray_SetBaseObject(made, owner)) { // which takes the reference
        Py_DecRef((PyObject *)made);
        return NULL;
    }
    return made;
}

// The first results are not handed over.
static void drop_results(const struct result *results, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        Py_DecRef((PyObject *)results[k].made); // perhaps NULL
    }
}

// The results before the operations run; those that take over what they write are NULL.
static bool make_results(struct result *results, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        results[k].made = results[k].memory ? NULL : new_result(&results[k]);
        if (!results[k].made && !results[k].memory) {
            PyErr_Clear();
            drop_results(results, k);
            return false;
        }
    }
    return true;
}

// The others, after that.
static bool take_results(struct result *results, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        if (results[k].memory) {
            results[k].made = written_result(&results[k]);
            if (!results[k].made) {
                PyErr_Clear();
                return false;
            }
        }
    }
    return true;
}

// The only result, or a tuple of all.
static PyObject *hand_over(const struct result *results, int64_t count) {
    if (count == 1) {
        return (PyObject *)results[0].made;
    }
    PyObject *tuple = PyTuple_New(count);
    if (!tuple) {
        drop_results(results, count);
        return NULL;
    }
    for (int64_t k = 0; k < count; k++) {
        PyTuple_SetItem(tuple, k, (PyObject *)results[k].made); // takes the reference
    }
    return tuple;
}

// --- the call ----------------------------------------------------------------------------------

// Put the addresses of arguments and results, and the numbers, where the operations find them.
static void patch_operations(const struct record *record, PyObject *const *arguments) {
    for (int64_t k = 0; k < record->array_count; k++) {
        const struct array *array = &record->arrays[k];
        patch(array->patches, array->patch_count, (intptr_t)PyArray_DATA(given(array, arguments)));
    }
    for (int64_t k = 0; k < record->number_count; k++) {
        const struct number *number = &record->numbers[k];
        patch(number->patches, number->patch_count, number->bits);
    }
    for (int64_t k = 0; k < record->result_count; k++) {
        const struct result *result = &record->results[k];
        if (result->memory) {
            continue;
        }
        patch(result->patches, result->patch_count, (intptr_t)PyArray_DATA(result->made));
    }
}

// replay(*arguments): the results, or None if the call must go the ordinary way.  `self` is an array
// of one number, the address of the first record.
static PyObject *replay(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    struct record *record = *(struct record **)PyArray_DATA((PyArrayObject *)self);
    while (record && !record_fits(record, arguments, count)) {
        record = record->next;
    }
    if (record && make_results(record->results, record->result_count)) {
        record->busy = 1;
        patch_operations(record, arguments);
        const enum outcome outcome = run_operations(&record->part);
        if (outcome == DONE && take_results(record->results, record->result_count)) {
            PyObject *given_back = hand_over(record->results, record->result_count);
            record->busy = 0;
            return given_back;
        }
        drop_results(record->results, record->result_count);
        record->busy = 0;
        if (outcome == INTERRUPTED) {
            return NULL;
        }
    }
    Py_IncRef(Py_None);
    return Py_None;
}

// A Python function that replays the calls recorded in `self`.
PyObject *replay_function(PyObject *self, PyObject *module) {
    static PyMethodDef method = {"replay", (PyCFunction)(void (*)(void))replay, METH_FASTCALL, NULL};
    return PyCFunction_NewEx(&method, self, module);
}

// --- what replay.py checks ---------------------------------------------------------------------

// An array as this code sees it.
struct view {
    int64_t object_size; // of any Python object
    PyTypeObject *type;
    int64_t references;
    void *data;
    int64_t rank;
    npy_intp *extents;
    npy_intp *strides;
    PyArray_Descr *dtype;
    int64_t flags;
};

void inspect(PyArrayObject *array, struct view *view) {
    *view = (struct view){
        .object_size = sizeof(PyObject),
        .type = Py_TYPE((PyObject *)array),
        .references = references((PyObject *)array),
        .data = PyArray_DATA(array),
        .rank = PyArray_NDIM(array),
        .extents = PyArray_DIMS(array),
        .strides = PyArray_STRIDES(array),
        .dtype = PyArray_DESCR(array),
        .flags = PyArray_FLAGS(array),
    };
}

// Whether NumPy's table of functions is the one of the headers.
int32_t numpy_agrees(void) {
    return PyArray_GetNDArrayCVersion() == NPY_VERSION
           && PyArray_GetNDArrayCFeatureVersion() >= NPY_FEATURE_VERSION;
}
