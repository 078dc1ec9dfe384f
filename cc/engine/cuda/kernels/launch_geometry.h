// Launch geometry of all our own kernels: how wide threads access memory, how
// many threads make a block, and whether 32-bit indices reach all elements.
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

// Makes a divisor that replaces a division by a multiplication and a shift. It
// is exact for numerators below 2^31. `value` must be below 2^31; the 0 of an
// empty tensor counts as 1.
Divisor MakeDivisor(int64_t value);

// Returns the value of the kernels' macro IOS_DTYPE.
int DtypeMacro(DataType dtype);

// Returns the largest number of elements, up to 16 bytes, that a thread can
// access at once everywhere in `view`.
int64_t VectorOf(DataType dtype, const TensorView& view);

// Unimplemented unless all elements of `view` have 31-bit offsets.
Status CheckIndices(const TensorView& view);

// Returns the same memory as one pixel if `view` is dense, otherwise `view`.
// One pixel spares kernels a division and allows wider vectors.
TensorView Flattened(const TensorView& view);

// Returns the threads per block such that even a small problem reaches every
// multiprocessor.
unsigned BlockFor(const Device* device, int64_t threads);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Maximum number of threads in a block that reduces together.
constexpr int kMaxThreads = 256;

// Sets a grid with one thread for each of `count` work items.
template <typename Params>
void SetGrid(const Device* device, int64_t count, Launch<Params>* launch) {
  launch->device = device;
  launch->block = BlockFor(device, count);
  launch->grid_x = CeilDiv(count, launch->block);
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
