#include "cc/engine/cuda/kernels/launch_geometry.h"

#include <algorithm>

#include "cc/core/limits.h"
#include "cc/engine/backend/arrays.h"

namespace ios::cuda {

Divisor MakeDivisor(int64_t value) {
  value = std::max<int64_t>(value, 1);
  // n / value = (mulhi(n, multiplier) + n) >> shift; see Granlund and
  // Montgomery, "Division by Invariant Integers using Multiplication".
  unsigned shift = 0;
  while ((int64_t{1} << shift) < value) ++shift;
  const uint64_t multiplier =
      (uint64_t{1} << 32) * ((uint64_t{1} << shift) - value) / value + 1;
  return {static_cast<unsigned>(value), static_cast<unsigned>(multiplier),
          shift};
}

int DtypeMacro(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return 0;
    case DataType::kFloat16:
      return 1;
    case DataType::kBFloat16:
      return 2;
  }
  return 0;
}

int64_t VectorOf(DataType dtype, const TensorView& view) {
  int64_t vector = kDeviceAlignment / SizeOf(dtype);
  while (view.channels() % vector != 0 || view.alignment % vector != 0 ||
         (view.pixels() > 1 && view.pitch % vector != 0)) {
    vector /= 2;
  }
  return vector;
}

Status CheckIndices(const TensorView& view) {
  if (NumElements(view.shape) == 0 ||
      (view.pixels() - 1) * view.pitch + view.channels() < kMaxGpuElements) {
    return Status();
  }
  return Unimplemented("tensor " + ios::ToString(view.shape) +
                       " with a pitch of " + std::to_string(view.pitch) +
                       " channels is too large: the CUDA kernels support fewer "
                       "than 2^31 elements");
}

TensorView Flattened(const TensorView& view) {
  const int64_t elements = NumElements(view.shape);
  if (!view.dense() || elements == 0) return view;
  return {{1, elements}, elements, view.alignment};
}

unsigned BlockFor(const Device* device, int64_t threads) {
  // Each multiprocessor should get two blocks, so that one block computes while
  // the other ends.
  const int64_t share = threads / (2 * device->multiprocessors());
  if (share >= 256) return 256;
  return share >= 128 ? 128 : 64;
}

}  // namespace ios::cuda
