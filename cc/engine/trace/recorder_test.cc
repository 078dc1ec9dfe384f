// Tests the recorder, alone and under programs that several threads call.
#include "cc/engine/trace/recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/engine/program.h"
#include "cc/engine/trace/call_trace.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Branches;
using testing::Conv;
using testing::MakeBlock;
using testing::Values;

// A schedule of `count` tasks.
std::shared_ptr<const ScheduleInfo> Tasks(int count) {
  auto schedule = std::make_shared<ScheduleInfo>();
  schedule->tasks.resize(count);
  return schedule;
}

// Records one call that runs all tasks on lane 3.
void Call(std::shared_ptr<const ScheduleInfo> schedule) {
  const int count = schedule->tasks.size();
  CallTrace trace(TraceObservers(), std::move(schedule));
  for (int i = 0; i < count; ++i) const CallTrace::Task task(&trace, i, 3);
}

TEST(NothingIsRecordedOutsideOfATrace) {
  EXPECT(!TraceObservers().any());
  EXPECT_ERROR(Recorder::Stop().status(), "no trace is being recorded");
  EXPECT_ERROR(Recorder::Start(0), "must be at least 1, not 0");
  EXPECT(Recorder::Start(10).ok());
  EXPECT_ERROR(Recorder::Start(10), "recorded already");
  Call(Tasks(2));
  const StatusOr<Trace> trace = Recorder::Stop();
  Call(Tasks(2));
  EXPECT(trace.ok() && trace->calls.size() == 1);
  EXPECT(!TraceObservers().any());
}

TEST(SlicesHaveTheirLaneThreadAndTimes) {
  EXPECT(Recorder::Start(10).ok());
  Call(Tasks(2));
  const StatusOr<Trace> trace = Recorder::Stop();
  EXPECT(trace.ok() && trace->calls.size() == 1);
  const TraceCall& call = trace->calls[0];
  EXPECT(call.caller == 0 && call.thread == gettid());
  EXPECT(call.slices.size() == 2);
  int64_t last = trace->begin;
  const auto in_order = [&last](int64_t time) {
    EXPECT(time >= last);
    last = time;
  };
  in_order(call.asked);
  in_order(call.begin);
  for (const TraceSlice& slice : call.slices) {
    EXPECT(slice.lane == 3 && slice.thread == gettid());
    in_order(slice.begin);
    in_order(slice.end);
  }
  in_order(call.end);
  in_order(trace->end);
}

TEST(AFullTraceDropsTheOldestCalls) {
  EXPECT(Recorder::Start(7).ok());
  for (int count : {3, 2, 0, 3, 1}) Call(Tasks(count));
  StatusOr<Trace> trace = Recorder::Stop();
  // A call without tasks counts as one task: 2 + 1 + 3 + 1 is the limit.
  EXPECT(trace->dropped_calls == 1 && trace->dropped_tasks == 3);
  EXPECT(trace->calls.size() == 4 && trace->calls[0].slices.size() == 2);
  EXPECT(Recorder::Start(2).ok());
  for (int count : {1, 100}) Call(Tasks(count));
  trace = Recorder::Stop();
  EXPECT(trace->dropped_calls == 1 && trace->dropped_tasks == 1);
  EXPECT(trace->calls.size() == 1 && trace->calls[0].slices.size() == 100);
}

TEST(JsonLeavesOutTasksThatDidNotRun) {
  EXPECT(Recorder::Start(10).ok());
  {
    const auto schedule = std::make_shared<ScheduleInfo>();
    schedule->region = "net\xff";
    schedule->tasks.resize(2);
    schedule->tasks[1].name = "a \"b\"";
    schedule->tasks[1].stage = 4;
    CallTrace trace(TraceObservers(), schedule);
    const CallTrace::Task task(&trace, 1, 0);
  }
  const StatusOr<Trace> trace = Recorder::Stop();
  const std::string json = ToJson(*trace);
  const auto contains = [&json](const std::string& text) {
    return json.find(text) != std::string::npos;
  };
  // A name that is not UTF-8 gets U+FFFD.
  EXPECT(contains("\"region\":\"net\xef\xbf\xbd\""));
  EXPECT(contains("\"name\":\"a \\\"b\\\"\""));
  EXPECT(contains("\"slices\":[[1,0," + std::to_string(gettid()) + ","));
  EXPECT(!contains("[0,0,"));
}

std::unique_ptr<Program> BranchesProgram() {
  const std::vector<float> values = Values(3 * 3 * 16 * 4);
  const Weights weights = {{{values.data(), {1, 1, 16, 2}}},
                           {{values.data(), {3, 3, 16, 3}}},
                           {{values.data(), {3, 3, 2, 4}}},
                           {}};
  const Schedule schedule = {
      {{Strategy::kConcurrent, {{0}, {1}}}, {Strategy::kConcurrent, {{2, 3}}}}};
  auto program =
      Program::Create(Branches(), {{Load{1}, schedule}}, weights, "cpu");
  EXPECT(program.ok());
  return program.ok() ? std::move(*program) : nullptr;
}

void Run(Program* program) {
  const std::vector<float> image = Values(8 * 8 * 16);
  std::vector<float> result(8 * 8 * 7);
  EXPECT(program->Run({{image.data(), {1, 8, 8, 16}}}, {result.data()}, nullptr)
             .ok());
}

// Checks that the slices of each lane do not overlap.
void ExpectNoOverlap(const Trace& trace) {
  std::map<std::pair<int, int>, std::map<int64_t, int64_t>> lanes;
  for (const TraceCall& call : trace.calls) {
    for (const TraceSlice& slice : call.slices) {
      EXPECT(call.begin <= slice.begin && slice.end <= call.end);
      EXPECT(slice.begin <= slice.end);
      lanes[{call.caller, slice.lane}][slice.begin] = slice.end;
    }
  }
  for (const auto& [lane, slices] : lanes) {
    int64_t last = 0;
    for (const auto& [begin, end] : slices) {
      EXPECT(begin >= last);
      last = end;
    }
  }
}

TEST(AProgramNamesItsOperatorsAndStages) {
  const std::unique_ptr<Program> program = BranchesProgram();
  EXPECT(Recorder::Start(100).ok());
  for (int i = 0; i < 3; ++i) Run(program.get());
  const StatusOr<Trace> trace = Recorder::Stop();
  EXPECT(trace->calls.size() == 3);
  ExpectNoOverlap(*trace);
  for (const TraceCall& call : trace->calls) {
    std::map<std::string, std::pair<int, int>> stages;
    for (const TaskInfo& task : call.schedule->tasks) {
      // The two 3x3 convolutions have the same name.
      const std::string name =
          task.name + (task.shape.back() == 4 ? " of conv1" : "");
      stages[name] = {task.stage, task.group};
    }
    // Operators without work are left out: both inputs lie inside the concat.
    stages.erase("concat");
    const std::map<std::string, std::pair<int, int>> expected = {
        {"conv1", {0, 0}}, {"conv3", {0, 1}}, {"conv3 of conv1", {1, 0}}};
    EXPECT(stages == expected);
    EXPECT(call.schedule->tasks.size() == call.slices.size());
  }
  for (const TaskInfo& task : trace->calls[0].schedule->tasks) {
    if (task.name != "conv1") continue;
    // 8 x 8 pixels of 16 and 2 channels, and 16 x 2 weights.
    EXPECT(task.bytes == 4 * (64 * 16 + 64 * 2 + 16 * 2));
    EXPECT(task.shape == Shape({1, 8, 8, 2}));
  }
}

TEST(ManyThreadsCallWhileTracesStartAndStop) {
  const std::unique_ptr<Program> programs[] = {BranchesProgram(),
                                               BranchesProgram()};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) Run(programs[t % 2].get());
    });
  }
  int64_t calls = 0;
  for (int i = 0; i < 30; ++i) {
    EXPECT(Recorder::Start(60).ok());
    for (int k = 0; k < 10; ++k) Run(programs[0].get());
    const StatusOr<Trace> trace = Recorder::Stop();
    EXPECT(trace.ok() && !trace->calls.empty());
    EXPECT(trace->calls.size() + trace->dropped_calls >= 10);
    ExpectNoOverlap(*trace);
    calls += trace->calls.size();
    EXPECT(!ToJson(*trace).empty());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT(calls >= 300);
}

// A child of fork() has no trace of its parent, and can record its own.
TEST(AForkedChildStartsWithoutATrace) {
  EXPECT(Recorder::Start(10).ok());
  const pid_t child = fork();
  if (child == 0) {
    const int before = testing::Failures();
    EXPECT(!TraceObservers().any());
    EXPECT_ERROR(Recorder::Stop().status(), "no trace is being recorded");
    EXPECT(Recorder::Start(10).ok());
    Call(Tasks(1));
    const StatusOr<Trace> trace = Recorder::Stop();
    EXPECT(trace.ok() && trace->calls.size() == 1);
    EXPECT(trace.ok() && trace->calls[0].thread == getpid());
    _exit(testing::Failures() - before);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  Call(Tasks(1));
  const StatusOr<Trace> trace = Recorder::Stop();
  EXPECT(trace.ok() && trace->calls.size() == 1);
}

std::vector<std::string> profiled;  // by the hook below
bool profiler_is_active = false;

TEST(AProfilerGetsTheTasksWhileItIsActive) {
  static const ProfilerHook hook = {
      [] { return profiler_is_active; }, [] { return int64_t{7}; },
      [](const ScheduleInfo& schedule, const TaskInfo& task, int lane,
         int64_t begin, int64_t end) {
        EXPECT(schedule.tasks.size() == 1 && lane == 3);
        EXPECT(begin == 7 && end == 7);
        profiled.push_back(task.name);
      }};
  SetProfilerHook(&hook);
  const auto schedule = std::make_shared<ScheduleInfo>();
  schedule->tasks.resize(1);
  schedule->tasks[0].name = "conv";
  Call(schedule);
  EXPECT(profiled.empty());
  profiler_is_active = true;
  Call(schedule);
  EXPECT(profiled == std::vector<std::string>{"conv"});
  EXPECT(Recorder::Start(10).ok());
  Call(schedule);
  EXPECT(profiled.size() == 2 && Recorder::Stop()->calls.size() == 1);
  SetProfilerHook(nullptr);
  Call(schedule);
  EXPECT(profiled.size() == 2);
}

}  // namespace
}  // namespace ios
