// Lanes of the CPU backend: threads the engine owns, arranged as one lane of
// all cores or as several lanes of fewer cores each. oneDNN's own loops run on
// the threads of the lane that calls it (openmp.cc).
//
// Nobody waits for a thread that has not begun (team.h): where other processes
// take the cores, a lane has as many threads as are running, at least the one
// that leads.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_LANES_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_LANES_H_

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/engine/cpu/threads/cores.h"
#include "cc/engine/cpu/threads/denormals.h"
#include "cc/engine/cpu/threads/team.h"

namespace ios::cpu {

// The current thread's state; zero for threads that are not the engine's.
struct ThreadState {
  Lane* lane = nullptr;  // set for leaders
  Team* own = nullptr;   // for sections that this thread leads
  Team* team = nullptr;  // set inside a piece of a section
  int index = 0;         // of the piece
  int nested = 0;        // parallel sections of one thread inside another
  int at_once = 0;       // threads that a section may have: see AtOnce
  // Of GOMP_loop_static_start: the loop as the program wrote it, and which of
  // its trips this thread takes next.
  int64_t loop_start = 0, loop_increment = 1, loop_chunk = 0;
  int64_t loop_next = 0, loop_end = 0;
};
ThreadState& CurrentThread();

// Of the calling thread in the section that it runs a piece of; 0 outside of
// one.
inline int ThreadIndex() {
  const ThreadState& thread = CurrentThread();
  return thread.team ? thread.index : 0;
}

class LanePool {
 public:
  // That of the process, never destroyed; after fork() the child has one of its
  // own.
  static LanePool& Get();

  // For `cores` threads, of which callers of a session are one, or as many as
  // `usable` says later, up to `most`.
  explicit LanePool(int cores) : LanePool(cores, cores, UsableCores) {}
  LanePool(int cores, int most, int (*usable)())
      : most_(most), usable_(usable), cores_(cores), active_(cores) {}

  // The cores that lanes are made for: IOS_TF_NUM_THREADS, or the most that
  // this process could use so far. It grows only, and only between sessions,
  // so that what was compiled for fewer has its threads.
  int cores() const { return cores_.load(std::memory_order_relaxed); }

  // The number that cores() never exceeds.
  int most_cores() const { return most_; }

  // Notices how many cores the process may use now; not inside a session.
  void CountCores();

  // Threads that are called upon, at most cores().
  int active() const { return active_.load(std::memory_order_relaxed); }

  // Exclusive use of all cores by the calling thread, which becomes the leader
  // of a lane of all of them. Callers queue.
  class Session {
   public:
    explicit Session(LanePool* pool = &LanePool::Get());
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    LanePool* const pool_;
    std::unique_lock<std::mutex> lock_;
    const DenormalsAreZero denormals_;
    ThreadState saved_;
    Lane lane_;
  };

  // Inside a session: calls function(lane) for lanes 0 … lanes - 1, at once
  // where threads are free, each on the leader of a lane of `threads` threads.
  // lanes * threads <= cores().
  template <typename F>
  void RunLanes(int lanes, int threads, F&& function) {
    RunLanesImpl(
        lanes, threads, [](void* f, int lane) { (*static_cast<F*>(f))(lane); },
        &function);
  }

  // Opens a section of `count` pieces (for 0, one for each thread of the
  // current thread's lane; at most so many) to the lane's other threads. The
  // caller then runs piece 0 itself and ends with EndParallel. Threads without
  // a lane, or inside a section, run a section of one piece.
  static void StartParallel(Job job, int count);
  static void EndParallel();

  // Waits until all pieces of the section have come here.
  static void Barrier(Team* team);

  // Threads of a lane, its leader among them, that run a section as soon as it
  // is opened.
  int ReadyThreads(const Lane& lane) const;

 private:
  struct Worker;

  // Those that are missing of a pool for `cores`; throws std::system_error.
  void StartWorkers(int cores);
  void CountCoresNowAndThen();
  void RunLanesImpl(int lanes, int threads, void (*function)(void*, int),
                    void* argument);
  void Call(int thread, Team* team);
  void WorkerLoop(Worker* worker);
  // Moves the calling worker, the thread of that number, to a core that no
  // other thread of this session was last seen on.
  void TakeCore(int thread);

  const int most_;
  int (*const usable_)();
  std::atomic<int> cores_, active_;
  std::mutex session_mutex_;
  std::atomic<bool> in_session_{false};
  std::atomic<uint32_t> sessions_{0};  // begun so far
  int64_t counted_at_ = 0;             // nanoseconds
  // By core: the last session << 32 | thread that was seen there.
  std::array<std::atomic<uint64_t>, CPU_SETSIZE> taken_{};
  std::vector<Worker*> workers_;  // thread t is workers_[t - 1]; leaked at exit
  Team leaders_team_, stage_team_;  // of the session: its sections, its lanes
};

// Catches the exceptions of a section's pieces, and throws the first one again
// where the section has ended: an exception may neither leave a thread of the
// pool nor leave a section open.
class Thrown {
 public:
  template <typename F>
  void Catch(F&& function) noexcept {
    try {
      function();
    } catch (...) {
      if (!any_.exchange(true)) first_ = std::current_exception();
    }
  }
  // After the section.
  void Rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::atomic<bool> any_{false};
  std::exception_ptr first_;
};

// While it lives, sections that the calling thread opens have no more threads
// than can be had without waiting: for primitives whose threads wait for one
// another.
class AtOnce {
 public:
  AtOnce();
  ~AtOnce() { CurrentThread().at_once = 0; }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;
};

// Piece `index` of the `size` that [0, n) is cut into.
inline void Split(int64_t n, int size, int index, int64_t* begin,
                  int64_t* end) {
  const int64_t base = n / size, rest = n % size;
  *begin = index * base + (index < rest ? index : rest);
  *end = *begin + base + (index < rest ? 1 : 0);
}

// Splits [0, n) over the threads of the current lane; function(begin, end).
// Pieces are at least `grain` long.
template <typename F>
void ParallelFor(int64_t n, int64_t grain, F&& function) {
  struct Closure {
    std::remove_reference_t<F>* function;
    int64_t n;
    Thrown thrown;
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
