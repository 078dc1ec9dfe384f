// The launch geometry of our own kernels: how many bytes a thread accesses at
// once, how many threads are in a block, and whether 32-bit indices reach all
// elements.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_

#include <cstdint>

#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

// Makes a divisor, with which kernels divide by a multiplication and a shift.
// The result is exact for numerators below 2^31. `value` must be below 2^31; a
// value of 0 (of an empty tensor) counts as 1.
Divisor MakeDivisor(int64_t value);

// Returns the value of the macro IOS_DTYPE in the kernels' source.
int DtypeMacro(DataType dtype);

// Returns the largest number of elements (of at most 16 bytes together) that a
// thread can access at once everywhere in `view`.
int64_t VectorOf(DataType dtype, const TensorView& view);

// Returns Unimplemented if an element of `view` has an offset of more than 31
// bits.
Status CheckIndices(const TensorView& view);

// If `view` is dense, returns a view of the same memory as a single pixel,
// which saves the kernels a division and allows wider vectors. Otherwise
// returns `view`.
TensorView Flattened(const TensorView& view);

// Returns the number of threads per block for `threads` threads in all. It is
// small enough that every multiprocessor gets a block, if possible.
unsigned BlockFor(const Device* device, int64_t threads);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest number of threads in a block of a reduction kernel.
constexpr int kMaxThreads = 256;

// Sets a grid with one thread for each of `count` items of work.
template <typename Params>
void SetGrid(const Device* device, int64_t count, Launch<Params>* launch) {
  launch->device = device;
  launch->block = BlockFor(device, count);
  launch->grid_x = CeilDiv(count, launch->block);
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
