// Tests which parts a WorkSampler runs, and when it measures in pieces only.
#include "cc/engine/cpu/work_sampler.h"

#include <vector>

#include "tests/cc/testing.h"

namespace ios::cpu {
namespace {

TEST(DisturbanceIsExpectedAfterFourDisturbedSamplesInARow) {
  WorkSampler::History history;
  for (int i = 0; i < 3; ++i) history.Add(true);
  EXPECT(!history.ExpectsDisturbance());
  history.Add(false);
  for (int i = 0; i < 3; ++i) history.Add(true);
  EXPECT(!history.ExpectsDisturbance());
  history.Add(true);
  EXPECT(history.ExpectsDisturbance());
  history.Add(false);
  EXPECT(!history.ExpectsDisturbance());
}

TEST(WholeRunsAreTriedNowAndThenWhereDisturbanceIsExpected) {
  WorkSampler::History history;
  for (int i = 0; i < 4; ++i) history.Add(true);
  int tried = 0;
  for (int i = 0; i < 160; ++i) tried += !history.ExpectsDisturbance();
  EXPECT(tried == 10);
}

// A sampler of work that consists of three parts. It counts how often each part
// ran.
struct Counted {
  std::vector<int> runs = std::vector<int>(3);
  ResourceMeter meter;
  WorkSampler::History history;
  WorkSampler sampler{3,
                      [this](int begin, int end) {
                        for (int i = begin; i < end; ++i) ++runs[i];
                      },
                      /*warmup=*/2, &meter, &history};
};

TEST(EverySampleRunsAllParts) {
  Counted counted;
  std::vector<int> before = counted.runs;
  for (int i = 0; i < 4; ++i) {
    const Sample sample = counted.sampler.Take(2);
    EXPECT(sample.ms >= 0 && sample.ms < 1e3);
    for (int part = 0; part < 3; ++part) {
      // A sample that is a copy of an earlier one runs nothing, and is marked
      // as disturbed. Other samples run each part at least twice.
      EXPECT(sample.disturbed || counted.runs[part] >= before[part] + 2);
    }
    before = counted.runs;
  }
  EXPECT(counted.runs[0] >= 4);
}

TEST(PartsAreMeasuredInPiecesWhereDisturbanceIsExpected) {
  Counted counted;
  for (int i = 0; i < 4; ++i) counted.history.Add(true);
  const Sample sample = counted.sampler.Take(2);
  EXPECT(sample.ms >= 0 && sample.ms < 1e3);
  for (int part = 0; part < 3; ++part) EXPECT(counted.runs[part] >= 2);
}

}  // namespace
}  // namespace ios::cpu
