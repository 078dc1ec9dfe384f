// Programs with schedules for several batch sizes.
#include "cc/engine/program.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;

// Two convolutions of the input, 1x1 and 3x3, joined.
Block Branches() {
  return MakeBlock(
      {Conv(-1, 4, 1), Conv(-1, 8, 3), Join(OperatorType::kConcat, {0, 1})},
      {2}, {1, 6, 5, 3});
}

// Merged for a batch of 2; for one of 8 side by side.
BatchSchedules Schedules() {
  const Stage concat = {Strategy::kConcurrent, {{2}}};
  return {{2, {{{Strategy::kMerge, {{0, 1}}}, concat}}},
          {8, {{{Strategy::kConcurrent, {{0}, {1}}}, concat}}}};
}

std::vector<float> Values(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(1.0 + i));
  return values;
}

// What a program gives for so many images.
std::vector<float> Run(Program* program, int64_t batch) {
  const std::vector<float> images = Values(batch * 6 * 5 * 3);
  std::vector<float> result(batch * 6 * 5 * 12);
  EXPECT(program->Run({{images.data(), {batch, 6, 5, 3}}}, {result.data()},
                      nullptr)
             .ok());
  return result;
}

TEST(EveryBatchRunsByTheNearestScheduleAndIsRight) {
  const Block block = Branches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {{{small.data(), {1, 1, 3, 4}}},
                           {{large.data(), {3, 3, 3, 8}}},
                           {}};
  const auto several = Program::Create(block, Schedules(), weights, "cpu");
  const auto sequential = Program::Create(
      block, {{1, SequentialSchedule(block)}}, weights, "cpu");
  EXPECT(several.ok() && sequential.ok());
  if (!several.ok() || !sequential.ok()) return;
  EXPECT((*sequential)->ScheduledBatch(100) == 1);
  for (int64_t batch : {1, 2, 4, 5, 8, 9}) {
    EXPECT((*several)->ScheduledBatch(batch) == (batch <= 4 ? 2 : 8));
    const std::vector<float> found = Run(several->get(), batch);
    const std::vector<float> expected = Run(sequential->get(), batch);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT(std::abs(found[i] - expected[i]) < 1e-4f);
    }
  }
}

TEST(ProgramsWithoutAValidSchedule) {
  const Block block = Branches();
  const std::vector<float> small = Values(3 * 4), large = Values(3 * 3 * 3 * 8);
  const Weights weights = {{{small.data(), {1, 1, 3, 4}}},
                           {{large.data(), {3, 3, 3, 8}}},
                           {}};
  EXPECT_ERROR(Program::Create(block, {}, weights, "cpu").status(),
               "no schedule");
  BatchSchedules schedules = Schedules();
  schedules[8].stages.pop_back();
  EXPECT_ERROR(Program::Create(block, schedules, weights, "cpu").status(),
               "not scheduled");
}

}  // namespace
}  // namespace ios
