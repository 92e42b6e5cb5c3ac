// Matrix products in blocks, one call of a BLAS for each, by the threads of a team.
//
// The threads of OpenBLAS wait for each other in busy loops, and go on polling after a product.
// Beside a team of threads, or on a machine that computes something else, these loops take the cores
// from those who have work.  So BLAS computes each block with one thread: the one that calls it.
//
// BLAS is called by its Fortran functions, all of whose arguments are addresses (and the lengths of
// texts, which nobody reads): they are the same for all types.  A row-major matrix is a transposed
// one to them.  Integers have 64 bits; a library of 32 reads the lower halves.
#include <stdatomic.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lower half of an integer must come first"
#endif

typedef void (*multiply_function)(const char *, const char *, const int64_t *, const int64_t *,
                                  const int64_t *, const void *, const char *, const int64_t *,
                                  const char *, const int64_t *, const void *, char *,
                                  const int64_t *, uint64_t, uint64_t);
typedef void (*vector_function)(const char *, const int64_t *, const int64_t *, const void *,
                                const char *, const int64_t *, const char *, const int64_t *,
                                const void *, char *, const int64_t *, uint64_t);
typedef void (*square_function)(const char *, const char *, const int64_t *, const int64_t *,
                                const void *, const char *, const int64_t *, const void *, char *,
                                const int64_t *, uint64_t, uint64_t);

enum kind { MATRICES, VECTOR, SQUARE };

// C = A·B, or many of them.  blas.py fills it.  Distances are in elements.
struct product {
    void *function;                    // gemm; gemv if B is a vector
    square_function square;            // syrk, if B is A transposed
    int32_t (*threads)(void);
    void (*set_threads)(int32_t);
    const void *one, *zero;
    int64_t kind;
    int64_t m, n, k, size;             // bytes of an element
    int64_t left_by_columns, right_by_columns; // else rows are contiguous
    int64_t left_next, right_next, out_next;   // from one row, or column, to the next
    int64_t down, across;              // rows and columns of a block
    const int64_t *addresses;          // of A, B and C of each product; NULL: `own`
    int64_t own[3];
};

// --- BLAS with one thread ----------------------------------------------------------------------

static _Atomic int32_t changing; // whether somebody changes what follows
static int32_t inside;           // calls of `blocks` that are running
static int32_t before;           // BLAS's number of threads without them
static void (*restore)(int32_t);

static void lock(void) {
    while (atomic_exchange_explicit(&changing, 1, memory_order_acquire)) {
        while (atomic_load_explicit(&changing, memory_order_relaxed)) {
        }
    }
}

static void unlock(void) {
    atomic_store_explicit(&changing, 0, memory_order_release);
}

static void enter(const struct product *p) {
    lock();
    if (inside++ == 0) {
        before = p->threads();
        restore = p->set_threads;
        restore(1);
    }
    unlock();
}

static void leave(void) {
    lock();
    if (--inside == 0) {
        restore(before);
    }
    unlock();
}

// BLAS's number of threads, as others see it.
int32_t threads_outside(int32_t (*threads)(void)) {
    lock();
    const int32_t found = inside ? before : threads();
    unlock();
    return found;
}

// In the child of a fork, where the parent's other threads do not exist.
void forget_products(void) {
    if (inside) {
        restore(before);
    }
    inside = 0;
    unlock();
}

// --- blocks ------------------------------------------------------------------------------------

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t blocks_of(int64_t extent, int64_t block) {
    return (extent + block - 1) / block;
}

// to[j][i] = from[i][j] for a block; below the diagonal alone, if it is one on the diagonal.
#define MIRROR(name, type)                                                                         \
    static void name(const type *from, type *to, int64_t rows, int64_t columns, int64_t next,      \
                     int diagonal) {                                                               \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            for (int64_t j = 0; j < (diagonal ? i : columns); j++) {                               \
                to[j * next + i] = from[i * next + j];                                             \
            }                                                                                      \
        }                                                                                          \
    }

struct pair {
    uint64_t low, high;
};

MIRROR(mirror4, uint32_t)
MIRROR(mirror8, uint64_t)
MIRROR(mirror16, struct pair)

static void mirror(const struct product *p, const char *from, char *to, int64_t rows,
                   int64_t columns, int diagonal) {
    if (p->size == 4) {
        mirror4((const uint32_t *)from, (uint32_t *)to, rows, columns, p->out_next, diagonal);
    } else if (p->size == 8) {
        mirror8((const uint64_t *)from, (uint64_t *)to, rows, columns, p->out_next, diagonal);
    } else {
        mirror16((const struct pair *)from, (struct pair *)to, rows, columns, p->out_next,
                 diagonal);
    }
}

static void block(const struct product *p, const int64_t *addresses, int64_t i, int64_t j) {
    const int64_t row = i * p->down, column = j * p->across, k = p->k;
    const int64_t rows = least(p->down, p->m - row), columns = least(p->across, p->n - column);
    const char *a = (const char *)addresses[0]
                    + p->size * row * (p->left_by_columns ? 1 : p->left_next);
    const char *b = (const char *)addresses[1]
                    + p->size * column * (p->right_by_columns ? p->right_next : 1);
    char *c = (char *)addresses[2] + p->size * (row * p->out_next + column);
    const char *left = p->left_by_columns ? "T" : "N", *right = p->right_by_columns ? "T" : "N";
    if (p->kind == VECTOR) {
        const char *how = p->left_by_columns ? "N" : "T";
        const int64_t *first = p->left_by_columns ? &rows : &k;
        const int64_t *second = p->left_by_columns ? &k : &rows;
        ((vector_function)p->function)(how, first, second, p->one, a, &p->left_next, b,
                                       &p->right_next, p->zero, c, &p->out_next, 1);
    } else if (p->kind == SQUARE && i == j) {
        // The lower triangle by rows is the upper one by columns.
        p->square("U", p->left_by_columns ? "N" : "T", &rows, &k, p->one, a, &p->left_next, p->zero,
                  c, &p->out_next, 1, 1);
        mirror(p, c, c, rows, rows, 1);
    } else {
        ((multiply_function)p->function)(right, left, &columns, &rows, &k, p->one, b,
                                         &p->right_next, a, &p->left_next, p->zero, c, &p->out_next,
                                         1, 1);
        if (p->kind == SQUARE) {
            char *other = (char *)addresses[2] + p->size * (column * p->out_next + row);
            mirror(p, c, other, rows, columns, 0);
        }
    }
}

// Blocks first … last - 1 of all products, row by row (those on and below the diagonal, if B is A
// transposed).
void blocks(void *product, int64_t first, int64_t last) {
    const struct product *p = product;
    const int64_t down = blocks_of(p->m, p->down), across = blocks_of(p->n, p->across);
    const int64_t each = p->kind == SQUARE ? down * (down + 1) / 2 : down * across;
    enter(p);
    for (int64_t task = first; task < last; task++) {
        int64_t i = 0, j = task % each;
        if (p->kind == SQUARE) {
            while (j > i) {
                j -= ++i;
            }
        } else {
            i = j / across;
            j %= across;
        }
        block(p, p->addresses ? p->addresses + task / each * 3 : p->own, i, j);
    }
    leave();
}
