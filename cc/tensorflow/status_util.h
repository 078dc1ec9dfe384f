// Status conversions between ios:: (no TensorFlow) and absl:: (TensorFlow).
#ifndef IOS_TF_CC_TENSORFLOW_STATUS_UTIL_H_
#define IOS_TF_CC_TENSORFLOW_STATUS_UTIL_H_

#include <string>

#include "absl/status/status.h"
#include "cc/core/status.h"

namespace ios::tf {

inline absl::Status ToAbsl(const Status& status) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (status.code()) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kInvalidArgument:
      code = absl::StatusCode::kInvalidArgument;
      break;
    case StatusCode::kNotFound:
      code = absl::StatusCode::kNotFound;
      break;
    case StatusCode::kFailedPrecondition:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    case StatusCode::kUnimplemented:
      code = absl::StatusCode::kUnimplemented;
      break;
    case StatusCode::kResourceExhausted:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case StatusCode::kInternal:
      break;
  }
  return absl::Status(code, status.message());
}

// Calls `function` and returns its status. An exception becomes a status, too.
template <typename F>
absl::Status CatchExceptionsAbsl(F&& function) {
  absl::Status status;
  const Status thrown = CatchExceptions([&] {
    status = function();
    return Status();
  });
  return thrown.ok() ? status : ToAbsl(thrown);
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_STATUS_UTIL_H_
