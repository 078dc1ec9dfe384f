// Tests programs with schedules for several batch sizes.
#include "cc/engine/program.h"

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "cc/engine/devices.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;
using testing::Values;

// A concat of two convolutions of the input, 1x1 and 3x3.
Block TwoBranches() {
  return MakeBlock(
      {Conv(-1, 4, 1), Conv(-1, 8, 3), Join(OperatorType::kConcat, {0, 1})},
      {2}, {1, 6, 5, 3});
}

// Schedules for TwoBranches(): the convolutions are merged for a batch of 2,
// and run concurrently for a batch of 8.
Schedules MergedAndConcurrent() {
  const Stage concat = {Strategy::kConcurrent, {{2}}};
  return {{{2}, {{{Strategy::kMerge, {{0, 1}}}, concat}}},
          {{8}, {{{Strategy::kConcurrent, {{0}, {1}}}, concat}}}};
}

// Runs a program on `batch` images and returns its output.
std::vector<float> Run(Program* program, int64_t batch) {
  const std::vector<float> images = Values(batch * 6 * 5 * 3);
  std::vector<float> result(batch * 6 * 5 * 12);
  EXPECT(
      program
          ->Run({{images.data(), {batch, 6, 5, 3}}}, {result.data()}, nullptr)
          .ok());
  return result;
}

TEST(EveryBatchRunsByTheNearestScheduleAndIsRight) {
  const Block block = TwoBranches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {
      {{small.data(), {1, 1, 3, 4}}}, {{large.data(), {3, 3, 3, 8}}}, {}};
  const auto several =
      Program::Create(block, MergedAndConcurrent(), weights, "cpu");
  const auto sequential = Program::Create(
      block, {{LoadOf(block), SequentialSchedule(block)}}, weights, "cpu");
  EXPECT(several.ok() && sequential.ok());
  if (!several.ok() || !sequential.ok()) return;
  EXPECT((*sequential)->ScheduledLoad({100}) == Load{1});
  for (int64_t batch : {1, 2, 4, 5, 8, 9}) {
    EXPECT((*several)->ScheduledLoad({batch}) == Load{batch <= 4 ? 2 : 8});
    const std::vector<float> found = Run(several->get(), batch);
    const std::vector<float> expected = Run(sequential->get(), batch);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT(std::abs(found[i] - expected[i]) < 1e-4f);
    }
  }
}

TEST(CallsInProgressAreTheCallersOfALoad) {
  const Block block = TwoBranches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {
      {{small.data(), {1, 1, 3, 4}}}, {{large.data(), {3, 3, 3, 8}}}, {}};
  const Schedules of_two = MergedAndConcurrent();
  const auto program = Program::Create(
      block, {{{1, 1}, of_two.at({2})}, {{1, 8}, of_two.at({8})}}, weights,
      "cpu");
  EXPECT(program.ok());
  if (!program.ok()) return;
  // The number of callers is limited to the number of lanes, because further
  // callers wait in line.
  const int lanes = *LaneCount("cpu");
  EXPECT((*program)->ScheduledLoad({4, 1}) == Load({1, 1}));
  for (int callers : {lanes, 8, 100}) {
    EXPECT((*program)->ScheduledLoad({4, callers}) ==
           Load({1, lanes > 1 ? 8 : 1}));
  }
  const std::vector<float> expected = Run(program->get(), 2);
  // Concurrent calls may use either schedule, and give the same results.
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const std::vector<float> found = Run(program->get(), 2);
        for (size_t k = 0; k < expected.size(); ++k) {
          wrong += std::abs(found[k] - expected[k]) > 1e-4f;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0);
}

// A network whose images do not start at addresses that are aligned for
// vectors. Convolutions 0 and 1 read the input, 2 reads 0, and 4 reads 3.
// Operator 3 is a concat of 1 and 2, and 5 is the sum of 4 and 2.
Block Network() {
  return MakeBlock({Conv(-1, 5, 3), Conv(-1, 3, 1), Conv(0, 2, 3),
                    Join(OperatorType::kConcat, {1, 2}), Conv(3, 2, 3),
                    Join(OperatorType::kAdd, {4, 2})},
                   {3, 5}, {4, 5, 5, 3});
}

TEST(MicroBatchesGiveWhatTheWholeBatchGives) {
  const Block block = Network();
  const std::vector<float> values = Values(3 * 3 * 5 * 5);
  Weights weights(6);
  for (int op : {0, 1, 2, 4}) {
    const Shape shapes[] = {
        {3, 3, 3, 5}, {1, 1, 3, 3}, {3, 3, 5, 2}, {}, {3, 3, 5, 2}};
    weights[op] = {{values.data(), shapes[op]}};
  }
  const auto concurrent = [](std::vector<std::vector<int>> groups) {
    return Stage{Strategy::kConcurrent, std::move(groups)};
  };
  const auto split = [](std::vector<int> group, int64_t micro_batches) {
    return Stage{Strategy::kSplit, {std::move(group)}, micro_batches};
  };
  // The schedules: one split of the whole network, adjacent splits with equal
  // or different numbers of micro-batches, and splits next to other stages.
  const std::vector<Schedule> schedules = {
      {{split({0, 1, 2, 3, 4, 5}, 2)}},
      {{split({1, 0, 2, 3, 4, 5}, 100)}},
      {{split({0, 1}, 3), split({2, 3, 4}, 3), split({5}, 2)}},
      {{concurrent({{0}, {1}}), split({2, 3}, 4), concurrent({{4, 5}})}},
      {{split({0, 2}, 4), concurrent({{1, 3, 4, 5}})}},
      {{{Strategy::kMerge, {{0, 1}}}, split({2, 3, 4, 5}, 3)}}};
  const auto run = [&](const Schedule& schedule, int64_t batch) {
    const auto program =
        Program::Create(block, {{{batch}, schedule}}, weights, "cpu");
    EXPECT(program.ok());
    const std::vector<float> images = Values(batch * 5 * 5 * 3);
    std::vector<float> joined(batch * 5 * 5 * 5), sum(batch * 5 * 5 * 2);
    // Runs twice, to check that the first run does not affect the second.
    for (int i = 0; program.ok() && i < 2; ++i) {
      EXPECT((*program)
                 ->Run({{images.data(), {batch, 5, 5, 3}}},
                       {joined.data(), sum.data()}, nullptr)
                 .ok());
    }
    joined.insert(joined.end(), sum.begin(), sum.end());
    return joined;
  };
  for (int64_t batch : {1, 2, 3, 4, 7, 8}) {
    const std::vector<float> expected = run(SequentialSchedule(block), batch);
    for (const Schedule& schedule : schedules) {
      const std::vector<float> found = run(schedule, batch);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT(std::abs(found[i] - expected[i]) < 1e-4f);
      }
    }
  }
}

TEST(ABatchOfNoImagesIsNowhere) {
  const Block block = TwoBranches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {
      {{small.data(), {1, 1, 3, 4}}}, {{large.data(), {3, 3, 3, 8}}}, {}};
  const auto program =
      Program::Create(block, MergedAndConcurrent(), weights, "cpu");
  EXPECT(program.ok());
  if (!program.ok()) return;
  for (const Shape& shape : {Shape{0, 6, 5, 3}, Shape{2, 0, 5, 3}}) {
    const auto outputs = (*program)->OutputShapes({shape});
    EXPECT(outputs.ok() && NumElements((*outputs)[0]) == 0);
    EXPECT((*program)->Run({{nullptr, shape}}, {nullptr}, nullptr).ok());
  }
}

TEST(ProgramsWithoutAValidSchedule) {
  const Block block = TwoBranches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {
      {{small.data(), {1, 1, 3, 4}}}, {{large.data(), {3, 3, 3, 8}}}, {}};
  EXPECT_ERROR(Program::Create(block, {}, weights, "cpu").status(),
               "at least one schedule");
  Schedules schedules = MergedAndConcurrent();
  schedules[{8}].stages.pop_back();
  EXPECT_ERROR(Program::Create(block, schedules, weights, "cpu").status(),
               "not scheduled");
}

}  // namespace
}  // namespace ios
