// The outer level of a two-level product: out = x + f y, where x and y are
// quadrants of one operand, and the smaller one is padded with zeros.
// Bound by memory; a block iterates over rows, a thread handles four columns.
// SUM(f, y, x) computes x + f y on the 32 bits of an element (default: floats).
#ifndef SUM
#define SUM(f, y, x) fmaf(f, y, x)
#endif
typedef long long i64;

struct Quadrant { const float *p; i64 pitch; int rows, cols; };

__device__ __forceinline__ float4 quad(const Quadrant &q, int r, int c, bool vector) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (r >= q.rows || c >= q.cols) return v;
    const float *p = q.p + r * q.pitch + c;
    if (vector && c + 4 <= q.cols) return __ldcs(reinterpret_cast<const float4 *>(p));
    v.x = p[0];
    if (c + 1 < q.cols) v.y = p[1];
    if (c + 2 < q.cols) v.z = p[2];
    if (c + 3 < q.cols) v.w = p[3];
    return v;
}

// out is [rows, pitch] with pitch a multiple of four; vector: x, y and their pitches are sixteen-byte aligned
extern "C" __global__ void __launch_bounds__(256) quadrant_sum(float *out, i64 pitch, int rows, Quadrant x, Quadrant y, float f, int vector) {
    int c = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (c >= pitch) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        float4 a = quad(x, r, c, vector), b = quad(y, r, c, vector);
        *reinterpret_cast<float4 *>(out + r * pitch + c) =
            make_float4(SUM(f, b.x, a.x), SUM(f, b.y, a.y), SUM(f, b.z, a.z), SUM(f, b.w, a.w));
    }
}
