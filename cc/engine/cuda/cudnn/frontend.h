// Includes cuDNN's frontend (a C++ library of headers) for all files in this
// folder, and converts its errors to Statuses.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_FRONTEND_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_FRONTEND_H_

#include <exception>
#include <string>

#include "cc/core/status.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
// TensorFlow's library contains a copy of the frontend that calls cuDNN
// directly. Our copy is in its own namespace, so that the dynamic linker cannot
// mix up the two.
#define cudnn_frontend ios_cudnn_frontend
// Includes only the frontend's builders and what they need. The whole frontend
// takes half a minute to compile, and its class graph::Graph does not let the
// caller choose the alignment of tensors.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cudnn_frontend_ExecutionPlan.h>
#include <cudnn_frontend_Heuristics.h>
#include <cudnn_frontend_VariantPack.h>

namespace ios::cuda {

namespace fe = ::cudnn_frontend;

// Replaces line breaks by spaces. cuDNN's messages have line breaks, but our
// errors are one line.
std::string OneLine(std::string text);

// Converts cuDNN's status of a call `what`. Returns Unimplemented if cuDNN does
// not support the request.
Status ToStatus(cudnnStatus_t status, const std::string& what);

// Calls `function`, which returns a Status or StatusOr, and converts exceptions
// of the frontend to Statuses.
template <typename Function>
auto Guard(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (fe::cudnnException& error) {  // its getters are not const
    return ToStatus(error.getCudnnStatus(), error.what());
  } catch (const std::exception& error) {
    return Internal(OneLine(error.what()));
  }
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_FRONTEND_H_
