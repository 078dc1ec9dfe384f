#include "cc/engine/cuda/cudnn/cudnn_handle.h"

#include <dlfcn.h>

#include <map>
#include <utility>
#include <vector>

#include "cc/engine/cuda/cudnn/frontend.h"

namespace ios::cuda {
namespace {

// A device's cuDNN handles that callers have given back. They are never
// destroyed.
class Handles {
 public:
  static StatusOr<Handles*> Get(const Device* device) {
    static std::mutex mutex;
    static auto* all = new std::map<int, std::unique_ptr<Handles>>;
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Handles>& handles = (*all)[device->ordinal()];
    if (handles) return handles.get();
    // Is written only once, because threads that use another device read it.
    if (!fe::cudnn_dlhandle) fe::cudnn_dlhandle = device->libraries().cudnn;
    // The first handle is created while the mutex is locked: NVIDIA recommends
    // that a process creates its first handle before several threads do so.
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<CudnnHandle> first,
                         CudnnHandle::Create());
    handles.reset(new Handles(device));
    handles->free_.push_back(std::move(first));
    return handles.get();
  }

  // Returns a handle that only the caller uses until the last pointer to it is
  // destroyed.
  StatusOr<std::shared_ptr<CudnnHandle>> Take() {
    std::unique_ptr<CudnnHandle> handle;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        handle = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!handle) {
      IOS_ASSIGN_OR_RETURN(handle, CudnnHandle::Create());
    }
    return std::shared_ptr<CudnnHandle>(
        handle.release(), [this](CudnnHandle* back) {
          // The handle must not refer to its last stream, which the caller may
          // destroy.
          const Device::Scope scope(device_);
          if (scope.entered()) {
            (void)back->With(device_->lasting_stream(),
                             [](cudnnHandle_t) { return Status(); });
          }
          std::lock_guard<std::mutex> lock(mutex_);
          free_.emplace_back(back);
        });
  }

 private:
  explicit Handles(const Device* device) : device_(device) {}

  const Device* const device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudnnHandle>> free_;
};

}  // namespace

StatusOr<std::unique_ptr<CudnnHandle>> CudnnHandle::Create() {
  std::unique_ptr<CudnnHandle> made(new CudnnHandle);
  const cudnnStatus_t status = fe::detail::create_handle(&made->handle_);
  if (status != CUDNN_STATUS_SUCCESS) {
    return ToStatus(status, "cudnnCreate failed");
  }
  return made;
}

Status CudnnHandle::With(CUstream stream,
                         const std::function<Status(cudnnHandle_t)>& function) {
  std::lock_guard<std::mutex> lock(mutex_);
  const cudnnStatus_t status = fe::detail::set_stream(handle_, stream);
  if (status != CUDNN_STATUS_SUCCESS) {
    return ToStatus(status, "cudnnSetStream failed");
  }
  return function(handle_);
}

int64_t CudnnVersion(const Device* device) {
  // Calls cuDNN's function directly, because the frontend would need a handle
  // for this. Libraries::Get() has checked that the function exists.
  return reinterpret_cast<decltype(&cudnnGetVersion)>(
      dlsym(device->libraries().cudnn, "cudnnGetVersion"))();
}

StatusOr<std::shared_ptr<CudnnHandle>> TakeCudnnHandle(const Device* device) {
  IOS_ASSIGN_OR_RETURN(Handles * handles, Handles::Get(device));
  return handles->Take();
}

}  // namespace ios::cuda
