#include "cc/engine/cpu/threads/lanes.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <memory>
#include <system_error>
#include <thread>

namespace ios::cpu {
namespace {

// Nanoseconds between two counts of the cores that the process may use.
constexpr int64_t kCountEvery = 100'000'000;

std::atomic<LanePool*> the_pool{nullptr};
std::atomic<int> cores_of_parent{0};

}  // namespace

ThreadState& CurrentThread() {
  thread_local ThreadState state;
  return state;
}

// A worker thread, and the team that it was last called to help.
struct alignas(64) LanePool::Worker {
  std::atomic<Team*> team{nullptr};
  Signal calls;
  Team own;
  int number = 0;  // of the thread
};

LanePool& LanePool::Get() {
  // A child of fork() has none of the pool's threads, and perhaps a locked
  // mutex, so it makes a new pool. It still has tasks compiled for its parent's
  // cores, so the new pool has at least that number of cores.
  static const int wanted = [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (const LanePool* pool = the_pool.exchange(nullptr)) {
        cores_of_parent.store(pool->cores());
      }
    });
    return WantedThreads();
  }();
  LanePool* pool = the_pool.load();
  if (pool) return *pool;
  LanePool* fresh;
  if (wanted > 0) {
    fresh = new LanePool(wanted);
  } else {
    const int cores = std::max(UsableCores(), cores_of_parent.load());
    fresh = new LanePool(cores, std::max(cores, MachineCores()), UsableCores);
  }
  if (the_pool.compare_exchange_strong(pool, fresh)) return *fresh;
  delete fresh;
  return *pool;
}

void LanePool::StartWorkers(int cores) {
  for (int i = workers_.size() + 1; i < cores; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->number = i;
    workers_.reserve(most_);
    // Throws if the system has no more threads. The next session tries again.
    std::thread([this, w = worker.get()] { WorkerLoop(w); }).detach();
    workers_.push_back(worker.release());
  }
}

void LanePool::CountCores() {
  const int usable = usable_();
  const int cores = std::min(usable, most_);
  if (cores > this->cores()) {
    try {
      StartWorkers(cores);
      cores_.store(cores, std::memory_order_relaxed);
    } catch (const std::system_error&) {
      // The system has no more threads now. The pool continues with those that
      // it has.
    }
  }
  active_.store(std::min(this->cores(), usable), std::memory_order_relaxed);
}

void LanePool::CountCoresIfDue() {
  const int64_t now = Now();
  if (counted_at_ != 0 && now - counted_at_ < kCountEvery) return;
  counted_at_ = now;
  CountCores();
}

void LanePool::WorkerLoop(Worker* worker) {
  CurrentThread().own = &worker->own;
  const DenormalsAreZero denormals;
  // Use the affinity of the process: the thread that started this worker may be
  // pinned.
  cpu_set_t allowed;
  if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) == 0) {
    sched_setaffinity(0, sizeof(allowed), &allowed);
  }
  uint32_t seen = 0;
  while (true) {
    const bool slept =
        worker->calls.Wait([&] { return worker->calls.value() != seen; },
                           [this] { return in_session_.load(); });
    if (slept) ClaimCore(worker->number);
    seen = worker->calls.value();
    if (Team* team = worker->team.load()) team->Help();
  }
}

// The system tends to wake a thread on the core of the thread that wakes it. It
// takes milliseconds to move one of the two threads to another core.
void LanePool::ClaimCore(int thread) {
  if (Crowded()) return;
  const uint64_t session = sessions_.load();
  const uint64_t mine = session << 32 | static_cast<uint64_t>(thread);
  const auto take = [&](int core) {
    uint64_t taken = taken_[core].load();
    return taken == mine || (taken >> 32 != session &&
                             taken_[core].compare_exchange_strong(taken, mine));
  };
  const int here = sched_getcpu();
  cpu_set_t allowed;
  if (here < 0 || here >= CPU_SETSIZE || take(here) ||
      sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || !take(core)) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    sched_setaffinity(0, sizeof(only),
                      &only);  // moves the thread; the next call unpins it
    sched_setaffinity(0, sizeof(allowed), &allowed);
    return;
  }
}

void LanePool::Call(int thread, Team* team) {
  Worker* worker = workers_[thread - 1];
  worker->team.store(team);
  worker->calls.Advance();
}

LanePool::Session::Session(LanePool* pool)
    : pool_(pool), lock_(pool->session_mutex_), saved_(CurrentThread()) {
  pool->StartWorkers(pool->cores());
  pool->CountCoresIfDue();
  lane_ = {pool, 0, pool->cores(), false};
  CurrentThread() = ThreadState{};
  CurrentThread().lane = &lane_;
  CurrentThread().own = &pool->leaders_team_;
  pool->in_session_.store(true);
  const uint64_t session = pool->sessions_.fetch_add(1) + 1;
  if (Crowded()) return;
  const int here = sched_getcpu();
  if (here >= 0 && here < CPU_SETSIZE) pool->taken_[here].store(session << 32);
  // Wake the workers while the first operator is being started.
  for (int i = 1; i < pool->active_.load(std::memory_order_relaxed); ++i) {
    if (pool->workers_[i - 1]->calls.anyone_sleeps()) pool->Call(i, nullptr);
  }
}

LanePool::Session::~Session() {
  pool_->in_session_.store(false);
  CurrentThread() = saved_;
}

void LanePool::RunLanesImpl(int lanes, int threads,
                            void (*function)(void*, int), void* argument) {
  struct Closure {
    LanePool* pool;
    int threads;
    void (*function)(void*, int);
    void* argument;
    ExceptionCollector thrown;
  } closure{this, threads, function, argument, {}};
  const Job job = {
      [](void* p) {
        auto* const c = static_cast<Closure*>(p);
        ThreadState& thread = CurrentThread();
        const ThreadState saved = thread;
        Lane lane{c->pool, saved.index * c->threads, c->threads};
        thread = ThreadState{};
        thread.lane = &lane;
        thread.own = saved.own;
        c->thrown.Catch([&] { c->function(c->argument, saved.index); });
        thread = saved;
      },
      &closure};
  ThreadState& thread = CurrentThread();
  thread.index = 0;
  stage_team_.Open(job, lanes);
  const int active = active_.load(std::memory_order_relaxed);
  for (int i = 1; i < lanes && i * threads < active; ++i) {
    Call(i * threads, &stage_team_);
  }
  job.function(job.argument);
  stage_team_.Close();
  closure.thrown.Rethrow();
}

void LanePool::StartParallel(Job job, int count) {
  ThreadState& thread = CurrentThread();
  Lane* lane = thread.lane;
  if (count <= 0 || (lane && count > lane->size)) count = lane ? lane->size : 1;
  if (thread.at_once > 0) count = std::min(count, thread.at_once);
  if (!lane || lane->planning || thread.team || count == 1) {
    ++thread.nested;  // runs on this thread alone
    return;
  }
  Team* const team = thread.own;
  const int active = lane->pool->active_.load(std::memory_order_relaxed);
  team->lane = *lane;
  team->called = std::min(count, std::max(1, active - lane->first));
  team->Open(job, count);
  for (int i = 1; i < team->called; ++i) {
    lane->pool->Call(lane->first + i, team);
  }
  thread.team = team;
  thread.index = 0;
}

void LanePool::EndParallel() {
  ThreadState& thread = CurrentThread();
  if (thread.nested > 0) {
    --thread.nested;
    return;
  }
  Team* const team = thread.team;
  thread.team = nullptr;
  team->Close();
}

void LanePool::Barrier(Team* team) {
  // Each piece needs its own thread, so call the threads that were not called
  // yet. There are such threads if the process may use fewer cores than its
  // lanes were made for.
  for (int i = team->called; i < team->pieces(); ++i) {
    team->lane.pool->Call(team->lane.first + i, team);
  }
  team->Barrier();
}

int LanePool::ReadyThreads(const Lane& lane) const {
  int ready = 1;
  if (lane.planning || Crowded()) return ready;
  const int active = active_.load(std::memory_order_relaxed);
  for (int i = lane.first + 1; i < lane.first + lane.size && i < active; ++i) {
    if (!workers_[i - 1]->calls.anyone_sleeps()) ++ready;
  }
  return ready;
}

ScopedReadyThreads::ScopedReadyThreads() {
  ThreadState& thread = CurrentThread();
  if (thread.lane && !thread.team && !thread.lane->planning) {
    thread.at_once = thread.lane->pool->ReadyThreads(*thread.lane);
  }
}

}  // namespace ios::cpu
