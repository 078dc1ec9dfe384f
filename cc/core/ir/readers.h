// Readers: who reads the tensors of a block.
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

  // The operator that alone reads `ref`, once, or -1.
  int Only(int ref) const {
    const bool one = ref >= 0 && !outside[ref] && operators[ref].size() == 1;
    return one ? operators[ref][0] : -1;
  }

  // Of each operator's output; those that read it twice are there twice.
  std::vector<std::vector<int>> operators;
  std::vector<bool> outside;  // whether it is an output of the block
};

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_READERS_H_
