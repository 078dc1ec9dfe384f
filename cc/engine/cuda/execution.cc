#include "cc/engine/cuda/execution.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/driver/graph_capture.h"
#include "cc/engine/cuda/lane_set.h"
#include "cc/engine/cuda/slices.h"

namespace ios::cuda {
namespace {

// The largest number of instances of an execution. More callers share instances
// and wait for the GPU.
constexpr size_t kMaxInstances = 16;
// The largest number of graphs of an instance. If there are this many, a new
// graph replaces the least recently used one.
constexpr size_t kMaxGraphs = 8;
// The number of recent sets of input and output pointers that are remembered,
// to find those that recur. A graph that was not used for this many runs may be
// replaced.
constexpr int64_t kMaxSeen = 64;
// After this many runs with new pointers, the instance uses a graph with
// copies, because pointers apparently do not recur.
constexpr int64_t kMaxEagerRuns = 16;

constexpr uintptr_t kPointerAlignment = 16;

// Finds the element for which `match` is true and moves it to the front of a
// list, whose most recent element comes first. Returns false if no element
// matches.
template <typename T, typename Match>
bool MoveToFront(std::list<T>* list, const Match& match) {
  const auto found = std::find_if(list->begin(), list->end(), match);
  if (found == list->end()) return false;
  list->splice(list->begin(), *list, found);
  return true;
}

template <typename T>
void PushFront(std::list<T>* list, T value, size_t max_size) {
  list->push_front(std::move(value));
  if (list->size() > max_size) list->pop_back();
}

using Pointers = std::vector<const void*>;  // inputs, then outputs

std::atomic<int64_t> failed_captures{0};

// Decides when to try to capture a graph. A failure may be temporary, so the
// next attempt comes some runs later. Each further failure doubles the number
// of these runs.
class CapturePolicy {
 public:
  bool IsDue() {
    if (runs_to_wait_ == 0) return true;
    --runs_to_wait_;
    return false;
  }

  void Succeeded() { patience_ = kFirstWait; }

  void Failed(const Status& why) {
    if (failed_captures++ == 0) {
      fprintf(
          stderr,
          "ios_tf: cannot create a CUDA graph, so work is enqueued kernel by "
          "kernel until a graph can be created: %s\n",
          why.message().c_str());
    }
    runs_to_wait_ = patience_;
    patience_ = std::min(2 * patience_, kLongestWait);
  }

 private:
  // The shortest and the longest wait before the next attempt, in runs.
  static constexpr int kFirstWait = 16;
  static constexpr int kLongestWait = 4096;

  int runs_to_wait_ = 0;
  int patience_ = kFirstWait;
};

// Memory, lanes and graphs for one caller at a time.
class Instance {
 public:
  Instance(const Device* device, const BoundSchedule& schedule)
      : device_(device), schedule_(schedule) {}

  ~Instance() {
    if (used_) device_->driver().cuEventSynchronize(done_.get());
  }

  // Must be called once, before all other methods.
  Status Initialize(const LaneNeeds& needs) {
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> arena,
                         device_->Allocate(schedule_.arena_bytes));
    IOS_ASSIGN_OR_RETURN(LaneSet lanes, LaneSet::Create(device_, needs));
    IOS_ASSIGN_OR_RETURN(Stream capture_stream, MakeStream(device_));
    IOS_ASSIGN_OR_RETURN(done_, MakeEvent(device_, /*timing=*/false));
    bytes_ = schedule_.arena_bytes + needs.bytes();
    arena_ = std::move(arena);
    lanes_ = std::make_unique<LaneSet>(std::move(lanes));
    capture_stream_ = std::move(capture_stream);
    return Status();
  }

  // Returns whether the instance's last run has finished on the GPU. True if it
  // never ran.
  bool Free() const {
    return !used_ ||
           device_->driver().cuEventQuery(done_.get()) == CUDA_SUCCESS;
  }

  // Returns the number of bytes of device memory. Thread-safe.
  int64_t bytes() const { return bytes_; }

  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, CUstream stream) {
    if (used_) {
      // Waiting costs nothing if the last run was on the same stream.
      IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamWaitEvent, stream, done_.get(),
                               0);
    }
    const Status status =
        CatchExceptions([&] { return Launch(inputs, outputs, stream); });
    // The event is recorded even after a failure, because a part of the work
    // may be enqueued.
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, done_.get(), stream);
    used_ = true;
    return status;
  }

  // The next two members belong to CudaExecution, whose mutex guards them.
  bool in_use = false;             // a caller is enqueueing
  std::optional<CUstream> stream;  // of the last caller

 private:
  struct CachedGraph {
    Pointers pointers;
    GraphExec exec;
    int64_t last_run = 0;
  };

  // The memory for a graph with copies: each run copies the inputs from the
  // caller's memory, and the outputs back to the caller's memory.
  struct Staging {
    std::vector<std::shared_ptr<void>> memory;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    GraphExec exec;
  };

  std::vector<void*> Tensors(const std::vector<const void*>& inputs,
                             const std::vector<void*>& outputs) const {
    std::vector<void*> tensors;
    tensors.reserve(schedule_.tensors.size());
    for (const TensorLocation& location : schedule_.tensors) {
      tensors.push_back(location.In(inputs, outputs, arena_.get()));
    }
    return tensors;
  }

  // Runs the schedule. For new pointers, the kernels are enqueued one by one,
  // because a graph is worth its time only for pointers that recur. If too many
  // pointers recur, or if they are always new, one graph with copies (see
  // Staging) is used.
  Status Launch(const std::vector<const void*>& inputs,
                const std::vector<void*>& outputs, CUstream stream) {
    ++runs_;
    Pointers pointers = inputs;
    pointers.insert(pointers.end(), outputs.begin(), outputs.end());
    if (MoveToFront(&graphs_, [&](const CachedGraph& graph) {
          return graph.pointers == pointers;
        })) {
      return LaunchFirst(stream);
    }
    const bool known = MoveToFront(
        &seen_, [&](const Pointers& other) { return other == pointers; });
    if (!known) PushFront(&seen_, pointers, kMaxSeen);
    const bool room = graphs_.size() < kMaxGraphs ||
                      runs_ - graphs_.back().last_run > kMaxSeen;
    const bool own = known && room;
    if (own || known || staging_ || eager_runs_ >= kMaxEagerRuns) {
      if (policy_.IsDue()) {
        const Status prepared =
            own ? AddGraph(std::move(pointers), inputs, outputs) : Stage();
        if (prepared.ok()) {
          policy_.Succeeded();
          return own ? LaunchFirst(stream)
                     : LaunchStaged(inputs, outputs, stream);
        }
        policy_.Failed(prepared);
      }
    }
    ++eager_runs_;
    return lanes_->Enqueue(schedule_.stages, Tensors(inputs, outputs), stream,
                           schedule_.info.get());
  }

  StatusOr<GraphExec> Capture(const std::vector<const void*>& inputs,
                              const std::vector<void*>& outputs) const {
    const std::vector<void*> tensors = Tensors(inputs, outputs);
    return CaptureGraph(device_, capture_stream_.get(), [&](CUstream capture) {
      return lanes_->Enqueue(schedule_.stages, tensors, capture,
                             schedule_.info.get());
    });
  }

  Status AddGraph(Pointers pointers, const std::vector<const void*>& inputs,
                  const std::vector<void*>& outputs) {
    IOS_ASSIGN_OR_RETURN(GraphExec exec, Capture(inputs, outputs));
    PushFront(&graphs_, {std::move(pointers), std::move(exec)}, kMaxGraphs);
    return Status();
  }

  // Launches the graph that was used or made last.
  Status LaunchFirst(CUstream stream) {
    graphs_.front().last_run = runs_;
    IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphLaunch, graphs_.front().exec.get(),
                             stream);
    return Status();
  }

  // Allocates staging_ if it does not exist yet.
  Status Stage() {
    if (staging_) return Status();
    auto staging = std::make_unique<Staging>();
    const auto allocate = [&](int64_t bytes) -> StatusOr<void*> {
      if (bytes == 0) return static_cast<void*>(nullptr);
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                           device_->Allocate(bytes));
      staging->memory.push_back(std::move(memory));
      return staging->memory.back().get();
    };
    for (int64_t bytes : schedule_.input_bytes) {
      IOS_ASSIGN_OR_RETURN(void* const input, allocate(bytes));
      staging->inputs.push_back(input);
    }
    for (int64_t bytes : schedule_.output_bytes) {
      IOS_ASSIGN_OR_RETURN(void* const output, allocate(bytes));
      staging->outputs.push_back(output);
    }
    IOS_ASSIGN_OR_RETURN(staging->exec,
                         Capture(staging->inputs, staging->outputs));
    for (const auto* of_arrays :
         {&schedule_.input_bytes, &schedule_.output_bytes}) {
      for (int64_t bytes : *of_arrays) bytes_ += bytes;
    }
    staging_ = std::move(staging);
    return Status();
  }

  Status LaunchStaged(const std::vector<const void*>& inputs,
                      const std::vector<void*>& outputs, CUstream stream) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      IOS_RETURN_IF_ERROR(Copy(inputs[i], schedule_.input_bytes[i],
                               const_cast<void*>(staging_->inputs[i]), stream));
    }
    IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphLaunch, staging_->exec.get(),
                             stream);
    for (size_t i = 0; i < outputs.size(); ++i) {
      IOS_RETURN_IF_ERROR(Copy(staging_->outputs[i], schedule_.output_bytes[i],
                               outputs[i], stream));
    }
    return Status();
  }

  Status Copy(const void* from, int64_t bytes, void* to,
              CUstream stream) const {
    if (bytes == 0) return Status();
    IOS_CUDA_RETURN_IF_ERROR(
        device_, cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(to),
        reinterpret_cast<CUdeviceptr>(from), bytes, stream);
    return Status();
  }

  const Device* const device_;
  const BoundSchedule& schedule_;
  std::shared_ptr<void> arena_;
  std::unique_ptr<LaneSet> lanes_;
  Stream capture_stream_;
  std::list<CachedGraph> graphs_;  // most recent first
  std::list<Pointers> seen_;       // most recent first
  std::unique_ptr<Staging> staging_;
  CapturePolicy policy_;
  int64_t runs_ = 0, eager_runs_ = 0;
  Event done_;  // recorded after the last run
  bool used_ = false;
  std::atomic<int64_t> bytes_{0};
};

class CudaExecution : public Execution {
 public:
  CudaExecution(const Device* device, BoundSchedule schedule,
                std::vector<std::unique_ptr<Task>> tasks)
      : device_(device),
        tasks_(std::move(tasks)),
        schedule_(std::move(schedule)) {
    needs_.Add(schedule_.stages);
  }

  ~CudaExecution() override {
    const Device::Scope scope(device_);
    instances_.clear();
  }

  Status Initialize() {
    const Device::Scope scope(device_);
    return instances_.emplace_back(device_, schedule_).Initialize(needs_);
  }

  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, void* stream) override {
    for (const void* input : inputs) IOS_RETURN_IF_ERROR(Check(input));
    for (const void* output : outputs) IOS_RETURN_IF_ERROR(Check(output));
    const Device::Scope scope(device_);
    const auto cuda_stream = static_cast<CUstream>(stream);
    Instance* const instance = Acquire(cuda_stream);
    const Device::Range range(device_, schedule_.info->region);
    // Runs at the end of the scope, even if a task throws an exception.
    const auto release = [this](Instance* used) {
      std::lock_guard<std::mutex> lock(mutex_);
      used->in_use = false;
      released_.notify_all();  // each waiting call may need another instance
    };
    const std::unique_ptr<Instance, decltype(release)> released(instance,
                                                                release);
    return instance->Run(inputs, outputs, cuda_stream);
  }

  int64_t bytes() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t bytes = 0;
    for (const Instance& instance : instances_) bytes += instance.bytes();
    return bytes;
  }

 private:
  static Status Check(const void* pointer) {
    if (reinterpret_cast<uintptr_t>(pointer) % kPointerAlignment == 0) {
      return Status();
    }
    return InvalidArgument("a tensor's address is not aligned to " +
                           std::to_string(kPointerAlignment) + " bytes");
  }

  // Returns the instance that ran last on `stream`. If another caller is
  // enqueueing with this instance, waits for that caller: the stream runs the
  // work of both callers in order anyway. If no instance ran last on `stream`,
  // returns the first that exists of these: an instance whose run has finished,
  // a new instance, any other instance (Instance::Run makes its runs wait for
  // each other).
  Instance* Acquire(CUstream stream) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool room = true;  // for one more instance
    while (true) {
      Instance* own = nullptr;
      Instance* idle = nullptr;
      for (Instance& instance : instances_) {
        if (instance.stream == stream) own = &instance;
        if (instance.in_use) continue;
        // Prefers an idle instance (one that no caller is enqueueing with)
        // whose run has finished.
        if (!idle || (!idle->Free() && instance.Free())) idle = &instance;
      }
      if (own && !own->in_use) return Take(own, stream);
      if (!own && idle && idle->Free()) return Take(idle, stream);
      if (!own && room && instances_.size() < kMaxInstances) {
        if (Instance* const made = Make(stream, &lock)) return made;
        room = false;
        continue;  // share an instance; the list may have changed
      }
      if (!own && idle) return Take(idle, stream);
      released_.wait(lock);
    }
  }

  // Makes a new instance, which is in use at once. Returns null if that fails,
  // for example for lack of memory. Releases the mutex while the instance is
  // initialized.
  Instance* Make(CUstream stream, std::unique_lock<std::mutex>* lock) {
    Instance& instance = instances_.emplace_back(device_, schedule_);
    const auto made = std::prev(instances_.end());
    Take(&instance, stream);
    lock->unlock();
    const Status status = instance.Initialize(needs_);
    lock->lock();
    if (status.ok()) return &instance;
    instances_.erase(made);
    released_.notify_all();
    return nullptr;
  }

  static Instance* Take(Instance* instance, CUstream stream) {
    instance->in_use = true;
    instance->stream = stream;
    return instance;
  }

  const Device* const device_;
  const std::vector<std::unique_ptr<Task>> tasks_;  // see JoinSlices()
  const BoundSchedule schedule_;
  LaneNeeds needs_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::list<Instance> instances_;  // a list keeps their addresses
};

}  // namespace

int64_t FailedCaptures() { return failed_captures; }

StatusOr<std::unique_ptr<Execution>> LoadExecution(const Device* device,
                                                   BoundSchedule schedule) {
  std::vector<std::unique_ptr<Task>> tasks;
  {
    const Device::Scope scope(device);
    IOS_ASSIGN_OR_RETURN(tasks, JoinSlices(device, &schedule.stages));
  }
  auto execution = std::make_unique<CudaExecution>(device, std::move(schedule),
                                                   std::move(tasks));
  IOS_RETURN_IF_ERROR(execution->Initialize());
  return std::unique_ptr<Execution>(std::move(execution));
}

}  // namespace ios::cuda
