// ProfilerHook: the functions by which the engine reports its tasks to a
// profiler of this process. The engine does not link to TensorFlow, so the
// library of the TensorFlow ops provides the hook of TensorFlow's profiler.
#ifndef IOS_TF_CC_ENGINE_TRACE_PROFILER_HOOK_H_
#define IOS_TF_CC_ENGINE_TRACE_PROFILER_HOOK_H_

#include <cstdint>

#include "cc/engine/backend/task_info.h"

namespace ios {

struct ProfilerHook {
  bool (*is_active)();
  int64_t (*now)();  // the profiler's clock
  // Records a task of `schedule` that the calling thread has just run. Must not
  // throw.
  void (*record)(const ScheduleInfo& schedule, const TaskInfo& task, int lane,
                 int64_t begin, int64_t end);
};

// Sets the hook for all calls that begin later. `hook` must live forever; null
// removes the hook.
void SetProfilerHook(const ProfilerHook* hook);

// Returns the hook if its profiler is active, else null.
const ProfilerHook* ActiveProfiler();

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_TRACE_PROFILER_HOOK_H_
