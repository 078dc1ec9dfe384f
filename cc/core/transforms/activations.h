// Moves the activation of a concat to the operators that write its inputs, and
// the activation of a sum to the operator that reads it. These operators apply
// the activation in the same pass.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/readers.h"

namespace ios {

// Whether the tasks of `reader` can do the work of `producer` while they read,
// so that the output of `producer`, of shape `between`, is never stored. They
// read the pieces of a concat, the terms of a sum, or the input of a 1x1
// convolution. `output` is the shape of the reader's output.
using Absorbs = bool (*)(const Operator& producer, const Operator& reader,
                         const Shape& between, const Shape& output);

// Replaces the activation of a concat by a concat of activations, as in
// NASNet's cells, if the activation would absorb the concat. The activation
// must be the only reader of the concat. Sums, scales and binary operators that
// only the concat reads apply the activation themselves. At most one other
// input is allowed; the operator that was the concat then activates this input.
// Without such an input, that operator joins all inputs but the last. The
// operator that was the activation joins everything.
void ActivateBeforeConcats(const std::vector<Shape>& shapes, Absorbs absorbs,
                           Block* block);

// The operator that absorbs `sum`, or -1. It is the sum's only reader, because
// several readers would repeat the addition. It reads the sum as its first
// input. No term may be a concat, because a concat may itself be absorbed.
int ReaderOfTerms(const Block& block, const std::vector<Shape>& shapes,
                  const Readers& readers, Absorbs absorbs, int sum);

// Moves the relu of a sum into its ReaderOfTerms, as `pre_activation`. The sum
// itself then has nothing left to compute.
void ActivateAfterSums(const std::vector<Shape>& shapes, Absorbs absorbs,
                       Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
