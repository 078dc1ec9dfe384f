#include "cc/engine/cuda/kernels/spatial_kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/engine/cuda/kernels/kernel_source.h"
#include "cc/engine/cuda/kernels/launch_geometry.h"

namespace ios::cuda {
namespace {

// Returns the kernel `name`, compiled for vectors of `vector` elements.
StatusOr<CUfunction> GetFunction(const Device* device, const char* name,
                                 DataType dtype, int64_t vector,
                                 Macros macros) {
  macros.insert(macros.end(), {{"IOS_DTYPE", DtypeMacro(dtype)},
                               {"IOS_VECTOR", static_cast<int>(vector)}});
  return KernelCache::Of(device)->Get({name, kSpatialSource, macros});
}

}  // namespace

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
  SetGrid(device, count, &launch);
  IOS_ASSIGN_OR_RETURN(
      launch.function,
      GetFunction(device, "Resize", dtype, vector,
                  {{"IOS_INTERPOLATION", static_cast<int>(op.interpolation)},
                   {"IOS_COORDINATES", static_cast<int>(op.coordinates)}}));
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
  return launch_.Enqueue(input, output, stream);
}

StatusOr<MoveDepthKernel> MoveDepthKernel::Create(const Device* device,
                                                  DataType dtype,
                                                  const Operator& op,
                                                  const TensorView& input,
                                                  const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  MoveDepthKernel kernel;
  kernel.to_depth_ = op.type == OperatorType::kSpaceToDepth;
  const TensorView& deep = kernel.to_depth_ ? output : input;
  const TensorView& wide = kernel.to_depth_ ? input : output;
  const int64_t vector = std::min(VectorOf(dtype, deep), VectorOf(dtype, wide));
  const int64_t count = NumElements(wide.shape) / vector;
  Launch<MoveDepthParams>& launch = kernel.launch_;
  SetGrid(device, count, &launch);
  IOS_ASSIGN_OR_RETURN(launch.function,
                       GetFunction(device, "MoveDepth", dtype, vector,
                                   {{"IOS_TO_DEPTH", kernel.to_depth_}}));
  MoveDepthParams& params = launch.params;
  params.deep_pitch = deep.pitch;
  params.wide_pitch = wide.pitch;
  params.count = count;
  params.block_size = op.block_size;
  params.channels = wide.channels();
  params.deep_width = deep.shape[2];
  params.vectors = MakeDivisor(wide.channels() / vector);
  params.wide_width = MakeDivisor(wide.shape[2]);
  params.block = MakeDivisor(op.block_size);
  return kernel;
}

Status MoveDepthKernel::Enqueue(const void* input, void* output,
                                CUstream stream) const {
  MoveDepthParams params = launch_.params;
  params.deep = to_depth_ ? output : input;
  params.wide = to_depth_ ? input : output;
  return launch_.Enqueue(params, stream);
}

StatusOr<LrnKernel> LrnKernel::Create(const Device* device, DataType dtype,
                                      const Operator& op,
                                      const TensorView& input,
                                      const TensorView& output) {
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  LrnKernel kernel;
  Launch<LrnParams>& launch = kernel.launch_;
  const int64_t count = NumElements(output.shape);
  SetGrid(device, count, &launch);
  IOS_ASSIGN_OR_RETURN(launch.function,
                       GetFunction(device, "Lrn", dtype, /*vector=*/1, {}));
  LrnParams& params = launch.params;
  params.input_pitch = input.pitch;
  params.output_pitch = output.pitch;
  params.count = count;
  params.channels_below = input.channels() - 1;
  params.radius = std::min(op.depth_radius, input.channels());
  params.bias = op.normalization[0];
  params.alpha = op.normalization[1];
  params.beta = op.normalization[2];
  params.channels = MakeDivisor(input.channels());
  return kernel;
}

Status LrnKernel::Enqueue(const void* input, void* output,
                          CUstream stream) const {
  return launch_.Enqueue(input, output, stream);
}

}  // namespace ios::cuda
