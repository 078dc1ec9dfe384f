#include "cc/engine/cpu/lanes.h"

#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <thread>

namespace ios::cpu {
namespace {

// How a thread waits, in turns of some 50 ns: it spins, for jobs of one run follow
// each other within microseconds; then it lets others have the core; a worker at
// last sleeps.
constexpr int kSpins = 1000;
constexpr int kYields = 2000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// One turn, the i-th, of waiting.
void Wait(int i) {
  if (i < kSpins) {
    Pause();
  } else {
    std::this_thread::yield();
  }
}

template <typename Condition>
void WaitUntil(Condition condition) {
  for (int i = 0; !condition(); ++i) Wait(i);
}

int CountCores() {
  if (const char* text = std::getenv("IOS_TF_NUM_THREADS")) {
    const int wanted = std::atoi(text);
    if (wanted > 0) return wanted;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

ThreadState& CurrentThread() {
  thread_local ThreadState state;
  return state;
}

// One thread and the box its next job is put in.
struct alignas(64) LanePool::Worker {
  std::atomic<uint32_t> posted{0};
  Job job;
  Lane* lane = nullptr;
  Team* team = nullptr;
  int index = 0;

  std::atomic<bool> asleep{false};
  std::mutex mutex;
  std::condition_variable wake;
};

LanePool& LanePool::Get() {
  static LanePool* pool = new LanePool;
  return *pool;
}

LanePool::LanePool() : cores_(CountCores()) { StartWorkers(); }

void LanePool::StartWorkers() {
  process_ = getpid();
  workers_.clear();  // after a fork, the parent's threads do not exist here
  for (int i = 1; i < cores_; ++i) {
    Worker* worker = new Worker;
    workers_.push_back(worker);
    std::thread([this, worker] { WorkerLoop(worker); }).detach();
  }
}

void LanePool::WorkerLoop(Worker* worker) {
  uint32_t seen = 0;
  const auto has_job = [&] {
    return worker->posted.load(std::memory_order_acquire) != seen;
  };
  while (true) {
    const uint32_t session = sessions_.load();
    for (int i = 0; i < kSpins + kYields && !has_job() &&
                    in_session_.load(std::memory_order_relaxed);
         ++i) {
      Wait(i);
    }
    if (!has_job()) {
      std::unique_lock<std::mutex> lock(worker->mutex);
      worker->asleep.store(true);
      worker->wake.wait(lock, [&] {
        return worker->posted.load() != seen || sessions_.load() != session;
      });
      worker->asleep.store(false);
      lock.unlock();
      TakeCore();
      if (worker->posted.load() == seen) continue;
    }
    ++seen;
    Team* team = worker->team;
    ThreadState& thread = CurrentThread();
    thread = ThreadState{};
    thread.lane = worker->lane;
    thread.team = worker->lane ? nullptr : team;
    thread.index = worker->lane ? 0 : worker->index;
    const Job job = worker->job;
    job.function(job.argument);
    thread = ThreadState{};
    team->pending.fetch_sub(1, std::memory_order_release);
  }
}

// The system likes to wake a thread on the core of the one that wakes it, and takes
// milliseconds to part them.
void LanePool::TakeCore() {
  const uint32_t session = sessions_.load();
  const int here = sched_getcpu();
  cpu_set_t allowed;
  if (here < 0 || here >= CPU_SETSIZE ||
      taken_[here].exchange(session) != session ||
      sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) ||
        taken_[core].exchange(session) == session) {
      continue;
    }
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    sched_setaffinity(0, sizeof(only), &only);  // moves now; then free as before
    sched_setaffinity(0, sizeof(allowed), &allowed);
    return;
  }
}

void LanePool::Post(int thread, Job job, Lane* lane, Team* team, int index) {
  Worker* worker = workers_[thread - 1];
  worker->job = job;
  worker->lane = lane;
  worker->team = team;
  worker->index = index;
  worker->posted.fetch_add(1);
  WakeIfAsleep(worker);
}

// What the worker waits for was stored before, sequentially consistent with
// `asleep`: either we see it asleep or it sees what was stored.
void LanePool::WakeIfAsleep(Worker* worker) {
  if (worker->asleep.load()) {
    std::lock_guard<std::mutex> lock(worker->mutex);
    worker->wake.notify_one();
  }
}

LanePool::Session::Session() : lock_(LanePool::Get().session_mutex_) {
  LanePool& pool = LanePool::Get();
  if (pool.process_ != getpid()) pool.StartWorkers();
  lane_.first = 0;
  lane_.size = pool.cores_;
  saved_ = CurrentThread();
  CurrentThread() = ThreadState{};
  CurrentThread().lane = &lane_;
  pool.in_session_.store(true);
  const int here = sched_getcpu();
  if (here >= 0 && here < CPU_SETSIZE) {
    pool.taken_[here].store(pool.sessions_.load() + 1);
  }
  // Workers wake up while the first operator is being started.
  pool.sessions_.fetch_add(1);
  for (Worker* worker : pool.workers_) pool.WakeIfAsleep(worker);
}

LanePool::Session::~Session() {
  LanePool::Get().in_session_.store(false);
  CurrentThread() = saved_;
}

void LanePool::RunLanesImpl(int lanes, int threads,
                            void (*function)(void*, int), void* argument) {
  struct Context {
    void (*function)(void*, int);
    void* argument;
    Lane lane;
    int index;
  };
  // At most one context per core, on this thread's stack while others use them.
  std::unique_ptr<Context[]> contexts(new Context[lanes]);
  Team team;
  team.size = lanes;
  team.pending.store(lanes - 1, std::memory_order_relaxed);
  const auto run = [](void* p) {
    const auto* c = static_cast<Context*>(p);
    c->function(c->argument, c->index);
  };
  for (int i = 0; i < lanes; ++i) {
    Context& c = contexts[i];
    c.function = function;
    c.argument = argument;
    c.lane.first = i * threads;
    c.lane.size = threads;
    c.index = i;
    if (i > 0) Post(c.lane.first, {run, &c}, &c.lane, &team, 0);
  }
  const ThreadState saved = CurrentThread();
  CurrentThread() = ThreadState{};
  CurrentThread().lane = &contexts[0].lane;
  run(&contexts[0]);
  CurrentThread() = saved;
  WaitUntil(
      [&] { return team.pending.load(std::memory_order_acquire) == 0; });
}

void LanePool::StartParallel(Job job, int count) {
  ThreadState& thread = CurrentThread();
  Lane* lane = thread.lane;
  if (count <= 0 || (lane && count > lane->size)) count = lane ? lane->size : 1;
  if (!lane || lane->planning || thread.team || count == 1) {
    ++thread.nested;  // runs on this thread alone
    return;
  }
  Team& team = lane->team;
  team.size = count;
  team.arrived.store(0, std::memory_order_relaxed);
  team.pending.store(count - 1, std::memory_order_relaxed);
  for (int i = 1; i < count; ++i) {
    Post(lane->first + i, job, nullptr, &team, i);
  }
  thread.team = &team;
  thread.index = 0;
}

void LanePool::EndParallel() {
  ThreadState& thread = CurrentThread();
  if (thread.nested > 0) {
    --thread.nested;
    return;
  }
  Team* team = thread.team;
  WaitUntil(
      [&] { return team->pending.load(std::memory_order_acquire) == 0; });
  thread.team = nullptr;
}

}  // namespace ios::cpu
