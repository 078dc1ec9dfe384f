#include "cc/engine/cuda/kernels/window_kernel.h"

#include <algorithm>

#include "cc/engine/cuda/kernels/kernel_source.h"
#include "cc/engine/cuda/kernels/launch_geometry.h"

namespace ios::cuda {
namespace {

// The largest height or width of a window that a kernel is compiled for.
// Kernels for larger windows use loops whose bounds are not compile-time
// constants.
constexpr int64_t kLargestKnown = 7;

// The part of the output that one thread computes: `strip` neighbouring pixels
// with `vector` channels each.
struct Share {
  int64_t vector = 1, strip = 1;
};

// The part of the output that one block computes: 1 << channel_bits threads
// along the channels, 1 << column_bits along the width (in strips), and 1 <<
// row_bits along the height.
struct Patch {
  int channel_bits = 0, column_bits = 0, row_bits = 0;
};

// Returns whether a kernel is compiled for exactly this window.
bool IsKnown(const WindowSpec& spec) {
  return spec.kernel[0] <= kLargestKnown && spec.kernel[1] <= kLargestKnown &&
         spec.strides[0] == spec.strides[1] && spec.strides[0] <= 2 &&
         spec.dilations[0] == 1 && spec.dilations[1] == 1;
}

// ChooseShare() uses strips only if at least kThreadsForStrips threads per
// multiprocessor remain, and wide vectors only if at least kThreadsForVectors
// remain. The second number is smaller, because narrow vectors need more
// instructions in total, which slows other lanes down. They are worth it only
// if most of the device would be idle otherwise.
constexpr int64_t kThreadsForStrips = 256;
constexpr int64_t kThreadsForVectors = 64;

// Returns the largest share for which every multiprocessor still has work. Long
// strips are better, because the windows of a strip overlap, and a thread reads
// each input pixel only once. If there are too few threads, the strip is
// shortened first, and then the vector.
Share ChooseShare(const Device* device, const WindowSpec& spec) {
  int64_t vector = std::min(VectorOf(spec.dtype, spec.input),
                            VectorOf(spec.dtype, spec.output));
  if (spec.residual) {
    vector = std::min(vector, VectorOf(spec.dtype, *spec.residual));
  }
  // With a multiplier, a vector would not be contiguous, because neighbouring
  // output channels read the same input channel.
  if (spec.multiplier > 1) vector = 1;
  const Shape& out = spec.output.shape;
  const auto leaves = [&](const Share& share, int64_t threads) {
    return out[0] * out[1] * CeilDiv(out[2], share.strip) * out[3] /
               share.vector >=
           threads * device->multiprocessors();
  };
  Share share{vector, 1};
  if (IsKnown(spec)) {
    // With stride 2, the longest strip is 2, because windows share fewer cells
    // and a strip of 4 needs more registers than a thread has.
    for (share.strip = 4 / spec.strides[1]; share.strip > 1; share.strip /= 2) {
      if (leaves(share, kThreadsForStrips)) return share;
    }
  }
  while (!leaves(share, kThreadsForVectors) &&
         share.vector * SizeOf(spec.dtype) > 4) {
    share.vector /= 2;
  }
  return share;
}

// Returns the patch with the lowest cost: few threads beyond the edges of the
// tensor, and few cells that are read from outside of the patch.
Patch ChoosePatch(const WindowSpec& spec, const Share& share, int block_bits) {
  const int64_t vectors = spec.output.channels() / share.vector;
  const int64_t strips = CeilDiv(spec.output.shape[2], share.strip);
  const int64_t rows = spec.output.shape[1];
  // A patch has at least 32 bytes of channels, the sector that a GPU reads.
  int least_bits = 0;
  while ((share.vector * SizeOf(spec.dtype) << least_bits) < 32) ++least_bits;
  Patch best;
  int64_t best_cost = -1;
  for (int c = least_bits; c <= std::min(5, block_bits); ++c) {
    for (int w = 0; c + w <= block_bits; ++w) {
      const int h = block_bits - c - w;
      const int64_t tiles = CeilDiv(vectors, int64_t{1} << c) *
                            CeilDiv(strips, int64_t{1} << w) *
                            CeilDiv(rows, int64_t{1} << h);
      const int64_t width =
          ((share.strip << w) - 1) * spec.strides[1] + spec.kernel[1];
      const int64_t height =
          ((int64_t{1} << h) - 1) * spec.strides[0] + spec.kernel[0];
      const int64_t made = share.strip << block_bits;
      const int64_t cost = tiles * (2 * made + (width * height << c));
      // At equal cost, the patch with more channels wins, because its accesses
      // are longer.
      if (best_cost < 0 || cost <= best_cost) {
        best = {c, w, h};
        best_cost = cost;
      }
    }
  }
  return best;
}

KernelVariant VariantOf(const WindowSpec& spec, const Share& share) {
  KernelVariant variant{"Window",
                        kWindowSource,
                        {{"IOS_DTYPE", DtypeMacro(spec.dtype)},
                         {"IOS_VECTOR", static_cast<int>(share.vector)},
                         {"IOS_WINDOW", spec.kind},
                         {"IOS_STRIP", static_cast<int>(share.strip)},
                         {"IOS_PRE_RELU", spec.pre_relu},
                         {"IOS_PADS_ZEROS", spec.pads_zeros},
                         {"IOS_BIAS", spec.bias},
                         {"IOS_RESIDUAL", spec.residual.has_value()}}};
  AddActivation(spec.activation, &variant.macros);
  if (IsKnown(spec)) {
    const int height = spec.kernel[0], width = spec.kernel[1];
    // A kernel without strips is used if there are few threads. Each thread
    // should then have all of its loads in flight at once, if it has enough
    // registers.
    const int64_t words = share.vector * SizeOf(spec.dtype) / 4;
    const bool unroll = share.strip == 1
                            ? height * width * words <= 110
                            : height <= 3 && share.strip * share.vector <= 16;
    variant.macros.insert(variant.macros.end(),
                          {{"IOS_KERNEL_HEIGHT", height},
                           {"IOS_KERNEL_WIDTH", width},
                           {"IOS_STRIDE", static_cast<int>(spec.strides[0])},
                           {"IOS_UNROLL", unroll ? height : 1},
                           {"IOS_BLOCKS", share.strip == 1 ? 1 : 2}});
  }
  return variant;
}

}  // namespace

StatusOr<WindowKernel> WindowKernel::Create(const Device* device,
                                            const WindowSpec& spec) {
  IOS_RETURN_IF_ERROR(CheckIndices(spec.input));
  IOS_RETURN_IF_ERROR(CheckIndices(spec.output));
  if (spec.residual) IOS_RETURN_IF_ERROR(CheckIndices(*spec.residual));
  WindowKernel kernel;
  const Shape& in = spec.input.shape;
  const Shape& out = spec.output.shape;
  const Share share = ChooseShare(device, spec);
  const int64_t vectors = out[3] / share.vector;
  const int64_t strips = CeilDiv(out[2], share.strip);
  Launch<WindowParams>& launch = kernel.launch_;
  launch.device = device;
  launch.block = BlockFor(device, out[0] * out[1] * strips * vectors);
  int block_bits = 0;
  while (1u << block_bits < launch.block) ++block_bits;
  const Patch patch = ChoosePatch(spec, share, block_bits);
  const int64_t channel_tiles =
      CeilDiv(vectors, int64_t{1} << patch.channel_bits);
  const int64_t column_tiles = CeilDiv(strips, int64_t{1} << patch.column_bits);
  const int64_t row_tiles = CeilDiv(out[1], int64_t{1} << patch.row_bits);
  launch.grid_x = out[0] * row_tiles * column_tiles * channel_tiles;
  IOS_ASSIGN_OR_RETURN(launch.function,
                       KernelCache::Of(device)->Get(VariantOf(spec, share)));
  WindowParams& params = launch.params;
  params.input_pitch = spec.input.pitch;
  params.residual_pitch = spec.residual ? spec.residual->pitch : 0;
  params.output_pitch = spec.output.pitch;
  params.channels = out[3];
  params.input_height = in[1];
  params.input_width = in[2];
  params.output_height = out[1];
  params.output_width = out[2];
  params.kernel_height = spec.kernel[0];
  params.kernel_width = spec.kernel[1];
  params.stride_height = spec.strides[0];
  params.stride_width = spec.strides[1];
  params.dilation_height = spec.dilations[0];
  params.dilation_width = spec.dilations[1];
  params.top = spec.top;
  params.left = spec.left;
  params.channel_bits = patch.channel_bits;
  params.column_bits = patch.column_bits;
  params.channel_tiles = MakeDivisor(channel_tiles);
  params.column_tiles = MakeDivisor(column_tiles);
  params.row_tiles = MakeDivisor(row_tiles);
  params.multiplier = MakeDivisor(spec.multiplier);
  return kernel;
}

Status WindowKernel::Enqueue(const WindowPointers& pointers,
                             CUstream stream) const {
  WindowParams params = launch_.params;
  params.input = pointers.input;
  params.weights = pointers.weights;
  params.bias = pointers.bias;
  params.residual = pointers.residual;
  params.output = pointers.output;
  return launch_.Enqueue(params, stream);
}

}  // namespace ios::cuda
