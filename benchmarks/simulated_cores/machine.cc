#include "benchmarks/simulated_cores/machine.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace ios::simulated {
namespace {

constexpr int kStackBytes = 128 << 10;
constexpr int kLineBytes = 64;
// The number of lines whose last reads a thread remembers, for WaitForChange().
// Loops that wait read fewer lines.
constexpr size_t kMostRead = 8;

}  // namespace

class Thread {
 public:
  explicit Thread(std::function<void()> body)
      : body_(std::move(body)), stack_(kStackBytes) {
    getcontext(&begin_);
    begin_.uc_stack.ss_sp = stack_.data();
    begin_.uc_stack.ss_size = stack_.size();
    begin_.uc_link = nullptr;
    makecontext(&begin_, &Thread::Body, 0);
  }

  // Continues `to`. The calling thread, `from`, continues when another thread
  // switches to it. setjmp is faster than swapcontext, which calls the system.
  static void Switch(Thread* from, Thread* to) {
    if (_setjmp(from->place_) != 0) return;
    to->Continue();
  }
  void Continue() {
    started_by_ = this;
    if (std::exchange(started_, true)) _longjmp(place_, 1);
    setcontext(&begin_);
  }

  int core = -1;
  int last_core = -1;
  int64_t time = 0;
  uint64_t generation = 0;  // of the thread's valid event
  std::shared_ptr<void> local;
  std::vector<std::pair<uintptr_t, uint64_t>> read;  // lines and versions

 private:
  static void Body() {
    started_by_->body_();
    std::fprintf(stderr, "a thread of the simulation has ended\n");
    std::abort();
  }

  static inline Thread* started_by_ = nullptr;
  const std::function<void()> body_;
  std::vector<char> stack_;
  bool started_ = false;
  ucontext_t begin_;
  jmp_buf place_;
};

namespace {

jmp_buf run_context;  // the context of Run(), to which Stop() returns

}  // namespace

Machine* Machine::machine_ = nullptr;

Machine::Machine(int cores, int nodes, const Costs& costs)
    : costs_(costs),
      nodes_(std::min(nodes, cores)),
      cores_per_node_(std::max(1, cores / nodes)),
      cores_(cores) {
  machine_ = this;
}

Machine::~Machine() { machine_ = nullptr; }

void Machine::Start(std::function<void()> body) {
  if (current_) Work(costs_.start);
  threads_.push_back(std::make_unique<Thread>(std::move(body)));
  MakeReady(threads_.back().get(), current_ ? current_->time : 0,
            current_ ? costs_.wake_up : 0);
}

void Machine::Run() {
  if (_setjmp(run_context) == 0) RunNext();
  current_ = nullptr;
}

void Machine::Stop() { _longjmp(run_context, 1); }

int64_t Machine::now() const { return current_ ? current_->time : 0; }

int64_t Machine::ReadClock() {
  if (!current_) return 0;
  return current_->time += costs_.clock;
}

int Machine::core() const { return current_ ? current_->core : -1; }

std::shared_ptr<void>& Machine::local() { return current_->local; }

Machine::Line& Machine::LineOf(const void* word) {
  return lines_[reinterpret_cast<uintptr_t>(word) / kLineBytes];
}

void Machine::Schedule(Thread* thread, int64_t time) {
  events_.push({time, ++event_count_, thread, ++thread->generation});
}

void Machine::Synchronize() {
  while (!events_.empty() && events_.top().time < current_->time) {
    if (events_.top().generation != events_.top().thread->generation) {
      events_.pop();
      continue;
    }
    Schedule(current_, current_->time);
    RunNext();
  }
  ShareCore();
}

void Machine::RunNext() {
  while (!events_.empty() &&
         events_.top().generation != events_.top().thread->generation) {
    events_.pop();
  }
  if (events_.empty()) {
    std::fprintf(stderr, "all threads of the simulation wait\n");
    std::abort();
  }
  Thread* const next = events_.top().thread;
  next->time = events_.top().time;
  ++next->generation;
  events_.pop();
  Thread* const before = std::exchange(current_, next);
  if (before == next) return;
  if (before) {
    Thread::Switch(before, next);
  } else {
    next->Continue();
  }
}

void Machine::GiveCore(Thread* thread, int core, int64_t time) {
  cores_[core] = {thread, time + costs_.slice};
  thread->core = thread->last_core = core;
  Schedule(thread, time);
}

void Machine::MakeReady(Thread* thread, int64_t time, int64_t delay) {
  // Linux prefers the last core of a thread, then idle cores near it.
  const int last = thread->last_core;
  int chosen = -1;
  for (int core = 0; core < cores(); ++core) {
    if (cores_[core].thread) continue;
    if (core == last) {
      chosen = core;
      break;
    }
    const bool closer = chosen >= 0 && last >= 0 && !SameNode(chosen, last) &&
                        SameNode(core, last);
    if (chosen < 0 || closer) chosen = core;
  }
  thread->time = time + delay;
  if (chosen >= 0) return GiveCore(thread, chosen, time + delay);
  ready_.push_back(thread);
}

void Machine::LeaveCore() {
  Core& core = cores_[current_->core];
  core.thread = nullptr;
  if (!ready_.empty()) {
    Thread* const next = ready_.front();
    ready_.pop_front();
    GiveCore(next, current_->core,
             std::max(next->time, current_->time) + costs_.change);
  }
  current_->core = -1;
}

void Machine::ShareCore() {
  Core& core = cores_[current_->core];
  if (current_->time < core.slice_end || ready_.empty()) return;
  YieldCore();
}

void Machine::YieldCore() {
  if (ready_.empty()) {
    current_->time += costs_.wake_nobody;
    return;
  }
  ready_.push_back(current_);
  LeaveCore();
  RunNext();
}

void Machine::Work(int64_t ns) {
  while (true) {
    const int64_t rest = cores_[current_->core].slice_end - current_->time;
    const int64_t step = std::min(ns, std::max<int64_t>(rest, 1));
    current_->time += step;
    ns -= step;
    if (ns == 0) return;
    Synchronize();
    if (current_->time >= cores_[current_->core].slice_end) {
      cores_[current_->core].slice_end = current_->time + costs_.slice;
    }
  }
}

void Machine::MoveTo(const cpu_set_t& cores) {
  Synchronize();
  if (CPU_ISSET(current_->core, &cores)) return;
  for (int core = 0; core < this->cores(); ++core) {
    if (!CPU_ISSET(core, &cores) || cores_[core].thread) continue;
    Thread* const self = current_;
    LeaveCore();
    GiveCore(self, core, self->time + costs_.change);
    RunNext();
    return;
  }
}

bool Machine::HasTransferFrom(const Line& line, int core, bool writes) const {
  if (writes && line.owner == core) return false;
  return writes || !line.holders[core];
}

void Machine::Access(const void* word, bool writes, const char* file,
                     int place) {
  if (!current_) return;
  Synchronize();
  Line& line = LineOf(word);
  const int core = current_->core;
  const int64_t begin = current_->time;
  if (!HasTransferFrom(line, core, writes)) {
    current_->time += writes ? costs_.update : costs_.load;
  } else {
    // The nearest holder sends the line. A writer must also wait until all
    // other holders have dropped their copies.
    bool any = false, near = false, far = false;
    for (int other = 0; other < cores(); ++other) {
      if (!line.holders[other] || other == core) continue;
      any = true;
      (SameNode(core, other) ? near : far) = true;
    }
    const bool is_far = far && (writes || !near);
    int64_t time = costs_.update;
    if (any) time = is_far ? costs_.far_transfer : costs_.transfer;
    const int64_t start = std::max(begin, line.free_at);
    current_->time = start + time;
    line.free_at = writes ? current_->time : start + costs_.copy;
    waits_[{file, place}] += current_->time - begin;
  }
  if (writes) {
    line.holders.reset();
    line.owner = core;
    ++line.version;
    for (const auto& [watcher, generation] : line.watchers) {
      if (watcher->generation == generation) {
        Schedule(watcher, std::max(watcher->time, current_->time));
      }
    }
    line.watchers.clear();
  } else if (line.owner != core) {
    line.owner = -1;
  }
  line.holders[core] = true;
  if (writes) return;
  auto& read = current_->read;
  const uintptr_t key = reinterpret_cast<uintptr_t>(word) / kLineBytes;
  const auto known = std::find_if(
      read.begin(), read.end(), [&](const auto& r) { return r.first == key; });
  if (known != read.end()) {
    known->second = line.version;
    return;
  }
  if (read.size() == kMostRead) read.erase(read.begin());
  read.emplace_back(key, line.version);
}

void Machine::WaitForChange() {
  Synchronize();
  const bool changed = std::any_of(
      current_->read.begin(), current_->read.end(),
      [&](const auto& r) { return lines_[r.first].version != r.second; });
  if (changed) {
    current_->time += costs_.clock;  // of a pause
  } else {
    Schedule(current_, current_->time + costs_.look);
    for (const auto& [key, version] : current_->read) {
      auto& watchers = lines_[key].watchers;
      const auto own =
          std::find_if(watchers.begin(), watchers.end(),
                       [&](const auto& w) { return w.first == current_; });
      if (own != watchers.end()) watchers.erase(own);
      watchers.emplace_back(current_, current_->generation);
    }
    RunNext();
  }
  current_->read.clear();
}

void Machine::SleepWhile(const void* word,
                         const std::function<bool()>& is_unchanged) {
  current_->time += costs_.sleep;
  Synchronize();
  if (!is_unchanged()) return;
  current_->read.clear();
  sleepers_[word].push_back(current_);
  LeaveCore();
  RunNext();
}

void Machine::Wake(const void* word, int most) {
  current_->time += costs_.wake_nobody;
  Synchronize();
  for (; most > 0; --most) {
    auto& sleepers = sleepers_[word];
    if (sleepers.empty()) return;
    Thread* const woken = sleepers.front();
    sleepers.pop_front();
    MakeReady(woken, current_->time, costs_.wake_up);
    current_->time += costs_.wake;
    Synchronize();
  }
}

std::vector<std::pair<std::string, int64_t>> Machine::Waits() const {
  std::vector<std::pair<std::string, int64_t>> waits;
  for (const auto& [place, ns] : waits_) {
    const std::string file = place.first;
    const std::string name = file.substr(file.rfind('/') + 1);
    waits.emplace_back(name + ":" + std::to_string(place.second), ns);
  }
  std::sort(waits.begin(), waits.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  return waits;
}

}  // namespace ios::simulated
