#include "cc/core/transforms/commute.h"

#include <array>
#include <cstdint>
#include <utility>

#include "cc/core/ir/readers.h"

namespace ios {
namespace {

constexpr std::array<int64_t, 2> kOne = {1, 1};

// Returns whether `op` is a 1x1 convolution that computes a linear function of
// each pixel, apart from its activation.
bool IsPointwise(const Operator& op) {
  return op.type == OperatorType::kConv2D && op.kernel == kOne &&
         op.strides == kOne && op.groups == 1 && !op.residual &&
         op.padding.type != PaddingType::kExplicit;
}

}  // namespace

std::vector<std::pair<int, int>> PoolAfterConvolutions(
    const std::vector<Shape>& shapes, Block* block) {
  std::vector<Operator>& operators = block->operators;
  const Readers readers(*block);
  std::vector<std::pair<int, int>> moved;
  for (size_t i = 0; i < operators.size(); ++i) {
    const int at = operators[i].inputs.empty() ? -1 : operators[i].inputs[0];
    if (at < 0 || !IsPointwise(operators[i])) continue;
    Operator pool = operators[at], convolution = operators[i];
    if (pool.type != OperatorType::kPool || pool.pool != PoolKind::kAvg ||
        pool.activation != Activation::kNone || pool.strides != kOne ||
        pool.padding.type != PaddingType::kSame || readers.Only(at) < 0 ||
        convolution.filters >= shapes[at].back()) {
      continue;
    }
    convolution.inputs.swap(pool.inputs);
    pool.activation = convolution.activation;
    convolution.activation = Activation::kNone;
    operators[at] = std::move(convolution);
    operators[i] = std::move(pool);
    moved.emplace_back(at, i);
  }
  return moved;
}

}  // namespace ios
