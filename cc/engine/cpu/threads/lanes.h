// Lanes of the CPU backend: threads that the engine owns, arranged as one lane
// of all cores or as several lanes of fewer cores each. oneDNN's own loops run
// on the threads of the lane that calls oneDNN (openmp.cc).
//
// Several callers share the threads, by these terms:
// - A session is the time in which a caller may use threads. The caller's own
//   thread is the leader of the session's lane.
// - A crew is the leader and the workers of a session. Crews have about equally
//   many workers, and no more threads together than there are cores.
// - A section is a parallel loop, cut into pieces that run on the lane's
//   threads. The threads that run one section are a team (see team.h).
// - Between two sections, a crew takes over workers of larger crews, and gives
//   workers to smaller ones.
// - A spare thread is a worker that belongs to no crew.
//
// No thread waits for work that another thread has not started yet (team.h). If
// other callers or processes occupy the cores, the threads of a lane that have
// a core, at least its leader, do all of its work.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_LANES_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_LANES_H_

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/engine/cpu/threads/cores.h"
#include "cc/engine/cpu/threads/denormals.h"
#include "cc/engine/cpu/threads/system.h"
#include "cc/engine/cpu/threads/team.h"

namespace ios::cpu {

// The state of one thread. A thread that neither belongs to the engine nor
// leads a lane has the default values.
struct ThreadState {
  Lane* lane = nullptr;  // set for leaders
  Team* own = nullptr;   // for sections that this thread leads
  Team* team = nullptr;  // set while the thread runs a piece of a section
  int index = 0;         // of the piece
  int nested = 0;        // number of open sections that this thread runs alone
  int at_once =
      0;  // limit on a section's threads, or 0: see ScopedReadyThreads
  // The state of GOMP_loop_static_start: the loop's parameters, and the
  // iterations that this thread takes next.
  int64_t loop_start = 0, loop_increment = 1, loop_chunk = 0;
  int64_t loop_next = 0, loop_end = 0;
};
ThreadState& CurrentThread();

// Returns the index of the piece that the calling thread runs, or 0 outside of
// a section.
inline int ThreadIndex() {
  const ThreadState& thread = CurrentThread();
  return thread.team ? thread.index : 0;
}

class Crew;

class LanePool {
 public:
  // Returns the pool of the process, which is never destroyed. After fork(),
  // the child gets its own pool.
  static LanePool& Get();

  // Makes a pool for `cores` threads; the caller of a session is one of them.
  // With `usable`, the pool later grows to the number of cores that this
  // function returns, up to `most`.
  explicit LanePool(int cores) : LanePool(cores, cores, UsableCores) {}
  LanePool(int cores, int most, int (*usable)())
      : most_(most), usable_(usable), cores_(cores), active_(cores) {
    workers_.reserve(most);
  }

  // The number of cores that lanes are made for: IOS_TF_NUM_THREADS, or the
  // largest number that AllowedCores() has returned so far. It never shrinks,
  // and it changes only between sessions, so that tasks compiled for fewer
  // cores keep their threads.
  int cores() const { return cores_.load(std::memory_order_relaxed); }

  // The upper limit of cores().
  int most_cores() const { return most_; }

  // Updates cores() and active() to the number of cores that the process may
  // use now. Must not be called inside a session.
  void CountCores();

  // The number of threads that may work at present, at most cores().
  int active() const { return active_.load(std::memory_order_relaxed); }

  // The number of sessions that are open.
  int sessions() const { return sessions_.load(std::memory_order_relaxed); }

  // Makes the calling thread the leader of a lane. The lane has cores()
  // threads, for which tasks are compiled, but only the threads of its crew do
  // the work. There are at most active() sessions; more callers wait in line.
  class Session {
   public:
    enum Kind { kShared, kAlone };  // kAlone: there is no other session
    explicit Session(Kind kind = kShared, LanePool* pool = &LanePool::Get(),
                     int most_threads = kAllThreads);
    // A session that works with at most `most_threads` threads.
    explicit Session(int most_threads)
        : Session(kShared, &LanePool::Get(), most_threads) {}
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    static constexpr int kAllThreads = CPU_SETSIZE;

    LanePool* const pool_;
    Crew* const crew_;
    const DenormalsAreZero denormals_;
    ThreadState saved_;
    Lane lane_;
  };

  // Calls function(lane) for lanes 0 … lanes - 1, each on the leader of a lane
  // of `threads` threads. The calls run at the same time if enough threads are
  // free. Must be called inside a session; lanes * threads <= cores().
  template <typename F>
  static void RunLanes(int lanes, int threads, F&& function) {
    RunLanesImpl(
        lanes, threads, [](void* f, int lane) { (*static_cast<F*>(f))(lane); },
        &function);
  }

  // Opens a section of `count` pieces to the other threads of the current
  // thread's lane. Before that, crews are balanced again. A lane's section has
  // at most one piece per thread; `count` 0 means one piece for each thread.
  // The caller then runs piece 0 itself and ends with EndParallel. If the
  // thread has no lane or is inside a section, the new section has one piece.
  static void StartParallel(Job job, int count);
  static void EndParallel();

  // Waits until all pieces of the team's section have called Barrier().
  static void Barrier(Team* team);

  // First balances the crews. Then returns the number of the lane's
  // threads, including its leader, that would start a section as soon as it is
  // opened.
  static int ReadyThreads(const Lane& lane);

 private:
  friend class Crew;
  struct Worker;
  struct Waiter {
    Session::Kind kind;
    Crew* crew;
    Atomic<uint32_t> enters{0};  // 1: the session has begun
    int core = -1;               // the core of the caller that has left, or -1
  };

  // Starts the workers that a pool for `cores` threads still lacks. Throws
  // std::system_error.
  void StartWorkers(int cores);
  Worker* StartWorker(int number);
  void CountCoresIfDue();
  static void RunLanesImpl(int lanes, int threads, void (*function)(void*, int),
                           void* argument);
  void WorkerLoop(Worker* worker);
  // Moves the calling worker to a core where no other thread of its session was
  // last seen.
  void ClaimCore(const Worker& worker);
  // Wakes a spare thread, which then runs pieces of the team's section.
  void CallSpare(Team* team);

  // Begins and ends a session.
  Crew* Enter(Session::Kind kind);
  void Leave(Crew* crew);
  // The caller of the next two functions must hold the mutex.
  void Begin(Crew* crew, Session::Kind kind);
  bool MayEnter(Session::Kind kind) const;
  // Records how many sessions are open at present, for ExpectedSessions(). The
  // caller must hold the mutex.
  void RememberSessions();
  // Returns the number of sessions among which the cores are divided: the
  // largest number that was open at the same time within the last one to two
  // milliseconds. A caller that has closed its session will usually open
  // another one soon, and a worker must not occupy its core then.
  int ExpectedSessions() const;

  // Members that rarely change come first. They share no cache line with the
  // members that every session changes.
  const int most_;
  int (*const usable_)();
  Atomic<int> cores_, active_;
  std::vector<Worker*> workers_;  // reserved for most_; leaked at exit
  Atomic<int> worker_count_{0};   // number of started workers in workers_
  // For each core: session << 32 | thread, for the thread last seen there.
  std::array<Atomic<uint64_t>, CPU_SETSIZE> taken_{};
  alignas(kCacheLine) Atomic<int> sessions_{0};  // open now
  Atomic<int> busy_{0};                          // workers that belong to crews
  // For ExpectedSessions(): the largest number of sessions that were open at
  // once lately, and the time in nanoseconds until which this number is used.
  Atomic<int> expected_{0};
  Atomic<int64_t> expected_until_{0};

  alignas(kCacheLine) Mutex mutex_;  // for the members below
  std::list<Waiter*> waiting_;
  bool alone_ = false;    // the open session is kAlone
  uint32_t entered_ = 0;  // sessions so far
  // The number of the current period, and the largest numbers of sessions that
  // were open at once in this period and in the one before.
  int64_t period_ = 0;
  int most_sessions_ = 0, most_sessions_before_ = 0;
  std::vector<Crew*> idle_crews_;  // never freed, see Team
  int64_t counted_at_ = 0;         // nanoseconds
  std::vector<Worker*> spares_;
};

// The threads of one session. Thread 0 is the caller of the session, and the
// other threads are the workers that the session has at present.
class alignas(kCacheLine) Crew {
 public:
  Crew(LanePool* pool, int most) : pool_(pool) { workers_.reserve(most); }

  LanePool* pool() const { return pool_; }
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  friend class LanePool;

  // Takes or returns workers until the crew has its share of the cores. The
  // leader calls this function between sections, when no worker is needed.
  void TakeShare();
  // Takes free workers that are on NUMA node `node`, or on any node if `node`
  // is -1, until the crew has `most` workers or all crews together have `all`
  // workers. The search begins with worker `first`, so that crews on different
  // cores do not compete for the same workers.
  void TakeWorkers(int most, int all, int first, int node);
  void ReturnWorkers(int rest);
  void Call(int thread, Team* team);

  LanePool* const pool_;
  std::vector<LanePool::Worker*> workers_;
  int most_threads_ = 1;            // of the session
  bool in_lanes_ = false;           // lanes have parts of the crew now
  Atomic<uint64_t> number_{0};      // of the session
  Team leaders_team_, stage_team_;  // for the session's sections and lanes
};

// Catches exceptions in the pieces of a section. Rethrow() throws the first one
// again after the section has ended. An exception must not escape from a thread
// of the pool, and a section must not stay open after an exception.
class ExceptionCollector {
 public:
  template <typename F>
  void Catch(F&& function) noexcept {
    try {
      function();
    } catch (...) {
      if (!any_.exchange(true)) first_ = std::current_exception();
    }
  }
  // Must be called after the section has ended.
  void Rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  Atomic<bool> any_{false};
  std::exception_ptr first_;
};

// While an object exists, sections that the calling thread opens get only
// threads that are ready (LanePool::ReadyThreads). This is necessary for
// primitives whose threads wait for each other.
class ScopedReadyThreads {
 public:
  ScopedReadyThreads();
  ~ScopedReadyThreads() { CurrentThread().at_once = 0; }
  ScopedReadyThreads(const ScopedReadyThreads&) = delete;
  ScopedReadyThreads& operator=(const ScopedReadyThreads&) = delete;
};

// Cuts [0, n) into `size` pieces of about equal length. Sets [begin, end) to
// piece `index`.
inline void Split(int64_t n, int size, int index, int64_t* begin,
                  int64_t* end) {
  const int64_t base = n / size, rest = n % size;
  *begin = index * base + (index < rest ? index : rest);
  *end = *begin + base + (index < rest ? 1 : 0);
}

// Splits [0, n) over the threads of the current lane, into at most n / grain
// pieces (rounded up). Calls function(begin, end) for each piece.
template <typename F>
void ParallelFor(int64_t n, int64_t grain, F&& function) {
  struct Closure {
    std::remove_reference_t<F>* function;
    int64_t n;
    ExceptionCollector thrown;
  } closure{&function, n, {}};
  const Lane* lane = CurrentThread().lane;
  const bool nested = CurrentThread().team != nullptr;
  int count = 1;
  if (lane && !lane->planning && !nested) {
    const int64_t pieces = std::max<int64_t>((n + grain - 1) / grain, 1);
    count = static_cast<int>(std::min<int64_t>(lane->size, pieces));
  }
  if (count == 1) {
    function(int64_t{0}, n);
    return;
  }
  const Job job = {[](void* argument) {
                     auto* const c = static_cast<Closure*>(argument);
                     const ThreadState& thread = CurrentThread();
                     int64_t begin, end;
                     Split(c->n, thread.team->pieces(), thread.index, &begin,
                           &end);
                     if (begin == end) return;
                     c->thrown.Catch([&] { (*c->function)(begin, end); });
                   },
                   &closure};
  LanePool::StartParallel(job, count);
  job.function(job.argument);
  LanePool::EndParallel();
  closure.thrown.Rethrow();
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_LANES_H_
