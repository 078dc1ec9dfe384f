#include "cc/engine/trace/call_trace.h"

#include <atomic>
#include <utility>

namespace ios {
namespace {

std::atomic<const ProfilerHook*> profiler_hook{nullptr};

}  // namespace

void SetProfilerHook(const ProfilerHook* hook) { profiler_hook.store(hook); }

const ProfilerHook* ActiveProfiler() {
  const ProfilerHook* const hook =
      profiler_hook.load(std::memory_order_acquire);
  return hook && hook->is_active() ? hook : nullptr;
}

CallTrace::CallTrace(const TraceObservers& observers,
                     std::shared_ptr<const ScheduleInfo> schedule)
    : recorder_(observers.recorder), profiler_(observers.profiler) {
  if (!schedule) recorder_ = nullptr, profiler_ = nullptr;
  if (!recorder_ && !profiler_) return;
  record_.schedule = std::move(schedule);
  record_.asked = observers.asked;
  if (recorder_ && !recorder_->Begin(&record_)) recorder_ = nullptr;
}

CallTrace::~CallTrace() {
  if (recorder_) recorder_->End(std::move(record_));
}

void CallTrace::Task::Begin(int task, int lane) {
  task_ = task;
  lane_ = lane;
  if (call_->profiler_) begin_ = call_->profiler_->now();
  if (!call_->recorder_) return;
  TraceSlice& slice = call_->record_.slices[task];
  slice.lane = lane;
  slice.thread = TraceThread();
  slice.begin = TraceClock();
}

void CallTrace::Task::End() {
  if (call_->recorder_) call_->record_.slices[task_].end = TraceClock();
  if (!call_->profiler_) return;
  const ScheduleInfo& schedule = *call_->record_.schedule;
  call_->profiler_->record(schedule, schedule.tasks[task_], lane_, begin_,
                           call_->profiler_->now());
}

}  // namespace ios
