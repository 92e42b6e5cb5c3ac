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

#include "late.h"
#include "passes.h"

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
    int64_t place; // the buffer whose memory it has in this run
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
    const struct pass *passes; // NULL: one iteration at a time
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

// A loop moves what it makes between buffers: results of so many bytes are put where they must be
// beforehand, if so few states are in the same buffers again after so many iterations.
enum { WORTH_PLACING = 1 << 16, MOST_STATES = 16, MOST_PERIOD = 32 };

static enum outcome run_part(const struct part *part, struct runner *runner);

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

static void *memory_of(const struct loop *loop, int64_t buffer) {
    return loop->buffers[loop->buffers[buffer].place].address;
}

// Where a state is before the first iteration: -1: where its first value is.
static int64_t first_buffer(const struct loop *loop, const struct state *state) {
    if (!state->copied) {
        return -1;
    }
    const int64_t made = ~state->source;
    if (made >= 0 && loop->made[made].partner >= 0 && (loop->limit - loop->first) % 2) {
        return loop->made[made].partner;
    }
    return state->result;
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
        made->now.buffer = buffer;
    }
}

static void use_buffers(struct loop *loop) {
    for (int64_t k = 0; k < loop->made_count; k++) {
        struct moving *now = &loop->made[k].now;
        move_to(now, memory_of(loop, now->buffer), now->buffer);
    }
}

// The buffers that the states will be in after the last iteration: those of an iteration depend on
// those of the one before, and are soon the same again.  False if that takes too long to find out.
static bool find_last_buffers(struct loop *loop, int64_t last[MOST_STATES]) {
    int64_t history[MOST_PERIOD][MOST_STATES];
    const int64_t count = loop->limit - loop->first, states = loop->state_count;
    for (int64_t step = 0; step < count && step < MOST_PERIOD; step++) {
        choose_buffers(loop, loop->first + step);
        for (int64_t k = 0; k < states; k++) {
            const int64_t source = loop->states[k].source;
            history[step][k] = source >= 0 ? loop->states[source].now.buffer
                                           : loop->made[~source].now.buffer;
        }
        for (int64_t k = 0; k < states; k++) {
            loop->states[k].now.buffer = history[step][k];
        }
        int64_t found = step == count - 1 ? step : -1;
        for (int64_t p = 2; p <= step && found < 0; p += 2) { // those with a partner alternate
            if (!memcmp(history[step], history[step - p], (size_t)states * sizeof **history)) {
                found = step - p + (count - 1 - step) % p;
            }
        }
        if (found >= 0) {
            memcpy(last, history[found], (size_t)states * sizeof *last);
            return true;
        }
    }
    return false;
}

// Let the buffers that the last states will be in have the memory of the results.
static void place_results(struct loop *loop) {
    int64_t last[MOST_STATES], bytes = 0;
    const int64_t states = loop->state_count;
    for (int64_t k = 0; k < loop->buffer_count; k++) {
        loop->buffers[k].place = k;
        bytes += loop->buffers[k].bytes;
    }
    if (loop->test || bytes < WORTH_PLACING || states > MOST_STATES
        || !find_last_buffers(loop, last)) {
        return;
    }
    for (int64_t k = 0; k < states; k++) {
        bool first = last[k] >= 0 && loop->states[k].result >= 0;
        for (int64_t j = 0; j < k; j++) {
            first &= last[j] != last[k];
        }
        int64_t other = 0;
        while (first && loop->buffers[other].place != loop->states[k].result) {
            other++;
        }
        if (first) {
            loop->buffers[other].place = loop->buffers[last[k]].place;
            loop->buffers[last[k]].place = loop->states[k].result;
        }
    }
}

static void enter_loop(struct loop *loop) {
    for (int64_t k = 0; k < loop->state_count; k++) {
        loop->states[k].now.buffer = first_buffer(loop, &loop->states[k]);
    }
    place_results(loop);
    for (int64_t k = 0; k < loop->state_count; k++) {
        struct state *state = &loop->states[k];
        const int64_t buffer = first_buffer(loop, state);
        void *address = state->first;
        if (buffer >= 0) {
            address = memory_of(loop, buffer);
            memcpy(address, state->first, (size_t)loop->buffers[buffer].bytes);
        }
        move_to(&state->now, address, buffer);
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
    uint8_t kept[4096];
    for (int64_t k = 0; k < bytes; k += (int64_t)sizeof kept) {
        const size_t size = bytes - k < (int64_t)sizeof kept ? (size_t)(bytes - k) : sizeof kept;
        memcpy(kept, a + k, size);
        memcpy(a + k, b + k, size);
        memcpy(b + k, kept, size);
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
        int64_t *buffer = &loop->states[k].now.buffer;
        *buffer = *buffer < 0 ? -1 : loop->buffers[*buffer].place;
    }
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

// The iterations of a loop in passes of about equally many.
static enum outcome run_passes(struct loop *loop, struct runner *runner) {
    const struct pass *pass = loop->passes;
    for (int64_t k = loop->first; k < loop->limit;) {
        const int64_t left = loop->limit - k, passes = (left - 1) / pass->depth + 1;
        const int64_t count = (left - 1) / passes + 1;
        for (int64_t j = 0; j < count; j++, k++) {
            choose_buffers(loop, k);
            use_buffers(loop);
            if (k == loop->first) {
                const enum outcome outcome = run_part(&loop->once, runner);
                if (outcome != DONE) {
                    return outcome;
                }
            }
            keep_arguments(pass, j, k);
            next_state(loop);
        }
        run_pass(pass, count);
        runner->iterations -= count;
        if (runner->iterations <= 0) {
            const enum outcome outcome = breathe(runner);
            if (outcome != DONE) {
                return outcome;
            }
        }
    }
    return DONE;
}

static enum outcome run_loop(struct loop *loop, struct runner *runner) {
    enum outcome outcome = DONE;
    if (loop->computed_limit) {
        loop->limit = *loop->computed_limit;
    }
    enter_loop(loop);
    if (loop->passes) {
        outcome = run_passes(loop, runner);
        if (outcome == DONE) {
            leave_loop(loop);
        }
        return outcome;
    }
    for (int64_t k = loop->first; k < loop->limit; k++) {
        choose_buffers(loop, k);
        use_buffers(loop);
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
