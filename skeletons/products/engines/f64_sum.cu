// The outer level of a two-level float64 product: out = x + f y, as in f32_sum.cu; a thread handles
// two columns.  out is [rows, pitch] with pitch even; vector: x, y and their pitches are sixteen-byte
// aligned.
typedef long long i64;

struct Quadrant { const double *p; i64 pitch; int rows, cols; };

__device__ __forceinline__ double2 pair(const Quadrant &q, int r, int c, bool vector) {
    double2 v = make_double2(0.0, 0.0);
    if (r >= q.rows || c >= q.cols) return v;
    const double *p = q.p + r * q.pitch + c;
    if (vector && c + 2 <= q.cols) return __ldcs(reinterpret_cast<const double2 *>(p));
    v.x = p[0];
    if (c + 1 < q.cols) v.y = p[1];
    return v;
}

extern "C" __global__ void __launch_bounds__(256) quadrant_sum(double *out, i64 pitch, int rows, Quadrant x, Quadrant y, double f, int vector) {
    int c = (blockIdx.x * 256 + threadIdx.x) * 2;
    if (c >= pitch) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        double2 a = pair(x, r, c, vector), b = pair(y, r, c, vector);
        *reinterpret_cast<double2 *>(out + r * pitch + c) = make_double2(fma(f, b.x, a.x), fma(f, b.y, a.y));
    }
}
