// The geometry of all own kernels' launches: how wide threads access memory,
// how many make a block, and whether 32-bit indices reach everything.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_

#include <cstdint>

#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

// A multiplication and a shift instead of a division: exact for numerators
// below 2^31. `value` is below 2^31; an empty tensor's 0 is taken for 1.
Divisor MakeDivisor(int64_t value);

// The value of the kernels' macro IOS_DTYPE.
int DtypeMacro(DataType dtype);

// The most elements, up to 16 bytes of them, that can be accessed at once
// everywhere in `view`.
int64_t VectorOf(DataType dtype, const TensorView& view);

// Unimplemented unless all elements of `view` have 31-bit offsets.
Status CheckIndices(const TensorView& view);

// A view of the same memory that is one pixel if `view` is dense, which spares
// kernels a division and allows wider vectors.
TensorView Flattened(const TensorView& view);

// Threads per block such that even a small problem reaches every
// multiprocessor.
unsigned BlockFor(const Device* device, int64_t threads);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Threads of a block that reduces together, at most.
constexpr int kMaxThreads = 256;

// One thread for each of `count` things.
template <typename Params>
void SetGrid(const Device* device, int64_t count, Launch<Params>* launch) {
  launch->device = device;
  launch->block = BlockFor(device, count);
  launch->grid_x = CeilDiv(count, launch->block);
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
