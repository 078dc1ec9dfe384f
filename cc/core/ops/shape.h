// The shapes of tensors.
#ifndef IOS_TF_CC_CORE_OPS_SHAPE_H_
#define IOS_TF_CC_CORE_OPS_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/status.h"

namespace ios {

// A shape. Tensors that operators read and write are [batch, height, width,
// channels] or [batch, features].
using Shape = std::vector<int64_t>;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[1,35,35,192]"

// Returns the shape that `x` and `y` broadcast to, or an empty shape if they do
// not broadcast. Both must have the same rank.
Shape Broadcast(const Shape& x, const Shape& y);

// Checks that every dimension is known (not negative) and within the limits of
// limits.h.
Status CheckShape(const Shape& shape);

// Checks that operators can read and write a tensor of this shape: that it has
// rank 2 or 4 and is within the limits.
Status CheckTensor(const Shape& shape);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_SHAPE_H_
