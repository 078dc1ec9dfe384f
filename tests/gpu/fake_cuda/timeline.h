// Simulates when the fake GPU's work begins and ends, in microseconds. Work can
// begin when the work that it waits for has ended. Without the option "sms", it
// then begins immediately. With this option, the GPU has "sms" multiprocessors
// that each run up to kThreads threads, and blocks of kernels wait for free
// threads. With the option "dram_bytes_per_us", memory has a limited bandwidth,
// and work also waits for the data that is not in the L2 cache. The cache has
// "l2_bytes" bytes, by default as many as the device reports.
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

#include "cache.h"

namespace fake {

// The size of the L2 cache in bytes, unless the option "l2_bytes" is set.
constexpr int64_t kCacheBytes = 4096;
// The number of threads that run on a multiprocessor at the same time.
constexpr int64_t kThreads = 2048;

// A vector clock of a node: clock[c] is the number of nodes of chain c that are
// ordered before this node. A chain is a sequence of nodes in a fixed order:
// the nodes of a stream, or those of a captured stream in a graph.
using Clock = std::vector<uint32_t>;

// A piece of work for a stream.
struct Work {
  std::string name;
  std::function<void()> run;    // reports accesses by Machine::Read and Write
  double microseconds = 0;      // simulated time if no other work runs
  bool by_the_clock = true;     // takes longer while the GPU's clocks are low
  CUcontext context = nullptr;  // the context of the stream
  int64_t blocks = 0;           // 0: needs no multiprocessors
  int64_t threads = 0;          // the number of threads of a block
  double latency = 0;           // microseconds before the first block can start
  // The memory that the work reads or writes, in this order. Only the
  // operations of cuDNN, copies and memsets name it.
  std::vector<Range> accesses;
};

// A piece of work that has been enqueued, with its dependencies.
struct Node {
  Work work;
  uint32_t id = 0;
  uint32_t chain = 0;
  Clock clock;
  bool done = false;  // `work.run` was called; its simulated end may be later
  int waits_for = 0;
  std::vector<std::shared_ptr<Node>> next;

  // The timeline changes the members below.
  bool ended = false;
  double end = 0;    // the time at which the node ended
  double ready = 0;  // the time at which `work.latency` begins
  int waits_for_end = 0;
  std::vector<std::shared_ptr<Node>> followers;
  int64_t block_threads = 0;  // the threads that a block occupies
  int64_t waiting_blocks = 0, running_blocks = 0;
  double block_microseconds = 0;
  double memory_end = 0;  // the time at which all data has arrived
};
using NodePtr = std::shared_ptr<Node>;

// Work that becomes ready first starts first. Blocks of other work start only
// when all of its blocks have started, as on NVIDIA's GPUs. Unlike on real
// GPUs, a block may use free threads of two multiprocessors. Memory serves one
// piece of work after another, in the order of their starts. Work that waits
// for memory needs no multiprocessors.
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
    uint64_t number;  // events are numbered in the order of their creation
    NodePtr node;
    // The number of blocks that end, kStart or kMemoryEnd.
    int64_t blocks;
    bool operator>(const Event& o) const {
      return time != o.time ? time > o.time : number > o.number;
    }
  };
  static constexpr int64_t kStart = 0;       // the first block starts
  static constexpr int64_t kMemoryEnd = -1;  // all data has arrived
  // The multiprocessors and the memory of one GPU.
  struct Device {
    int64_t used = 0;  // the number of threads in use
    std::deque<NodePtr> waiting;
    Cache cache;
    double memory_free = 0;  // the time at which memory can serve other work
  };

  void Push(double time, const NodePtr& node, int64_t blocks);
  void RunEvent();
  void Start(const NodePtr& node, double time);
  void StartBlocks(Device* device, double time);
  void Finish(const NodePtr& node, double time);
  double MemoryEnd(const Work& work, double start);
  double Slowness(const Work& work, double start);

  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  uint64_t number_ = 0;
  std::map<CUcontext, Device> devices_;
  double busy_ = 0, idle_from_ = 0;  // state of the clocks; see Slowness()
};

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_TIMELINE_H_
