// Execution of the CUDA backend. It keeps an instance for each stream that it
// is called on, and runs the whole schedule as CUDA graphs.
#ifndef IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_
#define IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_

#include <cstdint>
#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Creates the first instance now, and further ones when callers need them.
StatusOr<std::unique_ptr<Execution>> LoadExecution(const Device* device,
                                                   BoundSchedule schedule);

// Counts how often this process failed to make a CUDA graph.
int64_t FailedCaptures();

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_EXECUTION_H_
