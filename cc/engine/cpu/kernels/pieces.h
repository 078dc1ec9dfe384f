// Inputs in pieces: which tensors, and which of their channels, make up the
// channels of an output.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_PIECES_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/engine/backend.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Some channels of one tensor.
struct Piece {
  size_t input = 0;     // of TaskSpec::inputs
  int64_t channel = 0;  // the first
  TensorView view;

  Source Of(const float* const* inputs) const {
    return {inputs[input] + channel, view};
  }
};

// Channels of the output for which every input of the operator is one piece.
struct Range {
  int64_t channel = 0;  // the first
  TensorView view;
  std::vector<Piece> pieces;
};

// All channels, in order; one range where no input is in pieces. The operator's
// inputs have the output's shape.
std::vector<Range> RangesOf(const TaskSpec& spec);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_PIECES_H_
