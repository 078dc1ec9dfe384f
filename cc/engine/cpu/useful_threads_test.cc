#include "cc/engine/cpu/useful_threads.h"

#include <cstdint>

#include "tests/cc/testing.h"

namespace ios::cpu {
namespace {

int Threads(int64_t flops, int most) {
  TaskSpec spec;
  spec.flops = flops;
  spec.inputs = {DenseView({1, 1, 1, 1})};
  spec.output = DenseView({1, 1, 1, 1});
  return UsefulThreads(spec, most);
}

TEST(TwoThreadsAndFewerAreNeverReduced) {
  EXPECT(Threads(0, 1) == 1);
  EXPECT(Threads(0, 2) == 2);
  EXPECT(Threads(0, 64) == 2);
  EXPECT(Threads(int64_t{1} << 40, 2) == 2);
}

TEST(ThreadsGrowWithTheSquareRootOfTheWork) {
  const int64_t work_of_ten = 100 * 54'000;
  EXPECT(Threads(work_of_ten, 64) == 10);
  EXPECT(Threads(4 * work_of_ten, 64) == 20);
  EXPECT(Threads(400 * work_of_ten, 64) == 64);
}

TEST(StagesWithoutTasksNeedOneThread) {
  EXPECT(MostThreads({}, 8) == 1);
  BoundStage several;
  several.lanes = 2;
  EXPECT(MostThreads({several}, 8) == 8);
}

}  // namespace
}  // namespace ios::cpu
