// Lanes of the CPU backend: threads the engine owns, arranged as one lane of all
// cores or as several lanes of fewer cores each. oneDNN's own loops run on the
// threads of the lane that calls it (openmp.cc).
#ifndef IOS_TF_CC_ENGINE_CPU_LANES_H_
#define IOS_TF_CC_ENGINE_CPU_LANES_H_

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace ios::cpu {

// A function and its argument, run once by every thread of a team.
struct Job {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

// The threads that run one job together.
struct Team {
  int size = 1;
  std::atomic<int> pending{0};  // members, the leader aside, still running
  std::atomic<int> arrived{0};  // at the barrier
  std::atomic<int> phase{0};    // barriers passed
};

// Threads [first, first + size) of the pool; the first one leads.
struct Lane {
  int first = 0;
  int size = 1;
  // Compiling for such a lane, outside of a session: the calling thread does all
  // the work itself.
  bool planning = false;
  Team team;
};

// What the current thread is doing; zero for threads that are not the engine's.
struct ThreadState {
  Lane* lane = nullptr;  // set for leaders
  Team* team = nullptr;  // set inside a parallel section
  int index = 0;         // in the team
  int nested = 0;        // parallel sections of one thread inside another
  // Of GOMP_loop_static_start: the loop as the program wrote it, and which of
  // its trips this thread takes next.
  int64_t loop_start = 0, loop_increment = 1, loop_chunk = 0;
  int64_t loop_next = 0, loop_end = 0;
};
ThreadState& CurrentThread();

class LanePool {
 public:
  // One for the process, never destroyed. Survives fork().
  static LanePool& Get();

  // Cores this process may use, or IOS_TF_NUM_THREADS.
  int cores() const { return cores_; }

  // Exclusive use of all cores by the calling thread, which becomes the leader
  // of a lane of all of them. Callers queue.
  class Session {
   public:
    Session();
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    std::unique_lock<std::mutex> lock_;
    ThreadState saved_;
    Lane lane_;
  };

  // Inside a session: calls function(lane) for lanes 0 … lanes - 1 at once, each
  // on the leader of a lane of `threads` threads. lanes * threads <= cores().
  template <typename F>
  void RunLanes(int lanes, int threads, F&& function) {
    RunLanesImpl(
        lanes, threads,
        [](void* f, int lane) { (*static_cast<F*>(f))(lane); }, &function);
  }

  // Starts `job` on the other threads of the current thread's lane (all of them
  // for count = 0, fewer for a smaller count) and makes the caller member 0.
  // The caller then runs the job itself and ends with EndParallel.
  void StartParallel(Job job, int count);
  void EndParallel();

 private:
  struct Worker;

  LanePool();
  void StartWorkers();
  void RunLanesImpl(int lanes, int threads, void (*function)(void*, int),
                    void* argument);
  void Post(int thread, Job job, Lane* lane, Team* team, int index);
  void WakeIfAsleep(Worker* worker);
  void WorkerLoop(Worker* worker);
  // Moves the calling worker to a core that no other thread of this session has
  // woken on.
  void TakeCore();

  const int cores_;
  int process_ = 0;
  std::mutex session_mutex_;
  std::atomic<bool> in_session_{false};
  std::atomic<uint32_t> sessions_{0};  // begun so far
  // By core: the last session of which a thread has woken there.
  std::array<std::atomic<uint32_t>, CPU_SETSIZE> taken_{};
  std::vector<Worker*> workers_;  // thread t is workers_[t - 1]; leaked at exit
};

// The piece of [0, n) that member `index` of `size` takes.
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
  struct Context {
    std::remove_reference_t<F>* function;
    int64_t n;
  } context{&function, n};
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
                     const auto* c = static_cast<Context*>(argument);
                     const ThreadState& thread = CurrentThread();
                     int64_t begin, end;
                     Split(c->n, thread.team->size, thread.index, &begin, &end);
                     if (begin < end) (*c->function)(begin, end);
                   },
                   &context};
  LanePool::Get().StartParallel(job, count);
  job.function(job.argument);
  LanePool::Get().EndParallel();
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_LANES_H_
