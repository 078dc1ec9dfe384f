// Measures the pieces of a network's sections, one after another on one thread.
//
// This library is preloaded into a process that runs a program on the engine
// (benchmarks/simulated_cores/sections.py). Its definitions of the functions
// below take precedence over the engine's. The engine then compiles for
// RECORD_THREADS threads, but its pool has only the calling thread, which runs
// all pieces.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cc/engine/cpu/threads/cores.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace {

using Clock = std::chrono::steady_clock;

// Times are in nanoseconds.
struct Section {
  int64_t before = 0;  // time since the end of the previous section
  std::vector<int64_t> pieces;
};

struct Recorder {
  bool active = false;
  bool open = false;  // a section that is recorded
  ios::cpu::Job job;  // of the open section
  Clock::time_point started, ended;
  std::vector<std::vector<Section>> runs;
};

Recorder recorder;

int64_t Between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin)
      .count();
}

// The time that Between() returns for two readings of the clock in a row.
int64_t TimeOfClock() {
  std::vector<int64_t> times(1001);
  for (int64_t& time : times) {
    const Clock::time_point begin = Clock::now();
    time = Between(begin, Clock::now());
  }
  std::nth_element(times.begin(), times.begin() + 500, times.end());
  return times[500];
}

int64_t Since(Clock::time_point begin) {
  static const int64_t clock = TimeOfClock();
  return std::max<int64_t>(0, Between(begin, Clock::now()) - clock);
}

template <typename Function>
Function* Next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (!found) {
    std::fprintf(stderr, "the engine does not export %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

void RunTimed(void*) {
  const int index = ios::cpu::CurrentThread().index;
  const Clock::time_point begin = Clock::now();
  recorder.job.function(recorder.job.argument);
  recorder.runs.back().back().pieces[index] = Since(begin);
}

}  // namespace

namespace ios::cpu {

int WantedThreads() {
  const char* const text = std::getenv("RECORD_THREADS");
  return text ? std::atoi(text) : 0;
}

int UsableCores() { return 1; }

void LanePool::StartParallel(Job job, int count) {
  static auto* const next =
      Next<void(Job, int)>("_ZN3ios3cpu8LanePool13StartParallelENS0_3JobEi");
  const ThreadState& thread = CurrentThread();
  const bool records =
      recorder.active && thread.lane && !thread.lane->planning && !thread.team;
  if (!records) return next(job, count);
  recorder.job = job;
  const int64_t before = Since(recorder.ended);
  if (count <= 0 || count > thread.lane->size) count = thread.lane->size;
  recorder.runs.back().push_back({before, std::vector<int64_t>(count)});
  recorder.open = true;
  next({RunTimed, nullptr}, count);
  recorder.started = Clock::now();
}

void LanePool::EndParallel() {
  static auto* const next = Next<void()>("_ZN3ios3cpu8LanePool11EndParallelEv");
  const ThreadState& thread = CurrentThread();
  // A section of one piece has no team.
  const bool ends = recorder.open && thread.nested <= (thread.team ? 0 : 1);
  if (ends) {
    recorder.runs.back().back().pieces[0] = Since(recorder.started);
  }
  next();
  if (!ends) return;
  recorder.open = false;
  recorder.ended = Clock::now();
}

}  // namespace ios::cpu

extern "C" {

// Begins the recording of a run.
void record_run() {
  recorder.runs.emplace_back();
  recorder.active = true;
  recorder.ended = Clock::now();
}

// Ends the recording of the run. Its last section is the time after the last
// loop. Returns the number of sections.
int end_run() {
  recorder.active = false;
  recorder.runs.back().push_back({0, {Since(recorder.ended)}});
  return static_cast<int>(recorder.runs.back().size());
}

// Returns the number of pieces of a section. `before` gets the time between the
// previous section and this one, and `pieces` gets the time of each piece; it
// has room for RECORD_THREADS values.
int section_of_run(int run, int section, int64_t* before, int64_t* pieces) {
  const Section& found = recorder.runs[run][section];
  *before = found.before;
  for (int64_t ns : found.pieces) *pieces++ = ns;
  return static_cast<int>(found.pieces.size());
}
}
