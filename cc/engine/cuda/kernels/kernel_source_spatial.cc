// Kernels for resizing, depth to space and back, and LRN. A thread computes one
// vector of the output.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kSpatialSource[] = R"cuda(
// Macros: IOS_INTERPOLATION and IOS_COORDINATES are values of
// ios::Interpolation and ios::Coordinates, for Resize. IOS_TO_DEPTH says
// whether MoveDepth computes SpaceToDepth (else DepthToSpace).

#if defined(IOS_INTERPOLATION)

// Returns the position in the input that corresponds to an output cell. If
// positions count from the centers of cells, bilinear kernels still have to
// subtract half a cell. Products and sums are rounded separately (no fused
// multiply-add), so that the same input cells are nearest as in TensorFlow.
__device__ __forceinline__ float Scaled(unsigned cell, float scale) {
  const float center = IOS_COORDINATES == 1 ? cell + 0.5f : cell;
#ifdef IOS_HOST
  return center * scale;
#else
  return __fmul_rn(center, scale);
#endif
}

#if IOS_INTERPOLATION == 0

__device__ __forceinline__ unsigned Nearest(unsigned cell, float scale, unsigned size) {
  const float at = Scaled(cell, scale);
  const unsigned nearest = IOS_COORDINATES == 2 ? roundf(at) : floorf(at);
  return nearest < size ? nearest : size - 1;
}

#else

struct Neighbours {
  unsigned lower, upper;
  float weight;  // of the upper one
};
__device__ __forceinline__ Neighbours Between(unsigned cell, float scale, unsigned size) {
  const float at = Scaled(cell, scale) - (IOS_COORDINATES == 1 ? 0.5f : 0.0f);
  const float below = floorf(at), above = ceilf(at);
  Neighbours result;
  result.lower = below > 0.0f ? below : 0.0f;
  result.upper = above < size - 1 ? above : size - 1;
  result.weight = at - below;
  return result;
}
__device__ __forceinline__ Vector Mix(const Vector& a, const Vector& b, float weight) {
  Vector x;
#pragma unroll
  for (int e = 0; e < kVector; ++e) x.v[e] = a.v[e] + (b.v[e] - a.v[e]) * weight;
  return x;
}

#endif  // IOS_INTERPOLATION

IOS_KERNEL(Resize, ResizeParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned channel = Split(i, p.vectors) * kVector;
  const unsigned pixel = i;
  const unsigned column = Split(i, p.output_width);
  const unsigned row = Split(i, p.output_height);
  const unsigned image = i * p.input_height;
#if IOS_INTERPOLATION == 0
  const unsigned h = Nearest(row, p.scale_height, p.input_height);
  const unsigned w = Nearest(column, p.scale_width, p.input_width);
  Store(At(p.output, pixel * p.output_pitch + channel),
        LoadRaw(p.input, ((image + h) * p.input_width + w) * p.input_pitch + channel));
#else
  const Neighbours h = Between(row, p.scale_height, p.input_height);
  const Neighbours w = Between(column, p.scale_width, p.input_width);
  const unsigned top = (image + h.lower) * p.input_width;
  const unsigned bottom = (image + h.upper) * p.input_width;
  Raw cells[4];
  cells[0] = LoadRaw(p.input, (top + w.lower) * p.input_pitch + channel);
  cells[1] = LoadRaw(p.input, (top + w.upper) * p.input_pitch + channel);
  cells[2] = LoadRaw(p.input, (bottom + w.lower) * p.input_pitch + channel);
  cells[3] = LoadRaw(p.input, (bottom + w.upper) * p.input_pitch + channel);
  const Vector above = Mix(Unpack(cells[0]), Unpack(cells[1]), w.weight);
  const Vector below = Mix(Unpack(cells[2]), Unpack(cells[3]), w.weight);
  StoreVector(p.output, pixel * p.output_pitch + channel,
              Mix(above, below, h.weight));
#endif
}

#elif defined(IOS_TO_DEPTH)

// Each thread moves one vector of the image with more cells.
IOS_KERNEL(MoveDepth, MoveDepthParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned channel = Split(i, p.vectors) * kVector;
  const unsigned pixel = i;
  unsigned column = Split(i, p.wide_width);
  const unsigned column_in_block = Split(column, p.block);
  const unsigned row_in_block = Split(i, p.block);  // images are whole blocks high
  const void* const wide = At(p.wide, pixel * p.wide_pitch + channel);
  const void* const deep =
      At(p.deep, (i * p.deep_width + column) * p.deep_pitch + channel +
                     (row_in_block * p.block_size + column_in_block) * p.channels);
#if IOS_TO_DEPTH
  Store(const_cast<void*>(deep), Load<sizeof(Element) * kVector>(wide));
#else
  Store(const_cast<void*>(wide), Load<sizeof(Element) * kVector>(deep));
#endif
}

#else

// Each thread computes one element.
IOS_KERNEL(Lrn, LrnParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const int channel = Split(i, p.channels);
  float sum = 0.0f;
  for (int k = -p.radius; k <= p.radius; ++k) {
    const int c = channel + k;
    if (c < 0 || c > p.channels_below) continue;
    const float x = LoadVector(p.input, i * p.input_pitch + c).v[0];
    sum += x * x;
  }
  Vector x = LoadVector(p.input, i * p.input_pitch + channel);
  x.v[0] *= powf(p.bias + p.alpha * sum, -p.beta);
  StoreVector(p.output, i * p.output_pitch + channel, x);
}

#endif  // IOS_INTERPOLATION
)cuda";

}  // namespace ios::cuda
