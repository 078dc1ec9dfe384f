// Checks of operators and tensors by themselves: numbers within limits, and
// attributes that make sense.
#ifndef IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_
#define IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_

#include <cstddef>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// A tensor of this shape may exist.
Status CheckShape(const Shape& shape);

// Operators read and write only [N,H,W,C] and [N,C].
Status CheckTensor(const Shape& shape);

// Whether the operator's own attributes are in range, whatever it reads.
Status CheckAttributes(const Operator& op);

// Whether it reads so many tensors.
Status CheckArity(const Operator& op, size_t inputs);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_
