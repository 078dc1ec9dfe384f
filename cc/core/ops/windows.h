// The output sizes of operators that move a window over an image.
#ifndef IOS_TF_CC_CORE_OPS_WINDOWS_H_
#define IOS_TF_CC_CORE_OPS_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ops/operator.h"
#include "cc/core/status.h"

namespace ios {

// Returns the output shape of an operator that moves a window over an image of
// shape `x`.
StatusOr<Shape> WindowedShape(const Operator& op, const Shape& x,
                              int64_t channels);

// Returns the output shape of a Conv2DTranspose.
StatusOr<Shape> TransposedShape(const Operator& op,
                                const std::vector<Shape>& inputs);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_WINDOWS_H_
