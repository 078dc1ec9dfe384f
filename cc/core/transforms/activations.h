// Moves the activation of a concat to the operators that write its inputs, and
// the activation of a sum to the operator that reads it. These operators apply
// the activation in the same pass.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_

#include <functional>

#include "cc/core/ir/block.h"
#include "cc/core/ir/readers.h"

namespace ios {

using OperatorPredicate = std::function<bool(const Operator&)>;

// Replaces the activation of a concat by a concat of activations, as in
// NASNet's cells. `is_wanted` selects the activations. The activation must be
// the only reader of the concat. Sums, scales and binary operators that only
// the concat reads apply the activation themselves. At most one other input is
// allowed; the operator that was the concat then activates this input. Without
// such an input, that operator joins all inputs but the last. The operator that
// was the activation joins everything.
void ActivateBeforeConcats(const OperatorPredicate& is_wanted, Block* block);

// The operator that adds up the terms of `sum` while it reads them, or -1. It
// is the sum's only reader, because several readers would repeat the addition.
// It reads the sum as its first input and satisfies `takes_terms`. No term may
// be a concat, because a concat may itself be left in pieces.
int ReaderOfTerms(const Block& block, const Readers& readers,
                  const OperatorPredicate& takes_terms, int sum);

// Moves the relu of a sum into its ReaderOfTerms, as `pre_activation`. The sum
// itself then has nothing left to compute.
void ActivateAfterSums(const OperatorPredicate& takes_terms, Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
