#include "cc/engine/cuda/kernels/reduction_kernels.h"

#include <algorithm>

#include "cc/engine/cuda/kernels/kernel_source.h"
#include "cc/engine/cuda/kernels/launch_geometry.h"

namespace ios::cuda {
namespace {

KernelVariant MakeVariant(const char* name, DataType dtype, int64_t vector,
                          int threads) {
  return {name,
          kReductionSource,
          {{"IOS_DTYPE", DtypeMacro(dtype)},
           {"IOS_VECTOR", static_cast<int>(vector)},
           {"IOS_THREADS", threads}}};
}

}  // namespace

StatusOr<GlobalPoolKernel> GlobalPoolKernel::Create(const Device* device,
                                                    DataType dtype,
                                                    const TensorView& input,
                                                    PoolKind kind,
                                                    const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  const int64_t images = input.shape[0];
  const int64_t pixels = input.shape[1] * input.shape[2];
  const int64_t vector =
      std::min(VectorOf(dtype, input), VectorOf(dtype, output));
  const int64_t vectors = input.channels() / vector;
  // A block gets as many channels as possible while there is still a block for
  // every multiprocessor. But it gets at least 32 bytes of channels, because a
  // GPU reads memory in sectors of 32 bytes.
  int least_bits = 0;
  while ((vector * SizeOf(dtype) << least_bits) < 32) ++least_bits;
  int bits = 5;
  while (bits > least_bits && images * CeilDiv(vectors, int64_t{1} << bits) <
                                  device->multiprocessors()) {
    --bits;
  }
  const int64_t tiles = CeilDiv(vectors, int64_t{1} << bits);
  GlobalPoolKernel kernel;
  Launch<GlobalPoolParams>& launch = kernel.launch_;
  launch.device = device;
  launch.block = kMaxThreads;
  launch.grid_x = images * tiles;
  KernelVariant variant = MakeVariant("GlobalPool", dtype, vector, kMaxThreads);
  variant.macros.push_back({"IOS_MAXIMUM", kind == PoolKind::kMax});
  IOS_ASSIGN_OR_RETURN(launch.function, KernelCache::Of(device)->Get(variant));
  launch.params.input_pitch = input.pitch;
  // The output, [N,C] or [N,1,1,C], has one pixel per image.
  launch.params.output_pitch = output.pitch;
  launch.params.pixels = pixels;
  launch.params.vectors = vectors;
  launch.params.channel_bits = bits;
  launch.params.scale = kind == PoolKind::kAvg ? 1.0f / pixels : 1.0f;
  launch.params.channel_tiles = MakeDivisor(tiles);
  return kernel;
}

Status GlobalPoolKernel::Enqueue(const void* input, void* output,
                                 CUstream stream) const {
  return launch_.Enqueue(input, output, stream);
}

StatusOr<SoftmaxKernel> SoftmaxKernel::Create(const Device* device,
                                              DataType dtype,
                                              const TensorView& input,
                                              const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  const int64_t vector =
      std::min(VectorOf(dtype, input), VectorOf(dtype, output));
  const int64_t vectors = input.channels() / vector;
  int threads = 32;
  while (threads < kMaxThreads && threads < vectors) threads *= 2;
  SoftmaxKernel kernel;
  Launch<SoftmaxParams>& launch = kernel.launch_;
  launch.device = device;
  launch.block = threads;
  launch.grid_x = input.pixels();
  IOS_ASSIGN_OR_RETURN(launch.function,
                       KernelCache::Of(device)->Get(
                           MakeVariant("Softmax", dtype, vector, threads)));
  launch.params.input_pitch = input.pitch;
  launch.params.output_pitch = output.pitch;
  launch.params.vectors = vectors;
  return kernel;
}

Status SoftmaxKernel::Enqueue(const void* input, void* output,
                              CUstream stream) const {
  return launch_.Enqueue(input, output, stream);
}

}  // namespace ios::cuda
