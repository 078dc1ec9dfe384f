// Measures the latency of work on the CPU, even while other processes use it.
#ifndef IOS_TF_CC_ENGINE_CPU_WORK_SAMPLER_H_
#define IOS_TF_CC_ENGINE_CPU_WORK_SAMPLER_H_

#include <functional>
#include <vector>

#include "cc/engine/backend/measurement.h"
#include "cc/engine/host/resource_use.h"

namespace ios::cpu {

// Takes latency samples of work that consists of parts, which run in order.
//
// If a sample was disturbed, the work is measured again in pieces, which are
// shorter than the time slices of other processes. For each piece, the calling
// thread does three things. It sleeps, so that the system's scheduler then
// prefers it to other processes. It runs the preceding piece, so that the other
// threads have cores and the caches hold the same data as in a whole run. Then
// it times the piece. The latency is the sum over the pieces.
class WorkSampler {
 public:
  // Runs parts [begin, end).
  using Run = std::function<void(int begin, int end)>;

  // Remembers whether earlier samples were disturbed. Not thread-safe.
  class History {
   public:
    // Returns true if the next sample should be taken in pieces only. This is
    // so for most samples after several disturbed samples in a row: whole runs
    // would probably be disturbed again, and be useless.
    bool ExpectsDisturbance();
    void Add(bool disturbed) { in_a_row_ = disturbed ? in_a_row_ + 1 : 0; }

   private:
    int in_a_row_ = 0;  // disturbed samples since the last undisturbed one
    int expected_ = 0;
  };

  // `warmup`: unmeasured runs before the first sample.
  WorkSampler(int parts, Run run, int warmup, ResourceMeter* meter,
              History* history)
      : parts_(parts),
        run_(std::move(run)),
        warmup_(warmup),
        meter_(meter),
        history_(history) {}

  // Returns the mean latency of `number` runs. If the runs are slow, takes the
  // mean of fewer.
  Sample Take(int number);

 private:
  struct PartRange {
    int begin = 0, end = 0;
    double ms = 0;           // estimate
    double highest_use = 0;  // CPU time / wall time, highest of all samples
  };

  Sample Time(PartRange* piece, int number, double enough_ms);
  Sample TakeInPieces(int number);
  void CutIntoPieces();

  const int parts_;
  const Run run_;
  int warmup_;  // unmeasured runs that are left to do
  ResourceMeter* const meter_;
  History* const history_;
  PartRange whole_{0, parts_, 0, 0};
  std::vector<PartRange> pieces_;
  int rounds_in_pieces_ = 0;
  double best_ms_in_pieces_ = 0;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_WORK_SAMPLER_H_
