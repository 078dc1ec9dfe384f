// Tests the operators and stages that replace merge stages.
#include "cc/core/transforms/lower_merges.h"

#include <utility>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Branches;

// Returns a schedule whose first stage merges operators 0 and 1, and whose
// second stage runs `groups` concurrently.
Schedule MergedFirst(std::vector<std::vector<int>> groups) {
  return {{{Strategy::kMerge, {{0, 1}}},
           {Strategy::kConcurrent, std::move(groups)}}};
}

TEST(MergeStagesAreLoweredToConvolutionAndSlices) {
  const Block block = Branches();
  const StatusOr<Lowered> lowered = LowerMerges(block, MergedFirst({{2, 3}}));
  EXPECT(lowered.ok());
  const std::vector<Operator>& operators = lowered->block.operators;
  EXPECT(operators.size() == 5);
  EXPECT(operators[0].filters == 5);
  EXPECT(operators[1].type == OperatorType::kSlice &&
         operators[1].offset == 0 && operators[1].size == 2);
  EXPECT(operators[2].type == OperatorType::kSlice &&
         operators[2].offset == 2 && operators[2].size == 3);
  EXPECT(operators[3].inputs == std::vector<int>{1});
  EXPECT(operators[4].inputs == std::vector<int>{2, 3});
  EXPECT(lowered->origin ==
         std::vector<std::vector<int>>{{0, 1}, {0}, {1}, {2}, {3}});
  EXPECT(lowered->block.outputs == std::vector<int>{4});
  EXPECT(Validate(lowered->block).ok());
  EXPECT(Validate(lowered->schedule, lowered->block).ok());
}

TEST(WhatIsNoScheduleIsNotLowered) {
  const Block block = Branches();
  EXPECT_ERROR(LowerMerges(block, MergedFirst({{2}})).status(),
               "not scheduled");
  const Schedule unlike = {{{Strategy::kConcurrent, {{0}}},
                            {Strategy::kMerge, {{1, 2}}},
                            {Strategy::kConcurrent, {{3}}}}};
  EXPECT_ERROR(LowerMerges(block, unlike).status(), "cannot be merged");
}

}  // namespace
}  // namespace ios
