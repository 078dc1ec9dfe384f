// Tests the validation of schedules and their JSON.
#include "cc/core/ir/schedule.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Branches;

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
  // A split may have operators that are not connected, as 0 and 1 are here.
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
      "must be in the same group");
  EXPECT_ERROR(
      Validate({{Concurrent({{0, 1}}), Concurrent({{2}}), Concurrent({{3}})}},
               block),
      "must be in different groups");
  EXPECT_ERROR(
      Validate({{Concurrent({{2, 0}, {1}}), Concurrent({{3}})}}, block),
      "must come after its input");
  // Operators 0 and 2 cannot merge, because they read different tensors.
  EXPECT_ERROR(
      Validate({{Merge({0, 2}), Concurrent({{1}}), Concurrent({{3}})}}, block),
      "cannot be merged");
  EXPECT_ERROR(Validate({{Split({0, 1, 2, 3}, 1)}}, block),
               "split stage 0 cannot have micro_batches=1");
  EXPECT_ERROR(Validate({{{Strategy::kConcurrent, {{0, 1, 2, 3}}, 2}}}, block),
               "concurrent stage 0 cannot have micro_batches=2");
  EXPECT_ERROR(
      Validate({{{Strategy::kSplit, {{0, 2}, {1}}, 2}, Concurrent({{3}})}},
               block),
      "split stage 0 must have one group");
  EXPECT_ERROR(Validate({{Split({2, 0, 1, 3}, 2)}}, block),
               "must come after its input");
}

TEST(NearestBatchIsByRatioAndTheSmallerOfTwo) {
  const Schedules sizes = {{{2}, {}}, {{8}, {}}, {{32}, {}}};
  const std::map<int64_t, int64_t> expected = {
      {0, 2}, {1, 2},  {2, 2},  {3, 2},   {4, 2},   {5, 8},   {8, 8},
      {9, 8}, {15, 8}, {16, 8}, {17, 32}, {32, 32}, {33, 32}, {1000, 32}};
  for (const auto& [batch, size] : expected) {
    EXPECT(NearestLoad(sizes, {batch})->first.batch == size);
  }
  const Schedules none;
  EXPECT(NearestLoad(none, {1}) == none.end());
}

TEST(TheNearestLoadHasTheNearestBatchAndThenTheNearestCallers) {
  const Schedules loads = {
      {{1, 1}, {}}, {{1, 8}, {}}, {{4, 2}, {}}, {{4, 32}, {}}, {{16, 1}, {}}};
  const std::vector<std::pair<Load, Load>> expected = {
      {{1, 1}, {1, 1}},   {{1, 2}, {1, 1}},   {{1, 3}, {1, 8}},
      {{1, 100}, {1, 8}}, {{2, 9}, {1, 8}},   {{3, 1}, {4, 2}},
      {{3, 8}, {4, 2}},   {{4, 9}, {4, 32}},  {{9, 64}, {16, 1}},
      {{99, 9}, {16, 1}}, {{8, 64}, {4, 32}}, {{0, 0}, {1, 1}}};
  for (const auto& [load, nearest] : expected) {
    EXPECT(NearestLoad(loads, load)->first == nearest);
  }
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

}  // namespace
}  // namespace ios
