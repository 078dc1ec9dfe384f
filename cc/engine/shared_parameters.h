// Shares one packed parameter between equal weights. A process often has
// several programs of one model: signatures, traced functions, copies of a
// SavedModel.
#ifndef IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_
#define IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_

#include <memory>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"
#include "cc/engine/backend/backend.h"

namespace ios {

// Returns the parameter for weight `index` (see WeightShapes) of `op`, which
// computes in `dtype`. If a program of this process has an equal weight of the
// same kind of operator, the result is the parameter of that weight, otherwise
// a new parameter. Thread-safe.
StatusOr<std::shared_ptr<Parameter>> SharedParameter(Backend* backend,
                                                     DataType dtype,
                                                     const Operator& op,
                                                     int index,
                                                     const ConstArray& array);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_SHARED_PARAMETERS_H_
