#include "cc/tensorflow/engine_device.h"

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/placement.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"

namespace ios::tf {

absl::StatusOr<std::string> EngineDevice(
    tensorflow::OpKernelConstruction* context) {
  std::string wanted;
  TF_RETURN_IF_ERROR(context->GetAttr("device", &wanted));
  const bool gpu = context->device_type() == tensorflow::DEVICE_GPU;
  if (wanted != (gpu ? kGpu : kCpu)) {
    return absl::InvalidArgumentError(
        absl::StrCat(context->def().op(), " is made for the ", wanted,
                     ", but it is placed on the ", gpu ? kGpu : kCpu));
  }
  if (!gpu) return std::string("cpu");
  const auto* info = context->device()->tensorflow_accelerator_device_info();
  if (!info || info->gpu_id < 0) {
    return absl::FailedPreconditionError(
        "the device does not say which GPU it is");
  }
  return absl::StrCat(
      "cuda:", info->gpu_id,
      tensorflow::tensor_float_32_execution_enabled() ? "" : ",tf32=0");
}

}  // namespace ios::tf
