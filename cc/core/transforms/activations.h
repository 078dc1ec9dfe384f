// Activations that change places with what joins tensors: who writes the parts
// or reads the whole applies them on the way.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_

#include <functional>

#include "cc/core/ir/block.h"
#include "cc/core/ir/readers.h"

namespace ios {

using OperatorPredicate = std::function<bool(const Operator&)>;

// The activation of a concat that nobody else reads is a concat of activations,
// as in NASNet's cells: sums, scales and the like that only the concat reads
// apply theirs. The operator that was the concat activates the one tensor that
// may be left, or joins all but the last; that which was the activation joins
// them all. `is_wanted`: of which activations.
void ActivateBeforeConcats(const OperatorPredicate& is_wanted, Block* block);

// The operator that adds up the terms of a sum as it reads them, or -1: the
// sum's only reader, by its first input, if `takes_terms`: several would each
// add them up. No term is a concat, which may be in pieces itself.
int ReaderOfTerms(const Block& block, const Readers& readers,
                  const OperatorPredicate& takes_terms, int sum);

// Such operators apply the sum's relu to what they read: nothing but its terms
// is left of the sum.
void ActivateAfterSums(const OperatorPredicate& takes_terms, Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_ACTIVATIONS_H_
