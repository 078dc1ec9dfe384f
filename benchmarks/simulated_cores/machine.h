// A machine with any number of cores, in virtual time. Its threads run real
// code that uses virtual_system.h. Only one of them runs at a time: the one
// whose clock is behind all others. So every run gives the same result.
#ifndef IOS_TF_BENCHMARKS_SIMULATED_CORES_MACHINE_H_
#define IOS_TF_BENCHMARKS_SIMULATED_CORES_MACHINE_H_

#include <sched.h>

#include <bitset>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ios::simulated {

constexpr int kMostCores = 256;

// Times of the machine in nanoseconds. Times marked "measured" are those of the
// virtual machine with two cores that docs/benchmarks/callers_simulation.md
// names.
struct Costs {
  int64_t load = 1;        // to load a word that is in the core's cache
  int64_t update = 5;      // to change a word that no other core has; measured
  int64_t transfer = 120;  // to move a cache line to another core; measured
  int64_t far_transfer = 240;  // to move a cache line to another NUMA node
  // Time after which the next core can get a copy of the same line.
  int64_t copy = 20;
  int64_t clock = 30;         // to read the clock; measured
  int64_t sleep = 500;        // from going to sleep until the core is free
  int64_t wake_nobody = 220;  // to wake or yield without effect; measured
  int64_t wake = 6'500;       // added for each thread that is woken; measured
  int64_t wake_up = 13'000;   // until the woken thread runs; measured
  int64_t change = 1'500;     // for a core to change to another thread
  int64_t start = 20'000;     // to start a thread
  // Time for which a thread keeps a core that another thread waits for.
  int64_t slice = 3'000'000;
  // A waiting thread looks at the clock at least once in this time.
  int64_t look = 10'000;
};

class Thread;

class Machine {
 public:
  // `nodes` divides the cores into NUMA nodes of the same size.
  Machine(int cores, int nodes, const Costs& costs);
  ~Machine();

  // The machine that exists. There is at most one.
  static Machine* Get() { return machine_; }

  // Starts a thread. Call it before Run(), or on a thread of the machine.
  void Start(std::function<void()> body);
  // Runs the threads until one of them calls Stop().
  void Run();
  void Stop();

  // The functions below are called on threads of the machine.

  int64_t now() const;
  // The thread works for a time. It may lose its core and get another one.
  void Work(int64_t ns);
  // Reads the clock.
  int64_t ReadClock();
  int nodes() const { return nodes_; }
  int NodeOf(int core) const { return core / cores_per_node_; }
  bool SameNode(int core, int other) const {
    return NodeOf(core) == NodeOf(other);
  }
  int core() const;
  void MoveTo(const cpu_set_t& cores);
  void YieldCore();
  // An access to a shared word, in the order of the threads' clocks. `place` is
  // the source line.
  void Access(const void* word, bool writes, const char* file, int line);
  // Waits until another thread changes a word that this thread has read lately,
  // at most Costs::look. The thread keeps its core.
  void WaitForChange();
  void SleepWhile(const void* word, const std::function<bool()>& is_unchanged);
  void Wake(const void* word, int most);
  // The calling thread's own object.
  std::shared_ptr<void>& local();

  bool on_thread() const { return current_ != nullptr; }
  int cores() const { return static_cast<int>(cores_.size()); }

  // The time for which threads have waited for cache lines since
  // ForgetWaits(), for each source line.
  std::vector<std::pair<std::string, int64_t>> Waits() const;
  void ForgetWaits() { waits_.clear(); }

 private:
  struct Line {
    int owner = -1;  // the core that alone may write it, or -1
    std::bitset<kMostCores> holders;
    int64_t free_at = 0;   // when the next core can get it
    uint64_t version = 0;  // counts changes
    std::vector<std::pair<Thread*, uint64_t>> watchers;
  };
  struct Core {
    Thread* thread = nullptr;
    int64_t slice_end = 0;
  };
  struct Event {
    int64_t time;
    uint64_t number;
    Thread* thread;
    uint64_t generation;
    bool operator<(const Event& other) const {  // the earliest is the largest
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  Line& LineOf(const void* word);
  // Lets the threads run whose clocks are behind that of the current thread.
  void Synchronize();
  void Schedule(Thread* thread, int64_t time);
  void RunNext();
  // Gives the thread a core, or puts it into the line for a core.
  void MakeReady(Thread* thread, int64_t time, int64_t delay);
  void GiveCore(Thread* thread, int core, int64_t time);
  void LeaveCore();
  // If the time slice of the current thread is over and another thread waits
  // for a core, gives the core to the other thread.
  void ShareCore();
  bool HasTransferFrom(const Line& line, int core, bool writes) const;

  static Machine* machine_;

  const Costs costs_;
  const int nodes_, cores_per_node_;
  std::vector<Core> cores_;
  std::deque<Thread*> ready_;  // threads without a core, in order
  std::priority_queue<Event> events_;
  uint64_t event_count_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  Thread* current_ = nullptr;
  std::unordered_map<uintptr_t, Line> lines_;
  std::map<const void*, std::deque<Thread*>> sleepers_;
  std::map<std::pair<const char*, int>, int64_t> waits_;
};

}  // namespace ios::simulated

#endif  // IOS_TF_BENCHMARKS_SIMULATED_CORES_MACHINE_H_
