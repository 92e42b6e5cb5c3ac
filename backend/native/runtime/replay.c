// Calls that were made before, and iterations of loops, run without the interpreter.
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

#include "team.h"

enum operation_kind { LAUNCH, FILL, COPY, TEST, NUMBER, FAILURE };

struct operation {
    int64_t kind;    // enum operation_kind
    void *target;    // LAUNCH: the function; else what is written, or looked at
    void *source;    // LAUNCH: the packed arguments; COPY: what is read
    int64_t size;    // LAUNCH: tasks; FILL, COPY: bytes
    int64_t threads; // LAUNCH
};

// Operations of one iteration.
struct phase {
    const struct operation *operations;
    int64_t operation_count;
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

enum number_kind { FLOAT, INT, BOOL };

// What a number must be.  Bits are compared as signed integers.
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
    const struct operation *operations;
    int64_t operation_count;
};

// --- operations --------------------------------------------------------------------------------

// Whether all were done: not if a test or a launch failed.
static bool execute(const struct operation *operations, int64_t count, int64_t iteration) {
    for (const struct operation *op = operations; op < operations + count; op++) {
        switch ((enum operation_kind)op->kind) {
        case LAUNCH:
            parallel((task_function)op->target, op->source, op->size, op->threads);
            break;
        case FILL:
            memset(op->target, 0, (size_t)op->size);
            break;
        case COPY:
            memcpy(op->target, op->source, (size_t)op->size);
            break;
        case TEST:
            if (!*(const uint8_t *)op->target) {
                return false;
            }
            break;
        case NUMBER:
            *(int64_t *)op->target = iteration;
            break;
        case FAILURE:
            if (*(const int64_t *)op->target) {
                return false;
            }
            break;
        }
    }
    return true;
}

// Iterations first … last - 1, whose phases alternate, counted from iteration `origin`.  Returns the
// number of the iteration that ended early, or `last`.
int64_t iterate(const struct phase *phases, int64_t phase_count, int64_t origin, int64_t first,
                int64_t last) {
    for (int64_t k = first; k < last; k++) {
        const struct phase *phase = &phases[(uint64_t)(k - origin) % (uint64_t)phase_count];
        if (!execute(phase->operations, phase->operation_count, k)) {
            return k;
        }
    }
    return last;
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

// The first results are not handed over.
static void drop_results(const struct result *results, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        Py_DecRef((PyObject *)results[k].made);
    }
}

static bool make_results(struct result *results, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        results[k].made = new_result(&results[k]);
        if (!results[k].made) {
            PyErr_Clear();
            drop_results(results, k);
            return false;
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

static void patch(int64_t *const *words, int64_t count, int64_t bits) {
    for (int64_t k = 0; k < count; k++) {
        *words[k] = bits;
    }
}

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
        PyThreadState *thread = PyEval_SaveThread();
        const bool done = execute(record->operations, record->operation_count, 0);
        PyEval_RestoreThread(thread);
        if (done) {
            PyObject *given_back = hand_over(record->results, record->result_count);
            record->busy = 0;
            return given_back;
        }
        drop_results(record->results, record->result_count);
        record->busy = 0;
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
