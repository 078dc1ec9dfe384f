// The fake GPU behind the three fake libraries. It delays work and runs it in a
// random order that streams, events and graphs allow. With vector clocks, it
// checks that streams, events and graphs order any two accesses to the same
// byte of which one is a write.
#ifndef IOS_TF_TESTS_FAKE_CUDA_MACHINE_H_
#define IOS_TF_TESTS_FAKE_CUDA_MACHINE_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "host_kernel.h"
#include "timeline.h"

namespace fake {

struct Cell {
  uint32_t writer = 0;   // the id of the node that wrote it last; 0: none
  uint32_t readers = 0;  // its readers since then: index in reader_sets_
  bool operator==(const Cell& o) const {
    return writer == o.writer && readers == o.readers;
  }
};

struct Buffer : IosHostBuffer {
  std::string name;  // "#3 (1024 bytes)"
  bool live = true;
  int owners = 1;  // more than 1 if the mistake "share_memory" was planted
  CUcontext context = nullptr;
  std::unique_ptr<char[]> memory;
  std::vector<Cell> cells;
  std::vector<unsigned long> bits;
};

class Machine {
 public:
  static Machine& Get();

  // Every call into the libraries holds this mutex; see Call.
  std::recursive_mutex mutex;

  // --- options, set by FAKE_CUDA_OPTIONS="name=value,…" or fake_cuda_set().
  int64_t Option(const std::string& name, int64_t otherwise = 0) const;
  void SetOption(const std::string& name, int64_t value);
  void ClearOptions() { options_.clear(); }
  // Makes the machine make a mistake once; see fake_cuda_plant().
  void Plant(const std::string& what, int n) { planted_[what] = n; }
  bool Planted(const std::string& what);

  // --- findings
  void Violate(const std::string& text);
  // Adds to a count, and returns it.
  int64_t Count(const std::string& what, int64_t n = 1) {
    return counts_[what] += n;
  }
  std::string Report() const;
  void Reset();
  // Made(), Unmade() and Exists() keep track of the objects that exist, by
  // their kind: "stream", "event", …
  void Made(const char* kind, const void* object) {
    live_[kind].insert(object);
  }
  bool Unmade(const char* kind, const void* object);
  bool Exists(const char* kind, const void* object) const;

  // --- memory
  void* Allocate(int64_t bytes, CUcontext context);  // null: out of memory
  bool Free(void* pointer);
  void Read(const void* pointer, size_t bytes) { Touch(pointer, bytes, false); }
  void Write(void* pointer, size_t bytes) { Touch(pointer, bytes, true); }
  // Returns whether all bytes belong to allocated memory. Reports a violation
  // if not.
  bool Accessible(const void* pointer, size_t bytes) {
    return bytes == 0 || FindBuffer(pointer, bytes, false) != nullptr;
  }
  IosHostTracker* tracker() { return &tracker_; }

  // --- order
  uint32_t NewChain();
  void RetireChain(uint32_t chain) { retired_.push_back(chain); }
  NodePtr Enqueue(Work work, uint32_t chain, const std::vector<NodePtr>& after);
  void RunUntil(const NodePtr& node);
  void RunAll();
  void RunSome();
  // Records that the host has waited for `node`. All work that is enqueued from
  // now on is ordered after this node.
  void HostSaw(const NodePtr& node);
  double EndOf(const NodePtr& node);  // the host must have waited for `node`
  void HostSawEverything();
  // Advances the host's simulated time.
  void Spend(double microseconds) { host_time_ += microseconds; }
  // With the option "host_costs", advances the host's simulated time for a call
  // that prepares work. The times of several threads add up. If the option is
  // 2, the call also sleeps for this time; see Call.
  void Prepare(int64_t microseconds);
  uint64_t Random() { return random_(); }

 private:
  struct Info {
    uint32_t chain, sequence;
    std::string name;
  };

  Machine();
  static IosHostBuffer* Find(const void* pointer, unsigned long bytes,
                             bool write);
  Buffer* FindBuffer(const void* pointer, size_t bytes, bool write);
  void Touch(const void* pointer, size_t bytes, bool write);
  void RunOne();
  void Execute(const NodePtr& node);
  void Account(const Node& node);
  void AccountBuffer(const Node& node, Buffer* buffer);
  void Visit(const Node& node, Buffer* buffer, size_t begin, size_t end,
             bool write);
  bool Before(uint32_t id, const Node& node) const;
  uint32_t AddReader(uint32_t readers, const Node& node);

  std::map<std::string, int64_t> options_;
  std::map<std::string, int> planted_;
  std::vector<std::string> violations_;
  std::map<std::string, int64_t> counts_;
  std::map<std::string, std::set<const void*>> live_;

  std::map<uintptr_t, std::unique_ptr<Buffer>> buffers_;
  int64_t allocated_ = 0;
  int allocations_ = 0;
  IosHostTracker tracker_ = {};
  std::vector<uintptr_t> freed_;  // freed addresses that are not yet reused
  const Node* running_ = nullptr;

  std::vector<uint32_t> sequences_;  // number of nodes of each chain
  std::vector<uint32_t> retired_;
  std::vector<Info> infos_;
  std::vector<std::vector<uint32_t>> reader_sets_;
  // A cache for the running node: maps each set of readers to the set that also
  // contains this node. The numbers are indices in reader_sets_.
  std::unordered_map<uint32_t, uint32_t> with_reader_;
  std::vector<NodePtr> ready_;
  size_t pending_ = 0;
  int policy_ = 0;
  Clock host_clock_;
  double host_time_ = 0;
  Timeline timeline_;
  std::mt19937_64 random_;
};

// A call into the libraries. It holds the machine's mutex, and sleeps at its
// end for the time that Machine::Prepare() adds. It sleeps without the mutex,
// so several threads can sleep at the same time, as if each had a core.
class Call {
 public:
  explicit Call(Machine* machine);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

 private:
  Machine* const machine_;
};

// Enqueues work on a stream of the driver, or adds it to the stream's capture.
// The fake cuDNN calls this function.
CUresult EnqueueOn(CUstream stream, Work work);
// Returns whether work that is enqueued on the stream is captured.
bool IsCaptured(CUstream stream);
// Returns true if the calling thread must not make this call now, because a
// stream is being captured. In that case, reports a violation.
bool ForbiddenWhileCapturing(const char* call);
// Returns the calling thread's context. If there is none, reports a violation
// and returns null.
CUcontext CurrentContext(const char* call);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_MACHINE_H_
