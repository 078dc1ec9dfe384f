#include "cc/engine/cuda/kernels/normalization_kernels.h"

#include <algorithm>

#include "cc/engine/cuda/kernels/kernel_source.h"
#include "cc/engine/cuda/kernels/launch_geometry.h"

namespace ios::cuda {
namespace {

const char* KernelOf(OperatorType type) {
  switch (type) {
    case OperatorType::kReduce:
      return "ReduceChannels";
    case OperatorType::kNormalize:
      return "Normalize";
    default:
      return "ShuffleChannels";
  }
}

}  // namespace

StatusOr<NormalizationKernel> NormalizationKernel::Create(
    const Device* device, DataType dtype, const Operator& op,
    const TensorView& input, const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  NormalizationKernel kernel;
  Launch<NormalizationParams>& launch = kernel.launch_;
  NormalizationParams& params = launch.params;
  const int64_t pixels = input.pixels();
  const int64_t channels = input.channels() / op.groups;
  params.input_pitch = input.pitch;
  params.output_pitch = output.pitch;
  params.pixels = op.per_image ? pixels / input.shape[0] : 1;
  params.channels = MakeDivisor(channels);
  params.groups = MakeDivisor(op.groups);
  params.epsilon = op.epsilon;
  launch.device = device;
  if (op.type == OperatorType::kChannelShuffle) {
    params.count = NumElements(output.shape);
    launch.block = BlockFor(device, params.count);
    launch.grid_x = CeilDiv(params.count, launch.block);
  } else {
    params.count = params.pixels * channels;
    const bool mean =
        op.type == OperatorType::kNormalize || op.pool == PoolKind::kAvg;
    params.factor = mean ? 1.0f / params.count : 1.0f;
    launch.block = 32;
    while (launch.block < kMaxThreads && launch.block < params.count) {
      launch.block *= 2;
    }
    launch.grid_x = pixels == 0 ? 0 : pixels / params.pixels * op.groups;
  }
  IOS_ASSIGN_OR_RETURN(launch.function,
                       KernelCache::Of(device)->Get(
                           {KernelOf(op.type),
                            kNormalizationSource,
                            {{"IOS_DTYPE", DtypeMacro(dtype)},
                             {"IOS_VECTOR", 1},
                             {"IOS_THREADS", static_cast<int>(launch.block)},
                             {"IOS_MAXIMUM", op.pool == PoolKind::kMax}}}));
  return kernel;
}

Status NormalizationKernel::Enqueue(const void* input, const void* scale,
                                    const void* shift, void* output,
                                    CUstream stream) const {
  NormalizationParams params = launch_.params;
  params.input = input;
  params.scale = scale;
  params.shift = shift;
  params.output = output;
  return launch_.Enqueue(params, stream);
}

}  // namespace ios::cuda
