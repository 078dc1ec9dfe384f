// Recorder: records when the engine ran each task of each call.
#ifndef IOS_TF_CC_ENGINE_TRACE_RECORDER_H_
#define IOS_TF_CC_ENGINE_TRACE_RECORDER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/task_info.h"

namespace ios {

// Returns the time in nanoseconds, from a clock that never goes back.
int64_t TraceClock();

// Returns the number that the operating system gave to the calling thread.
int TraceThread();

// One run of a task. All times are of TraceClock(). `end` is 0 if the task did
// not finish.
struct TraceSlice {
  int64_t begin = 0, end = 0;
  int lane = 0;
  int thread = 0;  // number by the operating system
};

// One call of a region.
struct TraceCall {
  std::shared_ptr<const ScheduleInfo> schedule;
  // The times at which the caller asked for cores, got them, and ended its
  // call.
  int64_t asked = 0, begin = 0, end = 0;
  // Distinguishes concurrent calls: the smallest number (from 0) that no other
  // call in progress had when this call began.
  int caller = 0;
  int thread = 0;                  // of the caller, as in TraceSlice
  std::vector<TraceSlice> slices;  // one for each of schedule->tasks
};

struct Trace {
  int64_t begin = 0, end = 0;
  std::deque<TraceCall> calls;  // in the order in which they ended
  // Calls and tasks that were dropped because the trace was full.
  int64_t dropped_calls = 0, dropped_tasks = 0;
};

// Thread-safe. A process has one recorder. A child of fork() starts without a
// trace.
class Recorder {
 public:
  // Starts a trace, which keeps up to `max_tasks` tasks. When it is full, the
  // oldest calls are dropped, but the latest call is always kept. Fails if a
  // trace is being recorded already.
  static Status Start(int64_t max_tasks);

  // Stops the trace and returns it. Waits for calls that have begun; calls that
  // begin later are not recorded. Fails if no trace is being recorded.
  static StatusOr<Trace> Stop();

  // Returns the recorder if a trace is being recorded, else null.
  static Recorder* Active() { return active.load(std::memory_order_relaxed); }

  // Begins a call, and sets its caller and slices. Returns false if the trace
  // has ended.
  bool Begin(TraceCall* call);
  // Ends a call for which Begin() returned true.
  void End(TraceCall call) noexcept;

 private:
  static Recorder& OfProcess();

  static std::atomic<Recorder*> active;

  std::mutex mutex_;  // for the members below
  bool is_open_ = false;
  int64_t max_tasks_ = 0, tasks_ = 0;
  int in_progress_ = 0;
  // callers_[i] is true while a call with TraceCall::caller i is in progress.
  std::vector<bool> callers_;
  std::condition_variable ended_;
  Trace trace_;
};

// Returns the trace as JSON:
// {"duration": ns, "dropped_calls": int, "dropped_tasks": int,
//  "schedules": [{"region", "batch_size", "callers", "tasks": [TaskInfo, …]},
//                …],
//  "calls": [{"schedule": index, "asked", "begin", "end", "caller", "thread",
//             "slices": [[task, lane, thread, begin, end], …]}, …]}.
// Times are nanoseconds since the trace began.
std::string ToJson(const Trace& trace);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_TRACE_RECORDER_H_
