#include "cc/core/ir/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "cc/core/limits.h"

namespace ios {
namespace {

bool IsAnySize(const Operator& op) {
  // With stride 1, SAME pads (extent - 1) / 2 cells before the input, for every
  // input size. So kernels of different sizes align for every height and width.
  // A 1x1 kernel reads the same cells under VALID.
  const bool pointwise = op.kernel == std::array<int64_t, 2>{1, 1};
  return op.strides == std::array<int64_t, 2>{1, 1} &&
         (op.padding.type == PaddingType::kSame ||
          (pointwise && op.padding.type == PaddingType::kValid));
}

// Two operators may merge only if their keys are equal.
using Key = std::tuple<int, std::array<int64_t, 2>, std::array<int64_t, 2>,
                       Activation, bool, std::array<int64_t, 2>, PaddingType,
                       std::array<int64_t, 4>>;

bool MergeKey(const Operator& op, Key* key) {
  if (op.type != OperatorType::kConv2D || op.groups != 1 || op.residual) {
    return false;
  }
  const bool any_size = IsAnySize(op);
  const Padding& p = op.padding;
  *key = {op.inputs[0],
          op.strides,
          op.dilations,
          op.activation,
          any_size,
          any_size ? std::array<int64_t, 2>{0, 0} : op.kernel,
          any_size ? PaddingType::kSame : p.type,
          {p.top, p.bottom, p.left, p.right}};
  return true;
}

// Finds the position of each part's kernel in the merged kernel.
Status PlaceKernels(const Block& block, MergePlan* plan) {
  const auto& kernel = plan->merged.kernel;
  for (MergePlan::Part& part : plan->parts) {
    const Operator& op = block.operators[part.op];
    part.row = (kernel[0] - 1) / 2 - (op.kernel[0] - 1) / 2;
    part.column = (kernel[1] - 1) / 2 - (op.kernel[1] - 1) / 2;
    // With dilation d, SAME pads (d * (k - 1)) / 2 cells before the input. The
    // taps of the part's kernel and of the merged kernel align only if their
    // pads differ by a multiple of d.
    for (int d = 0; d < 2; ++d) {
      const int64_t dilation = op.dilations[d];
      const int64_t difference =
          dilation * (kernel[d] - 1) / 2 - dilation * (op.kernel[d] - 1) / 2;
      if (difference != dilation * (d == 0 ? part.row : part.column)) {
        return InvalidArgument(
            "operator " + std::to_string(part.op) +
            " cannot be merged, because the cells of its dilated kernel do not "
            "align with those of the merged kernel");
      }
    }
  }
  return Status();
}

}  // namespace

StatusOr<MergePlan> PlanMerge(const Block& block, const std::vector<int>& ops) {
  if (ops.size() < 2) {
    return InvalidArgument("a merge takes two or more operators");
  }
  MergePlan plan;
  Key first;
  const std::set<int> different(ops.begin(), ops.end());
  if (different.size() != ops.size()) {
    return InvalidArgument("a merge lists an operator more than once");
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const Operator& op = block.operators[ops[i]];
    Key key;
    if (!MergeKey(op, &key)) {
      return InvalidArgument("operator " + std::to_string(ops[i]) + " (" +
                             ToString(op.type) +
                             ") is not a plain convolution, so it cannot be "
                             "merged");
    }
    if (i == 0) {
      first = key;
      plan.merged = op;
      plan.merged.filters = 0;
    } else if (key != first) {
      return InvalidArgument(
          "operators " + std::to_string(ops[0]) + " and " +
          std::to_string(ops[i]) +
          " cannot be merged, because their inputs, strides, dilations, "
          "paddings or activations differ");
    }
    Operator& merged = plan.merged;
    plan.parts.push_back({ops[i], merged.filters, 0, 0});
    merged.filters += op.filters;
    merged.bias = merged.bias || op.bias;
    if (op.algorithm != merged.algorithm) merged.algorithm = Algorithm::kDirect;
    for (int d = 0; d < 2; ++d) {
      merged.kernel[d] = std::max(merged.kernel[d], op.kernel[d]);
    }
    if (i > 0) merged.name += "+" + op.name;
  }
  // The merged convolution may exceed the limits even if its parts do not.
  if (plan.merged.filters > kMaxDimension ||
      SaturatingProduct({plan.merged.kernel[0], plan.merged.kernel[1]}) >
          kMaxMergedCells) {
    return InvalidArgument(
        "operators " + std::to_string(ops[0]) + " and " +
        std::to_string(ops.back()) +
        " cannot be merged, because the merged convolution would be too large");
  }
  if (!MayCompute(plan.merged, plan.merged.algorithm)) {
    plan.merged.algorithm = Algorithm::kDirect;
  }
  if (IsAnySize(block.operators[ops[0]])) {
    plan.merged.padding.type = PaddingType::kSame;
  }
  IOS_RETURN_IF_ERROR(PlaceKernels(block, &plan));
  return plan;
}

std::vector<std::vector<int>> MergeClasses(const Block& block) {
  std::map<Key, std::vector<int>> by_key;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    Key key;
    if (MergeKey(block.operators[i], &key)) by_key[key].push_back(i);
  }
  std::vector<std::vector<int>> classes;
  for (auto& [key, ops] : by_key) {
    if (ops.size() > 1 && PlanMerge(block, ops).ok()) {
      classes.push_back(std::move(ops));
    }
  }
  std::sort(classes.begin(), classes.end());
  return classes;
}

std::vector<float> StackFilters(const MergePlan& plan, const Block& block,
                                int64_t channels,
                                const std::vector<const float*>& filters) {
  const Operator& merged = plan.merged;
  std::vector<float> stacked(
      merged.kernel[0] * merged.kernel[1] * channels * merged.filters, 0.0f);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const MergePlan::Part& part = plan.parts[i];
    const Operator& op = block.operators[part.op];
    for (int64_t y = 0; y < op.kernel[0]; ++y) {
      for (int64_t x = 0; x < op.kernel[1]; ++x) {
        for (int64_t c = 0; c < channels; ++c) {
          const float* from =
              filters[i] + ((y * op.kernel[1] + x) * channels + c) * op.filters;
          float* to = stacked.data() +
                      (((y + part.row) * merged.kernel[1] + x + part.column) *
                           channels +
                       c) *
                          merged.filters +
                      part.channel;
          std::copy(from, from + op.filters, to);
        }
      }
    }
  }
  return stacked;
}

std::vector<float> StackBiases(const MergePlan& plan, const Block& block,
                               const std::vector<const float*>& biases) {
  std::vector<float> stacked(plan.merged.filters, 0.0f);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (!biases[i]) continue;
    const MergePlan::Part& part = plan.parts[i];
    std::copy(biases[i], biases[i] + block.operators[part.op].filters,
              stacked.data() + part.channel);
  }
  return stacked;
}

}  // namespace ios
