// The fake GPU behind the three fake libraries: runs work late, in a random
// order that streams, events and graphs allow, and checks with vector clocks
// that every two accesses to a byte are ordered.
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
  uint32_t writer = 0;   // a node's id; 0: nobody
  uint32_t readers = 0;  // since then: an index of Machine::reader_sets_
  bool operator==(const Cell& o) const {
    return writer == o.writer && readers == o.readers;
  }
};

struct Buffer : IosHostBuffer {
  std::string name;  // "#3 (1024 bytes)"
  bool live = true;
  int owners = 1;  // more when planted to be shared
  CUcontext context = nullptr;
  std::unique_ptr<char[]> memory;
  std::vector<Cell> cells;
  std::vector<unsigned long> bits;
};

class Machine {
 public:
  static Machine& Get();

  // Held in every call into the libraries.
  std::recursive_mutex mutex;

  // --- options, set by FAKE_CUDA_OPTIONS="name=value,…" or fake_cuda_set().
  int64_t Option(const std::string& name, int64_t otherwise = 0) const;
  void SetOption(const std::string& name, int64_t value);
  void ClearOptions() { options_.clear(); }
  // A mistake to be made once, see fake_cuda_plant.
  void Plant(const std::string& what, int n) { planted_[what] = n; }
  bool Planted(const std::string& what);

  // --- findings
  void Violate(const std::string& text);
  void Count(const std::string& what, int64_t n = 1) { counts_[what] += n; }
  std::string Report() const;
  void Reset();
  // Objects that exist, by kind: "stream", "event", …
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
  // Whether every byte is of live memory; a violation if not.
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
  // The host has seen that `node` is done: what is enqueued from now on comes
  // after.
  void HostSaw(const NodePtr& node);
  double EndOf(const NodePtr& node);  // for which the host has waited
  void HostSawEverything();
  // The host is busy for so many simulated microseconds.
  void Spend(double microseconds) { host_time_ += microseconds; }
  // The same for calls that prepare work, with the option "host_costs". Threads
  // that prepare at once spend their times one after the other.
  void Prepare(int64_t microseconds) {
    if (!Option("host_costs")) return;
    Spend(microseconds);
    Count("host microseconds", microseconds);
  }
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
  std::vector<uintptr_t> freed_;  // addresses that are not given out again yet
  const Node* running_ = nullptr;

  std::vector<uint32_t> sequences_;  // of chains
  std::vector<uint32_t> retired_;
  std::vector<Info> infos_;
  std::vector<std::vector<uint32_t>> reader_sets_;
  // Of the node at hand: sets of readers, and the same with it.
  std::unordered_map<uint32_t, uint32_t> with_reader_;
  std::vector<NodePtr> ready_;
  size_t pending_ = 0;
  int policy_ = 0;
  Clock host_clock_;
  double host_time_ = 0;
  Timeline timeline_;
  std::mt19937_64 random_;
};

// Enqueues work on a stream of the driver, or captures it; what cuDNN uses.
CUresult EnqueueOn(CUstream stream, Work work);
// Whether what is enqueued on the stream is captured.
bool IsCaptured(CUstream stream);
// Whether the calling thread may not do `call` now, as something is captured;
// notes the violation.
bool ForbiddenWhileCapturing(const char* call);
// The calling thread's context; null and a violation if there is none.
CUcontext CurrentContext(const char* call);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_MACHINE_H_
