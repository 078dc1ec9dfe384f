// Schedules and merges: what is legal, and what a merged convolution computes.
#include "cc/core/ir/schedule.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cc/core/transforms/merge.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;

// 0 and 1 read the input, 2 reads 0, 3 joins 1 and 2.
Block Branches() {
  return MakeBlock({Conv(-1, 2, 1), Conv(-1, 3, 3), Conv(0, 4, 3),
                    Join(OperatorType::kConcat, {1, 2})},
                   {3});
}

Stage Concurrent(std::vector<std::vector<int>> groups) {
  return {Strategy::kConcurrent, std::move(groups)};
}

Stage Merge(std::vector<int> operators) {
  return {Strategy::kMerge, {std::move(operators)}};
}

Stage Split(std::vector<int> operators, int64_t micro_batches) {
  return {Strategy::kSplit, {std::move(operators)}, micro_batches};
}

TEST(LegalSchedules) {
  const Block block = Branches();
  EXPECT(Validate(SequentialSchedule(block), block).ok());
  EXPECT(
      Validate({{Concurrent({{0, 2}, {1}}), Concurrent({{3}})}}, block).ok());
  EXPECT(Validate({{Concurrent({{0, 2, 1, 3}})}}, block).ok());
  EXPECT(Validate({{Merge({0, 1}), Concurrent({{2, 3}})}}, block).ok());
  // 0 and 1 are not connected.
  EXPECT(Validate({{Split({0, 1}, 2), Split({2, 3}, 2)}}, block).ok());
}

TEST(IllegalSchedules) {
  const Block block = Branches();
  EXPECT_ERROR(Validate({{Concurrent({{0}, {1}})}}, block), "not scheduled");
  EXPECT_ERROR(Validate({{Concurrent({{0}, {0}})}}, block), "twice");
  EXPECT_ERROR(Validate({{Concurrent({{7}})}}, block), "no operator 7");
  EXPECT_ERROR(Validate({{Concurrent({})}}, block), "empty");
  EXPECT_ERROR(
      Validate({{Concurrent({{2}, {1}}), Concurrent({{0}}), Concurrent({{3}})}},
               block),
      "earlier stage");
  EXPECT_ERROR(
      Validate({{Concurrent({{0}, {2}, {1}}), Concurrent({{3}})}}, block),
      "different groups");
  EXPECT_ERROR(
      Validate({{Concurrent({{0, 1}}), Concurrent({{2}}), Concurrent({{3}})}},
               block),
      "not connected");
  EXPECT_ERROR(
      Validate({{Concurrent({{2, 0}, {1}}), Concurrent({{3}})}}, block),
      "before its input");
  // 0 and 2 do not read the same tensor.
  EXPECT_ERROR(
      Validate({{Merge({0, 2}), Concurrent({{1}}), Concurrent({{3}})}}, block),
      "cannot be merged");
  EXPECT_ERROR(Validate({{Split({0, 1, 2, 3}, 1)}}, block),
               "split stage 0 cannot have 1 micro-batches");
  EXPECT_ERROR(Validate({{{Strategy::kConcurrent, {{0, 1, 2, 3}}, 2}}}, block),
               "concurrent stage 0 cannot have 2 micro-batches");
  EXPECT_ERROR(
      Validate({{{Strategy::kSplit, {{0, 2}, {1}}, 2}, Concurrent({{3}})}},
               block),
      "split stage 0 must have one group");
  EXPECT_ERROR(Validate({{Split({2, 0, 1, 3}, 2)}}, block), "before its input");
}

TEST(NearestBatchIsByRatioAndTheSmallerOfTwo) {
  const BatchSchedules sizes = {{2, {}}, {8, {}}, {32, {}}};
  const std::map<int64_t, int64_t> expected = {
      {0, 2}, {1, 2},  {2, 2},  {3, 2},   {4, 2},   {5, 8},   {8, 8},
      {9, 8}, {15, 8}, {16, 8}, {17, 32}, {32, 32}, {33, 32}, {1000, 32}};
  for (const auto& [batch, size] : expected) {
    EXPECT(NearestBatch(sizes, batch)->first == size);
  }
  const BatchSchedules none;
  EXPECT(NearestBatch(none, 1) == none.end());
}

TEST(JsonGivesTheScheduleBack) {
  const Schedule schedule = {{Merge({0, 1}), Concurrent({{2, 3}})}};
  const StatusOr<Schedule> read = ScheduleFromJson(ToJson(schedule));
  EXPECT(read.ok() && ToJson(*read) == ToJson(schedule));
  EXPECT(read->stages[0].strategy == Strategy::kMerge);
  const Schedule split = {{Split({0, 1}, 3), Concurrent({{2, 3}})}};
  const StatusOr<Schedule> again = ScheduleFromJson(ToJson(split));
  EXPECT(again.ok() && ToJson(*again) == ToJson(split));
  EXPECT(again->stages[0].micro_batches == 3);
  for (const char* text :
       {"", "[]", "{\"version\":1}", "{\"version\":1,\"stages\":[{}]}",
        "{\"version\":1,\"stages\":[{\"strategy\":\"x\",\"groups\":[]}]}",
        "{\"version\":1,\"stages\":[{\"strategy\":\"split\",\"groups\":[],"
        "\"micro_batches\":\"2\"}]}"}) {
    EXPECT(!ScheduleFromJson(text).ok());
  }
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
  EXPECT_ERROR(PlanMerge(block, {1, 3}).status(), "no plain convolution");
}

TEST(MergeStagesAreLoweredToConvolutionAndSlices) {
  const Block block = Branches();
  const StatusOr<Lowered> lowered =
      LowerMerges(block, {{Merge({0, 1}), Concurrent({{2, 3}})}});
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

}  // namespace
}  // namespace ios
