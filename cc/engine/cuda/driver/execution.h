// Execution of the CUDA backend: an instance for each stream that it is called
// on, and the whole schedule as CUDA graphs.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_EXECUTION_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_EXECUTION_H_

#include <cstdint>
#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// The first instance is made now, others when callers need them.
StatusOr<std::unique_ptr<Execution>> LoadExecution(const Device* device,
                                                   BoundSchedule schedule);

// How many times a CUDA graph could not be made in this process.
int64_t FailedCaptures();

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_EXECUTION_H_
