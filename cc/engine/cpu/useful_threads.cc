#include "cc/engine/cpu/useful_threads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cc/engine/cpu/kernels/instruction_set.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {
namespace {

// Work w on n threads takes w / n + n * s, where s is the time to call a thread
// and to learn that it is done. This is least for n = sqrt(w / s). Here, s is
// the work of about 0.4 microseconds (docs/benchmarks/callers_simulation.md).
constexpr double kWorkOfCall = 54'000;
// The number of floating-point operations that take as long as reading or
// writing one element of a tensor.
constexpr int64_t kWorkOfElement = 8;
// AMX does this many bfloat16 operations in the time of a float32 operation.
constexpr int64_t kOperationsOfTiles = 6;
// Every task may have this many threads.
constexpr int kLeast = 2;

}  // namespace

int UsefulThreads(const TaskSpec& spec, int most) {
  int64_t elements = NumElements(spec.output.shape);
  for (const TensorView& input : spec.inputs) {
    elements += NumElements(input.shape);
  }
  const bool uses_tiles = spec.dtype == DataType::kBFloat16 &&
                          BestBFloat16Products() == BFloat16Products::kTiles;
  const int64_t flops = spec.flops / (uses_tiles ? kOperationsOfTiles : 1);
  const double work = static_cast<double>(flops + kWorkOfElement * elements);
  const double best = std::sqrt(work / kWorkOfCall);
  return static_cast<int>(
      std::clamp<double>(best, std::min(kLeast, most), most));
}

int MostThreads(const std::vector<BoundStage>& stages, int most) {
  int threads = 1;
  for (const BoundStage& stage : stages) {
    if (stage.lanes > 1) return most;
    for (const std::vector<BoundTask>& group : stage.groups) {
      for (const BoundTask& bound : group) {
        const auto* const task = static_cast<const CpuTask*>(bound.task);
        threads = std::max(threads, task->threads());
      }
    }
  }
  return std::min(threads, most);
}

}  // namespace ios::cpu
