// Binds a schedule of a whole block to compiled tasks and to memory; for
// Program, and for Profiler where it measures whole schedules.
#ifndef IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_
#define IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/compiled_block.h"

namespace ios {

// `block` and `schedule` are those of LowerMerges, `shapes` the block's. The
// schedule is cut into segments, each compiled as a block. Where stages are
// split, each lane has compiled blocks of its own, one for each size of its
// micro-batches, and memory of its own for their intermediate tensors.
StatusOr<BoundSchedule> BindSchedule(Backend* backend, const Block& block,
                                     const std::vector<Shape>& shapes,
                                     const Schedule& schedule,
                                     const Parameters& parameters);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BIND_SCHEDULE_H_
