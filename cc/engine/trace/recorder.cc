#include "cc/engine/trace/recorder.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace ios {
namespace {

std::atomic<Recorder*> of_process{nullptr};

thread_local int thread_number = 0;

}  // namespace

std::atomic<Recorder*> Recorder::active{nullptr};

int64_t TraceClock() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

int TraceThread() {
  if (thread_number == 0) thread_number = gettid();
  return thread_number;
}

Recorder& Recorder::OfProcess() {
  // A child of fork() has none of the threads that its parent's calls run on,
  // and perhaps a locked mutex, so it makes a new recorder.
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    active.store(nullptr);
    of_process.store(nullptr);
    thread_number = 0;
  });
  static_cast<void>(registered);
  Recorder* recorder = of_process.load();
  if (recorder) return *recorder;
  auto* const fresh = new Recorder;
  if (of_process.compare_exchange_strong(recorder, fresh)) return *fresh;
  delete fresh;
  return *recorder;
}

Status Recorder::Start(int64_t max_tasks) {
  if (max_tasks < 1) {
    return InvalidArgument("the limit of a trace must be at least 1, not " +
                           std::to_string(max_tasks));
  }
  Recorder& recorder = OfProcess();
  std::lock_guard<std::mutex> lock(recorder.mutex_);
  if (recorder.is_open_ || recorder.in_progress_ > 0) {
    return FailedPrecondition("a trace is being recorded already");
  }
  recorder.is_open_ = true;
  recorder.max_tasks_ = max_tasks;
  recorder.trace_.begin = TraceClock();
  active.store(&recorder);
  return Status();
}

StatusOr<Trace> Recorder::Stop() {
  Recorder& recorder = OfProcess();
  std::unique_lock<std::mutex> lock(recorder.mutex_);
  if (!recorder.is_open_) {
    return FailedPrecondition("no trace is being recorded");
  }
  active.store(nullptr);
  recorder.is_open_ = false;
  recorder.ended_.wait(lock, [&] { return recorder.in_progress_ == 0; });
  Trace trace = std::exchange(recorder.trace_, Trace());
  recorder.tasks_ = 0;
  trace.end = TraceClock();
  return trace;
}

bool Recorder::Begin(TraceCall* call) {
  call->slices.resize(call->schedule->tasks.size());
  call->thread = TraceThread();
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_open_) return false;
  const auto free = std::find(callers_.begin(), callers_.end(), false);
  call->caller = static_cast<int>(free - callers_.begin());
  if (free == callers_.end()) {
    callers_.push_back(true);
  } else {
    *free = true;
  }
  ++in_progress_;
  call->asked = std::max(call->asked, trace_.begin);
  call->begin = TraceClock();
  return true;
}

void Recorder::End(TraceCall call) noexcept {
  call.end = TraceClock();
  const auto size = [](const TraceCall& one) {
    return std::max<int64_t>(one.slices.size(), 1);
  };
  std::lock_guard<std::mutex> lock(mutex_);
  callers_[call.caller] = false;
  tasks_ += size(call);
  const int64_t tasks = call.slices.size();
  try {
    trace_.calls.push_back(std::move(call));
  } catch (const std::bad_alloc&) {
    tasks_ -= std::max<int64_t>(tasks, 1);
    ++trace_.dropped_calls;
    trace_.dropped_tasks += tasks;
  }
  while (tasks_ > max_tasks_ && trace_.calls.size() > 1) {
    const TraceCall& oldest = trace_.calls.front();
    tasks_ -= size(oldest);
    ++trace_.dropped_calls;
    trace_.dropped_tasks += oldest.slices.size();
    trace_.calls.pop_front();
  }
  if (--in_progress_ == 0) ended_.notify_all();
}

namespace {

nlohmann::json ToJsonValue(const ScheduleInfo& schedule) {
  nlohmann::json tasks = nlohmann::json::array();
  for (const TaskInfo& task : schedule.tasks) {
    tasks.push_back({{"name", task.name},
                     {"type", ToString(task.type)},
                     {"algorithm", ToString(task.algorithm)},
                     {"dtype", ToString(task.dtype)},
                     {"shape", task.shape},
                     {"bytes", task.bytes},
                     {"operations", task.operations},
                     {"stage", task.stage},
                     {"group", task.group},
                     {"micro_batch", task.micro_batch}});
  }
  return {{"region", schedule.region},
          {"batch_size", schedule.batch_size},
          {"callers", schedule.callers},
          {"tasks", std::move(tasks)}};
}

}  // namespace

std::string ToJson(const Trace& trace) {
  std::map<const ScheduleInfo*, int> numbers;
  nlohmann::json schedules = nlohmann::json::array();
  std::string calls;
  for (const TraceCall& call : trace.calls) {
    const auto [known, is_new] =
        numbers.try_emplace(call.schedule.get(), schedules.size());
    if (is_new) schedules.push_back(ToJsonValue(*call.schedule));
    if (!calls.empty()) calls += ",";
    calls += "{\"schedule\":" + std::to_string(known->second) +
             ",\"asked\":" + std::to_string(call.asked - trace.begin) +
             ",\"begin\":" + std::to_string(call.begin - trace.begin) +
             ",\"end\":" + std::to_string(call.end - trace.begin) +
             ",\"caller\":" + std::to_string(call.caller) +
             ",\"thread\":" + std::to_string(call.thread) + ",\"slices\":[";
    const char* separator = "[";
    for (size_t i = 0; i < call.slices.size(); ++i) {
      const TraceSlice& slice = call.slices[i];
      if (slice.end == 0) continue;
      calls += separator;
      calls += std::to_string(i) + "," + std::to_string(slice.lane) + "," +
               std::to_string(slice.thread) + "," +
               std::to_string(slice.begin - trace.begin) + "," +
               std::to_string(slice.end - trace.begin) + "]";
      separator = ",[";
    }
    calls += "]}";
  }
  // Names of operators need not be valid UTF-8, and dump() would throw for an
  // invalid name. With `replace`, it writes U+FFFD instead of invalid bytes.
  return "{\"duration\":" + std::to_string(trace.end - trace.begin) +
         ",\"dropped_calls\":" + std::to_string(trace.dropped_calls) +
         ",\"dropped_tasks\":" + std::to_string(trace.dropped_tasks) +
         ",\"schedules\":" +
         schedules.dump(-1, ' ', false,
                        nlohmann::json::error_handler_t::replace) +
         ",\"calls\":[" + calls + "]}";
}

}  // namespace ios
