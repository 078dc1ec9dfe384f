// When the fake GPU's work begins and ends, in simulated microseconds. Work
// begins after the work that it waits for. Without the option "sms", all work
// then runs at once. With it, the GPU has this many multiprocessors, each with
// room for kThreads threads, and blocks of kernels wait for free room.
#ifndef IOS_TF_TESTS_FAKE_CUDA_TIMELINE_H_
#define IOS_TF_TESTS_FAKE_CUDA_TIMELINE_H_

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace fake {

// The number of threads that run on a multiprocessor at the same time.
constexpr int64_t kThreads = 2048;

// clock[c]: how many nodes of chain c are ordered before. A chain is a sequence
// of nodes that are ordered among themselves: a stream's, or a graph's captured
// stream's.
using Clock = std::vector<uint32_t>;

// A piece of work for a stream.
struct Work {
  std::string name;
  std::function<void()> run;    // tells its accesses by Machine::Read and Write
  double microseconds = 0;      // of simulated time, alone on the GPU
  bool by_the_clock = true;     // takes longer where the GPU's clocks are low
  CUcontext context = nullptr;  // its stream's
  int64_t blocks = 0;           // 0: needs no multiprocessors
  int64_t threads = 0;          // of a block
  double latency = 0;           // microseconds before the first block can start
};

// A Work that has been enqueued, and what it waits for.
struct Node {
  Work work;
  uint32_t id = 0;
  uint32_t chain = 0;
  Clock clock;
  bool done = false;  // it has run on the CPU, at any simulated time
  int waits_for = 0;
  std::vector<std::shared_ptr<Node>> next;

  // The timeline changes the members below.
  bool ended = false;
  double end = 0;    // if it has ended
  double ready = 0;  // when its latency begins
  int waits_for_end = 0;
  std::vector<std::shared_ptr<Node>> followers;
  int64_t block_threads = 0;  // that a block takes; 0: it takes none
  int64_t waiting_blocks = 0, running_blocks = 0;
  double block_microseconds = 0;
};
using NodePtr = std::shared_ptr<Node>;

// Blocks of the work that became ready first start first. Blocks of other work
// start after all of these have started, as on NVIDIA's GPUs. A block may use
// free threads of two multiprocessors, which real blocks cannot. Memory and
// caches do not slow work down.
class Timeline {
 public:
  // Adds work that the host enqueues at this time. Later calls may not have an
  // earlier time.
  void Add(const NodePtr& node, double host_time,
           const std::vector<NodePtr>& after);
  // Returns when the node ends. The host's time must then be at least this
  // time, because the timeline decides everything that happens before it.
  double EndOf(const NodePtr& node);

 private:
  struct Event {
    double time;
    uint64_t number;  // in order of their making
    NodePtr node;
    int64_t blocks;  // that end; 0: the first block can start
    bool operator>(const Event& o) const {
      return time != o.time ? time > o.time : number > o.number;
    }
  };
  // The multiprocessors of one GPU.
  struct Device {
    int64_t used = 0;  // threads
    std::deque<NodePtr> waiting;
  };

  void Push(double time, const NodePtr& node, int64_t blocks);
  void RunEvent();
  void Start(const NodePtr& node, double time);
  void StartBlocks(Device* device, double time);
  void Finish(const NodePtr& node, double time);
  double Slowness(const Work& work, double start);

  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  uint64_t number_ = 0;
  std::map<CUcontext, Device> devices_;
  double busy_ = 0, idle_from_ = 0;  // of the clocks: see Slowness()
};

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_TIMELINE_H_
