// The Execution of the CUDA backend. It has several instances, each with its
// own memory, so that calls on different streams can run at the same time. An
// instance runs the whole schedule as one CUDA graph, or enqueues the kernels
// one by one for pointers that it has not seen before.
#ifndef IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_
#define IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_

#include <cstdint>
#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Creates the Execution with one instance. More instances are created when
// callers need them.
StatusOr<std::unique_ptr<Execution>> LoadExecution(const Device* device,
                                                   BoundSchedule schedule);

// Returns how often this process failed to make a CUDA graph.
int64_t FailedCaptures();

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_
