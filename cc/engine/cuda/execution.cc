#include "cc/engine/cuda/execution.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/lane_set.h"

namespace ios::cuda {
namespace {

// Contexts an execution has at most; further callers wait for the GPU.
constexpr size_t kMaxContexts = 16;
// Graphs a context keeps; more evict the least recently used.
constexpr size_t kMaxGraphs = 8;
// Input and output pointers remembered: what comes back is worth a graph.
constexpr size_t kMaxSeen = 64;

constexpr uintptr_t kPointerAlignment = 16;

// Finds `key` in a most-recent-first list and moves it to the front.
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

// Memory, lanes and graphs of one caller at a time.
class Context {
 public:
  static StatusOr<std::unique_ptr<Context>> Create(const Device* device,
                                                   const Work& work,
                                                   const LaneNeeds& needs) {
    std::unique_ptr<Context> context(new Context(device, work));
    IOS_ASSIGN_OR_RETURN(context->arena_, device->Allocate(work.arena_bytes));
    IOS_ASSIGN_OR_RETURN(LaneSet lanes, LaneSet::Create(device, needs));
    context->lanes_ = std::make_unique<LaneSet>(std::move(lanes));
    IOS_ASSIGN_OR_RETURN(context->capture_stream_, MakeStream(device));
    IOS_ASSIGN_OR_RETURN(context->done_, MakeEvent(device, /*timing=*/false));
    return context;
  }

  ~Context() {
    if (used_) device_->driver().cuEventSynchronize(done_.get());
  }

  // Whether its last run, if any, is over.
  bool Free() const {
    return !used_ || device_->driver().cuEventQuery(done_.get()) == CUDA_SUCCESS;
  }

  // `captures` is set to false when capturing does not work.
  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, CUstream stream,
             std::atomic<bool>* captures) {
    if (used_) {
      // Costs nothing where the last run was on the same stream.
      IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamWaitEvent, stream, done_.get(),
                               0);
    }
    const Status status = Launch(inputs, outputs, stream, captures);
    // Also after a failure: part of the work may be enqueued.
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, done_.get(), stream);
    used_ = true;
    return status;
  }

 private:
  struct CachedGraph {
    Pointers pointers;
    GraphExec exec;
  };

  Context(const Device* device, const Work& work)
      : device_(device), work_(work) {}

  std::vector<void*> Tensors(const std::vector<const void*>& inputs,
                             const std::vector<void*>& outputs) const {
    std::vector<void*> tensors;
    tensors.reserve(work_.tensors.size());
    for (const TensorLocation& location : work_.tensors) {
      tensors.push_back(location.In(inputs, outputs, arena_.get()));
    }
    return tensors;
  }

  // Pointers that are new run eagerly: a graph takes many runs' time to make, and
  // is only worth it if they come back.
  Status Launch(const std::vector<const void*>& inputs,
                const std::vector<void*>& outputs, CUstream stream,
                std::atomic<bool>* captures) {
    if (!*captures) {
      return lanes_->Enqueue(work_.stages, Tensors(inputs, outputs), stream);
    }
    Pointers pointers = inputs;
    pointers.insert(pointers.end(), outputs.begin(), outputs.end());
    if (!MoveToFront(&graphs_, [&](const CachedGraph& graph) {
          return graph.pointers == pointers;
        })) {
      const std::vector<void*> tensors = Tensors(inputs, outputs);
      const bool known = MoveToFront(
          &seen_, [&](const Pointers& other) { return other == pointers; });
      if (!known) {
        PushFront(&seen_, std::move(pointers), kMaxSeen);
        return lanes_->Enqueue(work_.stages, tensors, stream);
      }
      StatusOr<GraphExec> exec = CaptureGraph(
          device_, capture_stream_.get(), [&](CUstream capture) {
            return lanes_->Enqueue(work_.stages, tensors, capture);
          });
      if (!exec.ok()) {
        *captures = false;
        return lanes_->Enqueue(work_.stages, tensors, stream);
      }
      PushFront(&graphs_, {std::move(pointers), std::move(*exec)}, kMaxGraphs);
    }
    IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphLaunch,
                             graphs_.front().exec.get(), stream);
    return Status();
  }

  const Device* const device_;
  const Work& work_;
  std::shared_ptr<void> arena_;
  std::unique_ptr<LaneSet> lanes_;
  Stream capture_stream_;
  std::list<CachedGraph> graphs_;  // most recent first
  std::list<Pointers> seen_;       // most recent first
  Event done_;                     // after the last run
  bool used_ = false;
};

class CudaExecution : public Execution {
 public:
  CudaExecution(const Device* device, Work work)
      : device_(device), work_(std::move(work)) {
    needs_.Add(work_.stages);
  }

  ~CudaExecution() override {
    const Device::Scope scope(device_);
    contexts_.clear();
  }

  Status Initialize() {
    const Device::Scope scope(device_);
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<Context> context,
                         Context::Create(device_, work_, needs_));
    contexts_.emplace_back();
    contexts_.back().context = std::move(context);
    return Status();
  }

  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, void* stream) override {
    for (const void* input : inputs) IOS_RETURN_IF_ERROR(Check(input));
    for (const void* output : outputs) IOS_RETURN_IF_ERROR(Check(output));
    const Device::Scope scope(device_);
    const auto cuda_stream = static_cast<CUstream>(stream);
    Slot* const slot = Acquire(cuda_stream);
    const Status status =
        slot->context->Run(inputs, outputs, cuda_stream, &captures_);
    std::lock_guard<std::mutex> lock(mutex_);
    slot->in_use = false;
    released_.notify_all();  // each may wait for another one
    return status;
  }

 private:
  struct Slot {
    std::unique_ptr<Context> context;  // null while it is made
    bool in_use = false;               // by a caller that enqueues
    std::optional<CUstream> stream;    // of the last caller
  };

  static Status Check(const void* pointer) {
    if (reinterpret_cast<uintptr_t>(pointer) % kPointerAlignment == 0) {
      return Status();
    }
    return InvalidArgument("a tensor's address is not aligned to " +
                           std::to_string(kPointerAlignment) + " bytes");
  }

  // The context that ran on the same stream last, even if another caller enqueues
  // there at the moment: the stream runs one after the other anyway. For another
  // stream one whose run is over; a new one; any other. Runs on the GPU are put in
  // order by Context::Run.
  Slot* Acquire(CUstream stream) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool room = true;  // for one more
    while (true) {
      Slot* own = nullptr;
      Slot* idle = nullptr;
      for (Slot& slot : contexts_) {
        if (slot.stream == stream) own = &slot;
        if (slot.in_use) continue;
        // The one idle for longest, unless one is free.
        if (!idle || (!idle->context->Free() && slot.context->Free())) {
          idle = &slot;
        }
      }
      if (own && !own->in_use) return Take(own, stream);
      if (!own && idle && idle->context->Free()) return Take(idle, stream);
      if (!own && room && contexts_.size() < kMaxContexts) {
        if (Slot* const made = Make(stream, &lock)) return made;
        room = false;
        continue;  // share what there is, which may have changed
      }
      if (!own && idle) return Take(idle, stream);
      released_.wait(lock);
    }
  }

  // A new context; null if there is no memory for one more. The mutex is free
  // while it is made.
  Slot* Make(CUstream stream, std::unique_lock<std::mutex>* lock) {
    contexts_.emplace_back();
    const auto slot = std::prev(contexts_.end());
    Take(&*slot, stream);
    lock->unlock();
    StatusOr<std::unique_ptr<Context>> context =
        Context::Create(device_, work_, needs_);
    lock->lock();
    if (context.ok()) {
      slot->context = std::move(*context);
      return &*slot;
    }
    contexts_.erase(slot);
    released_.notify_all();
    return nullptr;
  }

  static Slot* Take(Slot* slot, CUstream stream) {
    slot->in_use = true;
    slot->stream = stream;
    return slot;
  }

  const Device* const device_;
  const Work work_;
  LaneNeeds needs_;
  std::atomic<bool> captures_{true};
  std::mutex mutex_;
  std::condition_variable released_;
  std::list<Slot> contexts_;  // a list: slots stay where they are
};

}  // namespace

StatusOr<std::unique_ptr<Execution>> LoadExecution(const Device* device,
                                                   Work work) {
  auto execution = std::make_unique<CudaExecution>(device, std::move(work));
  IOS_RETURN_IF_ERROR(execution->Initialize());
  return std::unique_ptr<Execution>(std::move(execution));
}

}  // namespace ios::cuda
