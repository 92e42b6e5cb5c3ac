// The product of images on tensor cores: standard, and one level of Strassen or any other ⟨2,2,2;7⟩
// algorithm.  TILE_BN columns of a tile; TILE_PLANES of TILE_ELEMENT: HALF, BFLOAT, TF32 or BYTE.
//
// Launch: tile::THREADS threads, tile::SHARED_BYTES of dynamic shared memory, as many blocks as
// multiprocessors or fewer.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++17 -cubin -Xptxas -v tensor_matmul.cu
#include "tile_slots.cuh"
#include "tensor_engine.cuh"

extern "C" __global__ void __launch_bounds__(tile::THREADS, 1) matmul_tensor(const __grid_constant__ tile::Arguments g) {
    tile::run<TILE_EPILOGUE>(g);
}
