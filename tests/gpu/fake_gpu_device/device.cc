// A TensorFlow device of type GPU on the fake CUDA driver. With this device,
// kernels for GPUs run on machines without a GPU. Its memory comes from the
// fake driver. All of its work and copies are enqueued on one CUstream.
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/gpu/gpu_id_manager.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/public/session_options.h"
#include "xla/stream_executor/stream.h"

namespace {

using ::stream_executor::DeviceAddressBase;
using ::tensorflow::Allocator;
using ::tensorflow::AllocatorAttributes;
using ::tensorflow::Device;
using ::tensorflow::DeviceContext;
using ::tensorflow::StatusCallback;
using ::tensorflow::Tensor;

#define CHECK_CUDA(call) CHECK_EQ(call, CUDA_SUCCESS) << #call

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Makes the device's primary context current while this object exists.
class Scope {
 public:
  Scope() {
    static const CUcontext context = [] {
      CUcontext retained;
      CHECK_CUDA(cuInit(0));
      CHECK_CUDA(cuDevicePrimaryCtxRetain(&retained, 0));
      return retained;
    }();
    CHECK_CUDA(cuCtxPushCurrent(context));
  }
  ~Scope() {
    CUcontext context;
    CHECK_CUDA(cuCtxPopCurrent(&context));
  }
};

class FakeStream : public stream_executor::Stream {
 public:
  FakeStream() {
    const Scope scope;
    CHECK_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }

  PlatformSpecificHandle platform_specific_handle() const override {
    return {stream_};
  }
  bool ok() const override { return true; }
  absl::Status Memcpy(void* to, const DeviceAddressBase& from,
                      uint64_t size) override {
    const Scope scope;
    CHECK_CUDA(cuMemcpyDtoHAsync(to, Address(from.opaque()), size, stream_));
    return absl::OkStatus();
  }
  absl::Status Memcpy(DeviceAddressBase* to, const void* from,
                      uint64_t size) override {
    const Scope scope;
    CHECK_CUDA(cuMemcpyHtoDAsync(Address(to->opaque()), from, size, stream_));
    return absl::OkStatus();
  }
  absl::Status Memcpy(DeviceAddressBase* to, const DeviceAddressBase& from,
                      uint64_t size) override {
    const Scope scope;
    CHECK_CUDA(cuMemcpyDtoDAsync(Address(to->opaque()), Address(from.opaque()),
                                 size, stream_));
    return absl::OkStatus();
  }
  absl::Status BlockHostUntilDone() override {
    const Scope scope;
    CHECK_CUDA(cuStreamSynchronize(stream_));
    return absl::OkStatus();
  }

  absl::StatusOr<Stream*> GetOrCreateSubStream() override { return Missing(); }
  void ReturnSubStream(Stream*) override {}
  absl::Status WaitFor(Stream*) override { return Missing(); }
  absl::Status WaitFor(stream_executor::Event*) override { return Missing(); }
  absl::Status RecordEvent(stream_executor::Event*) override {
    return Missing();
  }
  absl::Status DoHostCallbackWithStatus(
      absl::AnyInvocable<absl::Status() &&>) override {
    return Missing();
  }
  stream_executor::StreamExecutor* parent() const override { return nullptr; }
  stream_executor::CudaComputeCapability GetCudaComputeCapability()
      const override {
    return {};
  }
  stream_executor::RocmComputeCapability GetRocmComputeCapability()
      const override {
    return {};
  }
  stream_executor::OneAPIComputeCapability GetOneAPIComputeCapability()
      const override {
    return {};
  }
  std::variant<stream_executor::StreamPriority, int> priority() const override {
    return 0;
  }
  const std::string& GetName() const override { return name_; }
  void SetName(std::string name) override { name_ = std::move(name); }

 private:
  static absl::Status Missing() { return absl::UnimplementedError("fake GPU"); }

  CUstream stream_;
  std::string name_;
};

// The distance in bytes of allocations from an aligned address; see
// fake_gpu_device_misalign().
std::atomic<int> misalignment{0};

// An allocator that behaves like TensorFlow's own. Freed memory is reused at
// once, although work that was enqueued earlier may still use it; later work is
// on the same stream and so runs afterwards. An allocation gets the smallest
// free piece that is large enough, and among equal pieces the one with the
// lowest address.
class FakeAllocator : public Allocator {
 public:
  std::string Name() override { return "fake GPU"; }
  void* AllocateRaw(size_t, size_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& free = free_[misalignment];
    Piece piece = {bytes, misalignment};
    void* memory = nullptr;
    if (const auto it = free.lower_bound({bytes, nullptr}); it != free.end()) {
      std::tie(piece.bytes, memory) = *it;
      free.erase(it);
    } else {
      const Scope scope;
      CUdeviceptr made = 0;
      const size_t taken = bytes + piece.misalignment;
      if (cuMemAlloc(&made, taken) != CUDA_SUCCESS) return nullptr;
      memory = reinterpret_cast<void*>(made + piece.misalignment);
      taken_ += taken;
    }
    used_[memory] = piece;
    allocated_ += bytes;
    return memory;
  }
  // Returns the number of bytes of all allocations until now.
  int64_t allocated() {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocated_;
  }
  // Returns the number of bytes that the allocator has taken from the driver.
  int64_t taken() {
    std::lock_guard<std::mutex> lock(mutex_);
    return taken_;
  }
  void DeallocateRaw(void* memory) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = used_.find(memory);
    free_[it->second.misalignment].insert({it->second.bytes, memory});
    used_.erase(it);
  }

 private:
  struct Piece {
    size_t bytes;
    int misalignment;
  };

  std::mutex mutex_;
  // Maps each misalignment to the free pieces: their sizes and addresses.
  std::map<int, std::set<std::pair<size_t, void*>>> free_;
  std::map<void*, Piece> used_;
  int64_t allocated_ = 0;
  int64_t taken_ = 0;
};

// The stream and the allocator of the GPU. All devices share them.
FakeStream* TheStream() {
  static auto* const stream = new FakeStream;
  return stream;
}
FakeAllocator* TheAllocator() {
  static auto* const allocator = new FakeAllocator;
  return allocator;
}

class FakeContext : public DeviceContext {
 public:
  explicit FakeContext(FakeStream* stream) : stream_(stream) {}
  stream_executor::Stream* stream() const override { return stream_; }

  void CopyCPUTensorToDevice(const Tensor* from, Device*, Tensor* to,
                             StatusCallback done, bool) const override {
    DeviceAddressBase memory(to->data(), to->TotalBytes());
    done(Finish(stream_->Memcpy(&memory, from->data(), from->TotalBytes())));
  }
  void CopyDeviceTensorToCPU(const Tensor* from, absl::string_view, Device*,
                             Tensor* to, StatusCallback done) override {
    const DeviceAddressBase memory(from->data(), from->TotalBytes());
    done(Finish(stream_->Memcpy(to->data(), memory, from->TotalBytes())));
  }
  void CopyTensorInSameDevice(const Tensor* from, Device*, Tensor* to,
                              StatusCallback done) const override {
    DeviceAddressBase target(to->data(), to->TotalBytes());
    const DeviceAddressBase source(from->data(), from->TotalBytes());
    done(stream_->Memcpy(&target, source, from->TotalBytes()));
  }

 private:
  absl::Status Finish(absl::Status status) const {
    return status.ok() ? stream_->BlockHostUntilDone() : status;
  }

  FakeStream* const stream_;
};

class FakeDevice : public tensorflow::LocalDevice {
 public:
  FakeDevice(const tensorflow::SessionOptions& options,
             const std::string& prefix)
      : LocalDevice(
            options,
            Device::BuildDeviceAttributes(
                prefix + "/device:GPU:0", tensorflow::DEVICE_GPU,
                tensorflow::Bytes(1 << 30), tensorflow::DeviceLocality())),
        context_(new FakeContext(TheStream())) {
    info_.stream = TheStream();
    info_.default_context = context_;
    info_.gpu_id = 0;
    set_tensorflow_accelerator_device_info(&info_);
  }
  ~FakeDevice() override { context_->Unref(); }

  Allocator* GetAllocator(AllocatorAttributes attributes) override {
    if (attributes.on_host()) return tensorflow::cpu_allocator();
    return TheAllocator();
  }
  absl::Status Sync() override { return TheStream()->BlockHostUntilDone(); }
  absl::Status TryGetDeviceContext(DeviceContext** context) override {
    context_->Ref();
    *context = context_;
    return absl::OkStatus();
  }
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   const AllocatorAttributes attributes,
                                   Tensor* tensor) override {
    Tensor parsed(proto.dtype());
    if (!parsed.FromProto(tensorflow::cpu_allocator(), proto)) {
      return absl::InvalidArgumentError("malformed tensor");
    }
    if (attributes.on_host()) {
      *tensor = std::move(parsed);
      return absl::OkStatus();
    }
    Tensor copy(TheAllocator(), parsed.dtype(), parsed.shape());
    absl::Status status;
    context_->CopyCPUTensorToDevice(
        &parsed, this, &copy, [&](const absl::Status& s) { status = s; }, true);
    *tensor = std::move(copy);
    return status;
  }

 private:
  FakeContext* const context_;
  AcceleratorDeviceInfo info_;
};

class FakeDeviceFactory : public tensorflow::DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    devices->push_back("/physical_device:GPU:0");
    return absl::OkStatus();
  }
  absl::Status CreateDevices(
      const tensorflow::SessionOptions& options, const std::string& prefix,
      std::vector<std::unique_ptr<Device>>* devices) override {
    devices->push_back(std::make_unique<FakeDevice>(options, prefix));
    // TensorFlow's device 0 is CUDA's device 0.
    return tensorflow::GpuIdManager::InsertTfPlatformDeviceIdPair(
        tsl::TfDeviceId(0), tsl::PlatformDeviceId(0));
  }
};

const bool kRegistered = [] {
  // The priority is above that of TensorFlow's own factory for GPUs, 210.
  tensorflow::DeviceFactory::Register(tensorflow::DEVICE_GPU,
                                      std::make_unique<FakeDeviceFactory>(),
                                      /*priority=*/230,
                                      /*is_pluggable_device=*/false);
  return true;
}();

}  // namespace

// Places tensors that are allocated from now on `bytes` bytes behind an aligned
// address.
extern "C" void fake_gpu_device_misalign(int bytes) { misalignment = bytes; }

// Returns the bytes of device memory that TensorFlow's allocator has taken.
extern "C" int64_t fake_gpu_device_taken() { return TheAllocator()->taken(); }

// Returns the bytes of all allocations of TensorFlow's allocator until now.
extern "C" int64_t fake_gpu_device_allocated() {
  return TheAllocator()->allocated();
}
