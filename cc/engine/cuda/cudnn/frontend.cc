#include "cc/engine/cuda/cudnn/frontend.h"

#include <algorithm>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace ios::cuda {

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Status ToStatus(cudnnStatus_t status, const std::string& what) {
  StatusCode code = StatusCode::kInternal;
  if (status == CUDNN_STATUS_ALLOC_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = StatusCode::kResourceExhausted;
  } else if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
             CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM) {
    // A bad parameter counts as an unsupported request, because the parameters
    // that cuDNN accepts depend on its version.
    code = StatusCode::kUnimplemented;
  }
  return Status(code, OneLine("cuDNN: " + what + " (" +
                              fe::detail::get_error_string(status) + ")"));
}

}  // namespace ios::cuda
