// One parameter for equal weights: programs that a process has of one model
// (signatures, traced functions, copies of a SavedModel) hold it packed once.
#ifndef IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_
#define IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_

#include <memory>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/arrays.h"
#include "cc/engine/backend.h"

namespace ios {

// Weight `index` (see WeightShapes) of an `op` that computes in `dtype`: the
// parameter of such an operator's equal weight if any program of the process
// has one, or a new one. Safe to call from many threads at once.
StatusOr<std::shared_ptr<Parameter>> SharedParameter(Backend* backend,
                                                     DataType dtype,
                                                     const Operator& op,
                                                     int index,
                                                     const ConstArray& array);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_
