// The shapes of tensors.
#ifndef IOS_TF_CC_CORE_OPS_SHAPE_H_
#define IOS_TF_CC_CORE_OPS_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/status.h"

namespace ios {

// Activations are [batch, height, width, channels] or [batch, features].
using Shape = std::vector<int64_t>;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[1,35,35,192]"

// The shape that `x` and `y`, which have the same rank, broadcast to; empty if
// they do not broadcast.
Shape Broadcast(const Shape& x, const Shape& y);

// Checks that every dimension is known, and small enough to compute with.
Status CheckShape(const Shape& shape);

// Checks that `shape` is that of an activation.
Status CheckTensor(const Shape& shape);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_SHAPE_H_
