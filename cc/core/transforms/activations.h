// Moves the activation of a concat to the operators that write its inputs, and
// the activation of a sum to the operator that reads it. These operators apply
// the activation in the same pass.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/readers.h"

namespace ios {

// Returns whether a device's kernel for `reader` can also compute `producer`,
// so that the output of `producer` is never stored. The kernel then reads the
// inputs of `producer`: the parts of a concat, the terms of a sum, or the input
// of a 1x1 convolution. `between` is the shape of the output of `producer`, and
// `output` is the shape of the output of `reader`.
using Absorbs = bool (*)(const Operator& producer, const Operator& reader,
                         const Shape& between, const Shape& output);

// Replaces the activation of a concat by activations of the concat's inputs.
// NASNet's cells contain such concats. The activation must be the only reader
// of the concat and able to absorb it. Sums, scales and binary operators that
// only the concat reads apply the activation themselves. At most one input of
// the concat may be a tensor that no such operator computes.
//
// The number of operators does not change. The operator that was the activation
// becomes the concat. The operator that was the concat becomes the activation
// of the one input that cannot apply it. If there is no such input, it becomes
// a concat of all inputs except the last.
void ActivateBeforeConcats(const std::vector<Shape>& shapes, Absorbs absorbs,
                           Block* block);

// Returns the operator that absorbs the operator `sum`, or -1. This operator
// must be the only reader of the sum, because several readers would repeat the
// addition, and must read it as its first input. No term of the sum may be a
// concat, because a concat may itself be absorbed.
int ReaderOfTerms(const Block& block, const std::vector<Shape>& shapes,
                  const Readers& readers, Absorbs absorbs, int sum);

// Moves the relu of each sum into the operator that absorbs the sum (see
// ReaderOfTerms), as its `pre_activation`. The sum itself then has nothing left
// to compute.
void ActivateAfterSums(const std::vector<Shape>& shapes, Absorbs absorbs,
                       Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
