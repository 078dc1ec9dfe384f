// Readers: the operators that read each tensor of a block.
#ifndef IOS_TF_CC_CORE_IR_READERS_H_
#define IOS_TF_CC_CORE_IR_READERS_H_

#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

struct Readers {
  explicit Readers(const Block& block)
      : operators(block.operators.size()), outside(block.operators.size()) {
    for (size_t i = 0; i < block.operators.size(); ++i) {
      for (int ref : block.operators[i].inputs) {
        if (ref >= 0) operators[ref].push_back(i);
      }
    }
    for (int out : block.outputs) outside[out] = true;
  }

  // Returns the only reader of the output of operator `ref`. Returns -1 if the
  // output has no reader or several, if it is an output of the block, or if
  // `ref` is an input of the block (negative).
  int Only(int ref) const {
    const bool one = ref >= 0 && !outside[ref] && operators[ref].size() == 1;
    return one ? operators[ref][0] : -1;
  }

  // The readers of each operator's output. An operator that reads the output as
  // two of its inputs is listed twice.
  std::vector<std::vector<int>> operators;
  std::vector<bool> outside;  // true for outputs of the block
};

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_READERS_H_
