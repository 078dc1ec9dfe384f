// Shows the engine's operators in TensorFlow's profiler, as TraceMe events of
// the threads that run them.
#include <cstdint>
#include <exception>
#include <string>

#include "absl/strings/str_join.h"
#include "cc/engine/trace/profiler_hook.h"
#include "tsl/profiler/lib/traceme.h"
#include "tsl/profiler/lib/traceme_encode.h"
#include "xla/tsl/profiler/backends/cpu/traceme_recorder.h"
#include "xla/tsl/profiler/utils/time_utils.h"

namespace ios::tf {
namespace {

using ::tsl::profiler::TraceMeRecorder;

void Record(const ScheduleInfo& schedule, const TaskInfo& task, int lane,
            int64_t begin, int64_t end) {
  try {
    std::string name = tsl::profiler::TraceMeEncode(
        task.name, {{"region", schedule.region},
                    {"type", ToString(task.type)},
                    {"algorithm", ToString(task.algorithm)},
                    {"precision", ToString(task.dtype)},
                    {"shape", absl::StrJoin(task.shape, "x")},
                    {"bytes", task.bytes},
                    {"stage", task.stage + 1},
                    {"group", task.group + 1},
                    {"lane", lane + 1}});
    TraceMeRecorder::Record({std::move(name), begin, end});
  } catch (const std::exception&) {
    // The event is lost if there is not enough memory for it.
  }
}

constexpr ProfilerHook kTensorFlowProfiler = {
    // TensorFlow records the kernels of its own operations at this level.
    [] { return TraceMeRecorder::Active(tsl::profiler::TraceMeLevel::kInfo); },
    [] { return tsl::profiler::GetCurrentTimeNanos(); }, Record};

[[maybe_unused]] const bool registered = [] {
  SetProfilerHook(&kTensorFlowProfiler);
  return true;
}();

}  // namespace
}  // namespace ios::tf
