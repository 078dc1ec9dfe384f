// Checks single operators and tensors: numbers are within limits, and
// attributes are legal.
#ifndef IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_
#define IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_

#include <cstddef>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// Checks that the dimensions and the number of elements are within limits.
Status CheckShape(const Shape& shape);

// Checks a tensor that an operator reads: [N,H,W,C] or [N,C], within limits.
Status CheckTensor(const Shape& shape);

// Checks the operator's attributes without looking at its inputs.
Status CheckAttributes(const Operator& op);

// Checks that `op` may have this number of inputs.
Status CheckArity(const Operator& op, size_t inputs);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_OPERATOR_CHECKS_H_
