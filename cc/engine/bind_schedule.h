// Binds a schedule of a whole block to compiled tasks and to memory. Program
// uses this, and so does Profiler to measure whole schedules.
#ifndef IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_
#define IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/compiled_block.h"

namespace ios {

// Compiles and binds a schedule, whose merge stages must have been lowered (see
// LowerMerges). `shapes` has the shapes of the operators' outputs. The schedule
// is cut into segments (runs of stages with the same number of micro-batches),
// and each segment is compiled as a block. In a segment of split stages, each
// lane has its own compiled blocks, one per micro-batch size, and its own
// memory for their intermediate tensors. For `may_measure`, see TaskSpec.
StatusOr<BoundSchedule> BindSchedule(Backend* backend, const Block& block,
                                     const std::vector<Shape>& shapes,
                                     const Schedule& schedule,
                                     const Parameters& parameters,
                                     bool may_measure = true);

// Returns the BoundSchedule::arena_bytes of the schedule that BindSchedule
// would return, without weights and without compiling tasks.
StatusOr<int64_t> ArenaBytes(Backend* backend, const Block& block,
                             const std::vector<Shape>& shapes,
                             const Schedule& schedule);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_
