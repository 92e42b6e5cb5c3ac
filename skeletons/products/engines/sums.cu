// Sums of blocks of one shape, in one pass: every matrix is read once, every result written once.
// A thread handles the same element of all matrices, and reads all before it writes: results may
// alias inputs.
//
// Defined before this text: ELEMENT, the type in memory, NUMBER, the type of the arithmetic (+, -, *;
// integers wrap, so they are unsigned), READ and WRITTEN, the numbers of matrices, and SUMS, which
// computes y[0], y[1], … from x[0], x[1], … .
typedef long long i64;

struct Matrix { ELEMENT *p; i64 down, across; };  // strides in elements
struct Arguments {
    Matrix read[READ], written[WRITTEN];
    unsigned rows, cols;   // cols: in units of sixteen bytes if `vector`, else in elements
    unsigned wide;         // log2 of the threads of a block along a row
    unsigned vector;       // all rows are contiguous and start on sixteen bytes
};

static constexpr int MANY = sizeof(ELEMENT) < 16 ? 16 / sizeof(ELEMENT) : 1;
template <int N> struct alignas(N * sizeof(ELEMENT)) Some { ELEMENT at[N]; };

template <int N> __device__ __forceinline__ void write(const Arguments &g, unsigned r, unsigned c) {
    Some<N> in[READ], out[WRITTEN];
#pragma unroll
    for (int k = 0; k < READ; k++) {
        const Matrix &m = g.read[k];
        const ELEMENT *p = m.p + r * m.down + (N > 1 ? (i64)c * N : c * m.across);
        in[k] = *reinterpret_cast<const Some<N> *>(p);
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
        NUMBER x[READ], y[WRITTEN];
#pragma unroll
        for (int k = 0; k < READ; k++) x[k] = (NUMBER)in[k].at[e];
        SUMS
#pragma unroll
        for (int k = 0; k < WRITTEN; k++) out[k].at[e] = (ELEMENT)y[k];
    }
#pragma unroll
    for (int k = 0; k < WRITTEN; k++) {
        const Matrix &m = g.written[k];
        ELEMENT *p = m.p + r * m.down + (N > 1 ? (i64)c * N : c * m.across);
        *reinterpret_cast<Some<N> *>(p) = out[k];
    }
}

extern "C" __global__ void __launch_bounds__(256) sums(const __grid_constant__ Arguments g) {
    unsigned beside = 1u << g.wide, below = 256u >> g.wide;
    unsigned c = blockIdx.x * beside + (threadIdx.x & (beside - 1));
    if (c >= g.cols) return;
    for (unsigned r = blockIdx.y * below + (threadIdx.x >> g.wide); r < g.rows; r += gridDim.y * below) {
        if (g.vector) write<MANY>(g, r, c);
        else write<1>(g, r, c);
    }
}
