#include "cc/engine/cuda/driver/device.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace ios::cuda {
namespace {

// The compute capability (7.0, times 10) of the oldest GPUs for which cuDNN 9
// supports runtime fusion of convolutions with channels last.
constexpr int kMinComputeCapability = 70;

}  // namespace

Status ToStatus(const Driver& driver, CUresult result, const char* what) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  const StatusCode code = result == CUDA_ERROR_OUT_OF_MEMORY
                              ? StatusCode::kResourceExhausted
                              : StatusCode::kInternal;
  return Status(code, std::string(what) +
                          " failed: " + (text ? text : "unknown error") + " (" +
                          (name ? name : std::to_string(result)) + ")");
}

StatusOr<Device*> Device::Get(int ordinal, DeviceAllocator* allocator) {
  static std::mutex mutex;
  using Key = std::pair<int, DeviceAllocator*>;
  static auto* devices = new std::map<Key, Device*>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto known = devices->find({ordinal, allocator});
  if (known != devices->end()) return known->second;

  std::unique_ptr<Device> device(new Device);
  device->allocator_ = allocator;
  IOS_ASSIGN_OR_RETURN(device->libraries_, Libraries::Get());
  IOS_CUDA_RETURN_IF_ERROR(device, cuInit, 0);
  int count = 0;
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetCount, &count);
  if (ordinal < 0 || ordinal >= count) {
    return NotFound("there is no GPU " + std::to_string(ordinal) +
                    ". GPUs are numbered from 0, and the number of GPUs is " +
                    std::to_string(count));
  }
  device->ordinal_ = ordinal;
  CUdevice handle;
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGet, &handle, ordinal);
  char name[256] = "";
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetName, name, sizeof(name), handle);
  device->name_ = name;
  int major = 0, minor = 0;
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetAttribute, &major,
                           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                           handle);
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetAttribute, &minor,
                           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                           handle);
  device->compute_capability_ = 10 * major + minor;
  if (device->compute_capability_ < kMinComputeCapability) {
    return FailedPrecondition(
        device->name_ + " has compute capability " + std::to_string(major) +
        "." + std::to_string(minor) + ", but IOS-TF needs 7.0 or above");
  }
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetAttribute,
                           &device->multiprocessors_,
                           CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle);
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceGetAttribute,
                           &device->l2_cache_bytes_,
                           CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle);
  IOS_CUDA_RETURN_IF_ERROR(device, cuDeviceTotalMem, &device->memory_bytes_,
                           handle);
  IOS_CUDA_RETURN_IF_ERROR(device, cuDriverGetVersion,
                           &device->driver_version_);
  // Uses the primary context, as TensorFlow and the CUDA runtime do.
  IOS_CUDA_RETURN_IF_ERROR(device, cuDevicePrimaryCtxRetain, &device->context_,
                           handle);
  const Scope scope(device.get());
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamCreate, &device->lasting_stream_,
                           CU_STREAM_NON_BLOCKING);
  return (*devices)[{ordinal, allocator}] = device.release();
}

StatusOr<std::shared_ptr<void>> Device::Allocate(int64_t bytes) const {
  const auto cannot = [&](const Status& why) {
    return Status(why.code(), "cannot allocate " + std::to_string(bytes) +
                                  " bytes on " + name_ + ": " + why.message());
  };
  const Scope scope(this);
  const int64_t at_least_one = std::max<int64_t>(bytes, 1);
  if (allocator_) {
    void* const memory = allocator_->Allocate(at_least_one);
    if (!memory) return cannot(ResourceExhausted("out of memory"));
    return std::shared_ptr<void>(
        memory, [lender = allocator_](void* lent) { lender->Free(lent); });
  }
  CUdeviceptr pointer = 0;
  const CUresult result = driver().cuMemAlloc(&pointer, at_least_one);
  if (result != CUDA_SUCCESS) {
    return cannot(ToStatus(driver(), result, "cuMemAlloc"));
  }
  return std::shared_ptr<void>(
      reinterpret_cast<void*>(pointer), [this](void* memory) {
        const Scope scope(this);
        driver().cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
      });
}

Status Device::Upload(const void* host, int64_t bytes, void* memory) const {
  if (bytes == 0) return Status();
  const Scope scope(this);
  IOS_CUDA_RETURN_IF_ERROR(this, cuMemcpyHtoDAsync,
                           reinterpret_cast<CUdeviceptr>(memory), host, bytes,
                           lasting_stream_);
  IOS_CUDA_RETURN_IF_ERROR(this, cuStreamSynchronize, lasting_stream_);
  return Status();
}

StatusOr<Stream> MakeStream(const Device* device) {
  CUstream stream = nullptr;
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamCreate, &stream,
                           CU_STREAM_NON_BLOCKING);
  return Stream(device, stream);
}

StatusOr<Event> MakeEvent(const Device* device, bool timing) {
  CUevent event = nullptr;
  IOS_CUDA_RETURN_IF_ERROR(device, cuEventCreate, &event,
                           timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  return Event(device, event);
}

}  // namespace ios::cuda
