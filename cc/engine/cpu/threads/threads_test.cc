// Many threads call one program, with shapes that are compiled and evicted at
// the same time. They get the same bits as a single thread, and ThreadSanitizer
// finds nothing.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/engine/profiler.h"
#include "cc/engine/program.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;
using testing::Values;

constexpr int kThreads = 8, kRuns = 100;
constexpr int64_t kBatches = 10;  // the program keeps eight of them compiled

// Operators 0 and 1 read the input and may be merged. Operator 2 reads 0, and
// operator 3 joins 1 and 2.
Block ThreeConvolutions() {
  return MakeBlock({Conv(-1, 4, 1), Conv(-1, 8, 3), Conv(0, 4, 3),
                    Join(OperatorType::kConcat, {1, 2})},
                   {3}, {1, 6, 5, 3});
}

TEST(ThreadsGetTheBitsOfOne) {
  const Block block = ThreeConvolutions();
  const std::vector<float> weights = Values(3 * 3 * 4 * 8);
  const Weights all = {{{weights.data(), {1, 1, 3, 4}}},
                       {{weights.data(), {3, 3, 3, 8}}},
                       {{weights.data(), {3, 3, 4, 4}}},
                       {}};
  const Stage join = {Strategy::kConcurrent, {{3}}};
  const Schedules schedules = {
      {{1}, {{{Strategy::kConcurrent, {{0, 2}, {1}}}, join}}},
      {{4},
       {{{Strategy::kMerge, {{0, 1}}}, {Strategy::kConcurrent, {{2}}}, join}}},
      {{8}, {{{Strategy::kSplit, {{0, 1, 2, 3}}, 3}}}}};
  const auto program = Program::Create(block, schedules, all, "cpu");
  EXPECT(program.ok());
  if (!program.ok()) return;
  const auto run = [&](int64_t batch) {
    const std::vector<float> images = Values(batch * 6 * 5 * 3);
    std::vector<float> result(batch * 6 * 5 * 12);
    const Status status = (*program)->Run({{images.data(), {batch, 6, 5, 3}}},
                                          {result.data()}, nullptr);
    return status.ok() ? result : std::vector<float>();
  };
  std::vector<std::vector<float>> expected;
  for (int64_t batch = 1; batch <= kBatches; ++batch) {
    expected.push_back(run(batch));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        const int64_t batch = 1 + (t * 7 + i * 3) % kBatches;
        const std::vector<float> found = run(batch);
        const std::vector<float>& wanted = expected[batch - 1];
        wrong += found.size() != wanted.size() ||
                 std::memcmp(found.data(), wanted.data(),
                             wanted.size() * sizeof(float)) != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0);
}

TEST(ThreadsMeasureWhileOthersRefuse) {
  const Block block = ThreeConvolutions();
  const auto profiler = Profiler::Create(block, "cpu");
  EXPECT(profiler.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Stage good = {Strategy::kConcurrent, {{0, 2}, {1}}};
      const Stage racing = {Strategy::kConcurrent, {{0}, {0}}};
      for (int i = 0; i < 10; ++i) {
        const bool refuse = (t + i) % 2 == 0;
        const auto measured =
            (*profiler)->Measure({{refuse ? racing : good}, {}}, {0, 1, 1, 0});
        wrong += measured.ok() == refuse;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0);
}

}  // namespace
}  // namespace ios
