// CallTrace: observes one call of a region for the trace and the profiler.
#ifndef IOS_TF_CC_ENGINE_TRACE_CALL_TRACE_H_
#define IOS_TF_CC_ENGINE_TRACE_CALL_TRACE_H_

#include <cstdint>
#include <memory>

#include "cc/engine/trace/profiler_hook.h"
#include "cc/engine/trace/recorder.h"

namespace ios {

// The observers that are active when a call begins. Each call looks them up
// once.
struct TraceObservers {
  Recorder* recorder = Recorder::Active();
  const ProfilerHook* profiler = ActiveProfiler();
  int64_t asked = recorder ? TraceClock() : 0;

  bool any() const { return recorder || profiler; }
};

class CallTrace {
 public:
  // `schedule` may be null; then nothing is observed.
  CallTrace(const TraceObservers& observers,
            std::shared_ptr<const ScheduleInfo> schedule);
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  // Observes one task while it exists, on the thread that runs the task. Each
  // task runs at most once per call. Does nothing if `call` is null.
  class Task {
   public:
    Task(CallTrace* call, int task, int lane) : call_(call) {
      if (call_) Begin(task, lane);
    }
    ~Task() {
      if (call_) End();
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    void Begin(int task, int lane);
    void End();

    CallTrace* const call_;
    int task_ = 0, lane_ = 0;
    int64_t begin_ = 0;  // on the profiler's clock
  };

 private:
  Recorder* recorder_;
  const ProfilerHook* profiler_;
  TraceCall record_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_TRACE_CALL_TRACE_H_
