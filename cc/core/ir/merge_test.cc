// Tests which operators may merge, and what a merged convolution computes.
#include "cc/core/ir/merge.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Branches;
using testing::Conv;
using testing::MakeBlock;

// Returns a block with two convolutions that read the same input.
Block Pair(const Operator& a, const Operator& b) {
  return MakeBlock({a, b}, {0, 1});
}

bool MayMerge(const Operator& a, const Operator& b) {
  const Block block = Pair(a, b);
  const bool may = PlanMerge(block, {0, 1}).ok();
  EXPECT(MergeClasses(block).size() == (may ? 1 : 0));
  EXPECT(PlanMerge(block, {1, 0}).ok() == may);
  return may;
}

TEST(MergedKernelsAreCentredInZeros) {
  Block block = Branches();
  block.inputs = {{1, 8, 8, 1}};
  block.operators[1].bias = true;
  const StatusOr<MergePlan> plan = PlanMerge(block, {0, 1});
  EXPECT(plan.ok());
  EXPECT(plan->merged.kernel == std::array<int64_t, 2>{3, 3});
  EXPECT(plan->merged.filters == 5 && plan->merged.bias);
  EXPECT(plan->parts[0].row == 1 && plan->parts[0].column == 1);
  EXPECT(plan->parts[1].channel == 2 && plan->parts[1].row == 0);
  const std::vector<float> small = {1, 2};  // [1, 1, 1, 2]
  std::vector<float> large(3 * 3 * 3);      // [3, 3, 1, 3]
  for (size_t i = 0; i < large.size(); ++i) large[i] = 10 + i;
  const std::vector<float> shift = {7, 8, 9};
  const std::vector<float> filter =
      StackFilters(*plan, block, 1, {small.data(), large.data()});
  const std::vector<float> bias =
      StackBiases(*plan, block, {nullptr, shift.data()});
  EXPECT(bias == std::vector<float>{0, 0, 7, 8, 9});
  EXPECT(filter.size() == 3 * 3 * 5);
  for (int cell = 0; cell < 9; ++cell) {
    for (int channel = 0; channel < 5; ++channel) {
      const float expected = channel >= 2 ? large[cell * 3 + channel - 2]
                             : cell == 4  ? small[channel]
                                          : 0.0f;
      EXPECT(filter[cell * 5 + channel] == expected);
    }
  }
}

TEST(WhatMayMerge) {
  Block block = Branches();
  EXPECT(MergeClasses(block) == std::vector<std::vector<int>>{{0, 1}});
  block.operators[1].activation = Activation::kRelu;
  EXPECT(MergeClasses(block).empty());
  block = Branches();
  block.operators[1].strides = {2, 2};
  EXPECT_ERROR(PlanMerge(block, {0, 1}).status(), "differ");
  EXPECT_ERROR(PlanMerge(block, {1, 3}).status(), "not a plain convolution");
}

TEST(KernelsOfOneSizeMergeWhateverTheirPadding) {
  Operator a = Conv(-1, 4, 3);
  EXPECT(MayMerge(a, Conv(-1, 8, 5)));
  a.padding.type = PaddingType::kValid;
  EXPECT(MayMerge(a, a));
  // The padding of `a` differs from the default of Conv(), so the windows of
  // the two convolutions would read different cells at the border.
  EXPECT(!MayMerge(a, Conv(-1, 8, 3)));
  Operator larger = Conv(-1, 8, 5);
  larger.padding.type = PaddingType::kValid;
  EXPECT(!MayMerge(a, larger));
  // A window of one cell needs no padding.
  Operator pointwise = Conv(-1, 8, 1);
  pointwise.padding.type = PaddingType::kValid;
  EXPECT(MayMerge(pointwise, Conv(-1, 8, 3)));
  a.padding.type = pointwise.padding.type = PaddingType::kExplicit;
  Operator padded = a;
  padded.padding.top = 1;
  EXPECT(MayMerge(a, a) && !MayMerge(a, padded));
  // With a stride, the padding of SAME depends on the size of the image.
  Operator strided = Conv(-1, 4, 3), strided_larger = Conv(-1, 4, 5);
  strided.strides = strided_larger.strides = {2, 2};
  EXPECT(MayMerge(strided, strided));
  EXPECT(!MayMerge(strided, strided_larger));
}

TEST(DilatedKernelsMergeWhereTheirCellsAlign) {
  const auto dilated = [](int64_t kernel, int64_t dilation) {
    Operator op = Conv(-1, 4, kernel);
    op.dilations = {dilation, dilation};
    return op;
  };
  EXPECT(MayMerge(dilated(3, 2), dilated(5, 2)));
  EXPECT(!MayMerge(dilated(3, 2), dilated(3, 3)));
  // With dilation 3, SAME pads 1 cell before the input for a window of 2 cells,
  // and 3 cells for a window of 3.
  EXPECT(!MayMerge(dilated(2, 3), dilated(3, 3)));
  EXPECT(MayMerge(dilated(2, 1), dilated(3, 1)));
}

TEST(PlainConvolutionsOfOneTensorMerge) {
  const Operator plain = Conv(-1, 4, 3);
  Operator grouped = plain, residual = plain, separable = plain, active = plain;
  grouped.groups = 2;
  residual.residual = true;
  residual.inputs = {-1, -1};
  separable.type = OperatorType::kSepConv;
  active.activation = Activation::kRelu;
  for (const Operator& other : {grouped, residual, separable, active}) {
    EXPECT(!MayMerge(plain, other));
  }
  EXPECT(!MayMerge(grouped, grouped) && MayMerge(active, active));
  Block block = Pair(plain, plain);
  block.inputs.push_back(block.inputs[0]);
  block.operators[1].inputs = {-2};
  EXPECT_ERROR(PlanMerge(block, {0, 1}).status(), "differ");
  EXPECT_ERROR(PlanMerge(block, {0, 0}).status(), "an operator more than once");
  EXPECT_ERROR(PlanMerge(block, {0}).status(), "two or more");
}

TEST(WhatWouldBeTooLargeDoesNotMerge) {
  Operator wide = Conv(-1, 4, 1), high = Conv(-1, 4, 1);
  wide.kernel = {1, 4001};
  high.kernel = {4001, 1};
  EXPECT(MayMerge(wide, wide) && MayMerge(high, high));
  EXPECT(!MayMerge(wide, high));
}

TEST(AnAlgorithmOfAllPartsIsThatOfTheMerge) {
  Operator a = Conv(-1, 4, 3), b = Conv(-1, 8, 3), c = Conv(-1, 8, 1);
  a.algorithm = b.algorithm = Algorithm::kWinograd4;
  const Block same = Pair(a, b), other = Pair(a, c);
  EXPECT(PlanMerge(same, {0, 1})->merged.algorithm == Algorithm::kWinograd4);
  EXPECT(PlanMerge(other, {0, 1})->merged.algorithm == Algorithm::kDirect);
  a = c = Conv(-1, 4, 1);
  a.algorithm = c.algorithm = Algorithm::kGemm;
  EXPECT(PlanMerge(Pair(a, c), {0, 1})->merged.algorithm == Algorithm::kGemm);
}

}  // namespace
}  // namespace ios
