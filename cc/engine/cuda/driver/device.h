// A GPU, and classes that own objects of the CUDA driver (streams, events,
// graphs).
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_DEVICE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_DEVICE_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"
#include "cc/engine/cuda/driver/libraries.h"

namespace ios::cuda {

// Returns the error of a driver call `what` that failed with `result`, for
// example "cuMemAlloc failed: out of memory (…)". The code is ResourceExhausted
// if memory ran out.
Status ToStatus(const Driver& driver, CUresult result, const char* what);

#define IOS_CUDA_RETURN_IF_ERROR(device, function, ...)                    \
  do {                                                                     \
    const CUresult ios_result_ = (device)->driver().function(__VA_ARGS__); \
    if (ios_result_ != CUDA_SUCCESS) {                                     \
      return ::ios::cuda::ToStatus((device)->driver(), ios_result_,        \
                                   #function);                             \
    }                                                                      \
  } while (0)

class Device {
 public:
  // Returns GPU number `ordinal` with its primary context. Memory comes from
  // `allocator`, or from the driver if `allocator` is null. The process has one
  // Device per pair of ordinal and allocator. Objects that are never destroyed,
  // such as KernelCache, exist once per ordinal. Returns NotFound if the
  // machine has fewer GPUs, and FailedPrecondition if libraries are missing or
  // the GPU's compute capability is below 7.0.
  static StatusOr<Device*> Get(int ordinal, DeviceAllocator* allocator);

  const Libraries& libraries() const { return *libraries_; }
  const Driver& driver() const { return libraries_->driver; }
  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  int compute_capability() const { return compute_capability_; }  // 90
  int multiprocessors() const { return multiprocessors_; }
  int64_t l2_cache_bytes() const { return l2_cache_bytes_; }
  int64_t memory_bytes() const { return memory_bytes_; }  // of the whole GPU
  // Returns the major version of the CUDA that the driver supports, for example
  // 13. Caches are valid for this version, so that an update of the driver
  // rarely empties them.
  int cuda_major() const { return driver_version_ / 1000; }
  CUcontext context() const { return context_; }
  // Returns a stream that is never destroyed. The default stream is not used,
  // because it would wait for all blocking streams of the process and disturb
  // captures of other threads.
  CUstream lasting_stream() const { return lasting_stream_; }

  // Makes the device's context current for this thread while the scope exists.
  class Scope {
   public:
    explicit Scope(const Device* device)
        : device_(device),
          entered_(device->driver().cuCtxPushCurrent(device->context_) ==
                   CUDA_SUCCESS) {}
    ~Scope() {
      CUcontext context;
      if (entered_) device_->driver().cuCtxPopCurrent(&context);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // Returns false if the driver has shut down, as at the end of the process.
    bool entered() const { return entered_; }

   private:
    const Device* const device_;
    const bool entered_;
  };

  // Names the work that the calling thread enqueues while the range exists, for
  // NVIDIA's profilers.
  class Range {
   public:
    Range(const Device* device, const std::string& name)
        : nvtx_(device->libraries().nvtx) {
      if (nvtx_.push) nvtx_.push(name.c_str());
    }
    ~Range() {
      if (nvtx_.push) nvtx_.pop();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const Nvtx& nvtx_;
  };

  // Allocates `bytes` bytes of device memory, aligned to at least 256 bytes.
  // The memory is freed with the last pointer to it. A ResourceExhausted error
  // says how much was requested.
  StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) const;

  // Copies from host memory to device memory. When the call returns, all
  // streams see the result.
  Status Upload(const void* host, int64_t bytes, void* memory) const;

 private:
  Device() = default;

  const Libraries* libraries_ = nullptr;
  DeviceAllocator* allocator_ = nullptr;
  CUcontext context_ = nullptr;
  CUstream lasting_stream_ = nullptr;
  int ordinal_ = 0;
  std::string name_;
  int compute_capability_ = 0;
  int multiprocessors_ = 0;
  int l2_cache_bytes_ = 0;
  size_t memory_bytes_ = 0;
  int driver_version_ = 0;  // 13000: CUDA 13.0
};

// Owns a driver object and destroys it in its device's context.
template <typename T, auto Driver::* Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(const Device* device, T value) : device_(device), value_(value) {}
  Handle(Handle&& other) noexcept { *this = std::move(other); }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (!value_) return;
    const Device::Scope scope(device_);
    (device_->driver().*Destroy)(value_);
  }

  T get() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }

 private:
  const Device* device_ = nullptr;
  T value_ = nullptr;
};

using Stream = Handle<CUstream, &Driver::cuStreamDestroy>;
using Event = Handle<CUevent, &Driver::cuEventDestroy>;
using Module = Handle<CUmodule, &Driver::cuModuleUnload>;
using Graph = Handle<CUgraph, &Driver::cuGraphDestroy>;
using GraphExec = Handle<CUgraphExec, &Driver::cuGraphExecDestroy>;

// Makes a stream that does not wait for the default stream.
StatusOr<Stream> MakeStream(const Device* device);
// Makes an event. If `timing`, it can be used for cuEventElapsedTime.
StatusOr<Event> MakeEvent(const Device* device, bool timing);

// Waits for a stream in its destructor, so that memory is not in use when it is
// freed, even after a failure.
class FinishAtEnd {
 public:
  FinishAtEnd(const Device* device, CUstream stream)
      : device_(device), stream_(stream) {}
  ~FinishAtEnd() { device_->driver().cuStreamSynchronize(stream_); }
  FinishAtEnd(const FinishAtEnd&) = delete;
  FinishAtEnd& operator=(const FinishAtEnd&) = delete;

 private:
  const Device* const device_;
  const CUstream stream_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_DEVICE_H_
