#include "cc/engine/cuda/cudnn/convolution_tensors.h"

#include <algorithm>
#include <random>
#include <utility>

namespace ios::cuda {
namespace {

// The number of random values. Larger tensors repeat them.
constexpr int64_t kPatternElements = 1 << 16;

}  // namespace

ConvolutionTensors::ConvolutionTensors(const Device* device, DataType dtype)
    : device_(device), dtype_(dtype) {
  std::minstd_rand random;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(kPatternElements);
  for (float& value : values) value = uniform(random);
  pattern_.resize(kPatternElements * SizeOf(dtype));
  ConvertFromFloat(values.data(), kPatternElements, dtype, pattern_.data());
}

StatusOr<ConvolutionTensors> ConvolutionTensors::Create(
    const Device* device, const ConvolutionSpec& spec) {
  ConvolutionTensors tensors(device, spec.dtype);
  ConvolutionPointers& pointers = tensors.pointers_;
  IOS_ASSIGN_OR_RETURN(pointers.input, tensors.Make(spec.input));
  tensors.input_bytes_ = SpanBytes(spec.input, spec.dtype);
  IOS_ASSIGN_OR_RETURN(pointers.filter, tensors.Make(FilterView(spec)));
  if (spec.bias) {
    IOS_ASSIGN_OR_RETURN(pointers.bias,
                         tensors.Make(DenseView({spec.output.channels()})));
  }
  if (spec.residual) {
    IOS_ASSIGN_OR_RETURN(pointers.residual, tensors.Make(*spec.residual));
    tensors.residual_bytes_ = SpanBytes(*spec.residual, spec.dtype);
  }
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> read,
                       device->Allocate(std::max(tensors.input_bytes_,
                                                 tensors.residual_bytes_)));
  tensors.read_ = read.get();
  tensors.memory_.push_back(std::move(read));
  IOS_ASSIGN_OR_RETURN(pointers.output, tensors.Make(spec.output));
  return tensors;
}

Status ConvolutionTensors::MakeWorkspace(int64_t bytes) {
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, device_->Allocate(bytes));
  pointers_.workspace = memory.get();
  memory_.push_back(std::move(memory));
  return Status();
}

Status ConvolutionTensors::ReadActivations(CUstream stream) const {
  for (const auto& [from, bytes] :
       {std::pair(pointers_.input, input_bytes_),
        std::pair(pointers_.residual, residual_bytes_)}) {
    if (bytes == 0) continue;
    IOS_CUDA_RETURN_IF_ERROR(
        device_, cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(read_),
        reinterpret_cast<CUdeviceptr>(from), bytes, stream);
  }
  return Status();
}

StatusOr<void*> ConvolutionTensors::Make(const TensorView& view) {
  const int64_t bytes = SpanBytes(view, dtype_);
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, device_->Allocate(bytes));
  const auto start = static_cast<char*>(memory.get());
  const int64_t step = pattern_.size();
  for (int64_t done = 0; done < bytes; done += step) {
    IOS_RETURN_IF_ERROR(device_->Upload(
        pattern_.data(), std::min(step, bytes - done), start + done));
  }
  memory_.push_back(memory);
  return memory.get();
}

}  // namespace ios::cuda
