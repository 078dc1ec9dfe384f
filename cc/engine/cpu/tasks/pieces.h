// Pieces: the output of an absorbed concat is not stored. An operator that
// reads it reads pieces of several tensors instead. This file finds, for each
// range of output channels, the pieces from which the range is computed.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_PIECES_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// A range of channels of one tensor.
struct Piece {
  size_t input = 0;     // index in TaskSpec::inputs
  int64_t channel = 0;  // the first
  TensorView view;

  template <typename T>
  SourceOf<T> Of(const T* const* inputs) const {
    return {inputs[input] + channel, view};
  }
};

// A range of output channels for which each input of the operator is a single
// piece.
struct Range {
  int64_t channel = 0;  // the first
  TensorView view;
  std::vector<Piece> pieces;
};

// Returns ranges that cover all output channels, in order. If the task does not
// absorb a concat, returns a single range. The operator's inputs must have the
// output's shape.
std::vector<Range> RangesOf(const TaskSpec& spec);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_PIECES_H_
