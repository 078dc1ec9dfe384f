#include "cc/engine/cuda/spatial_kernels.h"

#include <algorithm>

#include "cc/engine/cuda/kernel_source.h"
#include "cc/engine/cuda/launch_geometry.h"

namespace ios::cuda {

StatusOr<ResizeKernel> ResizeKernel::Create(const Device* device,
                                            DataType dtype, const Operator& op,
                                            const TensorView& input,
                                            const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  const int64_t vector =
      std::min(VectorOf(dtype, input), VectorOf(dtype, output));
  const int64_t count = NumElements(output.shape) / vector;
  ResizeKernel kernel;
  Launch<ResizeParams>& launch = kernel.launch_;
  launch.device = device;
  launch.block = BlockFor(device, count);
  launch.grid_x = CeilDiv(count, launch.block);
  IOS_ASSIGN_OR_RETURN(
      launch.function,
      KernelCache::Of(device)->Get(
          {"Resize",
           kSpatialSource,
           {{"IOS_DTYPE", DtypeMacro(dtype)},
            {"IOS_VECTOR", static_cast<int>(vector)},
            {"IOS_ACTIVATION", 0},
            {"IOS_INTERPOLATION", static_cast<int>(op.interpolation)},
            {"IOS_COORDINATES", static_cast<int>(op.coordinates)}}}));
  const Shape &in = input.shape, &out = output.shape;
  ResizeParams& params = launch.params;
  params.input_pitch = input.pitch;
  params.output_pitch = output.pitch;
  params.count = count;
  params.input_height = in[1];
  params.input_width = in[2];
  params.scale_height = ResizeScale(op.coordinates, in[1], out[1]);
  params.scale_width = ResizeScale(op.coordinates, in[2], out[2]);
  params.vectors = MakeDivisor(output.channels() / vector);
  params.output_height = MakeDivisor(out[1]);
  params.output_width = MakeDivisor(out[2]);
  return kernel;
}

Status ResizeKernel::Enqueue(const void* input, void* output,
                             CUstream stream) const {
  ResizeParams params = launch_.params;
  params.input = input;
  params.output = output;
  return launch_.Enqueue(params, stream);
}

}  // namespace ios::cuda
