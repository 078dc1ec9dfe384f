#include "cc/engine/cpu/threads/lanes.h"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <system_error>

namespace ios::cpu {
namespace {

// Nanoseconds between two counts of the cores that the process may use.
constexpr int64_t kCountEvery = 100'000'000;
// The length in nanoseconds of a period; see LanePool::period_.
constexpr int64_t kPeriod = 1'000'000;

Atomic<LanePool*> the_pool{nullptr};
Atomic<int> cores_of_parent{0};

// Moves the calling thread to one of the cores `allowed`, the cores that it may
// use.
void MoveThread(int core, const cpu_set_t& allowed) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  SetCoresOfThread(only);  // moves the thread; the next call unpins it
  SetCoresOfThread(allowed);
}

// Moves the calling thread to the core of a caller that has ended its session.
// The system may have woken the thread on the core of another caller, and would
// leave it there for milliseconds while the free core is idle. Does nothing for
// the main thread, because other threads read its cores at any time.
void MoveToFreeCore(int core) {
  cpu_set_t allowed;
  if (core < 0 || core >= CPU_SETSIZE || core == CurrentCore() || Crowded() ||
      IsMainThread() || !CoresOfThread(&allowed) ||
      !CPU_ISSET(core, &allowed)) {
    return;
  }
  MoveThread(core, allowed);
}

}  // namespace

ThreadState& CurrentThread() { return ThreadLocal<ThreadState>(); }

// A worker thread, its crew, and the team that it was last woken to help.
struct alignas(kCacheLine) LanePool::Worker {
  Atomic<Crew*> crew{nullptr};
  Atomic<Team*> team{nullptr};
  Atomic<bool> helps{false};  // for spare threads: is helping a team
  Signal calls;
  Team own;
  Atomic<int> node{0};  // NUMA node on which the thread was seen last
  int number = 0;       // of the thread

  void Call(Team* to_help) {
    team.store(to_help);
    calls.Advance();
  }
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
    const int cores = std::max(AllowedCores(), cores_of_parent.load());
    fresh = new LanePool(cores, std::max(cores, MachineCores()), AllowedCores);
  }
  if (the_pool.compare_exchange_strong(pool, fresh)) return *fresh;
  delete fresh;
  return *pool;
}

LanePool::Worker* LanePool::StartWorker(int number) {
  auto worker = std::make_unique<Worker>();
  worker->number = number;
  StartThread([this, w = worker.get()] { WorkerLoop(w); });
  return worker.release();
}

void LanePool::StartWorkers(int cores) {
  for (int i = workers_.size() + 1; i < cores; ++i) {
    // Throws if the system cannot start a thread. The next session tries again.
    workers_.push_back(StartWorker(i));
    worker_count_.store(i, std::memory_order_release);
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
      // The system cannot start a thread now. The pool continues with the
      // threads that it has.
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
  pthread_setname_np(pthread_self(), "ios_worker");  // for profilers
  CurrentThread().own = &worker->own;
  const DenormalsAreZero denormals;
  // Use the affinity of the process: the thread that started this worker may be
  // pinned.
  cpu_set_t allowed;
  if (CoresOfProcess(&allowed)) SetCoresOfThread(allowed);
  uint32_t seen = 0;
  while (true) {
    const bool slept =
        worker->calls.Wait([&] { return worker->calls.value() != seen; },
                           [&] { return worker->crew.load() != nullptr; });
    if (slept) ClaimCore(*worker);
    seen = worker->calls.value();
    if (NodeCount() > 1) {
      const int node = NodeOf(CurrentCore());
      if (worker->node.load() != node) worker->node.store(node);
    }
    if (Team* team = worker->team.load()) team->Help();
    if (worker->helps.load()) worker->helps.store(false);
  }
}

// ClaimCore() is needed because the system tends to wake a thread on the core
// of the thread that wakes it. The system then takes milliseconds to move one
// of the two threads to another core.
void LanePool::ClaimCore(const Worker& worker) {
  const Crew* const crew = worker.crew.load();
  if (!crew || Crowded() || sessions() > 1) return;
  const uint64_t session = crew->number_.load();
  const uint64_t mine = session << 32 | static_cast<uint64_t>(worker.number);
  const auto take = [&](int core) {
    uint64_t taken = taken_[core].load();
    return taken == mine || (taken >> 32 != session &&
                             taken_[core].compare_exchange_strong(taken, mine));
  };
  const int here = CurrentCore();
  cpu_set_t allowed;
  if (here < 0 || here >= CPU_SETSIZE || take(here) ||
      !CoresOfThread(&allowed)) {
    return;
  }
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && take(core)) {
      MoveThread(core, allowed);
      return;
    }
  }
}

void LanePool::CallSpare(Team* team) {
  while (true) {
    {
      const std::lock_guard<Mutex> lock(mutex_);
      for (Worker* spare : spares_) {
        if (!spare->helps.exchange(true)) return spare->Call(team);
      }
      try {
        spares_.push_back(
            StartWorker(most_ + static_cast<int>(spares_.size())));
        spares_.back()->helps.store(true);
        return spares_.back()->Call(team);
      } catch (const std::system_error&) {
        // The system cannot start a thread now. Wait for a spare thread.
      }
    }
    YieldThread();
  }
}

bool LanePool::MayEnter(Session::Kind kind) const {
  return !alone_ &&
         sessions() < (kind == Session::kAlone ? 1 : std::max(1, active()));
}

Crew* LanePool::Enter(Session::Kind kind) {
  std::unique_lock<Mutex> lock(mutex_);
  StartWorkers(cores());
  CountCoresIfDue();
  if (idle_crews_.empty()) idle_crews_.push_back(new Crew(this, most_));
  Crew* const crew = idle_crews_.back();
  idle_crews_.pop_back();
  if (waiting_.empty() && MayEnter(kind)) {
    Begin(crew, kind);
    return crew;
  }
  Waiter waiter{kind, crew};
  waiting_.push_back(&waiter);
  lock.unlock();
  while (waiter.enters.load() == 0) SleepWhile(&waiter.enters, 0);
  MoveToFreeCore(waiter.core);
  return crew;
}

void LanePool::Begin(Crew* crew, Session::Kind kind) {
  sessions_.fetch_add(1);
  alone_ = kind == Session::kAlone;
  crew->number_.store(++entered_);
}

void LanePool::RememberSessions() {
  const int64_t period = Now() / kPeriod;
  if (period != period_) {
    most_sessions_before_ = period == period_ + 1 ? most_sessions_ : 0;
    most_sessions_ = 0;
    period_ = period;
  }
  most_sessions_ = std::max(most_sessions_, sessions());
  expected_.store(std::max(most_sessions_, most_sessions_before_),
                  std::memory_order_relaxed);
  expected_until_.store((period + 2) * kPeriod, std::memory_order_relaxed);
}

int LanePool::ExpectedSessions() const {
  const bool valid = Now() < expected_until_.load(std::memory_order_relaxed);
  return std::max(
      {1, sessions(), valid ? expected_.load(std::memory_order_relaxed) : 0});
}

void LanePool::Leave(Crew* crew) {
  crew->ReturnWorkers(0);
  std::list<Waiter*> entering;
  {
    const std::lock_guard<Mutex> lock(mutex_);
    idle_crews_.push_back(crew);
    RememberSessions();
    sessions_.fetch_sub(1);
    alone_ = false;
    while (!waiting_.empty() && MayEnter(waiting_.front()->kind)) {
      Begin(waiting_.front()->crew, waiting_.front()->kind);
      entering.splice(entering.end(), waiting_, waiting_.begin());
    }
  }
  if (!entering.empty()) entering.front()->core = CurrentCore();
  // Waking takes microseconds, so it happens without the lock.
  for (Waiter* const waiter : entering) {
    Atomic<uint32_t>* const enters = &waiter->enters;
    enters->store(1);
    WakeAll(enters);  // the waiter may be gone, so only its address is used
  }
}

LanePool::Session::Session(Kind kind, LanePool* pool, int most_threads)
    : pool_(pool), crew_(pool->Enter(kind)), saved_(CurrentThread()) {
  lane_ = {crew_, 0, pool->cores(), false};
  CurrentThread() = ThreadState{};
  CurrentThread().lane = &lane_;
  CurrentThread().own = &crew_->leaders_team_;
  if (!Crowded() && pool->sessions() == 1) {
    const int here = CurrentCore();
    if (here >= 0 && here < CPU_SETSIZE) {
      pool->taken_[here].store(crew_->number_.load() << 32);
    }
  }
  crew_->most_threads_ = most_threads;
  crew_->TakeShare();
}

LanePool::Session::~Session() {
  CurrentThread() = saved_;
  pool_->Leave(crew_);
}

void Crew::TakeShare() {
  const int cores = pool_->active();
  // The largest and smallest share of this crew, and the largest number of
  // workers in all crews.
  int most, least, all;
  const auto divide = [&](int sessions) {
    most = std::min((cores - 1) / sessions, most_threads_ - 1);
    least = std::min(std::max(0, cores / sessions - 1), most);
    all = std::max(0, cores - sessions);
  };
  const auto size = [this] { return static_cast<int>(workers_.size()); };
  const auto has_enough = [&] {
    return size() >= most ||
           pool_->busy_.load(std::memory_order_relaxed) >= all;
  };
  divide(std::max(1, pool_->sessions()));
  if (size() > most) ReturnWorkers(most);
  if (size() > least && pool_->busy_.load(std::memory_order_relaxed) > all) {
    ReturnWorkers(least);
  }
  if (has_enough()) return;
  divide(pool_->ExpectedSessions());
  if (has_enough()) return;
  const int core = std::max(0, CurrentCore());
  TakeWorkers(most, all, core, NodeOf(core));
  if (NodeCount() > 1 && !has_enough()) TakeWorkers(most, all, core, -1);
}

void Crew::TakeWorkers(int most, int all, int first, int node) {
  const int count = pool_->worker_count_.load(std::memory_order_acquire);
  const bool wakes = !Crowded();
  for (int i = 0; i < count && threads() <= most; ++i) {
    LanePool::Worker* const worker = pool_->workers_[(first + i) % count];
    if (worker->crew.load(std::memory_order_relaxed)) continue;
    if (node >= 0 && worker->node.load(std::memory_order_relaxed) != node) {
      continue;
    }
    if (pool_->busy_.fetch_add(1) >= all) {
      pool_->busy_.fetch_sub(1);
      return;
    }
    Crew* nobody = nullptr;
    if (!worker->crew.compare_exchange_strong(nobody, this)) {
      pool_->busy_.fetch_sub(1);
      continue;
    }
    workers_.push_back(worker);
    // Wakes the worker early, so that it is awake when the leader opens a
    // section.
    if (wakes && worker->calls.anyone_sleeps()) worker->Call(nullptr);
  }
}

void Crew::ReturnWorkers(int rest) {
  while (static_cast<int>(workers_.size()) > rest) {
    workers_.back()->crew.store(nullptr);
    pool_->busy_.fetch_sub(1);
    workers_.pop_back();
  }
}

void Crew::Call(int thread, Team* team) { workers_[thread - 1]->Call(team); }

void LanePool::RunLanesImpl(int lanes, int threads,
                            void (*function)(void*, int), void* argument) {
  struct Closure {
    Crew* crew;
    int threads;
    void (*function)(void*, int);
    void* argument;
    ExceptionCollector thrown;
  } closure{CurrentThread().lane->crew, threads, function, argument, {}};
  const Job job = {
      [](void* p) {
        auto* const c = static_cast<Closure*>(p);
        ThreadState& thread = CurrentThread();
        const ThreadState saved = thread;
        Lane lane{c->crew, saved.index * c->threads, c->threads};
        thread = ThreadState{};
        thread.lane = &lane;
        thread.own = saved.own;
        c->thrown.Catch([&] { c->function(c->argument, saved.index); });
        thread = saved;
      },
      &closure};
  Crew* const crew = closure.crew;
  crew->TakeShare();
  crew->in_lanes_ = true;
  CurrentThread().index = 0;
  crew->stage_team_.Open(job, lanes);
  for (int i = 1; i < lanes && i * threads < crew->threads(); ++i) {
    crew->Call(i * threads, &crew->stage_team_);
  }
  job.function(job.argument);
  crew->stage_team_.Close();
  crew->in_lanes_ = false;
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
  Crew* const crew = lane->crew;
  // With thread.at_once, the crew must keep the workers that ScopedReadyThreads
  // has counted.
  if (!crew->in_lanes_ && thread.at_once == 0) crew->TakeShare();
  team->lane = *lane;
  team->called = std::min(count, std::max(1, crew->threads() - lane->first));
  team->Open(job, count);
  for (int i = 1; i < team->called; ++i) crew->Call(lane->first + i, team);
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
  // Every piece must reach the barrier, so each piece needs its own thread. If
  // the crew has fewer threads than the lanes need, fewer threads were called
  // than there are pieces. The first piece that reaches the barrier then calls
  // a spare thread for each piece that has none.
  if (team->called < team->pieces() && !team->complete.exchange(true)) {
    for (int i = team->called; i < team->pieces(); ++i) {
      team->lane.crew->pool()->CallSpare(team);
    }
  }
  team->Barrier();
}

int LanePool::ReadyThreads(const Lane& lane) {
  int ready = 1;
  if (lane.planning) return ready;
  Crew* const crew = lane.crew;
  if (!crew->in_lanes_) crew->TakeShare();
  if (Crowded()) return ready;
  const int end = std::min(lane.first + lane.size, crew->threads());
  for (int i = lane.first + 1; i < end; ++i) {
    if (!crew->workers_[i - 1]->calls.anyone_sleeps()) ++ready;
  }
  return ready;
}

ScopedReadyThreads::ScopedReadyThreads() {
  ThreadState& thread = CurrentThread();
  if (thread.lane && !thread.team && !thread.lane->planning) {
    thread.at_once = LanePool::ReadyThreads(*thread.lane);
  }
}

}  // namespace ios::cpu
