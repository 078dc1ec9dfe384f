// TaskInfo: describes the task of one operator, for traces and profilers.
#ifndef IOS_TF_CC_ENGINE_BACKEND_TASK_INFO_H_
#define IOS_TF_CC_ENGINE_BACKEND_TASK_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"

namespace ios {

struct TaskInfo {
  std::string name;  // of the operator
  OperatorType type = OperatorType::kConv2D;
  Algorithm algorithm = Algorithm::kDirect;
  DataType dtype = DataType::kFloat32;
  Shape shape;             // of the output
  int64_t bytes = 0;       // bytes that the task reads and writes, with weights
  int64_t operations = 0;  // see Flops()
  // Indices into the schedule's stages, the stage's groups and micro-batches.
  int stage = 0, group = 0, micro_batch = 0;
};

// The tasks of a schedule that is bound to one set of input shapes.
struct ScheduleInfo {
  std::string region;      // the block's name
  int64_t batch_size = 1;  // of the inputs
  int64_t callers = 1;     // number of callers that the schedule is made for
  std::vector<TaskInfo> tasks;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_TASK_INFO_H_
